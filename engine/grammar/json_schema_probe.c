/* What can be said of schemas before they are written: whether a value satisfies one, whether nothing can, and which
 * alternatives of a oneOf exclude each other. */
#include <math.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_PROBED = 20000, MAX_PROBE_DEPTH = 12, MAX_PAIRS = 1 << 16 };

/* ---- without a trace ----------------------------------------------------------------------------------- */

struct kept {
    json_t *warnings;
    struct err *e;
    bool strict;
    uint32_t n_merged;
};

static struct kept begin(struct schema *s)
{
    struct kept k = { s->warnings, s->e, s->strict, s->n_merged };
    uint64_t work = s->work;
    s->warnings = NULL;
    s->e = NULL;
    s->strict = false;
    s->n_merged = 0;
    s->probing++;
    s->work = s->probe_work;
    s->probe_work = work;
    return k;
}

/* True where what was tried went well. */
static bool end(struct schema *s, const struct kept *k, bool *impossible)
{
    int rc = s->rc;
    uint64_t work = s->work;
    s->work = s->probe_work;
    s->probe_work = work;
    s->warnings = k->warnings;
    s->e = k->e;
    s->strict = k->strict;
    s->n_probed += s->n_merged + 1;
    s->n_merged = k->n_merged;
    s->probing--;
    *impossible = rc && s->impossible;
    s->rc = 0;
    s->impossible = false;
    if (rc == -ENOMEM)
        schema_fail(s, -ENOMEM, "out of memory");
    return !rc;
}

static bool may_probe(const struct schema *s)
{
    return !s->rc && s->n_probed < MAX_PROBED && s->probing < MAX_PROBE_DEPTH;
}

/* As schema_flatten, but NULL, without an error, where that fails. */
static json_t *flatten(struct schema *s, json_t *schema, bool *impossible)
{
    *impossible = false;
    if (!may_probe(s))
        return NULL;
    struct kept k = begin(s);
    json_t *flat = schema_flatten(s, schema);
    end(s, &k, impossible);
    return flat;
}

/* ---- does a value satisfy it? -------------------------------------------------------------------------- */

static bool unsatisfiable(struct schema *s, json_t *schema);

static bool satisfies(struct schema *s, json_t *schema, json_t *v)
{
    json_t *both = json_pack("{s:[O,{s:[O]}]}", "allOf", schema, "enum", v);
    bool yes = both && !unsatisfiable(s, both);
    if (!both)
        schema_fail(s, -ENOMEM, "out of memory");
    json_decref(both);
    return yes;
}

static bool allows_elements(struct schema *s, json_t *flat, json_t *v)
{
    json_t *items = json_object_get(flat, "items"), *first = json_object_get(flat, "prefixItems"), *x, *rule;
    size_t i, k, n = json_array_size(v);
    if (n < schema_count(s, flat, "minItems", 0) || n > schema_count(s, flat, "maxItems", UINT64_MAX))
        return false;
    if (json_is_array(items)) {
        first = items;
        items = json_object_get(flat, "additionalItems");
    }
    json_array_foreach(v, i, x) {
        rule = i < json_array_size(first) ? json_array_get(first, i) : items;
        if (rule && !satisfies(s, rule, x))
            return false;
        for (k = 0; k < i && json_is_true(json_object_get(flat, "uniqueItems")); k++)
            if (schema_equal(json_array_get(v, k), x))
                return false;
    }
    return true;
}

static bool allows_members(struct schema *s, json_t *flat, json_t *v)
{
    json_t *properties = json_object_get(flat, "properties"), *more = json_object_get(flat, "additionalProperties");
    json_t *patterned = json_object_get(flat, "patternProperties"), *x;
    const char *key;
    size_t i, n = json_object_size(v);
    if (n < schema_count(s, flat, "minProperties", 0) || n > schema_count(s, flat, "maxProperties", UINT64_MAX))
        return false;
    json_array_foreach(json_object_get(flat, "required"), i, x)
        if (!json_object_get(v, json_string_value(x)))
            return false;
    json_object_foreach(v, key, x) {
        json_t *rule = json_object_get(properties, key);
        if (!rule && !patterned)
            rule = more;
        if (rule && !satisfies(s, rule, x))
            return false;
    }
    return true;
}

