/* JSON schema to GBNF: values, strings and arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/json_schema_impl.h"

enum { MAX_DEPTH = 64, MAX_REPEAT = 100000 };

/* A count such as minLength; `none` where it is not there. */
static uint64_t count_of(struct schema *s, json_t *schema, const char *key, uint64_t none)
{
    json_t *v = json_object_get(schema, key);
    double x = json_number_value(v);
    if (!v)
        return none;
    if (!json_is_number(v) || x < 0 || x != floor(x)) {
        schema_fail(s, -EINVAL, "%s is not a whole number", key);
        return none;
    }
    if (x > MAX_REPEAT && !strncmp(key, "min", 3))
        schema_fail(s, -E2BIG, "%s: more than %d", key, MAX_REPEAT);
    return x > MAX_REPEAT ? MAX_REPEAT : (uint64_t)x;
}

/* ---- strings ------------------------------------------------------------------------------------------- */

/* The formats that have a grammar; all others say nothing about a string. */
static bool put_format(struct schema *s, struct tok_buf *b, const char *format)
{
    bool date = !strcmp(format, "date"), time = !strcmp(format, "time"), both = !strcmp(format, "date-time");
    if (date || both)
        schema_put_shared(s, b, SHARED_DATE);
    if (both)
        schema_put(s, b, " \"T\" ");
    if (time || both)
        schema_put_shared(s, b, SHARED_TIME);
    if (!strcmp(format, "uuid"))
        schema_put_shared(s, b, SHARED_UUID);
    return date || time || both || !strcmp(format, "uuid");
}

void schema_put_characters(struct schema *s, struct tok_buf *b, uint64_t min, uint64_t max)
{
    schema_put(s, b, "([^\"\\\\\\x00-\\x1f] | \"\\\\\" ");
    schema_put_shared(s, b, SHARED_ESCAPE);
    if (max == UINT64_MAX)
        schema_put(s, b, "){%u,}", (unsigned)min);
    else
        schema_put(s, b, "){%u,%u}", (unsigned)min, (unsigned)max);
}

static void put_string(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    uint64_t min = count_of(s, schema, "minLength", 0), max = count_of(s, schema, "maxLength", UINT64_MAX);
    struct tok_buf text = { 0 };
    if (min > max)
        schema_fail(s, -EINVAL, "minLength is greater than maxLength");
    if (pattern && !json_is_string(pattern))
        schema_fail(s, -EINVAL, "pattern is not a string");
    if (pattern && (min > 0 || max != UINT64_MAX))
        schema_fail(s, -ENOTSUP, "pattern together with minLength or maxLength is not supported");
    schema_put(s, &text, "\"\\\"\" ");
    if (pattern && !s->rc)
        schema_put_pattern(s, &text, json_string_value(pattern));
    else if (!json_is_string(format) || !put_format(s, &text, json_string_value(format))) {
        if (min == 0 && max == UINT64_MAX) {
            schema_put_shared(s, b, SHARED_STRING);
            tok_buf_finish(&text);
            return;
        }
        schema_put_characters(s, &text, min, max);
    }
    schema_put(s, &text, " \"\\\"\"");
    schema_put_rule(s, b, &text);
}

/* ---- arrays -------------------------------------------------------------------------------------------- */

void schema_put_separator(struct schema *s, struct tok_buf *b)
{
    schema_put(s, b, "\",\" ");
    schema_put_shared(s, b, SHARED_WS);
    schema_put(s, b, " ");
}

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

