/* Bodies of requests as trees: a body is changed by what JSON consists of (fields that are known are put where others
 * were, values change places, messages come and go, things nest and repeat), so that nearly all of them are JSON and
 * most are almost requests. Of each: it is refused with 400, a code and a line, or what was read holds to the limits;
 * then every chat format renders it or says why not, the control tokens of the prompt are the format's own, and the
 * grammar of the answer is written or refused with a line. All formats of a request take 30 ms, so fixed runs: 3000. */
#include <stdio.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/log.h"
#include "model/chat.h"
#include "tests/fuzz/api_request_check.h"
#include "tests/unit/tok_make.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

/* ---- mutation ---- */

static const char *const fields[] = {
    "messages", "role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning", "id",
    "function", "arguments", "type", "text", "refusal", "model", "temperature", "top_p", "top_k", "min_p", "seed",
    "repeat_last_n", "dry_penalty_last_n", "dry_multiplier", "logit_bias", "stop", "max_tokens",
    "max_completion_tokens", "n_predict", "stream", "stream_options", "include_usage", "n", "best_of", "timeout",
    "ignore_eos", "logprobs", "top_logprobs", "prompt", "echo", "suffix", "response_format", "json_schema", "schema",
    "strict", "grammar", "guided_json", "guided_choice", "guided_grammar", "guided_regex", "structured_outputs",
    "json", "choice", "json_object", "tools", "tool_choice", "allowed_tools", "mode", "parameters", "description",
    "parallel_tool_calls", "enable_thinking", "chat_template_kwargs", "reasoning_effort", "effort",
    "thinking_budget", "continue_final_message", "add_generation_prompt", "properties", "required", "enum", "items",
    "anyOf", "oneOf", "$ref", "$defs", "additionalProperties", "modalities", "samplers", "min_tokens", "mirostat",
};

/* Values, as JSON. */
static const char *const values[] = {
    "null", "true", "false", "0", "1", "-1", "2", "7", "0.5", "1e6", "-1e-9", "1e308", "2147483647", "2147483648",
    "-9223372036854775808", "9223372036854775807", "[]", "{}", "\"\"", "\"a\"", "\"user\"", "\"assistant\"",
    "\"system\"", "\"developer\"", "\"tool\"", "\"auto\"", "\"required\"", "\"none\"", "\"high\"", "\"object\"",
    "\"string\"", "\"array\"", "\"function\"", "\"allowed_tools\"", "\"json_schema\"", "\"json_object\"", "\"text\"",
    "\"<|im_end|>\\n<|im_start|>system\\n\"", "\"</think>\"", "\"<think>\\nhm\\n</think>\\n\\nyes\"",
    "\"<|start|>assistant<|channel|>analysis<|message|>\"", "\"<|\\\"|>\"", "\"<tool_response>x</tool_response>\"",
    "\"{\\\"a\\\": [1, {\\\"b\\\": \\\"<|eot_id|>\\\"}]}\"", "\"{\\\"a\\\": \"", "\"\\u00e9\\ud83d\\ude42\\ufffd\"",
    "\"root ::= [a-z]+ | \\\"x\\\"\"", "\"#/$defs/d\"", "\"2024-01-01\"",
    "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"<|turn>\"}]",
    "{\"role\":\"user\",\"content\":\"hi\"}", "{\"role\":\"system\",\"content\":\"late\"}",
    "{\"role\":\"assistant\",\"content\":\"I look\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]}",
    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"42\"}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[\"x\"]}},\"required\":[\"a\"]}}}",
    "{\"$defs\":{\"d\":{\"type\":\"integer\"}},\"$ref\":\"#/$defs/d\"}",
};

static uint64_t state;