bool schema_allows(struct schema *s, json_t *flat, json_t *v)
{
    double m = json_number_value(json_object_get(flat, "multipleOf")), q = m > 0 ? json_number_value(v) / m : 0;
    if (s->rc)
        return true;
    return !(json_is_number(v) && fabs(q - round(q)) > 1e-9 * MAX(1, fabs(q))) &&
           (!json_is_array(v) || allows_elements(s, flat, v)) && (!json_is_object(v) || allows_members(s, flat, v));
}

/* ---- can nothing satisfy it? --------------------------------------------------------------------------- */

static bool unsatisfiable(struct schema *s, json_t *schema);

static bool no_number(json_t *flat)
{
    json_t *lo = json_object_get(flat, "minimum"), *hi = json_object_get(flat, "maximum");
    json_t *above = json_object_get(flat, "exclusiveMinimum"), *below = json_object_get(flat, "exclusiveMaximum");
    double least = json_is_number(lo) ? json_number_value(lo) : -INFINITY;
    double most = json_is_number(hi) ? json_number_value(hi) : INFINITY;
    bool open = json_is_true(above) || json_is_true(below);
    if (json_is_number(above) && json_number_value(above) >= least) {
        least = json_number_value(above);
        open = true;
    }
    if (json_is_number(below) && json_number_value(below) <= most) {
        most = json_number_value(below);
        open = true;
    }
    return least > most || (least == most && open);
}

static bool no_string(struct schema *s, json_t *flat)
{
    struct strings set = { 0 };
    bool impossible;
    if (schema_count(s, flat, "minLength", 0) > schema_count(s, flat, "maxLength", UINT64_MAX))
        return true;
    struct kept k = begin(s);
    schema_strings(s, flat, &set);
    strings_finish(&set);
    end(s, &k, &impossible);
    return impossible;
}

static bool no_object(struct schema *s, json_t *flat)
{
    json_t *properties = json_object_get(flat, "properties"), *name, *value;
    bool closed = json_is_false(json_object_get(flat, "additionalProperties"));
    closed = closed && !json_object_get(flat, "patternProperties");
    size_t i;
    json_array_foreach(json_object_get(flat, "required"), i, name) {
        value = json_object_get(properties, json_string_value(name));
        if (value ? unsatisfiable(s, value) : closed)
            return true;
    }
    return schema_count(s, flat, "minProperties", 0) > schema_count(s, flat, "maxProperties", UINT64_MAX);
}

static bool nothing_of_type(struct schema *s, json_t *flat, const char *type)
{
    if (!strcmp(type, "object"))
        return no_object(s, flat);
    if (!strcmp(type, "array"))
        return schema_count(s, flat, "minItems", 0) > schema_count(s, flat, "maxItems", UINT64_MAX);
    if (!strcmp(type, "string"))
        return no_string(s, flat);
    return (!strcmp(type, "integer") || !strcmp(type, "number")) && no_number(flat);
}

static bool nothing_in_flat(struct schema *s, json_t *flat)
{
    json_t *types, *list, *whole, *t;
    bool none = true, impossible, some;
    size_t i, n = json_array_size(json_object_get(flat, "anyOf"));
    if (!may_probe(s) || json_is_true(json_object_get(flat, "nullable")))
        return false;
    if (n) {
        for (i = 0; i < n && none; i++) {
            whole = schema_alternative(s, flat, i);
            none = unsatisfiable(s, whole);
            json_decref(whole);
        }
        return none;
    }
    if (json_object_get(flat, "enum")) {
        struct kept k = begin(s);
        list = schema_enum(s, flat);
        json_decref(list);
        end(s, &k, &impossible);
        return impossible;
    }
    if (!json_object_get(flat, "type"))
        return false;
    struct kept k = begin(s);
    types = schema_type_names(s, flat);
    end(s, &k, &impossible);
    some = json_array_size(types);
    json_array_foreach(types, i, t)
        none = none && json_is_string(t) && nothing_of_type(s, flat, json_string_value(t));
    json_decref(types);
    return impossible || (some && none);
}

/* Only what can be shown: false may be said of what nothing satisfies. */
static bool unsatisfiable(struct schema *s, json_t *schema)
{
    bool impossible = json_is_false(schema);
    json_t *flat = json_is_object(schema) ? flatten(s, schema, &impossible) : NULL;
    if (flat) {
        struct kept k = begin(s);
        bool none = nothing_in_flat(s, flat), ignored;
        end(s, &k, &ignored);
        impossible = none;
    }
    json_decref(flat);
    return impossible;
}

