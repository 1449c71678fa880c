/* zinc.h: libzinc, a local LLM inference engine as a library.
 *
 *     zinc_model_opts mo = { .size = sizeof mo, .path = "model.gguf" };
 *     zinc_gen_opts go = { .size = sizeof go, .sampling = "temp=0.7,seed=1", .max_tokens = 200 };
 *     zinc_piece piece = { .size = sizeof piece };
 *     zinc_error e;
 *     if (zinc_model_open(&mo, &model, &e) || zinc_session_open(model, &session, &e) ||
 *         zinc_chat_open(session, NULL, &chat, &e) || zinc_chat_say(chat, "Hello!", &go, &gen, &e))
 *         ... e.text says what went wrong
 *     while ((rc = zinc_gen_next(gen, &piece, &e)) == 1)
 *         fwrite(piece.text, 1, piece.n_text, stdout);
 *     zinc_gen_close(gen); zinc_chat_close(chat); zinc_session_close(session); zinc_model_close(model);
 *
 * A model is a GGUF file on one tier (the CPU, a GPU). A session is one timeline of tokens over it, with its own
 * cache. A generation (gen) makes an answer on a session, piece by piece; a chat holds a conversation over a session.
 * Below these are tokens, evaluation and sampling one by one, and beside them vectors of whole texts.
 *
 * Errors. Functions that can fail return 0 or a negative errno (-ENOENT, -EINVAL, ...) and write a line for people
 * into *e: what was tried, what was expected and found, the remedy if one is known. e may be NULL, and so may what
 * this header says so of; any other NULL, a handle's too, is -EINVAL. On failure no result is written unless a
 * function says otherwise. Input never ends the process. A mistake of libzinc's own does, by abort() with a line on
 * stderr; and so does a model file that is made shorter while it is open, by SIGBUS.
 *
 * Buffers. What a function hands out as an array goes into the caller's buffer, which has room for `cap` elements,
 * and *n becomes how many there are. If that is more than cap: -ERANGE, nothing is written but *n, and the call can
 * be repeated with a larger buffer. A NULL buffer with cap 0 asks for the length alone: then 0 is returned. n may be
 * NULL where there is a buffer.
 *
 * Structs begin with their size, which the caller sets to sizeof, so that they can grow. Zero is every field's
 * default, and `reserved` is zero. What a shorter struct does not have counts as zero; what a longer one has more
 * than this library knows has to be zero (-E2BIG). A struct that is filled is filled as far as it has room, and
 * `size` stays as it was.
 *
 * Lifetimes. Strings and arrays that are passed in are copied, or needed during the call only. Handles count their
 * users: a session keeps its model, a chat and a generation keep their session. They may be closed in any order; what
 * a closed handle stood for goes with the last one that needs it. Closing NULL is fine.
 *
 * Threads. Models are independent of each other. Functions of a model may be called from any number of threads at a
 * time. A session with its chat and its generation belongs to one thread at a time, but for zinc_session_cancel: a
 * second thread is refused with -EBUSY. A sampler too belongs to one thread at a time, and does not look. Sessions of
 * one model may run on different threads: they take turns, first come, first served, a token or a chunk of a prompt
 * at a time, and each gives what it gives alone. Nothing of it may be used in a child after fork().
 *
 * Callbacks run during a call on the thread that called, in the C locale (uselocale). They may call whatever does not
 * belong to the same session, but a log callback nothing.
 *
 * The process shares the environment variables ZINC_*, which are read once (doc/env.md), and, without a log callback,
 * stderr, where warnings go. Nothing is written to stdout, no signal handler is set, no folder changed. */
#ifndef ZINC_H
#define ZINC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZINC_API __attribute__((visibility("default")))

typedef struct zinc_model zinc_model;
typedef struct zinc_session zinc_session;
typedef struct zinc_sampler zinc_sampler;
typedef struct zinc_gen zinc_gen;
typedef struct zinc_chat zinc_chat;

/* Never grows. */
typedef struct zinc_error {
    int code;       /* what the function returned, 0: nothing went wrong yet */
    char text[508]; /* one line, no newline at its end                       */
} zinc_error;

/* "0.1.0". */
ZINC_API const char *zinc_version(void);

/* "auto", then the tiers that this library has; NULL behind the last. They need not be able to run here. */
ZINC_API const char *zinc_tier_name(size_t i);

/* ---- models ---- */

/* Called now and then, of a prompt before each chunk. Returns other than 0 to stop: the function that called it then
 * fails with -ECANCELED. `total` 0: unknown. */
