#version 460
/* Products of prompts by int8 dot products, for devices without matrix units. Of both a tile of weight rows and a tile
 * of positions STEP elements of k at a time lie in shared memory as signed bytes, with the scales of their runs; what
 * comes next is on its way to registers meanwhile. A sum goes along k block by block of 32, whatever the tile:
 *     acc = fma(xd, dw * isum, acc)         types with a minimum: dw * isum + mw * xsum; runs of 16: both added first
 * Grid x: tiles of positions, or slots of the experts' list times the work-groups that share one; y: tiles of columns
 * over all matrices. */
#include "zk.glsl"
ZK_ARGS(vk_gemm)
#include "gemm_dot_item.glsl"

layout(constant_id = 11) const bool RAGGED = false;

const bool WD_TABLE = QT_HAS_TABLE(T0);
#include "wdot.glsl"

const bool HALVES = QT_HAS_RUNS(T0); /* runs of 16 share a scale, else of 32 */
const bool IS_K = QT_IS_K(T0), HAS_MIN = QT_HAS_MIN(T0);

const uint BLOCKS = 4, STEP = 32 * BLOCKS;
const uint PIECES = STEP / 16;  /* of 16 bytes, in a row of a tile */
const uint LD = PIECES + 1;     /* neighbouring rows meet no bank twice */
const uint RUNS = HALVES ? 2 * BLOCKS : BLOCKS;
const uint ITEMS = IS_K ? STEP / 64 : QT_IS_HALF(T0) ? STEP / 16 : STEP / 32; /* of a row of weights (wdot.glsl) */
/* What a work-item loads in a step. */
const uint W_LOADS = (BM * ITEMS + ZK_THREADS - 1) / ZK_THREADS;
const uint X_LOADS = (BN * PIECES + ZK_THREADS - 1) / ZK_THREADS;
const uint D_LOADS = (BN * BLOCKS + ZK_THREADS - 1) / ZK_THREADS;

shared uvec4 w_code[BM * LD], x_code[BN * LD];
shared float w_d[RUNS * BM], w_m[HAS_MIN ? RUNS * BM : 1];
shared float x_d[BLOCKS * BN], x_sum[HAS_MIN ? RUNS * BN : 1];

/* ---- from memory to registers ---- */

wd_mat w_row[W_LOADS];
uint x_row[X_LOADS], d_row[D_LOADS]; /* in pieces of 16 bytes, in blocks */
wd_item next_w[W_LOADS];
uvec4 next_x[X_LOADS];
uvec2 next_d[D_LOADS];

void find_rows(gemm_item it)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++) {
        uint r = (zk_tid() + n * ZK_THREADS) / ITEMS % BM, mat = gemm_row_mat(it, r);
        uint col = min(gemm_row_col(it, r), a.n_out[mat] - 1);
        wd_mat m = wd_matrix(T0, a.w[mat] + it.expert * a.stride[mat], a.n_out[mat], a.n_in);
        w_row[n] = wd_row(T0, m, col, a.n_in);
    }
}
/* Positions behind the last are the last. */
void find_positions(gemm_item it)
{
    [[unroll]] for (uint n = 0; n < X_LOADS; n++)
        x_row[n] = (it.n0 + min((zk_tid() + n * ZK_THREADS) / PIECES, it.n - 1)) * (a.n_in / 16);
    [[unroll]] for (uint n = 0; n < D_LOADS; n++)
        d_row[n] = (it.n0 + min((zk_tid() + n * ZK_THREADS) / BLOCKS, it.n - 1)) * (a.n_in / 32);
}

/* What stands behind the end of a row is not used: the last of the row is read for it. */
uint item_of(uint step, uint i) { return min(step * ITEMS + i % ITEMS, wd_items(T0, a.n_in) - 1); }

