/* HTTP with an API of the test's own behind it, whose answers come in pieces from threads: what is sent must be what
 * the API said, whatever wakes and suspends race, and whoever leaves. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http.h"
#include "tests/lib/run.h"

/* ---- an API ---- */

enum { WORKERS = 3, MAX_LIVE = 512 };

/* The body says what is answered: "stream N", "whole N": N pieces; "silent": nothing, ever. */
struct api_exchange {
    pthread_mutex_t lock;
    struct api_call call;
    bool stream, silent, told; /* told: wake was called and nothing taken since */
    uint32_t made, want;
    size_t taken;
    char text[65536];
};

static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct api_exchange *live[MAX_LIVE];
static atomic_uint n_live, n_begun;
static atomic_bool workers_stop;
static pthread_t workers[WORKERS];

/* One more piece of an exchange that is not complete. Its number is its text, so that a lost one shows. */
static void work(struct api_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (!x->silent && x->made < x->want) {
        char piece[16];
        int n = snprintf(piece, sizeof piece, "%u,", x->made++);
        strcat(x->text + x->taken, n > 0 ? piece : "");
        if (!x->told && x->call.wake) {
            x->told = true;
            x->call.wake(x->call.user);
        }
    }
    pthread_mutex_unlock(&x->lock);
}

/* Now and then the wake comes at the worst moment: after the caller was told that there is nothing, before it waits. */
static void hurry(struct api_exchange *x)
{
    static atomic_uint times;
    if (atomic_fetch_add(&times, 1) % 3 == 0)
        work(x);
}

static void *worker(void *user)
{
    uint32_t at = (uint32_t)(uintptr_t)user;
    while (!atomic_load(&workers_stop)) {
        pthread_mutex_lock(&live_lock); /* held while working: api_end waits for it */
        struct api_exchange *x = live[at++ % MAX_LIVE];
        if (x)
            work(x);
        pthread_mutex_unlock(&live_lock);
        if (at % MAX_LIVE == 0)
            sched_yield();
    }
    return NULL;
}

unsigned api_methods(const char *path, const char **label)
{
    static const char models[] = "/v1/models", chat[] = "/v1/chat/completions";
    bool get = strcmp(path, models) == 0, post = strcmp(path, chat) == 0;
    if (get || post)
        *label = get ? models : chat;
    return get ? API_GET : post ? API_POST : 0;
}

struct api_exchange *api_begin(struct api *a, const struct api_call *c)
{
    (void)a;
    struct api_exchange *x = calloc(1, sizeof *x);
    pthread_mutex_init(&x->lock, NULL);
    x->call = *c;
    x->stream = strncmp(c->body, "stream", 6) == 0;
    x->silent = strcmp(c->body, "silent") == 0;
    x->want = strchr(c->body, ' ') ? (uint32_t)atoi(strchr(c->body, ' ')) : 1;
    x->call.body = x->call.method = x->call.path = NULL; /* they may be gone from now on */
    pthread_mutex_lock(&live_lock);
    uint32_t i = 0;
    while (i < MAX_LIVE && live[i])
        i++;
    ck_assert_uint_lt(i, MAX_LIVE);
    live[i] = x;
    pthread_mutex_unlock(&live_lock);
    atomic_fetch_add(&n_live, 1);
    atomic_fetch_add(&n_begun, 1);
    return x;
}

int api_status(struct api_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool known = x->stream ? x->made > 0 : !x->silent && x->made == x->want;
    if (!known)
        x->told = false;
    pthread_mutex_unlock(&x->lock);
    if (!known)
        hurry(x);
    return known ? 200 : 0;
}

ssize_t api_read(struct api_exchange *x, char *buf, size_t cap)
{
    pthread_mutex_lock(&x->lock);
    size_t n = strnlen(x->text + x->taken, cap);
    memcpy(buf, x->text + x->taken, n);
    x->taken += n;
    ssize_t rc = n ? (ssize_t)n : x->made == x->want && !x->silent ? API_END : 0;
    if (!n)
        x->told = false;
    pthread_mutex_unlock(&x->lock);
    if (!rc)
        hurry(x);
    return rc;
}

