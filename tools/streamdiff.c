/* streamdiff: runs one step of a model on two tiers and compares every command's output by name.
 *
 *     streamdiff -m MODEL --a cpu --b cpu:exact [--prompt-tokens 1,2,3] [--rows N] [--stop-after CMD] [--layer L]
 *                [--tol NMSE] [--all]
 *
 * The step evaluates the last --rows tokens of the prompt (default 1), after the tokens before them. Prints the first
 * output that differs, with --all a table of all of them. Exit status 0: equal, 1: different or failed, 2: usage. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/stdout.h"
#include "engine/priv.h"
#include "engine/proof/bisect.h"

static struct {
    const char *model, *a, *b, *prompt_tokens;
    uint32_t stop_after, layer, rows, chunk, ctx;
    int threads;
    double tol;
    bool all;
} args = { .b = "cpu:exact", .a = "cpu", .prompt_tokens = "1,2,3,4", .layer = UINT32_MAX, .rows = 1, .tol = 1e-3 };

static const char usage[] =
    "usage: streamdiff -m MODEL [--a SPEC] [--b SPEC] [options]\n\n"
    "Runs one step of a model on two tiers and names the first command whose output differs.\n\n"
    "  -m, --model FILE      the model, a GGUF file\n"
    "  --a SPEC              the tier in question, NAME or NAME:WORD (default: cpu)\n"
    "  --b SPEC              the reference (default: cpu:exact)\n"
    "  --prompt-tokens IDS   the history (default: 1,2,3,4)\n"
    "  --rows N              the step evaluates the last N of them (default: 1)\n"
    "  --stop-after CMD      do not look beyond this command\n"
    "  --layer L             only this layer\n"
    "  --tol NMSE            from which an output differs (default: 1e-3)\n"
    "  --all                 a table of all outputs\n"
    "  --ctx N, --chunk N, --threads N   as in zinc run\n";

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "streamdiff: %s '%s' (streamdiff --help)\n", what, value);
    return 2;
}

static bool number(const char *text, uint32_t *out)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    *out = (uint32_t)v;
    return end != text && !*end && text[0] != '-' && v <= UINT32_MAX;
}

/* -1: go on, else the exit status. */
static int parse_args(int argc, char **argv)
{
    static const struct option long_opts[] = {
        { "model", required_argument, 0, 'm' }, { "a", required_argument, 0, 'a' },
        { "b", required_argument, 0, 'b' },     { "prompt-tokens", required_argument, 0, 'p' },
        { "rows", required_argument, 0, 'r' },  { "stop-after", required_argument, 0, 's' },
        { "layer", required_argument, 0, 'l' }, { "tol", required_argument, 0, 't' },
        { "ctx", required_argument, 0, 'c' },   { "chunk", required_argument, 0, 'k' },
        { "threads", required_argument, 0, 'j' }, { "all", no_argument, 0, 'A' },
        { "help", no_argument, 0, 'h' },        { 0 },
    };
    int o;
    while ((o = getopt_long(argc, argv, "m:h", long_opts, NULL)) != -1) {
        char *end = NULL;
        uint32_t threads = 0, *u = o == 'r'   ? &args.rows
                                  : o == 's' ? &args.stop_after
                                  : o == 'l' ? &args.layer
                                  : o == 'c' ? &args.ctx
                                  : o == 'k' ? &args.chunk
                                  : o == 'j' ? &threads
                                             : NULL;
        if (u && !number(optarg, u))
            return usage_error("not a number:", optarg);
        switch (o) {
        case 'm': args.model = optarg; break;
        case 'a': args.a = optarg; break;
        case 'b': args.b = optarg; break;
        case 'p': args.prompt_tokens = optarg; break;
        case 'j': args.threads = (int)threads; break;
        case 'A': args.all = true; break;
        case 't':
            args.tol = strtod(optarg, &end);
            if (end == optarg || *end)
                return usage_error("not a number:", optarg);
            break;
        case 'h': fputs(usage, stdout); return 0;
        case '?': return 2;
        }
    }
    if (optind < argc)
        return usage_error("unexpected argument", argv[optind]);
    return args.model ? -1 : usage_error("no model given: -m", "FILE");
}

