/* libc's functions, seen from the program: those that name a file of the card or a descriptor of it are answered by
 * the model, all others go on to libc. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

#define EXPORT __attribute__((visibility("default")))
/* The next definition of a function, behind this library. */
#define NEXT(name) ({ static void *next_; (__typeof__(&name))next_of(&next_, #name); })
enum { PATH_BYTES = 4096 };

static void *next_of(void **cache, const char *name)
{
    void *p = __atomic_load_n(cache, __ATOMIC_ACQUIRE);
    if (!p) {
        p = dlsym(RTLD_NEXT, name);
        __atomic_store_n(cache, p, __ATOMIC_RELEASE);
    }
    return p;
}

static int fail(int rc)
{
    errno = -rc;
    return -1;
}

/* ---- opening ---- */

/* A descriptor that led to a file standing for a device node becomes one of that node. */
static int node_instead(int fd, int flags)
{
    struct stat st;
    enum file_kind kind;
    if (fd < 0 || NEXT(fstat)(fd, &st) != 0 || !sysfs_node_of(st.st_dev, st.st_ino, &kind))
        return fd;
    NEXT(close)(fd);
    int rc = file_open_node(kind, flags);
    return rc < 0 ? fail(rc) : rc;
}

static bool may_be_node(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *base = slash ? slash + 1 : path;
    return base && (strncmp(base, "renderD", 7) == 0 || strncmp(base, "card", 4) == 0 || strcmp(base, "kfd") == 0 ||
                    strncmp(base, "pci-", 4) == 0);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char buf[PATH_BYTES];
    bool ours = sysfs_path(path, buf, sizeof buf);
    int fd = NEXT(openat)(dir, ours ? buf : path, flags, mode);
    if (fd >= 0)
        file_close(fd); /* a number that was closed behind our back */
    return (ours || may_be_node(path)) && !(flags & O_PATH) ? node_instead(fd, flags) : fd;
}

static mode_t mode_arg(int flags, va_list ap)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

#define OPEN_BODY(dir)                                                                                                 \
    va_list ap;                                                                                                        \
    va_start(ap, flags);                                                                                               \
    mode_t mode = mode_arg(flags, ap);                                                                                 \
    va_end(ap);                                                                                                        \
    return open_at(dir, path, flags, mode)

EXPORT int open(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
EXPORT int open64(const char *path, int flags, ...) { OPEN_BODY(AT_FDCWD); }
EXPORT int openat(int dir, const char *path, int flags, ...) { OPEN_BODY(dir); }
EXPORT int openat64(int dir, const char *path, int flags, ...) { OPEN_BODY(dir); }

/* What a fortified program calls instead. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
EXPORT int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __openat_2(int dir, const char *path, int flags) { return open_at(dir, path, flags, 0); }
EXPORT int __openat64_2(int dir, const char *path, int flags) { return open_at(dir, path, flags, 0); }

/* fopen of a device node is not a thing that clients do: it opens the empty file that stands for it. */
EXPORT FILE *fopen(const char *path, const char *mode)
{
    char buf[PATH_BYTES];
    return NEXT(fopen)(sysfs_path(path, buf, sizeof buf) ? buf : path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    char buf[PATH_BYTES];
    return NEXT(fopen64)(sysfs_path(path, buf, sizeof buf) ? buf : path, mode);
}

EXPORT DIR *opendir(const char *path)
{
    char buf[PATH_BYTES];
    return NEXT(opendir)(sysfs_path(path, buf, sizeof buf) ? buf : path);
}

EXPORT int scandir(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                   int (*order)(const struct dirent **, const struct dirent **))
{
    char buf[PATH_BYTES];
    return NEXT(scandir)(sysfs_path(path, buf, sizeof buf) ? buf : path, list, filter, order);
}

EXPORT int scandir64(const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
                     int (*order)(const struct dirent64 **, const struct dirent64 **))
{
    char buf[PATH_BYTES];
    return NEXT(scandir64)(sysfs_path(path, buf, sizeof buf) ? buf : path, list, filter, order);
}

/* ---- descriptors ---- */

EXPORT int close(int fd)
{
    if (file_of(fd))
        file_close(fd);
    return NEXT(close)(fd);
}

EXPORT int dup(int fd)
{
    int to = NEXT(dup)(fd);
    if (to >= 0)
        file_dup(fd, to);
    return to;
}

EXPORT int dup2(int fd, int to)
{
    int rc = NEXT(dup2)(fd, to);
    if (rc >= 0 && fd != to)
        file_dup(fd, to);
    return rc;
}

EXPORT int dup3(int fd, int to, int flags)
{
    int rc = NEXT(dup3)(fd, to, flags);
    if (rc >= 0)
        file_dup(fd, to);
    return rc;
}

static int fcntl_body(int fd, int cmd, void *arg)
{
    int rc = NEXT(fcntl64)(fd, cmd, arg);
    if (rc >= 0 && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))
        file_dup(fd, rc);
    return rc;
}

#define FCNTL_BODY()                                                                                                   \
    va_list ap;                                                                                                        \
    va_start(ap, cmd);                                                                                                 \
    void *arg = va_arg(ap, void *);                                                                                    \
    va_end(ap);                                                                                                        \
    return fcntl_body(fd, cmd, arg)

EXPORT int fcntl(int fd, int cmd, ...) { FCNTL_BODY(); }
EXPORT int fcntl64(int fd, int cmd, ...) { FCNTL_BODY(); }

static off_t seek(int fd, off_t off, int whence)
{
    struct file *f = file_live(fd);
    if (f && f->kind == FILE_DMABUF && whence == SEEK_END && off == 0)
        return (off_t)f->bo->bytes; /* how the size of a dma-buf is asked for */
    return NEXT(lseek64)(fd, off, whence);
}

EXPORT off_t lseek(int fd, off_t off, int whence) { return seek(fd, off, whence); }
EXPORT off64_t lseek64(int fd, off64_t off, int whence) { return seek(fd, off, whence); }

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    struct file *f = file_live(fd);
    unsigned type = _IOC_TYPE(request);
    if (!f || (type != 'K' && type != 'd'))
        return NEXT(ioctl)(fd, request, arg);
    int rc = kmd_ioctl(f, (uint32_t)request, arg);
    return rc < 0 ? fail(rc) : rc;
}

