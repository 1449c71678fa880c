/* rt/lockstep/cluster.h
 * Work-groups of a cluster on the host (kernels/hw/cluster.h): their barrier, and stores into each other's shared memory, which are
 * seen at once or when the barrier's phase is complete, as drawn. Reported: a store before all have arrived for the first time, or
 * to a work-group that has ended, or ends with it under way; arriving twice, or waiting without having arrived. Items that have
 * returned are not awaited.
 * Source: the PTX ISA manual, "barrier.cluster"; CUDA C++ Programming Guide, "Distributed Shared Memory". */
#ifndef ZINC_RT_LOCKSTEP_CLUSTER_H
#define ZINC_RT_LOCKSTEP_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

enum { CLUSTER_MAX = 8 };

struct cluster;

struct cluster *cluster_create(void); /* NULL: no memory */
void cluster_destroy(struct cluster *c);

/* n work-groups, each of so many threads, whose shared memory lies there. */
void cluster_begin(struct cluster *c, uint32_t n, uint32_t threads, uint32_t bytes, uint8_t *const *shared, uint64_t seed);
void cluster_item_returned(struct cluster *c);
bool cluster_group_ended(struct cluster *c, uint32_t rank); /* false: stores of others to it were under way */
uint64_t cluster_arrivals(const struct cluster *c); /* a number that grows with each; c may be NULL */

#endif
