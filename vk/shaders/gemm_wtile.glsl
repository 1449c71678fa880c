/* vk/shaders/gemm_wtile.glsl
 * Weights from planes (kernels/planes.h) to f16 tiles, the twin of kernels/wtile.h. Two work-items own a row of the tile
 * and go along k by units of 128 elements: one loads its half of a unit into registers, early, and later opens it in
 * four chunks of 32, 16 elements of each.
 *
 *     wt_src src = wt_row(base, n_rows, n_in, row);
 *     wt_raw r; wt_load(r, src, unit, h, chunks);            h: which of the two work-items
 *     wt_scale sc = wt_scales(r, unit, h);
 *     wt_open(r, sc, unit, h, c, p0, p1);                    chunk c: two pieces of eight halves,
 *                                                            that belong at 16-byte places wt_place(h, 0 and 1)
 *
 * A weight is (code - offset) d + m in f16, d and m rounded from f32, all times WT_GAIN so that small scales stay
 * normal numbers. F16 and BF16, which lie row by row, are the weight times WT_GAIN. The halves of four elements are in the order 0 2 1 3, as the bytes of a word come apart most
 * cheaply; the activations are in that order, too. */
layout(constant_id = 5) const uint TYPE = QT_Q4_K;

#define WT_GAIN 64.0

const bool WT_IQ4 = TYPE == QT_IQ4_NL || TYPE == QT_IQ4_XS;
const bool WT_KQ = QT_IS_K(TYPE), WT_MIN = QT_HAS_MIN(TYPE);
/* 16 elements side by side, or 8 and 8 that are 16 apart, as nibbles of a byte are. */
const bool WT_BYTES = TYPE == QT_Q8_0 || TYPE == QT_OPENED; /* codes are signed bytes */
const bool WT_HALF = TYPE == QT_F16 || TYPE == QT_BF16;
const bool WT_RUN16 = WT_KQ || WT_BYTES || WT_HALF;
const uint WT_BLOCK = QT_IS_256(TYPE) ? 256 : 32;
const uint WT_OFFSET = TYPE == QT_Q4_0 ? 8 : TYPE == QT_Q5_0 ? 16 : WT_BYTES ? 128
                     : TYPE == QT_Q3_K ? 4 : TYPE == QT_Q6_K ? 32 : 0;
/* Bytes of a block in each plane. */
const uint WT_LEN0 = QT_PLANE0(TYPE), WT_LEN1 = QT_PLANE1(TYPE), WT_LEN2 = QT_PLANE2(TYPE);

/* Codes of two nibbles of IQ4, low half for bits 0..3: they are looked up as a pair. */
shared uint wt_table[WT_IQ4 ? 256 : 1];
float wt_iq4_value(uint i)
{
    const float v[16] = float[](QT_iq4_values);
    return v[i];
}
/* All of the work-group, before the first wt_open and a barrier. */
void wt_begin()
{
    if (WT_IQ4)
        for (uint i = zk_tid(); i < 256; i += ZK_THREADS)
            wt_table[i] = packHalf2x16(vec2(wt_iq4_value(i & 15), wt_iq4_value(i >> 4)));
}

/* A row's part of each plane. */
struct wt_src { uint64_t p0, p1, p2, p3; };
wt_src wt_row(uint64_t base, uint n_rows, uint n_in, uint row)
{
    uint per_row = n_in / WT_BLOCK;
    uint64_t blocks = uint64_t(n_rows) * per_row, first = uint64_t(row) * per_row;
    wt_src s;
    if (WT_HALF) {
        s.p0 = base + uint64_t(row) * n_in * 2;
        return s;
    }
    s.p0 = base + first * WT_LEN0;
    base += blocks * WT_LEN0;
    s.p1 = base + first * WT_LEN1;
    base += blocks * WT_LEN1;
    s.p2 = base + first * WT_LEN2;
    base += blocks * WT_LEN2;
    s.p3 = base + first * 2;
    return s;
}

