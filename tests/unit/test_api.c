/* The API over the demo model: shapes of the answers, streams against whole answers, errors, ends. */
#include "tests/unit/test_api.h"

#include <stdlib.h>

#include "base/ckd.h"
#include "base/clock.h"

static struct api_bench b;

static void setup(void)
{
    bench_open(&b, DEMO, "cpu", 2, NULL, NULL);
}

static void teardown(void)
{
    bench_close(&b);
}

#define HELLO "'messages':[{'role':'user','content':'Hello! Who are you?'}]"

START_TEST(models)
{
    json_t *v = call_json(&b, "GET", "/v1/models", "", 200);
    ck_assert_str_eq(str_at(v, "object"), "list");
    ck_assert_str_eq(str_at(v, "data.0.id"), "zinc-demo");
    ck_assert_str_eq(str_at(v, "data.0.object"), "model");
    ck_assert_int_gt(int_at(v, "data.0.created"), 1600000000);
    ck_assert_int_eq(int_at(v, "data.0.meta.n_ctx"), 1024);
    json_decref(v);
    v = call_json(&b, "GET", "/v1/models/zinc-demo", "", 200);
    ck_assert_str_eq(str_at(v, "id"), "zinc-demo");
    json_decref(v);
    v = call_json(&b, "GET", "/v1/models/other/model", "", 404);
    ck_assert_str_eq(str_at(v, "error.code"), "model_not_found");
    json_decref(v);
}
END_TEST

START_TEST(models_as_ollama_tells_them)
{
    json_t *v = call_json(&b, "GET", "/api/tags", "", 200), *show;
    char body[256];
    const char *name = str_at(v, "models.0.name");
    ck_assert_uint_eq(json_array_size(at(v, "models")), 1);
    ck_assert_uint_eq(strlen(str_at(v, "models.0.digest")), 64);
    ck_assert_str_eq(str_at(v, "models.0.details.family"), "qwen35moe");
    snprintf(body, sizeof body, "{'model':'%s:latest'}", name);
    show = call_json(&b, "POST", "/api/show", body, 200);
    json_t *info = at(show, "model_info");
    ck_assert_str_eq(json_string_value(json_object_get(info, "general.architecture")), "qwen35moe");
    ck_assert(json_is_integer(json_object_get(info, "qwen35moe.context_length")));
    ck_assert_str_eq(str_at(show, "capabilities.1"), "tools");
    ck_assert_str_eq(str_at(show, "capabilities.2"), "thinking");
    json_decref(show);
    json_decref(v);
}
END_TEST

START_TEST(what_clients_of_llama_ask)
{
    json_t *v = call_json(&b, "GET", "/props", "", 200);
    ck_assert_int_eq(int_at(v, "default_generation_settings.n_ctx"), 1024);
    ck_assert(json_is_number(at(v, "default_generation_settings.params.temperature")));
    ck_assert_int_eq(int_at(v, "total_slots"), 2);
    ck_assert(json_is_false(at(v, "modalities.vision")));
    ck_assert_uint_gt(strlen(str_at(v, "model_path")), 0);
    json_decref(v);
    v = call_json(&b, "GET", "/slots", "", 200);
    ck_assert_uint_eq(json_array_size(v), 2);
    ck_assert_int_eq(int_at(v, "1.id"), 1);
    ck_assert(json_is_false(at(v, "0.is_processing")));
    json_decref(v);
    v = call_json(&b, "POST", "/apply-template", "{" HELLO ",'enable_thinking':false}", 200);
    const char *prompt = str_at(v, "prompt");
    ck_assert_ptr_nonnull(strstr(prompt, "<|im_start|>user\nHello! Who are you?<|im_end|>\n<|im_start|>assistant\n"));
    json_decref(v);
    json_decref(call_json(&b, "POST", "/apply-template", "{'messages':[]}", 400));
}
END_TEST

START_TEST(paths_and_methods)
{
    ck_assert_uint_eq(api_methods("/v1/chat/completions", NULL), API_POST);
    ck_assert_uint_eq(api_methods("/chat/completions", NULL), API_POST);
    ck_assert_uint_eq(api_methods("/v1/models", NULL), API_GET);
    ck_assert_uint_eq(api_methods("/v1/models/a/b", NULL), API_GET);
    ck_assert_uint_eq(api_methods("/tokenize", NULL), API_POST);
    ck_assert_uint_eq(api_methods("/v1/models/", NULL), 0);
    ck_assert_uint_eq(api_methods("/health", NULL), 0);
    ck_assert_uint_eq(api_methods("/", NULL), 0);
    static const char *const paths[][2] = {
        { "/v1/chat/completions", "/v1/chat/completions" }, { "/tokenize", "/tokenize" }, { "/v1/tokenize", "/v1/tokenize" },
        { "/models/a", "/models/{id}" }, { "/v1/models/a/b", "/v1/models/{id}" }, { "/v1/nothing", "kept" },
    };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        const char *label = "kept";
        api_methods(paths[i][0], &label);
        ck_assert_str_eq(label, paths[i][1]);
    }
    json_decref(call_json(&b, "POST", "/v1/nothing", "{}", 404));
    json_decref(call_json(&b, "GET", "/v1/chat/completions", "", 405));
    json_t *v = call_json(&b, "POST", "/v1/embeddings", "{'input':'a'}", 400);
    ck_assert_str_eq(str_at(v, "error.code"), "unsupported");
    ck_assert_str_eq(str_at(v, "error.type"), "invalid_request_error");
    ck_assert(json_is_null(at(v, "error.param")));
    json_decref(v);
}
END_TEST

