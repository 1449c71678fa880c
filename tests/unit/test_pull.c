/* Names of models, header lines, the hub's list, the catalogue and the state of a file that is not whole yet. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pull/catalogue.h"
#include "pull/chosen.h"
#include "pull/http.h"
#include "pull/hub.h"
#include "pull/name.h"
#include "pull/part.h"

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- names ---- */

START_TEST(names_give_a_place)
{
    static const struct {
        const char *name;
        enum name_kind kind;
        const char *place;
    } good[] = {
        { "hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf", NAME_REPO_FILE, "hf/Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf" },
        { "hf:a/b:F16/m-F16-00001-of-00003.gguf", NAME_REPO_FILE, "hf/a/b/F16/m-F16-00001-of-00003.gguf" },
        { "hf:a/b:UD-Q4_K_XL", NAME_REPO_TAG, "hf/a/b" },
        { "hf:a/b", NAME_REPO_TAG, "hf/a/b" },
        { "https://example.org/x/m.gguf", NAME_URL, "https/example.org/x/m.gguf" },
        { "http://127.0.0.1:80/m.gguf?download=true", NAME_URL, "http/127.0.0.1:80/m.gguf" },
        { "qwen3-4b", NAME_CATALOGUE, "" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct model_name m;
        struct err e = { 0 };
        char place[NAME_PLACE];
        ck_assert_msg(name_parse(good[i].name, &m, &e) == 0, "%s: %s", good[i].name, e.msg);
        ck_assert_int_eq(m.kind, good[i].kind);
        name_place(&m, place);
        ck_assert_str_eq(place, good[i].place);
    }
}
END_TEST

START_TEST(hostile_names_are_refused)
{
    static const char *const bad[] = {
        "", "hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/b:", "hf:a/b/c:Q4_0", "hf:../b", "hf:a/..", "hf:.a/b", "hf:a/b:../x.gguf",
        "hf:a/b:/etc/x.gguf", "hf:a/b:x/../../y.gguf", "hf:a/b:x//y.gguf", "hf:a/b:x\\y.gguf", "hf:a/b:x\ny.gguf", "hf:a/b:x/.y.gguf",
        "hf:a/b:.gguf", "hf:a/b:x.gguf/", "hf:a/b:x.bin/y", "hf:a/b:Q4 0", "https://", "https:///m.gguf", "https://h/", "https://h/m.bin",
        "https://user:secret@h/m.gguf", "https://h/../m.gguf", "https://h/%2e%2e/m.gguf", "https://h/a/./m.gguf", "https://h?/m.gguf",
        "https://../m.gguf", "../x", "a/b", "m.gguf", "x y", ".x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_name m;
        struct err e = { 0 };
        ck_assert_msg(name_parse(bad[i], &m, &e) == -EINVAL && e.msg[0], "'%s' is taken", bad[i]);
        ck_assert_msg(!strstr(e.msg, "secret"), "a password is shown: %s", e.msg);
    }
}
END_TEST

START_TEST(types_and_parts_of_file_names)
{
    static const struct {
        const char *file, *type;
    } t[] = {
        { "Qwen3-4B-Q4_K_M.gguf", "Q4_K_M" }, { "m-UD-Q4_K_XL-00001-of-00002.gguf", "UD-Q4_K_XL" }, { "d-x/m.q8_0.gguf", "q8_0" },
        { "UD-IQ1_S.gguf", "UD-IQ1_S" },      { "m.gguf", NULL },                                   { "CLOUD-F16.gguf", "F16" },
    };
    unsigned no, count;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        char type[NAME_TAG] = "";
        ck_assert_int_eq(name_type(t[i].file, type), t[i].type != NULL);
        if (t[i].type)
            ck_assert_str_eq(type, t[i].type);
    }
    char name[] = "m-00001-of-00012.gguf";
    ck_assert(name_split(name, &no, &count) && no == 1 && count == 12);
    name_set_part(name, 12);
    ck_assert_str_eq(name, "m-00012-of-00012.gguf");
    ck_assert(!name_split("m-00013-of-00012.gguf", &no, &count));
    ck_assert(!name_split("m-00000-of-00012.gguf", &no, &count));
}
END_TEST

