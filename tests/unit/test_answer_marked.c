/* Calls in the forms of templates that are interpreted: the form is found by what the template writes, what the template
 * writes of a conversation is parsed back into its calls wherever the text is cut, the grammar takes it and refuses other
 * names and arguments, and what is no call comes out as text. Released templates are looked for in ../shared/templates or
 * $ZINC_SHARED/templates. */
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/answer/answer.h"
#include "engine/grammar/grammar.h"
#include "model/chat.h"
#include "tests/lib/marked_templates.h"
#include "tests/lib/skip.h"

static const struct form {
    const char *template, *file; /* a small one of that form, and a released one */
    const char *call;            /* of `now` without arguments, as it writes it */
    const char *prefix;          /* how its first call begins, up to the name  */
    const char *cut;             /* what it writes before the last call ends: nothing of it is shown */
} forms[] = {
    { MARKED_DEEPSEEK, "deepseek-ai-DeepSeek-V3.1",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>no" },
    { MARKED_KIMI, "moonshotai-Kimi-K2",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0" },
    { MARKED_MISTRAL_IDS, "Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]now[CALL_ID]abcdefgh9[ARGS]{}", "[TOOL_CALLS]",
      "[TOOL_CALLS]now[CALL_ID]abc" },
    { MARKED_MISTRAL, "unsloth-mistral-Devstral-Small-2507",
      "[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]", "[TOOL_CALLS]now[AR" },
    { MARKED_MISTRAL_LIST, "mistralai-Mistral-Nemo-Instruct-2407",
      "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefgh9\"}]", "[TOOL_CALLS][{\"name\": \"",
      "[TOOL_CALLS][{\"nam" },
    { MARKED_NEMOTRON, "NVIDIA-Nemotron-Nano-v2",
      "<TOOLCALL>[{\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "<TOOLCALL>[{\"name\": \"", "<TOOLCALL>[" },
    { MARKED_APRIEL, "unsloth-Apriel-1.5",
      "<tool_calls>[{\"name\": \"now\", \"arguments\": {}}]</tool_calls>", "<tool_calls>[{\"name\": \"", "<tool_calls>[" },
    { MARKED_FUNCTIONARY, "meetkai-functionary-medium-v3.1",
      "<function=now>{}</function>", "<function=", "<function=no" },
    { MARKED_GLM, "GLM-4.6", "<tool_call>now\n</tool_call>", "<tool_call>", "<tool_call>no" },
    { MARKED_GLM, "GLM-4.7-Flash", "<tool_call>now</tool_call>", "<tool_call>", "<tool_call>now" },
    { MARKED_SEED, NULL, "<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>", "<seed:tool_call>\n<function=",
      "<seed:tool_call>\n<function=no" },
};

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"w\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":\"n\"}}]";

static struct chat_file *opened(const char *text)
{
    struct chat_file *f = NULL;
    struct err e = { 0 };
    ck_assert_msg(chat_file_open(text, strlen(text), "", "", false, &f, &e) == 0, "%s", e.msg);
    return f;
}

/* Ends the reasoning, where the prompt has begun one even if none is wanted. */
static const char *lead(const struct chat_template *tpl)
{
    struct chat_opts o = { .thinking = CHAT_THINK_OFF, .add_generation_prompt = true };
    return chat_prompt_opens_thinking(tpl, &o) ? chat_template_info(tpl)->think_end : "";
}

/* ---- what the parser makes of a text ---- */

struct got {
    char text[4096], calls[4096];
    bool open;
};

static int add(char *to, const char *s, size_t n)
{
    ck_assert_uint_lt(strlen(to) + n, 4096);
    strncat(to, s, n);
    return 0;
}

static int on_text(void *user, const char *s, size_t n) { return add(((struct got *)user)->text, s, n); }

static int on_begin(void *user, uint32_t index, const char *name)
{
    struct got *g = user;
    ck_assert(!g->open);
    g->open = true;
    return add(g->calls, name, strlen(name)) || add(g->calls, "(", 1);
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n) { return add(((struct got *)user)->calls, s, n); }

static int on_end(void *user, uint32_t index, bool complete)
{
    ((struct got *)user)->open = false;
    return add(((struct got *)user)->calls, complete ? ")" : "~", 1);
}

static int on_cancel(void *user, uint32_t index, const char *raw, size_t n)
{
    ((struct got *)user)->open = false;
    return add(((struct got *)user)->calls, "!", 1);
}

static void parse(const struct chat_template *tpl, const char *text, size_t cut, bool whole, struct got *g)
{
    struct answer_sink sink = { on_text, on_text, on_begin, on_arguments, on_end, whole ? NULL : on_cancel };
    struct answer_opts o = { .think = 0, .tools = tools };
    struct answer *a;
    struct err e = { 0 };
    *g = (struct got){ 0 };
    ck_assert_msg(answer_create(tpl, &o, &sink, g, &a, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(answer_put(a, lead(tpl), strlen(lead(tpl))), 0);
    ck_assert_int_eq(answer_put(a, text, cut), 0);
    ck_assert_int_eq(answer_put(a, text + cut, strlen(text + cut)), 0);
    ck_assert_int_eq(answer_end(a), 0);
    ck_assert(!g->open);
    answer_destroy(a);
}

/* In two pieces, cut at every byte. */
static void expect(const struct chat_template *tpl, const char *text, const char *say, const char *calls)
{
    struct got g;
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        for (int whole = 0; whole < 2; whole++) {
            parse(tpl, text, cut, whole, &g);
            ck_assert_msg(!strcmp(g.text, say) && !strcmp(g.calls, calls),
                          "cut at %zu%s: %s\n got: '%s' + %s\nwant: '%s' + %s", cut, whole ? ", whole" : "", text, g.text,
                          g.calls, say, calls);
        }
    }
}

/* ---- the grammar ---- */

static enum vocab_kind byte_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    one = (char)id;
    *bytes = id == 256 ? "<eog>" : &one;
    *n = id == 256 ? 5 : 1;
    return id == 256 ? VOCAB_END : id ? VOCAB_TEXT : VOCAB_UNUSED;
}

static bool takes(const struct chat_template *tpl, enum answer_tool_choice choice, bool parallel, const char *text)
{
    static struct vocab_index *v;
    const struct vocab_source src = { 257, NULL, byte_token };
    struct answer_rules r = { .think = 0, .tools = tools, .choice = choice, .parallel = parallel };
    struct tok_buf gbnf = { 0 };
    struct grammar *g;
    struct grammar_state *st;
    struct err e = { 0 };
    if (!v)
        ck_assert_int_eq(vocab_index_create(&src, &v, NULL), 0);
    ck_assert_msg(answer_grammar(tpl, &r, &gbnf, &e) == 0, "%s", e.msg);
    ck_assert_msg(grammar_from_gbnf(v, gbnf.s, gbnf.n, &g, &e) == 0, "%s\n%.*s", e.msg, (int)gbnf.n, gbnf.s);
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    const char *s = lead(tpl);
    for (; *s; s++)
        ck_assert_int_eq(grammar_state_accept(st, (unsigned char)*s), 0);
    s = text;
    while (*s && grammar_state_accept(st, (unsigned char)*s) == 0)
        s++;
    bool all = !*s && grammar_state_can_end(st);
    grammar_state_destroy(st);
    grammar_unref(g);
    tok_buf_finish(&gbnf);
    return all;
}

/* ---- a template ---- */

/* What it writes for the assistant's last message. */
static char *written(const struct chat_template *tpl, const struct chat_call *calls, size_t n)
{
    const struct chat_msg m[] = { { .role = "user", .content = "Q" }, { .role = "assistant", .calls = calls, .n_calls = n } };
    struct tok_buf all = { 0 };
    struct err e = { 0 };
    int rc = chat_render(tpl, m, 2, &(struct chat_opts){ .tools = tools }, &all, &e);
    if (rc == -ENOTSUP) /* DeepSeek's own writes calls and no tools */
        rc = chat_render(tpl, m, 2, &(struct chat_opts){ 0 }, &all, &e);
    ck_assert_msg(rc == 0, "%s", e.msg);
    ck_assert_int_eq(tok_buf_add(&all, "", 1), 0);
    return all.s;
}

static void check_template(const struct form *f, const char *template)
{
    static const struct chat_call calls[] = { { "abcdefgh1", "weather", "{\"city\": \"a } \\\" ]\", \"n\": 3}" },
                                              { "abcdefgh2", "now", "{}" } };
    struct chat_file *file = opened(template);
    struct chat_template tpl = { .file = file };
    const struct chat_info *in = chat_template_info(&tpl);
    ck_assert_msg(in->calls != CHAT_CALL_NONE && in->calls != CHAT_CALL_JSON, "%s: its calls are not known", f->file);
    char *all = written(&tpl, calls, 2), *from = NULL;
    for (char *p = all; (p = strstr(p, f->prefix)); p += strlen(f->prefix))
        if (strncmp(p + strlen(f->prefix), "weather", 7) == 0)
            from = p;
    ck_assert_msg(from != NULL, "%s: no call in: %s", f->file, all);
    const char *last = in->named && *in->named->section_end ? in->named->section_end : in->call_end ? in->call_end : NULL;
    char *end = NULL, *p = from;
    for (; last && (p = strstr(p, last)); p += strlen(last))
        end = p + strlen(last);
    if (!end) /* the object's or the list's end */
        end = strrchr(from, in->calls == CHAT_CALL_LIST ? ']' : '}') + 1;
    *end = 0;
    expect(&tpl, from, "", "weather({\"city\": \"a } \\\" ]\", \"n\": 3})now({})");
    ck_assert_msg(takes(&tpl, ANSWER_TOOLS_REQUIRED, true, from), "%s: required: %s", f->file, from);
    ck_assert_msg(takes(&tpl, ANSWER_TOOLS_AUTO, true, from), "%s: auto: %s", f->file, from);
    ck_assert_msg(!takes(&tpl, ANSWER_TOOLS_REQUIRED, false, from), "%s: only one: %s", f->file, from);
    free(all);

    char text[1024];
    snprintf(text, sizeof text, "I say [TOOL < so.\n%s", f->call);
    expect(&tpl, f->call, "", "now({})");
    expect(&tpl, text, "I say [TOOL < so.", "now({})");
    ck_assert(takes(&tpl, ANSWER_TOOLS_AUTO, false, text) && !takes(&tpl, ANSWER_TOOLS_REQUIRED, false, text));
    ck_assert(takes(&tpl, ANSWER_TOOLS_REQUIRED, false, f->call));
    for (char *s = strstr(text, "now"); s; s = NULL)
        memcpy(s, "nox", 3); /* no tool of that name */
    ck_assert_msg(!takes(&tpl, ANSWER_TOOLS_AUTO, true, text), "%s: %s", f->file, text);
    expect(&tpl, f->cut, "", "");
    snprintf(text, sizeof text, "%s", f->call);
    char *brace = strstr(text, "{}");
    if (brace) {
        brace[1] = 0;
        expect(&tpl, text, "", "now({~");
    }
    expect(&tpl, "a [T <f <t [] end [TOOL", "a [T <f <t [] end [TOOL", "");
    chat_file_close(file);
}

START_TEST(calls_of_a_form_are_found_written_and_read)
{
    check_template(&forms[_i], forms[_i].template);
}
END_TEST

START_TEST(calls_of_released_templates_too)
{
    const char *shared = getenv("ZINC_SHARED") ? getenv("ZINC_SHARED") : "../shared";
    unsigned missing = 0;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        static char text[1 << 18];
        char path[512];
        if (!forms[i].file)
            continue;
        snprintf(path, sizeof path, "%s/templates/%s.jinja", shared, forms[i].file);
        FILE *in = fopen(path, "r");
        if (!in) {
            missing++;
            continue;
        }
        text[fread(text, 1, sizeof text - 1, in)] = 0;
        fclose(in);
        check_template(&forms[i], text);
    }
    if (missing)
        cases_skipped(missing, "templates not found in %s/templates (set ZINC_SHARED)", shared);
}
END_TEST

/* Thoughts between other marks than <think>. */
START_TEST(thoughts_between_brackets)
{
    struct chat_file *f = opened("{{ '[SYSTEM_PROMPT]Think so: [THINK]thoughts[/THINK]answer.[/SYSTEM_PROMPT]' }}" MARKED_MISTRAL);
    struct chat_template tpl = { .file = f };
    const struct chat_info *in = chat_template_info(&tpl);
    ck_assert(in->can_think && !in->can_toggle && !chat_prompt_opens_thinking(&tpl, &(struct chat_opts){ .add_generation_prompt = true }));
    ck_assert_str_eq(in->think_begin, "[THINK]");
    ck_assert_str_eq(answer_think_end(&tpl), "[/THINK]");
    expect(&tpl, "[THINK]Hm.[/THINK]", "Hm.", "");
    expect(&tpl, "[THINK]one [b] [/TH[/THINK]", "one [b] [/TH", "");
    expect(&tpl, "[THINK]Which?[/THINK][TOOL_CALLS]now[ARGS]{}", "Which?", "now({})");
    expect(&tpl, "<think>no</think>", "<think>no</think>", "");
    chat_file_close(f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer_marked");
    TCase *t = tcase_create("answer_marked");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, calls_of_a_form_are_found_written_and_read, 0, ARRAY_LEN(forms));
    tcase_add_test(t, calls_of_released_templates_too);
    tcase_add_test(t, thoughts_between_brackets);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
