/* Shadow memory and remembered cache lines behind the checks of --strict.
 *
 * Every dispatch and every packet that touches memory has a serial number. A page that anything of the GPU has
 * touched has a shadow: who wrote each dword last, and which dispatch read it last. Shadows belong to host pages, so
 * that two mappings of the same memory share one. Lines belong to addresses, as caches do. */
#include "tools/amdsim/cp/strict.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_BUCKETS = 1 << 14, LINE_BUCKETS = 1 << 14, LOG_SIZE = 1 << 16, NOTES_MAX = 64,
    GROUPS_MAX = 1 << 13, PAGE_DWORDS = VM_PAGE / 4, LINE_BYTES = 128, LINE_DWORDS = LINE_BYTES / 4,
};

/* Caches of a queue by what fills them; level 2 belongs to the card. */
enum cache { CACHE_VECTOR, CACHE_SCALAR, CACHE_CODE, N_CACHES };
static const char *const cache_name[] = { "vector", "scalar", "instruction" };
static const char *const cache_remedy[] = { "GLV_INV", "GLK_INV", "GLI_INV" };

/* Bits of gcr_cntl. */
enum { GLI_INV = 3, GLK_INV = 1 << 7, GLV_INV = 1 << 8, GL2_INV = 1 << 14, GL2_WB = 1 << 15 };

struct page {
    struct page *next;
    const uint8_t *host;
    uint32_t writer[PAGE_DWORDS], reader[PAGE_DWORDS]; /* serials, 0: nobody */
    uint32_t group[PAGE_DWORDS], tick[PAGE_DWORDS];    /* of the writer, and when it wrote */
};

struct line {
    struct line *next;
    gva va;
    uint32_t serial, epoch, valid; /* valid: bit per dword */
    uint8_t bytes[LINE_BYTES];
};

struct lines {
    struct line **bucket;
    uint32_t epoch;
};

struct actor { /* behind a serial */
    uint32_t serial, queue;
    bool dispatch;
    uint64_t number;
    gva entry;
    const char *packet;
};

struct cp_strict {
    struct cp *c;
    pthread_mutex_t lock;
    uint32_t serial;
    struct page *page[PAGE_BUCKETS];
    struct lines level2;
    struct actor log[LOG_SIZE];
    uint64_t noted[NOTES_MAX];
    uint32_t n_noted;
};

struct cp_strict_queue {
    struct cp_queue *q;
    struct isa_watch watch;
    uint32_t tick, looked[GROUPS_MAX]; /* stores so far; when a work-group last looked past the caches, for what others do */
    uint32_t serial, waited; /* of the running dispatch; everything of this queue up to `waited` has finished */
    struct lines cache[N_CACHES];
    gva scratch, scratch_end;
    gva dirty;               /* level 2 holds newer data for it than the host sees; 0: none */
    uint32_t dirty_serial;
};

/* ---- containers ---- */

static uint32_t hash(uint64_t x, uint32_t n)
{
    return (uint32_t)((x * 0x9E3779B97F4A7C15ull) >> 40) % n;
}

/* NULL: out of memory, then the page goes unchecked. */
static struct page *page_of(struct cp_strict *s, const uint8_t *host)
{
    const uint8_t *base = host - ((uintptr_t)host & (VM_PAGE - 1));
    struct page **head = &s->page[hash((uintptr_t)base >> VM_PAGE_SHIFT, PAGE_BUCKETS)], *p = *head;
    while (p && p->host != base)
        p = p->next;
    if (!p && (p = calloc(1, sizeof *p))) {
        p->host = base;
        p->next = *head;
        *head = p;
    }
    return p;
}

/* The line at va; made, with epoch 0, when there is none. */
static struct line *line_of(struct lines *l, gva va)
{
    if (!l->bucket && !(l->bucket = calloc(LINE_BUCKETS, sizeof *l->bucket)))
        return NULL;
    struct line **head = &l->bucket[hash(va / LINE_BYTES, LINE_BUCKETS)], *n = *head;
    while (n && n->va != va)
        n = n->next;
    if (!n && (n = calloc(1, sizeof *n))) {
        n->va = va;
        n->next = *head;
        *head = n;
    }
    return n;
}

