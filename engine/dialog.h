/* engine/dialog.h
 * A conversation over one session. Every turn evaluates only what the session does not hold already: attention models
 * go back to where the new prompt differs from what they hold (chat formats drop old reasoning); recurrent models,
 * which cannot go back, keep everything and append the new turn.
 *
 *     dialog_create(s, "Be brief.", -1, &d, &e);
 *     dialog_say(d, "Hello", &opts, on_part, user, &result, &e);
 *     dialog_say(d, "And now?", ...);
 *     dialog_destroy(d); */
#ifndef ZINC_ENGINE_DIALOG_H
#define ZINC_ENGINE_DIALOG_H

#include "engine/answer/answer.h"
#include "engine/generate.h"

struct dialog;

/* system may be NULL; think as in engine_chat. */
int dialog_create(struct session *s, const char *system, int think, struct dialog **out, struct err *e);
void dialog_destroy(struct dialog *d); /* NULL is fine; the session stays */

/* Forgets all turns; `system` replaces the system message, NULL: none. */
int dialog_reset(struct dialog *d, const char *system, struct err *e);
const char *dialog_system(const struct dialog *d);
uint32_t dialog_n_messages(const struct dialog *d);
/* The i-th message, the system's included; valid until the conversation changes. */
const struct engine_message *dialog_message(const struct dialog *d, uint32_t i);
/* For the turns to come; as in engine_chat. */
void dialog_set_think(struct dialog *d, int think);

/* Takes the last message of the user and its answer back. -ENOENT: there is none. */
int dialog_undo(struct dialog *d, struct err *e);
/* Replaces the conversation: m [n], roles system (only the first), user and assistant, which take turns and end with
 * assistant; texts are copied. -EINVAL: another order; the conversation is then as it was. */
int dialog_load(struct dialog *d, const struct engine_message *m, uint32_t n, struct err *e);

/* Gets the answer in parts, reasoning or text. Returns 0 or a negative errno, which ends the generation. */
typedef int (*dialog_fn)(void *user, enum answer_part part, const char *text, size_t n);

/* Adds the user's message, generates the answer and adds it. o->on_text and o->show_special are not used: the answer
 * goes to fn, which may be NULL. On failure the message is taken back; an interrupted answer stays. */
int dialog_say(struct dialog *d, const char *text, const struct gen_opts *o, dialog_fn fn, void *user,
               struct gen_result *r, struct err *e);

/* The same in steps, as generation_begin has them: after dialog_begin only these until dialog_end, which adds the answer,
 * whether it is complete or not; after a step that failed it takes the message back and returns that failure. */
int dialog_begin(struct dialog *d, const char *text, const struct gen_opts *o, dialog_fn fn, void *user, struct err *e);
int dialog_step(struct dialog *d, struct err *e);   /* 1: it goes on; 0: it ended; negative: it failed */
int dialog_cancel(struct dialog *d, struct err *e); /* ends it before the next step */
const struct gen_result *dialog_result(const struct dialog *d); /* so far */
int dialog_end(struct dialog *d, struct gen_result *r, struct err *e);

/* The answer and the reasoning of the last turn; "" when there is none. */
const char *dialog_answer(const struct dialog *d);

#endif
