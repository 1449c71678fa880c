#include "oracle/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/alloc_guard.h"
#include "base/clock.h"

enum {
    SPIN_NS = 50000,
    MOMENT_NS = 2000,
    IN_VAIN = 4,  /* times that a worker slept after all, before it spins for a moment only, */
    AGAIN = 8,    /* but every so many times for as long as ever                             */
    LINE = 64,
};
enum pool_wait { FOR_JOB, AT_BARRIER };

struct counter {
    _Alignas(LINE) atomic_uint v;
};

/* A word that threads wait on: it changes, and sleepers are counted so that nobody is woken in vain. */
struct event {
    _Alignas(LINE) atomic_uint v;
    atomic_uint sleepers;
};

struct pool {
    uint32_t n;
    struct event job;     /* counts runs; odd high bit never used  */
    struct event barrier; /* counts completed barriers             */
    struct counter arrived;
    struct counter loops[POOL_LOOPS];
    pool_fn *fn;
    void *arg;
    atomic_bool stop;
    struct pool_worker workers[POOL_MAX];
    pthread_t threads[POOL_MAX];
    uint32_t n_started;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void event_sleep(struct event *ev, uint32_t seen)
{
#ifdef __linux__
    atomic_fetch_add(&ev->sleepers, 1);
    syscall(SYS_futex, &ev->v, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&ev->sleepers, 1);
#else
    struct timespec ts = { 0, 50000 };
    nanosleep(&ts, NULL);
#endif
}

static void event_wait(struct event *ev, uint32_t seen, uint32_t *slept)
{
    uint64_t start = 0, spin_ns = *slept < IN_VAIN || *slept % AGAIN == 0 ? SPIN_NS : MOMENT_NS;
    bool sleeps = false;
    for (uint32_t i = 1; atomic_load_explicit(&ev->v, memory_order_acquire) == seen; i++) {
        cpu_relax();
        if (i % 64 != 0)
            continue;
        uint64_t now = clock_ns();
        if (!start)
            start = now;
        else if (now - start > spin_ns) {
            sleeps = true;
            event_sleep(ev, seen);
        }
    }
    *slept = sleeps ? *slept + 1 : 0;
}

static void event_raise(struct event *ev)
{
    atomic_fetch_add(&ev->v, 1);
#ifdef __linux__
    if (atomic_load(&ev->sleepers))
        syscall(SYS_futex, &ev->v, FUTEX_WAKE_PRIVATE, POOL_MAX, NULL, NULL, 0);
#endif
}

void pool_barrier(struct pool_worker *w)
{
    struct pool *p = w->pool;
    w->n_loops = 0;
    w->claimed = false;
    if (p->n == 1)
        return;
    uint32_t seen = atomic_load_explicit(&p->barrier.v, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->arrived.v, 1, memory_order_acq_rel) + 1 == p->n) {
        atomic_store_explicit(&p->arrived.v, 0, memory_order_relaxed);
        event_raise(&p->barrier);
    } else {
        event_wait(&p->barrier, seen, &w->slept[AT_BARRIER]);
    }
}

struct pool_loop pool_loop(struct pool_worker *w, uint32_t n)
{
    if (w->n_loops == POOL_LOOPS - 1)
        pool_barrier(w);
    w->n_loops++;
    uint32_t slot = w->next_slot++ % POOL_LOOPS;
    struct pool_loop l = { .base = w->base[slot], .n = n, .slot = slot };
    w->base[slot] += n + w->n; /* every worker takes one number past the end */
    return l;
}

bool pool_next(struct pool_worker *w, struct pool_loop *l, uint32_t *i)
{
    atomic_uint *v = &w->pool->loops[l->slot].v;
    if (w->n == 1) {
        *i = l->base++ - (w->base[l->slot] - l->n - 1);
        return *i < l->n;
    }
    *i = atomic_fetch_add_explicit(v, 1, memory_order_relaxed) - l->base;
    return *i < l->n;
}

static void *thread_main(void *arg)
{
    struct pool_worker *w = arg;
    struct pool *p = w->pool;
    for (uint32_t seen = 0;; seen++) {
        event_wait(&p->job, seen, &w->slept[FOR_JOB]);
        if (atomic_load(&p->stop))
            return NULL;
        alloc_guard_begin("cpu worker");
        p->fn(w, p->arg);
        pool_barrier(w);
        alloc_guard_end();
    }
}

void pool_run(struct pool *p, pool_fn *fn, void *arg)
{
    p->fn = fn;
    p->arg = arg;
    if (p->n > 1)
        event_raise(&p->job);
    fn(&p->workers[0], arg);
    pool_barrier(&p->workers[0]);
}

uint32_t pool_size(const struct pool *p)
{
    return p->n;
}

#ifdef __linux__
/* True for the first hardware thread of a core, as /sys tells; also where it does not. */
static bool first_of_core(int cpu)
{
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (!f)
        return true;
    if (fscanf(f, "%d", &first) != 1)
        first = cpu;
    fclose(f);
    return first == cpu;
}

/* CPUs that the process may use, first hardware threads of their cores first; returns their number; *cores: cores. */
static uint32_t allowed_cpus(int cpus[POOL_MAX], uint32_t *cores)
{
    cpu_set_t set;
    uint32_t n = 0;
    *cores = 0;
    if (sched_getaffinity(0, sizeof set, &set))
        return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < CPU_SETSIZE && n < POOL_MAX; c++)
            if (CPU_ISSET(c, &set) && first_of_core(c) == (pass == 0)) {
                cpus[n++] = c;
                *cores += pass == 0;
            }
    if (*cores == 0)
        *cores = n;
    return n;
}

static void pin_thread(pthread_t t, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(t, sizeof set, &set); /* best effort */
}
#else
static uint32_t allowed_cpus(int cpus[POOL_MAX], uint32_t *cores)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    *cores = n < 1 ? 1 : n > POOL_MAX ? POOL_MAX : (uint32_t)n;
    return 0;
}
static void pin_thread(pthread_t t, int cpu)
{
}
#endif

uint32_t pool_cores(void)
{
    int cpus[POOL_MAX];
    uint32_t cores;
    allowed_cpus(cpus, &cores);
    return cores ? cores : 1;
}

int pool_create(uint32_t n, bool pin, struct pool **out, struct err *e)
{
    int cpus[POOL_MAX];
    uint32_t cores, n_cpus = allowed_cpus(cpus, &cores);
    if (n == 0)
        n = cores ? cores : 1;
    if (n > POOL_MAX)
        n = POOL_MAX;
    struct pool *p = aligned_alloc(LINE, (sizeof *p + LINE - 1) / LINE * LINE);
    if (!p)
        return err_set(e, -ENOMEM, "cpu: thread pool");
    memset(p, 0, sizeof *p);
    p->n = n;
    for (uint32_t i = 0; i < n; i++)
        p->workers[i] = (struct pool_worker){ .pool = p, .id = i, .n = n };
    for (uint32_t i = 1; i < n; i++) {
        int rc = pthread_create(&p->threads[i], NULL, thread_main, &p->workers[i]);
        if (rc) {
            pool_destroy(p);
            return err_set(e, -rc, "cpu: thread %u of %u: %s; try fewer (--threads)", i, n, strerror(rc));
        }
        p->n_started++;
        if (pin && n <= n_cpus)
            pin_thread(p->threads[i], cpus[i]);
    }
    *out = p;
    return 0;
}

void pool_destroy(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    event_raise(&p->job);
    for (uint32_t i = 1; i <= p->n_started; i++)
        pthread_join(p->threads[i], NULL);
    free(p);
}
