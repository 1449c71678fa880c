/* Vectors of texts and scores of pairs over the API: their forms, one by one and many at once, what is refused. */
#include "tests/unit/test_api.h"

#include <math.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "tests/lib/run.h"
#include "tests/unit/tiny_model.h"

#define EMBED  "/v1/embeddings"
#define RERANK "/v1/rerank"

static struct api_bench b;
static char path[64];

static void open_model(const char *preset, const char *tier, uint32_t n_slots, uint32_t max_queue)
{
    struct err e = { 0 };
    strcpy(path, "/tmp/zinc-vectors-XXXXXX");
    tiny_model(path, preset);
    struct engine_opts eo = { .path = path, .tier = tier, .pooling = "auto", .n_slots = n_slots, .score_rows = n_slots,
                              .n_ctx = 96, .threads = 1 };
    struct sched_opts so = { .max_queue = max_queue };
    ck_assert_msg(engine_open(&eo, &b.eng, &e) == 0, "%s", e.msg);
    ck_assert_msg(sched_create(b.eng, &so, &b.sched, &e) == 0, "%s", e.msg);
    b.budget = budget_create(64u << 20);
    struct api_opts ao = { .eng = b.eng, .sched = b.sched, .sampling = sampler_defaults(), .think = -1, .think_budget = -1,
                           .budget = b.budget };
    ck_assert_msg(api_create(&ao, &b.api, &e) == 0, "%s", e.msg);
}

static void close_model(void)
{
    bench_close(&b);
    unlink(path);
}

static uint32_t floats(const json_t *array, float *v, uint32_t cap)
{
    size_t i;
    json_t *n;
    ck_assert_uint_le(json_array_size(array), cap);
    json_array_foreach((json_t *)array, i, n)
        v[i] = (float)json_number_value(n);
    return (uint32_t)json_array_size(array);
}

/* The vector of one input, as the body asks for it. */
static uint32_t vector_of(const char *body, float v[256])
{
    json_t *a = call_json(&b, "POST", EMBED, body, 200);
    ck_assert_uint_eq(json_array_size(at(a, "data")), 1);
    uint32_t n = floats(at(a, "data.0.embedding"), v, 256);
    json_decref(a);
    return n;
}

static void check_length(const float *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * v[i];
    ck_assert_double_eq_tol(sum, 1, 1e-5);
}

START_TEST(a_text_has_a_vector_of_length_one)
{
    float v[256], short_v[256];
    open_model("tiny-qwen3-embed", "cpu", 2, 0);
    ck_assert_uint_eq(vector_of("{'input':'The captain asked','model':'any'}", v), 256);
    check_length(v, 256);
    ck_assert_uint_eq(vector_of("{'input':'The captain asked','dimensions':16}", short_v), 16);
    check_length(short_v, 16);
    for (uint32_t i = 1; i < 16; i++) /* the same direction, as far as it goes */
        ck_assert_double_eq_tol(v[i] / v[0], short_v[i] / short_v[0], 1e-4 * fabs(v[i] / v[0]));
    json_t *a = call_json(&b, "POST", EMBED, "{'input':['The captain asked']}", 200);
    ck_assert_str_eq(str_at(a, "object"), "list");
    ck_assert_str_eq(str_at(a, "data.0.object"), "embedding");
    ck_assert_int_gt(int_at(a, "usage.prompt_tokens"), 3);
    ck_assert_int_eq(int_at(a, "usage.prompt_tokens"), int_at(a, "usage.total_tokens"));
    json_decref(a);
    close_model();
}
END_TEST

