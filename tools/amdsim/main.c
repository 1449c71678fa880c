/* amdsim: runs a program that sees an AMD card. It sets the environment and hands over; everything else is in
 * libamdsim.so, which the dynamic loader loads first into the program. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/amdsim/chip.h"
#include "tools/amdsim/kmd/kmd.h"

static const char help[] =
    "usage: amdsim [options] COMMAND [ARGUMENT...]\n"
    "\n"
    "Runs COMMAND with an AMD card that is software: /dev/kfd, /dev/dri/renderD128 and their sysfs answer as the\n"
    "amdgpu driver does, queues execute PM4, AQL and SDMA packets, and kernels run as the machine code they are.\n"
    "\n"
    "  amdsim --gpu gfx1100 zinc ladder --tier=kfd\n"
    "  amdsim --strict --trace packets.txt ./my_program\n"
    "\n"
    "The card\n"
    "  --gpu NAME           gfx1201 (default), gfx1100, ...; --list shows them\n"
    "  --vram N             bytes of VRAM, with K, M or G; only what is written takes real memory\n"
    "  --small-bar          the host sees 256 MiB of it: PUBLIC allocations are refused\n"
    "  --kernel-version V   of the modelled driver (6.18): interface version, rules of CREATE_QUEUE, save area\n"
    "  --plain-offsets      for programs whose calls of mmap cannot be seen (ctypes, syscall) and whose doorbell's is\n"
    "                       refused with EOVERFLOW: hands out offsets that the real mmap takes\n"
    "  --user-queues WHAT   of the render node: on (default), off as without amdgpu.user_queue, only: no CS on compute\n"
    "  --firmware LIST      versions, as me=2390,pfp=2530,mec=2600,mes=120: too old, and there are no user queues\n"
    "  --lenient            take any context save area (libhsakmt before 2025 does not know gfx12's)\n"
    "\n"
    "Execution\n"
    "  --strict             find what hardware would punish: races, stale caches, unwritten memory, missing waits\n"
    "  --skip-execution     dispatches complete without running: to measure the host's side alone\n"
    "  --threads N          that execute work-groups (default: one per core)\n"
    "  --hang-insts N       instructions after which a wave counts as hung (default: no limit)\n"
    "  --deadlock-ms N      a dispatch whose work-groups all sleep for so long is a deadlock (default: 2000; 0: never)\n"
    "  --lockup-ms N        what the driver gives a submission to the render node (default: no limit)\n"
    "  --preempt N          a work-group leaves the card every N instructions: its waves go to the queue's context save\n"
    "                       area and come back from there\n"
    "  --reset N            once, after N dispatches, the card is reset\n"
    "  --evict N            after every N dispatches the queues are off the card for 100 ms, as when another process\n"
    "                       needs its memory\n"
    "\n"
    "Looking in\n"
    "  --trace FILE         a line per packet and dispatch\n"
    "  --log                why a call was refused, where the kernel would be silent\n"
    "  --stats              at the end: packets, dispatches, waves, instructions and their rate, calls of the driver\n"
    "\n"
    "Trouble: --inject WHAT[,WHAT...]\n"
    "  no-kfd               the driver is not loaded            eacces            not in the group render\n"
    "  old-kernel           KFD interface 1.5                   unsupported-chip  the card is a gfx1030\n"
    "  vm-busy              ACQUIRE_VM: EBUSY                   queue-enomem      CREATE_QUEUE: ENOMEM\n"
    "  sdma-enomem          the same, SDMA queues               vram-enomem       VRAM: ENOMEM\n"
    "  event-enospc         CREATE_EVENT: ENOSPC                hang              queues never fetch\n"
    "  no-kernel-queues     amdgpu.user_queue=2: no rings for CS\n"
    "  no-cwsr-keys         properties without save-area sizes  eintr             WAIT_EVENTS is interrupted\n"
    "  cwsr-off             amdgpu.cwsr_enable=0: --preempt is without effect\n"
    "  no-interrupts        those that packets of queues ask for are lost\n"
    "  second-process       the driver lists another process of /dev/kfd\n"
    "\n"
    "Each option is also an environment variable (AMDSIM_GPU, AMDSIM_VRAM, ...; 1 switches on) for a program\n"
    "started with LD_PRELOAD=libamdsim.so alone. A program built with ASan needs\n"
    "ASAN_OPTIONS=verify_asan_link_order=0.\n";

static const struct option_def {
    const char *name, *env;
    bool has_value;
} options[] = {
    { "--gpu", "AMDSIM_GPU", true },
    { "--vram", "AMDSIM_VRAM", true },
    { "--trace", "AMDSIM_TRACE", true },
    { "--threads", "AMDSIM_THREADS", true },
    { "--hang-insts", "AMDSIM_HANG_INSTS", true },
    { "--deadlock-ms", "AMDSIM_DEADLOCK_MS", true },
    { "--lockup-ms", "AMDSIM_LOCKUP_MS", true },
    { "--preempt", "AMDSIM_PREEMPT", true },
    { "--evict", "AMDSIM_EVICT", true },
    { "--reset", "AMDSIM_RESET", true },
    { "--kernel-version", "AMDSIM_KERNEL", true },
    { "--inject", "AMDSIM_INJECT", true },
    { "--user-queues", "AMDSIM_USER_QUEUES", true },
    { "--firmware", "AMDSIM_FIRMWARE", true },
    { "--strict", "AMDSIM_STRICT", false },
    { "--skip-execution", "AMDSIM_SKIP_EXECUTION", false },
    { "--small-bar", "AMDSIM_SMALL_BAR", false },
    { "--lenient", "AMDSIM_LENIENT", false },
    { "--plain-offsets", "AMDSIM_PLAIN_OFFSETS", false },
    { "--log", "AMDSIM_LOG", false },
    { "--stats", "AMDSIM_STATS", false },
};

static int list(void)
{
    for (const struct chip *c = chips; c->name; c++)
        printf("%s  %-30s %3u CUs  %5.1f GiB %3u bit  %s\n", c->name, c->product, c->n_cu,
               (double)c->vram_bytes / (1 << 30), c->vram_width,
               c->gfx12 ? "RDNA4" : c->salu_float ? "RDNA3.5" : "RDNA3");
    return 0;
}

static int usage(const char *what, const char *arg)
{
    fprintf(stderr, "amdsim: %s%s%s; amdsim --help shows the options\n", what, arg ? " " : "", arg ? arg : "");
    return 2;
}

/* The value of an option: "--gpu X" or "--gpu=X"; takes it from the list. NULL: not this option, or none given. */
static const char *value_of(const struct option_def *o, int argc, char **argv, int *i)
{
    size_t n = strlen(o->name);
    if (strncmp(argv[*i], o->name, n) != 0 || (argv[*i][n] && argv[*i][n] != '='))
        return NULL;
    if (!o->has_value)
        return argv[*i][n] ? NULL : "1";
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return *i + 1 < argc ? argv[++*i] : NULL;
}

