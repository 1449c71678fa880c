#include "server/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_impl.h"

enum { DEFAULT_MAX_N = 8, BUSY_RETRY_S = 1, RESPONSE_ID = 128 };

/* The endpoints. What follows V1 is a path as well; those without it are there under this name alone. */
#define V1 "/v1"
enum { N_V1 = sizeof V1 - 1 };
static const struct endpoint {
    const char *path;
    unsigned methods;
    void (*begin)(struct api_exchange *x, const struct api_call *c);
    void (*problem)(const struct api_problem *p, struct out *o); /* its errors */
} endpoints[] = {
    { V1 "/chat/completions", API_POST, api_chat, api_problem_write },
    { V1 "/completions", API_POST, api_completion, api_problem_write },
    { V1 "/messages", API_POST, api_messages, api_anthropic_problem },
    { V1 "/messages/count_tokens", API_POST, api_count_tokens, api_anthropic_problem },
    { V1 "/responses", API_POST, api_responses, api_problem_write },
    { V1 "/embeddings", API_POST, api_embeddings, api_problem_write },
    { V1 "/rerank", API_POST, api_rerank, api_problem_write },
    { "/props", API_GET, api_props, api_problem_write },
    { "/slots", API_GET, api_slots, api_problem_write },
    { "/infill", API_POST, api_infill, api_problem_write },
    { "/apply-template", API_POST, api_apply_template, api_problem_write },
    { "/api/chat", API_POST, api_ollama_chat, api_ollama_problem },
    { "/api/generate", API_POST, api_ollama_generate, api_ollama_problem },
    { "/api/tags", API_GET, api_ollama_tags, api_ollama_problem },
    { "/api/ps", API_GET, api_ollama_ps, api_ollama_problem },
    { "/api/version", API_GET, api_ollama_version, api_ollama_problem },
    { "/api/show", API_POST, api_ollama_show, api_ollama_problem },
    { "/api/embed", API_POST, api_ollama_embed, api_ollama_problem },
    { "/api/embeddings", API_POST, api_ollama_embeddings, api_ollama_problem },
    { V1 "/models", API_GET, api_models, api_problem_write },
    { V1 "/tokenize", API_POST, api_tokenize, api_problem_write },
    { V1 "/detokenize", API_POST, api_detokenize, api_problem_write },
};
/* Those whose paths hold an id. */
static const char one_model[] = V1 "/models/{id}", one_response[] = V1 "/responses/{id}",
                  input_items[] = V1 "/responses/{id}/input_items";
static const char *const with_id[] = { one_model, one_response, input_items };

static bool has_v1(const char *path)
{
    return strncmp(path, V1 "/", N_V1 + 1) == 0;
}

static const char *plain_path(const char *path)
{
    return has_v1(path) ? path + N_V1 : path;
}

static const struct endpoint *find_endpoint(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
        const char *p = endpoints[i].path;
        if (strcmp(path, p) == 0 || (has_v1(p) && strcmp(path, p + N_V1) == 0))
            return &endpoints[i];
    }
    return NULL;
}

const char *api_endpoint(size_t i)
{
    size_t k = i - ARRAY_LEN(endpoints);
    return i < ARRAY_LEN(endpoints) ? endpoints[i].path : k < ARRAY_LEN(with_id) ? with_id[k] : NULL;
}

/* The id in /models/{id}, which may hold slashes; NULL: another path. */
static const char *model_in(const char *path)
{
    path = plain_path(path);
    return strncmp(path, "/models/", 8) == 0 && path[8] ? path + 8 : NULL;
}

/* The id in /responses/{id} and /responses/{id}/input_items, which is put into id; *part: what follows it, or NULL. */
static bool response_in(const char *path, char id[RESPONSE_ID], const char **part)
{
    path = plain_path(path);
    if (strncmp(path, "/responses/", 11) != 0)
        return false;
    size_t n = strcspn(path + 11, "/");
    snprintf(id, RESPONSE_ID, "%.*s", (int)MIN(n, (size_t)RESPONSE_ID - 1), path + 11);
    *part = path[11 + n] ? path + 11 + n + 1 : NULL;
    return n && (!*part || strcmp(*part, "input_items") == 0);
}

