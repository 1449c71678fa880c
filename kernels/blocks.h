/* kernels/blocks.h
 * The block layouts of quantised tensors as they lie in a GGUF file, little-endian, packed. A row is a run of blocks.
 * f16 fields are the raw 16 bits. K, TQ and IQ types but IQ4_NL
 * hold 256 elements, NVFP4 64, the others 32.
 * Source: the GGUF/ggml format (ggml-org/ggml: docs/gguf.md, src/ggml-common.h). */
#ifndef ZINC_KERNELS_BLOCKS_H
#define ZINC_KERNELS_BLOCKS_H

#include <stdint.h>

#define QK   32  /* elements of a small block          */
#define QK_K 256 /* elements of a K (super) block      */

typedef struct { uint16_t d; uint8_t qs[16]; } blk_q4_0;                        /* (n - 8) d                     */
typedef struct { uint16_t d, m; uint8_t qs[16]; } blk_q4_1;                     /* n d + m                       */
typedef struct { uint16_t d; uint8_t qh[4], qs[16]; } blk_q5_0;                 /* (n - 16) d, bit 4 in qh       */
typedef struct { uint16_t d, m; uint8_t qh[4], qs[16]; } blk_q5_1;              /* n d + m                       */
typedef struct { uint16_t d; int8_t qs[32]; } blk_q8_0;                         /* q d                           */
typedef struct { uint16_t d; uint8_t qs[16]; } blk_iq4_nl;                      /* T[n] d                        */
typedef struct { uint8_t e, qs[16]; } blk_mxfp4;                                /* M[n] 2^(e-128)                */
typedef struct { uint8_t d[4], qs[32]; } blk_nvfp4;                             /* 4 runs of 16: M[n] UE4M3 / 2  */
typedef struct { uint8_t scales[16], qs[64]; uint16_t d, dmin; } blk_q2_k;      /* 16 runs of 16: 4-bit sc, min  */
typedef struct { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; } blk_q3_k; /* 16 runs of 16: 6-bit sc - 32  */
typedef struct { uint16_t d, dmin; uint8_t scales[12], qs[128]; } blk_q4_k;     /* 8 runs of 32: 6-bit sc, min   */
typedef struct { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; } blk_q5_k;
typedef struct { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; } blk_q6_k; /* 16 runs of 16           */
typedef struct { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; } blk_iq4_xs;   /* 8 runs of 32, T[n]       */

/* Codes of codebooks (kernels/codebooks.h), 8 runs of 32. The scales are odd multiples of an eighth of d (IQ3: of d). */
typedef struct { uint16_t d, qs[32]; } blk_iq2_xxs;  /* a run: 4 entries of 8, then 4 x 7 signs, 4-bit scale          */
typedef struct { uint16_t d, qs[32]; uint8_t scales[8]; } blk_iq2_xs; /* 9 bits of entry, 7 signs; 4-bit scales of 16 */
typedef struct { uint16_t d; uint8_t qs[32], signs[32], qh[8], scales[8]; } blk_iq2_s; /* 10 bits of entry            */
typedef struct { uint16_t d; uint8_t qs[64], signs[32]; } blk_iq3_xxs; /* entries of 4; signs: as IQ2_XXS             */
typedef struct { uint16_t d; uint8_t qs[64], qh[8], signs[32], scales[4]; } blk_iq3_s; /* 9 bits of entry             */
typedef struct { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } blk_iq1_s; /* 11 bits of entry; 3-bit scale, shift     */
typedef struct { uint8_t qs[32], qh[16]; uint16_t scales[4]; } blk_iq1_m; /* 3-bit scales of 16, a shift for 8        */
typedef struct { uint8_t qs[48], qh[4]; uint16_t d; } blk_tq1_0; /* 5 digits a byte, 4 in qh; (n - 1) d               */
typedef struct { uint8_t qs[64]; uint16_t d; } blk_tq2_0;        /* 2 bits; (n - 1) d                                 */

#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, ...)                                                            \
    _Static_assert(sizeof(blk_##name) == bytes, "block layout of " #NAME);
#include "kernels/qtypes.def"

#endif
