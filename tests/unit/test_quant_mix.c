/* Recipes: the types that released files have, by the rules of their quantiser (ggml-org/llama.cpp,
 * tests/snapshots). */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/quant_mix.h"

enum { MAX_ITEMS = 1024 };

static struct quant_item items[MAX_ITEMS];
static char names[MAX_ITEMS][64];
static size_t n_items;
static struct err e;

__attribute__((format(printf, 4, 5))) static void item(uint64_t n0, uint64_t n1, uint64_t n2, const char *fmt, ...)
{
    va_list ap;
    ck_assert(n_items < MAX_ITEMS);
    va_start(ap, fmt);
    vsnprintf(names[n_items], sizeof names[0], fmt, ap);
    va_end(ap);
    items[n_items] = (struct quant_item){ names[n_items], n2 > 1 ? 3 : n1 > 1 ? 2 : 1, { n0, n1, n2, 1 }, QT_F32 };
    n_items++;
}

static void apply(const char *recipe, struct quant_shape s)
{
    struct quant_recipe r;
    ck_assert_msg(quant_recipe_parse(recipe, false, &r, &e) == 0, "%s", e.msg);
    quant_recipe_types(&r, &s, items, n_items);
}

static enum qtype type_of(const char *name)
{
    for (size_t i = 0; i < n_items; i++)
        if (strcmp(names[i], name) == 0)
            return items[i].type;
    ck_abort_msg("no tensor %s", name);
    return QT_F32;
}

static void expect(const char *name, enum qtype want)
{
    ck_assert_msg(type_of(name) == want, "%s: got %s, want %s", name, qtype_name(type_of(name)), qtype_name(want));
}

/* The layers, as "0 1 2", in which blk.N.ROLE.weight exists and has type t. */
static void expect_layers(const char *role, enum qtype t, const char *want)
{
    char got[1024] = "", name[64];
    size_t n = 0;
    for (unsigned il = 0; il < 100; il++) {
        snprintf(name, sizeof name, "blk.%u.%s.weight", il, role);
        for (size_t i = 0; i < n_items; i++)
            if (strcmp(names[i], name) == 0 && items[i].type == t)
                n += (size_t)snprintf(got + n, sizeof got - n, "%s%u", n ? " " : "", il);
    }
    ck_assert_str_eq(got, want);
}

/* A dense attention model; the head is tied without `output`. */
static void dense(uint32_t layers, uint64_t d, uint64_t ff, bool output)
{
    n_items = 0;
    item(d, 1000, 1, "token_embd.weight");
    if (output)
        item(d, 1000, 1, "output.weight");
    item(d, 1, 1, "output_norm.weight");
    for (unsigned il = 0; il < layers; il++) {
        item(d, 1, 1, "blk.%u.attn_norm.weight", il);
        item(d, d, 1, "blk.%u.attn_q.weight", il);
        item(d, d, 1, "blk.%u.attn_k.weight", il);
        item(d, d, 1, "blk.%u.attn_v.weight", il);
        item(d, d, 1, "blk.%u.attn_output.weight", il);
        item(d, ff, 1, "blk.%u.ffn_gate.weight", il);
        item(ff, d, 1, "blk.%u.ffn_down.weight", il);
    }
}

START_TEST(q4_k_m_of_qwen3_0_6b)
{
    dense(28, 1024, 3072, true);
    apply("q4_k_m", (struct quant_shape){ "qwen3", 28, 0, 16, 8, false });
    expect_layers("attn_v", QT_Q6_K, "0 1 2 5 8 11 14 17 20 23 24 25 26 27");
    expect_layers("ffn_down", QT_Q6_K, "0 1 2 5 8 11 14 17 20 23 24 25 26 27");
    expect_layers("attn_q", QT_Q6_K, "");
    expect("blk.3.attn_v.weight", QT_Q4_K);
    expect("blk.3.ffn_gate.weight", QT_Q4_K);
    expect("token_embd.weight", QT_Q4_K);
    expect("output.weight", QT_Q6_K);
    expect("output_norm.weight", QT_F32);
    expect("blk.0.attn_norm.weight", QT_F32);
}
END_TEST

START_TEST(q4_k_m_of_gemma_3_4b)
{
    dense(34, 2560, 10240, false);
    apply("Q4_K_M", (struct quant_shape){ "gemma3", 34, 0, 8, 4, false });
    expect_layers("ffn_down", QT_Q6_K, "0 1 2 3 6 9 12 15 18 21 24 27 29 30 31 32 33");
    expect("token_embd.weight", QT_Q6_K);
}
END_TEST

