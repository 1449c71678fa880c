/* tools, tool_choice and parallel_tool_calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

enum { MAX_TOOLS = 512, MAX_NAME = 128 };

/* Names are written into prompts and grammars, between marks of the chat format. */
static bool good_name(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
    size_t n = strspn(s, letters);
    return n && n <= MAX_NAME && !s[n];
}

static int check_tool(const struct fields *f)
{
    const char *type = NULL, *name = NULL, *description;
    const json_t *o, *parameters;
    bool strict;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0 ||
        (rc = field_object(f, "function", &o)) < 0)
        return rc;
    if (type && strcmp(type, "function") != 0)
        return api_refuse(f->p, 400, "unsupported", fields_name(f, "type"),
                          "'%s' is '%.64s': only tools of type function are supported", fields_name(f, "type"), type);
    if (!rc)
        return api_refuse(f->p, 400, "missing_field", f->path, "'%s' has no 'function'", f->path);
    struct fields function = fields_at(o, f->p, "%.70s.function", f->path);
    if ((rc = field_string(&function, "name", &name)) < 0 ||
        (rc = field_string(&function, "description", &description)) < 0 ||
        (rc = field_bool(&function, "strict", &strict)) < 0 ||
        (rc = field_object(&function, "parameters", &parameters)) < 0)
        return rc;
    if (!name || !good_name(name))
        return field_value(&function, "name", "must be 1 to %d of the characters a-z A-Z 0-9 _ - . : /", MAX_NAME);
    return 0;
}

/* null is as if it were not there, also for who reads the text: as a schema it would be wrong, in a prompt a word. */
static void drop_nulls(json_t *tool)
{
    static const char *const names[] = { "description", "parameters", "strict" };
    json_t *function = json_object_get(tool, "function");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_is_null(json_object_get(function, names[i])))
            json_object_del(function, names[i]);
}

static bool has_tool(const json_t *tools, const char *name)
{
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)tools, i, v)
    {
        const char *s = json_string_value(json_object_get(json_object_get(v, "function"), "name"));
        if (s && strcmp(s, name) == 0)
            return true;
    }
    return false;
}

static int choose_named(const struct fields *f, const json_t *v, const json_t *tools, struct api_request *r)
{
    struct fields choice = fields_at(v, f->p, "tool_choice");
    const json_t *o;
    const char *name = NULL, *type = NULL;
    int rc = field_string(&choice, "type", &type);
    if (type && strcmp(type, "function") != 0)
        return field_value(&choice, "type", "is '%.64s', expected function or allowed_tools", type);
    if (rc >= 0)
        rc = field_object(&choice, "function", &o);
    if (rc == 1) {
        struct fields function = fields_at(o, f->p, "tool_choice.function");
        rc = field_string(&function, "name", &name);
    }
    if (rc < 0)
        return rc;
    if (!name)
        return field_value(f, "tool_choice",
                           "as an object must be {\"type\":\"function\",\"function\":{\"name\":..}}");
    if (!has_tool(tools, name))
        return field_value(f, "tool_choice", "names '%.64s', which is none of 'tools'", name);
    r->choice = ANSWER_TOOLS_NAMED;
    r->named = name;
    return 0;
}

/* {"type":"allowed_tools","allowed_tools":{"mode":"auto" or "required","tools":[{"type":"function","function":{"name":..}}]}}:
 * of the tools only these. *kept is a new array. */
static int choose_allowed(const struct fields *f, const json_t *v, const json_t *tools, json_t **kept,
                          struct api_request *r)
{
    const json_t *o, *list = NULL, *inner;
    const char *mode = "auto";
    struct fields choice = fields_at(v, f->p, "tool_choice");
    int rc = field_object(&choice, "allowed_tools", &o);
    if (rc < 0)
        return rc;
    struct fields in = fields_at(rc ? o : v, f->p, rc ? "tool_choice.allowed_tools" : "tool_choice");
    if ((rc = field_string(&in, "mode", &mode)) < 0 || (rc = field_array(&in, "tools", &list)) < 0)
        return rc;
    if (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0)
        return field_value(&in, "mode", "is '%.64s', expected auto or required", mode);
    size_t n = json_array_size(list);
    if (!n || n > MAX_TOOLS)
        return field_value(&in, "tools", "has %zu tools, expected 1 to %d of those in 'tools'", n, MAX_TOOLS);
    *kept = json_array();
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        inner = json_object_get(one, "function");
        const char *name = json_string_value(json_object_get(inner ? inner : one, "name"));
        if (!name || !has_tool(tools, name))
            return field_value(&in, "tools", "names '%.64s', which is none of 'tools'", name ? name : "");
        for (size_t k = 0; k < json_array_size(tools); k++) {
            json_t *tool = json_array_get(tools, k);
            const char *s = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
            if (s && strcmp(s, name) == 0 && !has_tool(*kept, name) && json_array_append(*kept, tool)) {
                api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
                return -ENOMEM;
            }
        }
    }
    r->choice = *mode == 'a' ? ANSWER_TOOLS_AUTO : ANSWER_TOOLS_REQUIRED;
    return 0;
}

