/* Registers of a queue -> work-groups, and the threads that run them.
 *
 * A thread takes a work-group, runs a slice of it and puts it back if it is not done: work-groups that wait for each
 * other all get on, as far as the card could hold them at once. New ones start before suspended ones go on, and which of
 * those is next is drawn. When all that the card holds only look (s_sleep) for what nobody does, it is a deadlock. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tools/amdsim/cp/state.h"
#include "tools/amdsim/cp/strict.h"

enum {
    SLICE_SHORT = 16, SLICE_FIRST = 1 << 18, SLICE_NEXT = 1 << 16, /* instructions                                              */
    MAX_RESIDENT = 2048,
    WAVE_LANES = 32,
    MAX_THREADS = 1024, MAX_LDS_BYTES = 64 << 10,
};

/* Bits of COMPUTE_DISPATCH_INITIATOR. */
enum {
    INIT_ENABLE = 1 << 0, INIT_PARTIAL = 1 << 1, INIT_START_AT_000 = 1 << 2, INIT_ORDERED_APPEND = 3 << 3,
    INIT_THREADS = 1 << 5, INIT_W32 = 1 << 15,
    INIT_KNOWN_11 = 0x3EC7F | 0x8000, INIT_KNOWN_12 = INIT_KNOWN_11 | 1 << 12 | 3 << 18,
};

/* ---- registers ---- */

static uint32_t vgprs_of(const struct chip *chip, const struct isa_launch *l)
{
    uint32_t n = ((l->rsrc1 & 63) + 1) * 8, unit = chip->vgprs_per_simd == 1536 ? 24 : 16; /* LLVM, getVGPRAllocGranule */
    return (n + unit - 1) / unit * unit;
}

/* Work-groups that the card can hold at once. */
static uint32_t resident_of(const struct chip *chip, const struct isa_launch *l, uint32_t waves)
{
    uint32_t per_simd = chip->vgprs_per_simd / vgprs_of(chip, l), lds = (l->rsrc2 >> 15 & 511) * 512;
    if (per_simd > chip->waves_per_simd)
        per_simd = chip->waves_per_simd;
    uint64_t n = (uint64_t)per_simd * chip->simd_per_cu * chip->n_cu / waves;
    if (lds && n > (uint64_t)chip->n_cu * chip->lds_kib * 1024 / lds)
        n = (uint64_t)chip->n_cu * chip->lds_kib * 1024 / lds;
    if (l->scratch_waves && n > l->scratch_waves / waves)
        n = l->scratch_waves / waves;
    return n < 1 ? 1 : n > MAX_RESIDENT ? MAX_RESIDENT : (uint32_t)n;
}

static enum step launch_scratch(struct cp_queue *q, struct isa_launch *l, uint32_t waves)
{
    const struct chip *chip = q->c->chip;
    if (!(l->rsrc2 & 1))
        return STEP_NEXT;
    uint32_t per_engine = l->tmpring & 0xFFF, wave_size = l->tmpring >> 12 & (chip->gfx12 ? 0x3FFFF : 0x7FFF);
    if (!per_engine || !wave_size)
        return cp_stop(
            q,
            "RSRC2.SCRATCH_EN is set, TMPRING_SIZE is 0x%08x (WAVES %u, WAVESIZE %u x 256 bytes): waves would "
            "wait for scratch for ever",
            l->tmpring, per_engine, wave_size);
    l->scratch_waves = per_engine * chip->n_se;
    if (l->scratch_waves < waves)
        return cp_stop(q, "a work-group has %u waves, TMPRING_SIZE.WAVES gives scratch to %u: it would never start",
                       waves, l->scratch_waves);
    return STEP_NEXT;
}

