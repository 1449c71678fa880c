/* oracle/exec.c: the default mode's commands, products excepted. How work is cut changes nothing in the results. */
#include <math.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/sample.h"
#include "oracle/cpu.h"

enum { ARGMAX_RUN = 16384 };

static void run_embed(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_embed *a = &cmd->a.EMBED;
    struct cpu *c = r->c;
    size_t row_bytes = qtype_row_bytes(a->type, a->n);
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, c->io->n_rows); pool_next(r->w, &l, &i);) {
        int32_t t = c->rows[i].token;
        uint32_t id = (uint32_t)(t >= 0 ? t : c->next[-1 - t]);
        c->ops->embed(a->type, (const uint8_t *)cpu_ptr(a->w) + id * row_bytes, CPU_F32(a->y) + (size_t)i * a->n,
                      a->n, a->scale);
    }
}

static void run_norm(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_norm *a = &cmd->a.NORM;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);) {
        size_t row = (size_t)i * a->n;
        for (size_t at = row; at < row + a->n; at += a->group)
            r->c->ops->norm(CPU_F32(a->y) + at, CPU_F32(a->x) + at, CPU_F32(a->w),
                            a->resid ? CPU_F32(a->resid) + at : NULL, a->group, a->eps);
        if (a->out_scale)
            r->c->ops->scale(CPU_F32(a->y) + row, a->n, *CPU_F32(a->out_scale));
    }
}

static void run_add(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_add *a = &cmd->a.ADD;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);) {
        size_t at = (size_t)i * a->n;
        r->c->ops->add(CPU_F32(a->y) + at, CPU_F32(a->a) + at, CPU_F32(a->b) + at, a->n);
        if (a->out_scale)
            r->c->ops->scale(CPU_F32(a->y) + at, a->n, *CPU_F32(a->out_scale));
    }
}

static void run_act_mul(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_act_mul *a = &cmd->a.ACT_MUL;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);) {
        size_t at = (size_t)i * a->n;
        float *y = CPU_F32(a->y) + at;
        const float *x = CPU_F32(a->x) + at;
        if (a->sparse) {
            r->c->ops->above(y, x, a->n, r->c->ops->cutoff(x, a->n, a->cut));
            x = y;
        }
        r->c->ops->act_mul(y, x, CPU_F32(a->a) + (size_t)i * a->lda, a->n, a->act);
    }
}

static void run_match(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_match *a = &cmd->a.MATCH;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);)
        for (size_t at = (size_t)i * a->n; at < ((size_t)i + 1) * a->n; at += a->group)
            r->c->ops->match(CPU_F32(a->y) + at, CPU_F32(a->x) + at, CPU_F32(a->like) + (size_t)i * a->group,
                             a->resid ? CPU_F32(a->resid) + at : NULL, a->group, a->scale);
}

static void run_altup(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_altup *a = &cmd->a.ALTUP;
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, cpu_rows(r->c, a->rows)); pool_next(r->w, &l, &i);)
        r->c->ops->altup(a, i);
}

static void run_rope_kv(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_rope_kv *a = &cmd->a.ROPE_KV;
    struct cpu *c = r->c;
    uint32_t i, half = a->n_rot / 2;
    struct cpu_rope *t = cmd->rope;
    const ka_step *io = cpu_step(c, a->step, a->rows);
    uint32_t first = a->rows == ROWS_OUT ? t->row_cap : 0; /* where angles of these rows are kept */
    for (struct pool_loop l = pool_loop(r->w, io->n_rows); pool_next(r->w, &l, &i);) {
        float *cs = t->cs + (size_t)(first + i) * a->n_rot;
        if (t->stamp[first + i] != c->step_no) {
            for (uint32_t k = 0; k < half; k++) {
                float s, co;
                rope_sincos((float)cpu_step_rows(io)[i].pos * t->inv_freq[k], &s, &co);
                cs[k] = co * t->mscale;
                cs[half + k] = s * t->mscale;
            }
            t->stamp[first + i] = c->step_no;
        }
        c->ops->rope_kv(a, &cpu_step_rows(io)[i], i, cs);
    }
}

/* ---- attention ---- */

static void attn_rows(struct cpu_run *r, struct op_attn *u, uint32_t row0, uint32_t row1)
{
    while (row0 < row1) {
        uint32_t n = 1;
        while (row0 + n < row1 && u->rows[row0 + n].slot == u->rows[row0].slot)
            n++;
        u->row0 = row0;
        u->n_rows = n;
        r->c->ops->attn(u);
        row0 += n;
    }
}

