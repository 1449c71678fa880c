/* Bodies of requests: what is accepted and what it means, and how what is wrong is told. No model is needed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_request.h"

static const struct api_defaults defaults = {
    .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000, .max_tokens = 77, .timeout_ns = 5000000000u,
};

static struct api_request r;
static struct api_problem p;

/* Bodies are written with ' for ", so that they can be read. */
static int parse(bool chat, const char *text)
{
    static char body[200000];
    size_t n = strlen(text);
    ck_assert_uint_lt(n, sizeof body);
    for (size_t i = 0; i < n; i++)
        body[i] = text[i] == '\'' ? '"' : text[i];
    struct api_defaults d = defaults;
    d.sampling = sampler_defaults();
    p = (struct api_problem){ 0 };
    return (chat ? api_request_chat : api_request_completion)(&d, body, n, &r, &p);
}

/* A request that is fine but for what `more` says, which is put before its end. */
static int parse_with(bool chat, const char *more)
{
    static char body[8192];
    snprintf(body, sizeof body, "{%s%s%s}",
             chat ? "'messages':[{'role':'user','content':'hi'}]" : "'prompt':'hi'", *more ? "," : "", more);
    return parse(chat, body);
}

#define CHAT(more)       ck_assert_msg(parse_with(true, more) == 0, "%s: %s", more, p.message)
#define COMPLETION(more) ck_assert_msg(parse_with(false, more) == 0, "%s: %s", more, p.message)

static void refused(int rc, const char *what, const char *param)
{
    ck_assert_msg(rc == -EINVAL, "accepted: %s", what);
    ck_assert_int_eq(p.status, 400);
    ck_assert_msg(strcmp(p.param, param) == 0, "%s: param is '%s', expected '%s' (%s)", what, p.param, param,
                  p.message);
    ck_assert_msg(p.message[0] && p.code, "%s: no message or no code", what);
    api_request_finish(&r);
}

START_TEST(defaults_hold_where_nothing_is_said)
{
    CHAT("");
    ck_assert_uint_eq(r.n_messages, 1);
    ck_assert_str_eq(r.messages[0].role, "user");
    ck_assert_str_eq(r.messages[0].text, "hi");
    ck_assert_uint_eq(r.max_tokens, 77);
    ck_assert_uint_eq(r.timeout_ns, 5000000000u);
    ck_assert_uint_eq(r.n, 1);
    ck_assert_int_eq(r.n_logprobs, -1);
    ck_assert_int_eq(r.think, -1);
    ck_assert_int_eq(r.think_budget, -1);
    ck_assert(!r.stream && !r.tools && r.parallel && r.format == ANSWER_ANY);
    ck_assert_uint_ne(r.sampling.seed, SAMPLER_SEED_RANDOM); /* drawn once, so that n answers differ by their number */
    api_request_finish(&r);
}
END_TEST

