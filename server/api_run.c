/* Exchanges that generate: jobs are submitted, and what they make is written in the endpoint's form, whole or as
 * server-sent events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "server/api_impl.h"
#include "server/sys.h"

enum { DRAIN_RETRY_S = 5, LEAST_AT_A_TIME = 4 };
#define SIGN_NS         2000000000ull  /* clients hear something every 3 seconds, as far as the network goes */
#define WHOLE_SIGN_NS   20000000000ull
#define WAITING_SIGN_NS 60000000000ull

/* ---- ends ---- */

/* Of all choices; a prompt counts once, however many answers were asked for. */
static void sum_up(struct api_exchange *x)
{
    struct api_usage u = { .reason = x->usage.reason };
    x->n_thought = x->n_guessed = x->n_right = 0;
    for (uint32_t i = 0; i < x->n_choices; i++) {
        const struct api_choice *c = &x->choices[i];
        if (i % x->r.n == 0) {
            u.prompt_tokens += c->prompt->n;
            u.reused_tokens += c->n_reused;
        }
        u.generated_tokens += c->result.n_tokens;
        u.queued_ns = MAX(u.queued_ns, c->queued_ns);
        u.prompt_ns = MAX(u.prompt_ns, c->prompt_ns);
        u.decode_ns = MAX(u.decode_ns, c->decode_ns);
        x->n_thought += c->result.n_thought;
        x->n_guessed += c->result.n_guessed;
        x->n_right += c->result.n_right;
    }
    x->usage = u;
}

static void release_job(struct api_choice *c)
{
    c->x->n_live -= c->job != NULL;
    sched_release(c->job);
    c->job = NULL;
}

static void release_jobs(struct api_exchange *x)
{
    for (uint32_t i = 0; i < x->n_choices; i++)
        release_job(&x->choices[i]);
}

/* An error as the whole answer, or as the last event of a stream that has begun. */
static void fail(struct api_exchange *x, const struct api_problem *p)
{
    release_jobs(x);
    if (!x->status) {
        api_fail(x, p);
        return;
    }
    x->cut = x->trickles;
    if (x->cut)
        x->problem(p, &x->out);
    else
        x->form->broken(x, p);
    x->complete = true;
}

static void fail_job(struct api_exchange *x, const struct sched_out *o)
{
    struct api_problem p;
    bool own_fault = o->end == SCHED_TOO_COSTLY;
    x->usage.reason = o->end == SCHED_EXPIRED             ? "timeout"
                      : o->end == SCHED_FAILED || own_fault ? "error"
                                                            : "cancelled";
    if (o->end == SCHED_EXPIRED)
        api_refuse(&p, 408, "timeout", NULL, "%s", o->err.msg);
    else if (own_fault)
        api_refuse(&p, 400, o->err.code == -ENODATA ? "grammar_unsatisfiable" : "grammar_too_costly", NULL, "%s", o->err.msg);
    else if (o->end == SCHED_FAILED)
        api_refuse(&p, 500, "engine_failed", NULL, "%s", o->err.msg);
    else if (o->end == SCHED_REFUSED) {
        api_refuse(&p, 429, "queue_full", NULL, "%s", o->err.msg);
        p.retry_after = MAX(o->retry_s, 1u);
    } else {
        api_refuse(&p, 503, "shutting_down", NULL, "the server is shutting down: the answer was cut off");
        p.retry_after = DRAIN_RETRY_S;
    }
    fail(x, &p);
}

static void finish_choice(struct api_choice *c, const struct sched_out *o)
{
    bool length = o->result.reason == GEN_LENGTH || o->result.reason == GEN_CONTEXT;
    c->result = o->result;
    c->n_reused = o->n_reused;
    c->queued_ns = o->queued_ns;
    c->prompt_ns = o->prompt_ns;
    c->decode_ns = o->decode_ns;
    c->finish = length || c->x->r.only_prompt ? "length" : "stop";
    if (c->x->r.only_prompt)
        c->result.n_tokens = 0;
    c->x->usage.reason = gen_reason_json(o->result.reason);
    c->x->n_ended++;
}

/* Everything ended well. */
static void conclude(struct api_exchange *x)
{
    sum_up(x);
    if (x->streams) {
        x->form->end(x);
        x->complete = true;
    } else {
        x->form->whole(x);
        api_answer(x, 200);
    }
}

/* ---- submitting ---- */

