/* POST /v1/messages over a scheduler that says what the test wants: blocks, events in their order, stops, errors, and
 * what becomes of a request. */
#include "server/api_request.h"
#include "tests/unit/api_script.h"

#define PATH  "/v1/messages"
#define HELLO "'max_tokens':50,'messages':[{'role':'user','content':'hi'}]"
#define TOOLS "'tools':[{'name':'weather','description':'tells','input_schema':{'type':'object'}},{'name':'time'}]"

static const char *const thought_and_calls =
    "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par\\\"is\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

START_TEST(a_message)
{
    say("Hello there.");
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO "}", 200);
    ck_assert_str_eq(str_at(v, "id"), "msg_req-1");
    ck_assert_str_eq(str_at(v, "type"), "message");
    ck_assert_str_eq(str_at(v, "role"), "assistant");
    ck_assert_uint_eq(json_array_size(at(v, "content")), 1);
    ck_assert_str_eq(str_at(v, "content.0.type"), "text");
    ck_assert_str_eq(str_at(v, "content.0.text"), "Hello there.");
    ck_assert_str_eq(str_at(v, "stop_reason"), "end_turn");
    ck_assert(json_is_null(at(v, "stop_sequence")));
    ck_assert_int_eq(int_at(v, "usage.output_tokens"), 11);
    ck_assert_int_gt(int_at(v, "usage.input_tokens"), 0);
    ck_assert_int_eq(int_at(v, "usage.cache_read_input_tokens"), 2);
    json_decref(v);
    ck_assert_uint_eq(script.gen.n_max, 50);
    ck_assert_int_eq(script.gen.think, 0); /* nobody asked for it */
}
END_TEST

START_TEST(blocks_of_a_message)
{
    say(thought_and_calls);
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO "," TOOLS ",'thinking':{'type':'enabled','budget_tokens':30}}", 200);
    ck_assert_uint_eq(json_array_size(at(v, "content")), 4);
    ck_assert_str_eq(str_at(v, "content.0.type"), "thinking");
    ck_assert_str_eq(str_at(v, "content.0.thinking"), "Hm.");
    ck_assert_str_eq(str_at(v, "content.0.signature"), "");
    ck_assert_str_eq(str_at(v, "content.1.text"), "I look.");
    ck_assert_str_eq(str_at(v, "content.2.type"), "tool_use");
    ck_assert_str_eq(str_at(v, "content.2.name"), "weather");
    ck_assert_str_eq(str_at(v, "content.2.input.city"), "Par\"is");
    ck_assert_int_eq(strncmp(str_at(v, "content.2.id"), "toolu_", 6), 0);
    ck_assert_str_ne(str_at(v, "content.2.id"), str_at(v, "content.3.id"));
    ck_assert_uint_eq(json_object_size(at(v, "content.3.input")), 0);
    ck_assert_str_eq(str_at(v, "stop_reason"), "tool_use");
    json_decref(v);
    ck_assert_int_eq(script.gen.think, 1);
    ck_assert_int_eq(script.gen.think_budget, 30);
}
END_TEST

/* The events of a stream as [{"event":..,"data":..}]. */
static json_t *named_events(const char *body, size_t piece)
{
    struct reply_got r = call_in_pieces(&b, "POST", PATH, body, piece);
    json_t *all = json_array(), *v;
    char *save = NULL, name[64] = "";
    ck_assert_msg(r.status == 200 && r.streams, "%d: %.900s", r.status, r.text);
    for (char *line = strtok_r(r.text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "event: ", 7) == 0) {
            snprintf(name, sizeof name, "%s", line + 7);
            continue;
        }
        ck_assert_msg(strncmp(line, "data: ", 6) == 0, "not an event: %s", line);
        ck_assert_ptr_nonnull(v = json_loads(line + 6, JSON_REJECT_DUPLICATES, NULL));
        ck_assert_str_eq(str_at(v, "type"), name);
        json_array_append_new(all, v);
    }
    free(r.text);
    return all;
}

