#include "cli/args.h"

#include <errno.h>
#include <limits.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/nearest.h"

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

static const char *opt_name_at(const void *user, size_t i)
{
    for (const struct opt_group *g = ((const struct command *)user)->groups; g && g->title; g++)
        for (const struct opt *o = g->opts; o->name; o++)
            if (i-- == 0)
                return o->name;
    return NULL;
}

/* ---- parsing ---- */

static bool is_one_of(const char *word, const char *words)
{
    size_t n = strlen(word);
    for (const char *w = words; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL)
        if (strcspn(w, "|") == n && memcmp(w, word, n) == 0)
            return true;
    return false;
}

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

/* The text as a number between lo and hi; ARGS_RUN or, after a message, an exit status. `whole`: without a fraction. */
static int read_number(const char *shown, const char *text, bool whole, double lo, double hi, double *out)
{
    char *end;
    const char *kind = whole ? "a whole number" : "a number";
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || isnan(v) || (whole && (text[strspn(text, "+-0123456789")] || isinf(v))))
        return usage_error("%s: '%s' is not %s", shown, text, kind);
    if (v < lo && lo == 0)
        return usage_error("%s: '%s' is not %s from 0", shown, text, kind);
    if (v < lo || v > hi)
        return usage_error("%s: '%s' is too %s: %s from %.7g to %.10g is expected", shown, text, v < lo ? "small" : "large",
                           kind, lo, hi);
    *out = v;
    return ARGS_RUN;
}

static int set_number(const struct opt *o, const char *shown, const char *text)
{
    double lo = o->kind == OPT_F32 ? (double)-FLT_MAX : o->kind == OPT_I32 ? INT32_MIN : 0, v = 0;
    double hi = o->kind == OPT_F32 ? (double)FLT_MAX : o->kind == OPT_I32 ? INT32_MAX : UINT32_MAX;
    if (o->words && strcmp(text, o->words) == 0) {
        *(uint32_t *)o->dest = 0;
        return ARGS_RUN;
    }
    if (o->hi > o->lo) {
        lo = o->lo;
        hi = o->hi;
    }
    int rc = read_number(shown, text, o->kind != OPT_F32, lo, hi, &v);
    if (rc != ARGS_RUN)
        return rc;
    if (o->kind == OPT_F32)
        *(float *)o->dest = (float)v;
    else if (o->kind == OPT_I32)
        *(int32_t *)o->dest = (int32_t)v;
    else
        *(uint32_t *)o->dest = (uint32_t)v;
    return ARGS_RUN;
}

static int set_string(const struct opt *o, const char *shown, const char *value)
{
    char near[64], list[256];
    if (o->words && !is_one_of(value, o->words)) {
        snprintf(list, sizeof list, "%s", o->words);
        for (char *p = list; (p = strchr(p, '|'));)
            *p = ' ';
        if (nearest_word(value, o->words, near))
            return usage_error("%s: '%s' is not one of: %s; did you mean %s?", shown, value, list, near);
        return usage_error("%s: '%s' is not one of: %s", shown, value, list);
    }
    int rc = o->check ? o->check(shown, value) : ARGS_RUN;
    if (rc == ARGS_RUN)
        *(const char **)o->dest = value;
    return rc;
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
    if (o->set_bits)
        *o->set_bits |= 1u << o->set_bit;
    switch (o->kind) {
    case OPT_FLAG: *(bool *)o->dest = true; return ARGS_RUN;
    case OPT_TRI: *(int *)o->dest = !negated; return ARGS_RUN;
    case OPT_STR: return set_string(o, shown, value);
    case OPT_LIST: return add_to_list(o->dest, value);
    case OPT_I32: case OPT_U32: case OPT_F32: return set_number(o, shown, value);
    }
    return ARGS_RUN;
}

int args_set_option(const struct opt *o, const char *shown, const char *value)
{
    return set_value(o, shown, value, false);
}

