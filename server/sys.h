/* server/sys.h
 * Every system call that the server makes goes through one table, so that a test can make any of them fail and count
 * them. Entries are the calls of the C library under their own names, with -1 and errno as they do:
 *
 *     n = sys->recv(fd, buf, sizeof buf, 0);
 *
 *     struct server_sys faulty = server_sys_real;    in a test: the rest stays real
 *     faulty.recv = my_recv;
 *     server_sys_use(&faulty);
 *
 * The table belongs to whoever made it and is constant while a server exists: all of its threads read `sys` without a
 * lock, so it is replaced before http_start and given back after http_destroy. Left out on purpose: clocks, sleeping,
 * mutexes, memory, and what is written to stderr. GnuTLS gets its bytes by recv and sendmsg (tls.c) and opens no file. */
#ifndef ZINC_SERVER_SYS_H
#define ZINC_SERVER_SYS_H

#include <netdb.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

/* X(result, name, parameters, arguments). pthread_create returns the error itself, getaddrinfo and getnameinfo EAI_.. */
#define SERVER_SYS_LIST(X)                                                                                             \
    X(int, socket, (int family, int type, int protocol), (family, type, protocol))                                     \
    X(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))                                          \
    X(int, listen, (int fd, int backlog), (fd, backlog))                                                               \
    X(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))                                       \
    X(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))                          \
    X(int, setsockopt, (int fd, int level, int name, const void *p, socklen_t n), (fd, level, name, p, n))             \
    X(int, getsockopt, (int fd, int level, int name, void *p, socklen_t *n), (fd, level, name, p, n))                  \
    X(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))                                        \
    X(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))                                        \
    X(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))                                        \
    X(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))                                  \
    X(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))                                   \
    X(int, shutdown, (int fd, int how), (fd, how))                                                                     \
    X(int, close, (int fd), (fd))                                                                                      \
    X(int, epoll_create1, (int flags), (flags))                                                                        \
    X(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *ev), (epoll, op, fd, ev))                        \
    X(int, epoll_wait, (int epoll, struct epoll_event *ev, int n, int ms), (epoll, ev, n, ms))                         \
    X(int, eventfd, (unsigned count, int flags), (count, flags))                                                       \
    X(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode))                                      \
    X(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))                                                          \
    X(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))                                                   \
    X(int, lstat, (const char *path, struct stat *st), (path, st))                                                     \
    X(int, unlink, (const char *path), (path))                                                                         \
    X(int, rename, (const char *from, const char *to), (from, to))                                                     \
    X(ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags))                                          \
    X(int, getrlimit, (int what, struct rlimit *l), (what, l))                                                         \
    X(int, setrlimit, (int what, const struct rlimit *l), (what, l))                                                   \
    X(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *user), (t, a, f, user))  \
    X(int, getaddrinfo, (const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out),  \
      (node, service, hints, out))                                                                                     \
    X(int, getnameinfo, (const struct sockaddr *a, socklen_t n, char *host, socklen_t n_host, char *service,           \
                         socklen_t n_service, int flags), (a, n, host, n_host, service, n_service, flags))

struct server_sys {
#define X(result, name, params, args) result(*name) params;
    SERVER_SYS_LIST(X)
#undef X
};

extern const struct server_sys server_sys_real;
extern const struct server_sys *sys;
void server_sys_use(const struct server_sys *table); /* NULL: the real one again */

/* ---- small files, by the table; signals and short counts are no failures ---- */

/* A whole file as a string into buf: its length; -EFBIG: it and its end do not fit into `cap` bytes; another -errno. */
ssize_t sys_read_file(const char *path, char *buf, size_t cap);

/* Puts `text` there, whole or not at all: whoever waits for the file may read it as soon as it is there. 0 or -errno;
 * what was at `path` is still there then, and nothing else is. */
int sys_replace_file(const char *path, const char *text);
/* Could it, as things are? 0 or -errno; `path` is not touched. */
int sys_can_replace(const char *path);

#endif