START_TEST(sampling_fields)
{
    CHAT("'temperature':0,'top_p':0.5,'top_k':-1,'min_p':0.1,'typical_p':0.9,'repetition_penalty':1.5,"
         "'frequency_penalty':-2,'presence_penalty':2,'dry_multiplier':0.8,'dry_base':2,'dry_allowed_length':3,"
         "'dry_penalty_last_n':9,'xtc_probability':0.2,'xtc_threshold':0.3,'repeat_last_n':12,'seed':42,"
         "'top_n_sigma':1.5,'logit_bias':{'7':-100,'999':1.5}");
    ck_assert(r.sampling.temp == 0 && r.sampling.top_p == 0.5f && r.sampling.top_k == -1 && r.sampling.min_p == 0.1f);
    ck_assert(r.sampling.typical_p == 0.9f && r.sampling.repeat_penalty == 1.5f && r.sampling.frequency_penalty == -2);
    ck_assert(r.sampling.presence_penalty == 2 && r.sampling.dry_multiplier == 0.8f && r.sampling.dry_base == 2);
    ck_assert(r.sampling.dry_allowed_length == 3 && r.sampling.dry_last_n == 9 && r.sampling.xtc_probability == 0.2f);
    ck_assert(r.sampling.xtc_threshold == 0.3f && r.sampling.repeat_last_n == 12 && r.sampling.top_n_sigma == 1.5f);
    ck_assert_uint_eq(r.sampling.seed, 42);
    ck_assert_uint_eq(r.sampling.n_bias, 2);
    ck_assert_int_eq(r.sampling.bias[1].id, 999);
    ck_assert(r.sampling.bias[0].bias == -100 && r.sampling.bias[1].bias == 1.5f);
    ck_assert_int_eq(r.sampling.rng, SAMPLER_RNG_MT19937); /* typical_p is a step of the host's */
    api_request_finish(&r);
    CHAT("'temperature':0.7,'top_p':0.9,'top_k':20");
    ck_assert_int_eq(r.sampling.rng, SAMPLER_RNG_COUNTER);
    api_request_finish(&r);
    CHAT("'top_k':0");
    ck_assert_int_eq(r.sampling.rng, SAMPLER_RNG_MT19937); /* all tokens */
    api_request_finish(&r);
    CHAT("'seed':-1");
    ck_assert_uint_ne(r.sampling.seed, SAMPLER_SEED_RANDOM);
    api_request_finish(&r);
    CHAT("'seed':9223372036854775807,'temperature':null,'logit_bias':null");
    api_request_finish(&r);
}
END_TEST

START_TEST(limits_and_stops)
{
    CHAT("'max_tokens':5,'max_completion_tokens':6,'stop':'END','timeout':1.5,'n':3,'best_of':2");
    ck_assert_uint_eq(r.max_tokens, 6);
    ck_assert_uint_eq(r.n_stop, 1);
    ck_assert_str_eq(r.stop[0], "END");
    ck_assert_uint_eq(r.timeout_ns, 1500000000u);
    ck_assert_uint_eq(r.n, 3);
    api_request_finish(&r);
    CHAT("'max_tokens':-1,'stop':['a','','b'],'ignore_eos':true");
    ck_assert_uint_eq(r.max_tokens, 0);
    ck_assert_uint_eq(r.n_stop, 2);
    ck_assert(r.ignore_eos);
    api_request_finish(&r);
    CHAT("'stream':true,'stream_options':{'include_usage':true},'logprobs':true,'top_logprobs':3");
    ck_assert(r.stream && r.include_usage && r.n_logprobs == 3);
    api_request_finish(&r);
    CHAT("'some_field_of_tomorrow':{'x':[1]},'user':'me','store':false,'metadata':{},'cache_prompt':true");
    api_request_finish(&r);
}
END_TEST

START_TEST(reasoning_fields)
{
    CHAT("'enable_thinking':false");
    ck_assert_int_eq(r.think, 0);
    api_request_finish(&r);
    CHAT("'chat_template_kwargs':{'enable_thinking':true},'thinking_budget':100");
    ck_assert_int_eq(r.think, 1);
    ck_assert_int_eq(r.think_budget, 100);
    api_request_finish(&r);
    CHAT("'chat_template_kwargs':{'enable_thinking':true},'enable_thinking':false,'reasoning_budget':0");
    ck_assert_int_eq(r.think, 0);
    ck_assert_int_eq(r.think_budget, 0);
    api_request_finish(&r);
    CHAT("'reasoning_effort':'none'");
    ck_assert_int_eq(r.think, 0);
    api_request_finish(&r);
    CHAT("'reasoning_effort':'high'");
    ck_assert_int_eq(r.think, -1);
    ck_assert_str_eq(r.effort, "high");
    api_request_finish(&r);
}
END_TEST