START_TEST(tokens_and_text)
{
    json_t *v = call_json(&b, "POST", "/tokenize", "{'content':'Hello, world \\u00e9<|im_end|>'}", 200);
    json_t *ids = at(v, "tokens");
    ck_assert_int_eq(int_at(v, "count"), (long long)json_array_size(ids));
    json_t *ask = json_pack("{s:O}", "tokens", ids);
    char *body = json_dumps(ask, JSON_COMPACT);
    json_t *back = call_json(&b, "POST", "/v1/detokenize", body, 200);
    ck_assert_str_eq(str_at(back, "content"), "Hello, world \xc3\xa9<|im_end|>");
    json_decref(back);
    json_decref(ask);
    json_decref(v);
    free(body);
    v = call_json(&b, "POST", "/tokenize", "{'content':' Hello \\ud83d\\ude42','with_pieces':true}", 200);
    char text[64] = "";
    size_t i, k, n = 0;
    json_t *t, *byte;
    json_array_foreach(at(v, "tokens"), i, t)
    {
        json_t *piece = json_object_get(t, "piece");
        ck_assert(json_is_integer(json_object_get(t, "id")));
        if (json_is_string(piece))
            n += (size_t)sprintf(text + n, "%s", json_string_value(piece));
        else
            json_array_foreach(piece, k, byte)
                text[n++] = (char)json_integer_value(byte);
    }
    ck_assert_str_eq(text, " Hello \xf0\x9f\x99\x82");
    json_decref(v);
    json_decref(call_json(&b, "POST", "/tokenize", "{}", 400));
    json_decref(call_json(&b, "POST", "/tokenize", "{'content':5}", 400));
    json_decref(call_json(&b, "POST", "/tokenize", "{'content':'a','prompt':5}", 400));
    v = call_json(&b, "POST", "/tokenize", "{'content':'a','prompt':'a b'}", 200);
    ck_assert_int_eq(int_at(v, "count"), 1);
    json_decref(v);
    v = call_json(&b, "POST", "/tokenize", "{'content':'a\\u0000b'}", 400);
    ck_assert_ptr_nonnull(strstr(str_at(v, "error.message"), "holds the character \\u0000"));
    json_decref(v);
    json_decref(call_json(&b, "POST", "/detokenize", "{'tokens':'a'}", 400));
    json_decref(call_json(&b, "POST", "/detokenize", "{'tokens':[100000000]}", 400));
    json_decref(call_json(&b, "POST", "/detokenize", "{'tokens':[-1]}", 400));
    v = call_json(&b, "POST", "/detokenize", "{'tokens':[]}", 200);
    ck_assert_str_eq(str_at(v, "content"), "");
    json_decref(v);
}
END_TEST

START_TEST(a_chat)
{
    json_t *v = call_json(&b, "POST", "/v1/chat/completions",
                          "{" HELLO ",'temperature':0,'max_tokens':24,'enable_thinking':false}", 200);
    ck_assert_str_eq(str_at(v, "id"), "chatcmpl-req-1");
    ck_assert_str_eq(str_at(v, "object"), "chat.completion");
    ck_assert_str_eq(str_at(v, "model"), "zinc-demo");
    ck_assert_int_gt(int_at(v, "created"), 1600000000);
    ck_assert_uint_gt(strlen(str_at(v, "system_fingerprint")), 0);
    ck_assert_uint_eq(json_array_size(at(v, "choices")), 1);
    ck_assert_int_eq(int_at(v, "choices.0.index"), 0);
    ck_assert_str_eq(str_at(v, "choices.0.message.role"), "assistant");
    ck_assert_uint_gt(strlen(str_at(v, "choices.0.message.content")), 0);
    ck_assert(json_is_null(at(v, "choices.0.message.refusal")));
    ck_assert(json_is_null(at(v, "choices.0.logprobs")));
    ck_assert_ptr_null(at(v, "choices.0.message.tool_calls"));
    const char *finish = str_at(v, "choices.0.finish_reason");
    long long n = int_at(v, "usage.completion_tokens");
    ck_assert_str_eq(finish, n == 24 ? "length" : "stop");
    ck_assert_int_eq(int_at(v, "usage.total_tokens"), int_at(v, "usage.prompt_tokens") + n);
    ck_assert_int_eq(int_at(v, "usage.prompt_tokens_details.cached_tokens"), 0);
    ck_assert_int_eq(int_at(v, "usage.completion_tokens_details.reasoning_tokens"), 0);
    ck_assert_int_eq(int_at(v, "timings.predicted_n"), n);
    ck_assert_int_eq(int_at(v, "timings.prompt_n"), int_at(v, "usage.prompt_tokens"));
    ck_assert(json_is_number(at(v, "timings.predicted_per_second")));
    json_decref(v);
}
END_TEST

