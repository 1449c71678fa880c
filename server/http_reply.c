#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_priv.h"
#include "server/page.h"

#define PAGE_POLICY "default-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; frame-ancestors 'none'"

static const char icon[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" "
    "fill=\"#4a6fa5\"/><path d=\"M9 9h14v3L13 21h10v3H9v-3l10-9H9z\" fill=\"#fff\"/></svg>";

static void put(struct MHD_Response *a, const char *name, const char *value)
{
    if (value && *value)
        MHD_add_response_header(a, name, value);
}

static void put_common(struct request *r, struct MHD_Response *a)
{
    const char *cors = r->h->o.cors;
    put(a, "X-Request-Id", r->id);
    put(a, "X-Content-Type-Options", "nosniff");
    put(a, "Server", "zinc/" ZINC_VERSION);
    if (!cors)
        return;
    put(a, "Access-Control-Allow-Origin", cors);
    put(a, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
    if (strcmp(cors, "*") != 0)
        put(a, "Vary", "Origin");
}

/* Takes `a`. */
static enum MHD_Result send_reply(struct request *r, unsigned status, struct MHD_Response *a)
{
    if (!a)
        return MHD_NO;
    put_common(r, a);
    r->status = status;
    enum MHD_Result rc = MHD_queue_response(r->c, status, a);
    MHD_destroy_response(a);
    return rc;
}

/* A copy of nothing: `text` lives as long as the program, or is malloc'ed and taken. */
static struct MHD_Response *whole(const char *text, size_t n, bool malloced, const char *type)
{
    struct MHD_Response *a = text ? MHD_create_response_from_buffer(n, (void *)text, malloced ? MHD_RESPMEM_MUST_FREE
                                                                                              : MHD_RESPMEM_PERSISTENT)
                                  : NULL;
    if (!a && malloced)
        free((char *)text);
    else if (a)
        put(a, "Content-Type", type);
    return a;
}

static void put_retry(struct MHD_Response *a, uint32_t seconds)
{
    char s[16];
    snprintf(s, sizeof s, "%u", seconds);
    put(a, "Retry-After", seconds ? s : NULL);
}

enum MHD_Result reply_refusal(struct request *r)
{
    unsigned status = r->refused.status;
    char *text = api_error_json((int)status, NULL, r->refused.code, r->refused.message);
    struct MHD_Response *a = whole(text, text ? strlen(text) : 0, true, "application/json");
    if (!a)
        return MHD_NO;
    put(a, "Allow", r->refused.allow);
    if (status == 401)
        put(a, "WWW-Authenticate", "Bearer");
    if (status == 503)
        put_retry(a, 1);
    if (r->no_end)
        put(a, "Connection", "close");
    return send_reply(r, status, a);
}

enum MHD_Result reply_page(struct request *r)
{
    size_t n;
    const char *text = page_html(&n);
    struct MHD_Response *a = whole(text, n, false, "text/html; charset=utf-8");
    if (!a)
        return MHD_NO;
    put(a, "Content-Security-Policy", PAGE_POLICY);
    put(a, "Referrer-Policy", "no-referrer");
    put(a, "Cache-Control", "no-cache");
    return send_reply(r, 200, a);
}

enum MHD_Result reply_icon(struct request *r)
{
    struct MHD_Response *a = whole(icon, sizeof icon - 1, false, "image/svg+xml");
    if (a)
        put(a, "Cache-Control", "max-age=86400");
    return send_reply(r, 200, a);
}

enum MHD_Result reply_health(struct request *r)
{
    struct http *h = r->h;
    int state = atomic_load(&h->state);
    char text[160];
    if (state == HTTP_READY) {
        struct sched_stats s = sched_stats(h->b.sched);
        snprintf(text, sizeof text, "{\"status\":\"ok\",\"slots\":%u,\"running\":%u,\"waiting\":%u}\n", s.slots,
                 s.running, s.waiting);
    } else {
        snprintf(text, sizeof text, "{\"status\":\"%s\"}\n", state == HTTP_LOADING ? "loading" : "draining");
    }
    char *copy = strdup(text);
    struct MHD_Response *a = whole(copy, copy ? strlen(copy) : 0, true, "application/json");
    if (a && state != HTTP_READY)
        put_retry(a, 1);
    if (a)
        put(a, "Cache-Control", "no-store");
    return send_reply(r, state == HTTP_READY ? 200 : 503, a);
}

enum MHD_Result reply_metrics(struct request *r)
{
    struct http *h = r->h;
    int state = atomic_load(&h->state);
    struct metrics_now now = { .ready = state == HTTP_READY,
                               .connections = atomic_load(&h->connections),
                               .answering = atomic_load(&h->answering),
                               .body_bytes = atomic_load(&h->body_bytes) };
    if (state != HTTP_LOADING) {
        now.model = h->b.model;
        now.tier = h->b.tier;
        now.n_ctx = h->b.n_ctx;
        now.sched = sched_stats(h->b.sched);
    }
    size_t n = 0;
    char *text = metrics_text(h->metrics, &now, &n);
    return send_reply(r, 200, whole(text, n, true, "text/plain; version=0.0.4; charset=utf-8"));
}

enum MHD_Result reply_preflight(struct request *r)
{
    const char *asked = MHD_lookup_connection_value(r->c, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    struct MHD_Response *a = whole("", 0, false, NULL);
    if (!a)
        return MHD_NO;
    put(a, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    put(a, "Access-Control-Allow-Headers", asked ? asked : "Authorization, Content-Type, X-Request-Id");
    put(a, "Access-Control-Max-Age", "86400");
    return send_reply(r, 204, a);
}

enum MHD_Result reply_answer(struct request *r)
{
    struct MHD_Response *a = whole(r->answer ? r->answer : "", r->n_answer, r->answer != NULL, api_content_type(r->x));
    r->answer = NULL;
    if (a)
        put_retry(a, api_retry_after(r->x));
    return send_reply(r, (unsigned)api_status(r->x), a);
}

enum MHD_Result reply_stream(struct request *r, MHD_ContentReaderCallback fn)
{
    enum { BLOCK = 8192 };
    struct MHD_Response *a = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, fn, r, NULL);
    if (!a)
        return MHD_NO;
    put(a, "Content-Type", api_content_type(r->x));
    put(a, "Cache-Control", "no-cache");
    put(a, "X-Accel-Buffering", "no"); /* nginx would collect the pieces */
    return send_reply(r, (unsigned)api_status(r->x), a);
}
