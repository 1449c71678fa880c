/* pull/sha256.h: sums of files, FIPS 180-4's SHA-256 as GnuTLS computes it; texts of sums are 64 lower-case hex digits. */
#ifndef ZINC_PULL_SHA256_H
#define ZINC_PULL_SHA256_H

#include <stdbool.h>
#include <stddef.h>

enum { SHA256_TEXT = 65 };

struct sha256 {
    void *h;
};
int sha256_begin(struct sha256 *s); /* 0 or -ENOMEM */
int sha256_add(struct sha256 *s, const void *p, size_t n);
/* Ends it; `out` may be NULL. After it, or before sha256_begin on zeroed memory, it does nothing. */
void sha256_end(struct sha256 *s, char out[SHA256_TEXT]);

/* 64 hex digits, made lower case. False: it is no sum. */
bool sha256_from_text(const char *s, char out[SHA256_TEXT]);
/* The same between the quotes of an entity tag. */
bool sha256_from_etag(const char *etag, char out[SHA256_TEXT]);

#endif
