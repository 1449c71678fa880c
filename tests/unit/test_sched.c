/* The scheduler: what a request generates is what it generates alone, whatever runs beside it; ends of every kind; turns;
 * takers that are slow; many threads. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "tests/lib/run.h"
#include "tests/lib/skip.h"
#include "tests/unit/sched_ask.h"
#include "tests/unit/sched_guesses.h"

static void random_prompt(int32_t *tok, uint32_t n, unsigned *seed, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)((uint32_t)rand_r(seed) % n_vocab);
}

/* ---- company ---- */

/* Returns how many steps were submitted before the tokens of the one before were known; *right: how many guesses were right. */
static uint64_t company(const char *preset, const char *tier, int n_asks, uint32_t n_most, unsigned seed, uint32_t *right)
{
    enum { N = 28 };
    char path[] = "/tmp/zinc-sched-XXXXXX";
    static struct ask ask[N];
    static struct alone alone[N];
    static int32_t prompt[N][N_CTX], predicted[N][MAX_TOK];
    *right = 0;
    tiny_model(path, preset);
    struct engine *eng = open_engine(path, tier, 5), *one = open_engine(path, tier, 1);
    struct sched *s = start(eng, N, 0);
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    for (int i = 0; i < n_asks; i++) {
        uint32_t n = 1 + (uint32_t)rand_r(&seed) % n_most, shared = i ? (uint32_t)rand_r(&seed) % n : 0;
        random_prompt(prompt[i], n, &seed, n_vocab);
        if (i % 3)
            memcpy(prompt[i], prompt[rand_r(&seed) % i], shared * sizeof(int32_t));
        ask_init(&ask[i], prompt[i], n, 1 + (uint32_t)rand_r(&seed) % (n_most / 3));
        ask[i].r.client = (uint64_t)i % 4;
        ask[i].r.gen.sampling.temp = i % 2 ? 0.0f : 1.0f;
        ask[i].r.gen.sampling.seed = (uint32_t)i;
        ask[i].r.gen.sampling.rng = i % 4 ? SAMPLER_RNG_COUNTER : SAMPLER_RNG_MT19937;
        ask[i].r.gen.sampling.repeat_penalty = i % 8 ? 1.0f : 1.3f;
        ask[i].r.gen.ignore_eos = i % 3;
        ask[i].r.n_logprobs = i % 7 < 2 ? i % 5 : -1;
        generate_alone(one, &ask[i].r, &alone[i]);
        if (i % 5)
            guess_like(&ask[i].r, alone[i].tok, alone[i].n, predicted[i]);
    }
    for (int i = 0; i < n_asks; i++)
        submit(s, &ask[i]);
    for (int i = 0; i < n_asks; i++) {
        const struct alone *a = &alone[i];
        await_end(&ask[i]);
        ck_assert_int_eq(ask[i].last.end, SCHED_OK);
        ck_assert_msg(a->n == ask[i].n_tok && memcmp(a->tok, ask[i].tok, a->n * sizeof *a->tok) == 0,
                      "%s on %s: request %d: %u tokens beside others, %u alone", preset, tier, i, ask[i].n_tok, a->n);
        ck_assert_uint_le(ask[i].last.result.n_right, ask[i].last.result.n_guessed);
        ck_assert_msg(a->told == ask[i].told, "%s on %s: request %d: other probabilities than alone", preset, tier, i);
        *right += ask[i].last.result.n_right;
    }
    uint64_t ahead = sched_stats(s).ahead;
    sched_destroy(s);
    engine_close(eng);
    engine_close(one);
    unlink(path);
    return ahead;
}

#if defined(__SANITIZE_THREAD__) /* very slow; and what a layer is made of, or a work-group on the host, is nothing to threads */
enum { LONGEST = 30, REQUESTS = 10, KINDS_OF_LAYERS = 2 };
#elif defined(__SANITIZE_ADDRESS__)
enum { LONGEST = 60, REQUESTS = 28, KINDS_OF_LAYERS = 4 };
#else
enum { LONGEST = 120, REQUESTS = 28, KINDS_OF_LAYERS = 4 };
#endif

