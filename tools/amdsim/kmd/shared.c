/* The card's memory among processes: a program and the children that it forks have one card's VRAM between them, each with
 * buffers, queues and an address space of its own. Who needs room asks the others; each makes it by an eviction of its own
 * (cp's, which takes its queues off the card), as TTM and amdkfd do it:
 *
 *     a buffer is made      ttm_bo_evict_alloc: what others have in VRAM moves to host memory, once their queues have stopped
 *     kfd's own limit       amdgpu_amdkfd_reserve_mem_limit: of KFD's processes together, no more than there is; ENOMEM
 *     the evicted process   amdkfd: evict_process_worker and restore_process_worker, every PROCESS_RESTORE_TIME_MS again until
 *                           all its buffers are back; others (amdgpu_userq_validate_vm, amdgpu_cs_bo_validate) may run
 *                           with buffers in host memory */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

enum { MAX_PROCS = 64, PATIENCE_MS = 5000, RESTORE_PATIENCE_MS = 50 };

enum place { IN_VRAM, EVICTED, IN_HOST_MEMORY }; /* the last: and running all the same */
/* One process. */
struct proc {
    int32_t pid;
    uint32_t runs;      /* has a command processor, which answers */
    uint32_t wanted;    /* others want its memory                 */
    uint32_t place;     /* of its VRAM buffers                    */
    uint64_t vram, kfd; /* their bytes; of KFD's limit            */
};
static struct {
    uint64_t evictions; /* of all */
    struct proc proc[MAX_PROCS];
} *shared;
static struct proc *procs, *mine;

static struct proc *claim(void)
{
    int32_t pid = getpid();
    for (int i = 0; i < MAX_PROCS; i++) {
        int32_t was = __atomic_load_n(&procs[i].pid, __ATOMIC_ACQUIRE);
        bool gone = was && was != pid && kill(was, 0) != 0 && errno == ESRCH;
        if ((!was || gone) && __atomic_compare_exchange_n(&procs[i].pid, &was, pid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            procs[i].runs = procs[i].wanted = procs[i].place = 0;
            procs[i].vram = procs[i].kfd = 0;
            return &procs[i];
        }
    }
    return NULL;
}

bool shared_open(void)
{
    if (!procs) {
        void *p = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return false;
        shared = p;
        procs = shared->proc;
    }
    return (mine = claim()) != NULL;
}

void shared_fork_child(void)
{
    mine = NULL; /* which is the parent's */
}

uint64_t shared_evictions(void)
{
    return shared ? __atomic_load_n(&shared->evictions, __ATOMIC_RELAXED) : 0;
}

static bool alive(const struct proc *p)
{
    int32_t pid = __atomic_load_n(&p->pid, __ATOMIC_ACQUIRE);
    return pid && p != mine && (kill(pid, 0) == 0 || errno != ESRCH);
}

uint64_t shared_others(bool kfd)
{
    uint64_t sum = 0;
    for (int i = 0; i < MAX_PROCS && procs; i++)
        if (alive(&procs[i]) && (kfd || __atomic_load_n(&procs[i].place, __ATOMIC_ACQUIRE) == IN_VRAM))
            sum += __atomic_load_n(kfd ? &procs[i].kfd : &procs[i].vram, __ATOMIC_ACQUIRE);
    return sum;
}

void shared_add(int64_t vram, int64_t kfd)
{
    if (!mine)
        return;
    __atomic_add_fetch(&mine->vram, (uint64_t)vram, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(&mine->kfd, (uint64_t)kfd, __ATOMIC_ACQ_REL);
}

static void move_out(struct proc *p)
{
    if (__atomic_exchange_n(&p->place, EVICTED, __ATOMIC_ACQ_REL) == IN_VRAM)
        __atomic_add_fetch(&shared->evictions, 1, __ATOMIC_RELAXED);
}

static void ask_others(void)
{
    for (int i = 0; i < MAX_PROCS; i++) {
        struct proc *p = &procs[i];
        if (!alive(p) || !__atomic_load_n(&p->vram, __ATOMIC_ACQUIRE) || __atomic_load_n(&p->place, __ATOMIC_ACQUIRE) != IN_VRAM)
            continue;
        if (__atomic_load_n(&p->runs, __ATOMIC_ACQUIRE))
            __atomic_store_n(&p->wanted, 1, __ATOMIC_RELEASE);
        else /* without a queue nothing has to stop */
            move_out(p);
    }
}

static bool make_room(uint64_t bytes, uint32_t patience_ms)
{
    uint64_t end = card_now_ns() + patience_ms * 1000000ull;
    while (procs && shared_others(false) + bytes > card.opt.vram_bytes) {
        if (card_now_ns() > end)
            return false;
        ask_others();
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    return true;
}

bool shared_make_room(uint64_t bytes)
{
    bool yes = make_room(bytes, PATIENCE_MS);
    if (yes && mine && !mine->runs)
        __atomic_store_n(&mine->place, IN_VRAM, __ATOMIC_RELEASE);
    return yes;
}

/* ---- what the command processor asks ---- */

void shared_runs(void)
{
    if (mine)
        __atomic_store_n(&mine->runs, 1, __ATOMIC_RELEASE);
}

bool shared_must_leave(void *user)
{
    return mine && (__atomic_load_n(&mine->wanted, __ATOMIC_ACQUIRE) ||
                    __atomic_load_n(&mine->place, __ATOMIC_ACQUIRE) == EVICTED);
}

void shared_left(void)
{
    if (!mine)
        return;
    move_out(mine);
    __atomic_store_n(&mine->wanted, 0, __ATOMIC_RELEASE);
}

bool shared_may_return(void)
{
    if (!mine)
        return true;
    uint64_t own = __atomic_load_n(&mine->vram, __ATOMIC_ACQUIRE);
    bool kfd = __atomic_load_n(&mine->kfd, __ATOMIC_ACQUIRE);
    bool room = make_room(own, kfd ? RESTORE_PATIENCE_MS : 0); /* what stands idle there moves in its turn */
    if (!room && kfd)
        return false;
    __atomic_store_n(&mine->place, room ? IN_VRAM : IN_HOST_MEMORY, __ATOMIC_RELEASE);
    return true;
}
