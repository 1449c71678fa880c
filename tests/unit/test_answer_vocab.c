/* The grammars of answers over real vocabularies: what a model writes is taken token by token, in the tokens that the
 * tokenizer makes of it. Needs shared/vocab; the demo model does without. */
#include "engine/generate.h"
#include "tests/lib/skip.h"
#include "tests/unit/answer_case.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{"
    "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]";

#define CALL_JSON                                                                                                      \
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"K\xc3\xb6ln "                                \
    "\xf0\x9f\x8c\xa7\"}}\n</tool_call>"
#define CALL_XML                                                                                                       \
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nK\xc3\xb6ln "                                              \
    "\xf0\x9f\x8c\xa7\n</parameter>\n<parameter=days>\n3\n"                                                            \
    "</parameter>\n</function>\n</tool_call>"
#define CALL_BARE   "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"K\xc3\xb6ln\", \"days\": 3}}"
#define CALL_GEMMA4 "<|tool_call>call:get_weather{city:<|\"|>K\xc3\xb6ln<|\"|>,days:3}<tool_call|>"

static const struct {
    const char *vocab; /* NULL: the demo model */
    enum chat_format format;
    int think;
    const char *reasoning, *text, *call;
} cases[] = {
    { "qwen2", CHAT_QWEN3, -1, "<think>\nSun?\n</think>\n\n", "Let me see <b>.\n", CALL_JSON },
    { "qwen2", CHAT_CHATML, -1, "", "See:", CALL_JSON },
    { "qwen35", CHAT_QWEN35, 1, "Sun\xc3\xa4?\n</think>\n\n", "Let me see:\n\n", CALL_XML },
    { "qwen35", CHAT_QWEN35, 0, "", "See", CALL_XML },
    { "llama-bpe", CHAT_LLAMA31, -1, "", "", CALL_BARE },
    { "gemma-4", CHAT_GEMMA4, 1, "<|channel>thought\nSun?\n<channel|>", "Look:", CALL_GEMMA4 },
    { NULL, CHAT_QWEN35, 1, "Sun?\n</think>\n\n", "I see. ", CALL_XML },
};

static bool vocab_path(char path[512], const char *name)
{
    const char *dir = getenv("ZINC_SHARED");
    if (name)
        snprintf(path, 512, "%s/vocab/ggml-vocab-%s.gguf", dir ? dir : "../shared", name);
    else
        snprintf(path, 512, "models/zinc-demo.gguf");
    return access(path, R_OK) == 0;
}

