/* server/http_head.h
 * The head of a request, and the marks between the chunks of its body, by RFC 9112 and nothing beside it: what one reader
 * takes for a header and another does not is how a second request is smuggled inside the first. So there are no blanks
 * before a colon, no folded lines, no bare CR or LF, no control bytes, one Host, one way to tell the length. Pure
 * functions over bytes; no input aborts.
 *
 *     while (!(n = http_head_read(s, n_s, &seen, &h, &w))) read more bytes into s
 *     n > 0: bytes of the head; strings are s + offset           n < 0: answer w.status, then close */
#ifndef ZINC_SERVER_HTTP_HEAD_H
#define ZINC_SERVER_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HTTP_HEAD_MAX = 65536, /* bytes of a head                     */
    HTTP_FIELDS_MAX = 100,
    HTTP_TARGET_MAX = 8192,
    HTTP_METHOD_MAX = 24,
};

/* Why a connection cannot go on. */
struct http_wrong {
    unsigned status;
    char message[160];
};

struct http_head {
    char method[HTTP_METHOD_MAX + 1];
    uint32_t minor;               /* HTTP/1.0 or 1.1                                             */
    uint32_t target;              /* path and query, as sent; * for OPTIONS                      */
    uint32_t host;                /* of Host, or of the target where that is a whole URL; 0: none */
    bool keep_alive;              /* the client can ask again on this connection                 */
    bool expects;                 /* it waits for 100 before it sends the body                   */
    bool chunked, has_length;
    uint64_t length;              /* UINT64_MAX: more than there is                              */
    uint32_t n_fields;
    struct {
        uint32_t name, value;     /* value: without blanks around it                             */
    } field[HTTP_FIELDS_MAX];
};

/* s[n]: what has come so far; *seen: 0 at first, then what it was left at. A complete head gets NULs where its strings
 * end, and offsets into s. */
ssize_t http_head_read(char *s, size_t n, size_t *seen, struct http_head *h, struct http_wrong *w);

/* The first field of this name; NULL: there is none. */
const char *http_head_get(const struct http_head *h, const char *s, const char *name);

/* The body of a chunked request, fed as it comes. */
struct http_chunks {
    uint8_t state;
    uint8_t n_digits;
    uint16_t n_extra;    /* bytes of this chunk's extensions, or of the trailers */
    bool named;          /* of a trailer: its colon was there                    */
    uint64_t left;       /* of the chunk                                         */
};

/* Looks at s[0..n) and returns how many bytes it took; of them, *data for *n_data are body. *end: that was all of it.
 * Call again with the rest while something is left. -1: not chunks. */
ssize_t http_chunks_read(struct http_chunks *c, const char *s, size_t n, const char **data, size_t *n_data, bool *end,
                         struct http_wrong *w);

#endif
