/* continue_final_message: the prompt ends inside the assistant's last message, and the answer is what follows, to the
 * byte, in every chat format. The functions of engine/serve/sched.h are defined here: they say what the test wants. */
#include "tests/unit/test_api.h"

#include <stdlib.h>

#include "base/ckd.h"
#include "tests/unit/tiny_model.h"

static struct {
    const char *text;
    size_t piece;        /* bytes of one take          */
    char *prompt;        /* of the newest request      */
    struct gen_opts gen;
} script;

struct sched_job {
    const char *text;
    struct sched_request r;
    struct sched_token token;
};

static struct engine *eng;
static struct api_bench b;
static char path[64];

int sched_submit(struct sched *s, const struct sched_request *r, struct sched_job **out, uint32_t *retry_s,
                 struct err *e)
{
    size_t len;
    (void)s, (void)retry_s;
    struct sched_job *j = calloc(1, sizeof *j);
    *j = (struct sched_job){ .text = script.text, .r = *r };
    script.gen = r->gen;
    free(script.prompt);
    ck_assert_int_eq(engine_decode(eng, r->prompt, r->n_prompt, ENGINE_SHOW_SPECIAL, &script.prompt, &len, e), 0);
    *out = j;
    return 0;
}

void sched_take(struct sched_job *j, struct sched_out *out)
{
    size_t n = MIN(strlen(j->text), script.piece);
    j->token = (struct sched_token){ .id = 5, .text_end = (uint32_t)n };
    *out = (struct sched_out){ .text = j->text, .n_text = n, .tokens = &j->token, .n_tokens = 1 };
    j->text += n;
    if (!*j->text) {
        out->end = SCHED_OK;
        out->result = (struct gen_result){ .reason = GEN_EOG, .n_tokens = 3, .n_prompt = j->r.n_prompt };
    }
    j->r.wake(j->r.user);
}

void sched_release(struct sched_job *j)
{
    free(j);
}

int sched_check(const struct sched *s, const struct sched_request *r, struct err *e)
{
    (void)s, (void)r, (void)e;
    return 0;
}

struct sched_stats sched_stats(const struct sched *s)
{
    (void)s;
    return (struct sched_stats){ 0 };
}

void sched_cancel(struct sched_job *j)
{
    (void)j;
}

static const struct {
    const char *preset, *end, *more;
} cases[] = {
    { "tiny-qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\nThe answer is", "" },
    { "tiny-qwen35", "<|im_start|>assistant\n<think>\n\n</think>\n\nThe answer is", "" },
    { "tiny-qwen35", "<|im_start|>assistant\n<think>\n\n</think>\n\nThe answer is", ",'enable_thinking':false" },
    { "tiny-qwen35", "<|im_start|>assistant\n<think>\nHm\n</think>\n\nThe answer is", ",'enable_thinking':true" },
    { "tiny-llama3", "<|start_header_id|>assistant<|end_header_id|>\n\nThe answer is", "" },
    { "tiny-gpt-oss", "<|start|>assistant<|channel|>final<|message|>The answer is", "" },
    { "tiny-gemma3", "<start_of_turn>model\nThe answer is", "" },
    { "tiny-gemma4", "<|turn>model\nThe answer is", "" },
    { "tiny-gemma4", "<|turn>model\nThe answer is", ",'reasoning_effort':'high'" },
};

static void open_model(const char *preset)
{
    struct err e = { 0 };
    snprintf(path, sizeof path, "/tmp/zinc-api-XXXXXX");
    tiny_model(path, preset);
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    struct api_opts o = { .eng = eng, .sampling = sampler_defaults(), .think = -1, .think_budget = 7 };
    ck_assert_msg(api_create(&o, &b.api, &e) == 0, "%s", e.msg);
}

static void close_model(void)
{
    api_destroy(b.api);
    engine_close(eng);
    unlink(path);
    free(script.prompt);
    script.prompt = NULL;
}

START_TEST(the_answer_is_what_follows)
{
    static const char *const said[] = { " 42.\n\nNo, 43 ", "x", "\n", ": <b>" };
    const char *reasoning = strstr(cases[_i].end, "Hm") ? ",'reasoning_content':'Hm'" : "", *end = cases[_i].end;
    char body[512];
    open_model(cases[_i].preset);
    for (size_t i = 0; i < 2 * ARRAY_LEN(said); i++) {
        script.text = said[i / 2];
        script.piece = i % 2 ? 1 : 100;
        snprintf(body, sizeof body,
                 "{'messages':[{'role':'user','content':'?'},{'role':'assistant','content':'The answer is'%s}],"
                 "'continue_final_message':true,'add_generation_prompt':false%s}", reasoning, cases[_i].more);
        json_t *v = call_json(&b, "POST", "/v1/chat/completions", body, 200);
        size_t n = strlen(script.prompt);
        ck_assert_msg(n > strlen(end) && strcmp(script.prompt + n - strlen(end), end) == 0, "%s", script.prompt);
        ck_assert_str_eq(str_at(v, "choices.0.message.content"), said[i / 2]);
        ck_assert_ptr_null(at(v, "choices.0.message.reasoning_content"));
        ck_assert_ptr_null(script.gen.chat);
        json_decref(v);
        snprintf(body + strlen(body) - 1, 32, ",'stream':true}");
        v = call_events(&b, "/v1/chat/completions", body, 512);
        char *content = join_events(v, 0, "delta.content");
        ck_assert_str_eq(content, said[i / 2]);
        free(content);
        json_decref(v);
    }
    close_model();
}
END_TEST

/* Without the field, an assistant's message at the end is history, and a new one begins. */
START_TEST(without_it_a_new_message_begins)
{
    open_model("tiny-llama3");
    script.text = "B";
    script.piece = 10;
    json_decref(call_json(&b, "POST", "/v1/chat/completions",
                          "{'messages':[{'role':'user','content':'?'},{'role':'assistant','content':'A'}]}", 200));
    const char *end = "A<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n";
    ck_assert_msg(strstr(script.prompt, end) && strlen(strstr(script.prompt, end)) == strlen(end), "%s", script.prompt);
    close_model();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_continue");
    TCase *t = tcase_create("api_continue");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, the_answer_is_what_follows, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(t, without_it_a_new_message_begins);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