void api_end(struct api_exchange *x)
{
    pthread_mutex_lock(&live_lock);
    for (uint32_t i = 0; i < MAX_LIVE; i++)
        if (live[i] == x)
            live[i] = NULL;
    pthread_mutex_unlock(&live_lock);
    pthread_mutex_destroy(&x->lock);
    free(x);
    atomic_fetch_sub(&n_live, 1);
}

size_t api_length(struct api_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    size_t n = strlen(x->text + x->taken);
    pthread_mutex_unlock(&x->lock);
    return n;
}

const char *api_content_type(struct api_exchange *x)
{
    return x->stream ? "text/event-stream" : "application/json";
}
bool api_streams(struct api_exchange *x)
{
    return x->stream;
}
bool api_keep_alive(struct api_exchange *x, uint64_t quiet_ns)
{
    (void)x, (void)quiet_ns;
    return false;
}
uint32_t api_retry_after(struct api_exchange *x)
{
    (void)x;
    return 0;
}
struct api_usage api_usage(struct api_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    struct api_usage u = { .prompt_tokens = 1, .generated_tokens = x->made, .reason = "stop" };
    pthread_mutex_unlock(&x->lock);
    return u;
}
char *api_error_json(const char *path, int status, const char *param, const char *code, const char *message)
{
    (void)path, (void)param;
    char *s = malloc(1024);
    snprintf(s, 1024, "{\"error\":{\"message\":\"%s\",\"code\":\"%s\",\"status\":%d}}", message, code ? code : "", status);
    return s;
}
struct sched_stats sched_stats(const struct sched *s)
{
    (void)s;
    return (struct sched_stats){ .slots = 4 };
}

/* ---- a server and its clients ---- */

static struct http *h;
static uint16_t port;

static void start(const struct server_opts *o)
{
    struct err e = { 0 };
    struct server_opts opts = *o;
    opts.quiet = true;
    ck_assert_msg(http_start(&opts, &h, &e) == 0, "%s", e.msg);
    port = (uint16_t)atoi(strrchr(http_url(h), ':') + 1);
    struct http_backend b = { .ops = &api_backend, .self = (void *)&port, .sched = (void *)&port, .model = "m", .tier = "t" };
    http_serve(h, &b);
    atomic_store(&workers_stop, false);
    for (uint32_t i = 0; i < WORKERS; i++)
        ck_assert_int_eq(pthread_create(&workers[i], NULL, worker, (void *)(uintptr_t)(i * 100)), 0);
}

static void finish(void)
{
    http_stop(h, 300000000000u);
    atomic_store(&workers_stop, true);
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    http_destroy(h);
    ck_assert_uint_eq(atomic_load(&n_live), 0);
}

static int dial(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        close(fd);
        return -1;
    }
    struct timeval t = { .tv_sec = 30 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    return fd;
}

static void say(int fd, const char *text, size_t n)
{
    while (n) {
        ssize_t k = send(fd, text, n, MSG_NOSIGNAL);
        if (k <= 0)
            return;
        text += k;
        n -= (size_t)k;
    }
}

static void post_padded(int fd, const char *body, int len)
{
    char text[512];
    int n = snprintf(text, sizeof text, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len);
    say(fd, text, (size_t)n);
    char *padded = malloc((size_t)len + 1);
    snprintf(padded, (size_t)len + 1, "%-*s", len, body);
    say(fd, padded, (size_t)len);
    free(padded);
}

static void post(int fd, const char *body)
{
    post_padded(fd, body, (int)strlen(body));
}

