/* vk/cache.c: the driver's compiled pipelines on disk, so that a second start compiles nothing. One file for each device,
 * driver and set of shaders; a head of our own guards the driver from bytes that are not its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/cache.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/blob.h"
#include "vk/vk.h"

struct head {
    char magic[8];
    uint64_t key, bytes, check; /* of what follows: its length and XXH64 */
};
static const char magic[8] = "ZVKPC\0\0\1";
enum { CACHE_MAX = 256 << 20 };

static uint64_t key_of(const struct vk *v)
{
    const struct vk_device_info *d = &v->info;
    XXH64_state_t *h = XXH64_createState();
    uint32_t id[3] = { d->vendor, d->device, d->driver_version };
    if (!h)
        return 0;
    XXH64_reset(h, 0);
    XXH64_update(h, id, sizeof id);
    XXH64_update(h, d->cache_uuid, sizeof d->cache_uuid);
    XXH64_update(h, d->name, strlen(d->name));
    for (uint32_t i = 0; i < n_kernel_blobs; i++)
        if (strncmp(kernel_blobs[i].target, "spirv", 5) == 0)
            XXH64_update(h, kernel_blobs[i].frame, (size_t)(kernel_blobs[i].end - kernel_blobs[i].frame));
    uint64_t key = XXH64_digest(h);
    XXH64_freeState(h);
    return key;
}

static bool file_of(const struct vk *v, char path[CACHE_PATH])
{
    char name[48];
    snprintf(name, sizeof name, "vulkan-%016llx.cache", (unsigned long long)v->cache_key);
    return cache_path(env_get()->vulkan_cache, name, path);
}

/* The driver's bytes of a file that is whole and ours; NULL and nothing said where there is none. */
static void *read_file(const struct vk *v, const char *path, size_t *n)
{
    struct head h;
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    void *data = NULL;
    const char *why = NULL;
    if (fread(&h, sizeof h, 1, f) != 1 || memcmp(h.magic, magic, sizeof magic))
        why = "it is not a pipeline cache of zinc";
    else if (h.key != v->cache_key)
        why = "it is of another device, driver or zinc";
    else if (h.bytes > CACHE_MAX || !(data = malloc(h.bytes + 1)) || fread(data, 1, h.bytes + 1, f) != h.bytes)
        why = "its length is not what its head says";
    else if (XXH64(data, h.bytes, 0) != h.check)
        why = "its checksum is wrong";
    fclose(f);
    if (why) {
        log_warn(VK, "pipeline cache %s is ignored: %s; it will be written anew", path, why);
        free(data);
        return NULL;
    }
    *n = h.bytes;
    return data;
}

void vk_cache_open(struct vk *v)
{
    char path[CACHE_PATH];
    size_t n = 0;
    v->cache_key = key_of(v);
    void *data = v->fresh < 2 && file_of(v, path) ? read_file(v, path, &n) : NULL;
    VkPipelineCacheCreateInfo ci = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = n,
                                     .pInitialData = data };
    if (v->vk.CreatePipelineCache(v->dev, &ci, NULL, &v->cache)) {
        ci.initialDataSize = n = 0;
        if (v->vk.CreatePipelineCache(v->dev, &ci, NULL, &v->cache))
            v->cache = VK_NULL_HANDLE;
    }
    v->cache_bytes = n;
    if (n)
        log_info(VK, "pipeline cache %s, %zu KiB", path, n >> 10);
    free(data);
}

static bool write_file(const struct vk *v, const char *path, const void *data, size_t n)
{
    const struct head h = { .magic = { 'Z', 'V', 'K', 'P', 'C', 0, 0, 1 }, .key = v->cache_key, .bytes = n,
                            .check = XXH64(data, n, 0) };
    return cache_write(path, &h, sizeof h, data, n);
}

void vk_cache_save(struct vk *v)
{
    char path[CACHE_PATH];
    size_t n = 0;
    if (!v->cache || !file_of(v, path) || v->vk.GetPipelineCacheData(v->dev, v->cache, &n, NULL) || !n ||
        n > CACHE_MAX || n == v->cache_bytes)
        return;
    void *data = malloc(n);
    if (data && v->vk.GetPipelineCacheData(v->dev, v->cache, &n, data) == VK_SUCCESS) {
        if (write_file(v, path, data, n))
            v->cache_bytes = n;
        else
            log_info(VK, "pipeline cache %s cannot be written: %s; the next start compiles again", path, strerror(errno));
    }
    free(data);
}