START_TEST(formats)
{
    CHAT("'response_format':{'type':'text'}");
    ck_assert_int_eq(r.format, ANSWER_ANY);
    api_request_finish(&r);
    CHAT("'response_format':{'type':'json_object'}");
    ck_assert_int_eq(r.format, ANSWER_JSON_OBJECT);
    api_request_finish(&r);
    CHAT("'response_format':{'type':'json_schema','json_schema':{'name':'a','strict':true,"
         "'schema':{'type':'object','properties':{'z':{},'a':{}}}}}");
    ck_assert_int_eq(r.format, ANSWER_JSON_SCHEMA);
    ck_assert_str_eq(r.schema, "{\"type\":\"object\",\"properties\":{\"z\":{},\"a\":{}}}"); /* in its own order */
    api_request_finish(&r);
    COMPLETION("'json_schema':{'type':'integer'}");
    ck_assert_str_eq(r.schema, "{\"type\":\"integer\"}");
    ck_assert_str_eq(r.format_param, "json_schema");
    api_request_finish(&r);
    COMPLETION("'grammar':'root ::= \\'a\\''");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    api_request_finish(&r);
}
END_TEST

static const char *const weather =
    "'tools':[{'type':'function','function':{'name':'weather','parameters':{'type':'object'}}}]";

START_TEST(tools)
{
    char more[512];
    CHAT(weather);
    ck_assert_ptr_nonnull(r.tools);
    ck_assert_int_eq(r.choice, ANSWER_TOOLS_AUTO);
    api_request_finish(&r);
    snprintf(more, sizeof more, "%s,'tool_choice':{'type':'function','function':{'name':'weather'}}", weather);
    CHAT(more);
    ck_assert_int_eq(r.choice, ANSWER_TOOLS_NAMED);
    ck_assert_str_eq(r.named, "weather");
    api_request_finish(&r);
    snprintf(more, sizeof more, "%s,'tool_choice':'none','parallel_tool_calls':false", weather);
    CHAT(more);
    ck_assert_ptr_null(r.tools);
    ck_assert(!r.parallel);
    api_request_finish(&r);
    CHAT("'tools':[],'tool_choice':'auto'");
    ck_assert_ptr_null(r.tools);
    api_request_finish(&r);
}
END_TEST

START_TEST(conversations)
{
    int rc = parse(true, "{'messages':[{'role':'system','content':[{'type':'text','text':'a'},"
                         "{'type':'text','text':'\\u00e9'}]},{'role':'user','content':'x'},"
                         "{'role':'assistant','content':null,'reasoning_content':'hm','tool_calls':["
                         "{'id':'c1','type':'function','function':{'name':'f','arguments':'{}'}},"
                         "{'id':'c2','type':'function','function':{'name':'g','arguments':{'k':1}}}]},"
                         "{'role':'tool','tool_call_id':'c1','content':'42'}]}");
    ck_assert_msg(rc == 0, "%s", p.message);
    ck_assert_uint_eq(r.n_messages, 4);
    ck_assert_str_eq(r.messages[0].text, "a\n\xc3\xa9");
    ck_assert_str_eq(r.messages[2].reasoning, "hm");
    ck_assert_ptr_null(r.messages[2].text);
    ck_assert_uint_eq(r.messages[2].n_calls, 2);
    ck_assert_str_eq(r.messages[2].calls[1].name, "g");
    ck_assert_str_eq(r.messages[2].calls[1].arguments, "{\"k\":1}");
    ck_assert_str_eq(r.messages[3].call_id, "c1");
    api_request_finish(&r);
}
END_TEST

START_TEST(prompts)
{
    ck_assert_int_eq(parse(false, "{'prompt':[1,2,3]}"), 0);
    ck_assert_uint_eq(r.n_prompts, 1);
    ck_assert_uint_eq(r.prompts[0].n_ids, 3);
    api_request_finish(&r);
    ck_assert_int_eq(parse(false, "{'prompt':[[1,2],[3]],'n':2,'echo':true}"), 0);
    ck_assert_uint_eq(r.n_prompts, 2);
    ck_assert_int_eq(r.prompts[1].ids[0], 3);
    api_request_finish(&r);
    ck_assert_int_eq(parse(false, "{'prompt':['a','bc'],'logprobs':5}"), 0);
    ck_assert_uint_eq(r.prompts[1].n_text, 2);
    ck_assert_int_eq(r.n_logprobs, 5);
    api_request_finish(&r);
}
END_TEST

