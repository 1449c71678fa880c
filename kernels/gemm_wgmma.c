/* kernels/gemm_wgmma.c: products of prompts on Hopper's tensor cores, sm_90a only. A persistent work-group of three
 * warpgroups goes through work items (a tile of 128 weight rows x up to 256 positions). The last warpgroup produces:
 * it dequantises the weights of 64 k to bf16, a row each, and starts the copy of the positions' tile; the first two
 * consume, 64 weight rows each. A ring of stages in shared memory lies between them, with a pair of barriers each:
 * `full` when weights and positions are there, `empty` when both consumers have read them. The producer runs ahead
 * into the next item while the consumers write the last one out.
 *
 * A sum goes along k in ascending order, 16 at a time, whatever the width of the tile: its bits depend on nothing
 * else, so the width is chosen here, from the step's rows. */
#if defined(KD_SM90)
#include "kernels/gemm_item.h"
#include "kernels/hw/wgmma.h"
#include "kernels/qset.h"
#include "kernels/wtile.h"

#define ALL_OF _Pragma("GCC unroll 128") /* loops over accumulators, which are registers */

enum {
    W_BYTES = KL_TILE_ROWS * 128,            /* weights of a stage                              */
    RING_BYTES = KL_GEMM_RING,               /* shared memory: the ring, then the barriers      */
    MAX_STAGES = 8,
    CONSUMERS = 8, PRODUCERS = 4             /* warps, as barriers count them                   */
};

/* How this launch is cut. */
struct plan {
    uint32_t rows;           /* positions; of a list: unused             */
    uint32_t width;          /* positions of a tile at most              */
    uint32_t tiles, n_tiles; /* of weights, of positions                 */
    uint32_t items;
    uint32_t stages, stage_bytes;
};

struct ring {
    uint32_t at, phase;
};

KD_FN void ring_next(struct ring *r, const struct plan *p)
{
    if (++r->at == p->stages) {
        r->at = 0;
        r->phase ^= 1;
    }
}
KD_FN uint32_t ring_before(const struct ring *r, const struct plan *p) { return (r->at ? r->at : p->stages) - 1; }
KD_FN wg_bar *bar_full(uint32_t at) { return KD_SHARED_AT(uint64_t, RING_BYTES) + at; }
KD_FN wg_bar *bar_empty(uint32_t at) { return KD_SHARED_AT(uint64_t, RING_BYTES) + MAX_STAGES + at; }

/* Cycles of a stage by width, about: the products where they are wide, the dequantisation where they are narrow. */
KD_FN uint32_t stage_cycles(uint32_t width)
{
    return width == 256 ? 1060 : width == 192 ? 830 : width == 128 ? 640 : width == 64 ? 420 : 380;
}

/* The width that ends soonest. */
KD_FN uint32_t best_width(uint32_t tiles, uint32_t rows, uint32_t stages)
{
    uint32_t best = 256, least = ~0u;
    KD_UNROLL
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t width = i == 0 ? 256 : i == 1 ? 192 : i == 2 ? 128 : i == 3 ? 64 : 32;
        uint32_t rounds = kd_div_up(tiles * kd_div_up(rows, width), kd_groups_x());
        uint32_t cycles = rounds * (stages * stage_cycles(width) + 1500 + 16 * width);
        if (cycles < least) {
            least = cycles;
            best = width;
        }
    }
    return best;
}

KD_FN struct plan make_plan(const kl_gemm *a)
{
    struct plan p = { .tiles = gemm_tiles(a) };
    if (a->tiles) {
        p.width = 128;
        p.n_tiles = a->n_slots;
    } else {
        p.rows = kd_step_rows(a->step, a->rows);
        p.width = best_width(p.tiles, p.rows, a->n_in / WT_K);
        p.n_tiles = kd_div_up(p.rows, p.width);
    }
    p.items = p.tiles * p.n_tiles;
    p.stage_bytes = W_BYTES + p.width * 128;
    p.stages = kd_min_u32(RING_BYTES / p.stage_bytes, MAX_STAGES);
    return p;
}

/* Item i; false: nothing to do. Neighbours share their weights, or with a list their positions. */
KD_FN bool find_item(const kl_gemm *a, const struct plan *p, uint32_t i, struct gemm_item *it)
{
    gemm_find_tile(a, a->tiles ? i % p->tiles : i / p->n_tiles, it);
    if (a->tiles)
        return gemm_find_slot(a, i / p->tiles, it);
    it->expert = 0;
    it->n0 = i % p->n_tiles * p->width;
    it->n = kd_min_u32(p->rows - it->n0, p->width);
    return true;
}

