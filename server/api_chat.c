/* POST /v1/chat/completions: what the model says is taken apart into reasoning, content and calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_impl.h"

/* ---- what the answer consists of ---- */

static void write_part(struct api_choice *c, struct out *o)
{
    if (c->part == API_ARGUMENTS) {
        out_text(o, "\"tool_calls\":[{\"index\":");
        out_int(o, c->call);
        out_text(o, ",\"function\":{\"arguments\":\"");
    } else {
        out_text(o, c->part == API_REASONING ? "\"reasoning_content\":\"" : "\"content\":\"");
    }
    out_join(o, &c->text);
    out_text(o, c->part == API_ARGUMENTS ? "\"}}]" : "\"");
    out_clear(&c->text);
}

static void flush(struct api_choice *c)
{
    if (!c->text.n && !c->text.failed)
        return;
    struct out *o = api_event_begin(c);
    bool content = c->part == API_CONTENT;
    out_text(o, ",\"delta\":{");
    write_part(c, o);
    out_text(o, "},\"logprobs\":");
    if (content)
        api_logprobs_write(&c->logprobs, o);
    else
        out_text(o, "null");
    out_text(o, ",\"finish_reason\":null");
    api_event_end(c);
}

/* Where text of this part goes: an event has one part only. */
static struct out *into(struct api_choice *c, enum api_part part)
{
    if (!c->x->r.stream)
        return part == API_CONTENT ? &c->text : part == API_REASONING ? &c->reasoning : &c->calls;
    if (c->part != part)
        flush(c);
    c->part = part;
    return &c->text;
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    struct api_choice *c = user;
    if (c->resuming)
        return 0;
    api_logprobs_drop(&c->logprobs);
    out_escaped(into(c, API_REASONING), text, n);
    return 0;
}

static int on_text(void *user, const char *text, size_t n)
{
    struct api_choice *c = user;
    if (c->resuming)
        return 0;
    struct out *o = into(c, API_CONTENT);
    api_logprobs_text(&c->logprobs, text, n, !c->said);
    c->said = true;
    out_escaped(o, text, n);
    return 0;
}

static void write_call(struct api_choice *c, struct out *o, const char *name)
{
    char id[40];
    snprintf(id, sizeof id, "\"call_%016llx%02x%02x\"", (unsigned long long)c->x->nonce, c->index & 0xff,
             c->call & 0xff);
    out_text(o, "\"id\":");
    out_text(o, id);
    out_text(o, ",\"type\":\"function\",\"function\":{\"name\":");
    out_string(o, name, strlen(name));
    out_text(o, ",\"arguments\":\"");
}

static int on_call_begin(void *user, uint32_t index, const char *name)
{
    struct api_choice *c = user;
    api_logprobs_drop(&c->logprobs);
    if (c->x->r.stream) {
        flush(c);
        c->call = index;
        c->part = API_ARGUMENTS;
        struct out *o = api_event_begin(c);
        out_text(o, ",\"delta\":{\"tool_calls\":[{\"index\":");
        out_int(o, index);
        out_text(o, ",");
        write_call(c, o, name);
        out_text(o, "\"}}]},\"logprobs\":null,\"finish_reason\":null");
        api_event_end(c);
    } else {
        c->call = index;
        out_text(&c->calls, c->calls.n ? ",{" : "{");
        write_call(c, &c->calls, name);
    }
    return 0;
}

static int on_call_arguments(void *user, uint32_t index, const char *json, size_t n)
{
    struct api_choice *c = user;
    (void)index;
    api_logprobs_drop(&c->logprobs);
    out_escaped(into(c, API_ARGUMENTS), json, n);
    return 0;
}

/* A call that was cut off is told as far as it came, in a stream and in a whole answer alike. */
static int on_call_end(void *user, uint32_t index, bool complete)
{
    struct api_choice *c = user;
    (void)index;
    if (!c->x->r.stream)
        out_text(&c->calls, "\"}}");
    c->cut |= !complete;
    return 0;
}

/* What a stream has told of a call cannot be taken back: its arguments end where the model broke off. */
static int on_call_cancel(void *user, uint32_t index, const char *raw, size_t n)
{
    (void)raw, (void)n;
    return on_call_end(user, index, false);
}

/* ---- the form ---- */

/* The answer begins in the middle: the parser reads how the model came there, with a letter for what was said, since
 * white space at a beginning is not passed on. */
static int resume(struct api_choice *c, struct err *e)
{
    const char *before = engine_chat_resume(c->x->api->o.eng, c->x->r.think);
    c->resuming = true;
    int rc = answer_put(c->answer, before, strlen(before));
    if (!rc)
        rc = answer_put(c->answer, "x", 1);
    c->resuming = false;
    c->said = true;
    return rc ? err_set(e, rc, "out of memory for the answer") : 0;
}