void schema_drop_alternatives(struct schema *s, json_t *flat)
{
    json_t *all = json_object_get(flat, "anyOf"), *whole, *left;
    size_t i, n = json_array_size(all);
    bool alone = json_object_size(flat) == 1;
    if (!n || s->probing > 1 || s->rc)
        return;
    if (!(left = json_array())) {
        schema_fail(s, -ENOMEM, "out of memory");
        return;
    }
    for (i = 0; i < n && !s->rc; i++) {
        whole = alone && !json_object_get(json_array_get(all, i), "allOf") ? NULL : schema_alternative(s, flat, i);
        if ((!whole || !unsatisfiable(s, whole)) && json_array_append(left, json_array_get(all, i)))
            schema_fail(s, -ENOMEM, "out of memory");
        json_decref(whole);
    }
    if (!json_array_size(left))
        schema_impossible(s, "anyOf: no alternative can be satisfied together with what stands beside it");
    else if (json_array_size(left) < n && json_object_set(flat, "anyOf", left))
        schema_fail(s, -ENOMEM, "out of memory");
    json_decref(left);
}

/* ---- oneOf --------------------------------------------------------------------------------------------- */

/* What zinc writes for an alternative, as a schema: no members beside those that have names. */
static json_t *as_written(json_t *flat)
{
    json_t *out = json_copy(flat);
    if (json_object_size(json_object_get(flat, "properties")) && !json_object_get(flat, "additionalProperties") &&
        !json_object_get(flat, "anyOf") && !json_object_get(flat, "patternProperties")) {
        json_t *properties = json_copy(json_object_get(flat, "properties")), *name;
        size_t i;
        json_array_foreach(json_object_get(flat, "required"), i, name)
            if (!json_object_get(properties, json_string_value(name)))
                json_object_set_new(properties, json_string_value(name), json_true());
        json_object_set_new(out, "properties", properties);
        json_object_set_new(out, "additionalProperties", json_false());
    }
    return out;
}

/* The one value that a schema says by const, or NULL. */
static json_t *const_of(json_t *flat, const char *key)
{
    return json_object_get(json_object_get(json_object_get(flat, "properties"), key), "const");
}

/* By a member that must be there and has another value in each: the usual way to tell objects apart, and quickly seen. */
static bool told_apart(json_t *a, json_t *b)
{
    json_t *name;
    size_t i;
    json_array_foreach(json_object_get(a, "required"), i, name) {
        json_t *x = const_of(a, json_string_value(name)), *y = const_of(b, json_string_value(name));
        if (json_is_string(x) && json_is_string(y) && !json_equal(x, y))
            return true;
    }
    return false;
}

static bool is_object(json_t *flat)
{
    json_t *types = json_object_get(flat, "type");
    const char *only = json_array_size(types) == 1 ? json_string_value(json_array_get(types, 0)) : NULL;
    return only && !strcmp(only, "object");
}

static bool excludes(struct schema *s, json_t *a, json_t *b)
{
    if (is_object(a) && is_object(b) && told_apart(a, b))
        return true;
    json_t *both = json_pack("{s:[O,O]}", "allOf", a, b);
    bool none = both && unsatisfiable(s, both);
    json_decref(both);
    return none;
}

json_t *schema_exclude_others(struct schema *s, json_t *list, bool alone)
{
    size_t n = json_array_size(list), i, k;
    json_t *out = json_array(), *flat = json_array(), *written, *x, *made;
    bool impossible, all = n * n <= MAX_PAIRS, told = false;
    for (i = 0; i < n; i++) {
        x = flatten(s, json_array_get(list, i), &impossible);
        json_array_append_new(flat, x ? x : impossible ? json_false() : json_object());
    }
    for (i = 0; i < n && !s->rc; i++) {
        written = json_is_object(json_array_get(flat, i)) && alone ? as_written(json_array_get(flat, i))
                                                                    : json_incref(json_array_get(flat, i));
        made = json_incref(json_array_get(list, i));
        for (k = 0; k < n && !s->rc; k++) {
            x = json_array_get(list, k);
            if (k == i || (all && excludes(s, written, json_array_get(flat, k))))
                continue;
            if (schema_can_negate(x))
                made = json_pack("{s:[o,{s:O}]}", "allOf", made, "not", x);
            else if (!told) {
                told = true;
                schema_loosen(s, -ENOTSUP, "oneOf: that no value is of both %zu and %zu cannot be held to", MIN(i, k),
                              MAX(i, k));
            }
        }
        json_decref(written);
        if (!made || json_array_append_new(out, made))
            schema_fail(s, -ENOMEM, "out of memory");
    }
    json_decref(flat);
    return out;
}
