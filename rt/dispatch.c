/* rt/dispatch.c: a stream as launches: the builder, the choice of kernels, and everything but kernels of their own for many rows. */
#include "rt/dispatch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "kernels/attn_shared.h"
#include "kernels/matmul8_shared.h"
#include "kernels/matring_shared.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"
#include "kernels/sample_shape.h"
#include "rt/dispatch_impl.h"

/* ---- the kernels as data ---- */

#define X(sname, list) DISPATCH_ADDRESSES(sname, list)
KL_LIST(X)
#undef X

const struct kernel_info kernel_infos[KERNEL_COUNT] = {
#define KERNEL(name, module, args, threads) { "k_" #name, #module, sizeof(args), threads, addresses_##args },
#include "kernels/kernels.def"
#undef KERNEL
};

static const bool for_one_target[KERNEL_COUNT] = {
#define KERNEL(name, module, args, threads) false,
#define KERNEL_SM90(name, module, args, threads) true,
#define KERNEL_MMA8(name, module, args, threads) true,
#include "kernels/kernels.def"
#undef KERNEL
};

bool kernel_for_all(uint32_t kernel)
{
    return !for_one_target[kernel];
}

bool dispatch_used[KERNEL_COUNT];

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* ---- the builder ---- */

uint32_t dispatch_rows(const struct dispatcher *d, enum ka_rows rows)
{
    return rows == ROWS_OUT ? MIN(d->s->h.out_cap, d->max_rows) : d->max_rows;
}

static bool grow(struct dispatcher *d, void **p, uint32_t need, uint32_t *cap, size_t size)
{
    if (need <= *cap)
        return true;
    uint32_t want = MAX(need, MAX(*cap * 2, 256u));
    void *q = realloc(*p, want * size);
    if (!q) {
        d->rc = err_set(d->e, -ENOMEM, "dispatch: %u launches", want);
        return false;
    }
    *p = q;
    *cap = want;
    return true;
}

struct dispatch *dispatch_add(struct dispatcher *d, uint32_t k, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t shared,
                              const void *args)
{
    struct dispatch_plan *p = d->p;
    uint32_t bytes = p->kernels[k].args_bytes;
    if (d->rc)
        return NULL;
    if (shared > d->t->shared_max) {
        d->rc = err_set(d->e, -ENOTSUP, "dispatch: command %u (%s, layer %d) wants %u bytes of shared memory, there are "
                        "%u", d->cmd, cmd_name(d->s->cmds[d->cmd].op), (int)d->s->cmds[d->cmd].layer, shared,
                        d->t->shared_max);
        return NULL;
    }
    CHECK(gx && gy && gz);
    if (p->kernels == kernel_infos)
        dispatch_used[k] = true;
    if (!grow(d, (void **)&p->d, p->n + 1, &p->cap, sizeof *p->d) ||
        !grow(d, (void **)&p->args, p->args_bytes + bytes, &p->args_cap, 1))
        return NULL;
    p->d[p->n++] = (struct dispatch){ .kernel = (uint16_t)k, .grid = { gx, gy, gz }, .shared = shared, .threads = p->kernels[k].threads,
                                      .args_off = p->args_bytes, .cmd = d->cmd };
    memcpy(p->args + p->args_bytes, args, bytes);
    p->args_bytes += bytes;
    return &p->d[p->n - 1];
}

void dispatch_begin_after(struct dispatch *l)
{
    if (l)
        l->after = true;
}

/* Temporaries are offsets behind the counters, whose size is known at the end: marked by this bit until then. */
#define TEMP_BIT (1ull << 55)

gpu_va dispatch_temp(struct dispatcher *d, uint64_t bytes)
{
    uint64_t at = d->temp_at;
    d->temp_at = align_up(at + bytes, 256);
    d->p->temp_bytes = MAX(d->p->temp_bytes, d->temp_at);
    return SADDR(ARENA_WORK, at | TEMP_BIT);
}

gpu_va dispatch_counters(struct dispatcher *d, uint32_t n)
{
    d->p->counters_bytes = MAX(d->p->counters_bytes, 4ull * n);
    return SADDR(ARENA_WORK, 0);
}

void dispatch_relocate_by(struct dispatch_plan *p, uint64_t (*translate)(void *user, gpu_va va), void *user)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const uint16_t *off = p->kernels[p->d[i].kernel].addresses();
        for (; *off != UINT16_MAX; off++) {
            gpu_va va;
            uint8_t *at = p->args + p->d[i].args_off + *off;
            memcpy(&va, at, sizeof va);
            if (!va)
                continue;
            CHECK(SADDR_ARENA(va) < ARENA_ALL);
            va = translate(user, va);
            memcpy(at, &va, sizeof va);
        }
    }
}

