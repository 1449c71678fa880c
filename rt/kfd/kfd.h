/* rt/kfd/kfd.h
 * An AMD GPU through the stock amdgpu driver: /dev/kfd for memory, queues and events, and nothing of ROCm. This
 * header is the machine below the kfd tier, usable by itself:
 *
 *     struct kfd_gpu gpu[KFD_MAX_GPUS];
 *     int n = kfd_topology(kfd_sys_current(), gpu, KFD_MAX_GPUS, &e);           what cards there are
 *     kfd_open(&gpu[0], &dev, &e);                                            files, address space, events
 *     kfd_mem_alloc(dev, KFD_HOST, 4096, "cell", &cell, &e);                  memory: cell->cpu, cell->va
 *     kfd_queue_create(dev, 64 << 10, &q, &e);
 *     pm4_init(&b, dev->gpu.chip->gen, dw, 64); pm4_write_data(&b, cell->va, &one, 1, 0);
 *     kfd_queue_submit(q, dw, b.n, &point, &e);                               ring, doorbell: no system call
 *     kfd_queue_wait(q, point, timeout_ns, &e);                               polls; -ETIME, or -EIO with the story
 *     kfd_close(dev);                                                         queues first, then memory, then files
 *
 * Addresses of the GPU are those of the process: memory that the host sees lies at the same address for both.
 * Errors: 0 or a negative errno and one line in `e` that says what was tried, what the kernel answered and what
 * helps. A device belongs to the process that opened it; a child of fork must not use it (calls give -EPERM there).
 * Not thread-safe, but for kfd_mem_alloc of nothing and plain stores to memory that is mapped.
 *
 * Numbers of hardware: rt/amd/chips.def; the kernel's interface: ioctl.h. */
#ifndef ZINC_RT_KFD_KFD_H
#define ZINC_RT_KFD_KFD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "rt/amd/ring.h"
#include "rt/kfd/sys.h"
#include "rt/pm4/pm4.h"

enum { KFD_MAX_GPUS = 16, KFD_PAGE = 4096 };

/* ---- topology.c ---- */

/* One GPU as sysfs tells it. */
struct kfd_gpu {
    uint32_t node, gpu_id;
    const struct amd_chip *chip; /* NULL: not supported            */
    char name[64];               /* for people                     */
    uint32_t version;            /* gfx_target_version             */
    uint32_t render_minor;       /* /dev/dri/renderD<minor>        */
    uint32_t n_cu, n_se, simd_per_cu, waves_per_simd, scratch_slots_cu, lds_kib, n_xcc, clock_mhz, mec_firmware;
    uint32_t cwsr_bytes, ctl_stack_bytes; /* of the context save area; 0: this kernel does not say */
    uint64_t vram_bytes, vram_visible_bytes; /* all; what the host can reach                       */
};
/* Fills gpus[] and returns how many GPUs the driver shows, unsupported ones included; -ENODEV, -EACCES: why not. */
int kfd_topology(struct kfd_sys *s, struct kfd_gpu *gpus, uint32_t cap, struct err *e);
/* May this user open /dev/kfd and the GPU's render node? Names the group if not. */
int kfd_access(struct kfd_sys *s, const struct kfd_gpu *g, struct err *e);

/* ---- device.c ---- */

enum kfd_mem_kind {
    KFD_VRAM,    /* the GPU's memory; the host sees it (cpu != NULL) where the PCIe window is large enough; on an APU
                  * also host memory that the GPU caches                                                   */
    KFD_PRIVATE, /* the GPU's memory, never seen by the host                                              */
    KFD_HOST,    /* host memory, uncached for the GPU: queues, fences, what both poll                     */
    KFD_STAGE,   /* the same, for what copies go through                                                  */
    KFD_USER,    /* memory that the process already has                                                   */
};
struct kfd_mem {
    struct kfd_dev *dev;
    struct kfd_mem *next;
    char name[40];
    enum kfd_mem_kind kind;
    uint64_t va, bytes, handle;
    void *cpu;           /* where the host writes it, NULL: it cannot              */
    bool on_gpu;         /* mapped for the GPU                                     */
    bool at_host;        /* mapped for the host (not: addresses reserved only)     */
};

/* What the driver said about a failure. */
struct kfd_fault {
    bool memory, hardware;
    bool told;                                       /* of hardware: the driver passed its data */
    uint64_t va;                                     /* of a memory fault: the page */
    bool not_present, read_only, no_execute;
    uint32_t reset_type, reset_cause, memory_lost;   /* of a reset                  */
};

enum { KFD_FREED_KEPT = 32 };

/* The driver takes a process's queues off the card when others need its memory, and brings them back when there is room. */
struct kfd_evictions {
    int fd;              /* where it tells of that; -1: it does not          */
    bool away;           /* the queues are off the card                      */
    uint64_t n;          /* times that they were taken off, as far as is known */
    char line[96];       /* the beginning of a line                          */
    uint32_t len;
};

struct kfd_dev {
    struct kfd_sys *sys;
    struct kfd_gpu gpu;
    int kfd_fd, drm_fd;
    uint32_t version_minor;
    uint32_t family;           /* of processes: raised in a child of fork             */
    bool large_bar;            /* the host reaches all VRAM                           */
    uint64_t va_first, va_last;
    struct kfd_mem *mem;       /* what lives, newest first                            */
    struct { char name[40]; uint64_t va, bytes; } freed[KFD_FREED_KEPT];
    uint32_t n_freed;
    struct kfd_queue *queues;
    uint8_t *doorbells;
    struct kfd_mem *event_page;
    uint32_t page_event, memory_event, hw_event, wake_event; /* page_event: the first, never waited for */
    bool has_page_event, has_memory_event, has_hw_event, has_wake_event;
    struct kfd_fault fault;
    struct kfd_evictions evictions;
    bool host_wrote_vram;      /* since the last submission: it begins with a flush   */
};

