/* A failure: one line for the user, and a folder with what a developer asks for next. */
#include <errno.h>
#include <string.h>

#include "cuda/cuda.h"
#include "rt/report.h"

void cuda_report(struct cuda *c, cu_result r, const struct replay_plan *p, uint32_t cmd, const char *when)
{
    char folder[200], at[96] = "";
    if (c->r.fault.msg[0])
        return; /* the first one tells */
    if (p)
        replay_where(p->base.s, cmd, at, sizeof at);
    FILE *f = report_open(folder, sizeof folder);
    if (f) {
        fprintf(f, "%s while %s%s\ndevice: %s, %s, driver for CUDA %d.%d\nsteps issued %llu, complete %u\n",
                cuda_error(c->cu, r), when, at, c->name, c->target, c->cu->version / 1000, c->cu->version % 1000 / 10,
                (unsigned long long)c->r.issued, c->done.p ? *(const uint32_t *)c->done.p : 0);
        if (p)
            cuda_plan_dump(&p->base, f);
        fclose(f);
        if (p)
            report_stream(folder, p->base.s);
    }
    err_set(&c->r.fault, -EIO, "cuda: %s while %s%s%s%s%s", cuda_error(c->cu, r), when, at,
            cmd == UINT32_MAX ? "; --tier=cuda:check names the command" : "", folder[0] ? "; details in " : "", folder);
}
