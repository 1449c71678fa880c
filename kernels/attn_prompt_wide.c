/* kernels/attn_prompt_wide.c: attention of many rows, heads of 512. Grid x: kv heads, y: tiles of rows.
 *
 * As kernels/attn_prompt.c, but 16 (row, query head) pairs have two warps, since o of such heads does not fit one's
 * registers. Of a tile of 64 positions each takes the scores of 32, over all dimensions; they tell each other the rows'
 * maxima and their probabilities through shared memory; then each adds all 64 to its 256 dimensions of o. l is summed by
 * each over its own positions and joined at the end. K and V have one place each: the next K comes while this V is used,
 * and the other way round. */
#include <stdbool.h>

#include "kernels/attn_end.h"
#include "kernels/attn_prompt.h"
#include "kernels/attn_tile.h"
#include "kernels/hw/mma.h"
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/kv.h"

enum { HD = APW_DIM, LD = HD + AP_PAD, HALF = HD / 2, OWN = AP_POS / 2 };

/* The warp's part of 16 pairs, and the first of them. */
KD_FN uint32_t apw_half(void) { return kd_warp() % 2; }
KD_FN uint32_t apw_pair(void) { return kd_warp() / 2 * 16; }

KD_FN KD_SHARED uint16_t *sh_q(void) { return KD_SHARED_AT(uint16_t, 0); }
KD_FN KD_SHARED uint16_t *sh_k(void) { return KD_SHARED_AT(uint16_t, apw_shared().k); }
KD_FN KD_SHARED uint16_t *sh_v(void) { return KD_SHARED_AT(uint16_t, apw_shared().v); }
KD_FN KD_SHARED uint16_t *sh_p(void) { return KD_SHARED_AT(uint16_t, apw_shared().p) + apw_pair() * APW_P_LD; }
/* A number for each of the 16 rows: the warp's own, or its partner's. */
KD_FN KD_SHARED float *sh_rows(uint32_t half)
{
    return KD_SHARED_AT(float, apw_shared().rows) + (kd_warp() / 2 * 2 + half) * 16;
}

/* One lane of those that share a row writes its number. */
KD_FN void apw_tell(const float *v)
{
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        if (kd_lane() % KD_ACC_SPREAD == 0)
            sh_rows(apw_half())[kd_acc_slot_row(k)] = v[k];
}

KD_FN void apw_scores(kd_acc s[OWN / 16])
{
    KD_SHARED const uint16_t *q = sh_q() + apw_pair() * LD, *k = sh_k() + apw_half() * OWN * LD;
    KD_UNROLL
    for (uint32_t n = 0; n < OWN / 16; n++)
        s[n] = (kd_acc){ { 0 } };
    KD_UNROLL
    for (uint32_t d = 0; d < HD; d += 16) {
        kd_frag a = kd_frag_a(q + d, LD);
        KD_UNROLL
        for (uint32_t n = 0; n < OWN / 16; n++)
            kd_tile_fma(&s[n], a, kd_frag_bt(k + 16 * n * LD + d, LD));
    }
}

/* Masks scores of positions that their rows do not see, and tells the maxima. p0: the warp's first position. */
KD_FN void apw_maxima(kd_acc s[OWN / 16], uint32_t p0, bool masked, const uint32_t *pos, const uint32_t *lo,
                      float *top)
{
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        top[k] = NEG_INF;
    KD_UNROLL
    for (uint32_t n = 0; n < OWN / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t p = p0 + 16 * n + kd_acc_col(i), k = kd_acc_slot(i);
            if (masked)
                s[n].v[i] = p <= pos[k] && p >= lo[k] ? s[n].v[i] : NEG_INF;
            top[k] = kd_max(s[n].v[i], top[k]);
        }
    }
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        top[k] = kd_acc_max(top[k]);
    apw_tell(top);
}

/* Scores to probabilities, in shared memory. by: the scale, in base 2. */
KD_FN void apw_softmax(const kd_acc s[OWN / 16], float by, const float *top, float *m, float *l, float *decay)
{
    float sum[KD_ACC_SLOTS], off[KD_ACC_SLOTS];
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        float now = kd_max(kd_max(top[k], sh_rows(1 - apw_half())[kd_acc_slot_row(k)]) * by, m[k]);
        off[k] = now == NEG_INF ? 0.0f : now; /* nothing seen yet */
        decay[k] = kd_exp2(m[k] - off[k]);
        m[k] = now;
        sum[k] = 0.0f;
    }
    KD_UNROLL
    for (uint32_t n = 0; n < OWN / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i += 2) {
            uint32_t k = kd_acc_slot(i);
            float x = kd_exp2(k_fma(s[n].v[i], by, -off[k])), y = kd_exp2(k_fma(s[n].v[i + 1], by, -off[k]));
            sum[k] += x;
            sum[k] += y;
            *(KD_SHARED uint32_t *)(sh_p() + kd_acc_row(i) * APW_P_LD + apw_half() * OWN + 16 * n + kd_acc_col(i)) =
                kd_half2(x, y);
        }
    }
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        l[k] = k_fma(l[k], decay[k], sum[k]);
}

KD_FN void apw_values(const float *decay, kd_acc o[HALF / 16])
{
    KD_UNROLL
    for (uint32_t n = 0; n < HALF / 16; n++) {
        KD_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            o[n].v[i] *= decay[kd_acc_slot(i)];
    }
    KD_UNROLL
    for (uint32_t k = 0; k < AP_POS; k += 16) {
        kd_frag a = kd_frag_a(sh_p() + k, APW_P_LD);
        KD_UNROLL
        for (uint32_t n = 0; n < HALF / 16; n++)
            kd_tile_fma(&o[n], a, kd_frag_b(sh_v() + k * LD + apw_half() * HALF + 16 * n, LD));
    }
}

