/* The request of POST /infill: what stands between input_prefix and input_suffix, as llama.cpp's server has it
 * (ggml-org/llama.cpp, tools/server/README.md, POST /infill). Its editors send with each request how they would like to
 * have it sampled and told; of that, what is not known here is ignored. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/api_request.h"

static int read_extra(const struct fields *f, struct api_request *r)
{
    const json_t *array = NULL;
    int rc = field_array(f, "input_extra", &array);
    if (rc < 0 || !json_array_size(array))
        return rc < 0 ? rc : 0;
    if (json_array_size(array) > API_MAX_EXTRA)
        return field_value(f, "input_extra", "has %zu texts, at most %d can be given", json_array_size(array), API_MAX_EXTRA);
    r->extra = calloc(json_array_size(array), sizeof *r->extra);
    if ((rc = api_request_own(r, r->extra, f->p)))
        return rc;
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct fields one = fields_at(json_array_get(array, i), f->p, "input_extra[%zu]", i);
        struct api_extra *e = &r->extra[r->n_extra++];
        if ((rc = fields_check(&one)) || (rc = field_string(&one, "filename", &e->name)) < 0 ||
            (rc = field_string(&one, "text", &e->text)) < 0)
            return rc;
        if (!e->text)
            return api_request_missing(&one, "text");
    }
    return 0;
}

int api_request_infill(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                       struct api_problem *p)
{
    const char *prefix = NULL;
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    api_request_begin(d, r);
    if ((rc = field_string(&f, "input_prefix", &prefix)) < 0)
        return rc;
    if (!rc)
        return api_request_missing(&f, "input_prefix");
    if ((rc = field_string(&f, "input_suffix", &r->suffix)) < 0)
        return rc;
    if (!rc)
        return api_request_missing(&f, "input_suffix");
    if ((rc = field_string(&f, "prompt", &r->middle)) < 0 || (rc = read_extra(&f, r)) < 0 ||
        (rc = api_request_sampling(d, &f, r)) < 0 || (rc = api_request_stop(&f, "stop", r)) < 0 ||
        (rc = api_request_limit(&f, "n_predict", r)) < 0)
        return rc;
    if (!(r->prompts = calloc(1, sizeof *r->prompts))) {
        api_refuse(p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    r->prompts[0] = (struct api_prompt){ .text = prefix, .n_text = strlen(prefix) };
    r->n_prompts = 1;
    return 0;
}
