/* share/openapi.json and the server are held to each other: the same paths with the same methods, the same fields in each
 * object of a request, the same limits. What the server reads is not taken from a list: lookups in JSON objects are
 * counted while it parses. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_request.h"
#include "server/http.h"
#include "server/openapi.h"
#include "tests/lib/run.h"
#include "tests/unit/test_api.h"

static json_t *description, *schemas;

/* ---- what is looked up: jansson's function, seen from here ---- */

static bool counting;
static json_t *looked; /* {"address of the object": {name: null}} */

json_t *json_object_get(const json_t *o, const char *name)
{
    static json_t *(*real)(const json_t *, const char *);
    if (!real)
        real = (json_t * (*)(const json_t *, const char *)) dlsym(RTLD_NEXT, "json_object_get");
    if (counting && json_is_object(o)) {
        char key[32];
        snprintf(key, sizeof key, "%p", (const void *)o);
        json_t *names = real(looked, key);
        if (!names)
            json_object_set_new(looked, key, names = json_object());
        json_object_set_new(names, name, json_null());
    }
    return real(o, name);
}

static void count_lookups(void)
{
    json_decref(looked);
    looked = json_object();
    counting = true;
}

/* ---- names by path: {"messages[].tool_calls": {"id": null, ..}} ---- */

static json_t *names_at(json_t *paths, const char *path)
{
    json_t *names = json_object_get(paths, path);
    if (!names)
        json_object_set_new(paths, path, names = json_object());
    return names;
}

static const json_t *resolve(const json_t *schema)
{
    static const char prefix[] = "#/components/schemas/";
    const char *to = json_string_value(json_object_get(schema, "$ref"));
    if (!to)
        return schema;
    ck_assert_msg(strncmp(to, prefix, strlen(prefix)) == 0, "$ref to %s", to);
    const json_t *found = json_object_get(schemas, to + strlen(prefix));
    ck_assert_msg(found != NULL, "nothing is at %s", to);
    return resolve(found);
}

/* All that the schema names, whichever of its alternatives. */
static void described(const json_t *schema, const char *path, json_t *paths)
{
    static const char *const parts[] = { "allOf", "anyOf" };
    const char *name;
    json_t *v;
    size_t k;
    char inner[256];
    schema = resolve(schema);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        json_array_foreach(json_object_get(schema, parts[i]), k, v)
            described(v, path, paths);
    json_object_foreach(json_object_get(schema, "properties"), name, v)
    {
        json_object_set_new(names_at(paths, path), name, json_null());
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", name);
        described(v, inner, paths);
    }
    snprintf(inner, sizeof inner, "%s[]", path);
    if (json_object_get(schema, "items"))
        described(json_object_get(schema, "items"), inner, paths);
}

/* All that was looked up in the request's objects. */
static void read_from(const json_t *v, const char *path, json_t *paths)
{
    const char *name;
    json_t *item;
    size_t i;
    char inner[256], key[32];
    snprintf(key, sizeof key, "%p", (const void *)v);
    if (json_object_get(looked, key))
        json_object_update(names_at(paths, path), json_object_get(looked, key));
    json_object_foreach((json_t *)v, name, item)
    {
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", name);
        read_from(item, inner, paths);
    }
    snprintf(inner, sizeof inner, "%s[]", path);
    json_array_foreach(v, i, item)
        read_from(item, inner, paths);
}

static void no_more(const json_t *a, const json_t *b, const char *what)
{
    const char *path, *name;
    json_t *names, *v;
    json_object_foreach((json_t *)a, path, names)
        json_object_foreach(names, name, v)
            ck_assert_msg(json_object_get(json_object_get(b, path), name) != NULL, "%s '%s%s%s'", what, path,
                          *path ? "." : "", name);
}

/* ---- requests ---- */

static struct api_problem problem;

static int parse(bool chat, const json_t *body, struct api_request *r)
{
    struct api_defaults d = { .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000,
                              .sampling = sampler_defaults() };
    char *text = json_dumps(body, JSON_COMPACT);
    problem = (struct api_problem){ 0 };
    int rc = (chat ? api_request_chat : api_request_completion)(&d, text, strlen(text), r, &problem);
    free(text);
    return rc;
}

