/* kernels/experts.c: MOE_UP, and the products of MOE_DOWN, where many rows go to so many experts that each gets a few of them
 * (KL_EXPERTS). Compiled once per type of weights with KD_SET=<set>; the kernel is k_experts_<set>.
 *
 * Every work-group sorts the step's pairs of row and choice by their expert, for itself, into entries of up to EX_COLS pairs of one
 * expert. The tiles of all entries' matrices, one after the other, are cut into as many parts as there are work-groups, and each of
 * a part's entries is multiplied by matrix instructions for signed bytes (kernels/hw/mma8.h): a warp has a tile of 16 weight rows,
 * or eight of gate and the same of up, and the entry's pairs are the columns, whose codes are made in shared memory.
 *
 * The order of a sum (doc/arithmetic.md): along k in ascending order, run by run, whoever else chose the expert. */
#include "kernels/experts_shared.h"
#include "kernels/hw/mma8.h"
#include "kernels/klaunch.h"
#include "kernels/qset.h"
#include "kernels/wrun.h"
#include "kernels/xquant.h"

enum { EX_START = 0x4b400000 }; /* the bits of 1.5 * 2^23: with an integer added they are that float plus the integer */
#define EX_MAGIC 12582912.0f

/* ---- the entries: pairs by expert ---- */

struct ex_list {
    KD_SHARED uint32_t *place; /* [pairs] a pair's expert << 16, and which of its pairs it is */
    KD_SHARED uint32_t *first; /* [experts] where an expert's pairs begin, their number before */
    KD_SHARED uint32_t *pair;  /* [pairs] pairs by expert */
    KD_SHARED uint32_t *entry; /* [entries] expert << 16 | first pair << 4 | pairs */
    KD_SHARED uint32_t *sums;  /* [warps], the number of entries */
};
_Static_assert(EX_MAX_PAIRS <= 1 << 12 && EX_MAX_EXPERTS <= 1 << 16 && EX_COLS < 16, "an entry is a word");

KD_FN struct ex_list ex_list(const kl_experts *a, uint32_t at)
{
    struct ex_lists s = ex_lists(a->n_expert, a->cap * a->k);
    return (struct ex_list){ KD_SHARED_AT(uint32_t, at), KD_SHARED_AT(uint32_t, at + s.first), KD_SHARED_AT(uint32_t, at + s.pair),
                             KD_SHARED_AT(uint32_t, at + s.entry), KD_SHARED_AT(uint32_t, at + s.sums) };
}

/* What the work-items before this one have. */
KD_FN uint32_t ex_before(uint32_t own, KD_SHARED uint32_t *sums)
{
    uint32_t v = own;
    KD_UNROLL
    for (uint32_t d = 1; d < KD_WARP; d *= 2) {
        uint32_t other = kd_shfl_u32(v, (kd_lane() - d) % KD_WARP);
        v += kd_lane() >= d ? other : 0;
    }
    if (kd_lane() == KD_WARP - 1)
        sums[kd_warp()] = v;
    kd_barrier();
    v -= own;
    for (uint32_t w = 0; w < kd_warp(); w++)
        v += sums[w];
    return v;
}

/* The entries of experts [e, end), from the j-th on; `pairs` come before. */
KD_FN void ex_entries(const struct ex_list *t, uint32_t e, uint32_t end, uint32_t pairs, uint32_t j)
{
    for (; e < end; e++) {
        uint32_t n = t->first[e];
        t->first[e] = pairs;
        for (; n; j++) {
            uint32_t take = kd_min_u32(n, EX_COLS);
            t->entry[j] = e << 16 | pairs << 4 | take;
            pairs += take;
            n -= take;
        }
    }
    if (kd_tid() == EX_THREADS - 1)
        t->sums[EX_WARPS] = j;
}

KD_FN uint32_t ex_count(KD_SHARED uint32_t *count) { return __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }

/* An expert's pairs were counted in any order, another one in each work-group. Where they are several entries, those that share
 * their tiles must agree which pair is in which: ascending. */
