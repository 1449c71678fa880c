/* Answers that must have a form: JSON, schemas, grammars, forced calls; and the cache of compiled grammars. */
#include "tests/unit/test_api.h"

#include <stdlib.h>

static struct api_bench b;

static void setup(void)
{
    bench_open(&b, DEMO, "cpu", 4, NULL, NULL);
}

static void teardown(void)
{
    bench_close(&b);
}

#define CHAT  "/v1/chat/completions"
#define HELLO "'messages':[{'role':'user','content':'Tell me about the weather.'}],'max_tokens':400"
#define POINT                                                                                                          \
    "{'type':'object','properties':{'x':{'type':'integer'},'kind':{'enum':['red','blue']}},"         \
    "'required':['x','kind'],'additionalProperties':false}"
#define WEATHER                                                                                                        \
    "'tools':[{'type':'function','function':{'name':'weather','parameters':" POINT "}},"                  \
    "{'type':'function','function':{'name':'time','parameters':{'type':'object','properties':{},"           \
    "'additionalProperties':false}}}]"

static void check_point(const char *text)
{
    json_t *v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json_is_object(v) && json_object_size(v) == 2, "%s", text);
    ck_assert(json_is_integer(at(v, "x")));
    ck_assert(strcmp(str_at(v, "kind"), "red") == 0 || strcmp(str_at(v, "kind"), "blue") == 0);
    json_decref(v);
}

static bool cut_off(json_t *v)
{
    return strcmp(str_at(v, "choices.0.finish_reason"), "length") == 0;
}

/* Ways to ask for the same schema. */
static const char *const schemas[] = {
    "'response_format':{'type':'json_schema','json_schema':{'name':'p','strict':true,'schema':" POINT "}}",
    "'response_format':{'type':'json_object','schema':" POINT "}",
    "'json_schema':" POINT,
};

START_TEST(a_schema)
{
    char body[2048];
    for (int think = 0; think < 2; think++)
        for (int seed = 0; seed < 3; seed++) {
            snprintf(body, sizeof body, "{" HELLO ",'temperature':1.5,'seed':%d,'enable_thinking':%s,%s}", seed,
                     think ? "true" : "false", schemas[_i]);
            json_t *v = call_json(&b, "POST", CHAT, body, 200);
            if (!cut_off(v))
                check_point(str_at(v, "choices.0.message.content"));
            if (!think)
                ck_assert(!cut_off(v) && !at(v, "choices.0.message.reasoning_content"));
            json_decref(v);
        }
    snprintf(body, sizeof body, "{'prompt':'{','max_tokens':200,%s}", schemas[_i]);
    json_t *v = call_json(&b, "POST", "/v1/completions", body, 200);
    check_point(str_at(v, "choices.0.text"));
    json_decref(v);
}
END_TEST

START_TEST(any_object)
{
    json_t *v = call_json(&b, "POST", CHAT,
                          "{" HELLO ",'enable_thinking':false,'response_format':{'type':'json_object'}}", 200);
    json_t *o = json_loads(str_at(v, "choices.0.message.content"), 0, NULL);
    ck_assert_msg(cut_off(v) || json_is_object(o), "%s", str_at(v, "choices.0.message.content"));
    json_decref(o);
    json_decref(v);
}
END_TEST

START_TEST(a_grammar)
{
    const char *g = "'grammar':'root ::= \\'yes, \\' [0-9]{3}'";
    char body[1024];
    snprintf(body, sizeof body, "{'prompt':'x',%s}", g);
    json_t *v = call_json(&b, "POST", "/v1/completions", body, 200);
    ck_assert_uint_eq(strlen(str_at(v, "choices.0.text")), 8);
    ck_assert_int_eq(strncmp(str_at(v, "choices.0.text"), "yes, ", 5), 0);
    json_decref(v);
    snprintf(body, sizeof body, "{" HELLO ",'enable_thinking':false,'n':3,'stream':true,%s}", g);
    json_t *events = call_events(&b, CHAT, body, 4096);
    for (int i = 0; i < 3; i++) {
        char *s = join_events(events, i, "delta.content");
        ck_assert_uint_eq(strlen(s), 8);
        free(s);
    }
    json_decref(events);
}
END_TEST

START_TEST(a_call_by_name)
{
    char body[2048];
    for (int seed = 0; seed < 4; seed++) {
        snprintf(body, sizeof body, "{" HELLO ",'enable_thinking':false,'temperature':1.5,'seed':%d," WEATHER
                 ",'tool_choice':{'type':'function','function':{'name':'weather'}}}", seed);
        json_t *v = call_json(&b, "POST", CHAT, body, 200);
        ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), "tool_calls");
        ck_assert(json_is_null(at(v, "choices.0.message.content")));
        ck_assert_str_eq(str_at(v, "choices.0.message.tool_calls.0.function.name"), "weather");
        check_point(str_at(v, "choices.0.message.tool_calls.0.function.arguments"));
        json_decref(v);
    }
}
END_TEST

