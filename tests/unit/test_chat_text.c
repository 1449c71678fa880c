/* Conversations rendered by every chat format equal what the family's own template makes of them: the cases are the
 * JSON files in data/chat, written by data/chat/make.py. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/chat.h"
#include "tests/lib/skip.h"

enum { MAX_MESSAGES = 32, MAX_CALLS = 4 };

struct conversation {
    struct chat_msg msg[MAX_MESSAGES];
    struct chat_call call[MAX_MESSAGES][MAX_CALLS];
    size_t n;
};

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void read_messages(const json_t *list, struct conversation *c)
{
    const json_t *m, *call;
    size_t i, k;

    *c = (struct conversation){.n = json_array_size(list)};
    ck_assert_uint_le(c->n, MAX_MESSAGES);
    json_array_foreach(list, i, m)
    {
        const json_t *calls = json_object_get(m, "tool_calls");
        json_array_foreach(calls, k, call)
        {
            const json_t *f = json_object_get(call, "function");
            c->call[i][k] = (struct chat_call){str(call, "id"), str(f, "name"), str(f, "arguments")};
        }
        c->msg[i] = (struct chat_msg){.role = str(m, "role"),
                                      .content = str(m, "content"),
                                      .reasoning = str(m, "reasoning_content"),
                                      .calls = c->call[i],
                                      .n_calls = json_array_size(calls),
                                      .name = str(m, "name"),
                                      .tool_call_id = str(m, "tool_call_id")};
    }
}

static void check_case(const struct chat_template *tpl, const json_t *c)
{
    struct conversation conv;
    const json_t *think = json_object_get(c, "enable_thinking"), *tools = json_object_get(c, "tools");
    char *tool_text = tools ? json_dumps(tools, 0) : NULL;
    struct chat_opts opts = {
        .thinking = !think                ? CHAT_THINK_DEFAULT
                    : json_is_true(think) ? CHAT_THINK_ON
                                          : CHAT_THINK_OFF,
        .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt")),
        .tools = tool_text,
        .date = tpl->format == CHAT_GPT_OSS                   ? "2025-08-01"
                : tpl->file && tpl->format == CHAT_LLAMA31 ? "2024-07-26" /* what the format says by itself */
                                                           : NULL,
    };
    struct tok_buf out = {0};
    struct err e = {0};
    const char *name = chat_format_info(tpl->format)->name, *want = str(c, "text");
    int rc;

    if (!want && tpl->file)
        goto out; /* what the format has no place for is put elsewhere there */
    read_messages(json_object_get(c, "messages"), &conv);
    rc = chat_render(tpl, conv.msg, conv.n, &opts, &out, &e);
    if (!want) {
        ck_assert_msg(rc == -EINVAL && e.msg[0], "%s: %s: got %d, want -EINVAL", name, str(c, "name"), rc);
    } else {
        ck_assert_msg(rc == 0, "%s: %s: %s", name, str(c, "name"), e.msg);
        ck_assert_msg(out.n == strlen(want) && memcmp(out.s, want, out.n) == 0,
                      "%s: %s\n--- got\n%.*s\n--- want\n%s\n---", name, str(c, "name"), (int)out.n, out.s,
                      want);
    }
out:
    tok_buf_finish(&out);
    free(tool_text);
}

/* The released template of a format, opened, or NULL where there is none here. */
static struct chat_file *released(enum chat_format f)
{
    static const char *const names[CHAT_FORMAT_COUNT] = {
        [CHAT_QWEN3] = "Qwen-Qwen3-0.6B",  [CHAT_QWEN3_CODER] = "Qwen3-Coder",
        [CHAT_QWEN35] = "Qwen3.5-4B",      [CHAT_LLAMA31] = "meta-llama-Llama-3.1-8B-Instruct",
        [CHAT_GPT_OSS] = "openai-gpt-oss-120b", [CHAT_GEMMA4] = "google-gemma-4-31B-it",
    };
    const char *shared = getenv("ZINC_SHARED");
    char path[512];
    static char text[1 << 16];
    struct chat_file *file = NULL;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/templates/%s.jinja", shared ? shared : "../shared", names[f] ? names[f] : "none");
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    size_t n = fread(text, 1, sizeof text, in);
    fclose(in);
    ck_assert_msg(chat_file_open(text, n, "", "", false, &file, &e) == 0, "%s: %s", path, e.msg);
    return file;
}