static struct sched_request request_of(const struct api_choice *c)
{
    const struct api_exchange *x = c->x;
    const struct api_request *r = &x->r;
    struct sched_request q = {
        .prompt = c->prompt->ids, .n_prompt = c->prompt->n, .boundary = c->prompt->boundary,
        .n_boundary = c->prompt->n_boundary, .gen = x->base, .grammar = x->grammar, .n_logprobs = r->n_logprobs,
        .deadline_ns = x->deadline_ns, .client = x->client, .owner = x->owner, .wake = x->wake, .user = x->user,
    };
    q.tell_start = r->stream;
    q.pool = r->pools;
    q.tell_prompt = r->echo && r->n_logprobs >= 0;
    q.gen.sampling = r->sampling;
    q.gen.sampling.seed += c->index % r->n;
    if (q.gen.sampling.seed == SAMPLER_SEED_RANDOM) /* it would mean another one */
        q.gen.sampling.seed = 0;
    q.gen.n_max = r->max_tokens;
    q.gen.ignore_eos = r->ignore_eos;
    q.gen.stop = r->stop;
    q.gen.n_stop = r->n_stop;
    return q;
}

static int not_submitted(const struct api_exchange *x, int rc, const struct err *e, struct api_problem *p)
{
    api_problem_of(rc, e, NULL, p);
    if (rc == -E2BIG) {
        size_t n = strlen(p->message); /* clients that look at words know these */
        snprintf(p->message + n, sizeof p->message - n, ": that exceeds the available context size");
        p->code = "context_length_exceeded";
        snprintf(p->param, sizeof p->param, "%s", x->r.query ? (x->r.bare ? "texts" : "documents") : x->r.items || x->r.pools ? "input" : x->r.n_messages ? "messages" : "prompt");
    }
    return rc;
}

/* What is submitted later must not be found wrong then. */
static int check_prompts(const struct api_exchange *x, struct api_problem *p)
{
    struct err e = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < x->n_choices && !rc; i += x->r.n) {
        struct sched_request q = request_of(&x->choices[i]);
        if ((rc = sched_check(x->api->o.sched, &q, &e)))
            not_submitted(x, rc, &e, p);
    }
    return rc;
}

static int submit(struct api_choice *c, bool goes_on, struct api_problem *p)
{
    struct api_exchange *x = c->x;
    struct sched_request q = request_of(c);
    struct err e = { 0 };
    uint32_t retry_s = 0;
    q.goes_on = goes_on;
    int rc = c->opened ? 0 : x->form->open(c, &e);
    struct api_logprobs *l = &c->logprobs; /* empty, but made anew just now */
    l->entries.budget = l->values.budget = l->tops.budget = l->offsets.budget = x->api->o.budget;
    c->opened = true;
    if (!rc)
        rc = sched_submit(x->api->o.sched, &q, &c->job, &retry_s, &e);
    x->n_live += !rc;
    if (!rc)
        return 0;
    not_submitted(x, rc, &e, p);
    p->retry_after = rc == -EBUSY ? MAX(retry_s, 1u) : rc == -ESHUTDOWN ? DRAIN_RETRY_S : 0;
    return rc;
}

/* Of the choices that have not been submitted those for which there is room: more of them at a time than there are
 * slots would only wait. */
static void submit_more(struct api_exchange *x)
{
    uint32_t most = MAX(engine_info(x->api->o.eng)->n_slots + 1, (uint32_t)LEAST_AT_A_TIME);
    struct api_problem p;
    for (uint32_t i = 0; i < x->n_choices && x->n_live < most; i++) {
        struct api_choice *c = &x->choices[i];
        if (c->job || c->finish)
            continue;
        int rc = submit(c, !x->n_live, &p);
        if (rc == -EBUSY && x->n_live)
            return; /* when one of the others has ended */
        if (rc) {
            fail(x, &p);
            return;
        }
    }
}

/* ---- taking ---- */

static void begin_stream(struct api_choice *c)
{
    struct api_exchange *x = c->x;
    x->streams = true;
    x->status = 200;
    c->begun = true;
    if (x->form->begin)
        x->form->begin(c);
}

/* What came, token by token: a token's text may be empty, and the end may bring text that was held back. */
static int put_all(struct api_choice *c, const struct sched_out *o)
{
    const struct api_form *form = c->x->form;
    size_t at = 0;
    int rc = 0;
    for (uint32_t i = 0; i < o->n_tokens && !rc; i++) {
        size_t end = MAX(at, MIN((size_t)o->tokens[i].text_end, o->n_text));
        rc = form->put(c, &o->tokens[i], o->text + at, end - at);
        c->x->usage.generated_tokens += !o->tokens[i].of_prompt;
        at = end;
    }
    if (!rc && o->n_text > at)
        rc = form->put(c, NULL, o->text + at, o->n_text - at);
    return rc;
}

