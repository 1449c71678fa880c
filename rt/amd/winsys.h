/* rt/amd/winsys.h
 * How an AMD card is reached: its memory, submissions, and what it says when one fails. rt/amd/ knows what runs on
 * a card (code objects, launches, plans) and calls nothing but this; a winsys is one way into the kernel and
 * implements it. The word and the cut are Mesa's, where radv and radeonsi stand on a radeon_winsys.
 *
 *     struct amd_mem ib;
 *     struct pm4_buf b;
 *     amd_mem_alloc(w, AMD_HOST, 4096, "packets", &ib, &e);             ib.cpu for the host, ib.va for the GPU
 *     pm4_init(&b, w->card.chip->gen, ib.cpu, 1024);
 *     pm4_write_data(&b, cell_va, &one, 1, 0);
 *     amd_ib_pad(w, &b);
 *     amd_submit(w, ib.va, b.n, &point, &e);
 *     while ((rc = amd_wait(w, point, timeout_ns, &e)) == -ETIME) ...   -EIO: w is dead, e has the fault in words
 *     amd_mem_free(&ib);
 *
 * A submission is an indirect buffer (IB): PM4 packets at an address that the GPU reads. IBs are fetched in order,
 * points count them from 1, and one that minds what those before it still run opens with a barrier. Behind each, the
 * winsys has w->cells->fence raised to its point when its work is done and written back to memory.
 *
 *     rt/kfd   a queue of /dev/kfd: INDIRECT_BUFFER and RELEASE_MEM into a ring in host memory, then the doorbell
 *     rt/umq   a user-mode queue of the DRM driver (userq.h): the same two packets behind a preamble, the buffers with
 *              INHERIT_VMID, and a doorbell of its own; the driver's fence and an ioctl only where the host will sleep
 *     CS       (rt/umq/cs.h) one ioctl a submission: a preamble and the IB itself as chunks, the user fence into the
 *              fence cell, a timeline syncobj to sleep on; buffers are VM_ALWAYS_VALID, so none are listed
 *
 * Errors: 0 or a negative errno and one line in `e` that begins with w->name. Ownership: whoever opens a winsys hands
 * it to one user (amd_tier_open), who frees its memory, then destroys it. Not thread-safe, but for plain stores to
 * memory that is mapped. A child of fork must not use it. */
#ifndef ZINC_RT_AMD_WINSYS_H
#define ZINC_RT_AMD_WINSYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "rt/amd/chip.h"

struct amd_winsys;
struct amd_watch;
struct amd_ring;

/* ---- the card ---- */

/* What launches depend on. */
struct amd_card {
    const struct amd_chip *chip;
    char name[64];             /* for people                                         */
    uint32_t n_cu, n_se;       /* compute units; shader engines, which share them    */
    uint32_t scratch_slots_cu; /* waves of a compute unit that hold scratch at once  */
    uint32_t render_minor;     /* /dev/dri/renderD<this>                             */
};

/* ---- memory ---- */

enum { AMD_PAGE = 4096 };
enum amd_mem_kind {
    AMD_VRAM,    /* the card's memory; the host sees it (cpu != NULL) where the PCIe window is large enough */
    AMD_PRIVATE, /* the card's memory, never seen by the host                                              */
    AMD_HOST,    /* host memory, uncached for the GPU: packets, fences, what both poll; zeroed             */
    AMD_STAGE,   /* the same, with whatever it holds: what copies go through                               */
};
/* A value: copied freely, freed once. All 0: none. */
struct amd_mem {
    struct amd_winsys *w;
    enum amd_mem_kind kind; /* as it came: an APU may have given memory that the host sees     */
    const char *name;       /* lives as long as the memory                                     */
    uint64_t va, bytes;     /* for the GPU; whole pages                                        */
    void *cpu;              /* for the host; NULL: it cannot                                   */
    void *bo;               /* the winsys's own                                                */
};

/* ---- submissions ---- */

/* What the GPU writes and the host polls: one page of AMD_HOST memory. */
struct amd_cells {
    uint64_t fence;      /* the newest complete point, by the winsys                       */
    uint32_t progress;   /* submissions write there: when it and the fence stand still, the card hangs */
    uint32_t done;       /* steps, of the tier                                             */
    uint32_t gave_up[2]; /* a walk of a persistent plan that did: its counter and first launch; [1] 0: none did */
    uint64_t stamp[2];   /* time stamps, AMD_CLOCK_NS                                      */
};
enum {
    AMD_CLOCK_NS = 10,            /* of a tick of the GPU's clock                          */
    AMD_IB_MAX_DW = (1 << 20) - 1 /* of one submission: 20 bits in packets and ioctls      */
};