/* The same cases by the interpreter: what C writes and what the file says are one. */
START_TEST(equals_the_template_interpreted)
{
    struct chat_template tpl = {.format = (enum chat_format)_i};
    char path[128];
    json_t *cases, *c;
    size_t i;
    struct chat_file *file = released(tpl.format);

    if (!file) {
        if (_i == CHAT_QWEN3)
            cases_skipped(1, "no released templates (set ZINC_SHARED)");
        return;
    }
    tpl.file = file;
    snprintf(path, sizeof path, "tests/unit/data/chat/%s.json", chat_format_info(tpl.format)->name);
    cases = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(cases);
    json_array_foreach(cases, i, c) check_case(&tpl, c);
    json_decref(cases);
    chat_file_close(file);
}
END_TEST

START_TEST(equals_the_template)
{
    struct chat_template tpl = {.format = (enum chat_format)_i, .think_default = _i != CHAT_GEMMA4};
    char path[128];
    json_error_t je;
    json_t *cases, *c;
    size_t i;

    if (_i == CHAT_QWEN3_THINKING)
        return; /* qwen3 with another last line: its own test below */
    snprintf(path, sizeof path, "tests/unit/data/chat/%s.json", chat_format_info(tpl.format)->name);
    cases = json_load_file(path, 0, &je);
    ck_assert_msg(cases != NULL, "%s: %s", path, je.text);
    json_array_foreach(cases, i, c) check_case(&tpl, c);
    ck_assert_uint_ge(i, 8);
    json_decref(cases);
}
END_TEST

static const struct chat_msg hello = {.role = "user", .content = "Hello"};

static void expect(const struct chat_template *tpl, const struct chat_msg *m, size_t n,
                   const struct chat_opts *o, const char *want)
{
    struct tok_buf out = {0};
    struct err e = {0};

    ck_assert_msg(chat_render(tpl, m, n, o, &out, &e) == 0, "%s", e.msg);
    ck_assert_msg(out.n == strlen(want) && memcmp(out.s, want, out.n) == 0, "got\n%.*s\nwant\n%s", (int)out.n,
                  out.s, want);
    tok_buf_finish(&out);
}

