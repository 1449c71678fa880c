/* Strings: bytes, and of each whether it is the template's own or data. */
#include <limits.h>
#include <utf8proc.h>

#include "jinja/jinja_impl.h"

/* Room where strings grow at the end. Bytes that a string has are never changed: whose end is `used` may go on
 * there. */
struct jbuf {
    char *s;
    uint8_t *mask;
    uint32_t used, cap;
};

static void check_length(struct jinja_ctx *c, size_t n)
{
    if (n > INT32_MAX)
        jinja_fail(c, -E2BIG, "a string of %zu bytes", n);
}

struct jstr *jstr_new(struct jinja_ctx *c, const char *s, size_t n, enum jorigin origin)
{
    struct jstr *r = (struct jstr *)jinja_alloc_bytes(c, sizeof *r);
    check_length(c, n);
    *r = (struct jstr){ .s = s, .n = (uint32_t)n, .origin = (uint8_t)origin };
    return r;
}

struct jstr *jstr_lit(struct jinja_ctx *c, const char *s)
{
    return jstr_new(c, s, strlen(s), J_OWN);
}

struct jstr *jstr_copy(struct jinja_ctx *c, const char *s, size_t n, enum jorigin origin)
{
    char *copy = jinja_alloc_bytes(c, n + 1);
    if (n)
        memcpy(copy, s, n);
    copy[n] = 0;
    return jstr_new(c, copy, n, origin);
}

char *jstr_z(struct jinja_ctx *c, const struct jstr *s)
{
    return (char *)jstr_copy(c, s->s, s->n, J_OWN)->s;
}

struct jstr *jstr_sub(struct jinja_ctx *c, const struct jstr *s, size_t from, size_t to)
{
    struct jstr *r = jstr_new(c, s->s + from, to > from ? to - from : 0, (enum jorigin)s->origin);
    if (s->origin == J_MIXED)
        r->mask = s->mask + from;
    r->markup = s->markup;
    return r;
}

bool jstr_eq(const struct jstr *a, const struct jstr *b)
{
    return a->n == b->n && (a->s == b->s || memcmp(a->s, b->s, a->n) == 0);
}

bool jstr_is(const struct jstr *a, const char *s)
{
    return strlen(s) == a->n && memcmp(a->s, s, a->n) == 0;
}

/* UTF-8 sorts by bytes as code points do. */
int jstr_cmp(const struct jstr *a, const struct jstr *b)
{
    int d = memcmp(a->s, b->s, MIN(a->n, b->n));
    return d ? d : (a->n > b->n) - (a->n < b->n);
}

uint32_t jstr_char(const struct jstr *s, size_t at, size_t *n)
{
    const uint8_t *p = (const uint8_t *)s->s + at;
    size_t left = s->n - at;
    uint32_t cp = p[0];
    unsigned more = cp < 0xc2 ? 0 : cp < 0xe0 ? 1 : cp < 0xf0 ? 2 : cp < 0xf5 ? 3 : 0;
    *n = 1;
    if (!more || more >= left)
        return cp;
    uint32_t v = cp & (0x3fu >> more);
    for (unsigned i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return cp;
        v = v << 6 | (p[i] & 0x3f);
    }
    *n = more + 1;
    return v;
}

static bool is_ascii(const struct jstr *s)
{
    for (size_t i = 0; i < s->n; i++)
        if ((uint8_t)s->s[i] >= 0x80)
            return false;
    return true;
}

size_t jstr_len(struct jinja_ctx *c, const struct jstr *s)
{
    size_t count = 0, k;
    jinja_step(c, s->n / 64);
    if (is_ascii(s))
        return s->n;
    for (size_t i = 0; i < s->n; i += k, count++)
        jstr_char(s, i, &k);
    return count;
}

size_t jstr_offset(const struct jstr *s, size_t from, size_t n_chars)
{
    size_t k;
    for (; n_chars && from < s->n; from += k, n_chars--)
        jstr_char(s, from, &k);
    return from;
}

const char *jstr_find(const struct jstr *s, size_t from, const struct jstr *what)
{
    if (from > s->n)
        return NULL;
    return what->n ? memmem(s->s + from, s->n - from, what->s, what->n) : s->s + from;
}

bool jinja_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

/* ---- growing ---- */

static struct jbuf *buf_new(struct jinja_ctx *c, size_t cap)
{
    struct jbuf *b = jinja_alloc(c, sizeof *b);
    check_length(c, cap);
    b->s = jinja_alloc_bytes(c, cap);
    b->mask = (uint8_t *)jinja_alloc_bytes(c, cap);
    b->cap = (uint32_t)cap;
    return b;
}

