/* Who has many connections that wait for their client cannot keep out others. */
#include "tests/unit/http_client.h"

#include <sys/wait.h>

#include "tests/lib/run.h"

enum { LIMIT = 50, MANY = 150 };
#define GET "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ASK(text) "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " text

/* Reads what has come, if anything. */
static bool is_open(int fd)
{
    char some[4096];
    ssize_t n;
    while ((n = recv(fd, some, sizeof some, MSG_DONTWAIT)) > 0)
        ;
    return n < 0 && errno == EAGAIN;
}

static unsigned count_open(const int *fd, unsigned n)
{
    unsigned open = 0;
    for (unsigned i = 0; i < n; i++)
        open += is_open(fd[i]);
    return open;
}

static void ask(struct client *c, const char *text, int want)
{
    char *head, *body;
    client_send(c, text, strlen(text), SIZE_MAX);
    int status = client_answer(c, &head, &body);
    ck_assert_msg(status == want, "%d instead of %d", status, want);
    free(head);
    free(body);
}

/* What one address does: nothing at all, half a head, half a body, or answers that are not read. */
static void occupy(int kind, int *fd, unsigned from)
{
    static const char *const texts[] = { "", "GET /health HTT", ASK("1000\r\n\r\n{"), GET };
    for (unsigned i = 0; i < MANY; i++) {
        fd[i] = dial_from(from);
        if (*texts[kind])
            ck_assert_int_gt((int)send(fd[i], texts[kind], strlen(texts[kind]), MSG_NOSIGNAL), -2);
    }
}

START_TEST(many_that_wait_make_room)
{
    int fd[MANY];
    for (int kind = 0; kind < 4; kind++) {
        server_start(OVER_TCP, (struct server_opts){ .threads = 2, .max_connections = LIMIT });
        struct client *first = client_open(3); /* who was there before with one connection keeps it */
        ask(first, ASK("5\r\n\r\nwhole"), 200);
        occupy(kind, fd, 1);
        for (int i = 0; i < 20; i++) {
            struct client *c = client_open(2);
            ask(c, ASK("5\r\n\r\nwhole"), 200);
            client_close(c);
        }
        ask(first, ASK("5\r\n\r\nwhole"), 200);
        for (int i = 0; i < 30000 && count_open(fd, MANY) > LIMIT; i++)
            usleep(10000);
        ck_assert_uint_le(count_open(fd, MANY), LIMIT);
        ck_assert_uint_gt(count_open(fd, MANY), LIMIT / 2); /* no more than was needed */
        for (int i = 0; i < MANY; i++)
            close(fd[i]);
        client_close(first);
        server_finish();
    }
}
END_TEST

START_TEST(the_oldest_goes_first)
{
    int fd[LIMIT + 10];
    server_start(OVER_TCP, (struct server_opts){ .threads = 1, .max_connections = LIMIT });
    for (unsigned i = 0; i < LIMIT + 10; i++)
        fd[i] = dial_from(1);
    for (int i = 0; i < 30000 && count_open(fd, LIMIT + 10) > LIMIT; i++)
        usleep(10000);
    for (unsigned i = 0; i < LIMIT + 10; i++) {
        ck_assert_msg(is_open(fd[i]) == (i >= 10), "connection %u", i);
        close(fd[i]);
    }
    server_finish();
}
END_TEST

START_TEST(who_waits_for_an_answer_keeps_it)
{
    struct client *busy[LIMIT];
    int fd[MANY];
    server_start(OVER_TCP, (struct server_opts){ .threads = 2, .max_connections = LIMIT });
    for (uint32_t i = 0; i < LIMIT - 1; i++) {
        busy[i] = client_open(1);
        client_send(busy[i], ASK("6\r\n\r\nsilent"), strlen(ASK("6\r\n\r\nsilent")), SIZE_MAX);
    }
    for (int i = 0; i < 30000 && api_live < LIMIT - 1; i++)
        usleep(10000);
    ck_assert_uint_eq(api_live, LIMIT - 1);
    occupy(0, fd, 1);
    struct client *c = client_open(2);
    ask(c, ASK("5\r\n\r\nwhole"), 200);
    for (int i = 0; i < 30000 && api_live > LIMIT - 1; i++)
        usleep(10000);
    ck_assert_uint_eq(api_live, LIMIT - 1);
    client_close(c);
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    for (int i = 0; i < LIMIT - 1; i++)
        client_close(busy[i]);
    server_finish();
}
END_TEST

/* On a unix socket all is of one user here: the oldest that waits goes, and the newest is served. */
START_TEST(a_unix_socket_too)
{
    struct client *c[LIMIT + 5];
    server_start(OVER_UNIX, (struct server_opts){ .threads = 1, .max_connections = LIMIT });
    for (int i = 0; i < LIMIT + 5; i++) {
        c[i] = client_open(1);
        ask(c[i], ASK("5\r\n\r\nwhole"), 200);
    }
    for (int i = 0; i < LIMIT + 5; i++)
        client_close(c[i]);
    server_finish();
}
END_TEST

