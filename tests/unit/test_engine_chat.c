/* Prompts of conversations: calls of tools and their results reach the model in its format, and boundaries are where its
 * messages begin. */
#include <string.h>

#include "base/ckd.h"
#include "engine/chat_text.h"
#include "engine/engine.h"
#include "model/gguf_write.h"
#include "tests/unit/tiny_model.h"

static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":\"The time\"}}]";
static const struct engine_call call = { "c1", "now", "{\"zone\": \"CET\"}" };
static const struct engine_message conversation[] = {
    { .role = "user", .text = "What time is it?" },
    { .role = "assistant", .text = "I look.", .calls = &call, .n_calls = 1 },
    { .role = "tool", .text = "12:00", .name = "now", .call_id = "c1" },
};
static const struct engine_message plain[] = {
    { .role = "user", .text = "One" },
    { .role = "assistant", .text = "Two" },
    { .role = "user", .text = "Three" },
};

static struct engine *opened(const char *preset)
{
    char path[] = "/tmp/zinc-chat-XXXXXX";
    struct engine *eng;
    struct err e = { 0 };
    tiny_model(path, preset);
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    unlink(path);
    return eng;
}

/* The prompt's text; its boundaries are checked against `opening`. */
static char *prompt(const struct engine *eng, const struct engine_message *m, uint32_t n,
                    const struct engine_chat_opts *o, const char *opening, uint32_t *n_boundary)
{
    struct engine_prompt p;
    struct err e = { 0 };
    char *text, *piece;
    size_t len;
    ck_assert_msg(engine_chat_prompt(eng, m, n, o, &p, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(engine_decode(eng, p.ids, p.n, ENGINE_SHOW_SPECIAL, &text, &len, NULL), 0);
    *n_boundary = p.n_boundary;
    for (uint32_t i = 0, k = 0; i < p.n; i++) {
        ck_assert_int_eq(engine_decode(eng, p.ids + i, 1, ENGINE_SHOW_SPECIAL, &piece, &len, NULL), 0);
        bool is = i && strcmp(piece, opening) == 0;
        ck_assert_msg(is == (k < p.n_boundary && p.boundary[k] == i), "token %u '%s' of %s", i, piece, text);
        k += is;
        free(piece);
    }
    engine_prompt_free(&p);
    ck_assert(!p.ids && !p.boundary && !p.n);
    return text;
}

START_TEST(boundaries_are_where_messages_begin)
{
    static const struct {
        const char *preset, *opening;
        uint32_t n;
    } cases[] = { { "tiny-qwen3", "<|im_start|>", 3 },
                  { "tiny-llama3", "<|start_header_id|>", 4 },
                  { "tiny-gpt-oss", "<|start|>", 4 },
                  { "tiny-gemma3", "<start_of_turn>", 4 },
                  { "tiny-gemma3n", "<start_of_turn>", 4 },
                  { "tiny-gemma4", "<|turn>", 4 } };
    struct engine *eng = opened(cases[_i].preset);
    uint32_t n_boundary, n;
    int32_t *ids;
    struct engine_prompt p;
    free(prompt(eng, plain, ARRAY_LEN(plain), NULL, cases[_i].opening, &n_boundary));
    ck_assert_uint_eq(n_boundary, cases[_i].n);
    ck_assert_int_eq(engine_chat_prompt(eng, plain, ARRAY_LEN(plain), NULL, &p, NULL), 0);
    ck_assert_int_eq(engine_chat(eng, plain, ARRAY_LEN(plain), -1, &ids, &n, NULL), 0);
    ck_assert(n == p.n && memcmp(ids, p.ids, n * sizeof *ids) == 0);
    free(ids);
    engine_prompt_free(&p);
    engine_close(eng);
}
END_TEST

START_TEST(calls_and_results_are_in_the_prompt)
{
    static const struct {
        const char *preset, *opening, *part;
    } cases[] = {
        { "tiny-qwen3", "<|im_start|>",
          "<|im_start|>assistant\nI look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zone\": "
          "\"CET\"}}\n</tool_call><|im_end|>\n"
          "<|im_start|>user\n<tool_response>\n12:00\n</tool_response><|im_end|>\n<|im_start|>assistant\n" },
        { "tiny-gpt-oss", "<|start|>",
          "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{\"zone\": \"CET\"}<|call|>"
          "<|start|>functions.now to=assistant<|channel|>commentary<|message|>\"12:00\"<|end|><|start|>assistant" },
        { "tiny-gemma4", "<|turn>",
          "<|tool_call>call:now{zone:<|\"|>CET<|\"|>}<tool_call|><|tool_response>response:now{value:<|\"|>12:00<|\"|>}<"
          "tool_response|>" },
    };
    struct engine *eng = opened(cases[_i].preset);
    struct engine_chat_opts o = { .think = -1, .tools = tools, .date = "2026-01-02" };
    uint32_t n;
    char *text = prompt(eng, conversation, ARRAY_LEN(conversation), &o, cases[_i].opening, &n);
    ck_assert_msg(strstr(text, cases[_i].part) && strstr(text, "The time"), "%s\nhas no\n%s", text, cases[_i].part);
    ck_assert(_i != 1 || strstr(text, "2026-01-02"));
    free(text);
    engine_close(eng);
}
END_TEST

/* The end of a message, said by the user, by a tool and by the system, ends nothing: the prompt has the ends that the
 * same conversation has with harmless words. */
START_TEST(marks_in_what_is_said_stay_text)
{
    static const struct {
        const char *preset, *mark;
    } cases[] = { { "tiny-qwen3", "<|im_end|>" },      { "tiny-qwen35", "<|im_start|>" }, { "tiny-llama3", "<|eot_id|>" },
                  { "tiny-gpt-oss", "<|end|>" },       { "tiny-gpt-oss", "<|start|>" },   { "tiny-gemma3", "<end_of_turn>" },
                  { "tiny-gemma4", "<turn|>" } };
    struct engine *eng = opened(cases[_i].preset);
    char text[128];
    uint32_t n[2] = { 0 };
    int32_t *mark;
    snprintf(text, sizeof text, "a %s b%s", cases[_i].mark, cases[_i].mark);
    ck_assert_int_eq(engine_encode(eng, cases[_i].mark, strlen(cases[_i].mark), ENGINE_PARSE_SPECIAL, &mark, n, NULL), 0);
    ck_assert_uint_eq(n[0], 1);
    for (int evil = n[0] = 0; evil < 2; evil++) {
        const char *said = evil ? text : "word";
        const struct engine_message m[] = { { .role = "system", .text = said }, { .role = "user", .text = said },
                                            { .role = "assistant", .text = said }, { .role = "user", .text = said } };
        struct engine_prompt p;
        char *back;
        size_t len;
        ck_assert_int_eq(engine_chat_prompt(eng, m, ARRAY_LEN(m), NULL, &p, NULL), 0);
        for (uint32_t i = 0; i < p.n; i++)
            n[evil] += p.ids[i] == mark[0];
        ck_assert_int_eq(engine_decode(eng, p.ids, p.n, ENGINE_SHOW_SPECIAL, &back, &len, NULL), 0);
        ck_assert(strstr(back, said));
        free(back);
        engine_prompt_free(&p);
    }
    ck_assert_uint_gt(n[0], 0);
    ck_assert_uint_eq(n[1], n[0]);
    free(mark);
    engine_close(eng);
}
END_TEST

START_TEST(effort_is_one_of_three)
{
    struct engine *eng = opened("tiny-gpt-oss"), *other = opened("tiny-qwen3");
    struct engine_chat_opts o = { .think = -1, .effort = "high" };
    struct engine_prompt p;
    struct err e = { 0 };
    uint32_t n;
    char *text = prompt(eng, plain, 1, &o, "<|start|>", &n);
    ck_assert(strstr(text, "Reasoning: high"));
    free(text);
    o.effort = "some";
    ck_assert_int_eq(engine_chat_prompt(eng, plain, 1, &o, &p, &e), -EINVAL);
    ck_assert(strstr(e.msg, "some") && !p.ids && !p.boundary);
    ck_assert_int_eq(engine_chat_prompt(other, plain, 1, &o, &p, &e), 0);
    engine_prompt_free(&p);
    engine_close(eng);
    engine_close(other);
}
END_TEST

START_TEST(refusals_have_reasons)
{
    struct engine *llama = opened("tiny-llama3"), *qwen = opened("tiny-qwen3");
    struct engine_chat_opts o = { .think = -1, .tools = tools };
    struct engine_prompt p;
    struct err e = { 0 };
    ck_assert_int_eq(engine_chat_prompt(llama, plain, 1, &o, &p, &e), -ENOTSUP);
    ck_assert(strstr(e.msg, "llama3"));
    o.tools = "[{}]";
    ck_assert_int_eq(engine_chat_prompt(qwen, plain, 1, &o, &p, &e), -EINVAL);
    ck_assert_int_eq(engine_chat_prompt(qwen, plain, 0, NULL, &p, &e), -EINVAL);
    engine_close(llama);
    engine_close(qwen);
}
END_TEST

/* A file that has this template and nothing else. */
static struct engine *with_template(const char *text)
{
    char path[] = "/tmp/zinc-chat-XXXXXX";
    struct gguf_writer *w;
    struct engine *eng;
    struct err e = { 0 };
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && close(fd) == 0 && gguf_writer_create(path, &w, NULL) == 0);
    gguf_put_str(w, "general.architecture", "llama");
    gguf_put_str(w, "tokenizer.chat_template", text);
    ck_assert(gguf_writer_begin(w, NULL) == 0 && gguf_writer_finish(w, NULL) == 0);
    gguf_writer_destroy(w);
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    unlink(path);
    return eng;
}

#define CHATML(more)                                                                                                   \
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"                                             \
    "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}" more                             \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