static uint64_t from_base(void *user, gpu_va va)
{
    uint64_t base = ((const uint64_t *)user)[SADDR_ARENA(va)];
    return base ? base + SADDR_OFF(va) : 0;
}

void dispatch_relocate(struct dispatch_plan *p, const uint64_t base[ARENA_ALL])
{
    dispatch_relocate_by(p, from_base, (void *)(uintptr_t)base);
}

static void settle_temps(struct dispatch_plan *p)
{
    uint64_t counters = align_up(p->counters_bytes, 256);
    for (uint32_t i = 0; i < p->n; i++) {
        const uint16_t *off = p->kernels[p->d[i].kernel].addresses();
        for (; *off != UINT16_MAX; off++) {
            gpu_va va;
            uint8_t *at = p->args + p->d[i].args_off + *off;
            memcpy(&va, at, sizeof va);
            if (!va || SADDR_ARENA(va) != ARENA_WORK || !(va & TEMP_BIT))
                continue;
            va = SADDR(ARENA_WORK, (SADDR_OFF(va) & ~TEMP_BIT) + counters);
            memcpy(at, &va, sizeof va);
        }
    }
    p->work_bytes = counters + p->temp_bytes;
}

void dispatch_free(struct dispatch_plan *p)
{
    if (!p)
        return;
    free(p->d);
    free(p->args);
    free(p);
}

/* ---- buffers ---- */

const struct stream_buf *dispatch_buf_at(const struct stream *s, uint32_t cmd, size_t field_off)
{
    const struct cmd *c = &s->cmds[cmd];
    for (uint32_t i = 0; i < c->n_uses; i++)
        if (s->uses[c->first_use + i].field_off == field_off)
            return &s->bufs[s->uses[c->first_use + i].buf];
    return NULL;
}

bool dispatch_apart(const struct stream_buf *a, const struct stream_buf *b)
{
    return a->arena != b->arena || a->off + a->bytes <= b->off || b->off + b->bytes <= a->off;
}

/* ---- products, decode class ---- */

struct type_kernels {
    uint64_t types; /* bit per enum qtype */
    uint16_t r1, r1_made, r2, r8;
};
#define BIT(t) (1ull << QT_##t)
#define ALL_TYPES (~0ull)
static const struct type_kernels type_kernels[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, ...)                                                                                    \
    { BIT(NAME), K_matvec_##set##_r1, K_matvec_##set##_r1_made, K_matvec_##set##_r2, K_matvec_##set##_r8 },
#define QTYPE_PAIR(set, A, B)                                                                                          \
    { BIT(A) | BIT(B), K_matvec_##set##_r1, K_matvec_##set##_r1_made, K_matvec_##set##_r2, K_matvec_##set##_r8 },
#include "kernels/qtypes.def"
    { ALL_TYPES, K_matvec_any_r8, K_matvec_any_r8, K_matvec_any_r8, K_matvec_any_r8 },
};

static const struct type_kernels *kernels_for(uint64_t types)
{
    const struct type_kernels *t = type_kernels;
    while (types & ~t->types)
        t++;
    return t;
}

uint32_t dispatch_resident(const struct dispatcher *d, uint32_t units, uint32_t shared)
{
    uint32_t fit = d->t->shared_core / (shared + 1024);
    uint32_t per_core = MAX(MIN(fit, 2u), 1u); /* as tools/ptx_threads.awk promises */
    return MAX(MIN(units, d->t->n_cores * per_core), 1u);
}

/* A launch whose weights are no more than this, a tile for each warp, asks for all of them while the launch before it still
 * runs; more would be in the way of that one's own. The items of the K types are large: little is left to ask for. */
enum { ASK_BYTES = 20 << 20, ASK_BYTES_K = 8 << 20 };

/* Shared memory of a launch whose passes take `rows` rows, with its types' codebooks. */
uint32_t dispatch_book_bytes(const struct dispatcher *d, const uint32_t *types, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t m = 0; m < n && d->t->books; m++)
        most = MAX(most, mv_book_bytes(types[m]));
    return most;
}
static uint32_t shared_bytes(const struct dispatcher *d, const ka_matmul *a, uint32_t rows)
{
    return dispatch_book_bytes(d, a->type, a->n_mats) + matvec_shared_bytes(a->type, a->n_mats, a->n_in, rows);
}

/* Shared memory of a single row's launch that also makes its input. */
static uint32_t made_shared_bytes(const struct dispatcher *d, const ka_matmul *a)
{
    return (uint32_t)align_up(shared_bytes(d, a, 1), 16) + 4 * a->n_in;
}

