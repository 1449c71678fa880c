/* Any bytes as a grammar in GBNF, up to the first zero byte; those behind it choose tokens. What a mask allows is
 * accepted, and what it does not is refused, unless it takes too much. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const special[] = { "<|end|>", "<|call|>", "<x>", "ab", "\xc3\xa9", "a\xc3", "\"}", "((" };
enum { N_VOCAB = 256 + ARRAY_LEN(special) };

static enum vocab_kind token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    one = (char)id;
    *bytes = id < 256 ? &one : special[id - 256];
    *n = id < 256 ? 1 : strlen(*bytes);
    return id == 256 ? VOCAB_END : id == 257 ? VOCAB_CONTROL : VOCAB_TEXT;
}

static void walk(struct grammar *g, const uint8_t *data, size_t size)
{
    struct grammar_state *st;
    if (grammar_state_create(g, &st, NULL))
        return;
    for (size_t i = 0; i < MIN(size, 64); i++) {
        const uint64_t *mask = grammar_state_mask(st);
        int32_t id = data[i], any = -1;
        for (int32_t k = 0; k < N_VOCAB && mask; k++)
            if (mask[k / 64] >> (k % 64) & 1 && (any < 0 || k <= data[i] + 8))
                any = k;
        if (!mask) /* this grammar is too ambiguous */
            break;
        if (any < 0)
            abort();
        bool allowed = mask[id / 64] >> (id % 64) & 1;
        int rc = grammar_state_accept(st, id);
        if (rc == -E2BIG)
            break;
        if (rc != (allowed ? 0 : -EINVAL))
            abort();
        if (!allowed && (rc = grammar_state_accept(st, any))) {
            if (rc != -E2BIG)
                abort();
            break;
        }
    }
    grammar_state_destroy(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vocab_index *v;
    struct vocab_source src = { .n_vocab = N_VOCAB, .token = token };
    struct grammar *g = NULL;
    struct err e;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t n = zero ? (size_t)(zero - data) : size;
    if (!v && vocab_index_create(&src, &v, NULL))
        return 0;
    char *text = malloc(n ? n : 1); /* its end is the end of what may be read */
    if (!text)
        return 0;
    memcpy(text, data, n);
    if (grammar_from_gbnf(v, text, n, &g, &e) == 0)
        walk(g, zero ? zero + 1 : data, zero ? size - n - 1 : size);
    grammar_unref(g);
    free(text);
    return 0;
}
