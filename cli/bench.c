/* zinc bench: how fast, and what share of the measured bandwidth and compute peak that is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "cli/bench.h"

static struct {
    const char *p, *n, *d, *report, *streams;
    uint32_t every_ms;
    uint32_t reps;
    bool startup, json, no_roof, profile;
} args = { .reps = 3 };

static const struct opt opts[] = {
    OPT("prompt", 'p', OPT_STR, &args.p, "N,..", "prompt lengths to process (default: 512; 0: none)"),
    OPT("generate", 'n', OPT_STR, &args.n, "N,..", "numbers of tokens to generate (default: 128; 0: none)"),
    OPT("depth", 'd', OPT_STR, &args.d, "N,..", "context, in tokens, after which to generate (default: 0)"),
    OPT("streams", 0, OPT_STR, &args.streams, "N,..", "instead: this many answers at the same time, each of -p and -n tokens"),
    OPT_RANGE(0, 60000, "every", 0, OPT_U32, &args.every_ms, "MS", "with --streams: requests arrive MS apart (default: 0, all at once)"),
    CLI_BATCH_VARIANT,
    OPT("reps", 'r', OPT_U32, &args.reps, "N", "repetitions of each measurement (default: 3)"),
    OPT("startup", 0, OPT_FLAG, &args.startup, NULL, "also measure opening the model and its first token (vulkan: with a cold and a warm pipeline cache)"),
    OPT("profile", 0, OPT_FLAG, &args.profile, NULL, "time by kernel; launches then run one at a time, which is slower"),
    OPT("no-roof", 0, OPT_FLAG, &args.no_roof, NULL, "do not measure memory bandwidth and compute peak"),
    OPT("report", 0, OPT_STR, &args.report, "FILE",
        "also profile, validate the results, and write everything a maintainer would ask for into one file"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object"),
    { 0 },
};

/* ---- what to measure ---- */

enum { STARTUP_ROWS = 2 }; /* kept free for measure_startups */

