/* The GGUF writer: what it writes, the reader gives back; what it refuses; what a failure leaves on the disk. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "model/gguf.h"
#include "model/gguf_write.h"

static struct err e;

static struct gguf_writer *new_writer(const char *path)
{
    struct gguf_writer *w;
    e = (struct err){ 0 };
    ck_assert_msg(gguf_writer_create(path, &w, &e) == 0, "%s", e.msg);
    return w;
}

static void put_everything(struct gguf_writer *w)
{
    gguf_put_u8(w, "u8", 200);
    gguf_put_i8(w, "i8", -100);
    gguf_put_u16(w, "u16", 60000);
    gguf_put_i16(w, "i16", -30000);
    gguf_put_u32(w, "u32", 4000000000u);
    gguf_put_i32(w, "i32", -2000000000);
    gguf_put_u64(w, "u64", UINT64_MAX);
    gguf_put_i64(w, "i64", INT64_MIN);
    gguf_put_f32(w, "f32", 0.5f);
    gguf_put_f64(w, "f64", 1e300);
    gguf_put_bool(w, "bool", true);
    gguf_put_str(w, "str", "hello");
    gguf_put_strn(w, "strn", "a\0b", 3);
    gguf_put_arr(w, "arr", GGUF_I32, (int32_t[]){ 1, -2, 3 }, 3);
    gguf_put_arr(w, "empty", GGUF_U8, NULL, 0);
    gguf_put_arr_str(w, "strs", (struct gguf_str[]){ { "x", 1 }, { "", 0 }, { "yz", 2 } }, 3);
}

static int64_t i64_of(const struct gguf *g, const char *key, uint64_t i)
{
    int64_t v = 0;
    ck_assert_ptr_nonnull(gguf_find(g, key));
    ck_assert_msg(gguf_kv_i64(gguf_find(g, key), i, &v), "key %s", key);
    return v;
}

static void check_everything(const struct gguf *g)
{
    uint64_t u;
    double d;
    struct gguf_str s;
    ck_assert_int_eq(i64_of(g, "u8", 0), 200);
    ck_assert_int_eq(i64_of(g, "i8", 0), -100);
    ck_assert_int_eq(i64_of(g, "u16", 0), 60000);
    ck_assert_int_eq(i64_of(g, "i16", 0), -30000);
    ck_assert_int_eq(i64_of(g, "u32", 0), 4000000000);
    ck_assert_int_eq(i64_of(g, "i32", 0), -2000000000);
    ck_assert(gguf_kv_u64(gguf_find(g, "u64"), 0, &u) && u == UINT64_MAX);
    ck_assert(i64_of(g, "i64", 0) == INT64_MIN);
    ck_assert(gguf_kv_f64(gguf_find(g, "f32"), 0, &d) && d == 0.5);
    ck_assert(gguf_kv_f64(gguf_find(g, "f64"), 0, &d) && d == 1e300);
    ck_assert_int_eq(i64_of(g, "bool", 0), 1);
    ck_assert(gguf_kv_str(gguf_find(g, "str"), 0, &s) && s.len == 5 && memcmp(s.s, "hello", 5) == 0);
    ck_assert(gguf_kv_str(gguf_find(g, "strn"), 0, &s) && s.len == 3 && memcmp(s.s, "a\0b", 3) == 0);
    ck_assert_int_eq(i64_of(g, "arr", 1), -2);
    ck_assert_uint_eq(gguf_find(g, "arr")->n, 3);
    ck_assert_uint_eq(gguf_find(g, "empty")->n, 0);
    ck_assert(gguf_kv_str(gguf_find(g, "strs"), 1, &s) && s.len == 0);
    ck_assert(gguf_kv_str(gguf_find(g, "strs"), 2, &s) && s.len == 2 && memcmp(s.s, "yz", 2) == 0);
    ck_assert(!gguf_kv_str(gguf_find(g, "strs"), 3, &s));
    ck_assert_ptr_null(gguf_find(g, "nothing"));
}

/* Writes two tensors in odd pieces and finishes. */
static void write_tensors(struct gguf_writer *w)
{
    float a[5] = { 1, 2, 3, 4, 5 };
    uint8_t b[34 * 2];
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)i;
    ck_assert_uint_eq(gguf_put_tensor(w, "a", QT_F32, 1, (uint64_t[]){ 5 }), sizeof a);
    ck_assert_uint_eq(gguf_put_tensor(w, "b", QT_Q8_0, 2, (uint64_t[]){ 32, 2 }), sizeof b);
    ck_assert_msg(gguf_writer_begin(w, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(gguf_writer_data(w, a, 7, &e), 0);
    ck_assert_int_eq(gguf_writer_data(w, (char *)a + 7, sizeof a - 7, &e), 0);
    ck_assert_int_eq(gguf_writer_data(w, b, sizeof b, &e), 0);
    ck_assert_msg(gguf_writer_finish(w, &e) == 0, "%s", e.msg);
}

static void check_tensors(const struct gguf *g)
{
    const struct gguf_tensor *a = gguf_find_tensor(g, "a"), *b = gguf_find_tensor(g, "b");
    ck_assert(a && b && !gguf_find_tensor(g, "c"));
    ck_assert(a->type == QT_F32 && a->n_dims == 1 && a->ne[0] == 5 && a->ne[3] == 1 && a->bytes == 20);
    ck_assert(b->type == QT_Q8_0 && b->n_dims == 2 && b->ne[0] == 32 && b->ne[1] == 2 && b->bytes == 68);
    ck_assert(((const float *)a->data)[4] == 5 && b->data[67] == 67);
    ck_assert_uint_eq(a->file_off % g->alignment, 0);
    ck_assert_uint_eq(b->file_off % g->alignment, 0);
}

START_TEST(memory_round_trip)
{
    struct gguf_writer *w = new_writer(NULL);
    put_everything(w);
    write_tensors(w);
    uint64_t n;
    const void *p = gguf_writer_bytes(w, &n);
    ck_assert_uint_eq(n, gguf_writer_total(w));
    struct gguf *g;
    ck_assert_msg(gguf_open_memory("mem", p, n, &g, &e) == 0, "%s", e.msg);
    check_everything(g);
    check_tensors(g);
    gguf_close(g);
    gguf_writer_destroy(w);
}
END_TEST

START_TEST(copying_keys_keeps_every_value)
{
    struct gguf_writer *w = new_writer(NULL), *w2 = new_writer(NULL);
    put_everything(w);
    gguf_put_u32(w, "general.alignment", 128);
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    ck_assert_int_eq(gguf_writer_finish(w, &e), 0);
    uint64_t n;
    const void *p = gguf_writer_bytes(w, &n);
    struct gguf *g;
    ck_assert_int_eq(gguf_open_memory("mem", p, n, &g, &e), 0);
    for (uint64_t i = 0; i < g->n_kv; i++)
        gguf_put_kv(w2, &g->kv[i]);
    write_tensors(w2);
    p = gguf_writer_bytes(w2, &n);
    struct gguf *g2;
    ck_assert_msg(gguf_open_memory("mem2", p, n, &g2, &e) == 0, "%s", e.msg);
    check_everything(g2);
    check_tensors(g2);
    ck_assert_uint_eq(g2->alignment, 128);
    gguf_close(g2);
    gguf_close(g);
    gguf_writer_destroy(w);
    gguf_writer_destroy(w2);
}
END_TEST

static int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *f; (f = readdir(d));)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

