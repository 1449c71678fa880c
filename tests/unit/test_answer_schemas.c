/* Arguments of strict functions satisfy their schema, whatever the model does: random walks through the grammar of a call,
 * in the syntax of every chat format, are parsed back and checked by the specification's rules (schema_check.h). */
#include "tests/unit/answer_case.h"
#include "tests/unit/schema_check.h"

/* A vocabulary of bytes, marks, and pieces that tempt: ends of all syntaxes, words that read as values. */
static const char *const control[] = { "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>", "<|call|>",
                                       "<|tool_call>", "<tool_call|>", "<|\"|>", "<|python_tag|>" };
static const char *const pieces[] = {
    "<tool_call>", "</tool_call>", "\n</parameter>\n", "</parameter>", "<parameter=", "</function>", "\"}", "\": ", "null",
    "true", "None", "12", "ab", "abc", "\xc3\xa4", "\xf0\x9f\x99", "\\", "\n", "<|call|", "2024-02", "x-",
};
static const char *const closers[] = { "\n</parameter>\n", "</parameter>", "</function>", "</tool_call>", "\"", "}", "]", "<|\"|>",
                                       "<tool_call|>", "\n", "<|message|>", "<|end|>" };
enum {
    N_CONTROL = ARRAY_LEN(control),
    N_PIECES = ARRAY_LEN(pieces),
    END_ID = 256 + N_CONTROL + N_PIECES,
    N_VOCAB,
    N_WORDS = (N_VOCAB + 63) / 64,
    WALKS = 200,
};

static enum vocab_kind token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one[256];
    if (id < 256) {
        one[id] = (char)id;
        *bytes = &one[id];
        *n = 1;
        return id ? VOCAB_TEXT : VOCAB_UNUSED;
    }
    *bytes = id == END_ID ? "<|eog|>" : id < 256 + N_CONTROL ? control[id - 256] : pieces[id - 256 - N_CONTROL];
    *n = strlen(*bytes);
    return id == END_ID ? VOCAB_END : id < 256 + N_CONTROL ? VOCAB_CONTROL : VOCAB_TEXT;
}

static int32_t find(const char *text)
{
    for (int32_t id = END_ID - 1; id >= 0; id--) {
        const char *t;
        size_t n;
        token(NULL, id, &t, &n);
        if (n == strlen(text) && memcmp(t, text, n) == 0)
            return id;
    }
    ck_abort_msg("no token '%s'", text);
    return -1;
}

static const enum chat_format formats[] = { CHAT_QWEN3, CHAT_QWEN3_CODER, CHAT_QWEN35, CHAT_LLAMA31, CHAT_GPT_OSS, CHAT_GEMMA4 };
enum { JSON = 1, XML = 2 | 4, LLAMA = 8, HARMONY = 16, GEMMA = 32, ALL = 63 };

