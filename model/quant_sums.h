/* model/quant_sums.h
 * Beside a file that is written in pieces, and gone on with later: for each finished piece a line with the sum of what it was made
 * from and the sum of what it became (XXH3, 128 bits:
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). What a line says is believed when both are computed again.
 *
 *     struct quant_sums *s;
 *     quant_sums_open("out.gguf.begun.sums", &s, &e);
 *     while (n < quant_sums_count(s) && <piece n has these sums: quant_sums_same(s, n, from, to)>)
 *         n++;
 *     quant_sums_cut(s, n, &e);
 *     quant_sums_add(s, from, to, &e);              for piece n, then n + 1 and so on
 *     quant_sums_close(s, false); */
#ifndef ZINC_MODEL_QUANT_SUMS_H
#define ZINC_MODEL_QUANT_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct quant_sum {
    uint64_t hi, lo;
};

struct quant_sum quant_sum_of(const void *p, uint64_t n);
/* Of this program: another one may make other bytes of the same piece. Where the system does not show its file, of its version. */
struct quant_sum quant_sum_of_program(void);

struct quant_sums;

/* Reads the lines up to the first that is none; a file that is not there has no lines. */
int quant_sums_open(const char *path, struct quant_sums **out, struct err *e);
uint64_t quant_sums_count(const struct quant_sums *s);
bool quant_sums_same(const struct quant_sums *s, uint64_t i, struct quant_sum from, struct quant_sum to);

/* Forgets all lines from the n-th on; the next that is added is the n-th. */
int quant_sums_cut(struct quant_sums *s, uint64_t n, struct err *e);
int quant_sums_add(struct quant_sums *s, struct quant_sum from, struct quant_sum to, struct err *e);

/* NULL is fine; `remove`: the file goes. */
void quant_sums_close(struct quant_sums *s, bool remove);

#endif
