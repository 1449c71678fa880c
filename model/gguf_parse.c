#include "model/gguf_parse.h"

#include "base/check.h"
#include "base/ckd.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF values are read in place");

enum {
    KV_MIN_BYTES = 8 + 1 + 4 + 1,         /* key length, one byte of key, type, the smallest value   */
    TENSOR_MIN_BYTES = 8 + 1 + 4 + 4 + 8, /* name length, one byte, dimensions, type, offset      */
    TENSOR_NAME_MAX = 63,
    DEFAULT_ALIGNMENT = 32,
};
#define STR_MAX_BYTES (1ull << 30)
#define ARR_MAX_ELEMS (1ull << 30)

/* How much of a key a message quotes. */
#define QUOTE(str) (int)MIN((str).len, 100), (str).s

typedef unsigned long long ull;

struct reader {
    const uint8_t *map;
    uint64_t bytes, pos; /* pos <= bytes */
    struct err *e;
};

static int truncated(const struct reader *r, uint64_t need, const char *what)
{
    return err_set(r->e, -EINVAL,
                   "truncated: %s needs %llu bytes at offset %llu, the file has %llu left "
                   "(download it again)",
                   what, (ull)need, (ull)r->pos, (ull)(r->bytes - r->pos));
}

/* Copies `n` bytes out and moves on. */
static int take(struct reader *r, void *out, uint64_t n, const char *what)
{
    if (n > r->bytes - r->pos)
        return truncated(r, n, what);
    memcpy(out, r->map + r->pos, n);
    r->pos += n;
    return 0;
}

static int take_str(struct reader *r, struct gguf_str *out, const char *what)
{
    uint64_t at = r->pos;
    int rc = take(r, &out->len, 8, what);
    if (rc)
        return rc;
    if (out->len > STR_MAX_BYTES)
        return err_set(r->e, -EINVAL,
                       "%s at offset %llu: expected a string of at most 1 GiB, found a length of %llu "
                       "(the file is damaged)",
                       what, (ull)at, (ull)out->len);
    if (out->len > r->bytes - r->pos)
        return truncated(r, out->len, what);
    out->s = (const char *)r->map + r->pos;
    r->pos += out->len;
    return 0;
}

