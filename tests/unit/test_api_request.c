/* Bodies of requests: what is accepted and what it means, and how what is wrong is told. No model is needed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_request.h"

static const struct api_defaults defaults = {
    .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000, .max_tokens = 77, .timeout_ns = 5000000000u,
};

static struct api_request r;
static struct api_problem p;

/* Bodies are written with ' for ", so that they can be read. */
static int parse(bool chat, const char *text)
{
    static char body[400000];
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
    CHAT("'thinking_token_budget':5");
    ck_assert_int_eq(r.think_budget, 5);
    api_request_finish(&r);
}
END_TEST

/* OpenAI's levels, on what formats have: reasoning on or off, and three levels. */
static const struct {
    const char *more, *effort;
    int think;
} efforts[] = {
    { "'reasoning_effort':null", NULL, -1 },
    { "'reasoning_effort':'none'", "low", 0 },
    { "'reasoning_effort':'minimal'", "low", -1 },
    { "'reasoning_effort':'low'", "low", 1 },
    { "'reasoning_effort':'medium'", "medium", 1 },
    { "'reasoning_effort':'high'", "high", 1 },
    { "'reasoning_effort':'xhigh'", "high", 1 },
    { "'reasoning_effort':'max'", "high", 1 },
    { "'reasoning':null", NULL, -1 },
    { "'reasoning':{}", NULL, -1 },
    { "'reasoning':{'effort':'low','summary':'auto'}", "low", 1 },
    { "'reasoning':{'effort':'none'}", "low", 0 },
    { "'reasoning':{'enabled':false}", NULL, 0 },
    { "'reasoning':{'effort':'low'},'reasoning_effort':'high'", "high", 1 },
    { "'chat_template_kwargs':{'reasoning_effort':'xhigh'}", "high", 1 },
    { "'reasoning_effort':'high','enable_thinking':false", "high", 0 },
};

START_TEST(every_effort)
{
    CHAT(efforts[_i].more);
    ck_assert_int_eq(r.think, efforts[_i].think);
    if (efforts[_i].effort)
        ck_assert_str_eq(r.effort, efforts[_i].effort);
    else
        ck_assert_ptr_null(r.effort);
    api_request_finish(&r);
}
END_TEST

static uint32_t seed_of(const char *number)
{
    char more[128];
    snprintf(more, sizeof more, "'seed':%s", number);
    CHAT(more);
    uint32_t seed = r.sampling.seed;
    api_request_finish(&r);
    return seed;
}

/* Any integer is a seed, and the same one gives the same answers; -1 asks for a new one each time. */
START_TEST(every_integer_is_a_seed)
{
    static const char *const seeds[] = {
        "0", "1", "-2", "-5", "4294967295", "4294967296", "9223372036854775807", "-9223372036854775808",
        "9223372036854775808", "18446744073709551615", "18446744073709551616", "-18446744073709551617",
        "123456789012345678901234567890", "-123456789012345678901234567890", "7.0", "1e30",
    };
    bool differ = false;
    for (size_t i = 0; i < ARRAY_LEN(seeds); i++) {
        uint32_t seed = seed_of(seeds[i]);
        ck_assert_msg(seed == seed_of(seeds[i]) && seed != SAMPLER_SEED_RANDOM, "%s", seeds[i]);
    }
    ck_assert_uint_eq(seed_of("42"), 42);
    ck_assert_uint_eq(seed_of("7.0"), 7);
    ck_assert_uint_ne(seed_of("-2"), seed_of("-3"));
    for (int i = 0; i < 8; i++)
        differ |= seed_of("-1") != seed_of("-1");
    ck_assert(differ);
}
END_TEST

