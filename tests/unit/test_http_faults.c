/* Each system call of the server fails, one at a time, in each way that its manual page tells: at the start (one line,
 * and nothing is left over), while it serves (answers are right or their connection breaks; what is no failure, as a
 * signal or a short count, breaks nothing) and at the end. */
#include "tests/unit/http_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "server/sys.h"
#include "tests/lib/run.h"

/* ---- a table whose calls fail when told to ---- */

enum call {
#define X(result, name, params, args) CALL_##name,
    SERVER_SYS_LIST(X)
#undef X
    N_CALLS
};
static const char *const call_name[] = {
#define X(result, name, params, args) #name,
    SERVER_SYS_LIST(X)
#undef X
};

enum { SHORT = 10000, EVER = -1 };

static struct {
    _Atomic int call, error; /* call -1: none fails           */
    _Atomic long at;         /* the how manyth; or EVER        */
    _Atomic long failed, n[N_CALLS];
} fault = { .call = -1 };

static void arm(int call, int error, long at)
{
    fault.call = -1;
    fault.error = error;
    fault.at = at;
    fault.failed = 0;
    for (int i = 0; i < N_CALLS; i++)
        fault.n[i] = 0;
    fault.call = call;
}

static void disarm(void)
{
    fault.call = -1;
}

/* 0: it goes through. */
static int fails(enum call c)
{
    long n = ++fault.n[c];
    if (fault.call != (int)c || (fault.at != EVER && fault.at != n))
        return 0;
    fault.failed++;
    if (fault.error > 0)
        errno = fault.error;
    return fault.error;
}

static int failure(enum call c, int error)
{
    return c == CALL_pthread_create || error < 0 ? error : -1;
}

