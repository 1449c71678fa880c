/* Objects of a JSON schema: members in the schema's order, those that must come and those that may, and others. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/json_schema_impl.h"

enum { MAX_KEY = 1000 };

struct member {
    struct tok_buf rule; /* the name of the rule for "key": value */
    bool required;
};

/* The character of a key at `at`, 0 at its end. */
static uint32_t key_char(const char *key, size_t at, size_t *len)
{
    uint8_t c = (uint8_t)key[at];
    uint32_t cp = c < 0x80 ? c : c < 0xe0 ? c & 31 : c < 0xf0 ? c & 15 : c & 7;
    *len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < *len; i++)
        cp = cp << 6 | (key[at + i] & 63);
    return cp;
}

/* Any key but these, which are sorted and agree up to `at`: goes along with them, character by character, and leaves
 * them where none of them goes on like that. Escapes are for what comes behind that place. */
static void put_other_keys(struct schema *s, struct tok_buf *b, char **keys, size_t n, size_t at)
{
    struct tok_buf on = { 0 }, rest = { 0 };
    size_t len, len_k, k;
    if (at > MAX_KEY)
        schema_fail(s, -E2BIG, "beside additionalProperties, a property's name may have %d bytes", MAX_KEY);
    schema_put(s, b, "([^\"\\\\\\x00-\\x1f");
    for (size_t i = 0; i < n && !s->rc; i = k) {
        uint32_t c = key_char(keys[i], at, &len);
        for (k = i + 1; k < n && key_char(keys[k], at, &len_k) == c;)
            k++;
        if (c < 0x20 || c == '"' || c == '\\')
            continue; /* the end of a key, or what has to be escaped */
        schema_put(s, b, "\\U%08X", c);
        schema_put(s, &on, " | \"\\U%08X\" ", c);
        put_other_keys(s, &rest, keys + i, k - i, at + len);
        schema_put_rule(s, &on, &rest);
    }
    schema_put(s, b, "] ");
    schema_put_characters(s, b, 0, UINT64_MAX);
    schema_put_buf(s, b, &on);
    schema_put(s, b, keys[0][at] ? " | \"\")" : ")");
    tok_buf_finish(&on);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The name of a rule for an additional member, or nothing where there is none. */
static void put_additional(struct schema *s, struct tok_buf *b, json_t *schema, json_t *properties)
{
    json_t *more = json_object_get(schema, "additionalProperties"), *v;
    const char *key;
    size_t n = json_object_size(properties), i = 0;
    struct tok_buf text = { 0 };
    if (json_is_false(more) || (!more && n))
        return;
    char **keys = calloc(n + 1, sizeof *keys);
    if (!keys) {
        schema_fail(s, -ENOMEM, "out of memory");
        return;
    }
    json_object_foreach(properties, key, v)
        keys[i++] = (char *)key;
    qsort(keys, i, sizeof *keys, compare_keys);
    if (n) {
        schema_put(s, &text, "\"\\\"\" ");
        put_other_keys(s, &text, keys, i, 0);
        schema_put(s, &text, " \"\\\"\"");
    } else
        schema_put_shared(s, &text, SHARED_STRING);
    schema_put(s, &text, " \":\" \" \"? ");
    size_t at = schema_enter(s, "/%s", "additionalProperties", 0);
    if (json_is_object(more))
        schema_put_any(s, &text, more);
    else
        schema_put_shared(s, &text, SHARED_VALUE);
    schema_leave(s, at);
    free(keys);
    schema_put_rule(s, b, &text);
}

static void put_member(struct schema *s, struct member *m, const char *key, json_t *schema)
{
    struct tok_buf text = { 0 };
    json_t *name = json_string(key);
    size_t at = schema_enter(s, "/properties/%s", key, 0);
    schema_put_json(s, &text, name);
    schema_put(s, &text, " \":\" \" \"? ");
    schema_put_any(s, &text, schema);
    schema_put_rule(s, &m->rule, &text);
    schema_leave(s, at);
    json_decref(name);
}

/* Members in the schema's order, those that must come and those that may: rest[i] stands for ", member i" and all that
 * follows, so the first member that comes has no comma before it. */
static void put_members(struct schema *s, struct tok_buf *b, const struct member *m, size_t n,
                        const struct tok_buf *more)
{
    struct tok_buf rest = { 0 }, *after = calloc(n + 1, sizeof *after);
    size_t i;
    if (!after) {
        schema_fail(s, -ENOMEM, "out of memory");
        return;
    }
    if (more->n) {
        schema_put(s, &rest, "(");
        schema_put_separator(s, &rest);
        schema_put_buf(s, &rest, more);
        schema_put(s, &rest, ")*");
        schema_put_rule(s, &after[n], &rest);
    }
    for (i = n; i-- > 1;) { /* after[i]: what may follow member i - 1 */
        schema_put(s, &rest, m[i].required ? "" : "(");
        schema_put_separator(s, &rest);
        schema_put_buf(s, &rest, &m[i].rule);
        schema_put(s, &rest, m[i].required ? " " : ")? ");
        schema_put_buf(s, &rest, &after[i + 1]);
        schema_put_rule(s, &after[i], &rest);
    }
    schema_put(s, b, "(");
    for (i = 0; i < n; i++) { /* member i comes first */
        schema_put(s, b, i ? " | " : "");
        schema_put_buf(s, b, &m[i].rule);
        schema_put(s, b, " ");
        schema_put_buf(s, b, &after[i + 1]);
        if (m[i].required)
            break;
    }
    if (i == n && more->n) {
        schema_put(s, b, n ? " | " : "");
        schema_put_buf(s, b, more);
        schema_put(s, b, " ");
        schema_put_buf(s, b, &after[n]);
    }
    schema_put(s, b, ") ");
    for (i = 0; i <= n; i++)
        tok_buf_finish(&after[i]);
    free(after);
}

static bool is_required(json_t *schema, const char *key)
{
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(schema, "required"), i, v)
        if (!strcmp(json_string_value(v), key))
            return true;
    return false;
}

