/* From fine-grained ops to the commands of the catalogue. Each pass looks for one pattern in the list:
 *
 *     act(w0 x) * (w1 x)              GATE_UP      always
 *     (w x) * scale[r]                MATMUL       always
 *     cap * tanh((w x) / cap)         MATMUL       always
 *     sigmoid(w . x) beside a router  ROUTER       always
 *     w0 x, w1 x, ..                  MATMUL with 2..4 matrices: PROJ
 *     norm, then products             the products norm their input themselves, each for itself
 *     x + product                     the product adds its residual
 *
 * An op that swallows another keeps the later place in the list, where all inputs of both exist; sibling products
 * gather in the first one's place, since they read one value only. */
#include "graph/ir.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* How many inputs name v, and which op makes it. Views count as readers of what they look into. */
struct links {
    uint32_t *n_reads;
    uint32_t *maker; /* UINT32_MAX: none */
};

static bool links_make(struct graph *g, struct links *k)
{
    k->n_reads = calloc(g->n_vals + 1, sizeof *k->n_reads);
    k->maker = malloc((g->n_vals + 1) * sizeof *k->maker);
    if (!k->n_reads || !k->maker) {
        graph_fail(g, -ENOMEM, "%u values", g->n_vals);
        return false;
    }
    memset(k->maker, 0xff, (g->n_vals + 1) * sizeof *k->maker);
    for (uint32_t v = 1; v < g->n_vals; v++)
        if (g->vals[v].base)
            k->n_reads[g->vals[v].base]++;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct gop *op = &g->ops[i];
        if (op->dead)
            continue;
        for (int j = 0; j < IN_COUNT; j++)
            k->n_reads[op->in[j]]++;
        for (int j = 0; j < OUT_COUNT; j++)
            if (op->out[j])
                k->maker[op->out[j]] = i;
    }
    return true;
}

static void links_free(struct links *k)
{
    free(k->n_reads);
    free(k->maker);
}

/* The op that makes v for one reader only, if it is of this kind. */
static struct gop *sole_source(struct graph *g, const struct links *k, gref v, enum gop_kind kind)
{
    if (!v || k->maker[v] == UINT32_MAX || k->n_reads[v] != 1)
        return NULL;
    struct gop *op = &g->ops[k->maker[v]];
    return op->kind == kind && !op->dead ? op : NULL;
}

static void fuse_act_mul(struct graph *g, struct gop *op, const struct links *k)
{
    if (op->sparse)
        return; /* ACT_MUL, for which a row must be whole */
    struct gop *gate = sole_source(g, k, op->in[IN_X], G_MATMUL);
    struct gop *up = sole_source(g, k, op->in[IN_A], G_MATMUL);
    if (!gate || !up || gate->in[IN_X] != up->in[IN_X])
        return; /* ACT_MUL */
    op->kind = G_GATE_UP;
    op->in[IN_X] = gate->in[IN_X];
    op->in[IN_A] = 0;
    op->mat[0] = gate->mat[0];
    op->mat[1] = up->mat[0];
    op->n_mats = 2;
    gate->dead = up->dead = true;
}

/* op reads a product: becomes that product, with an epilogue of its own added by the caller. */
static void absorb_product(struct graph *g, struct gop *op, const struct links *k)
{
    struct gop *mm = sole_source(g, k, op->in[IN_X], G_MATMUL);
    CHECK(mm && !mm->n_out);
    op->kind = G_MATMUL;
    op->in[IN_X] = mm->in[IN_X];
    if (mm->in[IN_SCALE])
        op->in[IN_SCALE] = mm->in[IN_SCALE];
    op->mat[0] = mm->mat[0];
    op->n_mats = 1;
    mm->dead = true;
}

static void fuse_row_gate(struct graph *g, struct gop *op)
{
    for (struct gop *r = op; r-- > g->ops;)
        if (r->kind == G_ROUTER && r->in[IN_X] == op->in[IN_X]) {
            CHECK(!r->out[OUT_SHARE]);
            r->out[OUT_SHARE] = op->out[OUT_Y];
            r->mat[1].w = op->norm;
            op->dead = true;
            return;
        }
    CHECK(!"a row gate has its router before it");
}

