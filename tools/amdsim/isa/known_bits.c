/* Which bits of a vector result can be unknown: known_bits.h. */
#include "tools/amdsim/isa/known_bits.h"

/* Bits that source i has set, or may have, in one of the lanes. */
static uint32_t ones(const struct wave *w, const struct inst *in, int i, struct unknown u, uint32_t lanes)
{
    uint32_t code = in->src[i], all = u.bits ? u.part : 0;
    if (in->dpp != DPP_NONE && i == 0)
        return ~0u;
    if (code < OPND_VGPR)
        return all | (uint32_t)valu_constant(w, in, code, T_B32);
    for (; lanes; lanes &= lanes - 1)
        all |= w->v[code - OPND_VGPR][__builtin_ctz(lanes)];
    return all;
}

/* The value of a source that is the same in all lanes and known, as a shift; -1: it is not. */
static int shift_by(const struct wave *w, const struct inst *in, int i, struct unknown u, uint32_t mask)
{
    return in->src[i] >= OPND_VGPR || u.bits ? -1 : (int)(valu_constant(w, in, in->src[i], T_B32) & mask);
}

/* A carry goes up, never down. */
static uint32_t upwards(uint32_t part)
{
    return part ? ~0u << __builtin_ctz(part) : 0;
}

static uint32_t part_of(struct unknown u) { return u.bits ? u.part : 0; }

/* Results of 32 bits: the part, of sources with the parts p[]; all when nothing better is known. */
static uint32_t part_32(const struct wave *w, const struct inst *in, const struct valu_op *op,
                        const struct unknown_pair s[3], uint32_t lanes)
{
    uint32_t p[3] = { part_of(s[0].lo), part_of(s[1].lo), part_of(s[2].lo) };
    int by0 = shift_by(w, in, 0, s[0].lo, 31), by1 = shift_by(w, in, 1, s[1].lo, 31),
        by2 = shift_by(w, in, 2, s[2].lo, 31);
    uint32_t masked, width;
    switch (op - valu_ops) {
    case V_mov_b32: case V_permlane64_b32: case V_not_b32: case V_or_b32: case V_xor_b32: case V_xnor_b32:
    case V_or3_b32: case V_xor3_b32:
        return p[0] | p[1] | p[2];
    case V_and_b32: case V_and_or_b32:
        masked = (p[0] & ones(w, in, 1, s[1].lo, lanes)) | (p[1] & ones(w, in, 0, s[0].lo, lanes));
        return masked | p[2];
    case V_bfi_b32:
        if (by0 < 0)
            break;
        masked = (uint32_t)valu_constant(w, in, in->src[0], T_B32);
        return (p[1] & masked) | (p[2] & ~masked);
    case V_lshlrev_b32: return by0 < 0 ? ~0u : p[1] << by0;
    case V_lshrrev_b32: return by0 < 0 ? ~0u : p[1] >> by0;
    case V_ashrrev_i32: return by0 < 0 ? ~0u : (uint32_t)((int32_t)p[1] >> by0);
    case V_lshl_or_b32: return by1 < 0 ? ~0u : p[0] << by1 | p[2];
    case V_lshl_add_u32: return by1 < 0 ? ~0u : upwards(p[0] << by1 | p[2]);
    case V_add_lshl_u32: return by2 < 0 ? ~0u : upwards(p[0] | p[1]) << by2;
    case V_xad_u32: return upwards(p[0] | p[1] | p[2]);
    case V_alignbit_b32: return by2 < 0 ? ~0u : (uint32_t)(((uint64_t)p[0] << 32 | p[1]) >> by2);
    case V_bfe_u32: case V_bfe_i32:
        if (by1 < 0 || by2 < 0)
            break;
        width = (1u << by2) - 1;
        masked = p[0] >> by1 & width;
        return op == &valu_ops[V_bfe_i32] && masked >> (by2 ? by2 - 1 : 0) & 1 ? ~0u : masked;
    case V_add_nc_u32: case V_sub_nc_u32: case V_subrev_nc_u32: case V_add_co_u32: case V_sub_co_u32:
    case V_subrev_co_u32: case V_add3_u32: case V_mul_lo_u32:
        return in->clamp ? ~0u : upwards(p[0] | p[1] | p[2]);
    case V_cvt_f32_ubyte0: case V_cvt_f32_ubyte1: case V_cvt_f32_ubyte2: case V_cvt_f32_ubyte3:
        return p[0] >> 8 * (op - &valu_ops[V_cvt_f32_ubyte0]) & 0xff ? ~0u : 0;
    }
    return ~0u;
}

/* A selection is as unknown as what it selects. */
static struct unknown selected(const struct wave *w, const struct inst *in, const struct unknown_pair s[3])
{
    uint32_t second = s_get(w, in, in->src[2]);
    struct unknown u = unknown_or(unknown_or(s[0].lo, s[1].lo), s[2].lo);
    u.part = s[2].lo.bits ? ~0u : part_of(s[0].lo) | part_of(s[1].lo);
    u.bits = s[2].lo.bits | (s[1].lo.bits & second) | (s[0].lo.bits & ~second);
    return u;
}

/* Sums and shifts of 64 bits. */
static struct unknown_pair pair_of(const struct wave *w, const struct inst *in, const struct valu_op *op,
                                   const struct unknown_pair s[3], struct unknown any)
{
    struct unknown_pair out = { any, any };
    uint64_t p = part_of(s[1].lo) | (uint64_t)part_of(s[1].hi) << 32;
    int by = shift_by(w, in, 0, s[0].lo, 63);
    switch (op - valu_ops) {
    case V_mad_u64_u32: case V_mad_i64_i32: case V_mad_co_u64_u32: case V_mad_co_i64_i32:
        out.lo.part = upwards(part_of(s[0].lo) | part_of(s[1].lo) | part_of(s[2].lo));
        out.hi.part = out.lo.part ? ~0u : upwards(part_of(s[2].hi));
        return out;
    case V_lshlrev_b64: p = by < 0 ? ~0ull : p << by; break;
    case V_lshrrev_b64: p = by < 0 ? ~0ull : p >> by; break;
    case V_ashrrev_i64: p = by < 0 ? ~0ull : (uint64_t)((int64_t)p >> by); break;
    default: p = ~0ull;
    }
    out.lo.part = (uint32_t)p;
    out.hi.part = (uint32_t)(p >> 32);
    return out;
}

struct unknown_pair known_bits(const struct wave *w, const struct inst *in, const struct valu_op *op,
                               const struct unknown_pair s[3])
{
    struct unknown any = { 0 };
    for (int i = 0; i < 3; i++)
        any = unknown_or(any, unknown_or(s[i].lo, s[i].hi));
    struct unknown_pair out = { any, any };
    if (!any.bits)
        return out;
    if (op == &valu_ops[V_cndmask_b32] || op == &valu_ops[V_cndmask_b16])
        out.lo = selected(w, in, s);
    else if (valu_wide((enum valu_type)op->dst))
        out = pair_of(w, in, op, s, any);
    else
        out.lo.part = part_32(w, in, op, s, any.bits);
    if (!out.lo.part)
        out.lo.bits = 0;
    if (!out.hi.part)
        out.hi.bits = 0;
    return out;
}