/* Of a property p that is required; a whole schema of the arguments begins with a bang. */
static const struct {
    const char *schema;
    unsigned refused; /* by formats whose syntax cannot carry it */
} schemas[] = {
    { "{'type':'string','maxLength':3}", 0 },
    { "{'type':'string','minLength':2,'maxLength':5}", 0 },
    { "{'type':'string','minLength':4}", 0 },
    { "{'type':'string','pattern':'^[a-c]{2,4}$'}", 0 },
    { "{'type':'string','pattern':'[b-z]'}", 0 },
    { "{'type':'string','pattern':'^<.*>$','maxLength':20}", 0 },
    { "{'type':'string','pattern':'^[a-z]+$','maxLength':6,'minLength':2}", 0 },
    { "{'allOf':[{'pattern':'a'},{'pattern':'b'},{'maxLength':9}],'type':'string'}", 0 },
    { "{'type':'string','format':'date'}", 0 },
    { "{'type':'string','format':'uuid'}", 0 },
    { "{'type':'string','format':'ipv4'}", 0 },
    { "{'type':'string','format':'email','maxLength':30}", 0 },
    { "{'type':'string','not':{'enum':['','ab']},'maxLength':2}", 0 },
    { "{'$ref':'#/$defs/e'}", 0 },
    { "{'allOf':[{'$ref':'#/$defs/e'},{'enum':['b','null','x']}]}", 0 },
    { "{'anyOf':[{'$ref':'#/$defs/e'},{'type':'null'}]}", 0 },
    { "{'type':'string','enum':['a','b'],'nullable':true}", 0 },
    { "{'type':['string','null'],'maxLength':4}", 0 },
    { "{'type':['string','boolean'],'minLength':1,'maxLength':5}", 0 },
    { "{'anyOf':[{'type':'string','maxLength':5},{'const':true}]}", 0 },
    { "{'enum':[true]}", 0 },
    { "{'type':'boolean','not':{'const':false}}", 0 },
    { "{'enum':['true',true,null,'5',5,'']}", 0 },
    { "{'const':'</parameter'}", 0 },
    { "{'const':'a\\nb\\n'}", 0 },
    { "{'anyOf':[{'type':'string','maxLength':4},{'type':'integer','minimum':10}]}", 0 },
    { "{'type':['string','integer']}", 0 },
    { "{}", 0 },
    { "{'type':'integer','minimum':-3,'maximum':120}", 0 },
    { "{'type':'integer','multipleOf':7}", 0 },
    { "{'type':'number','exclusiveMinimum':0,'maximum':2.5}", 0 },
    { "{'type':'number','multipleOf':0.01}", 0 },
    { "{'type':'array','items':{'type':'string','maxLength':14},'minItems':1,'maxItems':3}", 0 },
    { "{'type':'array','items':{'enum':['a','b','c']},'uniqueItems':true,'minItems':2}", 0 },
    { "{'type':'array','prefixItems':[{'type':'integer'},{'type':'string','pattern':'^x'}],'items':false,'minItems':2}", 0 },
    { "{'type':'object','properties':{'b':{'type':'string','minLength':1,'maxLength':3},'A':{'type':'integer','maximum':9}},"
      "'required':['b'],'additionalProperties':false}", 0 },
    { "{'type':'object','properties':{'a':{'const':{'k':['v',1,null]}}},'required':['a']}", 0 },
    { "{'type':'object','additionalProperties':{'type':'integer','minimum':0},'maxProperties':2}", 0 },
    { "{'type':'object','properties':{'a':{},'b':{},'c':{}},'minProperties':2}", 0 },
    { "{'type':'object','propertyNames':{'pattern':'^[a-z]+$','maxLength':4}}", 0 },
    { "{'type':'object','patternProperties':{'^x-':{'type':'boolean'}},'additionalProperties':false}", 0 },
    { "{'$ref':'#/$defs/tree'}", 0 },
    { "!{'type':'object','properties':{'a b':{'type':'string','maxLength':2},'c':{'type':'integer','minimum':5}},"
      "'required':['a b'],'additionalProperties':false}", 0 },
    { "!{'type':'object','properties':{'a>':{'type':'integer'}},'required':['a>']}", XML },
    { "!{'type':'object','properties':{'a\\n':{'type':'integer'}},'required':['a\\n']}", XML },
    { "!{'type':'object','properties':{'':{'type':'integer'}},'required':['']}", XML },
    { "!{'type':'object','properties':{' a':{'type':'integer'}},'required':[' a']}", XML },
    { "!{'type':'object','properties':{'a:b':{'type':'integer','maximum':4}},'required':['a:b']}", 0 },
    { "!{'type':'object','properties':{'a':{},'b':{},'c':{}},'minProperties':1,'maxProperties':2}", 0 },
    { "!{'anyOf':[{'properties':{'k':{'const':'s'},'v':{'type':'string','maxLength':3}},'required':['k','v']},"
      "{'properties':{'k':{'const':'i'},'v':{'type':'integer','minimum':3}},'required':['k','v']}]}", 0 },
    { "!{'type':'object','additionalProperties':{'type':'string','maxLength':3}}", 0 },
    { "!{'$ref':'#/$defs/o','$defs':{'o':{'type':'object','properties':{'s':{'$ref':'#/$defs/s'}},'required':['s']},"
      "'s':{'type':'string','pattern':'^a+$'}}}", 0 },
};

