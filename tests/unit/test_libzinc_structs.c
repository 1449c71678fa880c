/* The structs of include/zinc.h lie as they lay in their first version, and may differ in size between a program and
 * its library, as zinc.h says. */
#include <stdlib.h>

#include "tests/lib/run.h"
#include "tests/unit/libzinc.h"

/* On 64 bits. A field never moves; a new one goes to the end, or to where `reserved` is. */
#define FIELDS(X)                                                                                                    \
    X(zinc_error, code, 0) X(zinc_error, text, 4)                                                                    \
    X(zinc_model_opts, path, 8) X(zinc_model_opts, tier, 16) X(zinc_model_opts, plan, 24) X(zinc_model_opts, kv, 32) \
    X(zinc_model_opts, device_name, 40) X(zinc_model_opts, pooling, 48) X(zinc_model_opts, device, 56)               \
    X(zinc_model_opts, flags, 60) X(zinc_model_opts, context, 64) X(zinc_model_opts, sessions, 68)                   \
    X(zinc_model_opts, chunk, 72) X(zinc_model_opts, threads, 76) X(zinc_model_opts, progress, 80)                   \
    X(zinc_model_opts, progress_user, 88) X(zinc_model_opts, log, 96) X(zinc_model_opts, log_user, 104)              \
    X(zinc_model_opts, log_level, 112) X(zinc_model_opts, kv_edge, 116) X(zinc_model_opts, rope_scaling, 120)        \
    X(zinc_model_opts, rope_factor, 128) X(zinc_model_opts, reserved, 132)                                           \
    X(zinc_model_info, path, 8) X(zinc_model_info, label, 16) X(zinc_model_info, name, 24)                           \
    X(zinc_model_info, family, 32) X(zinc_model_info, weights, 40) X(zinc_model_info, tier, 48)                      \
    X(zinc_model_info, plan, 56) X(zinc_model_info, device, 64) X(zinc_model_info, chat_format, 72)                  \
    X(zinc_model_info, pooling, 80) X(zinc_model_info, n_vocab, 88) X(zinc_model_info, n_layer, 92)                  \
    X(zinc_model_info, n_embd, 96) X(zinc_model_info, n_vector, 100) X(zinc_model_info, context, 104)                \
    X(zinc_model_info, context_trained, 108) X(zinc_model_info, sessions, 112) X(zinc_model_info, chunk, 116)        \
    X(zinc_model_info, n_params, 120) X(zinc_model_info, file_bytes, 128) X(zinc_model_info, weight_bytes, 136)      \
    X(zinc_model_info, cache_bytes, 144) X(zinc_model_info, scratch_bytes, 152) X(zinc_model_info, load_ns, 160)     \
    X(zinc_model_info, has_vocab, 168) X(zinc_model_info, chat_guessed, 172) X(zinc_model_info, recurrent, 176)      \
    X(zinc_model_info, reserved, 180)                                                                                \
    X(zinc_message, role, 8) X(zinc_message, text, 16) X(zinc_message, reasoning, 24)                                \
    X(zinc_message, tool_calls, 32) X(zinc_message, name, 40) X(zinc_message, call_id, 48)                           \
    X(zinc_prompt_opts, tools, 8) X(zinc_prompt_opts, effort, 16) X(zinc_prompt_opts, date, 24)                      \
    X(zinc_prompt_opts, think, 32) X(zinc_prompt_opts, continue_final, 36)                                           \
    X(zinc_logit_bias, id, 0) X(zinc_logit_bias, bias, 4)                                                            \
    X(zinc_gen_opts, sampling, 8) X(zinc_gen_opts, logit_bias, 16) X(zinc_gen_opts, stop, 24)                        \
    X(zinc_gen_opts, dry_breakers, 32) X(zinc_gen_opts, json_schema, 40) X(zinc_gen_opts, grammar, 48)               \
    X(zinc_gen_opts, tools, 56) X(zinc_gen_opts, tool_choice, 64) X(zinc_gen_opts, n_logit_bias, 72)                 \
    X(zinc_gen_opts, n_stop, 76) X(zinc_gen_opts, n_dry_breakers, 80) X(zinc_gen_opts, max_tokens, 84)               \
    X(zinc_gen_opts, flags, 88) X(zinc_gen_opts, think, 92) X(zinc_gen_opts, think_tokens, 96)                       \
    X(zinc_gen_opts, draft, 100) X(zinc_gen_opts, progress, 104) X(zinc_gen_opts, progress_user, 112)             \
    X(zinc_piece, text, 8) X(zinc_piece, n_text, 16) X(zinc_piece, name, 24) X(zinc_piece, kind, 32)                 \
    X(zinc_piece, complete, 36)                                                                                      \
    X(zinc_gen_info, tokens, 8) X(zinc_gen_info, n_tokens, 16) X(zinc_gen_info, n_prompt, 20)                        \
    X(zinc_gen_info, n_reused, 24) X(zinc_gen_info, n_thought, 28) X(zinc_gen_info, end, 32)                         \
    X(zinc_gen_info, stop_index, 36) X(zinc_gen_info, seed, 40) X(zinc_gen_info, reserved, 44)                       \
    X(zinc_gen_info, prompt_ns, 48) X(zinc_gen_info, decode_ns, 56)                                                  \
    X(zinc_chat_opts, system, 8) X(zinc_chat_opts, think, 16) X(zinc_chat_opts, reserved, 20)
