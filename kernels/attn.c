/* kernels/attn.c: attention of single rows over the cache, split over positions
 * Grid x: kv heads, y: rows, z: splits, so that those that a short row does not have come last; with ROPE_KV parts of a split's heads
 * as well (attn_parts).
 *
 * A warp takes up to four query heads of a kv head and every n-th run of eight positions. A lane holds eight
 * dimensions of q, K, V and o (16 bytes of f16 cache), so head_dim / 8 lanes hold a position's row. Their partial
 * sums of the scores are added by a butterfly that gives away half of them in each step: it ends with one finished
 * score per lane. Softmax is online per warp, in base 2. The warps' (m, l, o) are combined through shared memory in
 * ascending order, the splits' likewise by the last work-group to arrive. How a row is cut depends on its own
 * position only. */
#include <stdbool.h>
#include <stddef.h>

#include "kernels/attn_end.h"
#include "kernels/attn_rope.h"
#include "kernels/attn_set.h"
#include "kernels/attn_shared.h"
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"

/* What a work-group does. */
struct attn_job {
    uint32_t row, kvh, split, slot, pos;
    uint32_t group;        /* query heads per kv head                     */
    uint32_t n_active;     /* splits in use                               */
    uint32_t from, to;     /* positions of this split                     */
    uint32_t chunk;        /* of any                                      */
    uint32_t counter, arrivals; /* of the work-groups whose results are merged */
    uint32_t warps;        /* among which the positions are shared        */
    uint32_t set0, n_sets; /* of heads in this pass                       */
    uint32_t set, wp, n_wp; /* the warp's: its heads, which positions      */
    uint32_t nh, first;    /* heads of a set that are the work-group's, log2, and which of the set's is the first */
    bool idle;             /* a warp too many                             */
};

/* Shared memory (kernels/attn_shared.h). */
KD_FN KD_SHARED uint32_t *sh_arrived(void) { return KD_SHARED_AT(uint32_t, 0); }
KD_FN KD_SHARED float *sh_prob(void) { return KD_SHARED_AT(float, 4 * (4 + kd_warp() * ATTN_PROB)); }
KD_FN KD_SHARED float *sh_ml(void) { return KD_SHARED_AT(float, 4 * (4 + kd_n_warps() * ATTN_PROB)); }
KD_FN KD_SHARED float *sh_o(const struct attn_job *j) { return sh_ml() + j->warps * ATTN_NH * 2; }

/* False: the work-group has nothing to do. shares: as kl_attn_rope has it, or 0. */
KD_FN bool attn_job_of(const kl_attn *a, struct attn_job *j, ka_row row, uint32_t n_rows, uint32_t shares)
{
    j->row = kd_group_y();
    j->kvh = kd_group_x();
    if (j->row >= n_rows)
        return false;
    uint32_t pos = row.pos, lo = a->window && pos >= a->window ? pos - a->window + 1 : 0, n = pos + 1 - lo;
    j->group = a->n_head / a->n_kv;
    uint32_t chunk = j->chunk = attn_chunk(n, a->splits, a->chunk_min, j->group);
    j->slot = row.slot;
    j->pos = pos;
    j->n_active = j->arrivals = kd_div_up(n, chunk);
    uint32_t parts = attn_parts(j->group, j->n_active, shares);
    j->split = kd_group_z() >> parts;
    j->nh = !parts ? ATTN_NH_LOG2 : j->group > 2 ? ATTN_NH_LOG2 - parts : 0;
    j->first = (kd_group_z() & ((1u << parts) - 1)) << j->nh;
    j->from = lo + j->split * chunk;
    j->to = kd_min_u32(j->from + chunk, pos + 1);
    j->counter = j->row * a->n_kv + j->kvh;
    if (shares)
        j->counter = j->counter * ATTN_NH + j->first;
    return j->split < j->n_active && j->first < j->group;
}

KD_FN bool attn_job(const kl_attn *a, struct attn_job *j)
{
    ka_row row = *kd_row(a->step, kd_group_y()); /* asked for with the count, for which it would wait */
    return attn_job_of(a, j, row, kd_step_rows(a->step, ROWS_STEP), 0);
}

/* The place of warp `warp` of `warps` in the pass over the sets of heads from set0 on. */
KD_FN void attn_place(const kl_attn *a, struct attn_job *j, uint32_t set0, uint32_t warp, uint32_t warps)
{
    j->warps = warps;
    j->set0 = set0;
    j->n_sets = kd_min_u32(attn_sets(a->n_head / a->n_kv) - set0, warps);
    j->set = set0 + warp % j->n_sets;
    j->wp = warp / j->n_sets;
    j->n_wp = warps / j->n_sets;
    j->idle = j->wp >= j->n_wp;
}

