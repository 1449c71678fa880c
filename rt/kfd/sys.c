/* rt/kfd/sys.c: the table of system calls, and the real ones. */
#include "rt/kfd/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { AGAIN_MS = 10, AGAIN_TIMES = 100 };

/* ---- the real ones ---- */

static int real_open(struct kfd_sys *s, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int real_close(struct kfd_sys *s, int fd)
{
    return close(fd) ? -errno : 0;
}

static int real_ioctl(struct kfd_sys *s, int fd, unsigned long request, void *arg)
{
    return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static int real_map(struct kfd_sys *s, void *at, uint64_t bytes, int fd, uint64_t off, void **out)
{
    int prot = fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED) | (at ? MAP_FIXED : 0);
    void *p = mmap(at, bytes, prot, flags, fd, (off_t)off);
    if (p == MAP_FAILED)
        return -errno;
    *out = p;
    return 0;
}

static int real_unmap(struct kfd_sys *s, void *p, uint64_t bytes)
{
    return munmap(p, bytes) ? -errno : 0;
}

static int real_dontfork(struct kfd_sys *s, void *p, uint64_t bytes)
{
    return madvise(p, bytes, MADV_DONTFORK) ? -errno : 0;
}

static int real_read(struct kfd_sys *s, const char *path, char *buf, uint32_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    uint32_t len = 0;
    if (fd < 0)
        return -errno;
    while (len + 1 < n) {
        ssize_t got = read(fd, buf + len, n - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = -errno;
        if (got <= 0)
            break;
        len += (uint32_t)got;
    }
    buf[len] = 0;
    close(fd);
    return rc ? rc : (int)len;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int real_list(struct kfd_sys *s, const char *path, uint32_t *out, uint32_t cap)
{
    DIR *d = opendir(path);
    uint32_t n = 0;
    if (!d)
        return -errno;
    for (struct dirent *f; n < cap && (f = readdir(d));) {
        char *end;
        unsigned long v = strtoul(f->d_name, &end, 10);
        if (f->d_name[0] >= '0' && f->d_name[0] <= '9' && !*end && v <= UINT32_MAX)
            out[n++] = (uint32_t)v;
    }
    closedir(d);
    qsort(out, n, sizeof *out, by_value);
    return (int)n;
}

static void real_sleep(struct kfd_sys *s, uint64_t ns)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) }, NULL);
}

static int real_fd_own(struct kfd_sys *s, int fd)
{
    return fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) ? -errno : 0;
}

static int real_fd_read(struct kfd_sys *s, int fd, void *buf, uint32_t n)
{
    ssize_t got = read(fd, buf, n);
    return got < 0 ? -errno : (int)got;
}

static int real_fd_write(struct kfd_sys *s, int fd, const void *buf, uint32_t n)
{
    ssize_t put = write(fd, buf, n);
    return put < 0 ? -errno : (int)put;
}

static uint64_t real_clock(struct kfd_sys *s)
{
    return clock_ns();
}

static struct kfd_sys real = {
    .open = real_open,
    .close = real_close,
    .ioctl = real_ioctl,
    .map = real_map,
    .unmap = real_unmap,
    .dontfork = real_dontfork,
    .read = real_read,
    .list = real_list,
    .sleep = real_sleep,
    .fd_own = real_fd_own,
    .fd_read = real_fd_read,
    .fd_write = real_fd_write,
    .clock = real_clock,
};
static struct kfd_sys *current = &real;

const struct kfd_sys *kfd_sys_real(void)
{
    return &real;
}

void kfd_sys_use(struct kfd_sys *s)
{
    current = s ? s : &real;
}

struct kfd_sys *kfd_sys_current(void)
{
    return current;
}

/* ---- through the table ---- */

static void count(struct kfd_sys *s, enum kfd_sys_call c)
{
    __atomic_fetch_add(&s->calls[c], 1, __ATOMIC_RELAXED); /* weights are loaded by several threads */
}

uint64_t kfd_sys_calls(const struct kfd_sys *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < KFD_SYS_COUNT; i++)
        sum += __atomic_load_n(&s->calls[i], __ATOMIC_RELAXED);
    return sum;
}

int kfd_sys_open(struct kfd_sys *s, const char *path)
{
    int fd, again = 0;
    do {
        count(s, KFD_SYS_open);
        fd = s->open(s, path);
        if (fd == -EAGAIN)
            kfd_sys_sleep(s, AGAIN_MS * 1000000u);
    } while (fd == -EINTR || (fd == -EAGAIN && again++ < AGAIN_TIMES));
    return fd;
}

int kfd_sys_close(struct kfd_sys *s, int fd)
{
    count(s, KFD_SYS_close);
    return s->close(s, fd);
}

int kfd_sys_ioctl(struct kfd_sys *s, int fd, unsigned long request, void *arg)
{
    int rc, again = 0;
    do {
        count(s, KFD_SYS_ioctl);
        rc = s->ioctl(s, fd, request, arg);
        if (rc == -EAGAIN)
            kfd_sys_sleep(s, AGAIN_MS * 1000000u);
    } while (rc == -EINTR || (rc == -EAGAIN && again++ < AGAIN_TIMES));
    return rc;
}

int kfd_sys_map(struct kfd_sys *s, void *at, uint64_t bytes, int fd, uint64_t off, void **out)
{
    count(s, KFD_SYS_map);
    return s->map(s, at, bytes, fd, off, out);
}

int kfd_sys_unmap(struct kfd_sys *s, void *p, uint64_t bytes)
{
    count(s, KFD_SYS_unmap);
    return s->unmap(s, p, bytes);
}

int kfd_sys_dontfork(struct kfd_sys *s, void *p, uint64_t bytes)
{
    count(s, KFD_SYS_dontfork);
    return s->dontfork(s, p, bytes);
}

int kfd_sys_read(struct kfd_sys *s, const char *path, char *buf, uint32_t n)
{
    count(s, KFD_SYS_read);
    return s->read(s, path, buf, n);
}

int kfd_sys_list(struct kfd_sys *s, const char *path, uint32_t *out, uint32_t cap)
{
    count(s, KFD_SYS_list);
    return s->list(s, path, out, cap);
}

void kfd_sys_sleep(struct kfd_sys *s, uint64_t ns)
{
    count(s, KFD_SYS_sleep);
    s->sleep(s, ns);
}

int kfd_sys_fd_own(struct kfd_sys *s, int fd)
{
    count(s, KFD_SYS_fd_own);
    return s->fd_own(s, fd);
}

int kfd_sys_fd_read(struct kfd_sys *s, int fd, void *buf, uint32_t n)
{
    count(s, KFD_SYS_fd_read);
    return s->fd_read(s, fd, buf, n);
}

int kfd_sys_fd_write(struct kfd_sys *s, int fd, const void *buf, uint32_t n)
{
    count(s, KFD_SYS_fd_write);
    return s->fd_write(s, fd, buf, n);
}
