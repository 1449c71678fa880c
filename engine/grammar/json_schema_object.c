/* Objects of a JSON schema, and the arguments of a call in each syntax: members in the schema's order (in Gemma's way
 * sorted by name, as its template writes them), those that must come and those that may, and others. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_COUNTED = 10000, MAX_PATTERNS = 8 };

/* The members that an object may have. */
struct members {
    struct tok_buf *rule; /* [n] the name of the rule for key and value */
    bool *required;       /* [n] */
    size_t n;
    struct tok_buf more; /* one that has no name in the schema; empty: there are none */
    uint64_t min, max;   /* how many must and may come */
};

struct patterns {
    struct strings set[MAX_PATTERNS];
    json_t *value[MAX_PATTERNS];
    size_t n;
};

/* ---- others -------------------------------------------------------------------------------------------- */

/* The names that propertyNames allows. */
static void put_names(struct schema *s, json_t *schema, struct strings *set)
{
    json_t *names = json_object_get(schema, "propertyNames"), *flat;
    struct strings other = { 0 };
    int rc = strings_length(0, UINT64_MAX, set);
    if (rc)
        schema_fail(s, rc, "out of memory");
    if (!names || json_is_true(names) || s->rc)
        return;
    size_t at = schema_enter(s, "/%s", "propertyNames", 0);
    if ((flat = schema_flatten(s, names))) {
        uint64_t min = schema_count(s, flat, "minLength", 0), max = schema_count(s, flat, "maxLength", UINT64_MAX);
        bool any = schema_strings(s, flat, &other);
        if (json_object_get(flat, "anyOf"))
            schema_loosen(s, -ENOTSUP, "anyOf here is not supported");
        if (!any && (min || max != UINT64_MAX)) {
            strings_finish(&other);
            rc = strings_length(min, max, &other);
        }
        schema_narrow(s, set, &other, rc, false, "propertyNames");
        if (json_object_get(flat, "enum"))
            schema_narrow_by_list(s, set, json_object_get(flat, "enum"), false);
    }
    json_decref(flat);
    schema_leave(s, at);
}

/* Of the names, those that the syntax can carry. */
static void leave_out_bad_names(struct schema *s, struct strings *set)
{
    static const char *const fits[] = { NULL, "^[^<>\\x01-\\x20\\x7f]{1,60}$", "^[^:,<>{}\\[\\]\" \\x01-\\x1f]{1,60}$" };
    struct strings other = { 0 };
    char why[160];
    if (fits[s->syntax] && !s->rc)
        schema_narrow(s, set, &other, schema_pattern(fits[s->syntax], &s->work, &other, why), false, "names");
}

static void put_any_name(struct schema *s, struct tok_buf *b, const struct strings *set, bool all)
{
    if (all && s->syntax == SCHEMA_JSON) {
        schema_put_characters(s, b, 0, UINT64_MAX);
    } else if (all && s->syntax == SCHEMA_GEMMA) {
        schema_put(s, b, "(");
        schema_put_shared(s, b, SHARED_BARE);
        schema_put(s, b, " | ");
        schema_put_shared(s, b, SHARED_MARKED);
        schema_put(s, b, ")");
    } else {
        schema_put_strings(s, b, set);
    }
}

/* One alternative of `more`: a member with any of these names, which are freed. */
static void put_other(struct schema *s, struct tok_buf *b, struct strings *set, bool all, json_t *value)
{
    struct tok_buf text = { 0 };
    leave_out_bad_names(s, set);
    if (!s->rc && set->n_states) {
        if (s->syntax == SCHEMA_XML)
            schema_put(s, &text, "\"%s\" ", s->xml->key_begin);
        else
            schema_put(s, &text, "%s", s->syntax == SCHEMA_JSON ? "\"\\\"\" " : "");
        put_any_name(s, &text, set, all);
        schema_put(s, &text, " %s ", s->syntax == SCHEMA_XML    ? s->xml->key_end_rule
                                   : s->syntax == SCHEMA_JSON ? " \"\\\"\" \":\" \" \"? "
                                                              : " \":\" ");
        if (s->syntax == SCHEMA_XML)
            schema_put_parameter(s, &text, NULL, value);
        else if (json_is_object(value))
            schema_put_any(s, &text, value);
        else
            schema_put_free(s, &text);
        schema_put(s, b, b->n ? " | " : "(");
        schema_put_rule(s, b, &text);
    }
    tok_buf_finish(&text);
    strings_finish(set);
}

