/* tools/amdsim/kmd/kmd.h
 * The driver's side of the model: what amdgpu and amdkfd of the Linux kernel answer, for one card and one process.
 *
 *     interpose.c   libc's functions: paths and file descriptors of the card come here, the rest goes on
 *     sysfs.c       the files under /sys and /dev, in a private directory tree
 *     file.c        which descriptors are the card's
 *     card.c        the card: memory, address spaces, the command processor, fork and exit
 *     shared.c      VRAM among the processes of one program
 *     move.c        buffers that an eviction leaves elsewhere
 *     kfd*.c        /dev/kfd: memory, queues, events
 *     drm*.c        /dev/dri/renderD128: info, buffers, submissions, syncobjs
 *
 * Locks: card.lock guards everything here and is held while an ioctl runs, calls of the command processor included;
 * card.event_lock guards what its callbacks touch (events, faults, fences) and is the inner one. Nobody sleeps for
 * the GPU with card.lock held, except in the removal of a queue.
 *
 * Functions that answer an ioctl return 0 or a negative errno, as the kernel's do; where it would be silent, kmd_why
 * tells (AMDSIM_LOG=1) which rule was broken. */
#ifndef AMDSIM_KMD_H
#define AMDSIM_KMD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/amdsim/chip.h"
#include "tools/amdsim/cp/cp.h"
#include "tools/amdsim/vm.h"

/* ---- options, from the environment (the launcher's main.c lists them) ---- */

#define KMD_INJECTIONS(X)                                                                                              \
    X(NO_KFD, "no-kfd")                   /* the driver is not loaded                         */                       \
    X(EACCES, "eacces")                   /* the user is not in the group render              */                       \
    X(OLD_KERNEL, "old-kernel")           /* KFD interface 1.5                                */                       \
    X(UNSUPPORTED, "unsupported-chip")    /* the card is a gfx1030                            */                       \
    X(VM_BUSY, "vm-busy")                 /* ACQUIRE_VM: EBUSY                                */                       \
    X(QUEUE_ENOMEM, "queue-enomem")       /* CREATE_QUEUE: ENOMEM                             */                       \
    X(SDMA_ENOMEM, "sdma-enomem")         /* the same, SDMA queues only                       */                       \
    X(VRAM_ENOMEM, "vram-enomem")         /* ALLOC_MEMORY_OF_GPU of VRAM: ENOMEM              */                       \
    X(EVENT_ENOSPC, "event-enospc")       /* CREATE_EVENT: ENOSPC                             */                       \
    X(HANG, "hang")                       /* queues take doorbells and never fetch            */                       \
    X(NO_KERNEL_QUEUES, "no-kernel-queues") /* amdgpu.user_queue=2: no compute rings for CS   */                       \
    X(NO_CWSR_KEYS, "no-cwsr-keys")       /* properties without cwsr_size and ctl_stack_size  */                       \
    X(CWSR_OFF, "cwsr-off")               /* amdgpu.cwsr_enable=0: waves are not preempted    */                       \
    X(NO_INTERRUPTS, "no-interrupts")     /* none of those that packets of programs' queues ask for arrives */             \
    X(EINTR, "eintr")                     /* each WAIT_EVENTS is interrupted once             */                       \
    X(SECOND_PROCESS, "second-process")   /* KFD lists another process beside this one        */

enum kmd_injection {
#define X(id, text) KMD_INJECT_##id,
    KMD_INJECTIONS(X)
#undef X
    KMD_N_INJECTIONS
};

/* The module parameter amdgpu.user_queue: -1 and 0, 1, 2. */
enum kmd_user_queues { KMD_USERQ_OFF, KMD_USERQ_ON, KMD_USERQ_ONLY };
enum kmd_firmware { KMD_FW_ME, KMD_FW_PFP, KMD_FW_MEC, KMD_FW_MES, KMD_N_FIRMWARES };

