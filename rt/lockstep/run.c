/* rt/lockstep/run.c: the lock-step runner. There is no scheduler: an item that has to wait, or has returned, switches
 * to the next one that can go on, and the last one to arrive at a rendezvous lets the others go. Bit i of a mask is
 * lane i of the warp. */
#include "rt/lockstep/run.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/kdev.h"
#include "rt/lockstep/cluster.h"
#include "rt/lockstep/copies.h"
#include "rt/lockstep/group.h"
#include "rt/lockstep/hopper.h"
#include "rt/lockstep/item.h"

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
    bool (*over)(const void *arg); /* what item_wait was given */
    const void *arg;
};

struct warp {
    uint32_t ready; /* lanes that run or can go on */
    uint32_t shfl, sync, barrier, inputs, returned; /* lanes that wait there */
    uint32_t waits[ITEM_WAITS];
    uint32_t n_shfl; /* shuffles that are complete */
    uint32_t v[2][KD_SHARE_WORDS * KD_WARP]; /* what lanes brought to a shuffle, by turns: some may still read the last one's */
};

_Thread_local struct kd_item kd_item;

/* A work-group and its fibres. */
struct group {
    void (*entry)(const void *);
    const void *args;
    struct kd_item item;
    uint32_t size, n_returned, n_barrier, n_inputs, shared_bytes;
    uint32_t ready; /* warps with ready lanes */
    uint32_t n_waits[ITEM_WAITS]; /* items in item_wait */
    uint32_t turn; /* the warp that a late wait ends for next */
    bool must_wait, waited; /* for its inputs, and it did */
    bool models, copies_begun; /* its kernel uses hopper, and copies */
    char fault[256]; /* a broken rule; empty: none */
    struct hopper *hopper;
    struct copies *copies;
    struct cluster *cluster; /* NULL: alone */
    uint32_t rank;
    struct warp warps[MAX_WARPS];
    struct fibre fibres[LOCKSTEP_MAX_THREADS];
    uint8_t *stacks, *shared;
};

static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct group *g;   /* whose fibres run */
    struct group *one[CLUSTER_MAX]; /* those of launches; kept */
    struct cluster *cluster;
    struct fibre main;
    bool reverse;
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

static void fibre_init(struct group *g, uint32_t i)
{
    struct fibre *f = &g->fibres[i];
    uint8_t *bottom = g->stacks + (size_t)i * STRIDE + GUARD_BYTES;
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
static void arrived(struct fibre *me)
{
#ifdef WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(me->fake, &bottom, &bytes);
    if (!run.main.bottom) { /* the first switch comes from there */
        run.main.bottom = bottom;
        run.main.bytes = bytes;
    }
#else
    (void)me;
#endif
}

static void switch_fibres(struct fibre *a, struct fibre *b)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&a->fake, b->bottom, b->bytes);
#endif
#ifdef WITH_UCONTEXT
    swapcontext(&a->at, &b->at);
#else
    lockstep_switch(&a->at, b->at);
#endif
    arrived(a);
}

/* From item `me` to item `to` of the same work-group. The one after it follows as a rule: its stack, which has pages of its own,
 * is on its way by then. */
static void switch_to(uint32_t me, uint32_t to)
{
#ifndef WITH_UCONTEXT
    __builtin_prefetch(run.g->fibres[(run.reverse ? to - 1 : to + 1) % LOCKSTEP_MAX_THREADS].at);
#endif
    kd_item.tid = to;
    switch_fibres(&run.g->fibres[me], &run.g->fibres[to]);
}

static void switch_to_main(uint32_t me)
{
    switch_fibres(&run.g->fibres[me], &run.main);
}

/* ---- who is next ---- */

static uint32_t first_of(uint32_t mask)
{
    return run.reverse ? 31 - (uint32_t)__builtin_clz(mask) : (uint32_t)__builtin_ctz(mask);
}

