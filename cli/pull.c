/* zinc pull: brings a model to this machine by its name. */
#include "pull/pull.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "pull/fetch.h"

static struct {
    struct pull_opts o;
    uint32_t connections;
    bool quiet;
} args;

static const struct opt opts[] = {
    OPT_RANGE(1, FETCH_MAX_CONNECTIONS, "connections", 0, OPT_U32, &args.connections, "N", "connections at a time (default: 4)"),
    OPT("offline", 0, OPT_FLAG, &args.o.offline, NULL, "only what is on this machine: fails where something would have to be fetched"),
    OPT("sha256", 0, OPT_STR, &args.o.sha256, "HEX", "the sum that the file must have, where the server tells none"),
    OPT("token-file", 0, OPT_STR, &args.o.token_file, "FILE",
        "a file with the token in its first line (default: HF_TOKEN, then the hub's own file)"),
    OPT("quiet", 'q', OPT_FLAG, &args.quiet, NULL, "print only the path, and errors on stderr"),
    { 0 },
};

static void say(const char *line)
{
    if (!args.quiet)
        cli_say("%s", line);
}

static void tell(const struct pull_result *r)
{
    char size[32], speed[32];
    if (!r->n_files) {
        say("it is here already");
        return;
    }
    double s = (double)r->ns * 1e-9;
    cli_say("%s in %.1f s, %s/s; %s", cli_bytes(r->bytes, size), s, cli_bytes((uint64_t)((double)r->received / (s > 0 ? s : 1)), speed),
            r->n_verified == r->n_files ? "sha256 as told"
            : "no sum was told, so none was checked (--sha256 HEX)");
}

static int pull_main(int argc, char **argv)
{
    struct err e = { 0 };
    struct progress bar = progress_terminal();
    int status = EXIT_OK;
    if (argc < 2)
        return usage_error("no name given: zinc pull hf:OWNER/REPO:FILE.gguf (zinc pull --help)");
    args.o.connections = args.connections;
    args.o.progress = args.quiet ? NULL : &bar;
    args.o.cancel = cli_catch_interrupt();
    args.o.say = say;
    for (int i = 1; i < argc && status == EXIT_OK; i++) {
        struct pull_result r;
        char *path = NULL;
        int rc = pull_model(argv[i], &args.o, &path, &r, &e);
        if (rc) {
            status = cli_fail(&e);
            status = rc == -ECANCELED ? EXIT_INTERRUPTED : status;
        } else {
            if (!args.quiet)
                tell(&r);
            puts(path);
        }
        free(path);
    }
    return status;
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };
static const char *const operands[] = { "NAME...", NULL };

const struct command cmd_pull = {
    .name = "pull",
    .summary = "bring a model to this machine by its name",
    .usage = "NAME... [--connections N] [--offline] [--sha256 HEX] [--token-file FILE]",
    .about =
        "Brings models here and prints their paths. A name is a file of a repository on huggingface.co, such a file by its\n"
        "type, an address, or a name of the catalogue (zinc model search). What an earlier pull left is gone on with; the\n"
        "file appears when it is whole and its sum is right. HF_ENDPOINT names a mirror. Files lie in ZINC_MODELS, else\n"
        "~/.local/share/zinc/models.\n"
        "\n"
        "  zinc pull hf:Qwen/Qwen3-4B-GGUF:Q4_K_M\n"
        "  zinc pull hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf\n"
        "  zinc pull https://example.org/models/model.gguf",
    .groups = groups,
    .operands = operands,
    .main = pull_main,
};
