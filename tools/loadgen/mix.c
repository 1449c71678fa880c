/* tools/loadgen/mix.c: what is sent. A request of the mix is one of `distinct` different ones, behaves well or badly,
 * and follows from the seed and its number alone. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tools/loadgen/load.h"

enum { RNG_MIX = 1, RNG_DISTINCT, RNG_PREFIX, RNG_FORM };
enum { PREFIXES = 5 };

void bytes_put(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n + 1 > b->cap) {
        b->cap = MAX(2 * b->cap, b->n + n + 256);
        b->p = realloc(b->p, b->cap);
        if (!b->p) {
            fprintf(stderr, "loadgen: out of memory\n");
            exit(1);
        }
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

void bytes_text(struct bytes *b, const char *text)
{
    bytes_put(b, text, strlen(text));
}

void bytes_format(struct bytes *b, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    bytes_put(b, line, MIN((size_t)n, sizeof line - 1));
}

void bytes_free(struct bytes *b)
{
    free(b->p);
    *b = (struct bytes){ 0 };
}

void request_free(struct request *r)
{
    bytes_free(&r->bytes);
}

/* One of the keys; which one follows from the length of the body. */
static void put_key(struct bytes *out, const char *keys, size_t n_body)
{
    struct rng r = rng_of(n_body, 0, 0);
    uint32_t n = 1;
    for (const char *c = keys; *c; c++)
        n += *c == ',';
    for (uint32_t skip = rng_below(&r, n); skip; skip--)
        keys = strchr(keys, ',') + 1;
    bytes_format(out, "Authorization: Bearer %.*s\r\n", (int)strcspn(keys, ","), keys);
}

void request_post(const struct load_opts *o, struct bytes *out, const char *path, const char *body, size_t n)
{
    bytes_format(out, "POST %s HTTP/1.1\r\nHost: %s:%s\r\n", path, o->host, o->port);
    bytes_format(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", n);
    if (o->key)
        put_key(out, o->key, n);
    bytes_text(out, "\r\n");
    bytes_put(out, body, n);
}

/* ---- good requests ---- */

static const char *const words[] = {
    "the", "old", "lamp", "of", "a", "river", "stone", "was", "bright", "and", "children", "walked", "to",
    "market", "with", "three", "green", "apples", "because", "winter", "came", "early", "that", "year", "snow",
    "lay", "on", "roofs", "while", "bakers", "sang", "in", "narrow", "streets", "a", "dog", "slept", "near",
    "fire", "nobody", "knew", "why", "ships", "left", "harbour", "before", "dawn", "seven", "letters", "were",
    "lost", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d", "42", "x", "=", "y",
};

static void put_words(struct bytes *b, struct rng *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bytes_text(b, words[rng_below(r, ARRAY_LEN(words))]);
        bytes_text(b, i % 12 == 11 ? ". " : " ");
    }
}

