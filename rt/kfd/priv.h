/* rt/kfd/priv.h: private to rt/kfd/: what its files share beside kfd.h. */
#ifndef ZINC_RT_KFD_PRIV_H
#define ZINC_RT_KFD_PRIV_H

#include "rt/kfd/ioctl.h"
#include "rt/kfd/kfd.h"

/* Event data with an age (kfd_event_data), the interface of Linux 6.5: the list of versions in its uapi/linux/kfd_ioctl.h. */
enum { KFD_NEED_MAJOR = 1, KFD_NEED_MINOR = 14 };

/* A request on /dev/kfd. 0 or a negative errno; -EPERM at once in a child of fork. */
int kfd_call(struct kfd_dev *d, unsigned long request, void *arg);
/* e gets "kfd: <what>: <errno's words>"; returns rc. */
__attribute__((format(printf, 3, 4))) int kfd_fail(int rc, struct err *e, const char *fmt, ...);

/* Exactly these flags and whole pages, at addresses of the host's; device.c and queue.c want odd ones. */
int kfd_mem_make(struct kfd_dev *d, enum kfd_mem_kind kind, uint64_t bytes, uint32_t flags, const char *name,
                 struct kfd_mem **out, struct err *e);

#endif
