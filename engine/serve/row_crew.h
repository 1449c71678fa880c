/* engine/serve/row_crew.h
 * A few threads that do the same to each of many rows: choosing their tokens takes a tenth of a millisecond each, and a step has
 * up to 64. They sleep in between. */
#ifndef ZINC_SERVE_ROW_CREW_H
#define ZINC_SERVE_ROW_CREW_H

#include <stdint.h>

#include "base/err.h"

struct row_crew;

/* Of n threads, the caller of row_crew_run among them. -ENOMEM, or why a thread could not be started. */
int row_crew_create(uint32_t n, struct row_crew **out, struct err *e);
void row_crew_destroy(struct row_crew *c); /* NULL is fine */

/* fn(user, i) for each i below n, in any order and on any of the threads, and then returns. One caller at a time. */
void row_crew_run(struct row_crew *c, uint32_t n, void (*fn)(void *user, uint32_t i), void *user);

#endif
