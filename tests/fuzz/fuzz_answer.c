/* Fuzzes the parser of answers.
 *
 *     byte 0: the chat format, or a template that is interpreted (tests/lib/marked_templates.h)
 *     byte 1: bits 0..1 think (-1, 0, 1), bit 2 without tools, bit 3 forced_call, bit 4 calls come while they are written
 *     byte 2: how the text is cut into pieces
 *     the rest: what the model writes
 *
 * What must hold: nothing crashes, calls begin and end in order, the arguments of a complete call are a JSON object (where
 * the input is UTF-8 without NUL), and the same text in other pieces gives the same parts and calls, those that are cut
 * off included. */
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/log.h"
#include "engine/answer/answer.h"
#include "engine/engine.h"
#include "model/chat.h"
#include "model/gguf_write.h"
#include "tests/lib/marked_templates.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                            "\"properties\":{\"s\":{\"type\":"
                            "\"string\"},\"i\":{\"type\":\"integer\"},\"u\":{\"anyOf\":[{\"type\":\"boolean\"},{\"$"
                            "ref\":\"#/$defs/d\"}]},\"x\":{}},\"$defs\":"
                            "{\"d\":{\"$ref\":\"#/$defs/d\"}}}}},{\"function\":{\"name\":\"get\"}}]";

static const char *const marked[] = {
#define X(text) text,
    MARKED_TEMPLATES(X)
#undef X
};
enum { N_MARKED = ARRAY_LEN(marked) };
static struct engine *engines[CHAT_FORMAT_COUNT];
static struct chat_template templates[CHAT_FORMAT_COUNT + N_MARKED];

struct seen {
    struct tok_buf part[2], calls, args;
    size_t begin; /* in calls, of the newest one */
    bool open, utf8;
    uint32_t next;
};

static void keep(struct tok_buf *b, const char *s, size_t n)
{
    CHECK(n > 0 && tok_buf_add(b, s, n) == 0);
}

static int on_reasoning(void *user, const char *s, size_t n)
{
    keep(&((struct seen *)user)->part[0], s, n);
    return 0;
}

static int on_text(void *user, const char *s, size_t n)
{
    keep(&((struct seen *)user)->part[1], s, n);
    return 0;
}

static int on_begin(void *user, uint32_t index, const char *name)
{
    struct seen *g = user;
    CHECK(!g->open && index == g->next && *name);
    g->open = true;
    g->args.n = 0;
    g->begin = g->calls.n;
    return tok_buf_add(&g->calls, name, strlen(name) + 1);
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n)
{
    struct seen *g = user;
    CHECK(g->open && index == g->next);
    keep(&g->args, s, n);
    return 0;
}

static int on_end(void *user, uint32_t index, bool complete)
{
    struct seen *g = user;
    CHECK(g->open && index == g->next);
    if (g->utf8 && complete) {
        json_t *v = json_loadb(g->args.s, g->args.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
        CHECK(json_is_object(v));
        json_decref(v);
    }
    g->open = false;
    g->next++;
    keep(&g->calls, complete ? "=" : "~", 1);
    return g->args.n ? tok_buf_add(&g->calls, g->args.s, g->args.n) : 0;
}

/* As if it had come as text at once. */
static int on_cancel(void *user, uint32_t index, const char *raw, size_t n)
{
    struct seen *g = user;
    CHECK(g->open && index == g->next);
    g->open = false;
    g->next++;
    g->calls.n = g->begin;
    if (g->part[1].n)
        keep(&g->part[1], "\n\n", 2);
    keep(&g->part[1], raw, n);
    return 0;
}

static void run(const uint8_t *data, size_t size, unsigned pieces, bool written, struct seen *g)
{
    struct answer_sink sink = { on_reasoning, on_text, on_begin, on_arguments, on_end, written ? on_cancel : NULL };
    struct answer_opts o = { .think = (int)(data[1] & 3) % 3 - 1,
                             .tools = data[1] & 4 ? NULL : tools,
                             .forced_call = data[1] & 8 };
    const char *s = (const char *)data + 3;
    size_t n = size - 3;
    struct answer *a;
    json_t *text = json_stringn(s, n);
    *g = (struct seen){ .utf8 = text && !memchr(s, 0, n) }; /* jansson takes no NUL in keys */
    json_decref(text);
    CHECK(answer_create(&templates[data[0] % ARRAY_LEN(templates)], &o, &sink, g, &a, NULL) == 0);
    for (size_t i = 0; i < n;) {
        size_t k = pieces ? MIN(1 + (pieces + i * 7) % pieces, n - i) : n;
        CHECK(answer_put(a, s + i, k) == 0);
        i += k;
    }
    CHECK(answer_end(a) == 0 && !g->open && answer_n_calls(a) <= g->next);
    answer_destroy(a);
}

static void finish(struct seen *g)
{
    tok_buf_finish(&g->part[0]);
    tok_buf_finish(&g->part[1]);
    tok_buf_finish(&g->calls);
    tok_buf_finish(&g->args);
}

static void same(const struct tok_buf *a, const struct tok_buf *b)
{
    CHECK(a->n == b->n && (!a->n || memcmp(a->s, b->s, a->n) == 0));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
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
    (void)argc;
    (void)argv;
    log_configure("err");
    for (int f = 0; f < CHAT_FORMAT_COUNT; f++) {
        char path[] = "/tmp/zinc-fuzz-answer-XXXXXX";
        struct gguf_writer *w;
        int fd = mkstemp(path);
        CHECK(fd >= 0 && close(fd) == 0 && gguf_writer_create(path, &w, NULL) == 0);
        gguf_put_str(w, "general.architecture", "llama");
        gguf_put_str(w, "tokenizer.chat_template", text[f]);
        CHECK(gguf_writer_begin(w, NULL) == 0 && gguf_writer_finish(w, NULL) == 0);
        gguf_writer_destroy(w);
        CHECK(engine_open_vocab(path, &engines[f], NULL) == 0);
        templates[f] = *engine_chat_template(engines[f]);
        unlink(path);
    }
    for (int i = 0; i < N_MARKED; i++) {
        struct chat_file *file;
        CHECK(chat_file_open(marked[i], strlen(marked[i]), "", "", false, &file, NULL) == 0);
        templates[CHAT_FORMAT_COUNT + i] = (struct chat_template){ .file = file };
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, pieces;
    if (size < 3)
        return 0;
    run(data, size, 0, false, &whole);
    for (int k = 0; k < 3; k++) { /* as it says, byte by byte, and at once while written */
        run(data, size, k == 0 ? 1 + data[2] % 40 : k == 1, k ? k == 2 || !(data[1] & 16) : data[1] & 16, &pieces);
        same(&whole.part[0], &pieces.part[0]);
        same(&whole.part[1], &pieces.part[1]);
        same(&whole.calls, &pieces.calls);
        finish(&pieces);
    }
    finish(&whole);
    return 0;
}
