/* User-mode queues of the render node: DRM_AMDGPU_USERQ, USERQ_SIGNAL and USERQ_WAIT, compute only. A queue is a ring,
 * two pointers, an end-of-pipe buffer and a doorbell that all belong to the client; the driver adds a cell of its own
 * (the kernel's seq64 memory), which PROTECTED_FENCE_SIGNAL raises to how far the ring has been read. USERQ_SIGNAL makes
 * a fence of the write pointer as it is at that moment: done when the cell has reached it.
 *
 * Rules: amdgpu_userq.c (amdgpu_userq_input_args_validate, amdgpu_userq_create, amdgpu_userq_input_va_validate),
 * mes_userqueue.c (mes_userq_mqd_create, mes_userq_create_wptr_mapping), amdgpu_userq_fence.c of the Linux kernel, in
 * their order; who calls them how: igt's lib/amdgpu/amd_ip_blocks.c (user_queue_create, user_queue_submit). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/amdsim/kmd/drm.h"

enum { OP_CREATE = 1, OP_FREE = 2, IP_COMPUTE = 1, IP_DMA = 2 };
enum { FLAG_PRIORITY = 3, FLAG_SECURE = 4, PRIORITY_HIGH = 3 };
enum { MAX_USERQS = 512, MAX_HANDLES = 1 << 16, FREE_MS = 100, DESTROY_MS = 2000, N_VITAL = 4 };
enum { ERR_NOTSUPP = 524 }; /* the kernel's ENOTSUPP: it reaches the program as it is, libc has no name for it */

/* Where the kernel maps its cells in every address space: below the top, not for clients to write. */
static const gva seq64_va = 0xffffffffffc00000;

struct userq {
    struct userq *next;      /* of all there are; event_lock                             */
    struct drm_file *d;
    uint32_t slot;           /* of the cell                                              */
    uint32_t cp_id;
    bool running;            /* the command processor has it; card.lock                  */
    bool lost;               /* a fault or a reset: its fences are done; event_lock      */
    struct bo *doorbell;     /* referenced                                               */
    uint64_t *bell;          /* its cell there, which is the queue's name for the kernel */
    uint64_t *seq;           /* the driver's cell: dwords read up to                     */
    gva wptr;
    struct { gva va; uint64_t bytes; } vital[N_VITAL];
    struct fence **pending;  /* in order; event_lock                                     */
    uint32_t n, cap;
    uint64_t since_ns;       /* of the first of them: when its time began to count       */
};
static struct userq *all; /* event_lock */
static uint64_t dead_cell = ~0ull;

/* ---- whether there are any ---- */

/* The least versions of ME, PFP, MEC and MES: gfx_v11_0_sw_init and gfx_v12_0_sw_init. NULL: never (11.0.1,
 * 11.0.4 and 11.5 are compiled out). */
static const uint32_t *least_firmware(void)
{
    static const uint32_t gfx12[] = { 2780, 2840, 3050, 123 }, gfx11[] = { 2420, 2580, 2650, 120 },
                          gfx11_at_first[] = { 2390, 2530, 2600, 120 };
    const struct kmd_options *o = kmd_options();
    if (o->chip->gc_major == 12)
        return gfx12;
    if (o->chip->gc_minor == 5 || o->chip->gfx == 1103)
        return NULL;
    return o->kernel > 6016 ? gfx11 : gfx11_at_first;
}

bool drm_userq_offered(const char **why)
{
    const struct kmd_options *o = kmd_options();
    const uint32_t *least = least_firmware();
    *why = NULL;
    if (o->kernel < 6016)
        *why = "a kernel before 6.16";
    else if (!o->user_queues)
        *why = "the module parameter amdgpu.user_queue is -1 or 0";
    else if (!least)
        *why = "compiled out for this chip";
    for (int i = 0; !*why && i < KMD_N_FIRMWARES; i++)
        if (o->firmware[i] < least[i])
            *why = "the firmware is too old";
    return !*why;
}

uint32_t drm_userq_slots(void)
{
    const char *why; /* amdgpu_mes_init: queues 2 and 3 of four pipes, all four where the kernel has none itself */
    return drm_userq_offered(&why) ? (kmd_options()->user_queues == KMD_USERQ_ONLY ? 16 : 8) : 0;
}

/* ---- fences ---- */