/* The kernel of kernels/matring.c; 0: none. */
static uint32_t ring_for(uint64_t types)
{
    switch (types) {
#define QTYPE_BLOCK(NAME, name, set, ...) case BIT(NAME): return K_matvec_##set##_ring;
#define QTYPE_K(...)
#include "kernels/qtypes.def"
    default: return 0;
    }
}

/* Up to here, if it holds for all products of a token but the last one, a launch of kernels/matring.c has work-groups of half the
 * size: two launches share a core then, and the next one's weights are on their way while this one multiplies. Among larger ones
 * some cores would have two work-groups of one launch and others none. */
enum { SMALL_BYTES = 8 << 20 };

static uint64_t product_bytes(const ka_matmul *a)
{
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < a->n_mats; m++)
        bytes += a->n_out[m] * qtype_row_bytes(a->type[m], a->n_in);
    return bytes;
}

static bool all_small(const struct stream *s)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        enum cmd_op op = s->cmds[i].op;
        const ka_matmul *a = stream_args(s, i);
        if (op == CMD_MOE_UP || ((op == CMD_MATMUL || op == CMD_PROJ || op == CMD_GATE_UP) && a->rows == ROWS_STEP &&
                                 product_bytes(a) > SMALL_BYTES))
            return false;
    }
    return true;
}

/* The kernels of kernels/matvec1.c. */
static bool one_row(const struct dispatcher *d, const ka_matmul *a, bool gate_up, const struct type_kernels *t, kl_matvec *k,
                    uint32_t *groups)
{
    uint64_t bytes = product_bytes(a);
    memset(k, 0, sizeof *k);
    memcpy(k, a, sizeof *a);
    if ((a->x | a->norm) % 16 || a->n_in % 8)
        return false;
    for (uint32_t m = 0, tiles = 0; m < a->n_mats; m++) {
        struct mv_geom g = mv_geom(a->type[m], a->n_in);
        uint32_t slots = mv_one_slots(a->type[m]), rows = (gate_up ? slots / 2 : slots) * (32 / g.lanes);
        k->tile_end[m] = tiles += div_up(a->n_out[m], rows);
        if (mv_is_float(a->type[m]) && qtype_row_bytes(a->type[m], a->n_in) % 16)
            return false;
        k->shape[m] = (uint32_t)__builtin_ctz(g.lanes) | g.steps << 8;
        k->n_pad = MAX(k->n_pad, mv_padded(a->type[m], a->n_in));
    }
    if (t->r1 == t->r8 || (gate_up && a->type[0] != a->type[1]))
        return false;
    uint32_t shared = d->pre || d->pre_act ? made_shared_bytes(d, a) : shared_bytes(d, a, 1);
    *groups = dispatch_resident(d, matvec_units(a->n_out, a->n_mats, gate_up), shared);
    k->rows_pass = 1;
    k->gate_up = gate_up;
    bool all = k->tile_end[gate_up ? 0 : a->n_mats - 1] <= *groups * MV_WARPS &&
               bytes <= (mv_one_slots(a->type[0]) > 2 ? ASK_BYTES : ASK_BYTES_K);
    k->ask = all ? KL_ASK_ALL : 0;
    return true;
}

static const struct type_kernels *matvec_kernels(const ka_matmul *a, uint64_t *types)
{
    *types = 0;
    for (uint32_t m = 0; m < a->n_mats; m++)
        *types |= 1ull << a->type[m];
    return kernels_for(*types);
}

bool dispatch_one_row(const struct dispatcher *d, const ka_matmul *a, bool gate_up, kl_matvec *k, uint32_t *groups)
{
    uint64_t types;
    return one_row(d, a, gate_up, matvec_kernels(a, &types), k, groups);
}

/* Of a single row, the command before a product that makes the product's input (NORM, ACT_MUL) is done by the product's
 * work-groups, each for itself, in the same bits: a launch less. Not where it writes over what others still read. */
static bool made_by_next(struct dispatcher *d, gpu_va y, uint32_t n, uint32_t rows, const gpu_va *reads, uint32_t n_reads)
{
    uint32_t next = d->cmd + 1, groups;
    kl_matvec k;
    if (d->rows || d->prompt || dispatch_rows(d, rows) != 1 || next >= d->s->h.n_cmds || d->t->lower)
        return false;
    enum cmd_op op = d->s->cmds[next].op;
    const ka_matmul *a = stream_args(d->s, next);
    if ((op != CMD_MATMUL && op != CMD_PROJ && op != CMD_GATE_UP) || a->x != y || a->n_in != n || a->rows != rows ||
        n % 8 || y % 16 || a->resid == y || made_shared_bytes(d, a) > d->t->shared_max)
        return false;
    for (uint32_t i = 0; i < n_reads; i++)
        if (reads[i] == y || reads[i] % 16)
            return false;
    return dispatch_one_row(d, a, op == CMD_GATE_UP, &k, &groups);
}

