/* base/macos/include/sys/prctl.h: see base/macos/macos.h. */
#ifndef ZINC_MACOS_PRCTL_H
#define ZINC_MACOS_PRCTL_H
#include <errno.h>

enum { PR_SET_PDEATHSIG = 1 };
static inline int prctl(int what, unsigned long value)
{
    (void)what, (void)value;
    errno = ENOSYS;
    return -1;
}

#endif
