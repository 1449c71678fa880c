#include "server/api_fields.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

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

/* Integers of more than 64 bits are JSON, but not for the parser: in the copy they are written as reals ("e0" behind
 * them). *copy: NULL where there are none. -ENOMEM. */
static int without_big_integers(const char *s, size_t n, char **copy, size_t *n_copy)
{
    enum { DIGITS = 19 }; /* what always fits has fewer */
    char *out = NULL;
    size_t k = 0, last = 0;
    for (size_t i = 0; i < n;) {
        size_t from = i;
        if (s[i] == '"')
            for (i++; i < n && s[i] != '"'; i++)
                i += s[i] == '\\';
        if (!(s[from] >= '0' && s[from] <= '9')) {
            i++;
            continue;
        }
        while (i < n && s[i] >= '0' && s[i] <= '9')
            i++;
        bool real = i < n && strchr(".eE", s[i]);
        if (i - from < DIGITS || real) {
            while (i < n && strchr("+-.eE0123456789", s[i]) && s[i])
                i++;
            continue;
        }
        if (!out && !(out = malloc(n + 2 * (n / DIGITS) + 1)))
            return -ENOMEM;
        memcpy(out + k, s + last, i - last);
        k += i - last;
        memcpy(out + k, "e0", 2);
        k += 2;
        last = i;
    }
    if (out)
        memcpy(out + k, s + last, n - last);
    *copy = out;
    *n_copy = k + n - last;
    return 0;
}

json_t *api_parse(const char *body, size_t n, struct api_problem *p)
{
    json_error_t e;
    bool no_memory;
    if (too_deep(body, n)) {
        api_refuse(p, 400, "invalid_json", NULL, "the request's JSON nests deeper than %d", MAX_DEPTH);
        return NULL;
    }
    if (n == 0) {
        api_refuse(p, 400, "invalid_json", NULL, "the request has no body, expected a JSON object");
        return NULL;
    }
    json_t *v = json_read(body, n, JSON_DECODE_ANY, &e, &no_memory);
    if (!v && !no_memory && json_error_code(&e) == json_error_numeric_overflow) {
        size_t n_copy;
        char *copy = NULL;
        no_memory = without_big_integers(body, n, &copy, &n_copy) != 0;
        if (copy)
            v = json_read(copy, n_copy, JSON_DECODE_ANY, &e, &no_memory);
        free(copy);
    }
    if (!v) {
        if (no_memory)
            api_refuse(p, 503, "out_of_memory", NULL, "out of memory for the request");
        else if (json_error_code(&e) == json_error_null_character || json_error_code(&e) == json_error_null_byte_in_key)
            api_refuse(p, 400, "unsupported", NULL, "line %d, column %d: a string holds the character \\u0000, which no "
                       "prompt can have: leave it out", e.line, e.column);
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
