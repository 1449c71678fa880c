#version 460
/* The next token, by the largest logit or drawn (sample.glsl). A work-group holds a slice of a row's logits in
 * registers and finds its k largest; the last work-group of the row finds the k largest of those. Grid x: slices,
 * y: output rows.
 *
 * Logits become keys: .y orders as they do, 0 is none; .x falls with the index, so that of equal logits the lower
 * index is the larger key. The k largest of what the work-items hold are found by bisection: how many are at least
 * this? */
#include "zk.glsl"
#include "sample.glsl"
layout(constant_id = 2) const uint HELD = 8; /* logits of a work-item, a multiple of 4 */
ZK_ARGS(kl_sample)

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer sample_rows { ka_sample v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer sample_keys { uvec2 v[]; };

const uint SLICE = ZK_THREADS * HELD;
const uint CARRY = (KA_SAMPLE_MAX + ZK_THREADS - 1) / ZK_THREADS; /* keys of a work-item found before */
const uint KEYS = HELD + CARRY;
const uint BY_VALUE = 12; /* steps of the bisection that halve the difference of logits, before others halve keys */
const uint LO_END = 0xffffffffu; /* lo is below */

shared uvec2 s_found[KA_SAMPLE_MAX]; /* in any order                            */
shared uvec2 s_best[ZK_THREADS / 4];
shared uint s_sums[2][ZK_THREADS / 4]; /* in turns, so that one barrier is enough */

uint hi[KEYS], lo[KEYS]; /* what this work-item holds */
uint turn = 0;

uint key_hi(float x)
{
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u || u == 0xff800000u) /* no number, or -inf */
        return 0;
    u = u == 0x80000000u ? 0 : u; /* one zero */
    return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}
float key_logit(uint h) { return uintBitsToFloat((h & 0x80000000u) != 0 ? h ^ 0x80000000u : ~h); }
uint key_lo(uint index) { return LO_END - 1 - index; }
uint key_index(uvec2 key) { return key.y != 0 ? LO_END - 1 - key.x : ~0u; } /* ~0: no token */
bool key_from(uvec2 key, uint h, uint l) { return key.y > h || (key.y == h && key.x >= l); }

/* ---- the work-group together; the same result in every work-item ---- */

uint group_sum(uint v)
{
    uint at = turn;
    turn ^= 1;
    v = subgroupAdd(v);
    if (zk_lane() == 0)
        s_sums[at][zk_wave()] = v;
    barrier();
    v = 0;
    for (uint i = 0; i < ZK_WAVES; i++)
        v += s_sums[at][i];
    return v;
}

uint group_max(uint v)
{
    uint at = turn;
    turn ^= 1;
    v = subgroupMax(v);
    if (zk_lane() == 0)
        s_sums[at][zk_wave()] = v;
    barrier();
    v = 0;
    for (uint i = 0; i < ZK_WAVES; i++)
        v = max(v, s_sums[at][i]);
    return v;
}

uvec2 group_best(uvec2 key)
{
    uint h = subgroupMax(key.y), l = subgroupMax(key.y == h ? key.x : 0);
    barrier();
    if (zk_lane() == 0)
        s_best[zk_wave()] = uvec2(l, h);
    barrier();
    key = uvec2(0);
    for (uint i = 0; i < ZK_WAVES; i++)
        key = key_from(s_best[i], key.y, key.x) ? s_best[i] : key;
    return key;
}

/* ---- the k largest ---- */

uint count_hi(uint h)
{
    uint n = 0;
    [[unroll]] for (uint i = 0; i < KEYS; i++)
        n += hi[i] >= h ? 1 : 0;
    return n;
}

uint count_from(uint h, uint l)
{
    uint n = 0;
    [[unroll]] for (uint i = 0; i < KEYS; i++)
        n += key_from(uvec2(lo[i], hi[i]), h, l) ? 1 : 0;
    return n;
}

/* Between a and b, b - a > 1. */
uint key_between(uint from, uint to, uint step)
{
    float f = key_logit(from), t = key_logit(to);
    uint by_value = key_hi(f + 0.5 * (t - f)); /* 0 where one of them is no number */
    return step < BY_VALUE && by_value > from && by_value < to ? by_value : from + (to - from) / 2;
}

