/* The scheduler and grammars: a mask that takes long holds up its own request alone; such a request can be cancelled,
 * drained and expires; one that takes too much ends by a line; grammars are shared by many threads. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/priv.h"
#include "engine/serve/sched.h"
#include "tests/lib/run.h"
#include "tests/unit/sched_guesses.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 256, MAX_TOK = N_CTX };

/* More than a token may take; about a million steps each time, so that it is made on the pool; cheap. */
static const char bomb_text[] = "root ::= (.?){8000}", heavy_text[] = "root ::= ([a-z]? [0-9]?){4000}",
                  light_text[] = "root ::= \"{\" ([a-z]+ \":\" [0-9]+ \",\")* \"}\"";

struct rig {
    char path[32];
    struct engine *eng;
    struct sched *s;
    struct vocab_index *v;
    uint32_t n_vocab;
};

/* The model has no vocabulary: its first tokens are the bytes, its last one ends. */
static enum vocab_kind byte_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char text[4];
    const struct rig *r = user;
    text[0] = (char)(id < 256 ? id : 'a' + id % 26);
    text[1] = (char)('0' + id % 10);
    *bytes = text;
    *n = id < 256 ? 1 : 2;
    return id + 1 == (int32_t)r->n_vocab ? VOCAB_END : VOCAB_TEXT;
}

static struct engine *open_engine(const char *path, const char *tier, uint32_t n_slots)
{
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = N_CTX, .chunk = 32, .n_slots = n_slots, .score_rows = 8,
                             .threads = 2 };
    struct engine *eng;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static void rig_start(struct rig *r, const char *tier, uint32_t n_slots, uint64_t grammar_steps)
{
    struct sched_opts o = { .max_queue = 64, .grammar_steps = grammar_steps, .kv.host_bytes = 8 << 20 };
    struct vocab_source src = { .user = r, .token = byte_token };
    struct err e = { 0 };
    strcpy(r->path, "/tmp/zinc-sched-XXXXXX");
    tiny_model(r->path, "tiny-qwen3");
    r->eng = open_engine(r->path, tier, n_slots);
    src.n_vocab = r->n_vocab = engine_info(r->eng)->n_vocab;
    ck_assert_uint_gt(r->n_vocab, 256);
    ck_assert_msg(vocab_index_create(&src, &r->v, &e) == 0, "%s", e.msg);
    ck_assert_msg(sched_create(r->eng, &o, &r->s, &e) == 0, "%s", e.msg);
}

static void rig_end(struct rig *r)
{
    sched_destroy(r->s);
    vocab_index_destroy(r->v);
    engine_close(r->eng);
    unlink(r->path);
}

static struct grammar *make(const struct rig *r, const char *text)
{
    struct grammar *g;
    struct err e = { 0 };
    ck_assert_msg(grammar_from_gbnf(r->v, text, strlen(text), &g, &e) == 0, "%s", e.msg);
    return g;
}

/* ---- requests ---- */

struct ask {
    struct sched_request r;
    struct sched_job *job;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool awake;
    int32_t tok[MAX_TOK];
    uint32_t n_tok;
    struct sched_out last;
};

static void wake(void *user)
{
    struct ask *a = user;
    pthread_mutex_lock(&a->lock);
    a->awake = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static const int32_t words[] = { 5, 6, 7, 8, 9, 10, 11, 12 };

static void ask_init(struct ask *a, uint32_t n_max, struct grammar *g)
{
    *a = (struct ask){ .r = { .prompt = words, .n_prompt = 8, .n_logprobs = -1, .wake = wake, .user = a, .grammar = g } };
    a->r.gen = (struct gen_opts){ .sampling = sampler_defaults(), .n_max = n_max, .ignore_eos = true };
    a->r.gen.sampling.temp = 0;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->cond, NULL);
}

static void submit(struct rig *r, struct ask *a)
{
    uint32_t retry = 0;
    struct err e = { 0 };
    ck_assert_msg(sched_submit(r->s, &a->r, &a->job, &retry, &e) == 0, "%s", e.msg);
}

static void take(struct ask *a)
{
    sched_take(a->job, &a->last);
    for (uint32_t i = 0; i < a->last.n_tokens && a->n_tok < MAX_TOK; i++)
        a->tok[a->n_tok++] = a->last.tokens[i].id;
}

static void await_tokens(struct ask *a, uint32_t n)
{
    while (a->last.end == SCHED_RUNNING && a->n_tok < n) {
        pthread_mutex_lock(&a->lock);
        while (!a->awake)
            pthread_cond_wait(&a->cond, &a->lock);
        a->awake = false;
        pthread_mutex_unlock(&a->lock);
        take(a);
    }
}

