/* vk/shaders/xquant.glsl
 * The input of a decode product, the twin of kernels/xquant.h: normed, quantised to int8 in blocks of 32 (with their
 * scale and the sums of their halves) or kept as floats, and laid out in shared memory by every work-group for itself.
 * Four neighbouring lanes own a block, eight elements each ("a chunk").
 *
 * The includer declares, from its specialisation constants:
 *     const uint XQ_N_IN, XQ_N_PAD      elements of a row; as the lanes see it: a multiple of 256, the rest is 0
 *     const uint XQ_ROWS                rows, at most
 *     const bool XQ_NORM                rows are normed
 *     const bool XQ_QUANTS, XQ_FLOATS   what is wanted
 *     const bool XQ_UNEVEN              n_in is no multiple of 8, or rows of x or norm start at no multiple of 16 bytes
 *     const bool XQ_DIRECT              floats are not stored, but read from memory: where they would not fit
 * and calls
 *     xq_prepare(x, ldx, norm, rows, eps);      all of the work-group; `rows` <= XQ_ROWS rows at x, ldx floats apart;
 *                                               ends with a barrier
 *     xq_run v = xq_get(T, r, i, s);            what meets run s of item i of a row of weights of type T
 *     wd_floats f = xq_get_floats(T, r, i);     the same for an item of floats
 * Rows behind `rows` hold anything. A row's values do not depend on how many are prepared together. */
#ifndef XQUANT_GLSL
#define XQUANT_GLSL

#include "wdot.glsl"

/* Codes: 16 elements ("a half") are a piece of 16 bytes; half j is number (j >> 3) * 2 + (j & 1) of plane (j >> 1) & 3,
 * so that lanes that read their items' bytes side by side meet no bank twice, whatever the type. Floats: quads, quad i
 * is number i >> 1 of plane i & 1. */
const uint XQ_Q_PLANE = XQ_N_PAD / 64 + 2;
const uint XQ_Q_ROW = 4 * XQ_Q_PLANE;
const uint XQ_M_ROW = XQ_N_PAD / 32;
const uint XQ_F_PLANE = XQ_N_PAD / 8 + 4;
const uint XQ_F_ROW = 2 * XQ_F_PLANE;
const bool XQ_KEEP_FLOATS = XQ_FLOATS && !XQ_DIRECT;
shared uvec4 xq_codes[XQ_QUANTS ? XQ_ROWS * XQ_Q_ROW : 1];
shared uvec2 xq_meta[XQ_QUANTS ? XQ_ROWS * XQ_M_ROW : 1]; /* the scale; the sums of the halves, 16 bits each */
shared vec4 xq_quads[XQ_KEEP_FLOATS ? XQ_ROWS * XQ_F_ROW : 1];
shared float xq_red[XQ_ROWS * ZK_WAVES];

/* For XQ_DIRECT. */
uint64_t xq_x, xq_norm;
uint xq_ldx;
shared float xq_rms[XQ_ROWS];

struct xq_chunk {
    vec4 a, b;
};

/* Elements [i, i + 8) of n, zeros behind the end. */
xq_chunk xq_load(uint64_t p, uint i, uint n)
{
    xq_chunk c = xq_chunk(vec4(0.0), vec4(0.0));
    if (XQ_UNEVEN) {
        [[dont_unroll]] for (uint k = 0; k < 8; k++) { /* enter at the end and move down */
            float f = i + k < n ? zk_ro_f32(p).v[i + k] : 0.0;
            c = xq_chunk(vec4(c.a.yzw, c.b.x), vec4(c.b.yzw, f));
        }
    } else if (i < n) {
        c.a = zk_ro_f32x4(p + i * 4).v[0];
        c.b = zk_ro_f32x4(p + i * 4).v[1];
    }
    return c;
}

float xq_squares(xq_chunk c, float ss)
{
    [[unroll]] for (uint k = 0; k < 4; k++)
        ss = fma(c.a[k], c.a[k], ss);
    [[unroll]] for (uint k = 0; k < 4; k++)
        ss = fma(c.b[k], c.b[k], ss);
    return ss;
}

