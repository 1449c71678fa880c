/* zinc bench --streams: how fast many answers are made at the same time. It drives the scheduler that zinc serve drives,
 * without HTTP. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "cli/bench.h"
#include "engine/serve/sched.h"

struct run;

/* One answer in the making. The scheduler's thread writes it, under run->lock. */
struct stream {
    struct run *run;
    struct sched_job *job;
    uint32_t n;              /* tokens so far               */
    uint64_t *at;            /* [run->n] when they came     */
    uint64_t began;          /* when it was submitted       */
};

/* All streams of one repetition. */
struct run {
    uint32_t n_streams, n;
    struct stream *stream;
    uint64_t *at;            /* [n_streams][n]              */
    uint64_t began;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint32_t n_live;
    struct err err;          /* of the first one that ended otherwise than with its n tokens */
};

/* Latencies of all streams and repetitions, in ms. */
struct times {
    double *v;
    size_t n;
};

/* ---- one repetition ---- */

static void on_wake(void *user)
{
    struct stream *st = user;
    struct run *r = st->run;
    struct sched_out out;
    pthread_mutex_lock(&r->lock); /* the job is known when it was submitted */
    sched_take(st->job, &out);
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < out.n_tokens && st->n < r->n; i++)
        st->at[st->n++] = now;
    if (out.end != SCHED_RUNNING) {
        if (out.end != SCHED_OK && !r->err.code)
            r->err = out.err;
        if (!r->err.code && st->n < r->n)
            err_set(&r->err, out.end == SCHED_OK ? -EIO : -ECANCELED, "bench: a stream ended after %u of %u tokens",
                    st->n, r->n);
        r->n_live--;
        pthread_cond_signal(&r->ended);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Any tokens, other ones in each prompt: else the scheduler would find what it has evaluated before. */
static void make_prompt(int32_t *tok, uint32_t n, uint32_t n_vocab)
{
    static uint32_t x = 1;
    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)(((x = x * 1664525u + 1013904223u) >> 8) % n_vocab);
}

/* With run->lock, which is not held while the next request is waited for. */
static void wait_for_turn(struct run *r, uint64_t at)
{
    pthread_mutex_unlock(&r->lock);
    for (uint64_t now; (now = clock_ns()) < at && !flag_is_set(cli_catch_interrupt());)
        nanosleep(&(struct timespec){ .tv_nsec = (long)MIN(at - now, 50000000u) }, NULL);
    pthread_mutex_lock(&r->lock);
}

static int submit_all(struct sched *s, struct run *r, uint32_t n_vocab, int32_t *tok, uint32_t p, uint32_t every_ms, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    r->began = clock_ns();
    for (uint32_t i = 0; i < r->n_streams && !rc; i++) {
        struct stream *st = &r->stream[i];
        uint32_t retry;
        if (i && every_ms)
            wait_for_turn(r, r->began + (uint64_t)i * every_ms * 1000000u);
        *st = (struct stream){ .run = r, .at = r->at + (size_t)i * r->n, .began = clock_ns() };
        struct sched_request q = { .prompt = tok, .n_prompt = p, .n_logprobs = -1, .client = i, .wake = on_wake, .user = st };
        q.gen = (struct gen_opts){ .sampling = sampler_defaults(), .n_max = r->n, .ignore_eos = true };
        q.gen.sampling.temp = 0;
        make_prompt(tok, p, n_vocab);
        rc = sched_submit(s, &q, &st->job, &retry, e);
        r->n_live += !rc;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static struct timespec soon(void)
{
    enum { LOOK_NS = 100000000 }; /* how often for an interruption */
    uint64_t at = clock_ns() + LOOK_NS;
    return (struct timespec){ .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };
}

/* Until all streams ended; cut: they are cancelled. */
static void wait_all(struct run *r, bool cut)
{
    pthread_mutex_lock(&r->lock);
    while (r->n_live) {
        if (cut || flag_is_set(cli_catch_interrupt()))
            for (uint32_t i = 0; i < r->n_streams; i++)
                if (r->stream[i].job)
                    sched_cancel(r->stream[i].job);
        struct timespec until = soon();
        pthread_cond_timedwait(&r->ended, &r->lock, &until);
    }
    pthread_mutex_unlock(&r->lock);
}

static int run_streams(struct sched *s, struct run *r, uint32_t n_vocab, int32_t *tok, uint32_t p, uint32_t every_ms, struct err *e)
{
    memset(r->stream, 0, r->n_streams * sizeof *r->stream);
    r->n_live = 0;
    r->err = (struct err){ 0 };
    int rc = submit_all(s, r, n_vocab, tok, p, every_ms, e);
    wait_all(r, rc != 0);
    for (uint32_t i = 0; i < r->n_streams; i++)
        sched_release(r->stream[i].job);
    if (rc)
        return rc;
    if (flag_is_set(cli_catch_interrupt()))
        return err_set(e, -ECANCELED, "bench: interrupted");
    if (r->err.code)
        *e = r->err;
    return r->err.code;
}

static int run_create(struct run *r, uint32_t n_streams, uint32_t n, struct err *e)
{
    pthread_condattr_t attr;
    *r = (struct run){ .n_streams = n_streams, .n = n };
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
    r->stream = calloc(n_streams, sizeof *r->stream);
    r->at = calloc((size_t)n_streams * n, sizeof *r->at);
    return r->stream && r->at ? 0 : err_set(e, -ENOMEM, "bench: out of memory for %u streams", n_streams);
}

static void run_destroy(struct run *r)
{
    free(r->stream);
    free(r->at);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->ended);
}

/* ---- what came of it ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least value that so many percent of all are not above. */
static double percentile(const struct times *t, uint32_t percent)
{
    return t->v[(t->n * percent + 99) / 100 - 1];
}

static json_t *times_json(struct times *t)
{
    if (!t->n)
        return json_null();
    qsort(t->v, t->n, sizeof *t->v, by_size);
    return json_pack("{s:f, s:f, s:f}", "p50", percentile(t, 50), "p95", percentile(t, 95), "p99", percentile(t, 99));
}

/* Tokens per second of all streams, from the start to the last token. */
static double whole_tps(const struct run *r)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < r->n_streams; i++)
        last = MAX(last, r->stream[i].at[r->n - 1]);
    return (double)r->n_streams * r->n / ((double)(last - r->began) * 1e-9);
}

