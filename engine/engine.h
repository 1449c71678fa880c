/* engine/engine.h
 * All that programs see. An engine is a loaded model on one tier; a session is one timeline of tokens over it. The
 * engine joins the file (model/), its command streams (graph/) and the tier that runs them (rt/); programs see none of
 * the three.
 *
 *     struct engine_opts o = { .path = "model.gguf", .n_ctx = 4096 };
 *     engine_open(&o, &eng, &e);
 *     session_create(eng, &s, &e);
 *     session_eval(s, prompt, n, &logits, &e);      logits of the last token, f32 [n_vocab]
 *     ... sampler_choose, session_eval(s, &id, 1, ...)          or generate() of engine/generate.h
 *     session_destroy(s);
 *     engine_close(eng);
 *
 * Not thread-safe: one thread at a time drives an engine and its sessions. Text functions (engine_encode and the like)
 * only read and may run on any thread. */
#ifndef ZINC_ENGINE_ENGINE_H
#define ZINC_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/flag.h"
#include "base/progress.h"
#include "engine/sample/sampler.h"

enum { DRAFT_MOST = 7 }; /* tokens of a guess (engine/draft.h) */
#define ENGINE_KV_TYPES "f16, f32, q8_0, fp8, q4_0, rot4" /* doc/kv-cache.md */

/* Zero is the default everywhere but in `device`. */
struct engine_opts {
    const char *path;        /* GGUF file; the first part of a split model                                   */
    const char *stream_path; /* replay this saved stream instead of compiling one; sets the context          */
    const char *tier;        /* NULL: $ZINC_TIER, else auto. NAME or NAME:WORD..., words: exact, check, replay,
                                persistent, nofuse, a KV type, edgeN: kv_edge, sm90: lockstep's, as on Hopper */
    const char *plan;        /* auto, replay, persistent                                                     */
    bool plan_or_nothing;    /* -ENOTSUP where there is no such plan, in place of a warning and replay        */
    const char *kv;          /* one of ENGINE_KV_TYPES; NULL: f16                                            */
    uint32_t kv_edge;        /* the first and the last so many layers with a cache keep f16                  */
    const char *rope_scaling; /* linear, yarn: how an n_ctx beyond what the model was trained for is reached, and nothing where it is
                                not beyond; NULL: not at all                                                 */
    float rope_factor;       /* so many times as far; 0: as far as n_ctx asks for                            */
    const char *device_name; /* part of the device's name                                                    */
    int device;              /* index among the tier's devices; -1, and 0 without `device_set`: best         */
    bool device_set;
    bool exact;              /* cpu: dequantise and accumulate in double                                     */
    bool check;              /* verify hazards while running, where the tier can                             */
    bool trace;              /* time stamps per command                                                      */
    int fresh;               /* 1: without compiled kernels that this process has; 2: nor those on disk      */
    bool no_fuse;            /* one command per operation where the catalogue has one                        */
    bool ignore_memory;      /* do not compare the plan with the memory that is free                         */
    bool fit;                /* n_ctx 0: all that the model was trained for, as far as memory goes; n_slots 0: up
                                to 4 (on a card 8, vectors there 16, with batch_variant as many as a step takes), fewer where that
                                leaves a session a short context: engine_info.fit tells what was chosen, and what else it could
                                have been                                                                    */
    uint32_t n_ctx;          /* positions of a session; 0, without `fit`: 4096, or ctx_wanted if that is more, but
                                not more than the model was trained for                                      */
    uint32_t ctx_wanted;     /* what the caller expects to need                                              */
    uint32_t n_slots;        /* sessions at the same time; 0: 1                                              */
    bool batch_variant;      /* where steps for so many sessions take kernels for many rows, those of few rows take kernels for few,
                                which are as fast as with few sessions; but a row's low bits depend on how many share its step   */
    uint32_t chunk;          /* prompt tokens per step; 0: 512                                               */
    bool go_back;            /* one slot: room for a second state, so that a recurrent model can guess too
                                (gen_opts.n_draft)                                                           */
    uint32_t score_rows;     /* rows of a step that may return logits, for session_score; 0: 8, or where `fit` chooses
                                n_slots that many                                                            */
    const char *pooling;     /* NULL: the model continues text. "auto": it does what its file says that it is made for;
                                "mean", "cls", "last", "rank": it gives a vector, or scores, for a whole sequence */
    int threads;             /* cpu: 0: $ZINC_THREADS, else one per core                                     */
    bool no_pin;             /* cpu: threads may move between cores: for several engines in a process        */
    const struct progress *progress; /* loading; must live through engine_open only                          */
};

