/* The request of /v1/completions: prompts. */
#include <stdlib.h>
#include <string.h>

#include "server/api_request.h"

int api_request_ids(const struct fields *f, const char *name, const json_t *array, uint32_t n_vocab, int32_t **ids,
                    uint32_t *n)
{
    size_t i, size = json_array_size(array);
    json_t *v;
    int32_t *out = size < INT32_MAX ? calloc(size + 1, sizeof *out) : NULL;
    if (!out) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    json_array_foreach((json_t *)array, i, v)
    {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)n_vocab) {
            free(out);
            if (!json_is_integer(v))
                return field_value(f, name, "has %s at %zu, expected a token id", json_kind(v), i);
            return field_value(f, name, "has token %lld, the vocabulary ends at %u", (long long)json_integer_value(v),
                               n_vocab);
        }
        out[i] = (int32_t)id;
    }
    *ids = out;
    *n = (uint32_t)size;
    return 0;
}

int api_request_prompt(const struct fields *f, const char *name, const json_t *v, uint32_t n_vocab, struct api_prompt *out)
{
    if (json_is_array(v))
        return api_request_ids(f, name, v, n_vocab, &out->ids, &out->n_ids);
    if (!json_is_string(v))
        return field_type(f, name, "a string, an array of token ids, or an array of either", v);
    out->text = json_string_value(v);
    out->n_text = json_string_length(v);
    return 0;
}

/* A string, tokens, or an array of those. */
static int read_prompts(const struct fields *f, uint32_t n_vocab, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, "prompt");
    if (!v || json_is_null(v))
        return api_refuse(f->p, 400, "missing_field", "prompt", "the request has no 'prompt'");
    bool many = json_is_array(v) && (json_is_string(json_array_get(v, 0)) || json_is_array(json_array_get(v, 0)));
    size_t n = many ? json_array_size(v) : 1;
    if (n * r->n > API_MAX_PROMPTS)
        return field_value(f, "prompt", "has %zu prompts, with 'n' %u: a request has at most %d answers", n, r->n,
                           API_MAX_PROMPTS);
    r->prompts = calloc(n, sizeof *r->prompts);
    if (!r->prompts) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    r->n_prompts = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        int rc = api_request_prompt(f, "prompt", many ? json_array_get(v, i) : v, n_vocab, &r->prompts[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* OpenAI's `suffix`: what follows the answer. */
static int read_suffix(const struct fields *f, struct api_request *r)
{
    const char *s = "";
    int rc = field_string(f, "suffix", &s);
    if (rc < 0 || !*s)
        return rc < 0 ? rc : 0;
    r->suffix = s;
    for (uint32_t i = 0; i < r->n_prompts; i++)
        if (!r->prompts[i].text)
            return field_value(f, "suffix", "needs a 'prompt' that is text, not token ids");
    return r->echo ? field_value(f, "suffix", "cannot be given together with 'echo'") : 0;
}

int api_request_completion(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                           struct api_problem *p)
{
    int64_t logprobs;
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    const json_t *most = json_object_get(f.o, "max_tokens");
    r->only_prompt = json_is_true(json_object_get(f.o, "echo")) && json_is_integer(most) && json_integer_value(most) == 0;
    if ((rc = api_request_common(d, &f, r)) || (rc = read_prompts(&f, d->n_vocab, r)) ||
        (rc = api_request_unsupported(&f, false)) || (rc = field_bool(&f, "echo", &r->echo)) < 0 ||
        (rc = field_int(&f, "logprobs", 0, SCHED_MAX_LOGPROBS, &logprobs)) < 0)
        return rc;
    if (rc)
        r->n_logprobs = (int32_t)logprobs;
    return (rc = read_suffix(&f, r)) < 0 ? rc : 0;
}
