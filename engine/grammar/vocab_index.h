/* engine/grammar/vocab_index.h
 * The vocabulary as two tries over bytes, one of plain texts and one of control tokens: a walk that drops a branch
 * drops all tokens below it. Immutable once made.
 *
 * Nodes lie in depth-first order: node i+1 is the first child of node i, or what follows it, and everything below
 * node i is [i + 1, node[i].next). The tokens that end at node i are tok[node[i].first .. node[i + 1].first); one more
 * node closes the array. */
#ifndef ZINC_GRAMMAR_VOCAB_INDEX_H
#define ZINC_GRAMMAR_VOCAB_INDEX_H

#include "engine/grammar/grammar.h"

struct trie_node {
    uint32_t next;  /* the first node that is not below this one */
    uint32_t first; /* of the tokens from here on                */
    uint16_t depth; /* bytes up to and with this one's           */
    uint8_t byte;
    bool plain; /* at the end of a character, and below are plain characters only; see utf8_plain_step */
};

struct trie {
    struct trie_node *node; /* [n + 1] */
    uint32_t n, max_depth;
    int32_t *tok;
    uint32_t n_tok;
};

struct vocab_index {
    uint32_t n_vocab, n_words; /* words of a mask                            */
    uint8_t *kind;             /* [n_vocab] enum vocab_kind                  */
    char *bytes;
    uint32_t *at;              /* [n_vocab + 1] where each token's bytes are */
    struct trie text, control; /* control: VOCAB_CONTROL and VOCAB_END       */
    uint64_t *end, *any;       /* masks: VOCAB_END; VOCAB_TEXT, VOCAB_CONTROL */
    uint64_t *plain;           /* mask: texts of plain characters; the last may be cut off */
    bool has_byte[256];        /* some token has it                          */
};

enum { VOCAB_MAX_TOKEN = 4096 }; /* a longer token is never allowed */

static inline void mask_set(uint64_t *m, int32_t id)
{
    m[id >> 6] |= 1ull << (id & 63);
}

static inline bool mask_has(const uint64_t *m, int32_t id)
{
    return m[id >> 6] >> (id & 63) & 1;
}

/* Plain characters are those that free text and strings of all kinds consist of: not control characters, not " \ <.
 * Steps over the bytes of one: from 0, at its end, to 0 again; UTF8_NONE where the byte does not fit. */
enum { UTF8_NONE = 8 };
static inline unsigned utf8_plain_step(unsigned state, uint8_t c)
{
    enum { END, LAST, LAST2, LAST3, E0, ED, F0, F4 };
    bool more = c >= 0x80 && c < 0xc0;
    switch (state) {
    case END:
        return c < 0x80   ? (c < 0x20 || c == '"' || c == '\\' || c == '<' ? UTF8_NONE : END)
               : c < 0xc2 ? UTF8_NONE
               : c < 0xe0 ? LAST
               : c < 0xf0 ? (c == 0xe0   ? E0
                             : c == 0xed ? ED
                                         : LAST2)
               : c < 0xf5 ? (c == 0xf0   ? F0
                             : c == 0xf4 ? F4
                                         : LAST3)
                          : UTF8_NONE;
    case LAST:
    case LAST2:
    case LAST3: return more ? state - 1 : UTF8_NONE;
    case E0: return more && c >= 0xa0 ? LAST : UTF8_NONE;
    case ED: return more && c < 0xa0 ? LAST : UTF8_NONE;
    case F0: return more && c >= 0x90 ? LAST2 : UTF8_NONE;
    case F4: return more && c < 0x90 ? LAST2 : UTF8_NONE;
    }
    return UTF8_NONE;
}

/* The token whose text is exactly this, control tokens first, -1: none. */
int32_t vocab_index_find(const struct vocab_index *v, const char *text, size_t n);

#endif
