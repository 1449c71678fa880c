/* PM4 words as hardware wants them: known streams bit for bit, and refusals that write nothing. */
#include <stdlib.h>
#include <string.h>

#include "rt/pm4/decode.h"
#include "rt/pm4/tables.h"
#include "tests/lib/run.h"

enum { CAP = 512 };
static uint32_t mem[CAP];
static struct pm4_buf b;

static void begin(enum pm4_gen gen)
{
    memset(mem, 0x5a, sizeof mem);
    pm4_init(&b, gen, mem, CAP);
}

static void check_words(const char *what, const uint32_t *want, uint32_t n)
{
    ck_assert_msg(b.rc == 0, "%s: %s", what, b.why);
    ck_assert_msg(b.n == n, "%s: %u dwords, expected %u", what, b.n, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(mem[i] == want[i], "%s: dword %u is %08x, expected %08x", what, i, mem[i], want[i]);
    ck_assert_msg(mem[n] == 0x5a5a5a5a, "%s: wrote past its end", what);
}
#define WORDS(what, ...)                                                                                               \
    check_words(what, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)
/* One call on a fresh buffer gives these words. */
#define GIVES(call, ...)                                                                                               \
    do {                                                                                                               \
        begin(PM4_GFX12);                                                                                              \
        call;                                                                                                          \
        WORDS(#call, __VA_ARGS__);                                                                                     \
    } while (0)

static const struct pm4_launch launch_1k = {
    .entry = 0x7f0000100000, .rsrc1 = 0x600f0041, .rsrc2 = 0x84, .lds_bytes = 1024, .n_user = 2,
    .user = { 0x00200000, 0x7f00 }, .groups = { 4, 1, 1 }, .threads = { 256, 1, 1 }, .wave32 = true
};

/* A whole launch as a working runtime sends it: acquire, registers, dispatch, flush, release. */
START_TEST(worked_stream)
{
    struct pm4_launch_at at;
    begin(PM4_GFX12);
    pm4_acquire_mem(&b, PM4_ACQUIRE_ALL);
    pm4_launch(&b, NULL, &launch_1k, &at);
    pm4_cs_partial_flush(&b);
    pm4_release_mem(&b, &(struct pm4_release){ .gcr = PM4_RELEASE_ALL, .data_sel = PM4_DATA_32,
                                               .va = 0x7f0000300000, .data = 1 });
    WORDS("launch", 0xC0065800, 0x00000000, 0xFFFFFFFF, 0x01FFFFFF, 0x00000000, 0x00000000, 0x0000000A, 0x0000C3F1,
          0xC0027600, 0x0000020C, 0x00001000, 0x0000007F, 0xC0027600, 0x00000212, 0x600F0041, 0x00010084, 0xC0017600,
          0x00000228, 0x00000000, 0xC0017600, 0x00000218, 0x00000000, 0xC0027600, 0x00000210, 0x00000000, 0x00000000,
          0xC0037600, 0x0000021B, 0x00000000, 0x00000000, 0x00000000, 0xC0027600, 0x00000240, 0x00200000, 0x00007F00,
          0xC0017600, 0x00000215, 0x00000000, 0xC0087600, 0x00000204, 0x00000000, 0x00000000, 0x00000000, 0x00000100,
          0x00000001, 0x00000001, 0x00000000, 0x00000000, 0xC0031500, 0x00000004, 0x00000001, 0x00000001, 0x00008005,
          0xC0004600, 0x00000407, 0xC0064900, 0x0070F514, 0x20000000, 0x00300000, 0x00007F00, 0x00000001, 0x00000000,
          0x00000000);
    ck_assert_uint_eq(b.n, 63);
    ck_assert_uint_eq(mem[at.user], 0x00200000);
    ck_assert_uint_eq(mem[at.dispatch + PM4_AT_DISPATCH_GROUPS], 4);

    /* gfx11 differs by its descriptor only */
    struct pm4_launch l = launch_1k;
    l.rsrc1 = 0x60af0081;
    l.rsrc2 = 0x9e;
    begin(PM4_GFX11);
    pm4_launch(&b, NULL, &l, NULL);
    ck_assert_int_eq(b.rc, 0);
    ck_assert_uint_eq(mem[6], 0x60af0081);
    ck_assert_uint_eq(mem[7], 0x1009e);
}
END_TEST

START_TEST(single_packets)
{
    const uint32_t v[3] = { 0x11, 0x22, 0x33 };
    GIVES(pm4_nop(&b, 1), 0xffff1000);
    GIVES(pm4_nop(&b, 2), 0xc0001000, 0);
    GIVES(pm4_nop(&b, 4), 0xc0021000, 0, 0, 0);
    GIVES(pm4_mark(&b, v, 2), 0xc0011000, 0x11, 0x22);
    GIVES(pm4_set_uconfig_reg(&b, 0xc002, 1, v), 0xc0017900, 0x2, 0x11);
    GIVES(pm4_write_data(&b, 0x7f0012345678, v, 3, PM4_WRITE_CONFIRM), 0xc0053700, 0x00100500, 0x12345678, 0x7f00,
          0x11, 0x22, 0x33);
    GIVES(pm4_write_data(&b, 0x1000, v, 1, PM4_WRITE_SAME | PM4_WRITE_L2), 0xc0033700, 0x00010200, 0x1000, 0, 0x11);
    GIVES(pm4_write_reg(&b, 0x2e15, v, 1, 0), 0xc0033700, 0, 0x2e15, 0, 0x11);
    GIVES(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_GPU_CLOCK, .to = PM4_COPY_MEM, .dst = 0x1008,
                                                .wide = true, .confirm = true }),
          0xc0044000, 0x00110209, 0, 0, 0x1008, 0);
    GIVES(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_REG, .src = 0x2e0c, .to = PM4_COPY_MEM,
                                                .dst = 0x1004 }),
          0xc0044000, 0x00000200, 0x2e0c, 0, 0x1004, 0);
    GIVES(pm4_atomic_mem(&b, PM4_ATOMIC_ADD | PM4_ATOMIC_64 | PM4_ATOMIC_NO_RETURN, 0x2000, 0x100000001, 0, false, 0),
          0xc0071e00, 111, 0x2000, 0, 1, 1, 0, 0, 0);
    GIVES(pm4_atomic_mem(&b, PM4_ATOMIC_CMPSWAP, 0x2004, 5, 6, true, 8191), 0xc0071e00, 0x108, 0x2004, 0, 5, 0, 6, 0,
          0x1fff);
    GIVES(pm4_dispatch_indirect(&b, 0x7f0000000010, 0x8005), 0xc0021600, 0x10, 0x7f00, 0x8005);
    GIVES(pm4_acquire_mem(&b, PM4_ACQUIRE_LAUNCH), 0xc0065800, 0, 0xffffffff, 0x01ffffff, 0, 0, 10, 0x3f0);
    GIVES(pm4_wait_mem(&b, PM4_GE, 0x7f0000000004, 7, ~0u), 0xc0053c00, 0x15, 4, 0x7f00, 7, 0xffffffff, 4);
    GIVES(pm4_wait_reg(&b, PM4_EQ, 0xe27, 1, 3), 0xc0053c00, 0x3, 0xe27, 0, 1, 3, 4);
    GIVES(pm4_hdp_flush(&b), 0xc0053c00, 0x45, 0xe26, 0xe27, 0xffffffff, 0xffffffff, 4);
    GIVES(pm4_indirect_buffer(&b, 0x7f0000001000, 0x123, 0), 0xc0023f00, 0x1000, 0x7f00, 0x00800123);
    GIVES(pm4_indirect_buffer(&b, 0x1000, 0xfffff, PM4_IB_CHAIN), 0xc0023f00, 0x1000, 0, 0x009fffff);
    GIVES(pm4_indirect_buffer(&b, 0x1000, 5, PM4_IB_INHERIT_VMID), 0xc0023f00, 0x1000, 0, 0x40800005);
    GIVES(pm4_protected_fence_signal(&b), 0xc000d000, 0);
    GIVES(pm4_hdp_flush_packet(&b), 0xc0009500, 0);
    GIVES(pm4_cond_exec(&b, 0x7f0000001000, 12), 0xc0032200, 0x1000, 0x7f00, 0, 12);
    GIVES(pm4_pred_exec(&b, 1, 12), 0xc0002300, 0x0100000c);
    GIVES(pm4_timestamp(&b, 0x7f0000001000), 0xc0064900, 0x514, 0x60000000, 0x1000, 0x7f00, 0, 0, 0);
    GIVES(pm4_signal_event(&b, 0x7f0000000038, 7), 0xc0064900, 0x514, 0x22000000, 0x38, 0x7f00, 7, 0, 7);
    GIVES(pm4_barrier(&b), 0xc0004600, 0x407, 0xc0065800, 0, 0xffffffff, 0x01ffffff, 0, 0, 10, 0x3f0);
    GIVES(pm4_barrier_by_fence(&b, 0x7f0000001000, 3), 0xc0033700, 0x100500, 0x1000, 0x7f00, 0, /* 0 to the word */
          0xc0064900, 0x514, 0x20000000, 0x1000, 0x7f00, 3, 0, 0,                             /* 3, at the end of the pipe */
          0xc0053c00, 0x13, 0x1000, 0x7f00, 3, 0xffffffff, 4,
          0xc0065800, 0, 0xffffffff, 0x01ffffff, 0, 0, 10, 0x3f0);
}
END_TEST

