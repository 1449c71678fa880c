/* Requests and escapes are those of man(7): .SS heads a subsection, .TP begins a tagged paragraph, \- is a minus sign that can
 * be searched for and copied, \& keeps a dot at the beginning of a line from being a request. */
#include "cli/manual.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/cli.h"

static const struct command *const commands[] = {
#define X(name) &cmd_##name,
    CLI_COMMANDS(X)
#undef X
    NULL,
};

static void put_text(FILE *f, const char *s, size_t n)
{
    if (n && (*s == '.' || *s == '\''))
        fputs("\\&", f);
    for (size_t i = 0; i < n; i++)
        switch (s[i]) {
        case '-': fputs("\\-", f); break;
        case '\\': fputs("\\e", f); break;
        default: fputc(s[i], f);
        }
}

static void put(FILE *f, const char *s)
{
    put_text(f, s, strlen(s));
}

/* Paragraphs; lines that begin with two spaces are examples and stay as they are. */
static void put_about(FILE *f, const char *s)
{
    bool example = false;
    for (size_t n; *s; s += n + (s[n] == '\n')) {
        n = strcspn(s, "\n");
        bool now = n > 2 && s[0] == ' ' && s[1] == ' ';
        if (now != example)
            fputs(now ? ".PP\n.nf\n" : ".fi\n", f);
        example = now;
        if (n == 0) {
            if (!now && s[1])
                fputs(".PP\n", f);
            continue;
        }
        put_text(f, s, n);
        fputc('\n', f);
    }
    if (example)
        fputs(".fi\n", f);
}

static void put_option(FILE *f, const struct opt *o)
{
    char def[32];
    fputs(".TP\n", f);
    if (o->letter)
        fprintf(f, "\\fB\\-%c\\fR, ", o->letter);
    fprintf(f, "\\fB\\-\\-%s", o->kind == OPT_TRI ? "[no\\-]" : "");
    put(f, o->name);
    fputs("\\fR", f);
    if (o->value) {
        fputs(" \\fI", f);
        put(f, o->value);
        fputs("\\fR", f);
    }
    fputc('\n', f);
    put(f, o->help);
    put(f, args_default(o, def));
    fputc('\n', f);
}

/* An option that an earlier command explained in the same words. */
static bool explained(const struct command *const *c, const struct opt_group *group)
{
    for (const struct command *const *before = commands; before < c; before++)
        for (const struct opt_group *g = (*before)->groups; g && g->title; g++)
            if (g->opts == group->opts)
                return true;
    return false;
}

static void put_command(FILE *f, const struct command *const *c)
{
    fprintf(f, ".SS zinc %s\n", (*c)->name);
    put_about(f, (*c)->about);
    for (const struct opt_group *g = (*c)->groups; g && g->title; g++) {
        fputs(".PP\n", f);
        put(f, g->title);
        fputs(explained(c, g) ? ": as above.\n" : ":\n", f);
        for (const struct opt *o = g->opts; o->name && !explained(c, g); o++)
            put_option(f, o);
    }
}

static void put_variable(void *user, const char *var, const char *shown, const char *help)
{
    fprintf(user, ".TP\n.B %s\n", var);
    put(user, help);
    fputs(" [", user);
    put(user, shown);
    fputs("]\n", user);
}

int manual_print(FILE *in, FILE *out)
{
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, in) >= 0) {
        if (strcmp(line, "@synopsis@\n") == 0)
            for (const struct command *const *c = commands; *c; c++) {
                fprintf(out, "%s.B zinc %s\n", c == commands ? "" : ".br\n", (*c)->name);
                put(out, (*c)->usage);
                fputc('\n', out);
            }
        else if (strcmp(line, "@commands@\n") == 0)
            for (const struct command *const *c = commands; *c; c++)
                put_command(out, c);
        else if (strcmp(line, "@environment@\n") == 0)
            env_each(put_variable, out);
        else
            fputs(line, out);
    }
    free(line);
    return EXIT_OK;
}
