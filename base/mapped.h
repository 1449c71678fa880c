/* base/mapped.h
 * Files that are mapped, by name: a program is told which of them became shorter while it was read, and says so in a line, where
 * it would end by SIGBUS without a word otherwise.
 *
 *     mapped_add(map, bytes, path); ... mapped_remove(map);      whoever maps
 *     mapped_tell("zinc");                                       a program's main; a library leaves signals alone */
#ifndef ZINC_BASE_MAPPED_H
#define ZINC_BASE_MAPPED_H

#include <stdint.h>

/* path must live until it is removed. Of more than 64 mappings the later ones are not known. Any thread. */
void mapped_add(const void *map, uint64_t bytes, const char *path);
void mapped_remove(const void *map);

/* From now on: "PROGRAM: PATH: became shorter while it was read ..." on stderr and exit status 1. */
void mapped_tell(const char *program);

#endif
