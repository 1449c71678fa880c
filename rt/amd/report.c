/* rt/amd/report.c: one line about a failure for the user, and a folder with what a developer asks
 * for next. */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/amd/walk.h"
#include "rt/pm4/decode.h"
#include "rt/report.h"

enum { AROUND = 3 };

/* The pass that the GPU worked on last, by the progress word; NULL: none of those that live. */
static const struct amd_pass *running(const struct amd_tier *c, const struct amd_plan **plan, uint32_t *launch)
{
    uint32_t word = c->w->cells->progress, number = word >> AMD_LAUNCH_SHIFT;
    *launch = word & ((1u << AMD_LAUNCH_SHIFT) - 1);
    for (const struct amd_plan *p = c->plans; p && *launch; p = p->next)
        for (uint32_t i = 0; i < p->r.n_passes; i++)
            if (p->pass[i].number == number && *launch <= p->pass[i].n_launches) {
                *plan = p;
                --*launch;
                return &p->pass[i];
            }
    return NULL;
}

/* "command 12 (MATMUL, layer 3), kernel k_matvec_q80_r1, launch 17" */
static void name_launch(const struct amd_plan *p, const struct amd_pass *x, uint32_t launch, char *out, size_t n)
{
    uint32_t cmd;
    const char *kernel = amd_launch_name(x, launch, &cmd);
    if (cmd == UINT32_MAX) {
        snprintf(out, n, "%s, launch %u of %u", kernel, launch, x->n_launches);
        return;
    }
    const struct cmd *k = &p->r.base.s->cmds[cmd];
    char layer[24] = "";
    if (k->layer != CMD_NO_LAYER)
        snprintf(layer, sizeof layer, ", layer %u", (unsigned)k->layer);
    snprintf(out, n, "command %u (%s%s), kernel %s, launch %u of %u", cmd, cmd_name(k->op), layer, kernel, launch,
             x->n_launches);
}

/* The walk that the step had got to; NULL: it was launches. */
static const struct amd_walk *walking(const struct amd_tier *c, const struct amd_pass *x, uint32_t launch)
{
    return x && !c->r.check && !c->r.trace_on ? amd_walk_at(x, launch) : NULL;
}

static void print_packets(const char *folder, const struct amd_tier *c, const struct amd_pass *x, uint32_t launch)
{
    FILE *f = report_file(folder, "packets.txt");
    if (!f)
        return;
    struct pm4_view v = { .gen = c->w->card.chip->gen, .check = c->w->ops->mem_check, .user = c->w };
    if (x) {
        uint32_t from = launch > AROUND ? launch - AROUND : 0, to = MIN(launch + AROUND, x->n_launches - 1);
        for (uint32_t i = from; i <= to; i++) {
            uint32_t cmd;
            const char *name = amd_launch_name(x, i, &cmd);
            fprintf(f, "%s launch %u, %s, at 0x%llx\n", i == launch ? "running:" : "        ", i, name,
                    (unsigned long long)(x->ib.va + 4ull * x->at[i]));
            v.verbose = i == launch;
            pm4_print(f, &v, x->dw + x->at[i], x->at[i + 1] - x->at[i]);
        }
    }
    if (walking(c, x, launch)) {
        fprintf(f, "the step was submitted as walks, at 0x%llx\n", (unsigned long long)x->walk_ib.va);
        pm4_print(f, &v, x->walk_dw, x->n_walk_dw);
    }
    if (c->w->ops->describe_queue)
        c->w->ops->describe_queue(c->w, f);
    fclose(f);
}

void amd_report(struct amd_tier *c, const struct err *why, const char *when)
{
    char folder[200], now[220] = "", before[160] = "nothing";
    const struct amd_plan *p = NULL;
    uint32_t launch = 0;
    if (c->r.fault.msg[0])
        return; /* the first one tells */
    const struct amd_pass *x = running(c, &p, &launch);
    uint32_t oldest = launch; /* that may still run */
    while (x && oldest && !amd_launch_waits(c, x, oldest))
        oldest--;
    if (x)
        name_launch(p, x, launch, now, sizeof now);
    const struct amd_walk *w = walking(c, x, launch);
    if (w) {
        size_t n = strlen(now);
        snprintf(now + n, sizeof now - n, ", or a later one of its walk, to launch %u", w->first + w->n);
    } else if (x && oldest < launch) {
        size_t n = strlen(now);
        snprintf(now + n, sizeof now - n, ", or one that it may overlap with, from launch %u on", oldest);
    }
    if (x && oldest)
        name_launch(p, x, oldest - 1, before, sizeof before);
    FILE *f = report_open(folder, sizeof folder);
    if (f) {
        fprintf(f, "%s\nwhile %s\nrunning: %s\nlast complete: %s\n", why->msg, when, x ? now : "unknown", before);
        fprintf(f, "steps issued %llu, done %u\n", (unsigned long long)c->r.issued, c->w->cells->done);
        c->w->ops->describe(c->w, f);
        fclose(f);
        print_packets(folder, c, x, launch);
        if (p)
            report_stream(folder, p->r.base.s);
    }
    err_set(&c->r.fault, -EIO, "%s, while %s%s%s%s%s", why->msg, when, x ? "; running: " : "", now,
            folder[0] ? "; details in " : "", folder);
}