struct engine_info {
    const char *path, *label;       /* label: the file's name without folder and extension                   */
    const char *model_name, *family;
    const char *weights;            /* the type that most weights have, "Q4_K"                               */
    const char *tier, *plan;        /* names as in --tier and --plan                                         */
    const char *kv;                 /* the type of its KV cache, one of ENGINE_KV_TYPES */
    const char *fit;                /* for people: how context and sessions were chosen; "" without engine_opts.fit */
    const char *rope;               /* for people: how positions are scaled by engine_opts.rope_scaling; "": they are not */
    const char *plan_why;           /* for people: why this plan, where another one was asked for or could be; "" else */
    const char *device, *why;       /* for people; why: the tier's note, may be empty                        */
    bool exact, recurrent, has_vocab; /* recurrent: holds state that cannot be rewound                       */
    const char *pooling;     /* what it does here: NULL: continues text; else a name as in engine_opts       */
    const char *made_for;    /* the same by its file; NULL: text, or nothing is said                         */
    uint32_t n_vector;       /* with pooling: numbers for a sequence                                         */
    bool reopens;            /* the tier: engine_reopen may bring it back after a device fault */
    bool is_reference, dry_run, compiles; /* the tier: others are compared with it; it computes nothing, logits are
                                             made up; opening it compiles kernels, which are kept            */
    uint32_t n_layer, n_embd, n_vocab, n_ctx, n_ctx_train, n_slots, chunk, n_cmds;
    uint32_t n_batch;        /* sessions that session_eval_batch takes at once */
    uint32_t few_rows;       /* by engine_opts.batch_variant: steps of up to so many rows take kernels of their own; 0: none do */
    uint64_t n_params, file_bytes;
    uint64_t weight_bytes, const_bytes, kv_bytes, state_bytes, scratch_bytes, io_bytes; /* the memory plan   */
    uint64_t mem_need, mem_free; /* what all of it takes on the tier, and what was free for it before; mem_free 0: unknown */
    bool host_memory;        /* that is the host's memory, not a device's                                    */
    uint64_t load_ns;
};

struct engine_stats {
    uint64_t steps, rows;    /* submissions and the rows in them                              */
    uint64_t busy_ns;        /* from submit to completion                                     */
    uint64_t bytes;          /* weights, state and cache moved, by the streams' cost          */
    uint64_t flops;          /* operations, by the same; a multiply-add is two                */
    uint64_t host_ns;        /* that the host spent submitting                                */
    uint64_t words, host_bytes; /* patched and written to submit; host_bytes 0: not counted   */
};

struct engine;
struct session;

/* -ENOENT and the like: the file; -EINVAL, -ENOTSUP: the file or the options, by name; -ENODEV: no such tier here;
 * -ENOMEM: the plan does not fit, with figures and a remedy; -ECANCELED: by the progress function. */
int engine_open(const struct engine_opts *o, struct engine **out, struct err *e);
void engine_close(struct engine *eng); /* NULL is fine; sessions must be gone */

/* In two steps: the file and its vocabulary, enough for the text functions and for the part of engine_info that the
 * file tells; then, when sessions are wanted, the model on its tier (o->path is not looked at). After a failed start
 * the engine can only be closed. */
int engine_open_vocab(const char *path, struct engine **out, struct err *e);
int engine_start(struct engine *eng, const struct engine_opts *o, struct err *e);

/* After a device fault, where engine_info.reopens: the tier once more, with the model's weights and empty caches. No session may
 * be there. An error: the engine can only be closed. */
int engine_reopen(struct engine *eng, struct err *e);

const struct engine_info *engine_info(const struct engine *eng);
struct engine_stats engine_stats(const struct engine *eng); /* since the engine was opened */

/* ---- text ---- */

enum {
    ENGINE_ADD_SPECIAL = 1,   /* BOS and EOS where the file asks for them            */
    ENGINE_PARSE_SPECIAL = 2, /* control tokens written in the text become tokens    */
    ENGINE_SHOW_SPECIAL = 4,  /* print control tokens as their text                  */
};

/* *ids [*n] is malloc'ed, the caller frees it. -ENOENT: the model has no vocabulary. */
int engine_encode(const struct engine *eng, const char *text, size_t len, unsigned flags, int32_t **ids, uint32_t *n,
                  struct err *e);
/* *text [*len] is malloc'ed and NUL-terminated. */
int engine_decode(const struct engine *eng, const int32_t *ids, uint32_t n, unsigned flags, char **text, size_t *len,
                  struct err *e);
bool engine_is_eog(const struct engine *eng, int32_t id);

/* The vocabulary as grammars need it (engine/grammar/grammar.h), made by the first call; the engine owns it. Any thread.
 * -ENOENT: the model has no vocabulary. */
