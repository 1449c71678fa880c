#include "rt/amd/chip.h"

#include <stddef.h>

const struct amd_chip amd_chips[] = {
#define CHIP(name, version, gen, mach, target, target_mach, vgpr_bytes, linux_, apu, priv, product)                    \
    { #name, version, gen, mach, target, target_mach, vgpr_bytes, linux_, apu, priv, product },
#include "rt/amd/chips.def"
#undef CHIP
    { 0 },
};

const struct amd_chip *amd_chip_of(uint32_t gfx_target_version)
{
    for (const struct amd_chip *c = amd_chips; c->name; c++)
        if (c->version == gfx_target_version)
            return c;
    return NULL;
}

const char *amd_chip_names(void)
{
    static const char names[] =
#define CHIP(name, ...) ", " #name
#include "rt/amd/chips.def"
#undef CHIP
        ;
    return names + 2;
}
