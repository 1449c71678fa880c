/* The runner's model of Hopper on toy kernels: rings of stages, products of warpgroups and clusters give what they should, each rule
 * that a kernel can break is named, and what is read too early or given back too early is seen in the results. */
#define KD_SM90
#include <string.h>

#include "base/ckd.h"
#include "kernels/kdev.h"
#include "kernels/hw/cluster.h"
#include "kernels/hw/half2.h"
#include "kernels/hw/mma.h"
#include "kernels/hw/wgmma.h"
#include "rt/lockstep/run.h"
#include "tests/lib/run.h"

typedef struct {
    gpu_va in, out;
    uint32_t mode, n;
} toy_args;

enum { N = 1 << 14 };
static uint32_t out[N] __attribute__((aligned(16))), in[N] __attribute__((aligned(16)));

static int launch(void (*entry)(const void *), uint32_t mode, uint32_t n, uint32_t groups, uint32_t threads, uint32_t shared,
                  uint32_t cluster, struct err *e)
{
    toy_args a = { (gpu_va)(uintptr_t)in, (gpu_va)(uintptr_t)out, mode, n };
    memset(out, 0, sizeof out);
    for (uint32_t i = 0; i < N; i++)
        in[i] = i * 2654435761u;
    return lockstep_launch_clusters(entry, &a, (uint32_t[3]){ groups, 1, 1 }, threads, shared, cluster, e);
}

/* ---- a ring of two stages: one lane of the last warp copies, the others add up ---- */

enum { STAGE_WORDS = 64, RING = 2, BARS = RING * STAGE_WORDS * 4 };

enum ring_mode { RING_RIGHT, RING_NO_FULL, RING_NO_EMPTY, RING_EARLY_EMPTY, RING_FEW_ARRIVALS, RING_ODD_BYTES };

static wg_bar *full(uint32_t i) { return KD_SHARED_AT(uint64_t, BARS) + i; }
static wg_bar *empty(uint32_t i) { return KD_SHARED_AT(uint64_t, BARS) + RING + i; }

static void feed(const toy_args *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->mode != RING_NO_EMPTY)
            bar_wait(empty(i % RING), i / RING % 2 ^ 1);
        bar_arrive_bytes(full(i % RING), STAGE_WORDS * 4 - (a->mode == RING_ODD_BYTES ? 16 : 0));
        bulk_copy(KD_SHARED_AT(uint32_t, i % RING * STAGE_WORDS * 4),
                  KD_PTR(const uint32_t, a->in) + (kd_group_x() * a->n + i) * STAGE_WORDS, STAGE_WORDS * 4, full(i % RING));
    }
}

KD_KERNEL(toy_ring, toy_args)
{
    if (kd_tid() == 0) {
        for (uint32_t i = 0; i < RING; i++) {
            bar_init(full(i), 1);
            bar_init(empty(i), a.mode == RING_FEW_ARRIVALS ? 1 : 2);
        }
        bar_init_done();
    }
    kd_barrier();
    if (kd_tid() >= 64) {
        if (kd_tid() == 64)
            feed(&a);
        return;
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.mode != RING_NO_FULL)
            bar_wait(full(i % RING), i / RING % 2);
        if (a.mode == RING_EARLY_EMPTY && kd_lane() == 0)
            bar_arrive(empty(i % RING));
        for (uint32_t k = 0; k < STAGE_WORDS; k++)
            sum = sum * 31 + KD_SHARED_AT(uint32_t, i % RING * STAGE_WORDS * 4)[(k + kd_tid()) % STAGE_WORDS];
        kd_warp_sync();
        if (a.mode != RING_EARLY_EMPTY && kd_lane() == 0)
            bar_arrive(empty(i % RING));
    }
    KD_PTR(uint32_t, a.out)[kd_group_x() * 64 + kd_tid()] = sum;
}

static bool ring_is_right(uint32_t groups, uint32_t n)
{
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t t = 0; t < 64; t++) {
            uint32_t sum = 0;
            for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < STAGE_WORDS; k++)
                    sum = sum * 31 + in[(g * n + i) * STAGE_WORDS + (k + t) % STAGE_WORDS];
            if (out[g * 64 + t] != sum)
                return false;
        }
    return true;
}