/* Bytes of an element as it lies in the file; 0 for strings and arrays. */
static uint64_t type_bytes(enum gguf_type t)
{
    static const uint8_t bytes[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_BOOL] = 1, [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4,
        [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_U64] = 8,  [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return bytes[t];
}

/* --- header ----------------------------------------------------------------------------------------------------- */

/* What people most often have in place of a model. */
static const char *guess_content(const uint8_t *map, uint64_t n)
{
    static const struct {
        const char *magic, *hint;
    } known[] = {
        {"version https://git-lfs", "it is a Git LFS pointer: fetch the real file"},
        {"<!DOCTYPE", "it is a web page: download the model itself"},
        {"<html", "it is a web page: download the model itself"},
        {"PK\003\004", "it is a PyTorch or zip archive: convert it to GGUF"},
        {"tjgg", "it is an old GGML file: convert it to GGUF"},
        {"FUGG", "it is a big-endian file: convert it to little-endian"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (n >= strlen(known[i].magic) && memcmp(map, known[i].magic, strlen(known[i].magic)) == 0)
            return known[i].hint;
    if (n > 9 && map[8] == '{')
        return "it looks like a safetensors file: convert it to GGUF";
    return "zinc reads GGUF models";
}

static int read_header(struct reader *r, struct gguf_dir *d)
{
    uint8_t magic[4] = { 0 };
    int rc = take(r, magic, 4, "the GGUF header");
    if (rc)
        return rc;
    if (memcmp(magic, "GGUF", 4) != 0)
        return err_set(r->e, -EINVAL,
                       "not a GGUF file: expected the bytes 47 47 55 46 at the start, found "
                       "%02x %02x %02x %02x (%s)",
                       magic[0], magic[1], magic[2], magic[3], guess_content(r->map, r->bytes));
    if ((rc = take(r, &d->version, 4, "the GGUF version")))
        return rc;
    if (d->version && (d->version & 0xffff) == 0)
        return err_set(r->e, -ENOTSUP,
                       "big-endian GGUF file (version word 0x%08x): zinc reads little-endian ones "
                       "(convert it)",
                       d->version);
    if (d->version < 2 || d->version > 3)
        return err_set(r->e, -ENOTSUP, "GGUF version %u: zinc reads versions 2 and 3 (%s)", d->version,
                       d->version < 2 ? "convert the model again with a current converter"
                                      : "a newer zinc may read it");
    if ((rc = take(r, &d->n_tensors, 8, "the tensor count")))
        return rc;
    if ((rc = take(r, &d->n_kv, 8, "the metadata count")))
        return rc;
    uint64_t left = r->bytes - r->pos;
    if (d->n_kv > left / KV_MIN_BYTES)
        return err_set(r->e, -EINVAL,
                       "metadata count %llu: the %llu bytes after the header hold at most %llu entries "
                       "(the file is truncated or damaged: download it again)",
                       (ull)d->n_kv, (ull)left, (ull)(left / KV_MIN_BYTES));
    if (d->n_tensors > left / TENSOR_MIN_BYTES)
        return err_set(r->e, -EINVAL,
                       "tensor count %llu: the %llu bytes after the header hold at most %llu entries "
                       "(the file is truncated or damaged: download it again)",
                       (ull)d->n_tensors, (ull)left, (ull)(left / TENSOR_MIN_BYTES));
    return 0;
}

/* --- metadata --------------------------------------------------------------------------------------------------- */

static int check_bools(struct reader *r, const struct gguf_kv *kv)
{
    for (uint64_t i = 0; i < kv->n; i++)
        if (kv->data[i] > 1)
            return err_set(r->e, -EINVAL,
                           "key '%.*s': expected a bool of 0 or 1, found %u (the file is damaged)",
                           QUOTE(kv->key), kv->data[i]);
    return 0;
}

/* Steps over n strings and notes where each starts, so that element i costs no scan. */
static int read_strings(struct reader *r, struct gguf_kv *kv)
{
    if (kv->n > (r->bytes - r->pos) / 8)
        return truncated(r, 8 * kv->n, "a string array");
    uint64_t *off = malloc(MAX(kv->n, 1) * sizeof *off);
    if (!off)
        return err_set(r->e, -ENOMEM, "key '%.*s': no memory to index %llu strings", QUOTE(kv->key),
                       (ull)kv->n);
    kv->str_off = off;
    uint64_t start = r->pos;
    for (uint64_t i = 0; i < kv->n; i++) {
        struct gguf_str s = { 0 };
        off[i] = r->pos - start;
        int rc = take_str(r, &s, "a string of an array");
        if (rc) {
            err_context(r->e, "key '%.*s', element %llu", QUOTE(kv->key), (ull)i);
            return rc;
        }
    }
    return 0;
}

static int read_type(struct reader *r, const struct gguf_kv *kv, enum gguf_type *out)
{
    uint32_t t = 0;
    int rc = take(r, &t, 4, "a value type");
    if (rc)
        return rc;
    if (t >= GGUF_TYPE_COUNT)
        return err_set(r->e, -EINVAL,
                       "key '%.*s': expected a value type from 0 to %d, found %u (the file is damaged)",
                       QUOTE(kv->key), GGUF_TYPE_COUNT - 1, t);
    *out = (enum gguf_type)t;
    return 0;
}

static int read_value(struct reader *r, struct gguf_kv *kv)
{
    int rc = read_type(r, kv, &kv->type);
    if (rc)
        return rc;
    kv->elem_type = kv->type;
    kv->n = 1;
    if (kv->type == GGUF_ARR) {
        if ((rc = read_type(r, kv, &kv->elem_type)) || (rc = take(r, &kv->n, 8, "an array length")))
            return rc;
        if (kv->elem_type == GGUF_ARR)
            return err_set(r->e, -EINVAL,
                           "key '%.*s': an array of arrays, which GGUF does not allow here "
                           "(the file is damaged)",
                           QUOTE(kv->key));
        if (kv->n > ARR_MAX_ELEMS)
            return err_set(r->e, -EINVAL,
                           "key '%.*s': expected an array of at most 2^30 elements, found %llu "
                           "(the file is damaged)",
                           QUOTE(kv->key), (ull)kv->n);
    }
    kv->data = r->map + r->pos;
    if (kv->elem_type == GGUF_STR)
        return read_strings(r, kv);
    uint64_t bytes = kv->n * type_bytes(kv->elem_type); /* at most 2^33 */
    if (bytes > r->bytes - r->pos)
        return truncated(r, bytes, kv->type == GGUF_ARR ? "an array" : "a value");
    r->pos += bytes;
    return kv->elem_type == GGUF_BOOL ? check_bools(r, kv) : 0;
}

static int read_kv(struct reader *r, struct gguf_dir *d, uint64_t i)
{
    struct gguf_kv *kv = &d->kv[i];
    int rc = take_str(r, &kv->key, "a metadata key");
    if (rc) {
        err_context(r->e, "metadata entry %llu of %llu", (ull)i, (ull)d->n_kv);
        return rc;
    }
    if (kv->key.len == 0)
        return err_set(r->e, -EINVAL, "metadata entry %llu: empty key (the file is damaged)", (ull)i);
    if ((rc = read_value(r, kv))) {
        if (r->e && !strstr(r->e->msg, "key '"))
            err_context(r->e, "key '%.*s'", QUOTE(kv->key));
        return rc;
    }
    rc = gguf_names_add(&d->kv_names, kv->key, i);
    if (rc == -EEXIST)
        return err_set(r->e, -EINVAL, "key '%.*s' appears twice (the file is damaged)", QUOTE(kv->key));
    return rc ? err_set(r->e, rc, "no memory to index %llu keys", (ull)d->n_kv) : 0;
}

static int read_alignment(struct reader *r, struct gguf_dir *d)
{
    d->alignment = DEFAULT_ALIGNMENT;
    const struct gguf_kv *kv = gguf_dir_find(d, "general.alignment");
    if (!kv)
        return 0;
    if (kv->type != GGUF_U32)
        return err_set(r->e, -EINVAL,
                       "key 'general.alignment': expected u32, found %s (convert the model again)",
                       gguf_type_name(kv->type));
    gguf_kv_u64(kv, 0, &d->alignment);
    if (d->alignment < 8 || (d->alignment & (d->alignment - 1)))
        return err_set(r->e, -EINVAL,
                       "key 'general.alignment': expected a power of two of at least 8, found %llu "
                       "(convert the model again)",
                       (ull)d->alignment);
    return 0;
}

/* --- tensors ---------------------------------------------------------------------------------------------------- */

/* Types of the format that zinc does not read. NULL: no such type, or one that was removed from the format. */
static const char *unread_type_name(uint32_t id)
{
    static const char *const names[] = {
        [9] = "Q8_1", [15] = "Q8_K", [24] = "I8",     [25] = "I16",  [26] = "I32",
        [27] = "I64", [28] = "F64", [41] = "Q1_0", [42] = "Q2_0",
    };
    return id < ARRAY_LEN(names) ? names[id] : NULL;
}

static int check_type(struct reader *r, const struct gguf_tensor *t, uint32_t id)
{
    if (qtype_in_files((enum qtype)id))
        return 0;
    if (unread_type_name(id))
        return err_set(r->e, -ENOTSUP,
                       "tensor '%.*s': type %s, which zinc does not read (requantise the model, for "
                       "example to Q4_K or Q8_0)",
                       QUOTE(t->name), unread_type_name(id));
    return err_set(r->e, -EINVAL,
                   "tensor '%.*s': expected a tensor type of the GGUF format, found id %u, unknown or "
                   "removed (requantise the model, or the file is damaged)",
                   QUOTE(t->name), id);
}

/* t->ne and t->type are set; gives t->bytes. */
static int check_size(struct reader *r, struct gguf_tensor *t)
{
    uint64_t elems = 1;
    for (int i = 0; i < 4; i++) {
        if (t->ne[i] == 0 || t->ne[i] > INT64_MAX)
            return err_set(r->e, -EINVAL,
                           "tensor '%.*s': dimension %d is %lld, expected at least 1 (the file is "
                           "damaged)",
                           QUOTE(t->name), i, (long long)t->ne[i]);
        if (!ckd_mul_u64(elems, t->ne[i], &elems) || elems > INT64_MAX)
            return err_set(r->e, -EINVAL,
                           "tensor '%.*s': [%llu, %llu, %llu, %llu] elements overflow 63 bits (the file "
                           "is damaged)",
                           QUOTE(t->name), (ull)t->ne[0], (ull)t->ne[1], (ull)t->ne[2], (ull)t->ne[3]);
    }
    uint32_t block = qtype_block(t->type);
    if (t->ne[0] % block)
        return err_set(r->e, -EINVAL,
                       "tensor '%.*s': rows of %llu elements, expected a multiple of %u for %s (the file "
                       "is damaged)",
                       QUOTE(t->name), (ull)t->ne[0], block, qtype_name(t->type));
    if (!ckd_mul_u64(elems / block, qtype_block_bytes(t->type), &t->bytes))
        return err_set(r->e, -EINVAL,
                       "tensor '%.*s': its size in bytes overflows 64 bits (the file is damaged)",
                       QUOTE(t->name));
    return 0;
}

/* Leaves the offset within the data section in file_off. */
static int read_tensor(struct reader *r, struct gguf_tensor *t)
{
    int rc = take_str(r, &t->name, "a tensor name");
    if (rc)
        return rc;
    if (t->name.len == 0 || t->name.len > TENSOR_NAME_MAX)
        return err_set(r->e, -EINVAL,
                       "tensor name '%.*s': expected 1 to %d bytes, found %llu (the file is damaged)",
                       QUOTE(t->name), TENSOR_NAME_MAX, (ull)t->name.len);
    uint32_t type = 0;
    if ((rc = take(r, &t->n_dims, 4, "the number of dimensions")))
        goto named;
    if (t->n_dims > 4)
        return err_set(r->e, -EINVAL,
                       "tensor '%.*s': expected at most 4 dimensions, found %u (the file is damaged)",
                       QUOTE(t->name), t->n_dims);
    for (uint32_t i = 0; i < 4; i++)
        t->ne[i] = 1;
    if ((rc = take(r, t->ne, 8 * (uint64_t)t->n_dims, "the dimensions")) ||
        (rc = take(r, &type, 4, "the tensor type")) || (rc = take(r, &t->file_off, 8, "the data offset")))
        goto named;
    t->n_dims = MAX(t->n_dims, 1);
    if ((rc = check_type(r, t, type)))
        return rc;
    t->type = (enum qtype)type;
    return check_size(r, t);
named:
    err_context(r->e, "tensor '%.*s'", QUOTE(t->name));
    return rc;
}

static int place_tensor(struct reader *r, const struct gguf_dir *d, struct gguf_tensor *t)
{
    if (t->file_off % d->alignment)
        return err_set(r->e, -EINVAL,
                       "tensor '%.*s': data offset %llu, expected a multiple of the alignment %llu (the "
                       "file is damaged)",
                       QUOTE(t->name), (ull)t->file_off, (ull)d->alignment);
    uint64_t start, end;
    if (!ckd_add_u64(d->data_start, t->file_off, &start) || !ckd_add_u64(start, t->bytes, &end) ||
        end > r->bytes)
        return err_set(r->e, -EINVAL,
                       "tensor '%.*s': %llu bytes of data at offset %llu of the data section (file "
                       "offset %llu), the file ends at %llu (truncated: download it again)",
                       QUOTE(t->name), (ull)t->bytes, (ull)t->file_off, (ull)(d->data_start + t->file_off),
                       (ull)r->bytes);
    t->file_off = start;
    t->data = r->map + start;
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a,
                             *y = *(const struct gguf_tensor *const *)b;
    return x->file_off < y->file_off ? -1 : x->file_off > y->file_off;
}

static int check_overlap(struct reader *r, const struct gguf_dir *d)
{
    bool sorted = true;
    for (uint64_t i = 1; i < d->n_tensors && sorted; i++)
        sorted = d->tensors[i - 1].file_off + d->tensors[i - 1].bytes <= d->tensors[i].file_off;
    if (sorted)
        return 0;
    const struct gguf_tensor **order = malloc(d->n_tensors * sizeof *order);
    if (!order)
        return err_set(r->e, -ENOMEM, "no memory to sort %llu tensors", (ull)d->n_tensors);
    for (uint64_t i = 0; i < d->n_tensors; i++)
        order[i] = &d->tensors[i];
    qsort(order, d->n_tensors, sizeof *order, by_offset);
    int rc = 0;
    for (uint64_t i = 1; i < d->n_tensors && !rc; i++) {
        const struct gguf_tensor *a = order[i - 1], *b = order[i];
        if (a->file_off + a->bytes > b->file_off)
            rc = err_set(r->e, -EINVAL,
                         "tensors '%.*s' (file offset %llu, %llu bytes) and '%.*s' (file offset %llu) "
                         "overlap (the file is damaged)",
                         QUOTE(a->name), (ull)a->file_off, (ull)a->bytes, QUOTE(b->name), (ull)b->file_off);
    }
    free(order);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

static int parse_metadata(struct reader *r, struct gguf_dir *d)
{
    d->kv = calloc(MAX(d->n_kv, 1), sizeof *d->kv);
    if (!d->kv)
        return err_set(r->e, -ENOMEM, "no memory for %llu metadata entries", (ull)d->n_kv);
    for (uint64_t i = 0; i < d->n_kv; i++) {
        int rc = read_kv(r, d, i);
        if (rc)
            return rc;
    }
    return read_alignment(r, d);
}

static int parse_tensors(struct reader *r, struct gguf_dir *d)
{
    d->tensors = calloc(MAX(d->n_tensors, 1), sizeof *d->tensors);
    if (!d->tensors)
        return err_set(r->e, -ENOMEM, "no memory for %llu tensors", (ull)d->n_tensors);
    int rc = 0;
    for (uint64_t i = 0; i < d->n_tensors; i++)
        if ((rc = read_tensor(r, &d->tensors[i]))) {
            err_context(r->e, "tensor entry %llu of %llu", (ull)i, (ull)d->n_tensors);
            return rc;
        }
    d->data_start =
        align_up(r->pos, d->alignment); /* pos is a file size and alignment below 2^32: no overflow */
    for (uint64_t i = 0; i < d->n_tensors; i++)
        if ((rc = place_tensor(r, d, &d->tensors[i])))
            return rc;
    return check_overlap(r, d);
}

int gguf_parse(const uint8_t *map, uint64_t bytes, struct gguf_dir *d, struct err *e)
{
    *d = (struct gguf_dir){0};
    struct reader r = {map, bytes, 0, e};
    if (bytes == 0)
        return err_set(e, -EINVAL, "the file is empty (download it again)");
    int rc = read_header(&r, d);
    if (!rc)
        rc = parse_metadata(&r, d);
    if (!rc)
        rc = parse_tensors(&r, d);
    if (rc)
        gguf_dir_finish(d);
    return rc;
}

void gguf_dir_finish(struct gguf_dir *d)
{
    for (uint64_t i = 0; d->kv && i < d->n_kv; i++)
        free((void *)(uintptr_t)d->kv[i].str_off);
    free(d->kv);
    free(d->tensors);
    gguf_names_finish(&d->kv_names);
    *d = (struct gguf_dir){0};
}

const struct gguf_kv *gguf_dir_find(const struct gguf_dir *d, const char *key)
{
    int64_t i = gguf_names_find(&d->kv_names, key, strlen(key));
    return i < 0 ? NULL : &d->kv[i];
}
