/* Reasoning, text and calls are told apart in every chat format, however the output is cut into pieces and whether calls
 * come whole or while they are written. What is no call comes out as text, and marks never do. */
#include "tests/unit/answer_case.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"w\",\"parameters\":{\"type\":"
    "\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},\"exact\":{\"type\":\"boolean\"},"
    "\"where\":{\"$ref\":\"#/$defs/place\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
    "\"unit\":{\"type\":[\"string\",\"null\"]},\"any\":{}},\"required\":[\"city\"],"
    "\"$defs\":{\"place\":{\"type\":\"object\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

struct got {
    char part[2][4096], calls[4096], args[4096];
    uint32_t next;
    bool open;
};

static void add(char *to, const char *s, size_t n)
{
    size_t have = strlen(to);
    ck_assert_uint_lt(have + n, 4096);
    memcpy(to + have, s, n);
    to[have + n] = 0;
}

/* Pieces are whole characters. */
static void check_piece(const char *s, size_t n)
{
    json_t *v = json_stringn(s, n);
    ck_assert_uint_gt(n, 0);
    ck_assert_msg(v != NULL, "not whole characters: '%.*s'", (int)n, s);
    json_decref(v);
}

static int on_reasoning(void *user, const char *s, size_t n)
{
    check_piece(s, n);
    add(((struct got *)user)->part[0], s, n);
    return 0;
}

static int on_text(void *user, const char *s, size_t n)
{
    check_piece(s, n);
    ck_assert(!((struct got *)user)->open);
    add(((struct got *)user)->part[1], s, n);
    return 0;
}

static int on_begin(void *user, uint32_t index, const char *name)
{
    struct got *g = user;
    ck_assert(!g->open && index == g->next);
    g->open = true;
    g->args[0] = 0;
    add(g->args, name, strlen(name));
    add(g->args, "(", 1);
    return 0;
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n)
{
    struct got *g = user;
    check_piece(s, n);
    ck_assert(g->open && index == g->next);
    add(g->args, s, n);
    return 0;
}

