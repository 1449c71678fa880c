/* No memory: each allocation of a request fails, one at a time. Whatever fails, the answer is either the right one or
 * one error line with status 503, 500 or 429 (a stream that has begun ends with an error event, or breaks off), nothing
 * leaks, and the same request is answered rightly afterwards.
 *
 * A request makes up to some ten thousand allocations; of those beyond the first ones a sample is taken. ALLOC_FULL=1
 * takes all of them (minutes); ALLOC_CASE=n only the n-th request, ALLOC_AT=k only the k-th allocation. */
#include "tests/unit/test_api.h"

#include <stdlib.h>
#include <time.h>

#include "base/ckd.h"
#include "tests/lib/failing_alloc.h"
#include "tests/unit/tiny_model.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define SHORT "'temperature':0,'max_tokens':6"
#define HELLO "'messages':[{'role':'user','content':'Hello there'}]"
#define CITY                                                                                                           \
    "{'type':'object','properties':{'city':{'type':'string','maxLength':4},'days':{'type':'array','maxItems':2,"        \
    "'items':{'type':'integer','minimum':0,'maximum':9}}},'required':['city']}"
#define TOOLS                                                                                                          \
    "'tools':[{'type':'function','function':{'name':'weather','description':'tells','parameters':" CITY "}},"          \
    "{'type':'function','function':{'name':'time','parameters':{'type':'object','properties':{}}}}]"
#define HISTORY                                                                                                        \
    "'messages':[{'role':'system','content':'Short.'},{'role':'user','content':[{'type':'text','text':'When?'}]},"     \
    "{'role':'assistant','content':null,'tool_calls':[{'id':'c1','type':'function','function':{'name':'time',"         \
    "'arguments':'{\\'zone\\':\\'utc\\'}'}}]},{'role':'tool','tool_call_id':'c1','content':'noon'}]"

/* Of every model, as its chat format has it. */
#define OF_ALL                                                                                                         \
    { CHAT, "{" HELLO "," SHORT ",'enable_thinking':false}", 200 },                                                         \
    { CHAT, "{" HELLO "," SHORT ",'stream':true,'stream_options':{'include_usage':true}}", 200 },                           \
    { CHAT, "{" HELLO "," SHORT "," TOOLS "}", 200 },                                                                       \
    { CHAT, "{" HISTORY "," SHORT "," TOOLS "}", 200 },                                                                     \
    { CHAT, "{" HELLO ",'temperature':0,'max_tokens':60,'enable_thinking':false," TOOLS ",'tool_choice':'required'}", 200 },   \
    { CHAT, "{" HELLO ",'temperature':0,'max_tokens':60,'enable_thinking':false," TOOLS ",'stream':true,"              \
            "'tool_choice':{'type':'function','function':{'name':'weather'}}}", 200 }

struct ask {
    const char *path, *body; /* ' stands for ", see quoted() */
    int status;              /* 0: 200                                                 */
};

