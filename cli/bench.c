/* zinc bench: how fast, and how far from the roof. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "engine/roof.h"

enum { MAX_ROWS = 64, MAX_REPS = 100 };

static struct {
    const char *p, *n, *d;
    uint32_t reps;
    bool startup, json, no_roof, profile;
} args = { .reps = 3 };

static const struct opt opts[] = {
    OPT("prompt", 'p', OPT_STR, &args.p, "N,..", "prompt lengths to evaluate (default: 512; 0: none)"),
    OPT("generate", 'n', OPT_STR, &args.n, "N,..", "numbers of tokens to generate (default: 128; 0: none)"),
    OPT("depth", 'd', OPT_STR, &args.d, "N,..", "generate after so many tokens of context (default: 0)"),
    OPT("reps", 'r', OPT_U32, &args.reps, "N", "repetitions of each measurement (default: 3)"),
    OPT("startup", 0, OPT_FLAG, &args.startup, NULL, "also measure opening the model and its first token"),
    OPT("profile", 0, OPT_FLAG, &args.profile, NULL, "where the time goes, by kernel; launches then run one by one, slower"),
    OPT("no-roof", 0, OPT_FLAG, &args.no_roof, NULL, "do not measure the memory roof"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object"),
    { 0 },
};

struct row {
    char name[48];
    uint32_t n, depth, n_reps;
    bool prompt, startup;
    double tps[MAX_REPS], gbs[MAX_REPS]; /* startup: seconds, first token's seconds */
    struct engine_stats host;            /* summed over the repetitions             */
};

struct bench {
    struct engine *eng;
    struct session *s;
    struct roof *roof;      /* of the host's memory */
    double gpu_roof;        /* of the tier's own memory, GB/s; 0: it has none or was not asked */
    struct row row[MAX_ROWS];
    uint32_t n_rows;
    int32_t *tok; /* [n_ctx] any tokens */
    struct progress bar;
};

static double mean(const double *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return n ? sum / n : 0;
}

static double deviation(const double *v, uint32_t n)
{
    double m = mean(v, n), sq = 0;
    for (uint32_t i = 0; i < n; i++)
        sq += (v[i] - m) * (v[i] - m);
    return n > 1 ? sqrt(sq / (n - 1)) : 0;
}

static double roof_gbs(const struct bench *b)
{
    return b->roof ? roof_best(b->roof) : b->gpu_roof;
}

static double share(const struct bench *b, double gbs)
{
    return roof_gbs(b) > 0 ? 100 * gbs / roof_gbs(b) : 0;
}

/* ---- what to measure ---- */

static int parse_list(const char *flag, const char *text, uint32_t *v, uint32_t *n)
{
    *n = 0;
    for (const char *p = text;;) {
        char *end;
        long x = strtol(p, &end, 10);
        if (end == p || x < 0 || x > 100000000 || (*end && *end != ',') || *n == MAX_ROWS / 4)
            return usage_error("%s: '%s' is not a list of numbers like 512,4096", flag, text);
        v[(*n)++] = (uint32_t)x;
        if (!*end)
            return ARGS_RUN;
        p = end + 1;
    }
}

static int add_row(struct bench *b, bool prompt, uint32_t n, uint32_t depth)
{
    if (!n)
        return ARGS_RUN;
    if (b->n_rows == MAX_ROWS)
        return usage_error("more than %d measurements", MAX_ROWS);
    struct row *r = &b->row[b->n_rows++];
    r->prompt = prompt;
    r->n = n;
    r->depth = depth;
    if (depth)
        snprintf(r->name, sizeof r->name, "%s%u@d%u", prompt ? "pp" : "tg", n, depth);
    else
        snprintf(r->name, sizeof r->name, "%s%u", prompt ? "pp" : "tg", n);
    return ARGS_RUN;
}

