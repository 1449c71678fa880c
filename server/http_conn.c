/* One connection: a state machine over a socket that does not block. conn_step does what can be done now and tells epoll
 * what to wait for; while an answer is made or sent nothing is read, so whoever asks faster than they are answered waits. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/http_priv.h"
#include "server/sys.h"

enum { FIRST_IN = 4096, READ_ROOM = 16384, SENDS_AT_ONCE = 8, READS_AT_ONCE = 16, HEAD_S = 30, LINGER_S = 2,
       SLOWEST_BODY = 16384 /* bytes a second */ };
#define SECOND 1000000000ull

/* What to do next. */
enum step { GO_ON, WAIT, CLOSE };

/* ---- bytes ---- */

static ssize_t receive(struct conn *c, void *buf, size_t n)
{
    ssize_t got = c->tls ? tls_recv(c->tls, buf, n) : sys->recv(c->fd, buf, n, 0);
    if (got > 0)
        c->moved_ns = clock_ns();
    return got;
}

static ssize_t transmit(struct conn *c, const void *buf, size_t n)
{
    ssize_t sent = c->tls ? tls_send(c->tls, buf, n) : sys->send(c->fd, buf, n, MSG_NOSIGNAL);
    if (sent > 0)
        c->moved_ns = clock_ns();
    return sent;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static enum step wait_to_read(struct conn *c)
{
    return loop_watch(c, (c->tls && tls_wants_write(c->tls) ? EPOLLOUT : EPOLLIN) | EPOLLRDHUP) ? CLOSE : WAIT;
}

/* Of what `in` holds, the first bytes belong to every connection; the budget pays for more. */
static uint64_t to_pay(size_t cap)
{
    return cap > FIRST_IN ? cap - FIRST_IN : 0;
}

/* Room for n more bytes. */
static int grow_in(struct conn *c, size_t n)
{
    size_t cap = MAX(c->cap_in, (size_t)FIRST_IN);
    while (cap - c->n_in < n)
        cap *= 2;
    if (cap == c->cap_in)
        return 0;
    uint64_t pay = to_pay(cap) - to_pay(c->cap_in);
    int rc = budget_take(c->h->budget, pay);
    char *more = rc ? NULL : realloc(c->in, cap);
    if (!more && !rc)
        budget_give(c->h->budget, pay);
    if (!more)
        return -ENOMEM;
    c->in = more;
    c->cap_in = cap;
    return 0;
}

static void drop_in(struct conn *c)
{
    budget_give(c->h->budget, to_pay(c->cap_in));
    free(c->in);
    c->in = NULL;
    c->n_in = c->cap_in = 0;
}

static enum step fill(struct conn *c, size_t room)
{
    if (grow_in(c, room))
        return CLOSE;
    ssize_t n = receive(c, c->in + c->n_in, c->cap_in - c->n_in);
    if (n < 0 && would_block())
        return wait_to_read(c);
    if (n <= 0)
        return CLOSE;
    c->n_in += (size_t)n;
    return GO_ON;
}

static enum step wait_to_send(struct conn *c)
{
    atomic_store(&c->busy, false); /* it is the client that we wait for */
    bool told = c->in_end || c->phase == CONN_BODY; /* what came before its end is read when this is sent */
    return loop_watch(c, EPOLLOUT | (told ? 0 : EPOLLRDHUP)) ? CLOSE : WAIT;
}

/* *sent of the n bytes went. */
static enum step send_some(struct conn *c, const char *s, size_t n, size_t *sent)
{
    ssize_t k = transmit(c, s, n);
    *sent = k > 0 ? (size_t)k : 0;
    c->blocked = k < 0; /* then the same bytes must be tried again: TLS has them in a record */
    if (k >= 0)
        return GO_ON;
    if (!would_block())
        return CLOSE;
    return wait_to_send(c);
}

static enum step send_mem(struct conn *c)
{
    size_t sent;
    enum step s = send_some(c, c->mem, c->n_mem, &sent);
    c->mem += sent;
    c->n_mem -= sent;
    return s;
}

/* ---- phases ---- */

static void enter(struct conn *c, enum conn_phase phase, uint64_t seconds)
{
    c->phase = phase;
    c->moved_ns = clock_ns();
    c->deadline_ns = c->moved_ns + seconds * SECOND;
    atomic_store(&c->busy, phase == CONN_ANSWER);
}

static enum step start_answer(struct conn *c)
{
    if (!c->out && !(c->out = malloc(CONN_OUT)))
        return CLOSE;
    c->at_out = c->n_out = 0;
    enter(c, CONN_ANSWER, 0);
    return GO_ON;
}

static enum step refuse_all(struct conn *c, const struct http_wrong *w)
{
    metrics_rejected(c->h->metrics);
    if (start_answer(c) == CLOSE)
        return CLOSE;
    c->keep = false;
    reply_wrong(c, w);
    return GO_ON;
}

/* Is the answer due before the body? Then the connection ends with it, so only where it must be: it is too much to read,
 * or the client waits to be told whether to send it. */
static bool refuse_early(const struct conn *c)
{
    const struct http_head *h = &c->head;
    return c->r->refused.status && (h->length > DRAIN_BODIES * c->h->o.max_body || h->expects || c->r->refused.status == 411);
}

static enum step start_request(struct conn *c, size_t n)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct http *h = c->h;
    c->n_head = n;
    c->keep = c->head.keep_alive;
    c->chunks = (struct http_chunks){ 0 };
    c->body_left = c->head.chunked ? UINT64_MAX : c->head.length;
    if (!(c->r = request_create(c)))
        return CLOSE;
    enter(c, CONN_BODY, h->o.idle_s + MIN(c->body_left, h->o.max_body) / SLOWEST_BODY);
    if (refuse_early(c)) {
        c->keep = c->keep && !c->body_left && c->r->refused.status != 411;
        if (start_answer(c) == CLOSE)
            return CLOSE;
        request_answer(c->r);
    } else if (c->head.expects && c->body_left && c->n_in == n) {
        c->mem = go_on;
        c->n_mem = sizeof go_on - 1;
    }
    return GO_ON;
}

