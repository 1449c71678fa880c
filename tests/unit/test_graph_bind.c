/* Weights of a stream found in the file that it was made from, and in no other. */
#include "model/gguf_write.h"
#include "tests/stream/compile.h"

static struct fake_model fake;

/* The fake model's tensors as a file in memory, all zero; without tensor `skip`; `shift`: one more before them. */
static struct gguf_writer *write_file(int skip, bool shift)
{
    static uint8_t zeros[1 << 16];
    struct gguf_writer *w = NULL;
    struct err e = {0};
    ck_assert_int_eq(gguf_writer_create(NULL, &w, &e), 0);
    gguf_put_str(w, "general.architecture", "llama");
    if (shift)
        gguf_put_tensor(w, "extra", QT_F32, 1, (uint64_t[]){64});
    for (uint32_t i = 0; i < fake.n_tensors; i++)
        if ((int)i != skip)
            gguf_put_tensor(w, fake.names[i], fake.tensors[i].type, fake.tensors[i].n_dims, fake.tensors[i].ne);
    ck_assert_msg(gguf_writer_begin(w, &e) == 0, "%s", e.msg);
    if (shift)
        ck_assert_int_eq(gguf_writer_data(w, zeros, 256, &e), 0);
    for (uint32_t i = 0; i < fake.n_tensors; i++)
        if ((int)i != skip)
            ck_assert_int_eq(gguf_writer_data(w, zeros, fake.tensors[i].bytes, &e), 0);
    ck_assert_msg(gguf_writer_finish(w, &e) == 0, "%s", e.msg);
    return w;
}

static struct gguf *open_file(struct gguf_writer *w)
{
    struct gguf *g = NULL;
    struct err e = {0};
    uint64_t n;
    const void *p = gguf_writer_bytes(w, &n);
    ck_assert_msg(gguf_open_memory("memory.gguf", p, n, &g, &e) == 0, "%s", e.msg);
    return g;
}

/* The stream of the fake model as it lies in g. */
static struct stream *compile_for(const struct gguf *g)
{
    struct stream *s = NULL;
    struct err e = {0};
    for (uint32_t i = 0; i < fake.n_tensors; i++) {
        const struct gguf_tensor *t = gguf_find_tensor(g, fake.names[i]);
        ck_assert_ptr_nonnull(t);
        fake.tensors[i].file_off = t->file_off;
        fake.tensors[i].part = t->part;
    }
    ck_assert_msg(graph_compile(&fake.m, &FAKE_DECODE, &s, &e) == 0, "%s", e.msg);
    return s;
}

START_TEST(every_weight_is_found_in_its_own_file)
{
    struct err e = {0};
    fake_qwen35moe(&fake);
    struct gguf_writer *w = write_file(-1, false);
    struct gguf *g = open_file(w);
    struct stream *s = compile_for(g);
    const uint8_t **data = calloc(s->h.n_weights, sizeof *data);
    ck_assert_msg(graph_bind_weights(s, g, data, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        ck_assert_ptr_eq(data[i], gguf_find_tensor(g, stream_str(s, s->weights[i].name))->data);
    free(data);
    stream_free(s);
    gguf_close(g);
    gguf_writer_destroy(w);
}
END_TEST

static void expect_refusal(const struct stream *s, struct gguf_writer *w, const char *tensor)
{
    struct err e = {0};
    struct gguf *g = open_file(w);
    const uint8_t **data = calloc(s->h.n_weights, sizeof *data);
    ck_assert_int_eq(graph_bind_weights(s, g, data, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, tensor) && strstr(e.msg, "memory.gguf") && strstr(e.msg, "another"), "%s", e.msg);
    free(data);
    gguf_close(g);
    gguf_writer_destroy(w);
}

START_TEST(another_file_is_refused_by_tensor)
{
    fake_llama(&fake);
    struct gguf_writer *w = write_file(-1, false);
    struct gguf *g = open_file(w);
    struct stream *s = compile_for(g);
    gguf_close(g);
    gguf_writer_destroy(w);
    expect_refusal(s, write_file(5, false), fake.names[5]);        /* missing        */
    expect_refusal(s, write_file(-1, true), "token_embd.weight");  /* lies elsewhere */
    fake.tensors[8].type = QT_Q8_0;
    fake.tensors[8].bytes = qtype_row_bytes(QT_Q8_0, fake.tensors[8].ne[0]) * fake.tensors[8].ne[1];
    expect_refusal(s, write_file(-1, false), fake.names[8]);       /* another type   */
    stream_free(s);
}
END_TEST

START_TEST(a_table_that_lost_its_hash_is_refused)
{
    struct err e = {0};
    fake_llama(&fake);
    struct gguf_writer *w = write_file(-1, false);
    struct gguf *g = open_file(w);
    struct stream *s = compile_for(g);
    const uint8_t **data = calloc(s->h.n_weights, sizeof *data);
    s->h.weights_hash ^= 1;
    ck_assert_int_eq(graph_bind_weights(s, g, data, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "hash"));
    free(data);
    stream_free(s);
    gguf_close(g);
    gguf_writer_destroy(w);
}
END_TEST

int main(void)
{
    return RUN_TESTS("weight binding", every_weight_is_found_in_its_own_file, another_file_is_refused_by_tensor,
                     a_table_that_lost_its_hash_is_refused);
}
