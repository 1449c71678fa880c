#include "model/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/json.h"
#include "model/chat_impl.h"

static const struct chat_info infos[CHAT_FORMAT_COUNT] = {
    [CHAT_CHATML] = {"chatml", false, false, false, NULL, NULL, NULL, CHAT_CALL_JSON, "<tool_call>",
                     "</tool_call>", NULL},
    [CHAT_QWEN3] = {"qwen3", false, true, true, "<think>", "</think>", NULL, CHAT_CALL_JSON, "<tool_call>",
                    "</tool_call>", NULL},
    [CHAT_QWEN3_THINKING] = {"qwen3-thinking", false, true, false, "<think>", "</think>", NULL,
                             CHAT_CALL_JSON, "<tool_call>", "</tool_call>", NULL},
    [CHAT_QWEN3_CODER] = {"qwen3-coder", false, false, false, NULL, NULL, NULL, CHAT_CALL_XML, "<tool_call>",
                          "</tool_call>", NULL},
    [CHAT_QWEN35] = {"qwen3.5", false, true, true, "<think>", "</think>", NULL, CHAT_CALL_XML, "<tool_call>",
                     "</tool_call>", NULL},
    [CHAT_LLAMA3] = {"llama3", true, false, false, NULL, NULL, NULL, CHAT_CALL_NONE, NULL, NULL, NULL},
    [CHAT_LLAMA31] = {"llama3.1", true, false, false, NULL, NULL, NULL, CHAT_CALL_BARE_JSON, NULL, NULL, NULL},
    [CHAT_GPT_OSS] = {"gpt-oss", false, true, false, "<|channel|>analysis<|message|>", "<|end|>",
                      "<|start|>assistant<|channel|>final<|message|>", CHAT_CALL_HARMONY, " to=functions.",
                      "<|call|>", NULL},
    [CHAT_GEMMA3] = {"gemma3", true, false, false, NULL, NULL, NULL, CHAT_CALL_NONE, NULL, NULL, NULL},
    [CHAT_GEMMA4] = {"gemma4", true, true, true, "<|channel>thought\n", "<channel|>", NULL, CHAT_CALL_GEMMA4,
                     "<|tool_call>", "<tool_call|>", NULL},
};

const struct chat_info *chat_format_info(enum chat_format f)
{
    return &infos[f];
}

const struct chat_info *chat_template_info(const struct chat_template *tpl)
{
    return tpl->file ? chat_file_info(tpl->file) : &infos[tpl->format];
}

bool chat_format_find(const char *name, enum chat_format *out)
{
    for (int f = 0; f < CHAT_FORMAT_COUNT; f++) {
        if (strcmp(infos[f].name, name) == 0) {
            *out = (enum chat_format)f;
            return true;
        }
    }
    return false;
}

/* ---- detection ----------------------------------------------------------------------------------------- */

static bool has(const char *text, size_t n, const char *what)
{
    return n && memmem(text, n, what, strlen(what));
}

/* The system message that a ChatML template writes by itself: the one string literal that holds a whole turn,
 * '<|im_start|>system\n...<|im_end|>. A longer one than `cap` allows, or one with other escapes than \n, is left out. */
static void find_default_system(const char *text, size_t n, char *to, size_t cap)
{
    static const char open[] = "<|im_start|>system", close[] = "<|im_end|>";
    const char *end = text + n;
    for (const char *p = text; (p = memmem(p, (size_t)(end - p), open, sizeof open - 1));) {
        size_t at = 0;
        p += sizeof open - 1;
        if (end - p < 2 || (*p != '\n' && (p[0] != '\\' || p[1] != 'n')))
            continue;
        const char *q = p + (*p == '\n' ? 1 : 2), *stop = memmem(q, (size_t)(end - q), close, sizeof close - 1);
        for (; stop && q < stop && at + 1 < cap && !strchr("'\"{}", *q); q++) {
            if (*q == '\\' && q[1] != 'n')
                break;
            to[at++] = *q == '\\' ? '\n' : *q;
            q += *q == '\\';
        }
        to[q == stop ? at : 0] = 0;
        if (to[0])
            return;
    }
}

/* Templates that open the reasoning only where enable_thinking is given and true, as the small Qwen3.5 models' do. The others
 * ask whether it is given and false. */
static bool thinks_when_asked(const char *text, size_t n)
{
    static const char given[] = "enable_thinking is defined and enable_thinking";
    if (has(text, n, "enable_thinking is true"))
        return true;
    const char *p = memmem(text, n, given, sizeof given - 1);
    if (!p)
        return false;
    p += sizeof given - 1;
    while (p < text + n && *p == ' ')
        p++;
    size_t rest = (size_t)(text + n - p);
    return !(rest >= 3 && memcmp(p, "is ", 3) == 0) && !(rest && strchr("=!", *p));
}

