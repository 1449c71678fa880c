#include "engine/roof.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/look.h"
#include "engine/priv.h"

enum { STREAMS = 4, LINE = 64 };

typedef uint64_t vec __attribute__((vector_size(LINE)));

struct worker {
    struct roof *r;
    pthread_t thread;
    const vec *from;
    size_t n;       /* lines, a multiple of STREAMS */
    vec sum;
};

struct roof {
    uint8_t *mem;
    uint64_t bytes;
    uint32_t n_threads, n_started;
    struct worker *workers;
    pthread_barrier_t start, end;
    bool quit;
    double best;
};

/* Four places in turn: as many pages open, as many hardware prefetchers at work. */
static void read_lines(const vec *p, size_t n, vec *sum)
{
    size_t quarter = n / STREAMS;
    vec s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
    for (size_t i = 0; i < quarter; i++) {
        s0 ^= p[i];
        s1 ^= p[i + quarter];
        s2 ^= p[i + 2 * quarter];
        s3 ^= p[i + 3 * quarter];
    }
    *sum ^= s0 ^ s1 ^ s2 ^ s3;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (;;) {
        pthread_barrier_wait(&w->r->start);
        if (w->r->quit)
            return NULL;
        read_lines(w->from, w->n, &w->sum);
        pthread_barrier_wait(&w->r->end);
    }
}

static uint64_t choose_bytes(void)
{
    long llc = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t want = MAX((uint64_t)1 << 30, llc > 0 ? 4 * (uint64_t)llc : 0);
    uint64_t have = host_memory_available();
    return have ? MIN(want, MAX(have / 4, (uint64_t)64 << 20)) : want;
}

int roof_create(uint32_t n_threads, struct roof **out, struct err *e)
{
    struct host_look h;
    engine_host(&h);
    struct roof *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, -ENOMEM, "measuring memory bandwidth: out of memory");
    r->n_threads = n_threads ? n_threads : MAX(h.n_cores, 1u);
    uint64_t share = choose_bytes() / r->n_threads / (STREAMS * LINE) * (STREAMS * LINE);
    r->bytes = share * r->n_threads;
    r->workers = calloc(r->n_threads, sizeof *r->workers);
    r->mem = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->mem == MAP_FAILED || !r->workers) {
        if (r->mem == MAP_FAILED)
            r->mem = NULL;
        roof_destroy(r);
        return err_set(e, -ENOMEM, "measuring memory bandwidth: out of memory for %.1f GiB", (double)share / (1 << 30));
    }
    madvise(r->mem, r->bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < r->bytes; i += 4096) /* a page that was never written is the one zero page, in the cache */
        r->mem[i] = (uint8_t)(i >> 12 | 1);
    pthread_barrier_init(&r->start, NULL, r->n_threads + 1);
    pthread_barrier_init(&r->end, NULL, r->n_threads + 1);
    for (; r->n_started < r->n_threads; r->n_started++) {
        struct worker *w = &r->workers[r->n_started];
        *w = (struct worker){ .r = r, .from = (const vec *)(r->mem + share * r->n_started), .n = share / LINE };
        if (pthread_create(&w->thread, NULL, work, w))
            break;
    }
    if (r->n_started < r->n_threads) {
        uint32_t started = r->n_started;
        for (uint32_t i = 0; i < started; i++) /* they wait at a barrier that will never be full */
            pthread_cancel(r->workers[i].thread);
        r->n_started = 0;
        return err_set(e, -EAGAIN, "measuring memory bandwidth: only %u of %u threads started", started, r->n_threads);
    }
    *out = r;
    return 0;
}

void roof_destroy(struct roof *r)
{
    if (!r)
        return;
    if (r->n_started) {
        r->quit = true;
        pthread_barrier_wait(&r->start);
        for (uint32_t i = 0; i < r->n_started; i++)
            pthread_join(r->workers[i].thread, NULL);
        pthread_barrier_destroy(&r->start);
        pthread_barrier_destroy(&r->end);
    }
    if (r->mem)
        munmap(r->mem, r->bytes);
    free(r->workers);
    free(r);
}

double roof_measure(struct roof *r)
{
    pthread_barrier_wait(&r->start);
    uint64_t t0 = clock_ns();
    pthread_barrier_wait(&r->end);
    double gbs = (double)r->bytes / (double)(clock_ns() - t0);
    r->best = MAX(r->best, gbs);
    return gbs;
}

double roof_best(const struct roof *r)
{
    return r->best;
}

uint64_t roof_bytes(const struct roof *r)
{
    return r->bytes;
}

uint32_t roof_threads(const struct roof *r)
{
    return r->n_threads;
}