/* The first word of AMDSIM_INJECT that the list above does not have; NULL: it has all. The result is in a static buffer. */
static const char *unknown_fault(void)
{
    static char list[256];
    static const char *const names[] = {
#define X(id, name) name,
        KMD_INJECTIONS(X)
#undef X
    };
    const char *v = getenv("AMDSIM_INJECT");
    snprintf(list, sizeof list, "%s", v ? v : "");
    for (char *save = NULL, *t = strtok_r(list, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        size_t i = 0;
        while (i < sizeof names / sizeof names[0] && strcmp(t, names[i]) != 0)
            i++;
        if (i == sizeof names / sizeof names[0])
            return t;
    }
    return NULL;
}

static int preload(void)
{
    char self[PATH_MAX], lib[PATH_MAX + 40], all[2 * PATH_MAX + 80];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return usage("its own place is not known: /proc is not mounted", NULL);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(lib, sizeof lib, "%s/libamdsim.so", self);
    if (access(lib, R_OK) != 0) /* installed: bin/amdsim and lib/zinc/libamdsim.so */
        snprintf(lib, sizeof lib, "%s/../lib/zinc/libamdsim.so", self);
    if (access(lib, R_OK) != 0)
        return usage("not there:", lib);
    const char *before = getenv("LD_PRELOAD");
    snprintf(all, sizeof all, "%s%s%s", lib, before && *before ? ":" : "", before ? before : "");
    return setenv("LD_PRELOAD", all, 1);
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return fputs(help, stdout) < 0;
        if (strcmp(argv[i], "--list") == 0)
            return list();
        const char *arg = argv[i], *value = NULL;
        for (size_t k = 0; k < sizeof options / sizeof options[0] && !value; k++)
            if ((value = value_of(&options[k], argc, argv, &i)))
                setenv(options[k].env, value, 1);
        if (!value)
            return usage("unknown option, or one without its value:", arg);
    }
    const char *fault = unknown_fault();
    if (fault)
        return usage("there is nothing to inject that is called", fault);
    const char *gpu = getenv("AMDSIM_GPU");
    if (gpu && *gpu && !chip_find(gpu))
        return usage("expected one of the cards that amdsim --list shows, not", gpu);
    if (i == argc)
        return usage("no command to run", NULL);
    int rc = preload();
    if (rc != 0)
        return rc;
    execvp(argv[i], argv + i);
    fprintf(stderr, "amdsim: %s: %s\n", argv[i], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
