#include "pull/store.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pull/name.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct store_model *)a)->name, ((const struct store_model *)b)->name);
}

void store_free(struct store_model *m, size_t n)
{
    for (size_t i = 0; m && i < n; i++) {
        free(m[i].name);
        free(m[i].path);
    }
    free(m);
}

struct list {
    struct store_model *m;
    size_t n;
};

/* One file below the folder; `place` is its path there, with ".part" at its end if it is not whole. */
static int add(struct list *l, const char *home, char *place, uint64_t bytes)
{
    unsigned no = 1, count = 1;
    char name[NAME_URL_BYTES];
    size_t n = strlen(place);
    bool whole = n < 5 || strcmp(place + n - 5, ".part") != 0;
    if (!whole)
        place[n - 5] = 0;
    bool split = name_split(place, &no, &count);
    if (split)
        name_set_part(place, 1);
    if (!name_of_place(place, name, sizeof name))
        return 0; /* somebody else's */
    size_t i = 0;
    while (i < l->n && strcmp(l->m[i].name, name) != 0)
        i++;
    if (i == l->n) {
        struct store_model *m = realloc(l->m, (l->n + 1) * sizeof *m);
        if (!m)
            return -ENOMEM;
        l->m = m;
        m[i] = (struct store_model){ .name = strdup(name), .n_parts = count };
        if (asprintf(&m[i].path, "%s/%s", home, place) < 0)
            m[i].path = NULL;
        l->n++;
        if (!m[i].name || !m[i].path)
            return -ENOMEM;
    }
    l->m[i].bytes += whole ? bytes : 0;
    l->m[i].n_here += whole;
    return 0;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n > k && strcmp(s + n - k, end) == 0;
}

int store_list(const char *home, struct store_model **out, size_t *n, struct err *e)
{
    struct list l = { 0 };
    char *copy = strdup(home), *const roots[] = { copy, NULL }, place[NAME_PLACE + 8];
    FTS *fts = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    int rc = fts ? 0 : -ENOMEM;
    size_t n_home = strlen(home);
    for (FTSENT *f; !rc && (f = fts_read(fts));) {
        size_t len = strlen(f->fts_path);
        if (f->fts_level > 16)
            fts_set(fts, f, FTS_SKIP);
        if (f->fts_info != FTS_F || (!ends_with(f->fts_name, f->fts_namelen, ".gguf") && !ends_with(f->fts_name, f->fts_namelen, ".gguf.part")) ||
            len - n_home - 1 >= sizeof place)
            continue;
        strcpy(place, f->fts_path + n_home + 1);
        rc = add(&l, home, place, (uint64_t)f->fts_statp->st_size);
    }
    if (fts)
        fts_close(fts);
    free(copy);
    if (rc) {
        store_free(l.m, l.n);
        return err_set(e, rc, "%.300s: out of memory", home);
    }
    if (l.n)
        qsort(l.m, l.n, sizeof *l.m, by_name);
    *out = l.m;
    *n = l.n;
    return 0;
}

static int remove_one(const char *path, struct err *e)
{
    static const char *const ends[] = { "", ".part", ".part.json" };
    int rc = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !rc; i++) {
        char *p;
        if (asprintf(&p, "%s%s", path, ends[i]) < 0)
            return err_set(e, -ENOMEM, "out of memory");
        if (unlink(p) && errno != ENOENT)
            rc = err_set(e, -errno, "%.300s: cannot be removed: %s", p, strerror(errno));
        free(p);
    }
    return rc;
}

int store_remove(const char *home, const char *path, struct err *e)
{
    char *p = strdup(path);
    unsigned no, count = 1;
    int rc = p ? 0 : err_set(e, -ENOMEM, "out of memory");
    bool split = p && name_split(p, &no, &count);
    for (unsigned i = 1; i <= count && !rc; i++) {
        if (split)
            name_set_part(p, i);
        rc = remove_one(p, e);
    }
    for (char *slash; !rc && (slash = strrchr(p, '/')) && (size_t)(slash - p) > strlen(home);) {
        *slash = 0;
        if (rmdir(p))
            break;
    }
    free(p);
    return rc;
}
