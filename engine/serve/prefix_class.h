/* engine/serve/prefix_class.h: whose bytes a file of prefixes holds. */
#ifndef ZINC_SERVE_PREFIX_CLASS_H
#define ZINC_SERVE_PREFIX_CLASS_H

#include "engine/engine.h"
#include "engine/serve/prefix_file.h"

/* Engines with the same class compute the same bits for the same tokens and keep them in the same order: the same model
 * (sizes and times of its files, their heads, the ends of every tensor), tier, device, type of the cache, plan, context,
 * where arithmetic depends on it the size of steps, and the same build of zinc. generated: what was generated is kept too. */
struct prefix_hash prefix_class(const struct engine *eng, bool generated);

#endif
