/* The form that llama.cpp's imatrix tool wrote before GGUF, often called imatrix.dat. Little-endian, no alignment:
 *
 *     i32 number of entries
 *     of each: i32 bytes of the name, the name, i32 calls, i32 number of values, f32 values: sums, calls times the mean squares
 *     at the end, in files from 2024 on: i32 pieces of the text, i32 bytes of the text's name, the name
 *
 * Sources: llama.cpp, tools/imatrix/imatrix.cpp (load_imatrix_legacy) and tools/quantize/quantize.cpp; ipex-llm,
 * python/llm/src/ipex_llm/transformers/utils.py (load_imatrix_data). Values of a weight with experts are one row, those of one expert
 * after the other; how many there are only the model says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "model/imatrix.h"

enum { MAX_ENTRIES = 1 << 20, MAX_NAME = 256, MAX_DATASET = 65536, MAX_SHOWN = 80 };

struct reader {
    const char *path;
    const uint8_t *p;
    uint64_t at, n;
};

static bool read_i32(struct reader *r, int32_t *v)
{
    if (r->n - r->at < sizeof *v)
        return false;
    memcpy(v, r->p + r->at, sizeof *v);
    r->at += sizeof *v;
    return true;
}

static const char *read_bytes(struct reader *r, uint64_t n)
{
    if (n > r->n - r->at)
        return NULL;
    r->at += n;
    return (const char *)r->p + r->at - n;
}

static int damaged(const struct reader *r, uint32_t i, uint32_t n, const char *what, struct err *e)
{
    return err_set(e, -EINVAL, "%s: entry %u of %u: %s at byte %llu of %llu; the file is damaged, or no importance matrix", r->path, i + 1, n, what,
                   (unsigned long long)r->at, (unsigned long long)r->n);
}

static bool is_text(const char *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127)
            return false;
    return n;
}

static int read_entry(struct reader *r, struct imatrix *im, uint32_t i, uint32_t n, struct err *e)
{
    int32_t len, calls, n_values;
    char name[MAX_NAME + 1];
    if (!read_i32(r, &len) || len < 1 || len > MAX_NAME)
        return damaged(r, i, n, "a name of 1 to 256 bytes is expected", e);
    const char *text = read_bytes(r, (uint64_t)len);
    if (!text || !is_text(text, (uint64_t)len))
        return damaged(r, i, n, "a name is expected", e);
    memcpy(name, text, (size_t)len);
    name[len] = 0;
    if (imatrix_find(im, name))
        return damaged(r, i, n, "a name that was not there before is expected", e);
    if (!read_i32(r, &calls) || calls < 0 || !read_i32(r, &n_values) || n_values < 1)
        return damaged(r, i, n, "how many calls and values is expected", e);
    const char *values = read_bytes(r, (uint64_t)n_values * sizeof(float));
    if (!values)
        return damaged(r, i, n, "as many values as it says are expected", e);
    struct imatrix_entry *en = imatrix_add(im, name, (uint32_t)n_values, 1);
    if (!en)
        return err_set(e, -ENOMEM, "%s: out of memory", r->path);
    en->count[0] = MAX(calls, 1);
    for (int32_t k = 0; k < n_values; k++) {
        float v;
        memcpy(&v, values + (size_t)k * sizeof v, sizeof v);
        if (!(v >= 0) || !isfinite(v))
            return err_set(e, -EINVAL, "%s: %.*s: value %d is %g, a finite number of at least 0 is expected; the file is damaged", r->path,
                           MAX_SHOWN, name, k, (double)v);
        en->sum2[k] = v;
    }
    return 0;
}

/* What newer files have behind the entries. */
static int read_tail(struct reader *r, struct imatrix *im, struct err *e)
{
    int32_t chunks, len;
    if (r->at == r->n)
        return 0;
    bool right = read_i32(r, &chunks) && chunks >= 0 && read_i32(r, &len) && len >= 0 && len <= MAX_DATASET;
    const char *text = right ? read_bytes(r, (uint64_t)len) : NULL;
    if (!text || r->at != r->n || (len && !is_text(text, (uint64_t)len)))
        return err_set(e, -EINVAL, "%s: behind its %u entries the number of pieces and the text's name are expected, and nothing else; the file is damaged",
                       r->path, im->n);
    im->chunk_count = (uint32_t)chunks;
    if (len && !(im->dataset = strndup(text, (size_t)len)))
        return err_set(e, -ENOMEM, "%s: out of memory", r->path);
    return 0;
}

int imatrix_read_dat(const char *path, const void *bytes, uint64_t n_bytes, struct imatrix **out, struct err *e)
{
    struct reader r = { path, bytes, 0, n_bytes };
    struct imatrix *im = NULL;
    int32_t n;
    *out = NULL;
    if (!read_i32(&r, &n) || n < 1 || n > MAX_ENTRIES)
        return err_set(e, -EINVAL, "%s: no importance matrix: neither a GGUF file nor the older form, which begins with a number of entries "
                       "(zinc imatrix makes them)", path);
    int rc = imatrix_create(&im, e);
    if (!rc)
        im->flat = true;
    for (uint32_t i = 0; !rc && i < (uint32_t)n; i++)
        rc = read_entry(&r, im, i, (uint32_t)n, e);
    rc = rc ? rc : read_tail(&r, im, e);
    if (rc)
        imatrix_destroy(im);
    else
        *out = im;
    return rc;
}

int imatrix_fit(struct imatrix *im, const char *name, uint32_t n_in, uint32_t n_mats, struct err *e)
{
    struct imatrix_entry *en = (struct imatrix_entry *)imatrix_find(im, name);
    if (!en)
        return 0;
    if (im->flat && en->n_mats == 1 && n_mats > 1 && (uint64_t)n_in * n_mats == en->n_in) {
        double *count = calloc(n_mats, sizeof *count);
        if (!count)
            return err_set(e, -ENOMEM, "importance of %.*s: out of memory", MAX_SHOWN, name);
        for (uint32_t i = 0; i < n_mats; i++)
            count[i] = en->count[0];
        free(en->count);
        en->count = count;
        en->n_in = n_in;
        en->n_mats = n_mats;
    }
    if (en->n_in == n_in && en->n_mats == n_mats)
        return 0;
    return err_set(e, -EINVAL, "%.*s has %u columns in %u matrices there, %u in %u in the model: it is of another model", MAX_SHOWN, name, en->n_in,
                   en->n_mats, n_in, n_mats);
}
