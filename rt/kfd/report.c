/* rt/kfd/report.c: one line about a failure for the user, and a folder with what a developer asks
 * for next. */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/kfd/plan.h"
#include "rt/kfd/priv.h"
#include "rt/pm4/decode.h"
#include "rt/report.h"

enum { RING_DUMP = 256, AROUND = 3 };

/* The pass that the GPU worked on last, by the progress word; NULL: none of those that live. */
static const struct kfd_pass *running(const struct kfd_tier *c, const struct kfd_plan **plan, uint32_t *launch)
{
    uint32_t word = c->q->cells->progress, number = word >> KFD_LAUNCH_SHIFT;
    *launch = word & ((1u << KFD_LAUNCH_SHIFT) - 1);
    for (const struct kfd_plan *p = c->plans; p && *launch; p = p->next)
        for (uint32_t i = 0; i < p->n_passes; i++)
            if (p->pass[i].number == number && *launch <= p->pass[i].n_launches) {
                *plan = p;
                --*launch;
                return &p->pass[i];
            }
    return NULL;
}

/* "command 12 (MATMUL, layer 3), kernel k_matvec_q80_r1, launch 17" */
static void name_launch(const struct kfd_plan *p, const struct kfd_pass *x, uint32_t launch, char *out, size_t n)
{
    uint32_t cmd;
    const char *kernel = kfd_launch_name(x, launch, &cmd);
    if (cmd == UINT32_MAX) {
        snprintf(out, n, "%s, launch %u of %u", kernel, launch, x->n_launches);
        return;
    }
    const struct cmd *k = &p->base.s->cmds[cmd];
    char layer[24] = "";
    if (k->layer != CMD_NO_LAYER)
        snprintf(layer, sizeof layer, ", layer %u", (unsigned)k->layer);
    snprintf(out, n, "command %u (%s%s), kernel %s, launch %u of %u", cmd, cmd_name(k->op), layer, kernel, launch,
             x->n_launches);
}

static void tell_state(FILE *f, const struct kfd_tier *c)
{
    const struct kfd_queue *q = c->q;
    const struct kfd_gpu *g = &c->dev->gpu;
    const struct kfd_fault *t = &c->dev->fault;
    char text[200];
    fprintf(f, "device: %s, node %u, gpu id %u, firmware %u, driver interface 1.%u, %s\n", g->name, g->node,
            g->gpu_id,
            g->mec_firmware, c->dev->version_minor, c->dev->large_bar ? "large BAR" : "small BAR");
    fprintf(f, "queue %u: fence %llu of %llu, fetched %llu of %llu dwords, progress word 0x%x, steps issued %llu, "
            "done %u\n",
            q->id, (unsigned long long)q->cells->fence, (unsigned long long)q->point, (unsigned long long)*q->rptr,
            (unsigned long long)q->wptr, q->cells->progress, (unsigned long long)c->issued, q->cells->done);
    kfd_fault_text(c->dev, text, sizeof text);
    fprintf(f, "driver's record: %s\n", text);
    if (t->memory)
        fprintf(f, "  memory: va 0x%llx, not present %d, read only %d, no execute %d\n", (unsigned long long)t->va,
                t->not_present, t->read_only, t->no_execute);
    if (t->hardware)
        fprintf(f, "  hardware: reset type %u, cause %u, memory lost %u\n", t->reset_type, t->reset_cause,
                t->memory_lost);
}

static void tell_buffers(FILE *f, const struct kfd_dev *d)
{
    static const char *const kinds[] = { "vram", "private vram", "host", "user" };
    fprintf(f, "\nbuffers\n");
    for (const struct kfd_mem *m = d->mem; m; m = m->next)
        fprintf(f, "  0x%012llx %12llu  %-12s %s\n", (unsigned long long)m->va, (unsigned long long)m->bytes,
                kinds[m->kind], m->name);
}

static void tell_packets(const char *folder, const struct kfd_tier *c, const struct kfd_pass *x, uint32_t launch)
{
    FILE *f = report_file(folder, "packets.txt");
    if (!f)
        return;
    struct pm4_view v = { .gen = c->dev->gpu.chip->gen, .judge = kfd_mem_judge, .user = c->dev };
    const struct kfd_queue *q = c->q;
    if (x) {
        uint32_t from = launch > AROUND ? launch - AROUND : 0, to = MIN(launch + AROUND, x->n_launches - 1);
        for (uint32_t i = from; i <= to; i++) {
            uint32_t cmd;
            const char *name = kfd_launch_name(x, i, &cmd);
            fprintf(f, "%s launch %u, %s, at 0x%llx\n", i == launch ? "running:" : "        ", i, name,
                    (unsigned long long)(x->ib->va + 4ull * x->at[i]));
            v.verbose = i == launch;
            pm4_print(f, &v, x->dw + x->at[i], x->at[i + 1] - x->at[i]);
        }
    }
    uint32_t dw[RING_DUMP], n = (uint32_t)MIN(q->wptr, (uint64_t)RING_DUMP);
    for (uint32_t i = 0; i < n; i++)
        dw[i] = q->ring_dw[(q->wptr - n + i) & q->mask];
    fprintf(f, "\nthe ring's last %u dwords (its first words may be the end of a packet)\n", n);
    v.verbose = false;
    pm4_print(f, &v, dw, n);
    fclose(f);
}

void kfd_report(struct kfd_tier *c, const struct err *why, const char *when)
{
    char folder[200], now[160] = "", before[160] = "nothing";
    const struct kfd_plan *p = NULL;
    uint32_t launch = 0;
    if (c->fault.msg[0])
        return; /* the first one tells */
    const struct kfd_pass *x = running(c, &p, &launch);
    if (x)
        name_launch(p, x, launch, now, sizeof now);
    if (x && launch)
        name_launch(p, x, launch - 1, before, sizeof before);
    FILE *f = report_open(folder, sizeof folder);
    if (f) {
        fprintf(f, "%s\nwhile %s\nrunning: %s\nlast complete: %s\n", why->msg, when, x ? now : "unknown", before);
        tell_state(f, c);
        tell_buffers(f, c->dev);
        fclose(f);
        tell_packets(folder, c, x, launch);
        if (p)
            report_stream(folder, p->base.s);
    }
    err_set(&c->fault, -EIO, "%s, while %s%s%s%s%s", why->msg, when, x ? "; running: " : "", now,
            folder[0] ? "; details in " : "", folder);
}