static struct {
    struct arg_given *all;
    uint32_t n;
} given;

static int remember(const struct opt *o, const char *value, bool negated)
{
    struct arg_given *all = realloc(given.all, (given.n + 1) * sizeof *all);
    if (!all)
        return usage_error("out of memory");
    given.all = all;
    all[given.n++] = (struct arg_given){ o, value, negated };
    return ARGS_RUN;
}

const struct arg_given *args_given(uint32_t *n)
{
    *n = given.n;
    return given.all;
}

static int unknown_option(const struct command *c, const char *arg)
{
    char word[64];
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    snprintf(word, sizeof word, "%.*s", (int)MIN(strcspn(name, "="), sizeof word - 1), name);
    const char *near = nearest_name(word, opt_name_at, c);
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
    int rc = set_value(o, shown, value, negated);
    return rc == ARGS_RUN ? remember(o, value, negated) : rc;
}

static int unexpected(const struct command *c, const char *arg)
{
    size_t n = strlen(arg);
    if (!c->operands && n > 5 && strcmp(arg + n - 5, ".gguf") == 0)
        return usage_error("unexpected argument '%s': did you mean -m %s? (zinc %s --help)", arg, arg, c->name);
    return usage_error("unexpected argument '%s' (zinc %s --help)", arg, c->name);
}

int args_parse(const struct command *c, int *argc, char **argv)
{
    int n = 1, max = 0;
    while (c->operands && c->operands[max])
        max++;
    if (max && strstr(c->operands[max - 1], "..."))
        max = INT_MAX;
    bool only_operands = false;
    for (int i = 1; i < *argc; i++) {
        char *arg = argv[i];
        if (only_operands || arg[0] != '-' || !arg[1]) {
            if (n - 1 >= max)
                return unexpected(c, arg);
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

static const char *table_name_at(const void *user, size_t i)
{
    return ((const struct opt *)user)[i].name;
}

int args_set(const struct opt *table, const char *name, const char *value)
{
    for (const struct opt *o = table; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return set_value(o, name, value, false);
    const char *near = nearest_name(name, table_name_at, table);
    return usage_error("there is nothing to set that is called '%s'%s%s%s", name, near ? ": did you mean " : "", near ? near : "",
                       near ? "?" : "");
}

/* ---- help ---- */

void args_print_wrapped(FILE *f, const char *text, size_t column, size_t indent)
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

const char *args_default(const struct opt *o, char buf[32])
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
    snprintf(text, sizeof text, "%s%s", o->help, args_default(o, def));
    args_print_wrapped(f, text, HELP_COLUMN, HELP_COLUMN);
}

/* The lines of a paragraph are joined and wrapped; those that begin with a space are examples and stay as they are. */
static void print_about(FILE *f, const char *s)
{
    char paragraph[2048];
    for (size_t n, used = 0;; s += n + 1) {
        n = strcspn(s, "\n");
        bool joined = n && *s != ' ' && used + n + 2 < sizeof paragraph;
        if (joined) {
            used += (size_t)snprintf(paragraph + used, sizeof paragraph - used, "%s%.*s", used ? " " : "", (int)n, s);
        } else {
            if (used)
                args_print_wrapped(f, paragraph, 0, 0);
            fprintf(f, "%.*s\n", (int)n, s);
            used = 0;
        }
        if (s[n])
            continue;
        if (used)
            args_print_wrapped(f, paragraph, 0, 0);
        return;
    }
}

void args_help(FILE *f, const struct command *c)
{
    int column = fprintf(f, "usage: zinc %s", c->name);
    args_print_wrapped(f, c->usage, (size_t)column, 12);
    fputc('\n', f);
    print_about(f, c->about);
    for (const struct opt_group *g = c->groups; g && g->title; g++) {
        fprintf(f, "\n%s:\n", g->title);
        for (const struct opt *o = g->opts; o->name; o++)
            print_option(f, o);
    }
}
