#include "pull/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "pull/sha256.h"

void http_file_clear(struct http_file *f)
{
    free(f->url);
    *f = (struct http_file){ 0 };
}

int http_status_error(long status, const char *shown, bool had_token, struct err *e)
{
    switch (status) {
    case 401: case 403:
        return err_set(e, -EACCES, "%.200s: the server answers %ld: %s", shown, status,
                       had_token ? "the token that was sent does not open it (is its licence accepted on the model's page?)"
                                 : "it asks for a token: HF_TOKEN, or --token-file FILE");
    case 404: case 410:
        return err_set(e, -ENOENT, "%.200s: the server answers %ld: there is no such file (names are case-sensitive)", shown, status);
    case 408: case 425: case 429: case 500: case 502: case 503: case 504:
        return err_set(e, -EAGAIN, "%.200s: the server answers %ld: try again later", shown, status);
    default: return err_set(e, -EIO, "%.200s: the server answers %ld, 200 or 206 is expected", shown, status);
    }
}

#ifndef ZINC_CURL

static int absent(struct err *e)
{
    return err_set(e, -ENOSYS, "this zinc was built without libcurl and pulls nothing: build it with libcurl4-openssl-dev");
}

int http_look(const char *url, const char *token, struct http_file *out, struct err *e)
{
    *out = (struct http_file){ 0 };
    return absent(e);
}

int http_text(const char *url, const char *token, size_t max, char **text, size_t *n, struct err *e)
{
    return absent(e);
}

#else

#include "pull/curl_lib.h"

/* Seconds: to connect; and without a byte until a connection counts as dead. */
enum { CONNECT_S = 20, SILENT_S = 30 };

static size_t on_header(char *p, size_t size, size_t n, void *user)
{
    struct http_request *r = user;
    http_head_line(&r->head, p, size * n);
    return r->head.n_bytes > HTTP_HEADER_BYTES ? 0 : size * n;
}

int http_open(struct http_request *r, const char *url, const char *token)
{
    char line[1100];
    *r = (struct http_request){ .curl = curl_lib.easy_init() };
    CURL *c = r->curl;
    if (!c)
        return -ENOMEM;
    if (token && (snprintf(line, sizeof line, "Authorization: Bearer %s", token) >= (int)sizeof line ||
                  !(r->headers = curl_lib.slist_append(NULL, line)))) {
        http_close(r);
        return -ENOMEM;
    }
    curl_lib.easy_setopt(c, CURLOPT_URL, url);
    curl_lib.easy_setopt(c, CURLOPT_HTTPHEADER, r->headers);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_lib.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_lib.easy_setopt(c, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    const char *authorities = getenv("SSL_CERT_FILE"); /* as the curl program and OpenSSL's have it */
    if (authorities && *authorities)
        curl_lib.easy_setopt(c, CURLOPT_CAINFO, authorities);
    curl_lib.easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_lib.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_lib.easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_lib.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_lib.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl_lib.easy_setopt(c, CURLOPT_BUFFERSIZE, 262144L);
    curl_lib.easy_setopt(c, CURLOPT_USERAGENT, "zinc/" ZINC_VERSION);
    curl_lib.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_lib.easy_setopt(c, CURLOPT_HEADERDATA, r);
    curl_lib.easy_setopt(c, CURLOPT_ERRORBUFFER, r->why);
    return 0;
}

void http_close(struct http_request *r)
{
    if (r->curl)
        curl_lib.easy_cleanup(r->curl);
    curl_lib.slist_free_all(r->headers);
    r->curl = r->headers = NULL;
}

int http_curl_error(int code, const struct http_request *r, const char *shown, struct err *e)
{
    const char *why = r->why[0] ? r->why : curl_lib.easy_strerror((CURLcode)code);
    if (r->head.n_bytes > HTTP_HEADER_BYTES)
        return err_set(e, -EIO, "%.200s: the server sends more than %d bytes of headers", shown, HTTP_HEADER_BYTES);
    switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL: case CURLE_URL_MALFORMAT: case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: case CURLE_SSL_CERTPROBLEM: case CURLE_WEIRD_SERVER_REPLY:
        return err_set(e, -EIO, "%.200s: %.150s", shown, why);
    case CURLE_OUT_OF_MEMORY: return err_set(e, -ENOMEM, "%.200s: out of memory", shown);
    default: return err_set(e, -EAGAIN, "%.200s: %.150s", shown, why);
    }
}