struct vocab_index;
int engine_vocab(const struct engine *eng, const struct vocab_index **out, struct err *e);

/* ---- conversations ---- */

/* One call of a tool that the assistant made. */
struct engine_call {
    const char *id;        /* NULL: none                                          */
    const char *name;
    const char *arguments; /* JSON text, an object; NULL is {}                    */
};

struct engine_message {
    const char *role;      /* "system", "developer", "user", "assistant", "tool"  */
    const char *text;      /* NULL is ""                                          */
    const char *reasoning; /* assistant: what was thought before; NULL: nothing   */
    const struct engine_call *calls; /* [n_calls], assistant                      */
    uint32_t n_calls;
    const char *name;      /* tool: the function, NULL when only the id is known  */
    const char *call_id;   /* tool: which call it answers                         */
};

struct engine_chat_opts {
    int think;             /* 1 and 0 ask a thinking model to think or not, -1 leaves it its default            */
    const char *tools;     /* JSON array of {"type":"function","function":{..}}, NULL: none                     */
    const char *effort;    /* gpt-oss: "low", "medium", "high"; NULL: medium                                    */
    const char *date;      /* "YYYY-MM-DD"; NULL: today for gpt-oss, the template's own fixed date for Llama 3.1 */
    bool continue_final;   /* the last message, the assistant's, is left open: it is the answer's beginning         */
};

/* A prompt as ids, and where its messages end: ascending positions, each where the next message begins. Malloc'ed. */
struct engine_prompt {
    int32_t *ids;
    uint32_t n;
    uint32_t *boundary;
    uint32_t n_boundary;
};
void engine_prompt_free(struct engine_prompt *p); /* and zeroes it */

/* The conversation in the model's chat format, ready for the assistant's answer. -EINVAL: the format cannot express it,
 * with the reason; -ENOTSUP: tools for a format that has none; -ENOENT: no vocabulary. */
int engine_chat_prompt(const struct engine *eng, const struct engine_message *m, uint32_t n_messages,
                       const struct engine_chat_opts *o, struct engine_prompt *out, struct err *e);

/* The same as ids alone (malloc'ed), without tools. */
int engine_chat(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think, int32_t **ids,
                uint32_t *n, struct err *e);

/* The format's name, and whether it is a guess because the file has no template that zinc knows. */
const char *engine_chat_format(const struct engine *eng, bool *guessed);

/* The format itself, for answer_create (engine/answer/answer.h); the engine owns it. */
struct chat_template;
const struct chat_template *engine_chat_template(const struct engine *eng);

/* What a model had written, marks and all, when it came to the point where a prompt with continue_final ends: for parsers
 * of answers, which begin at the beginning. "" where it was nothing but text. */
const char *engine_chat_resume(const struct engine *eng, int think);

/* Puts the file's general.sampling.* values where p->set does not say that the user chose. */
void engine_sampling_defaults(const struct engine *eng, struct sampler_params *p);

/* A sampler for this vocabulary: what the file wants suppressed is never chosen, with no_eog nor are the tokens that
 * end a generation. */
int engine_sampler(const struct engine *eng, const struct sampler_params *p, bool no_eog, struct sampler **out,
                   struct err *e);

/* ---- vectors of whole sequences: engines with pooling (engine/pool.c) ---- */

/* Makes v [n] a vector of length 1; one without any length stays as it is. */
void engine_normalise(float *v, uint32_t n);
/* How well a pair fits, 0 to 1, by the numbers v [n_vector] of pooling "rank": the share of the first label (the file's
 * "yes") in the softmax over all. */
double engine_rank_score(const float *v, uint32_t n);
/* A query and a document as the file's template for ranking has them. -ENOTSUP: it has none. */
int engine_rank_prompt(const struct engine *eng, const char *query, size_t n_query, const char *document, size_t n_document,
                       struct engine_prompt *out, struct err *e);

/* ---- sessions ---- */

/* -EAGAIN: all slots are in use. */
int session_create(struct engine *eng, struct session **out, struct err *e);
void session_destroy(struct session *s); /* NULL is fine */

/* What is evaluated from now on belongs to a prompt, also a single token, which is else taken for a generated one: on
 * tiers whose streams for the two differ in low bits, what a prompt gives must not depend on how much of it was there
 * already. Off at first. */
void session_set_prompt(struct session *s, bool on);

/* Evaluates n >= 1 tokens after the current position, in chunks. On success *logits (logits may be NULL) points to
 * those of the last token, f32 [n_vocab], valid until the next evaluation of any session of the engine.
 * -E2BIG: does not fit the context (nothing was evaluated); -EINVAL: a token outside the vocabulary (nothing was
 * evaluated); -ECANCELED: by the cancel flag or the progress function, what was evaluated stays; -EIO: device fault. */
