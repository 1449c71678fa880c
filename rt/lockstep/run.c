/* rt/lockstep/run.c: the lock-step runner. There is no scheduler: an item that has to wait, or has returned, switches
 * to the next one that can go on, and the last one to arrive at a rendezvous lets the others go. Bit i of a mask is
 * lane i of the warp. */
#include "rt/lockstep/run.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/kdev.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if (!defined(__ELF__) && !defined(__APPLE__)) || (!defined(__x86_64__) && !defined(__aarch64__))
#define WITH_UCONTEXT 1
#endif
#ifdef WITH_UCONTEXT
#include <ucontext.h>
#endif

enum {
    MAX_WARPS = LOCKSTEP_MAX_THREADS / KD_WARP,
    GUARD_BYTES = 64 << 10, /* unmapped, below each stack: a page, whatever its size */
    COLOURS = 256, COLOUR_BYTES = 128, /* stacks start so far apart, so that their tops do not share cache sets */
#ifdef WITH_ASAN
    STACK_BYTES = 256 << 10, /* frames have red zones */
#else
    STACK_BYTES = 128 << 10,
#endif
    STRIDE = STACK_BYTES + GUARD_BYTES,
    SLACK = 1024, /* watched behind the shared memory */
    MAIN = LOCKSTEP_MAX_THREADS, /* the fibre of the caller */
};
#define ALL_LANES UINT32_MAX

struct fibre {
#ifdef WITH_UCONTEXT
    ucontext_t at;
#else
    void *at; /* its stack pointer while it does not run */
#endif
#ifdef WITH_ASAN
    void *fake;
    const void *bottom;
    size_t bytes;
#endif
    bool started;
};

struct warp {
    uint32_t ready; /* lanes that run or can go on */
    uint32_t shfl, sync, barrier, returned; /* lanes that wait there */
    uint32_t n_shfl; /* shuffles that are complete */
    uint32_t v[2][KD_WARP]; /* what lanes brought to a shuffle, by turns: some may still read the last one's */
};

_Thread_local struct kd_item kd_item;

static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void (*entry)(const void *);
    const void *args;
    uint32_t size, n_returned, n_barrier;
    uint32_t ready; /* warps with ready lanes */
    bool reverse;
    struct warp warps[MAX_WARPS];
    struct fibre fibres[LOCKSTEP_MAX_THREADS + 1];
    uint8_t *stacks, *shared;
} run;

/* ---- fibres ---- */

static void fibre_main(void);

#ifndef WITH_UCONTEXT
/* Saves what a callee must keep and the stack pointer in *from, and goes on where `to` was saved. Own code, since
 * swapcontext makes a system call each time. */
void lockstep_switch(void **from, void *to);
#ifdef __APPLE__
#define SWITCH_BEGIN ".text\n.p2align 4\n.private_extern _lockstep_switch\n.globl _lockstep_switch\n_lockstep_switch:\n"
#define SWITCH_END   ""
#else
#define SWITCH_BEGIN                                                                                                   \
    ".pushsection .text\n.p2align 4\n.hidden lockstep_switch\n.globl lockstep_switch\n"                               \
    ".type lockstep_switch, %function\nlockstep_switch:\n"