static void lines_free(struct lines *l)
{
    for (uint32_t i = 0; l->bucket && i < LINE_BUCKETS; i++) {
        struct line *next;
        for (struct line *n = l->bucket[i]; n; n = next) {
            next = n->next;
            free(n);
        }
    }
    free(l->bucket);
}

static void lines_invalidate(struct lines *l, gva base, uint64_t bytes)
{
    if (bytes == ~0ull) {
        l->epoch++;
        return;
    }
    gva end = base + bytes;
    for (gva va = base & ~(gva)(LINE_BYTES - 1); l->bucket && va < end; va += LINE_BYTES)
        for (struct line *n = l->bucket[hash(va / LINE_BYTES, LINE_BUCKETS)]; n; n = n->next)
            if (n->va == va)
                n->epoch = 0;
}

struct cp_strict *cp_strict_create(struct cp *c)
{
    struct cp_strict *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->c = c;
    s->level2.epoch = 1;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void cp_strict_destroy(struct cp_strict *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < PAGE_BUCKETS; i++) {
        struct page *next;
        for (struct page *p = s->page[i]; p; p = next) {
            next = p->next;
            free(p);
        }
    }
    lines_free(&s->level2);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- findings ---- */

static struct actor *actor_new(struct cp_strict *s, const struct cp_queue *q)
{
    uint32_t n = ++s->serial;
    struct actor *a = &s->log[n % LOG_SIZE];
    *a = (struct actor){ .serial = n, .queue = q->id, .packet = q->pkt_name };
    return a;
}

static const struct actor *actor_find(const struct cp_strict *s, uint32_t serial)
{
    const struct actor *a = &s->log[serial % LOG_SIZE];
    return serial && a->serial == serial ? a : NULL;
}

static void actor_name(const struct cp_strict *s, uint32_t serial, char out[80])
{
    const struct actor *a = actor_find(s, serial);
    if (!serial)
        snprintf(out, 80, "the host");
    else if (!a)
        snprintf(out, 80, "the GPU, long ago");
    else if (a->dispatch)
        snprintf(out, 80, "dispatch %llu (kernel 0x%llx)", (unsigned long long)a->number,
                 (unsigned long long)a->entry);
    else
        snprintf(out, 80, "%s of queue %u", a->packet ? a->packet : "a packet", a->queue);
}

/* With strict_notes a finding is told once per kind and pair of kernels, and the program goes on. Returns what the
 * caller is to return: false ends the queue. */
static bool finding(struct cp_strict_queue *sq, const char *kind, uint32_t other, char *why, size_t size,
                    const char *fmt, ...) __attribute__((format(printf, 6, 7)));
static bool finding(struct cp_strict_queue *sq, const char *kind, uint32_t other, char *why, size_t size,
                    const char *fmt, ...)
{
    struct cp_strict *s = sq->q->c->strict;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    if (!s->c->o.strict_notes)
        return false;
    const struct actor *a = actor_find(s, other), *self = actor_find(s, sq->serial);
    gva entry = self ? self->entry : 0;
    uint64_t key = (entry * 31 + (a ? a->entry : 0)) * 31 + (uintptr_t)kind;
    for (uint32_t i = 0; i < s->n_noted; i++)
        if (s->noted[i] == key)
            return true;
    if (s->n_noted < NOTES_MAX) {
        s->noted[s->n_noted++] = key;
        cp_note(s->c, sq->q->id, "strict: queue %u, dispatch %llu, kernel 0x%llx: %s", sq->q->id,
                (unsigned long long)(self ? self->number : 0), (unsigned long long)entry, why);
    }
    return true;
}

/* Dispatch `serial` of this queue may still run, as far as the packets say. */
static bool unwaited(const struct cp_strict_queue *sq, uint32_t serial, uint32_t self)
{
    if (serial <= sq->waited || serial == self)
        return false;
    const struct actor *a = actor_find(sq->q->c->strict, serial);
    return a && a->queue == sq->q->id && (a->dispatch || serial > self);
}

/* ---- accesses: lock held ---- */

struct access {
    gva va;
    uint32_t bytes;          /* within a line, so within a page */
    const uint8_t *host;
    uint64_t entry;          /* of the page table */
    struct page *page;
    uint32_t first, n;       /* dwords of the page */
    uint32_t group;          /* that asks          */
};

static bool hazard_check(struct cp_strict_queue *sq, const struct access *a, bool write, uint32_t self, char *why,
                         size_t size)
{
    char who[80];
    for (uint32_t i = a->first; i < a->first + a->n; i++) {
        bool by_writer = unwaited(sq, a->page->writer[i], self);
        uint32_t other = by_writer ? a->page->writer[i] : write ? a->page->reader[i] : 0;
        if (!by_writer && !unwaited(sq, other, self))
            continue;
        actor_name(sq->q->c->strict, other, who);
        return finding(sq, "hazard", other, why, size,
                       "%s of 0x%llx, %s by %s, not waited for: CS_PARTIAL_FLUSH missing", write ? "write" : "read",
                       (unsigned long long)a->va, by_writer ? "written" : "read", who);
    }
    return true;
}

static bool written_check(struct cp_strict_queue *sq, const struct access *a, char *why, size_t size)
{
    if (!(a->entry & VM_VRAM) || a->entry & VM_HOST)
        return true;
    for (uint32_t i = a->first; i < a->first + a->n; i++) {
        if (a->page->writer[i])
            continue;
        gva va = (a->va & ~(gva)(VM_PAGE - 1)) + i * 4;
        a->page->writer[i] = UINT32_MAX; /* told once */
        return finding(sq, "never", 0, why, size, "0x%llx was never written (VRAM that only the GPU can write)",
                       (unsigned long long)va);
    }
    return true;
}

static void line_fill(struct line *n, const struct access *a, uint32_t serial, uint32_t epoch)
{
    memcpy(n->bytes, a->host - a->va % LINE_BYTES, LINE_BYTES);
    n->serial = serial;
    n->epoch = epoch;
}

/* The line came in this dispatch, and has changed since: by another work-group of it, after whose store nobody has emptied the
 * cache, although the one that reads has looked since for what others do (past the caches, or by an atomic)? If it has not, either
 * value is right, and mostly neither is used. A work-group's own stores pass through the vector cache. */
static bool within_dispatch(struct cp_strict_queue *sq, enum cache k, struct line *n, const struct access *a, char *why, size_t size)
{
    uint32_t at = a->va % LINE_BYTES / 4 * 4;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t word = a->first + i, before, now;
        memcpy(&before, n->bytes + at + 4 * i, 4);
        memcpy(&now, a->host - a->va % 4 + 4 * i, 4);
        if (before == now || a->page->writer[word] != sq->serial || a->group >= GROUPS_MAX ||
            (k == CACHE_VECTOR && a->page->group[word] == a->group) || (int32_t)(sq->looked[a->group] - a->page->tick[word]) < 0)
            continue;
        line_fill(n, a, sq->serial, sq->cache[k].epoch);
        return finding(sq, cache_name[k], sq->serial, why, size,
                       "stale %s cache: 0x%llx kept since before work-group %u of the same dispatch changed it: %s missing",
                       cache_name[k], (unsigned long long)a->va, a->page->group[word],
                       k == CACHE_SCALAR ? "s_dcache_inv" : "buffer_gl1_inv or global_inv");
    }
    return true;
}

