#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "server/http_priv.h"
#include "server/openapi.h"
#include "server/page.h"

#define PAGE_POLICY "default-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'"

static const char icon[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" "
    "fill=\"#4a6fa5\"/><path d=\"M9 9h14v3L13 21h10v3H9v-3l10-9H9z\" fill=\"#fff\"/></svg>";

/* ---- the head of an answer ---- */

__attribute__((format(printf, 2, 3))) static void add(struct conn *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(c->out + c->n_out, CONN_OUT - c->n_out, fmt, ap);
    va_end(ap);
    if (n > 0)
        c->n_out = MIN(c->n_out + (size_t)n, (size_t)CONN_OUT - 1);
}

static void put(struct request *r, const char *name, const char *value)
{
    if (value && *value)
        add(r->conn, "%s: %s\r\n", name, value);
}

static const char *reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } list[] = {
        { 200, "OK" }, { 204, "No Content" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
        { 404, "Not Found" }, { 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 411, "Length Required" },
        { 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" }, { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" }, { 503, "Service Unavailable" },
    };
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        if (list[i].status == status)
            return list[i].text;
    return "Error";
}

static void put_first(struct conn *c, unsigned status)
{
    char date[40];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    add(c, "HTTP/1.1 %u %s\r\nDate: %s\r\nServer: zinc/" ZINC_VERSION "\r\nX-Content-Type-Options: nosniff\r\n", status,
        reason(status), date);
}

static void begin(struct request *r, unsigned status)
{
    const char *cors = r->h->o.cors;
    r->status = status;
    r->replied = true;
    put_first(r->conn, status);
    put(r, "X-Request-Id", r->id);
    if (!cors)
        return;
    put(r, "Access-Control-Allow-Origin", cors);
    put(r, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(cors, "*") != 0)
        put(r, "Vary", "Origin");
}

/* The empty line. Clients of HTTP/1.0 are told that the connection stays, those of 1.1 that it does not. */
static void end_head(struct conn *c)
{
    if (!c->keep || c->head.minor == 0)
        add(c, "Connection: %s\r\n", c->keep ? "keep-alive" : "close");
    add(c, "\r\n");
}

/* The end of the head and the body: `text` lives as long as the program, or is malloc'ed and taken. */
static void whole(struct request *r, const char *text, size_t n, bool malloced, const char *type)
{
    struct conn *c = r->conn;
    put(r, "Content-Type", type);
    if (r->status != 204)
        add(c, "Content-Length: %zu\r\n", n);
    end_head(c);
    if (strcmp(r->method, "HEAD") == 0)
        n = 0;
    if (n <= CONN_OUT - c->n_out) { /* one piece with the head */
        if (n)
            memcpy(c->out + c->n_out, text, n);
        c->n_out += n;
        n = 0;
    }
    c->mem = text;
    c->n_mem = n;
    c->mem_owned = malloced ? (char *)text : NULL;
}

/* A text that was to be made, NULL: there was no memory for it. */
static void whole_made(struct request *r, char *text, size_t n, const char *type)
{
    whole(r, text ? text : "", text ? n : 0, text != NULL, type);
}

static void put_retry(struct request *r, uint32_t seconds)
{
    if (seconds)
        add(r->conn, "Retry-After: %u\r\n", seconds);
}

/* ---- answers ---- */

void reply_wrong(struct conn *c, const struct http_wrong *w)
{
    char *text = api_error_json(NULL, (int)w->status, NULL, "bad_request", w->message);
    size_t n = text ? strlen(text) : 0;
    put_first(c, w->status);
    add(c, "Content-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", n);
    add(c, "%s", text ? text : "");
    free(text);
}

void reply_refusal(struct request *r)
{
    unsigned status = r->refused.status;
    char *text = api_error_json(r->path, (int)status, NULL, r->refused.code, r->refused.message);
    begin(r, status);
    put(r, "Allow", r->refused.allow);
    if (status == 401)
        put(r, "WWW-Authenticate", "Bearer");
    put_retry(r, status == 503 || status == 429);
    whole_made(r, text, text ? strlen(text) : 0, "application/json");
}