#define COMPANY(name, preset, seed)                                                                                    \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        uint32_t right = 0;                                                                                            \
        if (seed > KINDS_OF_LAYERS)                                                                                    \
            cases_skipped(1, "%s: the other builds'", preset);                                                         \
        else                                                                                                           \
            company(preset, "cpu", REQUESTS, LONGEST, seed, &right);                                                   \
        ck_assert_int_eq(right > 0, seed <= KINDS_OF_LAYERS && strcmp(preset, "tiny-qwen35moe") != 0); /* whose state cannot go back */ \
    }                                                                                                                  \
    END_TEST
COMPANY(a_request_generates_what_it_generates_alone, "tiny-qwen3", 1)
COMPANY(so_it_does_with_recurrent_layers, "tiny-qwen35moe", 2)
COMPANY(so_it_does_with_sliding_windows, "tiny-gemma3", 3)
COMPANY(so_it_does_with_sinks, "tiny-gpt-oss", 4)

/* Decode and prompts apart, as on every tier of compiled kernels. */
START_TEST(so_it_does_where_prompts_have_a_stream_of_their_own)
{
    uint32_t right;
    company("tiny-qwen3", "lockstep", WITH_LOCKSTEP ? 4 : 2, WITH_LOCKSTEP ? 36 : 18, 7, &right);
}
END_TEST

/* Tokens that the host has not seen are evaluated; on the null tier they follow from the whole sequence (ZINC_NULL_HISTORY). */
START_TEST(so_it_does_with_steps_in_flight)
{
    uint32_t right;
    ck_assert_uint_gt(company("tiny-qwen3", "null", 28, LONGEST, 8, &right), 0);
    ck_assert_uint_gt(right, 0);
    company("tiny-qwen35moe", "null", 28, LONGEST, 9, &right);
}
END_TEST

/* ---- ends ---- */

/* Suppressed tokens: a device does not know of them, so what it chose may have to be chosen again, from its logits. A bias
 * of 0 changes nothing, but makes the host choose every token. */
static void suppress(const char *tier)
{
    struct rig r = rig(tier, 3, 4, 0);
    struct engine *one = open_engine(r.path, tier, 1);
    static struct alone free_of, by_host, by_device;
    static struct ask ask[3];
    for (int i = 0; i < 3; i++) {
        ask_init(&ask[i], words + i, 5, 12);
        ask[i].r.gen.sampling.temp = 0;
        ask[i].r.gen.ignore_eos = true;
        generate_alone(one, &ask[i].r, &free_of);
        ck_assert_uint_eq(free_of.n, 12);
        struct logit_bias bias[3] = { { free_of.tok[0], -INFINITY }, { free_of.tok[5], -INFINITY }, { 1, 0.0f } };
        ask[i].r.gen.sampling.bias = bias;
        ask[i].r.gen.sampling.n_bias = 3;
        generate_alone(one, &ask[i].r, &by_host);
        ask[i].r.gen.sampling.n_bias = 2;
        generate_alone(one, &ask[i].r, &by_device);
        ck_assert_int_ne(by_host.tok[0], free_of.tok[0]);
        ck_assert_mem_eq(by_host.tok, by_device.tok, sizeof by_host.tok[0] * 12);
        submit(r.s, &ask[i]);
        await_end(&ask[i]);
        ck_assert_uint_eq(ask[i].n_tok, 12);
        ck_assert_mem_eq(by_host.tok, ask[i].tok, sizeof by_host.tok[0] * 12);
    }
    ck_assert_int_eq(sched_stats(r.s).ahead > 0, strcmp(tier, "cpu") != 0);
    while (sched_stats(r.s).generated_tokens < 3 * 12) /* a step is counted behind its tokens */
        usleep(1000);
    ck_assert_uint_eq(sched_stats(r.s).generated_tokens, 3 * 12);
    engine_close(one);
    rig_end(&r);
}