/* Put into a request that is fine without. */
static const struct {
    const char *more, *param;
} wrong_chat[] = {
    { "'temperature':'hot'", "temperature" },
    { "'temperature':-1", "temperature" },
    { "'top_p':1.5", "top_p" },
    { "'top_k':1.5", "top_k" },
    { "'top_k':-2", "top_k" },
    { "'min_p':[]", "min_p" },
    { "'frequency_penalty':3", "frequency_penalty" },
    { "'repetition_penalty':0", "repetition_penalty" },
    { "'seed':'x'", "seed" },
    { "'n':0", "n" },
    { "'n':9", "n" },
    { "'n':true", "n" },
    { "'best_of':2", "best_of" },
    { "'max_tokens':0", "max_tokens" },
    { "'max_tokens':-2", "max_tokens" },
    { "'max_completion_tokens':'5'", "max_completion_tokens" },
    { "'stop':5", "stop" },
    { "'stop':['a',1]", "stop" },
    { "'stop':['','','','','','','','','','','','','','','','','']", "stop" },
    { "'stream':1", "stream" },
    { "'stream_options':{'include_usage':true}", "stream_options" },
    { "'stream':true,'stream_options':{'include_usage':'yes'}", "stream_options.include_usage" },
    { "'logprobs':5", "logprobs" },
    { "'top_logprobs':5", "top_logprobs" },
    { "'logprobs':true,'top_logprobs':21", "top_logprobs" },
    { "'logit_bias':{'cat':1}", "logit_bias" },
    { "'logit_bias':{'1000':1}", "logit_bias" },
    { "'logit_bias':{'5':101}", "logit_bias" },
    { "'logit_bias':{'5':false}", "logit_bias" },
    { "'logit_bias':[]", "logit_bias" },
    { "'timeout':0", "timeout" },
    { "'ignore_eos':'no'", "ignore_eos" },
    { "'model':5", "model" },
    { "'enable_thinking':1", "enable_thinking" },
    { "'reasoning_effort':'extreme'", "reasoning_effort" },
    { "'thinking_budget':-2", "thinking_budget" },
    { "'chat_template_kwargs':{'enable_thinking':'x'}", "chat_template_kwargs.enable_thinking" },
    { "'response_format':'json'", "response_format" },
    { "'response_format':{}", "response_format.type" },
    { "'response_format':{'type':'yaml'}", "response_format.type" },
    { "'response_format':{'type':'json_schema'}", "response_format" },
    { "'response_format':{'type':'json_schema','json_schema':{'schema':5}}", "response_format.json_schema.schema" },
    { "'response_format':{'type':'json_object'},'grammar':'root ::= .'", "grammar" },
    { "'grammar':5", "grammar" },
    { "'functions':[]", "functions" },
    { "'function_call':'auto'", "function_call" },
    { "'tools':{}", "tools" },
    { "'tools':[5]", "tools[0]" },
    { "'tools':[{'type':'browser'}]", "tools[0].type" },
    { "'tools':[{'type':'function'}]", "tools[0]" },
    { "'tools':[{'type':'function','function':{}}]", "tools[0].function.name" },
    { "'tools':[{'type':'function','function':{'name':'a b'}}]", "tools[0].function.name" },
    { "'tools':[{'type':'function','function':{'name':'a','parameters':5}}]", "tools[0].function.parameters" },
    { "'tool_choice':'required'", "tool_choice" },
    { "'tool_choice':'maybe'", "tool_choice" },
    { "'tool_choice':{'type':'function','function':{'name':'f'}}", "tool_choice" },
    { "'parallel_tool_calls':0", "parallel_tool_calls" },
};

START_TEST(what_is_wrong_is_named)
{
    refused(parse_with(true, wrong_chat[_i].more), wrong_chat[_i].more, wrong_chat[_i].param);
}
END_TEST

