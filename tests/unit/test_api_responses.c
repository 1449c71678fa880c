/* POST /v1/responses over a scheduler that says what the test wants: items, events and their numbers, what is stored,
 * errors, and what becomes of a request. */
#include "server/api_request.h"
#include "tests/unit/api_script.h"

#define PATH  "/v1/responses"
#define HELLO "'input':'hi'"
#define TOOLS "'tools':[{'type':'function','name':'weather','parameters':{'type':'object'}},{'type':'function','name':'time'}]"

static const char *const thought_and_calls =
    "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par\\\"is\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

START_TEST(a_response)
{
    say("Hello there.");
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO ",'reasoning':{'effort':'none'},'max_output_tokens':9,'metadata':{'a':'b'}}", 200);
    ck_assert_int_eq(strncmp(str_at(v, "id"), "resp_", 5), 0);
    ck_assert_str_eq(str_at(v, "object"), "response");
    ck_assert_str_eq(str_at(v, "status"), "completed");
    ck_assert(json_is_null(at(v, "error")) && json_is_null(at(v, "incomplete_details")));
    ck_assert_uint_eq(json_array_size(at(v, "output")), 1);
    ck_assert_str_eq(str_at(v, "output.0.type"), "message");
    ck_assert_str_eq(str_at(v, "output.0.role"), "assistant");
    ck_assert_str_eq(str_at(v, "output.0.content.0.type"), "output_text");
    ck_assert_str_eq(str_at(v, "output.0.content.0.text"), "Hello there.");
    ck_assert_str_eq(str_at(v, "metadata.a"), "b");
    ck_assert_int_eq(int_at(v, "max_output_tokens"), 9);
    ck_assert_int_eq(int_at(v, "usage.output_tokens"), 11);
    ck_assert_int_eq(int_at(v, "usage.input_tokens_details.cached_tokens"), 2);
    ck_assert_int_eq(int_at(v, "usage.output_tokens_details.reasoning_tokens"), 6);
    ck_assert_int_eq(int_at(v, "usage.total_tokens"), int_at(v, "usage.input_tokens") + 11);
    json_decref(v);
    ck_assert_uint_eq(script.gen.n_max, 9);
}
END_TEST

/* What is whole and what the last event of a stream says is the same, but for ids and times. */
static void check_items(json_t *v)
{
    ck_assert_str_eq(str_at(v, "status"), "completed");
    ck_assert_uint_eq(json_array_size(at(v, "output")), 4);
    ck_assert_str_eq(str_at(v, "output.0.type"), "reasoning");
    ck_assert_str_eq(str_at(v, "output.0.content.0.text"), "Hm.");
    ck_assert_str_eq(str_at(v, "output.1.content.0.text"), "I look.");
    ck_assert_str_eq(str_at(v, "output.2.type"), "function_call");
    ck_assert_str_eq(str_at(v, "output.2.name"), "weather");
    ck_assert_str_eq(str_at(v, "output.2.status"), "completed");
    json_t *arguments = json_loads(str_at(v, "output.2.arguments"), 0, NULL);
    ck_assert_str_eq(str_at(arguments, "city"), "Par\"is");
    json_decref(arguments);
    ck_assert_str_ne(str_at(v, "output.2.call_id"), str_at(v, "output.3.call_id"));
    ck_assert_str_ne(str_at(v, "output.2.id"), str_at(v, "output.3.id"));
    ck_assert_str_eq(str_at(v, "output.3.arguments"), "{}");
}

START_TEST(items_of_a_response)
{
    say(thought_and_calls);
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO "," TOOLS "}", 200);
    check_items(v);
    json_decref(v);
}
END_TEST

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
        v = json_loads(line + 6, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(v != NULL, "%s", line);
        ck_assert_str_eq(str_at(v, "type"), name);
        ck_assert_int_eq(int_at(v, "sequence_number"), (long long)json_array_size(all));
        json_array_append_new(all, v);
    }
    free(r.text);
    return all;
}