static enum step launch_threads(struct cp_queue *q, struct isa_launch *l, uint32_t initiator, uint32_t *waves)
{
    uint32_t mask = q->c->chip->gfx12 ? 0x1FFF : 0xFFFF, threads = 1;
    for (int i = 0; i < 3; i++) {
        l->threads[i] = q->sh[R_NUM_THREAD_X + i] & mask;
        l->partial[i] = initiator & INIT_PARTIAL ? q->sh[R_NUM_THREAD_X + i] >> 16 : 0;
        if (!l->threads[i] || l->threads[i] > MAX_THREADS || l->partial[i] > l->threads[i])
            return cp_stop(q, "NUM_THREAD_%c is 0x%08x: 1 to %u threads, a partial group no more than a full one",
                           "XYZ"[i], q -> sh[R_NUM_THREAD_X + i], MAX_THREADS);
        threads *= l->threads[i];
        if (threads > MAX_THREADS)
            return cp_stop(q, "%ux%ux%u threads in a work-group, at most %u", l->threads[0], l->threads[1],
                           q->sh[R_NUM_THREAD_X + 2] & mask, MAX_THREADS);
    }
    *waves = (threads + WAVE_LANES - 1) / WAVE_LANES;
    return STEP_NEXT;
}

/* The grid: dim[] counts from 0, so with a start it is the end. */
static enum step launch_grid(struct cp_queue *q, struct isa_launch *l, const uint32_t dim[3], uint32_t initiator)
{
    for (int i = 0; i < 3; i++) {
        uint32_t end = dim[i];
        l->start[i] = initiator & INIT_START_AT_000 ? 0 : q->sh[R_START_X + i];
        if (initiator & INIT_THREADS) {
            end = (uint32_t)(((uint64_t)dim[i] + l->threads[i] - 1) / l->threads[i]);
            l->partial[i] = dim[i] % l->threads[i];
        }
        if (end && l->start[i] >= end)
            return cp_stop(q, "START_%c is %u, the grid ends at %u", "XYZ"[i], l->start[i], end);
        l->groups[i] = end;
    }
    return STEP_NEXT;
}

static enum step launch_checks(struct cp_queue *q, const struct isa_launch *l, uint32_t initiator)
{
    const struct chip *chip = q->c->chip;
    if (chip->gfx12 && l->rsrc2 >> 6 & 1)
        return cp_stop(q, "RSRC2 0x%08x: bit 6, TRAP_PRESENT before, is DYNAMIC_VGPR on gfx12: the kernel would find other "
                       "registers than it was compiled for", l->rsrc2);
    uint32_t known = chip->gfx12 ? INIT_KNOWN_12 : INIT_KNOWN_11, lds = (l->rsrc2 >> 15 & 511) * 512, cus = 0;
    static const uint16_t masks[] = { R_STATIC_THREAD_MGMT_SE0, R_STATIC_THREAD_MGMT_SE1, R_STATIC_THREAD_MGMT_SE2,
                                      R_STATIC_THREAD_MGMT_SE3 };
    for (uint32_t i = 0; i < 4 && i < chip->n_se; i++)
        cus |= q->sh[masks[i]];
    if (initiator & ~known)
        return cp_stop(q, "initiator 0x%08x: bits 0x%08x are reserved", initiator, initiator & ~known);
    if (!(initiator & INIT_ENABLE))
        return cp_stop(q, "initiator 0x%08x: COMPUTE_SHADER_EN (bit 0) is clear, nothing would run", initiator);
    if (initiator & INIT_ORDERED_APPEND)
        return cp_stop(q, "initiator 0x%08x: ordered append is not modelled", initiator);
    if (!(initiator & INIT_W32))
        return cp_stop(q,
                       "initiator 0x%08x: CS_W32_EN (bit 15) is clear; wave64 is not modelled, and code compiled for "
                       "wave32 would run garbage in lanes 32 to 63",
                       initiator);
    if (lds > MAX_LDS_BYTES)
        return cp_stop(q, "RSRC2.LDS_SIZE asks for %u bytes, a work-group has %u at most: it would never start", lds,
                       MAX_LDS_BYTES);
    if (!cus)
        return cp_stop(q, "STATIC_THREAD_MGMT allows no compute unit at all: waves would wait for ever");
    if (q->c->o.strict) {
        static const uint16_t must[] = { R_PGM_LO,       R_PGM_HI,           R_PGM_RSRC1,        R_PGM_RSRC2,
                                         R_NUM_THREAD_X, R_NUM_THREAD_X + 1, R_NUM_THREAD_X + 2, R_TMPRING_SIZE };
        for (uint32_t i = 0; i < sizeof must / sizeof must[0]; i++)
            if (q->d.kind != CP_AQL && !(q->sh_set[must[i] / 64] >> must[i] % 64 & 1))
                return cp_stop(q, "%s (0x%x) was never set on this queue", reg_sh_name(chip, must[i]),
                               CP_SH_BASE + must[i]);
    }
    return STEP_NEXT;
}

