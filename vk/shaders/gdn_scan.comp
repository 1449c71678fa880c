#version 460
/* Gated DeltaNet, prompts: the state of a slot, row by row; it stays in registers. A work-group has VALUES value rows
 * of a v-head; it takes the rows by tiles of TILE, whose q, k, v and gates come through shared memory while the tile
 * before is worked on. LANES neighbours have a pair of value rows, QUADS quads of keys a lane; of the pair an odd
 * lane takes the second as its first: so the pair's sums are exchanged by the lanes' second ones alone, and need no
 * choice.
 *
 * Sums have one order, wherever a prompt is cut into steps and whatever the tile.
 * Grid x: v-heads, each GDN_DIM / VALUES work-groups, y: slots. Leaves o in y. */
#include "gdn_prompt.glsl"

layout(constant_id = 3) const uint LANES = 16; /* 4, 8 or 16, at most ZK_WAVE */
layout(constant_id = 4) const uint TILE = 8;   /* a multiple of HALF */
const uint HALF = 4;
const uint QUADS = GDN_QUADS / LANES;
const uint VALUES = 2 * ZK_THREADS / LANES;
const uint TILE_QUADS = TILE * GDN_QUADS, TILE_VALUES = TILE * VALUES;
const uint QUADS_EACH = (TILE_QUADS + ZK_THREADS - 1) / ZK_THREADS;
const uint VALUES_EACH = (TILE_VALUES + ZK_THREADS - 1) / ZK_THREADS;
const uint GATES_EACH = (TILE + ZK_THREADS - 1) / ZK_THREADS;

shared vec4 tile_q[2 * TILE_QUADS], tile_k[2 * TILE_QUADS];
shared float tile_v[2 * TILE_VALUES], tile_o[2 * TILE_VALUES];
shared vec4 tile_gates[2 * TILE]; /* decay, beta decay, k . q */

/* ---- the next tile, on its way ---- */

vec4 next_q[QUADS_EACH], next_k[QUADS_EACH], next_gates[GATES_EACH];
float next_v[VALUES_EACH];

void next_load(uint slot, uint i0, uint n, uint h, uint hk, uint j0)
{
    uint channels = gdn_channels(a.n_k, a.n_v, GDN_DIM);
    /* rows past the last stand for the last */
    [[unroll]] for (uint e = 0; e < QUADS_EACH; e++) {
        uint at = min(e * ZK_THREADS + zk_tid(), TILE_QUADS - 1);
        uint r = slot_row(slot, min(i0 + at / GDN_QUADS, n - 1));
        uint from = r * (channels / 4) + hk * GDN_QUADS + at % GDN_QUADS;
        next_q[e] = zk_f32x4(a.c).v[from];
        next_k[e] = zk_f32x4(a.c).v[from + a.n_k * GDN_QUADS];
    }
    [[unroll]] for (uint e = 0; e < VALUES_EACH; e++) {
        uint at = min(e * ZK_THREADS + zk_tid(), TILE_VALUES - 1);
        uint r = slot_row(slot, min(i0 + at / VALUES, n - 1));
        next_v[e] = zk_f32(a.c).v[r * channels + (2 * a.n_k + h) * GDN_DIM + j0 + at % VALUES];
    }
    [[unroll]] for (uint e = 0; e < GATES_EACH; e++) {
        uint at = e * ZK_THREADS + zk_tid();
        if (at < TILE) {
            uint r = slot_row(slot, min(i0 + at, n - 1));
            next_gates[e] = vec4(zk_f32x2(a.gates).v[r * a.n_v + h], zk_f32(a.kq).v[r * a.n_k + hk], 0.0);
        }
    }
}

