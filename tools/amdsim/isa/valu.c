/* tools/amdsim/isa/valu.c: operands in, modifiers, one lane after the other, results out; and who runs which
 * opcode. */
#include "tools/amdsim/isa/valu.h"

#include <pthread.h>

#include "tools/amdsim/isa/dpp.h"
#include "tools/amdsim/isa/wmma.h"

/* ---- operands ---- */

/* Inline floats 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi). */
static const uint16_t inline_f16[] = { 0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118 };
static const uint32_t inline_f32[] = { 0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000, 0xc0000000,
                                       0x40800000, 0xc0800000, 0x3e22f983 };
static const uint64_t inline_f64[] = { 0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
                                       0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
                                       0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882 };

static bool is_64(enum valu_type t) { return t == T_B64 || t == T_I64 || t == T_F64; }
static bool is_16(enum valu_type t) { return t == T_B16 || t == T_F16; }

uint64_t valu_constant(const struct wave *w, const struct inst *in, uint32_t code, enum valu_type t)
{
    if (code >= 240 && code <= 248) {
        uint32_t i = code - 240;
        if (t == T_PKBF)
            return inline_f32[i] >> 16;
        return is_64(t) ? inline_f64[i] : is_16(t) || t == T_PKF ? inline_f16[i] : inline_f32[i];
    }
    if (code >= 128 && code <= 208) {
        int64_t v = code <= 192 ? (int64_t)code - 128 : 192 - (int64_t)code;
        return is_64(t) ? (uint64_t)v : (uint32_t)v;
    }
    if (code == OPND_LITERAL)
        return t == T_F64 ? (uint64_t)in->literal << 32 : t == T_I64 ? (uint64_t)(int32_t)in->literal : in->literal;
    return is_64(t) ? s_get64(w, in, code) : s_get(w, in, code);
}

/* Which half of which register a 16-bit operand is: opsel in VOP3, in the short forms the number's bit 7. */
static uint32_t half_of(const struct inst *in, uint32_t *reg, int opsel_bit)
{
    if (in->e64)
        return in->opsel >> opsel_bit & 1;
    uint32_t hi = *reg >> 7;
    *reg &= 127;
    return hi;
}

static void splat(uint64_t *out, uint64_t v)
{
    for (int l = 0; l < WAVE_LANES; l++)
        out[l] = v;
}

/* A register as DPP lets it be seen; narrows *write to the lanes that may write. */
static const uint32_t *through_dpp(struct wave *w, const struct inst *in, int i, const uint32_t *v, uint32_t *buf,
                                   uint32_t *write)
{
    if (i != 0 || in->dpp == DPP_NONE)
        return v;
    *write &= dpp_read(w, in, v, buf);
    return buf;
}

static void load_vgpr(struct wave *w, const struct inst *in, int i, enum valu_type t, uint64_t *out, uint32_t *write)
{
    uint32_t reg = in->src[i] - OPND_VGPR, buf[WAVE_LANES], hi_buf[WAVE_LANES];
    uint32_t half = is_16(t) ? half_of(in, &reg, i) : 0;
    const uint32_t *v = through_dpp(w, in, i, w->v[reg], buf, write);
    if (is_64(t)) {
        const uint32_t *hi = through_dpp(w, in, i, w->v[reg + 1], hi_buf, write);
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = v[l] | (uint64_t)hi[l] << 32;
    } else {
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = is_16(t) ? v[l] >> 16 * half & 0xffff : v[l];
    }
}

/* A packed operand: its low half is the one opsel picks, its high half opsel_hi's; neg_hi is in->abs. */
static void load_packed(const struct inst *in, int i, bool is_float, uint64_t *v)
{
    bool swizzled = in->format == F_VOP3P;
    uint32_t lo = swizzled ? in->opsel >> i & 1 : 0, hi = swizzled ? in->opsel_hi >> i & 1 : 1;
    uint32_t flip = is_float && swizzled ? (in->neg >> i & 1) << 15 | (uint32_t)(in->abs >> i & 1) << 31 : 0;
    for (int l = 0; l < WAVE_LANES; l++)
        v[l] = ((v[l] >> 16 * lo & 0xffff) | (v[l] >> 16 * hi & 0xffff) << 16) ^ flip;
}

