/* Regular expressions (ECMA-262, without look-around, references and word boundaries) as GBNF over the inside of a JSON
 * string: what JSON escapes is written escaped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar_impl.h"
#include "engine/json_schema_impl.h"

enum { MAX_RANGES = 512, MAX_NESTING = 40 };

struct ranges {
    uint32_t cp[2 * (MAX_RANGES + 2)], n;
};

struct regex {
    struct schema *s;
    struct tok_buf *b;
    const char *text, *at;
    uint32_t nesting;
};

static void unsupported(struct regex *r, const char *what)
{
    schema_fail(r->s, -ENOTSUP, "pattern: %s (at byte %zu) is not supported", what, (size_t)(r->at - r->text));
}

static void add_range(struct regex *r, struct ranges *set, uint32_t lo, uint32_t hi)
{
    if (set->n == MAX_RANGES) {
        schema_fail(r->s, -E2BIG, "pattern: a class of more than %d ranges", MAX_RANGES);
        return;
    }
    set->cp[2 * set->n] = lo;
    set->cp[2 * set->n++ + 1] = hi;
}

static void invert(struct ranges *set)
{
    struct ranges in = *set;
    in.n = ranges_normalize(in.cp, in.n);
    set->n = ranges_invert(in.cp, in.n, set->cp);
}

/* ---- sets of characters -------------------------------------------------------------------------------- */

static void put_code_point(struct regex *r, uint32_t cp)
{
    schema_put(r->s, r->b, "\\U%08X", cp);
}

/* A control character's two spellings are one: the short one where there is one. */
static void put_escaped(struct regex *r, uint32_t cp)
{
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    const char *p = cp ? strchr(from, (int)cp) : NULL;
    char text[8];
    if (p)
        snprintf(text, sizeof text, "\\%c", to[p - from]);
    else
        snprintf(text, sizeof text, "\\u%04x", cp);
    schema_put_literal(r->s, r->b, text, strlen(text));
}

/* Characters that JSON escapes, each an alternative; returns the ranges of the others. */
static void split_escaped(struct regex *r, const struct ranges *set, struct ranges *plain, const char **bar)
{
    static const uint32_t escaped[] = { '"', '\\' };
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t lo = set->cp[2 * i], hi = set->cp[2 * i + 1];
        for (uint32_t c = MAX(lo, 1u); c <= MIN(hi, 0x1fu); c++, *bar = " | ") { /* U+0000 is left out */
            schema_put(r->s, r->b, "%s", *bar);
            put_escaped(r, c);
        }
        lo = MAX(lo, 0x20u);
        for (size_t k = 0; k < ARRAY_LEN(escaped); k++)
            if (lo <= escaped[k] && escaped[k] <= hi) {
                schema_put(r->s, r->b, "%s", *bar);
                put_escaped(r, escaped[k]);
                *bar = " | ";
                if (lo < escaped[k])
                    add_range(r, plain, lo, escaped[k] - 1);
                lo = escaped[k] + 1;
            }
        if (lo < 0xd800 && lo <= hi)
            add_range(r, plain, lo, MIN(hi, 0xd7ffu));
        if (hi > 0xdfff)
            add_range(r, plain, MAX(lo, 0xe000u), hi);
    }
}

static void put_set(struct regex *r, struct ranges *set)
{
    struct ranges plain = { .n = 0 };
    const char *bar = "";
    set->n = ranges_normalize(set->cp, set->n);
    schema_put(r->s, r->b, "(");
    split_escaped(r, set, &plain, &bar);
    if (plain.n) {
        schema_put(r->s, r->b, "%s[", bar);
        for (uint32_t i = 0; i < plain.n; i++) {
            put_code_point(r, plain.cp[2 * i]);
            schema_put(r->s, r->b, "-");
            put_code_point(r, plain.cp[2 * i + 1]);
        }
        schema_put(r->s, r->b, "]");
    } else if (!*bar)
        schema_fail(r->s, -EINVAL, "pattern: an empty class (at byte %zu)", (size_t)(r->at - r->text));
    schema_put(r->s, r->b, ")");
}

