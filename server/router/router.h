/* server/router/router.h
 * Several models behind one address. Each is a process of its own, `zinc serve` on a unix socket in a folder that nobody
 * else can enter: what a broken file, a driver or a full memory ends is one model, and all that it held is free the moment
 * it is gone. A model is started when it is asked for and ended when others need its place; requests are handed on as they
 * came, and answers as they are made.
 *
 *     off -> loading -> ready -> ending -> off          loading -> failed, which a request ends RETRY_S later
 *
 * At most max_loaded of them are not off, and no more than there is memory for: what a model takes is known from its last
 * load, before that it is its files and a tenth; what is free, from the host, or from what the last process to start on a
 * device found there. To start one beyond that, the one that has been idle longest is ended, but never
 * while it answers and never one that is pinned; where all answer, the request waits, and holds back later ones for the
 * others once it has waited for HOLD_S. A process that does not start for want of memory all the same is tried once more when
 * the idle ones are gone.
 *
 * All of a router is done by one thread of its own; the functions of router_backend may be called from any. */
#ifndef ZINC_SERVER_ROUTER_ROUTER_H
#define ZINC_SERVER_ROUTER_ROUTER_H

#include "server/backend.h"

/* All strings and arrays must outlive the router. */
struct router_model {
    const char *name;            /* in the API                                                             */
    const char *const *aliases;  /* as in api_opts                                                         */
    uint32_t n_aliases;
    const char *const *argv;     /* the program's arguments, "zinc" first, NULL behind the last; the router
                                    adds where it listens                                                  */
    bool pinned;                 /* loaded from the start, never ended for others                          */
    uint32_t idle_s;             /* ended when nobody asked for so long; 0: never                          */
    /* What there is to tell of it while it is off: */
    const char *path, *family, *weights; /* family, weights: NULL: unknown                                 */
    uint64_t bytes, n_params;    /* of its files; 0: unknown                                               */
    uint32_t n_ctx_train;        /* 0: unknown                                                             */
    bool chats, pools;           /* the file has a chat template; it is made for vectors or ranking        */
};

struct router_opts {
    const struct router_model *models; /* [n_models], at least one */
    uint32_t n_models;
    uint32_t max_loaded;         /* 1 or more                                             */
    uint64_t max_bytes;          /* that they take together; 0: all that there is         */
    uint64_t (*host_free)(void); /* bytes; 0: unknown. NULL: unknown                      */
    uint32_t end_s;              /* how long a model that ends may take, then it is killed */
    struct budget *budget;       /* of what requests hold; NULL: no limit                  */
    uint64_t (*owner_name)(void *user, uint64_t owner); /* as in kvpool_opts: keys are told apart by it in the processes */
    void *user;
};

struct router;

/* -ENOSYS: no libcurl; -EIO: no folder for the sockets; -ENOMEM. The pinned models begin to load. */
int router_create(const struct router_opts *o, struct router **out, struct err *e);
/* Waits at most `timeout_ns` for what is being answered: how many were not; then the processes are asked to end, and waited for. */
uint32_t router_drain(struct router *r, uint64_t timeout_ns);
/* NULL is fine. All exchanges have ended. */
void router_destroy(struct router *r);

extern const struct backend_ops router_backend; /* self: a struct router */

#endif