/* Long fillers are several packets whose lengths add up. */
START_TEST(fillers_of_every_length)
{
    const uint32_t lengths[] = { 0, 1, 2, 3, 0x3fff, 0x4000, 0x4001, 0x4002, 0x8001, 100000 };
    uint32_t *long_mem = malloc(100000 * 4);
    for (size_t i = 0; i < sizeof lengths / 4; i++) {
        struct pm4_packet p;
        pm4_init(&b, PM4_GFX12, long_mem, 100000);
        pm4_nop(&b, lengths[i]);
        ck_assert_int_eq(b.rc, 0);
        ck_assert_uint_eq(b.n, lengths[i]);
        struct pm4_cursor c = { .gen = PM4_GFX12, .dw = long_mem, .n = b.n };
        while (pm4_next(&c, &p))
            ck_assert(p.form == PM4_FORM_PACKET && p.op == PM4_OP_NOP && !p.truncated);
    }
    free(long_mem);
}
END_TEST

START_TEST(counting_without_memory)
{
    begin(PM4_GFX12);
    pm4_launch(&b, NULL, &launch_1k, NULL);
    struct pm4_buf counted;
    pm4_init(&counted, PM4_GFX12, NULL, CAP);
    pm4_launch(&counted, NULL, &launch_1k, NULL);
    ck_assert_uint_eq(counted.n, b.n);

    struct pm4_launch widest = launch_1k;
    widest.rsrc2 = 16 << 1;
    widest.n_user = 16;
    pm4_init(&counted, PM4_GFX12, NULL, PM4_DW_LAUNCH_MAX);
    pm4_launch(&counted, NULL, &widest, NULL);
    ck_assert_int_eq(counted.rc, 0);
    ck_assert_uint_eq(counted.n, PM4_DW_LAUNCH_MAX);
}
END_TEST

