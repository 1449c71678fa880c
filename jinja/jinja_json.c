/* tojson as transformers has it: Python's json.dumps without ASCII escapes and HTML escapes, by default with ", "
 * and ": ". */
#include <math.h>
#include <stdio.h>

#include "jinja/jinja_impl.h"

struct dump {
    struct jinja_ctx *c;
    struct jout *o;
    bool ascii, sorted;
    const struct jstr *indent, *comma, *colon; /* indent NULL: all in one line */
    unsigned level;
};

static void put(struct dump *d, const char *s)
{
    jout_add(d->c, d->o, s, strlen(s), J_DATA);
}

static void line(struct dump *d)
{
    if (!d->indent)
        return;
    put(d, "\n");
    for (unsigned i = 0; i < d->level; i++)
        jout_add(d->c, d->o, d->indent->s, d->indent->n, J_DATA);
}

/* Of the template's own text the string stays its own; quotes and escapes are data. */
static void string(struct dump *d, const struct jstr *s)
{
    static const char names[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    char esc[16];
    size_t from = 0, k;
    put(d, "\"");
    for (size_t i = 0; i < s->n; i += k) {
        uint32_t cp = jstr_char(s, i, &k);
        const char *p = NULL;
        if (cp < 0x5d && (cp < 0x20 || cp == '"' || cp == '\\'))
            for (size_t n = 0; n < sizeof names - 1 && !p; n += 2)
                p = (uint8_t)names[n] == cp ? &names[n + 1] : NULL;
        if (p)
            snprintf(esc, sizeof esc, "\\%c", *p);
        else if (cp >= 0x10000 && d->ascii)
            snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                     0xdc00 + ((cp - 0x10000) & 0x3ff));
        else if (cp < 0x20 || (cp >= 0x7f && d->ascii && cp != 0x7f))
            snprintf(esc, sizeof esc, "\\u%04x", cp);
        else
            continue;
        jout_str(d->c, d->o, &(struct jstr){ .s = s->s + from, .mask = s->mask ? s->mask + from : NULL,
                                             .n = (uint32_t)(i - from), .origin = s->origin });
        put(d, esc);
        from = i + k;
    }
    jout_str(d->c, d->o, &(struct jstr){ .s = s->s + from, .mask = s->mask ? s->mask + from : NULL,
                                         .n = (uint32_t)(s->n - from), .origin = s->origin });
    put(d, "\"");
}

static void value(struct dump *d, struct jval v);

static void key(struct dump *d, struct jval k)
{
    struct jout o = jout_begin();
    if (k.t == J_STR) {
        string(d, k.s);
        return;
    }
    if (k.t == J_LIST)
        jinja_fail(d->c, -EINVAL, "tojson: a %s cannot be a key", jval_type(k));
    struct dump own = *d;
    own.o = &o;
    value(&own, k);
    string(d, jout_end(d->c, &o));
}

static void list(struct dump *d, const struct jlist *l)
{
    if (!l->n) {
        put(d, "[]");
        return;
    }
    put(d, "[");
    d->level++;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            jout_add(d->c, d->o, d->comma->s, d->comma->n, J_DATA);
        line(d);
        value(d, l->v[i]);
    }
    d->level--;
    line(d);
    put(d, "]");
}

static void dict(struct dump *d, const struct jdict *v)
{
    struct jinja_ctx *c = d->c;
    if (!v->n) {
        put(d, "{}");
        return;
    }
    struct jval *order = (struct jval *)jinja_alloc_bytes(c, v->n * sizeof *order);
    struct jval *keys = (struct jval *)jinja_alloc_bytes(c, v->n * sizeof *keys);
    for (uint32_t i = 0; i < v->n; i++) {
        order[i] = jval_int(i);
        keys[i] = v->k[i];
    }
    if (d->sorted)
        jinja_sort(c, order, keys, v->n, false);
    put(d, "{");
    d->level++;
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            jout_add(c, d->o, d->comma->s, d->comma->n, J_DATA);
        line(d);
        key(d, v->k[order[i].i]);
        jout_add(c, d->o, d->colon->s, d->colon->n, J_DATA);
        value(d, v->v[order[i].i]);
    }
    d->level--;
    line(d);
    put(d, "}");
}

static void value(struct dump *d, struct jval v)
{
    char t[32];
    jinja_step(d->c, 1);
    jinja_enter(d->c);
    switch (v.t) {
    case J_NONE: put(d, "null"); break;
    case J_BOOL: put(d, v.b ? "true" : "false"); break;
    case J_INT:
        snprintf(t, sizeof t, "%lld", (long long)v.i);
        put(d, t);
        break;
    case J_FLOAT:
        if (isnan(v.f) || isinf(v.f))
            put(d, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
        else
            jinja_put_float(d->c, d->o, v.f);
        break;
    case J_STR: string(d, v.s); break;
    case J_LIST:
        if (v.l->kind <= J_KIND_TUPLE) {
            list(d, v.l);
            break;
        }
        /* fall through */
    default:
        if (v.t != J_DICT)
            jinja_fail(d->c, -EINVAL, "tojson: a %s has no JSON", jval_type(v));
        dict(d, v.d);
    }
    d->c->depth--;
}

struct jval jinja_tojson(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jout o = jout_begin();
    struct dump d = { .c = c, .o = &o };
    int64_t n;
    d.ascii = jargs_bool(c, a, 0, "ensure_ascii", false);
    struct jval indent = jargs_get(c, a, 1, "indent", jval_none()), sep = jargs_get(c, a, 2, "separators", jval_none());
    d.sorted = jargs_bool(c, a, 3, "sort_keys", false);
    jargs_end(c, a, "tojson", 4);
    if (indent.t == J_STR)
        d.indent = indent.s;
    else if (jval_as_int(indent, &n))
        d.indent = jinja_binary(c, JO_MUL, jval_str(jstr_lit(c, " ")), jval_int(MIN(n, 1000))).s;
    else if (indent.t != J_NONE)
        jinja_fail(c, -EINVAL, "tojson: indent is a number, not %s", jval_type(indent));
    d.comma = jstr_lit(c, d.indent ? "," : ", ");
    d.colon = jstr_lit(c, ": ");
    if (sep.t == J_LIST && sep.l->n == 2 && sep.l->v[0].t == J_STR && sep.l->v[1].t == J_STR) {
        d.comma = sep.l->v[0].s;
        d.colon = sep.l->v[1].s;
    } else if (sep.t != J_NONE) {
        jinja_fail(c, -EINVAL, "tojson: separators are two str, not %s", jval_type(sep));
    }
    value(&d, v);
    return jval_str(jout_end(c, &o));
}
