#version 460
/* Decode products: MATMUL, PROJ and GATE_UP, the twin of kernels/matvec1.c and matvec.c. Work-groups ask for their
 * first weights, prepare x for themselves (xquant.glsl), and their subgroups walk over the rows of all matrices as if
 * they were one; a tile's next weights are asked for as soon as the present ones are used. Grid x: work-groups that
 * share the rows of weights, y: passes of ROWS rows of x. Nothing passes between work-groups.
 *
 * A launch has MATS0 matrices of type T0, then MATS1 of type T1, or with PAIR gate (T0) and up (T1, MATS1 is 0). LANES
 * neighbouring lanes share a row of weights: item i belongs to lane i % LANES at step i / LANES; behind the last come
 * dummies, whose x is 0. A tile is S slots, a slot as many rows as stand side by side in a subgroup; of a pair slot k
 * is row k / 2 of matrix k % 2. Tiles of matrices 0..m end at tile_end[m].
 *
 * A row's sum depends on T, N_IN, LANES and x alone: a lane adds its items in ascending order, then lanes are added 1,
 * 2, 4 ... apart. */
#include "zk.glsl"
ZK_ARGS(kl_matvec)

#include "types.glsl"
layout(constant_id = 4) const uint MATS0 = 1;
layout(constant_id = 5) const uint MATS1 = 0;
layout(constant_id = 6) const uint LANES0 = 32;
layout(constant_id = 7) const uint LANES1 = 32;
layout(constant_id = 8) const uint N_IN = 4096;
layout(constant_id = 9) const uint XQ_N_PAD = 4096;
layout(constant_id = 10) const uint ROWS = 1; /* 1, 2 or 4 */
layout(constant_id = 11) const uint FLAGS = 0; /* enum in vk/lower_matvec.c */
layout(constant_id = 12) const uint ELEMS0 = 64; /* of an item of T0, of T1 */
layout(constant_id = 13) const uint ELEMS1 = 64;
const bool PAIR = (FLAGS & 1) != 0;
const bool XQ_NORM = (FLAGS & 2) != 0;
const bool RAGGED = (FLAGS & 4) != 0;
const bool XQ_DIRECT = (FLAGS & 8) != 0;
const bool XQ_QUANTS = (FLAGS & 16) != 0;
const bool XQ_FLOATS = (FLAGS & 32) != 0;
const bool WD_TABLE = (FLAGS & 64) != 0;
const bool XQ_UNEVEN = (FLAGS & 128) != 0;
const bool MIXED = PAIR && T0 != T1;
const uint XQ_N_IN = N_IN;
const uint XQ_ROWS = ROWS;

#include "matvec_dot.glsl"

uint row0, rows; /* of x: this pass */

/* ---- the ends of rows ---- */

float mv_tanh(float x)
{
    precise float t = 1.0 - 2.0 / (exp(2.0 * abs(x)) + 1.0);
    return x < 0.0 ? -t : t;
}

float mv_act(float g, float u)
{
    precise float v;
    if (a.act == KA_SILU) {
        v = g / (1.0 + exp(-g)) * u;
    } else if (a.act == KA_GELU_TANH) {
        v = 0.5 * g * (1.0 + mv_tanh(0.79788456 * g * fma(0.044715 * g, g, 1.0))) * u;
    } else {
        float c = min(g, 7.0);
        v = c / (1.0 + exp(-1.702 * c)) * (clamp(u, -7.0, 7.0) + 1.0);
    }
    return v;
}

/* Where a lane's result goes, and what it is combined with, read while its sum is still being made. */
struct mv_end {
    bool there;
    uint64_t y;
    float own, up_own, b, up_b, scale, resid; /* own: the numbers of the matrix, or of gate and up */
};

mv_end mv_ending(uint m, uint row, uint n_out, uint r)
{
    mv_end e = mv_end(row < n_out && r < rows, 0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0);
    if (!e.there)
        return e;
    uint64_t at = row0 + r;
    e.y = a.y[m] + (at * a.ld[m] + row) * 4;
    if (a.wscale[m] != 0)
        e.own = zk_ro_f32(a.wscale[m]).v[0];
    if (PAIR && a.wscale[1] != 0)
        e.up_own = zk_ro_f32(a.wscale[1]).v[0];
    if (a.b[m] != 0)
        e.b = zk_ro_f32(a.b[m]).v[row];
    if (PAIR && a.b[1] != 0)
        e.up_b = zk_ro_f32(a.b[1]).v[row];
    if (a.scale != 0)
        e.scale = zk_ro_f32(a.scale).v[uint(at)];
    if (a.resid != 0)
        e.resid = zk_f32(a.resid + (at * a.ldr + row) * 4).v[0];
    return e;
}