static int read_choice(const struct fields *f, const json_t *tools, json_t **kept, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, "tool_choice");
    const char *s = json_string_value(v);
    if (!v || json_is_null(v))
        return 0;
    const char *type = json_string_value(json_object_get(v, "type"));
    if (type && strcmp(type, "allowed_tools") == 0)
        return choose_allowed(f, v, tools, kept, r);
    if (json_is_object(v))
        return choose_named(f, v, tools, r);
    if (!s)
        return field_type(f, "tool_choice", "a string or an object", v);
    if (strcmp(s, "none") == 0)
        r->choice = ANSWER_TOOLS_NONE;
    else if (strcmp(s, "required") == 0)
        r->choice = ANSWER_TOOLS_REQUIRED;
    else if (strcmp(s, "auto") != 0)
        return field_value(f, "tool_choice", "is '%.64s', expected none, auto, required or a function", s);
    if (r->choice == ANSWER_TOOLS_REQUIRED && !tools)
        return field_value(f, "tool_choice", "is required, but there are no 'tools'");
    return 0;
}

static int refuse_functions(const struct fields *f)
{
    static const char *const names[][2] = { { "functions", "tools" }, { "function_call", "tool_choice" } };
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(f->o, names[i][0]);
        if (v && !json_is_null(v))
            return api_refuse(f->p, 400, "unsupported", names[i][0], "'%s' is not supported, use '%s'", names[i][0],
                              names[i][1]);
    }
    return 0;
}

bool api_request_has_tool(const json_t *tools, const char *name)
{
    return name && has_tool(tools, name);
}

int api_request_tool_add(const struct fields *f, const char *schema, json_t *list)
{
    const char *name = NULL, *description = NULL;
    const json_t *parameters = NULL;
    bool strict = false;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "name", &name)) < 0 ||
        (rc = field_string(f, "description", &description)) < 0 || (rc = field_bool(f, "strict", &strict)) < 0 ||
        (rc = field_object(f, schema, &parameters)) < 0)
        return rc;
    if (!name || !good_name(name))
        return field_value(f, "name", "must be 1 to %d of the characters a-z A-Z 0-9 _ - . : /", MAX_NAME);
    if (json_array_size(list) >= MAX_TOOLS)
        return field_value(f, "name", "is of too many tools, at most %d can be given", MAX_TOOLS);
    json_t *tool = json_pack("{s:s,s:{s:s,s:s*,s:O*,s:b}}", "type", "function", "function", "name", name, "description",
                             description, "parameters", parameters, "strict", (int)strict);
    if (json_array_append_new(list, tool)) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    return 0;
}

int api_request_tools_set(const struct fields *f, const json_t *list, struct api_request *r)
{
    if (!json_array_size(list) || r->choice == ANSWER_TOOLS_NONE)
        return 0;
    char *text = json_write(list, JSON_COMPACT);
    r->tools = text;
    return api_request_own(r, text, f->p);
}

int api_request_tools(const struct fields *f, struct api_request *r)
{
    const json_t *tools = NULL;
    int rc;
    if ((rc = refuse_functions(f)) < 0 || (rc = field_array(f, "tools", &tools)) < 0 ||
        (rc = field_bool(f, "parallel_tool_calls", &r->parallel)) < 0)
        return rc;
    size_t n = json_array_size(tools);
    if (n > MAX_TOOLS)
        return field_value(f, "tools", "has %zu tools, at most %d can be given", n, MAX_TOOLS);
    if (!n)
        tools = NULL;
    for (size_t i = 0; i < n; i++) {
        struct fields tool = fields_at(json_array_get(tools, i), f->p, "tools[%zu]", i);
        if ((rc = check_tool(&tool)) < 0)
            return rc;
        drop_nulls(json_array_get(tools, i));
    }
    json_t *kept = NULL;
    if ((rc = read_choice(f, tools, &kept, r)) < 0 || !tools || r->choice == ANSWER_TOOLS_NONE) {
        json_decref(kept);
        return rc < 0 ? rc : 0;
    }
    char *text = json_write(kept ? kept : tools, JSON_COMPACT);
    json_decref(kept);
    r->tools = text;
    return api_request_own(r, text, f->p);
}
