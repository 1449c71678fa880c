/* Contexts, submissions and their fences. The kernel's order: what a submission depends on is waited for, then its
 * indirect buffers run in order on a queue of the driver's, then its fence is done. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/amdsim/kmd/drm.h"

enum { CHUNK_IB = 1, CHUNK_FENCE, CHUNK_DEPENDENCIES, CHUNK_SYNCOBJ_IN, CHUNK_SYNCOBJ_OUT, CHUNK_BO_HANDLES,
       CHUNK_SCHEDULED_DEPS, CHUNK_TIMELINE_WAIT, CHUNK_TIMELINE_SIGNAL };
enum { MAX_CHUNKS = 64, MAX_IBS = 125, MAX_DEPS = 256, MAX_IB_DWORDS = (1 << 20) - 1,
       MAX_IN_FLIGHT = 32 }; /* of a ring of a context: amdgpu_sched_jobs */
enum { IP_COMPUTE = 1, IP_DMA = 2, IB_ALIGN = 32, IB_CE = 1 };

/* ---- fences ---- */

struct fence *fence_new(uint64_t seq)
{
    struct fence *f = calloc(1, sizeof *f);
    if (f)
        *f = (struct fence){ .seq = seq, .refs = 1 };
    return f;
}

void fence_ref(struct fence *f)
{
    __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
}

void fence_unref(struct fence *f)
{
    if (f && __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(f);
}

static bool fence_done(struct fence *f)
{
    pthread_mutex_lock(&card.event_lock);
    bool done = f->done;
    pthread_mutex_unlock(&card.event_lock);
    return done;
}

int fence_wait(struct fence *f, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t gen = __atomic_load_n(&card.event_gen, __ATOMIC_SEQ_CST);
        if (fence_done(f))
            return 0;
        if (card_now_ns() >= deadline_ns)
            return -ETIME;
        int rc = drm_sleep(gen, deadline_ns);
        if (rc == -EINTR)
            return rc;
    }
}

/* What a running submission keeps, from cp_submit to its end. */
struct running {
    struct fence *fence;
    struct ctx *ctx;           /* NULL: it is gone */
    uint64_t *user_fence;
    bool stuck;                /* --inject hang: the card never gets it */
    struct running *next;
};
static struct running *all_running; /* event_lock; the newest first */
static uint64_t oldest_since_ns;    /* when the oldest of them became that: its time limit counts from there */

/* ---- contexts ---- */

enum { CTX_ALLOC = 1, CTX_FREE, CTX_QUERY, CTX_QUERY2, CTX_GET_PSTATE, CTX_SET_PSTATE };
enum { QUERY2_RESET = 1, QUERY2_GUILTY = 4 };

static struct entity *entity_of(struct ctx *c, uint32_t ip, uint32_t instance, uint32_t ring, const char *call)
{
    uint32_t n = ip == IP_COMPUTE ? drm_n_rings() : ip == IP_DMA ? card.opt.chip->n_sdma : 0;
    if (instance || ring >= n) {
        kmd_why(-EINVAL, "%s: hardware block %u.%u ring %u; compute (1) and DMA (2) are modelled", call, ip, instance,
                ring);
        return NULL;
    }
    return &c->ring[ip == IP_DMA][ring];
}

/* Forgets fences that are done, from the front. */
static void trim(struct entity *e)
{
    uint32_t k = 0;
    pthread_mutex_lock(&card.event_lock);
    while (k < e->n && e->pending[k]->done)
        fence_unref(e->pending[k++]);
    pthread_mutex_unlock(&card.event_lock);
    if (k)
        memmove(e->pending, e->pending + k, (e->n - k) * sizeof e->pending[0]);
    e->n -= k;
}

