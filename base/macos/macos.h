/* base/macos/macos.h
 * What the rest of the tree takes from glibc and Linux, and macOS has by other names or not at all. The Makefile includes it
 * before every file there, and puts base/macos/include, with the headers that are missing, into the path; on Linux nothing of
 * this is seen. Each function does what its manual page (Linux man-pages) says as far as the tree uses it; what is less is
 * said here.
 *
 *   epoll_*, eventfd       by kqueue: level-triggered, EPOLLIN, EPOLLOUT, EPOLLRDHUP; data.ptr alone; one watcher of a kind for
 *                          each descriptor; EPOLLEXCLUSIVE is ignored. An eventfd is a datagram socket of its own, so its count
 *                          is lost: a read tells that there was one
 *   pthread_cond_timedwait for conditions of CLOCK_MONOTONIC, which all in the tree are
 *   prctl                  fails: a process here does not end with its parent
 *   sched_getaffinity      all cores, and setting it does nothing */
#ifndef ZINC_BASE_MACOS_H
#define ZINC_BASE_MACOS_H

#define __STDC_WANT_LIB_EXT1__ 1 /* memset_s */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- memory, numbers, time ---- */

void *macos_reallocarray(void *p, size_t n, size_t size);
#define reallocarray macos_reallocarray
ssize_t macos_getrandom(void *p, size_t n, unsigned flags);
#define getrandom    macos_getrandom
#define GRND_NONBLOCK 1
void macos_qsort_r(void *base, size_t n, size_t size, int (*compare)(const void *, const void *, void *), void *user);
#define qsort_r macos_qsort_r
int macos_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *rest);
#define clock_nanosleep macos_clock_nanosleep
#define TIMER_ABSTIME   1
#define explicit_bzero(p, n) memset_s(p, n, 0, n)
#define MADV_HUGEPAGE   0 /* MADV_NORMAL */
#define _SC_LEVEL3_CACHE_SIZE (-1)

/* ---- files ---- */

#define st_mtim st_mtimespec
int macos_fallocate(int fd, int mode, off_t off, off_t n);
#define fallocate     macos_fallocate
#define fdatasync(fd) fcntl(fd, F_FULLFSYNC)
int macos_pipe2(int fd[2], int flags);
#define pipe2 macos_pipe2
int macos_close_range(unsigned from, unsigned to, int flags);
#define close_range macos_close_range

/* ---- threads and processes ---- */

typedef void (*sighandler_t)(int);
#define pthread_setname_np(thread, name) pthread_setname_np(name) /* always of the thread itself */
int macos_gettid(void);
#define gettid macos_gettid
#define pthread_condattr_setclock(attr, clock) ((void)(attr), (void)(clock), 0)
int macos_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
#define pthread_cond_timedwait macos_cond_timedwait

typedef struct { pthread_mutex_t lock; pthread_cond_t open; unsigned n, waiting, turn; } macos_barrier;
int macos_barrier_init(macos_barrier *b, const void *attr, unsigned n);
int macos_barrier_wait(macos_barrier *b);
int macos_barrier_destroy(macos_barrier *b);
#define pthread_barrier_t       macos_barrier
#define pthread_barrier_init    macos_barrier_init
#define pthread_barrier_wait    macos_barrier_wait
#define pthread_barrier_destroy macos_barrier_destroy

/* ---- sockets ---- */

#define SOCK_NONBLOCK 0x10000000
#define SOCK_CLOEXEC  0x20000000
int macos_socket(int family, int type, int protocol);
#define socket macos_socket
int macos_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
#define accept4 macos_accept4
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0x80000 /* since macOS 12, where headers may not say so */
#endif

/* ---- the machine ---- */

uint64_t macos_memory(void);           /* bytes that the machine has                                   */
uint64_t macos_memory_available(void); /* free, and what is kept of files                              */
uint64_t macos_resident(void);         /* bytes of this process                                        */
void macos_processor(char *out, size_t n); /* "Apple M1"                                               */
unsigned macos_cores(void);
/* The program's own file, NUL-terminated; its length, or -1. */
ssize_t macos_program(char *out, size_t n);

#endif
