/* The card: its memory, address spaces and command processor; fork and exit. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

struct card card = {
    .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, .event_lock = PTHREAD_MUTEX_INITIALIZER,
    .mem_fd = -1, .kfd_fd = -1,
};

/* The kernel's offsets for mmap begin here; below it a stray mmap at offset 0 finds nothing. */
static const uint64_t first_off = 1ull << 32;

/* ---- interface to libc that does not come back through interpose.c ---- */

static void *sys_mmap(void *at, uint64_t n, int prot, int flags, int fd)
{
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, 0);
}

static uint8_t *make_file(const char *name, uint64_t bytes, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes) < 0)
        return NULL;
    void *p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd);
    return p == MAP_FAILED ? NULL : p;
}

/* ---- opening ---- */

static uint64_t ram_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void on_fork_prepare(void)
{
    pthread_mutex_lock(&card.lock);
    pthread_mutex_lock(&card.event_lock);
}

static void on_fork_parent(void)
{
    pthread_mutex_unlock(&card.event_lock);
    pthread_mutex_unlock(&card.lock);
}

/* The child has the parent's descriptors and none of its threads: it starts without a card, and what it inherited
 * answers EBADF, as amdkfd does to a process that did not open it. */
static void on_fork_child(void)
{
    card.lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_mutex_init(&card.event_lock, NULL);
    file_fork_child();
    kfd_fork_child();
    drm_fork_child();
    shared_fork_child();
    card.up = false;
    card.pid = getpid();
    card.cp = NULL;
    card.vms = NULL;
    card.n_host_maps = 0;
    card.bos = NULL;
    card.n_bos = card.cap_bos = 0;
    card.vram_used = card.gtt_used = 0;
    card.reset_pending = false;
    card.mem_fd = card.kfd_fd = -1; /* left open: the numbers may be of use to nobody, closing them could surprise */
}

static void register_fork(void)
{
    pthread_atfork(on_fork_prepare, on_fork_parent, on_fork_child);
}

static bool open_locked(void)
{
    const struct kmd_options *o = kmd_options();
    card.gtt_bytes = ram_bytes();
    if (o->chip->apu)
        card.gtt_bytes /= 2;
    card.mem_bytes = (first_off + 4 * (o->vram_bytes + card.gtt_bytes) + KMD_PAGE) & ~(uint64_t)(KMD_PAGE - 1);
    card.view[0] = make_file("amdsim-memory", card.mem_bytes, &card.mem_fd);
    void *second = card.view[0] ? sys_mmap(NULL, card.mem_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, card.mem_fd) : MAP_FAILED;
    card.view[1] = second == MAP_FAILED ? NULL : second;
    card.kfd_page = card.view[1] ? make_file("amdsim-kfd", KMD_KFD_FILE_BYTES, &card.kfd_fd) : NULL;
    if (!card.kfd_page) {
        kmd_say("the card's memory could not be made: %s; %llu GiB of address space are needed (ulimit -v, or a "
                "smaller --vram)", strerror(errno), (unsigned long long)(card.mem_bytes >> 29));
        return false;
    }
    memset(card.kfd_page + KMD_OFF_DOORBELLS, 0xff, KMD_DOORBELL_BYTES);
    if (!shared_open())
        kmd_say("memory of the card is not shared with other processes: too many of them, or no memory");
    card.pid = getpid();
    card.up = true;
    return true;
}

bool card_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork);
    if (__atomic_load_n(&card.up, __ATOMIC_ACQUIRE))
        return true;
    pthread_mutex_lock(&card.lock);
    bool ok = card.up || open_locked();
    pthread_mutex_unlock(&card.lock);
    return ok;
}

static void on_note(void *user, const char *line)
{
    kmd_say("%s", line);
}