typedef int (*zinc_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

enum { ZINC_LOG_ERROR = 0, ZINC_LOG_WARNING = 1, ZINC_LOG_INFO = 2, ZINC_LOG_DEBUG = 3 };

/* A line without its end, of one of the levels above. */
typedef void (*zinc_log_fn)(void *user, int32_t level, const char *module, const char *line);

enum {
    ZINC_MODEL_VOCABULARY = 1,    /* open the file for its vocabulary and chat format alone: text functions */
    ZINC_MODEL_EXACT = 2,         /* cpu: dequantise and accumulate in double                              */
    ZINC_MODEL_IGNORE_MEMORY = 4, /* do not compare what is needed with the memory that is free            */
    ZINC_MODEL_DEVICE = 8,        /* `device` was chosen; without it 0 is the best one                     */
    ZINC_MODEL_FIT = 16,          /* context 0: as many as it was trained for and memory allows            */
    ZINC_MODEL_PIN = 32,          /* cpu: a core for each thread, which others should not want at the same time */
};

typedef struct zinc_model_opts {
    size_t size;
    const char *path;        /* GGUF file; the first part of a split model                              */
    const char *tier;        /* NULL: $ZINC_TIER, else "auto"                                           */
    const char *plan;        /* NULL, "auto", "replay", "persistent"                                    */
    const char *kv;          /* type of the KV cache; NULL: f16                                         */
    const char *device_name; /* part of the device's name; NULL: any                                    */
    const char *pooling;     /* NULL: the model continues text. "auto": it makes vectors or ranks if its file says
                                that it is made for that. "mean", "cls", "last", "rank": it does                */
    int32_t device;          /* index among the tier's devices, with ZINC_MODEL_DEVICE                  */
    uint32_t flags;          /* ZINC_MODEL_*                                                            */
    uint32_t context;        /* positions of a session; 0: 4096, or what it was trained for if that is less */
    uint32_t sessions;       /* open at the same time; 0: 1                                             */
    uint32_t chunk;          /* prompt tokens per step; 0: what suits the tier                          */
    uint32_t threads;        /* cpu tier; 0: $ZINC_THREADS, else one per core                           */
    zinc_progress_fn progress; /* while it is loaded; NULL: none                                        */
    void *progress_user;
    zinc_log_fn log;         /* what there is to say during calls for this model; NULL: stderr, by $ZINC_LOG */
    void *log_user;
    int32_t log_level;       /* up to this                                                              */
    uint32_t kv_edge;        /* the first and the last so many layers with a cache keep f16             */
    const char *rope_scaling; /* "linear", "yarn": how a context beyond what the model was trained for is reached; NULL: not */
    float rope_factor;       /* so many times as far; 0: as far as `context` asks for                   */
    uint32_t reserved;
} zinc_model_opts;

/* -ENOENT, -EACCES and the like: the file; -EINVAL, -ENOTSUP: what is in it, or an option, by name; -ENODEV: no such
 * tier here; -ENOMEM: more memory than there is, with figures; -ECANCELED: by the progress callback. */
ZINC_API int zinc_model_open(const zinc_model_opts *o, zinc_model **out, zinc_error *e);
ZINC_API void zinc_model_close(zinc_model *m);

typedef struct zinc_model_info {
    size_t size;
    /* The model's, live as long as it does; NULL: there is none. */
    const char *path, *label;  /* label: the file's name without folder and extension    */
    const char *name, *family; /* as the file has them                                   */
    const char *weights;       /* the type that most weights have, "Q4_K"                */
    const char *tier, *plan, *device;
    const char *chat_format;   /* how conversations are written                          */
    const char *pooling;       /* NULL: it continues text; else as in zinc_model_opts    */
    uint32_t n_vocab, n_layer, n_embd, n_vector; /* n_vector: with pooling               */
    uint32_t context, context_trained, sessions, chunk;
    uint64_t n_params, file_bytes, weight_bytes, cache_bytes, scratch_bytes;
    uint64_t load_ns;
    uint32_t has_vocab;        /* 0: tokens alone, no text                               */
    uint32_t chat_guessed;     /* the file has no chat template that zinc knows          */
    uint32_t recurrent;        /* it holds state that cannot be rewound                  */
    uint32_t reserved;
} zinc_model_info;

/* -EINVAL: info->size is too small for any field. */
ZINC_API int zinc_model_info_get(const zinc_model *m, zinc_model_info *info, zinc_error *e);

/* ---- text ---- */

enum {
    ZINC_TEXT_ADD_SPECIAL = 1,   /* BOS and EOS where the file asks for them          */
    ZINC_TEXT_PARSE_SPECIAL = 2, /* control tokens written in the text become tokens  */
    ZINC_TEXT_SHOW_SPECIAL = 4,  /* print control tokens as their text                */
};

/* Text [n_text] bytes of UTF-8 as tokens: ids [cap]. -ENOENT: the model has no vocabulary. */
ZINC_API int zinc_tokenize(zinc_model *m, const char *text, size_t n_text, uint32_t flags, int32_t *ids, size_t cap,
                           size_t *n, zinc_error *e);
/* The other way: text [cap] bytes, without a NUL. A single token may be a part of a character. */
ZINC_API int zinc_detokenize(zinc_model *m, const int32_t *ids, size_t n_ids, uint32_t flags, char *text, size_t cap,
                             size_t *n, zinc_error *e);
/* 1: the token ends an answer; 0: it does not, or is none. */
ZINC_API int zinc_is_end(zinc_model *m, int32_t id);

/* What a model that can think is asked to do. */
enum { ZINC_THINK_DEFAULT = 0, ZINC_THINK_ON = 1, ZINC_THINK_OFF = 2 };

typedef struct zinc_message {
    size_t size;            /* in an array all have the same                                                   */
    const char *role;       /* "system", "developer", "user", "assistant", "tool"                              */
    const char *text;       /* NULL is ""                                                                      */
    const char *reasoning;  /* assistant: what was thought before; NULL: nothing                               */
    const char *tool_calls; /* assistant: JSON, [{"id": .., "function": {"name": .., "arguments": ..}}, ..], the
                               arguments an object, or a string that holds one; NULL: none                     */
    const char *name;       /* tool: the function; NULL when only the id is known                              */
    const char *call_id;    /* tool: which call it answers; NULL: the last                                     */
} zinc_message;

typedef struct zinc_prompt_opts {
    size_t size;
    const char *tools;       /* JSON array of {"type": "function", "function": {..}}; NULL: none               */
    const char *effort;      /* reasoning effort where the format has it: "low", "medium", "high"              */
    const char *date;        /* "YYYY-MM-DD" where the format tells it; NULL: as the format would              */
    uint32_t think;          /* ZINC_THINK_*                                                                   */
    uint32_t continue_final; /* 1: the last message, the assistant's, is the beginning of the answer           */
} zinc_prompt_opts;

/* A conversation in the model's chat format, ready for the assistant's answer, as tokens: ids [cap]. o may be NULL.
 * -EINVAL: the format cannot express it, with the reason; -ENOTSUP: tools for a format that has none. */
ZINC_API int zinc_prompt(zinc_model *m, const zinc_message *messages, size_t n_messages, const zinc_prompt_opts *o,
                         int32_t *ids, size_t cap, size_t *n, zinc_error *e);

/* ---- sessions ---- */

/* -EAGAIN: all sessions of the model are open; -ENOTSUP: it was opened for its vocabulary or for vectors. */
ZINC_API int zinc_session_open(zinc_model *m, zinc_session **out, zinc_error *e);
ZINC_API void zinc_session_close(zinc_session *s);

/* Evaluates n >= 1 tokens after the current position. logits [cap]: of the last token, f32 [n_vocab]; NULL: nobody
 * wants them. -ERANGE: cap is less than n_vocab; -E2BIG: does not fit the context; -EINVAL: a token outside the
 * vocabulary; -EBUSY: a generation or a chat has the session: nothing was evaluated. -ECANCELED: what was evaluated
 * stays. -EIO: the device failed, and with it all sessions of the model. */
ZINC_API int zinc_session_eval(zinc_session *s, const int32_t *tokens, size_t n, float *logits, size_t cap,
                               zinc_error *e);
/* The same, and how likely the model found them: logprobs [n - 1], natural logarithms, of tokens[1..n). */
ZINC_API int zinc_session_score(zinc_session *s, const int32_t *tokens, size_t n, float *logprobs, zinc_error *e);

/* The tokens that it holds: ids [cap]. */
ZINC_API int zinc_session_tokens(zinc_session *s, int32_t *ids, size_t cap, size_t *n, zinc_error *e);
/* Forgets what comes after position n. -ENOTSUP: the model is recurrent, and n is neither 0 nor where it stands. */
ZINC_API int zinc_session_truncate(zinc_session *s, size_t n, zinc_error *e);

/* From any thread or a signal handler: the call for the session that another thread is inside of fails with
 * -ECANCELED, or its generation ends, within a token or a chunk of the prompt. If none is, the next one that would
 * evaluate does so: no cancel is lost. What reports it takes it away, and so does closing a generation that has not
 * ended. */
ZINC_API void zinc_session_cancel(zinc_session *s);

/* ---- generation ---- */

typedef struct zinc_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY: never chosen */
} zinc_logit_bias;

