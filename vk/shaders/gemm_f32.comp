#version 460
/* Products of prompts with F32, F16 and BF16 weights, in f32. A work-group's TEAMS teams take a part of k each, STEP
 * elements at a time, and their sums are added at the end in a fixed order.
 * Grid x: tiles of positions, y: tiles of columns over all matrices. */
#include "zk.glsl"
ZK_ARGS(kl_gemm)
#include "gemm_dot_item.glsl"

layout(constant_id = 11) const uint TEAMS = 4;
layout(constant_id = 12) const bool ALIGNED = true; /* rows of weights and of x are read by fours */

const uint TEAM = GM * GN;
const uint QUADS = 4, STEP = 4 * QUADS;
const uint LD = QUADS + 1; /* rows of a tile in shared memory: neighbours meet no bank twice */
const uint TILE = (BM + BN) * LD, SUMS = (TEAMS - 1) * TM * TN * TEAM / 4;
const uint W_LOADS = (BM * QUADS + TEAM - 1) / TEAM, X_LOADS = (BN * QUADS + TEAM - 1) / TEAM;

/* Each team's rows of weights, then those of x; at the end the sums of all teams but the first. */
shared vec4 s[TEAMS * TILE > SUMS ? TEAMS * TILE : SUMS];

/* ---- from memory to registers: a work-item has the quads of its number in the team, a team apart ---- */

uint64_t w_row[W_LOADS], x_row[X_LOADS];
uvec4 next_w[W_LOADS];
vec4 next_x[X_LOADS];

/* Rows behind the last are the last. */
void find_rows(gemm_item it, uint t)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++) {
        uint r = (t + n * TEAM) / QUADS % BM, mat = gemm_row_mat(it, r);
        uint col = min(gemm_row_col(it, r), a.n_out[mat] - 1), type = PAIR && mat == 1 ? T1 : T0;
        w_row[n] = a.w[mat] + uint64_t(col) * a.n_in * (type == QT_F32 ? 4 : 2);
    }
    [[unroll]] for (uint n = 0; n < X_LOADS; n++) {
        uint p = it.n0 + min((t + n * TEAM) / QUADS, it.n - 1);
        x_row[n] = a.x + uint64_t(p) * a.ldx * 4;
    }
}

/* The matrix that quad n of a work-item is of is the pair's second, and of another type than the first. */
bool is_up(uint t, uint n) { return PAIR && T1 != T0 && (t + n * TEAM) / QUADS / GM % 2 == 1; }

/* Elements [k, k + 4) as they lie there or, unless ALIGNED, as floats' bits with zeros behind the end. */
uvec4 weight_bits(uint type, uint64_t row, uint k)
{
    if (ALIGNED) {
        k = min(k, a.n_in - 4) / 4;
        return type == QT_F32 ? zk_ro4(row).v[k] : uvec4(zk_ro2(row).v[k], 0, 0);
    }
    uvec4 v = uvec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        if (k + i >= a.n_in)
            continue;
        uint h = type == QT_F32 ? 0 : uint(zk_ro_u16(row).v[k + i]);
        v[i] = type == QT_F32 ? zk_ro(row).v[k + i] : type == QT_F16 ? floatBitsToUint(zk_f16(h)) : h << 16;
    }
    return v;
}
vec4 weight_floats(uint type, uvec4 v)
{
    if (ALIGNED && type == QT_F16)
        return vec4(unpackHalf2x16(v.x), unpackHalf2x16(v.y));
    if (ALIGNED && type == QT_BF16)
        v = uvec4(v.x << 16, v.x & 0xffff0000u, v.y << 16, v.y & 0xffff0000u);
    return uintBitsToFloat(v);
}