/* The items of a response that was stored before: it is there, whatever allocation fails. */
static char stored_items[128];
static const struct ask of_qwen3[] = {
    OF_ALL,
    { "/v1/messages", "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':[{'type':'text','text':'a'},"
                      "{'type':'thinking','thinking':'b'},{'type':'tool_use','id':'c','name':'time','input':{}}]},"
                      "{'role':'user','content':[{'type':'tool_result','tool_use_id':'c','content':'noon'}]}],"
                      "'tools':[{'name':'time'}],'temperature':0,'max_tokens':6}", 200 },
    { "/v1/responses", "{'input':[{'role':'user','content':'Hi'},{'type':'function_call','call_id':'c','name':'time',"
                       "'arguments':'{}'},{'type':'function_call_output','call_id':'c','output':'noon'}],"
                       "'tools':[{'type':'function','name':'time'},{'type':'web_search'}],'temperature':0,"
                       "'max_output_tokens':6,'store':false}", 200 },
    { "/api/chat", "{'messages':[{'role':'user','content':'Hi'}],'stream':false,'options':{'temperature':0,'num_predict':6}}", 200 },
    { TEXT, "{'prompt':'Once upon a time',"  SHORT "}", 200 },
    { TEXT, "{'prompt':['Once','a'],'stream':true,'n':2," SHORT "}", 200 },
    { TEXT, "{'prompt':[5,6,7],'logprobs':2,'echo':false," SHORT "}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'logprobs':true,'top_logprobs':3}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'logprobs':true,'top_logprobs':2,'stream':true}", 200 },
    { CHAT, "{" HELLO ",'max_tokens':6,'n':3,'temperature':0.9,'seed':4,'stop':['zz','qq'],'repeat_penalty':1.1,"
            "'frequency_penalty':0.2,'dry_multiplier':0.5,'logit_bias':{'5':-100,'9':1}}", 200 },
    { CHAT, "{" HELLO ",'max_tokens':6,'temperature':1,'seed':9,'top_k':0,'typical_p':0.9,'xtc_probability':0.3,"
            "'min_p':0.01,'enable_thinking':true,'thinking_budget':2}", 200 },
    { CHAT, "{" HELLO ",'temperature':0,'max_tokens':40,'enable_thinking':false,'response_format':{'type':'json_schema',"
            "'json_schema':{'name':'c','strict':true,'schema':" CITY "}}}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'enable_thinking':false,'stream':true,'response_format':{'type':'json_object'}}", 200 },
    { TEXT, "{'prompt':'x','temperature':0,'max_tokens':8,'grammar':'#0000000\\nroot ::= [a-c]{2,4} (num | \\'x\\')*\\n"
            "num ::= [0-9]+'}", 200 },
    { TEXT, "{'prompt':'x'," SHORT ",'json_schema':{'anyOf':[{'const':{'a':1}},{'type':'string','pattern':'^a[0-9]+$'},"
            "{'$ref':'#/$defs/d'}],'$defs':{'d':{'type':'string','format':'date'}}}}", 200 },
    { "/tokenize", "{'content':'Hello w\\u00f6rld <|im_end|>','with_pieces':true,'add_special':true}", 200 },
    { "/tokenize", "{'content':'a'}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'seed':123456789012345678901234567890}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'guided_choice':['abc','de f'],'enable_thinking':false}", 200 },
    { CHAT, "{" HELLO "," SHORT ",'guided_json':'{\\'type\\':\\'integer\\'}','enable_thinking':false}", 200 },
    { CHAT, "{'messages':[{'role':'user','content':'Go on'},{'role':'assistant','content':'I am'}],"
            "'continue_final_message':true,'add_generation_prompt':false," SHORT "}", 200 },
    { "/detokenize", "{'tokens':[5,6,70]}", 200 },
    { "/v1/models", NULL, 200 },
    { "/v1/models/nothing", NULL, 404 },
    { stored_items, NULL, 200 },
    { "/v1/embeddings", "{'input':'a'}", 400 },
    { CHAT, "{" HELLO ",'temperature':'hot'}", 400 },
    { CHAT, "{" HELLO, 400 },
    { TEXT, "{'prompt':'x','grammar':'root ::= ('}", 400 },
    { CHAT, "{" HELLO "," SHORT ",'response_format':{'type':'json_schema','json_schema':{'schema':{'type':'none'}}}}", 400 },
};
static const struct ask of_others[] = { OF_ALL };

static const struct ask of_vectors[] = {
    { "/v1/embeddings", "{'input':['Hello','there',[5,6,7]],'dimensions':5}", 200 },
    { "/v1/embeddings", "{'input':'Hello','encoding_format':'base64'}", 200 },
    { "/api/embed", "{'input':['Hello there'],'dimensions':3,'truncate':true}", 200 },
    { CHAT, "{" HELLO "}", 400 },
};
static const struct ask of_ranks[] = {
    { "/v1/rerank", "{'query':'Hello','documents':['there',{'text':'<|im_end|>'}],'return_documents':true}", 200 },
    { "/v1/rerank", "{'query':'Hello','texts':['there','a','b']}", 200 },
};

static const struct model {
    const char *preset;
    const struct ask *ask;
    size_t n;
    uint64_t cache_bytes;
} models[] = {
    { "tiny-qwen3", of_qwen3, sizeof of_qwen3 / sizeof *of_qwen3, 0 },
    { "tiny-qwen35", of_others, sizeof of_others / sizeof *of_others, 1 << 20 },
    { "tiny-qwen3-embed", of_vectors, sizeof of_vectors / sizeof *of_vectors, 0 },
    { "tiny-qwen3-rerank", of_ranks, sizeof of_ranks / sizeof *of_ranks, 1 << 20 },
    { "tiny-gpt-oss", of_others, sizeof of_others / sizeof *of_others, 0 },
    { "tiny-gemma4", of_others, sizeof of_others / sizeof *of_others, 0 },
};

/* ---- an exchange that allocates nothing itself ---- */

