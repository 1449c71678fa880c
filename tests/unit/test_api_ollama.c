/* Ollama's API over a scheduler that says what the test wants: lines of a stream, whole answers, models, errors, and what
 * becomes of a request. */
#include "server/api_request.h"
#include "tests/unit/api_script.h"

#define CHAT     "/api/chat"
#define GENERATE "/api/generate"
#define HELLO    "'model':'m','messages':[{'role':'user','content':'hi'}]"
#define TOOLS                                                                                                          \
    "'tools':[{'type':'function','function':{'name':'weather','parameters':{'type':'object'}}},"                       \
    "{'type':'function','function':{'name':'time'}}]"

static const char *const thought_and_calls =
    "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par\\\"is\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

static void check_counts(json_t *v)
{
    ck_assert(json_is_true(at(v, "done")));
    ck_assert_str_eq(str_at(v, "done_reason"), "stop");
    ck_assert_int_eq(int_at(v, "eval_count"), 11);
    ck_assert_int_gt(int_at(v, "prompt_eval_count"), 0);
    ck_assert_int_ge(int_at(v, "total_duration"), 0);
    ck_assert_uint_eq(strlen(str_at(v, "created_at")), 27);
}

START_TEST(whole_answers)
{
    say(thought_and_calls);
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS ",'think':true,'stream':false,'options':{'num_predict':7}}", 200);
    check_counts(v);
    ck_assert_str_eq(str_at(v, "message.role"), "assistant");
    ck_assert_str_eq(str_at(v, "message.thinking"), "Hm.");
    ck_assert_str_eq(str_at(v, "message.content"), "I look.");
    ck_assert_uint_eq(json_array_size(at(v, "message.tool_calls")), 2);
    ck_assert_str_eq(str_at(v, "message.tool_calls.0.function.name"), "weather");
    ck_assert_str_eq(str_at(v, "message.tool_calls.0.function.arguments.city"), "Par\"is");
    ck_assert_uint_eq(json_object_size(at(v, "message.tool_calls.1.function.arguments")), 0);
    json_decref(v);
    ck_assert_uint_eq(script.gen.n_max, 7);
    ck_assert_int_eq(script.gen.think, 1);
    say("Hello <b>");
    v = call_json(&b, "POST", GENERATE, "{'prompt':'hi','system':'Be brief.','stream':false,'think':false}", 200);
    check_counts(v);
    ck_assert_str_eq(str_at(v, "response"), "Hello <b>");
    ck_assert_ptr_null(at(v, "message"));
    json_decref(v);
    say("<think> is text here");
    v = call_json(&b, "POST", GENERATE, "{'prompt':'hi','raw':true,'stream':false}", 200);
    ck_assert_str_eq(str_at(v, "response"), "<think> is text here");
    ck_assert_int_eq(int_at(v, "prompt_eval_count"), 1);
    json_decref(v);
}
END_TEST

static json_t *lines_of(const char *path_, const char *body)
{
    char *text = quoted(body), *save = NULL;
    struct wait w = WAIT_INIT;
    struct api_call c = { .method = "POST", .path = path_, .body = text, .n_body = strlen(text), .wake = wait_wake, .user = &w };
    struct api_exchange *x = api_begin(b.api, &c);
    json_t *all = json_array(), *v;
    char got[65536] = "";
    size_t n = 0;
    ssize_t k;
    while (!api_status(x))
        wait_for(&w);
    ck_assert_int_eq(api_status(x), 200);
    ck_assert_str_eq(api_content_type(x), "application/x-ndjson");
    while ((k = api_read(x, got + n, 1)) >= 0)
        n += (size_t)k;
    api_end(x);
    free(text);
    for (char *line = strtok_r(got, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        v = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(v != NULL, "%s", line);
        json_array_append_new(all, v);
    }
    return all;
}

START_TEST(lines_of_a_stream)
{
    say(thought_and_calls);
    script.per_take = _i ? 7 : 1;
    json_t *all = lines_of(CHAT, "{" HELLO "," TOOLS "}"), *v;
    char content[256] = "", thinking[256] = "", called[256] = "";
    size_t i;
    json_array_foreach(all, i, v)
    {
        bool last = i == json_array_size(all) - 1;
        ck_assert(json_is_true(at(v, "done")) == last);
        strcat(content, str_at(v, "message.content"));
        if (at(v, "message.thinking"))
            strcat(thinking, str_at(v, "message.thinking"));
        if (at(v, "message.tool_calls")) {
            ck_assert_uint_eq(json_array_size(at(v, "message.tool_calls")), 1);
            ck_assert(json_is_object(at(v, "message.tool_calls.0.function.arguments")));
            strcat(strcat(called, str_at(v, "message.tool_calls.0.function.name")), " ");
        }
    }
    ck_assert_str_eq(content, "I look.");
    ck_assert_str_eq(thinking, "Hm.");
    ck_assert_str_eq(called, "weather time ");
    check_counts(json_array_get(all, json_array_size(all) - 1));
    json_decref(all);
    say("Hello");
    all = lines_of(GENERATE, "{'prompt':'hi','raw':true}");
    ck_assert_str_eq(str_at(json_array_get(all, json_array_size(all) - 2), "response"), "o");
    json_decref(all);
}
END_TEST

START_TEST(a_call_cut_off_is_none)
{
    for (int stream = 0; stream < 2; stream++) {
        say("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Pa");
        script.reason = GEN_LENGTH;
        json_t *v = stream ? lines_of(CHAT, "{" HELLO "," TOOLS "}")
                           : json_pack("[o]", call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS ",'stream':false}", 200));
        json_t *last = json_array_get(v, json_array_size(v) - 1), *one;
        size_t i;
        ck_assert_str_eq(str_at(last, "done_reason"), "length");
        json_array_foreach(v, i, one)
        {
            ck_assert_ptr_null(at(one, "message.tool_calls"));
            ck_assert_str_eq(str_at(one, "message.content"), "");
        }
        json_decref(v);
    }
}
END_TEST