static void take(struct api_choice *c)
{
    struct api_exchange *x = c->x;
    struct sched_out o;
    sched_take(c->job, &o);
    if (o.end == SCHED_REFUSED && x->n_live > 1) {
        release_job(c); /* it made nothing yet: its turn comes after the others' */
        return;
    }
    if (o.end != SCHED_RUNNING && o.end != SCHED_OK) {
        fail_job(x, &o);
        return;
    }
    c->n_evaluated = o.n_evaluated;
    c->n_reused = o.n_reused;
    x->started |= o.started;
    if (x->r.stream && !c->begun && (o.started || o.sure || o.n_tokens || o.end == SCHED_OK))
        begin_stream(c);
    int rc = put_all(c, &o);
    if (!rc && o.vector)
        rc = x->vector(c, o.vector, engine_info(x->api->o.eng)->n_vector);
    if (!rc && o.end == SCHED_OK) {
        finish_choice(c, &o);
        rc = x->form->close(c);
        release_job(c);
    }
    if (rc) {
        struct err e = { 0 };
        struct api_problem p;
        err_set(&e, rc, "out of memory for the answer");
        api_problem_of(rc, &e, NULL, &p);
        fail(x, &p);
        return;
    }
    if (c->begun)
        x->form->flush(c);
    if (c->begun && c->finish)
        x->form->last(c);
}

void api_pump(struct api_exchange *x)
{
    uint32_t live = x->n_live;
    for (uint32_t i = 0; i < x->n_choices && !x->complete; i++)
        if (x->choices[i].job)
            take(&x->choices[i]);
    if (!x->complete && x->n_live < live)
        submit_more(x);
    if (!x->complete && x->n_ended == x->n_choices)
        conclude(x);
    if (x->out.failed && !x->complete) {
        release_jobs(x);
        x->complete = true; /* the stream breaks off: there is no memory for more */
    }
}

/* ---- signs of life ---- */

/* Before anything runs, a status tells most: so long a stream waits with its head, and a whole answer for longer. */
bool api_run_sign(struct api_exchange *x, uint64_t quiet_ns)
{
    struct api_choice *c = &x->choices[0];
    if (x->r.stream ? quiet_ns < SIGN_NS : quiet_ns < (x->started ? WHOLE_SIGN_NS : WAITING_SIGN_NS))
        return false;
    if (!x->r.stream) {
        x->trickles = true;
        x->status = 200;
        out_text(&x->out, "\n"); /* JSON may begin with white space (RFC 8259, 2) */
    } else if (!x->status) {
        begin_stream(c);
    } else {
        api_pump(x); /* for how far it is, and maybe there is more to say than that */
        if (x->sent == x->out.n && !x->complete)
            x->form->ping(x);
    }
    return true;
}

/* ---- begin and end ---- */

void api_run(struct api_exchange *x, const struct api_call *call, const struct api_form *form,
             const struct gen_opts *base)
{
    struct api_problem p;
    int rc = 0;
    x->form = form;
    x->base = *base;
    x->client = call->client;
    x->owner = call->owner;
    x->wake = call->wake;
    x->user = call->user;
    x->began_ns = clock_ns();
    x->deadline_ns = x->r.timeout_ns ? clock_ns() + x->r.timeout_ns : 0;
    if (sys->getrandom(&x->nonce, sizeof x->nonce, GRND_NONBLOCK) != sizeof x->nonce)
        x->nonce = clock_ns();
    if (call->id)
        snprintf(x->id, sizeof x->id, "%s", call->id);
    else
        snprintf(x->id, sizeof x->id, "%016llx", (unsigned long long)x->nonce);
    if (form->start)
        form->start(x, call);
    x->n_choices = x->n_prompts * x->r.n;
    x->choices = calloc(x->n_choices, sizeof *x->choices);
    if (!x->choices)
        x->n_choices = 0;
    if (!x->choices || json_failures() != x->json_failures)
        rc = api_refuse(&p, 503, "out_of_memory", NULL, "out of memory for the request");
    for (uint32_t i = 0; i < x->n_choices; i++) {
        struct api_choice *c = &x->choices[i];
        *c = (struct api_choice){ .x = x, .index = i, .prompt = &x->prompts[i / x->r.n] };
        c->text.budget = c->args.budget = x->api->o.budget;
        for (size_t k = 0; k < ARRAY_LEN(c->parts); k++)
            c->parts[k].budget = x->api->o.budget;
        x->usage.prompt_tokens += i % x->r.n == 0 ? c->prompt->n : 0;
    }
    if (!rc && !(rc = check_prompts(x, &p)))
        rc = submit(&x->choices[0], false, &p);
    if (rc)
        fail(x, &p);
    else
        submit_more(x);
}

void api_run_finish(struct api_exchange *x)
{
    release_jobs(x);
    for (uint32_t i = 0; i < x->n_choices; i++) {
        struct api_choice *c = &x->choices[i];
        if (x->form->destroy)
            x->form->destroy(c);
        api_logprobs_finish(&c->logprobs);
        out_finish(&c->text);
    }
    free(x->choices);
    for (uint32_t i = 0; i < x->n_prompts; i++)
        engine_prompt_free(&x->prompts[i]);
    free(x->prompts);
    api_grammar_done(x->api, x->grammar);
    json_decref(x->warnings);
    out_finish(&x->head);
    api_request_finish(&x->r);
}
