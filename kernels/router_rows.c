/* kernels/router_rows.c: ROUTER of the class "rows" with F32 weights, on Hopper (KL_ROUTER_ROWS).
 *
 * A work-group has 16 experts and 8 rows, a work-item the quads of elements t, t + 256, ..: of each it reads every expert's and
 * every row's once, and keeps all 128 sums in registers. The lanes of a warp then add up by halves, each giving away what the other
 * keeps, and the warps by way of shared memory. The last work-group of 8 rows makes their choice, a warp for each, and the first one
 * to arrive the shared expert's gate.
 *
 * Weights are asked for before the launch waits for its inputs, the first quads' into registers, others' into the level-2 cache. The
 * next quad's come into the registers of those that have just been multiplied.
 *
 * The order of a sum (doc/arithmetic.md) is that of the quads, of the lanes and of the warps alone. */
#include "kernels/hw/redux.h"
#include "kernels/klaunch.h"
#include "kernels/router_rows_shared.h"
#include "kernels/topk.h"

#if defined(__NVPTX__) /* loops of few turns */
#define RR_ROLLED _Pragma("nounroll")
#else
#define RR_ROLLED
#endif

/* ---- products ---- */

struct rr_weights { /* of a quad and one half of the experts */
    uint32_t w[RR_EXPERTS / 2][4];
};
struct rr_x { /* of a quad */
    kd_f32x4 x[RR_ROWS], norm;
};
struct rr_sums {
    float v[RR_ROWS][RR_EXPERTS], squares[RR_ROWS];
};

/* Where quad q of an expert lies, in quads from the first expert's on, and that of the last one, which stands in for those that there
 * are not. Each expert's place is made from the one before: all of them side by side would take registers. */
struct rr_at {
    uint32_t at, last;
    bool is; /* there is such a quad */
};
KD_FN struct rr_at rr_at(const kl_router_rows *a, uint32_t expert, uint32_t q)
{
    uint32_t quads = a->n_in / 4, last = a->n_expert - 1;
    return (struct rr_at){ kd_min_u32(expert, last) * quads + q, last * quads + q, q < quads };
}
KD_FN void rr_load_expert(const kl_router_rows *a, struct rr_at *at, uint32_t w[4])
{
    kd_reload16(w, KD_PTR(const kd_u32x4, a->w) + at->at, at->is);
    at->at = kd_keep(kd_min_u32(at->at + a->n_in / 4, at->last));
}
/* Those of a half from its e-th expert on. */
KD_FN void rr_load_experts(const kl_router_rows *a, struct rr_at at, uint32_t e, struct rr_weights *w)
{
    KD_UNROLL
    for (; e < RR_EXPERTS / 2; e++)
        rr_load_expert(a, &at, w->w[e]);
}

/* Of rows that the stream has no room for, the last one's. Nothing where there is no such quad. */
KD_FN void rr_load_x(const kl_router_rows *a, uint32_t q, struct rr_x *x)
{
    uint32_t quads = a->n_in / 4, row0 = kd_group_y() * RR_ROWS;
    if (q >= quads)
        return;
    x->norm = a->norm ? KD_PTR(const kd_f32x4, a->norm)[q] : (kd_f32x4){ 1.0f, 1.0f, 1.0f, 1.0f };
    KD_UNROLL
    for (uint32_t r = 0; r < RR_ROWS; r++)
        x->x[r] = KD_PTR(const kd_f32x4, a->x)[(uint64_t)kd_min_u32(row0 + r, a->cap - 1) * quads + q];
}

/* Adds the squares of x, and multiplies it by the norm's weights. */
KD_FN void rr_norm(struct rr_x *x, struct rr_sums *sums)
{
    KD_UNROLL
    for (uint32_t r = 0; r < RR_ROWS; r++) {
        KD_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            sums->squares[r] = k_fma(x->x[r][k], x->x[r][k], sums->squares[r]);
        x->x[r] *= x->norm;
    }
}

/* Adds the products of half h of the experts. Where the weights of its first n were come those at `next`, an expert at a time. h, n:
 * constants. */