/* The patterns of patternProperties as sets; those that cannot be done are passed over. */
static void read_patterns(struct schema *s, json_t *schema, struct patterns *p)
{
    const char *key;
    char why[160];
    json_t *v;
    p->n = 0;
    json_object_foreach(json_object_get(schema, "patternProperties"), key, v) {
        int rc = p->n == MAX_PATTERNS      ? -E2BIG
                 : s->syntax == SCHEMA_XML ? -ENOTSUP
                                           : schema_pattern(key, &s->work, &p->set[p->n], why);
        if (rc == -E2BIG || rc == -ENOTSUP)
            schema_loosen(s, rc, "patternProperties: %.60s is not supported%s", key,
                          s->syntax == SCHEMA_XML ? " for this model's calls" : "");
        else if (rc)
            schema_fail(s, rc, "patternProperties: %s", why);
        else
            p->value[p->n++] = v;
    }
}

static void forget_patterns(struct patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        strings_finish(&p->set[i]);
}

/* A rule for an additional member, or nothing where there is none: names that a pattern takes (one pattern alone), and
 * the others. */
static void put_additional(struct schema *s, struct tok_buf *b, json_t *schema, json_t *properties,
                           const struct patterns *p)
{
    json_t *more = json_object_get(schema, "additionalProperties"), *keys = json_array(), *v;
    struct strings names = { 0 }, left = { 0 }, copy;
    struct tok_buf text = { 0 };
    const char *key;
    size_t n = p->n;
    bool closed = json_is_false(more) || (!more && (json_object_size(properties) || n));
    put_names(s, schema, &names);
    json_object_foreach(properties, key, v)
        json_array_append_new(keys, json_string(key));
    if (json_array_size(keys))
        schema_narrow_by_list(s, &names, keys, true);
    for (size_t i = 0; i < n && !s->rc; i++) {
        int rc = strings_both(&names, &p->set[i], &left);
        for (size_t k = 0; k < n && !rc; k++) {
            if (k == i)
                continue;
            rc = strings_minus(&left, &p->set[k], &copy);
            strings_finish(&left);
            left = copy;
        }
        if (rc)
            schema_fail(s, rc, "patternProperties: too large");
        else if (!json_is_false(p->value[i]))
            put_other(s, &text, &left, false, p->value[i]);
        strings_finish(&left);
    }
    for (size_t i = 0; i < n; i++) {
        copy = (struct strings){ 0 };
        int rc = s->rc ? 0 : strings_minus(&names, &p->set[i], &copy);
        if (rc)
            schema_fail(s, rc, "patternProperties: too large");
        strings_finish(&names);
        names = copy;
    }
    if (!closed && !s->rc) {
        size_t at = schema_enter(s, "/%s", "additionalProperties", 0);
        bool all = !n && !json_array_size(keys) && !json_object_get(schema, "propertyNames");
        put_other(s, &text, &names, all, more);
        schema_leave(s, at);
    }
    if (text.n) {
        schema_put(s, &text, ")");
        schema_put_rule(s, b, &text);
    }
    strings_finish(&names);
    tok_buf_finish(&text);
    json_decref(keys);
}

/* ---- those with names ---------------------------------------------------------------------------------- */

static void put_member(struct schema *s, struct tok_buf *b, const char *key, json_t *schema)
{
    struct tok_buf text = { 0 }, mark = { 0 };
    json_t *name = json_string(key);
    size_t at = schema_enter(s, "/properties/%s", key, 0);
    if (s->syntax == SCHEMA_JSON) {
        schema_put_json(s, &text, name);
        schema_put(s, &text, " \":\" \" \"? ");
        schema_put_any(s, &text, schema);
    } else if (s->syntax == SCHEMA_XML) {
        schema_put(s, &mark, "%s%s", s->xml->key_begin, key);
        schema_put_literal(s, &text, mark.s, mark.n);
        schema_put(s, &text, " %s ", s->xml->key_end_rule);
        schema_put_parameter(s, &text, key, schema);
    } else {
        schema_put(s, &mark, schema_key_fits(s, key) ? "%s:" : "<|\"|>%s<|\"|>:", key);
        schema_put_literal(s, &text, mark.s, mark.n);
        schema_put(s, &text, " ");
        schema_put_any(s, &text, schema);
    }
    schema_put_rule(s, b, &text);
    schema_leave(s, at);
    tok_buf_finish(&mark);
    json_decref(name);
}

/* The number of the rule for what may come when members 0 .. i - 1 are done and c came; 0: it would not end well. */
struct counted {
    uint32_t *rule;
    uint64_t cap; /* beyond it, nobody counts */
};

