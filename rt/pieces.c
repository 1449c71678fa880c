#include "rt/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/planes.h"
#include "rt/dispatch.h"

static bool add(struct pieces *p, struct piece x)
{
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 1024;
        struct piece *q = realloc(p->piece, cap * sizeof *q);
        if (!q)
            return false;
        p->piece = q;
        p->cap = cap;
    }
    p->piece[p->n++] = x;
    return true;
}

static bool cut_weight(struct pieces *p, uint32_t i)
{
    const struct stream_weight *w = &p->w->s->weights[i];
    uint64_t unit = p->unit[i], row = qtype_row_bytes(w->type, w->ne[0]);
    if (p->whole)
        return add(p, (struct piece){ .weight = i });
    if (!unit) {
        for (uint64_t off = 0; off < w->bytes; off += PIECE_BYTES)
            if (!add(p, (struct piece){ i, 0, off, MIN(w->bytes - off, (uint64_t)PIECE_BYTES) }))
                return false;
        return true;
    }
    uint64_t rows = MAX(PIECE_BYTES / row, 1u);
    for (uint64_t m = 0; m < w->bytes / (row * unit); m++)
        for (uint64_t r = 0; r < unit; r += rows)
            if (!add(p, (struct piece){ i, m, r, MIN(unit - r, rows) }))
                return false;
    return true;
}

int pieces_cut(struct pieces *p, const struct tier_weights *w, const uint32_t *unit)
{
    *p = (struct pieces){ .w = w, .unit = unit, .whole = p->whole };
    for (uint32_t i = 0; i < w->s->h.n_weights; i++)
        if (!cut_weight(p, i)) {
            pieces_free(p);
            return -ENOMEM;
        }
    return 0;
}

void pieces_free(struct pieces *p)
{
    free(p->piece);
    p->piece = NULL;
    p->n = p->cap = 0;
}

uint64_t piece_bytes(const struct pieces *p, const struct piece *x)
{
    const struct stream_weight *w = &p->w->s->weights[x->weight];
    if (p->whole)
        return w->bytes;
    return p->unit[x->weight] ? x->n * qtype_row_bytes(w->type, w->ne[0]) : x->n;
}

int piece_pack(const struct pieces *p, const struct piece *x, uint8_t *buf, piece_put put, void *user)
{
    const struct stream_weight *w = &p->w->s->weights[x->weight];
    const uint8_t *data = p->w->data[x->weight];
    uint64_t unit = p->unit[x->weight], row = qtype_row_bytes(w->type, w->ne[0]);
    if (!unit) {
        memcpy(buf, data + x->r0, x->n);
        return put(user, w->off + x->r0, buf, x->n);
    }
    struct planes pl = planes_of(w->type);
    uint64_t blocks = w->ne[0] / qtype_block(w->type), at = 0, plane = 0;
    planes_pack(w->type, data + (x->matrix * unit + x->r0) * row, buf, x->n, x->n, w->ne[0]);
    int rc = 0;
    for (uint32_t f = 0; f < pl.n && !rc; f++) {
        uint64_t len = pl.f[f].len * blocks;
        rc = put(user, w->off + x->matrix * unit * row + plane + x->r0 * len, buf + at, x->n * len);
        at += x->n * len;
        plane += unit * len;
    }
    return rc;
}