static enum step launch_fill(struct cp_queue *q, struct isa_launch *l, const uint32_t dim[3], uint32_t initiator,
                             uint32_t *waves)
{
    const uint32_t *sh = q->sh;
    *l = (struct isa_launch){
        .chip = q->c->chip, .vm = q->d.vm,
        .entry = (sh[R_PGM_LO] | (gva)(sh[R_PGM_HI] & 0xFF) << 32) << 8,
        .rsrc1 = sh[R_PGM_RSRC1], .rsrc2 = sh[R_PGM_RSRC2], .rsrc3 = sh[R_PGM_RSRC3], .tmpring = sh[R_TMPRING_SIZE],
        .scratch_base = (sh[R_SCRATCH_BASE_LO] | (gva)(sh[R_SCRATCH_BASE_HI] & 0xFF) << 32) << 8,
        .wave32 = initiator & INIT_W32, .clock = cp_clock, .strict = q->c->o.strict,
    };
    memcpy(l->user_data, &sh[R_USER_DATA_0], sizeof l->user_data);
    if (launch_checks(q, l, initiator) != STEP_NEXT || launch_threads(q, l, initiator, waves) != STEP_NEXT ||
        launch_grid(q, l, dim, initiator) != STEP_NEXT)
        return STEP_DEAD;
    return launch_scratch(q, l, *waves);
}

static int job_room(struct cp_queue *q, uint32_t n)
{
    struct cp_job *j = &q->job;
    if (n <= j->cap)
        return 0;
    dispatch_free(q);
    j->slot = calloc(n, sizeof *j->slot);
    j->free = calloc(n, sizeof *j->free);
    j->ready = calloc(n, sizeof *j->ready);
    j->cap = j->slot && j->free && j->ready ? n : 0;
    return j->cap ? 0 : -1;
}

/* ---- decoded instructions ---- */

struct cp_decoded *decoded_create(const struct chip *chip)
{
    struct cp_decoded *d = calloc(1, sizeof *d);
    if (d && !(d->code = isa_code_create(chip))) {
        free(d);
        d = NULL;
    }
    return d;
}

void decoded_destroy(struct cp_decoded *d)
{
    if (d)
        isa_code_destroy(d->code);
    free(d);
}

/* Lock held. The store for the queue's next dispatch: without what an instruction-cache invalidate or an unmap made
 * stale. */
static struct cp_decoded *decoded_now(struct cp_queue *q)
{
    struct cp_code *k = q->code;
    uint32_t generation = __atomic_load_n(&k->vm->generation, __ATOMIC_ACQUIRE);
    if (!k->stale && k->generation == generation)
        return k->now;
    if (k->now->jobs) {
        struct cp_decoded *fresh = decoded_create(q->c->chip);
        if (!fresh)
            return NULL;
        k->now->retired = true;
        k->now = fresh;
    } else {
        isa_code_invalidate(k->now->code);
    }
    k->stale = false;
    k->generation = generation;
    return k->now;
}

