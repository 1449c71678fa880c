/* Calls of Gemma 4: call:NAME{key:value,..}. Keys are bare, strings stand between <|"|> marks, the rest is as in JSON.
 * Written over to JSON while it comes. */
#include <errno.h>

#include "engine/answer/answer_impl.h"

enum { NAME_MAX_BYTES = 256, DEPTH_MAX = 64 };

static const char quote[] = "<|\"|>";

static int put(struct answer *a, const char *s)
{
    int rc = answer_call_put(a, s, strlen(s));
    return rc ? rc : CALL_DONE;
}

static void skip_space(struct answer *a)
{
    while (a->pos < a->held.n && answer_space(a->held.s[a->pos]))
        a->pos++;
}

/* Up to one of `ends`, without white space around: CALL_DONE, and pos is at the end. */
static int read_word(struct answer *a, const char *ends, size_t *from, size_t *to)
{
    size_t at = a->pos;
    while (at < a->held.n && !(a->held.s[at] && strchr(ends, a->held.s[at])))
        at++;
    if (at == a->held.n)
        return at - a->pos > NAME_MAX_BYTES ? CALL_BROKEN : CALL_MORE;
    if (at - a->pos > NAME_MAX_BYTES)
        return CALL_BROKEN;
    *from = a->pos;
    *to = a->pos = at;
    while (*to > *from && answer_space(a->held.s[*to - 1]))
        --*to;
    return CALL_DONE;
}

static bool in_array(const struct answer_gemma_call *g)
{
    return g->is_array >> (g->depth - 1) & 1;
}

static int open_bracket(struct answer *a, bool array)
{
    struct answer_gemma_call *g = &a->call.gemma;
    if (g->depth == DEPTH_MAX)
        return CALL_BROKEN;
    g->is_array = (g->is_array & ~(1ull << g->depth)) | (uint64_t)array << g->depth;
    g->depth++;
    g->first = true;
    g->expect = array ? GEMMA_VALUE : GEMMA_KEY;
    a->pos++;
    return put(a, array ? "[" : "{");
}

static int close_bracket(struct answer *a)
{
    struct answer_gemma_call *g = &a->call.gemma;
    int rc = put(a, in_array(g) ? "]" : "}");
    g->depth--;
    g->expect = g->depth ? GEMMA_AFTER : GEMMA_END;
    a->pos++;
    return rc;
}

static int name(struct answer *a)
{
    size_t from, to;
    skip_space(a);
    enum found f = answer_here(a, a->pos, "call:");
    if (f != FOUND_YES)
        return f == FOUND_MAYBE ? CALL_MORE : CALL_BROKEN;
    size_t begin = a->pos;
    a->pos += strlen("call:");
    int rc = read_word(a, "{", &from, &to);
    if (rc != CALL_DONE || from == to) {
        a->pos = begin;
        return rc == CALL_DONE ? CALL_BROKEN : rc;
    }
    rc = answer_call_name(a, a->held.s + from, to - from);
    return rc ? rc : open_bracket(a, false);
}

/* The string between two marks, as much as there is. */
static int string(struct answer *a)
{
    static const char *const marks[] = { quote };
    struct answer_gemma_call *g = &a->call.gemma;
    int which;
    size_t end = answer_find(a, a->pos, marks, 1, &which);
    int rc = answer_call_escaped(a, a->held.s + a->pos, end - a->pos);
    a->pos = end;
    if (rc || which < 0)
        return rc;
    a->pos += strlen(quote);
    g->expect = g->in_key ? GEMMA_COLON : GEMMA_AFTER;
    return put(a, "\"");
}

/* A key, bare or between marks, or the end of an empty object. */
static int key(struct answer *a)
{
    struct answer_gemma_call *g = &a->call.gemma;
    size_t from, to;
    if (a->held.s[a->pos] == '}')
        return g->first ? close_bracket(a) : CALL_BROKEN;
    enum found f = answer_here(a, a->pos, quote);
    if (f == FOUND_MAYBE)
        return CALL_MORE;
    g->in_key = true;
    if (f == FOUND_YES) {
        a->pos += strlen(quote);
        g->expect = GEMMA_STRING;
        return put(a, "\"");
    }
    int rc = read_word(a, ":,{}[]<", &from, &to);
    if (rc != CALL_DONE)
        return rc;
    if (from == to || a->held.s[a->pos] != ':')
        return CALL_BROKEN;
    unsigned quoted = to - from >= 2 && a->held.s[from] == '"' && a->held.s[to - 1] == '"';
    g->expect = GEMMA_COLON;
    if ((rc = answer_call_put(a, "\"", 1)) ||
        (rc = answer_call_escaped(a, a->held.s + from + quoted, to - from - 2 * quoted)))
        return rc;
    return put(a, "\"");
}

static int value(struct answer *a)
{
    struct answer_gemma_call *g = &a->call.gemma;
    size_t from, to;
    char c = a->held.s[a->pos];
    if (c == '{' || c == '[')
        return open_bracket(a, c == '[');
    if (c == ']')
        return in_array(g) && g->first ? close_bracket(a) : CALL_BROKEN;
    enum found f = answer_here(a, a->pos, quote);
    if (f == FOUND_MAYBE)
        return CALL_MORE;
    g->in_key = false;
    if (f == FOUND_YES) {
        a->pos += strlen(quote);
        g->expect = GEMMA_STRING;
        return put(a, "\"");
    }
    int rc = read_word(a, ",}]<", &from, &to);
    if (rc != CALL_DONE)
        return rc;
    if (from == to)
        return CALL_BROKEN;
    g->expect = GEMMA_AFTER;
    rc = answer_call_value(a, a->held.s + from, to - from, TYPE_ANY);
    return rc ? rc : CALL_DONE;
}

static int after(struct answer *a)
{
    struct answer_gemma_call *g = &a->call.gemma;
    char c = a->held.s[a->pos];
    g->first = false;
    if (c == (in_array(g) ? ']' : '}'))
        return close_bracket(a);
    if (c != ',')
        return CALL_BROKEN;
    a->pos++;
    g->expect = in_array(g) ? GEMMA_VALUE : GEMMA_KEY;
    return put(a, ", ");
}

static int colon(struct answer *a)
{
    if (a->held.s[a->pos] != ':')
        return CALL_BROKEN;
    a->pos++;
    a->call.gemma.expect = GEMMA_VALUE;
    return put(a, ": ");
}

static int gemma_step(struct answer *a)
{
    static int (*const by_expect[])(struct answer *) = { name, key, colon, value, string, after };
    struct answer_gemma_call *g = &a->call.gemma;
    int rc = CALL_DONE;
    while (rc == CALL_DONE && g->expect != GEMMA_END) {
        if (g->expect != GEMMA_STRING)
            skip_space(a);
        if (a->pos == a->held.n)
            return CALL_MORE;
        rc = by_expect[g->expect](a);
    }
    return rc;
}

void answer_gemma_begin(struct answer *a)
{
    a->call.step = gemma_step;
    a->call.gemma = (struct answer_gemma_call){ .expect = GEMMA_NAME };
}
