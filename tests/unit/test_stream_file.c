/* Streams as files: round trip, and what damage is answered with. */
#include <unistd.h>

#include "graph/ir.h"
#include "tests/stream/compile.h"

static char path[] = "/tmp/zinc-stream-XXXXXX";

static void make_path(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

/* The bytes of a saved stream, *n of them. */
static uint8_t *saved(uint32_t model, size_t *n)
{
    struct err e = {0};
    struct stream *s = fake_compile(model, FAKE_DECODE);
    ck_assert_msg(stream_save(s, path, &e) == 0, "%s", e.msg);
    FILE *f = fopen(path, "rb");
    uint8_t *p = malloc(1 << 20);
    *n = fread(p, 1, 1 << 20, f);
    fclose(f);
    stream_free(s);
    return p;
}

START_TEST(a_loaded_stream_dumps_as_the_saved_one)
{
    make_path();
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE), *t = NULL;
        struct err e = {0};
        ck_assert_msg(stream_save(s, path, &e) == 0, "%s", e.msg);
        ck_assert_msg(stream_load(path, &t, &e) == 0, "%s", e.msg);
        char *a = fake_dump(s), *b = fake_dump(t);
        ck_assert_str_eq(a, b);
        ck_assert_mem_eq(&s->h, &t->h, sizeof s->h);
        ck_assert_mem_eq(s->consts, t->consts, s->h.const_bytes);
        free(a);
        free(b);
        stream_free(s);
        stream_free(t);
    }
    unlink(path);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    make_path();
    size_t n;
    uint8_t *p = saved(0, &n);
    for (size_t i = 0; i < n; i += i < 200 ? 1 : 61) {
        struct stream *s = NULL;
        struct err e = {0};
        uint8_t *cut = malloc(i ? i : 1); /* exactly as long, so that a sanitizer sees a read behind it */
        memcpy(cut, p, i);
        ck_assert_int_eq(stream_load_memory("cut", cut, i, &s, &e), -EINVAL);
        ck_assert_ptr_null(s);
        ck_assert_ptr_nonnull(strstr(e.msg, "cut"));
        free(cut);
    }
    free(p);
    unlink(path);
}
END_TEST

START_TEST(every_flipped_bit_is_refused)
{
    make_path();
    size_t n;
    uint8_t *p = saved(2, &n);
    for (size_t i = 0; i < n; i += i < 160 ? 1 : 37) {
        struct stream *s = NULL;
        struct err e = {0};
        p[i] ^= 1u << i % 8;
        ck_assert_msg(stream_load_memory("flipped", p, n, &s, &e) == -EINVAL, "byte %zu", i);
        ck_assert_int_gt(strlen(e.msg), 10);
        p[i] ^= 1u << i % 8;
    }
    free(p);
    unlink(path);
}
END_TEST

START_TEST(damage_behind_a_right_hash_is_refused_or_harmless)
{
    make_path();
    size_t n;
    uint8_t *p = saved(fake_index("qwen35moe"), &n);
    for (size_t i = 0; i < n - 8; i += i < 160 ? 1 : 13)
        for (int bit = 0; bit < 8; bit += 7) {
            struct stream *s = NULL;
            struct err e = {0};
            p[i] ^= 1u << bit;
            uint64_t hash = stream_hash(p, n - 8, 0);
            memcpy(p + n - 8, &hash, 8);
            if (stream_load_memory("flipped", p, n, &s, &e) == 0) {
                free(fake_dump(s));
                stream_free(s);
            } else {
                ck_assert_int_gt(strlen(e.msg), 10);
            }
            p[i] ^= 1u << bit;
        }
    free(p);
    unlink(path);
}
END_TEST

START_TEST(other_versions_and_other_files_are_named)
{
    make_path();
    size_t n;
    uint8_t *p = saved(0, &n);
    struct stream *s = NULL;
    struct err e = {0};
    p[7] = 9;
    ck_assert_int_eq(stream_load_memory("new.zstream", p, n, &s, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "version 9"));
    memcpy(p, "GGUF", 4);
    ck_assert_int_eq(stream_load_memory("model.gguf", p, n, &s, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "model.gguf: not a command stream"));
    ck_assert_int_eq(stream_load("/nonexistent/a.zstream", &s, &e), -ENOENT);
    ck_assert_int_eq(stream_load("/", &s, &e), -EINVAL);
    ck_assert_int_eq(stream_save(&(struct stream){0}, "/nonexistent/a", &e), -ENOENT);
    free(p);
    unlink(path);
}
END_TEST

int main(void)
{
    return RUN_TESTS("stream files", a_loaded_stream_dumps_as_the_saved_one, every_truncation_is_refused,
                     every_flipped_bit_is_refused, damage_behind_a_right_hash_is_refused_or_harmless,
                     other_versions_and_other_files_are_named);
}