void load(uint t, uint k)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++) {
        uint at = k + (t + n * TEAM) % QUADS * 4;
        next_w[n] = is_up(t, n) ? weight_bits(T1, w_row[n], at) : weight_bits(T0, w_row[n], at);
    }
    [[unroll]] for (uint n = 0; n < X_LOADS; n++) {
        uint at = k + (t + n * TEAM) % QUADS * 4;
        if (ALIGNED) {
            next_x[n] = zk_ro_f32x4(x_row[n]).v[min(at, a.n_in - 4) / 4];
        } else {
            [[unroll]] for (uint i = 0; i < 4; i++)
                next_x[n][i] = at + i < a.n_in ? zk_ro_f32(x_row[n]).v[at + i] : 0.0;
        }
    }
}

/* What stands at `end` and behind it counts for nothing. */
void keep(uint t, uint base, uint k, uint end)
{
    [[unroll]] for (uint n = 0; n < W_LOADS; n++) {
        uint i = t + n * TEAM;
        vec4 w = is_up(t, n) ? weight_floats(T1, next_w[n]) : weight_floats(T0, next_w[n]);
        if (BM * QUADS % TEAM == 0 || i < BM * QUADS)
            s[base + i / QUADS * LD + i % QUADS] = k + i % QUADS * 4 < end ? w : vec4(0);
    }
    [[unroll]] for (uint n = 0; n < X_LOADS; n++) {
        uint i = t + n * TEAM;
        if (BN * QUADS % TEAM == 0 || i < BN * QUADS)
            s[base + (BM + i / QUADS) * LD + i % QUADS] = k + i % QUADS * 4 < end ? next_x[n] : vec4(0);
    }
}

/* ---- products ---- */

void multiply(uint base, uint tm, uint tn)
{
    [[unroll]] for (uint q = 0; q < QUADS; q++) {
        vec4 x[TN];
        [[unroll]] for (uint j = 0; j < TN; j++)
            x[j] = s[base + (BM + tn + j * GN) * LD + q];
        [[unroll]] for (uint i = 0; i < TM; i++) {
            vec4 w = s[base + (tm + i * GM) * LD + q];
            [[unroll]] for (uint j = 0; j < TN; j++)
                [[unroll]] for (uint e = 0; e < 4; e++)
                    acc[i * TN + j] = fma(w[e], x[j][e], acc[i * TN + j]);
        }
    }
}

/* The teams' sums in the first team's work-items. */
void gather(uint team, uint t)
{
    barrier();
    [[unroll]] for (uint e = 0; e < TM * TN; e++) {
        uint at = ((team - 1) * TM * TN + e) * TEAM + t;
        if (team > 0)
            s[at / 4][at % 4] = acc[e];
    }
    barrier();
    for (uint from = 0; from + 1 < TEAMS; from++)
        [[unroll]] for (uint e = 0; e < TM * TN; e++) {
            uint at = (from * TM * TN + e) * TEAM + t;
            precise float v = acc[e] + s[at / 4][at % 4];
            acc[e] = v;
        }
}

void main()
{
    gemm_item it;
    uint rows = zk_step_rows(a.step, a.rows);
    it.expert = 0;
    it.n0 = gl_WorkGroupID.x * BN;
    if (it.n0 >= rows)
        return;
    it.n = min(rows - it.n0, BN);
    gemm_find_tile(gl_WorkGroupID.y, it);
    uint team = zk_tid() / TEAM, t = zk_tid() % TEAM, tm = t % GM, tn = t / GM, base = team * TILE;
    uint part = zk_div_up(zk_div_up(a.n_in, STEP), TEAMS) * STEP;
    uint k = min(team * part, a.n_in), end = min(k + part, a.n_in);
    [[unroll]] for (uint e = 0; e < TM * TN; e++)
        acc[e] = 0.0;
    find_rows(it, t);
    load(t, k);
    for (uint done = 0; done < part; done += STEP) {
        barrier();
        keep(t, base, k + done, end);
        barrier();
        load(t, k + done + STEP);
        multiply(base, tm, tn);
    }
    if (TEAMS > 1)
        gather(team, t);
    if (team == 0)
        gemm_out(it, tm, tn);
}