/* The demo model's state cannot go back, so nothing is guessed: the answer is what it is in any case. */
START_TEST(a_prediction_changes_no_answer)
{
    static const char *const good[] = { "{'type':'content','content':'I am a helpful assistant.'}", "null",
                                        "{'type':'content','content':[{'type':'text','text':'I am '},{'type':'text','text':'Lily.'}]}",
                                        "{'type':'content','content':''}" };
    static const char *const bad[] = { "'I am'", "{'type':'text','content':'a'}", "{'type':'content','content':5}", "[]", "{'content':'a'}", "{'type':'content'}",
                                       "{'type':'content','content':[{'type':'image_url'}]}" };
    char body[512];
    json_t *plain = call_json(&b, "POST", "/v1/chat/completions", "{" HELLO ",'temperature':0,'max_tokens':12}", 200);
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(body, sizeof body, "{" HELLO ",'temperature':0,'max_tokens':12,'prediction':%s}", good[i]);
        json_t *v = call_json(&b, "POST", "/v1/chat/completions", body, 200);
        ck_assert_str_eq(str_at(v, "choices.0.message.content"), str_at(plain, "choices.0.message.content"));
        ck_assert_int_eq(int_at(v, "usage.completion_tokens_details.accepted_prediction_tokens"), 0);
        ck_assert_int_eq(int_at(v, "usage.completion_tokens_details.rejected_prediction_tokens"), 0);
        json_decref(v);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(body, sizeof body, "{" HELLO ",'max_tokens':2,'prediction':%s}", bad[i]);
        json_t *v = call_json(&b, "POST", "/v1/chat/completions", body, 400);
        ck_assert_msg(strncmp(str_at(v, "error.param"), "prediction", 10) == 0, "%s: %s", bad[i], str_at(v, "error.param"));
        json_decref(v);
    }
    json_decref(plain);
}
END_TEST

START_TEST(reasoning_comes_apart)
{
    json_t *v = call_json(&b, "POST", "/v1/chat/completions",
                          "{" HELLO ",'temperature':0,'max_tokens':200,'enable_thinking':true}", 200);
    const char *thought = str_at(v, "choices.0.message.reasoning_content");
    ck_assert_uint_gt(strlen(thought), 0);
    ck_assert_ptr_null(strstr(thought, "think>"));
    ck_assert_ptr_null(strstr(str_at(v, "choices.0.message.content"), "think>"));
    long long n = int_at(v, "usage.completion_tokens_details.reasoning_tokens");
    ck_assert_int_gt(n, 0);
    ck_assert_int_le(n, int_at(v, "usage.completion_tokens"));
    json_decref(v);
}
END_TEST

/* The budget ends it: what comes then is the answer. */
START_TEST(reasoning_has_a_budget)
{
    char body[512];
    long long before = 0;
    for (int budget = 0; budget <= 8; budget += 4) {
        snprintf(body, sizeof body, "{" HELLO ",'temperature':0,'max_tokens':60,'enable_thinking':true,"
                 "'thinking_budget':%d}", budget);
        json_t *v = call_json(&b, "POST", "/v1/chat/completions", body, 200);
        long long n = int_at(v, "usage.completion_tokens_details.reasoning_tokens");
        ck_assert_int_le(n, budget + 12); /* and its marks */
        ck_assert_int_ge(n, before);
        ck_assert_uint_gt(strlen(str_at(v, "choices.0.message.content")), 0);
        before = n;
        json_decref(v);
    }
}
END_TEST

/* Bodies that are asked whole and as a stream: the same must come. */
static const char *const same[] = {
    HELLO ",'temperature':0,'max_tokens':40,'enable_thinking':false",
    HELLO ",'temperature':0,'max_tokens':150,'enable_thinking':true",
    HELLO ",'temperature':1.2,'seed':7,'max_tokens':60,'enable_thinking':false,'stop':['e',' a']",
    HELLO ",'temperature':3,'seed':11,'max_tokens':60,'n':3,'top_k':0,'top_p':1,'min_p':0,'logprobs':true,"
          "'top_logprobs':2",
    HELLO ",'temperature':1.3,'seed':5,'max_tokens':30,'dry_multiplier':0.5,'xtc_probability':0.5,'n':2,"
          "'logit_bias':{'5':-100}",
};