/* ---- header lines ---- */

static struct http_head head_of(const char *const *lines)
{
    struct http_head h = { 0 };
    for (; *lines; lines++)
        http_head_line(&h, *lines, strlen(*lines));
    return h;
}

START_TEST(headers_of_an_answer)
{
    char sum[SHA256_TEXT];
    struct http_head h = head_of((const char *const[]){ "HTTP/1.1 302 Found\r\n", "X-LINKED-ETAG: \"" SUM "\"\r\n", "x-linked-size:  42 \r\n",
                                                        "ETag: \"one\"\r\n", NULL });
    ck_assert(sha256_from_etag(h.linked_etag, sum));
    ck_assert_str_eq(sum, SUM);
    ck_assert_uint_eq(h.linked_size, 42);
    ck_assert_str_eq(h.etag, "\"one\"");
    size_t before = h.n_bytes;
    http_head_line(&h, "HTTP/1.1 206 Partial Content\r\n", 30);
    ck_assert(!h.etag[0] && !h.linked_etag[0] && h.n_bytes == before + 30);
    http_head_line(&h, "Content-Range: bytes 10-19/100\r\n", 32);
    ck_assert(h.has_range && h.first == 10 && h.last == 19 && h.total == 100);
}
END_TEST

START_TEST(wrong_headers_count_as_none)
{
    static const char *const ranges[] = { "bytes 19-10/100", "bytes 0-100/100", "bytes 0-9/*", "bytes */100", "bytes 0-9/18446744073709551616",
                                          "octets 0-9/100", "bytes 0-9/100x", "bytes -9/100", "" };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct http_head h = { 0 };
        char line[80];
        http_head_line(&h, line, (size_t)snprintf(line, sizeof line, "Content-Range: %s\r\n", ranges[i]));
        ck_assert_msg(!h.has_range, "%s", ranges[i]);
    }
    struct http_head h = head_of((const char *const[]){ "ETag: W/\"weak\"\r\n", "X-Linked-Size: -5\r\n", "X-Linked-Etag: " SUM "\r\n", NULL });
    ck_assert(!h.etag[0] && !h.linked_size && !h.linked_etag[0]);
}
END_TEST

/* ---- the hub's list ---- */

static const char tree[] =
    "[{\"type\":\"file\",\"path\":\"README.md\",\"size\":5},"
    "{\"type\":\"file\",\"path\":\"m-Q4_K_M.gguf\",\"size\":1,\"lfs\":{\"oid\":\"" SUM "\",\"size\":4000}},"
    "{\"type\":\"file\",\"path\":\"m-UD-Q4_K_M.gguf\",\"size\":4100},"
    "{\"type\":\"file\",\"path\":\"m-Q2_K.gguf\",\"size\":2000},"
    "{\"type\":\"file\",\"path\":\"F16/m-F16-00001-of-00002.gguf\",\"size\":8000},"
    "{\"type\":\"file\",\"path\":\"F16/m-F16-00002-of-00002.gguf\",\"size\":7000},"
    "{\"type\":\"file\",\"path\":\"mmproj-F16.gguf\",\"size\":10},"
    "{\"type\":\"file\",\"path\":\"../m-Q8_0.gguf\",\"size\":10},"
    "{\"type\":\"directory\",\"path\":\"F16\"}]";

