/* kernel_launches: which kernels a saved command stream launches on a GPU, how many work-groups, how much shared memory. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stdout.h"
#include "rt/dispatch.h"

static const char usage[] =
    "usage: kernel_launches [--cores N] [--rows N] FILE.zstream\n"
    "Prints the launches of one step, a line per kernel and shape: how often, work-groups, bytes of shared memory.\n"
    "\n"
    "  --cores N   compute units or multiprocessors (64, a Radeon AI PRO R9700)\n"
    "  --rows N    the step's rows at most (1)\n"
    "\n"
    "  zinc graph -m model.gguf --save model.zstream && kernel_launches model.zstream\n";

struct line {
    const struct dispatch *d;
    uint32_t n;
};

static int by_kernel(const void *a, const void *b)
{
    const struct dispatch *x = ((const struct line *)a)->d, *y = ((const struct line *)b)->d;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static int print_launches(const struct dispatch_plan *p)
{
    struct line *lines = calloc(p->n, sizeof *lines);
    uint32_t n = 0;
    if (!lines)
        return 1;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct dispatch *d = &p->d[i];
        uint32_t k = 0;
        while (k < n && (lines[k].d->kernel != d->kernel || lines[k].d->shared != d->shared ||
                         memcmp(lines[k].d->grid, d->grid, sizeof d->grid) != 0))
            k++;
        lines[k].d = d;
        lines[k].n++;
        n = k == n ? n + 1 : n;
    }
    qsort(lines, n, sizeof *lines, by_kernel);
    printf("%-26s %7s %16s %8s\n", "kernel", "times", "groups", "shared");
    for (uint32_t k = 0; k < n; k++) {
        const struct dispatch *d = lines[k].d;
        char grid[40];
        snprintf(grid, sizeof grid, "%ux%ux%u", d->grid[0], d->grid[1], d->grid[2]);
        printf("%-26s %7u %16s %8u\n", kernel_infos[d->kernel].name, lines[k].n, grid, d->shared);
    }
    printf("%-26s %7u\n", "all", p->n);
    free(lines);
    return 0;
}

static bool number(const char *text, uint32_t *out)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    *out = (uint32_t)v;
    return *text >= '0' && *text <= '9' && !*end && v > 0 && v <= 1u << 20;
}

static int run_program(int argc, char **argv)
{
    static const struct option options[] = {
        { "cores", required_argument, NULL, 'c' },
        { "rows", required_argument, NULL, 'r' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct dispatch_target t = { .n_cores = 64, .shared_max = 64 << 10, .shared_core = 64 << 10 };
    uint32_t rows = 1;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            return 0;
        }
        if ((c != 'c' && c != 'r') || !number(optarg, c == 'c' ? &t.n_cores : &rows)) {
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    struct stream *s = NULL;
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    int rc = stream_load(argv[optind], &s, &e);
    if (rc == 0 && rows > s->h.row_cap)
        rc = err_set(&e, -EINVAL, "%s: takes steps of %u rows at most, --rows=%u", argv[optind], s->h.row_cap, rows);
    if (rc == 0)
        rc = dispatch_build(s, &t, rows, 0, &p, &e);
    rc = rc == 0 ? print_launches(p) : 1;
    if (e.msg[0])
        fprintf(stderr, "kernel_launches: %s\n", e.msg);
    dispatch_free(p);
    stream_free(s);
    return rc;
}

int main(int argc, char **argv)
{
    return stdout_finish("kernel_launches", run_program(argc, argv));
}
