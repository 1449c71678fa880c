/* Events through /dev/kfd: what the GPU's interrupts, faults and resets wake. A signal event is a slot of the event
 * page: a slot that no longer reads ~0 has been signalled. Everything here is under card.event_lock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"
#include "tools/amdsim/kmd/uapi.h"

enum { N_SLOTS = 4096, N_OTHER = 512, N_IDS = N_SLOTS + N_OTHER }; /* ids beyond the slots: events without one */
enum { EVENT_SIGNAL, EVENT_HW_EXCEPTION = 3, EVENT_DEBUG = 5, EVENT_MEMORY = 8 };
enum { WAIT_COMPLETE, WAIT_TIMEOUT, WAIT_FAIL };

struct event {
    bool used, auto_reset, signaled;
    uint32_t type;
    uint64_t age;
    struct kfd_memory_exception memory;
    struct kfd_hw_exception hw;
};

/* One event in one sleeping WAIT_EVENTS. */
struct waiter {
    struct waiter *next;
    uint32_t id;
    bool activated, gone;
};

static struct event events[N_IDS];
static struct waiter *waiters;
static uint64_t *page;          /* the slots, NULL: no event yet */
static uint64_t page_handle;    /* 0: the driver's own page      */

/* The descriptor of SMI_EVENTS: the program writes which events it wants, 64 bits, and reads lines, which kfd_smi_events.c of the
 * kernel calls a message; a read never waits. Of them there are those of queues that were taken off the card and came back. */
static int smi_fd = -1;        /* our end; event_lock */
static uint64_t smi_wanted;

enum { SMI_QUEUE_EVICTION = 9, SMI_QUEUE_RESTORE = 10, TTM_EVICTION = 2 };

int kfd_smi_events(void *arg)
{
    struct kfd_smi_args *a = arg;
    int end[2];
    if (a->gpu_id != KMD_GPU_ID)
        return kmd_why(-EINVAL, "SMI_EVENTS: gpu_id %u, the card's is %u", a->gpu_id, (unsigned)KMD_GPU_ID);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, end))
        return -errno;
    pthread_mutex_lock(&card.event_lock);
    if (smi_fd >= 0)
        syscall(SYS_close, smi_fd);
    smi_fd = end[0];
    smi_wanted = 0;
    pthread_mutex_unlock(&card.event_lock);
    a->fd = (uint32_t)end[1];
    return 0;
}

