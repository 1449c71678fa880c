/* Chats, whatever their dialect: the request becomes a prompt and a grammar, and what the model says is taken apart into
 * reasoning, content and calls, one part after the other. How a part is written is the form's (api_part_form). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

/* ---- parts ---- */

void api_parts_flush(struct api_choice *c)
{
    if (!c->text.n && !c->text.failed)
        return;
    c->x->form->parts->text(c);
    out_clear(&c->text);
}

static void leave(struct api_choice *c, bool complete)
{
    const struct api_part_form *form = c->x->form->parts;
    if (c->part == API_NO_PART)
        return;
    if (c->x->r.stream)
        api_parts_flush(c);
    if (form->end)
        form->end(c, complete);
    out_clear(&c->text);
    c->part = API_NO_PART;
    c->n_parts++;
}

/* Where text of this part goes. */
static struct out *enter(struct api_choice *c, enum api_part part, const char *name)
{
    if (c->part == part && !name)
        return &c->text;
    leave(c, true);
    c->part = part;
    if (c->x->form->parts->begin)
        c->x->form->parts->begin(c, name);
    return &c->text;
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    struct api_choice *c = user;
    if (c->resuming)
        return 0;
    api_logprobs_drop(&c->logprobs);
    out_escaped(enter(c, API_REASONING, NULL), text, n);
    return 0;
}

static int on_text(void *user, const char *text, size_t n)
{
    struct api_choice *c = user;
    if (c->resuming)
        return 0;
    struct out *o = enter(c, API_CONTENT, NULL);
    api_logprobs_text(&c->logprobs, text, n, !c->said);
    c->said = true;
    out_escaped(o, text, n);
    return 0;
}

static int on_call_begin(void *user, uint32_t index, const char *name)
{
    struct api_choice *c = user;
    api_logprobs_drop(&c->logprobs);
    leave(c, true);
    c->call = index;
    enter(c, API_ARGUMENTS, name);
    return 0;
}

static int on_call_arguments(void *user, uint32_t index, const char *json, size_t n)
{
    struct api_choice *c = user;
    (void)index;
    api_logprobs_drop(&c->logprobs);
    out_raw(&c->text, json, n);
    return 0;
}

static int on_call_end(void *user, uint32_t index, bool complete)
{
    struct api_choice *c = user;
    (void)index;
    c->cut |= !complete;
    leave(c, complete);
    return 0;
}

/* What a stream has told of a call cannot be taken back: its arguments end where the model broke off. */
static int on_call_cancel(void *user, uint32_t index, const char *raw, size_t n)
{
    (void)raw, (void)n;
    return on_call_end(user, index, false);
}

void api_call_id(const struct api_choice *c, const char *prefix, struct out *o)
{
    char id[24];
    snprintf(id, sizeof id, "%016llx%02x%02x", (unsigned long long)c->x->nonce, c->index & 0xff, c->call & 0xff);
    out_text(o, prefix);
    out_text(o, id);
}

/* ---- for forms ---- */

void api_parts_text(const struct api_choice *c, struct out *o)
{
    if (c->part == API_ARGUMENTS)
        out_escaped(o, c->text.s ? c->text.s : "", c->text.n);
    else
        out_join(o, &c->text);
    o->failed |= c->text.failed;
}

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

int api_parts_open(struct api_choice *c, struct err *e)
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
    if (r->n_prompts)
        return 0;
    int rc = answer_create(engine_chat_template(eng), &o, &sink, c, &c->answer, e);
    return rc || !r->continue_final ? rc : resume(c, e);
}

int api_parts_put(struct api_choice *c, const struct sched_token *t, const char *text, size_t n)
{
    if (t)
        api_logprobs_token(&c->logprobs, t);
    if (!c->answer)
        return n ? on_text(c, text, n) : 0;
    return n ? answer_put(c->answer, text, n) : 0;
}

int api_parts_close(struct api_choice *c)
{
    int rc = c->answer ? answer_end(c->answer) : 0;
    leave(c, true);
    if (!c->answer)
        return rc;
    if (answer_n_calls(c->answer) && !c->cut && strcmp(c->finish, "stop") == 0)
        c->finish = "tool_calls"; /* all of them can be run */
    return rc;
}