/* Head h of the warp's among its kv head's. */
KD_FN uint32_t job_head(const struct attn_job *j, uint32_t h) { return j->set * ATTN_NH + j->first + h; }
/* Index of head h of the warp's in the pass; how many there are; which of its kv head's is slot s, j->group or more where none. */
KD_FN uint32_t job_slot(const struct attn_job *j, uint32_t h) { return ((j->set - j->set0) << j->nh) + h; }
KD_FN uint32_t job_slots(const struct attn_job *j) { return j->n_sets << j->nh; }
KD_FN uint32_t job_head_of(const struct attn_job *j, uint32_t s)
{
    return (j->set0 + (s >> j->nh)) * ATTN_NH + j->first + (s & ((1u << j->nh) - 1));
}

/* ---- the end of a pass, shared by all kernels ---- */

/* m, l, o of the split that head has in part. */
KD_FN KD_COHERENT float *attn_part(const kl_attn *a, const struct attn_job *j, uint32_t hd, uint32_t head,
                                   uint32_t split)
{
    return (KD_COHERENT float *)KD_PTR(float, a->part) + (((uint64_t)j->row * a->n_head + head) * a->splits + split) * (hd + 2);
}

/* The largest m of each slot of the pass: where probabilities are while positions are looked at. */
KD_FN KD_SHARED float *sh_top(void) { return KD_SHARED_AT(float, 4 * 4); }
_Static_assert(ATTN_WARPS_SMALL * ATTN_NH <= ATTN_PROB, "slots of a pass");

/* What the warps' o count: their m, at sh_ml [n_wp][heads of the pass][2], become 2^(m - the largest). Half a warp takes a slot. */
KD_FN void attn_weigh(const struct attn_job *j)
{
    enum { HALF = KD_WARP / 2 };
    _Static_assert((int)HALF >= (int)ATTN_WARPS_SMALL, "a lane for each warp");
    uint32_t slots = job_slots(j), w = kd_lane() % HALF;
    KD_SHARED float *ml = sh_ml();
    for (uint32_t s0 = 2 * kd_warp(); s0 < slots; s0 += 2 * kd_n_warps()) {
        uint32_t s = s0 + kd_lane() / HALF, at = 2 * (w * slots + s);
        bool is = s < slots && w < j->n_wp;
        float m = is ? ml[at] : NEG_INF, top = m;
        KD_UNROLL
        for (uint32_t b = 1; b < HALF; b <<= 1)
            top = kd_max(kd_shfl_xor_f32(top, b), top);
        if (is)
            ml[at] = kd_exp2(m - top);
        if (is && w == 0)
            sh_top()[s] = top;
    }
    kd_barrier();
}

/* Combines what the warps left in shared memory: m, l at sh_ml, o at sh_o [n_wp][heads of the pass][hd]. */
KD_FN void attn_combine(const kl_attn *a, const struct attn_job *j, const uint32_t hd)
{
    uint32_t slots = job_slots(j);
    attn_weigh(j);
    for (uint32_t i = kd_tid(); i < slots * hd; i += kd_group_size()) {
        uint32_t s = i / hd, d = i % hd, head = job_head_of(j, s);
        KD_SHARED const float *ml = sh_ml() + 2 * s, *os = sh_o(j) + i;
        float m = sh_top()[s], l = 0.0f, o = 0.0f;
        if (head >= j->group)
            continue;
        head += j->kvh * j->group;
        for (uint32_t w = 0; w < j->n_wp; w++, ml += 2 * slots, os += slots * hd) {
            l = k_fma(ml[1], ml[0], l);
            o = k_fma(os[0], ml[0], o);
        }
        if (j->n_active == 1) {
            attn_write(a, j->row, hd, head, d, m, l, o);
            continue;
        }
        KD_COHERENT float *p = attn_part(a, j, hd, head, j->split);
        if (d == 0) {
            p[0] = m;
            p[1] = l;
        }
        p[2 + d] = o;
    }
}

/* o of splits k0 and on, of dimension d of the head in slot s of the pass; of one without a head, that of the kv head's last. */
enum { ATTN_HELD = 16 };
KD_FN uint32_t attn_merged(const struct attn_job *j, uint32_t s)
{
    return j->kvh * j->group + kd_min_u32(job_head_of(j, s), j->group - 1);
}
KD_FN void attn_held(const kl_attn *a, const struct attn_job *j, const uint32_t hd, uint32_t i, uint32_t k0, float *v)
{
    KD_COHERENT const float *p = attn_part(a, j, hd, attn_merged(j, i / hd), 0) + 2 + i % hd;
    KD_UNROLL
    for (uint32_t k = 0; k < ATTN_HELD; k++)
        v[k] = k0 + k < j->n_active ? p[(uint64_t)(k0 + k) * (hd + 2)] : 0.0f;
}

