#version 460
/* The twin of kernels/open.c: matrices of types with kernels for few rows alone, opened for those of many. Grid x: work-groups
 * that share a matrix, y: matrices. */
#define ZK_WITH_BOOKS
#include "zk.glsl"
layout(constant_id = 2) const uint TYPE = 0;
layout(constant_id = 3) const bool RAGGED = false;
const bool WD_TABLE = QT_HAS_TABLE(TYPE);
#include "wdot.glsl"
ZK_ARGS(kl_open)

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer zk_u32x4 { uvec4 v[]; };

void main()
{
    wd_mat m = wd_matrix(TYPE, a.w + gl_WorkGroupID.y * a.stride, a.n_out, a.n_in);
    uint64_t to = a.y + gl_WorkGroupID.y * a.y_stride, scales = to + uint64_t(a.rows) * a.n_in;
    uint per = wd_items(TYPE, a.n_in), n = a.rows * per;
    wd_fill_table(TYPE);
    barrier();
    for (uint at = gl_WorkGroupID.x * ZK_THREADS + zk_tid(); at < n; at += gl_NumWorkGroups.x * ZK_THREADS) {
        uint i = at % per;
        wd_item w = wd_load(TYPE, RAGGED, wd_row(TYPE, m, a.first + at / per, a.n_in), i, a.n_in);
        wd_words q = wd_open(TYPE, w, i, 0);
        float d = wd_scale(TYPE, w, i).d;
        if (wd_half(TYPE)) {
            zk_u32x4(to + uint64_t(at) * 16).v[0] = q.lo;
            zk_f32(scales + uint64_t(at) * 4).v[0] = d;
        } else {
            zk_u32x4(to + uint64_t(at) * 32).v[0] = q.lo;
            zk_u32x4(to + uint64_t(at) * 32).v[1] = q.hi;
            zk_f32x2(scales + uint64_t(at) * 8).v[0] = vec2(d);
        }
    }
}
