#include "model/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "model/gguf.h"
#include "model/gguf_write.h"

#define SUMS   ".in_sum2"
#define COUNTS ".counts"

enum { NAME_MAX_BYTES = 256 };

int imatrix_create(struct imatrix **out, struct err *e)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : err_set(e, -ENOMEM, "imatrix: out of memory");
}

void imatrix_destroy(struct imatrix *im)
{
    if (!im)
        return;
    for (uint32_t i = 0; i < im->n; i++) {
        free(im->e[i].name);
        free(im->e[i].sum2);
        free(im->e[i].count);
    }
    free(im->e);
    free(im->dataset);
    free(im->model);
    free(im);
}

struct imatrix_entry *imatrix_add(struct imatrix *im, const char *name, uint32_t n_in, uint32_t n_mats)
{
    if (im->n == im->cap) {
        uint32_t cap = im->cap ? 2 * im->cap : 64;
        struct imatrix_entry *all = realloc(im->e, cap * sizeof *all);
        if (!all)
            return NULL;
        im->e = all;
        im->cap = cap;
    }
    struct imatrix_entry *en = &im->e[im->n];
    *en = (struct imatrix_entry){ strdup(name), n_in, n_mats, calloc((size_t)n_in * n_mats, sizeof(double)),
                                  calloc(n_mats, sizeof(double)) };
    im->n++; /* also when memory ran out: imatrix_destroy frees what there is */
    return en->name && en->sum2 && en->count ? en : NULL;
}

const struct imatrix_entry *imatrix_find(const struct imatrix *im, const char *name)
{
    for (uint32_t i = 0; im && i < im->n; i++)
        if (strcmp(im->e[i].name, name) == 0)
            return &im->e[i];
    return NULL;
}

static double mean_of_all(const struct imatrix_entry *en, uint32_t col)
{
    double sum = 0, n = 0;
    for (uint32_t m = 0; m < en->n_mats; m++) {
        sum += en->sum2[(size_t)m * en->n_in + col];
        n += en->count[m];
    }
    return n > 0 ? sum / n : 0;
}

bool imatrix_weights(const struct imatrix_entry *en, uint32_t mat, float *w)
{
    const double *sum = en->sum2 + (size_t)mat * en->n_in;
    double n = en->count[mat], total = 0;
    for (uint32_t i = 0; i < en->n_in; i++) {
        double v = n > 0 ? sum[i] / n : mean_of_all(en, i);
        total += v;
        w[i] = (float)v;
    }
    if (total > 0)
        return true;
    for (uint32_t i = 0; i < en->n_in; i++)
        w[i] = 1;
    return false;
}

/* ---- reading ---- */

static int read_numbers(const char *path, const struct gguf_tensor *t, double *out, struct err *e)
{
    uint64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    for (uint64_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, t->data + i * sizeof v, sizeof v);
        if (!(v >= 0) || !isfinite(v))
            return err_set(e, -EINVAL, "%s: %.*s[%llu] is %g, a finite number of at least 0 is expected; the file is damaged", path,
                           (int)t->name.len, t->name.s, (unsigned long long)i, (double)v);
        out[i] = v;
    }
    return 0;
}

/* NAME.in_sum2 and its NAME.counts. */
static int read_entry(struct imatrix *im, const char *path, const struct gguf *g, const struct gguf_tensor *t, struct err *e)
{
    char name[NAME_MAX_BYTES + sizeof COUNTS];
    uint64_t len = t->name.len - strlen(SUMS), mats = t->ne[1] * t->ne[2] * t->ne[3];
    if (len == 0 || len > NAME_MAX_BYTES || memchr(t->name.s, 0, t->name.len))
        return err_set(e, -EINVAL, "%s: a tensor's name of %llu bytes, 1 to %d are expected", path, (unsigned long long)len, NAME_MAX_BYTES);
    snprintf(name, sizeof name, "%.*s" COUNTS, (int)len, t->name.s);
    const struct gguf_tensor *c = gguf_find_tensor(g, name);
    uint64_t n_counts = c ? c->ne[0] * c->ne[1] * c->ne[2] * c->ne[3] : 0;
    if (!c || t->type != QT_F32 || c->type != QT_F32 || n_counts != mats || t->ne[0] > INT32_MAX || mats > INT32_MAX)
        return err_set(e, -EINVAL, "%s: %.*s: expected F32 with as many F32 numbers in %s as it has matrices (%llu), found %llu", path,
                       (int)t->name.len, t->name.s, name, (unsigned long long)mats, (unsigned long long)n_counts);
    name[len] = 0;
    struct imatrix_entry *en = imatrix_add(im, name, (uint32_t)t->ne[0], (uint32_t)mats);
    if (!en)
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    int rc = read_numbers(path, t, en->sum2, e);
    return rc ? rc : read_numbers(path, c, en->count, e);
}

static bool ends_with(struct gguf_str s, const char *tail)
{
    size_t n = strlen(tail);
    return s.len >= n && memcmp(s.s + s.len - n, tail, n) == 0;
}