enum {
    ZINC_GEN_IGNORE_END = 1,   /* tokens that end an answer are never chosen                                    */
    ZINC_GEN_SHOW_SPECIAL = 2, /* control tokens are printed as their text                                      */
    ZINC_GEN_ANSWER = 4,       /* the prompt is zinc_prompt's: reasoning and calls are told apart from text     */
    ZINC_GEN_CONTINUE = 8,     /* and it had continue_final                                                     */
};

typedef struct zinc_gen_opts {
    size_t size;
    const char *sampling;    /* "NAME=VALUE,..." with the names of zinc run --help: "temp=0.7,top-k=40,seed=1". What
                                is not named: as the model file says, else zinc's default                       */
    const zinc_logit_bias *logit_bias; /* [n_logit_bias]                                                        */
    const char *const *stop; /* [n_stop] texts that end the answer and are not part of it                       */
    const char *const *dry_breakers; /* [n_dry_breakers] texts that end a repetition for DRY; none: zinc's      */
    const char *json_schema; /* the answer has to follow it: JSON text; "{}": any JSON                          */
    const char *grammar;     /* or this GBNF                                                                    */
    const char *tools;       /* ZINC_GEN_ANSWER: as in zinc_prompt_opts                                         */
    const char *tool_choice; /* with tools: NULL or "auto"; "none", "required", or the name of one              */
    uint32_t n_logit_bias, n_stop, n_dry_breakers;
    uint32_t max_tokens;     /* 0: until the answer or the context ends                                         */
    uint32_t flags;          /* ZINC_GEN_*                                                                      */
    uint32_t think;          /* ZINC_GEN_ANSWER: as in zinc_prompt_opts                                         */
    uint32_t think_tokens;   /* ZINC_GEN_ANSWER, zinc_chat_say: reasoning is ended after so many; 0: no limit   */
    uint32_t draft;          /* tokens guessed ahead at most, 0 to 7, from what stood before: sooner, and the same */
    zinc_progress_fn progress; /* while the prompt is evaluated; NULL: none                                     */
    void *progress_user;
} zinc_gen_opts;

