/* rt/auto.h
 * --tier=auto: which tier runs when none is named. The first of the list that probes well and opens; but an AMD card can be
 * reached in several ways (umq, kfd, cs, vulkan), and which is the quickest depends on the kernel, its firmware and the card. So
 * they are tried at the first start: each that opens runs a small stream some times, and the order is kept in zinc's cache folder
 * until the card, the kernel, the firmware, zinc or the choice of ways changes.
 *
 *     rc = auto_open(o, &tier, e);
 *     auto_describe(text, sizeof text);        for zinc check: what was measured; "" when nothing was
 *
 * ZINC_AUTO=measure tries again; ZINC_AUTO=list takes the list's order without trying. */
#ifndef ZINC_RT_AUTO_H
#define ZINC_RT_AUTO_H

#include "rt/tier.h"

int auto_open(const struct tier_opts *o, struct tier **out, struct err *e);
void auto_describe(char *out, size_t n);

/* Is there such a device? Of tiers on the host's processor, where there is nothing to choose; -ENODEV says so. */
int tier_check_device(const struct tier_driver *d, const struct tier_opts *o, struct err *e);

/* trial.c: opens a tier and runs a step of a few dozen dependent commands again and again: microseconds of one. */
int auto_trial(const struct tier_driver *d, const struct tier_opts *o, double *us, struct err *e);
/* The stream that it runs, for tests; not thread-safe. */
const struct stream *auto_trial_stream(void);

#endif
