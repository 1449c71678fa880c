/* The KV pool: whatever it puts together, a sequence's logits have the bits of one evaluated from nothing. First its
 * habits, one by one; then random requests that share beginnings, over few slots, with much or little host memory. */
#include <check.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "engine/serve/kvcopy.h"
#include "engine/serve/kvpool.h"
#include "tests/lib/skip.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 320, CHUNK = 32, MANY = 64 << 20 };
enum preset { QWEN3, QWEN35, QWEN35MOE, GEMMA3, GPT_OSS, N_PRESETS };

static const char *const presets[N_PRESETS] = { "tiny-qwen3", "tiny-qwen35", "tiny-qwen35moe", "tiny-gemma3",
                                                "tiny-gpt-oss" };
static char paths[N_PRESETS][32];
static struct engine *eng, *fresh; /* the pool's; and one to compare with */
static struct session *ref;
static struct kvpool *pool;
static struct err e;

static void setup(void)
{
    for (size_t i = 0; i < N_PRESETS; i++) {
        snprintf(paths[i], sizeof paths[i], "/tmp/zinc-kvp-XXXXXX");
        tiny_model(paths[i], presets[i]);
    }
}

static void teardown(void)
{
    for (size_t i = 0; i < N_PRESETS; i++)
        unlink(paths[i]);
}

