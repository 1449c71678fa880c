/* The C that test_isa_fold.c compiles twice: into itself, and with clang-19 for the chips that the interpreter runs. All
 * of it goes through macros that also make it a string, so no directives and no // comments inside.
 *
 * FOLD_PRELUDE(T): types and functions.
 * FOLD_PURE(X): X(name, expression) of one thread's inputs: a b c (u32), A B (u64), f g h (float), d e (double); its
 *     value becomes 64 bits. NaNs leave through bits(), dbits() and hbits(), which make them all the same.
 * FOLD_DEVICE(X): X(name, expression with builtins of the device, the same in plain C).
 * FOLD_GROUP(X): X(name, { device: thread t of 64, index i; fills out[i] }, { host: all of a work-group }); mem is 4 KiB of
 *     zeros. No commas in braces outside of parentheses. */
#ifndef AMDSIM_TESTS_ISA_FOLD_CASES_H
#define AMDSIM_TESTS_ISA_FOLD_CASES_H

#define FOLD_PRELUDE(T)                                                                                                \
    T(typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;)    \
    T(typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64;)                                  \
    T(__extension__ typedef unsigned __int128 u128; typedef _Float16 half;)                                             \
    T(typedef u16 v2u __attribute__((vector_size(4))); typedef s16 v2s __attribute__((vector_size(4)));)                 \
    T(struct in { u32 a, b, c; float f, g, h; u64 A, B; double d, e; };)                                                \
    T(union fu { float f; u32 u; }; union du { double d; u64 u; }; union hu { half h; u16 u; };)                          \
    T(union vu { u32 u; v2u v; v2s s; };)                                                                               \
    T(static inline u32 bits(float x) { union fu v = { x }; return x != x ? 0x7fc00000u : v.u; })                         \
    T(static inline u64 dbits(double x) { union du v = { x }; return x != x ? 0x7ff8000000000000u : v.u; })               \
    T(static inline u32 hbits(half x) { union hu v = { x }; return x != x ? 0x7e00u : v.u; })                             \
    T(static inline float flt(u32 u) { union fu v; v.u = u; return v.f; })                                              \
    T(static inline half hlf(u32 u) { union hu v; v.u = (u16)u; return v.h; })                                          \
    T(static inline v2u pku(u32 u) { union vu v = { u }; return v.v; })                                                 \
    T(static inline v2s pks(u32 u) { union vu v = { u }; return v.s; })                                                 \
    T(static inline u32 unu(v2u x) { union vu v; v.v = x; return v.u; })                                                \
    T(static inline u32 uns(v2s x) { union vu v; v.s = x; return v.u; })                                                \
    T(static inline s32 den(u32 b) { return b == 0 || b == ~0u ? 3 : (s32)b; })                                         \
    T(static inline s64 den64(u64 b) { return b == 0 || b == ~(u64)0 ? 3 : (s64)b; })                                   \
    T(static inline s32 imin(s32 a, s32 b) { return a < b ? a : b; })                                                   \
    T(static inline s32 imax(s32 a, s32 b) { return a > b ? a : b; })                                                   \
    T(static inline u32 umin(u32 a, u32 b) { return a < b ? a : b; })                                                   \
    T(static inline u32 umax(u32 a, u32 b) { return a > b ? a : b; })                                                   \
    T(static inline float fclamp(float x, float lo, float hi) { return x > lo ? x < hi ? x : hi : lo; })                \
    T(static inline double dclamp(double x, double lo, double hi) { return x > lo ? x < hi ? x : hi : lo; })            \
    T(static u32 rev(u32 x) { u32 r = 0; for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i); return r; })         \
    T(static u32 gcd(u32 a, u32 b) { while (b) { u32 t = a % b; a = b; b = t; } return a; })                              \
    T(static u32 collatz(u32 x) { u32 n = 0; x = (x & 0xffff) | 1; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; n++; } \
      return n; })                                                                                                      \
    T(static u32 crc(u32 x, u32 y) { u32 r = ~x; for (int i = 0; i < 32; i++) r = r >> 1 ^ ((r ^ y >> i) & 1 ? 0xedb88320u : 0); \
      return ~r; })                                                                                                     \
    T(static const u32 table[16] = { 3, 1, 4, 1, 5, 92, 65, 35, 89, 79, 323, 8462, 6, 43, 383279, 502 };)                \
    T(static const double dtable[4] = { 0.1, -2.5, 1e300, 3e-310 };)                                                    \
    T(static u32 lookup(u32 i) { return table[i & 15] * 7 + table[i >> 4 & 15]; })                                      \
    T(static u32 cases(u32 a, u32 b) { switch (a % 9) { case 0: return b + 1; case 1: return b * 3; case 2: return ~b;     \
      case 3: return b >> 3; case 4: return b / 5; case 5: return b ^ 0x55; case 6: return b << 9; case 7: return 77; }    \
      return a; })                                                                                                      \
    T(static u64 sort(u32 a, u32 b, u32 n) { u32 v[8]; for (u32 i = 0; i < 8; i++) v[i] = (a = a * 1664525 + b) >> 8;      \
      for (u32 i = 1; i < 8; i++) { u32 x = v[i], j = i; for (; j && v[j - 1] > x; j--) v[j] = v[j - 1]; v[j] = x; }       \
      return (u64)v[n & 7] << 32 | v[(n >> 3) & 7]; })                                                                   \
    T(static u32 scratch(u32 a, u32 b, u32 c) { u32 v[16] = { 0 }; for (u32 i = 0; i < 20; i++) { v[a & 15] += b; a = a >> 1 ^ c; \
      b = b * 5 + v[c & 15]; c = c << 3 | c >> 29; } return v[a & 15] ^ v[b & 15]; })                                     \
    T(static u32 scratch_bytes(u32 a, u32 b) { u8 v[24]; for (u32 i = 0; i < 24; i++) v[i] = (u8)(a >> (i & 15)); for      \
      (u32 i = 0; i < 24; i++) v[(b >> (i & 7)) % 24] ^= v[(i * 7 + a) % 24]; u32 r = 0; for (u32 i = 0; i < 24; i++) r = r * 31 \
      + v[i]; return r; })                                                                                              \
    T(static u64 scratch_wide(u64 a, u32 n) { u64 v[12]; for (u32 i = 0; i < 12; i++) v[i] = a = a * 6364136223846793005u + i; \
      for (u32 i = 0; i < n % 30; i++) v[(v[i % 12] >> 60) % 12] += v[(i + 5) % 12]; return v[n % 12]; })                 \
    T(static u32 modpow(u32 b, u32 e, u32 m) { u64 r = 1, x = b; m |= 1; for (e &= 0xffff; e; e >>= 1) { if (e & 1) r = r * x \
      % m; x = x * x % m; } return (u32)r; })                                                                           \
    T(static u32 isqrt(u64 x) { u64 r = 0; for (u64 bit = (u64)1 << 62; bit; bit >>= 2) { if (x >= r + bit) { x -= r + bit; r = \
      (r >> 1) + bit; } else r >>= 1; } return (u32)r; })                                                         \
    T(static u64 mix(u64 x) { x ^= x >> 33; x *= 0xff51afd7ed558ccdu; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53u; return x ^ x >> 33; }) \
    T(__attribute__((noinline)) static u32 called(u32 a, u32 b) { return a / (b | 1) + rev(a ^ b); })                    \
    T(__attribute__((noinline)) static u64 called2(u32 a, u64 b, double d) { return called(a, (u32)b) + mix(b) + dbits(d * 3); }) \
    T(static float horner(float x) { float r = 0x1.6p-10f; for (int i = 0; i < 6; i++) r = r * x + 1.0f / (float)(i + 2); return r; }) \
    T(typedef half v2h __attribute__((vector_size(4))); typedef u32 v4u __attribute__((vector_size(16))); union vh { u32 u; v2h v; };) \
    T(static inline v2h pkh(u32 u) { union vh v = { u }; return v.v; })                                                 \
    T(static inline u32 unh(v2h x) { return hbits(x[0]) | hbits(x[1]) << 16; })                                         \
    T(static u32 floop(float x, float y) { u32 n = 0; while (x > 1.5f && n < 40) { x = x * 0.75f - 0.01f; n += y < x ? 1 : 2; } \
      while (!(x >= y) && n < 60) { x = x * 1.25f + 0.5f; n++; } return n; })                                           \
    T(static u32 halfloop(u32 a, u32 b) { u16 x = (u16)a; u32 n = 0; while (x > (u16)b && n < 20) { x = (u16)(x - (x >> 2) - 1); n++; } \
      while ((s16)x <= (s16)b && n < 40) { x = (u16)(x + 1000); n++; } return n * 65536 + x; })                         \
    T(static u64 longloop(u64 x, u64 y) { u64 n = 0; while (x < y && n < 30) { x = x * 3 + 1; n++; } while ((s64)x > (s64)y && n < 50) \
      { x >>= 3; n++; } return n ^ x; })                                                                                \
    T(struct rec { u64 x; u32 y[3]; u64 z[2]; };)                                                                       \
    T(static u64 records(u64 a, u64 b, u32 n) { struct rec r[4]; for (u32 i = 0; i < 4; i++) { r[i].x = a * i; r[i].y[0] = (u32)b + i; \
      r[i].y[1] = n; r[i].y[2] = ~n; r[i].z[0] = b; r[i].z[1] = a ^ b; } r[n & 3] = r[n >> 2 & 3]; r[n >> 4 & 3].z[1] += 5; u64 s = 0; for (u32 i \
      = 0; i < 4; i++) s = s * 31 + r[i].x + r[i].y[0] + r[i].y[1] * 3 + r[i].y[2] + r[i].z[0] + r[i].z[1] * 7; return s; }) \
    T(static u32 bf16_of(float x) { u32 u = bits(x); return x != x ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16; })

