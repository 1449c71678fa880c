/* tools/loadgen/fuzz.c: requests that are wrong somewhere: a good one, then a few accidents in its line, its headers,
 * its framing, its JSON or its UTF-8. The i-th follows from the seed. Some are still good after all. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tools/loadgen/load.h"

enum { RNG_FUZZ = 20 };

struct parts {
    struct rng r;
    struct bytes line, headers, body, out;
    bool chunked, no_length;
};

/* ---- what it was before ---- */

/* In the bodies ' stands for ". */
static const struct seed {
    const char *method, *path, *body;
} seeds[] = {
    { "POST", "/v1/chat/completions",
      "{'model':'m','messages':[{'role':'system','content':'short'},{'role':'user','content':'hi'}],'max_tokens':4,"
      "'temperature':0.5,'top_p':0.9,'seed':7,'stop':['x'],'stream':true}" },
    { "POST", "/v1/chat/completions",
      "{'messages':[{'role':'user','content':[{'type':'text','text':'hi'}]}],'max_tokens':3,"
      "'tools':[{'type':'function','function':{'name':'f','parameters':{'type':'object','properties':{'a':{'type':'integer'}},'required':['a']}}}],"
      "'tool_choice':'auto','logprobs':true,'top_logprobs':3,'logit_bias':{'5':-1.5},'n':2}" },
    { "POST", "/v1/chat/completions",
      "{'messages':[{'role':'user','content':'hi'},{'role':'assistant','tool_calls':[{'id':'c1','type':'function',"
      "'function':{'name':'f','arguments':'{}'}}]},{'role':'tool','tool_call_id':'c1','content':'2'}],"
      "'max_tokens':3}" },
    { "POST", "/v1/chat/completions",
      "{'messages':[{'role':'user','content':'hi'}],'max_tokens':4,"
      "'response_format':{'type':'json_schema','json_schema':{'name':'s','strict':true,'schema':{'type':'object','properties':{'k':{'enum':['a','b']},'n':{'type':'array',"
      "'items':{'type':'number'},'maxItems':3}},'required':['k']}}}}" },
    { "POST", "/v1/completions",
      "{'prompt':'once \\u20ac \\ud83c\\udf0d','max_tokens':4,'temperature':0,'echo':true,'logprobs':1}" },
    { "POST", "/v1/completions",
      "{'prompt':[1,2,3,4],'max_tokens':3,'min_p':0.05,'repeat_penalty':1.1,'n':2}" },
    { "POST", "/v1/completions",
      "{'prompt':['a','b'],'max_tokens':2,'stream':true,'grammar':'root ::= [a-z]+'}" },
    { "POST", "/v1/messages",
      "{'max_tokens':4,'system':[{'type':'text','text':'x-a-billing-header: b'},{'type':'text','text':'short'}],'messages':["
      "{'role':'user','content':'hi'},{'role':'assistant','content':[{'type':'thinking','thinking':'hm'},"
      "{'type':'tool_use','id':'t','name':'f','input':{'a':1}}]},{'role':'user','content':[{'type':'tool_result',"
      "'tool_use_id':'t','content':'2'}]}],'tools':[{'name':'f','input_schema':{'type':'object'}}],'stop_sequences':['x'],"
      "'thinking':{'type':'enabled','budget_tokens':2},'stream':true}" },
    { "POST", "/v1/messages/count_tokens", "{'system':'s','messages':[{'role':'user','content':[{'type':'text','text':'hi'}]}]}" },
    { "POST", "/v1/responses",
      "{'input':[{'role':'user','content':[{'type':'input_text','text':'hi'}]},{'type':'function_call','call_id':'c','name':'f',"
      "'arguments':'{}'},{'type':'function_call_output','call_id':'c','output':'2'}],'instructions':'short','max_output_tokens':4,"
      "'tools':[{'type':'function','name':'f','parameters':{'type':'object'}}],'tool_choice':'auto','stream':true}" },
    { "POST", "/v1/responses",
      "{'input':'hi','max_output_tokens':3,'previous_response_id':'resp_0','text':{'format':{'type':'json_object'}}}" },
    { "POST", "/api/chat",
      "{'model':'m','messages':[{'role':'user','content':'hi'},{'role':'assistant','tool_calls':[{'function':{'name':'f',"
      "'arguments':{}}}]},{'role':'tool','tool_name':'f','content':'2'}],'options':{'num_predict':3,'seed':7},'think':false}" },
    { "POST", "/api/generate", "{'prompt':'hi','raw':true,'options':{'num_predict':3,'stop':['x']},'stream':false}" },
    { "POST", "/infill", "{'input_prefix':'int f(','input_suffix':') {}','input_extra':[{'filename':'a','text':'b'}],'n_predict':3}" },
    { "POST", "/apply-template", "{'messages':[{'role':'user','content':'hi'}]}" },
    { "GET", "/props", NULL },
    { "POST", "/api/show", "{'model':'m'}" },
    { "GET", "/api/tags", NULL },
    { "POST", "/v1/embeddings", "{'input':['hi',[1,2]],'dimensions':3,'encoding_format':'base64'}" },
    { "POST", "/api/embed", "{'input':['hi','there'],'truncate':true,'dimensions':3}" },
    { "POST", "/v1/rerank", "{'query':'q','documents':['a',{'text':'b'}],'top_n':1,'return_documents':true}" },
    { "POST", "/tokenize", "{'content':'h\xc3\xa9llo <|im_start|>','add_special':true,'with_pieces':true}" },
    { "POST", "/detokenize", "{'tokens':[1,2,3]}" },
    { "GET", "/v1/models", NULL },
    { "GET", "/health", NULL },
    { "GET", "/metrics", NULL },
    { "GET", "/", NULL },
    { "OPTIONS", "/v1/chat/completions", NULL },
};