unsigned api_methods(const char *path, const char **label)
{
    const struct endpoint *p = find_endpoint(path);
    char id[RESPONSE_ID];
    const char *part = NULL, *name = p                              ? p->path
                                     : model_in(path)               ? one_model
                                     : !response_in(path, id, &part) ? NULL
                                     : part                         ? input_items
                                                                    : one_response;
    if (!name)
        return 0;
    if (label)
        *label = has_v1(name) && !has_v1(path) ? name + N_V1 : name;
    return p ? p->methods : name == one_response ? API_GET | API_DELETE : API_GET;
}

static void (*problem_of_path(const char *path))(const struct api_problem *p, struct out *o)
{
    const struct endpoint *p = path ? find_endpoint(path) : NULL;
    return p ? p->problem : api_problem_write;
}

char *api_error_json(const char *path, int status, const char *param, const char *code, const char *message)
{
    struct api_problem p;
    struct out o = { 0 };
    api_refuse(&p, status, code, param, "%s", message);
    problem_of_path(path)(&p, &o);
    out_raw(&o, "", 1);
    if (o.failed)
        out_finish(&o);
    return o.s;
}

/* Asked by the budget, from any thread. */
static void relieve(void *user, uint64_t n)
{
    uint64_t freed = api_grammars_drop(user, n);
    if (freed < n)
        api_store_drop(user, n - freed);
}

int api_create(const struct api_opts *o, struct api **out, struct err *e)
{
    const struct engine_info *in = engine_info(o->eng);
    struct api *a = calloc(1, sizeof *a);
    if (!a || !(a->name = strdup(o->model_name ? o->model_name : in->label))) {
        free(a);
        return err_set(e, -ENOMEM, "api: out of memory");
    }
    struct api_names *names = api_names_create(a->name, o->aliases, o->n_aliases, o->strict_model);
    if (!names) {
        free(a->name);
        free(a);
        return err_set(e, -ENOMEM, "api: out of memory");
    }
    a->o = *o;
    a->created = time(NULL);
    a->defaults = (struct api_defaults){
        .sampling = o->sampling, .think = o->think, .think_budget = o->think_budget, .max_tokens = o->max_tokens,
        .timeout_ns = o->timeout_ns, .max_n = o->max_n ? o->max_n : DEFAULT_MAX_N, .n_vocab = in->n_vocab,
        .n_vector = in->n_vector, .names = names,
    };
    a->has_tools = api_has_tools(o->eng);
    a->can_infill = api_can_infill(o->eng);
    engine_sampling_defaults(o->eng, &a->defaults.sampling);
    snprintf(a->fingerprint, sizeof a->fingerprint, "zinc-%s-%s%s", ZINC_VERSION, in->tier ? in->tier : "none",
             in->few_rows ? "-batch-variant" : "");
    pthread_mutex_init(&a->lock, NULL);
    budget_on_pressure(o->budget, relieve, a);
    json_object_seed(0);
    *out = a;
    return 0;
}

void api_destroy(struct api *a)
{
    if (!a)
        return;
    budget_on_pressure(a->o.budget, NULL, NULL);
    api_grammars_finish(a);
    api_store_finish(a);
    pthread_mutex_destroy(&a->lock);
    api_names_destroy(a->defaults.names);
    free(a->name);
    free(a);
}

void api_answer(struct api_exchange *x, int status)
{
    x->status = status;
    x->complete = true;
    if (!x->out.failed || x->trickles)
        return;
    struct api_problem p;
    out_finish(&x->out);
    x->out.budget = NULL; /* a line is always affordable */
    api_refuse(&p, 429, "overloaded", NULL, "no memory for the answer now (--max-memory)");
    x->problem(&p, &x->out);
    x->status = p.status;
    x->retry_after = BUSY_RETRY_S;
}