struct kmd_options {
    const struct chip *chip;
    uint64_t vram_bytes;
    uint32_t kernel;        /* of the modelled driver: 6012 is Linux 6.12 */
    uint32_t n_threads;
    uint32_t deadlock_ms;
    uint64_t hang_insts, preempt_insts, evict_dispatches, reset_dispatch;
    uint64_t lockup_ms;     /* amdgpu.lockup_timeout of kernel-mode submissions, 0: none */
    const char *trace;
    bool strict, skip_execution, small_bar, lenient, log, stats, plain_offsets;
    enum kmd_user_queues user_queues;
    uint32_t firmware[KMD_N_FIRMWARES];
    bool inject[KMD_N_INJECTIONS];
};

/* ---- the card ---- */

enum { KMD_GPU_ID = 0xc6d1, KMD_RENDER_MINOR = 128, KMD_PAGE = 4096, KMD_DOORBELL_BYTES = 0x2000,
       KMD_GB_ADDR_CONFIG = 0x545 };
/* Offsets in the file behind /dev/kfd. */
enum { KMD_OFF_DOORBELLS = 0, KMD_OFF_MMIO = 0x4000, KMD_OFF_EVENTS = 0x8000, KMD_KFD_FILE_BYTES = 0x10000 };

enum kmd_domain { KMD_VRAM, KMD_GTT, KMD_USERPTR, KMD_DOORBELL, KMD_MMIO };

/* A buffer. VRAM and GTT live in one sparse file, which clients map at `off`; host is the model's own mapping,
 * in one of two views of that file (move.c). */
struct bo {
    enum kmd_domain domain;
    uint64_t bytes, off;
    uint8_t *host;
    uint32_t view;
    bool cpu_access;        /* asked for: PUBLIC, or not NO_CPU_ACCESS  */
    bool mappable;          /* clients may map it all the same          */
    bool doorbell;          /* made in the domain DOORBELL: a page of cells */
    bool kfd;               /* VRAM that counts against KFD's limit     */
    uint32_t refs;
    uint32_t drm_flags, drm_domains;
    uint64_t metadata_flags, tiling;
    uint32_t metadata_bytes, metadata[64];
};

/* A range of a GPU address space, as the driver's list of mappings knows it. */
struct mapping {
    gva va;
    uint64_t bytes, bo_off;
    struct bo *bo;          /* NULL: memory of the process (SVM)        */
    uint32_t flags;         /* of vm.h                                  */
};

struct gpuvm {
    struct gpuvm *next;     /* of the card's                            */
    struct vm *vm;
    struct mapping *maps;   /* by va                                    */
    uint32_t n, cap;
    bool compute;           /* ACQUIRE_VM has taken it                  */
};

struct drm_file;
struct syncobj;
enum file_kind { FILE_KFD, FILE_RENDER, FILE_CARD, FILE_DMABUF, FILE_SYNCOBJ };

/* An open file description of the card; several descriptors can lead to it. */
struct file {
    enum file_kind kind;
    uint32_t refs;
    bool foreign;           /* opened before a fork, by the parent      */
    uint64_t ino;           /* of the file in memory behind it          */
    struct drm_file *drm;   /* FILE_RENDER, FILE_CARD                   */
    struct bo *bo;          /* FILE_DMABUF                              */
    struct syncobj *syncobj;
};

/* A submission's completion; under card.event_lock. */
struct fence {
    uint64_t seq;           /* of a user queue: its write pointer */
    uint64_t seq64_va;      /* of a user queue: where the GPU finds its progress, else 0 */
    bool done, failed;
    uint32_t refs;
};

struct card {
    struct kmd_options opt;
    pthread_mutex_t lock, event_lock;
    int pid;                /* of the process that this state belongs to */
    bool up;
    int mem_fd, kfd_fd;
    uint8_t *view[2], *kfd_page; /* of the memory: what of the second is not used has no access */
    uint64_t mem_bytes, vram_used, gtt_bytes, gtt_used, n_bytes_moved;
    struct bo **bos;        /* those in the file, by offset              */
    uint32_t n_bos, cap_bos;
    struct gpuvm *vms;
    uint32_t n_host_maps;   /* mappings of the process's own memory: munmap has to look for them */
    struct cp *cp;
    uint64_t n_calls;       /* ioctls of the program, for --stats */
    uint32_t event_gen;     /* futex: raised by everything that waiters may wait for */
    bool reset_pending;     /* a hang was reported: the next ioctl resets             */
    gva fault_va;           /* of the last page fault, 0: none                        */
    uint32_t fault_status;
};
extern struct card card;

