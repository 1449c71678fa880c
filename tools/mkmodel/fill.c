/* Tensor contents. A counter-based generator: word i of a tensor is a hash of (seed, tensor name, i), so any range
 * can be made by any thread at any time. Tiny models draw floats and quantise them, so that files of different types
 * hold the same weights; big ones draw the blocks themselves, with scales that give the wanted standard deviation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "kernels/dequant.h"
#include "model/quant.h"
#include "model/quant_book.h"
#include "tools/mkmodel/mkmodel.h"

static uint64_t mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t tensor_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return mix64(h ^ mix64(seed + 0x9e3779b97f4a7c15u));
}

static uint64_t word(uint64_t key, uint64_t i)
{
    return mix64(key + i * 0x9e3779b97f4a7c15u);
}

/* 0 <= u < 1 */
static float unit(uint64_t w)
{
    return (float)(w >> 40) * 0x1p-24f;
}

/* Nearly normal with variance 1: the sum of eight 16-bit uniforms. No libm, so the same bits everywhere. */
static float gauss(uint64_t key, uint64_t i)
{
    uint64_t a = word(key, 2 * i), b = word(key, 2 * i + 1);
    int32_t s = 0;
    for (int k = 0; k < 64; k += 16)
        s += (int32_t)(a >> k & 0xffff) + (int32_t)(b >> k & 0xffff);
    return (float)(s - 4 * 65535) * (1 / 53509.92f);
}

static float rope_llama3(float base, float factor, uint64_t i, uint64_t n)
{
    const double low = 1, high = 4, old = 8192;
    double wavelength = 2 * M_PI * pow(base, (double)i / (double)n);
    if (wavelength < old / high)
        return 1;
    if (wavelength > old / low)
        return factor;
    double t = (old / wavelength - low) / (high - low);
    return (float)(1 / ((1 - t) / factor + t));
}

static void fill_floats(const struct mk_tensor *t, uint64_t key, uint64_t first, uint64_t n, float *x)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = first + k;
        float u;
        switch (t->fill) {
        case FILL_GAUSS: x[k] = t->a + t->b * gauss(key, i); break;
        case FILL_SIGNED:
            u = t->a + t->b * gauss(key, i);
            x[k] = word(~key, i) & 1 ? u : -u;
            break;
        case FILL_UNIFORM: x[k] = t->a + (t->b - t->a) * unit(word(key, i)); break;
        case FILL_SSM_A:
            u = unit(word(key, i));
            x[k] = -0.1f - 7.9f * u * u * u;
            break;
        case FILL_ROPE_LLAMA3: x[k] = rope_llama3(t->a, t->b, i, t->ne[0]); break;
        case FILL_ROPE_GEMMA4: x[k] = i < t->ne[0] / 4 ? 1.0f : 1e30f; break;
        case FILL_RAMP: x[k] = t->a + (t->b - t->a) * (float)i / (float)(t->ne[0] - 1); break;
        }
    }
}

/* ---- random blocks ---- */

/* How to make a type's scale: `rms` is the root mean square of uniformly random codes times the integer scales that
 * fill_block writes, `centre` the mean of the codes for types with a minimum. rms 0: a type that has no rule; its blocks
 * are quantised floats, which takes longer. */
struct block_rule {
    float rms, centre;
};

static struct block_rule block_rule(enum qtype t)
{
    switch (t) {
    case QT_Q4_0: return (struct block_rule){ 4.637f, 0 };
    case QT_Q4_1: return (struct block_rule){ 4.610f, 7.5f };
    case QT_Q5_0: return (struct block_rule){ 9.247f, 0 };
    case QT_Q5_1: return (struct block_rule){ 9.233f, 15.5f };
    case QT_Q8_0: return (struct block_rule){ 73.90f, 0 };
    case QT_IQ4_NL: return (struct block_rule){ 69.26f, 0 };
    case QT_MXFP4: case QT_NVFP4: return (struct block_rule){ 5.852f, 0 };
    case QT_Q2_K: return (struct block_rule){ 1.118f * 11.73f, 1.5f };
    case QT_Q3_K: return (struct block_rule){ 2.345f * 23.95f, 0 };
    case QT_Q4_K: return (struct block_rule){ 4.610f * 48.39f, 7.5f };
    case QT_Q5_K: return (struct block_rule){ 9.233f * 48.39f, 15.5f };
    case QT_Q6_K: return (struct block_rule){ 18.48f * 97.3f, 0 };
    case QT_IQ4_XS: return (struct block_rule){ 69.26f * 23.95f, 0 };
    default: return (struct block_rule){ 0, 0 };
    }
}

static void random_bytes(uint64_t *state, void *dst, size_t n)
{
    uint8_t *p = dst;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w = mix64(*state += 0x9e3779b97f4a7c15u);
        memcpy(p, &w, 8);
    }
    if (n) {
        uint64_t w = mix64(*state += 0x9e3779b97f4a7c15u);
        memcpy(p, &w, n);
    }
}

/* The integer scales: magnitudes in the upper half of their range; signed ones get random signs, minimums equal the
 * scales, so that every run has mean zero. The random bytes that lie there already supply the randomness. */
