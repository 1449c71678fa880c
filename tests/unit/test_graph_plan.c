/* The memory plan: who shares memory with whom, and what every stream of a model has in common. */
#include "base/ckd.h"
#include "tests/stream/compile.h"

static bool shared(uint32_t arena)
{
    return arena == ARENA_WEIGHTS || arena == ARENA_CONST || arena == ARENA_KV || arena == ARENA_STATE;
}

/* Every buffer of a's that tier objects share lies at the same place in b. */
static void check_same_layout(const struct stream *a, const struct stream *b)
{
    uint32_t j = 0;
    for (uint32_t i = 0; i < a->h.n_bufs; i++) {
        const struct stream_buf *x = &a->bufs[i];
        if (!shared(x->arena))
            continue;
        while (j < b->h.n_bufs && !shared(b->bufs[j].arena))
            j++;
        ck_assert_uint_lt(j, b->h.n_bufs);
        const struct stream_buf *y = &b->bufs[j++];
        ck_assert_str_eq(stream_str(a, x->name), stream_str(b, y->name));
        ck_assert(x->arena == y->arena && x->off == y->off && x->bytes == y->bytes && x->weight == y->weight);
    }
    for (uint32_t arena = 0; arena < ARENA_COUNT; arena++)
        if (shared(arena))
            ck_assert_uint_eq(a->h.arena_bytes[arena], b->h.arena_bytes[arena]);
    ck_assert_uint_eq(a->h.weights_hash, b->h.weights_hash);
    ck_assert_uint_eq(a->h.const_bytes, b->h.const_bytes);
    ck_assert_mem_eq(a->consts, b->consts, a->h.const_bytes);
}

START_TEST(decode_prefill_and_unfused_share_one_layout)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct graph_opts o = FAKE_DECODE;
        o.no_fuse = true;
        struct stream *a = fake_compile(i, FAKE_DECODE), *b = fake_compile(i, FAKE_PREFILL), *c = fake_compile(i, o);
        check_same_layout(a, b);
        check_same_layout(a, c);
        stream_free(a);
        stream_free(b);
        stream_free(c);
    }
}
END_TEST

/* Runs the stream on names: a command that writes a buffer owns its memory, a reader must find itself the owner. */
static void check_lives(const struct stream *s)
{
    uint64_t n = s->h.arena_bytes[ARENA_SCRATCH] / STREAM_ALIGN;
    uint32_t *owner = malloc((n + 1) * sizeof *owner);
    memset(owner, 0xff, (n + 1) * sizeof *owner);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        for (int pass = 0; pass < 2; pass++) /* all reads, then all writes */
            for (uint32_t u = s->cmds[i].first_use; u < s->cmds[i].first_use + s->cmds[i].n_uses; u++) {
                const struct stream_buf *b = &s->bufs[s->uses[u].buf];
                uint64_t first = b->off / STREAM_ALIGN, last = (b->off + b->bytes - 1) / STREAM_ALIGN;
                if (b->arena != ARENA_SCRATCH)
                    continue;
                for (uint64_t k = first; k <= last; k++) {
                    if (pass == 0 && s->uses[u].dir & USE_READ)
                        ck_assert_msg(owner[k] == s->uses[u].buf, "command %u reads %s, overwritten", i,
                                      stream_str(s, b->name));
                    if (pass == 1 && s->uses[u].dir & USE_WRITE)
                        owner[k] = s->uses[u].buf;
                }
            }
    free(owner);
}

START_TEST(nobody_overwrites_a_value_that_is_still_read)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++)
        for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
            struct graph_opts o = FAKE_PREFILL;
            o.no_fuse = no_fuse;
            struct stream *s = fake_compile(i, o);
            check_lives(s);
            stream_free(s);
        }
}
END_TEST

