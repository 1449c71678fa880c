/* The requests of POST /api/chat and /api/generate: Ollama's API, as ollama/ollama's docs/api.md and its clients
 * (ollama/ollama-python, ollama/_types.py) have it. Sampling is in `options`, under the names of the other endpoints;
 * streams are the rule. What tells Ollama how to run a model (num_ctx, num_gpu, keep_alive ...) changes nothing here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

static int refuse_images(const struct fields *f)
{
    const json_t *images = NULL;
    int rc = field_array(f, "images", &images);
    if (rc < 0 || !json_array_size(images))
        return rc < 0 ? rc : 0;
    return api_refuse(f->p, 400, "unsupported", fields_name(f, "images"), "'%s' is not supported: this server reads text only",
                      fields_name(f, "images"));
}

static int read_message(const struct fields *f, struct api_request *r, struct engine_message *m)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    size_t i = 0;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "role", &m->role)) < 0)
        return rc;
    if (!rc)
        return api_request_missing(f, "role");
    while (i < ARRAY_LEN(roles) && strcmp(roles[i], m->role) != 0)
        i++;
    if (i == ARRAY_LEN(roles))
        return field_value(f, "role", "is '%.64s', expected system, user, assistant or tool", m->role);
    if ((rc = field_string(f, "content", &m->text)) < 0 || (rc = refuse_images(f)))
        return rc;
    if (strcmp(m->role, "assistant") == 0)
        return (rc = field_string(f, "thinking", &m->reasoning)) < 0 ? rc : api_request_calls(f, r, m);
    if (strcmp(m->role, "tool") != 0)
        return 0;
    return (rc = field_string(f, "tool_name", &m->name)) < 0 || (rc = field_string(f, "tool_call_id", &m->call_id)) < 0
               ? rc : 0;
}

static int read_messages(const struct fields *f, struct api_request *r)
{
    const json_t *array = NULL;
    int rc = field_array(f, "messages", &array);
    if (rc < 0)
        return rc;
    size_t n = json_array_size(array);
    if (n > API_MAX_MESSAGES)
        return field_value(f, "messages", "has %zu messages, at most %d can be given", n, API_MAX_MESSAGES);
    r->messages = calloc(n + 1, sizeof *r->messages);
    if ((rc = api_request_own(r, r->messages, f->p)))
        return rc;
    r->n_messages = (uint32_t)n;
    for (uint32_t i = 0; i < r->n_messages && !rc; i++) {
        struct fields m = fields_at(json_array_get(array, i), f->p, "messages[%u]", i);
        rc = read_message(&m, r, &r->messages[i]);
    }
    return rc;
}

/* -1 is no limit; -2, until the context is full, is none either. */
static int read_options(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    const json_t *o = NULL;
    int64_t n;
    int rc = field_object(f, "options", &o);
    if (rc < 0)
        return rc;
    json_t *none = o ? NULL : json_object();
    struct fields options = fields_at(o ? o : none, f->p, "options");
    if ((rc = api_request_sampling(d, &options, r)) >= 0 && (rc = api_request_stop(&options, "stop", r)) >= 0)
        rc = field_int(&options, "num_predict", -2, INT32_MAX, &n);
    if (rc == 1)
        r->max_tokens = n < 0 ? 0 : MAX(1u, (uint32_t)n);
    json_decref(none);
    return rc < 0 ? rc : 0;
}

/* "json", or a schema. */
static int read_format(const struct fields *f, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, "format");
    const char *s = json_string_value(v);
    if (!v || json_is_null(v) || (s && !*s))
        return 0;
    if (json_is_object(v))
        return api_request_schema(f, r, "format", v);
    if (!s || strcmp(s, "json") != 0)
        return s ? field_value(f, "format", "is '%.64s', expected json or a schema", s)
                 : field_type(f, "format", "\"json\" or a schema", v);
    r->format = ANSWER_JSON_OBJECT;
    r->format_param = "format";
    return 0;
}

/* true, false, or how much. */
static int read_think(const struct fields *f, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, "think");
    bool on;
    if (json_is_string(v))
        return api_request_effort(f, "think", r);
    int rc = field_bool(f, "think", &on);
    if (rc == 1)
        r->think = on;
    return rc;
}

static int read_common(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    int rc;
    api_request_begin(d, r);
    if ((rc = read_options(d, f, r)) < 0 || (rc = api_request_model(d, f)) < 0 ||
        (rc = read_format(f, r)) < 0 || (rc = read_think(f, r)) < 0)
        return rc;
    r->stream = true;
    rc = field_bool(f, "stream", &r->stream);
    return rc < 0 ? rc : 0;
}

int api_request_ollama_chat(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                            struct api_problem *p)
{
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    if ((rc = read_common(d, &f, r)) < 0 || (rc = read_messages(&f, r)) < 0 || (rc = api_request_tools(&f, r)) < 0)
        return rc;
    const struct engine_message *last = r->n_messages ? &r->messages[r->n_messages - 1] : NULL;
    r->continue_final = last && strcmp(last->role, "assistant") == 0 && !last->n_calls && !r->tools && !r->format_param;
    return 0;
}

/* The prompt as it stands. */
static int take_raw(const struct fields *f, const char *prompt, struct api_request *r)
{
    const char *by = r->suffix ? "suffix" : "raw";
    if (r->format_param)
        return api_refuse(f->p, 400, "unsupported", by, "'%s' is not supported together with 'format'", by);
    if (!(r->prompts = calloc(1, sizeof *r->prompts))) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    r->prompts[0] = (struct api_prompt){ .text = prompt, .n_text = strlen(prompt) };
    r->n_prompts = 1;
    return 0;
}

int api_request_ollama_generate(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                                struct api_problem *p)
{
    const char *prompt = "", *system = "", *template = "", *suffix = "";
    bool raw = false;
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    if ((rc = read_common(d, &f, r)) < 0 || (rc = refuse_images(&f)) < 0 || (rc = field_string(&f, "prompt", &prompt)) < 0 ||
        (rc = field_string(&f, "system", &system)) < 0 || (rc = field_string(&f, "template", &template)) < 0 ||
        (rc = field_string(&f, "suffix", &suffix)) < 0 || (rc = field_bool(&f, "raw", &raw)) < 0)
        return rc;
    if (*template)
        return api_refuse(p, 400, "unsupported", "template",
                          "'template' is not supported: conversations are written in the model's own format, or use 'raw'");
    if (!*prompt && !*suffix) /* nothing to do */
        return 0;
    if (*suffix)
        r->suffix = suffix;
    if (raw || *suffix)
        return take_raw(&f, prompt, r);
    r->messages = calloc(2, sizeof *r->messages);
    if ((rc = api_request_own(r, r->messages, p)))
        return rc;
    if (*system)
        r->messages[r->n_messages++] = (struct engine_message){ .role = "system", .text = system };
    r->messages[r->n_messages++] = (struct engine_message){ .role = "user", .text = prompt };
    return 0;
}
