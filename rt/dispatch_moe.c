/* rt/dispatch_moe.c: routers and experts as launches for steps of few rows, and the shared expert by theirs; routers of the class
 * "rows". */
#include <string.h>

#include "base/ckd.h"
#include "kernels/matvec_shared.h"
#include "kernels/router_rows_shared.h"
#include "rt/dispatch_impl.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Kernels by the type of the weights. */
struct moe_kernels {
    uint16_t router, up, down, router_shared, down_shared; /* the last two of sm_90a; 0: none */
};
static struct moe_kernels moe_kernels(uint32_t type)
{
    struct moe_kernels k = { 0 };
    switch (type) {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, ...)                                                                                    \
    case QT_##NAME: k = (struct moe_kernels){ K_router_##set, K_moe_up_##set, K_moe_down_##set, 0, 0 }; break;
#include "kernels/qtypes.def"
    }
#define SHARED(NAME, set)                                                                                              \
    if (type == QT_##NAME)                                                                                             \
        k.router_shared = K_router_shared_##set, k.down_shared = K_moe_down_shared_##set;
    SHARED(Q8_0, q80)
    SHARED(Q4_K, q4k)
    SHARED(Q5_K, q5k)
    SHARED(Q6_K, q6k)
    SHARED(MXFP4, mxfp4)
#undef SHARED
    return k;
}

/* Work-groups of routers and experts prepare x for themselves: of `all` that keep the device busy each of n rows, or pairs
 * of row and expert, gets its share. Where there are no plans for 2 and 4 rows, half of the rows are counted on. */
static uint32_t share_of(const struct dispatcher *d, uint32_t all, uint32_t n, uint32_t least)
{
    return MAX(all / MAX(d->t->mma8 ? n : div_up(n, 2), least), 1u);
}

/* The decode class on a target whose launches begin early. */
static bool is_ahead(const struct dispatcher *d)
{
    return d->t->ahead && !d->rows && !d->prompt;
}

static const void *next_args(const struct dispatcher *d, enum cmd_op op)
{
    uint32_t next = d->cmd + 1;
    return next < d->s->h.n_cmds && d->s->cmds[next].op == op ? stream_args(d->s, next) : NULL;
}

/* ---- who chooses ---- */

static bool is_even(const ka_moe_down *a)
{
    return (a->down | a->stride) % 16 == 0 && !(mv_is_float(a->type) && qtype_row_bytes(a->type, a->n_in) % 16);
}

/* Among more experts than these it takes work-groups longer to choose for themselves than to wait (doc/speed-log.md). */
enum { CHOICE_EXPERTS = 128 };

/* Do an MOE_UP and an MOE_DOWN behind the ROUTER, and nobody else, read its choice? They make it for themselves then: no
 * work-group waits for the last of the router's. */
static bool users_choose(const struct dispatcher *d, const ka_router *a)
{
    const struct stream *s = d->s;
    const struct stream_buf *ids = dispatch_buf_at(s, d->cmd, offsetof(ka_router, ids));
    const struct stream_buf *weights = dispatch_buf_at(s, d->cmd, offsetof(ka_router, weights));
    uint32_t ups = 0, downs = 0;
    if (!is_ahead(d) || a->n_expert > CHOICE_EXPERTS)
        return false;
    for (uint32_t c = 0; c < s->h.n_cmds; c++) {
        bool reads = false;
        for (uint32_t i = 0; i < s->cmds[c].n_uses && c != d->cmd; i++) {
            const struct stream_buf *b = &s->bufs[s->uses[s->cmds[c].first_use + i].buf];
            reads |= b == ids || b == weights;
        }
        if (!reads)
            continue;
        const ka_moe_up *up = stream_args(s, c);
        const ka_moe_down *down = stream_args(s, c);
        if (s->cmds[c].op == CMD_MOE_UP && c > d->cmd && !downs && up->ids == a->ids && up->n_expert == a->n_expert && up->k == a->k)
            ups++;
        else if (s->cmds[c].op == CMD_MOE_DOWN && c > d->cmd && ups && down->ids == a->ids && down->weights == a->weights &&
                 down->n_expert == a->n_expert && down->k == a->k && is_even(down))
            downs++;
        else
            return false;
    }
    return ups == 1 && downs == 1;
}