/* Reads one answer: its status, its body without chunk marks. 0: the connection ended before there was one. */
static int hear(FILE *f, char *body, size_t cap)
{
    char line[1024];
    int status = 0;
    size_t n = 0, length = 0;
    bool chunked = false;
    if (!fgets(line, sizeof line, f) || sscanf(line, "HTTP/1.1 %d", &status) != 1)
        return 0;
    while (fgets(line, sizeof line, f) && strcmp(line, "\r\n") != 0) {
        chunked |= strcasecmp(line, "Transfer-Encoding: chunked\r\n") == 0;
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = (size_t)atoll(line + 15);
    }
    do {
        if (chunked && !fgets(line, sizeof line, f))
            return -status;
        size_t part = chunked ? strtoul(line, NULL, 16) : length;
        ck_assert_uint_lt(n + part, cap);
        if (fread(body + n, 1, part, f) != part)
            return -status;
        n += part;
        if (chunked && (fread(line, 1, 2, f) != 2))
            return -status;
        length = part;
    } while (chunked && length);
    body[n] = 0;
    return status;
}

static void expected(char *out, uint32_t pieces)
{
    *out = 0;
    for (uint32_t i = 0; i < pieces; i++)
        out += sprintf(out, "%u,", i);
}

/* ---- tests ---- */

enum { CLIENTS = 16, ROUNDS = 60 };

static uint32_t next_random(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return *s >> 8;
}

/* Mostly reads answers on one connection; sometimes asks twice before reading, or leaves early in one way or another. */
static void *client(void *user)
{
    uint32_t seed = (uint32_t)(uintptr_t)user * 7919u + 1;
    char *got = malloc(65536), *want = malloc(65536), body[64];
    for (int round = 0; round < ROUNDS; round++) {
        int fd = dial();
        ck_assert_int_ge(fd, 0);
        FILE *f = fdopen(fd, "r");
        uint32_t kind = next_random(&seed) % 8, n[2] = { next_random(&seed) % 300 + 1, next_random(&seed) % 20 + 1 };
        for (int k = 0; k < 2; k++) {
            snprintf(body, sizeof body, "%s %u", kind % 2 ? "stream" : "whole", n[k]);
            if (kind == 2 || kind == 3) /* long enough to begin on other threads than those of HTTP */
                post_padded(fd, body, 20000);
            else
                post(fd, kind == 7 ? "silent" : body);
        }
        if (kind == 6 || kind == 7) { /* leaves: at once, after some bytes, half, or with a reset */
            struct linger hard = { 1, 0 };
            if (next_random(&seed) % 2 && kind == 6)
                ck_assert_int_ge((int)fread(got, 1, next_random(&seed) % 200 + 1, f), 0);
            if (next_random(&seed) % 2)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            else if (next_random(&seed) % 2)
                shutdown(fd, SHUT_WR);
        } else {
            for (int k = 0; k < 2; k++) {
                expected(want, n[k]);
                ck_assert_int_eq(hear(f, got, 65536), 200);
                ck_assert_str_eq(got, want);
            }
        }
        fclose(f);
    }
    free(got);
    free(want);
    return NULL;
}

START_TEST(answers_are_whole_and_their_own)
{
    pthread_t t[CLIENTS];
    start(&(struct server_opts){ .threads = 3 });
    for (uintptr_t i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, client, (void *)i), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(t[i], NULL);
    ck_assert_uint_gt(atomic_load(&n_begun), CLIENTS * ROUNDS);
    finish();
}
END_TEST

/* True when it comes to hold n exchanges. */
static bool comes_to(uint32_t n)
{
    for (int i = 0; i < 30000 && atomic_load(&n_live) != n; i++)
        usleep(10000);
    return atomic_load(&n_live) == n;
}

START_TEST(who_leaves_is_noticed_while_nothing_is_sent)
{
    for (int how = 0; how < 3; how++) {
        start(&(struct server_opts){ .threads = 1 });
        int fd = dial();
        post(fd, "silent");
        ck_assert(comes_to(1));
        struct linger hard = { 1, 0 };
        if (how == 1)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        if (how == 2)
            shutdown(fd, SHUT_WR);
        else
            close(fd);
        ck_assert(comes_to(0));
        if (how == 2)
            close(fd);
        finish();
    }
}
END_TEST

