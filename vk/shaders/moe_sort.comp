#version 460
/* Prompts: the (row, choice) pairs by expert, and the tiles that products take them by. Grid x: experts. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_moe_sort)

layout(constant_id = 2) const uint TILE = 128; /* positions of a tile at most: KL_TILE_ROWS */
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer moe_tiles { uvec4 v[]; };

/* Where things of an expert begin when `less` pairs come before: counts of the earlier ones are not needed, as each
 * expert's share is rounded up by itself and then never runs into the next. */
uint sort_pos(uint less, uint expert) { return (less + 7 * expert + 7) / 8 * 8; }
uint sort_slot(uint less, uint expert) { return less / TILE + expert; }

/* x, y: sums over the work-group of v; z: sum of v.y over the work-items before this one. */
shared uvec2 wave_sums[ZK_WAVES];
uvec3 sums_of(uvec2 v)
{
    uvec2 sum = subgroupAdd(v), all = uvec2(0);
    uint before = subgroupExclusiveAdd(v.y);
    if (zk_lane() == 0)
        wave_sums[zk_wave()] = sum;
    barrier();
    for (uint i = 0; i < ZK_WAVES; i++) {
        before += i < zk_wave() ? wave_sums[i].y : 0;
        all += wave_sums[i];
    }
    return uvec3(all, before);
}

void main()
{
    uint e = gl_WorkGroupID.x, pairs = zk_step_rows(a.step, ROWS_STEP) * a.k, run = zk_div_up(pairs, ZK_THREADS);
    uint first = min(zk_tid() * run, pairs), end = min(first + run, pairs);
    uvec2 v = uvec2(0); /* pairs of lower experts and of this one, in the work-item's run */
    for (uint i = first; i < end; i++) {
        uint id = moe_expert(a.ids, i, a.n_expert);
        v += uvec2(id < e, id == e);
    }
    uvec3 sums = sums_of(v);
    bool last = e + 1 == a.n_expert;
    uint less = sums.x, count = sums.y, p0 = sort_pos(less, e), p1 = last ? a.n_pos : sort_pos(less + count, e + 1);
    uint p = p0 + sums.z;
    for (uint i = first; i < end && v.y > 0; i++)
        if (moe_expert(a.ids, i, a.n_expert) == e)
            zk_u32(a.order).v[p++] = i;
    for (uint gap = p0 + count + zk_tid(); gap < p1; gap += ZK_THREADS)
        zk_u32(a.order).v[gap] = ~0u;
    uint t0 = sort_slot(less, e), t1 = last ? a.n_slots : sort_slot(less + count, e + 1);
    for (uint t = t0 + zk_tid(); t < t1; t += ZK_THREADS) {
        uint done = (t - t0) * TILE;
        moe_tiles(a.tiles).v[t] = uvec4(e, p0 + done, done < count ? min(count - done, TILE) : 0, 0);
    }
}