/* The ranges of \d \w \s and their opposites; false: another escape. */
static bool add_class(struct regex *r, char c, struct ranges *set)
{
    static const uint32_t digit[] = { '0', '9' }, word[] = { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' },
                          space[] = { 9,      13,     0x20,   0x20,   0xa0,   0xa0,   0x1680, 0x1680, 0x2000, 0x200a,
                                      0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff };
    struct ranges in = { .n = 0 };
    const uint32_t *cp = strchr("dD", c) ? digit : strchr("wW", c) ? word : space;
    uint32_t n = cp == digit ? 1 : cp == word ? 4 : ARRAY_LEN(space) / 2;
    if (!c || !strchr("dDwWsS", c))
        return false;
    for (uint32_t i = 0; i < n; i++)
        add_range(r, &in, cp[2 * i], cp[2 * i + 1]);
    if (c < 'a')
        invert(&in);
    for (uint32_t i = 0; i < in.n; i++)
        add_range(r, set, in.cp[2 * i], in.cp[2 * i + 1]);
    return true;
}

static uint32_t take_hex(struct regex *r, int digits)
{
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const char *hex = "0123456789abcdef", *p = *r->at ? strchr(hex, *r->at | 32) : NULL;
        if (!p) {
            schema_fail(r->s, -EINVAL, "pattern: expected %d hexadecimal digits at byte %zu", digits,
                        (size_t)(r->at - r->text));
            return 0;
        }
        cp = cp << 4 | (uint32_t)(p - hex);
    }
    return cp;
}

/* Behind a backslash: one character. */
static uint32_t take_escape(struct regex *r)
{
    char c = *r->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x': return take_hex(r, 2);
    case 'u': return take_hex(r, 4);
    }
    if (c > ' ' && c < 127 && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z'))
        return (uint32_t)c;
    char what[] = "the escape \\?";
    what[sizeof what - 2] = c > ' ' && c < 127 ? c : '?';
    r->at -= c == 0;
    unsupported(r, what);
    return 0;
}

/* jansson has checked that the text is UTF-8. */
static uint32_t take_utf8(struct regex *r)
{
    uint8_t c = (uint8_t)*r->at++;
    unsigned n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t cp = n ? c & (0x3fu >> n) : c;
    for (; n && *r->at; n--)
        cp = cp << 6 | (*r->at++ & 63);
    return cp;
}

/* One end of a range in brackets; *is_class: it was \d or the like, and has been added. */
static uint32_t take_member(struct regex *r, struct ranges *set, bool *is_class)
{
    *is_class = false;
    if (*r->at != '\\')
        return take_utf8(r);
    r->at++;
    if (*r->at == 'b')
        return r->at++, '\b';
    *is_class = add_class(r, *r->at, set);
    if (*is_class)
        return r->at++, 0;
    return take_escape(r);
}

static void parse_brackets(struct regex *r)
{
    struct ranges set = { .n = 0 };
    bool inverted = *++r->at == '^';
    r->at += inverted;
    while (*r->at != ']' && !r->s->rc) {
        bool is_class, hi_class = false;
        if (!*r->at) {
            schema_fail(r->s, -EINVAL, "pattern: a class without its closing ]");
            return;
        }
        uint32_t lo = take_member(r, &set, &is_class), hi = lo;
        if (is_class)
            continue;
        if (*r->at == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            hi = take_member(r, &set, &hi_class);
            if (hi_class || hi < lo)
                schema_fail(r->s, -EINVAL, "pattern: a range that ends before it begins, at byte %zu",
                            (size_t)(r->at - r->text));
        }
        add_range(r, &set, lo, hi);
    }
    r->at += *r->at == ']';
    if (inverted)
        invert(&set);
    put_set(r, &set);
}

/* ---- expressions --------------------------------------------------------------------------------------- */

static void parse_alternatives(struct regex *r);

static void parse_group(struct regex *r)
{
    r->at++;
    if (*r->at == '?') {
        const char *name_end;
        if (r->at[1] == ':')
            r->at += 2;
        else if (r->at[1] == '<' && r->at[2] != '=' && r->at[2] != '!' && (name_end = strchr(r->at, '>')))
            r->at = name_end + 1;
        else {
            unsupported(r, "a look-around or an option (?...)");
            return;
        }
    }
    if (++r->nesting > MAX_NESTING) {
        schema_fail(r->s, -E2BIG, "pattern: groups nest deeper than %d", MAX_NESTING);
        return;
    }
    schema_put(r->s, r->b, "(");
    parse_alternatives(r);
    schema_put(r->s, r->b, ")");
    r->nesting--;
    if (*r->at != ')')
        schema_fail(r->s, -EINVAL, "pattern: a group without its closing )");
    else
        r->at++;
}

