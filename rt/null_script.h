/* rt/null_script.h
 * Answers that the null tier gives by heart, so that a client's whole session with a model is known beforehand. A file with
 * an answer in each line, as token ids:
 *
 *     # what follows a '#' is for people
 *     11 12 13 : 501 502 2        where the sequence has 11 12 13 in it: 501 502 2
 *     501 502 503 2               in any other
 *
 * The first line that holds is taken when a sequence is to be continued by what it did not end with itself; its last id,
 * which ends an answer in most vocabularies, is repeated. `zinc tokenize` makes ids of texts. What a sequence has in it is
 * what was evaluated in its slot: one slot without copies from elsewhere (zinc serve --slots 1 --cache-mib 0). */
#ifndef ZINC_RT_NULL_SCRIPT_H
#define ZINC_RT_NULL_SCRIPT_H

#include <stdint.h>

#include "base/err.h"

struct null_script;

/* -ENOENT and the like, -EINVAL: no ids, or no line; -ENOMEM. */
int null_script_open(const char *path, struct null_script **out, struct err *e);
void null_script_close(struct null_script *s); /* NULL is fine */
uint32_t null_script_max_id(const struct null_script *s);
/* The token at this place of the slot is evaluated. 0 or -ENOMEM. */
int null_script_see(struct null_script *s, uint32_t slot, uint32_t pos, uint32_t token);
/* What follows the token at this place, which was seen. No line holds: its own successor by id, 0 behind the last. */
uint32_t null_script_next(struct null_script *s, uint32_t slot, uint32_t pos);

#endif