static void smi_tell(unsigned event, char rescheduled)
{
    char line[96];
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    int n = snprintf(line, sizeof line, "%x %lld -%d %x ", event, (long long)t.tv_sec * 1000000000ll + t.tv_nsec, card.pid,
                     (unsigned)KMD_GPU_ID);
    if (event == SMI_QUEUE_EVICTION)
        n += snprintf(line + n, sizeof line - (size_t)n, "%d\n", TTM_EVICTION);
    else
        n += snprintf(line + n, sizeof line - (size_t)n, "%c\n", rescheduled);
    pthread_mutex_lock(&card.event_lock);
    while (smi_fd >= 0 && recv(smi_fd, &smi_wanted, sizeof smi_wanted, MSG_DONTWAIT) == sizeof smi_wanted)
        ;
    if (smi_fd >= 0 && smi_wanted >> (event - 1) & 1)
        send(smi_fd, line, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    pthread_mutex_unlock(&card.event_lock);
}

bool kfd_on_eviction(void *user, bool off)
{
    if (off) {
        shared_left();
        card_move_vram();
        smi_tell(SMI_QUEUE_EVICTION, 0);
        return true;
    }
    bool back = shared_may_return();
    smi_tell(SMI_QUEUE_RESTORE, back ? '0' : 'R');
    return back;
}

void kfd_events_forget(void)
{
    smi_fd = -1;
    memset(events, 0, sizeof events);
    waiters = NULL;
    page = NULL;
    page_handle = 0;
    kfd_queues_forget();
}

bool kfd_is_event_page(uint64_t handle)
{
    return page && handle == page_handle;
}

static struct event *event_of(uint32_t id)
{
    return id < N_IDS && events[id].used ? &events[id] : NULL;
}

static bool has_slot(uint32_t type)
{
    return type == EVENT_SIGNAL || type == EVENT_DEBUG;
}

static void set(uint32_t id)
{
    bool waited_for = false;
    struct event *ev = &events[id];
    for (struct waiter *w = waiters; w; w = w->next)
        if (w->id == id)
            w->activated = waited_for = true;
    ev->age++;
    ev->signaled = !ev->auto_reset || !waited_for; /* a sleeper takes the signal with it */
    card_wake();
}

static int set_page(uint64_t handle)
{
    if (page)
        return kmd_why(-EINVAL, "CREATE_EVENT: the event page is set already");
    struct bo *bo = kfd_bo_of(handle);
    if (!bo || bo->domain > KMD_GTT || bo->bytes < N_SLOTS * 8)
        return kmd_why(-EINVAL, "CREATE_EVENT: event page handle 0x%llx, expected a buffer of 32 KiB",
                       (unsigned long long)handle);
    page = (uint64_t *)bo->host;
    page_handle = handle;
    memset(page, 0xff, N_SLOTS * 8);
    return 0;
}

int kfd_create_event(void *arg)
{
    struct kfd_event_args *a = arg;
    if (kmd_injected(KMD_INJECT_EVENT_ENOSPC))
        return kmd_why(-ENOSPC, "CREATE_EVENT: --inject event-enospc");
    pthread_mutex_lock(&card.event_lock);
    int rc = a->page_handle ? set_page(a->page_handle) : 0;
    if (rc == 0 && a->type > EVENT_MEMORY)
        rc = kmd_why(-EINVAL, "CREATE_EVENT: type %u", a->type);
    if (rc == 0 && !page && has_slot(a->type)) {
        page = (uint64_t *)(card.kfd_page + KMD_OFF_EVENTS);
        memset(page, 0xff, N_SLOTS * 8);
    }
    uint32_t id = has_slot(a->type) ? 0 : N_SLOTS, end = has_slot(a->type) ? N_SLOTS : N_IDS;
    while (rc == 0 && id < end && events[id].used)
        id++;
    if (rc == 0 && id == end)
        rc = kmd_why(-ENOSPC, "CREATE_EVENT: no id is free");
    if (rc == 0) {
        events[id] = (struct event){ .used = true, .auto_reset = a->auto_reset, .type = a->type, .age = 1 };
        if (has_slot(a->type))
            page[id] = ~0ull;
        a->event_id = a->trigger_data = id;
        a->slot = has_slot(a->type) ? id : 0;
    }
    pthread_mutex_unlock(&card.event_lock);
    return rc;
}

/* SET, RESET and DESTROY differ in one step. */
static int with_event(const struct kfd_event_id_args *a, const char *call, void (*step)(uint32_t id))
{
    pthread_mutex_lock(&card.event_lock);
    int rc = event_of(a->event_id) ? 0 : kmd_why(-EINVAL, "%s: event %u is unknown", call, a->event_id);
    if (rc == 0)
        step(a->event_id);
    pthread_mutex_unlock(&card.event_lock);
    return rc;
}

static void destroy_step(uint32_t id)
{
    events[id].used = false;
    for (struct waiter *w = waiters; w; w = w->next)
        if (w->id == id)
            w->gone = true;
    card_wake();
}

static void reset_step(uint32_t id)
{
    events[id].signaled = false;
}

int kfd_destroy_event(void *arg)
{
    return with_event(arg, "DESTROY_EVENT", destroy_step);
}

int kfd_set_event(void *arg)
{
    return with_event(arg, "SET_EVENT", set);
}

int kfd_reset_event(void *arg)
{
    return with_event(arg, "RESET_EVENT", reset_step);
}

/* ---- waiting ---- */

static int begin_wait(struct waiter *w, struct kfd_event_data *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct event *ev = event_of(d[i].event_id);
        if (!ev)
            return kmd_why(-EINVAL, "WAIT_EVENTS: event %u is unknown", d[i].event_id);
        bool aged = ev->type == EVENT_SIGNAL && kfd_minor() >= 14 && d[i].last_age && d[i].last_age != ev->age;
        w[i] = (struct waiter){ .id = d[i].event_id, .activated = ev->signaled || aged };
        ev->signaled = ev->signaled && !ev->auto_reset;
    }
    for (uint32_t i = 0; i < n; i++) {
        w[i].next = waiters;
        waiters = &w[i];
    }
    return 0;
}

static void end_wait(struct waiter *w, uint32_t n)
{
    for (struct waiter **p = &waiters; *p;)
        if (*p >= w && *p < w + n)
            *p = (*p)->next;
        else
            p = &(*p)->next;
}

static bool is_over(const struct waiter *w, uint32_t n, bool all, uint32_t *result)
{
    uint32_t n_on = 0, n_gone = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_on += w[i].activated;
        n_gone += w[i].gone;
    }
    *result = n_gone ? WAIT_FAIL : WAIT_COMPLETE;
    return n_gone || (all ? n_on == n : n_on > 0);
}

static void report(const struct waiter *w, struct kfd_event_data *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct event *ev = event_of(w[i].id);
        if (!w[i].activated || !ev)
            continue;
        if (ev->type == EVENT_MEMORY)
            d[i].memory = ev->memory;
        else if (ev->type == EVENT_HW_EXCEPTION && kmd_options()->kernel >= 6008) /* before, nobody copied it */
            d[i].hw = ev->hw;
        else if (ev->type == EVENT_SIGNAL && kfd_minor() >= 14)
            d[i].last_age = ev->age;
    }
}

