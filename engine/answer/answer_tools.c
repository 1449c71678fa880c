/* The request's tools: functions by name, and the types of their parameters. */
#include <errno.h>
#include <math.h>

#include "base/ckd.h"
#include "base/json.h"
#include "engine/answer/answer_impl.h"

const json_t *answer_tool_function(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return f ? f : tool;
}

int answer_tools_read(const char *text, json_t **tools, struct err *e)
{
    json_error_t je;
    bool no_memory;
    *tools = NULL;
    if (!text)
        return 0;
    json_t *v = json_read(text, strlen(text), JSON_ALLOW_NUL, &je, &no_memory);
    int rc = 0;
    if (!v && no_memory)
        rc = err_set(e, -ENOMEM, "tools: out of memory");
    else if (!v)
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

enum json_schema_text answer_parameter(const json_t *tools, const char *function, const char *key, size_t n_key,
                                       unsigned *types)
{
    const json_t *f = answer_tool_find(tools, function, strlen(function), false);
    return json_schema_parameter(json_object_get(f, "parameters"), key, n_key, types);
}

/* ---- values ---- */

static unsigned type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER;
    case JSON_TRUE: return TYPE_TRUE;
    case JSON_FALSE: return TYPE_FALSE;
    case JSON_NULL: return TYPE_NULL;
    case JSON_OBJECT: return TYPE_OBJECT;
    case JSON_ARRAY: return TYPE_ARRAY;
    }
    return 0;
}

int answer_value_type(const char *s, size_t n, const char **word)
{
    static const struct {
        const char *python, *json;
        unsigned type;
    } words[] = { { "True", "true", TYPE_TRUE }, { "False", "false", TYPE_FALSE }, { "None", "null", TYPE_NULL } };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (n == strlen(words[i].python) && memcmp(s, words[i].python, n) == 0) {
            *word = words[i].json;
            return (int)words[i].type;
        }
    }
    bool no_memory;
    json_t *v = json_read(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, &no_memory);
    int type = v ? (int)type_of(v) : 0;
    if (!v && !no_memory &&
        (v = json_read(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, &no_memory)))
        type = type_of(v) == TYPE_NUMBER ? TYPE_INTEGER : (int)type_of(v); /* an integer of more than 64 bits */
    if (type == TYPE_NUMBER && json_real_value(v) == floor(json_real_value(v)))
        type |= TYPE_INTEGER; /* 5.0 */
    json_decref(v);
    return no_memory ? -ENOMEM : type;
}