/* ---- memory ---- */

static void *map_body(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
    struct file *f = flags & MAP_ANONYMOUS ? NULL : file_live(fd);
    if (f) {
        uint64_t file_off = 0;
        int rc = kmd_mmap(f, (uint64_t)off, bytes, prot, &file_off);
        if (rc < 0) {
            errno = -rc;
            return MAP_FAILED;
        }
        off = (off_t)file_off;
    }
    if (flags & MAP_FIXED)
        card_host_unmapped(at, bytes);
    return NEXT(mmap64)(at, bytes, prot, flags, fd, off);
}

EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
    return map_body(at, bytes, prot, flags, fd, off);
}

EXPORT void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off64_t off)
{
    return map_body(at, bytes, prot, flags, fd, off);
}

EXPORT int munmap(void *at, size_t bytes)
{
    card_host_unmapped(at, bytes);
    return NEXT(munmap)(at, bytes);
}

/* ---- names and attributes ---- */

static void node_attributes(struct stat *st, enum file_kind kind)
{
    st->st_mode = S_IFCHR | 0660;
    st->st_rdev = sysfs_rdev(kind);
    st->st_size = 0;
    st->st_blocks = 0;
}

/* struct stat and stat64 are the same here, and so are all versions of the old entry points. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "stat");

static bool is_empty(const char *path)
{
    return path && !*path;
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
    char buf[PATH_BYTES];
    enum file_kind kind;
    int rc = NEXT(fstatat)(dir, sysfs_path(path, buf, sizeof buf) ? buf : path, st, flags);
    if (rc == 0 && sysfs_node_of(st->st_dev, st->st_ino, &kind))
        node_attributes(st, kind);
    return rc;
}

static int stat_fd(int fd, struct stat *st)
{
    struct file *f = file_live(fd);
    int rc = NEXT(fstat)(fd, st);
    if (rc == 0 && f && f->kind <= FILE_CARD)
        node_attributes(st, f->kind);
    return rc;
}

EXPORT int stat(const char *path, struct stat *st) { return stat_at(AT_FDCWD, path, st, 0); }
EXPORT int stat64(const char *path, struct stat64 *st) { return stat_at(AT_FDCWD, path, (struct stat *)st, 0); }
EXPORT int lstat(const char *path, struct stat *st) { return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW); }
EXPORT int lstat64(const char *path, struct stat64 *st)
{
    return stat_at(AT_FDCWD, path, (struct stat *)st, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fstat(int fd, struct stat *st) { return stat_fd(fd, st); }
EXPORT int fstat64(int fd, struct stat64 *st) { return stat_fd(fd, (struct stat *)st); }
EXPORT int fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return is_empty(path) && (flags & AT_EMPTY_PATH) ? stat_fd(dir, st) : stat_at(dir, path, st, flags);
}
EXPORT int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
    return fstatat(dir, path, (struct stat *)st, flags);
}

/* Entry points of programs linked against a glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
EXPORT int __xstat(int version, const char *path, struct stat *st) { return stat(path, st); }
EXPORT int __xstat64(int version, const char *path, struct stat64 *st) { return stat64(path, st); }
EXPORT int __lxstat(int version, const char *path, struct stat *st) { return lstat(path, st); }
EXPORT int __lxstat64(int version, const char *path, struct stat64 *st) { return lstat64(path, st); }
EXPORT int __fxstat(int version, int fd, struct stat *st) { return fstat(fd, st); }
EXPORT int __fxstat64(int version, int fd, struct stat64 *st) { return fstat64(fd, st); }

EXPORT int statx(int dir, const char *path, int flags, unsigned mask, struct statx *st)
{
    char buf[PATH_BYTES];
    enum file_kind kind;
    struct file *f = is_empty(path) ? file_live(dir) : NULL;
    int rc = NEXT(statx)(dir, sysfs_path(path, buf, sizeof buf) ? buf : path, flags, mask, st);
    bool node = rc == 0 && sysfs_node_of(makedev(st->stx_dev_major, st->stx_dev_minor), st->stx_ino, &kind);
    if (rc == 0 && f && f->kind <= FILE_CARD) {
        node = true;
        kind = f->kind;
    }
    if (node) {
        st->stx_mode = S_IFCHR | 0660;
        st->stx_rdev_major = major(sysfs_rdev(kind));
        st->stx_rdev_minor = minor(sysfs_rdev(kind));
        st->stx_size = st->stx_blocks = 0;
    }
    return rc;
}

static int access_at(int dir, const char *path, int mode, int flags)
{
    char buf[PATH_BYTES];
    if (!sysfs_path(path, buf, sizeof buf))
        return NEXT(faccessat)(dir, path, mode, flags);
    struct stat st;
    enum file_kind kind;
    if (mode != F_OK && kmd_injected(KMD_INJECT_EACCES) && NEXT(fstatat)(dir, buf, &st, 0) == 0 &&
        sysfs_node_of(st.st_dev, st.st_ino, &kind))
        return fail(-EACCES);
    return NEXT(faccessat)(dir, buf, mode, flags);
}

EXPORT int access(const char *path, int mode) { return access_at(AT_FDCWD, path, mode, 0); }
EXPORT int faccessat(int dir, const char *path, int mode, int flags) { return access_at(dir, path, mode, flags); }
EXPORT int eaccess(const char *path, int mode) { return access_at(AT_FDCWD, path, mode, AT_EACCESS); }
EXPORT int euidaccess(const char *path, int mode) { return access_at(AT_FDCWD, path, mode, AT_EACCESS); }

EXPORT ssize_t readlink(const char *path, char *out, size_t size)
{
    char buf[PATH_BYTES];
    return NEXT(readlink)(sysfs_path(path, buf, sizeof buf) ? buf : path, out, size);
}

EXPORT ssize_t readlinkat(int dir, const char *path, char *out, size_t size)
{
    char buf[PATH_BYTES];
    return NEXT(readlinkat)(dir, sysfs_path(path, buf, sizeof buf) ? buf : path, out, size);
}

ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
EXPORT ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room)
{
    return readlink(path, out, size < room ? size : room);
}

/* ls asks for access control lists. */
EXPORT ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
    char buf[PATH_BYTES];
    return NEXT(getxattr)(sysfs_path(path, buf, sizeof buf) ? buf : path, name, value, size);
}

EXPORT ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
    char buf[PATH_BYTES];
    return NEXT(lgetxattr)(sysfs_path(path, buf, sizeof buf) ? buf : path, name, value, size);
}

/* The tree's own place must not show. */
EXPORT char *realpath(const char *path, char *out)
{
    char buf[PATH_BYTES];
    if (!sysfs_path(path, buf, sizeof buf))
        return NEXT(realpath)(path, out);
    char *full = NEXT(realpath)(buf, NULL), *root = NEXT(realpath)(sysfs_root(), NULL);
    size_t n = root ? strlen(root) : 0;
    char *result = NULL;
    if (full && root) {
        const char *rest = strncmp(full, root, n) == 0 ? full + n : full;
        result = out ? strcpy(out, *rest ? rest : "/") : strdup(*rest ? rest : "/");
    }
    int saved = errno;
    free(full);
    free(root);
    errno = saved;
    return result;
}

char *__realpath_chk(const char *path, char *out, size_t room);
EXPORT char *__realpath_chk(const char *path, char *out, size_t room) { return realpath(path, out); }
EXPORT char *canonicalize_file_name(const char *path) { return realpath(path, NULL); }
