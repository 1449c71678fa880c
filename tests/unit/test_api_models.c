/* The API over models of random weights: whatever bytes they say, what comes out is JSON in UTF-8, and a stream says
 * the same as a whole answer. On the null tier too, with many exchanges at the same time. */
#include "tests/unit/test_api.h"

#include <stdlib.h>

#include "server/api_logprobs.h"
#include "tests/unit/tiny_model.h"

static const char *const presets[] = { "tiny-qwen3", "tiny-llama3", "tiny-gemma3", "tiny-gpt-oss", "tiny-qwen35moe" };

static struct api_bench b;
static char path[64];

static void open_model(const char *preset, const char *tier, uint32_t n_slots)
{
    snprintf(path, sizeof path, "/tmp/zinc-api-XXXXXX");
    tiny_model(path, preset);
    struct api_opts o = { .sampling = sampler_defaults(), .think = -1, .think_budget = -1,
                          .model_name = "a \"model\"" };
    bench_open(&b, path, tier, n_slots, NULL, &o);
}

static void close_model(void)
{
    bench_close(&b);
    unlink(path);
}

/* All bytes of the tokens joined give the text, where it is UTF-8. */
static void check_logprobs(json_t *choice)
{
    size_t i, k, n = 0;
    json_t *t, *byte, *content = at(choice, "message.content");
    static char joined[1 << 16];
    json_array_foreach(at(choice, "logprobs.content"), i, t)
    {
        ck_assert_uint_eq(json_array_size(at(t, "top_logprobs")), 1);
        json_array_foreach(at(t, "bytes"), k, byte)
            joined[n++] = (char)json_integer_value(byte);
    }
    if (!memmem(json_string_value(content), json_string_length(content), "\xef\xbf\xbd", 3))
        ck_assert_ptr_nonnull(memmem(joined, n, json_string_value(content), json_string_length(content)));
}

static void same_part(json_t *whole, json_t *events, int i, const char *part)
{
    char in_whole[64], in_event[64];
    snprintf(in_whole, sizeof in_whole, "choices.%d.message.%s", i, part);
    snprintf(in_event, sizeof in_event, "delta.%s", part);
    char *a = join_events(events, i, in_event), *w = text_of(at(whole, in_whole));
    ck_assert_str_eq(a, w);
    free(a);
    free(w);
}

static void ask(const char *more)
{
    char body[512];
    snprintf(body, sizeof body, "{'messages':[{'role':'user','content':'\\u00e9\\ud83d\\ude42 x'}],'n':2,'seed':9,%s}",
             more);
    json_t *whole = call_json(&b, "POST", "/v1/chat/completions", body, 200);
    ck_assert_str_eq(str_at(whole, "model"), "a \"model\"");
    snprintf(body + strlen(body) - 1, 64, ",'stream':true}");
    json_t *events = call_events(&b, "/v1/chat/completions", body, 777);
    for (int i = 0; i < 2; i++) {
        char where[64];
        same_part(whole, events, i, "content");
        same_part(whole, events, i, "reasoning_content");
        snprintf(where, sizeof where, "choices.%d", i);
        if (strstr(more, "logprobs"))
            check_logprobs(at(whole, where));
    }
    json_decref(events);
    json_decref(whole);
}

START_TEST(any_family_says_anything)
{
    open_model(presets[_i], "cpu", 2);
    ask("'temperature':4,'max_tokens':80,'min_p':0,'top_p':1,'top_k':0");
    ask("'temperature':2,'max_tokens':40,'min_p':0,'logprobs':true,'top_logprobs':1");
    ask("'temperature':0,'max_tokens':30,'stop':['a','e']");
    json_t *v = call_json(&b, "POST", "/v1/completions",
                          "{'prompt':'x','temperature':4,'min_p':0,'max_tokens':60,'logprobs':5}", 200);
    ck_assert_uint_gt(json_array_size(at(v, "choices.0.logprobs.tokens")), 0);
    json_decref(v);
    close_model();
}
END_TEST

START_TEST(any_family_on_the_null_tier)
{
    open_model(presets[_i], "null", 2);
    ask("'temperature':0,'max_tokens':80,'logprobs':true,'top_logprobs':1");
    ask("'temperature':0,'max_tokens':30,'stop':['a','e']");
    close_model();
}
END_TEST

/* What the null tier says is a function of tokens and positions: an exchange among many says what it says alone. */
static void *client(void *user)
{
    char body[256], *want = NULL;
    for (int i = 0; i < 20; i++) {
        snprintf(body, sizeof body, "{'prompt':[%d,2,3],'max_tokens':%d,'temperature':0,'stream':%s}", *(int *)user, 40,
                 i % 2 ? "true" : "false");
        struct reply_got r = call(&b, "POST", "/v1/completions", body);
        ck_assert_msg(r.status == 200, "%d: %s", r.status, r.text);
        json_t *v = i % 2 ? events_of(r.text) : json_loads(r.text, JSON_ALLOW_NUL, NULL);
        char *text = i % 2 ? join_events(v, 0, "text") : text_of(at(v, "choices.0.text"));
        if (want)
            ck_assert_str_eq(text, want);
        else
            want = strdup(text);
        free(text);
        free(r.text);
        json_decref(v);
    }
    free(want);
    return NULL;
}