/* What the catalogue cannot say in separate commands. */
static void fuse_always(struct graph *g)
{
    struct links k;
    if (links_make(g, &k))
        for (uint32_t i = 0; i < g->n_ops; i++) {
            struct gop *op = &g->ops[i];
            switch (op->kind) {
            case G_ACT_MUL: fuse_act_mul(g, op, &k); break;
            case G_ROW_SCALE:
            case G_SOFTCAP: absorb_product(g, op, &k); break;
            case G_ROW_GATE: fuse_row_gate(g, op); break;
            default: break;
            }
        }
    links_free(&k);
}

static bool is_plain_product(const struct gop *op)
{
    return op->kind == G_MATMUL && !op->dead && !op->n_out && !op->in[IN_RESID] && !op->in[IN_SCALE] && op->softcap == 0;
}

/* Products of one input, in the first one's place: nothing else they read has to exist. */
static void fuse_siblings(struct graph *g)
{
    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct gop *a = &g->ops[i];
        if (!is_plain_product(a))
            continue;
        for (uint32_t j = i + 1; j < g->n_ops && g->ops[j].layer == a->layer && a->n_mats < 4; j++) {
            struct gop *b = &g->ops[j];
            if (!is_plain_product(b) || b->in[IN_X] != a->in[IN_X])
                continue;
            a->out[a->n_mats] = b->out[OUT_Y];
            a->mat[a->n_mats++] = b->mat[0];
            b->dead = true;
        }
    }
}

static bool can_norm(const struct gop *op)
{
    if (op->dead || op->norm)
        return false;
    return op->kind == G_MATMUL || op->kind == G_GATE_UP || op->kind == G_ROUTER || op->kind == G_MOE_UP;
}

/* Every product that reads a normed value norms for itself; the norm stays only for readers that cannot. */
static void fuse_norms(struct graph *g)
{
    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct gop *n = &g->ops[i];
        if (n->kind != G_NORM || n->dead)
            continue;
        bool needed = false;
        for (uint32_t j = i + 1; j < g->n_ops; j++) {
            struct gop *op = &g->ops[j];
            if (op->dead)
                continue;
            if (op->in[IN_X] == n->out[OUT_Y] && can_norm(op)) {
                op->in[IN_X] = n->in[IN_X];
                op->norm = n->norm;
                op->norm_as = n->norm_as;
            }
            for (int k = 0; k < IN_COUNT; k++)
                needed = needed || op->in[k] == n->out[OUT_Y];
        }
        n->dead = !needed;
    }
}

/* The op that makes v for the sum alone and has room for a residual, and for the sum's scale. */
static struct gop *resid_taker(struct graph *g, const struct links *k, const struct gop *add, gref v)
{
    if (k->maker[v] == UINT32_MAX || k->n_reads[v] != 1)
        return NULL;
    struct gop *op = &g->ops[k->maker[v]];
    if (op->dead || op->in[IN_RESID] || op->softcap != 0)
        return NULL;
    bool product = (op->kind == G_MATMUL && op->n_mats == 1) || op->kind == G_MOE_DOWN;
    bool takes = op->kind == G_NORM || (product && !add->out_scale && !add->half_power);
    return takes ? op : NULL;
}

static void fuse_residuals(struct graph *g)
{
    struct links k;
    if (links_make(g, &k))
        for (uint32_t i = 0; i < g->n_ops; i++) {
            struct gop *add = &g->ops[i];
            if (add->kind != G_ADD || add->dead)
                continue;
            gref x = add->in[IN_X], y = add->in[IN_A], sum = add->out[OUT_Y];
            const struct gguf_tensor *scale = add->out_scale;
            bool half_power = add->half_power;
            struct gop *p = resid_taker(g, &k, add, y);
            gref resid = x;
            if (!p) {
                p = resid_taker(g, &k, add, x);
                resid = y;
            }
            if (!p)
                continue;
            *add = *p;
            add->in[IN_RESID] = resid;
            add->out[OUT_Y] = sum;
            add->out_scale = scale;
            add->half_power = half_power;
            p->dead = true;
            k.maker[sum] = i;
        }
    links_free(&k);
}

static void drop_dead(struct graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (!g->ops[i].dead)
            g->ops[n++] = g->ops[i];
    g->n_ops = n;
}

void graph_fuse(struct graph *g)
{
    if (g->rc)
        return;
    fuse_always(g);
    if (!g->o->no_fuse && !g->rc) {
        fuse_siblings(g);
        fuse_norms(g);
        fuse_residuals(g);
    }
    drop_dead(g);
}
