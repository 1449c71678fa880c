/* tools/metalsim/queue.c: command queues, command buffers, compute encoders and shared events. A queue has a thread, which
 * runs what is committed in order, while the client goes on. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/metalsim/kernels.h"
#include "tools/metalsim/sim.h"

enum {
    MAX_UNCOMPLETED = 64, SLOTS = 31, SHARED_MAX = 32 << 10, ALT_STACK = 64 << 10, OVERLAP_MS = 3,
    NOT_ENQUEUED = 0, COMMITTED = 2, SCHEDULED = 3, COMPLETED = 4, FAILED = 5,
    ERROR_TIMEOUT = 2, ERROR_PAGE_FAULT = 3, ERROR_MEMORY = 8,
};

struct command_buffer {
    struct obj o;
    struct queue *queue;
    struct command_buffer *next;
    struct dispatch *d;
    int n, cap;
    struct event *event;
    uint64_t value;
    struct fence *awaited, *updated; /* by the encoders of this command buffer: the newest of each */
    _Atomic int status;
    bool encoding;
    long error;
    char why[300];
    double start, end;
};
struct fence { struct obj o; };
struct encoder {
    struct obj o;
    struct command_buffer *b;
    struct pipeline *p;
    struct buffer *args;
    uint64_t off;
    uint32_t shared;
    bool barrier, ended, concurrent, dispatched;
    struct fence *updated;
};
struct queue { struct obj o; pthread_t thread; struct command_buffer *first, **last; int n; bool stop; };
extern const struct class command_buffer_class, encoder_class;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- MTLSharedEvent ---- */

void sim_raise(struct event *e, uint64_t value)
{
    pthread_mutex_lock(&lock);
    e->value = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static uint64_t event_value(struct event *e, SEL s)
{
    pthread_mutex_lock(&lock);
    uint64_t v = e->value;
    pthread_mutex_unlock(&lock);
    return v;
}
static bool event_wait(struct event *e, SEL s, uint64_t value, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    while (e->value < value && pthread_cond_timedwait(&changed, &lock, &until) == 0) {
    }
    bool there = e->value >= value;
    pthread_mutex_unlock(&lock);
    return there;
}
static struct method event_methods[] = { METHOD("signaledValue", event_value), METHOD("waitUntilSignaledValue:timeoutMS:", event_wait), { 0 } };
const struct class event_class = { .name = "MTLSharedEvent", .bytes = sizeof(struct event), .methods = event_methods };

/* ---- MTLFence ---- */

static struct method fence_methods[] = { { 0 } };
const struct class fence_class = { .name = "MTLFence", .bytes = sizeof(struct fence), .methods = fence_methods };

/* ---- running ---- */

static _Thread_local sigjmp_buf out_of_kernel;
static _Thread_local volatile sig_atomic_t in_kernel;
static _Thread_local volatile uintptr_t fault_at;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    if (!in_kernel) {
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    fault_at = (uintptr_t)info->si_addr;
    siglongjmp(out_of_kernel, 1);
}

static void fail(struct command_buffer *b, long error, const char *why)
{
    b->error = error;
    snprintf(b->why, sizeof b->why, "%s", why);
}

static void page_fault(struct command_buffer *b, const char *kernel)
{
    char why[300];
    const struct buffer *near = sim_buffer_at(fault_at);
    if (near)
        snprintf(why, sizeof why, "Caused GPU Address Fault Error (%s at 0x%llx: buffer \"%s\" is not resident)", kernel,
                 (unsigned long long)fault_at, near->label);
    else
        snprintf(why, sizeof why, "Caused GPU Address Fault Error (%s at 0x%llx: no buffer of the GPU's)", kernel, (unsigned long long)fault_at);
    fail(b, ERROR_PAGE_FAULT, why);
}

static void run_dispatch(struct command_buffer *b, const struct dispatch *d)
{
    char why[256] = "";
    sim_check(d->p, "running a command buffer with unretained references");
    sim_check(d->args, "running a command buffer with unretained references");
    RULE(d->args->resident, "residency", "the argument buffer \"%s\" is not resident", d->args->label);
    sim_stats.dispatches++;
    if (sigsetjmp(out_of_kernel, 1)) {
        in_kernel = 0;
        msim_kernels_reset();
        page_fault(b, d->p->k->name);
        return;
    }
    in_kernel = 1;
    int rc = d->p->k->run(d->p->k, d->args->gpu + d->off, d->groups, d->threads, d->shared, why, sizeof why);
    in_kernel = 0;
    if (rc)
        fail(b, ERROR_TIMEOUT, why);
}

/* Between barriers dispatches may run in any order: as encoded, or backwards. */
static void run_all(struct command_buffer *b)
{
    for (int from = 0, to; from < b->n && !b->error; from = to) {
        for (to = from + 1; to < b->n && !b->d[to].after_barrier; to++) {
        }
        for (int i = from; i < to && !b->error; i++)
            run_dispatch(b, &b->d[sim_options.shuffle ? from + to - 1 - i : i]);
    }
}

static void run_buffer(struct command_buffer *b)
{
    static int number;
    b->start = now();
    b->status = SCHEDULED;
    int inject = ++number == sim_options.inject_at ? sim_options.inject : INJECT_NONE;
    if (inject == INJECT_TIMEOUT)
        fail(b, ERROR_TIMEOUT, "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)");
    else if (inject == INJECT_MEMORY)
        fail(b, ERROR_MEMORY, "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)");
    else if (inject == INJECT_HANG)
        for (;;)
            pause();
    else
        run_all(b);
    b->end = now();
    pthread_mutex_lock(&lock);
    if (b->event && !b->error && b->value > b->event->value)
        b->event->value = b->value;
    b->status = b->error ? FAILED : COMPLETED;
    b->queue->n--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    sim_release(b);
}

/* The next command buffer, NULL: none, and the queue ends. */
static struct command_buffer *take(struct queue *q)
{
    struct command_buffer *b = q->first;
    if (b && !(q->first = b->next))
        q->last = &q->first;
    return b;
}

/* --overlap: the GPU may begin a command buffer before the one ahead of it has ended, and these resources are untracked: all
 * that keeps them in order is a fence which the first updates and the second waits for. Without one the second runs first. */
static struct command_buffer *overtakes(struct queue *q, const struct command_buffer *b)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += OVERLAP_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!q->first && !q->stop && pthread_cond_timedwait(&changed, &lock, &until) == 0) {
    }
    bool ordered = q->first && b->updated && q->first->awaited == b->updated;
    return q->first && !ordered ? take(q) : NULL;
}

