/* rt/amd/chip.h: the chips that zinc has kernels for (chips.def). */
#ifndef ZINC_RT_AMD_CHIP_H
#define ZINC_RT_AMD_CHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "rt/pm4/pm4.h"

struct amd_chip {
    const char *name;         /* "gfx1201"                                              */
    uint32_t version;         /* gfx_target_version                                     */
    enum pm4_gen gen;
    uint32_t elf_mach;
    const char *target;       /* of its code objects, which several chips run           */
    uint32_t target_mach;
    uint32_t save_vgpr_bytes; /* vector registers of a CU in the context save area      */
    const char *first_linux;
    bool apu;                 /* its memory is the host's                               */
    bool priv;                /* where waves are saved, kernels run with RSRC1.PRIV      */
    const char *product;
};
extern const struct amd_chip amd_chips[]; /* ends with name NULL */
const struct amd_chip *amd_chip_of(uint32_t gfx_target_version); /* NULL: zinc has no kernels for it */
const char *amd_chip_names(void); /* "gfx1100, gfx1101, ...", for messages */

#endif