START_TEST(a_ring_of_stages_hands_over_each)
{
    struct err e = { 0 };
    for (int reverse = 0; reverse < 2; reverse++) {
        lockstep_reverse(reverse);
        ck_assert_msg(launch(toy_ring, RING_RIGHT, 12, 20, 96, BARS + 32, 1, &e) == 0, "%s", e.msg);
        ck_assert(ring_is_right(20, 12));
    }
    lockstep_reverse(false);
}
END_TEST

START_TEST(stages_taken_or_given_back_too_early_are_seen)
{
    for (uint32_t mode = RING_NO_FULL; mode <= RING_ODD_BYTES; mode++) {
        struct err e = { 0 };
        int rc = launch(toy_ring, mode, 12, 20, 96, BARS + 32, 1, &e);
        ck_assert_msg(rc || !ring_is_right(20, 12), "mode %u", mode);
        ck_assert_msg(!rc || rc == -EPROTO || rc == -EDEADLK, "mode %u: %s", mode, e.msg);
        ck_assert_int_eq(launch(toy_ring, RING_RIGHT, 12, 20, 96, BARS + 32, 1, &e), 0); /* the next is none the worse */
        ck_assert(ring_is_right(20, 12));
    }
}
END_TEST

/* ---- broken rules ---- */

enum { SHARED = 8192 };

KD_KERNEL(toy_rules, toy_args)
{
    wg_bar *b = KD_SHARED_AT(uint64_t, 1024);
    float d[16] = { 0 };
    if (kd_tid() == 0 && a.mode != 0)
        bar_init(b, a.mode == 4 ? 2 : 1);
    kd_barrier();
    bool first = kd_tid() == 0;
    switch (a.mode) {
    case 0:
    case 1:
        if (first)
            bar_wait(b, 0);
        break;
    case 2:
        if (first)
            bar_init(b, 1);
        break;
    case 3:
        if (first)
            bar_init((wg_bar *)(void *)((uint8_t *)b + 12), 1);
        break;
    case 4: /* bytes are still awaited when a third one arrives */
        if (kd_tid() == 0)
            bar_arrive_bytes(b, 16);
        else if (kd_tid() < 3)
            bar_arrive(b);
        break;
    case 5:
        if (first) {
            *b = 7;
            bar_arrive(b);
        }
        break;
    case 6:
    case 7:
    case 8:
        if (first) {
            bar_arrive_bytes(b, a.mode == 6 ? 16 : 32);
            bulk_copy(KD_SHARED_AT(uint8_t, a.mode == 8 ? SHARED - 16 : 0), KD_PTR(const uint8_t, a.in + (a.mode == 7 ? 4 : 0)), 32, b);
            bar_wait(b, 0);
        }
        break;
    case 9: /* two phases go by while the last warp waits for the first of them */
        if (kd_tid() == 127) {
            bar_wait(b, 0);
        } else if (first) {
            bar_arrive(b);
            bar_arrive(b);
        }
        break;
    case 10: wg_multiply_32(d, wg_tile(KD_SHARED_AT(uint8_t, 1024)), wg_tile(KD_SHARED_AT(uint8_t, 0)), 0); break;
    case 11: wg_multiply_32(d, wg_tile(KD_SHARED_AT(uint8_t, 0)) | 1ull << 49, wg_tile(KD_SHARED_AT(uint8_t, 0)), 0); break;
    case 12:
    case 13:
        if (a.mode == 12 || kd_warp() < 3) {
            uint64_t desc = 64ull << 32; /* 64 rows of 16 bytes, the same for each of a step's halves */
            wg_multiply_32(d, desc + (a.mode == 12 && kd_warp() == 2 ? 8 : 0), desc, 0);
            wg_wait_0_32(d);
        }
        break;
    case 14:
        wg_multiply_32(d, 8ull << 32, 8ull << 32, 0);
        break;
    case 15: wg_registers_less(100); break;
    case 16: wg_registers_more(24); break;
    case 17: wg_registers_more(256); break;
    case 18: kd_cluster_arrive(); break;
    case 19: kd_copy16(KD_SHARED_AT(uint8_t, SHARED), KD_PTR(const uint8_t, a.in), true); break;
    }
}

