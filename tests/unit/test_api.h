/* tests/unit/test_api.h: an API over an engine, and calls to it without any HTTP. */
#ifndef ZINC_TESTS_UNIT_TEST_API_H
#define ZINC_TESTS_UNIT_TEST_API_H

#include <check.h>
#include <jansson.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "server/api.h"
#include "server/budget.h"

#define DEMO "models/zinc-demo.gguf"

struct api_bench {
    struct engine *eng;
    struct sched *sched;
    struct api *api;
    struct budget *budget; /* of half a GiB where the test has none: all that was taken must have come back */
};

/* *a is filled in where the caller left it zero. */
static inline void bench_open(struct api_bench *b, const char *path, const char *tier, uint32_t n_slots,
                              const struct sched_opts *s, const struct api_opts *o)
{
    struct err e = { 0 };
    struct engine_opts eo = { .path = path, .tier = tier, .n_slots = n_slots, .n_ctx = 1024, .threads = 1,
                              .pooling = "auto" };
    struct sched_opts none = { .max_queue = 16 };
    struct api_opts ao = { .sampling = sampler_defaults(), .think = -1, .think_budget = -1, .max_tokens = 32 };
    if (o)
        ao = *o;
    ck_assert_msg(engine_open(&eo, &b->eng, &e) == 0, "%s", e.msg);
    ck_assert_msg(sched_create(b->eng, s ? s : &none, &b->sched, &e) == 0, "%s", e.msg);
    ao.eng = b->eng;
    ao.sched = b->sched;
    if (!ao.budget)
        ao.budget = budget_create(512u << 20);
    b->budget = ao.budget;
    ck_assert_msg(api_create(&ao, &b->api, &e) == 0, "%s", e.msg);
}

static inline void bench_close(struct api_bench *b)
{
    api_destroy(b->api);
    ck_assert_uint_eq(budget_stats(b->budget).used, 0);
    budget_destroy(b->budget);
    sched_destroy(b->sched);
    engine_close(b->eng);
    *b = (struct api_bench){ 0 };
}

/* What a connection is to an exchange: it sleeps until it is woken. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool woken;
};
/* Not for the stack of a test that may be left while its exchange lives: Check's failures leave by longjmp, and the
 * scheduler's thread wakes what is there then. */
#define WAIT_INIT { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static inline void wait_wake(void *user)
{
    struct wait *w = user;
    pthread_mutex_lock(&w->lock);
    w->woken = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static inline void wait_for(struct wait *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->woken)
        pthread_cond_wait(&w->cond, &w->lock);
    w->woken = false;
    pthread_mutex_unlock(&w->lock);
}

struct reply_got {
    int status;
    bool streams;
    uint32_t retry_after;
    char *text; /* malloc'ed */
    size_t n;
    struct api_usage usage;
};

/* Reads all, `piece` bytes at a time. */
static inline struct reply_got read_all(struct api_exchange *x, struct wait *w, size_t piece)
{
    struct reply_got r = { 0 };
    size_t cap = 0;
    ssize_t n;
    while (!(r.status = api_status(x)))
        wait_for(w);
    r.streams = api_streams(x);
    r.retry_after = api_retry_after(x);
    ck_assert_str_eq(api_content_type(x), r.streams ? "text/event-stream" : "application/json");
    for (;;) {
        if (cap - r.n < piece + 1)
            r.text = realloc(r.text, cap = 2 * cap + piece + 1);
        n = api_read(x, r.text + r.n, piece);
        if (n < 0)
            break;
        if (n == 0)
            wait_for(w);
        r.n += (size_t)n;
    }
    r.text[r.n] = 0;
    ck_assert_uint_eq(strlen(r.text), r.n);
    r.usage = api_usage(x);
    return r;
}

