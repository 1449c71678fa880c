/* server/http_priv.h: what the files of http share. */
#ifndef ZINC_SERVER_HTTP_PRIV_H
#define ZINC_SERVER_HTTP_PRIV_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/auth.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/metrics.h"
#include "server/tls.h"
#include "server/watch.h"

enum http_state { HTTP_LOADING, HTTP_READY, HTTP_DRAINING, HTTP_STOPPING };

struct http {
    struct server_opts o;       /* with the defaults filled in */
    struct listener listener;
    struct tls tls;
    struct auth *auth;
    struct metrics *metrics;
    struct watch *watch;
    struct begin_pool *begin;
    struct MHD_Daemon *mhd;
    struct http_backend b;
    _Atomic int state;
    atomic_uint connections, answering, suspended;
    atomic_uint_least64_t body_bytes, next_id;
};

/* A connection; libmicrohttpd's socket context. */
struct conn {
    struct http *h;
    struct watched w;
    char peer[64];              /* address and port, for the log    */
    uint64_t peer_hash;         /* of the address alone             */
};

enum { PATH_MAX_LEN = 512, ID_MAX_LEN = 128 };

enum route { ROUTE_NONE, ROUTE_PAGE, ROUTE_ICON, ROUTE_HEALTH, ROUTE_METRICS, ROUTE_API };

/* One request, from its head to the last byte of its answer; libmicrohttpd's context of the connection while it lasts.
 * The thread of the connection owns it but for what is under `lock`. */
struct request {
    struct http *h;
    struct MHD_Connection *c;
    struct conn *conn;

    pthread_mutex_t lock;
    bool suspended;             /* under lock: libmicrohttpd waits for request_wake     */
    bool woken;                 /* under lock: and there was one before it waited       */
    bool beginning;             /* under lock: a thread of the pool is at request_begin */
    atomic_bool gone;           /* the client left                                      */

    enum route route;
    const char *method;         /* libmicrohttpd's                                      */
    char path[PATH_MAX_LEN];    /* decoded                                              */
    const char *label;          /* of the path, for metrics                             */
    char id[ID_MAX_LEN + 1];
    uint64_t client;

    struct {                    /* what is wrong with the request; status 0: nothing    */
        unsigned status;
        const char *code, *allow;
        char message[300];
    } refused;
    bool no_end;                /* where its body ends is not known                     */
    bool begun, armed;          /* given to the API; watched                            */

    char *body;
    size_t n_body, cap_body;
    uint64_t seen;              /* bytes of the body, kept or not                       */
    uint64_t length;            /* Content-Length; MHD_SIZE_UNKNOWN: chunked            */

    struct request *next_to_begin; /* the pool's                                     */
    struct api_exchange *x;
    char *answer;               /* collected, when it is not a stream                   */
    size_t n_answer, cap_answer;

    unsigned status;
    uint64_t start_ns, whole_ns, first_ns; /* head, body read, first byte of the answer */
};

/* http_request.c: the life of a request. The first three are libmicrohttpd's callbacks. */
enum MHD_Result request_handle(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                               const char *version, const char *data, size_t *n_data, void **con_cls);
void request_completed(void *cls, struct MHD_Connection *c, void **con_cls, enum MHD_RequestTerminationCode why);

/* Hands the request to the API. On the pool's threads the connection is suspended before and resumed after it. */
void request_begin(struct request *r);

/* http_begin.c */
int begin_pool_create(struct begin_pool **out, struct err *e);
void begin_pool_destroy(struct begin_pool *p); /* NULL is fine; nothing may be in it */
void begin_pool_put(struct begin_pool *p, struct request *r);

/* http_check.c: what can be said of a request by its head. Fills r->route, path, label, id, client and refused. */
void request_check(struct request *r, const char *url);
/* Refuses; the first reason counts. */
__attribute__((format(printf, 4, 5))) void request_refuse(struct request *r, unsigned status, const char *code,
                                                          const char *fmt, ...);

/* http_reply.c: answers. Each returns what the handler returns. */
enum MHD_Result reply_refusal(struct request *r);
enum MHD_Result reply_page(struct request *r);
enum MHD_Result reply_icon(struct request *r);
enum MHD_Result reply_health(struct request *r);
enum MHD_Result reply_metrics(struct request *r);
enum MHD_Result reply_preflight(struct request *r);
enum MHD_Result reply_answer(struct request *r);                               /* r->answer */
enum MHD_Result reply_stream(struct request *r, MHD_ContentReaderCallback fn); /* fn(r, ..) */

/* http_log.c */
bool id_is_sane(const char *id);
void id_make(struct http *h, char *id);
void log_request(const struct request *r, const struct api_usage *u, const char *reason, uint64_t end_ns);

#endif
