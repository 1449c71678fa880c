#version 460
/* Attention of many rows by multiply-adds, for devices without matrix units. O by items: ROWS rows of a set times eight
 * dimensions. */
#include "zk.glsl"
#include "attn_kv.glsl"
ZK_ARGS(kl_attn)
#define AP_FACTOR(x) (x)
#include "attn_prompt.glsl"
layout(constant_id = 9) const uint ROWS = 8;

const uint ITEMS = CM_M / ROWS * (HD / 8), NI = (ITEMS + SET_LANES - 1) / SET_LANES;
vec4 o[NI * ROWS * 2];

#define ITEM(i) (lane_of_set + (i) * SET_LANES)
#define ITEM_ROW(i) (set * CM_M + ITEM(i) / (HD / 8) * ROWS)

void zero()
{
    [[unroll]] for (uint i = 0; i < NI * ROWS * 2; i++)
        o[i] = vec4(0.0);
}

/* Blocks of four pairs and four positions. */
void scores()
{
    for (uint i = lane_of_set; i < CM_M / 4 * (BC / 4); i += SET_LANES) {
        uint r0 = set * CM_M + i % (CM_M / 4) * 4, p = i / (CM_M / 4);
        vec4 s[4] = { vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0) };
        for (uint d = 0; d < HD / 8; d++) {
            uvec4 q[4];
            [[unroll]] for (uint r = 0; r < 4; r++)
                q[r] = tile[(r0 + r) * QS + d];
            [[unroll]] for (uint c = 0; c < 4; c++) {
                uvec4 k = tile[AT_KV + (4 * p + c) * QS + d];
                [[unroll]] for (uint w = 0; w < 4; w++) {
                    vec2 y = unpackHalf2x16(k[w]);
                    [[unroll]] for (uint r = 0; r < 4; r++) {
                        vec2 x = unpackHalf2x16(q[r][w]);
                        s[r][c] = fma(x.x, y.x, s[r][c]);
                        s[r][c] = fma(x.y, y.y, s[r][c]);
                    }
                }
            }
        }
        [[unroll]] for (uint r = 0; r < 4; r++)
            tile[AT_S + (r0 + r) * SS + p] = floatBitsToUint(s[r]);
    }
}

void scale()
{
    [[unroll]] for (uint i = 0; i < NI; i++) {
        if (ITEM(i) < ITEMS) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                float by = uintBitsToFloat(tile[AT_D + (ITEM_ROW(i) + r) * DS].x);
                o[(i * ROWS + r) * 2] *= by;
                o[(i * ROWS + r) * 2 + 1] *= by;
            }
        }
    }
}

void values()
{
    [[unroll]] for (uint i = 0; i < NI; i++) {
        if (ITEM(i) < ITEMS) {
            for (uint run = 0; run < RUNS; run++) {
                uvec4 p[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    p[r] = tile[AT_P + (ITEM_ROW(i) + r) * PS + run];
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    uvec4 v = tile[AT_KV + (8 * run + j) * QS + ITEM(i) % (HD / 8)];
                    vec4 lo = vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y));
                    vec4 hi = vec4(unpackHalf2x16(v.z), unpackHalf2x16(v.w));
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        vec4 by = vec4(unpackHalf2x16(p[r][j / 2])[j % 2]);
                        o[(i * ROWS + r) * 2] = fma(by, lo, o[(i * ROWS + r) * 2]);
                        o[(i * ROWS + r) * 2 + 1] = fma(by, hi, o[(i * ROWS + r) * 2 + 1]);
                    }
                }
            }
        }
    }
}

void leave()
{
    [[unroll]] for (uint i = 0; i < NI; i++) {
        if (ITEM(i) < ITEMS) {
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                ap_write4(ITEM_ROW(i) + r, ITEM(i) % (HD / 8) * 8, o[(i * ROWS + r) * 2]);
                ap_write4(ITEM_ROW(i) + r, ITEM(i) % (HD / 8) * 8 + 4, o[(i * ROWS + r) * 2 + 1]);
            }
        }
    }
}

#define AP_O zero();
#define AP_SCORES scores();
#define AP_SCALE scale();
#define AP_VALUES values();
#define AP_LEAVE leave();

void main()
{
    AP_MAIN
}
