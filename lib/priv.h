/* lib/priv.h: the objects behind include/zinc.h. */
#ifndef ZINC_LIB_PRIV_H
#define ZINC_LIB_PRIV_H

#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "base/log.h"
#include "engine/dialog.h"
#include "engine/generate.h"
#include "engine/serve/sched.h"
#include "include/zinc.h"

/* Those who want the engine, in the order in which they came. */
struct turn {
    pthread_mutex_t lock;
    pthread_cond_t next_one;
    uint64_t next, serving;
};
void turn_take(struct turn *t);
void turn_give(struct turn *t);

struct zinc_model {
    struct engine *eng;
    struct sched *sched;    /* makes vectors; NULL: the model continues text, and sessions have the engine by turns */
    struct turn turn;       /* who has it may evaluate, and touch the engine's list of sessions                     */
    struct log_sink sink;   /* fn NULL: stderr                                                                      */
    zinc_log_fn log;
    void *log_user;
    bool vocabulary;        /* nothing was started */
    atomic_uint users;
};

struct zinc_session {
    zinc_model *m;
    struct session *s;
    struct progress progress; /* the session's: ours */
    zinc_progress_fn fn;      /* of the call that runs, or NULL */
    void *fn_user;
    struct flag cancel;
    atomic_bool inside;       /* a thread is inside of a call */
    zinc_gen *gen;            /* that has it, or NULL */
    zinc_chat *chat;
    atomic_uint users;
};

struct zinc_chat {
    zinc_session *s;
    struct dialog *d;
    int think;                /* as engine_chat_opts has it */
    atomic_uint users;
};

/* What a call has around it: the model's log and the C locale, in which numbers are read and written. */
struct scope {
    const struct log_sink *log;
    locale_t locale;
};
struct scope scope_enter(const zinc_model *m); /* NULL: the locale alone */
void scope_leave(struct scope *sc);

void model_use(zinc_model *m);
void session_use(zinc_session *s);
void session_release(zinc_session *s);
void chat_use(zinc_chat *c);
void chat_release(zinc_chat *c);

/* -EINVAL: NULL; -EBUSY: another thread is inside. After 0 session_leave. */
int session_enter(zinc_session *s, struct scope *sc, struct err *e);
void session_leave(zinc_session *s, struct scope *sc);
/* -EBUSY: a generation has it, or a chat other than `c`. */
int session_unheld(const zinc_session *s, const zinc_chat *c, struct err *e);
/* What a call that evaluates reports: takes a cancel that it reports away. */
int session_report(zinc_session *s, int rc);

/* Passes *own on to the caller and returns rc; `what` is the function's name. */
int done(int rc, const struct err *own, zinc_error *e);

/* Copies a struct with a size in front: NULL given is all zeros. -EINVAL, -E2BIG: as zinc.h says of sizes; `least`:
 * what the first version had. */
int struct_take(void *own, size_t bytes, size_t least, const void *given, const char *name, struct err *e);
/* The other way: as much as there is room for. */
int struct_give(const void *own, size_t bytes, void *out, const char *name, struct err *e);
/* `last`: the last field of the first version. */
#define STRUCT_TAKE(own, given, last, e)                                                                              \
    struct_take(own, sizeof *(own), offsetof(__typeof__(*(own)), last) + sizeof (own)->last, given, #given, e)

/* An array of `bytes` per element for the caller's buffer, as zinc.h says of buffers. */
int array_give(const void *from, size_t n, size_t bytes, void *to, size_t cap, size_t *n_out, struct err *e);

/* engine_chat_opts.think of ZINC_THINK_*. */
int think_of(uint32_t think, int *out, struct err *e);

/* Messages as the engine has them; everything but the array, which the caller frees, stays the given ones'. *calls:
 * the parsed tool_calls, to be freed with messages_free. */
struct messages {
    struct engine_message *m;
    uint32_t n;
    json_t *calls;             /* array of arrays: strings of the messages' calls lie there */
    struct engine_call *call;
};
int messages_take(const zinc_message *given, size_t n, struct messages *out, struct err *e);
void messages_free(struct messages *v);

/* The sampler's parameters of o; *bias: what p->bias points to, to be freed. */
int sampling_take(const zinc_model *m, const zinc_gen_opts *o, struct sampler_params *p, struct logit_bias **bias,
                  struct err *e);

/* Begins a generation: of tokens [n] on a session, or of a chat's answer to `text`. The session was entered. */
int gen_open(zinc_session *s, zinc_chat *c, const int32_t *tokens, size_t n, const char *text,
             const zinc_gen_opts *given, zinc_gen **out, struct err *e);

#endif
