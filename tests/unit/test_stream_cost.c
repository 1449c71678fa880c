/* What commands are said to move and compute. */
#include "tests/stream/compile.h"

static uint64_t bytes_of(const struct stream *s, uint32_t i, uint32_t rows, uint32_t kv_len)
{
    uint64_t bytes, flops;
    stream_cmd_cost(s, i, rows, kv_len, &bytes, &flops);
    return bytes;
}

static uint64_t flops_of(const struct stream *s, uint32_t i, uint32_t rows, uint32_t kv_len)
{
    uint64_t bytes, flops;
    stream_cmd_cost(s, i, rows, kv_len, &bytes, &flops);
    return flops;
}

static uint32_t find(const struct stream *s, uint32_t layer, enum cmd_op op)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].layer == layer && s->cmds[i].op == op)
            return i;
    ck_abort_msg("no %s in layer %u", cmd_name(op), layer);
}

START_TEST(a_dense_token_moves_every_weight_once)
{
    struct stream *s = fake_compile(fake_index("llama"), FAKE_DECODE);
    uint64_t got = 0, want = 0, kv = 2 /* k, v */ * FAKE_KV * FAKE_HEAD * 2;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        got += bytes_of(s, i, 1, 100);
    for (uint32_t i = 1; i < s->h.n_weights; i++)
        want += s->weights[i].bytes;
    ck_assert_str_eq(stream_str(s, s->weights[0].name), "token_embd.weight");
    want += qtype_row_bytes(QT_Q8_0, FAKE_EMBD) + 2 /* layers */ * (kv + 100 * kv);
    ck_assert_uint_eq(got, want);
    stream_free(s);
}
END_TEST

START_TEST(weights_count_once_per_step_and_arithmetic_per_row)
{
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    uint32_t i = find(s, 0, CMD_PROJ), embed = find(s, CMD_NO_LAYER, CMD_EMBED);
    ck_assert_uint_eq(bytes_of(s, i, 1, 1), bytes_of(s, i, 8, 1));
    ck_assert_uint_eq(flops_of(s, i, 1, 1) * 8, flops_of(s, i, 8, 1));
    ck_assert_uint_ge(flops_of(s, i, 1, 1), 2ull * FAKE_EMBD * (FAKE_HEADS + 2 * FAKE_KV) * FAKE_HEAD);
    ck_assert_uint_eq(bytes_of(s, embed, 8, 1), 8 * bytes_of(s, embed, 1, 1));
    ck_assert_uint_eq(bytes_of(s, i, 0, 1), 0);
    stream_free(s);
}
END_TEST

START_TEST(experts_count_at_most_once_each)
{
    struct stream *s = fake_compile(fake_index("qwen3moe"), FAKE_PREFILL);
    uint32_t i = find(s, 0, CMD_MOE_DOWN);
    uint64_t expert = qtype_row_bytes(QT_Q4_1, FAKE_FF_EXP) * FAKE_EMBD;
    ck_assert_uint_eq(bytes_of(s, i, 1, 1), FAKE_USED * expert);
    ck_assert_uint_eq(bytes_of(s, i, 2, 1), 2 * FAKE_USED * expert);
    ck_assert_uint_eq(bytes_of(s, i, 32, 1), FAKE_EXPERTS * expert);
    stream_free(s);
}
END_TEST

START_TEST(attention_grows_with_the_cache_up_to_its_window)
{
    struct stream *s = fake_compile(fake_index("gpt_oss"), FAKE_DECODE);
    uint32_t slides = find(s, 0, CMD_ATTN), full = find(s, 1, CMD_ATTN);
    uint64_t position = 2 * FAKE_KV * FAKE_HEAD * 2;
    ck_assert_uint_eq(bytes_of(s, full, 1, 1000), 1000 * position);
    ck_assert_uint_eq(bytes_of(s, slides, 1, 1000), 128 * position);
    ck_assert_uint_eq(bytes_of(s, slides, 2, 100), 2 * 100 * position);
    ck_assert_uint_eq(flops_of(s, full, 1, 10), 10 * 4ull * FAKE_HEADS * FAKE_HEAD);
    stream_free(s);
}
END_TEST

START_TEST(the_head_counts_output_rows)
{
    struct stream *s = fake_compile(fake_index("llama"), FAKE_PREFILL); /* 32 rows, 4 outputs */
    uint32_t i = find(s, CMD_NO_LAYER, CMD_ARGMAX);
    ck_assert_uint_eq(flops_of(s, i, 32, 1), 4ull * FAKE_VOCAB);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("stream cost", a_dense_token_moves_every_weight_once,
                     weights_count_once_per_step_and_arithmetic_per_row, experts_count_at_most_once_each,
                     attention_grows_with_the_cache_up_to_its_window, the_head_counts_output_rows);
}