/* What the splits' o count, and l, at sh_ml [heads of the pass][splits][2]. A warp takes a slot. */
KD_FN void attn_weigh_splits(const kl_attn *a, const struct attn_job *j, const uint32_t hd)
{
    for (uint32_t s = kd_warp(); s < job_slots(j); s += kd_n_warps()) {
        KD_SHARED float *ml = sh_ml() + 2 * s * j->n_active;
        float top = NEG_INF;
        for (uint32_t k = kd_lane(); k < j->n_active; k += KD_WARP) {
            KD_COHERENT const float *p = attn_part(a, j, hd, attn_merged(j, s), k);
            ml[2 * k] = p[0];
            ml[2 * k + 1] = p[1];
            top = kd_max(ml[2 * k], top);
        }
        top = kd_warp_max(top);
        for (uint32_t k = kd_lane(); k < j->n_active; k += KD_WARP)
            ml[2 * k] = kd_exp2(ml[2 * k] - top);
        if (kd_lane() == 0)
            sh_top()[s] = top;
    }
    kd_barrier();
}

/* The splits of all heads of the pass, in ascending order. Their o is asked for together with what it is weighed by. */
KD_FN void attn_merge(const kl_attn *a, const struct attn_job *j, const uint32_t hd)
{
    uint32_t n = job_slots(j) * hd, splits = j->n_active;
    float v[ATTN_HELD];
    attn_held(a, j, hd, kd_min_u32(kd_tid(), n - 1), 0, v);
    attn_weigh_splits(a, j, hd);
    for (uint32_t i = kd_tid(); i < n; i += kd_group_size()) {
        KD_SHARED const float *ml = sh_ml() + 2 * (i / hd) * splits;
        float l = 0.0f, o = 0.0f;
        if (job_head_of(j, i / hd) >= j->group)
            continue;
        for (uint32_t k0 = 0; k0 < splits; k0 += ATTN_HELD) {
            if (k0 || i != kd_tid())
                attn_held(a, j, hd, i, k0, v);
            KD_UNROLL
            for (uint32_t k = 0; k < ATTN_HELD; k++) {
                if (k0 + k >= splits)
                    break;
                float by = ml[2 * (k0 + k)];
                l = k_fma(ml[2 * (k0 + k) + 1], by, l);
                o = k_fma(v[k], by, o);
            }
        }
        attn_write(a, j->row, hd, attn_merged(j, i / hd), i % hd, sh_top()[i / hd], l, o);
    }
    kd_barrier();
}

/* All of a work-group's passes are done: the last of the row's splits merges them. */
KD_FN void attn_finish(const kl_attn *a, struct attn_job *j, const uint32_t hd, uint32_t warps)
{
    if (j->n_active == 1)
        return;
    kd_barrier();
    if (kd_tid() == 0)
        *sh_arrived() = kd_arrive(KD_PTR(uint32_t, a->counters) + j->counter, j->arrivals);
    kd_barrier();
    if (*sh_arrived() != j->arrivals - 1)
        return;
    for (uint32_t set0 = 0; set0 < attn_sets(a->n_head / a->n_kv); set0 += warps) {
        attn_place(a, j, set0, kd_warp(), warps);
        attn_merge(a, j, hd);
    }
}

#if ATTN_SET != 0

/* ---- heads of 64, 128 and 256, all but f32 ---- */

/* A step of the butterfly: lanes `bit` apart exchange halves of their 2 n sums, the upper one keeps the upper half.
 * With n = 0 they add their only one. */
KD_FN void fold(float *s, const uint32_t n, const uint32_t bit)
{
    bool upper = kd_lane() & bit;
    if (n == 0)
        s[0] += kd_shfl_xor_f32(s[0], bit);
    KD_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        float lo = s[i], hi = s[i + n];
        s[i] = (upper ? hi : lo) + kd_shfl_xor_f32(upper ? lo : hi, bit);
    }
}

/* `count` sums over groups of `lanes` lanes: lane l of a group ends with sum l / (lanes / count) in s[0]. */
KD_FN void fold_all(float *s, const uint32_t count, const uint32_t lanes)
{
    if (lanes == 32)
        fold(s, count / 2, 16);
    if (lanes >= 16)
        fold(s, count * 16 / lanes / 2, 8);
    if (lanes >= 8)
        fold(s, count * 8 / lanes / 2, 4);
    fold(s, count * 4 / lanes / 2, 2);
    fold(s, count * 2 / lanes / 2, 1);
}

/* The warp's o over its groups of lanes; each lane keeps 8 HD / 256 dimensions of every head and writes them. */
KD_FN void attn_leave(const struct attn_job *j, const uint32_t HD, const uint32_t NH, float (*o)[8], const float *m,
                      const float *l)
{
    const uint32_t lpp = HD / 8, n = HD / 32;
    uint32_t lane = kd_lane(), d = lane % lpp * 8, slots = job_slots(j);
    KD_SHARED float *ml = sh_ml(), *os = sh_o(j);
    KD_UNROLL
    for (uint32_t h = 0; h < NH; h++) {
        if (lpp <= 16)
            fold(o[h], 4, lpp);
        if (lpp == 8)
            fold(o[h], 2, 16);
    }
    if (lpp <= 16)
        d += lane & lpp ? 4 : 0;
    if (lpp == 8)
        d += lane & 16 ? 2 : 0;
    KD_UNROLL
    for (uint32_t h = 0; h < NH; h++) {
        uint32_t at = j->wp * slots + job_slot(j, h);
        KD_UNROLL
        for (uint32_t i = 0; i < n; i++)
            os[at * HD + d + i] = o[h][i];
        if (lane == 0) {
            ml[2 * at] = m[h];
            ml[2 * at + 1] = l[h];
        }
    }
}

