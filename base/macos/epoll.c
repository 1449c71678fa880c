/* base/macos/epoll.c: epoll(7) and eventfd(2) by kqueue(2), as far as base/macos/macos.h says. */
#ifdef __APPLE__
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/event.h>
#include <sys/eventfd.h>

enum { MOST = 256 };

int epoll_create1(int flags)
{
    int q = kqueue();
    if (q >= 0 && flags & EPOLL_CLOEXEC)
        fcntl(q, F_SETFD, FD_CLOEXEC);
    return q;
}

/* A filter for reading tells of data and of the end. Where the end alone is asked for it is one that changes trigger
 * (EV_CLEAR, which comes back with its events), and data is dropped. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev)
{
    struct kevent k[2];
    uint32_t want = op == EPOLL_CTL_DEL ? 0 : ev->events;
    void *user = op == EPOLL_CTL_DEL ? NULL : ev->data.ptr;
    bool in = want & EPOLLIN, end = want & EPOLLRDHUP, out = want & EPOLLOUT;
    EV_SET(&k[0], fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
    kevent(epoll, k, 1, NULL, 0, NULL); /* none is fine */
    EV_SET(&k[0], fd, EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
    kevent(epoll, k, 1, NULL, 0, NULL);
    int n = 0;
    if (in || end)
        EV_SET(&k[n++], fd, EVFILT_READ, EV_ADD | (in ? 0 : EV_CLEAR), 0, 0, user);
    if (out)
        EV_SET(&k[n++], fd, EVFILT_WRITE, EV_ADD, 0, 0, user);
    return n ? kevent(epoll, k, n, NULL, 0, NULL) : 0;
}

static uint32_t events_of(const struct kevent *k)
{
    uint32_t e = k->flags & EV_ERROR ? EPOLLERR : 0;
    if (k->filter == EVFILT_READ) {
        e |= k->flags & EV_EOF ? EPOLLRDHUP | EPOLLIN : 0;
        e |= k->flags & EV_CLEAR ? 0 : EPOLLIN;
    } else {
        e |= k->flags & EV_EOF ? EPOLLHUP : EPOLLOUT;
    }
    return e;
}

/* Two filters of a descriptor are one event. */
int epoll_wait(int epoll, struct epoll_event *ev, int n, int ms)
{
    struct kevent k[MOST];
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    uintptr_t id[MOST];
    int found = 0, got = kevent(epoll, NULL, 0, k, n < MOST ? n : MOST, ms < 0 ? NULL : &t);
    for (int i = 0; i < got; i++) {
        uint32_t e = events_of(&k[i]);
        int at = 0;
        while (at < found && id[at] != k[i].ident)
            at++;
        if (at < found) {
            ev[at].events |= e;
        } else if (e) {
            id[found] = k[i].ident;
            ev[found++] = (struct epoll_event){ .events = e, .data.ptr = k[i].udata };
        }
    }
    return got < 0 ? -1 : found;
}

/* A datagram socket that is connected to itself: what is written is there to be read, and wakes whoever waits. */
int eventfd(unsigned count, int flags)
{
    struct sockaddr_in me = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof me;
    int type = SOCK_DGRAM | (flags & EFD_CLOEXEC ? SOCK_CLOEXEC : 0) | (flags & EFD_NONBLOCK ? SOCK_NONBLOCK : 0);
    int fd = socket(AF_INET, type, 0);
    (void)count; /* 0 in all of the tree */
    if (fd < 0 || bind(fd, (struct sockaddr *)&me, n) || getsockname(fd, (struct sockaddr *)&me, &n) ||
        connect(fd, (struct sockaddr *)&me, n)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}
#endif
