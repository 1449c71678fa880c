#version 460
/* Attention of single rows over the cache, split over positions. Grid x: splits, y: kv heads, z: rows.
 *
 * A subgroup takes up to NH query heads of a kv head and every n-th run of SUB positions. LPP lanes share a position;
 * a lane holds every LPP-th piece of eight dimensions of q, K, V and o. The lanes' parts of the scores are added by a
 * butterfly that gives away half of them in each step: it ends with one finished score per lane. Softmax is online per
 * subgroup, in base 2. The subgroups' (m, l, o) are combined through shared memory in ascending order, the splits'
 * likewise by the last work-group to arrive. How a row is cut depends on its own position only.
 * part: vec4 [rows, n_head, splits, HD / 4 + 1]: o, then (m, l, 0, 0). */
#include "zk.glsl"
#include "attn_kv.glsl"
ZK_ARGS(kl_attn)
layout(constant_id = 2) const uint HD = 128;
layout(constant_id = 3) const uint KV = 1;
layout(constant_id = 4) const uint LPP = 16;
layout(constant_id = 5) const uint NH = 4;
layout(constant_id = 6) const uint NPOS = 4;  /* positions that a lane takes at once; NH * NPOS <= LPP       */
layout(constant_id = 7) const uint ML = 32;   /* room for m and l of the subgroups' heads, of the splits' */
const uint PIECES = HD / 8 / LPP;
const uint PW = ZK_WAVE / LPP;                /* positions side by side */
const uint SUB = PW * NPOS;
const uint NS = NH * NPOS;
const uint REP = LPP / NS;                    /* lanes that end with the same score */
const uint NK = NPOS * PIECES;
const uint NK_HIGH = KV == KA_KV_F32 ? NK : 1;
const uint NO = NH * PIECES;
const float LOG2E = 1.44269504;
#define NEG_INF uintBitsToFloat(0xff800000u)

layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer attn_part { vec4 v[]; };

shared vec4 sh_o[ZK_WAVES * NH * HD / 4];     /* q, and at the end o */
shared vec2 sh_ml[ML];

/* What the work-group does. */
uint row, kvh, slot;
uint group;         /* query heads per kv head     */
uint n_active;      /* splits in use               */
uint from, to;      /* positions of this split     */
uint set0, n_sets;  /* of NH heads, in this pass   */
/* The subgroup: its set of heads, its place among those with the same set. */
uint set, wp, n_wp;

/* False: nothing to do. */
bool find_job()
{
    row = gl_WorkGroupID.z;
    kvh = gl_WorkGroupID.y;
    ka_row r = zk_row(a.step, row); /* beside the number of rows, not after it */
    if (row >= zk_step_rows(a.step, ROWS_STEP))
        return false;
    uint lo = a.window != 0 && r.pos >= a.window ? r.pos - a.window + 1 : 0, n = r.pos + 1 - lo;
    uint chunk = max(zk_div_up(zk_div_up(n, a.splits), 32) * 32, a.chunk_min);
    slot = r.slot;
    group = a.n_head / a.n_kv;
    n_active = zk_div_up(n, chunk);
    from = lo + gl_WorkGroupID.x * chunk;
    to = min(from + chunk, r.pos + 1);
    return gl_WorkGroupID.x < n_active;
}

void find_place(uint first_set)
{
    set0 = first_set;
    n_sets = min(zk_div_up(group, NH) - set0, ZK_WAVES);
    set = set0 + zk_wave() % n_sets;
    wp = zk_wave() / n_sets;
    n_wp = ZK_WAVES / n_sets;
}

/* Where four values of a head lie in sh_o: the lower halves of all pieces, then the upper ones, so that lanes read
 * neighbours. e: a fourth of the head's dimension. */
uint in_head(uint e) { return e % 2 * (HD / 8) + e / 2; }

/* ---- the end ---- */

