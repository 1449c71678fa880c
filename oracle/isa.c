#include "oracle/isa.h"

#include <pthread.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* XCR0: which register files the system saves (Intel SDM vol. 1, 13.3). */
static uint32_t xcr0(void)
{
    uint32_t a, d;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}

#ifdef __linux__
/* Tile data is an extended state that a process asks for (Linux Documentation/arch/x86/xstate.rst). */
static bool amx_permission(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#else
static bool amx_permission(void)
{
    return false;
}
#endif

static void detect(struct isa *s)
{
    enum { YMM = 6, ZMM = 0xe6, TILES = 0x60000 };
    uint32_t a, b, c, d, b7, c7, d7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return;
    bool fma = c & bit_FMA, f16c = c & bit_F16C;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7))
        return;
    uint32_t os = xcr0();
    s->avx2 = (os & YMM) == YMM && (b7 & bit_AVX2) && fma && f16c;
    enum { AVX_VNNI = 1 << 4 }; /* leaf 7, subleaf 1, EAX */
    uint32_t a1, b1, c1, d1;
    s->avxvnni = s->avx2 && a >= 1 && __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) && (a1 & AVX_VNNI);
    uint32_t want = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    s->avx512 = s->avx2 && (os & ZMM) == ZMM && (b7 & want) == want && (c7 & bit_AVX512VNNI);
    s->vbmi = s->avx512 && (c7 & bit_AVX512VBMI) && (c7 & bit_GFNI);
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 }; /* leaf 7, EDX */
    uint32_t tiles = AMX_BF16 | AMX_TILE | AMX_INT8;
    s->amx = s->vbmi && (os & TILES) == TILES && (d7 & tiles) == tiles && amx_permission();
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <stddef.h>
#include <sys/sysctl.h>

/* Apple, "Determining instruction set characteristics". */
static void detect(struct isa *s)
{
    int on = 0;
    size_t n = sizeof on;
    s->dotprod = sysctlbyname("hw.optional.arm.FEAT_DotProd", &on, &n, NULL, 0) == 0 && on;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Linux Documentation/arch/arm64/elf_hwcaps.rst. */
static void detect(struct isa *s)
{
    enum { ASIMDDP = 1 << 20 };
    s->dotprod = getauxval(AT_HWCAP) & ASIMDDP;
}
#else
static void detect(struct isa *s)
{
    (void)s;
}
#endif

static struct isa found;

static void detect_once(void)
{
    detect(&found);
}

const struct isa *isa_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect_once);
    return &found;
}
