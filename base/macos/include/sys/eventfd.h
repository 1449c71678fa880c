/* base/macos/include/sys/eventfd.h: see base/macos/macos.h. */
#ifndef ZINC_MACOS_EVENTFD_H
#define ZINC_MACOS_EVENTFD_H

enum { EFD_CLOEXEC = 1, EFD_NONBLOCK = 2 };
int eventfd(unsigned count, int flags);

#endif
