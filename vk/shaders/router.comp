#version 460
/* ROUTER, for few rows: the norm, the experts' logits and the shared expert's gate; the last work-group of a row
 * chooses. Grid x: work-groups that share the experts, y: rows.
 *
 * LANES neighbouring work-items make one logit, with the same elements of x for every expert, so these stay in
 * registers; the first expert's weights are asked for before x is. Weights in blocks, which routers hardly have, meet x
 * as codes. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_router)

#include "types.glsl"
layout(constant_id = 4) const uint AT_ONCE = 2;    /* experts: 1, or 2 where there are as many subgroups or more */
layout(constant_id = 5) const uint KEEP = 2;       /* items of a lane in registers                               */
layout(constant_id = 6) const bool ALIGNED = true; /* rows of floats are whole items and start at 16 bytes       */
layout(constant_id = 7) const uint EXPERTS = 256;
layout(constant_id = 8) const uint XQ_N_IN = 2048;
layout(constant_id = 9) const uint XQ_N_PAD = 2048;
layout(constant_id = 10) const uint FLAGS = 2; /* vk/lower_moe.c */
const bool XQ_NORM = (FLAGS & 2) != 0, RAGGED = (FLAGS & 4) != 0, XQ_QUANTS = (FLAGS & 16) != 0;
const bool WD_TABLE = (FLAGS & 64) != 0, XQ_UNEVEN = (FLAGS & 128) != 0, XQ_FLOATS = false, XQ_DIRECT = false;
const uint XQ_ROWS = 1;

#include "matvec_dot.glsl"

const uint LANES = ZK_THREADS / AT_ONCE, SPLIT = ZK_WAVES / AT_ONCE, ITEMS = (XQ_N_IN + 7) / 8;

uint part() { return zk_tid() % LANES; }
uint turn() { return zk_wave() / SPLIT; }

/* ---- items: 8 elements of a row of floats ---- */

struct item { vec4 lo, hi; };

float element(uint type, uint64_t row, uint i)
{
    if (i >= XQ_N_IN)
        return 0.0;
    if (type == QT_F32)
        return zk_ro_f32(row).v[i];
    uint u = uint(zk_ro_u16(row).v[i]);
    return type == QT_F16 ? zk_f16(u) : zk_bf16(u);
}

/* The last one stands for those behind it. */
item load(uint type, uint64_t row, uint i)
{
    item v;
    i = min(i, ITEMS - 1);
    if (!ALIGNED) {
        [[unroll]] for (uint k = 0; k < 4; k++) {
            v.lo[k] = element(type, row, i * 8 + k);
            v.hi[k] = element(type, row, i * 8 + 4 + k);
        }
    } else if (type == QT_F32) {
        v.lo = zk_ro_f32x4(row).v[2 * i];
        v.hi = zk_ro_f32x4(row).v[2 * i + 1];
    } else {
        wd_item w;
        w.a = zk_ro4(row).v[i];
        wd_floats f = wd_open_floats(type, w);
        v = item(f.lo, f.hi);
    }
    return v;
}

float dot_item(item w, item x, float acc)
{
    [[unroll]] for (uint k = 0; k < 4; k++)
        acc = fma(w.lo[k], x.lo[k], acc);
    [[unroll]] for (uint k = 0; k < 4; k++)
        acc = fma(w.hi[k], x.hi[k], acc);
    return acc;
}

/* x' of item i; scale: 1 / rms. */
item normed(item x, item norm, float scale, uint i)
{
    if (XQ_NORM) {
        precise vec4 lo = x.lo * scale, hi = x.hi * scale;
        lo *= norm.lo;
        hi *= norm.hi;
        x = item(lo, hi);
    }
    if (i >= ITEMS)
        x = item(vec4(0.0), vec4(0.0));
    return x;
}