static void open_pool(enum preset m, const char *tier, uint32_t n_slots, const struct kvpool_opts *o)
{
    struct engine_opts eo = { .path = paths[m], .tier = tier, .n_ctx = N_CTX, .chunk = CHUNK, .n_slots = n_slots,
                              .threads = 1 };
    ck_assert_msg(engine_open(&eo, &eng, &e) == 0, "%s", e.msg);
    eo.n_slots = 1;
    ck_assert_msg(engine_open(&eo, &fresh, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(session_create(fresh, &ref, &e), 0);
    ck_assert_msg(kvpool_create(eng, o, &pool, &e) == 0, "%s", e.msg);
}

static void close_pool(void)
{
    kvpool_destroy(pool);
    session_destroy(ref);
    engine_close(eng);
    engine_close(fresh);
}

/* ---- sequences ---- */

struct seq {
    int32_t tok[N_CTX];
    uint32_t n, n_prompt, reused;
    struct session *s; /* while it runs */
};

static uint64_t owner; /* of what start() begins */
static uint64_t rng = 88172645463325252u;
static uint32_t draw(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

/* The first n tokens of `from`, then new ones. */
static struct seq prompt(const struct seq *from, uint32_t n, uint32_t n_new)
{
    struct seq q = { .n = n + n_new, .n_prompt = n + n_new };
    if (n)
        memcpy(q.tok, from->tok, n * sizeof *q.tok);
    for (uint32_t i = n; i < q.n; i++)
        q.tok[i] = (int32_t)draw(640);
    return q;
}

/* Tokens of a prompt through the prompt stream, also where it is a single one, as the scheduler does. */
static const float *eval_prompt(struct session *s, const int32_t *tok, uint32_t n)
{
    struct engine *g = s->eng;
    const float *l = NULL;
    for (uint32_t done = 0, rows; done < n; done += rows) {
        rows = MIN(n - done, g->prefill.s->h.row_cap);
        engine_fill_rows(g, s, tok + done, rows);
        g->out_row[0] = rows - 1;
        ck_assert_msg(engine_step(g, &g->prefill, rows, 1, NULL, &l, &e) == 0, "%s", e.msg);
        memcpy(s->tok + s->pos, tok + done, rows * sizeof *tok);
        s->pos += rows;
    }
    return l;
}

static void same_as_fresh(const struct seq *q, const float *logits)
{
    session_reset(ref);
    const float *l = eval_prompt(ref, q->tok, q->n_prompt);
    for (uint32_t i = q->n_prompt; i < q->n; i++)
        ck_assert_int_eq(session_eval(ref, q->tok + i, 1, &l, &e), 0);
    ck_assert_msg(memcmp(l, logits, engine_info(eng)->n_vocab * sizeof *l) == 0,
                  "logits differ after %u tokens, %u of them reused", q->n, q->reused);
}

/* Takes a slot and evaluates the prompt, pausing where the pool wants it. */
static void start(struct seq *q, const uint32_t *boundary, uint32_t n_boundary)
{
    const float *l = NULL;
    ck_assert_msg(kvpool_acquire(pool, owner, q->tok, q->n, boundary, n_boundary, &q->s, &e) == 0, "%s", e.msg);
    q->reused = session_pos(q->s);
    ck_assert_uint_lt(q->reused, q->n);
    ck_assert_mem_eq(session_tokens(q->s), q->tok, q->reused * sizeof *q->tok);
    while (session_pos(q->s) < q->n) {
        uint32_t pos = session_pos(q->s), stop = kvpool_next_stop(pool, q->s, q->n);
        ck_assert(stop > pos && stop <= q->n);
        l = eval_prompt(q->s, q->tok + pos, stop - pos);
        kvpool_extend(pool, q->s, false);
    }
    same_as_fresh(q, l);
}

/* Tokens that need not be the likeliest. */
static void generate_some(struct seq *q, uint32_t n, bool compare)
{
    const float *l = NULL;
    for (; n && q->n < N_CTX; n--) {
        q->tok[q->n] = (int32_t)draw(640);
        ck_assert_msg(session_eval(q->s, &q->tok[q->n++], 1, &l, &e) == 0, "%s", e.msg);
        kvpool_extend(pool, q->s, true);
    }
    if (compare && l)
        same_as_fresh(q, l);
}

static void end(struct seq *q)
{
    kvpool_release(pool, q->s, true);
    q->s = NULL;
}

static uint32_t run(struct seq *q)
{
    start(q, NULL, 0);
    end(q);
    return q->reused;
}

/* ---- habits ---- */

START_TEST(a_conversation_goes_on_in_place)
{
    static const enum preset both[] = { QWEN3, QWEN35 }; /* the latter without any snapshot */
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        open_pool(both[i], "cpu", 3, &(struct kvpool_opts){ 0 });
        struct seq a = prompt(NULL, 0, 60), b = prompt(NULL, 0, 70), c;
        start(&a, NULL, 0);
        generate_some(&a, 30, true);
        end(&a);
        run(&b);
        c = prompt(&a, 90, 20);
        ck_assert_uint_eq(kvpool_match(pool, 0, c.tok, c.n), 90);
        ck_assert_uint_eq(run(&c), 90);
        ck_assert_uint_eq(kvpool_stats(pool).tokens_resident, 90);
        c = prompt(&b, 70, 1);
        ck_assert_uint_eq(run(&c), 70);
        ck_assert_uint_eq(kvpool_stats(pool).tokens_copied, 0);
        close_pool();
    }
}
END_TEST

START_TEST(a_short_beginning_is_copied_and_the_long_one_stays)
{
    open_pool(QWEN3, "cpu", 2, &(struct kvpool_opts){ 0 });
    struct seq a = prompt(NULL, 0, 250), b = prompt(&a, 40, 30), c = prompt(&a, 250, 10);
    run(&a);
    ck_assert_uint_eq(run(&b), 40);
    ck_assert_uint_eq(kvpool_stats(pool).tokens_copied, 40);
    ck_assert_uint_eq(run(&c), 250);
    ck_assert_uint_eq(kvpool_stats(pool).tokens_resident, 250);
    struct seq d = prompt(&a, 5, 30); /* not worth a copy */
    ck_assert_uint_eq(kvpool_match(pool, 0, d.tok, d.n), 5); /* in place, where nothing has to be done for it */
    close_pool();
}
END_TEST

/* As often as the first owner asks for the second one's prompt, nothing of it is there for him: not in a slot, busy or
 * idle, not in host memory, not as a snapshot, and not because his slot held it before. */
START_TEST(owners_do_not_find_each_others_prompts)
{
    static const enum preset both[] = { QWEN3, QWEN35 };
    for (int share = 0; share < 2; share++)
        for (size_t i = 0; i < ARRAY_LEN(both); i++) {
            open_pool(both[i], "cpu", 2, &(struct kvpool_opts){ .host_bytes = 64 << 20, .share = share,
                                                                .snapshot_every = 32 });
            struct seq a = prompt(NULL, 0, 96), b = prompt(&a, 96, 0);
            owner = 1;
            start(&a, NULL, 0);
            for (int round = 0; round < 6; round++) {
                b = prompt(&a, 96, 0);
                owner = 2;
                ck_assert_int_eq(kvpool_match(pool, 2, b.tok, b.n) > 0, share || round);
                ck_assert_int_eq(run(&b) > 0, share || round);
                owner = 3 + (unsigned)round; /* a new one each time, into the slot that held it */
                b = prompt(&a, 96, 0);
                ck_assert_int_eq(run(&b) > 0, share);
            }
            end(&a);
            owner = 1; /* who has it finds it */
            b = prompt(&a, 96, 4);
            ck_assert_uint_gt(run(&b), 0);
            owner = 0;
            close_pool();
        }
}
END_TEST

START_TEST(copies_of_one_prompt_take_it_from_the_slot_that_runs)
{
    open_pool(QWEN3, "cpu", 4, &(struct kvpool_opts){ 0 });
    struct seq q[4] = { prompt(NULL, 0, 100) };
    start(&q[0], NULL, 0);
    generate_some(&q[0], 3, false);
    for (int i = 1; i < 4; i++) {
        q[i] = prompt(&q[0], 100, 0);
        start(&q[i], NULL, 0);
        ck_assert_uint_eq(q[i].reused, 99);
    }
    struct seq more = prompt(&q[0], 50, 0);
    ck_assert_int_eq(kvpool_acquire(pool, 0, more.tok, more.n, NULL, 0, &more.s, &e), -EAGAIN);
    ck_assert_str_eq(e.msg, "engine: all 4 slots are busy");
    for (int i = 0; i < 4; i++) {
        generate_some(&q[i], 10, true);
        end(&q[i]);
    }
    ck_assert_uint_eq(kvpool_stats(pool).tokens_copied, 3 * 99);
    close_pool();
}
END_TEST

START_TEST(what_is_overwritten_comes_back_from_host_memory)
{
    open_pool(QWEN3, "cpu", 1, &(struct kvpool_opts){ .host_bytes = MANY });
    struct seq a = prompt(NULL, 0, 300), b = prompt(&a, 37, 50), c = prompt(&a, 291, 9), d;
    run(&a);
    ck_assert_uint_eq(run(&b), 37);
    ck_assert_uint_eq(kvpool_stats(pool).saves, 2);
    ck_assert_uint_eq(run(&c), 291);
    struct kvpool_stats st = kvpool_stats(pool);
    ck_assert_uint_eq(st.tokens_restored, 291 - 37);
    ck_assert(st.host_bytes && st.host_bytes <= st.host_bytes_max);
    d = prompt(&b, 80, 3); /* was saved as well */
    ck_assert_uint_eq(run(&d), 80);
    close_pool();
}
END_TEST

START_TEST(without_host_memory_it_is_gone)
{
    static const enum preset both[] = { QWEN3, QWEN35 };
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        open_pool(both[i], "cpu", 1, &(struct kvpool_opts){ 0 });
        struct seq a = prompt(NULL, 0, 60), b = prompt(NULL, 0, 50), c = prompt(&a, 60, 4);
        run(&a);
        run(&b);
        ck_assert_uint_eq(run(&c), 0);
        struct kvpool_stats st = kvpool_stats(pool);
        ck_assert(!st.saves && !st.snapshots && !st.host_bytes && !st.hits && st.lookups == 3 && st.tokens == 174);
        ck_assert_uint_eq(st.nodes, 1);
        close_pool();
    }
}
END_TEST

START_TEST(recurrent_models_reuse_up_to_a_snapshot)
{
    open_pool(QWEN35, "cpu", 2, &(struct kvpool_opts){ .host_bytes = MANY, .snapshot_every = 128 });
    static const uint32_t bounds[] = { 9, 30, 55, 90, 140, 150 };
    struct seq a = prompt(NULL, 0, 155);
    ck_assert_int_eq(kvpool_acquire(pool, 0, a.tok, a.n, bounds, ARRAY_LEN(bounds), &a.s, &e), 0);
    static const uint32_t stops[] = { 30, 128, 140, 150, 155 }; /* the first worth it, every 128, the last two */
    for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
        uint32_t pos = session_pos(a.s);
        ck_assert_uint_eq(kvpool_next_stop(pool, a.s, a.n), stops[i]);
        ck_assert_int_eq(session_eval(a.s, a.tok + pos, stops[i] - pos, NULL, &e), 0);
        kvpool_extend(pool, a.s, false);
    }
    ck_assert_uint_eq(kvpool_stats(pool).snapshots, 4);
    static const struct {
        uint32_t common, reused;
    } want[] = { { 154, 150 }, { 149, 140 }, { 129, 128 }, { 127, 30 }, { 29, 0 } };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) { /* while the first one runs */
        struct seq b = prompt(&a, want[i].common, 10);
        ck_assert_uint_eq(kvpool_match(pool, 0, b.tok, b.n), want[i].reused);
        ck_assert_uint_eq(run(&b), want[i].reused);
    }
    end(&a);
    struct seq c = prompt(&a, 155, 10);
    ck_assert_uint_eq(run(&c), 155); /* in place */
    close_pool();
}
END_TEST

