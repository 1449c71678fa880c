/* rt/kfd/sys.h
 * Every system call that rt/kfd makes goes through one table, so that a test can answer in the kernel's place, make
 * any call fail, and count.
 *
 *     struct kfd_sys fake = *kfd_sys_real();
 *     fake.ioctl = my_ioctl;                    the rest stays real
 *     kfd_sys_use(&fake);                       for devices opened from now on
 *     ... n = kfd_sys_calls(&fake);             calls so far
 *
 * Entries return 0 (or what they say) or a negative errno and are called through the functions below, which count and
 * repeat what a signal interrupted. `clock` and memory that is already mapped are no system calls. */
#ifndef ZINC_RT_KFD_SYS_H
#define ZINC_RT_KFD_SYS_H

#include <stdbool.h>
#include <stdint.h>

#define KFD_SYS_LIST(X)                                                                                                \
    X(open) X(close) X(ioctl) X(map) X(unmap) X(dontfork) X(read) X(list) X(sleep) X(fd_own) X(fd_read) X(fd_write)

enum kfd_sys_call {
#define X(name) KFD_SYS_##name,
    KFD_SYS_LIST(X)
#undef X
    KFD_SYS_COUNT
};

struct kfd_sys {
    void *user;
    int (*open)(struct kfd_sys *s, const char *path);                           /* read and write; the fd          */
    int (*close)(struct kfd_sys *s, int fd);
    int (*ioctl)(struct kfd_sys *s, int fd, unsigned long request, void *arg);
    /* at NULL: anywhere; else exactly there (MAP_FIXED). fd -1: reserved addresses without access. */
    int (*map)(struct kfd_sys *s, void *at, uint64_t bytes, int fd, uint64_t off, void **out);
    int (*unmap)(struct kfd_sys *s, void *p, uint64_t bytes);
    int (*dontfork)(struct kfd_sys *s, void *p, uint64_t bytes);                /* children do not get the mapping */
    int (*read)(struct kfd_sys *s, const char *path, char *buf, uint32_t n);    /* a small file whole, as a string  */
    /* Entries of a folder that are numbers, sorted; how many. */
    int (*list)(struct kfd_sys *s, const char *path, uint32_t *out, uint32_t cap);
    void (*sleep)(struct kfd_sys *s, uint64_t ns);
    int (*fd_own)(struct kfd_sys *s, int fd);                                   /* not for exec; never waits       */
    int (*fd_read)(struct kfd_sys *s, int fd, void *buf, uint32_t n);           /* how many bytes                  */
    int (*fd_write)(struct kfd_sys *s, int fd, const void *buf, uint32_t n);
    uint64_t (*clock)(struct kfd_sys *s);                                       /* monotonic ns                    */
    uint64_t calls[KFD_SYS_COUNT];
};

const struct kfd_sys *kfd_sys_real(void);
void kfd_sys_use(struct kfd_sys *s);   /* NULL: the real one again */
struct kfd_sys *kfd_sys_current(void);
uint64_t kfd_sys_calls(const struct kfd_sys *s); /* of every kind */

int kfd_sys_open(struct kfd_sys *s, const char *path);
int kfd_sys_close(struct kfd_sys *s, int fd);
/* Again while a signal interrupts; EAGAIN (the driver is busy with a reset) is tried for a second. */
int kfd_sys_ioctl(struct kfd_sys *s, int fd, unsigned long request, void *arg);
int kfd_sys_map(struct kfd_sys *s, void *at, uint64_t bytes, int fd, uint64_t off, void **out);
int kfd_sys_unmap(struct kfd_sys *s, void *p, uint64_t bytes);
int kfd_sys_dontfork(struct kfd_sys *s, void *p, uint64_t bytes);
int kfd_sys_read(struct kfd_sys *s, const char *path, char *buf, uint32_t n);
int kfd_sys_list(struct kfd_sys *s, const char *path, uint32_t *out, uint32_t cap);
void kfd_sys_sleep(struct kfd_sys *s, uint64_t ns);
int kfd_sys_fd_own(struct kfd_sys *s, int fd);
int kfd_sys_fd_read(struct kfd_sys *s, int fd, void *buf, uint32_t n);
int kfd_sys_fd_write(struct kfd_sys *s, int fd, const void *buf, uint32_t n);

#endif