/* Those who wait for this and whose waiting is over, or the lanes of a warp, become ready. */
static bool wake_from(struct group *g, enum item_wait kind, bool one_warp)
{
    uint32_t before = g->n_waits[kind], n = g->size / KD_WARP, first = one_warp ? g->turn++ : 0;
    for (uint32_t i = 0; i < n && g->n_waits[kind] && !(one_warp && g->n_waits[kind] != before); i++) {
        uint32_t w = (first + i) % n;
        for (uint32_t left = g->warps[w].waits[kind]; left; left &= left - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(left);
            const struct fibre *f = &g->fibres[w * KD_WARP + lane];
            if (!one_warp && !f->over(f->arg))
                continue;
            g->warps[w].waits[kind] &= ~(1u << lane);
            g->warps[w].ready |= 1u << lane;
            g->ready |= 1u << w;
            g->n_waits[kind]--;
        }
    }
    return g->n_waits[kind] != before;
}

/* Nobody is ready: whose waiting is over goes on, else what is under way happens, one thing after the other. */
static bool wake(struct group *g)
{
    for (;;) {
        bool any = false;
        for (enum item_wait k = 0; k < WAIT_LATE; k++)
            any |= wake_from(g, k, false);
        if (any || !g->models)
            return any;
        enum hopper_step step = hopper_step(g->hopper, g->n_waits[WAIT_LATE] > 0);
        if (hopper_fault(g->hopper) || step == HOPPER_NOTHING)
            return false;
        if (step == HOPPER_LATE)
            return wake_from(g, WAIT_LATE, true);
    }
}

/* The running item, which is ready no more or lets another one go first, hands over; to the caller of the launch when
 * all have returned or nobody can go on. */
static void hand_over(uint32_t me)
{
    uint32_t w = me / KD_WARP;
    if (!run.g->warps[w].ready) {
        run.g->ready &= ~(1u << w);
        if (!run.g->ready && !wake(run.g)) {
            switch_to_main(me);
            return;
        }
        w = first_of(run.g->ready);
    }
    uint32_t next = w * KD_WARP + first_of(run.g->warps[w].ready);
    if (next != me)
        switch_to(me, next);
}

static void open_barrier(void)
{
    for (uint32_t w = 0; w < run.g->size / KD_WARP; w++) {
        run.g->warps[w].ready |= run.g->warps[w].barrier;
        run.g->warps[w].barrier = 0;
        if (run.g->warps[w].ready)
            run.g->ready |= 1u << w;
    }
    run.g->n_barrier = 0;
}

static bool barrier_complete(void)
{
    return run.g->n_barrier && run.g->n_barrier + run.g->n_returned == run.g->size;
}

