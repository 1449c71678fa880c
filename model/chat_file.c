/* The file's own template (tokenizer.chat_template), interpreted. What it has a place for is found by trying: a short
 * conversation is rendered, and each of its texts has to be in what comes out. */
#include <stdio.h>
#include <time.h>

#include "base/ckd.h"
#include "base/json.h"
#include "jinja/jinja.h"
#include "model/chat_impl.h"

enum { SHORT_ID = 9 };

struct chat_file {
    struct jinja *template;
    json_t *own; /* bos_token, eos_token */
    char bos[64];
    bool adds_bos;
    struct chat_places has;
    bool parts;           /* contents are lists of {"type": "text", "text": ..} */
    bool argument_text;   /* arguments of calls are JSON text, not objects      */
    bool short_ids;       /* ids of calls have SHORT_ID letters and digits, or it refuses (Mistral) */
    bool tools;           /* it says which tools there are                      */
    const char *reasoning_key; /* of a message                                  */
    bool opens_thinking[3]; /* by enum chat_thinking: the prompt ends behind <think> */
    struct chat_info info;
};

const struct chat_info *chat_file_info(const struct chat_file *f)
{
    return &f->info;
}

bool chat_file_opens_thinking(const struct chat_file *f, enum chat_thinking t)
{
    return f->opens_thinking[t];
}

bool chat_file_takes_tools(const struct chat_file *f)
{
    return f->tools;
}

/* ---- the conversation as the template sees it ---- */

static json_t *text_json(const char *s)
{
    return json_stringn_nocheck(s ? s : "", s ? strlen(s) : 0);
}

static json_t *content_json(const struct chat_file *f, const char *s)
{
    if (!f->parts)
        return text_json(s);
    json_t *part = json_object(), *list = json_array();
    json_object_set_new(part, "type", json_string("text"));
    json_object_set_new(part, "text", text_json(s));
    json_array_append_new(list, part);
    return list;
}

/* Where ids have a length: one of that length for each, so that a call and its result have the same. */
static json_t *id_json(const struct chat_file *f, const char *id)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char text[SHORT_ID + 1] = "";
    if (!f->short_ids || (strlen(id) == SHORT_ID && strspn(id, letters) == SHORT_ID))
        return text_json(id);
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
    for (const char *s = id; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
    for (int i = 0; i < SHORT_ID; i++, h /= 62)
        text[i] = letters[h % 62];
    return text_json(text);
}

/* The id of a call that nobody gave one: the call's place in its message. */
static const char *own_id(char id[16], size_t i)
{
    snprintf(id, 16, "call%05zu", i % 100000); /* nine letters, which some templates count */
    return id;
}

static json_t *calls_json(struct chat_out *o, const struct chat_file *f, const struct chat_msg *m)
{
    json_t *list = json_array();
    char id[16];
    for (size_t i = 0; i < m->n_calls; i++) {
        const struct chat_call *c = &m->calls[i];
        json_t *call = json_object(), *function = json_object();
        json_t *args = f->argument_text ? NULL : chat_arguments(o, c);
        json_object_set_new(call, "id", id_json(f, c->id ? c->id : own_id(id, i)));
        json_object_set_new(call, "type", json_string("function"));
        json_object_set_new(function, "name", text_json(c->name));
        if (!args)
            args = text_json(c->arguments && *c->arguments ? c->arguments : "{}");
        json_object_set_new(function, "arguments", args);
        json_object_set_new(call, "function", function);
        json_array_append_new(list, call);
    }
    return list;
}

/* n_results: before this message, since the last one with calls. */
static json_t *message_json(struct chat_out *o, const struct chat_file *f, const struct chat_msg *m, size_t n_results)
{
    json_t *v = json_object();
    char id[16];
    json_object_set_new(v, "role", text_json(m->role));
    json_object_set_new(v, "content", content_json(f, m->content));
    if (m->reasoning)
        json_object_set_new(v, f->reasoning_key, text_json(m->reasoning));
    if (m->n_calls)
        json_object_set_new(v, "tool_calls", calls_json(o, f, m));
    if (m->name)
        json_object_set_new(v, "name", text_json(m->name));
    if (m->tool_call_id)
        json_object_set_new(v, "tool_call_id", id_json(f, m->tool_call_id));
    else if (f->short_ids && chat_role_is(m, "tool"))
        json_object_set_new(v, "tool_call_id", text_json(own_id(id, n_results)));
    return v;
}

