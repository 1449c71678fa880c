/* What reading a small file of each family gives, field by field, and what only that family refuses. */
#include "tests/unit/model_spec.h"
#include "model/rope.h"

START_TEST(llama_fields)
{
    struct loaded l;
    llama_spec(&spec);
    f32(&spec, "attention.scale", 0.5);
    add_tensor(&spec, 1, "attn_q.bias", HEADS * HD, 1, 1);
    add_tensor(&spec, 1, "attn_output.bias", EMBD, 1, 1);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->output == l.m->token_embd && l.m->act == ACT_SILU && l.m->embed_scale == 1);
    ck_assert(a->rope.kind == ROPE_NORM && a->rope.n_rot == HD && a->rope.base == 1e6f && a->rope_freqs);
    ck_assert(a->n_head == HEADS && a->n_head_kv == KV && a->head_dim == HD && a->n_ff == FF);
    ck_assert(a->attn_scale == 0.5f && !a->bq && b->bq && b->bo && b->kv_from == 1 && !a->q_norm);
    unload(&l);

    find_key(&spec, "rope.dimension_count")->v = HD - 2;
    expect_error(&spec, -EINVAL, "rope.dimension_count", "expected the head size 16");
}
END_TEST

START_TEST(llama_with_experts)
{
    struct loaded l;
    base_spec(&spec, "llama", 1, true);
    u32(&spec, "expert_count", EXPERTS);
    u32(&spec, "expert_used_count", USED);
    u32(&spec, "feed_forward_length", FF_EXP); /* the experts' own width */
    norm(&spec, 0, "attn_norm.weight");
    attention(&spec, 0, HEADS * HD, KV * HD, HEADS * HD);
    norm(&spec, 0, "ffn_norm.weight");
    expert_ffn(&spec, 0);
    load_ok(&l);
    ck_assert(l.m->n_expert == EXPERTS && l.m->layers[0].n_ff_exp == FF_EXP && l.m->layers[0].n_ff == 0);
    ck_assert(l.m->gating == GATING_SOFTMAX && l.m->expert_scale == 1);
    unload(&l);
}
END_TEST

/* llama's tensors and keys; and a scale of queries by the position, in units of the original context. */
START_TEST(mistral3_fields)
{
    struct loaded l;
    mistral3_spec(&spec);
    load_ok(&l);
    ck_assert(l.m->family == FAMILY_MISTRAL3 && l.m->layers[0].rope.kind == ROPE_NORM && l.m->layers[1].n_ff == FF);
    ck_assert(l.m->n_ctx_train == 512 && l.m->attn_temp == 0.1f && l.m->attn_temp_every == 128);
    unload(&l);
    find_key(&spec, "attention.temperature_scale")->v = -1;
    expect_error(&spec, -EINVAL, "mistral3.attention.temperature_scale", "expected at least 0");
    find_key(&spec, "attention.temperature_scale")->v = 0;
    load_ok(&l);
    ck_assert(l.m->attn_temp == 0);
    unload(&l);
    find_key(&spec, "rope.dimension_count")->v = HD - 2;
    expect_error(&spec, -EINVAL, "mistral3.rope.dimension_count", "expected the head size 16");
}
END_TEST

START_TEST(fused_projections)
{
    struct loaded l;
    llama_spec(&spec);
    strcpy(find_tensor(&spec, "blk.0.attn_q.weight")->name, "blk.0.attn_qkv.weight");
    find_tensor(&spec, "blk.0.attn_qkv.weight")->ne[1] = (HEADS + 2 * KV) * HD;
    load_ok(&l);
    ck_assert(l.m->layers[0].wqkv && !l.m->layers[0].wq && l.m->layers[1].wq);
    unload(&l);
}
END_TEST

START_TEST(per_layer_arrays)
{
    struct loaded l;
    qwen3_spec(&spec);
    *find_key(&spec, "feed_forward_length") =
        (struct skey){ "qwen3.feed_forward_length", GGUF_ARR, .arr = { FF, 2 * FF }, .n = 2 };
    find_tensor(&spec, "blk.1.ffn_gate.weight")->ne[1] = 2 * FF;
    find_tensor(&spec, "blk.1.ffn_up.weight")->ne[1] = 2 * FF;
    find_tensor(&spec, "blk.1.ffn_down.weight")->ne[0] = 2 * FF;
    load_ok(&l);
    ck_assert(l.m->layers[0].n_ff == FF && l.m->layers[1].n_ff == 2 * FF);
    unload(&l);
}
END_TEST