START_TEST(suppressed_tokens_are_never_chosen)
{
    suppress("cpu");
    if (WITH_LOCKSTEP)
        suppress("lockstep");
    suppress("null"); /* with steps in flight: what was evaluated in vain is taken back */
}
END_TEST

/* What was evaluated of an answer, its end included, is there for a prompt that goes on from it. */
static void go_on_after_an_answer(const char *preset, unsigned seed)
{
    enum { N = 20, MORE = 10 };
    char path[] = "/tmp/zinc-sched-XXXXXX";
    static struct ask ask[3];
    static struct alone alone;
    int32_t tok[N_CTX];
    uint32_t n = N;
    tiny_model(path, preset);
    struct engine *eng = open_engine(path, "null", 2), *one = open_engine(path, "null", 1);
    struct sched *s = start(eng, 4, 0);
    random_prompt(tok, N, &seed, engine_info(eng)->n_vocab);
    for (int i = 0; i < 3; i++) {
        ask_init(&ask[i], tok, n, 30);
        ask[i].r.gen.ignore_eos = false;
        submit(s, &ask[i]);
        await_end(&ask[i]);
        generate_alone(one, &ask[i].r, &alone);
        ck_assert_uint_eq(alone.n, ask[i].n_tok);
        ck_assert_mem_eq(alone.tok, ask[i].tok, alone.n * sizeof *alone.tok);
        ck_assert_uint_ge(ask[i].last.n_reused, i ? n - MORE - 1 : 0);
        memcpy(tok + n, ask[i].tok, ask[i].n_tok * sizeof *tok);
        n += ask[i].n_tok;
        random_prompt(tok + n, MORE, &seed, engine_info(eng)->n_vocab);
        n += MORE;
    }
    ck_assert_uint_gt(sched_stats(s).ahead, 20);
    sched_destroy(s);
    engine_close(eng);
    engine_close(one);
    unlink(path);
}

START_TEST(an_answer_is_there_for_what_goes_on_from_it)
{
    go_on_after_an_answer("tiny-qwen3", 3);
    go_on_after_an_answer("tiny-qwen35moe", 4);
}
END_TEST

START_TEST(cancelled_and_expired_requests_keep_what_they_made)
{
    struct rig r = rig("cpu", 1, 4, 0);
    struct ask a, b, c;
    ask_init(&a, words, 8, 200);
    ask_init(&b, words, 8, 200);
    ask_init(&c, words, 8, 200);
    b.r.deadline_ns = clock_ns() + 20000000; /* passes while it waits for the slot */
    submit(r.s, &a);
    submit(r.s, &b);
    submit(r.s, &c);
    await_tokens(&a, 3);
    await_end(&b);
    ck_assert_int_eq(b.last.end, SCHED_EXPIRED);
    ck_assert_int_eq(b.last.err.code, -ETIME);
    ck_assert_uint_eq(b.n_tok, 0);
    sched_cancel(a.job);
    await_end(&a);
    ck_assert_msg(a.last.end == SCHED_CANCELLED || a.last.end == SCHED_OK, "end %d", a.last.end);
    ck_assert_uint_ge(a.n_tok, 3);
    await_tokens(&c, 1);
    sched_cancel(c.job);
    await_end(&c);
    struct sched_stats st = sched_stats(r.s);
    ck_assert_uint_eq(st.requests, 3);
    ck_assert_uint_eq(st.expired, 1);
    ck_assert_uint_eq(st.finished + st.cancelled, 2);
    rig_end(&r);
}
END_TEST

START_TEST(a_running_request_ends_at_its_deadline)
{
    struct rig r = rig("null", 1, 4, 64);
    struct ask a;
    ask_init(&a, words, 8, 0);
    a.r.gen.n_max = 240;
    a.r.deadline_ns = clock_ns() + 50000000;
    submit(r.s, &a); /* nobody takes: it is paused, and the deadline must still come */
    uint64_t t0 = clock_ns();
    while (sched_stats(r.s).expired == 0 && clock_ns() - t0 < 300000000000u)
        usleep(1000);
    ck_assert_uint_eq(sched_stats(r.s).expired, 1);
    await_end(&a);
    ck_assert_int_eq(a.last.end, SCHED_EXPIRED);
    rig_end(&r);
}
END_TEST

