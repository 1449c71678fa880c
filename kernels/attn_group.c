/* kernels/attn_group.c: attention of single rows, all query heads of a kv head from one read of its cache.
 * Grid x: work-groups, which share out the (row, chunk of positions, kv head) triples of the step; of a single row with ROPE_KV one for
 * each, or for a part of its heads (attn_group_parts).
 *
 * A chunk goes by tiles of 64 positions from multiples of 64 on. Scores: a warp has an equal part of the positions and
 * multiplies all heads with them, S = Q K^T, q split into two f16 that lie in rows 0 to 7 and 8 to 15 of the matrix
 * instruction, so that q counts with 22 bits. The scores meet in shared memory, and every warp takes the same maximum
 * of the tile. Values: a warp has 64 dimensions and an equal part of the positions, O^T += V^T P^T, p in two f16
 * likewise. K and V come from memory straight into the registers of the instructions' operands: a lane's 16 bytes are 8
 * dimensions of one position, and both dimensions and positions are permuted to fit, in both operands alike.
 *
 * The last work-group to finish one of a row's chunks merges them, up to 16 at a time, ascending. How a row is cut
 * follows from the model and from the row's own position (kernels/attn_shared.h; doc/arithmetic.md has the order).
 *
 * Sources: softmax as one goes and its merge, Milakov and Gimelshein, arXiv 1805.02867; positions shared out among
 * work-groups, FlashAttention-2, arXiv 2307.08691; a number as the sum of two f16, Ootomo and Yokota, arXiv 2203.03341. */
#include <stdbool.h>

#include "kernels/attn_end.h"
#include "kernels/attn_rope.h"
#include "kernels/attn_set.h"
#include "kernels/attn_shared.h"
#include "kernels/hw/mma.h"
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"

enum { AG_N = 8 }; /* positions of an instruction */

/* What a work-group does at a time. */
struct ag_item {
    uint32_t row, kvh, slot, group;
    uint32_t first, heads;    /* of the kv head's query heads: all, or a part */
    uint32_t chunk, n_chunks; /* of the row's */
    uint32_t from, to;        /* positions    */
};

/* Shared memory. starts: of the rows, in chunks; the last one is their sum. */
KD_FN KD_SHARED uint32_t *sh_arrived(void) { return KD_SHARED_AT(uint32_t, 0); }
KD_FN KD_SHARED uint32_t *sh_starts(void) { return KD_SHARED_AT(uint32_t, ag_shared(64, 4).rows); }
KD_FN KD_SHARED uint16_t *sh_q(const uint32_t HD, const uint32_t W)
{
    return KD_SHARED_AT(uint16_t, ag_shared(HD, W).q);
}
KD_FN KD_SHARED float *sh_s(const uint32_t HD, const uint32_t W) { return KD_SHARED_AT(float, ag_shared(HD, W).s); }
KD_FN KD_SHARED float *sh_ml(const uint32_t HD, const uint32_t W) { return KD_SHARED_AT(float, ag_shared(HD, W).ml); }
KD_FN KD_SHARED float *sh_o(const uint32_t HD, const uint32_t W) { return KD_SHARED_AT(float, ag_shared(HD, W).o); }

/* ---- who does what ---- */

struct ag_cut {
    uint32_t lo, size, first, n; /* first position seen; positions of a chunk; index of its first chunk; chunks */
};
KD_FN struct ag_cut ag_cut(const kl_attn *a, uint32_t pos)
{
    struct ag_cut c = { .lo = a->window && pos >= a->window ? pos - a->window + 1 : 0, .n = 1 };
    if (a->splits > 1) {
        c.size = attn_group_chunk(pos + 1 - c.lo, a->splits, a->chunk_min);
        c.first = c.lo / c.size;
        c.n = pos / c.size - c.first + 1;
    }
    return c;
}