void chat_template_detect_text(const char *text, size_t n, struct chat_template *out)
{
    *out = (struct chat_template){.format = CHAT_CHATML, .think_default = true};
    if (has(text, n, "<|channel|>") && has(text, n, "<|start|>")) {
        out->format = CHAT_GPT_OSS;
    } else if (has(text, n, "<|turn>")) {
        out->format = CHAT_GEMMA4;
        out->think_default = false;
    } else if (has(text, n, "<start_of_turn>")) {
        out->format = CHAT_GEMMA3;
    } else if (has(text, n, "<|start_header_id|>")) {
        out->format = has(text, n, "Cutting Knowledge Date") ? CHAT_LLAMA31 : CHAT_LLAMA3;
    } else if (has(text, n, "<|im_start|>")) {
        bool thinks = has(text, n, "<think>"), toggles = has(text, n, "enable_thinking");
        if (has(text, n, "<function="))
            out->format = thinks ? CHAT_QWEN35 : CHAT_QWEN3_CODER;
        else if (thinks)
            out->format = toggles ? CHAT_QWEN3 : CHAT_QWEN3_THINKING;
        if (out->format == CHAT_CHATML)
            find_default_system(text, n, out->default_system, sizeof out->default_system);
        out->think_default = !((out->format == CHAT_QWEN35 || out->format == CHAT_QWEN3) && thinks_when_asked(text, n));
    } else {
        out->guessed = true;
    }
}

static bool arch_is(struct gguf_str s, const char *want)
{
    return s.len == strlen(want) && memcmp(s.s, want, s.len) == 0;
}

void chat_template_detect(const struct gguf *g, struct chat_template *out)
{
    static const struct {
        const char *arch;
        enum chat_format format;
        bool think;
    } by_arch[] = {
        {"qwen2", CHAT_CHATML, false},    {"qwen3", CHAT_QWEN3, true},      {"qwen3moe", CHAT_QWEN3, true},
        {"qwen35", CHAT_QWEN35, true},    {"qwen35moe", CHAT_QWEN35, true}, {"qwen3next", CHAT_CHATML, true},
        {"gpt-oss", CHAT_GPT_OSS, true},  {"gemma3", CHAT_GEMMA3, true},    {"gemma3n", CHAT_GEMMA3, true},
        {"gemma4", CHAT_GEMMA4, false},
    };
    struct gguf_str s = {"", 0};

    gguf_get_str(g, "tokenizer.chat_template", &s, NULL);
    chat_template_detect_text(s.s, s.len, out);
    if (!out->guessed)
        return;
    s = (struct gguf_str){"", 0};
    gguf_get_str(g, "general.architecture", &s, NULL);
    for (size_t i = 0; i < ARRAY_LEN(by_arch); i++) {
        if (arch_is(s, by_arch[i].arch)) {
            out->format = by_arch[i].format;
            out->think_default = by_arch[i].think;
        }
    }
    if (arch_is(s, "llama")) {
        s = (struct gguf_str){"", 0};
        gguf_get_str(g, "tokenizer.ggml.pre", &s, NULL);
        if (arch_is(s, "llama-bpe"))
            out->format = CHAT_LLAMA31;
    }
}

/* ---- appending ----------------------------------------------------------------------------------------- */

static void put(struct chat_out *o, const char *s, size_t n)
{
    if (o->rc)
        return;
    if (n > CHAT_MAX_BYTES || o->b->n > CHAT_MAX_BYTES - n) {
        o->rc = err_set(o->e, -E2BIG, "chat: the conversation makes a prompt of more than %d MiB, which is the most",
                        CHAT_MAX_BYTES >> 20);
        return;
    }
    if ((o->in_text && o->plain && tok_spans_add(o->plain, o->b->n, n)) || tok_buf_add(o->b, s, n))
        o->rc = err_set(o->e, -ENOMEM, "chat: no memory for a prompt of %zu bytes", o->b->n + n);
}

void chat_put(struct chat_out *o, const char *s)
{
    put(o, s, strlen(s));
}

void chat_putn(struct chat_out *o, const char *s, size_t n)
{
    put(o, s, n);
}

void chat_textn(struct chat_out *o, const char *s, size_t n)
{
    o->in_text++;
    put(o, s, n);
    o->in_text--;
}

void chat_text(struct chat_out *o, const char *s)
{
    if (s)
        chat_textn(o, s, strlen(s));
}

void chat_text_span(struct chat_out *o, struct chat_span t)
{
    chat_textn(o, t.s, t.n);
}

