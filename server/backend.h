/* server/backend.h
 * What answers the requests that HTTP carries: the API of one model (api.h), or the router of several (router/router.h).
 * The functions are those of api.h under their names, `x` being what begin returned; each back end says in which threads
 * they may be called, and for one exchange it is one at a time. */
#ifndef ZINC_SERVER_BACKEND_H
#define ZINC_SERVER_BACKEND_H

#include "server/api.h"

struct backend_ops {
    unsigned (*methods)(const char *path, const char **label);
    void *(*begin)(void *self, const struct api_call *c);
    int (*status)(void *x);
    const char *(*content_type)(void *x);
    bool (*streams)(void *x);
    size_t (*length)(void *x);
    bool (*keep_alive)(void *x, uint64_t quiet_ns);
    uint32_t (*retry_after)(void *x);
    ssize_t (*read)(void *x, char *buf, size_t cap);
    struct api_usage (*usage)(void *x);
    void (*end)(void *x);
    /* The rest of {"status":"ok",.. of /health, and lines of /metrics: malloc'ed text, NULL: out of memory. Where they are
     * NULL, what the scheduler tells stands there. */
    char *(*health)(void *self);
    char *(*metrics)(void *self);
};

extern const struct backend_ops api_backend; /* self: a struct api */

#endif