static void same_text(json_t *whole, json_t *events, int index, const char *in_message, const char *in_delta)
{
    char path[80];
    snprintf(path, sizeof path, "choices.%d.%s", index, in_message);
    json_t *w = at(whole, path);
    char *s = join_events(events, index, in_delta);
    ck_assert_str_eq(s, json_is_string(w) ? json_string_value(w) : "");
    free(s);
}

/* logprobs.content of the events of a choice, joined. */
static json_t *join_logprobs(json_t *events, int index)
{
    json_t *all = json_array(), *v;
    size_t i;
    json_array_foreach(events, i, v)
        if (json_array_size(at(v, "choices")) && int_at(v, "choices.0.index") == index)
            json_array_extend(all, at(v, "choices.0.logprobs.content"));
    return all;
}

static void check_stream(json_t *whole, json_t *events, int index)
{
    bool first = true, ended = false;
    char path[80];
    size_t i;
    json_t *v;
    json_array_foreach(events, i, v)
    {
        ck_assert_str_eq(str_at(v, "object"), "chat.completion.chunk");
        ck_assert_str_eq(str_at(v, "id"), "chatcmpl-req-1");
        if (!json_array_size(at(v, "choices")) || int_at(v, "choices.0.index") != index)
            continue;
        ck_assert(!ended);
        ck_assert(json_is_null(at(v, "usage")));
        ck_assert_int_eq(first, at(v, "choices.0.delta.role") != NULL);
        first = false;
        ended = json_is_string(at(v, "choices.0.finish_reason"));
        snprintf(path, sizeof path, "choices.%d.finish_reason", index);
        if (ended)
            ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), str_at(whole, path));
    }
    ck_assert(ended);
    same_text(whole, events, index, "message.content", "delta.content");
    same_text(whole, events, index, "message.reasoning_content", "delta.reasoning_content");
    json_t *logprobs = join_logprobs(events, index);
    snprintf(path, sizeof path, "choices.%d.logprobs.content", index);
    if (at(whole, path))
        ck_assert(json_equal(logprobs, at(whole, path)));
    json_decref(logprobs);
}

START_TEST(streams_say_what_whole_answers_say)
{
    char body[1024];
    snprintf(body, sizeof body, "{%s}", same[_i]);
    json_t *whole = call_json(&b, "POST", "/v1/chat/completions", body, 200);
    snprintf(body, sizeof body, "{%s,'stream':true,'stream_options':{'include_usage':true}}", same[_i]);
    for (size_t piece = 1; piece <= 4096; piece *= 64) {
        json_t *events = call_events(&b, "/v1/chat/completions", body, piece);
        int n = (int)json_array_size(at(whole, "choices"));
        for (int i = 0; i < n; i++)
            check_stream(whole, events, i);
        json_t *last = json_array_get(events, json_array_size(events) - 1);
        ck_assert_uint_eq(json_array_size(at(last, "choices")), 0);
        ck_assert_int_eq(int_at(last, "usage.completion_tokens"), int_at(whole, "usage.completion_tokens"));
        ck_assert_int_eq(int_at(last, "usage.prompt_tokens"), int_at(whole, "usage.prompt_tokens"));
        ck_assert_int_eq(int_at(last, "usage.completion_tokens_details.reasoning_tokens"),
                         int_at(whole, "usage.completion_tokens_details.reasoning_tokens"));
        json_decref(events);
    }
    json_decref(whole);
}
END_TEST

START_TEST(answers_of_n_differ_by_seed)
{
    json_t *v = call_json(&b, "POST", "/v1/chat/completions",
                          "{" HELLO ",'temperature':3,'seed':3,'n':2,'max_tokens':40,'min_p':0,'top_p':1}", 200);
    json_t *two = call_json(&b, "POST", "/v1/chat/completions",
                            "{" HELLO ",'temperature':3,'seed':4,'max_tokens':40,'min_p':0,'top_p':1}", 200);
    json_t *a = at(v, "choices.0.message"), *c = at(v, "choices.1.message");
    ck_assert(!json_equal(a, c));
    ck_assert(json_equal(c, at(two, "choices.0.message")));
    ck_assert_int_eq(int_at(v, "usage.prompt_tokens"), int_at(two, "usage.prompt_tokens"));
    json_decref(v);
    json_decref(two);
}
END_TEST

START_TEST(stop_strings_do_not_leak)
{
    json_t *v = call_json(&b, "POST", "/v1/completions",
                          "{'prompt':'Once upon a time','temperature':0,'max_tokens':30}", 200);
    char full[2048];
    snprintf(full, sizeof full, "%s", str_at(v, "choices.0.text"));
    json_decref(v);
    ck_assert_uint_gt(strlen(full), 12);
    for (size_t i = 4; i < 8; i++) { /* wherever it begins and ends */
        json_t *ask = json_pack("{s:s, s:i, s:i, s:[s#], s:i}", "prompt", "Once upon a time", "temperature", 0,
                                "max_tokens", 30, "stop", full + i, 4, "logprobs", 0);
        char *text = json_dumps(ask, JSON_COMPACT);
        v = call_json(&b, "POST", "/v1/completions", text, 200);
        const char *hit = strstr(full, json_string_value(at(ask, "stop.0")));
        ck_assert_int_eq(strncmp(str_at(v, "choices.0.text"), full, (size_t)(hit - full)), 0);
        ck_assert_uint_eq(strlen(str_at(v, "choices.0.text")), (size_t)(hit - full));
        ck_assert_str_eq(str_at(v, "choices.0.finish_reason"), "stop");
        json_decref(v);
        json_decref(ask);
        free(text);
    }
}
END_TEST

