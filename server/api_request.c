/* Fields that requests for text have in common: sampling, limits, where an answer ends. */
#include "server/api_request.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

#define FAR 1e6

/* X(name in requests, field of sampler_params, least, most). Later names win. */
#define REALS(X)                                                                                                       \
    X("temperature", temp, 0, 100)                                                                                     \
    X("top_p", top_p, 0, 1)                                                                                            \
    X("min_p", min_p, 0, 1)                                                                                            \
    X("typical_p", typical_p, 0, 1)                                                                                    \
    X("top_n_sigma", top_n_sigma, -1, FAR)                                                                             \
    X("xtc_probability", xtc_probability, 0, 1)                                                                        \
    X("xtc_threshold", xtc_threshold, 0, 1)                                                                            \
    X("dynatemp_range", dynatemp_range, 0, 100)                                                                        \
    X("dynatemp_exponent", dynatemp_exponent, 0, 100)                                                                  \
    X("repetition_penalty", repeat_penalty, 0.001, 1000)                                                               \
    X("repeat_penalty", repeat_penalty, 0.001, 1000)                                                                   \
    X("frequency_penalty", frequency_penalty, -2, 2)                                                                   \
    X("presence_penalty", presence_penalty, -2, 2)                                                                     \
    X("dry_multiplier", dry_multiplier, 0, FAR)                                                                        \
    X("dry_base", dry_base, 0, FAR)
#define INTS(X)                                                                                                        \
    X("top_k", top_k, -1, INT32_MAX)                                                                                   \
    X("repeat_last_n", repeat_last_n, -1, API_MAX_LAST_N)                                                              \
    X("dry_allowed_length", dry_allowed_length, 0, INT32_MAX)                                                          \
    X("dry_penalty_last_n", dry_last_n, -1, API_MAX_LAST_N)                                                            \
    X("dry_last_n", dry_last_n, -1, API_MAX_LAST_N)                                                                    \
    X("min_keep", min_keep, 0, INT32_MAX)

