/* One schema out of several: references, allOf, and alternatives with keywords beside them. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_REFS = 64, MAX_MERGED = 100000, MAX_ALTERNATIVES = 256 };

static void merge(struct schema *s, json_t *into, json_t *from, uint32_t refs);

static void need_memory(struct schema *s, bool ok)
{
    if (!ok)
        schema_fail(s, -ENOMEM, "out of memory");
}

static void set_new(struct schema *s, json_t *object, const char *key, json_t *value)
{
    need_memory(s, value && json_object_set_new(object, key, value) == 0);
}

/* ---- references ---------------------------------------------------------------------------------------- */

/* One step of a JSON pointer, with ~0, ~1 and %XX decoded; returns what follows it. */
static const char *pointer_step(const char *p, char *key, size_t cap)
{
    size_t n = 0;
    for (p++; *p && *p != '/'; p++) {
        char c = *p, hex[3] = { 0 }, *end;
        if (c == '~' && (p[1] == '0' || p[1] == '1'))
            c = *++p == '0' ? '~' : '/';
        else if (c == '%' && p[1] && p[2]) {
            memcpy(hex, p + 1, 2);
            c = (char)strtoul(hex, &end, 16);
            if (*end)
                c = '%';
            else
                p += 2;
        }
        if (n + 1 < cap)
            key[n++] = c;
    }
    key[n] = 0;
    return p;
}

json_t *schema_resolve(struct schema *s, const char *ref)
{
    json_t *at = (json_t *)s->root;
    char key[512], *end;
    if (*ref != '#' || (ref[1] && ref[1] != '/')) {
        schema_loosen(s, -ENOTSUP, "$ref %.100s: only references inside the schema (#/...) are supported", ref);
        return NULL;
    }
    for (const char *p = ref + 1; *p == '/' && at;) {
        p = pointer_step(p, key, sizeof key);
        at = json_is_array(at) ? json_array_get(at, strtoul(key, &end, 10)) : json_object_get(at, key);
    }
    if (!at)
        schema_fail(s, -EINVAL, "$ref %.100s leads nowhere", ref);
    return at;
}

/* ---- keywords that cannot be done ---------------------------------------------------------------------- */

static bool is_note(const char *key)
{
    return !strcmp(key, "title") || !strcmp(key, "description") || !strcmp(key, "$comment");
}

/* The one keyword of a schema that says nothing else, or NULL. */
static const char *only_keyword(json_t *schema)
{
    const char *key, *only = NULL;
    json_t *v;
    json_object_foreach(schema, key, v) {
        if (is_note(key))
            continue;
        if (only)
            return NULL;
        only = key;
    }
    return only;
}

bool schema_can_negate(json_t *v)
{
    const char *key = only_keyword(v);
    json_t *x = key ? json_object_get(v, key) : NULL;
    if (!key)
        return false;
    return !strcmp(key, "const") || (!strcmp(key, "enum") && json_array_size(x)) ||
           (!strcmp(key, "type") && (json_is_string(x) || json_is_array(x))) ||
           (!strcmp(key, "pattern") && json_is_string(x)) || (!strcmp(key, "required") && json_array_size(x) == 1);
}

static void check_keywords(struct schema *s, json_t *schema)
{
    static const char *const refused[] = {
        "if",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "unevaluatedProperties",
        "unevaluatedItems",
        "$dynamicRef",
        "$recursiveRef",
    };
    for (size_t i = 0; i < ARRAY_LEN(refused) && !s->rc; i++) {
        json_t *v = json_object_get(schema, refused[i]);
        bool closed = v && !strncmp(refused[i], "unevaluated", 11) && json_is_boolean(v);
        if (v && !closed && (!json_is_object(v) || json_object_size(v) || !strcmp(refused[i], "contains")))
            schema_loosen(s, -ENOTSUP, "%s is not supported", refused[i]);
    }
}

/* ---- merging ------------------------------------------------------------------------------------------- */

static json_t *both(json_t *a, json_t *b)
{
    return json_pack("{s:[O,O]}", "allOf", a, b);
}

/* A property that only one side names, under the other's additionalProperties: itself, both of them, or NULL. */
static json_t *under(json_t *property, json_t *additional)
{
    if (json_is_false(additional))
        return NULL;
    return json_is_object(additional) && json_object_size(additional) ? both(property, additional)
                                                                      : json_incref(property);
}

