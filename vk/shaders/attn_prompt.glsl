/* vk/shaders/attn_prompt.glsl
 * Attention of many rows. Grid x: kv heads, y: tiles of rows.
 *
 * PARTS subgroups hold CM_M (row, query head) pairs of a kv head, a set, and walk the positions that any of the
 * work-group's rows sees, BC at a time from multiples of BC on: S = Q K^T and O += P V with q, P, K and V in f16 and
 * f32 sums, softmax online in f32. A position that a row does not see gets p = 0 and leaves its m, l and o as they are,
 * to the bit, so a row's result does not depend on the rows beside it. Rows of a tile that belong to several slots are
 * done slot by slot.
 *
 * The subgroups of a set share the columns of S, the rows of the softmax and the columns of O. K and V pass through the
 * same shared memory, the next of them in registers while this one is worked on.
 *
 * The kernel that includes this defines
 *     AP_FACTOR(x)         how a factor x is kept at AT_D: x, or 1 / x
 *     AP_O                 declares the subgroup's part of O, zeros
 *     AP_SCORES            Q K^T of the set to AT_S, the subgroup's columns
 *     AP_SCALE             O's rows times AT_D's
 *     AP_VALUES            O += P V
 *     AP_LEAVE             O to y by ap_write4; all subgroups are past the last barrier */

layout(constant_id = 2) const uint CM_M = 16;
layout(constant_id = 3) const uint CM_N = 16;
layout(constant_id = 4) const uint CM_K = 16;
layout(constant_id = 5) const uint HD = 128;
layout(constant_id = 6) const uint KV = 1;
layout(constant_id = 7) const uint BC = 32;    /* positions of a tile                    */
layout(constant_id = 8) const uint PARTS = 1;  /* subgroups of a set                     */

const uint SETS = ZK_WAVES / PARTS, SET_LANES = ZK_WAVE * PARTS;
/* Shared memory `tile` in units of 16 bytes: Q, K or V, S, P, D. Rows: HD halves of Q, K and V, BC floats of S, BC
 * halves of P, CM_N floats of D, all the same; strides are odd. */
const uint QS = HD / 8 + 1, SS = BC / 4 + 1, PS = BC / 8 + 1, DS = CM_N / 4 + 1;
const uint AT_KV = SETS * CM_M * QS, AT_S = AT_KV + BC * QS, AT_P = AT_S + SETS * CM_M * SS;
const uint AT_D = AT_P + SETS * CM_M * PS;
shared uvec4 tile[AT_D + SETS * CM_M * DS];

const float LOG2E = 1.44269504;
#define NEG_INF uintBitsToFloat(0xff800000u)

/* What the work-group does at a time: rows [row0, row1) of the step, of one slot. */
uint tile0;             /* the row that pair 0 belongs to         */
uint row0, row1;
uint group, kvh;        /* query heads per kv head                */
uint first, end;        /* positions that some row sees; first: a multiple of BC */
/* The subgroup's. */
uint set, part, lane_of_set;

uint ap_first(uint pos) { return a.window != 0 && pos >= a.window ? pos - a.window + 1 : 0; }
uint ap_row(uint pair) { return tile0 + pair / group; }
uint ap_head(uint pair) { return kvh * group + pair % group; }
bool ap_has(uint pair) { return ap_row(pair) >= row0 && ap_row(pair) < row1; }

uvec4 halves(vec4 lo, vec4 hi)
{
    return uvec4(packHalf2x16(lo.xy), packHalf2x16(lo.zw), packHalf2x16(hi.xy), packHalf2x16(hi.zw));
}

/* q of the run's pairs, zeros for the others. */
void load_q()
{
    for (uint i = zk_tid(); i < SETS * CM_M * (HD / 8); i += ZK_THREADS) {
        uint pair = i / (HD / 8), d = i % (HD / 8);
        float x[8];
        bool is = ap_has(pair);
        uint64_t q = a.q + 4 * (uint64_t(ap_row(pair)) * a.ldq + ap_head(pair) * a.q_hs + 8 * d);
        [[unroll]] for (uint j = 0; j < 8; j++)
            x[j] = is ? zk_f32(q).v[j] : 0.0;
        tile[pair * QS + d] = halves(vec4(x[0], x[1], x[2], x[3]), vec4(x[4], x[5], x[6], x[7]));
    }
}