static enum step step_head(struct conn *c)
{
    struct http_wrong w;
    ssize_t n = c->n_in ? http_head_read(c->in, c->n_in, &c->seen, &c->head, &w) : 0;
    if (n > 0)
        return start_request(c, (size_t)n);
    if (n < 0)
        return refuse_all(c, &w);
    bool first = !c->n_in;
    enum step s = fill(c, MAX(1u, MIN((size_t)READ_ROOM, c->cap_in - c->n_in)));
    if (s == GO_ON && first)
        enter(c, CONN_HEAD, MIN((uint32_t)HEAD_S, c->h->o.idle_s));
    return s;
}

/* Takes what there is of the body out of `in`. */
static int feed(struct conn *c, bool *end, struct http_wrong *w)
{
    const char *s = c->in + c->n_head, *data = s;
    size_t left = c->n_in - c->n_head, n_data = 0;
    ssize_t n = 0;
    for (*end = !c->head.chunked && !c->body_left; left && !*end; s += n, left -= (size_t)n) {
        if (c->head.chunked) {
            if ((n = http_chunks_read(&c->chunks, s, left, &data, &n_data, end, w)) < 0)
                return -EINVAL;
        } else {
            n = (ssize_t)MIN((uint64_t)left, c->body_left);
            data = s;
            n_data = (size_t)n;
            c->body_left -= n_data;
            *end = !c->body_left;
        }
        if (n_data && !request_body(c->r, data, n_data))
            return -EFBIG;
    }
    memmove(c->in + c->n_head, s, left);
    c->n_in = c->n_head + left;
    return 0;
}

static enum step step_body(struct conn *c)
{
    struct http_wrong w;
    bool end;
    if (c->n_mem) /* that it may go on */
        return send_mem(c);
    int rc = feed(c, &end, &w);
    if (rc == -EFBIG)
        return CLOSE;
    if (rc) {
        request_refuse(c->r, w.status, NULL, "%s", w.message);
        c->keep = false;
    } else if (!end) {
        return fill(c, READ_ROOM);
    }
    if (start_answer(c) == CLOSE)
        return CLOSE;
    request_answer(c->r);
    return GO_ON;
}

/* ---- answers ---- */

/* Pieces of the API's answer behind what is in `out`, each as a chunk where the length is not known. */
static enum step more_of_answer(struct conn *c)
{
    enum { MARK = 6 /* "xxxx\r\n" */ };
    static const char digits[] = "0123456789abcdef";
    size_t before = c->n_out;
    while (c->from_api && c->n_out < CONN_BLOCK) {
        char *to = c->out + c->n_out + (c->chunked ? MARK : 0);
        ssize_t n = request_read(c->r, to, CONN_BLOCK - 64);
        if (n == 0)
            break;
        if (n == API_CUT)
            return c->n_out ? GO_ON : CLOSE; /* what was said before is still sent */
        c->from_api = n > 0;
        if (c->chunked && n > 0) {
            for (int i = 0; i < 4; i++)
                c->out[c->n_out++] = digits[n >> (12 - 4 * i) & 15];
            memcpy(c->out + c->n_out, "\r\n", 2);
            memcpy(to + n, "\r\n", 2);
            c->n_out += (size_t)n + 4;
        } else if (c->chunked) {
            memcpy(c->out + c->n_out, "0\r\n\r\n", 5);
            c->n_out += 5;
        } else if (n > 0) {
            c->n_out += (size_t)n;
        }
    }
    return c->n_out > before || !c->from_api ? GO_ON : WAIT;
}

