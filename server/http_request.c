/* The life of a request: its body is collected, the API begins, and while there is nothing to send the connection is
 * suspended, so that no thread waits for it. The API's wake and the watch's gone resume it, from their threads. Large
 * requests begin on a thread of the pool (http_begin.c), suspended meanwhile. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/http_priv.h"

enum { DRAIN_BODIES = 4 /* of the largest size are read, to answer a request that is too large */,
       SLOWEST_BODY = 16384 /* bytes a second */, FIRST_BODY = 4096, LARGE_BODY = 16384 };
#define BODIES_MAX (256u << 20) /* of all requests together, or four of the largest */

/* ---- waiting ---- */

static void resume(struct request *r)
{
    r->suspended = false;
    atomic_fetch_sub(&r->h->suspended, 1);
    MHD_resume_connection(r->c);
}

/* From any thread: look at the request again. */
static void request_wake(void *user)
{
    struct request *r = user;
    pthread_mutex_lock(&r->lock);
    if (r->suspended && !r->beginning)
        resume(r);
    else
        r->woken = true;
    pthread_mutex_unlock(&r->lock);
}

static void request_gone(void *user)
{
    struct request *r = user;
    atomic_store(&r->gone, true);
    request_wake(r);
}

static bool is_cut(const struct request *r)
{
    return atomic_load(&r->gone) || atomic_load(&r->h->state) == HTTP_STOPPING;
}

/* True: the connection is suspended, leave it. False: something happened since the caller looked. Suspending and
 * resuming both happen under the lock, so that libmicrohttpd sees them in pairs; http_stop relies on that a request
 * is counted before it looks whether it may still wait. */
static bool request_wait(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    atomic_fetch_add(&r->h->suspended, 1);
    r->suspended = !r->woken && !is_cut(r);
    r->woken = false;
    if (r->suspended)
        MHD_suspend_connection(r->c);
    else
        atomic_fetch_sub(&r->h->suspended, 1);
    bool waits = r->suspended;
    pthread_mutex_unlock(&r->lock);
    return waits;
}

/* ---- body ---- */

static void drop_body(struct request *r)
{
    atomic_fetch_sub(&r->h->body_bytes, r->cap_body);
    free(r->body);
    r->body = NULL;
    r->n_body = r->cap_body = 0;
}

static int grow_body(struct request *r, size_t n)
{
    if (r->n_body + n < r->cap_body)
        return 0;
    size_t cap = MAX(MAX(2 * r->cap_body, r->n_body + n + 1), (size_t)FIRST_BODY);
    uint64_t all = atomic_fetch_add(&r->h->body_bytes, cap - r->cap_body) + cap - r->cap_body;
    char *more = all > MAX(BODIES_MAX, 4 * r->h->o.max_body) ? NULL : realloc(r->body, cap);
    if (!more) {
        atomic_fetch_sub(&r->h->body_bytes, cap - r->cap_body);
        return -ENOMEM;
    }
    r->body = more;
    r->cap_body = cap;
    return 0;
}

/* A refused request is read to its end all the same, so that the client sees the answer and the connection can go on;
 * but not for ever. */
