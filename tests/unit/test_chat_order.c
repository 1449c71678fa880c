/* Conversations as clients send them, with several system messages, late ones, roles in a row, results without calls:
 * what each format makes of them. Where the released template renders such a conversation, this is its text. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/chat.h"

enum { MAX_MESSAGES = 8 };

static const struct chat_call call = { .id = "c1", .name = "now", .arguments = "{\"zone\": \"CET\"}" };

/* One letter a message, with a text that says which it is: s system, d developer, u user, a assistant, c assistant with
 * a call, t tool, e an empty user message, n an assistant message without content. */
static size_t conversation(const char *letters, struct chat_msg *m)
{
    static char text[MAX_MESSAGES][8];
    size_t n = strlen(letters);
    ck_assert_uint_le(n, MAX_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        char c = letters[i];
        snprintf(text[i], sizeof text[i], "%c%zu", c, i);
        m[i] = (struct chat_msg){ .role = c == 's'               ? "system"
                                          : c == 'd'             ? "developer"
                                          : strchr("ue", c)      ? "user"
                                          : strchr("acn", c)     ? "assistant"
                                                                 : "tool",
                                  .content = c == 'n' ? NULL : c == 'e' ? "" : text[i] };
        if (c == 'c') {
            m[i].calls = &call;
            m[i].n_calls = 1;
        }
        if (c == 't')
            m[i].name = "now", m[i].tool_call_id = "c1";
    }
    return n;
}

#define IM(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"
#define LL(role, text) "<|start_header_id|>" role "<|end_header_id|>\n\n" text "<|eot_id|>"
#define G3(role, text) "<start_of_turn>" role "\n" text "<end_of_turn>\n"
#define G4(role, text) "<|turn>" role "\n" text "<turn|>\n"
#define OSS(role, text) "<|start|>" role "<|message|>" text "<|end|>"
#define DEV(text) "<|start|>developer<|message|># Instructions\n\n" text "\n\n<|end|>"
#define FINAL(text) OSS("assistant<|channel|>final", text)
#define RESULT(text) "<|im_start|>user\n<tool_response>\n" text "\n</tool_response><|im_end|>\n"
#define CODER_RESULT(text) "<tool_response>\n" text "\n</tool_response>\n"
/* What two formats begin with. */
#define LLAMA31_HEAD "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
#define OSS_HEAD                                                                                                       \
    OSS("system", "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent "    \
                  "date: 2026-01-02\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel "   \
                  "must be included for every message.")

