/* vk/shaders/gemm_coopmat.glsl: products of prompts on cooperative matrices, for gemm_coopmat and gemm_coopmat_loops.
 * A work-group joins a tile of BM weight rows with BN positions. Its ZK_THREADS = 2 BM work-items dequantise a chunk of
 * 32 elements of k to f16 in shared memory and copy the positions' beside it, while the subgroups, WM rows by WN
 * positions each, multiply the chunk before. A sum goes along k in steps of CM_K, whatever the tile: its bits depend on
 * the row alone.
 * Grid x: tiles of positions, y: tiles of weights. With a list x: tiles of weights, y: its slots, z: a slot's tiles of
 * positions.
 * Of a pair (gate and up) a tile holds 8 rows of one and 8 of the other in turn. */
#include "gemm_wtile.glsl"
ZK_ARGS(vk_gemm)

layout(constant_id = 2) const uint CM_M = 16;
layout(constant_id = 3) const uint CM_N = 16;
layout(constant_id = 4) const uint CM_K = 16;
layout(constant_id = 6) const uint BN = 64; /* positions of a tile                          */
layout(constant_id = 7) const uint WM = 32; /* weight rows of a subgroup                    */
layout(constant_id = 8) const bool FEW = false; /* skip fragments without positions one by one */
layout(constant_id = 9) const bool PAIR = false;
layout(constant_id = 10) const uint ACT = KA_SILU; /* of a pair */
layout(constant_id = 11) const bool SOFTCAP = false;
const uint BM = ZK_THREADS / 2;
const uint WAVES_M = BM / WM;
const uint WN = BN * WAVES_M / ZK_WAVES;
const uint FM = WM / CM_M, FN = WN / CM_N;

/* Two buffers of chunks; in the end the products, CM_N positions of a subgroup at a time. In units of 16 bytes. */
const uint LD = 5; /* 32 halves, and a gap against conflicts of banks */
const uint BUF = (BM + BN) * LD;
const uint LDC = WM / 4 + 1;
const uint PART = CM_N * LDC;
shared uvec4 tile[2 * BUF > ZK_WAVES * PART ? 2 * BUF : ZK_WAVES * PART];
#define CM_MEM tile
#include "coopmat.glsl"

cm_c acc[FM * FN];

struct gemm_item { uint mat, tile, expert, n0, n; }; /* n: positions of this tile */

/* ---- positions ---- */

const uint PIECES = (4 * BN + ZK_THREADS - 1) / ZK_THREADS; /* of 16 bytes, that a work-item copies */
uvec4 x_piece[PIECES];
uint64_t x_from[PIECES];

/* The row of activations that position p takes. */
uint gemm_x_row(uint p) { return a.map != 0 ? zk_u32(a.map).v[p] / a.ldx : p; }

void gemm_x_begin(gemm_item it)
{
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        uint q = zk_tid() + i * ZK_THREADS, p = it.n0 + min(q / 4, it.n - 1);
        x_from[i] = a.x + uint64_t(gemm_x_row(p)) * 64 + q % 4 * 16;
    }
}
void gemm_x_load(uint kc)
{
    uint64_t at = uint64_t(kc) * a.xrows * 64;
    [[unroll]] for (uint i = 0; i < PIECES; i++)
        if (zk_tid() + i * ZK_THREADS < 4 * BN)
            x_piece[i] = zk_ro4(x_from[i] + at).v[0];
}
void gemm_x_store(uint buf)
{
    [[unroll]] for (uint i = 0; i < PIECES; i++) {
        uint q = zk_tid() + i * ZK_THREADS;
        if (q < 4 * BN)
            tile[buf + (BM + q / 4) * LD + q % 4] = x_piece[i];
    }
}

/* ---- the sum ---- */

uint gemm_wave_row() { return zk_wave() % WAVES_M * WM; }
uint gemm_wave_pos() { return zk_wave() / WAVES_M * WN; }