#define X(result, name, params, args)                                                                                  \
    static result faulty_##name params                                                                                 \
    {                                                                                                                  \
        int failed = fails(CALL_##name);                                                                               \
        return failed ? failure(CALL_##name, failed) : server_sys_real.name args;                                      \
    }
SERVER_SYS_LIST(X)
#undef X

/* Those that can do less than was asked for. */
static ssize_t less_recv(int fd, void *p, size_t n, int flags)
{
    int how = fails(CALL_recv);
    return how && how != SHORT ? -1 : recv(fd, p, how ? MIN(n, 1u) : n, flags);
}
static ssize_t less_send(int fd, const void *p, size_t n, int flags)
{
    int how = fails(CALL_send);
    return how && how != SHORT ? -1 : send(fd, p, how ? MIN(n, 1u) : n, flags);
}
static ssize_t less_sendmsg(int fd, const struct msghdr *m, int flags)
{
    int how = fails(CALL_sendmsg);
    if (how == SHORT)
        return send(fd, m->msg_iov[0].iov_base, MIN(m->msg_iov[0].iov_len, 1u), flags);
    return how ? -1 : sendmsg(fd, m, flags);
}
static ssize_t less_read(int fd, void *p, size_t n)
{
    int how = fails(CALL_read);
    return how && how != SHORT ? -1 : read(fd, p, how && n > sizeof(uint64_t) ? 1 : n); /* an eventfd gives all of it */
}
static ssize_t less_write(int fd, const void *p, size_t n)
{
    int how = fails(CALL_write);
    if (how && how != EINTR && n == sizeof(uint64_t)) { /* an eventfd fails when it is full: who waits for it wakes */
        ck_assert_int_eq((int)write(fd, p, n), (int)n);
        errno = EAGAIN;
        return -1;
    }
    return how && how != SHORT ? -1 : write(fd, p, how && n > sizeof(uint64_t) ? 1 : n);
}
static int less_epoll_wait(int epoll, struct epoll_event *ev, int n, int ms)
{
    int how = fails(CALL_epoll_wait);
    return how && how != SHORT ? -1 : epoll_wait(epoll, ev, how ? 1 : n, ms);
}
static int less_close(int fd) /* it is closed all the same */
{
    int how = fails(CALL_close), rc = close(fd);
    if (how)
        errno = how;
    return how ? -1 : rc;
}

static const struct server_sys faulty = {
#define X(result, name, params, args) .name = faulty_##name,
    SERVER_SYS_LIST(X)
#undef X
};

static void use_faults(void)
{
    static struct server_sys table;
    table = faulty;
    table.recv = less_recv;
    table.send = less_send;
    table.sendmsg = less_sendmsg;
    table.read = less_read;
    table.write = less_write;
    table.epoll_wait = less_epoll_wait;
    table.close = less_close;
    server_sys_use(&table);
}

static const struct plan {
    enum call call;
    int errors[10];
} plans[] = {
    { CALL_socket, { EMFILE, ENFILE, ENOBUFS, ENOMEM, EACCES } },
    { CALL_bind, { EADDRINUSE, EACCES, EADDRNOTAVAIL, ENOMEM } },
    { CALL_listen, { EADDRINUSE } },
    { CALL_connect, { EINTR, EAGAIN, EACCES, ETIMEDOUT, ENOENT } },
    { CALL_accept4, { EINTR, EAGAIN, EMFILE, ENFILE, ENOMEM, ENOBUFS, ECONNABORTED, EPROTO, EPERM } },
    { CALL_setsockopt, { ENOBUFS, ENOPROTOOPT } },
    { CALL_getsockopt, { ENOBUFS } },
    { CALL_getsockname, { ENOBUFS } },
    { CALL_getpeername, { ENOBUFS, ENOTCONN } },
    { CALL_recv, { EINTR, EAGAIN, SHORT, ECONNRESET, ENOMEM, ETIMEDOUT } },
    { CALL_send, { EINTR, EAGAIN, SHORT, ECONNRESET, ENOMEM, ENOBUFS, EPIPE, ETIMEDOUT } },
    { CALL_sendmsg, { EINTR, EAGAIN, SHORT, ECONNRESET, ENOMEM, ENOBUFS, EPIPE, ETIMEDOUT } },
    { CALL_shutdown, { ENOTCONN } },
    { CALL_close, { EINTR, EIO } },
    { CALL_epoll_create1, { EMFILE, ENFILE, ENOMEM } },
    { CALL_epoll_ctl, { ENOMEM, ENOSPC } },
    { CALL_epoll_wait, { EINTR, SHORT } },
    { CALL_eventfd, { EMFILE, ENFILE, ENOMEM, ENODEV } },
    { CALL_open, { EINTR, EMFILE, ENFILE, ENOMEM, EACCES } },
    { CALL_read, { EINTR, EAGAIN, SHORT, EIO } },
    { CALL_write, { EINTR, EAGAIN, SHORT, EIO, ENOSPC } },
    { CALL_lstat, { EACCES, ENOMEM } },
    { CALL_unlink, { EACCES, EBUSY, EIO } },
    { CALL_rename, { EACCES, ENOSPC, EIO } },
    { CALL_getrlimit, { EFAULT } },
    { CALL_setrlimit, { EPERM } },
    { CALL_pthread_create, { EAGAIN } },
    { CALL_getaddrinfo, { EAI_AGAIN, EAI_FAIL, EAI_MEMORY, EAI_SYSTEM } },
    { CALL_getnameinfo, { EAI_MEMORY, EAI_OVERFLOW } },
};

/* ---- what the process holds ---- */

static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *d = opendir(path);
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

struct held {
    unsigned fds, threads, files;
};

static struct held held_now(void)
{
    return (struct held){ entries("/proc/self/fd"), entries("/proc/self/task"), entries(server_dir) };
}

/* A joined thread is listed for a moment longer; a connection's end takes the server a moment to see. */
static void check_held(const struct held *want, const char *what)
{
    struct held now = held_now();
    for (int i = 0; i < 300000 && (now.fds != want->fds || now.threads != want->threads); i++) {
        usleep(i < 100 ? 100 : 1000);
        now = held_now();
    }
    ck_assert_msg(now.fds == want->fds, "%s: %u descriptors, %u before", what, now.fds, want->fds);
    ck_assert_msg(now.threads == want->threads, "%s: %u threads, %u before", what, now.threads, want->threads);
    ck_assert_msg(now.files == want->files, "%s: %u files, %u before", what, now.files, want->files);
}

static const char *tell(int call, int error, long at)
{
    static const char *const over[] = { "TCP", "unix", "TLS" };
    static char text[128];
    snprintf(text, sizeof text, "%s: %s number %ld: %s", over[transport], call_name[call], at,
             error == SHORT ? "short" : error < 0 ? gai_strerror(error) : strerrorname_np(error));
    return text;
}

/* ---- a server ---- */

static char keys_path[64];

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void *own_id(void *id)
{
    *(pid_t *)id = gettid();
    return NULL;
}

static void prepare(enum transport over)
{
    pthread_t first; /* a sanitizer's own thread comes with it, and stays; this one is listed for a moment longer */
    pid_t id;
    char listed[64];
    ck_assert(!pthread_create(&first, NULL, own_id, &id) && !pthread_join(first, NULL));
    snprintf(listed, sizeof listed, "/proc/self/task/%d", (int)id);
    for (int i = 0; i < 300000 && access(listed, F_OK) == 0; i++)
        usleep(1000);
    transport = over;
    strcpy(server_dir + strlen(server_dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server_dir));
    snprintf(unix_path, sizeof unix_path, "%s/socket", server_dir);
    snprintf(cert_path, sizeof cert_path, "%s/cert", server_dir);
    snprintf(key_path, sizeof key_path, "%s/key", server_dir);
    snprintf(keys_path, sizeof keys_path, "%s/keys", server_dir);
    make_certificate();
    write_text(keys_path, "# who may\nanother\nsesame\n");
    use_faults();
}

static void clean_up(void)
{
    server_sys_use(NULL);
    unlink(unix_path);
    unlink(cert_path);
    unlink(key_path);
    unlink(keys_path);
    ck_assert_int_eq(rmdir(server_dir), 0);
}

/* A socket file whose server is gone: a start looks at it and replaces it. */
static void leave_dead_socket(void)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    unlink(unix_path);
    strcpy(a.sun_path, unix_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert(!bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 1));
    close(fd);
}

static int start(uint32_t threads, struct err *e)
{
    char host[80];
    struct server_opts o = { .threads = threads, .quiet = true, .api_key_file = keys_path };
    snprintf(host, sizeof host, "unix:%s", unix_path);
    o.host = transport == OVER_UNIX ? host : "127.0.0.1";
    if (transport == OVER_TLS) {
        o.tls_cert = cert_path;
        o.tls_key = key_path;
    }
    *e = (struct err){ 0 };
    server = NULL;
    int rc = http_start(&o, &server, e);
    if (rc)
        return rc;
    const char *url = http_url(server), *port = strrchr(url, ':');
    if (transport == OVER_UNIX)
        ck_assert_str_eq(url, host);
    else
        ck_assert_msg(strncmp(url, transport == OVER_TLS ? "https://127." : "http://127.", 11) == 0 && atoi(port + 1),
                      "it calls itself '%s'", url);
    server_port = (uint16_t)atoi(port + 1);
    struct http_backend b = { .ops = &api_backend, .self = (void *)&server_port, .sched = (void *)&server_port, .model = "m", .tier = "t" };
    http_serve(server, &b);
    return 0;
}

/* ---- a client ---- */

static struct client *try_open(void)
{
    enum transport over = transport;
    transport = over == OVER_TLS ? OVER_TCP : over;
    struct client *c = client_open(1);
    transport = over;
    if (over != OVER_TLS)
        return c;
    gnutls_certificate_allocate_credentials(&c->cred);
    gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(c->tls);
    gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->cred);
    gnutls_transport_set_int(c->tls, c->fd);
    int rc;
    while ((rc = gnutls_handshake(c->tls)) < 0 && !gnutls_error_is_fatal(rc) && rc != GNUTLS_E_AGAIN)
        ;
    ck_assert_int_ne(rc, GNUTLS_E_AGAIN); /* it said nothing in 20 seconds */
    return c;
}

