/* model/tok_buf.h: the growing arrays that tokenizers and chat templates append to. {0} is empty; after -ENOMEM the
 * contents are as before. */
#ifndef ZINC_MODEL_TOK_BUF_H
#define ZINC_MODEL_TOK_BUF_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct tok_ids {
    int32_t *id;
    size_t n, cap;
};

struct tok_buf {
    char *s; /* n bytes, not terminated */
    size_t n, cap;
};

/* Stretches of a text, ascending and apart from each other. */
struct tok_span {
    size_t off, len;
};
struct tok_spans {
    struct tok_span *s;
    size_t n, cap;
};

static inline void tok_spans_finish(struct tok_spans *v)
{
    free(v->s);
    *v = (struct tok_spans){0};
}

/* Adds a stretch that begins at or behind the end of the last one; one that touches it makes it longer. */
static inline int tok_spans_add(struct tok_spans *v, size_t off, size_t len)
{
    if (len == 0)
        return 0;
    if (v->n && v->s[v->n - 1].off + v->s[v->n - 1].len == off) {
        v->s[v->n - 1].len += len;
        return 0;
    }
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 16;
        struct tok_span *p = realloc(v->s, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        v->s = p;
        v->cap = cap;
    }
    v->s[v->n++] = (struct tok_span){off, len};
    return 0;
}

/* Forgets what lies at or behind `end`. */
static inline void tok_spans_cut(struct tok_spans *v, size_t end)
{
    while (v->n && v->s[v->n - 1].off >= end)
        v->n--;
    if (v->n && v->s[v->n - 1].off + v->s[v->n - 1].len > end)
        v->s[v->n - 1].len = end - v->s[v->n - 1].off;
}

/* The stretches of what remains when the first `from` bytes of the text are taken away. */
static inline void tok_spans_skip(struct tok_spans *v, size_t from)
{
    size_t keep = 0;
    for (size_t i = 0; i < v->n; i++) {
        struct tok_span t = v->s[i];
        if (t.off + t.len <= from)
            continue;
        size_t off = t.off > from ? t.off : from;
        v->s[keep++] = (struct tok_span){off - from, t.off + t.len - off};
    }
    v->n = keep;
}

static inline void tok_ids_finish(struct tok_ids *v)
{
    free(v->id);
    *v = (struct tok_ids){0};
}

static inline void tok_buf_finish(struct tok_buf *b)
{
    free(b->s);
    *b = (struct tok_buf){0};
}

static inline int tok_ids_push(struct tok_ids *v, int32_t id)
{
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 64;
        int32_t *p = realloc(v->id, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        v->id = p;
        v->cap = cap;
    }
    v->id[v->n++] = id;
    return 0;
}

static inline int tok_buf_reserve(struct tok_buf *b, size_t more)
{
    if (b->cap - b->n < more) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap - b->n < more) {
            if (cap > SIZE_MAX / 2)
                return -ENOMEM;
            cap *= 2;
        }
        char *p = realloc(b->s, cap);
        if (!p)
            return -ENOMEM;
        b->s = p;
        b->cap = cap;
    }
    return 0;
}

static inline int tok_buf_add(struct tok_buf *b, const char *s, size_t n)
{
    if (n == 0)
        return 0;
    if (tok_buf_reserve(b, n))
        return -ENOMEM;
    memcpy(b->s + b->n, s, n);
    b->n += n;
    return 0;
}

#endif
