/* oracle/exec_mm.c: the default mode's products. The input's rows are normed and quantised once; then the workers
 * take chunks of panels, multiply them with all rows, and finish what they computed. */
#include <string.h>

#include "base/ckd.h"
#include "oracle/cpu.h"

enum { CHUNK_BYTES = 32 << 10, CHUNK_MAX = 8, CHUNK_MAX_MANY = 4, MANY_ROWS = 64, ROW_BLOCK = 512 };

/* ---- the input ---- */

/* n rows x' of a product: row i is row order[i] / div of x (order NULL: row i). */
struct input_spec {
    const float *x, *norm;
    size_t ldx;
    uint32_t n, n_in, div;
    const uint32_t *order;
    float eps;
    bool quants, floats; /* what the weights' types want */
    bool few;            /* every worker prepares its own */
};

struct input {
    struct mm_act act;
    const float *x;
    size_t ldx;
};

static void input_row(struct cpu_run *r, const struct input_spec *s, struct input *in, float *xf, uint32_t i)
{
    struct cpu *c = r->c;
    const float *src = s->x + (size_t)(s->order ? s->order[i] / s->div : i) * s->ldx;
    float *row = xf ? xf + (size_t)i * s->n_in : (float *)r->s->x;
    if (s->norm) {
        c->ops->norm(row, src, s->norm, NULL, s->n_in, s->eps);
        src = row;
    } else if (xf) {
        memcpy(row, src, s->n_in * sizeof *row);
    }
    if (s->quants)
        c->mm->quant(src, s->n_in, &in->act, i);
}

static void input_prepare(struct cpu_run *r, const struct input_spec *s, struct input *in)
{
    struct cpu_scratch *own = s->few ? r->s : &r->c->shared;
    float *xf = s->floats && (s->norm || s->order) ? (float *)own->x : NULL;
    uint32_t i;
    in->x = xf ? xf : s->x;
    in->ldx = xf ? s->n_in : s->ldx;
    if (s->quants)
        mm_act_init(&in->act, s->n, s->n_in, own->act);
    if (s->few) {
        for (i = 0; i < s->n; i++)
            input_row(r, s, in, xf, i);
        return;
    }
    if (!xf && !s->quants)
        return;
    cpu_claim(r);
    for (struct pool_loop l = pool_loop(r->w, s->n); pool_next(r->w, &l, &i);)
        input_row(r, s, in, xf, i);
    pool_barrier(r->w);
    cpu_claim(r);
}

static void input_need(struct cpu_need *n, size_t few, size_t cap, uint32_t n_in, bool norm, bool ordered,
                       bool quants, bool floats)
{
    need_max(&n->x, norm ? few * n_in * sizeof(float) : 0);
    if (floats && (norm || ordered))
        need_max(&n->shared_x, cap * n_in * sizeof(float));
    if (!quants)
        return;
    need_max(&n->act, mm_act_bytes((uint32_t)few, n_in));
    need_max(&n->shared_act, mm_act_bytes((uint32_t)cap, n_in));
}

/* ---- panels ---- */

/* Panels that a worker takes at a time. */
static uint32_t chunk_panels(uint32_t panels, size_t panel_bytes, uint32_t rows, uint32_t threads)
{
    uint32_t max = rows > MANY_ROWS ? CHUNK_MAX_MANY : CHUNK_MAX;
    size_t n = CHUNK_BYTES / (panel_bytes ? panel_bytes : 1);
    uint32_t c = n < 2 ? 2 : n > max ? max : (uint32_t)n;
    while (c > 1 && threads > 1 && panels / c < 2 * threads)
        c--;
    return c;
}

static void tile_need(struct cpu_need *n, size_t rows, uint32_t n_tiles, size_t panel_bytes, uint32_t n_in)
{
    size_t block = rows < ROW_BLOCK ? rows : ROW_BLOCK;
    size_t chunk = rows > MANY_ROWS ? CHUNK_MAX_MANY : CHUNK_MAX;
    size_t few = rows < MANY_ROWS ? rows : MANY_ROWS;
    need_max(&n->tile, n_tiles * MM_ROWS * sizeof(float) * MAX(block * chunk, few * CHUNK_MAX));
    need_max(&n->panels, n_tiles * CHUNK_MAX * panel_bytes);
    need_max(&n->mm, mm_scratch_bytes(n_in));
}

