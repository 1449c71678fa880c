/* zinc: run a language model from a GGUF file. */
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "cli/cli.h"

static const struct command *const commands[] = {
    &cmd_run, &cmd_chat, &cmd_tokenize, &cmd_detokenize, &cmd_inspect, &cmd_graph, &cmd_bench, &cmd_validate, &cmd_check,
    &cmd_eval, &cmd_ladder,
};

static const char *command_name_at(const void *user, size_t i)
{
    (void)user;
    return i < ARRAY_LEN(commands) ? commands[i]->name : i == ARRAY_LEN(commands) ? "help" : NULL;
}

static void print_overview(FILE *f)
{
    fputs("zinc " ZINC_VERSION ": run a language model from a GGUF file\n\n"
          "  zinc chat -m MODEL.gguf                    talk to it\n"
          "  zinc run -m MODEL.gguf --prompt \"...\"      continue a text\n"
          "  zinc check                                 what can run here\n\ncommands:\n", f);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(f, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nzinc help COMMAND or zinc COMMAND --help explains one; options without a command mean run.\n"
          "--version, --help, --help-env (environment variables)\n", f);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *near = args_nearest(name, command_name_at, NULL);
    if (near)
        return usage_error("unknown command '%s': did you mean '%s'? (zinc help lists all)", name, near);
    return usage_error("unknown command '%s' (zinc help lists all)", name);
}

static int help(const char *name)
{
    const struct command *c = name ? find_command(name) : NULL;
    if (name && !c)
        return unknown_command(name);
    if (c)
        args_help(stdout, c);
    else
        print_overview(stdout);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, not a death */
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "--version") == 0) {
        puts("zinc " ZINC_VERSION);
        return EXIT_OK;
    }
    if (strcmp(first, "--help-env") == 0) {
        env_print_help(stdout);
        return EXIT_OK;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0)
        return help(strcmp(first, "help") == 0 ? argv[2] : NULL);
    env_get(); /* warns about variables that nobody reads */
    const struct command *c = first[0] == '-' ? &cmd_run : find_command(first);
    if (!c)
        return unknown_command(first);
    if (first[0] != '-') {
        argv++;
        argc--;
    }
    int rc = args_parse(c, &argc, argv);
    return rc != ARGS_RUN ? rc : c->main(argc, argv);
}