static void await_end(struct ask *a)
{
    await_tokens(a, UINT32_MAX);
    sched_release(a->job);
}

static void await_running(struct rig *r, uint32_t n)
{
    while (sched_stats(r->s).running < n)
        usleep(200);
}

/* ---- one that takes long ---- */

/* Three bombs, and a request that makes its 200 tokens before the last of them is given up. */
START_TEST(a_mask_that_takes_long_holds_up_its_own_request_alone)
{
    enum { BOMBS = 3 };
    struct rig r;
    struct ask bomb[BOMBS], other, cold;
    rig_start(&r, "null", BOMBS + 2, 0);
    struct grammar *g[BOMBS], *light = make(&r, light_text);
    for (int i = 0; i < BOMBS; i++) {
        g[i] = make(&r, bomb_text);
        ask_init(&bomb[i], 100, g[i]);
        bomb[i].r.client = 1;
        submit(&r, &bomb[i]);
    }
    await_running(&r, BOMBS);
    ask_init(&other, 200, NULL);
    ask_init(&cold, 200, light); /* its masks are cold: they do not wait behind the bombs either */
    other.r.client = 2;
    cold.r.client = 3;
    submit(&r, &other);
    submit(&r, &cold);
    await_end(&other);
    await_end(&cold);
    take(&bomb[BOMBS - 1]);
    ck_assert_int_eq(bomb[BOMBS - 1].last.end, SCHED_RUNNING);
    ck_assert_uint_eq(other.n_tok, 200);
    ck_assert_uint_eq(cold.n_tok, 200);
    for (int i = 0; i < BOMBS; i++) {
        await_end(&bomb[i]);
        ck_assert_int_eq(bomb[i].last.end, SCHED_TOO_COSTLY);
        ck_assert_int_eq(bomb[i].last.err.code, -E2BIG);
        ck_assert_ptr_nonnull(strstr(bomb[i].last.err.msg, "for one token"));
        grammar_unref(g[i]);
    }
    grammar_unref(light);
    rig_end(&r);
}
END_TEST

/* The slot is free again at once, and so is the thread: what needs both comes to its end. */
START_TEST(a_bomb_can_be_cancelled_and_expires)
{
    struct rig r;
    struct ask bomb, late, next;
    rig_start(&r, "null", 1, 0);
    struct grammar *g = make(&r, bomb_text), *heavy = make(&r, heavy_text);
    ask_init(&bomb, 100, g);
    submit(&r, &bomb);
    await_running(&r, 1);
    sched_cancel(bomb.job);
    await_end(&bomb);
    ck_assert_int_eq(bomb.last.end, SCHED_CANCELLED);
    ask_init(&late, 100, g);
    late.r.deadline_ns = clock_ns() + 5000000;
    submit(&r, &late);
    await_end(&late);
    ck_assert_int_eq(late.last.end, SCHED_EXPIRED);
    ask_init(&next, 10, heavy);
    submit(&r, &next);
    await_end(&next);
    ck_assert_int_eq(next.last.end, SCHED_OK);
    ck_assert_uint_eq(next.n_tok, 10);
    grammar_unref(g);
    grammar_unref(heavy);
    rig_end(&r);
}
END_TEST

START_TEST(draining_does_not_wait_for_a_bomb)
{
    struct rig r;
    struct ask bomb[2];
    rig_start(&r, "null", 2, 0);
    struct grammar *g = make(&r, bomb_text); /* the second one waits for the grammar of the first */
    for (int i = 0; i < 2; i++) {
        ask_init(&bomb[i], 100, g);
        submit(&r, &bomb[i]);
    }
    await_running(&r, 2);
    ck_assert_uint_eq(sched_drain(r.s, 1000000), 2);
    for (int i = 0; i < 2; i++) {
        await_end(&bomb[i]);
        ck_assert_int_eq(bomb[i].last.end, SCHED_SHUTDOWN);
    }
    grammar_unref(g); /* a thread may still be between two slices */
    rig_end(&r);
}
END_TEST

/* Each token is within its limit, all of them together are not. */
START_TEST(an_answer_has_a_limit_of_its_own)
{
    struct rig r;
    struct ask a;
    rig_start(&r, "null", 1, 5000000);
    struct grammar *g = make(&r, heavy_text);
    ask_init(&a, 200, g);
    submit(&r, &a);
    await_end(&a);
    ck_assert_int_eq(a.last.end, SCHED_TOO_COSTLY);
    ck_assert_ptr_nonnull(strstr(a.last.err.msg, "more than 5000000 steps for this answer"));
    ck_assert_uint_gt(a.n_tok, 0);
    ck_assert_uint_lt(a.n_tok, 100);
    grammar_unref(g);
    rig_end(&r);
}
END_TEST

