/* Calls written as JSON: Qwen's between marks, Llama's bare, and the bodies of harmony's messages. Brackets and strings
 * are followed byte by byte, which tells the arguments from the rest while they come; whether it is JSON in every detail
 * is asked once, at the end. */
#include <errno.h>

#include "base/ckd.h"
#include "base/json.h"
#include "engine/answer/answer_impl.h"

/* Integers of any size are fine. 0 with *v NULL: no JSON; or -ENOMEM. */
static int parse(const char *s, size_t n, json_t **v)
{
    bool no_memory;
    *v = json_read(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, &no_memory);
    return no_memory ? -ENOMEM : 0;
}

int answer_expect_object(const char *s, size_t n)
{
    json_t *v;
    int rc = parse(s, n, &v);
    if (!rc)
        rc = json_is_object(v) ? CALL_DONE : CALL_BROKEN;
    json_decref(v);
    return rc;
}

/* ---- {"name": .., "arguments": ..} ---- */

static int end_key(struct answer *a)
{
    static const struct {
        const char *key;
        bool name, args;
    } known[] = { { "\"name\"", true, false },
                  { "\"arguments\"", false, true },
                  { "\"parameters\"", false, true },
                  { "\"type\"", false, false } };
    struct answer_json_call *j = &a->call.json;
    j->expect = JSON_COLON;
    j->in_name = j->in_args = false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (a->pos + 1 - j->from != strlen(known[i].key) ||
            memcmp(a->held.s + j->from, known[i].key, a->pos + 1 - j->from))
            continue;
        j->in_name = known[i].name && !a->call.name;
        j->in_args = known[i].args && !j->args;
        return CALL_MORE;
    }
    return a->call.bare ? CALL_BROKEN : CALL_MORE; /* a bare object is a call only as long as it looks like one */
}

static int begin_value(struct answer *a)
{
    struct answer_json_call *j = &a->call.json;
    j->from = a->pos;
    j->expect = JSON_AFTER;
    if (j->in_args)
        j->args = j->fed = a->pos;
    return CALL_MORE;
}

/* The value before `end` is complete; asked again behind it, does nothing. */
static int end_value(struct answer *a, size_t end)
{
    struct answer_json_call *j = &a->call.json;
    int rc = CALL_MORE;
    if (j->in_args)
        j->args_end = end;
    if (j->in_name) {
        json_t *v;
        if ((rc = parse(a->held.s + j->from, end - j->from, &v)))
            return rc;
        const char *s = json_string_value(v);
        size_t n = json_string_length(v);
        rc = !n || (a->call.bare && !answer_tool_find(a->tools, s, n, false)) ? CALL_BROKEN : answer_call_name(a, s, n);
        json_decref(v);
    }
    j->in_name = j->in_args = false;
    return rc;
}

static int in_string(struct answer *a, char c)
{
    struct answer_json_call *j = &a->call.json;
    if ((unsigned char)c < 0x20)
        return CALL_BROKEN;
    if (j->escape) {
        j->escape = false;
    } else if (c == '\\') {
        j->escape = true;
    } else if (c == '"') {
        j->string = false;
        if (j->depth == 1)
            return j->expect == JSON_KEY ? end_key(a) : end_value(a, a->pos + 1);
    }
    if (j->string && a->call.bare && j->in_name &&
        !answer_tool_find(a->tools, a->held.s + j->from + 1, a->pos - j->from, true))
        return CALL_BROKEN;
    return CALL_MORE;
}

/* Among the members of the call itself, outside strings. */
static int at_member(struct answer *a, char c)
{
    struct answer_json_call *j = &a->call.json;
    int rc = CALL_MORE;
    switch (j->expect) {
    case JSON_KEY:
        j->from = a->pos;
        j->string = c == '"';
        return c == '"' ? CALL_MORE : c == '}' ? CALL_DONE : CALL_BROKEN;
    case JSON_COLON: j->expect = JSON_VALUE; return c == ':' ? CALL_MORE : CALL_BROKEN;
    case JSON_VALUE:
        if (c == ',' || c == '}' || c == ']' || c == ':')
            return CALL_BROKEN;
        rc = begin_value(a);
        break;
    case JSON_AFTER:
        if (c == ',' || c == '}') {
            rc = end_value(a, a->pos);
            j->expect = JSON_KEY;
            return rc ? rc : c == '}' ? CALL_DONE : CALL_MORE;
        }
        break;
    }
    return rc;
}

static int json_byte(struct answer *a, char c)
{
    struct answer_json_call *j = &a->call.json;
    if (j->string)
        return in_string(a, c);
    if (answer_space(c))
        return CALL_MORE;
    if (j->depth == 0 && j->list) {
        j->list = false;
        return c == '[' ? CALL_MORE : CALL_BROKEN;
    }
    if (j->depth == 0) {
        j->begin = a->pos;
        j->depth = c == '{';
        return c == '{' ? CALL_MORE : CALL_BROKEN;
    }
    if (!(c && strchr("{}[]:,\"+-.", c)) && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && c != 'E')
        return CALL_BROKEN;
    bool value = j->depth > 1 || j->expect >= JSON_VALUE;
    int rc = j->depth == 1 ? at_member(a, c) : CALL_MORE;
    if (rc || !value || (j->depth == 1 && j->expect == JSON_KEY))
        return rc;
    if (c == '"') {
        j->string = true;
    } else if (c == '{' || c == '[') {
        j->depth++;
    } else if (c == '}' || c == ']') {
        if (--j->depth == 1)
            return end_value(a, a->pos + 1);
    }
    return j->depth ? CALL_MORE : CALL_BROKEN;
}

