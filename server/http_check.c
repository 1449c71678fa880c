/* What is wrong with a request is found here, as far as its head tells, before any of its body is kept. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "base/ckd.h"
#include "server/http_priv.h"

void request_refuse(struct request *r, unsigned status, const char *code, const char *fmt, ...)
{
    if (r->refused.status)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->refused.message, sizeof r->refused.message, fmt, ap);
    va_end(ap);
    r->refused.status = status;
    r->refused.code = code;
}

/* ---- path ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* %XX decoded. False: not a path, or not UTF-8, or with a NUL in it. */
static bool decode_path(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    for (; *s; s++) {
        int c = (unsigned char)*s;
        if (c == '%') {
            int hi = hex(s[1]), lo = hi < 0 ? -1 : hex(s[2]);
            if (lo < 0 || !(c = hi * 16 + lo))
                return false;
            s += 2;
        }
        if (n + 1 >= cap)
            return false;
        out[n++] = (char)c;
    }
    out[n] = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)out + i, (utf8proc_ssize_t)(n - i), &cp);
        if (len < 1)
            return false;
        i += (size_t)len;
    }
    return true;
}

/* The endpoints that are not the API's, all for GET and HEAD. */
static const struct {
    const char *path;
    enum route route;
    bool open;                /* no key needed */
} own[] = {
    { "/", ROUTE_PAGE, true },         { "/index.html", ROUTE_PAGE, true }, { "/favicon.ico", ROUTE_ICON, true },
    { "/favicon.svg", ROUTE_ICON, true }, { "/health", ROUTE_HEALTH, true },   { "/metrics", ROUTE_METRICS, false },
};

/* The path as a label: of a set that no client can make larger. */
static const char *api_label(const char *path)
{
    static const char *const known[] = { "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models",
                                         "/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize" };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(path, known[i]) == 0)
            return known[i];
    return strncmp(path, "/v1/models/", 11) == 0 ? "/v1/models/{id}" : "other";
}

/* The methods that the path takes, 0: nothing is there. */
static unsigned find_route(struct request *r, bool *open)
{
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strcmp(r->path, own[i].path) == 0) {
            if ((own[i].route == ROUTE_PAGE && r->h->o.no_page) ||
                (own[i].route == ROUTE_METRICS && r->h->o.no_metrics))
                break;
            r->route = own[i].route;
            r->label = own[i].path;
            *open = own[i].open;
            return API_GET;
        }
    unsigned methods = api_methods(r->path);
    if (methods) {
        r->route = ROUTE_API;
        r->label = api_label(r->path);
    }
    return methods;
}

static void check_route(struct request *r, const char *url, bool *open)
{
    if (!decode_path(url, r->path, sizeof r->path)) {
        snprintf(r->path, sizeof r->path, "%s", url);
        request_refuse(r, 400, NULL, "the path is longer than %d bytes, or not UTF-8 in valid %%XX", PATH_MAX_LEN - 1);
        return;
    }
    unsigned methods = find_route(r, open);
    if (!methods) {
        request_refuse(r, 404, "not_found", "nothing is at %.200s (the API is below /v1, doc/server.md lists it)",
                       r->path);
        return;
    }
    unsigned asked = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0 ? API_GET
                     : strcmp(r->method, "POST") == 0                                ? API_POST : 0;
    bool preflight = r->h->o.cors && strcmp(r->method, "OPTIONS") == 0;
    if (!(methods & asked) && !preflight) {
        r->refused.allow = methods == API_GET ? "GET, HEAD" : methods == API_POST ? "POST" : "GET, HEAD, POST";
        request_refuse(r, 405, "method_not_allowed", "%.200s takes %s, not %.32s", r->path, r->refused.allow,
                       r->method);
    }
}

/* ---- length of the body ---- */

struct framing {
    uint32_t lengths, encodings;
    bool chunked;
    const char *length;
};

static enum MHD_Result count_framing(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct framing *f = cls;
    if (strcasecmp(key, "Content-Length") == 0) {
        f->lengths++;
        f->length = value;
    } else if (strcasecmp(key, "Transfer-Encoding") == 0) {
        f->encodings++;
        f->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* Where the body ends must be told once and clearly: behind a proxy that reads it differently, what follows would be
 * taken for another client's request. */
static void check_body(struct request *r)
{
    struct framing f = { 0 };
    MHD_get_connection_values(r->c, MHD_HEADER_KIND, count_framing, &f);
    r->length = f.length ? strtoull(f.length, NULL, 10) : f.encodings ? MHD_SIZE_UNKNOWN : 0;
    r->no_end = f.lengths + f.encodings > 1 || (f.encodings && !f.chunked);
    if (f.lengths + f.encodings > 1)
        request_refuse(r, 400, NULL, "more than one Content-Length or Transfer-Encoding");
    else if (f.encodings && !f.chunked)
        request_refuse(r, 400, NULL, "Transfer-Encoding: only chunked is understood");
    else if (!f.lengths && !f.encodings && strcmp(r->method, "POST") == 0)
        request_refuse(r, 411, NULL, "Content-Length is missing");
    const char *coding = MHD_lookup_connection_value(r->c, MHD_HEADER_KIND, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        request_refuse(r, 415, "unsupported_encoding", "Content-Encoding %.32s is not understood: send the body as it is",
                       coding);
    if (r->length != MHD_SIZE_UNKNOWN && r->length > r->h->o.max_body)
        request_refuse(r, 413, "request_too_large", "the request has %llu bytes, at most %llu are read (--max-body)",
                       (unsigned long long)r->length, (unsigned long long)r->h->o.max_body);
}

/* ---- all of it ---- */

static const char *header(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->c, MHD_HEADER_KIND, name);
}

static void check_key(struct request *r)
{
    uint64_t key = 0;
    if (!auth_required(r->h->auth))
        return;
    if (!auth_check(r->h->auth, header(r, "Authorization"), &key))
        request_refuse(r, 401, "invalid_api_key",
                       header(r, "Authorization") ? "this API key is not known here"
                                                  : "an API key is needed: Authorization: Bearer KEY");
    r->client = key;
}

static void check_load(struct request *r)
{
    const struct http *h = r->h;
    int state = atomic_load(&h->state);
    if (state == HTTP_LOADING)
        request_refuse(r, 503, "loading", "the model is being loaded");
    else if (state != HTTP_READY)
        request_refuse(r, 503, "shutting_down", "the server is shutting down");
    else if (atomic_load(&h->connections) > h->o.max_connections)
        request_refuse(r, 503, "overloaded", "more than %u connections", h->o.max_connections);
}

void request_check(struct request *r, const char *url)
{
    bool open = false;
    const char *id = header(r, "X-Request-Id");
    if (id && id_is_sane(id))
        snprintf(r->id, sizeof r->id, "%s", id);
    else
        id_make(r->h, r->id);
    r->client = r->conn->peer_hash;
    r->label = "other";
    check_route(r, url, &open);
    if (strcmp(r->method, "OPTIONS") != 0 && !open)
        check_key(r);
    check_body(r);
    if (r->route == ROUTE_API)
        check_load(r);
}