/* Positions [p0, p0 + BC) of K or V, first to registers, then to shared memory; zeros from `end` on. */
const uint UNITS = BC * (HD / 8), HELD = (UNITS + ZK_THREADS - 1) / ZK_THREADS;
uvec4 held[HELD];
void fetch(kv_head h, uint p0)
{
    [[unroll]] for (uint j = 0; j < HELD; j++) {
        uint i = zk_tid() + j * ZK_THREADS;
        if (UNITS % ZK_THREADS == 0 || i < UNITS)
            held[j] = kv_raw8(KV, h, min(p0 + i / (HD / 8), end - 1), HD, i % (HD / 8) * 8);
    }
}
void put(uint p0)
{
    [[unroll]] for (uint j = 0; j < HELD; j++) {
        uint i = zk_tid() + j * ZK_THREADS, p = i / (HD / 8);
        uvec4 w = held[j];
        if (KV != KA_KV_F16) {
            float by = kv_scale8(KV, w);
            w = halves(kv_low4(KV, w) * by, kv_high4(KV, w, uvec4(0)) * by);
        }
        if (UNITS % ZK_THREADS == 0 || i < UNITS)
            tile[AT_KV + p * QS + i % (HD / 8)] = p0 + p < end ? w : uvec4(0);
    }
}

/* Lanes that share a row of the softmax, in runs of eight positions; rows of a lane, its runs. */
const uint RUNS = BC / 8;
const uint LPR = SET_LANES <= CM_M ? 1 : SET_LANES / CM_M < RUNS ? SET_LANES / CM_M : RUNS;
const uint RPL = (CM_M * LPR + SET_LANES - 1) / SET_LANES, RL = RUNS / LPR;
float m[RPL], l[RPL];       /* in base 2; of a row all lanes have the same */
uint sees_to[RPL], sees_from[RPL];

uint soft_row(uint i) { return lane_of_set / LPR + i * (SET_LANES / LPR); } /* from CM_M on: none */
uint soft_pair(uint i) { return set * CM_M + min(soft_row(i), CM_M - 1); }

/* A row of D: a factor of the row. */
void put_factor(uint i, float by)
{
    for (uint j = lane_of_set % LPR; soft_row(i) < CM_M && j < CM_N / 4; j += LPR)
        tile[AT_D + soft_pair(i) * DS + j] = floatBitsToUint(vec4(AP_FACTOR(by)));
}

void softmax_start()
{
    [[unroll]] for (uint i = 0; i < RPL; i++) {
        uint pos = zk_row(a.step, clamp(ap_row(soft_pair(i)), row0, row1 - 1)).pos;
        sees_to[i] = pos;
        sees_from[i] = ap_first(pos);
        m[i] = NEG_INF;
        l[i] = 0.0;
    }
}

vec4 masked(vec4 s, uint p, uint i)
{
    uvec4 at = p + uvec4(0, 1, 2, 3);
    bvec4 seen = bvec4(uvec4(lessThanEqual(at, uvec4(sees_to[i]))) & uvec4(greaterThanEqual(at, uvec4(sees_from[i]))));
    return mix(vec4(NEG_INF), s, seen);
}
/* A lane's score to its probability: exactly 0 for what is masked. */
vec4 exponent(vec4 s, float by, float off)
{
    return mix(exp2(fma(s, vec4(by), vec4(-off))), vec4(0.0), equal(s, vec4(NEG_INF)));
}

/* Scores at AT_S to probabilities at AT_P, factors of O at AT_D. False where none of the subgroup's rows has one. */
bool softmax(uint p0)
{
    bool moved = false;
    float by = a.scale * LOG2E;
    [[unroll]] for (uint i = 0; i < RPL; i++) {
        uint pair = soft_pair(i), run0 = lane_of_set % LPR * RL;
        vec4 s[2 * RL];
        float top = NEG_INF;
        [[unroll]] for (uint j = 0; j < 2 * RL; j++) {
            uint at = 2 * run0 + j;
            s[j] = masked(uintBitsToFloat(tile[AT_S + pair * SS + at]), p0 + 4 * at, i);
            top = max(top, max(max(s[j].x, s[j].y), max(s[j].z, s[j].w)));
        }
        float now = max(zk_lanes_max(top, LPR) * by, m[i]), off = now == NEG_INF ? 0.0 : now;
        float decay = m[i] == now ? 1.0 : exp2(m[i] - off), sum = 0.0;
        m[i] = now;
        [[unroll]] for (uint j = 0; j < RL; j++) {
            vec4 lo = exponent(s[2 * j], by, off), hi = exponent(s[2 * j + 1], by, off);
            precise float t = ((lo.x + lo.y) + (lo.z + lo.w)) + ((hi.x + hi.y) + (hi.z + hi.w));
            sum += t;
            if (soft_row(i) < CM_M)
                tile[AT_P + pair * PS + run0 + j] = halves(lo, hi);
        }
        l[i] = fma(l[i], decay, zk_lanes_sum(sum, LPR));
        put_factor(i, decay);
        moved = moved || decay != 1.0;
    }
    return PARTS > 1 || subgroupAny(moved);
}

