/* What the cases of isa_fold.def are written with; compiled for the host and, as text, for the device. */
#ifndef AMDSIM_TESTS_ISA_FOLD_PRELUDE_H
#define AMDSIM_TESTS_ISA_FOLD_PRELUDE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
__extension__ typedef unsigned __int128 u128;
typedef _Float16 half;
typedef u16 v2u __attribute__((vector_size(4)));
typedef s16 v2s __attribute__((vector_size(4)));
typedef half v2h __attribute__((vector_size(4)));
typedef u32 v4u __attribute__((vector_size(16)));
/* What a thread of a case gets. */
struct in {
    u32 a, b, c;
    float f, g, h;
    u64 A, B;
    double d, e;
};
#define ARGS(from)                                                                                                   \
    u32 a = from.a, b = from.b, c = from.c;                                                                          \
    float f = from.f, g = from.g, h = from.h;                                                                        \
    u64 A = from.A, B = from.B;                                                                                      \
    double d = from.d, e = from.e;                                                                                   \
    (void)a, (void)b, (void)c, (void)f, (void)g, (void)h, (void)A, (void)B, (void)d, (void)e

/* Words and values; what leaves as a word leaves with one NaN. */
union fu {
    float f;
    u32 u;
};

union du {
    double d;
    u64 u;
};

union hu {
    half h;
    u16 u;
};

union vh {
    u32 u;
    v2h v;
};

union vu {
    u32 u;
    v2u v;
    v2s s;
};

static inline u32 bits(float x)
{
    union fu v = { x };
    return x != x ? 0x7fc00000u : v.u;
}

static inline u64 dbits(double x)
{
    union du v = { x };
    return x != x ? 0x7ff8000000000000u : v.u;
}

static inline u32 hbits(half x)
{
    union hu v = { x };
    return x != x ? 0x7e00u : v.u;
}

static inline float flt(u32 u)
{
    union fu v;
    v.u = u;
    return v.f;
}

static inline half hlf(u32 u)
{
    union hu v;
    v.u = (u16)u;
    return v.h;
}

static inline v2u pku(u32 u)
{
    union vu v = { u };
    return v.v;
}

static inline v2s pks(u32 u)
{
    union vu v = { u };
    return v.s;
}

static inline u32 unu(v2u x)
{
    union vu v;
    v.v = x;
    return v.u;
}

static inline u32 uns(v2s x)
{
    union vu v;
    v.s = x;
    return v.u;
}

static inline v2h pkh(u32 u)
{
    union vh v = { u };
    return v.v;
}

static inline u32 unh(v2h x) { return hbits(x[0]) | hbits(x[1]) << 16; }

/* divisors without overflow, ranges, the lesser */
static inline s32 den(u32 b) { return b == 0 || b == ~0u ? 3 : (s32)b; }
static inline s64 den64(u64 b) { return b == 0 || b == ~(u64)0 ? 3 : (s64)b; }
static inline s32 imin(s32 a, s32 b) { return a < b ? a : b; }
static inline s32 imax(s32 a, s32 b) { return a > b ? a : b; }
static inline u32 umin(u32 a, u32 b) { return a < b ? a : b; }
static inline u32 umax(u32 a, u32 b) { return a > b ? a : b; }
static inline float fclamp(float x, float lo, float hi) { return x > lo ? x < hi ? x : hi : lo; }
static inline double dclamp(double x, double lo, double hi) { return x > lo ? x < hi ? x : hi : lo; }
static u32 rev(u32 x)
{
    u32 r = 0;
    for (int i = 0; i < 32; i++)
        r |= (x >> i & 1) << (31 - i);
    return r;
}