#define SWITCH_END ".size lockstep_switch, . - lockstep_switch\n.popsection\n"
#endif
#ifdef __x86_64__
__asm__(SWITCH_BEGIN
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n" SWITCH_END);
enum { FRAME_WORDS = 8, FRAME_START = 6 }; /* registers, where to return, where fibre_main would return: 0 */
#else
__asm__(SWITCH_BEGIN
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n" SWITCH_END);
enum { FRAME_WORDS = 20, FRAME_START = 11 };
#endif
#endif

static void fibre_init(uint32_t i)
{
    struct fibre *f = &run.fibres[i];
    uint8_t *bottom = run.stacks + (size_t)i * STRIDE + GUARD_BYTES;
#ifdef WITH_ASAN
    f->bottom = bottom;
    f->bytes = STACK_BYTES;
    __asan_unpoison_memory_region(bottom, STACK_BYTES);
#endif
#ifdef WITH_UCONTEXT
    getcontext(&f->at);
    f->at.uc_stack.ss_sp = bottom;
    f->at.uc_stack.ss_size = STACK_BYTES;
    f->at.uc_link = NULL;
    makecontext(&f->at, fibre_main, 0);
#else
    uint8_t *top = bottom + STACK_BYTES - i % COLOURS * COLOUR_BYTES;
    uintptr_t *frame = (uintptr_t *)(void *)top - FRAME_WORDS;
    memset(frame, 0, FRAME_WORDS * sizeof *frame);
    frame[FRAME_START] = (uintptr_t)fibre_main;
    f->at = frame;
#endif
    f->started = true;
}

/* Where a fibre goes on after a switch. */
static void arrived(uint32_t me)
{
#ifdef WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(run.fibres[me].fake, &bottom, &bytes);
    if (!run.fibres[MAIN].bottom) { /* the first switch comes from there */
        run.fibres[MAIN].bottom = bottom;
        run.fibres[MAIN].bytes = bytes;
    }
#else
    (void)me;
#endif
}

static void switch_to(uint32_t me, uint32_t to)
{
    struct fibre *a = &run.fibres[me], *b = &run.fibres[to];
    kd_item.tid = to;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&a->fake, b->bottom, b->bytes);
#endif
#ifdef WITH_UCONTEXT
    swapcontext(&a->at, &b->at);
#else
    lockstep_switch(&a->at, b->at);
#endif
    arrived(me);
}

/* ---- who is next ---- */

static uint32_t first_of(uint32_t mask)
{
    return run.reverse ? 31 - (uint32_t)__builtin_clz(mask) : (uint32_t)__builtin_ctz(mask);
}

/* The running item, which is ready no more or lets another one go first, hands over; to the caller of the launch when
 * all have returned or nobody can go on. */
static void hand_over(uint32_t me)
{
    uint32_t w = me / KD_WARP;
    if (!run.warps[w].ready) {
        run.ready &= ~(1u << w);
        if (!run.ready) {
            switch_to(me, MAIN);
            return;
        }
        w = first_of(run.ready);
    }
    uint32_t next = w * KD_WARP + first_of(run.warps[w].ready);
    if (next != me)
        switch_to(me, next);
}

static void open_barrier(void)
{
    for (uint32_t w = 0; w < run.size / KD_WARP; w++) {
        run.warps[w].ready |= run.warps[w].barrier;
        run.warps[w].barrier = 0;
        if (run.warps[w].ready)
            run.ready |= 1u << w;
    }
    run.n_barrier = 0;
}

static bool barrier_complete(void)
{
    return run.n_barrier && run.n_barrier + run.n_returned == run.size;
}

void kd_host_barrier(void)
{
    uint32_t me = kd_item.tid;
    struct warp *w = &run.warps[me / KD_WARP];
    w->ready &= ~(1u << me % KD_WARP);
    w->barrier |= 1u << me % KD_WARP;
    run.n_barrier++;
    if (barrier_complete()) {
        open_barrier();
        uint32_t first = first_of(run.ready); /* from the start again */
        first = first * KD_WARP + first_of(run.warps[first].ready);
        if (first != me)
            switch_to(me, first);
        return;
    }
    hand_over(me);
}

/* All lanes meet at *waiting. */
static void meet(struct warp *w, uint32_t *waiting)
{
    uint32_t me = kd_item.tid, lane = 1u << me % KD_WARP;
    *waiting |= lane;
    if (*waiting == ALL_LANES) {
        *waiting = 0;
        w->ready = ALL_LANES;
        return;
    }
    w->ready &= ~lane;
    hand_over(me);
}

void kd_host_warp_sync(void)
{
    struct warp *w = &run.warps[kd_item.tid / KD_WARP];
    meet(w, &w->sync);
}

const uint32_t *kd_host_share(uint32_t v)
{
    struct warp *w = &run.warps[kd_item.tid / KD_WARP];
    uint32_t *turn = w->v[w->n_shfl % 2];
    turn[kd_item.tid % KD_WARP] = v;
    w->n_shfl += (w->shfl | 1u << kd_item.tid % KD_WARP) == ALL_LANES;
    meet(w, &w->shfl);
    return turn;
}

uint32_t kd_host_shfl(uint32_t v, uint32_t from_lane)
{
    return kd_host_share(v)[from_lane % KD_WARP];
}

static void item_returned(void)
{
    uint32_t me = kd_item.tid;
    struct warp *w = &run.warps[me / KD_WARP];
    w->ready &= ~(1u << me % KD_WARP);
    w->returned |= 1u << me % KD_WARP;
    run.n_returned++;
    if (barrier_complete())
        open_barrier();
    hand_over(me);
}

/* A fibre serves its item in one work-group after the other. */
static void fibre_main(void)
{
    arrived(kd_item.tid);
    for (;;) {
        run.entry(run.args);
        item_returned();
    }
}

/* ---- reports ---- */

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at, t->left, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

/* "lanes 0-15, 20 wait at a shuffle" */
static void add_lanes(struct text *t, const char **sep, uint32_t mask, const char *one, const char *many)
{
    if (!mask)
        return;
    bool single = (mask & (mask - 1)) == 0;
    add(t, "%s%s", *sep, mask == ALL_LANES ? "all lanes" : single ? "lane " : "lanes ");
    const char *comma = "";
    for (uint32_t i = 0, n; i < KD_WARP && mask != ALL_LANES; i += n + 1) {
        for (n = 0; i + n < KD_WARP && mask >> (i + n) & 1; n++) {
        }
        if (n == 1)
            add(t, "%s%u", comma, i);
        else if (n)
            add(t, "%s%u-%u", comma, i, i + n - 1);
        comma = n ? ", " : comma;
    }
    add(t, " %s", single ? one : many);
    *sep = ", ";
}

static bool same_state(const struct warp *a, const struct warp *b)
{
    return a->shfl == b->shfl && a->sync == b->sync && a->barrier == b->barrier && a->returned == b->returned;
}

static int stuck(struct err *e)
{
    char cause[400] = "";
    struct text t = { cause, sizeof cause };
    uint32_t n_warps = run.size / KD_WARP;
    for (uint32_t w = 0, n; w < n_warps; w += n) {
        const struct warp *p = &run.warps[w];
        for (n = 1; w + n < n_warps && same_state(p, p + n); n++) {
        }
        if (n > 1)
            add(&t, "%swarps %u-%u: ", w ? "; " : "", w, w + n - 1);
        else
            add(&t, "%swarp %u: ", w ? "; " : "", w);
        const char *sep = "";
        add_lanes(&t, &sep, p->shfl, "waits at a shuffle", "wait at a shuffle");
        add_lanes(&t, &sep, p->sync, "waits at a warp sync", "wait at a warp sync");
        add_lanes(&t, &sep, p->barrier, "waits at a barrier", "wait at a barrier");
        add_lanes(&t, &sep, p->returned, "has returned", "have returned");
    }
    return err_set(e, -EDEADLK, "work-group (%u, %u, %u): nobody can go on: %s", kd_item.group[0], kd_item.group[1],
                   kd_item.group[2], cause);
}

/* ---- launches ---- */

/* Once in a process; kept. */
static int get_memory(struct err *e)
{
    if (run.stacks)
        return 0;
    size_t stacks = (size_t)STRIDE * LOCKSTEP_MAX_THREADS, all = stacks + LOCKSTEP_MAX_SHARED + SLACK;
    uint8_t *mem = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED)
        return err_set(e, -ENOMEM, "lockstep: %zu MiB of stacks", all >> 20);
    for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS; i++)
        if (mprotect(mem + (size_t)i * STRIDE, GUARD_BYTES, PROT_NONE)) {
            munmap(mem, all);
            return err_set(e, -ENOMEM, "lockstep: guard page of stack %u", i);
        }
    run.stacks = mem;
    run.shared = mem + stacks;
    return 0;
}

