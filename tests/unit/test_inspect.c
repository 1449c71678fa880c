/* The description of a file: what it says of a whole model, of a file that does not run, and of hostile names. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_write.h"
#include "model/inspect.h"

static struct err e;

/* A llama of one layer whose name and one tensor's name carry control bytes. */
static struct gguf_writer *write_model(const char *arch)
{
    static const struct {
        const char *name;
        uint64_t ne[2];
    } tensors[] = {
        { "token_embd.weight", { 32, 8 } },         { "output_norm.weight", { 32, 1 } },
        { "blk.0.attn_norm.weight", { 32, 1 } },    { "blk.0.attn_q.weight", { 32, 32 } },
        { "blk.0.attn_k.weight", { 32, 16 } },      { "blk.0.attn_v.weight", { 32, 16 } },
        { "blk.0.attn_output.weight", { 32, 32 } }, { "blk.0.ffn_norm.weight", { 32, 1 } },
        { "blk.0.ffn_gate.weight", { 32, 48 } },    { "blk.0.ffn_up.weight", { 32, 48 } },
        { "blk.0.ffn_down.weight", { 48, 32 } },    { "bad\033[2J\xff\xe2\x80\xae name", { 4, 1 } },
    };
    struct gguf_writer *w;
    ck_assert_int_eq(gguf_writer_create(NULL, &w, &e), 0);
    gguf_put_str(w, "general.architecture", arch);
    gguf_put_str(w, "general.name", "Na\nme \xc3\xa9");
    gguf_put_u32(w, "llama.block_count", 1);
    gguf_put_u32(w, "llama.context_length", 4096);
    gguf_put_u32(w, "llama.embedding_length", 32);
    gguf_put_u32(w, "llama.feed_forward_length", 48);
    gguf_put_u32(w, "llama.attention.head_count", 2);
    gguf_put_u32(w, "llama.attention.head_count_kv", 1);
    gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_str(w, "tokenizer.chat_template", "{{ x }}");
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        bytes += gguf_put_tensor(w, tensors[i].name, QT_F32, 2, tensors[i].ne);
    ck_assert_msg(gguf_writer_begin(w, &e) == 0, "%s", e.msg);
    void *zeros = calloc(1, bytes);
    ck_assert_int_eq(gguf_writer_data(w, zeros, bytes, &e), 0);
    free(zeros);
    ck_assert_int_eq(gguf_writer_finish(w, &e), 0);
    return w;
}

/* The text that `describe` writes, to be freed. */
static char *describe(const char *arch, bool json, bool tensors)
{
    struct gguf_writer *w = write_model(arch);
    struct gguf *g;
    uint64_t n;
    char *text = NULL;
    size_t len;
    const void *p = gguf_writer_bytes(w, &n);
    ck_assert_msg(gguf_open_memory("x.gguf", p, n, &g, &e) == 0, "%s", e.msg);
    FILE *f = open_memstream(&text, &len);
    ck_assert_int_eq(json ? inspect_json(f, g, tensors) : inspect_print(f, g, tensors), 0);
    fclose(f);
    gguf_close(g);
    gguf_writer_destroy(w);
    return text;
}

static void expect(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' lacks '%s'", text, part);
}

START_TEST(text_of_a_model)
{
    char *t = describe("llama", false, false);
    expect(t, "family llama");
    expect(t, "layers        1\n");
    expect(t, "2 heads, 1 KV heads, head size 16");
    expect(t, "context       4096; KV cache 64 bytes a token");
    expect(t, "none in the file (8 token ids)");
    expect(t, "chat template yes, 7 bytes");
    expect(t, "F32         12 tensors");
    ck_assert_ptr_null(strstr(t, "token_embd"));
    ck_assert_ptr_null(strstr(t, "not runnable"));
    free(t);
}
END_TEST

START_TEST(text_of_tensors_is_printable)
{
    char *t = describe("llama", false, true);
    expect(t, "32 x 48                        blk.0.ffn_gate.weight");
    expect(t, "bad\\x1b[2J\\xff\\xe2\\x80\\xae name");
    expect(t, "Na\\x0ame \xc3\xa9");
    for (const char *c = t; *c; c++)
        ck_assert_msg((unsigned char)*c >= 0x20 || *c == '\n', "byte %d in '%s'", *c, t);
    free(t);
}
END_TEST

START_TEST(text_of_what_does_not_run)
{
    char *t = describe("mamba", false, false);
    expect(t, "family mamba");
    expect(t, "not runnable  x.gguf: architecture 'mamba': zinc runs llama,");
    expect(t, "F32         12 tensors");
    free(t);
}
END_TEST

static json_t *parse(char *text)
{
    json_error_t err;
    json_t *j = json_loads(text, 0, &err);
    ck_assert_msg(j != NULL, "%s in %s", err.text, text);
    free(text);
    return j;
}

START_TEST(json_of_a_model)
{
    json_t *j = parse(describe("llama", true, true)), *m = json_object_get(j, "model"), *t = json_object_get(j, "tensors");
    ck_assert(json_is_true(json_object_get(j, "runs")) && json_is_true(json_object_get(j, "chat_template")));
    ck_assert_str_eq(json_string_value(json_object_get(j, "name")), "Na\\x0ame \xc3\xa9");
    ck_assert_int_eq(json_integer_value(json_object_get(m, "kv_bytes_per_token_f16")), 64);
    ck_assert_int_eq(json_integer_value(json_object_get(m, "head_dim")), 16);
    ck_assert_uint_eq(json_array_size(t), 12);
    json_t *first = json_array_get(t, 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "type")), "F32");
    ck_assert_int_eq(json_integer_value(json_object_get(first, "bytes")), 1024);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(t, 11), "name")),
                     "bad\\x1b[2J\\xff\\xe2\\x80\\xae name");
    json_decref(j);
}
END_TEST

START_TEST(json_of_what_does_not_run)
{
    json_t *j = parse(describe("mamba", true, false));
    ck_assert(json_is_false(json_object_get(j, "runs")) && !json_object_get(j, "model") && !json_object_get(j, "tensors"));
    expect(json_string_value(json_object_get(j, "why_not")), "architecture 'mamba'");
    json_decref(j);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
    struct gguf_writer *w = write_model("llama");
    struct gguf *g;
    uint64_t n;
    FILE *f = fopen("/dev/full", "w");
    const void *p = gguf_writer_bytes(w, &n);
    ck_assert_int_eq(gguf_open_memory("x.gguf", p, n, &g, &e), 0);
    if (f) {
        ck_assert_int_eq(inspect_print(f, g, true), -EIO);
        fclose(f);
    }
    gguf_close(g);
    gguf_writer_destroy(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("inspect");
    TCase *t = tcase_create("all");
    suite_add_tcase(s, t);
    tcase_add_test(t, text_of_a_model);
    tcase_add_test(t, text_of_tensors_is_printable);
    tcase_add_test(t, text_of_what_does_not_run);
    tcase_add_test(t, json_of_a_model);
    tcase_add_test(t, json_of_what_does_not_run);
    tcase_add_test(t, a_full_disk_is_an_error);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
