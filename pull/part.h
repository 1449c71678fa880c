/* pull/part.h: a file that is still being pulled: FILE.part with the bytes, FILE.part.json with how far it is.
 *
 * The file is cut into pieces of equal size, the last one shorter, each of which fills from its beginning. What the state
 * says is on the disk before the state is: a pull that was killed goes on with what it had. Whoever has FILE.part open for
 * writing holds a lock on it (flock), so two pulls of one file do not write it both. */
#ifndef ZINC_PULL_PART_H
#define ZINC_PULL_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/flag.h"
#include "pull/http.h"
#include "pull/sha256.h"

enum { PART_MIN_PIECE = 1 << 20, PART_MAX_PIECE = 64 << 20, PART_MAX_PIECES = 262144 };

/* How far it is. `done` is malloc'ed. */
struct part_state {
    uint64_t size;  /* of the whole file, bytes, at least 1 */
    uint64_t piece; /* bytes of each piece but the last     */
    uint32_t n;     /* pieces                               */
    uint64_t *done; /* bytes of each that are there         */
    char etag[HTTP_ETAG], sha256[SHA256_TEXT]; /* of what it is a part of; "": not known */
};

/* A fresh one, with nothing done. 0, -EFBIG (more pieces than there may be) or -ENOMEM. */
int part_state_begin(struct part_state *s, uint64_t size, const char *etag, const char *sha256);
/* Reads what part_state_write wrote, s[0..n). 0, -EINVAL (it is none: to be ignored) or -ENOMEM. */
int part_state_read(const char *text, size_t n, struct part_state *s);
char *part_state_write(const struct part_state *s); /* malloc'ed JSON; NULL: out of memory */
void part_state_clear(struct part_state *s);
uint64_t part_state_bytes(const struct part_state *s, uint32_t i); /* of piece i   */
uint64_t part_state_done(const struct part_state *s);              /* bytes in all */
uint64_t part_state_front(const struct part_state *s);             /* bytes without a hole from the beginning */

struct part {
    int fd;
    char *path, *state_path, *dest;
    struct part_state s;
};

/* Opens FILE.part and takes its lock; where another pull has it, `wait` is called once (it may be NULL) and the lock waited
 * for, until cancel is set. *there: the file is there by now, and nothing was opened. */
int part_open(struct part *p, const char *dest, void (*wait)(void *user), void *user, const struct flag *cancel,
              bool *there, struct err *e);
/* What was there before is gone on with if it is a part of the same: as long, and with the same sum or, where none is
 * known, entity tag; else it begins anew. Room for all of it is taken at once. */
int part_begin(struct part *p, uint64_t size, const char *etag, const char *sha256, bool ranges, struct err *e);
/* Nothing of it is of use: what is done is none. */
int part_restart(struct part *p, struct err *e);
int part_save(struct part *p, struct err *e);
/* Written to disk and given its name; the state goes. */
int part_finish(struct part *p, struct err *e);
void part_drop(struct part *p);       /* removes it; to be closed after */
void part_drop_empty(struct part *p); /* ... where nothing is in it     */
void part_close(struct part *p);

#endif
