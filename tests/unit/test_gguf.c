/* The GGUF reader against files that are cut short, damaged in one place, or not GGUF at all: each is refused with a
 * line that says what is wrong. Files are built byte by byte here, so that every field can be wrong. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "model/gguf.h"
#include "tests/lib/skip.h"

typedef unsigned long long ull;

static struct err e;

/* --- a file, byte by byte --------------------------------------------------------------------------------------- */

struct file {
    _Alignas(16) uint8_t b[8192];
    uint64_t n;
};

static void put(struct file *f, const void *p, uint64_t n)
{
    ck_assert(f->n + n <= sizeof f->b);
    memcpy(f->b + f->n, p, n);
    f->n += n;
}

static void put32(struct file *f, uint32_t v)
{
    put(f, &v, 4);
}

static void put64(struct file *f, uint64_t v)
{
    put(f, &v, 8);
}

static void put_text(struct file *f, const char *s)
{
    put64(f, strlen(s));
    put(f, s, strlen(s));
}

static void header(struct file *f, uint64_t n_tensors, uint64_t n_kv)
{
    *f = (struct file){ 0 };
    put(f, "GGUF", 4);
    put32(f, 3);
    put64(f, n_tensors);
    put64(f, n_kv);
}

static void key(struct file *f, const char *k, uint32_t type)
{
    put_text(f, k);
    put32(f, type);
}

static void tensor(struct file *f, const char *name, uint32_t type, uint64_t ne0, uint64_t ne1, uint64_t offset)
{
    put_text(f, name);
    put32(f, 2);
    put64(f, ne0);
    put64(f, ne1);
    put32(f, type);
    put64(f, offset);
}

static void data(struct file *f, uint64_t bytes)
{
    f->n = align_up(f->n, 32) + bytes;
    ck_assert(f->n <= sizeof f->b);
}

static int open_file(const struct file *f, struct gguf **g)
{
    e = (struct err){ 0 };
    return gguf_open_memory("test.gguf", f->b, f->n, g, &e);
}

static void expect(const struct file *f, int code, const char *part1, const char *part2)
{
    struct gguf *g;
    int rc = open_file(f, &g);
    ck_assert_msg(rc == code && e.code == code, "expected %d and '%s', got %d '%s'", code, part1, rc, e.msg);
    ck_assert_ptr_null(g);
    ck_assert_msg(strncmp(e.msg, "test.gguf: ", 11) == 0, "'%s' does not start with the file", e.msg);
    ck_assert_msg(strstr(e.msg, part1) && strstr(e.msg, part2), "'%s' lacks '%s' or '%s'", e.msg, part1, part2);
}

/* Two keys, an array of strings, two tensors: 96 + 64 bytes of data. */
static void small_file(struct file *f)
{
    header(f, 2, 4);
    key(f, "general.architecture", GGUF_STR);
    put_text(f, "llama");
    key(f, "n", GGUF_U32);
    put32(f, 7);
    key(f, "words", GGUF_ARR);
    put32(f, GGUF_STR);
    put64(f, 2);
    put_text(f, "ab");
    put_text(f, "");
    key(f, "flags", GGUF_ARR);
    put32(f, GGUF_BOOL);
    put64(f, 3);
    put(f, "\1\0\1", 3);
    tensor(f, "first", QT_F32, 4, 6, 0);
    tensor(f, "second", QT_Q8_0, 32, 1, 96);
    data(f, 96 + 34);
}

/* --- whole files ------------------------------------------------------------------------------------------------ */

START_TEST(a_small_file_opens)
{
    struct file f;
    struct gguf *g;
    small_file(&f);
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);
    ck_assert(g->version == 3 && g->alignment == 32 && g->n_kv == 4 && g->n_tensors == 2 && g->n_parts == 1);
    ck_assert_uint_eq(g->total_bytes, f.n);
    const struct gguf_tensor *t = gguf_find_tensor(g, "second");
    ck_assert(t && t->bytes == 34 && t->data == f.b + t->file_off && t->file_off + 34 == f.n);
    struct gguf_str s;
    ck_assert(gguf_kv_str(gguf_find(g, "words"), 1, &s) && s.len == 0);
    ck_assert_str_eq(gguf_path(g), "test.gguf");
    gguf_close(g);
}
END_TEST

