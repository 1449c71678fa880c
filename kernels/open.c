/* kernels/open.c: matrices of the types that have kernels for few rows alone, opened for those of many (QT_OPENED): each code
 * as the signed byte that meets x, each factor as the canonical arithmetic has it. Once per launch, so that the matrix kernels
 * need not know these types. A work-item takes an item of 16 to 256 elements (kernels/wdot.h). Grid: kernels/klaunch.h. */
#include "kernels/klaunch.h"
#include "kernels/wdot.h"

enum { OPEN_THREADS = 256 };

KD_FN void open_items(uint32_t type, const kl_open *a, gpu_va from, gpu_va to)
{
    struct wd_mat m = wd_mat(type, from, a->n_out, a->n_in);
    gpu_va scales = to + (uint64_t)a->rows * a->n_in;
    uint32_t n = a->rows * m.items;
    for (uint32_t i = kd_group_x() * OPEN_THREADS + kd_tid(); i < n; i += kd_groups_x() * OPEN_THREADS) {
        uint32_t w[WD_WORDS], q[WD_SUB_WORDS], item = a->first * m.items + i;
        float dw, mw;
        wd_load(type, false, w, &m, item);
        struct wd_scale sc = wd_scale(type, w, item);
        KD_UNROLL
        for (uint32_t s = 0; s < wd_subs(type); s++) {
            uint64_t run = (uint64_t)i * wd_subs(type) + s;
            wd_open(type, w, &sc, item, s, q, &dw, &mw);
            if (wd_run(type) == 16) {
                *KD_PTR(kd_u32x4, to + run * 16) = (kd_u32x4){ q[0], q[1], q[2], q[3] };
                *KD_PTR(float, scales + run * 4) = dw;
                continue;
            }
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++)
                q[k] = wd_bias(type, s) ? wk_less(q[k], 1) : q[k];
            KD_GLOBAL kd_u32x4 *y = KD_PTR(kd_u32x4, to + run * 32);
            y[0] = (kd_u32x4){ q[0], q[1], q[2], q[3] };
            y[1] = (kd_u32x4){ q[4], q[5], q[6], q[7] };
            *KD_PTR(kd_u32x2, scales + run * 8) = (kd_u32x2){ f32_bits(dw), f32_bits(dw) };
        }
    }
}

KD_KERNEL(k_open, kl_open)
{
    kd_wait_inputs();
    kd_let_next_start();
    gpu_va from = a.w + kd_group_y() * a.stride, to = a.y + kd_group_y() * a.y_stride;
    switch (a.type) {
#define QTYPE_BOOK(NAME, ...)                                                                                          \
    case QT_##NAME: open_items(QT_##NAME, &a, from, to); break;
#include "kernels/qtypes.def"
    default: break;
    }
}
