/* Where a measurement's time went, by kernel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "cli/bench.h"

enum { MAX_LAUNCHES = 16384 };

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct bench_kernel *)a)->ns, y = ((const struct bench_kernel *)b)->ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void sum_launches(struct bench_profile *p, const struct engine_launch *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < p->n_kernels && strcmp(p->kernel[j].name, l[i].name) != 0)
            j++;
        if (j == BENCH_KERNELS)
            continue;
        if (j == p->n_kernels)
            p->kernel[p->n_kernels++] = (struct bench_kernel){ .name = l[i].name };
        p->kernel[j].ns += l[i].ns;
        p->kernel[j].bytes += l[i].bytes;
        p->kernel[j].n++;
        p->ns += l[i].ns;
    }
    p->launches = n;
}

/* Steps of a token of each of r->streams sessions, which stand at r->depth. */
static int profile_streams(struct bench *b, const struct bench_row *r, struct bench_profile *p, struct engine_launch *l,
                           struct err *e)
{
    struct session *s[BENCH_STREAMS] = { b->s };
    uint32_t n = 1;
    int rc = 0;
    session_reset(b->s);
    while (n < r->streams && !(rc = session_create(b->eng, &s[n], e)))
        n++;
    for (uint32_t i = 0; i < n && !rc; i++)
        if (!(rc = session_eval(s[i], b->tok + i, r->depth, NULL, e)) && flag_is_set(cli_catch_interrupt()))
            rc = err_set(e, -ECANCELED, "bench: interrupted");
    for (uint32_t i = 0; i < BENCH_WARM + p->steps && !rc; i++) {
        uint32_t at = 0, launches = 0;
        for (uint32_t take; at < n && !rc; at += take) {
            take = MIN(n - at, engine_info(b->eng)->n_batch);
            rc = session_eval_batch(s + at, b->tok, take, NULL, e);
            if (!rc && i >= BENCH_WARM)
                sum_launches(p, l, engine_trace(b->eng, l, MAX_LAUNCHES)), launches += p->launches;
        }
        p->launches = launches;
    }
    while (n > 1)
        session_destroy(s[--n]);
    return rc;
}

/* One step of a prompt (the last chunk of it), or the mean of a few tokens. */
int bench_profile_row(struct bench *b, struct bench_row *r, struct err *e)
{
    struct engine_launch *l = calloc(MAX_LAUNCHES, sizeof *l);
    struct bench_profile *p = r->profile = calloc(1, sizeof *p);
    double tps, gbs;
    int rc = l && p ? 0 : err_set(e, -ENOMEM, "bench: out of memory");
    if (!rc)
        p->steps = r->prompt ? 1 : MIN(r->n, 16u);
    if (!rc && !r->streams)
        rc = bench_prepare(b, r, e);
    if (!rc && r->streams)
        rc = profile_streams(b, r, p, l, e);
    if (!rc && r->prompt)
        session_reset(b->s);
    for (uint32_t i = 0; !rc && !r->streams && i < p->steps; i++) {
        rc = bench_measure(b, r->prompt ? r->n : 1, r->prompt, &tps, &gbs, NULL, e);
        if (!rc)
            sum_launches(p, l, engine_trace(b->eng, l, MAX_LAUNCHES));
    }
    free(l);
    if (!rc)
        qsort(p->kernel, p->n_kernels, sizeof *p->kernel, by_time);
    return rc;
}

static double kernel_us(const struct bench_kernel *k)
{
    return (double)k->ns * 1e-3;
}

static double kernel_gbs(const struct bench_kernel *k)
{
    return k->ns ? (double)k->bytes / (double)k->ns : 0;
}

void bench_profile_print(const struct bench *b, const struct bench_row *r)
{
    const struct bench_profile *p = r->profile;
    if (!p->launches) {
        printf("%s: the %s tier has no time stamps\n", r->name, engine_info(b->eng)->tier);
        return;
    }
    printf("%s: %u launches a step, %.1f us by time stamps%s\n", r->name, p->launches, (double)p->ns * 1e-3 / p->steps,
           r->prompt ? " (the last step of the prompt)" : "");
    printf("  %-28s %7s %12s %10s %7s %10s %6s\n", "kernel", "calls", "us a step", "us a call", "share", "GB/s", "of bw");
    for (uint32_t j = 0; j < p->n_kernels; j++) {
        const struct bench_kernel *k = &p->kernel[j];
        double us = kernel_us(k), g = kernel_gbs(k);
        printf("  %-28s %7u %12.1f %10.2f %6.1f%% %10.1f", k->name, k->n / p->steps, us / p->steps, us / k->n,
               p->ns ? 100 * us / ((double)p->ns * 1e-3) : 0, g);
        if (r->prompt)
            printf(" %6s\n", "-"); /* memory does not limit it */
        else
            printf(" %5.1f%%\n", bench_share(b, g));
    }
}

json_t *bench_profile_json(const struct bench *b, const struct bench_row *r)
{
    const struct bench_profile *p = r->profile;
    json_t *kernels = json_array();
    for (uint32_t j = 0; j < p->n_kernels; j++) {
        const struct bench_kernel *k = &p->kernel[j];
        double g = kernel_gbs(k);
        json_t *o = json_pack("{s:s, s:i, s:f, s:f, s:f}", "kernel", k->name, "calls", (int)(k->n / p->steps), "us_step",
                              kernel_us(k) / p->steps, "us_call", kernel_us(k) / k->n, "gbs", g);
        if (o && !r->prompt)
            json_object_set_new(o, "roof_percent", json_real(bench_share(b, g)));
        json_array_append_new(kernels, o);
    }
    return json_pack("{s:s, s:i, s:f, s:o}", "test", r->name, "launches", (int)p->launches, "us_step",
                     p->steps ? (double)p->ns * 1e-3 / p->steps : 0.0, "kernels", kernels);
}
