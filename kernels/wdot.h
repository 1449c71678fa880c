/* kernels/wdot.h
 * Weights for dot products: how an item (kernels/matvec_shared.h) of each type is loaded from its planes into
 * registers, and how it opens into words of four signed bytes, or floats, that meet x. `type` is a constant wherever
 * these functions are called, so that each call folds to the code of one type.
 *
 *     uint32_t w[WD_WORDS];
 *     wd_load(type, false, w, &m, item);                      item: row * items of a row + item of the row
 *     struct wd_scale sc = wd_scale(type, w, item);
 *     for (uint32_t s = 0; s < wd_subs(type); s++)            runs that share a scale
 *         wd_open(type, w, &sc, item, s, q, &dw, &mw);
 *
 * An item of the K types is a quarter of a block: with n = item / 2 % 2 and h = item % 2 it holds elements
 * 128 n + 32 s + 16 h + (0..15) for s < 4; run s is half of a block of x. Its words lie 16 h bytes into 32. Q4_K's and Q5_K's
 * (wd_by_blocks) are loaded like that too, as neighbouring lanes read 32 bytes together then, but have the scales of elements
 * 64 (item % 4) + 32 s + (0..31) for s < 2, and are opened where they are multiplied: by mv_dot_blocks and kernels/matmul8.c. */
#ifndef ZINC_KERNELS_WDOT_H
#define ZINC_KERNELS_WDOT_H

#include "kernels/kdev.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"
#include "kernels/wbook.h"

enum { WD_WORDS = 16, WD_SLOTS = 8, WD_SUBS = 4, WD_SUB_WORDS = 8, WD_OPEN_WORDS = 2 * WD_SUB_WORDS };

KD_FN bool wd_is_k(uint32_t type)
{
    return type == QT_Q2_K || type == QT_Q3_K || type == QT_Q4_K || type == QT_Q5_K || type == QT_Q6_K;
}

/* Elements of a run, which share a scale. */
KD_FN uint32_t wd_run(uint32_t type)
{
    return wd_is_k(type) || type == QT_Q8_0 || type == QT_IQ2_XS || type == QT_IQ2_S || type == QT_IQ1_M || type == QT_NVFP4 ? 16 : 32;
}

/* Items that a lane keeps in flight: as many as leave two work-groups of 256 their registers. */
KD_FN uint32_t wd_slots(uint32_t type)
{
    uint32_t elems = mv_item_elems(type);
    return type == QT_Q5_K || type == QT_Q6_K || elems > 64 ? 2 : elems == 64 ? 4 : 8;
}
/* Runs of an item, and words of four elements in a run. */
KD_FN uint32_t wd_subs(uint32_t type) { return mv_item_elems(type) < wd_run(type) ? 1 : mv_item_elems(type) / wd_run(type); }
KD_FN uint32_t wd_sub_words(uint32_t type) { return wd_run(type) / 4; }

/* ---- matrices ---- */

struct wd_mat {
    gpu_va p[PLANES_MAX];
    uint32_t items, n_in;
};

KD_FN struct wd_mat wd_mat(uint32_t type, gpu_va base, uint32_t n_rows, uint32_t n_in)
{
    struct wd_mat m = { { base, base, base, base }, mv_geom(type, n_in).items, n_in };
    if (mv_is_float(type))
        return m;
    struct planes p = planes_of((enum qtype)type);
    uint64_t blocks = (uint64_t)n_rows * (n_in / qtype_block((enum qtype)type));
    KD_UNROLL
    for (uint32_t i = 1; i < PLANES_MAX; i++)
        m.p[i] = m.p[i - 1] + blocks * p.f[i - 1].len;
    return m;
}

/* Rows that cannot be read by words: misaligned matrices, float rows that are no multiple of 16 bytes. */
KD_FN bool wd_is_ragged(uint32_t type, gpu_va base, uint32_t n_in)
{
    uint32_t row = type == QT_F32 ? 4 * n_in : mv_is_float(type) ? 2 * n_in : 0;
    return ((uint32_t)base | row) % 16 != 0;
}

/* ---- loads ---- */

