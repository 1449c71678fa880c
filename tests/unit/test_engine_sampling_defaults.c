/* The sampling defaults that a model's file brings: they replace ours, never the user's, and nonsense is left out. */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "model/gguf_write.h"

static char path[] = "/tmp/zinc-def-XXXXXX";
static struct engine *eng;

static void setup(void)
{
    struct gguf_writer *w;
    struct err e = { 0 };
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_msg(gguf_writer_create(path, &w, &e) == 0, "%s", e.msg);
    gguf_put_str(w, "general.architecture", "llama");
    gguf_put_i32(w, "general.sampling.top_k", 64);
    gguf_put_f32(w, "general.sampling.temp", 1.5f);
    gguf_put_f32(w, "general.sampling.top_p", 0.5f);
    gguf_put_f32(w, "general.sampling.min_p", 7);             /* out of range */
    gguf_put_f32(w, "general.sampling.penalty_repeat", 1e30f); /* and far out  */
    gguf_put_str(w, "general.sampling.xtc_probability", "1"); /* not a number */
    gguf_put_u64(w, "general.sampling.penalty_last_n", 1ull << 60);
    ck_assert_msg(gguf_writer_begin(w, &e) == 0 && gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    gguf_writer_destroy(w);
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
}

static void teardown(void)
{
    engine_close(eng);
    unlink(path);
}

START_TEST(the_file_replaces_our_defaults)
{
    struct sampler_params p = sampler_defaults();
    engine_sampling_defaults(eng, &p);
    ck_assert_int_eq(p.top_k, 64);
    ck_assert_float_eq(p.temp, 1.5f);
    ck_assert_float_eq(p.top_p, 0.5f);
}
END_TEST

START_TEST(the_user_comes_first)
{
    struct sampler_params p = sampler_defaults();
    p.temp = 0;
    p.set = 1u << SAMPLER_temp;
    engine_sampling_defaults(eng, &p);
    ck_assert_float_eq(p.temp, 0);
    ck_assert_int_eq(p.top_k, 64);
}
END_TEST

START_TEST(nonsense_is_left_out)
{
    struct sampler_params p = sampler_defaults(), d = p;
    engine_sampling_defaults(eng, &p);
    ck_assert_float_eq(p.min_p, d.min_p);
    ck_assert_float_eq(p.repeat_penalty, d.repeat_penalty);
    ck_assert_float_eq(p.xtc_probability, d.xtc_probability);
    ck_assert_int_eq(p.repeat_last_n, d.repeat_last_n);
    ck_assert_int_eq(sampler_check(&p, NULL), 0);
}
END_TEST

START_TEST(without_a_vocabulary_text_is_refused_with_the_reason)
{
    struct err e = { 0 };
    int32_t *ids;
    uint32_t n;
    ck_assert(!engine_info(eng)->has_vocab);
    ck_assert_int_lt(engine_encode(eng, "x", 1, 0, &ids, &n, &e), 0);
    ck_assert_str_ne(e.msg, "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampling defaults");
    TCase *t = tcase_create("sampling defaults");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_add_test(t, the_file_replaces_our_defaults);
    tcase_add_test(t, the_user_comes_first);
    tcase_add_test(t, nonsense_is_left_out);
    tcase_add_test(t, without_a_vocabulary_text_is_refused_with_the_reason);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
