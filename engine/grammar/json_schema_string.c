/* Strings of a JSON schema: what pattern, format, length and `not` leave, as one set of strings, and how its characters
 * are written in each syntax. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

/* The year 0000 is a date by RFC 3339, but few calendars of programming languages have it. */
#define DATE                                                                                                           \
    "(?!0000)[0-9]{4}-(?:02-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|(?:0[13578]|1[02])-(?:0[1-9]|"      \
    "[12][0-9]|3[01]))"
#define TIME                                                                                                           \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

/* The formats that have a pattern; all others say nothing about a string. */
static const char *format_pattern(const char *format)
{
    static const struct {
        const char *format, *pattern;
    } known[] = {
        { "date", "^" DATE "$" },
        { "time", "^" TIME "$" },
        { "date-time", "^" DATE "T" TIME "$" },
        { "uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
        { "email", "^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@" LABEL "(?:\\." LABEL ")*\\.[A-Za-z]{2,24}$" },
        { "ipv4", "^" BYTE "\\." BYTE "\\." BYTE "\\." BYTE "$" },
    };
    for (size_t i = 0; format && i < ARRAY_LEN(known); i++)
        if (!strcmp(known[i].format, format))
            return known[i].pattern;
    return NULL;
}

/* ---- what a schema leaves ------------------------------------------------------------------------------ */

/* Of *set, which is freed, what is also (minus: not) in `other`, which is freed too. rc: of making `other`. */
void schema_narrow(struct schema *s, struct strings *set, struct strings *other, int rc, bool minus, const char *what)
{
    struct strings both = { 0 };
    if (!rc)
        rc = minus ? strings_minus(set, other, &both) : strings_both(set, other, &both);
    if (rc == -E2BIG) {
        schema_loosen(s, rc, "%s: a set of strings with more than %d states", what, STRINGS_MAX_STATES);
    } else if (rc) {
        schema_fail(s, rc, "out of memory");
    } else {
        strings_finish(set);
        *set = both;
        both = (struct strings){ 0 };
    }
    strings_finish(&both);
    strings_finish(other);
}

static void narrow_by_pattern(struct schema *s, struct strings *set, json_t *pattern, bool minus)
{
    struct strings other = { 0 };
    char why[160];
    if (!json_is_string(pattern)) {
        schema_fail(s, -EINVAL, "pattern is not a string");
        return;
    }
    int rc = schema_pattern(json_string_value(pattern), &s->work, &other, why);
    if (rc == -ENOTSUP || rc == -E2BIG)
        schema_loosen(s, rc, "%s", why);
    else if (rc)
        schema_fail(s, rc, "%s", why);
    else
        schema_narrow(s, set, &other, 0, minus, "pattern");
}

void schema_narrow_by_list(struct schema *s, struct strings *set, json_t *values, bool minus)
{
    const char **text = calloc(json_array_size(values) + 1, sizeof *text);
    struct strings other = { 0 };
    size_t i, n = 0;
    json_t *v;
    json_array_foreach(values, i, v)
        if (text && json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
            text[n++] = json_string_value(v);
    schema_narrow(s, set, &other, text ? strings_list(text, n, &other) : -ENOMEM, minus, "enum");
    free(text);
}

static void narrow_by_length(struct schema *s, struct strings *set, json_t *flat)
{
    uint64_t min = schema_count(s, flat, "minLength", 0), max = schema_count(s, flat, "maxLength", UINT64_MAX);
    struct strings other = { 0 };
    if (min > 0 || max != UINT64_MAX)
        schema_narrow(s, set, &other, strings_length(min, max, &other), false, "minLength, maxLength");
}

bool schema_strings(struct schema *s, json_t *flat, struct strings *set)
{
    json_t *pattern = json_object_get(flat, "pattern"), *v, *more;
    const char *format = format_pattern(json_string_value(json_object_get(flat, "format")));
    struct strings other = { 0 };
    char why[160];
    size_t i;
    bool length = json_object_get(flat, "minLength") || json_object_get(flat, "maxLength"), any = pattern || format;
    int rc = strings_length(0, UINT64_MAX, set);
    if (rc)
        schema_fail(s, rc, "out of memory");
    if (pattern)
        narrow_by_pattern(s, set, pattern, false);
    json_array_foreach(json_object_get(flat, "$patterns"), i, v)
        narrow_by_pattern(s, set, v, false);
    if (format && !s->rc)
        schema_narrow(s, set, &other, schema_pattern(format, &s->work, &other, why), false, "format");
    json_array_foreach(json_object_get(flat, "$not"), i, v) {
        if ((more = json_object_get(v, "pattern"))) {
            narrow_by_pattern(s, set, more, true);
            any = true;
        } else if (json_array_size(json_object_get(v, "enum"))) {
            schema_narrow_by_list(s, set, json_object_get(v, "enum"), true);
            any = true;
        }
    }
    if (any && length)
        narrow_by_length(s, set, flat);
    if (!s->rc && !set->n_states)
        schema_impossible(s, "no string satisfies all of it");
    return any;
}

/* ---- characters ---------------------------------------------------------------------------------------- */

/* Those below 0x20 whose long escape \u00XX is needed: X by X. */
static void put_long_escapes(struct schema *s, struct tok_buf *b, uint32_t set, const char **bar)
{
    for (unsigned high = 0; high < 2; high++) {
        if (!(set >> 16 * high & 0xffff))
            continue;
        schema_put(s, b, "%s\"\\\\u00%u\" [", *bar, high);
        for (unsigned low = 0; low < 16; low++)
            if (set >> (16 * high + low) & 1)
                schema_put(s, b, "%x", low);
        schema_put(s, b, "]");
        *bar = " | ";
    }
}

/* Inside of a JSON string: each character in one spelling, escaped where it has to be. */
static void put_json_escapes(struct schema *s, struct tok_buf *b, const struct strings_edge *e, uint32_t n,
                             const char **bar)
{
    static const char names[] = "\b\f\n\r\t\"\\";
    static const char *const escapes[] = { "b", "f", "n", "r", "t", "\\\"", "\\\\" };
    uint32_t low = 0, named = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t c = e[i].lo; c <= MIN(e[i].hi, 0x1fu); c++)
            low |= 1u << c;
        for (uint32_t k = 0; k < 7; k++)
            named |= (uint32_t)(e[i].lo <= (uint8_t)names[k] && (uint8_t)names[k] <= e[i].hi) << k;
    }
    for (uint32_t k = 0; k < 5; k++)
        low &= ~(1u << names[k]);
    if (named) {
        schema_put(s, b, "%s\"\\\\\" [", *bar);
        for (uint32_t k = 0; k < 7; k++)
            if (named >> k & 1)
                schema_put(s, b, "%s", escapes[k]);
        schema_put(s, b, "]");
        *bar = " | ";
    }
    put_long_escapes(s, b, low, bar);
}

