#include "base/mapped.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, TAKEN = 1 };

static struct {
    _Atomic uintptr_t at; /* 0: free, TAKEN: being filled */
    uint64_t bytes;
    const char *path;
} all[MOST];
static const char *program;

void mapped_add(const void *map, uint64_t bytes, const char *path)
{
    for (int i = 0; i < MOST; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&all[i].at, &none, TAKEN))
            continue;
        all[i].bytes = bytes;
        all[i].path = path;
        atomic_store(&all[i].at, (uintptr_t)map);
        return;
    }
}

void mapped_remove(const void *map)
{
    for (int i = 0; i < MOST; i++) {
        uintptr_t it = (uintptr_t)map;
        if (atomic_compare_exchange_strong(&all[i].at, &it, 0))
            return;
    }
}

static void put(const char *s)
{
    ssize_t n = write(STDERR_FILENO, s, strlen(s));
    (void)n;
}

/* Only what signal-safety(7) allows. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    for (int i = 0; i < MOST; i++) {
        uintptr_t from = atomic_load(&all[i].at);
        if (from <= TAKEN || at < from || at - from >= all[i].bytes)
            continue;
        put(program);
        put(": ");
        put(all[i].path);
        put(": became shorter while it was read, or cannot be read (was another file written over it? start again)\n");
        _exit(1);
    }
    signal(sig, SIG_DFL); /* it comes again, and is somebody else's */
}

void mapped_tell(const char *name)
{
    struct sigaction sa = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    program = name;
    sigaction(SIGBUS, &sa, NULL);
}