/* Factors that finish O. */
void softmax_end()
{
    [[unroll]] for (uint i = 0; i < RPL; i++) {
        float sum = l[i], by = 1.0;
        if (a.sinks != 0) {
            float sink = zk_ro_f32(a.sinks).v[ap_head(soft_pair(i))] * LOG2E, both = max(m[i], sink);
            by = exp2(m[i] - both);
            sum = sum * by + exp2(sink - both);
        }
        put_factor(i, by / sum);
    }
}

/* Dimensions [d, d + 4) of a pair's finished row. */
void ap_write4(uint pair, uint d, vec4 o)
{
    if (!ap_has(pair))
        return;
    uint64_t to = a.y + 4 * ((uint64_t(ap_row(pair)) * a.n_head + ap_head(pair)) * HD + d);
    uint64_t gate = a.gate + 4 * (uint64_t(ap_row(pair)) * a.ldq + ap_head(pair) * a.q_hs + d);
    [[unroll]] for (uint i = 0; i < 4; i++)
        zk_f32(to).v[i] = a.gate != 0 ? o[i] * zk_sigmoid(zk_f32(gate).v[i]) : o[i];
}

#define AP_RUN(k, v)                                                                                                   \
    {                                                                                                                  \
        AP_O                                                                                                           \
        fetch(k, first);                                                                                               \
        load_q();                                                                                                      \
        softmax_start();                                                                                               \
        for (uint p0 = first; p0 < end; p0 += BC) {                                                                    \
            put(p0);                                                                                                   \
            fetch(v, p0);                                                                                              \
            barrier(); /* Q and K are there */                                                                         \
            AP_SCORES                                                                                                  \
            barrier(); /* S is there, K is done with */                                                                \
            put(p0);                                                                                                   \
            if (p0 + BC < end)                                                                                         \
                fetch(k, p0 + BC);                                                                                     \
            bool moved = softmax(p0);                                                                                  \
            barrier(); /* V, P and D are there */                                                                      \
            if (moved)                                                                                                 \
                AP_SCALE                                                                                               \
            AP_VALUES                                                                                                  \
            barrier(); /* and done with */                                                                             \
        }                                                                                                              \
        softmax_end();                                                                                                 \
        barrier();                                                                                                     \
        AP_SCALE                                                                                                       \
        AP_LEAVE                                                                                                       \
        barrier(); /* shared memory is free for the next run */                                                        \
    }

/* The work-group's rows, run by run. */
#define AP_MAIN                                                                                                        \
    uint n_rows = zk_step_rows(a.step, ROWS_STEP);                                                                     \
    group = a.n_head / a.n_kv;                                                                                         \
    kvh = gl_WorkGroupID.x;                                                                                            \
    set = zk_wave() / PARTS;                                                                                           \
    part = zk_wave() % PARTS;                                                                                          \
    lane_of_set = part * ZK_WAVE + zk_lane();                                                                          \
    uint step = SETS * CM_M / group, tiles = zk_div_up(n_rows, step);                                                  \
    if (gl_WorkGroupID.y >= tiles)                                                                                     \
        return;                                                                                                        \
    tile0 = (tiles - 1 - gl_WorkGroupID.y) * step; /* the longest first */                                             \
    uint last = min(tile0 + step, n_rows);                                                                             \
    for (row0 = tile0; row0 < last; row0 = row1) {                                                                     \
        ka_row r = zk_row(a.step, row0);                                                                               \
        ka_row z = zk_row(a.step, last - 1);                                                                           \
        if (z.slot == r.slot && z.pos - r.pos == last - 1 - row0)                                                      \
            row1 = last; /* all of one slot: the usual case without a walk */                                          \
        else                                                                                                           \
            for (row1 = row0 + 1; zk_row(a.step, row1).slot == r.slot; row1++) {}                                      \
        first = ap_first(r.pos) / BC * BC;                                                                             \
        end = zk_row(a.step, row1 - 1).pos + 1;                                                                        \
        kv_head kh = kv_head_at(a.kc + r.slot * a.slot_bytes, KV, a.n_kv, a.n_ctx, HD, kvh);                           \
        kv_head vh = kv_head_at(a.vc + r.slot * a.slot_bytes, KV, a.n_kv, a.n_ctx, HD, kvh);                           \
        AP_RUN(kh, vh)                                                                                                 \
    }
