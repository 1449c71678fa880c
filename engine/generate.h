/* engine/generate.h
 * From a prompt to a stream of text. A `struct gen` is one answer in the making: it chooses tokens, turns them into
 * text that never ends inside a character, and finds its end. Whoever drives the model asks it for the next token:
 *
 *     gen_create(eng, &o, &g, &e);
 *     gen_begin(g, &e);
 *     gen_prompt(g, prompt, n);                            the sampler's penalties see the prompt
 *     session_eval(s, prompt, n, &logits, &e);
 *     while (gen_prepare(g, &limit, true, &e) == 0 && gen_next(g, logits, &id, &e) == 1)   text goes to o.on_text
 *         session_eval(s, &id, 1, &logits, &e);
 *     gen_result(g) ...
 *
 * generate() is that loop for one session. Nothing is allocated between the prompt and the end of the answer. */
#ifndef ZINC_ENGINE_GENERATE_H
#define ZINC_ENGINE_GENERATE_H

#include "engine/engine.h"
#include "engine/grammar/grammar.h"

/* X(name, text in JSON, for people) */
#define GEN_REASONS(X)                                                                                                 \
    X(RUNNING, "running", "still running")                                                                             \
    X(EOG, "stop", "the model ended its answer")                                                                       \
    X(STOP_STRING, "stop_string", "a stop string appeared")                                                            \
    X(LENGTH, "length", "the limit of -n was reached")                                                                 \
    X(CONTEXT, "context", "the context is full")                                                                       \
    X(CANCELLED, "cancelled", "interrupted")                                                                           \
    X(FAILED, "error", "an error")

enum gen_reason {
#define X(name, json, text) GEN_##name,
    GEN_REASONS(X)
#undef X
};

struct gen_opts {
    struct sampler_params sampling;
    uint32_t n_max;          /* tokens at most; 0: until the end of the answer or of the context      */
    bool ignore_eos;         /* tokens that end the answer are never chosen                           */
    bool show_special;       /* print control tokens as text                                          */
    const char *const *stop; /* [n_stop] strings that end the answer and are not part of it           */
    uint32_t n_stop;
    bool fingerprint;        /* generate: the result's is wanted                                      */
    bool want_logits;        /* on_token gets them always, else only where the host chose the token   */
    /* generate: tokens guessed ahead at most (engine/draft.h), DRAFT_MOST of them; 0: none. predicted [n_predicted]: what the answer may
     * be like, beside its prompt; read by generation_begin. */
    uint32_t n_draft;
    const int32_t *predicted;
    uint32_t n_predicted;
    struct grammar *grammar; /* what the whole answer must be, reasoning included; NULL: free. Takes a reference */
    /* Whose answer it is (engine_chat_template), and whether it was asked to think, as in the prompt; with show_special,
     * since marks may be control tokens. Reasoning is then counted, and what is longer than think_budget tokens is ended
     * by the format's own words (answer_think_end), which the model reads as its own. chat NULL: nobody asks; a budget
     * below 0: no limit. */
    const struct chat_template *chat;
    int think;
    int32_t think_budget;
    /* Each may be NULL. Text is whole UTF-8 characters. on_token comes before the token's text; a token that ended the
     * answer (EOG) is reported too, its text never. They return 0, or a negative errno that ends the generation. */
    int (*on_text)(void *user, const char *text, size_t n);
    int (*on_token)(void *user, int32_t id, const float *logits);
    void *user;
};

struct gen_result {
    enum gen_reason reason;
    uint32_t n_prompt, n_tokens; /* n_tokens: chosen, the ending one included                             */
    uint32_t n_reused;           /* generate: prompt tokens that the session already held                 */
    uint64_t prompt_ns, decode_ns; /* generate: decode_ns is the time of evaluating n_tokens - 1 of them  */
    uint64_t decode_bytes;       /* generate: moved in decode_ns, by the streams' cost                    */
    uint32_t n_decoded;          /* tokens evaluated in decode_ns, but for wrong guesses                  */
    uint32_t n_guessed, n_right; /* guessed tokens that were evaluated, and those of them that were right */
    uint32_t fingerprint;        /* engine_fingerprint of the last logits a token was chosen from, with gen_opts.fingerprint */
    uint32_t stop_index;         /* GEN_STOP_STRING: which                                                */
    uint32_t n_thought;          /* tokens of reasoning, its marks included; with `chat` only             */
};