/* y[rows, 16 n] = panels [p, p + n) of matrix m times rows [row0, row0 + rows) of the input. */
static void dot(struct cpu_run *r, struct cpu_view *v, const uint8_t *panels, uint32_t n, const struct input *in,
                uint32_t row0, uint32_t rows, float *y, size_t ldy)
{
    mm_dot_fn *fn = r->c->mm->dot(v->type, rows);
    fn(v->n_in, panels, n, &in->act, row0, in->x + (size_t)row0 * in->ldx, in->ldx, rows, y, ldy, r->s->mm);
}

static const float *at(gpu_va base, size_t i)
{
    return base ? CPU_F32(base) + i : NULL;
}

/* ---- MATMUL, PROJ, GATE_UP ---- */

/* A tile of products [rows, ldt] times the number at `by`; 0: as it is. */
static void times(struct cpu_run *r, float *t, size_t n, gpu_va by)
{
    if (by)
        r->c->ops->scale(t, (uint32_t)n, *CPU_F32(by));
}

static void product_chunk(struct cpu_run *r, const struct cpu_cmd *cmd, const struct input *in, uint32_t m,
                          uint32_t p, uint32_t n, uint32_t rows)
{
    const ka_matmul *a = &cmd->a.MATMUL;
    struct cpu_view *v = cmd->view[m];
    const uint8_t *panels = cpu_view_panels(&r->c->w, v, 0, p, n, r->s->panels);
    uint32_t col = p * MM_ROWS, cols = MIN(a->n_out[m] - col, n * MM_ROWS);
    bool matmul = cmd->op == CMD_MATMUL;
    struct op_finish f = { .b = at(a->b[m], col), .scale = at(matmul ? a->scale : 0, 0),
                           .resid = at(matmul ? a->resid : 0, col), .ldr = a->ldr,
                           .softcap = matmul ? a->softcap : 0.0f };
    bool direct = !a->wscale[m] && !f.b && !f.scale && !f.resid && f.softcap <= 0.0f && cols == n * MM_ROWS;
    float *y = CPU_F32(a->y[m]) + col;
    for (uint32_t r0 = 0; r0 < rows; r0 += ROW_BLOCK) {
        uint32_t nr = MIN(rows - r0, (uint32_t)ROW_BLOCK);
        if (direct) {
            dot(r, v, panels, n, in, r0, nr, y + (size_t)r0 * a->ld[m], a->ld[m]);
            continue;
        }
        dot(r, v, panels, n, in, r0, nr, r->s->tile, n * MM_ROWS);
        times(r, r->s->tile, (size_t)nr * n * MM_ROWS, a->wscale[m]);
        struct op_finish fb = f;
        fb.scale = f.scale ? f.scale + r0 : NULL;
        fb.resid = f.resid ? f.resid + (size_t)r0 * a->ldr : NULL;
        r->c->ops->finish(y + (size_t)r0 * a->ld[m], a->ld[m], r->s->tile, n * MM_ROWS, nr, cols, &fb);
    }
}

/* What follows gate's and up's products of a run of columns: their matrices' numbers, their biases (0: none). */
struct gate_up {
    gpu_va sg, su;
    const float *bg, *bu;
    enum ka_act act;
};

