/* The arguments of calls: always an object, in the syntax of the chat format; and how a parameter of Qwen's XML, which is
 * plain text, stands for a value. What this file writes as a grammar, answer_xml.c reads back by the same rules. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

bool schema_key_fits(const struct schema *s, const char *key)
{
    size_t n = strlen(key);
    if (!n || n > 200 || s->syntax == SCHEMA_JSON)
        return s->syntax == SCHEMA_JSON;
    if (strchr(" \t\r\n", key[0]) || strchr(" \t\r\n", key[n - 1]))
        return false;
    return s->syntax == SCHEMA_XML ? !key[strcspn(key, "<>\n")] : key[0] != '"' && !key[strcspn(key, ":,<>{}[]")];
}

/* ---- what a parameter can be --------------------------------------------------------------------------- */

static unsigned type_bits(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {
        { "string", TYPE_STRING },   { "integer", TYPE_INTEGER }, { "number", TYPE_INTEGER | TYPE_NUMBER },
        { "boolean", TYPE_BOOLEAN }, { "null", TYPE_NULL },       { "object", TYPE_OBJECT },
        { "array", TYPE_ARRAY },
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (name && strcmp(types[i].name, name) == 0)
            return types[i].type;
    return TYPE_ANY;
}

static unsigned type_of_value(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER | TYPE_INTEGER;
    case JSON_TRUE: return TYPE_TRUE;
    case JSON_FALSE: return TYPE_FALSE;
    case JSON_NULL: return TYPE_NULL;
    case JSON_OBJECT: return TYPE_OBJECT;
    case JSON_ARRAY: return TYPE_ARRAY;
    }
    return 0;
}

/* The booleans and null that `not` takes out. */
static unsigned forbidden_words(json_t *flat)
{
    unsigned types = 0;
    size_t i, k;
    json_t *n, *v;
    json_array_foreach(json_object_get(flat, "$not"), i, n)
        json_array_foreach(json_object_get(n, "enum"), k, v)
            types |= type_of_value(v) & (TYPE_BOOLEAN | TYPE_NULL);
    return types;
}

/* The types, and whether they are all that the schema says: then any value of them will do. */
static unsigned types_of(struct schema *s, json_t *schema, bool *plain, int depth)
{
    json_t *flat = depth > 8 || s->rc ? NULL : schema_flatten(s, schema), *names, *v;
    unsigned types = 0;
    const char *key;
    size_t i;
    if (!flat) {
        *plain = true;
        return TYPE_ANY;
    }
    if (json_is_true(json_object_get(flat, "nullable")))
        types |= TYPE_NULL;
    if (json_object_get(flat, "anyOf")) {
        for (i = 0; i < json_array_size(json_object_get(flat, "anyOf")) && !s->rc; i++) {
            json_t *whole = schema_alternative(s, flat, i);
            types |= whole ? types_of(s, whole, plain, depth + 1) : 0;
            json_decref(whole);
        }
    } else if (json_object_get(flat, "enum")) {
        *plain = false;
        json_array_foreach(json_object_get(flat, "enum"), i, v)
            types |= type_of_value(v);
    } else {
        names = schema_type_names(s, flat);
        json_array_foreach(names, i, v)
            types |= type_bits(json_string_value(v));
        if (!json_array_size(names))
            types = TYPE_ANY;
        types &= ~forbidden_words(flat);
        json_object_foreach(flat, key, v)
            *plain &= !strcmp(key, "type") || !strcmp(key, "nullable");
        json_decref(names);
    }
    json_decref(flat);
    return types;
}

static enum json_schema_text text_of(struct schema *s, json_t *schema, unsigned *types)
{
    bool plain = true;
    *types = types_of(s, schema, &plain, 0);
    if (s->rc || !*types)
        *types = TYPE_ANY;
    if ((*types & TYPE_STRING) && !(*types & (TYPE_INTEGER | TYPE_NUMBER | TYPE_OBJECT | TYPE_ARRAY)))
        return JSON_SCHEMA_RAW;
    return plain && (*types & TYPE_STRING) ? JSON_SCHEMA_FREE : JSON_SCHEMA_JSON;
}