static const struct {
    const char *letters;
    enum chat_format format;
    const char *want;
} cases[] = {
    /* System messages at the beginning are one. */
    { "ssu", CHAT_CHATML, IM("system", "s0\n\ns1") IM("user", "u2") },
    { "sdu", CHAT_QWEN3, IM("system", "s0\n\nd1") IM("user", "u2") },
    { "dsu", CHAT_QWEN3_CODER, IM("system", "d0\n\ns1") IM("user", "u2") },
    { "sdu", CHAT_QWEN35, IM("system", "s0\n\nd1") IM("user", "u2") },
    { "sdu", CHAT_LLAMA3, LL("system", "s0\n\nd1") LL("user", "u2") },
    { "sdu", CHAT_LLAMA31, LLAMA31_HEAD "s0\n\nd1<|eot_id|>" LL("user", "u2") },
    { "sdu", CHAT_GPT_OSS, OSS_HEAD DEV("s0\n\nd1") OSS("user", "u2") },
    { "sdu", CHAT_GEMMA3, G3("user", "s0\n\nd1\n\nu2") },
    { "sdu", CHAT_GEMMA4, G4("system", "s0\n\nd1") G4("user", "u2") },
    /* Late ones are turns where roles are free, else they belong to a user. */
    { "suasu", CHAT_CHATML, IM("system", "s0") IM("user", "u1") IM("assistant", "a2") IM("system", "s3") IM("user", "u4") },
    { "uadu", CHAT_QWEN3, IM("user", "u0") IM("assistant", "a1") IM("system", "d2") IM("user", "u3") },
    { "uasu", CHAT_QWEN3_CODER, IM("user", "u0") IM("assistant", "a1") IM("system", "s2") IM("user", "u3") },
    { "uassu", CHAT_QWEN35, IM("user", "u0") IM("assistant", "a1") IM("user", "s2\n\ns3\n\nu4") },
    { "us", CHAT_QWEN35, IM("user", "u0\n\ns1") },
    { "uas", CHAT_QWEN35, IM("user", "u0") IM("assistant", "a1") IM("user", "s2") },
    { "usau", CHAT_QWEN35, IM("user", "u0\n\ns1") IM("assistant", "a2") IM("user", "u3") },
    { "usu", CHAT_QWEN35, IM("user", "u0") IM("user", "s1\n\nu2") },
    { "uctsu", CHAT_QWEN35, IM("user", "u0") IM("assistant", "c1\n\n<tool_call>\n<function=now>\n<parameter=zone>\nCET\n"
                                               "</parameter>\n</function>\n</tool_call>") RESULT("t2") IM("user", "s3\n\nu4") },
    { "uasu", CHAT_LLAMA3, LL("user", "u0") LL("assistant", "a1") LL("system", "s2") LL("user", "u3") },
    { "uasu", CHAT_LLAMA31, LLAMA31_HEAD "<|eot_id|>" LL("user", "u0") LL("assistant", "a1") LL("system", "s2") LL("user", "u3") },
    { "uasu", CHAT_GPT_OSS, OSS_HEAD OSS("user", "u0") FINAL("a1") DEV("s2") OSS("user", "u3") },
    { "uasu", CHAT_GEMMA3, G3("user", "u0") G3("model", "a1") G3("user", "s2\n\nu3") },
    { "us", CHAT_GEMMA3, G3("user", "u0\n\ns1") },
    { "uasu", CHAT_GEMMA4, G4("user", "u0") G4("model", "a1") G4("system", "s2") G4("user", "u3") },
    /* A role twice in a row, and a conversation that the model begins. */
    { "uu", CHAT_CHATML, IM("user", "u0") IM("user", "u1") },
    { "uu", CHAT_QWEN35, IM("user", "u0") IM("user", "u1") },
    { "uu", CHAT_LLAMA31, LLAMA31_HEAD "<|eot_id|>" LL("user", "u0") LL("user", "u1") },
    { "uu", CHAT_GPT_OSS, OSS_HEAD OSS("user", "u0") OSS("user", "u1") },
    { "suuaau", CHAT_GEMMA3, G3("user", "s0\n\nu1\n\nu2") G3("model", "a3\n\na4") G3("user", "u5") },
    { "uu", CHAT_GEMMA4, G4("user", "u0") G4("user", "u1") },
    { "au", CHAT_CHATML, IM("assistant", "a0") IM("user", "u1") },
    { "au", CHAT_QWEN35, IM("assistant", "a0") IM("user", "u1") },
    { "au", CHAT_LLAMA31, LLAMA31_HEAD "<|eot_id|>" LL("assistant", "a0") LL("user", "u1") },
    { "au", CHAT_GPT_OSS, OSS_HEAD FINAL("a0") OSS("user", "u1") },
    { "au", CHAT_GEMMA3, G3("model", "a0") G3("user", "u1") },
    { "sau", CHAT_GEMMA3, G3("user", "s0") G3("model", "a1") G3("user", "u2") },
    { "au", CHAT_GEMMA4, G4("model", "a0") G4("user", "u1") },
    /* A tool's result that no call stands before. */
    { "tu", CHAT_QWEN3, RESULT("t0") IM("user", "u1") },
    { "tu", CHAT_QWEN3_CODER, IM("user", CODER_RESULT("t0")) IM("user", "u1") },
    { "tu", CHAT_QWEN35, RESULT("t0") IM("user", "u1") },
    { "tu", CHAT_LLAMA31, LLAMA31_HEAD "<|eot_id|>" LL("ipython", "\"t0\"") LL("user", "u1") },
    { "tu", CHAT_GPT_OSS, OSS_HEAD OSS("functions.now to=assistant<|channel|>commentary", "\"t0\"") OSS("user", "u1") },
    { "uatu", CHAT_GEMMA3, G3("user", "u0") G3("model", "a1") G3("user", "t2\n\nu3") },
    { "tu", CHAT_GEMMA4, G4("user", "t0") G4("user", "u1") },
    { "uatu", CHAT_GEMMA4, G4("user", "u0") G4("model", "a1") G4("user", "t2") G4("user", "u3") },
    /* A history of calls, by formats that have none. */
    { "ucta", CHAT_GEMMA3, G3("user", "u0") G3("model", "c1\n{\"name\": \"now\", \"arguments\": {\"zone\": \"CET\"}}")
                               G3("user", "t2") G3("model", "a3") },
    { "uc", CHAT_LLAMA3, LL("user", "u0") LL("assistant", "c1\n{\"name\": \"now\", \"arguments\": {\"zone\": \"CET\"}}") },
    /* Words beside a call. */
    { "uc", CHAT_QWEN3, IM("user", "u0") IM("assistant", "<think>\n\n</think>\n\nc1\n<tool_call>\n{\"name\": \"now\", \"arguments\": {\"zone\": "
                                            "\"CET\"}}\n</tool_call>") },
    /* Nothing said. */
    { "nue", CHAT_CHATML, IM("assistant", "") IM("user", "u1") IM("user", "") },
    { "ne", CHAT_LLAMA3, LL("assistant", "") LL("user", "") },
    { "en", CHAT_GEMMA4, G4("user", "") G4("model", "") },
    { "enu", CHAT_GEMMA3, G3("user", "") G3("model", "") G3("user", "u2") },
};

