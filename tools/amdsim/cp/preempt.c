/* Preemption in mid-kernel: where the waves of a work-group go, and what a card demands for it. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "tools/amdsim/cp/state.h"

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
    return s->saved = isa_group_save(s->g, at);
}

bool preempt_restore(struct cp_queue *q, struct cp_slot *s, uint32_t index)
{
    uint64_t bytes;
    gva at = place_of(q, index, &bytes);
    s->saved = false;
    return isa_group_restore(s->g, at);
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

/* As amdgpu_amdkfd_evict_userptr and TTM's eviction do with a process whose memory another one needs: its queues stop, and
 * PROCESS_RESTORE_TIME_MS later (kfd_priv.h) its buffers are mapped anew and the queues go on. */
void evict_if_due(struct cp *c)
{
    enum { RESTORE_MS = 100 };
    uint64_t now = __atomic_load_n(&c->dispatches, __ATOMIC_RELAXED);
    if (now - c->evict_at < c->o.evict_dispatches)
        return;
    c->evict_at = now;
    cp_pause_begin(c);
    for (uint32_t i = 0; i < c->n_queues; i++) {
        struct cp_queue *q = c->queue[i];
        if (q->d.save && !q->dead && !leave(q))
            dispatch_cancel(q);
    }
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += RESTORE_MS * 1000000l;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (!c->stop && pthread_cond_timedwait(&c->changed, &c->lock, &end) != ETIMEDOUT)
        ;
    for (uint32_t i = 0; i < c->n_codes; i++)
        __atomic_fetch_add(&c->code[i]->vm->generation, 1, __ATOMIC_RELEASE); /* new page tables: code is fetched again */
    c->evictions++;
    cp_pause_end(c);
}