START_TEST(the_state_of_an_overwritten_slot_is_saved)
{
    open_pool(QWEN35, "cpu", 1, &(struct kvpool_opts){ .host_bytes = MANY });
    struct seq a = prompt(NULL, 0, 60), b = prompt(NULL, 0, 50);
    start(&a, NULL, 0);
    generate_some(&a, 25, false);
    end(&a);
    run(&b);
    ck_assert_uint_eq(kvpool_stats(pool).snapshots, 1);
    struct seq c = prompt(&a, 85, 10);
    ck_assert_uint_eq(run(&c), 85);
    ck_assert_uint_eq(kvpool_stats(pool).tokens_restored, 85);
    close_pool();
}
END_TEST

START_TEST(what_was_generated_is_evaluated_again_where_bits_would_differ)
{
    for (int allowed = 0; allowed < 2; allowed++) {
        struct kvpool_opts o = { .host_bytes = MANY, .reuse_generated = allowed };
        open_pool(QWEN3, "cpu", 2, &o);
        kvpool_destroy(pool);
        eng->tier->info.by_capacity = true; /* as it is on GPUs */
        ck_assert_int_eq(kvpool_create(eng, &o, &pool, &e), 0);
        eng->tier->info.by_capacity = false;
        struct seq a = prompt(NULL, 0, 60), b;
        start(&a, NULL, 0);
        generate_some(&a, 100, false);
        end(&a);
        b = prompt(&a, 160, 10);
        ck_assert_uint_eq(run(&b), allowed ? 160 : 60);
        close_pool();
    }
}
END_TEST

