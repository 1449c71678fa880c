/* The grammars of whole answers: they take what each format's models write, refuse what the rules forbid, and whatever
 * they let through, chosen at random, is parsed back into what was asked for. */
#include "tests/unit/answer_case.h"

/* A vocabulary of all bytes, the formats' marks as control tokens, and pieces that make random answers come to an end. */
static const char *const control[] = {
    "<|im_start|>", "<|channel|>", "<|message|>",  "<|start|>",    "<|end|>", "<|constrain|>",
    "<|channel>",   "<channel|>",  "<|tool_call>", "<tool_call|>", "<|\"|>",  "<|python_tag|>",
};
static const char *const pieces[] = {
    "<think>",
    "</think>",
    "\n\n",
    "<tool_call>",
    "</tool_call>",
    "\n</",
    "</parameter>",
    "\n</parameter>\n",
    "<parameter=",
    ">\n",
    "weather",
    "now",
    "name",
    "\"}",
    "\": ",
    "\", \"",
    "city",
    "\"}}",
    "}\n",
    "{\"",
    "arguments",
    "parameters",
    "thought\n",
    "call:",
    " to=functions.",
    "commentary",
    "analysis",
    "final",
    "json",
    "assistant",
    "</function>",
    "<function=",
    " the",
    "\xc3\xa4",
    "\xe2\x82",
    "\"",
    "]",
    "}",
};
enum { N_CONTROL = ARRAY_LEN(control), N_PIECES = ARRAY_LEN(pieces), END_ID = 256 + N_CONTROL + N_PIECES, N_VOCAB };

static enum vocab_kind token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    if (id < 256) {
        one = (char)id;
        *bytes = &one;
        *n = 1;
        return id ? VOCAB_TEXT : VOCAB_UNUSED;
    }
    *bytes = id == END_ID ? "<|eog|>" : id < 256 + N_CONTROL ? control[id - 256] : pieces[id - 256 - N_CONTROL];
    *n = strlen(*bytes);
    return id == END_ID ? VOCAB_END : id < 256 + N_CONTROL ? VOCAB_CONTROL : VOCAB_TEXT;
}

static struct vocab_index *vocabulary(void)
{
    static struct vocab_index *v;
    const struct vocab_source src = { N_VOCAB, NULL, token };
    if (!v)
        ck_assert_int_eq(vocab_index_create(&src, &v, NULL), 0);
    return v;
}

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":{"
    "\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},\"unit\":{\"enum\":[\"C\",\"F\"]},"
    "\"exact\":{\"type\":[\"boolean\",\"null\"]}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

static struct grammar *grammar_of(enum chat_format f, const struct answer_rules *r)
{
    struct tok_buf text = { 0 };
    struct grammar *g;
    struct err e = { 0 };
    ck_assert_msg(answer_grammar(format_chat(f), r, &text, &e) == 0, "%s: %s", chat_format_info(f)->name, e.msg);
    ck_assert_uint_gt(text.n, 0);
    ck_assert_msg(grammar_from_gbnf(vocabulary(), text.s, text.n, &g, &e) == 0, "%s: %s\n%.*s",
                  chat_format_info(f)->name, e.msg, (int)text.n, text.s);
    tok_buf_finish(&text);
    return g;
}

static int32_t longest(const char *s, bool control_only)
{
    int32_t best = (unsigned char)*s;
    size_t n_best = 1;
    for (int32_t id = 256; id < (control_only ? 256 + N_CONTROL : END_ID); id++) {
        const char *t;
        size_t n;
        token(NULL, id, &t, &n);
        if (n > n_best && strncmp(s, t, n) == 0) {
            best = id;
            n_best = n;
        }
    }
    return best;
}

/* How much of the text the grammar takes; all of it and the end: -1. */
static ptrdiff_t walk(struct grammar *g, const char *text, bool bytes)
{
    struct grammar_state *st;
    const char *s = text, *t;
    size_t n;
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    while (*s) {
        int32_t id = longest(s, bytes);
        const uint64_t *mask = grammar_state_mask(st);
        bool allowed = mask[id / 64] >> (id % 64) & 1;
        ck_assert(grammar_state_accept(st, id) == (allowed ? 0 : -EINVAL));
        if (!allowed)
            break;
        token(NULL, id, &t, &n);
        s += n;
    }
    bool end = !*s && grammar_state_can_end(st);
    grammar_state_destroy(st);
    return end ? -1 : s - text;
}

