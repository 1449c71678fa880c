/* Options and the lines on stderr. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

static const char *const injection_names[] = {
#define X(id, text) [KMD_INJECT_##id] = text,
    KMD_INJECTIONS(X)
#undef X
};

static void say(const char *prefix, const char *fmt, va_list ap)
{
    char line[900];
    int n = snprintf(line, sizeof line, "%s", prefix);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    if (n > (int)sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0) /* one write: lines of several threads stay whole */
        return;
}

void kmd_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("amdsim: ", fmt, ap);
    va_end(ap);
}

void kmd_dmesg(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("amdsim: kernel: ", fmt, ap);
    va_end(ap);
}

int kmd_why(int err, const char *fmt, ...)
{
    if (kmd_options()->log) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "amdsim: %s: ", strerrorname_np(-err) ? strerrorname_np(-err) : "refused");
        va_list ap;
        va_start(ap, fmt);
        say(prefix, fmt, ap);
        va_end(ap);
    }
    return err;
}

static bool is_on(const char *name)
{
    const char *v = getenv(name);
    return v && *v && strcmp(v, "0") != 0;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    if (!v || !*v)
        return otherwise;
    char *end;
    uint64_t n = strtoull(v, &end, 0);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == v || (*end && (!shift || end[1]))) {
        kmd_say("%s is '%s', expected a number with an optional K, M or G; taken as %llu", name, v,
                (unsigned long long)otherwise);
        return otherwise;
    }
    return n << shift;
}

/* "6.12" -> 6012 */
static uint32_t kernel_version(const char *v)
{
    unsigned major = 0, minor = 0;
    if (!v || !*v)
        return 6018;
    if (sscanf(v, "%u.%u", &major, &minor) != 2 || minor > 999) {
        kmd_say("AMDSIM_KERNEL is '%s', expected a version like 6.12; taken as 6.18", v);
        return 6018;
    }
    return major * 1000 + minor;
}

static void read_injections(struct kmd_options *o)
{
    const char *v = getenv("AMDSIM_INJECT");
    char list[256];
    snprintf(list, sizeof list, "%s", v ? v : "");
    for (char *save = NULL, *t = strtok_r(list, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        bool known = false;
        for (int i = 0; i < KMD_N_INJECTIONS; i++)
            if (strcmp(t, injection_names[i]) == 0)
                known = o->inject[i] = true;
        if (!known)
            kmd_say("AMDSIM_INJECT: '%s' is not known; amdsim --help lists what can be injected", t);
    }
}

static void read_user_queues(struct kmd_options *o)
{
    const char *v = getenv("AMDSIM_USER_QUEUES");
    o->user_queues = o->inject[KMD_INJECT_NO_KERNEL_QUEUES] ? KMD_USERQ_ONLY : KMD_USERQ_ON;
    if (!v || !*v || strcmp(v, "on") == 0)
        return;
    if (strcmp(v, "off") != 0 && strcmp(v, "only") != 0)
        kmd_say("AMDSIM_USER_QUEUES is '%s', expected off, on or only; taken as on", v);
    else
        o->user_queues = v[1] == 'f' ? KMD_USERQ_OFF : KMD_USERQ_ONLY;
}

/* "mec=2600,mes=110" over versions that are new enough for everything. */
static void read_firmware(struct kmd_options *o)
{
    static const char *const names[KMD_N_FIRMWARES] = { "me", "pfp", "mec", "mes" };
    static const uint32_t gfx11[] = { 2440, 2600, 2670, 130 }, gfx12[] = { 2860, 2920, 3168, 130 };
    const char *v = getenv("AMDSIM_FIRMWARE");
    char list[128];
    memcpy(o->firmware, o->chip->gfx12 ? gfx12 : gfx11, sizeof o->firmware);
    snprintf(list, sizeof list, "%s", v ? v : "");
    for (char *save = NULL, *t = strtok_r(list, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        char *value = strchr(t, '=');
        int i = 0;
        if (value)
            *value++ = 0;
        while (i < KMD_N_FIRMWARES && strcmp(t, names[i]) != 0)
            i++;
        if (i == KMD_N_FIRMWARES || !value || !*value || strspn(value, "0123456789") != strlen(value))
            kmd_say("AMDSIM_FIRMWARE: '%s' is not one of me, pfp, mec or mes with = and a version", t);
        else
            o->firmware[i] = (uint32_t)strtoul(value, NULL, 10);
    }
}

static void parse(struct kmd_options *o)
{
    const char *gpu = getenv("AMDSIM_GPU");
    o->chip = chip_find(gpu && *gpu ? gpu : "gfx1201");
    if (!o->chip) {
        kmd_say("AMDSIM_GPU is '%s', expected one of the cards that amdsim --list shows; taken as gfx1201", gpu);
        o->chip = chip_find("gfx1201");
    }
    o->vram_bytes = number("AMDSIM_VRAM", o->chip->vram_bytes) & ~(uint64_t)(KMD_PAGE - 1);
    o->kernel = kernel_version(getenv("AMDSIM_KERNEL"));
    o->n_threads = (uint32_t)number("AMDSIM_THREADS", 0);
    o->hang_insts = number("AMDSIM_HANG_INSTS", 0);
    o->deadlock_ms = (uint32_t)number("AMDSIM_DEADLOCK_MS", 2000);
    o->lockup_ms = number("AMDSIM_LOCKUP_MS", 0);
    o->preempt_insts = number("AMDSIM_PREEMPT", 0);
    o->evict_dispatches = number("AMDSIM_EVICT", 0);
    o->reset_dispatch = number("AMDSIM_RESET", 0);
    o->trace = getenv("AMDSIM_TRACE");
    if (o->trace && !*o->trace)
        o->trace = NULL;
    o->strict = is_on("AMDSIM_STRICT");
    o->skip_execution = is_on("AMDSIM_SKIP_EXECUTION");
    o->small_bar = is_on("AMDSIM_SMALL_BAR");
    o->lenient = is_on("AMDSIM_LENIENT");
    o->log = is_on("AMDSIM_LOG");
    o->stats = is_on("AMDSIM_STATS");
    o->plain_offsets = is_on("AMDSIM_PLAIN_OFFSETS");
    read_firmware(o);
    read_injections(o);
    read_user_queues(o);
}

static void parse_once(void)
{
    parse(&card.opt);
}

const struct kmd_options *kmd_options(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, parse_once);
    return &card.opt;
}

bool kmd_injected(enum kmd_injection i)
{
    return kmd_options()->inject[i];
}
