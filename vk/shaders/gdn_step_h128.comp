#version 460
/* Gated DeltaNet for a step of few rows, heads of GDN_DIM and convolutions of GDN_TAPS: the whole command. A work-group
 * owns a v-head of a slot and takes its rows in order. While the state is on its way into registers, q, k and v are
 * convolved and the gates computed, into shared memory; then LANES neighbours share a value row at a time, and the norm
 * comes last.
 *
 * S k and S q are taken of the old state, q and k are normed in the sums: o = decay (S q) + e (k . q).
 *
 * The convolution's ring of a slot has an entry for each of the last GDN_TAPS positions. The one that a row overwrites
 * is the input that it no longer needs; the slot's other rows in the step may still need it.
 *
 * Grid x: v-heads, y: slots. counters (steps of several rows): u32 [n_slots, n_k] that are 0. */
#include "zk.glsl"
#include "gdn.glsl"
ZK_ARGS(kl_gdn)

layout(constant_id = 2) const uint LANES = 16;       /* neighbours that share a value row, at most ZK_WAVE   */
layout(constant_id = 3) const uint VALUES = 8;       /* value rows that they hold at once, up to LANES / 2   */
layout(constant_id = 4) const bool ONE_SLOT = false; /* no need to look for the slot's rows before the loads */
layout(constant_id = 5) const bool ONE_ROW = false;  /* steps have a single row                              */
const uint QUADS = GDN_QUADS / LANES;                /* keys of a lane, by four                              */
const uint TEAMS = ZK_THREADS / LANES;
const uint PASSES = GDN_DIM / (TEAMS * VALUES);      /* with 1 the state stays in registers from row to row  */
const uint HEAD_LANES = ZK_WAVE < 32 ? ZK_WAVE : 32; /* that share a head in the norm                        */

/* Inputs of a row by quads: of z, then of the channels of q, k and v. A work-item has every ZK_THREADS'th. */
const uint INPUTS = 4 * GDN_QUADS, OWN = (INPUTS + ZK_THREADS - 1) / ZK_THREADS, OWN_CHANNELS = 4 * OWN;
vec4 w[OWN_CHANNELS]; /* taps of the four channels; the norm's weights for z */
vec4 x[OWN_CHANNELS]; /* the ring's entries; once turned, [b]: the input b positions back */
vec4 now[OWN];
float alpha_now, beta_now;

shared vec4 gate[GDN_QUADS]; /* norm * silu(z) */
shared vec4 qkv[3 * GDN_QUADS], o[GDN_QUADS]; /* q, k: not normed */
shared vec4 rates; /* decay, beta. Of 16 bytes, as are all: so wide loads are aligned */

uint next_of_slot(uint r, uint n_rows, uint slot)
{
    while (r < n_rows && zk_row(a.step, r).slot != slot)
        r++;
    return r;
}

/* Where the quad i lies among the channels, by four; z's stand for v's. */
uint channel(uint i, uint h, uint hk)
{
    uint part = i / GDN_QUADS, head = part == 1 ? hk : part == 2 ? a.n_k + hk : 2 * a.n_k + h;
    return head * GDN_QUADS + i % GDN_QUADS;
}

/* What stays the same from row to row, and the ring. Loads are not in branches that meet again: they would be waited
 * for there. So z's quads read taps and entries, too, and do not use them. */
void load_start(uint64_t ring, uint h, uint hk)
{
    uint n = gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4;
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        uint i = c * ZK_THREADS + zk_tid();
        if (i < INPUTS) {
            uint ch = channel(i, h, hk);
            uint64_t taps = a.conv_w + uint64_t(ch) * 64;
            w[4 * c] = zk_ro_f32x4(i < GDN_QUADS ? a.norm + i * 16 : taps).v[0];
            [[unroll]] for (uint b = 1; b < GDN_TAPS; b++)
                w[4 * c + b] = zk_ro_f32x4(taps).v[b];
            [[unroll]] for (uint b = 0; b < GDN_TAPS; b++)
                x[4 * c + b] = zk_f32x4(ring).v[b * n + ch];
        }
    }
}

void load_row(uint r, uint h, uint hk)
{
    uint n = gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4, ab = r * a.ab_ld + gdn_ab_at(a.ab_group, h);
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        uint i = c * ZK_THREADS + zk_tid();
        if (i < INPUTS)
            now[c] = zk_f32x4(i < GDN_QUADS ? a.z : a.qkv)
                         .v[i < GDN_QUADS ? (r * a.n_v + h) * GDN_QUADS + i : r * n + channel(i, h, hk)];
    }
    alpha_now = zk_f32(a.alpha).v[ab];
    beta_now = zk_f32(a.beta).v[ab];
}