static int append(struct entity *e, struct fence *f)
{
    trim(e);
    if (e->n == e->cap) {
        uint32_t cap = e->cap ? e->cap * 2 : 16;
        struct fence **p = realloc(e->pending, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        e->pending = p;
        e->cap = cap;
    }
    e->pending[e->n++] = f;
    fence_ref(f);
    return 0;
}

/* The fence of a sequence number, referenced; NULL with *rc 0: it is long done. */
static struct fence *find_fence(struct entity *e, uint64_t seq, int *rc)
{
    *rc = 0;
    if (seq == ~0ull)
        seq = e->last_seq;
    if (seq > e->last_seq) {
        *rc = kmd_why(-EINVAL, "fence %llu: the last submission was %llu", (unsigned long long)seq,
                      (unsigned long long)e->last_seq);
        return NULL;
    }
    for (uint32_t i = 0; i < e->n; i++)
        if (e->pending[i]->seq == seq) {
            fence_ref(e->pending[i]);
            return e->pending[i];
        }
    return NULL;
}

void ctx_destroy(struct ctx *c)
{
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < 8; r++) {
            struct entity *e = &c->ring[k][r];
            for (uint32_t i = 0; i < e->n; i++) {
                fence_wait(e->pending[i], card_now_ns() + 2000000000u);
                fence_unref(e->pending[i]);
            }
            free(e->pending);
        }
    pthread_mutex_lock(&card.event_lock);
    for (struct running *r = all_running; r; r = r->next)
        if (r->ctx == c)
            r->ctx = NULL;
    pthread_mutex_unlock(&card.event_lock);
    free(c);
}

int drm_ctx(struct drm_file *d, void *arg)
{
    union drm_ctx_args *a = arg;
    struct ctx *c = table_get(&d->ctxs, a->ctx_id);
    uint32_t handle;
    if (a->op != CTX_ALLOC && !c)
        return kmd_why(-EINVAL, "CTX: operation %u on context %u, which is unknown", a->op, a->ctx_id);
    switch (a->op) {
    case CTX_ALLOC:
        if (a->priority != 0 && a->priority != -512 && a->priority != -1023 && a->priority != 512 &&
            a->priority != 1023)
            return kmd_why(-EINVAL, "CTX: priority %d", a->priority);
        c = calloc(1, sizeof *c);
        if (!c || table_add(&d->ctxs, c, &handle) != 0) {
            free(c);
            return -ENOMEM;
        }
        memset(a, 0, sizeof *a);
        a->out_ctx_id = handle;
        return 0;
    case CTX_FREE:
        ctx_destroy(table_remove(&d->ctxs, a->ctx_id));
        return 0;
    case CTX_QUERY:
        memset(a, 0, sizeof *a);
        a->state.reset_status = c->guilty ? 1 : 0;
        return 0;
    case CTX_QUERY2:
        memset(a, 0, sizeof *a);
        a->state.flags = c->guilty ? QUERY2_RESET | QUERY2_GUILTY : 0;
        return 0;
    case CTX_GET_PSTATE:
        memset(a, 0, sizeof *a);
        a->pstate.flags = c->pstate;
        return 0;
    case CTX_SET_PSTATE:
        c->pstate = a->flags & 15;
        return 0;
    default:
        return kmd_why(-EINVAL, "CTX: operation %u", a->op);
    }
}

/* ---- submissions ---- */

struct submission {
    struct drm_file *d;
    struct ctx *ctx;
    struct entity *entity;
    bool sdma;
    struct cp_ib ib[MAX_IBS];
    uint32_t n_ibs;
    struct fence *deps[MAX_DEPS]; /* referenced */
    uint32_t n_deps;
    struct bo *user_fence;
    uint32_t user_fence_off;
    struct { uint32_t handle; uint64_t point; } out[MAX_DEPS];
    uint32_t n_out;
    bool has_list;                /* of buffers */
};

static int add_ib(struct submission *s, const struct drm_chunk_ib *ib)
{
    struct entity *e = entity_of(s->ctx, ib->ip_type, ib->ip_instance, ib->ring, "CS");
    if (!e || (s->entity && s->entity != e))
        return kmd_why(-EINVAL, "CS: the indirect buffers of a submission go to one ring");
    if (s->n_ibs == MAX_IBS || !ib->bytes || ib->bytes % 4 || ib->bytes / 4 > MAX_IB_DWORDS)
        return kmd_why(-EINVAL, "CS: indirect buffer %u has %u bytes, expected at most 20 bits of dwords", s->n_ibs, ib->bytes);
    if (ib->flags & IB_CE)
        return kmd_why(-EINVAL, "CS: an indirect buffer for the constant engine");
    if (kmd_options()->strict && ib->ip_type == IP_COMPUTE && (ib->va % IB_ALIGN || ib->bytes % IB_ALIGN))
        return kmd_why(-EINVAL, "CS: indirect buffer of %u bytes at 0x%llx; the kernel takes it, but HW_IP_INFO asks for "
                       "multiples of %d", ib->bytes, (unsigned long long)ib->va, (int)IB_ALIGN);
    s->entity = e;
    s->sdma = ib->ip_type == IP_DMA;
    s->ib[s->n_ibs++] = (struct cp_ib){ ib->va, ib->bytes / 4 };
    return 0;
}

