/* server/http.h
 * HTTP in front of the API. It listens and refuses with 503 until http_serve, and again from http_drain on. */
#ifndef ZINC_SERVER_HTTP_H
#define ZINC_SERVER_HTTP_H

#include "server/backend.h"
#include "server/server.h"

struct http;

int http_start(const struct server_opts *o, struct http **out, struct err *e);
const char *http_url(const struct http *h);
bool http_is_open(const struct http *h); /* see server_is_open */

/* Of the memory that requests hold: for the API, which must be gone before http_destroy. */
struct budget *http_budget(struct http *h);

/* What is behind it from now on: all of it must live until http_stop returned. */
struct http_backend {
    const struct backend_ops *ops;
    void *self;
    struct sched *sched;         /* NULL: the back end has several, and tells of itself */
    const char *model, *tier;    /* as sched */
    uint32_t n_ctx;
};
void http_serve(struct http *h, const struct http_backend *b);

/* Nobody can connect any more and new requests on old connections are refused; what is being answered goes on. */
void http_drain(struct http *h);

/* Waits at most `timeout_ns` until what is being answered is sent, cuts the rest and ends. Returns how many. */
uint32_t http_stop(struct http *h, uint64_t timeout_ns);
void http_destroy(struct http *h); /* NULL is fine; stops it too */

/* The paths that are answered here and not by the API, all for GET and HEAD: number i, NULL behind the last. */
const char *http_own_path(size_t i);

/* For kvpool_opts.owner_name; user: the struct http. */
uint64_t http_owner_name(void *user, uint64_t owner);

#endif
