/* rt/kfd/topology.c: which GPUs the driver shows in sysfs, and whether this user may open them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "rt/kfd/kfd.h"

#define ROOT "/sys/devices/virtual/kfd/kfd/topology/nodes"
enum { MAX_NODES = 64, MAX_BANKS = 16, HEAP_VISIBLE = 1, HEAP_PRIVATE = 2 };

/* The number behind `key` in lines of "key number"; `missing` without it. */
static uint64_t property(const char *text, const char *key, uint64_t missing)
{
    size_t n = strlen(key);
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, n) == 0 && p[n] == ' ')
            return strtoull(p + n + 1, NULL, 10);
    return missing;
}

static void read_banks(struct kfd_sys *s, struct kfd_gpu *g)
{
    char path[160], text[1024];
    uint32_t bank[MAX_BANKS];
    snprintf(path, sizeof path, ROOT "/%u/mem_banks", g->node);
    int n = kfd_sys_list(s, path, bank, MAX_BANKS);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, ROOT "/%u/mem_banks/%u/properties", g->node, bank[i]);
        if (kfd_sys_read(s, path, text, sizeof text) < 0)
            continue;
        uint64_t heap = property(text, "heap_type", 0), bytes = property(text, "size_in_bytes", 0);
        if (heap == HEAP_VISIBLE)
            g->vram_visible_bytes += bytes;
        if (heap == HEAP_VISIBLE || heap == HEAP_PRIVATE)
            g->vram_bytes += bytes;
    }
}

/* "gfx1036" from 100306. */
static void version_name(uint32_t version, char *out, size_t n)
{
    snprintf(out, n, "gfx%u%x%x", version / 10000, version / 100 % 100, version % 100);
}

static void name_gpu(struct kfd_gpu *g)
{
    char gfx[24];
    version_name(g->version, gfx, sizeof gfx);
    if (g->chip)
        snprintf(g->name, sizeof g->name, "%s (%s, %u CUs)", g->chip->product, gfx, g->n_cu);
    else
        snprintf(g->name, sizeof g->name, "%s", gfx);
}

/* A node that is a GPU; false: it is a CPU, hidden, or cannot be read. */
static bool read_node(struct kfd_sys *s, uint32_t node, struct kfd_gpu *g)
{
    char path[128], text[8192];
    *g = (struct kfd_gpu){ .node = node };
    snprintf(path, sizeof path, ROOT "/%u/gpu_id", node);
    if (kfd_sys_read(s, path, text, sizeof text) <= 0 || !(g->gpu_id = (uint32_t)strtoul(text, NULL, 10)))
        return false;
    snprintf(path, sizeof path, ROOT "/%u/properties", node);
    int rc = kfd_sys_read(s, path, text, sizeof text);
    if (rc < 0) {
        log_warn(KFD, "%s: %s", path, strerror(-rc));
        return false;
    }
    g->version = (uint32_t)property(text, "gfx_target_version", 0);
    g->chip = amd_chip_of(g->version);
    g->render_minor = (uint32_t)property(text, "drm_render_minor", 0);
    g->n_xcc = (uint32_t)MAX(property(text, "num_xcc", 1), 1u);
    g->simd_per_cu = (uint32_t)property(text, "simd_per_cu", 0);
    g->n_cu = (uint32_t)property(text, "simd_count", 0) / MAX(g->simd_per_cu, 1u);
    g->n_se = (uint32_t)(property(text, "array_count", 0) / MAX(property(text, "simd_arrays_per_engine", 1), 1u)) /
              g->n_xcc;
    g->waves_per_simd = (uint32_t)property(text, "max_waves_per_simd", 0);
    g->scratch_slots_cu = (uint32_t)property(text, "max_slots_scratch_cu", 32);
    g->lds_kib = (uint32_t)property(text, "lds_size_in_kb", 64);
    g->clock_mhz = (uint32_t)property(text, "max_engine_clk_fcompute", 0);
    g->mec_firmware = (uint32_t)property(text, "fw_version", 0) & 0x3ff;
    g->cwsr_bytes = (uint32_t)property(text, "cwsr_size", 0);
    g->ctl_stack_bytes = (uint32_t)property(text, "ctl_stack_size", 0);
    read_banks(s, g);
    if (!g->vram_bytes)
        g->vram_bytes = property(text, "local_mem_size", 0);
    name_gpu(g);
    if (g->render_minor == 0 || g->render_minor > 0xffff || !g->n_cu || !g->n_se) {
        log_warn(KFD, "node %u, %s: hidden from this user (render minor %u, %u CUs): a container needs "
                 "--device=/dev/dri",
                 node, g->name, g->render_minor, g->n_cu);
        return false;
    }
    return true;
}

int kfd_topology(struct kfd_sys *s, struct kfd_gpu *gpus, uint32_t cap, struct err *e)
{
    uint32_t node[MAX_NODES], n = 0;
    int nodes = kfd_sys_list(s, ROOT, node, MAX_NODES);
    if (nodes < 0)
        return err_set(e, -ENODEV, "kfd: no AMD compute driver here: %s: %s (is the amdgpu module loaded, with a "
                       "GPU that it supports?)", ROOT, strerror(-nodes));
    for (int i = 0; i < nodes && n < cap; i++)
        n += read_node(s, node[i], &gpus[n]);
    return n ? (int)n : err_set(e, -ENODEV, "kfd: the driver shows no AMD GPU among %d nodes of %s", nodes, ROOT);
}

static int try_open(struct kfd_sys *s, const char *path, struct err *e)
{
    int fd = kfd_sys_open(s, path);
    if (fd >= 0) {
        kfd_sys_close(s, fd);
        return 0;
    }
    if (fd == -EACCES || fd == -EPERM)
        return err_set(e, -EACCES, "kfd: no permission for %s: sudo usermod -aG render $USER (older systems: "
                       "video), then log in again; in a container --device=/dev/kfd --device=/dev/dri --group-add "
                       "the host's render group id", path);
    if (fd == -ENOENT || fd == -ENODEV || fd == -ENXIO)
        return err_set(e, -ENODEV, "kfd: there is no %s: the amdgpu driver is not loaded, or the device is not "
                       "passed into this container", path);
    return err_set(e, fd, "kfd: opening %s: %s", path, strerror(-fd));
}

int kfd_access(struct kfd_sys *s, const struct kfd_gpu *g, struct err *e)
{
    char path[64];
    int rc = try_open(s, "/dev/kfd", e);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "/dev/dri/renderD%u", g->render_minor);
    return try_open(s, path, e);
}