static void buf_add(struct jinja_ctx *c, struct jbuf *b, const char *s, size_t n, const uint8_t *mask,
                    enum jorigin origin)
{
    jinja_step(c, n / 64);
    if (!n)
        return;
    memcpy(b->s + b->used, s, n);
    if (origin == J_MIXED && mask)
        memcpy(b->mask + b->used, mask, n);
    else
        memset(b->mask + b->used, origin, n);
    b->used += (uint32_t)n;
}

static void buf_add_str(struct jinja_ctx *c, struct jbuf *b, const struct jstr *s)
{
    buf_add(c, b, s->s, s->n, s->mask, (enum jorigin)s->origin);
}

struct jstr *jstr_concat(struct jinja_ctx *c, const struct jstr *a, const struct jstr *b)
{
    size_t n = (size_t)a->n + b->n;
    check_length(c, n);
    if (!b->n || !a->n) {
        struct jstr *r = (struct jstr *)jinja_alloc_bytes(c, sizeof *r);
        *r = a->n ? *a : *b;
        r->markup = a->markup || b->markup;
        return r;
    }
    struct jbuf *buf = a->buf;
    const char *s = a->s;
    bool goes_on = buf && a->s + a->n == buf->s + buf->used && buf->cap - buf->used >= b->n;
    if (!goes_on) {
        struct jbuf *grown = buf_new(c, buf ? 2 * n : n); /* who grew before will grow again */
        buf_add_str(c, grown, a);
        buf = grown;
        s = grown->s;
    }
    buf_add_str(c, buf, b);
    struct jstr *r = jstr_new(c, s, n, a->origin == b->origin ? (enum jorigin)a->origin : J_MIXED);
    r->mask = buf->mask + (s - buf->s);
    r->buf = buf;
    r->markup = a->markup || b->markup;
    return r;
}

/* ---- building ---- */

struct jout jout_begin(void)
{
    return (struct jout){ 0 };
}

static void put_out(struct jinja_ctx *c, struct jout *o, const char *s, size_t n, bool data)
{
    if (n > o->max || o->n > o->max - n)
        jinja_fail(c, -E2BIG, "more than %zu MiB of output", o->max >> 20);
    o->n += n;
    int rc = o->put(o->user, s, n, data);
    if (rc)
        jinja_fail(c, rc, "the output could not be taken: %s", strerror(-rc));
}

static void reserve(struct jinja_ctx *c, struct jout *o, size_t n)
{
    struct jbuf *old = o->buf;
    if (old && old->cap - old->used >= n)
        return;
    o->buf = buf_new(c, MAX((size_t)64, (old ? 2 * (size_t)old->used : 0) + n));
    if (old)
        buf_add(c, o->buf, old->s, old->used, old->mask, J_MIXED);
}

void jout_add(struct jinja_ctx *c, struct jout *o, const char *s, size_t n, enum jorigin origin)
{
    if (!n)
        return;
    if (o->put) {
        jinja_step(c, n / 64);
        put_out(c, o, s, n, origin == J_DATA);
        return;
    }
    check_length(c, n);
    reserve(c, o, n);
    buf_add(c, o->buf, s, n, NULL, origin);
    *(origin == J_DATA ? &o->data : &o->own) = true;
}

void jout_str(struct jinja_ctx *c, struct jout *o, const struct jstr *s)
{
    if (s->origin != J_MIXED) {
        jout_add(c, o, s->s, s->n, (enum jorigin)s->origin);
        return;
    }
    for (size_t i = 0, k; i < s->n; i = k) {
        for (k = i + 1; k < s->n && s->mask[k] == s->mask[i]; k++)
            ;
        jout_add(c, o, s->s + i, k - i, (enum jorigin)s->mask[i]);
    }
}

void jout_cp(struct jinja_ctx *c, struct jout *o, uint32_t cp, enum jorigin origin)
{
    utf8proc_uint8_t b[4];
    jout_add(c, o, (const char *)b, (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, b), origin);
}

struct jstr *jout_end(struct jinja_ctx *c, struct jout *o)
{
    if (!o->buf)
        return jstr_new(c, "", 0, J_OWN);
    struct jstr *r = jstr_new(c, o->buf->s, o->buf->used, o->own && o->data ? J_MIXED : o->data ? J_DATA : J_OWN);
    r->mask = o->buf->mask;
    r->buf = o->buf;
    return r;
}
