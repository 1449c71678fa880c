/* kernels/open.c: matrices of the types that have kernels for few rows alone, opened for those of many (QT_OPENED): each code
 * as the signed byte that meets x, each factor as the canonical arithmetic has it. Once per launch, so that the matrix kernels
 * need not know these types. A work-item takes an item of 64 to 256 elements (kernels/wdot.h). Grid: kernels/klaunch.h. */
#include "kernels/klaunch.h"
#include "kernels/wdot.h"

enum { OPEN_THREADS = 256 };

/* Run s of an item; book: the type's codebook lies in shared memory. */
KD_FN float open_run(uint32_t type, bool book, const uint32_t *w, const struct wd_scale *c, uint32_t item, uint32_t s, uint32_t *q)
{
    float dw, mw;
    if (book) {
        wk_open(type, true, wd_sub_words(type), w, s, 0, q);
        return wd_factor(type, w, c, item, s);
    }
    wd_open(type, w, c, item, s, q, &dw, &mw);
    KD_UNROLL
    for (uint32_t k = 0; k < WD_SUB_WORDS; k++)
        if (k < wd_sub_words(type) && wd_bias(type, s))
            q[k] = wk_less(q[k], (uint32_t)-wd_bias(type, s));
    return dw;
}

/* Neighbouring lanes store halves of 32 bytes for each other, as memory takes 32 at once: the even one the first halves of both. */
KD_FN void open_store(gpu_va first, gpu_va second, bool has_first, bool has_second, const uint32_t *q)
{
    bool odd = kd_lane() & 1;
    uint32_t lo[4], hi[4];
    KD_UNROLL
    for (uint32_t k = 0; k < 4; k++) { /* kept: else the compiler would choose an address, and have q in memory for it */
        uint32_t a = kd_keep(q[k]), b = kd_keep(q[4 + k]), got = kd_shfl_xor_u32(odd ? a : b, 1);
        lo[k] = odd ? got : a, hi[k] = odd ? b : got;
    }
    if (has_first)
        *KD_PTR(kd_u32x4, first + 16 * odd) = (kd_u32x4){ lo[0], lo[1], lo[2], lo[3] };
    if (has_second)
        *KD_PTR(kd_u32x4, second + 16 * odd) = (kd_u32x4){ hi[0], hi[1], hi[2], hi[3] };
}

KD_FN void open_items(uint32_t type, const kl_open *a, gpu_va from, gpu_va to)
{
    enum { PART = 64 };
    const uint32_t elems = mv_item_elems(type), words = wd_sub_words(type);
    const bool book = KD_PICKS && mv_book_bytes(type) != 0;
    struct wd_mat m = wd_mat(type, from, a->n_out, a->n_in);
    gpu_va scales = to + (uint64_t)a->rows * a->n_in;
    uint32_t n = a->rows * m.items;
    if (book) {
        wk_book(type);
        kd_barrier();
    }
    for (uint32_t i0 = kd_group_x() * OPEN_THREADS + kd_tid() - kd_lane(); i0 < n; i0 += kd_groups_x() * OPEN_THREADS) {
        uint32_t w[WD_WORDS], i = i0 + kd_lane(), item = a->first * m.items + kd_min_u32(i, n - 1);
        wd_load(type, false, w, &m, item);
        struct wd_scale sc = wd_scale(type, w, item);
        KD_UNROLL
        for (uint32_t p = 0; p < elems / PART; p++) {
            uint32_t q[PART / 4];
            float d[4];
            KD_UNROLL
            for (uint32_t k = 0; k < PART / 4; k += words) {
                d[k / 4] = open_run(type, book, w, &sc, item, (p * (PART / 4) + k) / words, q + k);
                if (words == 8)
                    d[k / 4 + 1] = d[k / 4];
            }
            if (i < n)
                *KD_PTR(kd_u32x4, scales + ((uint64_t)i * elems + p * PART) / 4) =
                    (kd_u32x4){ f32_bits(d[0]), f32_bits(d[1]), f32_bits(d[2]), f32_bits(d[3]) };
            gpu_va at = to + (uint64_t)(i & ~1u) * elems + p * PART;
            open_store(at, at + elems, (i & ~1u) < n, (i | 1) < n, q);
            open_store(at + 32, at + elems + 32, (i & ~1u) < n, (i | 1) < n, q + 8);
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