static void parse_atom(struct regex *r)
{
    struct ranges set = { .n = 0 };
    switch (*r->at) {
    case '(': parse_group(r); return;
    case '[': parse_brackets(r); return;
    case '^':
    case '$': unsupported(r, "an anchor inside"); return;
    case '*':
    case '+':
    case '?':
    case '{': schema_fail(r->s, -EINVAL, "pattern: nothing to repeat at byte %zu", (size_t)(r->at - r->text)); return;
    case '.':
        r->at++;
        add_range(r, &set, '\n', '\n');
        add_range(r, &set, '\r', '\r');
        add_range(r, &set, 0x2028, 0x2029);
        invert(&set);
        break;
    case '\\':
        r->at++;
        if (add_class(r, *r->at, &set)) {
            r->at++;
            break;
        }
        add_range(r, &set, 0, 0);
        set.cp[0] = set.cp[1] = take_escape(r);
        break;
    default: add_range(r, &set, 0, 0); set.cp[0] = set.cp[1] = take_utf8(r);
    }
    if (!r->s->rc)
        put_set(r, &set);
}

static void parse_quantifier(struct regex *r)
{
    char *end;
    if (*r->at && strchr("*+?", *r->at))
        schema_put(r->s, r->b, "%c", *r->at++);
    else if (*r->at == '{') {
        unsigned long min = strtoul(r->at + 1, &end, 10), max = min;
        bool ok = end > r->at + 1 && r->at[1] >= '0' && r->at[1] <= '9', open = ok && end[0] == ',' && end[1] == '}';
        if (open)
            end++;
        else if (ok && *end == ',') {
            const char *from = end + 1;
            ok = *from >= '0' && *from <= '9';
            max = strtoul(from, &end, 10);
        }
        if (!ok || *end != '}' || max < min || max > GRAMMAR_MAX_REPEAT) {
            unsupported(r, "this use of {");
            return;
        }
        schema_put(r->s, r->b, open ? "{%lu,}" : "{%lu,%lu}", min, max);
        r->at = end + 1;
    } else
        return;
    r->at += *r->at == '?'; /* lazy or not: the same texts */
}

static void parse_alternatives(struct regex *r)
{
    for (;; r->at++) {
        while (*r->at && *r->at != '|' && *r->at != ')' && !r->s->rc) {
            if (*r->at == '$' && r->nesting == 0 && (!r->at[1] || r->at[1] == '|'))
                break;
            parse_atom(r);
            parse_quantifier(r);
            schema_put(r->s, r->b, " ");
        }
        if (r->nesting == 0 || *r->at != '|' || r->s->rc)
            return;
        schema_put(r->s, r->b, "| ");
    }
}

/* Each alternative at the top has anchors of its own; where there is none, anything may come before or behind. */
void schema_put_pattern(struct schema *s, struct tok_buf *b, const char *regex)
{
    static const char any[] = "([^\"\\\\\\x00-\\x1f] | \"\\\\\" ";
    struct regex r = { s, b, regex, regex, 0 };
    schema_put(s, b, "(");
    for (;;) {
        if (*r.at == '^')
            r.at++;
        else {
            schema_put(s, b, "%s", any);
            schema_put_shared(s, b, SHARED_ESCAPE);
            schema_put(s, b, ")* ");
        }
        parse_alternatives(&r);
        if (*r.at == '$')
            r.at++;
        else {
            schema_put(s, b, "%s", any);
            schema_put_shared(s, b, SHARED_ESCAPE);
            schema_put(s, b, ")*");
        }
        if (*r.at != '|' || s->rc)
            break;
        r.at++;
        schema_put(s, b, " | ");
    }
    if (*r.at)
        schema_fail(s, -EINVAL, "pattern: unexpected %c at byte %zu", *r.at, (size_t)(r.at - regex));
    schema_put(s, b, ")");
}