START_TEST(sizes_are_what_the_shapes_say)
{
    struct graph_opts o = FAKE_DECODE;
    struct stream *s = fake_compile(fake_index("qwen35"), o);
    ck_assert_uint_eq(s->h.n_ctx, 64); /* 50, rounded up */
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_KV],
                      2 /* layers */ * 2 /* k, v */ * o.n_slots * FAKE_KV * 64 * FAKE_HEAD * 2u);
    /* rings f32 [4, (2 * 2 + 4) * 16] and states f32 [4, 16, 16] of two layers and two slots */
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_STATE], 2 * 2 * (4 * 128 * 4 + 4 * 16 * 16 * 4));
    /* 64 + 8 rows of 16, 8 outputs of 4 + 32 + 4, the output rows' step of 64 + 8 of 16, in units of 256 */
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_IO], 768 + 8 * FAKE_VOCAB * 4);
    stream_free(s);
    o.kv_type = KA_KV_F32;
    s = fake_compile(fake_index("qwen3"), o);
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_KV], 2 * 2 * o.n_slots * FAKE_KV * 64 * FAKE_HEAD * 4u);
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_STATE], 0);
    stream_free(s);
    o.kv_type = KA_KV_Q8_0;
    s = fake_compile(fake_index("qwen3"), o);
    ck_assert_uint_eq(s->h.arena_bytes[ARENA_KV], 2 * 2 * o.n_slots * FAKE_KV * 64 * FAKE_HEAD / 32 * 34u);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].op == CMD_ATTN)
            ck_assert_uint_eq(s->cmds[i].kv_bytes, 2 * FAKE_KV * FAKE_HEAD / 32 * 34);
    stream_free(s);
    static const struct {
        enum ka_kv kv;
        uint32_t block;
    } small[] = { { KA_KV_FP8, 32 }, { KA_KV_Q4_0, 18 }, { KA_KV_ROT4, 18 } };
    for (int k = 0; k < 3; k++) {
        o.kv_type = small[k].kv;
        s = fake_compile(fake_index("qwen3"), o);
        ck_assert_uint_eq(s->h.arena_bytes[ARENA_KV], 2 * 2 * o.n_slots * FAKE_KV * 64 * FAKE_HEAD / 32 * small[k].block);
        stream_free(s);
    }
}
END_TEST

/* The types of a model's caches in the order of its attention, and that each is as large as its type says. */
static void expect_caches(const char *model, enum ka_kv kv, uint32_t edge, const char *want)
{
    struct graph_opts o = FAKE_DECODE;
    char got[256] = "";
    o.kv_type = kv;
    o.kv_edge = edge;
    struct stream *s = fake_compile(fake_index(model), o);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_attn *a = stream_args(s, i);
        if (s->cmds[i].op != CMD_ATTN)
            continue;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", got[0] ? " " : "", stream_kv_name(a->kv_type));
        ck_assert_uint_eq(a->slot_bytes, align_up(KA_KV_BYTES(a->kv_type, (uint64_t)a->n_kv * a->head_dim) * a->n_ctx, STREAM_ALIGN));
        ck_assert_uint_eq(s->cmds[i].kv_bytes, 2 * KA_KV_BYTES(a->kv_type, (uint64_t)a->n_kv * a->head_dim));
    }
    ck_assert_str_eq(got, want);
    stream_free(s);
}

START_TEST(layers_at_both_ends_may_keep_f16)
{
    expect_caches("gemma4_moe", KA_KV_ROT4, 0, "rot4 rot4 rot4 rot4");
    expect_caches("gemma4_moe", KA_KV_ROT4, 1, "f16 rot4 rot4 f16");
    expect_caches("gemma4_moe", KA_KV_ROT4, 7, "f16 f16 f16 f16");
    expect_caches("gemma4_moe", KA_KV_F32, 1, "f32 f32 f32 f32");
    expect_caches("gemma4", KA_KV_Q8_0, 1, "f16 f16 f16 f16"); /* two caches, which the last two layers read */
}
END_TEST

START_TEST(a_cache_of_blocks_needs_whole_blocks_in_a_head)
{
    static struct fake_model fake;
    struct graph_opts o = FAKE_DECODE;
    struct stream *s = NULL;
    struct err e = {0};
    fake_models[fake_index("llama")].make(&fake);
    for (uint32_t il = 0; il < fake.m.n_layer; il++) {
        struct model_layer *l = &fake.layers[il];
        l->n_head *= 2;
        l->n_head_kv *= 2;
        l->head_dim = l->rope.n_rot = FAKE_HEAD / 2;
    }
    static const enum ka_kv kvs[] = { KA_KV_Q8_0, KA_KV_Q4_0, KA_KV_ROT4 };
    for (int k = 0; k < 3; k++) {
        o.kv_type = kvs[k];
        ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -EINVAL);
        ck_assert_msg(strstr(e.msg, stream_kv_name(kvs[k])) && strstr(e.msg, "multiple of 32") && strstr(e.msg, "16"), "%s",
                      e.msg);
    }
    ck_assert_ptr_null(s);
}
END_TEST

/* longrope: the context of a slot says by which table its positions turn. */
START_TEST(a_context_beyond_the_original_takes_the_long_factors)
{
    static struct fake_model fake;
    static const float fours[FAKE_HEAD / 2] = { [0 ... FAKE_HEAD / 2 - 1] = 4 };
    static struct gguf_tensor far = { .type = QT_F32, .ne = { FAKE_HEAD / 2, 1, 1, 1 }, .data = (const uint8_t *)fours };
    struct graph_opts o = FAKE_DECODE;
    struct err e = {0};
    float first[2];
    fake_models[fake_index("llama")].make(&fake); /* 512 positions */
    for (uint32_t il = 0; il < fake.m.n_layer; il++)
        fake.layers[il].rope_long = &far;
    for (int beyond = 0; beyond < 2; beyond++) {
        struct stream *s = NULL;
        o.n_ctx = 512 + (uint32_t)beyond;
        ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(s->h.const_bytes, STREAM_ALIGN); /* one table */
        memcpy(&first[beyond], s->consts, sizeof *first);
        stream_free(s);
    }
    ck_assert_msg(first[0] != 0.25f && first[1] == 0.25f, "%g, %g", (double)first[0], (double)first[1]);
}
END_TEST