/* Four values of a finished row of a head, once m (in base 2), l and o of all positions are known. */
void write(uint head, uint e, float m, float l, vec4 o)
{
    if (a.sinks != 0) {
        float sink = zk_ro_f32(a.sinks).v[head] * LOG2E, both = max(m, sink), by = exp2(m - both);
        l = l * by + exp2(sink - both);
        o *= by;
    }
    vec4 y = o / l;
    uint64_t gate = a.gate + 4 * (uint64_t(row) * a.ldq + head * a.q_hs + 4 * e);
    uint64_t to = a.y + 4 * ((uint64_t(row) * a.n_head + head) * HD + 4 * e);
    [[unroll]] for (uint i = 0; i < 4; i++)
        zk_f32(to).v[i] = a.gate != 0 ? y[i] * zk_sigmoid(zk_f32(gate).v[i]) : y[i];
}

/* In vec4: what split s of a head has in part. */
uint64_t part_of(uint head, uint s)
{
    return a.part + ((uint64_t(row) * a.n_head + head) * a.splits + s) * (HD / 4 + 1) * 16;
}

/* Combines what the subgroups left: m, l at sh_ml [n_wp][heads of the pass], o at sh_o likewise. */
void combine()
{
    uint slots = n_sets * NH, n = min(group - set0 * NH, slots) * (HD / 4);
    for (uint i = zk_tid(); i < n; i += ZK_THREADS) {
        uint s = i / (HD / 4), e = i % (HD / 4), head = kvh * group + set0 * NH + s;
        float m = sh_ml[s].x, l = 0.0;
        vec4 o = vec4(0.0);
        for (uint w = 1; w < n_wp; w++)
            m = max(m, sh_ml[w * slots + s].x);
        for (uint w = 0; w < n_wp; w++) {
            vec2 ml = sh_ml[w * slots + s];
            float by = exp2(ml.x - m);
            l = fma(ml.y, by, l);
            o = fma(sh_o[(w * slots + s) * (HD / 4) + in_head(e)], vec4(by), o);
        }
        if (n_active == 1) {
            write(head, e, m, l, o);
            continue;
        }
        uint64_t p = part_of(head, gl_WorkGroupID.x);
        attn_part(p).v[e] = o;
        if (e == 0)
            attn_part(p).v[HD / 4] = vec4(m, l, 0.0, 0.0);
    }
}

const uint AHEAD = 8;

/* The splits of all heads of the pass, in ascending order. */
void merge()
{
    uint n = min(group - set0 * NH, n_sets * NH), head0 = kvh * group + set0 * NH;
    for (uint i = zk_tid(); i < n * n_active; i += ZK_THREADS)
        sh_ml[i] = attn_part(part_of(head0 + i / n_active, i % n_active)).v[HD / 4].xy;
    barrier();
    for (uint i = zk_tid(); i < n * (HD / 4); i += ZK_THREADS) {
        uint s = i / (HD / 4), e = i % (HD / 4), at = s * n_active;
        float m = sh_ml[at].x, l = 0.0;
        vec4 o = vec4(0.0);
        for (uint k = 1; k < n_active; k++)
            m = max(m, sh_ml[at + k].x);
        for (uint k0 = 0; k0 < n_active; k0 += AHEAD) {
            vec4 v[AHEAD];
            [[unroll]] for (uint k = 0; k < AHEAD; k++)
                v[k] = attn_part(part_of(head0 + s, min(k0 + k, n_active - 1))).v[e];
            [[unroll]] for (uint k = 0; k < AHEAD; k++) {
                if (k0 + k < n_active) {
                    vec2 ml = sh_ml[at + k0 + k];
                    float by = exp2(ml.x - m);
                    l = fma(ml.y, by, l);
                    o = fma(v[k], vec4(by), o);
                }
            }
        }
        write(head0 + s, e, m, l, o);
    }
    barrier();
}

/* ---- the scan ---- */

float s[NS];                            /* [NPOS][NH] */
uvec4 k[NK], k_high[NK_HIGH], v[NK], v_high[NK_HIGH];
vec4 o[2 * NO];                         /* [NH][PIECES][2] */

