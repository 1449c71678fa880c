/* zinc inspect: what a GGUF file is. */
#include "engine/look.h"

#include "cli/cli.h"

static struct {
    bool tensors, json;
} args;

static const struct opt opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the GGUF file; -m may be left out"),
    OPT("tensors", 0, OPT_FLAG, &args.tensors, NULL, "list all tensors"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object"),
    { 0 },
};

static int inspect_main(int argc, char **argv)
{
    struct err e = { 0 };
    cli_model.o.path = argc > 1 ? argv[1] : cli_model.o.path;
    int rc = cli_need_model();
    if (rc)
        return rc;
    return engine_inspect(cli_model.o.path, args.tensors, args.json, stdout, &e) ? cli_fail(&e) : EXIT_OK;
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };
static const char *const operands[] = { "FILE", NULL };

const struct command cmd_inspect = {
    .name = "inspect",
    .summary = "what is in a GGUF file",
    .usage = "FILE.gguf [--tensors] [--json]",
    .about = "Prints the family, shapes, weight types and tokenizer of a GGUF file, and whether zinc can run it.",
    .groups = groups,
    .operands = operands,
    .main = inspect_main,
};
