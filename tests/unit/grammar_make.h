/* tests/unit/grammar_make.h: a small vocabulary and walks through grammars, for the tests of constrained decoding. The
 * vocabulary has every byte, pieces of JSON and of words, pieces that end inside a character, and special tokens. */
#ifndef ZINC_TESTS_UNIT_GRAMMAR_MAKE_H
#define ZINC_TESTS_UNIT_GRAMMAR_MAKE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"

static const struct {
    const char *text;
    enum vocab_kind kind;
} made_tokens[] = {
    { "<|end|>", VOCAB_END },
    { "<|stop|>", VOCAB_END },
    { "<|call|>", VOCAB_CONTROL },
    { "<|ca", VOCAB_CONTROL },
    { "<think>", VOCAB_TEXT },
    { "unused", VOCAB_UNUSED },
    { "", VOCAB_TEXT },
    { "{\"", VOCAB_TEXT },
    { "\":", VOCAB_TEXT },
    { "\": ", VOCAB_TEXT },
    { "\": \"", VOCAB_TEXT },
    { "\", \"", VOCAB_TEXT },
    { "\",\"", VOCAB_TEXT },
    { "\"}", VOCAB_TEXT },
    { "\"]", VOCAB_TEXT },
    { "}}", VOCAB_TEXT },
    { "]}", VOCAB_TEXT },
    { "},", VOCAB_TEXT },
    { "], ", VOCAB_TEXT },
    { "[]", VOCAB_TEXT },
    { "{}", VOCAB_TEXT },
    { ": [", VOCAB_TEXT },
    { "\n  ", VOCAB_TEXT },
    { "\n", VOCAB_TEXT },
    { "    ", VOCAB_TEXT },
    { "true", VOCAB_TEXT },
    { "false", VOCAB_TEXT },
    { "null", VOCAB_TEXT },
    { "tr", VOCAB_TEXT },
    { "ue", VOCAB_TEXT },
    { "12", VOCAB_TEXT },
    { "00", VOCAB_TEXT },
    { "1.5", VOCAB_TEXT },
    { "-1", VOCAB_TEXT },
    { "e+", VOCAB_TEXT },
    { "\\n", VOCAB_TEXT },
    { "\\\"", VOCAB_TEXT },
    { "\\u00", VOCAB_TEXT },
    { "\\u", VOCAB_TEXT },
    { "ab", VOCAB_TEXT },
    { "abc", VOCAB_TEXT },
    { "name", VOCAB_TEXT },
    { " the", VOCAB_TEXT },
    { "a\xc3", VOCAB_TEXT },
    { "\xa9"
      "b",
      VOCAB_TEXT },
    { "\xc3\xa9", VOCAB_TEXT },
    { "\xe6\x97", VOCAB_TEXT },
    { "\x97\xa5", VOCAB_TEXT },
    { "\xa5\"", VOCAB_TEXT },
    { "\xf0\x9f\x98", VOCAB_TEXT },
    { "\x80", VOCAB_TEXT },
    { "\x80\",", VOCAB_TEXT },
    { "<|", VOCAB_TEXT },
    { "|>", VOCAB_TEXT },
    { "call", VOCAB_TEXT },
    { "<", VOCAB_TEXT },
    { "a<", VOCAB_TEXT },
};
enum { N_MADE = sizeof made_tokens / sizeof made_tokens[0], N_MADE_VOCAB = 256 + N_MADE };

static inline enum vocab_kind made_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    if (id < 256) {
        one = (char)id;
        *bytes = &one;
        *n = 1;
        return VOCAB_TEXT;
    }
    *bytes = made_tokens[id - 256].text;
    *n = strlen(*bytes);
    return made_tokens[id - 256].kind;
}

static inline struct vocab_index *made_vocab(void)
{
    struct vocab_source src = { .n_vocab = N_MADE_VOCAB, .token = made_token };
    struct vocab_index *v = NULL;
    struct err e = { 0 };
    ck_assert_msg(vocab_index_create(&src, &v, &e) == 0, "%s", e.msg);
    return v;
}

/* The made token with this text. */
static inline int32_t made_id(const char *text)
{
    for (int32_t i = 0; i < N_MADE; i++)
        if (!strcmp(made_tokens[i].text, text))
            return 256 + i;
    ck_assert_msg(strlen(text) == 1, "no token %s", text);
    return (uint8_t)*text;
}

static uint64_t made_seed = 88172645463325252u;

static inline uint32_t rnd(uint32_t below)
{
    made_seed ^= made_seed << 13;
    made_seed ^= made_seed >> 7;
    made_seed ^= made_seed << 17;
    return (uint32_t)(made_seed >> 32) % below;
}