START_TEST(a_completion)
{
    json_t *v = call_json(&b, "POST", "/v1/completions",
                          "{'prompt':['One two','The cat'],'temperature':0,'max_tokens':8,'echo':true,'n':1}", 200);
    ck_assert_str_eq(str_at(v, "object"), "text_completion");
    ck_assert_str_eq(str_at(v, "id"), "cmpl-req-1");
    ck_assert_uint_eq(json_array_size(at(v, "choices")), 2);
    ck_assert_int_eq(strncmp(str_at(v, "choices.0.text"), "One two", 7), 0);
    ck_assert_int_eq(strncmp(str_at(v, "choices.1.text"), "The cat", 7), 0);
    json_decref(v);
    v = call_json(&b, "POST", "/v1/completions", "{'prompt':''}", 400);
    ck_assert_str_eq(str_at(v, "error.param"), "prompt");
    json_decref(v);
    v = call_json(&b, "POST", "/v1/completions", "{'prompt':[]}", 400);
    ck_assert_str_eq(str_at(v, "error.param"), "prompt");
    json_decref(v);
}
END_TEST

/* More prompts than the slots and the queue of an idle server have places: one request all the same. */
START_TEST(as_many_prompts_as_a_request_may_have)
{
    char body[1024] = "{'prompt':['a b c'", streamed[1100];
    for (int i = 1; i < 32; i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), ",'a b %d'", i);
    snprintf(streamed, sizeof streamed, "%s],'temperature':0,'max_tokens':3,'stream':true}", body);
    snprintf(body + strlen(body), sizeof body - strlen(body), "],'temperature':0,'max_tokens':3}");
    json_t *v = call_json(&b, "POST", "/v1/completions", body, 200), *c;
    size_t i;
    ck_assert_uint_eq(json_array_size(at(v, "choices")), 32);
    json_array_foreach (at(v, "choices"), i, c)
        ck_assert_int_eq(json_integer_value(at(c, "index")), (int)i);
    json_decref(v);
    json_decref(call_events(&b, "/v1/completions", streamed, 100));
    char *last = strstr(body, "'a b 31'"), tail[200], *large = malloc(40000); /* found wrong before anything begins */
    snprintf(tail, sizeof tail, "%s", last + 8);
    strcpy(large, body);
    large[last - body] = 0;
    strcat(large, "'");
    for (int k = 0; k < 3000; k++)
        strcat(large, " word");
    strcat(strcat(large, "'"), tail);
    v = call_json(&b, "POST", "/v1/completions", large, 400);
    ck_assert_str_eq(str_at(v, "error.code"), "context_length_exceeded");
    json_decref(v);
    free(large);
}
END_TEST

START_TEST(completions_stream_too)
{
    const char *ask = "'prompt':'Once upon a time','temperature':0.9,'seed':1,'max_tokens':30,'n':2,'echo':true";
    char body[512];
    snprintf(body, sizeof body, "{%s}", ask);
    json_t *whole = call_json(&b, "POST", "/v1/completions", body, 200);
    snprintf(body, sizeof body, "{%s,'stream':true}", ask);
    json_t *events = call_events(&b, "/v1/completions", body, 100);
    for (int i = 0; i < 2; i++)
        same_text(whole, events, i, "text", "text");
    ck_assert_str_eq(str_at(json_array_get(events, 0), "object"), "text_completion");
    json_decref(events);
    json_decref(whole);
}
END_TEST

START_TEST(logprobs_of_completions)
{
    json_t *v = call_json(&b, "POST", "/v1/completions",
                          "{'prompt':'Once upon a time','temperature':0,'max_tokens':12,'logprobs':3}", 200);
    json_t *l = at(v, "choices.0.logprobs"), *t;
    size_t i, n = json_array_size(at(l, "tokens"));
    const char *text = str_at(v, "choices.0.text");
    char joined[1024] = "";
    ck_assert_uint_gt(n, 4);
    ck_assert_uint_eq(json_array_size(at(l, "token_logprobs")), n);
    ck_assert_uint_eq(json_array_size(at(l, "top_logprobs")), n);
    ck_assert_uint_eq(json_array_size(at(l, "text_offset")), n);
    json_array_foreach(at(l, "tokens"), i, t)
    {
        ck_assert_int_eq(json_integer_value(json_array_get(at(l, "text_offset"), i)), (json_int_t)strlen(joined));
        strcat(joined, json_string_value(t));
        json_t *top = json_array_get(at(l, "top_logprobs"), i);
        ck_assert_uint_ge(json_object_size(top), 3);
        double p = json_number_value(json_array_get(at(l, "token_logprobs"), i));
        ck_assert(p <= 0 && json_number_value(json_object_get(top, json_string_value(t))) == p); /* greedy: the best */
    }
    ck_assert_str_eq(joined, text);
    json_decref(v);
}
END_TEST

