/* pull/fetch.h: one file by HTTP, whole and checked or not at all.
 *
 *     struct fetch f = { .url = "https://example.org/m.gguf", .path = "/models/m.gguf", .connections = 4 };
 *     struct fetch_result r;
 *     if (fetch_file(&f, &r, &e)) ... e.msg
 *
 * What a cut connection left is gone on with, at once or by the next call; several ranges come at a time; the sum is computed
 * while the bytes come, behind the first hole; the file gets its name when it is on the disk. A server that does not answer
 * ranges gives one stream, from the beginning each time; one that does not tell the size is refused. */
#ifndef ZINC_PULL_FETCH_H
#define ZINC_PULL_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/flag.h"
#include "base/progress.h"
#include "pull/sha256.h"

enum { FETCH_MAX_CONNECTIONS = 16, FETCH_CONNECTIONS = 4 };

struct fetch {
    const char *url;              /* http or https                                               */
    const char *path;             /* where it comes to lie; its folder exists                    */
    uint64_t size;                /* bytes expected; 0: whatever the server says                 */
    const char *sha256;           /* expected, lower-case hex; NULL: what the hub tells, if any  */
    const char *token;            /* for the url's origin alone; NULL: none                      */
    unsigned connections;         /* 1 to FETCH_MAX_CONNECTIONS; 0: FETCH_CONNECTIONS            */
    const struct progress *progress; /* NULL: none */
    const struct flag *cancel; /* NULL: never; once set the call ends with -ECANCELED, and what came is kept */
    void (*say)(const char *line); /* a line for people now and then; NULL: none */
};

struct fetch_result {
    bool there;                   /* the file was there, or another pull brought it meanwhile */
    uint64_t size, received;      /* bytes of the file; of these, by this call                */
    uint64_t ns;
    bool verified;                /* its sum is what was expected                             */
    char sha256[SHA256_TEXT];     /* as computed                                              */
};

int fetch_file(const struct fetch *f, struct fetch_result *r, struct err *e);

#endif