static void group_begin(uint32_t shared_bytes)
{
    memset(run.shared, 0xff, shared_bytes);
    for (uint32_t w = 0; w < run.size / KD_WARP; w++) {
        struct warp *p = &run.warps[w];
        p->ready = ALL_LANES;
        p->shfl = p->sync = p->barrier = p->returned = p->n_shfl = 0;
    }
    run.ready = ALL_LANES >> (MAX_WARPS - run.size / KD_WARP);
    run.n_returned = run.n_barrier = 0;
}

static int run_group(uint32_t shared_bytes, struct err *e)
{
    group_begin(shared_bytes);
    uint32_t first = first_of(run.ready);
    switch_to(MAIN, first * KD_WARP + first_of(run.warps[first].ready));
    if (run.n_returned == run.size)
        return 0;
    for (uint32_t i = 0; i < run.size; i++) /* they stand in the midst of a kernel that nobody will finish */
        run.fibres[i].started = false;
    return stuck(e);
}

/* With AddressSanitizer the slack is poisoned, else it must keep its bytes. */
static void watch_slack(uint32_t shared_bytes)
{
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(run.shared, LOCKSTEP_MAX_SHARED + SLACK);
    __asan_poison_memory_region(run.shared + shared_bytes, LOCKSTEP_MAX_SHARED + SLACK - shared_bytes);
#else
    memset(run.shared + shared_bytes, 0xff, SLACK);
#endif
}