/* In their order, each block's deltas joined, and everything that the whole answer has. */
START_TEST(events_of_a_stream)
{
    static const size_t pieces[] = { 1, 4096 };
    say(thought_and_calls);
    script.per_take = _i ? 7 : 1;
    json_t *all = named_events("{" HELLO "," TOOLS ",'thinking':{'type':'enabled'},'stream':true}", pieces[_i]), *v;
    char order[4096] = "", said[5][256] = { "" };
    size_t i;
    json_array_foreach(all, i, v)
    {
        const char *type = str_at(v, "type");
        if (strcmp(type, "content_block_delta") != 0) {
            strcat(strcat(order, type), " ");
            continue;
        }
        long long block = int_at(v, "index");
        ck_assert(block >= 0 && block < 4);
        static const char *const texts[] = { "delta.thinking", "delta.text", "delta.partial_json", "delta.partial_json" };
        if (strcmp(str_at(v, "delta.type"), "signature_delta") != 0)
            strcat(said[block], str_at(v, texts[block]));
    }
#define BLOCK "content_block_start content_block_stop "
    ck_assert_str_eq(order, "message_start ping " BLOCK BLOCK BLOCK BLOCK "message_delta message_stop ");
    ck_assert_str_eq(said[0], "Hm.");
    ck_assert_str_eq(said[1], "I look.");
    json_t *input = json_loads(said[2], 0, NULL);
    ck_assert_str_eq(str_at(input, "city"), "Par\"is");
    ck_assert_str_eq(said[3], "{}");
    v = json_array_get(all, json_array_size(all) - 2);
    ck_assert_str_eq(str_at(v, "delta.stop_reason"), "tool_use");
    ck_assert_int_eq(int_at(v, "usage.output_tokens"), 11);
    json_decref(input);
    json_decref(all);
}
END_TEST

START_TEST(stops)
{
    say("One, two");
    script.reason = GEN_STOP_STRING;
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO ",'stop_sequences':[', three']}", 200);
    ck_assert_str_eq(str_at(v, "stop_reason"), "stop_sequence");
    ck_assert_str_eq(str_at(v, "stop_sequence"), ", three");
    json_decref(v);
    say("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Pa");
    script.reason = GEN_LENGTH;
    v = call_json(&b, "POST", PATH, "{" HELLO "," TOOLS ",'tool_choice':{'type':'any'}}", 200);
    ck_assert_str_eq(str_at(v, "stop_reason"), "max_tokens");
    ck_assert_uint_eq(json_array_size(at(v, "content")), 0); /* half a call is none, and no text either */
    json_decref(v);
}
END_TEST