/* The first warp adds up the rows' chunks. Returns their number. */
KD_FN uint32_t ag_count(const kl_attn *a, uint32_t n_rows)
{
    KD_SHARED uint32_t *starts = sh_starts();
    if (kd_warp() == 0) {
        uint32_t sum = 0;
        for (uint32_t r0 = 0; r0 < n_rows; r0 += KD_WARP) {
            uint32_t r = r0 + kd_lane(), n = r < n_rows ? ag_cut(a, kd_row(a->step, r)->pos).n : 0, upto = n;
            KD_UNROLL
            for (uint32_t d = 1; d < KD_WARP; d <<= 1) {
                uint32_t below = kd_shfl_u32(upto, (kd_lane() - d) % KD_WARP);
                upto += kd_lane() >= d ? below : 0;
            }
            if (r < n_rows)
                starts[r] = sum + upto - n;
            sum += kd_shfl_u32(upto, KD_WARP - 1);
        }
        if (kd_lane() == 0)
            starts[n_rows] = sum;
    }
    kd_barrier();
    return starts[n_rows];
}

/* Item i of the step's. */
KD_FN struct ag_item ag_item(const kl_attn *a, uint32_t n_rows, uint32_t i)
{
    struct ag_item it = { .kvh = i % a->n_kv, .group = a->n_head / a->n_kv, .heads = a->n_head / a->n_kv };
    uint32_t u = i / a->n_kv;
    if (a->splits == 1) {
        it.row = u;
        u = 0;
    } else if (n_rows > 1) {
        KD_SHARED const uint32_t *starts = sh_starts();
        uint32_t lo = 0, hi = n_rows;
        while (hi - lo > 1) {
            uint32_t mid = (lo + hi) / 2;
            bool below = starts[mid] <= u;
            lo = below ? mid : lo;
            hi = below ? hi : mid;
        }
        it.row = lo;
        u -= starts[lo];
    }
    KD_GLOBAL const ka_row *row = kd_row(a->step, it.row);
    uint32_t pos = row->pos;
    struct ag_cut c = ag_cut(a, pos);
    it.slot = row->slot;
    it.chunk = u;
    it.n_chunks = c.n;
    it.from = kd_max_u32((c.first + u) * c.size, c.lo);
    it.to = a->splits == 1 ? pos + 1 : kd_min_u32((c.first + u + 1) * c.size, pos + 1);
    return it;
}

/* ---- a chunk ---- */

/* 8 values in f16, scaled: what f16 has, and codes times their scale, rounded once. */
KD_FN kd_u32x4 kv_half8(const enum ka_kv KV, struct kv_head h, kd_u32x4 raw)
{
    if (KV == KA_KV_F16)
        return raw;
    kd_u32x4 w;
    raw = kv_open8(KV, h, raw);
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        w[i] = KV == KA_KV_FP8 ? kd_half2_by_256(raw[i]) : kd_codes_half2(raw[i / 2], i % 2, (uint16_t)raw[2]);
    return w;
}

/* Positions that do not count are not read: the nearest that does lies in their place. */
KD_FN uint32_t ag_near(const struct ag_item *it, uint32_t p)
{
    return kd_min_u32(kd_max_u32(p, it->from), it->to - 1);
}

/* Lane (g, t): position g of each run of 8, dimensions 32 j + 8 t on. FRESH: see kv_raw8_of. */
KD_FN void ag_load_k(const bool FRESH, const enum ka_kv KV, const uint32_t HD, const uint32_t W, const struct ag_item *it,
                     struct kv_head h, uint32_t p0, kd_u32x4 *k)
{
    const uint32_t NT = AG_POS / AG_N / W;
    KD_UNROLL
    for (uint32_t n = 0; n < NT; n++) {
        uint32_t p = ag_near(it, p0 + (kd_warp() * NT + n) * AG_N + kd_lane() / 4);
        KD_UNROLL
        for (uint32_t j = 0; j < HD / 32; j++)
            k[n * (HD / 32) + j] = kv_raw8_of(FRESH, KV, h, p, HD, 32 * j + kd_lane() % 4 * 8);
    }
}

