#version 460
/* Four streams predicted from each other, or corrected by what a layer made of the first. Grid x: rows, y: shares of a row. */
#include "zk.glsl"
ZK_ARGS(kl_altup)

shared float c[KA_STREAMS * KA_STREAMS];

void predict(uint64_t at, uint64_t rest, uint k)
{
    float s[KA_STREAMS];
    s[0] = zk_f32(a.x0 + at).v[k];
    [[unroll]] for (uint i = 1; i < KA_STREAMS; i++)
        s[i] = zk_f32(a.x + rest).v[(i - 1) * a.n + k];
    [[unroll]] for (uint i = 0; i < KA_STREAMS; i++) {
        float v = s[i];
        [[unroll]] for (uint j = 0; j < KA_STREAMS; j++)
            v = fma(c[i * KA_STREAMS + j], s[j], v);
        if (i == 0)
            zk_f32(a.y0 + at).v[k] = v;
        else
            zk_f32(a.y + rest).v[(i - 1) * a.n + k] = v;
    }
}

void correct(uint64_t at, uint64_t rest, uint k)
{
    float x0 = zk_f32(a.x0 + at).v[k];
    precise float d = zk_f32(a.a + at).v[k] - x0, by = 1.0 + c[0];
    float first = fma(by, d, x0);
    if (a.form == KA_ALTUP_FIRST) {
        precise float scaled = first * zk_ro_f32(a.scale).v[k];
        zk_f32(a.y0 + at).v[k] = scaled;
        return;
    }
    zk_f32(a.y0 + at).v[k] = first;
    [[unroll]] for (uint i = 1; i < KA_STREAMS; i++) {
        by = 1.0 + c[i];
        precise float v = fma(by, d, zk_f32(a.x + rest).v[(i - 1) * a.n + k]) + zk_f32(a.add + at).v[k];
        zk_f32(a.y + rest).v[(i - 1) * a.n + k] = v;
    }
}

void main()
{
    uint r = gl_WorkGroupID.x, n_c = a.form == KA_ALTUP_PREDICT ? KA_STREAMS * KA_STREAMS : KA_STREAMS;
    if (r >= zk_step_rows(a.step, a.rows))
        return;
    for (uint i = zk_tid(); i < n_c; i += ZK_THREADS) {
        zk_ro_f32 w = zk_ro_f32(a.w + i * KA_STREAMS * 4);
        zk_f32 m = zk_f32(a.m + uint64_t(r) * KA_STREAMS * 4);
        precise float v = w.v[0] * m.v[0];
        [[unroll]] for (uint j = 1; j < KA_STREAMS; j++)
            v = fma(w.v[j], m.v[j], v);
        v *= a.m_scale;
        c[i] = v;
    }
    barrier();
    uint64_t at = uint64_t(r) * a.n * 4, rest = at * (KA_STREAMS - 1);
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS) {
        if (a.form == KA_ALTUP_PREDICT)
            predict(at, rest, k);
        else
            correct(at, rest, k);
    }
}
