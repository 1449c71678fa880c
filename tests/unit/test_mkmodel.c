/* The programs mkmodel and quantize: synthetic models are deterministic, complete and of the promised statistics;
 * quantising a file gives what mkmodel writes in that type; wrong use ends with exit codes and nothing left
 * behind. */
#include <check.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/dequant.h"
#include "model/gguf.h"
#include "model/gguf_write.h"
#include "model/model.h"

static char build[PATH_MAX], dir[] = "/tmp/test_mkmodel-XXXXXX";
static struct err e;

/* Runs "build/..." in the scratch folder, output to log; returns the exit status. */
__attribute__((format(printf, 1, 2))) static int run(const char *fmt, ...)
{
    char args[512], cmd[PATH_MAX + 1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    snprintf(cmd, sizeof cmd, "cd %s && %s/%s >log 2>&1", dir, build, args);
    int rc = system(cmd);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static const char *path(const char *name)
{
    static char buf[4][128];
    static int k;
    k = (k + 1) % 4;
    snprintf(buf[k], sizeof buf[k], "%s/%s", dir, name);
    return buf[k];
}

static bool log_has(const char *text)
{
    static char buf[65536];
    FILE *f = fopen(path("log"), "r");
    size_t n = f ? fread(buf, 1, sizeof buf - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
    return strstr(buf, text) != NULL;
}

static struct gguf *open_model(const char *name)
{
    struct gguf *g = NULL;
    ck_assert_msg(gguf_open(path(name), &g, &e) == 0, "%s", e.msg);
    return g;
}

static bool same_file(const char *a, const char *b)
{
    char cmd[300];
    snprintf(cmd, sizeof cmd, "cmp -s %s %s", path(a), path(b));
    return system(cmd) == 0;
}

/* Names of the presets that begin with `prefix`. */
static int presets(const char *prefix, char names[][64], int max)
{
    char line[256];
    int n = 0;
    ck_assert_int_eq(run("mkmodel --list"), 0);
    FILE *f = fopen(path("log"), "r");
    ck_assert_ptr_nonnull(f);
    while (n < max && fgets(line, sizeof line, f))
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            n += sscanf(line, "%63s", names[n]) == 1;
    fclose(f);
    return n;
}

START_TEST(the_file_depends_on_the_seed_and_not_on_threads)
{
    static const char *const models[] = { "tiny-qwen35moe --type Q4_K_M", "small-qwen3moe-q4_k_m --layers 1" };
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run("mkmodel %s a.gguf --threads 1", models[i]), 0);
        ck_assert_int_eq(run("mkmodel %s b.gguf --threads 3", models[i]), 0);
        ck_assert_int_eq(run("mkmodel %s c.gguf --seed 2", models[i]), 0);
        ck_assert(same_file("a.gguf", "b.gguf"));
        ck_assert(!same_file("a.gguf", "c.gguf"));
    }
}
END_TEST

static int64_t find_text(const struct gguf_kv *tokens, struct gguf_str want)
{
    struct gguf_str s;
    for (uint64_t i = 0; i < tokens->n; i++)
        if (gguf_kv_str(tokens, i, &s) && s.len == want.len && memcmp(s.s, want.s, s.len) == 0)
            return (int64_t)i;
    return -1;
}

static void check_merges(const struct gguf *g, const struct gguf_kv *tokens)
{
    const struct gguf_kv *merges = gguf_find(g, "tokenizer.ggml.merges");
    struct gguf_str m;
    for (uint64_t i = 0; merges && i < merges->n; i++) {
        char joined[256];
        ck_assert(gguf_kv_str(merges, i, &m));
        const char *space = memchr(m.s + 1, ' ', m.len - 1);
        ck_assert_ptr_nonnull(space);
        uint64_t left = (uint64_t)(space - m.s), right = m.len - left - 1;
        memcpy(joined, m.s, left);
        memcpy(joined + left, space + 1, right);
        ck_assert(find_text(tokens, (struct gguf_str){ m.s, left }) >= 0);
        ck_assert(find_text(tokens, (struct gguf_str){ space + 1, right }) >= 0);
        ck_assert(find_text(tokens, (struct gguf_str){ joined, left + right }) >= 0);
    }
}

START_TEST(every_tiny_model_is_complete)
{
    static char names[64][64];
    int n = presets("tiny-", names, 64);
    ck_assert_int_ge(n, 12);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(run("mkmodel %s m.gguf --type Q8_0", names[i]), 0);
        struct gguf *g = open_model("m.gguf");
        const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens"),
                             *types = gguf_find(g, "tokenizer.ggml.token_type");
        const struct gguf_tensor *embd = gguf_find_tensor(g, "token_embd.weight");
        ck_assert(tokens && types && embd && gguf_find(g, "tokenizer.chat_template"));
        ck_assert_uint_eq(tokens->n, embd->ne[1]);
        ck_assert_uint_eq(types->n, embd->ne[1]);
        for (uint64_t t = 0; t < tokens->n; t++) {
            struct gguf_str s;
            ck_assert(gguf_kv_str(tokens, t, &s));
            ck_assert_msg(find_text(tokens, s) == (int64_t)t, "%s: token %d twice", names[i], (int)t);
        }
        uint32_t eos = UINT32_MAX;
        ck_assert_int_eq(gguf_get_u32(g, "tokenizer.ggml.eos_token_id", &eos, &e), 0);
        ck_assert_uint_lt(eos, tokens->n);
        check_merges(g, tokens);
        struct model *m = NULL;
        ck_assert_msg(model_read(g, &m, &e) == 0, "%s: %s", names[i], e.msg);
        model_free(m);
        gguf_close(g);
    }
}
END_TEST