START_TEST(stopping_cuts_what_waits)
{
    int fd[8];
    start(&(struct server_opts){ .threads = 2 });
    for (int i = 0; i < 8; i++) {
        fd[i] = dial();
        post(fd[i], "silent");
    }
    ck_assert(comes_to(8));
    http_drain(h);
    ck_assert_uint_eq(http_stop(h, 50000000), 8);
    ck_assert_uint_eq(atomic_load(&n_live), 0);
    for (int i = 0; i < 8; i++) {
        char c;
        ck_assert_int_le((int)read(fd[i], &c, 1), 0);
        close(fd[i]);
    }
    finish();
}
END_TEST

START_TEST(draining_refuses_and_answers_health)
{
    char body[65536];
    start(&(struct server_opts){ .threads = 1 });
    int fd = dial();
    FILE *f = fdopen(fd, "r");
    post(fd, "whole 3");
    ck_assert_int_eq(hear(f, body, sizeof body), 200);
    http_drain(h);
    ck_assert_int_lt(dial(), 0);
    post(fd, "whole 3");
    ck_assert_int_eq(hear(f, body, sizeof body), 503);
    say(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 42);
    ck_assert_int_eq(hear(f, body, sizeof body), 503);
    ck_assert(strstr(body, "draining"));
    fclose(f);
    finish();
}
END_TEST

#define H "Host: localhost\r\n"
#define BIG1 "0123456789abcdef"
#define BIG2 BIG1 BIG1 BIG1 BIG1 BIG1 BIG1 BIG1 BIG1
#define BIG3 BIG2 BIG2 BIG2 BIG2 BIG2 BIG2 BIG2 BIG2