enum step dispatch_start(struct cp_queue *q, const uint32_t dim[3], uint32_t initiator)
{
    struct cp *c = q->c;
    struct cp_job *j = &q->job;
    struct isa_launch l;
    uint32_t waves = 1;
    if (cp_waves_run(q))
        return STEP_WAIT;
    if (launch_fill(q, &l, dim, initiator, &waves) != STEP_NEXT)
        return STEP_DEAD;
    uint64_t total = 1;
    for (int i = 0; i < 3; i++)
        total *= j->count[i] = l.groups[i] - (l.groups[i] ? l.start[i] : 0);
    uint32_t resident = resident_of(c->chip, &l, waves);
    if (resident > total)
        resident = (uint32_t)total;
    j->number = __atomic_add_fetch(&c->dispatches, 1, __ATOMIC_RELAXED);
    j->launch = l;
    char why[240];
    if (!cp_strict_dispatch(q, why))
        return cp_stop(q, "kernel 0x%llx: %s", (unsigned long long)l.entry, why);
    if (!total || c->o.skip_execution) {
        cp_trace(q, "dispatch %llu: %s", (unsigned long long)j->number,
                 total ? "skipped" : "an empty grid, nothing runs");
        return STEP_NEXT;
    }
    if (job_room(q, resident))
        return cp_stop(q, "the model is out of memory for %u work-groups", resident);
    cp_where(q, j->where, sizeof j->where);
    j->cancelled = false;
    j->waves_per_group = waves;
    j->next = j->finished = j->insts = 0;
    j->total = total;
    j->n_slots = j->n_free = resident;
    j->n_ready = j->ready_first = j->running = j->n_waiting = 0;
    j->moves = 1;
    j->moved_ns = cp_now_ns();
    j->draw = j->number;
    for (uint32_t i = 0; i < resident; i++)
        j->free[i] = resident - 1 - i;
    j->counts = (struct isa_counts){ 0 };
    j->start_ns = cp_now_ns();
    pthread_mutex_lock(&c->lock);
    j->decoded = decoded_now(q);
    if (j->decoded) {
        j->decoded->jobs++;
        j->launch.code = j->decoded->code;
        __atomic_store_n(&j->active, true, __ATOMIC_RELEASE);
        if (total > 1)
            pthread_cond_broadcast(&c->wake);
    }
    pthread_mutex_unlock(&c->lock);
    return j->decoded ? STEP_NEXT : cp_stop(q, "the model is out of memory for decoded instructions");
}

/* ---- work-groups ---- */

/* Lock held, no thread has a slice of the job. */
static void job_end(struct cp_queue *q)
{
    struct cp *c = q->c;
    struct cp_job *j = &q->job;
    double us = (double)(cp_now_ns() - j->start_ns) / 1e3;
    if (c->trace)
        fprintf(c->trace,
                "%12.3f us  q%u %s  dispatch %llu: entry 0x%llx, %ux%ux%u groups of %ux%ux%u, %llu instructions, "
                "%.1f us%s\n",
                (double)(cp_now_ns() % 1000000000000u) / 1e3, q->id, j->where, (unsigned long long)j->number,
                (unsigned long long)j->launch.entry, j->count[0], j->count[1], j->count[2], j->launch.threads[0],
                j->launch.threads[1], j->launch.threads[2], (unsigned long long)j->counts.insts, us,
                j->cancelled ? " (cancelled)" : "");
    uint64_t *sum = (uint64_t *)&c->counts;
    const uint64_t *add = (const uint64_t *)&j->counts;
    for (size_t i = 0; i < sizeof c->counts / sizeof *sum; i++)
        sum[i] += add[i];
    if (--j->decoded->jobs == 0 && j->decoded->retired)
        decoded_destroy(j->decoded);
    __atomic_store_n(&j->active, false, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&c->changed);
}

static void job_drop_suspended(struct cp_job *j)
{
    for (; j->n_ready; j->n_ready--) {
        struct cp_slot *s = &j->slot[j->ready[j->ready_first]];
        j->ready_first = (j->ready_first + 1) % j->cap;
        isa_group_counts(s->g, &j->counts);
        isa_group_destroy(s->g);
        s->g = NULL;
    }
}

void dispatch_cancel(struct cp_queue *q)
{
    struct cp_job *j = &q->job;
    if (!j->active)
        return;
    j->cancelled = true;
    job_drop_suspended(j);
    if (!j->running)
        job_end(q);
}