#define FOLD_PURE(X)                                                                                                   \
    X(add, a + b) X(sub, a - b) X(mul, a * b) X(neg, -a) X(add3, a + b + c) X(shl_add, (a << 3) + b)                      \
    X(add_shl, (a + b) << 4) X(shl_or, (a << 5) | b) X(and_or, (a & b) | c) X(or3, a | b | c) X(xor3, a ^ b ^ c)          \
    X(bfi, (a & b) | (~a & c)) X(xnor, ~(a ^ b)) X(andn, a & ~b) X(orn, a | ~b) X(nand, ~(a & b)) X(nor, ~(a | b))        \
    X(xad, (a ^ b) + c) X(mulhi_u, (u64)a * b >> 32) X(mulhi_i, (u32)((s64)(s32)a * (s32)b >> 32))                       \
    X(mul24, (a & 0xffffff) * (b & 0xffffff)) X(mul24i, (u32)(((s32)(a << 8) >> 8) * (((s32)(b << 8) >> 8) & 0xff)))      \
    X(mul_64, A * B) X(mulhi_64, (u64)((u128)A * B >> 64)) X(mad_64, (u64)a * b + A)                                     \
    X(mad_i64, (u64)((s64)(s32)a * (s32)b + (s64)(A >> 2))) X(carry, (u64)(((u128)A * A + B) >> 64))                     \
    X(add_64, A + B) X(sub_64, A - B) X(neg_64, -A) X(min_64, A < B ? A : B) X(max_i64, (s64)A > (s64)B ? A : B)           \
    X(xor_64, A ^ (B >> 7)) X(mul5_64, A * 5 + B) X(addc, A + B < A) X(borrow, A < B ? A - B + 1 : A - B)                \
    X(div_u, a / (b | 1)) X(rem_u, a % (b | 1)) X(div_i, (u32)((s32)a / den(b))) X(rem_i, (u32)((s32)a % den(b)))         \
    X(div_u64, A / (B | 1)) X(rem_u64, A % (B | 1)) X(div_i64, (u64)((s64)A / den64(B)))                                \
    X(rem_i64, (u64)((s64)A % den64(B))) X(div_64_32, A / (a | 1)) X(div_7, a / 7 * 16 + a % 10)                         \
    X(div_i3, (u32)((s32)a / 3)) X(div_64c, A / 1000003) X(div_u16, (u16)a / (u16)(b | 1))                               \
    X(div_i8, (u32)((s8)a / (s8)((b & 0x3f) | 1)))                                                                      \
    X(shl, a << (b & 31)) X(shr, a >> (b & 31)) X(sar, (u32)((s32)a >> (b & 31))) X(shl_64, A << (b & 63))               \
    X(shr_64, A >> (b & 63)) X(sar_64, (u64)((s64)A >> (b & 63))) X(rot, a << (b & 31) | a >> (-b & 31))                 \
    X(rot_64, A << (b & 63) | A >> (-b & 63)) X(funnel, (u32)(((u64)a << 32 | b) >> (c & 31)))                           \
    X(bfe, a >> 5 & 0x7f) X(sbfe, (u32)((s32)(a << 9) >> 20)) X(bfe_v, a >> (b & 15) & ((1u << (c & 15)) - 1))           \
    X(bfm, ((1u << (a & 31)) - 1) << (b & 31)) X(clz, a ? (u32)__builtin_clz(a) : 32)                                    \
    X(ctz, a ? (u32)__builtin_ctz(a) : 32) X(pop, (u32)__builtin_popcount(a) + b) X(clz_64, A ? (u32)__builtin_clzll(A) : 64) \
    X(ctz_64, A ? (u32)__builtin_ctzll(A) : 64) X(pop_64, (u32)__builtin_popcountll(A)) X(parity, (u32)__builtin_parity(a)) \
    X(bswap, __builtin_bswap32(a)) X(bswap_64, __builtin_bswap64(A)) X(bswap_16, __builtin_bswap16((u16)a))              \
    X(brev, rev(a)) X(cls, (u32)__builtin_clrsb((s32)a))                                                                \
    X(min_u, umin(a, b)) X(max_u, umax(a, b)) X(min_i, (u32)imin((s32)a, (s32)b)) X(max_i, (u32)imax((s32)a, (s32)b))    \
    X(min3, (u32)imin(imin((s32)a, (s32)b), (s32)c)) X(max3, umax(umax(a, b), c))                                       \
    X(med3, (u32)imax(imin((s32)a, (s32)b), imin(imax((s32)a, (s32)b), (s32)c)))                                        \
    X(clamp_i, (u32)imin(imax((s32)a, -100), 200)) X(abs, (s32)a < 0 ? -a : a) X(absdiff, a > b ? a - b : b - a)         \
    X(sat_add, a + b < a ? ~0u : a + b) X(sat_sub, a > b ? a - b : 0) X(sat_addi, (u32)((s64)(s32)a + (s32)b > 0x7fffffff ? \
      0x7fffffff : (s64)(s32)a + (s32)b < -(s64)0x80000000 ? -(s64)0x80000000 : (s64)(s32)a + (s32)b))                  \
    X(compare, (a < b) + 2 * ((s32)a < (s32)b) + 4 * (a == b) + 8 * (A < B) + 16 * ((s64)A < (s64)B) + 32 * (A == B) +   \
      64 * (a <= c) + 128 * ((s32)b >= (s32)c) + 256 * (A != c))                                                        \
    X(select, a < b ? c > 5 ? a : b * 3 : (s32)c < 0 ? A : B) X(select_chain, a & 1 ? b & 2 ? c : a : b & 4 ? a + c : b)  \
    X(u16_mul, (u16)((u16)a * (u32)(u16)b)) X(u16_mad, (u16)((u16)a * (u32)(u16)b + (u16)c)) X(u16_shr, (u16)a >> (b & 15)) \
    X(s16_sar, (u32)((s16)a >> (b & 15))) X(s16_min, (u32)((s16)a < (s16)b ? (s16)a : (s16)b))                           \
    X(u16_sub, (u16)(a - b)) X(s16_mul, (u32)((s16)a * (s16)(b >> 16)))                                                 \
    X(pk_add, unu(pku(a) + pku(b))) X(pk_sub, unu(pku(a) - pku(b))) X(pk_mul, unu(pku(a) * pku(b)))                      \
    X(pk_mad, unu(pku(a) * pku(b) + pku(c))) X(pk_shr, unu(pku(a) >> (pku(b) & 15))) X(pk_sar, uns(pks(a) >> (pks(b) & 15))) \
    X(pk_shl, unu(pku(a) << (pku(b) & 15))) X(pk_swap, unu(pku(a >> 16 | a << 16) + pku(b)))                             \
    X(bytes, (u8)a + (u8)(a >> 8) * 3 + (u8)(b >> 16) * 5 + (u8)(b >> 24) * 7) X(sext8, (u32)(s8)a + (u32)(s8)(b >> 8))   \
    X(sext16, (u32)(s16)a - (u32)(s16)(b >> 16)) X(pack, (a & 0xff) | (b & 0xff) << 8 | (c & 0xffff) << 16)              \
    X(perm, (a >> 24) | (b >> 8 & 0xff00) | (a << 8 & 0xff0000) | b << 24) X(sad, umax(a & 255, b & 255) - umin(a & 255, b & 255)) \
    X(dot4, (u32)((s8)a * (s8)b + (s8)(a >> 8) * (s8)(b >> 8) + (s8)(a >> 16) * (s8)(b >> 16) + (s8)(a >> 24) * (s8)(b >> 24)) + c) \
    X(dot4u, (u8)a * (u8)b + (u8)(a >> 8) * (u8)(b >> 8) + (u8)(a >> 16) * (u8)(b >> 16) + (u8)(a >> 24) * (u8)(b >> 24) + c) \
    X(gcd, gcd(a, b)) X(collatz, collatz(a)) X(crc, crc(a, b)) X(lookup, lookup(a)) X(cases, cases(a, b))                \
    X(dlookup, dbits(dtable[a & 3])) X(sort, sort(a, b, c)) X(scratch, scratch(a, b, c)) X(scratch_bytes, scratch_bytes(a, b)) \
    X(scratch_wide, scratch_wide(A, a)) X(modpow, modpow(a, b, c)) X(isqrt, isqrt(A)) X(mix, mix(A ^ mix(B)))            \
    X(call, called(a, b)) X(call2, called2(a, A, e)) X(call_if, a & 1 ? called(b, c) : called(c, a) + 1)                 \
    X(cvt_u2f, bits((float)a)) X(cvt_i2f, bits((float)(s32)a)) X(cvt_ul2f, bits((float)A)) X(cvt_l2f, bits((float)(s64)A)) \
    X(cvt_u2d, dbits((double)a)) X(cvt_i2d, dbits((double)(s32)a)) X(cvt_ul2d, dbits((double)A))                         \
    X(cvt_l2d, dbits((double)(s64)A)) X(cvt_f2u, (u32)fclamp(f, 0, 4294967040.0f)) X(cvt_f2i, (u32)(s32)fclamp(f, -2147483648.0f, \
      2147483520.0f)) X(cvt_f2ul, (u64)fclamp(f, 0, 0x1.fffffep63f)) X(cvt_f2l, (u64)(s64)fclamp(f, -0x1p63f, 0x1.fffffep62f)) \
    X(cvt_d2u, (u32)dclamp(d, 0, 4294967295.0)) X(cvt_d2i, (u32)(s32)dclamp(d, -2147483648.0, 2147483647.0))            \
    X(cvt_d2ul, (u64)dclamp(d, 0, 0x1.fffffffffffffp63)) X(cvt_d2l, (u64)(s64)dclamp(d, -0x1p63, 0x1.fffffffffffffp62))  \
    X(cvt_d2f, bits((float)d)) X(cvt_f2d, dbits((double)f)) X(cvt_f2h, hbits((half)f)) X(cvt_h2f, bits((float)hlf(a)))    \
    X(cvt_ubyte, bits((float)(u8)a) + bits((float)(u8)(a >> 8)) * 3 + bits((float)(u8)(a >> 16)) * 5 + bits((float)(a >> 24)) * 7) \
    X(cvt_h2i, (u32)(s16)(hlf(a) > 30000 ? 30000 : hlf(a) < -30000 ? -30000 : hlf(a) == hlf(a) ? (float)hlf(a) : 0))      \
    X(cvt_i2h, hbits((half)(s16)a)) X(cvt_u2h, hbits((half)(u16)a)) X(cvt_bf16, bf16_of(f)) X(cvt_of_bf16, bits(flt(a << 16))) \
    X(fadd, bits(f + g)) X(fsub, bits(f - g)) X(fmul, bits(f * g)) X(fdiv, bits(f / g)) X(frcp, bits(1.0f / f))           \
    X(ffma, bits(__builtin_fmaf(f, g, h))) X(ffnma, bits(__builtin_fmaf(-f, g, -h))) X(fmad, bits(f * g + h))            \
    X(fsqrt, bits(__builtin_sqrtf(f))) X(frsqrt, bits(1.0f / __builtin_sqrtf(f))) X(fabs, bits(__builtin_fabsf(f) + g))  \
    X(fneg, bits(-f * g)) X(fsq, bits(f * f - g * g)) X(fhalf, bits(f * 0.5f + 1.0f)) X(ftwo, bits((f + g) * 2.0f))       \
    X(fconst, bits(f * 3.14159f - 0.1f)) X(fmin, bits(__builtin_fminf(f, g) + 0.0f)) X(fmax, bits(__builtin_fmaxf(f, g) + 0.0f)) \
    X(fmin3, bits(__builtin_fminf(__builtin_fminf(f, g), h) + 0.0f)) X(fclamp01, bits(__builtin_fminf(__builtin_fmaxf(f, 0), 1) + 0.0f)) \
    X(fmed, bits(__builtin_fmaxf(__builtin_fminf(f, 2.0f), -3.0f) + 0.0f)) X(ffloor, bits(__builtin_floorf(f)))          \
    X(fceil, bits(__builtin_ceilf(f))) X(ftrunc, bits(__builtin_truncf(f))) X(frint, bits(__builtin_rintf(f)))          \
    X(fround, bits(__builtin_roundf(f))) X(fcopysign, bits(__builtin_copysignf(f, g))) X(fldexp, bits(__builtin_ldexpf(f, (s32)(a % 400) - 200))) \
    X(ffract, bits(f - __builtin_floorf(f))) X(fcmp, (f < g) + 2 * (f <= g) + 4 * (f == g) + 8 * (f > g) + 16 * (f >= g) + 32 * (f != g)) \
    X(fcmp_not, !(f < g) + 2 * !(f <= g) + 4 * !(f > g) + 8 * !(f >= g) + 16 * (f != f) + 32 * !!__builtin_isunordered(f, h)) \
    X(fclass, !!__builtin_isinf(f) + 2 * !!__builtin_isfinite(f) + 4 * !!__builtin_isnormal(f) + 8 * !!__builtin_signbit(f)) \
    X(fselect, bits(f < g ? h : f * g)) X(fsign, bits(f > 0 ? 1.0f : f < 0 ? -1.0f : 0.0f)) X(horner, bits(horner(fclamp(f, -2, 2)))) \
    X(fsum, bits((f + g) + (g + h) + (f - h))) X(fdet, bits(f * (g * h - f) - g * (h * f - g)))                          \
    X(dadd, dbits(d + e)) X(dsub, dbits(d - e)) X(dmul, dbits(d * e)) X(ddiv, dbits(d / e)) X(dfma, dbits(__builtin_fma(d, e, 1.5))) \
    X(dsqrt, dbits(__builtin_sqrt(d))) X(dmin, dbits(__builtin_fmin(d, e) + 0.0)) X(dmax, dbits(__builtin_fmax(d, e) + 0.0)) \
    X(dfloor, dbits(__builtin_floor(d))) X(dceil, dbits(__builtin_ceil(d))) X(dtrunc, dbits(__builtin_trunc(d)))        \
    X(drint, dbits(__builtin_rint(d))) X(dldexp, dbits(__builtin_ldexp(d, (s32)(a % 2400) - 1200)))                      \
    X(dcmp, (d < e) + 2 * (d <= e) + 4 * (d == e) + 8 * (d > e) + 16 * (d >= e) + 32 * (d != e)) X(dneg, dbits(-__builtin_fabs(d) * e)) \
    X(maxmin_u, umin(umax(a, b), c)) X(med3_u, umax(umin(a, b), umin(umax(a, b), c)))                                    \
    X(mad_i24, (u32)(((s32)(a << 8) >> 8) * (s32)(b & 0x7f)) + c) X(fmaak, bits(__builtin_fmaf(f, g, 0.3f)))             \
    X(fmamk, bits(__builtin_fmaf(f, 0.7f, h))) X(cvt_nh, hbits((half)-f)) X(cvt_ah, hbits((half)__builtin_fabsf(g)))     \
    X(cvt_hn, bits(-(float)hlf(a))) X(floop, floop(f, fclamp(g, -9, 9))) X(halfloop, halfloop(a, b)) X(longloop, longloop(A, B)) \
    X(records, records(A, B, a)) X(pk_hadd, unh(pkh(a) + pkh(b))) X(pk_hmul, unh(pkh(a) * pkh(b)))                       \
    X(hmin, hbits((half)(__builtin_fminf((float)hlf(a), (float)hlf(b)) + 0.0f))) X(shr_or, a >> 7 | b << 13)              \
    X(mul_sh, (a * b) >> 3 ^ (a * c) << 5) X(hsel, hbits(hlf(a) < hlf(b) ? hlf(c) : hlf(a)))                              \
    X(u16_cmp, ((u16)a > (u16)b) + 2 * ((s16)a < (s16)b) + 4 * ((u8)a == (u8)b) + 8 * ((s8)a >= (s8)b))                   \
    X(ldexp_i, bits((float)(s32)a * 0x1p-16f)) X(mixed, (u64)((double)a * 1.5) + (u32)(s32)fclamp(g, -5, 5))             \
    X(hadd, hbits(hlf(a) + hlf(b))) X(hsub, hbits(hlf(a) - hlf(b))) X(hmul, hbits(hlf(a) * hlf(b))) X(hdiv, hbits(hlf(a) / hlf(b))) \
    X(hneg, hbits(-hlf(a))) X(hcmp, (hlf(a) < hlf(b)) + 2 * (hlf(a) == hlf(b)) + 4 * (hlf(a) >= hlf(b)) + 8 * (hlf(a) != hlf(b))) \
    X(hmix, bits(__builtin_fmaf((float)hlf(a), (float)hlf(b >> 16), f))) X(hmix_lo, hbits((half)__builtin_fmaf((float)hlf(a), (float)hlf(b >> 16), 1.0f)))

