#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const char *const module_name[] = {
#define X(name, prefix) prefix,
    LOG_MODULES(X)
#undef X
};
static const char *const level_name[] = { "err", "warn", "info", "debug", "trace" };
static uint8_t level_of[LOGM_COUNT] = {
#define X(name, prefix) LOG_WARN,
    LOG_MODULES(X)
#undef X
};

static int find(const char *const *names, int n, const char *s, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == len && memcmp(names[i], s, len) == 0)
            return i;
    return -1;
}

void log_configure(const char *spec)
{
    while (spec && *spec) {
        size_t len = strcspn(spec, ",");
        const char *eq = memchr(spec, '=', len);
        const char *lv = eq ? eq + 1 : spec;
        int l = find(level_name, 5, lv, (size_t)(spec + len - lv));
        int m = eq ? find(module_name, LOGM_COUNT, spec, (size_t)(eq - spec)) : -1;
        if (l < 0 || (eq && m < 0))
            log_warn(BASE, "ZINC_LOG: '%.*s' is not LEVEL or MODULE=LEVEL (levels: err warn info debug trace)",
                     (int)len, spec);
        else if (eq)
            level_of[m] = (uint8_t)l;
        else
            memset(level_of, l, sizeof level_of);
        spec += len + (spec[len] == ',');
    }
}

bool log_enabled(enum log_module m, enum log_level l)
{
    return l <= level_of[m];
}

void log_write(enum log_module m, enum log_level l, const char *fmt, ...)
{
    static uint64_t start_ns;
    uint64_t now = clock_ns();
    if (!start_ns)
        start_ns = now;
    char line[1024];
    int n = snprintf(line, sizeof line, "[%7.3f] %s %s: ", (double)(now - start_ns) * 1e-9, module_name[m],
                     level_name[l]);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s\n", line);
}