/* q: the widest plane; of types with blocks of 32 .xy of a chunk's block, .z and .w its small fields; of halves a chunk's first
 * eight, and q2 the other eight. */
struct wt_raw { uvec4 q[4], q2[4], h, s; };

uvec4 wt_get16(uint64_t p) { return zk_ro4(p).v[0]; }
uvec2 wt_get8(uint64_t p) { return zk_ro2(p).v[0]; }
uint wt_get4(uint64_t p) { return zk_ro(p).v[0]; }
uint wt_get2(uint64_t p) { return uint(zk_ro_u16(p).v[0]); }

void wt_load(inout wt_raw r, wt_src s, uint u, uint h, uint chunks)
{
    uint block = u >> 1;
    if (WT_HALF) {
        [[unroll]] for (uint c = 0; c < 4; c++) {
            if (c >= chunks)
                continue;
            r.q[c] = wt_get16(s.p0 + 256 * u + 64 * c + 32 * h);
            r.q2[c] = wt_get16(s.p0 + 256 * u + 64 * c + 32 * h + 16);
        }
    } else if (WT_KQ && WT_LEN0 == 64) {
        r.q[0] = wt_get16(s.p0 + 32 * u + 16 * h);
    } else if (WT_KQ) {
        r.q[0] = wt_get16(s.p0 + 64 * u + 16 * h);
        r.q[1] = wt_get16(s.p0 + 64 * u + 16 * h + 32);
    } else {
        [[unroll]] for (uint c = 0; c < 4; c++) {
            if (c >= chunks)
                continue;
            uint b = 4 * u + c; /* a block of 32, or such a run of IQ4_XS */
            if (WT_BYTES) {
                r.q[c] = wt_get16(s.p0 + 32 * b + 16 * h);
                r.s[c] = TYPE == QT_OPENED ? wt_get4(s.p1 + 8 * b + 4 * h) : wt_get2(s.p1 + 2 * b);
                continue;
            }
            r.q[c].xy = wt_get8(s.p0 + 16 * b + 8 * h);
            if (TYPE == QT_Q4_0 || TYPE == QT_IQ4_NL)
                r.q[c].z = wt_get2(s.p1 + 2 * b);
            if (TYPE == QT_Q4_1)
                r.q[c].z = wt_get4(s.p1 + 4 * b);
            if (TYPE == QT_MXFP4)
                r.q[c].z = uint(zk_ro_u8(s.p1 + b).v[0]);
            if (TYPE == QT_Q5_0 || TYPE == QT_Q5_1) {
                r.q[c].w = wt_get4(s.p1 + 4 * b);
                r.q[c].z = TYPE == QT_Q5_0 ? wt_get2(s.p2 + 2 * b) : wt_get4(s.p2 + 4 * b);
            }
        }
    }
    if (TYPE == QT_Q3_K || TYPE == QT_Q5_K)
        r.h = wt_get16(s.p1 + 32 * block + 16 * h);
    if (TYPE == QT_Q6_K)
        r.h = wt_get16(s.p1 + 32 * u + 16 * h);
    if (TYPE == QT_Q2_K)
        r.s = uvec4(wt_get8(s.p1 + 8 * u), wt_get4(s.p2 + 4 * block), 0);
    if (TYPE == QT_Q3_K)
        r.s = uvec4(wt_get4(s.p2 + 12 * block), wt_get4(s.p2 + 12 * block + 4), wt_get4(s.p2 + 12 * block + 8),
                    wt_get2(s.p3 + 2 * block));
    if (TYPE == QT_Q4_K)
        r.s = wt_get16(s.p1 + 16 * block);
    if (TYPE == QT_Q5_K)
        r.s = wt_get16(s.p2 + 16 * block);
    if (TYPE == QT_Q6_K)
        r.s = uvec4(wt_get8(s.p2 + 8 * u), wt_get2(s.p3 + 2 * block), 0);
    if (TYPE == QT_IQ4_XS)
        r.s.xy = wt_get8(s.p1 + 8 * block);
}

