/* Sessions: positions, limits, slots, prefixes, scores, batches, interruption. On the null tier, whose logits tell the
 * token and position they are for: the winner is (31 token + position) mod n_vocab. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/generate.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 64, CHUNK = 16 };

static struct engine *eng, *recurrent;
static char path[] = "/tmp/zinc-ses-XXXXXX", path_r[] = "/tmp/zinc-ser-XXXXXX";

static struct engine *open_null(const char *file, uint32_t n_slots)
{
    struct engine_opts o = { .path = file, .tier = "null", .n_ctx = N_CTX, .chunk = CHUNK, .n_slots = n_slots };
    struct engine *g;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &g, &e) == 0, "%s", e.msg);
    return g;
}

static void setup(void)
{
    tiny_model(path, "tiny-qwen3");
    tiny_model(path_r, "tiny-qwen35");
    eng = open_null(path, 3);
    recurrent = open_null(path_r, 1);
}

static void teardown(void)
{
    engine_close(eng);
    engine_close(recurrent);
    unlink(path);
    unlink(path_r);
}

static struct session *new_session(struct engine *g)
{
    struct session *s;
    struct err e = { 0 };
    ck_assert_msg(session_create(g, &s, &e) == 0, "%s", e.msg);
    return s;
}

static int32_t winner(const float *l)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < engine_info(eng)->n_vocab; i++)
        if (l[i] > l[best])
            best = i;
    return (int32_t)best;
}

static int32_t expected(int32_t token, uint32_t pos)
{
    return (int32_t)((31u * (uint32_t)token + pos) % engine_info(eng)->n_vocab);
}

static const int32_t some[80] = { 5,  9,  2, 7, 1, 8, 3, 3, 4, 6, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                  24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41 };

START_TEST(logits_are_those_of_the_last_token)
{
    struct session *s = new_session(eng);
    const float *l;
    static const uint32_t lengths[] = { 1, 2, 8, 9, 16, 17, 40 }; /* around a decode step and a chunk */
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        uint32_t n = lengths[i];
        session_reset(s);
        ck_assert_int_eq(session_eval(s, some, n, &l, NULL), 0);
        ck_assert_int_eq(winner(l), expected(some[n - 1], n - 1));
        ck_assert_uint_eq(session_pos(s), n);
        ck_assert_int_eq(memcmp(session_tokens(s), some, n * sizeof *some), 0);
    }
    session_destroy(s);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_figures)
{
    struct session *s = new_session(eng);
    struct err e = { 0 };
    const float *l;
    ck_assert_int_eq(session_eval(s, some, 60, &l, &e), 0);
    ck_assert_int_eq(session_eval(s, some, 5, &l, &e), -E2BIG);
    ck_assert_msg(strstr(e.msg, "5 tokens after 60") && strstr(e.msg, "64") && strstr(e.msg, "--ctx to 65"), "%s", e.msg);
    ck_assert_uint_eq(session_pos(s), 60);
    int32_t bad[] = { 1, 640 };
    ck_assert_int_eq(session_eval(s, bad, 2, &l, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "640"), "%s", e.msg);
    bad[1] = -1;
    ck_assert_int_eq(session_eval(s, bad, 2, &l, &e), -EINVAL);
    ck_assert_int_eq(session_eval(s, bad, 0, &l, &e), -EINVAL);
    ck_assert_uint_eq(session_pos(s), 60);
    ck_assert_int_eq(session_eval(s, some, 4, &l, &e), 0);
    session_destroy(s);
}
END_TEST

START_TEST(slots_are_limited_and_come_back)
{
    struct session *s[3], *more;
    struct err e = { 0 };
    for (int i = 0; i < 3; i++)
        s[i] = new_session(eng);
    ck_assert_int_eq(session_create(eng, &more, &e), -EAGAIN);
    ck_assert_str_eq(e.msg, "engine: all 3 sessions are in use");
    session_destroy(s[1]);
    more = new_session(eng);
    session_destroy(s[0]);
    session_destroy(s[2]);
    session_destroy(more);
    session_destroy(NULL);
}
END_TEST

