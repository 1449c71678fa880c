/* The request's tools: functions by name, and the types of their parameters. */
#include <errno.h>
#include <math.h>

#include "base/ckd.h"
#include "engine/answer_impl.h"

const json_t *answer_tool_function(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return f ? f : tool;
}

int answer_tools_read(const char *text, json_t **tools, struct err *e)
{
    json_error_t je;
    *tools = NULL;
    if (!text)
        return 0;
    json_t *v = json_loads(text, JSON_ALLOW_NUL, &je);
    int rc = 0;
    if (!v)
        rc = err_set(e, -EINVAL, "tools: not JSON: line %d: %.100s", je.line, je.text);
    else if (!json_is_array(v))
        rc = err_set(e, -EINVAL, "tools: not an array");
    for (size_t i = 0; !rc && i < json_array_size(v); i++)
        if (!json_string_length(json_object_get(answer_tool_function(json_array_get(v, i)), "name")))
            rc = err_set(e, -EINVAL, "tools[%zu]: no function with a name", i);
    if (rc || !json_array_size(v)) {
        json_decref(v);
        return rc;
    }
    *tools = v;
    return 0;
}

const json_t *answer_tool_find(const json_t *tools, const char *name, size_t n, bool prefix)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        const json_t *f = answer_tool_function(tool), *s = json_object_get(f, "name");
        size_t len = json_string_length(s);
        if ((prefix ? len >= n : len == n) && memcmp(json_string_value(s), name, n) == 0)
            return f;
    }
    return NULL;
}

/* ---- types ---- */

static unsigned type_by_name(const char *name)
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

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return TYPE_BOOLEAN;
    case JSON_NULL: return TYPE_NULL;
    case JSON_OBJECT: return TYPE_OBJECT;
    case JSON_ARRAY: return TYPE_ARRAY;
    }
    return 0;
}

/* "#/$defs/NAME" and the like; NULL: nothing is there. */
static const json_t *follow(const json_t *root, const char *ref)
{
    if (*ref++ != '#')
        return NULL;
    while (root && *ref == '/') {
        char key[128];
        size_t n = strcspn(++ref, "/");
        if (n >= sizeof key)
            return NULL;
        memcpy(key, ref, n);
        key[n] = 0;
        root = json_object_get(root, key);
        ref += n;
    }
    return root;
}

static unsigned types_of(const json_t *schema, const json_t *root, int depth)
{
    const json_t *v, *list;
    unsigned types = 0;
    size_t i;
    if (!json_is_object(schema) || depth > 16)
        return TYPE_ANY;
    if ((v = json_object_get(schema, "type"))) {
        if (json_is_string(v))
            return type_by_name(json_string_value(v));
        json_array_foreach (v, i, list)
            types |= type_by_name(json_string_value(list));
    } else if ((v = json_object_get(schema, "const"))) {
        types = type_of(v);
    } else if ((v = json_object_get(schema, "enum"))) {
        json_array_foreach (v, i, list)
            types |= type_of(list);
    } else if ((v = json_object_get(schema, "anyOf")) || (v = json_object_get(schema, "oneOf"))) {
        json_array_foreach (v, i, list)
            types |= types_of(list, root, depth + 1);
    } else if ((v = json_object_get(schema, "allOf"))) {
        types = TYPE_ANY;
        json_array_foreach (v, i, list)
            types &= types_of(list, root, depth + 1);
    } else if (json_is_string(v = json_object_get(schema, "$ref"))) {
        return types_of(follow(root, json_string_value(v)), root, depth + 1);
    }
    return types ? types : TYPE_ANY;
}

unsigned answer_types(const json_t *schema, const json_t *root)
{
    return types_of(schema, root, 0);
}

unsigned answer_parameter_types(const json_t *tools, const char *function, const char *key, size_t n_key)
{
    const json_t *params = json_object_get(answer_tool_find(tools, function, strlen(function), false), "parameters");
    const json_t *schema = json_object_getn(json_object_get(params, "properties"), key, n_key);
    return schema ? answer_types(schema, params) : TYPE_STRING;
}

/* ---- values ---- */

unsigned answer_value_type(const char *s, size_t n, const char **word)
{
    static const struct {
        const char *python, *json;
        unsigned type;
    } words[] = { { "True", "true", TYPE_BOOLEAN }, { "False", "false", TYPE_BOOLEAN }, { "None", "null", TYPE_NULL } };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (n == strlen(words[i].python) && memcmp(s, words[i].python, n) == 0) {
            *word = words[i].json;
            return words[i].type;
        }
    }
    json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    unsigned type = v ? type_of(v) : 0;
    if (!v && (v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL)))
        type = type_of(v) == TYPE_NUMBER ? TYPE_INTEGER : type_of(v); /* an integer of more than 64 bits */
    if (type == TYPE_NUMBER && json_real_value(v) == floor(json_real_value(v)))
        type |= TYPE_INTEGER; /* 5.0 */
    json_decref(v);
    return type;
}
