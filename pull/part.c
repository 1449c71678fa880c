#include "pull/part.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MAX_STATE_BYTES = 8 << 20 };

static int system_error(struct err *e, const char *path, const char *what)
{
    int code = errno;
    return err_set(e, -code, "%.300s: cannot be %s: %s", path, what, strerror(code));
}

static int fsync_folder(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = fd >= 0 ? fsync(fd) : -1;
    if (fd >= 0)
        close(fd);
    free(copy);
    return rc;
}

/* ---- the lock ---- */

static int lock(struct part *p, void (*wait)(void *user), void *user, const struct flag *cancel)
{
    if (flock(p->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return -errno;
    if (wait)
        wait(user);
    while (flock(p->fd, LOCK_EX)) {
        if (errno != EINTR)
            return -errno;
        if (flag_is_set(cancel))
            return -ECANCELED;
    }
    return 0;
}

/* Whether the open file still has its name: it loses it when it is finished or dropped. */
static bool has_name(const struct part *p)
{
    struct stat open_one, named;
    return fstat(p->fd, &open_one) == 0 && stat(p->path, &named) == 0 && open_one.st_ino == named.st_ino &&
           open_one.st_dev == named.st_dev;
}

int part_open(struct part *p, const char *dest, void (*wait)(void *user), void *user, const struct flag *cancel,
              bool *there, struct err *e)
{
    *p = (struct part){ .fd = -1, .dest = strdup(dest) };
    *there = false;
    if (!p->dest || asprintf(&p->path, "%s.part", dest) < 0 || asprintf(&p->state_path, "%s.part.json", dest) < 0) {
        part_close(p);
        return err_set(e, -ENOMEM, "%.300s: out of memory", dest);
    }
    for (int rc;;) {
        if (access(dest, F_OK) == 0) {
            *there = true;
            part_close(p);
            return 0;
        }
        p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        rc = p->fd < 0 ? system_error(e, p->path, "written") : 0;
        if (!rc && (rc = lock(p, wait, user, cancel)))
            rc = rc == -ECANCELED ? err_set(e, rc, "interrupted while another pull of it goes on")
                                  : err_set(e, rc, "%.300s: cannot be locked: %s", p->path, strerror(-rc));
        if (rc) {
            part_close(p);
            return rc;
        }
        if (has_name(p) && access(dest, F_OK) != 0)
            return 0;
        close(p->fd); /* the pull that was waited for is through with it */
        p->fd = -1;
        wait = NULL;
    }
}

void part_close(struct part *p)
{
    if (p->fd >= 0)
        close(p->fd);
    part_state_clear(&p->s);
    free(p->path);
    free(p->state_path);
    free(p->dest);
    *p = (struct part){ .fd = -1 };
}

void part_drop(struct part *p)
{
    unlink(p->state_path);
    unlink(p->path);
}

void part_drop_empty(struct part *p)
{
    struct stat st;
    if (fstat(p->fd, &st) == 0 && st.st_size == 0)
        part_drop(p);
}

/* ---- contents ---- */

/* The state beside the file; -ENOENT: none that can be gone on with. */
static int load(const struct part *p, struct part_state *s)
{
    struct stat st, data;
    int fd = open(p->state_path, O_RDONLY | O_CLOEXEC), rc = -ENOENT;
    if (fd < 0)
        return -ENOENT;
    char *text = NULL;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= MAX_STATE_BYTES && (text = malloc((size_t)st.st_size)) &&
        read(fd, text, (size_t)st.st_size) == st.st_size)
        rc = part_state_read(text, (size_t)st.st_size, s);
    if (rc == 0 && (fstat(p->fd, &data) || (uint64_t)data.st_size != s->size)) {
        part_state_clear(s);
        rc = -ENOENT;
    }
    free(text);
    close(fd);
    return rc == -EINVAL ? -ENOENT : rc;
}

static int no_room(struct err *e, const char *path, uint64_t need, uint64_t have)
{
    return err_set(e, -ENOSPC, "%.250s: %.2f GB are needed and %.2f GB are free there: make room, or let ZINC_MODELS name another folder",
                   path, (double)need * 1e-9, (double)have * 1e-9);
}

/* All of its room is taken now, so that the disk is not full later; where the file system cannot, free space is looked at. */
static int take_room(struct part *p, struct err *e)
{
    struct statvfs fs;
    struct stat st;
    if (fstat(p->fd, &st) || fstatvfs(p->fd, &fs))
        return system_error(e, p->path, "looked at");
    uint64_t have = (uint64_t)fs.f_bavail * fs.f_frsize, taken = (uint64_t)st.st_blocks * 512;
    uint64_t need = p->s.size > taken ? p->s.size - taken : 0;
    if (need > have)
        return no_room(e, p->path, need, have);
    if (fallocate(p->fd, 0, 0, (off_t)p->s.size) == 0)
        return 0;
    if (errno == ENOSPC || errno == EDQUOT)
        return no_room(e, p->path, need, have);
    if (errno == EOPNOTSUPP && ftruncate(p->fd, (off_t)p->s.size) == 0)
        return 0;
    return system_error(e, p->path, "given its size");
}

int part_restart(struct part *p, struct err *e)
{
    memset(p->s.done, 0, p->s.n * sizeof *p->s.done);
    unlink(p->state_path);
    return ftruncate(p->fd, 0) ? system_error(e, p->path, "written") : take_room(p, e);
}

int part_begin(struct part *p, uint64_t size, const char *etag, const char *sha256, bool ranges, struct err *e)
{
    struct part_state was, *s = &p->s;
    part_state_clear(s);
    int rc = load(p, &was);
    if (rc == 0) {
        bool same = was.size == size && ranges &&
                    (*sha256 ? strcmp(sha256, was.sha256) == 0 : *etag && !*was.sha256 && strcmp(etag, was.etag) == 0);
        if (same) {
            strncpy(was.etag, etag, sizeof was.etag - 1);
            *s = was;
            return take_room(p, e);
        }
        part_state_clear(&was);
    }
    rc = part_state_begin(s, size, etag, sha256);
    if (rc)
        return err_set(e, rc, rc == -ENOMEM ? "%.300s: out of memory" : "%.300s: %llu bytes are more than a file can have here", p->path,
                       (unsigned long long)size);
    rc = part_restart(p, e);
    if (rc)
        part_drop(p); /* nothing is in it */
    return rc;
}

static int write_whole(int fd, const char *s, size_t n)
{
    while (n) {
        ssize_t k = write(fd, s, n);
        if (k < 0 && errno != EINTR)
            return -1;
        s += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
    return 0;
}

int part_save(struct part *p, struct err *e)
{
    if (fdatasync(p->fd))
        return system_error(e, p->path, "written");
    char *text = part_state_write(&p->s), *tmp = NULL;
    if (!text || asprintf(&tmp, "%s.tmp", p->state_path) < 0) {
        free(text);
        return err_set(e, -ENOMEM, "%.300s: out of memory", p->path);
    }
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), rc = 0;
    bool ok = fd >= 0 && write_whole(fd, text, strlen(text)) == 0;
    if (!ok)
        rc = system_error(e, tmp, "written");
    if (fd >= 0)
        close(fd);
    if (ok && rename(tmp, p->state_path))
        rc = system_error(e, p->state_path, "written");
    if (rc)
        unlink(tmp);
    free(text);
    free(tmp);
    return rc;
}

int part_finish(struct part *p, struct err *e)
{
    if (fsync(p->fd))
        return system_error(e, p->path, "written");
    if (rename(p->path, p->dest))
        return system_error(e, p->dest, "given its name");
    unlink(p->state_path);
    fsync_folder(p->dest);
    return 0;
}
