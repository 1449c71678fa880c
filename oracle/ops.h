/* oracle/ops.h: private to oracle/
 * Everything but the products, in the canonical arithmetic, for one row or one unit of work at a time.
 * oracle/ops_impl.h is compiled once per instruction set; all give the same bits. */
#ifndef ZINC_ORACLE_OPS_H
#define ZINC_ORACLE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kargs.h"
#include "kernels/qtypes.h"

enum {
    ATTN_TILE = 256,   /* positions of a tile, canonical                                       */
    ATTN_BLOCK = 32,   /* query vectors of a unit                                              */
    ATTN_MAX_DIM = 512,
    GDN_MAX_DIM = 256,
    GDN_MAX_TAPS = 8,
};

/* What a product becomes: y = softcap((t + b) * scale[r] + resid). NULL and 0: skipped. */
struct op_finish {
    const float *b, *scale, *resid;
    size_t ldr;
    float softcap;
};

/* Query vectors of rows [row0, row0 + n_rows) of one slot and heads [head0, head0 + n_heads) of one kv head. */
struct op_attn {
    const ka_attn *a; /* host addresses */
    const ka_row *rows;
    uint32_t row0, n_rows, head0, n_heads;
    uint32_t tile;    /* only this tile, partial results to part; UINT32_MAX: all tiles, finished rows to y */
    float *part;      /* [n_rows, n_heads] at part_ld floats: m, l, o[head_dim] */
    size_t part_ld;
    float *scratch;   /* op_attn_floats(head_dim) */
};

static inline size_t op_attn_floats(uint32_t head_dim)
{
    return (size_t)ATTN_BLOCK * head_dim + 8 * (size_t)head_dim + 8 * ATTN_TILE + 64;
}

/* One v-head of a gated DeltaNet over all rows of the step, value dimensions [j0, j1). */
struct op_gdn {
    const ka_gdn *a;
    const ka_row *rows;
    uint32_t n_rows, head, j0, j1;
    float *scratch; /* op_gdn_floats(rows, head_dim) */
};

static inline size_t op_gdn_floats(uint32_t rows, uint32_t head_dim)
{
    return 4 * (size_t)rows * head_dim + 2 * (size_t)rows + 64;
}

struct cpu_ops {
    const char *isa;
    /* y = [resid +] rms(x) [* w] */
    void (*norm)(float *y, const float *x, const float *w, const float *resid, uint32_t n, float eps);
    void (*add)(float *y, const float *a, const float *b, uint32_t n);
    void (*act_mul)(float *y, const float *x, const float *a, uint32_t n, enum ka_act act); /* y = act(x, a) */
    float (*cutoff)(const float *x, uint32_t n, float cut); /* mean + cut * standard deviation */
    void (*above)(float *y, const float *x, uint32_t n, float from); /* y = max(x - from, 0) */
    void (*match)(float *y, const float *x, const float *like, const float *resid, uint32_t n, float scale);
    void (*altup)(const ka_altup *a, uint32_t r); /* one row */
    void (*scale)(float *y, uint32_t n, float s); /* y *= s */
    void (*embed)(enum qtype t, const void *row, float *y, uint32_t n, float scale);
    /* rows of a tile of products, n columns of it */
    void (*finish)(float *y, size_t ldy, const float *t, size_t ldt, uint32_t rows, uint32_t n,
                   const struct op_finish *f);
    void (*gate)(float *y, size_t ldy, const float *g, const float *u, size_t ldt, uint32_t rows, uint32_t n,
                 const float *bg, const float *bu, enum ka_act act);
    /* One row r of ROPE_KV; cs: n_rot / 2 cosines, then sines. */
    void (*rope_kv)(const ka_rope_kv *a, const ka_row *row, uint32_t r, const float *cs);
    void (*attn)(const struct op_attn *u);
    /* Tiles in ascending order, the sink, and the gate: y[head_dim] of row r and head h. */
    void (*attn_merge)(const ka_attn *a, uint32_t r, uint32_t h, const float *part, size_t part_ld, uint32_t n_tiles);
    /* channels [c0, c1) over all rows */
    void (*gdn_conv)(const ka_gdn *a, const ka_row *rows, uint32_t n_rows, uint32_t c0, uint32_t c1);
    void (*gdn_step)(const struct op_gdn *u); /* o into y */
    void (*gdn_gate)(const ka_gdn *a, uint32_t r, uint32_t head);
    /* From logits with bias; writes k ids and weights, these times expert_scale[id] where given. logits may be
     * overwritten. */
    void (*topk)(float *logits, uint32_t n, uint32_t k, enum ka_gating gating, float scale, const float *expert_scale,
                 uint32_t *ids, float *weights);
    /* y[n] = [resid +] sum_j w[j] * (o_j + b_j), o_j = o[idx[j] * ldo], b_j = b + ids[j] * ldb */
    void (*mix)(float *y, const float *o, size_t ldo, const uint32_t *idx, const uint32_t *ids, const float *w,
                uint32_t k, const float *b, size_t ldb, const float *resid, uint32_t n);
    /* index of the first largest of x[0, n), *best its value; NaN never wins */
    uint32_t (*argmax)(const float *x, uint32_t n, float *best);
    float (*sigmoid)(float x);
    /* of --exact: eight sums of doubles, each of every eighth product, added in pairs */
    double (*dot64)(const float *w, const double *x, uint32_t n);
};

/* As mm_select: the best that the CPU has and at_most allows. */
const struct cpu_ops *ops_select(const char *at_most);

extern const struct cpu_ops cpu_ops_plain;
#ifdef __x86_64__
extern const struct cpu_ops cpu_ops_avx2, cpu_ops_avx512;
#endif

/* cos and sin of a rotary angle: exact to the last bit or so of f32, the same everywhere. |theta| < 2^20. */
void rope_sincos(float theta, float *s, float *c);

#endif