/* event_lock held: fences that the cell has reached are done; all of them when the queue is lost. */
static void settle(struct userq *q)
{
    uint64_t at = q->n ? __atomic_load_n(q->seq, __ATOMIC_ACQUIRE) : 0;
    uint32_t k = 0;
    while (k < q->n && (q->lost || q->pending[k]->seq <= at)) {
        q->pending[k]->failed = q->pending[k]->seq > at;
        q->pending[k]->done = true;
        fence_unref(q->pending[k++]);
    }
    if (k) {
        memmove(q->pending, q->pending + k, (q->n - k) * sizeof q->pending[0]);
        q->n -= k;
        q->since_ns = card_now_ns();
        card_wake();
    }
}

static struct userq *of_cp(uint32_t cp_id)
{
    struct userq *q = all;
    while (q && q->cp_id != cp_id)
        q = q->next;
    return q;
}

bool drm_userq_interrupt(uint32_t cp_id)
{
    pthread_mutex_lock(&card.event_lock);
    struct userq *q = of_cp(cp_id);
    if (q)
        settle(q);
    pthread_mutex_unlock(&card.event_lock);
    return q;
}

/* From 6.18 a queue that stands still is reset and its fences are signalled by force
 * (amdgpu_userq_hang_detect_work); before, they wait for ever. The model does not wait for the time-out. */
bool drm_userq_on_fault(uint32_t cp_id)
{
    struct userq *q = of_cp(cp_id);
    if (!q)
        return false;
    if (kmd_options()->kernel >= 6018) {
        kmd_dmesg("user queue with doorbell %u hangs: queue reset, its fences are signalled",
                  (unsigned)(q->bell - (uint64_t *)q->doorbell->host));
        q->lost = true;
        settle(q);
    }
    return true;
}

/* Linux 7.0 gives a fence amdgpu.lockup_timeout from USERQ_SIGNAL on, or from the fence before it
 * (amdgpu_userq_start_hang_detect_work, called by amdgpu_userq_fence_init and amdgpu_userq_process_fence_irq); then
 * amdgpu_userq_hang_detect_work resets the queue, whether it stands still or has a lot to do. */
static uint64_t limit_of(const struct userq *q)
{
    bool counts = card.opt.lockup_ms && card.opt.kernel >= 7000 && q->n && !q->lost;
    return counts ? q->since_ns + card.opt.lockup_ms * 1000000u : ~0ull;
}

uint64_t drm_userq_limit_ns(void)
{
    uint64_t at = ~0ull;
    pthread_mutex_lock(&card.event_lock);
    for (const struct userq *q = all; q; q = q->next)
        at = limit_of(q) < at ? limit_of(q) : at;
    pthread_mutex_unlock(&card.event_lock);
    return at;
}

void drm_userq_time_out(void)
{
    uint32_t late[64], n = 0;
    uint64_t now = card_now_ns();
    pthread_mutex_lock(&card.event_lock);
    for (struct userq *q = all; q && n < sizeof late / sizeof late[0]; q = q->next) {
        settle(q);
        if (limit_of(q) > now)
            continue;
        kmd_dmesg("user queue with doorbell %u has a fence pending for %llu ms: queue reset, its fences are signalled",
                  (unsigned)(q->bell - (uint64_t *)q->doorbell->host), (unsigned long long)card.opt.lockup_ms);
        late[n++] = q->cp_id;
        q->lost = true;
        settle(q);
    }
    pthread_mutex_unlock(&card.event_lock);
    while (n--)
        cp_queue_reset(card.cp, late[n]);
}

/* ---- buffers ---- */

static int check_span(struct drm_file *d, const char *what, gva va, uint64_t bytes)
{
    const struct mapping *m = gpuvm_find(d->vm, va);
    if (!m || va + bytes > m->va + m->bytes)
        return kmd_why(-EINVAL, "USERQ: %s: 0x%llx bytes at 0x%llx do not lie in one mapping", what,
                       (unsigned long long)bytes, (unsigned long long)va);
    return 0;
}

static int read_mqd(const struct drm_userq_args *a, gva *eop)
{
    if (a->mqd_bytes != 8)
        return kmd_why(-EINVAL, "USERQ: the compute queue's description has %llu bytes, expected 8 (eop_va)",
                       (unsigned long long)a->mqd_bytes);
    return user_read(eop, a->mqd, 8) == 0 ? 0 : kmd_why(-ENOMEM, "USERQ: its description at 0x%llx cannot be read",
                                                         (unsigned long long)a->mqd);
}

