/* What an API's exchanges hold is bounded: by the budget's counter, whatever is asked and however much of it is read. */
#include "tests/unit/test_api.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/run.h"

static struct api_bench b;

static void open_with(uint64_t limit)
{
    struct api_opts o = { .sampling = sampler_defaults(), .think = -1, .think_budget = -1, .max_tokens = 8,
                          .budget = budget_create(limit) };
    bench_open(&b, DEMO, "null", 2, NULL, &o);
}

static uint64_t used(void)
{
    return budget_stats(b.budget).used;
}

static struct api_exchange *begin(const char *path, const char *body, size_t n, struct wait *w)
{
    struct api_call c = { .method = "POST", .path = path, .body = body, .n_body = n, .wake = wait_wake, .user = w };
    struct api_exchange *x = api_begin(b.api, &c);
    ck_assert_ptr_nonnull(x);
    return x;
}

/* {"content":"<n bytes>", more} */
static char *content(size_t n, const char *more)
{
    char *s = malloc(n + 64 + strlen(more));
    int k = sprintf(s, "{\"content\":\"");
    for (size_t i = 0; i < n; i++)
        s[k++] = "0123456789,;:.+-"[i * 7 % 16];
    sprintf(s + k, "\"%s}", more);
    return s;
}

enum { READERS = 12, TEXT = 1 << 20 };

START_TEST(unread_answers_of_tokenize_are_not_held)
{
    struct wait w = WAIT_INIT;
    struct api_exchange *x[READERS];
    char *body = content(TEXT, ",\"with_pieces\":true");
    open_with(128u << 20);
    for (int i = 0; i < READERS; i++) {
        x[i] = begin("/tokenize", body, strlen(body), &w);
        ck_assert_int_eq(api_status(x[i]), 200);
        if (i)
            ck_assert_int_eq((int)api_read(x[i], (char[100]){ 0 }, 100), 100);
    }
    ck_assert_uint_lt(used(), READERS * (sizeof(int32_t) * (uint64_t)TEXT + 65536)); /* ids, and one part */
    for (int i = 1; i < READERS; i++)
        api_end(x[i]);
    struct reply_got r = { .text = malloc(100 * TEXT) };
    for (ssize_t n = 1; n > 0; r.n += n > 0 ? (size_t)n : 0)
        n = api_read(x[0], r.text + r.n, 100 * TEXT - r.n);
    ck_assert_uint_gt(r.n, 10 * TEXT);
    r.text[r.n] = 0;
    char *count = strstr(r.text + r.n - 40, "],\"count\":");
    ck_assert_ptr_nonnull(count);
    unsigned n_ids = 0;
    for (size_t i = 0; i + 6 <= r.n; i++) /* strstr would look at all of the rest each time, under sanitizers */
        n_ids += r.text[i] == '{' && memcmp(r.text + i, "{\"id\":", 6) == 0;
    ck_assert_int_eq(atoi(count + 10), (int)n_ids);
    api_end(x[0]);
    free(r.text);
    free(body);
    bench_close(&b);
}
END_TEST

static void refused(struct api_exchange *x, int status, bool later)
{
    ck_assert_int_eq(api_status(x), status);
    ck_assert_int_eq(api_retry_after(x) > 0, later);
    char text[1000];
    ssize_t n = api_read(x, text, sizeof text - 1);
    ck_assert_int_gt((int)n, 0);
    text[n] = 0;
    ck_assert_msg(strstr(text, "--max-memory"), "%s", text);
    api_end(x);
}

