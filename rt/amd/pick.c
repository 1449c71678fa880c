/* rt/amd/pick.c: which of several cards. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "rt/amd/tier.h"

static bool matches(const struct amd_choice *c, int i, const struct tier_opts *o)
{
    if (o->device_name)
        return strcasestr(c->name, o->device_name) != NULL;
    return o->device < 0 || o->device == i;
}

/* Those that zinc has kernels for, then the larger. */
static uint64_t rank(const struct amd_choice *c)
{
    return (uint64_t)(c->chip != NULL) << 40 | c->n_cu;
}

int amd_pick(const char *tier, const struct amd_choice *c, int n, const struct tier_opts *o, struct err *e)
{
    char seen[100] = "";
    int best = -1;
    for (int i = 0; i < n; i++) {
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%d: %s", len ? ", " : "", i, c[i].name);
        if (matches(&c[i], i, o) && (best < 0 || rank(&c[i]) > rank(&c[best])))
            best = i;
    }
    if (best < 0 && o->device_name)
        return err_set(e, -ENODEV, "%s: no GPU's name contains '%.32s'; there are %.80s", tier, o->device_name, seen);
    return best < 0 ? err_set(e, -ENODEV, "%s: no GPU %d; there are %s", tier, o->device, seen) : best;
}

const char *amd_without_prefix(const struct err *e, const char *tier)
{
    size_t n = strlen(tier);
    return strncmp(e->msg, tier, n) == 0 && strncmp(e->msg + n, ": ", 2) == 0 ? e->msg + n + 2 : e->msg;
}
