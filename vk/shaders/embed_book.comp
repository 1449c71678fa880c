#version 460
/* The embedding in a type of codebooks or its like, the twin of kernels/wblock.h there: embed.comp has the others. Grid x: rows,
 * y: shares of a row. */
#define ZK_WITH_BOOKS
#include "zk.glsl"
layout(constant_id = 2) const uint TYPE = 0;
const bool WD_TABLE = QT_HAS_TABLE(TYPE);
#include "wdot.glsl"
ZK_ARGS(kl_embed)

void main()
{
    uint r = gl_WorkGroupID.x;
    wd_fill_table(TYPE);
    barrier();
    if (r >= zk_step_rows(a.step, ROWS_STEP))
        return;
    int token = zk_row(a.step, r).token;
    uint id = uint(token >= 0 ? token : zk_i32(a.step + a.next_off).v[-1 - token]);
    id = min(id, a.n_vocab - 1); /* a choice over more logits than there are tokens */
    wd_mat m = wd_row(TYPE, wd_matrix(TYPE, a.w, a.n_vocab, a.n), id, a.n);
    for (uint k = gl_WorkGroupID.y * ZK_THREADS + zk_tid(); k < a.n; k += gl_NumWorkGroups.y * ZK_THREADS) {
        uint i = k / wd_elems(TYPE), e = k % wd_elems(TYPE);
        wd_item w = wd_load(TYPE, true, m, i, a.n);
        wd_words q = wd_open(TYPE, w, i, 0);
        uint word = e < 16 ? q.lo[e / 4] : q.hi[e / 4 - 4];
        precise float v = wd_scale(TYPE, w, i).d * float(bitfieldExtract(int(word), int(e % 4 * 8), 8)), y = v * a.scale;
        zk_f32(a.y + uint64_t(r) * a.n * 4).v[k] = y;
    }
}
