/* base/macos/macos.c: what macOS lacks, by what it has. */
#ifdef __APPLE__
#include <errno.h>
#include <libproc.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysctl.h>

#undef getrandom
#undef pthread_cond_timedwait
#undef qsort_r
#undef socket

/* ---- memory, numbers, time ---- */

void *macos_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

ssize_t macos_getrandom(void *p, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t at = 0; at < n; at += 256) /* getentropy(2): so many at a time */
        if (getentropy((char *)p + at, n - at < 256 ? n - at : 256))
            return -1;
    return (ssize_t)n;
}

struct order {
    int (*compare)(const void *, const void *, void *);
    void *user;
};
static int in_order(void *order, const void *a, const void *b)
{
    const struct order *o = order;
    return o->compare(a, b, o->user);
}
void macos_qsort_r(void *base, size_t n, size_t size, int (*compare)(const void *, const void *, void *), void *user)
{
    struct order o = { compare, user };
    qsort_r(base, n, size, &o, in_order);
}

int macos_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *rest)
{
    struct timespec now, left = *t;
    if (flags & TIMER_ABSTIME) {
        clock_gettime(clock, &now);
        left.tv_sec -= now.tv_sec;
        left.tv_nsec -= now.tv_nsec;
        if (left.tv_nsec < 0) {
            left.tv_nsec += 1000000000;
            left.tv_sec--;
        }
        if (left.tv_sec < 0)
            return 0;
    }
    return nanosleep(&left, rest) ? errno : 0;
}

/* ---- files ---- */

int macos_fallocate(int fd, int mode, off_t off, off_t n)
{
    fstore_t all = { .fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = n };
    (void)mode;
    if (fcntl(fd, F_PREALLOCATE, &all) == -1 && errno == ENOSPC)
        return -1;
    return ftruncate(fd, off + n);
}

static int flagged(int fd, int cloexec, int nonblock)
{
    int rc = fd < 0 ? -1 : 0;
    if (!rc && cloexec)
        rc = fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!rc && nonblock)
        rc = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? -1 : fd;
}

int macos_pipe2(int fd[2], int flags)
{
    if (pipe(fd))
        return -1;
    flagged(fd[0], flags & O_CLOEXEC, flags & O_NONBLOCK);
    flagged(fd[1], flags & O_CLOEXEC, flags & O_NONBLOCK);
    return 0;
}

int macos_close_range(unsigned from, unsigned to, int flags)
{
    long most = sysconf(_SC_OPEN_MAX);
    (void)flags;
    for (unsigned fd = from; fd <= to && (long)fd < most; fd++)
        close((int)fd);
    return 0;
}

/* ---- threads ---- */

int macos_gettid(void)
{
    return 0; /* to setpriority: the caller's process */
}

int macos_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
    struct timespec now, left = *until;
    clock_gettime(CLOCK_MONOTONIC, &now);
    left.tv_sec -= now.tv_sec;
    left.tv_nsec -= now.tv_nsec;
    if (left.tv_nsec < 0) {
        left.tv_nsec += 1000000000;
        left.tv_sec--;
    }
    return left.tv_sec < 0 ? ETIMEDOUT : pthread_cond_timedwait_relative_np(c, m, &left);
}

int macos_barrier_init(macos_barrier *b, const void *attr, unsigned n)
{
    (void)attr;
    *b = (macos_barrier){ .n = n };
    pthread_mutex_init(&b->lock, NULL);
    return pthread_cond_init(&b->open, NULL);
}
int macos_barrier_wait(macos_barrier *b)
{
    pthread_mutex_lock(&b->lock);
    unsigned turn = b->turn;
    if (++b->waiting == b->n) {
        b->waiting = 0;
        b->turn++;
        pthread_cond_broadcast(&b->open);
    }
    while (turn == b->turn)
        pthread_cond_wait(&b->open, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return 0;
}
int macos_barrier_destroy(macos_barrier *b)
{
    pthread_cond_destroy(&b->open);
    return pthread_mutex_destroy(&b->lock);
}

/* ---- sockets ---- */

int macos_socket(int family, int type, int protocol)
{
    return flagged(socket(family, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol), type & SOCK_CLOEXEC, type & SOCK_NONBLOCK);
}
int macos_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags)
{
    return flagged(accept(fd, a, n), flags & SOCK_CLOEXEC, flags & SOCK_NONBLOCK);
}

/* ---- the machine ---- */

uint64_t macos_memory(void)
{
    uint64_t v = 0;
    size_t n = sizeof v;
    return sysctlbyname("hw.memsize", &v, &n, NULL, 0) ? 0 : v;
}
uint64_t macos_memory_available(void)
{
    vm_statistics64_data_t s;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&s, &n) != KERN_SUCCESS)
        return 0;
    return ((uint64_t)s.free_count + s.inactive_count + s.purgeable_count) * (uint64_t)getpagesize();
}
uint64_t macos_resident(void)
{
    struct proc_taskinfo info;
    int n = proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &info, sizeof info);
    return n == (int)sizeof info ? info.pti_resident_size : 0;
}
void macos_processor(char *out, size_t n)
{
    if (sysctlbyname("machdep.cpu.brand_string", out, &n, NULL, 0))
        out[0] = 0;
}
unsigned macos_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}
ssize_t macos_program(char *out, size_t n)
{
    uint32_t room = (uint32_t)n;
    return _NSGetExecutablePath(out, &room) ? -1 : (ssize_t)strlen(out);
}
#endif