int api_request_own(struct api_request *r, void *ptr, struct api_problem *p)
{
    void **list = ptr ? realloc(r->owned, (r->n_owned + 1) * sizeof *list) : NULL;
    if (!list) {
        free(ptr);
        api_refuse(p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    r->owned = list;
    r->owned[r->n_owned++] = ptr;
    return 0;
}

int api_request_missing(const struct fields *f, const char *name)
{
    const char *full = fields_name(f, name);
    return api_refuse(f->p, 400, "missing_field", full, "'%s' is missing", full);
}

int api_request_text_add(const struct fields *f, struct tok_buf *b, const char *s, const char *between)
{
    if ((b->n && tok_buf_add(b, between, strlen(between))) || tok_buf_add(b, s, strlen(s))) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    return 0;
}

int api_request_text_own(const struct fields *f, struct tok_buf *b, struct api_request *r, const char **out)
{
    bool whole = b->n && !tok_buf_add(b, "", 1);
    if (!b->n)
        return 0;
    if (!whole)
        tok_buf_finish(b);
    char *s = b->s;
    *b = (struct tok_buf){ 0 };
    *out = s;
    return api_request_own(r, s, f->p);
}

void api_request_finish(struct api_request *r)
{
    for (uint32_t i = 0; i < r->n_owned; i++)
        free(r->owned[i]);
    free(r->owned);
    for (uint32_t i = 0; i < r->n_prompts; i++)
        free(r->prompts[i].ids);
    free(r->prompts);
    json_decref(r->body);
    json_decref(r->items);
    json_decref(r->warnings);
    *r = (struct api_request){ 0 };
}

/* 64 bits of the number: itself where it fits, its remainder where it does not. */
static uint64_t seed_bits(const json_t *v)
{
    if (json_is_integer(v))
        return (uint64_t)json_integer_value(v);
    double d = fmod(trunc(json_real_value(v)), 0x1p64);
    return d < 0 ? -(uint64_t)-d : (uint64_t)d;
}

/* Any integer will do for a seed, also one that JSON has as a real (1e30). The generator takes 32 bits: numbers that
 * differ only in what is folded away give the same answers. -1 asks for a new one, as clients of llama.cpp do. */
static int read_seed(const struct fields *f, struct sampler_params *s)
{
    const json_t *v = json_object_get(f->o, "seed");
    bool there = v && !json_is_null(v);
    if (there && !json_is_integer(v) && (!json_is_real(v) || trunc(json_real_value(v)) != json_real_value(v)))
        return field_type(f, "seed", "an integer", v);
    uint64_t bits = there ? seed_bits(v) : UINT64_MAX;
    if (there)
        s->seed = bits == UINT64_MAX ? SAMPLER_SEED_RANDOM : (uint32_t)(bits ^ bits >> 32);
    if (there && bits != UINT64_MAX && s->seed == SAMPLER_SEED_RANDOM) /* it would mean a new one */
        s->seed = 0;
    if (s->seed == SAMPLER_SEED_RANDOM)
        s->seed = sampler_draw_seed();
    return there;
}

static int read_bias(const struct fields *f, const struct api_defaults *d, struct api_request *r)
{
    const json_t *o, *v;
    const char *key;
    int rc = field_object(f, "logit_bias", &o);
    if (rc != 1)
        return rc;
    if (json_object_size(o) > API_MAX_BIASES)
        return field_value(f, "logit_bias", "has %zu tokens, at most %d can be given", json_object_size(o),
                           API_MAX_BIASES);
    struct logit_bias *bias = calloc(json_object_size(o) + 1, sizeof *bias);
    if ((rc = api_request_own(r, bias, f->p)))
        return rc;
    uint32_t n = 0;
    json_object_foreach((json_t *)o, key, v)
    {
        char *end;
        unsigned long id = strtoul(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end)
            return field_value(f, "logit_bias", "has '%.64s', which is no token id; POST /tokenize tells them", key);
        if (id >= d->n_vocab)
            return field_value(f, "logit_bias", "has token %lu, the vocabulary ends at %u", id, d->n_vocab);
        if (!json_is_number(v) || fabs(json_number_value(v)) > 100)
            return field_value(f, "logit_bias", "must give token %lu a number from -100 to 100", id);
        bias[n++] = (struct logit_bias){ (int32_t)id, (float)json_number_value(v) };
    }
    r->sampling.bias = bias;
    r->sampling.n_bias = n;
    return 1;
}

static int read_sampling(const struct fields *f, const struct api_defaults *d, struct api_request *r)
{
    struct sampler_params *s = &r->sampling;
    double v;
    int64_t i;
    int rc;
#define X(name, field, lo, hi)                                                                                         \
    if ((rc = field_real(f, name, lo, hi, &v)) < 0)                                                                    \
        return rc;                                                                                                     \
    if (rc)                                                                                                            \
        s->field = (float)v;
    REALS(X)
#undef X
#define X(name, field, lo, hi)                                                                                         \
    if ((rc = field_int(f, name, lo, hi, &i)) < 0)                                                                     \
        return rc;                                                                                                     \
    if (rc)                                                                                                            \
        s->field = (int32_t)i;
    INTS(X)
#undef X
    if ((rc = read_seed(f, s)) < 0 || (rc = read_bias(f, d, r)) < 0)
        return rc;
    /* Devices draw with the counter's generator. It does not have every step, nor does it look at all tokens. */
    struct err e = { 0 };
    s->rng = SAMPLER_RNG_COUNTER;
    if (s->top_k <= 0 || sampler_check(s, NULL))
        s->rng = SAMPLER_RNG_MT19937;
    if (sampler_check(s, &e))
        return api_refuse(f->p, 400, "invalid_value", NULL, "%s", e.msg);
    return 0;
}

int api_request_stop(const struct fields *f, const char *name, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, name), *item;
    size_t i;
    if (!v || json_is_null(v))
        return 0;
    if (json_is_array(v) && json_array_size(v) > API_MAX_STOPS)
        return field_value(f, name, "has %zu strings, at most %d can be given", json_array_size(v), API_MAX_STOPS);
    for (i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
        item = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(item))
            return field_type(f, name, "a string or an array of strings", item);
        if (json_string_length(item) > API_MAX_STOP_BYTES)
            return field_value(f, name, "has a string of %zu bytes, the longest may have %d",
                               json_string_length(item), API_MAX_STOP_BYTES);
        if (json_string_length(item))
            r->stop[r->n_stop++] = json_string_value(item);
    }
    return 0;
}

/* -1 asks for no limit, as clients of llama.cpp do. */
int api_request_limit(const struct fields *f, const char *name, struct api_request *r)
{
    int64_t v;
    int rc = field_int(f, name, -1, INT32_MAX, &v);
    if (rc < 0)
        return rc;
    if (rc && v == 0 && !r->only_prompt)
        return field_value(f, name, "is 0, expected 1 or more");
    if (rc)
        r->max_tokens = v < 0 ? 0 : MAX((uint32_t)v, 1u);
    return 0;
}

