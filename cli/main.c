/* zinc: run a language model from a GGUF file. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/mapped.h"
#include "base/nearest.h"
#include "base/stdout.h"
#include "cli/cli.h"
#include "cli/manual.h"
#include "pull/name.h"

static const struct command *const commands[] = {
#define X(name) &cmd_##name,
    CLI_COMMANDS(X)
#undef X
};

static const char *command_name_at(const void *user, size_t i)
{
    (void)user;
    return i < ARRAY_LEN(commands) ? commands[i]->name : i == ARRAY_LEN(commands) ? "help" : NULL;
}

static void print_overview(FILE *f)
{
    fputs("zinc " ZINC_VERSION ": run a language model from a GGUF file\n\n"
          "  zinc pull hf:OWNER/REPO:Q4_K_M             bring a model here\n"
          "  zinc chat MODEL.gguf                       talk to it\n"
          "  zinc run MODEL.gguf \"...\"                  continue a text\n"
          "  zinc serve MODEL.gguf                      serve it: OpenAI's API, a chat page\n"
          "  zinc check                                 what can run here\n\ncommands:\n", f);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(f, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nzinc help COMMAND or zinc COMMAND --help explains one. Options or a model\n"
          "without a command mean run, but serve with --port N, or with -p N and no option\n"
          "that only run has (zinc -m FILE -p 8080). A model alone, on a terminal, means\n"
          "chat.\n"
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
    const char *near = nearest_name(name, command_name_at, NULL);
    if (near)
        return usage_error("unknown command '%s': did you mean '%s'? (zinc help lists all)", name, near);
    return usage_error("unknown command '%s' (zinc help lists all)", name);
}

static int help(const char *name)
{
    const struct command *c = name ? find_command(name) : NULL;
    if (name && strcmp(name, "--man") == 0)
        return manual_print(stdin, stdout);
    if (name && !c)
        return unknown_command(name);
    if (c)
        args_help(stdout, c);
    else
        print_overview(stdout);
    return EXIT_OK;
}

/* ---- options without a command ---- */

static const struct opt *find_option(const struct command *c, const char *arg)
{
    size_t n = strcspn(arg, "=");
    for (const struct opt_group *g = c->groups; g->title; g++)
        for (const struct opt *o = g->opts; o->name; o++)
            if (arg[1] == '-' ? strlen(o->name) == n - 2 && strncmp(o->name, arg + 2, n - 2) == 0 : o->letter == arg[1])
                return o;
    return NULL;
}

static bool is_port(const char *s)
{
    return s && *s && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 5 && atoi(s) >= 1 && atoi(s) <= 65535;
}

/* -p is run's prompt and serve's port: a number is a port where nothing else speaks for run. */
static const struct command *command_of_options(int argc, char **argv)
{
    bool port = false, run_only = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--") == 0)
            break;
        if (arg[0] != '-' || !arg[1])
            continue;
        if (strcmp(arg, "--port") == 0 || strncmp(arg, "--port=", 7) == 0)
            return &cmd_serve;
        const struct opt *run = find_option(&cmd_run, arg), *serve = find_option(&cmd_serve, arg);
        bool one_word = arg[1] == '-' ? strchr(arg, '=') != NULL : arg[2] != 0;
        const char *value = !one_word ? argv[i + 1] : arg[1] == '-' ? strchr(arg, '=') + 1 : arg + 2 + (arg[2] == '=');
        if (arg[1] == 'p')
            port |= is_port(value);
        else
            run_only |= run && !serve;
        const struct opt *o = run ? run : serve;
        i += o && !one_word && o->kind != OPT_FLAG && o->kind != OPT_TRI; /* its value may look like an option */
    }
    return port && !run_only ? &cmd_serve : &cmd_run;
}

/* ---- a model in place of a command ---- */

static bool is_model(const char *s)
{
    size_t n = strlen(s);
    return name_has_scheme(s) || (n > 5 && strcmp(s + n - 5, ".gguf") == 0) || (strchr(s, '/') && access(s, F_OK) == 0);
}

/* zinc MODEL on a terminal is a conversation; with a prompt, an option that only run has, or a text on a pipe it is one
 * answer, and with --port it is served. */
static const struct command *command_of_model(int argc, char **argv)
{
    const struct command *c = command_of_options(argc, argv);
    if (c != &cmd_run || !isatty(STDIN_FILENO))
        return c;
    for (int i = 2; i < argc; i++) {
        const struct opt *chat = argv[i][0] == '-' && argv[i][1] ? find_option(&cmd_chat, argv[i]) : NULL;
        if (!chat)
            return &cmd_run;
        i += chat->kind != OPT_FLAG && chat->kind != OPT_TRI && !(argv[i][1] == '-' ? strchr(argv[i], '=') != NULL : argv[i][2] != 0);
    }
    return &cmd_chat;
}

static int run_command(int argc, char **argv)
{
    signal(SIGPIPE, SIG_DFL); /* whose reader is gone ends quietly, as other tools do */
    mapped_tell("zinc");
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
    bool named = first[0] != '-';
    const struct command *c = named ? find_command(first) : command_of_options(argc, argv);
    if (!c && is_model(first)) {
        c = command_of_model(argc, argv);
        named = false;
    }
    if (!c)
        return unknown_command(first);
    if (named) {
        argv++;
        argc--;
    }
    if (c == &cmd_serve || c == &cmd_run || c == &cmd_chat) /* these have more to do when somebody does not read on */
        signal(SIGPIPE, SIG_IGN);
    int rc = args_parse(c, &argc, argv);
    return rc != ARGS_RUN ? rc : c->main(argc, argv);
}

int main(int argc, char **argv)
{
    cli_list_tiers();
    return stdout_finish("zinc", run_command(argc, argv));
}