static void load_mix(const struct inst *in, int i, struct float_mode m16, uint64_t *v)
{
    bool half = in->opsel_hi >> i & 1;
    for (int l = 0; l < WAVE_LANES; l++)
        if (half)
            v[l] = float_convert(&F16, &F32, v[l] >> 16 * (in->opsel >> i & 1) & 0xffff, m16.daz,
                                 (struct float_mode){ 0 });
}

static const struct float_fmt *format_of(enum valu_type t)
{
    switch (t) {
    case T_F16: case T_D16: case T_K16: case T_LO16: case T_HI16: case T_PKF:
        return &F16;
    case T_F32: case T_F32C: case T_MIX:
        return &F32;
    case T_F64: case T_F64C:
        return &F64;
    default:
        return NULL;
    }
}

static void load(struct wave *w, const struct inst *in, const struct valu_op *op, int i, uint64_t *out,
                 uint32_t *write)
{
    enum valu_type t = op->src[i];
    uint32_t reg = in->vdst, mask, half;
    switch (t) {
    case T_NONE:
        splat(out, 0);
        return;
    case T_VCC: case T_CIN:
        mask = t == T_VCC ? w->s[OPND_VCC] : s_get(w, in, in->src[2]);
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = mask >> l & 1;
        return;
    case T_D32: case T_PKD:
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = w->v[reg][l];
        return;
    case T_D16:
        half = half_of(in, &reg, 3);
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = w->v[reg][l] >> 16 * half & 0xffff;
        return;
    case T_K16: case T_K32:
        splat(out, t == T_K16 ? in->literal & 0xffff : in->literal);
        return;
    default:
        break;
    }
    if (in->src[i] >= OPND_VGPR) {
        load_vgpr(w, in, i, t, out, write);
    } else {
        uint64_t v = valu_constant(w, in, in->src[i], t);
        bool is_reg = in->src[i] < 128;
        splat(out, is_16(t) ? v >> (is_reg && in->opsel >> i & 1 ? 16 : 0) & 0xffff : v);
    }
    if (t == T_PKB || t == T_PKF || t == T_PKBF)
        load_packed(in, i, t != T_PKB, out);
    if (t == T_MIX)
        load_mix(in, i, float_mode_f16_f64(w->mode), out);
    const struct float_fmt *f = t == T_PKF ? NULL : format_of(t);
    if (f && ((in->neg | in->abs) >> i & 1))
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = (in->abs >> i & 1 ? float_abs(f, out[l]) : out[l]) ^ (in->neg >> i & 1 ? float_sign(f) : 0);
}

/* ---- results ---- */

static uint64_t modify(const struct wave *w, const struct inst *in, const struct lane *x, enum valu_type dst,
                       uint64_t v)
{
    const struct float_fmt *f = format_of(dst);
    if (!f)
        return v;
    struct float_mode m = f == &F32 ? x->m32 : x->m16;
    if (in->omod && (x->gfx12 || (m.ftz && !x->ieee)))
        v = float_omod(f, v & (f->bits == 64 ? ~0ull : (1ull << f->bits) - 1), in->omod, m);
    if (in->clamp)
        v = float_clamp(f, v, x->gfx12 || (w->mode >> 8 & 1));
    return v;
}

static void store(struct wave *w, const struct inst *in, enum valu_type dst, int l, uint64_t v)
{
    uint32_t reg = in->vdst, half;
    switch (dst) {
    case T_B16: case T_F16: case T_LO16: case T_HI16:
        half = dst == T_LO16 ? 0 : dst == T_HI16 ? 1 : half_of(in, &reg, 3);
        w->v[reg][l] = (w->v[reg][l] & (half ? 0x0000ffff : 0xffff0000)) | (uint32_t)(v & 0xffff) << 16 * half;
        break;
    case T_B64: case T_F64: case T_B64C: case T_F64C:
        w->v[reg + 1][l] = (uint32_t)(v >> 32);
        w->v[reg][l] = (uint32_t)v;
        break;
    default:
        w->v[reg][l] = (uint32_t)v;
    }
}