START_TEST(errors)
{
    static const struct {
        const char *body, *says;
    } wrong[] = {
        { "{'max_tokens':5}", "'messages'" },
        { "{'messages':[{'role':'user'}]}", "messages[0].content" },
        { "{'messages':[{'role':'robot','content':''}]}", "messages[0].role" },
        { "{'messages':[{'role':'user','content':[{'type':'image'}]}]}", "messages[0].content[0]" },
        { "{'messages':[{'role':'user','content':[{'type':'text'}]}]}", "messages[0].content[0].text" },
        { "{'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'a'}]}]}", "messages[0].content[0].name" },
        { "{" HELLO ",'max_tokens':'many'}", "'max_tokens'" },
        { "{" HELLO ",'system':5}", "'system'" },
        { "{" HELLO ",'system':[{'type':'text','text':5}]}", "system[0].text" },
        { "{" HELLO ",'tools':[{'name':'a b'}]}", "tools[0].name" },
        { "{" HELLO ",'tools':[{'type':'web_search_20250305','name':'w'}]}", "tools[0].type" },
        { "{" HELLO "," TOOLS ",'tool_choice':{'type':'tool','name':'none'}}", "tool_choice.name" },
        { "{" HELLO ",'tool_choice':{'type':'any'}}", "tool_choice.type" },
        { "{" HELLO ",'thinking':{'type':'deep'}}", "thinking.type" },
        { "{" HELLO ",'thinking':{'type':'enabled','budget_tokens':'x'}}", "thinking.budget_tokens" },
        { "{" HELLO ",'stop_sequences':[5]}", "stop_sequences" },
        { "{" HELLO ",'output_config':{'format':{'type':'xml'}}}", "output_config.format.type" },
        { "{" HELLO ",'temperature':'hot'}", "'temperature'" },
        { "[", "JSON" },
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        say("no");
        json_t *v = call_json(&b, "POST", i % 2 ? PATH : PATH "/count_tokens", wrong[i].body, 400);
        ck_assert_str_eq(str_at(v, "type"), "error");
        ck_assert_str_eq(str_at(v, "error.type"), "invalid_request_error");
        ck_assert_msg(strstr(str_at(v, "error.message"), wrong[i].says) != NULL, "%s: %s", wrong[i].body,
                      str_at(v, "error.message"));
        ck_assert_uint_eq(script.submitted, 0);
        json_decref(v);
    }
    say("no");
    script.refuse_at = 0;
    script.refuse = -EBUSY;
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO "}", 429);
    ck_assert_str_eq(str_at(v, "error.type"), "rate_limit_error");
    json_decref(v);
    script.refuse = -E2BIG;
    script.submitted = 0;
    v = call_json(&b, "POST", PATH, "{" HELLO "}", 400);
    ck_assert_int_eq(strncmp(str_at(v, "error.message"), "prompt is too long: ", 20), 0);
    json_decref(v);
    json_decref(call_json(&b, "GET", PATH, "", 405));
    char *s = api_error_json(PATH, 401, NULL, "c", "no key");
    v = json_loads(s, 0, NULL);
    ck_assert_str_eq(str_at(v, "error.type"), "authentication_error");
    json_decref(v);
    free(s);
}
END_TEST

START_TEST(a_stream_breaks)
{
    say("Hello");
    script.end = SCHED_FAILED;
    json_t *all = named_events("{" HELLO ",'stream':true}", 4096), *v = json_array_get(all, json_array_size(all) - 1);
    ck_assert_str_eq(str_at(v, "type"), "error");
    ck_assert_str_eq(str_at(v, "error.type"), "api_error");
    json_decref(all);
}
END_TEST

/* ---- what becomes of a request ---- */

static struct api_request parsed(const char *text)
{
    struct api_defaults d = { .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000,
                              .sampling = sampler_defaults() };
    struct api_request r;
    struct api_problem p;
    char *body = quoted(text);
    ck_assert_msg(api_request_anthropic(&d, body, strlen(body), &r, &p) == 0, "%s", p.message);
    free(body);
    return r;
}

START_TEST(a_conversation_is_read)
{
    struct api_request r = parsed(
        "{'system':[{'type':'text','text':'Be brief.','cache_control':{'type':'ephemeral'}},{'type':'text','text':'Now.'}],"
        "'messages':[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':'b'}]},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'hm','signature':''},{'type':'text','text':'I look'},"
        "{'type':'tool_use','id':'t1','name':'weather','input':{'city':'Rome'}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'t1','content':[{'type':'text','text':'sun'}]},"
        "{'type':'tool_result','tool_use_id':'t2','content':'no','is_error':true},{'type':'text','text':'so?'}]},"
        "{'role':'assistant','content':'It'}]}");
    static const char *const want[][2] = { { "system", "Be brief.\nNow." }, { "user", "a\nb" }, { "assistant", "I look" },
                                           { "tool", "sun" }, { "tool", "no" }, { "user", "so?" }, { "assistant", "It" } };
    ck_assert_uint_eq(r.n_messages, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        ck_assert_str_eq(r.messages[i].role, want[i][0]);
        ck_assert_str_eq(r.messages[i].text, want[i][1]);
    }
    ck_assert_str_eq(r.messages[2].reasoning, "hm");
    ck_assert_uint_eq(r.messages[2].n_calls, 1);
    ck_assert_str_eq(r.messages[2].calls[0].id, "t1");
    ck_assert_str_eq(r.messages[2].calls[0].arguments, "{\"city\":\"Rome\"}");
    ck_assert_str_eq(r.messages[3].call_id, "t1");
    ck_assert(r.continue_final);
    api_request_finish(&r);
}
END_TEST