/* FRESH: see kv_raw8_of. */
KD_FN void load_rows(const bool FRESH, const enum ka_kv KV, struct kv_head k, const uint32_t HD, uint32_t p0, uint32_t last,
                     kd_u32x4 *raw)
{
    const uint32_t lpp = HD / 8, pw = KD_WARP / lpp;
    KD_UNROLL
    for (uint32_t i = 0; i < ATTN_SUB / pw; i++)
        raw[i] = kv_raw8_of(FRESH, KV, k, kd_min_u32(p0 + i * pw + kd_lane() / lpp, last), HD, kd_lane() % lpp * 8);
}

/* q in shared memory: the lower four of all lanes' eight dimensions, then the upper four, so that 16 bytes a lane are
 * read without conflicts. */
KD_FN uint32_t q_at(const uint32_t HD, uint32_t d) { return d % 8 / 4 * (HD / 2) + d / 8 * 4 + d % 4; }

/* The lane's part of the scores, s[position][head]. */
KD_FN void attn_scores(const enum ka_kv KV, const uint32_t HD, const uint32_t NH, struct kv_head kh, const kd_u32x4 *k,
                       KD_SHARED const float *q, float *s)
{
    const uint32_t lpp = HD / 8, npos = ATTN_SUB / (KD_WARP / lpp), half = npos < 4 ? npos : 4;
    KD_UNROLL
    for (uint32_t i0 = 0; i0 < npos; i0 += half) {
        float x[4][8];
        KD_UNROLL
        for (uint32_t i = 0; i < half; i++)
            kv_widen8(KV, kv_open8(KV, kh, k[i0 + i]), x[i]);
        KD_UNROLL
        for (uint32_t h = 0; h < NH; h++) {
            kd_f32x4 lo = *(KD_SHARED const kd_f32x4 *)(q + h * HD + kd_lane() % lpp * 4);
            kd_f32x4 hi = *(KD_SHARED const kd_f32x4 *)(q + h * HD + HD / 2 + kd_lane() % lpp * 4);
            KD_UNROLL
            for (uint32_t i = 0; i < half; i++) {
                float t = lo[0] * x[i][0];
                KD_UNROLL
                for (uint32_t d = 1; d < 8; d++)
                    t = k_fma(d < 4 ? lo[d % 4] : hi[d % 4], x[i][d], t);
                s[(i0 + i) * NH + h] = KV == KA_KV_F16 ? t : t * kv_scale8(KV, k[i0 + i]);
            }
        }
    }
}

/* Where the heads come from: a->q; the work-group's shared memory; or, as kl_attn_rope says, they are made from what the lanes hold of
 * them, while the first rows of K, and of V as far as the level-2 cache, are on their way, which may be before there is anything to
 * make them from. New positions are asked for again then. */
enum attn_heads { HEADS_GIVEN, HEADS_MADE, HEADS_TO_MAKE, HEADS_OF_ROWS };

/* What lanes have of what is to be made: of the warp's head, and of another where there are more heads than warps; and of several rows
 * all, `news` of which, a bit each, have K and V here. */
struct attn_own {
    struct ar_lane lane[2];
#if defined(ATTN_ROPE)
    struct ar_rows all;
    uint32_t news;
#endif
};

#if defined(ATTN_ROPE)
/* A row's head t: see ar_make. */
KD_FN void attn_make_head(const kl_attn_rope *r, const enum ka_kv KV, const uint32_t HD, const struct attn_job *j, uint32_t t,
                          uint32_t pos, bool newest, struct ar_lane *l)
{
    ar_norm(r, HD, t, j->group, l);
    ar_make(r, KV, HD, t, j->group, j->kvh, pos, j->slot * r->slot_bytes, newest, l);
}

/* The rows whose head t the work-group makes, a bit each. */
KD_FN uint32_t attn_makes(const struct attn_job *j, uint32_t t, uint32_t news)
{
    bool q = t < j->group, mine = t % ATTN_NH >= j->first && t % ATTN_NH < j->first + (1u << j->nh);
    return q ? (mine ? 1u << j->row : 0) : t < j->group + 2 ? news : 0;
}

/* One row's heads, a warp for each. */
KD_FN void attn_make(const kl_attn_rope *r, const enum ka_kv KV, const uint32_t HD, const struct attn_job *j, struct attn_own *own)
{
    uint32_t t = kd_warp();
    if (attn_makes(j, t, 1)) {
        ar_read(r, HD, t, j->group, j->kvh, 0, own->lane);
        attn_make_head(r, KV, HD, j, t, j->pos, j->to - 1 == j->pos, own->lane);
    }
}