/* Begins to continue tokens [n], which stand for the whole session: of what it holds, the beginning that both have in
 * common is not evaluated again, and the rest is forgotten. Evaluates nothing yet. o may be NULL. The generation has
 * the session until it ends or is closed. -EBUSY: another one has it; -EINVAL: an option, by name; -E2BIG: the tokens
 * do not fit the context. */
ZINC_API int zinc_generate(zinc_session *s, const int32_t *tokens, size_t n, const zinc_gen_opts *o, zinc_gen **out,
                           zinc_error *e);

enum { ZINC_PIECE_TEXT = 0, ZINC_PIECE_REASONING = 1, ZINC_PIECE_CALL = 2 };

typedef struct zinc_piece {
    size_t size;
    const char *text;  /* [n_text] whole UTF-8 characters and a NUL. CALL: its arguments, a JSON object        */
    size_t n_text;
    const char *name;  /* CALL: the function, else NULL                                                        */
    int32_t kind;      /* ZINC_PIECE_*                                                                         */
    uint32_t complete; /* CALL: 0: the answer was cut off inside of it                                         */
} zinc_piece;

/* 1: the next piece of the answer, which lives until the next call for this generation. 0: the answer has ended;
 * zinc_gen_info_get says why. Negative: it failed, as zinc_session_eval does; -ECANCELED: in the prompt. */
ZINC_API int zinc_gen_next(zinc_gen *g, zinc_piece *piece, zinc_error *e);

enum {
    ZINC_END_RUNNING = 0,
    ZINC_END_STOP = 1,      /* the model ended its answer             */
    ZINC_END_STOP_TEXT = 2, /* a text of `stop` appeared              */
    ZINC_END_LENGTH = 3,    /* max_tokens                             */
    ZINC_END_CONTEXT = 4,   /* the context is full                    */
    ZINC_END_CANCELLED = 5,
    ZINC_END_ERROR = 6,
};