/* The properties with those that are only required, in order. A property whose schema is false is left out. */
static json_t *all_properties(struct schema *s, json_t *schema)
{
    json_t *all = json_object(), *v, *more = json_object_get(schema, "additionalProperties");
    const char *key;
    size_t i;
    json_object_foreach(json_object_get(schema, "properties"), key, v)
        if (!json_is_false(v) && json_object_set(all, key, v))
            schema_fail(s, -ENOMEM, "out of memory");
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        key = json_string_value(v);
        if (json_object_get(all, key))
            continue;
        if (json_is_false(more) || json_object_get(json_object_get(schema, "properties"), key))
            schema_fail(s, -EINVAL, "the property %.100s is required and not allowed", key);
        else if (json_object_set_new(all, key, json_is_object(more) ? json_incref(more) : json_true()))
            schema_fail(s, -ENOMEM, "out of memory");
    }
    return all;
}

void schema_put_object(struct schema *s, struct tok_buf *b, json_t *schema)
{
    json_t *properties = all_properties(s, schema), *v;
    size_t n = json_object_size(properties), i = 0;
    struct member *m = calloc(n + 1, sizeof *m);
    struct tok_buf text = { 0 }, more = { 0 };
    const char *key;
    bool any = false;
    if (!m)
        schema_fail(s, -ENOMEM, "out of memory");
    json_object_foreach(properties, key, v) {
        if (s->rc)
            break;
        m[i].required = is_required(schema, key);
        any |= m[i].required;
        put_member(s, &m[i++], key, v);
    }
    if (!s->rc)
        put_additional(s, &more, schema, properties);
    schema_put(s, &text, "\"{\" ");
    schema_put_shared(s, &text, SHARED_WS);
    if (!s->rc && (n || more.n)) {
        schema_put(s, &text, any ? " " : " (");
        put_members(s, &text, m, n, &more);
        schema_put_shared(s, &text, SHARED_WS);
        schema_put(s, &text, any ? "" : ")?");
    }
    schema_put(s, &text, " \"}\"");
    for (i = 0; i < n && m; i++)
        tok_buf_finish(&m[i].rule);
    free(m);
    tok_buf_finish(&more);
    json_decref(properties);
    schema_put_rule(s, b, &text);
}
