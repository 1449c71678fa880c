#include "pull/sha256.h"

#include <ctype.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>

int sha256_begin(struct sha256 *s)
{
    gnutls_hash_hd_t h;
    s->h = NULL;
    if (gnutls_hash_init(&h, GNUTLS_DIG_SHA256))
        return -ENOMEM;
    s->h = h;
    return 0;
}

int sha256_add(struct sha256 *s, const void *p, size_t n)
{
    return gnutls_hash(s->h, p, n) ? -EIO : 0;
}

void sha256_end(struct sha256 *s, char out[SHA256_TEXT])
{
    unsigned char d[32] = { 0 };
    if (!s->h)
        return;
    gnutls_hash_deinit(s->h, d);
    s->h = NULL;
    for (size_t i = 0; out && i < sizeof d; i++)
        snprintf(out + 2 * i, 3, "%02x", d[i]);
}

static bool from_hex(const char *s, size_t n, char out[SHA256_TEXT])
{
    if (n != 64)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isxdigit((unsigned char)s[i]))
            return false;
        out[i] = (char)tolower((unsigned char)s[i]);
    }
    out[64] = 0;
    return true;
}

bool sha256_from_text(const char *s, char out[SHA256_TEXT])
{
    return from_hex(s, strlen(s), out);
}

bool sha256_from_etag(const char *etag, char out[SHA256_TEXT])
{
    size_t n = strlen(etag);
    return n == 66 && etag[0] == '"' && etag[65] == '"' && from_hex(etag + 1, 64, out);
}