START_TEST(a_common_beginning_is_kept)
{
    struct session *s = new_session(eng);
    int32_t other[20];
    memcpy(other, some, sizeof other);
    other[12] = 600;
    session_eval(s, some, 20, NULL, NULL);
    ck_assert_uint_eq(session_keep_common(s, other, 20), 12);
    ck_assert_uint_eq(session_pos(s), 12);
    session_eval(s, some + 12, 8, NULL, NULL);
    ck_assert_uint_eq(session_keep_common(s, some, 20), 19); /* one is left to evaluate */
    ck_assert_uint_eq(session_keep_common(s, some, 40), 19);
    ck_assert_int_eq(session_truncate(s, 7, NULL), 0);
    ck_assert_int_eq(session_truncate(s, 8, NULL), -EINVAL);
    session_destroy(s);
}
END_TEST

START_TEST(recurrent_state_cannot_be_rewound)
{
    struct session *s = new_session(recurrent);
    struct err e = { 0 };
    ck_assert(engine_info(recurrent)->recurrent);
    session_eval(s, some, 20, NULL, NULL);
    ck_assert_int_eq(session_truncate(s, 12, &e), -ENOTSUP);
    ck_assert_int_eq(session_truncate(s, 20, &e), 0);
    ck_assert_uint_eq(session_keep_common(s, some, 30), 20); /* appending is fine */
    ck_assert_uint_eq(session_keep_common(s, some, 15), 0);  /* anything else starts again */
    session_eval(s, some, 20, NULL, NULL);
    ck_assert_int_eq(session_truncate(s, 0, &e), 0);
    session_destroy(s);
}
END_TEST

struct scored {
    uint32_t n;
};

static int score(void *user, uint32_t i, const float *l)
{
    struct scored *c = user;
    ck_assert_uint_eq(i, c->n);
    ck_assert_int_eq(winner(l), expected(some[i], i));
    c->n++;
    return i == 50 ? -ECANCELED : 0;
}

START_TEST(every_token_is_scored_in_order)
{
    struct session *s = new_session(eng);
    struct scored c = { 0 };
    ck_assert_int_eq(session_score(s, some, 37, score, &c, NULL), 0);
    ck_assert_uint_eq(c.n, 37);
    ck_assert_uint_eq(session_pos(s), 37);
    session_reset(s);
    c.n = 0;
    ck_assert_int_eq(session_score(s, some, 60, score, &c, NULL), -ECANCELED);
    ck_assert_uint_eq(c.n, 51);
    session_destroy(s);
}
END_TEST

START_TEST(a_batch_gives_each_session_its_own)
{
    struct session *s[3];
    const float *l[3];
    int32_t tok[] = { 100, 200, 300 };
    for (uint32_t i = 0; i < 3; i++) {
        s[i] = new_session(eng);
        session_eval(s[i], some, 3 + i, NULL, NULL);
    }
    struct session *turned[] = { s[2], s[0], s[1] };
    ck_assert_int_eq(session_eval_batch(turned, tok, 3, l, NULL), 0);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(winner(l[i]), expected(tok[i], session_pos(turned[i]) - 1));
    ck_assert_uint_eq(session_pos(s[0]), 4);
    ck_assert_uint_eq(session_pos(s[2]), 6);
    ck_assert_int_eq(session_eval_batch(turned, tok, 3, NULL, NULL), 0); /* logits that nobody reads, then again some */
    ck_assert_uint_eq(session_pos(s[2]), 7);
    ck_assert_int_eq(session_eval_batch(turned, tok, 3, l, NULL), 0);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(winner(l[i]), expected(tok[i], session_pos(turned[i]) - 1));
    tok[1] = 9999;
    ck_assert_int_eq(session_eval_batch(turned, tok, 3, l, NULL), -EINVAL);
    ck_assert_uint_eq(session_pos(s[2]), 8);
    for (uint32_t i = 0; i < 3; i++)
        session_destroy(s[i]);
}
END_TEST

