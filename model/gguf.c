#include "model/gguf.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/log.h"
#include "base/mapped.h"
#include "model/gguf_parse.h"

struct gguf_index {
    struct gguf_names kv, tensors;
    bool mapped; /* the parts are our mappings, not the caller's memory */
    void **mems; /* of tensors that lie in no part */
    uint64_t n_mems;
};

const char *gguf_path(const struct gguf *g)
{
    return g->parts[0].path;
}

/* --- parts ------------------------------------------------------------------------------------------------------ */

/* Maps a whole regular file. */
static int map_file(const char *path, const uint8_t **map, uint64_t *bytes, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a named pipe must not hold us up */
    if (fd < 0)
        return err_set(e, -errno, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st))
        rc = err_set(e, -errno, "%s: cannot stat: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = err_set(e, -EISDIR, "%s: expected a GGUF file, found a directory (name the .gguf file in it)",
                     path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(e, -EINVAL, "%s: expected a GGUF file, found a device, pipe or socket", path);
    else if (st.st_size == 0)
        rc = err_set(e, -EINVAL, "%s: the file is empty (download it again)", path);
    if (!rc) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            rc = err_set(e, -errno, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size,
                         strerror(errno));
        *map = p;
        *bytes = (uint64_t)st.st_size;
    }
    close(fd);
    return rc;
}

static int add_part(struct gguf *g, const char *path, const uint8_t *map, uint64_t bytes, struct err *e)
{
    struct gguf_part *p = realloc(g->parts, (g->n_parts + 1) * sizeof *p);
    struct stat st;
    char *copy = strdup(path);
    if (p)
        g->parts = p;
    if (!p || !copy) {
        free(copy);
        return err_set(e, -ENOMEM, "%s: no memory", path);
    }
    struct gguf_part *part = &g->parts[g->n_parts++];
    *part = (struct gguf_part){.path = copy, .map = map, .bytes = bytes};
    g->total_bytes += bytes;
    if (g->index->mapped) {
        mapped_add(map, bytes, copy);
        if (stat(path, &st) == 0) {
            part->changed[0] = st.st_mtim.tv_sec;
            part->changed[1] = st.st_mtim.tv_nsec;
            part->inode[0] = (uint64_t)st.st_dev;
            part->inode[1] = (uint64_t)st.st_ino;
        }
    }
    return 0;
}

int gguf_check_unchanged(const struct gguf *g, struct err *e)
{
    for (uint32_t i = 0; i < g->n_parts && g->index->mapped; i++) {
        const struct gguf_part *p = &g->parts[i];
        struct stat st;
        if (stat(p->path, &st) || (uint64_t)st.st_dev != p->inode[0] || (uint64_t)st.st_ino != p->inode[1])
            continue;
        if ((uint64_t)st.st_size != p->bytes || st.st_mtim.tv_sec != p->changed[0] || st.st_mtim.tv_nsec != p->changed[1])
            return err_set(e, -ESTALE, "%s: was written to while it was loaded (start again when it is whole)", p->path);
    }
    return 0;
}

/* Appends the tensors of `d`, which belong to the last part, and empties it of them. */
static int add_tensors(struct gguf *g, struct gguf_dir *d, struct err *e)
{
    uint32_t part = g->n_parts - 1;
    struct gguf_tensor *all = realloc(g->tensors, MAX(g->n_tensors + d->n_tensors, 1) * sizeof *all);
    if (!all)
        return err_set(e, -ENOMEM, "%s: no memory for %llu tensors", g->parts[part].path,
                       (unsigned long long)(g->n_tensors + d->n_tensors));
    g->tensors = all;
    for (uint64_t i = 0; i < d->n_tensors; i++) {
        uint64_t at = g->n_tensors++;
        all[at] = d->tensors[i];
        all[at].part = part;
        int rc = gguf_names_add(&g->index->tensors, all[at].name, at);
        if (rc == -EEXIST) {
            const struct gguf_tensor *first =
                &all[gguf_names_find(&g->index->tensors, all[at].name.s, all[at].name.len)];
            return err_set(e, -EINVAL, "%s: tensor '%.*s' appears twice, first in %s (the file is damaged)",
                           g->parts[part].path, (int)all[at].name.len, all[at].name.s,
                           g->parts[first->part].path);
        }
        if (rc)
            return err_set(e, rc, "%s: no memory to index the tensors", g->parts[part].path);
    }
    return 0;
}

/* Parses the bytes as the next part; `d` keeps the metadata. */
static int read_part(struct gguf *g, const char *path, const uint8_t *map, uint64_t bytes, struct gguf_dir *d,
                     struct err *e)
{
    int rc = gguf_parse(map, bytes, d, e);
    if (rc) {
        err_context(e, "%s", path);
        return rc;
    }
    return add_tensors(g, d, e);
}

/* --- split models ----------------------------------------------------------------------------------------------- */

enum { SPLIT_MAX = 99999, SPLIT_SUFFIX = sizeof "-00001-of-00002.gguf" - 1 };

struct split {
    uint64_t no, count; /* no counts from 0; count 0 or 1: the model is one file */
    uint64_t n_tensors; /* over all parts; UINT64_MAX: not stated                */
};