/* Before a loop that is to stay one: where code should be short. */
#if defined(__clang__)
#define WD_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define WD_ROLLED
#endif

KD_FN void wd_get16(bool ragged, uint32_t *w, gpu_va p)
{
    if (ragged) { /* bytes enter at the top and move down: short code, as this is the rare way */
        uint32_t v[4] = { 0, 0, 0, 0 };
        WD_ROLLED
        for (uint32_t i = 0; i < 16; i++) {
            v[0] = v[0] >> 8 | v[1] << 24, v[1] = v[1] >> 8 | v[2] << 24, v[2] = v[2] >> 8 | v[3] << 24;
            v[3] = v[3] >> 8 | (uint32_t)KD_PTR(const uint8_t, p)[i] << 24;
        }
        w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
        return;
    }
    kd_u32x4 v = kd_load_once(KD_PTR(const kd_u32x4, p));
    w[0] = v[0], w[1] = v[1], w[2] = v[2], w[3] = v[3];
}
KD_FN uint32_t wd_get4(bool ragged, gpu_va p)
{
    if (!ragged)
        return kd_load_once4(KD_PTR(const uint32_t, p));
    uint32_t v = 0;
    WD_ROLLED
    for (uint32_t i = 0; i < 4; i++)
        v = v >> 8 | (uint32_t)KD_PTR(const uint8_t, p)[i] << 24;
    return v;
}
KD_FN void wd_get8(bool ragged, uint32_t *w, gpu_va p)
{
    if (ragged) {
        w[0] = wd_get4(true, p), w[1] = wd_get4(true, p + 4);
        return;
    }
    kd_u32x2 v = kd_load_once8(KD_PTR(const kd_u32x2, p));
    w[0] = v[0], w[1] = v[1];
}
KD_FN uint32_t wd_get2(bool ragged, gpu_va p)
{
    if (!ragged)
        return *KD_PTR(const uint16_t, p);
    KD_GLOBAL const uint8_t *b = KD_PTR(const uint8_t, p);
    return b[0] | (uint32_t)b[1] << 8;
}

/* The same where `is`; else w stays. */
KD_FN void wd_take16(bool ragged, bool is, uint32_t *w, gpu_va p)
{
    if (ragged || (__builtin_constant_p(is) && is))
        wd_get16(ragged, w, p);
    else
        kd_reload16(w, KD_PTR(const kd_u32x4, p), is);
}
KD_FN void wd_take8(bool ragged, bool is, uint32_t *w, gpu_va p)
{
    if (ragged || (__builtin_constant_p(is) && is))
        wd_get8(ragged, w, p);
    else
        kd_reload8(w, KD_PTR(const kd_u32x2, p), is);
}
KD_FN void wd_take4(bool ragged, bool is, uint32_t *w, gpu_va p)
{
    if (is)
        *w = wd_get4(ragged, p);
}
KD_FN void wd_take2(bool ragged, bool is, uint32_t *w, gpu_va p)
{
    if (is)
        *w = wd_get2(ragged, p);
}

/* Elements [k, k + n) of a row of floats of any alignment, zeros behind its end. */
KD_FN void wd_get_floats(uint32_t type, uint32_t *w, gpu_va row, uint32_t k, uint32_t n_in)
{
    for (uint32_t i = 0; i < 4; i++) {
        if (type == QT_F32)
            w[i] = k + i < n_in ? KD_PTR(const uint32_t, row)[k + i] : 0;
        else
            w[i] = (k + 2 * i < n_in ? KD_PTR(const uint16_t, row)[k + 2 * i] : 0u) |
                   (k + 2 * i + 1 < n_in ? (uint32_t)KD_PTR(const uint16_t, row)[k + 2 * i + 1] << 16 : 0u);
    }
}

