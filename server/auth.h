/* server/auth.h: API keys. How long a check takes does not depend on the key that was sent. */
#ifndef ZINC_SERVER_AUTH_H
#define ZINC_SERVER_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { AUTH_MAX_KEY = 256 };

struct auth;

/* keys [n], and those in the file `path` (NULL: none), one a line; # begins a comment. -EINVAL: a key that no client
 * can send, named by its place and never by its text; -ENOENT, -EFBIG (1 MiB) and the like: the file. */
int auth_create(const char *const *keys, uint32_t n, const char *path, struct auth **out, struct err *e);
void auth_destroy(struct auth *a); /* NULL is fine */

bool auth_required(const struct auth *a);

/* Is `header`, the value of Authorization (may be NULL), "Bearer KEY" with one of the keys? *client then gets a number
 * that tells the keys apart and nothing about them. */
bool auth_check(const struct auth *a, const char *header, uint64_t *client);
/* The same for a header that is the key itself (x-api-key, as Anthropic's clients send it). */
bool auth_check_key(const struct auth *a, const char *key, uint64_t *client);

/* A name for that number which stays when keys come and go: 64 bits of SHA-256 of the key (FIPS 180-4), never 0. */
uint64_t auth_name(const struct auth *a, uint64_t client);

#endif