static uint32_t *rule_of(const struct counted *k, size_t i, uint64_t c)
{
    return &k->rule[i * (k->cap + 1) + MIN(c, k->cap)];
}

/* Behind the last named member. Of those without a name one counts: two may have the same. */
static bool put_rest(struct schema *s, struct tok_buf *b, const struct members *m, uint64_t c)
{
    uint64_t left = m->max == UINT64_MAX ? UINT64_MAX : m->max - MIN(m->max, c);
    bool other = m->more.n && left, must = c < m->min;
    if (must && (!other || c + 1 < m->min))
        return false;
    if (other) {
        schema_put(s, b, must ? "" : "(");
        if (c && s->syntax != SCHEMA_XML)
            schema_put_separator(s, b);
        schema_put_buf(s, b, &m->more);
        schema_put(s, b, " (");
        if (s->syntax != SCHEMA_XML)
            schema_put_separator(s, b);
        schema_put_buf(s, b, &m->more);
        if (left == UINT64_MAX)
            schema_put(s, b, ")*");
        else
            schema_put(s, b, "){0,%u}", (unsigned)left - 1);
    }
    if (s->syntax == SCHEMA_JSON && (c || other)) {
        schema_put(s, b, c && other && !must ? ")? " : " ");
        schema_put_ws(s, b);
        schema_put(s, b, c || must ? "" : ")?");
    } else if (other) {
        schema_put(s, b, must ? "" : ")?");
    } else {
        schema_put(s, b, "\"\"");
    }
    return true;
}

static void put_counted(struct schema *s, const struct members *m, const struct counted *k, size_t i, uint64_t c)
{
    struct tok_buf text = { 0 }, name = { 0 };
    const char *bar = "";
    bool any = i == m->n && put_rest(s, &text, m, c);
    if (i < m->n) {
        uint32_t with = c < m->max ? *rule_of(k, i + 1, c + 1) : 0, without = m->required[i] ? 0 : *rule_of(k, i + 1, c);
        if (with) {
            if (c && s->syntax != SCHEMA_XML)
                schema_put_separator(s, &text);
            schema_put_buf(s, &text, &m->rule[i]);
            schema_put(s, &text, " %s-%u", s->prefix, with);
            bar = " | ";
        }
        size_t next = i;
        while (next < m->n && !m->required[next])
            next++;
        uint32_t far = next > i + 1 ? *rule_of(k, next, c) : 0; /* so that the way to the end is short */
        if (without) {
            schema_put(s, &text, "%s%s-%u", bar, s->prefix, without);
            bar = " | ";
        }
        if (far)
            schema_put(s, &text, "%s%s-%u", bar, s->prefix, far);
        any = with || without;
    }
    if (any) {
        schema_put_rule(s, &name, &text);
        *rule_of(k, i, c) = s->n_rules;
    }
    tok_buf_finish(&name);
    tok_buf_finish(&text);
}

