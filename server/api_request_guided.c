/* What vLLM's clients ask of an answer: guided_json, guided_choice, guided_regex and guided_grammar, and the same in
 * structured_outputs; and SGLang's: regex and ebnf. Each becomes a schema or a grammar; beside response_format and the like only
 * one may be given. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "engine/grammar/json_schema.h"
#include "server/api_request.h"
#include "server/out.h"

static int want(const struct fields *f, const char *name, struct api_request *r, enum answer_format format,
                const char *text)
{
    if (r->format_param)
        return field_value(f, name, "cannot be given together with '%s'", r->format_param);
    char *param = strdup(fields_name(f, name));
    int rc = api_request_own(r, param, f->p);
    if (rc)
        return rc;
    r->format = format;
    r->schema = text;
    r->format_param = param;
    return 0;
}

/* A schema, as an object or as its text. */
static int read_json(const struct fields *f, const char *name, struct api_request *r)
{
    json_t *v = json_object_get(f->o, name), *parsed = NULL;
    if (!v || json_is_null(v))
        return 0;
    if (json_is_string(v) && !(parsed = json_read(json_string_value(v), json_string_length(v), 0, NULL, NULL)))
        return field_value(f, name, "is a text that is no JSON object");
    if (!json_is_object(v) && !json_is_object(parsed)) {
        json_decref(parsed);
        return field_type(f, name, "a JSON schema, as an object or as its text", v);
    }
    char *text = json_write(parsed ? parsed : v, JSON_COMPACT);
    json_decref(parsed);
    int rc = api_request_own(r, text, f->p);
    return rc ? rc : want(f, name, r, ANSWER_JSON_SCHEMA, text);
}

/* The text as a GBNF literal. */
static void add_literal(struct out *o, const char *s)
{
    static const char hex[] = "0123456789ABCDEF";
    out_text(o, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        char escaped[4] = { '\\', 'x', hex[c >> 4], hex[c & 15] };
        if (c == '"' || c == '\\')
            out_raw(o, (char[2]){ '\\', *s }, 2);
        else if (c < 0x20 || c == 0x7f)
            out_raw(o, escaped, 4);
        else
            out_raw(o, s, 1);
    }
    out_text(o, "\"");
}

static int read_choice(const struct fields *f, const char *name, struct api_request *r)
{
    const json_t *array;
    struct out o = { 0 };
    size_t bytes = 0;
    int rc = field_array(f, name, &array);
    if (rc != 1)
        return rc;
    size_t n = json_array_size(array);
    if (!n || n > API_MAX_CHOICES)
        return field_value(f, name, "has %zu choices, expected 1 to %d", n, API_MAX_CHOICES);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(array, i);
        if (!json_is_string(v))
            return field_type(f, name, "an array of strings", v);
        bytes += json_string_length(v);
    }
    if (bytes > API_MAX_CHOICE_BYTES)
        return field_value(f, name, "has %zu bytes in its choices, at most %d can be given", bytes,
                           API_MAX_CHOICE_BYTES);
    out_text(&o, "root ::= ");
    for (size_t i = 0; i < n; i++) {
        out_text(&o, i ? " | " : "");
        add_literal(&o, json_string_value(json_array_get(array, i)));
    }
    out_raw(&o, "\n", 2); /* with its NUL */
    if (o.failed)
        out_finish(&o);
    rc = api_request_own(r, o.s, f->p);
    return rc ? rc : want(f, name, r, ANSWER_GRAMMAR, o.s);
}

/* The whole answer has to match. */
static int read_regex(const struct fields *f, const char *name, struct api_request *r)
{
    const char *s;
    struct tok_buf b = { 0 };
    struct err e = { 0 };
    int rc = field_string(f, name, &s);
    if (rc != 1)
        return rc;
    if (strlen(s) > API_MAX_REGEX_BYTES)
        return field_value(f, name, "has %zu bytes, the longest may have %d", strlen(s), API_MAX_REGEX_BYTES);
    rc = json_schema_regex(s, &b, &e);
    if (rc && rc != -ENOMEM) {
        tok_buf_finish(&b);
        return field_value(f, name, "cannot be used: %s", e.msg);
    }
    if (rc || tok_buf_add(&b, "", 1))
        tok_buf_finish(&b);
    const char *text = b.s;
    rc = api_request_own(r, b.s, f->p);
    return rc ? rc : want(f, name, r, ANSWER_GRAMMAR, text);
}

static int read_grammar(const struct fields *f, const char *name, struct api_request *r)
{
    const char *s;
    int rc = field_string(f, name, &s);
    return rc != 1 || !*s ? MIN(rc, 0) : want(f, name, r, ANSWER_GRAMMAR, s);
}

static int read_structured(const struct fields *f, struct api_request *r)
{
    static const char *const unsupported[] = { "structural_tag", "whitespace_pattern" };
    const json_t *o;
    bool object = false;
    int rc = field_object(f, "structured_outputs", &o);
    if (rc != 1)
        return rc;
    struct fields in = fields_at(o, f->p, "structured_outputs");
    for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
        const json_t *v = json_object_get(o, unsupported[i]);
        const char *full = fields_name(&in, unsupported[i]);
        if (v && !json_is_null(v))
            return api_refuse(f->p, 400, "unsupported", full, "'%s' is not supported, a grammar can do the same", full);
    }
    if ((rc = read_json(&in, "json", r)) < 0 || (rc = read_choice(&in, "choice", r)) < 0 ||
        (rc = read_regex(&in, "regex", r)) < 0 || (rc = read_grammar(&in, "grammar", r)) < 0 ||
        (rc = field_bool(&in, "json_object", &object)) < 0)
        return rc;
    return object ? want(&in, "json_object", r, ANSWER_JSON_OBJECT, NULL) : 0;
}

int api_request_guided(const struct fields *f, struct api_request *r)
{
    int rc;
    if ((rc = read_json(f, "guided_json", r)) < 0 || (rc = read_choice(f, "guided_choice", r)) < 0 ||
        (rc = read_regex(f, "guided_regex", r)) < 0 || (rc = read_grammar(f, "guided_grammar", r)) < 0 ||
        (rc = read_regex(f, "regex", r)) < 0 || (rc = read_grammar(f, "ebnf", r)) < 0)
        return rc;
    return read_structured(f, r);
}
