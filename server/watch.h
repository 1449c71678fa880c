/* server/watch.h
 * Connections as seen from outside of libmicrohttpd, which looks at no connection that waits for its answer, and may miss
 * that a client left in the middle of a request. A thread with an epoll of its own notices at once when a client leaves
 * (closed, reset or half closed): of an armed connection it tells, others get a second for what they may have asked. And it
 * shuts down sockets whose deadline passed: requests that come too slowly.
 *
 * Callbacks run on that thread with the watch locked, so that after watch_disarm none is running: they must not call
 * back into the watch. All functions may be called from any thread. */
#ifndef ZINC_SERVER_WATCH_H
#define ZINC_SERVER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct watch;

struct watched {             /* part of whatever is watched; all fields belong to the watch */
    int fd;
    uint64_t deadline_ns;    /* clock_ns(); 0: none */
    void (*gone)(void *user); /* NULL: not armed */
    void *user;
    bool left;               /* the client did */
    uint64_t tag;
    struct watched *prev, *next;
};

int watch_create(struct watch **out, struct err *e);
void watch_destroy(struct watch *w); /* NULL is fine; nothing may be watched any more */

/* The fd must stay open until watch_remove. -ENOMEM. */
int watch_add(struct watch *w, struct watched *it, int fd, uint64_t deadline_ns);
void watch_remove(struct watch *w, struct watched *it);
void watch_set_deadline(struct watch *w, struct watched *it, uint64_t deadline_ns);

/* gone(user) is called once when the client left, at once if it has left already. */
void watch_arm(struct watch *w, struct watched *it, void (*gone)(void *user), void *user);
void watch_disarm(struct watch *w, struct watched *it);

/* As if all clients of armed connections had left now. */
void watch_cut(struct watch *w);

#endif