static void put_array(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"), *more = items;
    uint64_t min = count_of(s, schema, "minItems", 0), max = count_of(s, schema, "maxItems", UINT64_MAX);
    struct tok_buf text = { 0 }, item = { 0 };
    if (json_is_array(items)) { /* before 2020-12 */
        first = items;
        more = json_object_get(schema, "additionalItems");
    }
    if (min > max)
        schema_fail(s, -EINVAL, "minItems is greater than maxItems");
    size_t n_first = MIN(json_array_size(first), max);
    max -= max == UINT64_MAX ? 0 : n_first;
    min -= MIN(min, n_first);
    if (json_is_false(more) || (first && !more && min == 0))
        max = 0;
    if (min > max)
        schema_fail(s, -EINVAL, "minItems asks for more elements than items allows");
    bool optional = n_first == 0 && min == 0 && max > 0;
    schema_put(s, &text, "\"[\" ");
    schema_put_shared(s, &text, SHARED_WS);
    schema_put(s, &text, " ");
    put_first_items(s, &text, first, n_first);
    if (max > 0 && !s->rc) {
        size_t at = schema_enter(s, "/%s", "items", 0);
        if (more)
            schema_put_any(s, &item, more);
        else
            schema_put_shared(s, &item, SHARED_VALUE);
        schema_leave(s, at);
    }
    put_more_items(s, &text, &item, n_first, min, max);
    if (n_first || max) {
        schema_put_shared(s, &text, SHARED_WS);
        schema_put(s, &text, optional ? ")? " : " ");
    }
    schema_put(s, &text, "\"]\"");
    tok_buf_finish(&item);
    schema_put_rule(s, b, &text);
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void put_typed(struct schema *s, struct tok_buf *b, json_t *schema, const char *type)
{
    if (!strcmp(type, "object"))
        schema_put_object(s, b, schema);
    else if (!strcmp(type, "array"))
        put_array(s, b, schema);
    else if (!strcmp(type, "string"))
        put_string(s, b, schema);
    else if (!strcmp(type, "integer"))
        schema_put_integer(s, b, schema);
    else if (!strcmp(type, "number"))
        schema_put_number(s, b, schema);
    else if (!strcmp(type, "boolean"))
        schema_put(s, b, "(\"true\" | \"false\")");
    else if (!strcmp(type, "null"))
        schema_put(s, b, "\"null\"");
    else
        schema_fail(s, -EINVAL, "type: \"%.50s\" is no type", type);
}

static bool has_type(json_t *v, const char *type)
{
    return !strcmp(type, json_is_object(v)    ? "object"
                         : json_is_array(v)   ? "array"
                         : json_is_string(v)  ? "string"
                         : json_is_boolean(v) ? "boolean"
                         : json_is_null(v)    ? "null"
                                              : "number") ||
           (!strcmp(type, "integer") &&
            (json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)))));
}

static void put_enum(struct schema *s, struct tok_buf *b, json_t *values, json_t *types)
{
    const char *bar = "(";
    size_t i, k;
    json_t *v, *t;
    json_array_foreach(values, i, v) {
        bool fits = !types;
        json_array_foreach(types, k, t)
            fits |= has_type(v, json_string_value(t));
        if (!fits)
            continue;
        schema_put(s, b, "%s", bar);
        schema_put_json(s, b, v);
        bar = " | ";
    }
    if (*bar == '(')
        schema_fail(s, -EINVAL, "enum: no value is of the type");
    schema_put(s, b, ")");
}

/* The types that the keywords speak of, where type is missing. */
static json_t *guess_types(json_t *schema)
{
    static const struct {
        const char *key, *type;
    } hint[] = {
        { "properties", "object" },
        { "required", "object" },
        { "additionalProperties", "object" },
        { "items", "array" },
        { "prefixItems", "array" },
        { "minItems", "array" },
        { "maxItems", "array" },
        { "pattern", "string" },
        { "minLength", "string" },
        { "maxLength", "string" },
        { "minimum", "number" },
        { "maximum", "number" },
        { "exclusiveMinimum", "number" },
        { "exclusiveMaximum", "number" },
    };
    json_t *types = json_array();
    const char *last = "";
    for (size_t i = 0; i < ARRAY_LEN(hint); i++)
        if (json_object_get(schema, hint[i].key) && strcmp(last, hint[i].type)) {
            last = hint[i].type;
            json_array_append_new(types, json_string(last));
        }
    return types;
}

static void put_types(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *given = json_object_get(schema, "type"), *types = given ? json_incref(given) : guess_types(schema), *t;
    const char *bar = "(";
    size_t i;
    if (json_array_size(types) == 0)
        schema_put_shared(s, b, SHARED_VALUE);
    json_array_foreach(types, i, t) {
        schema_put(s, b, "%s", json_array_size(types) > 1 ? bar : "");
        bar = " | ";
        put_typed(s, b, schema, json_string_value(t));
    }
    schema_put(s, b, "%s", json_array_size(types) > 1 ? ")" : "");
    json_decref(types);
}

static void check_types(struct schema *s, json_t *types)
{
    size_t i;
    json_t *t;
    json_array_foreach(types, i, t)
        if (!json_is_string(t))
            schema_fail(s, -EINVAL, "type is neither a string nor an array of strings");
}

/* anyOf: every alternative together with what stands beside it. */
static void put_alternatives(struct schema *s, struct tok_buf *b, json_t *flat)
{
    json_t *alternatives = json_incref(json_object_get(flat, "anyOf")), *x;
    size_t i;
    json_object_del(flat, "anyOf");
    schema_put(s, b, "(");
    json_array_foreach(alternatives, i, x) {
        if (s->rc)
            break;
        size_t at = schema_enter(s, "/anyOf/%zu", NULL, i);
        json_t *whole = json_object_size(flat) ? json_pack("{s:[O,O]}", "allOf", flat, x) : json_incref(x);
        schema_put(s, b, i ? " | " : "");
        schema_put_any(s, b, whole);
        json_decref(whole);
        schema_leave(s, at);
    }
    schema_put(s, b, ")");
    json_decref(alternatives);
}

