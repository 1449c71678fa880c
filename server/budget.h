/* server/budget.h
 * One limit for all the memory that clients make the server hold: bodies being read, parsed requests and their prompts,
 * answers that were made and not yet sent, compiled grammars. Whoever is about to allocate for a client takes the bytes
 * first and gives them back afterwards:
 *
 *     switch (budget_take(b, n)) {
 *     case 0: ...; budget_give(b, n); break;
 *     case -EBUSY: it would fit later: 429          case -E2BIG: it never will: 413
 *     }
 *
 * Not in it: weights and caches of the model (--ctx, --slots, --cache-mib), and what a thread needs for a moment while
 * it works. A NULL budget has no limit and counts nothing. All functions may be called from any thread. */
#ifndef ZINC_SERVER_BUDGET_H
#define ZINC_SERVER_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct budget;

struct budget *budget_create(uint64_t limit); /* bytes; NULL: out of memory */
void budget_destroy(struct budget *b);        /* NULL is fine               */

int budget_take(struct budget *b, uint64_t n);
void budget_give(struct budget *b, uint64_t n);

/* While something does not fit, relieve(user, n) is asked to give back n bytes of what can be made again; one thread at
 * a time, from within budget_take, where it may give but not take. NULL: nobody; when this returned no call is running. */
void budget_on_pressure(struct budget *b, void (*relieve)(void *user, uint64_t n), void *user);

/* Of what is taken, so many bytes more (or less) are of what can be made again: for who looks at the figures. */
void budget_spare(struct budget *b, int64_t n);

struct budget_stats {
    uint64_t used, limit, peak; /* bytes                            */
    uint64_t spare;             /* of `used`: what can be made again */
    uint64_t refused;           /* times that something did not fit */
};
struct budget_stats budget_stats(const struct budget *b);

/* What a JSON text of n bytes holds at most when Jansson has parsed it, and its strings are copied once. */
uint64_t budget_of_json(const char *text, size_t n);

#endif