static void *work(void *arg)
{
    struct queue *q = arg;
    stack_t alt = { .ss_sp = malloc(ALT_STACK), .ss_size = ALT_STACK };
    struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    sigaltstack(&alt, NULL);
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!q->first && !q->stop)
            pthread_cond_wait(&changed, &lock);
        struct command_buffer *b = take(q);
        if (!b)
            break;
        struct command_buffer *early = sim_options.overlap ? overtakes(q, b) : NULL;
        pthread_mutex_unlock(&lock);
        if (early)
            run_buffer(early);
        run_buffer(b);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    alt.ss_flags = SS_DISABLE;
    sigaltstack(&alt, NULL);
    free(alt.ss_sp);
    return NULL;
}

/* ---- MTLCommandQueue ---- */

static void queue_free(struct obj *o)
{
    struct queue *q = (struct queue *)o;
    pthread_mutex_lock(&lock);
    q->stop = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(q->thread, NULL);
}
void *sim_queue_new(void)
{
    struct queue *q = sim_new(&queue_class);
    q->last = &q->first;
    if (pthread_create(&q->thread, NULL, work, q))
        abort();
    return q;
}
static void *new_buffer(struct queue *q, SEL s)
{
    struct command_buffer *b = sim_new(&command_buffer_class);
    pthread_mutex_lock(&lock);
    int n = q->n++;
    pthread_mutex_unlock(&lock);
    RULE(n < MAX_UNCOMPLETED, "commandBuffer", "%d command buffers of the queue are not complete: it would block", n);
    b->queue = q;
    sim_stats.command_buffers++;
    return sim_autorelease(b);
}
static void add_set(struct queue *q, SEL s, struct residency *r) { sim_residency_attach(r); }
static struct method queue_methods[] = { METHOD("commandBufferWithUnretainedReferences", new_buffer), METHOD("addResidencySet:", add_set), { 0 } };
const struct class queue_class = { .name = "MTLCommandQueue", .bytes = sizeof(struct queue), .destroy = queue_free, .methods = queue_methods };

/* ---- MTLCommandBuffer ---- */