/* ---- accidents to bytes ---- */

static void splice(struct bytes *b, size_t at, size_t cut, const void *put, size_t n)
{
    struct bytes tail = { 0 };
    at = MIN(at, b->n);
    cut = MIN(cut, b->n - at);
    bytes_put(&tail, b->p ? b->p + at + cut : "", b->n - at - cut);
    b->n = at;
    bytes_put(b, put, n);
    bytes_put(b, tail.p, tail.n);
    bytes_free(&tail);
}

static size_t somewhere(struct parts *p, const struct bytes *b)
{
    return rng_below(&p->r, (uint32_t)b->n + 1);
}

static void noise(struct parts *p, struct bytes *b)
{
    char junk[16];
    uint32_t n = 1 + rng_below(&p->r, sizeof junk);
    for (uint32_t i = 0; i < n; i++)
        junk[i] = (char)rng_next(&p->r);
    splice(b, somewhere(p, b), rng_percent(&p->r, 50) ? n : 0, junk, n);
}

static void flip_bit(struct parts *p, struct bytes *b)
{
    if (b->n)
        b->p[rng_below(&p->r, (uint32_t)b->n)] ^= (char)(1 << rng_below(&p->r, 8));
}

static void remove_some(struct parts *p, struct bytes *b)
{
    splice(b, somewhere(p, b), 1 + rng_below(&p->r, 20), "", 0);
}

static void repeat_some(struct parts *p, struct bytes *b)
{
    if (!b->n)
        return;
    size_t from = rng_below(&p->r, (uint32_t)b->n), n = MIN(1 + rng_below(&p->r, 40), b->n - from);
    struct bytes copy = { 0 };
    for (uint32_t i = 1 + rng_below(&p->r, 30); i; i--)
        bytes_put(&copy, b->p + from, n);
    splice(b, from, 0, copy.p, copy.n);
    bytes_free(&copy);
}

/* ---- accidents to JSON and UTF-8 ---- */

static const char *const values[] = {
    "null", "true", "-1", "0", "1e400", "-0.0", "9223372036854775808", "99999999999999999999999999", "1.5", "NaN",
    "Infinity", "\"\"", "\"x\"", "[]", "{}", "[[[[[[]]]]]]", "[null]", "{\"a\":{\"a\":{}}}", "\"\\u0000\"",
    "\"\\ud800\"", "\"\\x\"", "\"", "0x10", "+1", "01", "'x'", "[1,]", "{,}", "1e-400", "4294967296", "2147483648",
    "-2147483649", "\"\\udc00\\ud800\"",
};

static const char *const letters[] = {
    "\xff", "\xc0\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\x80",
    "\xef\xbf\xbf", "\xef\xbb\xbf", "\x01", "\x7f", "\xc2\x85", "\xe2\x80\xa8",
};

static bool is_value_char(char c)
{
    return c && !strchr(",:{}[]", c);
}

/* Another value, or another key, in the place of one. */
static void change_value(struct parts *p, struct bytes *b)
{
    const char *with = values[rng_below(&p->r, ARRAY_LEN(values))];
    size_t at = somewhere(p, b), end;
    while (at < b->n && !is_value_char(b->p[at]))
        at++;
    while (at && is_value_char(b->p[at - 1]))
        at--;
    for (end = at; end < b->n && is_value_char(b->p[end]);)
        end++;
    splice(b, at, end - at, with, strlen(with));
}

