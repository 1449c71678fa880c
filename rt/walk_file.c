/* Lists of a persistent plan as files: the head, kernels, launches, walks, lists, each padded to 8 bytes, and the 64-bit FNV-1a hash of
 * all that (doc/persistent.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "rt/walk_plan.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lists are little-endian");

enum { N_TABLES = 4 };
#define MAX_FILE (1ull << 30)

struct table {
    void *at;
    uint64_t bytes;
};

static void tables_of(const struct walk_plan *p, struct table t[N_TABLES])
{
    t[0] = (struct table){ p->kernel, p->h.n_kernels * (uint64_t)sizeof *p->kernel };
    t[1] = (struct table){ p->launch, p->h.n_launches * (uint64_t)sizeof *p->launch };
    t[2] = (struct table){ p->walk, p->h.n_walks * (uint64_t)sizeof *p->walk };
    t[3] = (struct table){ p->lists, p->h.list_bytes };
}

/* Bytes of the file of such a plan, without the hash. */
static uint64_t body_bytes(const struct walk_head *h)
{
    struct table t[N_TABLES];
    uint64_t n = sizeof *h;
    tables_of(&(struct walk_plan){ .h = *h }, t);
    for (int i = 0; i < N_TABLES; i++)
        n += align_up(t[i].bytes, 8);
    return n;
}

uint64_t walk_file_hash(const void *bytes, uint64_t n)
{
    const uint8_t *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

int walk_plan_save(const struct walk_plan *p, const char *path, struct err *e)
{
    struct table t[N_TABLES];
    uint64_t n = body_bytes(&p->h), at = sizeof p->h, hash;
    uint8_t *mem = calloc(1, n + sizeof hash);
    if (!mem)
        return err_set(e, -ENOMEM, "walk: %s: %llu bytes to write", path, (unsigned long long)n);
    memcpy(mem, &p->h, sizeof p->h);
    tables_of(p, t);
    for (int i = 0; i < N_TABLES; i++) {
        if (t[i].bytes)
            memcpy(mem + at, t[i].at, t[i].bytes);
        at += align_up(t[i].bytes, 8);
    }
    hash = walk_file_hash(mem, n);
    memcpy(mem + n, &hash, sizeof hash);
    errno = 0;
    FILE *f = fopen(path, "wbe");
    bool written = f && fwrite(mem, 1, n + sizeof hash, f) == n + sizeof hash;
    int rc = written ? 0 : errno ? -errno : -EIO;
    if (f && fclose(f) && !rc)
        rc = errno ? -errno : -EIO;
    free(mem);
    return rc ? err_set(e, rc, "walk: %s: cannot write: %s", path, strerror(-rc)) : 0;
}

int walk_plan_load_memory(const char *name, const void *bytes, uint64_t n, const struct stream *s, struct walk_plan **out,
                          struct err *e)
{
    const uint8_t *b = bytes;
    struct walk_head h;
    struct table t[N_TABLES];
    uint64_t hash, at = sizeof h;
    if (n < sizeof h + sizeof hash || memcmp(b, WALK_MAGIC, 7) != 0)
        return err_set(e, -EINVAL, "walk: %s: no lists of a persistent plan (streamdump --walk --save makes them)", name);
    memcpy(&h, b, sizeof h);
    if (memcmp(h.magic, WALK_MAGIC, sizeof h.magic) != 0)
        return err_set(e, -EINVAL, "walk: %s: version %u, this program reads %u (make the lists again)", name,
                       (unsigned)(uint8_t)h.magic[7], (unsigned)WALK_MAGIC[7]);
    if (body_bytes(&h) != n - sizeof hash)
        return err_set(e, -EINVAL, "walk: %s: %llu bytes, its head counts %llu (truncated?)", name, (unsigned long long)n,
                       (unsigned long long)(body_bytes(&h) + sizeof hash));
    memcpy(&hash, b + n - sizeof hash, sizeof hash);
    if (hash != walk_file_hash(b, n - sizeof hash))
        return err_set(e, -EINVAL, "walk: %s: damaged: its hash does not match", name);
    struct walk_plan *p = walk_plan_alloc(&h);
    if (!p)
        return err_set(e, -ENOMEM, "walk: %s: %llu bytes", name, (unsigned long long)n);
    tables_of(p, t);
    for (int i = 0; i < N_TABLES; i++) {
        if (t[i].bytes)
            memcpy(t[i].at, b + at, t[i].bytes);
        at += align_up(t[i].bytes, 8);
    }
    int rc = walk_plan_verify(p, s, NULL, e);
    if (rc) {
        err_context(e, "%s", name);
        walk_plan_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

int walk_plan_load(const char *path, const struct stream *s, struct walk_plan **out, struct err *e)
{
    struct stat st;
    uint8_t *mem = NULL;
    int rc = 0;
    FILE *f = fopen(path, "rbe");
    if (!f)
        return err_set(e, -errno, "walk: %s: %s", path, strerror(errno));
    if (fstat(fileno(f), &st) < 0)
        rc = err_set(e, -errno, "walk: %s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE)
        rc = err_set(e, -EINVAL, "walk: %s: not a regular file of at most 1 GiB", path);
    else if (!(mem = malloc((size_t)st.st_size + 1)))
        rc = err_set(e, -ENOMEM, "walk: %s: %llu bytes", path, (unsigned long long)st.st_size);
    else if (fread(mem, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        rc = err_set(e, -EIO, "walk: %s: cannot read: %s", path, ferror(f) ? strerror(errno) : "it became shorter");
    else
        rc = walk_plan_load_memory(path, mem, (uint64_t)st.st_size, s, out, e);
    free(mem);
    fclose(f);
    return rc;
}