/* The buffers as the firmware will use them. Kernels before 6.18 look at the write pointer alone; what is wrong with the
 * others is a page fault when the queue runs. */
static int check_buffers(struct userq *q, const struct drm_userq_args *a, gva eop)
{
    int rc = 0;
    const struct mapping *w = gpuvm_find(q->d->vm, a->wptr);
    if (kmd_options()->kernel >= 6018) {
        if ((rc = check_span(q->d, "the ring", a->ring, a->ring_bytes)) ||
            (rc = check_span(q->d, "the read pointer's page", a->rptr, KMD_PAGE)) ||
            (rc = check_span(q->d, "the write pointer's page", a->wptr, KMD_PAGE)) ||
            (rc = check_span(q->d, "the end-of-pipe buffer", eop, KMD_PAGE)))
            return rc;
    }
    if (!w || !w->bo)
        return kmd_why(-EINVAL, "USERQ: the write pointer at 0x%llx is not mapped", (unsigned long long)a->wptr);
    if (w->bo->bytes > KMD_PAGE)
        return kmd_why(-EINVAL, "USERQ: the write pointer lies in a buffer of 0x%llx bytes, the firmware wants one of a page",
                       (unsigned long long)w->bo->bytes);
    q->vital[0].va = a->ring, q->vital[0].bytes = a->ring_bytes;
    q->vital[1].va = a->rptr, q->vital[1].bytes = 8;
    q->vital[2].va = a->wptr, q->vital[2].bytes = 8;
    q->vital[3].va = eop, q->vital[3].bytes = KMD_PAGE;
    q->wptr = a->wptr;
    return 0;
}

static int take_doorbell(struct userq *q, const struct drm_userq_args *a)
{
    struct bo *bo = table_get(&q->d->bos, a->doorbell_handle);
    if (!bo)
        return kmd_why(-EINVAL, "USERQ: doorbell buffer handle %u is unknown", a->doorbell_handle);
    if (!bo->doorbell)
        return kmd_why(-EINVAL, "USERQ: buffer %u was not made in the domain DOORBELL (0x40)", a->doorbell_handle);
    if ((uint64_t)a->doorbell_offset * 8 + 8 > bo->bytes)
        return kmd_why(-EINVAL, "USERQ: doorbell %u is beyond its buffer of 0x%llx bytes (the offset counts 8 bytes)",
                       a->doorbell_offset, (unsigned long long)bo->bytes);
    q->bell = (uint64_t *)bo->host + a->doorbell_offset;
    for (const struct userq *k = all; k; k = k->next)
        if (k->bell == q->bell)
            return kmd_why(-EBUSY, "USERQ: doorbell %u belongs to another queue", a->doorbell_offset);
    q->doorbell = bo;
    bo_ref(bo);
    return 0;
}

/* The driver's cells: a page of every file that has queues, which the GPU may read and nobody maps. */
static int take_cell(struct userq *q)
{
    struct drm_file *d = q->d;
    if (!d->seq64) {
        int err = -ENOMEM;
        struct bo *bo = bo_create(KMD_GTT, KMD_PAGE, false, &err);
        struct mapping m = { .va = seq64_va, .bytes = KMD_PAGE, .bo = bo, .flags = VM_HOST };
        if (!bo)
            return err;
        int rc = gpuvm_map(d->vm, &m); /* which holds it from here on */
        bo_unref(bo);
        if (rc != 0)
            return rc;
        d->seq64 = (uint64_t *)bo->host;
    }
    bool taken[KMD_PAGE / 8] = { false };
    for (const struct userq *k = all; k; k = k->next)
        if (k->d == d)
            taken[k->slot] = true;
    while (q->slot < KMD_PAGE / 8 && taken[q->slot])
        q->slot++;
    if (q->slot == KMD_PAGE / 8)
        return kmd_why(-ENOMEM, "USERQ: no cell for fences is left");
    q->seq = d->seq64 + q->slot;
    *q->seq = 0;
    return 0;
}

/* ---- life ---- */

static void link_queue(struct userq *q)
{
    pthread_mutex_lock(&card.event_lock);
    q->next = all;
    all = q;
    pthread_mutex_unlock(&card.event_lock);
}