void kd_host_barrier(void)
{
    uint32_t me = kd_item.tid;
    struct warp *w = &run.g->warps[me / KD_WARP];
    w->ready &= ~(1u << me % KD_WARP);
    w->barrier |= 1u << me % KD_WARP;
    run.g->n_barrier++;
    if (barrier_complete()) {
        open_barrier();
        uint32_t first = first_of(run.g->ready); /* from the start again */
        first = first * KD_WARP + first_of(run.g->warps[first].ready);
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
    struct warp *w = &run.g->warps[kd_item.tid / KD_WARP];
    meet(w, &w->sync);
}

const uint32_t *kd_host_share_words(const uint32_t *v, uint32_t n)
{
    struct warp *w = &run.g->warps[kd_item.tid / KD_WARP];
    uint32_t *turn = w->v[w->n_shfl % 2];
    for (uint32_t i = 0; i < n; i++)
        turn[i * KD_WARP + kd_item.tid % KD_WARP] = v[i];
    w->n_shfl += (w->shfl | 1u << kd_item.tid % KD_WARP) == ALL_LANES;
    meet(w, &w->shfl);
    return turn;
}

const uint32_t *kd_host_share(uint32_t v)
{
    return kd_host_share_words(&v, 1);
}

uint32_t kd_host_shfl(uint32_t v, uint32_t from_lane)
{
    return kd_host_share(v)[from_lane % KD_WARP];
}

void group_open(struct group *g)
{
    for (uint32_t w = 0; w < g->size / KD_WARP; w++) {
        g->warps[w].ready |= g->warps[w].inputs;
        g->warps[w].inputs = 0;
        if (g->warps[w].ready)
            g->ready |= 1u << w;
    }
    g->n_inputs = 0;
    g->must_wait = false;
    g->waited = true;
}

/* In a walk, once for each item of its list; the walk lets the work-group go on. */
void kd_host_wait_inputs(void)
{
    struct group *g = run.g;
    uint32_t me = kd_item.tid;
    if (!g->must_wait)
        return;
    struct warp *w = &g->warps[me / KD_WARP];
    w->ready &= ~(1u << me % KD_WARP);
    w->inputs |= 1u << me % KD_WARP;
    g->n_inputs++;
    hand_over(me);
}

void item_wait(enum item_wait kind, bool (*over)(const void *arg), const void *arg)
{
    struct group *g = run.g;
    uint32_t me = kd_item.tid;
    struct warp *w = &g->warps[me / KD_WARP];
    g->fibres[me].over = over;
    g->fibres[me].arg = arg;
    w->ready &= ~(1u << me % KD_WARP);
    w->waits[kind] |= 1u << me % KD_WARP;
    g->n_waits[kind]++;
    hand_over(me);
}

void item_fault(const char *fmt, ...)
{
    uint32_t me = kd_item.tid;
    va_list ap;
    int n = snprintf(run.g->fault, sizeof run.g->fault, "warp %u, lane %u: ", me / KD_WARP, me % KD_WARP);
    va_start(ap, fmt);
    vsnprintf(run.g->fault + n, sizeof run.g->fault - (size_t)n, fmt, ap);
    va_end(ap);
    switch_to_main(me);
    abort(); /* the fibre is forgotten */
}

void item_let_waiters(void)
{
    struct group *g = run.g;
    uint32_t me = kd_item.tid, warps = 0;
    if (!wake_from(g, WAIT_BAR, false))
        return;
    for (uint32_t w = 0; w < g->size / KD_WARP; w++)
        warps |= w != me / KD_WARP && g->warps[w].ready ? 1u << w : 0;
    if (!warps)
        return;
    uint32_t w = first_of(warps);
    switch_to(me, w * KD_WARP + first_of(g->warps[w].ready));
}

static uint64_t group_seed(const struct group *g)
{
    const uint32_t *id = g->item.group, *n = g->item.groups;
    return 2 * (id[0] + n[0] * (id[1] + (uint64_t)n[1] * id[2])) + run.reverse;
}

struct hopper *item_hopper(void)
{
    struct group *g = run.g;
    if (!g->models)
        hopper_begin(g->hopper, &(struct hopper_group){ g->shared, g->shared_bytes, g->size, group_seed(g) });
    g->models = true;
    return g->hopper;
}

struct copies *item_copies(void)
{
    struct group *g = run.g;
    if (!g->copies_begun)
        copies_begin(g->copies, g->shared, g->shared_bytes, g->size, group_seed(g));
    g->copies_begun = true;
    return g->copies;
}

struct cluster *item_cluster(uint32_t *rank)
{
    *rank = run.g->rank;
    return run.g->cluster;
}

static void item_returned(void)
{
    uint32_t me = kd_item.tid;
    struct warp *w = &run.g->warps[me / KD_WARP];
    w->ready &= ~(1u << me % KD_WARP);
    w->returned |= 1u << me % KD_WARP;
    run.g->n_returned++;
    if (barrier_complete())
        open_barrier();
    if (run.g->cluster)
        cluster_item_returned(run.g->cluster);
    hand_over(me);
}

/* A fibre serves its item in one work-group after the other. */
static void fibre_main(void)
{
    arrived(&run.g->fibres[kd_item.tid]);
    for (;;) {
        run.g->entry(run.g->args);
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
    return a->shfl == b->shfl && a->sync == b->sync && a->barrier == b->barrier && a->inputs == b->inputs && a->returned == b->returned &&
           memcmp(a->waits, b->waits, sizeof a->waits) == 0;
}

int group_stuck(const struct group *g, struct err *e)
{
    static const struct { const char *one, *many; } waits[ITEM_WAITS] = {
        [WAIT_BAR] = { "waits at a barrier in shared memory", "wait at a barrier in shared memory" },
        [WAIT_REGISTERS] = { "waits for registers", "wait for registers" },
        [WAIT_CLUSTER] = { "waits for its cluster", "wait for their cluster" },
        [WAIT_LATE] = { "waits for a product", "wait for a product" },
    };
    char cause[400] = "";
    struct text t = { cause, sizeof cause };
    uint32_t n_warps = g->size / KD_WARP;
    const char *rule = g->fault[0] ? g->fault : g->models ? hopper_fault(g->hopper) : NULL;
    if (rule)
        return err_set(e, -EPROTO, "work-group (%u, %u, %u): %s", g->item.group[0], g->item.group[1], g->item.group[2], rule);
    for (uint32_t w = 0, n; w < n_warps; w += n) {
        const struct warp *p = &g->warps[w];
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
        add_lanes(&t, &sep, p->inputs, "waits for its inputs", "wait for their inputs");
        for (uint32_t k = 0; k < ITEM_WAITS; k++)
            add_lanes(&t, &sep, p->waits[k], waits[k].one, waits[k].many);
        add_lanes(&t, &sep, p->returned, "has returned", "have returned");
    }
    return err_set(e, -EDEADLK, "work-group (%u, %u, %u): nobody can go on: %s", g->item.group[0], g->item.group[1],
                   g->item.group[2], cause);
}

/* ---- work-groups ---- */

void groups_lock(void)
{
    pthread_mutex_lock(&one_launch);
#ifdef WITH_ASAN
    run.main.bottom = NULL;
#endif
}

void groups_unlock(void)
{
    pthread_mutex_unlock(&one_launch);
}

enum { GROUP_BYTES = STRIDE * LOCKSTEP_MAX_THREADS + LOCKSTEP_MAX_SHARED + SLACK };

int group_create(struct group **out, struct err *e)
{
    struct group *g = calloc(1, sizeof *g);
    struct hopper *h = hopper_create();
    struct copies *c = copies_create();
    uint8_t *mem = mmap(NULL, GROUP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED || !g || !h || !c) {
        free(g);
        hopper_destroy(h);
        copies_destroy(c);
        if (mem != MAP_FAILED)
            munmap(mem, GROUP_BYTES);
        return err_set(e, -ENOMEM, "lockstep: %d MiB of stacks", GROUP_BYTES >> 20);
    }
    g->hopper = h;
    g->copies = c;
    g->stacks = mem;
    g->shared = mem + (size_t)STRIDE * LOCKSTEP_MAX_THREADS;
    for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS; i++)
        if (mprotect(mem + (size_t)i * STRIDE, GUARD_BYTES, PROT_NONE)) {
            group_destroy(g);
            return err_set(e, -ENOMEM, "lockstep: guard page of stack %u", i);
        }
    *out = g;
    return 0;
}

void group_destroy(struct group *g)
{
    if (!g)
        return;
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(g->stacks, GROUP_BYTES);
#endif
    munmap(g->stacks, GROUP_BYTES);
    hopper_destroy(g->hopper);
    copies_destroy(g->copies);
    free(g);
}

/* With AddressSanitizer the slack is poisoned, else it must keep its bytes. */
static void watch_slack(const struct group *g)
{
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(g->shared, LOCKSTEP_MAX_SHARED + SLACK);
    __asan_poison_memory_region(g->shared + g->shared_bytes, LOCKSTEP_MAX_SHARED + SLACK - g->shared_bytes);
#else
    memset(g->shared + g->shared_bytes, 0xff, SLACK);
#endif
}

int group_check(const struct group *g, struct err *e)
{
#ifndef WITH_ASAN
    for (uint32_t i = 0; i < SLACK; i++)
        if (g->shared[g->shared_bytes + i] != 0xff)
            return err_set(e, -EFAULT, "work-group (%u, %u, %u): wrote shared memory at %u, it has %u bytes", g->item.group[0],
                           g->item.group[1], g->item.group[2], g->shared_bytes + i, g->shared_bytes);
#endif
    return 0;
}

void group_begin(struct group *g, const struct group_work *x)
{
    g->entry = x->entry;
    g->args = x->args;
    g->size = x->threads;
    g->shared_bytes = x->shared;
    g->must_wait = x->must_wait;
    g->waited = false;
    g->item = (struct kd_item){ .size = x->threads, .shared = g->shared };
    memcpy(g->item.group, x->id, sizeof g->item.group);
    memcpy(g->item.groups, x->grid, sizeof g->item.groups);
    for (uint32_t i = 0; i < g->size; i++)
        if (!g->fibres[i].started)
            fibre_init(g, i);
    watch_slack(g);
    memset(g->shared, 0xff, g->shared_bytes);
    for (uint32_t w = 0; w < g->size / KD_WARP; w++)
        g->warps[w] = (struct warp){ .ready = ALL_LANES };
    g->ready = ALL_LANES >> (MAX_WARPS - g->size / KD_WARP);
    g->n_returned = g->n_barrier = g->n_inputs = 0;
    memset(g->n_waits, 0, sizeof g->n_waits);
    g->models = g->copies_begun = false;
    g->turn = 0;
    g->fault[0] = 0;
    g->cluster = x->cluster;
    g->rank = x->rank;
}

void group_forget(struct group *g)
{
    for (uint32_t i = 0; i < g->size; i++)
        g->fibres[i].started = false;
}

static bool is_faulty(const struct group *g)
{
    return g->fault[0] || (g->models && hopper_fault(g->hopper));
}

/* Where it stands, when none of its items runs. */
static enum group_state state_of(struct group *g)
{
    if (g->n_returned == g->size && g->models)
        hopper_end(g->hopper);
    if (g->n_returned == g->size && !is_faulty(g))
        return GROUP_THROUGH;
    if (g->n_inputs && !is_faulty(g))
        return GROUP_WAITS;
    if (g->n_waits[WAIT_CLUSTER] && !is_faulty(g))
        return GROUP_APART;
    group_forget(g);
    return GROUP_STUCK;
}

enum group_state group_run(struct group *g)
{
    run.g = g;
    kd_item = g->item;
    if (!g->ready && !wake(g))
        return state_of(g);
    uint32_t w = first_of(g->ready);
    kd_item.tid = w * KD_WARP + first_of(g->warps[w].ready);
    switch_fibres(&run.main, &g->fibres[kd_item.tid]);
    return state_of(g);
}

bool group_has_waited(const struct group *g)
{
    return g->waited;
}

/* ---- launches ---- */

/* The work-groups of a cluster, from number `first` on: each goes on as far as it gets, until none does. */
static int run_cluster(struct group_work *w, uint64_t first, uint32_t n, struct err *e)
{
    uint32_t left = n, idle = 0;
    bool through[CLUSTER_MAX] = { false };
    uint8_t *shared[CLUSTER_MAX];
    for (uint32_t i = 0; i < n; i++)
        shared[i] = run.one[i]->shared;
    w->cluster = n > 1 ? run.cluster : NULL;
    if (w->cluster)
        cluster_begin(w->cluster, n, w->threads, w->shared, shared, 2 * first + run.reverse);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t g = first + i;
        w->id[0] = (uint32_t)(g % w->grid[0]);
        w->id[1] = (uint32_t)(g / w->grid[0] % w->grid[1]);
        w->id[2] = (uint32_t)(g / w->grid[0] / w->grid[1]);
        w->rank = i;
        group_begin(run.one[i], w);
    }
    int rc = 0;
    for (uint32_t k = run.reverse ? n - 1 : 0; left && !rc; k = (k + 1) % n) {
        struct group *g = run.one[k];
        if (through[k])
            continue;
        uint32_t before = g->n_returned;
        uint64_t arrivals = cluster_arrivals(w->cluster);
        switch (group_run(g)) {
        case GROUP_THROUGH:
            rc = group_check(g, e);
            through[k] = true;
            left--;
            if (!rc && w->cluster && !cluster_group_ended(w->cluster, k))
                rc = err_set(e, -EPROTO, "work-group (%u, %u, %u): it has ended while others of its cluster store to its shared memory",
                             g->item.group[0], g->item.group[1], g->item.group[2]);
            idle = 0;
            break;
        case GROUP_APART:
            idle = g->n_returned == before && cluster_arrivals(w->cluster) == arrivals ? idle + 1 : 0;
            rc = idle > left ? group_stuck(g, e) : 0;
            break;
        case GROUP_WAITS:
        case GROUP_STUCK: rc = group_stuck(g, e);
        }
    }
    for (uint32_t i = 0; i < n && rc; i++)
        group_forget(run.one[i]);
    return rc;
}

