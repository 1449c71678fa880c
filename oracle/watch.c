/* oracle/watch.c: shows what goes into products, row by row, before they run (tier_watch). One worker does it, rows in
 * order, so that what is summed up of them does not depend on the threads. */
#include <stdlib.h>

#include "base/ckd.h"
#include "oracle/cpu.h"

int cpu_watch(struct tier *t, tier_watch_fn fn, void *user, struct err *e)
{
    struct cpu *c = (struct cpu *)t;
    uint32_t n = 1;
    if (c->exact)
        return err_set(e, -ENOTSUP, "cpu: --exact shows no inputs of products; leave it away");
    for (uint32_t i = 0; i < c->w.n_views; i++)
        n = MAX(n, c->w.views[i]->n_in);
    free(c->watch_row);
    c->watch_row = fn ? malloc(n * sizeof *c->watch_row) : NULL;
    c->watch = c->watch_row ? fn : NULL;
    c->watch_user = user;
    return fn && !c->watch_row ? err_set(e, -ENOMEM, "cpu: a row of %u numbers", n) : 0;
}

static void show(struct cpu *c, const struct cpu_view *v, uint32_t mat, const float *x)
{
    struct tier_product p = { .mat = mat, .n_mats = v->n_mats, .n_in = v->n_in, .x = x };
    cpu_weights_at(&c->w, v->off, &p.weight);
    c->watch(c->watch_user, &p);
}

static const float *normed(struct cpu *c, const float *x, const float *norm, uint32_t n, float eps)
{
    if (!norm)
        return x;
    c->ops->norm(c->watch_row, x, norm, NULL, n, eps);
    return c->watch_row;
}

static void show_products(struct cpu *c, const struct cpu_cmd *cmd)
{
    const ka_matmul *a = &cmd->a.MATMUL;
    for (uint32_t i = 0, rows = cpu_rows(c, a->rows); i < rows; i++) {
        const float *x = normed(c, CPU_F32(a->x) + (size_t)i * a->ldx, CPU_F32(a->norm), a->n_in, a->eps);
        for (uint32_t m = 0; m < a->n_mats; m++)
            show(c, cmd->view[m], 0, x);
    }
}

static void show_router(struct cpu *c, const struct cpu_cmd *cmd)
{
    const ka_router *a = &cmd->a.ROUTER;
    for (uint32_t i = 0; i < c->io->n_rows; i++) {
        const float *x = normed(c, CPU_F32(a->x) + (size_t)i * a->n_in, CPU_F32(a->norm), a->n_in, a->eps);
        for (uint32_t m = 0; m < 2 && cmd->view[m]; m++)
            show(c, cmd->view[m], 0, x);
    }
}

static void show_moe_up(struct cpu *c, const struct cpu_cmd *cmd)
{
    const ka_moe_up *a = &cmd->a.MOE_UP;
    const uint32_t *ids = cpu_ptr(a->ids);
    for (uint32_t i = 0; i < c->io->n_rows; i++) {
        const float *x = normed(c, CPU_F32(a->x) + (size_t)i * a->n_in, CPU_F32(a->norm), a->n_in, a->eps);
        for (uint32_t j = 0; j < a->k; j++)
            for (uint32_t m = 0; m < 2; m++)
                show(c, cmd->view[m], MIN(ids[i * a->k + j], a->n_expert - 1), x);
    }
}

static void show_moe_down(struct cpu *c, const struct cpu_cmd *cmd)
{
    const ka_moe_down *a = &cmd->a.MOE_DOWN;
    const uint32_t *ids = cpu_ptr(a->ids);
    for (uint32_t i = 0; i < c->io->n_rows * a->k; i++)
        show(c, cmd->view[0], MIN(ids[i], a->n_expert - 1), CPU_F32(a->x) + (size_t)i * a->n_in);
}

void cpu_watch_cmd(struct cpu_run *r, const struct cpu_cmd *cmd)
{
    if (!cmd->view[0])
        return;
    pool_barrier(r->w); /* the input is complete */
    if (r->w->id == 0)
        switch (cmd->op) {
        case CMD_MATMUL:
        case CMD_PROJ:
        case CMD_GATE_UP: show_products(r->c, cmd); break;
        case CMD_ROUTER: show_router(r->c, cmd); break;
        case CMD_MOE_UP: show_moe_up(r->c, cmd); break;
        case CMD_MOE_DOWN: show_moe_down(r->c, cmd); break;
        default: break;
        }
    pool_barrier(r->w); /* and stays as it is until it was shown */
}