#define SIZES(X)                                                                                                     \
    X(zinc_model_opts, 120) X(zinc_model_info, 184) X(zinc_message, 56) X(zinc_prompt_opts, 40)                      \
    X(zinc_gen_opts, 120) X(zinc_piece, 40) X(zinc_gen_info, 64) X(zinc_chat_opts, 24)

START_TEST(fields_lie_where_they_lay)
{
#define X(type, field, at) ck_assert_uint_eq(offsetof(type, field), at);
    FIELDS(X)
#undef X
#define X(type, bytes)                                                                                               \
    ck_assert_uint_ge(sizeof(type), bytes);                                                                          \
    ck_assert_uint_eq(offsetof(type, size), 0);
    SIZES(X)
#undef X
    ck_assert_uint_eq(sizeof(zinc_error), 512); /* these two never grow */
    ck_assert_uint_eq(sizeof(zinc_logit_bias), 8);
}
END_TEST

/* A program has them compiled in. */
#define CONSTANTS(X)                                                                                                  \
    X(ZINC_LOG_ERROR, 0) X(ZINC_LOG_WARNING, 1) X(ZINC_LOG_INFO, 2) X(ZINC_LOG_DEBUG, 3)                              \
    X(ZINC_MODEL_VOCABULARY, 1) X(ZINC_MODEL_EXACT, 2) X(ZINC_MODEL_IGNORE_MEMORY, 4) X(ZINC_MODEL_DEVICE, 8)         \
    X(ZINC_MODEL_FIT, 16) X(ZINC_MODEL_PIN, 32)                                                                       \
    X(ZINC_TEXT_ADD_SPECIAL, 1) X(ZINC_TEXT_PARSE_SPECIAL, 2) X(ZINC_TEXT_SHOW_SPECIAL, 4)                            \
    X(ZINC_THINK_DEFAULT, 0) X(ZINC_THINK_ON, 1) X(ZINC_THINK_OFF, 2)                                                 \
    X(ZINC_GEN_IGNORE_END, 1) X(ZINC_GEN_SHOW_SPECIAL, 2) X(ZINC_GEN_ANSWER, 4) X(ZINC_GEN_CONTINUE, 8)               \
    X(ZINC_PIECE_TEXT, 0) X(ZINC_PIECE_REASONING, 1) X(ZINC_PIECE_CALL, 2)                                            \
    X(ZINC_END_RUNNING, 0) X(ZINC_END_STOP, 1) X(ZINC_END_STOP_TEXT, 2) X(ZINC_END_LENGTH, 3) X(ZINC_END_CONTEXT, 4)  \
    X(ZINC_END_CANCELLED, 5) X(ZINC_END_ERROR, 6) X(ZINC_EMBED_RAW, 1)

START_TEST(constants_are_what_they_were)
{
#define X(name, value) ck_assert_int_eq(name, value);
    CONSTANTS(X)
#undef X
}
END_TEST

struct later_opts {
    zinc_model_opts o;
    uint64_t later[4];
};
struct later_info {
    zinc_model_info i;
    uint64_t later[4];
};
struct later_message {
    zinc_message m;
    uint64_t later;
};

