/* JSON schema to GBNF: values, strings and arrays. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_DEPTH = 64, MAX_REPEAT = 100000 };

/* A count such as minLength; `none` where it is not there. */
uint64_t schema_count(struct schema *s, json_t *schema, const char *key, uint64_t none)
{
    json_t *v = json_object_get(schema, key);
    double x = json_number_value(v);
    if (!v)
        return none;
    if (!json_is_number(v) || x < 0 || x != floor(x)) {
        schema_fail(s, -EINVAL, "%s is not a whole number", key);
        return none;
    }
    if (x > MAX_REPEAT && !strncmp(key, "min", 3)) {
        schema_loosen(s, -E2BIG, "%s: more than %d", key, MAX_REPEAT);
        return none;
    }
    return x > MAX_REPEAT ? MAX_REPEAT : (uint64_t)x;
}

/* ---- what stands between values ------------------------------------------------------------------------ */

void schema_put_characters(struct schema *s, struct tok_buf *b, uint64_t min, uint64_t max)
{
    schema_put(s, b, "([^\"\\\\\\x00-\\x1f] | \"\\\\\" ");
    schema_put_shared(s, b, SHARED_ESCAPE);
    if (max == UINT64_MAX)
        schema_put(s, b, "){%u,}", (unsigned)min);
    else
        schema_put(s, b, "){%u,%u}", (unsigned)min, (unsigned)max);
}

void schema_put_ws(struct schema *s, struct tok_buf *b)
{
    if (s->syntax == SCHEMA_JSON)
        schema_put_shared(s, b, SHARED_WS);
    schema_put(s, b, " ");
}

void schema_put_separator(struct schema *s, struct tok_buf *b)
{
    schema_put(s, b, "\",\" ");
    schema_put_ws(s, b);
}

void schema_put_free(struct schema *s, struct tok_buf *b)
{
    schema_put_shared(s, b, s->syntax == SCHEMA_GEMMA ? SHARED_ANY : SHARED_VALUE);
}

/* ---- values -------------------------------------------------------------------------------------------- */

static void put_boolean(struct schema *s, struct tok_buf *b, json_t *flat);

static void put_typed(struct schema *s, struct tok_buf *b, json_t *schema, const char *type)
{
    if (!strcmp(type, "object"))
        schema_put_object(s, b, schema);
    else if (!strcmp(type, "array"))
        schema_put_array(s, b, schema);
    else if (!strcmp(type, "string"))
        schema_put_string(s, b, schema);
    else if (!strcmp(type, "integer"))
        schema_put_integer(s, b, schema);
    else if (!strcmp(type, "number"))
        schema_put_number(s, b, schema);
    else if (!strcmp(type, "boolean"))
        put_boolean(s, b, schema);
    else if (!strcmp(type, "null"))
        schema_put(s, b, "\"null\"");
    else
        schema_fail(s, -EINVAL, "type: \"%.50s\" is no type", type);
}

static void check_types(struct schema *s, json_t *types)
{
    size_t i;
    json_t *t;
    json_array_foreach(types, i, t)
        if (!json_is_string(t))
            schema_fail(s, -EINVAL, "type is neither a string nor an array of strings");
}

/* type NULL: it is no string, which check_types tells. */
static bool has_type(json_t *v, const char *type)
{
    return type && (!strcmp(type, json_is_object(v)    ? "object"
                         : json_is_array(v)   ? "array"
                         : json_is_string(v)  ? "string"
                         : json_is_boolean(v) ? "boolean"
                         : json_is_null(v)    ? "null"
                                              : "number") ||
           (!strcmp(type, "integer") &&
            (json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v))))));
}