/* From the ring's entries to the inputs before position pos, 0 before position 0. */
void ring_turn(uint pos)
{
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        vec4 e[GDN_TAPS] = vec4[4](x[4 * c], x[4 * c + 1], x[4 * c + 2], x[4 * c + 3]);
        [[unroll]] for (uint b = 1; b < GDN_TAPS; b++) {
            uint at = (pos - b) % GDN_TAPS;
            vec4 back = at == 0 ? e[0] : at == 1 ? e[1] : at == 2 ? e[2] : e[3];
            x[4 * c + b] = pos >= b ? back : vec4(0.0);
        }
    }
}

/* The inputs of a row, convolved, into shared memory. The ring gets those that no other work-group reads, with `mine`
 * those of q and k, too. */
void use_row(uint64_t ring, uint h, uint hk, uint pos, bool mine)
{
    uint n = gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4;
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        uint i = c * ZK_THREADS + zk_tid(), part = i / GDN_QUADS;
        if (part == 0) {
            gate[i] = w[4 * c] * gdn_silu4(now[c]);
        } else if (i < INPUTS) {
            if (mine || part == 3)
                zk_f32x4(ring).v[pos % GDN_TAPS * n + channel(i, h, hk)] = now[c];
            vec4 taps[4] = vec4[4](w[4 * c], w[4 * c + 1], w[4 * c + 2], w[4 * c + 3]);
            qkv[i - GDN_QUADS] = gdn_conv(taps, x[4 * c + 3], x[4 * c + 2], x[4 * c + 1], now[c]);
        }
        x[4 * c + 3] = x[4 * c + 2];
        x[4 * c + 2] = x[4 * c + 1];
        x[4 * c + 1] = now[c];
    }
    if (zk_tid() == ZK_THREADS - 1) {
        rates.x = gdn_decay(zk_ro_f32(a.a).v[h], alpha_now, zk_ro_f32(a.dt).v[h]);
        rates.y = k_sigmoid(beta_now);
    }
}

/* ---- the state ---- */

vec4 s[VALUES * QUADS];

/* The lane's value row i of a pass. */
uint value_of(uint pass, uint i) { return (pass * VALUES + i) * TEAMS + zk_tid() / LANES; }
uint state_at(uint pass, uint i, uint u) { return value_of(pass, i) * GDN_QUADS + u * LANES + zk_tid() % LANES; }

void state_load(uint64_t S, uint pass)
{
    [[unroll]] for (uint i = 0; i < VALUES; i++)
        [[unroll]] for (uint u = 0; u < QUADS; u++)
            s[i * QUADS + u] = zk_f32x4(S).v[state_at(pass, i, u)];
}
void state_reset()
{
    [[unroll]] for (uint i = 0; i < VALUES * QUADS; i++)
        s[i] = vec4(0.0);
}
void state_store(uint64_t S, uint pass)
{
    [[unroll]] for (uint i = 0; i < VALUES; i++)
        [[unroll]] for (uint u = 0; u < QUADS; u++)
            zk_f32x4(S).v[state_at(pass, i, u)] = s[i * QUADS + u];
}

/* One row: o of the value rows at hand, and their changed state. */
void state_step(uint pass)
{
    uint kl = zk_tid() % LANES;
    vec4 q[QUADS], k[QUADS];
    precise float qq = 0.0, kk = 0.0, kq = 0.0;
    [[unroll]] for (uint u = 0; u < QUADS; u++) {
        q[u] = qkv[u * LANES + kl];
        k[u] = qkv[GDN_QUADS + u * LANES + kl];
        qq = gdn_dot4(q[u], q[u], qq);
        kk = gdn_dot4(k[u], k[u], kk);
        kq = gdn_dot4(k[u], q[u], kq);
    }
    kq = gdn_sum(kq, 1, LANES);
    precise float q_inv = GDN_INV_SQRT_DIM * inversesqrt(gdn_sum(qq, 1, LANES) + a.eps);
    precise float k_inv = inversesqrt(gdn_sum(kk, 1, LANES) + a.eps);
    float d = rates.x, b = rates.y, mine = 0.0; /* o of value row kl / 2, in odd lanes */
    [[unroll]] for (uint i = 0; i < VALUES; i++) {
        uint j = value_of(pass, i);
        precise float sk = 0.0, sq = 0.0;
        [[unroll]] for (uint u = 0; u < QUADS; u++) {
            sk = gdn_dot4(s[i * QUADS + u], k[u], sk);
            sq = gdn_dot4(s[i * QUADS + u], q[u], sq);
        }
        float sum = gdn_sum(gdn_halve(sk, sq, 1), 2, LANES); /* S k in even lanes, S q in odd ones */
        precise float e = b * fma(-d * k_inv, sum, qkv[2 * GDN_QUADS + j / 4][j % 4]) * k_inv;
        float given = subgroupShuffleXor(e, 1);
        e = (kl & 1) != 0 ? given : e;
        precise float y = fma(e, kq, d * sum) * q_inv;
        mine = kl / 2 == i ? y : mine;
        [[unroll]] for (uint u = 0; u < QUADS; u++) {
            precise vec4 kept = s[i * QUADS + u] * d;
            s[i * QUADS + u] = gdn_fma4(k[u], e, kept);
        }
    }
    uint j = value_of(pass, kl / 2);
    if ((kl & 1) != 0 && kl / 2 < VALUES)
        o[j / 4][j % 4] = mine;
}