START_TEST(scratch_is_reused_from_layer_to_layer)
{
    struct stream *s = fake_compile(fake_index("llama"), FAKE_DECODE);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->h.n_bufs; i++)
        if (s->bufs[i].arena == ARENA_SCRATCH)
            sum += s->bufs[i].bytes;
    ck_assert_uint_lt(s->h.arena_bytes[ARENA_SCRATCH] * 2, sum);
    stream_free(s);
}
END_TEST

START_TEST(tables_of_equal_rotations_are_shared)
{
    static const struct {
        const char *model;
        uint32_t tables;
    } want[] = {{"llama", 1}, {"gemma3", 2}, {"qwen35", 1}};
    for (size_t i = 0; i < 3; i++) {
        struct stream *s = fake_compile(fake_index(want[i].model), FAKE_DECODE);
        uint32_t n = 0;
        for (uint32_t b = 0; b < s->h.n_bufs; b++)
            n += s->bufs[b].arena == ARENA_CONST;
        ck_assert_uint_eq(n, want[i].tables);
        stream_free(s);
    }
}
END_TEST

START_TEST(frequencies_are_divided_by_the_models_factors)
{
    struct stream *s = fake_compile(fake_index("llama"), FAKE_DECODE);
    const float *f = (const float *)s->consts;
    for (int i = 0; i < FAKE_HEAD / 2; i++) { /* base 10000, factors 1, 2, 3, .. */
        double want = __builtin_pow(10000, -2.0 * i / FAKE_HEAD) / (1 + i);
        ck_assert_double_eq_tol(f[i], want, want * 1e-6);
    }
    stream_free(s);
}
END_TEST

START_TEST(the_plan_reads_as_a_sentence)
{
    char *text = NULL;
    size_t n = 0;
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    FILE *f = open_memstream(&text, &n);
    s->h.arena_bytes[ARENA_WEIGHTS] = 633502925;
    s->h.arena_bytes[ARENA_KV] = 3ull << 30;
    graph_print_plan(f, s);
    fclose(f);
    ck_assert_ptr_eq(strstr(text, "weights 604.2 MiB, kv 3.00 GiB, state 0, scratch "), text);
    free(text);
    stream_free(s);
}
END_TEST

START_TEST(compiling_twice_gives_the_same_stream)
{
    struct stream *a = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct stream *b = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    char *x = fake_dump(a), *y = fake_dump(b);
    ck_assert_str_eq(x, y);
    ck_assert_mem_eq(&a->h, &b->h, sizeof a->h);
    ck_assert_mem_eq(a->args, b->args, a->h.args_bytes);
    free(x);
    free(y);
    stream_free(a);
    stream_free(b);
}
END_TEST

START_TEST(options_out_of_range_are_named)
{
    struct fake_model f;
    struct stream *s = NULL;
    struct err e = {0};
    fake_llama(&f);
    struct graph_opts o = FAKE_DECODE;
    o.out_cap = 9;
    ck_assert_int_eq(graph_compile(&f.m, &o, &s, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "9 output rows"));
    o = FAKE_DECODE;
    o.n_ctx = 0;
    ck_assert_int_eq(graph_compile(&f.m, &o, &s, &e), -EINVAL);
    o = FAKE_DECODE;
    o.n_slots = 0;
    ck_assert_int_eq(graph_compile(&f.m, &o, &s, &e), -EINVAL);
    o = FAKE_DECODE;
    o.row_cap = 1 << 17;
    ck_assert_int_eq(graph_compile(&f.m, &o, &s, &e), -EINVAL);
}
END_TEST

int main(void)
{
    return RUN_TESTS("graph plan", decode_prefill_and_unfused_share_one_layout,
                     nobody_overwrites_a_value_that_is_still_read, sizes_are_what_the_shapes_say,
                     layers_at_both_ends_may_keep_f16, a_cache_of_blocks_needs_whole_blocks_in_a_head,
                     a_context_beyond_the_original_takes_the_long_factors,
                     scratch_is_reused_from_layer_to_layer, tables_of_equal_rotations_are_shared,
                     frequencies_are_divided_by_the_models_factors, the_plan_reads_as_a_sentence,
                     compiling_twice_gives_the_same_stream, options_out_of_range_are_named);
}
