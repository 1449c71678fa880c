/* Values, with Python's truth, equality, order and text (its reference, "Comparisons" and "Truth Value Testing"). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja_impl.h"

/* ---- lists and dicts ---- */

struct jlist *jlist_new(struct jinja_ctx *c, uint32_t cap, enum jlist_kind kind)
{
    struct jlist *l = jinja_alloc(c, sizeof *l);
    l->kind = kind;
    l->cap = cap;
    l->v = cap ? (struct jval *)jinja_alloc_bytes(c, cap * sizeof *l->v) : NULL;
    return l;
}

void jlist_push(struct jinja_ctx *c, struct jlist *l, struct jval v)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 8;
        if (cap > UINT32_MAX / 64)
            jinja_fail(c, -E2BIG, "a list of %u values", l->n);
        struct jval *grown = (struct jval *)jinja_alloc_bytes(c, cap * sizeof *grown);
        if (l->n)
            memcpy(grown, l->v, l->n * sizeof *grown);
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

struct jval jval_pair(struct jinja_ctx *c, struct jval a, struct jval b)
{
    struct jlist *l = jlist_new(c, 2, J_KIND_TUPLE);
    l->v[0] = a;
    l->v[1] = b;
    l->n = 2;
    return jval_list(l);
}

enum { SMALL_DICT = 8 };

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static uint64_t hash_key(struct jinja_ctx *c, struct jval k)
{
    double f;
    uint64_t h = 7;
    if (k.t == J_STR)
        return hash_bytes(k.s->s, k.s->n);
    if (jval_number(k, &f)) {
        f += 0.0; /* -0.0 is 0.0 */
        return hash_bytes((const char *)&f, sizeof f);
    }
    if (k.t == J_LIST && k.l->kind == J_KIND_TUPLE) {
        jinja_enter(c);
        for (uint32_t i = 0; i < k.l->n; i++)
            h = h * 31 + hash_key(c, k.l->v[i]);
        c->depth--;
        return h;
    }
    if (k.t == J_LIST || k.t == J_DICT)
        jinja_fail(c, -EINVAL, "a %s cannot be a key", jval_type(k));
    return k.t;
}

static void index_put(struct jdict *d, uint64_t h, uint32_t place)
{
    uint32_t at = (uint32_t)h & (d->n_index - 1);
    while (d->index[at])
        at = (at + 1) & (d->n_index - 1);
    d->index[at] = place + 1;
}

static void index_make(struct jinja_ctx *c, struct jdict *d)
{
    d->n_index = 16;
    while (d->n_index < 2 * d->cap)
        d->n_index *= 2;
    d->index = jinja_alloc(c, d->n_index * sizeof *d->index);
    jinja_step(c, d->n);
    for (uint32_t i = 0; i < d->n; i++)
        index_put(d, hash_key(c, d->k[i]), i);
}

struct jdict *jdict_new(struct jinja_ctx *c, uint32_t cap)
{
    struct jdict *d = jinja_alloc(c, sizeof *d);
    d->cap = cap;
    d->k = cap ? (struct jval *)jinja_alloc_bytes(c, 2 * cap * sizeof *d->k) : NULL;
    d->v = cap ? d->k + cap : NULL;
    return d;
}

struct jval *jdict_get_str(const struct jdict *d, const char *s, size_t n)
{
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->k[i].t == J_STR && d->k[i].s->n == n && memcmp(d->k[i].s->s, s, n) == 0)
                return &d->v[i];
        return NULL;
    }
    for (uint32_t at = (uint32_t)hash_bytes(s, n) & (d->n_index - 1); d->index[at]; at = (at + 1) & (d->n_index - 1)) {
        const struct jval *k = &d->k[d->index[at] - 1];
        if (k->t == J_STR && k->s->n == n && memcmp(k->s->s, s, n) == 0)
            return &d->v[d->index[at] - 1];
    }
    return NULL;
}