/* attn_v and attn_qkv share one counter. */
START_TEST(q4_k_m_of_qwen3_6_27b)
{
    n_items = 0;
    item(5120, 1000, 1, "output.weight");
    for (unsigned il = 64; il-- > 0;) { /* backwards: the order in the file does not count */
        item(5120, 10240, 1, (il + 1) % 4 ? "blk.%u.attn_qkv.weight" : "blk.%u.attn_v.weight", il);
        item(17408, 5120, 1, "blk.%u.ffn_down.weight", il);
        item(5120, 48, 1, "blk.%u.ssm_alpha.weight", il);
        item(4, 10240, 1, "blk.%u.ssm_conv1d.weight", il);
    }
    apply("Q4_K_M", (struct quant_shape){ "qwen35", 64, 0, 24, 4, false });
    expect_layers("attn_v", QT_Q6_K, "3 7 19 31 43 55 59 63");
    expect_layers("attn_qkv", QT_Q6_K, "0 1 2 4 5 6 10 13 16 22 25 28 34 37 40 46 49 52 56 57 58 60 61 62");
    expect_layers("ffn_down", QT_Q6_K,
                  "0 1 2 3 4 5 6 7 10 13 16 19 22 25 28 31 34 37 40 43 46 49 52 55 56 57 58 59 60 61 62 63");
    expect("blk.1.ssm_alpha.weight", QT_Q4_K);
    expect("blk.1.ssm_conv1d.weight", QT_F32);
}
END_TEST

/* Rows of 2880 take the types with small blocks; rows of 4096 do not. */
START_TEST(q4_k_m_of_gpt_oss_120b)
{
    n_items = 0;
    item(2880, 1000, 1, "token_embd.weight");
    item(2880, 1000, 1, "output.weight");
    for (unsigned il = 0; il < 36; il++) {
        item(2880, 512, 1, "blk.%u.attn_v.weight", il);
        item(4096, 2880, 1, "blk.%u.attn_output.weight", il);
        item(2880, 2880, 128, "blk.%u.ffn_down_exps.weight", il);
        item(2880, 2880, 128, "blk.%u.ffn_up_exps.weight", il);
        item(2880, 128, 1, "blk.%u.ffn_gate_inp.weight", il);
        item(2880, 128, 1, "blk.%u.ffn_up_exps.bias", il);
    }
    struct quant_shape s = { "gpt-oss", 36, 128, 64, 8, false };
    apply("Q4_K_M", s);
    expect("blk.0.attn_v.weight", QT_Q8_0);
    expect("blk.4.attn_v.weight", QT_Q5_0);
    expect("blk.0.ffn_down_exps.weight", QT_Q8_0);
    expect("blk.4.ffn_down_exps.weight", QT_Q5_0);
    expect("blk.4.ffn_up_exps.weight", QT_Q5_0);
    expect("blk.4.attn_output.weight", QT_Q4_K);
    expect("token_embd.weight", QT_Q5_0);
    expect("output.weight", QT_Q8_0);
    expect("blk.0.ffn_gate_inp.weight", QT_F32);
    expect("blk.0.ffn_up_exps.bias", QT_F32);
    apply("MXFP4_MOE", s);
    expect("blk.4.ffn_up_exps.weight", QT_MXFP4);
    expect("blk.4.attn_output.weight", QT_Q8_0);
    expect("output.weight", QT_Q8_0);
}
END_TEST

