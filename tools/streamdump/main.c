/* streamdump: a saved command stream as text. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stdout.h"
#include "graph/graph.h"
#include "tools/streamdump/walk.h"

static const char usage_head[] =
    "usage: streamdump [OPTION]... FILE.zstream\n"
    "Prints a saved command stream: arenas, patches, buffers, and every command with its arguments by name.\n"
    "\n"
    "  --plan           only the memory plan\n"
    "  --patches        only the words that change from step to step\n"
    "  --cost           bytes, flops and bottleneck of every command instead of its arguments\n"
    "  --json           the same as JSON\n"
    "  --dot            the same as a graph for dot(1)\n"
    "  --rows=N         rows of the step that is costed (1)\n"
    "  --kv=N           positions that each row looks at (1)\n"
    "  --gbs=X          memory bandwidth in GB/s for the bottleneck (a desktop CPU's)\n"
    "  --gflops=X       arithmetic in Gflop/s for the bottleneck (a desktop CPU's)\n";
static const char usage_tail[] =
    "  -h, --help       this text\n"
    "\n"
    "Exit status: 0, or 1 when the file cannot be read or does not verify, 2 for wrong usage.\n";

static int usage(FILE *f)
{
    return fputs(usage_head, f) < 0 || fputs(walk_help, f) < 0 || fputs(usage_tail, f) < 0;
}

enum mode { DUMP, PLAN, PATCHES, COST, JSON, DOT };

static void print_patches(const struct stream *s)
{
    static const char *const names[] = {
#define X(name) #name,
        SYM_LIST(X)
#undef X
    };
    printf("%-8s %8s %6s %6s %6s\n", "symbol", "offset", "count", "width", "stride");
    for (uint32_t i = 0; i < s->h.n_patches; i++) {
        const struct patch *p = &s->patches[i];
        printf("%-8s %8u %6u %6u %6u\n", names[p->sym], p->off, p->count, p->width, p->stride);
    }
}

static void print_costs(const struct stream *s, const struct graph_view *v)
{
    uint64_t all_bytes = 0, all_flops = 0;
    printf("%6s %-9s %6s %6s %14s %14s %9s\n", "index", "command", "layer", "wait", "bytes", "flops", "flop/B");
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const struct cmd *c = &s->cmds[i];
        char layer[16] = "-", wait[16] = "-";
        uint64_t bytes, flops;
        stream_cmd_cost(s, i, v->n_rows, v->kv_len, &bytes, &flops);
        if (c->layer != CMD_NO_LAYER)
            snprintf(layer, sizeof layer, "%u", c->layer);
        if (c->wait != CMD_NO_WAIT)
            snprintf(wait, sizeof wait, "%u", c->wait);
        printf("%6u %-9s %6s %6s %14llu %14llu %9.2f\n", i, cmd_name(c->op), layer, wait, (unsigned long long)bytes,
               (unsigned long long)flops, bytes ? (double)flops / (double)bytes : 0.0);
        all_bytes += bytes;
        all_flops += flops;
    }
    printf("%6s %-9s %6s %6s %14llu %14llu %9.2f\n", "", "total", "", "", (unsigned long long)all_bytes,
           (unsigned long long)all_flops, all_bytes ? (double)all_flops / (double)all_bytes : 0.0);
}

/* A number of an option, or exit 2. */
static double number(const char *option, const char *text, double lo, double hi)
{
    char *end;
    double x = strtod(text, &end);
    if (*text && !*end && x >= lo && x <= hi)
        return x;
    fprintf(stderr, "streamdump: --%s=%s: expected a number from %g to %g\n", option, text, lo, hi);
    exit(2);
}

static int print(const struct stream *s, enum mode mode, const struct graph_view *v)
{
    switch (mode) {
    case PLAN: graph_print_plan(stdout, s); break;
    case PATCHES: print_patches(s); break;
    case COST: print_costs(s, v); break;
    case JSON: return graph_print_json(stdout, s, v);
    case DOT: return graph_print_dot(stdout, s, v);
    case DUMP: stream_dump(stdout, s); break;
    }
    return ferror(stdout) ? -EIO : 0;
}

