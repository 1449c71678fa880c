/* Chats and completions over a scheduler that says what the test wants. */
#include "tests/unit/api_script.h"

#define CHAT  "/v1/chat/completions"
#define HELLO "'messages':[{'role':'user','content':'hi'}],'enable_thinking':false"
#define TOOLS                                                                                                          \
    "'tools':[{'type':'function','function':{'name':'weather','parameters':{'type':'object'}}},"      \
    "{'type':'function','function':{'name':'time'}}]"

static const char *const two_calls =
    "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Par\\\"is\", \"days\": [1, 2]}}\n"
    "</tool_call>\n"
    "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

START_TEST(calls_in_a_whole_answer)
{
    say(two_calls);
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS "}", 200);
    json_t *calls = at(v, "choices.0.message.tool_calls");
    ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), "tool_calls");
    ck_assert_str_eq(str_at(v, "choices.0.message.content"), "I look.");
    ck_assert_uint_eq(json_array_size(calls), 2);
    ck_assert_str_eq(str_at(calls, "0.type"), "function");
    ck_assert_str_eq(str_at(calls, "0.function.name"), "weather");
    ck_assert_str_eq(str_at(calls, "1.function.name"), "time");
    ck_assert_int_eq(strncmp(str_at(calls, "0.id"), "call_", 5), 0);
    ck_assert_str_ne(str_at(calls, "0.id"), str_at(calls, "1.id"));
    json_t *arguments = json_loads(str_at(calls, "0.function.arguments"), 0, NULL);
    ck_assert_str_eq(str_at(arguments, "city"), "Par\"is");
    json_decref(arguments);
    json_decref(v);
    say(two_calls + strlen("I look.\n"));
    v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS "}", 200);
    ck_assert(json_is_null(at(v, "choices.0.message.content")));
    json_decref(v);
}
END_TEST

/* What the openai clients do with deltas. */
static json_t *assemble(json_t *events)
{
    json_t *calls = json_array(), *v, *d;
    size_t i, k;
    json_array_foreach(events, i, v)
        json_array_foreach(at(v, "choices.0.delta.tool_calls"), k, d)
        {
            size_t index = (size_t)int_at(d, "index");
            if (index == json_array_size(calls)) { /* the first: everything but arguments */
                ck_assert_str_eq(str_at(d, "type"), "function");
                json_array_append_new(calls, json_pack("{s:O,s:O,s:s}", "id", at(d, "id"), "name",
                                                       at(d, "function.name"), "arguments", ""));
            } else {
                ck_assert_ptr_null(at(d, "id"));
                ck_assert_ptr_null(at(d, "function.name"));
            }
            json_t *call = json_array_get(calls, index);
            ck_assert_ptr_nonnull(call);
            json_object_set_new(call, "arguments", json_sprintf("%s%s", str_at(call, "arguments"),
                                                                str_at(d, "function.arguments")));
        }
    return calls;
}

START_TEST(calls_in_a_stream)
{
    say(two_calls);
    script.per_take = (uint32_t)_i;
    json_t *whole = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS "}", 200);
    script.per_take = (uint32_t)_i;
    json_t *events = call_events(&b, CHAT, "{" HELLO "," TOOLS ",'stream':true}", 4096), *calls = assemble(events);
    char *text = join_events(events, 0, "delta.content"), where[64];
    ck_assert_str_eq(text, "I look.");
    ck_assert_uint_eq(json_array_size(calls), 2);
    for (size_t i = 0; i < 2; i++) {
        snprintf(where, sizeof where, "choices.0.message.tool_calls.%zu.function.name", i);
        ck_assert_str_eq(str_at(json_array_get(calls, i), "name"), str_at(whole, where));
        snprintf(where, sizeof where, "choices.0.message.tool_calls.%zu.function.arguments", i);
        ck_assert_str_eq(str_at(json_array_get(calls, i), "arguments"), str_at(whole, where));
    }
    json_t *last = json_array_get(events, json_array_size(events) - 1);
    ck_assert_str_eq(str_at(last, "choices.0.finish_reason"), "tool_calls");
    ck_assert_int_eq(int_at(last, "timings.predicted_n"), 11);
    free(text);
    json_decref(calls);
    json_decref(events);
    json_decref(whole);
}
END_TEST