START_TEST(other_recipes)
{
    dense(32, 4096, 14336, true);
    struct quant_shape gqa4 = { "llama", 32, 0, 32, 8, false }, mha = { "llama", 32, 0, 32, 32, false };
    apply("Q4_K_S", gqa4);
    expect_layers("attn_v", QT_Q5_K, "0 1 2 3");
    expect_layers("ffn_down", QT_Q5_K, "0 1 2 3");
    apply("Q3_K_M", gqa4);
    expect_layers("attn_v", QT_Q5_K, "0 1");
    expect_layers("ffn_down", QT_Q5_K, "0 1");
    expect("blk.9.ffn_down.weight", QT_Q4_K);
    expect("blk.9.attn_output.weight", QT_Q4_K);
    expect("blk.9.attn_q.weight", QT_Q3_K);
    apply("Q2_K", gqa4);
    expect("blk.9.attn_v.weight", QT_Q4_K);
    expect("blk.9.ffn_down.weight", QT_Q3_K);
    expect("blk.9.ffn_gate.weight", QT_Q2_K);
    apply("Q2_K", mha);
    expect("blk.9.attn_v.weight", QT_Q3_K);
    apply("IQ4_XS", gqa4);
    expect("blk.9.attn_v.weight", QT_Q5_K);
    expect("blk.9.attn_k.weight", QT_IQ4_XS);
    apply("IQ4_NL", gqa4);
    expect("blk.9.attn_v.weight", QT_Q5_K);
    expect("blk.9.attn_k.weight", QT_IQ4_NL);
    expect_layers("ffn_down", QT_Q5_K, "0 1 2 3");
    apply("IQ4_NL", mha);
    expect("blk.9.attn_v.weight", QT_IQ4_NL);
    apply("Q4_0", gqa4);
    expect("output.weight", QT_Q6_K);
    expect("blk.9.attn_v.weight", QT_Q4_0);
    apply("Q8_0", gqa4);
    expect("output.weight", QT_Q8_0);
    apply("BF16", gqa4);
    expect("output.weight", QT_BF16);
    expect("output_norm.weight", QT_F32);
    apply("Q4_K_M", (struct quant_shape){ "llama", 32, 8, 32, 8, false }); /* Mixtral's exceptions */
    expect("blk.9.attn_v.weight", QT_Q8_0);
    expect("blk.9.attn_output.weight", QT_Q5_K);
    apply("IQ4_NL", (struct quant_shape){ "llama", 32, 8, 32, 8, false });
    expect("blk.9.attn_v.weight", QT_Q8_0);
    expect("blk.9.attn_output.weight", QT_Q5_K);
    static const struct { const char *recipe; enum qtype base; } plain[] = {
        { "Q6_K", QT_Q6_K }, { "Q4_0", QT_Q4_0 }, { "Q4_1", QT_Q4_1 }, { "Q5_0", QT_Q5_0 }, { "Q5_1", QT_Q5_1 },
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        apply(plain[i].recipe, (struct quant_shape){ "llama", 32, 8, 32, 8, false });
        expect("blk.9.attn_v.weight", QT_Q8_0);
        expect("blk.9.attn_k.weight", QT_Q8_0);
        expect("blk.9.attn_q.weight", plain[i].base);
        expect("blk.9.attn_output.weight", plain[i].base);
    }
}
END_TEST

START_TEST(pure_types_and_fallbacks)
{
    struct quant_recipe r;
    dense(4, 4096, 14336, true);
    apply("Q4_K", (struct quant_shape){ "llama", 4, 0, 32, 8, false });
    expect("output.weight", QT_Q4_K);
    expect("blk.0.ffn_down.weight", QT_Q4_K);
    ck_assert_int_eq(quant_recipe_parse("Q4_0", true, &r, &e), 0);
    ck_assert(r.pure && r.base == QT_Q4_0 && r.file_type == 2);
    ck_assert_int_eq(quant_recipe_parse("Q4_K_M", true, &r, &e), -EINVAL);
    ck_assert_int_eq(quant_recipe_parse("Q9", false, &r, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "MXFP4_MOE"));
    ck_assert_int_eq(quant_recipe_parse("iq2_xxs", true, &r, &e), 0);
    ck_assert(r.pure && r.base == QT_IQ2_XXS && r.file_type == 19 && quant_recipe_wants_importance(&r));

    ck_assert_int_eq(quant_fallback(QT_Q4_K, 512), QT_Q4_K);
    ck_assert_int_eq(quant_fallback(QT_Q4_K, 704), QT_Q5_0);
    ck_assert_int_eq(quant_fallback(QT_Q5_K, 704), QT_Q5_1);
    ck_assert_int_eq(quant_fallback(QT_Q6_K, 704), QT_Q8_0);
    ck_assert_int_eq(quant_fallback(QT_Q3_K, 704), QT_Q4_0);
    ck_assert_int_eq(quant_fallback(QT_Q2_K, 704), QT_Q4_0);
    ck_assert_int_eq(quant_fallback(QT_IQ4_XS, 704), QT_IQ4_NL);
    ck_assert_int_eq(quant_fallback(QT_Q8_0, 704), QT_Q8_0);
    ck_assert_int_eq(quant_fallback(QT_Q8_0, 100), QT_F16);
    ck_assert_int_eq(quant_fallback(QT_F32, 100), QT_F32);
    static const enum qtype types[] = {
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        ck_assert_msg(704 % qtype_block(quant_fallback(types[i], 704)) == 0, "%s", qtype_name(types[i]));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mix");
    TCase *t = tcase_create("mix");
    tcase_add_test(t, q4_k_m_of_qwen3_0_6b);
    tcase_add_test(t, q4_k_m_of_gemma_3_4b);
    tcase_add_test(t, q4_k_m_of_qwen3_6_27b);
    tcase_add_test(t, q4_k_m_of_gpt_oss_120b);
    tcase_add_test(t, other_recipes);
    tcase_add_test(t, pure_types_and_fallbacks);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
