/* zinc completion: what a shell needs to complete command lines, from the tables that parse them. The forms are those of the
 * shells' manuals: bash, "Programmable Completion" (complete, compgen, COMPREPLY); zsh, zshcompsys(1) (_arguments); fish,
 * complete(1). */
#include <string.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "engine/look.h"

static const struct command *const commands[] = {
#define X(name) &cmd_##name,
    CLI_COMMANDS(X)
#undef X
};

static const char tier_words[] = "tiers";

/* What may follow an option: "a|b", tier_words, "" for a file, NULL for anything. */
static const char *values_of(const struct opt *o)
{
    if (o->kind == OPT_FLAG || o->kind == OPT_TRI)
        return NULL;
    return o->words ? o->words : o->check == cli_check_tier ? tier_words : o->value && strcmp(o->value, "FILE") == 0 ? "" : NULL;
}

/* The words that a command's operand is one of, "a|b"; NULL: it is a file. */
static const char *operand_words(const struct command *c)
{
    return c->operands && strchr(c->operands[0], '|') ? c->operands[0] : NULL;
}

static void put_words(const char *words, char between)
{
    const char *name;
    if (words == tier_words)
        for (size_t i = 0; (name = engine_tier_name(i)); i++)
            printf("%.*s%s", i > 0, &between, name);
    else
        for (; *words; words++)
            putchar(*words == '|' ? between : *words);
}

static void put_quoted(const char *s, const char *special)
{
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", stdout);
        else
            printf("%s%c", strchr(special, *s) ? "\\" : "", *s);
}

#define EACH_OPTION(c, o)                                                                                              \
    for (const struct opt_group *g_ = (c)->groups; g_ && g_->title; g_++)                                              \
        for (const struct opt *o = g_->opts; o->name; o++)

/* ---- bash ---- */

static void put_bash(void)
{
    puts("# bash completion of zinc; made by: zinc completion bash\n"
         "_zinc()\n{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    fputs("        words='help --help --help-env --version", stdout);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf(" %s", commands[i]->name);
    puts("'\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -X '!*.gguf' -- \"$cur\"))\n        return\n    fi\n"
         "    case $command:$prev in");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        EACH_OPTION(commands[i], o) {
            const char *v = values_of(o);
            if (o->kind == OPT_FLAG || o->kind == OPT_TRI)
                continue;
            printf("    %s:--%s", commands[i]->name, o->name);
            if (o->letter)
                printf(" | %s:-%c", commands[i]->name, o->letter);
            fputs(") ", stdout);
            if (v && *v) {
                fputs("COMPREPLY=($(compgen -W '", stdout);
                put_words(v, ' ');
                puts("' -- \"$cur\")); return ;;");
            } else {
                puts(v ? "COMPREPLY=($(compgen -f -- \"$cur\")); return ;;" : "return ;;");
            }
        }
    puts("    esac\n    case $command in");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        printf("    %s) words='--help", commands[i]->name);
        EACH_OPTION(commands[i], o)
            printf(o->kind == OPT_TRI ? " --%s --no-%s" : " --%s", o->name, o->name);
        puts("' ;;");
    }
    fputs("    help) words='", stdout);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf(i ? " %s" : "%s", commands[i]->name);
    puts("' ;;\n    esac\n"
         "    case $cur in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
         "    *)  case $command in\n"
         "        help) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (operand_words(commands[i])) {
            printf("        %s) COMPREPLY=($(compgen -W '", commands[i]->name);
            put_words(operand_words(commands[i]), ' ');
            puts("' -- \"$cur\")) ;;");
        }
    puts("        *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
         "        esac ;;\n"
         "    esac\n}\n"
         "complete -o filenames -F _zinc zinc");
}

/* ---- zsh ---- */

static void put_zsh_option(const char *dashes, const char *no, const char *name, const struct opt *o)
{
    const char *v = values_of(o);
    printf(" \\\n        '%s%s%s%s[", o->kind == OPT_LIST ? "*" : "", dashes, no, name);
    put_quoted(o->help, "[]\\");
    putchar(']');
    if (o->kind != OPT_FLAG && o->kind != OPT_TRI) {
        putchar(':');
        put_quoted(o->value ? o->value : "", ":\\");
        putchar(':');
        if (v && *v) {
            putchar('(');
            put_words(v, ' ');
            putchar(')');
        } else if (v) {
            fputs("_files", stdout);
        }
    }
    putchar('\'');
}