static const struct {
    bool chat;
    const char *body, *param;
} wrong_bodies[] = {
    { true, "", "" },
    { true, "[]", "" },
    { true, "'hello'", "" },
    { true, "null", "" },
    { true, "{", "" },
    { true, "{'messages':[],}", "" },
    { true, "{'a':1} x", "" },
    { true, "{'a':'\xff\xfe'}", "" },
    { true, "{'a':'\xed\xa0\x80'}", "" },
    { true, "{'a':'\\ud800'}", "" },
    { true, "{'a':'\\u0000'}", "" },
    { true, "{'a':1e999}", "" },
    { true, "{'a':NaN}", "" },
    { true, "{'a':123456789012345678901234567890}", "" },
    { true, "{}", "messages" },
    { true, "{'messages':[]}", "messages" },
    { true, "{'messages':{}}", "messages" },
    { true, "{'messages':[5]}", "messages[0]" },
    { true, "{'messages':[{}]}", "messages[0].role" },
    { true, "{'messages':[{'role':'user'}]}", "messages[0].content" },
    { true, "{'messages':[{'role':'user','content':null}]}", "messages[0].content" },
    { true, "{'messages':[{'role':'user','content':5}]}", "messages[0].content" },
    { true, "{'messages':[{'role':'robot','content':''}]}", "messages[0].role" },
    { true, "{'messages':[{'role':'function','content':''}]}", "messages[0].role" },
    { true, "{'messages':[{'role':'user','content':[{'type':'image_url'}]}]}", "messages[0].content[0]" },
    { true, "{'messages':[{'role':'user','content':[{'type':'text'}]}]}", "messages[0].content[0].text" },
    { true, "{'messages':[{'role':'user','content':['a']}]}", "messages[0].content[0]" },
    { true, "{'messages':[{'role':'assistant','tool_calls':[{}]}]}", "messages[0].tool_calls[0].function" },
    { true, "{'messages':[{'role':'assistant','tool_calls':[{'function':{}}]}]}",
      "messages[0].tool_calls[0].function.name" },
    { true, "{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':5}}]}]}",
      "messages[0].tool_calls[0].function.arguments" },
    { false, "{}", "prompt" },
    { false, "{'prompt':5}", "prompt" },
    { false, "{'prompt':[1,'a']}", "prompt" },
    { false, "{'prompt':['a',5]}", "prompt" },
    { false, "{'prompt':[1000]}", "prompt" },
    { false, "{'prompt':[-1]}", "prompt" },
    { false, "{'prompt':[[1],[99999999999]]}", "prompt" },
    { false, "{'prompt':'a','suffix':'b'}", "suffix" },
    { false, "{'prompt':'a','echo':true,'logprobs':1}", "echo" },
    { false, "{'prompt':'a','logprobs':true}", "logprobs" },
    { false, "{'prompt':'a','logprobs':21}", "logprobs" },
    { false, "{'prompt':['1','2','3','4','5'],'n':8}", "prompt" },
};

START_TEST(wrong_bodies_are_refused)
{
    refused(parse(wrong_bodies[_i].chat, wrong_bodies[_i].body), wrong_bodies[_i].body, wrong_bodies[_i].param);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    enum { DEEP = 100000 };
    char *body = malloc(DEEP + 1);
    memset(body, '[', DEEP);
    body[DEEP] = 0;
    refused(parse(true, body), "a hundred thousand brackets", "");
    free(body);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("api_request");
    TCase *t = tcase_create("api_request");
    tcase_add_test(t, defaults_hold_where_nothing_is_said);
    tcase_add_test(t, sampling_fields);
    tcase_add_test(t, limits_and_stops);
    tcase_add_test(t, reasoning_fields);
    tcase_add_test(t, formats);
    tcase_add_test(t, tools);
    tcase_add_test(t, conversations);
    tcase_add_test(t, prompts);
    tcase_add_loop_test(t, what_is_wrong_is_named, 0, (int)(sizeof wrong_chat / sizeof *wrong_chat));
    tcase_add_loop_test(t, wrong_bodies_are_refused, 0, (int)(sizeof wrong_bodies / sizeof *wrong_bodies));
    tcase_add_test(t, deep_nesting_is_refused);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