KD_FN void rr_multiply(const kl_router_rows *a, const struct rr_x *x, struct rr_weights *w, uint32_t h, struct rr_at next, uint32_t n,
                       struct rr_sums *sums)
{
    KD_UNROLL
    for (uint32_t e = 0; e < RR_EXPERTS / 2; e++) {
        KD_UNROLL
        for (uint32_t r = 0; r < RR_ROWS; r++) {
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                sums->v[r][h * RR_EXPERTS / 2 + e] = k_fma(f32_from_bits(w->w[e][k]), x->x[r][k], sums->v[r][h * RR_EXPERTS / 2 + e]);
        }
        if (e < n)
            rr_load_expert(a, &next, w->w[e]);
    }
}

/* Into the level-2 cache: of the lines that n bytes are, every step-th from the i-th on. */
KD_FN void rr_prefetch(gpu_va at, uint32_t n, uint32_t i, uint32_t step)
{
    enum { LINE = 128 };
    RR_ROLLED
    for (uint32_t o = i * LINE; at && o < n; o += step * LINE)
        kd_prefetch(KD_PTR(const void, at + o));
}

/* All that nobody writes: the first quads' weights into registers. */
KD_FN void rr_ask(const kl_router_rows *a, struct rr_weights w[2])
{
    uint32_t first = kd_group_x() * RR_EXPERTS, end = kd_min_u32(first + RR_EXPERTS, a->n_expert), had = 4 * 4 * RR_THREADS, row = 4 * a->n_in;
    rr_load_experts(a, rr_at(a, first, kd_tid()), 0, &w[0]);
    rr_load_experts(a, rr_at(a, first + RR_EXPERTS / 2, kd_tid()), 0, &w[1]);
    RR_ROLLED
    for (uint32_t e = first + kd_warp(); e < end && row > had; e += RR_WARPS)
        rr_prefetch(a->w + (uint64_t)e * row + had, row - had, kd_lane(), KD_WARP);
    rr_prefetch(a->norm, row, kd_tid(), RR_THREADS);
    rr_prefetch(a->shared_w, row, kd_tid(), RR_THREADS);
    rr_prefetch(a->b, 4 * a->n_expert, kd_tid(), RR_THREADS);
    rr_prefetch(a->expert_scale, 4 * a->n_expert, kd_tid(), RR_THREADS);
}

/* All of this work-item's quads; of the first one x and the weights are there, and x of the second in `ahead`. */
KD_FN void rr_products(const kl_router_rows *a, struct rr_weights w[2], struct rr_x *x, const struct rr_x *ahead, struct rr_sums *sums)
{
    enum { ALL = RR_EXPERTS / 2, SOON = 4 }; /* while x and `ahead` are held there are no registers for more */
    const struct rr_at none = { 0 };
    uint32_t first = kd_group_x() * RR_EXPERTS, q = kd_tid() + RR_THREADS;
    rr_norm(x, sums);
    rr_multiply(a, x, &w[0], 0, rr_at(a, first, q), SOON, sums);
    rr_multiply(a, x, &w[1], 1, none, 0, sums);
    rr_load_experts(a, rr_at(a, first + SOON, q), SOON, &w[0]);
    *x = *ahead;
    for (; q < a->n_in / 4; q += RR_THREADS) {
        rr_norm(x, sums);
        rr_multiply(a, x, &w[0], 0, rr_at(a, first + ALL, q), ALL, sums);
        rr_multiply(a, x, &w[0], 1, rr_at(a, first, q + RR_THREADS), ALL, sums);
        rr_load_x(a, q + RR_THREADS, x);
    }
}

/* ---- sums ---- */

/* Of two values a lane keeps one, the second where its number has bit m, and adds what the lane m apart has of it. */
KD_FN float rr_half(float first, float second, uint32_t m)
{
    bool is = kd_lane() & m;
    float other = kd_shfl_xor_f32(is ? first : second, m);
    return (is ? second : first) + other;
}

