/* rt/amd/tier.h
 * A tier on an AMD card, by any winsys. The winsys's folder has the driver of the list in rt/tier.c: it says which
 * card there is and opens it, and what executes streams is the same for all.
 *
 *     struct tier_info info = { .device = "...", .mem_bytes = ... };        what probe says
 *     rc = my_winsys_open(&card, &w, e);
 *     return rc ? rc : amd_tier_open(w, &info, o, out, e); */
#ifndef ZINC_RT_AMD_TIER_H
#define ZINC_RT_AMD_TIER_H

#include "rt/amd/winsys.h"
#include "rt/tier.h"

/* Takes the winsys over, also when it fails. The tier has its name. -EIO: the card opened and then did not do what it
 * was told; a report lies in a folder that the message names. */
int amd_tier_open(struct amd_winsys *w, const struct tier_info *info, const struct tier_opts *o, struct tier **out,
                  struct err *e);

/* Are there kernels for this chip in the binary? -ENODEV: why not, in the name of the tier. chip NULL: it is not one of
 * ours; `gpu` is what the card is called. */
int amd_kernels_for(const struct amd_chip *chip, const char *gpu, const char *tier, struct err *e);
/* Of a chip that there are kernels for: what every AMD tier says of itself. */
void amd_tier_info(struct tier_info *info, const char *device, uint64_t vram_bytes, uint32_t firmware);

/* A card as a winsys lists it. */
struct amd_choice {
    const char *name;            /* for people             */
    const struct amd_chip *chip; /* NULL: not supported    */
    uint32_t n_cu;
};
/* Which of n cards: the one that the options name, or the best, one that zinc has kernels for, then the larger. -ENODEV
 * says which there are. */
int amd_pick(const char *tier, const struct amd_choice *c, int n, const struct tier_opts *o, struct err *e);
/* The message without "TIER: ", for tier_info.note. */
const char *amd_without_prefix(const struct err *e, const char *tier);

#endif