/* All that the schema of all parameters says of the one with this name; NULL: nothing. The caller's. */
static void collect(struct schema *s, json_t *params, const char *key, json_t *found, int depth)
{
    json_t *flat = depth > 8 || s->rc ? NULL : schema_flatten(s, params), *v;
    size_t n = json_array_size(json_object_get(flat, "anyOf"));
    for (size_t i = 0; i < n && !s->rc; i++) {
        json_t *whole = schema_alternative(s, flat, i);
        if (whole)
            collect(s, whole, key, found, depth + 1);
        json_decref(whole);
    }
    v = json_object_get(json_object_get(flat, "properties"), key);
    if (!v && json_is_object(json_object_get(flat, "additionalProperties")))
        v = json_object_get(flat, "additionalProperties");
    size_t i;
    json_t *x;
    json_array_foreach(found, i, x)
        if (v && json_equal(x, v))
            v = NULL;
    if (v && n == 0 && !json_is_boolean(v))
        json_array_append(found, v);
    else if (json_is_true(v) && n == 0)
        json_array_append_new(found, json_object());
    json_decref(flat);
}

static enum json_schema_text parameter(struct schema *s, json_t *params, const char *key, unsigned *types)
{
    json_t *found = json_array(), *any;
    enum json_schema_text text = JSON_SCHEMA_RAW;
    *types = TYPE_STRING;
    collect(s, params, key ? key : "", found, 0);
    if (json_array_size(found) == 1) {
        text = text_of(s, json_array_get(found, 0), types);
    } else if (json_array_size(found)) {
        any = json_pack("{s:O}", "anyOf", found);
        text = text_of(s, any, types);
        json_decref(any);
    }
    json_decref(found);
    return text;
}

enum json_schema_text json_schema_parameter(const json_t *params, const char *key, size_t n_key, unsigned *types)
{
    struct schema s = { .prefix = "", .path = "#", .root = params };
    char *name = strndup(key, n_key);
    enum json_schema_text text = JSON_SCHEMA_RAW;
    *types = TYPE_STRING;
    if (name && params)
        text = parameter(&s, (json_t *)params, name, types);
    free(name);
    return text;
}

/* ---- its grammar --------------------------------------------------------------------------------------- */

static void put_words(struct schema *s, struct tok_buf *b, unsigned types, const char **bar)
{
    static const struct {
        unsigned type;
        const char *words;
    } known[] = { { TYPE_TRUE, "\"true\" | \"True\"" },
                  { TYPE_FALSE, "\"false\" | \"False\"" },
                  { TYPE_NULL, "\"null\" | \"None\"" } };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!(types & known[i].type))
            continue;
        schema_put(s, b, "%s(%s) %s", *bar, known[i].words, s->xml->value_end_rule);
        *bar = " | ";
    }
}

/* A string of an enum, as it stands. */
static void put_fixed(struct schema *s, struct tok_buf *b, json_t *values, const char **bar)
{
    size_t i;
    json_t *v;
    json_array_foreach(values, i, v) {
        if (!json_is_string(v) || strstr(json_string_value(v), s->xml->end_mark))
            continue;
        schema_put(s, b, "%s", *bar);
        schema_put_literal(s, b, json_string_value(v), json_string_length(v));
        schema_put(s, b, " %s", s->xml->value_end_rule);
        *bar = " | ";
    }
}

