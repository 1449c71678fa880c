/* Ranges of numbers as rules over their digits. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

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
        if ((x < 0) != lower && !s->rc) {
            schema_loosen(s, -ENOTSUP, "%s: only bounds of up to 16 digits are supported", key);
            return;
        }
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
        schema_loosen(s, -ENOTSUP, "%s: only bounds of up to 20 decimals are supported", key);
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

/* ---- multiples ----------------------------------------------------------------------------------------- */

enum { MAX_LISTED = 512, MAX_MODULUS = 100, MAX_DIGITS = 15 };

/* The multiples of m between two bounds, one by one. */
static void put_list(struct schema *s, struct tok_buf *b, int64_t m, int64_t lo, int64_t hi)
{
    int64_t first = lo / m * m;
    const char *bar = "(";
    if (first < lo)
        first += m;
    if (first > hi)
        schema_fail(s, -EINVAL, "no multiple of %lld lies between the bounds", (long long)m);
    for (; first <= hi && !s->rc; first += m, bar = " | ")
        schema_put(s, b, "%s\"%lld\"", bar, (long long)first);
    schema_put(s, b, ")");
}

/* Can up to `left` more digits make the remainder zero? */
static bool can_vanish(uint32_t m, uint32_t r, uint32_t left)
{
    for (uint32_t span = 1; left-- > 0 && span <= m;) {
        span *= 10;
        if (r * span % m == 0 || r * span % m + span > m)
            return true;
    }
    return r == 0;
}

/* What may follow digits that leave the remainder r, when `left` more may come: a rule for each. */
static void put_remainders(struct schema *s, struct tok_buf *b, uint32_t m, const char *sign)
{
    uint32_t first = s->n_rules + 1;
    schema_claim_rules(s, m * MAX_DIGITS);
    for (uint32_t left = 0; left < MAX_DIGITS; left++) {
        for (uint32_t r = 0; r < m && !s->rc; r++) {
            const char *bar = r ? "" : " | ";
            if (!can_vanish(m, r, left))
                continue;
            schema_put(s, &s->rules, "%s-%u ::= %s", s->prefix, first + left * m + r, r ? "" : "\"\"");
            for (uint32_t d = 0; d < 10 && left; d++) {
                if (!can_vanish(m, (10 * r + d) % m, left - 1))
                    continue;
                schema_put(s, &s->rules, "%s\"%u\" %s-%u", bar, d, s->prefix, first + (left - 1) * m + (10 * r + d) % m);
                bar = " | ";
            }
            schema_put(s, &s->rules, "\n");
        }
    }
    schema_put(s, b, "(\"0\" | %s(", sign);
    for (uint32_t d = 1; d < 10; d++)
        schema_put(s, b, "%s\"%u\" %s-%u", d > 1 ? " | " : "", d, s->prefix, first + (MAX_DIGITS - 1) * m + d % m);
    schema_put(s, b, "))");
}

/* Numbers with at most so many decimals; 0: multipleOf is no power of ten below one. */
static int decimals_of(double m)
{
    double x = 1;
    for (int k = 1; k <= 9; k++) {
        x /= 10;
        if (fabs(m - x) < x * 1e-9)
            return k;
    }
    return 0;
}

/* A bound in units of 10^-decimals, inside; a bound that is not there: none. */
static int64_t inner_scaled(const struct bound *d, bool lower, int decimals, int64_t none)
{
    int64_t x = d->whole;
    if (!d->set || x > FREE_INTEGER / 1000000000)
        return none;
    const char *f = d->fraction;
    for (int i = 0; i < decimals; i++)
        x = 10 * x + (*f ? *f++ - '0' : 0);
    bool more = *f != 0; /* beyond what can be written */
    if (d->negative)
        return lower ? -x + (!more && d->excluded) : -x - (more || d->excluded);
    return lower ? x + (more || d->excluded) : x - (!more && d->excluded);
}

/* The multiples of m / 10^decimals between two bounds in units of 10^-decimals, one by one; false: too many. */
static bool put_scaled_list(struct schema *s, struct tok_buf *b, int64_t m, int decimals, int64_t lo, int64_t hi)
{
    int64_t first = lo / m * m, unit = 1;
    const char *bar = "(";
    if (first < lo)
        first += m;
    if ((double)(hi - lo) / (double)m > MAX_LISTED)
        return false;
    if (first > hi)
        schema_fail(s, -EINVAL, "no multiple of multipleOf lies between the bounds");
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    for (; first <= hi && !s->rc; first += m, bar = " | ") {
        int64_t size = first < 0 ? -first : first, rest = size % unit;
        int digits = decimals;
        schema_put(s, b, "%s\"%s%" PRId64, bar, first < 0 ? "-" : "", size / unit);
        for (; rest && rest % 10 == 0; digits--)
            rest /= 10;
        if (rest)
            schema_put(s, b, ".%0*" PRId64, digits, rest);
        schema_put(s, b, "\"");
    }
    schema_put(s, b, ")");
    return true;
}

