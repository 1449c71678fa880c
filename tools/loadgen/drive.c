/* tools/loadgen/drive.c: many connections from one thread. Each carries one request at a time, well or badly: readers
 * that pause, clients that go away at any point. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "tools/loadgen/load.h"

enum { RNG_CONN = 10 };
enum { TICK_MS = 2, FUZZ_PATIENCE_MS = 250, SLOW_READ = 512, SLOW_PAUSES = 25, SLOW_BUFFER = 4096 };
#define MS 1000000ull

enum mode { LOAD, SOLO, FUZZ, HEALTH };
enum phase { FREE, WAIT, CONNECT, SEND, READ, ENDING }; /* ENDING: half closed, the server has to end it */

struct conn {
    int fd;
    enum phase phase;
    uint64_t i;              /* number of the request                                                 */
    struct request q;
    struct response r;
    struct rng rng;
    size_t sent, received;
    uint64_t start_ns, sent_ns, last_ns, text_ns; /* last: a byte moved; text: the newest text        */
    uint64_t wake_ns;        /* a slow reader reads on, a refused request is sent again; 0: nothing   */
    uint32_t pauses;
    bool kept, fresh_try;    /* on a connection that was used before; it had to be opened anew        */
};

struct drive {
    const struct load_opts *o;
    enum mode mode;
    struct expect *x;
    struct report *r;
    struct rss_watch rss;
    struct addrinfo *where;
    int ep;
    struct conn *conn;
    uint32_t n_conn, active;
    uint64_t next, n, end_ns; /* requests begun, to begin; or until when                              */
    uint64_t heard_ns;        /* the server's newest sign of life, on whichever connection            */
    bool reached;
};

/* ---- connections ---- */

static void close_conn(struct conn *c, bool reset)
{
    struct linger now = { 1, 0 };
    if (c->fd < 0)
        return;
    if (reset)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->fd);
    c->fd = -1;
}

static void watch(struct drive *d, struct conn *c, uint32_t events, int op)
{
    struct epoll_event ev = { .events = events, .data.ptr = c };
    epoll_ctl(d->ep, op, c->fd, &ev);
}

static void finish(struct drive *d, struct conn *c, bool keep)
{
    if (!keep)
        close_conn(c, false);
    c->phase = FREE;
    d->active--;
}