static int add_dep(struct submission *s, struct fence *f)
{
    if (!f)
        return 0;
    if (s->n_deps == MAX_DEPS) {
        fence_unref(f);
        return kmd_why(-EINVAL, "CS: more than %d dependencies", (int)MAX_DEPS);
    }
    s->deps[s->n_deps++] = f;
    return 0;
}

static int add_deps(struct submission *s, const struct drm_chunk_dep *dep, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct ctx *c = table_get(&s->d->ctxs, dep[i].ctx_id);
        struct entity *e = c ? entity_of(c, dep[i].ip_type, dep[i].ip_instance, dep[i].ring, "CS dependency") : NULL;
        int rc = -EINVAL;
        struct fence *f = e ? find_fence(e, dep[i].seq, &rc) : NULL;
        if (rc == 0)
            rc = add_dep(s, f);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int add_syncobj(struct submission *s, uint32_t handle, uint64_t point, bool out)
{
    struct fence *f = NULL;
    if (!out) {
        int rc = syncobj_fence(s->d, handle, point, &f);
        return rc == 0 ? add_dep(s, f) : rc;
    }
    if (!table_get(&s->d->syncobjs, handle) || s->n_out == MAX_DEPS)
        return kmd_why(-ENOENT, "CS: syncobj %u is unknown", handle);
    s->out[s->n_out].handle = handle;
    s->out[s->n_out++].point = point;
    return 0;
}

/* Which buffers have to be resident; here all are, all the time. */
static int add_buffers(struct submission *s, const struct drm_chunk_buffers *l)
{
    if (s->has_list)
        return kmd_why(-EINVAL, "CS: a chunk of buffers beside a buffer list");
    s->has_list = true;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t handle;
        if (user_read(&handle, l->info_ptr + (uint64_t)i * l->info_bytes, 4) != 0)
            return -EFAULT;
        if (!table_get(&s->d->bos, handle))
            return kmd_why(-ENOENT, "CS: buffer handle %u is unknown", handle);
    }
    return 0;
}

static int add_chunk(struct submission *s, const struct drm_chunk *c, const uint32_t *data)
{
    static const uint8_t least[] = { 0, 8, 2, 6, 1, 1, 6, 6, 4, 4 }; /* dwords */
    if (c->id == 0 || c->id >= sizeof least || c->n_dwords < least[c->id])
        return kmd_why(-EINVAL, "CS: chunk %u of %u dwords", c->id, c->n_dwords);
    uint32_t n = c->n_dwords / least[c->id];
    int rc = 0;
    switch (c->id) {
    case CHUNK_IB:
        return add_ib(s, (const struct drm_chunk_ib *)data);
    case CHUNK_FENCE:
        s->user_fence = table_get(&s->d->bos, data[0]);
        s->user_fence_off = data[1];
        return s->user_fence && s->user_fence->bytes == KMD_PAGE && s->user_fence_off <= KMD_PAGE - 8 &&
                       s->user_fence->domain != KMD_USERPTR
                   ? 0 : kmd_why(-EINVAL, "CS: a user fence is 8 bytes in a buffer of one page, and no user pointer");
    case CHUNK_DEPENDENCIES:
    case CHUNK_SCHEDULED_DEPS:
        return add_deps(s, (const struct drm_chunk_dep *)data, n);
    case CHUNK_SYNCOBJ_IN:
    case CHUNK_SYNCOBJ_OUT:
        if (c->id == CHUNK_SYNCOBJ_OUT && s->n_out)
            return kmd_why(-EINVAL, "CS: a second chunk of syncobjs to signal");
        for (uint32_t i = 0; i < n && rc == 0; i++)
            rc = add_syncobj(s, data[i], 0, c->id == CHUNK_SYNCOBJ_OUT);
        return rc;
    case CHUNK_TIMELINE_WAIT:
    case CHUNK_TIMELINE_SIGNAL:
        if (c->id == CHUNK_TIMELINE_SIGNAL && s->n_out)
            return kmd_why(-EINVAL, "CS: a second chunk of syncobjs to signal");
        for (uint32_t i = 0; i < n && rc == 0; i++) {
            const struct drm_chunk_timeline *t = (const struct drm_chunk_timeline *)data + i;
            rc = add_syncobj(s, t->handle, t->point, c->id == CHUNK_TIMELINE_SIGNAL);
        }
        return rc;
    case CHUNK_BO_HANDLES:
        return add_buffers(s, (const struct drm_chunk_buffers *)data);
    default:
        return 0;
    }
}

