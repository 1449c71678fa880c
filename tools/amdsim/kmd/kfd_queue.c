/* User-mode queues through /dev/kfd. CREATE_QUEUE holds what kfd_queue.c of Linux 6.12 and later checks: the ring,
 * the pointers, the end-of-pipe buffer and the save area must each be a mapping of their own, of the right size. */
#include <errno.h>
#include <string.h>

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

enum { MAX_QUEUES = 128, MAX_VITAL = 5, N_DOORBELLS = KMD_DOORBELL_BYTES / 8, DESTROY_MS = 2000 };

struct queue {
    bool used, running; /* running: the command processor has it */
    bool sdma;
    uint32_t cp_id, doorbell, percentage;
    struct cp_queue_desc desc;
    struct { gva va; uint64_t bytes; } vital[MAX_VITAL]; /* what must stay mapped while it lives */
    uint32_t n_vital;
};
static struct queue queues[MAX_QUEUES];
static uint64_t dead_cell = ~0ull; /* the doorbell of queues that are to hang */

/* ---- the rules ---- */

/* The mapping that begins at va's page and is `bytes` long. */
static int check_buffer(struct queue *q, const char *what, gva va, uint64_t bytes)
{
    gva page = va & ~(gva)(KMD_PAGE - 1);
    const struct mapping *m = gpuvm_find(kfd_vm(), va);
    if (!m)
        return kmd_why(-EINVAL, "CREATE_QUEUE: %s at 0x%llx is not mapped to the GPU", what, (unsigned long long)va);
    if (m->va != page || m->bytes != bytes)
        return kmd_why(-EINVAL, "CREATE_QUEUE: %s at 0x%llx lies in a mapping of 0x%llx bytes at 0x%llx, expected "
                       "one of exactly 0x%llx bytes that begins at its page", what, (unsigned long long)va,
                       (unsigned long long)m->bytes, (unsigned long long)m->va, (unsigned long long)bytes);
    q->vital[q->n_vital].va = page;
    q->vital[q->n_vital++].bytes = bytes;
    return 0;
}

/* The save area may also be made of SVM ranges that follow each other. */
static int check_save_area(struct queue *q, const struct kfd_queue_args *a)
{
    struct save_area s = kfd_save_area();
    if (kmd_options()->lenient) /* the program's library computes it for another chip: take what is mapped */
        return 0;
    if (a->ctl_stack_bytes != s.ctl_stack_bytes)
        return kmd_why(-EINVAL, "CREATE_QUEUE: control stack of 0x%x bytes, expected 0x%x", a->ctl_stack_bytes,
                       s.ctl_stack_bytes);
    bool at_least = kmd_options()->kernel >= 6018;
    if (at_least ? a->ctx_save_bytes < s.cwsr_bytes : a->ctx_save_bytes != s.cwsr_bytes)
        return kmd_why(-EINVAL, "CREATE_QUEUE: context save area of 0x%x bytes, expected %s0x%x", a->ctx_save_bytes,
                       at_least ? "at least " : "", s.cwsr_bytes);
    gva va = a->ctx_save, end = va + s.bo_bytes;
    const struct mapping *m = gpuvm_find(kfd_vm(), va);
    if (!m || m->bo)
        return check_buffer(q, "the context save area", va, s.bo_bytes);
    while (va < end) {
        m = gpuvm_find(kfd_vm(), va);
        if (!m || m->bo)
            return kmd_why(-EINVAL, "CREATE_QUEUE: the context save area has a hole at 0x%llx",
                           (unsigned long long)va);
        va = m->va + m->bytes;
    }
    return 0;
}

static int check_buffers(struct queue *q, const struct kfd_queue_args *a)
{
    int rc = check_buffer(q, "the write pointer", a->wptr, KMD_PAGE);
    if (rc == 0)
        rc = check_buffer(q, "the read pointer", a->rptr, KMD_PAGE);
    if (rc == 0)
        rc = check_buffer(q, "the ring", a->ring, a->ring_bytes);
    if (rc == 0 && a->type != 0 && a->type != 2)
        return 0;
    if (rc == 0 && a->eop && a->eop_bytes != 4096)
        rc = kmd_why(-EINVAL, "CREATE_QUEUE: end-of-pipe buffer of %llu bytes, expected 4096",
                     (unsigned long long)a->eop_bytes);
    if (rc == 0 && a->eop)
        rc = check_buffer(q, "the end-of-pipe buffer", a->eop, 4096);
    return rc == 0 ? check_save_area(q, a) : rc;
}