/* The next item of this work-group from i on; items for none. */
KD_FN uint32_t next_item(const kl_gemm *a, const struct plan *p, uint32_t i, struct gemm_item *it)
{
    while (i < p->items && !find_item(a, p, i, it))
        i += kd_groups_x();
    return kd_min_u32(i, p->items);
}

/* Positions that are multiplied: a width that wg_multiply has. */
KD_FN uint32_t item_width(const kl_gemm *a, const struct plan *p, const struct gemm_item *it)
{
    return a->tiles ? (it->n + 31) / 32 * 32 : p->width;
}

/* ---- the producer ---- */

struct producer {
    uint32_t tid;
    uint32_t item;          /* its index; items: the end */
    struct gemm_item it;
    struct ring r;
};

KD_FN struct wt_src producer_src(enum qtype type, const kl_gemm *a, const struct producer *p)
{
    uint32_t mat = gemm_row_mat(a, &p->it, p->tid), n = a->n_out[mat];
    uint32_t row = kd_min_u32(gemm_row_col(a, &p->it, p->tid), n - 1);
    return wt_src(type, a->w[mat] + p->it.expert * a->stride[mat], n, a->n_in, row);
}

KD_FN void produce_stage(enum qtype type, const kl_gemm *a, const struct plan *plan, const struct gemm_item *it,
                         struct producer *p, const struct wt_raw *raw, uint32_t c, uint32_t kc)
{
    uint32_t base = p->r.at * plan->stage_bytes;
    bar_wait(bar_empty(p->r.at), p->r.phase ^ 1);
    if (p->tid == 0) {
        uint32_t bytes = item_width(a, plan, it) * 128;
        bar_arrive_bytes(bar_full(p->r.at), bytes);
        bulk_copy(KD_SHARED_AT(uint8_t, base + W_BYTES),
                  KD_PTR(const uint8_t, a->x + ((uint64_t)kc * a->xrows + it->n0) * 128), bytes, bar_full(p->r.at));
    }
    KD_SHARED kd_u32x4 *w = KD_SHARED_AT(kd_u32x4, base + p->tid * 128);
    KD_UNROLL
    for (uint32_t i = 0; i < WT_PIECES; i++)
        w[i ^ p->tid % 8] = wt_piece(type, raw, c, i);
    async_fence();
    kd_warp_sync();
    if (kd_lane() == 0)
        bar_arrive(bar_full(p->r.at));
    ring_next(&p->r, plan);
}

/* Items of one type, from p->item on; the unit after the present one is on its way, across items too. */
KD_FN void produce(enum qtype type, const kl_gemm *a, const struct plan *plan, struct producer *p)
{
    uint32_t units = kd_div_up(a->n_in, wt_unit(type));
    struct wt_src src = producer_src(type, a, p);
    struct wt_raw raw, next;
    wt_load(type, &next, &src, 0, wt_chunks(type, a->n_in, 0));
    bool more = true;
    while (more) {
        struct gemm_item it = p->it;
        for (uint32_t u = 0; u < units; u++) {
            uint32_t chunks = wt_chunks(type, a->n_in, u), after = u + 1;
            raw = next;
            if (after == units) {
                p->item = next_item(a, plan, p->item + kd_groups_x(), &p->it);
                more = p->item < plan->items && a->type[p->it.mat] == type;
                after = 0;
                if (more)
                    src = producer_src(type, a, p);
            }
            if (more)
                wt_load(type, &next, &src, after, wt_chunks(type, a->n_in, after));
            KD_UNROLL
            for (uint32_t c = 0; c < wt_unit_chunks(type); c++) {
                if (c >= chunks)
                    continue;
                produce_stage(type, a, plan, &it, p, &raw, c, u * wt_unit_chunks(type) + c);
            }
        }
    }
}

KD_FN void produce_all(const kl_gemm *a, const struct plan *plan)
{
    struct producer p = { .tid = kd_tid() % 128 };
    p.item = next_item(a, plan, kd_group_x(), &p.it);
    async_fence(); /* the positions were written by ordinary stores */
    while (p.item < plan->items) {
        if (a->type[p.it.mat] == QSET_A)
            produce(QSET_A, a, plan, &p);
        if (QSET_PAIR && p.item < plan->items && a->type[p.it.mat] == QSET_B)
            produce(QSET_B, a, plan, &p);
    }
}

/* ---- the consumers ---- */

/* act(gate, up) = g sigmoid(g (c0 + c1 g^2)) (u + c2) for all three, with the hardware's exponential; gpt-oss's also
 * clamps both. tanh x = 2 sigmoid(2 x) - 1 makes the Gaussian one of them. */