enum { REDUCE = 1024 }; /* shared memory of kernels that only reduce */

static void add_norm(struct dispatcher *d, const ka_norm *a)
{
    if (a->group == a->n && made_by_next(d, a->y, a->n, a->rows, (const gpu_va[]){ a->x, a->resid, a->w }, 3))
        d->pre = a;
    else
        dispatch_add(d, K_norm, dispatch_rows(d, a->rows), a->n / a->group, 1, REDUCE, a);
}

static void add_act_mul(struct dispatcher *d, const ka_act_mul *a)
{
    if (a->sparse)
        dispatch_add(d, K_act_sparse, dispatch_rows(d, a->rows), 1, 1, REDUCE, a);
    else if (made_by_next(d, a->y, a->n, a->rows, (const gpu_va[]){ a->x, a->a }, 2))
        d->pre_act = a;
    else
        dispatch_add(d, K_act_mul, dispatch_rows(d, a->rows), 1, 1, 0, a);
}

static bool take_pre(struct dispatcher *d, kl_matvec *k)
{
    bool any = d->pre || d->pre_act;
    if (d->pre) {
        k->pre = KL_PRE_NORM;
        k->pre_x = d->pre->x;
        k->pre_w = d->pre->w;
        k->pre_other = d->pre->resid;
        k->pre_scale = d->pre->out_scale;
        k->pre_eps = d->pre->eps;
    } else if (d->pre_act) {
        k->pre = KL_PRE_ACT + d->pre_act->act;
        k->pre_x = d->pre_act->x;
        k->pre_other = d->pre_act->a;
    }
    d->pre = NULL;
    d->pre_act = NULL;
    return any;
}

/* Kernels of kernels/matmul8.c by their types; 0: none. */
static uint32_t matmul8_for(uint64_t types)
{
    static const struct { uint64_t types; uint32_t kernel; } all[] = {
#define QTYPE_BLOCK(NAME, name, set, ...) { BIT(NAME), K_matmul8_##set },
#define QTYPE_PAIR(set, A, B) { BIT(A) | BIT(B), K_matmul8_##set },
#include "kernels/qtypes.def"
    };
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
        if (!(types & ~all[i].types))
            return all[i].kernel;
    return 0;
}

/* Rows of x in a pass and chunks of a warp's ring: what fits into shared memory, rather all rows than a long ring. */
static bool matmul8_fits(const struct dispatch_target *t, const ka_matmul *a, uint32_t rows, kl_matvec *k)
{
    for (k->rows_pass = rows > M8_ROWS / 2 ? M8_ROWS : M8_ROWS / 2; k->rows_pass >= M8_ROWS / 2; k->rows_pass /= 2)
        for (k->shape[0] = M8_SLOTS; k->shape[0] >= 1; k->shape[0]--)
            if (m8_shared_bytes(a->type, a->n_mats, a->n_in, k->rows_pass, k->shape[0]) <= t->shared_max)
                return true;
    return false;
}

/* A few rows where there are matrix instructions on signed bytes: those always make eight columns, so two rows are faster
 * without. */
static bool few_rows(struct dispatcher *d, const ka_matmul *a, bool gate_up, uint64_t types)
{
    enum { LEAST = 3 };
    kl_matvec k = { 0 };
    uint32_t rows = dispatch_rows(d, a->rows), kernel = d->t->mma8 && rows >= LEAST ? matmul8_for(types) : 0;
    uint32_t mats = gate_up ? 1 : a->n_mats, units = 0, tiles = 0;
    memcpy(&k, a, sizeof *a);
    if (!kernel || (gate_up && a->type[0] != a->type[1]) || !matmul8_fits(d->t, a, rows, &k))
        return false;
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (a->w[m] % 16 || a->x % 16 || a->norm % 16 || a->ldx % 4)
            return false;
    uint32_t parts = m8_parts(a->type[0], a->n_in);
    for (uint32_t m = 0; m < mats; m++)
        tiles += div_up(a->n_out[m], gate_up ? M8_TILE / 2 : M8_TILE);
    k.shape[3] = MIN(div_up(tiles, d->t->n_cores), M8_WARPS / parts);
    for (uint32_t m = 0; m < mats; m++) {
        k.tile_end[m] = units;
        units += div_up(div_up(a->n_out[m], gate_up ? M8_TILE / 2 : M8_TILE), k.shape[3]);
    }
    k.gate_up = gate_up;
    k.n_pad = rows;
    k.shape[1] = (uint32_t)__builtin_ctz(parts);
    k.shape[2] = mv_geom(a->type[0], a->n_in).steps;
    uint32_t groups = MIN(units, d->t->n_cores);
    groups = d->t->wgmma ? div_up(groups, 2) * 2 : groups; /* clusters of two */
    for (uint32_t m = 0; m < mats; m++)
        k.tile_end[m] %= groups;
    dispatch_add(d, kernel, groups, div_up(rows, k.rows_pass), 1,
                 m8_shared_bytes(a->type, a->n_mats, a->n_in, k.rows_pass, k.shape[0]), &k);
    return true;
}