/* A grammar that is at its end where the end may not be chosen, and one that begins with what may not. */
START_TEST(what_may_not_be_chosen_ends_the_answer_or_is_told)
{
    struct rig r;
    struct ask a;
    rig_start(&r, "null", 1, 0);
    struct grammar *g = make(&r, "root ::= \"ab\" [c-e]");
    struct logit_bias bias[] = { { (int32_t)r.n_vocab - 1, -INFINITY } }, first[] = { { 'a', -INFINITY } };
    ask_init(&a, 100, g);
    a.r.gen.sampling.bias = bias;
    a.r.gen.sampling.n_bias = 1;
    submit(&r, &a);
    await_end(&a);
    ck_assert_msg(a.last.end == SCHED_OK, "%s", a.last.err.msg);
    ck_assert_int_eq(a.last.result.reason, GEN_EOG);
    ck_assert_uint_eq(a.n_tok, 3);
    ask_init(&a, 100, g);
    a.r.gen.sampling.bias = first;
    a.r.gen.sampling.n_bias = 1;
    submit(&r, &a);
    await_end(&a);
    ck_assert_int_eq(a.last.end, SCHED_TOO_COSTLY);
    ck_assert_int_eq(a.last.err.code, -ENODATA);
    grammar_unref(g);
    rig_end(&r);
}
END_TEST

/* ---- the same tokens ---- */

struct alone {
    int32_t tok[MAX_TOK];
    uint32_t n;
};

static int note_token(void *user, int32_t id, const float *logits)
{
    struct alone *a = user;
    if (a->n < MAX_TOK)
        a->tok[a->n++] = id;
    return 0;
}

static void generate_alone(struct engine *eng, const struct sched_request *r, struct grammar *g, struct alone *a)
{
    struct session *s;
    struct gen_result res;
    struct err e = { 0 };
    struct gen_opts o = r->gen;
    o.on_token = note_token;
    o.user = a;
    o.grammar = g;
    a->n = 0;
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    ck_assert_msg(generate(s, &o, r->prompt, r->n_prompt, &res, &e) == 0, "%s", e.msg);
    session_destroy(s);
}

/* Whatever the machine is busy with: a row more costs little. The scheduler's thread calls it between two steps. */
static struct engine *costs_of;

static void wake_and_set_costs(void *user)
{
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++)
        costs_of->few.ns[i] = 1e6 * (1 + 0.02 * (i - 1));
    wake(user);
}