void chat_cut(struct chat_out *o, size_t n)
{
    o->b->n = n;
    if (o->plain)
        tok_spans_cut(o->plain, n);
}

void chat_fail(struct chat_out *o, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    if (o->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    o->rc = err_set(o->e, -EINVAL, "chat: %s", text);
}

void chat_no_memory(struct chat_out *o)
{
    if (!o->rc)
        o->rc = err_set(o->e, -ENOMEM, "chat: out of memory");
}

/* ---- strings ------------------------------------------------------------------------------------------- */

struct chat_span chat_span(const char *s)
{
    return (struct chat_span){s ? s : "", s ? strlen(s) : 0};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct chat_span chat_trim(struct chat_span t)
{
    while (t.n && is_space(t.s[0]))
        t.s++, t.n--;
    while (t.n && is_space(t.s[t.n - 1]))
        t.n--;
    return t;
}

struct chat_span chat_strip(struct chat_span t, char c, bool left, bool right)
{
    while (left && t.n && t.s[0] == c)
        t.s++, t.n--;
    while (right && t.n && t.s[t.n - 1] == c)
        t.n--;
    return t;
}

const char *chat_find(struct chat_span t, const char *what)
{
    return t.n ? memmem(t.s, t.n, what, strlen(what)) : NULL;
}

const char *chat_rfind(struct chat_span t, const char *what)
{
    const char *last = NULL, *p;

    while ((p = chat_find(t, what))) {
        last = p;
        t.n -= (size_t)(p + 1 - t.s);
        t.s = p + 1;
    }
    return last;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

bool chat_role_is(const struct chat_msg *m, const char *role)
{
    return m->role && strcmp(m->role, role) == 0;
}

bool chat_is_system(const struct chat_msg *m)
{
    return chat_role_is(m, "system") || chat_role_is(m, "developer");
}

void chat_split_reasoning(const struct chat_msg *m, struct chat_span content, struct chat_span *reasoning,
                          struct chat_span *answer)
{
    const char *first, *last, *open;

    *reasoning = chat_span(m->reasoning);
    *answer = content;
    if (m->reasoning || !(first = chat_find(content, "</think>")))
        return;
    last = chat_rfind(content, "</think>") + strlen("</think>");
    *answer = chat_strip((struct chat_span){last, content.n - (size_t)(last - content.s)}, '\n', true, false);
    *reasoning = chat_strip((struct chat_span){content.s, (size_t)(first - content.s)}, '\n', false, true);
    open = chat_rfind(*reasoning, "<think>");
    if (open) {
        reasoning->n -= (size_t)(open + strlen("<think>") - reasoning->s);
        reasoning->s = open + strlen("<think>");
    }
    *reasoning = chat_strip(*reasoning, '\n', true, false);
}

json_t *chat_arguments(struct chat_out *o, const struct chat_call *c)
{
    const char *text = c->arguments && *c->arguments ? c->arguments : "{}";
    bool no_memory;
    json_t *v = json_read(text, strlen(text), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL, &no_memory);

    if (!v && !no_memory) /* an integer of more than 64 bits is JSON too */
        v = json_read(text, strlen(text), JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, &no_memory);
    if (no_memory)
        chat_no_memory(o);
    return v;
}

void chat_put_arguments(struct chat_out *o, const struct chat_call *c)
{
    json_t *args = chat_arguments(o, c);

    if (args)
        chat_json(o, args, 0);
    else
        chat_text_span(o, chat_span(c->arguments));
    json_decref(args);
}

const json_t *chat_function(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");

    return f ? f : tool;
}

/* ---- rendering ----------------------------------------------------------------------------------------- */

static int tools_read(struct chat_out *o)
{
    json_error_t je;
    bool no_memory;

    if (!o->opts->tools)
        return 0;
    o->tools = json_read(o->opts->tools, strlen(o->opts->tools), JSON_ALLOW_NUL, &je, &no_memory);
    if (!o->tools && no_memory)
        chat_no_memory(o);
    else if (!o->tools)
        chat_fail(o, "the tools are not JSON: line %d: %.100s", je.line, je.text);
    else if (!json_is_array(o->tools))
        chat_fail(o, "the tools are not a JSON array");
    for (size_t i = 0; !o->rc && i < json_array_size(o->tools); i++)
        if (!json_is_string(json_object_get(chat_function(json_array_get(o->tools, i)), "name")))
            chat_fail(o, "tool %zu has no name", i);
    if (o->tools && json_array_size(o->tools) == 0) {
        json_decref(o->tools);
        o->tools = NULL;
    }
    return o->rc;
}

static bool thinks(const struct chat_template *tpl, const struct chat_opts *opts)
{
    return opts->thinking == CHAT_THINK_DEFAULT ? tpl->think_default : opts->thinking == CHAT_THINK_ON;
}

bool chat_prompt_opens_thinking(const struct chat_template *tpl, const struct chat_opts *opts)
{
    if (tpl->file)
        return opts->add_generation_prompt && chat_file_opens_thinking(tpl->file, opts->thinking);
    return opts->add_generation_prompt &&
           (tpl->format == CHAT_QWEN3_THINKING || (tpl->format == CHAT_QWEN35 && thinks(tpl, opts)));
}

/* What the formats write behind the last message of an assistant. */
static const char *const closings[CHAT_FORMAT_COUNT] = {
    [CHAT_CHATML] = "<|im_end|>\n",      [CHAT_QWEN3] = "<|im_end|>\n",  [CHAT_QWEN3_THINKING] = "<|im_end|>\n",
    [CHAT_QWEN3_CODER] = "<|im_end|>\n", [CHAT_QWEN35] = "<|im_end|>\n", [CHAT_LLAMA3] = "<|eot_id|>",
    [CHAT_LLAMA31] = "<|eot_id|>",       [CHAT_GPT_OSS] = "<|return|>",  [CHAT_GEMMA3] = "<end_of_turn>\n",
    [CHAT_GEMMA4] = "<turn|>\n",
};

static void take_closing(struct chat_out *o, enum chat_format f)
{
    size_t n = strlen(closings[f]);
    if (o->rc)
        return;
    CHECK(o->b->n >= n && memcmp(o->b->s + o->b->n - n, closings[f], n) == 0);
    chat_cut(o, o->b->n - n);
}

static void check(struct chat_out *o, const struct chat_template *tpl)
{
    const struct chat_info *in = chat_template_info(tpl);
    const struct chat_msg *last = o->n ? &o->msg[o->n - 1] : NULL;
    if (o->n == 0)
        chat_fail(o, "a conversation without messages");
    else if (o->opts->continue_final && o->opts->add_generation_prompt)
        chat_fail(o, "the last message cannot be continued and a new one begun");
    else if (o->opts->continue_final && (!chat_role_is(last, "assistant") || last->n_calls))
        chat_fail(o, "to be continued, the last message must be the assistant's and have no tool calls");
    else if (!tools_read(o) && o->tools && (tpl->file ? !chat_file_takes_tools(tpl->file) : in->calls == CHAT_CALL_NONE))
        o->rc = err_set(o->e, -ENOTSUP, "chat: the %s format has no way to offer tools", in->name);
}

static void render(struct chat_out *o, enum chat_format f)
{
    switch (f) {
    case CHAT_CHATML:
    case CHAT_QWEN3:
    case CHAT_QWEN3_THINKING: chat_render_chatml(o, f); break;
    case CHAT_QWEN3_CODER: chat_render_qwen3_coder(o); break;
    case CHAT_QWEN35: chat_render_qwen35(o); break;
    case CHAT_LLAMA3: chat_render_llama3(o); break;
    case CHAT_LLAMA31: chat_render_llama31(o); break;
    case CHAT_GPT_OSS: chat_render_gpt_oss(o); break;
    case CHAT_GEMMA3: chat_render_gemma3(o); break;
    case CHAT_GEMMA4: chat_render_gemma4(o); break;
    case CHAT_FORMAT_COUNT: break;
    }
    if (o->opts->continue_final)
        take_closing(o, f);
}

int chat_render_marked(const struct chat_template *tpl, const struct chat_msg *msg, size_t n,
                       const struct chat_opts *opts, struct tok_buf *out, struct tok_spans *plain, struct err *e)
{
    struct chat_out o = {.b = out, .plain = plain, .e = e, .msg = msg, .n = n, .opts = opts,
                         .default_system = tpl->default_system, .think = thinks(tpl, opts)};

    check(&o, tpl);
    if (!o.rc && tpl->file)
        chat_file_render(&o, tpl->file);
    bool too_much = o.rc == -E2BIG && tpl->file && (!o.tools || chat_file_info(tpl->file)->calls == infos[tpl->format].calls);
    if (too_much) /* tools nested deeper than a template's macros get, say: the format that is next to it has no such limit */
        o.rc = 0;
    if (!o.rc && (!tpl->file || too_much) && !chat_order(&o, chat_format_places(tpl->format)))
        render(&o, tpl->format);
    json_decref(o.tools);
    free(o.ordered);
    free(o.texts);
    return o.rc;
}

int chat_render(const struct chat_template *tpl, const struct chat_msg *msg, size_t n,
                const struct chat_opts *opts, struct tok_buf *out, struct err *e)
{
    return chat_render_marked(tpl, msg, n, opts, out, NULL, e);
}