/* The same of several, by half as many warps if need be: what both of a warp's heads are made of is asked for together. */
KD_FN void attn_make_rows(const kl_attn_rope *r, const enum ka_kv KV, const uint32_t HD, const struct attn_job *j, struct attn_own *own)
{
    uint32_t t[2] = { kd_warp(), kd_warp() + kd_n_warps() }, rows[2];
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        if ((rows[i] = attn_makes(j, t[i], own->news)))
            ar_read(r, HD, t[i], j->group, j->kvh, (uint32_t)__builtin_ctz(rows[i]), &own->lane[i]);
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        while (rows[i]) {
            attn_make_head(r, KV, HD, j, t[i], kd_shfl_u32(own->all.pos, (uint32_t)__builtin_ctz(rows[i])), true, &own->lane[i]);
            if (!(rows[i] &= rows[i] - 1))
                break;
            kd_warp_sync(); /* the head is stored, its place free */
            ar_read(r, HD, t[i], j->group, j->kvh, (uint32_t)__builtin_ctz(rows[i]), &own->lane[i]);
        }
}
#endif

/* NH: the heads that a warp computes, ATTN_NH or less. own: where heads are to be made. */
KD_FN void attn_scan(const enum attn_heads HEADS, const kl_attn *a, const struct attn_job *job, const uint32_t HD, const uint32_t NH,
                     const enum ka_kv KV, struct attn_own *own)
{
    struct attn_job mine = *job, *j = &mine;
    if (NH == ATTN_NH) /* what it is anyway, as constants */
        j->nh = ATTN_NH_LOG2, j->first = 0;
    if (NH == 1)
        j->nh = 0;
    const bool OWN = HEADS != HEADS_GIVEN;
    const uint32_t lpp = HD / 8, pw = KD_WARP / lpp, npos = ATTN_SUB / pw, rep = ATTN_NH / NH;
    uint32_t lane = kd_lane(), sub = lane % lpp, last = j->to - 1;
    uint32_t mine_h = sub / rep % NH, mine_p = sub / rep / NH * pw + lane / lpp; /* of the score that it ends with */
    struct kv_head kh = kv_head(a->kc + j->slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, HD, j->kvh);
    struct kv_head vh = kv_head(a->vc + j->slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, HD, j->kvh);
    KD_SHARED float *q = sh_o(j) + (j->wp * job_slots(j) + job_slot(j, 0)) * HD; /* where o ends up */
    float o[ATTN_NH][8], m = NEG_INF, l = 0.0f;
    kd_u32x4 k[ATTN_SUB], v[ATTN_SUB];
    uint32_t p0 = j->from + j->wp * ATTN_SUB, by = j->n_wp * ATTN_SUB;
    load_rows(OWN, KV, kh, HD, p0, last, k);
#if defined(ATTN_ROPE)
    const kl_attn_rope *r = (const kl_attn_rope *)a;
    KD_SHARED const float *made = OWN ? ar_head(r, HD, job_head(j, 0)) : q;
    if (HEADS == HEADS_TO_MAKE || HEADS == HEADS_OF_ROWS) {
        const bool ROWS = HEADS == HEADS_OF_ROWS;
        ar_prefetch(KV, vh, HD, p0, ATTN_SUB, last);
        if (r->early) {
            kd_wait_inputs();
            kd_let_next_start();
        }
        if (ROWS)
            attn_make_rows(r, KV, HD, j, own);
        else
            attn_make(r, KV, HD, j, own);
        ar_scale(r, HD, j->group, j->pos);
        kd_barrier();
        if (j->idle)
            return;
        if (ROWS ? own->news && (own->news != 1u << j->row || p0 + ATTN_SUB > last) : last == j->pos && p0 + ATTN_SUB > last)
            load_rows(OWN, KV, kh, HD, p0, last, k);
    }
#endif
    KD_UNROLL
    for (uint32_t h = 0; h < NH; h++) {
        bool is = job_head(j, h) < j->group;
        KD_GLOBAL const float *qr = KD_PTR(const float, a->q) + (uint64_t)j->row * a->ldq +
                                    (uint64_t)(j->kvh * j->group + (is ? job_head(j, h) : 0)) * a->q_hs;
        KD_UNROLL
        for (uint32_t i = 0; i < HD / KD_WARP; i++) {
            uint32_t d = lane + i * KD_WARP;
#if defined(ATTN_ROPE)
            if (OWN) {
                q[h * HD + q_at(HD, d)] = is ? made[h * HD + d] * (a->scale * LOG2E) : 0.0f;
                continue;
            }
#endif
            q[h * HD + q_at(HD, d)] = is ? qr[d] * (a->scale * LOG2E) : 0.0f;
        }
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            o[h][i] = 0.0f;
    }
    kd_warp_sync();
    for (uint32_t turn = 0; p0 < j->to; p0 += by, turn ^= 1) {
        KD_SHARED float *prob = sh_prob() + turn * ATTN_SUB * ATTN_NH; /* two: the other one may still be read */
        float s[ATTN_NH * ATTN_SUB];
        load_rows(OWN, KV, vh, HD, p0, last, v);
        attn_scores(KV, HD, NH, kh, k, q, s);
        fold_all(s, NH * npos, lpp);
        load_rows(OWN, KV, kh, HD, p0 + by, last, k);
        bool seen = p0 + mine_p < j->to;
        float top = seen ? s[0] : NEG_INF, old = m;
        KD_UNROLL
        for (uint32_t b = 4; b < KD_WARP; b <<= 1)
            top = kd_max(kd_shfl_xor_f32(top, b), top);
        m = kd_max(old, top);
        float p = seen ? kd_exp2(s[0] - m) : 0.0f, decay = kd_exp2(old - m);
        l = k_fma(l, decay, p);
        if (sub % rep == 0)
            prob[mine_p * ATTN_NH + mine_h] = p;
        kd_warp_sync();
        KD_UNROLL
        for (uint32_t h = 0; h < NH; h++) {
            float f = kd_shfl_f32(decay, h * rep);
            KD_UNROLL
            for (uint32_t d = 0; d < 8; d++)
                o[h][d] *= f;
        }
        KD_UNROLL
        for (uint32_t i = 0; i < npos; i++) {
            float x[8];
            kv_widen8(KV, kv_open8(KV, vh, v[i]), x);
            KD_UNROLL
            for (uint32_t h = 0; h < NH; h++) {
                float f = prob[(i * pw + lane / lpp) * ATTN_NH + h];
                f = KV == KA_KV_F16 ? f : f * kv_scale8(KV, v[i]);
                KD_UNROLL
                for (uint32_t d = 0; d < 8; d++)
                    o[h][d] = k_fma(f, x[d], o[h][d]);
            }
        }
    }
    KD_UNROLL
    for (uint32_t b = 4; b < KD_WARP; b <<= 1)
        l += kd_shfl_xor_f32(l, b);
    float ms[ATTN_NH], ls[ATTN_NH];
    KD_UNROLL
    for (uint32_t h = 0; h < NH; h++) {
        ms[h] = kd_shfl_f32(m, h * rep);
        ls[h] = kd_shfl_f32(l, h * rep);
    }
    kd_warp_sync(); /* q is read */
    attn_leave(j, HD, NH, o, ms, ls);
}