/* A big integer is a real, and what stands beside it is what it was. */
START_TEST(big_integers_harm_nothing_else)
{
    int rc = parse(true, "{'messages':[{'role':'user','content':'12345678901234567890 \\\\'}],'max_tokens':5,"
                         "'seed':12345678901234567890,'response_format':{'type':'json_schema','json_schema':{'schema':"
                         "{'enum':[1,2.5,1e2,12345678901234567890]}}},'stop':['1234567890123456789012']}");
    ck_assert_msg(rc == 0, "%s", p.message);
    ck_assert_str_eq(r.messages[0].text, "12345678901234567890 \\");
    ck_assert_str_eq(r.stop[0], "1234567890123456789012");
    ck_assert_uint_eq(r.max_tokens, 5);
    ck_assert_str_eq(r.schema, "{\"enum\":[1,2.5,100.0,1.2345678901234567e19]}");
    api_request_finish(&r);
}
END_TEST

START_TEST(guided)
{
    CHAT("'guided_json':{'type':'integer'}");
    ck_assert(r.format == ANSWER_JSON_SCHEMA && strcmp(r.format_param, "guided_json") == 0);
    ck_assert_str_eq(r.schema, "{\"type\":\"integer\"}");
    api_request_finish(&r);
    COMPLETION("'guided_json':'{\\'type\\':\\'integer\\'}'");
    ck_assert_str_eq(r.schema, "{\"type\":\"integer\"}");
    api_request_finish(&r);
    CHAT("'guided_choice':['a\\\\b','c \\'d\\'','\\n\\u007f\\u00e9']");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    ck_assert_str_eq(r.schema, "root ::= \"a\\\\b\" | \"c \\\"d\\\"\" | \"\\x0A\\x7F\xc3\xa9\"\n");
    api_request_finish(&r);
    CHAT("'guided_grammar':'root ::= [0-9]','guided_decoding_backend':'auto','guided_json':null");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    ck_assert_str_eq(r.schema, "root ::= [0-9]");
    api_request_finish(&r);
    COMPLETION("'structured_outputs':{'choice':['yes','no']}");
    ck_assert_str_eq(r.schema, "root ::= \"yes\" | \"no\"\n");
    ck_assert_str_eq(r.format_param, "structured_outputs.choice");
    api_request_finish(&r);
    CHAT("'structured_outputs':{'json':{'type':'null'},'disable_any_whitespace':true}");
    ck_assert_str_eq(r.schema, "{\"type\":\"null\"}");
    api_request_finish(&r);
    CHAT("'structured_outputs':{'json_object':true}");
    ck_assert_int_eq(r.format, ANSWER_JSON_OBJECT);
    api_request_finish(&r);
    CHAT("'structured_outputs':{'grammar':'root ::= \\'x\\''}");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    api_request_finish(&r);
    CHAT("'guided_regex':'^a$'");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    ck_assert_msg(strncmp(r.schema, "root ::= regex-1\nregex-1 ::= ", 29) == 0, "%s", r.schema);
    api_request_finish(&r);
    CHAT("'structured_outputs':{'regex':'[a-z]+'}");
    ck_assert_str_eq(r.format_param, "structured_outputs.regex");
    api_request_finish(&r);
    CHAT("'regex':'[0-9]','ebnf':null");
    ck_assert_str_eq(r.format_param, "regex");
    ck_assert_int_eq(r.format, ANSWER_GRAMMAR);
    api_request_finish(&r);
    COMPLETION("'ebnf':'root ::= [0-9]'");
    ck_assert_str_eq(r.schema, "root ::= [0-9]");
    api_request_finish(&r);
    CHAT("'structured_outputs':{},'guided_choice':null,'guided_regex':null,'guided_grammar':''");
    ck_assert_int_eq(r.format, ANSWER_ANY);
    api_request_finish(&r);
}
END_TEST