static int open_choice(struct api_choice *c, struct err *e)
{
    const struct answer_sink sink = {
        .reasoning = on_reasoning, .text = on_text, .call_begin = on_call_begin, .call_arguments = on_call_arguments,
        .call_end = on_call_end, .call_cancel = c->x->r.stream ? on_call_cancel : NULL,
    };
    const struct api_request *r = &c->x->r;
    const struct engine *eng = c->x->api->o.eng;
    struct answer_opts o = { .think = r->think, .tools = r->tools,
                             .forced_call = r->choice == ANSWER_TOOLS_REQUIRED || r->choice == ANSWER_TOOLS_NAMED };
    api_logprobs_init(&c->logprobs, eng, r->n_logprobs, false);
    int rc = answer_create(engine_chat_template(eng), &o, &sink, c, &c->answer, e);
    return rc || !r->continue_final ? rc : resume(c, e);
}

static void begin(struct api_choice *c)
{
    struct out *o = api_event_begin(c);
    out_text(o, ",\"delta\":{\"role\":\"assistant\",\"content\":null},\"logprobs\":null,\"finish_reason\":null");
    api_event_end(c);
}

static int put(struct api_choice *c, const struct sched_token *t, const char *text, size_t n)
{
    if (t)
        api_logprobs_token(&c->logprobs, t);
    return n ? answer_put(c->answer, text, n) : 0;
}

static int close_choice(struct api_choice *c)
{
    int rc = answer_end(c->answer);
    if (answer_n_calls(c->answer) && !c->cut && strcmp(c->finish, "stop") == 0)
        c->finish = "tool_calls"; /* all of them can be run */
    return rc;
}

static void last(struct api_choice *c)
{
    out_text(&c->x->out, ",\"delta\":{}");
}

static void whole(struct api_choice *c)
{
    struct out *o = &c->x->out;
    out_text(o, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->text.n || c->text.failed || !c->calls.n) {
        out_text(o, "\"");
        out_join(o, &c->text);
        out_text(o, "\"");
    } else {
        out_text(o, "null");
    }
    if (c->reasoning.n || c->reasoning.failed) {
        out_text(o, ",\"reasoning_content\":\"");
        out_join(o, &c->reasoning);
        out_text(o, "\"");
    }
    if (c->calls.n || c->calls.failed) {
        out_text(o, ",\"tool_calls\":[");
        out_join(o, &c->calls);
        out_text(o, "]");
    }
    out_text(o, ",\"refusal\":null},\"logprobs\":");
    api_logprobs_write(&c->logprobs, o);
    out_text(o, ",\"finish_reason\":\"");
    out_text(o, c->finish);
    out_text(o, "\"");
}

static void destroy(struct api_choice *c)
{
    answer_destroy(c->answer);
    out_finish(&c->reasoning);
    out_finish(&c->calls);
}

static const struct api_form form = {
    "chatcmpl-", "chat.completion", "chat.completion.chunk", open_choice, begin, put, close_choice, flush, last, whole,
    destroy,
};

/* ---- begin ---- */

static int make_prompt(struct api_exchange *x, struct api_problem *p)
{
    const struct api_request *r = &x->r;
    struct engine_chat_opts o = { .think = r->think, .tools = r->tools, .effort = r->effort,
                                  .continue_final = r->continue_final };
    struct err e = { 0 };
    x->prompts = calloc(1, sizeof *x->prompts);
    if (!x->prompts)
        return api_refuse(p, 503, "out_of_memory", NULL, "out of memory for the request");
    int rc = engine_chat_prompt(x->api->o.eng, r->messages, r->n_messages, &o, x->prompts, &e);
    if (!rc) {
        x->n_prompts = 1;
        return 0;
    }
    api_problem_of(rc, &e, rc == -ENOTSUP ? "tools" : "messages", p);
    return rc;
}

static int make_grammar(struct api_exchange *x, struct api_problem *p)
{
    const struct api_request *r = &x->r;
    struct answer_rules rules = { .think = r->think, .format = r->format, .schema = r->schema, .tools = r->tools,
                                  .choice = r->choice, .named = r->named, .parallel = r->parallel,
                                  .strict = r->strict, .warnings = x->warnings = json_array() };
    struct tok_buf text = { 0 };
    struct err e = { 0 };
    int rc = answer_grammar(engine_chat_template(x->api->o.eng), &rules, &text, &e);
    if (!rc && text.n)
        rc = api_grammar(x->api, text.s, text.n, &x->grammar, &e);
    tok_buf_finish(&text);
    if (rc)
        api_problem_of(rc, &e, r->format_param ? r->format_param : r->tools ? "tools" : NULL, p);
    return rc;
}

void api_chat(struct api_exchange *x, const struct api_call *c)
{
    const struct engine *eng = x->api->o.eng;
    struct api_problem p;
    if (api_request_chat(&x->api->defaults, c->body, c->n_body, &x->r, &p) || make_prompt(x, &p) ||
        make_grammar(x, &p)) {
        api_fail(x, &p);
        return;
    }
    bool thinks = !x->r.continue_final; /* else that is over */
    struct gen_opts gen = { .show_special = true, .chat = thinks ? engine_chat_template(eng) : NULL,
                            .think = x->r.think, .think_budget = x->r.think_budget };
    api_run(x, c, &form, &gen);
}
