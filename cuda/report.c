/* The story of a failure: one line for the user, and a folder with what a developer asks for next. */
#include <errno.h>
#include <string.h>

#include "cuda/cuda.h"
#include "rt/report.h"

void cuda_report(struct cuda *c, cu_result r, const struct cuda_plan *p, uint32_t cmd, const char *when)
{
    char folder[200], at[96] = "";
    if (c->fault.msg[0])
        return; /* the first one tells */
    if (p && cmd != UINT32_MAX) {
        const struct cmd *k = &p->base.s->cmds[cmd];
        int layer = k->layer == CMD_NO_LAYER ? -1 : (int)k->layer;
        snprintf(at, sizeof at, " in command %u (%s%s%.0d)", cmd, cmd_name(k->op), layer < 0 ? "" : ", layer ",
                 layer < 0 ? 0 : layer);
    }
    FILE *f = report_open(folder, sizeof folder);
    if (f) {
        fprintf(f, "%s while %s%s\ndevice: %s, %s, driver for CUDA %d.%d\nsteps issued %llu, complete %u\n",
                cuda_error(c->cu, r), when, at, c->name, c->target, c->cu->version / 1000, c->cu->version % 1000 / 10,
                (unsigned long long)c->issued, c->done.p ? *(const uint32_t *)c->done.p : 0);
        if (p)
            cuda_plan_dump(&p->base, f);
        fclose(f);
        if (p)
            report_stream(folder, p->base.s);
    }
    err_set(&c->fault, -EIO, "cuda: %s while %s%s%s%s%s", cuda_error(c->cu, r), when, at,
            cmd == UINT32_MAX ? "; --tier=cuda:check names the command" : "", folder[0] ? "; details in " : "", folder);
}
