/* Which bytes of a model's file a stream's weights are. */
#include "graph/graph.h"

#include <string.h>

#include "graph/ir.h"

/* The tensor that weight w is, by name, type and shape; NULL: there is none, and e says so. */
static const struct gguf_tensor *find_weight(const struct stream *s, const struct stream_weight *w,
                                             const struct gguf *g, struct err *e)
{
    const char *name = stream_str(s, w->name);
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    if (!t) {
        err_set(e, -EINVAL, "graph: %s: no tensor '%s': the stream was made from another model", gguf_path(g), name);
        return NULL;
    }
    if (t->type == w->type && memcmp(t->ne, w->ne, sizeof w->ne) == 0 && t->bytes == w->bytes)
        return t;
    err_set(e, -EINVAL, "graph: %s: tensor '%s' is %s [%llu, %llu, %llu], the stream was made from %s "
            "[%llu, %llu, %llu]: another model", gguf_path(g), name, qtype_name(t->type),
            (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
            qtype_name(w->type), (unsigned long long)w->ne[0], (unsigned long long)w->ne[1],
            (unsigned long long)w->ne[2]);
    return NULL;
}

static int check_place(const struct stream *s, const struct stream_weight *w, const struct gguf *g,
                       const struct gguf_tensor *t, struct err *e)
{
    if (t->part == w->part && t->file_off == w->file_off)
        return 0;
    return err_set(e, -EINVAL, "graph: %s: tensor '%s' lies at %llu of part %u, the stream was made with it at %llu "
                   "of part %u: another file", gguf_path(g), stream_str(s, w->name),
                   (unsigned long long)t->file_off, t->part, (unsigned long long)w->file_off, w->part);
}

int graph_bind_weights(const struct stream *s, const struct gguf *g, const uint8_t **data, struct err *e)
{
    if (stream_weights_hash(s->weights, s->h.n_weights, s->strs) != s->h.weights_hash)
        return err_set(e, -EINVAL, "graph: the stream's weight table does not have the hash in its head (damaged)");
    for (uint32_t i = 0; i < s->h.n_weights; i++) /* another model says more than another file */
        if (!find_weight(s, &s->weights[i], g, e))
            return -EINVAL;
    for (uint32_t i = 0; i < s->h.n_weights; i++) {
        const struct gguf_tensor *t = find_weight(s, &s->weights[i], g, e);
        int rc = check_place(s, &s->weights[i], g, t, e);
        if (rc)
            return rc;
        data[i] = t->data;
    }
    return 0;
}