/* After a refused call nothing was written, the words say which packet, and the next call does nothing either. */
static void check_refused(const char *call, int rc)
{
    ck_assert_msg(b.rc == rc, "%s: rc %d, expected %d", call, b.rc, rc);
    ck_assert_msg(b.why && strlen(b.why) > 8, "%s: no words", call);
    ck_assert_msg(b.n == 0 && mem[0] == 0x5a5a5a5a, "%s: wrote", call);
    const char *why = b.why;
    pm4_cs_partial_flush(&b);
    pm4_nop(&b, 3);
    pm4_write_data(&b, 1, mem, 0, 0);
    ck_assert_msg(b.n == 0 && mem[0] == 0x5a5a5a5a && b.why == why && b.rc == rc, "%s: did not stick", call);
}
#define REFUSED_ON(gen, call)                                                                                          \
    do {                                                                                                               \
        begin(gen);                                                                                                    \
        call;                                                                                                          \
        check_refused(#call, -EINVAL);                                                                                 \
    } while (0)
#define REFUSED(call) REFUSED_ON(PM4_GFX12, call)

START_TEST(refusals)
{
    static const uint32_t many[0x4000];
    const uint64_t high = 1ull << 48;
    REFUSED(pm4_mark(&b, many, 0));
    REFUSED(pm4_mark(&b, many, 16383));
    REFUSED(pm4_set_sh_reg(&b, 0x2bff, 1, many));
    REFUSED(pm4_set_sh_reg(&b, 0x3000, 1, many));
    REFUSED(pm4_set_sh_reg(&b, 0x2fff, 2, many));
    REFUSED(pm4_set_sh_reg(&b, 0x2e00, 0, many));
    REFUSED(pm4_set_uconfig_reg(&b, 0xbfff, 1, many));
    REFUSED(pm4_set_uconfig_reg(&b, 0xffff, 2, many));
    REFUSED(pm4_write_data(&b, 2, many, 1, 0));
    REFUSED(pm4_write_data(&b, high, many, 1, 0));
    REFUSED(pm4_write_data(&b, 4, many, 0, 0));
    REFUSED(pm4_write_data(&b, 4, many, 16381, 0));
    REFUSED(pm4_write_data(&b, 4, many, 1, 8));
    REFUSED(pm4_write_reg(&b, 0x40000, many, 1, 0));
    REFUSED(pm4_write_reg(&b, 0x2e00, many, 1, PM4_WRITE_L2));
    REFUSED(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_IMM, .to = PM4_COPY_IMM }));
    REFUSED(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_IMM, .src = 1ull << 32, .to = PM4_COPY_REG }));
    REFUSED(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_REG, .to = PM4_COPY_MEM, .dst = 4, .wide = 1 }));
    REFUSED(pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_GPU_CLOCK, .to = PM4_COPY_MEM }));
    REFUSED(pm4_copy_data(&b, &(struct pm4_copy){ .from = (enum pm4_place)3, .to = PM4_COPY_MEM }));
    REFUSED(pm4_atomic_mem(&b, 9, 0, 0, 0, false, 0));
    REFUSED(pm4_atomic_mem(&b, 128 + 15, 0, 0, 0, false, 0));
    REFUSED(pm4_atomic_mem(&b, PM4_ATOMIC_ADD, 0, 0, 0, true, 0));
    REFUSED(pm4_atomic_mem(&b, PM4_ATOMIC_CMPSWAP, 0, 0, 0, true, 8192));
    REFUSED(pm4_atomic_mem(&b, PM4_ATOMIC_ADD, 0, 1ull << 32, 0, false, 0));
    REFUSED(pm4_atomic_mem(&b, PM4_ATOMIC_ADD | PM4_ATOMIC_64, 4, 0, 0, false, 0));
    REFUSED(pm4_dispatch_direct(&b, 1, 1, 1, 1u << 20));
    REFUSED_ON(PM4_GFX11, pm4_dispatch_direct(&b, 1, 1, 1, 1u << 18));
    REFUSED(pm4_dispatch_indirect(&b, 6, 0x8005));
    REFUSED(pm4_acquire_mem(&b, 1u << 19));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .gcr = 1u << 13 }));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .policy = 4 }));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .data_sel = PM4_DATA_64, .va = 4 }));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .data_sel = PM4_DATA_32, .data = 1ull << 32 }));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .ctxid = 1u << 28 }));
    REFUSED(pm4_release_mem(&b, &(struct pm4_release){ .data_sel = (enum pm4_data_sel)5 }));
    REFUSED(pm4_event_write(&b, 64, 0));
    REFUSED(pm4_wait_mem(&b, PM4_EQ, 2, 0, 0));
    REFUSED(pm4_wait_mem(&b, (enum pm4_compare)7, 0, 0, 0));
    REFUSED(pm4_write_wait_reg(&b, PM4_EQ, 0, 0x40000, 0, 0));
    REFUSED(pm4_indirect_buffer(&b, 0, 0, 0));
    REFUSED(pm4_indirect_buffer(&b, 0, 1 << 20, 0));
    REFUSED(pm4_indirect_buffer(&b, 2, 1, 0));
    REFUSED(pm4_cond_exec(&b, 0, 0x4000));
    REFUSED(pm4_pred_exec(&b, 256, 0));
}
END_TEST

