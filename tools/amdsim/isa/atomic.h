/* tools/amdsim/isa/atomic.h: private to tools/amdsim/isa/: what read-modify-write operations make of a value. */
#ifndef AMDSIM_ISA_ATOMIC_H
#define AMDSIM_ISA_ATOMIC_H

#include <stdint.h>

enum atomic_kind {
    A_SWAP, A_CMPSWAP, A_CMPSWAP_F, A_ADD, A_SUB, A_RSUB, A_SUB_CLAMP, A_COND_SUB, A_MIN_I, A_MIN_U, A_MAX_I, A_MAX_U,
    A_AND, A_OR, A_XOR, A_INC, A_DEC, A_MASK_OR, A_WRAP, A_ADD_F, A_MIN_F, A_MAX_F, A_PK_ADD_F16, A_PK_ADD_BF16
};

/* The new value in memory. bytes: 4 or 8. data1: the value compared with, the bits of A_MASK_OR. */
uint64_t atomic_result(enum atomic_kind k, uint32_t bytes, uint64_t old, uint64_t data, uint64_t data1);

#endif