static struct api_bench b;
static struct got {
    int status; /* 0: there was no exchange */
    bool streams, cut;       /* cut: it says itself that it breaks off */
    size_t n;
    char text[1 << 20];
} got;

static bool sleep_until_woken(struct wait *w)
{
    struct timespec t;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += 60;
    pthread_mutex_lock(&w->lock);
    while (!w->woken && rc == 0)
        rc = pthread_cond_timedwait(&w->cond, &w->lock, &t);
    w->woken = false;
    pthread_mutex_unlock(&w->lock);
    return rc == 0;
}

/* A grammar with a number in its comment is compiled each time. */
static void renumber(char *body)
{
    static unsigned count;
    char *at = body ? strstr(body, "#0") : NULL, digits[8];
    if (at)
        memcpy(at + 2, digits, (size_t)snprintf(digits, sizeof digits, "%06u", ++count % 1000000));
}

/* False: nothing came for a minute. */
static bool exchange(const struct ask *a, char *body)
{
    renumber(body);
    struct wait w = WAIT_INIT;
    struct api_call c = { .method = body ? "POST" : "GET", .path = a->path, .body = body ? body : "",
                          .n_body = body ? strlen(body) : 0, .id = "r", .wake = wait_wake, .user = &w };
    struct api_exchange *x = api_begin(b.api, &c);
    bool alive = true;
    ssize_t n = 0;
    got.status = 0;
    got.streams = false;
    got.n = 0;
    while (x && alive && !(got.status = api_status(x)))
        alive = sleep_until_woken(&w);
    while (x && alive && (n = api_read(x, got.text + got.n, sizeof got.text - 1 - got.n)) >= 0) {
        got.n += (size_t)n;
        if (n == 0)
            alive = sleep_until_woken(&w);
    }
    got.cut = n == API_CUT;
    got.streams = x && api_streams(x);
    got.text[got.n] = 0;
    api_end(x);
    return alive;
}

/* ---- what an answer says, without times, ids and how it was cut into events ---- */

static void scrub(json_t *v)
{
    static const char *const volatile_fields[] = { "id", "created", "timings", "prompt_tokens_details", "created_at",
                                                  "input_tokens", "cache_read_input_tokens", "input_tokens_details",
                                                  "total_duration", "prompt_eval_duration", "eval_duration" };
    const char *key;
    json_t *item;
    size_t i;
    for (i = 0; i < sizeof volatile_fields / sizeof *volatile_fields; i++)
        json_object_del(v, volatile_fields[i]);
    json_object_foreach(v, key, item)
        scrub(item);
    json_array_foreach(v, i, item)
        scrub(item);
}

/* Strings of a delta are appended to what the choice said before. */
static void add_delta(json_t *all, const char *name, const json_t *v)
{
    const char *key;
    json_t *item;
    size_t i;
    char path[200];
    if (json_is_string(v)) {
        json_t *was = json_object_get(all, name);
        size_t n = json_string_length(was), more = json_string_length(v);
        char *both = malloc(n + more + 1); /* texts may hold NULs */
        memcpy(both, was ? json_string_value(was) : "", n);
        memcpy(both + n, json_string_value(v), more);
        json_object_set_new(all, name, json_stringn(both, n + more));
        free(both);
    }
    json_object_foreach((json_t *)v, key, item)
    {
        snprintf(path, sizeof path, "%s.%s", name, key);
        add_delta(all, path, item);
    }
    json_array_foreach((json_t *)v, i, item)
    {
        json_t *index = json_object_get(item, "index");
        snprintf(path, sizeof path, "%s.%d", name, index ? (int)json_integer_value(index) : 0);
        add_delta(all, path, item);
    }
}

enum how { WHOLE, BROKEN_OFF, FAILED, NONSENSE };

/* *said: the answer's content; NONSENSE: it is not what the API writes. */
static enum how read_answer(char *text, bool streams, json_t **said)
{
    json_t *v;
    bool error;
    enum how how = BROKEN_OFF;
    *said = NULL;
    if (!streams) {
        if (!(v = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)))
            return NONSENSE;
        scrub(v);
        *said = v;
        error = json_object_get(v, "error") && !json_is_null(json_object_get(v, "error")); /* a response has it always */
        return error ? FAILED : WHOLE;
    }
    *said = json_object();
    char *save = NULL;
    bool whole_line = strlen(text) >= 2 && strcmp(text + strlen(text) - 2, "\n\n") == 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        bool last = save == NULL || *save == 0;
        if (how != BROKEN_OFF)
            return NONSENSE; /* after the end */
        if (strcmp(line, "data: [DONE]") == 0) {
            how = WHOLE;
            continue;
        }
        v = strncmp(line, "data: ", 6) == 0 ? json_loads(line + 6, JSON_ALLOW_NUL, NULL) : NULL;
        if (!v)
            return last && !whole_line ? BROKEN_OFF : NONSENSE;
        scrub(v);
        if (json_object_get(v, "error"))
            how = FAILED;
        else
            add_delta(*said, "", at(v, "choices"));
        if (json_is_object(json_object_get(v, "usage")))
            json_object_set(*said, "usage", json_object_get(v, "usage"));
        json_decref(v);
    }
    return how;
}