static struct engine *vocab_engine(const char *name)
{
    char path[512];
    struct engine *eng;
    struct err e = { 0 };
    if (!vocab_path(path, name)) {
        cases_skipped(1, "no %s (set ZINC_SHARED)", path);
        return NULL;
    }
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static struct grammar *grammar_of(const struct engine *eng, enum chat_format f, const struct answer_rules *r)
{
    const struct vocab_index *v;
    struct tok_buf text = { 0 };
    struct grammar *g;
    struct err e = { 0 };
    ck_assert_msg(engine_vocab(eng, &v, &e) == 0, "%s", e.msg);
    ck_assert_msg(answer_grammar(format_chat(f), r, &text, &e) == 0, "%s", e.msg);
    ck_assert_msg(grammar_from_gbnf(v, text.s, text.n, &g, &e) == 0, "%s\n%.*s", e.msg, (int)text.n, text.s);
    tok_buf_finish(&text);
    return g;
}

/* Is the whole text taken, and may the answer end there? *at: tokens that were taken. */
static bool takes(const struct engine *eng, struct grammar *g, const char *text, uint32_t *at)
{
    struct grammar_state *st;
    int32_t *ids;
    uint32_t n, i;
    ck_assert_int_eq(engine_encode(eng, text, strlen(text), ENGINE_PARSE_SPECIAL, &ids, &n, NULL), 0);
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    for (i = 0; i < n; i++) {
        const uint64_t *mask = grammar_state_mask(st);
        int rc = grammar_state_accept(st, ids[i]);
        ck_assert_int_eq(rc == 0, mask[ids[i] / 64] >> (ids[i] % 64) & 1);
        if (rc)
            break;
    }
    bool all = i == n && grammar_state_can_end(st);
    *at = i;
    grammar_state_destroy(st);
    free(ids);
    return all;
}

/* `want`, of reasoning, text and a call, one after the other. */
static void check(const struct engine *eng, struct grammar *g, bool want, const char *reasoning, const char *text,
                  const char *call)
{
    char whole[1024];
    uint32_t at;
    snprintf(whole, sizeof whole, "%s%s%s", reasoning, text, call);
    ck_assert_msg(takes(eng, g, whole, &at) == want, "after %u tokens of: %s", at, whole);
}

START_TEST(tokens_of_answers_are_taken)
{
    const char *vocab = cases[_i].vocab, *reasoning = cases[_i].reasoning, *text = cases[_i].text,
               *call = cases[_i].call;
    const struct answer_rules automatic = { .think = cases[_i].think, .tools = tools };
    const struct answer_rules required = { .think = cases[_i].think, .tools = tools, .choice = ANSWER_TOOLS_REQUIRED };
    struct engine *eng = vocab_engine(vocab);
    char other[512];
    if (!eng)
        return;
    snprintf(other, sizeof other, "%s", call);
    memcpy(strstr(other, "get_weather"), "set", 3);

    struct grammar *g = grammar_of(eng, cases[_i].format, &automatic);
    check(eng, g, true, reasoning, text, "");
    check(eng, g, true, reasoning, text, call);
    check(eng, g, true, reasoning, "", call);
    check(eng, g, false, reasoning, text, other);
    struct grammar_stats stats = grammar_stats(g);
    printf("%s, %s: %llu masks, %llu cached, %.0f us for each new one\n", vocab ? vocab : "demo",
           chat_format_info(cases[_i].format)->name, (unsigned long long)stats.masks, (unsigned long long)stats.cached,
           stats.masks > stats.cached ? (double)stats.cold_ns / 1e3 / (double)(stats.masks - stats.cached) : 0);
    grammar_unref(g);

    g = grammar_of(eng, cases[_i].format, &required);
    check(eng, g, true, reasoning, "", call);
    check(eng, g, false, reasoning, "Yes. ", call);
    check(eng, g, false, reasoning, "", other);
    check(eng, g, false, reasoning, "", "");
    grammar_unref(g);
    engine_close(eng);
}
END_TEST

START_TEST(answers_in_json)
{
    struct engine *eng = vocab_engine("qwen35");
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}},"
        "\"required\":[\"city\",\"n\"],\"additionalProperties\":false}";
    struct answer_rules r = { .think = 1, .format = ANSWER_JSON_SCHEMA, .schema = schema };
    uint32_t at;
    if (!eng)
        return;
    struct grammar *g = grammar_of(eng, CHAT_QWEN35, &r);
    ck_assert(takes(eng, g, "Hm.\n</think>\n\n{\"city\": \"K\xc3\xb6ln\", \"n\": 3}", &at));
    ck_assert(!takes(eng, g, "Hm.\n</think>\n\n{\"city\": \"K\xc3\xb6ln\", \"n\": \"3\"}", &at));
    ck_assert(!takes(eng, g, "Hm.\n</think>\n\nHere: {\"city\": \"K\xc3\xb6ln\", \"n\": 3}", &at));
    ck_assert(!takes(eng, g, "Hm.\n</think>\n\n{\"city\": \"K\xc3\xb6ln\", \"n\": 3} <|im_start|>", &at));
    grammar_unref(g);
    engine_close(eng);
}
END_TEST

/* ---- the demo model itself ---- */

struct heard {
    struct answer *a;
    uint32_t n_text, n_args;
    char args[4096];
};

static int on_reasoning(void *user, const char *s, size_t n)
{
    return 0;
}

static int on_text(void *user, const char *s, size_t n)
{
    ((struct heard *)user)->n_text += (uint32_t)n;
    return 0;
}

