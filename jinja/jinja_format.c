/* '%s' % args and '{}'.format(args): the conversions that text needs (Python's library reference, "printf-style
 * String Formatting" and "Format String Syntax"). */
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja_impl.h"

struct spec {
    char fill[5], align, sign, type;
    bool alt, zero, comma, has_precision;
    uint32_t width, precision;
};

enum { MAX_WIDTH = 100000 };

static void pad(struct jinja_ctx *c, struct jout *o, const char *fill, size_t n)
{
    jinja_step(c, n / 16);
    for (size_t i = 0; i < n; i++)
        jout_add(c, o, fill, strlen(fill), J_OWN);
}

static void put_padded(struct jinja_ctx *c, struct jout *o, const struct spec *sp, const struct jstr *s, char align)
{
    size_t n = jstr_len(c, s), room = sp->width > n ? sp->width - n : 0;
    const char *fill = sp->fill[0] ? sp->fill : " ";
    size_t left = align == '>' ? room : align == '^' ? room / 2 : 0;
    pad(c, o, fill, left);
    jout_str(c, o, s);
    pad(c, o, fill, room - left);
}

/* ,: a comma after each three digits from the left of `digits`, which may go on with a fraction */
static size_t with_commas(char *to, size_t cap, const char *digits)
{
    size_t n = strspn(digits, "0123456789"), k = 0;
    for (size_t i = 0; digits[i] && k + 2 < cap; i++) {
        if (i && i < n && (n - i) % 3 == 0)
            to[k++] = ',';
        to[k++] = digits[i];
    }
    to[k] = 0;
    return k;
}

static void put_number(struct jinja_ctx *c, struct jout *o, const struct spec *sp, struct jval v, char type)
{
    char t[512], grouped[700];
    const char *sign = sp->sign == '+' ? "+" : sp->sign == ' ' ? " " : "";
    int64_t i = 0;
    double f = 0;
    if (strchr("dxXob", type)) {
        if (v.t == J_FLOAT)
            i = (int64_t)v.f;
        else
            jval_as_int(v, &i);
        uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
        if (i < 0)
            sign = "-";
        if (type == 'b') {
            int n = 0;
            for (int b = u ? 63 - __builtin_clzll(u) : 0; b >= 0; b--)
                t[n++] = (char)('0' + (u >> b & 1));
            t[n] = 0;
        } else {
            snprintf(t, sizeof t, type == 'd' ? "%llu" : type == 'x' ? "%llx" : type == 'X' ? "%llX" : "%llo",
                     (unsigned long long)u);
        }
    } else {
        jval_number(v, &f);
        int prec = sp->has_precision ? (int)MIN(sp->precision, 60u) : 6;
        double a = f < 0 ? -f : f;
        if (__builtin_signbit(f))
            sign = "-";
        char form[] = { '%', '.', '*', type == '%' ? 'f' : type, 0 };
        if (snprintf(t, sizeof t, form, prec, type == '%' ? a * 100 : a) >= (int)sizeof t)
            jinja_fail(c, -E2BIG, "a number of more than %zu digits", sizeof t);
        if (type == '%')
            strcat(t, "%");
    }
    const char *digits = t;
    if (sp->comma) {
        with_commas(grouped, sizeof grouped, t);
        digits = grouped;
    }
    struct jout n = jout_begin();
    size_t used = strlen(sign) + strlen(digits);
    jout_add(c, &n, sign, strlen(sign), J_DATA);
    if (sp->zero && !sp->align && sp->width > used)
        pad(c, &n, "0", sp->width - used);
    jout_add(c, &n, digits, strlen(digits), J_DATA);
    put_padded(c, o, sp, jout_end(c, &n), sp->align ? sp->align : '>');
}

static void put_text(struct jinja_ctx *c, struct jout *o, const struct spec *sp, const struct jstr *s, char align)
{
    if (sp->has_precision)
        s = jstr_sub(c, s, 0, jstr_offset(s, 0, sp->precision));
    put_padded(c, o, sp, s, sp->align ? sp->align : align);
}

static uint32_t digits(struct jinja_ctx *c, const struct jstr *s, size_t *at)
{
    uint32_t v = 0;
    for (; *at < s->n && s->s[*at] >= '0' && s->s[*at] <= '9'; (*at)++) {
        v = v * 10 + (uint32_t)(s->s[*at] - '0');
        if (v > MAX_WIDTH)
            jinja_fail(c, -E2BIG, "a width beyond %d in a format", MAX_WIDTH);
    }
    return v;
}

