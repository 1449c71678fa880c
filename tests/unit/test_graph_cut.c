/* Streams of some of a model's layers: what they hold, what goes between them, and which cuts are refused. What they
 * compute is the matter of test_cut_same_bits. */
#include "tests/stream/compile.h"

enum { EMBD = FAKE_EMBD };

static struct stream *compile_range(uint32_t model, struct graph_opts o, uint32_t first, uint32_t end)
{
    o.first_layer = first;
    o.end_layer = end;
    return fake_compile(model, o);
}

static const struct stream_buf *find_buf(const struct stream *s, const char *name)
{
    for (uint32_t i = 0; i < s->h.n_bufs; i++)
        if (strcmp(stream_str(s, s->bufs[i].name), name) == 0)
            return &s->bufs[i];
    return NULL;
}

static bool can_cut(uint32_t model, uint32_t at)
{
    static struct fake_model fake;
    fake_models[model].make(&fake);
    return graph_check_cut(&fake.m, at, NULL) == 0;
}

static uint32_t layers_of(uint32_t model)
{
    static struct fake_model fake;
    fake_models[model].make(&fake);
    return fake.m.n_layer;
}

START_TEST(all_layers_are_the_whole_model)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *whole = fake_compile(i, FAKE_PREFILL);
        struct stream *range = compile_range(i, FAKE_PREFILL, 0, layers_of(i));
        char *a = fake_dump(whole), *b = fake_dump(range);
        ck_assert_str_eq(a, b);
        ck_assert_mem_eq(&whole->h, &range->h, sizeof whole->h);
        ck_assert(stream_is_whole(range));
        ck_assert_uint_eq(stream_residual(range), 0);
        free(a);
        free(b);
        stream_free(whole);
        stream_free(range);
    }
}
END_TEST

/* Every command of a part is the next one of the whole, with arguments of the same names and numbers. */
static uint32_t follow(const struct stream *whole, uint32_t at, const struct stream *part)
{
    for (uint32_t i = 0; i < part->h.n_cmds; i++, at++) {
        const struct cmd *a = &whole->cmds[at], *b = &part->cmds[i];
        ck_assert_uint_lt(at, whole->h.n_cmds);
        ck_assert_str_eq(cmd_name(a->op), cmd_name(b->op));
        ck_assert_uint_eq(a->layer, b->layer);
        ck_assert_uint_eq(a->bytes, b->bytes);
        ck_assert_uint_eq(a->flops, b->flops);
        ck_assert_uint_eq(a->n_uses, b->n_uses);
        for (uint32_t u = 0; u < a->n_uses; u++) {
            const struct stream_use *x = &whole->uses[a->first_use + u], *y = &part->uses[b->first_use + u];
            ck_assert_uint_eq(x->field_off, y->field_off);
            ck_assert_uint_eq(x->off, y->off);
            ck_assert_str_eq(stream_str(whole, whole->bufs[x->buf].name), stream_str(part, part->bufs[y->buf].name));
        }
    }
    return at;
}

START_TEST(parts_are_the_commands_of_the_whole)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++)
        for (int variant = 0; variant < 4; variant++) {
            struct graph_opts o = variant & 1 ? FAKE_PREFILL : FAKE_DECODE;
            o.no_fuse = variant & 2;
            struct stream *whole = fake_compile(i, o);
            uint32_t n = layers_of(i), at = 0, weights = 0;
            uint64_t kv = 0, state = 0;
            for (uint32_t first = 0, end = 1; first < n; first = end, end = first + 1) {
                while (!can_cut(i, end))
                    end++;
                struct stream *part = compile_range(i, o, first, end);
                at = follow(whole, at, part);
                weights += part->h.n_weights;
                kv += part->h.arena_bytes[ARENA_KV];
                state += part->h.arena_bytes[ARENA_STATE];
                stream_free(part);
            }
            ck_assert_uint_eq(at, whole->h.n_cmds);
            ck_assert_uint_eq(kv, whole->h.arena_bytes[ARENA_KV]);
            ck_assert_uint_eq(state, whole->h.arena_bytes[ARENA_STATE]);
            ck_assert_uint_ge(weights, whole->h.n_weights); /* the embedding is often the output matrix as well */
            ck_assert_uint_le(weights, whole->h.n_weights + 1);
            stream_free(whole);
        }
}
END_TEST