void api_parts_destroy(struct api_choice *c)
{
    answer_destroy(c->answer);
    for (size_t i = 0; i < sizeof c->parts / sizeof *c->parts; i++)
        out_finish(&c->parts[i]);
    out_finish(&c->args);
}

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
    int rc = r->suffix      ? api_infill_prompt(x->api->o.eng, r, r->prompts[0].text, x->prompts, &e)
             : r->n_prompts ? api_plain_prompt(x->api->o.eng, &r->prompts[0], x->prompts, &e)
                            : engine_chat_prompt(x->api->o.eng, r->messages, r->n_messages, &o, x->prompts, &e);
    if (!rc) {
        x->n_prompts = 1;
        return 0;
    }
    const char *chat = rc == -ENOTSUP ? "tools" : r->items ? "input" : "messages";
    api_problem_of(rc, &e, r->suffix ? "suffix" : r->n_prompts ? "prompt" : chat, p);
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
    if (r->warnings)
        json_array_extend(x->warnings, r->warnings);
    int rc = answer_grammar(engine_chat_template(x->api->o.eng), &rules, &text, &e);
    if (!rc && text.n)
        rc = api_grammar(x->api, text.s, text.n, &x->grammar, &e);
    tok_buf_finish(&text);
    if (rc)
        api_problem_of(rc, &e, r->format_param ? r->format_param : r->tools ? "tools" : NULL, p);
    return rc;
}

int api_converse_read(struct api_exchange *x, const struct api_call *c, api_reader *read, struct api_problem *p)
{
    struct api_defaults d = x->api->defaults;
    d.previous = api_previous_items;
    d.user = x;
    x->owner = c->owner;
    return read(&d, c->body, c->n_body, &x->r, p);
}

int api_converse_prompt(struct api_exchange *x, struct api_problem *p)
{
    return make_prompt(x, p);
}

/* Its tokens, as far as a context has them. */
static int make_prediction(struct api_exchange *x, struct gen_opts *gen, struct api_problem *p)
{
    const char *text = x->r.predicted;
    struct err e = { 0 };
    uint32_t n;
    if (!text || !*text)
        return 0;
    int rc = engine_encode(x->api->o.eng, text, strlen(text), 0, &x->ids, &n, &e);
    if (rc) {
        api_problem_of(rc, &e, "prediction", p);
        return rc;
    }
    if (budget_take(x->api->o.budget, n * sizeof *x->ids))
        return api_refuse(p, 429, "overloaded", "prediction", "no memory for a prediction of this size now (--max-memory)");
    x->n_ids = n;
    gen->n_draft = DRAFT_MOST;
    gen->predicted = x->ids;
    gen->n_predicted = MIN(n, engine_info(x->api->o.eng)->n_ctx);
    return 0;
}

void api_converse_on(struct api_exchange *x, const struct api_call *c, const struct api_form *form)
{
    struct api_problem p;
    bool chat = !x->r.n_prompts;
    struct gen_opts gen = { 0 };
    if (make_prompt(x, &p) || (chat && make_grammar(x, &p)) || make_prediction(x, &gen, &p)) {
        api_fail(x, &p);
        return;
    }
    bool thinks = chat && !x->r.continue_final; /* else that is over */
    gen.show_special = chat;
    gen.chat = thinks ? engine_chat_template(x->api->o.eng) : NULL;
    gen.think = x->r.think;
    gen.think_budget = chat ? x->r.think_budget : -1;
    api_run(x, c, form, &gen);
}

void api_converse(struct api_exchange *x, const struct api_call *c, api_reader *read, const struct api_form *form)
{
    struct api_problem p;
    if (api_converse_read(x, c, read, &p))
        api_fail(x, &p);
    else
        api_converse_on(x, c, form);
}

/* What a grammar for a call can be made of, the format has. */
bool api_has_tools(const struct engine *eng)
{
    struct answer_rules rules = { .think = -1, .choice = ANSWER_TOOLS_REQUIRED,
                                  .tools = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]" };
    struct tok_buf text = { 0 };
    bool has = answer_grammar(engine_chat_template(eng), &rules, &text, NULL) == 0;
    tok_buf_finish(&text);
    return has;
}