/* x' of the lane's first items, and 1 / rms for the others. */
void input_row(uint64_t x, out item kept[KEEP], out float scale)
{
    item norm[KEEP];
    [[unroll]] for (uint k = 0; k < KEEP; k++) {
        kept[k] = load(QT_F32, x, part() + k * LANES);
        if (XQ_NORM)
            norm[k] = load(QT_F32, a.norm, part() + k * LANES);
    }
    scale = 0.0;
    if (XQ_NORM) {
        float ss = 0.0;
        [[unroll]] for (uint k = 0; k < KEEP; k++)
            if (part() + k * LANES < ITEMS)
                ss = dot_item(kept[k], kept[k], ss);
        for (uint i = part() + KEEP * LANES; i < ITEMS; i += LANES) {
            item v = load(QT_F32, x, i);
            ss = dot_item(v, v, ss);
        }
        ss = zk_wave_sum(ss);
        if (zk_lane() == 0)
            zk_red[zk_wave()] = ss;
        barrier();
        precise float all = zk_red[turn() * SPLIT];
        for (uint i = 1; i < SPLIT; i++)
            all += zk_red[turn() * SPLIT + i];
        scale = zk_div(1.0, sqrt(zk_div(all, float(XQ_N_IN)) + a.eps));
    }
    [[unroll]] for (uint k = 0; k < KEEP; k++)
        kept[k] = normed(kept[k], norm[k], scale, part() + k * LANES);
}

/* ---- logits ---- */

shared float parts[2][ZK_WAVES];

/* Row n is an expert, or behind them the shared expert's gate; rows behind that repeat a former one. */
bool is_gate(uint n) { return a.shared_w != 0 && n >= a.n_expert; }
bool is_blocks(uint n) { return XQ_QUANTS && !is_gate(n); }
item weight(uint n, uint i)
{
    if (XQ_QUANTS || (T0 != QT_F32 && is_gate(n)))
        return load(QT_F32, a.shared_w, i);
    uint64_t row = a.w + uint64_t(min(n, a.n_expert - 1)) * XQ_N_IN * (T0 == QT_F32 ? 4 : 2);
    return load(T0, is_gate(n) ? a.shared_w : row, i);
}

void first_weights(uint n, out item w[KEEP])
{
    if (!is_blocks(n)) {
        [[unroll]] for (uint k = 0; k < KEEP; k++)
            w[k] = weight(n, part() + k * LANES);
    }
}

/* This lane's part of row n's sum. */
float dot_blocks(uint n)
{
    wd_mat m = wd_row(T0, wd_matrix(T0, a.w, a.n_expert, XQ_N_IN), min(n, a.n_expert - 1), XQ_N_IN);
    float acc[16];
    wd_item w[4];
    acc[0] = 0.0;
    for (uint i = part(); i < wd_items(T0, XQ_N_IN); i += LANES) {
        w[0] = wd_load(T0, RAGGED, m, i, XQ_N_IN);
        mv_dot(T0, 1, 1, true, w, i, i, acc);
    }
    return acc[0];
}
float dot_floats(uint n, uint64_t x, item w[KEEP], item kept[KEEP], float scale)
{
    float acc = 0.0;
    [[unroll]] for (uint k = 0; k < KEEP; k++)
        acc = dot_item(w[k], kept[k], acc);
    for (uint i = part() + KEEP * LANES; i < ITEMS; i += LANES) {
        item norm;
        if (XQ_NORM)
            norm = load(QT_F32, a.norm, i);
        acc = dot_item(weight(n, i), normed(load(QT_F32, x, i), norm, scale, i), acc);
    }
    return acc;
}

void store(uint n, uint r, float v)
{
    if (n < a.n_expert) {
        precise float l = a.b != 0 ? v + zk_ro_f32(a.b).v[n] : v;
        zk_shared_f32(a.logits).v[r * a.n_expert + n] = l;
    } else if (n == a.n_expert && a.shared_w != 0) {
        zk_f32(a.share).v[r] = k_sigmoid(v);
    }
}

