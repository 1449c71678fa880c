/* Conversations: what a turn evaluates again, what it keeps, and what happens to messages when it fails. On the null
 * tier, whose answers are noise that does not matter here. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/dialog.h"
#include "tests/unit/tiny_model.h"

static struct engine *attn, *recurrent;
static char path[] = "/tmp/zinc-dia-XXXXXX", path_r[] = "/tmp/zinc-dir-XXXXXX";

static void setup(void)
{
    struct err e = { 0 };
    struct engine_opts o = { .tier = "null", .n_ctx = 256 };
    tiny_model(path, "tiny-qwen3");
    tiny_model(path_r, "tiny-qwen35");
    o.path = path;
    ck_assert_msg(engine_open(&o, &attn, &e) == 0, "%s", e.msg);
    o.path = path_r;
    ck_assert_msg(engine_open(&o, &recurrent, &e) == 0, "%s", e.msg);
}

static void teardown(void)
{
    engine_close(attn);
    engine_close(recurrent);
    unlink(path);
    unlink(path_r);
}

static struct gen_opts limit(uint32_t n)
{
    struct gen_opts o = { .sampling = sampler_defaults(), .n_max = n };
    o.sampling.temp = 0;
    o.ignore_eos = true;
    return o;
}

static struct dialog *start(struct engine *eng, const char *system, struct session **s)
{
    struct dialog *d;
    struct err e = { 0 };
    ck_assert_int_eq(session_create(eng, s, &e), 0);
    ck_assert_msg(dialog_create(*s, system, 0, &d, &e) == 0, "%s", e.msg);
    return d;
}

/* A turn taken back is as if it had not been: the next one gets the answer that it would have got. */
START_TEST(undo_goes_back_a_turn)
{
    struct engine *const eng[] = { attn, recurrent };
    struct gen_opts o = limit(8);
    struct gen_result r;
    struct err e = { 0 };
    struct session *s;
    struct dialog *d = start(eng[_i], "Be brief.", &s);
    ck_assert_int_eq(dialog_undo(d, &e), -ENOENT);
    ck_assert_int_eq(dialog_say(d, "Hello", &o, NULL, NULL, &r, &e), 0);
    ck_assert_int_eq(dialog_say(d, "one", &o, NULL, NULL, &r, &e), 0);
    ck_assert_int_eq(dialog_undo(d, &e), 0);
    ck_assert_uint_eq(dialog_n_messages(d), 3);
    ck_assert_int_eq(dialog_say(d, "two", &o, NULL, NULL, &r, &e), 0);
    ck_assert_str_eq(dialog_message(d, 3)->text, "two");
    ck_assert_uint_eq(r.n_prompt, session_pos(s) - r.n_decoded);
    uint32_t n = r.n_prompt;
    ck_assert_int_eq(dialog_undo(d, &e), 0);
    ck_assert_int_eq(dialog_say(d, "two", &o, NULL, NULL, &r, &e), 0);
    ck_assert_uint_eq(r.n_prompt, n);
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

START_TEST(a_conversation_can_be_loaded)
{
    const struct engine_message m[] = { { .role = "system", .text = "Be brief." },
                                        { .role = "user", .text = "Hello" },
                                        { .role = "assistant", .text = "Hi", .reasoning = "hm" },
                                        { .role = "tool", .text = "x" } };
    struct gen_opts o = limit(8);
    struct gen_result r;
    struct err e = { 0 };
    struct session *s;
    struct dialog *d = start(attn, NULL, &s);
    ck_assert_int_eq(dialog_load(d, m, 3, &e), 0);
    ck_assert_uint_eq(dialog_n_messages(d), 3);
    ck_assert_str_eq(dialog_system(d), "Be brief.");
    ck_assert_str_eq(dialog_message(d, 2)->reasoning, "hm");
    ck_assert_int_eq(dialog_load(d, m, 4, &e), -EINVAL); /* a tool, where the user is due */
    ck_assert_int_eq(dialog_load(d, m, 2, &e), -EINVAL); /* no answer */
    ck_assert_uint_eq(dialog_n_messages(d), 3);
    ck_assert_int_eq(dialog_say(d, "And now?", &o, NULL, NULL, &r, &e), 0);
    ck_assert_uint_eq(dialog_n_messages(d), 5);
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

START_TEST(attention_models_keep_the_common_beginning)
{
    struct session *s;
    struct dialog *d = start(attn, "Be brief.", &s);
    struct gen_opts o = limit(12);
    struct gen_result r;
    struct err e = { 0 };
    ck_assert_msg(dialog_say(d, "Hello", &o, NULL, NULL, &r, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(r.n_reused, 0);
    uint32_t first = r.n_prompt;
    ck_assert_msg(dialog_say(d, "And now?", &o, NULL, NULL, &r, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(r.n_prompt, first);
    ck_assert_uint_gt(r.n_reused, first / 2); /* up to where the format drops the empty reasoning */
    ck_assert_uint_eq(dialog_n_messages(d), 5);
    ck_assert_int_eq(dialog_reset(d, dialog_system(d), &e), 0);
    ck_assert_str_eq(dialog_system(d), "Be brief.");
    ck_assert_uint_eq(session_pos(s), 0);
    ck_assert_msg(dialog_say(d, "Hello", &o, NULL, NULL, &r, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(r.n_prompt, first);
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

START_TEST(recurrent_models_only_append)
{
    struct session *s;
    struct dialog *d = start(recurrent, NULL, &s);
    struct gen_opts o = limit(12);
    struct gen_result r;
    struct err e = { 0 };
    for (int turn = 0; turn < 4; turn++) {
        uint32_t pos = session_pos(s);
        ck_assert_msg(dialog_say(d, "What is this?", &o, NULL, NULL, &r, &e) == 0, "%s", e.msg);
        ck_assert_msg(r.n_reused == pos, "turn %d: %u of %u tokens kept", turn, r.n_reused, pos);
        ck_assert_uint_eq(session_pos(s), r.n_prompt + r.n_decoded);
    }
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

START_TEST(a_message_that_does_not_fit_is_taken_back)
{
    struct session *s;
    struct dialog *d = start(attn, NULL, &s);
    struct gen_opts o = limit(4);
    struct gen_result r;
    struct err e = { 0 };
    char *text = malloc(4001);
    memset(text, 'a', 4000);
    text[4000] = 0;
    ck_assert_int_eq(dialog_say(d, "Hello", &o, NULL, NULL, &r, &e), 0);
    ck_assert_int_eq(dialog_say(d, text, &o, NULL, NULL, &r, &e), -E2BIG);
    ck_assert_msg(strstr(e.msg, "--ctx"), "%s", e.msg);
    ck_assert_uint_eq(dialog_n_messages(d), 2);
    ck_assert_int_eq(dialog_say(d, "Hello", &o, NULL, NULL, &r, &e), 0);
    ck_assert_uint_eq(dialog_n_messages(d), 4);
    free(text);
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

static int count_answer(void *user, enum answer_part part, const char *text, size_t n)
{
    (void)text;
    ck_assert_int_eq(part, ANSWER_PART_TEXT);
    *(size_t *)user += n;
    return 0;
}

START_TEST(the_answer_is_what_was_passed_on)
{
    struct session *s;
    struct dialog *d = start(attn, NULL, &s);
    struct gen_opts o = limit(30);
    struct gen_result r;
    struct err e = { 0 };
    size_t n = 0;
    ck_assert_int_eq(dialog_say(d, "Hello", &o, count_answer, &n, &r, &e), 0);
    ck_assert_uint_eq(strlen(dialog_answer(d)), n);
    ck_assert_uint_eq(r.n_tokens, 30);
    dialog_destroy(d);
    session_destroy(s);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("dialog");
    TCase *t = tcase_create("dialog");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, undo_goes_back_a_turn, 0, 2);
    tcase_add_test(t, a_conversation_can_be_loaded);
    tcase_add_test(t, attention_models_keep_the_common_beginning);
    tcase_add_test(t, recurrent_models_only_append);
    tcase_add_test(t, a_message_that_does_not_fit_is_taken_back);
    tcase_add_test(t, the_answer_is_what_was_passed_on);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
