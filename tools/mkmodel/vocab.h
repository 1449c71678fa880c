/* tools/mkmodel/vocab.h
 * A small vocabulary in the manner of each family: byte tokens, pieces merged by byte-pair encoding of training_text,
 * the family's special tokens, and fillers "<filler_N>" up to the wanted size. */
#ifndef ZINC_TOOLS_MKMODEL_VOCAB_H
#define ZINC_TOOLS_MKMODEL_VOCAB_H

#include <stdint.h>

#include "model/model.h"

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE };

struct vocab {
    const char *model, *pre;     /* tokenizer.ggml.model and .pre (NULL: none)               */
    uint32_t n, cap;
    char **text;                 /* [n] owned, C strings: no token holds a zero byte         */
    int32_t *type;               /* [n]                                                      */
    float *score;                /* [n]                                                      */
    uint32_t n_merges;
    char **merge;                /* [n_merges] "left right", owned                           */
    int32_t bos, eos, eot, unk, pad; /* -1: none                                             */
    bool add_bos, has_scores;
};

/* n_vocab must hold the bytes and the specials (about 400 tokens at least). */
int vocab_init(struct vocab *v, enum model_family f, uint32_t n_vocab, struct err *e);
void vocab_finish(struct vocab *v);

#endif