struct act_form {
    float c0, c1, c2, most;
};
KD_FN struct act_form act_form(uint32_t act)
{
    float inf = f32_from_bits(0x7f800000);
    return (struct act_form){ .c0 = act == KA_SILU ? 1.0f : act == KA_GELU_TANH ? 1.59576912f : 1.702f,
                              .c1 = act == KA_GELU_TANH ? 0.0713548163f : 0.0f,
                              .c2 = act == KA_SWIGLU_OAI ? 1.0f : 0.0f,
                              .most = act == KA_SWIGLU_OAI ? 7.0f : inf };
}
KD_FN float fast_act(const struct act_form *f, float g, float u)
{
    g = g > f->most ? f->most : g;
    u = u > f->most ? f->most : u < -f->most ? -f->most : u;
    float z = g * k_fma(f->c1 * g, g, f->c0);
    return g * kd_rcp(1.0f + kd_exp2(-1.44269504f * z)) * (u + f->c2);
}

/* Where a thread's accumulators go: column col and, of a single matrix, col + 8, for positions n + 8 j and the next. */
struct place {
    uint32_t col, n, n_out, ld;
    KD_GLOBAL float *y;
};

KD_FN struct place consumer_place(const kl_gemm *a, const struct gemm_item *it)
{
    struct place s = { .n = kd_lane() % 4 * 2, .n_out = a->n_out[it->mat], .ld = a->ld[it->mat] };
    s.col = gemm_row_col(a, it, kd_warp() * 16 + kd_lane() / 4);
    s.y = KD_PTR(float, a->y[it->mat]) + s.col;
    return s;
}

enum { BATCH = 4 }; /* positions of a thread whose residuals are loaded together */

/* Scale and residual of positions i .. i + BATCH - 1 of this thread, all loads at once. */
KD_FN void finish(const kl_gemm *a, const struct gemm_item *it, const struct place *s, float *d, uint32_t i)
{
    float r[2 * BATCH];
    KD_UNROLL
    for (uint32_t k = 0; k < BATCH; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        KD_GLOBAL const float *p = KD_PTR(const float, a->resid) + (uint64_t)(it->n0 + n) * a->ldr + s->col;
        bool in = n < it->n && a->resid;
        r[2 * k] = in && s->col < s->n_out ? p[0] : 0.0f;
        r[2 * k + 1] = in && s->col + 8 < s->n_out ? p[8] : 0.0f;
        if (!a->scale)
            continue;
        float f = n < it->n ? KD_PTR(const float, a->scale)[it->n0 + n] : 0.0f;
        d[at] *= f;
        d[at + 2] *= f;
    }
    KD_UNROLL
    for (uint32_t k = 0; k < BATCH; k++) {
        uint32_t at = (i + k) / 2 * 4 + k % 2;
        d[at] += r[2 * k];
        d[at + 2] += r[2 * k + 1];
    }
}

KD_FN void store(const kl_gemm *a, const struct gemm_item *it, const struct place *s, const float *d, uint32_t i)
{
    KD_UNROLL
    for (uint32_t k = 0; k < BATCH; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        if (n >= it->n)
            continue;
        KD_GLOBAL float *y = s->y + (uint64_t)gemm_row(a, it->n0 + n) * s->ld;
        if (s->col < s->n_out)
            y[0] = d[at];
        if (s->col + 8 < s->n_out)
            y[8] = d[at + 2];
    }
}

/* The soft cap is rare: over what this thread has just stored. */
KD_FN void cap(const kl_gemm *a, const struct gemm_item *it, const struct place *s)
{
    for (uint32_t i = 0; i < it->n; i += 8)
        for (uint32_t c = 0; c < 4; c++) {
            uint32_t n = i + s->n + c % 2, col = c / 2 * 8;
            if (n >= it->n || s->col + col >= s->n_out)
                continue;
            KD_GLOBAL float *y = s->y + (uint64_t)gemm_row(a, it->n0 + n) * s->ld + col;
            *y = a->softcap * k_tanh(*y / a->softcap);
        }
}

KD_FN void store_pair(const struct act_form *f, const kl_gemm *a, const struct gemm_item *it, const struct place *s,
                      const float *d, uint32_t i)
{
    KD_UNROLL
    for (uint32_t k = 0; k < BATCH; k++) {
        uint32_t n = (i + k) / 2 * 8 + s->n + k % 2, at = (i + k) / 2 * 4 + k % 2;
        if (n < it->n && s->col < s->n_out)
            s->y[(uint64_t)gemm_row(a, it->n0 + n) * s->ld] = fast_act(f, d[at], d[at + 2]);
    }
}

