#include "pull/chosen.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cache.h"

enum { MAX_BYTES = 4096 };

static int path_of(const char *home, char path[CACHE_PATH], struct err *e)
{
    int n = snprintf(path, CACHE_PATH, "%s/default", home);
    return n < CACHE_PATH ? 0 : err_set(e, -ENAMETOOLONG, "%.300s: the folder's path is longer than %d bytes", home, CACHE_PATH);
}

/* One line of printable characters. */
static bool is_name(const char *s)
{
    for (const char *p = s; *p; p++)
        if (iscntrl((unsigned char)*p))
            return false;
    return *s;
}

int chosen_get(const char *home, char **name, struct err *e)
{
    char path[CACHE_PATH], text[MAX_BYTES + 2];
    *name = NULL;
    int rc = path_of(home, path, e);
    FILE *f = rc ? NULL : fopen(path, "re");
    if (!f)
        return rc ? rc : errno == ENOENT || errno == ENOTDIR ? 0 : err_set(e, -errno, "%s: %s", path, strerror(errno));
    size_t n = fread(text, 1, sizeof text - 1, f);
    bool bad = ferror(f);
    fclose(f);
    text[n] = 0;
    if (n && text[n - 1] == '\n')
        text[--n] = 0;
    if (bad || n > MAX_BYTES || strlen(text) != n || !is_name(text))
        return err_set(e, -EINVAL, "%s: holds no model's name in one line: zinc model use NAME writes it anew", path);
    *name = strdup(text);
    return *name ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int chosen_set(const char *home, const char *name, struct err *e)
{
    char path[CACHE_PATH], *line;
    int rc = path_of(home, path, e);
    if (rc)
        return rc;
    if (!name)
        return unlink(path) && errno != ENOENT && errno != ENOTDIR ? err_set(e, -errno, "%s: cannot be removed: %s", path, strerror(errno)) : 0;
    if (strlen(name) > MAX_BYTES || !is_name(name))
        return err_set(e, -EINVAL, "'%.100s' cannot be kept as a default: one line of at most %d bytes is expected", name, MAX_BYTES);
    if (asprintf(&line, "%s\n", name) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    if (!cache_write(path, NULL, 0, line, strlen(line)))
        rc = err_set(e, -errno, "%s: cannot be written: %s", path, strerror(errno));
    free(line);
    return rc;
}

size_t chosen_by_size(const struct store_model *m, size_t n, uint64_t memory, const bool *taken)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (m[i].n_here == m[i].n_parts && !taken[i] && (!memory || m[i].bytes <= memory) && (best == n || m[i].bytes > m[best].bytes))
            best = i;
    return best;
}