static int split_key(const struct gguf_dir *d, const char *path, const char *key, uint64_t *out,
                     struct err *e)
{
    const struct gguf_kv *kv = gguf_dir_find(d, key);
    if (kv && (kv->type == GGUF_ARR || !gguf_kv_u64(kv, 0, out)))
        return err_set(e, -EINVAL,
                       "%s: key '%s': expected an integer of at least 0, found %s (split the model again)",
                       path, key, gguf_type_name(kv->type));
    return 0;
}

static int read_split(const struct gguf_dir *d, const char *path, struct split *s, struct err *e)
{
    *s = (struct split){0, 0, UINT64_MAX};
    int rc = split_key(d, path, "split.no", &s->no, e);
    if (!rc)
        rc = split_key(d, path, "split.count", &s->count, e);
    if (!rc)
        rc = split_key(d, path, "split.tensors.count", &s->n_tensors, e);
    if (rc)
        return rc;
    if (s->count > SPLIT_MAX)
        return err_set(e, -EINVAL,
                       "%s: key 'split.count': expected at most %d, found %llu (the file is damaged)", path,
                       SPLIT_MAX, (unsigned long long)s->count);
    if (s->count > 1 && s->no >= s->count)
        return err_set(e, -EINVAL,
                       "%s: key 'split.no': expected less than split.count %llu, found %llu (the file is "
                       "damaged)",
                       path, (unsigned long long)s->count, (unsigned long long)s->no);
    return 0;
}

/* "dir/name-00002-of-00005.gguf" from any part's path; NULL when the path does not end like a part of `count`. */
static char *part_path(const char *path, uint64_t no, uint64_t count)
{
    size_t n = strlen(path);
    if (n <= SPLIT_SUFFIX)
        return NULL;
    const char *suffix = path + n - SPLIT_SUFFIX;
    unsigned have_no, have_count;
    char want[SPLIT_SUFFIX + 1], *out;
    if (sscanf(suffix, "-%5u-of-%5u.gguf", &have_no, &have_count) != 2 || have_count != count)
        return NULL;
    snprintf(want, sizeof want, "-%05u-of-%05u.gguf", have_no, have_count);
    if (strcmp(want, suffix) != 0)
        return NULL;
    if (asprintf(&out, "%.*s-%05u-of-%05u.gguf", (int)(n - SPLIT_SUFFIX), path, (unsigned)no + 1,
                 (unsigned)count) < 0)
        return NULL;
    return out;
}

static int not_first(const char *path, const struct split *s, struct err *e)
{
    char *first = part_path(path, 0, s->count);
    int rc =
        err_set(e, -EINVAL, "%s: this is part %llu of a model of %llu parts, expected the first (open %s)",
                path, (unsigned long long)s->no + 1, (unsigned long long)s->count,
                first ? first : "the part whose name ends with -00001-of-0000N.gguf");
    free(first);
    return rc;
}

static int read_next_part(struct gguf *g, const struct split *s, uint64_t no, struct err *e)
{
    char *path = part_path(gguf_path(g), no, s->count);
    if (!path)
        return err_set(e, -EINVAL,
                       "%s: the first of %llu parts, expected a name that ends with -00001-of-%05llu.gguf "
                       "(give the parts their names back)",
                       gguf_path(g), (unsigned long long)s->count, (unsigned long long)s->count);
    struct gguf_dir d = {0};
    struct split other;
    const uint8_t *map = NULL;
    uint64_t bytes = 0;
    int rc = map_file(path, &map, &bytes, e);
    if (rc == -ENOENT)
        err_set(e, rc, "%s: part %llu of %llu is missing: expected %s (download it into the same folder)",
                gguf_path(g), (unsigned long long)no + 1, (unsigned long long)s->count, path);
    if (!rc && (rc = add_part(g, path, map, bytes, e)))
        munmap((void *)(uintptr_t)map, bytes);
    if (!rc)
        rc = read_part(g, path, map, bytes, &d, e);
    if (!rc)
        rc = read_split(&d, path, &other, e);
    if (!rc && (other.no != no || other.count != s->count))
        rc = err_set(e, -EINVAL,
                     "%s: expected part %llu of %llu, found part %llu of %llu (the parts belong to different "
                     "models, or were renamed: download them again)",
                     path, (unsigned long long)no + 1, (unsigned long long)s->count,
                     (unsigned long long)other.no + 1, (unsigned long long)other.count);
    gguf_dir_finish(&d);
    free(path);
    return rc;
}

static int read_other_parts(struct gguf *g, const struct split *s, struct err *e)
{
    if (s->no != 0)
        return not_first(gguf_path(g), s, e);
    if (!g->index->mapped)
        return err_set(e, -ENOTSUP, "%s: part 1 of %llu: a split model opens from files only", gguf_path(g),
                       (unsigned long long)s->count);
    for (uint64_t no = 1; no < s->count; no++) {
        int rc = read_next_part(g, s, no, e);
        if (rc)
            return rc;
    }
    if (s->n_tensors != UINT64_MAX && s->n_tensors != g->n_tensors)
        return err_set(e, -EINVAL,
                       "%s: expected %llu tensors over all parts (split.tensors.count), found %llu (the "
                       "parts do not belong together: download them again)",
                       gguf_path(g), (unsigned long long)s->n_tensors, (unsigned long long)g->n_tensors);
    return 0;
}