KD_FN void ex_order(const kl_experts *a, const struct ex_list *t, uint32_t pairs)
{
    for (uint32_t p = kd_tid(); p < pairs; p += EX_THREADS) {
        uint32_t e = t->place[p] >> 16, first = t->first[e], n = (e + 1 < a->n_expert ? t->first[e + 1] : pairs) - first, less = 0;
        for (uint32_t i = 0; i < n && n > EX_COLS; i++)
            less += t->pair[first + i] < p;
        t->place[p] = n > EX_COLS ? e << 16 | less : ~0u;
    }
    kd_barrier();
    for (uint32_t p = kd_tid(); p < pairs; p += EX_THREADS)
        if (t->place[p] != ~0u)
            t->pair[t->first[t->place[p] >> 16] + (t->place[p] & 0xffff)] = p;
    kd_barrier();
}

KD_FN void ex_sort(const kl_experts *a, const struct ex_list *t, uint32_t pairs)
{
    uint32_t run = kd_div_up(a->n_expert, EX_THREADS), e0 = kd_min_u32(kd_tid() * run, a->n_expert), e1 = kd_min_u32(e0 + run, a->n_expert);
    for (uint32_t p = kd_tid(); p < a->cap * a->k; p += EX_THREADS) { /* asked for while the number of rows is on its way */
        uint32_t e = kd_min_u32(KD_PTR(const uint32_t, a->ids)[p], a->n_expert - 1);
        if (p < pairs)
            t->place[p] = e << 16 | ex_count(&t->first[e]);
    }
    kd_barrier();
    uint32_t own = 0; /* pairs << 16 | entries */
    for (uint32_t e = e0; e < e1; e++)
        own += t->first[e] << 16 | kd_div_up(t->first[e], EX_COLS);
    uint32_t before = ex_before(own, t->sums);
    ex_entries(t, e0, e1, before >> 16, before & 0xffff);
    kd_barrier();
    for (uint32_t p = kd_tid(); p < pairs; p += EX_THREADS)
        t->pair[t->first[t->place[p] >> 16] + (t->place[p] & 0xffff)] = p;
    kd_barrier();
    ex_order(a, t, pairs);
}

/* ---- the columns: the rows of an entry ---- */

struct ex_cols {
    KD_SHARED const uint32_t *pair;
    uint32_t n;
};

KD_FN gpu_va ex_row(const kl_experts *a, const struct ex_cols *cols, uint32_t c)
{
    return a->x + (uint64_t)(cols->pair[c] / a->div) * a->n_in * 4;
}

/* What goes with the scale d of a run of x whose codes add up to `sum`. */
KD_FN uint32_t ex_beside(uint32_t type, float d, int32_t sum)
{
    return wd_has_min(type) ? f32_bits(d * (float)sum) : (uint32_t)EX_START + (uint32_t)(wr_bias(type) * sum);
}

/* Elements 8 c and on of a column; the block's first lane of four writes what its runs have. */
KD_FN void ex_quant(uint32_t type, const struct ex_x *x, uint32_t col, uint32_t c, const float *v)
{
    uint32_t w[2];
    float d = xq_codes(v, w);
    uint32_t at = wr_is_wide(type) ? c / 8 * 64 + c % 4 * 16 + c / 4 % 2 * 8 : c * 8; /* a lane's words of two blocks side by side */
    *KD_SHARED_AT(kd_u32x2, x->q + col * x->ld + at) = (kd_u32x2){ w[0], w[1] };
    int32_t sum = kd_dot4(w[0], 0x01010101u, kd_dot4(w[1], 0x01010101u, 0));
    sum += (int32_t)kd_shfl_xor_u32((uint32_t)sum, 1);
    int32_t other = (int32_t)kd_shfl_xor_u32((uint32_t)sum, 2);
    if (c & 3)
        return;
    KD_SHARED kd_u32x2 *beside = KD_SHARED_AT(kd_u32x2, x->beside) + (wr_is_short(type) ? c / 2 : c / 4) * EX_COLS + col;
    if (wr_is_short(type)) {
        beside[0] = (kd_u32x2){ f32_bits(d), ex_beside(type, d, sum) };
        beside[EX_COLS] = (kd_u32x2){ f32_bits(d), ex_beside(type, d, other) };
    } else {
        beside[0] = (kd_u32x2){ f32_bits(d), ex_beside(type, d, sum + other) };
    }
}

