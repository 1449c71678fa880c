/* tests/unit/tok_make.h: small vocabularies built in memory, for tests and fuzzing. */
#ifndef ZINC_TESTS_UNIT_TOK_MAKE_H
#define ZINC_TESTS_UNIT_TOK_MAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"
#include "model/gguf_write.h"
#include "model/tok.h"

enum { MADE_MAX = 1024, T_NORMAL = 1, T_UNKNOWN, T_CONTROL, T_USER, T_UNUSED, T_BYTE };

/* A vocabulary in the making, and the file made of it. */
struct made {
    const char *model, *pre; /* NULL: no such key */
    char text[MADE_MAX][32];
    uint32_t len[MADE_MAX];
    int32_t type[MADE_MAX];
    float score[MADE_MAX];
    uint32_t n;
    struct gguf_str merge[MADE_MAX];
    uint32_t n_merge;
    struct gguf_writer *w;
    struct gguf *g;
    struct tok *t;
};

static inline int32_t made_token(struct made *m, const char *text, int32_t type, float score)
{
    m->len[m->n] = (uint32_t)strlen(text);
    memcpy(m->text[m->n], text, m->len[m->n] + 1);
    m->type[m->n] = type;
    m->score[m->n] = score;
    return (int32_t)m->n++;
}

/* A merge, and the token it makes. */
static inline void made_merge(struct made *m, const char *pair)
{
    char joined[32];
    const char *sp = strchr(pair + 1, ' ');

    m->merge[m->n_merge++] = (struct gguf_str){pair, strlen(pair)};
    snprintf(joined, sizeof joined, "%.*s%s", (int)(sp - pair), pair, sp + 1);
    made_token(m, joined, T_NORMAL, 0);
}

/* Everything but the special ids, which the caller may put before made_open. */
static inline void made_begin(struct made *m)
{
    static struct gguf_str s[MADE_MAX];

    gguf_writer_create(NULL, &m->w, NULL);
    if (m->model)
        gguf_put_str(m->w, "tokenizer.ggml.model", m->model);
    if (m->pre)
        gguf_put_str(m->w, "tokenizer.ggml.pre", m->pre);
    for (uint32_t i = 0; i < m->n; i++)
        s[i] = (struct gguf_str){m->text[i], m->len[i]};
    gguf_put_arr_str(m->w, "tokenizer.ggml.tokens", s, m->n);
    gguf_put_arr(m->w, "tokenizer.ggml.token_type", GGUF_I32, m->type, m->n);
    gguf_put_arr(m->w, "tokenizer.ggml.scores", GGUF_F32, m->score, m->n);
    if (m->n_merge)
        gguf_put_arr_str(m->w, "tokenizer.ggml.merges", m->merge, m->n_merge);
}

/* Writes the file, opens it, makes the tokenizer. */
static inline int made_open(struct made *m, struct err *e)
{
    uint64_t n;
    int rc;

    if ((rc = gguf_writer_begin(m->w, e)) || (rc = gguf_writer_finish(m->w, e)))
        return rc;
    const void *bytes = gguf_writer_bytes(m->w, &n);
    if ((rc = gguf_open_memory("made.gguf", bytes, n, &m->g, e)))
        return rc;
    return tok_create(m->g, &m->t, e);
}

static inline void made_free(struct made *m)
{
    if (!m)
        return;
    tok_destroy(m->t);
    gguf_close(m->g);
    gguf_writer_destroy(m->w);
    free(m);
}

/* GPT-2's character for a byte. */
static inline void made_byte_char(unsigned b, char out[4])
{
    unsigned cp = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae ? b
                  : b <= 0x20                                                       ? 0x100 + b
                  : b <= 0xa0                                                       ? 0x121 + b - 0x7f
                                                                                    : 0x143;
    if (cp < 0x80)
        snprintf(out, 4, "%c", (int)cp);
    else
        snprintf(out, 4, "%c%c", (int)(0xc0 | cp >> 6), (int)(0x80 | (cp & 0x3f)));
}

/* Ids 0..255 are the bytes; then what merging makes, then the special tokens. */
static inline struct made *made_bpe(const char *pre)
{
    static const char *const merges[] = {
        "h e",        "l l",           "he ll",         "hell o",        "\u0120 w", "o r",
        "\u0120w or", "l d",           "\u0120wor ld",  "1 2",           "12 3",     "a a",
        "aa aa",      "\u0120 \u0120", "\u00c3 \u00a9", "\u010a \u010a", "x y",      "y z",
    };
    struct made *m = calloc(1, sizeof *m);
    char c[4];

    m->model = "gpt2";
    m->pre = pre;
    for (unsigned b = 0; b < 256; b++) {
        made_byte_char(b, c);
        made_token(m, c, T_NORMAL, 0);
    }
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        made_merge(m, merges[i]);
    made_token(m, "<|bos|>", T_CONTROL, 0);
    made_token(m, "<|im_end|>", T_CONTROL, 0);
    made_token(m, "<|im_end|>!", T_CONTROL, 0);
    made_token(m, "<u>", T_USER, 0);
    made_token(m, "<u>>", T_USER, 0);
    made_token(m, "xyz", T_NORMAL, 0); /* a token that no merge makes */
    return m;
}

static inline void made_byte_tokens(struct made *m)
{
    char c[8];

    for (unsigned b = 0; b < 256; b++) {
        snprintf(c, sizeof c, "<0x%02X>", b);
        made_token(m, c, T_BYTE, 0);
    }
}

static inline struct made *made_spm(void)
{
    static const struct {
        const char *text;
        float score;
    } tokens[] = {
        {"\u2581", -10}, {"a", -11},           {"b", -12},      {"c", -13},
        {"aa", -3},      {"ab", -2},           {"abc", -1},     {"bc", -1.5},
        {"\u2581a", -4}, {"\u2581\u2581", -5}, {"\u00e9", -14}, {"\u2581ab", -0.5},
    };
    struct made *m = calloc(1, sizeof *m);

    m->model = "llama";
    made_token(m, "<unk>", T_UNKNOWN, 0);
    made_token(m, "<s>", T_CONTROL, 0);
    made_token(m, "</s>", T_CONTROL, 0);
    made_byte_tokens(m);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        made_token(m, tokens[i].text, T_NORMAL, tokens[i].score);
    return m;
}

static inline struct made *made_gemma4(void)
{
    static const char *const chars[] = {"\u2581", "\n", "a", "b", "c", "\u00e9", "<", ">"};
    static const char *const merges[] = {"\n \n", "\u2581 \u2581", "\u2581 a", "b c", "a b", "\u2581a bc"};
    struct made *m = calloc(1, sizeof *m);

    m->model = "gemma4";
    made_token(m, "<pad>", T_CONTROL, 0);
    made_token(m, "<eos>", T_CONTROL, 0);
    made_token(m, "<bos>", T_CONTROL, 0);
    made_token(m, "<unk>", T_CONTROL, 0);
    made_byte_tokens(m);
    for (size_t i = 0; i < sizeof chars / sizeof *chars; i++)
        made_token(m, chars[i], T_NORMAL, 0);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        made_merge(m, merges[i]);
    made_token(m, "<|tool_response>", T_USER, 0);
    made_token(m, "</s>", T_NORMAL, 0);
    made_token(m, "<turn|>", T_CONTROL, 0);
    return m;
}

#endif
