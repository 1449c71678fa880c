/* server/listen.h: the socket that a server listens on: IPv4, IPv6, names, or a path in the file system. */
#ifndef ZINC_SERVER_LISTEN_H
#define ZINC_SERVER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct listener {
    int fd;
    bool local;        /* only this machine can reach it  */
    char path[108];    /* of a unix socket; else ""       */
    char url[300];     /* for people and files            */
};

/* host: an address, a name, or unix:PATH. *l is filled with a listening socket, or the line tells who is in the way. */
int listener_open(const char *host, uint16_t port, bool tls, struct listener *l, struct err *e);

/* Nobody can connect any more; the descriptor stays valid until listener_close. */
void listener_stop(struct listener *l);
void listener_close(struct listener *l);

#endif