struct gen;

int gen_create(const struct engine *eng, const struct gen_opts *o, struct gen **out, struct err *e);
void gen_destroy(struct gen *g); /* NULL is fine */

/* The grammar's part, which may be costly: engine/grammar/grammar.h has limits and errors. gen_begin makes the state,
 * once, on the thread that chooses; gen_prepare has to succeed before each choice (without a grammar it does nothing).
 * Between the two the state may be lent to a thread that prepares it. gen_end_grammar: the answer is at its end, the
 * state goes (`lent`: it belongs to somebody else now). */
int gen_begin(struct gen *g, struct err *e);
int gen_prepare(struct gen *g, struct grammar_limit *l, bool wait, struct err *e);
struct grammar_state *gen_grammar_state(const struct gen *g);
/* How many of the tokens that are guessed to come next the grammar lets come (grammar_state_allows); without one all. */
uint32_t gen_allows(const struct gen *g, const int32_t *tok, uint32_t n, struct grammar_limit *l);
void gen_end_grammar(struct gen *g, bool lent);
void gen_prompt(struct gen *g, const int32_t *tok, uint32_t n);

/* The part of gen_next that looks at the whole vocabulary, ahead of it: returns the choice, or -1, which gen_next then takes. On any
 * thread, and beside those of other gens. */
int32_t gen_choose(struct gen *g, const float *logits);
/* 1: *id is the next token to evaluate; 0: the answer ended, see gen_result; negative: failed; -ENODATA: the grammar
 * allows only what logit_bias forbids. */
int gen_next(struct gen *g, const float *logits, int32_t *id, struct err *e);
/* May session_eval_next choose the token after the next evaluation, and how? Then gen_next_chosen takes what it chose
 * (-1: nothing) in the place of gen_next; logits may be NULL. What gen_refuses, a suppressed token, is for gen_next to
 * choose after all (engine_last_logits has the logits). */
bool gen_device(const struct gen *g, ka_sample *how);
/* May the evaluation of the token that is being chosen be submitted before the host has seen that token? Then *how is for the one
 * after it. What the host could still put in its place, a suppressed token's, is evaluated in vain: only where that can be taken
 * back (can_go_back). */
bool gen_flies(const struct gen *g, bool can_go_back, ka_sample *how);
/* For the result: n tokens were guessed, or `right` of them were right. */
void gen_tell_guess(struct gen *g, uint32_t n, uint32_t right);
uint32_t gen_left(const struct gen *g); /* tokens that it may still choose; UINT32_MAX: any number */
bool gen_refuses(const struct gen *g, int32_t chosen);
int gen_next_chosen(struct gen *g, int32_t chosen, const float *logits, int32_t *id, struct err *e);

/* Ends the answer from outside: what was held back as the possible start of a stop string is printed. */
int gen_end(struct gen *g, enum gen_reason why, struct err *e);
const struct gen_result *gen_result(const struct gen *g);
const struct sampler *gen_sampler(const struct gen *g);

/* Evaluates the prompt (only what `s` does not hold already) and generates. On failure and on -ECANCELED during the
 * prompt returns a negative errno, *r is still filled; an interruption while generating is a result, not a failure. */
int generate(struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n, struct gen_result *r,
             struct err *e);

/* The same in steps, for who shares the engine with others: between two steps other sessions of it may be evaluated. A
 * step evaluates what is left of the prompt, or the newest token, and chooses the next one; its text comes meanwhile.
 * `prompt` must live until the first step returned, what `o` points to until the end, as there. generation_step: 1: it
 * goes on; 0: it ended, see the result; negative: it failed. generation_cancel ends it before the next step. After either the
 * engine is not touched any more. */
struct generation;
int generation_begin(struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n,
                     struct generation **out, struct err *e);
int generation_step(struct generation *x, struct err *e);
int generation_cancel(struct generation *x, struct err *e);
const struct gen_result *generation_result(const struct generation *x);
void generation_destroy(struct generation *x); /* NULL is fine */

const char *gen_reason_json(enum gen_reason r);
const char *gen_reason_text(enum gen_reason r);

#endif