static void put_flat(struct schema *s, struct tok_buf *b, json_t *flat)
{
    bool nullable = json_is_true(json_object_get(flat, "nullable"));
    check_types(s, json_object_get(flat, "type"));
    json_object_del(flat, "nullable");
    if (s->rc)
        return;
    schema_put(s, b, nullable ? "(\"null\" | " : "");
    if (json_object_get(flat, "anyOf"))
        put_alternatives(s, b, flat);
    else if (json_object_get(flat, "enum"))
        put_enum(s, b, json_object_get(flat, "enum"), json_object_get(flat, "type"));
    else
        put_types(s, b, flat);
    schema_put(s, b, nullable ? ")" : "");
}

/* A reference alone becomes a rule that is made once: so schemas may hold themselves. */
static void put_reference(struct schema *s, struct tok_buf *b, const char *ref)
{
    json_t *have = json_object_get(s->names, ref), *target = have ? NULL : schema_resolve(s, ref);
    struct tok_buf text = { 0 };
    if (!have && target) {
        uint32_t n = ++s->n_rules;
        have = json_integer(n);
        if (json_object_set_new(s->names, ref, have))
            schema_fail(s, -ENOMEM, "out of memory");
        schema_put_any(s, &text, target);
        schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, n);
        schema_put_buf(s, &s->rules, &text);
        schema_put(s, &s->rules, "\n");
        tok_buf_finish(&text);
    }
    if (!s->rc && json_integer_value(have) == 0)
        schema_put(s, b, "%s", s->prefix);
    else if (!s->rc)
        schema_put(s, b, "%s-%u", s->prefix, (unsigned)json_integer_value(have));
}

/* The reference of a schema that says nothing else, or NULL. */
static const char *only_reference(json_t *schema)
{
    static const char *const notes[] = {
        "title",     "description", "default", "examples", "deprecated", "readOnly",
        "writeOnly", "$comment",    "$schema", "$id",      "$defs",      "definitions"
    };
    json_t *v, *all = json_object_get(schema, "allOf"), *ref = json_object_get(schema, "$ref");
    const char *key;
    json_object_foreach(schema, key, v) {
        bool note = v == ref || v == all;
        for (size_t i = 0; i < ARRAY_LEN(notes); i++)
            note |= !strcmp(key, notes[i]);
        if (!note)
            return NULL;
    }
    if (!ref && json_array_size(all) == 1)
        return only_reference(json_array_get(all, 0));
    return all ? NULL : json_string_value(ref);
}

void schema_put_any(struct schema *s, struct tok_buf *b, json_t *schema)
{
    const char *ref;
    if (s->rc)
        return;
    if (++s->depth > MAX_DEPTH) {
        schema_fail(s, -E2BIG, "schemas nest deeper than %d", MAX_DEPTH);
        return;
    }
    if ((ref = only_reference(schema)))
        put_reference(s, b, ref);
    else {
        json_t *flat = schema_flatten(s, schema);
        if (flat)
            put_flat(s, b, flat);
        json_decref(flat);
    }
    s->depth--;
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static int finish(struct schema *s, const struct tok_buf *first, struct tok_buf *out)
{
    size_t before = out->n;
    schema_put(s, out, "%s ::= ", s->prefix);
    schema_put_buf(s, out, first);
    schema_put(s, out, "\n");
    schema_put_buf(s, out, &s->rules);
    schema_put_shared_rules(s, out);
    tok_buf_finish(&s->rules);
    if (s->rc)
        out->n = before;
    return s->rc;
}

int grammar_schema_to_gbnf(const char *json, size_t n, const char *prefix, struct tok_buf *out, struct err *e)
{
    struct schema s = { .prefix = prefix, .e = e, .path = "#" };
    struct tok_buf first = { 0 };
    json_error_t je;
    s.root = json_loadb(json, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &je);
    if (!s.root)
        return err_set(e, -EINVAL, "schema: not JSON: line %d, column %d: %s", je.line, je.column, je.text);
    s.names = json_pack("{s:i}", "#", 0);
    if (!s.names)
        schema_fail(&s, -ENOMEM, "out of memory");
    if (only_reference(s.root) && !strcmp(only_reference(s.root), "#"))
        schema_fail(&s, -EINVAL, "$ref leads back to itself");
    schema_put_any(&s, &first, s.root);
    int rc = finish(&s, &first, out);
    tok_buf_finish(&first);
    json_decref(s.names);
    json_decref(s.root);
    return rc;
}

int grammar_json_to_gbnf(bool object_only, const char *prefix, struct tok_buf *out, struct err *e)
{
    struct schema s = { .prefix = prefix, .e = e, .path = "#" };
    struct tok_buf first = { 0 };
    schema_put_shared(&s, &first, object_only ? SHARED_OBJECT : SHARED_VALUE);
    int rc = finish(&s, &first, out);
    tok_buf_finish(&first);
    return rc;
}
