/* vk/shaders/dequant.glsl
 * One weight of any type out of its planes (kernels/planes.h), for kernels that read few of them: the embedding. The
 * roundings are those of kernels/dequant.h, to the bit; kernels/wblock.h is the twin.
 *
 *     float x = dq_at(type, a.w, n_rows * n_in, row * n_in + k)      type: a constant
 */
uint dq_u8(uint64_t p, uint64_t i) { return uint(zk_ro_u8(p + i).v[0]); }
uint dq_u16(uint64_t p, uint64_t i) { return uint(zk_ro_u16(p + i * 2).v[0]); }
float dq_f16(uint64_t p, uint64_t i) { return zk_f16(dq_u16(p, i)); }
float dq_i8(uint64_t p, uint64_t i) { return float(int(dq_u8(p, i)) << 24 >> 24); }

/* Byte i of 16 in four words. */
float dq_table(uvec4 t, uint i) { return float(bitfieldExtract(int(t[i / 4]), int(i % 4 * 8), 8)); }
float dq_iq4(uint i) { return dq_table(uvec4(QT_iq4_values_words), i); }
float dq_e2m1_x2(uint i) { return dq_table(uvec4(QT_e2m1_x2_words), i); }

/* Element i of 32 in 16 bytes: low nibbles first. */
uint dq_nibble(uint64_t p, uint64_t block, uint i) { return dq_u8(p, block * 16 + i % 16) >> 4 * (i / 16) & 15; }
uint dq_fifth(uint64_t p, uint64_t block, uint i) { return (dq_u8(p, block * 4 + i / 8) >> i % 8 & 1) << 4; }
/* Element i of 256 where runs 2g and 2g + 1 of 32 share 32 bytes, as Q4_K and Q5_K have it. */
uint dq_nibble_k(uint64_t p, uint64_t block, uint i)
{
    return dq_u8(p, block * 128 + 32 * (i / 64) + i % 32) >> 4 * (i / 32 & 1) & 15;
}
/* Element i of 256 in a block with two bits at 32 (i / 128) + i % 32, as Q2_K and Q3_K have it. */
uint dq_two_bits(uint64_t p, uint64_t block, uint i)
{
    return dq_u8(p, block * 64 + 32 * (i / 128) + i % 32) >> 2 * (i / 32 % 4) & 3;
}

/* q times the scale less the minimum of run j of a Q4_K or Q5_K block whose head (d, dmin, scales) lies at h. */
float dq_scaled(uint64_t h, uint j, uint q)
{
    uint sc, mn;
    if (j < 4) {
        sc = dq_u8(h, 4 + j) & 63;
        mn = dq_u8(h, 8 + j) & 63;
    } else {
        sc = dq_u8(h, 8 + j) & 15 | dq_u8(h, j) >> 6 << 4;
        mn = dq_u8(h, 8 + j) >> 4 | dq_u8(h, 4 + j) >> 6 << 4;
    }
    precise float scale = dq_f16(h, 0) * float(sc), least = dq_f16(h, 1) * float(mn), x = scale * float(q);
    precise float y = x - least;
    return y;
}

float dq_q3_k(uint64_t p, uint64_t n_blocks, uint64_t b, uint i)
{
    uint64_t masks = p + n_blocks * 64, s = masks + n_blocks * 32 + b * 12, d = masks + n_blocks * 44;
    uint r = i / 16, lo = r < 8 ? dq_u8(s, r) & 15 : dq_u8(s, r - 8) >> 4;
    int sc = int(lo | (dq_u8(s, 8 + r % 4) >> 2 * (r / 4) & 3) << 4) - 32;
    int high = (dq_u8(masks, b * 32 + i % 32) >> i / 32 & 1) != 0 ? 0 : 4;
    precise float scale = dq_f16(d, b) * float(sc), y = scale * float(int(dq_two_bits(p, b, i)) - high);
    return y;
}