void api_fail(struct api_exchange *x, const struct api_problem *p)
{
    out_clear(&x->out);
    x->sent = 0;
    x->streams = false;
    x->retry_after = p->retry_after;
    x->problem(p, &x->out);
    api_answer(x, p->status);
}

static void dispatch(struct api_exchange *x, const struct api_call *c)
{
    const struct endpoint *p = find_endpoint(c->path);
    const char *model = p ? NULL : model_in(c->path);
    unsigned takes = api_methods(c->path, NULL);
    char id[RESPONSE_ID];
    const char *part;
    struct api_problem problem;
    if (!takes) {
        api_refuse(&problem, 404, "unknown_url", NULL, "no such endpoint: %.16s %.200s", c->method, c->path);
        api_fail(x, &problem);
    } else if (!(api_method(c->method) & takes)) {
        api_refuse(&problem, 405, "method_not_allowed", NULL, "%.200s takes %s, not %.16s", c->path,
                   takes & API_POST ? "POST" : takes & API_DELETE ? "GET and DELETE" : "GET", c->method);
        api_fail(x, &problem);
    } else if (model) {
        api_model(x, model);
    } else if (!p && response_in(c->path, id, &part)) {
        api_response_stored(x, id, part, c);
    } else {
        p->begin(x, c);
    }
}

/* What the request will hold is taken before any of it is parsed. */
static int take_memory(struct api_exchange *x, const struct api_call *c)
{
    uint64_t n = c->n_body ? budget_of_json(c->body, c->n_body) + API_PROMPT_BYTES * (uint64_t)c->n_body : 0;
    int rc = budget_take(x->api->o.budget, n);
    struct api_problem p;
    if (!rc) {
        x->held = n;
        return 0;
    }
    if (rc == -E2BIG)
        api_refuse(&p, 413, "request_too_large", NULL, "the request would take %llu MiB of memory when parsed, all requests "
                   "together may take %llu (--max-memory)", (unsigned long long)(n >> 20),
                   (unsigned long long)(budget_stats(x->api->o.budget).limit >> 20));
    else
        api_refuse(&p, 429, "overloaded", NULL, "no memory for a request of this size now (--max-memory)");
    p.retry_after = rc == -E2BIG ? 0 : BUSY_RETRY_S;
    api_fail(x, &p);
    return rc;
}

static void give_memory(struct api_exchange *x)
{
    budget_give(x->api->o.budget, x->held);
    x->held = 0;
}

struct api_exchange *api_begin(struct api *a, const struct api_call *c)
{
    struct api_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->api = a;
    x->out.budget = x->head.budget = a->o.budget;
    x->json_failures = json_failures();
    x->problem = problem_of_path(c->path);
    if (!take_memory(x, c))
        dispatch(x, c);
    if (x->status / 100 == 4 && (x->lacked_memory || json_failures() != x->json_failures)) { /* what seemed wrong may have been missing memory */
        struct api_problem p;
        api_refuse(&p, 503, "out_of_memory", NULL, "out of memory for the request");
        api_fail(x, &p);
    }
    if (!x->form) /* nothing of the request is left */
        give_memory(x);
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
    return x->streams ? x->form->stream_type : "application/json";
}

bool api_streams(struct api_exchange *x)
{
    return x->streams || x->more || x->trickles;
}

size_t api_length(struct api_exchange *x)
{
    return x->out.n - x->sent;
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
        if (!x->complete && x->more && x->more(x))
            x->out.failed = x->complete = true;
        else if (!x->complete && !x->more)
            api_pump(x);
    }
    size_t n = MIN(cap, x->out.n - x->sent);
    if (n == 0)
        return !x->complete ? 0 : x->out.failed || x->cut ? API_CUT : API_END;
    memcpy(buf, x->out.s + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

bool api_keep_alive(struct api_exchange *x, uint64_t quiet_ns)
{
    return x->form && !x->complete && x->sent == x->out.n && api_run_sign(x, quiet_ns);
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
    give_memory(x);
    budget_give(x->api->o.budget, x->n_ids * sizeof *x->ids);
    free(x->ids);
    out_finish(&x->out);
    free(x);
}