static void fill_scales(enum qtype t, uint8_t *block)
{
    if (t == QT_Q2_K) {
        blk_q2_k *b = (blk_q2_k *)block;
        for (int r = 0; r < 16; r++)
            b->scales[r] = (uint8_t)((8 | (b->scales[r] & 7)) * 0x11);
    } else if (t == QT_Q4_K || t == QT_Q5_K) {
        uint8_t *s = block + 4; /* behind d and dmin in both */
        for (int j = 0; j < 4; j++) {
            uint8_t lo = 32 | (s[j] & 31), hi = 32 | (s[j + 8] & 31);
            s[j] = s[j + 4] = (uint8_t)(lo | hi >> 4 << 6);
            s[j + 8] = (uint8_t)((hi & 15) * 0x11);
        }
    } else if (t == QT_Q6_K) {
        blk_q6_k *b = (blk_q6_k *)block;
        for (int r = 0; r < 16; r++) {
            int m = 64 | (b->scales[r] & 63);
            b->scales[r] = (int8_t)(b->scales[r] & 64 ? -m : m);
        }
    } else if (t == QT_Q3_K) { /* 6-bit scale minus 32: 0..15 is -32..-17, 48..63 is 16..31: both top bits equal */
        blk_q3_k *b = (blk_q3_k *)block;
        for (int k = 8; k < 12; k++)
            b->scales[k] = (uint8_t)((b->scales[k] & 0x55) * 3);
    } else if (t == QT_IQ4_XS) {
        blk_iq4_xs *b = (blk_iq4_xs *)block;
        b->scales_h = (uint16_t)((b->scales_h & 0x5555) * 3);
    }
}

/* Where d and m lie in the block: -1 is nowhere. */
static void factor_offsets(enum qtype t, int *d, int *m)
{
    *d = 0;
    *m = -1;
    switch (t) {
    case QT_Q4_1:
    case QT_Q5_1:
    case QT_Q4_K:
    case QT_Q5_K: *m = 2; break;
    case QT_Q2_K:
        *d = offsetof(blk_q2_k, d);
        *m = offsetof(blk_q2_k, dmin);
        break;
    case QT_Q3_K: *d = offsetof(blk_q3_k, d); break;
    case QT_Q6_K: *d = offsetof(blk_q6_k, d); break;
    default: break;
    }
}

static void put_u16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

/* MXFP4 has only powers of two: the one below the wanted scale or the one above, such that the mean square is
 * right. */
static uint8_t mxfp4_exponent(float d, float u)
{
    int e;
    float frac = frexpf(d, &e); /* d = frac 2^e, frac in [0.5, 1) */
    float p_up = (frac * frac - 0.25f) / 0.75f;
    return (uint8_t)(e - 1 + (u < p_up) + 128);
}

static void fill_blocks(const struct mk_tensor *t, uint64_t key, uint64_t first, uint64_t n, uint8_t *dst)
{
    enum qtype q = t->type;
    uint32_t bytes = qtype_block_bytes(q);
    struct block_rule rule = block_rule(q);
    int d_off, m_off;
    factor_offsets(q, &d_off, &m_off);
    bool legacy = qtype_block(q) == QK;
    for (uint64_t i = 0; i < n; i++, dst += bytes) {
        uint64_t state = word(key, first + i), w = mix64(state);
        random_bytes(&state, dst, bytes);
        if (qtype_is_book(q)) {
            quant_book_tame(q, dst, (w & 1 ? -t->b : t->b) * (0.8f + 0.4f * unit(w)));
            continue;
        }
        fill_scales(q, dst);
        float d = t->b / rule.rms * (0.8f + 0.4f * unit(w));
        if (q == QT_MXFP4) {
            dst[0] = mxfp4_exponent(d, unit(w << 24));
            continue;
        }
        if (q == QT_NVFP4) {
            for (int r = 0; r < 4; r++)
                dst[r] = (uint8_t)e4m3_from_f32(2 * d * (0.8f + 0.4f * unit(w << (16 + 8 * r))));
            continue;
        }
        if (m_off >= 0) /* Q4_1 and Q5_1 add their minimum, the K types subtract it */
            put_u16(dst + m_off, f16_from_f32(legacy ? -d * rule.centre : d * rule.centre));
        else if (w & 1)
            d = -d;
        put_u16(dst + d_off, f16_from_f32(d));
    }
}

int mk_fill(const struct mk_model *m, const struct mk_tensor *t, uint64_t first, uint64_t n, void *dst, struct err *e)
{
    uint64_t key = tensor_key(m->seed, t->name);
    uint32_t block = qtype_block(t->type);
    if (qtype_is_book(t->type) || (!m->p->tiny && block_rule(t->type).rms > 0)) {
        fill_blocks(t, key, first / block, n / block, dst);
        return 0;
    }
    enum { CHUNK = 4096 };
    float x[CHUNK];
    for (uint64_t i = 0; i < n; i += CHUNK) {
        uint64_t len = n - i < CHUNK ? n - i : CHUNK;
        fill_floats(t, key, first + i, len, x);
        int rc = quant_row(t->type, x, NULL, (uint8_t *)dst + qtype_row_bytes(t->type, i), len, e);
        if (rc) {
            err_context(e, "tensor '%s'", t->name);
            return rc;
        }
    }
    return 0;
}
