/* The quick forms against the exact ones: same registers afterwards, for every host instruction set this host has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/valu.h"

enum { ROWS = 12 };

static uint32_t seed = 1;
static uint32_t rnd(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 9 ^ seed << 15 ^ seed;
}

/* Words that mean something to every type: zeros, subnormals, infinities, NaNs of both kinds, halves, extremes. */
static uint32_t word(void)
{
    static const uint32_t corner[] = {
        0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff,
        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0xffa00000, 0x4f000000, 0xcf000000,
        0x4effffff, 0x4f7fffff, 0x4f800000, 0x3effffff, 0x3f000000, 0x3fc00000, 0x40200000, 0x7fffffff, 0xffffffff,
        0x3c003c00, 0x7c00fc00, 0x7e007d01, 0x00010002, 0x7bff8001, 0x33800000, 0x33000000, 0x477fefff, 0x477ff000,
        31,         32,         33,         0x00ffffff, 0x01000000, 0x00800001, 0xff800001,
    };
    uint32_t r = rnd();
    switch (r & 7) {
    case 0: case 1: case 2:
        return corner[rnd() % (sizeof corner / sizeof *corner)];
    case 3:
        return rnd() % 70;
    case 4: /* floats of like size, for cancellation */
        return 0x3f000000 + (rnd() & 0x80ffffff);
    case 5:
        return 0x38000000 + (rnd() & 0x8fffffff) % 0x10000000;
    }
    return rnd();
}

static const struct valu_fast *sets[4];
static const char *set_names[4];
static int n_sets;

static void find_sets(void)
{
    set_names[n_sets] = "plain";
    sets[n_sets++] = &valu_fast_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        set_names[n_sets] = "avx2";
        sets[n_sets++] = &valu_fast_avx2;
    }
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        set_names[n_sets] = "avx512";
        sets[n_sets++] = &valu_fast_avx512;
    }
#endif
}

struct state {
    uint32_t v[ROWS + WAVE_SLACK][WAVE_LANES] __attribute__((aligned(64)));
    struct wave w;
};

static void randomize(struct state *s, const char *chip, bool mild)
{
    memset(s, 0, sizeof *s);
    s->w.v = s->v;
    s->w.n_vgpr = ROWS;
    s->w.chip = chip_find(chip);
    for (int r = 0; r < ROWS; r++)
        for (int l = 0; l < WAVE_LANES; l++)
            s->v[r][l] = mild ? 0x3f000000 + (rnd() & 0x80ffffff) : word();
    for (int i = 0; i < 107; i++)
        s->w.s[i] = word();
    s->w.s[OPND_NULL] = 0;
    s->w.s[OPND_EXEC] = rnd() & 1 ? ~0u : rnd();
    s->w.mode = rnd() % 8 ? (s->w.chip->gfx12 ? 0xf0 : 0x3f0) : rnd() & 0x8003ff;
}

static uint16_t operand(void)
{
    static const uint16_t scalars[] = {0, 4, 10, 106, 128, 129, 160, 193, 200, 240, 241, 242, 247, 248, OPND_LITERAL};
    return rnd() % 4 ? (uint16_t)(OPND_VGPR + rnd() % (ROWS - 1))
                     : scalars[rnd() % (sizeof scalars / sizeof *scalars)];
}

static bool is_float(uint8_t t) { return t == T_F32 || t == T_F16 || t == T_F64 || t == T_MIX; }

/* Every kind of DPP control; mostly as compilers use it, with nothing masked. */
static void random_dpp(struct inst *in)
{
    static const uint16_t kinds[] = { 0x100, 0x110, 0x120, 0x150, 0x160 };
    uint32_t n = rnd(), kind = n % 8;
    if (in->src[0] < OPND_VGPR)
        return;
    in->dpp = kind == 7 ? DPP_8 : DPP_16;
    in->dpp_ctrl = kind < 5 ? kinds[kind] + 1 + (n >> 8) % 15 : kind == 5 ? n >> 8 & 255 : 0x140 + (n >> 8 & 1);
    if (in->dpp == DPP_8)
        in->dpp_ctrl = rnd() & 0xffffff;
    in->dpp_fi = n >> 16 & 1;
    in->dpp_bound = n >> 17 & 3;
    in->dpp_row = n >> 20 & 3 ? 15 : n >> 24 & 15;
    in->dpp_bank = n >> 22 & 3 ? 15 : rnd() & 15;
}

static struct inst random_inst(uint32_t id)
{
    const struct valu_op *op = &valu_ops[id];
    struct inst in = { .name = op->name, .format = F_VOP3, .e64 = true, .literal = word() };
    bool mix = op->src[0] == T_MIX;
    if (mix || strstr(op->name, "dot4"))
        in.format = F_VOP3P;
    for (int i = 0; i < 3; i++) {
        in.src[i] = operand();
        if (op->src[i] == T_CIN)
            in.src[i] = rnd() & 1 ? OPND_VCC : 8;
        if (is_float(op->src[i]) && rnd() % 4 == 0) {
            in.neg |= (uint8_t)((rnd() & 1) << i);
            in.abs |= (uint8_t)((rnd() & 1) << i);
        }
    }
    if (in.format == F_VOP3P && !mix)
        in.neg = rnd() & 3;
    if (mix) {
        in.opsel = rnd() & 7;
        in.opsel_hi = rnd() & 7;
    } else if (op->src[0] == T_F16 || op->dst == T_F16) {
        in.opsel = rnd() & 9;
    }
    if (rnd() % 16 == 0)
        in.clamp = true;
    if (rnd() % 4 == 0)
        random_dpp(&in);
    in.vdst = (uint8_t)(rnd() % (ROWS - 1));
    static const uint8_t masks[] = { 106, 12, 124, 126 };
    in.sdst = masks[rnd() % (op->dst == T_CMP ? 4 : 3)];
    return in;
}

