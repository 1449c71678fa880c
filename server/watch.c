#include "server/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"

enum { EVENTS = 64, SWEEP_MS = 500 };
#define LEFT_NS 1000000000u /* for an answer to who left without waiting for it */

struct watch {
    int epoll, wake;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    struct watched *first;
    /* [n_by_fd]: an event names a descriptor and a tag; the descriptor may have been closed and opened again between
     * epoll_wait and the lock, then the tag differs. */
    struct watched **by_fd;
    size_t n_by_fd;
    uint32_t next_tag;
};

static void call_gone(struct watched *it)
{
    void (*gone)(void *) = it->gone;
    it->gone = NULL;
    if (gone)
        gone(it->user);
}

static void set_deadline(struct watched *it, uint64_t deadline_ns)
{
    uint64_t last = it->left ? clock_ns() + LEFT_NS : UINT64_MAX;
    it->deadline_ns = it->left && (!deadline_ns || deadline_ns > last) ? last : deadline_ns;
}

static void note_left(struct watched *it)
{
    it->left = true;
    if (it->gone)
        call_gone(it);
    else
        set_deadline(it, it->deadline_ns);
}

static void sweep(struct watch *w)
{
    uint64_t now = clock_ns();
    pthread_mutex_lock(&w->lock);
    for (struct watched *it = w->first; it; it = it->next)
        if (it->deadline_ns && it->deadline_ns < now) {
            it->deadline_ns = 0;
            shutdown(it->fd, SHUT_RDWR); /* its owner reads the end and closes it */
        }
    pthread_mutex_unlock(&w->lock);
}

static void *run(void *user)
{
    struct watch *w = user;
    struct epoll_event ev[EVENTS];
    uint64_t next_sweep = 0;
    while (!atomic_load(&w->stop)) {
        int n = epoll_wait(w->epoll, ev, EVENTS, SWEEP_MS);
        pthread_mutex_lock(&w->lock);
        for (int i = 0; i < n; i++) {
            size_t fd = (uint32_t)ev[i].data.u64;
            struct watched *it = fd < w->n_by_fd ? w->by_fd[fd] : NULL;
            if (it && it->tag == ev[i].data.u64)
                note_left(it);
        }
        pthread_mutex_unlock(&w->lock);
        if (clock_ns() >= next_sweep) {
            sweep(w);
            next_sweep = clock_ns() + SWEEP_MS * 1000000u;
        }
    }
    return NULL;
}

int watch_create(struct watch **out, struct err *e)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, -ENOMEM, "server: out of memory");
    pthread_mutex_init(&w->lock, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC);
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT32_MAX };
    int rc = w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &ev) ? errno : 0;
    if (!rc)
        rc = pthread_create(&w->thread, NULL, run, w);
    if (rc) {
        close(w->epoll);
        close(w->wake);
        pthread_mutex_destroy(&w->lock);
        free(w);
        return err_set(e, -rc, "server: the thread that watches connections cannot start: %s", strerror(rc));
    }
    *out = w;
    return 0;
}

void watch_destroy(struct watch *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    uint64_t one = 1;
    if (write(w->wake, &one, sizeof one) < 0) /* then it ends with its next sweep */
        log_debug(SERVER, "watch: eventfd cannot be written");
    pthread_join(w->thread, NULL);
    close(w->epoll);
    close(w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w->by_fd);
    free(w);
}

static int grow(struct watch *w, size_t fd)
{
    if (fd < w->n_by_fd)
        return 0;
    size_t n = MAX(2 * w->n_by_fd, fd + 64);
    struct watched **more = realloc(w->by_fd, n * sizeof *more);
    if (!more)
        return -ENOMEM;
    for (size_t i = w->n_by_fd; i < n; i++)
        more[i] = NULL;
    w->by_fd = more;
    w->n_by_fd = n;
    return 0;
}

int watch_add(struct watch *w, struct watched *it, int fd, uint64_t deadline_ns)
{
    pthread_mutex_lock(&w->lock);
    int rc = grow(w, (size_t)fd);
    if (!rc) {
        *it = (struct watched){ .fd = fd, .deadline_ns = deadline_ns, .next = w->first,
                                .tag = (uint64_t)++w->next_tag << 32 | (uint32_t)fd };
        if (w->first)
            w->first->prev = it;
        w->first = it;
        w->by_fd[fd] = it;
        struct epoll_event ev = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = it->tag };
        if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev))
            log_debug(SERVER, "watch: descriptor %d: %s", fd, strerror(errno)); /* found out when writing to it */
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

void watch_remove(struct watch *w, struct watched *it)
{
    pthread_mutex_lock(&w->lock);
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, it->fd, NULL);
    *(it->prev ? &it->prev->next : &w->first) = it->next;
    if (it->next)
        it->next->prev = it->prev;
    w->by_fd[it->fd] = NULL;
    pthread_mutex_unlock(&w->lock);
}

void watch_set_deadline(struct watch *w, struct watched *it, uint64_t deadline_ns)
{
    pthread_mutex_lock(&w->lock);
    set_deadline(it, deadline_ns);
    pthread_mutex_unlock(&w->lock);
}

void watch_arm(struct watch *w, struct watched *it, void (*gone)(void *user), void *user)
{
    pthread_mutex_lock(&w->lock);
    it->gone = gone;
    it->user = user;
    it->deadline_ns = 0;
    if (it->left)
        call_gone(it);
    pthread_mutex_unlock(&w->lock);
}

void watch_disarm(struct watch *w, struct watched *it)
{
    pthread_mutex_lock(&w->lock);
    it->gone = NULL;
    pthread_mutex_unlock(&w->lock);
}

void watch_cut(struct watch *w)
{
    pthread_mutex_lock(&w->lock);
    for (struct watched *it = w->first; it; it = it->next)
        call_gone(it);
    pthread_mutex_unlock(&w->lock);
}
