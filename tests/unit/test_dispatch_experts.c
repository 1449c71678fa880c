/* Experts of the class "rows" that get few rows each have kernels of their own: which class of stream does is a matter of its row
 * capacity, whatever a step has. */
#define FAKE_N_EXPERT 40
#include <string.h>

#include "kernels/experts_shared.h"
#include "kernels/wrun_shared.h"
#include "rt/dispatch_impl.h"
#include "tests/stream/compile.h"

static const struct dispatch_target hopper = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true,
                                               .ahead = true };

/* Launches of the command whose kernels are named so. */
static uint32_t launches(const struct dispatch_plan *p, uint32_t cmd, const char *head)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        n += p->d[i].cmd == cmd && !strncmp(kernel_infos[p->d[i].kernel].name, head, strlen(head));
    return n;
}

/* Of a stream of so many rows; returns the commands that had one. */
static uint32_t check(uint32_t model, uint32_t cap, const struct dispatch_target *t, bool never)
{
    uint32_t found = 0;
    struct stream *s = fake_compile(model, ((struct graph_opts){ .n_ctx = 300, .n_slots = cap, .row_cap = cap, .out_cap = cap, .kv_type = KA_KV_F16 }));
    for (uint32_t rows = cap; rows; rows /= 4) {
        struct dispatch_plan *p = NULL;
        struct err e = { 0 };
        ck_assert_msg(dispatch_build(s, t, rows, 0, &p, &e) == 0, "%s", e.msg);
        for (uint32_t c = 0; c < s->h.n_cmds; c++) {
            uint32_t op = s->cmds[c].op, k = 0, n_expert = 0, type = 0, n = launches(p, c, "k_experts_");
            if (op == CMD_MOE_UP) {
                const ka_moe_up *a = stream_args(s, c);
                k = a->k, n_expert = a->n_expert, type = a->type_gate == a->type_up ? a->type_up : QT_F32;
            } else if (op == CMD_MOE_DOWN) {
                const ka_moe_down *a = stream_args(s, c);
                k = a->k, n_expert = a->n_expert, type = a->type;
            }
            bool fits = k && !never && !mv_is_float(type) && cap > KL_DECODE_ROWS && cap <= KL_ROWS_MAX && cap * k <= (wr_is_coded(type) ? 4 : 2) * n_expert;
            ck_assert_msg(n == fits, "%s, %u of %u rows, command %u: %u launches by experts, not %u", fake_models[model].name, rows, cap, c, n, fits);
            for (uint32_t i = 0; i < p->n && n; i++)
                ck_assert(p->d[i].cmd != c || p->d[i].after);
            found += n;
        }
        dispatch_free(p);
    }
    stream_free(s);
    return found;
}

START_TEST(the_capacity_chooses)
{
    uint32_t found = 0;
    struct dispatch_target older = hopper;
    older.wgmma = false;
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        static const uint32_t caps[] = { 8, 9, 16, 32, 64, 65 };
        for (uint32_t k = 0; k < sizeof caps / sizeof *caps; k++) {
            found += check(i, caps[k], &hopper, false);
            check(i, caps[k], &older, true);
        }
    }
    ck_assert_uint_gt(found, 0);
}
END_TEST

/* What the lists and the columns need stays where the header says: nothing overlaps, and vectors are aligned. */
START_TEST(shared_memory_has_room)
{
    static const uint32_t types[] = {
#define QTYPE_FLOAT(...)
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
    };
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t type = types[i];
        for (uint32_t n_pad = 256; n_pad <= 8192; n_pad += 256) {
            struct ex_x x = ex_x(type, n_pad);
            uint32_t runs = n_pad / (wr_is_short(type) ? 16 : 32);
            ck_assert_uint_ge(x.q, EX_HEAD_BYTES);
            ck_assert_uint_ge(x.ld, n_pad);
            ck_assert_uint_eq(x.ld % 16 + x.q % 16 + x.beside % 16 + x.factors % 16 + x.end % 16, 0);
            ck_assert_uint_ge(x.beside, x.q + EX_COLS * x.ld);
            ck_assert_uint_ge(x.factors, x.beside + runs * EX_COLS * 8);
            ck_assert_uint_ge(x.end, x.factors + EX_WARPS * ex_factor_bytes(type));
        }
    }
    for (uint32_t pairs = 1; pairs <= EX_MAX_PAIRS; pairs = pairs * 3 + 1)
        for (uint32_t experts = 1; experts <= EX_MAX_EXPERTS; experts *= 2) {
            struct ex_lists l = ex_lists(experts, pairs);
            uint32_t crowd = pairs > experts - 1 ? pairs - (experts - 1) : 0; /* one pair each, and the rest to the last one */
            uint32_t most = crowd ? experts - 1 + (crowd + EX_COLS - 1) / EX_COLS : pairs;
            ck_assert_uint_ge(l.first, 4 * pairs);
            ck_assert_uint_ge(l.pair, l.first + 4 * experts);
            ck_assert_uint_ge(l.entry, l.pair + 4 * pairs);
            ck_assert_uint_ge(l.sums, l.entry + 4 * most);
            ck_assert_uint_ge(l.end, l.sums + 4 * (EX_WARPS + 1));
        }
}
END_TEST

int main(void)
{
    return RUN_TESTS("dispatch_experts", the_capacity_chooses, shared_memory_has_room);
}