void next_store(uint b)
{
    [[unroll]] for (uint e = 0; e < QUADS_EACH; e++) {
        uint at = e * ZK_THREADS + zk_tid();
        if (at < TILE_QUADS) {
            tile_q[b * TILE_QUADS + at] = next_q[e];
            tile_k[b * TILE_QUADS + at] = next_k[e];
        }
    }
    [[unroll]] for (uint e = 0; e < VALUES_EACH; e++) {
        uint at = e * ZK_THREADS + zk_tid();
        if (at < TILE_VALUES)
            tile_v[b * TILE_VALUES + at] = next_v[e];
    }
    [[unroll]] for (uint e = 0; e < GATES_EACH; e++) {
        uint at = e * ZK_THREADS + zk_tid();
        if (at < TILE)
            tile_gates[b * TILE + at] = next_gates[e];
    }
}

/* ---- a row ---- */

vec4 s[2 * QUADS]; /* of the lane's first value row, of its second */

/* The lane's value row i among those of the work-group. */
uint value_of(uint i) { return zk_tid() / LANES * 2 + (i ^ (zk_tid() & 1)); }

/* What row i of tile b adds to the state; returns e of the first value row. sq: the lane's parts of S q, S being the
 * old state. */
float scan_row(uint b, uint i, out float sq0, out float sq1)
{
    uint kl = zk_tid() % LANES, at = b * TILE_QUADS + i * GDN_QUADS + kl;
    vec4 gates = tile_gates[b * TILE + i], k[QUADS];
    precise float seen = 0.0, give = 0.0, p0 = 0.0, p1 = 0.0;
    [[unroll]] for (uint u = 0; u < QUADS; u++) {
        k[u] = tile_k[at + u * LANES];
        seen = gdn_dot4(s[u], k[u], seen);
        give = gdn_dot4(s[QUADS + u], k[u], give);
    }
    seen += subgroupShuffleXor(give, 1);
    seen = gdn_sum(seen, 2, LANES);
    precise float e0 = fma(-gates.y, seen, tile_v[b * TILE_VALUES + i * VALUES + value_of(0)]);
    float e1 = subgroupShuffleXor(e0, 1);
    [[unroll]] for (uint u = 0; u < QUADS; u++) {
        vec4 q = tile_q[at + u * LANES];
        p0 = gdn_dot4(s[u], q, p0);
        p1 = gdn_dot4(s[QUADS + u], q, p1);
        precise vec4 kept0 = s[u] * gates.x, kept1 = s[QUADS + u] * gates.x;
        s[u] = gdn_fma4(k[u], e0, kept0);
        s[QUADS + u] = gdn_fma4(k[u], e1, kept1);
    }
    sq0 = p0;
    sq1 = p1;
    return e0;
}

void put(uint b, uint i, float e, float sum)
{
    vec4 gates = tile_gates[b * TILE + i];
    precise float o = fma(e, gates.z, gates.x * sum);
    tile_o[b * TILE_VALUES + i * VALUES + value_of(0)] = o;
}

/* o = decay (S q) + e (k . q) of HALF rows from i on. Parts are added over the lanes 1, 2, 4 and 8 apart; a lane ends
 * with row (bit 1, bit 2) of its first value row. */
void scan_out(uint b, uint i, float sq0[HALF], float sq1[HALF], float e[HALF])
{
    uint kl = zk_tid() % LANES;
    bool b1 = (kl & 2) != 0, b2 = (kl & 4) != 0;
    float r[HALF];
    [[unroll]] for (uint u = 0; u < HALF; u++) {
        precise float t = sq0[u] + subgroupShuffleXor(sq1[u], 1);
        r[u] = t;
    }
    float x = gdn_halve(r[0], r[2], 2), y = gdn_halve(r[1], r[3], 2), ex = b1 ? e[2] : e[0], ey = b1 ? e[3] : e[1];
    i += kl & 2;
    if (LANES == 4) {
        put(b, i, ex, x);
        put(b, i + 1, ey, y);
    } else {
        float z = gdn_sum(gdn_halve(x, y, 4), 8, LANES);
        if (kl < 8)
            put(b, i + (b2 ? 1 : 0), b2 ? ey : ex, z);
    }
}