/* The same while all of them generate: from the last one's first token to the first one's last. 0: they never all did. */
static double decode_tps(const struct run *r)
{
    uint64_t from = 0, to = UINT64_MAX, n = 0;
    for (uint32_t i = 0; i < r->n_streams; i++) {
        from = MAX(from, r->stream[i].at[0]);
        to = MIN(to, r->stream[i].at[r->n - 1]);
    }
    if (from >= to)
        return 0;
    for (size_t i = 0; i < (size_t)r->n_streams * r->n; i++)
        n += r->at[i] > from && r->at[i] <= to;
    return (double)n / ((double)(to - from) * 1e-9);
}

static void add_times(const struct run *r, struct times *first, struct times *between)
{
    for (uint32_t i = 0; i < r->n_streams; i++) {
        const uint64_t *at = r->stream[i].at;
        first->v[first->n++] = (double)(at[0] - r->stream[i].began) * 1e-6;
        for (uint32_t k = 1; k < r->n; k++)
            between->v[between->n++] = (double)(at[k] - at[k - 1]) * 1e-6;
    }
}

static int measure(struct sched *s, struct run *r, const struct bench_streams *o, uint32_t n_vocab, int32_t *tok,
                   struct times *first, struct times *between, json_t **row, struct err *e)
{
    double whole = 0, decode = 0;
    uint32_t n_decode = 0;
    int rc = 0;
    for (uint32_t i = 0; i < o->reps && !rc; i++) {
        if ((rc = run_streams(s, r, n_vocab, tok, o->p, o->every_ms, e)))
            return rc;
        double d = decode_tps(r);
        whole += whole_tps(r) / o->reps;
        decode += d;
        n_decode += d > 0;
        add_times(r, first, between);
    }
    *row = json_pack("{s:i, s:f, s:o, s:o, s:o}", "streams", (int)r->n_streams, "tps", whole, "decode_tps",
                     n_decode ? json_real(decode / n_decode) : json_null(), "first_token_ms", times_json(first),
                     "between_tokens_ms", times_json(between));
    return *row ? 0 : err_set(e, -ENOMEM, "bench: out of memory");
}