static void merge_properties(struct schema *s, json_t *into, json_t *from)
{
    json_t *a = json_object_get(into, "properties"), *b = json_object_get(from, "properties"), *v, *other;
    json_t *more_a = json_object_get(into, "additionalProperties"),
           *more_b = json_object_get(from, "additionalProperties");
    json_t *all = json_object();
    const char *key;
    if ((a && !json_is_object(a)) || (b && !json_is_object(b)))
        schema_fail(s, -EINVAL, "properties is not an object");
    json_object_foreach(a, key, v) {
        other = json_object_get(b, key);
        json_t *made = other ? both(v, other) : under(v, more_b);
        if (made)
            set_new(s, all, key, made);
    }
    json_object_foreach(b, key, v) {
        json_t *made = json_object_get(a, key) ? NULL : under(v, more_a);
        if (made)
            set_new(s, all, key, made);
    }
    if (json_is_object(more_a) && json_is_object(more_b))
        set_new(s, into, "additionalProperties", both(more_a, more_b));
    else if (more_b && (!more_a || json_is_true(more_a) || json_is_false(more_b)))
        need_memory(s, json_object_set(into, "additionalProperties", more_b) == 0);
    if (a || b)
        set_new(s, into, "properties", all);
    else
        json_decref(all);
}

static bool contains(json_t *array, json_t *v)
{
    size_t i;
    json_t *x;
    json_array_foreach(array, i, x)
        if (json_equal(x, v))
            return true;
    return false;
}

static bool merge_list(struct schema *s, json_t *into, const char *key, json_t *v)
{
    json_t *have = json_object_get(into, key), *x;
    size_t i;
    if (!have)
        set_new(s, into, key, have = json_array());
    json_array_foreach(v, i, x)
        if (have && !contains(have, x))
            need_memory(s, json_array_append(have, x) == 0);
    return true;
}

static void merge_not(struct schema *s, json_t *into, json_t *v)
{
    const char *key = only_keyword(v);
    if (json_is_true(v) || (json_is_object(v) && !json_object_size(v))) {
        schema_impossible(s, "not: nothing is allowed");
    } else if (json_is_false(v)) {
        return;
    } else if (!schema_can_negate(v)) {
        schema_loosen(s, -ENOTSUP, "not is supported with enum, const, type, pattern and one name in required");
    } else if (!strcmp(key, "required")) {
        json_t *properties = json_object_get(into, "properties");
        properties = properties ? json_copy(properties) : json_object();
        json_object_set_new(properties, json_string_value(json_array_get(json_object_get(v, key), 0)), json_false());
        set_new(s, into, "properties", properties);
    } else {
        json_t *one = !strcmp(key, "const") ? json_pack("[{s:[O]}]", "enum", json_object_get(v, key)) : json_pack("[O]", v);
        merge_list(s, into, "$not", one);
        json_decref(one);
    }
}

/* Keywords that hold a schema for each name. */
static void merge_schemas(struct schema *s, json_t *into, const char *key, json_t *v)
{
    json_t *have = json_object_get(into, key), *all = have ? json_copy(have) : json_object(), *x, *other;
    const char *name;
    if (!json_is_object(v))
        schema_fail(s, -EINVAL, "%s is not an object", key);
    json_object_foreach(v, name, x) {
        other = json_object_get(all, name);
        set_new(s, all, name, other && !json_equal(other, x) ? both(other, x) : json_incref(x));
    }
    set_new(s, into, key, all);
}

static void merge_required(struct schema *s, json_t *into, json_t *v)
{
    json_t *have = json_object_get(into, "required"), *x;
    size_t i;
    if (!json_is_array(v)) {
        if (!json_is_boolean(v)) /* a boolean: what draft 3 wrote at a property */
            schema_fail(s, -EINVAL, "required is not an array");
        return;
    }
    if (!have)
        set_new(s, into, "required", have = json_array());
    json_array_foreach(v, i, x)
        if (!json_is_string(x))
            schema_fail(s, -EINVAL, "required: entry %zu is not a string", i);
        else if (have && !contains(have, x))
            need_memory(s, json_array_append(have, x) == 0);
}

/* The types that both allow; an integer is a number. */
static void merge_type(struct schema *s, json_t *into, json_t *v)
{
    json_t *have = json_object_get(into, "type"), *out = json_array(), *x, *y;
    json_t *a = json_is_array(have) ? json_incref(have) : json_pack("[O*]", have);
    json_t *b = json_is_array(v) ? json_incref(v) : json_pack("[O]", v), *number = json_string("number"),
           *integer = json_string("integer");
    size_t i;
    need_memory(s, out && a && b && number && integer);
    json_array_foreach(b, i, x)
        if (!have || contains(a, x) || (json_equal(x, integer) && contains(a, number)))
            need_memory(s, json_array_append(out, x) == 0);
    json_array_foreach(a, i, y)
        if (json_equal(y, integer) && contains(b, number) && !contains(b, integer))
            need_memory(s, json_array_append(out, y) == 0);
    if (!s->rc && json_array_size(out) == 0)
        schema_impossible(s, "no type is allowed by all parts");
    set_new(s, into, "type", out);
    json_decref(a);
    json_decref(b);
    json_decref(number);
    json_decref(integer);
}