static void open_conn(struct drive *d, struct conn *c)
{
    int small = SLOW_BUFFER, one = 1;
    c->fd = socket(d->where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        report_wrong(d->r, OUT_UNREACHABLE, "request %llu: socket: %s", (unsigned long long)c->i, strerror(errno));
        finish(d, c, false);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (c->q.how == BE_SLOW)
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    c->kept = false;
    c->phase = CONNECT;
    watch(d, c, EPOLLOUT, EPOLL_CTL_ADD);
    if (connect(c->fd, d->where->ai_addr, d->where->ai_addrlen) && errno != EINPROGRESS) {
        report_wrong(d->r, OUT_UNREACHABLE, "request %llu: %s", (unsigned long long)c->i, strerror(errno));
        finish(d, c, false);
    }
}

static void send_again(struct drive *d, struct conn *c)
{
    c->sent = c->received = 0;
    c->start_ns = c->last_ns = clock_ns();
    c->text_ns = c->sent_ns = c->wake_ns = 0;
    response_begin(&c->r);
    if (c->fd >= 0) {
        c->phase = SEND;
        watch(d, c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
    } else {
        open_conn(d, c);
    }
}

static void begin(struct drive *d, struct conn *c)
{
    const struct load_opts *o = d->o;
    c->i = d->next++;
    c->rng = rng_of(o->seed, RNG_CONN, c->i);
    c->pauses = 0;
    c->q.bytes.n = 0;
    c->q.how = BE_GOOD;
    switch (d->mode) {
    case LOAD: mix_request(o, c->i, &c->q); break;
    case SOLO: mix_distinct(o, (uint32_t)c->i, &c->q); break;
    case FUZZ: fuzz_request(o, o->only >= 0 ? (uint64_t)o->only : c->i, &c->q.bytes); break;
    case HEALTH: bytes_text(&c->q.bytes, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); break;
    }
    if (o->only >= 0 && d->mode == FUZZ)
        fwrite(c->q.bytes.p, 1, c->q.bytes.n, stdout);
    d->active++;
    d->r->sent += d->mode != HEALTH;
    c->fresh_try = false;
    c->kept = c->fd >= 0;
    if (c->kept && (c->q.how == BE_SLOW || rng_percent(&c->rng, 30))) {
        close_conn(c, false);
        c->kept = false;
    }
    send_again(d, c);
}

/* ---- ends ---- */

static void count_answer(struct drive *d, struct conn *c)
{
    struct report *r = d->r;
    uint64_t now = clock_ns();
    if (c->r.completion_tokens > 0)
        r->tokens += (uint64_t)c->r.completion_tokens;
    if (c->r.prompt_tokens > 0)
        r->prompt_tokens += (uint64_t)c->r.prompt_tokens;
    if (c->r.cached_tokens > 0)
        r->cached_tokens += (uint64_t)c->r.cached_tokens;
    if (c->q.how == BE_GOOD)
        histogram_add(&r->whole, now - c->start_ns);
}

static void judge_good(struct drive *d, struct conn *c)
{
    const char *why;
    if (c->r.broken || !c->r.finished) {
        report_wrong(d->r, OUT_BROKEN, "request %llu: %s", (unsigned long long)c->i,
                     c->r.broken ? c->r.error : "the stream ended without [DONE]");
        return;
    }
    count_answer(d, c);
    if (d->mode == SOLO)
        expect_set(d->x, c->q.distinct, &c->r);
    if (d->mode == LOAD && d->x && (why = expect_differs(d->x, &c->q, &c->r, true))) {
        report_wrong(d->r, OUT_DIFFERENT, "%s", why);
        return;
    }
    d->r->verified += d->mode == LOAD && d->x;
    d->r->outcome[OUT_COMPLETE]++;
}

static void judge_fuzz(struct drive *d, struct conn *c)
{
    int s = c->r.status;
    if (s >= 500)
        report_wrong(d->r, OUT_SERVER_ERROR, "status %d: --only %llu shows it", s, (unsigned long long)c->i);
    else
        d->r->outcome[s >= 400 ? OUT_REJECTED : s ? OUT_VALID : OUT_CLOSED]++;
}

/* The answer is complete, or the connection ended. */
static void answered(struct drive *d, struct conn *c)
{
    struct report *r = d->r;
    int s = c->r.status;
    unsigned long long i = c->i;
    r->status[s] += d->mode != HEALTH;
    if (d->mode == FUZZ)
        judge_fuzz(d, c);
    else if (!s)
        report_wrong(r, OUT_BROKEN, "request %llu: closed without an answer", i);
    else if (s >= 500)
        report_wrong(r, OUT_SERVER_ERROR, "request %llu: status %d: %s", i, s, c->r.error);
    else if (s == 429)
        r->outcome[OUT_REFUSED]++;
    else if (c->q.how == BE_BAD && s >= 400)
        r->outcome[OUT_REJECTED]++;
    else if (c->q.how == BE_BAD || s != 200)
        report_wrong(r, OUT_UNEXPECTED, "request %llu: status %d: %s%.200s", i, s, c->r.error,
                     c->q.how == BE_BAD ? c->q.bytes.p : "");
    else if (d->mode != HEALTH)
        judge_good(d, c);
}

static void complete(struct drive *d, struct conn *c)
{
    if (c->r.status == 429 && d->o->retry && d->mode != FUZZ) {
        d->r->retries++;
        d->r->status[429]++;
        close_conn(c, false);
        c->phase = WAIT;
        c->wake_ns = clock_ns() + MAX(c->r.retry_after, 1u) * 1000 * MS;
        return;
    }
    if (c->kept && !c->r.status && !c->fresh_try && d->mode != FUZZ) { /* it was closed before we came */
        close_conn(c, false);
        c->fresh_try = true;
        send_again(d, c);
        return;
    }
    answered(d, c);
    finish(d, c, d->mode != FUZZ && c->r.done && c->r.keep_alive && !c->r.broken);
}

static void dropped(struct drive *d, struct conn *c)
{
    const char *why;
    if (c->r.broken && c->r.done) {
        report_wrong(d->r, OUT_BROKEN, "request %llu, which went away: %s", (unsigned long long)c->i, c->r.error);
    } else if (c->r.status >= 500) {
        report_wrong(d->r, OUT_SERVER_ERROR, "request %llu, which went away: status %d", (unsigned long long)c->i,
                     c->r.status);
    } else if (d->x && c->r.status == 200 && (why = expect_differs(d->x, &c->q, &c->r, false))) {
        report_wrong(d->r, OUT_DIFFERENT, "%s, so far", why);
    } else {
        d->r->verified_parts += d->x && c->r.status == 200;
        d->r->outcome[OUT_DROPPED]++;
    }
    finish(d, c, false);
}

static void drop(struct drive *d, struct conn *c)
{
    if (c->q.drop_how == DROP_HALF) {
        shutdown(c->fd, SHUT_WR);
        c->phase = ENDING;
        watch(d, c, EPOLLIN, EPOLL_CTL_MOD);
        return;
    }
    close_conn(c, c->q.drop_how == DROP_RST);
    dropped(d, c);
}

static void hangs(struct drive *d, struct conn *c)
{
    static const char *const where[] = { "", "", "connecting", "sending", "waiting for bytes", "half closed" };
    report_wrong(d->r, OUT_HANGS, "request %llu: %u s %s, status %d, %zu bytes so far, nothing on any connection",
                 (unsigned long long)c->i, d->o->timeout_s, where[c->phase], c->r.status, c->received);
    close_conn(c, true);
    finish(d, c, false);
}

/* ---- events ---- */

static void on_connect(struct drive *d, struct conn *c)
{
    int failed = 0;
    socklen_t n = sizeof failed;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failed, &n);
    if (failed) {
        report_wrong(d->r, OUT_UNREACHABLE, "request %llu: %s", (unsigned long long)c->i, strerror(failed));
        finish(d, c, false);
        return;
    }
    d->reached = true;
    c->phase = SEND;
    c->last_ns = d->heard_ns = clock_ns();
    watch(d, c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

static void on_writable(struct drive *d, struct conn *c)
{
    bool cut = c->q.how == BE_DROP && c->q.drop_at == DROP_IN_BODY;
    size_t end = cut ? c->q.drop_bytes : c->q.bytes.n;
    ssize_t n = end > c->sent ? send(c->fd, c->q.bytes.p + c->sent, end - c->sent, MSG_NOSIGNAL) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        c->sent += (size_t)n;
        c->last_ns = clock_ns();
    }
    if (n >= 0 && c->sent < end)
        return;
    if (cut && n >= 0) {
        drop(d, c);
        return;
    }
    c->phase = READ; /* also after an error: the answer may have come before */
    c->sent_ns = clock_ns();
    watch(d, c, EPOLLIN, EPOLL_CTL_MOD);
}

static void take_times(struct drive *d, struct conn *c, uint32_t texts_before)
{
    uint64_t now = c->last_ns;
    if (c->q.how != BE_GOOD || d->mode == FUZZ || d->mode == HEALTH)
        return;
    if (!c->received)
        histogram_add(&d->r->first_byte, now - c->start_ns);
    if (c->r.n_texts == texts_before || !c->r.events)
        return;
    histogram_add(c->text_ns ? &d->r->between : &d->r->first_text, now - (c->text_ns ? c->text_ns : c->start_ns));
    c->text_ns = now;
}

static void on_bytes(struct drive *d, struct conn *c, const char *buf, size_t n)
{
    uint32_t texts = c->r.n_texts;
    c->last_ns = d->heard_ns = clock_ns();
    response_feed(&c->r, buf, n);
    take_times(d, c, texts);
    c->received += n;
    if (c->phase == ENDING && d->mode != FUZZ) {
        if (c->r.done)
            dropped(d, c);
    } else if (c->r.done || c->r.broken || (d->mode == FUZZ && c->r.head_done)) {
        complete(d, c);
    } else if (c->q.how == BE_DROP && c->q.drop_at == DROP_IN_STREAM && c->received >= c->q.drop_bytes) {
        drop(d, c);
    } else if (c->q.how == BE_SLOW && c->pauses++ < SLOW_PAUSES) {
        c->wake_ns = c->last_ns + (1 + rng_below(&c->rng, 80)) * MS;
        watch(d, c, 0, EPOLL_CTL_MOD);
    }
}

static void on_readable(struct drive *d, struct conn *c)
{
    static char buf[65536];
    ssize_t n = recv(c->fd, buf, c->q.how == BE_SLOW ? SLOW_READ : sizeof buf, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        on_bytes(d, c, buf, (size_t)n);
        return;
    }
    if (c->phase == ENDING && d->mode != FUZZ) {
        dropped(d, c);
        return;
    }
    response_eof(&c->r);
    complete(d, c);
}

static void on_event(struct drive *d, struct conn *c, uint32_t events)
{
    if (c->phase == CONNECT) {
        on_connect(d, c);
        return;
    }
    if (c->phase == SEND && events & EPOLLOUT)
        on_writable(d, c);
    if (c->phase >= SEND && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        on_readable(d, c);
}

/* A request may wait for as long as the server works for others, however slowly. A lost one is found all the same: requests
 * are so many, and when it alone is left nothing moves any more. */
static bool is_stuck(const struct drive *d, const struct conn *c, uint64_t now)
{
    return now - MAX(c->last_ns, d->heard_ns) > d->o->timeout_s * 1000 * MS;
}

static void on_tick(struct drive *d, struct conn *c, uint64_t now)
{
    if (c->phase == FREE)
        return;
    if (c->wake_ns) {
        if (now < c->wake_ns)
            return;
        c->wake_ns = 0;
        c->last_ns = now;
        if (c->phase == WAIT)
            send_again(d, c);
        else
            watch(d, c, EPOLLIN, EPOLL_CTL_MOD);
        return;
    }
    if (c->phase == READ && c->q.how == BE_DROP && c->q.drop_at == DROP_QUEUED &&
        now - c->sent_ns >= c->q.drop_ms * MS) {
        drop(d, c);
    } else if (c->phase == READ && d->mode == FUZZ && now - c->last_ns >= FUZZ_PATIENCE_MS * MS) {
        shutdown(c->fd, SHUT_WR); /* what is not complete yet never will be */
        c->phase = ENDING;
    } else if (is_stuck(d, c, now)) {
        hangs(d, c);
    }
}

/* ---- the loop ---- */

static bool more(const struct drive *d, uint64_t now)
{
    return d->end_ns ? now < d->end_ns : d->next < d->n;
}

/* Nobody is there at all. */
static bool lost(const struct drive *d)
{
    return !d->reached && d->r->outcome[OUT_UNREACHABLE];
}

static void loop(struct drive *d)
{
    struct epoll_event ev[64];
    uint64_t now = clock_ns(), ticked = 0;
    while (d->active || more(d, now)) {
        for (uint32_t k = 0; k < d->n_conn && more(d, now) && !lost(d); k++)
            if (d->conn[k].phase == FREE)
                begin(d, &d->conn[k]);
        int n = epoll_wait(d->ep, ev, ARRAY_LEN(ev), TICK_MS);
        for (int k = 0; k < n; k++)
            on_event(d, ev[k].data.ptr, ev[k].events);
        now = clock_ns();
        if (now - ticked < TICK_MS * MS)
            continue;
        ticked = now;
        rss_sample(&d->rss, d->r, now);
        for (uint32_t k = 0; k < d->n_conn; k++)
            on_tick(d, &d->conn[k], now);
        if (lost(d))
            break;
    }
}

static int run(struct drive *d, struct err *e)
{
    const struct load_opts *o = d->o;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    int rc = getaddrinfo(o->host, o->port, &hints, &d->where);
    if (rc)
        return err_set(e, -EINVAL, "loadgen: %s: %s", o->host, gai_strerror(rc));
    d->ep = epoll_create1(EPOLL_CLOEXEC);
    d->conn = calloc(d->n_conn, sizeof *d->conn);
    rc = d->ep < 0 ? -errno : !d->conn ? -ENOMEM : 0;
    for (uint32_t k = 0; !rc && k < d->n_conn; k++)
        d->conn[k].fd = -1;
    uint64_t start = clock_ns();
    if (!rc) {
        d->rss.pid = o->watch_pid;
        d->end_ns = o->seconds && d->mode == LOAD ? start + o->seconds * 1000 * MS : 0;
        loop(d);
    }
    if (d->mode != HEALTH)
        d->r->wall_ns = clock_ns() - start;
    for (uint32_t k = 0; d->conn && k < d->n_conn; k++) {
        close_conn(&d->conn[k], false);
        request_free(&d->conn[k].q);
        response_free(&d->conn[k].r);
    }
    free(d->conn);
    if (d->ep >= 0)
        close(d->ep);
    freeaddrinfo(d->where);
    if (rc)
        return err_set(e, rc, "loadgen: %s", strerror(-rc));
    return d->reached ? 0 : err_set(e, -ECONNREFUSED, "loadgen: nobody answers at %s:%s", o->host, o->port);
}

int drive_load(const struct load_opts *o, struct expect *x, struct report *r, struct err *e)
{
    struct drive d = { .o = o, .mode = LOAD, .x = x, .r = r, .n_conn = o->connections, .n = o->n };
    return run(&d, e);
}

int drive_solo(const struct load_opts *o, struct expect *x, struct report *r, struct err *e)
{
    struct drive d = { .o = o, .mode = SOLO, .x = x, .r = r, .n_conn = 1, .n = o->distinct };
    return run(&d, e);
}

int drive_fuzz(const struct load_opts *o, struct report *r, struct err *e)
{
    bool one = o->only >= 0;
    struct drive d = { .o = o, .mode = FUZZ, .r = r, .n_conn = one ? 1 : o->connections, .n = one ? 1 : o->fuzz };
    struct drive health = { .o = o, .mode = HEALTH, .r = r, .n_conn = 1, .n = 1 };
    int rc = run(&d, e);
    return rc ? rc : run(&health, e); /* it must be alive after */
}