/* ---- ROUTER, with the GATE_UP behind it ---- */

/* Each row reads the shared expert's weights for itself: of more bytes than these in all, a launch of its own reads them once. */
enum { BESIDE_BYTES = 20 << 20 };
static bool pays_beside(const struct dispatcher *d, const ka_matmul *a)
{
    uint64_t bytes = a->n_mats * a->n_out[0] * qtype_row_bytes(a->type[0], a->n_in);
    uint32_t rows = dispatch_rows(d, a->rows);
    return rows == 1 || bytes * rows <= BESIDE_BYTES;
}

/* The product of a pair of matrices of one type that has the kernel, and nothing but that; it needs nothing of the router. */
static const ka_matmul *gate_up_beside(const struct dispatcher *d, const ka_router *r)
{
    const ka_matmul *a = next_args(d, CMD_GATE_UP);
    uint32_t groups, wait;
    kl_matvec k;
    if (!a || !is_ahead(d) || !d->t->wgmma || r->type != QT_F32 || a->rows != ROWS_STEP)
        return NULL;
    wait = d->s->cmds[d->cmd + 1].wait;
    bool dense = a->ldx == a->n_in && a->ld[0] == a->n_out[0];
    bool bare = !(a->b[0] | a->b[1] | a->wscale[0] | a->wscale[1]), depends = wait != CMD_NO_WAIT && wait >= d->cmd;
    bool fits = matvec_shared_bytes(a->type, 2, a->n_in, 1) <= d->t->shared_max; /* a wider row has kernels of its own */
    return bare && dense && fits && !depends && pays_beside(d, a) && a->type[0] == a->type[1] &&
           moe_kernels(a->type[0]).router_shared && dispatch_one_row(d, a, true, &k, &groups) ? a : NULL;
}

static void router_and_gate_up(struct dispatcher *d, const ka_matmul *a)
{
    const kl_router *r = &d->routed;
    kl_router_shared k = { 0 };
    kl_matvec one;
    uint32_t all, shared = MAX(router_shared_bytes(r->type, r->n_in, r->n_expert), matvec_shared_bytes(a->type, 2, a->n_in, 1));
    dispatch_one_row(d, a, true, &one, &all);
    memcpy(&k, r, sizeof *r);
    k.s_x = a->x, k.s_norm = a->norm, k.s_eps = a->eps, k.s_n_in = a->n_in;
    k.s_gate = a->w[0], k.s_up = a->w[1], k.s_y = a->y[0], k.s_n_out = a->n_out[0], k.s_act = a->act;
    k.s_shape = one.shape[0], k.s_tiles = one.tile_end[0], k.s_n_pad = one.n_pad;
    uint32_t rows = dispatch_rows(d, ROWS_STEP); /* several: the cut, as who chooses below, is doc/speed-log.md's */
    all = MAX(dispatch_resident(d, UINT32_MAX, shared) / rows, 2u);
    k.groups = MIN(router_units(r->n_expert), rows > 1 ? all * 5 / 8 : d->t->n_cores);
    uint32_t left = MIN(matvec_units(a->n_out, 2, true), all - MIN(k.groups, all - 1)); /* what the router leaves */
    dispatch_add(d, moe_kernels(a->type[0]).router_shared, k.groups + left, rows, 1, shared, &k);
    d->router = d->p->n - 1;
}