/* Columns first .. first + 3, normed as xq_prepare does it, all asked for together. */
enum { EX_ASKED = 4 };
KD_FN void ex_prepare_normed(uint32_t type, const kl_experts *a, const struct ex_x *x, const struct ex_cols *cols, uint32_t first)
{
    struct xq_in in = { .norm = a->norm, .n_in = a->n_in, .eps = a->eps };
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    float v[EX_ASKED][8], norm[8], e[8];
    uint32_t own = kd_tid();
    xq_load_even8(norm, a->norm, own * 8, a->n_in);
    KD_UNROLL
    for (uint32_t r = 0; r < EX_ASKED; r++) /* unconditionally: else registers are held for those that are not there */
        xq_load_even8(v[r], ex_row(a, cols, kd_min_u32(first + r, cols->n - 1)), own * 8, a->n_in);
    KD_UNROLL
    for (uint32_t r = 0; r < EX_ASKED; r++) {
        if (first + r >= cols->n)
            break;
        float ss = xq_sum_squares(v[r], 0.0f);
        WD_ROLLED
        for (uint32_t c = own + EX_THREADS; c * 8 < a->n_in; c += EX_THREADS) {
            xq_load_even8(e, ex_row(a, cols, first + r), c * 8, a->n_in);
            ss = xq_sum_squares(e, ss);
        }
        ss = kd_warp_sum(ss);
        if (kd_lane() == 0)
            red[r * EX_WARPS + kd_warp()] = ss;
    }
    kd_barrier();
    KD_UNROLL
    for (uint32_t r = 0; r < EX_ASKED; r++) {
        if (first + r >= cols->n)
            break;
        float scale = xq_rms(&in, r, red);
        WD_ROLLED
        for (uint32_t c = own; c < a->n_pad / 8; c += EX_THREADS) {
            float w[8];
            if (c != own) {
                xq_load_even8(e, ex_row(a, cols, first + r), c * 8, a->n_in);
                xq_load_even8(w, a->norm, c * 8, a->n_in);
            }
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                e[k] = (c == own ? v[r][k] : e[k]) * scale * (c == own ? norm[k] : w[k]);
            ex_quant(type, x, first + r, c, e);
        }
    }
    kd_barrier();
}

/* All columns, which ends with a barrier. */
KD_FN void ex_prepare(uint32_t type, const kl_experts *a, const struct ex_x *x, const struct ex_cols *cols)
{
    uint32_t chunks = a->n_pad / 8;
    if (a->norm) {
        for (uint32_t c = 0; c < cols->n; c += EX_ASKED)
            ex_prepare_normed(type, a, x, cols, c);
        return;
    }
    for (uint32_t i = kd_tid(); i < cols->n * chunks; i += EX_THREADS) {
        float v[8];
        uint32_t col = i / chunks, c = i - col * chunks;
        xq_load_even8(v, ex_row(a, cols, col), c * 8, a->n_in);
        ex_quant(type, x, col, c, v);
    }
    kd_barrier();
}

/* ---- weights ---- */

/* Units of 128 elements that a lane has at once, of which it asks for the next ones meanwhile. Types whose scales are codes keep the
 * factors of a turn in shared memory, made by a lane for each row and unit. */
KD_FN uint32_t ex_units(uint32_t type) { return wr_is_coded(type) ? 2 : 1; }

struct ex_mat {
    struct wd_mat m, scales; /* scales: of the matrix whose rows this lane makes factors of */
    uint64_t second;         /* bytes to the other matrix of pairs, or 0 */
    uint32_t n_out, blocks, units, turns; /* of a row */
    bool pair;
};

