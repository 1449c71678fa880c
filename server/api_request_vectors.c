/* Requests for vectors: OpenAI's embeddings, Ollama's, and ranking as Jina, Cohere and llama.cpp's server have it
 * (platform.openai.com/docs/api-reference/embeddings; ollama/ollama, docs/api.md; api.jina.ai, docs.cohere.com, "rerank";
 * ggml-org/llama.cpp, tools/server/README.md; `texts` and the bare list are those of Hugging Face's
 * text-embeddings-inference). */
#include <stdlib.h>
#include <string.h>

#include "server/api_request.h"

static int begin(const struct api_defaults *d, const char *body, size_t n, struct api_request *r, struct fields *f,
                 struct api_problem *p)
{
    const char *model;
    double seconds;
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    *f = fields_at(r->body, p, "%s", "");
    api_request_begin(d, r);
    r->pools = true;
    if ((rc = field_string(f, "model", &model)) < 0 || (rc = field_real(f, "timeout", 0.001, 1e6, &seconds)) < 0)
        return rc;
    if (rc)
        r->timeout_ns = (uint64_t)(seconds * 1e9);
    return 0;
}

static int room(const struct fields *f, const char *name, size_t n, struct api_request *r)
{
    if (n == 0)
        return field_value(f, name, "is empty, expected at least one");
    if (n > API_MAX_INPUTS)
        return field_value(f, name, "has %zu entries, a request may have %d", n, API_MAX_INPUTS);
    if (!(r->prompts = calloc(n, sizeof *r->prompts))) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    r->n_prompts = (uint32_t)n;
    return 0;
}

/* A text, ids, or an array of either. */
static int read_inputs(const struct api_defaults *d, const struct fields *f, const char *name, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, name);
    if (!v || json_is_null(v))
        return api_request_missing(f, name);
    const json_t *first = json_array_get(v, 0);
    bool many = json_is_array(v) && (!first || json_is_string(first) || json_is_array(first));
    int rc = room(f, name, many ? json_array_size(v) : 1, r);
    for (uint32_t i = 0; i < r->n_prompts && !rc; i++)
        rc = api_request_prompt(f, name, many ? json_array_get(v, i) : v, d->n_vocab, &r->prompts[i]);
    return rc;
}

static int read_dimensions(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    int64_t v;
    int rc = field_int(f, "dimensions", 1, INT32_MAX, &v);
    if (rc <= 0)
        return rc;
    if (d->n_vector && v > d->n_vector)
        return field_value(f, "dimensions", "is %lld, the vectors of this model have %u", (long long)v, d->n_vector);
    r->dimensions = (uint32_t)v;
    return 0;
}

int api_request_embeddings(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                           struct api_problem *p)
{
    struct fields f;
    const char *format = "float";
    int rc = begin(d, body, n, r, &f, p);
    if (rc || (rc = read_inputs(d, &f, "input", r)) || (rc = read_dimensions(d, &f, r)) ||
        (rc = field_string(&f, "encoding_format", &format)) < 0)
        return rc;
    r->base64 = strcmp(format, "base64") == 0;
    if (!r->base64 && strcmp(format, "float") != 0)
        return field_value(&f, "encoding_format", "is '%.40s', expected float or base64", format);
    return 0;
}

/* /api/embed has `input`, the older /api/embeddings has `prompt`. Ollama cuts what is too long unless it is told not to;
 * here it has to be told to. */
int api_request_ollama_embed(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                             struct api_problem *p)
{
    struct fields f;
    int rc = begin(d, body, n, r, &f, p);
    if (rc)
        return rc;
    const json_t *prompt = json_object_get(f.o, "prompt"), *input = json_object_get(f.o, "input");
    const char *name = prompt && !input ? "prompt" : "input";
    if ((rc = read_inputs(d, &f, name, r)) || (rc = read_dimensions(d, &f, r)) || (rc = field_bool(&f, "truncate", &r->cuts)) < 0)
        return rc;
    return 0;
}

/* A document is a text, or an object with one. */
static int read_document(const struct fields *f, const char *name, const json_t *v, struct api_prompt *out)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "text") : v;
    if (!json_is_string(text))
        return field_type(f, name, "an array of strings, or of objects with a string 'text'", text ? text : v);
    out->text = json_string_value(text);
    out->n_text = json_string_length(text);
    return 0;
}

int api_request_rerank(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                       struct api_problem *p)
{
    struct fields f;
    const json_t *list = NULL, *query;
    int64_t top;
    int rc = begin(d, body, n, r, &f, p);
    if (rc)
        return rc;
    if (!(query = json_object_get(f.o, "query")) || json_is_null(query))
        return api_request_missing(&f, "query");
    if (!json_is_string(query))
        return field_type(&f, "query", "a string", query);
    r->query = json_string_value(query);
    r->n_query = json_string_length(query);
    r->bare = !json_object_get(f.o, "documents") && json_object_get(f.o, "texts");
    const char *name = r->bare ? "texts" : "documents";
    if ((rc = field_array(&f, name, &list)) < 0)
        return rc;
    if (!rc)
        return api_request_missing(&f, name);
    if ((rc = room(&f, name, json_array_size(list), r)))
        return rc;
    if (r->n_query && r->n_prompts > API_MAX_PAIR_BYTES / r->n_query)
        return field_value(&f, "query", "has %zu bytes, which with %u documents are more than %d MiB", r->n_query, r->n_prompts,
                           API_MAX_PAIR_BYTES >> 20);
    for (uint32_t i = 0; i < r->n_prompts; i++)
        if ((rc = read_document(&f, name, json_array_get(list, i), &r->prompts[i])))
            return rc;
    if ((rc = field_bool(&f, r->bare ? "return_text" : "return_documents", &r->return_documents)) < 0 ||
        (rc = field_int(&f, "top_n", 1, INT32_MAX, &top)) < 0)
        return rc;
    r->top_n = rc ? (uint32_t)top : 0;
    return 0;
}