static void put_zsh(void)
{
    puts("#compdef zinc\n# zsh completion of zinc; made by: zinc completion zsh\n_zinc()\n{\n    local -a commands\n    commands=(");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        printf("        '%s:", commands[i]->name);
        put_quoted(commands[i]->summary, ":\\");
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        _files -g '*.gguf'\n        return\n    fi\n"
         "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        printf("    %s)\n        _arguments '--help[the options]'", commands[i]->name);
        EACH_OPTION(commands[i], o) {
            char letter[2] = { o->letter };
            put_zsh_option("--", "", o->name, o);
            if (o->kind == OPT_TRI)
                put_zsh_option("--", "no-", o->name, o);
            if (o->letter)
                put_zsh_option("-", "", letter, o);
        }
        fputs(" \\\n        '", stdout);
        if (operand_words(commands[i])) {
            fputs("1:word:(", stdout);
            put_words(operand_words(commands[i]), ' ');
            puts(")' ;;");
        } else {
            puts("*:file:_files' ;;");
        }
    }
    puts("    help) _describe command commands ;;\n    esac\n}\n_zinc \"$@\"");
}

/* ---- fish ---- */

static void put_fish(void)
{
    puts("# fish completion of zinc; made by: zinc completion fish");
    fputs("complete -c zinc -f -n '__fish_seen_subcommand_from help' -a '", stdout);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf(i ? " %s" : "%s", commands[i]->name);
    puts("'");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        printf("complete -c zinc -n __fish_use_subcommand -a %s -d '", commands[i]->name);
        put_quoted(commands[i]->summary, "\\");
        puts("'");
        if (operand_words(commands[i])) {
            printf("complete -c zinc -f -n '__fish_seen_subcommand_from %s' -a '", commands[i]->name);
            put_words(operand_words(commands[i]), ' ');
            puts("'");
        }
        EACH_OPTION(commands[i], o) {
            const char *v = values_of(o);
            printf("complete -c zinc -n '__fish_seen_subcommand_from %s' -l %s", commands[i]->name, o->name);
            if (o->letter)
                printf(" -s %c", o->letter);
            if (o->kind != OPT_FLAG && o->kind != OPT_TRI)
                fputs(v && !*v ? " -r -F" : " -x", stdout);
            if (v && *v) {
                fputs(" -a '", stdout);
                put_words(v, ' ');
                putchar('\'');
            }
            fputs(" -d '", stdout);
            put_quoted(o->help, "\\");
            puts("'");
            if (o->kind == OPT_TRI)
                printf("complete -c zinc -n '__fish_seen_subcommand_from %s' -l no-%s\n", commands[i]->name, o->name);
        }
    }
}

static int completion_main(int argc, char **argv)
{
    const char *shell = argc > 1 ? argv[1] : "";
    if (strcmp(shell, "bash") == 0)
        put_bash();
    else if (strcmp(shell, "zsh") == 0)
        put_zsh();
    else if (strcmp(shell, "fish") == 0)
        put_fish();
    else
        return usage_error("completion: '%s' is not one of: bash zsh fish", shell);
    return EXIT_OK;
}

static const struct opt_group groups[] = { { 0 } };
static const char *const operands[] = { "bash|zsh|fish", NULL };

const struct command cmd_completion = {
    .name = "completion",
    .summary = "completion of command lines for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .about =
        "Prints a script by which the shell completes commands, options and their values. make install puts the\n"
        "scripts where the shells look for them; without it:\n"
        "\n"
        "  zinc completion bash > ~/.local/share/bash-completion/completions/zinc\n"
        "  zinc completion zsh > \"${fpath[1]}/_zinc\"\n"
        "  zinc completion fish > ~/.config/fish/completions/zinc.fish",
    .groups = groups,
    .operands = operands,
    .main = completion_main,
};
