/* Preemption in mid-kernel: where the waves of a work-group go, and what a card demands for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/amdsim/cp/state.h"

enum { CTL_HEADER = 40, CTL_WAVE = 12, WAVES_CU = 32 }; /* kfd_queue_ctx_save_restore_size; CntlStackBytesPerWave in kfdtest */
enum { RSRC1_PRIV = 1 << 20, SGPR_CU = 0x4000, LDS_CU = 0x10000, HWREG_CU = 0x1000, VGPR_UNIT = 24 };

bool preempt_applies(const struct cp_queue *q)
{
    return q->c->o.preempt_insts && q->d.save;
}

/* The card's waves fill the area from the end of its control stack on, CU by CU. The model keeps the CUs that come last
 * busy, as a dispatch that fills the card does, so that an area which is too small for the whole card is noticed. */
static gva place_of(const struct cp_queue *q, uint32_t index, uint64_t *bytes)
{
    const struct chip *chip = q->c->chip;
    const struct isa_launch *l = &q->job.launch;
    uint32_t vgprs = ((l->rsrc1 & 63) + 1) * 8;
    uint64_t all = (uint64_t)chip->n_cu * (chip->save_vgpr_bytes + SGPR_CU + LDS_CU + HWREG_CU);
    vgprs = (vgprs + VGPR_UNIT - 1) / VGPR_UNIT * VGPR_UNIT;
    *bytes = isa_context_bytes(q->job.waves_per_group, vgprs, (l->rsrc2 >> 15 & 511) * 512);
    return q->d.save + q->d.ctl_stack_bytes + all - (index + 1) * *bytes;
}

/* The control stack lies behind the area's header and grows down from where the waves begin, with an entry a wave; the model's
 * are the last ones of a full card, which lie lowest. */
static gva entries_of(const struct cp_queue *q, uint32_t index)
{
    uint64_t above = (uint64_t)q->c->chip->n_cu * WAVES_CU - (uint64_t)index * q->job.waves_per_group;
    return q->d.save + q->d.ctl_stack_bytes - above * CTL_WAVE;
}

/* What an entry of work-group `index` says: so that one that something was written over is noticed. */
static void entry(const struct cp_queue *q, uint32_t index, uint32_t wave, uint32_t out[3])
{
    out[0] = 0xc7510000u | (wave & 0xffff);
    out[1] = index;
    out[2] = (uint32_t)q->job.number;
}

static bool save_entries(struct cp_queue *q, uint32_t index, char why[200])
{
    gva at = entries_of(q, index), lowest = q->d.save + CTL_HEADER, bad = 0;
    if (at < lowest && q->c->o.strict) {
        snprintf(why, 200, "strict: the control stack of %llu bytes is full: an entry for each of %u waves reaches down to 0x%llx, "
                 "the area begins at 0x%llx", (unsigned long long)q->d.ctl_stack_bytes, q->c->chip->n_cu * WAVES_CU,
                 (unsigned long long)at, (unsigned long long)q->d.save);
        return false;
    }
    for (uint32_t w = 0; w < q->job.waves_per_group; w++) {
        uint32_t e[3];
        entry(q, index, w, e);
        if (!vm_write(q->d.vm, at + (uint64_t)w * CTL_WAVE, e, sizeof e, &bad)) {
            snprintf(why, 200, "the control stack: page fault at 0x%llx", (unsigned long long)bad);
            return false;
        }
    }
    return true;
}

static bool check_entries(struct cp_queue *q, uint32_t index, char why[200])
{
    for (uint32_t w = 0; w < q->job.waves_per_group; w++) {
        uint32_t e[3], got[3] = { 0 };
        gva bad = 0;
        entry(q, index, w, e);
        if (!vm_read(q->d.vm, entries_of(q, index) + (uint64_t)w * CTL_WAVE, got, sizeof got, &bad) || memcmp(e, got, sizeof e)) {
            snprintf(why, 200, "the control stack's entry at 0x%llx was written over: the waves cannot be restored",
                     (unsigned long long)(entries_of(q, index) + (uint64_t)w * CTL_WAVE));
            return false;
        }
    }
    return true;
}

bool preempt_save(struct cp_queue *q, struct cp_slot *s, uint32_t index, char why[200])
{
    const struct chip *chip = q->c->chip;
    uint64_t bytes, end = q->d.save + q->d.save_bytes;
    gva at = place_of(q, index, &bytes);
    if (chip->cwsr_needs_priv && !(q->job.launch.rsrc1 & RSRC1_PRIV)) {
        snprintf(why, 200, "MES failed to respond to msg=SUSPEND: preempted in a kernel whose RSRC1.PRIV (bit 20) is clear, "
                 "which %s does not survive", chip->name);
        return false;
    }
    if (at + bytes > end && q->c->o.strict) {
        snprintf(why, 200, "strict: the waves of a preempted queue need the save area up to 0x%llx, it was given with 0x%llx "
                 "bytes and ends at 0x%llx", (unsigned long long)(at + bytes), (unsigned long long)q->d.save_bytes,
                 (unsigned long long)end);
        return false;
    }
    __atomic_fetch_add(&q->c->preemptions, 1, __ATOMIC_RELAXED);
    return save_entries(q, index, why) && (s->saved = isa_group_save(s->g, at));
}