static json_t *request(bool chat, const char *more)
{
    char text[4096];
    const char *must = strncmp(more, "'messages'", 10) == 0 ? "'model':'m'"
                       : chat ? "'messages':[{'role':'user','content':'hi'}]" : "'prompt':'hi'";
    snprintf(text, sizeof text, "{%s%s%s}", must, *more ? "," : "", more);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_error_t je;
    json_t *v = json_loads(text, 0, &je);
    ck_assert_msg(v != NULL, "%s: %s", je.text, text);
    return v;
}

static int try(bool chat, const json_t *body)
{
    struct api_request r;
    int rc = parse(chat, body, &r);
    api_request_finish(&r);
    return rc;
}

static void read_request(bool chat, const char *more, json_t *paths)
{
    struct api_request r;
    json_t *body = request(chat, more);
    count_lookups();
    int rc = parse(chat, body, &r);
    counting = false;
    ck_assert_msg(rc == 0, "%s: %s", more, problem.message);
    read_from(r.body, "", paths);
    json_decref(body);
    api_request_finish(&r);
}

#define TOOLS "'tools':[{'type':'function','function':{'name':'f','parameters':{}}}]"

#define F     "{'function':{'name':'f'}},{'name':'f'}"

START_TEST(fields_of_a_chat)
{
    static const char *const samples[] = {
        "'messages':[{'role':'system','content':[{'type':'text','text':'a'},{'type':'refusal','refusal':'b'}]},"
        "{'role':'user','content':'a'},{'role':'assistant','tool_calls':[{'id':'1','type':'function',"
        "'function':{'name':'f','arguments':'{}'}}]},{'role':'tool','content':'a'}]",
        TOOLS ",'tool_choice':{'type':'function','function':{'name':'f'}}",
        TOOLS ",'tool_choice':{'type':'allowed_tools','tools':[" F "]}",
        TOOLS ",'tool_choice':{'type':'allowed_tools','allowed_tools':{'tools':[" F "]}}",
        "'stream':true,'stream_options':{},'reasoning':{},'chat_template_kwargs':{},'structured_outputs':{}",
        "'response_format':{'type':'json_object'}",
        "'response_format':{'type':'json_schema','schema':{}}",
        "'response_format':{'type':'json_schema','json_schema':{'schema':{}}}",
        "'prediction':{'type':'content','content':[{'type':'text','text':'a'},{'type':'refusal','refusal':'b'}]}",
    };
    json_t *told = json_object(), *seen = json_object();
    described(json_object_get(schemas, "ChatRequest"), "", told);
    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        read_request(true, samples[i], seen);
    no_more(seen, told, "share/openapi.json does not describe");
    no_more(told, seen, "the server does not read");
    json_decref(told);
    json_decref(seen);
}
END_TEST

START_TEST(fields_of_a_completion)
{
    static const char *const samples[] = {
        "'stream':true,'stream_options':{},'structured_outputs':{}",
        "'response_format':{'type':'json_object'}",
        "'response_format':{'type':'json_schema','schema':{}}",
        "'response_format':{'type':'json_schema','json_schema':{'schema':{}}}",
    };
    json_t *told = json_object(), *seen = json_object();
    described(json_object_get(schemas, "CompletionRequest"), "", told);
    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        read_request(false, samples[i], seen);
    no_more(seen, told, "share/openapi.json does not describe");
    no_more(told, seen, "the server does not read");
    json_decref(told);
    json_decref(seen);
}
END_TEST

typedef int reader(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                   struct api_problem *p);

/* Whole requests, which together have every object that there is. */
static void fields_of_dialect(reader *read, const char *schema, const char *const *samples, size_t n)
{
    struct api_defaults d = { .think = -1, .think_budget = -1, .max_n = 8, .n_vocab = 1000,
                              .sampling = sampler_defaults() };
    json_t *told = json_object(), *seen = json_object();
    described(json_object_get(schemas, schema), "", told);
    for (size_t i = 0; i < n; i++) {
        struct api_request r;
        char *text = quoted(samples[i]);
        count_lookups();
        int rc = read(&d, text, strlen(text), &r, &problem);
        counting = false;
        ck_assert_msg(rc == 0, "%s: %s", samples[i], problem.message);
        read_from(r.body, "", seen);
        api_request_finish(&r);
        free(text);
    }
    no_more(seen, told, "share/openapi.json does not describe");
    no_more(told, seen, "the server does not read");
    json_decref(told);
    json_decref(seen);
}

