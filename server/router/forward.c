#ifdef ZINC_CURL
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/router/router_impl.h"

/* Bytes of an answer that its client has not read: from HIGH on the process waits, below LOW it goes on. */
enum { HIGH = 256 << 10, LOW = 64 << 10, MOST_PROBLEM = 64 << 10, CONNECT_MS = 5000, EVENTS_QUIET_S = 3 };

void forward_wake(struct forward *f)
{
    if (f->wake && !f->gone)
        f->wake(f->user);
}

void forward_free(struct forward *f)
{
    budget_give(f->r->o.budget, f->held);
    out_finish(&f->out);
    out_finish(&f->problem);
    free(f->path);
    free(f->url);
    free(f->from);
    free(f->id);
    free(f->body);
    free(f);
}

/* ---- ends ---- */

static void finish(struct forward *f)
{
    f->state = FORWARD_DONE;
    f->ended = true;
    if (f->gone)
        forward_free(f);
    else
        forward_wake(f);
}

void forward_answer(struct forward *f, int status)
{
    f->status = status;
    f->length = f->out.n;
    snprintf(f->type, sizeof f->type, "application/json");
    f->cut = f->out.failed;
    finish(f);
}

/* The error as the last event of a stream that has begun. */
static void put_problem(struct forward *f, const char *text, size_t n)
{
    out_text(&f->out, f->anthropic ? "event: error\ndata: " : "data: ");
    for (size_t i = 0; i < n; i++) /* lines would end the event */
        out_raw(&f->out, text[i] == '\n' || text[i] == '\r' ? " " : text + i, 1);
    out_text(&f->out, "\n\n");
}

void forward_fail(struct forward *f, int status, const char *code, const char *fmt, ...)
{
    char message[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    char *text = api_error_json(f->path, status, NULL, code, message);
    const char *shown = text ? text : "{}";
    f->retry_after = status == 503 || status == 429;
    if (f->committed) {
        put_problem(f, shown, strlen(shown));
        finish(f);
    } else {
        out_text(&f->out, shown);
        forward_answer(f, status);
    }
    free(text);
}

/* The process has done with it, or it is taken from it. */
static void leave(struct forward *f)
{
    struct router *r = f->r;
    curl_lib.multi_remove_handle(r->multi, f->curl); /* one that is not complete closes its connection: the process sees it */
    curl_lib.easy_cleanup(f->curl);
    curl_lib.slist_free_all(f->headers);
    f->curl = NULL;
    f->headers = NULL;
    TAILQ_REMOVE(&r->running, f, of_list);
    f->m->n_running--;
    f->m->used_ns = clock_ns();
}

void forward_cut(struct forward *f)
{
    f->cut = true; /* forwards_tend ends it */
}

static void ended(struct forward *f, CURLcode code)
{
    bool whole = code == CURLE_OK && f->came;
    leave(f);
    if (whole && f->committed && f->came != 200) {
        put_problem(f, f->problem.s ? f->problem.s : "{}", f->problem.s ? f->problem.n : 2);
        finish(f);
    } else if (whole || f->head_told || f->gone) {
        f->cut = !whole;
        finish(f);
    } else {
        forward_fail(f, 503, "model_ended", "the model '%.100s' ended before it answered (%s): the server's log says more",
                     f->m->o->name, curl_lib.easy_strerror(code));
    }
}

/* ---- what comes from the process: libcurl's calls, in the thread, without the lock ---- */

static void tell_head(struct forward *f)
{
    pthread_mutex_lock(&f->r->lock);
    f->head_told = true;
    if (!f->committed) {
        f->status = (int)f->came;
        memcpy(f->type, f->came_type, sizeof f->type);
        f->streams = !f->has_length;
        f->length = f->came_length;
        f->retry_after = f->came_retry;
        forward_wake(f);
    }
    pthread_mutex_unlock(&f->r->lock);
}

static bool header_is(const char *line, size_t n, const char *name, const char **value, size_t *n_value)
{
    size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0 || line[k] != ':')
        return false;
    for (k++; k < n && (line[k] == ' ' || line[k] == '\t'); k++)
        ;
    while (n > k && strchr(" \t\r\n", line[n - 1]))
        n--;
    *value = line + k;
    *n_value = n - k;
    return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    struct forward *f = user;
    const char *v;
    size_t n_v;
    char number[24];
    n *= size;
    if (n > 9 && strncmp(line, "HTTP/1.", 7) == 0) {
        f->came = (unsigned)strtoul(line + 9, NULL, 10);
    } else if (header_is(line, n, "Content-Type", &v, &n_v)) {
        snprintf(f->came_type, sizeof f->came_type, "%.*s", (int)MIN(n_v, sizeof f->came_type - 1), v);
    } else if (header_is(line, n, "Content-Length", &v, &n_v)) {
        snprintf(number, sizeof number, "%.*s", (int)MIN(n_v, sizeof number - 1), v);
        f->has_length = true;
        f->came_length = strtoull(number, NULL, 10);
    } else if (header_is(line, n, "Retry-After", &v, &n_v)) {
        snprintf(number, sizeof number, "%.*s", (int)MIN(n_v, sizeof number - 1), v);
        f->came_retry = (uint32_t)strtoul(number, NULL, 10);
    } else if ((n == 2 || n == 1) && f->came >= 200) {
        tell_head(f);
    }
    return n;
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    struct forward *f = user;
    n *= size;
    if (f->committed && f->came != 200) { /* set before this connection had an answer, or never */
        if (f->problem.n + n <= MOST_PROBLEM)
            out_raw(&f->problem, p, n);
        return n;
    }
    pthread_mutex_lock(&f->r->lock);
    bool full = f->out.n - f->at > HIGH;
    if (full)
        f->paused = true;
    else if (!f->gone)
        out_raw(&f->out, p, n);
    bool failed = f->out.failed;
    if (!full)
        forward_wake(f);
    pthread_mutex_unlock(&f->r->lock);
    return full ? CURL_WRITEFUNC_PAUSE : failed ? 0 : n;
}