START_TEST(calls_nobody_asked_for_are_text)
{
    say(two_calls);
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS ",'tool_choice':'none'}", 200);
    ck_assert_ptr_null(at(v, "choices.0.message.tool_calls"));
    ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), "stop");
    ck_assert_ptr_nonnull(strstr(str_at(v, "choices.0.message.content"), "weather"));
    json_decref(v);
}
END_TEST

/* A call that was cut off, by whatever: the same in whole answers and streams, and a conversation goes on from it. */
START_TEST(a_call_cut_off)
{
    static const struct {
        const char *text, *content, *name, *arguments;
        enum gen_reason reason;
        const char *finish;
    } cases[] = {
        { "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Pa", NULL, "weather", "{\"city\": \"Pa",
          GEN_LENGTH, "length" },
        { "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Pa", NULL, "weather", "{\"city\": \"Pa",
          GEN_CONTEXT, "length" },
        { "I look.\n<tool_call>\n{\"name\": \"weather\", ", "I look.", "weather", "", GEN_STOP_STRING, "stop" },
        { "I look.\n<tool_call>\n{\"na", "I look.", NULL, NULL, GEN_LENGTH, "length" },
        { "<tool_call>", "", NULL, NULL, GEN_LENGTH, "length" },
    };
    say(cases[_i].text);
    script.reason = cases[_i].reason;
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS "}", 200), *calls = at(v, "choices.0.message.tool_calls");
    ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), cases[_i].finish);
    if (cases[_i].content)
        ck_assert_str_eq(str_at(v, "choices.0.message.content"), cases[_i].content);
    else
        ck_assert(json_is_null(at(v, "choices.0.message.content")));
    ck_assert_uint_eq(json_array_size(calls), cases[_i].name != NULL);
    json_t *events = call_events(&b, CHAT, "{" HELLO "," TOOLS ",'stream':true}", 4096), *streamed = assemble(events);
    char *text = join_events(events, 0, "delta.content");
    ck_assert_str_eq(text, cases[_i].content ? cases[_i].content : "");
    ck_assert_uint_eq(json_array_size(streamed), json_array_size(calls));
    if (cases[_i].name) {
        ck_assert_str_eq(str_at(calls, "0.function.name"), cases[_i].name);
        ck_assert_str_eq(str_at(calls, "0.function.arguments"), cases[_i].arguments);
        ck_assert_str_eq(str_at(streamed, "0.name"), cases[_i].name);
        ck_assert_str_eq(str_at(streamed, "0.arguments"), cases[_i].arguments);
    }
    json_t *last = json_array_get(events, json_array_size(events) - 1);
    ck_assert_str_eq(str_at(last, "choices.0.finish_reason"), cases[_i].finish);
    json_t *back = json_pack("{s:[{s:s,s:s},O,{s:s,s:s}]}", "messages", "role", "user", "content", "hi",
                             at(v, "choices.0.message"), "role", "user", "content", "Go on.");
    char *body = json_dumps(back, 0);
    say("Paris.");
    json_decref(v);
    v = call_json(&b, "POST", CHAT, body, 200);
    json_decref(v);
    json_decref(back);
    json_decref(events);
    json_decref(streamed);
    free(body);
    free(text);
}
END_TEST

#define ODD "{'type':'object','properties':{'a':{'type':'array','contains':{'type':'null'}}}}"

