/* metal/device.c: which GPU, what it can do, and its memory. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "metal/metal.h"

/* GPU cores of Apple's chips, the larger of the variants sold: the API tells the name alone. Source: Apple's technical
 * specifications of the Macs that have them. */
static const struct {
    const char *name;
    uint32_t cores;
} chips[] = {
    { "M1 Ultra", 64 }, { "M1 Max", 32 }, { "M1 Pro", 16 }, { "M1", 8 },
    { "M2 Ultra", 76 }, { "M2 Max", 38 }, { "M2 Pro", 19 }, { "M2", 10 },
    { "M3 Ultra", 80 }, { "M3 Max", 40 }, { "M3 Pro", 18 }, { "M3", 10 },
    { "M4 Max", 40 },   { "M4 Pro", 20 }, { "M4", 10 },
    { "M5 Max", 40 },   { "M5 Pro", 20 }, { "M5", 10 },
};
enum { CORES_UNKNOWN = 10 };

uint32_t metal_cores(const char *name)
{
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strstr(name, chips[i].name))
            return chips[i].cores;
    return CORES_UNKNOWN;
}

void metal_error(id error, char *out, size_t n)
{
    if (!error)
        snprintf(out, n, "no reason given");
    else
        snprintf(out, n, "%s %ld: %s", objc_text(error_domain(error)), error_code(error), objc_text(error_text(error)));
    out[strcspn(out, "\n")] = 0;
}

/* ---- choosing ---- */

static bool matches(id device, unsigned long i, const struct tier_opts *o)
{
    if (o->device_name)
        return strcasestr(objc_text(device_name(device)), o->device_name) != NULL;
    return o->device < 0 || (unsigned long)o->device == i;
}

int metal_pick(const struct tier_opts *o, id *out, struct err *e)
{
    char seen[120] = "";
    *out = o->device < 0 && !o->device_name ? objc.default_device() : NULL;
    if (*out)
        return 0;
    id all = objc.all_devices();
    unsigned long n = array_count(all);
    for (unsigned long i = 0; i < n && !*out; i++) {
        id device = array_at(all, i);
        size_t len = strlen(seen);
        snprintf(seen + len, sizeof seen - len, "%s%lu: %s", len ? ", " : "", i, objc_text(device_name(device)));
        if (matches(device, i, o))
            *out = object_retain(device);
    }
    object_release(all);
    if (*out)
        return 0;
    if (!n)
        return err_set(e, -ENODEV, "metal: macOS gives this program no GPU (a virtual machine, a sandbox, no session?)");
    if (o->device_name)
        return err_set(e, -ENODEV, "metal: no GPU's name contains '%.32s'; there are %.100s", o->device_name, seen);
    return err_set(e, -ENODEV, "metal: no GPU %d; there are %.100s", o->device, seen);
}

int metal_check(id device, struct err *e)
{
    const char *name = objc_text(device_name(device));
    if (!objc.class_of("MTLResidencySetDescriptor"))
        return err_set(e, -ENODEV, "metal: this macOS is too old for the kernels, which need macOS 15 (Metal Shading Language 3.2)");
    if (!device_family(device, METAL_FAMILY_APPLE7) || !device_family(device, METAL_FAMILY_METAL3) || !device_unified(device))
        return err_set(e, -ENODEV, "metal: %s is not Apple silicon of M1 and later (families Apple7 and Metal3)", name);
    if (device_shared_max(device) < METAL_SHARED_MAX)
        return err_set(e, -ENODEV, "metal: %s gives a work-group %lu bytes of memory, %d are needed", name,
                       device_shared_max(device), METAL_SHARED_MAX);
    return 0;
}

void metal_describe_device(id device, struct tier_info *info)
{
    uint64_t all = device_working_set(device), used = device_allocated(device);
    snprintf(info->device, sizeof info->device, "%s", objc_text(device_name(device)));
    info->mem_bytes = all;
    info->mem_free_bytes = all > used ? all - used : 0;
    info->by_capacity = true;
    info->kv_planes = true;
    info->compiles = true;
    info->chunk = 512;
}

int metal_device_open(struct metal_tier *m, struct err *e)
{
    char why[200];
    id error = NULL, d = objc_new("MTLResidencySetDescriptor");
    set_label(d, objc_string("zinc"));
    m->residency = device_residency(m->device, d, &error);
    object_release(d);
    m->queue = device_queue(m->device);
    m->event = device_event(m->device);
    m->fence = device_fence(m->device);
    if (!m->residency || !m->queue || !m->event || !m->fence) {
        metal_error(error, why, sizeof why);
        return err_set(e, -EIO, "metal: %s has no command queue, event or residency set for us: %s",
                       objc_text(device_name(m->device)), why);
    }
    queue_residency(m->queue, m->residency);
    return 0;
}

/* ---- memory ---- */

int metal_alloc(struct metal_tier *m, uint64_t bytes, const char *name, struct metal_mem *out, struct err *e)
{
    uint64_t all = device_working_set(m->device), used = device_allocated(m->device), most = device_buffer_max(m->device);
    *out = (struct metal_mem){ 0 };
    bytes = align_up(MAX(bytes, (uint64_t)METAL_ARGS_ALIGN), METAL_ARGS_ALIGN);
    if (bytes > most)
        return err_set(e, -ENOMEM, "metal: %s takes %llu MiB, a buffer of this GPU at most %llu MiB: a smaller model or context",
                       name, (unsigned long long)bytes >> 20, (unsigned long long)most >> 20);
    if (used + bytes > all) /* macOS takes more and fails later, when it is used */
        return err_set(e, -ENOMEM, "metal: %s takes %llu MiB beside %llu MiB in use, the GPU may use %llu MiB: a smaller model or "
                       "context, or more for the GPU until the next start (sudo sysctl iogpu.wired_limit_mb=...)", name,
                       (unsigned long long)bytes >> 20, (unsigned long long)used >> 20, (unsigned long long)all >> 20);
    id b = device_buffer(m->device, bytes, METAL_SHARED_UNTRACKED);
    if (!b)
        return err_set(e, -ENOMEM, "metal: macOS gave no %llu MiB for %s", (unsigned long long)bytes >> 20, name);
    set_label(b, objc_string(name));
    *out = (struct metal_mem){ .buffer = b, .va = buffer_address(b), .bytes = bytes, .cpu = buffer_contents(b) };
    residency_add(m->residency, b);
    commit(m->residency);
    return 0;
}

void metal_free(struct metal_tier *m, struct metal_mem *mem)
{
    if (mem->buffer) {
        residency_remove(m->residency, mem->buffer);
        commit(m->residency);
        object_release(mem->buffer);
    }
    *mem = (struct metal_mem){ 0 };
}