static bool stale_check(struct cp_strict_queue *sq, enum cache k, const struct access *a, char *why, size_t size)
{
    struct lines *l = &sq->cache[k];
    struct line *n = line_of(l, a->va & ~(gva)(LINE_BYTES - 1));
    if (!n)
        return true;
    if (n->epoch != l->epoch) {
        line_fill(n, a, sq->serial, l->epoch);
        return true;
    }
    uint32_t at = a->va % LINE_BYTES, who = a->page->writer[a->first], since = n->serial;
    if (memcmp(n->bytes + at, a->host, a->bytes) == 0)
        return true;
    if (since == sq->serial)
        return within_dispatch(sq, k, n, a, why, size);
    for (uint32_t i = a->first; i < a->first + a->n; i++)
        if (a->page->writer[i] == sq->serial)
            return true; /* its own stores pass through its caches */
    char name[80];
    const struct actor *loader = actor_find(sq->q->c->strict, since);
    if (who && since > who) /* the GPU's last store was there already */
        who = 0;
    actor_name(sq->q->c->strict, who, name);
    line_fill(n, a, sq->serial, l->epoch);
    return finding(sq, cache_name[k], who, why, size,
                   "stale %s cache: 0x%llx kept since dispatch %llu, changed by %s: %s missing", cache_name[k],
                   (unsigned long long)a->va, (unsigned long long)(loader ? loader->number : 0), name,
                   cache_remedy[k]);
}