struct jval *jdict_get(struct jinja_ctx *c, const struct jdict *d, struct jval k)
{
    if (k.t == J_STR)
        return jdict_get_str(d, k.s->s, k.s->n);
    uint64_t h = hash_key(c, k);
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (jval_eq(c, d->k[i], k))
                return &d->v[i];
        return NULL;
    }
    for (uint32_t at = (uint32_t)h & (d->n_index - 1); d->index[at]; at = (at + 1) & (d->n_index - 1))
        if (jval_eq(c, d->k[d->index[at] - 1], k))
            return &d->v[d->index[at] - 1];
    return NULL;
}

void jdict_set(struct jinja_ctx *c, struct jdict *d, struct jval k, struct jval v)
{
    struct jval *at = jdict_get(c, d, k);
    if (at) {
        *at = v;
        return;
    }
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : 4;
        if (cap > UINT32_MAX / 128)
            jinja_fail(c, -E2BIG, "a dict of %u values", d->n);
        struct jval *grown = (struct jval *)jinja_alloc_bytes(c, 2 * cap * sizeof *grown);
        if (d->n) {
            memcpy(grown, d->k, d->n * sizeof *grown);
            memcpy(grown + cap, d->v, d->n * sizeof *grown);
        }
        d->k = grown;
        d->v = grown + cap;
        d->cap = cap;
        d->index = NULL;
    }
    d->k[d->n] = k;
    d->v[d->n++] = v;
    if (d->index)
        index_put(d, hash_key(c, k), d->n - 1);
    else if (d->n > SMALL_DICT)
        index_make(c, d);
}

void jdict_remove(struct jinja_ctx *c, struct jdict *d, uint32_t at)
{
    memmove(d->k + at, d->k + at + 1, (d->n - at - 1) * sizeof *d->k);
    memmove(d->v + at, d->v + at + 1, (d->n - at - 1) * sizeof *d->v);
    d->n--;
    if (d->index)
        index_make(c, d);
}

/* ---- from JSON ---- */

static bool is_role(const struct jinja_opts *o, const char *key, const json_t *v)
{
    if (!o || !o->roles || !json_is_string(v) || strcmp(key, "role") != 0)
        return false;
    for (const char *const *r = o->roles; *r; r++)
        if (strcmp(*r, json_string_value(v)) == 0)
            return true;
    return false;
}

struct jval jval_from_json(struct jinja_ctx *c, const json_t *v, enum jorigin origin)
{
    const char *key;
    json_t *member;
    size_t i, n;
    jinja_step(c, 1);
    switch (json_typeof(v)) {
    case JSON_NULL: return jval_none();
    case JSON_TRUE: return jval_bool(true);
    case JSON_FALSE: return jval_bool(false);
    case JSON_INTEGER: return jval_int(json_integer_value(v));
    case JSON_REAL: return jval_float(json_real_value(v));
    case JSON_STRING:
        return jval_str(jstr_new(c, json_string_value(v), json_string_length(v), origin));
    case JSON_ARRAY: {
        n = json_array_size(v);
        struct jlist *l = jlist_new(c, (uint32_t)MIN(n, (size_t)UINT32_MAX), J_KIND_LIST);
        jinja_enter(c);
        for (i = 0; i < n; i++)
            jlist_push(c, l, jval_from_json(c, json_array_get(v, i), origin));
        c->depth--;
        return jval_list(l);
    }
    case JSON_OBJECT: break;
    }
    struct jdict *d = jdict_new(c, (uint32_t)json_object_size(v));
    jinja_enter(c);
    json_object_foreach ((json_t *)v, key, member)
        jdict_set(c, d, jval_str(jstr_new(c, key, strlen(key), origin)),
                  jval_from_json(c, member, is_role(c->opts, key, member) ? J_OWN : origin));
    c->depth--;
    return jval_dict(d);
}

/* ---- what a value is ---- */

const char *jval_type(struct jval v)
{
    static const char *const names[] = {
        [J_UNDEFINED] = "undefined value", [J_NONE] = "None", [J_BOOL] = "bool", [J_INT] = "int", [J_FLOAT] = "float",
        [J_STR] = "str", [J_LIST] = "list", [J_DICT] = "dict", [J_NAMESPACE] = "namespace", [J_MACRO] = "macro",
        [J_FUNCTION] = "function", [J_METHOD] = "method", [J_LOOP] = "loop", [J_CYCLER] = "cycler",
        [J_JOINER] = "joiner",
    };
    static const char *const kinds[] = { "list", "tuple", "view of a dict", "generator" };
    return v.t == J_LIST ? kinds[v.l->kind] : names[v.t];
}

