/* Any bytes as the body of a request: it is refused with 400, a code and a line that is JSON again, or what was read
 * holds to the limits. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "server/api.h"
#include "server/api_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refused(const struct api_problem *p)
{
    CHECK(p->status == 400 && p->message[0] && p->code);
    char *s = api_error_json(p->status, p->param, p->code, p->message);
    json_t *v = s ? json_loads(s, JSON_REJECT_DUPLICATES, NULL) : NULL;
    CHECK(v && json_is_string(json_object_get(json_object_get(v, "error"), "message")));
    json_decref(v);
    free(s);
}

static void check_read(const struct api_request *r, const struct api_defaults *d)
{
    json_t *v;
    CHECK(sampler_check(&r->sampling, NULL) == 0);
    CHECK(r->sampling.seed != SAMPLER_SEED_RANDOM && r->n >= 1 && r->n <= d->max_n);
    CHECK(r->n_stop <= API_MAX_STOPS && r->n_logprobs >= -1 && r->n_logprobs <= SCHED_MAX_LOGPROBS);
    for (uint32_t i = 0; i < r->sampling.n_bias; i++)
        CHECK((uint32_t)r->sampling.bias[i].id < d->n_vocab);
    for (uint32_t i = 0; i < r->n_messages; i++)
        CHECK(r->messages[i].role && (r->messages[i].text || strcmp(r->messages[i].role, "assistant") == 0));
    for (uint32_t i = 0; i < r->n_prompts; i++)
        for (uint32_t k = 0; k < r->prompts[i].n_ids; k++)
            CHECK((uint32_t)r->prompts[i].ids[k] < d->n_vocab);
    if (r->format == ANSWER_JSON_SCHEMA) {
        CHECK((v = json_loads(r->schema, JSON_DECODE_ANY, NULL)));
        json_decref(v);
    }
    if (r->tools) {
        CHECK((v = json_loads(r->tools, 0, NULL)) && json_array_size(v) > 0);
        json_decref(v);
    }
    CHECK(r->choice != ANSWER_TOOLS_NAMED || (r->named && r->tools));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_defaults d = { .sampling = sampler_defaults(), .think = -1, .think_budget = -1, .max_n = 8,
                              .n_vocab = 1000 };
    char *body = malloc(size ? size : 1); /* with nothing behind it */
    if (!body)
        return 0;
    memcpy(body, data, size);
    for (int chat = 0; chat < 2; chat++) {
        struct api_request r;
        struct api_problem p = { 0 };
        if ((chat ? api_request_chat : api_request_completion)(&d, body, size, &r, &p))
            check_refused(&p);
        else
            check_read(&r, &d);
        api_request_finish(&r);
    }
    free(body);
    return 0;
}