KD_FN void attn_fixed(const kl_attn *a, const uint32_t HD, const uint32_t warps)
{
    struct attn_job j;
    kd_wait_inputs();
    kd_let_next_start();
    if (!attn_job(a, &j))
        return;
    for (uint32_t set0 = 0; set0 < attn_sets(a->n_head / a->n_kv); set0 += warps) {
        for (uint32_t warp = kd_warp(); warp < warps; warp += kd_n_warps()) {
            attn_place(a, &j, set0, warp, warps);
            if (!j.idle && a->kv_type == KA_KV_F16 && j.group > 2)
                attn_scan(HEADS_GIVEN, a, &j, HD, 4, KA_KV_F16, NULL);
            else if (!j.idle && a->kv_type == KA_KV_F16)
                attn_scan(HEADS_GIVEN, a, &j, HD, 2, KA_KV_F16, NULL);
            else if (!j.idle && a->kv_type == KA_KV_Q8_0)
                attn_scan(HEADS_GIVEN, a, &j, HD, 4, KA_KV_Q8_0, NULL);
            else if (!j.idle && a->kv_type == KA_KV_FP8)
                attn_scan(HEADS_GIVEN, a, &j, HD, 4, KA_KV_FP8, NULL);
            else if (!j.idle)
                attn_scan(HEADS_GIVEN, a, &j, HD, 4, KA_KV_Q4_0, NULL);
        }
        kd_barrier();
        attn_combine(a, &j, HD);
        kd_barrier();
    }
    attn_finish(a, &j, HD, warps);
}

#if defined(KD_SMALL_SHARED)
#define SMALL_HEADS_WARPS kd_n_warps()
#else
#define SMALL_HEADS_WARPS ATTN_WARPS_SMALL
#endif
#if ATTN_SET == 64
KD_KERNEL(k_attn_h64, kl_attn) { attn_fixed(&a, 64, SMALL_HEADS_WARPS); }
#elif ATTN_SET == 128
KD_KERNEL(k_attn_h128, kl_attn) { attn_fixed(&a, 128, SMALL_HEADS_WARPS); }
#elif ATTN_SET == 256
KD_KERNEL(k_attn_h256, kl_attn) { attn_fixed(&a, 256, kd_n_warps()); }
#endif

#if defined(ATTN_ROPE) && ATTN_SET <= 128
/* A warp's turn, of an f16 cache. heads: of each set that are the work-group's. */
KD_FN void attn_turn_f16(const enum attn_heads HEADS, const kl_attn_rope *r, const struct attn_job *j, const uint32_t HD,
                         uint32_t heads, struct attn_own *own)
{
    const kl_attn *a = (const kl_attn *)r;
    if (heads == 1)
        attn_scan(HEADS, a, j, HD, 1, KA_KV_F16, own);
    else if (heads == 2)
        attn_scan(HEADS, a, j, HD, 2, KA_KV_F16, own);
    else
        attn_scan(HEADS, a, j, HD, 4, KA_KV_F16, own);
}

