/* What a JSON schema becomes, written: GBNF text, rules by name, errors with their path. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_RULES = 40000, MAX_TEXT = 8 << 20, MAX_WARNINGS = 32 };

/* The first failure is the one that is told. */
static void fail(struct schema *s, int rc, bool impossible, const char *fmt, va_list ap)
{
    char what[300];
    if (s->rc)
        return;
    vsnprintf(what, sizeof what, fmt, ap);
    s->rc = err_set(s->e, rc, "%s%sschema: %.150s: %s", s->where ? s->where : "", s->where ? ": " : "", s->path, what);
    s->impossible = impossible;
}

void schema_fail(struct schema *s, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(s, rc, false, fmt, ap);
    va_end(ap);
}

void schema_impossible(struct schema *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(s, -EINVAL, true, fmt, ap);
    va_end(ap);
}

void schema_loosen(struct schema *s, int rc, const char *fmt, ...)
{
    char what[300], line[600];
    va_list ap;
    size_t i;
    json_t *v;
    if (s->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (s->strict) {
        schema_fail(s, rc, "%s", what);
        return;
    }
    snprintf(line, sizeof line, "%s%sschema: %.150s: %s: passed over", s->where ? s->where : "", s->where ? ": " : "",
             s->path, what);
    json_array_foreach(s->warnings, i, v)
        if (!strcmp(json_string_value(v), line))
            return;
    if (s->warnings && json_array_size(s->warnings) < MAX_WARNINGS)
        json_array_append_new(s->warnings, json_string(line));
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

void schema_claim_rules(struct schema *s, uint32_t n)
{
    s->n_rules += n;
    if (s->n_rules > MAX_RULES)
        schema_fail(s, -E2BIG, "the grammar would have more than %d rules", MAX_RULES);
}

void schema_put_rule(struct schema *s, struct tok_buf *b, struct tok_buf *text)
{
    schema_claim_rules(s, 1);
    uint32_t n = s->n_rules;
    schema_put(s, &s->rules, "%s-%u ::= ", s->prefix, n);
    schema_put_buf(s, &s->rules, text);
    schema_put(s, &s->rules, "\n");
    schema_put(s, b, "%s-%u", s->prefix, n);
    tok_buf_finish(text);
}

/* Gemma's way: strings between marks, names as they are. */
static void gemma_text(struct schema *s, struct tok_buf *b, json_t *v, bool key)
{
    json_t *x;
    const char *name;
    size_t i, n = 0;
    if (json_is_string(v)) {
        const char *mark = key && schema_key_fits(s, json_string_value(v)) ? "" : "<|\"|>";
        schema_put(s, b, "%s%s%s", mark, json_string_value(v), mark);
    } else if (json_is_object(v)) {
        schema_put(s, b, "{");
        json_object_foreach(v, name, x) {
            json_t *k = json_string(name);
            schema_put(s, b, n++ ? "," : "");
            gemma_text(s, b, k, true);
            schema_put(s, b, ":");
            gemma_text(s, b, x, false);
            json_decref(k);
        }
        schema_put(s, b, "}");
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, x) {
            schema_put(s, b, i ? "," : "[");
            gemma_text(s, b, x, false);
        }
        schema_put(s, b, i ? "]" : "[]");
    } else {
        char *text = json_write(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        schema_put(s, b, "%s", text ? text : "");
        free(text);
    }
}

void schema_put_json(struct schema *s, struct tok_buf *b, json_t *v)
{
    if (s->syntax == SCHEMA_GEMMA) {
        struct tok_buf t = { 0 };
        gemma_text(s, &t, v, false);
        schema_put_literal(s, b, t.s, t.n);
        tok_buf_finish(&t);
        return;
    }
    char *text = json_write(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_t *back = text ? json_read(text, strlen(text), JSON_DECODE_ANY, NULL, NULL) : NULL;
    if (!back || !json_equal(back, v)) {
        free(text);
        text = json_write(v, JSON_ENCODE_ANY | JSON_COMPACT);
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