#define REFUSED_LAUNCH(gen, ...)                                                                                       \
    do {                                                                                                               \
        struct pm4_launch l = launch_1k;                                                                               \
        __VA_ARGS__;                                                                                                   \
        REFUSED_ON(gen, pm4_launch(&b, NULL, &l, NULL));                                                               \
    } while (0)

START_TEST(refused_launches)
{
    REFUSED_LAUNCH(PM4_GFX12, l.entry += 128);
    REFUSED_LAUNCH(PM4_GFX12, l.entry = 1ull << 48);
    REFUSED_LAUNCH(PM4_GFX12, l.rsrc1 |= 1u << 28);
    REFUSED_LAUNCH(PM4_GFX12, l.rsrc3 = 1u << 12);
    REFUSED_LAUNCH(PM4_GFX11, l.rsrc3 = 1u << 13);
    REFUSED_LAUNCH(PM4_GFX12, l.lds_bytes = 65537);
    REFUSED_LAUNCH(PM4_GFX12, l.n_user = 3);
    REFUSED_LAUNCH(PM4_GFX12, l.n_user = 17, l.rsrc2 = 31 << 1);
    REFUSED_LAUNCH(PM4_GFX12, l.groups[1] = 0);
    REFUSED_LAUNCH(PM4_GFX12, l.threads[2] = 0);
    REFUSED_LAUNCH(PM4_GFX12, l.threads[1] = 5);
    REFUSED_LAUNCH(PM4_GFX12, l.threads[0] = l.threads[1] = l.threads[2] = 0x80000000);
    REFUSED_LAUNCH(PM4_GFX12, l.rsrc2 |= 1);
    REFUSED_LAUNCH(PM4_GFX12, l.rsrc2 |= 1, l.scratch = 256);
    REFUSED_LAUNCH(PM4_GFX12, l.scratch = 128);
    REFUSED_LAUNCH(PM4_GFX11, l.tmpring = 1u << 27);
    REFUSED_LAUNCH(PM4_GFX12, l.groups_va = 2);
    REFUSED_LAUNCH(PM4_GFX12, l.patched = 2);
}
END_TEST

