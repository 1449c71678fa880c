/* server/http_priv.h
 * What the files of http share. Each loop (http_loop.c) is a thread with an epoll of its own that owns its connections;
 * a connection (http_conn.c) reads heads and bodies and writes answers; a request (http_request.c) lasts from a
 * complete head to the last byte of its answer. Bytes of a client are read here and nowhere else: heads and framing by
 * http_head.h, TLS below it by tls.h.
 *
 * Everything of a connection and its request belongs to the loop's thread, but for what is marked as under a lock. Other
 * threads reach a request only by request_wake. */
#ifndef ZINC_SERVER_HTTP_PRIV_H
#define ZINC_SERVER_HTTP_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/auth.h"
#include "server/budget.h"
#include "server/http.h"
#include "server/http_head.h"
#include "server/listen.h"
#include "server/metrics.h"
#include "server/site.h"
#include "server/tls.h"

enum http_state { HTTP_LOADING, HTTP_READY, HTTP_DRAINING, HTTP_STOPPING };

TAILQ_HEAD(conn_list, conn);
TAILQ_HEAD(request_list, request);

/* One thread for HTTP. */
struct loop {
    struct http *h;
    pthread_t thread;
    int epoll, wake;                 /* wake: an eventfd                                     */
    uint32_t n_conns;                /* under http.conns_lock                                */
    struct conn_list conns;          /* its own                                              */
    pthread_mutex_t lock;            /* of the next two                                      */
    struct request_list woken;       /* what request_wake was called for                     */
    struct conn_list incoming;       /* accepted by another loop                             */
    bool listening;
    uint64_t listen_again_ns;        /* not before, where accepting failed for want of descriptors */
};

struct http {
    struct server_opts o;            /* with the defaults filled in */
    struct listener listener;
    struct site site;                /* matters only without keys   */
    struct tls *tls;                 /* NULL: plain HTTP            */
    struct auth *auth;
    struct metrics *metrics;
    struct budget *budget;
    struct begin_pool *begin;
    struct loop *loops;              /* [n_loops] */
    uint32_t n_loops;
    struct http_backend b;
    _Atomic int state;
    atomic_uint connections, answering;
    atomic_uint_least64_t body_bytes, next_id;
    pthread_mutex_t conns_lock;      /* of the next, and of conn.shed */
    struct conn_list all;            /* connections of all loops, oldest first */
};

enum conn_phase {
    CONN_HANDSHAKE,
    CONN_HEAD,     /* nothing, or part of a head           */
    CONN_BODY,
    CONN_ANSWER,   /* the request waits, or its answer is sent */
    CONN_LINGER,   /* all is said; what the client still sends is thrown away, or it might not see what was said */
};

enum { CONN_OUT = 32768, CONN_BLOCK = 16384 /* of an answer at a time */,
       DRAIN_BODIES = 4 /* of the largest size are read to answer a request that is too large */ };

struct conn {
    struct http *h;
    struct loop *loop;
    int fd;
    struct tls_session *tls;
    char peer[64];              /* address and port, for the log                        */
    uint64_t peer_hash;         /* of the address alone; of the uid on a unix socket    */
    enum conn_phase phase;
    atomic_bool busy;           /* its request is with us: it does not wait for its client */
    bool shed;                  /* to be closed for others; not counted any more        */
    bool over;                  /* came when all were taken, and nobody made room       */
    bool dead;                  /* closed but for its request, which a thread of the pool has */
    bool in_end;                /* the client will send nothing more                    */
    uint32_t events;            /* what epoll was asked for                             */
    uint64_t deadline_ns;       /* of the phase                                         */
    uint64_t moved_ns;          /* when bytes last went either way                      */

    char *in;                   /* [cap_in] a head, then what follows it                */
    size_t n_in, cap_in, seen;
    struct http_head head;      /* offsets into `in`; valid while there is a request    */
    size_t n_head;
    struct http_chunks chunks;
    uint64_t body_left;         /* of a body with a length                              */

    struct request *r;
    char *out;                  /* [CONN_OUT] at_out..n_out is to be sent               */
    size_t at_out, n_out;
    bool keep;                  /* after this answer another request may come           */
    bool blocked;               /* the client does not take what was to be sent         */
    const char *mem;            /* then this, [n_mem]                                   */
    char *mem_owned;
    size_t n_mem;
    bool from_api, chunked;     /* or what the API says                                 */

    TAILQ_ENTRY(conn) of_loop, of_all;
};

enum { PATH_MAX_LEN = 512, ID_MAX_LEN = 128 };

struct request {
    struct http *h;
    struct conn *conn;
    struct loop *loop;

