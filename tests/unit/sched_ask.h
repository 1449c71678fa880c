/* tests/unit/sched_ask.h: an engine with a scheduler on a tiny model, what asks it, and the same answers without one:
 *
 *     struct rig r = rig("null", 2, 4, 0);
 *     struct ask a;
 *     ask_init(&a, words, 8, 20);
 *     submit(r.s, &a);
 *     await_end(&a);     // a.tok [a.n_tok] is the answer, a.last how it ended
 *     rig_end(&r);
 *
 * Failures fail the test. */
#ifndef ZINC_TESTS_UNIT_SCHED_ASK_H
#define ZINC_TESTS_UNIT_SCHED_ASK_H

#include <check.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/serve/sched_impl.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 256, CHUNK = 32, MAX_TOK = N_CTX };

/* The thread sanitizer is very slow, and a work-group on the host is nothing to threads. */
#if defined(__SANITIZE_THREAD__)
enum { WITH_LOCKSTEP = 0 };
#else
enum { WITH_LOCKSTEP = 1 };
#endif

static inline struct engine *open_engine(const char *path, const char *tier, uint32_t n_slots)
{
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = N_CTX, .chunk = CHUNK, .n_slots = n_slots,
                             .score_rows = 8, .threads = 2 };
    struct engine *eng;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static inline struct sched *start(struct engine *eng, uint32_t max_queue, uint32_t hold_bytes)
{
    struct sched_opts o = { .max_queue = max_queue, .hold_bytes = hold_bytes, .kv.host_bytes = 8 << 20 };
    struct sched *s;
    struct err e = { 0 };
    ck_assert_msg(sched_create(eng, &o, &s, &e) == 0, "%s", e.msg);
    return s;
}

/* A prompt. */
static const int32_t words[] = { 5, 6, 7, 8, 9, 10, 11, 12 };

/* A request and what came of it. */
struct ask {
    struct sched_request r;
    struct sched_job *job;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool awake;
    int32_t tok[MAX_TOK];
    uint32_t n_tok;
    uint64_t told; /* a sum over what was told of each token's probability */
    struct sched_out last;
    uint32_t turn; /* who was woken first, second, ... */
};

/* The scheduler's call: something is there to take. */
static inline void wake(void *user)
{
    static uint32_t turns; /* the scheduler's thread only */
    struct ask *a = user;
    pthread_mutex_lock(&a->lock);
    a->turn = a->turn ? a->turn : ++turns;
    a->awake = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

/* Greedy, and goes on past an end: what a test wants otherwise it sets in a->r. */
static inline void ask_init(struct ask *a, const int32_t *prompt, uint32_t n, uint32_t n_max)
{
    *a = (struct ask){ .r = { .prompt = prompt, .n_prompt = n, .n_logprobs = -1, .wake = wake, .user = a } };
    a->r.gen = (struct gen_opts){ .sampling = sampler_defaults(), .n_max = n_max, .ignore_eos = true };
    a->r.gen.sampling.temp = 0;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->cond, NULL);
}

static inline void submit(struct sched *s, struct ask *a)
{
    uint32_t retry = 0;
    struct err e = { 0 };
    ck_assert_msg(sched_submit(s, &a->r, &a->job, &retry, &e) == 0, "%s", e.msg);
}

/* A sum that no bit of what is told can change unseen. */
static inline uint64_t add_told(uint64_t sum, const struct sched_token *t)
{
    uint32_t bits;
    memcpy(&bits, &t->logprob, sizeof bits);
    sum = (sum ^ bits) * 0x100000001b3 + t->n_top;
    for (uint32_t i = 0; i < t->n_top; i++) {
        memcpy(&bits, &t->top[i].logprob, sizeof bits);
        sum = ((sum ^ bits) * 0x100000001b3 ^ (uint32_t)t->top[i].id) * 0x100000001b3;
    }
    return sum;
}

static inline void take(struct ask *a)
{
    sched_take(a->job, &a->last);
    for (uint32_t i = 0; i < a->last.n_tokens && a->n_tok < MAX_TOK; i++) {
        a->tok[a->n_tok++] = a->last.tokens[i].id;
        a->told = a->r.n_logprobs >= 0 ? add_told(a->told, &a->last.tokens[i]) : 0;
    }
}

static inline void sleep_until_woken(struct ask *a)
{
    pthread_mutex_lock(&a->lock);
    while (!a->awake)
        pthread_cond_wait(&a->cond, &a->lock);
    a->awake = false;
    pthread_mutex_unlock(&a->lock);
}

/* Until there are `n`, or the request has ended. */
static inline void await_tokens(struct ask *a, uint32_t n)
{
    while (a->last.end == SCHED_RUNNING && a->n_tok < n) {
        sleep_until_woken(a);
        take(a);
    }
}

/* Takes the rest; the job is released. */
static inline void await_end(struct ask *a)
{
    await_tokens(a, UINT32_MAX);
    sched_release(a->job);
}

/* ---- an engine with its scheduler ---- */

struct rig {
    char path[32];
    struct engine *eng;
    struct sched *s;
};

/* On tiny-qwen3. */
static inline struct rig rig(const char *tier, uint32_t n_slots, uint32_t max_queue, uint32_t hold)
{
    struct rig r = { "/tmp/zinc-sched-XXXXXX", NULL, NULL };
    tiny_model(r.path, "tiny-qwen3");
    r.eng = open_engine(r.path, tier, n_slots);
    r.s = start(r.eng, max_queue, hold);
    return r;
}

static inline void rig_end(struct rig *r)
{
    sched_destroy(r->s);
    engine_close(r->eng);
    unlink(r->path);
}

/* ---- what a request generates alone ---- */

struct alone {
    int32_t tok[MAX_TOK];
    uint32_t n, n_vocab;
    int32_t n_logprobs;
    uint64_t told;
};

static inline int note_token(void *user, int32_t id, const float *logits)
{
    struct alone *a = user;
    struct sched_token t = { .id = id };
    if (a->n < MAX_TOK)
        a->tok[a->n++] = id;
    if (a->n_logprobs >= 0) {
        sched_log_probabilities(&t, logits, a->n_vocab, (uint32_t)a->n_logprobs);
        a->told = add_told(a->told, &t);
    }
    return 0;
}

static inline void generate_alone(struct engine *eng, const struct sched_request *r, struct alone *a)
{
    struct session *s;
    struct gen_result res;
    struct err e = { 0 };
    struct gen_opts o = r->gen;
    *a = (struct alone){ .n_logprobs = r->n_logprobs, .n_vocab = engine_info(eng)->n_vocab };
    o.want_logits = r->n_logprobs >= 0;
    o.on_token = note_token;
    o.user = a;
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    ck_assert_msg(generate(s, &o, r->prompt, r->n_prompt, &res, &e) == 0, "%s", e.msg);
    session_destroy(s);
}

#endif