static int read_chunks(struct submission *s, const union drm_cs_args *a)
{
    uint64_t at[MAX_CHUNKS];
    if (!a->n_chunks || a->n_chunks > MAX_CHUNKS)
        return kmd_why(-EINVAL, "CS: %u chunks", a->n_chunks);
    if (user_read(at, a->chunks, a->n_chunks * sizeof at[0]) != 0)
        return -EFAULT;
    for (uint32_t i = 0; i < a->n_chunks; i++) {
        struct drm_chunk c;
        if (user_read(&c, at[i], sizeof c) != 0)
            return -EFAULT;
        if (c.n_dwords > 1 << 16)
            return kmd_why(-EINVAL, "CS: chunk %u of %u dwords", c.id, c.n_dwords);
        uint64_t *data = calloc(c.n_dwords / 2 + 8, sizeof *data);
        int rc = data ? user_read(data, c.data, c.n_dwords * 4ull) : -ENOMEM;
        rc = rc == 0 ? add_chunk(s, &c, (const uint32_t *)data) : rc;
        free(data);
        if (rc != 0)
            return rc;
    }
    return s->n_ibs ? 0 : kmd_why(-EINVAL, "CS without an indirect buffer");
}

static void on_done(void *user, uint64_t point)
{
    struct running *r = user;
    pthread_mutex_lock(&card.event_lock);
    for (struct running **p = &all_running; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    oldest_since_ns = card_now_ns();
    if (r->user_fence && !r->fence->failed) /* its page lives in the card's file as long as the process does */
        __atomic_store_n(r->user_fence, point, __ATOMIC_SEQ_CST);
    r->fence->done = true;
    card_wake();
    fence_unref(r->fence);
    pthread_mutex_unlock(&card.event_lock);
    free(r);
}

/* A fault on a queue of the driver's: what is in flight is lost and its contexts are to blame. */
void drm_on_fault(void)
{
    for (struct running *r = all_running; r; r = r->next) {
        r->fence->failed = true;
        if (r->ctx)
            r->ctx->guilty = true;
    }
}

void drm_fork_child(void)
{
    drm_userq_fork_child();
    all_running = NULL;
}

/* ---- the time limit ---- */

/* drm_sched_job_timedout and amdgpu_job_timedout: what has run for longer than amdgpu.lockup_timeout ends in a reset. */
static uint64_t limit_ns(void)
{
    pthread_mutex_lock(&card.event_lock);
    uint64_t at = all_running && card.opt.lockup_ms ? oldest_since_ns + card.opt.lockup_ms * 1000000ull : ~0ull;
    pthread_mutex_unlock(&card.event_lock);
    return at;
}

static void time_out(void)
{
    struct running *stuck[MAX_DEPS];
    uint32_t n = 0;
    pthread_mutex_lock(&card.event_lock);
    kmd_dmesg("ring comp_1.0.0 timeout after %llu ms; GPU reset begins", (unsigned long long)card.opt.lockup_ms);
    drm_on_fault();
    for (struct running *r = all_running; r && n < MAX_DEPS; r = r->next)
        if (r->stuck)
            stuck[n++] = r;
    pthread_mutex_unlock(&card.event_lock);
    cp_reset(card_cp());
    while (n--)
        on_done(stuck[n], 0);
}

int drm_sleep(uint32_t gen, uint64_t deadline_ns)
{
    uint64_t cs = limit_ns(), userq = drm_userq_limit_ns(), limit = cs < userq ? cs : userq;
    int rc = card_sleep(gen, deadline_ns < limit ? deadline_ns : limit);
    if (rc != -ETIME || card_now_ns() < limit)
        return rc;
    if (userq <= cs)
        drm_userq_time_out();
    else if (limit_ns() == limit) /* still the same one */
        time_out();
    return 0;
}

static int submit(struct submission *s, uint64_t *seq)
{
    struct cp *cp = card_cp();
    struct fence *f = fence_new(s->entity->last_seq + 1);
    struct running *r = calloc(1, sizeof *r);
    int rc = cp && f && r ? append(s->entity, f) : -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < s->n_out; i++)
        rc = syncobj_attach(s->d, s->out[i].handle, s->out[i].point, f);
    if (rc != 0) {
        fence_unref(f);
        free(r);
        return rc;
    }
    *r = (struct running){ .fence = f, .ctx = s->ctx, .stuck = kmd_injected(KMD_INJECT_HANG) };
    if (s->user_fence)
        r->user_fence = (uint64_t *)(s->user_fence->host + s->user_fence_off);
    pthread_mutex_lock(&card.event_lock);
    if (!all_running)
        oldest_since_ns = card_now_ns();
    r->next = all_running;
    all_running = r;
    pthread_mutex_unlock(&card.event_lock);
    *seq = ++s->entity->last_seq;
    if (r->stuck)
        return 0;
    rc = cp_submit(cp, s->d->vm->vm, s->sdma, s->ib, s->n_ibs, f->seq, on_done, r);
    if (rc != 0)
        on_done(r, f->seq);
    return rc;
}

