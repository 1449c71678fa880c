/* engine/priv.h: the objects behind engine.h, for this folder, serve/ and proof/, for tests and tools. */
#ifndef ZINC_ENGINE_PRIV_H
#define ZINC_ENGINE_PRIV_H

#include <pthread.h>

#include "base/cache.h"
#include "engine/draft.h"
#include "engine/engine.h"
#include "graph/graph.h"
#include "graph/stream.h"
#include "model/chat.h"
#include "model/gguf.h"
#include "model/model.h"
#include "rt/tier.h"

struct tok;

/* A stream and its native form. */
struct engine_plan {
    struct stream *s;
    uint64_t out_off;         /* of logits, or vectors, in ARENA_IO */
    struct tier_plan *native;
};

/* A step that was submitted. */
struct engine_flight {
    struct engine_plan *plan;
    uint64_t point, since_ns;
    uint32_t n_out;
    bool landed;              /* as engine_watch says                           */
    int32_t first;
};

struct engine {
    struct gguf *gguf;
    struct chat_template chat;
    struct chat_file *chat_file; /* the file's own template where it is none of the known ones, or NULL */
    struct model *model;      /* NULL: opened for its vocabulary only           */
    struct tok *tok;          /* NULL: none, see tok_err                        */
    struct err tok_err;
    struct tier *tier;
    struct engine_plan decode, prefill; /* a replayed stream serves as both: prefill.s == decode.s */
    struct engine_plan decode_few; /* of engine_opts.batch_variant; s NULL: there is none           */
    const uint8_t **weights;  /* [n_weights] where they lie in the file         */
    struct session **slots;   /* [n_slots]                                      */
    ka_row *rows;             /* [row capacity of the larger stream]            */
    uint32_t *out_row;        /* [out capacity of the larger stream]            */
    ka_sample *unread;        /* the same: how, where logits are not read       */
    enum model_pooling pooling;
    uint32_t n_output;        /* numbers of an output row: n_vocab, or n_vector */
    float *logits;            /* f32 [out capacity, n_output] when not mappable */
    struct engine_info info;
    char label[96], weights_name[16], device[96], why[256], fit[400], rope[160];
    struct tier_opts tier_opts; /* as the tier was opened, and its plan: for engine_reopen */
    enum plan_kind plan;
    bool plan_or_nothing;
    bool go_back;             /* ARENA_STATE has room for a second state behind the first */
    char plan_why[CACHE_PATH + 160];
    uint32_t fit_halvings;    /* how often the tier had no memory for the context that engine_fit chose */
    bool faulted;
    struct vocab_index *vocab; /* made by the first engine_vocab, under vocab_lock */
    pthread_mutex_t vocab_lock;
    struct engine_flight *watched; /* see engine_watch; NULL: none */
    struct engine_flight last; /* the newest step */
    uint32_t last_rows, last_kv_len; /* its, for engine_trace */
    struct draft_cost few;    /* what steps that generate take, by rows        */
};

struct session {
    struct engine *eng;
    uint32_t slot, pos;
    int32_t *tok;             /* [n_ctx]                                        */
    const struct flag *cancel;
    const struct progress *progress;
    bool in_prompt;           /* see session_set_prompt                         */
};

bool session_cancelled(const struct session *s);

/* What NAME:WORD... and the options ask of a tier. */
struct engine_spec {
    char tier[32];
    bool exact, check, no_fuse;
    enum plan_kind plan;
    enum ka_kv kv;
    uint32_t kv_edge;
    const char *target; /* NULL: none */
};
int engine_parse_spec(const struct engine_opts *o, struct engine_spec *sp, struct err *e);
/* engine_opts.rope_scaling; `say` [n] gets engine_info.rope. */
int engine_scale_rope(struct model *m, const struct engine_opts *o, char *say, size_t n, struct err *e);
uint32_t engine_default_ctx(const struct engine_opts *o, uint32_t n_ctx_train);