/* What the model expected where each token of a prompt stands is what it says of that token where it is made to choose it there;
 * also when the prompt was evaluated before, and of more tokens than a step has outputs. */
START_TEST(logprobs_of_a_prompt)
{
    enum { N = 20 };
    static const int ids[N] = { 70, 900, 12, 45, 300, 7, 8, 9, 77, 1500, 2, 31, 64, 128, 256, 512, 1024, 2048, 5, 70 };
    char list[256] = "", body[512];
    json_t *prefix[N];
    for (int i = 0; i < N; i++) {
        snprintf(body, sizeof body, "{'prompt':[%s],'temperature':0,'max_tokens':1,'logprobs':2,'logit_bias':{'%d':100}}", list, ids[i]);
        prefix[i] = i ? call_json(&b, "POST", "/v1/completions", body, 200) : NULL;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", i ? "," : "", ids[i]);
    }
    snprintf(body, sizeof body, "{'prompt':[%s],'temperature':0,'max_tokens':2,'ignore_eos':true,'logprobs':2,'echo':true}", list);
    json_t *v = call_json(&b, "POST", "/v1/completions", body, 200), *l = at(v, "choices.0.logprobs");
    ck_assert_uint_eq(json_array_size(at(l, "tokens")), N + 2);
    ck_assert_uint_eq(json_array_size(at(l, "text_offset")), N + 2);
    ck_assert(json_is_null(json_array_get(at(l, "token_logprobs"), 0)) && json_is_null(json_array_get(at(l, "top_logprobs"), 0)));
    for (size_t i = 1; i < N; i++) {
        static const char *const of[] = { "tokens", "token_logprobs", "top_logprobs" };
        json_t *want = at(prefix[i], "choices.0.logprobs");
        for (int k = 0; k < 3; k++)
            ck_assert_msg(json_equal(json_array_get(at(l, of[k]), i), json_array_get(at(want, of[k]), 0)), "%s at %zu: %s, expected %s",
                          of[k], i, json_dumps(json_array_get(at(l, of[k]), i), JSON_ENCODE_ANY),
                          json_dumps(json_array_get(at(want, of[k]), 0), JSON_ENCODE_ANY));
        json_decref(prefix[i]);
    }
    ck_assert_int_eq(json_integer_value(at(v, "usage.completion_tokens")), 2);
    json_t *again = call_json(&b, "POST", "/v1/completions", body, 200);
    ck_assert(json_equal(l, at(again, "choices.0.logprobs")));
    json_decref(again);
    snprintf(body, sizeof body, "{'prompt':[%s],'max_tokens':0,'logprobs':2,'echo':true}", list); /* nothing but the prompt */
    again = call_json(&b, "POST", "/v1/completions", body, 200);
    ck_assert_uint_eq(json_array_size(at(again, "choices.0.logprobs.tokens")), N);
    ck_assert_int_eq(json_integer_value(at(again, "usage.completion_tokens")), 0);
    ck_assert_str_eq(str_at(again, "choices.0.finish_reason"), "length");
    ck_assert_int_eq(strncmp(str_at(v, "choices.0.text"), str_at(again, "choices.0.text"), strlen(str_at(again, "choices.0.text"))), 0);
    json_decref(again);
    json_decref(v);
}
END_TEST

/* Where the prompt's tokens begin in the text, and behind them those of the answer; a stream has the same. */
START_TEST(offsets_of_a_prompt)
{
    const char *ask = "{'prompt':'Once upon a time \u00e9','temperature':0,'max_tokens':6,'ignore_eos':true,'logprobs':0,'echo':true%s}";
    char body[512];
    snprintf(body, sizeof body, ask, "");
    json_t *v = call_json(&b, "POST", "/v1/completions", body, 200), *l = at(v, "choices.0.logprobs"), *t;
    const char *text = str_at(v, "choices.0.text");
    size_t i, n = 0;
    json_array_foreach(at(l, "tokens"), i, t)
    {
        int64_t offset = json_integer_value(json_array_get(at(l, "text_offset"), i));
        size_t byte = 0;
        for (int64_t k = 0; k < offset; k++) /* characters */
            for (byte++; (text[byte] & 0xc0) == 0x80;)
                byte++;
        if (strncmp(json_string_value(t), "bytes:", 6) != 0 && ++n)
            ck_assert_msg(strncmp(text + byte, json_string_value(t), strlen(json_string_value(t))) == 0, "token %zu '%s' at %lld of '%s'",
                          i, json_string_value(t), (long long)offset, text);
    }
    ck_assert_uint_gt(n, 6);
    snprintf(body, sizeof body, ask, ",'stream':true");
    json_t *events = call_events(&b, "/v1/completions", body, 100), *e, *all = json_array();
    json_array_foreach(events, i, e)
        json_array_extend(all, at(e, "choices.0.logprobs.text_offset"));
    ck_assert_msg(json_equal(all, at(l, "text_offset")), "%s", json_dumps(all, 0));
    json_decref(all);
    json_decref(events);
    json_decref(v);
}
END_TEST