void logits(uint r)
{
    uint total = a.n_expert + (a.shared_w != 0 ? 1 : 0), n0 = gl_WorkGroupID.x * AT_ONCE, parity = 0;
    uint64_t x = a.x + uint64_t(r) * XQ_N_IN * 4;
    item w[KEEP], kept[KEEP];
    float scale;
    first_weights(n0 + turn(), w);
    input_row(x, kept, scale);
    if (XQ_QUANTS) {
        wd_fill_table(T0);
        xq_prepare(x, XQ_N_IN, a.norm, 1, a.eps);
    }
    for (;;) {
        uint n = n0 + turn();
        float sum = zk_wave_sum(is_blocks(n) ? dot_blocks(n) : dot_floats(n, x, w, kept, scale));
        if (zk_lane() == 0)
            parts[parity][zk_wave()] = sum;
        barrier();
        if (part() == 0) {
            precise float v = parts[parity][zk_wave()];
            for (uint i = 1; i < SPLIT; i++)
                v += parts[parity][zk_wave() + i];
            store(n, r, v);
        }
        n0 += gl_NumWorkGroups.x * AT_ONCE;
        if (n0 >= total)
            return;
        first_weights(n0 + turn(), w);
        parity ^= 1;
    }
}

/* ---- the choice ---- */

shared uint64_t candidate[(EXPERTS + ZK_WAVE - 1) / ZK_WAVE * ZK_WAVE];
shared float logit[EXPERTS], chosen_exp[EXPERTS];
shared uint chosen_id[EXPERTS];

/* The k largest logits by two rounds of counting how many are larger: among a subgroup's experts each, then among what
 * is left of them. A candidate is its key, then its number upside down: ties go to the lowest. */
void choose(uint r)
{
    const uint n = EXPERTS;
    uint keep = min(a.k, ZK_WAVE), left = zk_div_up(n, ZK_WAVE) * keep;
    float top = uintBitsToFloat(0xff800000u), all = 0.0;
    for (uint from = zk_wave() * ZK_WAVE; from < n; from += ZK_THREADS) {
        uint i = from + zk_lane(), rank = 0, key = 0;
        if (i < n) {
            float l = zk_shared_f32(a.logits).v[r * n + i];
            logit[i] = l;
            key = moe_key(l);
            top = max(top, l);
        }
        [[unroll]] for (uint j = 0; j < ZK_WAVE; j++) {
            uint other = subgroupShuffle(key, j);
            rank += uint(other > key || (other == key && j < zk_lane()));
        }
        if (rank < keep)
            candidate[from / ZK_WAVE * keep + rank] = uint64_t(key) << 32 | uint64_t(~i);
    }
    top = zk_group_max(top);
    if (a.gating == KA_SOFTMAX_TOPK) {
        for (uint i = zk_tid(); i < n; i += ZK_THREADS) {
            precise float sum = all + k_exp(logit[i] - top);
            all = sum;
        }
        all = zk_group_sum(all);
    }
    for (uint i = zk_tid(); i < left; i += ZK_THREADS) {
        uint64_t own = candidate[i];
        uint rank = 0, id = ~uint(own);
        for (uint j = 0; j < left; j++)
            rank += uint(candidate[j] > own);
        if (rank < a.k) {
            chosen_exp[rank] = k_exp(logit[id] - top);
            chosen_id[rank] = id;
        }
    }
    barrier();
    for (uint j = zk_tid(); j < a.k; j += ZK_THREADS) {
        precise float chosen = 0.0;
        for (uint i = 0; i < a.k; i++)
            chosen += chosen_exp[i];
        uint id = chosen_id[j];
        zk_u32(a.ids).v[r * a.k + j] = id;
        zk_f32(a.weights).v[r * a.k + j] =
            moe_weight(chosen_exp[j], chosen, all, a.gating, a.scale, a.expert_scale, id);
    }
}

void main()
{
    uint r = gl_WorkGroupID.y;
    if (!moe_has_row(a.step, r))
        return;
    logits(r);
    if (zk_last_of(a.counters, r, gl_NumWorkGroups.x))
        choose(r);
}
