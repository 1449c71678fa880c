/* kernels/codebooks.h
 * What the codes of the IQ types look up: four signed or unsigned bytes a word, the first element in the lowest. An entry of
 * eight elements is two words. Constant data of the program, 34 kB; for hosts.
 *
 * Source of the entries: kernels/codebooks.inc; of the values: the GGUF/ggml format (ggml-org/ggml: src/ggml-common.h). */
#ifndef ZINC_KERNELS_CODEBOOKS_H
#define ZINC_KERNELS_CODEBOOKS_H

#include <stdint.h>

extern const uint32_t codebook_iq2_xxs[256][2]; /* magnitudes 8, 25, 43; signs are beside the codes   */
extern const uint32_t codebook_iq2_xs[512][2];
extern const uint32_t codebook_iq2_s[1024][2];
extern const uint32_t codebook_iq1[2048][2];    /* 0, 8, 16: eight times a weight of -1, 0, 1, plus 8 */
extern const uint32_t codebook_iq3_xxs[256];    /* magnitudes 4, 12, 20, 28, 36, 44, 52, 62           */
extern const uint32_t codebook_iq3_s[512];      /* magnitudes 1, 3, 5 ... 15                          */

/* Seven signs and an eighth that makes their number even. */
static inline uint32_t codebook_signs(uint32_t seven)
{
    uint32_t p = seven ^ seven >> 4;
    p ^= p >> 2;
    return seven | ((p ^ p >> 1) & 1) << 7;
}

#endif
