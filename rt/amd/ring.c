/* rt/amd/ring.c: waiting for a card, and the ring that it reads. */
#include "rt/amd/ring.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "rt/pm4/decode.h"

enum { LOOKS = 256, SLEEP_MS = 100, RING_DUMP = 256 };

/* ---- watching a fence ---- */

static uint64_t now_ns(struct amd_watch *w)
{
    return w->ops->clock ? w->ops->clock(w) : clock_ns();
}

void amd_watch_init(struct amd_watch *w, const char *tier, const char *gpu, const struct amd_watch_ops *ops, void *user)
{
    *w = (struct amd_watch){ .ops = ops, .user = user, .tier = tier, .gpu = gpu, .sleep_ms = SLEEP_MS,
                             .poll_ns = (uint64_t)MAX(env_get()->amd_poll, 0) * 1000000u,
                             .hang_ns = (uint64_t)MAX(env_get()->kfd_timeout, 0) * 1000000000u };
}

int amd_watch_dead(const struct amd_watch *w, struct err *e)
{
    return err_set(e, -EIO, "%s: the queue is dead after a fault", w->tier);
}

int amd_watch_begin(struct amd_watch *w, struct err *e)
{
    if (w->dead)
        return amd_watch_dead(w, e);
    if (amd_watch_done(w, w->point))
        w->progress_ns = 0;
    return 0;
}

static bool moved(struct amd_watch *w)
{
    uint64_t fence = w->cells->fence;
    uint32_t progress = w->cells->progress;
    bool yes = fence != w->seen_fence || progress != w->seen_progress;
    w->seen_fence = fence;
    w->seen_progress = progress;
    return yes;
}

static int hang(struct amd_watch *w, struct err *e)
{
    char more[240] = "";
    w->dead = true;
    w->ops->stands(w, more, sizeof more);
    return err_set(e, -EIO, "%s: %s made no progress for %.0f s: point %llu of %llu%s", w->tier, w->gpu,
                   (double)w->hang_ns * 1e-9, (unsigned long long)w->cells->fence, (unsigned long long)w->point, more);
}

int amd_watch_wait(struct amd_watch *w, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    uint64_t start = 0, now;
    for (uint32_t n = 0; !amd_watch_done(w, point); n++) {
        if (w->dead)
            return amd_watch_dead(w, e);
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (n % LOOKS && timeout_ns)
            continue;
        now = now_ns(w);
        start = start ? start : now;
        if (moved(w) || !w->progress_ns)
            w->progress_ns = now;
        if (now - start < w->poll_ns && now - start < timeout_ns)
            continue;
        uint64_t left = now - start < timeout_ns ? timeout_ns - (now - start) : 0;
        int rc = w->ops->sleep(w, point, MIN(left, (uint64_t)w->sleep_ms * 1000000u), e);
        if (rc && !amd_watch_done(w, point)) {
            w->dead |= rc == -EIO;
            return rc;
        }
        now = now_ns(w);
        if (moved(w) || (w->ops->alive && w->ops->alive(w)))
            w->progress_ns = now;
        else if (w->hang_ns && now - w->progress_ns > w->hang_ns && !amd_watch_done(w, point))
            return hang(w, e);
        if (now - start >= timeout_ns)
            return amd_watch_done(w, point) ? 0 : -ETIME;
        n = LOOKS - 1;
    }
    return 0;
}

/* ---- a ring that the card reads ---- */

void amd_ring_init(struct amd_ring *r, uint32_t *dw, uint32_t bytes, volatile uint64_t *rptr, volatile uint64_t *wptr_cell)
{
    r->dw = dw;
    r->mask = bytes / 4 - 1;
    r->rptr = rptr;
    r->wptr_cell = wptr_cell;
}

int amd_ring_open(struct amd_ring *r, const struct amd_ring_ops *ops, enum log_module log, struct err *e)
{
    r->ops = ops;
    r->log = log;
    int rc = ops->make(r->watch.user, e);
    r->made = rc == 0;
    return rc;
}

static bool drop(struct amd_ring *r)
{
    int rc = r->ops->drop(r->watch.user);
    if (rc && log_enabled(r->log, LOG_WARN))
        log_write(r->log, LOG_WARN, "giving back queue %u: %s", r->ops->id(r->watch.user), strerror(-rc));
    return rc == 0;
}

void amd_ring_stop(struct amd_ring *r)
{
    r->watch.dead = true;
    if (r->made)
        drop(r);
    r->made = false;
}

void amd_ring_rest(struct amd_ring *r)
{
    if (r->watch.dead || !r->made || !drop(r))
        return;
    r->made = false;
    r->resting = true;
    if (log_enabled(r->log, LOG_INFO))
        log_write(r->log, LOG_INFO, "queue %u is given back until there is work", r->ops->id(r->watch.user));
}