START_TEST(version_2_opens)
{
    struct file f;
    struct gguf *g;
    small_file(&f);
    f.b[4] = 2;
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);
    gguf_close(g);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    struct file f;
    small_file(&f);
    for (uint64_t n = 0; n < f.n; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees the first byte too far */
        struct gguf *g;
        memcpy(exact, f.b, n);
        int rc = gguf_open_memory("cut.gguf", exact, n, &g, &e);
        ck_assert_msg(rc == -EINVAL, "cut at %llu of %llu: %d", (ull)n, (ull)f.n, rc);
        ck_assert_msg(strstr(e.msg, "cut.gguf: ") && (strstr(e.msg, "download") || n < 4), "%llu: %s", (ull)n, e.msg);
        free(exact);
    }
}
END_TEST

/* A changed byte may still be a valid file; it must never be read outside. */
START_TEST(every_flipped_byte_is_survived)
{
    struct file f;
    small_file(&f);
    uint8_t *copy = malloc(f.n);
    for (uint64_t i = 0; i < f.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct gguf *g;
            memcpy(copy, f.b, f.n);
            copy[i] ^= (uint8_t)(1 << bit);
            e = (struct err){ 0 };
            if (gguf_open_memory("flip.gguf", copy, f.n, &g, &e))
                ck_assert_msg(e.msg[0] && (e.code == -EINVAL || e.code == -ENOTSUP), "byte %llu: %s", (ull)i, e.msg);
            else
                gguf_close(g);
        }
    free(copy);
}
END_TEST

START_TEST(no_dimensions_means_one_element)
{
    struct file f;
    struct gguf *g;
    header(&f, 1, 0);
    put_text(&f, "scalar");
    put32(&f, 0);
    put32(&f, QT_F32);
    put64(&f, 0);
    data(&f, 4);
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);
    ck_assert(g->tensors[0].n_dims == 1 && g->tensors[0].ne[0] == 1 && g->tensors[0].bytes == 4);
    gguf_close(g);
}
END_TEST

START_TEST(tensors_may_have_gaps_and_any_order)
{
    struct file f;
    struct gguf *g;
    header(&f, 2, 0);
    tensor(&f, "later", QT_F32, 4, 1, 128);
    tensor(&f, "sooner", QT_F32, 4, 1, 32);
    data(&f, 144);
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);
    gguf_close(g);
}
END_TEST

/* --- header ----------------------------------------------------------------------------------------------------- */

START_TEST(headers)
{
    struct file f;
    small_file(&f);
    f.b[0] = 'X';
    expect(&f, -EINVAL, "not a GGUF file", "found 58 47 55 46");
    small_file(&f);
    f.b[4] = 1;
    expect(&f, -ENOTSUP, "version 1", "2 and 3");
    f.b[4] = 4;
    expect(&f, -ENOTSUP, "version 4", "newer zinc");
    f.b[4] = 0;
    expect(&f, -ENOTSUP, "version 0", "2 and 3");
    f.b[7] = 3;
    expect(&f, -ENOTSUP, "big-endian", "little-endian");
    f = (struct file){ 0 };
    put(&f, "version https://git-lfs.github.com/spec/v1\n", 43);
    expect(&f, -EINVAL, "not a GGUF file", "Git LFS pointer");
    f = (struct file){ 0 };
    expect(&f, -EINVAL, "empty", "download");
}
END_TEST

START_TEST(counts_beyond_the_file)
{
    struct file f;
    header(&f, 1ull << 60, 0);
    expect(&f, -EINVAL, "tensor count 1152921504606846976", "at most 0");
    header(&f, 0, UINT64_MAX);
    expect(&f, -EINVAL, "metadata count 18446744073709551615", "download");
    header(&f, 0, 3);
    data(&f, 3 * 14 - 1 - 8);
    expect(&f, -EINVAL, "metadata count 3", "at most");
}
END_TEST

/* --- metadata --------------------------------------------------------------------------------------------------- */

