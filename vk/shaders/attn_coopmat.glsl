/* vk/shaders/attn_coopmat.glsl
 * Attention of many rows on cooperative matrices: a subgroup has S's columns and O's in steps of CM_N. */
#include "attn_kv.glsl"
ZK_ARGS(kl_attn)
#define AP_FACTOR(x) (1.0 / (x))
#include "attn_prompt.glsl"
#define CM_MEM tile
#include "coopmat.glsl"

const uint NS = (BC / CM_N + PARTS - 1) / PARTS, NO = HD / CM_N / PARTS;

/* c's rows by D's: of two matrices, elements can only be divided in this language. */
#ifndef COOPMAT_LOOPS
#define SCALE(c)                                                                                                       \
    {                                                                                                                  \
        cm_c d;                                                                                                        \
        coopMatLoadNV(d, tile, AT_D + set * CM_M * DS, DS, false);                                                     \
        c = c / d;                                                                                                     \
    }
#else
#define SCALE(c)                                                                                                       \
    for (uint e = 0; e < CM_OWN; e++) {                                                                                \
        uint at = min(zk_lane() + e * ZK_WAVE, CM_M * CM_N - 1) / CM_N;                                                \
        c.v[e] /= uintBitsToFloat(tile[AT_D + (set * CM_M + at) * DS].x);                                              \
    }
#endif

#define AP_O                                                                                                           \
    cm_c o[NO];                                                                                                        \
    [[unroll]] for (uint n = 0; n < NO; n++)                                                                           \
        cm_clear(o[n]);

#define AP_SCORES                                                                                                      \
    if (part < BC / CM_N) {                                                                                            \
        cm_c s[NS];                                                                                                    \
        [[unroll]] for (uint n = 0; n < NS; n++)                                                                       \
            cm_clear(s[n]);                                                                                          \
        [[unroll]] for (uint d = 0; d < HD; d += CM_K) {                                                               \
            cm_a q;                                                                                                    \
            cm_load_a(q, set * CM_M * QS + d / 8, QS);                                                                 \
            [[unroll]] for (uint n = 0; n < NS; n++) {                                                                 \
                cm_b k;                                                                                                \
                cm_load_b(k, AT_KV + min(part + n * PARTS, BC / CM_N - 1) * CM_N * QS + d / 8, QS);                    \
                cm_mad(s[n], q, k);                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        [[unroll]] for (uint n = 0; n < NS; n++) {                                                                     \
            if (part + n * PARTS < BC / CM_N)                                                                          \
                cm_store_rows(s[n], AT_S + set * CM_M * SS + (part + n * PARTS) * (CM_N / 4), SS);                     \
        }                                                                                                              \
    }

#define AP_SCALE                                                                                                       \
    {                                                                                                                  \
        [[unroll]] for (uint n = 0; n < NO; n++)                                                                       \
            SCALE(o[n])                                                                                                \
    }

#define AP_VALUES                                                                                                      \
    [[unroll]] for (uint t = 0; t < BC; t += CM_K) {                                                                   \
        cm_a p;                                                                                                        \
        cm_load_a(p, AT_P + set * CM_M * PS + t / 8, PS);                                                              \
        [[unroll]] for (uint n = 0; n < NO; n++) {                                                                     \
            cm_b v;                                                                                                    \
            cm_load_b_rows(v, AT_KV + t * QS + (part * NO + n) * (CM_N / 8), QS);                                      \
            cm_mad(o[n], p, v);                                                                                        \
        }                                                                                                              \
    }

/* Through the subgroup's own piece of Q's memory. */
#define AP_LEAVE                                                                                                       \
    [[unroll]] for (uint n = 0; n < NO; n++) {                                                                         \
        uint mine = zk_wave() * CM_M * DS;                                                                             \
        cm_store_rows(o[n], mine, DS);                                                                                 \
        cm_sync()                                                                                                      \
        for (uint i = zk_lane(); i < CM_M * (CM_N / 4); i += ZK_WAVE) {                                                \
            uint pair = set * CM_M + i / (CM_N / 4), e = i % (CM_N / 4);                                               \
            ap_write4(pair, (part * NO + n) * CM_N + 4 * e, uintBitsToFloat(tile[mine + i / (CM_N / 4) * DS + e]));    \
        }                                                                                                              \
        cm_sync()                                                                                                      \
    }

void main()
{
    AP_MAIN
}