static int wait_locked(struct kfd_wait_args *a, struct waiter *w, struct kfd_event_data *d)
{
    uint64_t deadline = a->timeout_ms == 0xffffffffu ? ~0ull : card_now_ns() + a->timeout_ms * 1000000ull;
    int rc = begin_wait(w, d, a->n);
    if (rc != 0)
        return rc;
    bool interrupt = kmd_injected(KMD_INJECT_EINTR);
    while (!is_over(w, a->n, a->all, &a->result)) {
        uint64_t now = card_now_ns();
        if (now >= deadline) {
            a->result = WAIT_TIMEOUT;
            break;
        }
        uint32_t gen = __atomic_load_n(&card.event_gen, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(&card.event_lock);
        static bool interrupted; /* --inject eintr: every other wait */
        rc = interrupt && (interrupted = !interrupted) ? -EINTR : card_sleep(gen, deadline);
        pthread_mutex_lock(&card.event_lock);
        if (rc == -EINTR && !is_over(w, a->n, a->all, &a->result)) { /* the caller calls again with what is left */
            if (a->timeout_ms && a->timeout_ms != 0xffffffffu)
                a->timeout_ms = now < deadline ? (uint32_t)((deadline - now) / 1000000) : 0;
            end_wait(w, a->n);
            return -EINTR;
        }
    }
    end_wait(w, a->n);
    report(w, d, a->n);
    return a->result == WAIT_FAIL ? -EIO : 0;
}

int kfd_wait_events(void *arg)
{
    enum { FEW = 8 }; /* as a kernel does, without the program's allocator: who sleeps may count on it */
    struct kfd_wait_args *a = arg;
    struct waiter few_w[FEW] = { 0 }, *w = few_w;
    struct kfd_event_data few_d[FEW] = { 0 }, *d = few_d;
    if (a->n > N_IDS)
        return kmd_why(-EINVAL, "WAIT_EVENTS: %u events", a->n);
    if (a->n > FEW) {
        w = calloc(a->n, sizeof *w);
        d = calloc(a->n, sizeof *d);
    }
    int rc = w && d ? user_read(d, a->events, a->n * sizeof *d) : -ENOMEM;
    if (rc == 0) {
        pthread_mutex_lock(&card.event_lock);
        rc = wait_locked(a, w, d);
        pthread_mutex_unlock(&card.event_lock);
        if (rc == 0 && a->result == WAIT_COMPLETE)
            rc = user_write(a->events, d, a->n * sizeof *d);
    }
    if (a->n > FEW) {
        free(w);
        free(d);
    }
    return rc;
}

/* ---- what the GPU says ---- */

static void acknowledge(uint32_t id)
{
    __atomic_store_n(&page[id], ~0ull, __ATOMIC_SEQ_CST);
    set(id);
}

/* The context id names the event when its slot was written; else every slot is looked at, as the kernel does. */
void kfd_on_interrupt(void *user, uint32_t queue, uint32_t ctxid)
{
    if (kmd_injected(KMD_INJECT_NO_INTERRUPTS) || drm_userq_interrupt(queue))
        return;
    pthread_mutex_lock(&card.event_lock);
    if (page && ctxid < N_SLOTS && events[ctxid].used &&
        __atomic_load_n(&page[ctxid], __ATOMIC_SEQ_CST) != ~0ull)
        acknowledge(ctxid);
    else
        for (uint32_t id = 0; page && id < N_SLOTS; id++)
            if (events[id].used && __atomic_load_n(&page[id], __ATOMIC_SEQ_CST) != ~0ull)
                acknowledge(id);
    pthread_mutex_unlock(&card.event_lock);
}

void kfd_on_hang(void)
{
    for (uint32_t id = N_SLOTS; id < N_IDS; id++)
        if (events[id].used && events[id].type == EVENT_HW_EXCEPTION) {
            events[id].hw = (struct kfd_hw_exception){ .reset_type = 0, .reset_cause = 0, .memory_lost = 1,
                                                       .gpu_id = KMD_GPU_ID };
            set(id);
        }
    card_wake();
}

void kfd_on_fault(void *user, const struct cp_fault *f)
{
    pthread_mutex_lock(&card.event_lock);
    if (f->page) {
        card.fault_va = f->va & ~(gva)(KMD_PAGE - 1);
        card.fault_status = (f->not_present ? 1u : 0) | (f->write ? 1u << 18 : 0);
        kmd_dmesg("[gfxhub] page fault at 0x%llx: %s", (unsigned long long)card.fault_va, f->text);
        for (uint32_t id = N_SLOTS; id < N_IDS; id++)
            if (events[id].used && events[id].type == EVENT_MEMORY) {
                events[id].memory = (struct kfd_memory_exception){
                    .not_present = f->not_present, .read_only = f->write, .no_execute = f->exec,
                    .va = card.fault_va, .gpu_id = KMD_GPU_ID,
                };
                set(id);
            }
    } else if (drm_userq_on_fault(f->queue)) {
        kmd_dmesg("exception in a user queue: %s", f->text);
        pthread_mutex_unlock(&card.event_lock);
        return;
    } else {
        kmd_dmesg("GPU hang or exception, reset begins: %s", f->text);
        card.reset_pending = true;
        kfd_on_hang();
    }
    if (f->page && drm_userq_on_fault(f->queue))
        ;
    else if (!f->page || !kfd_owns_queue(f->queue))
        drm_on_fault();
    pthread_mutex_unlock(&card.event_lock);
}