START_TEST(a_program_of_a_later_header_works_as_far_as_it_asks_for_nothing_new)
{
    struct later_opts o = { .o = { .size = sizeof o, .path = DEMO, .tier = "cpu", .context = 64, .threads = 1 } };
    struct later_info i = { .i = { .size = sizeof i }, .later = { 1, 2, 3, 4 } };
    struct later_message m[2] = { { .m = { .size = sizeof m[0], .role = "system", .text = "Be brief." } },
                                  { .m = { .size = sizeof m[0], .role = "user", .text = "Hello" } } };
    zinc_message own[2] = { { .size = sizeof own[0], .role = "system", .text = "Be brief." },
                            { .size = sizeof own[0], .role = "user", .text = "Hello" } };
    int32_t a[64], b[64];
    size_t n_a, n_b;
    zinc_model *model;
    OK(zinc_model_open(&o.o, &model, &err));
    OK(zinc_model_info_get(model, &i.i, &err));
    ck_assert_uint_eq(i.i.context, 64);
    ck_assert_uint_eq(i.i.size, sizeof i);
    for (int k = 0; k < 4; k++)
        ck_assert_uint_eq(i.later[k], 0);
    OK(zinc_prompt(model, &m[0].m, 2, NULL, a, 64, &n_a, &err));
    OK(zinc_prompt(model, own, 2, NULL, b, 64, &n_b, &err));
    ck_assert_uint_eq(n_a, n_b);
    ck_assert_mem_eq(a, b, n_a * sizeof *a);
    m[1].later = 1;
    FAILS(zinc_prompt(model, &m[0].m, 2, NULL, a, 64, &n_a, &err), -E2BIG, "does not know");
    own[1].size = 48;
    FAILS(zinc_prompt(model, own, 2, NULL, b, 64, &n_b, &err), -EINVAL, "size");
    zinc_model_close(model);
    o.later[3] = 1;
    FAILS(zinc_model_open(&o.o, &model, &err), -E2BIG, "does not know");
}
END_TEST

START_TEST(a_program_of_the_first_header_works)
{
    zinc_model_opts o = { .size = 120, .path = DEMO, .tier = "cpu", .context = 64, .threads = 1, .rope_factor = 2 };
    zinc_model *m;
    OK(zinc_model_open(&o, &m, &err)); /* what lies behind its end is not read */
    zinc_model_close(m);
}
END_TEST

START_TEST(a_size_that_was_forgotten_is_told)
{
    zinc_model_opts o = { .path = DEMO };
    zinc_model_info i = { 0 };
    zinc_piece p = { 0 };
    zinc_model *m;
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "size");
    o.size = 112; /* its first version had 120 bytes */
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "size");
    o.size = SIZE_MAX;
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "size");
    m = open_demo(1, 64);
    FAILS(zinc_model_info_get(m, &i, &err), -EINVAL, "size");
    zinc_session *s = open_session(m);
    zinc_gen *g;
    OK(zinc_generate(s, (const int32_t[]){ 1, 2 }, 2, NULL, &g, &err));
    FAILS(zinc_gen_next(g, &p, &err), -EINVAL, "size");
    zinc_gen_close(g);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

/* A program that was built when zinc_model_info ended early gets what it has room for, and nothing behind it is
 * touched. */
START_TEST(a_program_of_an_earlier_header_gets_what_it_knows)
{
    zinc_model *m = open_demo(1, 64);
    union {
        zinc_model_info i;
        unsigned char bytes[sizeof(zinc_model_info)];
    } u;
    memset(&u, 0xa5, sizeof u);
    u.i.size = offsetof(zinc_model_info, n_layer);
    OK(zinc_model_info_get(m, &u.i, &err));
    ck_assert_uint_eq(u.i.n_vocab, 3072);
    for (size_t k = offsetof(zinc_model_info, n_layer); k < sizeof u; k++)
        ck_assert_uint_eq(u.bytes[k], 0xa5);
    zinc_model_close(m);
}
END_TEST

int main(void)
{
    return RUN_TESTS("libzinc_structs", fields_lie_where_they_lay, constants_are_what_they_were,
                     a_program_of_a_later_header_works_as_far_as_it_asks_for_nothing_new,
                     a_program_of_the_first_header_works,
                     a_size_that_was_forgotten_is_told, a_program_of_an_earlier_header_gets_what_it_knows);
}