START_TEST(qwen3_fields)
{
    struct loaded l;
    qwen3_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0];
    ck_assert(l.m->output != l.m->token_embd && a->q_norm && a->k_norm && a->rope.kind == ROPE_NEOX);
    ck_assert(a->rope.n_rot == HD && a->rope.freq_scale == 1 && a->rope.mscale == 1 && a->rope.ext_factor == 0);
    ck_assert_float_eq_tol(a->attn_scale, 0.25f, 1e-7f);
    unload(&l);
}
END_TEST

START_TEST(yarn_mscale)
{
    struct loaded l;
    qwen3_spec(&spec);
    str(&spec, "rope.scaling.type", "yarn");
    f32(&spec, "rope.scaling.factor", 4);
    u32(&spec, "rope.scaling.original_context_length", 128);
    load_ok(&l);
    const struct rope_params *p = &l.m->layers[0].rope;
    ck_assert(p->ext_factor == 1 && p->freq_scale == 0.25f && p->n_ctx_orig == 128);
    ck_assert_float_eq_tol(p->mscale, (float)(1 + 0.1 * log(4)), 1e-6f);
    unload(&l);
    f32(&spec, "rope.scaling.attn_factor", 2);
    f32(&spec, "rope.scaling.yarn_log_multiplier", 1);
    load_ok(&l);
    ck_assert_float_eq_tol(l.m->layers[0].rope.mscale, 2, 1e-6f);
    unload(&l);
    strcpy(find_key(&spec, "rope.scaling.type")->s, "dynamic");
    expect_error(&spec, -ENOTSUP, "rope.scaling.type", "'dynamic'");
}
END_TEST

/* Two tables of divisors, and the number that the converter made. */
START_TEST(longrope)
{
    struct loaded l;
    llama_spec(&spec);
    strcpy(find_tensor(&spec, "rope_freqs.weight")->name, "rope_factors_short.weight");
    add_tensor(&spec, -1, "rope_factors_long.weight", HD / 2, 1, 1);
    str(&spec, "rope.scaling.type", "longrope");
    u32(&spec, "rope.scaling.original_context_length", 100);
    f32(&spec, "rope.scaling.attn_factor", 1.19);
    load_ok(&l);
    for (uint32_t il = 0; il < 2; il++) {
        const struct model_layer *a = &l.m->layers[il];
        ck_assert(a->rope_freqs == gguf_find_tensor(l.g, "rope_factors_short.weight"));
        ck_assert(a->rope_long == gguf_find_tensor(l.g, "rope_factors_long.weight"));
        ck_assert(rope_divisors(a, 100) == a->rope_freqs && rope_divisors(a, 112) == a->rope_freqs);
        ck_assert(rope_divisors(a, 113) == a->rope_long && rope_divisors(a, 512) == a->rope_long);
        ck_assert(a->rope.ext_factor == 0 && a->rope.freq_scale == 1 && a->rope.mscale == 1.19f);
    }
    ck_assert_int_eq(rope_scale_model(l.m, true, 4, &e), -ENOTSUP);
    unload(&l);
    strcpy(find_tensor(&spec, "rope_factors_long.weight")->name, "rope_factors.weight");
    expect_error(&spec, -EINVAL, "rope_factors_long.weight", "is missing");
    qwen3_spec(&spec);
    str(&spec, "rope.scaling.type", "longrope");
    expect_error(&spec, -ENOTSUP, "rope.scaling.type", "'longrope'");
}
END_TEST

/* As a file that says so; a file that scales is not scaled again, and a window's layers stay. */
START_TEST(scaled_on_demand)
{
    static const char *const kinds[] = { "linear", "yarn" };
    struct loaded file, asked;
    for (int yarn = 0; yarn < 2; yarn++) {
        qwen3_spec(&spec);
        load_ok(&asked);
        ck_assert_msg(rope_scale_model(asked.m, yarn, 4, &e) == 0, "%s", e.msg);
        str(&spec, "rope.scaling.type", kinds[yarn]);
        f32(&spec, "rope.scaling.factor", 4);
        load_ok(&file);
        const struct rope_params *a = &asked.m->layers[0].rope, *b = &file.m->layers[0].rope;
        ck_assert(a->freq_scale == b->freq_scale && a->ext_factor == b->ext_factor && a->mscale == b->mscale);
        ck_assert(a->n_ctx_orig == b->n_ctx_orig && a->beta_fast == b->beta_fast && a->base == b->base);
        ck_assert_uint_eq(asked.m->n_ctx_train, 4 * 512);
        ck_assert_int_eq(rope_scale_model(file.m, yarn, 4, &e), -ENOTSUP);
        ck_assert_int_eq(rope_scale_model(asked.m, yarn, 0.5f, &e), -EINVAL);
        unload(&asked);
        unload(&file);
    }
    gpt_oss_spec(&spec);
    for (int i = 0; i < spec.n_keys; i++) /* without its own scaling */
        if (strstr(spec.key[i].name, "rope.scaling"))
            spec.key[i--] = spec.key[--spec.n_keys];
    load_ok(&asked);
    ck_assert_msg(rope_scale_model(asked.m, true, 2, &e) == 0, "%s", e.msg);
    for (uint32_t il = 0; il < asked.m->n_layer; il++)
        ck_assert(asked.m->layers[il].rope.freq_scale == (asked.m->layers[il].window ? 1 : 0.5f));
    unload(&asked);
}
END_TEST

