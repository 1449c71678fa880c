/* libzinc.so does what include/zinc.h says: the whole way from a file to text and back, chats, sampling by hand,
 * lifetimes, buffers, and one clear line for what cannot be. */
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/run.h"
#include "tests/lib/skip.h"
#include "tests/unit/libzinc.h"
#include "tests/unit/tiny_model.h"

START_TEST(says_what_it_is)
{
    zinc_model *m = open_demo(2, 512);
    zinc_model_info i = { .size = sizeof i };
    int n = 0;
    ck_assert_str_eq(zinc_version(), "0.1.0");
    while (zinc_tier_name((size_t)n))
        n++;
    ck_assert_int_ge(n, 3);
    ck_assert_str_eq(zinc_tier_name(0), "auto");
    OK(zinc_model_info_get(m, &i, &err));
    ck_assert_str_eq(i.label, "zinc-demo");
    ck_assert_str_eq(i.family, "qwen35moe");
    ck_assert_str_eq(i.tier, "cpu");
    ck_assert_uint_eq(i.n_vocab, 3072);
    ck_assert_uint_eq(i.context, 512);
    ck_assert_uint_eq(i.sessions, 2);
    ck_assert(i.recurrent && i.has_vocab && !i.chat_guessed && !i.pooling);
    ck_assert_uint_eq(i.n_params, 10787760);
    zinc_model_close(m);
}
END_TEST

START_TEST(text_goes_to_tokens_and_back)
{
    static const char text[] = "27 + 48 = 75, caf\xc3\xa9";
    zinc_model_opts o = { .size = sizeof o, .path = DEMO, .flags = ZINC_MODEL_VOCABULARY };
    zinc_model *m;
    int32_t ids[64];
    char back[64];
    size_t n, n_back;
    OK(zinc_model_open(&o, &m, &err));
    OK(zinc_tokenize(m, text, strlen(text), 0, ids, 64, &n, &err));
    ck_assert_uint_gt(n, 5);
    OK(zinc_detokenize(m, ids, n, 0, back, sizeof back, &n_back, &err));
    ck_assert_uint_eq(n_back, strlen(text));
    ck_assert_mem_eq(back, text, n_back);
    ck_assert_int_eq(zinc_is_end(m, ids[0]), 0);
    ck_assert_int_eq(zinc_is_end(m, -1), 0);
    OK(zinc_tokenize(m, NULL, 0, 0, ids, 64, &n, &err));
    ck_assert_uint_eq(n, 0);
    FAILS(zinc_session_open(m, &(zinc_session *){ 0 }, &err), -ENOTSUP, "vocabulary");
    zinc_model_close(m);
}
END_TEST

