/* model/tok_pre.h
 * How byte-level BPE cuts text into words before merging; one set of rules per name in tokenizer.ggml.pre. The rules
 * are those that llama.cpp applies, which for some models approximate the model's own (gpt-4o: marks end words). */
#ifndef ZINC_MODEL_TOK_PRE_H
#define ZINC_MODEL_TOK_PRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A code point with what the rules ask of it: value, raw-byte flag, classes. */
typedef uint32_t tok_cp;
#define TOK_CP(c)  ((c)&0x1fffffu)
#define TOK_CP_RAW 0x200000u /* one byte that is not UTF-8; its value and classes are those of U+FFFD */
#define TOK_CLS(c) ((c) >> 24)

/* The end of the piece that begins at i, i itself when none begins there; i < n. */
typedef size_t tok_rule(const tok_cp *c, size_t i, size_t n);

struct tok_pre {
    const char *name;
    bool ignore_merges; /* a word that is a token is taken whole, whatever the merges say */
    bool add_bos;       /* default of tokenizer.ggml.add_bos_token */
    tok_rule *stage[6]; /* each cuts the pieces of the one before; what no rule takes stays together */
};

const struct tok_pre *tok_pre_find(const char *name, size_t len); /* NULL: unknown */

/* Whether the model was trained on text in normalization form C (tok_nfc.h); the caller brings the text to it. */
bool tok_pre_nfc(const struct tok_pre *pre);

/* Decodes n bytes to at most n code points; returns how many. */
size_t tok_pre_decode(const char *s, size_t n, tok_cp *out);

/* Calls fn with each word of c[0..n), in order; stops at the first non-zero result and returns it. */
typedef int tok_word_fn(void *user, const tok_cp *c, size_t n);
int tok_pre_split(const struct tok_pre *pre, const tok_cp *c, size_t n, tok_word_fn *fn, void *user);

/* How many bytes of the text a code point took. */
static inline size_t tok_cp_bytes(tok_cp c)
{
    uint32_t v = TOK_CP(c);
    return c & TOK_CP_RAW || v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
}

#endif