/* Item i of the types of codebooks, a quarter of a block, and of digits, as kernels/wbook.h wants it. */
KD_FN void wd_load_book(uint32_t type, bool ragged, uint32_t *w, const struct wd_mat *m, uint64_t i)
{
    uint64_t b = i >> 2, in = i & 3;
    gpu_va p = 0;
    switch (type) {
    case QT_IQ2_XXS:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get2(ragged, m->p[1] + b * 2);
        return;
    case QT_IQ3_XXS:
        wd_get16(ragged, w, m->p[0] + i * 16);
        wd_get8(ragged, w + 4, m->p[1] + i * 8);
        w[6] = wd_get2(ragged, m->p[2] + b * 2);
        return;
    case QT_IQ3_S:
        p = m->p[1] + b * 44;
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get4(ragged, p + 8 + in * 8), w[5] = wd_get4(ragged, p + 12 + in * 8);
        w[6] = wd_get2(ragged, p + in * 2) | wk_u8(p, 40 + in) << 16;
        w[7] = wd_get2(ragged, m->p[2] + b * 2);
        return;
    case QT_IQ1_S:
        wd_get8(ragged, w, m->p[0] + i * 8);
        w[2] = wd_get4(ragged, m->p[1] + i * 4);
        w[4] = wd_get2(ragged, m->p[2] + b * 2);
        return;
    case QT_IQ2_XS:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get2(ragged, m->p[1] + i * 2);
        w[5] = wd_get2(ragged, m->p[2] + b * 2);
        return;
    case QT_IQ2_S:
        p = m->p[1] + b * 16 + in * 2;
        wd_get8(ragged, w, m->p[0] + b * 64 + in * 8);
        wd_get8(ragged, w + 2, m->p[0] + b * 64 + 32 + in * 8);
        w[4] = wd_get2(ragged, p) | wd_get2(ragged, p + 8) << 16;
        w[5] = wd_get2(ragged, m->p[2] + b * 2);
        return;
    case QT_IQ1_M:
        p = m->p[1] + b * 24;
        wd_get8(ragged, w, m->p[0] + i * 8);
        w[2] = wd_get4(ragged, p + in * 4);
        wd_get8(ragged, w + 4, p + 16);
        return;
    case QT_TQ2_0:
        wd_get16(ragged, w, m->p[0] + i * 32);
        wd_get16(ragged, w + 4, m->p[0] + i * 32 + 16);
        w[8] = wd_get2(ragged, m->p[1] + (i >> 1) * 2);
        return;
    default: /* TQ1_0 */
        wd_get16(ragged, w, m->p[0] + i * 48);
        wd_get16(ragged, w + 4, m->p[0] + i * 48 + 16);
        wd_get16(ragged, w + 8, m->p[0] + i * 48 + 32);
        w[12] = wd_get4(ragged, m->p[1] + i * 4);
        w[13] = wd_get2(ragged, m->p[2] + i * 2);
    }
}

/* Of an item of a K type what is no longer needed, while it is multiplied, when wd_scale has it (part 0), behind run
 * wd_part_run (1), and at the end (2), where `is`; else w stays. The codes are two pieces of 16 bytes, 32 bytes apart. */
KD_FN uint32_t wd_part_run(uint32_t type) { return type == QT_Q6_K ? 2 : 1; }
KD_FN void wd_load_part(uint32_t type, uint32_t part, bool ragged, bool is, uint32_t *w, const gpu_va *p, uint32_t gi)
{
    uint64_t i = gi, pair = i >> 1, half = i & 1, block = i >> 2;
    bool scales = part == 0, first = part == 1, last = part == 2;
    switch (type) {
    case QT_Q2_K:
        if (scales) {
            wd_take8(ragged, is, w + 4, p[1] + pair * 8);
            wd_take4(ragged, is, w + 6, p[2] + block * 4);
        }
        if (last)
            wd_take16(ragged, is, w, p[0] + i * 16);
        break;
    case QT_Q3_K:
        if (scales) {
            KD_UNROLL
            for (uint32_t k = 0; k < 3; k++)
                wd_take4(ragged, is, w + 8 + k, p[2] + block * 12 + 4 * k);
            wd_take2(ragged, is, w + 11, p[3] + block * 2);
        }
        if (last) {
            wd_take16(ragged, is, w, p[0] + i * 16);
            wd_take16(ragged, is, w + 4, p[1] + block * 32 + half * 16);
        }
        break;
    case QT_Q6_K:
        if (scales) {
            wd_take8(ragged, is, w + 12, p[2] + pair * 8);
            wd_take2(ragged, is, w + 14, p[3] + block * 2);
        }
        if (last)
            wd_take16(ragged, is, w + 8, p[1] + i * 16);
        break;
    default: /* Q4_K, Q5_K */
        if (scales)
            wd_take16(ragged, is, w + 8, p[type == QT_Q5_K ? 2 : 1] + block * 16);
        if (last && type == QT_Q5_K)
            wd_take16(ragged, is, w + 12, p[1] + block * 32 + half * 16);
    }
    if (type == QT_Q2_K || type == QT_Q3_K || scales)
        return;
    if (first)
        wd_take16(ragged, is, w, p[0] + pair * 64 + half * 16);
    else
        wd_take16(ragged, is, w + 4, p[0] + pair * 64 + half * 16 + 32);
}