/* As `wake`, and the scheduler goes on when the first one was seen. */
static bool start_seen;

static void wake_and_wait(void *user)
{
    struct ask *a = user;
    wake(user);
    pthread_mutex_lock(&a->lock);
    while (!start_seen)
        pthread_cond_wait(&a->cond, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

START_TEST(who_asks_is_told_that_it_starts)
{
    struct rig r = rig("null", 1, 4, 64);
    struct ask a, quiet;
    start_seen = false;
    ask_init(&a, words, 8, 3);
    a.r.tell_start = true;
    a.r.wake = wake_and_wait;
    submit(r.s, &a);
    sleep_until_woken(&a);
    take(&a);
    ck_assert(a.last.started);
    ck_assert_int_eq(a.last.end, SCHED_RUNNING);
    ck_assert_uint_eq(a.last.n_tokens, 0);
    ck_assert_uint_eq(a.last.n_evaluated, 0);
    pthread_mutex_lock(&a.lock);
    start_seen = true;
    pthread_cond_signal(&a.cond);
    pthread_mutex_unlock(&a.lock);
    await_end(&a);
    ck_assert_uint_eq(a.last.n_evaluated, 8);
    ck_assert_uint_eq(a.n_tok, 3);
    ask_init(&quiet, words, 8, 3);
    submit(r.s, &quiet);
    sleep_until_woken(&quiet);
    take(&quiet);
    ck_assert_uint_gt(quiet.n_tok, 0); /* woken by what it made alone */
    await_end(&quiet);
    rig_end(&r);
}
END_TEST

/* Before the scheduler has looked at any of them: those who get a slot know it, the next one does not. */
START_TEST(who_finds_a_free_slot_knows_at_once)
{
    struct rig r = rig("null", 2, 4, 64);
    struct ask a[4];
    for (int i = 0; i < 3; i++) {
        ask_init(&a[i], words, 8, 200); /* nobody takes, so nobody ends */
        submit(r.s, &a[i]);
        sched_take(a[i].job, &a[i].last);
        ck_assert_int_eq(a[i].last.sure, i < 2);
        a[i].n_tok = a[i].last.n_tokens;
    }
    for (int i = 0; i < 3; i++)
        await_end(&a[i]);
    ask_init(&a[3], words, 8, 4); /* when those have gone, a slot is free again */
    submit(r.s, &a[3]);
    take(&a[3]);
    ck_assert(a[3].last.sure);
    await_end(&a[3]);
    rig_end(&r);
}
END_TEST

START_TEST(a_full_queue_refuses_and_says_when_to_come_again)
{
    struct rig r = rig("null", 1, 2, 64);
    struct ask a[3], more;
    for (int i = 0; i < 3; i++) {
        ask_init(&a[i], words, 8, 200); /* the first one holds the slot, paused: nobody takes */
        submit(r.s, &a[i]);
        while (i == 0 && sched_stats(r.s).running == 0)
            usleep(1000);
    }
    ask_init(&more, words, 8, 4);
    uint32_t retry = 0;
    struct err e = { 0 };
    ck_assert_int_eq(sched_submit(r.s, &more.r, &more.job, &retry, &e), -EBUSY);
    ck_assert_uint_ge(retry, 1);
    ck_assert_ptr_nonnull(strstr(e.msg, "come again"));
    ck_assert_uint_eq(sched_stats(r.s).refused, 1);
    for (int i = 0; i < 3; i++)
        await_end(&a[i]);
    rig_end(&r);
}
END_TEST

START_TEST(requests_that_cannot_be_are_refused)
{
    struct rig r = rig("null", 1, 2, 0);
    struct ask a;
    uint32_t retry;
    struct err e = { 0 };
    static int32_t many[N_CTX + 1];
    static const int32_t wrong[] = { 5, 1 << 20 };
    ask_init(&a, many, N_CTX + 1, 4);
    ck_assert_int_eq(sched_submit(r.s, &a.r, &a.job, &retry, &e), -E2BIG);
    ask_init(&a, wrong, 2, 4);
    ck_assert_int_eq(sched_submit(r.s, &a.r, &a.job, &retry, &e), -EINVAL);
    ask_init(&a, words, 0, 4);
    ck_assert_int_eq(sched_submit(r.s, &a.r, &a.job, &retry, &e), -EINVAL);
    ask_init(&a, words, 8, 4);
    a.r.gen.sampling.min_p = 7;
    ck_assert_int_eq(sched_submit(r.s, &a.r, &a.job, &retry, &e), -EINVAL);
    rig_end(&r);
}
END_TEST

START_TEST(the_context_ends_a_request)
{
    struct rig r = rig("null", 2, 2, 0);
    struct ask a;
    static int32_t full[N_CTX];
    ask_init(&a, full, N_CTX, 4); /* exactly full: one token can still be chosen */
    submit(r.s, &a);
    await_end(&a);
    ck_assert_int_eq(a.last.end, SCHED_OK);
    ck_assert_int_eq(a.last.result.reason, GEN_CONTEXT);
    ck_assert_uint_eq(a.n_tok, 1);
    rig_end(&r);
}
END_TEST

/* ---- turns ---- */

START_TEST(clients_take_turns)
{
    enum { N = 9 };
    struct rig r = rig("cpu", 1, N, 0);
    static struct ask a[N];
    for (int i = 0; i < N; i++) { /* client 1 comes first, with 8 requests; then client 2 with one */
        ask_init(&a[i], words, 8, 10);
        a[i].r.client = i == N - 1 ? 2 : 1;
        submit(r.s, &a[i]);
    }
    for (int i = 0; i < N; i++)
        await_end(&a[i]);
    ck_assert_uint_lt(a[N - 1].turn, a[3].turn);
    for (int i = 1; i + 1 < N; i++)
        ck_assert_uint_gt(a[i].turn, a[i - 1].turn);
    rig_end(&r);
}
END_TEST

/* Waits until nobody waits but those who should. */
static void until_waiting(struct sched *s, uint32_t running, uint32_t waiting)
{
    for (int i = 0; i < 600000; i++, usleep(500)) {
        struct sched_stats st = sched_stats(s);
        if (st.running == running && st.waiting == waiting)
            return;
    }
    ck_abort_msg("waited in vain for %u running and %u waiting", running, waiting);
}

/* One client has the slot and all of the queue: a newcomer's request is taken all the same, for the greedy one's
 * youngest, as long as that one has more. */
START_TEST(a_full_queue_makes_room_for_who_has_less)
{
    struct rig r = rig("null", 1, 2, 64);
    struct ask a[3], b[2], c;
    uint32_t retry = 0;
    for (int i = 0; i < 3; i++) {
        ask_init(&a[i], words, 8, 200); /* the first one holds the slot, paused: nobody takes */
        a[i].r.client = 1;
        submit(r.s, &a[i]);
        until_waiting(r.s, 1, (uint32_t)i);
    }
    for (int i = 0; i < 2; i++) {
        ask_init(&b[i], words, 8, 4);
        b[i].r.client = 2;
    }
    ask_init(&c, words, 8, 4);
    c.r.client = 3;
    submit(r.s, &b[0]);
    await_end(&a[2]);
    ck_assert_int_eq(a[2].last.end, SCHED_REFUSED);
    ck_assert_int_eq(a[2].last.err.code, -EBUSY);
    ck_assert_uint_ge(a[2].last.retry_s, 1);
    ck_assert_uint_eq(a[2].n_tok, 0);
    ck_assert_int_eq(sched_submit(r.s, &a[2].r, &a[2].job, &retry, NULL), -EBUSY); /* has the most itself       */
    ck_assert_int_eq(sched_submit(r.s, &b[1].r, &b[1].job, &retry, NULL), -EBUSY); /* would have as much as 1   */
    submit(r.s, &c);
    await_end(&a[1]);
    ck_assert_int_eq(a[1].last.end, SCHED_REFUSED);
    struct sched_stats st = sched_stats(r.s);
    ck_assert_uint_eq(st.refused, 4);
    ck_assert_uint_eq(st.waiting, 2);
    await_end(&a[0]);
    await_end(&b[0]);
    await_end(&c);
    ck_assert(a[0].last.end == SCHED_OK && b[0].last.end == SCHED_OK && c.last.end == SCHED_OK);
    rig_end(&r);
}
END_TEST

struct greedy {
    struct sched *s;
    atomic_bool stop;
    atomic_uint refused, served;
};

/* A worker that comes again at once whenever it is refused. */
static void *come_again(void *user)
{
    struct greedy *g = user;
    while (!atomic_load(&g->stop)) {
        struct ask a;
        uint32_t retry;
        ask_init(&a, words, 8, 20);
        a.r.client = 1;
        if (sched_submit(g->s, &a.r, &a.job, &retry, NULL)) {
            atomic_fetch_add(&g->refused, 1);
            sched_yield();
            continue;
        }
        await_end(&a);
        atomic_fetch_add(a.last.end == SCHED_OK ? &g->served : &g->refused, 1);
    }
    return NULL;
}

START_TEST(a_client_that_ignores_refusals_keeps_nobody_out)
{
    enum { WORKERS = 24, N = 40 };
    for (uint32_t queue = 1; queue <= 4; queue += 3) {
        struct rig r = rig("null", 2, queue, 0);
        struct greedy g = { .s = r.s };
        pthread_t t[WORKERS];
        for (int i = 0; i < WORKERS; i++)
            ck_assert_int_eq(pthread_create(&t[i], NULL, come_again, &g), 0);
        while (!atomic_load(&g.refused)) /* until the queue is full */
            usleep(100);
        for (int i = 0; i < N; i++) {
            struct ask a;
            ask_init(&a, words, 8, 4);
            a.r.client = 2;
            submit(r.s, &a); /* is never refused */
            await_end(&a);
            ck_assert_int_eq(a.last.end, SCHED_OK);
        }
        atomic_store(&g.stop, true);
        for (int i = 0; i < WORKERS; i++)
            pthread_join(t[i], NULL);
        ck_assert_uint_gt(g.served, 0); /* nor is the other one punished */
        rig_end(&r);
    }
}
END_TEST

/* ---- rows of a step ---- */

/* Comes while all others run, from the scheduler's own thread, so that rounds can be counted. */
struct latecomer {
    struct sched *s;
    struct ask first, late;
    atomic_bool now, came;
    uint64_t at, begun; /* rounds when it came and when it had a token */
};

static void wake_latecomer(void *user)
{
    struct latecomer *l = user;
    if (!l->begun)
        l->begun = sched_stats(l->s).rounds;
    wake(&l->late);
}

static void wake_first(void *user)
{
    struct latecomer *l = user;
    if (atomic_load(&l->now) && !atomic_load(&l->came)) {
        l->at = sched_stats(l->s).rounds;
        submit(l->s, &l->late);
        atomic_store(&l->came, true);
    }
    wake(&l->first);
}

/* As many run as a step has rows: prompts get rows all the same. */
START_TEST(prompts_do_not_starve_beside_as_many_as_a_step_has_rows)
{
    enum { ROWS = 16, N_PROMPT = 160, LONG = 1024 };
    char path[] = "/tmp/zinc-sched-XXXXXX";
    static struct ask a[ROWS];
    static struct latecomer l;
    static int32_t prompt[N_PROMPT];
    struct engine_opts o = { .tier = "cpu", .n_ctx = LONG, .chunk = ROWS, .n_slots = ROWS + 1, .score_rows = ROWS + 1,
                             .threads = 2 };
    struct err e = { 0 };
    struct engine *eng;
    unsigned seed = 5;
    tiny_model(path, "tiny-qwen3");
    o.path = path;
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    random_prompt(prompt, N_PROMPT, &seed, engine_info(eng)->n_vocab);
    l.s = start(eng, 4, 0);
    ask_init(&l.late, prompt, N_PROMPT, 1);
    l.late.r.wake = wake_latecomer;
    ask_init(&l.first, words, 8, LONG - 16);
    l.first.r.wake = wake_first;
    l.late.r.user = l.first.r.user = &l;
    submit(l.s, &l.first);
    for (int i = 1; i < ROWS; i++) {
        ask_init(&a[i], words, 8, LONG - 16);
        submit(l.s, &a[i]);
    }
    for (int i = 1; i < ROWS; i++)
        await_tokens(&a[i], 1);
    atomic_store(&l.now, true);
    take(&l.first); /* its next token wakes it */
    while (!atomic_load(&l.came))
        usleep(100);
    await_end(&l.late);
    ck_assert_int_eq(l.late.last.end, SCHED_OK);
    ck_assert_msg(l.begun - l.at <= N_PROMPT / ROWS + 3, "%u tokens took %llu rounds", N_PROMPT,
                  (unsigned long long)(l.begun - l.at));
    sched_release(l.first.job);
    for (int i = 1; i < ROWS; i++)
        sched_release(a[i].job);
    sched_destroy(l.s);
    engine_close(eng);
    unlink(path);
}
END_TEST

/* A prompt is evaluated in chunks, and between two of them the running request gets a token. */
START_TEST(a_long_prompt_does_not_stop_the_others)
{
    struct rig r = rig("cpu", 2, 4, 0);
    static int32_t prompt[N_CTX - 8];
    struct ask a, b;
    unsigned seed = 3;
    random_prompt(prompt, ARRAY_LEN(prompt), &seed, engine_info(r.eng)->n_vocab);
    ask_init(&a, words, 8, 200);
    ask_init(&b, prompt, ARRAY_LEN(prompt), 1);
    submit(r.s, &a);
    await_tokens(&a, 2);
    uint32_t before = a.n_tok;
    submit(r.s, &b);
    await_end(&b);
    take(&a);
    ck_assert_uint_ge(a.n_tok + 1, before + ARRAY_LEN(prompt) / CHUNK);
    sched_cancel(a.job);
    await_end(&a);
    rig_end(&r);
}
END_TEST

START_TEST(a_slow_taker_is_waited_for_and_loses_nothing)
{
    struct rig r = rig("null", 2, 4, 64);
    struct ask slow, quick;
    ask_init(&slow, words, 8, 200);
    ask_init(&quick, words, 8, 200);
    submit(r.s, &slow);
    submit(r.s, &quick);
    await_end(&quick);
    ck_assert_uint_eq(quick.n_tok, 200);
    take(&slow); /* what fitted */
    ck_assert_uint_lt(slow.n_tok, 100);
    await_end(&slow);
    ck_assert_uint_eq(slow.n_tok, 200);
    ck_assert_mem_eq(slow.tok, quick.tok, sizeof(int32_t) * 200);
    rig_end(&r);
}
END_TEST

START_TEST(draining_ends_what_runs_and_refuses_what_comes)
{
    struct rig r = rig("null", 1, 4, 64);
    struct ask a, b, late;
    ask_init(&a, words, 8, 200);
    ask_init(&b, words, 8, 200);
    submit(r.s, &a);
    submit(r.s, &b);
    ck_assert_uint_eq(sched_drain(r.s, 20000000), 2);
    await_end(&a);
    await_end(&b);
    ck_assert_int_eq(a.last.end, SCHED_SHUTDOWN);
    ck_assert_int_eq(b.last.end, SCHED_SHUTDOWN);
    uint32_t retry;
    struct err e = { 0 };
    ask_init(&late, words, 8, 4);
    ck_assert_int_eq(sched_submit(r.s, &late.r, &late.job, &retry, &e), -ESHUTDOWN);
    rig_end(&r);
}
END_TEST

START_TEST(log_probabilities_are_of_the_models_own_distribution)
{
    struct rig r = rig("cpu", 1, 4, 0);
    struct ask a;
    ask_init(&a, words, 8, 12);
    a.r.n_logprobs = 5;
    submit(r.s, &a);
    uint32_t seen = 0;
    while (a.last.end == SCHED_RUNNING) {
        sleep_until_woken(&a);
        take(&a);
        for (uint32_t i = 0; i < a.last.n_tokens; i++, seen++) {
            const struct sched_token *t = &a.last.tokens[i];
            double sum = 0;
            ck_assert_uint_eq(t->n_top, 5);
            ck_assert_int_eq(t->top[0].id, t->id); /* greedy */
            ck_assert_float_eq(t->top[0].logprob, t->logprob);
            for (uint32_t k = 0; k < 5; k++)
                sum += exp(t->top[k].logprob);
            for (uint32_t k = 1; k < 5; k++)
                ck_assert_float_le(t->top[k].logprob, t->top[k - 1].logprob);
            ck_assert_double_le(sum, 1.0001);
            ck_assert_double_gt(sum, 0);
        }
    }
    ck_assert_uint_eq(seen, 12);
    sched_release(a.job);
    rig_end(&r);
}
END_TEST

/* ---- many threads ---- */

struct crowd {
    struct sched *s;
    unsigned seed;
    uint32_t done;
};

static void *one_of_many(void *user)
{
    struct crowd *c = user;
    for (int i = 0; i < 60; i++) {
        struct ask a;
        uint32_t retry;
        ask_init(&a, words, 1 + (uint32_t)rand_r(&c->seed) % 8, 1 + (uint32_t)rand_r(&c->seed) % 60);
        if (rand_r(&c->seed) % 8 == 0)
            a.r.deadline_ns = clock_ns() + 1000 * (uint64_t)(rand_r(&c->seed) % 1000);
        if (sched_submit(c->s, &a.r, &a.job, &retry, NULL))
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
        c->done++;
    }
    return NULL;
}

START_TEST(many_threads_come_and_go)
{
    enum { N = 8 };
    struct rig r = rig("null", 4, 64, 0);
    struct crowd c[N];
    pthread_t t[N];
    for (unsigned i = 0; i < N; i++) {
        c[i] = (struct crowd){ r.s, i + 1, 0 };
        ck_assert_int_eq(pthread_create(&t[i], NULL, one_of_many, &c[i]), 0);
    }
    uint64_t done = 0;
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        done += c[i].done;
    }
    sched_drain(r.s, 300000000000u);
    struct sched_stats st = sched_stats(r.s);
    ck_assert_uint_eq(st.finished + st.cancelled + st.expired, done);
    ck_assert_uint_eq(st.failed, 0);
    rig_end(&r);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    setenv("ZINC_NULL_HISTORY", "1", 1);
    return RUN_TESTS("sched", so_it_does_with_steps_in_flight, an_answer_is_there_for_what_goes_on_from_it,
                     a_request_generates_what_it_generates_alone, so_it_does_with_recurrent_layers,
                     so_it_does_with_sliding_windows, so_it_does_with_sinks,
                     so_it_does_where_prompts_have_a_stream_of_their_own, suppressed_tokens_are_never_chosen,
                     cancelled_and_expired_requests_keep_what_they_made, a_running_request_ends_at_its_deadline,
                     who_asks_is_told_that_it_starts, who_finds_a_free_slot_knows_at_once,
                     a_full_queue_refuses_and_says_when_to_come_again, requests_that_cannot_be_are_refused,
                     the_context_ends_a_request, clients_take_turns,
                     a_full_queue_makes_room_for_who_has_less, a_client_that_ignores_refusals_keeps_nobody_out,
                     prompts_do_not_starve_beside_as_many_as_a_step_has_rows, a_long_prompt_does_not_stop_the_others,
                     a_slow_taker_is_waited_for_and_loses_nothing, draining_ends_what_runs_and_refuses_what_comes,
                     log_probabilities_are_of_the_models_own_distribution, many_threads_come_and_go);
}