KD_FN struct ex_mat ex_mat(uint32_t type, const kl_experts *a, uint32_t e)
{
    struct ex_mat s = { .n_out = a->n_out, .pair = a->pair, .blocks = a->n_in / qtype_block((enum qtype)type) };
    s.m = wd_mat(type, a->w[0] + e * a->stride[0], a->n_out, a->n_in);
    s.second = a->pair ? a->w[1] + e * a->stride[1] - s.m.p[0] : 0;
    s.units = kd_div_up(a->n_in, WR_UNIT);
    s.turns = kd_div_up(s.units, ex_units(type));
    s.scales = s.m;
    KD_UNROLL
    for (uint32_t f = 0; f < PLANES_MAX; f++)
        s.scales.p[f] += kd_lane() / 2 >= 8 ? s.second : 0;
    return s;
}

/* The first blocks of a tile's rows g and g + 8, and of the row whose factors this lane makes. */
struct ex_tile {
    uint32_t row[2], scales;
};
KD_FN uint32_t ex_weight_row(const struct ex_mat *s, uint32_t tile, uint32_t r)
{
    return kd_min_u32(s->pair ? tile * 8 + r % 8 : tile * 16 + r, s->n_out - 1) * s->blocks;
}
KD_FN struct ex_tile ex_tile(const struct ex_mat *s, uint32_t tile)
{
    uint32_t g = kd_lane() / 4;
    return (struct ex_tile){ { ex_weight_row(s, tile, g), ex_weight_row(s, tile, g + 8) }, ex_weight_row(s, tile, kd_lane() / 2) };
}

struct ex_turn {
    uint32_t w[2][2][WR_WORDS]; /* of each unit rows g and g + 8 */
    uint32_t scales[WR_WORDS];  /* of this lane's row and unit   */
};

KD_FN void ex_load(uint32_t type, const struct ex_mat *s, const struct ex_tile *at, uint32_t turn, struct ex_turn *t)
{
    bool coded = wr_is_coded(type);
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        struct wd_mat m = s->m;
        KD_UNROLL
        for (uint32_t f = 0; f < PLANES_MAX; f++)
            m.p[f] += i ? s->second : 0;
        KD_UNROLL
        for (uint32_t k = 0; k < ex_units(type); k++) /* blocks of coded types are two units */
            wr_load_part(type, true, !coded, t->w[k][i], &m, coded ? at->row[i] + turn : at->row[i],
                         coded ? k : kd_min_u32(turn, s->units - 1), s->blocks);
    }
    if (coded)
        wr_load_part(type, false, true, t->scales, &s->scales, at->scales + turn, kd_lane() % 2, s->blocks);
}

/* The factors of a turn: of each run those of 16 rows, one or two floats each. */
KD_FN void ex_factors(uint32_t type, uint32_t at, const struct ex_turn *t)
{
    uint32_t r = kd_lane() / 2, unit = kd_lane() % 2;
    kd_warp_sync();
    KD_UNROLL
    for (uint32_t k = 0; k < wr_runs(type); k++) {
        float d, m;
        wr_factors(type, t->scales, unit, k, &d, &m);
        uint32_t i = (unit * wr_runs(type) + k) * 16 + r % 8 * 2 + r / 8; /* rows g and g + 8 side by side */
        if (wd_has_min(type))
            *KD_SHARED_AT(kd_f32x2, at + i * 8) = (kd_f32x2){ d, m };
        else
            *KD_SHARED_AT(float, at + i * 4) = d;
    }
    kd_warp_sync();
}

/* ---- products ---- */

/* Run r of unit k of a turn, whose x begins at block `block`: 16 weight rows by 8 columns. b: words of x, of wide types those of the
 * next run too. */
