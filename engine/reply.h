/* engine/reply.h
 * An answer in two parts: what the model thinks, and what it says. The splitter reads the text of an answer piece by
 * piece and passes it on without the marks that the chat format puts around the two. It holds back only what may be
 * the beginning of a mark.
 *
 *     struct reply_marks m = { "<think>", "</think>", NULL, false };
 *     reply_init(&r, &m, on_part, user);
 *     reply_put(&r, text, n); ...
 *     reply_end(&r);
 *     reply_finish(&r); */
#ifndef ZINC_ENGINE_REPLY_H
#define ZINC_ENGINE_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum reply_part { REPLY_REASONING, REPLY_ANSWER };

/* Returns 0 or a negative errno, which reply_put and reply_end pass on. */
typedef int (*reply_fn)(void *user, enum reply_part part, const char *text, size_t n);

struct reply_marks {
    const char *think_begin, *think_end; /* NULL: the format knows no reasoning                            */
    const char *answer_begin;            /* what follows think_end before the answer; NULL: nothing        */
    bool opened;                         /* the prompt ends inside the reasoning: no think_begin will come */
};

enum reply_state { REPLY_AT_START, REPLY_IN_REASONING, REPLY_AFTER_REASONING, REPLY_IN_ANSWER };

struct reply {
    struct reply_marks m;
    reply_fn fn;
    void *user;
    enum reply_state state;
    bool said;                           /* something of the current part was passed on                    */
    char again[160];                     /* answer_begin's way into another round of reasoning             */
    const char *plain;                   /* answer_begin's tail, as it comes without reasoning before it   */
    char *held;
    size_t n_held, cap;
};

/* The marks' strings must live as long as the splitter. -ENOMEM. */
int reply_init(struct reply *r, const struct reply_marks *m, reply_fn fn, void *user);
void reply_finish(struct reply *r);
int reply_put(struct reply *r, const char *text, size_t n);
int reply_end(struct reply *r); /* passes on what was held back */

#endif