    bool queued, beginning;     /* under loop.lock: in loop.woken; with a thread of the pool */
    TAILQ_ENTRY(request) of_woken;

    void (*reply)(struct request *r); /* what answers where it is not the API; NULL: nothing is there */
    bool to_api;
    const char *method;         /* the head's                                           */
    char path[PATH_MAX_LEN];    /* decoded                                              */
    char query[160];            /* what follows ?, as it came, as far as it fits        */
    const char *label;          /* of the path, for metrics                             */
    char id[ID_MAX_LEN + 1];
    uint64_t client;
    uint64_t owner;             /* the key's number; 0: there are no keys               */

    struct {                    /* what is wrong with the request; status 0: nothing    */
        unsigned status;
        const char *code, *allow;
        char message[300];
    } refused;
    bool begun;                 /* given to the API                                     */
    bool replied;               /* the head of the answer is written                    */
    bool cut;                   /* the client left, or the server ends                  */

    char *body;
    size_t n_body, cap_body;
    uint64_t seen;              /* bytes of the body, kept or not                       */

    TAILQ_ENTRY(request) of_pool; /* the pool's */
    void *x;                    /* the back end's exchange                             */
    unsigned status;
    uint64_t start_ns, whole_ns, first_ns; /* head, body read, first byte of the answer */
};

/* ---- http_loop.c ---- */

int loops_start(struct http *h, struct err *e);
void loops_stop(struct http *h); /* closes all connections and ends the threads; fine when they were not started */
/* Called by the owner only. */
int loop_watch(struct conn *c, uint32_t events); /* of epoll; not 0: it cannot be, and the connection must end */
/* Closes and frees it, at once or when its request can be given up. */
void conn_close(struct conn *c);

/* ---- http_conn.c: what happens on a connection. It may be gone afterwards ---- */

void conn_step(struct conn *c, uint32_t events);
/* If its client was told nothing for long, it is told something. It may be gone afterwards. */
void conn_keep_alive(struct conn *c, uint64_t now);
/* It did not do in time what its phase allows. */
bool conn_is_late(const struct conn *c, uint64_t now);
void conn_finish(struct conn *c);            /* frees its buffers */

/* ---- http_request.c: the life of a request ---- */

struct request *request_create(struct conn *c);
/* Some of its body. False: so much that the connection must end. */
bool request_body(struct request *r, const char *data, size_t n);
/* Its body is whole, or its answer is due before it is: writes the head of the answer if it is known, else r->replied
 * stays false until a wake. */
void request_answer(struct request *r);
/* More of the API's answer to buf: bytes; 0: none now; API_END, API_CUT. */
ssize_t request_read(struct request *r, char *buf, size_t cap);
/* Nothing went to the client for quiet_ns: is there something now, for no other reason? */
bool request_keep_alive(struct request *r, uint64_t quiet_ns);
void request_wake(void *user);               /* struct request; from any thread: look at it again */
void request_end(struct request *r, bool cut); /* logs and frees */
/* Is a thread of the pool at it? Then request_end must wait for the wake that follows. */
bool request_is_beginning(struct request *r);

/* Hands the request to the API. A thread of the pool says request_begun afterwards, and does not touch it any more. */
void request_begin(struct request *r);
void request_begun(struct request *r);

/* ---- http_begin.c ---- */

int begin_pool_create(struct begin_pool **out, struct err *e);
void begin_pool_destroy(struct begin_pool *p); /* NULL is fine; nothing may be in it */
void begin_pool_put(struct begin_pool *p, struct request *r);

/* ---- http_check.c: what can be said of a request by its head. Fills r->reply, to_api, path, label, id, client, refused ---- */

void request_check(struct request *r);
/* Refuses; the first reason counts. */
__attribute__((format(printf, 4, 5))) void request_refuse(struct request *r, unsigned status, const char *code,
                                                          const char *fmt, ...);
/* A header of the request, NULL: it has none. */
const char *request_header(const struct request *r, const char *name);

/* ---- http_reply.c: each writes the head of an answer, and where the rest comes from ---- */

void reply_refusal(struct request *r);
void reply_page(struct request *r);
void reply_icon(struct request *r);
void reply_openapi(struct request *r);
void reply_health(struct request *r);
void reply_metrics(struct request *r);
void reply_preflight(struct request *r);
void reply_api(struct request *r);
/* What is no request at all. */
void reply_wrong(struct conn *c, const struct http_wrong *w);

/* ---- http_log.c ---- */

bool id_is_sane(const char *id);
void id_make(struct http *h, char *id);
void log_request(const struct request *r, const struct api_usage *u, const char *reason, uint64_t end_ns);

#endif
