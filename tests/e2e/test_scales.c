/* The number beside a matrix ("<name>.scale", NVFP4 files) multiplies its products, in decode steps and prompts, and the
 * numbers beside experts those of each: factors of two that cancel each other change no bit, one alone changes the logits,
 * the head's doubles them; what is no number is refused. Ahead of a bias, and on every tier that runs here. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "kernels/blocks.h"
#include "model/gguf.h"
#include "tests/unit/tiny_model.h"

enum { PROMPT = 12, STEPS = 2 };

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static char path[] = "/tmp/zinc_scales_XXXXXX";

/* Multiplies a scale in the file, the scales of all experts, or a bias; by 0: a scale becomes 1, which is the same as none. */
static void change(const char *name, float by)
{
    struct gguf *g;
    float v[1024];
    OK(gguf_open(path, &g, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    ck_assert_msg(t && t->type == QT_F32 && t->bytes <= sizeof v, "%s: no scale", name);
    memcpy(v, t->data, t->bytes);
    for (size_t i = 0; i < t->bytes / 4; i++)
        v[i] = by != 0 ? v[i] * by : 1;
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, v, t->bytes, (off_t)t->file_off), (ssize_t)t->bytes);
    close(fd);
    gguf_close(g);
}

/* Of a prompt's last token and of two steps behind it. */
static float *logits_of(const char *tier, uint32_t *n)
{
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = 64, .threads = 1 };
    struct engine *eng;
    struct session *s;
    int32_t tok[PROMPT];
    const float *l;
    OK(engine_open(&o, &eng, &e));
    uint32_t n_vocab = engine_info(eng)->n_vocab;
    float *all = malloc((1 + STEPS) * n_vocab * sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (int i = 0; i < PROMPT; i++)
        tok[i] = (i * 37 + 11) % (int32_t)n_vocab;
    OK(session_create(eng, &s, &e));
    OK(session_eval(s, tok, PROMPT, &l, &e));
    memcpy(all, l, n_vocab * sizeof *all);
    for (int i = 0; i < STEPS; i++) {
        OK(session_eval(s, &tok[i], 1, &l, &e));
        memcpy(all + (size_t)(i + 1) * n_vocab, l, n_vocab * sizeof *all);
    }
    session_destroy(s);
    engine_close(eng);
    *n = (1 + STEPS) * n_vocab;
    return all;
}

static void expect(const char *tier, const float *was, float times, bool equal, const char *what)
{
    uint32_t n, same = 0;
    float *now = logits_of(tier, &n);
    for (uint32_t i = 0; i < n; i++)
        same += now[i] == times * was[i];
    ck_assert_msg(equal ? same == n : same < n / 2, "%s, %s: %u of %u logits are as before times %g", tier, what, same, n,
                  (double)times);
    free(now);
}

static void expect_near(const char *tier, const float *want, double nmse)
{
    uint32_t n;
    float *now = logits_of(tier, &n);
    double d2 = 0, s2 = 0;
    for (uint32_t i = 0; i < n; i++) {
        d2 += (double)(now[i] - want[i]) * (now[i] - want[i]);
        s2 += (double)want[i] * want[i];
    }
    ck_assert_msg(d2 < nmse * s2, "%s: %g from what is wanted", tier, d2 / s2);
    free(now);
}

static void check(const char *tier)
{
    uint32_t n;
    change("output.scale", 0);
    float *was = logits_of(tier, &n);
    change("blk.0.attn_q.scale", 2);
    expect(tier, was, 1, false, "q doubled");
    change("blk.0.attn_k.scale", 0.5f);
    expect(tier, was, 1, true, "q doubled, k halved");
    change("blk.1.ffn_up.scale", 4);
    expect(tier, was, 1, false, "up times four");
    change("blk.1.ffn_down.scale", 0.25f);
    expect(tier, was, 1, true, "up times four, down a quarter");
    change("blk.1.ffn_gate.scale", 2);
    expect(tier, was, 1, false, "gate doubled");
    change("blk.1.ffn_gate.scale", 0.5f);
    change("output.scale", 2);
    expect(tier, was, 2, true, "head doubled from none");
    change("output.scale", 0.5f);
    change("blk.0.attn_q.scale", 0.5f);
    change("blk.0.attn_k.scale", 2);
    change("blk.1.ffn_up.scale", 0.25f);
    change("blk.1.ffn_down.scale", 4);
    free(was);
}

START_TEST(products_are_multiplied)
{
    tiny_model(path, "tiny-llama --layers 2 --type NVFP4");
    check("cpu");
    check("cpu:exact");
    check("lockstep");
    unlink(path);
}
END_TEST