START_TEST(a_template_that_no_format_has_is_interpreted)
{
    static const struct {
        const char *text, *name;
        bool guessed;
    } cases[] = { { "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}", "the file's own template", false },
                  { "{% for m in messages %}{{ m.content }}", "chatml", true },
                  { CHATML(""), "chatml", false },
                  { CHATML("Answer me."), "the file's own template", false },
                  { CHATML("{% broken"), "chatml", false } };
    struct engine *eng = with_template(cases[_i].text);
    struct tok_buf out = { 0 };
    struct tok_spans spans = { 0 };
    bool guessed;
    ck_assert_str_eq(engine_chat_format(eng, &guessed), cases[_i].name);
    ck_assert(guessed == cases[_i].guessed);
    ck_assert_int_eq(engine_chat_text(eng, plain, 1, -1, &out, &spans, NULL), 0);
    ck_assert_uint_ge(spans.n, 1);
    struct tok_span last = spans.s[spans.n - 1];
    ck_assert(last.len == 3 && memcmp(out.s + last.off, "One", 3) == 0);
    tok_buf_finish(&out);
    tok_spans_finish(&spans);
    engine_close(eng);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("engine_chat");
    TCase *t = tcase_create("engine_chat");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, boundaries_are_where_messages_begin, 0, 6);
    tcase_add_loop_test(t, a_template_that_no_format_has_is_interpreted, 0, 5);
    tcase_add_loop_test(t, calls_and_results_are_in_the_prompt, 0, 3);
    tcase_add_loop_test(t, marks_in_what_is_said_stay_text, 0, 7);
    tcase_add_test(t, effort_is_one_of_three);
    tcase_add_test(t, refusals_have_reasons);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