/* The class "rows", where a read of the weights serves eight rows. */
static bool router_rows(struct dispatcher *d, const ka_router *a)
{
    kl_router_rows k = { 0 };
    if (!d->rows || !d->t->wgmma || a->type != QT_F32 || a->n_expert > RR_MAX_EXPERTS || a->k > RR_MAX_K || a->n_in % 4 ||
        (a->x | a->norm | a->w | a->shared_w) % 16)
        return false;
    memcpy(&k, a, sizeof *a);
    k.cap = dispatch_rows(d, ROWS_STEP);
    uint32_t groups = div_up(k.cap, RR_ROWS);
    k.counters = dispatch_counters(d, groups);
    d->chosen = a->ids;
    d->logits = 0;
    dispatch_add(d, K_router_rows, div_up(a->n_expert, RR_EXPERTS), groups, 1, RR_SHARED_BYTES, &k);
    d->router = d->p->n - 1;
    return true;
}

void dispatch_router(struct dispatcher *d, const ka_router *a)
{
    kl_router k = { 0 };
    if (router_rows(d, a))
        return;
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, ROWS_STEP), shared = router_shared_bytes(a->type, a->n_in, a->n_expert) + dispatch_book_bytes(d, &a->type, 1);
    uint32_t groups = MIN(router_units(a->n_expert), d->t->n_cores);
    if (rows > 1) /* several to a core where rows are many: each looks at its experts one after the other */
        groups = MIN(groups, share_of(d, (rows > KL_DECODE_ROWS ? 4 : 2) * d->t->n_cores, rows, 1));
    d->chosen = a->ids;
    d->logits = 0;
    const ka_matmul *beside = gate_up_beside(d, a);
    if ((rows == 1 || !beside) && users_choose(d, a)) { /* several with a shared expert wait less for the router */
        d->logits = k.logits = dispatch_temp(d, 4ull * rows * a->n_expert);
        d->temp_base = d->temp_at; /* until MOE_DOWN */
    } else {
        k.counters = dispatch_counters(d, rows);
    }
    d->routed = k;
    if (beside) {
        d->pre_router = a;
        return;
    }
    bool mixed = a->shared_w && a->type != QT_F32;
    dispatch_add(d, mixed ? K_router_any : moe_kernels(a->type).router, groups, rows, 1, shared, &k);
    d->router = d->p->n - 1;
}

/* ---- MOE_UP ---- */

void dispatch_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    kl_moe_up k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t pairs = dispatch_rows(d, ROWS_STEP) * a->k, types[2] = { a->type_gate, a->type_up };
    uint32_t shared = matvec_shared_bytes(types, 2, a->n_in, 1) + dispatch_book_bytes(d, types, 2), groups = share_of(d, 2 * d->t->n_cores, pairs, MIN(pairs, a->k));
    struct mv_geom g = mv_geom(a->type_gate, a->n_in);
    bool aligned = (a->gate | a->up | a->gate_stride | a->up_stride | a->x | a->norm) % 16 == 0 && a->n_in % 8 == 0 &&
                   !(mv_is_float(a->type_gate) && qtype_row_bytes(a->type_gate, a->n_in) % 16);
    if (a->type_gate == a->type_up && aligned) {
        k.shape = (uint32_t)__builtin_ctz(g.lanes) | g.steps << 8;
        k.tiles = div_up(a->n_ff, mv_one_slots(a->type_gate) / 2 * (32 / g.lanes));
    }
    k.n_pad = MAX(mv_padded(a->type_gate, a->n_in), mv_padded(a->type_up, a->n_in));
    if (d->logits && a->ids == d->chosen) {
        k.logits = d->logits;
        shared += mv_choice_bytes(a->n_expert);
    }
    dispatch_add(d, a->type_gate == a->type_up ? moe_kernels(a->type_gate).up : K_moe_up_any,
                 MAX(MIN(moe_up_units(a->n_ff), groups), 1u), pairs, 1, shared, &k);
}

/* ---- MOE_DOWN, with the MATMUL before it ---- */

static uint32_t down_shared_bytes(const struct dispatcher *d, const ka_moe_down *a, const ka_matmul *beside)
{
    return moe_down_shared_bytes(a->type, a->n_in, a->k) + dispatch_book_bytes(d, &a->type, 1) +
           (d->logits || beside ? mv_choice_bytes(a->n_expert) : 0) +
           (beside ? moe_down_beside_bytes(a->type, a->n_in, a->n_out, a->k, beside->type[0], beside->n_in) : 0);
}