START_TEST(broken_rules_are_named)
{
    static const char *const want[] = {
        "warp 0, lane 0: barrier at 1024: it was not initialised", "warp 0: lane 0 waits at a barrier in shared memory",
        "barrier at 1024: it is initialised again", "barrier at 1036", "phase 0: an arrival too many, beyond the 2",
        "barrier at 1024: its 8 bytes were written over", "phase 0: 16 bytes more than were announced", "multiples of 16 are expected",
        "behind the 8192 bytes", "it slept from phase 0 to 2", "64 rows reach to", "a base offset", "product 0 of its warpgroup",
        "made 0 products, another warp of its warpgroup 1", "it ended with products under way", "100 registers: a multiple of 8",
        "more registers, 24: it has", "wait for registers", "launched without a cluster", "to 8192 of 8192 bytes of shared memory",
    };
    for (uint32_t mode = 0; mode < ARRAY_LEN(want); mode++) {
        bool seen = false;
        for (int reverse = 0; reverse < 2 && !seen; reverse++) {
            struct err e = { 0 };
            lockstep_reverse(reverse);
            int rc = launch(toy_rules, mode, 0, 4, 256, SHARED, 1, &e); /* some are only there when drawn */
            seen = rc && strstr(e.msg, want[mode]);
            ck_assert_msg(!rc || seen || (mode == 9 && rc == -EDEADLK), "mode %u: %s", mode, e.msg);
            ck_assert_msg(!seen || (rc == -EDEADLK) == (mode == 1 || mode == 17), "mode %u: %d, %s", mode, rc, e.msg);
        }
        ck_assert_msg(seen, "mode %u: nothing was reported, %s is expected", mode, want[mode]);
    }
    lockstep_reverse(false);
}
END_TEST

/* Registers that one warpgroup gives back are what the other takes. */
KD_KERNEL(toy_registers, toy_args)
{
    if (kd_warp() / 4 == a.mode)
        wg_registers_more(240);
    else
        wg_registers_less(24);
    KD_PTR(uint32_t, a.out)[kd_tid()] = 1;
}

START_TEST(registers_are_waited_for)
{
    struct err e = { 0 };
    for (uint32_t who = 0; who < 2; who++) {
        ck_assert_msg(launch(toy_registers, who, 0, 1, 384, 0, 1, &e) == 0, "%s", e.msg);
        for (uint32_t t = 0; t < 384; t++)
            ck_assert_uint_eq(out[t], 1);
    }
}
END_TEST

/* ---- products ---- */

enum { A_AT = 0, B_AT = 64 * 128, TILES = B_AT + 256 * 128 };

/* Where element k of row r lies in a tile of rows of 64 elements: pieces of 8 are permuted over 128, 64 or 32 bytes, or stand in
 * blocks of 8 rows. */
static uint32_t element(uint32_t swizzle, uint32_t rows, uint32_t r, uint32_t k)
{
    uint32_t p = k / 8, row = swizzle ? 128u >> (swizzle - 1) : 16, per = row / 16, at = (p / per * rows + r) * row;
    uint32_t mask = swizzle == 1 ? r % 8 : swizzle == 2 ? r / 2 % 4 : swizzle == 3 ? r / 4 % 2 : 0;
    return at + ((p % per) ^ mask) * 16 + k % 8 * 2;
}

/* What a number is rounded to: f16 in modes with 16. */
static uint16_t rounded(float v, uint32_t mode) { return mode & 16 ? f16_from_f32(v) : bf16_from_f32(v); }

/* A number of the element; of B's none behind the k that A's layout goes on to by steps of 32 bytes. */
static float value(uint32_t which, uint32_t r, uint32_t k, uint32_t mode)
{
    static const uint32_t last[4] = { 16, 64, 32, 16 };
    uint32_t x = (which * 977 + r * 131 + k * 29 + 7) * 2654435761u;
    if (which && k >= last[mode % 8])
        return 0.0f;
    uint16_t v = rounded(mode & 8 ? (float)(int32_t)x * 0x1p-31f : (float)((int32_t)(x >> 24) % 9 - 4), mode);
    return mode & 16 ? f16_to_f32(v) : bf16_to_f32(v);
}

