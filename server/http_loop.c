/* The threads of HTTP. All of them accept; a new connection goes to the one that has fewest. When there are more
 * connections than --max-connections, room is made for who comes: the address (on a unix socket: the user) that has most
 * connections which wait for their client, be it idle, slow to ask or slow to read, loses the oldest of them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/http_priv.h"
#include "server/sys.h"

enum { EVENTS = 128, SWEEP_MS = 250, ACCEPT_AT_ONCE = 32, ACCEPT_PAUSE_MS = 50,
       CONN_SPARE = 64 /* beyond max_connections these are told so; further ones wait in the kernel */ };
#define MS 1000000ull

static void poke(struct loop *l)
{
    uint64_t one = 1;
    while (sys->write(l->wake, &one, sizeof one) < 0 && errno == EINTR)
        ; /* EAGAIN: it has been poked 2^64 times */
}

int loop_watch(struct conn *c, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.ptr = c };
    if (c->events == events)
        return 0;
    if (sys->epoll_ctl(c->loop->epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &ev))
        return -errno;
    c->events = events;
    return 0;
}

/* Before its descriptor is closed. To close it is not enough where a process is being forked, as a router does: epoll(7) goes on
 * to tell of a file that another process still has open, and would tell of a connection that is freed. */
static void stop_watching(struct conn *c)
{
    if (c->events)
        sys->epoll_ctl(c->loop->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->events = 0;
}

/* The request may be gone as soon as the lock is, and the loop with it where the server ends: it is poked before. */
static void queue_up(struct request *r, bool begun)
{
    struct loop *l = r->loop;
    pthread_mutex_lock(&l->lock);
    bool first = TAILQ_EMPTY(&l->woken);
    if (!r->queued)
        TAILQ_INSERT_TAIL(&l->woken, r, of_woken);
    r->queued = true;
    r->beginning = r->beginning && !begun;
    if (first)
        poke(l);
    pthread_mutex_unlock(&l->lock);
}

void request_wake(void *user)
{
    queue_up(user, false);
}

void request_begun(struct request *r)
{
    queue_up(r, true);
}

/* ---- who comes ---- */

static void name_peer(struct conn *c)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN];
    snprintf(c->peer, sizeof c->peer, "unix");
    if (sys->getpeername(c->fd, (struct sockaddr *)&a, &n))
        return;
    if (a.ss_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
        snprintf(c->peer, sizeof c->peer, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text),
                 ntohs(v4->sin_port));
        c->peer_hash = XXH3_64bits(&v4->sin_addr, 4);
    } else if (a.ss_family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
        snprintf(c->peer, sizeof c->peer, "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text),
                 ntohs(v6->sin6_port));
        c->peer_hash = XXH3_64bits(&v6->sin6_addr, 8); /* one customer has the other half */
    } else {
#ifdef __APPLE__
        uid_t uid;
        gid_t gid;
        if (getpeereid(c->fd, &uid, &gid) == 0)
            c->peer_hash = XXH3_64bits(&uid, sizeof uid);
#else
        struct ucred who;
        n = sizeof who;
        if (sys->getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0)
            c->peer_hash = XXH3_64bits(&who.uid, sizeof who.uid);
#endif
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The address with most waiting connections; false: none waits, or no memory to look. */
static bool most_waiting(const struct http *h, uint64_t *peer)
{
    const struct conn *c;
    size_t n = 0, best = 0, same = 0;
    uint64_t *list = calloc(atomic_load(&h->connections) + CONN_SPARE, sizeof *list);
    if (!list)
        return false;
    TAILQ_FOREACH(c, &h->all, of_all)
        if (!c->shed && !atomic_load(&c->busy) && n < atomic_load(&h->connections) + CONN_SPARE)
            list[n++] = c->peer_hash;
    qsort(list, n, sizeof *list, by_value);
    for (size_t i = 0; i < n; i++) {
        same = i && list[i] == list[i - 1] ? same + 1 : 1;
        if (same > best) {
            best = same;
            *peer = list[i];
        }
    }
    free(list);
    return best > 0;
}

/* Its own loop closes it, when it sees that its socket is shut. Called with conns_lock. */
static void make_room(struct http *h, const struct conn *newest)
{
    struct conn *c;
    uint64_t peer;
    if (atomic_load(&h->connections) <= h->o.max_connections || !most_waiting(h, &peer))
        return;
    TAILQ_FOREACH(c, &h->all, of_all)
        if (c != newest && !c->shed && !atomic_load(&c->busy) && c->peer_hash == peer) {
            c->shed = true;
            atomic_fetch_sub(&h->connections, 1);
            sys->shutdown(c->fd, SHUT_RDWR);
            metrics_rejected(h->metrics);
            return;
        }
}

static struct conn *conn_create(struct http *h, int fd)
{
    struct conn *c = calloc(1, sizeof *c);
    int on = 1;
    if (!c || (h->tls && !(c->tls = tls_accept(h->tls, fd)))) {
        free(c);
        sys->close(fd);
        return NULL;
    }
    sys->setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* answers go out as they are made */
    c->h = h;
    c->fd = fd;
    c->phase = c->tls ? CONN_HANDSHAKE : CONN_HEAD;
    c->moved_ns = clock_ns();
    c->deadline_ns = c->moved_ns + h->o.idle_s * 1000 * MS;
    name_peer(c);
    return c;
}

/* Gives the connection to a loop, which it returns: its thread may have ended the connection by then. */
static struct loop *take_in(struct http *h, struct conn *c)
{
    struct loop *l = &h->loops[0];
    pthread_mutex_lock(&h->conns_lock);
    for (uint32_t i = 1; i < h->n_loops; i++)
        if (h->loops[i].n_conns < l->n_conns)
            l = &h->loops[i];
    l->n_conns++;
    c->loop = l;
    atomic_fetch_add(&h->connections, 1);
    TAILQ_INSERT_TAIL(&h->all, c, of_all);
    make_room(h, c);
    c->over = atomic_load(&h->connections) > h->o.max_connections;
    pthread_mutex_unlock(&h->conns_lock);
    pthread_mutex_lock(&l->lock);
    TAILQ_INSERT_TAIL(&l->incoming, c, of_loop);
    pthread_mutex_unlock(&l->lock);
    return l;
}

/* What fails is tried again: switching on when some time has passed, switching off at the next event. */
static void listen_on(struct loop *l, bool on)
{
    struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = l->h };
    if (l->listening == on)
        return;
    if (!sys->epoll_ctl(l->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->h->listener.fd, &ev))
        l->listening = on;
    if (!l->listening)
        l->listen_again_ns = clock_ns() + ACCEPT_PAUSE_MS * MS;
}

