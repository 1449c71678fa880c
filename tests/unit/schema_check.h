/* tests/unit/schema_check.h: whether a value satisfies a JSON schema, for the keywords that tests use, by the
 * specification and by nothing of ours. Patterns are POSIX extended regular expressions here. */
#ifndef ZINC_TESTS_UNIT_SCHEMA_CHECK_H
#define ZINC_TESTS_UNIT_SCHEMA_CHECK_H

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <string.h>

static bool schema_valid(const json_t *schema, const json_t *v, const json_t *root);

static bool matches(const char *pattern, const char *s)
{
    regex_t re;
    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        ck_abort_msg("pattern %s", pattern);
    bool yes = regexec(&re, s, 0, NULL, 0) == 0;
    regfree(&re);
    return yes;
}

static bool is_whole(const json_t *v)
{
    return json_is_integer(v) || (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)));
}

static bool of_type(const json_t *v, const char *t)
{
    return strcmp(t, "integer") == 0   ? is_whole(v)
           : strcmp(t, "number") == 0  ? json_is_number(v)
           : strcmp(t, "string") == 0  ? json_is_string(v)
           : strcmp(t, "boolean") == 0 ? json_is_boolean(v)
           : strcmp(t, "null") == 0    ? json_is_null(v)
           : strcmp(t, "array") == 0   ? json_is_array(v)
                                       : json_is_object(v);
}

static bool equal(const json_t *a, const json_t *b)
{
    return json_equal(a, b) || (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

static size_t n_characters(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

/* Bounds: is x at least (sign 1) or at most (sign -1) what the key says? */
static bool bound(const json_t *schema, const char *key, double x, int sign, bool excluded)
{
    const json_t *b = json_object_get(schema, key);
    double over = b ? (x - json_number_value(b)) * sign : 1;
    return over > 0 || (over == 0 && !excluded);
}

static bool valid_string(const json_t *schema, const char *s)
{
    static const char *const formats[][2] = {
        { "date", "^[0-9]{4}-[01][0-9]-[0-3][0-9]$" },
        { "ipv4", "^[0-9]{1,3}(\\.[0-9]{1,3}){3}$" },
        { "email", "^[^@]+@[^@]+$" },
        { "uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" },
    };
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(format, formats[i][0]) == 0 && !matches(formats[i][1], s))
            return false;
    double n = (double)n_characters(s);
    return bound(schema, "minLength", n, 1, false) && bound(schema, "maxLength", n, -1, false) &&
           (!pattern || matches(pattern, s));
}

static bool valid_number(const json_t *schema, double x)
{
    double m = json_number_value(json_object_get(schema, "multipleOf"));
    return bound(schema, "minimum", x, 1, false) && bound(schema, "maximum", x, -1, false) &&
           bound(schema, "exclusiveMinimum", x, 1, true) && bound(schema, "exclusiveMaximum", x, -1, true) &&
           (m == 0 || fabs(x / m - round(x / m)) < 1e-6);
}

static bool valid_array(const json_t *schema, const json_t *v, const json_t *root)
{
    const json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"), *x;
    size_t i, k, n = json_array_size(v);
    json_array_foreach ((json_t *)v, i, x) {
        const json_t *one = i < json_array_size(first) ? json_array_get(first, i) : items;
        if (one && !schema_valid(one, x, root))
            return false;
        for (k = 0; k < i && json_is_true(json_object_get(schema, "uniqueItems")); k++)
            if (equal(json_array_get(v, k), x))
                return false;
    }
    return bound(schema, "minItems", (double)n, 1, false) && bound(schema, "maxItems", (double)n, -1, false);
}

static bool valid_object(const json_t *schema, const json_t *v, const json_t *root)
{
    const json_t *properties = json_object_get(schema, "properties"), *more = json_object_get(schema, "additionalProperties");
    const json_t *names = json_object_get(schema, "propertyNames"), *x, *p;
    const char *key, *pattern;
    size_t i;
    json_object_foreach ((json_t *)v, key, x) {
        bool known = (p = json_object_get(properties, key)) != NULL;
        if (p && !schema_valid(p, x, root))
            return false;
        json_object_foreach (json_object_get(schema, "patternProperties"), pattern, p) {
            if (!matches(pattern, key))
                continue;
            known = true;
            if (!schema_valid(p, x, root))
                return false;
        }
        if (!known && more && !schema_valid(more, x, root))
            return false;
        if (names) {
            json_t *name = json_string(key);
            bool fits = schema_valid(names, name, root);
            json_decref(name);
            if (!fits)
                return false;
        }
    }
    json_array_foreach (json_object_get(schema, "required"), i, x)
        if (!json_object_get(v, json_string_value(x)))
            return false;
    double n = (double)json_object_size(v);
    return bound(schema, "minProperties", n, 1, false) && bound(schema, "maxProperties", n, -1, false);
}

/* "#/a/b" and "#". */
static const json_t *referred(const json_t *root, const char *ref)
{
    char key[64];
    for (ref++; root && *ref == '/';) {
        size_t n = strcspn(++ref, "/");
        snprintf(key, sizeof key, "%.*s", (int)n, ref);
        root = json_object_get(root, key);
        ref += n;
    }
    return root;
}

static bool valid_parts(const json_t *schema, const json_t *v, const json_t *root)
{
    const json_t *list, *x;
    size_t i;
    bool any;
    static const char *const some[] = { "anyOf", "oneOf" };
    if ((x = json_object_get(schema, "$ref")) && !schema_valid(referred(root, json_string_value(x)), v, root))
        return false;
    if ((x = json_object_get(schema, "not")) && schema_valid(x, v, root))
        return false;
    json_array_foreach (json_object_get(schema, "allOf"), i, x)
        if (!schema_valid(x, v, root))
            return false;
    for (size_t k = 0; k < 2; k++) {
        any = !(list = json_object_get(schema, some[k]));
        json_array_foreach ((json_t *)list, i, x)
            any |= schema_valid(x, v, root);
        if (!any)
            return false;
    }
    return true;
}

static bool schema_valid(const json_t *schema, const json_t *v, const json_t *root)
{
    const json_t *type = json_object_get(schema, "type"), *list, *x;
    size_t i;
    bool any = !type || json_is_string(type);
    if (json_is_boolean(schema))
        return json_is_true(schema);
    if (json_is_true(json_object_get(schema, "nullable")) && json_is_null(v))
        return true;
    json_array_foreach ((json_t *)type, i, x)
        any |= of_type(v, json_string_value(x));
    if (!any || (json_is_string(type) && !of_type(v, json_string_value(type))))
        return false;
    if ((x = json_object_get(schema, "const")) && !equal(x, v))
        return false;
    any = !(list = json_object_get(schema, "enum"));
    json_array_foreach ((json_t *)list, i, x)
        any |= equal(x, v);
    return any && valid_parts(schema, v, root) && (!json_is_string(v) || valid_string(schema, json_string_value(v))) &&
           (!json_is_number(v) || valid_number(schema, json_number_value(v))) &&
           (!json_is_array(v) || valid_array(schema, v, root)) && (!json_is_object(v) || valid_object(schema, v, root));
}

#endif