/* The arguments of both tools come to an end: what a model of random weights writes in an object of any fields may not. */
START_TEST(any_call)
{
    char body[2048];
    for (int seed = 0; seed < 4; seed++) {
        snprintf(body, sizeof body, "{" HELLO ",'enable_thinking':false,'stream':true,'parallel_tool_calls':false,"
                 "'temperature':1.5,'seed':%d," WEATHER ",'tool_choice':'required'}", seed);
        json_t *events = call_events(&b, CHAT, body, 4096);
        json_t *last = json_array_get(events, json_array_size(events) - 1), *v;
        size_t i, n_names = 0;
        json_array_foreach(events, i, v)
            n_names += at(v, "choices.0.delta.tool_calls.0.function.name") != NULL;
        ck_assert_uint_eq(n_names, 1);
        ck_assert_str_eq(str_at(last, "choices.0.finish_reason"), "tool_calls");
        json_decref(events);
    }
}
END_TEST

static const struct {
    const char *more, *param;
} wrong[] = {
    { "'grammar':'root ::= ('", "grammar" },
    { "'grammar':'root ::= other'", "grammar" },
    { "'grammar':'root ::= root \\'a\\''", "grammar" },
    { "'json_schema':{'type':'nonsense'}", "json_schema" },
    { "'response_format':{'type':'json_schema','json_schema':{'schema':{'$ref':'#/nowhere'}}}", "response_format" },
};

START_TEST(what_cannot_be_compiled)
{
    char body[1024];
    for (int chat = 0; chat < 2; chat++) {
        snprintf(body, sizeof body, "{%s,%s}", chat ? HELLO : "'prompt':'x'", wrong[_i].more);
        json_t *v = call_json(&b, "POST", chat ? CHAT : "/v1/completions", body, 400);
        ck_assert_str_eq(str_at(v, "error.param"), wrong[_i].param);
        ck_assert_uint_gt(strlen(str_at(v, "error.message")), 10);
        json_decref(v);
    }
}
END_TEST

/* More grammars than are kept, from several threads, each its own answer. */
static void *many_grammars(void *user)
{
    char body[256], want[32];
    for (int i = 0; i < 50; i++) {
        int k = (i * 7 + *(int *)user) % 40;
        snprintf(want, sizeof want, "number %d", k);
        snprintf(body, sizeof body, "{'prompt':'x','grammar':'root ::= \\'%s\\''}", want);
        json_t *v = call_json(&b, "POST", "/v1/completions", body, 200);
        ck_assert_str_eq(str_at(v, "choices.0.text"), want);
        json_decref(v);
    }
    return NULL;
}

START_TEST(many_grammars_at_once)
{
    pthread_t thread[4];
    int id[4];
    for (int i = 0; i < 4; i++) {
        id[i] = i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, many_grammars, &id[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}
END_TEST

/* vLLM's fields say the same as OpenAI's and llama.cpp's. */
START_TEST(guided_answers)
{
    char body[1024];
    for (int seed = 0; seed < 3; seed++) {
        snprintf(body, sizeof body, "{" HELLO ",'temperature':1.5,'seed':%d,'enable_thinking':false,%s}", seed,
                 seed % 2 ? "'structured_outputs':{'choice':['sunny','very wet']}" : "'guided_choice':['sunny','very wet']");
        json_t *v = call_json(&b, "POST", CHAT, body, 200);
        const char *said = str_at(v, "choices.0.message.content");
        ck_assert_msg(strcmp(said, "sunny") == 0 || strcmp(said, "very wet") == 0, "%s", said);
        json_decref(v);
    }
    static const char *const regex[] = { "[0-9]{4}-(0[1-9]|1[0-2])", "^\\\\d{4}-\\\\d\\\\d$", "(?:19|20)\\\\d\\\\d-1[0-2]" };
    for (size_t i = 0; i < sizeof regex / sizeof *regex; i++) {
        snprintf(body, sizeof body, "{" HELLO ",'temperature':1.5,'enable_thinking':false,%s'%s'%s}",
                 i % 2 ? "'structured_outputs':{'regex':" : "'guided_regex':", regex[i], i % 2 ? "}" : "");
        json_t *matching = call_json(&b, "POST", CHAT, body, 200);
        const char *said = str_at(matching, "choices.0.message.content");
        ck_assert_msg(strlen(said) == 7 && strspn(said, "0123456789") == 4 && said[4] == '-', "%s", said);
        json_decref(matching);
    }
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO ",'enable_thinking':false,'guided_json':" POINT "}", 200);
    check_point(str_at(v, "choices.0.message.content"));
    json_decref(v);
    v = call_json(&b, "POST", "/v1/completions", "{'prompt':'x','guided_grammar':'root ::= [0-9]{3}'}", 200);
    ck_assert_uint_eq(strspn(str_at(v, "choices.0.text"), "0123456789"), 3);
    json_decref(v);
}
END_TEST

int main(void)
{
    if (access(DEMO, R_OK) != 0)
        return 77;
    Suite *s = suite_create("api_constrained");
    TCase *t = tcase_create("api_constrained");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_test(t, guided_answers);
    tcase_add_loop_test(t, a_schema, 0, (int)(sizeof schemas / sizeof *schemas));
    tcase_add_test(t, any_object);
    tcase_add_test(t, a_grammar);
    tcase_add_test(t, a_call_by_name);
    tcase_add_test(t, any_call);
    tcase_add_loop_test(t, what_cannot_be_compiled, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(t, many_grammars_at_once);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK); /* the scheduler has a thread */
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