static void merge_enum(struct schema *s, json_t *into, json_t *v)
{
    json_t *have = json_object_get(into, "enum"), *out = json_array(), *x;
    size_t i;
    if (!json_is_array(v))
        schema_fail(s, -EINVAL, "enum is not an array");
    json_array_foreach(v, i, x)
        if (!have || contains(have, x))
            need_memory(s, json_array_append(out, x) == 0);
    if (!s->rc && json_array_size(out) == 0)
        schema_impossible(s, "enum: no value is allowed by all parts");
    set_new(s, into, "enum", out);
}

/* Every pair of alternatives. */
static void merge_alternatives(struct schema *s, json_t *into, const char *key, json_t *v)
{
    json_t *have = json_object_get(into, "anyOf"), *out = json_array(), *x, *y;
    size_t i, k;
    if (!json_is_array(v) || json_array_size(v) == 0)
        schema_fail(s, -EINVAL, "%s is not an array of schemas", key);
    if ((have ? json_array_size(have) : 1) * json_array_size(v) > MAX_ALTERNATIVES)
        schema_fail(s, -E2BIG, "%s: more than %d alternatives", key, MAX_ALTERNATIVES);
    json_array_foreach(v, i, x) {
        if (s->rc)
            break;
        if (!have)
            need_memory(s, json_array_append(out, x) == 0);
        else
            json_array_foreach(have, k, y)
                need_memory(s, json_array_append_new(out, both(y, x)) == 0);
    }
    set_new(s, into, "anyOf", out);
}

/* Does the schema say nothing of members beside its oneOf? */
static bool is_choice(json_t *schema)
{
    static const char *const members[] = { "properties",    "required", "additionalProperties", "patternProperties",
                                           "propertyNames", "allOf",    "anyOf",                "$ref" };
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (json_object_get(schema, members[i]))
            return false;
    return true;
}

static void merge_one(struct schema *s, json_t *into, json_t *from, json_t *v, uint32_t refs)
{
    bool some = json_array_size(v) > 1 && !s->probing; /* what is only tried may take them as anyOf */
    json_t *list = some ? schema_exclude_others(s, v, refs == 0 && is_choice(from)) : json_incref(v);
    merge_alternatives(s, into, "oneOf", list);
    json_decref(list);
}

/* Bounds: the tighter one stays. */
static bool merge_bound(struct schema *s, json_t *into, const char *key, json_t *v)
{
    static const char *const lower[] = { "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties" };
    static const char *const upper[] = { "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties" };
    json_t *have = json_object_get(into, key);
    for (size_t i = 0; i < ARRAY_LEN(lower); i++) {
        bool is_lower = !strcmp(key, lower[i]);
        if (!is_lower && strcmp(key, upper[i]))
            continue;
        bool odd = have && (json_is_boolean(have) || json_is_boolean(v));
        if (odd)
            schema_loosen(s, -ENOTSUP, "%s as a boolean in allOf is not supported", key);
        else if (!have || is_lower == (json_number_value(v) > json_number_value(have)))
            need_memory(s, json_object_set(into, key, v) == 0);
        return true;
    }
    return false;
}

static void merge_items(struct schema *s, json_t *into, const char *key, json_t *v)
{
    json_t *have = json_object_get(into, key);
    if (have && (json_is_array(have) || json_is_array(v)) && !json_equal(have, v))
        schema_loosen(s, -ENOTSUP, "%s of several parts is not supported", key);
    else if (have && !json_equal(have, v))
        set_new(s, into, key, both(have, v));
    else
        need_memory(s, json_object_set(into, key, v) == 0);
}