/* Keywords that cannot be done: refused where the schema is strict, else passed over and told. */
START_TEST(schemas_that_cannot_be_done)
{
    static const struct {
        const char *path, *fields, *param, *where;
    } cases[] = {
        { CHAT, HELLO ",'tools':[{'type':'function','function':{'name':'f','strict':%s,'parameters':" ODD "}}]", "tools",
          "tools: f: schema: #/properties/a: contains is not supported" },
        { CHAT, HELLO ",'tool_choice':'required','tools':[{'type':'function','function':{'name':'g'}},{'type':'function',"
          "'function':{'name':'f','strict':%s,'parameters':" ODD "}}]", "tools",
          "tools: f: schema: #/properties/a: contains is not supported" },
        { CHAT, HELLO ",'response_format':{'type':'json_schema','json_schema':{'name':'n','strict':%s,'schema':" ODD "}}",
          "response_format", "schema: #/properties/a: contains is not supported" },
        { "/v1/completions", "'prompt':'x','response_format':{'type':'json_schema','json_schema':{'name':'n','strict':%s,"
          "'schema':" ODD "}}", "response_format", "schema: #/properties/a: contains is not supported" },
    };
    char fields[1024], body[2048];
    snprintf(fields, sizeof fields, cases[_i].fields, "true");
    snprintf(body, sizeof body, "{%s}", fields);
    json_t *v = call_json(&b, "POST", cases[_i].path, body, 400);
    ck_assert_str_eq(str_at(v, "error.param"), cases[_i].param);
    ck_assert_msg(strstr(str_at(v, "error.message"), cases[_i].where) != NULL, "%s", str_at(v, "error.message"));
    json_decref(v);
    snprintf(fields, sizeof fields, cases[_i].fields, "false");
    snprintf(body, sizeof body, "{%s}", fields);
    say("{}");
    v = call_json(&b, "POST", cases[_i].path, body, 200);
    ck_assert_uint_eq(json_array_size(at(v, "warnings")), 1);
    ck_assert_int_eq(strncmp(str_at(v, "warnings.0"), cases[_i].where, strlen(cases[_i].where)), 0);
    json_decref(v);
    say("{}");
    snprintf(body, sizeof body, "{%s,'stream':true,'stream_options':{'include_usage':true}}", fields);
    json_t *events = call_events(&b, cases[_i].path, body, 4096), *e;
    size_t i, n = json_array_size(events);
    json_array_foreach(events, i, e) /* in the one with finish_reason, before usage */
        ck_assert_uint_eq(json_array_size(at(e, "warnings")), i + 2 == n);
    json_decref(events);
}
END_TEST

START_TEST(requests_that_can_be_done_have_no_warnings)
{
    say("Hi");
    json_t *v = call_json(&b, "POST", CHAT, "{" HELLO "," TOOLS "}", 200);
    ck_assert_ptr_null(at(v, "warnings"));
    json_decref(v);
}
END_TEST

START_TEST(reasoning_comes_apart)
{
    say("<think>\nOne two three.\n</think>\n\nFour.");
    json_t *v = call_json(&b, "POST", CHAT, "{'messages':[{'role':'user','content':'hi'}],'logprobs':true}", 200), *t;
    ck_assert_str_eq(str_at(v, "choices.0.message.reasoning_content"), "One two three.");
    ck_assert_str_eq(str_at(v, "choices.0.message.content"), "Four.");
    ck_assert_int_eq(int_at(v, "usage.completion_tokens_details.reasoning_tokens"), 6);
    char joined[64] = "";
    size_t i;
    json_array_foreach(at(v, "choices.0.logprobs.content"), i, t)
        strcat(joined, str_at(t, "token"));
    ck_assert_str_eq(joined, "Four.");
    json_decref(v);
}
END_TEST

