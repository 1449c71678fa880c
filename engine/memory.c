/* Does the plan fit? Asked before anything is allocated, so that the answer has figures and a remedy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"

#ifdef __APPLE__
uint64_t host_memory_available(void)
{
    return macos_memory_available();
}
#else
static uint64_t read_u64(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    char line[256];
    uint64_t v = 0;
    size_t n = key ? strlen(key) : 0;
    while (fgets(line, sizeof line, f))
        if (!key || strncmp(line, key, n) == 0) {
            v = strtoull(line + n, NULL, 10); /* "max" reads as 0: no limit */
            break;
        }
    fclose(f);
    return v;
}

uint64_t host_memory_available(void)
{
    uint64_t free_bytes = read_u64("/proc/meminfo", "MemAvailable:") * 1024;
    uint64_t limit = read_u64("/sys/fs/cgroup/memory.max", NULL);
    if (limit) {
        uint64_t used = read_u64("/sys/fs/cgroup/memory.current", NULL);
        uint64_t cache = read_u64("/sys/fs/cgroup/memory.stat", "file ");
        used = used > cache ? used - cache : 0;
        free_bytes = MIN(free_bytes, limit > used ? limit - used : 0);
    }
    return free_bytes;
}
#endif

uint64_t engine_memory_available(const struct engine *eng)
{
    const struct tier_info *t = &eng->tier->info;
    if (t->dry_run)
        return 0;
    return t->host_memory || !t->mem_bytes ? host_memory_available() : t->mem_free_bytes;
}

int engine_check_memory(struct engine *eng, bool ignore, struct err *e)
{
    struct engine_info *in = &eng->info;
    const struct tier_info *t = &eng->tier->info;
    uint64_t weights = t->maps_weights ? 0 : in->weight_bytes;
    uint64_t rest = in->const_bytes + in->state_bytes + in->scratch_bytes + in->io_bytes;
    uint64_t need = weights + in->kv_bytes + rest;
    uint64_t have = engine_memory_available(eng);
    in->mem_need = need;
    in->mem_free = have;
    in->host_memory = t->host_memory || !t->mem_bytes;
    if (ignore || !have || need <= have)
        return 0;
    const double gib = 1.0 / (1 << 30);
    char remedy[64];
    uint64_t each = MAX(in->kv_bytes / MAX(in->n_ctx, 1u), (uint64_t)1), fixed = need - in->kv_bytes;
    uint64_t fits = fixed < have ? (have - fixed) / each / 256 * 256 : 0;
    if (in->weight_bytes > have)
        snprintf(remedy, sizeof remedy, "take a smaller quantisation of the model");
    else if (in->kv_bytes && fits && fits < in->n_ctx)
        snprintf(remedy, sizeof remedy, "--ctx %llu would fit", (unsigned long long)fits);
    else
        snprintf(remedy, sizeof remedy, "close other programs, or try a smaller --ctx or --chunk");
    return err_set(e, -ENOMEM,
                   "engine: %s needs %.2f GiB (weights %.2f, kv %.2f for a context of %u x %u, other %.2f), %s has %.2f "
                   "GiB free: %s", eng->label, (double)need * gib, (double)weights * gib, (double)in->kv_bytes * gib,
                   in->n_ctx, in->n_slots, (double)rest * gib, t->host_memory ? "this machine" : eng->device,
                   (double)have * gib, remedy);
}
