#include "tools/quantize/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/dequant.h"
#include "model/quant.h"
#include "model/quant_par.h"

enum { PIECE_ELEMS = 8 << 20, SLICE_ELEMS = 64 << 10, TOGETHER_ELEMS = 4096 };

struct job {
    const struct gguf_tensor *t;
    const float *importance; /* [ne2 x ne3, ne0], or NULL */
    const uint8_t *times;    /* [ne2] f32, or NULL */
    enum qtype to;
    uint64_t first, n, slice; /* rows */
    uint8_t *dst;
    struct quant_sum *from, *became; /* of each slice */
    bool only_sums;                  /* `dst` holds something already */
};

/* Rows at..at+n of one matrix; as one where that is more than one, for blocks side by side are quicker. */
static int convert_rows(const struct job *j, uint64_t at, uint64_t n, float *x, float *importance, struct err *e)
{
    uint64_t ne0 = j->t->ne[0];
    dequant_row(j->t->type, j->t->data + (j->first + at) * qtype_row_bytes(j->t->type, ne0), x, n * ne0);
    if (j->times) {
        float by;
        memcpy(&by, j->times + (j->first + at) / j->t->ne[1] * sizeof by, sizeof by);
        for (uint64_t i = 0; i < n * ne0; i++)
            x[i] *= by;
    }
    const float *w = j->importance ? j->importance + (j->first + at) / j->t->ne[1] * ne0 : NULL;
    for (uint64_t i = 0; w && n > 1 && i < n; i++)
        memcpy(importance + i * ne0, w, ne0 * sizeof *w);
    return quant_row(j->to, x, w && n > 1 ? importance : w, j->dst + at * qtype_row_bytes(j->to, ne0), n * ne0, e);
}

static int convert(const struct job *j, uint64_t at, uint64_t end, struct err *e)
{
    uint64_t ne0 = j->t->ne[0], together = MAX(TOGETHER_ELEMS / ne0, 1), n;
    float *x = malloc(together * ne0 * sizeof *x), *importance = malloc(together * ne0 * sizeof *x);
    int rc = x && importance ? 0 : err_set(e, -ENOMEM, "no memory for a row of %llu elements", (unsigned long long)ne0);
    for (; !rc && at < end; at += n) {
        uint64_t of_matrix = j->t->ne[1] - (j->first + at) % j->t->ne[1];
        n = MIN(MIN(together, end - at), of_matrix);
        rc = convert_rows(j, at, n, x, importance, e);
        if (rc && n > 1) { /* which row it is */
            together = n = 1;
            rc = convert_rows(j, at, n, x, importance, e);
        }
        if (rc)
            err_context(e, "tensor '%.*s', row %llu", (int)j->t->name.len, j->t->name.s, (unsigned long long)(j->first + at));
    }
    free(x);
    free(importance);
    return rc;
}

static int do_slice(void *user, uint64_t i, struct err *e)
{
    const struct job *j = user;
    uint64_t ne0 = j->t->ne[0], from_bytes = qtype_row_bytes(j->t->type, ne0), to_bytes = qtype_row_bytes(j->to, ne0);
    uint64_t at = i * j->slice, end = MIN(at + j->slice, j->n);
    const uint8_t *src = j->t->data + (j->first + at) * from_bytes;
    uint8_t *dst = j->dst + at * to_bytes;
    int rc = 0;
    if (!j->only_sums && j->t->type == j->to)
        memcpy(dst, src, (end - at) * to_bytes);
    else if (!j->only_sums)
        rc = convert(j, at, end, e);
    j->from[i] = quant_sum_of(src, (end - at) * from_bytes);
    j->became[i] = quant_sum_of(dst, (end - at) * to_bytes);
    return rc;
}

int pieces_begin(struct pieces *p, struct err *e)
{
    char *path;
    if (asprintf(&path, "%s.begun.sums", p->path) < 0)
        return err_set(e, -ENOMEM, "%s: out of memory", p->path);
    int rc = quant_sums_open(path, &p->sums, e);
    free(path);
    if (rc)
        return rc;
    p->program = quant_sum_of_program();
    p->looking = gguf_writer_again(p->w) && quant_sums_count(p->sums);
    if (!p->looking && quant_sums_count(p->sums))
        fprintf(stderr, "quantize: note: %s.begun is of another model, recipe or importance matrix; begun anew\n", p->path);
    return p->looking ? 0 : quant_sums_cut(p->sums, 0, e);
}

/* Sums of the job's slices, and what else decides about them, in one. */
static struct quant_sum sum_from(const struct pieces *p, const struct job *j, uint64_t n_slices)
{
    struct {
        struct quant_sum program, importance, times, slices;
        uint64_t types[2];
    } all = { .program = p->program, .slices = quant_sum_of(j->from, n_slices * sizeof *j->from), .types = { j->t->type, j->to } };
    if (j->importance)
        all.importance = quant_sum_of(j->importance, j->t->ne[0] * j->t->ne[2] * j->t->ne[3] * sizeof *j->importance);
    if (j->times)
        all.times = quant_sum_of(j->times, j->t->ne[2] * sizeof(float));
    return quant_sum_of(&all, sizeof all);
}