/* Panels of gate and up of the same columns: y[rows, cols] = act(gate, up). */
static void gate_up_chunk(struct cpu_run *r, struct cpu_view *vg, struct cpu_view *vu, uint32_t mat, uint32_t p,
                          uint32_t n, const struct input *in, uint32_t row0, uint32_t rows, float *y, size_t ldy,
                          const struct gate_up *f)
{
    uint8_t *second = r->s->panels ? r->s->panels + CHUNK_MAX * vg->panel_bytes : NULL;
    const uint8_t *g = cpu_view_panels(&r->c->w, vg, mat, p, n, r->s->panels);
    const uint8_t *u = cpu_view_panels(&r->c->w, vu, mat, p, n, second);
    size_t ldt = n * MM_ROWS;
    uint32_t cols = MIN(vg->n_out - p * MM_ROWS, n * MM_ROWS);
    for (uint32_t r0 = 0; r0 < rows; r0 += ROW_BLOCK) {
        uint32_t nr = MIN(rows - r0, (uint32_t)ROW_BLOCK);
        float *tg = r->s->tile, *tu = tg + nr * ldt;
        dot(r, vg, g, n, in, row0 + r0, nr, tg, ldt);
        dot(r, vu, u, n, in, row0 + r0, nr, tu, ldt);
        times(r, tg, nr * ldt, f->sg);
        times(r, tu, nr * ldt, f->su);
        r->c->ops->gate(y + (size_t)r0 * ldy, ldy, tg, tu, ldt, nr, cols, f->bg, f->bu, f->act);
    }
}

void cpu_run_products(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_matmul *a = &cmd->a.MATMUL;
    uint32_t rows = cpu_rows(r->c, a->rows), i, chunks[4] = { 0 }, size[4], total = 0;
    bool gate_up = cmd->op == CMD_GATE_UP;
    if (rows == 0)
        return;
    struct input_spec spec = { .x = CPU_F32(a->x), .norm = CPU_F32(a->norm), .ldx = a->ldx, .n = rows,
                               .n_in = a->n_in, .eps = a->eps, .few = rows <= CPU_FEW_ROWS };
    for (uint32_t m = 0; m < a->n_mats; m++) {
        bool block = mm_type_is_block(a->type[m]);
        spec.quants |= block;
        spec.floats |= !block;
        size[m] = chunk_panels(cmd->view[m]->panels, cmd->view[m]->panel_bytes, rows, r->w->n);
        chunks[m] = gate_up && m == 1 ? 0 : (cmd->view[m]->panels + size[m] - 1) / size[m];
        total += chunks[m];
    }
    struct input in;
    input_prepare(r, &spec, &in);
    for (struct pool_loop l = pool_loop(r->w, total); pool_next(r->w, &l, &i);) {
        uint32_t m = 0;
        while (i >= chunks[m])
            i -= chunks[m++];
        uint32_t p = i * size[m], n = MIN(cmd->view[m]->panels - p, size[m]), col = p * MM_ROWS;
        struct gate_up f = { a->wscale[0], a->wscale[1], at(a->b[0], col), at(a->b[1], col), (enum ka_act)a->act };
        if (gate_up)
            gate_up_chunk(r, cmd->view[0], cmd->view[1], 0, p, n, &in, 0, rows, CPU_F32(a->y[0]) + col, a->ld[0], &f);
        else
            product_chunk(r, cmd, &in, m, p, n, rows);
    }
}

/* ---- router ---- */