KD_FN void ex_run(uint32_t type, const struct ex_x *x, uint32_t factors, const struct ex_turn *t, uint32_t block, uint32_t k, uint32_t r,
                  uint32_t *b, float acc[4])
{
    uint32_t q[2][2], g = kd_lane() / 4, j = kd_lane() % 4, f = factors + ((k * wr_runs(type) + r) * 16 + 2 * g) * (wd_has_min(type) ? 8 : 4);
    float dw[2], mw[2];
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        wr_open(type, t->w[k][i], k, r, q[i]);
        if (!wr_is_coded(type))
            wr_factors(type, t->w[k][i], k, r, &dw[i], &mw[i]);
    }
    if (wr_is_coded(type) && wd_has_min(type)) {
        kd_f32x4 v = *KD_SHARED_AT(const kd_f32x4, f);
        dw[0] = v[0], mw[0] = v[1], dw[1] = v[2], mw[1] = v[3];
    } else if (wr_is_coded(type)) {
        kd_f32x2 v = *KD_SHARED_AT(const kd_f32x2, f);
        dw[0] = v[0], dw[1] = v[1];
    }
    uint32_t of = wr_is_short(type) ? r / 2 : r, run = wr_is_short(type) ? 2 * block + r : block + r, c[4];
    uint32_t words = x->q + g * x->ld + (block + of) * 32;
    kd_u32x4 beside = *KD_SHARED_AT(const kd_u32x4, x->beside + (run * EX_COLS + 2 * j) * 8);
    if (wr_is_wide(type) && r % 2 == 0) {
        kd_u32x4 v = *KD_SHARED_AT(const kd_u32x4, words + j * 16);
        b[0] = v[0], b[1] = v[1], b[2] = v[2], b[3] = v[3];
    }
    uint32_t start[2] = { wd_has_min(type) ? EX_START : beside[1], wd_has_min(type) ? EX_START : beside[3] };
    if (wr_is_short(type)) {
        c[0] = c[2] = start[0], c[1] = c[3] = start[1];
        b[0] = *KD_SHARED_AT(const uint32_t, words + wr_x(type, r, 0) * 4);
        kd_mma8_k16(c, c, q[0][0], q[1][0], b[0]);
    } else {
        if (wr_is_wide(type)) {
            b += r % 2 * 2;
        } else {
            b[0] = *KD_SHARED_AT(const uint32_t, words + wr_x(type, r, 0) * 4);
            b[1] = *KD_SHARED_AT(const uint32_t, words + wr_x(type, r, 1) * 4);
        }
        kd_mma8_k32(c, (const uint32_t[4]){ start[0], start[1], start[0], start[1] }, q[0][0], q[1][0], q[0][1], q[1][1], b[0], b[1]);
    }
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        float v = (f32_from_bits(c[i]) - EX_MAGIC) * f32_from_bits(beside[2 * (i % 2)]);
        acc[i] = k_fma(v, dw[i / 2], acc[i]);
        if (wd_has_min(type))
            acc[i] = k_fma(mw[i / 2], f32_from_bits(beside[2 * (i % 2) + 1]), acc[i]);
    }
}

/* What follows the products of expert e waits in shared memory, so that it takes no registers from them. */
struct ex_out {
    gpu_va y, own[2], b[2];
    uint32_t act, pair;
};
enum { EX_OUT_AT = 512 };
_Static_assert(EX_OUT_AT + sizeof(struct ex_out) <= EX_HEAD_BYTES && 4 * EX_ASKED * EX_WARPS <= EX_OUT_AT, "the head of shared memory");

KD_FN void ex_outs(const kl_experts *a, uint32_t e)
{
    if (kd_tid() == 0)
        *KD_SHARED_AT(struct ex_out, EX_OUT_AT) =
            (struct ex_out){ a->y, { a->wscale[0] ? a->wscale[0] + e * 4 : 0, a->wscale[1] ? a->wscale[1] + e * 4 : 0 },
                             { a->b[0] ? a->b[0] + (uint64_t)e * a->n_out * 4 : 0, a->b[1] ? a->b[1] + (uint64_t)e * a->n_out * 4 : 0 },
                             a->act, a->pair };
}

/* A sum by its matrix's number, and its bias. */
KD_FN float ex_ended(KD_SHARED const struct ex_out *o, uint32_t m, uint32_t row, float v)
{
    v = o->own[m] ? v * *KD_PTR(const float, o->own[m]) : v;
    return o->b[m] ? v + KD_PTR(const float, o->b[m])[row] : v;
}

