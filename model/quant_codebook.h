/* model/quant_codebook.h: private to model/quant_codebook*.c, the quantisers of the types whose codes look up several weights at
 * once (kernels/codebooks.h).
 *
 * The elements of an entry, x with weights w, become s g_k with the signs of x. Of the weighted squared error that leaves
 * s^2 B_k - 2 s A_k, where A_k = sum w |x| g_k and B_k = sum w g_k^2 do not depend on the scale s. Both are computed for every
 * entry of the book, and then each scale of a ladder costs two multiplications an entry to have the best of all entries, not
 * only of those around the rounded point. Where formats keep seven signs of eight and want an even number of minuses, an odd one
 * is mended where it costs least, which the search knows too: flipping element i costs 2 w |x_i| g_ki.
 *
 * Scales of a block's runs are small odd multiples of one f16 number, for which the block is solved again at the end. Entries
 * of IQ1 are signed and moved up or down by an eighth: B then has two forms. */
#ifndef ZINC_MODEL_QUANT_CODEBOOK_H
#define ZINC_MODEL_QUANT_CODEBOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/blocks.h"
#include "kernels/qtypes.h"

enum { MAX_ENTRIES = 2048, MAX_PARTS = 8, STEPS = 13, POLISH = 3 };
#define TINY  1e-12f
#define SHIFT 0.125f

/* How the two options that an entry may have depend on each other within a run. */
enum options { ONE, EACH, ALL, PAIRS }; /* none; free; one for the run; of two neighbours one takes the flip */

struct book {
    uint32_t n, len, run, max_scale; /* entries, elements of one and of a run; scales are unit (2 c + 1), c up to max_scale */
    float unit;
    bool even, is_signed;
    enum options options;
    float rms, top;                  /* of all entries */
    _Alignas(64) float g[8][MAX_ENTRIES];
};

/* One entry's elements: what each entry of the book would give. */
struct part {
    _Alignas(64) float a[2][MAX_ENTRIES], b[2][MAX_ENTRIES]; /* by option */
    float add_a[2], add_b;
    bool odd;
};

struct work {
    struct book book;
    struct part part[MAX_PARTS];
};

struct pick {
    float gain, a, b; /* gain = 2 s a - s^2 b */
    uint16_t k[MAX_PARTS];
    uint8_t option[MAX_PARTS];
};

/* A block as it was chosen. */
struct codes {
    float d;
    uint8_t scale[16], option[64], signs[32];
    uint16_t k[64];
};

/* The book of one of the types IQ1 to IQ3. */
void quant_codebook_open(struct book *b, enum qtype t);

/* The codes of the 256 elements x, whose errors weigh w. The same ones from each: in registers of whatever width the compiler is
 * told of (model/quant_codebook_fit.h), of eight and of sixteen floats. */
void quant_codebook_fit(struct work *k, const float *x, const float *w, struct codes *c);
void quant_codebook_fit_avx2(struct work *k, const float *x, const float *w, struct codes *c);
void quant_codebook_fit_avx512(struct work *k, const float *x, const float *w, struct codes *c);

#endif