/* Lane (g, t): positions 4 t to 4 t + 3 of each run of 16 of the warp's part, dimensions 8 g on of the warp's. */
KD_FN void ag_load_v(const bool FRESH, const enum ka_kv KV, const uint32_t HD, const uint32_t W, const struct ag_item *it,
                     struct kv_head h, uint32_t p0, kd_u32x4 *v)
{
    const uint32_t DW = HD / 64, KS = AG_POS / 16 / (W / DW);
    KD_UNROLL
    for (uint32_t s = 0; s < KS; s++) {
        KD_UNROLL
        for (uint32_t r = 0; r < 4; r++) {
            uint32_t p = ag_near(it, p0 + (kd_warp() / DW * KS + s) * 16 + kd_lane() % 4 * 4 + r);
            v[s * 4 + r] = kv_raw8_of(FRESH, KV, h, p, HD, kd_warp() % DW * 64 + kd_lane() / 4 * 8);
        }
    }
}

/* Of the model: the item's head h. */
KD_FN uint32_t ag_head_of(const struct ag_item *it, uint32_t h) { return it->kvh * it->group + it->first + h; }

KD_FN struct kv_head ag_head(const kl_attn *a, const struct ag_item *it, gpu_va cache, const uint32_t HD)
{
    return kv_head(cache + it->slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, HD, it->kvh);
}

/* The first tile of an item on its way into the level-2 cache. */
KD_FN void ag_prefetch(const kl_attn *a, const struct ag_item *it, const enum ka_kv KV, const uint32_t HD,
                       const uint32_t W)
{
    const uint32_t PER_LINE = 128 * 4 / KA_KV_CODES(KV, 4), LINES = HD < PER_LINE ? 1 : HD / PER_LINE;
    struct kv_head kh = ag_head(a, it, a->kc, HD), vh = ag_head(a, it, a->vc, HD);
    for (uint32_t i = kd_tid(); i < AG_POS * LINES; i += 32 * W) {
        uint32_t p = it->from / AG_POS * AG_POS + i / LINES;
        uint64_t at = KA_KV_CODES(KV, (uint64_t)p * HD + i % LINES * PER_LINE);
        if (p < it->from || p >= it->to)
            continue;
        kd_prefetch(KD_PTR(const uint8_t, kh.codes + at));
        kd_prefetch(KD_PTR(const uint8_t, vh.codes + at));
    }
}

/* The heads' q in base 2, as two f16 each: [2][AG_HEADS][HD]. OWN: the work-group has made q, at `made` [group][HD]. */
KD_FN void ag_load_q(const bool OWN, const kl_attn *a, const struct ag_item *it, const uint32_t HD, const uint32_t W,
                     KD_SHARED const float *made)
{
    KD_SHARED uint16_t *q = sh_q(HD, W);
    const uint32_t low = AG_HEADS * (HD + AG_Q_PAD);
    for (uint32_t i = kd_tid(); i < AG_HEADS * (HD / 2); i += 32 * W) {
        uint32_t h = i / (HD / 2), d = i % (HD / 2) * 2, hi = 0, lo = 0;
        if (h < it->heads) {
            KD_GLOBAL const kd_f32x2 *p = KD_PTR(const kd_f32x2, a->q + 4 * ((uint64_t)it->row * a->ldq +
                                                 (uint64_t)ag_head_of(it, h) * a->q_hs + d));
            kd_f32x2 both = OWN ? *(KD_SHARED const kd_f32x2 *)(made + h * HD + d) : p[0];
            float x = both[0] * (a->scale * LOG2E), y = both[1] * (a->scale * LOG2E);
            hi = kd_half2(x, y);
            lo = kd_half2(x - f16_to_f32((uint16_t)hi), y - f16_to_f32((uint16_t)(hi >> 16)));
        }
        *(KD_SHARED uint32_t *)(q + h * (HD + AG_Q_PAD) + d) = hi;
        *(KD_SHARED uint32_t *)(q + low + h * (HD + AG_Q_PAD) + d) = lo;
    }
}

