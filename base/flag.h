/*
 * A flag that a signal sets and others poll. Its handler runs on whichever thread the kernel picks, not always the one
 * that polls, and a bare `volatile sig_atomic_t` is then a data race (C17 5.1.2.4).
 */
#ifndef ZINC_BASE_FLAG_H
#define ZINC_BASE_FLAG_H

#include <stdbool.h>

struct flag {
    int on; /* by the two below alone */
};

/* Any thread, and signal handlers. Orders nothing else. */
static inline void flag_set(struct flag *f, bool on)
{
    __atomic_store_n(&f->on, on, __ATOMIC_RELAXED);
}

/* f may be NULL, which is never set. */
static inline bool flag_is_set(const struct flag *f)
{
    return f && __atomic_load_n(&f->on, __ATOMIC_RELAXED);
}

#endif
