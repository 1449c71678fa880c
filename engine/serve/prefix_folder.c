#include "engine/serve/prefix_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/log.h"

enum { NAME = 112, FIRST_LOG2 = 8, STALE_S = 3600 };

/* A file of this class. */
struct entry {
    struct prefix_hash key;
    uint64_t bytes;
    uint32_t to;
    uint8_t kind, state; /* EMPTY, THERE, GONE */
};
enum { EMPTY, THERE, GONE };

struct index {
    struct entry *slot;      /* open addressing, linear                     */
    uint32_t log2, n, taken; /* n: there; taken: not empty                  */
    uint32_t *end;           /* [n_end] ascending: positions of PREFIX_END  */
    uint32_t n_end, cap_end;
};

struct prefix_folder {
    int fd;
    char *path;
    struct prefix_hash class;
    uint64_t max_bytes, n_temporary;
    struct timespec changed; /* of the folder, when it was listed           */
    pthread_mutex_t lock;    /* of all below                                */
    struct index known;
    uint64_t bytes, evictions, n_cut;
};

/* ---- names ---- */

static void name_of(const struct prefix_folder *f, const struct prefix_id *id, char name[NAME])
{
    snprintf(name, NAME, "%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 "-%" PRIu32 ".%s", f->class.hi, f->class.lo,
             id->key.hi, id->key.lo, id->to, id->kind == PREFIX_END ? "end" : "block");
}

/* A name as name_of makes it, of any class. */
static bool read_name(const char *name, struct prefix_hash *class, struct entry *en)
{
    char kind[8];
    int n = 0;
    *en = (struct entry){ .state = THERE };
    if (sscanf(name, "%16" SCNx64 "%16" SCNx64 "-%16" SCNx64 "%16" SCNx64 "-%" SCNu32 ".%5[a-z]%n", &class->hi, &class->lo,
               &en->key.hi, &en->key.lo, &en->to, kind, &n) != 6 || name[n])
        return false;
    en->kind = strcmp(kind, "end") == 0 ? PREFIX_END : PREFIX_BLOCK;
    return strcmp(kind, "end") == 0 || strcmp(kind, "block") == 0;
}

static bool is_temporary(const char *name)
{
    return strncmp(name, "zinc-new-", 9) == 0;
}

/* ---- the index ---- */

static uint32_t place(const struct index *x, const struct entry *en)
{
    uint64_t h = (en->key.lo ^ en->to ^ (uint64_t)en->kind << 40) * 0x9e3779b97f4a7c15u;
    uint32_t mask = (1u << x->log2) - 1, i = (uint32_t)(h >> 32) & mask;
    while (x->slot[i].state != EMPTY && (x->slot[i].to != en->to || x->slot[i].kind != en->kind ||
                                         !prefix_hash_equal(x->slot[i].key, en->key)))
        i = (i + 1) & mask;
    return i;
}

static int index_init(struct index *x, uint32_t log2)
{
    *x = (struct index){ .log2 = log2, .slot = calloc(1ul << log2, sizeof *x->slot) };
    return x->slot ? 0 : -ENOMEM;
}

static void index_finish(struct index *x)
{
    free(x->slot);
    free(x->end);
    *x = (struct index){ 0 };
}

