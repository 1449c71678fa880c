/* rt/trial.c: how long a step takes on a tier when there is next to nothing to compute: what a submission costs, and what lies
 * between two commands of which one needs the other. */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "rt/auto.h"

/* Of a model of some 20 layers a step has as many commands as 3 of these; more would tell no more. */
enum { CMDS = 48, N = 64, WARM = 4, ROUNDS = 5, STEPS = 8, WAIT_S = 10 };
/* The step block of one row and one output (kernels/kargs.h), then next tokens; sums in scratch memory. */
enum { ROWS_AT = sizeof(ka_step), OUT_ROW_AT = ROWS_AT + sizeof(ka_row), SAMPLE_AT = (OUT_ROW_AT + 4 + 15) & ~15,
       NEXT_AT = SAMPLE_AT + sizeof(ka_sample), IO_BYTES = 2 * STREAM_ALIGN, SUMS_BYTES = 2 * 4 * N };
_Static_assert(NEXT_AT + 4 <= STREAM_ALIGN, "behind the step block is the residual of a part of a model");

struct trial {
    struct stream s;
    struct cmd cmds[CMDS];
    ka_add args[CMDS];
    struct stream_use uses[4 * CMDS];
    struct stream_buf bufs[2];
    struct patch patches[14];
    char strs[12];
};

/* x0 = x0 + x0 and x1 = x0 + x0 in turn, of zeros: each reads what the one before it wrote. */
static void build(struct trial *t)
{
    enum { STEP, SUMS };
    memset(t, 0, sizeof *t);
    for (uint32_t i = 0; i < CMDS; i++) {
        uint64_t from = i % 2 ? 4 * N : 0, to = i % 2 ? 0 : 4 * N;
        t->args[i] = (ka_add){ .step = SADDR(ARENA_IO, 0), .y = SADDR(ARENA_SCRATCH, to), .a = SADDR(ARENA_SCRATCH, from),
                               .b = SADDR(ARENA_SCRATCH, from), .n = N, .rows = 1 };
        t->cmds[i] = (struct cmd){ .op = CMD_ADD, .args_off = i * (uint32_t)sizeof(ka_add), .args_bytes = sizeof(ka_add),
                                   .wait = i ? i - 1 : CMD_NO_WAIT, .layer = CMD_NO_LAYER, .first_use = 4 * i, .n_uses = 4 };
        const struct stream_use use[4] = { { STEP, offsetof(ka_add, step), USE_READ, 0, 0 },
                                           { SUMS, offsetof(ka_add, y), USE_WRITE, 0, to },
                                           { SUMS, offsetof(ka_add, a), USE_READ, 0, from },
                                           { SUMS, offsetof(ka_add, b), USE_READ, 0, from } };
        memcpy(&t->uses[4 * i], use, sizeof use);
    }
    const struct stream_buf bufs[] = { { 1, ARENA_IO, 0, NEXT_AT + 4, UINT32_MAX, 0 },
                                       { 6, ARENA_SCRATCH, 0, SUMS_BYTES, UINT32_MAX, N } };
    const struct patch patches[] = { { offsetof(ka_step, n_rows), SYM_N_ROWS, 4, 4, 1 },
                                     { offsetof(ka_step, n_out), SYM_N_OUT, 4, 4, 1 },
                                     { offsetof(ka_step, kv_len), SYM_KV_LEN, 4, 4, 1 },
                                     { ROWS_AT + offsetof(ka_row, token), SYM_TOKEN, 4, sizeof(ka_row), 1 },
                                     { ROWS_AT + offsetof(ka_row, pos), SYM_POS, 4, sizeof(ka_row), 1 },
                                     { ROWS_AT + offsetof(ka_row, slot), SYM_SLOT, 4, sizeof(ka_row), 1 },
                                     { OUT_ROW_AT, SYM_OUT_ROW, 4, 4, 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, temp), SYM_TEMP, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, top_k), SYM_TOP_K, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, top_p), SYM_TOP_P, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, min_p), SYM_MIN_P, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, seed), SYM_SEED, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, counter), SYM_COUNTER, 4, sizeof(ka_sample), 1 },
                                     { SAMPLE_AT + offsetof(ka_sample, quiet), SYM_QUIET, 4, sizeof(ka_sample), 1 } };
    memcpy(t->bufs, bufs, sizeof bufs);
    memcpy(t->patches, patches, sizeof patches);
    memcpy(t->strs, "\0step\0sums", 11);
    t->s = (struct stream){
        .h = { .n_cmds = CMDS, .n_uses = 4 * CMDS, .n_bufs = ARRAY_LEN(bufs), .n_patches = ARRAY_LEN(patches),
               .args_bytes = sizeof t->args, .str_bytes = sizeof t->strs, .row_cap = 1, .out_cap = 1, .n_ctx = 16,
               .n_slots = 1, .n_vocab = 16, .n_embd = N, .n_layer = 2, .layers_behind = 1, .kv_type = KA_KV_F16,
               .next_off = NEXT_AT,
               .arena_bytes = { [ARENA_SCRATCH] = SUMS_BYTES, [ARENA_IO] = IO_BYTES } },
        .cmds = t->cmds, .args = (uint8_t *)t->args, .uses = t->uses, .bufs = t->bufs, .patches = t->patches,
        .strs = t->strs };
    memcpy(t->s.h.magic, STREAM_MAGIC, sizeof t->s.h.magic);
}

const struct stream *auto_trial_stream(void)
{
    static struct trial t;
    build(&t);
    return &t.s;
}

static int steps(struct tier *t, struct tier_plan *p, uint32_t n, struct err *e)
{
    static const uint32_t out_row[1] = { 0 };
    const ka_row row = { .token = 0 };
    const struct step st = { .n_rows = 1, .n_out = 1, .kv_len = 1, .rows = &row, .out_row = out_row };
    for (uint32_t i = 0; i < n; i++) {
        uint64_t point;
        int rc = tier_submit(t, p, &st, &point);
        if (!rc)
            rc = tier_wait(t, point, WAIT_S * 1000000000ull);
        if (rc == -ETIME)
            return err_set(e, -EIO, "%s: a step of %d commands was not done after %d s", tier_name(t), (int)CMDS, (int)WAIT_S);
        if (rc && tier_fault(t, e))
            err_set(e, rc, "%s: a step of %d commands failed", tier_name(t), (int)CMDS);
        if (rc)
            return rc;
    }
    return 0;
}

int auto_trial(const struct tier_driver *d, const struct tier_opts *o, double *us, struct err *e)
{
    struct tier_opts plain = *o;
    struct trial x;
    struct tier *t = NULL;
    struct tier_plan *p = NULL;
    plain.check = plain.trace = false;
    build(&x);
    const struct tier_weights w = { &x.s, NULL };
    int rc = d->open(&plain, &t, e);
    if (!rc && !(rc = tier_load(t, &w, NULL, e)) && !(rc = tier_alloc(t, x.s.h.arena_bytes, e)) &&
        !(rc = tier_prepare(t, &x.s, PLAN_AUTO, &p, e)))
        rc = steps(t, p, WARM, e);
    *us = 1e12;
    for (uint32_t i = 0; i < ROUNDS && !rc; i++) {
        uint64_t t0 = clock_ns();
        rc = steps(t, p, STEPS, e);
        *us = MIN(*us, (double)(clock_ns() - t0) * 1e-3 / STEPS);
    }
    tier_plan_destroy(p);
    tier_close(t);
    return rc;
}