/* Text that may be the beginning of a stop string comes late; where its tokens begin does not change by that. */
START_TEST(offsets_while_text_is_held_back)
{
    const char *ask = "{'prompt':'Once upon a time','temperature':0,'max_tokens':24,'logprobs':1%s}";
    const char *stop = ",'stop':['a#?','e#?','d#?','n#?','r#?','s#?','t#?','.#?',' #?']";
    char body[512];
    snprintf(body, sizeof body, ask, "");
    json_t *free_of = call_json(&b, "POST", "/v1/completions", body, 200);
    snprintf(body, sizeof body, ask, stop);
    json_t *held = call_json(&b, "POST", "/v1/completions", body, 200);
    ck_assert_str_eq(str_at(held, "choices.0.text"), str_at(free_of, "choices.0.text"));
    json_t *x = at(held, "choices.0.logprobs.text_offset"), *y = at(free_of, "choices.0.logprobs.text_offset");
    ck_assert_uint_gt(json_array_size(x), 10);
    ck_assert_msg(json_equal(x, y), "offsets %s, expected %s", json_dumps(x, 0), json_dumps(y, 0));
    json_decref(free_of);
    json_decref(held);
}
END_TEST

START_TEST(logprobs_of_chats)
{
    json_t *v = call_json(&b, "POST", "/v1/chat/completions",
                          "{" HELLO ",'temperature':0,'max_tokens':120,'logprobs':true,'top_logprobs':2}", 200);
    json_t *t;
    size_t i, k, n = 0;
    char joined[8192] = "";
    json_array_foreach(at(v, "choices.0.logprobs.content"), i, t)
    {
        ck_assert_uint_eq(json_array_size(at(t, "top_logprobs")), 2);
        ck_assert(json_number_value(at(t, "logprob")) <= 0);
        ck_assert(json_number_value(at(t, "top_logprobs.0.logprob")) >=
                  json_number_value(at(t, "top_logprobs.1.logprob")));
        json_t *bytes = at(t, "bytes"), *byte;
        json_array_foreach(bytes, k, byte)
            joined[n++] = (char)json_integer_value(byte);
    }
    joined[n] = 0;
    ck_assert_str_eq(joined, str_at(v, "choices.0.message.content"));
    json_decref(v);
}
END_TEST

static void expect_error(const char *path, const char *body, int status, const char *code)
{
    json_t *v = call_json(&b, "POST", path, body, status);
    ck_assert_msg(strcmp(str_at(v, "error.code"), code) == 0, "%s: %s", body, str_at(v, "error.code"));
    ck_assert_uint_gt(strlen(str_at(v, "error.message")), 0);
    json_decref(v);
}

START_TEST(long_prompts_are_refused)
{
    enum { WORDS = 3000 };
    char *body = malloc(WORDS * 6 + 200), *s = body;
    s += sprintf(s, "{'messages':[{'role':'user','content':'");
    for (int i = 0; i < WORDS; i++)
        s += sprintf(s, "word ");
    sprintf(s, "'}],'stream':true}");
    expect_error("/v1/chat/completions", body, 400, "context_length_exceeded");
    json_t *v = call_json(&b, "POST", "/v1/chat/completions", body, 400);
    ck_assert_msg(strstr(str_at(v, "error.message"), "exceeds the available context size") != NULL, "%s",
                  str_at(v, "error.message")); /* litellm and what is built on it look for these words */
    json_decref(v);
    free(body);
}
END_TEST

START_TEST(grammars_that_are_none_are_refused)
{
    expect_error("/v1/completions", "{'prompt':'a','grammar':'root ::= ('}", 400, "invalid_value");
}
END_TEST

START_TEST(a_timeout_before_anything_was_sent)
{
    expect_error("/v1/chat/completions", "{" HELLO ",'max_tokens':900,'ignore_eos':true,'n':8,'timeout':0.05}", 408,
                 "timeout");
}
END_TEST