static void put_range(struct schema *s, struct tok_buf *b, uint32_t lo, uint32_t hi, bool json)
{
    static const uint32_t cut[] = { '"', '\\' };
    if (json)
        lo = MAX(lo, 0x20u);
    for (size_t i = 0; i < ARRAY_LEN(cut) && json && lo <= hi; i++)
        if (lo <= cut[i] && cut[i] <= hi) {
            if (lo < cut[i])
                put_range(s, b, lo, cut[i] - 1, false);
            lo = cut[i] + 1;
        }
    if (lo == hi)
        schema_put(s, b, "\\U%08X", lo);
    else if (lo < hi)
        schema_put(s, b, "\\U%08X-\\U%08X", lo, hi);
}

/* One character out of these. */
static void put_characters(struct schema *s, struct tok_buf *b, const struct strings_edge *e, uint32_t n)
{
    struct tok_buf plain = { 0 };
    const char *bar = "";
    bool json = s->syntax == SCHEMA_JSON;
    schema_put(s, b, "(");
    if (json)
        put_json_escapes(s, b, e, n, &bar);
    for (uint32_t i = 0; i < n; i++)
        put_range(s, &plain, e[i].lo, e[i].hi, json);
    if (plain.n)
        schema_put(s, b, "%s[%.*s]", bar, (int)plain.n, plain.s);
    schema_put(s, b, ")");
    tok_buf_finish(&plain);
}

/* The edges of one state to `to`, which are not yet done. */
static uint32_t edges_to(const struct strings *set, uint32_t i, uint32_t to, struct strings_edge *out)
{
    const struct strings_state *st = &set->state[i];
    uint32_t n = 0;
    for (uint32_t k = 0; k < st->n; k++)
        if (set->edge[st->edge + k].to == to)
            out[n++] = set->edge[st->edge + k];
    return n;
}

static bool is_last(const struct strings *set, uint32_t i)
{
    return set->state[i].final && !set->state[i].n;
}

/* A rule for each state but those that only end. */
static void put_state(struct schema *s, const struct strings *set, uint32_t i, uint32_t first, struct strings_edge *e)
{
    const struct strings_state *st = &set->state[i];
    const char *bar = "";
    schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, first + i);
    for (uint32_t k = 0; k < st->n && !s->rc; k++) {
        uint32_t to = set->edge[st->edge + k].to;
        bool done = false;
        for (uint32_t j = 0; j < k && !done; j++)
            done = set->edge[st->edge + j].to == to;
        if (done)
            continue;
        schema_put(s, &s->rules, "%s", bar);
        put_characters(s, &s->rules, e, edges_to(set, i, to, e));
        if (!is_last(set, to))
            schema_put(s, &s->rules, " %s-%u", s->prefix, first + to);
        bar = " | ";
    }
    if (st->final)
        schema_put(s, &s->rules, "%s\"\"", bar);
    schema_put(s, &s->rules, "\n");
}