/* ---- the thread ---- */

int forward_start(struct forward *f)
{
    CURL *c = f->curl = curl_lib.easy_init();
    struct curl_slist *all = c ? curl_lib.slist_append(NULL, f->from) : NULL, *more = NULL;
    const char *lines[] = { f->id, "Content-Type: application/json", "Expect:", "Accept:" };
    for (size_t i = 0; all && i < ARRAY_LEN(lines); i++) {
        if (!(more = curl_lib.slist_append(all, lines[i])))
            break;
        all = more;
    }
    if (!more) {
        curl_lib.slist_free_all(all);
        if (c)
            curl_lib.easy_cleanup(c);
        return -ENOMEM;
    }
    f->headers = all;
    curl_lib.easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, f->m->child.socket);
    curl_lib.easy_setopt(c, CURLOPT_URL, f->url);
    curl_lib.easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_lib.easy_setopt(c, CURLOPT_PROXY, "");
    curl_lib.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_lib.easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_lib.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_lib.easy_setopt(c, CURLOPT_HTTPHEADER, all);
    curl_lib.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_lib.easy_setopt(c, CURLOPT_HEADERDATA, f);
    curl_lib.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_lib.easy_setopt(c, CURLOPT_WRITEDATA, f);
    curl_lib.easy_setopt(c, CURLOPT_PRIVATE, f);
    if (strcmp(f->method, "POST") == 0) {
        curl_lib.easy_setopt(c, CURLOPT_POST, 1L);
        curl_lib.easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->n_body);
        curl_lib.easy_setopt(c, CURLOPT_POSTFIELDS, f->body);
    } else if (strcmp(f->method, "GET") != 0) {
        curl_lib.easy_setopt(c, CURLOPT_CUSTOMREQUEST, f->method);
    }
    f->state = FORWARD_RUNNING;
    f->m->n_running++;
    TAILQ_INSERT_TAIL(&f->r->running, f, of_list);
    if (curl_lib.multi_add_handle(f->r->multi, c)) {
        leave(f);
        return -ENOMEM;
    }
    return 0;
}

void forwards_tend(struct router *r)
{
    struct forward *f, *next;
    for (f = TAILQ_FIRST(&r->running); f; f = next) {
        next = TAILQ_NEXT(f, of_list);
        if (f->gone || f->cut) {
            leave(f);
            finish(f);
        } else if (f->resume) {
            f->resume = f->paused = false;
            pthread_mutex_unlock(&r->lock); /* it may call on_body */
            curl_lib.easy_pause(f->curl, CURLPAUSE_CONT);
            pthread_mutex_lock(&r->lock);
            next = TAILQ_NEXT(f, of_list); /* only this thread takes from the list */
        }
    }
}