START_TEST(strings_and_keys)
{
    struct file f;
    header(&f, 0, 1);
    put64(&f, 1ull << 40);
    data(&f, 64);
    expect(&f, -EINVAL, "1 GiB", "1099511627776");
    header(&f, 0, 1);
    put64(&f, 1000);
    data(&f, 64);
    expect(&f, -EINVAL, "truncated", "1000 bytes");
    header(&f, 0, 1);
    key(&f, "", GGUF_U32);
    put32(&f, 0);
    data(&f, 0);
    expect(&f, -EINVAL, "empty key", "entry 0");
    header(&f, 0, 2);
    key(&f, "same", GGUF_U32);
    put32(&f, 0);
    key(&f, "same", GGUF_U8);
    put(&f, "x", 1);
    expect(&f, -EINVAL, "'same'", "twice");
    header(&f, 0, 1);
    key(&f, "k", GGUF_STR);
    put64(&f, UINT64_MAX);
    data(&f, 64);
    expect(&f, -EINVAL, "key 'k'", "18446744073709551615");
}
END_TEST

START_TEST(value_types)
{
    struct file f;
    header(&f, 0, 1);
    key(&f, "k", 13);
    put32(&f, 0);
    expect(&f, -EINVAL, "key 'k'", "found 13");
    header(&f, 0, 1);
    key(&f, "k", GGUF_BOOL);
    put(&f, "\2", 1);
    expect(&f, -EINVAL, "key 'k'", "found 2");
    header(&f, 0, 1);
    key(&f, "k", GGUF_U64);
    put32(&f, 0);
    expect(&f, -EINVAL, "key 'k'", "truncated");
}
END_TEST

START_TEST(arrays)
{
    struct file f;
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, GGUF_ARR);
    put64(&f, 1);
    expect(&f, -EINVAL, "key 'k'", "array of arrays");
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, 99);
    put64(&f, 1);
    expect(&f, -EINVAL, "key 'k'", "found 99");
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, GGUF_U8);
    put64(&f, (1ull << 30) + 1);
    expect(&f, -EINVAL, "key 'k'", "2^30");
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, GGUF_U64);
    put64(&f, 1ull << 30);
    expect(&f, -EINVAL, "key 'k'", "truncated");
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, GGUF_STR);
    put64(&f, 1ull << 30);
    expect(&f, -EINVAL, "key 'k'", "truncated");
    header(&f, 0, 1);
    key(&f, "k", GGUF_ARR);
    put32(&f, GGUF_STR);
    put64(&f, 2);
    put_text(&f, "ok");
    put64(&f, 50);
    expect(&f, -EINVAL, "key 'k', element 1", "truncated");
}
END_TEST

START_TEST(alignment)
{
    struct file f;
    struct gguf *g;
    static const uint32_t bad[] = { 0, 1, 4, 12, 48, UINT32_MAX };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        header(&f, 0, 1);
        key(&f, "general.alignment", GGUF_U32);
        put32(&f, bad[i]);
        expect(&f, -EINVAL, "general.alignment", "power of two");
    }
    header(&f, 0, 1);
    key(&f, "general.alignment", GGUF_U64);
    put64(&f, 32);
    expect(&f, -EINVAL, "general.alignment", "expected u32, found u64");
    header(&f, 1, 1);
    key(&f, "general.alignment", GGUF_U32);
    put32(&f, 256);
    tensor(&f, "t", QT_F32, 4, 1, 0);
    f.n = 256 + 16;
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);
    ck_assert_uint_eq(g->tensors[0].file_off, 256);
    gguf_close(g);
}
END_TEST

/* --- tensors ---------------------------------------------------------------------------------------------------- */

START_TEST(tensor_names)
{
    struct file f;
    header(&f, 2, 0);
    tensor(&f, "same", QT_F32, 4, 1, 0);
    tensor(&f, "same", QT_F32, 4, 1, 32);
    data(&f, 48);
    expect(&f, -EINVAL, "tensor 'same'", "twice");
    header(&f, 1, 0);
    tensor(&f, "", QT_F32, 4, 1, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "tensor name ''", "found 0");
    char name[65];
    memset(name, 'n', 64);
    name[64] = 0;
    header(&f, 1, 0);
    tensor(&f, name, QT_F32, 4, 1, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "1 to 63 bytes", "found 64");
}
END_TEST

START_TEST(tensor_shapes)
{
    struct file f;
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 4, 0, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "tensor 't'", "dimension 1 is 0");
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, UINT64_MAX, 1, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "tensor 't'", "dimension 0 is -1");
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 1ull << 32, 1ull << 32, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "tensor 't'", "overflow");
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 1ull << 62, 1, 0);
    data(&f, 16);
    expect(&f, -EINVAL, "tensor 't'", "overflow");
    header(&f, 1, 0);
    tensor(&f, "t", QT_Q4_K, 128, 1, 0);
    data(&f, 160);
    expect(&f, -EINVAL, "rows of 128", "multiple of 256 for Q4_K");
    header(&f, 1, 0);
    put_text(&f, "t");
    put32(&f, 5);
    data(&f, 160);
    expect(&f, -EINVAL, "tensor 't'", "at most 4 dimensions, found 5");
}
END_TEST