/* -EBUSY: another render file or process holds it; -ENOTSUP: the chip or the kernel is too old. */
int kfd_open(const struct kfd_gpu *g, struct kfd_dev **out, struct err *e);
/* The last of several opens gives back queues, then memory; NULL is fine. The files stay open for the process: the
 * driver accepts no others. kfd_forget closes those of devices that nobody has open. */
void kfd_close(struct kfd_dev *d);
void kfd_forget(struct kfd_sys *s);
bool kfd_is_child(const struct kfd_dev *d); /* of fork */

/* ---- mem.c ---- */

/* Whole pages; KFD_HOST is zeroed, other memory holds anything. -ENOMEM says what is free. */
int kfd_mem_alloc(struct kfd_dev *d, enum kfd_mem_kind kind, uint64_t bytes, const char *name, struct kfd_mem **out,
                  struct err *e);
/* Whole pages of the process's own memory at p. */
int kfd_mem_user(struct kfd_dev *d, void *p, uint64_t bytes, const char *name, struct kfd_mem **out, struct err *e);
void kfd_mem_free(struct kfd_mem *m); /* NULL is fine; no queue may still use it */
int kfd_mem_available(struct kfd_dev *d, uint64_t *bytes, struct err *e); /* of VRAM */
/* The memory that holds `bytes` bytes at va, or NULL. */
const struct kfd_mem *kfd_mem_at(const struct kfd_dev *d, uint64_t va, uint64_t bytes);
/* NULL: fine; else "unmapped", "freed: ...": what pm4_decode asks. user: the device. */
const char *kfd_mem_check(void *user, uint64_t va, uint64_t bytes, bool write);

/* ---- queue.c ---- */

struct kfd_queue {
    struct kfd_dev *dev;
    struct kfd_queue *next;
    struct kfd_mem *ring_mem, *pointers, *eop, *save, *cells_mem;
    struct amd_ring ring;
    uint32_t id;
    uint32_t save_bytes, ctl_stack_bytes; /* of the save area, as the kernel took them */
    uint64_t wake_point; /* the newest point that raises an interrupt */
};
enum { KFD_FENCE_DW = PM4_DW_RELEASE_MEM, KFD_SUBMIT_MAX = 1024 };

/* A PM4 compute queue; ring_bytes is a power of two. -EAGAIN: the GPU's queues are taken by others. */
int kfd_queue_create(struct kfd_dev *d, uint32_t ring_bytes, struct kfd_queue **out, struct err *e);
/* q->ring is stopped and given back as rings are (rt/amd/ring.h). */
void kfd_queue_destroy(struct kfd_queue *q); /* NULL is fine; memory that its packets use may go afterwards */
/* Copies n dwords (up to KFD_SUBMIT_MAX) to the ring, a fence behind them, and rings the doorbell. Makes no system
 * call unless the ring is full, or the queue rests. */
int kfd_queue_submit(struct kfd_queue *q, const uint32_t *dw, uint32_t n, uint64_t *point, struct err *e);
/* 0: the point is complete. -ETIME: not yet. -EIO: fault or hang, e says what the driver reported; the queue is dead. */
int kfd_queue_wait(struct kfd_queue *q, uint64_t point, uint64_t timeout_ns, struct err *e);
static inline bool kfd_queue_is_done(const struct kfd_queue *q, uint64_t point)
{
    return amd_watch_done(&q->ring.watch, point);
}
/* The size of the context save area: of the memory, what the queue is told, and the control stack. vgpr_bytes: of a
 * CU. */
struct kfd_save_area {
    uint64_t mem_bytes, debug_bytes;
    uint32_t save_bytes, ctl_stack_bytes;
};
struct kfd_save_area kfd_save_area_of(const struct kfd_gpu *g, uint32_t vgpr_bytes);

/* ---- event.c ---- */

int kfd_events_create(struct kfd_dev *d, struct err *e);
void kfd_events_destroy(struct kfd_dev *d);
/* Sleeps until the wake event, a fault, or for ms; fills d->fault. 0, -ETIME, or -EIO: there is a fault. */
int kfd_events_wait(struct kfd_dev *d, uint32_t ms);
/* Has the driver said anything of evictions since the last call, or are the queues off the card? Then a queue that stands still
 * does not hang. */
bool kfd_evictions_look(struct kfd_dev *d);
void kfd_evictions_parse(struct kfd_evictions *x, const char *text, uint32_t n); /* of what is read there */
/* "GPU page fault at 0x7f.. (in weights)": d->fault in words. */
void kfd_fault_text(const struct kfd_dev *d, char *out, size_t n);

/* ---- winsys.c: all of it as rt/amd/winsys.h wants it ---- */

struct kfd_winsys {
    struct amd_winsys base;
    struct kfd_dev *dev;
    struct kfd_queue *q; /* NULL: no submissions yet */
};
/* Opens the GPU: from here on there is memory. base.ops->destroy gives all of it back. */
int kfd_winsys_open(const struct kfd_gpu *g, struct kfd_winsys **out, struct err *e);
/* And a queue: from here on base takes submissions. */
int kfd_winsys_queue(struct kfd_winsys *w, uint32_t ring_bytes, struct err *e);

#endif