/* A body that begins with {' is written with ' for ", so that it can be read. Malloc'ed. */
static inline char *quoted(const char *body)
{
    char *s = strdup(body);
    for (char *c = s; strncmp(body, "{'", 2) == 0 && *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return s;
}

static inline struct reply_got call_in_pieces(struct api_bench *b, const char *method, const char *path,
                                              const char *text, size_t piece)
{
    char *body = quoted(text);
    static _Thread_local struct wait w = WAIT_INIT;
    struct api_call c = { .method = method, .path = path, .body = body, .n_body = strlen(body), .id = "req-1",
                          .wake = wait_wake, .user = &w };
    struct api_exchange *x = api_begin(b->api, &c);
    free(body);
    ck_assert_ptr_nonnull(x);
    struct reply_got r = read_all(x, &w, piece);
    api_end(x);
    return r;
}

static inline struct reply_got call(struct api_bench *b, const char *method, const char *path, const char *body)
{
    return call_in_pieces(b, method, path, body, 4096);
}

/* The reply as JSON; it must have this status. */
static inline json_t *call_json(struct api_bench *b, const char *method, const char *path, const char *body, int status)
{
    json_error_t je;
    struct reply_got r = call(b, method, path, body);
    ck_assert_msg(r.status == status, "%s %s: %d, expected %d: %.900s", path, body, r.status, status, r.text);
    ck_assert(!r.streams);
    json_t *v = json_loads(r.text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    ck_assert_msg(v != NULL, "%s: %.900s", je.text, r.text);
    free(r.text);
    return v;
}

/* A value by path, "choices.0.message.content"; NULL: not there. */
static inline json_t *at(json_t *v, const char *path)
{
    char buf[256], *save = NULL;
    snprintf(buf, sizeof buf, "%s", path);
    for (char *s = strtok_r(buf, ".", &save); s && v; s = strtok_r(NULL, ".", &save))
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(s)) : json_object_get(v, s);
    return v;
}

static inline const char *str_at(json_t *v, const char *path)
{
    json_t *s = at(v, path);
    ck_assert_msg(json_is_string(s), "no string at %s: %.900s", path, json_dumps(v, JSON_COMPACT));
    return json_string_value(s);
}

static inline long long int_at(json_t *v, const char *path)
{
    json_t *i = at(v, path);
    ck_assert_msg(json_is_integer(i), "no integer at %s: %.900s", path, json_dumps(v, JSON_COMPACT));
    return json_integer_value(i);
}

/* The events of a stream, as an array; the last one must be [DONE], which is not among them. */
static inline json_t *events_of(char *text)
{
    json_t *all = json_array();
    json_error_t je;
    bool done = false;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        ck_assert_msg(strncmp(line, "data: ", 6) == 0, "not an event: %s", line);
        ck_assert(!done);
        if (strcmp(line + 6, "[DONE]") == 0) {
            done = true;
            continue;
        }
        json_t *v = json_loads(line + 6, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
        ck_assert_msg(v != NULL, "%s: %.900s", je.text, line);
        json_array_append_new(all, v);
    }
    ck_assert(done);
    return all;
}

static inline json_t *call_events(struct api_bench *b, const char *path, const char *body, size_t piece)
{
    struct reply_got r = call_in_pieces(b, "POST", path, body, piece);
    ck_assert_msg(r.status == 200 && r.streams, "%d: %.900s", r.status, r.text);
    json_t *v = events_of(r.text);
    free(r.text);
    return v;
}

/* A string's text with U+2400 for NUL; malloc'ed. */
static inline char *text_of(const json_t *v)
{
    size_t n = json_string_length(v);
    char *s = calloc(3, n + 1), *to = s;
    for (size_t i = 0; i < n; i++) {
        if (json_string_value(v)[i])
            *to++ = json_string_value(v)[i];
        else
            to = stpcpy(to, "\xe2\x90\x80");
    }
    return s;
}

/* The texts at `path` of the events with choice `index`, joined; malloc'ed. */
static inline char *join_events(json_t *events, int index, const char *path)
{
    size_t i, n = 0;
    json_t *v;
    char *s = calloc(1, 1 << 20);
    json_array_foreach(events, i, v)
    {
        json_t *choice = at(v, "choices.0");
        json_t *t = choice && int_at(choice, "index") == index ? at(choice, path) : NULL;
        if (json_is_string(t)) {
            char *text = text_of(t);
            ck_assert_uint_lt(n + strlen(text), 1 << 20);
            n = (size_t)(stpcpy(s + n, text) - s);
            free(text);
        }
    }
    return s;
}

#endif