bool preempt_restore(struct cp_queue *q, struct cp_slot *s, uint32_t index, char why[200])
{
    uint64_t bytes;
    gva at = place_of(q, index, &bytes);
    s->saved = false;
    return check_entries(q, index, why) && isa_group_restore(s->g, at);
}

/* ---- eviction ---- */

/* Lock held, nothing runs. Work-groups in mid-kernel leave the card; false: the card did not survive it. */
static bool leave(struct cp_queue *q)
{
    struct cp_job *j = &q->job;
    char why[200] = "";
    for (uint32_t i = 0; j->active && i < j->n_ready; i++) {
        uint32_t index = j->ready[(j->ready_first + i) % j->cap];
        struct cp_slot *s = &j->slot[index];
        if (s->saved || preempt_save(q, s, index, why))
            continue;
        struct cp_event e = { .kind = EV_FAULT };
        snprintf(e.fault.text, sizeof e.fault.text, "queue %u, %s: eviction: %s", q->id, j->where,
                 why[0] ? why : isa_group_fault(s->g)->text);
        cp_fault_tell(q, &e);
        return false;
    }
    return true;
}

/* PROCESS_ACTIVE_TIME_MS (kfd_priv.h): so long a process runs at least once it is back. As the model is slower than a card, and
 * the machine it runs on may be busy, it also gets some work done. */
static bool ran_a_little(const struct cp *c)
{
    enum { ACTIVE_MS = 10, SLICES = 500 };
    bool works = false;
    for (uint32_t i = 0; i < c->n_queues; i++)
        works |= c->queue[i]->job.active;
    return cp_now_ns() - c->back_ns >= ACTIVE_MS * 1000000ull && (!works || c->slices - c->back_slices >= SLICES);
}

static bool due(struct cp *c)
{
    uint64_t now = __atomic_load_n(&c->dispatches, __ATOMIC_RELAXED);
    if (c->o.evict_dispatches && now - c->evict_at >= c->o.evict_dispatches) {
        c->evict_at = now;
        return true;
    }
    if (!c->host.must_leave || !c->host.must_leave(c->host.user) || !ran_a_little(c))
        return false;
    /* a moment when work-groups are in mid-kernel, if there are any that run */
    bool works = false, between = false;
    for (uint32_t i = 0; i < c->n_queues; i++) {
        const struct cp_queue *q = c->queue[i];
        works |= q->d.save && q->job.active && !q->dead;
        between |= q->d.save && q->job.active && q->job.n_ready;
    }
    __atomic_store_n(&c->leaving, works && !between, __ATOMIC_RELAXED);
    return !works || between;
}

/* As when somebody reads amdgpu_gpu_recover, while a dispatch runs. */
static void reset_if_due(struct cp *c)
{
    for (uint32_t i = 0; i < c->n_queues; i++) {
        struct cp_queue *q = c->queue[i];
        if (!q->job.active || q->dead || c->dispatches < c->o.reset_dispatch)
            continue;
        struct cp_event e = { .kind = EV_FAULT };
        snprintf(e.fault.text, sizeof e.fault.text, "queue %u, %s: the card is reset", q->id, q->job.where);
        c->o.reset_dispatch = 0;
        cp_pause_begin(c);
        cp_fault_tell(q, &e);
        dispatch_cancel(q);
        cp_pause_end(c);
        return;
    }
}

/* Lock held; it is given up meanwhile. */
static bool tell(struct cp *c, bool off)
{
    if (!c->host.evicted)
        return true;
    pthread_mutex_unlock(&c->lock);
    bool yes = c->host.evicted(c->host.user, off);
    pthread_mutex_lock(&c->lock);
    return yes;
}

static void rest_for(struct cp *c, uint32_t ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += ms * 1000000l;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (!c->stop && pthread_cond_timedwait(&c->changed, &c->lock, &end) != ETIMEDOUT)
        ;
}

/* As TTM's eviction does with a process whose memory another one needs (evict_process_worker in kfd_process.c): its queues
 * stop; every PROCESS_RESTORE_TIME_MS (kfd_priv.h) it is tried to bring its buffers back, then they are mapped anew and the
 * queues go on. Queues without a save area stand still with what they run. */
void evict_if_due(struct cp *c)
{
    enum { RESTORE_MS = 100 };
    if (c->o.reset_dispatch)
        reset_if_due(c);
    if (!due(c))
        return;
    cp_pause_begin(c);
    c->away = true;
    for (uint32_t i = 0; i < c->n_queues; i++) {
        struct cp_queue *q = c->queue[i];
        if (q->d.save && !q->dead && !leave(q))
            dispatch_cancel(q);
    }
    tell(c, true);
    do
        rest_for(c, RESTORE_MS);
    while (!c->stop && !tell(c, false));
    for (uint32_t i = 0; i < c->n_codes; i++)
        __atomic_fetch_add(&c->code[i]->vm->generation, 1, __ATOMIC_RELEASE); /* new page tables: code is fetched again */
    c->evictions++;
    c->away = false;
    c->back_ns = cp_now_ns();
    c->back_slices = c->slices;
    cp_pause_end(c);
}
