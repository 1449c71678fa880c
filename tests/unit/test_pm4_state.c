/* Launches that send only what changed: at every dispatch the registers hold what they would have held with
 * everything sent, and the stream is much shorter. */
#include <string.h>

#include "rt/pm4/decode.h"
#include "tests/lib/run.h"

enum { N_LAUNCHES = 300, CAP = N_LAUNCHES * PM4_DW_LAUNCH_MAX };
static uint32_t full[CAP], brief[CAP], seed = 1;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static struct pm4_launch draw_launch(void)
{
    static const uint32_t threads[] = { 32, 64, 256 };
    struct pm4_launch l = {
        .entry = 0x7f0000000000 + 0x100ull * draw(4), .rsrc1 = 0x600f0000 + draw(3), .rsrc2 = 0x84 | draw(2) << 8,
        .rsrc3 = draw(2) << 4, .lds_bytes = 512 * draw(3), .n_user = 1 + draw(2),
        .groups = { 1 + draw(100), 1 + draw(2), 1 }, .threads = { threads[draw(3)], 1, 1 + draw(2) },
        .wave32 = draw(2), .patched = draw(2) ? PM4_PATCHED_USER : 0
    };
    for (uint32_t i = 0; i < l.n_user; i++)
        l.user[i] = draw(3) << 8;
    if (draw(4) == 0) {
        l.rsrc2 |= 1;
        l.scratch = 0x7f0100000000 + 0x100ull * draw(2);
        l.tmpring = 0x20200;
    }
    return l;
}

/* The queue's registers up to the next dispatch; the dispatch itself, or false at the end. */
static bool run_to_dispatch(struct pm4_cursor *c, uint32_t regs[0x400], struct pm4_packet *p)
{
    while (pm4_next(c, p)) {
        ck_assert(p->form == PM4_FORM_PACKET && !p->truncated);
        if (p->op == PM4_OP_DISPATCH_DIRECT)
            return true;
        ck_assert_uint_eq(p->op, PM4_OP_SET_SH_REG);
        memcpy(regs + p->dw[1], p->dw + 2, (p->n - 2) * 4ull);
    }
    return false;
}

START_TEST(same_registers_at_every_dispatch)
{
    struct pm4_buf f, s;
    struct pm4_state state;
    uint32_t user_full[N_LAUNCHES], user_brief[N_LAUNCHES], n_user[N_LAUNCHES], n_patched = 0;
    pm4_init(&f, PM4_GFX12, full, CAP);
    pm4_init(&s, PM4_GFX12, brief, CAP);
    pm4_state_forget(&state);
    for (int i = 0; i < N_LAUNCHES; i++) {
        struct pm4_launch l = draw_launch();
        struct pm4_launch_at at_full, at;
        pm4_launch(&f, NULL, &l, &at_full);
        pm4_launch(&s, &state, &l, &at);
        ck_assert_int_eq(f.rc, 0);
        ck_assert_int_eq(s.rc, 0);
        ck_assert_uint_eq(brief[at.dispatch], full[at_full.dispatch]);
        ck_assert_uint_ne(at_full.user, PM4_NOT_SENT);
        user_full[i] = at_full.user;
        user_brief[i] = at.user;
        n_user[i] = l.patched ? l.n_user : 0;
        if (l.patched)
            ck_assert_uint_ne(at.user, PM4_NOT_SENT);
    }
    /* What was announced as patched may become anything, in one stream as in the other. */
    for (int i = 0; i < N_LAUNCHES; i++)
        for (uint32_t k = 0; k < n_user[i]; k++) {
            n_patched++;
            full[user_full[i] + k] = brief[user_brief[i] + k] = draw(1 << 20);
        }
    ck_assert_uint_gt(n_patched, 100);

    struct pm4_cursor cf = { .gen = PM4_GFX12, .dw = full, .n = f.n };
    struct pm4_cursor cs = { .gen = PM4_GFX12, .dw = brief, .n = s.n };
    uint32_t regs_full[0x400] = { 0 }, regs[0x400] = { 0 };
    struct pm4_packet pf, ps;
    for (int i = 0; i < N_LAUNCHES; i++) {
        ck_assert(run_to_dispatch(&cf, regs_full, &pf) && run_to_dispatch(&cs, regs, &ps));
        ck_assert_uint_eq(pf.n, ps.n);
        ck_assert(memcmp(pf.dw, ps.dw, ps.n * 4ull) == 0);
        for (int r = 0; r < 0x400; r++)
            ck_assert_msg(regs_full[r] == regs[r], "launch %d: register 0x%x is 0x%x, expected 0x%x", i, 0x2c00 + r,
                          regs[r], regs_full[r]);
    }
    ck_assert(!run_to_dispatch(&cf, regs_full, &pf) && !run_to_dispatch(&cs, regs, &ps));
    ck_assert_msg(s.n * 2 < f.n, "%u dwords of %u", s.n, f.n);
}
END_TEST

