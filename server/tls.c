#include "server/tls.h"

#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "server/sys.h"

enum { MAX_PEM = 1 << 20 };

struct tls {
    gnutls_certificate_credentials_t keys;
};

struct tls_session {
    gnutls_session_t s;
    int fd;
};

/* ---- its bytes, by the table of system calls ---- */

static ssize_t pull(gnutls_transport_ptr_t user, void *buf, size_t n)
{
    return sys->recv(((struct tls_session *)user)->fd, buf, n, 0);
}

static ssize_t push(gnutls_transport_ptr_t user, const giovec_t *v, int n)
{
    struct msghdr m = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n };
    return sys->sendmsg(((struct tls_session *)user)->fd, &m, MSG_NOSIGNAL);
}

/* ---- the certificate ---- */

static int read_pem(const char *path, const char *flag, const char *mark, char **text, struct err *e)
{
    char *s = malloc(MAX_PEM + 1);
    ssize_t n = s ? sys_read_file(path, s, MAX_PEM + 1) : 0;
    int rc = !s                 ? err_set(e, -ENOMEM, "%s: out of memory", flag)
             : n == -EFBIG      ? err_set(e, -EINVAL, "%s %s: more than 1 MiB is no PEM file", flag, path)
             : n < 0            ? err_set(e, (int)n, "%s %s: cannot be read: %s", flag, path, strerror((int)-n))
             : !strstr(s, mark) ? err_set(e, -EINVAL, "%s %s: no line with '%s': not the PEM file that is expected",
                                          flag, path, mark) : 0;
    if (rc)
        free(s);
    else
        *text = s;
    return rc;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static int set_keys(struct tls *t, const char *cert, const char *key)
{
    gnutls_datum_t c = { (unsigned char *)cert, (unsigned)strlen(cert) }, k = { (unsigned char *)key, (unsigned)strlen(key) };
    int rc = gnutls_certificate_allocate_credentials(&t->keys);
    return rc < 0 ? rc : gnutls_certificate_set_x509_key_mem(t->keys, &c, &k, GNUTLS_X509_FMT_PEM);
}

int tls_open(const char *cert_path, const char *key_path, struct tls **out, struct err *e)
{
    char *cert = NULL, *key = NULL;
    *out = NULL;
    if (!cert_path && !key_path)
        return 0;
    if (!cert_path || !key_path)
        return err_set(e, -EINVAL, "TLS needs both --tls-cert and --tls-key, %s is missing",
                       cert_path ? "--tls-key" : "--tls-cert");
    int rc = read_pem(cert_path, "--tls-cert", "BEGIN CERTIFICATE", &cert, e);
    if (!rc)
        rc = read_pem(key_path, "--tls-key", "PRIVATE KEY", &key, e);
    if (!rc && !(*out = calloc(1, sizeof **out)))
        rc = err_set(e, -ENOMEM, "TLS: out of memory");
    int bad = rc ? 0 : set_keys(*out, cert, key);
    if (bad < 0)
        rc = err_set(e, -EINVAL, "TLS: %s and %s were refused (%s): is the key the certificate's? openssl x509 -noout "
                     "-pubkey -in CERT and openssl pkey -pubout -in KEY must print the same", cert_path, key_path,
                     gnutls_strerror(bad));
    free(cert);
    wipe(key);
    if (rc) {
        tls_close(*out);
        *out = NULL;
    }
    return rc;
}

void tls_close(struct tls *t)
{
    if (!t)
        return;
    if (t->keys)
        gnutls_certificate_free_credentials(t->keys);
    free(t);
}

/* ---- sessions ---- */

struct tls_session *tls_accept(struct tls *t, int fd)
{
    static const gnutls_datum_t http = { (unsigned char *)"http/1.1", 8 };
    struct tls_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (gnutls_init(&s->s, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        free(s);
        return NULL;
    }
    if (gnutls_set_default_priority(s->s) < 0 || gnutls_credentials_set(s->s, GNUTLS_CRD_CERTIFICATE, t->keys) < 0 ||
        gnutls_alpn_set_protocols(s->s, &http, 1, 0) < 0) {
        tls_session_free(s);
        return NULL;
    }
    s->fd = fd;
    gnutls_transport_set_ptr(s->s, s);
    gnutls_transport_set_pull_function(s->s, pull);
    gnutls_transport_set_vec_push_function(s->s, push);
    return s;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    gnutls_deinit(s->s);
    free(s);
}

static ssize_t result(ssize_t n)
{
    if (n >= 0)
        return n;
    errno = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED || !gnutls_error_is_fatal((int)n) ? EAGAIN : ECONNRESET;
    return -1;
}

int tls_handshake(struct tls_session *s)
{
    return (int)result(gnutls_handshake(s->s));
}

ssize_t tls_recv(struct tls_session *s, void *buf, size_t n)
{
    ssize_t got = gnutls_record_recv(s->s, buf, n);
    if (got == GNUTLS_E_REHANDSHAKE) /* not done here: a client that insists leaves */
        got = GNUTLS_E_PUSH_ERROR;
    return result(got);
}

ssize_t tls_send(struct tls_session *s, const void *buf, size_t n)
{
    return result(gnutls_record_send(s->s, buf, n));
}

int tls_bye(struct tls_session *s)
{
    return (int)result(gnutls_bye(s->s, GNUTLS_SHUT_WR));
}

int tls_wants_write(struct tls_session *s)
{
    return gnutls_record_get_direction(s->s);
}