START_TEST(the_last_message_can_be_continued)
{
    static const char *const open = "{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':'Be'}]";
    char body[1024];
    static const struct {
        const char *more, *param; /* param NULL: accepted */
    } c[] = {
        { "'continue_final_message':true", NULL },
        { "'continue_final_message':true,'add_generation_prompt':false", NULL },
        { "'continue_final_message':false,'add_generation_prompt':true", NULL },
        { "'continue_final_message':true,'add_generation_prompt':true", "continue_final_message" },
        { "'add_generation_prompt':false", "add_generation_prompt" },
        { "'continue_final_message':1", "continue_final_message" },
        { "'continue_final_message':true,'response_format':{'type':'json_object'}", "continue_final_message" },
        { "'continue_final_message':true,'tools':[{'type':'function','function':{'name':'f'}}]",
          "continue_final_message" },
    };
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        snprintf(body, sizeof body, "%s,%s}", open, c[i].more);
        int rc = parse(true, body);
        if (c[i].param) {
            refused(rc, body, c[i].param);
            continue;
        }
        ck_assert_msg(rc == 0, "%s: %s", body, p.message);
        ck_assert(r.continue_final == (strstr(c[i].more, "message':true") != NULL));
        api_request_finish(&r);
    }
    refused(parse_with(true, "'continue_final_message':true"), "a user's message", "continue_final_message");
    refused(parse(true, "{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f'}}]}],"
                        "'continue_final_message':true}"), "a call", "continue_final_message");
}
END_TEST

/* Each in the way it asks for something, and in the way it asks for nothing. */
static const struct {
    int where; /* 1: chat, 2: completions, 3: both */
    const char *name, *something, *nothing;
} unsupported[] = {
    { 1, "audio", "{'voice':'alloy'}", "null" },
    { 1, "modalities", "['text','audio']", "['text']" },
    { 1, "web_search_options", "{}", "null" },
    { 3, "n_probs", "5", "0" },
    { 3, "mirostat", "2", "0" },
    { 3, "samplers", "['top_k']", "['penalties','dry','top_n_sigma','top_k','typ_p','top_p','min_p','xtc','temperature']" },
    { 3, "dry_sequence_breakers", "['x']", "['\\n',':','\\'','*']" },
    { 3, "penalize_nl", "true", "false" },
    { 3, "adaptive_target", "0.5", "-1.0" },
    { 3, "n_indent", "4", "0" },
    { 3, "t_max_predict_ms", "100", "0" },
    { 3, "lora", "[{'id':0,'scale':0.5}]", "[]" },
    { 3, "image_data", "[{'data':'','id':1}]", "[]" },
    { 3, "response_fields", "['content']", "[]" },
    { 3, "return_tokens", "true", "false" },
    { 3, "post_sampling_probs", "true", "false" },
    { 3, "grammar_lazy", "true", "false" },
    { 3, "grammar_triggers", "['x']", "[]" },
    { 1, "reasoning_format", "'none'", "'auto'" },
    { 1, "reasoning_in_content", "true", "false" },
    { 1, "parse_tool_calls", "false", "true" },
    { 1, "chat_template", "'{{ messages }}'", "''" },
    { 2, "input_prefix", "'a'", "''" },
    { 2, "input_suffix", "'a'", "''" },
    { 3, "use_beam_search", "true", "false" },
    { 3, "length_penalty", "2", "1.0" },
    { 3, "early_stopping", "true", "false" },
    { 3, "prompt_logprobs", "1", "null" },
    { 3, "min_tokens", "5", "0" },
    { 3, "stop_token_ids", "[5]", "[]" },
    { 3, "include_stop_str_in_output", "true", "false" },
    { 3, "skip_special_tokens", "false", "true" },
    { 3, "truncate_prompt_tokens", "5", "null" },
    { 3, "allowed_token_ids", "[1,2]", "null" },
    { 3, "bad_words", "['cat']", "[]" },
    { 3, "logits_processors", "['x']", "[]" },
    { 3, "structural_tag", "'{}'", "null" },
    { 3, "guided_whitespace_pattern", "' '", "null" },
    { 1, "documents", "[{'text':'a'}]", "[]" },
    { 1, "include_reasoning", "false", "true" },
    { 3, "return_tokens_as_token_ids", "true", "false" },
    { 3, "return_token_ids", "true", "false" },
    { 2, "add_special_tokens", "false", "true" },
    { 1, "add_special_tokens", "true", "false" },
    { 1, "echo", "true", "false" },
    { 3, "tfs_z", "0.5", "1" },
    { 3, "top_a", "0.2", "0" },
    { 3, "smoothing_factor", "0.2", "0" },
    { 3, "epsilon_cutoff", "3", "0" },
    { 3, "eta_cutoff", "3", "0" },
};