static void accept_some(struct loop *l)
{
    struct http *h = l->h;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        bool full = atomic_load(&h->connections) >= h->o.max_connections + CONN_SPARE;
        int fd = full ? -1 : sys->accept4(h->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && !full && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0 && !full && errno == EAGAIN)
            return;
        if (fd < 0) { /* the port is closed, or there is no room: then some pass while it is not looked at */
            listen_on(l, false);
            return;
        }
        struct conn *c = conn_create(h, fd);
        if (!c)
            continue;
        struct loop *its = take_in(h, c);
        if (its != l)
            poke(its);
    }
}

/* ---- who goes ---- */

static void forget(struct conn *c)
{
    TAILQ_REMOVE(&c->loop->conns, c, of_loop);
    conn_finish(c);
    free(c);
}

void conn_close(struct conn *c)
{
    struct http *h = c->h;
    pthread_mutex_lock(&h->conns_lock); /* make_room shuts sockets under it */
    TAILQ_REMOVE(&h->all, c, of_all);
    c->loop->n_conns--;
    if (!c->shed)
        atomic_fetch_sub(&h->connections, 1);
    if (c->tls)
        tls_session_free(c->tls);
    c->tls = NULL;
    stop_watching(c);
    sys->close(c->fd);
    pthread_mutex_unlock(&h->conns_lock);
    c->dead = true;
    if (c->r && request_is_beginning(c->r))
        return; /* its wake comes */
    if (c->r)
        request_end(c->r, true);
    forget(c);
}

/* ---- the loop ---- */

