/* Conversations in the model's chat format. */
#include <stdlib.h>
#include <string.h>

#include "engine/chat_text.h"
#include "engine/priv.h"
#include "model/chat.h"
#include "model/tok.h"

static struct chat_opts options(int think)
{
    return (struct chat_opts){ .thinking = think < 0 ? CHAT_THINK_DEFAULT : think ? CHAT_THINK_ON : CHAT_THINK_OFF,
                               .add_generation_prompt = true };
}

int engine_chat_text(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think,
                     struct tok_buf *out, struct err *e)
{
    struct chat_template tpl;
    struct chat_opts o = options(think);
    chat_template_detect(eng->gguf, &tpl);
    struct chat_msg *msg = calloc(n_messages + 1u, sizeof *msg);
    if (!msg)
        return err_set(e, -ENOMEM, "engine: out of memory");
    for (uint32_t i = 0; i < n_messages; i++)
        msg[i] = (struct chat_msg){ .role = m[i].role, .content = m[i].text, .reasoning = m[i].reasoning };
    int rc = chat_render(&tpl, msg, n_messages, &o, out, e);
    free(msg);
    return rc;
}

int engine_chat(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think, int32_t **ids,
                uint32_t *n, struct err *e)
{
    struct tok_buf text = { 0 };
    struct tok_ids v = { 0 };
    int rc = engine_need_vocab(eng, e);
    if (!rc)
        rc = engine_chat_text(eng, m, n_messages, think, &text, e);
    struct chat_template tpl;
    chat_template_detect(eng->gguf, &tpl);
    if (!rc && chat_format_info(tpl.format)->begins_with_bos && !tok_add_bos(eng->tok) && tok_bos(eng->tok) >= 0 &&
        tok_ids_push(&v, tok_bos(eng->tok)))
        rc = err_set(e, -ENOMEM, "engine: out of memory");
    if (!rc)
        rc = tok_encode(eng->tok, text.s, text.n, TOK_ADD_SPECIAL | TOK_PARSE_SPECIAL, &v, e);
    tok_buf_finish(&text);
    if (rc) {
        tok_ids_finish(&v);
        return rc;
    }
    *ids = v.id;
    *n = (uint32_t)v.n;
    return 0;
}

const char *engine_chat_format(const struct engine *eng, bool *guessed)
{
    struct chat_template tpl;
    chat_template_detect(eng->gguf, &tpl);
    *guessed = tpl.guessed;
    return chat_format_info(tpl.format)->name;
}

struct reply_marks engine_chat_marks(const struct engine *eng, int think)
{
    struct chat_template tpl;
    struct chat_opts o = options(think);
    chat_template_detect(eng->gguf, &tpl);
    const struct chat_info *in = chat_format_info(tpl.format);
    return (struct reply_marks){ in->think_begin, in->think_end, in->answer_begin,
                                 chat_prompt_opens_thinking(&tpl, &o) };
}
