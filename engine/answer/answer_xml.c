/* Calls in Qwen's XML: <function=NAME> <parameter=KEY>\nVALUE\n</parameter> .. </function>; and in GLM's pairs:
 * NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> .. and the call's own end. Values are plain text, which
 * becomes JSON as the function's schema wants it; strings are passed on while they come. */
#include <errno.h>

#include "engine/answer/answer_impl.h"

enum { NAME_MAX_BYTES = 256 };

static const char param_end[] = "</parameter>", key_end[] = "</arg_key>", pair_end[] = "</arg_value>";

/* NAME or KEY up to '>'. CALL_DONE: held[*from..*to), and pos is behind it. */
static int read_name(struct answer *a, size_t *from, size_t *to)
{
    size_t at = a->pos;
    while (at < a->held.n && !(a->held.s[at] && strchr(">\n<", a->held.s[at])))
        at++;
    if (at - a->pos > NAME_MAX_BYTES || (at < a->held.n && a->held.s[at] != '>'))
        return CALL_BROKEN;
    if (at == a->held.n)
        return CALL_MORE;
    *from = a->pos;
    *to = at;
    a->pos = at + 1;
    while (*from < *to && answer_space(a->held.s[*from]))
        ++*from;
    while (*from < *to && answer_space(a->held.s[*to - 1]))
        --*to;
    return *from < *to ? CALL_DONE : CALL_BROKEN;
}

/* The same of a pair: up to a line end or a mark, which is left. */
static int read_pair_name(struct answer *a, size_t *from, size_t *to)
{
    size_t at = a->pos;
    while (at < a->held.n && answer_space(a->held.s[at]))
        at++;
    *from = at;
    while (at < a->held.n && !(a->held.s[at] && strchr("\n<", a->held.s[at])))
        at++;
    if (at - *from > NAME_MAX_BYTES)
        return CALL_BROKEN;
    if (at == a->held.n)
        return CALL_MORE;
    *to = at;
    while (*from < *to && answer_space(a->held.s[*to - 1]))
        --*to;
    if (*from == *to)
        return CALL_BROKEN;
    a->pos = at;
    return CALL_DONE;
}

static int read_pair_key(struct answer *a, size_t *from, size_t *to)
{
    size_t before = a->pos;
    int rc = read_pair_name(a, from, to);
    enum found f = rc == CALL_DONE ? answer_here(a, a->pos, key_end) : FOUND_NO;
    if (rc != CALL_DONE)
        return rc;
    a->pos = f == FOUND_YES ? a->pos + strlen(key_end) : before;
    return f == FOUND_YES ? CALL_DONE : f == FOUND_MAYBE ? CALL_MORE : CALL_BROKEN;
}

/* `mark` after white space: CALL_DONE, and pos is behind it. */
static int read_mark(struct answer *a, const char *mark)
{
    while (a->pos < a->held.n && answer_space(a->held.s[a->pos]))
        a->pos++;
    enum found f = answer_here(a, a->pos, mark);
    a->pos += f == FOUND_YES ? strlen(mark) : 0;
    return f == FOUND_YES ? CALL_DONE : f == FOUND_MAYBE ? CALL_MORE : CALL_BROKEN;
}

static int function(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    size_t from, to;
    int rc = x->pairs ? read_pair_name(a, &from, &to) : read_name(a, &from, &to);
    if (rc != CALL_DONE)
        return rc;
    x->expect = XML_BODY;
    if ((rc = answer_call_name(a, a->held.s + from, to - from)) || (rc = answer_call_put(a, "{", 1)))
        return rc;
    return CALL_DONE;
}

