/* vk/lower.h: private to vk/
 * From commands to launches of the Vulkan kernels: which kernel, which constants, how the work is cut. Pure functions of
 * the stream and of what the device can do (vk_caps); nothing here talks to a driver.
 *
 *     void vk_lower_norm(struct dispatcher *d, const ka_norm *a)
 *     {
 *         struct vk_shape s = vk_shape(d, 256);              threads; spec constants 2 and up follow by vk_spec
 *         vk_add(d, VK_norm, &s, dispatch_rows(d, a->rows), 1, 1, a);
 *     }
 *
 * A kernel compiled with one set of constants is a variant; equal ones are found again by vk_add. */
#ifndef ZINC_VK_LOWER_H
#define ZINC_VK_LOWER_H

#include "rt/dispatch_impl.h"
#include "vk/vkargs.h"

enum vk_kernel {
#define VK_KERNEL(name, args) VK_##name,
#include "vk/kernels.def"
#undef VK_KERNEL
    VK_KERNEL_COUNT
};
extern const struct kernel_info vk_kernels[VK_KERNEL_COUNT]; /* .name without the k_; .module is the name; .threads 0 */

enum vk_coopmat { VK_COOPMAT_NONE, VK_COOPMAT_KHR, VK_COOPMAT_LOOPS /* the same kernels with plain loops, for tests */ };

/* What a device can do, as the kernels' launches need to know it. */
struct vk_caps {
    uint32_t wave;           /* lanes of a subgroup in every pipeline: 4, 8, 16, 32 or 64                       */
    uint32_t threads;        /* work-groups of this size suit it at most: 256 on GPUs, fewer in software         */
    uint32_t cores;          /* multiprocessors or compute units; an estimate where no extension says            */
    uint32_t shared_max;     /* bytes of shared memory of a work-group: at least 16 KiB, often 32 or 48          */
    uint32_t max_grid[3];
    bool software;           /* lavapipe and its like: few threads, no gain from occupancy                       */
    bool dot4;               /* kernels with SPIR-V's integer dot product (they are exact without, too)          */
    bool fast_dot4;          /* the device has instructions for it                                               */
    enum vk_coopmat coopmat; /* f16 x f16 -> f32 at subgroup scope                                               */
    bool coopmat_attn;       /* also for attention                                                               */
    uint32_t cm_m, cm_n, cm_k;
};

enum { VK_SPECS = 14 };
struct vk_shape {
    uint32_t n, v[VK_SPECS]; /* by constant_id: 0 threads, 1 wave, 2 and up the kernel's own */
};
struct vk_variant {
    enum vk_kernel kernel;
    struct vk_shape shape;
};
/* dispatch_target.user of the vulkan tier. */
struct vk_lowering {
    struct vk_caps caps;
    struct vk_variant *variant; /* dispatch.variant indexes them */
    uint32_t n, cap;
};

static inline struct vk_lowering *vk_lowering(struct dispatcher *d)
{
    return d->t->user;
}
static inline const struct vk_caps *vk_caps(struct dispatcher *d)
{
    return &vk_lowering(d)->caps;
}

/* At most `threads` work-items, fewer where the device wants fewer; a multiple of the wave. */
struct vk_shape vk_shape(struct dispatcher *d, uint32_t threads);
/* The next constant. */
static inline void vk_spec(struct vk_shape *s, uint32_t v)
{
    s->v[s->n++] = v;
}
/* The number of a variant, new or known; UINT32_MAX: no memory. */
uint32_t vk_variant_of(struct vk_lowering *l, const struct vk_variant *x);
/* A launch that waits for the ones before it. args as in dispatch_add. */
void vk_add(struct dispatcher *d, enum vk_kernel k, const struct vk_shape *s, uint32_t gx, uint32_t gy, uint32_t gz,
            const void *args);
/* A launch that may run while the one added just before it does (of the same command, writing elsewhere). */
void vk_add_concurrent(struct dispatcher *d, enum vk_kernel k, const struct vk_shape *s, uint32_t gx, uint32_t gy,
                   uint32_t gz, const void *args);

/* The commands, by file. d->prompt: the stream is for prompts (row_cap > KL_DECODE_ROWS). */
void vk_lower_embed(struct dispatcher *d, const ka_embed *a);    /* vk/lower_basic.c  */
void vk_lower_norm(struct dispatcher *d, const ka_norm *a);
void vk_lower_add(struct dispatcher *d, const ka_add *a);
void vk_lower_act_mul(struct dispatcher *d, const ka_act_mul *a);
void vk_lower_match(struct dispatcher *d, const ka_match *a);
void vk_lower_altup(struct dispatcher *d, const ka_altup *a);
void vk_lower_step_out(struct dispatcher *d, const ka_step_out *a);
void vk_lower_gather(struct dispatcher *d, const ka_gather *a);
void vk_lower_argmax(struct dispatcher *d, const ka_argmax *a);
void vk_lower_rope_kv(struct dispatcher *d, const ka_rope_kv *a); /* vk/lower_attn.c  */
void vk_lower_attn(struct dispatcher *d, const ka_attn *a);
void vk_lower_gdn(struct dispatcher *d, const ka_gdn *a);         /* vk/lower_gdn.c   */
/* MATMUL, PROJ, GATE_UP with up to KL_DECODE_ROWS rows, or more where no other kernel will: pass by pass. Where not even one row
 * fits into shared memory (vk_matvec_fits is false) the kernels of prompts take it, in parts. */
bool vk_matvec_fits(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
void vk_lower_matvec(struct dispatcher *d, enum cmd_op op, const ka_matmul *a); /* vk/lower_matvec.c */
void vk_lower_router(struct dispatcher *d, const ka_router *a);   /* vk/lower_moe.c: decode's, and the prompt's choice */
void vk_lower_moe_up(struct dispatcher *d, const ka_moe_up *a);
void vk_lower_moe_down(struct dispatcher *d, const ka_moe_down *a);
/* Prompts' products, vk/lower_gemm.c: false where it has no kernel for the command (types, shapes). */
bool vk_gemm_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
bool vk_gemm_router(struct dispatcher *d, const ka_router *a);
bool vk_gemm_moe_up(struct dispatcher *d, const ka_moe_up *a);
bool vk_gemm_moe_down(struct dispatcher *d, const ka_moe_down *a);

/* dispatch_target.lower */
void vk_lower(struct dispatcher *d, enum cmd_op op, const void *args);

#endif
