/* rt/drivers.h: the tiers' entries of tier_drivers[]; one line each. */
#ifndef ZINC_RT_DRIVERS_H
#define ZINC_RT_DRIVERS_H

#include "rt/tier.h"

extern const struct tier_driver tier_driver_cpu;  /* oracle/tier.c */
extern const struct tier_driver tier_driver_null; /* rt/null.c     */

#endif
