/* engine/proof/ref_logits.h
 * A reference's answers to a text in a file: for every counted token the whole distribution, so that another run over
 * the same windows can be held against it (engine/proof/divergence.h).
 *
 * The file, little-endian: struct ref_logits_head; then each window: its n_window token ids (i32), a row for each
 * counted token, and a checksum of both (XXH3, 64 bits). A row is
 *
 *     f32 top, step, nll;     log-probability of the best token; units of the codes; -log of the chance of the true token
 *     u16 code [n_vocab]      log-probability of token i = top - step * code[i]; then as many bytes as make it a multiple of 4
 *
 * Codes reach 32 nats below the best token: whatever is less likely than e^-32 counts as that. Two bytes a logit, half of f32,
 * with a step of at most 0.0005 nats; what the rounding adds to a divergence is of the order of 1e-8.
 *
 * A file is written beside its name and gets the name when it is whole. */
#ifndef ZINC_PROOF_REF_LOGITS_H
#define ZINC_PROOF_REF_LOGITS_H

#include <stdint.h>

#include "base/err.h"

struct engine;

struct ref_logits_head {
    char magic[8];            /* "ZINCREF1"                                      */
    uint32_t n_vocab, n_window, n_windows, n_rows; /* n_rows: of a window        */
    uint64_t vocab_hash;      /* of the pieces of the vocabulary, in order       */
    char model[96];           /* the reference's label, for messages             */
    uint64_t check;           /* XXH3 of all before it                           */
};
_Static_assert(sizeof(struct ref_logits_head) == 136, "file format");

/* The head of a file about this engine's model. */
void ref_logits_describe(const struct engine *eng, uint32_t n_window, uint32_t n_windows, struct ref_logits_head *h);

/* ---- writing ---- */

struct ref_writer;

int ref_writer_create(const char *path, const struct ref_logits_head *h, struct ref_writer **out, struct err *e);
/* A window, then its n_rows rows in order: logits [n_vocab] as the model gave them, nll: of the true token. */
int ref_writer_window(struct ref_writer *w, const int32_t *tok, struct err *e);
int ref_writer_row(struct ref_writer *w, const float *logits, double nll, struct err *e);
/* -EINVAL: windows or rows are missing. */
int ref_writer_finish(struct ref_writer *w, struct err *e);
void ref_writer_destroy(struct ref_writer *w); /* NULL is fine; before finish it removes the partial file */

/* ---- reading ---- */

struct ref_reader;

/* -EINVAL: no such file, one that is cut or damaged, or one of another vocabulary or window than *h says; windows may be more
 * than h->n_windows, not fewer. */
int ref_reader_open(const char *path, const struct ref_logits_head *h, struct ref_reader **out, struct err *e);
const struct ref_logits_head *ref_reader_head(const struct ref_reader *r);
/* Window i's tokens are these? -EINVAL: the text is another one. */
int ref_reader_check(const struct ref_reader *r, uint32_t i, const int32_t *tok, struct err *e);
/* Window i is going to be read: its checksum is compared. */
int ref_reader_window(struct ref_reader *r, uint32_t i, struct err *e);
/* Row `row` of that window: log-probabilities [n_vocab], which add up to 1 but for the rounding; returns the nll. */
double ref_reader_row(const struct ref_reader *r, uint32_t row, float *logp);
void ref_reader_close(struct ref_reader *r); /* NULL is fine */

#endif