void jval_undefined_fail(struct jinja_ctx *c, struct jval v)
{
    const struct jstr *s = v.s ? v.s : &(const struct jstr){ .s = "value", .n = 5 };
    if (v.of == J_UNDEFINED)
        jinja_fail(c, -EINVAL, "'%.*s' is undefined", (int)MIN(s->n, 100u), s->s);
    jinja_fail(c, -EINVAL, "a %s has no '%.*s'", jval_type((struct jval){ .t = v.of == J_LIST ? J_DICT : v.of }),
               (int)MIN(s->n, 100u), s->s);
}

bool jval_number(struct jval v, double *f)
{
    if (v.t == J_BOOL || v.t == J_INT)
        *f = v.t == J_BOOL ? v.b : (double)v.i;
    else if (v.t == J_FLOAT)
        *f = v.f;
    return v.t == J_BOOL || v.t == J_INT || v.t == J_FLOAT;
}

bool jval_as_int(struct jval v, int64_t *i)
{
    if (v.t == J_BOOL || v.t == J_INT)
        *i = v.t == J_BOOL ? v.b : v.i;
    return v.t == J_BOOL || v.t == J_INT;
}

bool jval_truth(struct jval v)
{
    switch (v.t) {
    case J_UNDEFINED:
    case J_NONE: return false;
    case J_BOOL: return v.b;
    case J_INT: return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STR: return v.s->n > 0;
    case J_LIST: return v.l->n > 0 || v.l->kind == J_KIND_ITER;
    case J_DICT: return v.d->n > 0;
    default: return true;
    }
}

static bool list_eq(struct jinja_ctx *c, const struct jlist *a, const struct jlist *b)
{
    if (a->n != b->n || a->kind != b->kind)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!jval_eq(c, a->v[i], b->v[i]))
            return false;
    return true;
}

static bool dict_eq(struct jinja_ctx *c, const struct jdict *a, const struct jdict *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct jval *other = jdict_get(c, b, a->k[i]);
        if (!other || !jval_eq(c, a->v[i], *other))
            return false;
    }
    return true;
}

bool jval_eq(struct jinja_ctx *c, struct jval a, struct jval b)
{
    double x, y;
    bool same;
    jinja_step(c, 1);
    if (a.t == J_INT && b.t == J_INT)
        return a.i == b.i;
    if (jval_number(a, &x))
        return jval_number(b, &y) && x == y;
    if (a.t != b.t)
        return false;
    switch (a.t) {
    case J_UNDEFINED:
    case J_NONE: return true;
    case J_STR: jinja_step(c, a.s->n / 64); return jstr_eq(a.s, b.s);
    case J_LIST:
    case J_DICT:
        jinja_enter(c);
        same = a.t == J_LIST ? a.l == b.l || list_eq(c, a.l, b.l) : a.d == b.d || dict_eq(c, a.d, b.d);
        c->depth--;
        return same;
    default: return a.m == b.m;
    }
}

int jval_cmp(struct jinja_ctx *c, struct jval a, struct jval b, const char *op)
{
    double x, y;
    jinja_step(c, 1);
    if (a.t == J_UNDEFINED || b.t == J_UNDEFINED)
        jval_undefined_fail(c, a.t == J_UNDEFINED ? a : b);
    if (a.t == J_INT && b.t == J_INT)
        return (a.i > b.i) - (a.i < b.i);
    if (jval_number(a, &x) && jval_number(b, &y))
        return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    if (a.t == J_STR && b.t == J_STR) {
        int d = jstr_cmp(a.s, b.s);
        return (d > 0) - (d < 0);
    }
    if (a.t == J_LIST && b.t == J_LIST && a.l->kind == b.l->kind && a.l->kind <= J_KIND_TUPLE) {
        jinja_enter(c);
        for (uint32_t i = 0; i < a.l->n && i < b.l->n; i++) {
            if (jval_eq(c, a.l->v[i], b.l->v[i]))
                continue;
            int d = jval_cmp(c, a.l->v[i], b.l->v[i], op);
            c->depth--;
            return d;
        }
        c->depth--;
        return (a.l->n > b.l->n) - (a.l->n < b.l->n);
    }
    jinja_fail(c, -EINVAL, "'%s' is not there for %s and %s", op, jval_type(a), jval_type(b));
}