#define LOAD_ROWS(raw, high, head, p0)                                                                                 \
    [[unroll]] for (uint i = 0; i < NPOS; i++) {                                                                       \
        uint pos = min((p0) + i * PW + zk_lane() / LPP, to - 1);                                                       \
        [[unroll]] for (uint c = 0; c < PIECES; c++) {                                                                 \
            raw[i * PIECES + c] = kv_raw8(KV, head, pos, HD, (c * LPP + sub) * 8);                                     \
            if (KV == KA_KV_F32)                                                                                       \
                high[i * PIECES + c] = kv_raw8_high(KV, head, pos, HD, (c * LPP + sub) * 8);                           \
        }                                                                                                              \
    }
#define HIGH(high, i) (KV == KA_KV_F32 ? high[KV == KA_KV_F32 ? (i) : 0] : uvec4(0))

/* A step of the butterfly: lanes `bit` apart exchange halves of their 2 n sums, the upper one keeps the upper half.
 * With n = 0 they add their only one. */
void fold(const uint n, const uint bit)
{
    bool upper = (zk_lane() & bit) != 0;
    if (n == 0)
        s[0] += subgroupShuffleXor(s[0], bit);
    [[unroll]] for (uint i = 0; i < n; i++) {
        float lower_sum = s[i], upper_sum = s[i + n];
        s[i] = (upper ? upper_sum : lower_sum) + subgroupShuffleXor(upper ? lower_sum : upper_sum, bit);
    }
}
#define FOLD(bit) if (LPP > bit) fold(NS * bit / LPP, bit)

/* The lane's part of the scores, then the score that it ends with. q: in sh_o. */
void scores(uint q, uint sub)
{
    [[unroll]] for (uint i = 0; i < NS; i++)
        s[i] = 0.0;
    [[unroll]] for (uint c = 0; c < PIECES; c++) {
        vec4 lo[NPOS], hi[NPOS];
        [[unroll]] for (uint i = 0; i < NPOS; i++) {
            lo[i] = kv_low4(KV, k[i * PIECES + c]);
            hi[i] = kv_high4(KV, k[i * PIECES + c], HIGH(k_high, i * PIECES + c));
        }
        [[unroll]] for (uint h = 0; h < NH; h++) {
            vec4 q_lo = sh_o[q + h * (HD / 4) + c * LPP + sub], q_hi = sh_o[q + h * (HD / 4) + HD / 8 + c * LPP + sub];
            [[unroll]] for (uint i = 0; i < NPOS; i++) {
                float t = kv_blocks(KV) ? 0.0 : s[i * NH + h];
                [[unroll]] for (uint d = 0; d < 4; d++)
                    t = fma(q_lo[d], lo[i][d], t);
                [[unroll]] for (uint d = 0; d < 4; d++)
                    t = fma(q_hi[d], hi[i][d], t);
                s[i * NH + h] = kv_blocks(KV) ? fma(t, kv_scale8(KV, k[i * PIECES + c]), s[i * NH + h]) : t;
            }
        }
    }
    FOLD(32);
    FOLD(16);
    FOLD(8);
    FOLD(4);
    FOLD(2);
    FOLD(1);
}