/* All members: rules from the last to the first, for each number of members that came before. */
static void put_members(struct schema *s, struct tok_buf *b, struct members *m)
{
    struct counted k = { .cap = 1 };
    if (m->max != UINT64_MAX && m->max >= m->n && !m->more.n)
        m->max = UINT64_MAX;
    if (m->min > m->n + (m->more.n ? 1 : 0) && m->more.n) {
        schema_loosen(s, -ENOTSUP, "minProperties beyond the names in properties and one more is not supported");
        m->min = m->n + 1;
    }
    k.cap = MAX(1, MAX(m->min, m->max == UINT64_MAX ? 0 : MIN(m->max, m->n + 1)));
    if ((m->n + 1) * (k.cap + 1) > MAX_COUNTED) {
        if (k.cap > 1)
            schema_loosen(s, -E2BIG, "minProperties, maxProperties: too many properties to count them");
        k.cap = 1;
        m->min = 0;
        m->max = UINT64_MAX;
    }
    k.rule = calloc((m->n + 1) * (k.cap + 1), sizeof *k.rule);
    if (!k.rule)
        schema_fail(s, -ENOMEM, "out of memory");
    for (size_t i = m->n + 1; i-- > 0 && !s->rc;)
        for (uint64_t c = 0; c <= MIN(k.cap, i) && !s->rc; c++)
            put_counted(s, m, &k, i, c);
    if (!s->rc && !k.rule[0])
        schema_fail(s, -EINVAL, "no number of properties is allowed: minProperties, maxProperties and required disagree");
    if (!s->rc)
        schema_put(s, b, "%s-%u", s->prefix, (unsigned)k.rule[0]);
    free(k.rule);
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

/* May a property have this name at all? Where a pattern has a say in its value, the schema of both; new. */
static json_t *allowed(const struct strings *names, const struct patterns *p, const char *key, json_t *value)
{
    json_t *made = json_incref(value);
    if (json_is_false(value) || !strings_has(names, key)) {
        json_decref(made);
        return NULL;
    }
    for (size_t i = 0; i < p->n; i++)
        if (strings_has(&p->set[i], key))
            made = json_pack("{s:[o,O]}", "allOf", made, p->value[i]);
    return made;
}

/* The properties with those that are only required, in order. A property that cannot be is left out. */
static json_t *all_properties(struct schema *s, json_t *schema, const struct patterns *p)
{
    json_t *all = json_object(), *v, *more = json_object_get(schema, "additionalProperties"), *made;
    json_t *properties = json_object_get(schema, "properties");
    struct strings names = { 0 };
    const char *key;
    size_t i;
    put_names(s, schema, &names);
    json_object_foreach(properties, key, v) {
        if (!s->rc && (made = allowed(&names, p, key, v)) && json_object_set_new(all, key, made))
            schema_fail(s, -ENOMEM, "out of memory");
    }
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        key = json_string_value(v);
        if (json_object_get(all, key) || s->rc)
            continue;
        made = json_object_get(properties, key) ? NULL : allowed(&names, p, key, json_true());
        bool by_pattern = made && !json_is_true(made);
        if (made && !by_pattern && json_is_object(more)) {
            json_decref(made);
            made = json_incref(more);
        }
        if (!made || (json_is_false(more) && !by_pattern))
            schema_fail(s, -EINVAL, "the property %.100s is required and not allowed", key);
        else if (json_object_set(all, key, made))
            schema_fail(s, -ENOMEM, "out of memory");
        json_decref(made);
    }
    strings_finish(&names);
    return all;
}

/* As dictsort has them. */
static int compare_names(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **names_in_order(struct schema *s, json_t *properties)
{
    const char **name = calloc(json_object_size(properties) + 1, sizeof *name), *key;
    size_t n = 0;
    json_t *v;
    if (!name) {
        schema_fail(s, -ENOMEM, "out of memory");
        return NULL;
    }
    json_object_foreach(properties, key, v)
        name[n++] = key;
    if (s->syntax == SCHEMA_GEMMA)
        qsort(name, n, sizeof *name, compare_names);
    return name;
}

/* What stands between the braces. */
void schema_put_members(struct schema *s, struct tok_buf *b, json_t *schema)
{
    struct patterns p = { .n = 0 };
    read_patterns(s, schema, &p);
    json_t *properties = all_properties(s, schema, &p);
    size_t n = json_object_size(properties);
    const char **name = names_in_order(s, properties);
    struct members m = { .rule = calloc(n + 1, sizeof *m.rule), .required = calloc(n + 1, sizeof *m.required) };
    m.min = schema_count(s, schema, "minProperties", 0);
    m.max = schema_count(s, schema, "maxProperties", UINT64_MAX);
    if (!m.rule || !m.required)
        schema_fail(s, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n && !s->rc; i++) {
        bool required = is_required(schema, name[i]);
        if (!schema_key_fits(s, name[i]) && (s->syntax == SCHEMA_XML || strstr(name[i], "<|\"|>"))) {
            schema_loosen(s, -ENOTSUP, "the property '%.60s'%s has a name that this model's calls cannot carry", name[i],
                          required ? ", which is required," : "");
            continue;
        }
        m.required[m.n] = required;
        put_member(s, &m.rule[m.n++], name[i], json_object_get(properties, name[i]));
    }
    if (!s->rc)
        put_additional(s, &m.more, schema, properties, &p);
    if (!s->rc)
        put_members(s, b, &m);
    for (size_t i = 0; i < n && m.rule; i++)
        tok_buf_finish(&m.rule[i]);
    free(m.rule);
    free(m.required);
    free(name);
    forget_patterns(&p);
    tok_buf_finish(&m.more);
    json_decref(properties);
}

void schema_put_object(struct schema *s, struct tok_buf *b, json_t *schema)
{
    struct tok_buf text = { 0 };
    schema_put(s, &text, "\"{\" ");
    schema_put_ws(s, &text);
    schema_put_members(s, &text, schema);
    schema_put(s, &text, " \"}\"");
    schema_put_rule(s, b, &text);
    tok_buf_finish(&text);
}
