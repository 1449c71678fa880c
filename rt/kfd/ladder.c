/* rt/kfd/ladder.c: the kfd tier's first rungs, from a file that opens to a doorbell that advances; rt/amd has the rest. */
#include "rt/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/amd/ladder.h"
#include "rt/kfd/priv.h"

enum { RING_BYTES = 64 << 10 };

struct rungs {
    struct amd_rungs amd; /* first: the rungs of rt/amd/ladder.h follow */
    struct kfd_sys *sys;
    struct kfd_gpu gpu;
    struct kfd_winsys *w;
};

/* ---- files and memory ---- */

static int open_files(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_version v = { 0 };
    int fd = kfd_sys_open(r->sys, "/dev/kfd");
    if (fd == -EACCES || fd == -EPERM)
        return err_set(e, fd, "/dev/kfd: no permission: sudo usermod -aG render $USER, then log in again");
    if (fd < 0)
        return err_set(e, fd, "/dev/kfd: %s: expected a file of the amdgpu driver", strerror(-fd));
    int rc = kfd_sys_ioctl(r->sys, fd, KFD_IOC_GET_VERSION, &v);
    kfd_sys_close(r->sys, fd);
    if (rc)
        return err_set(e, rc, "/dev/kfd opens, but GET_VERSION gives %s", strerror(-rc));
    snprintf(o->found, sizeof o->found, "/dev/kfd speaks version %u.%u of its interface", v.major, v.minor);
    if (v.major != KFD_NEED_MAJOR || v.minor < KFD_NEED_MINOR)
        return err_set(e, -ENOTSUP, "%s, zinc needs %u.%u (Linux 6.5; for RDNA3.5 and RDNA4 6.12)", o->found, KFD_NEED_MAJOR,
                       KFD_NEED_MINOR);
    return 0;
}

/* All but the card's serial number. */
static void copy_properties(const struct rungs *r, FILE *f)
{
    char path[128], text[8192];
    snprintf(path, sizeof path, "/sys/devices/virtual/kfd/kfd/topology/nodes/%u/properties", r->gpu.node);
    fprintf(f, "%s:\n", path);
    if (kfd_sys_read(r->sys, path, text, sizeof text) > 0)
        for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
            if (strncmp(line, "unique_id ", 10) != 0)
                fprintf(f, "%s\n", line);
    amd_describe_machine(r->gpu.render_minor, f);
}

static int read_topology(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    int n = kfd_topology(r->sys, gpu, KFD_MAX_GPUS, e);
    if (n < 0)
        return n;
    struct amd_choice c[KFD_MAX_GPUS];
    for (int i = 0; i < n; i++)
        c[i] = (struct amd_choice){ gpu[i].name, gpu[i].chip, gpu[i].n_cu };
    int at = amd_rung_pick(c, n, r->amd.device, e);
    if (at < 0)
        return at;
    r->gpu = gpu[at];
    copy_properties(r, o->detail);
    snprintf(o->found, sizeof o->found, "%s, node %u, renderD%u, %u shader engines, %.1f GiB of memory, %.1f of it visible to "
             "the host, MEC firmware %u", r->gpu.name, r->gpu.node, r->gpu.render_minor, r->gpu.n_se,
             (double)r->gpu.vram_bytes / 0x1p30, (double)r->gpu.vram_visible_bytes / 0x1p30, r->gpu.mec_firmware);
    return kfd_access(r->sys, &r->gpu, e);
}

static int map_memory(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = kfd_winsys_open(&r->gpu, &r->w, e);
    return rc ? rc : amd_rung_memory(&r->amd, &r->w->base, o, e);
}

/* ---- the queue ---- */

static int create_queue(void *state, struct ladder_out *o, struct err *e)
{
    struct rungs *r = state;
    int rc = kfd_winsys_queue(r->w, RING_BYTES, e);
    if (rc)
        return rc;
    struct kfd_queue *q = r->w->q;
    r->amd.ring = &q->ring;
    struct kfd_save_area a = kfd_save_area_of(&r->gpu, r->gpu.chip->save_vgpr_bytes);
    fprintf(o->detail, "save area: memory of %llu bytes; by the formula %u, of it %u control stack, and %llu debug; sysfs says %u "
            "and %u (0: nothing)\nraw pointers: read 0x%llx, write 0x%llx, at 0x%llx and 0x%llx; doorbell at %p\n",
            (unsigned long long)q->save->bytes, a.save_bytes, a.ctl_stack_bytes, (unsigned long long)a.debug_bytes,
            r->gpu.cwsr_bytes, r->gpu.ctl_stack_bytes, (unsigned long long)*q->ring.rptr, (unsigned long long)*q->ring.wptr_cell,
            (unsigned long long)q->pointers->va, (unsigned long long)q->pointers->va + 8, (const void *)(uintptr_t)q->ring.bell);
    snprintf(o->found, sizeof o->found, "queue %u: ring of %u dwords at %#llx, save area of %.1f MiB", q->id,
             q->ring.mask + 1, (unsigned long long)q->ring_mem->va, (double)q->save->bytes / 0x1p20);
    return 0;
}

/* ---- the ladder ---- */

static int begin(int device, void **state, struct err *e)
{
    int rc = amd_rungs_begin(sizeof(struct rungs), device, state, e);
    if (!rc)
        ((struct rungs *)*state)->sys = kfd_sys_current();
    return rc;
}

static const struct ladder_rung rungs[] = {
    { "device opened", "the driver answers", "ls -l /dev/kfd; lsmod | grep amdgpu; dmesg | grep -i kfd; the render group",
      open_files },
    { "topology read", "the card is one that zinc knows, and may be used",
      "cat /sys/class/kfd/kfd/topology/nodes/*/properties; ls -l /dev/dri; a container needs both devices", read_topology },
    { "memory mapped", "host and card memory at addresses that both use", "free VRAM; Resizable BAR and Above 4G in the BIOS; "
      "another process that holds the card (ls /sys/class/kfd/kfd/proc); amd_iommu=off must not be set", map_memory },
    { "queue created", "the kernel takes our ring, pointers, EOP buffer and save area", "the kernel's version: gfx1151 before "
      "6.18.4 sizes the save area differently; all queues taken by others; dmesg with amdgpu.dyndbg=+p", create_queue },
    AMD_RING_RUNGS,
    AMD_RUNGS
};

const struct ladder ladder_kfd = { rungs, ARRAY_LEN(rungs), begin, amd_rungs_end, amd_rungs_failed };