static inline bool made_bit(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

static inline struct grammar_state *made_state(struct grammar *g)
{
    struct grammar_state *st = NULL;
    ck_assert_int_eq(grammar_state_create(g, &st, NULL), 0);
    return st;
}

/* Feeds a text in tokens chosen at random among those that fit, byte by byte if `bytes`. Checks that the mask and
 * grammar_state_accept agree. False where the grammar refuses a token. */
static inline bool made_feed(struct grammar_state *st, const char *s, size_t n, bool bytes)
{
    for (size_t at = 0; at < n;) {
        int32_t id = (uint8_t)s[at], pick = bytes ? 0 : (int32_t)rnd(N_MADE);
        size_t len = 1;
        for (int32_t i = 0; i < N_MADE && !bytes; i++) {
            int32_t k = (pick + i) % N_MADE;
            size_t m = strlen(made_tokens[k].text);
            if (made_tokens[k].kind == VOCAB_TEXT && m && m <= n - at && !memcmp(made_tokens[k].text, s + at, m) &&
                rnd(2)) {
                id = 256 + k;
                len = m;
                break;
            }
        }
        const uint64_t *mask = grammar_state_mask(st);
        ck_assert_ptr_nonnull(mask);
        bool allowed = made_bit(mask, id);
        int rc = grammar_state_accept(st, id);
        ck_assert_msg(rc == (allowed ? 0 : -EINVAL), "token %d at byte %zu of %.*s: mask %d, accept %d", id, at, (int)n,
                      s, allowed, rc);
        if (rc)
            return false;
        at += len;
    }
    return true;
}

/* Is the text in the language? Asked several times, cut into tokens in different ways, which must agree. */
static inline bool made_matches(struct grammar *g, const char *s, size_t n)
{
    struct grammar_state *st = made_state(g);
    bool yes = made_feed(st, s, n, true) && grammar_state_can_end(st);
    for (int i = 0; i < 4; i++) {
        grammar_state_reset(st);
        bool again = made_feed(st, s, n, false) && grammar_state_can_end(st);
        ck_assert_msg(again == yes, "%.*s: %d by bytes, %d by tokens", (int)n, s, yes, again);
    }
    grammar_state_destroy(st);
    return yes;
}

/* Compares the mask after a history with what grammar_state_accept says of every token. */
static inline void made_check_mask(struct grammar *g, const int32_t *history, uint32_t n)
{
    struct grammar_state *st = made_state(g), *probe = made_state(g);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(grammar_state_accept(st, history[i]), 0);
    for (int32_t id = 0; id < N_MADE_VOCAB; id++) {
        grammar_state_reset(probe);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_int_eq(grammar_state_accept(probe, history[i]), 0);
        int rc = grammar_state_accept(probe, id);
        bool bit = made_bit(grammar_state_mask(st), id);
        ck_assert_msg(rc == (bit ? 0 : -EINVAL), "token %d after %u tokens: mask %d, accept %d", id, n, bit, rc);
    }
    grammar_state_destroy(st);
    grammar_state_destroy(probe);
}

/* Appends what the walk's token stands for. */
static inline void made_append(char *text, size_t *n, size_t cap, int32_t id)
{
    const char *s;
    size_t len;
    if (made_token(NULL, id, &s, &len) == VOCAB_END)
        return;
    ck_assert_uint_lt(*n + len, cap);
    memcpy(text + *n, s, len);
    *n += len;
    text[*n] = 0;
}

/* A random walk under the mask until the grammar ends, kept short by preferring tokens that close; returns the text's
 * length. `check` masks are compared with accept on the way. After `most` tokens it gives up and returns 0; most 0: it
 * has to end. */
static inline size_t made_walk(struct grammar *g, char *text, size_t cap, uint32_t patience, uint32_t check,
                               uint32_t most)
{
    struct grammar_state *st = made_state(g);
    int32_t history[4096];
    uint32_t n_history = 0;
    size_t n = 0;
    text[0] = 0;
    for (;;) {
        const uint64_t *mask = grammar_state_mask(st);
        int32_t pick = -1;
        uint32_t seen = 0;
        ck_assert_ptr_nonnull(mask);
        if (check && rnd(8) == 0) {
            made_check_mask(g, history, n_history);
            check--;
            mask = grammar_state_mask(st);
        }
        for (int32_t id = 0; id < N_MADE_VOCAB; id++) {
            bool closes = n_history > patience && id < 256 && strchr("\"]}", id) && id;
            if (made_bit(mask, id) && (closes || rnd(++seen) == 0))
                pick = id;
            if (closes && pick == id)
                break;
        }
        if (n_history > patience && grammar_state_can_end(st))
            pick = made_id("<|end|>");
        ck_assert_msg(pick >= 0, "nothing is allowed after %.500s", text);
        if (most && n_history == most) {
            n = 0;
            break;
        }
        ck_assert_msg(n_history < 4096, "the walk does not end: %.500s", text);
        ck_assert_int_eq(grammar_state_accept(st, pick), 0);
        history[n_history++] = pick;
        made_append(text, &n, cap, pick);
        const char *s;
        size_t len;
        if (made_token(NULL, pick, &s, &len) == VOCAB_END)
            break;
    }
    grammar_state_destroy(st);
    return n;
}

#endif
