/* tools/amdsim/isa/trans.h
 * What the transcendental unit of RDNA3 and RDNA4 answers: bits in, bits out, as the cards do it and not as libm
 * does.
 *
 *     w->v[dst][lane] = trans_rcp_f32(w->v[src][lane]);
 *
 * The f32 functions are within 1 ulp (sin and cos: a small absolute error), not correctly rounded, and do not look at
 * MODE's rounding. rcp, rsq, sqrt and log read subnormals as zero of the same sign; rcp and exp answer zero where the
 * result would be subnormal; sin and cos keep subnormals. exp and log are of base 2; sin and cos take turns (1.0 is a
 * full circle). A NaN comes back with its sign and payload, quieted; a negative number has no rsq, sqrt or log: the
 * answer is FFC00000. Modifiers (neg, abs, omod, clamp), DPP and MODE's flushing are the caller's.
 *
 * f16: the f32 function of the exact source (exp, log: before its rounding), rounded once, to nearest; subnormals are
 * kept. f64: rcp, rsq and sqrt are seeds for Newton steps, good to 2^-24.
 *
 * rcp, rsq, sqrt, exp and log of f32 reproduce every word and every digest over whole ranges that is published for
 * gfx1100 and gfx1201 (ROCm/rocm-systems, emulation/rocjitsu), and f64 follows the datapath described there. sin and
 * cos follow the same captures, but that model is not known to be exact everywhere. */
#ifndef AMDSIM_ISA_TRANS_H
#define AMDSIM_ISA_TRANS_H

#include <stdint.h>

uint32_t trans_rcp_f32(uint32_t x);
uint32_t trans_rcp_iflag_f32(uint32_t x); /* as rcp; the hardware's flag for integer division is not modelled */
uint32_t trans_rsq_f32(uint32_t x);
uint32_t trans_sqrt_f32(uint32_t x);
uint32_t trans_exp_f32(uint32_t x);
uint32_t trans_log_f32(uint32_t x);
uint32_t trans_sin_f32(uint32_t x);
uint32_t trans_cos_f32(uint32_t x);

uint16_t trans_rcp_f16(uint16_t x);
uint16_t trans_rsq_f16(uint16_t x);
uint16_t trans_sqrt_f16(uint16_t x);
uint16_t trans_exp_f16(uint16_t x);
uint16_t trans_log_f16(uint16_t x);
uint16_t trans_sin_f16(uint16_t x);
uint16_t trans_cos_f16(uint16_t x);

uint64_t trans_rcp_f64(uint64_t x);
uint64_t trans_rsq_f64(uint64_t x);
uint64_t trans_sqrt_f64(uint64_t x);

#endif