START_TEST(tensor_types)
{
    struct file f;
    static const uint32_t gone[] = { 4, 5, 31, 32, 33, 36, 37, 38, 43, 1000, UINT32_MAX };
    for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
        header(&f, 1, 0);
        tensor(&f, "t", gone[i], 256, 1, 0);
        data(&f, 1024);
        expect(&f, -EINVAL, "tensor 't'", "unknown or removed");
    }
    static const struct {
        uint32_t id;
        const char *name;
    } unread[] = { { 9, "Q8_1" }, { 15, "Q8_K" }, { 24, "I8" }, { 42, "Q2_0" } };
    for (size_t i = 0; i < ARRAY_LEN(unread); i++) {
        header(&f, 1, 0);
        tensor(&f, "t", unread[i].id, 256, 1, 0);
        data(&f, 1024);
        expect(&f, -ENOTSUP, unread[i].name, "requantise");
    }
}
END_TEST

START_TEST(tensor_places)
{
    struct file f;
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 4, 1, 16);
    data(&f, 64);
    expect(&f, -EINVAL, "tensor 't': data offset 16", "alignment 32");
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 4, 1, 64);
    data(&f, 64);
    expect(&f, -EINVAL, "tensor 't': 16 bytes", "download it again");
    header(&f, 1, 0);
    tensor(&f, "t", QT_F32, 4, 1, UINT64_MAX - 31);
    data(&f, 64);
    expect(&f, -EINVAL, "tensor 't': 16 bytes", "file ends");
    header(&f, 3, 0);
    tensor(&f, "a", QT_F32, 16, 1, 64);
    tensor(&f, "b", QT_F32, 4, 1, 0);
    tensor(&f, "c", QT_F32, 4, 1, 96);
    data(&f, 256);
    expect(&f, -EINVAL, "tensors 'a'", "and 'c'");
}
END_TEST

START_TEST(control_characters_stay_out_of_messages)
{
    struct file f;
    header(&f, 1, 0);
    tensor(&f, "a\033[2J\nb", QT_Q4_K, 128, 1, 0);
    data(&f, 160);
    expect(&f, -EINVAL, "tensor 'a?[2J?b'", "multiple of 256");
}
END_TEST

/* --- typed reads ------------------------------------------------------------------------------------------------ */

START_TEST(typed_reads_convert_what_fits)
{
    struct file f;
    struct gguf *g;
    header(&f, 0, 5);
    key(&f, "neg", GGUF_I32);
    put32(&f, (uint32_t)-5);
    key(&f, "big", GGUF_U64);
    put64(&f, 1ull << 40);
    key(&f, "real", GGUF_F32);
    put(&f, &(float){ 1.5f }, 4);
    key(&f, "yes", GGUF_BOOL);
    put(&f, "\1", 1);
    key(&f, "arr", GGUF_ARR);
    put32(&f, GGUF_U16);
    put64(&f, 2);
    put(&f, "\1\0\2\0", 4);
    ck_assert_msg(open_file(&f, &g) == 0, "%s", e.msg);

    uint32_t u = 99;
    float x = 9;
    bool b = false;
    struct gguf_str s = { "unchanged", 9 };
    ck_assert(gguf_get_u32(g, "absent", &u, &e) == 0 && u == 99);
    ck_assert(gguf_get_str(g, "absent", &s, &e) == 0 && s.len == 9);
    ck_assert_int_eq(gguf_get_u32(g, "neg", &u, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "test.gguf: key 'neg'") && strstr(e.msg, "i32 -5"), "%s", e.msg);
    ck_assert_int_eq(gguf_get_u32(g, "big", &u, &e), -EINVAL);
    ck_assert_int_eq(gguf_get_u32(g, "arr", &u, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "array of 2 u16"), "%s", e.msg);
    ck_assert_int_eq(gguf_get_u32(g, "real", &u, &e), -EINVAL);
    ck_assert(gguf_get_f32(g, "real", &x, &e) == 0 && x == 1.5f);
    ck_assert_int_eq(gguf_get_f32(g, "neg", &x, &e), -EINVAL);
    ck_assert(gguf_get_bool(g, "yes", &b, &e) == 0 && b);
    ck_assert_int_eq(gguf_get_bool(g, "neg", &b, &e), -EINVAL);
    ck_assert_int_eq(gguf_get_str(g, "yes", &s, &e), -EINVAL);
    uint64_t v;
    int64_t i;
    double d;
    ck_assert(gguf_kv_u64(gguf_find(g, "arr"), 1, &v) && v == 2);
    ck_assert(!gguf_kv_u64(gguf_find(g, "arr"), 2, &v));
    ck_assert(!gguf_kv_u64(gguf_find(g, "neg"), 0, &v));
    ck_assert(gguf_kv_i64(gguf_find(g, "neg"), 0, &i) && i == -5);
    ck_assert(!gguf_kv_f64(gguf_find(g, "neg"), 0, &d));
    gguf_close(g);
}
END_TEST