void forwards_work(struct router *r)
{
    CURLMsg *msg;
    int running, left;
    curl_lib.multi_perform(r->multi, &running);
    while ((msg = curl_lib.multi_info_read(r->multi, &left))) {
        struct forward *f;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result;
        curl_lib.easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &f);
        pthread_mutex_lock(&r->lock);
        ended(f, code);
        pthread_mutex_unlock(&r->lock);
    }
}

/* ---- the exchange, for HTTP's threads ---- */

static int get_status(void *x)
{
    struct forward *f = x;
    pthread_mutex_lock(&f->r->lock);
    int status = f->status;
    pthread_mutex_unlock(&f->r->lock);
    return status;
}

/* The next four are asked once the status is known, and do not change then. */
static const char *content_type(void *x) { return ((struct forward *)x)->type; }
static bool streams(void *x) { return ((struct forward *)x)->streams; }
static size_t length(void *x) { return ((struct forward *)x)->length; }
static uint32_t retry_after(void *x) { return ((struct forward *)x)->retry_after; }

static ssize_t read_some(void *x, char *buf, size_t cap)
{
    struct forward *f = x;
    struct router *r = f->r;
    pthread_mutex_lock(&r->lock);
    size_t n = MIN(cap, f->out.n - f->at);
    if (n)
        memcpy(buf, f->out.s + f->at, n);
    f->at += n;
    if (f->at == f->out.n) {
        out_clear(&f->out);
        f->at = 0;
    } else if (f->at > LOW) {
        memmove(f->out.s, f->out.s + f->at, f->out.n - f->at);
        f->out.n -= f->at;
        f->at = 0;
    }
    bool resume = f->paused && !f->resume && f->out.n - f->at < LOW;
    f->resume = f->resume || resume;
    ssize_t rc = n ? (ssize_t)n : !f->ended ? 0 : f->cut || f->out.failed ? API_CUT : API_END;
    pthread_mutex_unlock(&r->lock);
    if (resume)
        router_poke(r);
    return rc;
}

/* A stream of events begins while its model is still being loaded, and says so. */
static bool keep_alive(void *x, uint64_t quiet_ns)
{
    struct forward *f = x;
    bool told = false;
    pthread_mutex_lock(&f->r->lock);
    if (f->m && f->state == FORWARD_WAITING && f->is_events && f->wants_stream && quiet_ns >= EVENTS_QUIET_S * 1000000000ull) {
        char line[200];
        if (!f->committed) {
            f->committed = f->streams = true;
            f->status = 200;
            snprintf(f->type, sizeof f->type, "text/event-stream");
        }
        snprintf(line, sizeof line, ": %.100s is %s, %.0f s\n\n", f->m->o->name, model_state_name(f->m),
                 (double)(clock_ns() - f->began_ns) * 1e-9);
        for (char *c = line; *c; c++)
            *c = *c == '\r' || (*c == '\n' && c[1] && c[1] != '\n') ? ' ' : *c;
        out_text(&f->out, line);
        told = true;
    }
    pthread_mutex_unlock(&f->r->lock);
    return told;
}

static struct api_usage usage(void *x)
{
    struct forward *f = x;
    pthread_mutex_lock(&f->r->lock);
    struct api_usage u = { .logged = f->head_told }; /* by the process, with its tokens */
    pthread_mutex_unlock(&f->r->lock);
    return u;
}

static void end(void *x)
{
    struct forward *f = x;
    if (!f)
        return;
    struct router *r = f->r;
    pthread_mutex_lock(&r->lock);
    enum forward_state state = f->state;
    f->gone = true;
    f->wake = NULL;
    if (state == FORWARD_WAITING) {
        TAILQ_REMOVE(&r->waiting, f, of_list);
        r->n_waiting--;
    }
    if (state != FORWARD_RUNNING)
        forward_free(f);
    pthread_mutex_unlock(&r->lock);
    router_poke(r);
}

const struct backend_ops router_backend = {
    .methods = router_methods, .begin = forward_begin, .status = get_status, .content_type = content_type, .streams = streams,
    .length = length, .keep_alive = keep_alive, .retry_after = retry_after, .read = read_some, .usage = usage, .end = end,
    .health = router_health, .metrics = router_metrics,
};
#endif