/* --- open and close --------------------------------------------------------------------------------------------- */

static int open_first(struct gguf *g, const char *name, const uint8_t *map, uint64_t bytes, struct err *e)
{
    struct gguf_dir d;
    struct split s;
    int rc = read_part(g, name, map, bytes, &d, e);
    if (!rc)
        rc = read_split(&d, name, &s, e);
    g->version = d.version;
    g->alignment = d.alignment;
    g->n_kv = d.n_kv;
    g->kv = d.kv;
    g->index->kv = d.kv_names;
    free(d.tensors);
    if (!rc && s.count > 1)
        rc = read_other_parts(g, &s, e);
    if (!rc)
        log_debug(GGUF, "%s: version %u, %llu keys, %llu tensors, %u part(s), %llu bytes", name, g->version,
                  (unsigned long long)g->n_kv, (unsigned long long)g->n_tensors, g->n_parts,
                  (unsigned long long)g->total_bytes);
    return rc;
}

static int open_any(const char *name, const uint8_t *map, uint64_t bytes, bool mapped, struct gguf **out,
                    struct err *e)
{
    struct gguf *g = calloc(1, sizeof *g);
    struct gguf_index *index = calloc(1, sizeof *index);
    int rc = g && index ? 0 : err_set(e, -ENOMEM, "%s: no memory", name);
    if (!rc) {
        g->index = index;
        index->mapped = mapped;
        rc = add_part(g, name, map, bytes, e);
    }
    if (rc) { /* the first part is not ours yet */
        if (mapped)
            munmap((void *)(uintptr_t)map, bytes);
        free(g ? g->parts : NULL);
        free(g);
        free(index);
        return rc;
    }
    rc = open_first(g, name, map, bytes, e);
    if (rc) {
        gguf_close(g);
        return rc;
    }
    *out = g;
    return 0;
}

int gguf_open(const char *path, struct gguf **out, struct err *e)
{
    const uint8_t *map = NULL;
    uint64_t bytes = 0;
    *out = NULL;
    int rc = map_file(path, &map, &bytes, e);
    return rc ? rc : open_any(path, map, bytes, true, out, e);
}

int gguf_open_memory(const char *name, const void *bytes, uint64_t n, struct gguf **out, struct err *e)
{
    *out = NULL;
    return open_any(name, bytes, n, false, out, e);
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n_parts; i++) {
        if (g->index->mapped) {
            mapped_remove(g->parts[i].map);
            munmap((void *)(uintptr_t)g->parts[i].map, g->parts[i].bytes);
        }
        free(g->parts[i].path);
    }
    for (uint64_t i = 0; g->kv && i < g->n_kv; i++)
        free((void *)(uintptr_t)g->kv[i].str_off);
    gguf_names_finish(&g->index->kv);
    gguf_names_finish(&g->index->tensors);
    for (uint64_t i = 0; i < g->index->n_mems; i++)
        free(g->index->mems[i]);
    free(g->index->mems);
    free(g->kv);
    free(g->tensors);
    free(g->parts);
    free(g->index);
    free(g);
}

static int index_tensors(struct gguf *g, struct err *e)
{
    gguf_names_finish(&g->index->tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_str s = g->tensors[i].name;
        int rc = gguf_names_add(&g->index->tensors, s, i);
        if (rc == -EEXIST)
            return err_set(e, rc, "%s: tensor '%.*s' is there twice, in two layouts (convert the model again)", gguf_path(g), (int)s.len, s.s);
        if (rc)
            return err_set(e, rc, "%s: no memory to index the tensors", gguf_path(g));
    }
    return 0;
}

int gguf_replace_tensor(struct gguf *g, uint64_t at, const struct gguf_tensor *with, uint32_t n, void *mem, struct err *e)
{
    void **mems = realloc(g->index->mems, (g->index->n_mems + 1) * sizeof *mems);
    if (!mems) {
        free(mem);
        return err_set(e, -ENOMEM, "%s: no memory", gguf_path(g));
    }
    g->index->mems = mems;
    mems[g->index->n_mems++] = mem;
    struct gguf_tensor *all = realloc(g->tensors, (g->n_tensors + n) * sizeof *all);
    if (!all)
        return err_set(e, -ENOMEM, "%s: no memory", gguf_path(g));
    g->tensors = all;
    memmove(all + at + n, all + at + 1, (g->n_tensors - at - 1) * sizeof *all);
    memcpy(all + at, with, n * sizeof *all);
    g->n_tensors += n - 1;
    return index_tensors(g, e);
}

/* --- lookup ----------------------------------------------------------------------------------------------------- */

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
    int64_t i = gguf_names_find(&g->index->kv, key, strlen(key));
    return i < 0 ? NULL : &g->kv[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
    int64_t i = gguf_names_find(&g->index->tensors, name, strlen(name));
    return i < 0 ? NULL : &g->tensors[i];
}
