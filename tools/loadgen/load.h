/* tools/loadgen/load.h
 * What the parts of loadgen share. mix.c says what is sent, drive.c sends it over many connections from one thread,
 * response.c reads answers, expect.c knows what they must be, fuzz.c makes requests that no server likes, report.c
 * counts. Everything that is random follows from the seed. */
#ifndef ZINC_TOOLS_LOADGEN_LOAD_H
#define ZINC_TOOLS_LOADGEN_LOAD_H

#include <jansson.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct load_opts {
    const char *url;
    char host[256], port[16];
    const char *key;          /* API keys with commas between them, NULL: none                        */
    uint32_t n, connections;  /* requests, and how many at once                                       */
    uint32_t seconds;         /* go on for so long in the place of n; 0: n decides                    */
    uint32_t distinct;        /* different requests among them                                        */
    uint32_t tokens;          /* of an answer at most                                                 */
    uint32_t prefix_words;    /* of the longest prefix that requests share                            */
    uint32_t slow, drop, bad, plain, forms; /* per cent of requests                                   */
    bool no_tools;            /* the model's format has none                                          */
    uint32_t timeout_s;       /* without a byte on any connection for so long: it hangs               */
    uint64_t seed;
    bool retry;               /* send again what was refused with 429                                 */
    const char *solo, *verify; /* files                                                               */
    uint32_t fuzz;            /* malformed requests in the place of the mix                           */
    int64_t only;             /* fuzz: this one alone, shown                                          */
    int watch_pid;            /* report the resident memory of this process; 0: none                  */
    bool json;
};

/* ---- chance ---- */