void cpu_run_router(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_router *a = &cmd->a.ROUTER;
    struct cpu *c = r->c;
    uint32_t rows = c->io->n_rows, i;
    bool block = mm_type_is_block(a->type);
    struct input_spec spec = { .x = CPU_F32(a->x), .norm = CPU_F32(a->norm), .ldx = a->n_in, .n = rows,
                               .n_in = a->n_in, .eps = a->eps, .quants = block, .floats = !block || a->shared_w,
                               .few = rows <= CPU_FEW_ROWS };
    struct input in;
    input_prepare(r, &spec, &in);
    struct cpu_view *v = cmd->view[0];
    uint32_t size = chunk_panels(v->panels, v->panel_bytes, rows, r->w->n), chunks = (v->panels + size - 1) / size;
    for (struct pool_loop l = pool_loop(r->w, chunks + (a->shared_w != 0)); pool_next(r->w, &l, &i);)
        for (uint32_t r0 = 0; r0 < rows; r0 += ROW_BLOCK) {
            uint32_t nr = MIN(rows - r0, (uint32_t)ROW_BLOCK), p = i * size;
            if (i == chunks) { /* the shared expert's gate: a matrix of one row */
                const uint8_t *panel = cpu_view_panels(&c->w, cmd->view[1], 0, 0, 1, r->s->panels);
                dot(r, cmd->view[1], panel, 1, &in, r0, nr, r->s->tile, MM_ROWS);
                for (uint32_t k = 0; k < nr; k++)
                    CPU_F32(a->share)[r0 + k] = c->ops->sigmoid(r->s->tile[k * MM_ROWS]);
                continue;
            }
            uint32_t n = MIN(v->panels - p, size), col = p * MM_ROWS;
            const uint8_t *panels = cpu_view_panels(&c->w, v, 0, p, n, r->s->panels);
            dot(r, v, panels, n, &in, r0, nr, r->s->tile, n * MM_ROWS);
            struct op_finish f = { .b = at(a->b, col) };
            c->ops->finish(CPU_F32(a->logits) + (size_t)r0 * a->n_expert + col, a->n_expert, r->s->tile, n * MM_ROWS,
                           nr, MIN(a->n_expert - col, n * MM_ROWS), &f);
        }
    pool_barrier(r->w);
    for (struct pool_loop l = pool_loop(r->w, rows); pool_next(r->w, &l, &i);)
        c->ops->topk(CPU_F32(a->logits) + (size_t)i * a->n_expert, a->n_expert, a->k, a->gating, a->scale,
                     CPU_F32(a->expert_scale), (uint32_t *)cpu_ptr(a->ids) + (size_t)i * a->k,
                     CPU_F32(a->weights) + (size_t)i * a->k);
}

/* ---- experts ---- */

const uint32_t *cpu_pairs_ids(struct cpu_run *r, gpu_va ids, uint32_t n, uint32_t n_expert)
{
    uint32_t *own = r->s->pairs;
    memcpy(own, cpu_ptr(ids), n * sizeof *own);
    for (uint32_t i = 0; i < n; i++)
        own[i] = own[i] < n_expert ? own[i] : n_expert - 1;
    return own;
}

void cpu_pairs_sort(struct cpu_run *r, struct cpu_pairs *ps, const uint32_t *ids, uint32_t n, uint32_t n_expert)
{
    ps->order = r->s->pairs + n;
    ps->place = ps->order + n;
    ps->start = ps->place + n;
    ps->active = ps->start + n_expert + 1;
    ps->n = n;
    ps->n_active = 0;
    memset(ps->start, 0, (n_expert + 1) * sizeof *ps->start);
    for (uint32_t i = 0; i < n; i++)
        ps->start[ids[i] + 1]++;
    for (uint32_t e = 0; e < n_expert; e++) {
        if (ps->start[e + 1])
            ps->active[ps->n_active++] = e;
        ps->start[e + 1] += ps->start[e];
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = ps->start[ids[i]]++; /* start[e] ends as start[e + 1]: put back below */
        ps->order[p] = i;
        ps->place[i] = p;
    }
    for (uint32_t e = n_expert; e > 0; e--)
        ps->start[e] = ps->start[e - 1];
    ps->start[0] = 0;
}

size_t cpu_pairs_bytes(size_t n, uint32_t n_expert)
{
    return (3 * n + 2 * (size_t)n_expert + 1) * sizeof(uint32_t);
}