/* Two rows on Hopper, one work-group a core: as a single row, each weight opened once for both. */
static bool two_rows(struct dispatcher *d, const ka_matmul *a, bool gate_up, const struct type_kernels *t)
{
    kl_matvec k;
    uint32_t groups, shared = shared_bytes(d, a, 2);
    if (!d->t->wgmma || shared > d->t->shared_max || a->ldx % 4 || !one_row(d, a, gate_up, t, &k, &groups))
        return false;
    dispatch_add(d, t->r2, MIN(matvec_units(a->n_out, a->n_mats, gate_up), d->t->n_cores), 1, 1, shared, &k);
    return true;
}

/* A row of x too wide for shared memory goes through the prompt's products, which take it in parts. */
static bool too_wide(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    return shared_bytes(d, a, 1) > d->t->shared_max &&
           dispatch_many_products(d, op, a);
}

/* Does the command wait for an earlier one than that before it? Then it may run while that one does. */
static bool is_beside(const struct dispatcher *d)
{
    uint32_t wait = d->s->cmds[d->cmd].wait;
    return d->cmd > 1 && wait != CMD_NO_WAIT && wait + 1 < d->cmd;
}

static void decode_together(struct dispatcher *d, const ka_matmul *a, bool gate_up)
{
    kl_matvec k = { 0 };
    uint64_t types;
    const struct type_kernels *t = matvec_kernels(a, &types);
    uint32_t rows = dispatch_rows(d, a->rows), pass = MIN(rows, (uint32_t)MV_PASS_ROWS), groups;
    if (rows == 1 && one_row(d, a, gate_up, t, &k, &groups)) {
        /* beside other launches: there is no core for it alone */
        bool made = take_pre(d, &k), beside = d->t->ahead && !made && a->rows == ROWS_STEP && is_beside(d);
        bool alone = d->t->ahead && !made && !beside; /* one work-group a core */
        uint32_t ring = alone ? ring_for(types) : 0, one = MIN(matvec_units(a->n_out, a->n_mats, gate_up), d->t->n_cores);
        uint32_t shared = made ? made_shared_bytes(d, a) : shared_bytes(d, a, 1);
        uint32_t threads = d->small && product_bytes(a) <= SMALL_BYTES ? MR_HALF : MR_THREADS;
        if (ring && mr_shared_bytes(a->type, a->n_mats, a->n_in, threads) <= d->t->shared_max) {
            struct dispatch *l = dispatch_add(d, ring, one, 1, 1, mr_shared_bytes(a->type, a->n_mats, a->n_in, threads), &k);
            if (l) {
                l->eager = true;
                l->threads = (uint16_t)threads;
            }
            return;
        }
        alone = alone && (mv_one_slots(a->type[0]) == 2 || mv_book_bytes(a->type[0])); /* the K types, digits, books */
        struct dispatch *l = dispatch_add(d, made ? t->r1_made : t->r1, alone ? one : groups, 1, 1, shared, &k);
        if (l && alone)
            l->threads = MV_WIDE;
        if (l)
            l->beside = beside;
        return;
    }
    if (rows == 2 && two_rows(d, a, gate_up, t))
        return;
    if (rows > 1 && few_rows(d, a, gate_up, types))
        return;
    memset(&k, 0, sizeof k);
    memcpy(&k, a, sizeof *a);
    while (pass > 1 && shared_bytes(d, a, pass) > d->t->shared_max)
        pass--;
    uint32_t shared = shared_bytes(d, a, pass);
    k.rows_pass = pass;
    k.gate_up = gate_up;
    uint32_t units = matvec_units(a->n_out, a->n_mats, gate_up);
    dispatch_add(d, t->r8, dispatch_resident(d, units, shared), div_up(rows, pass), 1, shared, &k);
}

/* Matrices that have a kernel together with the m-th. */
static uint64_t types_with(const ka_matmul *a, uint32_t m)
{
    uint64_t types = 1ull << a->type[m];
    for (uint32_t i = 0; i < a->n_mats; i++)
        if (kernels_for(types | 1ull << a->type[i])->types != ALL_TYPES)
            types |= 1ull << a->type[i];
    return types;
}

