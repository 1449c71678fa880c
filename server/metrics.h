/* server/metrics.h
 * What /metrics tells, in Prometheus' text format: counters and histograms of the HTTP side, kept here, and the
 * scheduler's figures at the moment of asking. All functions may be called from any thread. */
#ifndef ZINC_SERVER_METRICS_H
#define ZINC_SERVER_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/serve/sched.h"
#include "server/budget.h"

struct metrics;

struct metrics *metrics_create(void); /* NULL: out of memory */
void metrics_destroy(struct metrics *m); /* NULL is fine */

/* A request that ended. */
struct metrics_request {
    const char *path;           /* of a bounded set: it becomes a label                             */
    unsigned status;            /* as sent; 499: the client left before                             */
    uint64_t total_ns;          /* since its head was read                                          */
    uint64_t first_byte_ns;     /* from the whole request to the first byte of the answer; 0: none  */
    uint32_t generated;         /* tokens; 0: the next four mean nothing                            */
    uint64_t queued_ns, prompt_ns, decode_ns;
    bool cut;                   /* the client left, or the end of the server ended it               */
};
void metrics_request(struct metrics *m, const struct metrics_request *r);

/* A connection that was closed without a request of it being looked at. */
void metrics_rejected(struct metrics *m);

/* Figures that others keep. */
struct metrics_now {
    const char *model, *tier;   /* NULL: still loading, or several; then sched means nothing */
    const char *more;           /* further lines; NULL: none */
    struct sched_stats sched;
    uint32_t n_ctx;
    uint32_t connections, answering;
    uint64_t body_bytes;
    struct budget_stats memory; /* of requests */
    bool ready;
};
/* Malloc'ed text, [*n]; NULL: out of memory. */
char *metrics_text(struct metrics *m, const struct metrics_now *now, size_t *n);

#endif
