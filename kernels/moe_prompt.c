/* kernels/moe_prompt.c: what experts need around their products when there are many rows: the pairs in the order of
 * their experts, the weighted sum of a row's results, and the router's choice from its logits. */
#include "kernels/hw/tile.h"
#include "kernels/klaunch.h"
#include "kernels/topk.h"

/* ---- pairs by expert ---- */

KD_FN uint32_t sort_id(const kl_moe_sort *a, uint32_t pair)
{
    return kd_min_u32(KD_PTR(const uint32_t, a->ids)[pair], a->n_expert - 1);
}

/* Where things of an expert begin when `less` pairs come before: counts of the earlier ones are not needed, as each
 * expert's share is rounded up by itself and then never runs into the next. */
KD_FN uint32_t sort_pos(uint32_t less, uint32_t expert) { return (less + 7 * expert + 7) / 8 * 8; }
KD_FN uint32_t sort_slot(const kl_moe_sort *a, uint32_t less, uint32_t expert) { return less / a->slot + expert; }

/* The sum of what the work-items before this one have; *less becomes all of theirs. s: afterwards what each warp has. */
KD_FN uint32_t sort_sums(uint32_t mine, uint32_t *less, KD_SHARED uint32_t *s)
{
    uint32_t upto = mine, all = *less, warps = kd_n_warps(), before = 0;
    KD_UNROLL
    for (uint32_t d = 1; d < KD_WARP; d *= 2) {
        uint32_t v = kd_shfl_u32(upto, (kd_lane() - d) % KD_WARP);
        upto += kd_lane() >= d ? v : 0;
    }
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1) /* 16 first: as the last one LLVM 19 moves permlanex16 into the branch below, where lanes sleep */
        all += kd_shfl_xor_u32(all, m);
    if (kd_lane() == KD_WARP - 1) {
        s[kd_warp()] = upto;
        s[warps + kd_warp()] = all;
    }
    kd_barrier();
    *less = 0;
    for (uint32_t w = 0; w < warps; w++) {
        before += w < kd_warp() ? s[w] : 0;
        *less += s[warps + w];
    }
    return before + upto - mine;
}

/* The positions of one expert, in ascending order of pairs, the gap behind them, and its tiles; the last expert also
 * marks what is left over. A work-item has a run of pairs. */
KD_FN void sort_expert(const kl_moe_sort *a, uint32_t e, uint32_t first, uint32_t end, KD_SHARED uint32_t *s)
{
    enum { ASKED = 8 }; /* ids at once */
    uint32_t less = 0, mine = 0, id[ASKED];
    for (uint32_t i = first; i < end; i += ASKED) {
        KD_UNROLL
        for (uint32_t k = 0; k < ASKED; k++)
            id[k] = sort_id(a, kd_min_u32(i + k, end - 1));
        KD_UNROLL
        for (uint32_t k = 0; k < ASKED; k++) {
            less += i + k < end && id[k] < e;
            mine += i + k < end && id[k] == e;
        }
    }
    uint32_t before = sort_sums(mine, &less, s), count = 0;
    for (uint32_t w = 0; w < kd_n_warps(); w++)
        count += s[w];
    bool last = e + 1 == a->n_expert;
    uint32_t p0 = sort_pos(less, e), p1 = last ? a->n_pos : sort_pos(less + count, e + 1);
    KD_GLOBAL uint32_t *order = KD_PTR(uint32_t, a->order);
    for (uint32_t i = first; i < end && mine; i += ASKED) {
        KD_UNROLL
        for (uint32_t k = 0; k < ASKED; k++)
            id[k] = sort_id(a, kd_min_u32(i + k, end - 1));
        KD_UNROLL
        for (uint32_t k = 0; k < ASKED; k++)
            if (i + k < end && id[k] == e)
                order[p0 + before++] = i + k;
    }
    for (uint32_t p = p0 + count + kd_tid(); p < p1; p += kd_group_size())
        order[p] = ~0u;
    uint32_t t0 = sort_slot(a, less, e), t1 = last ? a->n_slots : sort_slot(a, less + count, e + 1);
    for (uint32_t t = t0 + kd_tid(); t < t1; t += kd_group_size()) {
        uint32_t done = (t - t0) * a->slot;
        uint32_t n = done < count ? kd_min_u32(count - done, a->slot) : 0;
        KD_PTR(kd_u32x4, a->tiles)[t] = (kd_u32x4){ e, p0 + done, n, 0 };
    }
}

KD_KERNEL(k_moe_sort, kl_moe_sort)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t pairs = kd_step_rows(a.step, ROWS_STEP) * a.k, run = kd_div_up(pairs, kd_group_size());
    uint32_t first = kd_min_u32(kd_tid() * run, pairs);
    sort_expert(&a, kd_group_x(), first, kd_min_u32(first + run, pairs), KD_SHARED_AT(uint32_t, 0));
}

/* ---- the weighted sum ---- */

