/* How loadgen reads answers: in pieces of every size the same, and what is no answer is noticed. */
#include <check.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/loadgen/mix.c" /* for its bytes_put */
#include "tools/loadgen/response.c"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: "
#define USAGE "\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}"

static void feed(struct response *r, const char *s, size_t piece)
{
    size_t n = strlen(s);
    response_begin(r);
    for (size_t i = 0; i < n; i += piece)
        response_feed(r, s + i, n - i < piece ? n - i : piece);
}

static void text_is(const struct response *r, const char *want)
{
    ck_assert_uint_eq(r->text[0].n, strlen(want));
    ck_assert(memcmp(r->text[0].p, want, strlen(want)) == 0);
}

START_TEST(streams_in_pieces_of_every_size)
{
    static const char s[] = HEAD "text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3c\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\xc3\xa9l\"}}]}\n\n\r\n"
        "50\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\r\n"
        "75\r\n\ndata: {\"choices\":[]," USAGE "}\n\n\r\n"
        "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    struct response r = { 0 };
    for (size_t piece = 1; piece < sizeof s; piece++) {
        feed(&r, s, piece);
        ck_assert_msg(r.done && r.finished && !r.broken, "pieces of %zu: %s", piece, r.error);
        text_is(&r, "h\xc3\xa9llo");
        ck_assert_str_eq(r.finish[0], "stop");
        ck_assert_uint_eq(r.n_events, 3);
        ck_assert_int_eq(r.completion_tokens, 3);
        ck_assert_int_eq(r.cached_tokens, 4);
        ck_assert(r.keep_alive);
    }
    response_free(&r);
}
END_TEST

static void whole(struct response *r, const char *type, const char *body)
{
    char s[1024];
    snprintf(s, sizeof s, HEAD "%s\r\nContent-Length: %zu\r\n\r\n%s", type, strlen(body), body);
    feed(r, s, 7);
    ck_assert_msg(r->done && r->finished && !r->broken, "%s", r->error);
}

/* Calls, probabilities and tokens are compared too: the same from a stream as from a whole answer. */
START_TEST(beside_the_text)
{
    static const char *const call =
        "{\"choices\":[{\"index\":0,\"message\":{\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{1}\"}},{\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":"
        "-0.5,\"top_logprobs\":[{\"token\":\"b\",\"logprob\":-1}]}]}}]}";
    static const char *const events =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}}]}"
        "\n\ndata: [DONE]\n\n";
    struct response r = { 0 };
    whole(&r, "application/json", call);
    ck_assert_str_eq(r.text[MAX_CHOICES].p, "\nf{1}\ng{}a-0.5 b-1 ");
    ck_assert_uint_eq(r.text[0].n, 0);
    whole(&r, "text/event-stream", events);
    ck_assert_str_eq(r.text[MAX_CHOICES].p, "\nf{1}\ng{}");
    whole(&r, "application/json", "{\"choices\":[{\"index\":1,\"text\":\"xy\",\"logprobs\":{\"tokens\":[\"x\",\"y\"],"
                                  "\"token_logprobs\":[-1.25,-2]}}]}");
    ck_assert_str_eq(r.text[MAX_CHOICES + 1].p, "x-1.25 y-2 ");
    whole(&r, "application/json", "{\"tokens\":[1,2],\"count\":2}");
    ck_assert_str_eq(r.text[0].p, "[1,2]");
    whole(&r, "application/json", "{\"content\":\"ab\"}");
    ck_assert_str_eq(r.text[0].p, "ab");
    response_free(&r);
}
END_TEST

START_TEST(whole_answers_by_length_and_until_the_end)
{
    static const char body[] = "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"yes\"},\"finish_reason\":\"length\"}]," USAGE "}";
    char s[512];
    struct response r = { 0 };
    snprintf(s, sizeof s, "HTTP/1.1 100 Continue\r\n\r\n" HEAD "application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    for (size_t piece = 1; piece < strlen(s); piece++) {
        feed(&r, s, piece);
        ck_assert(r.done && r.finished && !r.broken);
        text_is(&r, "yes");
    }
    snprintf(s, sizeof s, HEAD "application/json\r\nConnection: close\r\n\r\n%s", body);
    feed(&r, s, 7);
    ck_assert(!r.done);
    response_eof(&r);
    ck_assert(r.done && !r.broken && !r.keep_alive);
    text_is(&r, "yes");
    response_free(&r);
}
END_TEST

START_TEST(what_is_no_answer_is_noticed)
{
    static const char *const s[] = {
        "SMTP ready\r\n",
        HEAD "application/json\r\nContent-Length: 3\r\n\r\nyes",
        HEAD "application/json\r\nContent-Length: 2\r\n\r\n{}more",
        HEAD "text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD "text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n: xy\r\n",
        HEAD "text/event-stream\r\n\r\nnonsense\n",
        HEAD "text/event-stream\r\n\r\ndata: [DONE]\n\ndata: {}\n\n",
        HEAD "text/event-stream\r\n\r\ndata: {\"error\":{\"message\":\"m\"}}\n\n",
    };
    struct response r = { 0 };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        feed(&r, s[i], 5);
        ck_assert_msg(r.broken && r.error[0], "answer %zu passes", i);
    }
    feed(&r, HEAD "application/json\r\nContent-Length: 9\r\n\r\n{", 64);
    response_eof(&r);
    ck_assert(r.broken);
    response_free(&r);
}
END_TEST

int main(void)
{
    return RUN_TESTS("loadgen response", beside_the_text, streams_in_pieces_of_every_size, whole_answers_by_length_and_until_the_end,
                     what_is_no_answer_is_noticed);
}