/* Item gi of the matrix. */
KD_FN void wd_load(uint32_t type, bool ragged, uint32_t *w, const struct wd_mat *m, uint32_t gi)
{
    uint64_t i = gi, pair = i >> 1;
    switch (type) {
    case QT_Q2_K: case QT_Q3_K: case QT_Q4_K: case QT_Q5_K: case QT_Q6_K:
        KD_UNROLL
        for (uint32_t part = 0; part < 3; part++)
            wd_load_part(type, part, ragged, true, w, m->p, gi);
        break;
    case QT_Q8_0:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get2(ragged, m->p[1] + pair * 2);
        break;
    case QT_Q4_0: case QT_IQ4_NL:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get2(ragged, m->p[1] + i * 2);
        break;
    case QT_Q4_1:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get4(ragged, m->p[1] + i * 4);
        break;
    case QT_Q5_0:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get4(ragged, m->p[1] + i * 4);
        w[5] = wd_get2(ragged, m->p[2] + i * 2);
        break;
    case QT_Q5_1:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = wd_get4(ragged, m->p[1] + i * 4);
        w[5] = wd_get4(ragged, m->p[2] + i * 4);
        break;
    case QT_IQ4_XS:
        wd_get16(ragged, w, m->p[0] + i * 16);
        wd_get8(ragged, w + 4, m->p[1] + (i >> 3) * 8);
        break;
    case QT_MXFP4:
        wd_get16(ragged, w, m->p[0] + i * 16);
        w[4] = *KD_PTR(const uint8_t, m->p[1] + i);
        break;
    case QT_NVFP4:
        wd_get16(ragged, w, m->p[0] + i * 32);
        wd_get16(ragged, w + 4, m->p[0] + i * 32 + 16);
        w[8] = wd_get4(ragged, m->p[1] + i * 4);
        break;
    case QT_IQ2_XXS: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ1_M:
    case QT_TQ1_0: case QT_TQ2_0: wd_load_book(type, ragged, w, m, i); break;
    default:
        if (ragged) {
            uint32_t row = gi / m->items, n = mv_item_elems(type), size = type == QT_F32 ? 4 : 2;
            wd_get_floats(type, w, m->p[0] + (uint64_t)row * m->n_in * size, (gi - row * m->items) * n, m->n_in);
        } else {
            wd_get16(false, w, m->p[0] + i * 16);
        }
    }
}

/* ---- opening ---- */

/* Four bytes of a table of 16 for the low nibbles of w, four for the high ones. */
KD_FN void wd_lookup(uint32_t w, const uint32_t t[4], uint32_t *lo, uint32_t *hi)
{
#if defined(__NVPTX__)
    uint32_t at = w & 0x77777777u, side = (w & 0x88888888u) >> 1 | 0x32103210u;
    uint32_t a = __nvvm_prmt(__nvvm_prmt(t[0], t[1], at), __nvvm_prmt(t[2], t[3], at), side);
    uint32_t b = __nvvm_prmt(__nvvm_prmt(t[0], t[1], at >> 16), __nvvm_prmt(t[2], t[3], at >> 16), side >> 16);
    *lo = __nvvm_prmt(a, b, 0x6420);
    *hi = __nvvm_prmt(a, b, 0x7531);
#else
    uint32_t n[2] = { w & 0x0f0f0f0fu, w >> 4 & 0x0f0f0f0fu }, r[2] = { 0, 0 };
    for (uint32_t i = 0; i < 2; i++) {
#if defined(__AMDGCN__)
        uint32_t at = n[i] & 0x07070707u, upper = (n[i] >> 3 & 0x01010101u) * 255;
        r[i] = (__builtin_amdgcn_perm(t[1], t[0], at) & ~upper) | (__builtin_amdgcn_perm(t[3], t[2], at) & upper);
#else
        for (uint32_t k = 0; k < 32; k += 8)
            r[i] |= (t[n[i] >> (k + 2) & 3] >> 8 * (n[i] >> k & 3) & 255) << k;
#endif
    }
    *lo = r[0], *hi = r[1];
#endif
}

