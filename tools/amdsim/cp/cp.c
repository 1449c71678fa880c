/* The fetching thread: which queue has its turn, what doorbells say, and what the host is told. */
#include "tools/amdsim/cp/cp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

enum {
    PACKETS_PER_TURN = 256,
    POLLS_BEFORE_SLEEP = 32, /* rounds of an idle thread before it sleeps; who wakes is preferred by the kernel */
    PAUSES_PER_POLL = 8,     /* to one that only yields, so that a busy machine still answers soon         */
};

/* How long it sleeps between polls: an eighth of what it has been idle. Whoever waits for it hardly waits longer for that, and of
 * a process that computes without it it takes next to nothing. */
enum { IDLE_PER_SLEEP = 8, SLEEP_MIN_NS = 10000, SLEEP_MAX_NS = 1000000 };

static const uint64_t doorbell_quiet = ~0ull;

uint64_t cp_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t cp_clock(void)
{
    return cp_now_ns() / 10;
}

const char *cp_queue_kind_name(const struct cp_queue *q)
{
    return q->kernel ? (q->d.kind == CP_SDMA ? "driver's sdma" : "driver's pm4")
         : q->d.kind == CP_PM4 ? "pm4" : q->d.kind == CP_AQL ? "aql" : "sdma";
}

/* ---- what the host is told ---- */

void cp_event_push(struct cp *c, const struct cp_event *e)
{
    pthread_mutex_lock(&c->event_lock);
    struct cp_event *copy = c->event_spare;
    if (copy)
        c->event_spare = copy->next;
    else if (!(copy = malloc(sizeof *copy))) {
        pthread_mutex_unlock(&c->event_lock);
        return;
    }
    *copy = *e;
    copy->next = NULL;
    *c->event_tail = copy;
    c->event_tail = &copy->next;
    pthread_mutex_unlock(&c->event_lock);
}