START_TEST(what_is_not_supported_is_refused_and_not_ignored)
{
    char more[256];
    for (int chat = 0; chat < 2; chat++) {
        if (!(unsupported[_i].where & (chat ? 1 : 2)))
            continue;
        snprintf(more, sizeof more, "'%s':%s", unsupported[_i].name, unsupported[_i].something);
        refused(parse_with(chat, more), more, unsupported[_i].name);
        ck_assert_str_eq(p.code, "unsupported");
        snprintf(more, sizeof more, "'%s':%s", unsupported[_i].name, unsupported[_i].nothing);
        ck_assert_msg(parse_with(chat, more) == 0, "%s: %s", more, p.message);
        api_request_finish(&r);
        snprintf(more, sizeof more, "'%s':null", unsupported[_i].name);
        ck_assert_msg(parse_with(chat, more) == 0, "%s: %s", more, p.message);
        api_request_finish(&r);
    }
}
END_TEST

/* A least length is the whole length, or nothing beside ignore_eos. */
START_TEST(a_least_length)
{
    CHAT("'max_tokens':5,'min_tokens':5");
    ck_assert(r.ignore_eos && r.max_tokens == 5);
    api_request_finish(&r);
    COMPLETION("'max_tokens':5,'min_tokens':3,'ignore_eos':true,'stop':[]");
    ck_assert(r.ignore_eos);
    api_request_finish(&r);
    CHAT("'max_tokens':5,'min_tokens':0");
    ck_assert(!r.ignore_eos);
    api_request_finish(&r);
    refused(parse_with(true, "'max_tokens':5,'min_tokens':3"), "less than max_tokens", "min_tokens");
    refused(parse_with(true, "'max_tokens':5,'min_tokens':6"), "more than max_tokens", "min_tokens");
    refused(parse_with(true, "'max_tokens':5,'min_tokens':5,'stop':'a'"), "with stop", "min_tokens");
}
END_TEST

START_TEST(what_changes_no_answer_is_fine)
{
    CHAT("'verbosity':'low'");
    ck_assert_uint_eq(json_array_size(r.warnings), 1);
    api_request_finish(&r);
    CHAT("'verbosity':'medium'");
    ck_assert_ptr_null(r.warnings);
    api_request_finish(&r);
    refused(parse_with(true, "'verbosity':'terse'"), "no level", "verbosity");
    CHAT("'service_tier':'auto','store':true,'metadata':{'a':'b'},'user':'u','safety_identifier':'s',"
         "'prompt_cache_key':'k','prediction':{'type':'content','content':'x'},'cache_prompt':false,'id_slot':3,"
         "'n_keep':5,'priority':1,'request_id':'r','stream':true,'stream_options':{'include_obfuscation':false}");
    api_request_finish(&r);
    ck_assert_int_eq(parse(true, "{'messages':[{'role':'system','content':'s','name':'x'},{'role':'user','name':'Ann',"
                                 "'content':''},{'role':'assistant','content':null,'name':'b','refusal':null,"
                                 "'tool_calls':[]},{'role':'user','content':[]}]}"), 0);
    ck_assert_str_eq(r.messages[1].text, "");
    ck_assert_str_eq(r.messages[3].text, "");
    api_request_finish(&r);
}
END_TEST