void load(uint step)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++)
        next_w[n] = wd_load(T0, RAGGED, w_row[n], item_of(step, zk_tid() + n * ZK_THREADS), a.n_in);
    [[unroll]] for (uint n = 0; n < X_LOADS; n++) {
        uint piece = step * PIECES + (zk_tid() + n * ZK_THREADS) % PIECES;
        next_x[n] = zk_ro4(a.x).v[x_row[n] + min(piece, a.n_in / 16 - 1)];
    }
    [[unroll]] for (uint n = 0; n < D_LOADS; n++) {
        uint block = step * BLOCKS + (zk_tid() + n * ZK_THREADS) % BLOCKS;
        next_d[n] = zk_ro2(a.meta).v[d_row[n] + min(block, a.n_in / 32 - 1)];
    }
}

/* ---- from registers to shared memory ---- */

/* Words of run s with the type's offset of codes taken off. */
uvec4 signed_codes(uvec4 q, uint s)
{
    if (T0 == QT_Q4_K)
        return (s & 1) != 0 ? (q ^ 0x80808080u) >> 4 & 0x0f0f0f0fu : q;
    uint less = uint(-wd_bias(T0, s));
    return less == 0 ? q : ((q | 0x80808080u) - less * 0x01010101u) ^ 0x80808080u;
}

void keep_scales(uint r, uint run, wd_scales c, uint s)
{
    precise float d = c.d * wd_code(T0, c, s), m = c.m * wd_min_code(T0, c, s);
    w_d[run * BM + r] = d;
    if (HAS_MIN)
        w_m[run * BM + r] = m;
}

void keep_item(wd_item w, uint step, uint i)
{
    uint r = i / ITEMS, sub = i % ITEMS, item = item_of(step, i);
    wd_scales c = wd_scale(T0, w, item);
    if (IS_K) {
        [[unroll]] for (uint s = 0; s < 4; s++) {
            w_code[r * LD + 2 * s + sub] = signed_codes(wd_open(T0, w, item, s).lo, s);
            if (HALVES)
                keep_scales(r, 2 * s + sub, c, s);
            else if (sub == 0)
                keep_scales(r, s, c, s);
        }
        return;
    }
    wd_words q = wd_open(T0, w, item, 0);
    if (QT_IS_HALF(T0)) {
        w_code[r * LD + sub] = q.lo;
        if (HALVES)
            keep_scales(r, sub, c, 0);
        else if (sub % 2 == 0)
            keep_scales(r, sub / 2, c, 0);
    } else {
        w_code[r * LD + 2 * sub] = signed_codes(q.lo, 0);
        w_code[r * LD + 2 * sub + 1] = signed_codes(q.hi, 0);
        keep_scales(r, sub, c, 0);
    }
}

void keep(uint step)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++) {
        uint i = zk_tid() + n * ZK_THREADS;
        if (BM * ITEMS % ZK_THREADS == 0 || i < BM * ITEMS)
            keep_item(next_w[n], step, i);
    }
    [[unroll]] for (uint n = 0; n < X_LOADS; n++) {
        uint i = zk_tid() + n * ZK_THREADS;
        if (BN * PIECES % ZK_THREADS == 0 || i < BN * PIECES)
            x_code[i / PIECES * LD + i % PIECES] = next_x[n];
    }
    [[unroll]] for (uint n = 0; n < D_LOADS; n++) {
        uint i = zk_tid() + n * ZK_THREADS, p = i / BLOCKS, b = i % BLOCKS;
        if (BN * BLOCKS % ZK_THREADS != 0 && i >= BN * BLOCKS)
            continue;
        int sums = int(next_d[n].y);
        float lo = float(bitfieldExtract(sums, 0, 16)), hi = float(bitfieldExtract(sums, 16, 16));
        x_d[b * BN + p] = uintBitsToFloat(next_d[n].x);
        if (HAS_MIN && HALVES) {
            x_sum[2 * b * BN + p] = lo;
            x_sum[(2 * b + 1) * BN + p] = hi;
        } else if (HAS_MIN) {
            x_sum[b * BN + p] = lo + hi;
        }
    }
}