/* regs: A in registers, or NULL. */
#define MULTIPLY(n)                                                                                                    \
    if (regs)                                                                                                          \
        wg_multiply_regs_##n(d, regs, b, add);                                                                         \
    else                                                                                                               \
        wg_multiply_##n(d, a, b, add);                                                                                 \
    wg_wait_0_##n(d)
static void multiply(float *d, const uint32_t *regs, uint32_t n, uint64_t a, uint64_t b, uint32_t add)
{
    switch (n) {
    case 32: MULTIPLY(32); break;
    case 64: MULTIPLY(64); break;
    case 96: MULTIPLY(96); break;
    case 128: MULTIPLY(128); break;
    case 192: MULTIPLY(192); break;
    default: MULTIPLY(256);
    }
}

/* Where column c of row k lies in a B that is across: blocks of 64 columns, a row of k each 128 bytes. */
enum { BLOCK = 64 * 128 };
static uint32_t across(uint32_t k, uint32_t c) { return c / 64 * BLOCK + k * 128 + (c % 64 / 8 ^ k % 8) * 16 + c % 8 * 2; }

/* d += A B, twice, in two commits of which one is waited for at a time. */
static void multiply_across(float *d, const uint32_t *regs, uint32_t n, uint64_t b)
{
    wg_begin();
    for (uint32_t i = 0; i < 2; i++) {
        if (n == 64)
            wg_part_across_64(d, regs, b);
        else if (n == 128)
            wg_part_across_128(d, regs, b);
        else
            wg_part_across_256(d, regs, b);
        wg_end();
    }
    wg_wait_1();
    wg_wait_0(d, n);
}

/* Twice A B^T of n columns. mode: A's swizzle, 8 for random numbers in place of small integers, 16 for
 * f16 with A in registers, 32 with B across. */
KD_KERNEL(toy_product, toy_args)
{
    uint32_t swizzle = a.mode % 8, row = swizzle ? 256u >> swizzle : 16;
    for (uint32_t i = kd_tid(); i < 64 * 64; i += kd_group_size())
        *KD_SHARED_AT(uint16_t, A_AT + element(swizzle, 64, i / 64, i % 64)) = rounded(value(0, i / 64, i % 64, a.mode), a.mode);
    for (uint32_t i = kd_tid(); i < a.n * 64; i += kd_group_size())
        *KD_SHARED_AT(uint16_t, B_AT + (a.mode & 32 ? across(i % 64, i / 64) : element(1, a.n, i / 64, i % 64))) =
            rounded(value(1, i / 64, i % 64, a.mode), a.mode);
    async_fence_shared();
    kd_barrier();
    uint64_t of_a = (uint64_t)swizzle << 62 | (uint64_t)(8 * row / 16) << 32 | (swizzle ? 1 : 64) << 16 | A_AT / 16;
    float d[128];
    for (uint32_t i = 0; i < 128; i++)
        d[i] = a.mode & 32 ? 0.0f : 1e9f;
    uint32_t w[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t r = 16 * kd_warp() + kd_lane() / 4 + i % 2 * 8, k = i / 4 * 16 + i / 2 % 2 * 8 + kd_lane() % 4 * 2;
        w[i] = rounded(value(0, r, k, a.mode), a.mode) | (uint32_t)rounded(value(0, r, k + 1, a.mode), a.mode) << 16;
    }
    const uint32_t *regs = a.mode & 16 ? w : NULL;
    if (a.mode & 32) {
        multiply_across(d, regs, a.n, wg_tile_across(KD_SHARED_AT(uint8_t, B_AT), BLOCK));
    } else {
        multiply(d, regs, a.n, of_a, wg_tile(KD_SHARED_AT(uint8_t, B_AT)), 0);
        multiply(d, regs, a.n, of_a, wg_tile(KD_SHARED_AT(uint8_t, B_AT)), 1);
    }
    for (uint32_t i = 0; i < a.n / 2; i++) {
        uint32_t r = 16 * kd_warp() + kd_lane() / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + kd_lane() % 4 * 2 + i % 2;
        KD_PTR(uint32_t, a.out)[r * 256 + c] = f32_bits(d[i]);
    }
}

