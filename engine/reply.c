#include "engine/reply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

enum { FIRST_CAP = 4096 };

int reply_init(struct reply *r, const struct reply_marks *m, reply_fn fn, void *user)
{
    *r = (struct reply){ .m = *m, .fn = fn, .user = user, .cap = FIRST_CAP };
    r->state = !m->think_begin ? REPLY_IN_ANSWER : m->opened ? REPLY_IN_REASONING : REPLY_AT_START;
    /* A format whose answer has a head of its own, "<|start|>assistant<|channel|>final": the part before what
     * think_begin starts with also leads into more reasoning, and the rest comes alone when there is none. */
    if (m->think_begin && m->answer_begin) {
        size_t first = strcspn(m->think_begin, ">") + 1;
        char tag[64];
        snprintf(tag, sizeof tag, "%.*s", (int)MIN(first, strlen(m->think_begin)), m->think_begin);
        r->plain = strstr(m->answer_begin, tag);
        if (r->plain)
            snprintf(r->again, sizeof r->again, "%.*s%s", (int)(r->plain - m->answer_begin), m->answer_begin,
                     m->think_begin);
    }
    r->held = malloc(r->cap);
    return r->held ? 0 : -ENOMEM;
}

void reply_finish(struct reply *r)
{
    free(r->held);
    r->held = NULL;
}

static void drop(struct reply *r, size_t n)
{
    memmove(r->held, r->held + n, r->n_held - n);
    r->n_held -= n;
}

static int say(struct reply *r, enum reply_part part, size_t n)
{
    size_t skip = 0;
    while (!r->said && skip < n && strchr(" \t\r\n", r->held[skip])) /* blank lines around the marks */
        skip++;
    int rc = n > skip ? r->fn(r->user, part, r->held + skip, n - skip) : 0;
    r->said |= n > skip;
    drop(r, n);
    return rc;
}

/* Does the held text begin with `mark`? maybe: it may when more comes. */
static bool begins(const struct reply *r, size_t from, const char *mark, bool *maybe)
{
    if (!mark || !*mark)
        return false;
    size_t n = strlen(mark), have = r->n_held - from;
    if (have < n && memcmp(r->held + from, mark, have) == 0)
        *maybe = true;
    return have >= n && memcmp(r->held + from, mark, n) == 0;
}

static void enter(struct reply *r, enum reply_state state, size_t used)
{
    drop(r, used);
    r->state = state;
    r->said = false;
}

/* At a place where marks may stand: true when the state changed, false when more text is needed to tell. */
static bool look_for_marks(struct reply *r, bool last)
{
    bool maybe = false, start = r->state == REPLY_AT_START;
    size_t from = 0;
    while (from < r->n_held && strchr(" \t\r\n", r->held[from]))
        from++;
    const char *more = start ? r->m.think_begin : r->again;
    const char *answer = start ? r->plain : r->m.answer_begin;
    if (begins(r, from, more, &maybe))
        enter(r, REPLY_IN_REASONING, from + strlen(more));
    else if (begins(r, from, answer, &maybe))
        enter(r, REPLY_IN_ANSWER, from + strlen(answer));
    else if (!maybe || last)
        enter(r, REPLY_IN_ANSWER, 0);
    else
        return false;
    return true;
}

/* Passes on reasoning up to its end: true when the end was found. */
static bool look_for_end(struct reply *r, bool last, int *rc)
{
    size_t n_end = strlen(r->m.think_end);
    const char *end = r->n_held ? memmem(r->held, r->n_held, r->m.think_end, n_end) : NULL;
    if (end) {
        *rc = say(r, REPLY_REASONING, (size_t)(end - r->held));
        enter(r, REPLY_AFTER_REASONING, n_end);
        return true;
    }
    size_t keep = last ? 0 : MIN(n_end - 1, r->n_held);
    while (keep && memcmp(r->held + r->n_held - keep, r->m.think_end, keep) != 0)
        keep--;
    *rc = say(r, REPLY_REASONING, r->n_held - keep);
    return false;
}

static int go_on(struct reply *r, bool last)
{
    int rc = 0;
    bool moved = true;
    while (moved && r->n_held && !rc) {
        switch (r->state) {
        case REPLY_AT_START:
        case REPLY_AFTER_REASONING:
            moved = look_for_marks(r, last);
            break;
        case REPLY_IN_REASONING:
            moved = look_for_end(r, last, &rc);
            break;
        case REPLY_IN_ANSWER:
            rc = say(r, REPLY_ANSWER, r->n_held);
            break;
        }
    }
    return rc;
}

int reply_put(struct reply *r, const char *text, size_t n)
{
    if (r->n_held + n > r->cap) {
        char *more = realloc(r->held, 2 * (r->n_held + n));
        if (!more)
            return -ENOMEM;
        r->held = more;
        r->cap = 2 * (r->n_held + n);
    }
    if (n)
        memcpy(r->held + r->n_held, text, n);
    r->n_held += n;
    return go_on(r, false);
}

int reply_end(struct reply *r)
{
    return go_on(r, true);
}