static int on_call(void *user, uint32_t index, const char *name)
{
    ck_assert_str_eq(name, "get_weather");
    return 0;
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n)
{
    struct heard *h = user;
    ck_assert_uint_lt(n, sizeof h->args);
    memcpy(h->args, s, n);
    h->n_args = (uint32_t)n;
    return 0;
}

static int on_call_end(void *user, uint32_t index, bool complete)
{
    struct heard *h = user;
    ck_assert(complete);
    json_t *v = json_loadb(h->args, h->n_args, 0, NULL);
    ck_assert(json_is_string(json_object_get(v, "city")));
    json_decref(v);
    return 0;
}

static int on_piece(void *user, const char *s, size_t n)
{
    return answer_put(((struct heard *)user)->a, s, n);
}

/* It has never seen a tool, and calls one because it has to. */
START_TEST(a_model_that_must_call_does)
{
    const struct engine_opts eo = { .path = "models/zinc-demo.gguf", .tier = "cpu", .n_ctx = 1024 };
    const struct answer_rules rules = { .think = 0, .tools = tools, .choice = ANSWER_TOOLS_REQUIRED };
    const struct answer_opts ao = { .think = 0, .tools = tools, .forced_call = true };
    const struct answer_sink sink = { on_reasoning, on_text, on_call, on_arguments, on_call_end, NULL };
    const struct engine_message m = { .role = "user", .text = "Say something about a town." };
    const struct engine_chat_opts co = { .think = 0 };
    const struct vocab_index *v;
    struct gen_opts go = { .sampling = sampler_defaults(), .n_max = 400, .show_special = true, .on_text = on_piece };
    struct tok_buf text = { 0 };
    struct engine_prompt p;
    struct engine *eng;
    struct session *s;
    struct err e = { 0 };
    uint32_t n_complete = 0;
    if (access(eo.path, R_OK))
        return;
    ck_assert_msg(engine_open(&eo, &eng, &e) == 0 && session_create(eng, &s, &e) == 0, "%s", e.msg);
    ck_assert_msg(engine_vocab(eng, &v, &e) == 0, "%s", e.msg);
    ck_assert_msg(answer_grammar(engine_chat_template(eng), &rules, &text, &e) == 0, "%s", e.msg);
    ck_assert_msg(grammar_from_gbnf(v, text.s, text.n, &go.grammar, &e) == 0, "%s", e.msg);
    ck_assert_msg(engine_chat_prompt(eng, &m, 1, &co, &p, &e) == 0, "%s", e.msg);
    for (uint32_t seed = 1; seed <= 4; seed++) {
        struct heard h = { 0 };
        struct gen_result r;
        go.sampling.seed = seed;
        go.user = &h;
        ck_assert_int_eq(answer_create(engine_chat_template(eng), &ao, &sink, &h, &h.a, NULL), 0);
        ck_assert_msg(generate(s, &go, p.ids, p.n, &r, &e) == 0, "%s", e.msg);
        ck_assert_int_eq(answer_end(h.a), 0);
        if (r.reason == GEN_EOG) {
            ck_assert_uint_eq(answer_n_calls(h.a), 1);
            ck_assert_uint_eq(h.n_text, 0);
            n_complete++;
        }
        answer_destroy(h.a);
    }
    ck_assert_uint_ge(n_complete, 1);
    engine_prompt_free(&p);
    tok_buf_finish(&text);
    grammar_unref(go.grammar);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

int main(void)
{
    char path[512];
    if (!vocab_path(path, NULL) && !vocab_path(path, "qwen35")) {
        printf("neither models/zinc-demo.gguf nor vocabularies (set ZINC_SHARED)\n");
        return 77;
    }
    Suite *s = suite_create("answer_vocab");
    TCase *t = tcase_create("answer_vocab");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, tokens_of_answers_are_taken, 0, (int)ARRAY_LEN(cases));
    tcase_add_test(t, answers_in_json);
    tcase_add_test(t, a_model_that_must_call_does);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
