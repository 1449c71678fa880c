/* tools/amdsim/isa/float.h
 * IEEE arithmetic on bit patterns with the shader's own rounding and denormal modes, for f16, f32 and f64.
 *
 *     struct float_mode m = float_mode_f32(w->mode);
 *     d = float_fma(&F32, a, b, c, m);                  a, b, c, d: bits in the low 32 bits of uint64_t
 *
 * Everything is integer arithmetic on exact significands, rounded once: the host's floating-point unit, its mode and
 * its way with NaNs have no part in it. It is what every float instruction means; the vector ALU's quick paths use
 * the host only where both give the same bits.
 *
 * NaN: the first NaN operand in source order, quieted; an invalid operation makes FFC00000 (and its like), which in
 * an fma is decided before the addend is looked at. Both as RDNA3 and RDNA4 cards answer (captures published with
 * ROCm/rocm-systems, emulation/rocjitsu). */
#ifndef AMDSIM_ISA_FLOAT_H
#define AMDSIM_ISA_FLOAT_H

#include <stdbool.h>
#include <stdint.h>

struct float_fmt {
    uint8_t bits, man; /* width; bits of the fraction */
    int16_t bias;
};
extern const struct float_fmt F16, F32, F64;

enum float_round { ROUND_EVEN, ROUND_UP, ROUND_DOWN, ROUND_ZERO };

struct float_mode {
    uint8_t round;      /* enum float_round                            */
    bool daz, ftz;      /* subnormal inputs, outputs read as signed 0  */
    bool f16_ovfl;      /* f16 overflow gives the largest finite value */
};
struct float_mode float_mode_f32(uint32_t mode); /* of the MODE register: single; half and double */
struct float_mode float_mode_f16_f64(uint32_t mode);

static inline uint64_t float_sign(const struct float_fmt *f) { return 1ull << (f->bits - 1); }
static inline uint64_t float_inf(const struct float_fmt *f)
{
    return (float_sign(f) - 1) & ~((1ull << f->man) - 1);
}
static inline uint64_t float_quiet(const struct float_fmt *f) { return 1ull << (f->man - 1); }
static inline uint64_t float_abs(const struct float_fmt *f, uint64_t x) { return x & (float_sign(f) - 1); }
static inline bool float_is_nan(const struct float_fmt *f, uint64_t x) { return float_abs(f, x) > float_inf(f); }
static inline bool float_is_snan(const struct float_fmt *f, uint64_t x)
{
    return float_is_nan(f, x) && !(x & float_quiet(f));
}
static inline uint64_t float_default_nan(const struct float_fmt *f)
{
    return float_sign(f) | float_inf(f) | float_quiet(f);
}
static inline uint64_t float_one(const struct float_fmt *f) { return (uint64_t)f->bias << f->man; }
uint64_t float_daz(const struct float_fmt *f, uint64_t x, struct float_mode m); /* x, or 0 for a subnormal if m.daz */

uint64_t float_add(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m);
uint64_t float_mul(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m);
uint64_t float_fma(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, struct float_mode m);
/* (a * b + c) * 2^scale with one rounding; subnormal inputs are kept. */
uint64_t float_fma_scaled(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, int scale,
                          struct float_mode m);
/* a * b + c of format f, rounded once to the narrower t. */
uint64_t float_fma_narrow(const struct float_fmt *f, const struct float_fmt *t, uint64_t a, uint64_t b, uint64_t c,
                          struct float_mode m);
/* The bits of significand * 2^exp. */
uint64_t float_make(const struct float_fmt *f, bool neg, unsigned __int128 significand, int exp, struct float_mode m);
uint64_t float_ldexp(const struct float_fmt *f, uint64_t x, int32_t n, struct float_mode m);
/* daz is of the source's class, rounding and ftz of the destination's. */
uint64_t float_convert(const struct float_fmt *from, const struct float_fmt *to, uint64_t x, bool daz,
                       struct float_mode m);
uint64_t float_from_int(const struct float_fmt *f, bool neg, uint64_t magnitude, struct float_mode m);

/* To an integer of [lo, hi]: saturates, NaN gives 0. x is rounded in direction `how`. */
int64_t float_to_int(const struct float_fmt *f, uint64_t x, enum float_round how, int64_t lo, int64_t hi);

uint64_t float_round_int(const struct float_fmt *f, uint64_t x, enum float_round how, struct float_mode m);
uint64_t float_fract(const struct float_fmt *f, uint64_t x, struct float_mode m);
int32_t float_frexp_exp(const struct float_fmt *f, uint64_t x, struct float_mode m);
uint64_t float_frexp_mant(const struct float_fmt *f, uint64_t x, struct float_mode m);

/* -1 less, 0 equal, 1 greater, 2 unordered; -0 equals +0. */
int float_compare(const struct float_fmt *f, uint64_t a, uint64_t b, struct float_mode m);
/* The class bits of v_cmp_class: 0 sNaN, 1 qNaN, 2 -inf, 3 -normal, 4 -subnormal, 5 -0, 6 +0, 7 .. 9 +inf. */
uint32_t float_class(const struct float_fmt *f, uint64_t x);

/* Which NaN wins: NUMBER gives the number (v_min_num), FIRST the first NaN quieted (v_minimum), IEEE a signaling one
 * quieted or else the number (v_min of gfx11 with MODE.IEEE), LEGACY the number and NaNs untouched (without it). -0
 * is below +0 in all of them. */
enum float_nan_rule { NAN_NUMBER, NAN_FIRST, NAN_IEEE, NAN_LEGACY };
uint64_t float_min(const struct float_fmt *f, uint64_t a, uint64_t b, enum float_nan_rule r, struct float_mode m);
uint64_t float_max(const struct float_fmt *f, uint64_t a, uint64_t b, enum float_nan_rule r, struct float_mode m);
uint64_t float_med3(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, enum float_nan_rule r,
                    struct float_mode m);

/* The division macro's parts; a: value to scale, d: denominator, n: numerator. */
uint64_t float_div_scale(const struct float_fmt *f, uint64_t a, uint64_t d, uint64_t n, bool *post,
                         struct float_mode m);
uint64_t float_div_fmas(const struct float_fmt *f, uint64_t a, uint64_t b, uint64_t c, bool post,
                        struct float_mode m);
uint64_t float_div_fixup(const struct float_fmt *f, uint64_t q, uint64_t d, uint64_t n, struct float_mode m);

/* Output modifiers. omod: 1 times 2, 2 times 4, 3 halved. */
uint64_t float_omod(const struct float_fmt *f, uint64_t x, uint32_t omod, struct float_mode m);
uint64_t float_clamp(const struct float_fmt *f, uint64_t x, bool nan_to_zero);

/* OCP E4M3 (fp8) and E5M2 (bf8). sat: MODE.FP16_OVFL; random: the 32 bits that v_cvt_sr_* adds below the kept
 * ones. */
enum float8 { FP8, BF8 };
uint32_t float8_to_f32(enum float8 t, uint32_t byte);
uint32_t float8_from_f32(enum float8 t, uint32_t f32, bool sat);
uint32_t float8_from_f32_sr(enum float8 t, uint32_t f32, uint32_t random, bool sat);

#endif
