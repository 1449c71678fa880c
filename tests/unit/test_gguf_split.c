/* Models in several files: opened by the first part, and refused with the name of the part that is missing or wrong. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/gguf.h"
#include "model/gguf_write.h"

static char dir[32];
static struct err e;

static void setup(void)
{
    strcpy(dir, "/tmp/zinc-split-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    e = (struct err){ 0 };
}

static void teardown(void)
{
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -r '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static const char *part_path(int no, int count)
{
    static char path[2][96];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/m-%05d-of-%05d.gguf", dir, no, count);
    return path[turn];
}

struct part {
    int split_no, split_count, total;
    const char *tensor;
    float value;
};

/* One tensor of 4 floats, after the keys of a part. */
static void write_part(const char *path, const struct part *p)
{
    struct gguf_writer *w;
    ck_assert_msg(gguf_writer_create(path, &w, &e) == 0, "%s", e.msg);
    if (p->split_no == 0)
        gguf_put_str(w, "general.architecture", "llama");
    gguf_put_u16(w, "split.no", (uint16_t)p->split_no);
    gguf_put_u16(w, "split.count", (uint16_t)p->split_count);
    gguf_put_i32(w, "split.tensors.count", p->total);
    gguf_put_tensor(w, p->tensor, QT_F32, 1, (uint64_t[]){ 4 });
    ck_assert_msg(gguf_writer_begin(w, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(gguf_writer_data(w, (float[]){ p->value, 2, 3, 4 }, 16, &e), 0);
    ck_assert_msg(gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    gguf_writer_destroy(w);
}

static void write_three(void)
{
    write_part(part_path(1, 3), &(struct part){ 0, 3, 3, "a", 10 });
    write_part(part_path(2, 3), &(struct part){ 1, 3, 3, "b", 20 });
    write_part(part_path(3, 3), &(struct part){ 2, 3, 3, "c", 30 });
}

static void expect(const char *path, int code, const char *part1, const char *part2)
{
    struct gguf *g;
    int rc = gguf_open(path, &g, &e);
    ck_assert_msg(rc == code && !g, "expected %d and '%s', got %d '%s'", code, part1, rc, e.msg);
    ck_assert_msg(strstr(e.msg, part1) && strstr(e.msg, part2), "'%s' lacks '%s' or '%s'", e.msg, part1, part2);
}

START_TEST(parts_open_as_one)
{
    struct gguf *g;
    write_three();
    ck_assert_msg(gguf_open(part_path(1, 3), &g, &e) == 0, "%s", e.msg);
    ck_assert(g->n_parts == 3 && g->n_tensors == 3);
    ck_assert_ptr_nonnull(gguf_find(g, "general.architecture"));
    ck_assert_uint_eq(g->total_bytes, g->parts[0].bytes + g->parts[1].bytes + g->parts[2].bytes);
    for (uint32_t i = 0; i < 3; i++) {
        const struct gguf_tensor *t = gguf_find_tensor(g, (const char *[]){ "a", "b", "c" }[i]);
        ck_assert(t && t->part == i && *(const float *)t->data == 10.0f * (float)(i + 1));
        ck_assert(t->data == g->parts[i].map + t->file_off);
    }
    gguf_close(g);
}
END_TEST

START_TEST(a_missing_part_is_named)
{
    write_three();
    unlink(part_path(2, 3));
    expect(part_path(1, 3), -ENOENT, "part 2 of 3 is missing", part_path(2, 3));
}
END_TEST

START_TEST(another_part_names_the_first)
{
    write_three();
    expect(part_path(3, 3), -EINVAL, "part 3 of a model of 3 parts", part_path(1, 3));
}
END_TEST

START_TEST(parts_of_other_models_are_refused)
{
    write_three();
    write_part(part_path(2, 3), &(struct part){ 1, 4, 3, "b", 20 });
    expect(part_path(1, 3), -EINVAL, part_path(2, 3), "expected part 2 of 3, found part 2 of 4");
    write_part(part_path(2, 3), &(struct part){ 2, 3, 3, "b", 20 });
    expect(part_path(1, 3), -EINVAL, part_path(2, 3), "found part 3 of 3");
    write_part(part_path(2, 3), &(struct part){ 1, 3, 3, "a", 20 });
    expect(part_path(1, 3), -EINVAL, "tensor 'a' appears twice", part_path(1, 3));
    write_part(part_path(2, 3), &(struct part){ 1, 3, 3, "b", 20 });
    write_part(part_path(1, 3), &(struct part){ 0, 3, 4, "a", 10 });
    expect(part_path(1, 3), -EINVAL, "expected 4 tensors over all parts", "found 3");
}
END_TEST

START_TEST(a_damaged_part_is_named)
{
    write_three();
    ck_assert_int_eq(truncate(part_path(3, 3), 40), 0);
    expect(part_path(1, 3), -EINVAL, part_path(3, 3), "download");
}
END_TEST

START_TEST(renamed_parts_are_refused)
{
    char other[96];
    write_three();
    snprintf(other, sizeof other, "%s/model.gguf", dir);
    ck_assert_int_eq(rename(part_path(1, 3), other), 0);
    expect(other, -EINVAL, other, "-00001-of-00003.gguf");
}
END_TEST

START_TEST(absurd_counts_are_refused)
{
    struct gguf_writer *w;
    const char *path = part_path(1, 2);
    static const struct {
        uint64_t no, count;
        const char *msg;
    } bad[] = { { 0, 1ull << 40, "split.count" }, { 7, 2, "split.no" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(gguf_writer_create(path, &w, &e), 0);
        gguf_put_u64(w, "split.no", bad[i].no);
        gguf_put_u64(w, "split.count", bad[i].count);
        ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
        ck_assert_int_eq(gguf_writer_finish(w, &e), 0);
        gguf_writer_destroy(w);
        expect(path, -EINVAL, bad[i].msg, path);
    }
}
END_TEST

START_TEST(memory_holds_no_split_model)
{
    struct gguf_writer *w;
    struct gguf *g;
    uint64_t n;
    ck_assert_int_eq(gguf_writer_create(NULL, &w, &e), 0);
    gguf_put_u16(w, "split.no", 0);
    gguf_put_u16(w, "split.count", 2);
    ck_assert_int_eq(gguf_writer_begin(w, &e), 0);
    ck_assert_int_eq(gguf_writer_finish(w, &e), 0);
    const void *p = gguf_writer_bytes(w, &n);
    ck_assert_int_eq(gguf_open_memory("m-00001-of-00002.gguf", p, n, &g, &e), -ENOTSUP);
    gguf_writer_destroy(w);
}
END_TEST

/* Written to: told. Replaced by another file of that name, or gone: what was opened is still there. */
START_TEST(a_part_that_changes_is_named)
{
    struct gguf *g;
    char cmd[512], second[96];
    write_three();
    strcpy(second, part_path(2, 3));
    ck_assert_msg(gguf_open(part_path(1, 3), &g, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(gguf_check_unchanged(g, &e), 0);
    snprintf(cmd, sizeof cmd, "cp '%s' '%s.new' && mv '%s.new' '%s'", second, second, second, second);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_int_eq(gguf_check_unchanged(g, &e), 0);
    snprintf(cmd, sizeof cmd, "printf x >>'%s'", part_path(3, 3));
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_int_eq(gguf_check_unchanged(g, &e), -ESTALE);
    ck_assert_msg(strstr(e.msg, "m-00003-of-00003.gguf") && strstr(e.msg, "written to"), "%s", e.msg);
    snprintf(cmd, sizeof cmd, "rm '%s'", part_path(3, 3));
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_int_eq(gguf_check_unchanged(g, &e), 0);
    gguf_close(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf_split");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_test(t, parts_open_as_one);
    tcase_add_test(t, a_missing_part_is_named);
    tcase_add_test(t, another_part_names_the_first);
    tcase_add_test(t, parts_of_other_models_are_refused);
    tcase_add_test(t, a_damaged_part_is_named);
    tcase_add_test(t, renamed_parts_are_refused);
    tcase_add_test(t, absurd_counts_are_refused);
    tcase_add_test(t, memory_holds_no_split_model);
    tcase_add_test(t, a_part_that_changes_is_named);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
