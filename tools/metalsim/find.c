/* tools/metalsim/find.c: a kernel's text among those that were built. */
#include <string.h>

#include "tools/metalsim/kernels.h"

extern const struct msim_module *const msim_modules[] __attribute__((weak)); /* made by mk/msl.mk */
enum { MAX_ADDED = 8 };
static const struct msim_module *added[MAX_ADDED];
static int n_added;

void msim_module_add(const struct msim_module *m)
{
    if (n_added < MAX_ADDED)
        added[n_added++] = m;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h;
}

const struct msim_module *msim_module_find(const char *text, size_t n)
{
    uint64_t hash = hash_of(text, n);
    for (int i = 0; i < n_added; i++)
        if (added[i]->hash == hash && added[i]->text_bytes == n)
            return added[i];
    for (const struct msim_module *const *m = msim_modules; m && *m; m++)
        if ((*m)->hash == hash && (*m)->text_bytes == n)
            return *m;
    return NULL;
}