static json_t *parameters_of(const char *schema)
{
    static const char around[] = "{'type':'object','properties':{'p':%s,'q':{'type':'string'}},'required':['p'],"
                                 "'additionalProperties':false,'$defs':{'e':{'type':'string','enum':['a','b','null']},"
                                 "'tree':{'type':'object','properties':{'v':{'type':'integer','minimum':0},'next':{'$ref':"
                                 "'#/$defs/tree'}},'required':['v'],'additionalProperties':false}}}";
    char text[4096];
    json_error_t je;
    if (*schema == '!')
        snprintf(text, sizeof text, "%s", schema + 1);
    else
        snprintf(text, sizeof text, around, schema);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *v = json_loads(text, 0, &je);
    ck_assert_msg(v != NULL, "%s: %s", text, je.text);
    return v;
}

/* Check tells its parent of every assertion that holds, which costs more than all else here. */
#define must(ok, ...) ((ok) ? (void)0 : ck_abort_msg(__VA_ARGS__))

/* ---- walks ---- */

static uint64_t rng;

static uint32_t rnd(uint32_t below)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % below;
}

static bool allowed(const uint64_t *mask, int32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

/* The n-th of the allowed tokens. */
static int32_t nth(const uint64_t *mask, uint32_t n)
{
    for (int32_t w = 0;; w++) {
        uint32_t k = (uint32_t)__builtin_popcountll(mask[w]);
        uint64_t m = mask[w];
        if (n >= k) {
            n -= k;
            continue;
        }
        while (n--)
            m &= m - 1;
        return w * 64 + __builtin_ctzll(m);
    }
}

static int32_t pick(const uint64_t *mask, int at)
{
    static int32_t close[ARRAY_LEN(closers)];
    uint32_t n = 0;
    if (!close[0])
        for (size_t i = 0; i < ARRAY_LEN(closers); i++)
            close[i] = find(closers[i]);
    if (allowed(mask, END_ID))
        return END_ID;
    for (size_t i = 0; i < ARRAY_LEN(closers) && rnd(100) < 20 + (uint32_t)at; i++) {
        int32_t id = close[rnd(ARRAY_LEN(closers))];
        if (allowed(mask, id))
            return id;
    }
    for (int32_t id = 256; id < END_ID && rnd(3) == 0; id++) {
        int32_t k = 256 + (int32_t)rnd(END_ID - 256);
        if (allowed(mask, k))
            return k;
    }
    for (int w = 0; w < N_WORDS; w++)
        n += (uint32_t)__builtin_popcountll(mask[w]);
    return n ? nth(mask, rnd(n)) : -1;
}

static bool walk(struct grammar *g, struct tok_buf *out)
{
    struct grammar_state *st;
    bool ended = false;
    out->n = 0;
    must(grammar_state_create(g, &st, NULL) == 0, "no state");
    for (int i = 0; i < 250 && !ended; i++) {
        const char *t;
        size_t n;
        int32_t id = pick(grammar_state_mask(st), i);
        must(id >= 0, "nothing may follow %.*s", (int)out->n, out->s);
        must(grammar_state_accept(st, id) == 0, "token %d", id);
        token(NULL, id, &t, &n);
        ended = id == END_ID;
        if (!ended)
            must(tok_buf_add(out, t, n) == 0, "out of memory");
    }
    grammar_state_destroy(st);
    return ended;
}

/* ---- what comes back ---- */

struct seen {
    struct tok_buf args;
    uint32_t complete, cut;
};

static int on_text(void *user, const char *s, size_t n)
{
    return 0;
}

static int on_begin(void *user, uint32_t index, const char *name)
{
    ((struct seen *)user)->args.n = 0;
    return 0;
}

static int on_arguments(void *user, uint32_t index, const char *s, size_t n)
{
    return tok_buf_add(&((struct seen *)user)->args, s, n);
}

static int on_end(void *user, uint32_t index, bool complete)
{
    struct seen *g = user;
    g->complete += complete;
    g->cut += !complete;
    return 0;
}

static void check_back(enum chat_format f, const char *tools, const json_t *params, const struct tok_buf *text)
{
    static struct seen seen;
    const struct answer_sink sink = { on_text, on_text, on_begin, on_arguments, on_end, NULL };
    const struct answer_opts o = { .think = 0, .tools = tools, .forced_call = true };
    struct answer *a;
    seen.complete = seen.cut = 0;
    must(answer_create(format_chat(f), &o, &sink, &seen, &a, NULL) == 0, "no answer");
    must(answer_put(a, text->s, text->n) == 0 && answer_end(a) == 0, "out of memory");
    answer_destroy(a);
    json_t *v = json_loadb(seen.args.s, seen.args.n, JSON_ALLOW_NUL, NULL);
    if (!v) /* integers of more than 64 bits are fine */
        v = json_loadb(seen.args.s, seen.args.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    must(seen.complete == 1 && !seen.cut && schema_valid(params, v, params), "%s: %s\n%.*s\n%.*s",
                  chat_format_info(f)->name, tools, (int)text->n, text->s, (int)seen.args.n, seen.args.s);
    json_decref(v);
}

static struct vocab_index *vocabulary(void)
{
    static struct vocab_index *v;
    const struct vocab_source src = { N_VOCAB, NULL, token };
    if (!v)
        ck_assert_int_eq(vocab_index_create(&src, &v, NULL), 0);
    return v;
}

static void walk_format(enum chat_format f, const char *tools, const json_t *params, bool refused)
{
    const struct answer_rules rules = { .think = 0, .tools = tools, .choice = ANSWER_TOOLS_REQUIRED };
    struct tok_buf gbnf = { 0 }, text = { 0 };
    struct grammar *g;
    struct err e = { 0 };
    uint32_t ended = 0;
    int rc = answer_grammar(format_chat(f), &rules, &gbnf, &e);
    ck_assert_msg(rc == (refused ? -ENOTSUP : 0), "%s: %s: %d %s", chat_format_info(f)->name, tools, rc, e.msg);
    if (!rc) {
        ck_assert_msg(grammar_from_gbnf(vocabulary(), gbnf.s, gbnf.n, &g, &e) == 0, "%s: %s", tools, e.msg);
        for (int i = 0; i < WALKS; i++) {
            if (!walk(g, &text))
                continue;
            ended++;
            check_back(f, tools, params, &text);
        }
        ck_assert_msg(ended >= WALKS / 2, "%s: %s: %u ended", chat_format_info(f)->name, tools, ended);
        grammar_unref(g);
    }
    tok_buf_finish(&gbnf);
    tok_buf_finish(&text);
}

START_TEST(what_is_let_through_satisfies_the_schema)
{
    json_t *params = parameters_of(schemas[_i].schema);
    json_t *tools = json_pack("[{s:s,s:{s:s,s:b,s:O}}]", "type", "function", "function", "name", "f", "strict", 1,
                              "parameters", params);
    char *text = json_dumps(tools, JSON_COMPACT);
    rng = 88172645463325252u + (uint64_t)_i;
    for (size_t f = 0; f < ARRAY_LEN(formats); f++)
        walk_format(formats[f], text, params, schemas[_i].refused >> f & 1);
    free(text);
    json_decref(tools);
    json_decref(params);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("answer_schemas");
    TCase *t = tcase_create("answer_schemas");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, what_is_let_through_satisfies_the_schema, 0, ARRAY_LEN(schemas));
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