bool schema_equal(json_t *a, json_t *b)
{
    return json_equal(a, b) || (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

static bool has_some_type(json_t *v, json_t *types)
{
    size_t i;
    json_t *t;
    json_array_foreach(types, i, t)
        if (has_type(v, json_string_value(t)))
            return true;
    return !types;
}

/* Can it be written at all? In Gemma's way a string cannot hold its mark. */
static bool can_be_written(const struct schema *s, json_t *v)
{
    const char *key;
    json_t *x;
    size_t i;
    if (s->syntax != SCHEMA_GEMMA)
        return true;
    json_object_foreach(v, key, x)
        if (strstr(key, "<|\"|>") || !can_be_written(s, x))
            return false;
    json_array_foreach(v, i, x)
        if (!can_be_written(s, x))
            return false;
    return !json_is_string(v) || !strstr(json_string_value(v), "<|\"|>");
}

static bool forbidden(json_t *flat, json_t *v)
{
    json_t *n, *x, *type;
    size_t i, k;
    json_array_foreach(json_object_get(flat, "$not"), i, n) {
        json_array_foreach(json_object_get(n, "enum"), k, x)
            if (schema_equal(x, v))
                return true;
        type = json_object_get(n, "type");
        if (json_is_string(type) ? has_type(v, json_string_value(type)) : json_is_array(type) && has_some_type(v, type))
            return true;
    }
    return false;
}

/* Is it within the bounds that stand beside the enum? */
static bool within(struct schema *s, json_t *flat, json_t *v)
{
    static const struct {
        const char *key;
        int sign;
        bool excluded;
    } bounds[] = { { "minimum", 1, false },
                   { "exclusiveMinimum", 1, true },
                   { "maximum", -1, false },
                   { "exclusiveMaximum", -1, true } };
    const char *p = json_string_value(v);
    uint64_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(bounds) && json_is_number(v); i++) {
        json_t *bound = json_object_get(flat, bounds[i].key);
        double over = (json_number_value(v) - json_number_value(bound)) * bounds[i].sign;
        if (json_is_number(bound) && (over < 0 || (over == 0 && bounds[i].excluded)))
            return false;
    }
    for (; p && *p; n++)
        strings_next(&p);
    return !json_is_string(v) || (n >= schema_count(s, flat, "minLength", 0) &&
                                  n <= schema_count(s, flat, "maxLength", UINT64_MAX));
}

json_t *schema_enum(struct schema *s, json_t *flat)
{
    json_t *out = json_array(), *v, *types = json_object_get(flat, "type");
    struct strings set = { 0 };
    check_types(s, types);
    bool some = (json_object_get(flat, "pattern") || json_object_get(flat, "format") || json_object_get(flat, "$not")) &&
                schema_strings(s, flat, &set);
    size_t i;
    json_array_foreach(json_object_get(flat, "enum"), i, v)
        if (has_some_type(v, types) && can_be_written(s, v) && !forbidden(flat, v) && within(s, flat, v) && schema_allows(s, flat, v) &&
            (!some || !json_is_string(v) || strings_has(&set, json_string_value(v))) && json_array_append(out, v))
            schema_fail(s, -ENOMEM, "out of memory");
    strings_finish(&set);
    if (!out)
        schema_fail(s, -ENOMEM, "out of memory");
    else if (json_array_size(out) == 0 && !s->rc)
        schema_impossible(s, "enum: no value is of the type, or within the limits beside it");
    return out;
}

static void put_enum(struct schema *s, struct tok_buf *b, json_t *flat)
{
    json_t *list = schema_enum(s, flat), *v;
    size_t i;
    json_array_foreach(list, i, v) {
        schema_put(s, b, i ? " | " : "(");
        schema_put_json(s, b, v);
    }
    schema_put(s, b, ")");
    json_decref(list);
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
        { "patternProperties", "object" },
        { "propertyNames", "object" },
        { "minProperties", "object" },
        { "maxProperties", "object" },
        { "items", "array" },
        { "prefixItems", "array" },
        { "minItems", "array" },
        { "maxItems", "array" },
        { "uniqueItems", "array" },
        { "pattern", "string" },
        { "minLength", "string" },
        { "maxLength", "string" },
        { "minimum", "number" },
        { "maximum", "number" },
        { "exclusiveMinimum", "number" },
        { "exclusiveMaximum", "number" },
        { "multipleOf", "number" },
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

/* Takes the types out that `not` forbids. */
static void drop_type(struct schema *s, json_t *types, const char *type)
{
    for (size_t i = json_array_size(types); i-- > 0;) {
        const char *have = json_string_value(json_array_get(types, i));
        bool part = !strcmp(type, "integer") && !strcmp(have, "number");
        if (!strcmp(have, type) || (!strcmp(type, "number") && !strcmp(have, "integer")))
            json_array_remove(types, i);
        else if (part)
            schema_loosen(s, -ENOTSUP, "not of the type integer beside number is not supported");
    }
}

static void drop_value(struct schema *s, json_t *types, json_t *v)
{
    if (json_is_null(v))
        drop_type(s, types, "null");
    else if (!json_is_string(v) && has_some_type(v, types) && !json_is_boolean(v))
        schema_loosen(s, -ENOTSUP, "not of numbers, objects or arrays is not supported");
}

json_t *schema_type_names(struct schema *s, json_t *flat)
{
    static const char *const all[] = { "object", "array", "string", "number", "boolean", "null" };
    json_t *given = json_object_get(flat, "type"), *types = given ? json_copy(given) : guess_types(flat), *n, *v, *list;
    size_t i, k;
    if (json_array_size(json_object_get(flat, "$not")) && json_array_size(types) == 0)
        for (i = 0; i < ARRAY_LEN(all); i++)
            json_array_append_new(types, json_string(all[i]));
    json_array_foreach(json_object_get(flat, "$not"), i, n) {
        list = json_object_get(n, "type");
        if (json_is_string(list))
            drop_type(s, types, json_string_value(list));
        json_array_foreach(list, k, v)
            if (json_is_string(v))
                drop_type(s, types, json_string_value(v));
        json_array_foreach(json_object_get(n, "enum"), k, v)
            drop_value(s, types, v);
        if (json_array_size(types) == 0)
            schema_impossible(s, "not: no type is left");
    }
    return types;
}

static void put_boolean(struct schema *s, struct tok_buf *b, json_t *flat)
{
    bool yes = !forbidden(flat, json_true()), no = !forbidden(flat, json_false());
    if (!yes && !no)
        schema_impossible(s, "not: no boolean is left");
    schema_put(s, b, yes && no ? "(\"true\" | \"false\")" : yes ? "\"true\"" : "\"false\"");
}

static void put_types(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *types = schema_type_names(s, schema), *t;
    const char *bar = "(";
    size_t i;
    if (json_array_size(types) == 0)
        schema_put_free(s, b);
    json_array_foreach(types, i, t) {
        schema_put(s, b, "%s", json_array_size(types) > 1 ? bar : "");
        bar = " | ";
        put_typed(s, b, schema, json_string_value(t));
    }
    schema_put(s, b, "%s", json_array_size(types) > 1 ? ")" : "");
    json_decref(types);
}

json_t *schema_alternative(struct schema *s, json_t *flat, size_t i)
{
    json_t *x = json_array_get(json_object_get(flat, "anyOf"), i), *beside = json_copy(flat);
    json_object_del(beside, "anyOf");
    json_t *whole = json_object_size(beside) ? json_pack("{s:[O,O]}", "allOf", beside, x) : json_incref(x);
    json_decref(beside);
    if (!whole)
        schema_fail(s, -ENOMEM, "out of memory");
    return whole;
}

/* anyOf: every alternative together with what stands beside it. */
static void put_alternatives(struct schema *s, struct tok_buf *b, json_t *flat)
{
    size_t n = json_array_size(json_object_get(flat, "anyOf"));
    schema_put(s, b, "(");
    for (size_t i = 0; i < n && !s->rc; i++) {
        size_t at = schema_enter(s, "/anyOf/%zu", NULL, i);
        json_t *whole = schema_alternative(s, flat, i);
        schema_put(s, b, i ? " | " : "");
        schema_put_any(s, b, whole);
        json_decref(whole);
        schema_leave(s, at);
    }
    schema_put(s, b, ")");
}

void schema_put_flat(struct schema *s, struct tok_buf *b, json_t *flat)
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
        put_enum(s, b, flat);
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
        schema_claim_rules(s, 1);
        uint32_t n = s->n_rules;
        have = json_integer(n);
        if (json_object_set_new(s->names, ref, have))
            schema_fail(s, -ENOMEM, "out of memory");
        schema_put_any(s, &text, target);
        schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, n);
        schema_put_buf(s, &s->rules, &text);
        schema_put(s, &s->rules, "\n");
        tok_buf_finish(&text);
    }
    if (!have)
        schema_put_free(s, b); /* it leads out of the schema */
    else if (!s->rc && json_integer_value(have) == 0)
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
            schema_put_flat(s, b, flat);
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