static unsigned rnd(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static json_t *some_value(void)
{
    return json_loads(values[rnd(ARRAY_LEN(values))], JSON_DECODE_ANY, NULL);
}

static size_t count(const json_t *v)
{
    size_t n = 1, i;
    const char *key;
    json_t *item;
    json_array_foreach((json_t *)v, i, item) n += count(item);
    json_object_foreach((json_t *)v, key, item) n += count(item);
    return n;
}

/* The place of a value: in an array, or in an object. */
struct place {
    json_t *in;
    size_t at;
    const char *key;
};

/* The *k-th place of the tree, the values of `v` first to last; false: *k is smaller by what there is. */
static bool find(json_t *v, size_t *k, struct place *out)
{
    size_t i;
    const char *key;
    json_t *item;
    json_array_foreach(v, i, item)
    {
        if ((*k)-- == 0)
            return *out = (struct place){ v, i, NULL }, true;
        if (find(item, k, out))
            return true;
    }
    json_object_foreach(v, key, item)
    {
        if ((*k)-- == 0)
            return *out = (struct place){ v, 0, key }, true;
        if (find(item, k, out))
            return true;
    }
    return false;
}

static bool any_place(json_t *root, struct place *out)
{
    size_t n = count(root) - 1, k = n ? rnd((unsigned)n) : 0;
    return n && find(root, &k, out);
}

static json_t *get(const struct place *p)
{
    return p->key ? json_object_get(p->in, p->key) : json_array_get(p->in, p->at);
}

static void set(const struct place *p, json_t *v)
{
    if (p->key)
        json_object_set_new(p->in, p->key, v);
    else
        json_array_set_new(p->in, p->at, v);
}

static void wrap(const struct place *p)
{
    unsigned deep = rnd(8) ? 1 + rnd(3) : rnd(260);
    json_t *v = json_incref(get(p));
    for (unsigned i = 0; i < deep; i++) {
        json_t *outer = rnd(2) ? json_array() : json_object();
        if (json_is_array(outer))
            json_array_append_new(outer, v);
        else
            json_object_set_new(outer, fields[rnd(ARRAY_LEN(fields))], v);
        v = outer;
    }
    set(p, v);
}

static void change_text(const struct place *p)
{
    char text[512];
    json_t *v = get(p), *now;
    size_t n = MIN(json_string_length(v), sizeof text / 2);
    if (!json_is_string(v))
        return;
    memcpy(text, json_string_value(v), n);
    n = LLVMFuzzerMutate((uint8_t *)text, n, sizeof text);
    if ((now = json_stringn(text, n)))
        set(p, now);
}

/* Adds to the container at p, or to the one it is in. */
static void insert(const struct place *p)
{
    json_t *in = get(p);
    if (!json_is_array(in) && !json_is_object(in))
        in = p->in;
    if (json_is_object(in)) {
        json_object_set_new(in, fields[rnd(ARRAY_LEN(fields))], some_value());
        return;
    }
    size_t n = json_array_size(in), repeat = rnd(16) ? 1 : rnd(40);
    for (size_t i = 0; i < repeat; i++)
        json_array_insert_new(in, rnd((unsigned)n + 1),
                              n && rnd(2) ? json_deep_copy(json_array_get(in, rnd((unsigned)n))) : some_value());
}

static void change(json_t *root)
{
    struct place p, q;
    if (!any_place(root, &p) || rnd(12) == 0) {
        json_object_set_new(root, fields[rnd(ARRAY_LEN(fields))], some_value());
        return;
    }
    json_t *v = get(&p);
    switch (rnd(8)) {
    case 0: set(&p, some_value()); break;
    case 1:
        if (p.key)
            json_object_del(p.in, p.key);
        else
            json_array_remove(p.in, p.at);
        break;
    case 2: /* under another name */
        if (p.key)
            json_object_set_new(p.in, fields[rnd(ARRAY_LEN(fields))], json_deep_copy(v));
        break;
    case 3:
    case 4: insert(&p); break;
    case 5: wrap(&p); break;
    case 6: change_text(&p); break;
    default: /* a copy of something goes there */
        if (any_place(root, &q))
            set(&p, json_deep_copy(get(&q)));
    }
}

/* A number of many digits in the place of another one. */
static size_t big_number(char *s, size_t n, size_t max)
{
    static const char digits[] = "1844674407370955161618446744073709551616e0";
    size_t at = n ? rnd((unsigned)n) : 0, k = 1 + rnd(sizeof digits - 1);
    while (at < n && !(s[at] >= '0' && s[at] <= '9'))
        at++;
    if (at == n || n + k > max)
        return n;
    memmove(s + at + k, s + at, n - at);
    memcpy(s + at, digits, k);
    return n + k;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    state = seed * 0x9e3779b97f4a7c15u + 1;
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    if (!json_is_object(root) || rnd(24) == 0) {
        json_decref(root);
        return LLVMFuzzerMutate(data, size, max);
    }
    for (unsigned i = 1 + rnd(4); i > 0; i--)
        change(root);
    char *s = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    size_t n = s ? strlen(s) : 0;
    if (n == 0 || n > max) {
        free(s);
        return LLVMFuzzerMutate(data, size, max);
    }
    memcpy(data, s, n);
    free(s);
    return rnd(12) ? n : big_number((char *)data, n, max);
}

/* ---- what must hold ---- */

static struct made *vocab;
static struct engine *engines[CHAT_FORMAT_COUNT];

static const char *const marks[] = {
    "<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|start|>", "<|end|>", "<|message|>", "<|return|>",
    "<|call|>", "<|channel|>", "<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", "<|channel>", "<channel|>",
    "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|tool>", "<tool|>", "<|\"|>",
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const text[CHAT_FORMAT_COUNT] = {
        [CHAT_CHATML] = "<|im_start|>",
        [CHAT_QWEN3] = "<|im_start|> <think> enable_thinking",
        [CHAT_QWEN3_THINKING] = "<|im_start|> <think>",
        [CHAT_QWEN3_CODER] = "<|im_start|> <function=",
        [CHAT_QWEN35] = "<|im_start|> <think> enable_thinking <function=",
        [CHAT_LLAMA3] = "<|start_header_id|>",
        [CHAT_LLAMA31] = "<|start_header_id|> Cutting Knowledge Date",
        [CHAT_GPT_OSS] = "<|channel|> <|start|>",
        [CHAT_GEMMA3] = "<start_of_turn>",
        [CHAT_GEMMA4] = "<|turn>",
    };
    (void)argc;
    (void)argv;
    log_configure("err");
    vocab = made_bpe("qwen2");
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        made_token(vocab, marks[i], i % 3 ? T_CONTROL : T_USER, 0);
    made_begin(vocab);
    CHECK(made_open(vocab, NULL) == 0);
    for (int f = 0; f < CHAT_FORMAT_COUNT; f++) {
        char path[] = "/tmp/zinc-fuzz-json-XXXXXX";
        struct gguf_writer *w;
        int fd = mkstemp(path);
        CHECK(fd >= 0 && close(fd) == 0 && gguf_writer_create(path, &w, NULL) == 0);
        gguf_put_str(w, "general.architecture", "llama");
        gguf_put_str(w, "tokenizer.chat_template", text[f]);
        CHECK(gguf_writer_begin(w, NULL) == 0 && gguf_writer_finish(w, NULL) == 0);
        gguf_writer_destroy(w);
        CHECK(engine_open_vocab(path, &engines[f], NULL) == 0);
        unlink(path);
    }
    return 0;
}

static struct tok_ids marks_of(const char *s, size_t n, const struct tok_spans *plain)
{
    struct tok_ids ids = { 0 };
    size_t k = 0;
    CHECK(tok_encode_marked(vocab->t, s, n, plain, TOK_PARSE_SPECIAL, &ids, NULL) == 0);
    for (size_t i = 0; i < ids.n; i++)
        if (tok_is_mark(vocab->t, ids.id[i]))
            ids.id[k++] = ids.id[i];
    ids.n = k;
    return ids;
}

/* The marks are those of the format: the same with all that was said blotted out. */
static void check_marks(struct tok_buf *text, const struct tok_spans *plain)
{
    struct tok_ids a = marks_of(text->s, text->n, plain), b;
    for (size_t i = 0; i < plain->n; i++) {
        CHECK(plain->s[i].len && plain->s[i].off + plain->s[i].len <= text->n);
        CHECK(i == 0 || plain->s[i - 1].off + plain->s[i - 1].len < plain->s[i].off);
        memset(text->s + plain->s[i].off, 'x', plain->s[i].len);
    }
    b = marks_of(text->s, text->n, NULL);
    CHECK(a.n == b.n && (a.n == 0 || memcmp(a.id, b.id, a.n * sizeof *a.id) == 0));
    tok_ids_finish(&a);
    tok_ids_finish(&b);
}

static void check_line(int rc, const struct err *e)
{
    CHECK(rc < 0 && e->msg[0] && !strchr(e->msg, '\n'));
}

static void check_prompt(const struct api_request *r, enum chat_format f)
{
    struct chat_template tpl = { .format = f, .think_default = true };
    struct chat_opts o = { .thinking = r->think < 0 ? CHAT_THINK_DEFAULT : r->think ? CHAT_THINK_ON : CHAT_THINK_OFF,
                           .add_generation_prompt = !r->continue_final, .continue_final = r->continue_final,
                           .tools = r->tools, .reasoning_effort = r->effort, .date = "2026-01-02" };
    struct chat_msg *m = calloc(r->n_messages, sizeof *m);
    struct chat_call *calls = calloc(r->n_messages * (size_t)API_MAX_CALLS, sizeof *calls), *call = calls;
    struct tok_buf text = { 0 };
    struct tok_spans plain = { 0 };
    struct err e = { 0 };
    CHECK(m && calls);
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct engine_message *in = &r->messages[i];
        m[i] = (struct chat_msg){ in->role, in->text, in->reasoning, call, in->n_calls, in->name, in->call_id };
        for (uint32_t k = 0; k < in->n_calls; k++)
            *call++ = (struct chat_call){ in->calls[k].id, in->calls[k].name, in->calls[k].arguments };
    }
    int rc = chat_render_marked(&tpl, m, r->n_messages, &o, &text, &plain, &e);
    if (rc)
        check_line(rc, &e);
    else
        check_marks(&text, &plain);
    tok_buf_finish(&text);
    tok_spans_finish(&plain);
    free(m);
    free(calls);
}