static void destroy(struct userq *q)
{
    int rc = q->running ? cp_queue_destroy(card.cp, q->cp_id, DESTROY_MS) : 0;
    if (rc == -ETIME) {
        kmd_dmesg("MES failed to respond to msg=REMOVE_QUEUE; GPU reset begins, VRAM is lost");
        cp_reset(card.cp);
        cp_queue_destroy(card.cp, q->cp_id, DESTROY_MS);
    }
    pthread_mutex_lock(&card.event_lock);
    for (struct userq **p = &all; *p; p = &(*p)->next)
        if (*p == q) {
            *p = q->next;
            break;
        }
    q->lost = true;
    settle(q);
    pthread_mutex_unlock(&card.event_lock);
    bo_unref(q->doorbell);
    free(q->pending);
    free(q);
}

static int check_args(const struct drm_userq_args *a)
{
    if (a->flags & ~(uint32_t)(FLAG_PRIORITY | FLAG_SECURE))
        return kmd_why(-EINVAL, "USERQ: flags 0x%x", a->flags);
    if (a->ip_type != IP_COMPUTE)
        return kmd_why(-EINVAL, "USERQ: hardware block %u; compute (1) is modelled", a->ip_type);
    if (!a->ring || a->ring == ~0ull || !a->ring_bytes || (a->ring_bytes & (a->ring_bytes - 1)) || a->ring_bytes < KMD_PAGE)
        return kmd_why(-EINVAL, "USERQ: ring of 0x%llx bytes at 0x%llx, expected a power of two from a page on",
                       (unsigned long long)a->ring_bytes, (unsigned long long)a->ring);
    if (!a->rptr || !a->wptr)
        return kmd_why(-EINVAL, "USERQ: a queue needs rptr_va and wptr_va");
    if ((a->flags & FLAG_PRIORITY) >= PRIORITY_HIGH && geteuid() != 0)
        return kmd_why(-EACCES, "USERQ: the high priority needs CAP_SYS_NICE");
    return 0;
}

static int create(struct drm_file *d, union drm_userq_call *u)
{
    const struct drm_userq_args *a = &u->in;
    gva eop = 0;
    struct cp *cp = NULL;
    uint32_t handle = 0;
    int rc = check_args(a);
    if (rc != 0)
        return rc;
    struct userq *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->d = d;
    if ((rc = read_mqd(a, &eop)) == 0 && (rc = check_buffers(q, a, eop)) == 0 && (rc = take_doorbell(q, a)) == 0 &&
        (rc = take_cell(q)) == 0)
        rc = (cp = card_cp()) ? 0 : -ENOMEM;
    if (rc == 0) {
        __atomic_store_n(q->bell, ~0ull, __ATOMIC_SEQ_CST);
        struct cp_queue_desc desc = {
            .kind = CP_PM4, .vm = d->vm->vm, .ring = a->ring, .rptr = a->rptr, .wptr = a->wptr,
            .ring_bytes = a->ring_bytes, .eop = eop, .fence_cell = q->seq, .maps_unseen = &d->maps_unseen,
            .doorbell = kmd_injected(KMD_INJECT_HANG) ? &dead_cell : q->bell,
        };
        rc = cp_queue_create(cp, &desc, &q->cp_id);
        q->running = rc == 0;
    }
    link_queue(q);
    if (rc == 0 && (rc = table_add(&d->userqs, q, &handle)) == 0 && handle > MAX_USERQS) {
        table_remove(&d->userqs, handle);
        rc = kmd_why(-EBUSY, "USERQ: this file has %d queues", (int)MAX_USERQS);
    }
    if (rc != 0) {
        destroy(q);
        return rc;
    }
    memset(u, 0, sizeof *u);
    u->out_queue_id = handle;
    return 0;
}

/* The last fence has a moment to come (amdgpu_userq_wait_for_last_fence), then the queue goes as it is. */
static int release(struct drm_file *d, const struct drm_userq_args *a)
{
    if (a->ip_type || a->doorbell_handle || a->doorbell_offset || a->flags || a->ring || a->ring_bytes || a->rptr ||
        a->wptr || a->mqd || a->mqd_bytes)
        return kmd_why(-EINVAL, "USERQ: to free a queue all but its id must be 0");
    struct userq *q = table_remove(&d->userqs, a->queue_id);
    if (!q)
        return kmd_why(kmd_options()->kernel > 7000 ? -ENOENT : -EINVAL, "USERQ: queue %u is unknown", a->queue_id);
    pthread_mutex_lock(&card.event_lock);
    struct fence *last = q->n ? q->pending[q->n - 1] : NULL;
    if (last)
        fence_ref(last);
    pthread_mutex_unlock(&card.event_lock);
    if (last && fence_wait(last, card_now_ns() + FREE_MS * 1000000ull) != 0)
        kmd_dmesg("Timed out waiting for fence of user queue %u", a->queue_id);
    fence_unref(last);
    destroy(q);
    return 0;
}