/* --- the file system -------------------------------------------------------------------------------------------- */

static void expect_path(const char *path, int code, const char *part)
{
    struct gguf *g;
    int rc = gguf_open(path, &g, &e);
    ck_assert_msg(rc == code, "%s: %d, %s", path, rc, e.msg);
    ck_assert_msg(strstr(e.msg, path) && strstr(e.msg, part), "'%s' lacks '%s'", e.msg, part);
}

START_TEST(paths_that_are_no_files)
{
    char dir[] = "/tmp/zinc-gguf-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    expect_path(dir, -EISDIR, "directory");
    snprintf(path, sizeof path, "%s/none.gguf", dir);
    expect_path(path, -ENOENT, "No such file");
    FILE *f = fopen(path, "w");
    fclose(f);
    expect_path(path, -EINVAL, "empty");
    if (geteuid() != 0) {
        chmod(path, 0);
        expect_path(path, -EACCES, "Permission denied");
    }
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect_path(path, -EINVAL, "pipe");
    unlink(path);
    rmdir(dir);
}
END_TEST

/* Vocabularies of up to 262144 tokens and 514906 merges. They open in some 10 ms; work that grows with the square of
 * their length would take minutes, and the limit of this case is 10 s. */
START_TEST(real_vocabularies_open_fast)
{
    static const char *const names[] = { "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "qwen2", "qwen35" };
    const char *shared = getenv("ZINC_SHARED") ? getenv("ZINC_SHARED") : "../shared";
    unsigned n_missing = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[512];
        struct gguf *g;
        snprintf(path, sizeof path, "%s/vocab/ggml-vocab-%s.gguf", shared, names[i]);
        if (access(path, R_OK)) { /* the folder is optional */
            n_missing++;
            continue;
        }
        ck_assert_msg(gguf_open(path, &g, &e) == 0, "%s", e.msg);
        const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
        struct gguf_str s;
        ck_assert(tokens && tokens->n > 1000 && gguf_kv_str(tokens, tokens->n - 1, &s));
        gguf_close(g);
    }
    if (n_missing)
        cases_skipped(n_missing, "vocabularies not found in %s/vocab (set ZINC_SHARED)", shared);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    tcase_add_test(t, a_small_file_opens);
    tcase_add_test(t, version_2_opens);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_flipped_byte_is_survived);
    tcase_add_test(t, no_dimensions_means_one_element);
    tcase_add_test(t, tensors_may_have_gaps_and_any_order);
    tcase_add_test(t, headers);
    tcase_add_test(t, counts_beyond_the_file);
    tcase_add_test(t, strings_and_keys);
    tcase_add_test(t, value_types);
    tcase_add_test(t, arrays);
    tcase_add_test(t, alignment);
    tcase_add_test(t, tensor_names);
    tcase_add_test(t, tensor_shapes);
    tcase_add_test(t, tensor_types);
    tcase_add_test(t, tensor_places);
    tcase_add_test(t, control_characters_stay_out_of_messages);
    tcase_add_test(t, typed_reads_convert_what_fits);
    tcase_add_test(t, paths_that_are_no_files);
    TCase *fast = tcase_create("fast");
    tcase_set_timeout(fast, 10);
    tcase_add_test(fast, real_vocabularies_open_fast);
    suite_add_tcase(s, fast);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
