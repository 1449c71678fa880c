/* kernels/hw/mma8.h
 * Matrix instructions on signed bytes: a warp multiplies 16 rows of A by 8 columns of B along 16 or 32 elements of k and
 * adds to int32 sums, exactly, modulo 2^32. With g = lane / 4 and t = lane % 4 a lane holds
 *
 *     c[0], c[1]   row g, columns 2 t and 2 t + 1;  c[2], c[3]   row g + 8
 *     a0, a1       rows g and g + 8, k from 4 t on;  a2, a3   the same, k from 16 + 4 t on
 *     b0, b1       column g, k from 4 t on, and from 16 + 4 t on
 *
 * A word is four elements, the first in the low byte. k may be permuted, the same way in A and B.
 *
 *     kd_mma8_k32(c, start, a0, a1, a2, a3, b0, b1)      the sums begin at start[], which stays, or is c
 *     kd_mma8_k16(c, start, a0, a1, b0)
 *     kd_mma8_k32_unsigned, kd_mma8_k16_unsigned         A's bytes have no sign
 *     kd_bytes8_load(r, row);                     four matrices of 8 rows of 16 bytes from shared memory: lane l points at
 *                                                 row l % 8 of matrix l / 8, and gets of each matrix row g, bytes 4 t on
 *
 * Source: the PTX ISA manual, "ldmatrix", "Matrix Fragments for mma.m16n8k16 / m16n8k32 with .u8/.s8 type". */
#ifndef ZINC_KERNELS_HW_MMA8_H
#define ZINC_KERNELS_HW_MMA8_H

#include "kernels/kdev.h"

#if defined(__NVPTX__)

#define KD_MMA8_K32(name, sign)                                                                                        \
    KD_FN void name(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,     \
                    uint32_t b1)                                                                                       \
    {                                                                                                                  \
        __asm__("mma.sync.aligned.m16n8k32.row.col.s32." sign ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "         \
                "{%10, %11, %12, %13};"                                                                                \
                : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])                                                       \
                : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(start[0]), "r"(start[1]), "r"(start[2]),   \
                  "r"(start[3]));                                                                                      \
    }
#define KD_MMA8_K16(name, sign)                                                                                        \
    KD_FN void name(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t b0)                     \
    {                                                                                                                  \
        __asm__("mma.sync.aligned.m16n8k16.row.col.s32." sign ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"   \
                : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])                                                       \
                : "r"(a0), "r"(a1), "r"(b0), "r"(start[0]), "r"(start[1]), "r"(start[2]), "r"(start[3]));              \
    }
KD_MMA8_K32(kd_mma8_k32, "s8")
KD_MMA8_K32(kd_mma8_k32_unsigned, "u8")
KD_MMA8_K16(kd_mma8_k16, "s8")
KD_MMA8_K16(kd_mma8_k16_unsigned, "u8")

KD_FN void kd_bytes8_load(uint32_t r[4], KD_SHARED const uint8_t *row)
{
    __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"((uint32_t)(uintptr_t)row)
                     : "memory");
}

#elif !defined(__AMDGCN__) /* the host: lanes meet once, and each takes its rows of A and its columns of B from those that hold them */

KD_FN void kd_mma8_k16(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    const uint32_t *all = kd_host_share_words((uint32_t[3]){ a0, a1, b0 }, 3);
    for (uint32_t i = 0; i < 4; i++)
        c[i] = start[i];
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t r0 = all[4 * g + j], r1 = all[KD_WARP + 4 * g + j];
        uint32_t c0 = all[2 * KD_WARP + 8 * t + j], c1 = all[2 * KD_WARP + 8 * t + 4 + j];
        c[0] += (uint32_t)kd_dot4(r0, c0, 0), c[1] += (uint32_t)kd_dot4(r0, c1, 0);
        c[2] += (uint32_t)kd_dot4(r1, c0, 0), c[3] += (uint32_t)kd_dot4(r1, c1, 0);
    }
}
KD_FN void kd_mma8_k16_unsigned(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
    kd_mma8_k16(c, start, a0 & 0x7f7f7f7fu, a1 & 0x7f7f7f7fu, b0);
    for (uint32_t i = 0; i < 2; i++) /* the sign's bit as twice the half of it */
        kd_mma8_k16(c, c, (a0 & 0x80808080u) >> 1, (a1 & 0x80808080u) >> 1, b0);
}
KD_FN void kd_mma8_k32(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                       uint32_t b1)
{
    kd_mma8_k16(c, start, a0, a1, b0);
    kd_mma8_k16(c, c, a2, a3, b1);
}
KD_FN void kd_mma8_k32_unsigned(uint32_t c[4], const uint32_t start[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                uint32_t b1)
{
    kd_mma8_k16_unsigned(c, start, a0, a1, b0);
    kd_mma8_k16_unsigned(c, c, a2, a3, b1);
}
KD_FN void kd_bytes8_load(uint32_t r[4], KD_SHARED const uint8_t *row)
{
    const uint32_t *at = kd_host_share((uint32_t)(row - kd_item.shared));
    for (uint32_t i = 0; i < 4; i++)
        memcpy(&r[i], kd_item.shared + at[8 * i + kd_lane() / 4] + kd_lane() % 4 * 4, 4);
}

#endif
#endif
