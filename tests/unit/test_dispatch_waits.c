/* Launches of the kernels in C carry what they wait for: streams of every family, for cards from small to large. */
#define FAKE_HEAD_DIM 64 /* which kernels that do ROPE_KV and ATTN take */
#include "kernels/matring_shared.h"
#include "rt/dispatch_impl.h"
#include "tests/stream/compile.h"
#include "tests/stream/waits.h"

static const struct {
    const char *name;
    struct dispatch_target t;
} cards[] = {
    { "gfx1201", { .n_cores = 64, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true } },
    { "gfx1100", { .n_cores = 96, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true, .prompt_split = 256 } },
    { "sm_80", { .n_cores = 108, .shared_max = 96 << 10, .shared_core = 160 << 10 } },
    { "sm_90a", { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true } },
    { "sm_90a, rows", { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true } },
    { "sm_90a, ahead", { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true, .ahead = true } },
    { "Apple M1", { .n_cores = 8, .shared_max = 32 << 10, .shared_core = 32 << 10 } },
    { "2 cores", { .n_cores = 2, .shared_max = 96 << 10, .shared_core = 96 << 10 } },
};
enum { N_CARDS = sizeof cards / sizeof cards[0] };

static uint32_t count_waits(const struct dispatch_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < p->n; i++)
        n += p->d[i].wait;
    return n;
}

static uint32_t n_rope_attn; /* launches of two commands */

/* Returns the launches that wait for nothing. */
static uint32_t check(const char *model, const struct stream *s, uint32_t max_rows)
{
    uint32_t free_launches = 0;
    for (uint32_t k = 0; k < N_CARDS; k++) {
        char what[100];
        struct dispatch_plan *p = NULL;
        struct err e = { 0 };
        snprintf(what, sizeof what, "%s, %u rows, %s", model, max_rows, cards[k].name);
        ck_assert_msg(dispatch_build(s, &cards[k].t, max_rows, 0, &p, &e) == 0, "%s: %s", what, e.msg);
        check_waits(what, s, p);
        check_late(what, s, p);
        check_early(what, s, p);
        for (uint32_t i = 0; i < p->n; i++)
            n_rope_attn += p->d[i].kernel == K_attn_rope_h64;
        ck_assert(!p->d[0].wait);
        free_launches += p->n - 1 - count_waits(p);
        dispatch_free(p);
    }
    return free_launches;
}

START_TEST(launches_of_decoding_wait_where_they_must)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        for (uint32_t rows = 1; rows <= 8; rows *= 2)
            check(fake_models[i].name, s, rows);
        stream_free(s);
    }
    ck_assert_uint_gt(n_rope_attn, N_FAKE_MODELS);
}
END_TEST

START_TEST(launches_of_prompts_wait_where_they_must)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_PREFILL);
        check(fake_models[i].name, s, 32);
        stream_free(s);
    }
}
END_TEST

/* There is something to win: the shared expert and the router read the same input, and write apart. */
START_TEST(some_launches_may_overlap)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    ck_assert_uint_gt(check("qwen35moe", s, 1), 0);
    stream_free(s);
}
END_TEST

/* The shared expert's products run beside the router and the experts where these do not do them too (its down product beside experts
 * of Q4_1), those of Gemma 4's dense block as well; what was complete before is read before the wait. */
START_TEST(products_beside_experts_are_late)
{
    static const struct { const char *name; uint32_t late, early; } models[] = {
        { "qwen35moe", 1, 1 }, { "gemma4_moe", 2, 1 }, { "qwen3moe", 0, 2 }, { "qwen3", 0, 1 } };
    const struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true, .ahead = true };
    for (uint32_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct stream *s = fake_compile(fake_index(models[i].name), FAKE_DECODE);
        struct dispatch_plan *p = NULL;
        struct err e = { 0 };
        ck_assert_int_eq(dispatch_build(s, &t, 1, 0, &p, &e), 0);
        uint32_t layers = 0, late = check_late(models[i].name, s, p);
        for (uint32_t c = 0; c < s->h.n_cmds; c++)
            layers += s->cmds[c].op == CMD_ATTN || s->cmds[c].op == CMD_GDN;
        ck_assert_msg(late == models[i].late * layers, "%s: %u launches of %u layers are late", models[i].name, late, layers);
        uint32_t early = check_early(models[i].name, s, p); /* experts' down products, and attention with ROPE_KV in it */
        ck_assert_msg(early >= models[i].early * layers, "%s: %u launches of %u layers are early", models[i].name, early, layers);
        dispatch_free(p);
        stream_free(s);
    }
}
END_TEST