START_TEST(tokens_of_a_stop_string_are_not_listed)
{
    say("abc def");
    script.silent = 3;
    script.reason = GEN_STOP_STRING;
    json_t *v = call_json(&b, "POST", "/v1/completions", "{'prompt':'x','logprobs':0}", 200), *t;
    char joined[64] = "";
    size_t i;
    json_array_foreach(at(v, "choices.0.logprobs.tokens"), i, t)
        strcat(joined, json_string_value(t));
    ck_assert_str_eq(joined, "abc def");
    json_decref(v);
}
END_TEST

START_TEST(what_is_asked_reaches_the_scheduler)
{
    say("x");
    json_decref(call_json(&b, "POST", CHAT,
                          "{" HELLO ",'max_tokens':5,'stop':'END','ignore_eos':true,'temperature':0.25}", 200));
    ck_assert_uint_eq(script.gen.n_max, 5);
    ck_assert_uint_eq(script.gen.n_stop, 1);
    ck_assert(script.gen.ignore_eos && script.gen.show_special && script.gen.sampling.temp == 0.25f);
    ck_assert_int_eq(script.gen.think_budget, -1);
    json_decref(call_json(&b, "POST", CHAT, "{'messages':[{'role':'user','content':'hi'}],'thinking_budget':3}", 200));
    ck_assert_int_eq(script.gen.think_budget, 3);
    ck_assert_ptr_eq(script.gen.chat, engine_chat_template(eng));
    json_decref(call_json(&b, "POST", "/v1/completions", "{'prompt':'x'}", 200));
    ck_assert(!script.gen.show_special && script.gen.n_max == 0);
}
END_TEST

static const struct {
    enum sched_end end;
    int status;
    const char *type, *reason;
} failures[] = {
    { SCHED_FAILED, 500, "server_error", "error" },
    { SCHED_EXPIRED, 408, "timeout_error", "timeout" },
    { SCHED_TOO_COSTLY, 400, "invalid_request_error", "error" },
    { SCHED_SHUTDOWN, 503, "unavailable_error", "cancelled" },
};

/* Before anything was sent, and in whole answers. */
START_TEST(failures_with_a_status)
{
    for (int stream = 0; stream < 2; stream++) {
        say(stream ? "" : "some text");
        script.end = failures[_i].end;
        struct reply_got r = call(&b, "POST", CHAT, stream ? "{" HELLO ",'stream':true}" : "{" HELLO "}");
        ck_assert_int_eq(r.status, failures[_i].status);
        ck_assert(!r.streams);
        ck_assert_str_eq(r.usage.reason, failures[_i].reason);
        ck_assert_int_eq(r.retry_after > 0, r.status == 503);
        json_t *v = json_loads(r.text, 0, NULL);
        ck_assert_str_eq(str_at(v, "error.type"), failures[_i].type);
        json_decref(v);
        free(r.text);
    }
}
END_TEST

START_TEST(failures_in_a_stream)
{
    say("some text");
    script.end = failures[_i].end;
    struct reply_got r = call(&b, "POST", CHAT, "{" HELLO ",'stream':true,'n':2}");
    ck_assert_int_eq(r.status, 200);
    ck_assert_ptr_null(strstr(r.text, "[DONE]"));
    const char *error = strstr(r.text, "data: {\"error\":");
    ck_assert_ptr_nonnull(error);
    json_t *v = json_loads(error + 6, JSON_DISABLE_EOF_CHECK, NULL);
    ck_assert_str_eq(str_at(v, "error.type"), failures[_i].type);
    ck_assert_ptr_null(strstr(error + 6, "data:"));
    json_decref(v);
    free(r.text);
}
END_TEST

static const struct {
    int rc, status;
    const char *code;
    uint32_t retry_after;
} refusals[] = {
    { -EBUSY, 429, "queue_full", 7 },     { -ESHUTDOWN, 503, "shutting_down", 5 },
    { -EINVAL, 400, "invalid_value", 0 }, { -E2BIG, 400, "context_length_exceeded", 0 },
    { -EIO, 500, "engine_failed", 0 },    { -ENOMEM, 503, "out_of_memory", 0 },
};

