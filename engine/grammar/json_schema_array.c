/* Arrays of a JSON schema. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

/* Of arrays without repetitions: more values than FREE_ORDER come in the order of the schema alone. */
enum { FREE_ORDER = 5, MAX_UNIQUE = 64 };

/* The elements that every array of this kind begins with. */
static void put_first_items(struct schema *s, struct tok_buf *b, json_t *first, size_t n)
{
    for (size_t i = 0; i < n && !s->rc; i++) {
        size_t at = schema_enter(s, "/prefixItems/%zu", NULL, i);
        if (i)
            schema_put_separator(s, b);
        schema_put_any(s, b, json_array_get(first, i));
        schema_put(s, b, " ");
        schema_leave(s, at);
    }
}

/* min to max more elements, behind `before` others. */
static void put_more_items(struct schema *s, struct tok_buf *b, const struct tok_buf *item, size_t before, uint64_t min,
                           uint64_t max)
{
    bool lone = before == 0;
    if (max == 0)
        return;
    if (lone) {
        schema_put(s, b, min ? "" : "(");
        schema_put_buf(s, b, item);
        schema_put(s, b, " ");
        min -= min > 0;
        max -= max != UINT64_MAX;
    }
    schema_put(s, b, "(");
    schema_put_separator(s, b);
    schema_put_buf(s, b, item);
    if (max == UINT64_MAX)
        schema_put(s, b, "){%u,} ", (unsigned)min);
    else
        schema_put(s, b, "){%u,%u} ", (unsigned)min, (unsigned)max);
}

/* ---- without repetitions ------------------------------------------------------------------------------- */

/* The values that the elements can have, where they are few; NULL: they are not. */
static json_t *values_of(struct schema *s, json_t *items)
{
    json_t *flat = json_is_object(items) ? schema_flatten(s, items) : NULL, *values = json_object_get(flat, "enum"), *out;
    const char *type = json_string_value(json_array_get(json_object_get(flat, "type"), 0));
    out = NULL;
    if (values && !json_object_get(flat, "anyOf"))
        out = schema_enum(s, flat);
    else if (type && !strcmp(type, "boolean") && json_array_size(json_object_get(flat, "type")) == 1)
        out = json_pack("[b,b]", 1, 0);
    json_decref(flat);
    for (size_t i = json_array_size(out); i-- > 0;) /* of equal ones the first */
        for (size_t k = 0; k < i; k++)
            if (schema_equal(json_array_get(out, i), json_array_get(out, k))) {
                json_array_remove(out, i);
                break;
            }
    return out;
}

/* One more element, value i, behind c others, and then the rule `next`. */
static void put_next_value(struct schema *s, struct tok_buf *b, json_t *values, size_t i, uint64_t c, uint32_t next)
{
    if (c)
        schema_put_separator(s, b);
    schema_put_json(s, b, json_array_get(values, i));
    schema_put(s, b, " %s-%u", s->prefix, next);
}

static void put_end(struct schema *s, struct tok_buf *b, uint64_t c)
{
    if (c)
        schema_put_ws(s, b);
    schema_put(s, b, "\"]\"");
}

/* In any order: a rule for each set of values that have come. */
static uint32_t put_permutations(struct schema *s, json_t *values, uint64_t min, uint64_t max)
{
    uint32_t n = (uint32_t)json_array_size(values), first = s->n_rules + 1;
    schema_claim_rules(s, 1u << n);
    for (uint32_t set = 0; set < 1u << n; set++) {
        uint64_t c = (uint64_t)__builtin_popcount(set);
        const char *bar = "";
        if (c > max)
            continue;
        schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, first + set);
        for (uint32_t i = 0; i < n && c < max; i++) {
            if (set >> i & 1)
                continue;
            schema_put(s, &s->rules, "%s", bar);
            put_next_value(s, &s->rules, values, i, c, first + (set | 1u << i));
            bar = " | ";
        }
        if (c >= min) {
            schema_put(s, &s->rules, "%s", bar);
            put_end(s, &s->rules, c);
        }
        schema_put(s, &s->rules, "\n");
    }
    return first;
}