/* ---- addresses ---- */

/* scheme://host:port of both are the same. */
static bool same_origin(const char *a, const char *b)
{
    static const CURLUPart parts[] = { CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT };
    CURLU *ua = curl_lib.url(), *ub = curl_lib.url();
    bool same = ua && ub && !curl_lib.url_set(ua, CURLUPART_URL, a, 0) && !curl_lib.url_set(ub, CURLUPART_URL, b, 0);
    for (size_t i = 0; same && i < ARRAY_LEN(parts); i++) {
        char *pa = NULL, *pb = NULL;
        same = !curl_lib.url_get(ua, parts[i], &pa, CURLU_DEFAULT_PORT) && !curl_lib.url_get(ub, parts[i], &pb, CURLU_DEFAULT_PORT) &&
               strcasecmp(pa, pb) == 0;
        curl_lib.free(pa);
        curl_lib.free(pb);
    }
    curl_lib.url_cleanup(ua);
    curl_lib.url_cleanup(ub);
    return same;
}

/* Without query and fragment. */
static void show(const char *url, char out[HTTP_SHOWN])
{
    snprintf(out, HTTP_SHOWN, "%.*s", (int)strcspn(url, "?#"), url);
}

/* Follows from `from`, or says why not. */
static int check_redirect(const char *from, const char *to, struct err *e)
{
    char a[HTTP_SHOWN], b[HTTP_SHOWN];
    show(from, a);
    show(to, b);
    if (strncmp(to, "https://", 8) != 0 && (strncmp(to, "http://", 7) != 0 || strncmp(from, "https://", 8) == 0))
        return err_set(e, -EIO, "%.200s: redirected to %.100s: an https address is expected", a, b);
    if (memchr(to, '@', strcspn(to + 8, "/?#") + 8))
        return err_set(e, -EIO, "%.200s: redirected to an address with a user's name in it, which is not followed", a);
    return 0;
}

/* ---- a request that is answered by few bytes ---- */

struct body {
    char *s;
    size_t n, max;
    bool too_long, no_memory;
};

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    struct body *b = user;
    n *= size;
    if (n > b->max - b->n) {
        b->too_long = true;
        return 0;
    }
    char *s = realloc(b->s, b->n + n + 1);
    if (!s) {
        b->no_memory = true;
        return 0;
    }
    b->s = s;
    memcpy(s + b->n, p, n);
    b->n += n;
    s[b->n] = 0;
    return n;
}

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

struct answer {
    long status;
    char *url;           /* which answered; malloc'ed */
    char shown[HTTP_SHOWN];
    struct http_head head;
    curl_off_t length;   /* Content-Length; -1: none  */
    char sha256[65];     /* the first origin's word   */
    uint64_t linked_size;
    bool same_origin;
};