static int plan_rows(struct bench *b)
{
    uint32_t p[MAX_ROWS], n[MAX_ROWS], d[MAX_ROWS], np, nn, nd;
    int rc;
    if ((rc = parse_list("-p", args.p ? args.p : "512", p, &np)) != ARGS_RUN ||
        (rc = parse_list("-n", args.n ? args.n : "128", n, &nn)) != ARGS_RUN ||
        (rc = parse_list("-d", args.d ? args.d : "0", d, &nd)) != ARGS_RUN)
        return rc;
    if (args.reps < 1 || args.reps > MAX_REPS)
        return usage_error("-r: expected 1 to %d repetitions", MAX_REPS);
    for (uint32_t i = 0; i < np && rc == ARGS_RUN; i++)
        rc = add_row(b, true, p[i], 0);
    for (uint32_t j = 0; j < nd && rc == ARGS_RUN; j++)
        for (uint32_t i = 0; i < nn && rc == ARGS_RUN; i++)
            rc = add_row(b, false, n[i], d[j]);
    uint32_t need = 16;
    for (uint32_t i = 0; i < b->n_rows; i++) /* recurrent models go on from repetition to repetition */
        need = MAX(need, b->row[i].depth + b->row[i].n * (b->row[i].prompt ? 1 : args.reps + 1));
    if (!cli_model.o.n_ctx)
        cli_model.o.n_ctx = need;
    if (cli_model.o.n_ctx < need)
        return usage_error("--ctx %u: these measurements need %u", cli_model.o.n_ctx, need);
    return rc;
}

/* ---- measuring ---- */

/* Evaluates n tokens at once or one by one; the time of the evaluations alone. */
static int measure(struct bench *b, uint32_t n, bool prompt, double *tps, double *gbs, struct engine_stats *host,
                   struct err *e)
{
    const float *logits;
    uint32_t pos = session_pos(b->s);
    struct engine_stats before = engine_stats(b->eng);
    uint64_t t0 = clock_ns();
    int rc = 0;
    if (prompt)
        rc = session_eval(b->s, b->tok + pos, n, &logits, e);
    for (uint32_t i = 0; i < n && !prompt && !rc; i++)
        rc = session_eval(b->s, b->tok + pos + i, 1, &logits, e);
    double s = (double)(clock_ns() - t0) * 1e-9;
    *tps = n / s;
    struct engine_stats after = engine_stats(b->eng);
    *gbs = (double)(after.bytes - before.bytes) * 1e-9 / s;
    if (host) {
        host->steps += after.steps - before.steps;
        host->host_ns += after.host_ns - before.host_ns;
        host->words += after.words - before.words;
        host->host_bytes += after.host_bytes - before.host_bytes;
    }
    return rc;
}

/* ---- profile ---- */

enum { MAX_LAUNCHES = 16384, MAX_KERNELS = 128 };

struct kernel_sum {
    const char *name;
    uint64_t ns, bytes;
    uint32_t n;
};

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct kernel_sum *)a)->ns, y = ((const struct kernel_sum *)b)->ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

static uint32_t sum_launches(const struct engine_launch *l, uint32_t n, struct kernel_sum *k, uint32_t n_kernels)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = 0;
        while (j < n_kernels && strcmp(k[j].name, l[i].name) != 0)
            j++;
        if (j == MAX_KERNELS)
            continue;
        if (j == n_kernels)
            k[n_kernels++] = (struct kernel_sum){ .name = l[i].name };
        k[j].ns += l[i].ns;
        k[j].bytes += l[i].bytes;
        k[j].n++;
    }
    return n_kernels;
}

/* One step of a prompt (the last chunk of it), or the mean of a few tokens. */
static int profile_row(struct bench *b, const struct row *r, struct err *e)
{
    struct engine_launch *l = calloc(MAX_LAUNCHES, sizeof *l);
    struct kernel_sum k[MAX_KERNELS];
    uint32_t steps = r->prompt ? 1 : MIN(r->n, 16u), n_kernels = 0, n = 0;
    uint64_t total = 0;
    double tps, gbs;
    int rc = l ? 0 : err_set(e, -ENOMEM, "bench: out of memory");
    if (!rc && r->prompt)
        session_reset(b->s);
    for (uint32_t i = 0; i < steps && !rc; i++) {
        rc = measure(b, r->prompt ? r->n : 1, r->prompt, &tps, &gbs, NULL, e);
        n = engine_trace(b->eng, l, MAX_LAUNCHES);
        n_kernels = sum_launches(l, n, k, n_kernels);
    }
    free(l);
    if (rc)
        return rc;
    if (!n) {
        printf("%s: the %s tier has no time stamps\n", r->name, engine_info(b->eng)->tier);
        return 0;
    }
    qsort(k, n_kernels, sizeof *k, by_time);
    for (uint32_t j = 0; j < n_kernels; j++)
        total += k[j].ns;
    printf("%s: %u launches a step, %.1f us by time stamps%s\n", r->name, n, (double)total * 1e-3 / steps,
           r->prompt ? " (the last step of the prompt)" : "");
    printf("  %-28s %7s %12s %10s %7s %10s %6s\n", "kernel", "calls", "us a step", "us a call", "share", "GB/s", "roof");
    for (uint32_t j = 0; j < n_kernels; j++) {
        double us = (double)k[j].ns * 1e-3, g = us > 0 ? (double)k[j].bytes * 1e-3 / us : 0;
        printf("  %-28s %7u %12.1f %10.2f %6.1f%% %10.1f %5.1f%%\n", k[j].name, k[j].n / steps, us / steps, us / k[j].n,
               100 * us / ((double)total * 1e-3), g, share(b, g));
    }
    return 0;
}

