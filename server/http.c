#include "server/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/http_priv.h"

enum {
    CONN_MEMORY = 65536, /* for the head of a request, and the piece of the answer that is on its way  */
    CONN_SPARE = 64,     /* beyond max_connections these are told so; further ones wait in the kernel  */
    FD_SPARE = 256,      /* descriptors of everything else in the process                              */
};

/* ---- connections ---- */

static void name_peer(struct conn *c, int fd)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = sizeof a;
    char text[INET6_ADDRSTRLEN];
    snprintf(c->peer, sizeof c->peer, "unix");
    if (getpeername(fd, (struct sockaddr *)&a, &n))
        return;
    if (a.ss_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&a;
        snprintf(c->peer, sizeof c->peer, "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text),
                 ntohs(v4->sin_port));
        c->peer_hash = XXH3_64bits(&v4->sin_addr, 4);
    } else if (a.ss_family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
        snprintf(c->peer, sizeof c->peer, "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text),
                 ntohs(v6->sin6_port));
        c->peer_hash = XXH3_64bits(&v6->sin6_addr, 8); /* one customer has the other half */
    }
}

/* libmicrohttpd would answer another version of HTTP with 505, and is silent about TLS on a plain port. NULL: fine. */
static const char *wrong_protocol(const char *s, size_t n)
{
    if (n >= 2 && s[0] == 0x16 && s[1] == 3)
        return "this port speaks plain HTTP, not TLS: use http://, or start zinc serve with --tls-cert and --tls-key";
    while (n && (*s == '\r' || *s == '\n'))
        s++, n--;
    const char *end = memchr(s, '\n', n);
    if (!end)
        return NULL;
    end -= end > s && end[-1] == '\r';
    const char *v = end - 8;
    if (v > s && v[-1] == ' ' && memcmp(v, "HTTP/", 5) == 0 && v[5] != '1')
        return "only HTTP/1.0 and HTTP/1.1 are spoken here";
    return NULL;
}

/* The first bytes without taking them. The first ones are there already (listen.c); a long line may be on its way. */
static size_t peek(int fd, char *s, size_t cap)
{
    enum { LONG_LINE = 1000, TRIES = 3 };
    ssize_t n = 0;
    for (int i = 0; i < TRIES; i++) {
        n = recv(fd, s, cap, MSG_PEEK | MSG_DONTWAIT);
        if (n < LONG_LINE || (size_t)n == cap || memchr(s, '\n', (size_t)n))
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return n > 0 ? (size_t)n : 0;
}

static void refuse_protocol(struct http *h, int fd)
{
    char s[CONN_MEMORY], head[256];
    size_t n = h->tls.cert ? 0 : peek(fd, s, sizeof s);
    const char *wrong = n ? wrong_protocol(s, n) : NULL;
    if (!wrong)
        return;
    char *text = api_error_json(400, NULL, NULL, wrong);
    int len = snprintf(head, sizeof head, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
                                          "Connection: close\r\nContent-Length: %zu\r\n\r\n", text ? strlen(text) : 0);
    struct iovec part[2] = { { head, (size_t)len }, { text, text ? strlen(text) : 0 } };
    struct msghdr m = { .msg_iov = part, .msg_iovlen = 2 };
    if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_debug(SERVER, "a connection that does not speak HTTP/1 left at once");
    free(text);
    shutdown(fd, SHUT_RDWR); /* what libmicrohttpd would say is not sent any more */
    metrics_rejected(h->metrics);
}

static void on_connection(void *cls, struct MHD_Connection *mc, void **context, enum MHD_ConnectionNotificationCode why)
{
    struct http *h = cls;
    struct conn *c = *context;
    if (why == MHD_CONNECTION_NOTIFY_CLOSED) {
        atomic_fetch_sub(&h->connections, 1);
        if (c)
            watch_remove(h->watch, &c->w);
        free(c);
        return;
    }
    int fd = MHD_get_connection_info(mc, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    atomic_fetch_add(&h->connections, 1);
    c = calloc(1, sizeof *c);
    if (c && watch_add(h->watch, &c->w, fd, clock_ns() + 2 * h->o.idle_s * 1000000000ull)) {
        free(c);
        c = NULL;
    }
    *context = c; /* without one its requests are closed */
    if (!c)
        return;
    name_peer(c, fd);
    refuse_protocol(h, fd);
}

/* Paths are decoded in http_check.c, which refuses what cannot be decoded. */
static size_t leave_escaped(void *cls, struct MHD_Connection *c, char *s)
{
    (void)cls, (void)c;
    return strlen(s);
}

static __thread char last_message[256]; /* of libmicrohttpd, for the line about a failed start */

__attribute__((format(printf, 2, 0))) static void on_message(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    vsnprintf(last_message, sizeof last_message, fmt, ap);
    last_message[strcspn(last_message, "\n")] = 0;
    log_debug(SERVER, "http: %s", last_message);
}

/* ---- start and end ---- */

static void raise_fd_limit(uint64_t want)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= want)
        return;
    l.rlim_cur = l.rlim_max == RLIM_INFINITY ? want : MIN((rlim_t)want, l.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur < want)
        log_warn(SERVER, "%llu open files allowed, %llu wanted for all connections (ulimit -n)",
                 (unsigned long long)l.rlim_cur, (unsigned long long)want);
}