static void check_product(uint32_t mode, uint32_t n)
{
    struct err e = { 0 };
    ck_assert_msg(launch(toy_product, mode, n, 1, 128, TILES, 1, &e) == 0, "mode %u, %u columns: %s", mode, n, e.msg);
    for (uint32_t r = 0; r < 64; r++)
        for (uint32_t c = 0; c < n; c++) {
            float want = 0.0f, got = f32_from_bits(out[r * 256 + c]);
            for (uint32_t k = 0; k < 128; k++)
                want = k_fma(value(0, r, k % 64, mode), value(1, c, k % 64, mode), want);
            ck_assert_msg(got == want, "mode %u, %u columns: element %u, %u is %.9g, not %.9g", mode, n, r, c, got, want);
        }
}

START_TEST(products_are_what_the_layouts_say)
{
    static const uint32_t widths[] = { 32, 64, 96, 128, 192, 256 };
    for (uint32_t i = 0; i < ARRAY_LEN(widths); i++)
        check_product(1, widths[i]);
    for (uint32_t swizzle = 0; swizzle < 4; swizzle++)
        check_product(swizzle, 32);
    for (uint32_t i = 0; i < ARRAY_LEN(widths); i++)
        check_product(16 + 1, widths[i]);
    for (uint32_t n = 64; n <= 256; n *= 2)
        check_product(32 + 16 + 1, n);
}
END_TEST

START_TEST(sums_go_along_k_in_ascending_order_whatever_the_width)
{
    check_product(9, 32);
    check_product(9, 256);
    check_product(16 + 9, 96);
}
END_TEST

/* The tile of B is written over before the product is waited for, or, mode 1, the sums are taken before. */
KD_KERNEL(toy_early, toy_args)
{
    float d[16] = { 0 }, early = 0.0f;
    for (uint32_t i = kd_tid(); i < (64 + 32) * 64; i += kd_group_size())
        KD_SHARED_AT(uint16_t, 0)[i] = bf16_from_f32(1.0f);
    kd_barrier();
    wg_multiply_32(d, wg_tile(KD_SHARED_AT(uint8_t, 0)), wg_tile(KD_SHARED_AT(uint8_t, B_AT)), 1);
    if (a.mode == 0)
        for (uint32_t i = kd_tid(); i < 32 * 64; i += kd_group_size())
            KD_SHARED_AT(uint16_t, B_AT)[i] = 0;
    early = d[3];
    wg_wait_0_32(d);
    KD_PTR(uint32_t, a.out)[kd_group_x() * 128 + kd_tid()] = f32_bits(a.mode == 1 ? early : d[3]) == f32_bits(64.0f);
}

/* Registers of A are written over, in mode 0 before the product is waited for. */
KD_KERNEL(toy_changed, toy_args)
{
    float d[16] = { 0 };
    uint32_t w[16] = { 0 };
    wg_multiply_regs_32(d, w, wg_tile(KD_SHARED_AT(uint8_t, 0)), 0);
    if (a.mode == 0)
        w[5] = kd_tid();
    wg_wait_0_32(d);
    w[5] = 1;
}

static uint32_t how_many(uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += out[i];
    return sum;
}

START_TEST(products_that_are_not_waited_for_are_seen)
{
    struct err e = { 0 };
    for (uint32_t mode = 0; mode < 3; mode++) {
        ck_assert_msg(launch(toy_early, mode, 0, 16, 128, B_AT + 32 * 128, 1, &e) == 0, "%s", e.msg);
        ck_assert_msg((how_many(16 * 128) == 16 * 128) == (mode == 2), "mode %u: %u", mode, how_many(16 * 128));
    }
    ck_assert_int_ne(launch(toy_changed, 0, 0, 16, 128, 32 * 128, 1, &e), 0);
    ck_assert_msg(strstr(e.msg, "registers of A changed"), "%s", e.msg);
    ck_assert_msg(launch(toy_changed, 1, 0, 16, 128, 32 * 128, 1, &e) == 0, "%s", e.msg);
}
END_TEST