/* Strings, null and booleans as plain text: the alternatives of a schema one after the other. */
static void put_raw(struct schema *s, struct tok_buf *b, json_t *schema, const char **bar, int depth)
{
    json_t *flat = s->rc ? NULL : schema_flatten(s, schema), *values, *names, *v;
    size_t n = json_array_size(json_object_get(flat, "anyOf")), i;
    if (flat && json_is_true(json_object_get(flat, "nullable")))
        put_words(s, b, TYPE_NULL, bar);
    for (i = 0; i < n && !s->rc && depth <= 8; i++) {
        json_t *whole = schema_alternative(s, flat, i);
        if (whole)
            put_raw(s, b, whole, bar, depth + 1);
        json_decref(whole);
    }
    if (flat && !n && json_object_get(flat, "enum")) {
        values = schema_enum(s, flat);
        put_fixed(s, b, values, bar);
        json_array_foreach(values, i, v)
            put_words(s, b, type_of_value(v) & (TYPE_BOOLEAN | TYPE_NULL), bar);
        json_decref(values);
    } else if (flat && !n) {
        names = schema_type_names(s, flat);
        json_array_foreach(names, i, v) {
            unsigned types = type_bits(json_string_value(v));
            put_words(s, b, types & (TYPE_BOOLEAN | TYPE_NULL) & ~forbidden_words(flat), bar);
            if (!(types & TYPE_STRING))
                continue;
            schema_put(s, b, "%s", *bar);
            schema_put_string(s, b, flat);
            *bar = " | ";
        }
        json_decref(names);
    }
    json_decref(flat);
}

static void put_as_json(struct schema *s, struct tok_buf *b, json_t *value, unsigned types)
{
    const char *bar = " | ";
    s->syntax = SCHEMA_JSON;
    schema_put(s, b, "((");
    schema_put_any(s, b, value);
    schema_put(s, b, ") %s", s->xml->value_end_rule);
    put_words(s, b, types & (TYPE_BOOLEAN | TYPE_NULL), &bar);
    schema_put(s, b, ")");
    s->syntax = SCHEMA_XML;
}

void schema_put_parameter(struct schema *s, struct tok_buf *b, const char *key, json_t *value)
{
    struct tok_buf text = { 0 };
    unsigned types;
    const char *bar = "";
    enum json_schema_text form = parameter(s, s->arguments, key, &types);
    if (key ? form == JSON_SCHEMA_FREE : !json_is_object(value) || form == JSON_SCHEMA_FREE) {
        schema_put_shared(s, b, s->xml->raw);
    } else if (form == JSON_SCHEMA_JSON) {
        put_as_json(s, b, value, types);
    } else {
        put_raw(s, &text, value, &bar, 0);
        if (!s->rc && !*bar)
            schema_fail(s, -EINVAL, "no value can be written");
        schema_put(s, b, "(");
        schema_put_buf(s, b, &text);
        schema_put(s, b, ")");
    }
    tok_buf_finish(&text);
}

/* ---- all arguments ------------------------------------------------------------------------------------- */

static void put_objects(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *flat;
    if (s->rc || !(flat = schema_flatten(s, schema)))
        return;
    size_t n = json_array_size(json_object_get(flat, "anyOf"));
    json_object_del(flat, "nullable");
    schema_put(s, b, "(");
    for (size_t i = 0; i < n && !s->rc; i++) {
        size_t at = schema_enter(s, "/anyOf/%zu", NULL, i);
        json_t *whole = schema_alternative(s, flat, i);
        schema_put(s, b, i ? " | " : "");
        if (whole && ++s->depth < 64)
            put_objects(s, b, whole);
        json_decref(whole);
        schema_leave(s, at);
    }
    if (!n && json_object_get(flat, "enum"))
        schema_loosen(s, -ENOTSUP, "enum of all arguments is not supported");
    if (!n)
        schema_put_members(s, b, flat);
    schema_put(s, b, ")");
    json_decref(flat);
}

void schema_put_arguments(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *object = schema ? json_pack("{s:[{s:s},O]}", "allOf", "type", "object", schema)
                            : json_pack("{s:s}", "type", "object");
    if (!object)
        schema_fail(s, -ENOMEM, "out of memory");
    s->arguments = object;
    if (s->rc)
        ;
    else if (s->syntax == SCHEMA_JSON)
        schema_put_any(s, b, object);
    else
        put_objects(s, b, object);
    json_decref(object);
    s->arguments = NULL;
}