START_TEST(what_failed_is_not_used_again)
{
    open_pool(QWEN3, "cpu", 2, &(struct kvpool_opts){ .host_bytes = MANY });
    struct seq a = prompt(NULL, 0, 60), b = prompt(&a, 60, 5);
    start(&a, NULL, 0);
    kvpool_release(pool, a.s, false);
    ck_assert_uint_eq(run(&b), 0);
    ck_assert_uint_eq(kvpool_stats(pool).nodes, 1);
    close_pool();
}
END_TEST

START_TEST(a_session_may_be_cut)
{
    open_pool(QWEN3, "cpu", 2, &(struct kvpool_opts){ 0 });
    struct seq a = prompt(NULL, 0, 60), b = prompt(&a, 60, 5), c;
    start(&a, NULL, 0);
    ck_assert_int_eq(session_truncate(a.s, 40, &e), 0);
    kvpool_extend(pool, a.s, false);
    ck_assert_uint_eq(kvpool_match(pool, 0, b.tok, b.n), 40);
    c = prompt(&a, 40, 30);
    ck_assert_int_eq(session_eval(a.s, c.tok + 40, 30, NULL, &e), 0);
    kvpool_extend(pool, a.s, false);
    end(&a);
    ck_assert_uint_eq(run(&b), 40);
    c = prompt(&c, 70, 5);
    ck_assert_uint_eq(run(&c), 70);
    close_pool();
}
END_TEST

static int fails(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *err)
{
    return err_set(err, -EIO, "does not work");
}