bool jval_in(struct jinja_ctx *c, struct jval needle, struct jval hay)
{
    if (hay.t == J_STR) {
        if (needle.t == J_UNDEFINED)
            jval_undefined_fail(c, needle);
        if (needle.t != J_STR)
            jinja_fail(c, -EINVAL, "'in' a str wants a str, not %s", jval_type(needle));
        jinja_step(c, hay.s->n / 64);
        return jstr_find(hay.s, 0, needle.s) != NULL;
    }
    if (hay.t == J_DICT)
        return jdict_get(c, hay.d, needle) != NULL;
    struct jlist *l = jval_items(c, hay);
    for (uint32_t i = 0; i < l->n; i++)
        if (jval_eq(c, l->v[i], needle))
            return true;
    return false;
}

size_t jval_len(struct jinja_ctx *c, struct jval v)
{
    switch (v.t) {
    case J_UNDEFINED: return 0;
    case J_STR: return jstr_len(c, v.s);
    case J_DICT: return v.d->n;
    case J_LIST:
        if (v.l->kind != J_KIND_ITER)
            return v.l->n;
    }
    jinja_fail(c, -EINVAL, "a %s has no length", jval_type(v));
}

bool jval_iterable(struct jval v)
{
    return v.t == J_UNDEFINED || v.t == J_STR || v.t == J_LIST || v.t == J_DICT || v.t == J_LOOP;
}

struct jlist *jval_items(struct jinja_ctx *c, struct jval v)
{
    struct jlist *l;
    switch (v.t) {
    case J_UNDEFINED: return jlist_new(c, 0, J_KIND_LIST);
    case J_LIST:
        if (v.l->kind != J_KIND_ITER)
            return v.l;
        l = jlist_new(c, 0, J_KIND_LIST);
        *l = *v.l;
        l->kind = J_KIND_LIST;
        v.l->n = v.l->cap = 0;
        return l;
    case J_STR:
        l = jlist_new(c, v.s->n, J_KIND_LIST);
        for (size_t i = 0, k; i < v.s->n; i += k) {
            jinja_step(c, 1);
            jstr_char(v.s, i, &k);
            jlist_push(c, l, jval_str(jstr_sub(c, v.s, i, i + k)));
        }
        return l;
    case J_DICT:
        l = jlist_new(c, v.d->n, J_KIND_LIST);
        if (v.d->n)
            memcpy(l->v, v.d->k, v.d->n * sizeof *l->v);
        l->n = v.d->n;
        return l;
    }
    jinja_fail(c, -EINVAL, "a %s cannot be walked over", jval_type(v));
}

/* ---- text ---- */

