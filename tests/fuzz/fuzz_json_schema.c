/* Any bytes as a JSON schema: what becomes a grammar is one that grammar_from_gbnf reads, and a walk through it stays
 * JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 257 };

static enum vocab_kind token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    one = (char)id;
    *bytes = &one;
    *n = id < 256;
    return id == 256 ? VOCAB_END : VOCAB_TEXT;
}

/* Takes what closes wherever it can, so that most walks end. */
static void walk(struct grammar *g, uint32_t seed)
{
    struct grammar_state *st;
    char text[512];
    size_t n = 0;
    if (grammar_state_create(g, &st, NULL))
        return;
    while (!grammar_state_can_end(st) && n < sizeof text) {
        const uint64_t *mask = grammar_state_mask(st);
        int32_t pick = -1;
        uint32_t seen = 0;
        for (int32_t k = 0; k < 256 && mask; k++)
            if (mask[k / 64] >> (k % 64) & 1) {
                if (n > 8 && (k == '"' || k == ']' || k == '}')) {
                    pick = k;
                    break;
                }
                seed = seed * 1664525 + 1013904223;
                if ((seed >> 8) % ++seen == 0)
                    pick = k;
            }
        if (!mask)
            break;
        if (pick < 0 || grammar_state_accept(st, pick))
            abort();
        text[n++] = (char)pick;
    }
    if (grammar_state_can_end(st)) {
        json_t *v = json_loadb(text, n, JSON_DECODE_ANY, NULL);
        if (!v)
            abort();
        json_decref(v);
    }
    grammar_state_destroy(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vocab_index *v;
    struct vocab_source src = { .n_vocab = N_VOCAB, .token = token };
    struct grammar *g = NULL;
    struct tok_buf b = { 0 };
    struct err e;
    if (!v && vocab_index_create(&src, &v, NULL))
        return 0;
    if (grammar_schema_to_gbnf((const char *)data, size, "root", &b, &e) == 0) {
        int rc = grammar_from_gbnf(v, b.s, b.n, &g, &e);
        if (rc == -EINVAL && !strstr(e.msg, "left recursive") && !strstr(e.msg, "no end"))
            abort(); /* no grammar at all */
        if (rc == 0)
            walk(g, (uint32_t)size * 2654435761u + (size ? data[size - 1] : 0));
    }
    grammar_unref(g);
    tok_buf_finish(&b);
    return 0;
}