/* Every capacity below what is needed: an error, and the buffer ends with the last whole packet. */
START_TEST(full_buffers)
{
    pm4_init(&b, PM4_GFX12, NULL, CAP);
    pm4_launch(&b, NULL, &launch_1k, NULL);
    uint32_t need = b.n;
    for (uint32_t cap = 0; cap <= need; cap++) {
        begin(PM4_GFX12);
        b.cap = cap;
        pm4_launch(&b, NULL, &launch_1k, NULL);
        ck_assert_int_eq(b.rc, cap < need ? -ENOSPC : 0);
        ck_assert_uint_eq(b.n, cap < need ? 0 : need);
        ck_assert_uint_eq(mem[cap], 0x5a5a5a5a);
    }
    begin(PM4_GFX12);
    b.cap = 9;
    pm4_barrier(&b);
    ck_assert_int_eq(b.rc, -ENOSPC);
    ck_assert_uint_eq(b.n, 0);
    begin(PM4_GFX12);
    b.cap = 3;
    pm4_nop(&b, 4);
    check_refused("pm4_nop", -ENOSPC);
}
END_TEST

START_TEST(scratch_and_lds)
{
    /* 128 bytes a lane, sized for 64 lanes: 32 units of 256 bytes, 512 waves */
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 0x200, 128 * 64), 0x00020200);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 1, 1), 0x00001001);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX11, 1, 0x7fffull * 256), 0x7fff001);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX11, 1, 0x7fffull * 256 + 1), 0);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 1, 0x3ffffull * 256), 0x3ffff001);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 1, 0x3ffffull * 256 + 1), 0);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 0x1000, 256), 0);
    ck_assert_uint_eq(pm4_tmpring(PM4_GFX12, 0, 256), 0);
    const uint32_t lds[][2] = { { 0, 0 }, { 1, 1 }, { 512, 1 }, { 513, 2 }, { 65536, 128 } };
    for (size_t i = 0; i < sizeof lds / sizeof lds[0]; i++) {
        struct pm4_launch l = launch_1k;
        l.lds_bytes = lds[i][0];
        l.rsrc2 |= 0x1ffu << 15; /* whatever the descriptor says there is replaced */
        begin(PM4_GFX12);
        pm4_launch(&b, NULL, &l, NULL);
        ck_assert_int_eq(b.rc, 0);
        ck_assert_uint_eq(mem[7], 0x84 | lds[i][1] << 15);
    }
}
END_TEST