/* The matrices of `a` of these types. */
static ka_matmul matrices_of(const ka_matmul *a, uint64_t types)
{
    ka_matmul part = *a;
    kl_gemm g = { 0 };
    part.n_mats = dispatch_gemm_pick(&g, a, types);
    memcpy(part.y, g.y, sizeof part.y), memcpy(part.w, g.w, sizeof part.w), memcpy(part.wscale, g.wscale, sizeof part.wscale);
    memcpy(part.b, g.b, sizeof part.b), memcpy(part.n_out, g.n_out, sizeof part.n_out);
    memcpy(part.type, g.type, sizeof part.type), memcpy(part.ld, g.ld, sizeof part.ld);
    return part;
}

/* Products of one input whose types have no kernel of their own together: in launches of those that have, the largest last, as its
 * weights can be on their way while the others run. */
static void decode_products(struct dispatcher *d, const ka_matmul *a, bool gate_up)
{
    uint64_t left = dispatch_gemm_types(a), last = 0, most = 0;
    if (gate_up || kernels_for(left)->types != ALL_TYPES) {
        decode_together(d, a, gate_up);
        return;
    }
    for (uint32_t m = 0; m < a->n_mats; m++) {
        ka_matmul part = matrices_of(a, types_with(a, m));
        if (product_bytes(&part) > most)
            most = product_bytes(&part), last = types_with(a, m);
    }
    left &= ~last;
    uint32_t first = d->p->n;
    for (uint32_t m = 0; m < a->n_mats; m++) {
        uint64_t types = types_with(a, m) & left;
        if (!(types >> a->type[m] & 1))
            continue;
        ka_matmul part = matrices_of(a, types);
        decode_together(d, &part, false);
        left &= ~types;
    }
    ka_matmul part = matrices_of(a, last);
    decode_together(d, &part, false);
    for (uint32_t i = first + 1; i < d->p->n; i++)
        d->p->d[i].concurrent = true;
}

/* ---- attention, decode class ---- */

static void decode_attn(struct dispatcher *d, const ka_attn *a)
{
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, a->rows), seen = a->window ? MIN(a->window, a->n_ctx) : a->n_ctx;
    enum kernel_id id = a->kv_type == KA_KV_F32 ? K_attn_any
                        : a->head_dim == 64     ? K_attn_h64
                        : a->head_dim == 128    ? K_attn_h128
                        : a->head_dim == 256    ? K_attn_h256
                                                : K_attn_any;
    uint32_t warps = kernel_infos[id].threads / 32, group = a->n_head / a->n_kv;
    if (id == K_attn_any && attn_shared_bytes(a->head_dim, group, warps, ATTN_MAX_SPLITS) > d->t->shared_max) {
        id = K_attn_any_w4;
        warps = kernel_infos[id].threads / 32;
    }
    /* kernels compiled for 32 KiB (KD_SMALL_SHARED) take whatever warps there are */
    uint32_t most = d->t->shared_max <= 32 << 10 ? d->t->n_cores : ATTN_MAX_SPLITS;
    while (d->t->shared_max <= 32 << 10 && warps > 1 && attn_shared_bytes(a->head_dim, group, warps, most) > d->t->shared_max)
        warps /= 2;
    /* a work-group fills a core, so there are as many splits as cores; short ones are not worth their merge, and many
     * rows keep the machine busy without */
    uint32_t wanted = MIN(MAX(d->t->n_cores / a->n_kv, 1u), most);
    k.chunk_min = warps * ATTN_SUB;
    k.splits = d->prompt && a->rows == ROWS_STEP ? 1 : MIN(wanted, div_up(seen, k.chunk_min));
    if (k.splits > 1)
        k.part = dispatch_temp(d, 4ull * rows * a->n_head * k.splits * (a->head_dim + 2));
    k.counters = dispatch_counters(d, rows * a->n_kv * (d->pre_rope ? ATTN_NH : 1));
    uint32_t shared = attn_shared_bytes(a->head_dim, group, warps, most);
    /* more work-groups than cores: by half of the warps, two of them share a core */
    bool halves = d->t->mma8 && (id == K_attn_h64 || id == K_attn_h128) && rows > 1 && rows * a->n_kv * k.splits > d->t->n_cores;
    struct dispatch *l;
    if (d->pre_rope) {
        kl_attn_rope own;
        shared = dispatch_take_rope(d, &k, shared, &own);
        uint32_t room = MAX(wanted, 2u * ATTN_NH) / rows; /* of a small machine as much: work-groups then take turns */
        if (group == 2 && room < ATTN_NH) /* two heads' instructions are less than what K and V cost once more (doc/speed-log.md) */
            room = 1;
        if (a->kv_type == KA_KV_F16)
            own.shares = MAX(MIN(room, k.splits << attn_parts(group, 1, ATTN_NH)), rows == 1 ? k.splits : 1);
        own.groups = MAX(own.shares, rows == 1 ? k.splits : MIN(k.splits, (halves ? 2 : 1) * d->t->n_cores / (rows * a->n_kv)));
        id = rows > 1 ? (id == K_attn_h64 ? K_attn_rope_rows_h64 : K_attn_rope_rows_h128)
                      : id == K_attn_h64 ? K_attn_rope_h64 : K_attn_rope_h128;
        l = dispatch_add(d, id, a->n_kv, rows, own.groups, shared, &own);
        if (l)
            l->early = offsetof(kl_attn_rope, early); /* the step block, and the cache but for new positions */
    } else {
        l = dispatch_add(d, id, a->n_kv, rows, k.splits, shared, &k);
    }
    if (l)
        l->threads = (uint16_t)(32 * warps / (halves ? 2 : 1));
}