/* The keys from (h, l) on into s_found, in any order; returns how many. */
uint gather_from(uint h, uint l)
{
    uint mine = count_from(h, l), upto = subgroupInclusiveAdd(mine), at = turn, total = 0, before = 0;
    turn ^= 1;
    if (zk_lane() == ZK_WAVE - 1)
        s_sums[at][zk_wave()] = upto;
    barrier();
    for (uint i = 0; i < ZK_WAVES; i++) {
        before += i < zk_wave() ? s_sums[at][i] : 0;
        total += s_sums[at][i];
    }
    uint to = before + upto - mine;
    [[unroll]] for (uint i = 0; i < KEYS; i++)
        if (key_from(uvec2(lo[i], hi[i]), h, l))
            s_found[to++] = uvec2(lo[i], hi[i]);
    return total;
}

/* The k <= KA_SAMPLE_MAX largest of the work-group's keys into s_found; returns how many there are. A barrier comes
 * before they are read, and none of them is read when it begins. */
uint find_largest(uint k)
{
    uint most = 0;
    [[unroll]] for (uint i = 0; i < KEYS; i++)
        most = max(most, hi[i]);
    /* every work-item holds a key from `from` on: there are at least ZK_THREADS of them, unless one holds none */
    uint from = ~group_max(~most), to = group_max(most) + 1, n = ZK_THREADS;
    if (from == 0 || n <= k) {
        from = 1;
        n = group_sum(count_hi(from));
    }
    /* from `from` on there are at least k, from `to` on fewer */
    for (uint step = 0; n > k && to - from > 1; step++) {
        uint mid = key_between(from, to, step), c = group_sum(count_hi(mid));
        if (c >= k) {
            from = mid;
            n = c;
        } else {
            to = mid;
        }
    }
    uint least = 0;
    for (uint end = LO_END; n > k && end - least > 1;) { /* equal logits: the lower indices */
        uint mid = least + (end - least) / 2, c = group_sum(count_from(from, mid));
        if (c >= k) {
            least = mid;
            n = c;
        } else {
            end = mid;
        }
    }
    return gather_from(from, least);
}

/* ---- the row ---- */

/* This work-group's slice of row i; with `copied`, and where a copy is kept, into that as well. */
void load_slice(uint i, bool copied)
{
    uint first = gl_WorkGroupID.x * SLICE, t = zk_tid();
    uint64_t at = (uint64_t(i) * a.n + first) * 4, logits = a.logits + at;
    uint64_t copy = a.copy != 0 && copied ? a.copy + at : 0;
    [[unroll]] for (uint j = HELD; j < KEYS; j++)
        hi[j] = lo[j] = 0;
    if (((uint(logits) | uint(copy) | a.n * 4) & 15) == 0) {
        uint n = (a.n - first) / 4;
        vec4 v[HELD / 4];
        [[unroll]] for (uint j = 0; j < HELD / 4; j++)
            v[j] = t + j * ZK_THREADS < n ? zk_f32x4(logits).v[t + j * ZK_THREADS] : vec4(0.0);
        [[unroll]] for (uint j = 0; j < HELD / 4; j++) {
            bool inside = t + j * ZK_THREADS < n;
            if (copy != 0 && inside)
                zk_f32x4(copy).v[t + j * ZK_THREADS] = v[j];
            [[unroll]] for (uint q = 0; q < 4; q++) {
                hi[4 * j + q] = inside ? key_hi(v[j][q]) : 0;
                lo[4 * j + q] = key_lo(first + 4 * (t + j * ZK_THREADS) + q);
            }
        }
        return;
    }
    uint n = a.n - first;
    float v[HELD];
    [[unroll]] for (uint j = 0; j < HELD; j++)
        v[j] = t + j * ZK_THREADS < n ? zk_f32(logits).v[t + j * ZK_THREADS] : 0.0;
    [[unroll]] for (uint j = 0; j < HELD; j++) {
        bool inside = t + j * ZK_THREADS < n;
        if (copy != 0 && inside)
            zk_f32(copy).v[t + j * ZK_THREADS] = v[j];
        hi[j] = inside ? key_hi(v[j]) : 0;
        lo[j] = key_lo(first + t + j * ZK_THREADS);
    }
}

