/* model/tok_impl.h: inside the tokenizer; for model/tok_*.c only. */
#ifndef ZINC_MODEL_TOK_IMPL_H
#define ZINC_MODEL_TOK_IMPL_H

#include "model/tok.h"
#include "model/tok_pre.h"

enum tok_kind { TOK_KIND_BPE /* byte-level */, TOK_KIND_SPM, TOK_KIND_GEMMA4 };

struct tok_str {
    const char *s;
    uint32_t n;
};

/* A symbol is a piece of text that merging can make: ids below n_vocab are the tokens, the ones above are merge parts
 * and results that are no tokens. Equal texts are one symbol. */
struct tok_slot {
    uint32_t hash; /* upper half of the text's hash */
    int32_t sym;   /* -1: empty slot                */
};

struct tok_pair {
    int32_t left, right; /* left -1: empty slot */
    uint32_t rank;
    int32_t result;
};

/* Texts of special tokens as a tree of bytes: first child, next sibling; node 0 is the root. */
struct tok_node {
    uint32_t child, sibling; /* 0: none */
    int32_t id;              /* -1: no token ends here */
    uint8_t byte;
};

struct tok_specials {
    struct tok_node *node;
    uint32_t n_node, cap_node;
    uint32_t *len; /* distinct lengths of the texts, falling */
    uint32_t n_len;
    uint8_t first_two[65536 / 8]; /* bit (b0 << 8 | b1): some text begins with these bytes */
};

struct tok {
    const struct gguf *gguf;
    enum tok_kind kind;
    const char *model_name;
    char pre_name[64];
    const struct tok_pre *pre; /* byte-level BPE only */
    uint32_t n_vocab;
    bool add_bos, add_eos, add_space_prefix;
    bool nfc; /* text is normalized first */
    int32_t bos, eos, eot, eom, unk, sep, pad, mask;

    struct tok_str *text; /* [n_sym] */
    uint32_t n_sym, cap_sym;
    uint8_t *attr;     /* [n_vocab] enum tok_attr bits */
    uint32_t *prio;    /* [n_vocab], SPM: falls as the score rises */
    uint32_t max_text; /* bytes of the longest text, of tokens */
    struct tok_slot *slot;
    uint32_t slot_mask;
    struct tok_pair *pair;
    uint32_t pair_mask;

    int32_t
        byte_sym[256]; /* symbol of one byte: BPE its mapped character, else the ASCII character; -1: none */
    int32_t byte_token[256]; /* token that stands for one byte; -1: none */

    bool lacks_bytes;        /* BPE: some byte has no symbol */

    uint8_t before_space[32]; /* bit b: some symbol has byte b right before a U+2581 */

    struct tok_specials specials;
    int32_t *eog;
    size_t n_eog;
    int32_t *suppressed;
    size_t n_suppressed;
    struct tok_chunk *chunks; /* texts that are not in the file */
};

/* tok_vocab.c */
int tok_vocab_read(struct tok *t, struct err *e);  /* texts, types, scores, the text index */
int tok_merges_read(struct tok *t, struct err *e); /* pairs and their symbols              */
void tok_bytes_init(struct tok *t);                /* byte_sym and byte_token              */
void tok_before_space_init(struct tok *t);
void tok_vocab_finish(struct tok *t);
int32_t tok_sym_find(const struct tok *t, const char *s, size_t n);
char *tok_keep(struct tok *t, const char *s, size_t n); /* a copy that lives as long as t; NULL: no memory */
bool tok_pair_find(const struct tok *t, int32_t left, int32_t right, uint32_t *rank, int32_t *result);

/* The character that GPT-2's byte alphabet writes for a byte, and back (-1: not in the alphabet). */
uint32_t tok_byte_char(uint8_t b);
int tok_char_byte(uint32_t cp);

/* tok_special.c */
int tok_special_ids_read(struct tok *t, struct err *e);
int tok_specials_init(struct tok *t, struct err *e);
void tok_specials_finish(struct tok *t);

struct tok_frag {
    size_t off, len;
    int32_t id; /* -1: text */
};
struct tok_frags {
    struct tok_frag *f;
    size_t n, cap;
};
/* Cuts the special tokens out of the text, longest first; marks only outside of `plain` (may be NULL). */
int tok_partition(const struct tok *t, const char *text, size_t len, const struct tok_spans *plain,
                  bool parse_special, struct tok_frags *out);

/* tok_merge.c */
struct tok_sym {
    int32_t id; /* symbol, -1: none */
    uint32_t prev, next;
    uint32_t off, len; /* len 0: merged into its left neighbour */
};
struct tok_heap_item {
    uint64_t key; /* rank << 32 | left: lowest rank first, then leftmost */
    uint32_t len; /* of both together, to recognise pairs that have changed */
};
struct tok_merger {
    struct tok_sym *sym;
    size_t n_sym, cap_sym;
    struct tok_heap_item *heap;
    size_t n_heap, cap_heap;
};
/* Merges m->sym[0..n_sym) of `text` until no pair is left; the survivors have len > 0. */
int tok_merge(const struct tok *t, const char *text, struct tok_merger *m);
int tok_merger_push(struct tok_merger *m, int32_t id, uint32_t off, uint32_t len);
void tok_merger_finish(struct tok_merger *m);

#endif