START_TEST(a_stream_breaks)
{
    say("Hello");
    script.end = SCHED_FAILED;
    json_t *all = lines_of(CHAT, "{" HELLO "}");
    ck_assert_str_eq(str_at(json_array_get(all, json_array_size(all) - 1), "error"), "the script ends so");
    json_decref(all);
}
END_TEST

START_TEST(nothing_to_say_is_loaded)
{
    say("no");
    json_t *v = call_json(&b, "POST", CHAT, "{'model':'m','messages':[]}", 200);
    ck_assert_str_eq(str_at(v, "done_reason"), "load");
    ck_assert_str_eq(str_at(v, "message.content"), "");
    json_decref(v);
    v = call_json(&b, "POST", GENERATE, "{'model':'m','keep_alive':0}", 200);
    ck_assert_str_eq(str_at(v, "response"), "");
    json_decref(v);
    ck_assert_uint_eq(script.submitted, 0);
}
END_TEST

START_TEST(errors)
{
    static const struct {
        const char *path, *body, *says;
    } wrong[] = {
        { CHAT, "{'messages':5}", "'messages'" },
        { CHAT, "{'messages':[{'role':'robot'}]}", "messages[0].role" },
        { CHAT, "{'messages':[{'role':'user','content':5}]}", "messages[0].content" },
        { CHAT, "{'messages':[{'role':'user','content':'a','images':['aa']}]}", "messages[0].images" },
        { CHAT, "{" HELLO ",'options':5}", "'options'" },
        { CHAT, "{" HELLO ",'options':{'temperature':'hot'}}", "options.temperature" },
        { CHAT, "{" HELLO ",'options':{'num_predict':-3}}", "options.num_predict" },
        { CHAT, "{" HELLO ",'format':'xml'}", "'format'" },
        { CHAT, "{" HELLO ",'think':'deep'}", "'think'" },
        { CHAT, "{" HELLO ",'tools':[{'type':'function'}]}", "tools[0]" },
        { CHAT, "{" HELLO ",'stream':'no'}", "'stream'" },
        { GENERATE, "{'prompt':5}", "'prompt'" },
        { GENERATE, "{'prompt':'a','template':'b'}", "'template'" },
        { GENERATE, "{'prompt':'a','images':['b']}", "'images'" },
        { GENERATE, "{'prompt':'a','raw':true,'format':'json'}", "'raw'" },
        { "/api/show", "{}", "'model'" },
        { "/api/embed", "{'input':'a'}", "pooling_type" },
        { CHAT, "[", "JSON" },
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        say("no");
        json_t *v = call_json(&b, "POST", wrong[i].path, wrong[i].body, 400);
        ck_assert_uint_eq(json_object_size(v), 1);
        ck_assert_msg(strstr(str_at(v, "error"), wrong[i].says) != NULL, "%s: %s", wrong[i].body, str_at(v, "error"));
        ck_assert_uint_eq(script.submitted, 0);
        json_decref(v);
    }
    json_decref(call_json(&b, "POST", "/api/show", "{'model':'other'}", 404));
    ck_assert_uint_eq(api_methods("/v1/api/chat", NULL), 0);
}
END_TEST

START_TEST(a_conversation_is_read)
{
    struct api_defaults d = { .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000,
                              .sampling = sampler_defaults() };
    struct api_request r;
    struct api_problem p;
    char *body = quoted(
        "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'u'},{'role':'assistant','content':'a',"
        "'thinking':'hm','tool_calls':[{'function':{'name':'f','arguments':{'x':1}}}]},"
        "{'role':'tool','tool_name':'f','content':'r'}],'options':{'seed':7,'top_k':5,'stop':['x'],'num_predict':-2,"
        "'num_ctx':99},'format':{'type':'object'},'think':'low'}");
    ck_assert_msg(api_request_ollama_chat(&d, body, strlen(body), &r, &p) == 0, "%s", p.message);
    ck_assert_uint_eq(r.n_messages, 4);
    ck_assert_str_eq(r.messages[2].reasoning, "hm");
    ck_assert_str_eq(r.messages[2].calls[0].arguments, "{\"x\":1}");
    ck_assert_str_eq(r.messages[3].name, "f");
    ck_assert_uint_eq(r.sampling.seed, 7);
    ck_assert_int_eq(r.sampling.top_k, 5);
    ck_assert_uint_eq(r.max_tokens, 0);
    ck_assert_str_eq(r.stop[0], "x");
    ck_assert_int_eq(r.format, ANSWER_JSON_SCHEMA);
    ck_assert_str_eq(r.effort, "low");
    ck_assert(r.stream);
    free(body);
    api_request_finish(&r);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_ollama");
    TCase *t = tcase_create("api_ollama");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 100);
    tcase_add_test(t, whole_answers);
    tcase_add_loop_test(t, lines_of_a_stream, 0, 2);
    tcase_add_test(t, a_call_cut_off_is_none);
    tcase_add_test(t, a_stream_breaks);
    tcase_add_test(t, nothing_to_say_is_loaded);
    tcase_add_test(t, errors);
    tcase_add_test(t, a_conversation_is_read);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