typedef struct zinc_gen_info {
    size_t size;
    const int32_t *tokens;         /* [n_tokens] chosen so far, the ending one included; live until the next call  */
    uint32_t n_tokens, n_prompt;
    uint32_t n_reused;             /* of the prompt, that the session held already                                 */
    uint32_t n_thought;            /* tokens of reasoning, with ZINC_GEN_ANSWER                                    */
    int32_t end;                   /* ZINC_END_*                                                                   */
    uint32_t stop_index;           /* STOP_TEXT: which                                                             */
    uint32_t seed;                 /* of the random generator, also where it was drawn                             */
    uint32_t reserved;
    uint64_t prompt_ns, decode_ns; /* until the prompt was evaluated; and the tokens after it                      */
} zinc_gen_info;

/* At any time. */
ZINC_API int zinc_gen_info_get(zinc_gen *g, zinc_gen_info *info, zinc_error *e);
/* An answer that has not ended is cut off there. */
ZINC_API void zinc_gen_close(zinc_gen *g);

/* ---- sampling by hand ---- */

/* Of o (NULL: defaults) sampling, logit_bias, dry_breakers and ZINC_GEN_IGNORE_END are looked at. */
ZINC_API int zinc_sampler_open(zinc_model *m, const zinc_gen_opts *o, zinc_sampler **out, zinc_error *e);
/* The next token by logits f32 [n_logits], one for each of the vocabulary. -EDOM: none of them is a number. */
ZINC_API int zinc_sampler_choose(zinc_sampler *s, const float *logits, size_t n_logits, int32_t *id, zinc_error *e);
/* Tells the penalties that the text goes on with it: each token of the prompt, and each that was chosen. */
ZINC_API int zinc_sampler_accept(zinc_sampler *s, int32_t id, zinc_error *e);
ZINC_API void zinc_sampler_close(zinc_sampler *s);

/* ---- conversations ---- */

typedef struct zinc_chat_opts {
    size_t size;
    const char *system; /* NULL: none             */
    uint32_t think;     /* ZINC_THINK_*           */
    uint32_t reserved;
} zinc_chat_opts;

/* A conversation over a session, which the chat has until it is closed; a turn evaluates only what is new. o may be
 * NULL. -ENOENT: no vocabulary; -EBUSY: somebody has the session. */
ZINC_API int zinc_chat_open(zinc_session *s, const zinc_chat_opts *o, zinc_chat **out, zinc_error *e);
ZINC_API void zinc_chat_close(zinc_chat *c);

/* Adds the user's message and begins its answer, which zinc_gen_next brings. The answer is added when it ends, or
 * as far as it came when the generation is closed before; if it fails the message is taken back. o may be NULL;
 * its tools, tool_choice, think, ZINC_GEN_ANSWER and _CONTINUE are not looked at. -EBUSY: the last answer has not
 * ended. */
ZINC_API int zinc_chat_say(zinc_chat *c, const char *text, const zinc_gen_opts *o, zinc_gen **out, zinc_error *e);
/* Forgets all messages, and begins with another system message; NULL: none. */
ZINC_API int zinc_chat_reset(zinc_chat *c, const char *system, zinc_error *e);
/* Takes the last message of the user and its answer back. -ENOENT: there is none. */
ZINC_API int zinc_chat_undo(zinc_chat *c, zinc_error *e);
/* Puts other messages in the place of all: system (only the first), then user and assistant by turns, an assistant's
 * last; nothing is evaluated. -EINVAL: another order, and the conversation is as it was. */
ZINC_API int zinc_chat_load(zinc_chat *c, const zinc_message *messages, size_t n, zinc_error *e);
/* Message i, the system's included; its texts live until the conversation changes. -ENOENT: there are not so many. */
ZINC_API int zinc_chat_message(zinc_chat *c, size_t i, zinc_message *out, zinc_error *e);

/* ---- vectors of whole texts: models with pooling ---- */

enum { ZINC_EMBED_RAW = 1 }; /* as the model makes it, not of length 1 */

/* Vectors of texts [n], each with a NUL at its end: v [n, n_vector]. Texts of all callers are evaluated together as
 * the tier allows. -ENOTSUP: the model was not opened to make any; -E2BIG: a text is longer than the context. */
ZINC_API int zinc_embed(zinc_model *m, const char *const *texts, size_t n, uint32_t flags, float *v, size_t cap,
                        size_t *n_v, zinc_error *e);
/* How well texts [n] answer a query: scores [n], 0 to 1. -ENOTSUP: the model does not rank. */
ZINC_API int zinc_rank(zinc_model *m, const char *query, const char *const *texts, size_t n, double *scores,
                       zinc_error *e);

#ifdef __cplusplus
}
#endif

#endif