/* Chunks put together, in place. */
static void unchunk(char *s)
{
    char *to = s, *end;
    size_t n;
    while ((n = strtoul(s, &end, 16)) > 0) {
        ck_assert_int_eq(strncmp(end, "\r\n", 2), 0);
        memmove(to, end + 2, n);
        to += n;
        s = end + 2 + n + 2;
    }
    *to = 0;
}

#define KEY "Host: localhost\r\nAuthorization: Bearer sesame\r\n"
enum { LONG = 40000 };

/* Asks for what comes back, a text of n letters that begins with `kind`. False: the connection broke. */
static bool ask(struct client *c, const char *kind, size_t n, const char *version, const char *more)
{
    char *text = malloc(n + 300), *head, *body;
    int k = snprintf(text, 300, "POST /v1/chat/completions HTTP/%s\r\n" KEY "%sContent-Length: %zu\r\n\r\n", version,
                     more, n);
    bool waits = strstr(more, "100-continue") != NULL, to_end = strcmp(version, "1.0") == 0;
    memset(text + k, 'x', n);
    memcpy(text + k, kind, strlen(kind));
    text[(size_t)k + n] = 0;
    client_send(c, text, (size_t)k + (waits ? 0 : n), SIZE_MAX);
    bool whole = true;
    while (waits && whole && c->n - c->at < 25)
        whole = client_more(c);
    if (waits && whole) {
        ck_assert_msg(strncmp(c->got + c->at, "HTTP/1.1 100 Continue\r\n\r\n", 25) == 0, "'%s'", c->got + c->at);
        client_send(c, text + k, n, SIZE_MAX);
    }
    int status = whole ? client_answer(c, &head, &body) : 0;
    if (status > 0) {
        ck_assert_msg(status == 200, "%d: %s", status, body);
        if (strstr(head, "chunked"))
            unchunk(body);
        if (to_end) { /* the end of the connection is that of the answer; TLS tells it from a broken one */
            while (client_more(c))
                ;
            whole = !c->tls || gnutls_record_recv(c->tls, text, 1) == 0;
            free(body);
            body = strdup(c->got + c->at);
        }
        ck_assert_msg(!whole || strcmp(body, text + k) == 0, "%zu bytes of '%.20s' came back as %zu: '%.60s'", n, kind,
                      strlen(body), body);
        free(head);
        free(body);
    }
    free(text);
    return whole && status > 0;
}