/* A parameter, or the end. */
static int body(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    int rc = read_mark(a, x->pairs ? "<arg_key>" : "<parameter=");
    if (rc == CALL_DONE) {
        x->expect = XML_KEY;
        return rc;
    }
    int end = read_mark(a, x->pairs ? a->in->call_end : "</function>");
    if (end == CALL_DONE && !(rc = answer_call_put(a, "}", 1)))
        x->expect = XML_END;
    else if (end != CALL_DONE)
        rc = rc == CALL_MORE || end == CALL_MORE ? CALL_MORE : CALL_BROKEN;
    return end == CALL_DONE && !rc ? CALL_DONE : rc;
}

static int key(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    size_t from, to;
    int rc = x->pairs ? read_pair_key(a, &from, &to) : read_name(a, &from, &to);
    if (rc != CALL_DONE)
        return rc;
    x->expect = XML_VALUE_BEGIN;
    x->text = answer_parameter(a->tools, a->call.name, a->held.s + from, to - from, &x->types);
    if ((x->n_params++ && (rc = answer_call_put(a, ", ", 2))) || (rc = answer_call_put(a, "\"", 1)) ||
        (rc = answer_call_escaped(a, a->held.s + from, to - from)) || (rc = answer_call_put(a, "\": ", 3)))
        return rc;
    return x->types == TYPE_STRING && (rc = answer_call_put(a, "\"", 1)) ? rc : CALL_DONE;
}

/* One line end after <parameter=KEY> is not part of the value. */
static int value_begin(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    int rc = x->pairs ? read_mark(a, "<arg_value>") : a->pos == a->held.n ? CALL_MORE : CALL_DONE;
    if (rc != CALL_DONE)
        return rc;
    a->pos += !x->pairs && a->held.s[a->pos] == '\n';
    x->scan = a->pos;
    x->strings = answer_strings_begin(a->pos);
    x->expect = XML_VALUE;
    return CALL_DONE;
}

static int value(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    const char *const marks[] = { x->pairs ? pair_end : param_end };
    int which, rc = 0;
    size_t at = answer_find(a, x->scan, marks, 1, &which);
    while (which >= 0 && x->text == JSON_SCHEMA_JSON && answer_inside_string(a, &x->strings, at))
        at = answer_find(a, at + 1, marks, 1, &which);
    size_t end = at;
    end -= !x->pairs && end > a->pos && a->held.s[end - 1] == '\n'; /* nor is one before the end */
    if (x->types == TYPE_STRING) {
        rc = answer_call_escaped(a, a->held.s + a->pos, end - a->pos);
        a->pos = end;
        if (!rc && which >= 0)
            rc = answer_call_put(a, "\"", 1);
    } else if (which >= 0) {
        rc = answer_call_value(a, a->held.s + a->pos, end - a->pos,
                               x->text == JSON_SCHEMA_RAW ? x->types & ~(unsigned)TYPE_STRING : x->types);
    }
    x->scan = at;
    if (rc || which < 0)
        return rc;
    a->pos = at + strlen(marks[0]);
    x->expect = XML_BODY;
    return CALL_DONE;
}

static int xml_step(struct answer *a)
{
    struct answer_xml_call *x = &a->call.xml;
    int rc = CALL_DONE;
    while (rc == CALL_DONE && x->expect != XML_END) {
        switch (x->expect) {
        case XML_FUNCTION:
            rc = read_mark(a, "<function=");
            x->expect = rc == CALL_DONE ? XML_NAME : XML_FUNCTION;
            break;
        case XML_NAME: rc = function(a); break;
        case XML_BODY: rc = body(a); break;
        case XML_KEY: rc = key(a); break;
        case XML_VALUE_BEGIN: rc = value_begin(a); break;
        case XML_VALUE: rc = value(a); break;
        case XML_END: break;
        }
    }
    return rc;
}

void answer_xml_begin(struct answer *a, bool named)
{
    a->call.step = xml_step;
    a->call.xml = (struct answer_xml_call){ .expect = named ? XML_NAME : XML_FUNCTION };
}

void answer_pairs_begin(struct answer *a)
{
    a->call.step = xml_step;
    a->call.xml = (struct answer_xml_call){ .expect = XML_NAME, .pairs = true };
}
