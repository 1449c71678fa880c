/* Filters that make text or numbers (templates documentation, "List of Builtin Filters"). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "jinja/jinja_impl.h"

static const struct jstr *text_arg(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name)
{
    struct jval v = jargs_get(c, a, i, name, jval_undefined(NULL, J_UNDEFINED));
    if (v.t == J_UNDEFINED)
        jinja_fail(c, -EINVAL, "argument '%s' is missing", name);
    return jval_text(c, v);
}

static struct jval f_trim(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval chars = jargs_get(c, a, 0, "chars", jval_none());
    jargs_end(c, a, "trim", 1);
    return jval_str(jinja_strip(c, jval_text(c, v), chars, true, true));
}

static struct jval f_upper(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "upper", 0);
    return jval_str(jinja_case(c, jval_text(c, v), J_UPPER));
}

static struct jval f_lower(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "lower", 0);
    return jval_str(jinja_case(c, jval_text(c, v), J_LOWER));
}

static struct jval f_title(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "title", 0);
    return jval_str(jinja_case(c, jval_text(c, v), J_TITLE_FILTER));
}

static struct jval f_capitalize(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "capitalize", 0);
    return jval_str(jinja_case(c, jval_text(c, v), J_CAPITALIZE));
}

static struct jval f_replace(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    const struct jstr *old = text_arg(c, a, 0, "old"), *by = text_arg(c, a, 1, "new");
    struct jval count = jargs_get(c, a, 2, "count", jval_none());
    int64_t max = -1;
    jargs_end(c, a, "replace", 3);
    if (count.t != J_NONE && !jval_as_int(count, &max))
        jinja_fail(c, -EINVAL, "argument 'count' is a number, not %s", jval_type(count));
    return jval_str(jinja_replace(c, jval_text(c, v), old, by, max));
}

static struct jval f_string(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "string", 0);
    return jval_str(jval_text(c, v));
}

static struct jval f_safe(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "safe", 0);
    const struct jstr *s = jval_text(c, v);
    struct jstr *r = jstr_sub(c, s, 0, s->n);
    r->markup = true;
    return jval_str(r);
}

static struct jval f_escape(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "escape", 0);
    return jval_str(jinja_escape(c, jval_text(c, v)));
}

static struct jval f_format(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval args;
    if (a->n && a->n_kw)
        jinja_fail(c, -EINVAL, "format takes values or names, not both");
    if (a->n_kw) {
        struct jdict *d = jdict_new(c, a->n_kw);
        for (uint32_t i = 0; i < a->n_kw; i++)
            jdict_set(c, d, jval_str(a->kw[i]), a->kw_v[i]);
        args = jval_dict(d);
    } else {
        struct jlist *l = jlist_new(c, a->n, J_KIND_TUPLE);
        for (uint32_t i = 0; i < a->n; i++)
            jlist_push(c, l, a->v[i]);
        args = jval_list(l);
    }
    return jval_str(jinja_percent(c, jval_text(c, v), args));
}

static struct jval f_indent(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval width = jargs_get(c, a, 0, "width", jval_int(4));
    bool first = jargs_bool(c, a, 1, "first", false), blank = jargs_bool(c, a, 2, "blank", false);
    const struct jstr *s = jval_text(c, v), *by;
    int64_t n;
    jargs_end(c, a, "indent", 3);
    if (width.t == J_STR) {
        by = width.s;
    } else if (jval_as_int(width, &n)) {
        by = jinja_binary(c, JO_MUL, jval_str(jstr_lit(c, " ")), jval_int(n)).s;
    } else {
        jinja_fail(c, -EINVAL, "argument 'width' is a number or str, not %s", jval_type(width));
    }
    struct jout o = jout_begin();
    for (size_t at = 0; at < s->n || (!at && first);) {
        const char *p = memchr(s->s + at, '\n', s->n - at);
        size_t end = p ? (size_t)(p - s->s) : s->n;
        if (at ? blank || end > at : first)
            jout_str(c, &o, by);
        jout_str(c, &o, jstr_sub(c, s, at, MIN(end + 1, (size_t)s->n)));
        at = end + 1;
    }
    if (blank && s->n && s->s[s->n - 1] == '\n')
        jout_str(c, &o, by);
    return jval_str(jout_end(c, &o));
}

static struct jval f_center(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    const struct jstr *s = jval_text(c, v);
    int64_t width = jargs_int(c, a, 0, "width", 80), n = (int64_t)jstr_len(c, s);
    jargs_end(c, a, "center", 1);
    if (width <= n)
        return jval_str(s);
    int64_t room = width - n, left = room / 2 + (room & width & 1); /* as Python rounds it */
    struct jout o = jout_begin();
    struct jval space = jval_str(jstr_lit(c, " "));
    jout_str(c, &o, jinja_binary(c, JO_MUL, space, jval_int(left)).s);
    jout_str(c, &o, s);
    jout_str(c, &o, jinja_binary(c, JO_MUL, space, jval_int(room - left)).s);
    return jval_str(jout_end(c, &o));
}