START_TEST(the_residual_is_one_place_with_the_name_of_its_layer)
{
    uint32_t model = fake_index("qwen35");
    struct stream *front = compile_range(model, FAKE_DECODE, 0, 1), *middle = compile_range(model, FAKE_DECODE, 1, 3),
                  *back = compile_range(model, FAKE_DECODE, 3, 0);
    const struct {
        const struct stream *s;
        const char *in, *out;
    } parts[] = { { front, NULL, "x.0" }, { middle, "x.0", "x.2" }, { back, "x.2", NULL } };
    for (size_t i = 0; i < 3; i++) {
        const struct stream *s = parts[i].s;
        for (int side = 0; side < 2; side++) {
            const char *name = side ? parts[i].out : parts[i].in;
            const struct stream_buf *b = name ? find_buf(s, name) : NULL;
            if (!name)
                continue;
            ck_assert_ptr_nonnull(b);
            ck_assert_uint_eq(b->arena, ARENA_IO);
            ck_assert_uint_eq(b->off, stream_residual(s));
            ck_assert_uint_eq(b->bytes, 8 * EMBD * 4);
            ck_assert_uint_eq(b->ld, EMBD);
        }
        ck_assert_uint_eq(stream_residual(s), stream_residual(front)); /* by the capacities alone */
        ck_assert_int_eq(s->cmds[0].op == CMD_EMBED, s->h.layers_before == 0);
        ck_assert_int_eq(s->cmds[s->h.n_cmds - 1].op == CMD_ARGMAX, s->h.layers_behind == 0);
        ck_assert_int_eq(find_buf(s, "logits") != NULL, s->h.layers_behind == 0);
        ck_assert_int_eq(s->h.logits_off != 0, s->h.layers_behind == 0);
        ck_assert_uint_eq(s->h.n_layer, 4);
    }
    ck_assert_ptr_null(find_buf(middle, "kv.k.3"));
    ck_assert_ptr_nonnull(find_buf(middle, "kv.k.1"));
    ck_assert_ptr_nonnull(find_buf(middle, "state.2"));
    ck_assert_ptr_null(find_buf(middle, "token_embd.weight"));
    ck_assert_ptr_null(find_buf(middle, "blk.0.attn_norm.weight"));
    stream_free(front);
    stream_free(middle);
    stream_free(back);
}
END_TEST

START_TEST(tables_keep_their_names)
{
    struct stream *s = compile_range(fake_index("gemma3"), FAKE_DECODE, 1, 2); /* rotates as layer 0 does not */
    ck_assert_ptr_null(find_buf(s, "inv_freq.0"));
    ck_assert_ptr_nonnull(find_buf(s, "inv_freq.1"));
    stream_free(s);
    s = compile_range(fake_index("gemma4_moe"), FAKE_DECODE, 2, 4);
    ck_assert_ptr_nonnull(find_buf(s, "inv_freq.0"));
    ck_assert_ptr_nonnull(find_buf(s, "inv_freq.1"));
    ck_assert_ptr_null(find_buf(s, "router_norm_w.1"));
    ck_assert_ptr_nonnull(find_buf(s, "router_norm_w.2"));
    stream_free(s);
}
END_TEST

START_TEST(a_layer_stays_with_the_cache_that_it_reads)
{
    static struct fake_model fake;
    struct stream *s = NULL;
    struct err e = {0};
    fake_gemma4(&fake); /* layers 2 and 3 read the caches of 0 and 1 */
    const uint32_t cuts[][2] = { { 1, 0 }, { 2, 4 }, { 0, 3 }, { 1, 2 } };
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct graph_opts o = FAKE_DECODE;
        o.first_layer = cuts[i][0];
        o.end_layer = cuts[i][1];
        ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -ENOTSUP);
        ck_assert_msg(strstr(e.msg, "reads the KV cache of layer") != NULL, "%s", e.msg);
    }
    ck_assert_int_eq(graph_check_cut(&fake.m, 2, &e), -ENOTSUP);
    ck_assert_str_eq(e.msg, "graph: fake: cannot be cut in front of layer 2: layer 2 reads the KV cache of layer 0");
    ck_assert_int_eq(graph_check_cut(&fake.m, 0, &e), 0);
    ck_assert_int_eq(graph_check_cut(&fake.m, 4, &e), 0);
}
END_TEST

START_TEST(ranges_that_are_none_are_refused)
{
    static struct fake_model fake;
    struct stream *s = NULL;
    fake_qwen35(&fake);
    const uint32_t bad[][2] = { { 0, 5 }, { 2, 2 }, { 3, 1 }, { 4, 0 }, { 7, 9 },
                                { UINT32_MAX, 0 }, { 0, UINT32_MAX } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct graph_opts o = FAKE_DECODE;
        struct err e = {0};
        o.first_layer = bad[i][0];
        o.end_layer = bad[i][1];
        ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -EINVAL);
        ck_assert_msg(strstr(e.msg, "expected first < end <= 4") != NULL, "%s", e.msg);
    }
}
END_TEST