static int on_end(void *user, uint32_t index, bool complete)
{
    struct got *g = user;
    ck_assert(g->open && index == g->next);
    json_t *v = json_loads(strchr(g->args, '(') + 1, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert_msg(!complete || json_is_object(v), "not an object: %s", g->args);
    json_decref(v);
    add(g->args, complete ? ")" : "~", 1);
    add(g->calls, g->args, strlen(g->args));
    g->open = false;
    g->next++;
    return 0;
}

static int on_cancel(void *user, uint32_t index, const char *raw, size_t n)
{
    struct got *g = user;
    ck_assert(g->open && index == g->next);
    g->open = false;
    g->next++;
    if (g->part[1][0])
        add(g->part[1], "\n\n", 2);
    add(g->part[1], raw, n);
    return 0;
}

struct how {
    enum chat_format format;
    int think;
    const char *tools;
};

/* In pieces of `step` bytes that end with characters. */
static void run(struct how h, bool whole, size_t step, const char *text, struct got *g)
{
    struct answer_sink sink = { on_reasoning, on_text, on_begin, on_arguments, on_end, whole ? NULL : on_cancel };
    struct answer_opts o = { .think = h.think, .tools = h.tools };
    struct answer *a;
    struct err e = { 0 };
    *g = (struct got){ 0 };
    ck_assert_msg(answer_create(format_chat(h.format), &o, &sink, g, &a, &e) == 0, "%s", e.msg);
    for (size_t i = 0, len = strlen(text); i < len;) {
        size_t n = MIN(step, len - i);
        while ((text[i + n] & 0xc0) == 0x80)
            n++;
        ck_assert_int_eq(answer_put(a, text + i, n), 0);
        i += n;
    }
    ck_assert_int_eq(answer_end(a), 0);
    ck_assert(!g->open);
    answer_destroy(a);
}

static void expect(struct how h, const char *text, const char *reasoning, const char *answer, const char *calls)
{
    struct got g;
    for (size_t step = 1; step < 24; step++) {
        for (int whole = 0; whole < 2; whole++) {
            run(h, whole, step == 23 ? strlen(text) + 1 : step, text, &g);
            ck_assert_msg(!strcmp(g.part[0], reasoning) && !strcmp(g.part[1], answer) && !strcmp(g.calls, calls),
                          "%s, pieces of %zu%s: %s\n got: '%s' + '%s' + %s\nwant: '%s' + '%s' + %s",
                          chat_format_info(h.format)->name, step, whole ? ", whole" : "", text, g.part[0], g.part[1],
                          g.calls, reasoning, answer, calls);
        }
    }
}

static const struct how plain = { CHAT_CHATML, -1, NULL }, json = { CHAT_QWEN3, -1, tools },
                        opened = { CHAT_QWEN35, 1, tools }, xml = { CHAT_QWEN35, 0, tools },
                        coder = { CHAT_QWEN3_CODER, -1, tools }, bare = { CHAT_LLAMA31, -1, tools },
                        harmony = { CHAT_GPT_OSS, -1, tools }, gemma = { CHAT_GEMMA4, 1, tools };

START_TEST(text_alone_is_text)
{
    expect(plain, "Hello <tool_call> you ", "", "Hello <tool_call> you ", "");
    expect(plain, "", "", "", "");
    expect(json, "Hello you\n", "", "Hello you\n", "");
    expect(json, "<thin ice, a < b, <tool_cal", "", "<thin ice, a < b, <tool_cal", "");
    expect(json, "a < b and <think> later", "", "a < b and <think> later", "");
    expect((struct how){ CHAT_LLAMA3, -1, NULL }, "{\"name\": \"weather\", \"parameters\": {}}", "",
           "{\"name\": \"weather\", \"parameters\": {}}", "");
    expect((struct how){ CHAT_GEMMA3, -1, tools }, "\xc3\xa4\xe2\x82\xac \xf0\x9f\x99\x82", "",
           "\xc3\xa4\xe2\x82\xac \xf0\x9f\x99\x82", "");
}
END_TEST

START_TEST(reasoning_comes_first)
{
    expect(json, "<think>\nlet me see\n</think>\n\nYes.", "let me see", "Yes.", "");
    expect(json, "\n<think>a</thin</think>b</think>", "a</thin", "b</think>", "");
    expect(json, "<think>\n\n</think>\n\nNo.", "", "No.", "");
    expect(opened, "still \xc3\xa4 thinking\n</think>\n\ndone", "still \xc3\xa4 thinking", "done", "");
    expect(opened, "no end </thi", "no end </thi", "", "");
    expect(opened, "<tool_call> is how\n</think>\n\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
           "<tool_call> is how", "", "now({})");
    expect(json, "<think>one</think><think>two</think>x", "one\n\ntwo", "x", "");
    expect(gemma, "<|channel>thought\nHm.\n<channel|>Yes.", "Hm.", "Yes.", "");
    expect(gemma, "<|channel>thought\n<channel|>Yes.", "", "Yes.", "");
    expect(gemma, "At once.", "", "At once.", "");
}
END_TEST

START_TEST(calls_in_json)
{
    expect(json,
           "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"K\xc3\xb6ln \\\"}\\\"\"}}\n</tool_call>",
           "", "", "weather({\"city\": \"K\xc3\xb6ln \\\"}\\\"\"})");
    expect(json,
           "Let me look.\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
           "{\"arguments\": {\"a\": [1, {\"b\": null}]}, \"name\": \"other\"}\n</tool_call>\nSo.",
           "", "Let me look.\n\nSo.", "now({})other({\"a\": [1, {\"b\": null}]})");
    expect(json, "<think>t</think>\n<tool_call>{\"name\":\"now\"}</tool_call>", "t", "", "now({})");
    expect(json, "<tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", "", "", "now({\"a\":1})");
    expect(json, "<tool_call>{\"name\":\"n\\u006fw\", \"parameters\":null }", "", "", "now({})");
    expect(json, "<tool_call>{\"name\":\"now\",\"arguments\":{\"n\":123456789012345678901234567890} }</tool_call>", "",
           "", "now({\"n\":123456789012345678901234567890})");
    expect((struct how){ CHAT_CHATML, -1, tools }, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
           "", "", "now({})");
}
END_TEST

START_TEST(broken_calls_in_json_are_text)
{
    static const char *const broken[] = {
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": Ber}}\n</tool_call> and on",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"x}\n</tool_call> and on",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": 1,}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": 1}\n</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": [1]}\n</tool_call>",
        "<tool_call>\n{\"arguments\": {}}\n</tool_call>",
        "<tool_call>\nweather\n</tool_call>",
        "<tool_call>{\"name\": 5}",
        "<tool_call>{\"name\": \"\"}",
        "<tool_call>{\"name\": \"a\"]",
        "<tool_call>{name: 1}",
        "<tool_call>{\"name\" 1}",
        "<tool_call>{\"a\": }",
        "<tool_call>{\"name\":\"now\",\"arguments\":{]}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        expect(json, broken[i], "", broken[i], "");
    expect(json, "See:\n<tool_call>[]</tool_call><tool_call>{\"name\":\"now\"}</tool_call>", "",
           "See:\n\n<tool_call>[]</tool_call>", "now({})");
}
END_TEST

START_TEST(calls_in_xml)
{
    expect(xml,
           "<tool_call>\n<function=weather>\n<parameter=city>\nK\xc3\xb6ln "
           "\"am\"\nRhein\n</parameter>\n<parameter=days>\n3\n"
           "</parameter>\n<parameter=exact>\nTrue\n</parameter>\n</function>\n</tool_call>",
           "", "", "weather({\"city\": \"K\xc3\xb6ln \\\"am\\\"\\nRhein\", \"days\": 3, \"exact\": true})");
    expect(xml,
           "Sure.\n\n<tool_call>\n<function=now>\n</function>\n</"
           "tool_call>\n<tool_call>\n<function=weather>\n<parameter=where>\n"
           "{\"x\": [1.5]}\n</parameter>\n<parameter=tags>\n[\"a\"]\n</parameter>\n</function>\n</tool_call>\n",
           "", "Sure.", "now({})weather({\"where\": {\"x\": [1.5]}, \"tags\": [\"a\"]})");
    expect(coder,
           "<function=weather>\n<parameter=city>\n5\n</parameter>\n<parameter=days>\nfive\n</parameter>\n</function>\n"
           "</tool_call>",
           "", "", "weather({\"city\": \"5\", \"days\": \"five\"})");
    expect(xml,
           "<tool_call><function=weather><parameter=unit>None</parameter><parameter=any>[1]</parameter><parameter=city>"
           "</parameter><parameter=new>7</parameter></function></tool_call>",
           "", "", "weather({\"unit\": null, \"any\": [1], \"city\": \"\", \"new\": \"7\"})");
    expect(xml,
           "<tool_call>\n<function=weather>\n<parameter=unit>\n5\n</parameter>\n<parameter=city>\n\n\n</parame\t\x01\n"
           "</parameter>\n</function>",
           "", "", "weather({\"unit\": \"5\", \"city\": \"\\n\\n</parame\\t\\u0001\"})");
    expect(xml, "<tool_call><function=other><parameter=a>\n<b></parameter></function></tool_call>x", "", "x",
           "other({\"a\": \"<b>\"})");
}
END_TEST

START_TEST(broken_calls_in_xml_are_text)
{
    static const char *const broken[] = {
        "<tool_call>\nfunction</tool_call> and on",
        "<tool_call><function=>",
        "<function=weather>\n<param=1></function>",
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        expect(xml, broken[i], "", broken[i], "");
}
END_TEST

START_TEST(bare_calls)
{
    expect(bare, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Berlin\"}}", "", "",
           "weather({\"city\": \"Berlin\"})");
    expect(bare, "\n{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}\n", "", "", "now({})");
    expect(bare, "<|python_tag|>{\"name\": \"other\", \"parameters\": {\"a\": 1}}", "", "", "other({\"a\": 1})");
    expect(bare, "I look. <|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "", "I look.", "now({})");
    expect(bare, "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"weather\", \"parameters\": {}}", "", "",
           "now({})weather({})");
    expect(bare, "{\"name\": \"Ann\", \"age\": 5}", "", "{\"name\": \"Ann\", \"age\": 5}", "");
    expect(bare, "{\"name\": \"nowhere\"}", "", "{\"name\": \"nowhere\"}", "");
    expect(bare, "{\"temperature\": {\"a\": 1}} ", "", "{\"temperature\": {\"a\": 1}} ", "");
    expect(bare, "{\"name\": \"now\", \"parameters\": {}, \"x\": 1}", "",
           "{\"name\": \"now\", \"parameters\": {}, \"x\": 1}", "");
    expect(bare, "Text {\"name\": \"now\", \"parameters\": {}}", "", "Text {\"name\": \"now\", \"parameters\": {}}",
           "");
    expect(bare, "<|python_tag|>print(1)", "", "<|python_tag|>print(1)", "");
}
END_TEST

#define A "<|channel|>analysis<|message|>"
#define F "<|channel|>final<|message|>"
#define S "<|start|>assistant"

/* As `zinc run --chat` and `zinc chat` read answers. */
START_TEST(without_tools_calls_are_text)
{
    const struct how qwen = { CHAT_QWEN3, -1, NULL }, oss = { CHAT_GPT_OSS, -1, NULL }, gemma4 = { CHAT_GEMMA4, 1, NULL };
    expect(qwen, "<think>\nHm\n</think>\n\n<tool_call>\n{\"name\":\"now\"}\n</tool_call>", "Hm",
           "<tool_call>\n{\"name\":\"now\"}\n</tool_call>", "");
    expect(qwen, "<thin", "", "<thin", "");
    expect(qwen, " \n", "", "", "");
    expect(gemma4, "<|channel>thought\nHm.\n<channel|> <|tool_call>call:now{}", "Hm.", "<|tool_call>call:now{}", "");
    expect(oss, A "x<|end|>" S "<|channel|>commentary to=functions.now<|message|>{}<|call|>", "x", "{}", "");
    expect(oss, A "x<|end|>" S F "Yes.\n", "x", "Yes.\n", "");
}
END_TEST

START_TEST(harmony_messages)
{
    expect(harmony, A "think<|end|>" S F "Yes.", "think", "Yes.", "");
    expect(harmony, F "At once.<|return|>", "", "At once.", "");
    expect(harmony, "At once.", "", "At once.", "");
    expect(harmony, "to be or not", "", "to be or not", "");
    expect(harmony, A "one<|end|>" S A "two <|end|>" S F "x", "one\n\ntwo", "x", "");
    expect(harmony, A "no end <|en", "no end <|en", "", "");
    expect(harmony, A "x<|end|>" S "<|chan", "x", "", "");
    expect(harmony, A "x<|end|>" S "<|channel|>commentary<|message|>I will look.<|end|>" S F "It rains.", "x",
           "I will look.\n\nIt rains.", "");
    expect(harmony, F "a < b <|x|> c", "", "a < b <|x|> c", "");
}
END_TEST

START_TEST(calls_in_harmony)
{
    expect(harmony,
           A "t<|end|>" S
             " to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"K\xc3\xb6ln\"}<|call|>",
           "t", "", "weather({\"city\": \"K\xc3\xb6ln\"})");
    expect(harmony, " to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}", "", "", "now({})");
    expect(harmony, "<|channel|>commentary to=functions.weather <|constrain|>json<|message|> {\"city\":\"B\"}\n", "",
           "", "weather({\"city\":\"B\"})");
    expect(harmony, "<|channel|>analysis to=functions.now code<|message|><|call|>", "", "", "now({})");
    expect(harmony, "<|channel|>commentary to=now<|message|>{}<|call|>" S F "Done.", "", "Done.", "now({})");
    expect(harmony,
           "<|channel|>commentary<|message|>Look:<|end|>" S "<|channel|>commentary to=functions.now<|message|>{}", "",
           "Look:", "now({})");
    expect(harmony, "<|channel|>commentary to=functions.now<|message|>{a}<|call|>" S F "x", "",
           "<|channel|>commentary to=functions.now<|message|>{a}\n\nx", "");
    expect((struct how){ CHAT_GPT_OSS, -1, NULL }, "<|channel|>commentary to=functions.now<|message|>{}<|call|>", "",
           "{}", "");
}
END_TEST

START_TEST(calls_in_gemma4)
{
    expect(gemma, "<|tool_call>call:weather{city:<|\"|>K\xc3\xb6ln, \"x\" {}<|\"|>,days:3}<tool_call|>", "", "",
           "weather({\"city\": \"K\xc3\xb6ln, \\\"x\\\" {}\", \"days\": 3})");
    expect(gemma,
           "<|channel>thought\nHm\n<channel|><|tool_call>call:now{}<tool_call|><|tool_call>call:other{a:[1, "
           "true,<|\"|>x<|\"|>,[],"
           "{b:None,<|\"|>c d<|\"|>:-1.5e3}],\"k\":word}<tool_call|>",
           "Hm", "", "now({})other({\"a\": [1, true, \"x\", [], {\"b\": null, \"c d\": -1.5e3}], \"k\": \"word\"})");
    expect(gemma, "So: <|tool_call>call:now{}<tool_call|> done", "", "So:\n\ndone", "now({})");
    expect(gemma, "<|tool_call>call:now{a:<|\"|><|\"<|\"|>}", "", "", "now({\"a\": \"<|\\\"\"})");
    static const char *const broken[] = {
        "<|tool_call>weather{}<tool_call|>",
        "<|tool_call>call:now{a}<tool_call|>",
        "<|tool_call>call:now{a:1,}<tool_call|>",
        "<|tool_call>call:now{a:[1}]}<tool_call|>",
        "<|tool_call>call:now{a:}",
        "<|tool_call>call:{}",
        "<|tool_call>call:now{a:1 <|\"|>}",
        "<|tool_call>call:now{:1}",
        "<|tool_call>call:now{a:[,1]}",
        "<|tool_call>call:now{<|\"|>a<|\"|>,1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        expect(gemma, broken[i], "", broken[i], "");
}
END_TEST

/* However far the model came: what is known of a call is told, and its marks are not shown. */
START_TEST(calls_that_are_cut_off)
{
    static const struct {
        const struct how *h;
        const char *text, *said, *calls;
    } cases[] = {
        { &json, "Look:\n<tool_call>", "Look:", "" },
        { &json, "<tool_call>\n{\"na", "", "" },
        { &json, "<tool_call>\n{\"name\": \"weath", "", "" },
        { &json, "<tool_call>\n{\"name\": \"weather\"", "", "weather(~" },
        { &json, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ber", "", "weather({\"city\": \"Ber~" },
        { &json, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"B\"}", "", "weather({\"city\": \"B\"}~" },
        { &json, "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"n", "", "" },
        { &json, "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a", "", "now(~" },
        { &json, "<tool_call>{\"name\":\"now\"}</tool_call>\n<tool_call>{\"name\":\"weather\", \"arguments\": {", "", "now({})weather({~" },
        { &xml, "<tool_call>\n\n", "", "" },
        { &xml, "<tool_call>\n<func", "", "" },
        { &xml, "<tool_call>\n<function=wea", "", "" },
        { &xml, "<tool_call>\n<function=weather>\n<para", "", "weather({~" },
        { &xml, "<function=weather>\n<parameter=ci", "", "weather({~" },
        { &xml, "So <tool_call>\n<function=weather>\n<parameter=city>\nBer", "So", "weather({\"city\": \"Ber~" },
        { &xml, "<tool_call>\n<function=weather>\n<parameter=city>\nBer\n</param", "", "weather({\"city\": \"Ber~" },
        { &xml, "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</parameter>\n<parameter=days>\n1", "", "weather({\"city\": \"x\", \"days\": ~" },
        { &xml, "<tool_call>\n<function=weather>\n<parameter=city>\nx\n</parameter>\n</function", "", "weather({\"city\": \"x\"~" },
        { &bare, "{\"name\": \"wea", "{\"name\": \"wea", "" },
        { &bare, "{\"name\": \"now\"", "", "now(~" },
        { &bare, "{\"name\": \"now\", \"parameters\": {\"a", "", "now({\"a~" },
        { &bare, "<|python_tag|>{\"na", "", "" },
        { &harmony, " to=functions.now", "", "" },
        { &harmony, " to=functions.now<|channel|>comm", "", "now(~" },
        { &harmony, "to=no", "to=no", "" },
        { &harmony, "<|channel|>commentary to=functions.now <|constrain|>json", "", "now(~" },
        { &harmony, "<|channel|>commentary to=functions.now<|message|>", "", "now(~" },
        { &harmony, "<|channel|>commentary to=functions.now<|message|>{\"a\": ", "", "now({\"a\":~" },
        { &harmony, "<|channel|>commentary to=functions.now<|message|>{\"a\":1<|cal", "", "now({\"a\":1~" },
        { &gemma, "<|tool_call>call:wea", "", "" },
        { &gemma, "a <|tool_call>", "a", "" },
        { &gemma, "<|tool_call>call:weather{ci", "", "weather({~" },
        { &gemma, "<|tool_call>call:weather{city:<|\"|>Be<|", "", "weather({\"city\": \"Be~" },
        { &gemma, "<|tool_call>call:weather{city:<|\"|>B<|\"|>,days:[1,2", "", "weather({\"city\": \"B\", \"days\": [1, ~" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect(*cases[i].h, cases[i].text, "", cases[i].said, cases[i].calls);
}
END_TEST

/* What begins like a header and has no <|message|> near is text, wherever the pieces end. */
START_TEST(long_headers_in_harmony_are_none)
{
    char text[700], want[700];
    static const char *const begin[] = { "<|start|>", "<|channel|>", "to=functions.now " };
    for (size_t i = 0; i < ARRAY_LEN(begin); i++) {
        for (size_t n = 280; n < 330; n += 7) {
            const char *tail = "<|message|>tail";
            size_t n_begin = strlen(begin[i]);
            memset(want, 'x', n);
            snprintf(text, sizeof text, "%s%.*s%s", begin[i], (int)n, want, tail);
            bool header = n_begin + n <= 300;
            snprintf(want + n, sizeof want - n, "\n\ntail");
            if (i == 2)
                memmove(want + n_begin, want, n + 7), memcpy(want, begin[i], n_begin);
            expect(harmony, text, "", !header ? want : i == 2 ? "" : "tail", header && i == 2 ? "now(~" : "");
        }
    }
}
END_TEST

/* Found by fuzzing: a call that breaks behind a header that was none, whole and in pieces. */
START_TEST(a_broken_call_behind_a_broken_header)
{
    expect(harmony, "to=functions.f <|x<|end|><|start|>assistant to=functions.f<|message|>{\"s\":1}]<|call|>", "",
           "to=functions.f <|x\n\n<|start|>assistant to=functions.f<|message|>{\"s\":1}]", "");
}
END_TEST

START_TEST(text_is_not_held_back)
{
    static const struct {
        const struct how *h;
        const char *text, *passed;
    } cases[] = {
        { &json, "Hello wor", "Hello wor" }, { &json, "Hello <t", "Hello" },
        { &json, "Hello <b", "Hello <b" },   { &opened, "I thi", "I thi" },
        { &bare, "{\"a\": 1", "{\"a\": 1" }, { &harmony, F "Yes <", "Yes" },
        { &gemma, "a <|too", "a" },          { &bare, "{\"name\": \"Bo", "{\"name\": \"Bo" },
        { &plain, "x \n", "x \n" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer_sink sink = { on_reasoning, on_text, on_begin, on_arguments, on_end, NULL };
        struct answer_opts o = { .think = cases[i].h->think, .tools = cases[i].h->tools };
        struct got g = { 0 };
        struct answer *a;
        ck_assert_int_eq(answer_create(format_chat(cases[i].h->format), &o, &sink, &g, &a, NULL), 0);
        ck_assert_int_eq(answer_put(a, cases[i].text, strlen(cases[i].text)), 0);
        ck_assert_str_eq(g.part[answer_part(a) != ANSWER_PART_REASONING], cases[i].passed);
        answer_destroy(a);
    }
}
END_TEST

START_TEST(arguments_come_while_they_are_written)
{
    static const struct {
        const struct how *h;
        const char *text, *args;
    } cases[] = {
        { &json, "<tool_call>{\"name\":\"now\", \"arguments\": {\"a\": \"b", "now({\"a\": \"b" },
        { &xml, "<tool_call><function=weather><parameter=city>\nBerlin a", "weather({\"city\": \"Berlin a" },
        { &bare, "{\"name\":\"now\", \"parameters\": {\"a", "now({\"a" },
        { &harmony, " to=functions.now<|channel|>commentary<|message|>{\"a", "now({\"a" },
        { &gemma, "<|tool_call>call:now{a:<|\"|>b", "now({\"a\": \"b" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer_sink sink = { on_reasoning, on_text, on_begin, on_arguments, on_end, on_cancel };
        struct answer_opts o = { .think = cases[i].h->think, .tools = cases[i].h->tools };
        struct got g = { 0 };
        struct answer *a;
        ck_assert_int_eq(answer_create(format_chat(cases[i].h->format), &o, &sink, &g, &a, NULL), 0);
        ck_assert_int_eq(answer_put(a, cases[i].text, strlen(cases[i].text)), 0);
        ck_assert_str_eq(g.args, cases[i].args);
        ck_assert_uint_eq(answer_n_calls(a), 0);
        ck_assert_int_eq(answer_end(a), 0);
        ck_assert_str_eq(g.part[1], "");
        ck_assert_msg(!strncmp(g.calls, cases[i].args, strlen(cases[i].args)), "%s", g.calls);
        answer_destroy(a);
    }
}
END_TEST

static int refuse(void *user, const char *s, size_t n)
{
    return -EPIPE;
}

START_TEST(what_the_sink_returns_is_passed_on)
{
    struct answer_sink sink = { refuse, refuse, on_begin, on_arguments, on_end, NULL };
    struct answer_opts o = { .think = -1 };
    struct answer *a;
    ck_assert_int_eq(answer_create(format_chat(CHAT_QWEN3), &o, &sink, NULL, &a, NULL), 0);
    ck_assert_int_eq(answer_put(a, "x", 1), -EPIPE);
    answer_destroy(a);
    answer_destroy(NULL);
}
END_TEST

START_TEST(tools_must_be_functions)
{
    static const char *const bad[] = { "{}", "[", "[1]", "[{\"type\":\"function\"}]",
                                       "[{\"function\":{\"name\":\"\"}}]" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct answer_sink sink = { 0 };
        struct answer_opts o = { .tools = bad[i] };
        struct answer *a;
        struct err e = { 0 };
        ck_assert_int_eq(answer_create(format_chat(CHAT_QWEN3), &o, &sink, NULL, &a, &e), -EINVAL);
        ck_assert_msg(strstr(e.msg, "tools"), "%s", e.msg);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer");
    TCase *t = tcase_create("answer");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, text_alone_is_text);
    tcase_add_test(t, reasoning_comes_first);
    tcase_add_test(t, calls_in_json);
    tcase_add_test(t, broken_calls_in_json_are_text);
    tcase_add_test(t, calls_in_xml);
    tcase_add_test(t, broken_calls_in_xml_are_text);
    tcase_add_test(t, bare_calls);
    tcase_add_test(t, without_tools_calls_are_text);
    tcase_add_test(t, harmony_messages);
    tcase_add_test(t, calls_in_harmony);
    tcase_add_test(t, calls_in_gemma4);
    tcase_add_test(t, calls_that_are_cut_off);
    tcase_add_test(t, long_headers_in_harmony_are_none);
    tcase_add_test(t, a_broken_call_behind_a_broken_header);
    tcase_add_test(t, text_is_not_held_back);
    tcase_add_test(t, arguments_come_while_they_are_written);
    tcase_add_test(t, what_the_sink_returns_is_passed_on);
    tcase_add_test(t, tools_must_be_functions);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