void valu_general(struct wave *w, const struct inst *in, const struct valu_op *op)
{
    uint64_t src[3][WAVE_LANES];
    uint32_t write = wave_exec(w), vcc = w->s[OPND_VCC], out = 0;
    struct lane x = {
        .clamp = in->clamp, .gfx12 = w->chip->gfx12, .ieee = w->chip->gfx12 || (w->mode >> 9 & 1),
        .neg = in->neg, .abs = in->abs, .opsel = in->opsel, .opsel_hi = in->opsel_hi, .chip = w->chip,
        .m32 = float_mode_f32(w->mode), .m16 = float_mode_f16_f64(w->mode),
    };
    for (int i = 0; i < 3; i++)
        load(w, in, op, i, src[i], &write);
    bool packed = op->dst == T_PKB || op->dst == T_PKF;
    for (uint32_t left = write; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        x.lane = (uint32_t)l;
        x.d = w->v[in->vdst][l];
        x.cout = vcc >> l & 1;
        uint64_t v = 0;
        for (int half = 0; half <= packed; half++) {
            uint64_t mask = packed ? 0xffff : ~0ull;
            x.a = src[0][l] >> 16 * half & mask;
            x.b = src[1][l] >> 16 * half & mask;
            x.c = src[2][l] >> 16 * half & mask;
            v |= (modify(w, in, &x, op->dst, op->lane(&x)) & mask) << 16 * half;
        }
        if (op->dst == T_CMP)
            out |= (uint32_t)v << l;
        else
            store(w, in, op->dst, l, v);
        out |= op->dst >= T_B32C && x.cout ? 1u << l : 0;
    }
    if (op->dst >= T_B32C || op->dst == T_CMP)
        s_set(w, in->sdst, out);
}

/* ---- opcodes ---- */

enum {
    N_VOP1 = 0x80,
    N_VOP2 = 0x40,
    N_VOP3 = 0x400,
    N_VOP3P = 0x80,
    N_CODES = N_VOP1 + N_VOP2 + 2 * N_VOP3 + N_VOP3P
};
enum { AT_VOP1 = 0, AT_VOP2 = AT_VOP1 + N_VOP1, AT_VOP3 = AT_VOP2 + N_VOP2, AT_VOP3SD = AT_VOP3 + N_VOP3,
       AT_VOP3P = AT_VOP3SD + N_VOP3 };
#define N_VOP3SD N_VOP3

#define IF_BOTH(c) true
#define IF_RDNA3(c) !(c)->gfx12
#define IF_RDNA4(c) (c)->gfx12

static const uint16_t codes_rdna3[N_CODES] = {
#define ROW_BOTH(at, id) [at] = id,
#define ROW_RDNA3(at, id) [at] = id,
#define ROW_RDNA4(at, id)
#define CODE(chips, format, op, name) ROW_##chips(AT_##format + op, V_##name)
#include "tools/amdsim/isa/valu_codes.def"
#undef ROW_RDNA3
#undef ROW_RDNA4
};
static const uint16_t codes_rdna4[N_CODES] = {
#define ROW_RDNA3(at, id)
#define ROW_RDNA4(at, id) [at] = id,
#include "tools/amdsim/isa/valu_codes.def"
};

static uint32_t code_id(const struct chip *c, enum inst_format f, uint32_t op)
{
    static const struct { uint16_t at, n; } range[F_COUNT] = {
        [F_VOP1] = { AT_VOP1, N_VOP1 }, [F_VOP2] = { AT_VOP2, N_VOP2 }, [F_VOP3] = { AT_VOP3, N_VOP3 },
        [F_VOP3SD] = { AT_VOP3SD, N_VOP3SD }, [F_VOP3P] = { AT_VOP3P, N_VOP3P },
    };
    if (op >= range[f].n)
        return V_NONE;
    return (c->gfx12 ? codes_rdna4 : codes_rdna3)[range[f].at + op];
}