static struct jval f_truncate(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    const struct jstr *s = jval_text(c, v);
    int64_t length = jargs_int(c, a, 0, "length", 255), leeway;
    bool words = jargs_bool(c, a, 1, "killwords", false);
    const struct jstr *end = jval_text(c, jargs_get(c, a, 2, "end", jval_str(jstr_lit(c, "..."))));
    struct jval lw = jargs_get(c, a, 3, "leeway", jval_none());
    jargs_end(c, a, "truncate", 4);
    int64_t n = (int64_t)jstr_len(c, s), n_end = (int64_t)jstr_len(c, end);
    if (!jval_as_int(lw, &leeway))
        leeway = 5;
    if (length < n_end || leeway < 0)
        jinja_fail(c, -EINVAL, "truncate to %lld characters, fewer than its end has", (long long)length);
    if (n <= length + leeway)
        return jval_str(s);
    const struct jstr *cut = jstr_sub(c, s, 0, jstr_offset(s, 0, (size_t)(length - n_end)));
    for (size_t i = cut->n; !words && i-- > 0;) {
        if (cut->s[i] == ' ') {
            cut = jstr_sub(c, cut, 0, i);
            break;
        }
    }
    return jval_str(jstr_concat(c, cut, end));
}

static struct jval f_wordcount(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "wordcount", 0);
    return jval_int(jinja_split(c, jval_text(c, v), NULL, -1, false).l->n);
}

static struct jval f_urlencode(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    static const char hex[] = "0123456789ABCDEF";
    const struct jstr *s = jval_text(c, v);
    struct jout o = jout_begin();
    jargs_end(c, a, "urlencode", 0);
    jinja_step(c, s->n);
    for (size_t i = 0; i < s->n; i++) {
        uint8_t ch = (uint8_t)s->s[i];
        char e[3] = { '%', hex[ch >> 4], hex[ch & 15] };
        bool plain = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch && strchr("_.-~/", ch));
        jout_add(c, &o, plain ? s->s + i : e, plain ? 1 : 3, jstr_origin_at(s, i));
    }
    return jval_str(jout_end(c, &o));
}

/* ---- numbers ---- */

/* A str as Python's int() and float() read it; false: it is none. */
static bool parse_number(struct jinja_ctx *c, const struct jstr *s, int base, int64_t *i, double *f)
{
    s = jinja_strip(c, s, jval_none(), true, true);
    char *z = jstr_z(c, s), *end;
    if (!s->n || strlen(z) != s->n || strchr(z, '_') || (f && strpbrk(z, "xXpP")) || base < 0 || base == 1 ||
        base > 36)
        return false;
    errno = 0;
    if (i)
        *i = strtoll(z, &end, base);
    else
        *f = strtod(z, &end);
    return !*end && (f || !errno);
}

static struct jval f_int(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval otherwise = jargs_get(c, a, 0, "default", jval_int(0));
    int64_t base = jargs_int(c, a, 1, "base", 10), i;
    double f;
    jargs_end(c, a, "int", 2);
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (jval_as_int(v, &i))
        return jval_int(i);
    if (v.t == J_STR && base <= 36 && parse_number(c, v.s, (int)MAX(base, -1), &i, NULL))
        return jval_int(i);
    if (!(v.t == J_FLOAT || (v.t == J_STR && parse_number(c, v.s, 10, NULL, &f))))
        return otherwise;
    f = v.t == J_FLOAT ? v.f : f;
    return f > -9.2e18 && f < 9.2e18 ? jval_int((int64_t)f) : otherwise;
}

