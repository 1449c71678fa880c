/* oracle/mm.h
 * Products of the cpu tier in the canonical arithmetic (kernels/kargs.h). Weights are packed losslessly into panels of
 * 16 rows, interleaved so that a SIMD lane owns a row: the plain order over blocks is the fast one, and every
 * instruction set, thread count and row count gives the same bits. A panel has the size of its 16 rows in the file.
 * Activations of block types are quantised once per product (struct mm_act), F32, F16 and BF16 weights take them as
 * they are.
 *
 *     mm_pack(type, n_in, rows, 16, panel)                      once (or into a thread's scratch, each time)
 *     k->quant(x, n_in, &act, row)                              once per product and row
 *     k->dot(type, n_rows)(n_in, panels, ...)                   panels over threads, all rows of x at once */
#ifndef ZINC_ORACLE_MM_H
#define ZINC_ORACLE_MM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/qtypes.h"

enum { MM_ROWS = 16 /* weight rows of a panel */ };

/* Activations of up to `cap` rows, quantised: views into caller memory of mm_act_bytes(cap, n_in) bytes, 64-aligned.
 * A block of 32 with an infinity or a NaN gets d = NaN and all q = 0, so that its product is NaN and nothing traps.
 * Scales of one block of all rows lie together: threads that quantise runs of 16 rows do not share cache lines. */
struct mm_act {
    uint32_t n_in, cap;
    uint32_t ldq, ldd; /* bytes between rows of q; rows that d, dx and s16 have room for */
    int8_t *q;         /* [cap + some, ldq]; kernels may read, and ignore, rows past cap  */
    float *d;          /* [n_in / 32, ldd] scales                                         */
    float *dx;         /* [n_in / 32, ldd] d * sum of q, for types with a minimum         */
    int16_t *s16;      /* [n_in / 32, ldd, 2] sums of q over runs of 16                   */
    uint16_t *b;       /* [cap + some, ldq] amx: q * 2^-24 as bfloat16; avx2: q, of a run of 32 the even elements, then the odd */
    uint8_t *u;        /* [cap + some, ldq] avx2: q + 128                                 */
};
size_t mm_act_bytes(uint32_t cap, uint32_t n_in);
void mm_act_init(struct mm_act *a, uint32_t cap, uint32_t n_in, void *mem);

/* Bytes of one panel: 16 rows of the file. n_in is a multiple of the type's block. */
size_t mm_panel_bytes(enum qtype t, uint32_t n_in);

/* Packs n_rows (1..16, missing ones are zero) rows of the file's layout, row_bytes apart, into `panel`. Any alignment
 * works; a first panel at a multiple of 64 makes all loads aligned for n_in a multiple of 128. */
void mm_pack(enum qtype t, uint32_t n_in, const uint8_t *rows, size_t row_bytes, uint32_t n_rows, uint8_t *panel);

/* The inverse, for tests: the packing loses nothing. */
void mm_unpack(enum qtype t, uint32_t n_in, const uint8_t *panel, uint32_t n_rows, uint8_t *rows, size_t row_bytes);

/* y[r * ldy + 16 * p + lane] = row `lane` of panel p . x row r, for r in [0, n_rows), p in [0, n_panels): exactly
 * the canonical accumulator, before bias. Panels lie one behind the other, mm_panel_bytes apart; give at least 2 to
 * a call where there are as many, some kernels work on pairs. Block types read rows [row0, row0 + n_rows) of `a`,
 * the others x (f32 rows, ldx apart, already offset to row0). `scratch` is the calling thread's own,
 * mm_scratch_bytes(n_in) bytes, 64-aligned. All 16 lanes of each panel are written; y must not overlap the inputs. */
typedef void mm_dot_fn(uint32_t n_in, const uint8_t *panels, uint32_t n_panels, const struct mm_act *a, uint32_t row0,
                       const float *x, size_t ldx, uint32_t n_rows, float *y, size_t ldy, void *scratch);
size_t mm_scratch_bytes(uint32_t n_in);

/* The kernels of one instruction set. */
struct mm_kernels {
    const char *isa; /* "plain", "avx2", "avxvnni", "avx512", "vbmi", "amx"; "neon", "dotprod" */
    void (*quant)(const float *x, uint32_t n_in, const struct mm_act *a, uint32_t row); /* n_in % 32 == 0 */
    mm_dot_fn *(*dot)(enum qtype t, uint32_t n_rows); /* never NULL for a type of qtypes.def; may differ by n_rows */
};

static inline bool mm_type_is_block(enum qtype t)
{
    return t != QT_F32 && t != QT_F16 && t != QT_BF16;
}

/* The best set that this CPU has and `at_most` allows: NULL, no limit; else what stands before it in plain, neon, dotprod, avx2,
 * avx512, vbmi, amx, or it. "plain" always exists. Unknown names: NULL. Any thread of the process may use the result. */
const struct mm_kernels *mm_select(const char *at_most);

#endif