void mv_store(mv_end e, uint m, float sum, float up)
{
    precise float v = sum * e.own;
    if (a.b[m] != 0)
        v += e.b;
    if (PAIR) {
        precise float u = up * e.up_own;
        if (a.b[1] != 0)
            u += e.up_b;
        v = mv_act(v, u);
    } else {
        if (a.scale != 0)
            v *= e.scale;
        if (a.resid != 0)
            v += e.resid;
        if (a.softcap > 0.0)
            v = a.softcap * mv_tanh(v / a.softcap);
    }
    if (e.there)
        zk_f32(e.y).v[0] = v;
}

/* ---- tiles ---- */

/* Of MATS0's (side 0) and MATS1's (side 1): slots of a tile, steps of a row. A mixed pair has one slot, and its steps
 * are those of gate, then those of up. */
const uint ITEMS0 = N_IN / ELEMS0 + (N_IN % ELEMS0 != 0 ? 1 : 0), ITEMS1 = N_IN / ELEMS1 + (N_IN % ELEMS1 != 0 ? 1 : 0);
const uint STEPS0 = (ITEMS0 + LANES0 - 1) / LANES0, STEPS1 = (ITEMS1 + LANES1 - 1) / LANES1;
const uint SLOTS0 = MIXED ? 1 : ELEMS0 == 64 ? 2 : 4, SLOTS1 = MIXED ? 1 : ELEMS1 == 64 ? 2 : 4;
const uint ALL_SLOTS = MIXED ? 2 : MATS1 > 0 && SLOTS1 > SLOTS0 ? SLOTS1 : SLOTS0;

struct mv_tile {
    uint side, m, n_out, row; /* this lane's row of slot 0 */
    wd_mat at;                /* that row, or the first one where there is none */
};

uint mv_lanes(uint side) { return side == 0 ? LANES0 : LANES1; }
uint mv_il(uint lanes) { return zk_lane() & (lanes - 1); }
/* Rows of a tile that stand in one lane: pairs take two slots. */
uint mv_rows_of(uint side) { return MIXED ? 1 : (side == 0 ? SLOTS0 : SLOTS1) / (PAIR ? 2 : 1); }
uint mv_steps(uint side) { return MIXED ? STEPS0 + STEPS1 : side == 0 ? STEPS0 : STEPS1; }

wd_mat mv_row(uint T, uint m, mv_tile t)
{
    return wd_row(T, wd_matrix(T, a.w[m], t.n_out, N_IN), t.row < t.n_out ? t.row : 0, N_IN);
}

mv_tile mv_tile_at(uint u)
{
    mv_tile t;
    t.m = 0;
    [[unroll]] for (uint m = 1; m < 4; m++)
        if (!PAIR && m < MATS0 + MATS1 && u >= a.tile_end[m - 1])
            t.m = m;
    t.side = t.m < MATS0 ? 0 : 1;
    uint lanes = mv_lanes(t.side);
    t.n_out = a.n_out[t.m];
    t.row = (u - (t.m > 0 ? a.tile_end[t.m - 1] : 0)) * mv_rows_of(t.side) * (ZK_WAVE / lanes) + zk_lane() / lanes;
#if ZK_MIXED
    if (MATS1 > 0 && t.side == 1)
        t.at = mv_row(T1, t.m, t);
    else
#endif
        t.at = mv_row(T0, t.m, t);
    return t;
}

/* What this lane takes of a tile in a step: an item of each slot, of slot 0 where there is no row. */
void mv_load(uint T, uint slots, uint lanes, mv_tile t, uint step, inout wd_item w[4])
{
    uint abreast = ZK_WAVE / lanes, i = min(step * lanes + mv_il(lanes), wd_items(T, N_IN) - 1);
    uint64_t up = PAIR ? a.w[1] - a.w[0] : 0;
    [[unroll]] for (uint k = 0; k < 4; k++)
        if (k < slots) {
            uint on = (PAIR ? k >> 1 : k) * abreast;
            wd_mat at = wd_row(T, t.at, t.row + on < t.n_out ? on : 0, N_IN);
            if (PAIR && (k & 1) != 0)
                at = wd_shift(at, up);
            w[k] = wd_load(T, RAGGED, at, i, N_IN);
        }
}
void mv_fetch(mv_tile t, uint step, inout wd_item w[4])
{
#if ZK_MIXED
    if (MIXED && step >= STEPS0) {
        t.at = mv_row(T1, 1, t);
        mv_load(T1, 1, LANES1, t, step - STEPS0, w);
        return;
    }
    if (MATS1 > 0 && t.side == 1) {
        mv_load(T1, SLOTS1, LANES1, t, step, w);
        return;
    }
#endif
    mv_load(T0, SLOTS0, LANES0, t, step, w);
}

