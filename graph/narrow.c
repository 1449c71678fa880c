/* Where a submission needs fewer logits than it has rows, the rows that nobody needs are dropped as early as the ops
 * allow: GATHER moves up, over ops that treat each row for itself, to the values that mix rows or are read by such.
 * Of a prompt's last layer that leaves attention for all rows and the products after it for the output rows.
 *
 *     x ─ norm ─ q, k, v ─ attn ─ wo ─ add ─ norm ─ ffn ─ add ─ GATHER ─ norm ─ logits
 *     x ─ norm ─ q, k, v ─ attn ─ GATHER ─ wo ─ add ─ norm ─ ffn ─ add ─ norm ─ logits      and x ─ GATHER ─ add
 *
 * Layers that read an earlier one's cache store nothing, so that of such layers at the end of a model (gemma4's small
 * ones: half of it) everything runs on output rows: their ROPE_KV and ATTN read positions and slots from a step block
 * that STEP_OUT makes. A chunk of a prompt without an output passes them by. */
#include <stdlib.h>

#include "graph/ir.h"

/* Ops whose commands run on output rows as well. */
static bool is_rowwise(const struct gop *op)
{
    switch (op->kind) {
    case G_NORM:
    case G_ADD:
    case G_MATMUL:
    case G_ACT_MUL:
    case G_MATCH:
    case G_ALTUP:
    case G_SOFTCAP: return true;
    case G_ROPE_KV: return !op->in[IN_A];
    case G_ATTN: return op->ml->kv_from != op->layer;
    default: return false;
    }
}

/* all[v]: v is needed, or made by an op that makes it, for all rows. */
static void find_needs(const struct graph *g, bool *all)
{
    for (uint32_t v = 0; v < g->n_vals; v++)
        all[v] = g->vals[v].rows == ROWS_OUT;
    for (uint32_t i = g->n_ops; i-- > 0;) {
        const struct gop *op = &g->ops[i];
        if (op->kind == G_GATHER || (is_rowwise(op) && !all[op->out[OUT_Y]]))
            continue;
        for (int j = 0; j < IN_COUNT; j++)
            all[op->in[j]] = all[g->vals[op->in[j]].base] = true;
        for (int j = 0; j < OUT_COUNT; j++)
            all[op->out[j]] = true;
    }
}

/* A GATHER costs a command; only a product that then runs on fewer rows pays for it. */
static bool saves_a_product(const struct graph *g, const bool *all)
{
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (g->ops[i].kind == G_MATMUL && !all[g->ops[i].out[OUT_Y]])
            return true;
    return false;
}

/* v for the output rows: itself, or what a GATHER in front of its first such reader makes of it. */
static gref gathered(struct graph *g, const bool *all, gref *narrow, gref v)
{
    gref base = g->vals[v].base;
    if (base) {
        gref b = gathered(g, all, narrow, base);
        if (b == base)
            g->vals[v].rows = ROWS_OUT;
        else if (!narrow[v])
            narrow[v] = graph_view(g, b, g->vals[v].off, g->vals[v].n);
        return narrow[v] ? narrow[v] : v;
    }
    if (!all[v] || g->vals[v].rows == ROWS_OUT)
        return narrow[v] ? narrow[v] : v;
    if (!narrow[v]) {
        gref y = graph_gather(g, v, g->vals[v].name);
        if (!y)
            return 0;
        g->vals[y].gathered = true;
        g->vals[y].layer = g->vals[v].layer;
        narrow[v] = y;
    }
    return narrow[v];
}

static void rewrite(struct graph *g, const bool *all, gref *narrow)
{
    struct gop *old = g->ops;
    uint32_t n_old = g->n_ops;
    bool have_step = false;
    g->ops = NULL;
    g->n_ops = g->cap_ops = 0;
    for (uint32_t i = 0; i < n_old && !g->rc; i++) {
        struct gop op = old[i];
        gref y = op.out[OUT_Y];
        if (op.kind == G_GATHER) { /* its input has the output rows only, by now */
            narrow[y] = op.in[IN_X];
            continue;
        }
        g->layer = op.layer;
        bool ends = op.kind == G_ARGMAX || op.kind == G_VECTORS_OUT;
        bool on_outputs = ends || (is_rowwise(&op) && (!all[y] || g->vals[y].rows == ROWS_OUT));
        if (on_outputs && y)
            g->vals[y].rows = ROWS_OUT;
        for (int j = 0; j < IN_COUNT && on_outputs; j++)
            if (op.in[j])
                op.in[j] = gathered(g, all, narrow, op.in[j]);
        if (on_outputs && !have_step && (op.kind == G_ROPE_KV || op.kind == G_ATTN)) {
            graph_step_out(g);
            have_step = true;
        }
        graph_append(g, &op);
    }
    free(old);
}

void graph_narrow(struct graph *g)
{
    if (g->rc || g->o->out_cap == g->o->row_cap)
        return;
    size_t room = 2 * (size_t)g->n_vals; /* values that rewrite adds: at most one GATHER or view for each */
    bool *all = calloc(room, sizeof *all);
    gref *narrow = calloc(room, sizeof *narrow);
    if (!all || !narrow) {
        graph_fail(g, -ENOMEM, "%u values", g->n_vals);
    } else {
        find_needs(g, all);
        if (saves_a_product(g, all))
            rewrite(g, all, narrow);
    }
    free(all);
    free(narrow);
}