static bool ask_metrics(struct client *c)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\n" KEY "\r\n";
    char *head, *body;
    client_send(c, text, sizeof text - 1, SIZE_MAX);
    int status = client_answer(c, &head, &body);
    if (status <= 0)
        return false;
    ck_assert_int_eq(status, 200);
    ck_assert_ptr_nonnull(strstr(body, "\nzinc_http_requests_total"));
    free(head);
    free(body);
    return true;
}

/* All kinds of requests on one connection. False: it broke. */
static bool talk(void)
{
    struct client *c = try_open();
    bool whole = ask(c, "whole", 100, "1.1", "Expect: 100-continue\r\n") && ask(c, "stream", LONG, "1.1", "") &&
                 ask_metrics(c) && ask(c, "tools", 200, "1.1", "") && ask(c, "stream", 300, "1.0", "");
    struct pollfd p = { .fd = c->fd, .events = POLLIN };
    ck_assert_msg(whole || poll(&p, 1, 300000) == 1, "no answer, and no end of the connection");
    client_close(c);
    return whole;
}

/* ---- tests ---- */

START_TEST(each_call_has_its_errors)
{
    bool has[N_CALLS] = { [CALL_getrandom] = true }; /* the API's, which is not here: test_serve_faults.sh */
    for (size_t i = 0; i < ARRAY_LEN(plans); i++)
        has[plans[i].call] = plans[i].errors[0] != 0;
    for (int i = 0; i < N_CALLS; i++)
        ck_assert_msg(has[i], "%s: how can it fail?", call_name[i]);
}
END_TEST