static void wake_up(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    for (struct request *r; (r = TAILQ_FIRST(&l->woken));) {
        TAILQ_REMOVE(&l->woken, r, of_woken);
        r->queued = false;
        bool beginning = r->beginning;
        pthread_mutex_unlock(&l->lock);
        struct conn *c = r->conn;
        if (!c->dead) {
            conn_step(c, 0);
        } else if (!beginning) {
            request_end(r, true);
            forget(c);
        }
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

static void take_incoming(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    for (struct conn *c; (c = TAILQ_FIRST(&l->incoming));) {
        TAILQ_REMOVE(&l->incoming, c, of_loop);
        TAILQ_INSERT_TAIL(&l->conns, c, of_loop);
        pthread_mutex_unlock(&l->lock);
        conn_step(c, 0);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

static void sweep(struct loop *l, bool all)
{
    uint64_t now = clock_ns();
    for (struct conn *c = TAILQ_FIRST(&l->conns), *next; c; c = next) {
        next = TAILQ_NEXT(c, of_loop);
        if (!c->dead && (all || conn_is_late(c, now)))
            conn_close(c);
        else if (!c->dead)
            conn_keep_alive(c, now);
    }
}

static void *run(void *user)
{
    struct loop *l = user;
    struct http *h = l->h;
    struct epoll_event ev[EVENTS];
    uint64_t next_sweep = 0;
    listen_on(l, true);
    for (;;) {
        bool paused = !l->listening && atomic_load(&h->state) < HTTP_DRAINING;
        int n = sys->epoll_wait(l->epoll, ev, EVENTS, paused ? ACCEPT_PAUSE_MS : SWEEP_MS);
        int state = atomic_load(&h->state);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (ev[i].data.ptr == l && sys->read(l->wake, &count, sizeof count) < 0)
                log_debug(SERVER, "http: woken for nothing");
            else if (ev[i].data.ptr == h && state < HTTP_DRAINING)
                accept_some(l);
            else if (ev[i].data.ptr != l && ev[i].data.ptr != h)
                conn_step(ev[i].data.ptr, ev[i].events);
        }
        take_incoming(l);
        wake_up(l);
        if (state >= HTTP_DRAINING)
            listen_on(l, false);
        else if (!l->listening && clock_ns() >= l->listen_again_ns)
            listen_on(l, true);
        bool stopping = atomic_load(&h->state) == HTTP_STOPPING;
        if (stopping || clock_ns() >= next_sweep) {
            sweep(l, stopping);
            next_sweep = clock_ns() + SWEEP_MS * MS;
        }
        if (stopping && TAILQ_EMPTY(&l->conns))
            return NULL;
    }
}

/* ---- start and end ---- */

static int loop_open(struct loop *l, struct http *h)
{
    *l = (struct loop){ .h = h };
    pthread_mutex_init(&l->lock, NULL);
    TAILQ_INIT(&l->conns);
    TAILQ_INIT(&l->woken);
    TAILQ_INIT(&l->incoming);
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = l };
    l->wake = -1;
    if ((l->epoll = sys->epoll_create1(EPOLL_CLOEXEC)) < 0 ||
        (l->wake = sys->eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        sys->epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->wake, &ev))
        return errno;
    return sys->pthread_create(&l->thread, NULL, run, l);
}

static void loop_close(struct loop *l)
{
    if (l->epoll >= 0)
        sys->close(l->epoll);
    if (l->wake >= 0)
        sys->close(l->wake);
    pthread_mutex_destroy(&l->lock);
}

int loops_start(struct http *h, struct err *e)
{
    h->loops = calloc(h->o.threads, sizeof *h->loops);
    if (!h->loops)
        return err_set(e, -ENOMEM, "server: out of memory");
    pthread_mutex_lock(&h->conns_lock); /* nobody takes a connection in before all loops are there */
    int rc = 0;
    while (h->n_loops < h->o.threads && !rc) {
        rc = loop_open(&h->loops[h->n_loops], h);
        if (rc)
            loop_close(&h->loops[h->n_loops]);
        else
            h->n_loops++;
    }
    pthread_mutex_unlock(&h->conns_lock);
    return rc ? err_set(e, -rc, "server: a thread for HTTP cannot start: %s", strerror(rc)) : 0;
}

void loops_stop(struct http *h)
{
    atomic_store(&h->state, HTTP_STOPPING);
    for (uint32_t i = 0; i < h->n_loops; i++)
        poke(&h->loops[i]);
    for (uint32_t i = 0; i < h->n_loops; i++)
        pthread_join(h->loops[i].thread, NULL);
    for (uint32_t i = 0; i < h->n_loops; i++) {
        for (struct conn *c; (c = TAILQ_FIRST(&h->loops[i].incoming));) { /* accepted by one that ended later */
            TAILQ_REMOVE(&h->loops[i].incoming, c, of_loop);
            TAILQ_INSERT_TAIL(&h->loops[i].conns, c, of_loop);
            conn_close(c);
        }
        loop_close(&h->loops[i]);
    }
    free(h->loops);
    h->loops = NULL;
    h->n_loops = 0;
}