static void measure_gpu_roof(struct bench *b)
{
    double gbs;
    if (!engine_roof(b->eng, &gbs, NULL))
        b->gpu_roof = MAX(b->gpu_roof, gbs);
}

static int measure_row(struct bench *b, struct row *r, struct err *e)
{
    double tps, gbs;
    int rc = 0;
    session_reset(b->s);
    if (r->depth) {
        session_set_progress(b->s, cli_model.quiet ? NULL : &b->bar);
        rc = session_eval(b->s, b->tok, r->depth, NULL, e);
        session_set_progress(b->s, NULL);
    }
    if (!rc) /* warm up: caches, clocks, pages */
        rc = measure(b, r->prompt ? MIN(r->n, 64u) : MIN(r->n, 4u), r->prompt, &tps, &gbs, NULL, e);
    if (!rc && args.profile)
        return profile_row(b, r, e);
    for (uint32_t i = 0; i < args.reps && !rc; i++) {
        if (b->roof)
            roof_measure(b->roof);
        else if (b->gpu_roof > 0)
            measure_gpu_roof(b);
        if (session_truncate(b->s, r->depth, NULL)) {
            /* recurrent: what is behind stays, the depth grows a little */
        }
        rc = measure(b, r->n, r->prompt, &r->tps[i], &r->gbs[i], &r->host, e);
        r->n_reps++;
        if (!rc && *cli_catch_interrupt())
            rc = err_set(e, -ECANCELED, "bench: interrupted");
    }
    return rc;
}

/* Opening and the first token, each time from nothing but the file's pages in memory. */
static int measure_startup(struct bench *b, struct err *e)
{
    struct row *r = &b->row[b->n_rows++];
    snprintf(r->name, sizeof r->name, "startup");
    r->startup = true;
    for (uint32_t i = 0; i < args.reps; i++) {
        struct engine *eng;
        struct session *s;
        const float *logits;
        int32_t tok = 0;
        uint64_t t0 = clock_ns();
        int rc = engine_open(&cli_model.o, &eng, e);
        if (rc)
            return rc;
        r->tps[i] = (double)(clock_ns() - t0) * 1e-9;
        if (!(rc = session_create(eng, &s, e))) {
            rc = session_eval(s, &tok, 1, &logits, e);
            r->gbs[i] = (double)(clock_ns() - t0) * 1e-9;
            session_destroy(s);
        }
        engine_close(eng);
        if (rc)
            return rc;
        r->n_reps++;
    }
    return 0;
}

/* ---- reporting ---- */

static double per_step(const struct row *r, uint64_t sum)
{
    return r->host.steps ? (double)sum / (double)r->host.steps : 0;
}

static double host_us(const struct row *r)
{
    return r->host.host_bytes ? per_step(r, r->host.host_ns) * 1e-3 : 0; /* else submitting is evaluating */
}

static void print_text(const struct bench *b)
{
    const struct engine_info *in = engine_info(b->eng);
    char w[32];
    printf("%s (%s, %s, weights %s) on %s%s, %s, context %u\n", in->label, in->family, in->weights,
           cli_bytes(in->weight_bytes, w), in->tier, in->exact ? ":exact" : "", in->device, in->n_ctx);
    if (b->roof)
        printf("roof: %.2f GB/s, the best of all readings of %s by %u threads\n", roof_best(b->roof),
               cli_bytes(roof_bytes(b->roof), w), roof_threads(b->roof));
    else if (b->gpu_roof > 0)
        printf("roof: %.0f GB/s, the best of all readings of its memory\n", b->gpu_roof);
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const struct row *r = &b->row[i];
        double g = mean(r->gbs, r->n_reps);
        if (r->startup)
            printf("%-16s opened in %.3f s ± %.3f, first token after %.3f s ± %.3f\n", r->name, mean(r->tps, r->n_reps),
                   deviation(r->tps, r->n_reps), g, deviation(r->gbs, r->n_reps));
        else
            printf("%-16s %10.2f ± %.2f tok/s  %8.2f GB/s%s", r->name, mean(r->tps, r->n_reps),
                   deviation(r->tps, r->n_reps), g, roof_gbs(b) > 0 ? "" : "\n");
        if (!r->startup && roof_gbs(b) > 0)
            printf("  %5.1f %% of the roof\n", share(b, g));
        if (r->host.host_bytes)
            printf("%16s host: %.2f us, %.0f dwords, %.0f bytes written for each step\n", "", host_us(r),
                   per_step(r, r->host.words), per_step(r, r->host.host_bytes));
    }
}

