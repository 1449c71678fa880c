/* Calls of CHAT_CALL_NAMED: a name between marks, then the arguments as a JSON object, which are passed on as they come. */
#include <errno.h>

#include "engine/answer/answer_impl.h"

enum { NAME_MAX_BYTES = 160, ID_MAX_BYTES = 80 };

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_-.:/", c));
}

static size_t word(const struct answer *a, size_t at)
{
    size_t from = at;
    while (at < a->held.n && in_name(a->held.s[at]))
        at++;
    return at - from;
}

/* Without what the form puts around it. */
static int take_name(struct answer *a, const char *s, size_t n)
{
    const struct chat_named_calls *in = a->in->named;
    size_t prefix = strlen(in->prefix), digits = n;
    if (n > prefix && memcmp(s, in->prefix, prefix) == 0)
        s += prefix, n -= prefix, digits -= prefix;
    while (in->numbered && digits && s[digits - 1] >= '0' && s[digits - 1] <= '9')
        digits--;
    if (digits > 1 && digits < n && s[digits - 1] == ':')
        n = digits - 1;
    return answer_call_name(a, s, n);
}

/* The name and what follows it, up to the arguments. */
static int read_head(struct answer *a)
{
    const struct chat_named_calls *in = a->in->named;
    size_t at = a->pos;
    while (at < a->held.n && answer_space(a->held.s[at]))
        at++;
    size_t from = at, n = word(a, at);
    at += n;
    if (n > NAME_MAX_BYTES)
        return CALL_BROKEN;
    if (at == a->held.n)
        return CALL_MORE;
    enum found id = *in->id_begin && n ? answer_here(a, at, in->id_begin) : FOUND_NO;
    if (id == FOUND_YES) {
        size_t begin = at + strlen(in->id_begin), n_id = word(a, begin);
        if (n_id > ID_MAX_BYTES)
            return CALL_BROKEN;
        at = begin + n_id;
        if (at == a->held.n)
            return CALL_MORE;
    }
    enum found args = n ? answer_here(a, at, in->args_begin) : FOUND_NO;
    if (args != FOUND_YES)
        return args == FOUND_MAYBE || id == FOUND_MAYBE ? CALL_MORE : CALL_BROKEN;
    a->pos = a->call.named.body = at + strlen(in->args_begin);
    int rc = take_name(a, a->held.s + from, n);
    return rc ? rc : CALL_DONE;
}

/* One more byte of the arguments; CALL_DONE: the object's last one. */
static int args_byte(struct answer_named_call *c, char b)
{
    if (c->string) {
        if ((unsigned char)b < 0x20)
            return CALL_BROKEN;
        bool ends = b == '"' && !c->escape;
        c->escape = b == '\\' && !c->escape;
        c->string = !ends;
        return CALL_MORE;
    }
    if (b == '"')
        c->string = true;
    else if (b == '{' || b == '[')
        c->depth++;
    else if (b == '}' || b == ']')
        c->depth--;
    return c->depth ? CALL_MORE : CALL_DONE;
}

static int read_args(struct answer *a)
{
    struct answer_named_call *c = &a->call.named;
    while (!c->depth && c->body < a->held.n && answer_space(a->held.s[c->body]))
        a->pos = ++c->body;
    size_t from = a->pos;
    int rc = CALL_MORE;
    if (!c->depth && from < a->held.n && a->held.s[from] != '{')
        return CALL_BROKEN;
    while (rc == CALL_MORE && a->pos < a->held.n) {
        rc = args_byte(c, a->held.s[a->pos]);
        a->pos += rc != CALL_BROKEN;
    }
    if (rc == CALL_BROKEN)
        return rc;
    int put = a->pos > from ? answer_call_put(a, a->held.s + from, a->pos - from) : 0;
    if (put || rc == CALL_MORE)
        return put;
    return answer_expect_object(a->held.s + c->body, a->pos - c->body);
}

static int named_step(struct answer *a)
{
    int rc = a->call.named.body ? CALL_DONE : read_head(a);
    return rc == CALL_DONE ? read_args(a) : rc;
}

void answer_named_begin(struct answer *a)
{
    a->call.step = named_step;
    a->call.named = (struct answer_named_call){ 0 };
}