START_TEST(expert_width_by_default)
{
    struct loaded l;
    qwen3moe_spec(&spec);
    struct skey *k = find_key(&spec, "expert_feed_forward_length");
    strcpy(k->name, "qwen3moe.feed_forward_length");
    k->v = FF_EXP * USED;
    load_ok(&l);
    ck_assert(l.m->layers[1].n_ff_exp == FF_EXP && l.m->layers[1].n_expert_used == USED && !l.m->layers[1].n_ff);
    unload(&l);
    find_key(&spec, "expert_used_count")->v = EXPERTS + 1;
    expect_error(&spec, -EINVAL, "expert_used_count", "found 5");
    find_key(&spec, "expert_used_count")->v = USED;
    find_key(&spec, "expert_count")->v = 2000;
    expect_error(&spec, -EINVAL, "expert_count", "found 2000");
}
END_TEST

START_TEST(fused_experts)
{
    struct loaded l;
    qwen3moe_spec(&spec);
    strcpy(find_tensor(&spec, "blk.0.ffn_gate_exps.weight")->name, "blk.0.ffn_gate_up_exps.weight");
    find_tensor(&spec, "blk.0.ffn_gate_up_exps.weight")->ne[1] = 2 * FF_EXP;
    load_ok(&l);
    ck_assert(l.m->layers[0].exp_gate_up && !l.m->layers[0].exp_gate && l.m->layers[1].exp_gate);
    unload(&l);
}
END_TEST

START_TEST(head_counts_must_divide)
{
    qwen3_spec(&spec);
    find_key(&spec, "attention.head_count_kv")->v = 3;
    expect_error(&spec, -EINVAL, "block 0: 4 query heads", "multiple of the 3");
    find_key(&spec, "attention.head_count_kv")->v = 0;
    expect_error(&spec, -EINVAL, "attention.head_count_kv", "found 0");
}
END_TEST

START_TEST(hybrid_fields)
{
    struct loaded l;
    qwen35moe_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->n_layer == 2 && l.m->n_nextn == 1 && !l.m->gdn_grouped_heads && l.m->n_ff_shexp == 16);
    ck_assert(l.m->gdn_conv_kernel == CONV && l.m->gdn_head_dim == STATE && l.m->gdn_n_k == N_K && l.m->gdn_n_v == N_V);
    ck_assert(a->kind == LAYER_GDN && a->gdn_qkv && a->gdn_alpha && !a->gdn_ba && !a->wq && a->ffn_norm && a->gdn_dt);
    ck_assert(b->kind == LAYER_ATTN && b->q_gate && b->wq->ne[1] == 2 * HEADS * HD && b->rope.n_rot == 8);
    ck_assert(a->shexp_router && !a->post_attn_norm && a->gdn_a);
    unload(&l);
    qwen3next_spec(&spec);
    load_ok(&l);
    ck_assert(l.m->gdn_grouped_heads && l.m->layers[0].gdn_ba && !l.m->layers[0].gdn_alpha && !l.m->n_nextn);
    unload(&l);
}
END_TEST

START_TEST(hybrid_layer_flags)
{
    qwen35_spec(&spec);
    arr(&spec, "attention.recurrent_layers", (uint32_t[]){ 0, 1, 0 }, 3);
    /* block 0 is now full attention, and its attn_qkv another tensor */
    expect_error(&spec, -EINVAL, "tensor 'blk.0.attn_qkv.weight'", "expected the shape [32, 192]");
}
END_TEST

