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

static const char *header(const struct request *r, const char *name)
{
    return http_head_get(&r->conn->head, r->conn->in, name);
}

const char *request_header(const struct request *r, const char *name)
{
    return header(r, name);
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
    void (*reply)(struct request *r);
    bool open;                /* no key needed */
} own[] = {
    { "/", reply_page, true },            { "/index.html", reply_page, true },
    { "/favicon.ico", reply_icon, true }, { "/favicon.svg", reply_icon, true },
    { "/health", reply_health, true },    { "/metrics", reply_metrics, false },
    { "/openapi.json", reply_openapi, true },
};

const char *http_own_path(size_t i)
{
    return i < ARRAY_LEN(own) ? own[i].path : NULL;
}

/* The methods that the path takes, 0: nothing is there. */
static unsigned find_route(struct request *r, bool *open)
{
    bool ready = atomic_load(&r->h->state) != HTTP_LOADING;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strcmp(r->path, own[i].path) == 0) {
            if ((own[i].reply == reply_page && r->h->o.no_page) || (own[i].reply == reply_metrics && r->h->o.no_metrics))
                break;
            if (own[i].reply == reply_metrics && ready && !r->h->b.sched && strstr(r->query, "model=")) /* of one of several */
                break;
            r->reply = own[i].reply;
            r->label = own[i].path;
            *open = own[i].open;
            return API_GET;
        }
    unsigned methods = (ready ? r->h->b.ops->methods : api_methods)(r->path, &r->label);
    r->to_api = methods != 0;
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
    unsigned asked = api_method(r->method);
    bool preflight = r->h->o.cors && strcmp(r->method, "OPTIONS") == 0;
    if (!(methods & asked) && !preflight) {
        r->refused.allow = methods == API_GET ? "GET, HEAD" : methods == API_POST ? "POST"
                           : methods & API_DELETE ? "GET, HEAD, DELETE" : "GET, HEAD, POST";
        request_refuse(r, 405, "method_not_allowed", "%.200s takes %s, not %.32s", r->path, r->refused.allow,
                       r->method);
    }
}

/* ---- body ---- */

static void check_body(struct request *r)
{
    const struct http_head *h = &r->conn->head;
    const char *coding = header(r, "Content-Encoding");
    if (!h->has_length && !h->chunked && strcmp(r->method, "POST") == 0)
        request_refuse(r, 411, NULL, "Content-Length is missing");
    if (coding && strcasecmp(coding, "identity") != 0)
        request_refuse(r, 415, "unsupported_encoding", "Content-Encoding %.32s is not understood: send the body as it is",
                       coding);
    if (h->length > r->h->o.max_body)
        request_refuse(r, 413, "request_too_large", "the request has %llu bytes, at most %llu are read (--max-body)",
                       (unsigned long long)h->length, (unsigned long long)r->h->o.max_body);
}

/* ---- all of it ---- */

/* Where no key is asked for, any page that a browser on this machine shows could use the server: see site.h. */
static void check_site(struct request *r)
{
    const struct site *s = &r->h->site;
    const char *host = r->conn->head.host ? r->conn->in + r->conn->head.host : NULL, *origin = header(r, "Origin"), *type = header(r, "Content-Type");
    bool browser = origin || header(r, "Sec-Fetch-Site") || header(r, "Sec-Fetch-Mode");
    if (auth_required(r->h->auth))
        return;
    if (!site_host_ok(s, host))
        request_refuse(r, 403, "host_not_allowed", "Host %.100s is no local name: without API keys others are answered "
                       "only if --allow-host names them", host);
    else if (!site_origin_ok(s, origin, host))
        request_refuse(r, 403, "origin_not_allowed", "pages of %.100s may not use this server: --cors allows an origin",
                       origin);
    else if (strcmp(r->method, "POST") == 0 && (type ? !site_is_json(type) : browser))
        request_refuse(r, 415, "unsupported_media_type", "Content-Type is %.80s: without API keys only "
                       "application/json is read (curl: -H 'Content-Type: application/json')", type ? type : "missing");
}

static void check_key(struct request *r)
{
    uint64_t key = 0;
    if (!auth_required(r->h->auth))
        return;
    const char *bearer = header(r, "Authorization"), *plain = header(r, "X-Api-Key");
    if (!auth_check(r->h->auth, bearer, &key) && !auth_check_key(r->h->auth, plain, &key))
        request_refuse(r, 401, "invalid_api_key",
                       bearer || plain ? "this API key is not known here"
                                       : "an API key is needed: Authorization: Bearer KEY (or X-Api-Key: KEY)");
    r->client = r->owner = key;
}

/* What a router says of who asks it: client and owner in hexadecimal digits, and the address. */
static void take_from(struct request *r)
{
    const char *from = header(r, "X-Zinc-From");
    char peer[sizeof r->conn->peer];
    unsigned long long client, owner;
    if (!r->h->o.behind_router || !from || sscanf(from, "%16llx %16llx %63s", &client, &owner, peer) != 3)
        return;
    r->client = client;
    r->owner = owner;
    memcpy(r->conn->peer, peer, sizeof peer);
}

static void check_load(struct request *r)
{
    const struct http *h = r->h;
    int state = atomic_load(&h->state);
    if (state == HTTP_LOADING)
        request_refuse(r, 503, "loading", "the model is being loaded");
    else if (state != HTTP_READY)
        request_refuse(r, 503, "shutting_down", "the server is shutting down");
    else if (r->conn->over && atomic_load(&h->connections) > h->o.max_connections)
        request_refuse(r, 503, "overloaded", "more than %u connections", h->o.max_connections);
}

void request_check(struct request *r)
{
    char *url = r->conn->in + r->conn->head.target;
    char *query = url + strcspn(url, "?#");
    if (*query == '?') /* few endpoints have arguments, and short ones */
        snprintf(r->query, sizeof r->query, "%.*s", (int)strcspn(query + 1, "#"), query + 1);
    *query = 0;
    bool open = false;
    const char *id = header(r, "X-Request-Id");
    if (id && id_is_sane(id))
        snprintf(r->id, sizeof r->id, "%s", id);
    else
        id_make(r->h, r->id);
    r->client = r->conn->peer_hash;
    r->label = "other";
    check_site(r);
    check_route(r, url, &open);
    if (strcmp(r->method, "OPTIONS") != 0 && !open)
        check_key(r);
    take_from(r);
    check_body(r);
    if (r->to_api)
        check_load(r);
}