START_TEST(the_file_appears_when_it_is_whole)
{
    char dir[] = "/tmp/zinc-gguf-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    struct gguf_writer *w = new_writer(path);
    put_everything(w);
    gguf_writer_destroy(w);
    ck_assert_int_eq(files_in(dir), 0); /* given up: nothing stays */
    w = new_writer(path);
    put_everything(w);
    ck_assert_int_ne(access(path, F_OK), 0);
    write_tensors(w);
    gguf_writer_destroy(w);
    ck_assert_int_eq(files_in(dir), 1);
    struct gguf *g;
    ck_assert_msg(gguf_open(path, &g, &e) == 0, "%s", e.msg);
    check_everything(g);
    check_tensors(g);
    gguf_close(g);
    unlink(path);
    rmdir(dir);
}
END_TEST

static void expect_begin_error(struct gguf_writer *w, const char *part)
{
    ck_assert_int_eq(gguf_writer_begin(w, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, part) != NULL, "'%s' lacks '%s'", e.msg, part);
    ck_assert_uint_eq(gguf_writer_total(w), 0);
    gguf_writer_destroy(w);
}

START_TEST(mistakes_are_reported_at_begin)
{
    struct gguf_writer *w = new_writer(NULL);
    gguf_put_u32(w, "twice", 1);
    gguf_put_u32(w, "twice", 2);
    gguf_put_u32(w, "later", 2);
    expect_begin_error(w, "'twice'");

    w = new_writer(NULL);
    gguf_put_tensor(w, "t", QT_F32, 1, (uint64_t[]){ 1 });
    gguf_put_tensor(w, "t", QT_F32, 1, (uint64_t[]){ 1 });
    expect_begin_error(w, "tensor 't': given twice");

    static const struct {
        enum qtype type;
        uint32_t n_dims;
        uint64_t ne[2];
    } bad[] = { { QT_Q8_0, 1, { 33 } }, { QT_F32, 0, { 1 } }, { QT_F32, 5, { 1 } }, { QT_F32, 2, { 1, 0 } },
                { QT_F32, 2, { 1ull << 40, 1ull << 40 } }, { (enum qtype)15, 1, { 256 } } };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        w = new_writer(NULL);
        ck_assert_uint_eq(gguf_put_tensor(w, "odd", bad[i].type, bad[i].n_dims, bad[i].ne), 0);
        expect_begin_error(w, "'odd'");
    }

    w = new_writer(NULL);
    gguf_put_u32(w, "general.alignment", 48);
    expect_begin_error(w, "general.alignment");
}
END_TEST