START_TEST(heavy_requests_are_refused_before_they_are_parsed)
{
    struct wait w = WAIT_INIT;
    char *heavy = malloc(300000);
    int n = sprintf(heavy, "{\"messages\":[{}");
    for (int i = 0; i < 90000; i++)
        n += sprintf(heavy + n, ",{}");
    n += sprintf(heavy + n, "]}");
    open_with(16u << 20);
    refused(begin("/v1/chat/completions", heavy, (size_t)n, &w), 413, false);
    ck_assert_uint_eq(used(), 0);
    char *ids = malloc(4000000), *most = content(1, "");
    int k = sprintf(ids, "{\"tokens\":[1");
    for (int i = 0; i < 100000; i++)
        k += sprintf(ids + k, ",1");
    k += sprintf(ids + k, "]}");
    ck_assert_int_eq(budget_take(b.budget, (16u << 20) - 1000), 0);
    refused(begin("/detokenize", ids, (size_t)k, &w), 429, true);
    budget_give(b.budget, (16u << 20) - 1000);
    struct api_exchange *x = begin("/detokenize", ids, (size_t)k, &w);
    ck_assert_int_eq(api_status(x), 200);
    api_end(x);
    free(heavy);
    free(ids);
    free(most);
    bench_close(&b);
}
END_TEST

/* Different grammars, kept one after the other; then a request for which they must go. */
START_TEST(kept_grammars_make_room)
{
    char body[400];
    struct wait w = WAIT_INIT;
    uint64_t limit = 3u << 20, kept = 0;
    open_with(limit);
    for (int i = 0; i < 80; i++) {
        snprintf(body, sizeof body, "{'prompt':'x','max_tokens':2,'grammar':'root ::= [a-z]{%d} [0-9] [^x] \\\"%d\\\"'}", i + 1, i);
        struct reply_got r = call(&b, "POST", "/v1/completions", body);
        ck_assert_msg(r.status == 200, "%d: %s", r.status, r.text);
        free(r.text);
        ck_assert_uint_le(used(), limit);
        kept = used() > kept ? used() : kept;
    }
    ck_assert_uint_gt(kept, 0);
    ck_assert_uint_le(used(), limit / 4); /* none runs, and what is kept has a share */
    ck_assert_int_eq(budget_take(b.budget, limit), 0);
    ck_assert_uint_eq(used(), limit);
    budget_give(b.budget, limit);
    struct api_exchange *x = begin("/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}", 29, &w);
    while (!api_status(x))
        wait_for(&w);
    ck_assert_int_eq(api_status(x), 200);
    api_end(x);
    bench_close(&b);
}
END_TEST

/* Of many requests at once, some fit. What did not fit is told so, and all comes back: bench_close looks. */
START_TEST(a_storm_leaves_nothing)
{
    enum { N = 48 };
    static const char *const paths[] = { "/tokenize", "/detokenize", "/v1/completions", "/v1/chat/completions" };
    struct api_exchange *x[N];
    static struct wait w[N];
    char *big = content(20000, ""), chat[30000], more[30000];
    open_with(4u << 20);
    snprintf(chat, sizeof chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true,\"top_logprobs\":9,\"n\":2,"
             "\"response_format\":{\"type\":\"json_object\"}}");
    snprintf(more, sizeof more, "{\"prompt\":\"x\",\"max_tokens\":30,\"logprobs\":5,\"stream\":true,\"user\":\"%.20000s\"}", big + 12);
    int told[600] = { 0 };
    for (int i = 0; i < N; i++) {
        const char *body = i % 4 == 0 ? big : i % 4 == 1 ? "{\"tokens\":[1,2,3]}" : i % 4 == 2 ? more : chat;
        w[i] = (struct wait)WAIT_INIT;
        x[i] = begin(paths[i % 4], body, strlen(body), &w[i]);
        ck_assert_uint_le(used(), 4u << 20);
    }
    for (int i = 0; i < N; i++) {
        char some[2000];
        for (int k = 0; k < i % 7; k++) { /* some read all, some a little, some leave at once */
            while (!api_status(x[i]))
                wait_for(&w[i]);
            if (api_read(x[i], some, sizeof some) < 0)
                break;
        }
        told[api_status(x[i])]++;
        api_end(x[i]);
    }
    ck_assert_int_gt(told[200], 0);
    ck_assert_int_gt(told[429], 0);
    free(big);
    bench_close(&b);
}
END_TEST

int main(void)
{
    return RUN_TESTS("api_memory", unread_answers_of_tokenize_are_not_held,
                     heavy_requests_are_refused_before_they_are_parsed, kept_grammars_make_room, a_storm_leaves_nothing);
}
