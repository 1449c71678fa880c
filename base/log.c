#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
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

static _Thread_local const struct log_sink *diverted;

const struct log_sink *log_divert(const struct log_sink *sink)
{
    const struct log_sink *before = diverted;
    diverted = sink;
    return before;
}

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
    return l <= (diverted ? diverted->level : level_of[m]);
}

void log_write(enum log_module m, enum log_level l, const char *fmt, ...)
{
    static atomic_uint_least64_t start_ns;
    uint64_t now = clock_ns(), start = 0;
    if (atomic_compare_exchange_strong(&start_ns, &start, now))
        start = now;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (diverted)
        diverted->fn(diverted->user, l, module_name[m], text);
    else
        fprintf(stderr, "[%7.3f] %s %s: %s\n", (double)(now - start) * 1e-9, module_name[m], level_name[l], text);
}
