/* tools/amdsim/isa/valu_lane.c: instructions where lanes meet, scalars are written or registers are counted. */
#include "tools/amdsim/isa/trans.h"
#include "tools/amdsim/isa/valu.h"

void valu_nop(struct wave *w, const struct inst *in)
{
}

/* Source 0 in lane l. */
static uint32_t lane_of(struct wave *w, const struct inst *in, uint32_t l)
{
    return in->src[0] >= OPND_VGPR ? w->v[in->src[0] - OPND_VGPR][l] : s_get(w, in, in->src[0]);
}

void valu_readfirstlane(struct wave *w, const struct inst *in)
{
    uint32_t exec = wave_exec(w);
    s_set(w, in->sdst, lane_of(w, in, exec ? (uint32_t)__builtin_ctz(exec) : 0));
}

/* EXEC does not matter to these two. */
void valu_readlane(struct wave *w, const struct inst *in)
{
    s_set(w, in->sdst, lane_of(w, in, s_get(w, in, in->src[1]) & 31));
}

void valu_writelane(struct wave *w, const struct inst *in)
{
    w->v[in->vdst][s_get(w, in, in->src[1]) & 31] = s_get(w, in, in->src[0]);
}

/* Lane l of a row takes lane select[l] of its row, or of the other one. opsel: 1 reads inactive lanes too, 2 answers
 * 0 where one is inactive; neither keeps the destination there. */
static void permlane(struct wave *w, const struct inst *in, bool other_row, const uint8_t select[WAVE_LANES])
{
    uint32_t exec = wave_exec(w), out[WAVE_LANES];
    const uint32_t *v = w->v[in->src[0] - OPND_VGPR];
    memcpy(out, w->v[in->vdst], sizeof out);
    for (int l = 0; l < WAVE_LANES; l++) {
        int from = ((l & 16) ^ (other_row ? 16 : 0)) | select[l];
        if (!(exec >> l & 1))
            continue;
        if ((in->opsel & 1) || exec >> from & 1)
            out[l] = v[from];
        else if (in->opsel & 2)
            out[l] = 0;
    }
    memcpy(w->v[in->vdst], out, sizeof out);
}

void valu_permlane16(struct wave *w, const struct inst *in)
{
    uint64_t nibbles = s_get(w, in, in->src[1]) | (uint64_t)s_get(w, in, in->src[2]) << 32;
    uint8_t select[WAVE_LANES];
    for (int l = 0; l < WAVE_LANES; l++)
        select[l] = nibbles >> 4 * (l & 15) & 15;
    permlane(w, in, in->op == 0x25c, select);
}

void valu_permlane16_var(struct wave *w, const struct inst *in)
{
    uint8_t select[WAVE_LANES];
    for (int l = 0; l < WAVE_LANES; l++)
        select[l] = w->v[in->src[1] - OPND_VGPR][l] & 15;
    permlane(w, in, in->op == 0x310, select);
}

static void swap(struct wave *w, uint32_t a, uint32_t b, uint32_t mask)
{
    for (uint32_t left = wave_exec(w); left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint32_t differ = (w->v[a][l] ^ w->v[b][l]) & mask;
        w->v[a][l] ^= differ;
        w->v[b][l] ^= differ;
    }
}

void valu_swap(struct wave *w, const struct inst *in)
{
    swap(w, in->vdst, in->src[0] - OPND_VGPR, ~0u);
}

/* Halves: bit 7 of the register's number. */
void valu_swap16(struct wave *w, const struct inst *in)
{
    uint32_t a = in->vdst & 127, b = (in->src[0] - OPND_VGPR) & 127;
    int a_at = in->vdst & 128 ? 16 : 0, b_at = (in->src[0] - OPND_VGPR) & 128 ? 16 : 0;
    for (uint32_t left = wave_exec(w); left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint32_t va = w->v[a][l] >> a_at & 0xffff, vb = w->v[b][l] >> b_at & 0xffff;
        w->v[a][l] = (w->v[a][l] & ~(0xffffu << a_at)) | vb << a_at;
        w->v[b][l] = (w->v[b][l] & ~(0xffffu << b_at)) | va << b_at;
    }
}

/* Registers counted from M0: the source's for movrels, the destination's for movreld, both for movrelsd and swaprel;
 * movrelsd_2 and swaprel have two counts, M0[9:0] for the source and M0[25:16] for the destination. */
