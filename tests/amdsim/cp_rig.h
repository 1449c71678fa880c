/* tests/amdsim/cp_rig.h
 * Tests of the command processor: an address space, queues in it, and what the host was told.
 *
 *     struct rig r;
 *     rig_open(&r, "gfx1201", NULL, &(struct cp_options){ .n_threads = 2 });
 *     struct rig_queue q = rig_queue(&r, CP_PM4, 4096);            ring, pointers, doorbell
 *     PUSH(&q, 0xC0033700, 0x00100500, lo(RIG_DATA), hi(RIG_DATA), 42);
 *     rig_ring(&q);                                                write pointer, then doorbell
 *     ck_assert(rig_becomes(&r.data[0], 42));
 *     rig_close(&r);
 *
 * Packets are words written out by hand from the published layouts. */
#ifndef AMDSIM_TESTS_CP_RIG_H
#define AMDSIM_TESTS_CP_RIG_H

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tools/amdsim/cp/cp.h"

#define RIG_RINGS 0x100000000ull /* a MiB for each queue: ring, then a page of pointers      */
#define RIG_DATA 0x200000000ull  /* host memory, uncached                                     */
#define RIG_IB 0x300000000ull    /* host memory for indirect buffers                          */
#define RIG_EOP 0x400000000ull
enum { RIG_DATA_BYTES = 1 << 20, RIG_IB_BYTES = 64 << 10, RIG_LINES = 32, RIG_WAIT_MS = 20000 };

struct rig_queue {
    struct rig *r;
    uint32_t id;
    enum cp_queue_kind kind;
    uint8_t *ring;
    uint64_t ring_bytes, at;    /* at: dwords pushed                      */
    uint64_t *rptr, *wptr, *doorbell;
};

struct rig {
    struct vm *vm;
    bool own_vm;
    struct cp *c;
    uint32_t *data, *ib;
    uint32_t n_queues;
    uint64_t doorbells[16];
    gva save;                   /* of queues to come: their save area, 0: none */
    uint64_t save_bytes, ctl_bytes;
    pthread_mutex_t lock;
    uint32_t n_interrupts, ctxid[RIG_LINES], n_faults, n_notes;
    struct cp_fault fault;
    char note[RIG_LINES][700];
};

static inline uint32_t lo(uint64_t x) { return (uint32_t)x; }
static inline uint32_t hi(uint64_t x) { return (uint32_t)(x >> 32); }

static inline void rig_interrupt(void *user, uint32_t queue, uint32_t ctxid)
{
    struct rig *r = user;
    pthread_mutex_lock(&r->lock);
    r->ctxid[r->n_interrupts % RIG_LINES] = ctxid;
    __atomic_add_fetch(&r->n_interrupts, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&r->lock);
}

static inline void rig_fault(void *user, const struct cp_fault *f)
{
    struct rig *r = user;
    pthread_mutex_lock(&r->lock);
    r->fault = *f;
    __atomic_add_fetch(&r->n_faults, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&r->lock);
}

static inline void rig_note(void *user, const char *line)
{
    struct rig *r = user;
    pthread_mutex_lock(&r->lock);
    strncpy(r->note[r->n_notes % RIG_LINES], line, sizeof r->note[0] - 1);
    __atomic_add_fetch(&r->n_notes, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&r->lock);
}

/* Zeroed pages at va, and their host address. */
static inline void *rig_map(struct rig *r, gva va, uint64_t bytes, uint32_t flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(vm_map(r->vm, va, bytes, p, flags), 0);
    return p;
}

/* vm: NULL, or one that holds code already. */
static inline void rig_open(struct rig *r, const char *chip, struct vm *vm, const struct cp_options *o)
{
    memset(r, 0, sizeof *r);
    r->own_vm = !vm;
    r->vm = vm ? vm : vm_create();
    pthread_mutex_init(&r->lock, NULL);
    memset(r->doorbells, 0xff, sizeof r->doorbells);
    struct cp_host h = { .user = r, .interrupt = rig_interrupt, .fault = rig_fault, .note = rig_note };
    r->c = cp_create(chip_find(chip), o, &h);
    ck_assert_ptr_nonnull(r->c);
    r->data = rig_map(r, RIG_DATA, RIG_DATA_BYTES, VM_WRITE | VM_HOST);
    r->ib = rig_map(r, RIG_IB, RIG_IB_BYTES, VM_WRITE | VM_HOST | VM_EXEC);
    rig_map(r, RIG_EOP, VM_PAGE, VM_WRITE | VM_VRAM);
}

static inline void rig_close(struct rig *r)
{
    cp_destroy(r->c);
    if (r->own_vm)
        vm_destroy(r->vm);
    pthread_mutex_destroy(&r->lock);
}

