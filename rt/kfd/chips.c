#include "rt/kfd/kfd.h"

#include <stddef.h>

const struct kfd_chip kfd_chips[] = {
#define CHIP(name, version, gen, mach, vgpr_bytes, linux_, apu, product)                                               \
    { #name, version, gen, mach, vgpr_bytes, linux_, apu, product },
#include "rt/kfd/chips.def"
#undef CHIP
    { 0 },
};

const struct kfd_chip *kfd_chip_of(uint32_t gfx_target_version)
{
    for (const struct kfd_chip *c = kfd_chips; c->name; c++)
        if (c->version == gfx_target_version)
            return c;
    return NULL;
}