static int start_daemon(struct http *h, struct err *e)
{
    struct MHD_OptionItem extra[4] = { { MHD_OPTION_END, 0, NULL } };
    uint32_t n = 0;
    if (h->o.threads > 1)
        extra[n++] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, h->o.threads, NULL };
    if (h->tls.cert) {
        extra[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, h->tls.cert };
        extra[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, h->tls.key };
    }
    extra[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    h->mhd = MHD_start_daemon(
        flags | (h->tls.cert ? MHD_USE_TLS : 0), 0, NULL, NULL, request_handle, h, MHD_OPTION_EXTERNAL_LOGGER,
        on_message, NULL, MHD_OPTION_LISTEN_SOCKET, h->listener.fd, MHD_OPTION_NOTIFY_COMPLETED, request_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL,
        MHD_OPTION_CONNECTION_LIMIT, h->o.max_connections + CONN_SPARE, MHD_OPTION_CONNECTION_TIMEOUT, h->o.idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY, extra, MHD_OPTION_END);
    if (h->mhd)
        return 0;
    if (h->tls.cert)
        return err_set(e, -EINVAL, "TLS: %s and %s were refused (%s): is the key the certificate's? openssl x509 "
                       "-noout -pubkey -in CERT and openssl pkey -pubout -in KEY must print the same",
                       h->o.tls_cert, h->o.tls_key, last_message);
    return err_set(e, -EIO, "server: HTTP cannot start: %s", last_message);
}

static int open_all(struct http *h, struct err *e)
{
    int rc = auth_create(h->o.api_keys, h->o.n_api_keys, h->o.api_key_file, &h->auth, e);
    if (!rc)
        rc = tls_read(h->o.tls_cert, h->o.tls_key, &h->tls, e);
    if (!rc && !(h->metrics = metrics_create()))
        rc = err_set(e, -ENOMEM, "server: out of memory");
    if (!rc)
        rc = listener_open(h->o.host, h->o.port, h->tls.cert != NULL, &h->listener, e);
    if (!rc)
        rc = watch_create(&h->watch, e);
    if (!rc)
        rc = begin_pool_create(&h->begin, e);
    return rc ? rc : start_daemon(h, e);
}

int http_start(const struct server_opts *o, struct http **out, struct err *e)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(e, -ENOMEM, "server: out of memory");
    h->o = *o;
    h->listener.fd = -1;
    h->o.host = o->host ? o->host : "127.0.0.1";
    h->o.max_body = o->max_body ? o->max_body : 8u << 20;
    h->o.max_connections = o->max_connections ? o->max_connections : 1024;
    h->o.threads = o->threads ? o->threads : 2;
    h->o.idle_s = o->idle_s ? o->idle_s : 60;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed[2] = { (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, clock_ns() };
    atomic_store(&h->next_id, XXH3_64bits(seed, sizeof seed));
    raise_fd_limit((uint64_t)h->o.max_connections + CONN_SPARE + FD_SPARE);
    int rc = open_all(h, e);
    if (rc) {
        http_destroy(h);
        return rc;
    }
    *out = h;
    return 0;
}

const char *http_url(const struct http *h)
{
    return h->listener.url;
}

bool http_is_open(const struct http *h)
{
    return !h->listener.local && !auth_required(h->auth);
}

void http_serve(struct http *h, const struct http_backend *b)
{
    h->b = *b;
    atomic_store(&h->state, HTTP_READY);
}

void http_drain(struct http *h)
{
    atomic_store(&h->state, HTTP_DRAINING);
    MHD_quiesce_daemon(h->mhd);
    listener_stop(&h->listener);
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

uint32_t http_stop(struct http *h, uint64_t timeout_ns)
{
    if (!h->mhd)
        return 0;
    uint64_t end = clock_ns() + timeout_ns;
    while (atomic_load(&h->answering) && clock_ns() < end)
        nap();
    uint32_t cut = atomic_load(&h->answering);
    atomic_store(&h->state, HTTP_STOPPING);
    /* libmicrohttpd must not be stopped with suspended connections; from here on none begins to wait. */
    for (watch_cut(h->watch); atomic_load(&h->suspended); watch_cut(h->watch))
        nap();
    MHD_stop_daemon(h->mhd);
    h->mhd = NULL;
    return cut;
}

void http_destroy(struct http *h)
{
    if (!h)
        return;
    http_stop(h, 0);
    begin_pool_destroy(h->begin);
    watch_destroy(h->watch);
    listener_close(&h->listener);
    metrics_destroy(h->metrics);
    auth_destroy(h->auth);
    tls_free(&h->tls);
    free(h);
}