static const struct jstr *repr(struct jinja_ctx *c, struct jval v)
{
    struct jout o = jout_begin();
    jval_repr(c, &o, v);
    return jout_end(c, &o);
}

/* ---- % ---- */

const struct jstr *jinja_percent(struct jinja_ctx *c, const struct jstr *s, struct jval args)
{
    struct jout o = jout_begin();
    bool tuple = args.t == J_LIST && args.l->kind == J_KIND_TUPLE, named = false;
    uint32_t next = 0, n = tuple ? args.l->n : 1;
    for (size_t i = 0; i < s->n;) {
        const char *p = memchr(s->s + i, '%', s->n - i);
        size_t at = p ? (size_t)(p - s->s) : s->n;
        jout_str(c, &o, jstr_sub(c, s, i, at));
        if (!p)
            break;
        i = at + 1;
        struct spec sp = { 0 };
        struct jval v = jval_none();
        bool key = i < s->n && s->s[i] == '(';
        if (key) {
            const char *end = memchr(s->s + i, ')', s->n - i);
            if (!end || args.t != J_DICT)
                jinja_fail(c, -EINVAL, "a format with names wants ')' and a dict");
            v = jinja_getitem(c, args, jval_str(jstr_sub(c, s, i + 1, (size_t)(end - s->s))));
            i = (size_t)(end - s->s) + 1;
            named = true;
        }
        for (; i < s->n && strchr("-+ 0#", s->s[i]) && s->s[i]; i++) {
            sp.align = s->s[i] == '-' ? '<' : sp.align;
            sp.sign = s->s[i] == '+' || (s->s[i] == ' ' && !sp.sign) ? s->s[i] : sp.sign;
            sp.zero |= s->s[i] == '0';
        }
        sp.width = digits(c, s, &i);
        if (i < s->n && s->s[i] == '.') {
            i++;
            sp.has_precision = true;
            sp.precision = digits(c, s, &i);
        }
        char type = i < s->n ? s->s[i++] : 0;
        if (type == '%') {
            jout_add(c, &o, "%", 1, jstr_origin_at(s, at));
            continue;
        }
        if (!key) {
            if (next >= n)
                jinja_fail(c, -EINVAL, "a format has more places than there are values");
            v = tuple ? args.l->v[next] : args;
            next++;
        }
        double f;
        if (type == 's' || type == 'r' || type == 'a') {
            put_text(c, &o, &sp, type == 's' ? jval_text(c, v) : repr(c, v), '>');
        } else if (strchr("diuxXofFeEgG", type) && type) {
            if (!jval_number(v, &f))
                jinja_fail(c, -EINVAL, "%%%c wants a number, not %s", type, jval_type(v));
            put_number(c, &o, &sp, v, type == 'i' || type == 'u' ? 'd' : type);
        } else {
            jinja_fail(c, -EINVAL, "a format has no conversion '%%%c'", type ? type : '?');
        }
    }
    if (!named && next < n && args.t != J_DICT)
        jinja_fail(c, -EINVAL, "a format has fewer places than there are values");
    return jout_end(c, &o);
}

/* ---- format ---- */

static struct spec read_spec(struct jinja_ctx *c, const struct jstr *s)
{
    struct spec sp = { 0 };
    size_t i = 0, k = 0;
    if (s->n)
        jstr_char(s, 0, &k);
    if (k && k < s->n && strchr("<>^", s->s[k]) && s->s[k] && k < sizeof sp.fill) {
        memcpy(sp.fill, s->s, k);
        sp.align = s->s[k];
        i = k + 1;
    } else if (s->n && strchr("<>^", s->s[0]) && s->s[0]) {
        sp.align = s->s[i++];
    }
    if (i < s->n && strchr("+- ", s->s[i]) && s->s[i])
        sp.sign = s->s[i++];
    if (i < s->n && s->s[i] == '0') {
        sp.zero = true;
        i++;
    }
    sp.width = digits(c, s, &i);
    if (i < s->n && s->s[i] == ',') {
        sp.comma = true;
        i++;
    }
    if (i < s->n && s->s[i] == '.') {
        i++;
        sp.has_precision = true;
        sp.precision = digits(c, s, &i);
    }
    if (i < s->n)
        sp.type = s->s[i++];
    if (i < s->n)
        jinja_fail(c, -EINVAL, "format has no '%.*s'", (int)MIN(s->n, 40u), s->s);
    return sp;
}