/* ---- copies of the warp ---- */

/* mode 1: one group too few is waited for; 2: the slot is filled again before the others have read it. */
KD_KERNEL(toy_copies, toy_args)
{
    uint32_t right = 1;
    for (uint32_t i = 0; i <= 8; i++) {
        uint32_t *slot = KD_SHARED_AT(uint32_t, kd_warp() * 1024 + i % 2 * 512);
        if (i < 8)
            kd_copy16(slot + 4 * kd_lane(), KD_PTR(const uint32_t, a.in) + (8 * kd_group_x() + i) * 128 + 4 * kd_lane(), kd_lane() != 3);
        kd_copy_commit();
        if (!i)
            continue;
        if (a.mode == 1)
            kd_copy_wait_2();
        else
            kd_copy_wait_1();
        kd_warp_sync();
        const uint32_t *other = KD_SHARED_AT(uint32_t, kd_warp() * 1024 + (i - 1) % 2 * 512);
        for (uint32_t k = 0; k < 128; k++)
            right &= other[k] == (k / 4 == 3 ? 0 : KD_PTR(const uint32_t, a.in)[(8 * kd_group_x() + i - 1) * 128 + k]);
        if (a.mode != 2)
            kd_warp_sync();
    }
    KD_PTR(uint32_t, a.out)[kd_group_x() * 64 + kd_tid()] = right;
}

START_TEST(copies_are_there_when_they_were_waited_for)
{
    for (uint32_t mode = 0; mode < 3; mode++) {
        struct err e = { 0 };
        ck_assert_msg(launch(toy_copies, mode, 0, 10, 64, 2048, 1, &e) == 0, "%s", e.msg);
        ck_assert_msg((how_many(10 * 64) == 10 * 64) == (mode == 0), "mode %u", mode);
    }
}
END_TEST

/* ---- clusters ---- */

enum { CL_RIGHT, CL_NO_WAIT, CL_AT_ONCE, CL_TWICE, CL_NOT_ARRIVED, CL_ENDED };

/* Each work-group's words come from both. */
KD_KERNEL(toy_cluster, toy_args)
{
    kd_u32x2 *s = KD_SHARED_AT(kd_u32x2, 0);
    uint32_t rank = kd_cluster_rank();
    if (a.mode != CL_NOT_ARRIVED)
        kd_cluster_arrive();
    if (a.mode == CL_TWICE)
        kd_cluster_arrive();
    if (a.mode != CL_AT_ONCE)
        kd_cluster_wait();
    if (a.mode == CL_ENDED && rank == 1)
        return;
    kd_cluster_store8(s + rank * 64 + kd_tid(), (kd_u32x2){ rank + 1, kd_tid() });
    if (a.mode == CL_ENDED || a.mode == CL_AT_ONCE)
        return;
    kd_cluster_arrive();
    if (a.mode != CL_NO_WAIT)
        kd_cluster_wait();
    kd_barrier();
    kd_u32x2 v = s[(rank ^ 1) * 64 + 63 - kd_tid()];
    KD_PTR(uint32_t, a.out)[kd_group_x() * 64 + kd_tid()] = v[0] == 2 - rank && v[1] == 63 - kd_tid();
}

START_TEST(clusters_see_each_others_stores)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        struct err e = { 0 };
        lockstep_reverse(reverse);
        ck_assert_msg(launch(toy_cluster, CL_RIGHT, 0, 8, 64, 1024, 2, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(how_many(8 * 64), 8 * 64);
        ck_assert(launch(toy_cluster, CL_NO_WAIT, 0, 8, 64, 1024, 2, &e) == -EPROTO || how_many(8 * 64) < 8 * 64);
    }
    lockstep_reverse(false);
}
END_TEST