xq_chunk xq_normed(xq_chunk c, xq_chunk norm, float scale)
{
    precise vec4 a = c.a * scale, b = c.b * scale;
    precise xq_chunk n;
    n.a = a * norm.a;
    n.b = b * norm.b;
    return n;
}

/* Chunk c of row r as codes. Lanes whose chunk lies behind the end come along with zeros and store nothing. */
void xq_quant(uint r, uint c, xq_chunk v)
{
    uvec4 m = max(floatBitsToUint(v.a) & 0x7fffffffu, floatBitsToUint(v.b) & 0x7fffffffu);
    uint top = max(max(m.x, m.y), max(m.z, m.w));
    top = max(top, subgroupShuffleXor(top, 1));
    top = max(top, subgroupShuffleXor(top, 2));
    float amax = uintBitsToFloat(top), inv = zk_div(127.0, amax), d = zk_div(amax, 127.0);
    bool fault = top >= 0x7f800000u, none = fault || amax < 1e-30;
    if (none)
        d = fault ? uintBitsToFloat(0x7fc00000u) : 0.0;
    precise vec4 p = v.a * inv, q = v.b * inv;
    precise vec4 s = p + 12582912.0, t = q + 12582912.0; /* the code is the low byte */
    uvec4 e = floatBitsToUint(s) & 255, f = floatBitsToUint(t) & 255;
    uvec2 w = none ? uvec2(0) : uvec2(e.x | e.y << 8 | e.z << 16 | e.w << 24, f.x | f.y << 8 | f.z << 16 | f.w << 24);
    int sum = zk_dot4(w.x, 0x01010101u, zk_dot4(w.y, 0x01010101u, 0));
    sum += subgroupShuffleXor(sum, 1);
    int other = subgroupShuffleXor(sum, 2);
    uvec2 next = subgroupShuffleXor(w, 1);
    uint j = c >> 1;
    if (c < XQ_N_PAD / 8 && (c & 1) == 0)
        xq_codes[r * XQ_Q_ROW + (j >> 1 & 3) * XQ_Q_PLANE + (j >> 3) * 2 + (j & 1)] = uvec4(w, next);
    if (c < XQ_N_PAD / 8 && (c & 3) == 0)
        xq_meta[r * XQ_M_ROW + (c >> 2)] = uvec2(floatBitsToUint(d), (uint(sum) & 0xffffu) | uint(other) << 16);
}

void xq_store(uint r, uint c, xq_chunk v)
{
    if (XQ_QUANTS)
        xq_quant(r, c, v);
    if (XQ_KEEP_FLOATS && c < XQ_N_PAD / 8) {
        xq_quads[r * XQ_F_ROW + c] = v.a;
        xq_quads[r * XQ_F_ROW + XQ_F_PLANE + c] = v.b;
    }
}

/* Chunks that a work-item asks for at once. */
const uint XQ_BATCH = XQ_NORM ? 2 : 4;
/* Rounds of the work-group over a row. */
const uint XQ_ROUNDS = (XQ_N_PAD / 8 + ZK_THREADS * XQ_BATCH - 1) / (ZK_THREADS * XQ_BATCH);

uint xq_at(uint round, uint b) { return (round * XQ_BATCH + b) * ZK_THREADS + zk_tid(); }