/* m as a whole number of 10^-decimals; 0: it has more than nine decimals, or is too large. */
static int64_t scaled(double m, int *decimals)
{
    double x = m;
    for (*decimals = 0; *decimals <= 9; (*decimals)++, x = m * pow(10, *decimals))
        if (x >= 1 && x < 1e15 && fabs(x - round(x)) < 1e-9 * x)
            return (int64_t)round(x);
    return 0;
}

static bool put_multiple(struct schema *s, struct tok_buf *b, json_t *schema, bool integer)
{
    json_t *v = json_object_get(schema, "multipleOf");
    double m = json_number_value(v);
    if (!v || (integer && m == 1))
        return false;
    if (!json_is_number(v) || !(m > 0)) {
        schema_fail(s, -EINVAL, "multipleOf is not a number above zero");
        return true;
    }
    struct bound min = read_bound(s, schema, true), max = read_bound(s, schema, false);
    int64_t lo = inner_integer(&min, true, -FREE_INTEGER), hi = inner_integer(&max, false, FREE_INTEGER);
    int decimals, places = decimals_of(m);
    int64_t units = scaled(m, &decimals);
    if (s->rc || (places && integer))
        return s->rc;
    if (places && !min.set && !max.set) {
        schema_put_shared(s, b, SHARED_INTEGER);
        schema_put(s, b, " (\".\" [0-9]{1,%d})?", places);
        return true;
    }
    if (m == 1) {
        schema_put_integer(s, b, schema);
        return true;
    }
    if (m == floor(m) && m <= (double)FREE_INTEGER && min.set && max.set && (double)(hi - lo) / m <= MAX_LISTED) {
        put_list(s, b, (int64_t)m, lo, hi);
        return true;
    }
    if (m == floor(m) && m > 1 && m <= MAX_MODULUS && !max.set && (!min.set || lo == 0)) {
        put_remainders(s, b, (uint32_t)m, min.set ? "" : "\"-\"? ");
        return true;
    }
    int64_t least = inner_scaled(&min, true, decimals, INT64_MIN);
    int64_t most = inner_scaled(&max, false, decimals, INT64_MIN);
    if (units && !integer && least != INT64_MIN && most != INT64_MIN &&
        put_scaled_list(s, b, units, decimals, least, most))
        return true;
    if (places) { /* the bounds' rules, with so many decimals */
        s->decimals = places;
        return false;
    }
    schema_loosen(s, -ENOTSUP, "multipleOf %g with these bounds is not supported", m);
    return false;
}

void schema_put_integer(struct schema *s, struct tok_buf *b, json_t *schema)
{
    if (put_multiple(s, b, schema, true))
        return;
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

/* Sets of digits behind a point, as values 0.ddd, of which `left` may still be written. Each function appends one
 * alternative or a group and returns whether there is any; `some`: at least one digit must come. */

static bool put_free(struct schema *s, struct tok_buf *b, bool some, int left)
{
    if (left)
        schema_put(s, b, " [0-9]{%d,%d}", some, left);
    return left || !some;
}

/* Digits that are not all zero. */
static bool put_above_zero(struct schema *s, struct tok_buf *b, int left)
{
    if (!left)
        return false;
    schema_put(s, b, " ([1-9]");
    put_free(s, b, false, left - 1);
    if (left > 1) {
        schema_put(s, b, " | \"0\"");
        put_above_zero(s, b, left - 1);
    }
    schema_put(s, b, ")");
    return true;
}

static bool put_at_least(struct schema *s, struct tok_buf *b, const char *d, bool excluded, bool some, int left)
{
    struct tok_buf rest = { 0 };
    const char *bar = "";
    if (!*d)
        return excluded ? put_above_zero(s, b, left) : put_free(s, b, some, left);
    if (!left)
        return false;
    schema_put(s, b, " (");
    if (put_at_least(s, &rest, d + 1, excluded, false, left - 1)) {
        schema_put(s, b, "\"%c\"%.*s", *d, (int)rest.n, rest.s ? rest.s : "");
        bar = " | ";
    }
    if (*d < '9') {
        schema_put(s, b, "%s", bar);
        put_digit(s, b, (char)(*d + 1), '9');
        put_free(s, b, false, left - 1);
        bar = " | ";
    }
    schema_put(s, b, ")");
    tok_buf_finish(&rest);
    return *bar != 0;
}

static bool put_at_most(struct schema *s, struct tok_buf *b, const char *d, bool excluded, bool some, int left)
{
    if (!*d || !left) {
        bool any = *d ? !some : !excluded && left >= some;
        if (any && left)
            schema_put(s, b, " \"0\"{%d,%d}", some, left);
        return any;
    }
    struct tok_buf rest = { 0 };
    bool any = put_at_most(s, &rest, d + 1, excluded, false, left - 1);
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
        put_free(s, b, false, left - 1);
        bar = " | ";
    }
    schema_put(s, b, ")");
    tok_buf_finish(&rest);
    return *bar != 0;
}

