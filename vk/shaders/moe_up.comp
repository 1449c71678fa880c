#version 460
/* MOE_UP, for few rows: y = act(gate x', up x') of the chosen experts. Grid x: work-groups that share an expert, y:
 * choices, z: rows. Work-groups ask for their first weights, prepare x for themselves, and their subgroups take tiles
 * of PAIRS times ABREAST rows of both matrices. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_moe_up)

#include "types.glsl" /* T0 of gate, T1 of up */
layout(constant_id = 4) const uint LANES = 32;
layout(constant_id = 5) const uint XQ_N_IN = 2048;
layout(constant_id = 6) const uint XQ_N_PAD = 2048;
layout(constant_id = 7) const uint PAIRS = 2; /* rows of a lane: 1 or 2 */
layout(constant_id = 8) const uint AHEAD = 1;
layout(constant_id = 9) const uint FLAGS = 0; /* vk/lower_moe.c */
const bool XQ_NORM = (FLAGS & 2) != 0, RAGGED = (FLAGS & 4) != 0, XQ_DIRECT = (FLAGS & 8) != 0;
const bool XQ_QUANTS = (FLAGS & 16) != 0, XQ_FLOATS = (FLAGS & 32) != 0, WD_TABLE = (FLAGS & 64) != 0;
const bool XQ_UNEVEN = (FLAGS & 128) != 0;
const uint XQ_ROWS = 1;

#include "moe_dot.glsl"

/* The expert's matrices. */
wd_mat gate, up;

uint row_of(uint tile, uint p) { return (tile * PAIRS + p) * ABREAST + moe_side(); }

/* A step's items: gate, up, gate, up. */
void fetch(uint tile, uint step, out wd_item w[4])
{
    [[unroll]] for (uint p = 0; p < 2; p++)
        if (p < PAIRS) {
            uint row = min(row_of(tile, p), a.n_ff - 1);
            if (step < moe_steps(T0))
                w[2 * p] = wd_load(T0, RAGGED, wd_row(T0, gate, row, XQ_N_IN), moe_item(T0, step), XQ_N_IN);
            if (step < moe_steps(T1))
                w[2 * p + 1] = wd_load(T1, RAGGED, wd_row(T1, up, row, XQ_N_IN), moe_item(T1, step), XQ_N_IN);
        }
}

void dot_step(uint step, wd_item w[4], inout float sum[16])
{
#if ZK_MIXED
    if (T0 != T1) {
        float g[16], u[16];
        wd_item wg[4] = { w[0], w[2], w[0], w[2] }, wu[4] = { w[1], w[3], w[1], w[3] };
        [[unroll]] for (uint p = 0; p < 2; p++)
            g[p] = sum[2 * p], u[p] = sum[2 * p + 1];
        if (step < moe_steps(T0))
            mv_dot(T0, PAIRS, 1, true, wg, moe_item(T0, step), moe_at(step), g);
        if (step < moe_steps(T1))
            mv_dot(T1, PAIRS, 1, true, wu, moe_item(T1, step), moe_at(step), u);
        [[unroll]] for (uint p = 0; p < 2; p++)
            sum[2 * p] = g[p], sum[2 * p + 1] = u[p];
        return;
    }
#endif
    mv_dot(T0, 2 * PAIRS, 1, true, w, moe_item(T0, step), moe_at(step), sum);
}

void main()
{
    uint choice = gl_WorkGroupID.y, r = gl_WorkGroupID.z, pair = r * a.k + choice;
    uint e = moe_expert(a.ids, pair, a.n_expert); /* of rows that are not, too */
    if (!moe_has_row(a.step, r))
        return;
    const uint steps = max(moe_steps(T0), moe_steps(T1));
    uint tiles = zk_div_up(a.n_ff, PAIRS * ABREAST), stride = gl_NumWorkGroups.x * ZK_WAVES;
    uint tile = zk_wave() * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint64_t bias = uint64_t(e) * a.n_ff * 4, y = a.y + uint64_t(pair) * a.n_ff * 4;
    wd_item w[AHEAD][4];
    gate = wd_matrix(T0, a.gate + e * a.gate_stride, a.n_ff, XQ_N_IN);
    up = wd_matrix(T1, a.up + e * a.up_stride, a.n_ff, XQ_N_IN);
    if (tile < tiles) {
        [[unroll]] for (uint c = 0; c < AHEAD; c++)
            fetch(tile, c, w[c]);
    }
    wd_fill_table(T0);
    if (T1 != T0)
        wd_fill_table(T1);
    xq_prepare(a.x + uint64_t(r) * XQ_N_IN * 4, XQ_N_IN, a.norm, 1, a.eps);

    for (uint next; tile < tiles; tile = next) {
        float sum[16];
        [[unroll]] for (uint i = 0; i < 16; i++)
            sum[i] = 0.0;
        next = tile + stride;
        uint row = row_of(tile, min(moe_place(), PAIRS - 1)); /* this lane's result */
        bool own = moe_place() < PAIRS && row < a.n_ff;
        float sg = a.sg != 0 ? zk_ro_f32(a.sg).v[e] : 1.0, su = a.su != 0 ? zk_ro_f32(a.su).v[e] : 1.0;
        float bg = own && a.bg != 0 ? zk_ro_f32(a.bg + bias).v[row] : 0.0;
        float bu = own && a.bu != 0 ? zk_ro_f32(a.bu + bias).v[row] : 0.0;
        [[dont_unroll]] for (uint from = 0; from < steps; from += AHEAD) {
            bool last = from + AHEAD >= steps;
            uint then = last ? next : tile, at = last ? 0 : from + AHEAD;
            [[unroll]] for (uint c = 0; c < AHEAD; c++) {
                if (from + c < steps)
                    dot_step(from + c, w[c], sum);
                if (then < tiles && at + c < steps)
                    fetch(then, at + c, w[c]);
            }
        }
        moe_reduce(2 * PAIRS, sum);
        precise float g = (moe_place() == 0 ? sum[0] : sum[2]) * sg, u = (moe_place() == 0 ? sum[1] : sum[3]) * su;
        if (a.bg != 0)
            g += bg;
        if (a.bu != 0)
            u += bu;
        float v = k_act(a.act, g, u);
        if (own)
            zk_f32(y).v[row] = v;
    }
}
