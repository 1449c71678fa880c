/* vk/lower.c: commands to launches: variants, and who lowers what. */
#include "vk/lower.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"

#define X(sname, list) DISPATCH_ADDRESSES(sname, list)
KL_LIST(X)
VK_LIST(X)
#undef X

const struct kernel_info vk_kernels[VK_KERNEL_COUNT] = {
#define VK_KERNEL(name, args) { "k_" #name, #name, sizeof(args), 0, addresses_##args },
#include "vk/kernels.def"
#undef VK_KERNEL
};

struct vk_shape vk_shape(struct dispatcher *d, uint32_t threads)
{
    const struct vk_caps *c = vk_caps(d);
    threads = MAX(MIN(threads, c->threads) / c->wave * c->wave, c->wave);
    return (struct vk_shape){ .n = 2, .v = { threads, c->wave } };
}

uint32_t vk_variant_of(struct vk_lowering *l, const struct vk_variant *x)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->variant[i].kernel == x->kernel && l->variant[i].shape.n == x->shape.n &&
            memcmp(l->variant[i].shape.v, x->shape.v, x->shape.n * sizeof *x->shape.v) == 0)
            return i;
    if (l->n == l->cap) {
        uint32_t cap = MAX(2 * l->cap, 64u);
        struct vk_variant *v = realloc(l->variant, cap * sizeof *v);
        if (!v)
            return UINT32_MAX;
        l->variant = v;
        l->cap = cap;
    }
    l->variant[l->n] = *x;
    return l->n++;
}

static struct dispatch *add(struct dispatcher *d, enum vk_kernel k, const struct vk_shape *s, uint32_t gx, uint32_t gy,
                            uint32_t gz, const void *args)
{
    const uint32_t grid[3] = { gx, gy, gz };
    CHECK(s->n >= 2 && s->n <= VK_SPECS);
    for (int i = 0; i < 3 && !d->rc; i++)
        if (grid[i] > vk_caps(d)->max_grid[i])
            d->rc = err_set(d->e, -ENOTSUP, "vulkan: command %u (%s) wants %u work-groups along %c, the device takes %u: "
                            "a smaller --chunk", d->cmd, cmd_name(d->s->cmds[d->cmd].op), grid[i], "xyz"[i],
                            vk_caps(d)->max_grid[i]);
    uint32_t v = vk_variant_of(vk_lowering(d), &(struct vk_variant){ k, *s });
    if (v == UINT32_MAX && !d->rc)
        d->rc = err_set(d->e, -ENOMEM, "vulkan: table of kernels");
    struct dispatch *x = dispatch_add(d, k, gx, gy, gz, 0, args);
    if (x)
        x->variant = (uint16_t)v;
    return x;
}

void vk_add(struct dispatcher *d, enum vk_kernel k, const struct vk_shape *s, uint32_t gx, uint32_t gy, uint32_t gz,
            const void *args)
{
    add(d, k, s, gx, gy, gz, args);
}

void vk_add_concurrent(struct dispatcher *d, enum vk_kernel k, const struct vk_shape *s, uint32_t gx, uint32_t gy,
                   uint32_t gz, const void *args)
{
    struct dispatch *x = add(d, k, s, gx, gy, gz, args);
    if (x)
        x->concurrent = true;
}

void vk_lower(struct dispatcher *d, enum cmd_op op, const void *args)
{
    switch (op) {
    case CMD_EMBED: vk_lower_embed(d, args); break;
    case CMD_NORM: vk_lower_norm(d, args); break;
    case CMD_ADD: vk_lower_add(d, args); break;
    case CMD_ACT_MUL: vk_lower_act_mul(d, args); break;
    case CMD_MATCH: vk_lower_match(d, args); break;
    case CMD_ALTUP: vk_lower_altup(d, args); break;
    case CMD_STEP_OUT: vk_lower_step_out(d, args); break;
    case CMD_GATHER: vk_lower_gather(d, args); break;
    case CMD_ARGMAX: vk_lower_argmax(d, args); break;
    case CMD_ROPE_KV: vk_lower_rope_kv(d, args); break;
    case CMD_ATTN: vk_lower_attn(d, args); break;
    case CMD_GDN: vk_lower_gdn(d, args); break;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP:
        if ((!d->prompt && vk_matvec_fits(d, op, args)) || !vk_gemm_products(d, op, args))
            vk_lower_matvec(d, op, args);
        break;
    case CMD_ROUTER:
        if (!d->prompt || !vk_gemm_router(d, args))
            vk_lower_router(d, args);
        break;
    case CMD_MOE_UP:
        if (!d->prompt || !vk_gemm_moe_up(d, args))
            vk_lower_moe_up(d, args);
        break;
    case CMD_MOE_DOWN:
        if (!d->prompt || !vk_gemm_moe_down(d, args))
            vk_lower_moe_down(d, args);
        break;
    case CMD_NOP:
    case CMD_COUNT: break;
    }
}