/* Over the lanes, 16, 8, 4, 2, 1 apart: into shared memory, [warp][row][expert], and of squares [warp][row]. */
KD_FN void rr_add_lanes(struct rr_sums *s)
{
    enum { QUAD = RR_EXPERTS / 4 }; /* of the experts a lane keeps these */
    KD_UNROLL
    for (uint32_t m = 16, rows = RR_ROWS / 2; rows; m /= 2, rows /= 2) {
        KD_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            KD_UNROLL
            for (uint32_t e = 0; e < RR_EXPERTS; e++)
                s->v[r][e] = rr_half(s->v[r][e], s->v[r + rows][e], m);
            s->squares[r] = rr_half(s->squares[r], s->squares[r + rows], m);
        }
    }
    KD_UNROLL
    for (uint32_t m = 2, n = RR_EXPERTS / 2; m; m /= 2, n /= 2) {
        KD_UNROLL
        for (uint32_t e = 0; e < n; e++)
            s->v[0][e] = rr_half(s->v[0][e], s->v[0][e + n], m);
        s->squares[0] += kd_shfl_xor_f32(s->squares[0], m);
    }
    KD_SHARED kd_f32x4 *v = KD_SHARED_AT(kd_f32x4, 0);
    v[kd_tid()] = (kd_f32x4){ s->v[0][0], s->v[0][1], s->v[0][2], s->v[0][3] };
    if (kd_lane() % QUAD == 0)
        KD_SHARED_AT(float, RR_SQUARES)[kd_tid() / QUAD] = s->squares[0];
}

/* The sum of what the warps have in shared memory, `ld` apart. */
KD_FN float rr_add_warps(KD_SHARED const float *v, uint32_t ld)
{
    float sum = v[0];
    KD_UNROLL
    for (uint32_t w = 1; w < RR_WARPS; w++)
        sum += v[w * ld];
    return sum;
}

/* What row r's sums are multiplied by. */
KD_FN float rr_scale(const kl_router_rows *a, uint32_t r)
{
    float squares = rr_add_warps(KD_SHARED_AT(const float, RR_SQUARES) + r, RR_ROWS);
    return a->norm ? 1.0f / kd_sqrt(squares / (float)a->n_in + a->eps) : 1.0f;
}

KD_FN KD_COHERENT float *rr_logits(const kl_router_rows *a, uint32_t row)
{
    return (KD_COHERENT float *)KD_PTR(float, a->logits) + (uint64_t)row * a->n_expert;
}

/* A work-item has a row and an expert. */
KD_FN void rr_store_logits(const kl_router_rows *a, struct rr_sums *sums, uint32_t rows)
{
    uint32_t r = kd_tid() / RR_EXPERTS, row = kd_group_y() * RR_ROWS + r, expert = kd_group_x() * RR_EXPERTS + kd_tid() % RR_EXPERTS;
    bool is = r < RR_ROWS && row < rows && expert < a->n_expert;
    float bias = a->b && is ? KD_PTR(const float, a->b)[expert] : 0.0f;
    rr_add_lanes(sums);
    kd_barrier();
    if (is) {
        float v = rr_add_warps(KD_SHARED_AT(const float, 0) + kd_tid(), RR_ROWS * RR_EXPERTS) * rr_scale(a, r);
        rr_logits(a, row)[expert] = a->b ? v + bias : v;
    }
    kd_barrier();
}

/* ---- the shared expert's gate, and the choice: a warp has a row ---- */

KD_FN void rr_gate(const kl_router_rows *a, uint32_t row)
{
    enum { ASKED = 8 }; /* quads at once */
    KD_GLOBAL const kd_f32x4 *x = KD_PTR(const kd_f32x4, a->x) + (uint64_t)row * (a->n_in / 4);
    KD_GLOBAL const kd_f32x4 *norm = KD_PTR(const kd_f32x4, a->norm), *w = KD_PTR(const kd_f32x4, a->shared_w);
    uint32_t quads = a->n_in / 4;
    float sum = 0.0f;
    for (uint32_t q = kd_lane(); q < quads; q += ASKED * KD_WARP) {
        kd_f32x4 v[ASKED], by[ASKED];
        KD_UNROLL
        for (uint32_t i = 0; i < ASKED; i++) {
            uint32_t at = kd_min_u32(q + i * KD_WARP, quads - 1);
            v[i] = x[at];
            by[i] = w[at];
            v[i] = norm ? v[i] * norm[at] : v[i];
        }
        KD_UNROLL
        for (uint32_t i = 0; i < ASKED; i++) {
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                sum = q + i * KD_WARP < quads ? k_fma(by[i][k], v[i][k], sum) : sum;
        }
    }
    sum = kd_warp_sum(sum) * rr_scale(a, row % RR_ROWS);
    if (kd_lane() == 0)
        KD_PTR(float, a->share)[row] = k_sigmoid(sum);
}