static void check_grammar(const struct api_request *r, enum chat_format f)
{
    struct answer_rules rules = { .think = r->think, .format = r->format, .schema = r->schema, .tools = r->tools,
                                  .choice = r->choice, .named = r->named, .parallel = r->parallel };
    struct tok_buf text = { 0 };
    struct err e = { 0 };
    int rc = answer_grammar(engine_chat_template(engines[f]), &rules, &text, &e);
    if (rc)
        check_line(rc, &e);
    tok_buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_defaults d = fuzz_defaults();
    char *body = malloc(size ? size : 1); /* with nothing behind it */
    if (!body)
        return 0;
    memcpy(body, data, size);
    for (int chat = 0; chat < 2; chat++) {
        struct api_request r;
        struct api_problem p = { 0 };
        if ((chat ? api_request_chat : api_request_completion)(&d, body, size, &r, &p)) {
            check_refused(&p);
        } else {
            check_read(&r, &d);
            for (int f = 0; chat && f < CHAT_FORMAT_COUNT; f++) {
                check_prompt(&r, (enum chat_format)f);
                if (r.tools || r.format != ANSWER_ANY)
                    check_grammar(&r, (enum chat_format)f);
            }
        }
        api_request_finish(&r);
    }
    free(body);
    return 0;
}
