/* Ranges of numbers as rules over their digits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/json_schema_impl.h"

#define FREE_INTEGER 9999999999999999ll /* the greatest whole part that is written */

/* ---- integers ------------------------------------------------------------------------------------------ */

static void put_any(struct schema *s, struct tok_buf *b, size_t digits)
{
    if (digits)
        schema_put(s, b, " [0-9]{%zu}", digits);
}

static void put_digit(struct schema *s, struct tok_buf *b, char lo, char hi)
{
    if (lo == hi)
        schema_put(s, b, "\"%c\"", lo);
    else
        schema_put(s, b, "[%c-%c]", lo, hi);
}

static bool all(const char *d, char c)
{
    return d[strspn(d, (char[]){ c, 0 })] == 0;
}

/* Digits of the same number as d that are at least, or at most, d. */
static void put_side(struct schema *s, struct tok_buf *b, const char *d, bool least)
{
    char end = least ? '9' : '0', free_from = least ? '0' : '9';
    if (!*d)
        return;
    if (all(d, free_from)) {
        put_any(s, b, strlen(d));
        return;
    }
    schema_put(s, b, " (\"%c\"", *d);
    put_side(s, b, d + 1, least);
    if (*d != end) {
        schema_put(s, b, " | ");
        put_digit(s, b, least ? (char)(*d + 1) : '0', least ? '9' : (char)(*d - 1));
        put_any(s, b, strlen(d) - 1);
    }
    schema_put(s, b, ")");
}

/* lo to hi, both with the same number of digits. */
static void put_same_length(struct schema *s, struct tok_buf *b, const char *lo, const char *hi)
{
    while (*lo && *lo == *hi) {
        schema_put(s, b, " \"%c\"", *lo);
        lo++, hi++;
    }
    if (!*lo)
        return;
    schema_put(s, b, " (\"%c\"", *lo);
    put_side(s, b, lo + 1, true);
    if (*lo + 1 < *hi) {
        schema_put(s, b, " | ");
        put_digit(s, b, (char)(*lo + 1), (char)(*hi - 1));
        put_any(s, b, strlen(lo) - 1);
    }
    schema_put(s, b, " | \"%c\"", *hi);
    put_side(s, b, hi + 1, false);
    schema_put(s, b, ")");
}

static void put_naturals(struct schema *s, struct tok_buf *b, uint64_t lo, uint64_t hi)
{
    const char *bar = "";
    schema_put(s, b, "(");
    while (lo <= hi && !s->rc) {
        char from[24], to[24];
        uint64_t end = 9;
        while (end < lo)
            end = end * 10 + 9;
        end = MIN(end, hi);
        snprintf(from, sizeof from, "%" PRIu64, lo);
        snprintf(to, sizeof to, "%" PRIu64, end);
        schema_put(s, b, "%s", bar);
        put_same_length(s, b, from, to);
        bar = " | ";
        lo = end + 1;
    }
    schema_put(s, b, ")");
}

/* ---- bounds -------------------------------------------------------------------------------------------- */

/* A bound as decimal digits: sign, whole part, and a fraction without zeros at its end. */
struct bound {
    bool set, negative, excluded;
    int64_t whole; /* without the sign */
    char fraction[32];
};

static void read_decimal(struct schema *s, json_t *v, const char *key, bool lower, struct bound *d)
{
    char text[400];
    double x = json_number_value(v);
    int digits = 0;
    *d = (struct bound){ .negative = x < 0 };
    if (fabs(x) > (double)FREE_INTEGER) {
        if ((x < 0) != lower && !s->rc)
            schema_fail(s, -ENOTSUP, "%s: only bounds of up to 16 digits are supported", key);
        d->set = true; /* further out than any number that is written here */
        d->whole = FREE_INTEGER;
        return;
    }
    if (json_is_integer(v))
        snprintf(text, sizeof text, "%lld", llabs((long long)json_integer_value(v)));
    else
        do
            snprintf(text, sizeof text, "%.*f", digits, fabs(x));
        while (strtod(text, NULL) != fabs(x) && digits++ < 20);
    char *dot = strchr(text, '.');
    if (digits > 20) {
        schema_fail(s, -ENOTSUP, "%s: only bounds of up to 20 decimals are supported", key);
        return;
    }
    d->set = true;
    d->whole = strtoll(text, NULL, 10);
    snprintf(d->fraction, sizeof d->fraction, "%s", dot ? dot + 1 : "");
    for (size_t n = strlen(d->fraction); n && d->fraction[n - 1] == '0';)
        d->fraction[--n] = 0;
}

static double signed_value(const struct bound *d)
{
    char text[64];
    snprintf(text, sizeof text, "%s%" PRId64 ".%s", d->negative ? "-" : "", d->whole, *d->fraction ? d->fraction : "0");
    return strtod(text, NULL);
}

