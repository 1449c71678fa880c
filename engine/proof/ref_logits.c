#include "engine/proof/ref_logits.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/priv.h"
#include "model/tok.h"

static const char magic[8] = "ZINCREF1";
#define DEPTH 32.0f /* nats */

struct row_head {
    float top, step, nll;
};

static uint64_t row_bytes(const struct ref_logits_head *h)
{
    return sizeof(struct row_head) + align_up(2 * (uint64_t)h->n_vocab, 4);
}

/* With its checksum. */
static uint64_t window_bytes(const struct ref_logits_head *h)
{
    return 4 * (uint64_t)h->n_window + h->n_rows * row_bytes(h) + 8;
}

static uint64_t file_bytes(const struct ref_logits_head *h)
{
    return sizeof *h + h->n_windows * window_bytes(h);
}

static uint64_t head_check(const struct ref_logits_head *h)
{
    return XXH3_64bits(h, offsetof(struct ref_logits_head, check));
}

static uint64_t vocab_hash(const struct engine *eng)
{
    XXH3_state_t s;
    struct tok_buf piece = { 0 };
    XXH3_64bits_reset(&s);
    for (uint32_t i = 0; eng->tok && i < tok_n_vocab(eng->tok); i++) {
        piece.n = 0;
        if (tok_piece(eng->tok, (int32_t)i, 0, &piece, NULL) == 0)
            XXH3_64bits_update(&s, piece.s, piece.n);
        XXH3_64bits_update(&s, &piece.n, sizeof piece.n);
    }
    tok_buf_finish(&piece);
    return XXH3_64bits_digest(&s);
}

void ref_logits_describe(const struct engine *eng, uint32_t n_window, uint32_t n_windows, struct ref_logits_head *h)
{
    *h = (struct ref_logits_head){ .n_vocab = eng->info.n_vocab, .n_window = n_window, .n_windows = n_windows,
                                   .n_rows = n_window - n_window / 2 - 1, .vocab_hash = vocab_hash(eng) };
    memcpy(h->magic, magic, sizeof magic);
    snprintf(h->model, sizeof h->model, "%s", eng->info.label);
    h->check = head_check(h);
}

/* ---- writing ---- */

struct ref_writer {
    struct ref_logits_head h;
    char *path, *part;
    FILE *f;
    uint8_t *row;
    XXH3_state_t sum;
    uint32_t window, rows; /* begun; written of the last one */
    bool finished;
};

static int write_failed(const struct ref_writer *w, struct err *e)
{
    int err = errno ? errno : EIO;
    return err_set(e, -err, "%s: cannot write: %s%s", w->path, strerror(err),
                   err == ENOSPC || err == EDQUOT ? ": make room on the disk, or take fewer windows (--chunks)" : "");
}

static int put(struct ref_writer *w, const void *p, size_t n, struct err *e)
{
    errno = 0;
    XXH3_64bits_update(&w->sum, p, n);
    return fwrite(p, 1, n, w->f) == n ? 0 : write_failed(w, e);
}

int ref_writer_create(const char *path, const struct ref_logits_head *h, struct ref_writer **out, struct err *e)
{
    struct ref_writer *w = calloc(1, sizeof *w);
    struct stat st;
    *out = w;
    if (!w)
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    w->h = *h;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, -EINVAL, "%s: is no regular file, and would be replaced by one; name another path", path);
    w->row = calloc(1, row_bytes(h));
    if (!w->row || !(w->path = strdup(path)) || asprintf(&w->part, "%s.part-%d", path, (int)getpid()) < 0) {
        w->part = NULL;
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    }
    w->f = fopen(w->part, "wb");
    if (!w->f)
        return err_set(e, -errno, "%s: %s", w->part, strerror(errno));
    XXH3_64bits_reset(&w->sum);
    return put(w, h, sizeof *h, e);
}

