/* tests/unit/chat_marks.h: conversations in which everything that can be said holds the marks of chat formats, and the
 * same ones with a harmless word in their place. Both must have the same marks as tokens. */
#ifndef ZINC_TESTS_UNIT_CHAT_MARKS_H
#define ZINC_TESTS_UNIT_CHAT_MARKS_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "model/chat.h"
#include "model/tok.h"

static const char *const chat_marks[] = {
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<tool_response>", "</tool_response>", "<tools>", "</tools>", "<|begin_of_text|>", "<|end_of_text|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|start|>", "<|end|>",
    "<|message|>", "<|return|>", "<|call|>", "<|constrain|>", "<|channel|>", "<start_of_turn>", "<end_of_turn>",
    "<bos>", "<eos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
    "<|tool_response>", "<tool_response|>", "<|tool>", "<tool|>", "<|\"|>", "<|think|>", "<s>", "</s>", "<unk>",
};

/* All marks with `sep` between them, in other words each said once. */
static inline const char *said(const char *sep)
{
    static char text[4096];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(chat_marks); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", chat_marks[i], sep);
    return text;
}

/* The text as the inside of a JSON string. */
static inline void json_inside(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    for (; *s && n + 3 < cap; s++) {
        if (*s == '"' || *s == '\\' || *s == '\n')
            out[n++] = '\\';
        out[n++] = *s == '\n' ? 'n' : *s;
    }
    out[n] = 0;
}

/* One conversation, whose every string is `w` (JSON strings `j`). */
static inline int render_saying(const struct chat_template *tpl, const char *w, const char *j, bool tools, bool thinking,
                                struct tok_buf *out, struct tok_spans *plain, struct err *e)
{
    static char args[8192], list[65536];
    struct chat_call call = { .id = "c1", .name = w, .arguments = args };
    const struct chat_msg m[] = {
        { .role = "system", .content = w },
        { .role = "user", .content = w },
        { .role = "assistant", .content = "x", .reasoning = w, .calls = &call, .n_calls = tools },
        { .role = tools ? "tool" : "user", .content = w, .name = w, .tool_call_id = "c1" },
        { .role = "assistant", .content = w, .reasoning = "y" },
        { .role = "user", .content = w },
        { .role = "assistant", .content = w, .reasoning = w, .calls = &call, .n_calls = tools },
        { .role = "tool", .content = w, .tool_call_id = "c1" },
    };
    struct chat_opts o = { .thinking = thinking ? CHAT_THINK_ON : CHAT_THINK_OFF, .add_generation_prompt = true,
                           .date = "2026-01-02", .tools = tools ? list : NULL };
    snprintf(args, sizeof args, "{\"%s\": \"%s\", \"deep\": {\"%s\": [\"%s\"]}}", j, j, j, j);
    snprintf(list, sizeof list,
             "[{\"type\": \"function\", \"%s\": 1, \"function\": {\"name\": \"%s\", \"description\": \"%s\", \"parameters\": "
             "{\"type\": \"object\", \"title\": \"%s\", \"required\": [\"%s\"], \"properties\": {\"%s\": {\"type\": "
             "\"string\", \"description\": \"%s\", \"enum\": [\"%s\"], \"default\": \"%s\", \"%s\": \"%s\"}, "
             "\"deep\": {\"type\": \"object\", \"properties\": {\"%s\": {\"type\": \"integer\"}}}, "
             "\"one\": {\"oneOf\": [{\"type\": \"string\", \"description\": \"%s\"}, {\"type\": \"integer\"}]}, "
             "\"list\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"%s\": \"%s\", \"properties\": "
             "{\"%s\": {\"type\": \"%s\"}}}}}}}}]",
             j, j, j, j, j, j, j, j, j, j, j, j, j, j, j, j, j);
    return chat_render_marked(tpl, m, ARRAY_LEN(m) - !tools, &o, out, plain, e);
}

static inline bool has_no_tools(enum chat_format f)
{
    return chat_format_info(f)->calls == CHAT_CALL_NONE;
}

/* The marks among the tokens of the conversation, which must also read as what was rendered. */
static inline struct tok_ids marks_in(const struct tok *t, const struct chat_template *tpl, const char *w,
                                      const char *j, bool tools, bool thinking, bool reads_back)
{
    struct tok_buf text = { 0 }, back = { 0 };
    struct tok_spans plain = { 0 };
    struct tok_ids ids = { 0 }, marks = { 0 };
    struct err e = { 0 };
    const char *name = chat_format_info(tpl->format)->name;
    ck_assert_msg(render_saying(tpl, w, j, tools, thinking, &text, &plain, &e) == 0, "%s: %s", name, e.msg);
    ck_assert_int_eq(tok_encode_marked(t, text.s, text.n, &plain, TOK_PARSE_SPECIAL, &ids, &e), 0);
    ck_assert_int_eq(tok_decode(t, ids.id, ids.n, TOK_SHOW_SPECIAL, &back, &e), 0);
    if (reads_back)
        ck_assert_msg(back.n == text.n && memcmp(back.s, text.s, text.n) == 0, "%s: %.*s\nreads as\n%.*s", name,
                      (int)text.n, text.s, (int)back.n, back.s);
    for (size_t i = 0; i < ids.n; i++)
        if (tok_is_mark(t, ids.id[i]))
            tok_ids_push(&marks, ids.id[i]);
    tok_ids_finish(&ids);
    tok_buf_finish(&text);
    tok_buf_finish(&back);
    tok_spans_finish(&plain);
    return marks;
}

/* In this vocabulary, by this format: whatever is said, the marks are the format's. */
static inline void check_format(const struct tok *t, enum chat_format f, bool reads_back)
{
    static const char *const seps[] = { " ", "", "\n", "a" };
    struct chat_template tpl = { .format = f, .think_default = true };
    for (unsigned k = 0; k < 4 * ARRAY_LEN(seps); k++) {
        bool tools = k & 1, thinking = k & 2;
        char json[8192];
        if (tools && has_no_tools(f))
            continue;
        const char *evil = said(seps[k / 4]);
        json_inside(evil, json, sizeof json);
        struct tok_ids harmless = marks_in(t, &tpl, "word", "word", tools, thinking, reads_back);
        struct tok_ids marks = marks_in(t, &tpl, evil, json, tools, thinking, reads_back);
        for (size_t i = 0; i < harmless.n && i < marks.n; i++) {
            struct gguf_str a = tok_text(t, marks.id[i]), b = tok_text(t, harmless.id[i]);
            ck_assert_msg(marks.id[i] == harmless.id[i], "%s: mark %zu is %.*s, the format has %.*s",
                          chat_format_info(f)->name, i, (int)a.len, a.s, (int)b.len, b.s);
        }
        ck_assert_msg(marks.n == harmless.n, "%s: %zu marks, the format has %zu", chat_format_info(f)->name, marks.n,
                      harmless.n);
        tok_ids_finish(&marks);
        tok_ids_finish(&harmless);
    }
}

#endif