/* Masks from the pool, masks from the round, a cache that others renew, guesses: nothing of it changes the tokens. */
START_TEST(a_constrained_request_generates_what_it_generates_alone)
{
    enum { N = 9 };
    static const char *const text[] = { heavy_text, light_text, "root ::= ([a-f]? [0-9]? [g-z]?){2500}" };
    struct rig r;
    static struct ask ask[N];
    static struct alone alone[N];
    static int32_t predicted[N][MAX_TOK];
    struct grammar *g[3];
    uint32_t guessed = 0, right = 0;
    rig_start(&r, "cpu", 4, 0);
    struct engine *one = open_engine(r.path, "cpu", 1);
    costs_of = r.eng;
    for (uint32_t i = 0; i < N; i++) {
        struct grammar *own = make(&r, text[i % 3]);
        ask_init(&ask[i], 12 + i, NULL);
        ask[i].r.client = i % 4;
        ask[i].r.gen.sampling.temp = i % 2 ? 1.0f : 0.0f;
        ask[i].r.gen.sampling.seed = i;
        ask[i].r.wake = wake_and_set_costs;
        ask[i].r.tell_start = true;
        generate_alone(one, &ask[i].r, own, &alone[i]);
        grammar_unref(own);
        if (i % 4)
            guess_like(&ask[i].r, alone[i].tok, alone[i].n, predicted[i]);
    }
    for (int i = 0; i < 3; i++)
        g[i] = make(&r, text[i]);
    for (uint32_t i = 0; i < N; i++) {
        ask[i].r.grammar = g[i % 3];
        submit(&r, &ask[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        await_end(&ask[i]);
        ck_assert_msg(ask[i].last.end == SCHED_OK, "%s", ask[i].last.err.msg);
        ck_assert_uint_eq(alone[i].n, ask[i].n_tok);
        ck_assert_mem_eq(alone[i].tok, ask[i].tok, alone[i].n * sizeof *alone[i].tok);
        guessed += ask[i].last.result.n_guessed;
        right += ask[i].last.result.n_right;
    }
    ck_assert_uint_gt(right, 0);
    ck_assert_uint_lt(right, guessed);
    for (int i = 0; i < 3; i++)
        grammar_unref(g[i]);
    engine_close(one);
    rig_end(&r);
}
END_TEST

/* Where the grammar leaves no choice, no guess is wrong: what it does not allow is not tried. */
START_TEST(no_guess_goes_beyond_the_grammar)
{
    struct rig r;
    static struct alone x;
    static struct ask a;
    static int32_t predicted[MAX_TOK];
    rig_start(&r, "cpu", 1, 0);
    struct grammar *g = make(&r, "root ::= (\"a\" \"b\" \"c\" \"d\" \"e\"){40}");
    struct engine *one = open_engine(r.path, "cpu", 1);
    costs_of = r.eng;
    ask_init(&a, 100, g);
    a.r.wake = wake_and_set_costs;
    a.r.tell_start = true;
    generate_alone(one, &a.r, g, &x);
    ck_assert_uint_eq(x.n, 100);
    guess_like(&a.r, x.tok, x.n, predicted);
    submit(&r, &a);
    await_end(&a);
    ck_assert_uint_eq(a.n_tok, x.n);
    ck_assert_mem_eq(a.tok, x.tok, x.n * sizeof *x.tok);
    ck_assert_uint_gt(a.last.result.n_guessed, 20);
    ck_assert_uint_eq(a.last.result.n_guessed, a.last.result.n_right);
    grammar_unref(g);
    engine_close(one);
    rig_end(&r);
}
END_TEST

/* ---- many threads, one grammar ---- */

struct crowd {
    struct rig *r;
    struct grammar *g[3];
    uint32_t n_grammars, n_requests, n_most; /* of tokens */
    unsigned seed;
};

static void *one_of_many(void *user)
{
    struct crowd *c = user;
    for (uint32_t i = 0; i < c->n_requests; i++) {
        struct ask a;
        uint32_t retry;
        struct grammar *g = c->g[(uint32_t)rand_r(&c->seed) % c->n_grammars];
        grammar_ref(g);
        ask_init(&a, 1 + (uint32_t)rand_r(&c->seed) % c->n_most, g);
        a.r.client = c->seed % 7;
        if (rand_r(&c->seed) % 8 == 0)
            a.r.deadline_ns = clock_ns() + 1000 * (uint64_t)(rand_r(&c->seed) % 1000);
        int rc = sched_submit(c->r->s, &a.r, &a.job, &retry, NULL);
        grammar_unref(g);
        if (rc)
            continue;
        int what = rand_r(&c->seed) % 4;
        if (what == 0) {
            usleep((unsigned)rand_r(&c->seed) % 300);
            sched_release(a.job); /* without a word: it is cancelled */
        } else {
            await_tokens(&a, what == 1 ? 2 : UINT32_MAX);
            if (what == 1)
                sched_cancel(a.job);
            await_end(&a);
        }
        pthread_mutex_destroy(&a.lock);
        pthread_cond_destroy(&a.cond);
    }
    return NULL;
}

static void crowd(uint32_t n_grammars, uint32_t n_requests, uint32_t n_most)
{
    enum { N = 6 };
    struct rig r;
    struct crowd c[N];
    pthread_t t[N];
    rig_start(&r, "null", 4, 0);
    struct grammar *g[3] = { make(&r, light_text), make(&r, "root ::= ([a-z]? [0-9]?){400}"), make(&r, heavy_text) };
    for (unsigned i = 0; i < N; i++) {
        c[i] = (struct crowd){ &r, { g[0], g[1], g[2] }, n_grammars, n_requests, n_most, i + 1 };
        ck_assert_int_eq(pthread_create(&t[i], NULL, one_of_many, &c[i]), 0);
    }
    for (int i = 0; i < N; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_gt(grammar_bytes(g[i]), 0);
        grammar_unref(g[i]);
    }
    sched_drain(r.s, 300000000000u);
    ck_assert_uint_eq(sched_stats(r.s).failed, 0);
    rig_end(&r);
}

START_TEST(many_threads_share_a_grammar)
{
    crowd(1, 800, 2);
}
END_TEST

START_TEST(many_threads_share_grammars_that_take_long)
{
    crowd(3, 30, 30);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("sched_grammar", a_mask_that_takes_long_holds_up_its_own_request_alone,
                     a_bomb_can_be_cancelled_and_expires, draining_does_not_wait_for_a_bomb,
                     an_answer_has_a_limit_of_its_own, what_may_not_be_chosen_ends_the_answer_or_is_told,
                     a_constrained_request_generates_what_it_generates_alone, no_guess_goes_beyond_the_grammar,
                     many_threads_share_a_grammar,
                     many_threads_share_grammars_that_take_long);
}
