/* tests/unit/answer_case.h: engines of each chat format without a model, and answers as they come out of the parser. */
#ifndef ZINC_TESTS_UNIT_ANSWER_CASE_H
#define ZINC_TESTS_UNIT_ANSWER_CASE_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/answer/answer.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"
#include "model/chat.h"
#include "model/gguf_write.h"

/* What chat_template_detect looks for. */
static inline const char *format_template(enum chat_format f)
{
    static const char *const text[CHAT_FORMAT_COUNT] = {
        [CHAT_CHATML] = "<|im_start|>",
        [CHAT_QWEN3] = "<|im_start|> <think> enable_thinking",
        [CHAT_QWEN3_THINKING] = "<|im_start|> <think>",
        [CHAT_QWEN3_CODER] = "<|im_start|> <function=",
        [CHAT_QWEN35] = "<|im_start|> <think> enable_thinking <function=",
        [CHAT_LLAMA3] = "<|start_header_id|>",
        [CHAT_LLAMA31] = "<|start_header_id|> Cutting Knowledge Date",
        [CHAT_GPT_OSS] = "<|channel|> <|start|>",
        [CHAT_GEMMA3] = "<start_of_turn>",
        [CHAT_GEMMA4] = "<|turn>",
    };
    return text[f];
}

/* An engine with this format and no vocabulary; made once. */
static inline struct engine *format_engine(enum chat_format f)
{
    static struct engine *engines[CHAT_FORMAT_COUNT];
    char path[] = "/tmp/zinc-answer-XXXXXX";
    struct gguf_writer *w;
    struct err e = { 0 };
    if (engines[f])
        return engines[f];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_msg(gguf_writer_create(path, &w, &e) == 0, "%s", e.msg);
    gguf_put_str(w, "general.architecture", "llama");
    gguf_put_str(w, "tokenizer.chat_template", format_template(f));
    ck_assert_msg(gguf_writer_begin(w, &e) == 0 && gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    gguf_writer_destroy(w);
    ck_assert_msg(engine_open_vocab(path, &engines[f], &e) == 0, "%s", e.msg);
    unlink(path);
    return engines[f];
}

/* As its template is found there. */
static inline const struct chat_template *format_chat(enum chat_format f)
{
    return engine_chat_template(format_engine(f));
}

#endif