static bool stop_at_32(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    ck_assert_str_eq(what, "prompt");
    ck_assert_uint_eq(total, 60);
    return done < 32;
}

START_TEST(a_prompt_can_be_interrupted)
{
    struct session *s = new_session(eng);
    struct progress p = { stop_at_32, NULL };
    struct flag flag = { 1 };
    session_set_progress(s, &p);
    ck_assert_int_eq(session_eval(s, some, 60, NULL, NULL), -ECANCELED);
    ck_assert_uint_eq(session_pos(s), 32);
    session_set_progress(s, NULL);
    session_set_cancel(s, &flag);
    ck_assert_int_eq(session_eval(s, some, 20, NULL, NULL), -ECANCELED);
    ck_assert_uint_eq(session_pos(s), 32);
    flag_set(&flag, false);
    ck_assert_int_eq(session_eval(s, some, 20, NULL, NULL), 0);
    session_destroy(s);
}
END_TEST

START_TEST(the_tier_chooses_the_next_token)
{
    struct session *s = new_session(eng);
    struct err e = { 0 };
    const float *logits;
    int32_t next;
    ck_assert_msg(session_eval_next(s, some, 20, NULL, &logits, &next, &e) == 0, "%s", e.msg); /* two steps */
    ck_assert_int_eq(next, expected(some[19], 19));
    ck_assert_int_eq(next, winner(logits));
    int32_t token = next;
    ck_assert_int_eq(session_eval_next(s, &token, 1, NULL, NULL, &next, &e), 0);
    ck_assert_int_eq(next, expected(token, 20));
    int32_t to_0 = 0;
    while (expected(to_0, 21))
        to_0++;
    ck_assert_int_eq(session_eval_next(s, &to_0, 1, NULL, &logits, &next, &e), 0);
    ck_assert_int_eq(next, 0);
    const float *kept = NULL;
    ck_assert_int_eq(engine_last_logits(eng, 0, &kept, &e), 0);
    ck_assert_mem_eq(kept, logits, engine_info(eng)->n_vocab * sizeof *kept);
    ck_assert_int_eq(session_eval_next(s, some, 0, NULL, NULL, &next, &e), -EINVAL);
    session_destroy(s);
}
END_TEST