START_TEST(base64_holds_the_same_bits)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    float v[256];
    unsigned char raw[1100];
    size_t n = 0;
    open_model("tiny-qwen3-embed", "cpu", 2, 0);
    vector_of("{'input':'wheels'}", v);
    json_t *a = call_json(&b, "POST", EMBED, "{'input':'wheels','encoding_format':'base64'}", 200);
    const char *s = str_at(a, "data.0.embedding");
    ck_assert_uint_eq(strlen(s), 4 * ((1024 + 2) / 3));
    for (; *s; s += 4) {
        uint32_t w = 0;
        for (int i = 0; i < 4; i++)
            w = w << 6 | (s[i] == '=' ? 0 : (uint32_t)(strchr(digits, s[i]) - digits));
        raw[n++] = (unsigned char)(w >> 16);
        raw[n++] = (unsigned char)(w >> 8);
        raw[n++] = (unsigned char)w;
    }
    ck_assert_mem_eq(raw, v, sizeof v);
    json_decref(a);
    close_model();
}
END_TEST

START_TEST(tokens_are_what_their_text_is)
{
    float v[256], same[256];
    char body[512];
    open_model("tiny-qwen3-embed", "cpu", 2, 0);
    json_t *t = call_json(&b, "POST", "/tokenize", "{'content':'wheels and mills','add_special':true}", 200);
    char *ids = json_dumps(at(t, "tokens"), JSON_COMPACT);
    vector_of("{'input':'wheels and mills'}", v);
    snprintf(body, sizeof body, "{\"input\":%s}", ids);
    ck_assert_uint_eq(vector_of(body, same), 256);
    ck_assert_mem_eq(v, same, sizeof v);
    snprintf(body, sizeof body, "{\"input\":[%s]}", ids);
    vector_of(body, same);
    ck_assert_mem_eq(v, same, sizeof v);
    free(ids);
    json_decref(t);
    close_model();
}
END_TEST

/* More than there are slots and places in the queue: one request is one request. */
START_TEST(many_texts_have_the_vectors_they_have_alone)
{
    enum { N = 40 };
    static float alone[N][256];
    float v[256];
    char body[4096] = "{\"input\":[", one[128];
    open_model("tiny-qwen3-embed", "cpu", 3, 1);
    for (int i = 0; i < N; i++) {
        snprintf(one, sizeof one, "\"%.*s number %d\"", i % 7, "abcdefg", i * i);
        sprintf(body + strlen(body), "%s%s", i ? "," : "", one);
    }
    strcat(body, "]}");
    json_t *a = call_json(&b, "POST", EMBED, body, 200), *item;
    close_model();
    open_model("tiny-qwen3-embed", "cpu", 1, 1);
    for (int i = 0; i < N; i++) {
        snprintf(one, sizeof one, "{\"input\":\"%.*s number %d\"}", i % 7, "abcdefg", i * i);
        vector_of(one, alone[i]);
    }
    size_t k;
    ck_assert_uint_eq(json_array_size(at(a, "data")), N);
    json_array_foreach(at(a, "data"), k, item)
    {
        ck_assert_int_eq(int_at(item, "index"), (long long)k);
        floats(json_object_get(item, "embedding"), v, 256);
        ck_assert_msg(memcmp(v, alone[k], sizeof v) == 0, "vector %zu", k);
    }
    json_decref(a);
    close_model();
}
END_TEST

START_TEST(ollama_has_its_own_forms)
{
    float v[256], w[256];
    open_model("tiny-qwen3-embed", "cpu", 2, 0);
    vector_of("{'input':'wheels'}", v);
    json_t *a = call_json(&b, "POST", "/api/embed", "{'model':'m','input':['wheels','mills']}", 200);
    ck_assert_uint_eq(json_array_size(at(a, "embeddings")), 2);
    floats(at(a, "embeddings.0"), w, 256);
    ck_assert_mem_eq(v, w, sizeof v);
    ck_assert_int_gt(int_at(a, "prompt_eval_count"), 2);
    json_decref(a);
    a = call_json(&b, "POST", "/api/embeddings", "{'model':'m','prompt':'wheels'}", 200);
    floats(at(a, "embedding"), w, 256);
    ck_assert_mem_eq(v, w, sizeof v);
    json_decref(a);
    a = call_json(&b, "POST", "/api/show", "{'name':'%s'}", 404); /* the name is the file's */
    json_decref(a);
    close_model();
}
END_TEST

