/* Reading a model of each family: a small synthetic file of the family gives the expected fields; without any of its
 * required keys or tensors, or with a tensor of another shape or type, the line names the key or tensor. */
#include "tests/unit/model_spec.h"

/* --- every family ------------------------------------------------------------------------------------------------ */

START_TEST(reads_whole)
{
    struct loaded l;
    family_spec[_i](&spec);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert_uint_eq(l.m->family, _i);
    ck_assert_str_eq(model_family_name(l.m->family), spec.arch);
    ck_assert_str_eq(l.m->name, "A name");
    ck_assert(l.m->n_embd == EMBD && l.m->n_vocab == VOCAB && l.m->n_ctx_train == 512);
    uint64_t elems = 0;
    for (int i = 0; i < spec.n_tensors; i++)
        elems += spec.tensor[i].ne[0] * spec.tensor[i].ne[1] * spec.tensor[i].ne[2];
    ck_assert_uint_eq(l.m->n_params, elems); /* every tensor has a role */
    unload(&l);
}
END_TEST

/* A key without which the model cannot be read, or is another model, is named, or a tensor that then does not fit. */
START_TEST(each_missing_key_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_keys; i++) {
        struct loaded l;
        int rc = load(&spec, i, -1, &l);
        const char *key = spec.key[i].name;
        if (spec.key[i].optional)
            ck_assert_msg(rc == 0, "without %s: %s", key, e.msg);
        else if (rc == 0) /* absent means a default that may fit */
            ck_assert_msg(strstr(key, "value_length") || strstr(key, "expert_shared") || strstr(key, "key_length_swa"),
                          "%s: reads without %s", spec.arch, key);
        else
            ck_assert_msg(strstr(e.msg, key) || strstr(e.msg, "tensor '") || strstr(e.msg, "value_length") ||
                              strstr(e.msg, "dimension_sections") || strstr(e.msg, "expert_"),
                          "without %s: %s", key, e.msg);
        unload(&l);
    }
}
END_TEST

START_TEST(each_missing_tensor_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct loaded l;
        int rc = load(&spec, -1, i, &l);
        const struct stensor *t = &spec.tensor[i];
        if (t->optional)
            ck_assert_msg(rc == 0 || strstr(e.msg, "does not apply"), "without %s: %s", t->name, e.msg);
        else
            ck_assert_msg(rc == -EINVAL && strstr(e.msg, t->name) && strstr(e.msg, "missing"), "without %s: %d %s",
                          t->name, rc, e.msg);
        unload(&l);
    }
}
END_TEST

START_TEST(each_wrong_shape_is_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++)
        for (int d = 0; d < 3; d++) {
            struct stensor *t = &spec.tensor[i];
            if (d == 1 && strcmp(t->name, "token_embd.weight") == 0)
                continue; /* without a vocabulary it decides */
            if (d == 1 && strstr(t->name, "laurel_l"))
                continue; /* the rank */
            t->ne[d]++;
            char want[80];
            snprintf(want, sizeof want, "tensor '%s'", t->name);
            expect_error(&spec, -EINVAL, want, "expected the shape");
            t->ne[d]--;
        }
}
END_TEST

START_TEST(vectors_are_f32)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct stensor *t = &spec.tensor[i];
        if (t->ne[1] > 1 || t->ne[0] % 2)
            continue;
        t->type = QT_F16;
        char want[80];
        snprintf(want, sizeof want, "tensor '%s'", t->name);
        expect_error(&spec, -ENOTSUP, want, "expected F32, found F16");
        t->type = QT_F32;
    }
}
END_TEST

START_TEST(matrices_have_any_type)
{
    struct loaded l;
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_tensors; i++) {
        struct stensor *t = &spec.tensor[i];
        bool f32_only = t->ne[1] == 1 || strstr(t->name, "conv1d") || strstr(t->name, ".bias") || strstr(t->name, "_coef");
        if (!f32_only && t->ne[0] % 32 == 0 && t->ne[1] % 2 == 0)
            t->type = QT_Q8_0;
        else if (!f32_only && t->ne[0] % 2 == 0)
            t->type = QT_BF16;
    }
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    unload(&l);
}
END_TEST