/* VOPC: 0x80 for v_cmpx, a base per type, the relation; the order within valu_cmp.def is the opcodes'. */
static uint32_t compare_id(const struct chip *c, uint32_t op)
{
    static const uint16_t floats[] = { V_cmp_f_f16, V_cmp_f_f32, V_cmp_f_f64 };
    static const uint16_t integers[] = {V_cmp_f_i16, V_cmp_f_u16, V_cmp_f_i32, V_cmp_f_u32, V_cmp_f_i64, V_cmp_f_u64};
    op &= 0x7f;
    if (op >= 0x7d)
        return V_cmp_class_f16 + (op - 0x7d);
    if (op < 0x30)
        return c->gfx12 && (op % 16 == 0 || op % 16 == 15) ? V_NONE : floats[op / 16] + op % 16;
    if (op >= 0x60)
        return V_NONE;
    bool constant = op % 8 == 0 || op % 8 == 7;
    return constant && (c->gfx12 || op < 0x40) ? V_NONE : integers[(op - 0x30) / 8] + op % 8;
}

const struct valu_op *valu_op_find(const struct chip *c, enum inst_format f, uint32_t op)
{
    return &valu_ops[f == F_VOPC ? compare_id(c, op) : code_id(c, f, op)];
}

const struct valu_dual *valu_dual_find(const struct chip *c, uint32_t op)
{
    static const struct valu_dual both[] = {
        [0x00] = { "v_dual_fmac_f32", V_fmac_f32 }, [0x01] = { "v_dual_fmaak_f32", V_fmaak_f32 },
        [0x02] = { "v_dual_fmamk_f32", V_fmamk_f32 }, [0x03] = { "v_dual_mul_f32", V_mul_f32 },
        [0x04] = { "v_dual_add_f32", V_add_f32 }, [0x05] = { "v_dual_sub_f32", V_sub_f32 },
        [0x06] = { "v_dual_subrev_f32", V_subrev_f32 }, [0x07] = { "v_dual_mul_dx9_zero_f32", V_mul_dx9_zero_f32 },
        [0x08] = { "v_dual_mov_b32", V_mov_b32 }, [0x09] = { "v_dual_cndmask_b32", V_cndmask_b32 },
        [0x0a] = { "v_dual_max_f32", V_max_f32 }, [0x0b] = { "v_dual_min_f32", V_min_f32 },
        [0x0c] = { "v_dual_dot2acc_f32_f16", V_dot2acc_f32_f16 },
        [0x0d] = { "v_dual_dot2acc_f32_bf16", V_dot2acc_f32_bf16 },
        [0x10] = { "v_dual_add_nc_u32", V_add_nc_u32 }, [0x11] = { "v_dual_lshlrev_b32", V_lshlrev_b32 },
        [0x12] = { "v_dual_and_b32", V_and_b32 },
    };
    static const struct valu_dual rdna4[] = { { "v_dual_max_num_f32", V_max_num_f32 },
                                              { "v_dual_min_num_f32", V_min_num_f32 } };
    if (c->gfx12 && (op == 0x0a || op == 0x0b))
        return &rdna4[op - 0x0a];
    return op < sizeof both / sizeof *both && both[op].name ? &both[op] : NULL;
}

static const struct valu_fast *fast;

static void choose(void)
{
    fast = &valu_fast_plain;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        fast = &valu_fast_avx2;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        fast = &valu_fast_avx512;
#endif
}

inst_fn *valu_find(const struct chip *c, enum inst_format f, uint32_t op, const char **name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    if (f == F_VOP3P && op >= 0x40)
        return wmma_find(c, op, name);
    if (f == F_VOPD) {
        const struct valu_dual *x = valu_dual_find(c, op & 255), *y = valu_dual_find(c, op >> 8);
        if (!x || !y || (op & 255) > 0xd)
            return NULL;
        *name = x->name;
        return fast->dual;
    }
    uint32_t id = f == F_VOPC ? compare_id(c, op) : code_id(c, f, op);
    if (id == V_NONE)
        return NULL;
    *name = f == F_VOPC && (op & 0x80) ? valu_ops[id].namex : valu_ops[id].name;
    return fast->op[id] ? fast->op[id] : valu_ops[id].run;
}
