/* Conversations as clients send them, in an order that the format has. What a released template renders is left as it
 * is; what it refuses or leaves out without a word is put in the nearest place that it has:
 *
 *   - System and developer messages at the beginning become one.
 *   - Later ones are turns of their own where roles are free. Qwen3.5 and Gemma 3 have none: there they begin the
 *     next user message, or end the one before when none follows.
 *   - Gemma 3 wants user and model in turns: messages of one role in a row become one.
 *   - A tool's result that no call stands before is something that the user says, in formats that know results by their
 *     calls only (Gemma 4) or not at all (Gemma 3). Formats without calls get those of the history as JSON.
 *   - Where the user has to begin and the assistant does, the user says an empty message first (files' own templates). */
#include <stdlib.h>
#include <string.h>

#include "model/chat_impl.h"

enum role { SYSTEM, USER, ASSISTANT, OTHER };

static enum role role_of(const struct chat_msg *m)
{
    return chat_is_system(m)                 ? SYSTEM
           : chat_role_is(m, "user")      ? USER
           : chat_role_is(m, "assistant") ? ASSISTANT
                                          : OTHER;
}

struct chat_places chat_format_places(enum chat_format f)
{
    return (struct chat_places){ .first_system = true,
                                 .late_system = f != CHAT_QWEN35 && f != CHAT_GEMMA3,
                                 .same_role = f != CHAT_GEMMA3,
                                 .answer_first = true,
                                 .results = f != CHAT_GEMMA3,
                                 .lone_results = f != CHAT_GEMMA4,
                                 .calls = chat_format_info(f)->calls != CHAT_CALL_NONE };
}

struct order {
    struct chat_places has;
    const struct chat_msg *in;
    size_t n_in;
    bool *orphan; /* [n_in] a result, and no call stands before it and the results around it */
    struct chat_msg *out;
    char *text; /* where joined texts go, `at` of them written */
    size_t at;
};

/* What the message is in the end. */
static enum role becomes(const struct order *w, size_t i)
{
    const struct chat_msg *m = &w->in[i];
    enum role r = role_of(m);
    if (r == SYSTEM && !(i > 0 ? w->has.late_system : w->has.first_system))
        return USER;
    if (chat_role_is(m, "tool") && (!w->has.results || (!w->has.lone_results && w->orphan[i])))
        return USER;
    return r;
}

/* Where the messages end that become one with message i. */
static size_t group_end(const struct order *w, size_t i)
{
    enum role r = becomes(w, i);
    size_t end = i + 1;
    if (i == 0 && r == SYSTEM) {
        while (end < w->n_in && role_of(&w->in[end]) == SYSTEM)
            end++;
        return end;
    }
    if (!w->has.same_role) {
        while (end < w->n_in && r != OTHER && becomes(w, end) == r)
            end++;
        return end;
    }
    if (w->has.late_system || r != USER)
        return end;
    while (end < w->n_in && role_of(&w->in[end - 1]) == SYSTEM && becomes(w, end) == USER)
        end++;
    for (size_t k = end; k < w->n_in && role_of(&w->in[k]) == SYSTEM; k++)
        if (k + 1 == w->n_in || becomes(w, k + 1) != USER)
            return k + 1; /* no user message follows */
    return end;
}

static void add(struct order *w, const char *s)
{
    size_t n = s ? strlen(s) : 0;
    if (n)
        memcpy(w->text + w->at, s, n);
    w->at += n;
}

static void add_calls(struct order *w, const struct chat_msg *m, bool line)
{
    for (size_t i = 0; i < m->n_calls; i++) {
        add(w, i || line ? "\n{\"name\": \"" : "{\"name\": \"");
        add(w, m->calls[i].name);
        add(w, "\", \"arguments\": ");
        add(w, m->calls[i].arguments && *m->calls[i].arguments ? m->calls[i].arguments : "{}");
        add(w, "}");
    }
}

static size_t text_bytes(const struct order *w)
{
    size_t n = 1;
    for (size_t i = 0; i < w->n_in; i++) {
        const struct chat_msg *m = &w->in[i];
        n += (m->content ? strlen(m->content) : 0) + 3;
        for (size_t k = 0; k < m->n_calls; k++)
            n += (m->calls[k].name ? strlen(m->calls[k].name) : 0) +
                 (m->calls[k].arguments ? strlen(m->calls[k].arguments) : 0) + 40;
    }
    return n;
}

/* Messages i to end as one, with an empty line between texts. */
static struct chat_msg join(struct order *w, size_t i, size_t end)
{
    static const char *const names[] = { [SYSTEM] = "system", [USER] = "user", [ASSISTANT] = "assistant" };
    enum role r = becomes(w, i);
    struct chat_msg m = w->in[i];
    bool calls = !w->has.calls && m.n_calls;
    if (r != OTHER && (r != role_of(&m) || end > i + 1))
        m.role = names[r];
    if (end == i + 1 && !calls)
        return m;
    size_t from = w->at;
    for (; i < end; i++) {
        const struct chat_msg *part = &w->in[i];
        bool none = !part->content || !*part->content;
        if (w->at > from && (!none || part->n_calls))
            add(w, "\n\n");
        add(w, part->content);
        if (!w->has.calls)
            add_calls(w, part, !none);
    }
    m.content = w->text + from;
    m.n_calls = 0;
    w->text[w->at++] = 0;
    return m;
}

static void find_orphans(struct order *w)
{
    for (size_t i = 0; i < w->n_in; i++) {
        bool after_result = i > 0 && chat_role_is(&w->in[i - 1], "tool");
        if (chat_role_is(&w->in[i], "tool"))
            w->orphan[i] = after_result ? w->orphan[i - 1] : i == 0 || !w->in[i - 1].n_calls;
    }
}

int chat_order(struct chat_out *o, struct chat_places has)
{
    struct order w = { .has = has, .in = o->msg, .n_in = o->n };
    size_t n = 0;
    w.out = calloc(o->n + 1, sizeof *w.out);
    w.text = malloc(text_bytes(&w));
    w.orphan = calloc(o->n, sizeof *w.orphan);
    o->ordered = w.out;
    o->texts = w.text;
    if (!w.out || !w.text || !w.orphan) {
        free(w.orphan);
        return o->rc = err_set(o->e, -ENOMEM, "chat: no memory for %zu messages", o->n);
    }
    find_orphans(&w);
    for (size_t i = 0, end; i < o->n; i = end) {
        end = group_end(&w, i);
        if (!has.answer_first && becomes(&w, i) == ASSISTANT && (n == 0 || (n == 1 && role_of(&w.out[0]) == SYSTEM)))
            w.out[n++] = (struct chat_msg){ .role = "user", .content = "" };
        w.out[n++] = join(&w, i, end);
    }
    free(w.orphan);
    o->msg = w.out;
    o->n = n;
    return 0;
}