START_TEST(a_copy_that_fails_is_evaluated_instead)
{
    static const enum preset both[] = { QWEN3, QWEN35 };
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        open_pool(both[i], "cpu", 1, &(struct kvpool_opts){ .host_bytes = MANY });
        const struct tier_impl *works = eng->tier->impl;
        struct tier_impl broken = *works;
        broken.write = fails;
        struct seq a = prompt(NULL, 0, 60), b = prompt(NULL, 0, 50), c = prompt(&a, 60, 4);
        run(&a);
        run(&b);
        ck_assert_uint_eq(kvpool_match(pool, 0, c.tok, c.n), 60);
        eng->tier->impl = &broken;
        ck_assert_int_eq(kvpool_acquire(pool, 0, c.tok, c.n, NULL, 0, &c.s, &e), 0);
        ck_assert_uint_eq(session_pos(c.s), 0);
        kvpool_release(pool, c.s, true);
        eng->tier->impl = works;
        ck_assert_uint_eq(run(&c), 60);
        eng->faulted = true; /* with the device, everything is gone */
        ck_assert_int_eq(kvpool_acquire(pool, 0, c.tok, c.n, NULL, 0, &c.s, &e), -EIO);
        eng->faulted = false;
        close_pool();
    }
}
END_TEST

START_TEST(prompts_have_to_fit)
{
    open_pool(QWEN3, "cpu", 1, &(struct kvpool_opts){ 0 });
    struct session *s;
    static const int32_t tok[N_CTX + 1];
    ck_assert_int_eq(kvpool_acquire(pool, 0, tok, 0, NULL, 0, &s, &e), -EINVAL);
    ck_assert_int_eq(kvpool_acquire(pool, 0, tok, N_CTX + 1, NULL, 0, &s, &e), -E2BIG);
    ck_assert_int_eq(kvpool_acquire(pool, 0, tok, N_CTX, NULL, 0, &s, &e), 0);
    struct kvpool *second;
    ck_assert_int_eq(kvpool_create(eng, &(struct kvpool_opts){ 0 }, &second, &e), -EAGAIN);
    close_pool();
}
END_TEST

/* ---- random requests ---- */

static const struct {
    enum preset preset;
    const char *tier;
    uint32_t n_slots, rounds;
    uint32_t saved, states; /* as much host memory as so many tokens, and states, need */
} scripts[] = {
    { QWEN3, "cpu:f16", 3, 120, 600, 0 },
    { QWEN3, "cpu:f32", 2, 100, 0, 0 },
    { QWEN3, "cpu:q8_0", 4, 100, 5000, 0 },
    { GEMMA3, "cpu:f16", 3, 80, 600, 0 },
    { GEMMA3, "cpu:q8_0", 2, 80, 600, 0 },
    { GPT_OSS, "cpu:f16", 3, 60, 600, 0 },
    { QWEN35, "cpu:f16", 3, 100, 500, 5 },
    { QWEN35, "cpu:q8_0", 1, 100, 2000, 40 },
    { QWEN35, "cpu:f16", 3, 60, 0, 0 },
    { QWEN35MOE, "cpu:f16", 3, 40, 500, 6 },
    { QWEN3, "cpu:rot4", 3, 100, 2000, 0 },
    { GEMMA3, "cpu:fp8", 2, 80, 600, 0 },
    { QWEN3, "lockstep:q8_0", 2, 6, 300, 0 },
    { QWEN3, "lockstep:q4_0", 2, 6, 300, 0 },
    { QWEN3, "cuda:q8_0", 3, 100, 600, 0 },
    { QWEN35, "cuda:f16", 3, 100, 500, 5 },
};

static bool here(const char *tier)
{
    struct tier_opts o = { .device = -1 };
    struct tier_info info = { 0 };
    return strncmp(tier, "cuda", 4) != 0 || tier_driver_cuda.probe(&o, &info) == 0;
}

