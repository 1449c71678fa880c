/* kernels/attn_tile.h: what the kernels of attention of prompts have in common: the (row, query head) pairs of a tile,
 * and tiles of q, K and V in shared memory. Include after kernels/kdev.h, hw/mma.h and kv.h. */
#ifndef ZINC_KERNELS_ATTN_TILE_H
#define ZINC_KERNELS_ATTN_TILE_H

#include "kernels/attn_prompt.h"
#include "kernels/hw/mma.h"
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"

/* What a work-group does at a time: rows [row0, row1) of the step, of one slot. */
struct ap_run {
    uint32_t tile0; /* the row that pair 0 belongs to */
    uint32_t row0, row1;
    uint32_t group, kvh, lo, end; /* heads per kv head; positions that some row sees */
    struct kv_head k, v;
};

KD_FN uint32_t ap_first(const kl_attn *a, uint32_t pos)
{
    return a->window && pos >= a->window ? pos - a->window + 1 : 0;
}

/* q of the run's pairs to shared memory in f16, zeros for the others. */
KD_FN void ap_load_q(const kl_attn *a, const struct ap_run *r, const uint32_t HD, uint32_t pairs,
                     KD_SHARED uint16_t *s)
{
    for (uint32_t i = kd_tid(); i < pairs * (HD / 2); i += kd_group_size()) {
        uint32_t pair = i / (HD / 2), d = i % (HD / 2) * 2;
        uint32_t row = r->tile0 + pair / r->group, head = r->kvh * r->group + pair % r->group;
        uint32_t w = 0;
        if (row >= r->row0 && row < r->row1) {
            KD_GLOBAL const float *q = KD_PTR(const float, a->q) + (uint64_t)row * a->ldq + (uint64_t)head * a->q_hs;
            w = kd_half2(q[d], q[d + 1]);
        }
        *(KD_SHARED uint32_t *)(s + pair * (HD + AP_PAD) + d) = w;
    }
}

/* n positions of K or V from p0 on to shared memory, zeros from `end` on. F16: the cache's type, else it is another one, but
 * for f32. */
KD_FN void ap_load(const bool F16, struct kv_head h, const uint32_t HD, const uint32_t n, uint32_t p0,
                   uint32_t end, KD_SHARED uint16_t *s)
{
    for (uint32_t i = kd_tid(); i < n * (HD / 8); i += kd_group_size()) {
        uint32_t p = i / (HD / 8), d = i % (HD / 8) * 8, at = kd_min_u32(p0 + p, end - 1);
        KD_SHARED uint16_t *to = s + p * (HD + AP_PAD) + d;
        if (F16) {
            kd_copy16(to, KD_PTR(const uint8_t, h.codes + ((uint64_t)at * HD + d) * 2), p0 + p < end);
            continue;
        }
        float x[8];
        kd_u32x4 w = { 0, 0, 0, 0 };
        kv_load8((enum ka_kv)h.kv, h, at, HD, d, x);
        if (p0 + p < end)
            w = (kd_u32x4){ kd_half2(x[0], x[1]), kd_half2(x[2], x[3]), kd_half2(x[4], x[5]), kd_half2(x[6], x[7]) };
        *(KD_SHARED kd_u32x4 *)to = w;
    }
    kd_copy_commit();
}

/* The run from row0 on: its rows, of those before `end`, its positions and caches. By whole warps. */
KD_FN void ap_next_run(const kl_attn *a, struct ap_run *r, const uint32_t HD, uint32_t end)
{
    uint32_t slot = kd_row(a->step, r->row0)->slot, other = end;
    for (uint32_t i = r->row0 + 1 + kd_lane(); i < end; i += KD_WARP)
        if (kd_row(a->step, i)->slot != slot)
            other = kd_min_u32(other, i);
    KD_UNROLL
    for (uint32_t m = KD_WARP / 2; m; m /= 2)
        other = kd_min_u32(kd_shfl_xor_u32(other, m), other);
    r->row1 = kd_uniform(other);
    r->lo = ap_first(a, kd_row(a->step, r->row0)->pos);
    r->end = kd_row(a->step, r->row1 - 1)->pos + 1;
    r->k = kv_head(a->kc + slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, HD, r->kvh);
    r->v = kv_head(a->vc + slot * a->slot_bytes, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, HD, r->kvh);
}

#endif
