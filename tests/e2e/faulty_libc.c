/* tests/e2e/faulty_libc.c: preloaded into a whole server; makes calls of the system fail that server/sys.h lists (and
 * the same ones of the rest of the process). FAULTY names a call and what becomes of it, and the file FAULTY_ON switches
 * it on by being there:
 *
 *     FAULTY=recv:ECONNRESET:7    every seventh recv fails so; recv:SHORT:3 gives one byte every third time
 *
 * When the process ends, the number of failures is printed on stderr. Built and used by test_serve_faults.sh. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT = -1 };

static struct {
    char call[32];
    int error;
    long every;
    const char *on;
    atomic_long n, failed;
} fault;

static __attribute__((constructor)) void read_plan(void)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = { { "SHORT", SHORT },           { "EINTR", EINTR },   { "EAGAIN", EAGAIN },
                   { "ECONNRESET", ECONNRESET }, { "EPIPE", EPIPE },   { "ENOMEM", ENOMEM },
                   { "EMFILE", EMFILE },         { "ENFILE", ENFILE }, { "ECONNABORTED", ECONNABORTED },
                   { "ENOBUFS", ENOBUFS },       { "EIO", EIO },         { "ENOTCONN", ENOTCONN } };
    char name[32] = "";
    const char *plan = getenv("FAULTY");
    if (!plan || sscanf(plan, "%31[^:]:%31[^:]:%ld", fault.call, name, &fault.every) != 3)
        return;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(errors[i].name, name) == 0)
            fault.error = errors[i].error;
    fault.on = getenv("FAULTY_ON");
}

static __attribute__((destructor)) void tell(void)
{
    if (fault.error)
        dprintf(STDERR_FILENO, "faulty: %s failed %ld times of %ld\n", fault.call, (long)fault.failed, (long)fault.n);
}

/* 0: it goes through; SHORT; else the errno. */
static int fails(const char *call)
{
    int before = errno;
    bool mine = fault.error && strcmp(call, fault.call) == 0 && (!fault.on || access(fault.on, F_OK) == 0);
    errno = before;
    if (!mine || (atomic_fetch_add(&fault.n, 1) + 1) % fault.every)
        return 0;
    atomic_fetch_add(&fault.failed, 1);
    if (fault.error != SHORT)
        errno = fault.error;
    return fault.error;
}

#define REAL(f) ((__typeof__(&f))dlsym(RTLD_NEXT, #f))
/* As the real one, but for what fails; `shorter` is what SHORT makes of it. */
#define CALL(type, f, params, args, shorter)                                                                           \
    type f params                                                                                                      \
    {                                                                                                                  \
        int how = fails(#f);                                                                                           \
        if (how > 0)                                                                                                   \
            return -1;                                                                                                 \
        if (how == SHORT)                                                                                              \
            return shorter;                                                                                            \
        return REAL(f) args;                                                                                           \
    }

CALL(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags), REAL(recv)(fd, p, n > 0, flags))
CALL(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags), REAL(send)(fd, p, n > 0, flags))
CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), REAL(read)(fd, p, n))
CALL(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), REAL(write)(fd, p, n))
CALL(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags), -1)
CALL(int, epoll_ctl, (int e, int op, int fd, struct epoll_event *v), (e, op, fd, v), -1)
CALL(int, epoll_wait, (int e, struct epoll_event *v, int n, int ms), (e, v, n, ms), REAL(epoll_wait)(e, v, 1, ms))
CALL(int, setsockopt, (int fd, int l, int o, const void *p, socklen_t n), (fd, l, o, p, n), -1)
CALL(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), -1)
CALL(int, shutdown, (int fd, int how_), (fd, how_), -1)
CALL(ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags), 0)

int close(int fd) /* what fails is closed all the same */
{
    int how = fails("close"), error = errno, rc = REAL(close)(fd);
    if (how > 0)
        errno = error;
    return how > 0 ? -1 : rc;
}