START_TEST(a_model_without_vocabulary_has_its_size)
{
    ck_assert_int_eq(run("mkmodel tiny-gemma3 m.gguf --no-vocab --layers 1"), 0);
    struct gguf *g = open_model("m.gguf");
    uint32_t n = 0;
    ck_assert_int_eq(gguf_get_u32(g, "gemma3.vocab_size", &n, &e), 0);
    ck_assert_uint_eq(n, 640);
    ck_assert_ptr_null(gguf_find(g, "tokenizer.ggml.tokens"));
    ck_assert_ptr_nonnull(gguf_find_tensor(g, "blk.0.attn_q.weight"));
    ck_assert_ptr_null(gguf_find_tensor(g, "blk.1.attn_q.weight"));
    gguf_close(g);
}
END_TEST

/* Random blocks must look like weights: mean 0, standard deviation 1/sqrt(n_in), everything finite. */
START_TEST(random_blocks_have_the_wanted_spread)
{
    static const char *const types[] = {
#define QTYPE_BLOCK(NAME, ...) #NAME,
#include "kernels/qtypes.def"
        "BF16"
    };
    static float x[1024];
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        ck_assert_int_eq(run("mkmodel small-qwen3moe-q4_k_m m.gguf --layers 1 --type %s", types[k]), 0);
        struct gguf *g = open_model("m.gguf");
        const struct gguf_tensor *t = gguf_find_tensor(g, "blk.0.ffn_up_exps.weight");
        ck_assert_ptr_nonnull(t);
        ck_assert_str_eq(qtype_name(t->type), types[k]);
        double s = 0, ss = 0;
        uint64_t rows = t->ne[1] * 2;
        for (uint64_t r = 0; r < rows; r++) {
            dequant_row(t->type, t->data + r * qtype_row_bytes(t->type, t->ne[0]), x, t->ne[0]);
            for (uint64_t i = 0; i < t->ne[0]; i++) {
                s += x[i];
                ss += (double)x[i] * x[i];
            }
        }
        double n = (double)(rows * t->ne[0]), want = 1 / sqrt((double)t->ne[0]), sd = sqrt(ss / n) / want;
        ck_assert_msg(sd > 0.97 && sd < 1.05, "%s: standard deviation %g of the wanted one", types[k], sd);
        ck_assert_msg(fabs(s / n) < 0.01 * want, "%s: mean %g", types[k], s / n / want);
        gguf_close(g);
    }
}
END_TEST

START_TEST(quantize_gives_what_mkmodel_writes_in_that_type)
{
    static const char *const types[] = { "Q4_K_M", "Q3_K", "MXFP4", "F16" };
    ck_assert_int_eq(run("mkmodel tiny-qwen3-ragged f32.gguf"), 0);
    for (int k = 0; k < 4; k++) {
        ck_assert_int_eq(run("mkmodel tiny-qwen3-ragged want.gguf --type %s", types[k]), 0);
        ck_assert_int_eq(run("quantize f32.gguf got.gguf %s", types[k]), 0);
        struct gguf *want = open_model("want.gguf"), *got = open_model("got.gguf");
        ck_assert_uint_eq(want->n_tensors, got->n_tensors);
        ck_assert_uint_eq(want->n_kv, got->n_kv);
        for (uint64_t i = 0; i < want->n_tensors; i++) {
            const struct gguf_tensor *a = &want->tensors[i], *b = &got->tensors[i];
            ck_assert_int_eq(a->type, b->type);
            ck_assert_uint_eq(a->bytes, b->bytes);
            ck_assert(memcmp(a->data, b->data, a->bytes) == 0);
        }
        for (uint64_t i = 0; i < want->n_kv; i++) {
            char key[128];
            snprintf(key, sizeof key, "%.*s", (int)want->kv[i].key.len, want->kv[i].key.s);
            const struct gguf_kv *kv = gguf_find(got, key);
            ck_assert_msg(kv && kv->type == want->kv[i].type && kv->n == want->kv[i].n, "%s", key);
        }
        gguf_close(want);
        gguf_close(got);
    }
}
END_TEST