/* Compares the memory plan with what the tier, or the host, has free. -ENOMEM says what would help. */
int engine_check_memory(struct engine *eng, bool ignore, struct err *e); /* and fills engine_info.mem_* */
uint64_t engine_memory_available(const struct engine *eng); /* where the arenas will lie, in bytes; 0: unknown */
uint32_t engine_most_rows(const struct engine *eng); /* that generate, of a step */
/* engine/fit.c: engine_opts.fit: go->n_ctx and n_slots, by the memory that is there; fills eng->fit. */
int engine_fit(struct engine *eng, const struct engine_opts *o, struct graph_opts *go, struct err *e);
uint64_t host_memory_available(void); /* bytes; 0: unknown */

/* The halves of engine_step. Between them one more step of the same plan may be submitted, where engine_flies: its rows may
 * name the tokens that this one is about to choose (ka_row.token), and engine_land then tells them all the same. Until the
 * newest step has landed nothing else is asked of the tier: its logits above all are those of no step in particular. */
int engine_submit(struct engine *eng, struct engine_plan *p, uint32_t n_rows, uint32_t n_out, const ka_sample *how,
                  struct engine_flight *f, struct err *e);
int engine_land(struct engine *eng, const struct engine_flight *f, int32_t *next, struct err *e); /* next [n_out] */
/* A step of one output that somebody leaves under way for as long as he likes: before a step of somebody else it lands by itself,
 * and its token is kept (landed, first). *f stays until engine_unwatch, which its owner calls before he goes on. */
void engine_watch(struct engine *eng, struct engine_flight *f);
void engine_unwatch(struct engine *eng, const struct engine_flight *f);
/* Is there something to gain from it, and nobody who looks at each step? */
bool engine_flies(const struct engine *eng);
/* One row of a session, at `pos`, as such a step, with its next token by `how`; tok -1: what the newest step chose. The session's
 * position is the caller's to move. */
int session_submit(struct session *s, int32_t tok, uint32_t pos, ka_sample how, struct engine_flight *f, struct err *e);

/* Tokens from position `pos` of the session on in one step of n rows, at most engine_draft_rows, with what comes after the last n_out of
 * them: next [n_out], the tokens that the tier chose by its `how`; or, where next is NULL, *logits, f32 [n_out, n_vocab], until the
 * next evaluation. The session's tokens and position are the caller's to move, as far as they are to stay. */
struct session_try {
    const int32_t *tok;
    uint32_t pos, n, n_out;
    ka_sample *how;
};
int session_try(struct session *s, const struct session_try *t, int32_t *next, const float **logits, struct err *e);
/* Rows of such a step at most; 1: its tokens cannot be taken back. */
uint32_t engine_draft_rows(const struct engine *eng);
/* The state of a recurrent model's only slot, before such a step, and back to it after one that holds only in part. Nothing for other
 * models. */
int engine_keep_state(struct engine *eng, struct err *e);
int engine_back_to_state(struct engine *eng, struct err *e);

/* Runs one step: rows and outputs were written into eng->rows and eng->out_row. how [n_out]: of next tokens, NULL:
 * greedy. *logits: f32 [n_out, n_output]. */
int engine_step(struct engine *eng, struct engine_plan *p, uint32_t n_rows, uint32_t n_out, const ka_sample *how,
                const float **logits, struct err *e);

/* The tokens that the tier chose in the step it just ran: next [n_out], -1 where no logit is a number. */
int engine_read_next(struct engine *eng, int32_t *next, struct err *e);

/* Fills eng->rows with n tokens of a session from its position on. */
void engine_fill_rows(struct engine *eng, const struct session *s, const int32_t *tok, uint32_t n);

/* The plan that evaluates n rows, of a prompt or one by one, and how many of them fit in one step. Where a tier's
 * arithmetic depends on the stream's capacity, a prompt's rows all take the same stream, however the prompt is cut. */
struct engine_plan *engine_plan_for(struct engine *eng, uint32_t n, bool prompt, uint32_t *n_step);
/* The plan for a step of n rows that generate, at most eng->decode's capacity. */
struct engine_plan *engine_decode_plan(struct engine *eng, uint32_t n);

/* engine/debug.c: what ZINC_DEBUG asks for; nothing below its levels. */
void engine_debug_open(const struct engine *eng);
void engine_debug_tensors(struct engine *eng, struct engine_plan *p, const struct step *st);
void engine_debug_step(struct engine *eng, const struct engine_plan *p, const struct step *st, uint64_t ns);

#endif
