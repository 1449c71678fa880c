/* Any bytes as a JSON schema: what becomes a grammar is one that grammar_from_gbnf reads, and a walk through it stays
 * JSON. Some inputs take a tenth of a second, so fixed runs: 500. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"

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
        if (pick < 0)
            abort();
        int rc = grammar_state_accept(st, pick);
        if (rc == -E2BIG) {
            grammar_state_destroy(st);
            return;
        }
        if (rc)
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

/* As arguments of a call, in every syntax, with what cannot be done passed over: the text is a grammar, too. */
static void arguments(const struct vocab_index *v, const json_t *schema)
{
    for (int form = JSON_SCHEMA_VALUE; form <= JSON_SCHEMA_ARGS_GEMMA; form++) {
        struct json_schema_opts o = { .warnings = json_array() };
        struct grammar *g = NULL;
        struct tok_buf b = { 0 };
        struct err e = { 0 };
        int rc = json_schema_rules(schema, (enum json_schema_form)form, "root", &o, &b, &e);
        if (rc == 0 && grammar_from_gbnf(v, b.s, b.n, &g, &e) == -EINVAL && !strstr(e.msg, "left recursive") &&
            !strstr(e.msg, "no end"))
            abort();
        if (rc == -ENOTSUP || (rc && !e.msg[0]))
            abort(); /* loose: nothing is refused for want of support, and what is refused says why */
        grammar_unref(g);
        json_decref(o.warnings);
        tok_buf_finish(&b);
    }
    unsigned types;
    json_schema_parameter(schema, "a", 1, &types);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *schema = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
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
    if (schema)
        arguments(v, schema);
    json_decref(schema);
    return 0;
}