static json_t *context_json(struct chat_out *o, const struct chat_file *f)
{
    json_t *v = json_object(), *messages = json_array();
    size_t n_results = 0;
    for (size_t i = 0; i < o->n; i++) {
        json_array_append_new(messages, message_json(o, f, &o->msg[i], n_results));
        n_results = chat_role_is(&o->msg[i], "tool") ? n_results + 1 : 0;
    }
    json_object_set_new(v, "messages", messages);
    json_object_set_new(v, "add_generation_prompt", json_boolean(o->opts->add_generation_prompt));
    if (o->tools)
        json_object_set(v, "tools", o->tools);
    if (o->opts->thinking != CHAT_THINK_DEFAULT) {
        json_object_set_new(v, "enable_thinking", json_boolean(o->opts->thinking == CHAT_THINK_ON));
        json_object_set_new(v, "thinking", json_boolean(o->opts->thinking == CHAT_THINK_ON));
    }
    if (o->opts->reasoning_effort)
        json_object_set_new(v, "reasoning_effort", text_json(o->opts->reasoning_effort));
    return v;
}

/* ---- rendering ---- */

static int put(void *user, const char *s, size_t n, bool data)
{
    struct chat_out *o = user;
    if (data)
        chat_textn(o, s, n);
    else
        chat_putn(o, s, n);
    return o->rc;
}

/* 0 or a negative errno; what went wrong is in e. */
static int run(struct chat_out *o, const struct chat_file *f, struct err *e)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", NULL };
    struct jinja_opts jo = { .own = f->own, .roles = roles, .max_output = CHAT_MAX_BYTES };
    struct tm day = { 0 };
    unsigned failures = json_failures();
    if (o->opts->date && strptime(o->opts->date, "%Y-%m-%d", &day))
        jo.now = &day;
    json_t *context = context_json(o, f);
    if (!o->rc && (!context || json_failures() != failures))
        chat_no_memory(o);
    jo.data = context;
    int rc = o->rc ? o->rc : jinja_render(f->template, &jo, put, o, e);
    json_decref(context);
    return rc;
}

/* The tokenizer writes BOS: not twice. */
static void drop_bos(struct chat_out *o, const struct chat_file *f, size_t from)
{
    size_t n = strlen(f->bos);
    if (from || !f->adds_bos || !n || o->b->n < n || memcmp(o->b->s, f->bos, n) != 0)
        return;
    if (o->plain && o->plain->n && o->plain->s[0].off < n)
        return; /* somebody only says so */
    memmove(o->b->s, o->b->s + n, o->b->n - n);
    o->b->n -= n;
    if (o->plain)
        tok_spans_skip(o->plain, n);
}

/* Ends behind the last message's text, which is to be continued: where somebody last says it, as the marks that follow may
 * have its letters too. */
static void cut_behind(struct chat_out *o, size_t from, const char *content)
{
    struct chat_span text = chat_trim(chat_span(content));
    for (size_t k = text.n ? o->plain->n : 0; k-- > 0 && o->plain->s[k].off >= from;) {
        struct tok_span t = o->plain->s[k];
        for (size_t i = t.len >= text.n ? t.len - text.n + 1 : 0; i-- > 0;) {
            if (memcmp(o->b->s + t.off + i, text.s, text.n) != 0)
                continue;
            chat_cut(o, t.off + i + text.n);
            return;
        }
    }
}

