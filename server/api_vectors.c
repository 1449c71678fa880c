/* Endpoints of models that make vectors of texts, or rank them: POST /v1/embeddings, /api/embed, /api/embeddings, /v1/rerank.
 * Each input is a prompt like those of completions, with a job of the scheduler, so that all share its steps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/api_impl.h"

/* For each input beside its text: what it has in x->choices and x->prompts. */
enum { INPUT_BYTES = sizeof(struct api_choice) + sizeof(struct engine_prompt) };
enum { TEMPLATE_BYTES = 1024 }; /* a guess at what stands around a query and a document */

/* ---- vectors as text ---- */

static void put_floats(struct out *o, const float *v, uint32_t n)
{
    char text[32];
    for (uint32_t i = 0; i < n; i++) { /* nine digits give a float back */
        snprintf(text, sizeof text, "%s%.9g", i ? "," : "[", (double)v[i]);
        out_text(o, text);
    }
    out_text(o, "]");
}

/* Little-endian f32, RFC 4648 section 4. */
static void put_base64(struct out *o, const float *v, uint32_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = (const unsigned char *)v;
    size_t size = (size_t)n * sizeof *v;
    out_text(o, "\"");
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t w = (uint32_t)s[i] << 16 | (left > 1 ? (uint32_t)s[i + 1] << 8 : 0) | (left > 2 ? s[i + 2] : 0u);
        char text[4] = { digits[w >> 18], digits[w >> 12 & 63], left > 1 ? digits[w >> 6 & 63] : '=',
                         left > 2 ? digits[w & 63] : '=' };
        out_raw(o, text, sizeof text);
    }
    out_text(o, "\"");
}

static int take_vector(struct api_choice *c, const float *made, uint32_t n)
{
    const struct api_request *r = &c->x->r;
    float *v = malloc(n * sizeof *v);
    if (!v)
        return -ENOMEM;
    memcpy(v, made, n * sizeof *v);
    n = r->dimensions ? r->dimensions : n;
    engine_normalise(v, n);
    if (r->base64)
        put_base64(&c->text, v, n);
    else
        put_floats(&c->text, v, n);
    free(v);
    return 0;
}

static int take_score(struct api_choice *c, const float *v, uint32_t n)
{
    c->score = engine_rank_score(v, n);
    return 0;
}

/* ---- forms ---- */

static int open_choice(struct api_choice *c, struct err *e)
{
    (void)c, (void)e;
    return 0;
}

static int put(struct api_choice *c, const struct sched_token *t, const char *text, size_t n)
{
    (void)c, (void)t, (void)text, (void)n; /* nothing is written */
    return 0;
}

static int close_choice(struct api_choice *c)
{
    (void)c;
    return 0;
}

static void put_vector(struct out *o, struct api_choice *c)
{
    out_join(o, &c->text);
    out_finish(&c->text);
}