/* A head that comes bit by bit, and a client that never reads: both end, and nothing of them stays. */
START_TEST(slow_ones_are_ended)
{
    server_start(OVER_TCP, (struct server_opts){ .threads = 1, .idle_s = 1, .max_body = 40u << 20 });
    struct client *slow = client_open(1), *deaf = client_open(1), *empty = client_open(1);
    size_t n = 30u << 20;
    char *text = malloc(n + 100);
    int k = sprintf(text, ASK("%zu\r\n\r\n"), n);
    memset(text + k, 'x', n);
    client_send(deaf, text, n + (size_t)k, SIZE_MAX);
    free(text);
    for (int i = 0; i < 6000 && is_open(slow->fd); i++) { /* never idle, never complete */
        ck_assert_int_gt((int)send(slow->fd, "G", 1, MSG_NOSIGNAL), -2);
        usleep(50000);
    }
    ck_assert(!is_open(slow->fd));
    for (int i = 0; i < 30000 && (api_live || is_open(empty->fd)); i++)
        usleep(10000);
    ck_assert_uint_eq(api_live, 0);
    ck_assert(!is_open(empty->fd));
    client_close(slow);
    client_close(deaf);
    client_close(empty);
    server_finish();
}
END_TEST

/* Requests that take long to begin: neither those that begin at once nor another client's wait for them. */
START_TEST(heavy_beginnings_take_turns)
{
    static const struct {
        const char *ask, *body;
    } heavy[] = {
        { ASK("11\r\n\r\ntools, hold"), "tools, hold" },
        { ASK("18\r\n\r\ngr\\u0061mmar, hold"), "gr\\u0061mmar, hold" }, /* as JSON may write it */
        { ASK("24\r\n\r\nstructured_outputs, hold"), "structured_outputs, hold" },
    };
    static const char other[] = ASK("11\r\n\r\ntools, fine");
    struct client *c[20];
    char *head, *body;
    server_start(OVER_TCP, (struct server_opts){ .threads = 1 });
    api_hold = true;
    for (int i = 0; i < 20; i++) {
        c[i] = client_open(1);
        client_send(c[i], heavy[i % 3].ask, strlen(heavy[i % 3].ask), SIZE_MAX);
    }
    for (int i = 0; i < 30000 && api_begins < 3; i++)
        usleep(10000);
    struct client *light = client_open(1), *second = client_open(2);
    ask(light, GET, 200);
    ask(light, ASK("5\r\n\r\nwhole"), 200);
    for (int i = 0; i < 5; i++)
        ask(second, other, 200);
    ck_assert_uint_eq(api_begins, 3); /* one thread is left for others */
    client_close(c[19]);              /* leaves before it began */
    client_close(c[0]);               /* leaves while it begins */
    api_hold = false;
    for (int i = 1; i < 19; i++) {
        ck_assert_int_eq(client_answer(c[i], &head, &body), 200);
        ck_assert_str_eq(body, heavy[i % 3].body);
        free(head);
        free(body);
        client_close(c[i]);
    }
    client_close(light);
    client_close(second);
    server_finish();
}
END_TEST

/* Nothing wakes the connection: that its client has heard nothing does. */
START_TEST(who_waits_for_an_answer_hears_of_it)
{
    char *head, *body;
    server_start(OVER_TCP, (struct server_opts){ .threads = 1 });
    struct client *c = client_open(1);
    client_send(c, ASK("13\r\n\r\npatient again"), strlen(ASK("13\r\n\r\npatient again")), SIZE_MAX);
    ck_assert_int_eq(client_answer(c, &head, &body), 200);
    ck_assert_str_eq(body, "0007\r\npatient\r\n0006\r\n again\r\n0\r\n\r\n");
    free(head);
    free(body);
    client_close(c);
    server_finish();
}
END_TEST

/* A router forks: until exec closes them the new process has all sockets of the connections too, and what is closed here
 * is open there. Nothing is heard of such a connection any more, and the next one is served. */
START_TEST(a_forked_process_keeps_no_connection)
{
    for (int over = OVER_TCP; over <= OVER_TLS; over++) {
        server_start((enum transport)over, (struct server_opts){ .threads = 1 });
        struct client *c = client_open(1), *other = client_open(2);
        ask(c, ASK("5\r\n\r\nwhole"), 200);
        client_send(other, ASK("6\r\n\r\nsilent"), strlen(ASK("6\r\n\r\nsilent")), SIZE_MAX);
        for (int i = 0; i < 30000 && api_live < 1; i++)
            usleep(10000);
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        ck_assert_int_gt(pid, 0);
        shutdown(c->fd, SHUT_RDWR); /* closed it would stay open, for the same reason */
        shutdown(other->fd, SHUT_RDWR);
        for (int i = 0; i < 30000 && api_live; i++)
            usleep(10000);
        for (int i = 0; i < 10; i++) {
            struct client *next = client_open(3);
            ask(next, ASK("5\r\n\r\nwhole"), 200);
            client_close(next);
            usleep(2000);
        }
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        client_close(c);
        client_close(other);
        server_finish();
    }
}
END_TEST

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return RUN_TESTS("http_conns", many_that_wait_make_room, the_oldest_goes_first, who_waits_for_an_answer_keeps_it,
                     a_unix_socket_too, slow_ones_are_ended, who_waits_for_an_answer_hears_of_it, heavy_beginnings_take_turns,
                     a_forked_process_keeps_no_connection);
}