static void command_buffer_free(struct obj *o)
{
    struct command_buffer *b = (struct command_buffer *)o;
    if (b->status == NOT_ENQUEUED) {
        pthread_mutex_lock(&lock);
        b->queue->n--;
        pthread_mutex_unlock(&lock);
    }
    free(b->d);
}
static void not_committed(const struct command_buffer *b, const char *what)
{
    RULE(b->status == NOT_ENQUEUED, what, "the command buffer was committed before");
    RULE(!b->encoding, what, "an encoder of the command buffer is still open");
}
static void *new_encoder(struct command_buffer *b, SEL s, unsigned long type)
{
    not_committed(b, "computeCommandEncoderWithDispatchType:");
    RULE(type <= 1, "computeCommandEncoderWithDispatchType:", "type %lu", type);
    struct encoder *e = sim_new(&encoder_class);
    e->b = b;
    e->concurrent = type;
    b->encoding = true;
    return sim_autorelease(e);
}
static void signal_event(struct command_buffer *b, SEL s, struct event *e, uint64_t value)
{
    not_committed(b, "encodeSignalEvent:value:");
    b->event = e;
    b->value = value;
}
static void commit(struct command_buffer *b, SEL s)
{
    not_committed(b, "commit");
    sim_retain(b);
    pthread_mutex_lock(&lock);
    b->status = COMMITTED;
    *b->queue->last = b;
    b->queue->last = &b->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static void wait_completed(struct command_buffer *b, SEL s)
{
    RULE(b->status != NOT_ENQUEUED, "waitUntilCompleted", "the command buffer was not committed");
    pthread_mutex_lock(&lock);
    while (b->status < COMPLETED)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
static unsigned long status(struct command_buffer *b, SEL s) { return (unsigned long)b->status; }
static void *error(struct command_buffer *b, SEL s)
{
    return b->status == FAILED ? sim_error("MTLCommandBufferErrorDomain", b->error, b->why) : NULL;
}
static double start_time(struct command_buffer *b, SEL s) { return b->start; }
static double end_time(struct command_buffer *b, SEL s) { return b->end; }
static struct method command_buffer_methods[] = {
    METHOD("computeCommandEncoderWithDispatchType:", new_encoder), METHOD("encodeSignalEvent:value:", signal_event), METHOD("commit", commit),
    METHOD("waitUntilCompleted", wait_completed), METHOD("status", status), METHOD("error", error), METHOD("GPUStartTime", start_time),
    METHOD("GPUEndTime", end_time), { 0 } };
const struct class command_buffer_class = { .name = "MTLCommandBuffer", .bytes = sizeof(struct command_buffer), .destroy = command_buffer_free,
                                            .methods = command_buffer_methods };

/* ---- MTLComputeCommandEncoder ---- */

static void encoder_free(struct obj *o)
{
    RULE(((struct encoder *)o)->ended, "endEncoding", "an encoder was released without it");
}
static void open(const struct encoder *e, const char *what) { RULE(!e->ended, what, "the encoder has ended"); }
static void set_pipeline(struct encoder *e, SEL s, struct pipeline *p)
{
    open(e, s->name);
    RULE(p && p->o.isa == &pipeline_class, s->name, "not a compute pipeline");
    e->p = p;
}
static void check_offset(const struct buffer *b, unsigned long off, const char *what)
{
    RULE(b, what, "no buffer is bound there");
    RULE(off < b->bytes && off % 4 == 0, what, "offset %lu of a buffer of %llu bytes, in steps of 4", off, (unsigned long long)b->bytes);
}
static void set_buffer(struct encoder *e, SEL s, struct buffer *b, unsigned long off, unsigned long at)
{
    open(e, s->name);
    RULE(at < SLOTS, s->name, "index %lu of %d", at, SLOTS);
    RULE(at == 0, s->name, "index %lu: metalsim's kernels have one buffer, at 0", at);
    RULE(b && b->o.isa == &buffer_class, s->name, "not a buffer");
    check_offset(b, off, s->name);
    e->args = b;
    e->off = off;
}
static void set_offset(struct encoder *e, SEL s, unsigned long off, unsigned long at)
{
    open(e, s->name);
    RULE(at == 0, s->name, "index %lu, where nothing is bound", at);
    check_offset(e->args, off, s->name);
    e->off = off;
}
static void set_shared(struct encoder *e, SEL s, unsigned long n, unsigned long at)
{
    open(e, s->name);
    RULE(at < SLOTS, s->name, "index %lu of %d", at, SLOTS);
    RULE(n % 16 == 0 && n <= SHARED_MAX, s->name, "%lu bytes: a multiple of 16, at most %d", n, SHARED_MAX);
    e->shared = (uint32_t)n;
}
/* Drivers wait at the beginning of an encoder and update at its end, wherever the message stands. */
static void wait_fence(struct encoder *e, SEL s, struct fence *f)
{
    open(e, s->name);
    RULE(f && f->o.isa == &fence_class, s->name, "not a fence");
    RULE(!e->dispatched, s->name, "a fence is waited for before the encoder's first dispatch");
    RULE(e->updated != f, s->name, "the encoder has updated this fence: it would wait for itself");
    e->b->awaited = f;
}
static void update_fence(struct encoder *e, SEL s, struct fence *f)
{
    open(e, s->name);
    RULE(f && f->o.isa == &fence_class, s->name, "not a fence");
    e->updated = e->b->updated = f;
}
static void barrier(struct encoder *e, SEL s, unsigned long scope)
{
    open(e, s->name);
    RULE(scope && scope <= 7, s->name, "scope %lu", scope);
    RULE(e->concurrent, s->name, "barriers act in concurrent encoders alone");
    sim_stats.barriers++;
    e->barrier = true;
}
void sim_check_dispatch(const struct dispatch *d, struct sim_size groups, struct sim_size threads, const char *what)
{
    RULE(d->p, what, "no pipeline is set");
    RULE(d->args, what, "no buffer is set at index 0");
    RULE(d->shared, what, "no threadgroup memory is set at index 0");
    RULE(groups.x && groups.y && groups.z, what, "%lu x %lu x %lu threadgroups", groups.x, groups.y, groups.z);
    unsigned long n = threads.x * threads.y * threads.z;
    RULE(n && n <= d->p->threads && n % 32 == 0, what, "%lu threads of a threadgroup, the pipeline of %s has at most %lu, in SIMD-groups",
         n, d->p->k->name, d->p->threads);
}

void sim_add_dispatch(struct command_buffer *b, struct dispatch d, const char *what)
{
    RULE(d.p && d.threads, what, "a command without a dispatch");
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 64;
        if (!(b->d = realloc(b->d, (size_t)b->cap * sizeof *b->d)))
            abort();
    }
    b->d[b->n++] = d;
}

static void dispatch(struct encoder *e, SEL s, struct sim_size groups, struct sim_size threads)
{
    open(e, s->name);
    struct dispatch d = { e->p, e->args, e->off, { (uint32_t)groups.x, (uint32_t)groups.y, (uint32_t)groups.z },
                          (uint32_t)(threads.x * threads.y * threads.z), e->shared, e->barrier || !e->concurrent };
    sim_check_dispatch(&d, groups, threads, s->name);
    sim_add_dispatch(e->b, d, s->name);
    e->dispatched = true;
    e->barrier = false;
}
static void execute(struct encoder *e, SEL s, struct indirect *x, struct sim_range range)
{
    open(e, s->name);
    RULE(x && x->o.isa == &indirect_class, s->name, "not an indirect command buffer");
    RULE(range.at + range.n <= x->n && range.n, s->name, "commands %lu to %lu of %lu", range.at, range.at + range.n, x->n);
    for (unsigned long i = range.at; i < range.at + range.n; i++) {
        struct dispatch d = x->d[i];
        d.after_barrier |= (i == range.at && e->barrier) || !e->concurrent;
        sim_add_dispatch(e->b, d, s->name);
    }
    e->dispatched = true;
    e->barrier = false;
}
static void end_encoding(struct encoder *e, SEL s)
{
    open(e, s->name);
    e->ended = true;
    e->b->encoding = false;
}
static struct method encoder_methods[] = {
    METHOD("setComputePipelineState:", set_pipeline), METHOD("setBuffer:offset:atIndex:", set_buffer), METHOD("setBufferOffset:atIndex:", set_offset),
    METHOD("setThreadgroupMemoryLength:atIndex:", set_shared), METHOD("memoryBarrierWithScope:", barrier),
    METHOD("waitForFence:", wait_fence), METHOD("updateFence:", update_fence),
    METHOD("dispatchThreadgroups:threadsPerThreadgroup:", dispatch), METHOD("executeCommandsInBuffer:withRange:", execute), METHOD("endEncoding", end_encoding), { 0 } };
const struct class encoder_class = { .name = "MTLComputeCommandEncoder", .bytes = sizeof(struct encoder), .destroy = encoder_free,
                                     .methods = encoder_methods };