static int check_args(const struct kfd_queue_args *a)
{
    if ((a->percentage & 0xff) > 100)
        return kmd_why(-EINVAL, "CREATE_QUEUE: percentage %u, expected 0 to 100", a->percentage & 0xff);
    if (a->priority > 15)
        return kmd_why(-EINVAL, "CREATE_QUEUE: priority %u, expected 0 to 15", a->priority);
    const uint64_t addresses[] = { a->ring, a->rptr, a->wptr, a->eop, a->ctx_save };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (addresses[i] >> 47)
            return kmd_why(-EFAULT, "CREATE_QUEUE: 0x%llx is no address of the process",
                           (unsigned long long)addresses[i]);
    if (a->ring_bytes & (a->ring_bytes - 1))
        return kmd_why(-EINVAL, "CREATE_QUEUE: ring of 0x%x bytes, expected a power of two", a->ring_bytes);
    if (a->type > 4)
        return kmd_why(-EINVAL, "CREATE_QUEUE: type %u, expected 0 to 4", a->type);
    if (a->gpu_id != KMD_GPU_ID)
        return kmd_why(-EINVAL, "CREATE_QUEUE: gpu_id %u, the card's is %u", a->gpu_id, (unsigned)KMD_GPU_ID);
    if (!kfd_vm())
        return kmd_why(-ESRCH, "CREATE_QUEUE before ACQUIRE_VM");
    return 0;
}

/* ---- life ---- */

static struct queue *queue_of(uint32_t id)
{
    return id < MAX_QUEUES && queues[id].used ? &queues[id] : NULL;
}

static int start(struct queue *q)
{
    struct cp *cp = card_cp();
    int rc = cp ? cp_queue_create(cp, &q->desc, &q->cp_id) : -ENOMEM;
    q->running = rc == 0;
    return rc;
}

static bool has_work(const struct queue *q)
{
    const uint64_t *w = vm_at(q->desc.vm, q->desc.wptr, 0), *r = vm_at(q->desc.vm, q->desc.rptr, 0);
    uint64_t in_ring = q->desc.kind == CP_PM4 ? q->desc.ring_bytes / 4 - 1 : UINT64_MAX; /* of PM4's, 32 bits are written */
    return w && r && (__atomic_load_n(w, __ATOMIC_ACQUIRE) & in_ring) != (__atomic_load_n(r, __ATOMIC_ACQUIRE) & in_ring);
}

/* -ETIME: it did not stop; the kernel then resets the GPU. */
static int stop(struct queue *q)
{
    int rc = q->running ? cp_queue_destroy(card.cp, q->cp_id, DESTROY_MS) : 0;
    if (q->running && kmd_injected(KMD_INJECT_HANG) && has_work(q))
        rc = -ETIME;
    q->running = false;
    if (rc == -ETIME) {
        kmd_dmesg("MES failed to respond to msg=REMOVE_QUEUE; GPU reset begins, VRAM is lost");
        pthread_mutex_lock(&card.event_lock);
        kfd_on_hang();
        pthread_mutex_unlock(&card.event_lock);
        cp_reset(card.cp);
        kfd_queues_lost();
        card.reset_pending = false;
    }
    return rc;
}

/* Lowest free doorbell; the cell reads ~0 until it is rung. */
static int take_doorbell(uint32_t *index)
{
    bool taken[N_DOORBELLS] = { false };
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        if (queues[i].used)
            taken[queues[i].doorbell] = true;
    for (*index = 0; *index < N_DOORBELLS && taken[*index]; (*index)++)
        ;
    return *index < N_DOORBELLS ? 0 : -ENOMEM;
}

static int find_slot(bool sdma, uint32_t *id)
{
    uint32_t n_sdma = 0;
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        n_sdma += queues[i].used && queues[i].sdma;
    const struct chip *c = kmd_options()->chip;
    if (sdma && (n_sdma >= c->n_sdma * c->sdma_queues_per_engine || kmd_injected(KMD_INJECT_SDMA_ENOMEM)))
        return kmd_why(-ENOMEM, "CREATE_QUEUE: no more SDMA queue to allocate");
    if (kmd_injected(KMD_INJECT_QUEUE_ENOMEM))
        return kmd_why(-ENOMEM, "CREATE_QUEUE: --inject queue-enomem");
    for (*id = 0; *id < MAX_QUEUES && queues[*id].used; (*id)++)
        ;
    return *id < MAX_QUEUES ? 0 : kmd_why(-ENOMEM, "CREATE_QUEUE: this process has %d queues", (int)MAX_QUEUES);
}