void valu_movrel(struct wave *w, const struct inst *in)
{
    enum { MOVRELD = 0x42, MOVRELS, MOVRELSD, MOVRELSD_2 = 0x48, SWAPREL = 0x68 };
    uint32_t m0 = w->s[OPND_M0], src = 0, dst = in->vdst;
    bool two = in->op == MOVRELSD_2 || in->op == SWAPREL;
    dst += in->op == MOVRELS ? 0 : two ? m0 >> 16 & 0x3ff : m0;
    if (in->src[0] >= OPND_VGPR) {
        src = in->src[0] - OPND_VGPR + (in->op == MOVRELD ? 0 : two ? m0 & 0x3ff : m0);
        if (src >= w->n_vgpr) {
            wave_fault(w, ISA_FAULT_REGISTER, "M0 = %u leads to v%u, the wave has %u registers", m0, src, w->n_vgpr);
            return;
        }
    }
    if (dst >= w->n_vgpr) {
        wave_fault(w, ISA_FAULT_REGISTER, "M0 = %u leads to v%u, the wave has %u registers", m0, dst, w->n_vgpr);
        return;
    }
    if (in->op == SWAPREL) {
        swap(w, dst, src, ~0u);
        return;
    }
    for (uint32_t left = wave_exec(w); left; left &= left - 1) {
        int l = __builtin_ctz(left);
        w->v[dst][l] = in->src[0] >= OPND_VGPR ? w->v[src][l] : s_get(w, in, in->src[0]);
    }
}

/* Four masked sums of byte differences, each added to a register of source 2 and written to one of the
 * destination. */
void valu_mqsad_u32_u8(struct wave *w, const struct inst *in)
{
    uint32_t reg = in->src[0] - OPND_VGPR, out[4][WAVE_LANES];
    bool s0_vgpr = in->src[0] >= OPND_VGPR, s1_vgpr = in->src[1] >= OPND_VGPR, s2_vgpr = in->src[2] >= OPND_VGPR;
    uint64_t s0 = s0_vgpr ? 0 : valu_constant(w, in, in->src[0], T_B64);
    uint32_t s1 = s1_vgpr ? 0 : s_get(w, in, in->src[1]);
    for (int l = 0; l < WAVE_LANES; l++) {
        uint64_t a = s0_vgpr ? w->v[reg][l] | (uint64_t)w->v[reg + 1][l] << 32 : s0;
        uint32_t b = s1_vgpr ? w->v[in->src[1] - OPND_VGPR][l] : s1;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t sum =
                s2_vgpr ? w->v[in->src[2] - OPND_VGPR + i][l] : s_get(w, in, in->src[2] + (in->src[2] < 124 ? i : 0));
            for (uint32_t k = 0; k < 32; k += 8) {
                int32_t d = (int32_t)(a >> (8 * i + k) & 255) - (int32_t)(b >> k & 255);
                sum += b >> k & 255 ? (uint32_t)(d < 0 ? -d : d) : 0;
            }
            out[i][l] = sum;
        }
    }
    for (uint32_t left = wave_exec(w); left; left &= left - 1)
        for (uint32_t i = 0, l = (uint32_t)__builtin_ctz(left); i < 4; i++)
            w->v[in->vdst + i][l] = out[i][l];
}

/* The transcendental unit on a scalar; the result goes to an SGPR. Runs whatever EXEC is. */
void valu_s_trans(struct wave *w, const struct inst *in)
{
    static uint32_t (*const f32[])(uint32_t) = { trans_exp_f32, trans_log_f32, trans_rcp_f32, trans_rsq_f32,
                                                 trans_sqrt_f32 };
    static uint16_t (*const f16[])(uint16_t) = { trans_exp_f16, trans_log_f16, trans_rcp_f16, trans_rsq_f16,
                                                 trans_sqrt_f16 };
    bool half = in->op & 1;
    const struct float_fmt *f = half ? &F16 : &F32;
    uint32_t which = (in->op - 0x280) / 2;
    uint64_t v = valu_constant(w, in, in->src[0], half ? T_F16 : T_F32);
    if (half)
        v = v >> (in->src[0] < 128 && (in->opsel & 1) ? 16 : 0) & 0xffff;
    if (in->abs & 1)
        v = float_abs(f, v);
    if (in->neg & 1)
        v ^= float_sign(f);
    v = half ? f16[which]((uint16_t)v) : f32[which]((uint32_t)v);
    v = float_omod(f, v, in->omod, half ? float_mode_f16_f64(w->mode) : float_mode_f32(w->mode));
    s_set(w, in->sdst, (uint32_t)(in->clamp ? float_clamp(f, v, true) : v));
}