/* From here on it is made. */
static int stop_looking(struct pieces *p, const struct gguf_tensor *t, struct err *e)
{
    char name[64];
    uint64_t n = quant_sums_count(p->sums);
    snprintf(name, sizeof name, "%.*s", (int)MIN(t->name.len, 63), t->name.s);
    p->looking = false;
    if (p->n < n)
        fprintf(stderr, "quantize: note: %s.begun: its '%s' is not what this model, importance matrix and program make; made anew from there\n",
                p->path, name);
    if (p->n)
        fprintf(stderr, "quantize: going on where an earlier run stopped: %.1f of %.1f MiB are there\n", (double)p->taken / 0x1p20,
                (double)p->total / 0x1p20);
    return quant_sums_cut(p->sums, p->n, e);
}

static int do_piece(struct pieces *p, struct job *j, struct err *e)
{
    uint64_t n_slices = (j->n + j->slice - 1) / j->slice, bytes = j->n * qtype_row_bytes(j->to, j->t->ne[0]);
    int rc = 0;
    if (p->looking) {
        j->only_sums = p->n < quant_sums_count(p->sums) && gguf_writer_peek(p->w, p->buf, bytes);
        if (j->only_sums && (rc = quant_parallel(p->threads, n_slices, do_slice, j, e)))
            return rc;
        if (j->only_sums && quant_sums_same(p->sums, p->n, sum_from(p, j, n_slices), quant_sum_of(j->became, n_slices * sizeof *j->became))) {
            p->taken += bytes;
            return gguf_writer_skip(p->w, bytes, e);
        }
        j->only_sums = false;
        if ((rc = stop_looking(p, j->t, e)))
            return rc;
    }
    if ((rc = quant_parallel(p->threads, n_slices, do_slice, j, e)) || (rc = gguf_writer_data(p->w, p->buf, bytes, e)) ||
        (rc = gguf_writer_flush(p->w, e)))
        return rc;
    return quant_sums_add(p->sums, sum_from(p, j, n_slices), quant_sum_of(j->became, n_slices * sizeof *j->became), e);
}

static int each_piece(struct pieces *p, struct job *j, uint64_t piece, struct err *e)
{
    uint64_t rows = j->t->ne[1] * j->t->ne[2] * j->t->ne[3];
    int rc = 0;
    for (j->first = 0; !rc && j->first < rows; j->first += piece) {
        j->n = MIN(piece, rows - j->first);
        if ((rc = do_piece(p, j, e)))
            break;
        p->n++;
        p->done += j->n * qtype_row_bytes(j->to, j->t->ne[0]);
        if (flag_is_set(p->interrupted) || !progress_report(&p->progress, p->looking ? "looking at what is there" : "quantising", p->done, p->total))
            rc = err_set(e, -ECANCELED, "interrupted");
    }
    return rc;
}

int pieces_tensor(struct pieces *p, const struct gguf_tensor *t, const float *importance, const void *times, enum qtype to,
                  struct err *e)
{
    uint64_t ne0 = t->ne[0], piece = MAX(PIECE_ELEMS / ne0, 1), bytes = piece * qtype_row_bytes(to, ne0);
    struct job j = { .t = t, .importance = importance, .times = times, .to = to, .slice = MAX(SLICE_ELEMS / ne0, 1) };
    uint64_t n_slices = (piece + j.slice - 1) / j.slice;
    if (bytes > p->buf_bytes) {
        free(p->buf);
        p->buf = malloc(bytes);
        p->buf_bytes = p->buf ? bytes : 0;
    }
    j.dst = p->buf;
    j.from = calloc(n_slices, sizeof *j.from);
    j.became = calloc(n_slices, sizeof *j.became);
    int rc = p->buf && j.from && j.became ? each_piece(p, &j, piece, e) : err_set(e, -ENOMEM, "no memory for %llu bytes", (unsigned long long)bytes);
    free(j.from);
    free(j.became);
    return rc;
}

void pieces_end(struct pieces *p, int rc, struct err *e)
{
    bool keeps = rc && (p->looking || (p->n && (rc == -ECANCELED || rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG || rc == -EIO)));
    if (rc == -ECANCELED)
        err_set(e, rc, keeps ? "interrupted; the same command goes on where it stopped (%s.begun)" : "interrupted; nothing was left behind", p->path);
    if (rc && !keeps && p->sums)
        gguf_writer_drop(p->w);
    quant_sums_close(p->sums, !keeps);
    free(p->buf);
    *p = (struct pieces){ 0 };
}