static void break_utf8(struct parts *p, struct bytes *b)
{
    const char *l = letters[rng_below(&p->r, ARRAY_LEN(letters))];
    splice(b, somewhere(p, b), 0, l, strlen(l));
}

static void nest(struct parts *p, struct bytes *b)
{
    struct bytes deep = { 0 };
    const char *open = rng_percent(&p->r, 50) ? "[" : "{\"a\":";
    for (uint32_t i = 100 << rng_below(&p->r, 6); i; i--)
        bytes_text(&deep, open);
    splice(b, somewhere(p, b), 0, deep.p, deep.n);
    bytes_free(&deep);
}

static void cut_end(struct parts *p, struct bytes *b)
{
    b->n = somewhere(p, b);
}

static void insert_nul(struct parts *p, struct bytes *b)
{
    splice(b, somewhere(p, b), 0, "", 1);
}

static void (*const body_accidents[])(struct parts *, struct bytes *) = {
    noise,        flip_bit,     remove_some, repeat_some, change_value, change_value,
    change_value, break_utf8,   nest,        cut_end,     insert_nul,
};

/* ---- accidents to the head ---- */

static const char *const lines[] = {
    "GET", "GET /health", "GET  /health HTTP/1.1", "GET /health HTTP/9.9", "GET /health HTTP/1.0",
    "GET /health HTTP/0.9", "GET /health HTTP/1.1 extra", "GET /health http/1.1", "get /health HTTP/1.1",
    "PATCH /v1/models HTTP/1.1", "DELETE / HTTP/1.1", "CONNECT example.org:443 HTTP/1.1", "TRACE / HTTP/1.1",
    "PRI * HTTP/2.0", "OPTIONS * HTTP/1.1", "GET http://other/health HTTP/1.1", "GET /%00 HTTP/1.1",
    "GET /%zz HTTP/1.1", "GET /../../etc/passwd HTTP/1.1", "GET /%ff%fe HTTP/1.1", "GET //health HTTP/1.1",
    "GET /health?a=%00&b HTTP/1.1", "GET /#x HTTP/1.1", "", " ", "\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nGET / HTTP/1.1", "\x16\x03\x01\x02\x00\x01", "GET /health HTTP/1.",
    "GET /health HTTP/11.1", "HEAD /health HTTP/1.1", "POST / HTTP/1.1",
    "PUT /tokenize HTTP/1.1",
};

static const char *const header_lines[] = {
    "Content-Length: -1\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 18446744073709551615\r\n",
    "Content-Length: 5\r\nContent-Length: 7\r\n", "Content-Length: abc\r\n", "Content-Length: 0x10\r\n",
    "Content-Length:\r\n", "Content-Length: 3 3\r\n", "Content-Length: 1000000000\r\n",
    "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding : chunked\r\n",
    "Expect: 100-continue\r\n", "Expect: a-miracle\r\n", "Connection: upgrade\r\n", "Upgrade: websocket\r\n",
    "Host: other\r\n", "Host:\r\n", ": empty\r\n", "No-Colon\r\n", " folded: line\r\n", "X: a\r\n b\r\n",
    "X: \x01\x02\r\n", "Authorization: Bearer\r\n", "Authorization: \xff\r\n",
    "Content-Type: multipart/form-data; boundary=\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Encoding: gzip\r\n", "X-Request-Id: \x7f\"\r\n", "X-Request-Id: a\tb{}\r\n", "Range: bytes=0-\r\n",
    "Cookie: a=b; =; ;;;\r\n", "Origin: null\r\n", "Connection: close, keep-alive\r\n", "X: y\n", "X: y\r", "\n",
};

