/* server/server.h
 * `zinc serve`: a loaded model, or several, behind the OpenAI-compatible API and a chat page. All of server/ that programs see.
 *
 *     server_create(&o, &s, &e);           listens; until server_run requests are answered with 503, "loading"
 *     ... load the model ...
 *     server_run(s, eng, &m, &stop, &e);   serves until stop is set, then drains
 *     server_destroy(s); */
#ifndef ZINC_SERVER_SERVER_H
#define ZINC_SERVER_SERVER_H

#include "base/flag.h"
#include "engine/serve/sched.h"

struct server;
struct router_opts;

/* The strings must live until server_destroy. */
struct server_opts {
    const char *host;                /* name or address, or unix:PATH; NULL: 127.0.0.1                       */
    uint16_t port;                   /* 0: any; server_url tells which                                       */
    const char *const *api_keys;     /* [n_api_keys] Bearer tokens; none: no key is asked for                */
    uint32_t n_api_keys;
    const char *api_key_file;        /* more of them, one a line, # begins a comment; NULL: none             */
    const char *cors;                /* origin that browsers may call from, or *; NULL: none                 */
    const char *const *hosts;        /* [n_hosts] names in Host that are answered without keys, see site.h   */
    uint32_t n_hosts;
    const char *tls_cert, *tls_key;  /* PEM files; NULL: plain HTTP                                         */
    uint64_t max_body;               /* bytes of a request; 0: 8 MiB                                         */
    uint64_t max_memory;             /* bytes that requests hold together; 0: 512 MiB, or four bodies        */
    uint32_t max_connections;        /* 0: 1024                                                              */
    uint32_t threads;                /* for HTTP; 0: 2                                                       */
    uint32_t idle_s;                 /* a connection that sends nothing is closed; 0: 60                     */
    uint32_t drain_s;                /* at the end: how long running answers may take                        */
    bool no_page, no_metrics;
    bool quiet;                      /* no log line for each request                                         */
    bool behind_router;              /* clients are who X-Zinc-From says: only where nobody else can connect */
    const char *ready_file;          /* the URL is written here once requests are answered; NULL: nowhere    */
};

/* What is served, and the defaults of its requests. */
struct server_model {
    struct sched_opts sched;
    const char *name;                /* in the API; NULL: the file's label                                   */
    const char *const *aliases;      /* as in api_opts                                                       */
    uint32_t n_aliases;
    bool strict_model;
    struct sampler_params sampling;
    int think;                       /* -1: the model's default                                              */
    int32_t think_budget;            /* tokens of reasoning at most; -1: no limit                            */
    uint32_t max_tokens;             /* of an answer when the request gives none; 0: the context             */
    uint64_t timeout_ns;             /* of a request when it gives none; 0: none                             */
};

/* -EADDRINUSE, -EACCES and the like, -EINVAL: an option; with the line to show. */
int server_create(const struct server_opts *o, struct server **out, struct err *e);
void server_destroy(struct server *s); /* NULL is fine */

const char *server_url(const struct server *s); /* "http://127.0.0.1:8080", "unix:PATH" */
bool server_is_open(const struct server *s);    /* others than this machine can reach it, and no key is asked for */

/* Serves until stop is set and drains. 0 after a clean end. */
int server_run(struct server *s, struct engine *eng, const struct server_model *m, const struct flag *stop,
               struct err *e);

/* The same for several models, each a process of its own (router/router.h). budget, owner_name, user and end_s of `o` are
 * not looked at. -ENOSYS: not without libcurl. */
int server_run_models(struct server *s, const struct router_opts *o, const struct flag *stop, struct err *e);

#endif