/* Row r: its sum of squares while the first round's chunks are kept, then its codes. */
void xq_prepare_row(uint r, uint64_t x, uint64_t norm, float eps)
{
    xq_chunk v[4], g[4];
    float scale = 1.0;
    [[unroll]] for (uint b = 0; b < 4; b++)
        if (b < XQ_BATCH) {
            v[b] = xq_load(x, xq_at(0, b) * 8, XQ_N_IN);
            if (XQ_NORM)
                g[b] = xq_load(norm, xq_at(0, b) * 8, XQ_N_IN);
        }
    if (XQ_NORM) {
        float ss = 0.0;
        [[unroll]] for (uint b = 0; b < 4; b++)
            if (b < XQ_BATCH)
                ss = xq_squares(v[b], ss);
        for (uint i = xq_at(1, 0) * 8; i < XQ_N_IN; i += ZK_THREADS * 8)
            ss = xq_squares(xq_load(x, i, XQ_N_IN), ss);
        ss = zk_wave_sum(ss);
        if (zk_lane() == 0)
            xq_red[r * ZK_WAVES + zk_wave()] = ss;
        barrier();
        precise float sum = xq_red[r * ZK_WAVES];
        for (uint w = 1; w < ZK_WAVES; w++)
            sum += xq_red[r * ZK_WAVES + w];
        scale = zk_div(1.0, sqrt(zk_div(sum, float(XQ_N_IN)) + eps));
        if (XQ_DIRECT && zk_tid() == 0)
            xq_rms[r] = scale;
    }
    if (!XQ_QUANTS && !XQ_KEEP_FLOATS)
        return;
    for (uint round = 0; round < XQ_ROUNDS; round++) {
        [[unroll]] for (uint b = 0; b < 4; b++)
            if (b < XQ_BATCH) {
                if (XQ_NORM)
                    v[b] = xq_normed(v[b], g[b], scale);
                xq_store(r, xq_at(round, b), v[b]);
            }
        if (round + 1 < XQ_ROUNDS) {
            [[unroll]] for (uint b = 0; b < 4; b++)
                if (b < XQ_BATCH) {
                    v[b] = xq_load(x, xq_at(round + 1, b) * 8, XQ_N_IN);
                    if (XQ_NORM)
                        g[b] = xq_load(norm, xq_at(round + 1, b) * 8, XQ_N_IN);
                }
        }
    }
}

void xq_prepare(uint64_t x, uint ldx, uint64_t norm, uint rows, float eps)
{
    xq_x = x, xq_norm = norm, xq_ldx = ldx;
    for (uint r = 0; r < (XQ_ROWS == 1 ? 1 : rows); r++)
        xq_prepare_row(r, x + uint64_t(r) * ldx * 4, norm, eps);
    barrier();
}

/* ---- what meets weights ---- */

/* A run of x: its codes (hi: the second half of a block), its scale and the sum of its codes. */
struct xq_run {
    uvec4 lo, hi;
    float d;
    int sum;
};

xq_run xq_get(uint T, uint r, uint i, uint s)
{
    xq_run v;
    uint at = r * XQ_Q_ROW, block = i;
    v.hi = uvec4(0);
    if (wd_is_k(T)) {
        v.lo = xq_codes[at + s * XQ_Q_PLANE + i];
        block = (i >> 1) * 4 + s;
    } else if (wd_half(T)) {
        v.lo = xq_codes[at + (i >> 1 & 3) * XQ_Q_PLANE + (i >> 3) * 2 + (i & 1)];
        block = i >> 1;
    } else {
        at += (i & 3) * XQ_Q_PLANE + (i >> 2) * 2;
        v.lo = xq_codes[at];
        v.hi = xq_codes[at + 1];
    }
    uvec2 meta = xq_meta[r * XQ_M_ROW + block];
    v.d = uintBitsToFloat(meta.x);
    int lo = bitfieldExtract(int(meta.y), 0, 16), hi = int(meta.y) >> 16;
    v.sum = wd_is_k(T) ? ((i & 1) != 0 ? hi : lo) : lo + hi;
    return v;
}

wd_floats xq_get_floats(uint T, uint r, uint i)
{
    wd_floats f = wd_floats(vec4(0.0), vec4(0.0));
    if (XQ_DIRECT) {
        uint at = i * wd_elems(T);
        xq_chunk c = xq_load(xq_x + uint64_t(r) * xq_ldx * 4, at, XQ_N_IN);
        if (XQ_NORM)
            c = xq_normed(c, xq_load(xq_norm, at, XQ_N_IN), xq_rms[r]);
        f.lo = c.a, f.hi = c.b;
    } else if (T == QT_F32) {
        f.lo = xq_quads[r * XQ_F_ROW + (i & 1) * XQ_F_PLANE + (i >> 1)];
    } else {
        f.lo = xq_quads[r * XQ_F_ROW + i];
        f.hi = xq_quads[r * XQ_F_ROW + XQ_F_PLANE + i];
    }
    return f;
}

#endif