/* ---- products ---- */

/* Integer sums start at the bits of 1.5 * 2^23, so that they are floats when they end. */
const int START = 0x4b400000;
int dot16(uvec4 w, uvec4 x, int c)
{
    return zk_dot4(w.w, x.w, zk_dot4(w.z, x.z, zk_dot4(w.y, x.y, zk_dot4(w.x, x.x, c))));
}
float sum_float(int sum)
{
    precise float f = intBitsToFloat(sum) - 12582912.0;
    return f;
}

void multiply(uint b, uint tm, uint tn)
{
    uvec4 x0[TN], x1[TN];
    float d[TN], s0[TN], s1[TN];
    [[unroll]] for (uint j = 0; j < TN; j++) {
        uint p = tn + j * GN;
        x0[j] = x_code[p * LD + 2 * b];
        x1[j] = x_code[p * LD + 2 * b + 1];
        d[j] = x_d[b * BN + p];
        s0[j] = HAS_MIN ? x_sum[(HALVES ? 2 * b : b) * BN + p] : 0.0;
        s1[j] = HAS_MIN && HALVES ? x_sum[(2 * b + 1) * BN + p] : 0.0;
    }
    [[unroll]] for (uint i = 0; i < TM; i++) {
        uint r = tm + i * GM, run = (HALVES ? 2 * b : b) * BM + r;
        uvec4 w0 = w_code[r * LD + 2 * b], w1 = w_code[r * LD + 2 * b + 1];
        float d0 = w_d[run], d1 = HALVES ? w_d[run + BM] : 0.0;
        float m0 = HAS_MIN ? w_m[run] : 0.0, m1 = HAS_MIN && HALVES ? w_m[run + BM] : 0.0;
        [[unroll]] for (uint j = 0; j < TN; j++) {
            precise float v;
            if (HALVES)
                v = fma(d1, sum_float(dot16(w1, x1[j], START)), d0 * sum_float(dot16(w0, x0[j], START)));
            else
                v = d0 * sum_float(dot16(w1, x1[j], dot16(w0, x0[j], START)));
            if (HAS_MIN)
                v = fma(m0, s0[j], v);
            if (HAS_MIN && HALVES)
                v = fma(m1, s1[j], v);
            acc[i * TN + j] = fma(d[j], v, acc[i * TN + j]);
        }
    }
}

/* One tile of both. */
void product(gemm_item it)
{
    uint tm = zk_tid() % GM, tn = zk_tid() / GM, steps = zk_div_up(a.n_in, STEP);
    [[unroll]] for (uint e = 0; e < TM * TN; e++)
        acc[e] = 0.0;
    find_positions(it);
    load(0);
    for (uint step = 0; step < steps; step++) {
        barrier();
        keep(step);
        barrier();
        load(step + 1);
        uint blocks = min(a.n_in / 32 - step * BLOCKS, BLOCKS);
        for (uint b = 0; b < blocks; b++)
            multiply(b, tm, tn);
    }
    gemm_out(it, tm, tn);
}

void main()
{
    gemm_item it;
    uint end, stride = BN;
    it.expert = 0;
    it.n0 = gl_WorkGroupID.x * BN;
    end = it.n0 + BN;
    if (a.tiles == 0) {
        end = min(end, zk_step_rows(a.step, a.rows));
    } else {
        uint share = gl_NumWorkGroups.x / a.n_slots;
        uvec4 slot = zk_ro4(a.tiles).v[gl_WorkGroupID.x / share];
        it.expert = slot.x;
        it.n0 = slot.y + gl_WorkGroupID.x % share * BN;
        end = slot.y + slot.z;
        stride = share * BN;
    }
    if (it.n0 >= end)
        return;
    gemm_find_tile(gl_WorkGroupID.y, it);
    find_rows(it);
    wd_fill_table(T0);
    for (; it.n0 < end; it.n0 += stride) {
        it.n = min(end - it.n0, BN);
        product(it);
    }
}
