/* vk/shaders/gemm_dot_item.glsl: twin of kernels/gemm_item.h for the products without matrix units: which weights and
 * which positions a work-group joins, and how a finished product leaves. Include it behind ZK_ARGS of KL_GEMM or
 * VK_GEMM.
 *
 * T0 is the weights' type, T1 that of a pair's second matrix.
 *
 * A tile is BM weight rows x BN positions; a work-item holds TM x TN sums: rows tm + i GM, positions tn + j GN. Of a
 * pair (gate and up) rows with an even i are gate's and those with the next i up's, so both products of a column meet. */
#include "mathf.glsl"
#include "types.glsl"

#ifndef ZK_TYPED
layout(constant_id = 2) const uint T0 = 12;
layout(constant_id = 3) const uint T1 = 12;
#endif
layout(constant_id = 4) const bool PAIR = false;
layout(constant_id = 5) const uint ACT = KA_SILU; /* of a pair */
layout(constant_id = 6) const bool SOFTCAP = false;
layout(constant_id = 7) const uint BM = 64;
layout(constant_id = 8) const uint BN = 64;
layout(constant_id = 9) const uint TM = 8;
layout(constant_id = 10) const uint TN = 4;
const uint GM = BM / TM, GN = BN / TN;
const uint COLS = PAIR ? BM / 2 : BM; /* output columns of a tile */

float acc[TM * TN]; /* sum i, j is at i * TN + j */

struct gemm_item {
    uint mat, tile; /* tile: of that matrix */
    uint expert;
    uint n0, n;     /* positions */
};

/* Tile t of all matrices. */
void gemm_find_tile(uint t, inout gemm_item it)
{
    uint m = 0;
    for (; !PAIR && m + 1 < a.n_mats; m++) {
        uint n = zk_div_up(a.n_out[m], COLS);
        if (t < n)
            break;
        t -= n;
    }
    it.mat = m;
    it.tile = t;
}

/* Row r of the tile: its matrix, and its row there, which may be past the end. */
uint gemm_row_mat(gemm_item it, uint r) { return PAIR ? r / GM % 2 : it.mat; }
uint gemm_row_col(gemm_item it, uint r)
{
    return it.tile * COLS + (PAIR ? r / (2 * GM) * GM + r % GM : r);
}

/* The number beside a matrix. */
float gemm_number(gemm_item it, uint mat)
{
    return a.wscale[mat] == 0 ? 1.0 : zk_ro_f32(a.wscale[mat]).v[it.expert];
}

float gemm_bias(gemm_item it, uint mat, uint col)
{
    uint n = a.n_out[mat];
    return a.b[mat] == 0 || col >= n ? 0.0 : zk_ro_f32(a.b[mat] + uint64_t(it.expert) * n * 4).v[col];
}

/* The work-item's sums leave: number, bias, then what MATMUL or GATE_UP say. */
void gemm_out(gemm_item it, uint tm, uint tn)
{
    float b[TM], own = gemm_number(it, it.mat), own_up = PAIR ? gemm_number(it, 1) : 1.0;
    [[unroll]] for (uint i = 0; i < TM; i++) {
        uint r = tm + i * GM;
        b[i] = gemm_bias(it, gemm_row_mat(it, r), gemm_row_col(it, r));
    }
    [[unroll]] for (uint j = 0; j < TN; j++) {
        uint p = tn + j * GN;
        if (p >= it.n)
            continue;
        uint row = a.map == 0 ? it.n0 + p : zk_ro(a.map).v[it.n0 + p];
        float by = a.scale == 0 ? 1.0 : zk_ro_f32(a.scale).v[row];
        uint64_t y = a.y[it.mat] + uint64_t(row) * a.ld[it.mat] * 4, resid = a.resid + uint64_t(row) * a.ldr * 4;
        [[unroll]] for (uint i = 0; i < TM; i += PAIR ? 2 : 1) {
            uint col = gemm_row_col(it, tm + i * GM);
            if (col >= a.n_out[it.mat])
                continue;
            precise float v = acc[i * TN + j] * own + b[i];
            if (PAIR) {
                precise float up = acc[(i + 1) * TN + j] * own_up + b[i + 1];
                v = k_act(ACT, v, up);
            }
            v *= by;
            if (a.resid != 0)
                v += zk_f32(resid).v[col];
            zk_f32(y).v[col] = SOFTCAP ? a.softcap * k_tanh(zk_div(v, a.softcap)) : v;
        }
    }
}