/* Host memory that level 2 keeps: what the host wrote after the GPU has read it. */
static bool level2_check(struct cp_strict_queue *sq, const struct access *a, bool write, char *why, size_t size)
{
    struct lines *l = &sq->q->c->strict->level2;
    if ((a->entry & (VM_CACHED | VM_HOST)) != (VM_CACHED | VM_HOST))
        return true;
    struct line *n = line_of(l, a->va & ~(gva)(LINE_BYTES - 1));
    if (!n)
        return true;
    if (n->epoch != l->epoch) {
        line_fill(n, a, sq->serial, l->epoch);
        n->valid = 0;
    }
    uint32_t first = a->va % LINE_BYTES / 4;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t bit = 1u << (first + i), now;
        memcpy(&now, a->host - a->va % 4 + 4 * i, 4);
        if (write || a->page->writer[a->first + i]) {
            n->valid &= ~bit;
        } else if (!(n->valid & bit)) {
            memcpy(n->bytes + 4 * (first + i), &now, 4);
            n->valid |= bit;
        } else if (memcmp(n->bytes + 4 * (first + i), &now, 4)) {
            n->valid &= ~bit;
            return finding(sq, "level 2", 0, why, size,
                           "stale level 2: 0x%llx was changed by the host since the GPU read it: "
                           "GL2_INV missing",
                           (unsigned long long)a->va);
        }
    }
    return true;
}

static bool access_begin(struct cp_strict_queue *sq, struct access *a)
{
    a->entry = vm_entry(sq->q->d.vm, a->va);
    if (!(a->entry & VM_VALID))
        return false; /* a page fault, and not ours to tell */
    a->host = (const uint8_t *)(uintptr_t)(a->entry & ~(uint64_t)VM_FLAG_MASK) + (a->va & (VM_PAGE - 1));
    a->page = page_of(sq->q->c->strict, a->host);
    a->first = (a->va & (VM_PAGE - 1)) / 4;
    a->n = (uint32_t)(((a->va & (VM_PAGE - 1)) + a->bytes + 3) / 4 - a->first);
    return a->page != NULL;
}

static bool shader_load(struct cp_strict_queue *sq, enum isa_path path, const struct access *a, bool bypass,
                        char why[160])
{
    enum cache k = path == ISA_SCALAR ? CACHE_SCALAR : path == ISA_CODE ? CACHE_CODE : CACHE_VECTOR;
    bool ok = hazard_check(sq, a, false, sq->serial, why, 160) &&
              (k != CACHE_VECTOR || written_check(sq, a, why, 160)) && (bypass || stale_check(sq, k, a, why, 160)) &&
              level2_check(sq, a, false, why, 160);
    for (uint32_t i = a->first; i < a->first + a->n; i++)
        a->page->reader[i] = sq->serial;
    return ok;
}