void mv_multiply(mv_tile t, uint step, wd_item w[4], inout float acc[16])
{
#if ZK_MIXED
    if ((MIXED && step >= STEPS0) || (MATS1 > 0 && t.side == 1)) {
        if (MIXED && step == STEPS0) { /* the gate is done: its sums wait behind those of up */
            [[unroll]] for (uint r = 0; r < 4; r++)
                if (r < ROWS) {
                    acc[ROWS + r] = acc[r];
                    acc[r] = 0.0;
                }
        }
        uint ix = (MIXED ? step - STEPS0 : step) * LANES1 + mv_il(LANES1);
        mv_dot(T1, SLOTS1, ROWS, rows > 2, w, min(ix, ITEMS1 - 1), ix, acc);
        return;
    }
#endif
    uint ix = step * LANES0 + mv_il(LANES0);
    mv_dot(T0, SLOTS0, ROWS, rows > 2, w, min(ix, ITEMS0 - 1), ix, acc);
}

/* The ending of a lane's result number i of a tile: of slot (or pair of slots) i / ROWS, row i % ROWS of x. */
mv_end mv_ending_of(mv_tile t, uint i)
{
    bool there = i < mv_rows_of(t.side) * ROWS;
    return mv_ending(t.m, there ? t.row + i / ROWS * (ZK_WAVE / mv_lanes(t.side)) : t.n_out, t.n_out, i % ROWS);
}

/* Adds up the lanes of each row and stores the results; e: the ending of this lane's first. */
void mv_finish(mv_tile t, mv_end e, float acc[16])
{
    uint lanes = mv_lanes(t.side), n = mv_rows_of(t.side) * ROWS;
    for (uint d = 1; d < lanes; d *= 2) {
        [[unroll]] for (uint i = 0; i < 16; i++)
            if (i < ALL_SLOTS * ROWS) {
                precise float sum = acc[i] + subgroupShuffleXor(acc[i], d);
                acc[i] = sum;
            }
    }
    for (uint own = mv_il(lanes); own < n; own += lanes) {
        float v = 0.0, up = 0.0;
        [[unroll]] for (uint i = 0; i < 16; i++)
            if (i < (PAIR ? ALL_SLOTS / 2 : ALL_SLOTS) * ROWS) {
                uint k = i / ROWS, r = i % ROWS;
                float first = acc[(PAIR ? 2 * k : k) * ROWS + r], second = PAIR ? acc[(2 * k + 1) * ROWS + r] : 0.0;
                v = i == own ? (MIXED ? second : first) : v;
                up = i == own ? (MIXED ? first : second) : up;
            }
        if (own >= lanes)
            e = mv_ending_of(t, own);
        mv_store(e, t.m, v, up);
    }
}

void main()
{
    uint stride = gl_NumWorkGroups.x * ZK_WAVES, u = zk_wave() * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint end = a.tile_end[PAIR ? 0 : MATS0 + MATS1 - 1];
    mv_tile t = mv_tile_at(u), next;
    wd_item w[4];
    if (u < end)
        mv_fetch(t, 0, w);
    uint n = zk_step_rows(a.step, a.rows);
    row0 = gl_WorkGroupID.y * ROWS;
    if (row0 >= n)
        return;
    rows = min(n - row0, ROWS);
    wd_fill_table(T0);
    if (T1 != T0)
        wd_fill_table(T1);
    xq_prepare(a.x + uint64_t(row0) * a.ldx * 4, a.ldx, a.norm, rows, a.eps);
    while (u < end) {
        float acc[16];
        [[unroll]] for (uint i = 0; i < 16; i++)
            acc[i] = 0.0;
        uint steps = mv_steps(t.side);
        mv_end e = mv_ending_of(t, mv_il(mv_lanes(t.side)));
        u += stride;
        next = t;
        [[dont_unroll]] for (uint step = 0; step < steps; step++) {
            bool last = step + 1 == steps;
            mv_multiply(t, step, w, acc);
            if (last && u < end)
                next = mv_tile_at(u);
            if (!last || u < end)
                mv_fetch(next, last ? 0 : step + 1, w);
        }
        mv_finish(t, e, acc);
        t = next;
    }
}
