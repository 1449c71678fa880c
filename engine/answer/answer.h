/* engine/answer/answer.h
 * What a model says, taken apart while it comes: reasoning, text, and calls of tools, in the syntax of the model's chat
 * format (model/chat.h). Calls are parsed back into names and JSON arguments.
 *
 *     answer_create(chat, &o, &sink, user, &a, &e);
 *     answer_put(a, text, n); ...                  pieces of the generated text, control tokens shown (ENGINE_SHOW_SPECIAL)
 *     answer_end(a);                               what was held back
 *     answer_destroy(a);
 *
 * Text is held back only while it may be the beginning of a mark, or white space before one: white space next to marks
 * is not passed on. Where a mark stood between two pieces of text, an empty line is put in its place. Pieces are whole
 * UTF-8 characters if the input is. */
#ifndef ZINC_ANSWER_ANSWER_H
#define ZINC_ANSWER_ANSWER_H

#include <jansson.h>

#include "model/chat.h"
#include "model/tok_buf.h"

struct answer;

/* Where an answer stands. NONE: at its start or between two parts, where a mark may come that tells what follows. */
enum answer_part { ANSWER_PART_REASONING, ANSWER_PART_TEXT, ANSWER_PART_NONE };

/* Each returns 0 or a negative errno, which answer_put and answer_end pass on. Calls come whole or in pieces: begin with
 * the name, then the arguments' JSON text (one object in all, valid JSON when the call ends), then end. `index` counts
 * the calls of this answer from 0.
 *
 * Where the text ends inside a call (the model was cut off) and the name is known, the call comes with its arguments as
 * far as they are known, and ends with complete = false; a call without a name, and marks, are not shown.
 *
 * Without tools there are no calls, and the functions for them are not needed.
 *
 * Without call_cancel a call comes when it is complete or cut off, and what began like a call and is none (broken) comes
 * as text, just as the model wrote it. With it calls come while the model writes them, and call_cancel takes one back
 * whose end will not come: `raw` is all that the model wrote of it, which is not passed to `text`. Its index is not used
 * again. */
struct answer_sink {
    int (*reasoning)(void *user, const char *text, size_t n); /* may be NULL */
    int (*text)(void *user, const char *text, size_t n);      /* may be NULL */
    int (*call_begin)(void *user, uint32_t index, const char *name);
    int (*call_arguments)(void *user, uint32_t index, const char *json, size_t n);
    int (*call_end)(void *user, uint32_t index, bool complete);
    int (*call_cancel)(void *user, uint32_t index, const char *raw, size_t n); /* may be NULL */
};

struct answer_opts {
    int think;         /* as in the prompt: 1, 0, -1 the default                                                */
    const char *tools; /* the request's tools, JSON; NULL: nothing is parsed as a call. Tells types of arguments */
    bool forced_call;  /* the answer was constrained to calls alone (tool_choice required or by name)          */
};

/* -EINVAL: tools that are not an array of functions; -ENOMEM. The template's format is all that is kept of it. */
int answer_create(const struct chat_template *chat, const struct answer_opts *o, const struct answer_sink *sink,
                  void *user, struct answer **out, struct err *e);
void answer_destroy(struct answer *a); /* NULL is fine */
int answer_put(struct answer *a, const char *text, size_t n);
int answer_end(struct answer *a);
uint32_t answer_n_calls(const struct answer *a); /* complete ones */
/* Of the text so far, also of what is still held back. A call is a part of the text. */
enum answer_part answer_part(const struct answer *a);

/* ---- the grammar of an answer ---- */

enum answer_format { ANSWER_ANY, ANSWER_JSON_OBJECT, ANSWER_JSON_SCHEMA, ANSWER_GRAMMAR };
enum answer_tool_choice { ANSWER_TOOLS_AUTO, ANSWER_TOOLS_NONE, ANSWER_TOOLS_REQUIRED, ANSWER_TOOLS_NAMED };

struct answer_rules {
    int think;
    enum answer_format format;
    const char *schema;            /* JSON_SCHEMA: JSON text; GRAMMAR: GBNF whose rules may not begin with "zinc-" */
    const char *tools;             /* JSON array as in a request, or NULL                                          */
    enum answer_tool_choice choice;
    const char *named;             /* NAMED: the function                                                          */
    bool strict;                   /* JSON_SCHEMA: refuse keywords that cannot be done. Tools say so themselves    */
    json_t *warnings;              /* lines are appended that tell what was passed over instead; NULL: nobody asks */
    bool parallel;                 /* more than one call may come (llama3.1 and gpt-oss make one an answer anyway) */
};

/* Appends GBNF for the whole output of the model: reasoning as the chat format has it (free), then an answer as the
 * rules want it. *out stays empty where nothing is constrained (ANY, with tools AUTO or none: but with tools AUTO, once a
 * call has begun its name is one of the tools' and its arguments follow their schema). -EINVAL, -ENOTSUP, -E2BIG: as in
 * json_schema_rules (each function says by itself whether it is strict), or an unknown function, tools that are not an
 * array of functions, names that are not made of letters, digits and _ - . : /, tools for a format that has none. */
int answer_grammar(const struct chat_template *chat, const struct answer_rules *r, struct tok_buf *out, struct err *e);

/* The text that ends the reasoning, for budgets: "\n</think>\n\n" and the like; NULL: the format knows none. */
const char *answer_think_end(const struct chat_template *chat);

#endif