static int run_groups(struct group_work *w, uint32_t cluster, struct err *e)
{
    uint64_t n = (uint64_t)w->grid[0] * w->grid[1] * w->grid[2] / cluster;
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = run_cluster(w, (run.reverse ? n - 1 - i : i) * cluster, cluster, e);
    return rc;
}

static int make_groups(uint32_t n, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = run.one[i] ? 0 : group_create(&run.one[i], e);
    if (!rc && n > 1 && !run.cluster && !(run.cluster = cluster_create()))
        rc = err_set(e, -ENOMEM, "lockstep: a cluster of %u work-groups", n);
    return rc;
}

int lockstep_launch_clusters(void (*entry)(const void *), const void *args, const uint32_t grid[3], uint32_t threads,
                             uint32_t shared_bytes, uint32_t cluster, struct err *e)
{
    if (!threads || threads % KD_WARP || threads > LOCKSTEP_MAX_THREADS || shared_bytes > LOCKSTEP_MAX_SHARED)
        return err_set(e, -EINVAL, "lockstep: %u threads and %u bytes of shared memory; at most %d, in warps of %d, "
                       "and %d are expected", threads, shared_bytes, LOCKSTEP_MAX_THREADS, KD_WARP,
                       LOCKSTEP_MAX_SHARED);
    if (!grid[0] || !grid[1] || !grid[2])
        return err_set(e, -EINVAL, "lockstep: grid %u x %u x %u has no work-group", grid[0], grid[1], grid[2]);
    if (!cluster || cluster > CLUSTER_MAX || grid[0] % cluster)
        return err_set(e, -EINVAL, "lockstep: clusters of %u work-groups in a grid %u wide; a divisor of that is expected, at most %d",
                       cluster, grid[0], CLUSTER_MAX);
    struct group_work w = { .entry = entry, .args = args, .grid = { grid[0], grid[1], grid[2] }, .threads = threads,
                            .shared = shared_bytes };
    groups_lock();
    int rc = make_groups(cluster, e);
    if (rc == 0)
        rc = run_groups(&w, cluster, e);
    groups_unlock();
    return rc;
}

int lockstep_launch(void (*entry)(const void *), const void *args, const uint32_t grid[3], uint32_t threads,
                    uint32_t shared_bytes, struct err *e)
{
    return lockstep_launch_clusters(entry, args, grid, threads, shared_bytes, 1, e);
}

void lockstep_abandon(void)
{
    for (uint32_t k = 0; k < CLUSTER_MAX; k++) /* those of its cluster as well */
        for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS && run.one[k]; i++)
            run.one[k]->fibres[i].started = false;
    for (uint32_t i = 0; i < LOCKSTEP_MAX_THREADS && run.g; i++)
        run.g->fibres[i].started = false;
    pthread_mutex_unlock(&one_launch);
}

void lockstep_reverse(bool on)
{
    pthread_mutex_lock(&one_launch);
    run.reverse = on;
    pthread_mutex_unlock(&one_launch);
}