START_TEST(small_buffers_report_the_size_needed)
{
    static const char text[] = "What is 27 + 48?";
    zinc_model *m = open_demo(1, 64);
    zinc_session *s = open_session(m);
    int32_t ids[64] = { 0 }, first;
    char c[2] = "x";
    float few[8];
    size_t n = 0, need;
    zinc_message q = { .size = sizeof q, .role = "user", .text = text };
    OK(zinc_tokenize(m, text, strlen(text), 0, NULL, 0, &need, &err));
    FAILS(zinc_tokenize(m, text, strlen(text), 0, ids, need - 1, &n, &err), -ERANGE, "are needed");
    ck_assert_uint_eq(n, need);
    ck_assert_int_eq(ids[0], 0); /* nothing was written */
    OK(zinc_tokenize(m, text, strlen(text), 0, ids, need, &n, &err));
    first = ids[0];
    FAILS(zinc_detokenize(m, ids, need, 0, c, 1, &n, &err), -ERANGE, "room for 1");
    ck_assert_uint_eq(n, strlen(text));
    ck_assert_int_eq(c[0], 'x');
    FAILS(zinc_prompt(m, &q, 1, NULL, ids, 3, &n, &err), -ERANGE, "are needed");
    ck_assert_uint_gt(n, need);
    ck_assert_int_eq(ids[0], first);
    FAILS(zinc_session_eval(s, ids, need, few, 8, &err), -ERANGE, "3072");
    OK(zinc_session_tokens(s, NULL, 0, &n, &err));
    ck_assert_uint_eq(n, 0); /* and nothing was evaluated */
    FAILS(zinc_tokenize(m, text, strlen(text), 0, NULL, 5, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_tokenize(m, text, strlen(text), 0, NULL, 0, NULL, &err), -EINVAL, "neither");
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(an_answer_comes_in_pieces_that_make_the_whole)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    zinc_message q[2] = { { .size = sizeof q[0], .role = "system", .text = "You are a calculator." },
                          { .size = sizeof q[0], .role = "user", .text = "What is 27 + 48?" } };
    int32_t ids[128];
    size_t n, held;
    char text[256] = "";
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .flags = ZINC_GEN_ANSWER };
    zinc_gen_info i = { .size = sizeof i };
    zinc_piece p = { .size = sizeof p };
    zinc_gen *g;
    int pieces = 0;
    OK(zinc_prompt(m, q, 2, NULL, ids, 128, &n, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    OK(zinc_gen_info_get(g, &i, &err));
    ck_assert_int_eq(i.end, ZINC_END_RUNNING);
    ck_assert_uint_eq(i.n_tokens, 0);
    while (zinc_gen_next(g, &p, &err) == 1) {
        ck_assert_int_eq(p.kind, ZINC_PIECE_TEXT);
        ck_assert_uint_eq(strlen(p.text), p.n_text);
        strcat(text, p.text);
        pieces++;
    }
    ck_assert_str_eq(text, "27 + 48 = 75");
    ck_assert_int_gt(pieces, 4);
    ck_assert_int_eq(zinc_gen_next(g, &p, &err), 0); /* it stays at its end */
    OK(zinc_gen_info_get(g, &i, &err));
    ck_assert_int_eq(i.end, ZINC_END_STOP);
    ck_assert_uint_eq(i.n_prompt, n);
    ck_assert_int_eq(zinc_is_end(m, i.tokens[i.n_tokens - 1]), 1);
    OK(zinc_session_tokens(s, NULL, 0, &held, &err));
    ck_assert_uint_eq(held, n + i.n_tokens - 1);
    zinc_gen_close(g);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(by_hand_comes_what_a_generation_gives)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0.9,top-k=20,seed=7", .max_tokens = 12 };
    static float logits[3072];
    int32_t ids[64], mine[12];
    zinc_gen_info i = { .size = sizeof i };
    zinc_sampler *sm;
    zinc_gen *g;
    char text[256] = "";
    size_t n = tokens_of(m, "The cat", ids, 64);
    OK(zinc_sampler_open(m, &o, &sm, &err));
    for (size_t k = 0; k < n; k++)
        OK(zinc_sampler_accept(sm, ids[k], &err));
    OK(zinc_session_eval(s, ids, n, logits, 3072, &err));
    for (int k = 0; k < 12; k++) {
        OK(zinc_sampler_choose(sm, logits, 3072, &mine[k], &err));
        OK(zinc_sampler_accept(sm, mine[k], &err));
        OK(zinc_session_eval(s, &mine[k], 1, logits, 3072, &err));
    }
    OK(zinc_session_truncate(s, 0, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    OK(zinc_gen_info_get(g, &i, &err));
    ck_assert_uint_eq(i.n_tokens, 12);
    ck_assert_uint_eq(i.seed, 7);
    ck_assert_int_eq(i.end, ZINC_END_LENGTH);
    ck_assert_mem_eq(i.tokens, mine, sizeof mine);
    zinc_gen_close(g);
    FAILS(zinc_sampler_choose(sm, logits, 5, mine, &err), -EINVAL, "3072");
    FAILS(zinc_sampler_accept(sm, 4000, &err), -EINVAL, "4000");
    zinc_sampler_close(sm);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(scores_are_the_logits_own)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    static float logits[3072];
    float lp[8];
    int32_t ids[8];
    size_t n = tokens_of(m, "What is 27", ids, 8);
    ck_assert_uint_ge(n, 3);
    OK(zinc_session_score(s, ids, n, lp, &err));
    OK(zinc_session_truncate(s, 0, &err));
    for (size_t k = 0; k + 1 < n; k++) {
        double sum = 0;
        OK(zinc_session_eval(s, &ids[k], 1, logits, 3072, &err));
        for (int v = 0; v < 3072; v++)
            sum += exp((double)logits[v]);
        ck_assert_double_eq_tol((double)lp[k], (double)logits[ids[k + 1]] - log(sum), 1e-3);
    }
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(stops_limits_and_bias_are_heeded)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    const char *stop[] = { "never", "48" };
    int32_t ids[64], seven;
    size_t n;
    char text[256] = "";
    zinc_message q = { .size = sizeof q, .role = "user", .text = "What is 27 + 48?" };
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .flags = ZINC_GEN_ANSWER, .stop = stop, .n_stop = 2 };
    zinc_gen_info i = { .size = sizeof i };
    zinc_gen *g;
    OK(zinc_prompt(m, &q, 1, NULL, ids, 64, &n, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    OK(zinc_gen_info_get(g, &i, &err));
    ck_assert_str_eq(text, "27 + ");
    ck_assert_int_eq(i.end, ZINC_END_STOP_TEXT);
    ck_assert_uint_eq(i.stop_index, 1);
    zinc_gen_close(g);

    zinc_logit_bias never = { 0, -INFINITY };
    OK(zinc_tokenize(m, "7", 1, 0, &seven, 1, &(size_t){ 0 }, &err));
    never.id = seven;
    o = (zinc_gen_opts){ .size = sizeof o,
                         .sampling = "temp=0",
                         .flags = ZINC_GEN_ANSWER,
                         .logit_bias = &never,
                         .n_logit_bias = 1,
                         .max_tokens = 20 };
    OK(zinc_session_truncate(s, 0, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    OK(zinc_gen_info_get(g, &i, &err));
    for (uint32_t k = 0; k < i.n_tokens; k++)
        ck_assert_int_ne(i.tokens[k], seven);
    zinc_gen_close(g);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(a_schema_is_followed)
{
    zinc_model *m = open_demo(1, 512);
    zinc_session *s = open_session(m);
    zinc_gen_opts o = {
        .size = sizeof o,
        .sampling = "temp=0",
        .max_tokens = 60,
        .json_schema =
            "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":99}},"
            "\"required\":[\"sum\"],\"additionalProperties\":false}"
    };
    int32_t ids[64];
    char text[512] = "";
    int sum = -1;
    zinc_gen *g;
    size_t n = tokens_of(m, "27 + 48 as JSON: ", ids, 64);
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    zinc_gen_close(g);
    const char *colon = strchr(text, ':');
    ck_assert_msg(strstr(text, "\"sum\"") && colon && sscanf(colon + 1, "%d", &sum) == 1 && strchr(text, '}'), "'%s'",
                  text);
    ck_assert_int_ge(sum, 0);

    o.json_schema = NULL;
    o.grammar = "root ::= \"yes\" | \"no\"";
    text[0] = 0;
    OK(zinc_session_truncate(s, 0, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    zinc_gen_close(g);
    ck_assert_msg(!strcmp(text, "yes") || !strcmp(text, "no"), "'%s'", text);
    o.grammar = "root ::= \"yes";
    FAILS(zinc_generate(s, ids, n, &o, &g, &err), -EINVAL, "line 1");
    o.json_schema = "{}";
    FAILS(zinc_generate(s, ids, n, &o, &g, &err), -EINVAL, "exclude");
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

static void say(zinc_chat *c, const char *text, char *answer, size_t cap, zinc_gen_info *i)
{
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .max_tokens = 40 };
    zinc_gen *g;
    answer[0] = 0;
    OK(zinc_chat_say(c, text, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, answer, cap), 0);
    *i = (zinc_gen_info){ .size = sizeof *i };
    OK(zinc_gen_info_get(g, i, &err));
    i->tokens = NULL;
    zinc_gen_close(g);
}

START_TEST(a_chat_remembers_and_evaluates_only_what_is_new)
{
    zinc_model *m = open_demo(1, 512);
    zinc_session *s = open_session(m);
    zinc_chat *c;
    zinc_gen_info i;
    zinc_message v = { .size = sizeof v };
    char text[256];
    OK(zinc_chat_open(s, &(zinc_chat_opts){ .size = sizeof(zinc_chat_opts), .system = "Be brief." }, &c, &err));
    say(c, "What is 27 + 48?", text, sizeof text, &i);
    ck_assert_str_eq(text, "27 + 48 = 75");
    ck_assert_uint_eq(i.n_reused, 0);
    say(c, "What is 3 + 4?", text, sizeof text, &i);
    ck_assert_uint_gt(i.n_reused, 20); /* though the model is recurrent */
    OK(zinc_chat_message(c, 0, &v, &err));
    ck_assert_str_eq(v.role, "system");
    OK(zinc_chat_message(c, 2, &v, &err));
    ck_assert_str_eq(v.role, "assistant");
    ck_assert_str_eq(v.text, "27 + 48 = 75");
    FAILS(zinc_chat_message(c, 5, &v, &err), -ENOENT, "5 messages");
    OK(zinc_chat_undo(c, &err));
    FAILS(zinc_chat_message(c, 3, &v, &err), -ENOENT, "3 messages");
    OK(zinc_chat_undo(c, &err));
    FAILS(zinc_chat_undo(c, &err), -ENOENT, "no turn");

    zinc_message past[2] = { { .size = sizeof v, .role = "user", .text = "Hello" },
                             { .size = sizeof v, .role = "assistant", .text = "Hi" } };
    OK(zinc_chat_load(c, past, 2, &err));
    OK(zinc_chat_message(c, 1, &v, &err));
    ck_assert_str_eq(v.text, "Hi");
    FAILS(zinc_chat_load(c, past, 1, &err), -EINVAL, "no answer");
    OK(zinc_chat_message(c, 1, &v, &err)); /* as it was */
    OK(zinc_chat_reset(c, NULL, &err));
    FAILS(zinc_chat_message(c, 0, &v, &err), -ENOENT, "0 messages");
    say(c, "What is 27 + 48?", text, sizeof text, &i);
    ck_assert_str_eq(text, "27 + 48 = 75");
    zinc_chat_close(c);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(an_answer_that_is_cut_off_stays_in_the_chat)
{
    zinc_model *m = open_demo(1, 512);
    zinc_session *s = open_session(m);
    zinc_chat *c;
    zinc_gen *g;
    zinc_piece p = { .size = sizeof p };
    zinc_message v = { .size = sizeof v };
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0" };
    OK(zinc_chat_open(s, NULL, &c, &err));
    OK(zinc_chat_say(c, "What is 27 + 48?", &o, &g, &err));
    ck_assert_int_eq(zinc_gen_next(g, &p, &err), 1);
    FAILS(zinc_chat_say(c, "More", &o, &(zinc_gen *){ 0 }, &err), -EBUSY, "until it ends");
    FAILS(zinc_chat_reset(c, NULL, &err), -EBUSY, "until it ends");
    zinc_gen_close(g);
    OK(zinc_chat_message(c, 1, &v, &err));
    ck_assert_str_eq(v.role, "assistant");
    ck_assert_int_eq(strncmp("27 + 48 = 75", v.text, strlen(v.text)), 0);
    /* a turn that fails leaves nothing: this does not fit */
    static char much[20000];
    memset(much, 'x', sizeof much - 1);
    OK(zinc_chat_say(c, much, &o, &g, &err));
    FAILS(zinc_gen_next(g, &p, &err), -E2BIG, "context of 512");
    FAILS(zinc_gen_next(g, &p, &err), -E2BIG, "context of 512"); /* and stays so */
    zinc_gen_close(g);
    FAILS(zinc_chat_message(c, 2, &v, &err), -ENOENT, "2 messages");
    zinc_chat_close(c);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(calls_of_tools_come_as_pieces)
{
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"a\"],"
        "\"additionalProperties\":false}}}]";
    zinc_model *m = open_demo(1, 1024);
    zinc_session *s = open_session(m);
    zinc_message q[3] = {
        { .size = sizeof q[0], .role = "user", .text = "Add 3." },
        { .size = sizeof q[0],
          .role = "assistant",
          .tool_calls =
              "[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"add\",\"arguments\":{\"a\":3}}}]" },
        { .size = sizeof q[0], .role = "tool", .text = "3", .call_id = "c1", .name = "add" }
    };
    zinc_prompt_opts po = { .size = sizeof po, .tools = tools };
    zinc_gen_opts o = { .size = sizeof o,
                        .sampling = "temp=0",
                        .flags = ZINC_GEN_ANSWER,
                        .tools = tools,
                        .tool_choice = "required",
                        .max_tokens = 80 };
    zinc_piece p = { .size = sizeof p };
    int32_t ids[1024], again[1024];
    size_t n, n_again;
    int calls = 0;
    zinc_gen *g;
    OK(zinc_prompt(m, q, 1, &po, ids, 1024, &n, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    for (int rc; (rc = zinc_gen_next(g, &p, &err));) {
        ck_assert_msg(rc == 1, "%s", err.text);
        if (p.kind != ZINC_PIECE_CALL)
            continue;
        ck_assert_str_eq(p.name, "add");
        ck_assert_msg(strstr(p.text, "\"a\"") && p.text[0] == '{' && (!p.complete || p.text[p.n_text - 1] == '}'),
                      "'%s'", p.text);
        calls++;
    }
    ck_assert_int_ge(calls, 1);
    zinc_gen_close(g);
    /* messages with calls: arguments as an object and as text are the same */
    OK(zinc_prompt(m, q, 3, &po, ids, 1024, &n, &err));
    q[1].tool_calls = "[{\"id\":\"c1\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":3}\"}}]";
    OK(zinc_prompt(m, q, 3, &po, again, 1024, &n_again, &err));
    ck_assert_uint_eq(n, n_again);
    ck_assert_mem_eq(ids, again, n * sizeof *ids);
    q[1].tool_calls = "[{\"name\":\"add\"}]";
    FAILS(zinc_prompt(m, q, 3, &po, ids, 1024, &n, &err), -EINVAL, "tool_calls");
    q[1].tool_calls = "[{";
    FAILS(zinc_prompt(m, q, 3, &po, ids, 1024, &n, &err), -EINVAL, "tool_calls");
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(an_answer_that_was_begun_is_continued)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    zinc_message q[2] = { { .size = sizeof q[0], .role = "user", .text = "What is 27 + 48?" },
                          { .size = sizeof q[0], .role = "assistant", .text = "27 + 48 =" } };
    zinc_prompt_opts po = { .size = sizeof po, .continue_final = 1 };
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .flags = ZINC_GEN_ANSWER | ZINC_GEN_CONTINUE };
    int32_t ids[128];
    char text[64] = "";
    size_t n;
    zinc_gen *g;
    OK(zinc_prompt(m, q, 2, &po, ids, 128, &n, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    ck_assert_str_eq(text, " 75");
    zinc_gen_close(g);
    o.json_schema = "{}";
    FAILS(zinc_generate(s, ids, n, &o, &g, &err), -EINVAL, "from its beginning");
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(handles_may_be_closed_in_any_order)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    zinc_chat *c;
    zinc_gen *g;
    zinc_sampler *sm;
    char text[256] = "";
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0" };
    OK(zinc_sampler_open(m, &o, &sm, &err));
    OK(zinc_chat_open(s, NULL, &c, &err));
    OK(zinc_chat_say(c, "What is 27 + 48?", &o, &g, &err));
    FAILS(zinc_session_open(m, &(zinc_session *){ 0 }, &err), -EAGAIN, "in use");
    zinc_model_close(m);
    zinc_session_close(s);
    zinc_chat_close(c);
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    ck_assert_str_eq(text, "27 + 48 = 75");
    zinc_gen_close(g);
    zinc_sampler_close(sm);
    zinc_model_close(NULL);
    zinc_session_close(NULL);
    zinc_chat_close(NULL);
    zinc_gen_close(NULL);
    zinc_sampler_close(NULL);
    zinc_session_cancel(NULL);
}
END_TEST

START_TEST(a_session_is_somebodys_until_it_is_given_back)
{
    zinc_model *m = open_demo(1, 256);
    zinc_session *s = open_session(m);
    int32_t ids[16];
    zinc_gen *g;
    zinc_chat *c;
    zinc_gen_opts o = { .size = sizeof o, .max_tokens = 3 };
    char text[64] = "";
    size_t n = tokens_of(m, "The cat", ids, 16);
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    FAILS(zinc_session_eval(s, ids, n, NULL, 0, &err), -EBUSY, "generation");
    FAILS(zinc_generate(s, ids, n, &o, &(zinc_gen *){ 0 }, &err), -EBUSY, "generation");
    FAILS(zinc_session_truncate(s, 0, &err), -EBUSY, "generation");
    FAILS(zinc_chat_open(s, NULL, &c, &err), -EBUSY, "generation");
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    OK(zinc_session_eval(s, ids, n, NULL, 0, &err)); /* it has ended, though it is not closed */
    zinc_gen_close(g);
    OK(zinc_chat_open(s, NULL, &c, &err));
    FAILS(zinc_session_eval(s, ids, n, NULL, 0, &err), -EBUSY, "chat");
    FAILS(zinc_generate(s, ids, n, &o, &g, &err), -EBUSY, "chat");
    zinc_chat_close(c);
    OK(zinc_session_eval(s, ids, n, NULL, 0, &err));
    zinc_session_close(s);
    s = open_session(m); /* its place is free again */
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(two_models_are_open_at_once)
{
    char path[] = "/tmp/zinc-lib-XXXXXX", a[256], b[256], a2[256];
    tiny_model(path, "tiny-qwen3");
    zinc_model *m = open_demo(1, 128), *t;
    zinc_model_opts o = { .size = sizeof o, .path = path, .tier = "cpu", .context = 64, .threads = 1 };
    zinc_model_info i = { .size = sizeof i };
    OK(zinc_model_open(&o, &t, &err));
    continue_greedily(m, "The cat", 12, a, sizeof a);
    continue_greedily(t, "The cat", 12, b, sizeof b);
    continue_greedily(m, "The cat", 12, a2, sizeof a2);
    ck_assert_str_eq(a, a2);
    ck_assert_str_ne(a, b);
    zinc_model_close(m);
    OK(zinc_model_info_get(t, &i, &err));
    ck_assert_str_eq(i.family, "qwen3");
    zinc_model_close(t);
    unlink(path);
}
END_TEST

/* The cache's types and the scaling of positions are the model's options too. */
START_TEST(caches_and_positions)
{
    char path[] = "/tmp/zinc-lib-XXXXXX";
    tiny_model(path, "tiny-qwen3"); /* 3 layers with caches of 2 x 128 values; trained for 4,096 */
    zinc_model_opts o = { .size = sizeof o, .path = path, .tier = "cpu", .context = 64, .threads = 1, .kv = "rot4" };
    zinc_model_info i = { .size = sizeof i };
    zinc_model *m;
    for (uint32_t edge = 0; edge < 2; edge++) {
        o.kv_edge = edge;
        OK(zinc_model_open(&o, &m, &err));
        OK(zinc_model_info_get(m, &i, &err));
        ck_assert_uint_eq(i.cache_bytes, (edge ? 2 * 512 + 144 : 3 * 144) * 2 * 64);
        zinc_model_close(m);
    }
    o.context = 8192;
    o.rope_scaling = "yarn";
    OK(zinc_model_open(&o, &m, &err));
    OK(zinc_model_info_get(m, &i, &err));
    ck_assert_uint_eq(i.context_trained, 8192);
    zinc_model_close(m);
    o.rope_scaling = "longrope";
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "longrope");
    unlink(path);
}
END_TEST

START_TEST(null_is_an_error_not_an_end)
{
    zinc_model *m = open_demo(1, 64);
    zinc_session *s = open_session(m);
    zinc_model_opts o = { .size = sizeof o, .path = DEMO };
    int32_t ids[8] = { 1, 2 };
    size_t n;
    zinc_piece p = { .size = sizeof p };
    FAILS(zinc_model_open(NULL, &(zinc_model *){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_model_open(&o, NULL, &err), -EINVAL, "NULL");
    o.path = NULL;
    FAILS(zinc_model_open(&o, &(zinc_model *){ 0 }, &err), -EINVAL, "path");
    FAILS(zinc_model_info_get(NULL, &(zinc_model_info){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_model_info_get(m, NULL, &err), -EINVAL, "NULL");
    FAILS(zinc_tokenize(NULL, "x", 1, 0, ids, 8, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_tokenize(m, NULL, 1, 0, ids, 8, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_detokenize(m, NULL, 1, 0, NULL, 0, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_prompt(m, NULL, 1, NULL, ids, 8, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_prompt(m, &(zinc_message){ .size = sizeof(zinc_message) }, 1, NULL, ids, 8, &n, &err), -EINVAL,
          "role");
    FAILS(zinc_session_open(NULL, &s, &err), -EINVAL, "NULL");
    FAILS(zinc_session_open(m, NULL, &err), -EINVAL, "NULL");
    FAILS(zinc_session_eval(NULL, ids, 1, NULL, 0, &err), -EINVAL, "NULL");
    FAILS(zinc_session_eval(s, NULL, 1, NULL, 0, &err), -EINVAL, "NULL");
    FAILS(zinc_session_eval(s, ids, 0, NULL, 0, &err), -EINVAL, "no tokens");
    FAILS(zinc_session_score(s, ids, 2, NULL, &err), -EINVAL, "NULL");
    FAILS(zinc_generate(s, NULL, 1, NULL, &(zinc_gen *){ 0 }, &err), -EINVAL, "no tokens");
    FAILS(zinc_generate(s, ids, 1, NULL, NULL, &err), -EINVAL, "NULL");
    FAILS(zinc_gen_next(NULL, &p, &err), -EINVAL, "NULL");
    FAILS(zinc_gen_info_get(NULL, &(zinc_gen_info){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_sampler_open(NULL, NULL, &(zinc_sampler *){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_sampler_choose(NULL, NULL, 0, NULL, &err), -EINVAL, "NULL");
    FAILS(zinc_sampler_accept(NULL, 0, &err), -EINVAL, "NULL");
    FAILS(zinc_chat_open(NULL, NULL, &(zinc_chat *){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_chat_say(NULL, "x", NULL, &(zinc_gen *){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_chat_message(NULL, 0, &(zinc_message){ 0 }, &err), -EINVAL, "NULL");
    FAILS(zinc_embed(NULL, NULL, 0, 0, NULL, 0, &n, &err), -EINVAL, "NULL");
    FAILS(zinc_rank(NULL, "q", NULL, 0, NULL, &err), -EINVAL, "NULL");
    ck_assert_int_eq(zinc_is_end(NULL, 0), 0);
    ck_assert_int_eq(zinc_session_eval(s, ids, 0, NULL, 0, NULL), -EINVAL); /* nobody wants the words */
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

/* A file with these bytes; the caller removes it. */
static void write_file(char *path, const void *bytes, size_t n)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, bytes, n), (int)n);
    close(fd);
}

START_TEST(what_cannot_be_opened_is_told_in_a_line)
{
    zinc_model_opts o = { .size = sizeof o, .path = "/nowhere/model.gguf", .tier = "cpu" };
    zinc_model *m = (zinc_model *)&o;
    char broken[] = "/tmp/zinc-lib-XXXXXX", cut[] = "/tmp/zinc-lib-XXXXXX";
    static char head[4096];
    FILE *f = fopen(DEMO, "rb");
    ck_assert(f && fread(head, 1, sizeof head, f) == sizeof head);
    fclose(f);
    write_file(cut, head, sizeof head);
    head[0] = 'X';
    write_file(broken, head, sizeof head);
    FAILS(zinc_model_open(&o, &m, &err), -ENOENT, "/nowhere/model.gguf");
    ck_assert_ptr_eq(m, &o); /* no result is written */
    o.path = broken;
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "GGUF");
    o.path = cut;
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, cut);
    o.path = DEMO;
    o.tier = "gpu";
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "gpu");
    o.tier = "cpu";
    o.kv = "q3";
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "q3");
    o.kv = NULL;
    o.plan = "fast";
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "fast");
    o.plan = NULL;
    o.flags = 1 << 20;
    FAILS(zinc_model_open(&o, &m, &err), -EINVAL, "flags");
    o.flags = 0;
    o.pooling = "rank";
    FAILS(zinc_model_open(&o, &m, &err), -ENOTSUP, "rank");
    unlink(broken);
    unlink(cut);
}
END_TEST

START_TEST(a_tier_that_is_not_there_is_told)
{
    const char *there = NULL;
    zinc_model_opts o = { .size = sizeof o, .path = DEMO, .tier = "cuda" };
    zinc_model *m;
    for (size_t i = 0; zinc_tier_name(i); i++)
        there = strcmp(zinc_tier_name(i), "cuda") ? there : "cuda";
    int rc = there ? zinc_model_open(&o, &m, &err) : -ENODEV;
    if (rc == 0) { /* a machine that has one */
        zinc_model_close(m);
        return;
    }
    ck_assert_int_eq(rc, -ENODEV);
    ck_assert(!there || strstr(err.text, "cuda"));
}
END_TEST

START_TEST(options_that_cannot_be_are_refused_by_name)
{
    static const struct {
        const char *sampling, *words;
    } bad[] = { { "tmp=1", "did you mean temp" },
                { "temp", "NAME=VALUE" },
                { "temp=", "number" },
                { "temp=1x", "number" },
                { "top-k=2.5", "whole" },
                { "top-p=2", "top-p" },
                { "seed=-1", "range" },
                { "seed=99999999999", "range" },
                { "rng=dice", "mt19937" },
                { "=1", "NAME=VALUE" },
                { "temp=nan", "number" },
                { "min-p=7", "min-p" },
                { "temp=0,,", "NAME=VALUE" },
                { "repeat-penalty=0", "repeat-penalty" } };
    zinc_model *m = open_demo(1, 64);
    zinc_session *s = open_session(m);
    int32_t ids[65] = { 1, 2 };
    zinc_gen_opts o = { .size = sizeof o };
    zinc_gen *g;
    const char *empty[] = { "" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.sampling = bad[i].sampling;
        FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, bad[i].words);
    }
    o.sampling = " temp=0.5, top-k=3,rng=counter";
    OK(zinc_generate(s, ids, 2, &o, &g, &err));
    zinc_gen_close(g);
    o.sampling = NULL;
    o.stop = empty;
    o.n_stop = 1;
    FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, "stop 0");
    o.n_stop = 0;
    o.flags = 1 << 9;
    FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, "flags");
    o.flags = 0;
    o.draft = 8;
    FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, "zinc_gen_opts.draft is 8, expected 0 to 7");
    o.draft = 0;
    o.think = 9;
    FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, "think");
    o.think = 0;
    ids[1] = 99999;
    FAILS(zinc_generate(s, ids, 2, &o, &g, &err), -EINVAL, "99999");
    FAILS(zinc_session_eval(s, ids, 2, NULL, 0, &err), -EINVAL, "99999");
    ids[1] = 2;
    FAILS(zinc_generate(s, ids, 65, &o, &g, &err), -E2BIG, "context of 64");
    FAILS(zinc_session_eval(s, ids, 65, NULL, 0, &err), -E2BIG, "64");
    OK(zinc_session_eval(s, ids, 2, NULL, 0, &err));
    FAILS(zinc_session_truncate(s, 1, &err), -ENOTSUP, "rewound");
    FAILS(zinc_session_truncate(s, 3, &err), -EINVAL, "cannot cut");
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

static int stop_loading(void *user, const char *what, uint64_t done, uint64_t total)
{
    ck_assert(what && (!total || done <= total));
    return ++*(int *)user > 0;
}

static int count(void *user, const char *what, uint64_t done, uint64_t total)
{
    ck_assert_str_eq(what, "prompt");
    ck_assert_uint_lt(done, total);
    ++*(int *)user;
    return 0;
}

START_TEST(progress_is_told_and_can_stop)
{
    int asked = 0, chunks = 0;
    static int32_t ids[200];
    zinc_model_opts o = { .size = sizeof o,
                          .path = DEMO,
                          .tier = "cpu",
                          .chunk = 32,
                          .context = 256,
                          .threads = 1,
                          .progress = stop_loading,
                          .progress_user = &asked };
    zinc_gen_opts go = { .size = sizeof go, .max_tokens = 1, .progress = count, .progress_user = &chunks };
    zinc_model *m;
    zinc_gen *g;
    char text[64] = "";
    FAILS(zinc_model_open(&o, &m, &err), -ECANCELED, "");
    ck_assert_int_eq(asked, 1);
    o.progress = NULL;
    OK(zinc_model_open(&o, &m, &err));
    zinc_session *s = open_session(m);
    zinc_model_info i = { .size = sizeof i };
    OK(zinc_model_info_get(m, &i, &err));
    for (int k = 0; k < 200; k++)
        ids[k] = 100 + k;
    OK(zinc_generate(s, ids, 200, &go, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
    ck_assert_int_eq(chunks, (int)((200 + i.chunk - 1) / i.chunk));
    zinc_gen_close(g);
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

static void on_log(void *user, int32_t level, const char *module, const char *line)
{
    ck_assert(level >= ZINC_LOG_ERROR && level <= ZINC_LOG_INFO && module[0] && line[0] && !strchr(line, '\n'));
    strncat(user, line, 4000 - strlen(user));
}

START_TEST(each_model_has_a_log_of_its_own)
{
    static char a[4096], b[4096];
    zinc_model_opts o = { .size = sizeof o,
                          .path = DEMO,
                          .tier = "cpu",
                          .context = 64,
                          .threads = 1,
                          .log = on_log,
                          .log_user = a,
                          .log_level = ZINC_LOG_INFO };
    zinc_model *m, *n;
    OK(zinc_model_open(&o, &m, &err));
    ck_assert_msg(strstr(a, "zinc-demo on cpu"), "'%s'", a);
    size_t had = strlen(a);
    o.log_user = b;
    OK(zinc_model_open(&o, &n, &err));
    ck_assert_uint_eq(strlen(a), had);
    ck_assert_msg(strstr(b, "zinc-demo on cpu"), "'%s'", b);
    b[0] = 0;
    o.log_level = ZINC_LOG_WARNING;
    zinc_model_close(m);
    OK(zinc_model_open(&o, &m, &err));
    ck_assert_str_eq(b, "");
    zinc_model_close(m);
    zinc_model_close(n);
}
END_TEST

/* A program's own locale may write 0,5: numbers in options and schemas do not change, nor does the locale. */
START_TEST(numbers_are_read_whatever_the_locale)
{
    char folder[] = "/tmp/zinc-locale-XXXXXX", cmd[200];
    ck_assert(mkdtemp(folder) && setenv("LOCPATH", folder, 1) == 0);
    snprintf(cmd, sizeof cmd, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    bool made = system(cmd) == 0 && setlocale(LC_ALL, "de_DE.UTF-8") && strcmp(localeconv()->decimal_point, ",") == 0;
    zinc_model *m = made ? open_demo(1, 64) : NULL;
    zinc_session *s = made ? open_session(m) : NULL;
    zinc_gen_opts o = { .size = sizeof o,
                        .sampling = "temp=0.5,top-p=0.9",
                        .json_schema = "{\"type\":\"number\",\"multipleOf\":0.5,\"minimum\":0.5,\"maximum\":1.5}",
                        .max_tokens = 8 };
    zinc_gen *g;
    char text[64] = "";
    if (made) {
        OK(zinc_generate(s, (const int32_t[]){ 1, 2 }, 2, &o, &g, &err));
        ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, sizeof text), 0);
        ck_assert_msg(!strchr(text, ',') && strspn(text, "0123456789.eE+-") == strlen(text), "'%s'", text);
        zinc_gen_close(g);
        o.sampling = "temp=0,5"; /* two parameters, of which the second is none */
        FAILS(zinc_generate(s, (const int32_t[]){ 1, 2 }, 2, &o, &g, &err), -EINVAL, "'5' is not NAME=VALUE");
        ck_assert_str_eq(localeconv()->decimal_point, ",");
        zinc_session_close(s);
        zinc_model_close(m);
    } else {
        cases_skipped(1, "no de_DE to make by localedef (apt-get install locales)");
    }
    snprintf(cmd, sizeof cmd, "rm -rf %s", folder);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

START_TEST(vectors_of_texts_and_ranks)
{
    static const char *const texts[] = { "a cat on a mat", "a dog on a log", "a cat on a mat" };
    char e_path[] = "/tmp/zinc-lib-XXXXXX", r_path[] = "/tmp/zinc-lib-XXXXXX";
    tiny_model(e_path, "tiny-qwen3-embed");
    tiny_model(r_path, "tiny-qwen3-rerank");
    zinc_model_opts o = {
        .size = sizeof o, .path = e_path, .tier = "cpu", .context = 64, .threads = 1, .pooling = "auto"
    };
    zinc_model *m;
    float v[3 * 256], few[2];
    double scores[3], length = 0;
    size_t n;
    OK(zinc_model_open(&o, &m, &err));
    OK(zinc_embed(m, texts, 3, 0, NULL, 0, &n, &err));
    ck_assert_uint_eq(n, 3 * 256);
    FAILS(zinc_embed(m, texts, 3, 0, few, 2, &n, &err), -ERANGE, "768 are needed");
    OK(zinc_embed(m, texts, 3, 0, v, 768, &n, &err));
    for (int i = 0; i < 256; i++)
        length += (double)v[i] * (double)v[i];
    ck_assert_double_eq_tol(length, 1, 1e-5);
    ck_assert_mem_eq(v, v + 512, 256 * sizeof *v);
    ck_assert_int_ne(memcmp(v, v + 256, 256 * sizeof *v), 0);
    FAILS(zinc_session_open(m, &(zinc_session *){ 0 }, &err), -ENOTSUP, "vectors");
    FAILS(zinc_rank(m, "where?", texts, 3, scores, &err), -ENOTSUP, "ranks");
    FAILS(zinc_embed(m, (const char *const[]){ "a", NULL }, 2, 0, v, 768, &n, &err), -EINVAL, "text 1");
    static char much[4000];
    memset(much, 'x', sizeof much - 1);
    FAILS(zinc_embed(m, (const char *const[]){ "a", much }, 2, 0, v, 768, &n, &err), -E2BIG, "64");
    OK(zinc_embed(m, texts, 3, 0, v, 768, &n, &err)); /* and goes on working */
    zinc_model_close(m);
    o.path = r_path;
    OK(zinc_model_open(&o, &m, &err));
    OK(zinc_rank(m, "where?", texts, 3, scores, &err));
    ck_assert(scores[0] >= 0 && scores[0] <= 1 && scores[0] == scores[2] && scores[0] != scores[1]);
    zinc_model_close(m);
    m = open_demo(1, 64);
    FAILS(zinc_embed(m, texts, 3, 0, v, 768, &n, &err), -ENOTSUP, "pooling");
    zinc_model_close(m);
    unlink(e_path);
    unlink(r_path);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("libzinc", says_what_it_is, text_goes_to_tokens_and_back, small_buffers_report_the_size_needed,
                     an_answer_comes_in_pieces_that_make_the_whole, by_hand_comes_what_a_generation_gives,
                     scores_are_the_logits_own, stops_limits_and_bias_are_heeded, a_schema_is_followed,
                     a_chat_remembers_and_evaluates_only_what_is_new, an_answer_that_is_cut_off_stays_in_the_chat,
                     calls_of_tools_come_as_pieces, an_answer_that_was_begun_is_continued,
                     handles_may_be_closed_in_any_order,
                     a_session_is_somebodys_until_it_is_given_back, two_models_are_open_at_once,
                     caches_and_positions, null_is_an_error_not_an_end, what_cannot_be_opened_is_told_in_a_line,
                     a_tier_that_is_not_there_is_told, options_that_cannot_be_are_refused_by_name,
                     progress_is_told_and_can_stop, each_model_has_a_log_of_its_own,
                     numbers_are_read_whatever_the_locale, vectors_of_texts_and_ranks);
}