/* What must not keep it from starting. */
static bool start_bears(int call, int error)
{
    return error == EINTR || error == SHORT || call == CALL_setsockopt || call == CALL_close ||
           call == CALL_getrlimit || call == CALL_setrlimit || call == CALL_shutdown;
}

static void start_once(int call, int error, long at)
{
    struct err e;
    struct rlimit few;
    leave_dead_socket();
    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = MIN(few.rlim_cur, 512u); /* of which it wants more */
    setrlimit(RLIMIT_NOFILE, &few);
    struct held before = held_now();
    arm(call, error, at);
    int rc = start(transport == OVER_TCP ? 1 : 2, &e);
    disarm();
    const char *what = tell(call, error, at);
    if (fault.failed && start_bears(call, error))
        ck_assert_msg(rc == 0, "%s: %s", what, e.msg);
    if (rc) {
        ck_assert_msg(rc < 0 && e.code == rc && *e.msg && !strchr(e.msg, '\n'), "%s: %d, '%s'", what, rc, e.msg);
        bool in_use = error == EADDRINUSE || error == EAGAIN;
        ck_assert_msg(!strstr(e.msg, "another server") || in_use, "%s: %s", what, e.msg);
        if (access(unix_path, F_OK)) /* the dead one may stay or go */
            before.files--;
    } else {
        ck_assert_msg(talk(), "%s: it started and does not answer", what);
        http_stop(server, 0);
        http_destroy(server);
        if (transport == OVER_UNIX)
            before.files--;
    }
    check_held(&before, what);
}

static void check_failed(const uint64_t *failed, const enum call *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(failed[list[i]], "no %s failed", call_name[list[i]]);
}

static void each_start(enum transport over)
{
    static const enum call all[] = { CALL_socket, CALL_bind, CALL_listen, CALL_close, CALL_open, CALL_read,
                                     CALL_epoll_create1, CALL_epoll_ctl, CALL_eventfd, CALL_getrlimit, CALL_setrlimit,
                                     CALL_pthread_create };
    static const enum call of_addresses[] = { CALL_getaddrinfo, CALL_getsockname, CALL_getnameinfo, CALL_setsockopt };
    static const enum call of_paths[] = { CALL_lstat, CALL_connect, CALL_unlink };
    uint64_t failed[N_CALLS] = { 0 };
    prepare(over);
    for (size_t i = 0; i < ARRAY_LEN(plans); i++)
        for (const int *error = plans[i].errors; *error; error++)
            for (long at = 1;; at++) {
                start_once(plans[i].call, *error, at);
                failed[plans[i].call] += fault.failed > 0;
                if (!fault.failed || (plans[i].call == CALL_recv || plans[i].call == CALL_epoll_wait))
                    break; /* those are another test's */
            }
    check_failed(failed, all, ARRAY_LEN(all));
    if (over == OVER_UNIX)
        check_failed(failed, of_paths, ARRAY_LEN(of_paths));
    else
        check_failed(failed, of_addresses, ARRAY_LEN(of_addresses));
    clean_up();
}

START_TEST(start_over_tcp)
{
    each_start(OVER_TCP);
}
END_TEST

START_TEST(start_over_a_unix_socket)
{
    each_start(OVER_UNIX);
}
END_TEST

START_TEST(start_over_tls)
{
    each_start(OVER_TLS);
}
END_TEST

/* What must not break an answer. */
static bool answers_bear(int call, int error)
{
    return error == EINTR || error == SHORT || error == EAGAIN ||
           (call != CALL_recv && call != CALL_send && call != CALL_sendmsg && call != CALL_epoll_ctl);
}