/* The gated norm of o. A work-item's gates are those that it left itself. */
void finish(uint64_t y)
{
    precise float sum = 0.0;
    [[unroll]] for (uint u = 0; u < GDN_QUADS / HEAD_LANES; u++) {
        vec4 x = o[u * HEAD_LANES + zk_lane() % HEAD_LANES];
        sum = gdn_dot4(x, x, sum);
    }
    precise float mean = gdn_sum(sum, 1, HEAD_LANES) / float(GDN_DIM) + a.eps;
    float scale = inversesqrt(mean);
    for (uint t = zk_tid(); t < GDN_QUADS; t += ZK_THREADS)
        zk_f32x4(y).v[t] = o[t] * scale * gate[t];
}

/* ---- */

/* Rings of q's and k's channels are read by all v-heads of a k-head: with several rows the last to be done writes. */
void ring_store_late(uint64_t ring, uint first, uint n_rows, uint slot, uint hk)
{
    uint n = gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4;
    if (!zk_last_of(a.counters, slot * a.n_k + hk, a.n_v / a.n_k))
        return;
    for (uint r = first; r < n_rows; r = next_of_slot(r + 1, n_rows, slot)) {
        uint to = zk_row(a.step, r).pos % GDN_TAPS * n;
        for (uint i = GDN_QUADS + zk_tid(); i < 3 * GDN_QUADS; i += ZK_THREADS)
            zk_f32x4(ring).v[to + channel(i, 0, hk)] = zk_f32x4(a.qkv).v[r * n + channel(i, 0, hk)];
    }
}

void main()
{
    uint h = gl_WorkGroupID.x, slot = gl_WorkGroupID.y, hk = gdn_k_head(a.heads, a.n_k, a.n_v, h);
    uint n_rows = zk_step_rows(a.step, ROWS_STEP), first = ONE_SLOT ? 0 : next_of_slot(0, n_rows, slot);
    if (!ONE_SLOT && first >= n_rows)
        return;
    uint64_t ring = gdn_slot(a.conv, a.conv_slot_bytes, slot);
    uint64_t S = gdn_slot(a.state, a.state_slot_bytes, slot) + uint64_t(h) * GDN_DIM * GDN_DIM * 4;
    load_row(first, h, hk);
    load_start(ring, h, hk);
    if (PASSES == 1)
        state_load(S, 0);
    ring_turn(zk_row(a.step, first).pos);
    bool alone = ONE_ROW || next_of_slot(first + 1, n_rows, slot) >= n_rows;
    bool mine = alone && gdn_is_first(a.heads, a.n_k, a.n_v, h);
    for (uint r = first, next; r < n_rows; r = next) {
        uint pos = zk_row(a.step, r).pos;
        next = ONE_ROW ? n_rows : next_of_slot(r + 1, n_rows, slot);
        use_row(ring, h, hk, pos, mine);
        if (!ONE_ROW && next < n_rows)
            load_row(next, h, hk);
        barrier();
        for (uint pass = 0; pass < PASSES; pass++) {
            if (PASSES > 1)
                state_load(S, pass);
            if (pos == 0)
                state_reset();
            state_step(pass);
            if (PASSES > 1 || ONE_ROW || next >= n_rows)
                state_store(S, pass);
        }
        barrier();
        if (zk_wave() * ZK_WAVE < GDN_QUADS)
            finish(a.y + (uint64_t(r) * a.n_v + h) * GDN_DIM * 4);
        if (ONE_ROW)
            break;
    }
    if (!alone)
        ring_store_late(ring, first, n_rows, slot, hk);
}