/* The low bytes of four words as one word. */
KD_FN uint32_t wd_pack(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
#if defined(__NVPTX__)
    return __nvvm_prmt(__nvvm_prmt(a, b, 0x0040), __nvvm_prmt(c, d, 0x0040), 0x5410);
#else
    return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | d << 24;
#endif
}

#define WD_BYTES4(a, b, c, d)                                                                                          \
    ((uint32_t)(uint8_t)(a) | (uint32_t)(uint8_t)(b) << 8 | (uint32_t)(uint8_t)(c) << 16 |                             \
     (uint32_t)(uint8_t)(d) << 24)
#define WD_TABLE(name, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                                 \
    KD_FN void wd_##name(uint32_t t[4])                                                                                \
    {                                                                                                                  \
        t[0] = WD_BYTES4(a, b, c, d), t[1] = WD_BYTES4(e, f, g, h);                                                    \
        t[2] = WD_BYTES4(i, j, k, l), t[3] = WD_BYTES4(m, n, o, p);                                                    \
    }
#define TABLE(type, name, n, ...) WD_TABLE(name, __VA_ARGS__)
#include "kernels/q_tables.inc"

/* f16 in the low, or high, half of a word. */
KD_FN float wd_f16(uint32_t w) { return f16_to_f32((uint16_t)w); }
KD_FN float wd_f16_high(uint32_t w) { return f16_to_f32((uint16_t)(w >> 16)); }

/* What is decoded once per item: the runs' codes for scale and minimum, a byte each, and what they are multiplied
 * by. */
struct wd_scale {
    uint32_t sc, mn;
    float d, m;
};

KD_FN struct wd_scale wd_scale(uint32_t type, const uint32_t *w, uint32_t gi)
{
    struct wd_scale s = { 0, 0, 0.0f, 0.0f };
    bool upper = gi & 2;
    uint32_t h8 = (gi & 1) * 8;
    switch (type) {
    case QT_Q2_K: { /* bytes 2 s + h of eight */
        uint32_t a = w[4] >> h8 & 0x00ff00ffu, b = w[5] >> h8 & 0x00ff00ffu;
        uint32_t all = wd_pack(a, a >> 16, b, b >> 16);
        s.sc = all & 0x0f0f0f0fu;
        s.mn = all >> 4 & 0x0f0f0f0fu;
        s.d = wd_f16(w[6]);
        s.m = -wd_f16_high(w[6]);
        break;
    }
    case QT_Q3_K: {
        uint32_t a = w[8] >> h8, b = w[9] >> h8, c = w[10] >> h8;
        uint32_t lo = wd_pack(a, a >> 16, b, b >> 16) >> (upper ? 4 : 0) & 0x0f0f0f0fu;
        uint32_t hi = wd_pack(c, c >> 16, c >> 2, c >> 18) >> (upper ? 4 : 0) & 0x03030303u;
        s.sc = lo | hi << 4;
        s.d = wd_f16(w[11]);
        break;
    }
    case QT_Q4_K:
    case QT_Q5_K:
        s.sc = upper ? (w[11] & 0x0f0f0f0fu) | (w[9] >> 2 & 0x30303030u) : w[9] & 0x3f3f3f3fu;
        s.mn = upper ? (w[11] >> 4 & 0x0f0f0f0fu) | (w[10] >> 2 & 0x30303030u) : w[10] & 0x3f3f3f3fu;
        s.sc >>= 2 * h8, s.mn >>= 2 * h8; /* two, in the low bytes */
        s.d = wd_f16(w[8]);
        s.m = -wd_f16_high(w[8]);
        break;
    case QT_Q6_K: {
        uint32_t a = w[12] >> h8, b = w[13] >> h8;
        s.sc = wd_pack(a, a >> 16, b, b >> 16);
        s.d = wd_f16(w[14]);
        break;
    }
    case QT_IQ4_XS: {
        uint32_t j = gi & 7, ls = (w[5] >> 4 * j & 15) | (w[4] >> (16 + 2 * j) & 3) << 4;
        s.d = wd_f16(w[4]) * (float)((int32_t)ls - 32);
        break;
    }
    case QT_MXFP4: s.d = e8m0_half_to_f32((uint8_t)w[4]); break;
    case QT_IQ2_XXS: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ1_M:
    case QT_NVFP4: break; /* wd_factor */
    case QT_TQ1_0: case QT_TQ2_0: s.d = wk_scale(type, w, gi, 0); break;
    case QT_Q4_1: s.d = wd_f16(w[4]), s.m = wd_f16_high(w[4]); break;
    case QT_Q5_0: s.d = wd_f16(w[5]); break;
    case QT_Q5_1: s.d = wd_f16(w[5]), s.m = wd_f16_high(w[5]); break;
    default: s.d = wd_f16(w[4]); break; /* Q8_0, Q4_0, IQ4_NL */
    }
    return s;
}