/* Few units and a long context: tiles are units too, merged afterwards. */
static void attn_tiles(struct cpu_run *r, const ka_attn *a, uint32_t n_rows)
{
    struct cpu *c = r->c;
    uint32_t group = a->n_head / a->n_kv, n_tiles = (c->io->kv_len + ATTN_TILE - 1) / ATTN_TILE, i;
    size_t ld = a->head_dim + 2, vec = n_tiles * ld;
    float *part = (float *)c->shared.op;
    cpu_claim(r);
    for (struct pool_loop l = pool_loop(r->w, n_rows * a->n_kv * n_tiles); pool_next(r->w, &l, &i);) {
        uint32_t tile = i % n_tiles, kvh = i / n_tiles % a->n_kv, row = i / n_tiles / a->n_kv;
        for (uint32_t h = 0; h < group; h += ATTN_BLOCK) {
            struct op_attn u = { .a = a, .rows = cpu_step_rows(cpu_step(c, a->step, a->rows)), .row0 = row, .n_rows = 1, .head0 = kvh * group + h,
                                 .n_heads = MIN(group - h, (uint32_t)ATTN_BLOCK), .tile = tile,
                                 .part_ld = vec, .scratch = (float *)r->s->op };
            u.part = part + ((size_t)row * a->n_head + u.head0) * vec + tile * ld;
            c->ops->attn(&u);
        }
    }
    pool_barrier(r->w);
    cpu_claim(r);
    for (struct pool_loop l = pool_loop(r->w, n_rows * a->n_head); pool_next(r->w, &l, &i);)
        c->ops->attn_merge(a, i / a->n_head, i % a->n_head, part + i * vec, ld, n_tiles);
}

/* Units below which a decode step's attention is cut into tiles. */
static uint32_t attn_few_units(const struct cpu *c)
{
    return 4 * pool_size(c->pool);
}

static void run_attn(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_attn *a = &cmd->a.ATTN;
    struct cpu *c = r->c;
    const ka_step *io = cpu_step(c, a->step, a->rows);
    uint32_t n_rows = io->n_rows, group = a->n_head / a->n_kv, i, threads = r->w->n;
    if (threads > 1 && n_rows * a->n_kv < attn_few_units(c) && c->io->kv_len > 2 * ATTN_TILE && !a->window) {
        attn_tiles(r, a, n_rows);
        return;
    }
    uint32_t block = group < ATTN_BLOCK ? ATTN_BLOCK / group : 1;
    while (block > 1 && (n_rows + block - 1) / block * a->n_kv < 4 * threads && threads > 1)
        block /= 2;
    uint32_t n_blocks = (n_rows + block - 1) / block;
    for (struct pool_loop l = pool_loop(r->w, n_blocks * a->n_kv); pool_next(r->w, &l, &i);) {
        uint32_t kvh = i % a->n_kv, row0 = (n_blocks - 1 - i / a->n_kv) * block; /* long contexts first */
        for (uint32_t h = 0; h < group; h += ATTN_BLOCK) {
            struct op_attn u = { .a = a, .rows = cpu_step_rows(io), .head0 = kvh * group + h,
                                 .n_heads = MIN(group - h, (uint32_t)ATTN_BLOCK), .tile = UINT32_MAX,
                                 .scratch = (float *)r->s->op };
            attn_rows(r, &u, row0, MIN(row0 + block, n_rows));
        }
    }
}

/* ---- gated DeltaNet ---- */

static void run_gdn(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_gdn *a = &cmd->a.GDN;
    struct cpu *c = r->c;
    uint32_t n_rows = c->io->n_rows, channels = (2 * a->n_k + a->n_v) * a->head_dim, i;
    uint32_t run = 16 * MAX(1u, channels / 16 / (8 * r->w->n));
    for (struct pool_loop l = pool_loop(r->w, (channels + run - 1) / run); pool_next(r->w, &l, &i);)
        c->ops->gdn_conv(a, c->rows, n_rows, i * run, MIN((i + 1) * run, channels));
    pool_barrier(r->w);
    /* with few heads for the threads the values of a head are split too, and its norm waits for all of them */
    uint32_t cuts = a->n_v >= 4 * r->w->n || a->head_dim < 64 ? 1 : 4;
    for (struct pool_loop l = pool_loop(r->w, a->n_v * cuts); pool_next(r->w, &l, &i);) {
        uint32_t part = a->head_dim / cuts;
        struct op_gdn u = { .a = a, .rows = c->rows, .n_rows = n_rows, .head = i / cuts, .j0 = i % cuts * part,
                            .j1 = (i % cuts + 1) * part, .scratch = (float *)r->s->op };
        c->ops->gdn_step(&u);
        for (uint32_t row = 0; cuts == 1 && row < n_rows; row++)
            c->ops->gdn_gate(a, row, i);
    }
    if (cuts == 1)
        return;
    pool_barrier(r->w);
    for (struct pool_loop l = pool_loop(r->w, a->n_v * n_rows); pool_next(r->w, &l, &i);)
        c->ops->gdn_gate(a, i / a->n_v, i % a->n_v);
}

/* ---- output rows ---- */