/* A typical next launch: another kernel, other arguments. */
START_TEST(dwords_of_a_second_launch)
{
    struct pm4_launch l = { .entry = 0x7f0000001000, .rsrc1 = 0x600f0041, .rsrc2 = 0x84, .n_user = 2,
                            .user = { 0x1000, 0x7f00 }, .groups = { 4, 1, 1 }, .threads = { 256, 1, 1 },
                            .wave32 = true };
    struct pm4_state state;
    struct pm4_buf s;
    struct pm4_launch_at at;
    pm4_init(&s, PM4_GFX12, brief, CAP);
    pm4_state_forget(&state);
    pm4_launch(&s, &state, &l, NULL);
    uint32_t n = s.n;
    pm4_launch(&s, &state, &l, &at); /* the same once more: only the dispatch */
    ck_assert_uint_eq(s.n - n, PM4_DW_DISPATCH_DIRECT);
    ck_assert_uint_eq(at.user, PM4_NOT_SENT);
    n = s.n;
    l.user[0] = 0x2000;
    pm4_launch(&s, &state, &l, &at); /* other arguments: the low half alone */
    ck_assert_uint_eq(s.n - n, PM4_DW_SET_REG + 1 + PM4_DW_DISPATCH_DIRECT);
    ck_assert_uint_eq(at.user, PM4_NOT_SENT);
    n = s.n;
    l.threads[0] = 64;
    l.threads[2] = 2; /* the one between them is sent too: shorter than two packets */
    pm4_launch(&s, &state, &l, NULL);
    ck_assert_uint_eq(s.n - n, PM4_DW_SET_REG + 3 + PM4_DW_DISPATCH_DIRECT);
    l.rsrc2 = 0x8a; /* five user words */
    l.n_user = 5;
    pm4_launch(&s, &state, &l, NULL);
    n = s.n;
    l.user[0] = l.user[4] = 0x3000; /* three known ones between: two packets are shorter */
    pm4_launch(&s, &state, &l, &at);
    ck_assert_uint_eq(s.n - n, 2 * (PM4_DW_SET_REG + 1) + PM4_DW_DISPATCH_DIRECT);
    ck_assert_uint_eq(at.user, PM4_NOT_SENT);
}
END_TEST

/* After a launch that failed, and after being told so, nothing counts as known. */
START_TEST(forgetting)
{
    struct pm4_launch l = { .entry = 0x1000, .rsrc2 = 0x84, .n_user = 2, .groups = { 1, 1, 1 },
                            .threads = { 32, 1, 1 } };
    struct pm4_state state;
    struct pm4_buf s;
    pm4_state_forget(&state);
    pm4_init(&s, PM4_GFX12, brief, CAP);
    pm4_launch(&s, &state, &l, NULL);
    uint32_t all = s.n;
    struct pm4_launch bad = l;
    bad.rsrc1 = 0x77;
    bad.groups[0] = 0;
    pm4_launch(&s, &state, &bad, NULL);
    ck_assert_int_eq(s.rc, -EINVAL);
    ck_assert_uint_eq(s.n, all);
    pm4_init(&s, PM4_GFX12, brief, CAP);
    pm4_launch(&s, &state, &l, NULL);
    ck_assert_uint_eq(s.n, all);
    pm4_state_forget(&state);
    pm4_launch(&s, &state, &l, NULL);
    ck_assert_uint_eq(s.n, 2 * all);
}
END_TEST

int main(void)
{
    return RUN_TESTS("pm4_state", same_registers_at_every_dispatch, dwords_of_a_second_launch, forgetting);
}