static int render_placed(struct chat_out *o, const struct chat_file *f, struct chat_places has, struct err *e)
{
    const struct chat_msg *msg = o->msg;
    size_t n = o->n, from = o->b->n;
    struct tok_spans own = { 0 }, *plain = o->plain;
    int rc = chat_order(o, has);
    if (!plain)
        o->plain = &own;
    if (!rc)
        rc = run(o, f, e);
    if (!rc && o->opts->continue_final)
        cut_behind(o, from, o->msg[o->n - 1].content);
    if (!rc)
        drop_bos(o, f, from);
    else
        chat_cut(o, from);
    o->msg = msg;
    o->n = n;
    o->plain = plain;
    tok_spans_finish(&own);
    free(o->ordered);
    free(o->texts);
    o->ordered = NULL;
    o->texts = NULL;
    return rc;
}

void chat_file_render(struct chat_out *o, const struct chat_file *f)
{
    struct err e = { 0 }, again = { 0 };
    int rc = render_placed(o, f, f->has, &e);
    if ((rc == -EPERM || rc == -EINVAL) && !o->rc) /* at worst everything is said by user and assistant in turns */
        rc = render_placed(o, f, (struct chat_places){ 0 }, &again) == 0 ? 0 : rc;
    if (rc && !o->rc)
        o->rc = err_set(o->e, rc == -EPERM ? -EINVAL : rc, "chat: the file's template %s: %s",
                        rc == -EPERM ? "refuses this conversation" : "fails", e.msg);
}

/* ---- trying out ---- */

enum { NEEDLES = 2 };
static const char *const needle[NEEDLES] = { "Zeroth-needle", "First-needle" };

struct trial {
    const struct chat_file *f;
    struct tok_buf text;
    int rc;
    struct err e;
    bool no_memory; /* in any of them: what was found says nothing then */
};

/* Renders; the text is in t->text. */
static void try(struct trial *t, const struct chat_msg *m, size_t n, const char *tools, const struct chat_opts *opts)
{
    struct chat_out o = { .b = &t->text, .e = &t->e, .msg = m, .n = n, .opts = opts };
    t->text.n = 0;
    bool no_memory = false;
    if (tools)
        o.tools = json_read(tools, strlen(tools), 0, NULL, &no_memory);
    t->rc = no_memory ? -ENOMEM : run(&o, t->f, &t->e);
    t->no_memory |= t->rc == -ENOMEM;
    json_decref(o.tools);
}

static bool says(const struct trial *t, const char *s)
{
    return !t->rc && t->text.n && memmem(t->text.s, t->text.n, s, strlen(s));
}

static bool says_both(const struct trial *t)
{
    return says(t, needle[0]) && says(t, needle[1]);
}

static const struct chat_opts asks = { .add_generation_prompt = true };

static void try_places(struct trial *t, struct chat_file *f)
{
    const struct chat_msg user = { .role = "user", .content = needle[0] };
    const struct chat_msg other = { .role = "user", .content = needle[1] };
    const struct chat_msg system = { .role = "system", .content = needle[1] };
    const struct chat_msg answer = { .role = "assistant", .content = "A" };
    const struct chat_call call = { "call00000", "weather", "{\"city\": \"Zeroth-needle\"}" };
    const struct chat_msg calls = { .role = "assistant", .calls = &call, .n_calls = 1 };
    const struct chat_msg result = { .role = "tool", .content = needle[1], .name = "weather",
                                     .tool_call_id = "call00000" };
    const struct chat_msg ask = { .role = "user", .content = "Q" };
    try(t, (struct chat_msg[]){ system, user }, 2, NULL, &asks);
    f->has.first_system = says_both(t);
    try(t, (struct chat_msg[]){ { .role = "system", .content = "S" }, ask, answer, system, user }, 5, NULL, &asks);
    f->has.late_system = f->has.first_system && says_both(t);
    try(t, (struct chat_msg[]){ user, other }, 2, NULL, &asks);
    f->has.same_role = says_both(t);
    try(t, (struct chat_msg[]){ { .role = "assistant", .content = needle[1] }, user }, 2, NULL, &asks);
    f->has.answer_first = says_both(t);
    try(t, (struct chat_msg[]){ ask, calls, result }, 3, NULL, &asks);
    if (!says_both(t)) {
        f->argument_text = true;
        try(t, (struct chat_msg[]){ ask, calls, result }, 3, NULL, &asks);
    }
    if (says_both(t)) {
        const struct chat_call long_id = { "call_0123456789", call.name, call.arguments };
        const struct chat_msg calls_long = { .role = "assistant", .calls = &long_id, .n_calls = 1 };
        const struct chat_msg result_long = { .role = "tool", .content = needle[1], .name = "weather",
                                              .tool_call_id = long_id.id };
        try(t, (struct chat_msg[]){ ask, calls_long, result_long }, 3, NULL, &asks);
        f->short_ids = !says_both(t);
        try(t, (struct chat_msg[]){ ask, calls, result }, 3, NULL, &asks);
    }
    f->has.calls = says(t, needle[0]);
    f->has.results = says(t, needle[1]);
    f->argument_text &= f->has.calls;
    try(t, (struct chat_msg[]){ ask, result }, 2, NULL, &asks);
    f->has.lone_results = says(t, needle[1]);
    try(t, &ask, 1, "[{\"type\":\"function\",\"function\":{\"name\":\"First-needle\",\"description\":\"D\",\"parameters\":"
                    "{\"type\":\"object\",\"properties\":{}}}}]", &asks);
    f->tools = says(t, needle[1]);
}