START_TEST(fields_of_messages)
{
    static const char *const samples[] = {
        "{'system':[{'type':'text','text':'a'},{'type':'document','source':{'type':'text','data':'b'}}],'messages':["
        "{'role':'user','content':[{'type':'text','text':'a'},{'type':'document','source':{'type':'text','data':'b'}}]},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'a'},{'type':'tool_use','id':'1','name':'f','input':{}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'1','content':[{'type':'text','text':'a'},"
        "{'type':'document','source':{'type':'text','data':'b'}}]}]}],"
        "'tools':[{'name':'f','input_schema':{}}],'tool_choice':{'type':'tool','name':'f'},'thinking':{'type':'enabled'},"
        "'output_config':{'format':{'type':'json_schema','schema':{}}}}",
        "{'messages':[{'role':'user','content':'a'}],'output_format':{'type':'json_schema','schema':{}}}",
    };
    fields_of_dialect(api_request_anthropic, "MessagesRequest", samples, ARRAY_LEN(samples));
}
END_TEST

START_TEST(fields_of_responses)
{
    static const char *const samples[] = {
        "{'input':[{'role':'user','content':[{'type':'input_text','text':'a'},{'type':'refusal','refusal':'b'}]},"
        "{'type':'reasoning','content':[{'type':'reasoning_text','text':'a'},{'type':'refusal','refusal':'b'}]},"
        "{'type':'reasoning','summary':[{'type':'summary_text','text':'a'},{'type':'refusal','refusal':'b'}]},"
        "{'type':'function_call','call_id':'1','name':'f','arguments':'{}'},"
        "{'type':'function_call_output','call_id':'1','output':[{'type':'input_text','text':'a'},{'type':'refusal','refusal':'b'}]}],"
        "'tools':[{'type':'function','name':'f','parameters':{}}],'tool_choice':{'type':'function','name':'f'},"
        "'reasoning':{},'text':{'format':{'type':'json_schema','schema':{}}}}",
        "{'input':'a','tools':[{'type':'function','name':'f'}],'tool_choice':{'type':'allowed_tools','tools':[{'name':'f'}]}}",
    };
    fields_of_dialect(api_request_responses, "ResponsesRequest", samples, ARRAY_LEN(samples));
}
END_TEST

START_TEST(fields_of_ollama)
{
    static const char *const chats[] = {
        "{'messages':[{'role':'user','content':'a'},{'role':'assistant','content':'b','thinking':'c','tool_calls':["
        "{'function':{'name':'f','arguments':{}}}]},{'role':'tool','content':'a','tool_name':'f'}],'options':{'temperature':0},"
        TOOLS ",'tool_choice':{'type':'function','function':{'name':'f'}}}",
        "{'messages':[]," TOOLS ",'tool_choice':{'type':'allowed_tools','tools':[" F "]}}",
        "{'messages':[]," TOOLS ",'tool_choice':{'type':'allowed_tools','allowed_tools':{'tools':[" F "]}}}",
    };
    static const char *const prompts[] = { "{'prompt':'a','options':{'temperature':0}}" };
    fields_of_dialect(api_request_ollama_chat, "OllamaChatRequest", chats, ARRAY_LEN(chats));
    fields_of_dialect(api_request_ollama_generate, "OllamaGenerateRequest", prompts, ARRAY_LEN(prompts));
}
END_TEST

START_TEST(fields_of_infill)
{
    static const char *const samples[] = { "{'input_prefix':'a','input_suffix':'b','input_extra':[{'filename':'c','text':'d'}]}" };
    fields_of_dialect(api_request_infill, "InfillRequest", samples, ARRAY_LEN(samples));
}
END_TEST