static void events_deliver(struct cp *c)
{
    if (!__atomic_load_n(&c->event, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&c->event_lock);
    struct cp_event *e = c->event;
    c->event = NULL;
    c->event_tail = &c->event;
    pthread_mutex_unlock(&c->event_lock);
    while (e) {
        struct cp_event *next = e->next;
        if (e->kind == EV_INTERRUPT && c->host.interrupt)
            c->host.interrupt(c->host.user, e->queue, e->ctxid);
        else if (e->kind == EV_FAULT && c->host.fault)
            c->host.fault(c->host.user, &e->fault);
        else if (e->kind == EV_NOTE && c->host.note)
            c->host.note(c->host.user, e->line);
        else if (e->kind == EV_DONE)
            e->done(e->user, e->point);
        pthread_mutex_lock(&c->event_lock);
        e->next = c->event_spare; /* kept, so that interrupts cost no allocation */
        c->event_spare = e;
        pthread_mutex_unlock(&c->event_lock);
        e = next;
    }
}

/* Lock held; given up while the host is told. */
static void deliver_unlocked(struct cp *c)
{
    if (!__atomic_load_n(&c->event, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_unlock(&c->lock);
    events_deliver(c);
    pthread_mutex_lock(&c->lock);
}

void cp_note(struct cp *c, uint32_t queue, const char *fmt, ...)
{
    struct cp_event e = { .kind = EV_NOTE, .queue = queue };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.line, sizeof e.line, fmt, ap);
    va_end(ap);
    if (c->trace)
        fprintf(c->trace, "note: %s\n", e.line);
    cp_event_push(c, &e);
}

void cp_fault_tell(struct cp_queue *q, struct cp_event *e)
{
    e->kind = EV_FAULT;
    e->queue = e->fault.queue = q->id;
    if (q->c->trace) {
        fprintf(q->c->trace, "fault: %s\n", e->fault.text);
        fflush(q->c->trace);
    }
    __atomic_store_n(&q->dead, true, __ATOMIC_RELAXED);
    cp_event_push(q->c, e);
}

void cp_where(const struct cp_queue *q, char *out, size_t size)
{
    if (q->place_ib)
        snprintf(out, size, "buffer 0x%llx+0x%llx", (unsigned long long)q->place_ib, (unsigned long long)q->place_at);
    else
        snprintf(out, size, "ring at %llu", (unsigned long long)q->place_at);
}

static int where_print(const struct cp_queue *q, char *out, size_t size)
{
    char where[80];
    cp_where(q, where, sizeof where);
    int n = snprintf(out, size, "queue %u (%s), %s: %s: ", q->id, cp_queue_kind_name(q), where,
                     q->pkt_name ? q->pkt_name : "fetch");
    return n < (int)size ? n : (int)size - 1;
}

enum step cp_stop(struct cp_queue *q, const char *fmt, ...)
{
    struct cp_event e = { .kind = EV_FAULT };
    int n = where_print(q, e.fault.text, sizeof e.fault.text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.fault.text + n, sizeof e.fault.text - (size_t)n, fmt, ap);
    va_end(ap);
    cp_fault_tell(q, &e);
    return STEP_DEAD;
}

enum step cp_stop_page(struct cp_queue *q, gva va, bool write, const char *what)
{
    struct cp_event e = { .kind = EV_FAULT };
    bool present = vm_entry(q->d.vm, va) & VM_VALID;
    int n = where_print(q, e.fault.text, sizeof e.fault.text);
    e.fault.page = true;
    e.fault.va = va;
    e.fault.write = write;
    e.fault.not_present = !present;
    snprintf(e.fault.text + n, sizeof e.fault.text - (size_t)n, "%s: page fault, %s of 0x%llx, which is %s", what,
             write ? "write" : "read", (unsigned long long)va,
             present ? "mapped read-only" : "not mapped for the GPU");
    cp_fault_tell(q, &e);
    return STEP_DEAD;
}

void cp_trace(struct cp_queue *q, const char *fmt, ...)
{
    if (!q->c->trace)
        return;
    char line[400], where[80];
    cp_where(q, where, sizeof where);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(q->c->trace, "%12.3f us  q%u %s  %s %s\n", (double)(cp_now_ns() % 1000000000000u) / 1e3, q->id, where,
            q->pkt_name ? q->pkt_name : "", line);
}

/* ---- doorbells ---- */

static const char *unit_of(const struct cp_queue *q)
{
    return q->d.kind == CP_SDMA ? "bytes" : q->d.kind == CP_AQL ? "packets" : "dwords";
}

static uint64_t ring_units(const struct cp_queue *q)
{
    return q->d.kind == CP_SDMA ? q->d.ring_bytes : q->d.kind == CP_AQL ? q->d.ring_bytes / 64 : q->d.ring_bytes / 4;
}

/* Odd use of a doorbell: hardware may live with it, may hang, so it is told; with --strict it ends the queue. */
static void doorbell_finding(struct cp_queue *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void doorbell_finding(struct cp_queue *q, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (q->c->o.strict) {
        q->place_ib = 0;
        q->place_at = q->pos;
        q->pkt_name = "doorbell";
        cp_stop(q, "%s", text);
    } else {
        cp_note(q->c, q->id, "queue %u (%s): doorbell: %s", q->id, cp_queue_kind_name(q), text);
    }
}

static bool doorbell_rung(const struct cp_queue *q)
{
    return q->d.doorbell && __atomic_load_n(q->d.doorbell, __ATOMIC_RELAXED) != doorbell_quiet;
}

/* Takes what the doorbell says and primes its cell again, so that the same value and half a value are seen as well.
 */
static void doorbell_take(struct cp_queue *q)
{
    uint64_t *cell = __builtin_assume_aligned(vm_at(q->d.vm, q->d.wptr, 0), 8);
    if (!cell) {
        cp_stop_page(q, q->d.wptr, false, "the write pointer");
        return;
    }
    if (!q->d.doorbell) {
        q->limit = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
        return;
    }
    uint64_t v = __atomic_exchange_n(q->d.doorbell, doorbell_quiet, __ATOMIC_ACQ_REL);
    if (v == doorbell_quiet)
        return;
    if (q->d.maps_unseen && __atomic_load_n(q->d.maps_unseen, __ATOMIC_RELAXED)) {
        doorbell_finding(q, "memory was mapped and nobody waited for the page tables: a user queue is ordered behind nothing; "
                         "wait for the timeline point of the last GEM_VA");
        if (q->dead)
            return;
    }
    uint64_t wptr = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if (v != wptr && (v >> 32 == 0xFFFFFFFFu || (uint32_t)v == 0xFFFFFFFFu)) {
        doorbell_finding(q, "half of the cell was written (it holds 0x%016llx): write it with one 64-bit store",
                         (unsigned long long)v);
        q->limit = wptr;
    } else if (q->d.kind == CP_AQL) {
        if (v >= wptr)
            doorbell_finding(q,
                             "%llu was rung, write_dispatch_id is %llu: the value is the index of the last packet, "
                             "and write_dispatch_id is stored before",
                             (unsigned long long)v, (unsigned long long)wptr);
        q->limit = wptr > v + 1 ? wptr : v + 1;
    } else if (v > wptr) {
        doorbell_finding(q,
                         "%llu was rung, the write pointer in memory is %llu %s: store the write pointer, fence, "
                         "then ring with the same value",
                         (unsigned long long)v, (unsigned long long)wptr, unit_of(q));
        q->limit = v;
    } else if (v < q->pos) {
        doorbell_finding(q, "%llu was rung after %llu: the value counts %s for ever, it never wraps",
                         (unsigned long long)v, (unsigned long long)q->pos, unit_of(q));
        q->limit = q->pos;
    } else {
        q->limit = v;
    }
    if (!q->dead && q->limit - q->pos > ring_units(q)) {
        doorbell_finding(q, "%llu %s are announced beyond the read pointer %llu, the ring holds %llu: unread packets "
                         "were overwritten", (unsigned long long)(q->limit - q->pos), unit_of(q),
                         (unsigned long long)q->pos, (unsigned long long)ring_units(q));
    } else if (!q->dead && q->d.kind != CP_AQL && q->limit - q->pos == ring_units(q)) {
        doorbell_finding(q, "the ring is full to its last dword: the read pointer wraps with it, so it may be taken for an empty "
                         "one; leave one free (kfdtest's BaseQueue.cpp)");
    }
}

/* ---- turns ---- */

/* The next indirect buffer of a kernel-mode submission; STEP_IDLE when there is none. */
static enum step batch_step(struct cp_queue *q)
{
    if (q->depth || q->have_pkt)
        return q->d.kind == CP_SDMA ? sdma_step(q) : pm4_step(q);
    pthread_mutex_lock(&q->c->lock);
    struct cp_batch *b = q->batch;
    pthread_mutex_unlock(&q->c->lock);
    if (!b)
        return STEP_IDLE;
    if (b->next_ib == 0)
        reg_foreign(q);
    if (b->next_ib < b->n_ibs) {
        q->place_ib = 0;
        q->place_at = b->point;
        q->pkt_name = "submission";
        const struct cp_ib *ib = &b->ib[b->next_ib++];
        return pm4_ib_open(q, ib->va, ib->dwords) ? STEP_NEXT : STEP_DEAD;
    }
    if (cp_waves_run(q))
        return STEP_WAIT;
    struct cp_event e = { .kind = EV_DONE, .queue = q->id, .done = b->done, .user = b->user, .point = b->point };
    pthread_mutex_lock(&q->c->lock);
    q->batch = b->next;
    if (!q->batch)
        q->batch_tail = &q->batch;
    pthread_mutex_unlock(&q->c->lock);
    free(b);
    if (e.done)
        cp_event_push(q->c, &e);
    return STEP_NEXT;
}

static enum step queue_step(struct cp_queue *q)
{
    if (q->kernel)
        return batch_step(q);
    return q->d.kind == CP_PM4 ? pm4_step(q) : q->d.kind == CP_AQL ? aql_step(q) : sdma_step(q);
}

/* True when it got anywhere. */
static bool queue_turn(struct cp_queue *q)
{
    bool progress = false;
    if (!q->kernel)
        doorbell_take(q);
    for (int i = 0; i < PACKETS_PER_TURN && !__atomic_load_n(&q->dead, __ATOMIC_RELAXED); i++) {
        enum step s = queue_step(q);
        if (s != STEP_NEXT)
            return progress || s == STEP_DEAD || s == STEP_PART;
        progress = true;
    }
    return progress;
}

static void queue_free(struct cp *c, struct cp_queue *q)
{
    for (uint32_t i = 0; i < c->n_queues; i++) {
        if (c->queue[i] == q) {
            memmove(&c->queue[i], &c->queue[i + 1], (c->n_queues - i - 1) * sizeof c->queue[0]);
            c->n_queues--;
            break;
        }
    }
    while (q->batch) {
        struct cp_batch *b = q->batch;
        struct cp_event e = { .kind = EV_DONE, .queue = q->id, .done = b->done, .user = b->user, .point = b->point };
        q->batch = b->next;
        if (b->done)
            cp_event_push(c, &e);
        free(b);
    }
    if (q->code && --q->code->refs == 0) {
        for (uint32_t i = 0; i < c->n_codes; i++)
            if (c->code[i] == q->code)
                c->code[i] = c->code[--c->n_codes];
        decoded_destroy(q->code->now);
        free(q->code);
    }
    cp_strict_queue_destroy(q);
    dispatch_free(q);
    free(q->pkt);
    free(q->uconfig);
    free(q);
}

void cp_pause_begin(struct cp *c)
{
    c->pausing++;
    while (c->running)
        pthread_cond_wait(&c->changed, &c->lock);
}

void cp_pause_end(struct cp *c)
{
    c->pausing--;
    pthread_cond_broadcast(&c->changed);
    pthread_cond_broadcast(&c->wake);
}

/* Lock held; a round over all queues. */
static bool queues_round(struct cp *c)
{
    bool progress = false;
    for (uint32_t i = 0; i < c->n_queues && !c->stop; i++) {
        struct cp_queue *q = c->queue[i];
        if (q->kernel && !q->busy && !q->job.active && (q->dead || (!q->batch && !q->depth && !q->have_pkt))) {
            queue_free(c, q);
            i--;
            progress = true;
            continue;
        }
        if (q->dead || q->dying)
            continue;
        bool resting = !q->kernel && q->pos >= q->limit && !q->depth && !q->have_pkt && !q->aql_pending && !q->aql_ib;
        if (resting && q->d.doorbell && !doorbell_rung(q))
            continue;
        while (c->pausing)
            pthread_cond_wait(&c->changed, &c->lock);
        if (i >= c->n_queues || c->queue[i] != q)
            continue;
        q->busy = true;
        c->running++;
        pthread_mutex_unlock(&c->lock);
        progress |= queue_turn(q);
        pthread_mutex_lock(&c->lock);
        q->busy = false;
        c->running--;
        if (c->pausing || q->dying || q->dead)
            pthread_cond_broadcast(&c->changed);
        deliver_unlocked(c);
    }
    return progress;
}

static void fetcher_sleep(struct cp *c, long ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ns;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *fetch_thread(void *arg)
{
    struct cp *c = arg;
    uint64_t idle_since = cp_now_ns();
    uint32_t idle_rounds = 0;
    prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    prctl(PR_SET_NAME, "amdsim-cp", 0, 0, 0);
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        bool progress = queues_round(c);
        while (c->pausing)
            pthread_cond_wait(&c->changed, &c->lock);
        progress |= dispatch_help(c);
        evict_if_due(c);
        deliver_unlocked(c);
        if (progress) {
            idle_rounds = 0;
            continue;
        }
        if (idle_rounds++ == 0)
            idle_since = cp_now_ns();
        if (idle_rounds < POLLS_BEFORE_SLEEP) {
            pthread_mutex_unlock(&c->lock);
            for (int i = 0; i < PAUSES_PER_POLL; i++)
                cpu_pause();
            pthread_mutex_lock(&c->lock);
        } else {
            uint64_t ns = (cp_now_ns() - idle_since) / IDLE_PER_SLEEP;
            fetcher_sleep(c, ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : (long)ns);
        }
    }
    pthread_mutex_unlock(&c->lock);
    events_deliver(c);
    return NULL;
}

/* ---- the interface ---- */

static uint32_t threads_default(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (uint32_t)n;
}

struct cp *cp_create(const struct chip *chip, const struct cp_options *o, const struct cp_host *h)
{
    struct cp *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->chip = chip;
    c->o = *o;
    c->host = *h;
    c->event_tail = &c->event;
    c->next_id = 1;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->event_lock, NULL);
    pthread_cond_init(&c->wake, &attr);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (o->trace && (c->trace = fopen(o->trace, "w")))
        setvbuf(c->trace, NULL, _IOLBF, 0); /* what a killed program leaves is whole */
    if (o->strict)
        c->strict = cp_strict_create(c);
    uint32_t n = (o->n_threads ? o->n_threads : threads_default()) - 1; /* the fetching thread is one of them */
    c->worker = calloc(n + 1, sizeof *c->worker);
    if (!c->worker || (o->strict && !c->strict) || (o->trace && !c->trace) ||
        pthread_create(&c->fetcher, NULL, fetch_thread, c)) {
        if (c->trace)
            fclose(c->trace);
        free(c->worker);
        cp_strict_destroy(c->strict);
        free(c);
        return NULL;
    }
    while (c->n_workers < n && !pthread_create(&c->worker[c->n_workers], NULL, dispatch_thread, c))
        c->n_workers++;
    return c;
}

void cp_destroy(struct cp *c)
{
    if (!c)
        return;
    cp_reset(c);
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->wake);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->fetcher, NULL);
    for (uint32_t i = 0; i < c->n_workers; i++)
        pthread_join(c->worker[i], NULL);
    while (c->n_queues)
        queue_free(c, c->queue[0]);
    events_deliver(c);
    while (c->event_spare) {
        struct cp_event *e = c->event_spare;
        c->event_spare = e->next;
        free(e);
    }
    cp_strict_destroy(c->strict);
    if (c->trace)
        fclose(c->trace);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->event_lock);
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->changed);
    free(c->worker);
    free(c);
}