struct cp *card_cp(void)
{
    if (card.cp)
        return card.cp;
    const struct kmd_options *o = kmd_options();
    struct cp_options co = {
        .n_threads = o->n_threads, .strict = o->strict, .skip_execution = o->skip_execution,
        .hang_insts = o->hang_insts, .deadlock_ms = o->deadlock_ms, .preempt_insts = kmd_injected(KMD_INJECT_CWSR_OFF) ? 0 : o->preempt_insts,
        .evict_dispatches = o->evict_dispatches, .reset_dispatch = o->reset_dispatch, .trace = o->trace,
    };
    struct cp_host host = { .interrupt = kfd_on_interrupt, .fault = kfd_on_fault, .note = on_note,
                            .must_leave = shared_must_leave, .evicted = kfd_on_eviction };
    sigset_t all, old; /* its threads take no signals: those are the program's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    card.cp = cp_create(o->chip, &co, &host);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (card.cp)
        shared_runs();
    if (!card.cp)
        kmd_say("the command processor could not be started: no memory or threads, or %s cannot be written",
                o->trace ? o->trace : "(no trace)");
    return card.cp;
}

/* For a client that wants to know, found by dlsym. */
__attribute__((visibility("default"))) uint32_t amdsim_queues(void);
uint32_t amdsim_queues(void)
{
    return card.cp ? cp_queues(card.cp) : 0;
}

__attribute__((destructor)) static void on_exit_of_program(void)
{
    if (card.cp && card.pid == getpid()) {
        kfd_tell_of_bells();
        if (kmd_options()->stats) {
            struct isa_counts n = { 0 };
            uint64_t dispatches = 0, packets = 0, busy_ns = 0, preemptions = 0, evictions = 0;
            cp_counts(card.cp, &n, &dispatches, &packets, &busy_ns, &preemptions, &evictions);
            kmd_say("%llu packets, %llu dispatches, %llu waves, %llu instructions in %.3f s, %.1f million a second",
                    (unsigned long long)packets, (unsigned long long)dispatches, (unsigned long long)n.waves,
                    (unsigned long long)n.insts, (double)busy_ns / 1e9,
                    busy_ns ? (double)n.insts * 1e3 / (double)busy_ns : 0.0);
            kmd_say("%llu calls of the driver", (unsigned long long)card.n_calls);
            if (kmd_options()->preempt_insts || kmd_options()->evict_dispatches)
                kmd_say("%llu times a work-group was preempted, %llu times the queues were evicted",
                        (unsigned long long)preemptions, (unsigned long long)evictions);
        }
        cp_destroy(card.cp);
        card.cp = NULL;
    }
    sysfs_remove();
}

/* ---- waiting ---- */

uint64_t card_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void card_wake(void)
{
    __atomic_add_fetch(&card.event_gen, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &card.event_gen, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int card_sleep(uint32_t gen, uint64_t deadline_ns)
{
    struct timespec t = { (time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u) };
    long rc = syscall(SYS_futex, &card.event_gen, FUTEX_WAIT_BITSET_PRIVATE, gen, deadline_ns == ~0ull ? NULL : &t,
                      NULL, FUTEX_BITSET_MATCH_ANY);
    if (rc == 0 || errno == EAGAIN)
        return 0;
    return errno == ETIMEDOUT ? -ETIME : -EINTR;
}

/* ---- buffers ---- */

/* A gap of the file for `bytes`; first fit, so that offsets of freed buffers come back, as the kernel's do. */
static int place(struct bo *bo)
{
    if (card.n_bos == card.cap_bos) {
        uint32_t cap = card.cap_bos ? card.cap_bos * 2 : 64;
        struct bo **p = realloc(card.bos, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        card.bos = p;
        card.cap_bos = cap;
    }
    uint64_t at = first_off;
    uint32_t i = 0;
    for (; i < card.n_bos && card.bos[i]->off - at < bo->bytes; i++)
        at = card.bos[i]->off + card.bos[i]->bytes;
    if (bo->bytes > card.mem_bytes - at)
        return -ENOMEM;
    memmove(&card.bos[i + 1], &card.bos[i], (card.n_bos - i) * sizeof card.bos[0]);
    card.bos[i] = bo;
    card.n_bos++;
    bo->off = at;
    bo->host = card.view[0] + at;
    return 0;
}

struct bo *bo_create(enum kmd_domain domain, uint64_t bytes, bool cpu_access, int *err)
{
    uint64_t *used = domain == KMD_VRAM ? &card.vram_used : &card.gtt_used;
    uint64_t limit = domain == KMD_VRAM ? card.opt.vram_bytes : card.gtt_bytes;
    *err = -ENOMEM;
    bytes = (bytes + KMD_PAGE - 1) & ~(uint64_t)(KMD_PAGE - 1);
    if (domain <= KMD_GTT && (bytes > limit || *used > limit - bytes)) {
        kmd_why(-ENOMEM, "%llu bytes of %s asked for, %llu of %llu are free", (unsigned long long)bytes,
                domain == KMD_VRAM ? "VRAM" : "GTT", (unsigned long long)(limit - *used), (unsigned long long)limit);
        return NULL;
    }
    if (domain == KMD_VRAM && !shared_make_room(*used + bytes)) {
        kmd_why(-ENOMEM, "%llu bytes of VRAM asked for: other processes do not give their memory up", (unsigned long long)bytes);
        return NULL;
    }
    struct bo *bo = calloc(1, sizeof *bo);
    if (!bo)
        return NULL;
    *bo = (struct bo){ .domain = domain, .bytes = bytes, .cpu_access = cpu_access, .refs = 1 };
    if (domain <= KMD_GTT) {
        if (place(bo) != 0) {
            free(bo);
            return NULL;
        }
        *used += bytes;
        if (domain == KMD_VRAM)
            shared_add((int64_t)bytes, 0);
    }
    *err = 0;
    return bo;
}

void bo_ref(struct bo *bo)
{
    bo->refs++;
}

/* What the GPU could still touch is gone from its page tables by now (gpuvm_unmap waits for it). */
void bo_unref(struct bo *bo)
{
    if (!bo || --bo->refs)
        return;
    if (bo->domain <= KMD_GTT) {
        uint32_t i = 0;
        while (i < card.n_bos && card.bos[i] != bo)
            i++;
        memmove(&card.bos[i], &card.bos[i + 1], (card.n_bos - i - 1) * sizeof card.bos[0]);
        card.n_bos--;
        *(bo->domain == KMD_VRAM ? &card.vram_used : &card.gtt_used) -= bo->bytes;
        if (bo->domain == KMD_VRAM)
            shared_add(-(int64_t)bo->bytes, bo->kfd ? -(int64_t)bo->bytes : 0);
        bo_first_view(bo);
        fallocate(card.mem_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)bo->off, (off_t)bo->bytes);
    }
    free(bo);
}

struct bo *bo_at_offset(uint64_t off)
{
    for (uint32_t lo = 0, hi = card.n_bos; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (card.bos[mid]->off == off)
            return card.bos[mid];
        if (card.bos[mid]->off < off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* As the driver pins pages: they must exist and allow the access. */
int host_populate(void *addr, uint64_t bytes, bool write)
{
    if (madvise(addr, bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 || errno == EINVAL)
        return 0; /* EINVAL: a kernel before 5.14 cannot tell */
    return -EFAULT;
}

/* ---- address spaces ---- */

static bool is_host(const struct mapping *m)
{
    return !m->bo || m->bo->domain == KMD_USERPTR;
}

static void hold(const struct mapping *m)
{
    if (m->bo)
        bo_ref(m->bo);
    card.n_host_maps += is_host(m);
}

static void drop(const struct mapping *m)
{
    card.n_host_maps -= is_host(m);
    bo_unref(m->bo);
}

struct gpuvm *gpuvm_create(void)
{
    struct gpuvm *v = calloc(1, sizeof *v);
    if (v && !(v->vm = vm_create())) {
        free(v);
        v = NULL;
    }
    if (v) {
        v->next = card.vms;
        card.vms = v;
    }
    return v;
}

void gpuvm_destroy(struct gpuvm *v)
{
    if (!v)
        return;
    for (uint32_t i = 0; i < v->n; i++)
        vm_unmap(v->vm, v->maps[i].va, v->maps[i].bytes);
    if (card.cp)
        cp_quiesce(card.cp);
    for (uint32_t i = 0; i < v->n; i++)
        drop(&v->maps[i]);
    for (struct gpuvm **p = &card.vms; *p; p = &(*p)->next)
        if (*p == v) {
            *p = v->next;
            break;
        }
    vm_destroy(v->vm);
    free(v->maps);
    free(v);
}

static uint32_t first_after(const struct gpuvm *v, gva va) /* the first mapping that ends beyond va */
{
    uint32_t lo = 0, hi = v->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (v->maps[mid].va + v->maps[mid].bytes > va)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

struct mapping *gpuvm_find(struct gpuvm *v, gva va)
{
    uint32_t i = first_after(v, va);
    return i < v->n && v->maps[i].va <= va ? &v->maps[i] : NULL;
}

static int insert(struct gpuvm *v, uint32_t i, const struct mapping *m)
{
    if (v->n == v->cap) {
        uint32_t cap = v->cap ? v->cap * 2 : 32;
        struct mapping *p = realloc(v->maps, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        v->maps = p;
        v->cap = cap;
    }
    memmove(&v->maps[i + 1], &v->maps[i], (v->n - i) * sizeof v->maps[0]);
    v->maps[i] = *m;
    v->n++;
    return 0;
}

int gpuvm_map(struct gpuvm *v, const struct mapping *m)
{
    if ((m->va | m->bytes) % KMD_PAGE || !m->bytes || m->va + m->bytes < m->va)
        return kmd_why(-EINVAL, "mapping of 0x%llx bytes at 0x%llx: both must be multiples of 4096",
                       (unsigned long long)m->bytes, (unsigned long long)m->va);
    uint32_t i = first_after(v, m->va);
    if (i < v->n && v->maps[i].va < m->va + m->bytes)
        return kmd_why(-EINVAL, "0x%llx..0x%llx conflicts with what is mapped at 0x%llx..0x%llx",
                       (unsigned long long)m->va, (unsigned long long)(m->va + m->bytes),
                       (unsigned long long)v->maps[i].va, (unsigned long long)(v->maps[i].va + v->maps[i].bytes));
    void *host = m->bo ? m->bo->host + m->bo_off : (void *)(uintptr_t)m->va;
    int rc = insert(v, i, m);
    if (rc == 0 && (rc = vm_map(v->vm, m->va, m->bytes, host, m->flags)) != 0) {
        v->n--;
        memmove(&v->maps[i], &v->maps[i + 1], (v->n - i) * sizeof v->maps[0]);
    }
    if (rc == 0)
        hold(m);
    return rc == -EINVAL ? kmd_why(rc, "mapping at 0x%llx: no address of the GPU", (unsigned long long)m->va) : rc;
}

int gpuvm_unmap(struct gpuvm *v, gva va, uint64_t bytes)
{
    gva end = va + bytes;
    uint32_t i = first_after(v, va);
    if (i == v->n || v->maps[i].va >= end)
        return 0;
    vm_unmap(v->vm, va, bytes);
    if (card.cp)
        cp_quiesce(card.cp);
    while (i < v->n && v->maps[i].va < end) {
        struct mapping *m = &v->maps[i], tail = *m;
        bool head = m->va < va, rest = m->va + m->bytes > end;
        if (rest) {
            tail.bo_off += end - m->va;
            tail.bytes -= end - m->va;
            tail.va = end;
        }
        if (head)
            m->bytes = va - m->va;
        if (head && rest) {
            int rc = insert(v, i + 1, &tail);
            if (rc == 0)
                hold(&tail);
            return rc;
        }
        if (rest) {
            *m = tail;
            return 0;
        }
        if (head) {
            i++;
            continue;
        }
        v->n--;
        struct mapping gone = *m;
        memmove(m, m + 1, (v->n - i) * sizeof *m);
        drop(&gone);
    }
    return 0;
}

void card_host_unmapped(void *addr, uint64_t bytes)
{
    if (!__atomic_load_n(&card.n_host_maps, __ATOMIC_RELAXED))
        return;
    uint64_t at = (uintptr_t)addr, end = (at + bytes + KMD_PAGE - 1) & ~(uint64_t)(KMD_PAGE - 1);
    pthread_mutex_lock(&card.lock);
    for (struct gpuvm *v = card.vms; v; v = v->next)
        for (uint32_t i = 0; i < v->n;) {
            struct mapping m = v->maps[i++];
            uint64_t host = m.bo ? (uintptr_t)m.bo->host + m.bo_off : m.va;
            if (!is_host(&m) || host >= end || host + m.bytes <= at)
                continue;
            uint64_t from = at > host ? at - host : 0, to = end < host + m.bytes ? end - host : m.bytes;
            if (v == kfd_vm())
                kfd_range_goes(m.va + from, to - from);
            gpuvm_unmap(v, m.va + from, to - from);
            i = 0;
        }
    pthread_mutex_unlock(&card.lock);
}