/* The forms of calls between marks, as the released templates write them: DeepSeek-V3.1, Kimi-K2, Mistral (Small 3.2, then
 * Devstral and Ministral 3, then Nemo), Functionary 3.1, Nemotron Nano v2, Apriel. GLM-4.5 to 4.7 and Seed-OSS have <tool_call> and its like, below. */
static const struct chat_named_calls deepseek = { "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "", "", "<｜tool▁sep｜>",
                                                  false };
static const struct chat_named_calls kimi = { "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "functions.", "",
                                              "<|tool_call_argument_begin|>", true };
static const struct chat_named_calls mistral_ids = { "", "", "", "[CALL_ID]", "[ARGS]", false };
static const struct chat_named_calls mistral = { "", "", "", "", "[ARGS]", false };
static const struct chat_named_calls functionary = { "", "", "", "", ">", false };
static const struct {
    const char *begin, *end;
    const struct chat_named_calls *named; /* NULL: a list */
} marked_calls[] = {
    { "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", &deepseek },
    { "<|tool_call_begin|>", "<|tool_call_end|>", &kimi },
    { "[TOOL_CALLS]", NULL, &mistral_ids },
    { "[TOOL_CALLS]", NULL, &mistral },
    { "<function=", "</function>", &functionary },
    { "[TOOL_CALLS]", NULL, NULL },
    { "<TOOLCALL>", "</TOOLCALL>", NULL },
    { "<tool_calls>", "</tool_calls>", NULL },
};

/* Takes `mark` off the front of *t. */
static bool takes(struct chat_span *t, const char *mark)
{
    size_t n = strlen(mark);
    if (t->n < n || memcmp(t->s, mark, n) != 0)
        return false;
    t->s += n;
    t->n -= n;
    return true;
}

/* Is what follows the mark of a call one to `weather` in this form? */
static bool is_marked_call(struct chat_span t, const struct chat_named_calls *named)
{
    if (!named)
        return takes(&t, "[") && (t = chat_trim(t), takes(&t, "{\"name\": \"weather\", \"arguments\": {"));
    if (!takes(&t, named->prefix) || !takes(&t, "weather") || (named->numbered && !takes(&t, ":0")) ||
        (*named->id_begin && !(takes(&t, named->id_begin) && takes(&t, "call00000"))))
        return false;
    return takes(&t, named->args_begin) && takes(&t, "{\"city\": ");
}

