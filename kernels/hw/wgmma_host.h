/* kernels/hw/wgmma_host.h
 * What kernels/hw/wgmma.h promises, on the host: calls of the lock-step runner's model of Hopper (rt/lockstep/hopper.c), which
 * keeps barriers, copies and products under way, and reports what breaks a rule of theirs. Addresses in shared memory are
 * offsets from the work-group's first byte. */
#ifndef ZINC_KERNELS_HW_WGMMA_HOST_H
#define ZINC_KERNELS_HW_WGMMA_HOST_H

#include "kernels/hw/tile.h"

void kd_host_bar_init(uint32_t at, uint32_t n);
void kd_host_bar_arrive(uint32_t at, uint32_t bytes); /* bytes: announced before, 0: none */
void kd_host_bar_wait(uint32_t at, uint32_t parity);
void kd_host_bulk_copy(uint32_t to, const void *from, uint32_t n, uint32_t bar);
void kd_host_registers(uint32_t n, bool more);
/* Four steps of 16 along k, with a commit unless it is one part of several: of bf16, or of f16 with A in shared memory or the lane's fragments of it (regs; a[4 s ..
 * 4 s + 3] of step s, which may not change before the product is complete). A step is two units of 16 bytes further than the last,
 * in a B that lies across 128. */
struct wg_product {
    float *d;
    uint32_t n;
    uint64_t a, b;
    const uint32_t *regs;
    bool half, across, add, part;
};
void kd_host_wg_multiply(const struct wg_product *p);
void kd_host_wg_end(void);
void kd_host_wg_wait(uint32_t most); /* commits */

#define KD_NO_UNROLL

typedef uint64_t wg_bar;

KD_FN uint32_t wg_addr(const void *p) { return (uint32_t)((const uint8_t *)p - kd_item.shared); }

KD_FN void bar_init(wg_bar *b, uint32_t n) { kd_host_bar_init(wg_addr(b), n); }
KD_FN void bar_init_done(void) {}
KD_FN void bar_arrive(wg_bar *b) { kd_host_bar_arrive(wg_addr(b), 0); }
KD_FN void bar_arrive_bytes(wg_bar *b, uint32_t n) { kd_host_bar_arrive(wg_addr(b), n); }
KD_FN void bar_wait(wg_bar *b, uint32_t phase) { kd_host_bar_wait(wg_addr(b), phase); }
KD_FN void bulk_copy(void *dst, const void *src, uint32_t n, wg_bar *b)
{
    kd_host_bulk_copy(wg_addr(dst), src, n, wg_addr(b));
}
KD_FN void bulk_prefetch(const void *p, uint32_t n) { (void)p, (void)n; }
#define wg_registers_less(n) kd_host_registers(n, false)
#define wg_registers_more(n) kd_host_registers(n, true)
KD_FN void async_fence_global(void) {}
KD_FN void async_fence_shared(void) {}

KD_FN void wg_wait_1(void) { kd_host_wg_wait(1); }
KD_FN void wg_wait_1_64(float *d) { (void)d, kd_host_wg_wait(1); }

#define WG_HOST_DO(...) kd_host_wg_multiply(&(struct wg_product){ .d = d, .a = a, .b = b, __VA_ARGS__ })
#define WG_HOST(n_)                                                                                                    \
    KD_FN void wg_multiply_##n_(float *d, uint64_t a, uint64_t b, uint32_t add) { WG_HOST_DO(.n = n_, .add = add != 0); } \
    KD_FN void wg_multiply_regs_##n_(float *d, const uint32_t *regs, uint64_t b, uint32_t add)                         \
    {                                                                                                                  \
        const uint64_t a = 0;                                                                                          \
        WG_HOST_DO(.n = n_, .regs = regs, .half = true, .add = add != 0);                                              \
    }                                                                                                                  \
    KD_FN void wg_part_regs_##n_(float *d, const uint32_t *regs, uint64_t b, uint32_t add)                             \
    {                                                                                                                  \
        const uint64_t a = 0;                                                                                          \
        WG_HOST_DO(.n = n_, .regs = regs, .half = true, .add = add != 0, .part = true);                                \
    }                                                                                                                  \
    KD_FN void wg_part_across_##n_(float *d, const uint32_t *regs, uint64_t b)                                         \
    {                                                                                                                  \
        const uint64_t a = 0;                                                                                          \
        WG_HOST_DO(.n = n_, .regs = regs, .half = true, .across = true, .add = true, .part = true);                    \
    }                                                                                                                  \
    KD_FN void wg_wait_0_##n_(float *d)                                                                                \
    {                                                                                                                  \
        (void)d;                                                                                                       \
        kd_host_wg_wait(0);                                                                                            \
    }
KD_FN void wg_part_half_64(float *d, uint64_t a, uint64_t b, uint32_t add)
{
    WG_HOST_DO(.n = 64, .half = true, .add = add != 0, .part = true);
}
KD_FN void wg_begin(void) {}
KD_FN void wg_end(void) { kd_host_wg_end(); }
KD_FN uint32_t wg_uniform(uint32_t v) { return v; }
KD_FN bool wg_any(bool b)
{
    uint32_t any = b;
    for (uint32_t m = KD_WARP / 2; m; m /= 2)
        any |= kd_shfl_xor_u32(any, m);
    return any;
}
WG_HOST(32)
WG_HOST(64)
WG_HOST(96)
WG_HOST(128)
WG_HOST(192)
WG_HOST(256)

/* As kd_bytes8_load of kernels/hw/mma8.h. */
KD_FN void kd_ldmatrix(uint32_t r[4], const uint8_t *row)
{
    const uint32_t *at = kd_host_share((uint32_t)(row - kd_item.shared));
    for (uint32_t i = 0; i < 4; i++)
        memcpy(&r[i], kd_item.shared + at[8 * i + kd_lane() / 4] + kd_lane() % 4 * 4, 4);
}

#endif