static int files_left(void)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *x; (x = readdir(d));)
        n += x->d_name[0] != '.' && strcmp(x->d_name, "log") != 0;
    closedir(d);
    return n;
}

static int clean(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -f %s/*", dir);
    return system(cmd);
}

START_TEST(wrong_use_is_told_apart_from_failure)
{
    ck_assert_int_eq(clean(), 0);
    ck_assert_int_eq(run("mkmodel"), 2);
    ck_assert_int_eq(run("mkmodel no-such a.gguf"), 2);
    ck_assert(log_has("--list"));
    ck_assert_int_eq(run("mkmodel tiny-llama a.gguf --type Q9"), 2);
    ck_assert_int_eq(run("mkmodel tiny-llama a.gguf --layers zero"), 2);
    ck_assert_int_eq(run("mkmodel tiny-llama no/such/folder/a.gguf"), 1);
    ck_assert_int_eq(run("mkmodel tiny-llama ."), 1);
    ck_assert_int_eq(run("mkmodel --help"), 0);
    ck_assert_int_eq(run("quantize"), 2);
    ck_assert_int_eq(run("quantize a.gguf b.gguf Q9"), 2);
    ck_assert_int_eq(run("quantize a.gguf b.gguf Q8_0"), 1);
    ck_assert_int_eq(run("quantize --help"), 0);
    ck_assert(log_has("Q4_K_M"));
    ck_assert_int_eq(files_left(), 0);

    ck_assert_int_eq(run("mkmodel tiny-llama a.gguf --type F16"), 0);
    ck_assert_int_eq(run("mkmodel tiny-llama b.gguf --type F16"), 0);
    ck_assert_int_eq(run("quantize a.gguf ./a.gguf Q8_0"), 1);
    ck_assert(log_has("is the file that is read"));
    ck_assert_int_eq(run("quantize a.gguf c.gguf Q8_0 --dry-run"), 0);
    ck_assert(same_file("a.gguf", "b.gguf"));
    ck_assert_int_eq(files_left(), 2);
}
END_TEST

START_TEST(a_damaged_tensor_is_named)
{
    ck_assert_int_eq(clean(), 0);
    static float x[64 * 32];
    struct gguf_writer *w;
    x[40 * 32 + 3] = NAN;
    ck_assert_int_eq(gguf_writer_create(path("nan.gguf"), &w, &e), 0);
    gguf_put_str(w, "general.architecture", "llama");
    gguf_put_tensor(w, "blk.0.ffn_up.weight", QT_F32, 2, (uint64_t[]){ 32, 64 });
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    ck_assert_int_eq(gguf_writer_data(w, x, sizeof x, &e), 0);
    ck_assert_int_eq(gguf_writer_finish(w, &e), 0);
    gguf_writer_destroy(w);
    ck_assert_int_eq(run("quantize nan.gguf out.gguf Q8_0"), 1);
    ck_assert(log_has("blk.0.ffn_up.weight"));
    ck_assert(log_has("row 40"));
    ck_assert(log_has("NaN"));
    ck_assert_int_eq(files_left(), 1);
}
END_TEST

int main(void)
{
    ssize_t len = readlink("/proc/self/exe", build, sizeof build - 1);
    for (int i = 0; len > 0 && i < 3; i++) /* build/tests/unit/test_mkmodel */
        while (len > 0 && build[--len] != '/')
            ;
    build[len > 0 ? len : 0] = 0;
    char program[PATH_MAX + 16];
    for (int i = 0; i < 2; i++) {
        snprintf(program, sizeof program, "%s/%s", build, i ? "quantize" : "mkmodel");
        if (access(program, X_OK) != 0) {
            printf("no %s: build it first (make)\n", program);
            return 77;
        }
    }
    if (!mkdtemp(dir)) {
        perror(dir);
        return 1;
    }
    Suite *s = suite_create("mkmodel");
    TCase *t = tcase_create("mkmodel");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, the_file_depends_on_the_seed_and_not_on_threads);
    tcase_add_test(t, every_tiny_model_is_complete);
    tcase_add_test(t, a_model_without_vocabulary_has_its_size);
    tcase_add_test(t, random_blocks_have_the_wanted_spread);
    tcase_add_test(t, quantize_gives_what_mkmodel_writes_in_that_type);
    tcase_add_test(t, wrong_use_is_told_apart_from_failure);
    tcase_add_test(t, a_damaged_tensor_is_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    if (clean() || rmdir(dir))
        perror(dir);
    return failed != 0;
}