/* Its product also takes the row's gate. */
static void check_shared(const char *tier)
{
    uint32_t n;
    float *was = logits_of(tier, &n);
    change("blk.0.ffn_up_shexp.scale", 4);
    expect(tier, was, 1, false, "the shared expert's up times four");
    change("blk.0.ffn_down_shexp.scale", 0.25f);
    expect(tier, was, 1, true, "and its down a quarter");
    change("blk.0.ffn_up_shexp.scale", 0.25f);
    change("blk.0.ffn_down_shexp.scale", 4);
    free(was);
}

START_TEST(a_shared_experts_products_are_too)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-qwen35moe --layers 2 --type NVFP4");
    check_shared("cpu");
    check_shared("lockstep");
    unlink(path);
}
END_TEST

/* A bias comes behind the number: (4 W) x + b is 4 (W x + b / 4), so where q has that and k does not, or k and not q, the logits are
 * the same. */
START_TEST(a_bias_comes_behind)
{
    static const char *const tiers[] = { "cpu", "cpu:exact", "lockstep" };
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-qwen2 --layers 2 --type NVFP4");
    change("blk.0.attn_q.scale", 0);
    change("blk.0.attn_k.scale", 0);
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        uint32_t n;
        change("blk.0.attn_q.scale", 4);
        float *was = logits_of(tiers[i], &n);
        change("blk.0.attn_q.bias", 0.25f);
        expect(tiers[i], was, 1, false, "q's bias a quarter");
        change("blk.0.attn_q.scale", 0.25f);
        change("blk.0.attn_k.scale", 4);
        change("blk.0.attn_k.bias", 4);
        expect(tiers[i], was, 1, true, "k times four in place of q");
        change("blk.0.attn_q.bias", 4);
        change("blk.0.attn_k.scale", 0.25f);
        change("blk.0.attn_k.bias", 0.25f);
        free(was);
    }
    unlink(path);
}
END_TEST

/* One for each expert. `up`, `down`: multiplied, they cancel each other; `gate`: changes what is activated. */
static void check_experts(const char *tier, const char *gate, const char *up, const char *down)
{
    uint32_t n;
    float *was = logits_of(tier, &n);
    change(gate, 2);
    expect(tier, was, 1, false, "the experts' gate doubled");
    change(gate, 0.5f);
    if (strcmp(gate, up) != 0) {
        change(up, 4);
        expect(tier, was, 1, false, "their up times four");
        change(down, 0.25f);
        expect(tier, was, 1, true, "and their down a quarter");
        change(up, 0.25f);
        change(down, 4);
    }
    free(was);
}

/* `quantize` to a type without such numbers. */
static void another_type_has_them_inside(void)
{
    char nvfp4[sizeof path], cmd[1024];
    const char *build = getenv("ZINC_BUILD");
    uint32_t n;
    float *want = logits_of("cpu:exact", &n);
    expect_near("cpu", want, 2e-3);
    expect_near("lockstep", want, 1e-2);
    strcpy(nvfp4, path);
    snprintf(path, sizeof path, "/tmp/zinc_scaled_%ld", (long)getpid() % 100000);
    snprintf(cmd, sizeof cmd, "ASAN_OPTIONS=detect_leaks=0 %s/quantize %s %s F32 2>/dev/null", build ? build : "build", nvfp4, path);
    ck_assert_msg(system(cmd) == 0, "%s failed", cmd);
    expect_near("cpu:exact", want, 1e-9);
    expect_near("lockstep", want, 1e-2);
    unlink(path);
    strcpy(path, nvfp4);
    free(want);
}

START_TEST(experts_have_one_each)
{
    static const char gate[] = "blk.0.ffn_gate_exps.scale", up[] = "blk.0.ffn_up_exps.scale", down[] = "blk.0.ffn_down_exps.scale";
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-qwen3moe --layers 2 --type NVFP4 --expert-scales");
    check_experts("cpu", gate, up, down);
    check_experts("cpu:exact", gate, up, down);
    check_experts("lockstep", gate, up, down);
    check_experts("lockstep:sm90", gate, up, down);
    change(gate, 16); /* far from what is without it */
    change(up, 0.125f);
    another_type_has_them_inside();
    for (int il = 0; il < 2; il++) { /* factors of 1 are none, and down's is the router's */
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_exps.scale", il);
        change(name, 0);
        snprintf(name, sizeof name, "blk.%d.ffn_up_exps.scale", il);
        change(name, 0);
    }
    uint32_t n;
    float *cpu = logits_of("cpu", &n), *lockstep = logits_of("lockstep", &n);
    expect_near("lockstep", cpu, 1e-2);
    change(down, 2);
    expect("lockstep", lockstep, 1, false, "the experts' down doubled");
    free(cpu);
    free(lockstep);
    unlink(path);
}
END_TEST

