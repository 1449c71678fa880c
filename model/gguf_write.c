#include "model/gguf_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ckd.h"
#include "model/gguf_index.h"

enum { FILE_BUFFER = 1 << 20, NAME_MAX_BYTES = 63, VERSION = 3 };

/* Bytes that grow. */
struct buf {
    uint8_t *p;
    uint64_t n, cap;
};

struct planned {
    char *name;
    uint64_t offset, bytes; /* offset: within the data section */
};

struct gguf_writer {
    char *path, *part_path; /* NULL: into memory */
    FILE *f;
    char *mem; /* of a writer into memory */
    size_t mem_bytes;
    struct err first_err; /* of the put functions */
    struct buf kv, dir;   /* encoded metadata, encoded tensor directory */
    struct gguf_names keys, names;
    char **key_copies;
    uint64_t n_kv, n_tensors;
    struct planned *tensors;
    uint64_t alignment, data_bytes;
    uint64_t cur, cur_done; /* the tensor being written and how much of it */
    bool begun, finished;
    bool kept, again; /* see gguf_writer_create_kept, gguf_writer_again */
};

static const char *shown_path(const struct gguf_writer *w)
{
    return w->path ? w->path : "(memory)";
}

/* Whether the open file still has its name: it loses it when another program finishes it. */
static bool has_name(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 && open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* The partial file as it is, for this writer alone. */
static int open_kept(struct gguf_writer *w, struct err *e)
{
    for (;;) {
        int fd = open(w->part_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0)
            return err_set(e, -errno, "%s: cannot create %s: %s", w->path, w->part_path, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
            close(fd);
            return err_set(e, -EBUSY, "%s: another program is writing it (%s): wait for it, or name another file", w->path, w->part_path);
        }
        if (has_name(fd, w->part_path)) {
            w->f = fdopen(fd, "r+be");
            if (w->f)
                return 0;
            close(fd);
            return err_set(e, -ENOMEM, "%s: no memory for a GGUF writer", w->path);
        }
        close(fd);
    }
}

static int create(const char *path, bool kept, struct gguf_writer **out, struct err *e)
{
    *out = NULL;
    struct gguf_writer *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(e, -ENOMEM, "%s: no memory for a GGUF writer", path ? path : "(memory)");
    w->alignment = 32;
    w->kept = kept;
    int rc = 0;
    if (!path) {
        w->f = open_memstream(&w->mem, &w->mem_bytes);
        rc = w->f ? 0 : err_set(e, -ENOMEM, "(memory): no memory for a GGUF writer");
    } else if (!(w->path = strdup(path)) || (kept ? asprintf(&w->part_path, "%s.begun", path)
                                                  : asprintf(&w->part_path, "%s.part-%ld", path, (long)getpid())) < 0) {
        w->part_path = NULL;
        rc = err_set(e, -ENOMEM, "%s: no memory for a GGUF writer", path);
    } else if (kept) {
        rc = open_kept(w, e);
    } else {
        w->f = fopen(w->part_path, "wbe");
        if (!w->f)
            rc = err_set(e, -errno, "%s: cannot create %s: %s", path, w->part_path, strerror(errno));
    }
    if (!rc && path)
        setvbuf(w->f, NULL, _IOFBF, FILE_BUFFER);
    if (rc) {
        gguf_writer_destroy(w);
        return rc;
    }
    *out = w;
    return 0;
}

int gguf_writer_create(const char *path, struct gguf_writer **out, struct err *e)
{
    return create(path, false, out, e);
}

int gguf_writer_create_kept(const char *path, struct gguf_writer **out, struct err *e)
{
    return create(path, true, out, e);
}

void gguf_writer_drop(struct gguf_writer *w)
{
    if (w)
        w->kept = false;
}

void gguf_writer_destroy(struct gguf_writer *w)
{
    if (!w)
        return;
    struct stat st;
    if (w->f) {
        bool empty = fflush(w->f) == 0 && fstat(fileno(w->f), &st) == 0 && st.st_size == 0;
        if (w->part_path && (!w->kept || empty))
            unlink(w->part_path);
        fclose(w->f);
    }
    for (uint64_t i = 0; i < w->n_kv; i++)
        free(w->key_copies[i]);
    for (uint64_t i = 0; i < w->n_tensors; i++)
        free(w->tensors[i].name);
    gguf_names_finish(&w->keys);
    gguf_names_finish(&w->names);
    free(w->key_copies);
    free(w->tensors);
    free(w->kv.p);
    free(w->dir.p);
    free(w->mem);
    free(w->part_path);
    free(w->path);
    free(w);
}

/* --- the put functions ------------------------------------------------------------------------------------------ */

static bool is_refused(const struct gguf_writer *w)
{
    CHECK(!w->begun); /* putting after gguf_writer_begin is a mistake of the program */
    return w->first_err.code != 0;
}

static void put_bytes(struct gguf_writer *w, struct buf *b, const void *p, uint64_t n)
{
    if (w->first_err.code)
        return;
    if (n > b->cap - b->n) {
        uint64_t cap = MAX(2 * b->cap, b->n + n + 4096);
        uint8_t *q = realloc(b->p, cap);
        if (!q) {
            err_set(&w->first_err, -ENOMEM, "%s: no memory for %llu bytes of metadata", shown_path(w),
                    (unsigned long long)cap);
            return;
        }
        b->p = q;
        b->cap = cap;
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_string(struct gguf_writer *w, struct buf *b, const char *s, uint64_t len)
{
    put_bytes(w, b, &len, 8);
    put_bytes(w, b, s, len);
}

/* Remembers the key and writes it with its value type; false: refused. */
static bool put_key(struct gguf_writer *w, const char *key, uint64_t len, enum gguf_type type)
{
    if (is_refused(w))
        return false;
    char **copies = realloc(w->key_copies, (w->n_kv + 1) * sizeof *copies);
    char *copy = malloc(len + 1);
    if (copies)
        w->key_copies = copies;
    if (!copies || !copy) {
        free(copy);
        err_set(&w->first_err, -ENOMEM, "%s: no memory for keys", shown_path(w));
        return false;
    }
    memcpy(copy, key, len);
    copy[len] = 0;
    copies[w->n_kv] = copy;
    int rc = len ? gguf_names_add(&w->keys, (struct gguf_str){copy, len}, w->n_kv) : -EINVAL;
    if (rc) {
        err_set(&w->first_err, rc == -EEXIST ? -EINVAL : rc, "%s: key '%s': %s", shown_path(w), copy,
                rc == -EEXIST   ? "given twice, expected once"
                : rc == -EINVAL ? "empty"
                                : strerror(-rc));
        free(copy);
        return false;
    }
    w->n_kv++;
    put_string(w, &w->kv, key, len);
    uint32_t t = type;
    put_bytes(w, &w->kv, &t, 4);
    return true;
}

static void put_scalar(struct gguf_writer *w, const char *key, enum gguf_type type, const void *v,
                       uint64_t bytes)
{
    if (put_key(w, key, strlen(key), type))
        put_bytes(w, &w->kv, v, bytes);
}

#define PUT_SCALAR(name, ctype, gtype)                                                                       \
    void gguf_put_##name(struct gguf_writer *w, const char *key, ctype v)                                    \
    {                                                                                                        \
        put_scalar(w, key, gtype, &v, sizeof v);                                                             \
    }
PUT_SCALAR(u8, uint8_t, GGUF_U8)
PUT_SCALAR(i8, int8_t, GGUF_I8)
PUT_SCALAR(u16, uint16_t, GGUF_U16)
PUT_SCALAR(i16, int16_t, GGUF_I16)
PUT_SCALAR(i32, int32_t, GGUF_I32)
PUT_SCALAR(u64, uint64_t, GGUF_U64)
PUT_SCALAR(i64, int64_t, GGUF_I64)
PUT_SCALAR(f32, float, GGUF_F32)
PUT_SCALAR(f64, double, GGUF_F64)

static void set_alignment(struct gguf_writer *w, uint64_t v)
{
    if (w->n_tensors)
        err_set(&w->first_err, -EINVAL, "%s: general.alignment must be put before the first tensor",
                shown_path(w));
    else if (v < 8 || v > UINT32_MAX || (v & (v - 1)))
        err_set(&w->first_err, -EINVAL,
                "%s: general.alignment: expected a power of two of at least 8, found %llu", shown_path(w),
                (unsigned long long)v);
    else
        w->alignment = v;
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    put_scalar(w, key, GGUF_U32, &v, sizeof v);
    if (!w->first_err.code && strcmp(key, "general.alignment") == 0)
        set_alignment(w, v);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool v)
{
    uint8_t b = v;
    put_scalar(w, key, GGUF_BOOL, &b, 1);
}

void gguf_put_strn(struct gguf_writer *w, const char *key, const char *v, uint64_t len)
{
    if (put_key(w, key, strlen(key), GGUF_STR))
        put_string(w, &w->kv, v, len);
}

void gguf_put_str(struct gguf_writer *w, const char *key, const char *v)
{
    gguf_put_strn(w, key, v, strlen(v));
}

static void put_array_head(struct gguf_writer *w, enum gguf_type elem, uint64_t n)
{
    uint32_t t = elem;
    put_bytes(w, &w->kv, &t, 4);
    put_bytes(w, &w->kv, &n, 8);
}

static uint64_t elem_bytes(enum gguf_type t)
{
    switch (t) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64: return 8;
    default: return 0;
    }
}

void gguf_put_arr(struct gguf_writer *w, const char *key, enum gguf_type type, const void *v, uint64_t n)
{
    CHECK(elem_bytes(type));
    if (!put_key(w, key, strlen(key), GGUF_ARR))
        return;
    put_array_head(w, type, n);
    put_bytes(w, &w->kv, v, n * elem_bytes(type));
}

void gguf_put_arr_str(struct gguf_writer *w, const char *key, const struct gguf_str *v, uint64_t n)
{
    if (!put_key(w, key, strlen(key), GGUF_ARR))
        return;
    put_array_head(w, GGUF_STR, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(w, &w->kv, v[i].s, v[i].len);
}

void gguf_put_kv(struct gguf_writer *w, const struct gguf_kv *kv)
{
    if (!put_key(w, kv->key.s, kv->key.len, kv->type))
        return;
    if (kv->type == GGUF_ARR)
        put_array_head(w, kv->elem_type, kv->n);
    struct gguf_str s;
    for (uint64_t i = 0; kv->elem_type == GGUF_STR && i < kv->n && gguf_kv_str(kv, i, &s); i++)
        put_string(w, &w->kv, s.s, s.len);
    put_bytes(w, &w->kv, kv->data, kv->n * elem_bytes(kv->elem_type));
    uint64_t v;
    if (kv->type == GGUF_U32 && gguf_str_eq(kv->key, "general.alignment", 17) && gguf_kv_u64(kv, 0, &v))
        set_alignment(w, v);
}

/* Bytes of the tensor, or 0 when there can be none such. */
static uint64_t tensor_bytes(enum qtype type, uint32_t n_dims, const uint64_t *ne)
{
    uint64_t elems = 1, bytes;
    uint32_t block = qtype_block(type);
    if (!block || n_dims < 1 || n_dims > 4 || ne[0] % block)
        return 0;
    for (uint32_t i = 0; i < n_dims; i++)
        if (!ckd_mul_u64(elems, ne[i], &elems) || elems > INT64_MAX)
            return 0;
    return ckd_mul_u64(elems / block, qtype_block_bytes(type), &bytes) ? bytes : 0;
}

static void encode_tensor(struct gguf_writer *w, const struct planned *t, enum qtype type, uint32_t n_dims,
                          const uint64_t *ne)
{
    uint32_t id = type;
    put_string(w, &w->dir, t->name, strlen(t->name));
    put_bytes(w, &w->dir, &n_dims, 4);
    put_bytes(w, &w->dir, ne, 8 * (uint64_t)n_dims);
    put_bytes(w, &w->dir, &id, 4);
    put_bytes(w, &w->dir, &t->offset, 8);
}

uint64_t gguf_put_tensor(struct gguf_writer *w, const char *name, enum qtype type, uint32_t n_dims,
                         const uint64_t *ne)
{
    if (is_refused(w))
        return 0;
    uint64_t bytes = tensor_bytes(type, n_dims, ne), offset, end;
    if (!bytes || strlen(name) > NAME_MAX_BYTES || !name[0]) {
        err_set(&w->first_err, -EINVAL,
                "%s: tensor '%s' (%s, %u dimensions, rows of %llu): expected a name of 1 to %d "
                "bytes, 1 to 4 dimensions of at least 1 and rows that are a multiple of %u",
                shown_path(w), name, qtype_name(type), n_dims, n_dims ? (unsigned long long)ne[0] : 0,
                NAME_MAX_BYTES, qtype_block(type));
        return 0;
    }
    if (!ckd_align_u64(w->data_bytes, w->alignment, &offset) || !ckd_add_u64(offset, bytes, &end) ||
        end > INT64_MAX) {
        err_set(&w->first_err, -EFBIG, "%s: tensor '%s': the file would pass 2^63 bytes", shown_path(w),
                name);
        return 0;
    }
    struct planned *all = realloc(w->tensors, (w->n_tensors + 1) * sizeof *all);
    struct planned t = {strdup(name), offset, bytes};
    if (all)
        w->tensors = all;
    int rc = all && t.name ? gguf_names_add(&w->names, (struct gguf_str){t.name, strlen(name)}, w->n_tensors)
                           : -ENOMEM;
    if (rc) {
        err_set(&w->first_err, rc == -EEXIST ? -EINVAL : rc, "%s: tensor '%s': %s", shown_path(w), name,
                rc == -EEXIST ? "given twice, expected once" : strerror(-rc));
        free(t.name);
        return 0;
    }
    all[w->n_tensors++] = t;
    w->data_bytes = end;
    encode_tensor(w, &t, type, n_dims, ne);
    return bytes;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

enum { HEADER_BYTES = 4 + 4 + 8 + 8 };

static uint64_t data_start(const struct gguf_writer *w)
{
    return align_up(HEADER_BYTES + w->kv.n + w->dir.n, w->alignment);
}

uint64_t gguf_writer_total(const struct gguf_writer *w)
{
    return w->first_err.code ? 0 : data_start(w) + align_up(w->data_bytes, w->alignment);
}

static int write_failed(const struct gguf_writer *w, struct err *e)
{
    int err = errno ? errno : EIO;
    return err_set(e, -err, "%s: cannot write: %s%s (%s)", shown_path(w), strerror(err),
                   err == ENOSPC || err == EDQUOT ? ": make room on the disk" : "",
                   w->kept ? "the same command goes on where it stopped" : "the partial file is removed");
}

static int write_bytes(struct gguf_writer *w, const void *p, uint64_t n, struct err *e)
{
    errno = 0;
    return n && fwrite(p, 1, n, w->f) != n ? write_failed(w, e) : 0;
}

static int write_zeros(struct gguf_writer *w, uint64_t n, struct err *e)
{
    static const uint8_t zeros[4096];
    int rc = 0;
    for (; n && !rc; n -= MIN(n, sizeof zeros))
        rc = write_bytes(w, zeros, MIN(n, sizeof zeros), e);
    return rc;
}

/* Whether the next bytes of the file are these. */
static bool next_are(FILE *f, const void *p, uint64_t n)
{
    uint8_t buf[4096];
    for (uint64_t at = 0, k; at < n; at += k) {
        k = MIN(n - at, sizeof buf);
        if (fread(buf, 1, k, f) != k || memcmp(buf, (const uint8_t *)p + at, k) != 0)
            return false;
    }
    return true;
}

int gguf_writer_begin(struct gguf_writer *w, struct err *e)
{
    if (w->first_err.code)
        return err_set(e, w->first_err.code, "%s", w->first_err.msg);
    CHECK(!w->begun);
    w->begun = true;
    uint8_t head[HEADER_BYTES] = "GGUF";
    memcpy(head + 4, &(uint32_t){VERSION}, 4);
    memcpy(head + 8, &w->n_tensors, 8);
    memcpy(head + 16, &w->n_kv, 8);
    if (w->kept) {
        w->again = next_are(w->f, head, sizeof head) && next_are(w->f, w->kv.p, w->kv.n) && next_are(w->f, w->dir.p, w->dir.n);
        rewind(w->f);
        if (!w->again && ftruncate(fileno(w->f), 0))
            return write_failed(w, e);
    }
    int rc = write_bytes(w, head, sizeof head, e);
    if (!rc)
        rc = write_bytes(w, w->kv.p, w->kv.n, e);
    if (!rc)
        rc = write_bytes(w, w->dir.p, w->dir.n, e);
    if (!rc)
        rc = write_zeros(w, data_start(w) - (HEADER_BYTES + w->kv.n + w->dir.n), e);
    return rc;
}

/* The current tensor is complete: pads to where the next may start. */
static int end_tensor(struct gguf_writer *w, struct err *e)
{
    uint64_t end = w->tensors[w->cur].offset + w->tensors[w->cur].bytes;
    w->cur++;
    w->cur_done = 0;
    return write_zeros(w, align_up(end, w->alignment) - end, e);
}

int gguf_writer_data(struct gguf_writer *w, const void *data, uint64_t bytes, struct err *e)
{
    CHECK(w->begun && !w->finished);
    const uint8_t *p = data;
    while (bytes) {
        if (w->cur == w->n_tensors)
            return err_set(e, -EINVAL, "%s: %llu bytes of data more than the %llu tensors announced",
                           shown_path(w), (unsigned long long)bytes, (unsigned long long)w->n_tensors);
        uint64_t n = MIN(bytes, w->tensors[w->cur].bytes - w->cur_done);
        int rc = write_bytes(w, p, n, e);
        if (rc)
            return rc;
        p += n;
        bytes -= n;
        w->cur_done += n;
        if (w->cur_done == w->tensors[w->cur].bytes && (rc = end_tensor(w, e)))
            return rc;
    }
    return 0;
}

static off_t position(const struct gguf_writer *w)
{
    return (off_t)(data_start(w) + (w->cur < w->n_tensors ? w->tensors[w->cur].offset + w->cur_done : w->data_bytes));
}

bool gguf_writer_again(const struct gguf_writer *w)
{
    return w->again;
}

bool gguf_writer_peek(const struct gguf_writer *w, void *data, uint64_t bytes)
{
    CHECK(w->begun && w->kept);
    off_t at = position(w);
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(fileno(w->f), (uint8_t *)data + done, bytes - done, at + (off_t)done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

int gguf_writer_skip(struct gguf_writer *w, uint64_t bytes, struct err *e)
{
    CHECK(w->begun && w->kept && w->cur < w->n_tensors && bytes <= w->tensors[w->cur].bytes - w->cur_done);
    w->cur_done += bytes;
    errno = 0;
    if (fseeko(w->f, position(w), SEEK_SET))
        return write_failed(w, e);
    return w->cur_done == w->tensors[w->cur].bytes ? end_tensor(w, e) : 0;
}

int gguf_writer_flush(struct gguf_writer *w, struct err *e)
{
    errno = 0;
    return fflush(w->f) ? write_failed(w, e) : 0;
}

int gguf_writer_finish(struct gguf_writer *w, struct err *e)
{
    CHECK(w->begun && !w->finished);
    if (w->cur != w->n_tensors)
        return err_set(e, -EINVAL, "%s: tensor '%s': expected %llu bytes of data, was given %llu",
                       shown_path(w), w->tensors[w->cur].name, (unsigned long long)w->tensors[w->cur].bytes,
                       (unsigned long long)w->cur_done);
    errno = 0;
    bool bad = fflush(w->f) != 0 || (w->kept && ftruncate(fileno(w->f), (off_t)gguf_writer_total(w)) != 0) ||
               (w->path && fsync(fileno(w->f)) != 0);
    if (bad)
        return write_failed(w, e);
    int rc = 0;
    if (w->kept && rename(w->part_path, w->path)) /* while it is locked */
        rc = err_set(e, -errno, "%s: cannot rename %s to it: %s", w->path, w->part_path, strerror(errno));
    errno = 0;
    bad = fclose(w->f) != 0;
    w->f = NULL;
    rc = rc ? rc : bad ? write_failed(w, e) : 0;
    if (!rc && w->path && !w->kept && rename(w->part_path, w->path))
        rc = err_set(e, -errno, "%s: cannot rename %s to it: %s", w->path, w->part_path, strerror(errno));
    if (rc && w->part_path && !w->kept)
        unlink(w->part_path);
    w->finished = !rc;
    return rc;
}

const void *gguf_writer_bytes(const struct gguf_writer *w, uint64_t *n)
{
    CHECK(w->finished && !w->path);
    *n = w->mem_bytes;
    return w->mem;
}