/* ---- the rest ---- */

static void small_embed(struct dispatcher *d, const ka_embed *a)
{
    kl_embed k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.next_off = (uint32_t)d->s->h.next_off;
    uint32_t shares = d->prompt ? 4 : div_up(a->n, kernel_infos[K_embed].threads);
    dispatch_add(d, K_embed, dispatch_rows(d, ROWS_STEP), shares, 1, 0, &k);
}

static void small_altup(struct dispatcher *d, const ka_altup *a)
{
    uint32_t shares = d->prompt ? 2 : div_up(a->n, kernel_infos[K_altup].threads);
    dispatch_add(d, K_altup, dispatch_rows(d, a->rows), shares, 1, REDUCE, a);
}

static void add_rope_kv(struct dispatcher *d, const ka_rope_kv *a)
{
    if (dispatch_rope_by_attn(d, a))
        d->pre_rope = a;
    else
        dispatch_add(d, K_rope_kv, dispatch_rows(d, a->rows), rope_kv_groups(a->n_head, a->n_kv), 1,
                     rope_kv_shared_bytes(a->head_dim), a);
}

static void small_argmax(struct dispatcher *d, const ka_argmax *a)
{
    kl_sample k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, ROWS_OUT);
    k.part = dispatch_temp(d, sample_part_bytes(a->n, rows));
    k.counters = dispatch_counters(d, rows);
    k.copy = SADDR_ARENA(a->logits) == ARENA_IO ? SADDR(ARENA_HOST_IO, SADDR_OFF(a->logits)) : 0;
    dispatch_add(d, K_sample, sample_groups(a->n), rows, 1, SAMPLE_SHARED, &k);
}

static void lower(struct dispatcher *d, enum cmd_op op, const void *args)
{
    bool many = d->rows || d->prompt;
    switch (op) {
    case CMD_EMBED: small_embed(d, args); break;
    case CMD_NORM: add_norm(d, args); break;
    case CMD_ADD: {
        const ka_add *a = args;
        dispatch_add(d, K_add, dispatch_rows(d, a->rows), 1, 1, 0, a);
        break;
    }
    case CMD_ACT_MUL: add_act_mul(d, args); break;
    case CMD_MATCH: {
        const ka_match *a = args;
        dispatch_add(d, K_match, dispatch_rows(d, a->rows), a->n / a->group, 1, REDUCE, a);
        break;
    }
    case CMD_ALTUP: small_altup(d, args); break;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP:
        if (dispatch_shared_expert(d, op, args))
            break;
        if ((!many || !dispatch_many_products(d, op, args)) && !too_wide(d, op, args))
            decode_products(d, args, op == CMD_GATE_UP);
        break;
    case CMD_ROPE_KV: add_rope_kv(d, args); break;
    case CMD_ATTN:
        if (!dispatch_prompt_attn(d, args) && !dispatch_group_attn(d, args))
            decode_attn(d, args);
        break;
    case CMD_GDN:
        if (!d->prompt || !dispatch_prompt_gdn(d, args))
            dispatch_gdn(d, args);
        break;
    case CMD_ROUTER:
        if (!d->prompt || !dispatch_many_router(d, args))
            dispatch_router(d, args);
        break;
    case CMD_MOE_UP:
        if (!many || !dispatch_many_moe_up(d, args))
            dispatch_moe_up(d, args);
        break;
    case CMD_MOE_DOWN:
        if (!many || !dispatch_many_moe_down(d, args))
            dispatch_moe_down(d, args);
        break;
    case CMD_GATHER: dispatch_add(d, K_gather, dispatch_rows(d, ROWS_OUT), 1, 1, 0, args); break;
    case CMD_STEP_OUT: dispatch_add(d, K_step_out, 1, 1, 1, 0, args); break;
    case CMD_ARGMAX: small_argmax(d, args); break;
    case CMD_NOP:
    case CMD_COUNT: break;
    }
}