static int refuse(const char *call)
{
    const char *why;
    if (drm_userq_offered(&why))
        return 0;
    if (kmd_options()->kernel < 6016) /* drm_ioctl: a number beyond the driver's table */
        return kmd_why(-EINVAL, "%s: unknown: %s", call, why);
    return kmd_why(-ERR_NOTSUPP, "%s: no user queues: %s", call, why);
}

int drm_userq(struct drm_file *d, void *arg)
{
    union drm_userq_call *u = arg;
    int rc = refuse("USERQ");
    if (rc != 0)
        return rc;
    if (u->in.op == OP_CREATE)
        return create(d, u);
    return u->in.op == OP_FREE ? release(d, &u->in) : kmd_why(-EINVAL, "USERQ: operation %u", u->in.op);
}

void drm_userqs_release(struct drm_file *d)
{
    for (uint32_t i = 1; i <= d->userqs.n; i++)
        if (table_get(&d->userqs, i))
            destroy(table_remove(&d->userqs, i));
    free(d->userqs.item);
}

void drm_userq_range_goes(struct drm_file *d, gva va, uint64_t bytes)
{
    for (uint32_t i = 1; i <= d->userqs.n; i++) {
        struct userq *q = table_get(&d->userqs, i);
        for (int k = 0; q && q->running && k < N_VITAL; k++)
            if (q->vital[k].va < va + bytes && va < q->vital[k].va + q->vital[k].bytes) {
                kmd_dmesg("user queue %u: its buffer at 0x%llx is unmapped, the queue stops", i,
                          (unsigned long long)q->vital[k].va);
                cp_queue_destroy(card.cp, q->cp_id, DESTROY_MS);
                q->running = false;
            }
    }
}

void drm_userq_fork_child(void)
{
    all = NULL;
}

/* ---- signal and wait ---- */

static int check_handles(const struct table *t, const char *what, uint64_t at, uint32_t n, const char *call)
{
    if (n > MAX_HANDLES)
        return kmd_why(-EINVAL, "%s: %u %ss", call, n, what);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t handle;
        if (user_read(&handle, at + 4ull * i, 4) != 0)
            return kmd_why(-EFAULT, "%s: the list of %ss", call, what);
        if (!table_get(t, handle))
            return kmd_why(-ENOENT, "%s: %s handle %u is unknown", call, what, handle);
    }
    return 0;
}

/* A fence for what the write pointer announces; under event_lock it is done at once, or waits in line. */
static int add_fence(struct userq *q, struct fence *f)
{
    int rc = 0;
    pthread_mutex_lock(&card.event_lock);
    settle(q);
    if (q->lost || *q->seq >= f->seq) {
        f->failed = q->lost && *q->seq < f->seq;
        f->done = true;
    } else if (q->n == q->cap) {
        uint32_t cap = q->cap ? q->cap * 2 : 16;
        struct fence **p = realloc(q->pending, cap * sizeof *p);
        rc = p ? 0 : -ENOMEM;
        q->pending = p ? p : q->pending;
        q->cap = p ? cap : q->cap;
    }
    if (rc == 0 && !f->done) {
        q->since_ns = q->n ? q->since_ns : card_now_ns();
        fence_ref(f);
        q->pending[q->n++] = f;
    }
    pthread_mutex_unlock(&card.event_lock);
    return rc;
}