static void put_formatted(struct jinja_ctx *c, struct jout *o, struct jval v, const struct jstr *spec)
{
    struct spec sp = read_spec(c, spec);
    double f;
    if (!spec->n) {
        jout_str(c, o, jval_text(c, v));
    } else if (sp.type == 's' || (!sp.type && !jval_number(v, &f))) {
        put_text(c, o, &sp, jval_text(c, v), '<');
    } else if (!jval_number(v, &f)) {
        jinja_fail(c, -EINVAL, "format '%c' wants a number, not %s", sp.type, jval_type(v));
    } else if (!sp.type && v.t == J_FLOAT && !sp.has_precision) {
        put_text(c, o, &sp, jval_text(c, v), '>');
    } else {
        char type = sp.type ? sp.type : v.t == J_FLOAT ? 'g' : 'd';
        if (!strchr("dxXobfFeEgG%", type) || (v.t == J_FLOAT && strchr("dxXob", type)))
            jinja_fail(c, -EINVAL, "format has no '%c' for %s", type, jval_type(v));
        put_number(c, o, &sp, v, type);
    }
}

/* The value that a field names: 0, name, a.b, a[0], or the next one. */
static struct jval field_value(struct jinja_ctx *c, struct jargs *a, const struct jstr *f, uint32_t *next)
{
    size_t i = 0;
    while (i < f->n && f->s[i] != '.' && f->s[i] != '[')
        i++;
    struct jstr *head = jstr_sub(c, f, 0, i);
    struct jval v;
    size_t d = 0;
    uint32_t k = digits(c, head, &d);
    if (d == head->n) {
        k = head->n ? k : (*next)++;
        if (k >= a->n)
            jinja_fail(c, -EINVAL, "format has no value for place %u", k);
        v = a->v[k];
    } else {
        char *name = jstr_z(c, head);
        if (!jargs_has(a, UINT32_MAX, name))
            jinja_fail(c, -EINVAL, "format has no value for '%.60s'", name);
        v = jargs_get(c, a, UINT32_MAX, name, jval_none());
    }
    while (i < f->n) {
        char close = f->s[i] == '[' ? ']' : 0;
        size_t from = ++i;
        while (i < f->n && (close ? f->s[i] != close : f->s[i] != '.' && f->s[i] != '['))
            i++;
        struct jstr *part = jstr_sub(c, f, from, i);
        i += close && i < f->n;
        d = 0;
        k = digits(c, part, &d);
        if (!close)
            v = jinja_getattr(c, v, part);
        else
            v = jinja_getitem(c, v, d == part->n && d ? jval_int(k) : jval_str(part));
    }
    return v;
}

const struct jstr *jinja_format(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    struct jout o = jout_begin();
    uint32_t next = 0;
    for (size_t i = 0; i < s->n;) {
        size_t at = i;
        while (i < s->n && s->s[i] != '{' && s->s[i] != '}')
            i++;
        jout_str(c, &o, jstr_sub(c, s, at, i));
        if (i >= s->n)
            break;
        if (i + 1 < s->n && s->s[i + 1] == s->s[i]) {
            jout_str(c, &o, jstr_sub(c, s, i, i + 1));
            i += 2;
            continue;
        }
        const char *end = s->s[i] == '{' ? memchr(s->s + i, '}', s->n - i) : NULL;
        if (!end)
            jinja_fail(c, -EINVAL, "a format has a brace by itself");
        size_t to = (size_t)(end - s->s), name = i + 1, stop = name;
        while (stop < to && s->s[stop] != '!' && s->s[stop] != ':')
            stop++;
        struct jval v = field_value(c, a, jstr_sub(c, s, name, stop), &next);
        if (stop < to && s->s[stop] == '!') {
            char how = stop + 1 < to ? s->s[stop + 1] : 0;
            if (how != 'r' && how != 's')
                jinja_fail(c, -EINVAL, "format has no conversion '!%c'", how ? how : '?');
            v = jval_str(how == 'r' ? repr(c, v) : jval_text(c, v));
            stop += 2;
        }
        put_formatted(c, &o, v, jstr_sub(c, s, MIN(stop + 1, to), to));
        i = to + 1;
    }
    return jout_end(c, &o);
}