/* The fence, referenced, that has to be done before the ring of the context takes more: amdgpu_ctx_wait_prev_fence. */
static struct fence *too_many(struct entity *e)
{
    trim(e);
    if (e->n < MAX_IN_FLIGHT)
        return NULL;
    fence_ref(e->pending[e->n - MAX_IN_FLIGHT]);
    return e->pending[e->n - MAX_IN_FLIGHT];
}

int drm_cs(struct drm_file *d, void *arg)
{
    union drm_cs_args *a = arg;
    struct submission *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    pthread_mutex_lock(&card.lock);
    s->d = d;
    s->ctx = table_get(&d->ctxs, a->ctx_id);
    int rc = s->ctx ? 0 : kmd_why(-EINVAL, "CS: context %u is unknown", a->ctx_id);
    if (rc == 0 && d->vm->compute)
        rc = kmd_why(-EINVAL, "CS: ACQUIRE_VM has taken this address space; use another open of the render node");
    if (rc == 0 && s->ctx->guilty)
        rc = kmd_why(-ECANCELED, "CS: a submission of this context faulted");
    if (rc == 0 && a->bo_list && !table_get(&d->lists, a->bo_list))
        rc = kmd_why(-ENOENT, "CS: buffer list %u is unknown", a->bo_list);
    if (rc == 0 && kmd_injected(KMD_INJECT_NO_KERNEL_QUEUES))
        rc = kmd_why(-EINVAL, "CS: amdgpu.user_queue=2 leaves no ring to kernel-mode submissions");
    s->has_list = a->bo_list;
    if (rc == 0)
        rc = read_chunks(s, a);
    struct fence *earlier = rc == 0 ? too_many(s->entity) : NULL;
    pthread_mutex_unlock(&card.lock);
    while (earlier && rc == 0 && (rc = fence_wait(earlier, ~0ull)) == -EINTR)
        rc = 0;
    fence_unref(earlier);
    for (uint32_t i = 0; i < s->n_deps; i++) {
        while (rc == 0 && (rc = fence_wait(s->deps[i], ~0ull)) == -EINTR)
            rc = 0;
        fence_unref(s->deps[i]);
    }
    pthread_mutex_lock(&card.lock);
    if (rc == 0)
        rc = submit(s, &a->seq);
    pthread_mutex_unlock(&card.lock);
    free(s);
    return rc;
}

/* ---- waiting ---- */

/* The fence that a client names, referenced. */
static int named_fence(struct drm_file *d, const struct drm_fence_ref *r, struct fence **f)
{
    int rc = -EINVAL;
    *f = NULL;
    pthread_mutex_lock(&card.lock);
    struct ctx *c = table_get(&d->ctxs, r->ctx_id);
    struct entity *e = c ? entity_of(c, r->ip_type, r->ip_instance, r->ring, "fence") : NULL;
    if (e)
        *f = find_fence(e, r->seq, &rc);
    pthread_mutex_unlock(&card.lock);
    return rc;
}