void scan()
{
    uint sub = zk_lane() % LPP, own_head = sub / REP % NH, own_pos = sub / REP / NH * PW + zk_lane() / LPP;
    kv_head kh = kv_head_at(a.kc + slot * a.slot_bytes, KV, a.n_kv, a.n_ctx, HD, kvh);
    kv_head vh = kv_head_at(a.vc + slot * a.slot_bytes, KV, a.n_kv, a.n_ctx, HD, kvh);
    uint mine = wp * n_sets * NH + (set - set0) * NH, q = mine * (HD / 4);
    uint p0 = from + wp * SUB, by = n_wp * SUB;
    LOAD_ROWS(k, k_high, kh, p0)
    for (uint i = zk_lane(); i < NH * (HD / 4); i += ZK_WAVE) {
        uint h = i / (HD / 4), e = i % (HD / 4);
        bool is = set * NH + h < group;
        uint64_t at = a.q + 4 * (uint64_t(row) * a.ldq + (kvh * group + set * NH + (is ? h : 0)) * a.q_hs + 4 * e);
        vec4 x = vec4(zk_f32(at).v[0], zk_f32(at).v[1], zk_f32(at).v[2], zk_f32(at).v[3]);
        sh_o[q + h * (HD / 4) + in_head(e)] = is ? x * (a.scale * LOG2E) : vec4(0.0);
    }
    [[unroll]] for (uint i = 0; i < 2 * NO; i++)
        o[i] = vec4(0.0);
    float m = NEG_INF, l = 0.0;
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (; p0 < to; p0 += by) {
        LOAD_ROWS(v, v_high, vh, p0)
        scores(q, sub);
        LOAD_ROWS(k, k_high, kh, p0 + by)
        bool seen = p0 + own_pos < to;
        float top = seen ? s[0] : NEG_INF, old = m;
        [[unroll]] for (uint b = NH * REP; b < ZK_WAVE; b *= 2)
            top = max(top, subgroupShuffleXor(top, b));
        m = max(old, top);
        float p = seen ? exp2(s[0] - m) : 0.0, decay = exp2(old - m);
        l = fma(l, decay, p);
        [[unroll]] for (uint h = 0; h < NH; h++) {
            float f = subgroupShuffle(decay, h * REP);
            [[unroll]] for (uint c = 0; c < 2 * PIECES; c++)
                o[h * 2 * PIECES + c] *= f;
        }
        [[unroll]] for (uint i = 0; i < NPOS; i++) {
            float f[NH];
            [[unroll]] for (uint h = 0; h < NH; h++)
                f[h] = subgroupShuffle(p, zk_lane() - sub + (i * NH + h) * REP);
            [[unroll]] for (uint c = 0; c < PIECES; c++) {
                vec4 lo = kv_low4(KV, v[i * PIECES + c]);
                vec4 hi = kv_high4(KV, v[i * PIECES + c], HIGH(v_high, i * PIECES + c));
                float scale = kv_scale8(KV, v[i * PIECES + c]);
                [[unroll]] for (uint h = 0; h < NH; h++) {
                    vec4 w = vec4(kv_blocks(KV) ? f[h] * scale : f[h]);
                    uint at = 2 * (h * PIECES + c);
                    o[at] = fma(w, lo, o[at]);
                    o[at + 1] = fma(w, hi, o[at + 1]);
                }
            }
        }
    }
    [[unroll]] for (uint b = NH * REP; b < ZK_WAVE; b *= 2)
        l += subgroupShuffleXor(l, b);
    [[unroll]] for (uint b = LPP; b < ZK_WAVE; b *= 2) {
        [[unroll]] for (uint i = 0; i < 2 * NO; i++)
            o[i] += subgroupShuffleXor(o[i], b);
    }
    subgroupBarrier(); /* q is read */
    if (zk_lane() < LPP) {
        [[unroll]] for (uint i = 0; i < NO; i++) {
            uint at = q + i / PIECES * (HD / 4) + i % PIECES * LPP + sub;
            sh_o[at] = o[2 * i];
            sh_o[at + HD / 8] = o[2 * i + 1];
        }
        if (sub < NH * REP && sub % REP == 0)
            sh_ml[mine + own_head] = vec2(m, l);
    }
}

void main()
{
    if (!find_job())
        return;
    uint sets = zk_div_up(group, NH);
    for (uint first = 0; first < sets; first += ZK_WAVES) {
        find_place(first);
        if (wp < n_wp)
            scan();
        barrier();
        combine();
        barrier();
    }
    if (n_active == 1 || !zk_last_of(a.counters, row * a.n_kv + kvh, n_active))
        return;
    for (uint first = 0; first < sets; first += ZK_WAVES) {
        find_place(first);
        merge();
    }
}
