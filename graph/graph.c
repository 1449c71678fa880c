#include "graph/graph.h"

#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "graph/ir.h"

static int check_opts(const struct graph_opts *o, struct err *e)
{
    if (o->n_ctx == 0 || o->n_ctx > STREAM_MAX_CTX)
        return err_set(e, -EINVAL, "graph: a context of %u positions, expected 1..%d", o->n_ctx, STREAM_MAX_CTX);
    if (o->n_slots == 0 || o->n_slots > STREAM_MAX_SLOTS)
        return err_set(e, -EINVAL, "graph: %u slots, expected 1..%d", o->n_slots, STREAM_MAX_SLOTS);
    if (o->row_cap == 0 || o->row_cap > STREAM_MAX_ROWS)
        return err_set(e, -EINVAL, "graph: %u rows per submission, expected 1..%d", o->row_cap, STREAM_MAX_ROWS);
    if (o->out_cap == 0 || o->out_cap > o->row_cap)
        return err_set(e, -EINVAL, "graph: %u output rows, expected 1..%u, the rows", o->out_cap, o->row_cap);
    if (o->kv_type >= KA_KV_COUNT)
        return err_set(e, -EINVAL, "graph: kv type %d, expected one of %d", (int)o->kv_type, KA_KV_COUNT);
    return 0;
}

int graph_check_cut(const struct model *m, uint32_t at, struct err *e)
{
    if (m->family == FAMILY_GEMMA3N && at > 0 && at < m->n_layer)
        return err_set(e, -ENOTSUP, "graph: %s: gemma3n cannot be cut: what passes between its layers is four residuals, and a "
                       "stream has one", m->name);
    for (uint32_t il = at; il < m->n_layer; il++)
        if (m->layers[il].kind == LAYER_ATTN && m->layers[il].kv_from < at)
            return err_set(e, -ENOTSUP, "graph: %s: cannot be cut in front of layer %u: layer %u reads the KV cache "
                           "of layer %u", m->name, at, il, m->layers[il].kv_from);
    return 0;
}

/* The range of layers, with its end in place of 0. */
static int check_layers(const struct model *m, struct graph_opts *o, struct err *e)
{
    int rc;
    uint32_t end = o->end_layer ? o->end_layer : m->n_layer;
    if (end > m->n_layer || o->first_layer >= end)
        return err_set(e, -EINVAL, "graph: %s: layers %u:%u, expected first < end <= %u", m->name, o->first_layer,
                       end, m->n_layer);
    if ((rc = graph_check_cut(m, o->first_layer, e)) || (rc = graph_check_cut(m, end, e)))
        return rc;
    o->end_layer = end;
    return 0;
}

int graph_compile(const struct model *m, const struct graph_opts *opts, struct stream **out, struct err *e)
{
    struct graph_opts o = *opts;
    struct stream *s = NULL;
    struct gplan p = {0};
    int rc = check_opts(&o, e);
    if (rc || (rc = check_layers(m, &o, e)))
        return rc;
    o.n_ctx = (uint32_t)align_up(o.n_ctx, 16);

    struct graph g = {.m = m, .o = &o, .layer = CMD_NO_LAYER};
    graph_decoder(&g);
    graph_narrow(&g);
    graph_fuse(&g);
    graph_plan(&g, &p);
    graph_lower(&g, &p, &s);
    rc = g.rc;
    if (rc)
        err_set(e, rc, "%s", g.err.msg);
    else if ((rc = stream_verify(s, e)))
        err_context(e, "graph: %s: the lowered stream does not verify", m->name);
    graph_plan_finish(&p);
    graph_finish(&g);
    if (rc) {
        stream_free(s);
        return rc;
    }
    log_info(GRAPH, "%s: %u commands, %u buffers, %u weights", m->name, s->h.n_cmds, s->h.n_bufs, s->h.n_weights);
    *out = s;
    return 0;
}
