/* vk/shaders/moe_dot.glsl
 * Experts' products: what MOE_UP and MOE_DOWN share beside matvec_dot.glsl. LANES neighbouring lanes share a row of
 * weights: item i belongs to lane i % LANES at step i / LANES; behind the last come dummies, whose x is 0. ABREAST rows
 * stand side by side in a subgroup. AHEAD steps are in flight together. The includer declares LANES and AHEAD. */
#include "xquant.glsl"

uint moe_row = 0; /* the row of x that weights meet */
#define xq_get(T, r, i, s)     xq_get(T, moe_row + (r), i, s)
#define xq_get_floats(T, r, i) xq_get_floats(T, moe_row + (r), i)
#include "matvec_dot.glsl"

const uint ABREAST = ZK_WAVE / LANES;

uint moe_place() { return zk_lane() & (LANES - 1); } /* this lane's, among those of its row */
uint moe_side() { return zk_lane() / LANES; }        /* its row, among those side by side   */

uint moe_steps(uint T) { return (wd_items(T, XQ_N_IN) + LANES - 1) / LANES; }
/* Where x of this lane's item lies at that step, and the item: the last one for dummies. */
uint moe_at(uint step) { return step * LANES + moe_place(); }
uint moe_item(uint T, uint step) { return min(moe_at(step), wd_items(T, XQ_N_IN) - 1); }

/* v[0..n) added up over the lanes of each row, the same in all of them. */
void moe_reduce(uint n, inout float v[16])
{
    [[unroll]] for (uint d = 1; d < LANES; d *= 2)
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (i < n) {
                precise float sum = v[i] + subgroupShuffleXor(v[i], d);
                v[i] = sum;
            }
}