/* Arguments that are an object go on as they come. */
static int feed(struct answer *a)
{
    struct answer_json_call *j = &a->call.json;
    size_t end = j->args_end ? j->args_end : a->pos;
    if (!a->call.name || !j->args || a->held.s[j->args] != '{' || end <= j->fed)
        return 0;
    int rc = answer_call_put(a, a->held.s + j->fed, end - j->fed);
    j->fed = end;
    return rc;
}

/* The whole object is there, up to pos. Arguments may also be missing, null, or a string that holds the object. */
static int check_json_call(struct answer *a)
{
    struct answer_json_call *j = &a->call.json;
    json_t *v = NULL;
    int rc = a->call.name ? answer_expect_object(a->held.s + j->begin, a->pos - j->begin) : CALL_BROKEN, put = 0;
    if (rc != CALL_DONE || (j->args && a->held.s[j->args] == '{'))
        return rc;
    if (j->args && (rc = parse(a->held.s + j->args, j->args_end - j->args, &v)))
        return rc;
    const char *s = json_string_value(v);
    rc = CALL_DONE;
    if (!v || json_is_null(v))
        put = answer_call_put(a, "{}", 2);
    else if (!s)
        rc = CALL_BROKEN;
    else if ((rc = answer_expect_object(s, json_string_length(v))) == CALL_DONE)
        put = answer_call_put(a, s, json_string_length(v));
    json_decref(v);
    return put ? put : rc;
}

static int json_step(struct answer *a)
{
    int rc = CALL_MORE, put;
    while (rc == CALL_MORE && a->pos < a->held.n) {
        rc = json_byte(a, a->held.s[a->pos]);
        a->pos += rc != CALL_BROKEN;
    }
    if (rc == CALL_BROKEN || rc < 0)
        return rc;
    if ((put = feed(a)))
        return put;
    return rc == CALL_DONE ? check_json_call(a) : CALL_MORE;
}

void answer_json_begin(struct answer *a, bool bare)
{
    a->call.step = json_step;
    a->call.bare = bare && !a->forced;
    a->call.json = (struct answer_json_call){ 0 };
}

void answer_list_begin(struct answer *a)
{
    answer_json_begin(a, false);
    a->call.json.list = true;
}

/* ---- strings inside JSON ---- */

struct answer_json_strings answer_strings_begin(size_t from)
{
    return (struct answer_json_strings){ .at = from, .json = true };
}

bool answer_inside_string(const struct answer *a, struct answer_json_strings *j, size_t at)
{
    for (; j->at < at && j->json; j->at++) {
        char c = a->held.s[j->at];
        if (j->inside && (unsigned char)c < 0x20)
            j->json = false;
        else if (j->escape)
            j->escape = false;
        else if (j->inside && c == '\\')
            j->escape = true;
        else if (c == '"')
            j->inside = !j->inside;
    }
    return j->json && j->inside;
}

/* ---- the body of a harmony message ---- */

static int harmony_step(struct answer *a)
{
    struct answer_harmony_call *h = &a->call.harmony;
    size_t *body = &h->body, end, at;
    int which, rc = 0;
    at = answer_find(a, h->scan, answer_harmony_marks, ANSWER_HARMONY_MARKS, &which);
    while (which >= 0 && answer_inside_string(a, &h->strings, at))
        at = answer_find(a, at + 1, answer_harmony_marks, ANSWER_HARMONY_MARKS, &which);
    end = h->scan = at;
    while (a->pos == *body && a->pos < end && answer_space(a->held.s[a->pos]))
        a->pos = ++*body;
    while (end > a->pos && answer_space(a->held.s[end - 1]))
        end--;
    if (end > *body && a->held.s[*body] == '{')
        rc = answer_call_put(a, a->held.s + a->pos, end - a->pos);
    a->pos = end;
    if (rc || (which < 0 && !a->last))
        return rc;
    a->pos = at;
    if (end == *body && which >= 0)
        return (rc = answer_call_put(a, "{}", 2)) ? rc : CALL_DONE;
    if (end > *body && (rc = answer_expect_object(a->held.s + *body, end - *body)) != CALL_BROKEN)
        return rc;
    return which >= 0 ? CALL_BROKEN : CALL_MORE;
}

int answer_harmony_begin(struct answer *a, const char *name, size_t n_name)
{
    a->call.step = harmony_step;
    a->call.harmony = (struct answer_harmony_call){ a->pos, a->pos, answer_strings_begin(a->pos) };
    return answer_call_name(a, name, n_name);
}