static void print_diff(void *user, const struct diff *d)
{
    (void)user;
    char layer[16] = "-";
    if (d->layer != UINT32_MAX)
        snprintf(layer, sizeof layer, "%u", d->layer);
    printf("%-6u %-9s %-5s %-24s %5u x %-6u %-10.3g %-10.3g %s\n", d->cmd_a, d->op, layer, d->name, d->rows, d->cols,
           d->nmse, d->max_err, d->differs ? "DIFFERS" : "");
}

static int parse_ids(const char *text, int32_t **ids, uint32_t *n)
{
    *ids = calloc(strlen(text) + 1, sizeof **ids);
    *n = 0;
    for (const char *p = text; *ids && *p;) {
        char *end;
        long v = strtol(p, &end, 10);
        if (end == p || v < 0 || v > INT32_MAX || (*end && *end != ','))
            return usage_error("--prompt-tokens: not a list of ids:", text);
        (*ids)[(*n)++] = (int32_t)v;
        p = end + (*end == ',');
    }
    if (!*n || !args.rows || args.rows > *n)
        return usage_error("--rows must be 1 up to the number of --prompt-tokens:", text);
    return -1;
}

static int compare(const int32_t *ids, uint32_t n, struct diff *first, struct err *e)
{
    struct engine_opts o = { .path = args.model,
                             .tier = args.a,
                             .n_ctx = args.ctx ? args.ctx : MAX(n, 256u),
                             .chunk = args.chunk,
                             .threads = args.threads };
    struct engine *ea = NULL, *eb = NULL;
    struct session *a = NULL, *b = NULL;
    struct bisect_opts bo = { .tok = ids,
                              .n_before = n - args.rows,
                              .n_rows = args.rows,
                              .tol = args.tol,
                              .stop_after = args.stop_after,
                              .layer = args.layer,
                              .each = args.all ? print_diff : NULL };
    int rc = engine_open(&o, &ea, e);
    o.tier = args.b;
    if (!rc && !(rc = engine_open(&o, &eb, e)) && !(rc = session_create(ea, &a, e)) &&
        !(rc = session_create(eb, &b, e))) {
        if (args.all)
            printf("%-6s %-9s %-5s %-24s %-14s %-10s %-10s\n", "cmd", "op", "layer", "output", "rows x columns", "nmse",
                   "largest");
        rc = bisect_step(a, b, &bo, first, e);
        if (rc == 1) { /* its strings live in the engine */
            printf("%s: ", args.all ? "\nfirst difference" : "first difference");
            printf("command %u %s, output %s: nmse %.3g, largest error %.3g at row %u column %u (%.7g, reference %.7g)\n",
                   first->cmd_a, first->op, first->name, first->nmse, first->max_err, first->max_row, first->max_col,
                   (double)first->max_a, (double)first->max_b);
        }
    }
    session_destroy(a);
    session_destroy(b);
    engine_close(ea);
    engine_close(eb);
    return rc;
}

static int run_program(int argc, char **argv)
{
    int32_t *ids = NULL;
    uint32_t n;
    struct diff first;
    struct err e = { 0 };
    int rc = parse_args(argc, argv);
    if (rc < 0)
        rc = parse_ids(args.prompt_tokens, &ids, &n);
    if (rc >= 0) {
        free(ids);
        return rc;
    }
    rc = compare(ids, n, &first, &e);
    free(ids);
    if (rc < 0)
        fprintf(stderr, "streamdiff: %s\n", e.msg);
    else if (!rc)
        printf("equal: no output of this step differs by more than NMSE %g\n", args.tol);
    return rc != 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("streamdiff", run_program(argc, argv));
}