/* Lists of more parts than this are refused before they are looked at. */
START_TEST(counts_have_limits)
{
    static char body[400000];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"messages\":[");
    for (int i = 0; i <= API_MAX_MESSAGES; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, "%s{\"role\":\"user\",\"content\":\"\"}", i ? "," : "");
    snprintf(body + n, sizeof body - n, "]}");
    refused(parse(true, body), "messages", "messages");
    n = (size_t)snprintf(body, sizeof body, "{'messages':[{'role':'assistant','tool_calls':[");
    for (int i = 0; i <= API_MAX_CALLS; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, "%s{'function':{'name':'f'}}", i ? "," : "");
    snprintf(body + n, sizeof body - n, "]}]}");
    refused(parse(true, body), "calls", "messages[0].tool_calls");
    n = (size_t)snprintf(body, sizeof body, "{'prompt':'','guided_choice':[");
    for (int i = 0; i <= API_MAX_CHOICES; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, "%s'a'", i ? "," : "");
    snprintf(body + n, sizeof body - n, "]}");
    refused(parse(false, body), "choices", "guided_choice");
    n = (size_t)snprintf(body, sizeof body, "{'prompt':'','guided_choice':['");
    memset(body + n, 'a', API_MAX_CHOICE_BYTES + 1);
    snprintf(body + n + API_MAX_CHOICE_BYTES + 1, 8, "']}");
    refused(parse(false, body), "bytes of choices", "guided_choice");
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
    CHAT("'tools':[{'type':'function','function':{'name':'now','description':null,'parameters':null,'strict':null}}]");
    ck_assert_str_eq(r.tools, "[{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]");
    api_request_finish(&r);
    CHAT("'tools':[],'tool_choice':'auto'");
    ck_assert_ptr_null(r.tools);
    api_request_finish(&r);
}
END_TEST

static const char *const three = "'tools':[{'type':'function','function':{'name':'a'}},{'type':'function','function':{'name':'b'}},"
                                 "{'type':'function','function':{'name':'c'}}],";

/* Some of the tools, as OpenAI's Chat Completions and Responses APIs name them. */
START_TEST(allowed_tools)
{
    char more[1024];
    static const char *const ways[] = {
        "'tool_choice':{'type':'allowed_tools','allowed_tools':{'mode':'%s','tools':["
        "{'type':'function','function':{'name':'c'}},{'type':'function','function':{'name':'a'}},"
        "{'type':'function','function':{'name':'a'}}]}}",
        "'tool_choice':{'type':'allowed_tools','mode':'%s','tools':[{'type':'function','name':'c'},"
        "{'type':'function','name':'a'}]}",
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(ways); i++) {
        int n = snprintf(more, sizeof more, "%s", three);
        snprintf(more + n, sizeof more - (size_t)n, ways[i / 2], i % 2 ? "required" : "auto");
        CHAT(more);
        ck_assert_int_eq(r.choice, i % 2 ? ANSWER_TOOLS_REQUIRED : ANSWER_TOOLS_AUTO);
        ck_assert_str_eq(r.tools, "[{\"type\":\"function\",\"function\":{\"name\":\"c\"}},"
                                  "{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]");
        api_request_finish(&r);
    }
    static const char *const wrong[][2] = {
        { "{'type':'allowed_tools'}", "tool_choice.tools" },
        { "{'type':'allowed_tools','allowed_tools':{}}", "tool_choice.allowed_tools.tools" },
        { "{'type':'allowed_tools','allowed_tools':5}", "tool_choice.allowed_tools" },
        { "{'type':'allowed_tools','allowed_tools':{'mode':'none','tools':[]}}", "tool_choice.allowed_tools.mode" },
        { "{'type':'allowed_tools','allowed_tools':{'tools':[]}}", "tool_choice.allowed_tools.tools" },
        { "{'type':'allowed_tools','allowed_tools':{'tools':[5]}}", "tool_choice.allowed_tools.tools" },
        { "{'type':'allowed_tools','allowed_tools':{'tools':[{'function':{'name':'x'}}]}}",
          "tool_choice.allowed_tools.tools" },
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        snprintf(more, sizeof more, "%s'tool_choice':%s", three, wrong[i][0]);
        refused(parse_with(true, more), more, wrong[i][1]);
    }
}
END_TEST

