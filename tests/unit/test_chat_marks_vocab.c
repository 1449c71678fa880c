/* What a conversation says stays text, with the vocabularies of llama.cpp's test suite. Needs shared/vocab. */
#include <stdlib.h>

#include "tests/unit/chat_marks.h"

static const char *const names[] = { "qwen2", "qwen35", "llama-bpe", "gemma-4", "llama-spm" };

static void vocab_path(char out[512], const char *name)
{
    const char *dir = getenv("ZINC_SHARED");
    snprintf(out, 512, "%s/vocab/ggml-vocab-%s.gguf", dir ? dir : "../shared", name);
}

START_TEST(what_is_said_has_no_marks)
{
    char path[512];
    struct gguf *g;
    struct tok *t;
    struct err e = { 0 };
    vocab_path(path, names[_i]);
    ck_assert_msg(gguf_open(path, &g, &e) == 0 && tok_create(g, &t, &e) == 0, "%s", e.msg);
    for (int f = 0; f < CHAT_FORMAT_COUNT; f++)
        check_format(t, (enum chat_format)f, _i != 4); /* SentencePiece puts a space behind a user-defined token */
    tok_destroy(t);
    gguf_close(g);
}
END_TEST

int main(void)
{
    char path[512];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        vocab_path(path, names[i]);
        FILE *f = fopen(path, "rb");
        if (!f) {
            printf("no %s (set ZINC_SHARED)\n", path);
            return 77;
        }
        fclose(f);
    }
    Suite *s = suite_create("chat_marks_vocab");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, what_is_said_has_no_marks, 0, (int)ARRAY_LEN(names));
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