static inline struct rig_queue rig_queue_eop(struct rig *r, enum cp_queue_kind kind, uint64_t ring_bytes, gva eop)
{
    struct rig_queue q = { .r = r, .kind = kind, .ring_bytes = ring_bytes };
    gva base = RIG_RINGS + ((gva)r->n_queues << 20), pointers = base + ring_bytes;
    q.ring = rig_map(r, base, ring_bytes, VM_WRITE | VM_HOST | VM_EXEC);
    uint8_t *page = rig_map(r, pointers, VM_PAGE, VM_WRITE | VM_HOST);
    q.doorbell = &r->doorbells[r->n_queues++];
    struct cp_queue_desc d = { .kind = kind, .vm = r->vm, .ring = base, .ring_bytes = ring_bytes, .eop = eop,
                               .doorbell = q.doorbell, .save = r->save, .save_bytes = r->save_bytes,
                               .ctl_stack_bytes = r->ctl_bytes };
    /* AQL: an amd_queue_t at the page's beginning, with its write and read index at their places */
    d.wptr = pointers + (kind == CP_AQL ? 56 : 0);
    d.rptr = pointers + (kind == CP_AQL ? 128 : 8);
    q.wptr = (uint64_t *)(void *)(page + (d.wptr - pointers));
    q.rptr = (uint64_t *)(void *)(page + (d.rptr - pointers));
    for (uint64_t i = 0; kind == CP_AQL && i < ring_bytes; i += 64)
        q.ring[i] = 1; /* invalid */
    ck_assert_int_eq(cp_queue_create(r->c, &d, &q.id), 0);
    return q;
}

static inline struct rig_queue rig_queue(struct rig *r, enum cp_queue_kind kind, uint64_t ring_bytes)
{
    return rig_queue_eop(r, kind, ring_bytes, RIG_EOP);
}

static inline void rig_push(struct rig_queue *q, const uint32_t *dw, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, q->at++)
        memcpy(q->ring + q->at * 4 % q->ring_bytes, &dw[i], 4);
}
#define PUSH(q, ...) rig_push(q, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

static inline void rig_ring(struct rig_queue *q)
{
    uint64_t v = q->kind == CP_SDMA ? q->at * 4 : q->kind == CP_AQL ? q->at / 16 : q->at;
    __atomic_store_n(q->wptr, v, __ATOMIC_SEQ_CST);
    __atomic_store_n(q->doorbell, q->kind == CP_AQL ? v - 1 : v, __ATOMIC_SEQ_CST);
}

static inline uint64_t rig_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}
static inline void rig_nap(uint32_t us) { nanosleep(&(struct timespec){ 0, (long)us * 1000 }, NULL); }

static inline bool rig_becomes(const uint32_t *p, uint32_t v)
{
    for (uint64_t end = rig_now_ms() + RIG_WAIT_MS; rig_now_ms() < end; rig_nap(50))
        if (__atomic_load_n(p, __ATOMIC_ACQUIRE) == v)
            return true;
    return false;
}
static inline bool rig_becomes64(const uint64_t *p, uint64_t v)
{
    for (uint64_t end = rig_now_ms() + RIG_WAIT_MS; rig_now_ms() < end; rig_nap(50))
        if (__atomic_load_n(p, __ATOMIC_ACQUIRE) == v)
            return true;
    return false;
}

/* What `words` appear in, once a fault has come. */
static inline void rig_expect_fault(struct rig *r, const char *words)
{
    ck_assert_msg(rig_becomes(&r->n_faults, 1), "no fault came, \"%s\" was expected", words);
    ck_assert_msg(strstr(r->fault.text, words) != NULL, "\"%s\" does not say \"%s\"", r->fault.text, words);
}
static inline void rig_expect_note(struct rig *r, const char *words)
{
    ck_assert_msg(rig_becomes(&r->n_notes, 1), "no note came, \"%s\" was expected", words);
    ck_assert_msg(strstr(r->note[0], words) != NULL, "\"%s\" does not say \"%s\"", r->note[0], words);
}
static inline void rig_expect_peace(struct rig *r)
{
    ck_assert_msg(!r->n_faults, "%s", r->fault.text);
    ck_assert_msg(!r->n_notes, "%s", r->note[0]);
}

/* WRITE_DATA of one dword to memory, and the end-of-pipe write of one: how most tests say that they got there. */
#define WRITE_DWORD(va, v) 0xC0033700u, 0x00100500u, lo(va), hi(va), (uint32_t)(v)
#define RELEASE_DWORD(va, v) 0xC0064900u, 0x0070F514u, 0x20000000u, lo(va), hi(va), (uint32_t)(v), 0u, 0u

#endif