KD_FN void attn_turn(const kl_attn_rope *r, const struct attn_job *j, const uint32_t HD, uint32_t heads, struct attn_own *own)
{
    const kl_attn *a = (const kl_attn *)r;
    switch (a->kv_type) {
    case KA_KV_F16: attn_turn_f16(HEADS_TO_MAKE, r, j, HD, heads, own); break;
    case KA_KV_Q8_0: attn_scan(HEADS_TO_MAKE, a, j, HD, 4, KA_KV_Q8_0, own); break;
    case KA_KV_FP8: attn_scan(HEADS_TO_MAKE, a, j, HD, 4, KA_KV_FP8, own); break;
    default: attn_scan(HEADS_TO_MAKE, a, j, HD, 4, KA_KV_Q4_0, own);
    }
}

/* ROWS: there may be several, of an f16 cache; a work-group may have fewer warps than heads to make, or than turns, and every n-th
 * split of its row, for which it makes the heads once. */
KD_FN void attn_rope_fixed(const bool ROWS, const kl_attn_rope *r, const uint32_t HD)
{
    const kl_attn *a = (const kl_attn *)r;
    uint32_t group = a->n_head / a->n_kv, n_rows;
    struct attn_job j;
    struct attn_own own;
    ka_row row;
    ar_ask(r, HD, kd_warp(), group, &own.lane[0]);
    if (ROWS)
        ar_ask(r, HD, kd_warp() + kd_n_warps(), group, &own.lane[1]);
    kd_ask_args(r, sizeof *r, KD_PTR(const void, r->q));
    if (r->early) {
        kd_see_inputs();
    } else {
        kd_wait_inputs();
        kd_let_next_start();
    }
    if (ROWS) {
        own.all = ar_rows(r);
        row = ar_row_of(&own.all, kd_group_y());
        n_rows = own.all.n;
    } else {
        row = ar_row(r, &n_rows);
    }
    if (!attn_job_of(a, &j, row, n_rows, r->shares)) {
        if (r->early)
            kd_wait_inputs();
        return;
    }
    uint32_t heads = j.nh < ATTN_NH_LOG2 ? 1u << j.nh : group > 2 ? ATTN_NH : 2, by = r->groups;
    attn_place(a, &j, 0, kd_warp(), ATTN_WARPS_SMALL);
    if (ROWS) {
        j.arrivals = kd_min_u32(j.n_active, by);
        own.news = r->k ? ar_among(&own.all, j.slot, j.from, j.chunk, by * j.chunk, j.pos + 1) : 0;
        attn_turn_f16(HEADS_OF_ROWS, r, &j, HD, heads, &own);
    } else {
        attn_turn(r, &j, HD, heads, &own);
    }
    for (uint32_t warp = kd_warp() + kd_n_warps();; warp = kd_warp()) {
        for (; ROWS && warp < ATTN_WARPS_SMALL; warp += kd_n_warps()) {
            attn_place(a, &j, 0, warp, ATTN_WARPS_SMALL);
            if (!j.idle)
                attn_turn_f16(HEADS_MADE, r, &j, HD, heads, &own);
        }
        kd_barrier();
        attn_combine(a, &j, HD);
        kd_barrier();
        if (!ROWS || j.split + by >= j.n_active)
            break;
        j.split += by;
        j.from += by * j.chunk;
        j.to = kd_min_u32(j.from + j.chunk, j.pos + 1);
    }
    attn_finish(a, &j, HD, ATTN_WARPS_SMALL);
}

#if ATTN_SET == 64
KD_KERNEL(k_attn_rope_h64, kl_attn_rope) { attn_rope_fixed(false, &a, 64); }
KD_KERNEL(k_attn_rope_rows_h64, kl_attn_rope) { attn_rope_fixed(true, &a, 64); }
#elif ATTN_SET == 128
KD_KERNEL(k_attn_rope_h128, kl_attn_rope) { attn_rope_fixed(false, &a, 128); }
KD_KERNEL(k_attn_rope_rows_h128, kl_attn_rope) { attn_rope_fixed(true, &a, 128); }
#endif
#endif

#else

/* ---- any other head, and f32 ---- */

/* Scores of the lane's position with the warp's heads; q f32 [NH][hd] in shared memory. */
KD_FN void any_scores(const kl_attn *a, struct kv_head kh, KD_SHARED const float *q, uint32_t pos, float s[ATTN_NH])
{
    KD_UNROLL
    for (uint32_t h = 0; h < ATTN_NH; h++)
        s[h] = 0.0f;
    for (uint32_t d = 0; d < a->head_dim; d += 8) {
        float x[8];
        kv_load8((enum ka_kv)a->kv_type, kh, pos, a->head_dim, d, x);
        KD_UNROLL
        for (uint32_t h = 0; h < ATTN_NH; h++) {
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++)
                s[h] = k_fma(q[h * a->head_dim + d + i], x[i], s[h]);
        }
    }
}

