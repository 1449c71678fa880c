/* The life of a request: its body is collected, the API begins, and while there is nothing to send its connection waits for
 * request_wake, so that no thread waits for it. Requests that take long to begin do so on a thread of the pool
 * (http_begin.c). */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/http_priv.h"

enum { FIRST_BODY = 4096, LARGE_BODY = 16384 };

/* ---- body ---- */

static void drop_body(struct request *r)
{
    atomic_fetch_sub(&r->h->body_bytes, r->cap_body);
    budget_give(r->h->budget, r->cap_body);
    free(r->body);
    r->body = NULL;
    r->n_body = r->cap_body = 0;
}

/* -EBUSY, -E2BIG: no room now, or never; see budget.h. */
static int grow_body(struct request *r, size_t n)
{
    if (r->n_body + n < r->cap_body)
        return 0;
    size_t cap = MAX(MAX(2 * r->cap_body, r->n_body + n + 1), (size_t)FIRST_BODY);
    if (r->conn->head.has_length) /* then it is not more than was told */
        cap = MAX(MIN(cap, r->conn->head.length + 1), r->n_body + n + 1);
    size_t more = cap - r->cap_body;
    int rc = cap > r->h->o.max_memory ? -E2BIG : budget_take(r->h->budget, more);
    if (rc)
        return rc;
    char *body = realloc(r->body, cap);
    if (!body) {
        budget_give(r->h->budget, more);
        return -EBUSY;
    }
    atomic_fetch_add(&r->h->body_bytes, more);
    r->body = body;
    r->cap_body = cap;
    return 0;
}

/* A refused request is read to its end all the same, so that the client sees the answer and the connection can go on;
 * but not for ever. */
bool request_body(struct request *r, const char *data, size_t n)
{
    uint64_t max = r->h->o.max_body;
    int rc;
    r->seen += n;
    if (r->seen > max && !r->refused.status)
        request_refuse(r, 413, "request_too_large", "the request has more than %llu bytes (--max-body)",
                       (unsigned long long)max);
    else if (!r->refused.status && r->to_api && (rc = grow_body(r, n)))
        request_refuse(r, rc == -E2BIG ? 413 : 429, rc == -E2BIG ? "request_too_large" : "overloaded",
                       "no memory for a request of this size%s (--max-memory)", rc == -E2BIG ? "" : " now");
    if (r->refused.status || !r->to_api) {
        drop_body(r);
        return r->seen <= DRAIN_BODIES * max;
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    return true;
}

/* ---- answer ---- */

ssize_t request_read(struct request *r, char *buf, size_t cap)
{
    ssize_t n = r->h->b.ops->read(r->x, buf, cap);
    if (n && !r->first_ns)
        r->first_ns = clock_ns();
    return n;
}

bool request_keep_alive(struct request *r, uint64_t quiet_ns)
{
    return r->begun && !request_is_beginning(r) && r->x && r->h->b.ops->keep_alive(r->x, quiet_ns);
}

void request_begin(struct request *r)
{
    bool head = strcmp(r->method, "HEAD") == 0;
    struct api_call call = { .method = head ? "GET" : r->method, .path = r->path, .query = r->query,
                             .body = r->body ? r->body : "",
                             .n_body = r->n_body, .id = r->id, .client = r->client,
                             .owner = r->owner, .peer = r->conn->peer, .wake = request_wake, .user = r };
    if (r->body)
        r->body[r->n_body] = 0;
    r->x = r->h->b.ops->begin(r->h->b.self, &call);
    drop_body(r);
}

bool request_is_beginning(struct request *r)
{
    pthread_mutex_lock(&r->loop->lock);
    bool is = r->beginning;
    pthread_mutex_unlock(&r->loop->lock);
    return is;
}

/* Words that make a request work for more than its bytes: grammars are compiled, schemas are read, and what was said
 * before. */
static bool is_heavy(const struct request *r)
{
    static const char *const words[] = { "grammar", "schema", "tools", "format", "previous_response", "functions", "guided_",
                                         "structured_outputs", "\\u00" /* any of them may be written so */ };
    if (r->n_body > LARGE_BODY)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (r->n_body && memmem(r->body, r->n_body, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Called again after each wake until the API knows the status. */
static void carry(struct request *r)
{
    if (!r->begun) {
        r->begun = true;
        if (is_heavy(r)) {
            r->beginning = true; /* nobody else knows of it yet */
            begin_pool_put(r->h->begin, r);
            return;
        }
        request_begin(r);
    }
    if (request_is_beginning(r))
        return;
    if (!r->x) {
        request_refuse(r, 503, "overloaded", "out of memory");
        reply_refusal(r);
    } else if (r->h->b.ops->status(r->x)) {
        reply_api(r);
    }
}

void request_answer(struct request *r)
{
    if (!r->whole_ns)
        r->whole_ns = clock_ns();
    if (r->refused.status) {
        reply_refusal(r);
        return;
    }
    if (strcmp(r->method, "OPTIONS") == 0) {
        reply_preflight(r);
        return;
    }
    if (r->to_api)
        carry(r);
    else if (r->reply)
        r->reply(r);
}

/* ---- begin and end ---- */

struct request *request_create(struct conn *c)
{
    struct request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->h = c->h;
    r->conn = c;
    r->loop = c->loop;
    r->method = c->head.method;
    r->start_ns = clock_ns();
    atomic_fetch_add(&r->h->answering, 1);
    request_check(r);
    return r;
}

static const char *how_it_ended(const struct request *r, const struct api_usage *u, bool cut)
{
    if (cut)
        return atomic_load(&r->h->state) == HTTP_STOPPING ? "shutdown" : "disconnected";
    if (r->refused.status)
        return r->refused.code ? r->refused.code : "refused";
    return u->reason ? u->reason : r->status >= 400 ? "refused" : "ok";
}

void request_end(struct request *r, bool cut)
{
    struct http *h = r->h;
    struct api_usage u = { 0 };
    if (r->x) {
        u = h->b.ops->usage(r->x);
        h->b.ops->end(r->x); /* no wake after this */
    }
    pthread_mutex_lock(&r->loop->lock);
    if (r->queued)
        TAILQ_REMOVE(&r->loop->woken, r, of_woken);
    pthread_mutex_unlock(&r->loop->lock);
    uint64_t end = clock_ns();
    if (!r->status)
        r->status = 499;
    struct metrics_request m = { .path = r->label, .status = r->status, .total_ns = end - r->start_ns,
                                 .first_byte_ns = r->first_ns ? r->first_ns - r->whole_ns : 0,
                                 .generated = u.generated_tokens, .queued_ns = u.queued_ns, .prompt_ns = u.prompt_ns,
                                 .decode_ns = u.decode_ns, .cut = cut };
    metrics_request(h->metrics, &m);
    if (!h->o.quiet && !u.logged)
        log_request(r, &u, how_it_ended(r, &u, cut), end);
    drop_body(r);
    r->conn->r = NULL;
    free(r);
    atomic_fetch_sub(&h->answering, 1);
}