static u32 gcd(u32 a, u32 b)
{
    while (b) {
        u32 t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static u32 collatz(u32 x)
{
    u32 n = 0;
    x = (x & 0xffff) | 1;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        n++;
    }
    return n;
}

static u32 crc(u32 x, u32 y)
{
    u32 r = ~x;
    for (int i = 0; i < 32; i++)
        r = r >> 1 ^ ((r ^ y >> i) & 1 ? 0xedb88320u : 0);
    return ~r;
}

static const u32 table[16] = { 3, 1, 4, 1, 5, 92, 65, 35, 89, 79, 323, 8462, 6, 43, 383279, 502 };
static const double dtable[4] = { 0.1, -2.5, 1e300, 3e-310 };
static u32 lookup(u32 i) { return table[i & 15] * 7 + table[i >> 4 & 15]; }
static u32 cases(u32 a, u32 b)
{
    switch (a % 9) {
    case 0: return b + 1;
    case 1: return b * 3;
    case 2: return ~b;
    case 3: return b >> 3;
    case 4: return b / 5;
    case 5: return b ^ 0x55;
    case 6: return b << 9;
    case 7: return 77;
    }
    return a;
}

static u64 sort(u32 a, u32 b, u32 n)
{
    u32 v[8];
    for (u32 i = 0; i < 8; i++)
        v[i] = (a = a * 1664525 + b) >> 8;
    for (u32 i = 1; i < 8; i++) {
        u32 x = v[i], j = i;
        for (; j && v[j - 1] > x; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
    return (u64)v[n & 7] << 32 | v[(n >> 3) & 7];
}

static u32 scratch(u32 a, u32 b, u32 c)
{
    u32 v[16] = { 0 };
    for (u32 i = 0; i < 20; i++) {
        v[a & 15] += b;
        a = a >> 1 ^ c;
        b = b * 5 + v[c & 15];
        c = c << 3 | c >> 29;
    }
    return v[a & 15] ^ v[b & 15];
}

static u32 scratch_bytes(u32 a, u32 b)
{
    u8 v[24];
    for (u32 i = 0; i < 24; i++)
        v[i] = (u8)(a >> (i & 15));
    for (u32 i = 0; i < 24; i++)
        v[(b >> (i & 7)) % 24] ^= v[(i * 7 + a) % 24];
    u32 r = 0;
    for (u32 i = 0; i < 24; i++)
        r = r * 31 + v[i];
    return r;
}

static u64 scratch_wide(u64 a, u32 n)
{
    u64 v[12];
    for (u32 i = 0; i < 12; i++)
        v[i] = a = a * 6364136223846793005u + i;
    for (u32 i = 0; i < n % 30; i++)
        v[(v[i % 12] >> 60) % 12] += v[(i + 5) % 12];
    return v[n % 12];
}

static u32 modpow(u32 b, u32 e, u32 m)
{
    u64 r = 1, x = b;
    m |= 1;
    for (e &= 0xffff; e; e >>= 1) {
        if (e & 1)
            r = r * x % m;
        x = x * x % m;
    }
    return (u32)r;
}

static u32 isqrt(u64 x)
{
    u64 r = 0;
    for (u64 bit = (u64)1 << 62; bit; bit >>= 2) {
        if (x >= r + bit) {
            x -= r + bit;
            r = (r >> 1) + bit;
        } else
            r >>= 1;
    }
    return (u32)r;
}

static u64 mix(u64 x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static __attribute__((noinline)) u32 called(u32 a, u32 b) { return a / (b | 1) + rev(a ^ b); }
static __attribute__((noinline)) u64 called2(u32 a, u64 b, double d)
{
    return called(a, (u32)b) + mix(b) + dbits(d * 3);
}

static float horner(float x)
{
    float r = 0x1.6p-10f;
    for (int i = 0; i < 6; i++)
        r = r * x + 1.0f / (float)(i + 2);
    return r;
}

static u32 floop(float x, float y)
{
    u32 n = 0;
    while (x > 1.5f && n < 40) {
        x = x * 0.75f - 0.01f;
        n += y < x ? 1 : 2;
    }
    while (!(x >= y) && n < 60) {
        x = x * 1.25f + 0.5f;
        n++;
    }
    return n;
}

static u32 halfloop(u32 a, u32 b)
{
    u16 x = (u16)a;
    u32 n = 0;
    while (x > (u16)b && n < 20) {
        x = (u16)(x - (x >> 2) - 1);
        n++;
    }
    while ((s16)x <= (s16)b && n < 40) {
        x = (u16)(x + 1000);
        n++;
    }
    return n * 65536 + x;
}

static u64 longloop(u64 x, u64 y)
{
    u64 n = 0;
    while (x < y && n < 30) {
        x = x * 3 + 1;
        n++;
    }
    while ((s64)x > (s64)y && n < 50) {
        x >>= 3;
        n++;
    }
    return n ^ x;
}

struct rec {
    u64 x;
    u32 y[3];
    u64 z[2];
};

static u64 records(u64 a, u64 b, u32 n)
{
    struct rec r[4];
    for (u32 i = 0; i < 4; i++) {
        r[i].x = a * i;
        r[i].y[0] = (u32)b + i;
        r[i].y[1] = n;
        r[i].y[2] = ~n;
        r[i].z[0] = b;
        r[i].z[1] = a ^ b;
    }
    r[n & 3] = r[n >> 2 & 3];
    r[n >> 4 & 3].z[1] += 5;
    u64 s = 0;
    for (u32 i = 0; i < 4; i++)
        s = s * 31 + r[i].x + r[i].y[0] + r[i].y[1] * 3 + r[i].y[2] + r[i].z[0] + r[i].z[1] * 7;
    return s;
}

static u32 bf16_of(float x)
{
    u32 u = bits(x);
    return x != x ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

#endif