/* Of a unit of the K types: the scales and minima of its four runs, a byte each, and what they are multiplied by. */
struct wt_scale { uint sc, mn; float d, m; };

/* Bytes 0 and 2 of a and of b. */
uint wt_pack(uint a, uint b) { return (a & 255) | (a >> 8 & 0xff00) | (b & 255) << 16 | (b & 0xff0000) << 8; }

wt_scale wt_scales(wt_raw r, uint u, uint h)
{
    wt_scale k = wt_scale(0, 0, 0.0, 0.0);
    bool upper = (u & 1) != 0;
    if (TYPE == QT_Q2_K) {
        uint all = wt_pack(r.s.x >> 8 * h, r.s.y >> 8 * h);
        k = wt_scale(all & 0x0f0f0f0f, all >> 4 & 0x0f0f0f0f, zk_f16(r.s.z), -zk_f16_high(r.s.z));
    }
    if (TYPE == QT_Q3_K) {
        uint up = upper ? 4 : 0, c = r.s.z >> 8 * h;
        k.sc = (wt_pack(r.s.x >> 8 * h, r.s.y >> 8 * h) >> up & 0x0f0f0f0f) | (wt_pack(c, c >> 2) >> up & 0x03030303) << 4;
        k.d = zk_f16(r.s.w);
    }
    if (TYPE == QT_Q4_K || TYPE == QT_Q5_K) {
        k.sc = upper ? (r.s.w & 0x0f0f0f0f) | (r.s.y >> 2 & 0x30303030) : r.s.y & 0x3f3f3f3f;
        k.mn = upper ? (r.s.w >> 4 & 0x0f0f0f0f) | (r.s.z >> 2 & 0x30303030) : r.s.z & 0x3f3f3f3f;
        k.d = zk_f16(r.s.x);
        k.m = -zk_f16_high(r.s.x);
    }
    if (TYPE == QT_Q6_K) {
        k.sc = wt_pack(r.s.x >> 8 * h, r.s.y >> 8 * h);
        k.d = zk_f16(r.s.z);
    }
    return k;
}

/* 2^(e - 128), as MXFP4's values are doubled; its smallest are subnormal. */
float wt_e8m0_half(uint e) { return uintBitsToFloat(e < 2 ? 0x00200000 << e : (e - 1) << 23); }

f16vec2 wt_both(float v) { return f16vec2(float16_t(clamp(v * WT_GAIN, -65504.0, 65504.0))); }

void wt_factors(wt_raw r, wt_scale k, uint u, uint c, out f16vec2 d, out f16vec2 m)
{
    precise float df = 0.0, mf = 0.0;
    if (WT_KQ) {
        uint sc = bitfieldExtract(k.sc, int(8 * c), 8);
        df = k.d * (TYPE == QT_Q6_K ? float(bitfieldExtract(int(k.sc), int(8 * c), 8))
                    : TYPE == QT_Q3_K ? float(int(sc) - 32) : float(sc));
        mf = k.m * float(bitfieldExtract(k.mn, int(8 * c), 8));
    } else if (TYPE == QT_IQ4_XS) {
        uint j = 4 * (u & 1) + c, ls = (r.s.y >> 4 * j & 15) | (r.s.x >> (16 + 2 * j) & 3) << 4;
        df = zk_f16(r.s.x) * float(int(ls) - 32);
    } else if (TYPE == QT_OPENED) {
        df = uintBitsToFloat(r.s[c]);
    } else if (TYPE == QT_Q8_0) {
        df = zk_f16(r.s[c]);
    } else if (TYPE == QT_MXFP4) {
        df = wt_e8m0_half(r.q[c].z);
    } else {
        df = zk_f16(r.q[c].z);
        mf = zk_f16_high(r.q[c].z);
    }
    d = wt_both(df);
    m = wt_both(mf);
}