/* Each number out of range, not finite, of another type, or an array of the wrong length. */
START_TEST(bad_values_are_named)
{
    family_spec[_i](&spec);
    for (int i = 0; i < spec.n_keys; i++) {
        struct skey *k = &spec.key[i], was = *k;
        if (k->type == GGUF_STR)
            continue;
        char want[100];
        snprintf(want, sizeof want, "key '%s'", k->name);
        if (k->type == GGUF_U32) {
            k->v = 4294967295.0;
            expect_error(&spec, -EINVAL, want, "4294967295");
            *k = was;
        }
        if (k->type == GGUF_F32) {
            k->v = NAN;
            expect_error(&spec, -EINVAL, want, "finite");
            k->v = -1;
            expect_error(&spec, -EINVAL, want, "-1");
            *k = was;
        }
        if (k->type == GGUF_ARR) {
            k->n--;
            expect_error(&spec, -EINVAL, want, "expected");
            *k = was;
        }
        k->type = GGUF_STR;
        expect_error(&spec, -EINVAL, want, "expected");
        *k = was;
    }
}
END_TEST

START_TEST(what_zinc_would_not_apply_is_refused)
{
    family_spec[_i](&spec);
    add_tensor(&spec, 0, "ffn_norm.bias", EMBD, 1, 1); /* not beside a used tensor in the hybrids and gpt-oss: ignored */
    add_tensor(&spec, -1, "token_embd.scale", 1, 1, 1);
    expect_error(&spec, -ENOTSUP, spec.arch, "does not apply");
}
END_TEST

START_TEST(scales_beside_matrices_are_taken)
{
    struct loaded l;
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_q.scale", 1, 1, 1);
    add_tensor(&spec, 1, "ffn_down.scale", 1, 1, 1);
    add_tensor(&spec, 1, "ffn_down.input_scale", 1, 1, 1); /* for activations of four bits: not applied */
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert_uint_eq(l.m->n_scales, 0); /* all of them are 1 here */
    unload(&l);
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_q.scale", 2, 1, 1);
    expect_error(&spec, -ENOTSUP, "blk.0.attn_q.scale", "does not apply");
    qwen3moe_spec(&spec);
    add_tensor(&spec, 0, "ffn_gate_exps.scale", EXPERTS, 1, 1);
    add_tensor(&spec, 0, "ffn_up_exps.scale", EXPERTS, 1, 1);
    add_tensor(&spec, 1, "ffn_down_exps.scale", EXPERTS, 1, 1);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert(!l.m->layers[0].exp_gate_scale && !l.m->layers[0].exp_up_scale && l.m->layers[1].exp_down_scale);
    unload(&l);
    find_tensor(&spec, "blk.0.ffn_up_exps.scale")->ne[0] = EXPERTS + 1;
    expect_error(&spec, -EINVAL, "blk.0.ffn_up_exps.scale", "expected the shape");
    gpt_oss_spec(&spec);
    add_tensor(&spec, 0, "ffn_up_exps.scale", EXPERTS, 1, 1);
    add_tensor(&spec, 1, "ffn_down_exps.scale", EXPERTS, 1, 1);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    ck_assert(!l.m->layers[0].exp_up_scale && l.m->layers[1].exp_down_scale);
    unload(&l);
    llama_spec(&spec);
    add_tensor(&spec, 0, "attn_norm.scale", 1, 1, 1);
    expect_error(&spec, -ENOTSUP, "blk.0.attn_norm.scale", "does not apply");
}
END_TEST

START_TEST(tensors_without_a_role_are_ignored)
{
    struct loaded l;
    family_spec[_i](&spec);
    add_tensor(&spec, -1, "v.patch_embd.weight", 4, 4, 1);
    add_tensor(&spec, 0, "attn_q.input_scale", 1, 1, 1);
    add_tensor(&spec, 99, "attn_norm.weight", 4, 1, 1);
    ck_assert_msg(load(&spec, -1, -1, &l) == 0, "%s", e.msg);
    unload(&l);
}
END_TEST

/* --- the file as a whole ----------------------------------------------------------------------------------------- */

START_TEST(unknown_architectures)
{
    qwen3_spec(&spec);
    strcpy(spec.key[0].s, "mamba");
    expect_error(&spec, -ENOTSUP, "architecture 'mamba'", "llama, qwen2, qwen3, ");
    spec.key[0].s[0] = 0;
    expect_error(&spec, -ENOTSUP, "architecture ''", "gpt-oss");
}
END_TEST

