/* rt/auto.c: the tier of --tier=auto, and the order of the ways to an AMD card. */
#include "rt/auto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/auto_file.h"

enum { MAX_WAYS = 8, KEY_BYTES = 2000 };

/* A way to the card that probes well. */
struct way {
    const struct tier_driver *d;
    struct tier_info info;
    double us; /* of a step; 0: unknown, below 0: it failed when it was tried */
    struct err why; /* it failed just now */
};

static const char file_name[] = "tiers-amd";

/* ---- the file ---- */

/* All that the order depends on, in one line. */
static void key_of(const struct way *w, uint32_t n, char key[KEY_BYTES])
{
    struct utsname u;
    size_t len = (size_t)snprintf(key, KEY_BYTES, "zinc %s; Linux %s", ZINC_VERSION, uname(&u) ? "?" : u.release);
    for (uint32_t i = 0; i < n && len < KEY_BYTES; i++)
        len += (size_t)snprintf(key + len, KEY_BYTES - len, "; %s: %s, %s, firmware %u", w[i].d->name, w[i].info.device,
                                w[i].info.note, w[i].info.firmware);
    for (char *p = key; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
}

static void times_of(const struct way *w, uint32_t n, struct auto_time t[MAX_WAYS])
{
    for (uint32_t i = 0; i < n; i++)
        t[i] = (struct auto_time){ w[i].d->name, w[i].us };
}

static bool known(const char *key, struct way *w, uint32_t n)
{
    char path[CACHE_PATH];
    struct auto_time t[MAX_WAYS];
    times_of(w, n, t);
    if (!auto_file_load(file_name, key, t, n, path))
        return false;
    log_info(RT, "the order of the ways to the card is that of %s", path);
    for (uint32_t i = 0; i < n; i++)
        w[i].us = t[i].us;
    return true;
}

static void keep(const char *key, const struct way *w, uint32_t n)
{
    struct auto_time t[MAX_WAYS];
    times_of(w, n, t);
    auto_file_keep(file_name, key, t, n);
}

void auto_describe(char *out, size_t n)
{
    char path[CACHE_PATH];
    auto_file_tell(file_name, out, n, path);
    size_t len = strlen(out);
    if (len)
        snprintf(out + len, n - len, " us a small step, the least first (%s)", path);
}

/* ---- the order ---- */

static int by_time(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    bool fx = x->us < 0, fy = y->us < 0;
    return fx != fy ? fx - fy : (x->us > y->us) - (x->us < y->us);
}

static void measure(struct way *w, uint32_t n, const struct tier_opts *o)
{
    log_info(RT, "trying %u ways to %s, once; the order is kept", n, w[0].info.device);
    for (uint32_t i = 0; i < n; i++) {
        if (auto_trial(w[i].d, o, &w[i].us, &w[i].why)) {
            w[i].us = -1;
            log_warn(RT, "tier %s is passed over: %s", w[i].d->name, w[i].why.msg);
        } else {
            log_info(RT, "tier %s: %.2f us a small step", w[i].d->name, w[i].us);
        }
    }
}

static void put_in_order(struct way *w, uint32_t n, const struct tier_opts *o)
{
    char key[KEY_BYTES];
    const char *how = env_get()->how_auto;
    bool list = how && strcmp(how, "list") == 0, again = how && strcmp(how, "measure") == 0;
    if (how && !list && !again)
        log_warn(RT, "ZINC_AUTO=%s: expected measure or list; ignored", how);
    if (n < 2 || list)
        return;
    key_of(w, n, key);
    bool from_file = !again && known(key, w, n);
    if (!from_file)
        measure(w, n, o);
    qsort(w, n, sizeof *w, by_time); /* glibc's keeps the list's order among equals */
    if (!from_file)
        keep(key, w, n);
}

/* ---- opening ---- */

struct reasons {
    char text[400];
};

static void add_reason(struct reasons *r, const struct tier_driver *d, const char *why)
{
    size_t n = strlen(r->text);
    snprintf(r->text + n, sizeof r->text - n, "%s%s: %.180s", n ? "; " : "", d->name, why);
}

static int open_one(const struct tier_driver *d, const struct tier_opts *o, struct tier **out, struct reasons *why)
{
    struct err first = { 0 };
    int rc = d->open(o, out, &first);
    if (rc == 0) {
        log_info(RT, "tier %s: %s", d->name, (*out)->info.device);
        return 0;
    }
    log_warn(RT, "tier %s probed well but did not open: %s", d->name, first.msg);
    add_reason(why, d, first.msg);
    return rc;
}

/* A way that failed when it was tried a moment ago is not tried again: a card that hangs takes its time to be found out. */
static int open_way(const struct way *w, const struct tier_opts *o, struct tier **out, struct reasons *why)
{
    if (!w->why.code)
        return open_one(w->d, o, out, why);
    add_reason(why, w->d, w->why.msg);
    return w->why.code;
}

/* Can the driver run here, and may it? Says why not. */
static bool may_run(const struct tier_driver *d, const struct tier_opts *o, struct tier_info *info, struct reasons *why)
{
    struct err e = { 0 };
    if (tier_check_device(d, o, &e)) {
        add_reason(why, d, e.msg);
        return false;
    }
    int rc = d->probe(o, info);
    if (rc && rc != -ENODEV)
        log_warn(RT, "tier %s is passed over: %s", d->name, info->note);
    else if (rc)
        log_info(RT, "tier %s: %s", d->name, info->note);
    if (rc)
        add_reason(why, d, info->note);
    else if (info->software)
        log_info(RT, "tier %s is passed over: %s is software", d->name, info->device);
    return rc == 0 && !info->software;
}

int auto_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    struct reasons why = { "" };
    struct way *way = calloc(MAX_WAYS, sizeof *way);
    uint32_t n = 0;
    int rc = -ENODEV;
    if (!way)
        return err_set(e, -ENOMEM, "tier: out of memory");
    for (const struct tier_driver *const *d = tier_drivers; *d && rc; d++) {
        struct tier_info info = { 0 };
        if (*d == &tier_driver_null || *d == &tier_driver_lockstep)
            continue;
        bool runs = may_run(*d, o, &info, &why);
        if (runs && info.amd && n < MAX_WAYS) {
            way[n++] = (struct way){ .d = *d, .info = info };
            runs = false;
        }
        /* the ways to an AMD card are known before anything else than them is tried */
        bool last_way = d[1] == NULL || d[1] == &tier_driver_cpu;
        if (n && last_way) {
            put_in_order(way, n, o);
            for (uint32_t i = 0; i < n && rc; i++)
                rc = open_way(&way[i], o, out, &why);
            n = 0;
        }
        if (runs && rc)
            rc = open_one(*d, o, out, &why);
    }
    free(way);
    return rc ? err_set(e, -ENODEV, "tier: none can run here: %s", why.text) : 0;
}
