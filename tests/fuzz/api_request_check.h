/* tests/fuzz/api_request_check.h: what must hold of every request that was read or refused. */
#ifndef ZINC_TESTS_FUZZ_API_REQUEST_CHECK_H
#define ZINC_TESTS_FUZZ_API_REQUEST_CHECK_H

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "server/api.h"
#include "server/api_request.h"

static inline struct api_defaults fuzz_defaults(void)
{
    return (struct api_defaults){ .sampling = sampler_defaults(), .think = -1, .think_budget = -1, .max_n = 8,
                                  .n_vocab = 1000, .n_vector = 256 };
}

/* 400, a code, and a line that is JSON again. */
static inline void check_refused(const struct api_problem *p)
{
    CHECK(p->status == 400 && p->message[0] && p->code);
    char *s = api_error_json(NULL, p->status, p->param, p->code, p->message);
    json_t *v = s ? json_loads(s, JSON_REJECT_DUPLICATES, NULL) : NULL;
    CHECK(v && json_is_string(json_object_get(json_object_get(v, "error"), "message")));
    json_decref(v);
    free(s);
}

static inline void check_sampling(const struct api_request *r, const struct api_defaults *d)
{
    const struct sampler_params *s = &r->sampling;
    CHECK(sampler_check(s, NULL) == 0 && s->seed != SAMPLER_SEED_RANDOM);
    CHECK(s->temp >= 0 && s->temp <= 100 && s->top_p >= 0 && s->top_p <= 1 && s->min_p >= 0 && s->min_p <= 1);
    CHECK(s->repeat_last_n >= -1 && s->repeat_last_n <= API_MAX_LAST_N);
    CHECK(s->dry_last_n >= -1 && s->dry_last_n <= API_MAX_LAST_N);
    CHECK(s->n_bias <= API_MAX_BIASES);
    for (uint32_t i = 0; i < s->n_bias; i++)
        CHECK((uint32_t)s->bias[i].id < d->n_vocab && s->bias[i].bias >= -100 && s->bias[i].bias <= 100);
}

static inline void check_chat(const struct api_request *r)
{
    CHECK(r->n_messages <= API_MAX_MESSAGES && r->think >= -1 && r->think <= 1 && r->think_budget >= -1);
    for (uint32_t i = 0; i < r->n_messages; i++) {
        const struct engine_message *m = &r->messages[i];
        CHECK(m->role && m->n_calls <= API_MAX_CALLS);
        CHECK(!m->n_calls || strcmp(m->role, "assistant") == 0);
        for (uint32_t k = 0; k < m->n_calls; k++)
            CHECK(m->calls[k].name && m->calls[k].name[0]);
    }
    if (r->effort)
        CHECK(!strcmp(r->effort, "low") || !strcmp(r->effort, "medium") || !strcmp(r->effort, "high"));
    if (r->continue_final)
        CHECK(!strcmp(r->messages[r->n_messages - 1].role, "assistant") && !r->tools && r->format == ANSWER_ANY);
    CHECK(r->choice != ANSWER_TOOLS_NAMED || (r->named && r->tools));
    CHECK(r->choice != ANSWER_TOOLS_REQUIRED || r->tools);
}

static inline void check_vectors(const struct api_request *r, const struct api_defaults *d)
{
    CHECK(r->n_prompts >= 1 && r->n_prompts <= API_MAX_INPUTS && !r->stream);
    CHECK(r->dimensions <= d->n_vector && !(r->base64 && r->query));
    for (uint32_t i = 0; i < r->n_prompts; i++)
        CHECK(!r->query || r->prompts[i].text);
    CHECK(!r->query || r->n_query * r->n_prompts <= API_MAX_PAIR_BYTES);
}

static inline void check_read(const struct api_request *r, const struct api_defaults *d)
{
    json_t *v;
    if (r->pools)
        check_vectors(r, d);
    else
        check_sampling(r, d);
    check_chat(r);
    CHECK(r->n >= 1 && r->n <= d->max_n && (!r->include_usage || r->stream));
    CHECK(r->n_stop <= API_MAX_STOPS && r->n_logprobs >= -1 && r->n_logprobs <= SCHED_MAX_LOGPROBS);
    for (uint32_t i = 0; i < r->n_stop; i++)
        CHECK(r->stop[i][0] && strlen(r->stop[i]) <= API_MAX_STOP_BYTES);
    CHECK(r->n_prompts * r->n <= (r->pools ? (uint32_t)API_MAX_INPUTS : (uint32_t)API_MAX_PROMPTS));
    for (uint32_t i = 0; i < r->n_prompts; i++)
        for (uint32_t k = 0; k < r->prompts[i].n_ids; k++)
            CHECK((uint32_t)r->prompts[i].ids[k] < d->n_vocab);
    CHECK((r->format == ANSWER_ANY) == !r->format_param);
    if (r->format == ANSWER_GRAMMAR)
        CHECK(r->schema && r->schema[0]);
    if (r->format == ANSWER_JSON_SCHEMA) {
        CHECK((v = json_loads(r->schema, JSON_DECODE_ANY, NULL)));
        json_decref(v);
    }
    if (r->tools) {
        CHECK((v = json_loads(r->tools, 0, NULL)) && json_array_size(v) > 0);
        json_decref(v);
    }
}

#endif