START_TEST(a_thinking_model_begins_inside_its_thoughts)
{
    struct chat_template tpl = {.format = CHAT_QWEN3_THINKING, .think_default = true};
    struct chat_opts o = {.add_generation_prompt = true};

    expect(&tpl, &hello, 1, &o, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n");
    ck_assert(chat_prompt_opens_thinking(&tpl, &o));
    tpl.format = CHAT_QWEN35;
    ck_assert(chat_prompt_opens_thinking(&tpl, &o));
    o.thinking = CHAT_THINK_OFF;
    ck_assert(!chat_prompt_opens_thinking(&tpl, &o));
    tpl.format = CHAT_QWEN3;
    o.thinking = CHAT_THINK_ON;
    ck_assert(!chat_prompt_opens_thinking(&tpl, &o));
}
END_TEST

START_TEST(dates_and_effort_are_options)
{
    struct chat_template llama = {.format = CHAT_LLAMA31}, oss = {.format = CHAT_GPT_OSS};
    struct chat_opts o = {.date = "2026-01-05", .reasoning_effort = "high"};

    expect(&llama, &hello, 1, &o,
           "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
           "05 Jan 2026\n\n"
           "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>");
    expect(&oss, &hello, 1, &o,
           "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge "
           "cutoff: 2024-06\n"
           "Current date: 2026-01-05\n\nReasoning: high\n\n# Valid channels: analysis, commentary, final. "
           "Channel must be "
           "included for every message.<|end|><|start|>user<|message|>Hello<|end|>");
    o.date = "yesterday";
    struct tok_buf out = {0};
    ck_assert_int_eq(chat_render(&llama, &hello, 1, &o, &out, NULL), -EINVAL);
    tok_buf_finish(&out);
}
END_TEST

START_TEST(a_developer_is_a_system)
{
    struct chat_msg m[] = {{.role = "developer", .content = "Rules."}, hello};
    struct chat_opts o = {0};
    struct chat_template tpl = {.format = CHAT_QWEN3};

    expect(&tpl, m, 2, &o, "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n");
    tpl.format = CHAT_GEMMA3;
    expect(&tpl, m, 2, &o, "<start_of_turn>user\nRules.\n\nHello<end_of_turn>\n");
}
END_TEST

START_TEST(unusable_input_is_an_error)
{
    struct chat_call bad = {.name = "f", .arguments = "{not json"}, list = {.name = "f", .arguments = "[1]"};
    struct chat_msg with_bad[] = {hello, {.role = "assistant", .calls = &bad, .n_calls = 1}};
    struct chat_msg with_list[] = {hello, {.role = "assistant", .calls = &list, .n_calls = 1}};
    struct chat_msg nothing = {0};
    struct chat_opts plain = {.add_generation_prompt = true},
                     tools = {.tools = "[{\"function\":{\"name\":\"f\"}}]"}, broken = {.tools = "[{"},
                     object = {.tools = "{}"}, nameless = {.tools = "[{}]"}, empty = {.tools = "[]"};
    struct tok_buf out = {0};
    struct err e;

    for (int f = 0; f < CHAT_FORMAT_COUNT; f++) {
        struct chat_template tpl = {.format = (enum chat_format)f};
        bool no_tools = chat_format_info(tpl.format)->calls == CHAT_CALL_NONE;
        ck_assert_int_eq(chat_render(&tpl, &hello, 0, &plain, &out, &e), -EINVAL);
        ck_assert_int_eq(chat_render(&tpl, &hello, 1, &broken, &out, &e), -EINVAL);
        ck_assert_int_eq(chat_render(&tpl, &hello, 1, &object, &out, &e), -EINVAL);
        ck_assert_int_eq(chat_render(&tpl, &hello, 1, &nameless, &out, &e), -EINVAL);
        ck_assert_int_eq(chat_render(&tpl, &hello, 1, &empty, &out, &e), 0);
        ck_assert_int_eq(chat_render(&tpl, &hello, 1, &tools, &out, &e), no_tools ? -ENOTSUP : 0);
        ck_assert_ptr_null(strchr(e.msg, '\n'));
        if (!no_tools) {
            out.n = 0; /* what was cut off, sent back: as it stands */
            ck_assert_int_eq(chat_render(&tpl, with_bad, 2, &plain, &out, &e), 0);
            ck_assert_ptr_nonnull(memmem(out.s, out.n, "{not json", strlen("{not json")));
            chat_render(&tpl, with_list, 2, &plain, &out, &e);
        }
        chat_render(&tpl, &nothing, 1, &plain, &out, &e); /* must not crash */
    }
    tok_buf_finish(&out);
}
END_TEST

START_TEST(templates_are_told_apart)
{
    static const struct {
        const char *text;
        enum chat_format format;
        bool think, guessed;
    } c[] = {
        {"{{'<|im_start|>' + role}}", CHAT_CHATML, true, false},
        {"'<|im_start|>' <think> enable_thinking", CHAT_QWEN3, true, false},
        {"'<|im_start|>' '<think>\\n'", CHAT_QWEN3_THINKING, true, false},
        {"'<|im_start|>' <function=", CHAT_QWEN3_CODER, true, false},
        {"'<|im_start|>' <function= <think> enable_thinking is false", CHAT_QWEN35, true, false},
        {"'<|im_start|>' <function= <think> enable_thinking is true", CHAT_QWEN35, false, false},
        {"'<|im_start|>' <function= <think> (1 if enable_thinking is defined and enable_thinking else 0)", CHAT_QWEN35, false, false},
        {"'<|im_start|>' <function= <think> enable_thinking is defined and enable_thinking is false", CHAT_QWEN35, true, false},
        {"'<|im_start|>' <think> if enable_thinking is defined and enable_thinking %}", CHAT_QWEN3, false, false},
        {"<|start_header_id|>", CHAT_LLAMA3, true, false},
        {"<|start_header_id|> Cutting Knowledge Date", CHAT_LLAMA31, true, false},
        {"<|start|> <|channel|>", CHAT_GPT_OSS, true, false},
        {"<start_of_turn>", CHAT_GEMMA3, true, false},
        {"<|turn> <|channel>thought", CHAT_GEMMA4, false, false},
        {"[INST]", CHAT_CHATML, true, true},
        {"", CHAT_CHATML, true, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        struct chat_template t;
        chat_template_detect_text(c[i].text, strlen(c[i].text), &t);
        ck_assert_msg(t.format == c[i].format && t.think_default == c[i].think && t.guessed == c[i].guessed,
                      "%s: got %s, think %d, guessed %d", c[i].text, chat_format_info(t.format)->name,
                      t.think_default, t.guessed);
    }
    enum chat_format f;
    ck_assert(chat_format_find("qwen3.5", &f) && f == CHAT_QWEN35);
    ck_assert(!chat_format_find("nothing", &f));
}
END_TEST

/* SmolLM2's and Qwen2.5's templates say who the assistant is where the conversation does not. */
START_TEST(a_template_may_bring_a_system_message)
{
    static const char smollm2[] = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n"
                                  "You are a helpful AI.\\nBe kind<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + role}}",
                      qwen25[] = "{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}{%- else %}"
                                 "{{- '<|im_start|>system\nYou are a helpful AI.\nBe kind<|im_end|>\\n' }}";
    static const char user[] = "<|im_start|>user\nHi<|im_end|>\n",
                      system[] = "<|im_start|>system\nYou are a helpful AI.\nBe kind<|im_end|>\n";
    const struct chat_msg m[] = {{.role = "system", .content = ""}, {.role = "user", .content = "Hi"}};
    const struct chat_opts o = {0}, tools = {.tools = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"};
    struct tok_buf out = {0};
    struct err e = {0};

    for (int i = 0; i < 2; i++) {
        struct chat_template t;
        char want[256];
        chat_template_detect_text(i ? qwen25 : smollm2, i ? sizeof qwen25 - 1 : sizeof smollm2 - 1, &t);
        ck_assert_str_eq(t.default_system, "You are a helpful AI.\nBe kind");
        out.n = 0;
        ck_assert_int_eq(chat_render(&t, m + 1, 1, &o, &out, &e), 0);
        snprintf(want, sizeof want, "%s%s", system, user);
        ck_assert_msg(out.n == strlen(want) && !memcmp(out.s, want, out.n), "%.*s", (int)out.n, out.s);
        out.n = 0; /* a system message of the conversation stands in its place, an empty one too */
        ck_assert_int_eq(chat_render(&t, m, 2, &o, &out, &e), 0);
        snprintf(want, sizeof want, "<|im_start|>system\n<|im_end|>\n%s", user);
        ck_assert_msg(out.n == strlen(want) && !memcmp(out.s, want, out.n), "%.*s", (int)out.n, out.s);
        out.n = 0;
        ck_assert_int_eq(chat_render(&t, m + 1, 1, &tools, &out, &e), 0);
        snprintf(want, sizeof want, "%.*s\n\n# Tools", (int)strlen(system) - 11, system);
        ck_assert_msg(!memcmp(out.s, want, strlen(want)), "%.*s", (int)out.n, out.s);
    }
    static const char *const none[] = {
        "'<|im_start|>system\\n' + system + '<|im_end|>'", "'<|im_start|>system\\n{{ system }}<|im_end|>'",
        "'<|im_start|>system\\nA\\tB<|im_end|>'", "'<|im_start|>system", "'<|im_start|>system\\nopen",
    };
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        struct chat_template t;
        chat_template_detect_text(none[i], strlen(none[i]), &t);
        ck_assert_msg(!t.default_system[0], "%s: '%s'", none[i], t.default_system);
    }
    tok_buf_finish(&out);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("chat_text");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, equals_the_template, 0, CHAT_FORMAT_COUNT);
    tcase_add_loop_test(tc, equals_the_template_interpreted, 0, CHAT_FORMAT_COUNT);
    tcase_add_test(tc, a_thinking_model_begins_inside_its_thoughts);
    tcase_add_test(tc, dates_and_effort_are_options);
    tcase_add_test(tc, a_developer_is_a_system);
    tcase_add_test(tc, unusable_input_is_an_error);
    tcase_add_test(tc, templates_are_told_apart);
    tcase_add_test(tc, a_template_may_bring_a_system_message);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