int drm_userq_signal(struct drm_file *d, void *arg)
{
    const struct drm_userq_signal_args *a = arg;
    int rc = refuse("USERQ_SIGNAL");
    drm_userq_time_out(); /* nobody may have slept meanwhile */
    if (rc != 0 || (rc = check_handles(&d->syncobjs, "syncobj", a->syncobjs, a->n_syncobjs, "USERQ_SIGNAL")) ||
        (rc = check_handles(&d->bos, "buffer", a->read_bos, a->n_read_bos, "USERQ_SIGNAL")) ||
        (rc = check_handles(&d->bos, "buffer", a->write_bos, a->n_write_bos, "USERQ_SIGNAL")))
        return rc;
    struct userq *q = table_get(&d->userqs, a->queue_id);
    if (!q)
        return kmd_why(-ENOENT, "USERQ_SIGNAL: queue %u is unknown", a->queue_id);
    const uint64_t *wptr = vm_at(d->vm->vm, q->wptr, 0);
    if (!wptr)
        return kmd_why(-EINVAL, "USERQ_SIGNAL: the write pointer of queue %u is no longer mapped", a->queue_id);
    struct fence *f = fence_new(__atomic_load_n(wptr, __ATOMIC_ACQUIRE));
    if (!f)
        return -ENOMEM;
    f->seq64_va = seq64_va + 8ull * q->slot;
    rc = add_fence(q, f);
    for (uint32_t i = 0; i < a->n_syncobjs && rc == 0; i++) {
        uint32_t handle;
        rc = user_read(&handle, a->syncobjs + 4ull * i, 4);
        rc = rc == 0 ? syncobj_attach(d, handle, 0, f) : rc;
    }
    fence_unref(f);
    pthread_mutex_lock(&card.event_lock);
    card_wake(); /* who waits for a fence to be there at all */
    pthread_mutex_unlock(&card.event_lock);
    return rc;
}

/* The fences that the lists name, referenced; NULL stands for one that was reached long ago. Buffers never have any:
 * here nothing is tied to them. */
static int collect(struct drm_file *d, const struct drm_userq_wait_args *a, struct fence **f, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < a->n_points; i++) { /* the kernel reads the points as 32-bit words */
        uint32_t handle, point;
        if (user_read(&handle, a->timelines + 4ull * i, 4) != 0 || user_read(&point, a->points + 4ull * i, 4) != 0)
            return -EFAULT;
        int rc = syncobj_fence(d, handle, point, &f[*n]);
        if (rc != 0)
            return rc;
        ++*n;
    }
    for (uint32_t i = 0; i < a->n_syncobjs; i++) {
        uint32_t handle;
        if (user_read(&handle, a->syncobjs + 4ull * i, 4) != 0)
            return -EFAULT;
        int rc = syncobj_fence(d, handle, 0, &f[*n]);
        if (rc != 0)
            return rc;
        ++*n;
    }
    return 0;
}

/* Fences of user queues go back as the address of a cell and the value to wait for; for others the call itself waits. */
static int answer(struct drm_userq_wait_args *a, struct fence **f, uint32_t n)
{
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!f[i] || !f[i]->seq64_va) {
            int rc = f[i] ? fence_wait(f[i], ~0ull) : 0;
            if (rc != 0)
                return rc;
            continue;
        }
        const uint64_t pair[2] = { f[i]->seq64_va, f[i]->seq };
        if (user_write(a->out + 16ull * n_out++, pair, sizeof pair) != 0)
            return -EFAULT;
    }
    a->n_fences = (uint16_t)n_out;
    return 0;
}

int drm_userq_wait(struct drm_file *d, void *arg)
{
    struct drm_userq_wait_args *a = arg;
    struct fence **f = calloc((size_t)a->n_points + a->n_syncobjs + 1, sizeof *f);
    uint32_t n = 0;
    if (!f)
        return -ENOMEM;
    pthread_mutex_lock(&card.lock);
    int rc = refuse("USERQ_WAIT");
    if (rc == 0 && (rc = check_handles(&d->bos, "buffer", a->read_bos, a->n_read_bos, "USERQ_WAIT")) == 0)
        rc = check_handles(&d->bos, "buffer", a->write_bos, a->n_write_bos, "USERQ_WAIT");
    if (rc == 0)
        rc = collect(d, a, f, &n);
    if (rc == 0 && a->n_fences && n > a->n_fences)
        rc = kmd_why(-EINVAL, "USERQ_WAIT: %u fences, room for %u", n, a->n_fences);
    if (rc == 0 && a->n_fences && !table_get(&d->userqs, a->queue_id))
        rc = kmd_why(-EINVAL, "USERQ_WAIT: queue %u is unknown", a->queue_id);
    pthread_mutex_unlock(&card.lock);
    if (rc == 0 && a->n_fences)
        rc = answer(a, f, n);
    else if (rc == 0)
        a->n_fences = (uint16_t)n; /* the first call asks how many there are */
    for (uint32_t i = 0; i < n; i++)
        fence_unref(f[i]);
    free(f);
    return rc;
}
