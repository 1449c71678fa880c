/* Which file descriptors are the card's. Descriptors are real ones, of the files in memory that hold the card's
 * memory and its doorbells, so that mmap, poll, dup and exec work as ever; here is what they stand for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

enum { MAX_FDS = 1 << 16 };

static struct file *files[MAX_FDS]; /* changed under files_lock; read without */
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

struct file *file_of(int fd)
{
    return fd >= 0 && fd < MAX_FDS ? __atomic_load_n(&files[fd], __ATOMIC_ACQUIRE) : NULL;
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return syscall(SYS_fstat, fd, &st) == 0 ? st.st_ino : 0;
}

struct file *file_live(int fd)
{
    struct file *f = file_of(fd);
    if (f && inode_of(fd) != f->ino) { /* closed by a way that interpose.c does not see, and opened anew */
        file_close(fd);
        f = NULL;
    }
    return f;
}

struct file *file_new(enum file_kind kind)
{
    struct file *f = calloc(1, sizeof *f);
    if (f)
        f->kind = kind;
    return f;
}

static void destroy(struct file *f)
{
    if (!f->foreign) {
        pthread_mutex_lock(&card.lock);
        if (f->drm)
            drm_release(f->drm);
        bo_unref(f->bo);
        if (f->syncobj)
            syncobj_unref(f->syncobj);
        pthread_mutex_unlock(&card.lock);
    }
    free(f);
}

/* Puts f (or nothing) into the table; what was there loses a reference. A child of vfork shares this table with its
 * parent and must leave it alone. */
static int put(int fd, struct file *f)
{
    if (fd < 0 || fd >= MAX_FDS)
        return f ? -EMFILE : 0;
    if (!f && !files[fd])
        return 0;
    if (card.pid && card.pid != (int)syscall(SYS_getpid))
        return 0;
    pthread_mutex_lock(&files_lock);
    struct file *old = files[fd];
    if (f)
        f->refs++;
    __atomic_store_n(&files[fd], f, __ATOMIC_RELEASE);
    bool last = old && --old->refs == 0;
    pthread_mutex_unlock(&files_lock);
    if (last)
        destroy(old);
    return 0;
}

int file_install(int fd, struct file *f)
{
    f->ino = inode_of(fd);
    return put(fd, f);
}

void file_dup(int from, int to)
{
    put(to, file_of(from));
}

void file_close(int fd)
{
    put(fd, NULL);
}

void file_fork_child(void)
{
    pthread_mutex_init(&files_lock, NULL);
    for (int i = 0; i < MAX_FDS; i++)
        if (files[i])
            files[i]->foreign = true;
}

/* A new open file description of one of the card's files in memory. */
int file_reopen(int memfd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memfd);
    long fd = syscall(SYS_openat, AT_FDCWD, path, (flags & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK)), 0);
    return fd < 0 ? -errno : (int)fd;
}

int file_open_node(enum file_kind kind, int flags)
{
    if (kmd_injected(KMD_INJECT_EACCES))
        return kmd_why(-EACCES, "open of the card's node: --inject eacces");
    if (kind == FILE_KFD && kmd_injected(KMD_INJECT_NO_KFD))
        return kmd_why(-ENOENT, "open of /dev/kfd: --inject no-kfd");
    if (!card_open())
        return -ENOMEM;
    struct file *f = file_new(kind);
    if (f && kind != FILE_KFD && !(f->drm = drm_open())) {
        free(f);
        f = NULL;
    }
    int fd = f ? file_reopen(kind == FILE_KFD ? card.kfd_fd : card.mem_fd, flags) : -ENOMEM;
    int rc = fd < 0 ? fd : file_install(fd, f);
    if (rc < 0 && f)
        destroy(f);
    if (rc < 0 && fd >= 0)
        syscall(SYS_close, fd);
    return rc < 0 ? rc : fd;
}