START_TEST(what_is_too_long_is_said_and_cut_only_if_asked)
{
    char body[1024], text[512] = "";
    open_model("tiny-qwen3-embed", "cpu", 2, 0);
    for (int i = 0; i < 30; i++)
        strcat(text, "a b c d ");
    snprintf(body, sizeof body, "{\"input\":\"%s\"}", text);
    json_t *a = call_json(&b, "POST", EMBED, body, 400);
    ck_assert_str_eq(str_at(a, "error.code"), "context_length_exceeded");
    ck_assert_str_eq(str_at(a, "error.param"), "input");
    ck_assert_ptr_nonnull(strstr(str_at(a, "error.message"), "96"));
    json_decref(a);
    json_decref(call_json(&b, "POST", "/api/embed", body, 400));
    snprintf(body, sizeof body, "{\"input\":\"%s\",\"truncate\":true}", text);
    a = call_json(&b, "POST", "/api/embed", body, 200);
    ck_assert_int_eq(int_at(a, "prompt_eval_count"), 96);
    json_decref(a);
    close_model();
}
END_TEST

#define PAIRS "'query':'How far is it?','documents':['two wheels','eleven miles',{'text':'two wheels'},'the bell']"

START_TEST(documents_are_ranked)
{
    open_model("tiny-qwen3-rerank", "cpu", 2, 0);
    json_t *a = call_json(&b, "POST", RERANK, "{" PAIRS "}", 200), *item;
    double last = 1, score[4];
    size_t i;
    ck_assert_uint_eq(json_array_size(at(a, "results")), 4);
    json_array_foreach(at(a, "results"), i, item)
    {
        double s = json_number_value(json_object_get(item, "relevance_score"));
        ck_assert(s >= 0 && s <= last && !json_object_get(item, "document"));
        score[int_at(item, "index")] = last = s;
    }
    ck_assert(score[0] == score[2]); /* the same text, in company */
    ck_assert_double_gt(fabs(score[0] - score[1]), 1e-3);
    ck_assert_int_gt(int_at(a, "usage.prompt_tokens"), 40);
    json_decref(a);
    a = call_json(&b, "POST", "/rerank", "{" PAIRS ",'top_n':3,'return_documents':true}", 200);
    ck_assert_uint_eq(json_array_size(at(a, "results")), 3);
    ck_assert_double_eq(json_number_value(at(a, "results.0.relevance_score")), fmax(fmax(score[0], score[1]), score[3]));
    ck_assert_uint_gt(strlen(str_at(a, "results.0.document.text")), 3);
    json_decref(a);
    a = call_json(&b, "POST", RERANK, "{'query':'How far is it?','texts':['two wheels'],'return_text':true}", 200);
    ck_assert_double_eq(json_number_value(at(a, "0.score")), score[0]);
    ck_assert_str_eq(str_at(a, "0.text"), "two wheels");
    json_decref(a);
    close_model();
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *preset, *path, *body, *param, *code, *says;
    } cases[] = {
        { "tiny-qwen3-embed", EMBED, "{}", "input", "missing_field", "input" },
        { "tiny-qwen3-embed", EMBED, "{'input':[]}", "input", "invalid_value", "empty" },
        { "tiny-qwen3-embed", EMBED, "{'input':[[]]}", "input", "invalid_value", "empty" },
        { "tiny-qwen3-embed", EMBED, "{'input':5}", "input", "invalid_type", "a string" },
        { "tiny-qwen3-embed", EMBED, "{'input':['a',5]}", "input", "invalid_type", "a string" },
        { "tiny-qwen3-embed", EMBED, "{'input':[1,640]}", "input", "invalid_value", "640" },
        { "tiny-qwen3-embed", EMBED, "{'input':'a','dimensions':257}", "dimensions", "invalid_value", "256" },
        { "tiny-qwen3-embed", EMBED, "{'input':'a','dimensions':0}", "dimensions", "invalid_value", "" },
        { "tiny-qwen3-embed", EMBED, "{'input':'a','encoding_format':'int8'}", "encoding_format", "invalid_value", "base64" },
        { "tiny-qwen3-embed", RERANK, "{" PAIRS "}", "", "unsupported", "/v1/embeddings" },
        { "tiny-qwen3-embed", "/v1/completions", "{'prompt':'a'}", "", "unsupported", "/v1/embeddings" },
        { "tiny-qwen3-rerank", EMBED, "{'input':'a'}", "", "unsupported", "/v1/rerank" },
        { "tiny-qwen3-rerank", RERANK, "{'documents':['a']}", "query", "missing_field", "query" },
        { "tiny-qwen3-rerank", RERANK, "{'query':'a'}", "documents", "missing_field", "documents" },
        { "tiny-qwen3-rerank", RERANK, "{'query':'a','documents':[]}", "documents", "invalid_value", "empty" },
        { "tiny-qwen3-rerank", RERANK, "{'query':'a','documents':[{'txt':'b'}]}", "documents", "invalid_type", "text" },
        { "tiny-qwen3-rerank", RERANK, "{'query':'a','documents':['b'],'top_n':0}", "top_n", "invalid_value", "" },
        { "tiny-qwen3", EMBED, "{'input':'a'}", "", "unsupported", "pooling_type" },
        { "tiny-qwen3", RERANK, "{" PAIRS "}", "", "unsupported", "pooling_type" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (!i || strcmp(cases[i].preset, cases[i - 1].preset) != 0)
            open_model(cases[i].preset, "null", 1, 0);
        json_t *a = call_json(&b, "POST", cases[i].path, cases[i].body, 400);
        const char *param = json_string_value(at(a, "error.param"));
        ck_assert_msg(strcmp(param ? param : "", cases[i].param) == 0, "%s: param %s", cases[i].body, param);
        ck_assert_msg(strcmp(str_at(a, "error.code"), cases[i].code) == 0, "%s: %s", cases[i].body, str_at(a, "error.code"));
        ck_assert_msg(strstr(str_at(a, "error.message"), cases[i].says), "%s: %s", cases[i].body, str_at(a, "error.message"));
        json_decref(a);
        if (i + 1 == ARRAY_LEN(cases) || strcmp(cases[i].preset, cases[i + 1].preset) != 0)
            close_model();
    }
}
END_TEST