static struct tok_buf rendered(enum chat_format f, const char *letters, const struct chat_opts *o)
{
    struct chat_template tpl = { .format = f, .think_default = f != CHAT_GEMMA4 };
    struct chat_msg m[MAX_MESSAGES];
    struct tok_buf out = { 0 };
    struct err e = { 0 };
    size_t n = conversation(letters, m);
    ck_assert_msg(chat_render(&tpl, m, n, o, &out, &e) == 0, "%s of %s: %s", chat_format_info(f)->name, letters, e.msg);
    return out;
}

START_TEST(has_a_place_for_everything)
{
    const char *want = cases[_i].want, *name = chat_format_info(cases[_i].format)->name;
    struct chat_opts o = { .date = cases[_i].format == CHAT_GPT_OSS ? "2026-01-02" : NULL };
    struct tok_buf out = rendered(cases[_i].format, cases[_i].letters, &o);
    ck_assert_msg(out.n == strlen(want) && memcmp(out.s, want, out.n) == 0, "%s of %s:\n%.*s\nwant\n%s", name,
                  cases[_i].letters, (int)out.n, out.s, want);
    tok_buf_finish(&out);
}
END_TEST

/* Nothing is left out, in any format, in any order of up to four messages. */
START_TEST(loses_nothing)
{
    static const char letters[] = "sduact";
    struct chat_opts o = { .date = "2026-01-02", .add_generation_prompt = true };
    struct chat_template tpl = { .format = (enum chat_format)_i, .think_default = true };
    for (unsigned k = 0; k < 6 * 6 * 6 * 6; k++) {
        char s[5] = { letters[k % 6], letters[k / 6 % 6], letters[k / 36 % 6], letters[k / 216] };
        struct chat_msg m[MAX_MESSAGES];
        struct tok_buf out = { 0 };
        struct err e = { 0 };
        size_t n = conversation(s, m);
        if (_i == CHAT_QWEN35 && !strpbrk(s, "u")) /* its template asks for a question */
            continue;
        ck_assert_msg(chat_render(&tpl, m, n, &o, &out, &e) == 0, "%s of %s: %s", chat_format_info(tpl.format)->name, s,
                      e.msg);
        for (size_t i = 0; i < n; i++) {
            bool words_beside_a_call = s[i] == 'c' && (_i == CHAT_LLAMA31 || _i == CHAT_GPT_OSS);
            ck_assert_msg(words_beside_a_call || memmem(out.s, out.n, m[i].content, 2), "%s of %s: %s is lost in\n%.*s",
                          chat_format_info(tpl.format)->name, s, m[i].content, (int)out.n, out.s);
        }
        tok_buf_finish(&out);
    }
}
END_TEST

/* Tools stand in Llama 3.1's first question, wherever that is. */
START_TEST(tools_wait_for_a_question)
{
    struct chat_opts o = { .add_generation_prompt = true, .tools = "[{\"function\":{\"name\":\"now\"}}]" };
    struct chat_template tpl = { .format = CHAT_LLAMA31 };
    struct chat_msg m[MAX_MESSAGES];
    struct tok_buf out = rendered(CHAT_LLAMA31, "sau", &o);
    const char *a = memmem(out.s, out.n, "a1<|eot_id|>", 12), *f = memmem(out.s, out.n, "Given the following", 19);
    const char *u = memmem(out.s, out.n, "u2<|eot_id|>", 12);
    ck_assert_msg(a && f && u && a < f && f < u, "%.*s", (int)out.n, out.s);
    ck_assert_int_eq(chat_render(&tpl, m, conversation("sa", m), &o, &out, NULL), -EINVAL);
    tok_buf_finish(&out);
}
END_TEST