void gemm_multiply(uint buf, uint n)
{
    uint w_at = buf + gemm_wave_row() * LD, x_at = buf + (BM + gemm_wave_pos()) * LD;
    uint left = n - min(n, gemm_wave_pos());
    if (left == 0)
        return;
    [[unroll]] for (uint k = 0; k < 4; k += CM_K / 8) {
        cm_b x[FN];
        [[unroll]] for (uint j = 0; j < FN; j++)
            if (!FEW || j * CM_N < left)
                cm_load_b(x[j], x_at + j * CM_N * LD + k, LD);
        [[unroll]] for (uint i = 0; i < FM; i++) {
            cm_a w;
            cm_load_a(w, w_at + i * CM_M * LD + k, LD);
            [[unroll]] for (uint j = 0; j < FN; j++)
                if (!FEW || j * CM_N < left)
                    cm_mad(acc[i * FN + j], w, x[j]);
        }
    }
}

/* The tile's row r: its matrix, and its row there, which may be past the end. */
uint gemm_row_mat(gemm_item it, uint r) { return PAIR ? r / 8 % 2 : it.mat; }
uint gemm_row_col(gemm_item it, uint r)
{
    return PAIR ? it.tile * (BM / 2) + r / 16 * 8 + r % 8 : it.tile * BM + r;
}

/* All of k: weights a unit ahead in registers, positions a chunk ahead; two buffers, so that one barrier is enough. */
void gemm_sum(gemm_item it)
{
    uint h = zk_tid() % 2, r = zk_tid() / 2, mat = gemm_row_mat(it, r), put = r * LD;
    wt_src src = wt_row(a.w[mat] + it.expert * a.stride[mat], a.n_out[mat], a.n_in,
                        min(gemm_row_col(it, r), a.n_out[mat] - 1));
    uint chunks = a.n_in / 32, units = zk_div_up(chunks, 4);
    wt_raw raw, next;
    [[unroll]] for (uint i = 0; i < FM * FN; i++)
        cm_clear(acc[i]);
    wt_load(next, src, 0, h, chunks);
    gemm_x_begin(it);
    gemm_x_load(0);
    for (uint u = 0; u < units; u++) {
        raw = next;
        if (u + 1 < units)
            wt_load(next, src, u + 1, h, chunks - 4 * u - 4);
        wt_scale scale = wt_scales(raw, u, h);
        [[unroll]] for (uint c = 0; c < 4; c++) {
            uint kc = 4 * u + c, buf = c % 2 * BUF;
            if (kc < chunks) {
                uvec4 p0, p1;
                wt_open(raw, scale, u, h, c, p0, p1);
                tile[buf + put + wt_place(h, 0)] = p0;
                tile[buf + put + wt_place(h, 1)] = p1;
                gemm_x_store(buf);
                if (kc + 1 < chunks)
                    gemm_x_load(kc + 1);
                barrier();
                gemm_multiply(buf, it.n);
            }
        }
    }
    barrier();
}

/* ---- the way out ---- */

/* act(gate, up) = g sigmoid(z) u for all three; 1 + tanh x = 2 sigmoid(2 x). */
float gemm_act(float g, float u)
{
    if (ACT == KA_SWIGLU_OAI) {
        g = min(g, 7.0);
        u = clamp(u, -7.0, 7.0) + 1.0;
    }
    precise float z = g * (ACT == KA_SILU ? 1.0 : ACT == KA_SWIGLU_OAI ? 1.702 : fma(0.0713548163 * g, g, 1.59576912));
    precise float y = g / (1.0 + exp(-z));
    return y * u;
}

/* The number beside a matrix. */
float gemm_number(gemm_item it, uint mat)
{
    return a.wscale[mat] == 0 ? 1.0 : zk_ro_f32(a.wscale[mat]).v[it.expert];
}

float gemm_bias(gemm_item it, uint mat, uint col)
{
    return a.b[mat] == 0 || col >= a.n_out[mat] ? 0.0 : zk_ro_f32(a.b[mat]).v[it.expert * a.n_out[mat] + col];
}