/* On the same memory; the new queue fetches from dword 0. Everything submitted is done. */
static int make_again(struct amd_ring *r, struct err *e)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    uint64_t start = now_ns(&r->watch);
    int rc;
    *r->rptr = 0;
    *r->wptr_cell = 0;
    r->wptr = 0;
    r->end[r->watch.point % AMD_POINTS] = 0;
    while ((rc = r->ops->make(r->watch.user, e)) == -EAGAIN && now_ns(&r->watch) - start < r->watch.hang_ns)
        nanosleep(&pause, NULL);
    r->made = rc == 0;
    r->resting = rc != 0;
    if (!rc && log_enabled(r->log, LOG_INFO))
        log_write(r->log, LOG_INFO, "queue %u is made again", r->ops->id(r->watch.user));
    return rc;
}

/* The newest complete point is `done`: would n dwords overwrite only what lies before its end? One dword stays free, as in
 * kfdtest's BaseQueue.cpp (PlacePacket): the card's read pointer wraps with the ring, so a full one may look empty. */
static bool has_room(const struct amd_ring *r, uint64_t done, uint32_t n)
{
    return r->watch.point - done < AMD_POINTS && r->wptr - r->end[done % AMD_POINTS] + n <= r->mask;
}

static uint64_t newest_done(const struct amd_ring *r)
{
    return __atomic_load_n(&r->watch.cells->fence, __ATOMIC_ACQUIRE);
}

/* Waits until n dwords and a point have room, as long as there is progress. */
static int make_room(struct amd_ring *r, uint32_t n, struct err *e)
{
    for (;;) {
        uint64_t done = newest_done(r);
        if (has_room(r, done, n) && r->watch.point + 1 - done < AMD_POINTS)
            return 0;
        int rc = amd_watch_wait(&r->watch, done + 1, 1000000000u, e);
        if (rc && rc != -ETIME)
            return rc;
    }
}

void amd_ring_put(struct amd_ring *r, const uint32_t *dw, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        r->dw[(r->wptr + i) & r->mask] = dw[i];
    r->wptr += n;
}

/* Packets, the write pointer, the bell: each is in memory before the next, as in kfdtest's PM4Queue.cpp (SubmitPacket) and
 * Mesa's amdgpu_cs_submit_ib_userq. */
void amd_ring_bell(struct amd_ring *r)
{
    amd_store_fence();
    __atomic_store_n(r->wptr_cell, r->wptr, __ATOMIC_RELEASE);
    amd_store_fence();
    *r->bell = r->wptr;
}

int amd_ring_submit(struct amd_ring *r, const struct amd_span *span, uint32_t n_spans, uint64_t *point, struct err *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_spans; i++)
        n += span[i].n;
    int rc = r->resting && !r->watch.dead ? make_again(r, e) : 0;
    if (rc || (rc = make_room(r, n, e)) || (rc = amd_watch_begin(&r->watch, e)))
        return rc;
    for (uint32_t i = 0; i < n_spans; i++)
        amd_ring_put(r, span[i].dw, span[i].n);
    *point = ++r->watch.point;
    r->end[r->watch.point % AMD_POINTS] = r->wptr;
    amd_ring_bell(r);
    return 0;
}

bool amd_ring_add(struct amd_ring *r, const uint32_t *dw, uint32_t n)
{
    if (!has_room(r, newest_done(r), n))
        return false;
    amd_ring_put(r, dw, n);
    amd_ring_bell(r);
    return true;
}

/* ---- a winsys on it ---- */

int amd_ops_wait(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    return amd_watch_wait(w->watch, point, timeout_ns, e);
}

void amd_ops_rest(struct amd_winsys *w)
{
    if (w->ring)
        amd_ring_rest(w->ring);
}

void amd_ops_stop(struct amd_winsys *w)
{
    if (w->ring)
        amd_ring_stop(w->ring);
}

void amd_ops_describe_queue(struct amd_winsys *w, FILE *f)
{
    if (w->ring)
        amd_ring_dump(w->ring, w, f);
}

/* ---- for reports ---- */

void amd_ring_place(const struct amd_ring *r, char *out, size_t n)
{
    snprintf(out, n, ", the queue fetches at dword %u of its ring, written up to %u", amd_ring_fetched(r),
             amd_ring_written(r));
}

void amd_ring_describe(const struct amd_ring *r, FILE *f)
{
    fprintf(f, "fence %llu of %llu, fetches at ring dword %u, written up to %u (read pointer 0x%llx, %llu dwords in all), "
            "progress word 0x%x", (unsigned long long)r->watch.cells->fence, (unsigned long long)r->watch.point,
            amd_ring_fetched(r), amd_ring_written(r), (unsigned long long)*r->rptr, (unsigned long long)r->wptr,
            r->watch.cells->progress);
}

void amd_ring_dump(const struct amd_ring *r, struct amd_winsys *w, FILE *f)
{
    const struct pm4_view v = { .gen = w->card.chip->gen, .check = w->ops->mem_check, .user = w };
    uint32_t dw[RING_DUMP], n = (uint32_t)MIN(r->wptr, (uint64_t)RING_DUMP);
    for (uint32_t i = 0; i < n; i++)
        dw[i] = r->dw[(r->wptr - n + i) & r->mask];
    fprintf(f, "\nthe ring's last %u dwords (its first words may be the end of a packet)\n", n);
    pm4_print(f, &v, dw, n);
}