static int parse_list(const char *flag, const char *text, uint32_t *v, uint32_t *n)
{
    *n = 0;
    for (const char *p = text;;) {
        char *end;
        long x = strtol(p, &end, 10);
        if (end == p || x < 0 || x > 100000000 || (*end && *end != ',') || *n == BENCH_ROWS / 4)
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
    uint32_t most = BENCH_ROWS - (args.startup ? STARTUP_ROWS : 0);
    if (b->n_rows == most)
        return usage_error("more than %u measurements", most);
    struct bench_row *r = &b->row[b->n_rows++];
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
    uint32_t p[BENCH_ROWS], n[BENCH_ROWS], d[BENCH_ROWS], np, nn, nd;
    int rc;
    if ((rc = parse_list("-p", args.p ? args.p : "512", p, &np)) != ARGS_RUN ||
        (rc = parse_list("-n", args.n ? args.n : "128", n, &nn)) != ARGS_RUN ||
        (rc = parse_list("-d", args.d ? args.d : "0", d, &nd)) != ARGS_RUN)
        return rc;
    if (args.reps < 1 || args.reps > BENCH_REPS)
        return usage_error("-r: expected 1 to %d repetitions", BENCH_REPS);
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

int bench_measure(struct bench *b, uint32_t n, bool prompt, double *tps, double *gbs, struct engine_stats *host,
                  struct err *e)
{
    const float *logits;
    uint32_t pos = session_pos(b->s);
    struct engine_stats before = engine_stats(b->eng);
    uint64_t t0 = clock_ns();
    int rc = 0;
    if (prompt)
        rc = session_eval(b->s, b->tok + pos, n, &logits, e);
    else if (!engine_info(b->eng)->pooling)
        rc = session_follow(b->s, b->tok[pos], n, NULL, e);
    else
        for (uint32_t i = 0; i < n && !rc; i++)
            rc = session_eval(b->s, b->tok + pos + i, 1, &logits, e);
    double s = (double)(clock_ns() - t0) * 1e-9;
    *tps = n / s;
    struct engine_stats after = engine_stats(b->eng);
    *gbs = (double)(after.bytes - before.bytes) * 1e-9 / s;
    if (host) {
        host->steps += after.steps - before.steps;
        host->flops += after.flops - before.flops;
        host->host_ns += after.host_ns - before.host_ns;
        host->words += after.words - before.words;
        host->host_bytes += after.host_bytes - before.host_bytes;
    }
    return rc;
}

static void measure_ops_roof(struct bench *b)
{
    double gops;
    if (!engine_roof_ops(b->eng, &gops, NULL))
        b->ops_roof = MAX(b->ops_roof, gops);
}

static void measure_gpu_roof(struct bench *b)
{
    double gbs;
    if (!engine_roof(b->eng, &gbs, NULL))
        b->gpu_roof = MAX(b->gpu_roof, gbs);
}

int bench_prepare(struct bench *b, const struct bench_row *r, struct err *e)
{
    double tps, gbs;
    int rc = 0;
    session_reset(b->s);
    if (r->depth) {
        session_set_progress(b->s, cli_model.quiet ? NULL : &b->bar);
        rc = session_eval(b->s, b->tok, r->depth, NULL, e);
        session_set_progress(b->s, NULL);
    }
    return rc ? rc : bench_measure(b, r->prompt ? MIN(r->n, 64u) : MIN(r->n, 4u), r->prompt, &tps, &gbs, NULL, e);
}

static int measure_row(struct bench *b, struct bench_row *r, struct err *e)
{
    int rc = bench_prepare(b, r, e);
    for (uint32_t i = 0; i < b->reps && !rc; i++) {
        if (r->prompt && b->ops_roof > 0)
            measure_ops_roof(b);
        else if (b->roof)
            roof_measure(b->roof);
        else if (b->gpu_roof > 0)
            measure_gpu_roof(b);
        if (session_truncate(b->s, r->depth, NULL)) {
            /* recurrent: what is behind stays, the depth grows a little */
        }
        rc = bench_measure(b, r->n, r->prompt, &r->tps[i], &r->gbs[i], &r->host, e);
        r->n_reps++;
        if (!rc && flag_is_set(cli_catch_interrupt()))
            rc = err_set(e, -ECANCELED, "bench: interrupted");
    }
    return rc;
}

/* Opening and the first token, each time from nothing but the file's pages in memory and what `fresh` leaves. */
static int measure_startup(struct bench *b, const char *name, int fresh, struct err *e)
{
    CHECK(b->n_rows < BENCH_ROWS);
    struct bench_row *r = &b->row[b->n_rows++];
    struct engine_opts o = cli_model.o;
    snprintf(r->name, sizeof r->name, "%s", name);
    r->startup = true;
    o.fresh = fresh;
    for (uint32_t i = 0; i < b->reps; i++) {
        struct engine *eng;
        struct session *s;
        const float *logits;
        int32_t tok = 0;
        uint64_t t0 = clock_ns();
        int rc = engine_open(&o, &eng, e);
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

/* A driver that compiles kernels keeps them: then it makes a difference whether a program starts for the first time. */
static int measure_startups(struct bench *b, struct err *e)
{
    bool compiles = engine_info(b->eng)->compiles;
    int rc = compiles ? measure_startup(b, "startup cold", 2, e) : 0;
    return rc ? rc : measure_startup(b, compiles ? "startup warm" : "startup", 1, e);
}

void bench_close(struct bench *b)
{
    session_destroy(b->s);
    engine_close(b->eng);
    b->s = NULL;
    b->eng = NULL;
}

int bench_open(struct bench *b, bool trace)
{
    struct err e = { 0 };
    int rc;
    cli_model.o.trace = trace;
    if ((rc = cli_open_vocab(&b->eng)) || (rc = cli_start(b->eng)))
        return rc;
    const struct engine_info *in = engine_info(b->eng);
    uint32_t n = in->n_ctx + BENCH_STREAMS; /* each stream begins a token later */
    if (!b->tok && !(b->tok = calloc(n, sizeof *b->tok)))
        return usage_error("out of memory");
    for (uint32_t i = 0, x = 1; i < n; i++) /* any tokens, the same every time */
        b->tok[i] = (int32_t)((x = x * 1664525u + 1013904223u) >> 8) % (int32_t)in->n_vocab;
    if (session_create(b->eng, &b->s, &e))
        return cli_fail(&e);
    session_set_cancel(b->s, cli_catch_interrupt());
    return 0;
}

static void open_roof(struct bench *b)
{
    struct err e = { 0 };
    int rc = args.no_roof ? 0 : engine_roof(b->eng, &b->gpu_roof, &e);
    if (rc && rc != -ENOTSUP)
        fprintf(stderr, "zinc: memory bandwidth could not be measured: %s\n", e.msg);
    if (!args.no_roof)
        measure_ops_roof(b);
    if (args.no_roof || rc != -ENOTSUP) /* the host's memory is no roof over a device's */
        return;
    if (roof_create(cli_model.o.threads > 0 ? (uint32_t)cli_model.o.threads : 0, &b->roof, &e))
        fprintf(stderr, "zinc: %s\n", e.msg); /* the speeds stand without it */
    for (int i = 0; i < 3 && b->roof; i++)
        roof_measure(b->roof);
}

static void print_all(const struct bench *b)
{
    if (args.json) {
        json_t *o = bench_json(b);
        if (o)
            json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(o);
    } else if (!args.profile) {
        bench_print(b);
    }
}

/* Measures, or profiles, the rows that were added. */
static int bench_all(struct bench *b)
{
    struct err e = { 0 };
    int rc;
    b->reps = args.reps;
    b->bar = progress_terminal();
    cli_catch_interrupt();
    if ((rc = bench_open(b, args.profile)))
        return rc;
    open_roof(b);
    for (uint32_t i = 0, n = b->n_rows; i < n && !rc; i++) {
        rc = args.profile ? bench_profile_row(b, &b->row[i], &e) : measure_row(b, &b->row[i], &e);
        if (!rc && args.profile && !args.json)
            bench_profile_print(b, &b->row[i]);
    }
    if (!rc && args.startup)
        rc = measure_startups(b, &e);
    if (rc)
        return cli_fail(&e);
    print_all(b);
    fflush(stdout);
    return args.report ? bench_report(b, args.report) : EXIT_OK;
}

/* One number for each stream, not a list. */
static int parse_one(const char *flag, const char *text, uint32_t *v)
{
    uint32_t list[BENCH_ROWS], n;
    int rc = parse_list(flag, text, list, &n);
    if (rc == ARGS_RUN && (n != 1 || !list[0]))
        return usage_error("%s %s: with --streams, expected one number of at least 1", flag, text);
    *v = list[0];
    return rc;
}

static int profile_streams(struct bench *b, const struct bench_streams *o)
{
    for (uint32_t i = 0; i < o->n_counts; i++) {
        CHECK(b->n_rows < BENCH_ROWS);
        struct bench_row *r = &b->row[b->n_rows++];
        *r = (struct bench_row){ .n = o->n, .depth = o->p, .streams = o->count[i] };
        snprintf(r->name, sizeof r->name, "%u streams@d%u", r->streams, r->depth);
    }
    return bench_all(b);
}

static int all_streams(struct bench *b)
{
    enum { ROUND = 64 };
    struct bench_streams o = { .reps = args.reps, .every_ms = args.every_ms, .json = args.json };
    uint32_t slots = 0;
    int rc;
    if (args.d || args.startup || args.report)
        return usage_error("--streams goes with -p, -n, -r, --every, --profile and --json only: not with -d, --startup, --report");
    if (args.profile && args.every_ms)
        return usage_error("--every %u: not with --profile, whose streams all stand at one position", args.every_ms);
    if ((rc = parse_list("--streams", args.streams, o.count, &o.n_counts)) != ARGS_RUN ||
        (rc = parse_one("-p", args.p ? args.p : "512", &o.p)) != ARGS_RUN ||
        (rc = parse_one("-n", args.n ? args.n : "128", &o.n)) != ARGS_RUN)
        return rc;
    if (o.reps < 1 || o.reps > BENCH_REPS)
        return usage_error("-r: expected 1 to %d repetitions", BENCH_REPS);
    for (uint32_t i = 0; i < o.n_counts; i++) {
        if (o.count[i] < 1 || o.count[i] > BENCH_STREAMS)
            return usage_error("--streams %s: expected 1 to %d streams, not %u", args.streams, BENCH_STREAMS, o.count[i]);
        slots = MAX(slots, o.count[i]);
    }
    uint32_t need = o.p + o.n + (args.profile ? BENCH_WARM : 0);
    if (cli_model.o.n_ctx && cli_model.o.n_ctx < need)
        return usage_error("--ctx %u: these measurements need %u", cli_model.o.n_ctx, need);
    if (!cli_model.o.n_ctx)
        cli_model.o.n_ctx = (need + ROUND - 1) / ROUND * ROUND;
    cli_model.o.n_slots = cli_model.o.score_rows = slots;
    return args.profile ? profile_streams(b, &o) : bench_streams(&o);
}

static int all_rows(struct bench *b)
{
    int rc = plan_rows(b);
    if (rc != ARGS_RUN)
        return rc;
    if (args.report && args.profile)
        return usage_error("--report profiles by itself, after measuring: not with --profile");
    if (args.every_ms)
        return usage_error("--every %u: it needs --streams", args.every_ms);
    if (cli_model.o.batch_variant)
        return usage_error("--batch-variant: it needs --streams");
    return bench_all(b);
}

static int bench_main(int argc, char **argv)
{
    static struct bench b;
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    int rc = args.streams ? all_streams(&b) : all_rows(&b);
    roof_destroy(b.roof);
    bench_close(&b);
    for (uint32_t i = 0; i < b.n_rows; i++)
        free(b.row[i].profile);
    free(b.tok);
    return rc;
}

static const struct opt_group groups[] = { { "measurements", opts }, { "model and hardware", cli_model_opts }, { 0 } };

const struct command cmd_bench = {
    .name = "bench",
    .summary = "how fast it runs, against what the hardware can do",
    .usage = "MODEL.gguf [-p 512,4096] [-n 128] [-d 0,32768] [-r 3] [options]",
    .about =
        "Measures prompt processing (ppN), generation (tgN) and generation after a context of D tokens\n"
        "(tgN@dD): tokens per second, mean and standard deviation over the repetitions. Generation is limited\n"
        "by memory: beside it stand the bytes read per second, and their percentage of the memory bandwidth\n"
        "measured in the same run. Prompt processing is limited by arithmetic: beside it stand operations per\n"
        "second and, on the cpu tier, their percentage of the measured peak of its int8 products. The tokens\n"
        "are arbitrary, and sampling is not included.\n"
        "\n"
        "--streams measures answers generated at the same time, as zinc serve does but without HTTP: N requests\n"
        "arrive together (or --every MS apart), decode greedily and do not end early. It prints the generated tokens per second of\n"
        "all streams over the whole run, and over the time when all of them are generating; and percentiles of\n"
        "the time to the first token and of the time between two tokens. With --profile it shows instead where\n"
        "the time of a step goes that makes a token of each of N streams, all at position -p.\n"
        "\n"
        "  zinc bench model.gguf -p 512 -n 128 -d 0,4096\n"
        "  zinc bench model.gguf --streams 1,8,32,64 -p 512 -n 128\n"
        "  zinc bench model.gguf --tier vulkan --report card.json",
    .groups = groups,
    .operands = cli_model_operand,
    .main = bench_main,
};