int dispatch_build(const struct stream *s, const struct dispatch_target *t, uint32_t max_rows, uint32_t counters_bytes,
                   struct dispatch_plan **out, struct err *e)
{
    struct dispatcher d = { .s = s, .t = t, .e = e, .max_rows = max_rows };
    d.prompt = s->h.row_cap > (t->mma8 ? KL_ROWS_MAX : KL_DECODE_ROWS);
    d.rows = s->h.row_cap > KL_DECODE_ROWS && !d.prompt;
    d.small = all_small(s);
    CHECK(max_rows && max_rows <= s->h.row_cap);
    d.p = calloc(1, sizeof *d.p);
    if (!d.p)
        return err_set(e, -ENOMEM, "dispatch: plan object");
    d.p->kernels = t->kernels ? t->kernels : kernel_infos;
    d.p->counters_bytes = counters_bytes;
    for (d.cmd = 0; d.cmd < s->h.n_cmds && !d.rc; d.cmd++) {
        d.temp_at = d.temp_base;
        (t->lower ? t->lower : lower)(&d, s->cmds[d.cmd].op, stream_args(s, d.cmd));
        const void *now = stream_args(s, d.cmd);
        CHECK(d.rc || !((d.pre && d.pre != now) || (d.pre_act && d.pre_act != now) || (d.pre_rope && d.pre_rope != now) ||
                        (d.pre_router && d.pre_router != now) || (d.pre_shared && d.pre_shared != now)));
    }
    if (d.rc) {
        dispatch_free(d.p);
        return d.rc;
    }
    settle_temps(d.p);
    dispatch_find_waits(d.p, s);
    if (t->ahead)
        dispatch_find_late(d.p);
    if (t->ahead && d.prompt && max_rows > KL_ROWS_MAX)
        for (uint32_t i = 0; i < d.p->n; i++)
            dispatch_begin_after(&d.p->d[i]);
    *out = d.p;
    return 0;
}

bool dispatch_copies_logits(const struct stream *s)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].op == CMD_ARGMAX &&
            ((const ka_argmax *)stream_args(s, i))->logits == SADDR(ARENA_IO, s->h.logits_off))
            return true;
    return false;
}

/* ---- weights ---- */

static int set_unit(const struct stream *s, uint32_t *unit, gpu_va w, uint32_t rows, struct err *e)
{
    if (!w || SADDR_ARENA(w) != ARENA_WEIGHTS)
        return 0;
    uint32_t lo = 0, hi = s->h.n_weights;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->weights[mid].off <= SADDR_OFF(w))
            lo = mid;
        else
            hi = mid;
    }
    const struct stream_weight *sw = &s->weights[lo];
    uint64_t unit_bytes = qtype_row_bytes(sw->type, sw->ne[0]) * rows;
    if (!planes_of(sw->type).n)
        return 0;
    if ((unit[lo] && unit[lo] != rows) || (SADDR_OFF(w) - sw->off) % unit_bytes || sw->bytes % unit_bytes)
        return err_set(e, -ENOTSUP, "dispatch: weight '%s' is used as matrices of %u rows and of %u, by one layout it "
                       "can only be one of them", stream_str(s, sw->name), unit[lo], rows);
    unit[lo] = rows;
    return 0;
}

int dispatch_weight_units(const struct stream *s, uint32_t *unit, struct err *e)
{
    int rc = 0;
    memset(unit, 0, s->h.n_weights * sizeof *unit);
    for (uint32_t i = 0; i < s->h.n_cmds && !rc; i++) {
        const void *args = stream_args(s, i);
        switch (s->cmds[i].op) {
        case CMD_EMBED: {
            const ka_embed *a = args;
            rc = set_unit(s, unit, a->w, a->n_vocab, e);
            break;
        }
        case CMD_MATMUL:
        case CMD_PROJ:
        case CMD_GATE_UP: {
            const ka_matmul *a = args;
            for (uint32_t m = 0; m < a->n_mats && !rc; m++)
                rc = set_unit(s, unit, a->w[m], a->n_out[m], e);
            break;
        }
        case CMD_ROUTER: {
            const ka_router *a = args;
            rc = set_unit(s, unit, a->w, a->n_expert, e);
            break;
        }
        case CMD_MOE_UP: {
            const ka_moe_up *a = args;
            if (!(rc = set_unit(s, unit, a->gate, a->n_ff, e)))
                rc = set_unit(s, unit, a->up, a->n_ff, e);
            break;
        }
        case CMD_MOE_DOWN: {
            const ka_moe_down *a = args;
            rc = set_unit(s, unit, a->down, a->n_out, e);
            break;
        }
        default: break;
        }
    }
    return rc;
}