/* lo.excluded and hi.excluded apply; the whole parts are equal. What it appends is of use where it returns true. */
static bool put_between(struct schema *s, struct tok_buf *b, const struct bound *lo, const struct bound *hi,
                        const char *l, const char *h, bool some, int left)
{
    char l0 = *l ? *l : '0', h0 = *h ? *h : '0';
    if (!*l && !lo->excluded)
        return put_at_most(s, b, h, hi->excluded, some, left);
    if ((!*l && !*h) || !left)
        return false;
    l += *l != 0;
    h += *h != 0;
    struct tok_buf rest = { 0 };
    const char *bar = "";
    bool any;
    if (l0 == h0) {
        any = put_between(s, &rest, lo, hi, l, h, false, left - 1);
        if (any)
            schema_put(s, b, " \"%c\"%.*s", l0, (int)rest.n, rest.s ? rest.s : "");
        tok_buf_finish(&rest);
        return any;
    }
    schema_put(s, b, " (");
    if (put_at_least(s, &rest, l, lo->excluded, false, left - 1)) {
        schema_put(s, b, "\"%c\"%.*s", l0, (int)rest.n, rest.s ? rest.s : "");
        bar = " | ";
    }
    if (l0 + 1 < h0) {
        schema_put(s, b, "%s", bar);
        put_digit(s, b, (char)(l0 + 1), (char)(h0 - 1));
        put_free(s, b, false, left - 1);
        bar = " | ";
    }
    rest.n = 0;
    if (put_at_most(s, &rest, h, hi->excluded, false, left - 1)) {
        schema_put(s, b, "%s\"%c\"%.*s", bar, h0, (int)rest.n, rest.s ? rest.s : "");
        bar = " | ";
    }
    schema_put(s, b, ")");
    tok_buf_finish(&rest);
    return *bar != 0;
}

/* Decimals that may follow a whole part up to this one: those that multipleOf leaves, and not more digits altogether than
 * a double keeps apart: 9.9999999999999999 would be read as 10, which is not below 10. */
static int decimals_behind(struct schema *s, int64_t whole)
{
    int digits = 0;
    for (; whole; whole /= 10)
        digits++;
    return MIN(s->decimals, MAX(15 - digits, 1));
}

/* One whole part with the fractions between lo and hi, either may be NULL: an alternative. */
static void put_whole(struct schema *s, struct tok_buf *b, const char **bar, int64_t whole, const struct bound *lo,
                      const struct bound *hi)
{
    struct tok_buf f = { 0 };
    int left = decimals_behind(s, whole);
    bool any, bare = (!lo || (!*lo->fraction && !lo->excluded)) && (!hi || *hi->fraction || !hi->excluded);
    if (lo && hi)
        any = put_between(s, &f, lo, hi, lo->fraction, hi->fraction, true, left);
    else if (lo)
        any = put_at_least(s, &f, lo->fraction, lo->excluded, true, left);
    else
        any = put_at_most(s, &f, hi->fraction, hi->excluded, true, left);
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
        schema_put(s, b, " (\".\" [0-9]{1,%d})?", hi ? decimals_behind(s, last) : s->decimals);
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
    s->decimals = 16;
    if (s->rc || put_multiple(s, b, schema, false))
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
    schema_put(s, b, "(");
    if (lo < 0) {
        const char *inner = "";
        struct bound near = hi < 0 || (hi == 0 && max.excluded) ? max : zero;
        put_magnitudes(s, &part, &inner, &near, min.set ? &min : NULL);
        if (*inner) {
            schema_put(s, b, "\"-\" (%.*s)", (int)part.n, part.s ? part.s : "");
            bar = " | ";
        }
    }
    if (hi > 0 || (hi == 0 && !max.excluded))
        put_magnitudes(s, b, &bar, lo >= 0 ? &min : &zero, max.set ? &max : NULL);
    if (!*bar)
        schema_impossible(s, "no number lies between the bounds");
    schema_put(s, b, ")");
    tok_buf_finish(&part);
}