static int end_window(struct ref_writer *w, struct err *e)
{
    uint64_t sum = XXH3_64bits_digest(&w->sum);
    return put(w, &sum, sizeof sum, e);
}

int ref_writer_window(struct ref_writer *w, const int32_t *tok, struct err *e)
{
    CHECK(w->window < w->h.n_windows && w->rows == (w->window ? w->h.n_rows : 0));
    w->window++;
    w->rows = 0;
    XXH3_64bits_reset(&w->sum);
    return put(w, tok, w->h.n_window * sizeof *tok, e);
}

int ref_writer_row(struct ref_writer *w, const float *logits, double nll, struct err *e)
{
    CHECK(w->window && w->rows < w->h.n_rows);
    float max = -INFINITY, min = INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < w->h.n_vocab; i++) {
        max = logits[i] > max ? logits[i] : max;
        min = logits[i] < min ? logits[i] : min;
    }
    for (uint32_t i = 0; i < w->h.n_vocab; i++)
        sum += (double)expf(logits[i] - max);
    float range = max - min < DEPTH ? max - min : DEPTH;
    struct row_head head = { (float)-log(sum), range / 65535, (float)nll };
    uint16_t *code = (uint16_t *)(w->row + sizeof head);
    memcpy(w->row, &head, sizeof head);
    for (uint32_t i = 0; i < w->h.n_vocab; i++) {
        float below = head.step > 0 ? (max - logits[i]) / head.step : 0;
        code[i] = (uint16_t)(below < 65535 ? below + 0.5f : 65535);
    }
    int rc = put(w, w->row, row_bytes(&w->h), e);
    if (!rc && ++w->rows == w->h.n_rows)
        rc = end_window(w, e);
    return rc;
}

int ref_writer_finish(struct ref_writer *w, struct err *e)
{
    if (w->window != w->h.n_windows || w->rows != w->h.n_rows)
        return err_set(e, -EINVAL, "%s: %u of %u windows were written", w->path, w->window, w->h.n_windows);
    errno = 0;
    bool bad = fflush(w->f) != 0 || fsync(fileno(w->f)) != 0;
    bad |= fclose(w->f) != 0;
    w->f = NULL;
    if (bad)
        return write_failed(w, e);
    if (rename(w->part, w->path))
        return err_set(e, -errno, "%s: cannot rename %s to it: %s", w->path, w->part, strerror(errno));
    w->finished = true;
    return 0;
}

void ref_writer_destroy(struct ref_writer *w)
{
    if (!w)
        return;
    if (w->f)
        fclose(w->f);
    if (w->part && !w->finished)
        unlink(w->part);
    free(w->row);
    free(w->part);
    free(w->path);
    free(w);
}

/* ---- reading ---- */

struct ref_reader {
    struct ref_logits_head h;
    char *path;
    const uint8_t *map;
    uint64_t bytes;
    const uint8_t *rows; /* of the window that is read */
};

static int check_head(const struct ref_reader *r, const struct ref_logits_head *want, struct err *e)
{
    const struct ref_logits_head *h = &r->h;
    if (memcmp(h->magic, magic, sizeof magic))
        return err_set(e, -EINVAL, "%s: no file of --save-logits: it does not begin with %.8s", r->path, magic);
    if (head_check(h) != h->check || !memchr(h->model, 0, sizeof h->model) || h->n_window < 4 ||
        h->n_rows != h->n_window - h->n_window / 2 - 1 || h->n_window > INT32_MAX || h->n_vocab > INT32_MAX)
        return err_set(e, -EINVAL, "%s: the head of the file is damaged: save it again (--save-logits)", r->path);
    uint64_t all;
    if (!ckd_mul_u64(h->n_windows, window_bytes(h), &all) || r->bytes != file_bytes(h))
        return err_set(e, -EINVAL, "%s: %llu bytes, its head promises %llu: the file is cut; save it again (--save-logits)",
                       r->path, (unsigned long long)r->bytes, (unsigned long long)file_bytes(h));
    if (h->n_vocab != want->n_vocab || h->vocab_hash != want->vocab_hash)
        return err_set(e, -EINVAL, "%s: made by %s, whose vocabulary (%u tokens) is not this model's (%u tokens): only models of one "
                       "vocabulary can be compared", r->path, h->model, h->n_vocab, want->n_vocab);
    if (h->n_window != want->n_window)
        return err_set(e, -EINVAL, "%s: has windows of %u tokens, not %u: --ctx %u", r->path, h->n_window, want->n_window,
                       h->n_window);
    if (h->n_windows < want->n_windows)
        return err_set(e, -EINVAL, "%s: has %u windows, the text %u: --chunks %u, or save more", r->path, h->n_windows,
                       want->n_windows, h->n_windows);
    return 0;
}