enum { ANY_HELD = ATTN_ANY_DIM / KD_WARP }; /* dimensions of o per lane */

/* 32 positions at once: a lane has a position for the scores, every 32nd dimension for the values. */
KD_FN void attn_scan_any(const kl_attn *a, const struct attn_job *j)
{
    const uint32_t hd = a->head_dim, lane = kd_lane(), slots = job_slots(j);
    struct kv_head kh = kv_head(a->kc + j->slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, hd, j->kvh);
    struct kv_head vh = kv_head(a->vc + j->slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, hd, j->kvh);
    KD_SHARED float *prob = sh_prob(), *ml = sh_ml();
    KD_SHARED float *mine = sh_o(j) + (j->wp * slots + job_slot(j, 0)) * hd; /* q, and at the end o */
    float o[ATTN_NH][ANY_HELD], m[ATTN_NH], l[ATTN_NH];
    KD_UNROLL
    for (uint32_t h = 0; h < ATTN_NH; h++) {
        bool is = job_head(j, h) < j->group;
        KD_GLOBAL const float *q = KD_PTR(const float, a->q) + (uint64_t)j->row * a->ldq +
                                   (uint64_t)(j->kvh * j->group + (is ? job_head(j, h) : 0)) * a->q_hs;
        for (uint32_t d = lane; d < hd; d += KD_WARP)
            mine[h * hd + d] = is ? q[d] * (a->scale * LOG2E) : 0.0f;
        m[h] = NEG_INF;
        l[h] = 0.0f;
        KD_UNROLL
        for (uint32_t i = 0; i < ANY_HELD; i++)
            o[h][i] = 0.0f;
    }
    kd_warp_sync();
    for (uint32_t p0 = j->from + j->wp * ATTN_ANY_SUB; p0 < j->to; p0 += j->n_wp * ATTN_ANY_SUB) {
        uint32_t n = kd_min_u32(j->to - p0, ATTN_ANY_SUB);
        float s[ATTN_NH];
        any_scores(a, kh, mine, p0 + kd_min_u32(lane, n - 1), s);
        kd_warp_sync(); /* the probabilities before are read */
        KD_UNROLL
        for (uint32_t h = 0; h < ATTN_NH; h++) {
            float old = m[h];
            m[h] = kd_max(old, kd_warp_max(lane < n ? s[h] : NEG_INF));
            float p = lane < n ? kd_exp2(s[h] - m[h]) : 0.0f, decay = kd_exp2(old - m[h]);
            l[h] = k_fma(l[h], decay, kd_warp_sum(p));
            prob[lane * ATTN_NH + h] = p;
            KD_UNROLL
            for (uint32_t i = 0; i < ANY_HELD; i++)
                o[h][i] *= decay;
        }
        kd_warp_sync();
        KD_UNROLL
        for (uint32_t i = 0; i < ANY_HELD; i++) {
            uint32_t d = lane + i * KD_WARP;
            for (uint32_t t = 0; d < hd && t < n; t++) {
                float x = kv_load1((enum ka_kv)a->kv_type, vh, p0 + t, hd, d);
                KD_UNROLL
                for (uint32_t h = 0; h < ATTN_NH; h++)
                    o[h][i] = k_fma(prob[t * ATTN_NH + h], x, o[h][i]);
            }
        }
    }
    kd_warp_sync(); /* q is read */
    KD_UNROLL
    for (uint32_t h = 0; h < ATTN_NH; h++) {
        KD_UNROLL
        for (uint32_t i = 0; i < ANY_HELD; i++)
            if (lane + i * KD_WARP < hd)
                mine[h * hd + lane + i * KD_WARP] = o[h][i];
        if (lane == 0) {
            uint32_t at = j->wp * slots + job_slot(j, h);
            ml[2 * at] = m[h];
            ml[2 * at + 1] = l[h];
        }
    }
}

KD_FN void attn_any(const kl_attn *a)
{
    struct attn_job j;
    kd_wait_inputs();
    kd_let_next_start();
    if (!attn_job(a, &j))
        return;
    for (uint32_t set0 = 0; set0 < attn_sets(a->n_head / a->n_kv); set0 += kd_n_warps()) {
        attn_place(a, &j, set0, kd_warp(), kd_n_warps());
        if (!j.idle)
            attn_scan_any(a, &j);
        kd_barrier();
        attn_combine(a, &j, a->head_dim);
        kd_barrier();
    }
    attn_finish(a, &j, a->head_dim, kd_n_warps());
}

KD_KERNEL(k_attn_any, kl_attn)
{
    attn_any(&a);
}

/* Half the warps, for large heads where shared memory is small. */
KD_KERNEL(k_attn_any_w4, kl_attn)
{
    attn_any(&a);
}

#endif