void schema_put_strings(struct schema *s, struct tok_buf *b, const struct strings *set)
{
    uint32_t first = s->n_rules + 1;
    struct strings_edge *e = calloc(set->n_edges + 1ull, sizeof *e);
    if (!e)
        schema_fail(s, -ENOMEM, "out of memory");
    schema_claim_rules(s, set->n_states);
    for (uint32_t i = 0; i < set->n_states && !s->rc; i++)
        if (i == 0 || !is_last(set, i))
            put_state(s, set, i, first, e);
    schema_put(s, b, "%s-%u", s->prefix, first);
    free(e);
}

/* ---- a string with what stands around it --------------------------------------------------------------- */

static const char *end_mark(const struct schema *s)
{
    return s->syntax == SCHEMA_XML ? s->xml->end_mark : "<|\"|>";
}

/* Takes out what would read as the mark that ends the string; of a large set, what begins like it. */
static int leave_out_mark(struct schema *s, struct strings *set)
{
    char mark[16];
    size_t least = s->syntax == SCHEMA_XML ? 4 : 2, n = strlen(end_mark(s));
    struct strings other = { 0 }, both = { 0 };
    while (n > least && set->n_states * n > STRINGS_MAX_STATES)
        n--;
    snprintf(mark, sizeof mark, "%.*s", (int)n, end_mark(s));
    int rc = strings_without(mark, &other);
    if (!rc)
        rc = strings_both(set, &other, &both);
    strings_finish(&other);
    strings_finish(set);
    *set = both;
    return rc;
}

static void put_free_string(struct schema *s, struct tok_buf *b)
{
    schema_put_shared(s, b, s->syntax == SCHEMA_JSON  ? SHARED_STRING
                            : s->syntax == SCHEMA_XML ? s->xml->raw
                                                      : SHARED_MARKED);
}

void schema_put_string_set(struct schema *s, struct tok_buf *b, struct strings *set)
{
    static const char *const begin[] = { "\"\\\"\" ", "", "\"<|\\\"|>\" " },
                             *const end[] = { " \"\\\"\"", NULL, " \"<|\\\"|>\"" };
    int rc = s->rc || s->syntax == SCHEMA_JSON ? 0 : leave_out_mark(s, set);
    if (rc == -E2BIG) {
        schema_loosen(s, rc, "its strings: a set of strings with more than %d states", STRINGS_MAX_STATES);
        put_free_string(s, b);
        return;
    }
    if (rc)
        schema_fail(s, rc, "out of memory");
    else if (!s->rc && !set->n_states)
        schema_fail(s, -EINVAL, "no string that is allowed can be written");
    schema_put(s, b, "%s", begin[s->syntax]);
    if (!s->rc)
        schema_put_strings(s, b, set);
    schema_put(s, b, " %s", s->syntax == SCHEMA_XML ? s->xml->value_end_rule : end[s->syntax]);
}

/* JSON counts characters where nothing but the length is limited; all else becomes a set of strings. */
void schema_put_string(struct schema *s, struct tok_buf *b, json_t *schema)
{
    uint64_t min = schema_count(s, schema, "minLength", 0), max = schema_count(s, schema, "maxLength", UINT64_MAX);
    struct tok_buf text = { 0 };
    struct strings set = { 0 };
    if (min > max)
        schema_fail(s, -EINVAL, "minLength is greater than maxLength");
    bool any = schema_strings(s, schema, &set), length = min > 0 || max != UINT64_MAX;
    if (!s->rc && !any && length && s->syntax != SCHEMA_JSON) {
        narrow_by_length(s, &set, schema);
        any = set.n_states > 1 || (set.n_states && !set.state[0].n); /* not, if it was too long and passed over */
    }
    if (!any && !length) {
        put_free_string(s, b);
    } else {
        if (any) {
            schema_put_string_set(s, &text, &set);
        } else if (s->syntax == SCHEMA_JSON) {
            schema_put(s, &text, "\"\\\"\" ");
            schema_put_characters(s, &text, min, max);
            schema_put(s, &text, " \"\\\"\"");
        } else {
            put_free_string(s, &text);
        }
        schema_put_rule(s, b, &text);
    }
    tok_buf_finish(&text);
    strings_finish(&set);
}