START_TEST(fields_of_vectors)
{
    static const char *const inputs[] = { "{'input':['a']}" };
    static const char *const ollama[] = { "{'input':'a'}", "{'prompt':'a'}" };
    static const char *const pairs[] = { "{'query':'a','documents':['b',{'text':'c'}]}", "{'query':'a','texts':['b']}" };
    fields_of_dialect(api_request_embeddings, "EmbeddingsRequest", inputs, ARRAY_LEN(inputs));
    fields_of_dialect(api_request_ollama_embed, "OllamaEmbedRequest", ollama, ARRAY_LEN(ollama));
    fields_of_dialect(api_request_rerank, "RerankRequest", pairs, ARRAY_LEN(pairs));
}
END_TEST

/* These are read where a model is; their objects are flat. */
START_TEST(fields_of_the_others)
{
    static const struct {
        const char *path, *body, *schema;
    } list[] = { { "/v1/tokenize", "{'content':'a'}", "TokenizeRequest" },
                 { "/api/show", "{'model':'zinc-demo'}", "OllamaShowRequest" },
                 { "/v1/detokenize", "{'tokens':[1]}", "DetokenizeRequest" } };
    struct api_bench b = { 0 };
    bench_open(&b, DEMO, "null", 1, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        json_t *told = json_object(), *seen = json_object(), *names;
        const char *key;
        described(json_object_get(schemas, list[i].schema), "", told);
        count_lookups();
        struct reply_got r = call(&b, "POST", list[i].path, list[i].body);
        counting = false;
        ck_assert_int_eq(r.status, 200);
        free(r.text);
        json_object_foreach(looked, key, names)
            json_object_update(names_at(seen, ""), names);
        no_more(seen, told, "share/openapi.json does not describe");
        no_more(told, seen, "the server does not read");
        json_decref(told);
        json_decref(seen);
    }
    bench_close(&b);
}
END_TEST

/* ---- values ---- */

/* {field: its schema} of a request. */
static void fields_of(const json_t *schema, json_t *out)
{
    json_t *v;
    size_t k;
    schema = resolve(schema);
    json_array_foreach(json_object_get(schema, "allOf"), k, v)
        fields_of(v, out);
    json_object_update(out, json_object_get(schema, "properties"));
}

/* Is the field refused with this value, and by this code? */
static bool refused(bool chat, const char *name, json_t *value, const char *code)
{
    json_t *body = request(chat, strcmp(name, "top_logprobs") == 0 ? "'logprobs':true" : "");
    json_object_set_new(body, name, value);
    int rc = try(chat, body);
    json_decref(body);
    return rc && strcmp(problem.param, name) == 0 && problem.code && strcmp(problem.code, code) == 0;
}

static void check_range(bool chat, const char *name, const json_t *schema)
{
    const char *type = json_string_value(json_array_get(json_object_get(schema, "type"), 0));
    const json_t *lo = json_object_get(schema, "minimum"), *hi = json_object_get(schema, "maximum");
    if (!lo)
        return;
    ck_assert_msg(type && hi, "%s: a minimum without a maximum or a type", name);
    bool whole = strcmp(type, "integer") == 0;
    for (int i = 0; i < 4; i++) {
        double v = json_number_value(i < 2 ? lo : hi), beyond = whole ? 1 : 0.0005;
        v += i == 0 ? -beyond : i == 3 ? beyond : 0;
        json_t *value = whole ? json_integer((json_int_t)v) : json_real(v);
        ck_assert_msg(refused(chat, name, value, "invalid_value") == (i == 0 || i == 3), "%s: %g is %s", name, v,
                      i == 0 || i == 3 ? "taken and beyond what is described" : "described and refused");
    }
}

START_TEST(limits_are_those_of_the_server)
{
    for (int chat = 0; chat < 2; chat++) {
        json_t *all = json_object(), *v;
        const char *name;
        int n = 0;
        fields_of(json_object_get(schemas, chat ? "ChatRequest" : "CompletionRequest"), all);
        json_object_foreach(all, name, v)
        {
            check_range(chat, name, v);
            n += json_object_get(v, "minimum") != NULL;
        }
        ck_assert_int_gt(n, 20);
        json_decref(all);
    }
}
END_TEST

