#include "server/api_fields.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 200 };

int api_refuse(struct api_problem *p, int status, const char *code, const char *param, const char *fmt, ...)
{
    va_list ap;
    *p = (struct api_problem){ .status = status, .code = code };
    snprintf(p->param, sizeof p->param, "%s", param ? param : "");
    va_start(ap, fmt);
    vsnprintf(p->message, sizeof p->message, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

struct fields fields_at(const json_t *o, struct api_problem *p, const char *fmt, ...)
{
    struct fields f = { .o = o, .p = p };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.path, sizeof f.path, fmt, ap);
    va_end(ap);
    return f;
}

const char *fields_name(const struct fields *f, const char *name)
{
    static _Thread_local char buf[128];
    snprintf(buf, sizeof buf, "%s%s%s", f->path, f->path[0] && name[0] ? "." : "", name);
    return buf;
}

const char *json_kind(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return v ? names[json_typeof(v)] : "nothing";
}

/* NULL: absent or null. */
static const json_t *get(const struct fields *f, const char *name)
{
    const json_t *v = json_object_get(f->o, name);
    return json_is_null(v) ? NULL : v;
}

int field_type(const struct fields *f, const char *name, const char *expected, const json_t *v)
{
    const char *full = fields_name(f, name);
    return api_refuse(f->p, 400, "invalid_type", full, "'%s' is %s, expected %s", full, json_kind(v), expected);
}

int field_value(const struct fields *f, const char *name, const char *fmt, ...)
{
    char text[sizeof f->p->message];
    const char *full = fields_name(f, name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return api_refuse(f->p, 400, "invalid_value", full, "'%s' %s", full, text);
}

int fields_check(const struct fields *f)
{
    return json_is_object(f->o) ? 0 : field_type(f, "", "an object", f->o);
}

int field_bool(const struct fields *f, const char *name, bool *out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return field_type(f, name, "true or false", v);
    *out = json_is_true(v);
    return 1;
}

int field_int(const struct fields *f, const char *name, int64_t lo, int64_t hi, int64_t *out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    double d = json_number_value(v);
    bool whole = json_is_integer(v) || (json_is_real(v) && d >= -9e15 && d <= 9e15 && d == (double)(int64_t)d);
    if (!whole)
        return field_type(f, name, "an integer", v);
    int64_t i = json_is_integer(v) ? json_integer_value(v) : (int64_t)d;
    if (i < lo || i > hi)
        return field_value(f, name, "is %lld, expected %lld to %lld", (long long)i, (long long)lo, (long long)hi);
    *out = i;
    return 1;
}

int field_real(const struct fields *f, const char *name, double lo, double hi, double *out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    if (!json_is_number(v))
        return field_type(f, name, "a number", v);
    double d = json_number_value(v);
    if (!(d >= lo && d <= hi))
        return field_value(f, name, "is %g, expected %g to %g", d, lo, hi);
    *out = d;
    return 1;
}

int field_string(const struct fields *f, const char *name, const char **out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    if (!json_is_string(v))
        return field_type(f, name, "a string", v);
    *out = json_string_value(v);
    return 1;
}

int field_object(const struct fields *f, const char *name, const json_t **out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    if (!json_is_object(v))
        return field_type(f, name, "an object", v);
    *out = v;
    return 1;
}

int field_array(const struct fields *f, const char *name, const json_t **out)
{
    const json_t *v = get(f, name);
    if (!v)
        return 0;
    if (!json_is_array(v))
        return field_type(f, name, "an array", v);
    *out = v;
    return 1;
}

/* Parsers of trees recurse: how deep is found before. What is no JSON may count wrong, but never too little before
 * the parser gives up. */
static bool too_deep(const char *s, size_t n)
{
    size_t depth = 0;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        if (string && s[i] == '\\')
            i++;
        else if (s[i] == '"')
            string = !string;
        else if (!string && (s[i] == '{' || s[i] == '['))
            depth++;
        else if (!string && depth && (s[i] == '}' || s[i] == ']'))
            depth--;
        if (depth > MAX_DEPTH)
            return true;
    }
    return false;
}

json_t *api_parse(const char *body, size_t n, struct api_problem *p)
{
    json_error_t e;
    if (too_deep(body, n)) {
        api_refuse(p, 400, "invalid_json", NULL, "the request's JSON nests deeper than %d", MAX_DEPTH);
        return NULL;
    }
    if (n == 0) {
        api_refuse(p, 400, "invalid_json", NULL, "the request has no body, expected a JSON object");
        return NULL;
    }
    json_t *v = json_loadb(body, n, JSON_DECODE_ANY, &e);
    if (!v) {
        if (json_error_code(&e) == json_error_out_of_memory)
            api_refuse(p, 503, NULL, NULL, "out of memory for the request");
        else
            api_refuse(p, 400, "invalid_json", NULL, "the request is not JSON: line %d, column %d: %s", e.line,
                       e.column, e.text);
        return NULL;
    }
    if (!json_is_object(v)) {
        api_refuse(p, 400, "invalid_json", NULL, "the request is %s, expected a JSON object", json_kind(v));
        json_decref(v);
        return NULL;
    }
    return v;
}
