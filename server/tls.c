#include "server/tls.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PEM = 1 << 20 };

static int read_pem(const char *path, const char *flag, const char *mark, char **text, struct err *e)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return err_set(e, -errno, "%s %s: %s", flag, path, strerror(errno));
    char *s = calloc(1, MAX_PEM + 2); /* one more than allowed, and the end */
    size_t n = s ? fread(s, 1, MAX_PEM + 1, f) : 0;
    int rc = !s                ? err_set(e, -ENOMEM, "%s: out of memory", flag)
             : ferror(f)       ? err_set(e, -EIO, "%s %s: cannot be read: %s", flag, path, strerror(errno))
             : n > MAX_PEM     ? err_set(e, -EINVAL, "%s %s: more than 1 MiB is no PEM file", flag, path)
             : !strstr(s, mark) ? err_set(e, -EINVAL, "%s %s: no line with '%s': not the PEM file that is expected",
                                          flag, path, mark) : 0;
    fclose(f);
    if (rc)
        free(s);
    else
        *text = s;
    return rc;
}

int tls_read(const char *cert_path, const char *key_path, struct tls *out, struct err *e)
{
    *out = (struct tls){ 0 };
    if (!cert_path && !key_path)
        return 0;
    if (!cert_path || !key_path)
        return err_set(e, -EINVAL, "TLS needs both --tls-cert and --tls-key, %s is missing",
                       cert_path ? "--tls-key" : "--tls-cert");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return err_set(e, -ENOTSUP, "TLS: this libmicrohttpd (%s) was built without it: use a reverse proxy",
                       MHD_get_version());
    int rc = read_pem(cert_path, "--tls-cert", "BEGIN CERTIFICATE", &out->cert, e);
    if (!rc)
        rc = read_pem(key_path, "--tls-key", "PRIVATE KEY", &out->key, e);
    if (rc)
        tls_free(out);
    return rc;
}

void tls_free(struct tls *t)
{
    if (t->key)
        explicit_bzero(t->key, strlen(t->key));
    free(t->cert);
    free(t->key);
    *t = (struct tls){ 0 };
}
