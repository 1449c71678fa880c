/* tools/metalsim/rules.c: options, counts, and what happens to who breaks a rule. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/metalsim/sim.h"

struct options sim_options = { .macos = 15, .chip = 1, .memory = (uint64_t)16 << 30 };
struct stats sim_stats;

void sim_broken(const char *rule, const char *fmt, ...)
{
    char line[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "metalsim: %s: %s\n", rule, line);
    _exit(SIM_BROKEN);
}

static void print_stats(void)
{
    fprintf(stderr, "metalsim: messages %llu, objects %llu, command buffers %llu, dispatches %llu, barriers %llu, libraries %llu, "
            "pipelines %llu, compiled %llu\n", (unsigned long long)sim_stats.messages, (unsigned long long)sim_stats.objects,
            (unsigned long long)sim_stats.command_buffers, (unsigned long long)sim_stats.dispatches,
            (unsigned long long)sim_stats.barriers, (unsigned long long)sim_stats.libraries, (unsigned long long)sim_stats.pipelines,
            (unsigned long long)sim_stats.compiled);
}

static bool option(const char *all, const char *name, char *value, size_t n)
{
    const char *at = strstr(all, name);
    if (!at)
        return false;
    at += strlen(name);
    snprintf(value, n, "%.*s", (int)strcspn(at, " "), at);
    return true;
}

/* METALSIM: the launcher's options (main.c), each with a space before and behind it. */
__attribute__((constructor)) static void read_options(void)
{
    const char *all = getenv("METALSIM");
    char v[64];
    if (!all)
        return;
    if (option(all, " --macos=", v, sizeof v))
        sim_options.macos = atoi(v);
    if (option(all, " --chip=m", v, sizeof v))
        sim_options.chip = atoi(v);
    if (option(all, " --memory=", v, sizeof v))
        sim_options.memory = (uint64_t)(strtod(v, NULL) * 1073741824.0);
    if (option(all, " --inject=", v, sizeof v)) {
        char *at = strchr(v, ':');
        sim_options.inject_at = at ? atoi(at + 1) : 1;
        sim_options.inject = v[0] == 't' ? INJECT_TIMEOUT : v[0] == 'm' ? INJECT_MEMORY : v[0] == 's' ? INJECT_SERIALIZE : INJECT_HANG;
    }
    sim_options.no_device = option(all, " --no-device ", v, sizeof v);
    sim_options.shuffle = option(all, " --shuffle ", v, sizeof v);
    sim_options.overlap = option(all, " --overlap ", v, sizeof v);
    sim_options.trace = option(all, " --trace ", v, sizeof v);
    if (option(all, " --stats ", v, sizeof v))
        atexit(print_stats);
}
