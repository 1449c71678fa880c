/* server/tls.h: TLS by GnuTLS: the certificate and its key, two PEM files, and sessions over sockets that do not block. */
#ifndef ZINC_SERVER_TLS_H
#define ZINC_SERVER_TLS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct tls;         /* the certificate */
struct tls_session; /* one connection  */

/* Reads both files and looks whether they belong together. Without paths *out is NULL: plain HTTP. -EINVAL: not PEM, one
 * of them missing, or the key is another's. */
int tls_open(const char *cert_path, const char *key_path, struct tls **out, struct err *e);
void tls_close(struct tls *t); /* NULL is fine */

/* The server's side over fd, which stays the caller's. NULL: out of memory. */
struct tls_session *tls_accept(struct tls *t, int fd);
void tls_session_free(struct tls_session *s); /* NULL is fine */

/* As recv and send on a socket that does not block: -1 with errno EAGAIN, where tls_wants_write tells for which
 * direction to wait; a send is repeated with the same bytes then. ECONNRESET stands for all that is wrong. */
int tls_handshake(struct tls_session *s); /* 0: done */
ssize_t tls_recv(struct tls_session *s, void *buf, size_t n);
ssize_t tls_send(struct tls_session *s, const void *buf, size_t n);
int tls_bye(struct tls_session *s);       /* tells the client that nothing is missing at the end. 0: done */
int tls_wants_write(struct tls_session *s);

#endif