struct rng {
    uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline uint32_t rng_below(struct rng *r, uint32_t n) /* 0 for n == 0 */
{
    return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}
static inline bool rng_percent(struct rng *r, uint32_t p)
{
    return rng_below(r, 100) < p;
}
/* One sequence for each number, whatever came before. */
static inline struct rng rng_of(uint64_t seed, uint64_t kind, uint64_t i)
{
    struct rng r = { seed * 0x2545f4914f6cdd1du ^ kind << 56 ^ i };
    rng_next(&r);
    return r;
}

/* ---- bytes that grow ---- */

struct bytes {
    char *p; /* NUL-terminated once something was put */
    size_t n, cap;
};

void bytes_put(struct bytes *b, const void *p, size_t n);
void bytes_text(struct bytes *b, const char *text);
__attribute__((format(printf, 2, 3))) void bytes_format(struct bytes *b, const char *fmt, ...);
void bytes_free(struct bytes *b);

/* ---- answers ---- */

/* The texts of a choice: what it says, and beside it calls of tools and the probabilities of tokens. */
enum { MAX_CHOICES = 2, MAX_TEXTS = 2 * MAX_CHOICES };

/* One HTTP response, fed as it comes. */
struct response {
    int status;              /* 0: the head is not complete                                           */
    bool head_done, done, keep_alive, chunked, events;
    bool finished;           /* [DONE] came, or the whole JSON body                                   */
    bool broken;             /* not HTTP, not JSON, or not what the API says                          */
    uint32_t retry_after;
    int64_t length;          /* of the body that is still to come; -1: until the end or by chunks     */
    int chunk_phase;
    struct bytes line, body; /* the line or head in the making; a body that is not a stream of events */
    struct bytes text[MAX_TEXTS]; /* of choice i: [i], and [MAX_CHOICES + i] beside it              */
    char finish[MAX_CHOICES][16];
    int64_t prompt_tokens, cached_tokens, completion_tokens; /* -1: not told                          */
    uint32_t n_events, n_texts; /* events in all, and those with text                                 */
    char error[200];
};

void response_begin(struct response *r);
void response_free(struct response *r);
void response_feed(struct response *r, const char *p, size_t n);
void response_eof(struct response *r);

/* ---- what is sent ---- */

enum behaviour { BE_GOOD, BE_SLOW, BE_DROP, BE_BAD, BE_COUNT };
enum drop_at { DROP_IN_BODY, DROP_QUEUED, DROP_IN_STREAM };
enum drop_how { DROP_RST, DROP_FIN, DROP_HALF };

struct request {
    enum behaviour how;
    uint32_t distinct;       /* BE_GOOD, BE_SLOW, BE_DROP: which                                      */
    uint32_t n_choices;
    struct bytes bytes;      /* the whole request                                                     */
    enum drop_at drop_at;
    enum drop_how drop_how;
    uint32_t drop_bytes;     /* of the request sent, or of the response read, before                  */
    uint32_t drop_ms;        /* DROP_QUEUED: so long after it was sent                                */
};

/* The i-th request of the mix. */
void mix_request(const struct load_opts *o, uint64_t i, struct request *out);
/* Distinct request d as it is. */
void mix_distinct(const struct load_opts *o, uint32_t d, struct request *out);
void request_free(struct request *r);
/* Head and body of a POST. */
void request_post(const struct load_opts *o, struct bytes *out, const char *path, const char *body, size_t n);

void fuzz_request(const struct load_opts *o, uint64_t i, struct bytes *out);

/* ---- what is expected ---- */

struct expect;

int expect_load(const char *path, const struct load_opts *o, struct expect **out, struct err *e);
int expect_create(const struct load_opts *o, struct expect **out, struct err *e);
void expect_set(struct expect *x, uint32_t distinct, const struct response *r);
int expect_save(const struct expect *x, const char *path, struct err *e);
/* NULL: as expected, so far or, when it is complete, altogether. Else what differs; valid until the next call. */
const char *expect_differs(struct expect *x, const struct request *q, const struct response *r, bool complete);
void expect_free(struct expect *x); /* NULL is fine */

/* ---- counting ---- */

/* Logarithmic: 32 steps to an octave, 3 per cent. */
struct histogram {
    uint64_t n, max, sum, count[64 * 32];
};
void histogram_add(struct histogram *h, uint64_t ns);
uint64_t histogram_at(const struct histogram *h, double fraction);

#define OUTCOMES(X)                                                                                                    \
    X(COMPLETE, "complete", false)                                                                                     \
    X(DROPPED, "dropped", false)      /* by us, as planned                                  */                         \
    X(REJECTED, "rejected", false)    /* 4xx to what deserved it                            */                         \
    X(REFUSED, "refused", false)      /* 429                                                */                         \
    X(VALID, "valid", false)          /* fuzz: it was still a request, and was answered     */                         \
    X(CLOSED, "closed", false)        /* fuzz: closed without an answer                     */                         \
    X(DIFFERENT, "different", true)   /* not the text, or not a prefix of it                */                         \
    X(BROKEN, "broken", true)         /* ended in the middle, or is not what the API says   */                         \
    X(SERVER_ERROR, "server_error", true) /* 5xx                                            */                         \
    X(UNEXPECTED, "unexpected", true) /* 4xx to a good request, 2xx to a bad one            */                         \
    X(HANGS, "hangs", true)                                                                                            \
    X(UNREACHABLE, "unreachable", true)
enum outcome {
#define X(name, text, wrong) OUT_##name,
    OUTCOMES(X)
#undef X
    OUT_COUNT
};

struct report {
    uint64_t outcome[OUT_COUNT], status[600];
    uint64_t tokens, cached_tokens, prompt_tokens, retries, sent;
    uint64_t wall_ns;
    struct histogram first_byte, first_text, between, whole;
    uint32_t verified, verified_parts;
    uint32_t complaints;     /* lines printed about what went wrong                                   */
    struct { uint32_t n; double start_kib, end_kib, max_kib, slope_kib_per_min; } rss;
};

__attribute__((format(printf, 3, 4))) void report_wrong(struct report *r, enum outcome why, const char *fmt, ...);
void report_print(const struct report *r, const struct load_opts *o);
bool report_is_bad(const struct report *r);

/* Resident memory of a process, sampled twice a second. */
struct rss_watch {
    int pid;
    uint64_t start_ns, next_ns;
    double n, st, sy, stt, sty; /* least squares over samples after the first quarter of a minute     */
};
void rss_sample(struct rss_watch *w, struct report *r, uint64_t now);

/* ---- running ---- */

/* 0, or -errno when the server could not be reached at all. */
int drive_load(const struct load_opts *o, struct expect *x, struct report *r, struct err *e);
int drive_solo(const struct load_opts *o, struct expect *x, struct report *r, struct err *e);
int drive_fuzz(const struct load_opts *o, struct report *r, struct err *e);

#endif