START_TEST(a_timeout_in_a_stream)
{
    struct reply_got r = call(&b, "POST", "/v1/chat/completions",
                              "{" HELLO ",'max_tokens':900,'ignore_eos':true,'n':8,'timeout':0.1,'stream':true}");
    if (r.status == 200) { /* else the machine was too slow for a first token */
        const char *last = r.text + r.n - 2;
        while (last > r.text && last[-1] != '\n')
            last--;
        ck_assert_msg(strncmp(last, "data: {\"error\":", 15) == 0, "%s", last);
        ck_assert_ptr_null(strstr(r.text, "[DONE]"));
    }
    ck_assert_str_eq(r.usage.reason, "timeout");
    free(r.text);
}
END_TEST

/* More at once than the queue takes, and as many more as it takes until one is refused: whoever begins them may sleep meanwhile, while
 * the queue empties. What does not hold is said when all of them have ended: a test that is left has nothing that the scheduler could
 * wake. */
START_TEST(ends_in_any_state)
{
    enum { N = 40, MOST = 400, STEP = 7 };
    static struct wait w[MOST];
    struct api_exchange *x[MOST];
    char plain[512], buf[64];
    int untold = 0, odd = 0, last = 0, n = 0;
    for (; n < N || (last != 429 && n < MOST) || n % STEP == 0; n++) {
        w[n] = (struct wait)WAIT_INIT;
        snprintf(plain, sizeof plain, "{" HELLO ",'max_tokens':500,'ignore_eos':true,'n':%d,'stream':%s}", 1 + n % 3,
                 n % 2 ? "true" : "false");
        char *body = quoted(plain);
        struct api_call c = { .method = "POST", .path = "/v1/chat/completions", .body = body, .n_body = strlen(body),
                              .wake = wait_wake, .user = &w[n] };
        x[n] = api_begin(b.api, &c);
        free(body);
        last = x[n] ? api_status(x[n]) : -1;
    }
    for (int i = 0; i < n; i++) {
        int status = x[i] ? api_status(x[i]) : -1;
        odd = status == 0 || status == 200 || status == 429 ? odd : status;
        untold += status == 429 && !api_retry_after(x[i]);
        if (i % 4 == 1 && status == 200)
            api_read(x[i], buf, sizeof buf);
    }
    for (int i = 0; i < n; i++)
        api_end(x[i * STEP % n]);
    api_end(NULL);
    ck_assert_int_eq(odd, 0);
    ck_assert_int_eq(last, 429);
    ck_assert_int_eq(untold, 0);
}
END_TEST

START_TEST(draining_refuses)
{
    sched_drain(b.sched, 0);
    struct reply_got r = call(&b, "POST", "/v1/chat/completions", "{" HELLO "}");
    ck_assert_int_eq(r.status, 503);
    ck_assert_uint_gt(r.retry_after, 0);
    free(r.text);
}
END_TEST

START_TEST(errors_as_json)
{
    char *s = api_error_json(NULL, 401, "p\"", "c", "bad \xff key");
    json_t *v = json_loads(s, 0, NULL);
    ck_assert_str_eq(str_at(v, "error.message"), "bad \xef\xbf\xbd key");
    ck_assert_str_eq(str_at(v, "error.type"), "authentication_error");
    ck_assert_str_eq(str_at(v, "error.param"), "p\"");
    json_decref(v);
    free(s);
}
END_TEST

int main(void)
{
    if (access(DEMO, R_OK) != 0)
        return 77;
    Suite *s = suite_create("api");
    TCase *t = tcase_create("api");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_test(t, models);
    tcase_add_test(t, models_as_ollama_tells_them);
    tcase_add_test(t, what_clients_of_llama_ask);
    tcase_add_test(t, paths_and_methods);
    tcase_add_test(t, tokens_and_text);
    tcase_add_test(t, a_chat);
    tcase_add_test(t, a_prediction_changes_no_answer);
    tcase_add_test(t, reasoning_comes_apart);
    tcase_add_test(t, reasoning_has_a_budget);
    tcase_add_loop_test(t, streams_say_what_whole_answers_say, 0, (int)(sizeof same / sizeof *same));
    tcase_add_test(t, answers_of_n_differ_by_seed);
    tcase_add_test(t, stop_strings_do_not_leak);
    tcase_add_test(t, a_completion);
    tcase_add_test(t, as_many_prompts_as_a_request_may_have);
    tcase_add_test(t, completions_stream_too);
    tcase_add_test(t, logprobs_of_completions);
    tcase_add_test(t, logprobs_of_a_prompt);
    tcase_add_test(t, offsets_of_a_prompt);
    tcase_add_test(t, offsets_while_text_is_held_back);
    tcase_add_test(t, logprobs_of_chats);
    tcase_add_test(t, long_prompts_are_refused);
    tcase_add_test(t, grammars_that_are_none_are_refused);
    tcase_add_test(t, a_timeout_before_anything_was_sent);
    tcase_add_test(t, a_timeout_in_a_stream);
    tcase_add_test(t, ends_in_any_state);
    tcase_add_test(t, draining_refuses);
    tcase_add_test(t, errors_as_json);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK); /* the scheduler has a thread */
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