int session_eval(struct session *s, const int32_t *tok, uint32_t n, const float **logits, struct err *e);

/* The same, and the tier chooses the token after the last one from its logits, as `how` says (kernels/kargs.h; NULL:
 * greedy): *next, or -1 where no logit is a number. Without `logits` they need not leave the device. */
int session_eval_next(struct session *s, const int32_t *tok, uint32_t n, const ka_sample *how, const float **logits,
                      int32_t *next, struct err *e);

/* Evaluates `first` and the tokens that follow from it greedily, n >= 1 of them one by one, as a generation does: where the tier
 * can, with a step in flight. next [n], or NULL: what was chosen after each; -1: no logit is a number. On failure the position is
 * where the session got to. -ENOTSUP: the stream does not choose tokens (engines with pooling). */
int session_follow(struct session *s, int32_t first, uint32_t n, int32_t *next, struct err *e);

/* The i-th output's logits of the engine's newest evaluation, f32 [n_vocab], though nobody asked for them then. They
 * are valid until the next call or evaluation. */
int engine_last_logits(struct engine *eng, uint32_t i, const float **logits, struct err *e);

/* As session_eval, and calls fn for every token in order with its logits, valid during the call. fn returns 0 or a
 * negative errno, which ends the evaluation. */
typedef int (*session_score_fn)(void *user, uint32_t i, const float *logits);
int session_score(struct session *s, const int32_t *tok, uint32_t n, session_score_fn fn, void *user, struct err *e);

/* One token for each of n sessions (no session twice) of one engine, together where the tier gains from it. logits
 * [n] receives a pointer for each, valid until the next evaluation; NULL: they are not read, and a tier may keep them to itself.
 * n is at most engine_info.n_batch, which is ENGINE_MAX_BATCH or more where the engine has so many slots.
 * On failure no position has moved. */
enum { ENGINE_MAX_BATCH = 8 };
int session_eval_batch(struct session *const *s, const int32_t *tok, uint32_t n, const float **logits, struct err *e);

/* 0, or what session_eval would refuse n tokens for, without evaluating them. */
int session_check(const struct session *s, const int32_t *tok, uint32_t n, struct err *e);

uint32_t session_pos(const struct session *s);            /* tokens evaluated                           */
const int32_t *session_tokens(const struct session *s);   /* [session_pos]                              */
void session_reset(struct session *s);                    /* back to position 0                         */
/* Forgets what comes after `pos`. -ENOTSUP: the model is recurrent and pos is neither 0 nor the current position. */
int session_truncate(struct session *s, uint32_t pos, struct err *e);
/* Keeps the longest usable beginning that the session has in common with tok[0..n), at most n - 1 tokens, so that the
 * rest can be evaluated; returns its length. Recurrent models keep all or nothing. */
uint32_t session_keep_common(struct session *s, const int32_t *tok, uint32_t n);

/* Looked at between chunks and tokens, atomically: a signal handler or another thread may set it; nonzero cancels. NULL:
 * none. Both must live as long as the session. While the progress function runs, other sessions of the engine may be
 * evaluated. */
void session_set_cancel(struct session *s, const struct flag *flag);
void session_set_progress(struct session *s, const struct progress *p);

/* The newest step, launch by launch, when the engine was opened with `trace`: returns how many of at most `cap` were
 * written; 0 where the tier has no time stamps. Names are static. */
struct engine_launch {
    const char *name;        /* the kernel, or the command            */
    uint64_t ns, bytes;      /* bytes: weights, state and cache moved */
};
uint32_t engine_trace(struct engine *eng, struct engine_launch *l, uint32_t cap);

/* GB/s (10^9 bytes) at which the tier's memory can be read, measured now. -ENOTSUP: the tier's memory is the host's, see
 * engine/roof.h. */
int engine_roof(struct engine *eng, double *gbs, struct err *e);
/* What its own kernel for products gives at most, out of caches: the roof over prompts, in 10^9 operations a second (a
 * multiply-add is two). -ENOTSUP: the tier cannot tell. */
int engine_roof_ops(struct engine *eng, double *gops, struct err *e);

/* All that the tier knows of its device and of what it made for it: fn gets a name and a value at a time, in parts. Nothing
 * where the tier tells nothing. */
void engine_describe(struct engine *eng, void (*fn)(void *user, const char *part, const char *name, const char *value),
                     void *user);

/* 32 bits of the hash of f32 logits [n_vocab]: equal logits, equal fingerprint. */
uint32_t engine_fingerprint(const struct engine *eng, const float *logits);

#endif