START_TEST(many_at_once)
{
    enum { CLIENTS = 8 };
    pthread_t thread[CLIENTS];
    int id[CLIENTS];
    open_model("tiny-qwen3", "null", 4);
    for (int i = 0; i < CLIENTS; i++) {
        id[i] = 10 + i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, client, &id[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(thread[i], NULL);
    close_model();
}
END_TEST

/* The token that is this byte alone. */
static int32_t byte_token(char byte)
{
    uint32_t n_vocab = engine_info(b.eng)->n_vocab;
    for (int32_t id = 0; id < (int32_t)n_vocab; id++) {
        char *s;
        size_t n;
        ck_assert_int_eq(engine_decode(b.eng, &id, 1, ENGINE_SHOW_SPECIAL, &s, &n, NULL), 0);
        bool yes = n == 1 && s[0] == byte;
        free(s);
        if (yes)
            return id;
    }
    ck_abort_msg("no token is the byte %02x", (unsigned char)byte);
}

/* text_offset of two tokens that are broken bytes, their texts told after each of them, or together after both. */
static char *offsets_of(const struct sched_token t[2], bool together)
{
    static const char replaced[] = "\xef\xbf\xbd\xef\xbf\xbd";
    struct api_logprobs l;
    struct out o = { 0 };
    api_logprobs_init(&l, b.eng, 0, true);
    for (int i = 0; i < 2; i++) {
        api_logprobs_token(&l, &t[i]);
        if (!together)
            api_logprobs_text(&l, replaced, 3, false);
    }
    if (together)
        api_logprobs_text(&l, replaced, 6, false);
    api_logprobs_write(&l, &o);
    api_logprobs_finish(&l);
    char *s = strndup(o.s, o.n);
    out_finish(&o);
    return s;
}

START_TEST(offsets_do_not_depend_on_when_text_is_taken)
{
    static const char bytes[][2] = { { '\xa7', '\xc0' }, { '\xff', '\x80' }, { '\xc3', '\xf5' } };
    open_model("tiny-qwen3", "null", 1);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        struct sched_token t[2] = { { .id = byte_token(bytes[i][0]) }, { .id = byte_token(bytes[i][1]) } };
        char *apart = offsets_of(t, false), *together = offsets_of(t, true);
        ck_assert_msg(strstr(apart, "\"text_offset\":[0,1]") != NULL, "%s", apart);
        ck_assert_str_eq(apart, together);
        free(apart);
        free(together);
    }
    close_model();
}
END_TEST

static void asks_for(const char *path_, const char *more, const char *model, int status)
{
    char body[512];
    snprintf(body, sizeof body, "{'model':'%s','max_tokens':2,'stream':false,%s}", model, more);
    struct reply_got r = call(&b, "POST", path_, body);
    ck_assert_msg(r.status == status, "%s, %s: %d in the place of %d: %s", path_, model, r.status, status, r.text);
    if (status == 404)
        ck_assert_msg(strstr(r.text, model) && strstr(r.text, "served-1"), "%s", r.text);
    free(r.text);
}

/* By all dialects; strict: 404 for what is none of its names. */
START_TEST(a_model_has_names)
{
    static const char *const aliases[] = { "second", "claude-*" };
    static const char chat[] = "'messages':[{'role':'user','content':'x'}]";
    static const struct {
        const char *path, *more;
    } ask[] = { { "/v1/chat/completions", chat },      { "/v1/completions", "'prompt':'x'" },
                { "/v1/messages", chat },              { "/v1/messages/count_tokens", chat },
                { "/v1/responses", "'input':'x'" },    { "/api/chat", chat },
                { "/api/generate", "'prompt':'x'" } };
    bool strict = _i;
    snprintf(path, sizeof path, "/tmp/zinc-api-XXXXXX");
    tiny_model(path, "tiny-qwen3");
    struct api_opts o = { .sampling = sampler_defaults(), .think = -1, .think_budget = -1, .model_name = "served-1",
                          .aliases = aliases, .n_aliases = 2, .strict_model = strict };
    bench_open(&b, path, "null", 2, NULL, &o);
    for (size_t i = 0; i < sizeof ask / sizeof *ask; i++) {
        static const char *const own[] = { "served-1", "served-1:latest", "second", "claude-", "claude-x/y", "" };
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            asks_for(ask[i].path, ask[i].more, own[k], 200);
        asks_for(ask[i].path, ask[i].more, "served-10", strict ? 404 : 200);
        asks_for(ask[i].path, ask[i].more, "a-claude-", strict ? 404 : 200);
    }
    json_t *v = call_json(&b, "GET", "/v1/models", "", 200);
    ck_assert_uint_eq(json_array_size(at(v, "data")), 2);
    ck_assert_str_eq(str_at(v, "data.0.id"), "served-1");
    ck_assert_str_eq(str_at(v, "data.1.id"), "second");
    json_decref(v);
    v = call_json(&b, "GET", "/v1/models/second", "", 200);
    ck_assert_str_eq(str_at(v, "id"), "second");
    json_decref(v);
    json_decref(call_json(&b, "GET", "/v1/models/third", "", 404));
    close_model();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("api_models");
    TCase *t = tcase_create("api_models");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, any_family_says_anything, 0, (int)(sizeof presets / sizeof *presets));
    tcase_add_loop_test(t, a_model_has_names, 0, 2);
    tcase_add_loop_test(t, any_family_on_the_null_tier, 0, (int)(sizeof presets / sizeof *presets));
    tcase_add_test(t, many_at_once);
    tcase_add_test(t, offsets_do_not_depend_on_when_text_is_taken);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_set_fork_status(sr, CK_NOFORK); /* the scheduler has a thread */
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