/* The sums of a tile: rows g and g + 8, columns 2 t and 2 t + 1. */
KD_FN void ex_store(const struct ex_mat *s, const struct ex_cols *cols, uint32_t tile, const float acc[4])
{
    KD_SHARED const struct ex_out *o = KD_SHARED_AT(const struct ex_out, EX_OUT_AT);
    uint32_t row = s->pair ? tile * 8 + kd_lane() / 4 : tile * 16 + kd_lane() / 4;
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t col = kd_lane() % 4 * 2 + i;
        if (col >= cols->n || row >= s->n_out)
            continue;
        KD_GLOBAL float *y = KD_PTR(float, o->y) + (uint64_t)cols->pair[col] * s->n_out + row;
        if (s->pair) {
            *y = kd_act(o->act, ex_ended(o, 0, row, acc[i]), ex_ended(o, 1, row, acc[2 + i]));
        } else {
            y[0] = ex_ended(o, 0, row, acc[i]);
            if (row + 8 < s->n_out)
                y[8] = ex_ended(o, 0, row + 8, acc[2 + i]);
        }
    }
}

/* Tiles [from, end) of expert e for an entry: every EX_WARPS-th is this warp's. */
KD_FN void ex_part(const kl_experts *a, uint32_t e, const struct ex_cols *cols, uint32_t from, uint32_t end)
{
    const uint32_t type = QSET_A;
    struct ex_x x = ex_x(type, a->n_pad);
    struct ex_mat s = ex_mat(type, a, e);
    struct ex_turn now, next;
    uint32_t tile = from + kd_warp(), turn = 0, factors = x.factors + kd_warp() * ex_factor_bytes(type);
    struct ex_tile at = ex_tile(&s, tile);
    float acc[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    if (tile < end)
        ex_load(type, &s, &at, 0, &next);
    kd_barrier(); /* nobody needs the columns of the part before */
    ex_outs(a, e);
    ex_prepare(type, a, &x, cols);
    while (tile < end) {
        bool last = turn + 1 == s.turns;
        uint32_t then = last ? tile + EX_WARPS : tile;
        uint32_t b[4];
        now = next;
        if (last)
            at = ex_tile(&s, then);
        if (then < end)
            ex_load(type, &s, &at, last ? 0 : turn + 1, &next);
        if (wr_is_coded(type))
            ex_factors(type, factors, &now);
        KD_UNROLL
        for (uint32_t k = 0; k < ex_units(type); k++) {
            KD_UNROLL
            for (uint32_t r = 0; r < wr_runs(type); r++)
                ex_run(type, &x, factors, &now, (turn * ex_units(type) + k) * 4, k, r, b, acc);
        }
        turn = last ? 0 : turn + 1;
        if (last) {
            ex_store(&s, cols, tile, acc);
            acc[0] = acc[1] = acc[2] = acc[3] = 0.0f;
        }
        tile = then;
    }
}

QSET_KERNEL(k_experts_, , kl_experts)
{
    uint32_t at = ex_x(QSET_A, a.n_pad).end, rounds = kd_div_up(a.tiles, EX_WARPS);
    struct ex_list t = ex_list(&a, at);
    for (uint32_t e = kd_tid(); e < a.n_expert; e += EX_THREADS)
        t.first[e] = 0;
    kd_barrier();
    kd_wait_inputs();
    kd_let_next_start();
    ex_sort(&a, &t, kd_step_rows(a.step, ROWS_STEP) * a.k);
    uint32_t all = t.sums[EX_WARPS] * rounds, share = kd_div_up(all, kd_groups_x()), lo = kd_min_u32(share * kd_group_x(), all);
    uint32_t hi = kd_min_u32(lo + share, all);
    while (lo < hi) {
        uint32_t j = lo / rounds, from = lo - j * rounds, end = kd_min_u32(hi - j * rounds, rounds), entry = t.entry[j];
        struct ex_cols cols = { t.pair + (entry >> 4 & 0xfff), entry & 15 };
        ex_part(&a, entry >> 16, &cols, from * EX_WARPS, kd_min_u32(end * EX_WARPS, a.tiles));
        lo += end - from;
    }
}