KD_FN void apw_write(const kl_attn *a, const struct ap_run *r, const float *m, float *l, const kd_acc o[HALF / 16])
{
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++)
        l[k] = kd_acc_sum(l[k]);
    apw_tell(l);
    kd_barrier();
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        uint32_t pair = apw_pair() + kd_acc_slot_row(k), row = r->tile0 + pair / r->group;
        uint32_t head = r->kvh * r->group + pair % r->group;
        float sum = sh_rows(0)[kd_acc_slot_row(k)] + sh_rows(1)[kd_acc_slot_row(k)];
        float by = 1.0f;
        if (row < r->row0 || row >= r->row1)
            continue;
        if (a->sinks) {
            float sink = KD_PTR(const float, a->sinks)[head] * LOG2E, both = kd_max(m[k], sink);
            by = kd_exp2(m[k] - both);
            sum = sum * by + kd_exp2(sink - both);
        }
        by /= sum;
        KD_GLOBAL float *y = KD_PTR(float, a->y) + ((uint64_t)row * a->n_head + head) * HD + apw_half() * HALF;
        uint64_t at = (uint64_t)row * a->ldq + (uint64_t)head * a->q_hs + apw_half() * HALF;
        KD_GLOBAL const float *gate = KD_PTR(const float, a->gate) + at;
        KD_UNROLL
        for (uint32_t n = 0; n < HALF / 16; n++) {
            KD_UNROLL
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t d = 16 * n + kd_acc_col(i);
                if (kd_acc_slot(i) == k)
                    y[d] = o[n].v[i] * by * (a->gate ? k_sigmoid(gate[d]) : 1.0f);
            }
        }
    }
}

KD_FN void apw_run(const kl_attn *a, const struct ap_run *r, const bool F16)
{
    kd_acc o[HALF / 16];
    float m[KD_ACC_SLOTS], l[KD_ACC_SLOTS];
    uint32_t pos[KD_ACC_SLOTS], lo[KD_ACC_SLOTS], p0 = r->lo / AP_POS * AP_POS;
    ap_load(F16, r->k, HD, AP_POS, p0, r->end, sh_k());
    ap_load(F16, r->v, HD, AP_POS, p0, r->end, sh_v());
    ap_load_q(a, r, HD, APW_PAIRS, sh_q());
    KD_UNROLL
    for (uint32_t k = 0; k < KD_ACC_SLOTS; k++) {
        uint32_t row = r->tile0 + (apw_pair() + kd_acc_slot_row(k)) / r->group;
        row = kd_min_u32(kd_max_u32(row, r->row0), r->row1 - 1);
        pos[k] = kd_row(a->step, row)->pos;
        lo[k] = ap_first(a, pos[k]);
        m[k] = NEG_INF;
        l[k] = 0.0f;
    }
    KD_UNROLL
    for (uint32_t n = 0; n < HALF / 16; n++)
        o[n] = (kd_acc){ { 0 } };
    /* seen by all rows of the run: no masks there */
    uint32_t all_from = ap_first(a, kd_row(a->step, r->row1 - 1)->pos), all_to = kd_row(a->step, r->row0)->pos;
    for (; p0 < r->end; p0 += AP_POS) {
        bool more = p0 + AP_POS < r->end, masked = p0 < all_from || p0 + AP_POS - 1 > all_to;
        kd_acc s[OWN / 16];
        float top[KD_ACC_SLOTS], decay[KD_ACC_SLOTS];
        kd_copy_wait_1();
        kd_barrier(); /* this K is there */
        apw_scores(s);
        apw_maxima(s, p0 + apw_half() * OWN, masked, pos, lo, top);
        kd_barrier(); /* the maxima are told, and everybody is done with K */
        if (more)
            ap_load(F16, r->k, HD, AP_POS, p0 + AP_POS, r->end, sh_k());
        apw_softmax(s, a->scale * LOG2E, top, m, l, decay);
        if (more)
            kd_copy_wait_1();
        else
            kd_copy_wait_0();
        kd_barrier(); /* this V is there, and the probabilities */
        apw_values(decay, o);
        kd_barrier(); /* everybody is done with V */
        if (more)
            ap_load(F16, r->v, HD, AP_POS, p0 + AP_POS, r->end, sh_v());
    }
    apw_write(a, r, m, l, o);
    kd_barrier(); /* shared memory is free for the next run */
}

KD_KERNEL(k_attn_prompt_h512, kl_attn)
{
    struct ap_run r = { .group = a.n_head / a.n_kv, .kvh = kd_group_x() };
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n_rows = kd_step_rows(a.step, ROWS_STEP), step = APW_PAIRS / r.group, tiles = kd_div_up(n_rows, step);
    if (kd_group_y() >= tiles)
        return;
    r.tile0 = (tiles - 1 - kd_group_y()) * step; /* the longest first */
    uint32_t end = kd_min_u32(r.tile0 + step, n_rows);
    for (r.row0 = r.tile0; r.row0 < end; r.row0 = r.row1) {
        ap_next_run(&a, &r, HD, end);
        if (a.kv_type == KA_KV_F16)
            apw_run(&a, &r, true);
        else
            apw_run(&a, &r, false);
    }
}