#define FOLD_DEVICE(X)                                                                                                 \
    X(sudot4, (u32)__builtin_amdgcn_sudot4(1, (s32)a, 1, (s32)b, (s32)c, 0), dot4_model(1, a, 1, b, c, 0))               \
    X(sudot4_su, (u32)__builtin_amdgcn_sudot4(1, (s32)a, 0, (s32)b, (s32)c, 0), dot4_model(1, a, 0, b, c, 0))            \
    X(sudot4_clamp, (u32)__builtin_amdgcn_sudot4(1, (s32)a, 1, (s32)b, (s32)c, 1), dot4_model(1, a, 1, b, c, 1))         \
    X(udot4_clamp, (u32)__builtin_amdgcn_udot4(a, b, c, 1), udot4_model(a, b, c))                                       \
    X(sudot8, (u32)__builtin_amdgcn_sudot8(1, (s32)a, 1, (s32)b, (s32)c, 0), dot8_model(1, a, 1, b, c))                  \
    X(sudot8_us, (u32)__builtin_amdgcn_sudot8(0, (s32)a, 1, (s32)b, (s32)c, 0), dot8_model(0, a, 1, b, c))               \
    X(vperm, __builtin_amdgcn_perm(a, b, c), perm_model(a, b, c))                                                       \
    X(alignbit, __builtin_amdgcn_alignbit(a, b, c), (u32)(((u64)a << 32 | b) >> (c & 31)))                              \
    X(alignbyte, __builtin_amdgcn_alignbyte(a, b, c), (u32)(((u64)a << 32 | b) >> (c & 3) * 8))                         \
    X(ubfe, __builtin_amdgcn_ubfe(a, b, c), c & 31 ? a >> (b & 31) & ((1u << (c & 31)) - 1) : 0)                         \
    X(vsad, __builtin_amdgcn_sad_u8(a, b, c), sad_model(a, b, c))                                                       \
    X(lerp, __builtin_amdgcn_lerp(a, b, c), lerp_model(a, b, c))                                                        \
    X(frexp_mant, bits(__builtin_amdgcn_frexp_mantf(f)), bits(frexp_model(f, 1)))                                       \
    X(frexp_exp, (u32)__builtin_amdgcn_frexp_expf(f), (u32)(s32)frexp_model(f, 0))                                      \
    X(vclass, __builtin_amdgcn_classf(f, (s32)(a & 1023)), class_model(f, a & 1023))                                    \
    X(vmed3, bits(__builtin_amdgcn_fmed3f(f, g, 1.0f) + 0.0f), bits(med3_model(f, g, 1.0f) + 0.0f))                                    \
    X(vexp, bits(__builtin_amdgcn_exp2f(-f)), bits(flt(trans_exp_f32(bits(-f)))))                                       \
    X(vlog, bits(__builtin_amdgcn_logf(__builtin_fabsf(f))), bits(flt(trans_log_f32(bits(__builtin_fabsf(f))))))        \
    X(vrcp, bits(__builtin_amdgcn_rcpf(f)), bits(flt(trans_rcp_f32(bits(f)))))                                          \
    X(vrsq, bits(__builtin_amdgcn_rsqf(f)), bits(flt(trans_rsq_f32(bits(f)))))                                          \
    X(vsqrt, bits(__builtin_amdgcn_sqrtf(f)), bits(flt(trans_sqrt_f32(bits(f)))))                                       \
    X(vsin, bits(__builtin_amdgcn_sinf(f)), bits(flt(trans_sin_f32(bits(f)))))                                          \
    X(vcos, bits(__builtin_amdgcn_cosf(f)), bits(flt(trans_cos_f32(bits(f)))))                                          \
    X(mbcnt_self, __builtin_amdgcn_mbcnt_hi(a, __builtin_amdgcn_mbcnt_lo(0, b)), b)