START_TEST(events_of_a_stream)
{
    static const size_t pieces[] = { 1, 4096 };
    say(thought_and_calls);
    script.per_take = _i ? 7 : 1;
    json_t *all = named_events("{" HELLO "," TOOLS ",'stream':true}", pieces[_i]), *v;
    char order[4096] = "", said[4][256] = { "" };
    size_t i;
    json_array_foreach(all, i, v)
    {
        const char *type = str_at(v, "type") + strlen("response."), *end = strrchr(type, '.');
        if (end && strcmp(end, ".delta") == 0)
            strcat(said[int_at(v, "output_index")], str_at(v, "delta"));
        else
            strcat(strcat(order, type), " ");
        if (strcmp(type, "output_text.done") == 0)
            ck_assert_str_eq(str_at(v, "text"), said[1]);
        if (strcmp(type, "function_call_arguments.done") == 0)
            ck_assert_str_eq(str_at(v, "arguments"), said[int_at(v, "output_index")]);
    }
#define PART(what) "output_item.added content_part.added " what ".done content_part.done output_item.done "
#define CALL       "output_item.added function_call_arguments.done output_item.done "
    ck_assert_str_eq(order, "created in_progress " PART("reasoning_text") PART("output_text") CALL CALL "completed ");
    ck_assert_str_eq(said[0], "Hm.");
    ck_assert_str_eq(said[1], "I look.");
    check_items(at(json_array_get(all, json_array_size(all) - 1), "response"));
    json_decref(all);
}
END_TEST

START_TEST(a_call_cut_off)
{
    say("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Pa");
    script.reason = GEN_LENGTH;
    json_t *v = call_json(&b, "POST", PATH, "{" HELLO "," TOOLS "}", 200);
    ck_assert_str_eq(str_at(v, "status"), "incomplete");
    ck_assert_str_eq(str_at(v, "incomplete_details.reason"), "max_output_tokens");
    ck_assert_str_eq(str_at(v, "output.0.status"), "incomplete");
    ck_assert_ptr_null(strstr(str_at(v, "output.0.arguments"), "tool_call"));
    json_decref(v);
}
END_TEST

START_TEST(a_stream_breaks)
{
    say("Hello");
    script.end = SCHED_FAILED;
    json_t *all = named_events("{" HELLO ",'stream':true}", 4096);
    size_t n = json_array_size(all);
    ck_assert_str_eq(str_at(json_array_get(all, n - 2), "type"), "response.failed");
    ck_assert_str_eq(str_at(json_array_get(all, n - 2), "response.status"), "failed");
    ck_assert_str_eq(str_at(json_array_get(all, n - 1), "type"), "error");
    ck_assert_str_eq(str_at(json_array_get(all, n - 1), "code"), "engine_failed");
    json_decref(all);
}
END_TEST

/* ---- going on ---- */

static uint32_t prompt_tokens(const char *body)
{
    json_t *v = call_json(&b, "POST", PATH, body, 200);
    long long n = int_at(v, "usage.input_tokens");
    json_decref(v);
    return (uint32_t)n;
}

static char *go_on(const char *id, const char *more)
{
    static char body[512];
    snprintf(body, sizeof body, "{'previous_response_id':'%s','input':'And now?'%s}", id, more);
    return body;
}

START_TEST(responses_go_on)
{
    say("Hello there, whoever you are.");
    json_t *first = call_json(&b, "POST", PATH, "{'input':[{'role':'user','content':'hi'}],'instructions':'Be brief.'}", 200);
    say("Fine.");
    json_t *second = call_json(&b, "POST", PATH, go_on(str_at(first, "id"), ""), 200);
    say("Well.");
    uint32_t third = prompt_tokens(go_on(str_at(second, "id"), ""));
    say("Well.");
    uint32_t spelled = prompt_tokens("{'input':[{'role':'user','content':'hi'},{'role':'assistant','content':"
                                     "'Hello there, whoever you are.'},{'role':'user','content':'And now?'},"
                                     "{'role':'assistant','content':'Fine.'},{'role':'user','content':'And now?'}]}");
    ck_assert_uint_eq(third, spelled);
    ck_assert_str_eq(str_at(second, "previous_response_id"), str_at(first, "id"));
    json_decref(first);
    json_decref(second);
}
END_TEST