static void change_head(struct parts *p)
{
    const char *s;
    switch (rng_below(&p->r, 8)) {
    case 0:
        p->line.n = 0;
        bytes_text(&p->line, lines[rng_below(&p->r, ARRAY_LEN(lines))]);
        break;
    case 1:
    case 2:
        s = header_lines[rng_below(&p->r, ARRAY_LEN(header_lines))];
        p->no_length |= strncmp(s, "Content-Length", 14) == 0;
        splice(&p->headers, rng_percent(&p->r, 50) ? 0 : p->headers.n, 0, s, strlen(s) ? strlen(s) : 1);
        break;
    case 3: /* many */
        for (uint32_t i = 1 << rng_below(&p->r, 13); i; i--)
            bytes_format(&p->headers, "X-%u: %u\r\n", i, i);
        break;
    case 4: /* a long one */
        bytes_text(&p->headers, "X-Long: ");
        for (uint32_t i = 1 << rng_below(&p->r, 14); i; i--)
            bytes_text(&p->headers, "0123456789");
        bytes_text(&p->headers, "\r\n");
        break;
    case 5: /* a long path */
        p->line.n = 0;
        bytes_text(&p->line, "GET /");
        for (uint32_t i = 1 << rng_below(&p->r, 14); i; i--)
            bytes_text(&p->line, "%41/..");
        bytes_text(&p->line, " HTTP/1.1");
        break;
    case 6: body_accidents[rng_below(&p->r, 4)](p, &p->line); break;
    default: body_accidents[rng_below(&p->r, 4)](p, &p->headers); break;
    }
}

/* ---- accidents to the framing ---- */

static void put_chunks(struct parts *p)
{
    static const char *const sizes[] = {
        "g", "-1", "ffffffffffffffff", "7fffffffffffffff0", "", " 5", "5;ext=\"", "0005", "5 5"};
    for (size_t at = 0, n; at < p->body.n; at += n) {
        n = MIN(1 + rng_below(&p->r, 100), p->body.n - at);
        if (rng_percent(&p->r, 8))
            bytes_text(&p->out, sizes[rng_below(&p->r, ARRAY_LEN(sizes))]);
        else
            bytes_format(&p->out, "%zx", rng_percent(&p->r, 4) ? n + 1 : n);
        bytes_text(&p->out, rng_percent(&p->r, 4) ? "\n" : "\r\n");
        bytes_put(&p->out, p->body.p + at, n);
        bytes_text(&p->out, rng_percent(&p->r, 4) ? "" : "\r\n");
    }
    if (rng_percent(&p->r, 85))
        bytes_text(&p->out, rng_percent(&p->r, 85) ? "0\r\n\r\n" : "0\r\nTrailer: x\r\n\r\n");
}

static void put_together(struct parts *p, const struct load_opts *o)
{
    bytes_put(&p->out, p->line.p, p->line.n);
    bytes_text(&p->out, "\r\n");
    bytes_put(&p->out, p->headers.p, p->headers.n);
    if (o->key && rng_percent(&p->r, 90))
        bytes_format(&p->out, "Authorization: Bearer %s\r\n", o->key);
    if (p->chunked) {
        bytes_text(&p->out, "Transfer-Encoding: chunked\r\n");
    } else if (!p->no_length && p->body.n) {
        uint32_t lie = rng_below(&p->r, 100);
        bytes_format(&p->out, "Content-Length: %zu\r\n",
                     lie < 4 ? p->body.n + 10 : lie < 8 ? p->body.n / 2 : p->body.n);
    }
    bytes_text(&p->out, "\r\n");
    if (p->chunked)
        put_chunks(p);
    else
        bytes_put(&p->out, p->body.p, p->body.n);
}

void fuzz_request(const struct load_opts *o, uint64_t i, struct bytes *out)
{
    struct parts p = { .r = rng_of(o->seed, RNG_FUZZ, i), .out = *out };
    const struct seed *s = &seeds[rng_below(&p.r, ARRAY_LEN(seeds))];
    p.out.n = 0;
    bytes_format(&p.line, "%s %s HTTP/1.1", s->method, s->path);
    bytes_format(&p.headers, "Host: %s:%s\r\nContent-Type: application/json\r\n", o->host, o->port);
    bytes_text(&p.body, s->body ? s->body : "");
    for (size_t k = 0; k < p.body.n; k++)
        p.body.p[k] = p.body.p[k] == '\'' ? '"' : p.body.p[k];
    for (uint32_t k = 1 + rng_below(&p.r, 3); k; k--) {
        if (s->body && rng_percent(&p.r, 60))
            body_accidents[rng_below(&p.r, ARRAY_LEN(body_accidents))](&p, &p.body);
        else
            change_head(&p);
    }
    p.chunked = s->body && rng_percent(&p.r, 20);
    put_together(&p, o);
    if (rng_percent(&p.r, 10))
        body_accidents[rng_below(&p.r, 4)](&p, &p.out);
    if (rng_percent(&p.r, 5))
        cut_end(&p, &p.out);
    *out = p.out;
    bytes_free(&p.line);
    bytes_free(&p.headers);
    bytes_free(&p.body);
}