static bool try_marked_calls(struct trial *t, struct chat_file *f)
{
    struct chat_span all = { t->text.s, t->rc ? 0 : t->text.n };
    for (size_t i = 0; i < ARRAY_LEN(marked_calls); i++) {
        const char *p = chat_rfind(all, marked_calls[i].begin);
        if (!p)
            continue;
        p += strlen(marked_calls[i].begin);
        if (!is_marked_call((struct chat_span){ p, (size_t)(all.s + all.n - p) }, marked_calls[i].named))
            continue;
        f->info.calls = marked_calls[i].named ? CHAT_CALL_NAMED : CHAT_CALL_LIST;
        f->info.call_begin = marked_calls[i].begin;
        f->info.call_end = marked_calls[i].end;
        f->info.named = marked_calls[i].named;
        return true;
    }
    return false;
}

/* How a call is written, where that is one of the forms that answers are read by. */
static void try_calls(struct trial *t, struct chat_file *f)
{
    static const char *const marks[][2] = { { "<tool_call>", "</tool_call>" }, { "<seed:tool_call>", "</seed:tool_call>" } };
    const struct chat_call call = { "call00000", "weather", "{\"city\": \"Zeroth-needle\"}" };
    const struct chat_msg m[] = { { .role = "user", .content = "Q" },
                                  { .role = "assistant", .calls = &call, .n_calls = 1 } };
    if (!f->has.calls)
        return;
    try(t, m, 2, NULL, &(struct chat_opts){ 0 });
    if (try_marked_calls(t, f))
        return;
    struct chat_span all = { t->text.s, t->rc ? 0 : t->text.n };
    const char *const *mark = marks[0], *p = chat_rfind(all, mark[0]);
    if (!p)
        p = chat_rfind(all, (mark = marks[1])[0]);
    if (!p || !says(t, mark[1]))
        return;
    p += strlen(mark[0]);
    struct chat_span body = chat_trim((struct chat_span){ p, (size_t)(all.s + all.n - p) });
    if (body.n > 9 && memcmp(body.s, "{\"name\": ", 8) == 0 && chat_find(body, "\"arguments\""))
        f->info.calls = CHAT_CALL_JSON;
    else if (body.n > 10 && memcmp(body.s, "<function=", 10) == 0 && chat_find(body, "<parameter="))
        f->info.calls = CHAT_CALL_XML;
    else if (takes(&body, "weather") && (body = chat_trim(body), takes(&body, "<arg_key>city</arg_key>")) &&
             (body = chat_trim(body), takes(&body, "<arg_value>")))
        f->info.calls = CHAT_CALL_PAIRS;
    else
        return;
    f->info.call_begin = mark[0];
    f->info.call_end = mark[1];
}

/* The marks of reasoning; Magistral and Ministral 3 Reasoning have the second pair. */
static const char *const thoughts[][2] = { { "<think>", "</think>" }, { "[THINK]", "[/THINK]" } };

static void try_thinking(struct trial *t, struct chat_file *f, const char *text, size_t n)
{
    const struct chat_msg ask = { .role = "user", .content = "Q" };
    struct tok_buf by[3] = { 0 };
    struct chat_span all = { text, n };
    f->reasoning_key = chat_find(all, "reasoning_content") ? "reasoning_content"
                       : chat_find(all, "thinking")        ? "thinking"
                       : chat_find(all, "reasoning")       ? "reasoning"
                                                           : "reasoning_content";
    size_t k = 0;
    while (k < ARRAY_LEN(thoughts) && !chat_find(all, thoughts[k][1]))
        k++;
    if (k == ARRAY_LEN(thoughts))
        return;
    f->info.can_think = true;
    f->info.think_begin = thoughts[k][0];
    f->info.think_end = thoughts[k][1];
    size_t n_begin = strlen(thoughts[k][0]);
    for (int i = 0; i < 3; i++) {
        try(t, &ask, 1, NULL, &(struct chat_opts){ .thinking = (enum chat_thinking)i, .add_generation_prompt = true });
        struct chat_span s = chat_trim((struct chat_span){ t->text.s, t->rc ? 0 : t->text.n });
        f->opens_thinking[i] = s.n >= n_begin && memcmp(s.s + s.n - n_begin, thoughts[k][0], n_begin) == 0;
        if (!t->rc && tok_buf_add(&by[i], t->text.s, t->text.n))
            t->no_memory = true;
    }
    f->info.can_toggle = by[1].n != by[2].n || (by[1].n && memcmp(by[1].s, by[2].s, by[1].n) != 0);
    for (int i = 0; i < 3; i++)
        tok_buf_finish(&by[i]);
}

