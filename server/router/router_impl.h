/* server/router/router_impl.h
 * What the files of the router share. router.c is the thread: it starts and ends processes and gives requests their turn;
 * memory.c says whether there is memory for one more;
 * forward.c carries a request to its process and the answer back, by libcurl; answers.c looks at what is asked, and answers
 * what needs no model.
 *
 * Under router.lock: all of struct model, the lists, and of a forward what is marked. What libcurl has is the thread's. */
#ifndef ZINC_SERVER_ROUTER_ROUTER_IMPL_H
#define ZINC_SERVER_ROUTER_ROUTER_IMPL_H

#include <pthread.h>
#include <sys/queue.h>

#include "pull/curl_lib.h"
#include "server/api_request.h"
#include "server/out.h"
#include "server/router/child.h"
#include "server/router/pick.h"
#include "server/router/router.h"

enum model_state { MODEL_OFF, MODEL_LOADING, MODEL_READY, MODEL_ENDING, MODEL_FAILED };

struct model {
    const struct router_model *o;
    struct api_names *names;
    struct child child;
    enum model_state state;
    uint64_t since_ns, used_ns;  /* it is so since then; its last request came or ended      */
    uint32_t n_running;          /* requests that its process has                            */
    bool unload;                 /* to be ended as soon as it is idle                        */
    bool alone;                  /* did not start beside others: tried again without them    */
    bool seen;                   /* in this turn of place_waiting                            */
    uint64_t loads, failures;
    uint64_t held;               /* bytes that it took when it was loaded last; 0: unknown   */
    unsigned place;              /* where: router.place[place - 1]; 0: unknown               */
    char why[512];               /* of MODEL_FAILED                                          */
};

TAILQ_HEAD(forward_list, forward);

/* Memory that models lie in. */
struct place {
    char name[sizeof((struct child_memory *)0)->place]; /* "host", or a device's */
    uint64_t free;               /* of a device: what the last one left that became ready there, and others gave back since */
};
enum { MOST_PLACES = 16 };

struct router {
    struct router_opts o;
    struct model *m;             /* [o.n_models] */
    char dir[96];                /* of the sockets */
    CURLM *multi;
    struct curl_waitfd *fds;     /* [o.n_models] */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;        /* of what follows */
    struct forward_list waiting, running;
    uint32_t n_waiting;
    struct place place[MOST_PLACES];
    unsigned n_places;
    bool stop;
};

enum forward_state { FORWARD_WAITING, FORWARD_RUNNING, FORWARD_DONE };

/* An exchange. */
struct forward {
    struct router *r;
    struct model *m;             /* NULL: answered by the router itself */
    bool load_only;
    const char *method;          /* static */
    char *path;                  /* decoded, as it came */
    char *url, *from, *id;       /* of the request to the process; from, id: header lines */
    char *body;
    size_t n_body;
    uint64_t held;               /* of the budget */
    uint64_t began_ns;
    bool is_events, wants_stream; /* the path's streams are events; one was asked for */
    bool anthropic;
    /* the thread's */
    CURL *curl;
    struct curl_slist *headers;
    unsigned came;               /* the process's status; 0: not yet */
    char came_type[96];
    bool has_length;
    size_t came_length;
    uint32_t came_retry;
    bool head_told;
    struct out problem;          /* its body, where a stream has begun already and this is none */
    /* under the lock */
    TAILQ_ENTRY(forward) of_list;
    enum forward_state state;
    bool gone;                   /* nobody reads it any more                         */
    bool paused, resume;
    int status;
    char type[96];
    uint32_t retry_after;
    bool streams, committed;     /* committed: the stream began before its process answered */
    bool ended, cut;
    size_t length;
    struct out out;
    size_t at;                   /* of out: what is read */
    void (*wake)(void *user);
    void *user;
};

/* ---- forward.c: under the lock, but for what says otherwise ---- */

/* Gives it to its process; -ENOMEM. */
int forward_start(struct forward *f);
/* It is answered with this. */
__attribute__((format(printf, 4, 5))) void forward_fail(struct forward *f, int status, const char *code, const char *fmt, ...);
void forward_answer(struct forward *f, int status);         /* with what is in `out`  */
void forward_wake(struct forward *f);
void forward_free(struct forward *f);
/* Those that nobody reads any more, and those that may go on. */
void forwards_tend(struct router *r);
void forwards_work(struct router *r);                       /* not under the lock */
void forward_cut(struct forward *f);

/* ---- memory.c: under the lock ---- */

enum memory_room { ROOM_NOW, ROOM_LATER /* when others have ended */, ROOM_NEVER };
enum memory_room memory_room(const struct router *r, const struct model *m);
/* Whose end would help m: the one that has been idle longest of those that may be ended; NULL: none now. */
struct model *memory_victim(struct router *r, const struct model *m);
uint64_t memory_needs(const struct model *m);               /* bytes; 0: unknown */
void memory_ready(struct router *r, struct model *m, const struct child_memory *c); /* before its state is READY */
void memory_ended(struct router *r, struct model *m);       /* after READY, or ENDING   */
bool memory_is_over(const struct router *r);                /* they take more together than max_bytes */

/* ---- answers.c ---- */

void *forward_begin(void *self, const struct api_call *c);  /* not under the lock */
unsigned router_methods(const char *path, const char **label);
const char *model_state_name(const struct model *m);
char *router_health(void *self);
char *router_metrics(void *self);

/* ---- router.c ---- */

static inline bool model_is_on(const struct model *m)
{
    return m->state == MODEL_LOADING || m->state == MODEL_READY || m->state == MODEL_ENDING;
}
static inline bool model_may_end(const struct model *m)
{
    return m->state == MODEL_READY && !m->o->pinned && !m->n_running;
}

void router_poke(struct router *r);                         /* there is something to do; any thread */

#endif