/* Word i of the chunk's 16 codes, a byte each. */
uint wt_codes(wt_raw r, uint u, uint h, uint c, uint i)
{
    uint half_bit = 4 * (u & 1) + c;
    if (TYPE == QT_Q2_K)
        return r.q[0][i] >> 2 * c & 0x03030303;
    if (TYPE == QT_Q3_K)
        return (r.q[0][i] >> 2 * c & 0x03030303) | (r.h[i] >> half_bit & 0x01010101) << 2;
    if (TYPE == QT_Q4_K)
        return r.q[c / 2][i] >> 4 * (c % 2) & 0x0f0f0f0f;
    if (TYPE == QT_Q5_K)
        return (r.q[c / 2][i] >> 4 * (c % 2) & 0x0f0f0f0f) | (r.h[i] >> half_bit & 0x01010101) << 4;
    if (TYPE == QT_Q6_K)
        return (r.q[c % 2][i] >> 4 * (c / 2) & 0x0f0f0f0f) | (r.h[i] >> 2 * c & 0x03030303) << 4;
    if (WT_BYTES)
        return r.q[c][i] ^ 0x80808080;
    uint nibbles = r.q[c][i % 2] >> 4 * (i / 2) & 0x0f0f0f0f;
    if (TYPE == QT_Q5_0 || TYPE == QT_Q5_1)
        nibbles |= ((r.q[c].w >> (8 * h + 4 * (i % 2) + 16 * (i / 2)) & 15) * 0x02040810 & 0x10101010);
    return nibbles;
}

/* Two codes, in the low bytes of the word's halves, as weights. */
uint wt_pair(uint codes, f16vec2 d, f16vec2 m)
{
    f16vec2 v;
    if (WT_IQ4) {
        v = unpackFloat2x16(wt_table[(codes | codes >> 12) & 255]);
    } else if (TYPE == QT_MXFP4) { /* the bits of e2m1 are those of a half times 2^14; doubled, as d is halved */
        uint bits = (codes & 0x00070007) << 9 | (codes & 0x00080008) << 12;
        v = unpackFloat2x16(bits) * f16vec2(32768.0);
    } else {
        v = unpackFloat2x16(codes | 0x64006400) - f16vec2(float16_t(1024 + WT_OFFSET));
    }
    return packFloat2x16(WT_MIN ? fma(v, d, m) : v * d);
}

/* Two halves, the low one first, as weights. */
uint wt_half_pair(uint lo, uint hi)
{
    vec2 v = TYPE == QT_F16 ? unpackHalf2x16(lo & 0xffff | hi << 16) : uintBitsToFloat(uvec2(lo << 16, hi << 16));
    return packFloat2x16(f16vec2(clamp(v * WT_GAIN, -65504.0, 65504.0)));
}
uvec4 wt_half_piece(uvec4 q)
{
    return uvec4(wt_half_pair(q.x, q.y), wt_half_pair(q.x >> 16, q.y >> 16), wt_half_pair(q.z, q.w),
                 wt_half_pair(q.z >> 16, q.w >> 16));
}

uint wt_place(uint h, uint piece) { return WT_RUN16 ? 2 * h + piece : h + 2 * piece; }

void wt_open(wt_raw r, wt_scale k, uint u, uint h, uint c, out uvec4 p0, out uvec4 p1)
{
    f16vec2 d, m;
    uint w[8];
    if (WT_HALF) {
        p0 = wt_half_piece(r.q[c]);
        p1 = wt_half_piece(r.q2[c]);
        return;
    }
    wt_factors(r, k, u, c, d, m);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = wt_codes(r, u, h, c, i);
        w[2 * i] = wt_pair(q & 0x00ff00ff, d, m);
        w[2 * i + 1] = wt_pair(q >> 8 & 0x00ff00ff, d, m);
    }
    p0 = uvec4(w[0], w[1], w[2], w[3]);
    p1 = uvec4(w[4], w[5], w[6], w[7]);
}