START_TEST(experts_of_one_matrix_share_them)
{
    static const char both[] = "blk.0.ffn_gate_up_exps.scale";
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-gemma4-moe --layers 2 --type NVFP4 --expert-scales");
    check_experts("cpu", both, both, "blk.0.ffn_down_exps.scale");
    check_experts("cpu:exact", both, both, "blk.0.ffn_down_exps.scale");
    check_experts("lockstep", both, both, "blk.0.ffn_down_exps.scale");
    check_experts("lockstep:sm90", both, both, "blk.0.ffn_down_exps.scale");
    unlink(path);
}
END_TEST

/* The factors of a matrix's runs of 16, or of all experts': doubled, or halved again. UE4M3: 4 bits of exponent, 3 of mantissa. */
static void change_runs(const char *name, bool twice)
{
    struct gguf *g;
    OK(gguf_open(path, &g, &e));
    const struct gguf_tensor *t = gguf_find_tensor(g, name);
    ck_assert_msg(t && t->type == QT_NVFP4, "%s: not there in NVFP4", name);
    size_t n = t->bytes / sizeof(blk_nvfp4);
    blk_nvfp4 *b = malloc(t->bytes);
    ck_assert_ptr_nonnull(b);
    memcpy(b, t->data, t->bytes);
    for (size_t i = 0; i < 4 * n; i++) {
        uint8_t *d = &b[i / 4].d[i % 4], was = *d;
        *d = (uint8_t)(twice ? (was < 8 ? 2 * was : was + 8) : was < 16 ? was / 2 : was - 8);
        ck_assert_msg(was < 0x77 && *d < 0x7f, "%s: a run's factor %x", name, was);
    }
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, b, t->bytes, (off_t)t->file_off), (ssize_t)t->bytes);
    close(fd);
    free(b);
    gguf_close(g);
}

/* Half the numbers and twice the matrices are the same products, so biases behind them change nothing. */
static void check_biased_experts(const char *tier)
{
    static const char *const roles[] = { "gate", "up", "down" };
    uint32_t n;
    float *was = logits_of(tier, &n);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        char number[64], matrix[64], what[64];
        snprintf(number, sizeof number, "blk.0.ffn_%s_exps.scale", roles[i]);
        snprintf(matrix, sizeof matrix, "blk.0.ffn_%s_exps.weight", roles[i]);
        snprintf(what, sizeof what, "%s's numbers halved", roles[i]);
        change(number, 0.5f);
        expect(tier, was, 1, false, what);
        change_runs(matrix, true);
        expect(tier, was, 1, true, "and its matrices doubled");
        change_runs(matrix, false);
        change(number, 2);
    }
    free(was);
}

START_TEST(experts_biases_come_behind)
{
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-gpt-oss --layers 2 --type NVFP4 --expert-scales");
    check_biased_experts("cpu");
    check_biased_experts("cpu:exact");
    check_biased_experts("lockstep");
    check_biased_experts("lockstep:sm90");
    change("blk.0.ffn_gate_exps.scale", 8);
    change("blk.1.ffn_down_exps.scale", 4);
    another_type_has_them_inside();
    unlink(path);
}
END_TEST

START_TEST(a_number_that_is_none_is_refused)
{
    struct engine_opts o = { .path = path, .tier = "cpu", .n_ctx = 64 };
    struct engine *eng;
    strcpy(path + sizeof path - 7, "XXXXXX");
    tiny_model(path, "tiny-llama --layers 2 --type NVFP4");
    change("blk.0.attn_v.scale", 1.0f / 0.0f);
    ck_assert_int_eq(engine_open(&o, &eng, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "blk.0.attn_v.scale") && strstr(e.msg, "damaged"), "%s", e.msg);
    unlink(path);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("scales");
    TCase *c = tcase_create("scales");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, products_are_multiplied);
    tcase_add_test(c, a_shared_experts_products_are_too);
    tcase_add_test(c, a_bias_comes_behind);
    tcase_add_test(c, experts_have_one_each);
    tcase_add_test(c, experts_of_one_matrix_share_them);
    tcase_add_test(c, experts_biases_come_behind);
    tcase_add_test(c, a_number_that_is_none_is_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