START_TEST(a_file_is_chosen_by_its_type)
{
    struct hub_file *f;
    struct err e = { 0 };
    size_t n, refused, i;
    char why[200];
    ck_assert_int_eq(hub_read_tree(tree, sizeof tree - 1, &f, &n, &refused, &e), 0);
    ck_assert_uint_eq(n, 6);
    ck_assert_uint_eq(refused, 1);
    ck_assert_int_eq(hub_choose(f, n, "q4_k_m", 0, &i, why, &e), 0);
    ck_assert_str_eq(f[i].path, "m-Q4_K_M.gguf");
    ck_assert_uint_eq(f[i].size, 4000);
    ck_assert_str_eq(f[i].sha256, SUM);
    ck_assert_int_eq(hub_choose(f, n, "F16", 0, &i, why, &e), 0);
    ck_assert_str_eq(f[i].path, "F16/m-F16-00001-of-00002.gguf");
    ck_assert_uint_eq(hub_model_bytes(f, n, i), 15000);
    ck_assert_int_eq(hub_choose(f, n, "Q8_0", 0, &i, why, &e), -ENOENT);
    ck_assert(strstr(e.msg, "F16 Q2_K Q4_K_M UD-Q4_K_M"));
    static const struct {
        uint64_t memory;
        const char *path, *why;
    } by_memory[] = { { 0, "m-Q4_K_M.gguf", "usual" }, { 100000, "m-Q4_K_M.gguf", "fits" }, { 3000, "m-Q2_K.gguf", "does not fit" }, { 10, "m-Q2_K.gguf", "smallest" } };
    for (size_t k = 0; k < sizeof by_memory / sizeof *by_memory; k++) {
        ck_assert_int_eq(hub_choose(f, n, "", by_memory[k].memory, &i, why, &e), 0);
        ck_assert_str_eq(f[i].path, by_memory[k].path);
        ck_assert_msg(strstr(why, by_memory[k].why) != NULL, "%s", why);
    }
    free(f);
}
END_TEST

START_TEST(lists_that_are_none)
{
    static const char *const bad[] = { "", "<html>", "{}", "{\"error\":\"x\"}", "[", "\"x\"" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hub_file *f;
        size_t n, refused;
        struct err e = { 0 };
        ck_assert_int_eq(hub_read_tree(bad[i], strlen(bad[i]), &f, &n, &refused, &e), -EINVAL);
        ck_assert(e.msg[0]);
    }
}
END_TEST

/* ---- the catalogue ---- */

START_TEST(the_catalogue_is_sound)
{
    struct catalogue_entry *c;
    struct err e = { 0 };
    size_t n;
    ck_assert_msg(catalogue_open(&c, &n, &e) == 0, "%s", e.msg);
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!c[i].sha256[0] || c[i].size, "%s: a sum without a size", c[i].id);
    ck_assert_str_eq(catalogue_nearest(c, n, "qwen3-4"), "qwen3-4b");
    free(c);
}
END_TEST

#define ENTRY(id, name, sum)                                                                                                            \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"family\":\"f\",\"about\":\"a\",\"size\":1,\"sha256\":" sum ",\"context\":1,\"kv_bytes\":null}"

START_TEST(hostile_catalogues_are_refused)
{
    static const char *const bad[] = {
        "", "[]", "{\"models\":{}}", "{\"models\":[1]}", "{\"models\":[" ENTRY("../x", "hf:a/b:Q4_0", "null") "]}",
        "{\"models\":[" ENTRY("x", "hf:a/b:../c.gguf", "null") "]}", "{\"models\":[" ENTRY("x", "https://h/m.gguf", "null") "]}",
        "{\"models\":[" ENTRY("x", "hf:a/b:Q4_0", "\"12\"") "]}", "{\"models\":[" ENTRY("x", "hf:a/b:Q4_0", "7") "]}",
        "{\"models\":[" ENTRY("x", "hf:a/b:Q4_0", "null") "," ENTRY("x", "hf:a/b:Q8_0", "null") "]}",
    };
    struct catalogue_entry *c;
    size_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = { 0 };
        ck_assert_msg(catalogue_read(bad[i], strlen(bad[i]), &c, &n, &e) == -EINVAL && e.msg[0], "%s", bad[i]);
    }
    static const char good[] = "{\"models\":[" ENTRY("x", "hf:a/b:Q4_0", "\"" SUM "\"") "]}";
    ck_assert_int_eq(catalogue_read(good, sizeof good - 1, &c, &n, NULL), 0);
    ck_assert_str_eq(c[0].sha256, SUM);
    free(c);
}
END_TEST

/* ---- how far a file is ---- */