/* Lock held. */
static struct cp_code *code_of(struct cp *c, struct vm *vm)
{
    for (uint32_t i = 0; i < c->n_codes; i++) {
        if (c->code[i]->vm == vm) {
            c->code[i]->refs++;
            return c->code[i];
        }
    }
    struct cp_code *k = calloc(1, sizeof *k);
    if (!k || !(k->now = decoded_create(c->chip))) {
        free(k);
        return NULL;
    }
    k->vm = vm;
    k->refs = 1;
    k->generation = __atomic_load_n(&vm->generation, __ATOMIC_ACQUIRE);
    return c->code[c->n_codes++] = k;
}

/* Lock held. */
static struct cp_queue *queue_new(struct cp *c, const struct cp_queue_desc *d, bool kernel)
{
    struct cp_queue *q = calloc(1, sizeof *q);
    if (!q || c->n_queues == CP_MAX_QUEUES) {
        free(q);
        return NULL;
    }
    q->c = c;
    q->d = *d;
    q->kernel = kernel;
    q->batch_tail = &q->batch;
    q->pkt = malloc(CP_MAX_PACKET * 4);
    q->code = code_of(c, d->vm);
    if (!q->pkt || !q->code || cp_strict_queue_create(q)) {
        free(q->pkt);
        free(q);
        return NULL;
    }
    reg_reset(q);
    q->id = c->next_id++;
    c->queue[c->n_queues++] = q;
    pthread_cond_broadcast(&c->changed);
    return q;
}

