/* rt/kfd/event.c: the driver's events: a wake-up that a queue raises, page faults, resets. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "rt/kfd/priv.h"

/* page: 0, or with the process's first event the memory that all its events share from then on. */
static int create(struct kfd_dev *d, uint64_t page, uint32_t type, bool auto_reset, uint32_t *id, bool *has)
{
    struct kfd_create_event c = { .page_handle = page, .type = type, .auto_reset = auto_reset, .node = d->gpu.node };
    int rc = kfd_call(d, KFD_IOC_CREATE_EVENT, &c);
    *id = c.event_id;
    *has = rc == 0;
    return rc;
}

/* ---- evictions ---- */

/* kfd_smi_events.c of the kernel; a process hears of itself without any right. rocm_smi.h has the same numbers
 * (RSMI_EVT_NOTIF_EVENT_QUEUE_EVICTION), kfdtest's ReadSMIEventThread (KFDSVMRangeTest.cpp) scans the lines. Without it only time
 * tells. */
static void listen_to_evictions(struct kfd_dev *d)
{
    struct kfd_smi_events a = { .gpu_id = d->gpu.gpu_id };
    const uint64_t want = 1u << (KFD_SMI_QUEUE_EVICTION - 1) | 1u << (KFD_SMI_QUEUE_RESTORE - 1);
    d->evictions = (struct kfd_evictions){ .fd = -1 };
    if (kfd_call(d, KFD_IOC_SMI_EVENTS, &a))
        return;
    if (kfd_sys_fd_own(d->sys, (int)a.fd) == 0 && kfd_sys_fd_write(d->sys, (int)a.fd, &want, sizeof want) == sizeof want)
        d->evictions.fd = (int)a.fd;
    else
        kfd_sys_close(d->sys, (int)a.fd);
}

/* "9 <ns> -<pid> <node> <why>", "a <ns> -<pid> <node> <0, or R: not yet>". From 663b0f1e141d to 6e7143e5e6e2 the kernel put a
 * byte of 0 for the last word, so that ends a line too. */
static void take_line(struct kfd_evictions *x)
{
    bool restore = x->line[0] == 'a';
    if (x->len < 2 || x->line[1] != ' ' || (x->line[0] != '9' && !restore))
        return;
    if (!restore && !x->away)
        x->n++;
    x->away = !restore || x->line[x->len - 1] == 'R';
}

void kfd_evictions_parse(struct kfd_evictions *x, const char *text, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (text[i] == '\n' || !text[i]) {
            take_line(x);
            x->len = 0;
        } else if (x->len < sizeof x->line) {
            x->line[x->len++] = text[i];
        }
    }
}

bool kfd_evictions_look(struct kfd_dev *d)
{
    struct kfd_evictions *x = &d->evictions;
    char text[512];
    uint64_t before = x->n;
    bool any = false;
    int n;
    if (x->fd < 0 || kfd_is_child(d))
        return false;
    for (int reads = 0; reads < 512 && (n = kfd_sys_fd_read(d->sys, x->fd, text, sizeof text)) > 0; reads++) {
        kfd_evictions_parse(x, text, (uint32_t)n); /* old kernels give 8 bytes at a time */
        any = true;
    }
    if (!before && x->n)
        log_warn(KFD, "%s: the driver has taken the queue off the card, because other programs need its memory; steps "
                 "wait until it is back (this is told once)", d->gpu.name);
    return any || x->away;
}

/* ---- events ---- */

int kfd_events_create(struct kfd_dev *d, struct err *e)
{
    int rc = kfd_mem_alloc(d, KFD_HOST, KFD_EVENT_SLOTS * 8, "event page", &d->event_page, e);
    if (rc)
        return rc;
    /* The first event brings the page and is not used otherwise: an interrupt with context id 0 is what packets without an
     * id send, and the driver then looks through all events (kfd_signal_event_interrupt). tinygrad leaves it out too. */
    if ((rc = create(d, d->event_page->handle, KFD_EVENT_SIGNAL, true, &d->page_event, &d->has_page_event)) ||
        (rc = create(d, 0, KFD_EVENT_SIGNAL, true, &d->wake_event, &d->has_wake_event)) ||
        (rc = create(d, 0, KFD_EVENT_MEMORY, false, &d->memory_event, &d->has_memory_event)) ||
        (rc = create(d, 0, KFD_EVENT_HW_EXCEPTION, false, &d->hw_event, &d->has_hw_event)))
        return kfd_fail(rc, e, "CREATE_EVENT");
    if (d->wake_event >= KFD_EVENT_SLOTS)
        return err_set(e, -EIO, "kfd: the driver gave event %u, slots are 0..%u", d->wake_event, KFD_EVENT_SLOTS - 1);
    listen_to_evictions(d);
    return 0;
}