/* The shortest digits that read back as the same, in Python's layout: an exponent below -4 and from 16 on. */
void jinja_put_float(struct jinja_ctx *c, struct jout *o, double f)
{
    char t[40], digits[40];
    if (isnan(f) || isinf(f)) {
        const char *s = isnan(f) ? "nan" : f > 0 ? "inf" : "-inf";
        jout_add(c, o, s, strlen(s), J_DATA);
        return;
    }
    int prec = 0;
    do
        snprintf(t, sizeof t, "%.*e", prec, f);
    while (strtod(t, NULL) != f && ++prec < 17);
    char *e = strchr(t, 'e');
    int exp = atoi(e + 1), n = 0;
    for (char *p = t; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = 0;
    char out[80];
    const char *sign = signbit(f) ? "-" : "";
    if (exp < -4 || exp >= 16)
        snprintf(out, sizeof out, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1, exp < 0 ? '-' : '+',
                 abs(exp));
    else if (exp < 0)
        snprintf(out, sizeof out, "%s0.%.*s%s", sign, -exp - 1, "0000", digits);
    else if (n <= exp + 1)
        snprintf(out, sizeof out, "%s%s%.*s.0", sign, digits, exp + 1 - n, "0000000000000000");
    else
        snprintf(out, sizeof out, "%s%.*s.%s", sign, exp + 1, digits, digits + exp + 1);
    jout_add(c, o, out, strlen(out), J_DATA);
}

static void put(struct jinja_ctx *c, struct jout *o, const char *s)
{
    jout_add(c, o, s, strlen(s), J_OWN);
}

/* As Python quotes; characters that it takes for unprintable are those that are control characters in Latin-1. */
static void repr_str(struct jinja_ctx *c, struct jout *o, const struct jstr *s)
{
    bool single = memchr(s->s, '\'', s->n), twice = memchr(s->s, '"', s->n);
    const char *quote = single && !twice ? "\"" : "'";
    enum jorigin edge = s->origin == J_OWN ? J_OWN : J_DATA;
    char esc[16];
    jout_add(c, o, quote, 1, edge);
    for (size_t i = 0, k; i < s->n; i += k) {
        uint32_t cp = jstr_char(s, i, &k);
        enum jorigin from = jstr_origin_at(s, i);
        esc[0] = 0;
        if (cp == '\n' || cp == '\t' || cp == '\r')
            snprintf(esc, sizeof esc, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : 'r');
        else if (cp == '\\' || cp == (uint8_t)*quote)
            snprintf(esc, sizeof esc, "\\%c", (char)cp);
        else if (cp < 0x20 || (cp >= 0x7f && cp <= 0xa0) || cp == 0xad)
            snprintf(esc, sizeof esc, "\\x%02x", cp);
        jout_add(c, o, esc[0] ? esc : s->s + i, esc[0] ? strlen(esc) : k, from);
    }
    jout_add(c, o, quote, 1, edge);
}

static void repr_list(struct jinja_ctx *c, struct jout *o, const struct jlist *l)
{
    if (l->kind == J_KIND_ITER) {
        put(c, o, "<generator object>");
        return;
    }
    put(c, o, l->kind == J_KIND_TUPLE ? "(" : l->kind == J_KIND_VIEW ? "dict_items([" : "[");
    for (uint32_t i = 0; i < l->n; i++) {
        put(c, o, i ? ", " : "");
        jval_repr(c, o, l->v[i]);
    }
    put(c, o, l->kind == J_KIND_TUPLE ? l->n == 1 ? ",)" : ")" : l->kind == J_KIND_VIEW ? "])" : "]");
}

static void repr_dict(struct jinja_ctx *c, struct jout *o, const struct jdict *d)
{
    put(c, o, "{");
    for (uint32_t i = 0; i < d->n; i++) {
        put(c, o, i ? ", " : "");
        jval_repr(c, o, d->k[i]);
        put(c, o, ": ");
        jval_repr(c, o, d->v[i]);
    }
    put(c, o, "}");
}

void jval_repr(struct jinja_ctx *c, struct jout *o, struct jval v)
{
    char t[32];
    jinja_step(c, 1);
    jinja_enter(c);
    switch (v.t) {
    case J_UNDEFINED: put(c, o, "Undefined"); break;
    case J_NONE: put(c, o, "None"); break;
    case J_BOOL: put(c, o, v.b ? "True" : "False"); break;
    case J_INT:
        jout_add(c, o, t, (size_t)snprintf(t, sizeof t, "%lld", (long long)v.i), J_DATA);
        break;
    case J_FLOAT: jinja_put_float(c, o, v.f); break;
    case J_STR: repr_str(c, o, v.s); break;
    case J_LIST: repr_list(c, o, v.l); break;
    case J_DICT: repr_dict(c, o, v.d); break;
    default:
        put(c, o, "<");
        put(c, o, jval_type(v));
        put(c, o, ">");
    }
    c->depth--;
}

const struct jstr *jval_text(struct jinja_ctx *c, struct jval v)
{
    if (v.t == J_STR)
        return v.s;
    if (v.t == J_UNDEFINED)
        return jstr_lit(c, "");
    struct jout o = jout_begin();
    jval_repr(c, &o, v);
    return jout_end(c, &o);
}