/* The server's threads make some calls when the answer is out already: those that are known to come are waited for. */
static void await_fault(int call, const enum call *made, size_t n_made)
{
    bool comes = false;
    for (size_t i = 0; i < n_made; i++)
        comes |= (int)made[i] == call;
    for (int k = 0; comes && !fault.failed && k < 300000; k++)
        usleep(1000);
}

static void each_answer(enum transport over)
{
    struct err e;
    uint64_t failed[N_CALLS] = { 0 };
    prepare(over);
    struct held before = held_now();
    ck_assert_msg(start(2, &e) == 0, "%s", e.msg);
    ck_assert(talk());
    struct held serving = held_now();
    serving.files = before.files + (over == OVER_UNIX);
    serving.fds = before.fds + 5; /* it listens, and two for each of its threads */
    check_held(&serving, "at first");
    enum call sends = over == OVER_TLS ? CALL_sendmsg : CALL_send;
    const enum call all[] = { CALL_accept4, CALL_setsockopt, CALL_getpeername, CALL_recv, sends, CALL_shutdown,
                              CALL_close, CALL_epoll_ctl, CALL_epoll_wait, CALL_open, CALL_read, CALL_write };
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        bool made = true; /* the call is, at all */
        for (const int *error = plans[i].errors; *error && made; error++) {
            for (long at = 1; at == 1 || fault.failed; at++) {
                arm(plans[i].call, *error, at);
                const char *what = tell(plans[i].call, *error, at);
                bool whole = talk();
                if (at == 1)
                    await_fault(plans[i].call, all, ARRAY_LEN(all));
                bool may_break = fault.failed && !answers_bear(plans[i].call, *error);
                ck_assert_msg(whole || may_break, "%s: an answer is cut", what);
                bool interrupted = plans[i].call == CALL_write && *error == EINTR && fault.failed;
                ck_assert_msg(!interrupted || fault.n[CALL_write] > at, "%s: who was to be woken sleeps on", what);
                check_held(&serving, what);
                disarm();
                failed[plans[i].call] += fault.failed > 0;
                made = at > 1 || fault.failed;
            }
            ck_assert_msg(talk(), "%s: and it answers no more", tell(plans[i].call, *error, 0));
        }
    }
    check_failed(failed, all, ARRAY_LEN(all));
    ck_assert_uint_eq(failed[CALL_getsockopt] > 0, over == OVER_UNIX);
    ck_assert_uint_eq(http_stop(server, 300000000000u), 0);
    http_destroy(server);
    check_held(&before, "at the end");
    clean_up();
}

START_TEST(answers_over_tcp)
{
    each_answer(OVER_TCP);
}
END_TEST

START_TEST(answers_over_a_unix_socket)
{
    each_answer(OVER_UNIX);
}
END_TEST

START_TEST(answers_over_tls)
{
    each_answer(OVER_TLS);
}
END_TEST

/* It ends while one waits for an answer and another for a request. */
START_TEST(each_end)
{
    struct err e;
    static const char silent[] = "POST /v1/chat/completions HTTP/1.1\r\n" KEY "Content-Length: 6\r\n\r\nsilent";
    for (int over = OVER_TCP; over <= OVER_TLS; over++) {
        uint64_t failed = 0;
        prepare((enum transport)over);
        for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
            bool made = true;
            for (const int *error = plans[i].errors; *error && made; error++)
                for (long at = 1; at == 1 || fault.failed; at++) {
                    struct held before = held_now();
                    ck_assert_msg(start(2, &e) == 0, "%s", e.msg);
                    struct client *waits = try_open(), *idle = try_open();
                    client_send(waits, silent, sizeof silent - 1, SIZE_MAX);
                    for (int k = 0; k < 600000 && !api_live; k++)
                        usleep(500);
                    ck_assert_uint_eq(api_live, 1);
                    arm(plans[i].call, *error, at);
                    http_drain(server);
                    ck_assert_uint_eq(http_stop(server, 0), 1);
                    http_destroy(server);
                    disarm();
                    failed += fault.failed > 0;
                    ck_assert_uint_eq(api_live, 0);
                    client_close(waits);
                    client_close(idle);
                    unlink(unix_path); /* it could not, maybe */
                    check_held(&before, tell(plans[i].call, *error, at));
                    made = at > 1 || fault.failed;
                }
        }
        ck_assert_uint_gt(failed, 10);
        clean_up();
    }
}
END_TEST