/* Launches of a prompt of more rows than 64 begin after the one before, of a shorter one those of experts' lists, of decoding none but
 * for attention of large heads; and a layer's pairs are sorted once. */
START_TEST(long_launches_begin_after_the_one_before)
{
    const struct dispatch_target *t = &cards[5].t;
    uint32_t sorts = 0;
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, ((struct graph_opts){ .n_ctx = 300, .n_slots = 2, .row_cap = 128, .out_cap = 4, .kv_type = KA_KV_F16 }));
        struct dispatch_plan *p = NULL;
        struct err e = { 0 };
        for (uint32_t rows = 16; rows <= 128; rows *= 8) {
            ck_assert_msg(dispatch_build(s, t, rows, 0, &p, &e) == 0, "%s", e.msg);
            uint32_t after = 0, sorted = 0, ups = 0;
            for (uint32_t k = 0; k < p->n; k++) {
                const char *name = kernel_infos[p->d[k].kernel].name;
                bool of_list = !strcmp(name, "k_moe_sort") || !strcmp(name, "k_moe_mix") ||
                               (p->d[k].kernel != K_moe_sort && s->cmds[p->d[k].cmd].op == CMD_MOE_UP && strstr(name, "_half_"));
                after += p->d[k].after;
                sorted += p->d[k].kernel == K_moe_sort;
                ck_assert_msg(!of_list || p->d[k].after || strstr(name, "act_"), "%s, %u rows: %s starts early", fake_models[i].name, rows, name);
            }
            for (uint32_t c = 0; c < s->h.n_cmds; c++)
                ups += s->cmds[c].op == CMD_MOE_UP;
            ck_assert_msg(rows <= KL_ROWS_MAX ? after < p->n : after == p->n, "%s, %u rows: %u of %u launches begin after the one before",
                          fake_models[i].name, rows, after, p->n);
            ck_assert_msg(sorted <= ups, "%s: pairs are sorted %u times in %u layers", fake_models[i].name, sorted, ups);
            sorts += sorted;
            dispatch_free(p);
        }
        stream_free(s);
        s = fake_compile(i, FAKE_DECODE);
        ck_assert_int_eq(dispatch_build(s, t, 1, 0, &p, &e), 0);
        for (uint32_t k = 0; k < p->n; k++)
            ck_assert(p->d[k].after == (strstr(kernel_infos[p->d[k].kernel].name, "_rope_group_") != NULL));
        dispatch_free(p);
        stream_free(s);
    }
    ck_assert_uint_gt(sorts, 0);
}
END_TEST

/* Plans of one stream for many rows and for a single one take turns in one private memory, where the counters of either have
 * to stay 0: the other's temporaries lie behind them. */
START_TEST(plans_that_share_memory_leave_each_other_s_counters_alone)
{
    bool differ = false;
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        struct dispatch_plan *many, *one, *alone;
        struct err e = { 0 };
        ck_assert_int_eq(dispatch_build(s, &cards[0].t, s->h.row_cap, 0, &many, &e), 0);
        ck_assert_int_eq(dispatch_build(s, &cards[0].t, 1, 0, &alone, &e), 0);
        ck_assert_int_eq(dispatch_build(s, &cards[0].t, 1, (uint32_t)many->counters_bytes, &one, &e), 0);
        ck_assert_uint_eq(one->counters_bytes, many->counters_bytes);
        ck_assert_uint_eq(one->work_bytes - one->temp_bytes, many->work_bytes - many->temp_bytes);
        differ = differ || alone->counters_bytes != many->counters_bytes;
        dispatch_free(many);
        dispatch_free(alone);
        dispatch_free(one);
        stream_free(s);
    }
    ck_assert_msg(differ, "no model has more counters for many rows than one takes: the test shows nothing");
}
END_TEST