/* Four columns of a row of y. */
void gemm_finish(gemm_item it, uint row, uint col, vec4 v)
{
    uint64_t y = a.y[it.mat] + (uint64_t(row) * a.ld[it.mat] + col) * 4;
    uint64_t resid = a.resid + (uint64_t(row) * a.ldr + col) * 4;
    uint n = min(a.n_out[it.mat] - col, 4);
    bool wide = n == 4 && ((uint(y) | (a.resid != 0 ? uint(resid) : 0)) & 15) == 0;
    precise vec4 t = v;
    if (a.scale != 0)
        t *= zk_ro_f32(a.scale).v[row];
    if (a.resid != 0) {
        if (wide)
            t += zk_f32x4(resid).v[0];
        else
            for (uint i = 0; i < n; i++)
                t[i] += zk_f32(resid).v[i];
    }
    if (SOFTCAP)
        t = a.softcap * sign(t) * (1.0 - 2.0 / (exp(2.0 / a.softcap * abs(t)) + 1.0));
    if (wide)
        zk_f32x4(y).v[0] = t;
    else
        for (uint i = 0; i < n; i++)
            zk_f32(y).v[i] = t[i];
}

/* Of a subgroup's part: position q of it, four columns. */
void gemm_out_quad(gemm_item it, uint part, uint p, uint quad)
{
    uint rows = PAIR ? WM / 2 : WM;
    uint col = it.tile * (rows * WAVES_M) + zk_wave() % WAVES_M * rows + 4 * quad;
    if (p >= it.n || col >= a.n_out[it.mat])
        return;
    p += it.n0;
    uint row = a.map != 0 ? zk_u32(a.map).v[p] : p;
    float by = zk_ro_f32(a.meta).v[gemm_x_row(p)] * (1.0 / WT_GAIN);
    uint at = part + (PAIR ? quad / 2 * 4 + quad % 2 : quad);
    precise vec4 v = uintBitsToFloat(tile[at]) * by * gemm_number(it, it.mat), up;
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] += gemm_bias(it, it.mat, col + i);
    if (PAIR) {
        up = uintBitsToFloat(tile[at + 2]) * by * gemm_number(it, 1);
        [[unroll]] for (uint i = 0; i < 4; i++)
            v[i] = gemm_act(v[i], up[i] + gemm_bias(it, 1, col + i));
    }
    gemm_finish(it, row, col, v);
}

void gemm_out(gemm_item it)
{
    uint part = zk_wave() * PART, quads = PAIR ? WM / 8 : WM / 4;
    [[unroll]] for (uint j = 0; j < FN; j++) {
        uint p0 = gemm_wave_pos() + j * CM_N;
        if (p0 < it.n) {
            [[unroll]] for (uint i = 0; i < FM; i++)
                cm_store(acc[i * FN + j], part + i * (CM_M / 4), LDC);
            cm_sync();
            for (uint e = zk_lane(); e < CM_N * quads; e += ZK_WAVE)
                gemm_out_quad(it, part + e / quads * LDC, p0 + e / quads, e % quads);
            cm_sync();
        }
    }
}

/* Tile t of all matrices. */
void gemm_find_tile(uint t, inout gemm_item it)
{
    for (it.mat = 0; !PAIR && it.mat + 1 < a.n_mats; it.mat++) {
        uint n = zk_div_up(a.n_out[it.mat], BM);
        if (t < n)
            break;
        t -= n;
    }
    it.tile = t;
}

void main()
{
    gemm_item it = gemm_item(0, 0, 0, gl_WorkGroupID.x * BN, 0);
    uint n;
    if (a.tiles != 0) { /* expert, first position, positions */
        uvec4 slot = zk_ro4(a.tiles).v[gl_WorkGroupID.y];
        uint skip = gl_WorkGroupID.z * BN;
        it.expert = slot.x;
        it.n0 = slot.y + skip;
        n = max(slot.z, skip) - skip;
    } else {
        uint rows = zk_step_rows(a.step, a.rows);
        n = max(rows, it.n0) - it.n0;
    }
    if (n == 0)
        return;
    it.n = min(n, BN);
    gemm_find_tile(a.tiles != 0 ? gl_WorkGroupID.x : gl_WorkGroupID.y, it);
    wt_begin();
    barrier();
    gemm_sum(it);
    gemm_out(it);
}
