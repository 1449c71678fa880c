/* engine/serve/prefix_disk.h
 * A folder of files of prefixes (prefix_file.h), for servers that come later and others beside this one. One thread of
 * its own reads and writes them, so that nobody waits for a disk: what is to be written is queued up to a limit of bytes,
 * what is to be read is asked for and taken when it has come. What files there are is known without looking at the disk.
 *
 * Files appear whole, by renaming, and only as long as they are below the limit together: those not used for the longest
 * time go, of whatever model. When the disk is full or fails, nothing is written for a while; a line says so.
 *
 *     if (!prefix_disk_has(d, &id)) {
 *         struct prefix_image *m = prefix_disk_image(d, &id);          NULL: too much is being written
 *         ... fill m->data[id.n_data]; prefix_disk_write(d, m, tok);
 *     }
 *     struct prefix_read *r = prefix_disk_read(d, &id, tok);
 *     ... opts.wake is called; prefix_read_state(r) == PREFIX_READ_DONE: prefix_read_data(r)
 *     prefix_disk_drop(d, r);
 *
 * All functions but create and destroy may be called from any thread. */
#ifndef ZINC_SERVE_PREFIX_DISK_H
#define ZINC_SERVE_PREFIX_DISK_H

#include "engine/serve/prefix_file.h"

struct prefix_disk;

struct prefix_disk_opts {
    const char *dir;         /* made, for its user alone, if it is not there; its parent must be              */
    uint64_t max_bytes;      /* of all files in it together                                                   */
    uint64_t queue_bytes;    /* that wait to be written; 0: 64 MiB                                            */
    struct prefix_hash class; /* what this user's files are told by                                           */
    void (*wake)(void *user); /* a read came, or there is room to write again; on the disk's thread; may be NULL */
    void *user;
};

struct prefix_disk_stats {
    uint64_t files, bytes;             /* of this class, as they are known; of all classes                    */
    uint64_t reads, bad, writes, failed, dropped, evictions; /* bad: files that were not believed; dropped: no room */
};

/* -ENOENT, -EACCES and the like: the folder. -ENOMEM. */
int prefix_disk_create(const struct prefix_disk_opts *o, struct prefix_disk **out, struct err *e);
/* Writes what is queued. Reads must have been dropped. NULL is fine. */
void prefix_disk_destroy(struct prefix_disk *d);

struct prefix_disk_stats prefix_disk_stats(struct prefix_disk *d);
struct prefix_hash prefix_disk_class(const struct prefix_disk *d);

/* Is there such a file, or is it about to be written? */
bool prefix_disk_has(struct prefix_disk *d, const struct prefix_id *id);
/* The smallest position above `pos` where any beginning has an end of kind PREFIX_END; UINT32_MAX: none. */
uint32_t prefix_disk_next_end(struct prefix_disk *d, uint32_t pos);
/* Other servers may have written: looks into the folder, soon. */
void prefix_disk_refresh(struct prefix_disk *d);

/* ---- writing ---- */

struct prefix_image {
    struct prefix_image *next;
    struct prefix_id id;
    uint8_t *data;           /* [id.n_data], to be filled                                                     */
    uint8_t *file;           /* [n_file]                                                                      */
    uint64_t n_file;
};

/* NULL: too much is being written, it can never fit, or there is no memory. */
struct prefix_image *prefix_disk_image(struct prefix_disk *d, const struct prefix_id *id);
/* Takes the image. tok [id.to] is copied. */
void prefix_disk_write(struct prefix_disk *d, struct prefix_image *m, const int32_t *tok);
void prefix_disk_discard(struct prefix_disk *d, struct prefix_image *m);
/* Waits until something was written, so that there may be room. False: nothing is being written, or writing fails. */
bool prefix_disk_wait(struct prefix_disk *d);

/* ---- reading ---- */

enum prefix_read_state { PREFIX_READ_WAITS, PREFIX_READ_DONE, PREFIX_READ_FAILED };
struct prefix_read;

/* tok [id->to] is copied. NULL: no memory. A file that is not believed is told in a line and not known any more. */
struct prefix_read *prefix_disk_read(struct prefix_disk *d, const struct prefix_id *id, const int32_t *tok);
enum prefix_read_state prefix_read_state(const struct prefix_read *r);
const void *prefix_read_data(const struct prefix_read *r); /* [n_data]; lives until the read is dropped      */
void prefix_disk_drop(struct prefix_disk *d, struct prefix_read *r); /* NULL is fine                          */

#endif