void cpu_run_moe_up(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_moe_up *a = &cmd->a.MOE_UP;
    struct cpu_view *vg = cmd->view[0], *vu = cmd->view[1];
    uint32_t rows = r->c->io->n_rows, n = rows * a->k, i;
    const uint32_t *ids = cpu_pairs_ids(r, a->ids, n, a->n_expert);
    bool bg_ = mm_type_is_block(a->type_gate), bu_ = mm_type_is_block(a->type_up), few = rows <= CPU_FEW_ROWS;
    struct cpu_pairs ps = { 0 };
    if (!few)
        cpu_pairs_sort(r, &ps, ids, n, a->n_expert);
    struct input_spec spec = { .x = CPU_F32(a->x), .norm = CPU_F32(a->norm), .ldx = a->n_in, .n = few ? rows : n,
                               .n_in = a->n_in, .eps = a->eps, .order = few ? NULL : ps.order, .div = a->k,
                               .quants = bg_ || bu_, .floats = !bg_ || !bu_, .few = few };
    struct input in;
    input_prepare(r, &spec, &in);
    uint32_t groups = few ? n : ps.n_active, size = chunk_panels(vg->panels * groups, vg->panel_bytes, rows, r->w->n);
    uint32_t chunks = (vg->panels + size - 1) / size;
    for (struct pool_loop l = pool_loop(r->w, groups * chunks); pool_next(r->w, &l, &i);) {
        uint32_t g = i / chunks, p = i % chunks * size, np = MIN(vg->panels - p, size), col = p * MM_ROWS;
        uint32_t e = few ? ids[g] : ps.active[g];
        size_t b_at = (size_t)e * a->n_ff + col;
        struct gate_up f = { a->sg ? a->sg + 4ull * e : 0, a->su ? a->su + 4ull * e : 0, at(a->bg, b_at), at(a->bu, b_at),
                             (enum ka_act)a->act };
        if (few) {
            gate_up_chunk(r, vg, vu, e, p, np, &in, g / a->k, 1, CPU_F32(a->y) + (size_t)g * a->n_ff + col, a->n_ff, &f);
            continue;
        }
        /* results go to the pairs' own rows: one row at a time out of a block */
        uint8_t *second = r->s->panels ? r->s->panels + CHUNK_MAX * vg->panel_bytes : NULL;
        const uint8_t *gp = cpu_view_panels(&r->c->w, vg, e, p, np, r->s->panels);
        const uint8_t *up = cpu_view_panels(&r->c->w, vu, e, p, np, second);
        size_t ldt = np * MM_ROWS;
        uint32_t cols = MIN(a->n_ff - col, np * MM_ROWS);
        for (uint32_t r0 = ps.start[e]; r0 < ps.start[e + 1]; r0 += ROW_BLOCK) {
            uint32_t nr = MIN(ps.start[e + 1] - r0, (uint32_t)ROW_BLOCK);
            float *tg = r->s->tile, *tu = tg + nr * ldt;
            dot(r, vg, gp, np, &in, r0, nr, tg, ldt);
            dot(r, vu, up, np, &in, r0, nr, tu, ldt);
            times(r, tg, nr * ldt, f.sg);
            times(r, tu, nr * ldt, f.su);
            for (uint32_t k = 0; k < nr; k++)
                r->c->ops->gate(CPU_F32(a->y) + (size_t)ps.order[r0 + k] * a->n_ff + col, a->n_ff, tg + k * ldt, tu + k * ldt, ldt, 1,
                                cols, f.bg, f.bu, f.act);
        }
    }
}