START_TEST(a_token_follows_the_other)
{
    struct session *s = new_session(eng);
    struct err e = { 0 };
    int32_t next[N_CTX], tok = some[7];
    ck_assert_int_eq(session_eval(s, some, 7, NULL, &e), 0);
    ck_assert_msg(session_follow(s, tok, 30, next, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(session_pos(s), 37);
    for (uint32_t i = 0; i < 30; i++) {
        ck_assert_int_eq(session_tokens(s)[7 + i], tok);
        ck_assert_int_eq(next[i], expected(tok, 7 + i));
        tok = next[i];
    }
    ck_assert_int_eq(session_follow(s, tok, N_CTX - 37 + 1, next, &e), -E2BIG);
    ck_assert_int_eq(session_follow(s, -5, 1, next, &e), -EINVAL);
    ck_assert_uint_eq(session_pos(s), 37);
    ck_assert_int_eq(session_follow(s, tok, N_CTX - 37, NULL, &e), 0);
    ck_assert_uint_eq(session_pos(s), N_CTX);
    session_destroy(s);
}
END_TEST

static int cancel_at_5(void *user, int32_t id, const float *logits)
{
    static int n;
    (void)id, (void)logits;
    flag_set(user, ++n == 5);
    return 0;
}

START_TEST(generation_ends_by_context_length_or_interruption)
{
    struct session *s = new_session(eng);
    struct gen_opts o = { .sampling = sampler_defaults(), .ignore_eos = true };
    struct gen_result r;
    struct err e = { 0 };
    struct flag flag = { 0 };
    o.sampling.temp = 0;
    ck_assert_msg(generate(s, &o, some, 10, &r, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(r.reason, GEN_CONTEXT);
    ck_assert_uint_eq(r.n_tokens, N_CTX - 10 + 1); /* the last one was chosen, but has no room */
    ck_assert_uint_eq(session_pos(s), N_CTX);
    o.n_max = 7;
    ck_assert_int_eq(generate(s, &o, some, 12, &r, &e), 0); /* the prompt differs from what was generated */
    ck_assert_int_eq(r.reason, GEN_LENGTH);
    ck_assert_uint_eq(r.n_tokens, 7);
    ck_assert_uint_eq(r.n_decoded, 6);
    ck_assert_uint_eq(r.n_reused, 10);
    ck_assert_uint_gt(r.decode_bytes, 0);
    o.n_max = 0;
    o.user = (void *)&flag;
    o.on_token = cancel_at_5;
    session_set_cancel(s, &flag);
    ck_assert_int_eq(generate(s, &o, some, 12, &r, &e), 0);
    ck_assert_int_eq(r.reason, GEN_CANCELLED);
    ck_assert_uint_eq(r.n_tokens, 5);
    session_destroy(s);
}
END_TEST

START_TEST(bad_options_are_named)
{
    static const struct {
        struct engine_opts o;
        const char *word;
    } cases[] = {
        { { .tier = "null:quick" }, "quick" },       { { .tier = "nosuch" }, "nosuch" },
        { { .tier = "null", .plan = "x" }, "'x'" },  { { .tier = "null", .kv = "f8" }, "f8" },
        { { .tier = ":exact" }, "not a tier" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct engine_opts o = cases[i].o;
        struct engine *g = NULL;
        struct err e = { 0 };
        o.path = path;
        ck_assert_int_lt(engine_open(&o, &g, &e), 0);
        ck_assert_msg(strstr(e.msg, cases[i].word), "%s", e.msg);
    }
    struct engine_opts o = { .path = "/nonexistent/model.gguf" };
    struct engine *g;
    struct err e = { 0 };
    ck_assert_int_eq(engine_open(&o, &g, &e), -ENOENT);
    ck_assert_msg(strstr(e.msg, "/nonexistent/model.gguf"), "%s", e.msg);
}
END_TEST

/* Where streams for prompts and for single tokens differ in low bits, the last token of a prompt that was there before is
 * evaluated as it is in a whole prompt. */
START_TEST(a_prompt_gives_the_same_bits_however_much_of_it_was_there)
{
    struct engine_opts o = { .path = path, .tier = "lockstep", .n_ctx = 64, .chunk = 32, .threads = 2 };
    struct engine *on;
    struct session *s;
    struct err e = { 0 };
    struct gen_opts g = { .sampling = sampler_defaults(), .n_max = 1, .ignore_eos = true, .fingerprint = true };
    struct gen_result whole, rest;
    g.sampling.temp = 0;
    ck_assert_msg(engine_open(&o, &on, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(session_create(on, &s, &e), 0);
    ck_assert_msg(generate(s, &g, some, 20, &whole, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(whole.n_reused, 0);
    ck_assert_msg(generate(s, &g, some, 20, &rest, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(rest.n_reused, 19);
    ck_assert_uint_eq(rest.fingerprint, whole.fingerprint);
    session_destroy(s);
    engine_close(on);
}
END_TEST

/* ---- generations with a step in flight ---- */

static int note(void *user, int32_t id, const float *logits)
{
    int32_t **at = user;
    *(*at)++ = id;
    return 0;
}

/* Each leaves a step under way when it returns; the other one's come in between, and whole prompts of a third session. */
START_TEST(generations_take_turns)
{
    int32_t tok[2][N_CTX], *at[2] = { tok[0], tok[1] };
    struct session *s[3];
    struct generation *x[2];
    struct err e = { 0 };
    for (int i = 0; i < 3; i++)
        s[i] = new_session(eng);
    for (int i = 0; i < 2; i++) {
        struct gen_opts o = { .sampling = sampler_defaults(), .n_max = 40, .ignore_eos = i, .on_token = note, .user = &at[i] };
        o.sampling.temp = 0;
        ck_assert_int_eq(generation_begin(s[i], &o, some, 5 + (uint32_t)i, &x[i], &e), 0);
    }
    for (int step = 0, rc = 1; step < 15; step++)
        for (int i = 0; i < 2; i++) {
            ck_assert_msg((rc = generation_step(x[i], &e)) == 1, "%s", e.msg);
            if (step % 5 == 4) { /* more steps than a tier keeps tokens of */
                session_reset(s[2]);
                for (int k = 0; k < 20; k++)
                    ck_assert_int_eq(session_eval(s[2], some + k, 1, NULL, &e), 0);
            }
        }
    for (int i = 0; i < 2; i++) {
        int32_t last = some[4 + i];
        ck_assert_int_eq(at[i] - tok[i], 15);
        for (uint32_t k = 0; k < 15; k++) {
            if (!i || !engine_is_eog(eng, expected(last, 4 + (uint32_t)i + k)))
                ck_assert_int_eq(tok[i][k], expected(last, 4 + (uint32_t)i + k));
            last = tok[i][k];
        }
        generation_destroy(x[i]);
    }
    for (int i = 0; i < 3; i++)
        session_destroy(s[i]);
}
END_TEST

/* An answer that ends where nobody knew it before: its last logits, and what the session then holds. */
START_TEST(an_answer_ends_with_a_step_in_flight)
{
    struct engine_opts o = { .path = path, .tier = "lockstep", .n_ctx = 64, .chunk = 32, .threads = 2 };
    int32_t tok[2][16], *at;
    struct engine *on;
    struct session *s;
    struct err e = { 0 };
    struct gen_opts g = { .sampling = sampler_defaults(), .n_max = 6, .on_token = note, .user = &at, .fingerprint = true };
    struct gen_result flown, walked;
    char *text;
    size_t len;
    g.sampling.temp = 0;
    ck_assert_msg(engine_open(&o, &on, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(session_create(on, &s, &e), 0);
    at = tok[0];
    ck_assert_msg(generate(s, &g, some, 4, &flown, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(engine_decode(on, tok[0] + 3, 1, 0, &text, &len, &e), 0);
    ck_assert_uint_gt(len, 0);
    g.stop = (const char *const[]){ text };
    g.n_stop = 1;
    for (int i = 0; i < 2; i++) {
        at = tok[i];
        g.want_logits = i; /* then no step is submitted early */
        session_reset(s);
        ck_assert_msg(generate(s, &g, some, 4, i ? &walked : &flown, &e) == 0, "%s", e.msg);
    }
    ck_assert_int_eq(flown.reason, GEN_STOP_STRING);
    ck_assert_uint_eq(flown.n_tokens, walked.n_tokens);
    ck_assert_mem_eq(tok[0], tok[1], walked.n_tokens * sizeof tok[0][0]);
    ck_assert_uint_eq(flown.fingerprint, walked.fingerprint);
    ck_assert_uint_eq(session_pos(s), 4 + walked.n_tokens - 1);
    free(text);
    session_destroy(s);
    engine_close(on);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("session");
    TCase *t = tcase_create("session");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, logits_are_those_of_the_last_token);
    tcase_add_test(t, what_does_not_fit_is_refused_with_figures);
    tcase_add_test(t, slots_are_limited_and_come_back);
    tcase_add_test(t, a_common_beginning_is_kept);
    tcase_add_test(t, recurrent_state_cannot_be_rewound);
    tcase_add_test(t, every_token_is_scored_in_order);
    tcase_add_test(t, a_batch_gives_each_session_its_own);
    tcase_add_test(t, a_prompt_can_be_interrupted);
    tcase_add_test(t, generation_ends_by_context_length_or_interruption);
    tcase_add_test(t, the_tier_chooses_the_next_token);
    tcase_add_test(t, a_token_follows_the_other);
    tcase_add_test(t, a_prompt_gives_the_same_bits_however_much_of_it_was_there);
    tcase_add_test(t, generations_take_turns);
    tcase_add_test(t, an_answer_ends_with_a_step_in_flight);
    tcase_add_test(t, bad_options_are_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
