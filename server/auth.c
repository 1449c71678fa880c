#include "server/auth.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/sys.h"

enum { MAX_FILE = 1 << 20 };

struct key {
    unsigned char text[AUTH_MAX_KEY]; /* padded with zeros, which no key contains */
};

struct auth {
    struct key *key;
    uint32_t n;
};

static int add_key(struct auth *a, const char *text, size_t len, const char *where, struct err *e)
{
    if (!len || len > AUTH_MAX_KEY)
        return err_set(e, -EINVAL, "%s: an API key has 1 to %d characters, this one %zu", where, AUTH_MAX_KEY, len);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return err_set(e, -EINVAL, "%s: character %zu of the API key is a blank or not ASCII", where, i + 1);
    struct key *more = realloc(a->key, (a->n + 1) * sizeof *more);
    if (!more)
        return err_set(e, -ENOMEM, "API keys: out of memory");
    a->key = more;
    memset(&more[a->n], 0, sizeof *more);
    memcpy(more[a->n++].text, text, len);
    return 0;
}

static int add_file(struct auth *a, const char *path, struct err *e)
{
    char where[300], *text = malloc(MAX_FILE + 1), *end;
    if (!text)
        return err_set(e, -ENOMEM, "API keys: out of memory");
    ssize_t len = sys_read_file(path, text, MAX_FILE + 1);
    int rc = len == -EFBIG ? err_set(e, -EFBIG, "API keys: %s: more than 1 MiB is no file of keys", path)
             : len < 0 ? err_set(e, (int)len, "API keys: %s: cannot be read: %s", path, strerror((int)-len))
             : (size_t)len > strlen(text) ? err_set(e, -EINVAL, "API keys: %s: a NUL in it: no file of keys", path) : 0;
    char *line = text;
    for (uint32_t no = 1; !rc && *line; no++, line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        line += strspn(line, " \t");
        size_t n = strcspn(line, "#\r\n");
        while (n && (line[n - 1] == ' ' || line[n - 1] == '\t'))
            n--;
        snprintf(where, sizeof where, "%.250s:%u", path, no);
        if (n)
            rc = add_key(a, line, n, where, e);
    }
    explicit_bzero(text, len > 0 ? (size_t)len : MAX_FILE);
    free(text);
    return rc;
}

int auth_create(const char *const *keys, uint32_t n, const char *path, struct auth **out, struct err *e)
{
    struct auth *a = calloc(1, sizeof *a);
    int rc = a ? 0 : err_set(e, -ENOMEM, "API keys: out of memory");
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_key(a, keys[i], strlen(keys[i]), "--api-key", e);
    if (!rc && path && !(rc = add_file(a, path, e)) && !a->n)
        rc = err_set(e, -EINVAL, "API keys: %s: no key in it", path);
    if (rc) {
        auth_destroy(a);
        return rc;
    }
    *out = a;
    return 0;
}

void auth_destroy(struct auth *a)
{
    if (!a)
        return;
    if (a->key)
        explicit_bzero(a->key, a->n * sizeof *a->key);
    free(a->key);
    free(a);
}

bool auth_required(const struct auth *a)
{
    return a->n > 0;
}

bool auth_check(const struct auth *a, const char *header, uint64_t *client)
{
    const char *s = header && strncasecmp(header, "Bearer ", 7) == 0 ? header + 7 : NULL;
    return auth_check_key(a, s ? s + strspn(s, " ") : NULL, client);
}

bool auth_check_key(const struct auth *a, const char *s, uint64_t *client)
{
    struct key given = { 0 };
    size_t len = s ? strnlen(s, AUTH_MAX_KEY + 1) : 0;
    if (len && len <= AUTH_MAX_KEY)
        memcpy(given.text, s, len);
    uint32_t found = 0;
    for (uint32_t k = 0; k < a->n; k++) { /* all of all keys, whatever is found: see the header */
        unsigned diff = 0;
        for (uint32_t i = 0; i < AUTH_MAX_KEY; i++)
            diff |= given.text[i] ^ a->key[k].text[i];
        found |= (k + 1) & (uint32_t)-(int32_t)((diff - 1) >> 31);
    }
    *client = found;
    return found != 0;
}

uint64_t auth_name(const struct auth *a, uint64_t client)
{
    unsigned char digest[32];
    uint64_t name = client;
    if (client >= 1 && client <= a->n &&
        gnutls_hash_fast(GNUTLS_DIG_SHA256, a->key[client - 1].text, AUTH_MAX_KEY, digest) == 0)
        memcpy(&name, digest, sizeof name);
    return name ? name : 1;
}
