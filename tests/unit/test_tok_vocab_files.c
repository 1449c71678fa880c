/* The vocabulary files of llama.cpp's test suite: every string of NAME.inp must give the ids of NAME.out, and 10,000
 * random strings must come back unchanged. Needs shared/vocab. Qwen's releases compose letters and marks first, which
 * llama.cpp leaves out: there the strings are composed, and those that this changes are not compared. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "model/tok.h"
#include "model/tok_nfc.h"

static const char *const names[] = {"gemma-4", "gpt-2", "llama-bpe", "llama-spm", "qwen2", "qwen35"};

static bool composes(const char *name)
{
    return strncmp(name, "qwen", 4) == 0;
}

static struct tok_buf composed(const char *s, size_t n)
{
    struct tok_buf out = {0};

    ck_assert_int_eq(tok_nfc(s, n, &out), 0);
    return out;
}

static const char *shared_dir(void)
{
    const char *dir = getenv("ZINC_SHARED");

    return dir ? dir : "../shared";
}

static void vocab_path(char out[512], const char *name, const char *suffix)
{
    snprintf(out, 512, "%s/vocab/ggml-vocab-%s.gguf%s", shared_dir(), name, suffix);
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s;
    long size;

    ck_assert_msg(f != NULL, "%s", path);
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    s = malloc((size_t)size + 1);
    *n = fread(s, 1, (size_t)size, f);
    s[*n] = 0;
    fclose(f);
    return s;
}

static void load(const char *name, struct gguf **g, struct tok **t)
{
    char path[512];
    struct err e = {0};

    vocab_path(path, name, "");
    ck_assert_msg(gguf_open(path, g, &e) == 0, "%s", e.msg);
    ck_assert_msg(tok_create(*g, t, &e) == 0, "%s", e.msg);
}

START_TEST(gives_the_expected_ids)
{
    const char *name = names[_i], *sep = "\n__ggml_vocab_test__\n";
    char path[512];
    size_t n_in, n_out, n_cases = 0;
    struct gguf *g;
    struct tok *t;

    load(name, &g, &t);
    vocab_path(path, name, ".inp");
    char *in = read_file(path, &n_in);
    vocab_path(path, name, ".out");
    char *want = read_file(path, &n_out), *line = want;
    for (char *s = in; s;) {
        char *end = memmem(s, n_in - (size_t)(s - in), sep, strlen(sep));
        size_t len = end ? (size_t)(end - s) : n_in - (size_t)(s - in);
        char *eol = strchr(line, '\n'), got[16384];
        struct tok_ids ids = {0};
        int k = 0;
        if (!end && !*line)
            break; /* the file ends with a separator */
        ck_assert_ptr_nonnull(eol);
        *eol = 0;
        struct tok_buf nfc = composed(s, len);
        bool compared = !composes(name) || (nfc.n == len && (len == 0 || memcmp(nfc.s, s, len) == 0));
        tok_buf_finish(&nfc);
        ck_assert_int_eq(tok_encode(t, s, len, 0, &ids, NULL), 0);
        got[0] = 0;
        for (size_t i = 0; i < ids.n; i++)
            k += snprintf(got + k, sizeof got - (size_t)k, "%s%d", i ? " " : "", ids.id[i]);
        line += *line == ' '; /* some files begin each line with a space */
        ck_assert_msg(!compared || strcmp(got, line) == 0, "%s: '%.*s'\n got  %s\nwant %s", name, (int)len, s,
                      got, line);
        tok_ids_finish(&ids);
        line = eol + 1;
        s = end ? end + strlen(sep) : NULL;
        n_cases += compared;
    }
    ck_assert_uint_ge(n_cases, 40);
    ck_assert_str_eq(line, "");
    free(in);
    free(want);
    tok_destroy(t);
    gguf_close(g);
}
END_TEST

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % below;
}

/* Valid and broken UTF-8, white space, ASCII and runs, in proportions that meet every branch. */
static size_t random_text(char *s, size_t max)
{
    size_t n = 0, want = rnd((uint32_t)max - 8);
    uint32_t style = rnd(5);

    while (n < want) {
        uint32_t cp = style == 0   ? rnd(0x80)
                      : style == 1 ? rnd(0x3000)
                      : style == 2 ? rnd(0x110000)
                      : style == 3 ? (uint32_t) " \n\t\r'sSaAzZ09.,!/<|>_"[rnd(21)]
                                   : rnd(256);
        if (style == 4 || rnd(20) == 0) {
            s[n++] = (char)rnd(256);
            continue;
        }
        if (cp == 0x2581)
            continue; /* stands for a space in SPM and gemma4 vocabularies */
        if (cp < 0x80)
            s[n++] = (char)cp;
        else if (cp < 0x800)
            s[n++] = (char)(0xc0 | cp >> 6), s[n++] = (char)(0x80 | (cp & 63));
        else if (cp < 0x10000)
            s[n++] = (char)(0xe0 | cp >> 12), s[n++] = (char)(0x80 | (cp >> 6 & 63)),
            s[n++] = (char)(0x80 | (cp & 63));
        else
            s[n++] = (char)(0xf0 | cp >> 18), s[n++] = (char)(0x80 | (cp >> 12 & 63)),
            s[n++] = (char)(0x80 | (cp >> 6 & 63)), s[n++] = (char)(0x80 | (cp & 63));
    }
    return n;
}

START_TEST(random_strings_come_back)
{
    struct gguf *g;
    struct tok *t;
    struct tok_ids ids = {0};
    struct tok_buf back = {0};
    char s[256];

    load(names[_i], &g, &t);
    for (int k = 0; k < 10000; k++) {
        size_t n = random_text(s, sizeof s);
        if (memmem(s, n, "\xe2\x96\x81", 3))
            continue;
        ids.n = back.n = 0;
        ck_assert_int_eq(tok_encode(t, s, n, rnd(2) ? TOK_ADD_SPECIAL : 0, &ids, NULL), 0);
        ck_assert_int_eq(tok_decode(t, ids.id, ids.n, 0, &back, NULL), 0);
        struct tok_buf want = composed(s, composes(names[_i]) ? n : 0);
        if (!composes(names[_i]))
            ck_assert_int_eq(tok_buf_add(&want, s, n), 0);
        ck_assert_msg(back.n == want.n && (want.n == 0 || memcmp(back.s, want.s, want.n) == 0),
                      "%s: string %d of %zu bytes: %.*s", names[_i], k, n, (int)n, s);
        tok_buf_finish(&want);
    }
    tok_ids_finish(&ids);
    tok_buf_finish(&back);
    tok_destroy(t);
    gguf_close(g);
}
END_TEST

int main(void)
{
    char path[512];
    FILE *f;

    vocab_path(path, names[0], "");
    f = fopen(path, "rb");
    if (!f) {
        printf("no %s (set ZINC_SHARED)\n", path);
        return 77;
    }
    fclose(f);
    Suite *s = suite_create("tok_vocab_files");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, gives_the_expected_ids, 0, (int)ARRAY_LEN(names));
    tcase_add_loop_test(tc, random_strings_come_back, 0, (int)ARRAY_LEN(names));
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