/* The first n rows of tile b; of those behind them tile_o gets rubbish. */
void scan_tile(uint b, uint n)
{
    for (uint i = 0; i < n; i += HALF) {
        float sq0[HALF], sq1[HALF], e[HALF];
        [[unroll]] for (uint u = 0; u < HALF; u++) {
            sq0[u] = sq1[u] = e[u] = 0.0;
            if (n == TILE || i + u < n)
                e[u] = scan_row(b, i + u, sq0[u], sq1[u]);
        }
        scan_out(b, i, sq0, sq1, e);
    }
}

/* ---- */

/* The slot's last inputs, into its ring: v's by the v-head's first work-group, and q's and k's by the first v-head of
 * their k-head. Nobody reads rings in this kernel. */
void store_ring(uint slot, uint n, uint h, uint hk)
{
    uint channels = gdn_channels(a.n_k, a.n_v, GDN_DIM) / 4;
    zk_f32x4 ring = zk_f32x4(gdn_slot(a.conv, a.conv_slot_bytes, slot)), x = zk_f32x4(a.qkv);
    bool first = gdn_is_first(a.heads, a.n_k, a.n_v, h);
    for (uint back = 0; back < GDN_TAPS && back < n; back++) {
        uint r = slot_row(slot, n - 1 - back), to = zk_row(a.step, r).pos % GDN_TAPS * channels;
        for (uint i = zk_tid(); i < GDN_QUADS; i += ZK_THREADS) {
            uint q = hk * GDN_QUADS + i, k = q + a.n_k * GDN_QUADS, v = (2 * a.n_k + h) * GDN_QUADS + i;
            ring.v[to + v] = x.v[r * channels + v];
            if (first) {
                ring.v[to + q] = x.v[r * channels + q];
                ring.v[to + k] = x.v[r * channels + k];
            }
        }
    }
}

void main()
{
    const uint PARTS = GDN_DIM / VALUES;
    uint h = gl_WorkGroupID.x / PARTS, j0 = gl_WorkGroupID.x % PARTS * VALUES, slot = gl_WorkGroupID.y;
    uint hk = gdn_k_head(a.heads, a.n_k, a.n_v, h), kl = zk_tid() % LANES, n = slot_rows(slot);
    if (n == 0)
        return;
    zk_f32x4 S = zk_f32x4(gdn_slot(a.state, a.state_slot_bytes, slot) + uint64_t(h * GDN_DIM + j0) * GDN_DIM * 4);
    bool fresh = zk_row(a.step, slot_row(slot, 0)).pos == 0;
    next_load(slot, 0, n, h, hk, j0);
    [[unroll]] for (uint i = 0; i < 2; i++)
        [[unroll]] for (uint u = 0; u < QUADS; u++) {
            s[i * QUADS + u] = vec4(0.0);
            if (!fresh)
                s[i * QUADS + u] = S.v[value_of(i) * GDN_QUADS + u * LANES + kl];
        }
    next_store(0);
    barrier();
    for (uint i = 0, b = 0; i < n; i += TILE, b ^= 1) {
        next_load(slot, i + TILE, n, h, hk, j0); /* past the end: the last row once more, unused */
        if (i + TILE <= n)
            scan_tile(b, TILE);
        else
            scan_tile(b, n - i);
        next_store(b ^ 1);
        barrier();
        [[unroll]] for (uint e = 0; e < VALUES_EACH; e++) {
            uint at = e * ZK_THREADS + zk_tid(), row = at / VALUES;
            if (at < TILE_VALUES && i + row < n)
                zk_f32(a.y).v[(slot_row(slot, i + row) * a.n_v + h) * GDN_DIM + j0 + at % VALUES] =
                    tile_o[b * TILE_VALUES + at];
        }
    }
    [[unroll]] for (uint i = 0; i < 2; i++)
        [[unroll]] for (uint u = 0; u < QUADS; u++)
            S.v[value_of(i) * GDN_QUADS + u * LANES + kl] = s[i * QUADS + u];
    if (j0 == 0)
        store_ring(slot, n, h, hk);
}