/* The first end at or above `pos`. */
static uint32_t end_at(const struct index *x, uint32_t pos)
{
    uint32_t lo = 0, hi = x->n_end;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (x->end[mid] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool add_end(struct index *x, uint32_t pos)
{
    uint32_t at = end_at(x, pos);
    if (at < x->n_end && x->end[at] == pos)
        return true;
    if (x->n_end == x->cap_end) {
        uint32_t cap = MAX(2 * x->cap_end, 64u), *more = realloc(x->end, cap * sizeof *more);
        if (!more)
            return false;
        x->end = more;
        x->cap_end = cap;
    }
    memmove(x->end + at + 1, x->end + at, (x->n_end - at) * sizeof *x->end);
    x->end[at] = pos;
    x->n_end++;
    return true;
}

static bool index_add(struct index *x, const struct entry *en);

static bool grow(struct index *x)
{
    struct index y;
    if (index_init(&y, x->log2 + (4 * x->n >= 1u << x->log2)))
        return false;
    for (uint32_t i = 0; i < 1u << x->log2; i++)
        if (x->slot[i].state == THERE && !index_add(&y, &x->slot[i])) {
            index_finish(&y);
            return false;
        }
    index_finish(x);
    *x = y;
    return true;
}

/* Without memory a file is not known, which is a miss. */
static bool index_add(struct index *x, const struct entry *en)
{
    if (2 * (x->taken + 1) > 1u << x->log2 && !grow(x))
        return false;
    if (en->kind == PREFIX_END && !add_end(x, en->to))
        return false;
    struct entry *at = &x->slot[place(x, en)];
    x->taken += at->state == EMPTY;
    x->n += at->state != THERE;
    *at = *en;
    at->state = THERE;
    return true;
}

static void index_remove(struct index *x, const struct entry *en)
{
    struct entry *at = &x->slot[place(x, en)];
    if (at->state != THERE)
        return;
    at->state = GONE;
    x->n--;
}

static struct entry entry_of(const struct prefix_id *id)
{
    return (struct entry){ .key = id->key, .bytes = prefix_file_bytes(id), .to = id->to, .kind = (uint8_t)id->kind,
                           .state = THERE };
}

bool prefix_folder_has(struct prefix_folder *f, const struct prefix_id *id)
{
    struct entry en = entry_of(id);
    char name[NAME];
    pthread_mutex_lock(&f->lock);
    const struct entry at = f->known.slot[place(&f->known, &en)];
    bool there = at.state == THERE, cut = there && at.bytes != en.bytes;
    if (cut) {
        index_remove(&f->known, &en);
        f->n_cut++;
    }
    pthread_mutex_unlock(&f->lock);
    if (cut) {
        name_of(f, id, name);
        log_warn(ENGINE, "a prefix on disk is not used: %s/%s: a file of %llu bytes, expected %llu", f->path, name,
                 (unsigned long long)at.bytes, (unsigned long long)en.bytes);
    }
    return there && !cut;
}

uint32_t prefix_folder_next_end(struct prefix_folder *f, uint32_t pos)
{
    pthread_mutex_lock(&f->lock);
    uint32_t at = end_at(&f->known, pos + 1), end = at < f->known.n_end ? f->known.end[at] : UINT32_MAX;
    pthread_mutex_unlock(&f->lock);
    return end;
}

void prefix_folder_count(struct prefix_folder *f, uint64_t *files, uint64_t *bytes, uint64_t *evictions, uint64_t *cut)
{
    pthread_mutex_lock(&f->lock);
    *files = f->known.n;
    *bytes = f->bytes;
    *evictions = f->evictions;
    *cut = f->n_cut;
    pthread_mutex_unlock(&f->lock);
}

static void forget(struct prefix_folder *f, const struct prefix_id *id)
{
    struct entry en = entry_of(id);
    pthread_mutex_lock(&f->lock);
    index_remove(&f->known, &en);
    pthread_mutex_unlock(&f->lock);
}

/* ---- listing, and giving up the oldest ---- */

struct listed {
    char name[NAME];
    struct timespec used;
    uint64_t bytes;
};

static int by_use(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return (x->used.tv_sec > y->used.tv_sec) - (x->used.tv_sec < y->used.tv_sec);
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* All files of prefixes, of whatever class. What was left half-written long ago goes. */
static struct listed *list(struct prefix_folder *f, size_t *n)
{
    struct listed *l = NULL;
    size_t cap = 0;
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    *n = 0;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    for (struct dirent *de; (de = readdir(d));) {
        struct prefix_hash class;
        struct entry en;
        struct stat st;
        bool temporary = is_temporary(de->d_name);
        if ((!temporary && !read_name(de->d_name, &class, &en)) ||
            fstatat(f->fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (temporary) {
            if (st.st_mtim.tv_sec + STALE_S < time(NULL))
                unlinkat(f->fd, de->d_name, 0);
            continue;
        }
        if (*n == cap) {
            size_t more = MAX(2 * cap, 64ul);
            struct listed *x = realloc(l, more * sizeof *x);
            if (!x)
                break; /* what is not known is a miss */
            l = x;
            cap = more;
        }
        snprintf(l[*n].name, NAME, "%.*s", NAME - 1, de->d_name);
        l[*n].used = st.st_mtim;
        l[(*n)++].bytes = (uint64_t)st.st_size;
    }
    closedir(d);
    return l;
}

/* What the folder holds is known afterwards, and is no more than `most` bytes. */
static void look_into(struct prefix_folder *f, uint64_t most)
{
    size_t n;
    struct stat st;
    struct index x;
    if (fstat(f->fd, &st) || index_init(&x, FIRST_LOG2))
        return;
    struct listed *l = list(f, &n);
    uint64_t bytes = 0, evicted = 0;
    for (size_t i = 0; i < n; i++)
        bytes += l[i].bytes;
    if (n && bytes > most)
        qsort(l, n, sizeof *l, by_use);
    for (size_t i = 0; i < n; i++) {
        struct prefix_hash class;
        struct entry en;
        if (bytes > most && (unlinkat(f->fd, l[i].name, 0) == 0 || errno == ENOENT)) {
            bytes -= l[i].bytes;
            evicted++;
        } else if (read_name(l[i].name, &class, &en) && prefix_hash_equal(class, f->class)) {
            en.bytes = l[i].bytes;
            index_add(&x, &en);
        }
    }
    free(l);
    f->changed = st.st_mtim;
    pthread_mutex_lock(&f->lock);
    index_finish(&f->known);
    f->known = x;
    f->bytes = bytes;
    f->evictions += evicted;
    pthread_mutex_unlock(&f->lock);
}

void prefix_folder_refresh(struct prefix_folder *f)
{
    struct stat st;
    if (fstat(f->fd, &st) == 0 &&
        (st.st_mtim.tv_sec != f->changed.tv_sec || st.st_mtim.tv_nsec != f->changed.tv_nsec))
        look_into(f, f->max_bytes);
}

/* ---- one file ---- */

/* Used now; see the header. Failing does no harm. */
static void set_used(int fd, const struct prefix_id *id)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - id->to * 1000ull;
    struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
    futimens(fd, (struct timespec[2]){ t, t });
}

static int write_all(int fd, const uint8_t *p, uint64_t n)
{
    while (n) {
        ssize_t k = write(fd, p, MIN(n, 1ul << 30));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? -errno : -EIO;
        p += k;
        n -= (uint64_t)k;
    }
    return 0;
}

int prefix_folder_put(struct prefix_folder *f, const struct prefix_id *id, const void *file, struct err *e)
{
    char name[NAME], tmp[NAME];
    uint64_t n = prefix_file_bytes(id);
    name_of(f, id, name);
    CHECK(n <= f->max_bytes);
    pthread_mutex_lock(&f->lock);
    bool full = f->bytes > f->max_bytes - n;
    pthread_mutex_unlock(&f->lock);
    if (full) /* a sixteenth more, so that not each file lists the folder */
        look_into(f, f->max_bytes - n - MIN(f->max_bytes / 16, f->max_bytes - n));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(tmp, sizeof tmp, "zinc-new-%d-%lld%09ld-%" PRIu64, (int)getpid(), (long long)now.tv_sec, now.tv_nsec,
             f->n_temporary++);
    int fd = openat(f->fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(e, -errno, "%s: cannot make a file: %s", f->path, strerror(errno));
    int rc = write_all(fd, file, n);
    if (!rc)
        set_used(fd, id);
    if (close(fd) && !rc)
        rc = -errno;
    if (!rc && renameat(f->fd, tmp, f->fd, name))
        rc = -errno;
    if (rc) {
        unlinkat(f->fd, tmp, 0);
        return err_set(e, rc, "%s: cannot write %" PRIu64 " bytes: %s", f->path, n, strerror(-rc));
    }
    struct entry en = entry_of(id);
    pthread_mutex_lock(&f->lock);
    f->bytes += n;
    index_add(&f->known, &en);
    pthread_mutex_unlock(&f->lock);
    return 0;
}

static int read_all(int fd, uint8_t *p, uint64_t n)
{
    while (n) {
        ssize_t k = read(fd, p, MIN(n, 1ul << 30));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? -errno : -EIO;
        p += k;
        n -= (uint64_t)k;
    }
    return 0;
}

int prefix_folder_get(struct prefix_folder *f, const struct prefix_id *id, const int32_t *tok, void *file,
                      struct err *e)
{
    char name[NAME];
    struct stat st;
    uint64_t n = prefix_file_bytes(id);
    name_of(f, id, name);
    int rc = 0, fd = openat(f->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st))
        rc = err_set(e, -errno, "%s/%s: %s", f->path, name, strerror(errno));
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != n)
        rc = err_set(e, -EINVAL, "%s/%s: %s of %llu bytes, expected a file of %llu", f->path, name,
                     S_ISREG(st.st_mode) ? "a file" : "something else", (unsigned long long)st.st_size,
                     (unsigned long long)n);
    else if ((rc = read_all(fd, file, n)))
        err_set(e, rc, "%s/%s: cannot be read: %s", f->path, name, strerror(-rc));
    else if ((rc = prefix_file_check(file, n, id, tok, e)))
        err_context(e, "%s/%s", f->path, name);
    if (rc)
        forget(f, id);
    else
        set_used(fd, id);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- life ---- */

int prefix_folder_open(const char *dir, struct prefix_hash class, uint64_t max_bytes, struct prefix_folder **out,
                       struct err *e)
{
    struct prefix_folder *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(dir)) || index_init(&f->known, FIRST_LOG2)) {
        if (f)
            free(f->path);
        free(f);
        return err_set(e, -ENOMEM, "%s: out of memory", dir);
    }
    pthread_mutex_init(&f->lock, NULL);
    f->class = class;
    f->max_bytes = max_bytes;
    int rc = 0;
    if (mkdir(dir, 0700) && errno != EEXIST)
        rc = err_set(e, -errno, "%s: cannot make this folder for prefixes: %s", dir, strerror(errno));
    else if ((f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        rc = err_set(e, -errno, "%s: expected a folder for prefixes: %s", dir, strerror(errno));
    else if (faccessat(f->fd, ".", R_OK | W_OK | X_OK, AT_EACCESS)) {
        rc = err_set(e, -errno, "%s: this folder for prefixes has to be readable and writable: %s", dir, strerror(errno));
        close(f->fd);
    }
    if (rc) {
        f->fd = -1;
        prefix_folder_close(f);
        return rc;
    }
    look_into(f, max_bytes);
    *out = f;
    return 0;
}

void prefix_folder_close(struct prefix_folder *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    index_finish(&f->known);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}

const char *prefix_folder_path(const struct prefix_folder *f)
{
    return f->path;
}