static void put_usage(struct api_exchange *x)
{
    struct out *o = &x->out;
    out_text(o, "\"usage\":{\"prompt_tokens\":");
    out_int(o, x->usage.prompt_tokens);
    out_text(o, ",\"total_tokens\":");
    out_int(o, x->usage.prompt_tokens);
    out_text(o, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    out_int(o, x->usage.reused_tokens);
    out_text(o, "}}");
}

static void put_name(struct api_exchange *x)
{
    out_text(&x->out, "\"model\":");
    out_string(&x->out, x->api->name, strlen(x->api->name));
}

static void whole_openai(struct api_exchange *x)
{
    struct out *o = &x->out;
    out_text(o, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < x->n_choices; i++) {
        out_text(o, i ? ",{\"object\":\"embedding\",\"index\":" : "{\"object\":\"embedding\",\"index\":");
        out_int(o, i);
        out_text(o, ",\"embedding\":");
        put_vector(o, &x->choices[i]);
        out_text(o, "}");
    }
    out_text(o, "],");
    put_name(x);
    out_text(o, ",");
    put_usage(x);
    out_text(o, "}");
}

static void whole_ollama(struct api_exchange *x)
{
    struct out *o = &x->out;
    out_text(o, "{");
    put_name(x);
    out_text(o, ",\"embeddings\":[");
    for (uint32_t i = 0; i < x->n_choices; i++) {
        out_text(o, i ? "," : "");
        put_vector(o, &x->choices[i]);
    }
    out_text(o, "],\"total_duration\":");
    out_int(o, (int64_t)(clock_ns() - x->began_ns));
    out_text(o, ",\"load_duration\":0,\"prompt_eval_count\":");
    out_int(o, x->usage.prompt_tokens);
    out_text(o, "}");
}

static void whole_ollama_one(struct api_exchange *x)
{
    out_text(&x->out, "{\"embedding\":");
    put_vector(&x->out, &x->choices[0]);
    out_text(&x->out, "}");
}

/* The best first; of equals the one that came first. */
static int by_score(const void *a, const void *b)
{
    const struct api_choice *x = *(struct api_choice *const *)a, *y = *(struct api_choice *const *)b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : (x->index > y->index) - (x->index < y->index);
}

static void put_result(struct api_exchange *x, const struct api_choice *c)
{
    const struct api_prompt *d = &x->r.prompts[c->index];
    struct out *o = &x->out;
    out_text(o, "{\"index\":");
    out_int(o, c->index);
    out_text(o, x->r.bare ? ",\"score\":" : ",\"relevance_score\":");
    out_real(o, c->score);
    if (x->r.return_documents) {
        out_text(o, x->r.bare ? ",\"text\":" : ",\"document\":{\"text\":");
        out_string(o, d->text, d->n_text);
        out_text(o, x->r.bare ? "" : "}");
    }
    out_text(o, "}");
}

static void whole_rerank(struct api_exchange *x)
{
    struct out *o = &x->out;
    uint32_t n = x->r.top_n && x->r.top_n < x->n_choices ? x->r.top_n : x->n_choices;
    struct api_choice **best = malloc(x->n_choices * sizeof *best);
    if (!best) {
        o->failed = true;
        return;
    }
    for (uint32_t i = 0; i < x->n_choices; i++)
        best[i] = &x->choices[i];
    qsort(best, x->n_choices, sizeof *best, by_score);
    if (!x->r.bare) {
        out_text(o, "{");
        put_name(x);
        out_text(o, ",\"object\":\"list\",");
        put_usage(x);
        out_text(o, ",\"results\":");
    }
    out_text(o, "[");
    for (uint32_t i = 0; i < n; i++) {
        out_text(o, i ? "," : "");
        put_result(x, best[i]);
    }
    out_text(o, x->r.bare ? "]" : "]}");
    free(best);
}

#define FORM(name, how)                                                                                                \
    static const struct api_form name = { .open = open_choice, .put = put, .close = close_choice, .whole = how }
FORM(openai_form, whole_openai);
FORM(ollama_form, whole_ollama);
FORM(ollama_one_form, whole_ollama_one);
FORM(rerank_form, whole_rerank);

/* ---- begin ---- */

/* Does this server do that? Before the request is read: nothing in it would change the answer. */
static int check_model(const struct api_exchange *x, bool ranks, struct api_problem *p)
{
    const struct engine_info *in = engine_info(x->api->o.eng);
    bool is_ranker = in->pooling && strcmp(in->pooling, "rank") == 0;
    if (!in->pooling)
        return api_refuse(p, 400, "unsupported", NULL, "'%.100s' is not %s: its file has no pooling_type%s", x->api->name,
                          ranks ? "a reranking model" : "an embedding model",
                          ranks ? "" : " (--pooling last serves its embeddings all the same)");
    if (ranks && !is_ranker)
        return api_refuse(p, 400, "unsupported", NULL, "'%.100s' makes embeddings (pooling_type %s) and does not rank: see /v1/embeddings",
                          x->api->name, in->pooling);
    if (!ranks && is_ranker)
        return api_refuse(p, 400, "unsupported", NULL, "'%.100s' ranks (pooling_type rank) and makes no embeddings: see /v1/rerank",
                          x->api->name);
    return 0;
}

/* Prompts repeat the query, and each input has its own place in the exchange. */
static int take_room(struct api_exchange *x, struct api_problem *p)
{
    const struct api_request *r = &x->r;
    uint64_t each = INPUT_BYTES + (r->query ? (r->n_query + TEMPLATE_BYTES) * (uint64_t)API_PROMPT_BYTES : 0);
    uint64_t n = each * r->n_prompts;
    int rc = budget_take(x->api->o.budget, n);
    if (!rc) {
        x->held += n;
        return 0;
    }
    if (rc == -E2BIG)
        return api_refuse(p, 413, "request_too_large", NULL, "%u inputs would take %llu MiB of memory, all requests together may "
                          "take %llu (--max-memory)", r->n_prompts, (unsigned long long)(n >> 20),
                          (unsigned long long)(budget_stats(x->api->o.budget).limit >> 20));
    api_refuse(p, 429, "overloaded", NULL, "no memory for so many inputs now (--max-memory)");
    p->retry_after = 1;
    return rc;
}

/* Only where the request allows it: the last token stays, which ends a text of such models. */
static void cut(const struct api_exchange *x, struct engine_prompt *p)
{
    uint32_t most = engine_info(x->api->o.eng)->n_ctx;
    if (!x->r.cuts || p->n <= most)
        return;
    p->ids[most - 1] = p->ids[p->n - 1];
    p->n = most;
}

static int make_prompts(struct api_exchange *x, struct api_problem *p)
{
    const struct engine *eng = x->api->o.eng;
    const struct api_request *r = &x->r;
    const char *name = r->query ? (r->bare ? "texts" : "documents") : "input";
    struct err e = { 0 };
    if (!(x->prompts = calloc(r->n_prompts, sizeof *x->prompts)))
        return api_refuse(p, 503, "out_of_memory", NULL, "out of memory for the request");
    x->n_prompts = r->n_prompts;
    for (uint32_t i = 0; i < x->n_prompts; i++) {
        const struct api_prompt *q = &r->prompts[i];
        int rc = r->query ? engine_rank_prompt(eng, r->query, r->n_query, q->text, q->n_text, &x->prompts[i], &e)
                          : api_plain_prompt(eng, q, &x->prompts[i], &e);
        if (rc) {
            api_problem_of(rc, &e, name, p);
            return rc;
        }
        if (!x->prompts[i].n)
            return api_refuse(p, 400, "invalid_value", name, "'%s' %u is empty, expected at least one token", name, i);
        cut(x, &x->prompts[i]);
    }
    return 0;
}

static void answer(struct api_exchange *x, const struct api_call *c, api_reader *read, const struct api_form *form, bool ranks)
{
    struct api_problem p;
    struct gen_opts none = { 0 };
    x->vector = ranks ? take_score : take_vector;
    if (check_model(x, ranks, &p) || read(&x->api->defaults, c->body, c->n_body, &x->r, &p) || take_room(x, &p) ||
        make_prompts(x, &p))
        api_fail(x, &p);
    else
        api_run(x, c, form, &none);
}

void api_embeddings(struct api_exchange *x, const struct api_call *c)
{
    answer(x, c, api_request_embeddings, &openai_form, false);
}

void api_ollama_embed(struct api_exchange *x, const struct api_call *c)
{
    answer(x, c, api_request_ollama_embed, &ollama_form, false);
}

void api_ollama_embeddings(struct api_exchange *x, const struct api_call *c)
{
    answer(x, c, api_request_ollama_embed, &ollama_one_form, false);
}

void api_rerank(struct api_exchange *x, const struct api_call *c)
{
    answer(x, c, api_request_rerank, &rerank_form, true);
}