START_TEST(a_state_is_read_as_it_was_written)
{
    struct part_state s, again;
    ck_assert_int_eq(part_state_begin(&s, 3 * PART_MIN_PIECE + 7, "\"tag\"", SUM), 0);
    ck_assert_uint_eq(s.n, 4);
    ck_assert_uint_eq(part_state_bytes(&s, 3), 7);
    s.done[0] = PART_MIN_PIECE;
    s.done[1] = 5;
    s.done[3] = 7;
    ck_assert_uint_eq(part_state_done(&s), PART_MIN_PIECE + 12);
    ck_assert_uint_eq(part_state_front(&s), PART_MIN_PIECE + 5);
    char *text = part_state_write(&s);
    ck_assert_int_eq(part_state_read(text, strlen(text), &again), 0);
    ck_assert(again.size == s.size && again.n == s.n && !memcmp(again.done, s.done, s.n * sizeof *s.done));
    ck_assert_str_eq(again.etag, "\"tag\"");
    ck_assert_str_eq(again.sha256, SUM);
    free(text);
    part_state_clear(&s);
    part_state_clear(&again);
    ck_assert_int_eq(part_state_begin(&s, UINT64_MAX, "", ""), -EFBIG);
    ck_assert_int_eq(part_state_begin(&s, 0, "", ""), -EINVAL);
}
END_TEST

START_TEST(states_that_are_none)
{
    static const char *const bad[] = {
        "", "{}", "{\"version\":2,\"size\":3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"\",\"done\":[0]}",
        "{\"version\":1,\"size\":3,\"piece\":1,\"etag\":\"\",\"sha256\":\"\",\"done\":[0,0,0]}",
        "{\"version\":1,\"size\":3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"\",\"done\":[4]}",
        "{\"version\":1,\"size\":3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"\",\"done\":[-1]}",
        "{\"version\":1,\"size\":3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"\",\"done\":[0,0]}",
        "{\"version\":1,\"size\":-3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"\",\"done\":[]}",
        "{\"version\":1,\"size\":3,\"piece\":1048576,\"etag\":\"\",\"sha256\":\"xyz\",\"done\":[0]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct part_state s;
        ck_assert_msg(part_state_read(bad[i], strlen(bad[i]), &s) == -EINVAL, "%s", bad[i]);
        ck_assert_ptr_null(s.done);
    }
}
END_TEST

START_TEST(without_a_choice_the_largest_that_fits_is_the_default)
{
    const struct store_model m[] = {
        { .bytes = 10, .n_parts = 1, .n_here = 1 }, { .bytes = 30, .n_parts = 2, .n_here = 2 }, { .bytes = 20, .n_parts = 1, .n_here = 1 },
        { .bytes = 25, .n_parts = 2, .n_here = 1 }, /* begun */
    };
    bool taken[4] = { 0 };
    ck_assert_uint_eq(chosen_by_size(m, 4, 0, taken), 1);
    ck_assert_uint_eq(chosen_by_size(m, 4, 30, taken), 1);
    ck_assert_uint_eq(chosen_by_size(m, 4, 29, taken), 2);
    taken[2] = true;
    ck_assert_uint_eq(chosen_by_size(m, 4, 29, taken), 0);
    ck_assert_uint_eq(chosen_by_size(m, 4, 9, taken), 4);
    ck_assert_uint_eq(chosen_by_size(m, 0, 0, taken), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pull");
    TCase *tc = tcase_create("pull");
    tcase_add_test(tc, names_give_a_place);
    tcase_add_test(tc, hostile_names_are_refused);
    tcase_add_test(tc, types_and_parts_of_file_names);
    tcase_add_test(tc, headers_of_an_answer);
    tcase_add_test(tc, wrong_headers_count_as_none);
    tcase_add_test(tc, a_file_is_chosen_by_its_type);
    tcase_add_test(tc, lists_that_are_none);
    tcase_add_test(tc, the_catalogue_is_sound);
    tcase_add_test(tc, hostile_catalogues_are_refused);
    tcase_add_test(tc, a_state_is_read_as_it_was_written);
    tcase_add_test(tc, states_that_are_none);
    tcase_add_test(tc, without_a_choice_the_largest_that_fits_is_the_default);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