static bool shader_store(struct cp_strict_queue *sq, const struct access *a, char why[160])
{
    bool ok = hazard_check(sq, a, true, sq->serial, why, 160) && level2_check(sq, a, true, why, 160);
    sq->tick++;
    for (uint32_t i = a->first; i < a->first + a->n; i++)
        a->page->writer[i] = sq->serial, a->page->group[i] = a->group, a->page->tick[i] = sq->tick;
    if (!sq->dirty && (a->entry & (VM_CACHED | VM_HOST)) == (VM_CACHED | VM_HOST)) {
        sq->dirty = a->va;
        sq->dirty_serial = sq->serial;
    }
    return ok;
}

static bool shader_access(struct cp_strict_queue *sq, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass,
                          bool write, char why[160])
{
    struct cp_strict *s = sq->q->c->strict;
    bool ok = true;
    if (va >= sq->scratch && va < sq->scratch_end)
        return true; /* every wave has its own, dispatch after dispatch */
    pthread_mutex_lock(&s->lock);
    if (bypass && group < GROUPS_MAX)
        sq->looked[group] = sq->tick;
    for (gva end = va + bytes; ok && va < end;) {
        uint32_t n = LINE_BYTES - va % LINE_BYTES;
        struct access a = { .va = va, .bytes = n < end - va ? n : (uint32_t)(end - va), .group = group };
        if (access_begin(sq, &a))
            ok = write ? shader_store(sq, &a, why) : shader_load(sq, path, &a, bypass, why);
        va += a.bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

static bool on_load(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160])
{
    return shader_access(user, path, group, va, bytes, bypass, false, why);
}

static bool on_store(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160])
{
    return shader_access(user, path, group, va, bytes, bypass, true, why);
}

/* One cache stands for those of all compute units, so this empties more than an instruction does. */
static void on_invalidate(void *user, enum isa_path path)
{
    struct cp_strict_queue *sq = user;
    pthread_mutex_lock(&sq->q->c->strict->lock);
    sq->cache[path == ISA_SCALAR ? CACHE_SCALAR : CACHE_VECTOR].epoch++;
    pthread_mutex_unlock(&sq->q->c->strict->lock);
}

static uint32_t on_unwritten(void *user, gva va, uint32_t n)
{
    struct cp_strict_queue *sq = user;
    struct cp_strict *s = sq->q->c->strict;
    uint32_t mask = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct access a = { .va = va + 4 * i, .bytes = 4 };
        bool ours = access_begin(sq, &a) && a.entry & VM_VRAM && !(a.entry & VM_HOST);
        mask |= (uint32_t)(ours && (!a.page->writer[a.first] || a.page->writer[a.first] == UINT32_MAX)) << i;
    }
    pthread_mutex_unlock(&s->lock);
    return mask;
}

/* ---- what packets do ---- */

int cp_strict_queue_create(struct cp_queue *q)
{
    if (!q->c->strict)
        return 0;
    struct cp_strict_queue *sq = calloc(1, sizeof *sq);
    if (!sq)
        return -ENOMEM;
    sq->q = q;
    for (int i = 0; i < N_CACHES; i++)
        sq->cache[i].epoch = 1;
    sq->watch = (struct isa_watch){ .user = sq, .load = on_load, .store = on_store,
                                     .invalidate = on_invalidate, .unwritten = on_unwritten };
    q->strict = sq;
    return 0;
}

void cp_strict_queue_destroy(struct cp_queue *q)
{
    if (!q->strict)
        return;
    for (int i = 0; i < N_CACHES; i++)
        lines_free(&q->strict->cache[i]);
    free(q->strict);
    q->strict = NULL;
}