/* What changes with each request and says nothing stands before all else: with it nothing of a prompt could be reused. */
START_TEST(lines_of_accounting_are_left_out)
{
    static const char *const systems[] = {
        "'x-anthropic-billing-header: cc_version=2.1.36; cch=%s;\\nBe brief.'",
        "[{'type':'text','text':'x-anthropic-billing-header: cch=%s;'},{'type':'text','text':'Be brief.'}]",
        "'X-Some-Attribution: %s\\n\\nBe brief.'",
    };
    for (size_t i = 0; i < ARRAY_LEN(systems); i++) {
        char system[256], body[512];
        snprintf(system, sizeof system, systems[i], "f1a2");
        snprintf(body, sizeof body, "{'system':%s,'messages':[{'role':'user','content':'a'}]}", system);
        struct api_request r = parsed(body);
        ck_assert_str_eq(r.messages[0].text, "Be brief.");
        api_request_finish(&r);
    }
    struct api_request r = parsed("{'system':'x-ray: billing is not here','messages':[{'role':'user','content':'a'}]}");
    ck_assert_str_eq(r.messages[0].text, "x-ray: billing is not here");
    api_request_finish(&r);
}
END_TEST

START_TEST(tools_and_forms_are_read)
{
    struct api_request r = parsed("{" HELLO "," TOOLS ",'tool_choice':{'type':'tool','name':'time',"
                                  "'disable_parallel_tool_use':true}}");
    ck_assert_int_eq(r.choice, ANSWER_TOOLS_NAMED);
    ck_assert_str_eq(r.named, "time");
    ck_assert(!r.parallel);
    json_t *v = json_loads(r.tools, 0, NULL);
    ck_assert_str_eq(str_at(v, "0.function.name"), "weather");
    ck_assert_str_eq(str_at(v, "0.function.parameters.type"), "object");
    json_decref(v);
    api_request_finish(&r);
    r = parsed("{" HELLO ",'output_config':{'effort':'high','format':{'type':'json_schema','schema':{'type':'object'}}}}");
    ck_assert_int_eq(r.format, ANSWER_JSON_SCHEMA);
    ck_assert_str_eq(r.schema, "{\"type\":\"object\"}");
    ck_assert_str_eq(r.effort, "high");
    ck_assert_int_eq(r.think, 0);
    api_request_finish(&r);
}
END_TEST

START_TEST(tokens_are_counted)
{
    say("");
    json_t *v = call_json(&b, "POST", PATH "/count_tokens", "{" HELLO "}", 200);
    json_t *more = call_json(&b, "POST", PATH "/count_tokens", "{" HELLO ",'system':'Be brief.'," TOOLS "}", 200);
    ck_assert_int_gt(int_at(v, "input_tokens"), 0);
    ck_assert_int_gt(int_at(more, "input_tokens"), int_at(v, "input_tokens") + 10);
    ck_assert_uint_eq(script.submitted, 0);
    json_decref(v);
    json_decref(more);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_anthropic");
    TCase *t = tcase_create("api_anthropic");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 100);
    tcase_add_test(t, a_message);
    tcase_add_test(t, blocks_of_a_message);
    tcase_add_loop_test(t, events_of_a_stream, 0, 2);
    tcase_add_test(t, stops);
    tcase_add_test(t, errors);
    tcase_add_test(t, a_stream_breaks);
    tcase_add_test(t, a_conversation_is_read);
    tcase_add_test(t, lines_of_accounting_are_left_out);
    tcase_add_test(t, tools_and_forms_are_read);
    tcase_add_test(t, tokens_are_counted);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