/* While there are no descriptors it looks now and then, not all the time, and goes on as soon as there are. */
START_TEST(without_descriptors_it_waits)
{
    enum { THREADS = 2, PAUSE_NS = 50000000 };
    static const int errors[] = { EMFILE, ENFILE, ENOMEM };
    struct err e;
    prepare(OVER_TCP);
    struct held before = held_now();
    ck_assert_msg(start(THREADS, &e) == 0, "%s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        uint64_t begin = clock_ns();
        arm(CALL_accept4, errors[i], EVER);
        struct client *c = client_open(1);
        for (int k = 0; k < 300000 && fault.n[CALL_accept4] < 1; k++)
            usleep(1000);
        usleep(120000);
        uint64_t accepts = (uint64_t)fault.n[CALL_accept4], waits = (uint64_t)fault.n[CALL_epoll_wait];
        uint64_t most = THREADS * ((clock_ns() - begin) / PAUSE_NS + 3); /* of the time until after they were read */
        ck_assert_uint_ge(accepts, 1);
        ck_assert_msg(accepts <= most && waits <= 3 * most, "%llu calls of accept4, %llu of epoll_wait",
                      (unsigned long long)accepts, (unsigned long long)waits);
        disarm();
        ck_assert(ask(c, "whole", 10, "1.1", ""));
        client_close(c);
    }
    http_stop(server, 0);
    http_destroy(server);
    check_held(&before, "at the end");
    clean_up();
}
END_TEST

static void check_text(const char *path, const char *want, const char *what)
{
    char text[100];
    ssize_t n = sys_read_file(path, text, sizeof text);
    ck_assert_msg(n == (ssize_t)strlen(want) && strcmp(text, want) == 0, "%s: '%s' instead of '%s'", what, text, want);
}

/* The ready file is there whole or not at all. */
START_TEST(a_file_is_replaced_or_stays)
{
    char path[80], small[4];
    prepare(OVER_TCP);
    snprintf(path, sizeof path, "%s/ready", server_dir);
    write_text(path, "old\n");
    struct held before = held_now();
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        bool made = true;
        for (const int *error = plans[i].errors; *error && made; error++)
            for (long at = 1; at == 1 || fault.failed; at++) {
                write_text(path, "old\n");
                arm((int)plans[i].call, *error, at);
                int rc = sys_replace_file(path, "http://127.0.0.1:8080\n");
                disarm();
                const char *what = tell((int)plans[i].call, *error, at);
                bool bears = *error == EINTR || *error == SHORT || !fault.failed;
                ck_assert_msg(rc == (bears ? 0 : -*error), "%s: %d", what, rc);
                check_text(path, rc ? "old\n" : "http://127.0.0.1:8080\n", what);
                check_held(&before, what);
                made = at > 1 || fault.failed;
            }
    }
    ck_assert_int_eq(sys_read_file(server_dir, small, sizeof small), -EISDIR);
    write_text(path, "123");
    ck_assert_int_eq(sys_read_file(path, small, sizeof small), 3);
    write_text(path, "1234");
    ck_assert_int_eq(sys_read_file(path, small, sizeof small), -EFBIG);
    unlink(path);
    clean_up();
}
END_TEST

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return RUN_TESTS("http_faults", each_call_has_its_errors, start_over_tcp, start_over_a_unix_socket, start_over_tls,
                     answers_over_tcp, answers_over_a_unix_socket, answers_over_tls, each_end,
                     without_descriptors_it_waits, a_file_is_replaced_or_stays);
}