/* The warp's scores to shared memory, [head][position]; -inf where a position does not count. */
KD_FN void ag_scores(const enum ka_kv KV, const uint32_t HD, const uint32_t W, const struct ag_item *it, uint32_t p0,
                     struct kv_head kh, const kd_u32x4 *k, KD_SHARED float *s)
{
    const uint32_t NT = AG_POS / AG_N / W, low = AG_HEADS * (HD + AG_Q_PAD);
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    KD_SHARED const uint16_t *q = sh_q(HD, W) + g * (HD + AG_Q_PAD) + 8 * t;
    float c[2][4] = { { 0 } };
    KD_UNROLL
    for (uint32_t j = 0; j < HD / 32; j++) {
        kd_u32x4 hi = *(KD_SHARED const kd_u32x4 *)(q + 32 * j), lo = *(KD_SHARED const kd_u32x4 *)(q + low + 32 * j);
        KD_UNROLL
        for (uint32_t n = 0; n < NT; n++) {
            kd_u32x4 x = kv_half8(KV, kh, k[n * (HD / 32) + j]);
            kd_mma_half(c[n], (kd_frag){ { hi[0], lo[0], hi[1], lo[1] } }, x[0], x[1]);
            kd_mma_half(c[n], (kd_frag){ { hi[2], lo[2], hi[3], lo[3] } }, x[2], x[3]);
        }
    }
    KD_UNROLL
    for (uint32_t n = 0; n < NT; n++) {
        uint32_t at = (kd_warp() * NT + n) * AG_N + 2 * t, p = p0 + at;
        kd_f32x2 y = { p >= it->from && p < it->to ? c[n][0] + c[n][2] : NEG_INF,
                       p + 1 >= it->from && p + 1 < it->to ? c[n][1] + c[n][3] : NEG_INF };
        *(KD_SHARED kd_f32x2 *)(s + g * AG_S_LD + at) = y;
    }
}

/* What a warp keeps: m and l of head g (l of the lane's positions); o[i]: dimension 8 g + 2 i of heads 2 t and 2 t + 1,
 * then the next dimension. */
struct ag_sum {
    float m, l, o[4][4];
};

KD_FN void ag_values(const enum ka_kv KV, const uint32_t HD, const uint32_t W, struct kv_head vh, const kd_u32x4 *v,
                     KD_SHARED const float *s, struct ag_sum *sum)
{
    const uint32_t DW = HD / 64, KS = AG_POS / 16 / (W / DW);
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    float top = NEG_INF, l = 0.0f;
    s += g * AG_S_LD + 4 * t;
    KD_UNROLL
    for (uint32_t i = 0; i < AG_POS / 16; i++) {
        kd_f32x4 x = *(KD_SHARED const kd_f32x4 *)(s + 16 * i);
        top = kd_max(kd_max(x[0], x[1]), kd_max(kd_max(x[2], x[3]), top));
    }
    KD_UNROLL
    for (uint32_t b = 1; b < 4; b <<= 1)
        top = kd_max(kd_shfl_xor_f32(top, b), top);
    top = kd_max(sum->m, top);
    float decay = kd_exp2(sum->m - top), by0 = kd_shfl_f32(decay, 8 * t), by1 = kd_shfl_f32(decay, 8 * t + 4);
    sum->m = top;
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        sum->o[i][0] *= by0;
        sum->o[i][1] *= by1;
        sum->o[i][2] *= by0;
        sum->o[i][3] *= by1;
    }
    KD_UNROLL
    for (uint32_t k = 0; k < KS; k++) {
        kd_f32x4 x = *(KD_SHARED const kd_f32x4 *)(s + (kd_warp() / DW * KS + k) * 16);
        float p[4];
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            p[i] = kd_exp2(x[i] - top);
            l += p[i];
        }
        uint32_t hi[2], lo[2];
        KD_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            hi[i] = kd_half2(p[2 * i], p[2 * i + 1]);
            lo[i] = kd_half2(p[2 * i] - f16_to_f32((uint16_t)hi[i]),
                             p[2 * i + 1] - f16_to_f32((uint16_t)(hi[i] >> 16)));
        }
        kd_u32x4 w[4];
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            w[i] = kv_half8(KV, vh, v[k * 4 + i]);
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            kd_frag f = { { kd_low_halves(w[0][i], w[1][i]), kd_high_halves(w[0][i], w[1][i]),
                            kd_low_halves(w[2][i], w[3][i]), kd_high_halves(w[2][i], w[3][i]) } };
            kd_mma_half(sum->o[i], f, hi[0], hi[1]);
            kd_mma_half(sum->o[i], f, lo[0], lo[1]);
        }
    }
    sum->l = k_fma(sum->l, decay, l);
}