void reply_page(struct request *r)
{
    size_t n;
    const char *text = page_html(&n);
    begin(r, 200);
    put(r, "Content-Security-Policy", PAGE_POLICY);
    put(r, "Referrer-Policy", "no-referrer");
    put(r, "Cache-Control", "no-cache");
    whole(r, text, n, false, "text/html; charset=utf-8");
}

void reply_icon(struct request *r)
{
    begin(r, 200);
    put(r, "Cache-Control", "max-age=86400");
    whole(r, icon, sizeof icon - 1, false, "image/svg+xml");
}

void reply_openapi(struct request *r)
{
    size_t n;
    const char *text = openapi_json(&n);
    begin(r, 200);
    put(r, "Cache-Control", "no-cache");
    whole(r, text, n, false, "application/json");
}

void reply_health(struct request *r)
{
    struct http *h = r->h;
    int state = atomic_load(&h->state);
    char text[160], *told = NULL;
    bool failed = false;
    if (state == HTTP_READY && !h->b.sched) {
        told = h->b.ops->health(h->b.self);
    } else if (state == HTTP_READY) {
        struct sched_stats s = sched_stats(h->b.sched);
        failed = s.failed_for_good;
        snprintf(text, sizeof text, "{\"status\":\"%s\",\"slots\":%u,\"running\":%u,\"waiting\":%u}\n",
                 failed ? "failed" : "ok", s.slots, s.running, s.waiting);
    } else {
        snprintf(text, sizeof text, "{\"status\":\"%s\"}\n", state == HTTP_LOADING ? "loading" : "draining");
    }
    begin(r, state == HTTP_READY && !failed ? 200 : 503);
    put_retry(r, state != HTTP_READY);
    put(r, "Cache-Control", "no-store");
    char *copy = told || (state == HTTP_READY && !h->b.sched) ? told : strdup(text);
    whole_made(r, copy, copy ? strlen(copy) : 0, "application/json");
}

void reply_metrics(struct request *r)
{
    struct http *h = r->h;
    int state = atomic_load(&h->state);
    struct metrics_now now = { .ready = state == HTTP_READY,
                               .connections = atomic_load(&h->connections),
                               .answering = atomic_load(&h->answering),
                               .body_bytes = atomic_load(&h->body_bytes),
                               .memory = budget_stats(h->budget) };
    char *more = NULL;
    if (state != HTTP_LOADING && !h->b.sched) {
        now.more = more = h->b.ops->metrics(h->b.self);
    } else if (state != HTTP_LOADING) {
        now.model = h->b.model;
        now.tier = h->b.tier;
        now.n_ctx = h->b.n_ctx;
        now.sched = sched_stats(h->b.sched);
    }
    size_t n = 0;
    char *text = metrics_text(h->metrics, &now, &n);
    free(more);
    begin(r, text ? 200 : 503);
    whole_made(r, text, n, "text/plain; version=0.0.4; charset=utf-8");
}

void reply_preflight(struct request *r)
{
    enum { MOST = 1024 };
    const char *asked = request_header(r, "Access-Control-Request-Headers");
    begin(r, 204);
    put(r, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    put(r, "Access-Control-Allow-Headers",
        asked && strlen(asked) < MOST ? asked : "Authorization, Content-Type, X-Api-Key, X-Request-Id");
    put(r, "Access-Control-Max-Age", "86400");
    whole(r, "", 0, false, NULL);
}

/* Read from where the API made it, also when all of it is there: a second copy would wait for slow clients too. */
void reply_api(struct request *r)
{
    struct conn *c = r->conn;
    const struct backend_ops *ops = r->h->b.ops;
    bool streams = ops->streams(r->x);
    begin(r, (unsigned)ops->status(r->x));
    put(r, "Content-Type", ops->content_type(r->x));
    put_retry(r, ops->retry_after(r->x));
    if (streams) {
        put(r, "Cache-Control", "no-cache");
        put(r, "X-Accel-Buffering", "no"); /* nginx would collect the pieces */
        c->chunked = c->head.minor == 1;
        c->keep = c->keep && c->chunked; /* else the end of the connection is that of the answer */
        put(r, "Transfer-Encoding", c->chunked ? "chunked" : NULL);
    } else {
        c->chunked = false;
        add(c, "Content-Length: %zu\r\n", ops->length(r->x));
    }
    end_head(c);
    c->from_api = strcmp(r->method, "HEAD") != 0;
}
