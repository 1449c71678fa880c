/* pull/http.h: what pulling asks of HTTP: where a file really lies and what it is, a short text, and handles for ranges.
 *
 *     struct http_file h;
 *     if (!(rc = http_look(url, token, &h, e)))
 *         ... h.url, h.size, h.ranges; http_file_clear(&h)
 *
 * Redirects are followed here, at most HTTP_REDIRECTS of them, to http and https alone and never from https to http. A token
 * goes to the origin (scheme, host and port) of the first address and nowhere else: RFC 9110, section 15.4, asks for that
 * care, and huggingface_hub does the same. Errors are -EAGAIN where trying again may help, others are for good.
 *
 * The hub's headers: the answer of /OWNER/REPO/resolve/REVISION/FILE carries X-Linked-Etag, the sha256 of a file kept in
 * large file storage, and X-Linked-Size, beside the redirect to where its bytes are: huggingface_hub, constants.py and
 * file_download.py; the same is in huggingface.js, packages/hub/src/lib/file-download-info.ts. They are believed from the
 * first origin alone. Ranges: RFC 9110, section 14. */
#ifndef ZINC_PULL_HTTP_H
#define ZINC_PULL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { HTTP_REDIRECTS = 8, HTTP_HEADER_BYTES = 65536, HTTP_ETAG = 200, HTTP_SHOWN = 201 };

/* Headers of one answer, as far as they are looked at. */
struct http_head {
    size_t n_bytes;           /* of all header lines: more than HTTP_HEADER_BYTES end the transfer */
    char etag[HTTP_ETAG];     /* a strong one, with its quotes; "": none */
    char linked_etag[HTTP_ETAG];
    uint64_t linked_size;     /* 0: none */
    bool has_range;           /* Content-Range: bytes first-last/total */
    uint64_t first, last, total;
};

/* One header line, as it came; a status line starts anew. */
void http_head_line(struct http_head *h, const char *line, size_t n);

struct http_file {
    char *url;                /* where the bytes are, after redirects; malloc'ed */
    char shown[HTTP_SHOWN];   /* the same for messages, without a query: where a redirect leads it may be a key */
    bool same_origin;         /* ... which may be given the token                */
    uint64_t size;            /* bytes; 0: not told                              */
    bool ranges;              /* answers ranges                                  */
    char etag[HTTP_ETAG];     /* of that address                                 */
    char sha256[65];          /* as the hub told it, lower case; "": it did not  */
};

int http_look(const char *url, const char *token, struct http_file *out, struct err *e);
void http_file_clear(struct http_file *f);

/* The body of an answer 200 of at most `max` bytes; malloc'ed, NUL-terminated. */
int http_text(const char *url, const char *token, size_t max, char **text, size_t *n, struct err *e);

/* A handle with what all requests share (a CURL *), for `url`, with the token unless it is NULL; NULL: out of memory.
 * http_close takes NULL. */
struct http_request {
    void *curl;
    void *headers;
    struct http_head head;
    char why[256]; /* libcurl's own words */
};
int http_open(struct http_request *r, const char *url, const char *token);
void http_close(struct http_request *r);

/* An answer that is not what was asked for, as an error; `shown` is what was asked for. */
int http_status_error(long status, const char *shown, bool had_token, struct err *e);
/* A CURLcode other than 0, as an error; -EAGAIN or, for what will not mend, -EIO. */
int http_curl_error(int code, const struct http_request *r, const char *shown, struct err *e);

#endif