static uint64_t budget(int i)
{
    struct engine_opts eo = { .path = paths[scripts[i].preset], .tier = scripts[i].tier, .n_ctx = N_CTX };
    struct engine *g;
    struct kvcopy *c;
    ck_assert_msg(engine_open(&eo, &g, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(kvcopy_create(g, &c, &e), 0);
    uint64_t b = scripts[i].saved / 16 * kvcopy_run_bytes(c, 0, 16) + scripts[i].states * (kvcopy_state_bytes(c) + 256);
    kvcopy_destroy(c);
    engine_close(g);
    return b;
}

enum { N_OLD = 12 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEWER = 4 }; /* sanitizers see in some rounds what they see in all; bits are the other builds' to compare */
#else
enum { FEWER = 1 };
#endif

/* A request that begins like an earlier one, mostly. */
static struct seq request(const struct seq *old, bool small)
{
    const struct seq *from = &old[draw(N_OLD)];
    uint32_t most = small ? 60 : 250, n = draw(4) ? MIN(from->n, most) : draw(MIN(from->n, most) + 1);
    return prompt(from, n, 1 + draw(draw(3) ? 12 : small ? 20 : 60));
}

START_TEST(random_requests_have_the_bits_of_fresh_ones)
{
    if (!here(scripts[_i].tier)) {
        cases_skipped(1, "%s %s: no such device here", presets[scripts[_i].preset], scripts[_i].tier);
        return;
    }
    struct kvpool_opts o = { .host_bytes = budget(_i), .snapshot_every = 64, .min_reuse = 4 };
    static struct seq old[N_OLD], live[8];
    uint32_t n_live = 0;
    bool small = strncmp(scripts[_i].tier, "lock", 4) == 0;
    open_pool(scripts[_i].preset, scripts[_i].tier, scripts[_i].n_slots, &o);
    memset(old, 0, sizeof old);
    for (uint32_t r = 0; r < scripts[_i].rounds / FEWER; r++) {
        if (n_live < scripts[_i].n_slots && draw(3)) {
            struct seq q = request(old, small);
            uint32_t b[3] = { q.n / 3, q.n / 2, q.n - MIN(q.n, 5) };
            start(&q, b, 3);
            live[n_live++] = q;
        }
        for (uint32_t i = 0; i < n_live; i++)
            generate_some(&live[i], draw(8), draw(8) == 0);
        if (n_live && (n_live == scripts[_i].n_slots || !draw(3))) {
            uint32_t i = draw(n_live);
            end(&live[i]);
            old[r % N_OLD] = live[i];
            live[i] = live[--n_live];
        }
        struct kvpool_stats st = kvpool_stats(pool);
        ck_assert(st.host_bytes <= st.host_bytes_max && st.slots_busy == n_live);
        ck_assert_uint_eq(st.tokens_reused, st.tokens_resident + st.tokens_copied + st.tokens_restored);
    }
    struct kvpool_stats st = kvpool_stats(pool);
    printf("%-14s %-13s %2lu of %2lu hit; %4lu tokens of %4lu: %4lu in place, %4lu copied, %4lu restored; %lu saves, "
           "%lu snapshots, %lu evictions, %lu nodes\n", presets[scripts[_i].preset], scripts[_i].tier, st.hits,
           st.lookups, st.tokens_reused, st.tokens, st.tokens_resident, st.tokens_copied, st.tokens_restored, st.saves,
           st.snapshots, st.evictions, st.nodes);
    fflush(stdout);
    bool kept = o.host_bytes > 0, full = kept && scripts[_i].saved < 5000;
    ck_assert(st.hits || FEWER > 1);
    if (scripts[_i].rounds / FEWER >= 80) { /* enough to meet with everything */
        ck_assert_uint_gt(st.tokens_reused, st.tokens / (eng->tier->info.by_capacity ? 20 : 10)); /* there, nothing generated */
        ck_assert((st.saves > 0) == kept && (st.restores > 0) == kept && (st.evictions > 0) == full);
        ck_assert((st.snapshots > 0) == (kept && scripts[_i].states));
    }
    ck_assert(kept || (!st.saves && !st.snapshots && !st.restores));
    close_pool();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("kvpool");
    TCase *c = tcase_create("habits");
    tcase_set_timeout(c, 300);
    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_test(c, a_conversation_goes_on_in_place);
    tcase_add_test(c, a_short_beginning_is_copied_and_the_long_one_stays);
    tcase_add_test(c, owners_do_not_find_each_others_prompts);
    tcase_add_test(c, copies_of_one_prompt_take_it_from_the_slot_that_runs);
    tcase_add_test(c, what_is_overwritten_comes_back_from_host_memory);
    tcase_add_test(c, without_host_memory_it_is_gone);
    tcase_add_test(c, recurrent_models_reuse_up_to_a_snapshot);
    tcase_add_test(c, the_state_of_an_overwritten_slot_is_saved);
    tcase_add_test(c, what_was_generated_is_evaluated_again_where_bits_would_differ);
    tcase_add_test(c, what_failed_is_not_used_again);
    tcase_add_test(c, a_session_may_be_cut);
    tcase_add_test(c, a_copy_that_fails_is_evaluated_instead);
    tcase_add_test(c, prompts_have_to_fit);
    tcase_add_loop_test(c, random_requests_have_the_bits_of_fresh_ones, 0, ARRAY_LEN(scripts));
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
