#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

int usage_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("zinc: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return 2;
}

/* ---- nearest name ---- */

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static uint32_t distance(const char *a, const char *b)
{
    enum { MAX_WORD = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n >= MAX_WORD || m >= MAX_WORD)
        return MAX_WORD;
    uint32_t d[3][MAX_WORD + 1]; /* rows i - 2, i - 1, i of the table */
    for (size_t j = 0; j <= m; j++)
        d[1][j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        d[2][0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint32_t v = MIN(d[1][j] + 1, d[2][j - 1] + 1);
            v = MIN(v, d[1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                v = MIN(v, d[0][j - 2] + 1);
            d[2][j] = v;
        }
        memcpy(d[0], d[1], sizeof d[0]);
        memcpy(d[1], d[2], sizeof d[1]);
    }
    return d[1][m];
}

const char *args_nearest(const char *word, const char *(*next)(const void *user, size_t i), const void *user)
{
    const char *best = NULL, *name;
    uint32_t best_d = (uint32_t)MAX(strlen(word) / 3, (size_t)1) + 1;
    for (size_t i = 0; (name = next(user, i)); i++) {
        uint32_t d = distance(word, name);
        if (strlen(word) >= 4 && strncmp(name, word, strlen(word)) == 0)
            d = MIN(d, 1u);
        if (d < best_d) {
            best_d = d;
            best = name;
        }
    }
    return best;
}

static const char *opt_name_at(const void *user, size_t i)
{
    for (const struct opt_group *g = ((const struct command *)user)->groups; g && g->title; g++)
        for (const struct opt *o = g->opts; o->name; o++)
            if (i-- == 0)
                return o->name;
    return NULL;
}

/* ---- parsing ---- */

static const struct opt *find_long(const struct command *c, const char *name, size_t n, bool *negated)
{
    for (int no = 0; no < 2; no++) {
        if (no && (n < 4 || memcmp(name, "no-", 3) != 0))
            break;
        const char *s = name + 3 * no;
        size_t len = n - 3u * (unsigned)no;
        for (const struct opt_group *g = c->groups; g && g->title; g++)
            for (const struct opt *o = g->opts; o->name; o++)
                if (strlen(o->name) == len && memcmp(o->name, s, len) == 0 && (!no || o->kind == OPT_TRI)) {
                    *negated = no;
                    return o;
                }
    }
    return NULL;
}

static const struct opt *find_letter(const struct command *c, char letter)
{
    for (const struct opt_group *g = c->groups; g && g->title; g++)
        for (const struct opt *o = g->opts; o->name; o++)
            if (o->letter == letter)
                return o;
    return NULL;
}

static bool takes_value(const struct opt *o)
{
    return o->kind != OPT_FLAG && o->kind != OPT_TRI;
}

static int bad_number(const char *shown, const char *value, const char *want)
{
    return usage_error("%s: '%s' is not %s", shown, value, want);
}

static int add_to_list(struct str_list *l, const char *value)
{
    const char **s = realloc(l->s, (l->n + 1) * sizeof *s);
    if (!s)
        return usage_error("out of memory");
    l->s = s;
    l->s[l->n++] = value;
    return ARGS_RUN;
}

/* ARGS_RUN or an exit status. `shown` is the option as the user wrote it. */
static int set_value(const struct opt *o, const char *shown, const char *value, bool negated)
{
    char *end = NULL;
    errno = 0;
    if (o->set_bits)
        *o->set_bits |= 1u << o->set_bit;
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->dest = true; return ARGS_RUN;
    case OPT_TRI: *(int *)o->dest = !negated; return ARGS_RUN;
    case OPT_STR: *(const char **)o->dest = value; return ARGS_RUN;
    case OPT_LIST: return add_to_list(o->dest, value);
    case OPT_I32: {
        long v = strtol(value, &end, 10);
        if (end == value || *end || errno || v < INT32_MIN || v > INT32_MAX)
            return bad_number(shown, value, "a whole number");
        *(int32_t *)o->dest = (int32_t)v;
        return ARGS_RUN;
    }
    case OPT_U32: {
        long long v = strtoll(value, &end, 10);
        if (end == value || *end || errno || v < 0 || v > UINT32_MAX)
            return bad_number(shown, value, "a whole number from 0 to 4294967295");
        *(uint32_t *)o->dest = (uint32_t)v;
        return ARGS_RUN;
    }
    case OPT_F32: {
        float v = strtof(value, &end);
        if (end == value || *end || !isfinite(v))
            return bad_number(shown, value, "a number");
        *(float *)o->dest = v;
        return ARGS_RUN;
    }
    }
    return ARGS_RUN;
}

static int unknown_option(const struct command *c, const char *arg)
{
    char word[64];
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    snprintf(word, sizeof word, "%.*s", (int)MIN(strcspn(name, "="), sizeof word - 1), name);
    const char *near = args_nearest(word, opt_name_at, c);
    if (near)
        return usage_error("unknown option %s: did you mean --%s? (zinc %s --help lists all)", arg, near, c->name);
    return usage_error("unknown option %s (zinc %s --help lists all)", arg, c->name);
}

/* One option at argv[*i]; moves *i to its last word. */
static int parse_option(const struct command *c, int argc, char **argv, int *i)
{
    char *arg = argv[*i], shown[80];
    const struct opt *o;
    const char *value = NULL;
    bool negated = false;
    if (arg[1] == '-') {
        size_t n = strcspn(arg + 2, "=");
        o = find_long(c, arg + 2, n, &negated);
        if (arg[2 + n] == '=')
            value = arg + 2 + n + 1;
    } else {
        o = find_letter(c, arg[1]);
        if (o && arg[2]) {
            if (!takes_value(o))
                o = NULL;
            else
                value = arg + 2 + (arg[2] == '=');
        }
    }
    if (!o)
        return unknown_option(c, arg);
    if (arg[1] == '-')
        snprintf(shown, sizeof shown, "--%s%s", negated ? "no-" : "", o->name);
    else
        snprintf(shown, sizeof shown, "-%c", o->letter);
    if (!takes_value(o) && value)
        return usage_error("%s takes no value ('%s' given)", shown, value);
    if (takes_value(o) && !value) {
        if (*i + 1 >= argc)
            return usage_error("%s needs a value: %s %s", shown, shown, o->value);
        value = argv[++*i];
    }
    return set_value(o, shown, value, negated);
}

int args_parse(const struct command *c, int *argc, char **argv)
{
    int n = 1, max = 0;
    while (c->operands && c->operands[max])
        max++;
    bool only_operands = false;
    for (int i = 1; i < *argc; i++) {
        char *arg = argv[i];
        if (only_operands || arg[0] != '-' || !arg[1]) {
            if (n - 1 >= max)
                return usage_error("unexpected argument '%s' (zinc %s --help)", arg, c->name);
            argv[n++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            args_help(stdout, c);
            return 0;
        } else {
            int rc = parse_option(c, *argc, argv, &i);
            if (rc != ARGS_RUN)
                return rc;
        }
    }
    *argc = n;
    argv[n] = NULL;
    return ARGS_RUN;
}

/* ---- help ---- */

/* Prints text in lines of at most 80 columns, continuing at column `indent`. */
static void print_wrapped(FILE *f, const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column + n + 1 > 80 && column > indent) {
            fprintf(f, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', f);
            column++;
        }
        fwrite(text, 1, n, f);
        column += n;
        text += n + (text[n] == ' ');
    }
    fputc('\n', f);
}

/* " [0.8]" after options of the sampling chain: their defaults are in their variables. */
static const char *default_of(const struct opt *o, char buf[32])
{
    buf[0] = 0;
    if (o->set_bits && o->kind == OPT_F32)
        snprintf(buf, 32, " [%g]", (double)*(const float *)o->dest);
    else if (o->set_bits && o->kind == OPT_I32)
        snprintf(buf, 32, " [%d]", *(const int32_t *)o->dest);
    return buf;
}

static void print_option(FILE *f, const struct opt *o)
{
    enum { HELP_COLUMN = 28 };
    char head[80], letter[8] = "", text[512], def[32];
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(head, sizeof head, "  %s--%s%s%s%s", letter, o->kind == OPT_TRI ? "[no-]" : "", o->name,
             o->value ? " " : "", o->value ? o->value : "");
    size_t n = strlen(head);
    if (n + 2 > HELP_COLUMN)
        fprintf(f, "%s\n%*s", head, HELP_COLUMN, "");
    else
        fprintf(f, "%-*s", HELP_COLUMN, head);
    snprintf(text, sizeof text, "%s%s", o->help, default_of(o, def));
    print_wrapped(f, text, HELP_COLUMN, HELP_COLUMN);
}

void args_help(FILE *f, const struct command *c)
{
    fprintf(f, "usage: zinc %s %s\n\n%s\n", c->name, c->usage, c->about);
    for (const struct opt_group *g = c->groups; g && g->title; g++) {
        fprintf(f, "\n%s:\n", g->title);
        for (const struct opt *o = g->opts; o->name; o++)
            print_option(f, o);
    }
}