static void put_settings(struct bytes *b, const struct load_opts *o, struct rng *r, uint32_t d, uint32_t n_choices,
                         bool chat)
{
    bytes_format(b, ",\"max_tokens\":%u", 1 + rng_below(r, o->tokens));
    if (rng_percent(r, 50))
        bytes_text(b, ",\"temperature\":0");
    else
        bytes_format(b, ",\"temperature\":%.1f,\"top_p\":0.95,\"top_k\":%u,\"seed\":%u",
                     0.5 + 0.1 * rng_below(r, 10), 20 + rng_below(r, 40), d + 1);
    if (rng_percent(r, 15))
        bytes_text(b, ",\"frequency_penalty\":0.5,\"presence_penalty\":0.2");
    if (rng_percent(r, 15))
        bytes_text(b, ",\"stop\":[\"e\",\" th\",\"\\n\\n\"]");
    if (rng_percent(r, 20))
        bytes_text(b, chat ? ",\"logprobs\":true,\"top_logprobs\":2" : ",\"logprobs\":1");
    if (n_choices > 1)
        bytes_format(b, ",\"n\":%u", n_choices);
    if (!rng_percent(r, o->plain))
        bytes_text(b, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
}

/* What the answer must be: JSON, a schema, a grammar, calls; and tools that may be called or not. */
#define POINT                                                                                                          \
    "{\"type\":\"object\",\"properties\":{\"kind\":{\"enum\":[\"red\",\"blue\"]},\"x\":{\"type\":\"integer\",\"minimum\":0,"      \
    "\"maximum\":99},\"tags\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\",\"maxLength\":5}}},\"required\":" \
    "[\"kind\",\"x\"],\"additionalProperties\":false}"
#define TOOLS                                                                                                          \
    ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"point\",\"description\":\"a point\",\"parameters\":" POINT      \
    "}},{\"type\":\"function\",\"function\":{\"name\":\"time\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]"
static const char *const forms[] = {
    ",\"response_format\":{\"type\":\"json_object\"}",
    ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"p\",\"strict\":true,\"schema\":" POINT "}}",
    ",\"json_schema\":{\"type\":\"string\",\"pattern\":\"^[a-f]{2,9}(-[0-9]+)?$\"}",
    ",\"grammar\":\"root ::= (word \\\" \\\"){1,6} [.!?]\\nword ::= [a-z]+ | [0-9]{2,3}\"",
    ",\"grammar\":\"root ::= [^\\\\x00]*\"",
};
static const char *const tools[] = {
    TOOLS,
    TOOLS ",\"tool_choice\":\"required\"",
    TOOLS ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false",
    TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"point\"}}",
    TOOLS ",\"tool_choice\":\"none\"",
};
#undef POINT
#undef TOOLS

static void put_form(struct bytes *b, const struct load_opts *o, struct rng *r, bool chat)
{
    if (chat && !o->no_tools && rng_percent(r, 60))
        bytes_text(b, tools[rng_below(r, ARRAY_LEN(tools))]);
    else
        bytes_text(b, forms[rng_below(r, ARRAY_LEN(forms))]);
}

/* Text to tokens, and tokens to text: answered at once, in between. */
static void put_tokens(const struct load_opts *o, struct rng *r, struct request *out)
{
    struct bytes body = { 0 };
    bool back = rng_percent(r, 50);
    bytes_text(&body, back ? "{\"tokens\":[7" : "{\"content\":\"");
    if (!back)
        put_words(&body, r, 1 + rng_below(r, 200));
    for (uint32_t i = back ? rng_below(r, 300) : 0; i; i--)
        bytes_format(&body, ",%u", rng_below(r, 256));
    bytes_text(&body, back ? "]}" : rng_percent(r, 50) ? "\",\"with_pieces\":true}" : "\"}");
    request_post(o, &out->bytes, back ? "/detokenize" : "/tokenize", body.p, body.n);
    bytes_free(&body);
}

void mix_distinct(const struct load_opts *o, uint32_t d, struct request *out)
{
    struct rng r = rng_of(o->seed, RNG_DISTINCT, d), form = rng_of(o->seed, RNG_FORM, d);
    out->distinct = d;
    out->n_choices = 1;
    if (rng_percent(&form, o->forms / 8)) {
        put_tokens(o, &form, out);
        return;
    }
    bool formed = rng_percent(&form, o->forms);
    uint32_t p = rng_below(&r, PREFIXES);
    struct rng pr = rng_of(o->seed, RNG_PREFIX, p);
    struct bytes body = { 0 };
    bool chat = rng_percent(&r, 50);
    out->n_choices = rng_percent(&r, 6) ? 2 : 1;
    bytes_text(&body, chat ? "{\"model\":\"loadgen\",\"messages\":[{\"role\":\"system\",\"content\":\""
                           : "{\"model\":\"loadgen\",\"prompt\":\"");
    put_words(&body, &pr, p * o->prefix_words / (PREFIXES - 1)); /* one in five shares nothing */
    if (chat)
        bytes_text(&body, "\"},{\"role\":\"user\",\"content\":\"");
    put_words(&body, &r, 1 + rng_below(&r, 30));
    bytes_text(&body, chat ? "\"}]" : "\"");
    if (chat && (rng_percent(&r, 50) || formed))
        bytes_text(&body, ",\"enable_thinking\":false");
    if (formed)
        put_form(&body, o, &form, chat);
    put_settings(&body, o, &r, d, out->n_choices, chat);
    bytes_text(&body, "}");
    request_post(o, &out->bytes, chat ? "/v1/chat/completions" : "/v1/completions", body.p, body.n);
    bytes_free(&body);
}

/* ---- bad ones: each is answered 4xx ---- */

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
static const struct bad_body {
    const char *path, *body;
} bad_bodies[] = {
    { CHAT, "" },
    { CHAT, "{" },
    { CHAT, "[]" },
    { CHAT, "null" },
    { CHAT, "{}" },
    { CHAT, "{\"messages\":[]}" },
    { CHAT, "{\"messages\":\"hello\"}" },
    { CHAT, "{\"messages\":[{\"role\":\"wizard\",\"content\":\"hello\"}]}" },
    { CHAT, "{\"messages\":[{\"content\":\"hello\"}]}" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}" },
    {CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
           "\"x\"}}]}]}"},
    { CHAT, "{" HELLO ",\"temperature\":\"hot\"}" },
    { CHAT, "{" HELLO ",\"temperature\":-3}" },
    { CHAT, "{" HELLO ",\"top_p\":7}" },
    { CHAT, "{" HELLO ",\"n\":0}" },
    { CHAT, "{" HELLO ",\"n\":1000000}" },
    { CHAT, "{" HELLO ",\"max_tokens\":\"many\"}" },
    { CHAT, "{" HELLO ",\"stop\":[1,2]}" },
    { CHAT, "{" HELLO ",\"stream\":\"yes\"}" },
    { CHAT, "{" HELLO ",\"response_format\":{\"type\":\"poem\"}}" },
    { CHAT, "{" HELLO ",\"response_format\":{\"type\":\"json_schema\"}}" },
    { CHAT, "{" HELLO ",\"tools\":{}}" },
    { CHAT, "{" HELLO ",\"logit_bias\":[]}" },
    { CHAT, "{" HELLO ",\"grammar\":\"root ::= (\"}" },
    { CHAT, "{" HELLO ",\"grammar\":\"root ::= root \\\"a\\\"\"}" },
    { CHAT, "{" HELLO ",\"json_schema\":{\"type\":\"nothing\"}}" },
    { CHAT, "{" HELLO ",\"tools\":[{\"type\":\"function\",\"function\":{}}]}" },
    { CHAT, "{" HELLO ",\"tool_choice\":\"required\"}" },
    { TEXT, "{\"prompt\":\"a\",\"grammar\":\"root ::= other\"}" },
    { CHAT, "{" HELLO ",\"top_logprobs\":99,\"logprobs\":true}" },
    { CHAT, "{" HELLO ",\"temperature\":1e999}" },
    { CHAT, "{" HELLO ",\"temperature\":NaN}" },
    { CHAT, "{" HELLO "} trailing" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xc0\xaf\"}]}" },
    { CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}" },
    { TEXT, "{\"prompt\":{}}" },
    { TEXT, "{\"prompt\":[]}" },
    { TEXT, "{\"prompt\":[-1]}" },
    { TEXT, "{\"prompt\":[999999999]}" },
    { TEXT, "{\"prompt\":[\"a\",1]}" },
    { TEXT, "{\"prompt\":\"a\",\"suffix\":\"b\"}" },
    { TEXT, "{\"prompt\":\"a\",\"best_of\":5,\"n\":1}" },
    { "/v1/embeddings", "{\"input\":\"hello\"}" },
    { "/tokenize", "{}" },
    { "/detokenize", "{\"tokens\":\"x\"}" },
    { "/detokenize", "{\"tokens\":[1e9]}" },
    { "/v1/models", "{}" },
    { "/v1/nothing", "{}" },
    { "/../../etc/passwd", "{}" },
};
#undef CHAT
#undef TEXT
#undef HELLO

static void bad_request(const struct load_opts *o, struct rng *r, struct request *out)
{
    struct bytes body = { 0 };
    uint32_t k = rng_below(r, ARRAY_LEN(bad_bodies) + 2);
    if (k < ARRAY_LEN(bad_bodies)) {
        request_post(o, &out->bytes, bad_bodies[k].path, bad_bodies[k].body, strlen(bad_bodies[k].body));
    } else if (k == ARRAY_LEN(bad_bodies)) { /* a bomb of depth */
        for (int i = 0; i < 20000; i++)
            bytes_text(&body, "[");
        request_post(o, &out->bytes, "/v1/chat/completions", body.p, body.n);
    } else { /* a NUL in the middle */
        bytes_put(&body, "{\"prompt\":\"a\0b\"}", 16);
        request_post(o, &out->bytes, "/v1/completions", body.p, body.n);
    }
    bytes_free(&body);
}

/* ---- the mix ---- */

void mix_request(const struct load_opts *o, uint64_t i, struct request *out)
{
    struct rng r = rng_of(o->seed, RNG_MIX, i);
    uint32_t p = rng_below(&r, 100);
    out->bytes.n = 0;
    out->how = BE_GOOD;
    if (p < o->bad)
        out->how = BE_BAD;
    else if (p < o->bad + o->drop)
        out->how = BE_DROP;
    else if (p < o->bad + o->drop + o->slow)
        out->how = BE_SLOW;
    if (out->how == BE_BAD) {
        bad_request(o, &r, out);
        return;
    }
    mix_distinct(o, rng_below(&r, o->distinct), out);
    if (out->how != BE_DROP)
        return;
    out->drop_at = (enum drop_at)rng_below(&r, 3);
    out->drop_how = (enum drop_how)rng_below(&r, 3);
    out->drop_ms = rng_below(&r, 30);
    out->drop_bytes = rng_below(&r, out->drop_at == DROP_IN_BODY ? (uint32_t)out->bytes.n : 4000);
}