static int read_head(struct imatrix *im, const char *path, const struct gguf *g, struct err *e)
{
    struct gguf_str type = { "", 0 }, set;
    const struct gguf_kv *kv = gguf_find(g, "imatrix.datasets");
    int rc = gguf_get_str(g, "general.type", &type, e);
    if (rc)
        return rc;
    if (type.len != 7 || memcmp(type.s, "imatrix", 7))
        return err_set(e, -EINVAL, "%s: no importance matrix: general.type is '%.*s', 'imatrix' is expected (zinc imatrix makes them)", path,
                       (int)MIN(type.len, 32), type.s);
    if ((rc = gguf_get_u32(g, "imatrix.chunk_count", &im->chunk_count, e)) ||
        (rc = gguf_get_u32(g, "imatrix.chunk_size", &im->chunk_size, e)))
        return rc;
    if (kv && kv->n && gguf_kv_str(kv, 0, &set) && !(im->dataset = strndup(set.s, set.len)))
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    kv = gguf_find(g, "imatrix.model");
    if (kv && kv->type == GGUF_STR && gguf_kv_str(kv, 0, &set) && !(im->model = strndup(set.s, set.len)))
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    return 0;
}

static int read_all(struct gguf *g, const char *path, struct imatrix **out, struct err *e)
{
    struct imatrix *im = NULL;
    int rc = imatrix_create(&im, e);
    if (!rc)
        rc = read_head(im, path, g, e);
    for (uint64_t i = 0; !rc && i < g->n_tensors; i++)
        if (ends_with(g->tensors[i].name, SUMS))
            rc = read_entry(im, path, g, &g->tensors[i], e);
    if (!rc && im->n == 0)
        rc = err_set(e, -EINVAL, "%s: an importance matrix without any weight", path);
    if (rc)
        imatrix_destroy(im);
    else
        *out = im;
    gguf_close(g);
    return rc;
}

/* -ENOENT: no file that has the older form's beginning: gguf_open says what it is. */
static int read_older(const char *path, struct imatrix **out, struct err *e)
{
    struct stat st;
    char head[4];
    FILE *f = fopen(path, "rbe");
    bool may = f && fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && fread(head, 1, sizeof head, f) == sizeof head &&
               memcmp(head, "GGUF", 4) != 0;
    void *all = may ? malloc((size_t)st.st_size) : NULL;
    int rc = !may ? -ENOENT : all ? 0 : err_set(e, -ENOMEM, "%s: no memory for %llu bytes", path, (unsigned long long)st.st_size);
    if (!rc && (fseeko(f, 0, SEEK_SET) || fread(all, 1, (size_t)st.st_size, f) != (size_t)st.st_size))
        rc = err_set(e, -EIO, "%s: cannot be read: %s", path, errno ? strerror(errno) : "it became shorter");
    if (!rc)
        rc = imatrix_read_dat(path, all, (uint64_t)st.st_size, out, e);
    free(all);
    if (f)
        fclose(f);
    return rc;
}

int imatrix_read(const char *path, struct imatrix **out, struct err *e)
{
    struct gguf *g;
    *out = NULL;
    int rc = read_older(path, out, e);
    if (rc != -ENOENT)
        return rc;
    rc = gguf_open(path, &g, e);
    return rc ? rc : read_all(g, path, out, e);
}

int imatrix_read_memory(const char *name, const void *bytes, uint64_t n, struct imatrix **out, struct err *e)
{
    struct gguf *g;
    *out = NULL;
    int rc = gguf_open_memory(name, bytes, n, &g, e);
    return rc ? rc : read_all(g, name, out, e);
}

/* ---- writing ---- */

static bool seen(const struct imatrix_entry *en)
{
    double n = 0;
    for (uint32_t m = 0; m < en->n_mats; m++)
        n += en->count[m];
    return n > 0;
}

static void announce(struct gguf_writer *w, const struct imatrix_entry *en)
{
    char name[NAME_MAX_BYTES + 16];
    snprintf(name, sizeof name, "%.*s" SUMS, NAME_MAX_BYTES, en->name);
    gguf_put_tensor(w, name, QT_F32, 2, (uint64_t[]){ en->n_in, en->n_mats });
    snprintf(name, sizeof name, "%.*s" COUNTS, NAME_MAX_BYTES, en->name);
    gguf_put_tensor(w, name, QT_F32, 2, (uint64_t[]){ 1, en->n_mats });
}

static int put_floats(struct gguf_writer *w, const double *v, uint64_t n, struct err *e)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++)
        rc = gguf_writer_data(w, &(float){ (float)v[i] }, sizeof(float), e);
    return rc;
}

int imatrix_write(const struct imatrix *im, const char *path, struct err *e)
{
    struct gguf_writer *w = NULL;
    int rc = gguf_writer_create(path, &w, e);
    if (rc)
        return rc;
    gguf_put_str(w, "general.type", "imatrix");
    if (im->dataset)
        gguf_put_arr_str(w, "imatrix.datasets", &(struct gguf_str){ im->dataset, strlen(im->dataset) }, 1);
    if (im->model)
        gguf_put_str(w, "imatrix.model", im->model);
    gguf_put_u32(w, "imatrix.chunk_count", im->chunk_count);
    gguf_put_u32(w, "imatrix.chunk_size", im->chunk_size);
    for (uint32_t i = 0; i < im->n; i++)
        if (seen(&im->e[i]))
            announce(w, &im->e[i]);
    rc = gguf_writer_begin(w, e);
    for (uint32_t i = 0; !rc && i < im->n; i++) {
        const struct imatrix_entry *en = &im->e[i];
        if (seen(en) && !(rc = put_floats(w, en->sum2, (uint64_t)en->n_in * en->n_mats, e)))
            rc = put_floats(w, en->count, en->n_mats, e);
    }
    if (!rc)
        rc = gguf_writer_finish(w, e);
    gguf_writer_destroy(w);
    return rc;
}