static int check_slack(uint32_t shared_bytes, struct err *e)
{
#ifndef WITH_ASAN
    for (uint32_t i = 0; i < SLACK; i++)
        if (run.shared[shared_bytes + i] != 0xff)
            return err_set(e, -EFAULT, "work-group (%u, %u, %u): wrote shared memory at %u, it has %u bytes",
                           kd_item.group[0], kd_item.group[1], kd_item.group[2], shared_bytes + i, shared_bytes);
#endif
    return 0;
}

static int run_groups(const uint32_t grid[3], uint32_t shared_bytes, struct err *e)
{
    uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2];
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        uint64_t g = run.reverse ? n - 1 - i : i;
        kd_item.group[0] = (uint32_t)(g % grid[0]);
        kd_item.group[1] = (uint32_t)(g / grid[0] % grid[1]);
        kd_item.group[2] = (uint32_t)(g / grid[0] / grid[1]);
        if ((rc = run_group(shared_bytes, e)) == 0)
            rc = check_slack(shared_bytes, e);
    }
    return rc;
}

int lockstep_launch(void (*entry)(const void *), const void *args, const uint32_t grid[3], uint32_t threads,
                    uint32_t shared_bytes, struct err *e)
{
    if (!threads || threads % KD_WARP || threads > LOCKSTEP_MAX_THREADS || shared_bytes > LOCKSTEP_MAX_SHARED)
        return err_set(e, -EINVAL, "lockstep: %u threads and %u bytes of shared memory; at most %d, in warps of %d, "
                       "and %d are expected", threads, shared_bytes, LOCKSTEP_MAX_THREADS, KD_WARP,
                       LOCKSTEP_MAX_SHARED);
    if (!grid[0] || !grid[1] || !grid[2])
        return err_set(e, -EINVAL, "lockstep: grid %u x %u x %u has no work-group", grid[0], grid[1], grid[2]);
    pthread_mutex_lock(&one_launch);
    int rc = get_memory(e);
    if (rc == 0) {
        run.entry = entry;
        run.args = args;
        run.size = threads;
        for (uint32_t i = 0; i < threads; i++)
            if (!run.fibres[i].started)
                fibre_init(i);
        kd_item = (struct kd_item){ .size = threads, .groups = { grid[0], grid[1], grid[2] }, .shared = run.shared };
#ifdef WITH_ASAN
        run.fibres[MAIN].bottom = NULL;
#endif
        watch_slack(shared_bytes);
        rc = run_groups(grid, shared_bytes, e);
    }
    pthread_mutex_unlock(&one_launch);
    return rc;
}

void lockstep_abandon(void)
{
    for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS; i++)
        run.fibres[i].started = false;
    pthread_mutex_unlock(&one_launch);
}

void lockstep_reverse(bool on)
{
    pthread_mutex_lock(&one_launch);
    run.reverse = on;
    pthread_mutex_unlock(&one_launch);
}