/* minimum and exclusiveMinimum (a number, or as in older drafts a boolean), or the maximum's: the tighter one. */
static struct bound read_bound(struct schema *s, json_t *schema, bool lower)
{
    const char *key = lower ? "minimum" : "maximum", *ex_key = lower ? "exclusiveMinimum" : "exclusiveMaximum";
    json_t *v = json_object_get(schema, key), *ex = json_object_get(schema, ex_key);
    struct bound d = { 0 }, x = { 0 };
    if (v && !json_is_number(v))
        schema_fail(s, -EINVAL, "%s is not a number", key);
    if (ex && !json_is_number(ex) && !json_is_boolean(ex))
        schema_fail(s, -EINVAL, "%s is neither a number nor a boolean", ex_key);
    if (s->rc)
        return d;
    if (v)
        read_decimal(s, v, key, lower, &d);
    d.excluded = json_is_true(ex);
    if (!json_is_number(ex))
        return d;
    read_decimal(s, ex, ex_key, lower, &x);
    x.excluded = true;
    if (!d.set || !x.set)
        return x.set ? x : d;
    return lower == (signed_value(&x) >= signed_value(&d)) || signed_value(&x) == signed_value(&d) ? x : d;
}

/* The integer next to a bound, inside. */
static int64_t inner_integer(const struct bound *d, bool lower, int64_t none)
{
    if (!d->set)
        return none;
    int64_t whole = d->negative ? -d->whole : d->whole;
    bool fraction = *d->fraction != 0;
    if (fraction) /* whole is nearer to zero than the bound */
        return lower ? whole + !d->negative : whole - d->negative;
    return lower ? whole + d->excluded : whole - d->excluded;
}

void schema_put_integer(struct schema *s, struct tok_buf *b, json_t *schema)
{
    struct bound min = read_bound(s, schema, true), max = read_bound(s, schema, false);
    int64_t lo = inner_integer(&min, true, -FREE_INTEGER), hi = inner_integer(&max, false, FREE_INTEGER);
    if (s->rc)
        return;
    if (!min.set && !max.set) {
        schema_put_shared(s, b, SHARED_INTEGER);
        return;
    }
    if (lo > hi) {
        schema_fail(s, -EINVAL, "no integer lies between the bounds");
        return;
    }
    schema_put(s, b, "(");
    if (lo < 0) {
        schema_put(s, b, "\"-\" ");
        put_naturals(s, b, (uint64_t)MAX(1, -hi), (uint64_t)-lo);
    }
    if (hi >= 0) {
        schema_put(s, b, "%s", lo < 0 ? " | " : "");
        put_naturals(s, b, (uint64_t)MAX(0, lo), (uint64_t)hi);
    }
    schema_put(s, b, ")");
}

/* ---- fractions ----------------------------------------------------------------------------------------- */

/* Sets of digits behind a point, as values 0.ddd. Each function appends one alternative or a group and returns whether
 * there is any; `some`: at least one digit must come. */

static bool put_free(struct schema *s, struct tok_buf *b, bool some)
{
    schema_put(s, b, " [0-9]{%d,16}", some);
    return true;
}

static bool put_at_least(struct schema *s, struct tok_buf *b, const char *d, bool excluded, bool some)
{
    if (!*d && excluded)
        schema_put(s, b, " \"0\"{0,15} [1-9] [0-9]{0,15}");
    else if (!*d)
        put_free(s, b, some);
    else {
        schema_put(s, b, " (\"%c\"", *d);
        put_at_least(s, b, d + 1, excluded, false);
        if (*d < '9') {
            schema_put(s, b, " | ");
            put_digit(s, b, (char)(*d + 1), '9');
            put_free(s, b, false);
        }
        schema_put(s, b, ")");
    }
    return true;
}

static bool put_at_most(struct schema *s, struct tok_buf *b, const char *d, bool excluded, bool some)
{
    if (!*d) {
        if (!excluded)
            schema_put(s, b, " \"0\"{%d,16}", some);
        return !excluded;
    }
    struct tok_buf rest = { 0 };
    bool any = put_at_most(s, &rest, d + 1, excluded, false);
    const char *bar = "";
    schema_put(s, b, " (");
    if (!some) {
        schema_put(s, b, "\"\"");
        bar = " | ";
    }
    if (any) {
        schema_put(s, b, "%s\"%c\"%.*s", bar, *d, (int)rest.n, rest.s ? rest.s : "");
        bar = " | ";
    }
    if (*d > '0') {
        schema_put(s, b, "%s", bar);
        put_digit(s, b, '0', (char)(*d - 1));
        put_free(s, b, false);
        bar = " | ";
    }
    schema_put(s, b, ")");
    tok_buf_finish(&rest);
    return *bar != 0;
}