int kfd_create_queue(void *arg)
{
    struct kfd_queue_args *a = arg;
    struct queue q = { .sdma = a->type == 1 || a->type == 3 || a->type == 4 };
    uint32_t id = 0;
    int rc = check_args(a);
    if (rc == 0 && kmd_options()->kernel >= 6012)
        rc = check_buffers(&q, a);
    if (rc == 0)
        rc = find_slot(q.sdma, &id);
    if (rc == 0)
        rc = take_doorbell(&q.doorbell);
    if (rc != 0)
        return rc;
    uint64_t *cell = (uint64_t *)(card.kfd_page + KMD_OFF_DOORBELLS) + q.doorbell;
    __atomic_store_n(cell, ~0ull, __ATOMIC_SEQ_CST);
    q.percentage = a->percentage & 0xff;
    q.desc = (struct cp_queue_desc){
        .kind = q.sdma ? CP_SDMA : a->type == 2 ? CP_AQL : CP_PM4, .vm = kfd_vm()->vm,
        .ring = a->ring, .rptr = a->rptr, .wptr = a->wptr, .ring_bytes = a->ring_bytes, .eop = a->eop,
        .save = q.sdma ? 0 : a->ctx_save, .save_bytes = a->ctx_save_bytes, .ctl_stack_bytes = a->ctl_stack_bytes,
        .doorbell = kmd_injected(KMD_INJECT_HANG) ? &dead_cell : cell,
    };
    if (q.percentage && q.desc.ring_bytes && (rc = start(&q)) != 0)
        return kmd_why(rc, "CREATE_QUEUE: the command processor took no more queues");
    q.used = true;
    queues[id] = q;
    a->queue_id = id;
    a->doorbell_offset = q.doorbell * 8ull;
    if (!kmd_options()->plain_offsets) {
        a->doorbell_offset |= 3ull << 62 | (uint64_t)KMD_GPU_ID << 46;
        kfd_bells_given();
    }
    return 0;
}

int kfd_destroy_queue(void *arg)
{
    const struct kfd_queue_id_args *a = arg;
    struct queue *q = queue_of(a->queue_id);
    if (!q)
        return kmd_why(-EINVAL, "DESTROY_QUEUE: queue %u is unknown", a->queue_id);
    int rc = stop(q);
    q->used = false;
    return rc == -ETIME ? -ETIME : 0;
}

/* A queue of percentage 0 or without a ring is off. */
int kfd_update_queue(void *arg)
{
    const struct kfd_update_queue_args *a = arg;
    struct queue *q = queue_of(a->queue_id);
    if ((a->percentage & 0xff) > 100 || a->priority > 15 || (a->ring_bytes & (a->ring_bytes - 1)))
        return kmd_why(-EINVAL, "UPDATE_QUEUE: percentage %u, priority %u, ring of 0x%x bytes", a->percentage & 0xff,
                       a->priority, a->ring_bytes);
    if (a->ring >> 47 || !q)
        return kmd_why(-EFAULT, "UPDATE_QUEUE: queue %u, ring at 0x%llx", a->queue_id, (unsigned long long)a->ring);
    int rc = stop(q);
    q->percentage = a->percentage & 0xff;
    q->desc.ring = a->ring;
    q->desc.ring_bytes = a->ring_bytes;
    if (rc == 0 && q->percentage && a->ring_bytes)
        rc = start(q);
    return rc;
}

/* The model runs work-groups wherever there is a thread: the mask is checked and then of no effect. */
int kfd_set_cu_mask(void *arg)
{
    const struct kfd_cu_mask_args *a = arg;
    if (!a->n_bits || a->n_bits % 32)
        return kmd_why(-EINVAL, "SET_CU_MASK: %u bits, expected a multiple of 32", a->n_bits);
    return queue_of(a->queue_id) ? 0 : kmd_why(-EFAULT, "SET_CU_MASK: queue %u is unknown", a->queue_id);
}

int kfd_wave_state(void *arg)
{
    return kmd_why(-EINVAL, "GET_QUEUE_WAVE_STATE: the queue is active"); /* the save area is never written */
}

/* ---- what happens to queues ---- */

void kfd_range_goes(gva va, uint64_t bytes)
{
    for (uint32_t i = 0; i < MAX_QUEUES; i++) {
        struct queue *q = &queues[i];
        for (uint32_t k = 0; q->used && q->running && k < q->n_vital; k++)
            if (q->vital[k].va < va + bytes && va < q->vital[k].va + q->vital[k].bytes) {
                kmd_dmesg("Freeing queue vital buffer 0x%llx, queue evicted", (unsigned long long)q->vital[k].va);
                stop(q);
                break;
            }
    }
}

bool kfd_owns_queue(uint32_t cp_id)
{
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        if (queues[i].used && queues[i].cp_id == cp_id)
            return true;
    return false;
}

void kfd_queues_lost(void)
{
    for (uint32_t i = 0; i < MAX_QUEUES; i++)
        queues[i].running = false;
}

void kfd_queues_forget(void)
{
    memset(queues, 0, sizeof queues);
}