static void run_gather(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_gather *a = &cmd->a.GATHER;
    const uint32_t *row = cpu_ptr(a->out_row);
    uint32_t i;
    for (struct pool_loop l = pool_loop(r->w, r->c->io->n_out); pool_next(r->w, &l, &i);)
        memcpy(CPU_F32(a->y) + (size_t)i * a->n, CPU_F32(a->x) + (size_t)row[i] * a->n, a->n * sizeof(float));
}

void cpu_run_step_out(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_step_out *a = &cmd->a.STEP_OUT;
    ka_step *y = cpu_ptr(a->y);
    ka_row *rows = (ka_row *)(y + 1);
    const uint32_t *row = cpu_ptr(a->out_row);
    uint32_t n = r->c->io->n_out, one;
    for (struct pool_loop l = pool_loop(r->w, 1); pool_next(r->w, &l, &one);) {
        *y = (ka_step){ .n_rows = n, .n_out = n, .kv_len = r->c->io->kv_len };
        for (uint32_t i = 0; i < n; i++)
            rows[i] = r->c->rows[row[i]];
    }
}

struct run_best {
    float best;
    uint32_t at;
};

static int32_t draw_token(const ka_sample *s, const float *logits, uint32_t n)
{
    uint32_t id[KA_SAMPLE_MAX], left;
    float top[KA_SAMPLE_MAX];
    n = sample_take(logits, n, sample_top_k(s->top_k), id, top);
    return n ? (int32_t)id[sample_pick(s, top, n, &left)] : -1;
}

static void run_argmax(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_argmax *a = &cmd->a.ARGMAX;
    struct cpu *c = r->c;
    struct run_best *best = (struct run_best *)c->shared.op;
    uint32_t runs = (a->n + ARGMAX_RUN - 1) / ARGMAX_RUN, n_out = c->io->n_out, i;
    cpu_claim(r);
    for (struct pool_loop l = pool_loop(r->w, runs * n_out); pool_next(r->w, &l, &i);) {
        uint32_t first = i % runs * ARGMAX_RUN;
        best[i].at = first + c->ops->argmax(CPU_F32(a->logits) + (size_t)(i / runs) * a->n + first,
                                            MIN(a->n - first, (uint32_t)ARGMAX_RUN), &best[i].best);
    }
    pool_barrier(r->w);
    cpu_claim(r);
    const ka_sample *sample = cpu_ptr(a->sample);
    for (struct pool_loop l = pool_loop(r->w, n_out); pool_next(r->w, &l, &i);) {
        struct run_best b = { -INFINITY, UINT32_MAX };
        for (uint32_t k = i * runs; k < (i + 1) * runs; k++)
            if (best[k].best > b.best)
                b = best[k];
        bool drawn = sample && sample[i].temp > 0.0f;
        ((int32_t *)cpu_ptr(a->next))[i] =
            drawn ? draw_token(&sample[i], CPU_F32(a->logits) + (size_t)i * a->n, a->n) : (int32_t)b.at;
    }
}

void cpu_need_default(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n)
{
    uint32_t rows = s->h.row_cap;
    switch (cmd->op) {
    case CMD_ATTN: {
        const ka_attn *a = &cmd->a.ATTN;
        size_t tiles = (a->n_ctx + ATTN_TILE - 1) / ATTN_TILE;
        need_max(&n->op, op_attn_floats(a->head_dim) * sizeof(float));
        uint32_t few = MIN(rows, attn_few_units(c) / a->n_kv + 1);
        if (!a->window && pool_size(c->pool) > 1)
            need_max(&n->shared_part, (size_t)few * a->n_head * tiles * (a->head_dim + 2) * sizeof(float));
        break;
    }
    case CMD_GDN:
        need_max(&n->op, op_gdn_floats(rows, cmd->a.GDN.head_dim) * sizeof(float));
        break;
    case CMD_ARGMAX:
        need_max(&n->shared_part, (size_t)s->h.out_cap * ((cmd->a.ARGMAX.n + ARGMAX_RUN - 1) / ARGMAX_RUN) *
                                      sizeof(struct run_best));
        break;
    default: cpu_need_products(c, s, cmd, n);
    }
}

cpu_cmd_fn *const cpu_default_cmds[CMD_COUNT] = {
    [CMD_EMBED] = run_embed,       [CMD_NORM] = run_norm,        [CMD_ADD] = run_add,
    [CMD_ACT_MUL] = run_act_mul,   [CMD_MATCH] = run_match,      [CMD_ALTUP] = run_altup,
    [CMD_STEP_OUT] = cpu_run_step_out,
    [CMD_MATMUL] = cpu_run_products, [CMD_PROJ] = cpu_run_products, [CMD_GATE_UP] = cpu_run_products,
    [CMD_ROPE_KV] = run_rope_kv,   [CMD_ATTN] = run_attn,        [CMD_GDN] = run_gdn,
    [CMD_ROUTER] = cpu_run_router, [CMD_MOE_UP] = cpu_run_moe_up, [CMD_MOE_DOWN] = cpu_run_moe_down,
    [CMD_GATHER] = run_gather,     [CMD_ARGMAX] = run_argmax,
};
