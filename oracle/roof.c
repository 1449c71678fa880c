/* What the products of prompts could give at most on this machine: the tier's own kernel for Q8_0, the quickest type, on
 * weights, activations and results that stay in each core's second-level cache, on all threads. */
#include <stdlib.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "oracle/cpu.h"

enum { N_IN = 512, N_PANELS = 16, N_ROWS = 64, TIMES = 64, ROUNDS = 5 };

struct roof_part {
    uint8_t *mem; /* of one worker */
    uint8_t *panels, *scratch;
    float *y;
    struct mm_act act;
};

struct roof_run {
    struct cpu *c;
    struct roof_part part[POOL_MAX];
};

static size_t aligned(size_t n)
{
    return align_up(n, (size_t)64);
}

/* Small numbers of every sign: what they are does not change the time, but for infinities and NaNs. */
static int part_init(struct cpu *c, struct roof_part *p)
{
    size_t panels = aligned(N_PANELS * mm_panel_bytes(QT_Q8_0, N_IN)), act = aligned(mm_act_bytes(N_ROWS, N_IN)),
           y = aligned(sizeof(float) * N_ROWS * N_PANELS * MM_ROWS), scratch = aligned(mm_scratch_bytes(N_IN));
    size_t row = qtype_row_bytes(QT_Q8_0, N_IN);
    uint8_t rows[MM_ROWS * N_IN * 2];
    float x[N_IN];
    CHECK(row * MM_ROWS <= sizeof rows);
    if (!(p->mem = aligned_alloc(64, panels + act + y + scratch)))
        return -ENOMEM;
    p->panels = p->mem;
    p->y = (float *)(p->mem + panels + act);
    p->scratch = p->mem + panels + act + y;
    for (size_t i = 0; i < row * MM_ROWS; i++)
        rows[i] = (uint8_t)(i * 2654435761u >> 24 & 0x3f);
    for (uint32_t k = 0; k < N_PANELS; k++)
        mm_pack(QT_Q8_0, N_IN, rows, row, MM_ROWS, p->panels + k * mm_panel_bytes(QT_Q8_0, N_IN));
    mm_act_init(&p->act, N_ROWS, N_IN, p->mem + panels);
    for (uint32_t r = 0; r < N_ROWS; r++) {
        for (uint32_t i = 0; i < N_IN; i++)
            x[i] = (float)((i + r) * 2654435761u % 1000) * 0.002f - 1;
        c->mm->quant(x, N_IN, &p->act, r);
    }
    return 0;
}

static void multiply(struct pool_worker *w, void *arg)
{
    struct roof_run *r = arg;
    struct roof_part *p = &r->part[w->id];
    mm_dot_fn *dot = r->c->mm->dot(QT_Q8_0, N_ROWS);
    for (int i = 0; i < TIMES; i++)
        dot(N_IN, p->panels, N_PANELS, &p->act, 0, NULL, 0, N_ROWS, p->y, N_PANELS * MM_ROWS, p->scratch);
}

int cpu_roof_ops(struct tier *t, double *gops, struct err *e)
{
    struct cpu *c = (struct cpu *)t;
    if (c->exact)
        return -ENOTSUP; /* its arithmetic is not meant to be quick */
    struct roof_run *r = calloc(1, sizeof *r);
    uint32_t n = pool_size(c->pool);
    int rc = r ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = part_init(c, &r->part[i]);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < ROUNDS && !rc; i++) {
        r->c = c;
        uint64_t t0 = clock_ns();
        pool_run(c->pool, multiply, r);
        best = MIN(best, clock_ns() - t0);
    }
    for (uint32_t i = 0; r && i < n; i++)
        free(r->part[i].mem);
    free(r);
    if (rc)
        return err_set(e, rc, "cpu: out of memory for measuring the compute roof");
    *gops = 2.0 * N_IN * N_PANELS * MM_ROWS * N_ROWS * TIMES * n / (double)MAX(best, 1u);
    return 0;
}
