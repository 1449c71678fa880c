/* rt/kfd/event.c: the driver's events: a wake-up that a queue raises, page faults, resets. */
#include <errno.h>
#include <string.h>

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