static int try_out(struct chat_file *f, const char *text, size_t n, struct err *e)
{
    struct trial t = { .f = f };
    const struct chat_msg user = { .role = "user", .content = needle[0] };
    try(&t, &user, 1, NULL, &asks);
    if (!says(&t, needle[0])) {
        f->parts = true;
        try(&t, &user, 1, NULL, &asks);
    }
    int rc = 0;
    if (!says(&t, needle[0]))
        rc = err_set(e, -EINVAL, "chat: the file's template does not say what the user said%s%s",
                     t.rc ? ": " : "", t.rc ? t.e.msg : "");
    if (!rc) {
        try_places(&t, f);
        try_calls(&t, f);
        try_thinking(&t, f, text, n);
    }
    tok_buf_finish(&t.text);
    return t.no_memory ? err_set(e, -ENOMEM, "chat: out of memory for the file's template") : rc;
}

/* *differs: by the template and by the detected format it is not the same. 0 or -ENOMEM. */
static int compare(const struct chat_file *f, const struct chat_template *detected, const struct chat_msg *m, size_t n,
                   const struct chat_opts *opts, bool *differ)
{
    struct chat_template own = { .file = f };
    struct tok_buf a = { 0 }, b = { 0 };
    int rc_a = chat_render(&own, m, n, opts, &a, NULL), rc_b = chat_render(detected, m, n, opts, &b, NULL);
    *differ |= rc_a || rc_b || a.n != b.n || (a.n && memcmp(a.s, b.s, a.n) != 0);
    tok_buf_finish(&a);
    tok_buf_finish(&b);
    return rc_a == -ENOMEM || rc_b == -ENOMEM ? -ENOMEM : 0;
}

int chat_file_replaces(const struct chat_file *f, const struct chat_template *detected, bool *replaces, struct err *e)
{
    const struct chat_msg m[] = { { .role = "system", .content = "Be brief." }, { .role = "user", .content = "Hello" },
                                  { .role = "assistant", .content = "Hi." }, { .role = "user", .content = "And now?" } };
    const struct chat_opts tools = { .add_generation_prompt = true,
                                     .tools = "[{\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": "
                                              "\"The time\", \"parameters\": {\"type\": \"object\", \"properties\": {\"zone\": "
                                              "{\"type\": \"string\"}}}}}]" };
    *replaces = false;
    if (!f->tools)
        return 0;
    int rc = compare(f, detected, m, 4, &asks, replaces);
    if (!rc)
        rc = compare(f, detected, m + 1, 1, &asks, replaces);
    if (!rc && f->info.calls != CHAT_CALL_NONE)
        rc = compare(f, detected, m, 2, &tools, replaces);
    return rc ? err_set(e, rc, "chat: out of memory for the file's template") : 0;
}

int chat_file_open(const char *text, size_t n, const char *bos, const char *eos, bool adds_bos, struct chat_file **out,
                   struct err *e)
{
    struct chat_file *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(e, -ENOMEM, "chat: out of memory");
    *f = (struct chat_file){ .adds_bos = adds_bos,
                             .info = { .name = "the file's own template" },
                             .reasoning_key = "reasoning_content" };
    snprintf(f->bos, sizeof f->bos, "%s", strlen(bos) < sizeof f->bos ? bos : "");
    int rc = jinja_parse(text, n, &f->template, e);
    if (!rc && !(f->own = json_pack("{s:s, s:s}", "bos_token", bos, "eos_token", eos)))
        rc = err_set(e, -ENOMEM, "chat: out of memory");
    if (!rc)
        rc = try_out(f, text, n, e);
    if (rc) {
        chat_file_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void chat_file_close(struct chat_file *f)
{
    if (!f)
        return;
    jinja_free(f->template);
    json_decref(f->own);
    free(f);
}
