/* rt/lockstep/hopper.h
 * Hopper's asynchronous machinery as kernels/hw/wgmma.h offers it, of one work-group on the host: barriers in shared memory, bulk
 * copies, products of warpgroups, and registers that change hands. What hardware leaves open is drawn, from
 * a seed that follows from the work-group: a copy, or a product's reading of shared memory, happens at once or as late as it can,
 * when nobody could go on without it. So a wait that is missing, or memory that is given back too early, gives wrong results.
 *
 * Broken rules are reported: a barrier that was not initialised, is initialised twice, or was written over; an arrival too many;
 * more bytes than were announced; a waiter that sleeps through a whole phase; descriptors, sizes and addresses that the hardware
 * does not take; warps of a warpgroup that do not multiply the same; registers that are not there; and an end with any of it under
 * way.
 *
 * Not modelled: fences between ordinary stores and the asynchronous copies and products, and rounding inside the tensor cores:
 * products are added in f32 along k in ascending order.
 *
 * Sources: the PTX ISA manual ("mbarrier", "cp.async.bulk", "wgmma", "setmaxnreg", the matrix descriptor), and
 * CUTLASS: include/cute/atom/mma_traits_sm90_gmma.hpp for canonical layouts and the accumulators' layout,
 * include/cute/arch/mma_sm90_desc.hpp for the descriptor. */
#ifndef ZINC_RT_LOCKSTEP_HOPPER_H
#define ZINC_RT_LOCKSTEP_HOPPER_H

#include <stdbool.h>
#include <stdint.h>

struct hopper;

struct hopper *hopper_create(void); /* NULL: no memory */
void hopper_destroy(struct hopper *h);

struct hopper_group {
    uint8_t *shared;
    uint32_t bytes, threads;
    uint64_t seed;
};
void hopper_begin(struct hopper *h, const struct hopper_group *g);

/* One thing further of what is under way: nothing was left, something happened, or waiters of WAIT_LATE are to go on now. late:
 * there are such. */
enum hopper_step { HOPPER_NOTHING, HOPPER_HAPPENED, HOPPER_LATE };
enum hopper_step hopper_step(struct hopper *h, bool late);
/* A rule that was broken where no item runs; NULL: none. */
const char *hopper_fault(const struct hopper *h);
/* What is wrong with an end here and now; NULL: nothing. */
const char *hopper_end(struct hopper *h);

#endif
