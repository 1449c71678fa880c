/* kernels/rope.c: ROPE_KV. A warp takes a head: q heads are normed and rotated in place, k heads also stored, v heads
 * stored. Grid x: rows, y: shares of a row's heads. Shared memory: head_dim floats per warp. */
#include <stdbool.h>

#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"
#include "kernels/rope_head.h"

/* x into shared memory, times the RMS norm's factor and w where those are given. Every lane sees all of it after. */
KD_FN void rope_load(KD_GLOBAL const float *x, KD_GLOBAL const float *w, bool norm, uint32_t n, float eps,
                     KD_SHARED float *s)
{
    float sum = 0.0f;
    for (uint32_t b = 0; b < n; b += 4 * KD_WARP) {
        float v[4];
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            v[j] = b + j * KD_WARP + kd_lane() < n ? x[b + j * KD_WARP + kd_lane()] : 0.0f;
        KD_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            sum = k_fma(v[j], v[j], sum);
            if (b + j * KD_WARP + kd_lane() < n)
                s[b + j * KD_WARP + kd_lane()] = v[j];
        }
    }
    if (norm) {
        float scale = rope_scale(sum, n, eps);
        for (uint32_t d = kd_lane(); d < n; d += KD_WARP)
            s[d] = w ? s[d] * scale * w[d] : s[d] * scale;
    }
    kd_warp_sync();
}

KD_FN void rope_rotate(const kl_rope_kv *a, float pos, KD_SHARED float *s)
{
    uint32_t half = a->n_rot / 2;
    KD_GLOBAL const float *inv_freq = KD_PTR(const float, a->inv_freq);
    for (uint32_t i = kd_lane(); i < half; i += KD_WARP)
        rope_pair(s, i, half, a->rope, pos * inv_freq[i], a->mscale);
    kd_warp_sync();
}

KD_FN struct kv_head rope_place(const kl_rope_kv *a, gpu_va slot, uint32_t h)
{
    return kv_head(slot, (enum ka_kv)a->kv_type, a->n_kv, a->n_ctx, a->head_dim, h);
}

KD_KERNEL(k_rope_kv, kl_rope_kv)
{
    uint32_t r = kd_group_x(), hd = a.head_dim, heads = a.n_head + (a.k ? 2 * a.n_kv : 0);
    KD_SHARED float *s = KD_SHARED_AT(float, 4 * hd * kd_warp());
    kd_wait_inputs();
    kd_let_next_start();
    ka_row row = *kd_row(a.step, r); /* asked for with the count, for which it would wait */
    if (r >= kd_step_rows(a.step, ROWS_STEP))
        return;
    uint32_t pos = row.pos;
    uint64_t slot = row.slot * a.slot_bytes;
    for (uint32_t i = kd_group_y() * kd_n_warps() + kd_warp(); i < heads; i += kd_groups_y() * kd_n_warps()) {
        kd_warp_sync(); /* the head before is out of s */
        if (i < a.n_head) {
            KD_GLOBAL float *q = KD_PTR(float, a.q) + (uint64_t)r * a.ldq + (uint64_t)i * a.q_hs;
            rope_load(q, KD_PTR(const float, a.q_norm), a.q_norm != 0, hd, a.eps, s);
            rope_rotate(&a, (float)pos, s);
            if (a.kv_type == KA_KV_ROT4)
                kv_rotate(s, hd, 1);
            float by = a.q_scale ? KD_PTR(const float, a.q_scale)[pos / a.q_every] : 1.0f;
            for (uint32_t d = kd_lane(); d < hd; d += KD_WARP)
                q[d] = s[d] * by;
        } else if (i < a.n_head + a.n_kv) {
            uint32_t h = i - a.n_head;
            rope_load(KD_PTR(const float, a.k) + (uint64_t)r * a.ldk + h * hd, KD_PTR(const float, a.k_norm),
                      a.k_norm != 0, hd, a.eps, s);
            rope_rotate(&a, (float)pos, s);
            if (a.kv_type == KA_KV_ROT4)
                kv_rotate(s, hd, 0);
            rope_store(rope_place(&a, a.kc + slot, h), pos, hd, s);
        } else {
            uint32_t h = i - a.n_head - a.n_kv;
            rope_load(KD_PTR(const float, a.v) + (uint64_t)r * a.ldv + h * hd, KD_PTR(const float, 0), a.v_norm, hd,
                      a.eps, s);
            rope_store(rope_place(&a, a.vc + slot, h), pos, hd, s);
        }
    }
}