/* Output columns are shared out: each worker multiplies its columns of every expert and sums them row by row. */
void cpu_run_moe_down(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    const ka_moe_down *a = &cmd->a.MOE_DOWN;
    struct cpu_view *v = cmd->view[0];
    uint32_t rows = r->c->io->n_rows, n = rows * a->k, i;
    const uint32_t *ids = cpu_pairs_ids(r, a->ids, n, a->n_expert);
    bool block = mm_type_is_block(a->type), few = rows <= CPU_FEW_ROWS;
    struct cpu_pairs ps = { 0 };
    if (!few)
        cpu_pairs_sort(r, &ps, ids, n, a->n_expert);
    struct input_spec spec = { .x = CPU_F32(a->x), .ldx = a->n_in, .n = n, .n_in = a->n_in,
                               .order = few ? NULL : ps.order, .div = 1, .quants = block, .floats = !block,
                               .few = few };
    struct input in;
    input_prepare(r, &spec, &in);
    uint32_t size = few ? chunk_panels(v->panels, v->panel_bytes, 1, r->w->n) : 1;
    for (struct pool_loop l = pool_loop(r->w, (v->panels + size - 1) / size); pool_next(r->w, &l, &i);) {
        uint32_t p = i * size, np = MIN(v->panels - p, size), col = p * MM_ROWS;
        size_t ldt = np * MM_ROWS;
        for (uint32_t g = 0; g < (few ? n : ps.n_active); g++) {
            uint32_t e = few ? ids[g] : ps.active[g], r0 = few ? g : ps.start[e], nr = few ? 1 : ps.start[e + 1] - r0;
            const uint8_t *panels = cpu_view_panels(&r->c->w, v, e, p, np, r->s->panels);
            dot(r, v, panels, np, &in, r0, nr, r->s->tile + r0 * ldt, ldt);
            times(r, r->s->tile + r0 * ldt, nr * ldt, a->sd ? a->sd + 4ull * e : 0);
        }
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t own[64];
            for (uint32_t j = 0; j < a->k; j++)
                own[j] = few ? row * a->k + j : ps.place[row * a->k + j];
            r->c->ops->mix(CPU_F32(a->y) + (size_t)row * a->n_out + col, r->s->tile, ldt, own,
                           ids + (size_t)row * a->k,
                           CPU_F32(a->weights) + (size_t)row * a->k, a->k, at(a->b, col), a->n_out,
                           at(a->resid, (size_t)row * a->n_out + col), MIN(a->n_out - col, np * MM_ROWS));
        }
    }
}

/* ---- what they need ---- */

void cpu_need_products(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n)
{
    uint32_t step = s->h.row_cap;
    switch (cmd->op) {
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP: {
        const ka_matmul *a = &cmd->a.MATMUL;
        uint32_t rows = a->rows == ROWS_OUT ? s->h.out_cap : step;
        bool quants = false, floats = false;
        for (uint32_t m = 0; m < a->n_mats; m++) {
            quants |= mm_type_is_block(a->type[m]);
            floats |= !mm_type_is_block(a->type[m]);
            tile_need(n, rows, cmd->op == CMD_GATE_UP ? 2 : 1, cmd->view[m]->panel_bytes, a->n_in);
        }
        input_need(n, CPU_FEW_ROWS, rows, a->n_in, a->norm, false, quants, floats);
        break;
    }
    case CMD_ROUTER: {
        const ka_router *a = &cmd->a.ROUTER;
        bool block = mm_type_is_block(a->type);
        tile_need(n, step, 1, cmd->view[0]->panel_bytes, a->n_in);
        if (cmd->view[1])
            tile_need(n, step, 1, cmd->view[1]->panel_bytes, a->n_in);
        input_need(n, CPU_FEW_ROWS, step, a->n_in, a->norm, false, block, !block || a->shared_w);
        break;
    }
    case CMD_MOE_UP: {
        const ka_moe_up *a = &cmd->a.MOE_UP;
        bool g = mm_type_is_block(a->type_gate), u = mm_type_is_block(a->type_up);
        tile_need(n, (size_t)step * a->k, 2, MAX(cmd->view[0]->panel_bytes, cmd->view[1]->panel_bytes), a->n_in);
        input_need(n, CPU_FEW_ROWS, (size_t)step * a->k, a->n_in, a->norm, true, g || u, !g || !u);
        need_max(&n->pairs, cpu_pairs_bytes((size_t)step * a->k, a->n_expert));
        break;
    }
    case CMD_MOE_DOWN: {
        const ka_moe_down *a = &cmd->a.MOE_DOWN;
        size_t pairs = (size_t)step * a->k;
        bool block = mm_type_is_block(a->type);
        tile_need(n, pairs, 1, cmd->view[0]->panel_bytes, a->n_in);
        /* all pairs of one panel, or few pairs of a chunk */
        need_max(&n->tile, MM_ROWS * sizeof(float) * MAX(pairs, (size_t)CPU_FEW_ROWS * a->k * CHUNK_MAX));
        input_need(n, (size_t)CPU_FEW_ROWS * a->k, pairs, a->n_in, false, true, block, !block);
        need_max(&n->pairs, cpu_pairs_bytes(pairs, a->n_expert));
        break;
    }
    default: break;
    }
}
