/* base/cache.h: files that cost time when they are lost, and nothing else: in $XDG_CACHE_HOME/zinc, else ~/.cache/zinc.
 *
 *     char path[CACHE_PATH];
 *     if (cache_path(NULL, "tiers", path)) ... fopen(path) ...; cache_write(path, NULL, 0, text, n) */
#ifndef ZINC_BASE_CACHE_H
#define ZINC_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

enum { CACHE_PATH = 480 };

/* folder: another than zinc's, "none" for no cache; NULL: zinc's. False: there is none. */
bool cache_path(const char *folder, const char *name, char path[CACHE_PATH]);
/* Whole or not at all: written beside the old file, then renamed over it; folders are made. False: errno says why. */
bool cache_write(const char *path, const void *head, size_t n_head, const void *data, size_t n);

#endif