static int map_file(struct ref_reader *r, struct err *e)
{
    struct stat st;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, -errno, "%s: %s", r->path, strerror(errno));
    int rc = fstat(fd, &st) ? err_set(e, -errno, "%s: %s", r->path, strerror(errno)) : 0;
    if (!rc && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof r->h))
        rc = err_set(e, -EINVAL, "%s: no file of --save-logits: shorter than the head of one", r->path);
    if (!rc) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = err_set(e, -errno, "%s: mmap: %s", r->path, strerror(errno));
        else
            r->map = p;
        r->bytes = (uint64_t)st.st_size;
    }
    close(fd);
    return rc;
}

int ref_reader_open(const char *path, const struct ref_logits_head *h, struct ref_reader **out, struct err *e)
{
    struct ref_reader *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r || !(r->path = strdup(path))) {
        free(r);
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    }
    int rc = map_file(r, e);
    if (!rc) {
        memcpy(&r->h, r->map, sizeof r->h);
        rc = check_head(r, h, e);
    }
    if (rc)
        ref_reader_close(r);
    else
        *out = r;
    return rc;
}

const struct ref_logits_head *ref_reader_head(const struct ref_reader *r)
{
    return &r->h;
}

static const uint8_t *window_at(const struct ref_reader *r, uint32_t i)
{
    return r->map + sizeof r->h + i * window_bytes(&r->h);
}

int ref_reader_check(const struct ref_reader *r, uint32_t i, const int32_t *tok, struct err *e)
{
    CHECK(i < r->h.n_windows);
    if (memcmp(window_at(r, i), tok, r->h.n_window * sizeof *tok) == 0)
        return 0;
    return err_set(e, -EINVAL, "%s: was made of another text: window %u has other tokens; take the text that it was saved with", r->path,
                   i + 1);
}

int ref_reader_window(struct ref_reader *r, uint32_t i, struct err *e)
{
    CHECK(i < r->h.n_windows);
    const uint8_t *p = window_at(r, i);
    uint64_t n = window_bytes(&r->h) - 8, sum;
    memcpy(&sum, p + n, sizeof sum);
    if (XXH3_64bits(p, n) != sum)
        return err_set(e, -EINVAL, "%s: window %u is damaged: its checksum is another one; save it again (--save-logits)", r->path, i + 1);
    r->rows = p + 4 * (uint64_t)r->h.n_window;
    return 0;
}

double ref_reader_row(const struct ref_reader *r, uint32_t row, float *logp)
{
    struct row_head head;
    CHECK(r->rows && row < r->h.n_rows);
    const uint8_t *p = r->rows + row * row_bytes(&r->h);
    const uint16_t *code = (const uint16_t *)(p + sizeof head);
    memcpy(&head, p, sizeof head);
    for (uint32_t i = 0; i < r->h.n_vocab; i++)
        logp[i] = head.top - head.step * (float)code[i];
    return (double)head.nll;
}

void ref_reader_close(struct ref_reader *r)
{
    if (!r)
        return;
    if (r->map)
        munmap((void *)r->map, r->bytes);
    free(r->path);
    free(r);
}
