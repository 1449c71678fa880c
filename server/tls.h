/* server/tls.h: the certificate and its key, two PEM files. */
#ifndef ZINC_SERVER_TLS_H
#define ZINC_SERVER_TLS_H

#include "base/err.h"

struct tls {
    char *cert, *key; /* text; NULL: plain HTTP */
};

/* Reads both files and looks whether they are what they should be. Without paths nothing is read. -EINVAL: not PEM, one
 * of them missing; -ENOTSUP: this libmicrohttpd was built without TLS. */
int tls_read(const char *cert_path, const char *key_path, struct tls *out, struct err *e);
void tls_free(struct tls *t);

#endif
