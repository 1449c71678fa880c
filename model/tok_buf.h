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