/* lo.excluded and hi.excluded apply; the whole parts are equal. */
static bool put_between(struct schema *s, struct tok_buf *b, const struct bound *lo, const struct bound *hi,
                        const char *l, const char *h, bool some)
{
    char l0 = *l ? *l : '0', h0 = *h ? *h : '0';
    if (!*l && !lo->excluded)
        return put_at_most(s, b, h, hi->excluded, some);
    if (!*l && !*h)
        return false;
    l += *l != 0;
    h += *h != 0;
    struct tok_buf rest = { 0 };
    bool any;
    if (l0 == h0) {
        any = put_between(s, &rest, lo, hi, l, h, false);
        if (any)
            schema_put(s, b, " \"%c\"%.*s", l0, (int)rest.n, rest.s ? rest.s : "");
        tok_buf_finish(&rest);
        return any;
    }
    schema_put(s, b, " (\"%c\"", l0);
    put_at_least(s, b, l, lo->excluded, false);
    if (l0 + 1 < h0) {
        schema_put(s, b, " | ");
        put_digit(s, b, (char)(l0 + 1), (char)(h0 - 1));
        put_free(s, b, false);
    }
    if (put_at_most(s, &rest, h, hi->excluded, false))
        schema_put(s, b, " | \"%c\"%.*s", h0, (int)rest.n, rest.s ? rest.s : "");
    schema_put(s, b, ")");
    tok_buf_finish(&rest);
    return true;
}

/* One whole part with the fractions between lo and hi, either may be NULL: an alternative. */
static void put_whole(struct schema *s, struct tok_buf *b, const char **bar, int64_t whole, const struct bound *lo,
                      const struct bound *hi)
{
    struct tok_buf f = { 0 };
    bool any, bare = (!lo || (!*lo->fraction && !lo->excluded)) && (!hi || *hi->fraction || !hi->excluded);
    if (lo && hi)
        any = put_between(s, &f, lo, hi, lo->fraction, hi->fraction, true);
    else if (lo)
        any = put_at_least(s, &f, lo->fraction, lo->excluded, true);
    else
        any = put_at_most(s, &f, hi->fraction, hi->excluded, true);
    if (any || bare) {
        schema_put(s, b, "%s\"%" PRId64 "\"", *bar, whole);
        *bar = " | ";
    }
    if (any)
        schema_put(s, b, " (\".\"%.*s)%s", (int)f.n, f.s ? f.s : "", bare ? "?" : "");
    tok_buf_finish(&f);
}

/* Numbers from lo to hi, both without sign; hi NULL: no end. */
static void put_magnitudes(struct schema *s, struct tok_buf *b, const char **bar, const struct bound *lo,
                           const struct bound *hi)
{
    int64_t last = hi ? hi->whole - 1 : FREE_INTEGER;
    if (hi && lo->whole == hi->whole) {
        put_whole(s, b, bar, lo->whole, lo, hi);
        return;
    }
    put_whole(s, b, bar, lo->whole, lo, NULL);
    if (lo->whole + 1 <= last) {
        schema_put(s, b, "%s", *bar);
        put_naturals(s, b, (uint64_t)lo->whole + 1, (uint64_t)last);
        schema_put(s, b, " (\".\" [0-9]{1,16})?");
        *bar = " | ";
    }
    if (hi)
        put_whole(s, b, bar, hi->whole, NULL, hi);
}

void schema_put_number(struct schema *s, struct tok_buf *b, json_t *schema)
{
    struct bound min = read_bound(s, schema, true), max = read_bound(s, schema, false), zero = { .set = true };
    const char *bar = "";
    struct tok_buf part = { 0 };
    if (s->rc)
        return;
    if (!min.set && !max.set) {
        schema_put_shared(s, b, SHARED_NUMBER);
        return;
    }
    double lo = min.set ? signed_value(&min) : -INFINITY, hi = max.set ? signed_value(&max) : INFINITY;
    if (lo > hi || (lo == hi && (min.excluded || max.excluded))) {
        schema_fail(s, -EINVAL, "no number lies between the bounds");
        return;
    }
    if (lo < 0) {
        const char *inner = "";
        struct bound near = hi < 0 || (hi == 0 && max.excluded) ? max : zero;
        put_magnitudes(s, &part, &inner, &near, min.set ? &min : NULL);
        schema_put(s, b, "(\"-\" (%.*s)", (int)part.n, part.s ? part.s : "");
        bar = " | ";
    } else
        schema_put(s, b, "(");
    if (hi > 0 || (hi == 0 && !max.excluded))
        put_magnitudes(s, b, &bar, lo >= 0 ? &min : &zero, max.set ? &max : NULL);
    schema_put(s, b, ")");
    tok_buf_finish(&part);
}