bool cp_strict_dispatch(struct cp_queue *q, char why[240])
{
    struct cp_strict_queue *sq = q->strict;
    const struct isa_launch *l = &q->job.launch;
    if (!sq)
        return true;
    pthread_mutex_lock(&q->c->strict->lock);
    struct actor *a = actor_new(q->c->strict, q);
    a->dispatch = true;
    a->number = q->job.number;
    a->entry = l->entry;
    sq->serial = a->serial;
    pthread_mutex_unlock(&q->c->strict->lock);
    uint32_t wave_size = l->tmpring >> 12 & (l->chip->gfx12 ? 0x3FFFF : 0x7FFF);
    sq->scratch = l->rsrc2 & 1 ? l->scratch_base : 0;
    sq->scratch_end = sq->scratch + (l->rsrc2 & 1 ? (uint64_t)l->scratch_waves * wave_size * 256 : 0);
    q->job.launch.watch = &sq->watch;
    return shader_access(sq, ISA_CODE, 0, l->entry, 64, false, false, why);
}

void cp_strict_waited(struct cp_queue *q)
{
    if (!q->strict)
        return;
    pthread_mutex_lock(&q->c->strict->lock);
    q->strict->waited = q->c->strict->serial;
    pthread_mutex_unlock(&q->c->strict->lock);
}

void cp_strict_caches(struct cp_queue *q, uint32_t gcr, gva base, uint64_t bytes)
{
    struct cp_strict_queue *sq = q->strict;
    if (!sq)
        return;
    pthread_mutex_lock(&q->c->strict->lock);
    if (gcr & GLI_INV)
        lines_invalidate(&sq->cache[CACHE_CODE], base, bytes);
    if (gcr & GLK_INV)
        lines_invalidate(&sq->cache[CACHE_SCALAR], base, bytes);
    if (gcr & GLV_INV)
        lines_invalidate(&sq->cache[CACHE_VECTOR], base, bytes);
    if (gcr & GL2_INV)
        lines_invalidate(&q->c->strict->level2, base, bytes);
    if (gcr & GL2_WB && sq->dirty >= base && (bytes == ~0ull || sq->dirty < base + bytes))
        sq->dirty = 0;
    pthread_mutex_unlock(&q->c->strict->lock);
}

bool cp_strict_access(struct cp_queue *q, gva va, uint64_t bytes, bool write, char why[240])
{
    struct cp_strict_queue *sq = q->strict;
    struct cp_strict *s = q->c->strict;
    bool ok = true;
    pthread_mutex_lock(&s->lock);
    uint32_t serial = actor_new(s, q)->serial;
    for (gva end = va + bytes; ok && va < end;) {
        uint32_t n = LINE_BYTES - va % LINE_BYTES;
        struct access a = { .va = va, .bytes = n < end - va ? n : (uint32_t)(end - va) };
        if (access_begin(sq, &a)) {
            ok = hazard_check(sq, &a, write, serial, why, 240) && level2_check(sq, &a, write, why, 240);
            uint32_t *who = write ? a.page->writer : a.page->reader;
            for (uint32_t i = a.first; i < a.first + a.n; i++)
                who[i] = serial;
        }
        va += a.bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

bool cp_strict_signal(struct cp_queue *q, gva va, char why[240])
{
    struct cp_strict_queue *sq = q->strict;
    bool ok = true;
    if (!sq->dirty || (va && !(vm_entry(q->d.vm, va) & VM_HOST)))
        return true;
    pthread_mutex_lock(&q->c->strict->lock);
    char who[80];
    actor_name(q->c->strict, sq->dirty_serial, who);
    ok = finding(sq, "dirty", sq->dirty_serial, why, 240,
                 "the host is told that results are there while 0x%llx, written by "
                 "%s, may still be in level 2 only: GL2_WB is missing in this packet or an ACQUIRE_MEM before it",
                 (unsigned long long)sq->dirty, who);
    pthread_mutex_unlock(&q->c->strict->lock);
    return ok;
}