struct amd_winsys_ops {
    /* Whole pages. -ENOMEM says what is free. `name` is copied. */
    int (*mem_alloc)(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name,
                     struct amd_mem *out, struct err *e);
    void (*mem_free)(struct amd_mem *m); /* no submission may still use it */
    int (*mem_available)(struct amd_winsys *w, uint64_t *bytes, struct err *e); /* of the card's */
    /* pm4_view.check, its user is the winsys. NULL: fine; else "unmapped", "freed: weights", ... */
    const char *(*mem_check)(void *w, uint64_t va, uint64_t bytes, bool write);
    /* n_dw dwords of packets at va, a multiple of w->ib_align_dw. They stay as they are until the point is done, and may
     * be submitted again. Allocates nothing. */
    int (*submit)(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e);
    /* 0: done. -ETIME: not yet. -EIO: a fault, a reset or a hang, in words; nothing completes any more. */
    int (*wait)(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e);
    /* Nothing is under way: gives the card's queue back, so that other programs have it and the card may sleep. The next
     * submission takes it again, by a few system calls. NULL: nothing is held. */
    void (*rest)(struct amd_winsys *w);
    /* The GPU lets go of everything that was submitted; nothing can be submitted after it. Twice is fine. */
    void (*stop)(struct amd_winsys *w);
    /* How many other programs may run work-groups on the card at the same time, as far as the driver tells, and where it does, for a
     * message. NULL: it does not. */
    uint32_t (*others)(struct amd_winsys *w, const char **where);
    void (*destroy)(struct amd_winsys *w); /* stops it; what memory is left goes too */
    /* For reports: device, queue, the driver's record of a fault, all buffers, in lines. */
    void (*describe)(struct amd_winsys *w, FILE *f);
    /* The newest packets that the kernel or the ring was given, decoded; may be NULL. */
    void (*describe_queue)(struct amd_winsys *w, FILE *f);
};

/* Embedded first in a winsys's own struct. */
struct amd_winsys {
    const struct amd_winsys_ops *ops;
    const char *name;            /* of the tier: "kfd"                                     */
    enum log_module log;
    struct amd_card card;
    bool host_sees_vram;         /* AMD_VRAM has cpu                                       */
    bool host_wrote_vram;        /* who stores there sets it: the next submission begins with fresh caches */
    volatile struct amd_cells *cells;
    uint64_t cells_va;
    uint64_t point;              /* of the newest submission; amd_submit's                 */
    uint32_t ib_align_dw;        /* of an IB's length and of what part of one is submitted; at least 1 */
    /* Of steps of several rows, a submission holds at most so many launches, and so many milliseconds of work at a guess that
     * is on the slow side (one launch at least): for a kernel that gives each a time limit and may run another program's in
     * between. 0: all of them. */
    uint32_t part_launches, part_ms;
    bool saves_waves;            /* the driver preempts in mid-kernel and keeps the waves (CWSR: queues of /dev/kfd alone)  */
    uint32_t submit_words, submit_bytes; /* what the host writes for a submission, for statistics      */
    void *dev;                   /* the winsys's own                                       */
    struct amd_watch *watch;     /* of its fences (ring.h); NULL: it takes no submissions yet, or waits by other means */
    struct amd_ring *ring;       /* NULL: the kernel has it                                */
};

static inline int amd_mem_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name,
                                struct amd_mem *out, struct err *e)
{
    *out = (struct amd_mem){ 0 };
    return w->ops->mem_alloc(w, kind, bytes, name, out, e);
}
/* Memory that is none is fine; afterwards it is none. */
static inline void amd_mem_free(struct amd_mem *m)
{
    if (m->w)
        m->w->ops->mem_free(m);
    *m = (struct amd_mem){ 0 };
}
static inline int amd_submit(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    int rc = w->ops->submit(w, va, n_dw, point, e);
    if (!rc) {
        w->host_wrote_vram = false;
        w->point = *point;
    }
    return rc;
}
static inline bool amd_is_done(const struct amd_winsys *w, uint64_t point)
{
    return __atomic_load_n(&w->cells->fence, __ATOMIC_ACQUIRE) >= point;
}
static inline int amd_wait(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    return amd_is_done(w, point) ? 0 : w->ops->wait(w, point, timeout_ns, e);
}

/* For reports, in lines: the kernel's version and what of its command line is about cards, amdgpu's parameters, firmware, link and
 * memory of the card behind /dev/dri/renderD<minor>, as sysfs has them. */
void amd_describe_machine(uint32_t render_minor, FILE *f);

/* Ends an IB, or a part of one that is submitted by itself. */
static inline void amd_ib_pad(const struct amd_winsys *w, struct pm4_buf *b)
{
    if (b->n % w->ib_align_dw)
        pm4_nop(b, w->ib_align_dw - b->n % w->ib_align_dw);
}

/* Stores of this thread, write-combined ones as well, come before those that follow. */
static inline void amd_store_fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define amd_log(w, level, ...)                       \
    do {                                             \
        if (log_enabled((w)->log, level))            \
            log_write((w)->log, level, __VA_ARGS__); \
    } while (0)

#endif
