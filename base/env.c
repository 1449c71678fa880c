#include "base/env.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

extern char **environ;

static const char *parse_str(const char *var, const char *s)
{
    (void)var;
    return s;
}

static int parse_int(const char *var, const char *s)
{
    char *end;
    long v = strtol(s, &end, 10);
    if (end == s || *end || v < 0 || v > 1000000) {
        log_warn(BASE, "%s='%s' is not a number from 0 to 1000000; ignored", var, s);
        return 0;
    }
    return (int)v;
}

static void warn_unknown(void)
{
    static const char *const known[] = {
#define X(field, var, type, def, help) var,
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

const struct env *env_get(void)
{
    static struct env env = {
#define X(field, var, type, def, help) .field = def,
#include "base/env.def"
#undef X
    };
    static bool done;
    if (done)
        return &env;
    done = true;
    const char *s;
#define X(field, var, type, def, help)                                                                                 \
    if ((s = getenv(var)) && *s)                                                                                       \
        env.field = _Generic((type){ 0 }, const char *: parse_str, int: parse_int)(var, s);
#include "base/env.def"
#undef X
    log_configure(env.log);
    warn_unknown();
    return &env;
}

void env_print_help(FILE *f)
{
#define X(field, var, type, def, help) fprintf(f, "  %-18s %s\n", var, help);
#include "base/env.def"
#undef X
}