/* m and l of a part at sh_ml + 16 part: [AG_HEADS][2]; o at sh_o [part][AG_HEADS][HD]. */
KD_FN void ag_leave(const uint32_t HD, const uint32_t W, struct ag_sum *sum)
{
    const uint32_t DW = HD / 64;
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4, part = kd_warp() / DW;
    KD_SHARED float *ml = sh_ml(HD, W) + (part * AG_HEADS + g) * 2;
    KD_UNROLL
    for (uint32_t b = 1; b < 4; b <<= 1)
        sum->l += kd_shfl_xor_f32(sum->l, b);
    if (t == 0 && kd_warp() % DW == 0) {
        ml[0] = sum->m;
        ml[1] = sum->l;
    }
    KD_UNROLL
    for (uint32_t h = 0; h < 2; h++) {
        KD_SHARED kd_f32x4 *o = (KD_SHARED kd_f32x4 *)(sh_o(HD, W) + (part * AG_HEADS + 2 * t + h) * HD +
                                                       kd_warp() % DW * 64 + 8 * g);
        o[0] = (kd_f32x4){ sum->o[0][h], sum->o[0][2 + h], sum->o[1][h], sum->o[1][2 + h] };
        o[1] = (kd_f32x4){ sum->o[2][h], sum->o[2][2 + h], sum->o[3][h], sum->o[3][2 + h] };
    }
}

/* Where a chunk's o, m, l lie for head h of the item's. */
KD_FN KD_GLOBAL float *ag_part(const kl_attn *a, const struct ag_item *it, uint32_t HD, uint32_t h, uint32_t chunk)
{
    uint64_t head = (uint64_t)it->row * a->n_head + ag_head_of(it, h);
    return KD_PTR(float, a->part) + (head * a->splits + chunk) * (HD + AG_PART_PAD);
}

/* o of four dimensions of a head, of all its positions (last) or of those that chunk `to` stands for. gates: [heads][HD] of the
 * item's, where the work-group has them. */
KD_FN void ag_write4(const kl_attn *a, const struct ag_item *it, const uint32_t HD, uint32_t h, uint32_t d, float m,
                     float l, const float *o, bool last, uint32_t to, KD_SHARED const float *gates)
{
    if (last && gates) {
        float y[4];
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            y[i] = attn_value(a, ag_head_of(it, h), m, l, o[i]) * gates[h * HD + d + i];
        *(KD_GLOBAL kd_f32x4 *)(KD_PTR(float, a->y) + ((uint64_t)it->row * a->n_head + ag_head_of(it, h)) * HD + d) =
            (kd_f32x4){ y[0], y[1], y[2], y[3] };
        return;
    }
    if (last) {
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            attn_write(a, it->row, HD, ag_head_of(it, h), d + i, m, l, o[i]);
        return;
    }
    KD_GLOBAL float *p = ag_part(a, it, HD, h, to);
    *(KD_GLOBAL kd_f32x4 *)(p + d) = (kd_f32x4){ o[0], o[1], o[2], o[3] };
    if (d == 0)
        *(KD_GLOBAL kd_f32x2 *)(p + HD) = (kd_f32x2){ m, l };
}

/* The parts of the work-group's tiles, which share m: their sums. */
KD_FN void ag_combine(const kl_attn *a, const struct ag_item *it, const uint32_t HD, const uint32_t W, KD_SHARED const float *gates)
{
    const uint32_t PARTS = W / (HD / 64);
    KD_SHARED const float *ml = sh_ml(HD, W), *os = sh_o(HD, W);
    for (uint32_t i = kd_tid(); i < it->heads * (HD / 4); i += 32 * W) {
        uint32_t h = i / (HD / 4), d = i % (HD / 4) * 4;
        float l = 0.0f, o[4] = { 0 };
        KD_UNROLL
        for (uint32_t p = 0; p < PARTS; p++) {
            kd_f32x4 x = *(KD_SHARED const kd_f32x4 *)(os + (p * AG_HEADS + h) * HD + d);
            l += ml[(p * AG_HEADS + h) * 2 + 1];
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                o[k] += x[k];
        }
        ag_write4(a, it, HD, h, d, ml[2 * h], l, o, it->n_chunks == 1, it->chunk, gates);
    }
}