/* What is not supported is described by the values that ask for nothing, and by no others. */
START_TEST(values_that_ask_for_nothing)
{
    for (int chat = 0; chat < 2; chat++) {
        json_t *all = json_object(), *v, *value;
        const char *name;
        size_t k;
        int n = 0;
        fields_of(json_object_get(schemas, chat ? "ChatRequest" : "CompletionRequest"), all);
        json_object_foreach(all, name, v)
        {
            const char *about = json_string_value(json_object_get(v, "description"));
            bool told = about && strncmp(about, "Not supported", 13) == 0;
            bool is = refused(chat, name, json_pack("{s:s}", "asks", "for something"), "unsupported");
            ck_assert_msg(told == is, "'%s' is described as %s", name, told ? "not supported, and is" : "supported");
            n += told;
            json_array_foreach(told ? json_object_get(v, "enum") : NULL, k, value)
                ck_assert_msg(!refused(chat, name, json_incref(value), "unsupported"), "%s: value %zu", name, k);
        }
        ck_assert_int_gt(n, 30);
        json_decref(all);
    }
}
END_TEST

/* ---- routes ---- */

static unsigned described_methods(const char *path)
{
    static const char prefix[] = "#/paths/";
    const json_t *paths = json_object_get(description, "paths"), *item = json_object_get(paths, path);
    const char *to = json_string_value(json_object_get(item, "$ref"));
    if (to) {
        char name[128], *out = name;
        ck_assert_msg(strncmp(to, prefix, strlen(prefix)) == 0, "$ref to %s", to);
        for (const char *c = to + strlen(prefix); *c && out < name + sizeof name - 1; c++)
            if (strncmp(c, "~1", 2) == 0)
                *out++ = '/', c++;
            else
                *out++ = *c;
        *out = 0;
        return described_methods(name);
    }
    return (json_object_get(item, "get") ? API_GET : 0u) | (json_object_get(item, "post") ? API_POST : 0u) |
           (json_object_get(item, "delete") ? API_DELETE : 0u);
}

START_TEST(routes)
{
    json_t *all = json_object(), *v;
    const char *path;
    char name[128];
    for (size_t i = 0; (path = http_own_path(i)); i++)
        json_object_set_new(all, path, json_integer(API_GET));
    for (size_t i = 0; (path = api_endpoint(i)); i++)
        for (int without = 0; without < 2; without++) {
            snprintf(name, sizeof name, "%s", path + (without && strncmp(path, "/v1/", 4) == 0 ? 3 : 0));
            json_object_set_new(all, name, json_integer(api_methods(name, NULL)));
        }
    json_object_foreach(all, path, v)
        ck_assert_msg(described_methods(path) == (unsigned)json_integer_value(v), "%s takes %lld, described are %u",
                      path, json_integer_value(v), described_methods(path));
    json_object_foreach(json_object_get(description, "paths"), path, v)
        ck_assert_msg(json_object_get(all, path) != NULL, "there is no %s", path);
    json_decref(all);
}
END_TEST

START_TEST(it_is_of_this_version)
{
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(description, "info"), "version")), ZINC_VERSION);
    ck_assert_str_eq(json_string_value(json_object_get(description, "openapi")), "3.1.0");
}
END_TEST

int main(void)
{
    size_t n;
    json_error_t je;
    const char *text = openapi_json(&n);
    description = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
    if (!description) {
        printf("share/openapi.json, line %d: %s\n", je.line, je.text);
        return 1;
    }
    schemas = json_object_get(json_object_get(description, "components"), "schemas");
    int rc = RUN_TESTS("api_description", routes, fields_of_a_chat, fields_of_a_completion, fields_of_messages,
                       fields_of_responses, fields_of_ollama, fields_of_infill, fields_of_vectors, fields_of_the_others,
                       limits_are_those_of_the_server, values_that_ask_for_nothing, it_is_of_this_version);
    json_decref(looked);
    json_decref(description);
    return rc;
}