struct sample {
    enum chat_format format;
    struct answer_rules r;
    bool good;
    const char *text;
};

static void check_samples(const struct sample *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct grammar *g = grammar_of(s[i].format, &s[i].r);
        for (int bytes = 0; bytes < 2; bytes++) {
            ptrdiff_t at = walk(g, s[i].text, bytes);
            ck_assert_msg((at < 0) == s[i].good, "%s, sample %zu: stopped at %td: %s",
                          chat_format_info(s[i].format)->name, i, at, s[i].text);
        }
        grammar_unref(g);
    }
}

#define AUTO                                                                                                           \
    {                                                                                                                  \
        .think = -1, .tools = tools, .choice = ANSWER_TOOLS_AUTO, .parallel = true                                     \
    }
#define ONE                                                                                                            \
    {                                                                                                                  \
        .think = -1, .tools = tools, .choice = ANSWER_TOOLS_AUTO                                                       \
    }
#define REQUIRED                                                                                                       \
    {                                                                                                                  \
        .think = -1, .tools = tools, .choice = ANSWER_TOOLS_REQUIRED, .parallel = true                                 \
    }
#define NAMED                                                                                                          \
    {                                                                                                                  \
        .think = -1, .tools = tools, .choice = ANSWER_TOOLS_NAMED, .named = "now"                                      \
    }
#define OBJECT                                                                                                         \
    {                                                                                                                  \
        .think = -1, .format = ANSWER_JSON_OBJECT, .choice = ANSWER_TOOLS_AUTO                                         \
    }
#define OBJECT_OR_CALL                                                                                                 \
    {                                                                                                                  \
        .think = -1, .format = ANSWER_JSON_OBJECT, .tools = tools, .choice = ANSWER_TOOLS_AUTO                         \
    }
#define OFF                                                                                                            \
    {                                                                                                                  \
        .think = 0, .format = ANSWER_JSON_OBJECT                                                                       \
    }

#define CALL_JSON "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"B\"}}\n</tool_call>"
#define NOW_JSON  "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"