/* A query counts with each of its documents: what the prompts would hold is taken from the budget first. */
START_TEST(what_would_take_too_much_memory_is_refused)
{
    enum { N = 1500, QUERY = 20000 };
    char *body = malloc(QUERY + 8 * N + 100), *p = body;
    open_model("tiny-qwen3-rerank", "null", 1, 0);
    p += sprintf(p, "{\"query\":\"");
    memset(p, 'a', QUERY);
    p += QUERY;
    p += sprintf(p, "\",\"documents\":[\"b\"");
    for (int i = 1; i < N; i++)
        p += sprintf(p, ",\"b\"");
    strcpy(p, "]}");
    json_t *a = call_json(&b, "POST", RERANK, body, 413);
    ck_assert_str_eq(str_at(a, "error.code"), "request_too_large");
    json_decref(a);
    free(body);
    close_model();
}
END_TEST

/* Who leaves takes his jobs and his memory with him. */
START_TEST(a_client_may_leave)
{
    struct wait w = WAIT_INIT;
    open_model("tiny-qwen3-embed", "cpu", 1, 4);
    static const char body[] = "{\"input\":[\"a\",\"b c\",\"d e f\",\"g\",\"h\",\"i\",\"j\",\"k\"]}";
    struct api_call c = { .method = "POST", .path = EMBED, .body = body, .n_body = sizeof body - 1, .wake = wait_wake, .user = &w };
    api_end(api_begin(b.api, &c));
    float v[256];
    ck_assert_uint_eq(vector_of("{'input':'a'}", v), 256);
    close_model();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("api_vectors", a_text_has_a_vector_of_length_one, base64_holds_the_same_bits, tokens_are_what_their_text_is,
                     many_texts_have_the_vectors_they_have_alone, ollama_has_its_own_forms,
                     what_is_too_long_is_said_and_cut_only_if_asked, documents_are_ranked, what_is_wrong_is_named,
                     what_would_take_too_much_memory_is_refused, a_client_may_leave);
}
