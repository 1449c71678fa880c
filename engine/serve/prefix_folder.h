/* engine/serve/prefix_folder.h
 * The folder behind prefix_disk.h: names of files, which ones there are, reading and writing one, and giving up the oldest.
 * A name tells class, key, end and kind, so that a listing is an index. A file's time is that of its last use, a little
 * earlier for ends than for beginnings, since those are of no use without these.
 *
 * Known files may be asked for from any thread; all that touches the disk belongs to one. */
#ifndef ZINC_SERVE_PREFIX_FOLDER_H
#define ZINC_SERVE_PREFIX_FOLDER_H

#include "engine/serve/prefix_file.h"

struct prefix_folder;

/* As prefix_disk_create. Lists what is there. */
int prefix_folder_open(const char *dir, struct prefix_hash class, uint64_t max_bytes, struct prefix_folder **out,
                       struct err *e);
void prefix_folder_close(struct prefix_folder *f); /* NULL is fine */
const char *prefix_folder_path(const struct prefix_folder *f);

/* ---- what is known; any thread ---- */

/* A file of another size than it should have is told in a line and not known any more. */
bool prefix_folder_has(struct prefix_folder *f, const struct prefix_id *id);
uint32_t prefix_folder_next_end(struct prefix_folder *f, uint32_t pos);
void prefix_folder_count(struct prefix_folder *f, uint64_t *files, uint64_t *bytes, uint64_t *evictions, uint64_t *cut);

/* ---- the disk; one thread ---- */

/* Lists again if somebody has changed the folder since. */
void prefix_folder_refresh(struct prefix_folder *f);
/* A file as prefix_file_seal left it. Older ones go if need be. Fails as system calls do; nothing is left then. */
int prefix_folder_put(struct prefix_folder *f, const struct prefix_id *id, const void *file, struct err *e);
/* Into file [prefix_file_bytes(id)]. A file that is not believed (-EINVAL), or is not there (-ENOENT: another server has
 * removed it), is not known any more. */
int prefix_folder_get(struct prefix_folder *f, const struct prefix_id *id, const int32_t *tok, void *file,
                      struct err *e);

#endif