/* Is what was said a beginning of what should be? */
static bool begins(const json_t *said, json_t *want)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)said, key, v)
    {
        json_t *w = json_object_get(want, key);
        if (!w || (json_is_string(v) && (json_string_length(v) > json_string_length(w) ||
                                         memcmp(json_string_value(v), json_string_value(w), json_string_length(v)))))
            return false;
    }
    return true;
}

/* ---- one allocation ---- */

static long n_tried, n_failed_well, n_right;

/* NULL: as it should be. */
static const char *judge(const struct ask *a, json_t *want, enum fail_mode mode)
{
    json_t *said = NULL;
    static char why[400];
    const char *r = NULL;
    int status = a->status;
    if (got.status == 0 || (got.cut && !got.streams) || (got.status == 503 && got.n == 0 && !got.streams)) {
        n_failed_well++; /* not even memory for a line, or for the rest of it */
        return NULL;
    }
    enum how how = read_answer(got.text, got.streams, &said);
    if (how == NONSENSE)
        r = "is not what the API writes";
    else if (how == WHOLE || got.status == status)
        r = how != WHOLE && got.status == 200 ? (begins(said, want) ? NULL : "does not begin like the right one")
            : json_equal(said, want)          ? NULL
                                              : "is another one";
    else if (got.status != 503 && got.status != 500 && got.status != 429)
        r = "is an error that blames the client";
    else if (mode == FAIL_ONCE && json_string_length(json_is_object(at(said, "error")) ? at(said, "error.message") : at(said, "error")) < 8)
        r = "has no line";
    n_right += !r && (how == WHOLE || got.status == status);
    n_failed_well += !r && how != WHOLE && got.status != status;
    if (r) {
        char *s = json_dumps(said, JSON_COMPACT | JSON_SORT_KEYS), *t = json_dumps(want, JSON_COMPACT | JSON_SORT_KEYS);
        snprintf(why, sizeof why, "%s: status %d: %.150s\n  instead of %.150s", r, got.status, s ? s : got.text, t);
        free(s);
        free(t);
        r = why;
    }
    json_decref(said);
    return r;
}

/* Nothing runs any more, and no more blocks are there than before. */
static bool rests(long live)
{
    for (int i = 0; i < 200; i++) {
        struct sched_stats st = sched_stats(b.sched);
        if (!st.running && !st.waiting && (FAIL_WRAPPED || live < 0 || fail_live() <= live))
            return true;
        usleep(i < 20 ? 50 : 1000);
    }
    return false;
}

/* The k-th allocation fails, then the same is asked with memory. NULL: all is well. */
static const char *try_both(const struct ask *a, char *body, json_t *want, long k, enum fail_mode mode)
{
    fail_arm(k, mode);
    bool alive = exchange(a, body);
    fail_disarm();
    n_tried++;
    ck_assert_msg(alive, "%s: allocation %ld: a request hangs: %s", a->path, k, body);
    const char *why = judge(a, want, mode);
    if (why)
        return why;
    if (!rests(-1))
        return "the scheduler does not come to rest";
    ck_assert_msg(exchange(a, body), "%s: allocation %ld: a request hangs afterwards: %s", a->path, k, body);
    if (got.status != a->status)
        return "fails afterwards";
    json_t *said = NULL;
    bool same = read_answer(got.text, got.streams, &said) != NONSENSE && json_equal(said, want);
    if (!same) {
        char *s = json_dumps(said, JSON_COMPACT | JSON_SORT_KEYS), *t = json_dumps(want, JSON_COMPACT | JSON_SORT_KEYS);
        fprintf(stderr, "  %.900s\n  instead of %.900s\n", s, t);
        free(s);
        free(t);
    }
    json_decref(said);
    return same ? NULL : "another answer afterwards";
}

/* *live: blocks that are there between requests at most. What caches hold goes up and down a little; what leaks goes
 * up with each try. */