KD_FN float mix_column(const kl_moe_mix *a, KD_GLOBAL const uint32_t *ids, KD_GLOBAL const float *w, KD_GLOBAL const float *b,
                       KD_GLOBAL const float *o, uint32_t i)
{
    enum { ASKED = 4 }; /* results at once */
    float sum = 0.0f, v[ASKED];
    for (uint32_t j = 0; j < a->k; j += ASKED) {
        KD_UNROLL
        for (uint32_t n = 0; n < ASKED; n++)
            v[n] = o[(uint64_t)kd_min_u32(j + n, a->k - 1) * a->n_out + i];
        KD_UNROLL
        for (uint32_t n = 0; n < ASKED && j + n < a->k; n++) {
            if (b)
                v[n] += b[(uint64_t)kd_min_u32(ids[j + n], a->n_expert - 1) * a->n_out + i];
            sum = j + n ? k_fma(w[j + n], v[n], sum) : w[j + n] * v[n];
        }
    }
    return sum;
}

KD_KERNEL(k_moe_mix, kl_moe_mix)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t row = kd_group_x();
    if (row >= kd_step_rows(a.step, ROWS_STEP))
        return;
    KD_GLOBAL const uint32_t *ids = KD_PTR(const uint32_t, a.ids) + (uint64_t)row * a.k;
    KD_GLOBAL const float *w = KD_PTR(const float, a.weights) + (uint64_t)row * a.k, *b = KD_PTR(const float, a.b);
    KD_GLOBAL const float *o = KD_PTR(const float, a.o) + (uint64_t)row * a.k * a.n_out;
    for (uint32_t i = kd_group_y() * kd_group_size() + kd_tid(); i < a.n_out; i += kd_groups_y() * kd_group_size()) {
        float sum = mix_column(&a, ids, w, b, o, i);
        uint64_t at = (uint64_t)row * a.n_out + i;
        if (a.resid)
            sum += KD_PTR(const float, a.resid)[at];
        KD_PTR(float, a.y)[at] = sum;
    }
}

/* ---- the router's choice: a warp takes a row ---- */

/* The largest key left, the lowest index where there are several; the same in all lanes. */
KD_FN uint32_t topk_next(KD_SHARED const uint32_t *key, uint32_t n)
{
    uint32_t best = 0, at = ~0u;
    for (uint32_t i = kd_lane(); i < n; i += KD_WARP)
        if (key[i] > best) {
            best = key[i];
            at = i;
        }
    KD_UNROLL
    for (uint32_t m = 16; m; m >>= 1) {
        uint32_t b = kd_shfl_xor_u32(best, m), i = kd_shfl_xor_u32(at, m);
        if (b > best || (b == best && i < at)) {
            best = b;
            at = i;
        }
    }
    return at;
}

/* What the weights are divided by, and the largest logit. */
KD_FN float topk_sum(const kl_topk *a, KD_GLOBAL const float *l, KD_GLOBAL const uint32_t *ids, float top)
{
    float total = 0.0f, chosen = 0.0f;
    for (uint32_t j = kd_lane(); j < a->k; j += KD_WARP)
        chosen += k_exp(l[ids[j]] - top);
    chosen = kd_warp_sum(chosen);
    if (a->gating == KA_TOPK_SOFTMAX)
        return chosen;
    for (uint32_t i = kd_lane(); i < a->n_expert; i += KD_WARP)
        total += k_exp(l[i] - top);
    total = kd_warp_sum(total);
    return topk_divisor(chosen, total);
}

KD_KERNEL(k_router_topk, kl_topk)
{
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t row = kd_group_x() * kd_n_warps() + kd_warp();
    if (row >= kd_step_rows(a.step, ROWS_STEP))
        return;
    KD_GLOBAL const float *l = KD_PTR(const float, a.logits) + (uint64_t)row * a.n_expert;
    KD_GLOBAL uint32_t *ids = KD_PTR(uint32_t, a.ids) + (uint64_t)row * a.k;
    KD_SHARED uint32_t *key = KD_SHARED_AT(uint32_t, kd_warp() * a.n_expert * 4);
    for (uint32_t i = kd_lane(); i < a.n_expert; i += KD_WARP)
        key[i] = topk_key(l[i]);
    kd_warp_sync();
    for (uint32_t j = 0; j < a.k; j++) {
        uint32_t at = topk_next(key, a.n_expert);
        if (kd_lane() == 0) {
            key[at] = 0;
            ids[j] = at;
        }
        kd_warp_sync();
    }
    float top = l[ids[0]], sum = topk_sum(&a, l, ids, top);
    for (uint32_t j = kd_lane(); j < a.k; j += KD_WARP) {
        float w = k_exp(l[ids[j]] - top) / sum * a.scale;
        if (a.expert_scale)
            w *= KD_PTR(const float, a.expert_scale)[ids[j]];
        KD_PTR(float, a.weights)[(uint64_t)row * a.k + j] = w;
    }
    if (a.share_l && kd_lane() == 0)
        KD_PTR(float, a.share)[row] = k_sigmoid(KD_PTR(const float, a.share_l)[row]);
}