START_TEST(four_streams_are_not_cut)
{
    static struct fake_model fake;
    struct stream *s = NULL;
    struct err e = {0};
    struct graph_opts o = FAKE_DECODE;
    fake_gemma3n(&fake);
    o.end_layer = 1;
    ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -ENOTSUP);
    ck_assert_msg(strstr(e.msg, "gemma3n cannot be cut") != NULL, "%s", e.msg);
}
END_TEST

START_TEST(per_layer_embeddings_are_made_in_every_part)
{
    static struct fake_model fake;
    struct stream *s = NULL;
    struct err e = {0};
    struct graph_opts o = FAKE_DECODE;
    fake_gemma4_e(&fake);
    for (uint32_t il = 2; il < 4; il++) { /* layers that share keys stay in one part: these have their own */
        const struct model_layer *like = &fake.layers[il - 2];
        struct model_layer *l = &fake.layers[il];
        l->kv_from = il, l->wk = like->wk, l->wv = like->wv, l->k_norm = like->k_norm, l->v_from_k = like->v_from_k;
    }
    o.end_layer = 2;
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        n += s->cmds[i].op == CMD_EMBED;
    ck_assert_uint_eq(n, 2);
    stream_free(s);
    o.first_layer = 2;
    o.end_layer = 4;
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(stream_verify(s, &e), 0);
    for (uint32_t i = n = 0; i < s->h.n_cmds; i++)
        n += s->cmds[i].op == CMD_EMBED;
    ck_assert_uint_eq(n, 2);
    stream_free(s);
}
END_TEST

static int verify_with(const struct stream *s, void *at, uint64_t value, size_t n)
{
    uint64_t old = 0;
    memcpy(&old, at, n);
    memcpy(at, &value, n);
    int rc = stream_verify(s, NULL);
    memcpy(at, &old, n);
    return rc;
}

START_TEST(a_wrong_range_in_a_head_is_refused)
{
    uint32_t model = fake_index("qwen35");
    struct stream *middle = compile_range(model, FAKE_DECODE, 1, 3), *back = compile_range(model, FAKE_DECODE, 3, 0),
                  *whole = fake_compile(model, FAKE_DECODE);
    ck_assert_int_eq(stream_verify(middle, NULL), 0);
    ck_assert_int_eq(stream_verify(back, NULL), 0);
    for (uint16_t n = 2; n < 6; n++) {
        ck_assert_int_ne(verify_with(middle, &middle->h.layers_before, n, 2), 0);
        ck_assert_int_ne(verify_with(middle, &middle->h.layers_behind, n, 2), 0);
    }
    ck_assert_int_ne(verify_with(middle, &middle->h.layers_behind, 0, 2), 0); /* a head without logits */
    ck_assert_int_ne(verify_with(middle, &middle->h.logits_off, 512, 8), 0);
    ck_assert_int_ne(verify_with(middle, &middle->h.arena_bytes[ARENA_IO], 512, 8), 0);
    ck_assert_int_ne(verify_with(middle, &middle->h.n_embd, EMBD + 1, 4), 0);
    ck_assert_int_ne(verify_with(back, &back->h.layers_behind, 1, 2), 0);
    ck_assert_int_ne(verify_with(back, &back->h.n_embd, EMBD + 1, 4), 0); /* would run into the logits */
    back->h.n_layer = 5;
    ck_assert_int_eq(stream_verify(back, NULL), 0);
    ck_assert_int_ne(verify_with(back, &back->h.layers_behind, 1, 2), 0); /* a head that is not the model's */
    ck_assert_int_ne(verify_with(whole, &whole->h.layers_before, 1, 2), 0);
    ck_assert_int_ne(verify_with(whole, &whole->h.layers_behind, 1, 2), 0);
    stream_free(middle);
    stream_free(back);
    stream_free(whole);
}
END_TEST

START_TEST(json_says_which_layers)
{
    struct stream *s = compile_range(fake_index("qwen35"), FAKE_DECODE, 1, 3);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const struct graph_view v = {.n_rows = 1, .kv_len = 1};
    ck_assert_int_eq(graph_print_json(f, s, &v), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "\"layers\": {\n  \"first\": 1,\n  \"end\": 3,\n  \"of\": 4\n }"));
    free(text);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("streams of some layers", all_layers_are_the_whole_model, parts_are_the_commands_of_the_whole,
                     the_residual_is_one_place_with_the_name_of_its_layer, tables_keep_their_names,
                     a_layer_stays_with_the_cache_that_it_reads, ranges_that_are_none_are_refused,
                     four_streams_are_not_cut, per_layer_embeddings_are_made_in_every_part, a_wrong_range_in_a_head_is_refused,
                     json_says_which_layers);
}