static int read_limit(const struct fields *f, struct api_request *r)
{
    static const char *const names[] = { "n_predict", "max_tokens", "max_completion_tokens" };
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && !rc; i++)
        rc = api_request_limit(f, names[i], r);
    return rc;
}

/* At least so many tokens: what vLLM's clients send beside max_tokens for answers of one length. */
static int read_least(const struct fields *f, struct api_request *r)
{
    int64_t v = 0;
    int rc = field_int(f, "min_tokens", 0, INT32_MAX, &v);
    if (rc < 0 || !v)
        return rc < 0 ? rc : 0;
    if (r->max_tokens && v > r->max_tokens)
        return field_value(f, "min_tokens", "is %lld, more than the %u of 'max_tokens'", (long long)v, r->max_tokens);
    if (r->n_stop || (!r->ignore_eos && v != r->max_tokens))
        return api_refuse(f->p, 400, "unsupported", fields_name(f, "min_tokens"), "'min_tokens' is supported as 'max_tokens' is or "
                          "beside 'ignore_eos', and without 'stop'");
    r->ignore_eos = true;
    return 0;
}

int api_request_verbosity(const struct fields *f, struct api_request *r)
{
    const char *level = NULL;
    int rc = field_string(f, "verbosity", &level);
    if (rc < 0 || !level || strcmp(level, "medium") == 0)
        return rc < 0 ? rc : 0;
    if (strcmp(level, "low") != 0 && strcmp(level, "high") != 0)
        return field_value(f, "verbosity", "is '%.64s', expected low, medium or high", level);
    if (!r->warnings)
        r->warnings = json_array();
    if (json_array_append_new(r->warnings, json_sprintf("'%s' is passed over: say in a message how long the answer is to be",
                                                        fields_name(f, "verbosity")))) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    return 0;
}

static int read_stream_options(const struct fields *f, struct api_request *r)
{
    const json_t *o;
    int rc = field_object(f, "stream_options", &o);
    if (rc != 1)
        return rc;
    if (!r->stream)
        return field_value(f, "stream_options", "needs \"stream\": true");
    struct fields options = fields_at(o, f->p, "stream_options");
    return field_bool(&options, "include_usage", &r->include_usage);
}

void api_request_begin(const struct api_defaults *d, struct api_request *r)
{
    r->sampling = d->sampling;
    r->max_tokens = d->max_tokens;
    r->timeout_ns = d->timeout_ns;
    r->think = d->think;
    r->think_budget = d->think_budget;
    r->n_logprobs = -1;
    r->parallel = true;
    r->n = 1;
}

int api_request_model(const struct api_defaults *d, const struct fields *f)
{
    const char *model;
    int rc = field_string(f, "model", &model);
    return rc == 1 && d->names ? api_names_ask(d->names, model, f->p) : rc < 0 ? rc : 0;
}

int api_request_sampling(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    double seconds;
    int rc;
    if ((rc = api_request_model(d, f)) < 0 || (rc = read_sampling(f, d, r)) < 0 ||
        (rc = field_bool(f, "stream", &r->stream)) < 0 || (rc = field_bool(f, "ignore_eos", &r->ignore_eos)) < 0 ||
        (rc = field_real(f, "timeout", 0.001, 1e6, &seconds)) < 0)
        return rc;
    if (rc)
        r->timeout_ns = (uint64_t)(seconds * 1e9);
    return 0;
}

int api_request_common(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    int64_t n = 1, best;
    int rc;
    api_request_begin(d, r);
    if ((rc = api_request_sampling(d, f, r)) < 0 || (rc = api_request_stop(f, "stop", r)) < 0 ||
        (rc = read_limit(f, r)) < 0 || (rc = read_least(f, r)) < 0 || (rc = read_stream_options(f, r)) < 0 ||
        (rc = field_bool(f, "return_progress", &r->progress)) < 0 ||
        (rc = field_int(f, "n", 1, d->max_n, &n)) < 0)
        return rc;
    r->n = (uint32_t)n;
    if ((rc = field_int(f, "best_of", 1, INT32_MAX, &best)) < 0)
        return rc;
    if (rc && best > n)
        return api_refuse(f->p, 400, "unsupported", "best_of",
                          "'best_of' is %lld with 'n' %lld: answers are not ranked here, ask for several with 'n'",
                          (long long)best, (long long)n);
    return (rc = api_request_format(f, r)) < 0 ? rc : api_request_guided(f, r);
}
