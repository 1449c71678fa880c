/* POST /v1/completions: text goes on as the model continues it, control tokens unseen. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/grammar/json_schema.h"
#include "server/api_impl.h"

/* ---- the form ---- */

/* With echo the text begins with the prompt's. */
static int open_choice(struct api_choice *c, struct err *e)
{
    const struct engine *eng = c->x->api->o.eng;
    const struct api_request *r = &c->x->r;
    const struct api_prompt *p = &r->prompts[c->index / r->n];
    char *text = NULL;
    size_t n = 0;
    api_logprobs_init(&c->logprobs, eng, r->n_logprobs, true);
    if (!r->echo)
        return 0;
    int rc = p->text ? 0 : engine_decode(eng, p->ids, p->n_ids, 0, &text, &n, e);
    if (!rc) {
        out_escaped(&c->text, p->text ? p->text : text, p->text ? p->n_text : n);
        api_logprobs_echo(&c->logprobs, p->text ? p->text : text, p->text ? p->n_text : n);
    }
    free(text);
    return rc;
}

static int put(struct api_choice *c, const struct sched_token *t, const char *text, size_t n)
{
    if (c->x->r.only_prompt && !(t && t->of_prompt))
        return 0;
    if (t && t->of_prompt)
        api_logprobs_prompt(&c->logprobs, t);
    else if (t)
        api_logprobs_token(&c->logprobs, t);
    if (n)
        api_logprobs_text(&c->logprobs, text, n, false);
    out_escaped(&c->text, text, n);
    return 0;
}

static int close_choice(struct api_choice *c)
{
    api_logprobs_drop(&c->logprobs);
    return 0;
}

static void write_text(struct api_choice *c)
{
    struct out *o = &c->x->out;
    out_text(o, ",\"text\":\"");
    out_join(o, &c->text);
    out_text(o, "\",\"logprobs\":");
    api_logprobs_write(&c->logprobs, o);
}

static void flush(struct api_choice *c)
{
    if (!c->text.n && !c->text.failed)
        return;
    struct out *o = api_event_begin(c);
    write_text(c);
    out_clear(&c->text);
    out_text(o, ",\"finish_reason\":null");
    api_event_end(c);
}

static void last(struct api_choice *c)
{
    api_openai_last(c, ",\"text\":\"\"");
}

static void one(struct api_choice *c)
{
    write_text(c);
    out_text(&c->x->out, ",\"finish_reason\":\"");
    out_text(&c->x->out, c->finish);
    out_text(&c->x->out, "\"");
}

static void whole(struct api_exchange *x)
{
    api_openai_whole(x, one);
}

static void start(struct api_exchange *x, const struct api_call *c)
{
    (void)c;
    api_openai_start(x, "cmpl-", "text_completion");
}

static const struct api_form form = {
    "text/event-stream", start, open_choice, NULL, put, close_choice, flush, last, api_openai_end, whole,
    api_openai_broken, api_openai_ping, NULL, NULL,
};

/* ---- begin ---- */

int api_plain_prompt(const struct engine *eng, const struct api_prompt *p, struct engine_prompt *out, struct err *e)
{
    if (p->text)
        return engine_encode(eng, p->text, p->n_text, ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, &out->ids, &out->n, e);
    if (!(out->ids = calloc(p->n_ids + 1u, sizeof *out->ids)))
        return err_set(e, -ENOMEM, "out of memory for the prompt");
    memcpy(out->ids, p->ids, p->n_ids * sizeof *out->ids);
    out->n = p->n_ids;
    return 0;
}

static int make_prompts(struct api_exchange *x, struct api_problem *p)
{
    struct err e = { 0 };
    x->prompts = calloc(x->r.n_prompts, sizeof *x->prompts);
    if (!x->prompts)
        return api_refuse(p, 503, "out_of_memory", NULL, "out of memory for the request");
    x->n_prompts = x->r.n_prompts;
    for (uint32_t i = 0; i < x->n_prompts; i++) {
        const struct api_prompt *q = &x->r.prompts[i];
        int rc = x->r.suffix ? api_infill_prompt(x->api->o.eng, &x->r, q->text, &x->prompts[i], &e)
                             : api_plain_prompt(x->api->o.eng, q, &x->prompts[i], &e);
        if (rc) {
            api_problem_of(rc, &e, rc == -ENOTSUP ? "suffix" : "prompt", p);
            return rc;
        }
        if (!x->prompts[i].n)
            return api_refuse(p, 400, "invalid_value", "prompt", "prompt %u is empty, expected at least one token", i);
    }
    return 0;
}

static int put_schema(struct api_exchange *x, struct tok_buf *text, struct err *e)
{
    json_t *schema = json_read(x->r.schema, strlen(x->r.schema), JSON_DECODE_ANY, NULL, NULL);
    struct json_schema_opts o = { .strict = x->r.strict, .warnings = x->warnings = json_array() };
    int rc = schema ? json_schema_rules(schema, JSON_SCHEMA_VALUE, "root", &o, text, e)
                    : err_set(e, -ENOMEM, "out of memory for the schema");
    json_decref(schema);
    return rc;
}

/* The whole text is constrained: there is no reasoning and there are no tools. */
static int make_grammar(struct api_exchange *x, struct api_problem *p)
{
    const struct api_request *r = &x->r;
    struct tok_buf text = { 0 };
    struct err e = { 0 };
    int rc = 0;
    if (r->format == ANSWER_ANY)
        return 0;
    if (r->format == ANSWER_JSON_OBJECT)
        rc = grammar_json_to_gbnf(true, "root", &text, &e);
    else if (r->format == ANSWER_JSON_SCHEMA)
        rc = put_schema(x, &text, &e);
    else if (tok_buf_add(&text, r->schema, strlen(r->schema)))
        rc = err_set(&e, -ENOMEM, "out of memory for the grammar");
    if (!rc)
        rc = api_grammar(x->api, text.s, text.n, &x->grammar, &e);
    tok_buf_finish(&text);
    if (rc)
        api_problem_of(rc, &e, r->format_param, p);
    return rc;
}

void api_completion(struct api_exchange *x, const struct api_call *c)
{
    struct api_problem p;
    struct gen_opts gen = { .think_budget = -1 };
    if (api_request_completion(&x->api->defaults, c->body, c->n_body, &x->r, &p) || make_prompts(x, &p) ||
        make_grammar(x, &p))
        api_fail(x, &p);
    else
        api_run(x, c, &form, &gen);
}