/* By plans of a few launches: r chooses experts and . is any other, which let the next start after their own wait; e lets it start
 * before; l waits at its end; d reads the choice early where that is complete, and a what was there before the plan. */
START_TEST(what_is_read_early_is_complete)
{
    static const struct { const char *launches; uint32_t early; } cases[] = {
        { "rd", 0 }, { "red", 0 }, { "rld", 0 }, { "rleed", 0 }, { "r.d", 1 }, { "r.ed", 1 }, { "rl.d", 1 }, { "rl.ld", 1 },
        { ".r.eed", 1 }, { "..rd", 0 }, { "a", 0 }, { "ea", 0 }, { ".a", 1 }, { ".ea", 1 }, { ".lea", 1 },
    };
    enum { MOST = 8, ARGS = 1024 };
    static _Alignas(16) uint8_t args[MOST * ARGS];
    for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct dispatch d[MOST] = { 0 };
        struct dispatch_plan p = { .d = d, .args = args };
        uint32_t router = 0, flag;
        memset(args, 0, sizeof args);
        for (const char *l = cases[c].launches; *l; l++, p.n++) {
            struct dispatch *x = &d[p.n];
            x->args_off = p.n * ARGS;
            x->eager = *l == 'e';
            x->beside = *l == 'l';
            router = *l == 'r' ? p.n + 1 : router;
            if (*l == 'd' || *l == 'a') {
                x->early = offsetof(kl_moe_down, early);
                x->early_from = *l == 'd' ? router : 0;
            }
        }
        dispatch_find_late(&p);
        memcpy(&flag, args + d[p.n - 1].args_off + d[p.n - 1].early, sizeof flag);
        ck_assert_msg(flag == cases[c].early, "%s: early %u", cases[c].launches, flag);
    }
}
END_TEST

/* Rings of half the size where every product of a token but the last is small: not among experts, nor beside one that is large. */
START_TEST(small_products_share_a_core)
{
    static const struct { const char *name; bool large; uint32_t threads; } cases[] = {
        { "qwen3", false, MR_HALF }, { "qwen3", true, MR_THREADS }, { "qwen3moe", false, MR_THREADS } };
    const struct dispatch_target t = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true, .ahead = true };
    for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct stream *s = fake_compile(fake_index(cases[c].name), FAKE_DECODE);
        struct dispatch_plan *p = NULL;
        struct err e = { 0 };
        uint32_t rings = 0;
        for (uint32_t i = 0; i < s->h.n_cmds; i++) {
            ka_matmul *a = (ka_matmul *)(uintptr_t)stream_args(s, i);
            if (cases[c].large && s->cmds[i].op == CMD_GATE_UP)
                a->n_out[0] = a->n_out[1] = 1 << 20;
        }
        ck_assert_int_eq(dispatch_build(s, &t, 1, 0, &p, &e), 0);
        for (uint32_t i = 0; i < p->n; i++)
            if (strstr(p->kernels[p->d[i].kernel].name, "_ring")) {
                bool last = ((const ka_matmul *)stream_args(s, p->d[i].cmd))->rows == ROWS_OUT;
                ck_assert_msg(last || p->d[i].threads == cases[c].threads, "%s: launch %u has %u", cases[c].name, i, p->d[i].threads);
                rings += !last;
            }
        ck_assert_msg(rings > 0, "%s", cases[c].name);
        dispatch_free(p);
        stream_free(s);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("dispatch_waits", launches_of_decoding_wait_where_they_must,
                     launches_of_prompts_wait_where_they_must, some_launches_may_overlap, products_beside_experts_are_late, what_is_read_early_is_complete, small_products_share_a_core, long_launches_begin_after_the_one_before,
                     plans_that_share_memory_leave_each_other_s_counters_alone);
}
