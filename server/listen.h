/* server/listen.h: the socket that a server listens on: IPv4, IPv6, names, or a path in the file system. */
#ifndef ZINC_SERVER_LISTEN_H
#define ZINC_SERVER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
    int fd;            /* does not block              */
    bool local;        /* only this machine can reach it  */
    char path[108];    /* of a unix socket; else ""       */
    dev_t dev;         /* what was made at that path,     */
    ino_t ino;         /* and goes with the listener      */
    char url[300];     /* for people and files            */
};

/* host: an address, a name, or unix:PATH. *l is filled with a listening socket, or the line tells who is in the way. A
 * socket file on which nobody listens any more is replaced; whatever else is at PATH stays, and is -EADDRINUSE. */
int listener_open(const char *host, uint16_t port, bool tls, struct listener *l, struct err *e);

/* Nobody can connect any more; the descriptor stays valid until listener_close. */
void listener_stop(struct listener *l);
void listener_close(struct listener *l);

#endif