START_TEST(what_is_not_stored_is_not_there)
{
    say("Hello");
    json_t *first = call_json(&b, "POST", PATH, "{" HELLO ",'store':false}", 200);
    json_t *v = call_json(&b, "POST", PATH, go_on(str_at(first, "id"), ""), 400);
    ck_assert_str_eq(str_at(v, "error.code"), "previous_response_not_found");
    ck_assert_str_eq(str_at(v, "error.param"), "previous_response_id");
    json_decref(v);
    json_decref(first);
    /* so many, and no more */
    say("Hello");
    first = call_json(&b, "POST", PATH, "{" HELLO "}", 200);
    for (int i = 0; i < 1100; i++) {
        say("a");
        json_decref(call_json(&b, "POST", PATH, "{" HELLO "}", 200));
    }
    json_decref(call_json(&b, "POST", PATH, go_on(str_at(first, "id"), ""), 400));
    json_decref(first);
}
END_TEST

/* ---- asking again ---- */

/* A call without a body for this owner. */
static json_t *fetch(const char *method, const char *where, const char *query, uint64_t owner, int status)
{
    struct wait w = WAIT_INIT;
    struct api_call c = { .method = method, .path = where, .query = query, .body = "", .owner = owner, .wake = wait_wake,
                          .user = &w };
    struct api_exchange *x = api_begin(b.api, &c);
    struct reply_got r = read_all(x, &w, 4096);
    ck_assert_msg(r.status == status, "%s %s?%s: %d, expected %d: %.300s", method, where, query ? query : "", r.status, status,
                  r.text);
    json_t *v = json_loads(r.text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(v);
    api_end(x);
    free(r.text);
    return v;
}

static const char *path_of(const json_t *response, const char *rest)
{
    static char its[200];
    snprintf(its, sizeof its, PATH "/%s%s", str_at((json_t *)response, "id"), rest);
    return its;
}

START_TEST(a_response_is_there_until_it_is_deleted)
{
    say(thought_and_calls);
    json_t *first = call_json(&b, "POST", PATH, "{" HELLO "," TOOLS ",'metadata':{'a':'b'}}", 200), *v;
    v = fetch("GET", path_of(first, ""), NULL, 0, 200);
    ck_assert_int_eq(json_equal(v, first), 1);
    json_decref(v);
    json_decref(fetch("GET", path_of(first, ""), NULL, 7, 404)); /* another key */
    json_decref(fetch("DELETE", path_of(first, ""), NULL, 7, 404));
    json_decref(fetch("POST", path_of(first, ""), NULL, 0, 405));
    json_decref(fetch("GET", path_of(first, "/other"), NULL, 0, 404));
    v = fetch("DELETE", path_of(first, "") + 3, NULL, 0, 200); /* without /v1 */
    ck_assert_str_eq(str_at(v, "id"), str_at(first, "id"));
    ck_assert(json_is_true(at(v, "deleted")));
    json_decref(v);
    v = fetch("GET", path_of(first, ""), NULL, 0, 404);
    ck_assert_str_eq(str_at(v, "error.code"), "response_not_found");
    json_decref(v);
    json_decref(fetch("DELETE", path_of(first, ""), NULL, 0, 404));
    say("a");
    json_decref(call_json(&b, "POST", PATH, go_on(str_at(first, "id"), ""), 400));
    json_decref(first);
    /* what a stream ended with is there too */
    say("Hello");
    json_t *all = named_events("{" HELLO ",'stream':true}", 4096);
    first = at(json_array_get(all, json_array_size(all) - 1), "response");
    v = fetch("GET", path_of(first, ""), NULL, 0, 200);
    ck_assert_int_eq(json_equal(v, first), 1);
    json_decref(v);
    json_decref(all);
}
END_TEST

START_TEST(input_items)
{
    say("Fine.");
    json_t *first = call_json(&b, "POST", PATH, "{'input':[{'role':'user','content':'hi'},{'role':'assistant','content':'Yes?'},"
                              "{'type':'message','id':'mine','role':'user','content':[{'type':'input_text','text':'Well'}]}]}", 200);
    json_t *v = fetch("GET", path_of(first, "/input_items"), "order=asc", 0, 200);
    ck_assert_str_eq(str_at(v, "object"), "list");
    ck_assert_uint_eq(json_array_size(at(v, "data")), 3);
    ck_assert_str_eq(str_at(v, "data.0.type"), "message");
    ck_assert_str_eq(str_at(v, "data.0.content.0.type"), "input_text");
    ck_assert_str_eq(str_at(v, "data.0.content.0.text"), "hi");
    ck_assert_str_eq(str_at(v, "data.1.content.0.type"), "output_text");
    ck_assert_str_eq(str_at(v, "data.2.id"), "mine");
    ck_assert_str_eq(str_at(v, "first_id"), str_at(v, "data.0.id"));
    ck_assert_str_eq(str_at(v, "last_id"), "mine");
    ck_assert(json_is_false(at(v, "has_more")));
    json_decref(v);
    v = fetch("GET", path_of(first, "/input_items"), "limit=1", 0, 200); /* the newest first */
    ck_assert_uint_eq(json_array_size(at(v, "data")), 1);
    ck_assert_str_eq(str_at(v, "data.0.id"), "mine");
    ck_assert(json_is_true(at(v, "has_more")));
    json_decref(v);
    v = fetch("GET", path_of(first, "/input_items"), "after=mine&limit=5&order=desc", 0, 200);
    ck_assert_uint_eq(json_array_size(at(v, "data")), 2);
    ck_assert_str_eq(str_at(v, "data.1.content.0.text"), "hi");
    json_decref(v);
    static const char *const wrong[] = { "limit=0", "limit=101", "limit=x", "order=up" };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        json_decref(fetch("GET", path_of(first, "/input_items"), wrong[i], 0, 400));
    json_decref(fetch("GET", path_of(first, "/input_items"), NULL, 7, 404));
    say("Good.");
    json_t *second = call_json(&b, "POST", PATH, go_on(str_at(first, "id"), ""), 200); /* what came before is in it */
    v = fetch("GET", path_of(second, "/input_items"), "order=asc", 0, 200);
    ck_assert_uint_eq(json_array_size(at(v, "data")), 5);
    ck_assert_str_eq(str_at(v, "data.3.content.0.text"), "Fine.");
    ck_assert_str_eq(str_at(v, "data.4.content.0.text"), "And now?");
    json_decref(v);
    json_decref(second);
    json_decref(first);
}
END_TEST

/* Another key's conversation is not there. */
START_TEST(each_owner_has_its_own)
{
    char *body = quoted("{" HELLO "}");
    struct wait w = WAIT_INIT;
    struct api_call c = { .method = "POST", .path = PATH, .body = body, .n_body = strlen(body), .owner = 2,
                          .wake = wait_wake, .user = &w };
    say("Hello");
    struct api_exchange *x = api_begin(b.api, &c);
    struct reply_got r = read_all(x, &w, 4096);
    api_end(x);
    json_t *v = json_loads(r.text, 0, NULL);
    json_decref(call_json(&b, "POST", PATH, go_on(str_at(v, "id"), ""), 400));
    free(body);
    c.body = body = quoted(go_on(str_at(v, "id"), ""));
    c.n_body = strlen(body);
    say("Hello");
    x = api_begin(b.api, &c);
    free(r.text);
    r = read_all(x, &w, 4096);
    ck_assert_int_eq(r.status, 200);
    api_end(x);
    free(r.text);
    free(body);
    json_decref(v);
}
END_TEST

/* ---- errors, and what becomes of a request ---- */

START_TEST(errors)
{
    static const struct {
        const char *body, *param;
    } wrong[] = {
        { "{}", "input" },
        { "{'input':5}", "input" },
        { "{'input':[]}", "input" },
        { "{'input':[{'role':'robot','content':''}]}", "input[0].role" },
        { "{'input':[{'role':'user'}]}", "input[0].content" },
        { "{'input':[{'role':'user','content':[{'type':'input_image'}]}]}", "input[0].content[0]" },
        { "{'input':[{'type':'item_reference','id':'a'}]}", "input[0].type" },
        { "{'input':[{'type':'function_call','call_id':'a'}]}", "input[0].name" },
        { "{'input':[{'type':'function_call_output','output':''}]}", "input[0].call_id" },
        { "{'input':[{'type':'function_call_output','call_id':'a'}]}", "input[0].output" },
        { "{" HELLO ",'tools':[{'type':'function','name':'a b'}]}", "tools[0].name" },
        { "{" HELLO "," TOOLS ",'tool_choice':{'type':'function','name':'none'}}", "tool_choice.name" },
        { "{" HELLO "," TOOLS ",'tool_choice':{'type':'allowed_tools','tools':[{}]}}", "tool_choice.tools" },
        { "{" HELLO ",'tool_choice':'required'}", "tool_choice" },
        { "{" HELLO ",'text':{'format':{'type':'xml'}}}", "text.format.type" },
        { "{" HELLO ",'text':{'format':{'type':'json_schema'}}}", "text.format.schema" },
        { "{" HELLO ",'reasoning':{'effort':'huge'}}", "reasoning.effort" },
        { "{" HELLO ",'max_output_tokens':0}", "max_output_tokens" },
        { "{" HELLO ",'background':true}", "background" },
        { "{" HELLO ",'conversation':'c'}", "conversation" },
        { "{" HELLO ",'store':'yes'}", "store" },
        { "{" HELLO ",'previous_response_id':'resp_none'}", "previous_response_id" },
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        say("no");
        json_t *v = call_json(&b, "POST", PATH, wrong[i].body, 400);
        ck_assert_msg(strcmp(str_at(v, "error.param"), wrong[i].param) == 0, "%s: %s", wrong[i].body,
                      str_at(v, "error.param"));
        ck_assert_uint_eq(script.submitted, 0);
        json_decref(v);
    }
}
END_TEST

START_TEST(a_conversation_is_read)
{
    struct api_defaults d = { .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000,
                              .sampling = sampler_defaults() };
    struct api_request r;
    struct api_problem p;
    char *body = quoted(
        "{'instructions':'Be brief.','input':[{'type':'message','role':'developer','content':'d'},"
        "{'role':'user','content':[{'type':'input_text','text':'a'},{'type':'input_text','text':'b'}]},"
        "{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text','text':'hm'}],'encrypted_content':'x'},"
        "{'type':'message','role':'assistant','content':[{'type':'output_text','text':'I look'}]},"
        "{'type':'function_call','call_id':'c1','name':'weather','arguments':'{}'},"
        "{'type':'function_call','call_id':'c2','name':'time','arguments':''},"
        "{'type':'function_call_output','call_id':'c1','output':'sun'},"
        "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'noon'}]}],"
        "'tools':[{'type':'function','name':'f'},{'type':'web_search'}]}");
    ck_assert_msg(api_request_responses(&d, body, strlen(body), &r, &p) == 0, "%s", p.message);
    static const char *const want[][2] = { { "system", "Be brief." }, { "developer", "d" }, { "user", "a\nb" },
                                           { "assistant", "I look" }, { "tool", "sun" }, { "tool", "noon" } };
    ck_assert_uint_eq(r.n_messages, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        ck_assert_str_eq(r.messages[i].role, want[i][0]);
        ck_assert_str_eq(r.messages[i].text, want[i][1]);
    }
    ck_assert_str_eq(r.messages[3].reasoning, "hm");
    ck_assert_uint_eq(r.messages[3].n_calls, 2);
    ck_assert_str_eq(r.messages[3].calls[1].id, "c2");
    ck_assert_ptr_null(r.messages[3].calls[1].arguments);
    ck_assert_uint_eq(json_array_size(r.warnings), 1);
    json_t *tools = json_loads(r.tools, 0, NULL);
    ck_assert_uint_eq(json_array_size(tools), 1);
    json_decref(tools);
    free(body);
    api_request_finish(&r);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_responses");
    TCase *t = tcase_create("api_responses");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 100);
    tcase_add_test(t, a_response);
    tcase_add_test(t, items_of_a_response);
    tcase_add_loop_test(t, events_of_a_stream, 0, 2);
    tcase_add_test(t, a_call_cut_off);
    tcase_add_test(t, a_stream_breaks);
    tcase_add_test(t, responses_go_on);
    tcase_add_test(t, what_is_not_stored_is_not_there);
    tcase_add_test(t, each_owner_has_its_own);
    tcase_add_test(t, a_response_is_there_until_it_is_deleted);
    tcase_add_test(t, input_items);
    tcase_add_test(t, errors);
    tcase_add_test(t, a_conversation_is_read);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad ? 1 : 0;
}