/* o of four dimensions of `n` chunks, `by` apart from chunk `at` on: i counts the item's heads' quads. */
KD_FN void ag_held(const kl_attn *a, const struct ag_item *it, const uint32_t HD, uint32_t i, uint32_t at, uint32_t by, uint32_t n,
                   kd_f32x4 *v)
{
    KD_UNROLL
    for (uint32_t k = 0; k < AG_JOIN; k++)
        v[k] = *(KD_GLOBAL const kd_f32x4 *)(ag_part(a, it, HD, i / (HD / 4), at + kd_min_u32(k, n - 1) * by) + i % (HD / 4) * 4);
}

/* What the chunks' o count, 2^(m - the largest m), and l, at sh_ml [AG_HEADS][AG_JOIN][2]; the largest at sh_s. A warp takes a head. */
KD_FN void ag_weigh(const kl_attn *a, const struct ag_item *it, const uint32_t HD, const uint32_t W, uint32_t at, uint32_t by, uint32_t n)
{
    _Static_assert((int)AG_JOIN <= (int)KD_WARP, "a lane for each chunk");
    uint32_t k = kd_lane();
    for (uint32_t h = kd_warp(); h < it->heads; h += W) {
        KD_SHARED float *ml = sh_ml(HD, W) + 2 * (h * AG_JOIN + k);
        kd_f32x2 x = { NEG_INF, 0.0f };
        if (k < n)
            x = *(KD_GLOBAL const kd_f32x2 *)(ag_part(a, it, HD, h, at + k * by) + HD);
        float top = kd_warp_max(x[0]);
        if (k < n) {
            ml[0] = kd_exp2(x[0] - top);
            ml[1] = x[1];
        }
        if (k == 0)
            sh_s(HD, W)[h] = top;
    }
    kd_barrier();
}

/* Merges `n` chunks, AG_JOIN at most, `by` apart from chunk `at` on; the result is the row's, or takes the place of
 * chunk `at`. AT_ONCE: there are registers to ask for o together with what it is weighed by. */
KD_FN void ag_join(const bool AT_ONCE, const kl_attn *a, const struct ag_item *it, const uint32_t HD, const uint32_t W, uint32_t at,
                   uint32_t by, uint32_t n, bool last, KD_SHARED const float *gates)
{
    uint32_t all = it->heads * (HD / 4);
    kd_f32x4 v[AG_JOIN];
    if (AT_ONCE)
        ag_held(a, it, HD, kd_min_u32(kd_tid(), all - 1), at, by, n, v);
    ag_weigh(a, it, HD, W, at, by, n);
    for (uint32_t i = kd_tid(); i < all; i += 32 * W) {
        uint32_t h = i / (HD / 4), d = i % (HD / 4) * 4;
        KD_SHARED const float *mine = sh_ml(HD, W) + 2 * h * AG_JOIN;
        float l = 0.0f, o[4] = { 0 };
        if (!AT_ONCE || i != kd_tid())
            ag_held(a, it, HD, i, at, by, n, v);
        KD_UNROLL
        for (uint32_t k = 0; k < AG_JOIN; k++) {
            if (k >= n)
                break;
            float f = mine[2 * k];
            l = k_fma(mine[2 * k + 1], f, l);
            KD_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                o[c] = k_fma(v[k][c], f, o[c]);
        }
        ag_write4(a, it, HD, h, d, sh_s(HD, W)[h], l, o, last, at, gates);
    }
    kd_barrier();
}

/* Counts an arrival; whether it is the last of n. */
KD_FN bool ag_is_last(KD_GLOBAL uint32_t *counter, uint32_t n)
{
    kd_barrier();
    if (kd_tid() == 0)
        *sh_arrived() = kd_arrive(counter, n);
    kd_barrier();
    return *sh_arrived() == n - 1;
}