/* Everything that is made once is made before the clock runs: a short repetition first. */
static int measure_streams(struct sched *s, const struct bench_streams *o, uint32_t n_streams, uint32_t n_vocab,
                           int32_t *tok, json_t **row, struct err *e)
{
    size_t all = (size_t)n_streams * o->reps;
    struct times first = { .v = calloc(all, sizeof *first.v) };
    struct times between = { .v = calloc(all * o->n, sizeof *between.v) };
    struct run r;
    int rc = run_create(&r, n_streams, o->n, e);
    if (!rc && (!first.v || !between.v))
        rc = err_set(e, -ENOMEM, "bench: out of memory for the times of %u streams", n_streams);
    r.n = MIN(o->n, 4u);
    if (!rc)
        rc = run_streams(s, &r, n_vocab, tok, MIN(o->p, 64u), 0, e);
    r.n = o->n;
    if (!rc)
        rc = measure(s, &r, o, n_vocab, tok, &first, &between, row, e);
    run_destroy(&r);
    free(first.v);
    free(between.v);
    return rc;
}

/* ---- the command ---- */

static void print_times(const json_t *o)
{
    static const char *const key[] = { "p50", "p95", "p99" };
    for (size_t i = 0; i < ARRAY_LEN(key); i++)
        if (json_is_null(o)) /* one token has nothing between */
            printf(" %8s", "-");
        else
            printf(" %8.2f", json_real_value(json_object_get(o, key[i])));
}

static void print_row(const json_t *row)
{
    const json_t *d = json_object_get(row, "decode_tps");
    printf("%7d %9.2f", (int)json_integer_value(json_object_get(row, "streams")), json_real_value(json_object_get(row, "tps")));
    if (json_is_real(d))
        printf(" %9.2f", json_real_value(d));
    else
        printf(" %9s", "-"); /* they never generated all at once */
    print_times(json_object_get(row, "first_token_ms"));
    print_times(json_object_get(row, "between_tokens_ms"));
    putchar('\n');
    fflush(stdout);
}

static int measure_all(struct engine *eng, struct sched *s, const struct bench_streams *o, int32_t *tok, json_t *rows)
{
    struct err e = { 0 };
    for (uint32_t i = 0; i < o->n_counts; i++) {
        json_t *row = NULL;
        if (measure_streams(s, o, o->count[i], engine_info(eng)->n_vocab, tok, &row, &e))
            return cli_fail(&e);
        if (!o->json)
            print_row(row);
        json_array_append_new(rows, row);
    }
    return EXIT_OK;
}

static void print_head(const struct engine_info *in, const struct bench_streams *o)
{
    printf("model    %s (%s, %s)\n", in->label, in->family, in->weights);
    printf("tier     %s%s, %s, %u slots of %u tokens%s\n", in->tier, in->exact ? ":exact" : "", in->device, in->n_slots, in->n_ctx,
           in->few_rows ? ", --batch-variant" : "");
    printf("load     each stream: %u tokens of prompt, %u generated; they arrive ", o->p, o->n);
    if (o->every_ms)
        printf("%u ms apart\n", o->every_ms);
    else
        puts("at once");
    printf("\n%27s %26s %26s\n%7s %9s %9s %8s %8s %8s %8s %8s %8s\n", "tokens per second", "first token, ms", "between tokens, ms", "streams",
           "whole run", "all busy", "p50", "p95", "p99", "p50", "p95", "p99");
}

static int print_json(const struct engine_info *in, const struct bench_streams *o, json_t *rows)
{
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:O}", "model", in->label, "family",
                            in->family, "weights", in->weights, "tier", in->tier, "exact", in->exact, "device", in->device,
                            "slots", (int)in->n_slots, "few_rows", (int)in->few_rows, "context", (int)in->n_ctx, "prompt", (int)o->p, "generate",
                            (int)o->n, "every_ms", (int)o->every_ms, "repetitions", (int)o->reps, "rows", rows);
    if (all)
        json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return EXIT_OK;
}

int bench_streams(const struct bench_streams *o)
{
    struct engine *eng = NULL;
    struct sched *s = NULL;
    struct err e = { 0 };
    int32_t *tok = calloc(o->p, sizeof *tok);
    json_t *rows = json_array();
    int rc = tok && rows ? 0 : cli_fail(&(struct err){ .code = -ENOMEM, .msg = "bench: out of memory" });
    cli_catch_interrupt();
    if (!rc && !(rc = cli_open_vocab(&eng)) && !(rc = cli_start(eng))) {
        if (!o->json)
            print_head(engine_info(eng), o);
        rc = sched_create(eng, &(struct sched_opts){ 0 }, &s, &e) ? cli_fail(&e) : measure_all(eng, s, o, tok, rows);
    }
    if (!rc && o->json)
        rc = print_json(engine_info(eng), o, rows);
    sched_destroy(s);
    engine_close(eng);
    json_decref(rows);
    free(tok);
    return rc;
}
