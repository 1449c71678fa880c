/* rt/dispatch_impl.h: for rt/dispatch*.c and for tiers with kernels of their own (vk/lower*.c)
 * The builder. A command's function copies the command's arguments into the kernel's struct, adds what the launch
 * needs, and calls dispatch_add. */
#ifndef ZINC_RT_DISPATCH_IMPL_H
#define ZINC_RT_DISPATCH_IMPL_H

#include <stddef.h>

#include "rt/dispatch.h"

/* For tables of kernels: addresses_<struct>(), where the addresses lie in an argument struct, by its field list. */
#define DISPATCH_OFF_1(name) offsetof(cur, name),
#define DISPATCH_OFF_4(name)                                                                                           \
    offsetof(cur, name), offsetof(cur, name) + 8, offsetof(cur, name) + 16, offsetof(cur, name) + 24,
#define DISPATCH_AT_R(name, n) DISPATCH_OFF_##n(name)
#define DISPATCH_AT_W(name, n) DISPATCH_OFF_##n(name)
#define DISPATCH_AT_M(name, n) DISPATCH_OFF_##n(name)
#define DISPATCH_AT_T(name, n) DISPATCH_OFF_##n(name)
#define DISPATCH_AT_N(name, n)
#define DISPATCH_AT_E(name, n)
#define DISPATCH_FIELD(type, name, count, kind) DISPATCH_AT_##kind(name, count)
#define DISPATCH_ADDRESSES(sname, list)                                                                                \
    __attribute__((unused)) static const uint16_t *addresses_##sname(void)                                             \
    {                                                                                                                  \
        typedef sname cur;                                                                                             \
        static const uint16_t off[] = { list(DISPATCH_FIELD) UINT16_MAX };                                             \
        return off;                                                                                                    \
    }

struct dispatcher {
    const struct stream *s;
    const struct dispatch_target *t;
    struct dispatch_plan *p;
    struct err *e;
    int rc;            /* of the first failure */
    uint32_t cmd;      /* being lowered        */
    uint32_t max_rows; /* of a step            */
    bool rows, prompt; /* class of kernels (kernels/klaunch.h); neither: decode */
    bool small;        /* no product of the step's rows reads more than SMALL_BYTES of weights */
    uint64_t temp_at;  /* taken by this command */
    uint64_t temp_base; /* what stays beyond a command lies below: the sorted pairs */
    gpu_va chosen;      /* ids of the last router, */
    uint32_t router;    /* and its launch          */
    kl_moe_sort sorted; /* of the last MOE_UP, until its MOE_DOWN; ids 0: none */
    const ka_norm *pre; /* the command before, which this one's launch does; NULL: none */
    const ka_act_mul *pre_act; /* the same                                             */
    const ka_rope_kv *pre_rope; /* the same                                            */
    const ka_router *pre_router; /* the same                                           */
    const ka_matmul *pre_shared; /* the same                                           */
    kl_router routed; /* the last router */
    gpu_va logits; /* of the last router, where those who want its choice make it; 0: ids and weights are there */
};

/* Rows that a command of these rows processes at most. */
uint32_t dispatch_rows(const struct dispatcher *d, enum ka_rows rows);
/* args: the kernel's whole struct, stream addresses inside. Returns the launch until the next one is added, or NULL. */
struct dispatch *dispatch_add(struct dispatcher *d, uint32_t k, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t shared,
                              const void *args);
/* Memory for this command only, 256-aligned, contents undefined; n counters that are 0 and end as 0. */
/* l (NULL is fine) begins when the launch before it has ended. Work-groups that are started while others run lie where those leave
 * room, several on one core, and stay there: what a short launch gains by an early start, one that takes long loses. */
void dispatch_begin_after(struct dispatch *l);
gpu_va dispatch_temp(struct dispatcher *d, uint64_t bytes);
gpu_va dispatch_counters(struct dispatcher *d, uint32_t n);

/* The buffer at that field of a command's arguments; NULL: no address there. Do two lie apart? */
const struct stream_buf *dispatch_buf_at(const struct stream *s, uint32_t cmd, size_t field_off);
bool dispatch_apart(const struct stream_buf *a, const struct stream_buf *b);

/* rt/dispatch.c, decode class. Work-groups that share `units` pieces of work: all of them resident at once, so that none waits
 * for another. Shared memory for the types' codebooks. A single row's product, where rows are aligned to 16 bytes and gate and up
 * of one type: the launch, but for what d->pre adds; false: another kernel has to serve. */
uint32_t dispatch_resident(const struct dispatcher *d, uint32_t units, uint32_t shared);
uint32_t dispatch_book_bytes(const struct dispatcher *d, const uint32_t *types, uint32_t n);
bool dispatch_one_row(const struct dispatcher *d, const ka_matmul *a, bool gate_up, kl_matvec *k, uint32_t *groups);