/* The largest of the slices' largest. False: another work-group goes on. */
bool choose_largest(uint i, sample_keys part, out uint id)
{
    uvec2 key = uvec2(0);
    [[unroll]] for (uint j = 0; j < HELD; j++)
        if (hi[j] != 0 && key_from(uvec2(lo[j], hi[j]), key.y, key.x))
            key = uvec2(lo[j], hi[j]);
    key = group_best(key);
    if (gl_NumWorkGroups.x > 1) {
        if (zk_tid() == 0)
            part.v[gl_WorkGroupID.x] = key;
        if (!zk_last_of(a.counters, i, gl_NumWorkGroups.x))
            return false;
        key = uvec2(0);
        for (uint g = zk_tid(); g < gl_NumWorkGroups.x; g += ZK_THREADS)
            key = key_from(part.v[g], key.y, key.x) ? part.v[g] : key;
        key = group_best(key);
    }
    id = key_index(key);
    return true;
}

/* The next SLICE of the keys that the slices left in part, beside those found so far. */
void load_part(sample_keys part, uint first, uint total, uint found)
{
    [[unroll]] for (uint j = 0; j < KEYS; j++) {
        uint at = j < HELD ? first + zk_tid() + j * ZK_THREADS : zk_tid() + (j - HELD) * ZK_THREADS;
        uvec2 key = uvec2(0);
        if (j < HELD && at < total)
            key = part.v[at];
        else if (j >= HELD && at < found)
            key = s_found[at];
        hi[j] = key.y;
        lo[j] = key.x;
    }
}

/* Orders the n keys of s_found and draws; the id is there in work-item 0. */
uint draw_one(ka_sample s, uint n)
{
    for (uint t = zk_tid(); t < n; t += ZK_THREADS) {
        uvec2 key = s_found[t], top = uvec2(0);
        uint rank = 0;
        for (uint j = 0; j < n; j++) {
            uvec2 other = s_found[j];
            top = key_from(other, top.y, top.x) ? other : top;
            rank += key_from(key, other.y, other.x) ? 0 : 1;
        }
        s_id[rank] = key_index(key);
        s_plain[rank] = sample_weight(key_logit(key.y), key_logit(top.y), 1.0);
        s_weight[rank] = sample_weight(key_logit(key.y), key_logit(top.y), s.temp);
    }
    barrier();
    if (zk_tid() != 0 || n == 0)
        return ~0u;
    n = sample_keep(n, s.top_p, s.min_p);
    return s_id[sample_draw(n, sample_uniform(s.seed, s.counter))];
}

/* First the slice's k largest, which go to part; then, in the row's last work-group, the k largest of part. False:
 * another work-group goes on. */
bool choose_drawn(uint i, ka_sample s, sample_keys part, out uint id)
{
    uint k = sample_top_k(s.top_k), first = 0, total = 0, found;
    for (;;) {
        found = find_largest(k);
        barrier();
        if (total == 0 && gl_NumWorkGroups.x > 1) {
            for (uint t = zk_tid(); t < k; t += ZK_THREADS)
                part.v[gl_WorkGroupID.x * k + t] = t < found ? s_found[t] : uvec2(0);
            if (!zk_last_of(a.counters, i, gl_NumWorkGroups.x))
                return false;
            total = gl_NumWorkGroups.x * k;
            found = 0;
        }
        if (first >= total)
            break;
        load_part(part, first, total, found);
        first += SLICE;
    }
    id = draw_one(s, found);
    return true;
}

void main()
{
    uint i = gl_WorkGroupID.y, id = 0;
    if (i >= zk_step_rows(a.step, ROWS_OUT))
        return;
    ka_sample s = ka_sample(0.0, 0, 0.0, 0.0, 0, 0, 0, 0);
    if (a.sample_ != 0)
        s = sample_rows(a.sample_).v[i];
    sample_keys part = sample_keys(a.part + 8 * uint64_t(i) * gl_NumWorkGroups.x * KA_SAMPLE_MAX);
    load_slice(i, s.quiet == 0);
    bool mine = s.temp > 0.0 ? choose_drawn(i, s, part, id) : choose_largest(i, part, id);
    if (mine && zk_tid() == 0)
        zk_u32(a.next).v[i] = id;
}