/* Of the first answer, or of the second, when the first one runs already: a full queue has only to be waited for then. */
START_TEST(refusals_have_a_status)
{
    for (int which = 0; which < (refusals[_i].rc == -EBUSY ? 1 : 2); which++) {
        say("some text");
        script.refuse_at = which;
        script.refuse = refusals[_i].rc;
        struct reply_got r = call(&b, "POST", CHAT, "{" HELLO ",'stream':true,'n':2}");
        ck_assert_int_eq(r.status, refusals[_i].status);
        ck_assert_uint_eq(r.retry_after, refusals[_i].retry_after);
        ck_assert_uint_eq(script.live, 0);
        json_t *v = json_loads(r.text, 0, NULL);
        ck_assert_str_eq(str_at(v, "error.code"), refusals[_i].code);
        json_decref(v);
        free(r.text);
    }
}
END_TEST

/* The queue had room for one answer only: the others follow when it ended, and are not refused then. */
START_TEST(answers_follow_when_the_queue_is_full)
{
    for (int stream = 0; stream < 2; stream++) {
        say("some text");
        script.refuse_at = 1;
        script.refuse = -EBUSY;
        struct reply_got r = call(&b, "POST", CHAT, stream ? "{" HELLO ",'stream':true,'n':3}" : "{" HELLO ",'n':3}");
        ck_assert_int_eq(r.status, 200);
        ck_assert_uint_eq(script.submitted, 4);
        ck_assert_uint_eq(script.n_going_on, 1);
        ck_assert_ptr_nonnull(strstr(r.text, "\"index\":2"));
        ck_assert(!stream || strstr(r.text, "[DONE]"));
        free(r.text);
    }
}
END_TEST

START_TEST(an_exchange_left_in_the_middle)
{
    struct wait w = WAIT_INIT;
    char *body = quoted("{" HELLO ",'stream':true,'n':3}");
    char buf[10];
    for (int reads = 0; reads < 200; reads += 20) {
        say(two_calls);
        struct api_call c = { .method = "POST", .path = CHAT, .body = body, .n_body = strlen(body), .wake = wait_wake,
                              .user = &w };
        struct api_exchange *x = api_begin(b.api, &c);
        ck_assert_uint_eq(script.live, 3);
        for (int i = 0; i < reads && api_status(x); i++)
            api_read(x, buf, sizeof buf);
        api_end(x);
        ck_assert_uint_eq(script.live, 0);
    }
    free(body);
}
END_TEST

/* ---- signs of life ---- */

#define SECOND 1000000000ull

static struct api_exchange *held(const char *text, struct wait *w)
{
    char *body = quoted(text);
    struct api_call c = { .method = "POST", .path = CHAT, .body = body, .n_body = strlen(body), .id = "req-1",
                          .wake = wait_wake, .user = w };
    script.hold = true;
    struct api_exchange *x = api_begin(b.api, &c);
    free(body);
    return x;
}

static const char *next(struct api_exchange *x)
{
    static char buf[4096];
    ssize_t n = api_read(x, buf, sizeof buf - 1);
    buf[n > 0 ? n : 0] = 0;
    return buf;
}