START_TEST(the_last_answer_is_continued)
{
    static const struct {
        enum chat_format format;
        const char *end;
    } ends[] = {
        { CHAT_CHATML, "<|im_start|>assistant\na2" },
        { CHAT_QWEN3, "<|im_start|>assistant\n<think>\n\n</think>\n\na2" },
        { CHAT_QWEN3_THINKING, "<|im_start|>assistant\n<think>\n\n</think>\n\na2" },
        { CHAT_QWEN3_CODER, "<|im_start|>assistant\na2" },
        { CHAT_QWEN35, "<|im_start|>assistant\n<think>\n\n</think>\n\na2" },
        { CHAT_LLAMA3, "<|start_header_id|>assistant<|end_header_id|>\n\na2" },
        { CHAT_LLAMA31, "<|start_header_id|>assistant<|end_header_id|>\n\na2" },
        { CHAT_GPT_OSS, "<|start|>assistant<|channel|>final<|message|>a2" },
        { CHAT_GEMMA3, "<start_of_turn>model\na2" },
        { CHAT_GEMMA4, "<|turn>model\na2" },
    };
    ck_assert_uint_eq(ARRAY_LEN(ends), CHAT_FORMAT_COUNT);
    const char *end = ends[_i].end;
    struct chat_opts o = { .continue_final = true };
    struct chat_template tpl = { .format = ends[_i].format, .think_default = true };
    struct chat_msg m[MAX_MESSAGES];
    struct tok_buf out = rendered(ends[_i].format, "sua", &o);
    struct err e;
    ck_assert_msg(out.n > strlen(end) && memcmp(out.s + out.n - strlen(end), end, strlen(end)) == 0, "%.*s", (int)out.n,
                  out.s);
    ck_assert(!chat_prompt_opens_thinking(&tpl, &o));
    ck_assert_int_eq(chat_render(&tpl, m, conversation("su", m), &o, &out, &e), -EINVAL);
    ck_assert(strstr(e.msg, "assistant"));
    ck_assert_int_eq(chat_render(&tpl, m, conversation("uc", m), &o, &out, &e), -EINVAL);
    o.add_generation_prompt = true;
    ck_assert_int_eq(chat_render(&tpl, m, conversation("ua", m), &o, &out, &e), -EINVAL);
    tok_buf_finish(&out);
}
END_TEST

/* Llama 3.1 indents the tools: 200 KB of a list in lists would be 60 MB of blanks. */
START_TEST(a_prompt_has_a_limit)
{
    enum { DEEP = 150, LONG = 100000 };
    static char tools[2 * LONG + 4 * DEEP + 200];
    struct chat_opts o = { .add_generation_prompt = true, .tools = tools };
    struct chat_template tpl = { .format = CHAT_LLAMA31 };
    struct chat_msg m[MAX_MESSAGES];
    struct tok_buf out = { 0 };
    struct err e;
    size_t n = (size_t)sprintf(tools, "[{\"function\":{\"name\":\"f\",\"x\":");
    memset(tools + n, '[', DEEP);
    n += DEEP;
    for (size_t i = 0; i < LONG; i++)
        n += (size_t)sprintf(tools + n, i ? ",1" : "1");
    memset(tools + n, ']', DEEP);
    sprintf(tools + n + DEEP, "}}]");
    ck_assert_int_eq(chat_render(&tpl, m, conversation("u", m), &o, &out, &e), -E2BIG);
    ck_assert_uint_le(out.n, CHAT_MAX_BYTES);
    ck_assert(strstr(e.msg, "MiB"));
    tpl.format = CHAT_QWEN3; /* in one line */
    out.n = 0;
    ck_assert_int_eq(chat_render(&tpl, m, 1, &o, &out, &e), 0);
    tok_buf_finish(&out);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("chat_order");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, has_a_place_for_everything, 0, (int)ARRAY_LEN(cases));
    tcase_add_loop_test(tc, loses_nothing, 0, CHAT_FORMAT_COUNT);
    tcase_add_test(tc, a_prompt_has_a_limit);
    tcase_add_test(tc, tools_wait_for_a_question);
    tcase_add_loop_test(tc, the_last_answer_is_continued, 0, CHAT_FORMAT_COUNT);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
