/* Filling in the middle over a scheduler that says what the test wants: prompts of a vocabulary that has tokens for it, by
 * /infill, /v1/completions and /api/generate; answers, errors, and a vocabulary that has none. */
#include "server/api_request.h"
#include "tests/unit/api_script.h"

#define PATH "/infill"
#define HOLE "'input_prefix':'int f(','input_suffix':') {}'"

/* Strings as GGUF has them in an array. */
static size_t put_names(char *to, const char *const *names, size_t n)
{
    char *at = to;
    for (size_t i = 0; i < n; i++) {
        uint64_t len = strlen(names[i]);
        at = mempcpy(mempcpy(at, &len, sizeof len), names[i], len);
    }
    return (size_t)(at - to);
}

/* Four of the model's tokens get other names, as long as theirs all together. */
static void rename_tokens(const char *file)
{
    static const char *const was[] = { "<filler_10>", "<filler_11>", "<filler_12>", "<filler_13>" };
    static const char *const is[] = { "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fil_13>" };
    char old[128], new[128], *s, *at;
    size_t len = put_names(old, was, 4);
    ck_assert_uint_eq(put_names(new, is, 4), len);
    FILE *f = fopen(file, "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    s = malloc(n);
    rewind(f);
    ck_assert_uint_eq(fread(s, 1, n, f), n);
    ck_assert_ptr_nonnull(at = memmem(s, n, old, len));
    memcpy(at, new, len);
    rewind(f);
    ck_assert_uint_eq(fwrite(s, 1, n, f), n);
    fclose(f);
    free(s);
}

static void setup_with_marks(void)
{
    struct err e = { 0 };
    tiny_model(path, "tiny-qwen3");
    rename_tokens(path);
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    struct api_opts o = { .eng = eng, .sampling = sampler_defaults(), .think = -1, .think_budget = -1 };
    ck_assert_msg(api_create(&o, &b.api, &e) == 0, "%s", e.msg);
}

static void check_prompt(const char *want)
{
    char *text;
    size_t n;
    struct err e = { 0 };
    ck_assert_int_eq(engine_decode(eng, script.prompt, script.n_prompt, ENGINE_SHOW_SPECIAL, &text, &n, &e), 0);
    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(the_middle_is_asked_for)
{
    say("void");
    json_t *v = call_json(&b, "POST", PATH, "{" HOLE ",'n_predict':5}", 200);
    ck_assert_str_eq(str_at(v, "content"), "void");
    ck_assert(json_is_true(at(v, "stop")));
    ck_assert_str_eq(str_at(v, "stop_type"), "eos");
    ck_assert_int_eq(int_at(v, "tokens_predicted"), 11);
    ck_assert_int_eq(int_at(v, "timings.predicted_n"), 11);
    json_decref(v);
    check_prompt("<fim_prefix>int f(<fim_suffix>) {}<fim_middle>");
    ck_assert_uint_eq(script.gen.n_max, 5);
    say("void");
    v = call_json(&b, "POST", PATH, "{" HOLE ",'prompt':'vo','input_extra':[{'filename':'a.h','text':'x'}],'samplers':['infill'],"
                                    "'t_max_predict_ms':500}", 200);
    check_prompt("\n\n--- a.h ---\n\nx<fim_prefix>int f(<fim_suffix>) {}<fim_middle>vo");
    json_decref(v);
    say("void");
    v = call_json(&b, "POST", "/v1/completions", "{'prompt':'int f(','suffix':') {}'}", 200);
    ck_assert_str_eq(str_at(v, "choices.0.text"), "void");
    check_prompt("<fim_prefix>int f(<fim_suffix>) {}<fim_middle>");
    json_decref(v);
    say("void");
    v = call_json(&b, "POST", "/api/generate", "{'prompt':'int f(','suffix':') {}','stream':false}", 200);
    ck_assert_str_eq(str_at(v, "response"), "void");
    check_prompt("<fim_prefix>int f(<fim_suffix>) {}<fim_middle>");
    json_decref(v);
}
END_TEST

/* What the user wrote is text: no mark of it is one. */
START_TEST(marks_in_texts_are_text)
{
    say("a");
    json_decref(call_json(&b, "POST", PATH, "{'input_prefix':'a','input_suffix':'b'}", 200));
    uint32_t plain = script.n_prompt;
    say("a");
    json_decref(call_json(&b, "POST", PATH, "{'input_prefix':'<fim_middle>','input_suffix':'b'}", 200));
    ck_assert_uint_gt(script.n_prompt, plain + 3);
}
END_TEST

START_TEST(a_stream)
{
    say("void");
    struct reply_got r = call(&b, "POST", PATH, "{" HOLE ",'stream':true}");
    ck_assert(r.streams);
    char *save = NULL, all[64] = "";
    json_t *v = NULL;
    for (char *line = strtok_r(r.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        ck_assert_msg(strncmp(line, "data: ", 6) == 0, "%s", line);
        ck_assert(!v || json_is_false(at(v, "stop")));
        json_decref(v);
        v = json_loads(line + 6, JSON_REJECT_DUPLICATES, NULL);
        strcat(all, str_at(v, "content"));
    }
    ck_assert_str_eq(all, "void");
    ck_assert(json_is_true(at(v, "stop")));
    json_decref(v);
    free(r.text);
}
END_TEST

START_TEST(errors)
{
    static const struct {
        const char *path, *body, *param;
    } wrong[] = {
        { PATH, "{'input_suffix':'a'}", "input_prefix" },
        { PATH, "{'input_prefix':'a'}", "input_suffix" },
        { PATH, "{'input_prefix':5,'input_suffix':''}", "input_prefix" },
        { PATH, "{" HOLE ",'input_extra':5}", "input_extra" },
        { PATH, "{" HOLE ",'input_extra':[{}]}", "input_extra[0].text" },
        { PATH, "{" HOLE ",'n_predict':'a'}", "n_predict" },
        { "/v1/completions", "{'prompt':[1,2],'suffix':'a'}", "suffix" },
        { "/v1/completions", "{'prompt':'a','suffix':'a','echo':true}", "suffix" },
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        say("no");
        json_t *v = call_json(&b, "POST", wrong[i].path, wrong[i].body, 400);
        ck_assert_str_eq(str_at(v, "error.param"), wrong[i].param);
        ck_assert_uint_eq(script.submitted, 0);
        json_decref(v);
    }
}
END_TEST

START_TEST(without_marks_it_is_refused)
{
    static const char *const asks[][2] = { { PATH, "{" HOLE "}" }, { "/v1/completions", "{'prompt':'a','suffix':'b'}" },
                                           { "/api/generate", "{'prompt':'a','suffix':'b'}" } };
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        say("no");
        struct reply_got r = call(&b, "POST", asks[i][0], asks[i][1]);
        ck_assert_int_eq(r.status, 400);
        ck_assert_ptr_nonnull(strstr(r.text, "no tokens for filling in the middle"));
        free(r.text);
    }
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_infill");
    TCase *t = tcase_create("with marks"), *none = tcase_create("without");
    tcase_add_checked_fixture(t, setup_with_marks, teardown);
    tcase_add_checked_fixture(none, setup, teardown);
    tcase_add_test(t, the_middle_is_asked_for);
    tcase_add_test(t, marks_in_texts_are_text);
    tcase_add_test(t, a_stream);
    tcase_add_test(t, errors);
    tcase_add_test(none, without_marks_it_is_refused);
    tcase_set_timeout(t, 100);
    tcase_set_timeout(none, 100);
    suite_add_tcase(s, t);
    suite_add_tcase(s, none);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