/* The accumulators, batch by batch as far as there are positions: y may be the residual, so a batch of loads stands
 * before a batch of stores. */
KD_FN void write_out(const kl_gemm *a, const struct gemm_item *it, float d[128])
{
    struct place s = consumer_place(a, it);
    struct act_form f = act_form(a->act);
    float b0 = gemm_bias(a, it, it->mat, s.col);
    float b1 = a->pair ? gemm_bias(a, it, 1, s.col) : gemm_bias(a, it, it->mat, s.col + 8);
    ALL_OF
    for (uint32_t i = 0; i < 64; i += BATCH) {
        if (i / 2 * 8 >= it->n)
            break;
        KD_UNROLL
        for (uint32_t k = 0; k < 2 * BATCH; k++)
            d[2 * i + k] += k & 2 ? b1 : b0;
        if (a->pair) {
            store_pair(&f, a, it, &s, d, i);
            continue;
        }
        if (a->scale || a->resid)
            finish(a, it, &s, d, i);
        store(a, it, &s, d, i);
    }
    if (a->softcap > 0.0f)
        cap(a, it, &s);
}

KD_FN void multiply(float *d, uint32_t width, uint64_t wa, uint64_t xa, uint32_t add)
{
    switch (width) {
    case 32: wg_multiply_32(d, wa, xa, add); break;
    case 64: wg_multiply_64(d, wa, xa, add); break;
    case 96: wg_multiply_96(d, wa, xa, add); break;
    case 128: wg_multiply_128(d, wa, xa, add); break;
    case 192: wg_multiply_192(d, wa, xa, add); break;
    default: wg_multiply_256(d, wa, xa, add);
    }
}
KD_FN void wait_all(float *d, uint32_t width)
{
    switch (width) {
    case 32: wg_wait_0_32(d); break;
    case 64: wg_wait_0_64(d); break;
    case 96: wg_wait_0_96(d); break;
    case 128: wg_wait_0_128(d); break;
    case 192: wg_wait_0_192(d); break;
    default: wg_wait_0_256(d);
    }
}

/* One item's sums: while the products of a stage run, those of the stage before are waited for and its memory given
 * back. */
KD_FN void consume(const kl_gemm *a, const struct plan *plan, struct ring *r, uint32_t width, float d[128])
{
    uint32_t half = kd_warp() / 4 * 64 * 128;
    for (uint32_t k = 0; k < a->n_in; k += WT_K) {
        uint32_t base = r->at * plan->stage_bytes;
        bar_wait(bar_full(r->at), r->phase);
        multiply(d, width, wg_tile(KD_SHARED_AT(uint8_t, base + half)),
                 wg_tile(KD_SHARED_AT(uint8_t, base + W_BYTES)), k);
        wg_wait_1();
        if (k && kd_lane() == 0)
            bar_arrive(bar_empty(ring_before(r, plan)));
        ring_next(r, plan);
    }
    wait_all(d, width);
    if (kd_lane() == 0)
        bar_arrive(bar_empty(ring_before(r, plan)));
}

KD_FN void consume_all(const kl_gemm *a, const struct plan *plan)
{
    struct gemm_item it = { 0 };
    struct ring r = { 0, 0 };
    uint32_t i = kd_group_x();
    while ((i = next_item(a, plan, i, &it)) < plan->items) {
        float d[128] = { 0 };
        switch (item_width(a, plan, &it)) {
        case 32: consume(a, plan, &r, 32, d); break;
        case 64: consume(a, plan, &r, 64, d); break;
        case 96: consume(a, plan, &r, 96, d); break;
        case 128: consume(a, plan, &r, 128, d); break;
        case 192: consume(a, plan, &r, 192, d); break;
        default: consume(a, plan, &r, 256, d);
        }
        write_out(a, &it, d);
        i += kd_groups_x();
    }
}

QSET_KERNEL(k_gemm_wgmma_, , kl_gemm)
{
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < MAX_STAGES; i++) {
            bar_init(bar_full(i), PRODUCERS + 1);
            bar_init(bar_empty(i), CONSUMERS);
        }
        bar_init_done();
    }
    kd_barrier();
    kd_wait_inputs();
    kd_let_next_start();
    struct plan plan = make_plan(&a);
    if (kd_warp() >= CONSUMERS)
        produce_all(&a, &plan);
    else
        consume_all(&a, &plan);
}

#else
typedef int gemm_wgmma_needs_sm_90a;
#endif
