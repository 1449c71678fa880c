/* rt/lockstep/run.h
 * Runs a kernel of kernels/ on the host: every work-item of a work-group is a fibre, and barriers and shuffles hand
 * over from one to the next, so that an ordinary build, a debugger and the sanitizers see what the kernel does.
 *
 *     const kl_add args = { ... };                            addresses are the host's
 *     lockstep_launch(k_add, &args, (uint32_t[3]){ n_rows, 1, 1 }, 256, 0, &e);
 *
 * Work-groups run one after the other on the calling thread, their items in a fixed order: a launch is deterministic.
 * What the launch can find wrong:
 *   -EDEADLK  items wait in different places and nobody can go on; the message says which lanes wait where
 *   -EFAULT   something was written behind the work-group's shared memory (with AddressSanitizer: reads too, at once)
 *   -EPROTO   a rule of the hardware was broken: barriers in shared memory, copies and products under way (rt/lockstep/hopper.h),
 *             clusters (rt/lockstep/cluster.h)
 *   -EINVAL   the launch itself: no threads, no groups, too much memory;  -ENOMEM: no memory for the fibres
 * Shared memory is filled with 0xff (NaN) for each work-group. */
#ifndef ZINC_RT_LOCKSTEP_RUN_H
#define ZINC_RT_LOCKSTEP_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { LOCKSTEP_MAX_THREADS = 1024, LOCKSTEP_MAX_SHARED = 256 << 10 };

/* threads: a multiple of 32. One launch at a time in a process; a second one waits. */
int lockstep_launch(void (*entry)(const void *), const void *args, const uint32_t grid[3], uint32_t threads,
                    uint32_t shared_bytes, struct err *e);

/* The same of clusters of so many work-groups along x, which exist side by side. */
int lockstep_launch_clusters(void (*entry)(const void *), const void *args, const uint32_t grid[3], uint32_t threads,
                             uint32_t shared_bytes, uint32_t cluster, struct err *e);

/* The thread that launched has left the launch by siglongjmp, out of a signal handler: its fibres are forgotten. */
void lockstep_abandon(void);

/* For tests: later launches run groups, warps and lanes in the opposite order. Results that change show a missing
 * barrier, or a dependence on the order of work-groups. */
void lockstep_reverse(bool on);

#endif