/* Streams other than the four that files have, and numbers that are none, are refused; the gates' quantiles say which are sparse. */
START_TEST(gemma3n_streams_and_sparsity)
{
    struct loaded l;
    gemma3n_spec(&spec);
    load_ok(&l);
    ck_assert(l.m->layers[0].sparse && l.m->layers[1].sparse && !l.m->layers[2].sparse);
    ck_assert(l.m->layers[0].sparse_cut == 1.5f && l.m->layers[1].sparse_cut == 0);
    ck_assert(l.m->layers[2].kv_from == 0 && l.m->layers[1].kv_from == 1 && l.m->layers[0].window == 64 && !l.m->layers[1].window);
    ck_assert(l.m->layers[0].rope.base == 1e4f && l.m->logit_softcap == 30);
    unload(&l);
    find_key(&spec, "altup.num_inputs")->v = 3;
    expect_error(&spec, -ENOTSUP, "gemma3n.altup", "found 3");
    gemma3n_spec(&spec);
    find_key(&spec, "altup.active_idx")->v = 1;
    expect_error(&spec, -ENOTSUP, "gemma3n.altup", "index 1");
    gemma3n_spec(&spec);
    find_key(&spec, "shared_kv_layers")->v = 1.5;
    expect_error(&spec, -EINVAL, "shared_kv_layers", "found 1.5");
    gemma3n_spec(&spec);
    find_key(&spec, "shared_kv_layers")->type = GGUF_U32; /* of other converters */
    load_ok(&l);
    ck_assert_uint_eq(l.m->layers[2].kv_from, 0);
    unload(&l);
    const float inf = INFINITY;
    memcpy(&find_key(&spec, "activation_sparsity_scale")->arr[1], &inf, sizeof inf);
    expect_error(&spec, -EINVAL, "activation_sparsity_scale", "found inf for block 1");
}
END_TEST

START_TEST(the_vocabulary_decides)
{
    struct loaded l;
    qwen3_spec(&spec);
    arr(&spec, "tokenizer.ggml.tokens", (uint32_t[8]){ 0 }, 8);
    expect_error(&spec, -EINVAL, "tensor 'token_embd.weight': expected the shape [32, 8], found [32, 10]", "");
    qwen3_spec(&spec);
    spec.n_tensors = 0;
    expect_error(&spec, -EINVAL, "vocabulary and no tensors", "");
    qwen3_spec(&spec);
    spec.key[1].s[0] = 0;
    load_ok(&l);
    ck_assert_str_eq(l.m->name, "test.gguf");
    unload(&l);
}
END_TEST

START_TEST(block_counts)
{
    qwen35_spec(&spec);
    find_key(&spec, "nextn_predict_layers")->v = 3;
    expect_error(&spec, -EINVAL, "nextn_predict_layers", "found 3");
    find_key(&spec, "block_count")->v = 513;
    expect_error(&spec, -EINVAL, "block_count", "found 513");
    find_key(&spec, "block_count")->v = 0;
    expect_error(&spec, -EINVAL, "block_count", "found 0");
    llama_spec(&spec);
    struct skey *k = u32(&spec, "attention.causal", 0);
    k->type = GGUF_BOOL;
    expect_error(&spec, -ENOTSUP, "attention.causal", "causal");
}
END_TEST

START_TEST(rope_frequencies_must_be_usable)
{
    struct loaded l;
    llama_spec(&spec);
    uint64_t n;
    l.w = write_spec(&spec, -1, -1);
    const void *p = gguf_writer_bytes(l.w, &n);
    uint8_t *copy = malloc(n);
    memcpy(copy, p, n);
    ck_assert_int_eq(gguf_open_memory("m.gguf", copy, n, &l.g, &e), 0);
    const struct gguf_tensor *t = gguf_find_tensor(l.g, "rope_freqs.weight");
    memset(copy + t->file_off + 4, 0, 4);
    ck_assert_int_eq(model_read(l.g, &l.m, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "rope_freqs.weight") && strstr(e.msg, "found 0 at 1"), "%s", e.msg);
    unload(&l);
    free(copy);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_read");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    tcase_add_loop_test(t, reads_whole, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_missing_key_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_missing_tensor_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, each_wrong_shape_is_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, vectors_are_f32, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, matrices_have_any_type, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, bad_values_are_named, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, what_zinc_would_not_apply_is_refused, 0, FAMILY_COUNT);
    tcase_add_loop_test(t, tensors_without_a_role_are_ignored, 0, FAMILY_COUNT);
    tcase_add_test(t, scales_beside_matrices_are_taken);
    tcase_add_test(t, unknown_architectures);
    tcase_add_test(t, gemma3n_streams_and_sparsity);
    tcase_add_test(t, the_vocabulary_decides);
    tcase_add_test(t, block_counts);
    tcase_add_test(t, rope_frequencies_must_be_usable);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