static struct jval f_float(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval otherwise = jargs_get(c, a, 0, "default", jval_float(0));
    double f;
    jargs_end(c, a, "float", 1);
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (jval_number(v, &f) || (v.t == J_STR && parse_number(c, v.s, 10, NULL, &f)))
        return jval_float(f);
    return otherwise;
}

static double number(struct jinja_ctx *c, struct jval v, const char *what)
{
    double f;
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_number(v, &f))
        jinja_fail(c, -EINVAL, "%s wants a number, not %s", what, jval_type(v));
    return f;
}

static struct jval f_abs(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    double f = number(c, v, "abs");
    jargs_end(c, a, "abs", 0);
    if (v.t == J_FLOAT)
        return jval_float(fabs(f));
    int64_t i = 0;
    jval_as_int(v, &i);
    return i < 0 ? jinja_binary(c, JO_SUB, jval_int(0), v) : jval_int(i);
}

static struct jval f_round(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    double f = number(c, v, "round");
    int64_t digits = jargs_int(c, a, 0, "precision", 0);
    const struct jstr *how = jval_text(c, jargs_get(c, a, 1, "method", jval_str(jstr_lit(c, "common"))));
    jargs_end(c, a, "round", 2);
    if (digits < -300 || digits > 300)
        jinja_fail(c, -EINVAL, "round to %lld digits", (long long)digits);
    double scale = pow(10, (double)digits);
    if (jstr_is(how, "ceil"))
        return jval_float(ceil(f * scale) / scale);
    if (jstr_is(how, "floor"))
        return jval_float(floor(f * scale) / scale);
    if (!jstr_is(how, "common"))
        jinja_fail(c, -EINVAL, "round knows 'common', 'ceil' and 'floor'");
    if (digits < 0)
        return jval_float(nearbyint(f * scale) / scale);
    char t[700];
    snprintf(t, sizeof t, "%.*f", (int)digits, f); /* rounds the exact value, to even where it lies between */
    struct jval r = jval_float(strtod(t, NULL));
    if (v.t != J_FLOAT) /* Python's round leaves an int one */
        return jval_int((int64_t)r.f);
    return r;
}

/* ---- JSON ---- */

static struct jval f_from_json(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    json_error_t je;
    bool no_memory;
    jargs_end(c, a, "from_json", 0);
    if (v.t != J_STR)
        jinja_fail(c, -EINVAL, "from_json wants a str, not %s", jval_type(v));
    jinja_step(c, v.s->n);
    json_t *j = json_read(v.s->s, v.s->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je, &no_memory);
    if (!j)
        jinja_fail(c, no_memory ? -ENOMEM : -EINVAL, "from_json: %.100s", no_memory ? "out of memory" : je.text);
    if (!c->parsed)
        c->parsed = json_array(); /* what values point into; it goes with the rendering */
    if (json_array_append_new(c->parsed, j))
        jinja_fail(c, -ENOMEM, "from_json: out of memory");
    return jval_from_json(c, j, v.s->origin == J_OWN ? J_OWN : J_DATA);
}

const struct jfilter jfilter_text_table[] = {
    { "trim", f_trim },         { "upper", f_upper },         { "lower", f_lower },
    { "title", f_title },       { "capitalize", f_capitalize }, { "replace", f_replace },
    { "string", f_string },     { "safe", f_safe },           { "escape", f_escape },
    { "e", f_escape },          { "forceescape", f_escape },  { "format", f_format },
    { "indent", f_indent },     { "center", f_center },       { "truncate", f_truncate },
    { "wordcount", f_wordcount }, { "urlencode", f_urlencode }, { "int", f_int },
    { "float", f_float },       { "abs", f_abs },             { "round", f_round },
    { "tojson", jinja_tojson }, { "from_json", f_from_json }, { NULL, NULL },
};
