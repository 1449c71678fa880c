#version 460
/* A gated DeltaNet of any shape, after gdn_conv: a work-group owns a v-head of a slot and takes its rows in order.
 * A subgroup has a value row of the state at a time. Grid x: v-heads, y: slots. */
#include "zk.glsl"
#include "gdn.glsl"
ZK_ARGS(kl_gdn)

const uint ANY_DIM = 256; /* the largest head: GDN_ANY_DIM of kernels/gdn_shared.h */
shared float q[ANY_DIM], k[ANY_DIM], o[ANY_DIM];

/* 1 / |x| of a head */
float inv_norm(zk_f32 x, uint dim)
{
    precise float s = 0.0;
    for (uint d = zk_tid(); d < dim; d += ZK_THREADS)
        s = fma(x.v[d], x.v[d], s);
    return inversesqrt(zk_group_sum(s) + a.eps);
}

/* One value row: decayed, read by k, changed, read by q. */
float value_row(zk_f32 S, uint dim, float v, float decay, float beta, bool reset)
{
    precise float seen = 0.0, sum = 0.0;
    for (uint d = zk_lane(); d < dim; d += ZK_WAVE) {
        precise float s = reset ? 0.0 : S.v[d] * decay;
        seen = fma(s, k[d], seen);
    }
    precise float e = beta * (v - zk_wave_sum(seen));
    for (uint d = zk_lane(); d < dim; d += ZK_WAVE) {
        precise float s = reset ? 0.0 : S.v[d] * decay;
        s = fma(k[d], e, s);
        S.v[d] = s;
        sum = fma(s, q[d], sum);
    }
    return zk_wave_sum(sum);
}

void main()
{
    uint dim = a.head_dim, n = gdn_channels(a.n_k, a.n_v, dim), n_rows = zk_step_rows(a.step, ROWS_STEP);
    uint h = gl_WorkGroupID.x, slot = gl_WorkGroupID.y, hk = gdn_k_head(a.heads, a.n_k, a.n_v, h);
    uint64_t S = gdn_slot(a.state, a.state_slot_bytes, slot) + uint64_t(h) * dim * dim * 4;
    float inv = inversesqrt(float(dim));
    for (uint r = 0; r < n_rows; r++) {
        if (zk_row(a.step, r).slot != slot)
            continue;
        bool reset = zk_row(a.step, r).pos == 0;
        uint64_t c = a.c + uint64_t(r) * n * 4;
        uint ab = r * a.ab_ld + gdn_ab_at(a.ab_group, h);
        zk_f32 cq = zk_f32(c + hk * dim * 4), ck = zk_f32(c + (a.n_k + hk) * dim * 4);
        zk_f32 cv = zk_f32(c + (2 * a.n_k + h) * dim * 4);
        float q_inv = inv_norm(cq, dim), k_inv = inv_norm(ck, dim), beta = k_sigmoid(zk_f32(a.beta).v[ab]);
        float decay = gdn_decay(zk_ro_f32(a.a).v[h], zk_f32(a.alpha).v[ab], zk_ro_f32(a.dt).v[h]);
        for (uint d = zk_tid(); d < dim; d += ZK_THREADS) {
            q[d] = cq.v[d] * q_inv;
            k[d] = ck.v[d] * k_inv;
        }
        barrier();
        for (uint j = zk_wave(); j < dim; j += ZK_WAVES) {
            float sum = value_row(zk_f32(S + uint64_t(j) * dim * 4), dim, cv.v[j], decay, beta, reset);
            if (zk_lane() == 0)
                o[j] = sum * inv;
        }
        barrier();
        precise float squares = 0.0;
        for (uint d = zk_tid(); d < dim; d += ZK_THREADS)
            squares = fma(o[d], o[d], squares);
        float scale = inversesqrt(zk_group_sum(squares) / float(dim) + a.eps);
        uint at = (r * a.n_v + h) * dim;
        for (uint d = zk_tid(); d < dim; d += ZK_THREADS)
            zk_f32(a.y).v[at + d] = o[d] * scale * zk_ro_f32(a.norm).v[d] * zk_silu(zk_f32(a.z).v[at + d]);
    }
}