#define LDS(type, name, n) static __attribute__((address_space(3), loader_uninitialized)) type name[n];
#define BARRIER __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#define ALL(...) for (u32 t = 0; t < 64; t++) { __VA_ARGS__ }
#define FOLD_GROUP(X)                                                                                                  \
    X(lds_reverse, { LDS(u32, m, 64) m[t] = a; BARRIER out[i] = m[63 - t]; }, { ALL(out[t] = in[63 - t].a;) })            \
    X(lds_sum, { LDS(u32, m, 64) m[t] = a; for (u32 n = 32; n; n >>= 1) { BARRIER if (t < n) m[t] += m[t + n]; } BARRIER    \
      out[i] = m[0]; }, { u32 s = 0; ALL(s += in[t].a;) ALL(out[t] = s;) })                                             \
    X(lds_wide, { LDS(struct in, m, 64) m[t] = in[i]; BARRIER out[i] = m[t ^ 33].A + m[63 - t].b; },                    \
      { ALL(out[t] = in[t ^ 33].A + in[63 - t].b;) })                                                                   \
    X(lds_bytes, { LDS(u8, m, 128) m[t] = (u8)a; m[t + 64] = (u8)(a >> 8); BARRIER out[i] = m[(t * 5) & 127] + 256u * m[(t * 11 + 3) & 127]; }, \
      { u8 m[128]; ALL(m[t] = (u8)in[t].a; m[t + 64] = (u8)(in[t].a >> 8);) ALL(out[t] = m[(t * 5) & 127] + 256u * m[(t * 11 + 3) & 127];) }) \
    X(lds_halves, { LDS(s16, m, 64) m[t] = (s16)a; BARRIER out[i] = (u32)(m[t ^ 1] * 3); }, { ALL(out[t] = (u32)((s16)in[t ^ 1].a * 3);) }) \
    X(lds_pairs, { LDS(u64, m, 128) m[t] = A; m[t + 64] = B; BARRIER out[i] = m[t ^ 7] + m[(t ^ 7) + 64]; }, { ALL(out[t] = in[t ^ 7].A + in[t ^ 7].B;) }) \
    X(lds_histogram, { LDS(u32, m, 16) if (t < 16) m[t] = 0; BARRIER __atomic_fetch_add(&m[a & 15], b & 255, __ATOMIC_RELAXED); BARRIER \
      out[i] = m[t & 15]; }, { u32 m[16] = { 0 }; ALL(m[in[t].a & 15] += in[t].b & 255;) ALL(out[t] = m[t & 15];) })        \
    X(lds_atomics, { LDS(u32, m, 4) if (t == 0) { m[0] = 0; m[1] = ~0u; m[2] = 0; m[3] = 0; } BARRIER                        \
      __atomic_fetch_max(&m[0], a, __ATOMIC_RELAXED); __atomic_fetch_min(&m[1], a, __ATOMIC_RELAXED);                   \
      __atomic_fetch_xor(&m[2], a, __ATOMIC_RELAXED); __atomic_fetch_or(&m[3], b, __ATOMIC_RELAXED); BARRIER              \
      out[i] = m[0] ^ (u64)m[1] << 7 ^ (u64)m[2] << 17 ^ (u64)m[3] << 31; },                                            \
      { u32 m[4]; m[0] = m[2] = m[3] = 0; m[1] = ~0u; ALL(m[0] = umax(m[0], in[t].a); m[1] = umin(m[1], in[t].a); m[2] ^= in[t].a; m[3] |= in[t].b;) \
      ALL(out[t] = m[0] ^ (u64)m[1] << 7 ^ (u64)m[2] << 17 ^ (u64)m[3] << 31;) })                                       \
    X(atomic_add, { __atomic_fetch_add(&mem[a & 7], b, __ATOMIC_RELAXED); BARRIER out[i] = __atomic_load_n(&mem[t & 7], __ATOMIC_RELAXED); }, \
      { ALL(mem[in[t].a & 7] += in[t].b;) ALL(out[t] = mem[t & 7];) })                                                  \
    X(atomic_64, { u64 *m = (u64 *)mem; __atomic_fetch_add(m, A, __ATOMIC_RELAXED); __atomic_fetch_max(m + 1, B, __ATOMIC_RELAXED); BARRIER \
      out[i] = __atomic_load_n(m, __ATOMIC_RELAXED) ^ __atomic_load_n(m + 1, __ATOMIC_RELAXED); },                      \
      { u64 s = 0; u64 x = 0; ALL(s += in[t].A; x = in[t].B > x ? in[t].B : x;) ALL(out[t] = s ^ x;) })                  \
    X(atomic_swap, { u32 old = __atomic_exchange_n(&mem[t], a, __ATOMIC_RELAXED); u32 want = a; __atomic_compare_exchange_n(&mem[t], &want, b, 0, \
      __ATOMIC_RELAXED, __ATOMIC_RELAXED); want = ~a; __atomic_compare_exchange_n(&mem[t + 64], &want, c, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
      out[i] = old + ((u64)mem[t] << 32) + want; }, { ALL(out[t] = (u64)in[t].b << 32;) })         \
    X(atomic_cas_loop, { u32 o = __atomic_load_n(mem, __ATOMIC_RELAXED); while (!__atomic_compare_exchange_n(mem, &o, o + (a & 15), 0, \
      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) ; BARRIER out[i] = __atomic_load_n(mem, __ATOMIC_RELAXED); },                \
      { u32 s = 0; ALL(s += in[t].a & 15;) ALL(out[t] = s;) })                                                          \
    X(mem_types, { u8 *p = (u8 *)mem + t * 32; *(u16 *)(p + 2) = (u16)a; p[5] = (u8)b; *(u64 *)(p + 8) = A; *(u32 *)(p + 17) = c;   \
      out[i] = *(u32 *)p + (u64)*(s8 *)(p + 5) + *(u64 *)(p + 7) + (u64)*(s16 *)(p + 18); },                                      \
      { ALL(u8 *p = (u8 *)mem + t * 32; __builtin_memcpy(p + 2, &in[t].a, 2); p[5] = (u8)in[t].b; __builtin_memcpy(p + 8, &in[t].A, 8); \
      __builtin_memcpy(p + 17, &in[t].c, 4); u64 q; u32 w; s16 v; __builtin_memcpy(&w, p, 4); __builtin_memcpy(&q, p + 7, 8); \
      __builtin_memcpy(&v, p + 18, 2); out[t] = w + (u64)(s8)p[5] + q + (u64)v;) })                                           \
    X(mem_loads, { const u8 *p = (const u8 *)(in + (i & ~63u)); out[i] = p[a % 3584] + (u64)((const s8 *)p)[b % 3584] * 3 + ((const u16 *)p)[c % 1792] * 5ull \
      + (u64)((const s16 *)p)[(a ^ b) % 1792] * 7; }, { const u8 *p = (const u8 *)in; ALL(u32 a = in[t].a; u32 b = in[t].b; u32 c = in[t].c; u16 v; u16 w; \
      __builtin_memcpy(&v, p + c % 1792 * 2, 2); __builtin_memcpy(&w, p + (a ^ b) % 1792 * 2, 2); out[t] = p[a % 3584] + (u64)(s8)p[b % 3584] * 3 + v * 5ull \
      + (u64)(s16)w * 7;) })                                                                                            \
    X(mem_wide, { v4u v; v[0] = a; v[1] = b; v[2] = c; v[3] = t; ((v4u *)mem)[t] = v; BARRIER v = ((v4u *)mem)[t ^ 21]; out[i] = v[0] + v[1] * 3ull + v[2] * 5ull + v[3]; }, \
      { ALL(u32 o = t ^ 21; out[t] = in[o].a + in[o].b * 3ull + in[o].c * 5ull + o;) })                                  \
    X(lds_far, { LDS(u32, m, 256) m[t] = a; m[t + 64] = b; m[t + 128] = c; m[t + 192] = (u32)A; BARRIER u32 o = t ^ 9; out[i] = m[o] + m[o + 64] * 3ull \
      + m[o + 128] * 5ull + m[o + 192] * 7ull; }, { ALL(const struct in *x = &in[t ^ 9]; out[t] = x->a + x->b * 3ull + x->c * 5ull + (u32)x->A * 7ull;) }) \
    X(lds_d16, { LDS(u16, m, 128) m[t] = (u16)a; m[t + 64] = (u16)b; BARRIER out[i] = (u32)m[t ^ 3] | (u32)m[(t ^ 5) + 64] << 16; }, \
      { ALL(out[t] = (in[t ^ 3].a & 0xffff) | in[t ^ 5].b << 16;) })                                                    \
    X(generic, { LDS(u32, m, 64) u32 v[4]; v[0] = a; v[1] = b; v[2] = c; v[3] = t; m[t] = b; mem[t] = c; u32 *p = (a & 3) == 0 ? (u32 *)&m[t] : (a & 3) == 1 ? &mem[t] \
      : &v[b & 3]; out[i] = *p + 1; *p += 7; out[i] = out[i] * 16 + m[t] + mem[t] + v[b & 3]; },                        \
      { ALL(u32 a = in[t].a; u32 b = in[t].b; u32 c = in[t].c; u32 k = b & 3; u32 v = k == 0 ? a : k == 1 ? b : k == 2 ? c : t; u32 which = a & 3; \
      u32 x = which == 0 ? b : which == 1 ? c : v; out[t] = (u64)(x + 1) * 16 + (u64)(which == 0 ? b + 7 : b) + (which == 1 ? c + 7 : c) + (which > 1 ? v + 7 : v);) }) \
    X(generic_atomic, { LDS(u32, m, 2) if (t < 2) m[t] = 0; BARRIER u32 *p = a & 1 ? (u32 *)&m[b & 1] : &mem[b & 1]; __atomic_fetch_add(p, c, __ATOMIC_RELAXED); \
      BARRIER out[i] = m[t & 1] + __atomic_load_n(&mem[t & 1], __ATOMIC_RELAXED) * 3ull; },                            \
      { u32 m[4]; m[0] = m[1] = m[2] = m[3] = 0; ALL(m[(in[t].a & 1) * 2 + (in[t].b & 1)] += in[t].c;) ALL(out[t] = m[2 + (t & 1)] + m[t & 1] * 3ull;) }) \
    X(atomic_inc, { __builtin_amdgcn_atomic_inc32(mem, 20, __ATOMIC_RELAXED, "agent"); __builtin_amdgcn_atomic_dec32(mem + 1, 30, __ATOMIC_RELAXED, "agent"); \
      BARRIER out[i] = __atomic_load_n(mem, __ATOMIC_RELAXED) + 1000 * __atomic_load_n(mem + 1, __ATOMIC_RELAXED); }, { ALL(out[t] = 64 % 21 + 1000 * ((31 * 3 - 64) % 31);) }) \
    X(ballot, { out[i] = __builtin_amdgcn_ballot_w32(a & 1); },                                                         \
      { for (u32 w = 0; w < 64; w += 32) { u32 m = 0; for (u32 l = 0; l < 32; l++) m |= (in[w + l].a & 1) << l; for (u32 l = 0; l < 32; l++) \
      out[w + l] = m; } })                                                                                              \
    X(ballot_if, { out[i] = 7; if (b & 2) out[i] = __builtin_amdgcn_ballot_w32(a & 1); },                                \
      { for (u32 w = 0; w < 64; w += 32) { u32 m = 0; for (u32 l = 0; l < 32; l++) m |= (in[w + l].b >> 1 & in[w + l].a & 1) << l; \
      for (u32 l = 0; l < 32; l++) out[w + l] = in[w + l].b & 2 ? m : 7; } })                                           \
    X(first_lane, { out[i] = 9; if (a & 1) out[i] = (u32)__builtin_amdgcn_readfirstlane((s32)b); },                     \
      { for (u32 w = 0; w < 64; w += 32) { u32 l = 0; while (l < 31 && !(in[w + l].a & 1)) l++; for (u32 k = 0; k < 32; k++)   \
      out[w + k] = in[w + k].a & 1 ? in[w + l].b : 9; } })                                                              \
    X(read_lane, { out[i] = (u32)__builtin_amdgcn_readlane((s32)a, 5) + (u64)(u32)__builtin_amdgcn_readlane((s32)a, 31) * 3; }, \
      { ALL(out[t] = in[(t & 32) + 5].a + (u64)in[(t & 32) + 31].a * 3;) })                                             \
    X(prefix, { u32 m = __builtin_amdgcn_ballot_w32(a & 1); out[i] = __builtin_amdgcn_mbcnt_lo(m, 100); },              \
      { for (u32 w = 0; w < 64; w += 32) { u32 n = 100; for (u32 l = 0; l < 32; l++) { out[w + l] = n; n += in[w + l].a & 1; } } }) \
    X(bpermute, { out[i] = (u32)__builtin_amdgcn_ds_bpermute((s32)(b * 4), (s32)a); }, { ALL(out[t] = in[(t & 32) + (in[t].b & 31)].a;) }) \
    X(permute, { out[i] = (u32)__builtin_amdgcn_ds_permute((s32)((t * 7 + 3) * 4), (s32)a); },                          \
      { ALL(out[(t & 32) + ((t * 7 + 3) & 31)] = in[t].a;) })                                     \
    X(swizzle_xor, { out[i] = (u32)__builtin_amdgcn_ds_swizzle((s32)a, 0x141f); }, { ALL(out[t] = in[t ^ 5].a;) })        \
    X(swizzle_quad, { out[i] = (u32)__builtin_amdgcn_ds_swizzle((s32)a, 0x801b); }, { ALL(out[t] = in[t ^ 3].a;) })       \
    X(dpp8, { out[i] = __builtin_amdgcn_mov_dpp8(a, 0x29cbb8); },                                                       \
      { ALL(out[t] = in[(t & ~7u) + (0x29cbb8u >> (t & 7) * 3 & 7)].a;) })                                              \
    X(dpp_bound, { out[i] = (u32)__builtin_amdgcn_update_dpp((s32)b, (s32)a, 0x112, 15, 15, 1); },                      \
      { ALL(out[t] = (t & 15) < 2 ? 0 : in[t - 2].a;) })                                                                \
    X(dpp_masks, { out[i] = (u32)__builtin_amdgcn_update_dpp((s32)b, (s32)a, 0x128, 1, 10, 0); },                       \
      { ALL(out[t] = (t & 16) == 0 && (t & 4) ? in[t ^ 8].a : in[t].b;) })                                              \
    X(dpp_sum, { u32 s = a; s += (u32)__builtin_amdgcn_update_dpp(0, (s32)s, 0x161, 15, 15, 1); s += (u32)__builtin_amdgcn_update_dpp(0, (s32)s, \
      0x162, 15, 15, 1); s += (u32)__builtin_amdgcn_update_dpp(0, (s32)s, 0x164, 15, 15, 1); s += (u32)__builtin_amdgcn_update_dpp(0, (s32)s, \
      0x168, 15, 15, 1); out[i] = s; }, { for (u32 r = 0; r < 64; r += 16) { u32 s = 0; for (u32 l = 0; l < 16; l++) s += in[r + l].a; \
      for (u32 l = 0; l < 16; l++) out[r + l] = s; } })                                                                 \
    X(dpp_fadd, { float s = f; s += flt((u32)__builtin_amdgcn_update_dpp(0, (s32)bits(s), 0x141, 15, 15, 1)); out[i] = bits(s); }, \
      { ALL(out[t] = bits(in[t].f + flt(bits(in[t ^ 7].f)));) })                                                        \
    X(permlane16, { out[i] = __builtin_amdgcn_permlane16(b, a, 0x76543210, 0x01234567, 0, 0); },                        \
      { ALL(u32 l = t & 15; out[t] = in[(t & ~15u) + (l < 8 ? l : 15 - l)].a;) })                                       \
    X(permlanex16, { out[i] = __builtin_amdgcn_permlanex16(b, a, 0x76543210, 0xfedcba98, 0, 0); }, { ALL(out[t] = in[t ^ 16].a;) }) \
    X(diverge, { u32 s = 0; for (u32 k = 0; k < (a & 15); k++) { if (k & b) { if (c >> k & 1) continue; s += k * 3; } else if (k == (c & 7)) \
      break; s = s * 2 + 1; } out[i] = s; }, { ALL(u32 s = 0; u32 a = in[t].a; u32 b = in[t].b; u32 c = in[t].c; for (u32 k = 0; k < (a & 15); \
      k++) { if (k & b) { if (c >> k & 1) continue; s += k * 3; } else if (k == (c & 7)) break; s = s * 2 + 1; } out[t] = s;) }) \
    X(leave_early, { if (a & 1) { out[i] = b; return; } out[i] = c + 1; }, { ALL(out[t] = in[t].a & 1 ? in[t].b : in[t].c + 1;) })

/* D(name, control, source lane l of the row, or -1: none, b stays) */
#define FOLD_DPP(D)                                                                                                    \
    D(quad_perm, 0x1b, l ^ 3) D(row_shl, 0x101, l < 15 ? l + 1 : -1) D(row_shr, 0x113, l >= 3 ? l - 3 : -1)               \
    D(row_ror, 0x125, (l - 5) & 15) D(row_mirror, 0x140, 15 - l) D(half_mirror, 0x141, l ^ 7) D(row_share, 0x155, 5)     \
    D(row_xmask, 0x166, l ^ 6)

#endif
