/* The story of a failure: one line for the user, and a folder with what a developer asks for next. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cuda/cuda.h"

/* ./zinc-report-DATE-PID; in $TMPDIR or /tmp where the current folder cannot be written. */
static FILE *open_report(char *path, size_t n)
{
    char name[64];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    size_t len = strftime(name, sizeof name, "zinc-report-%Y%m%d-%H%M%S", &tm);
    snprintf(name + len, sizeof name - len, "-%d", (int)getpid());
    const char *tmp = getenv("TMPDIR"), *place[] = { ".", tmp ? tmp : "/tmp" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, n, "%s/%s", place[i], name);
        if (mkdir(path, 0755) && errno != EEXIST)
            continue;
        char file[300];
        snprintf(file, sizeof file, "%s/report.txt", path);
        FILE *f = fopen(file, "w");
        if (f)
            return f;
    }
    path[0] = 0;
    return NULL;
}

static void dump_stream(const char *folder, const struct stream *s)
{
    char file[300];
    struct err e = { 0 };
    snprintf(file, sizeof file, "%s/stream.zstream", folder);
    stream_save(s, file, &e);
    snprintf(file, sizeof file, "%s/stream.txt", folder);
    FILE *f = fopen(file, "w");
    if (!f)
        return;
    stream_dump(f, s);
    fclose(f);
}

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
    FILE *f = open_report(folder, sizeof folder);
    if (f) {
        fprintf(f, "%s while %s%s\ndevice: %s, %s, driver for CUDA %d.%d\nsteps issued %llu, complete %u\n",
                cuda_error(c->cu, r), when, at, c->name, c->target, c->cu->version / 1000, c->cu->version % 1000 / 10,
                (unsigned long long)c->issued, c->done.p ? *(const uint32_t *)c->done.p : 0);
        if (p)
            cuda_plan_dump(&p->base, f);
        fclose(f);
        if (p)
            dump_stream(folder, p->base.s);
    }
    err_set(&c->fault, -EIO, "cuda: %s while %s%s%s%s%s", cuda_error(c->cu, r), when, at,
            cmd == UINT32_MAX ? "; --tier=cuda:check names the command" : "", folder[0] ? "; details in " : "", folder);
}
