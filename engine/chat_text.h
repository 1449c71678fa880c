/* engine/chat_text.h: what the files about conversations share. */
#ifndef ZINC_ENGINE_CHAT_TEXT_H
#define ZINC_ENGINE_CHAT_TEXT_H

#include "engine/engine.h"
#include "model/tok_buf.h"

/* Appends the rendered conversation, without BOS; `plain`: as in chat_render_marked. */
int engine_chat_text(const struct engine *eng, const struct engine_message *m, uint32_t n_messages, int think,
                     struct tok_buf *out, struct tok_spans *plain, struct err *e);

/* 0, or the reason why the file has no vocabulary. */
int engine_need_vocab(const struct engine *eng, struct err *e);

#endif