float dq_q6_k(uint64_t p, uint64_t n_blocks, uint64_t b, uint i)
{
    uint64_t high = p + n_blocks * 128, s = high + n_blocks * 64, d = s + n_blocks * 16;
    uint part = i / 128, quarter = i / 32 % 4, l = i % 32;
    uint lo = dq_u8(p, b * 128 + 64 * part + 32 * (quarter & 1) + l) >> 4 * (quarter / 2) & 15;
    uint hi = dq_u8(high, b * 64 + 32 * part + l) >> 2 * quarter & 3;
    precise float scale = dq_f16(d, b) * dq_i8(s, b * 16 + i / 16), y = scale * float(int(lo | hi << 4) - 32);
    return y;
}

/* Element `at` of a matrix of n elements in all at p, counted row by row. */
float dq_at(uint type, uint64_t p, uint64_t n, uint64_t at)
{
    uint64_t s = at / 32, k = at / 256, ns = n / 32, nk = n / 256;
    uint i = uint(at) % 32, j = uint(at) % 256;
    precise float x = 0.0, y = 0.0;
    switch (type) {
    case QT_F32: return zk_ro_f32(p + at * 4).v[0];
    case QT_F16: return dq_f16(p, at);
    case QT_BF16: return zk_bf16(dq_u16(p, at));
    case QT_Q4_0: y = float(int(dq_nibble(p, s, i)) - 8) * dq_f16(p + ns * 16, s); return y;
    case QT_Q4_1:
        x = float(dq_nibble(p, s, i)) * dq_f16(p + ns * 16, 2 * s);
        y = x + dq_f16(p + ns * 16, 2 * s + 1);
        return y;
    case QT_Q5_0:
        y = float(int(dq_nibble(p, s, i) | dq_fifth(p + ns * 16, s, i)) - 16) * dq_f16(p + ns * 20, s);
        return y;
    case QT_Q5_1:
        x = float(dq_nibble(p, s, i) | dq_fifth(p + ns * 16, s, i)) * dq_f16(p + ns * 20, 2 * s);
        y = x + dq_f16(p + ns * 20, 2 * s + 1);
        return y;
    case QT_Q8_0: y = dq_i8(p, at) * dq_f16(p + ns * 32, s); return y;
    case QT_IQ4_NL: y = dq_f16(p + ns * 16, s) * dq_iq4(dq_nibble(p, s, i)); return y;
    case QT_MXFP4: { /* 2^(e - 128); the smallest two are subnormal */
        uint e = dq_u8(p + ns * 16, s);
        y = dq_e2m1_x2(dq_nibble(p, s, i)) * uintBitsToFloat(e < 2 ? 0x200000u << e : e - 1 << 23);
        return y;
    }
    case QT_Q2_K: {
        uint sc = dq_u8(p + nk * 64, k * 16 + j / 16);
        x = dq_f16(p + nk * 80, 2 * k) * float(sc & 15);
        x *= float(dq_two_bits(p, k, j));
        y = dq_f16(p + nk * 80, 2 * k + 1) * float(sc >> 4);
        y = x - y;
        return y;
    }
    case QT_Q3_K: return dq_q3_k(p, nk, k, j);
    case QT_Q4_K: return dq_scaled(p + nk * 128 + k * 16, j / 32, dq_nibble_k(p, k, j));
    case QT_Q5_K: {
        uint hi = dq_u8(p + nk * 128, k * 32 + j % 32) >> j / 32 & 1;
        return dq_scaled(p + nk * 160 + k * 16, j / 32, dq_nibble_k(p, k, j) + hi * 16);
    }
    case QT_Q6_K: return dq_q6_k(p, nk, k, j);
    case QT_IQ4_XS: {
        uint64_t h = p + nk * 128 + k * 8;
        uint r = j / 32, sc = dq_u8(h, 4 + r / 2) >> 4 * (r & 1) & 15 | (dq_u16(h, 1) >> 2 * r & 3) << 4;
        x = dq_f16(h, 0) * float(int(sc) - 32);
        y = x * dq_iq4(dq_u8(p, k * 128 + 16 * r + j % 16) >> 4 * (j / 16 & 1) & 15);
        return y;
    }
    default: return 0.0;
    }
}
