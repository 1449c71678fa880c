/* kernels/attn_set.h
 * The head size whose kernels an object of attention holds, by -DKD_SET=h128 (kernels/kernels.def).
 *
 *     #if ATTN_SET == 128          64, 128, 256, 512; 0: heads of any size */
#ifndef ZINC_KERNELS_ATTN_SET_H
#define ZINC_KERNELS_ATTN_SET_H

#ifndef KD_SET
#error "KD_SET is not defined"
#endif

#define ATTN_SET_h64   64
#define ATTN_SET_h128  128
#define ATTN_SET_h256  256
#define ATTN_SET_h512  512
#define ATTN_SET_other 0

#define ATTN_SET_PASTE2(a, b) a##b
#define ATTN_SET_PASTE(a, b)  ATTN_SET_PASTE2(a, b)
#define ATTN_SET              ATTN_SET_PASTE(ATTN_SET_, KD_SET)

#endif