void kfd_events_destroy(struct kfd_dev *d)
{
    const uint32_t id[] = { d->page_event, d->wake_event, d->memory_event, d->hw_event };
    const bool has[] = { d->has_page_event, d->has_wake_event, d->has_memory_event, d->has_hw_event };
    for (int i = 0; i < 4; i++)
        if (has[i] && !kfd_is_child(d))
            kfd_call(d, KFD_IOC_DESTROY_EVENT, &(struct kfd_destroy_event){ .event_id = id[i] });
    d->has_page_event = d->has_wake_event = d->has_memory_event = d->has_hw_event = false;
    if (d->evictions.fd >= 0)
        kfd_sys_close(d->sys, d->evictions.fd);
    d->evictions.fd = -1;
    if (d->event_page) { /* the driver takes the page back with the process, not before */
        d->event_page->handle = 0;
        d->event_page->on_gpu = false;
    }
    kfd_mem_free(d->event_page);
    d->event_page = NULL;
}

static void take(struct kfd_dev *d, const struct kfd_event_data *memory, const struct kfd_event_data *hw)
{
    struct kfd_fault *f = &d->fault;
    if (!f->memory && (memory->memory.gpu_id || memory->memory.va)) {
        f->memory = true;
        f->va = memory->memory.va;
        f->not_present = memory->memory.not_present;
        f->read_only = memory->memory.read_only;
        f->no_execute = memory->memory.no_execute;
    }
    if (!f->hardware && (hw->hw.gpu_id || hw->hw.memory_lost)) {
        f->hardware = f->told = true;
        f->reset_type = hw->hw.reset_type;
        f->reset_cause = hw->hw.reset_cause;
        f->memory_lost = hw->hw.memory_lost;
    }
}

/* A hardware exception may come without data: Linux before 6.8 never copies it ("drm/amdkfd: Copy HW exception data to
 * user event"), and kfd_signal_hw_exception_event, which reports packets that the card could not read, still fills none
 * in. The event is not reset by waiting, so asking for it alone tells. */
static bool hw_event_is_set(struct kfd_dev *d)
{
    struct kfd_event_data ev = { .event_id = d->hw_event };
    struct kfd_wait_events w = { .events = (uintptr_t)&ev, .n_events = 1 };
    return kfd_call(d, KFD_IOC_WAIT_EVENTS, &w) == 0 && w.result == KFD_WAIT_COMPLETE;
}

int kfd_events_wait(struct kfd_dev *d, uint32_t ms)
{
    struct kfd_event_data ev[3] = { { .event_id = d->wake_event }, { .event_id = d->memory_event },
                                    { .event_id = d->hw_event } };
    struct kfd_wait_events w = { .events = (uintptr_t)ev, .n_events = 3, .timeout_ms = ms };
    int rc = kfd_call(d, KFD_IOC_WAIT_EVENTS, &w);
    if (rc && rc != -ETIME && rc != -ETIMEDOUT) { /* a driver that cannot wait: the watchdog decides */
        kfd_sys_sleep(d->sys, 1000000);
        return -ETIME;
    }
    if (rc == 0 && w.result == KFD_WAIT_COMPLETE)
        take(d, &ev[1], &ev[2]);
    if (rc == 0 && w.result == KFD_WAIT_COMPLETE && !d->fault.memory && !d->fault.hardware)
        d->fault.hardware = hw_event_is_set(d);
    if (d->fault.memory || d->fault.hardware)
        return -EIO;
    return rc == 0 && w.result == KFD_WAIT_COMPLETE ? 0 : -ETIME;
}

void kfd_fault_text(const struct kfd_dev *d, char *out, size_t n)
{
    const struct kfd_fault *f = &d->fault;
    if (f->memory) {
        const struct kfd_mem *m = kfd_mem_at(d, f->va, 1);
        const char *why = f->read_only && m ? "write to read-only memory" : f->no_execute ? "memory is not code" : "page "
                                                                                                              "fault";
        const char *judged = kfd_mem_check((void *)(uintptr_t)d, f->va, 1, false);
        snprintf(out, n, "%s at 0x%llx "
                 "(%s)", why, (unsigned long long)f->va, m ? m->name : judged ? judged : "mapped");
    } else if (f->hardware && !f->told) {
        snprintf(out, n, "a hardware exception, of which this kernel tells no more: a reset, or a packet that the card "
                 "could not read (dmesg says)");
    } else if (f->hardware) {
        snprintf(out, n, "the GPU was reset (%s%s)", f->reset_cause ? "memory error" : "it hung",
                 f->memory_lost ? ", its memory is lost" : "");
    } else {
        snprintf(out, n, "the driver reports nothing");
    }
}