/* The number that a key was made of; of 0: -inf, which adds nothing to a sum of exponentials. */
KD_FN float rr_number(uint32_t key)
{
    float v = f32_from_bits(key >> 31 ? key & 0x7fffffffu : ~key);
    return key ? v : -kd_inf(); /* the bits that 1 gives are those of a NaN */
}

/* Among up to n * 32 experts: lane j has the j-th of the chosen. n, a constant. */
KD_FN void rr_choose(const kl_router_rows *a, uint32_t row, uint32_t n)
{
    KD_COHERENT const float *l = rr_logits(a, row);
    uint32_t key[RR_MAX_EXPERTS / KD_WARP], most = 0, id = 0, own = 0;
    KD_UNROLL
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = i * KD_WARP + kd_lane();
        key[i] = e < a->n_expert ? topk_key(l[e]) : 0;
    }
    KD_UNROLL
    for (uint32_t i = 0; i < n; i++)
        most = kd_max_u32(most, key[i]);
    float top = rr_number(kd_warp_max_u32(most)), total = 0.0f;
    KD_UNROLL
    for (uint32_t i = 0; i < n && a->gating == KA_SOFTMAX_TOPK; i++)
        total += k_exp(rr_number(key[i]) - top);
    for (uint32_t j = 0; j < a->k; j++) {
        uint32_t at = ~0u;
        most = 0;
        KD_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            at = key[i] > most ? i * KD_WARP + kd_lane() : at;
            most = kd_max_u32(most, key[i]);
        }
        uint32_t best = kd_warp_max_u32(most), first = kd_warp_min_u32(most == best ? at : ~0u);
        KD_UNROLL
        for (uint32_t i = 0; i < n; i++)
            key[i] = i * KD_WARP + kd_lane() == first ? 0 : key[i];
        id = kd_lane() == j ? first : id;
        own = kd_lane() == j ? best : own;
    }
    bool has = kd_lane() < a->k;
    float e = has ? k_exp(rr_number(own) - top) : 0.0f, sum = kd_warp_sum(e);
    if (a->gating == KA_SOFTMAX_TOPK)
        sum = topk_divisor(sum, kd_warp_sum(total));
    if (!has)
        return;
    float w = e / sum * a->scale;
    uint64_t to = (uint64_t)row * a->k + kd_lane();
    KD_PTR(uint32_t, a->ids)[to] = id;
    KD_PTR(float, a->weights)[to] = a->expert_scale ? w * KD_PTR(const float, a->expert_scale)[id] : w;
}

/* ---- the kernel ---- */

KD_KERNEL(k_router_rows, kl_router_rows)
{
    struct rr_weights w[2] = { 0 };
    struct rr_x x = { 0 }, ahead;
    struct rr_sums sums = { 0 };
    rr_ask(&a, w);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t rows = kd_step_rows(a.step, ROWS_STEP);
    rr_load_x(&a, kd_tid(), &x); /* while the number of rows is on its way */
    rr_load_x(&a, kd_tid() + RR_THREADS, &ahead);
    if (kd_group_y() * RR_ROWS >= rows)
        return;
    rr_products(&a, w, &x, &ahead, &sums);
    rr_store_logits(&a, &sums, rows);
    KD_SHARED uint32_t *turn = KD_SHARED_AT(uint32_t, RR_TURN);
    if (kd_tid() == 0)
        *turn = kd_arrive(KD_PTR(uint32_t, a.counters) + kd_group_y(), kd_groups_x());
    kd_barrier();
    uint32_t row = kd_group_y() * RR_ROWS + kd_warp();
    if (row >= rows)
        return;
    if (*turn == kd_groups_x() - 1 && a.n_expert <= RR_MAX_EXPERTS / 2)
        rr_choose(&a, row, RR_MAX_EXPERTS / 2 / KD_WARP);
    else if (*turn == kd_groups_x() - 1)
        rr_choose(&a, row, RR_MAX_EXPERTS / KD_WARP);
    if (*turn == 0 && a.shared_w)
        rr_gate(&a, row);
}
