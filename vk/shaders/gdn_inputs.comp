#version 460
/* Gated DeltaNet, prompts: what does not depend on the state, for all rows at once. HEAD_LANES neighbours take ROWS
 * rows of a head. Grid x: rows, y: n_k pairs of a q-head and a k-head, then n_v v-heads. */
#include "gdn_prompt.glsl"

const uint ROWS = 4;
const uint HEAD_CHANNELS = HEAD_QUADS * 4;

/* A head: elements by four, HEAD_LANES quads apart. */
void load_taps(out vec4 w[HEAD_CHANNELS], uint ch)
{
    [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++)
        [[unroll]] for (uint i = 0; i < 4; i++)
            w[4 * u + i] = zk_ro_f32x4(a.conv_w).v[4 * (ch + u * HEAD_LANES) + i];
}

/* Where the row's input `back` positions ago lies: a row of qkv, or an entry of the slot's ring (of any value where
 * there is no such position). */
uint64_t input_at(uint r, ka_row row, uint back)
{
    uint i = ONE_SLOT ? r : zk_u32(a.index).v[r];
    uint64_t bytes = gdn_channels(a.n_k, a.n_v, GDN_DIM) * 4;
    return back <= i ? a.qkv + slot_row(row.slot, i - back) * bytes
                     : gdn_slot(a.conv, a.conv_slot_bytes, row.slot) + (row.pos - back) % GDN_TAPS * bytes;
}

/* The convolved channels from quad ch on. */
void convolve(out vec4 y[HEAD_QUADS], uint64_t at[GDN_TAPS], uint pos, uint ch, vec4 w[HEAD_CHANNELS])
{
    [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++) {
        vec4 x[GDN_TAPS];
        [[unroll]] for (uint b = 0; b < GDN_TAPS; b++) {
            x[b] = zk_f32x4(at[b]).v[ch + u * HEAD_LANES];
            x[b] = b <= pos ? x[b] : vec4(0.0);
        }
        vec4 taps[4] = vec4[4](w[4 * u], w[4 * u + 1], w[4 * u + 2], w[4 * u + 3]);
        y[u] = gdn_conv(taps, x[3], x[2], x[1], x[0]);
    }
}

float dot_heads(vec4 p[HEAD_QUADS], vec4 q[HEAD_QUADS])
{
    precise float s = 0.0;
    [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++)
        s = gdn_dot4(p[u], q[u], s);
    return gdn_sum(s, 1, HEAD_LANES);
}
void scale(inout vec4 p[HEAD_QUADS], float by)
{
    [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++) {
        precise vec4 x = p[u] * by;
        p[u] = x;
    }
}
void store(uint r, uint ch, vec4 p[HEAD_QUADS])
{
    [[unroll]] for (uint u = 0; u < HEAD_QUADS; u++)
        zk_f32x4(a.c).v[r * (gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4) + ch + u * HEAD_LANES] = p[u];
}

void main()
{
    uint y = gl_WorkGroupID.y, lane = zk_lane() % HEAD_LANES, n_rows = zk_step_rows(a.step, ROWS_STEP);
    uint r0 = (gl_WorkGroupID.x * ZK_THREADS + zk_tid()) / HEAD_LANES * ROWS;
    if (gl_WorkGroupID.x * (ZK_THREADS / HEAD_LANES * ROWS) >= n_rows)
        return;
    bool is_v = y >= a.n_k;
    uint h = y - a.n_k, ch = (is_v ? a.n_k + y : y) * GDN_QUADS + lane, k_ch = ch + a.n_k * GDN_QUADS;
    vec4 taps[HEAD_CHANNELS], k_taps[HEAD_CHANNELS], x[HEAD_QUADS], k[HEAD_QUADS];
    load_taps(taps, ch);
    if (!is_v)
        load_taps(k_taps, k_ch);
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        uint r = min(r0 + i, n_rows - 1); /* rows past the last stand for the last, and are not stored */
        bool wanted = r == r0 + i;
        ka_row row = zk_row(a.step, r);
        uint64_t at[GDN_TAPS];
        [[unroll]] for (uint b = 0; b < GDN_TAPS; b++)
            at[b] = input_at(r, row, b);
        convolve(x, at, row.pos, ch, taps);
        if (is_v) {
            uint ab = r * a.ab_ld + gdn_ab_at(a.ab_group, h);
            float beta = k_sigmoid(zk_f32(a.beta).v[ab]);
            float decay = gdn_decay(zk_ro_f32(a.a).v[h], zk_f32(a.alpha).v[ab], zk_ro_f32(a.dt).v[h]);
            scale(x, beta);
            if (wanted && lane == 0)
                zk_f32x2(a.gates).v[r * a.n_v + h] = vec2(decay, beta * decay);
        } else {
            convolve(k, at, row.pos, k_ch, k_taps);
            precise float qq = dot_heads(x, x) + a.eps, kk = dot_heads(k, k) + a.eps;
            scale(x, inversesqrt(qq) * GDN_INV_SQRT_DIM);
            scale(k, inversesqrt(kk));
            float kq = dot_heads(k, x);
            if (wanted && lane == 0)
                zk_f32(a.kq).v[r * a.n_k + y] = kq;
            if (wanted)
                store(r, k_ch, k);
        }
        if (wanted)
            store(r, ch, x);
    }
}