/* Nibbles that stand for the 16 values of a table as two words for each of x's: a nibble chooses among eight bytes of `low` if it is
 * below 8 and gets copies of the chosen byte's sign if it is not, and the other way round in `high`. The signs are the same for all
 * of a half that counts, so that the two bytes of a nibble can be made to add up to its value: 0 or -1 from one, and the value, or one
 * more, from the other. Codes of x lie as nibbles do then (struct mv_x). zero: what the compiler does not know to be 0, so that a word
 * stays in a register: an instruction has room for one constant, and a second one costs an instruction. */
KD_FN bool wd_is_nibbles(uint32_t type)
{
    return type == QT_IQ4_NL || type == QT_IQ4_XS || type == QT_MXFP4 || type == QT_NVFP4;
}
KD_FN void wd_open_nibbles(uint32_t type, const uint32_t *w, uint32_t s, uint32_t zero, uint32_t *q)
{
    const uint32_t n = type == QT_NVFP4 ? 2 : 4, one = 0x01010101u;
    const bool e2m1 = type == QT_MXFP4 || type == QT_NVFP4;
    uint32_t t[4];
    if (e2m1) { /* `high` is negative but for 0, and gives -1 where `low` counts */
        wd_e2m1_x2(t);
        t[0] += one - 1, t[1] += one;
    } else { /* `low` is negative, and gives -1 where `high` counts */
        wd_iq4_values(t);
        t[2] += one, t[3] += one;
    }
    t[0] += zero, t[2] += zero;
    KD_UNROLL
    for (uint32_t k = 0; k < n; k++) {
        uint32_t u = w[n * s + k], v = u ^ 0x88888888u;
        q[2 * k] = kd_pick4(t[0], t[1], u);
        q[2 * k + 1] = kd_pick4(t[0], t[1], u >> 16);
        q[2 * n + 2 * k] = kd_pick4(t[2], t[3], v);
        q[2 * n + 2 * k + 1] = kd_pick4(t[2], t[3], v >> 16);
    }
}

KD_FN bool wd_has_min(uint32_t type) { return qtype_has_min((enum qtype)type); }

/* What is added to the integer sum per unit of the run's sum of x: cheaper than to subtract from bytes. */
KD_FN int32_t wd_bias(uint32_t type, uint32_t s)
{
    switch (type) {
    case QT_Q4_0: return -8;
    case QT_Q5_0: return -16;
    case QT_Q3_K: return -4;
    case QT_Q6_K: return -32;
    case QT_TQ1_0: case QT_TQ2_0: return -1;
    default: return 0;
    }
}

