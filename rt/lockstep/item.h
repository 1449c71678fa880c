/* rt/lockstep/item.h
 * What the parts of the lock-step runner share: how the running work-item waits for what others bring about, and how it reports
 * that a rule was broken. */
#ifndef ZINC_RT_LOCKSTEP_ITEM_H
#define ZINC_RT_LOCKSTEP_ITEM_H

#include <stdbool.h>
#include <stdint.h>

/* Beside the rendezvous of the dialect. Late: until nobody else can go on. */
enum item_wait { WAIT_BAR, WAIT_REGISTERS, WAIT_CLUSTER, WAIT_LATE, ITEM_WAITS };

/* Until over(arg) is true, which is asked when nobody can go on. `over` changes nothing. */
void item_wait(enum item_wait kind, bool (*over)(const void *arg), const void *arg);

/* Ends the launch. The work-group, the warp and the lane stand before the message. */
__attribute__((noreturn, format(printf, 1, 2))) void item_fault(const char *fmt, ...);

/* Those who wait at a barrier that is complete go on now, before the running item does. */
void item_let_waiters(void);

/* The models of the running item's work-group. */
struct hopper *item_hopper(void);
struct copies *item_copies(void);
/* Its cluster and its number there; NULL: it was launched without. */
struct cluster *item_cluster(uint32_t *rank);

#endif