START_TEST(clusters_that_break_a_rule_are_named)
{
    static const struct { uint32_t mode; int rc; const char *want; } story[] = {
        { CL_AT_ONCE, -EPROTO, "before all of its work-groups have arrived" },
        { CL_TWICE, -EPROTO, "arrives at the cluster's barrier again" },
        { CL_NOT_ARRIVED, -EPROTO, "without having arrived" },
        { CL_ENDED, -EPROTO, "has ended" },
    };
    struct err e = { 0 };
    for (uint32_t i = 0; i < ARRAY_LEN(story); i++) {
        ck_assert_int_eq(launch(toy_cluster, story[i].mode, 0, 2, 64, 1024, 2, &e), story[i].rc);
        ck_assert_msg(strstr(e.msg, story[i].want), "%s", e.msg);
        ck_assert_int_eq(launch(toy_cluster, CL_RIGHT, 0, 2, 64, 1024, 2, &e), 0);
    }
    ck_assert_int_eq(launch(toy_cluster, CL_RIGHT, 0, 3, 64, 1024, 2, &e), -EINVAL);
}
END_TEST

/* One lane never arrives. */
KD_KERNEL(toy_cluster_stuck, toy_args)
{
    if (kd_tid() != 5 || kd_cluster_rank())
        kd_cluster_arrive();
    if (kd_tid() == 5 && !kd_cluster_rank())
        kd_warp_sync();
    kd_cluster_wait();
}

START_TEST(a_cluster_that_cannot_go_on_is_named)
{
    struct err e = { 0 };
    ck_assert_int_eq(launch(toy_cluster_stuck, 0, 0, 2, 64, 0, 2, &e), -EDEADLK);
    ck_assert_msg(strstr(e.msg, "wait for their cluster"), "%s", e.msg);
}
END_TEST

/* ---- two f16 in a word ---- */

START_TEST(halves_are_rounded_once)
{
    uint16_t one = 0x3c00, two_k = 0x6800 /* 2048, whose last place is 2 */, tie = 0x3c00, above = 0x3c01, below = 0x3bff, tiny = 1;
    ck_assert_uint_eq(h2_fma(H2(tie), H2(one), H2(two_k)), H2(two_k)); /* to even */
    ck_assert_uint_eq(h2_fma(H2(above), H2(one), H2(two_k)), H2(two_k + 1));
    ck_assert_uint_eq(h2_fma(H2(below), H2(one), H2(two_k)), H2(two_k));
    /* 1.0 in the last place but one of 2050 is a tie, upwards; what breaks it is 2^-48, or not there */
    ck_assert_uint_eq(h2_fma(H2(tie), H2(one), H2(two_k + 1)), H2(two_k + 2));
    ck_assert_uint_eq(h2_fma(H2(tiny), H2(tiny), H2(two_k)), H2(two_k));
    ck_assert_uint_eq(h2_fma(H2(below), H2(one), H2(two_k + 1)), H2(two_k + 1));
    ck_assert_uint_eq(h2_add(0x7bff3c00u, 0x7bff0400u), 0x7c003c00u | 0); /* infinity; a small number is lost */
    ck_assert_uint_eq(h2_mul(0x00010400u, 0x3c003800u), 0x00010200u);     /* subnormals stay */
    ck_assert_uint_eq(h2_codes(0x44332211u, false), 0x64336411u);
    ck_assert_uint_eq(h2_codes(0x44332211u, true), 0x64446422u);
    ck_assert_uint_eq(h2_lo(0x44332211u), 0x22112211u);
    ck_assert_uint_eq(h2_hi(0x44332211u), 0x44334433u);
    ck_assert_uint_eq(h2_from(1.0f, -2.0f), 0xc0003c00u);
}
END_TEST

int main(void)
{
    return RUN_TESTS("lockstep_hopper", a_ring_of_stages_hands_over_each, stages_taken_or_given_back_too_early_are_seen,
                     broken_rules_are_named, registers_are_waited_for, products_are_what_the_layouts_say,
                     sums_go_along_k_in_ascending_order_whatever_the_width, products_that_are_not_waited_for_are_seen,
                     copies_are_there_when_they_were_waited_for, clusters_see_each_others_stores,
                     clusters_that_break_a_rule_are_named, a_cluster_that_cannot_go_on_is_named, halves_are_rounded_once);
}