/* Makes the card ready for this process; false: it could not be (a line was written). */
bool card_open(void);
const struct kmd_options *kmd_options(void); /* parsed once */
bool kmd_injected(enum kmd_injection i);
void kmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* "amdsim: ..." on stderr */
void kmd_dmesg(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* what the kernel would log */
/* The rule behind a refusal, with --log; returns err. */
int kmd_why(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct cp *card_cp(void);              /* started when first needed; NULL: no memory       */
void card_wake(void);                  /* event_lock held: someone may want to look again  */
uint64_t card_now_ns(void);            /* CLOCK_MONOTONIC                                  */
/* Sleeps until card.event_gen is no longer `gen`, or until `deadline_ns` (CLOCK_MONOTONIC, ~0: for ever).
 * 0, -ETIME or -EINTR. Without locks. */
int card_sleep(uint32_t gen, uint64_t deadline_ns);

/* move.c */
void card_move_vram(void);             /* without locks, while nothing runs                    */
void bo_first_view(struct bo *bo);

/* shared.c */
bool shared_open(void);                /* false: no memory, or too many processes              */
uint64_t shared_others(bool kfd);      /* what other processes have in VRAM; by KFD's limit    */
void shared_add(int64_t vram, int64_t kfd); /* to this one's                                    */
bool shared_make_room(uint64_t bytes); /* for all that this process will have; false: it did not come */
void shared_runs(void);
bool shared_must_leave(void *user);
void shared_left(void);
void shared_fork_child(void);
uint64_t shared_evictions(void);       /* of all processes                                      */
bool shared_may_return(void);          /* true: and its buffers are back where there is room    */

struct bo *bo_create(enum kmd_domain domain, uint64_t bytes, bool cpu_access, int *err);
void bo_ref(struct bo *bo);
void bo_unref(struct bo *bo);
struct bo *bo_at_offset(uint64_t off); /* exactly there; NULL */
int host_populate(void *addr, uint64_t bytes, bool write); /* -EFAULT when not the process's memory */

struct gpuvm *gpuvm_create(void);
void gpuvm_destroy(struct gpuvm *v);
int gpuvm_map(struct gpuvm *v, const struct mapping *m);
struct mapping *gpuvm_find(struct gpuvm *v, gva va); /* the mapping that holds va, NULL */
/* Removes what lies in the range (mappings are cut at its ends) and waits until the GPU is done with it. */
int gpuvm_unmap(struct gpuvm *v, gva va, uint64_t bytes);

/* ---- calls of the program ---- */

/* The program gives up part of its address space: what the GPU saw there goes, as by the kernel's MMU notifier. */
void card_host_unmapped(void *addr, uint64_t bytes);

/* An ioctl on one of our files: the argument block is copied in and out as the kernel does it. */
int kmd_ioctl(struct file *f, uint32_t request, void *arg);
/* Whether f can be mapped so, and where in the file behind the descriptor it lies: 0 or -errno. */
int kmd_mmap(struct file *f, uint64_t off, uint64_t bytes, int prot, uint64_t *file_off);
/* Copies from and to the program's memory: -EFAULT where there is none. */
int user_read(void *dst, uint64_t from, uint64_t bytes);
int user_write(uint64_t to, const void *src, uint64_t bytes);

/* ---- files ---- */

struct file *file_of(int fd);          /* NULL: not the card's */
struct file *file_live(int fd);        /* the same, and certain that the descriptor still is what it was */
int file_install(int fd, struct file *f);
struct file *file_new(enum file_kind kind);
void file_dup(int from, int to);       /* descriptor `to` is now a copy of `from` (or nothing of ours) */
void file_close(int fd);
void file_fork_child(void);
int file_open_node(enum file_kind kind, int flags); /* a descriptor or -errno */
int file_reopen(int memfd, int flags);

/* ---- paths ---- */

bool sysfs_is_ours(const char *path);  /* a path that the card answers                             */
/* The path in the private tree, in buf; false: pass the original on. */
bool sysfs_path(const char *path, char *buf, uint64_t size);
const char *sysfs_root(void);          /* NULL: could not be made */
/* Whether a file of the tree stands for a device node; and that node's device number. */
bool sysfs_node_of(uint64_t dev, uint64_t ino, enum file_kind *kind);
uint64_t sysfs_rdev(enum file_kind kind);
void sysfs_remove(void);

/* ---- /dev/kfd ---- */

int kfd_ioctl(struct file *f, unsigned nr, unsigned size, void *arg);
int kfd_mmap_offset(uint64_t off, uint64_t bytes, uint64_t *file_off); /* 0 or -errno */
void kfd_fork_child(void);
uint32_t kfd_minor(void);
struct save_area {
    uint32_t cwsr_bytes, ctl_stack_bytes, debug_bytes;
    uint64_t bo_bytes;
};
struct save_area kfd_save_area(void);

/* kfd_memory.c */
int kfd_acquire_vm(void *arg);
int kfd_alloc(void *arg);
int kfd_free(void *arg);
int kfd_map(void *arg);
int kfd_unmap(void *arg);
int kfd_available(void *arg);
int kfd_svm(void *arg, unsigned size);
int kfd_export_dmabuf(void *arg);
int kfd_import_dmabuf(void *arg);
int kfd_dmabuf_info(void *arg);
struct gpuvm *kfd_vm(void);            /* NULL: not acquired */
struct bo *kfd_bo_of(uint64_t handle); /* NULL: unknown      */
bool kfd_is_event_page(uint64_t handle);

/* kfd_queue.c */
int kfd_create_queue(void *arg);
int kfd_destroy_queue(void *arg);
int kfd_update_queue(void *arg);
int kfd_set_cu_mask(void *arg);
int kfd_wave_state(void *arg);
void kfd_range_goes(gva va, uint64_t bytes); /* lock held: evicts queues that live in it */
bool kfd_owns_queue(uint32_t cp_id);         /* else it is one of the driver's own */
void kfd_queues_lost(void);                  /* after a reset */
void kfd_queues_forget(void);                /* in a child    */

/* kfd_event.c */
int kfd_create_event(void *arg);
int kfd_destroy_event(void *arg);
int kfd_set_event(void *arg);
int kfd_reset_event(void *arg);
int kfd_wait_events(void *arg);              /* without card.lock */
void kfd_bells_given(void);   /* a doorbell's offset that the real mmap does not understand */
void kfd_tell_of_bells(void); /* when the program ends */
void kfd_on_interrupt(void *user, uint32_t queue, uint32_t ctxid);
void kfd_on_fault(void *user, const struct cp_fault *f);
void kfd_on_hang(void);                      /* event_lock held */
bool kfd_on_eviction(void *user, bool off);  /* cp_host.evicted */
int kfd_smi_events(void *arg);
void kfd_events_forget(void);

/* ---- /dev/dri ---- */

int drm_ioctl(struct file *f, unsigned nr, unsigned size, void *arg);
struct drm_file *drm_open(void);
void drm_hold(struct drm_file *d);
void drm_release(struct drm_file *d);
struct gpuvm *drm_vm(struct drm_file *d);
void syncobj_unref(struct syncobj *s);
void drm_fork_child(void);
/* Of a user queue: an interrupt (without locks), a fault (event_lock held). False: the queue is no such one. */
bool drm_userq_interrupt(uint32_t cp_id);
bool drm_userq_on_fault(uint32_t cp_id);
void drm_on_fault(void);                     /* event_lock held: submissions that will not end */

#endif