/* Follows redirects from `url`; the body goes to `b`, of which too much ends the transfer without being an error. */
static int ask(const char *url, const char *token, const char *range, struct body *b, struct answer *a, struct err *e)
{
    int no_library = curl_lib_open(e);
    *a = (struct answer){ .url = no_library ? NULL : strdup(url) };
    if (no_library)
        return no_library;
    for (int hop = 0; a->url; hop++) {
        struct http_request r;
        char *next = NULL;
        show(a->url, a->shown);
        a->same_origin = same_origin(url, a->url);
        if (http_open(&r, a->url, a->same_origin ? token : NULL))
            break;
        b->n = 0;
        if (range)
            curl_lib.easy_setopt(r.curl, CURLOPT_RANGE, range);
        curl_lib.easy_setopt(r.curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_lib.easy_setopt(r.curl, CURLOPT_WRITEDATA, b);
        CURLcode code = curl_lib.easy_perform(r.curl);
        curl_lib.easy_getinfo(r.curl, CURLINFO_RESPONSE_CODE, &a->status);
        curl_lib.easy_getinfo(r.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &a->length);
        curl_lib.easy_getinfo(r.curl, CURLINFO_REDIRECT_URL, &next);
        a->head = r.head;
        int rc = code && !(code == CURLE_WRITE_ERROR && (b->too_long || is_redirect(a->status))) ? http_curl_error((int)code, &r, a->shown, e) : 0;
        if (!rc && b->no_memory)
            rc = err_set(e, -ENOMEM, "%.200s: out of memory", a->shown);
        if (!rc && a->same_origin && !a->sha256[0] && sha256_from_etag(r.head.linked_etag, a->sha256))
            a->linked_size = r.head.linked_size;
        bool go_on = !rc && is_redirect(a->status);
        if (go_on && (!next || hop == HTTP_REDIRECTS))
            rc = err_set(e, -EIO, next ? "%.200s: more than %d redirects" : "%.200s: a redirect without an address", url, HTTP_REDIRECTS);
        if (go_on && !rc && !(rc = check_redirect(a->url, next, e))) {
            free(a->url);
            a->url = strdup(next);
            b->too_long = false;
        }
        http_close(&r);
        if (rc) {
            free(a->url);
            a->url = NULL;
            return rc;
        }
        if (!go_on)
            return 0;
    }
    free(a->url);
    a->url = NULL;
    return err_set(e, -ENOMEM, "%.200s: out of memory", url);
}

int http_look(const char *url, const char *token, struct http_file *out, struct err *e)
{
    struct body b = { .max = 4096 }; /* of what an answer may say beside its headers */
    struct answer a;
    *out = (struct http_file){ 0 };
    int rc = ask(url, token, "0-0", &b, &a, e);
    free(b.s);
    if (rc)
        return rc;
    out->url = a.url;
    memcpy(out->shown, a.shown, sizeof out->shown);
    out->same_origin = a.same_origin;
    if (a.status != 200 && a.status != 206)
        rc = http_status_error(a.status, a.shown, token && a.same_origin, e);
    else if (a.status == 206 && (!a.head.has_range || a.head.first || a.head.last))
        rc = err_set(e, -EIO, "%.200s: asked for its first byte, the server answers another range", a.shown);
    if (rc) {
        http_file_clear(out);
        return rc;
    }
    out->ranges = a.status == 206;
    out->size = out->ranges ? a.head.total : a.length > 0 ? (uint64_t)a.length : 0;
    snprintf(out->etag, sizeof out->etag, "%s", a.head.etag);
    memcpy(out->sha256, a.sha256, sizeof out->sha256);
    if (a.linked_size && out->size && a.linked_size != out->size) {
        rc = err_set(e, -EIO, "%.200s: the server speaks of %llu bytes, and has %llu", url, (unsigned long long)a.linked_size,
                     (unsigned long long)out->size);
        http_file_clear(out);
    }
    return rc;
}

int http_text(const char *url, const char *token, size_t max, char **text, size_t *n, struct err *e)
{
    struct body b = { .max = max };
    struct answer a;
    int rc = ask(url, token, NULL, &b, &a, e);
    if (!rc && a.status != 200)
        rc = http_status_error(a.status, a.shown, token && a.same_origin, e);
    if (!rc && b.too_long)
        rc = err_set(e, -EMSGSIZE, "%.200s: the answer is longer than %zu bytes, which no answer of this kind needs", a.shown, max);
    if (!rc && !b.s && !(b.s = calloc(1, 1)))
        rc = err_set(e, -ENOMEM, "%.200s: out of memory", url);
    free(a.url);
    if (rc) {
        free(b.s);
        return rc;
    }
    *text = b.s;
    *n = b.n;
    return 0;
}

#endif
