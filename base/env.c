#include "base/env.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

extern char **environ;

/* Whether all words of the list are among `known`; "a,b" both. */
static bool known_words(const char *list, const char *known)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        bool found = false;
        n = strcspn(list, ",");
        for (const char *k = known; *k && !found; k += strcspn(k, ",") + (k[strcspn(k, ",")] == ','))
            found = n && strcspn(k, ",") == n && memcmp(k, list, n) == 0;
        if (!found)
            return false;
    }
    return true;
}

static void parse_str(const char *var, const char *s, const char *values, void *out)
{
    if (strchr(values, ',') && !known_words(s, values))
        log_warn(BASE, "%s='%s' is not a list of %s; ignored", var, s, values);
    else
        *(const char **)out = s;
}

static void parse_int(const char *var, const char *s, const char *values, void *out)
{
    char *end;
    long lo = 0, hi = 0, v = strtol(s, &end, 10);
    sscanf(values, "%ld..%ld", &lo, &hi);
    if (end == s || *end || v < lo || v > hi)
        log_warn(BASE, "%s='%s' is not a number from %ld to %ld; ignored", var, s, lo, hi);
    else
        *(int *)out = (int)v;
}

static void warn_unknown(void)
{
    static const char *const known[] = {
#define X(field, var, type, def, shown, values, help) var,
#include "base/env.def"
#undef X
    };
    for (char **p = environ; p && *p; p++) {
        size_t len = strcspn(*p, "=");
        bool found = strncmp(*p, "ZINC_", 5) != 0;
        for (size_t i = 0; !found && i < sizeof known / sizeof *known; i++)
            found = strlen(known[i]) == len && memcmp(known[i], *p, len) == 0;
        if (!found)
            log_warn(BASE, "unknown environment variable %.*s (see zinc --help-env)", (int)len, *p);
    }
}

static struct env env = {
#define X(field, var, type, def, shown, values, help) .field = def,
#include "base/env.def"
#undef X
};

static void read_all(void)
{
    const char *s;
#define X(field, var, type, def, shown, values, help)                                                                                 \
    if ((s = getenv(var)) && *s)                                                                                       \
        _Generic((type){ 0 }, const char *: parse_str, int: parse_int)(var, s, values, &env.field);
#include "base/env.def"
#undef X
    log_configure(env.log);
    warn_unknown();
}

const struct env *env_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
    return &env;
}

enum { HELP_COLUMN = 24, HELP_WIDTH = 80 };

static void print_wrapped(FILE *f, const char *text)
{
    size_t column = HELP_COLUMN;
    for (size_t n; *text; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        if (column > HELP_COLUMN && column + n + 1 > HELP_WIDTH) {
            fprintf(f, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        column += (size_t)fprintf(f, "%s%.*s", column > HELP_COLUMN ? " " : "", (int)n, text);
    }
    fputc('\n', f);
}

static void print_variable(FILE *f, const char *var, const char *shown, const char *help)
{
    char text[400];
    snprintf(text, sizeof text, "%s [%s]", help, shown);
    fprintf(f, "  %-*s", HELP_COLUMN - 2, var);
    print_wrapped(f, text);
}

void env_print_help(FILE *f)
{
#define X(field, var, type, def, shown, values, help) print_variable(f, var, shown, help);
#include "base/env.def"
#undef X
}

void env_each(void (*fn)(void *user, const char *var, const char *shown, const char *help), void *user)
{
#define X(field, var, type, def, shown, values, help) fn(user, var, shown, help);
#include "base/env.def"
#undef X
}
