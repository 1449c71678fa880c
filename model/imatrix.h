/* model/imatrix.h
 * An importance matrix: for each weight of a model, and each of its matrices where it has one per expert, the sum of the
 * squares of every input column over a text, and how many rows were added. Their quotient, the mean square of what a column is
 * multiplied by, weighs that column's errors when the weight is quantised.
 *
 * The file is the peer's (llama.cpp's imatrix tool): GGUF with general.type "imatrix", imatrix.datasets, imatrix.chunk_count
 * and imatrix.chunk_size, and two F32 tensors for each weight: NAME.in_sum2 [n_in, n_mats] and NAME.counts [1, n_mats]. Ours also tell
 * the model, imatrix.model. The peer's older form (model/imatrix_dat.c) is read as well.
 *
 *     struct imatrix *im;
 *     imatrix_read("model.imatrix", &im, &e);
 *     const struct imatrix_entry *en = imatrix_find(im, "blk.0.ffn_down_exps.weight");
 *     imatrix_weights(en, expert, w);                 w [en->n_in]
 *     imatrix_destroy(im); */
#ifndef ZINC_MODEL_IMATRIX_H
#define ZINC_MODEL_IMATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct imatrix_entry {
    char *name;          /* the weight's                */
    uint32_t n_in, n_mats;
    double *sum2;        /* [n_mats, n_in]              */
    double *count;       /* [n_mats], rows              */
};

struct imatrix {
    struct imatrix_entry *e;
    uint32_t n, cap;
    char *dataset;       /* what the first text was called; NULL: not known */
    char *model;         /* what the model was called; NULL: not known      */
    bool flat;           /* of the older form: entries are one matrix each until imatrix_fit was told how many */
    uint32_t chunk_count, chunk_size; /* texts' pieces, tokens of one       */
};

int imatrix_create(struct imatrix **out, struct err *e);
void imatrix_destroy(struct imatrix *im); /* NULL is fine */

/* A new entry of zeroes, NULL: no memory. Pointers to others are no longer valid. */
struct imatrix_entry *imatrix_add(struct imatrix *im, const char *name, uint32_t n_in, uint32_t n_mats);
const struct imatrix_entry *imatrix_find(const struct imatrix *im, const char *name); /* NULL: none */

/* Whether the weight's entry, if there is one, is of this shape. -EINVAL: it is not, which is told; -ENOMEM. */
int imatrix_fit(struct imatrix *im, const char *name, uint32_t n_in, uint32_t n_mats, struct err *e);

/* The mean squares of matrix `mat`, into w [n_in]. An expert that saw no row gets those of all experts together; false: nothing was
 * seen at all, w is all 1. */
bool imatrix_weights(const struct imatrix_entry *en, uint32_t mat, float *w);

/* -EINVAL: no such file, or numbers in it that cannot be; else as gguf_open. */
int imatrix_read(const char *path, struct imatrix **out, struct err *e);
/* The same of n bytes in memory, at a multiple of 8; `name` stands for the path. */
int imatrix_read_memory(const char *name, const void *bytes, uint64_t n, struct imatrix **out, struct err *e);
/* The older form alone, at any address. */
int imatrix_read_dat(const char *name, const void *bytes, uint64_t n, struct imatrix **out, struct err *e);
/* Entries without any row are left out. Appears when it is whole. */
int imatrix_write(const struct imatrix *im, const char *path, struct err *e);

#endif