static void merge_keyword(struct schema *s, json_t *into, json_t *from, const char *key, json_t *v, uint32_t refs)
{
    json_t *have = json_object_get(into, key), *x;
    size_t i;
    if (!strcmp(key, "$ref")) {
        if (!json_is_string(v))
            schema_fail(s, -EINVAL, "$ref is not a string");
        json_t *target = s->rc ? NULL : schema_resolve(s, json_string_value(v));
        if (target)
            merge(s, into, target, refs + 1);
    } else if (!strcmp(key, "allOf")) {
        if (!json_is_array(v))
            schema_fail(s, -EINVAL, "allOf is not an array of schemas");
        json_array_foreach(v, i, x)
            merge(s, into, x, refs + 1);
    } else if (!strcmp(key, "anyOf"))
        merge_alternatives(s, into, key, v);
    else if (!strcmp(key, "oneOf"))
        merge_one(s, into, from, v, refs);
    else if (!strcmp(key, "required"))
        merge_required(s, into, v);
    else if (!strcmp(key, "type"))
        merge_type(s, into, v);
    else if (!strcmp(key, "enum"))
        merge_enum(s, into, v);
    else if (!strcmp(key, "const")) {
        json_t *one = json_pack("[O]", v);
        merge_enum(s, into, one);
        json_decref(one);
    } else if (!strcmp(key, "items") || !strcmp(key, "prefixItems") || !strcmp(key, "additionalItems"))
        merge_items(s, into, key, v);
    else if (!strcmp(key, "nullable"))
        need_memory(s, json_object_set(into, key, have && !json_is_true(have) ? have : v) == 0);
    else if (!strcmp(key, "pattern") && have && !json_equal(have, v)) {
        json_t *one = json_pack("[O]", v);
        merge_list(s, into, "$patterns", one);
        json_decref(one);
    } else if (!strcmp(key, "$patterns") || !strcmp(key, "$not"))
        merge_list(s, into, key, v);
    else if (!strcmp(key, "not"))
        merge_not(s, into, v);
    else if (!strcmp(key, "uniqueItems")) {
        if (json_is_true(v))
            need_memory(s, json_object_set(into, key, v) == 0);
    } else if (!strncmp(key, "unevaluated", 11)) {
        if (json_is_false(v))
            need_memory(s, json_object_set(into, key, v) == 0);
    } else if (!strcmp(key, "patternProperties"))
        merge_schemas(s, into, key, v);
    else if (!strcmp(key, "propertyNames"))
        set_new(s, into, key, have && !json_equal(have, v) ? both(have, v) : json_incref(v));
    else if (!strcmp(key, "multipleOf")) {
        if (have && !json_equal(have, v))
            schema_loosen(s, -ENOTSUP, "multipleOf of several parts is not supported");
        else
            need_memory(s, json_object_set(into, key, v) == 0);
    } else if (!strcmp(key, "pattern") || (!strcmp(key, "format") && !have))
        need_memory(s, json_object_set(into, key, v) == 0);
    else if (strcmp(key, "properties") && strcmp(key, "additionalProperties"))
        merge_bound(s, into, key, v); /* all others are annotations */
}

static void merge(struct schema *s, json_t *into, json_t *from, uint32_t refs)
{
    const char *key;
    json_t *v;
    if (s->rc || json_is_true(from))
        return;
    if (++s->n_merged > MAX_MERGED)
        schema_fail(s, -E2BIG, "more than %d schemas, counted wherever $ref and allOf repeat them", MAX_MERGED);
    else if (refs > MAX_REFS)
        schema_fail(s, -EINVAL, "$ref or allOf leads back to itself");
    else if (json_is_false(from))
        schema_impossible(s, "the schema false allows nothing");
    else if (!json_is_object(from))
        schema_fail(s, -EINVAL, "a schema is an object, true or false");
    check_keywords(s, from);
    if (s->rc)
        return;
    if (json_object_get(from, "properties") || json_object_get(from, "additionalProperties"))
        merge_properties(s, into, from);
    json_object_foreach(from, key, v)
        if (!s->rc)
            merge_keyword(s, into, from, key, v, refs);
}

/* Once no alternative is left that might speak of members or elements: what no part speaks of is not there. */
static void close_unevaluated(struct schema *s, json_t *flat)
{
    static const char *const keys[][2] = { { "unevaluatedProperties", "additionalProperties" },
                                           { "unevaluatedItems", "items" } };
    for (size_t i = 0; i < ARRAY_LEN(keys) && !json_object_get(flat, "anyOf"); i++)
        if (json_is_false(json_object_get(flat, keys[i][0])) && !json_object_get(flat, keys[i][1]))
            need_memory(s, json_object_set_new(flat, keys[i][1], json_false()) == 0);
}

json_t *schema_flatten(struct schema *s, json_t *schema)
{
    json_t *out = json_object();
    need_memory(s, out);
    merge(s, out, schema, 0);
    if (!s->rc)
        schema_drop_alternatives(s, out);
    if (!s->rc)
        close_unevaluated(s, out);
    if (s->rc) {
        json_decref(out);
        return NULL;
    }
    return out;
}
