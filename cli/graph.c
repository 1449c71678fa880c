/* zinc graph: the command stream that a model becomes. */
#include <string.h>

#include "cli/cli.h"
#include "engine/look.h"

static struct {
    bool json, dot, stream, plan_only;
    const char *save, *layers;
    uint32_t rows, kv_len, slots;
    float gbs, gflops;
} args;

static const struct opt opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model, a GGUF file"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "commands with bytes, flops and bottleneck as JSON (default)"),
    OPT("dot", 0, OPT_FLAG, &args.dot, NULL, "the graph for Graphviz"),
    OPT("stream", 0, OPT_FLAG, &args.stream, NULL, "the stream as text, a line per command"),
    OPT("plan-only", 0, OPT_FLAG, &args.plan_only, NULL, "the memory plan in one line"),
    OPT("save", 0, OPT_STR, &args.save, "FILE", "save the stream, for zinc run --stream; prints the plan"),
    OPT("rows", 0, OPT_U32, &args.rows, "N", "rows per step that costs are computed for (default: 1)"),
    OPT("kv-len", 0, OPT_U32, &args.kv_len, "N", "cached positions that costs are computed for (default: 1024)"),
    OPT("ctx", 'c', OPT_U32, &cli_model.o.n_ctx, "N", "context in tokens (default: 4096)"),
    OPT("slots", 0, OPT_U32, &args.slots, "N", "sequences at the same time (default: 1)"),
    CLI_KV,
    CLI_ROPE,
    OPT("no-fuse", 0, OPT_FLAG, &cli_model.o.no_fuse, NULL, "one command per operation"),
    OPT("layers", 0, OPT_STR, &args.layers, "FIRST:END", "only layers FIRST to END - 1"),
    OPT("gbs", 0, OPT_F32, &args.gbs, "N", "memory bandwidth in GB/s that decides the bottleneck"),
    OPT("gflops", 0, OPT_F32, &args.gflops, "N", "compute peak in Gflop/s that decides the bottleneck"),
    { 0 },
};

static bool parse_layers(const char *text, uint32_t *first, uint32_t *end)
{
    int len = 0;
    return strspn(text, "0123456789:") == strlen(text) && sscanf(text, "%9u:%9u%n", first, end, &len) == 2 &&
           !text[len] && *first < *end;
}

static int graph_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct err e = { 0 };
    if (args.json + args.dot + args.stream + args.plan_only > 1)
        return usage_error("choose one of --json, --dot, --stream, --plan-only");
    uint32_t first = 0, end = 0;
    if (args.layers && !parse_layers(args.layers, &first, &end))
        return usage_error("--layers: '%s' is not FIRST:END with FIRST below END, like 0:14", args.layers);
    int status = cli_need_model();
    if (status)
        return status;
    struct graph_request r = { .o = cli_model.o,
                               .format = args.dot                                 ? GRAPH_DOT
                                         : args.stream                            ? GRAPH_STREAM
                                         : args.plan_only || (args.save && !args.json) ? GRAPH_PLAN
                                                                                  : GRAPH_JSON,
                               .save = args.save,
                               .rows = args.rows,
                               .kv_len = args.kv_len,
                               .first_layer = first,
                               .end_layer = end,
                               .gbs = (double)args.gbs,
                               .gflops = (double)args.gflops };
    r.o.n_slots = args.slots;
    return engine_graph(&r, stdout, &e) ? cli_fail(&e) : EXIT_OK;
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };

const struct command cmd_graph = {
    .name = "graph",
    .summary = "the command stream that a model is compiled to",
    .usage = "MODEL.gguf [--json | --dot | --stream | --plan-only] [--save FILE] [options]",
    .about =
        "Compiles the model to its decode stream and shows it, with the bytes that each command moves and the\n"
        "operations it does.\n"
        "\n"
        "  zinc graph model.gguf --dot | dot -Tsvg > model.svg\n"
        "  zinc graph model.gguf --save m.zs && zinc run model.gguf --stream m.zs\n"
        "  zinc graph model.gguf --layers 0:14 --plan-only    # memory for these layers",
    .groups = groups,
    .operands = cli_model_operand,
    .main = graph_main,
};