void dispatch_free(struct cp_queue *q)
{
    struct cp_job *j = &q->job;
    free(j->slot);
    free(j->free);
    free(j->ready);
    j->slot = NULL;
    j->free = j->ready = NULL;
    j->cap = 0;
}

/* Tells the host of the job's first fault, in one line. */
static void job_fault(struct cp_queue *q, const struct cp_slot *s, const struct isa_fault *f, const char *hang)
{
    const struct cp_job *j = &q->job;
    struct cp_event e = { .kind = EV_FAULT, .queue = q->id };
    if (j->cancelled)
        return;
    int n =
        snprintf(e.fault.text, sizeof e.fault.text, "queue %u (%s), %s: dispatch %llu, kernel 0x%llx, group %u,%u,%u",
                 q->id, cp_queue_kind_name(q), j->where, (unsigned long long)j->number,
                 (unsigned long long)j->launch.entry, s->id[0], s->id[1], s->id[2]);
    char *at = e.fault.text + n;
    size_t room = sizeof e.fault.text - (size_t)n;
    if (hang) {
        snprintf(at, room, ": %s", hang);
    } else {
        snprintf(at, room, ", wave %u, pc 0x%llx (entry+0x%llx): %s", f->wave, (unsigned long long)f->pc,
                 (unsigned long long)(f->pc - j->launch.entry), f->text);
        e.fault.page = f->kind == ISA_FAULT_PAGE;
        e.fault.va = f->va;
        e.fault.write = f->write;
        e.fault.exec = f->exec;
        e.fault.not_present = !(vm_entry(q->d.vm, f->va) & VM_VALID);
    }
    cp_fault_tell(q, &e);
}

/* Runs a slice; the lock is not held. Returns what the slot's work-group is now. */
static enum isa_status slot_run(struct cp_queue *q, struct cp_slot *s, uint32_t index, char hang[200])
{
    struct cp_job *j = &q->job;
    uint64_t limit = q->c->o.hang_insts * j->waves_per_group, budget = s->resumed ? SLICE_NEXT : SLICE_FIRST;
    if (!s->g && !(s->g = isa_group_create(&j->launch, s->id, index * j->waves_per_group))) {
        snprintf(hang, 200, "the model is out of memory for a work-group of %u waves", j->waves_per_group);
        return ISA_FAULT;
    }
    if (s->saved && !preempt_restore(q, s, index, hang))
        return ISA_FAULT;
    bool preempt = preempt_applies(q);
    if (preempt && q->c->o.preempt_insts < budget)
        budget = q->c->o.preempt_insts;
    if (q->d.save && __atomic_load_n(&q->c->leaving, __ATOMIC_RELAXED))
        budget = SLICE_SHORT;
    if (limit && limit < budget)
        budget = limit + 1;
    enum isa_status st = isa_group_run(s->g, budget);
    if (st == ISA_MORE && limit) {
        struct isa_counts k = { 0 };
        isa_group_counts(s->g, &k);
        if (k.insts > limit) {
            snprintf(hang, 200, "hang: its %u waves ran %llu instructions without end (limit %llu a wave)",
                     j->waves_per_group, (unsigned long long)k.insts, (unsigned long long)q->c->o.hang_insts);
            return ISA_FAULT;
        }
    }
    if (st == ISA_MORE && preempt && !preempt_save(q, s, index, hang))
        return ISA_FAULT;
    return st;
}

/* Lock held. The slot to run next, -1: none. */
static int slot_take(struct cp_job *j)
{
    if (j->next < j->total && j->n_free) {
        uint32_t i = j->free[--j->n_free];
        const uint32_t *g = j->count, *start = j->launch.start;
        uint64_t n = j->next++;
        j->slot[i] =
            (struct cp_slot){ .id = { start[0] + (uint32_t)(n % g[0]), start[1] + (uint32_t)(n / g[0] % g[1]),
                                      start[2] + (uint32_t)(n / g[0] / g[1]) } };
        return (int)i;
    }
    if (!j->n_ready)
        return -1;
    j->draw = j->draw * 6364136223846793005u + 1442695040888963407u;
    uint32_t *drawn = &j->ready[(j->ready_first + (uint32_t)(j->draw >> 33) % j->n_ready) % j->cap], i = *drawn;
    *drawn = j->ready[j->ready_first];
    j->ready_first = (j->ready_first + 1) % j->cap;
    j->n_ready--;
    return (int)i;
}

