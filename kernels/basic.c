/* kernels/basic.c: the step's frame and the commands that look at each element once: embedding, norm, sum, activation,
 * gather. A work-group takes a row; of a norm by groups, one group of it (grid y). */
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/wblock.h"
#include "kernels/xquant.h"

enum { NORM_HELD = 2 }; /* chunks of eight elements that a work-item keeps in registers */

/* Host memory is read past the caches: the same block held another step before. */
KD_KERNEL(k_step_begin, kl_step_begin)
{
    kd_wait_inputs();
    uint32_t seq = *KD_PTR(const uint32_t, a.seq), n = a.next_off / 4;
    gpu_va block = a.ring + (uint64_t)(seq % KL_RING) * a.stride;
    KD_GLOBAL const volatile uint32_t *from = KD_PTR(const volatile uint32_t, block);
    KD_GLOBAL uint32_t *to = KD_PTR(uint32_t, a.step);
    for (uint32_t i = kd_tid(); i < n; i += 8 * kd_group_size()) {
        uint32_t w[8];
        KD_UNROLL
        for (uint32_t j = 0; j < 8; j++)
            w[j] = from[kd_min_u32(i + j * kd_group_size(), n - 1)];
        KD_UNROLL
        for (uint32_t j = 0; j < 8; j++)
            if (i + j * kd_group_size() < n)
                to[i + j * kd_group_size()] = w[j];
    }
}

KD_KERNEL(k_step_end, kl_step_end)
{
    kd_wait_inputs();
    uint32_t now = *KD_PTR(const uint32_t, a.seq) + 1;
    gpu_va host_next = a.host_next + (uint64_t)((now - 1) % KL_RING) * a.stride;
    for (uint32_t i = kd_tid(); i < a.n; i += kd_group_size())
        KD_PTR(uint32_t, host_next)[i] = KD_PTR(const uint32_t, a.next)[i];
    kd_barrier();
    if (kd_tid() == 0) {
        *KD_PTR(uint32_t, a.seq) = now;
        kd_store_host(KD_PTR(uint32_t, a.done), now);
    }
}

KD_KERNEL(k_embed, kl_embed)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t r = kd_group_x();
    if (r >= kd_step_rows(a.step, ROWS_STEP))
        return;
    int32_t token = kd_row(a.step, r)->token;
    uint32_t id = (uint32_t)(token >= 0 ? token : KD_PTR(const int32_t, a.step + a.next_off)[-1 - token]);
    id = kd_min_u32(id, a.n_vocab - 1); /* a choice over more logits than there are tokens */
    struct wblock w = wblock(a.type, a.w, (uint64_t)a.n_vocab * a.n / qtype_block((enum qtype)a.type));
    for (uint32_t k = kd_tid() + kd_group_y() * kd_group_size(); k < a.n; k += kd_group_size() * kd_groups_y())
        KD_PTR(float, a.y)[(uint64_t)r * a.n + k] = wblock_at(&w, (uint64_t)id * a.n + k) * a.scale;
}

/* The sums are those of a product that makes its input so itself (KL_MATVEC's pre): work-item t has chunks t, t + 256 .. */
KD_KERNEL(k_norm, kl_norm)
{
    uint32_t r = kd_group_x(), n = a.group, size = kd_group_size(), tid = kd_tid();
    uint64_t at = 4 * ((uint64_t)r * a.n + (uint64_t)kd_group_y() * n);
    KD_SHARED float *sums = KD_SHARED_AT(float, 0);
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    float held[NORM_HELD][8], sum = 0.0f;
    KD_UNROLL
    for (uint32_t j = 0; j < NORM_HELD; j++)
        xq_load8(held[j], a.x + at, (tid + j * size) * 8, n);
    KD_UNROLL
    for (uint32_t j = 0; j < NORM_HELD; j++)
        sum = xq_sum_squares(held[j], sum);
    for (uint32_t i = (tid + NORM_HELD * size) * 8; i < n; i += size * 8) {
        float v[8];
        xq_load8(v, a.x + at, i, n);
        sum = xq_sum_squares(v, sum);
    }
    float scale = 1.0f / kd_sqrt(kd_group_sum(sum, sums) / (float)n + a.eps);
    float by = a.out_scale ? *KD_PTR(const float, a.out_scale) : 1.0f;
    for (uint32_t j = 0, i = tid * 8; i < n; j++, i += size * 8) {
        float v[8], w[8], other[8];
        if (j < NORM_HELD) {
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                v[k] = j ? held[1][k] : held[0][k];
        } else {
            xq_load8(v, a.x + at, i, n);
        }
        if (a.w)
            xq_load8(w, a.w, i, n);
        if (a.resid)
            xq_load8(other, a.resid + at, i, n);
        xq_normed(v, scale, a.w != 0, w, a.resid != 0, other, a.out_scale != 0, by);
        xq_store8(a.y + at, i, n, v);
    }
}

KD_KERNEL(k_add, kl_add)
{
    uint32_t r = kd_group_x();
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    float by = a.out_scale ? *KD_PTR(const float, a.out_scale) : 1.0f;
    KD_GLOBAL const float *x = KD_PTR(const float, a.a) + (uint64_t)r * a.n;
    KD_GLOBAL const float *z = KD_PTR(const float, a.b) + (uint64_t)r * a.n;
    KD_GLOBAL float *y = KD_PTR(float, a.y) + (uint64_t)r * a.n;
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size()) {
        float v = x[k] + z[k];
        y[k] = a.out_scale ? v * by : v;
    }
}

KD_KERNEL(k_act_mul, kl_act_mul)
{
    uint32_t r = kd_group_x();
    kd_wait_inputs();
    kd_let_next_start();
    if (r >= kd_step_rows(a.step, a.rows))
        return;
    KD_GLOBAL const float *x = KD_PTR(const float, a.x) + (uint64_t)r * a.n;
    KD_GLOBAL const float *up = KD_PTR(const float, a.a) + (uint64_t)r * a.lda;
    KD_GLOBAL float *y = KD_PTR(float, a.y) + (uint64_t)r * a.n;
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size())
        y[k] = kd_act(a.act, x[k], up[k]);
}

KD_KERNEL(k_gather, kl_gather)
{
    uint32_t i = kd_group_x();
    kd_wait_inputs();
    kd_let_next_start();
    if (i >= kd_step_rows(a.step, ROWS_OUT))
        return;
    uint64_t r = KD_PTR(const uint32_t, a.out_row)[i];
    for (uint32_t k = kd_tid(); k < a.n; k += kd_group_size())
        KD_PTR(float, a.y)[(uint64_t)i * a.n + k] = KD_PTR(const float, a.x)[r * a.n + k];
}

KD_KERNEL(k_step_out, kl_step_out)
{
    kd_wait_inputs();
    kd_let_next_start();
    KD_GLOBAL const ka_step *s = KD_PTR(const ka_step, a.step);
    KD_GLOBAL uint32_t *y = KD_PTR(uint32_t, a.y);
    uint32_t n = s->n_out, head = sizeof(ka_step) / 4, row = sizeof(ka_row) / 4;
    for (uint32_t i = kd_tid(); i < head; i += kd_group_size())
        y[i] = i < 2 ? n : i == 2 ? s->kv_len : 0;
    for (uint32_t i = kd_tid(); i < n * row; i += kd_group_size())
        y[head + i] = KD_PTR(const uint32_t, a.step)[head + KD_PTR(const uint32_t, a.out_row)[i / row] * row + i % row];
}
