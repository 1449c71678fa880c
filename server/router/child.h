/* server/router/child.h
 * A model's process: `zinc serve` on a unix socket, its log line by line on ours with the model's name before it. It ends
 * when the thread that started it does (prctl(2), PR_SET_PDEATHSIG). Functions are called by that thread alone. */
#ifndef ZINC_SERVER_ROUTER_CHILD_H
#define ZINC_SERVER_ROUTER_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/err.h"

enum { CHILD_SOCKET = sizeof((struct sockaddr_un *)0)->sun_path };

struct child {
    pid_t pid;                 /* 0: there is none                                       */
    int log;                   /* what it writes to stderr; -1: that has ended           */
    const char *name;
    char socket[CHILD_SOCKET]; /* it listens there                                       */
    char ready[CHILD_SOCKET];  /* this file is there once it answers                     */
    char line[2048];           /* of its log, [n_line] so far                            */
    size_t n_line;
    char last[400];            /* the last line that was an error, without "zinc: "      */
};

/* What it took and where, as its ready file's second line tells: "memory BYTES FREE PLACE". */
struct child_memory {
    uint64_t held, had;        /* bytes that it takes; that were free before it; had 0: unknown */
    char place[96];            /* "host", or a device's name                                    */
};

/* dir: where its socket is to be, `name`.sock with `no` for the name; must be short. argv as router_model's. */
int child_start(struct child *c, const char *name, const char *const *argv, const char *dir, unsigned no, struct err *e);
bool child_is_ready(const struct child *c);
bool child_memory(const struct child *c, struct child_memory *out); /* false: it does not say */
/* Hands on what its log has; after its end all of it. */
void child_read_log(struct child *c);
void child_signal(const struct child *c, int sig); /* also right after its start: none is lost */
/* Has it ended? *how: the words for it, "exit status 1". Then nothing of it is left. */
bool child_ended(struct child *c, char how[64]);

#endif