static bool try_one(const struct model *m, size_t i, char *body, json_t *want, long k, enum fail_mode mode,
                    long *live)
{
    const char *why = try_both(&m->ask[i], body, want, k, mode);
    long before = *live;
    if (!why && !rests(*live)) {
        for (int again = 0; !why && again < 3; again++) {
            long now = fail_live();
            why = try_both(&m->ask[i], body, want, k, mode);
            if (!why && (rests(now) || m->cache_bytes))
                break;
            if (again == 2)
                why = "blocks of memory leak";
        }
        *live = MAX(*live, fail_live());
    }
    if (why) {
        fprintf(stderr, "%s, request %zu, allocation %ld%s: %s (%ld blocks, %ld before)\n  %s\n", m->preset, i, k,
                mode == FAIL_ONCE ? "" : " and all after it", why, fail_live(), before, body ? body : m->ask[i].path);
        fail_tell();
    }
    return !why;
}

/* ---- all of them ---- */

static long env_long(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s ? atol(s) : otherwise;
}

/* How many were wrong. */
static long try_all(const struct model *m, size_t i, long samples)
{
    const struct ask *a = &m->ask[i];
    char *body = a->body ? quoted(a->body) : NULL;
    json_t *want = NULL, *again = NULL;
    long wrong = 0, live = 0, n = 0, only = env_long("ALLOC_AT", 0);
    for (int round = 0; round < 80; round++) { /* until caches hold what they are going to hold */
        ck_assert(rests(-1));
        json_decref(want);
        fail_arm(1L << 60, FAIL_ONCE);
        ck_assert(exchange(a, body));
        fail_disarm();
        n = fail_count();
        ck_assert_msg(got.status == a->status, "%s: status %d: %.300s", a->path, got.status, got.text);
        ck_assert_int_ne(read_answer(got.text, got.streams, &want), NONSENSE);
    }
    json_decref(again);
    ck_assert(rests(-1));
    usleep(1000);
    live = fail_live();
    long step = samples && n > samples ? n / samples : 1;
    for (long k = only ? only : 1; k <= (only ? only : n + 2); k += k < 40 || only ? 1 : step)
        wrong += !try_one(m, i, body, want, k, FAIL_ONCE, &live);
    for (long k = only ? only : 1; k <= (only ? only : n + 2); k += only ? 1 : MAX(step, samples ? n / 20 : 1))
        wrong += !try_one(m, i, body, want, k, FAIL_FROM_THERE_ON, &live);
    json_decref(want);
    free(body);
    return wrong;
}

static void store_a_response(void)
{
    static const struct ask a = { "/v1/responses", "{'input':'Hi','max_output_tokens':4,'temperature':0}", 200 };
    char *body = quoted(a.body);
    ck_assert(exchange(&a, body));
    json_t *r = json_loads(got.text, 0, NULL);
    const char *id = json_string_value(json_object_get(r, "id"));
    ck_assert_msg(id != NULL, "%s", got.text);
    snprintf(stored_items, sizeof stored_items, "/v1/responses/%s/input_items", id);
    json_decref(r);
    free(body);
}

START_TEST(each_allocation_fails)
{
    const struct model *m = &models[_i];
    char path[] = "/tmp/zinc-alloc-XXXXXX";
    struct sched_opts so = { .kv.host_bytes = m->cache_bytes };
    long wrong = 0, only = env_long("ALLOC_CASE", -1);
    tiny_model(path, m->preset);
    bench_open(&b, path, "null", 4, &so, NULL);
    for (size_t i = 0; i < m->n; i++)
        if (only < 0 || only == (long)i) {
            if (m->ask[i].path == stored_items)
                store_a_response();
            wrong += try_all(m, i, env_long("ALLOC_FULL", 0) ? 0 : FAIL_WRAPPED ? 20 : 60);
        }
    bench_close(&b);
    unlink(path);
    printf("%s: %ld failures of an allocation tried, %ld right answers, %ld errors\n", m->preset, n_tried, n_right,
           n_failed_well);
    ck_assert_int_gt(n_right, 0);
    ck_assert_msg(wrong == 0, "%ld wrong", wrong);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    setenv("ZINC_NULL_HISTORY", "1", 1);
    Suite *s = suite_create("alloc_request");
    TCase *t = tcase_create("alloc_request");
    tcase_set_timeout(t, 3600);
    tcase_add_loop_test(t, each_allocation_fails, 0, (int)(sizeof models / sizeof *models));
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK); /* the scheduler has a thread */
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