static const struct {
    int status; /* 0: closed without an answer */
    const char *text;
} refused[] = {
    { 200, "GET /health HTTP/1.1\r\n" H "\r\n" },
    { 200, "\r\n\r\nGET /health HTTP/1.0\r\n\r\n" },
    { 200, "HEAD / HTTP/1.0\r\n\r\n" },
    { 200, "GET /health?x=%00%zz HTTP/1.1\r\n" H "\r\n" },
    { 200, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n7;x=y\r\nwhole 2\r\n0\r\nT: 1\r\n\r\n" },
    { 404, "GET /nothing HTTP/1.1\r\n" H "\r\n" },
    { 404, "OPTIONS * HTTP/1.1\r\n" H "\r\n" },
    { 404, "GET //etc/passwd HTTP/1.1\r\n" H "\r\n" },
    { 405, "DELETE /health HTTP/1.1\r\n" H "\r\n" },
    { 405, "GET /v1/chat/completions HTTP/1.1\r\n" H "\r\n" },
    { 405, "BREW /v1/chat/completions HTTP/1.1\r\n" H "\r\n" },
    { 405, "POST /health HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc" },
    { 400, "GET /%00 HTTP/1.1\r\n" H "\r\n" },
    { 400, "GET /%zz HTTP/1.1\r\n" H "\r\n" },
    { 400, "GET /%ff HTTP/1.1\r\n" H "\r\n" },
    { 400, "GET /\xc3\x28 HTTP/1.1\r\n" H "\r\n" },
    { 400, "GET /health HTTP/9.9\r\n" H "\r\n" },
    { 400, "GET /health HTTP/0.9\r\n\r\n" },
    { 400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
    { 400, "GET /health\r\n\r\n" },
    { 400, "GET /health HTTP/1.1 x\r\n\r\n" },
    { 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" },
    { 400, "GET /health HTTP/1.1\r\n\r\n" }, /* no Host */
    { 411, "POST /v1/chat/completions HTTP/1.1\r\n" H "\r\n" },
    { 413, "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Length: 99999\r\n\r\n" },
    { 413, "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999999\r\n\r\n" },
    { 413, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3
           "\r\n0\r\n\r\n" },
    { 0, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3
         "\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3 "\r\n400\r\n" BIG3 "\r\n" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\nabc" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nxyz\r\n" },
    { 413, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" },
    { 400, "POST /v1/chat/completions HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n" },
    { 404, "POST /nothing HTTP/1.1\r\n" H "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n" },
};

START_TEST(requests_are_refused_by_what_is_wrong)
{
    char body[65536];
    start(&(struct server_opts){ .threads = 1, .max_body = 1500 });
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *text = refused[i].text;
        int fd = dial();
        FILE *f = fdopen(fd, "r");
        say(fd, text, text[0] == 0x16 ? 11 : strlen(text));
        if (strncmp(text, "HEAD", 4) == 0)
            ck_assert_msg(fgets(body, sizeof body, f) && strstr(body, " 200 "), "%s", body);
        else
            ck_assert_msg(abs(hear(f, body, sizeof body)) == refused[i].status, "request %zu: %.60s: %.200s", i, text, body);
        fclose(f);
    }
    finish();
}
END_TEST

START_TEST(keys_are_asked_for_where_they_should_be)
{
    static const char *const keys[] = { "first-key", "second-key" };
    static const struct {
        int status;
        const char *path, *header;
    } list[] = {
        { 200, "/", "" }, { 200, "/health", "" }, { 401, "/metrics", "" }, { 401, "/v1/models", "" },
        { 401, "/v1/models", "Authorization: Bearer nope\r\n" }, { 401, "/v1/models", "Authorization: Bearer \r\n" },
        { 401, "/v1/models", "Authorization: first-key\r\n" }, { 200, "/v1/models", "Authorization: Bearer first-key\r\n" },
        { 200, "/v1/models", "authorization: bearer second-key\r\n" }, { 404, "/nothing", "" },
        { 401, "/v1/models", "Authorization: Bearer first-key2\r\n" },
    };
    char text[512], *body = malloc(1 << 20);
    start(&(struct server_opts){ .threads = 1, .api_keys = keys, .n_api_keys = 2 });
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        int fd = dial();
        FILE *f = fdopen(fd, "r");
        int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n" H "%s\r\n", list[i].path, list[i].header);
        say(fd, text, (size_t)n);
        ck_assert_msg(hear(f, body, 1 << 20) == list[i].status, "%s %s", list[i].path, list[i].header);
        fclose(f);
    }
    free(body);
    finish();
}
END_TEST

START_TEST(slow_requests_are_ended)
{
    start(&(struct server_opts){ .threads = 1, .idle_s = 1 });
    int fd = dial();
    char c;
    say(fd, "GET /", 5);
    int i = 0;
    for (; i < 1500 && send(fd, "x", 1, MSG_NOSIGNAL) == 1; i++) { /* never idle, never complete */
        struct pollfd p = { .fd = fd, .events = POLLIN };
        if (poll(&p, 1, 200) > 0 && read(fd, &c, 1) <= 0)
            break;
    }
    ck_assert_int_lt(i, 1500);
    close(fd);
    finish();
}
END_TEST

START_TEST(connections_beyond_the_limit_are_told_so)
{
    char body[65536];
    int fd[4];
    FILE *f[4];
    start(&(struct server_opts){ .threads = 1, .max_connections = 2 });
    for (int i = 0; i < 4; i++) { /* the first two wait for their answers: none can be closed for the others */
        f[i] = fdopen(fd[i] = dial(), "r");
        post(fd[i], i < 2 ? "silent" : "whole 1");
        ck_assert(comes_to(i < 2 ? (uint32_t)i + 1 : 2));
        if (i >= 2)
            ck_assert_int_eq(hear(f[i], body, sizeof body), 503);
    }
    for (int i = 0; i < 4; i++)
        fclose(f[i]);
    finish();
}
END_TEST

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return RUN_TESTS("http_carry", answers_are_whole_and_their_own, who_leaves_is_noticed_while_nothing_is_sent,
                     stopping_cuts_what_waits, draining_refuses_and_answers_health, requests_are_refused_by_what_is_wrong,
                     keys_are_asked_for_where_they_should_be, slow_requests_are_ended,
                     connections_beyond_the_limit_are_told_so);
}