/* The wave's last row is the quick forms' own. */
static void same(const struct state *a, const struct state *b, const struct inst *in, const char *set)
{
    if (memcmp(a->v, b->v, sizeof a->v - sizeof a->v[0]) == 0 && memcmp(a->w.s, b->w.s, sizeof a->w.s) == 0)
        return;
    for (int r = 0; r < ROWS + WAVE_SLACK - 1; r++)
        for (int l = 0; l < WAVE_LANES; l++)
            if (a->v[r][l] != b->v[r][l])
                ck_abort_msg(
                    "%s by %s: v%d lane %d is %08x, exactly %08x (sources %u %u %u, neg %d abs %d opsel %d hi %d, "
                    "mode %x)",
                    in->name, set, r, l, a->v[r][l], b->v[r][l], in->src[0], in->src[1], in->src[2], in->neg, in->abs,
                    in->opsel, in->opsel_hi, a->w.mode);
    for (int i = 0; i < 128; i++)
        if (a->w.s[i] != b->w.s[i])
            ck_abort_msg("%s by %s: scalar %d is %08x, exactly %08x (sources %u %u %u)", in->name, set, i, a->w.s[i],
                         b->w.s[i], in->src[0], in->src[1], in->src[2]);
}

START_TEST(every_quick_form)
{
    static struct state start, quick, exact;
    int n = 0;
    for (int k = 0; k < n_sets; k++)
        for (uint32_t id = 1; id < V_COUNT; id++) {
            if (!sets[k]->op[id])
                continue;
            n++;
            for (int round = 0; round < 60; round++) {
                randomize(&start, rnd() & 1 ? "gfx1100" : "gfx1201", round & 1);
                struct inst in = random_inst(id);
                memcpy(&quick, &start, sizeof start);
                memcpy(&exact, &start, sizeof start);
                quick.w.v = quick.v;
                exact.w.v = exact.v;
                sets[k]->op[id](&quick.w, &in);
                valu_ops[id].run(&exact.w, &in);
                same(&quick, &exact, &in, set_names[k]);
            }
        }
    ck_assert_msg(n >= 100 * n_sets, "%d quick forms", n);
}
END_TEST

/* Both halves of VOPD: each as its own instruction would, from the registers as they were. */
START_TEST(every_dual_pair)
{
    static struct state start, quick, one, other;
    for (int k = 0; k < n_sets; k++)
        for (uint32_t pair = 0; pair < 14 * 19; pair++) {
            for (int round = 0; round < 8; round++) {
                randomize(&start, round & 1 ? "gfx1100" : "gfx1201", round & 2);
                const struct valu_dual *x = valu_dual_find(start.w.chip, pair % 14),
                                       *y = valu_dual_find(start.w.chip, pair / 14);
                if (!x || !y)
                    continue;
                struct inst in = {.name = x->name,
                                  .format = F_VOPD,
                                  .op = (uint16_t)(pair % 14),
                                  .op_y = (uint8_t)(pair / 14),
                                  .literal = word()};
                in.src[0] = operand();
                in.src[1] = (uint16_t)(OPND_VGPR + rnd() % ROWS);
                in.src_y[0] = operand();
                in.src_y[1] = (uint16_t)(OPND_VGPR + rnd() % ROWS);
                in.vdst = (uint8_t)(rnd() % ROWS);
                in.vdst_y = (uint8_t)((in.vdst + 1 + 2 * (rnd() % 4)) % ROWS);
                struct inst ix = { .format = F_VOP2, .literal = in.literal, .src = { in.src[0], in.src[1], OPND_VCC },
                                   .vdst = in.vdst, .e64 = true };
                struct inst iy = ix;
                iy.src[0] = in.src_y[0];
                iy.src[1] = in.src_y[1];
                iy.vdst = in.vdst_y;
                memcpy(&quick, &start, sizeof start);
                memcpy(&one, &start, sizeof start);
                memcpy(&other, &start, sizeof start);
                quick.w.v = quick.v;
                one.w.v = one.v;
                other.w.v = other.v;
                sets[k]->dual(&quick.w, &in);
                valu_ops[x->id].run(&one.w, &ix);
                valu_ops[y->id].run(&other.w, &iy);
                memcpy(one.v[in.vdst_y], other.v[in.vdst_y], sizeof one.v[0]);
                char name[128];
                snprintf(name, sizeof name, "%s, %s", x->name, y->name);
                in.name = name;
                same(&quick, &one, &in, set_names[k]);
            }
        }
}
END_TEST

int main(void)
{
    find_sets();
    return RUN_TESTS("valu_paths", every_quick_form, every_dual_pair);
}