/* A product whose y is the resid of the MOE_DOWN behind it, of types that the kernel has, and nothing but that. What it reads must
 * not lie where the MOE_DOWN writes, but for what both have row by row. */
static bool down_beside(const struct dispatcher *d, const ka_matmul *a)
{
    static const size_t reads[] = { offsetof(ka_matmul, x), offsetof(ka_matmul, scale), offsetof(ka_matmul, resid) };
    const ka_moe_down *b = next_args(d, CMD_MOE_DOWN);
    if (!b || !is_ahead(d) || !d->t->wgmma || a->rows != ROWS_STEP || !b->resid || b->resid != a->y[0] ||
        a->n_out[0] != b->n_out || !is_even(b))
        return false;
    bool types = moe_kernels(b->type).down_shared && (a->type[0] == b->type || a->type[0] == QT_Q8_0 || a->type[0] == QT_Q6_K);
    bool bare = !(a->norm | a->b[0] | a->wscale[0]) && !(a->softcap > 0.0f);
    bool dense = a->ldx == a->n_in && a->ld[0] == a->n_out[0] && (!a->resid || a->ldr == a->n_out[0]);
    if (!types || !bare || !dense || !pays_beside(d, a) || (a->x | a->w[0]) % 16 || a->n_in % 8 ||
        down_shared_bytes(d, b, a) > d->t->shared_max)
        return false;
    const struct stream_buf *y = dispatch_buf_at(d->s, d->cmd + 1, offsetof(ka_moe_down, y)), *x;
    for (uint32_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        if (!y || ((x = dispatch_buf_at(d->s, d->cmd, reads[i])) && x != y && !dispatch_apart(x, y)) || (i < 2 && x == y))
            return false;
    return true;
}

/* Launches that are complete when what command c waits for is. */
static uint32_t launches_before(const struct dispatcher *d, uint32_t c)
{
    uint32_t wait = d->s->cmds[c].wait, n = d->p->n;
    if (wait == CMD_NO_WAIT)
        return 0;
    while (n > 1 && d->p->d[n - 2].cmd >= wait)
        n--;
    return n;
}

void dispatch_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    const ka_matmul *s = d->pre_shared;
    kl_moe_down_shared k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, ROWS_STEP), shared = down_shared_bytes(d, a, s);
    uint32_t groups = dispatch_resident(d, moe_down_units(a->n_out), shared);
    if (d->logits && a->ids == d->chosen) {
        k.logits = d->logits;
        k.gating = d->routed.gating;
        k.scale = d->routed.scale;
        k.expert_scale = d->routed.expert_scale;
        d->logits = 0;
        d->temp_base = 0;
    }
    if (s) {
        k.s_x = s->x, k.s_y = s->y[0], k.s_resid = s->resid, k.s_scale = s->scale;
        k.s_w = s->w[0], k.s_type = s->type[0], k.s_n_in = s->n_in;
    }
    struct moe_kernels kernels = moe_kernels(a->type);
    struct dispatch *l = dispatch_add(d, s ? kernels.down_shared : kernels.down, share_of(d, groups, rows, 1), rows, 1, shared, &k);
    if (l && a->ids == d->chosen) {
        l->early = offsetof(kl_moe_down, early);
        l->early_from = d->router + 1;
        if (s)
            l->early_from = MAX(l->early_from, launches_before(d, d->cmd - 1));
    }
    d->pre_shared = NULL;
}

bool dispatch_shared_expert(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    if (op == CMD_GATE_UP && d->pre_router) {
        router_and_gate_up(d, a);
        d->pre_router = NULL;
        return true;
    }
    if (op != CMD_MATMUL || !down_beside(d, a))
        return false;
    d->pre_shared = a;
    return true;
}
