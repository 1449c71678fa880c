/* tests/unit/http_client.h: an API that says back what it was sent, a server over it, and clients that send raw bytes:
 * over TCP, a unix socket or TLS. */
#ifndef ZINC_TESTS_UNIT_HTTP_CLIENT_H
#define ZINC_TESTS_UNIT_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "server/http.h"

/* ---- the API: "whole", "stream": the body comes back; "silent": nothing does; else it comes back too ---- */

struct api_exchange {
    char *text;
    size_t n, at;
    bool stream, silent;
    bool patient, signs; /* "patient": said when a sign of life is asked for, and the rest when it is again */
};

static _Atomic uint32_t api_calls, api_live;
static _Atomic uint32_t api_begins; /* that are held up now */
static _Atomic bool api_hold;       /* a request with ", hold" takes as long to begin as this is set */

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
    x->text = malloc(c->n_body + 1);
    memcpy(x->text, c->body, c->n_body);
    x->text[c->n_body] = 0;
    x->n = c->n_body;
    x->stream = strncmp(c->body, "stream", 6) == 0;
    x->silent = strncmp(c->body, "silent", 6) == 0;
    if ((x->patient = strncmp(c->body, "patient", 7) == 0)) {
        x->stream = true;
        x->n = 0;
    }
    if (memmem(c->body, c->n_body, ", hold", 6)) {
        api_begins++;
        while (api_hold)
            usleep(1000);
        api_begins--;
    }
    api_calls++;
    api_live++;
    return x;
}
int api_status(struct api_exchange *x)
{
    return x->silent || (x->patient && !x->n) ? 0 : 200;
}
ssize_t api_read(struct api_exchange *x, char *buf, size_t cap)
{
    size_t n = MIN(cap, x->n - x->at);
    memcpy(buf, x->text + x->at, n);
    x->at += n;
    return n ? (ssize_t)n : x->patient && !x->signs ? 0 : API_END;
}
void api_end(struct api_exchange *x)
{
    free(x->text);
    free(x);
    api_live--;
}
size_t api_length(struct api_exchange *x)
{
    return x->n - x->at;
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
    if (!x->patient)
        return false;
    ck_assert_uint_lt(quiet_ns, 1000000000000);
    x->signs = x->n > 0;
    x->n = x->signs ? strlen(x->text) : 7;
    return true;
}
uint32_t api_retry_after(struct api_exchange *x)
{
    (void)x;
    return 0;
}
struct api_usage api_usage(struct api_exchange *x)
{
    (void)x;
    return (struct api_usage){ .reason = "stop" };
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

/* ---- the server ---- */

static char server_dir[] = "/tmp/zinc-http-XXXXXX";
static char unix_path[64], cert_path[64], key_path[64];

static void write_pem(const char *path, const gnutls_datum_t *d)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(d->data, 1, d->size, f), d->size);
    fclose(f);
}

