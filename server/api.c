#include "server/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "server/api_impl.h"

enum { DEFAULT_MAX_N = 8 };

static const struct endpoint {
    const char *path; /* with or without /v1 before it */
    unsigned methods;
    void (*begin)(struct api_exchange *x, const struct api_call *c);
} endpoints[] = {
    { "/chat/completions", API_POST, api_chat }, { "/completions", API_POST, api_completion },
    { "/embeddings", API_POST, api_embeddings }, { "/models", API_GET, api_models },
    { "/tokenize", API_POST, api_tokenize },     { "/detokenize", API_POST, api_detokenize },
};

static const char *plain_path(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

static const struct endpoint *find_endpoint(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(endpoints); i++)
        if (strcmp(plain_path(path), endpoints[i].path) == 0)
            return &endpoints[i];
    return NULL;
}

/* The id in /models/{id}, which may hold slashes; NULL: another path. */
static const char *model_in(const char *path)
{
    path = plain_path(path);
    return strncmp(path, "/models/", 8) == 0 && path[8] ? path + 8 : NULL;
}

unsigned api_methods(const char *path)
{
    const struct endpoint *p = find_endpoint(path);
    return p ? p->methods : model_in(path) ? API_GET : 0;
}

int api_create(const struct api_opts *o, struct api **out, struct err *e)
{
    const struct engine_info *in = engine_info(o->eng);
    struct api *a = calloc(1, sizeof *a);
    if (!a || !(a->name = strdup(o->model_name ? o->model_name : in->label))) {
        free(a);
        return err_set(e, -ENOMEM, "api: out of memory");
    }
    a->o = *o;
    a->created = time(NULL);
    a->defaults = (struct api_defaults){
        .sampling = o->sampling, .think = o->think, .think_budget = o->think_budget, .max_tokens = o->max_tokens,
        .timeout_ns = o->timeout_ns, .max_n = o->max_n ? o->max_n : DEFAULT_MAX_N, .n_vocab = in->n_vocab,
    };
    engine_sampling_defaults(o->eng, &a->defaults.sampling);
    snprintf(a->fingerprint, sizeof a->fingerprint, "zinc-%s-%s", ZINC_VERSION, in->tier ? in->tier : "none");
    pthread_mutex_init(&a->lock, NULL);
    json_object_seed(0);
    *out = a;
    return 0;
}

void api_destroy(struct api *a)
{
    if (!a)
        return;
    api_grammars_finish(a);
    pthread_mutex_destroy(&a->lock);
    free(a->name);
    free(a);
}

void api_answer(struct api_exchange *x, int status)
{
    x->status = status;
    x->complete = true;
    if (!x->out.failed)
        return;
    out_finish(&x->out);
    x->status = 503; /* what is left may be too little even for a line */
}

void api_fail(struct api_exchange *x, const struct api_problem *p)
{
    out_clear(&x->out);
    x->sent = 0;
    x->streams = false;
    x->retry_after = p->retry_after;
    api_problem_write(p, &x->out);
    api_answer(x, p->status);
}

static void dispatch(struct api_exchange *x, const struct api_call *c)
{
    const struct endpoint *p = find_endpoint(c->path);
    const char *model = p ? NULL : model_in(c->path);
    unsigned method = strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0 ? API_GET
                      : strcmp(c->method, "POST") == 0                                ? API_POST
                                                                                      : 0;
    struct api_problem problem;
    if (!p && !model) {
        api_refuse(&problem, 404, "unknown_url", NULL, "no such endpoint: %.16s %.200s", c->method, c->path);
        api_fail(x, &problem);
    } else if (!(method & api_methods(c->path))) {
        api_refuse(&problem, 405, "method_not_allowed", NULL, "%.200s takes %s, not %.16s", c->path,
                   api_methods(c->path) & API_POST ? "POST" : "GET", c->method);
        api_fail(x, &problem);
    } else if (model) {
        api_model(x, model);
    } else {
        p->begin(x, c);
    }
}

struct api_exchange *api_begin(struct api *a, const struct api_call *c)
{
    struct api_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->api = a;
    dispatch(x, c);
    return x;
}

int api_status(struct api_exchange *x)
{
    if (!x->status)
        api_pump(x);
    return x->status;
}

const char *api_content_type(struct api_exchange *x)
{
    return x->streams ? "text/event-stream" : "application/json";
}

bool api_streams(struct api_exchange *x)
{
    return x->streams;
}

uint32_t api_retry_after(struct api_exchange *x)
{
    return x->retry_after;
}

ssize_t api_read(struct api_exchange *x, char *buf, size_t cap)
{
    if (x->sent == x->out.n) {
        out_clear(&x->out);
        x->sent = 0;
        if (!x->complete)
            api_pump(x);
    }
    size_t n = MIN(cap, x->out.n - x->sent);
    if (n == 0)
        return x->complete && x->sent == x->out.n ? API_END : 0;
    memcpy(buf, x->out.s + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

struct api_usage api_usage(struct api_exchange *x)
{
    return x->usage;
}

void api_end(struct api_exchange *x)
{
    if (!x)
        return;
    api_run_finish(x);
    out_finish(&x->out);
    free(x);
}