static void print_json(const struct bench *b)
{
    const struct engine_info *in = engine_info(b->eng);
    json_t *rows = json_array();
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const struct row *r = &b->row[i];
        double m = mean(r->tps, r->n_reps), d = deviation(r->tps, r->n_reps), g = mean(r->gbs, r->n_reps);
        json_array_append_new(rows, r->startup ? json_pack("{s:s, s:f, s:f, s:f, s:f}", "test", r->name, "open_s", m,
                                                           "open_s_spread", d, "first_token_s", g, "first_token_s_spread",
                                                           deviation(r->gbs, r->n_reps))
                                               : json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "test",
                                                           r->name, "n", r->n, "depth", r->depth, "tps", m, "tps_spread", d, "gbs", g,
                                                           "roof_percent", share(b, g), "host_us", host_us(r), "host_dwords",
                                                           per_step(r, r->host.words), "host_bytes",
                                                           per_step(r, r->host.host_bytes)));
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:i, s:i, s:f, s:o}", "model", in->label, "family", in->family,
                          "weights", in->weights, "tier", in->tier, "exact", in->exact, "device", in->device, "context",
                          in->n_ctx, "repetitions", args.reps, "roof_gbs", roof_gbs(b), "rows",
                          rows);
    if (o)
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(o);
}

static int bench_all(struct bench *b)
{
    struct err e = { 0 };
    int rc = plan_rows(b);
    if (rc != ARGS_RUN)
        return rc;
    cli_model.o.trace = args.profile;
    if ((rc = cli_open_vocab(&b->eng)) || (rc = cli_start(b->eng)))
        return rc;
    const struct engine_info *in = engine_info(b->eng);
    cli_catch_interrupt();
    b->tok = calloc(in->n_ctx, sizeof *b->tok);
    b->bar = progress_terminal();
    if (!b->tok)
        return usage_error("out of memory");
    for (uint32_t i = 0, x = 1; i < in->n_ctx; i++) /* any tokens, the same every time */
        b->tok[i] = (int32_t)((x = x * 1664525u + 1013904223u) >> 8) % (int32_t)in->n_vocab;
    if ((rc = session_create(b->eng, &b->s, &e)))
        return cli_fail(&e);
    session_set_cancel(b->s, cli_catch_interrupt());
    if (!args.no_roof && !engine_roof(b->eng, &b->gpu_roof, NULL))
        args.no_roof = true;
    if (!args.no_roof && roof_create(cli_model.o.threads > 0 ? (uint32_t)cli_model.o.threads : 0, &b->roof, &e))
        fprintf(stderr, "zinc: %s\n", e.msg); /* the speeds stand without it */
    for (int i = 0; i < 3 && b->roof; i++)
        roof_measure(b->roof);
    uint32_t n = b->n_rows;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = measure_row(b, &b->row[i], &e);
    if (!rc && args.startup)
        rc = measure_startup(b, &e);
    if (rc)
        return cli_fail(&e);
    if (args.json)
        print_json(b);
    else if (!args.profile)
        print_text(b);
    return EXIT_OK;
}

static int bench_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    static struct bench b;
    int rc = bench_all(&b);
    roof_destroy(b.roof);
    session_destroy(b.s);
    engine_close(b.eng);
    free(b.tok);
    return rc;
}

static const struct opt_group groups[] = { { "measurements", opts }, { "model and hardware", cli_model_opts }, { 0 } };

const struct command cmd_bench = {
    .name = "bench",
    .summary = "how fast, and how far from the roof",
    .usage = "-m MODEL.gguf [-p 512,4096] [-n 128] [-d 0,32768] [-r 3] [options]",
    .about =
        "Measures prompt evaluation (ppN), generation (tgN) and generation at a depth of context (tgN@dN): tokens per\n"
        "second, mean and standard deviation over the repetitions, the bytes that the stream moves per second, and\n"
        "their share of the memory roof, which is measured in between. The tokens are any tokens; sampling is not\n"
        "part of it.\n"
        "\n"
        "  zinc bench -m model.gguf -p 512 -n 128 -d 0,4096",
    .groups = groups,
    .main = bench_main,
};