static int run_program(int argc, char **argv)
{
    enum { OPT_ROWS = 256, OPT_KV, OPT_GBS, OPT_GFLOPS, OPT_WALK, OPT_CARD, OPT_CORES, OPT_GROUPS, OPT_GROUP, OPT_SAVE, OPT_LISTS };
    static const struct option options[] = {
        {"plan", no_argument, NULL, PLAN},       {"patches", no_argument, NULL, PATCHES},
        {"cost", no_argument, NULL, COST},       {"json", no_argument, NULL, JSON},
        {"dot", no_argument, NULL, DOT},         {"rows", required_argument, NULL, OPT_ROWS},
        {"kv", required_argument, NULL, OPT_KV}, {"gbs", required_argument, NULL, OPT_GBS},
        {"gflops", required_argument, NULL, OPT_GFLOPS}, {"walk", no_argument, NULL, OPT_WALK},
        {"card", required_argument, NULL, OPT_CARD}, {"cores", required_argument, NULL, OPT_CORES},
        {"groups", required_argument, NULL, OPT_GROUPS}, {"group", required_argument, NULL, OPT_GROUP},
        {"save", required_argument, NULL, OPT_SAVE}, {"lists", required_argument, NULL, OPT_LISTS},
        {"help", no_argument, NULL, 'h'}, {0}};
    struct walk_options w = {.group = -1};
    bool walk = false, of_walk = false;
    struct graph_view v = {.n_rows = 1, .kv_len = 1};
    enum mode mode = DUMP;
    struct stream *s = NULL;
    struct err e = {0};
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (o) {
        case PLAN:
        case PATCHES:
        case COST:
        case JSON:
        case DOT: mode = (enum mode)o; break;
        case OPT_ROWS: v.n_rows = (uint32_t)number("rows", optarg, 1, STREAM_MAX_ROWS); break;
        case OPT_KV: v.kv_len = (uint32_t)number("kv", optarg, 1, STREAM_MAX_CTX); break;
        case OPT_GBS: v.gbs = number("gbs", optarg, 1e-3, 1e9); break;
        case OPT_GFLOPS: v.gflops = number("gflops", optarg, 1e-3, 1e9); break;
        case OPT_WALK: walk = true; break;
        case OPT_CARD:
            if (!walk_knows_card(w.card = optarg))
                return fprintf(stderr, "streamdump: --card=%s: no card is known by this name (streamdump --help)\n", optarg), 2;
            break;
        case OPT_CORES: w.cores = (uint32_t)number("cores", optarg, 1, 1 << 16); break;
        case OPT_GROUPS: w.groups = (uint32_t)number("groups", optarg, 1, 1 << 16); break;
        case OPT_GROUP: w.group = (int64_t)number("group", optarg, 0, 1 << 16); break;
        case OPT_SAVE: w.save = optarg; break;
        case OPT_LISTS: w.lists = optarg; break;
        case 'h': return usage(stdout);
        default: return fputs("try streamdump --help\n", stderr), 2;
        }
    if (optind + 1 != argc)
        return usage(stderr), 2;
    of_walk = w.card || w.cores || w.groups || w.group >= 0 || w.save || w.lists;
    if (walk ? mode != DUMP && mode != JSON : of_walk)
        return fputs(walk ? "streamdump: --walk goes with --json alone, not with other views\n"
                          : "streamdump: --card, --cores, --groups, --group, --save and --lists need --walk\n", stderr), 2;
    if ((w.lists && (w.card || w.cores || w.groups)) || (w.group >= 0 && mode == JSON))
        return fputs(w.lists ? "streamdump: --lists: a file says itself what its lists are for, not --card, --cores or --groups\n"
                             : "streamdump: --group is text alone, not --json\n", stderr), 2;
    if (stream_load(argv[optind], &s, &e)) {
        fprintf(stderr, "streamdump: %s\n", e.msg);
        return 1;
    }
    w.json = mode == JSON;
    int rc = walk ? 0 : print(s, mode, &v), status = walk ? walk_print(s, &w) : 0;
    stream_free(s);
    if (status)
        return status;
    if (rc || fflush(stdout) != 0)
        return fprintf(stderr, "streamdump: cannot write: %s\n", strerror(rc ? -rc : errno)), 1;
    return 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("streamdump", run_program(argc, argv));
}