/* rt/dispatch_gemm.c: products of many rows, in C kernels and shaders. Types are bits, 1 << enum qtype. */
uint64_t dispatch_gemm_types(const ka_matmul *a);
kl_gemm dispatch_gemm(enum cmd_op op, const ka_matmul *a); /* of CMD_MATMUL, _PROJ, _GATE_UP; without inputs and matrices */
/* Into g those matrices whose types are among these; returns how many. */
uint32_t dispatch_gemm_pick(kl_gemm *g, const ka_matmul *from, uint64_t types);
/* Arguments of the launch that lists pairs of rows and experts by expert: [n_pos] positions, into g->map, in n_slots tiles,
 * into g->tiles. ids: [rows of the step, k]. */
kl_moe_sort dispatch_gemm_sort(struct dispatcher *d, kl_gemm *g, gpu_va ids, uint32_t n_expert, uint32_t k);

/* Matrices of types with kernels for few rows alone (QTYPE_BOOK), opened into temporary memory (kernels/open.c). A tier says
 * how: n matrices of so many weights each. */
typedef void dispatch_open_fn(struct dispatcher *d, const kl_open *o, uint32_t weights, uint32_t n);
typedef void dispatch_gemm_fn(struct dispatcher *d, kl_gemm *g, void *user);
/* The products of g's matrices, all of one such type, some rows of weights at a time; the memory is free again then. */
void dispatch_gemm_opened(struct dispatcher *d, const kl_gemm *g, dispatch_open_fn *open, dispatch_gemm_fn *multiply, void *user);
/* Of experts all are opened, which pays where each has some rows, by the rows that the stream has room for; true for other
 * types. rows: of weights of an expert. */
bool dispatch_open_pays(const struct dispatcher *d, uint32_t type, uint32_t k, uint32_t n_expert, uint64_t rows, uint32_t n_in);
void dispatch_open_experts(struct dispatcher *d, kl_gemm *g, uint32_t n_expert, dispatch_open_fn *open);

/* Commands whose kernels for many rows are elsewhere than rt/dispatch.c. Each returns false when it has none for this
 * command (types, shapes): the decode kernels serve then, pass by pass. Products, routers and experts: in both classes. */
bool dispatch_many_products(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
bool dispatch_many_moe_up(struct dispatcher *d, const ka_moe_up *a);
bool dispatch_many_moe_down(struct dispatcher *d, const ka_moe_down *a);
/* rt/dispatch_experts.c; of MOE_DOWN the products alone: where they are, f32 [rows, k, n_out], or 0 for false. */
bool dispatch_experts_up(struct dispatcher *d, const ka_moe_up *a);
gpu_va dispatch_experts_down(struct dispatcher *d, const ka_moe_down *a);
bool dispatch_prompt_attn(struct dispatcher *d, const ka_attn *a);
bool dispatch_group_attn(struct dispatcher *d, const ka_attn *a);
/* Is the ROPE_KV being lowered done by the launch of the ATTN behind it? Then d->pre_rope; and the launch of that ATTN, from
 * what it would be alone with `shared` bytes of shared memory: returns those that it needs. */
bool dispatch_rope_by_attn(const struct dispatcher *d, const ka_rope_kv *a);
uint32_t dispatch_take_rope(struct dispatcher *d, const kl_attn *alone, uint32_t shared, kl_attn_rope *k);
bool dispatch_prompt_gdn(struct dispatcher *d, const ka_gdn *a);
bool dispatch_many_router(struct dispatcher *d, const ka_router *a);
/* The decode class of ROUTER, MOE_UP and MOE_DOWN, rt/dispatch_moe.c. */
void dispatch_router(struct dispatcher *d, const ka_router *a);
void dispatch_moe_up(struct dispatcher *d, const ka_moe_up *a);
void dispatch_moe_down(struct dispatcher *d, const ka_moe_down *a);
/* The shared expert's products of a single row: does the launch of the ROUTER before this command, or of the MOE_DOWN behind it,
 * do what it does? */
bool dispatch_shared_expert(struct dispatcher *d, enum cmd_op op, const ka_matmul *a);
/* The decode class of GDN, rt/dispatch_gdn.c. */
void dispatch_gdn(struct dispatcher *d, const ka_gdn *a);

/* Sets every launch's `wait`, while arguments still hold stream addresses: between launches of one command that are not
 * at the same time, where a command waits for one that was launched since the last barrier, and between commands that
 * use private memory, which they share. */
void dispatch_find_waits(struct dispatch_plan *p, const struct stream *s);
/* Where a launch can begin while the one before runs (target.ahead): those that need not wait for it do so at their end. */
void dispatch_find_late(struct dispatch_plan *p);

#endif