/* A chunk is in its place: whoever is last of 16 merges them, and whoever is last of those merges the rest. */
KD_FN void ag_finish(const bool OWN, const kl_attn *a, const struct ag_item *it, const uint32_t HD, const uint32_t W, KD_SHARED const float *gates)
{
    KD_GLOBAL uint32_t *counters = KD_PTR(uint32_t, a->counters) +
                                   (((uint64_t)it->row + it->first) * a->n_kv + it->kvh) * (AG_JOIN + 1);
    uint32_t at = it->chunk / AG_JOIN * AG_JOIN, n = kd_min_u32(it->n_chunks - at, AG_JOIN);
    uint32_t joins = kd_div_up(it->n_chunks, AG_JOIN);
    if (!ag_is_last(counters + it->chunk / AG_JOIN, n))
        return;
    ag_join(OWN, a, it, HD, W, at, 1, n, joins == 1, gates);
    if (joins > 1 && ag_is_last(counters + AG_JOIN, joins))
        ag_join(OWN, a, it, HD, W, 0, AG_JOIN, joins, true, gates);
}

/* A chunk. next_i: number of the work-group's next item; *next becomes that item, without chunks if next_i is `end`. OWN: the
 * work-group has made q, at `made`, and the row's newest position. */
KD_FN void ag_chunk(const bool OWN, const kl_attn *a, const struct ag_item *it, uint32_t n_rows, uint32_t next_i, uint32_t end,
                    struct ag_item *next, const enum ka_kv KV, const uint32_t HD, const uint32_t W, KD_SHARED const float *made,
                    KD_SHARED const float *gates)
{
    struct kv_head kh = ag_head(a, it, a->kc, HD), vh = ag_head(a, it, a->vc, HD);
    kd_u32x4 k[512 / 32], v[AG_POS / 4];
    struct ag_sum sum = { .m = NEG_INF };
    uint32_t p0 = it->from / AG_POS * AG_POS;
    ag_load_k(OWN, KV, HD, W, it, kh, p0, k);
    ag_load_v(OWN, KV, HD, W, it, vh, p0, v);
    ag_load_q(OWN, a, it, HD, W, made);
    *next = (struct ag_item){ 0 };
    if (next_i < end) {
        *next = ag_item(a, n_rows, next_i);
        ag_prefetch(a, next, KV, HD, W);
    }
    kd_barrier(); /* q is there */
    /* scores take turns in two places: the other may still be read */
    for (uint32_t turn = 0; p0 < it->to; turn ^= 1) {
        KD_SHARED float *s = sh_s(HD, W) + turn * AG_HEADS * AG_S_LD;
        ag_scores(KV, HD, W, it, p0, kh, k, s);
        p0 += AG_POS;
        if (p0 < it->to)
            ag_load_k(OWN, KV, HD, W, it, kh, p0, k);
        kd_barrier();
        ag_values(KV, HD, W, vh, v, s, &sum);
        if (p0 < it->to)
            ag_load_v(OWN, KV, HD, W, it, vh, p0, v);
    }
    ag_leave(HD, W, &sum);
    kd_barrier();
    ag_combine(a, it, HD, W, gates);
    if (it->n_chunks > 1)
        ag_finish(OWN, a, it, HD, W, gates);
}

KD_FN void ag_any_chunk(const bool OWN, const kl_attn *a, const struct ag_item *it, uint32_t n_rows, uint32_t next_i,
                        uint32_t end, struct ag_item *next, const uint32_t HD, const uint32_t W, KD_SHARED const float *made,
                        KD_SHARED const float *gates)
{
    if (a->kv_type == KA_KV_F16)
        ag_chunk(OWN, a, it, n_rows, next_i, end, next, KA_KV_F16, HD, W, made, gates);
    else if (a->kv_type == KA_KV_Q8_0)
        ag_chunk(OWN, a, it, n_rows, next_i, end, next, KA_KV_Q8_0, HD, W, made, gates);
    else if (a->kv_type == KA_KV_FP8)
        ag_chunk(OWN, a, it, n_rows, next_i, end, next, KA_KV_FP8, HD, W, made, gates);
    else
        ag_chunk(OWN, a, it, n_rows, next_i, end, next, KA_KV_Q4_0, HD, W, made, gates);
}