/* All is sent. */
static enum step end_answer(struct conn *c)
{
    if (c->r)
        request_end(c->r, false);
    c->r = NULL;
    free(c->out);
    c->out = NULL;
    if (!c->keep || c->in_end) {
        if (c->tls && tls_bye(c->tls) && would_block())
            return wait_to_send(c); /* and here again */
        if (sys->shutdown(c->fd, SHUT_WR))
            return CLOSE;
        enter(c, CONN_LINGER, LINGER_S);
        return GO_ON;
    }
    c->n_in -= c->n_head;
    memmove(c->in, c->in + c->n_head, c->n_in);
    c->n_head = c->seen = 0;
    if (!c->n_in)
        drop_in(c);
    enter(c, CONN_HEAD, c->n_in ? MIN((uint32_t)HEAD_S, c->h->o.idle_s) : c->h->o.idle_s);
    return GO_ON;
}

static enum step wait_for_answer(struct conn *c)
{
    atomic_store(&c->busy, true);
    return loop_watch(c, c->in_end ? EPOLLET : EPOLLRDHUP) ? CLOSE : WAIT;
}

static enum step step_answer(struct conn *c)
{
    size_t sent;
    enum step s;
    for (int i = 0; i < SENDS_AT_ONCE; i++) {
        if (c->r && !c->r->replied)
            request_answer(c->r);
        if (c->from_api && !c->at_out && !c->blocked && more_of_answer(c) == CLOSE)
            return CLOSE;
        if (c->at_out < c->n_out) {
            if ((s = send_some(c, c->out + c->at_out, c->n_out - c->at_out, &sent)) != GO_ON)
                return s;
            c->at_out += sent;
            if (c->at_out == c->n_out)
                c->at_out = c->n_out = 0;
        } else if (c->n_mem) {
            if ((s = send_mem(c)) != GO_ON)
                return s;
        } else if (c->from_api || (c->r && !c->r->replied)) {
            return wait_for_answer(c);
        } else {
            free(c->mem_owned);
            c->mem_owned = NULL;
            return end_answer(c);
        }
    }
    return wait_to_send(c); /* others first */
}

static enum step step_linger(struct conn *c)
{
    char scrap[8192];
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t n = sys->recv(c->fd, scrap, sizeof scrap, 0); /* what it says does not matter, TLS or not */
        if (n == 0 || (n < 0 && !would_block()))
            return CLOSE;
        if (n < 0)
            break;
    }
    return loop_watch(c, EPOLLIN) ? CLOSE : WAIT;
}

static enum step step_handshake(struct conn *c)
{
    if (tls_handshake(c->tls) == 0) {
        enter(c, CONN_HEAD, c->h->o.idle_s);
        return GO_ON;
    }
    return would_block() ? wait_to_read(c) : CLOSE;
}

/* ---- for the loop ---- */

/* The client closed its side: whoever waits for the API's answer does not any more; what needs no work is still sent. */
static bool leaves(struct conn *c)
{
    c->in_end = true;
    return c->phase == CONN_ANSWER && c->r && c->r->to_api && !c->r->refused.status;
}

void conn_step(struct conn *c, uint32_t events)
{
    bool gone = events & (EPOLLERR | EPOLLHUP);
    if (gone || (events & EPOLLRDHUP && c->phase == CONN_ANSWER && leaves(c))) {
        conn_close(c);
        return;
    }
    enum step s = GO_ON;
    for (int i = 0; s == GO_ON && i < READS_AT_ONCE; i++)
        switch (c->phase) {
        case CONN_HANDSHAKE: s = step_handshake(c); break;
        case CONN_HEAD: s = step_head(c); break;
        case CONN_BODY: s = step_body(c); break;
        case CONN_ANSWER: s = step_answer(c); break;
        case CONN_LINGER: s = step_linger(c); break;
        }
    if (s == GO_ON && loop_watch(c, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) /* much comes from here: others first */
        s = CLOSE;
    if (s == CLOSE)
        conn_close(c);
}

void conn_keep_alive(struct conn *c, uint64_t now)
{
    bool waits = c->phase == CONN_ANSWER && c->r && !c->blocked && c->at_out == c->n_out && !c->n_mem;
    if (waits && request_keep_alive(c->r, now - MIN(now, c->moved_ns)))
        conn_step(c, 0);
}

bool conn_is_late(const struct conn *c, uint64_t now)
{
    bool quiet = c->moved_ns + c->h->o.idle_s * SECOND < now;
    if (c->phase == CONN_ANSWER)
        return quiet && c->events & EPOLLOUT;
    return quiet || c->deadline_ns < now;
}

void conn_finish(struct conn *c)
{
    drop_in(c);
    free(c->out);
    free(c->mem_owned);
    c->out = c->mem_owned = NULL;
}