static void make_certificate(void)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    gnutls_datum_t pem;
    gnutls_x509_privkey_init(&key);
    gnutls_x509_crt_init(&crt);
    ck_assert_int_eq(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\1", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 10);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 86400);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "localhost", 9);
    gnutls_x509_crt_set_key(crt, key);
    ck_assert_int_eq(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem);
    write_pem(cert_path, &pem);
    gnutls_free(pem.data);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem);
    write_pem(key_path, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

enum transport { OVER_TCP, OVER_UNIX, OVER_TLS };

static struct http *server;
static uint16_t server_port;
static enum transport transport;

__attribute__((unused)) static void server_start(enum transport over, struct server_opts o)
{
    struct err e = { 0 };
    char host[80];
    strcpy(server_dir + strlen(server_dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server_dir));
    snprintf(unix_path, sizeof unix_path, "%s/socket", server_dir);
    snprintf(cert_path, sizeof cert_path, "%s/cert", server_dir);
    snprintf(key_path, sizeof key_path, "%s/key", server_dir);
    snprintf(host, sizeof host, "unix:%s", unix_path);
    o.quiet = true;
    if (over == OVER_UNIX)
        o.host = host;
    if (over == OVER_TLS) {
        make_certificate();
        o.tls_cert = cert_path;
        o.tls_key = key_path;
    }
    ck_assert_msg(http_start(&o, &server, &e) == 0, "%s", e.msg);
    transport = over;
    if (over != OVER_UNIX)
        server_port = (uint16_t)atoi(strrchr(http_url(server), ':') + 1);
    struct http_backend b = { .ops = &api_backend, .self = (void *)&server_port, .sched = (void *)&server_port, .model = "m", .tier = "t" };
    http_serve(server, &b);
}

__attribute__((unused)) static void server_finish(void)
{
    http_stop(server, 20000000000u);
    http_destroy(server);
    ck_assert_uint_eq(api_live, 0);
    unlink(cert_path);
    unlink(key_path);
    rmdir(server_dir);
}

/* ---- clients ---- */

struct client {
    int fd;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t cred;
    char got[1 << 20];
    size_t n, at;
};

/* From 127.0.0.`last`. */
static int dial_from(unsigned last)
{
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + last) };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(server_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static struct client *client_open(unsigned last)
{
    struct client *c = calloc(1, sizeof *c);
    struct timeval t = { .tv_sec = 20 };
    if (transport == OVER_UNIX) {
        struct sockaddr_un a = { .sun_family = AF_UNIX };
        strcpy(a.sun_path, unix_path);
        c->fd = socket(AF_UNIX, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(c->fd, (struct sockaddr *)&a, sizeof a), 0);
    } else {
        c->fd = dial_from(last);
    }
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    if (transport == OVER_TLS) {
        gnutls_certificate_allocate_credentials(&c->cred);
        gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
        gnutls_set_default_priority(c->tls);
        gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->cred);
        gnutls_transport_set_int(c->tls, c->fd);
        int rc;
        while ((rc = gnutls_handshake(c->tls)) < 0 && !gnutls_error_is_fatal(rc))
            ;
        ck_assert_msg(rc == 0, "TLS: %s", gnutls_strerror(rc));
    }
    return c;
}

static void client_close(struct client *c)
{
    if (c->tls) {
        gnutls_deinit(c->tls);
        gnutls_certificate_free_credentials(c->cred);
    }
    close(c->fd);
    free(c);
}

/* Pieces of `piece` bytes, until the server does not listen any more. */
static void client_send(struct client *c, const char *s, size_t n, size_t piece)
{
    while (n) {
        ssize_t k = c->tls ? gnutls_record_send(c->tls, s, MIN(n, piece)) : send(c->fd, s, MIN(n, piece), MSG_NOSIGNAL);
        if (k <= 0)
            return;
        s += k;
        n -= (size_t)k;
    }
}

/* False: the end. */
static bool client_more(struct client *c)
{
    ck_assert_uint_lt(c->n, sizeof c->got - 1);
    size_t cap = sizeof c->got - 1 - c->n;
    ssize_t k = c->tls ? gnutls_record_recv(c->tls, c->got + c->n, cap) : recv(c->fd, c->got + c->n, cap, 0);
    ck_assert_msg(k >= 0 || c->tls || errno != EAGAIN, "no answer and no end: '%s'", c->got);
    if (k <= 0)
        return false;
    c->n += (size_t)k;
    c->got[c->n] = 0;
    return true;
}

/* The next answer: its status, 0: the connection ended instead, -1: it ended inside of one. *head and *body (which gets a
 * NUL behind it) are copies, malloc'ed. */
static int client_answer(struct client *c, char **head, char **body)
{
    char *s, *end;
    while (!(end = strstr(c->got + c->at, "\r\n\r\n")))
        if (!client_more(c))
            return c->n > c->at ? -1 : 0;
    *head = strndup(c->got + c->at, (size_t)(end + 4 - (c->got + c->at)));
    int status = 0;
    ck_assert_msg(sscanf(*head, "HTTP/1.1 %d ", &status) == 1, "no head of an answer: %.60s", *head);
    c->at += strlen(*head);
    if (status == 100) {
        free(*head);
        return client_answer(c, head, body);
    }
    size_t n = 0;
    if ((s = strcasestr(*head, "\nContent-Length:")))
        n = (size_t)atoi(s + 16);
    if ((s = strcasestr(*head, "\nTransfer-Encoding: chunked"))) {
        while (!(end = strstr(c->got + c->at, "0\r\n\r\n")))
            if (!client_more(c))
                goto cut;
        n = (size_t)(end + 5 - (c->got + c->at));
    }
    while (c->n - c->at < n)
        if (!client_more(c))
            goto cut;
    *body = strndup(c->got + c->at, n);
    c->at += n;
    return status;
cut:
    free(*head);
    return -1;
}

#endif
