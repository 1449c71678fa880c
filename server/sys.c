#include "server/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

/* Through functions of our own: some of the library's have other types (open takes what follows, bind a union). */
#define X(result, name, params, args)                                                                                  \
    static result real_##name params                                                                                   \
    {                                                                                                                  \
        return name args;                                                                                              \
    }
SERVER_SYS_LIST(X)
#undef X

const struct server_sys server_sys_real = {
#define X(result, name, params, args) .name = real_##name,
    SERVER_SYS_LIST(X)
#undef X
};
const struct server_sys *sys = &server_sys_real;

void server_sys_use(const struct server_sys *table)
{
    sys = table ? table : &server_sys_real;
}

/* ---- small files ---- */

static int open_file(const char *path, int flags)
{
    int fd;
    do
        fd = sys->open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

ssize_t sys_read_file(const char *path, char *buf, size_t cap)
{
    size_t n = 0;
    ssize_t rc = 1;
    int fd = open_file(path, O_RDONLY);
    if (fd < 0)
        return fd;
    while (rc > 0 && n < cap) { /* one byte more than fits, or there is no telling whether that was all */
        do
            rc = sys->read(fd, buf + n, cap - n);
        while (rc < 0 && errno == EINTR);
        n += rc > 0 ? (size_t)rc : 0;
    }
    rc = rc < 0 ? -errno : n == cap ? -EFBIG : (ssize_t)n;
    buf[n < cap ? n : cap - 1] = 0;
    sys->close(fd);
    return rc;
}

static int write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left;) {
        ssize_t n = sys->write(fd, text, left);
        if (n < 0 && errno != EINTR)
            return -errno;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The file beside `path` that becomes it. */
static int open_beside(const char *path, char tmp[PATH_MAX])
{
    if (snprintf(tmp, PATH_MAX, "%s.tmp", path) >= PATH_MAX)
        return -ENAMETOOLONG;
    return open_file(tmp, O_WRONLY | O_CREAT | O_TRUNC);
}

int sys_can_replace(const char *path)
{
    char tmp[PATH_MAX];
    int fd = open_beside(path, tmp);
    if (fd < 0)
        return fd;
    sys->close(fd);
    sys->unlink(tmp);
    return 0;
}

int sys_replace_file(const char *path, const char *text)
{
    char tmp[PATH_MAX];
    int fd = open_beside(path, tmp);
    if (fd < 0)
        return fd;
    int rc = write_all(fd, text);
    if (sys->close(fd) && errno != EINTR && !rc) /* a full disk may be told as late as this */
        rc = -errno;
    if (!rc && sys->rename(tmp, path))
        rc = -errno;
    if (rc)
        sys->unlink(tmp);
    return rc;
}