int cp_queue_create(struct cp *c, const struct cp_queue_desc *d, uint32_t *id)
{
    pthread_mutex_lock(&c->lock);
    struct cp_queue *q = queue_new(c, d, false);
    if (q)
        *id = q->id;
    pthread_mutex_unlock(&c->lock);
    return q ? 0 : -ENOMEM;
}

static struct cp_queue *queue_find(struct cp *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->n_queues; i++)
        if (c->queue[i]->id == id)
            return c->queue[i];
    return NULL;
}

int cp_queue_destroy(struct cp *c, uint32_t id, uint32_t timeout_ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    int rc = 0;
    pthread_mutex_lock(&c->lock);
    struct cp_queue *q = queue_find(c, id);
    if (!q) {
        pthread_mutex_unlock(&c->lock);
        return -EINVAL;
    }
    q->dying = true;
    if (c->away) /* what it had running is in its save area, and stays there */
        dispatch_cancel(q);
    while ((q->busy || q->job.active) && rc == 0)
        rc = pthread_cond_timedwait(&c->changed, &c->lock, &end);
    if (q->busy || q->job.active) {
        q->dying = false;
        rc = -ETIME;
    } else {
        queue_free(c, q);
        rc = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int cp_submit(struct cp *c, struct vm *vm, bool sdma, const struct cp_ib *ib, uint32_t n_ibs, uint64_t point,
              void (*done)(void *user, uint64_t point), void *user)
{
    struct cp_batch *b = calloc(1, sizeof *b + n_ibs * sizeof b->ib[0]);
    if (!b)
        return -ENOMEM;
    b->point = point;
    b->done = done;
    b->user = user;
    b->n_ibs = n_ibs;
    memcpy(b->ib, ib, n_ibs * sizeof *ib);
    enum cp_queue_kind kind = sdma ? CP_SDMA : CP_PM4;
    struct cp_queue *q = NULL;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->n_queues && !q; i++) {
        struct cp_queue *k = c->queue[i];
        if (k->kernel && !k->dead && k->d.vm == vm && k->d.kind == kind)
            q = k;
    }
    /* The driver's own queues have an end-of-pipe buffer; its address is not the process's business. */
    if (!q)
        q = queue_new(c, &(struct cp_queue_desc){ .kind = kind, .vm = vm, .eop = 1 }, true);
    if (q) {
        *q->batch_tail = b;
        q->batch_tail = &b->next;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    if (!q)
        free(b);
    return q ? 0 : -ENOMEM;
}

void cp_quiesce(struct cp *c)
{
    pthread_mutex_lock(&c->lock);
    cp_pause_begin(c);
    cp_pause_end(c);
    pthread_mutex_unlock(&c->lock);
}

void cp_reset(struct cp *c)
{
    pthread_mutex_lock(&c->lock);
    cp_pause_begin(c);
    for (uint32_t i = 0; i < c->n_queues; i++) {
        c->queue[i]->dead = true;
        dispatch_cancel(c->queue[i]);
    }
    cp_pause_end(c);
    pthread_mutex_unlock(&c->lock);
}

void cp_queue_reset(struct cp *c, uint32_t id)
{
    pthread_mutex_lock(&c->lock);
    cp_pause_begin(c);
    struct cp_queue *q = queue_find(c, id);
    if (q) {
        q->dead = true;
        dispatch_cancel(q);
    }
    cp_pause_end(c);
    pthread_mutex_unlock(&c->lock);
}

uint32_t cp_queues(struct cp *c)
{
    uint32_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->n_queues; i++)
        n += !c->queue[i]->kernel;
    pthread_mutex_unlock(&c->lock);
    return n;
}

void cp_counts(struct cp *c, struct isa_counts *out, uint64_t *dispatches, uint64_t *packets, uint64_t *busy_ns,
               uint64_t *preemptions, uint64_t *evictions)
{
    pthread_mutex_lock(&c->lock);
    if (out)
        *out = c->counts;
    if (dispatches)
        *dispatches = c->dispatches;
    if (packets)
        *packets = c->packets;
    if (busy_ns)
        *busy_ns = c->busy_ns;
    if (preemptions)
        *preemptions = c->preemptions;
    if (evictions)
        *evictions = c->evictions;
    pthread_mutex_unlock(&c->lock);
}
