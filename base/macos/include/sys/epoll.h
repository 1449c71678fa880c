/* base/macos/include/sys/epoll.h: see base/macos/macos.h. */
#ifndef ZINC_MACOS_EPOLL_H
#define ZINC_MACOS_EPOLL_H
#include <stdint.h>

enum { EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLL_CLOEXEC = 1 };
#define EPOLLIN        0x001u
#define EPOLLOUT       0x004u
#define EPOLLERR       0x008u
#define EPOLLHUP       0x010u
#define EPOLLRDHUP     0x2000u
#define EPOLLEXCLUSIVE (1u << 28)
#define EPOLLET        (1u << 31)

struct epoll_event {
    uint32_t events;
    union { void *ptr; } data;
};
int epoll_create1(int flags);
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *ev);
int epoll_wait(int epoll, struct epoll_event *ev, int n, int ms);

#endif
