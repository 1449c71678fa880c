/* What a JSON schema becomes, written: GBNF text, rules by name, errors with their path. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/json_schema_impl.h"

enum { MAX_RULES = 20000, MAX_TEXT = 8 << 20 };

void schema_fail(struct schema *s, int rc, const char *fmt, ...)
{
    char what[300];
    va_list ap;
    if (s->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    s->rc = err_set(s->e, rc, "schema: %.150s: %s", s->path, what);
}

void schema_put(struct schema *s, struct tok_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = s->rc ? 0 : vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (s->rc || n <= 0)
        return;
    if (b->n + (size_t)n > MAX_TEXT)
        schema_fail(s, -E2BIG, "the grammar would be larger than %d MiB", MAX_TEXT >> 20);
    else if (tok_buf_reserve(b, (size_t)n + 1))
        schema_fail(s, -ENOMEM, "out of memory");
    else {
        va_start(ap, fmt);
        vsnprintf(b->s + b->n, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->n += (size_t)n;
    }
}

void schema_put_buf(struct schema *s, struct tok_buf *b, const struct tok_buf *more)
{
    if (!s->rc && tok_buf_add(b, more->s, more->n))
        schema_fail(s, -ENOMEM, "out of memory");
}

void schema_put_literal(struct schema *s, struct tok_buf *b, const char *text, size_t n)
{
    schema_put(s, b, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            schema_put(s, b, "\\x%02x", c);
        else
            schema_put(s, b, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    schema_put(s, b, "\"");
}

static const struct {
    const char *name, *text;
} shared[] = {
#define X(id, name, text) { name, text },
    SCHEMA_SHARED(X)
#undef X
};

void schema_put_shared(struct schema *s, struct tok_buf *b, enum schema_shared which)
{
    s->shared[which] = true;
    schema_put(s, b, "%s-%s", s->prefix, shared[which].name);
}

size_t schema_enter(struct schema *s, const char *fmt, const char *key, size_t index)
{
    size_t at = strlen(s->path), room = sizeof s->path - at;
    if (key)
        snprintf(s->path + at, room, fmt, key);
    else
        snprintf(s->path + at, room, fmt, index);
    return at;
}

void schema_leave(struct schema *s, size_t at)
{
    if (!s->rc)
        s->path[at] = 0;
}

void schema_put_rule(struct schema *s, struct tok_buf *b, struct tok_buf *text)
{
    uint32_t n = ++s->n_rules;
    if (n > MAX_RULES)
        schema_fail(s, -E2BIG, "the grammar would have more than %d rules", MAX_RULES);
    schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, n);
    schema_put_buf(s, &s->rules, text);
    schema_put(s, &s->rules, "\n");
    schema_put(s, b, "%s-%u", s->prefix, n);
    tok_buf_finish(text);
}

void schema_put_json(struct schema *s, struct tok_buf *b, json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    if (!back || !json_equal(back, v)) {
        free(text);
        text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    }
    if (text)
        schema_put_literal(s, b, text, strlen(text));
    else
        schema_fail(s, -ENOMEM, "out of memory");
    json_decref(back);
    free(text);
}

void schema_put_shared_rules(struct schema *s, struct tok_buf *out)
{
    for (int round = 0; round < SHARED_COUNT; round++) /* settles much sooner */
        for (size_t i = 0; i < SHARED_COUNT; i++)
            for (const char *p = shared[i].text; s->shared[i] && (p = strchr(p, '$')); p++)
                for (size_t k = 0; k < SHARED_COUNT; k++) {
                    size_t n = strlen(shared[k].name);
                    if (!strncmp(p + 2, shared[k].name, n) && !((p[2 + n] | 32) >= 'a' && (p[2 + n] | 32) <= 'z'))
                        s->shared[k] = true;
                }
    for (size_t i = 0; i < SHARED_COUNT; i++) {
        if (!s->shared[i])
            continue;
        schema_put(s, out, "%s-%s ::= ", s->prefix, shared[i].name);
        for (const char *p = shared[i].text; *p; p++)
            if (*p == '$')
                schema_put(s, out, "%s", s->prefix);
            else
                schema_put(s, out, "%c", *p);
        schema_put(s, out, "\n");
    }
}
