/* oracle/isa.h: the instruction sets of this CPU that the operating system also keeps the registers of. */
#ifndef ZINC_ORACLE_ISA_H
#define ZINC_ORACLE_ISA_H

#include <stdbool.h>

struct isa {
    bool avx2;   /* with FMA and F16C                             */
    bool avxvnni; /* AVX-VNNI beside these                        */
    bool avx512; /* F, BW, DQ, VL and VNNI                        */
    bool dotprod; /* ARM's SDOT on signed bytes; NEON itself is part of any ARM of 64 bits */
    bool vbmi;   /* AVX-512 VBMI and GFNI beside these            */
    bool amx;    /* tiles, INT8 and BF16; this process may use it */
};

/* Asks the CPU on the first call, and Linux for permission to use AMX: threads started later inherit it. */
const struct isa *isa_get(void);

#endif