START_TEST(json_calls)
{
    static const struct sample s[] = {
        { CHAT_QWEN3, AUTO, true, "Hello <b> <tool \xc3\xa4." },
        { CHAT_QWEN3, AUTO, true, "" },
        { CHAT_QWEN3, AUTO, true, "<think>\nuse <tool_call>?\n</think>\n\n" CALL_JSON },
        { CHAT_QWEN3, AUTO, true, "Look:\n" CALL_JSON "\n" NOW_JSON "\nSo." },
        { CHAT_QWEN3, ONE, true, "Look:\n" CALL_JSON },
        { CHAT_QWEN3, ONE, false, "Look:\n" CALL_JSON "\n" NOW_JSON },
        { CHAT_QWEN3, AUTO, false, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>" },
        { CHAT_QWEN3, AUTO, false, "<tool_call>\n{\"name\": \"now\", \"arguments\": 5}\n</tool_call>" },
        { CHAT_QWEN3, AUTO, false, "Look:\n<tool_call>\n" },
        { CHAT_QWEN3, AUTO, false, "Look:\n<<tool_call> is" },
        { CHAT_QWEN3, AUTO, true, "Look:\n<<tool_call is" },
        { CHAT_QWEN3, AUTO, false, "a <|im_start|>" },
        { CHAT_QWEN3, REQUIRED, true, NOW_JSON "\n" NOW_JSON },
        { CHAT_QWEN3, REQUIRED, true, "<think>\nHm\n</think>\n\n" NOW_JSON },
        { CHAT_QWEN3, REQUIRED, false, "Look: " NOW_JSON },
        { CHAT_QWEN3, REQUIRED, false, "" },
        { CHAT_QWEN3, NAMED, true, NOW_JSON },
        { CHAT_QWEN3, NAMED, false, CALL_JSON },
        { CHAT_QWEN3, OBJECT_OR_CALL, true, "{\"a\":1}" },
        { CHAT_QWEN3, OBJECT_OR_CALL, true, CALL_JSON },
        { CHAT_QWEN3, OBJECT_OR_CALL, false, "Yes" },
        { CHAT_QWEN3, OBJECT, true, "<think>\n\n</think>\n\n{}" },
        { CHAT_QWEN3, OBJECT, false, "<think>\n\n</think>\n\nHere: {}" },
        { CHAT_QWEN3, OFF, true, "{\"a\":[1]}" },
        { CHAT_QWEN3, OFF, false, "<think>\n\n</think>\n\n{}" },
        { CHAT_QWEN3_THINKING, OBJECT, true, "I think\n</think>\n\n{}" },
        { CHAT_QWEN3_THINKING, OBJECT, false, "{}" },
        { CHAT_CHATML, OBJECT, true, "{}" },
        { CHAT_LLAMA3, OBJECT, true, "{}" },
        { CHAT_GEMMA3, OBJECT, false, "no" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

#define CALL_XML "<tool_call>\n<function=weather>\n<parameter=city>\nK\xc3\xb6ln\n</param\n</parameter>\n"
#define END_XML  "</function>\n</tool_call>"

START_TEST(xml_calls)
{
    static const struct sample s[] = {
        { CHAT_QWEN3_CODER, AUTO, true, "Sure <function" },
        { CHAT_QWEN3_CODER, AUTO, true, "Sure.\n" CALL_XML END_XML "\n" CALL_XML END_XML },
        { CHAT_QWEN3_CODER, AUTO, true,
          CALL_XML "<parameter=days>\n3\n</parameter>\n<parameter=unit>\nF\n</parameter>\n"
                   "<parameter=exact>\nTrue\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, true, CALL_XML "<parameter=exact>\nnull\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, false, CALL_XML "<parameter=days>\nthree\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, false, CALL_XML "<parameter=unit>\nK\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, false, CALL_XML "<parameter=size>\n3\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, false, "<tool_call>\n<function=weather>\n" END_XML },
        { CHAT_QWEN3_CODER, AUTO, false, "<function=weather>" },
        { CHAT_QWEN3_CODER, AUTO, true, "<tool_call>\n<function=now>\n<parameter=any>\n3\n</parameter>\n" END_XML },
        { CHAT_QWEN3_CODER, NAMED, true, "<tool_call>\n<function=now>\n" END_XML },
        { CHAT_QWEN35, REQUIRED, true, "Hm\n</think>\n\n" CALL_XML END_XML },
        { CHAT_QWEN35, REQUIRED, false, CALL_XML END_XML },
        { CHAT_QWEN35, OFF, true, "{}" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

#define BARE "{\"name\": \"weather\", \"parameters\": {\"city\": \"B\"}}"

START_TEST(bare_calls)
{
    static const struct sample s[] = {
        { CHAT_LLAMA31, AUTO, true, "Hello {\"name\"" },
        { CHAT_LLAMA31, AUTO, true, BARE },
        { CHAT_LLAMA31, AUTO, true, "<|python_tag|>" BARE },
        { CHAT_LLAMA31, AUTO, true, "{\"nam\": 1}" },
        { CHAT_LLAMA31, AUTO, true, "" },
        { CHAT_LLAMA31, AUTO, false, "{\"name\": \"Bob\"}" },
        { CHAT_LLAMA31, AUTO, false, BARE "; " BARE },
        { CHAT_LLAMA31, REQUIRED, true, BARE },
        { CHAT_LLAMA31, REQUIRED, false, "Hello" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

#define A "<|channel|>analysis<|message|>Hm<|end|>"
#define S "<|start|>assistant"
#define F "<|channel|>final<|message|>"

START_TEST(harmony)
{
    static const struct sample s[] = {
        { CHAT_GPT_OSS, AUTO, true, A S F "Yes." },
        { CHAT_GPT_OSS, AUTO, true, F "Yes." },
        { CHAT_GPT_OSS, AUTO, false, "Yes." },
        { CHAT_GPT_OSS, AUTO, false, A },
        { CHAT_GPT_OSS, AUTO, true, A S " to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"B\"}" },
        { CHAT_GPT_OSS, AUTO, true,
          A S "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\":\"B\"}" },
        { CHAT_GPT_OSS, AUTO, true,
          "<|channel|>commentary<|message|>Look<|end|>" S " to=functions.now<|channel|>commentary<|message|>{}" },
        { CHAT_GPT_OSS, AUTO, false, A S " to=functions.other<|channel|>commentary json<|message|>{}" },
        { CHAT_GPT_OSS, AUTO, false, A S " to=functions.now<|channel|>commentary json<|message|>1" },
        { CHAT_GPT_OSS, REQUIRED, false, A S F "Yes." },
        { CHAT_GPT_OSS, OBJECT, true, A S F "{}" },
        { CHAT_GPT_OSS, OBJECT, true, A S "<|channel|>final <|constrain|>json<|message|>{}" },
        { CHAT_GPT_OSS, OBJECT, false, A S F "Yes" },
        { CHAT_GPT_OSS, OBJECT, false, "<|channel|>commentary<|message|>Look<|end|>" S F "{}" },
        { CHAT_GPT_OSS, OBJECT_OR_CALL, true, " to=functions.now<|channel|>commentary json<|message|>{}" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

#define THINK                                                                                                          \
    {                                                                                                                  \
        .think = 1, .tools = tools, .choice = ANSWER_TOOLS_AUTO, .parallel = true                                      \
    }

START_TEST(gemma4_calls)
{
    static const struct sample s[] = {
        { CHAT_GEMMA4, THINK, true, "<|channel>thought\nHm\n<channel|>Yes." },
        { CHAT_GEMMA4, THINK, true,
          "<|channel>thought\n<channel|><|tool_call>call:weather{city:<|\"|>B}<|\"|>,days:3}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|channel>thought\nHm\n<channel|>Yes." },
        { CHAT_GEMMA4, AUTO, true,
          "<|tool_call>call:now{a:[1,{b:null}],<|\"|>c d<|\"|>:-1.5}<tool_call|><|tool_call>call:now{}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, true,
          "<|tool_call>call:weather{city:<|\"|><|\"|>,exact:true,unit:<|\"|>C<|\"|>}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false,
          "<|tool_call>call:weather{city:<|\"|><|\"|>,city:<|\"|><|\"|>}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|tool_call>call:weather{days:1}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|tool_call>call:weather{unit:<|\"|>K<|\"|>}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|tool_call>call:weather{town:<|\"|>K<|\"|>}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|tool_call>call:weather{days:<|\"|>K<|\"|>}<tool_call|>" },
        { CHAT_GEMMA4, AUTO, false, "<|tool_call>call:later{}<tool_call|>" },
        { CHAT_GEMMA4, REQUIRED, false, "No" },
        { CHAT_GEMMA4, OBJECT, true, "{\"a\": 1}" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

START_TEST(a_grammar_of_ones_own)
{
    static const char own[] =
        "# root \" here\nroot ::= \"root\" [r\\]oot\"] tail | <|im_start|> # root\ntail ::= \"\\\"root\" root?\n";
    static const struct sample s[] = {
        { CHAT_LLAMA3, { .format = ANSWER_GRAMMAR, .schema = own, .think = -1 }, true, "rootr\"root" },
        { CHAT_LLAMA3, { .format = ANSWER_GRAMMAR, .schema = own, .think = -1 }, true, "root]\"rootrooto\"root" },
        { CHAT_QWEN3,
          { .format = ANSWER_GRAMMAR, .schema = own, .think = -1 },
          true,
          "<think>Hm</think>\n\nroott\"root" },
        { CHAT_QWEN3, { .format = ANSWER_GRAMMAR, .schema = own, .think = -1 }, false, "root" },
    };
    check_samples(s, ARRAY_LEN(s));
}
END_TEST

START_TEST(what_is_not_constrained_has_no_grammar)
{
    static const struct answer_rules r[] = { { .think = -1 },
                                             { .think = 1, .tools = tools, .choice = ANSWER_TOOLS_NONE },
                                             { .think = -1, .tools = "[]" } };
    for (size_t i = 0; i < ARRAY_LEN(r); i++) {
        struct tok_buf text = { 0 };
        ck_assert_int_eq(answer_grammar(format_chat(CHAT_QWEN3), &r[i], &text, NULL), 0);
        ck_assert_uint_eq(text.n, 0);
    }
}
END_TEST

/* Names that a syntax cannot carry: not without a word, and not where the function is strict. */
START_TEST(names_that_cannot_be_written)
{
    static const char odd[] = "[{\"function\":{\"name\":\"f\",\"strict\":%s,\"parameters\":{\"type\":\"object\","
                              "\"properties\":{\"%s\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}}}}}]";
    static const char *const names[] = { "a>", "a<b", "a\\nb", " a", "a ", "" };
    char text[512];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct answer_rules r = { .think = -1, .tools = text, .choice = ANSWER_TOOLS_REQUIRED, .warnings = json_array() };
        struct tok_buf out = { 0 };
        struct err e = { 0 };
        snprintf(text, sizeof text, odd, "true", names[i]);
        ck_assert_int_eq(answer_grammar(format_chat(CHAT_QWEN3_CODER), &r, &out, &e), -ENOTSUP);
        ck_assert_msg(strstr(e.msg, "tools: f: ") && strstr(e.msg, "cannot carry"), "%s", e.msg);
        ck_assert_int_eq(answer_grammar(format_chat(CHAT_QWEN3), &r, &out, &e), 0);
        ck_assert_uint_eq(json_array_size(r.warnings), 0);
        snprintf(text, sizeof text, odd, "false", names[i]);
        struct grammar *g = grammar_of(CHAT_QWEN3_CODER, &r);
        ck_assert_int_eq(walk(g, "<tool_call>\n<function=f>\n<parameter=b>\nnull\n</parameter>\n</function>\n</tool_call>", true), -1);
        ck_assert_uint_eq(json_array_size(r.warnings), 1);
        grammar_unref(g);
        json_decref(r.warnings);
        tok_buf_finish(&out);
    }
}
END_TEST

START_TEST(refusals_have_reasons)
{
    static const char odd_types[] = "[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":"
                                    "{\"zone\":{\"type\":{\"a\":1},\"enum\":[\"CET\"]}}}}}]";
    static const struct {
        enum chat_format f;
        struct answer_rules r;
        int rc;
        const char *why;
    } s[] = {
        { CHAT_QWEN3, { .tools = tools, .choice = ANSWER_TOOLS_NAMED, .named = "later" }, -EINVAL, "later" },
        { CHAT_QWEN3, { .tools = tools, .choice = ANSWER_TOOLS_NAMED }, -EINVAL, "no function" },
        { CHAT_QWEN3, { .choice = ANSWER_TOOLS_REQUIRED }, -EINVAL, "no tools" },
        { CHAT_QWEN3, { .tools = "{}" }, -EINVAL, "not an array" },
        { CHAT_QWEN3, { .tools = "[{\"function\":{\"name\":\"a\\\"b\"}}]" }, -EINVAL, "tools[0]" },
        { CHAT_LLAMA3, { .tools = tools }, -ENOTSUP, "llama3" },
        { CHAT_LLAMA3, { .format = ANSWER_GRAMMAR, .schema = "root ::= zinc-x" }, -EINVAL, "zinc-x" },
        { CHAT_LLAMA3, { .format = ANSWER_GRAMMAR, .schema = "a ::= \"root\"" }, -EINVAL, "no rule 'root'" },
        { CHAT_LLAMA3, { .format = ANSWER_JSON_SCHEMA, .schema = "[" }, -EINVAL, "" },
        { CHAT_QWEN3, { .tools = odd_types }, -EINVAL, "neither a string" },
        { CHAT_QWEN35, { .tools = odd_types }, -EINVAL, "neither a string" },
        { CHAT_GEMMA4, { .tools = odd_types }, -EINVAL, "neither a string" },
    };
    for (size_t i = 0; i < ARRAY_LEN(s); i++) {
        struct tok_buf text = { 0 };
        struct err e = { 0 };
        ck_assert_int_eq(answer_grammar(format_chat(s[i].f), &s[i].r, &text, &e), s[i].rc);
        ck_assert_msg(e.msg[0] && strstr(e.msg, s[i].why), "'%s' has no '%s'", e.msg, s[i].why);
        tok_buf_finish(&text);
    }
}
END_TEST

/* ---- at random ---- */

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % below;
}

/* One of the allowed tokens, mostly of those that are longer than a byte. -1: none. */
static int32_t pick(const uint64_t *mask)
{
    int32_t ids[N_VOCAB];
    uint32_t n = 0, n_short = 0;
    for (int32_t id = 0; id < N_VOCAB; id++) {
        if (!(mask[id / 64] >> (id % 64) & 1))
            continue;
        n_short += id < 256;
        ids[n++] = id;
    }
    return !n ? -1 : n > n_short && rnd(10) < 7 ? ids[n_short + rnd(n - n_short)] : ids[rnd(n)];
}

/* 0: no end was found in time. */
static bool random_answer(struct grammar *g, struct tok_buf *out)
{
    struct grammar_state *st;
    bool ended = false;
    out->n = 0;
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    for (int i = 0; i < 600 && !ended; i++) {
        const char *t;
        size_t n;
        int32_t id = pick(grammar_state_mask(st));
        ck_assert_int_ge(id, 0);
        ck_assert_int_eq(grammar_state_accept(st, id), 0);
        token(NULL, id, &t, &n);
        ended = id == END_ID;
        if (!ended)
            ck_assert_int_eq(tok_buf_add(out, t, n), 0);
    }
    grammar_state_destroy(st);
    return ended;
}

struct seen {
    uint32_t text, begun, ended;
    char args[65536];
    size_t n;
};

static int on_part(void *user, const char *s, size_t n)
{
    return 0;
}

static int on_text(void *user, const char *s, size_t n)
{
    ((struct seen *)user)->text += (uint32_t)n;
    return 0;
}

static int on_begin(void *user, uint32_t index, const char *name)
{
    struct seen *g = user;
    ck_assert(!strcmp(name, "weather") || !strcmp(name, "now"));
    g->begun++;
    g->n = 0;
    return 0;
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n)
{
    struct seen *g = user;
    ck_assert_uint_lt(g->n + n, sizeof g->args);
    memcpy(g->args + g->n, s, n);
    g->n += n;
    return 0;
}

static int on_end(void *user, uint32_t index, bool complete)
{
    struct seen *g = user;
    json_t *v = json_loadb(g->args, g->n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL), *p;
    const char *key;
    ck_assert_msg(complete && json_is_object(v), "%.*s", (int)g->n, g->args);
    json_object_foreach (v, key, p)
        if (strcmp(key, "days") == 0)
            ck_assert_msg(json_is_number(p), "%.*s", (int)g->n, g->args);
    json_decref(v);
    g->ended++;
    return 0;
}

START_TEST(whatever_is_let_through_is_understood)
{
    static const enum chat_format formats[] = { CHAT_CHATML,  CHAT_QWEN3,   CHAT_QWEN3_CODER, CHAT_QWEN35,
                                                CHAT_LLAMA31, CHAT_GPT_OSS, CHAT_GEMMA4 };
    static const struct answer_rules rules[] = { AUTO, REQUIRED };
    static struct seen seen;
    struct tok_buf text = { 0 };
    for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
        for (size_t r = 0; r < ARRAY_LEN(rules); r++) {
            struct grammar *g = grammar_of(formats[f], &rules[r]);
            uint32_t calls = 0, ended = 0;
            for (int i = 0; i < 300; i++) {
                struct answer_sink sink = { on_part, on_text, on_begin, on_arguments, on_end, NULL };
                struct answer_opts o = { .think = -1, .tools = tools, .forced_call = r == 1 };
                struct answer *a;
                if (!random_answer(g, &text))
                    continue;
                ended++;
                seen.text = seen.begun = seen.ended = 0;
                ck_assert_int_eq(answer_create(format_chat(formats[f]), &o, &sink, &seen, &a, NULL), 0);
                ck_assert_int_eq(answer_put(a, text.s, text.n), 0);
                ck_assert_int_eq(answer_end(a), 0);
                ck_assert_uint_eq(seen.begun, seen.ended);
                ck_assert_uint_eq(seen.ended, answer_n_calls(a));
                calls += seen.ended;
                if (r == 1)
                    ck_assert_msg(seen.ended && (!seen.text || formats[f] == CHAT_GPT_OSS), "%s: %.*s",
                                  chat_format_info(formats[f])->name, (int)text.n, text.s);
                answer_destroy(a);
            }
            ck_assert_msg(ended >= 30 && (r == 0 || calls >= ended), "%s: %u ended, %u calls",
                          chat_format_info(formats[f])->name, ended, calls);
            grammar_unref(g);
        }
    }
    tok_buf_finish(&text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer_grammar");
    TCase *t = tcase_create("answer_grammar");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, json_calls);
    tcase_add_test(t, xml_calls);
    tcase_add_test(t, bare_calls);
    tcase_add_test(t, harmony);
    tcase_add_test(t, gemma4_calls);
    tcase_add_test(t, a_grammar_of_ones_own);
    tcase_add_test(t, what_is_not_constrained_has_no_grammar);
    tcase_add_test(t, names_that_cannot_be_written);
    tcase_add_test(t, refusals_have_reasons);
    tcase_add_test(t, whatever_is_let_through_is_understood);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
