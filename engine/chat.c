/* Conversations in the model's chat format. */
#include <stdlib.h>
#include <string.h>

#include "engine/chat_text.h"
#include "engine/priv.h"
#include "model/tok.h"

static const struct engine_chat_opts *or_default(const struct engine_chat_opts *o)
{
    static const struct engine_chat_opts none = { .think = -1 };
    return o ? o : &none;
}

static struct chat_opts options(const struct engine_chat_opts *o)
{
    return (struct chat_opts){ .thinking = o->think < 0 ? CHAT_THINK_DEFAULT
                                           : o->think   ? CHAT_THINK_ON
                                                        : CHAT_THINK_OFF,
                               .add_generation_prompt = !o->continue_final,
                               .continue_final = o->continue_final,
                               .tools = o->tools,
                               .date = o->date,
                               .reasoning_effort = o->effort };
}

/* The messages as the formats want them; the calls of all in one array behind them. NULL: out of memory. */
static struct chat_msg *convert(const struct engine_message *m, uint32_t n)
{
    size_t n_calls = 0;
    for (uint32_t i = 0; i < n; i++)
        n_calls += m[i].n_calls;
    struct chat_msg *msg = calloc(1, (n + 1u) * sizeof *msg + n_calls * sizeof *msg->calls);
    struct chat_call *call = msg ? (struct chat_call *)(msg + n + 1) : NULL;
    for (uint32_t i = 0; msg && i < n; i++) {
        msg[i] = (struct chat_msg){ .role = m[i].role,
                                    .content = m[i].text,
                                    .reasoning = m[i].reasoning,
                                    .calls = call,
                                    .n_calls = m[i].n_calls,
                                    .name = m[i].name,
                                    .tool_call_id = m[i].call_id };
        for (uint32_t k = 0; k < m[i].n_calls; k++)
            *call++ = (struct chat_call){ m[i].calls[k].id, m[i].calls[k].name, m[i].calls[k].arguments };
    }
    return msg;
}

static int check_effort(const struct chat_template *tpl, const char *effort, struct err *e)
{
    if (!effort || tpl->format != CHAT_GPT_OSS || !strcmp(effort, "low") || !strcmp(effort, "medium") ||
        !strcmp(effort, "high"))
        return 0;
    return err_set(e, -EINVAL, "chat: reasoning effort '%.32s': low, medium or high", effort);
}

static int render(const struct engine *eng, const struct engine_message *m, uint32_t n_messages,
                  const struct engine_chat_opts *o, struct tok_buf *out, struct tok_spans *plain, struct err *e)
{
    struct chat_opts co = options(o);
    int rc = check_effort(&eng->chat, o->effort, e);
    if (rc)
        return rc;
    struct chat_msg *msg = convert(m, n_messages);
    if (!msg)
        return err_set(e, -ENOMEM, "engine: out of memory");
    rc = chat_render_marked(&eng->chat, msg, n_messages, &co, out, plain, e);
    free(msg);
    return rc;
}

int engine_chat_text(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think,
                     struct tok_buf *out, struct tok_spans *plain, struct err *e)
{
    return render(eng, m, n_messages, &(struct engine_chat_opts){ .think = think }, out, plain, e);
}

/* ---- prompts ---- */

/* The token that opens a message, -1: the vocabulary has none. */
static int32_t opening_token(const struct engine *eng, enum chat_format f)
{
    static const char *const text[CHAT_FORMAT_COUNT] = {
        [CHAT_CHATML] = "<|im_start|>",         [CHAT_QWEN3] = "<|im_start|>",
        [CHAT_QWEN3_THINKING] = "<|im_start|>", [CHAT_QWEN3_CODER] = "<|im_start|>",
        [CHAT_QWEN35] = "<|im_start|>",         [CHAT_LLAMA3] = "<|start_header_id|>",
        [CHAT_LLAMA31] = "<|start_header_id|>", [CHAT_GPT_OSS] = "<|start|>",
        [CHAT_GEMMA3] = "<start_of_turn>",      [CHAT_GEMMA4] = "<|turn>",
    };
    return tok_find(eng->tok, text[f], strlen(text[f]));
}

static int find_boundaries(struct engine_prompt *p, int32_t opening, struct err *e)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < p->n; i++)
        n += p->ids[i] == opening;
    p->boundary = malloc((n + 1) * sizeof *p->boundary);
    if (!p->boundary)
        return err_set(e, -ENOMEM, "engine: out of memory");
    for (uint32_t i = 1; i < p->n; i++)
        if (p->ids[i] == opening)
            p->boundary[p->n_boundary++] = i;
    return 0;
}

void engine_prompt_free(struct engine_prompt *p)
{
    free(p->ids);
    free(p->boundary);
    *p = (struct engine_prompt){ 0 };
}

int engine_chat_prompt(const struct engine *eng, const struct engine_message *m, uint32_t n_messages,
                       const struct engine_chat_opts *o, struct engine_prompt *out, struct err *e)
{
    struct tok_buf text = { 0 };
    struct tok_spans plain = { 0 };
    struct tok_ids v = { 0 };
    *out = (struct engine_prompt){ 0 };
    int rc = engine_need_vocab(eng, e);
    if (rc)
        return rc;
    rc = render(eng, m, n_messages, or_default(o), &text, &plain, e);
    bool bos = chat_template_info(&eng->chat)->begins_with_bos && !tok_add_bos(eng->tok) && tok_bos(eng->tok) >= 0;
    if (!rc && bos && tok_ids_push(&v, tok_bos(eng->tok)))
        rc = err_set(e, -ENOMEM, "engine: out of memory");
    if (!rc)
        rc = tok_encode_marked(eng->tok, text.s, text.n, &plain, TOK_ADD_SPECIAL | TOK_PARSE_SPECIAL, &v, e);
    if (!rc && v.n > INT32_MAX)
        rc = err_set(e, -E2BIG, "engine: %zu tokens in one prompt", v.n);
    tok_buf_finish(&text);
    tok_spans_finish(&plain);
    *out = (struct engine_prompt){ .ids = v.id, .n = (uint32_t)v.n };
    if (!rc)
        rc = find_boundaries(out, opening_token(eng, eng->chat.format), e);
    if (rc)
        engine_prompt_free(out);
    return rc;
}

int engine_chat(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think, int32_t **ids,
                uint32_t *n, struct err *e)
{
    struct engine_prompt p;
    int rc = engine_chat_prompt(eng, m, n_messages, &(struct engine_chat_opts){ .think = think }, &p, e);
    if (rc)
        return rc;
    *ids = p.ids;
    *n = p.n;
    free(p.boundary);
    return 0;
}

/* ---- the format ---- */

const struct chat_template *engine_chat_template(const struct engine *eng)
{
    return &eng->chat;
}

const char *engine_chat_format(const struct engine *eng, bool *guessed)
{
    *guessed = eng->chat.guessed;
    return chat_template_info(&eng->chat)->name;
}

const char *engine_chat_resume(const struct engine *eng, int think)
{
    struct chat_opts o = options(&(struct engine_chat_opts){ .think = think });
    if (eng->chat.format == CHAT_GPT_OSS)
        return "<|channel|>final<|message|>";
    return chat_prompt_opens_thinking(&eng->chat, &o) ? chat_template_info(&eng->chat)->think_end : "";
}