KD_FN void ag_kernel(const kl_attn *a, const uint32_t HD, const uint32_t W)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a->step, ROWS_STEP), n = n_rows;
    if (a->splits > 1)
        n = n_rows == 1 ? ag_cut(a, kd_row(a->step, 0)->pos).n : ag_count(a, n_rows);
    uint32_t i = kd_group_x(), end = n * a->n_kv;
    if (i >= end)
        return;
    for (struct ag_item it = ag_item(a, n_rows, i), next; it.n_chunks; it = next) {
        i += kd_groups_x();
        ag_any_chunk(false, a, &it, n_rows, i, end, &next, HD, W, sh_o(HD, W), 0);
        kd_barrier(); /* shared memory is free for the next one */
    }
}

#if ATTN_SET == 64
KD_KERNEL(k_attn_group_h64, kl_attn) { ag_kernel(&a, 64, 4); }
#elif ATTN_SET == 128
KD_KERNEL(k_attn_group_h128, kl_attn) { ag_kernel(&a, 128, 4); }
#elif ATTN_SET == 256
KD_KERNEL(k_attn_group_h256, kl_attn) { ag_kernel(&a, 256, 8); }
#else
KD_KERNEL(k_attn_group_h512, kl_attn) { ag_kernel(&a, 512, 8); }
#endif

#if defined(ATTN_ROPE) && ATTN_SET >= 256
/* What warp w of the work-group makes: a q head of its part, k, v, or behind that nothing. */
KD_FN uint32_t ag_own_head(const struct ag_item *it, uint32_t w)
{
    return w < it->heads ? it->first + w : it->group + w - it->heads;
}

/* One row, and a work-group for each chunk or for a part of its heads. The first tile is on its way while the heads are made. Heads are
 * asked for before the row says whether there are parts, as if there were. */
KD_FN void ag_rope_kernel(const kl_attn_rope *r, const uint32_t HD, const uint32_t W)
{
    const kl_attn *a = (const kl_attn *)r;
    uint32_t kvh = kd_group_x() % a->n_kv, share = kd_group_x() / a->n_kv, n_rows;
    struct ag_item it = { .group = a->n_head / a->n_kv }, none;
    struct ar_lane l;
    uint32_t most = attn_group_parts(it.group, 1, r->shares);
    attn_group_part(it.group, most, share, &it.first, &it.heads);
    uint32_t t = ag_own_head(&it, kd_warp());
    ar_ask(r, HD, t, it.group, &l);
    kd_wait_inputs();
    kd_let_next_start();
    ar_read(r, HD, t, it.group, kvh, 0, &l);
    ar_read_gate(r, HD, t, it.group, kvh, &l);
    uint32_t pos = ar_row(r, &n_rows).pos;
    ar_norm(r, HD, t, it.group, &l);
    uint32_t chunks = ag_cut(a, pos).n, parts = attn_group_parts(it.group, chunks, r->shares);
    if (n_rows == 0 || share >> parts >= chunks)
        return;
    it = ag_item(a, 1, (share >> parts) * a->n_kv + kvh);
    attn_group_part(it.group, parts, share, &it.first, &it.heads);
    if (!it.heads)
        return;
    ag_prefetch(a, &it, (enum ka_kv)a->kv_type, HD, W);
    for (uint32_t w = kd_warp(); w < it.heads + 2; w += W) {
        t = ag_own_head(&it, w);
        if (w >= W || parts != most) {
            ar_ask(r, HD, t, it.group, &l);
            ar_read(r, HD, t, it.group, kvh, 0, &l);
            ar_read_gate(r, HD, t, it.group, kvh, &l);
            ar_norm(r, HD, t, it.group, &l);
        }
        ar_make(r, (enum ka_kv)a->kv_type, HD, t, it.group, kvh, pos, it.slot * a->slot_bytes, it.to == pos + 1, &l);
        ar_make_gate(r, HD, t, it.group, &l);
    }
    ar_scale(r, HD, it.group, pos);
    kd_barrier();
    ag_any_chunk(true, a, &it, 1, 0, 0, &none, HD, W, ar_head(r, HD, it.first), a->gate ? ar_gate(r, HD, it.first) : 0);
}

#if ATTN_SET == 256
KD_KERNEL(k_attn_rope_group_h256, kl_attn_rope) { ag_rope_kernel(&a, 256, 8); }
#elif ATTN_SET == 512
KD_KERNEL(k_attn_rope_group_h512, kl_attn_rope) { ag_rope_kernel(&a, 512, 8); }
#endif
#endif