/* Scratch base and an indirect count go where they belong. */
START_TEST(scratch_and_indirect_launch)
{
    struct pm4_launch l = launch_1k;
    struct pm4_launch_at at;
    l.rsrc2 |= 1;
    l.scratch = 0x7f1234567800;
    l.tmpring = 0x20200;
    l.groups_va = 0x7f0000000044;
    l.wave32 = false;
    begin(PM4_GFX12);
    pm4_launch(&b, NULL, &l, &at);
    ck_assert_int_eq(b.rc, 0);
    ck_assert_uint_eq(mem[13], 0x20200);
    ck_assert_uint_eq(mem[16], 0x12345678);
    ck_assert_uint_eq(mem[17], 0x7f);
    ck_assert_uint_eq(mem[at.dispatch], 0xc0021600);
    ck_assert_uint_eq(mem[at.dispatch + PM4_AT_DISPATCH_INDIRECT_VA], 0x44);
    ck_assert_uint_eq(mem[at.dispatch + 2], 0x7f00);
    ck_assert_uint_eq(mem[at.dispatch + 3], 0x5);
}
END_TEST

/* What a shared ring is told before a launch, as Mesa's preambles have it: R9700 with 4 shader engines, 7900 XTX with 6. */
START_TEST(preambles)
{
    const uint32_t all = 0xffffffff;
    begin(PM4_GFX12);
    pm4_compute_preamble(&b, 4);
    WORDS("preamble of gfx12", 0xc0017600, 0x20b, 0, 0xc0027600, 0x20e, 0, 0, 0xc0017600, 0x223, 0, 0xc0027600, 0x216, all,
          all, 0xc0027600, 0x219, all, all, 0xc0047600, 0x22b, 0, 0, 0, 0, 0xc0047600, 0x224, 0, 0, 0, 0, 0xc0017600,
          0x27d, 0);
    begin(PM4_GFX11);
    pm4_compute_preamble(&b, 6);
    WORDS("preamble of gfx11", 0xc0017600, 0x22f, 256, 0xc0027600, 0x216, all, all, 0xc0027600, 0x219, all, all, 0xc0047600,
          0x22b, all, all, 0, 0, 0xc0047600, 0x224, 0, 0, 0, 0, 0xc0017600, 0x27d, 0);
}
END_TEST

int main(void)
{
    return RUN_TESTS("pm4_encode", worked_stream, single_packets, fillers_of_every_length, counting_without_memory,
                     preambles, refusals, refused_launches, full_buffers, scratch_and_lds, scratch_and_indirect_launch);
}