/* The factor of run s of the types but the K types. */
KD_FN float wd_factor(uint32_t type, const uint32_t *w, const struct wd_scale *c, uint32_t gi, uint32_t s)
{
    if (type == QT_NVFP4)
        return ue4m3_half_to_f32(w[8] >> 8 * s & 255);
    return mv_book_bytes(type) ? wk_scale(type, w, gi, s) : c->d;
}

/* Run s: the words that meet x, and the factors of the canonical arithmetic; dw includes what undoes a scaling. */
KD_FN void wd_open(uint32_t type, const uint32_t *w, const struct wd_scale *c, uint32_t gi, uint32_t s, uint32_t *q,
                   float *dw, float *mw)
{
    uint32_t n4 = (gi & 2) * 2; /* 4 n */
    *dw = wd_factor(type, w, c, gi, s);
    *mw = c->m;
    if (wd_is_k(type)) {
        uint32_t sc = c->sc >> 8 * s & 255;
        int32_t signed_sc = type == QT_Q6_K ? (int8_t)sc : type == QT_Q3_K ? (int32_t)sc - 32 : (int32_t)sc;
        *dw = c->d * (float)signed_sc;
        *mw = c->m * (float)(c->mn >> 8 * s & 255);
    }
    switch (type) {
    case QT_Q2_K:
        for (uint32_t k = 0; k < 4; k++)
            q[k] = w[k] >> 2 * s & 0x03030303u;
        break;
    case QT_Q3_K:
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t h = w[4 + k] >> n4;
            q[k] = (w[k] >> 2 * s & 0x03030303u) | ((s < 2 ? h << (2 - s) : h >> (s - 2)) & 0x04040404u);
        }
        break;
    case QT_Q6_K:
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t v = w[(s & 1) * 4 + k] >> (s >> 1) * 4 & 0x0f0f0f0fu, h = w[8 + k];
            q[k] = v | ((s < 2 ? h << (4 - 2 * s) : h >> (2 * s - 4)) & 0x30303030u);
        }
        break;
    case QT_Q8_0:
        for (uint32_t k = 0; k < 4; k++)
            q[k] = w[k];
        break;
    case QT_Q5_0:
    case QT_Q5_1:
        for (uint32_t k = 0; k < 4; k++) {
            q[k] = (w[k] & 0x0f0f0f0fu) | ((w[4] >> 4 * k & 15) * 0x02040810u & 0x10101010u);
            q[k + 4] = (w[k] >> 4 & 0x0f0f0f0fu) | ((w[4] >> (16 + 4 * k) & 15) * 0x02040810u & 0x10101010u);
        }
        break;
    case QT_IQ4_NL:
    case QT_IQ4_XS:
    case QT_MXFP4: {
        uint32_t t[4];
        if (type == QT_MXFP4)
            wd_e2m1_x2(t);
        else
            wd_iq4_values(t);
        for (uint32_t k = 0; k < 4; k++)
            wd_lookup(w[k], t, &q[k], &q[k + 4]);
        break;
    }
    case QT_NVFP4: {
        uint32_t t[4];
        wd_e2m1_x2(t);
        for (uint32_t k = 0; k < 2; k++)
            wd_lookup(w[2 * s + k], t, &q[k], &q[k + 2]);
        break;
    }
    case QT_IQ2_XXS: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ1_S: case QT_IQ2_XS: case QT_IQ2_S: case QT_IQ1_M:
        wk_open(type, false, wd_sub_words(type), w, s, 0, q);
        break;
    case QT_TQ1_0: case QT_TQ2_0: wk_digits(type, w, s, q); break;
    default: /* Q4_0, Q4_1 */
        for (uint32_t k = 0; k < 4; k++) {
            q[k] = w[k] & 0x0f0f0f0fu;
            q[k + 4] = w[k] >> 4 & 0x0f0f0f0fu;
        }
    }
}

/* Element e of an item of floats. */
KD_FN float wd_float(uint32_t type, const uint32_t *w, uint32_t e)
{
    if (type == QT_F32)
        return f32_from_bits(w[e]);
    uint32_t h = w[e >> 1] >> (e & 1) * 16;
    return type == QT_F16 ? f16_to_f32((uint16_t)h) : f32_from_bits(e & 1 ? w[e >> 1] & 0xffff0000u : h << 16);
}

#endif