static enum MHD_Result take_body(struct request *r, const char *data, size_t n)
{
    uint64_t max = r->h->o.max_body;
    r->seen += n;
    if (r->seen > max && !r->refused.status)
        request_refuse(r, 413, "request_too_large", "the request has more than %llu bytes (--max-body)",
                       (unsigned long long)max);
    else if (!r->refused.status && r->route == ROUTE_API && grow_body(r, n))
        request_refuse(r, 503, "overloaded", "no memory for a request of this size now");
    if (r->refused.status || r->route != ROUTE_API) {
        drop_body(r);
        return r->seen > DRAIN_BODIES * max ? MHD_NO : MHD_YES;
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    return MHD_YES;
}

/* ---- answer ---- */

static void note_first_byte(struct request *r)
{
    if (!r->first_ns)
        r->first_ns = clock_ns();
}

/* Returns whether all of it is there. -ENOMEM ends the request. */
static int collect(struct request *r)
{
    for (;;) {
        if (r->cap_answer - r->n_answer < 4096) {
            size_t cap = 2 * r->cap_answer + 8192;
            char *more = realloc(r->answer, cap);
            if (!more)
                return -ENOMEM;
            r->answer = more;
            r->cap_answer = cap;
        }
        ssize_t n = api_read(r->x, r->answer + r->n_answer, r->cap_answer - r->n_answer);
        if (n <= 0)
            return n == API_END;
        note_first_byte(r);
        r->n_answer += (size_t)n;
    }
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t cap)
{
    (void)pos;
    struct request *r = cls;
    do {
        if (is_cut(r))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        ssize_t n = api_read(r->x, buf, cap);
        if (n) {
            note_first_byte(r);
            return n == API_END ? MHD_CONTENT_READER_END_OF_STREAM : n;
        }
    } while (!request_wait(r));
    return 0;
}

void request_begin(struct request *r)
{
    bool head = strcmp(r->method, "HEAD") == 0;
    struct api_call call = { .method = head ? "GET" : r->method, .path = r->path, .body = r->body ? r->body : "",
                             .n_body = r->n_body, .id = r->id, .client = r->client, .wake = request_wake, .user = r };
    if (r->body)
        r->body[r->n_body] = 0;
    struct api_exchange *x = api_begin(r->h->b.api, &call);
    drop_body(r);
    pthread_mutex_lock(&r->lock);
    r->x = x;
    if (r->beginning)
        resume(r);
    r->beginning = false;
    pthread_mutex_unlock(&r->lock);
}

/* Suspends the connection until a thread of the pool has begun the request. False: too late for that. */
static bool begin_elsewhere(struct request *r)
{
    pthread_mutex_lock(&r->lock);
    atomic_fetch_add(&r->h->suspended, 1);
    r->beginning = r->suspended = !is_cut(r);
    if (r->suspended)
        MHD_suspend_connection(r->c);
    else
        atomic_fetch_sub(&r->h->suspended, 1);
    bool waits = r->suspended;
    pthread_mutex_unlock(&r->lock);
    if (waits)
        begin_pool_put(r->h->begin, r);
    return waits;
}

/* Carries what the API says. Called again whenever the request was suspended and resumed. */
static enum MHD_Result carry(struct request *r)
{
    if (!r->begun) {
        r->begun = true;
        if (r->n_body > LARGE_BODY)
            return begin_elsewhere(r) ? MHD_YES : MHD_NO;
        request_begin(r);
    }
    if (!r->x) {
        request_refuse(r, 503, "overloaded", "out of memory");
        return reply_refusal(r);
    }
    if (!r->armed) {
        r->armed = true;
        watch_arm(r->h->watch, &r->conn->w, request_gone, r);
    }
    do {
        if (is_cut(r))
            return MHD_NO;
        if (api_status(r->x)) {
            if (api_streams(r->x))
                return reply_stream(r, read_stream);
            int rc = collect(r);
            if (rc)
                return rc > 0 ? reply_answer(r) : MHD_NO;
        }
    } while (!request_wait(r));
    return MHD_YES;
}

static enum MHD_Result answer(struct request *r)
{
    if (!r->whole_ns)
        r->whole_ns = clock_ns();
    if (r->refused.status)
        return reply_refusal(r);
    if (strcmp(r->method, "OPTIONS") == 0)
        return reply_preflight(r);
    switch (r->route) {
    case ROUTE_PAGE: return reply_page(r);
    case ROUTE_ICON: return reply_icon(r);
    case ROUTE_HEALTH: return reply_health(r);
    case ROUTE_METRICS: return reply_metrics(r);
    case ROUTE_API: return carry(r);
    case ROUTE_NONE: break;
    }
    return MHD_NO;
}

/* ---- libmicrohttpd's callbacks ---- */

static struct request *create(struct http *h, struct MHD_Connection *c, const char *method)
{
    struct conn *conn = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    struct request *r = conn ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->h = h;
    r->c = c;
    r->conn = conn;
    r->method = method;
    r->start_ns = clock_ns();
    pthread_mutex_init(&r->lock, NULL);
    atomic_fetch_add(&h->answering, 1);
    return r;
}

/* Is the answer due before the body? Then libmicrohttpd closes the connection after it, so only where it must be:
 * nobody knows where the body ends, it is too much to read, or the client waits to be told whether to send it. */
static bool refuse_early(const struct request *r)
{
    return r->refused.status &&
           (r->no_end || (r->length != MHD_SIZE_UNKNOWN && r->length > DRAIN_BODIES * r->h->o.max_body) ||
            (r->length && MHD_lookup_connection_value(r->c, MHD_HEADER_KIND, "Expect")));
}

enum MHD_Result request_handle(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                               const char *version, const char *data, size_t *n_data, void **con_cls)
{
    (void)version;
    struct http *h = cls;
    struct request *r = *con_cls;
    if (!r) {
        if (!(r = *con_cls = create(h, c, method)))
            return MHD_NO;
        request_check(r, url);
        uint64_t most = MIN(r->length, h->o.max_body);
        watch_set_deadline(h->watch, &r->conn->w, r->start_ns + (h->o.idle_s + most / SLOWEST_BODY) * 1000000000u);
        return refuse_early(r) ? reply_refusal(r) : MHD_YES;
    }
    if (*n_data) {
        enum MHD_Result rc = take_body(r, data, *n_data);
        *n_data = 0;
        return rc;
    }
    return answer(r);
}

static const char *how_it_ended(const struct request *r, const struct api_usage *u, bool cut)
{
    if (cut)
        return atomic_load(&r->h->state) == HTTP_STOPPING ? "shutdown" : "disconnected";
    if (r->refused.status)
        return r->refused.code ? r->refused.code : "refused";
    return u->reason ? u->reason : r->status >= 400 ? "refused" : "ok";
}

void request_completed(void *cls, struct MHD_Connection *c, void **con_cls, enum MHD_RequestTerminationCode why)
{
    (void)c;
    struct http *h = cls;
    struct request *r = *con_cls;
    if (!r)
        return;
    *con_cls = NULL;
    struct api_usage u = { 0 };
    bool cut = why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (r->armed)
        watch_disarm(h->watch, &r->conn->w);
    if (r->x) {
        u = api_usage(r->x);
        api_end(r->x); /* no wake after this */
    }
    uint64_t end = clock_ns();
    watch_set_deadline(h->watch, &r->conn->w, end + 2 * h->o.idle_s * 1000000000ull);
    if (!r->status)
        r->status = 499;
    struct metrics_request m = { .path = r->label, .status = r->status, .total_ns = end - r->start_ns,
                                 .first_byte_ns = r->first_ns ? r->first_ns - r->whole_ns : 0,
                                 .generated = u.generated_tokens, .queued_ns = u.queued_ns, .prompt_ns = u.prompt_ns,
                                 .decode_ns = u.decode_ns, .cut = cut };
    metrics_request(h->metrics, &m);
    if (!h->o.quiet)
        log_request(r, &u, how_it_ended(r, &u, cut), end);
    drop_body(r);
    free(r->answer);
    pthread_mutex_lock(&r->lock); /* the thread that began it may still be about to let go */
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_destroy(&r->lock);
    free(r);
    atomic_fetch_sub(&h->answering, 1);
}