/* Lock held, after a slice that the work-group survived. True: nobody has done anything for too long, and who might is not on the
 * card. */
static bool slot_deadlocked(const struct cp *c, struct cp_job *j, struct cp_slot *s, uint64_t now)
{
    if (!isa_group_waits(s->g)) {
        j->moves++;
        j->moved_ns = now;
        j->n_waiting = 0;
        return false;
    }
    j->n_waiting += s->waits_at != j->moves;
    s->waits_at = j->moves;
    return c->o.deadlock_ms && j->n_waiting == j->n_slots - j->n_free && (j->next == j->total || !j->n_free) &&
           now > j->moved_ns + (uint64_t)c->o.deadlock_ms * 1000000;
}

static enum isa_status slot_deadlock(const struct cp_job *j, struct cp_slot *s)
{
    char why[200];
    uint64_t outside = j->total - j->next;
    int n = snprintf(why, sizeof why, "deadlock: %u work-groups are on the card, and all of them wait", j->n_slots - j->n_free);
    if (outside)
        snprintf(why + n, sizeof why - (size_t)n, "; %llu more did not fit it", (unsigned long long)outside);
    isa_group_deadlock(s->g, why);
    return ISA_FAULT;
}

static void job_slice(struct cp *c, struct cp_queue *q, int index)
{
    struct cp_job *j = &q->job;
    struct cp_slot *s = &j->slot[index];
    char hang[200] = "";
    c->running++;
    j->running++;
    pthread_mutex_unlock(&c->lock);
    uint64_t t0 = cp_now_ns();
    enum isa_status st = slot_run(q, s, (uint32_t)index, hang);
    uint64_t t1 = cp_now_ns();
    pthread_mutex_lock(&c->lock);
    c->busy_ns += t1 - t0;
    c->slices++;
    c->running--;
    j->running--;
    if (st == ISA_MORE && !j->cancelled && slot_deadlocked(c, j, s, t1))
        st = slot_deadlock(j, s);
    if (st == ISA_DONE) {
        j->moves++;
        j->moved_ns = t1;
        j->n_waiting = 0;
    }
    if (st == ISA_MORE && !j->cancelled) {
        s->resumed = true;
        j->ready[(j->ready_first + j->n_ready++) % j->cap] = (uint32_t)index;
    } else {
        if (st == ISA_FAULT)
            job_fault(q, s, hang[0] ? NULL : isa_group_fault(s->g), hang[0] ? hang : NULL);
        if (s->g) {
            isa_group_counts(s->g, &j->counts);
            isa_group_destroy(s->g);
        }
        s->g = NULL;
        j->free[j->n_free++] = (uint32_t)index;
        j->finished++;
        if (st == ISA_FAULT) {
            j->cancelled = true;
            job_drop_suspended(j);
        }
    }
    if (!j->running && (j->cancelled || j->finished == j->total))
        job_end(q);
    if (c->pausing)
        pthread_cond_broadcast(&c->changed);
}

bool dispatch_help(struct cp *c)
{
    for (uint32_t i = 0; i < c->n_queues; i++) {
        struct cp_queue *q = c->queue[(c->turn + i) % c->n_queues];
        struct cp_job *j = &q->job;
        if (!j->active || j->cancelled)
            continue;
        int index = slot_take(j);
        if (index < 0)
            continue;
        c->turn = (c->turn + i + 1) % c->n_queues;
        job_slice(c, q, index);
        return true;
    }
    return false;
}

void *dispatch_thread(void *arg)
{
    struct cp *c = arg;
    prctl(PR_SET_NAME, "amdsim-cu", 0, 0, 0);
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (c->pausing)
            pthread_cond_wait(&c->changed, &c->lock);
        else if (!dispatch_help(c))
            pthread_cond_wait(&c->wake, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