START_TEST(null_is_an_empty_content)
{
    ck_assert_int_eq(parse(true, "{'messages':[{'role':'system','content':null},{'role':'user','content':null},"
                                 "{'role':'assistant','content':null,'reasoning':'hm'},{'role':'tool','content':null}]}"), 0);
    ck_assert_uint_eq(r.n_messages, 4);
    ck_assert_ptr_null(r.messages[1].text);
    ck_assert_str_eq(r.messages[2].reasoning, "hm");
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
    { "'eta_cutoff':1e-42", "eta_cutoff" },
    { "'response_format':{'type':'json_schema','json_schema':{'name':5,'schema':{}}}", "response_format.json_schema.name" },
    { "'tools':[{'function':{'name':'f'}}],'tool_choice':{'type':5,'function':{'name':'f'}}", "tool_choice.type" },
    { "'tools':[{'function':{'name':'f'}}],'tool_choice':{'type':'custom','function':{'name':'f'}}", "tool_choice.type" },
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
    { "'reasoning':'high'", "reasoning" },
    { "'reasoning':{'effort':'extreme'}", "reasoning.effort" },
    { "'reasoning':{'exclude':true}", "reasoning.exclude" },
    { "'seed':1.5", "seed" },
    { "'seed':true", "seed" },
    { "'repeat_last_n':2147483647", "repeat_last_n" },
    { "'repeat_last_n':1048577", "repeat_last_n" },
    { "'dry_penalty_last_n':2147483647", "dry_penalty_last_n" },
    { "'guided_json':5", "guided_json" },
    { "'guided_json':'{'", "guided_json" },
    { "'guided_json':'5'", "guided_json" },
    { "'guided_choice':[]", "guided_choice" },
    { "'guided_choice':[1]", "guided_choice" },
    { "'guided_choice':'a'", "guided_choice" },
    { "'guided_regex':5", "guided_regex" },
    { "'guided_regex':'('", "guided_regex" },
    { "'guided_regex':'(a)\\\\1'", "guided_regex" },
    { "'guided_regex':'a{99999}'", "guided_regex" },
    { "'guided_grammar':{}", "guided_grammar" },
    { "'guided_choice':['a'],'guided_grammar':'root ::= .'", "guided_grammar" },
    { "'response_format':{'type':'json_object'},'guided_choice':['a']", "guided_choice" },
    { "'structured_outputs':[]", "structured_outputs" },
    { "'structured_outputs':{'choice':[]}", "structured_outputs.choice" },
    { "'structured_outputs':{'json':{},'choice':['a']}", "structured_outputs.choice" },
    { "'structured_outputs':{'json_object':'yes'}", "structured_outputs.json_object" },
    { "'structured_outputs':{'structural_tag':{}}", "structured_outputs.structural_tag" },
    { "'structured_outputs':{'whitespace_pattern':' '}", "structured_outputs.whitespace_pattern" },
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
    { true, "{'messages':[{'role':'assistant','tool_calls':[{'type':'custom','function':{'name':'f'}}]}]}",
      "messages[0].tool_calls[0].type" },
    { true, "{'messages':[{'role':'assistant','tool_calls':[{'type':5,'function':{'name':'f'}}]}]}",
      "messages[0].tool_calls[0].type" },
    { true, "{'messages':[{'role':'user','content':'a\\u0000b'}]}", "" },
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
    { true, "{'a':123456789012345678901234567890}", "messages" }, /* a number, and no messages */
    { true, "{}", "messages" },
    { true, "{'messages':[]}", "messages" },
    { true, "{'messages':{}}", "messages" },
    { true, "{'messages':[5]}", "messages[0]" },
    { true, "{'messages':[{}]}", "messages[0].role" },
    { true, "{'messages':[{'role':'user'}]}", "messages[0].content" },
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
    { false, "{'prompt':[1],'suffix':'b'}", "suffix" },
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
    tcase_add_loop_test(t, every_effort, 0, (int)ARRAY_LEN(efforts));
    tcase_add_test(t, every_integer_is_a_seed);
    tcase_add_test(t, big_integers_harm_nothing_else);
    tcase_add_test(t, guided);
    tcase_add_test(t, the_last_message_can_be_continued);
    tcase_add_loop_test(t, what_is_not_supported_is_refused_and_not_ignored, 0, (int)ARRAY_LEN(unsupported));
    tcase_add_test(t, a_least_length);
    tcase_add_test(t, what_changes_no_answer_is_fine);
    tcase_add_test(t, counts_have_limits);
    tcase_add_test(t, formats);
    tcase_add_test(t, tools);
    tcase_add_test(t, allowed_tools);
    tcase_add_test(t, null_is_an_empty_content);
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