/* The head and the first event come with the slot, a comment where nothing else does, and not where all was just said. */
START_TEST(a_stream_lives_while_the_prompt_is_read)
{
    struct wait w = WAIT_INIT;
    say("Hello");
    struct api_exchange *x = held("{" HELLO ",'stream':true}", &w);
    ck_assert_int_eq(api_status(x), 0);
    ck_assert(!api_keep_alive(x, SECOND));
    script.started = true;
    ck_assert_int_eq(api_status(x), 200);
    ck_assert_ptr_nonnull(strstr(next(x), "\"role\":\"assistant\""));
    ck_assert(!api_keep_alive(x, SECOND));
    ck_assert_str_eq(next(x), "");
    ck_assert(api_keep_alive(x, 3 * SECOND));
    const char *said = next(x);
    ck_assert_msg(strncmp(said, ": prompt 3/", 11) == 0 && strstr(said, "reused 2\n\n"), "%s", said);
    script.hold = false;
    ck_assert_ptr_nonnull(strstr(next(x), "\"content\":\""));
    api_end(x);
    say("Hello");
    x = held("{" HELLO ",'stream':true,'return_progress':true}", &w);
    ck_assert(api_keep_alive(x, 3 * SECOND)); /* waits in the queue: it begins all the same */
    ck_assert_int_eq(api_status(x), 200);
    next(x);
    ck_assert(api_keep_alive(x, 3 * SECOND));
    json_t *v = json_loads(next(x) + 6, 0, NULL);
    ck_assert_int_eq(int_at(v, "prompt_progress.processed"), 3);
    ck_assert_int_eq(int_at(v, "prompt_progress.cache"), 2);
    json_decref(v);
    api_end(x);
}
END_TEST

START_TEST(a_whole_answer_lives_while_it_is_made)
{
    for (int fails = 0; fails < 2; fails++) {
        struct wait w = WAIT_INIT;
        say("Hello");
        struct api_exchange *x = held("{" HELLO "}", &w);
        script.started = true;
        ck_assert_int_eq(api_status(x), 0);
        ck_assert(!api_keep_alive(x, 3 * SECOND));
        ck_assert(api_keep_alive(x, 30 * SECOND));
        ck_assert_int_eq(api_status(x), 200);
        ck_assert(api_streams(x));
        ck_assert_str_eq(api_content_type(x), "application/json");
        ck_assert_str_eq(next(x), "\n");
        ck_assert_str_eq(next(x), "");
        ck_assert(api_keep_alive(x, 30 * SECOND));
        script.hold = false;
        script.end = fails ? SCHED_FAILED : SCHED_OK;
        char all[8192] = "";
        ssize_t n;
        size_t len = 0;
        while ((n = api_read(x, all + len, sizeof all - len - 1)) >= 0)
            len += (size_t)n;
        json_t *v = json_loads(all, 0, NULL);
        ck_assert_msg(v != NULL, "%s", all);
        ck_assert_int_eq(n, fails ? API_CUT : API_END);
        if (fails)
            ck_assert_str_eq(str_at(v, "error.code"), "engine_failed");
        else
            ck_assert_str_eq(str_at(v, "choices.0.message.content"), "Hello");
        json_decref(v);
        api_end(x);
    }
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_script");
    TCase *t = tcase_create("api_script");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 100);
    tcase_add_test(t, calls_in_a_whole_answer);
    tcase_add_loop_test(t, calls_in_a_stream, 1, 20);
    tcase_add_test(t, calls_nobody_asked_for_are_text);
    tcase_add_loop_test(t, a_call_cut_off, 0, 5);
    tcase_add_loop_test(t, schemas_that_cannot_be_done, 0, 4);
    tcase_add_test(t, requests_that_can_be_done_have_no_warnings);
    tcase_add_test(t, reasoning_comes_apart);
    tcase_add_test(t, tokens_of_a_stop_string_are_not_listed);
    tcase_add_test(t, what_is_asked_reaches_the_scheduler);
    tcase_add_loop_test(t, failures_with_a_status, 0, (int)ARRAY_LEN(failures));
    tcase_add_loop_test(t, failures_in_a_stream, 0, (int)ARRAY_LEN(failures));
    tcase_add_loop_test(t, refusals_have_a_status, 0, (int)ARRAY_LEN(refusals));
    tcase_add_test(t, answers_follow_when_the_queue_is_full);
    tcase_add_test(t, an_exchange_left_in_the_middle);
    tcase_add_test(t, a_stream_lives_while_the_prompt_is_read);
    tcase_add_test(t, a_whole_answer_lives_while_it_is_made);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