START_TEST(data_must_match_the_announcement)
{
    struct gguf_writer *w = new_writer(NULL);
    gguf_put_tensor(w, "t", QT_F32, 1, (uint64_t[]){ 4 });
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    uint8_t b[20] = { 0 };
    ck_assert_int_eq(gguf_writer_data(w, b, 15, &e), 0);
    ck_assert_int_eq(gguf_writer_finish(w, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "tensor 't': expected 16 bytes of data, was given 15") != NULL, "%s", e.msg);
    ck_assert_int_eq(gguf_writer_data(w, b, 2, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "1 bytes of data more") != NULL, "%s", e.msg);
    gguf_writer_destroy(w);
}
END_TEST

START_TEST(system_errors_name_the_path)
{
    struct gguf_writer *w = NULL;
    ck_assert_int_eq(gguf_writer_create("/nonexistent-folder/m.gguf", &w, &e), -ENOENT);
    ck_assert_msg(strstr(e.msg, "/nonexistent-folder/m.gguf") != NULL, "%s", e.msg);
    ck_assert_ptr_null(w);
}
END_TEST

/* /dev/full stands for a disk without room: the partial file is a link to it. */
START_TEST(a_full_disk_is_reported_and_leaves_nothing)
{
    char dir[] = "/tmp/zinc-gguf-XXXXXX", path[64], part[96];
    if (access("/dev/full", W_OK))
        return;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    snprintf(part, sizeof part, "%s.part-%ld", path, (long)getpid());
    ck_assert_int_eq(symlink("/dev/full", part), 0);
    struct gguf_writer *w = new_writer(path);
    gguf_put_tensor(w, "t", QT_F32, 1, (uint64_t[]){ 4 });
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    ck_assert_int_eq(gguf_writer_data(w, (float[4]){ 0 }, 16, &e), 0);
    ck_assert_int_eq(gguf_writer_finish(w, &e), -ENOSPC);
    ck_assert_msg(strstr(e.msg, path) && strstr(e.msg, "No space") && strstr(e.msg, "make room"), "%s", e.msg);
    gguf_writer_destroy(w);
    ck_assert_int_eq(files_in(dir), 0);
    rmdir(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf_write");
    TCase *t = tcase_create("all");
    suite_add_tcase(s, t);
    tcase_add_test(t, memory_round_trip);
    tcase_add_test(t, copying_keys_keeps_every_value);
    tcase_add_test(t, the_file_appears_when_it_is_whole);
    tcase_add_test(t, mistakes_are_reported_at_begin);
    tcase_add_test(t, data_must_match_the_announcement);
    tcase_add_test(t, system_errors_name_the_path);
    tcase_add_test(t, a_full_disk_is_reported_and_leaves_nothing);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