int drm_wait_cs(struct drm_file *d, void *arg)
{
    union drm_wait_cs_args *a = arg;
    struct drm_fence_ref r = { a->ctx_id, a->ip_type, a->ip_instance, a->ring, a->seq };
    uint64_t deadline = a->timeout;
    struct fence *f;
    int rc = named_fence(d, &r, &f);
    if (rc != 0)
        return rc;
    rc = f ? fence_wait(f, deadline) : 0;
    bool failed = f && rc == 0 && f->failed;
    fence_unref(f);
    memset(a, 0, sizeof *a);
    a->status = rc == -ETIME;
    return failed ? kmd_why(-ECANCELED, "WAIT_CS: the submission faulted") : rc == -ETIME ? 0 : rc;
}

int drm_wait_fences(struct drm_file *d, void *arg)
{
    union drm_wait_fences_args *a = arg;
    uint32_t n = a->n, first = 0, n_done = 0;
    bool all = a->all;
    uint64_t deadline = a->timeout, from = a->fences;
    if (!n || n > MAX_DEPS)
        return kmd_why(-EINVAL, "WAIT_FENCES: %u fences", n);
    struct fence *f[MAX_DEPS] = { NULL };
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        struct drm_fence_ref r;
        rc = user_read(&r, from + i * sizeof r, sizeof r);
        rc = rc == 0 ? named_fence(d, &r, &f[i]) : rc;
    }
    while (rc == 0) {
        uint32_t gen = __atomic_load_n(&card.event_gen, __ATOMIC_SEQ_CST);
        n_done = 0;
        for (uint32_t i = n; i-- > 0;)
            if (!f[i] || fence_done(f[i])) {
                first = i;
                n_done++;
            }
        if (all ? n_done == n : n_done > 0)
            break;
        rc = card_now_ns() >= deadline ? -ETIME : drm_sleep(gen, deadline);
        rc = rc == -ETIME && card_now_ns() < deadline ? 0 : rc;
    }
    for (uint32_t i = 0; i < n; i++)
        fence_unref(f[i]);
    if (rc != 0 && rc != -ETIME)
        return rc;
    memset(a, 0, sizeof *a);
    a->out.status = rc == 0;
    a->out.first = first;
    return 0;
}

/* Which buffers a submission touches is not followed: a buffer is idle when everything of this process is. */
int drm_wait_idle(struct drm_file *d, void *arg)
{
    union drm_wait_idle_args *a = arg;
    uint64_t deadline = a->timeout;
    pthread_mutex_lock(&card.lock);
    struct bo *bo = table_get(&d->bos, a->handle);
    uint32_t domain = bo && bo->domain == KMD_VRAM ? 4 : 2;
    pthread_mutex_unlock(&card.lock);
    if (!bo)
        return kmd_why(-ENOENT, "GEM_WAIT_IDLE: buffer handle %u is unknown", a->handle);
    int rc = 0;
    bool busy = true;
    while (rc == 0) {
        uint32_t gen = __atomic_load_n(&card.event_gen, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&card.event_lock);
        busy = all_running;
        pthread_mutex_unlock(&card.event_lock);
        if (!busy || card_now_ns() >= deadline)
            break;
        rc = drm_sleep(gen, deadline);
        rc = rc == -ETIME ? 0 : rc;
    }
    memset(a, 0, sizeof *a);
    a->out.status = busy;
    a->out.domain = domain;
    return rc;
}

int drm_fence_to_handle(struct drm_file *d, void *arg)
{
    union drm_fence_handle_args *a = arg;
    struct fence *f;
    if (a->what != 0)
        return kmd_why(-EINVAL, "FENCE_TO_HANDLE: only syncobj handles (0) are modelled, asked for %u", a->what);
    int rc = named_fence(d, &a->fence, &f);
    if (rc != 0)
        return rc;
    if (!f && (f = fence_new(0)))
        f->done = true;
    struct syncobj *s = calloc(1, sizeof *s);
    uint32_t handle = 0;
    rc = f && s ? table_add(&d->syncobjs, s, &handle) : -ENOMEM;
    if (rc != 0) {
        fence_unref(f);
        free(s);
        return rc;
    }
    *s = (struct syncobj){ .refs = 1, .fence = f };
    a->handle = handle;
    return 0;
}