/* In the schema's order: a rule for each number of values that have come and place in the list. */
static uint32_t put_ordered(struct schema *s, json_t *values, uint64_t min, uint64_t max)
{
    uint32_t n = (uint32_t)json_array_size(values), first = s->n_rules + 1;
    schema_claim_rules(s, (n + 1) * (n + 1));
    for (uint32_t c = 0; c <= n; c++)
        for (uint32_t from = c; from <= n; from++) { /* c of the first `from` have come */
            const char *bar = "";
            if (c > max || c + (n - from) < min)
                continue;
            schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, first + c * (n + 1) + from);
            for (uint32_t i = from; i < n && c < max && c + (n - i) >= min; i++) {
                schema_put(s, &s->rules, "%s", bar);
                put_next_value(s, &s->rules, values, i, c, first + (c + 1) * (n + 1) + i + 1);
                bar = " | ";
            }
            if (c >= min) {
                schema_put(s, &s->rules, "%s", bar);
                put_end(s, &s->rules, c);
            }
            schema_put(s, &s->rules, "\n");
        }
    return first;
}

/* False: uniqueItems says nothing here, or cannot be done. */
static bool put_unique(struct schema *s, struct tok_buf *b, json_t *items, json_t *first, uint64_t min, uint64_t max)
{
    json_t *values = first || max <= 1 ? NULL : values_of(s, items);
    size_t n = json_array_size(values);
    if (s->rc || (max <= 1 && !first)) {
        json_decref(values);
        return false;
    }
    if (n == 0 || n > MAX_UNIQUE) {
        schema_loosen(s, -ENOTSUP, "uniqueItems is supported for up to %d values of an enum alone", MAX_UNIQUE);
        json_decref(values);
        return false;
    }
    if (min > n)
        schema_fail(s, -EINVAL, "uniqueItems: there are %zu values, and minItems asks for more", n);
    schema_put(s, b, "(\"[\" ");
    schema_put_ws(s, b);
    uint32_t rule = s->rc ? 0 : n <= FREE_ORDER ? put_permutations(s, values, min, max) : put_ordered(s, values, min, max);
    schema_put(s, b, "%s-%u)", s->prefix, rule);
    json_decref(values);
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------------------- */

void schema_put_array(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"), *more = items;
    uint64_t min = schema_count(s, schema, "minItems", 0), max = schema_count(s, schema, "maxItems", UINT64_MAX);
    struct tok_buf text = { 0 }, item = { 0 };
    if (json_is_array(items)) { /* before 2020-12 */
        first = items;
        more = json_object_get(schema, "additionalItems");
    }
    if (min > max)
        schema_fail(s, -EINVAL, "minItems is greater than maxItems");
    if (json_is_true(json_object_get(schema, "uniqueItems")) && put_unique(s, b, items, first, min, max))
        return;
    for (size_t i = json_array_size(first); i-- > 0;) /* where nothing may stand, the array ends */
        if (json_is_false(json_array_get(first, i)))
            max = MIN(max, i);
    if (min > max)
        schema_fail(s, -EINVAL, "minItems asks for more elements than prefixItems allows");
    size_t n_first = MIN(json_array_size(first), max);
    max -= max == UINT64_MAX ? 0 : n_first;
    min -= MIN(min, n_first);
    if (json_is_false(more) || (first && !more && min == 0))
        max = 0;
    if (min > max)
        schema_fail(s, -EINVAL, "minItems asks for more elements than items allows");
    bool optional = n_first == 0 && min == 0 && max > 0;
    schema_put(s, &text, "\"[\" ");
    schema_put_ws(s, &text);
    put_first_items(s, &text, first, n_first);
    if (max > 0 && !s->rc) {
        size_t at = schema_enter(s, "/%s", "items", 0);
        if (more)
            schema_put_any(s, &item, more);
        else
            schema_put_free(s, &item);
        schema_leave(s, at);
    }
    put_more_items(s, &text, &item, n_first, min, max);
    if (n_first || max) {
        schema_put_ws(s, &text);
        schema_put(s, &text, optional ? ")? " : " ");
    }
    schema_put(s, &text, "\"]\"");
    tok_buf_finish(&item);
    schema_put_rule(s, b, &text);
}