START_TEST(hybrid_refusals)
{
    qwen35_spec(&spec);
    memcpy(find_key(&spec, "dimension_sections")->arr, (uint32_t[]){ 1, 1, 1, 1 }, 16);
    expect_error(&spec, -ENOTSUP, "rope.dimension_sections", "fourth position");
    qwen35_spec(&spec);
    find_key(&spec, "ssm.inner_size")->v = VALUE_DIM + 8;
    expect_error(&spec, -EINVAL, "ssm.inner_size", "found 40");
    qwen35_spec(&spec);
    find_key(&spec, "ssm.group_count")->v = 3;
    expect_error(&spec, -EINVAL, "ssm.time_step_rank", "multiple of group_count 3");
}
END_TEST

START_TEST(gemma3_fields)
{
    struct loaded l;
    gemma3_spec(&spec);
    load_ok(&l);
    const struct model_layer *s = &l.m->layers[4], *f = &l.m->layers[5];
    ck_assert_float_eq_tol(l.m->embed_scale, sqrtf(EMBD), 1e-6f);
    ck_assert(l.m->act == ACT_GELU_TANH && l.m->logit_softcap == 0);
    ck_assert(s->window == 64 && f->window == 0 && s->post_attn_norm && s->post_ffn_norm);
    ck_assert(s->rope.base == 10000 && s->rope.freq_scale == 1 && f->rope.base == 1e6f && f->rope.freq_scale == 0.125f);
    ck_assert_float_eq_tol(s->attn_scale, 0.25f, 1e-7f);
    unload(&l);
}
END_TEST

START_TEST(gemma4_fields)
{
    struct loaded l;
    gemma4_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = l.m->layers;
    ck_assert(l.m->logit_softcap == 30 && l.m->n_embd_ple == 4 && l.m->ple_token_embd && l.m->ple_model_proj);
    ck_assert(a[0].window == 64 && a[1].window == 0 && a[0].head_dim == 8 && a[1].head_dim == HD);
    ck_assert(a[0].n_head_kv == 2 && a[1].n_head_kv == 1 && a[0].attn_scale == 1 && a[0].v_norm);
    ck_assert(a[0].wv && !a[0].v_from_k && !a[1].wv && a[1].v_from_k);
    ck_assert(a[0].kv_from == 0 && a[2].kv_from == 0 && a[3].kv_from == 1 && !a[2].wk && !a[2].v_from_k);
    ck_assert(!a[0].rope_freqs && a[1].rope_freqs && a[0].rope.n_rot == 8 && a[1].rope.n_rot == HD);
    ck_assert(a[0].rope.base == 10000 && a[1].rope.base == 1e6f);
    ck_assert(a[0].router && a[0].router_scale && a[0].exp_down_scale && !a[1].router && a[1].n_ff == FF);
    ck_assert(a[0].out_scale && a[0].ple_gate && a[0].pre_ffn_norm_2);
    unload(&l);
    find_key(&spec, "shared_kv_layers")->v = 3; /* block 1 is the first of its kind */
    expect_error(&spec, -EINVAL, "block 1 shares", "full");
}
END_TEST

START_TEST(gpt_oss_fields)
{
    struct loaded l;
    gpt_oss_spec(&spec);
    load_ok(&l);
    const struct model_layer *a = &l.m->layers[0], *b = &l.m->layers[1];
    ck_assert(l.m->act == ACT_SWIGLU_OAI && l.m->gating == GATING_TOPK_SOFTMAX && a->sinks && a->router_b && a->bo);
    ck_assert(a->window == 128 && b->window == 0 && a->exp_down_b && a->ffn_norm && !a->post_attn_norm);
    ck_assert(a->rope.ext_factor == 1 && b->rope.ext_factor == 1 && a->rope.n_ctx_orig == 4096);
    ck_assert_float_eq_tol(a->rope.mscale, 1.34657f, 1e-5f);
    unload(&l);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_families");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    tcase_add_test(t, llama_fields);
    tcase_add_test(t, llama_with_experts);
    tcase_add_test(t, mistral3_fields);
    tcase_add_test(t, fused_projections);
    tcase_add_test(t, per_layer_arrays);
    tcase_add_test(t, qwen3_fields);
    tcase_add_test(t, yarn_mscale);
    tcase_add_test(t, longrope);
    tcase_add_test(t, scaled_on_demand);
    tcase_add_test(t, expert_width_by_default);
    tcase_add_test(t, fused_experts);
    tcase_add_test(t, head_counts_must_divide);
    tcase_add_test(t, hybrid_fields);
    tcase_add_test(t, hybrid_layer_flags);
    tcase_add_test(t, hybrid_refusals);
    tcase_add_test(t, gemma3_fields);
    tcase_add_test(t, gemma4_fields);
    tcase_add_test(t, gpt_oss_fields);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