static const struct schema_xml qwen_xml = { "<parameter=", "\">\\n\"", "\"\\n</parameter>\\n\"", "</parameter>", SHARED_RAW };
static const struct schema_xml pairs_xml = { "<arg_key>", "\"</arg_key>\" \"\\n\"? \"<arg_value>\"", "\"</arg_value>\" \"\\n\"?",
                                             "</arg_value>", SHARED_PAIR };

static enum schema_syntax syntax_of(enum json_schema_form form)
{
    return form == JSON_SCHEMA_ARGS_XML || form == JSON_SCHEMA_ARGS_PAIRS ? SCHEMA_XML : form == JSON_SCHEMA_ARGS_GEMMA ? SCHEMA_GEMMA : SCHEMA_JSON;
}

int json_schema_rules(const json_t *schema, enum json_schema_form form, const char *prefix,
                      const struct json_schema_opts *o, struct tok_buf *out, struct err *e)
{
    struct schema s = { .prefix = prefix, .e = e, .path = "#", .root = schema, .syntax = syntax_of(form),
                        .xml = form == JSON_SCHEMA_ARGS_PAIRS ? &pairs_xml : &qwen_xml };
    unsigned failures = json_failures();
    struct tok_buf first = { 0 };
    s.work = SCHEMA_PATTERN_WORK;
    s.probe_work = SCHEMA_PATTERN_WORK / 4;
    s.strict = !o || o->strict;
    s.warnings = o ? o->warnings : NULL;
    s.where = o ? o->where : NULL;
    s.names = form == JSON_SCHEMA_VALUE ? json_pack("{s:i}", "#", 0) : json_object();
    if (!s.names)
        schema_fail(&s, -ENOMEM, "out of memory");
    if (schema && only_reference((json_t *)schema) && !strcmp(only_reference((json_t *)schema), "#"))
        schema_fail(&s, -EINVAL, "$ref leads back to itself");
    if (form == JSON_SCHEMA_VALUE)
        schema_put_any(&s, &first, (json_t *)schema);
    else
        schema_put_arguments(&s, &first, (json_t *)schema);
    if (json_failures() != failures) /* whatever was made of a tree with holes */
        s.rc = err_set(e, -ENOMEM, "schema: out of memory");
    int rc = finish(&s, &first, out);
    tok_buf_finish(&first);
    json_decref(s.names);
    return rc;
}

int grammar_schema_to_gbnf(const char *json, size_t n, const char *prefix, struct tok_buf *out, struct err *e)
{
    json_error_t je;
    bool no_memory;
    json_t *schema = json_read(json, n, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &je, &no_memory);
    if (!schema && no_memory)
        return err_set(e, -ENOMEM, "schema: out of memory");
    if (!schema)
        return err_set(e, -EINVAL, "schema: not JSON: line %d, column %d: %s", je.line, je.column, je.text);
    int rc = json_schema_rules(schema, JSON_SCHEMA_VALUE, prefix, NULL, out, e);
    json_decref(schema);
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
