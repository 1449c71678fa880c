/* The request of /v1/chat/completions: messages, tools, reasoning. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_request.h"

static int missing(const struct fields *f, const char *name)
{
    const char *full = fields_name(f, name);
    return api_refuse(f->p, 400, "missing_field", full, "'%s' is missing", full);
}

/* One part of a content; only text can be read. */
static int read_part(const struct fields *f, const char **text)
{
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (!type)
        return missing(f, "type");
    if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        return api_refuse(f->p, 400, "unsupported", f->path,
                          "'%s' is of type '%.64s': this server reads text only, no images, audio or files", f->path,
                          type);
    rc = field_string(f, type, text);
    return rc < 0 ? rc : rc ? 0 : missing(f, type);
}

/* The parts' texts, a line each. */
static int join_parts(const struct fields *f, const json_t *parts, struct api_request *r, const char **out)
{
    size_t i, size = 1, n = 0;
    json_t *v;
    const char *text = NULL;
    json_array_foreach((json_t *)parts, i, v)
    {
        struct fields part = fields_at(v, f->p, "%.64s.content[%zu]", f->path, i);
        int rc = read_part(&part, &text);
        if (rc)
            return rc;
        size += strlen(text) + 1;
    }
    char *s = calloc(1, size);
    int rc = api_request_own(r, s, f->p);
    if (rc)
        return rc;
    json_array_foreach((json_t *)parts, i, v)
    {
        struct fields part = fields_at(v, f->p, "%.64s.content[%zu]", f->path, i);
        read_part(&part, &text);
        if (i)
            s[n++] = '\n';
        memcpy(s + n, text, strlen(text));
        n += strlen(text);
    }
    *out = s;
    return 0;
}

static int read_content(const struct fields *f, struct api_request *r, const char **out)
{
    const json_t *v = json_object_get(f->o, "content");
    if (json_is_array(v))
        return join_parts(f, v, r, out);
    if (v && !json_is_null(v) && !json_is_string(v))
        return field_type(f, "content", "a string or an array of parts", v);
    *out = json_string_value(v);
    return 0;
}

/* Arguments are JSON in a string; as an object they are clear too. */
static int read_call(const struct fields *f, struct api_request *r, struct engine_call *out)
{
    const json_t *o, *arguments;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "id", &out->id)) < 0 ||
        (rc = field_object(f, "function", &o)) < 0)
        return rc;
    if (!rc)
        return missing(f, "function");
    struct fields function = fields_at(o, f->p, "%.70s.function", f->path);
    if ((rc = field_string(&function, "name", &out->name)) < 0)
        return rc;
    if (!rc || !*out->name)
        return missing(&function, "name");
    arguments = json_object_get(o, "arguments");
    if (json_is_object(arguments)) {
        char *text = json_dumps(arguments, JSON_COMPACT);
        out->arguments = text;
        return api_request_own(r, text, f->p);
    }
    rc = field_string(&function, "arguments", &out->arguments);
    if (out->arguments && !*out->arguments)
        out->arguments = NULL;
    return rc < 0 ? rc : 0;
}

static int read_calls(const struct fields *f, struct api_request *r, struct engine_message *m)
{
    const json_t *array;
    int rc = field_array(f, "tool_calls", &array);
    if (rc != 1 || !json_array_size(array))
        return rc < 0 ? rc : 0;
    struct engine_call *calls = calloc(json_array_size(array), sizeof *calls);
    if ((rc = api_request_own(r, calls, f->p)))
        return rc;
    m->calls = calls;
    m->n_calls = (uint32_t)json_array_size(array);
    for (uint32_t i = 0; i < m->n_calls && !rc; i++) {
        struct fields call = fields_at(json_array_get(array, i), f->p, "%.48s.tool_calls[%u]", f->path, i);
        rc = read_call(&call, r, &calls[i]);
    }
    return rc;
}

static int read_message(const struct fields *f, struct api_request *r, struct engine_message *m)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool" };
    size_t i = 0;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "role", &m->role)) < 0)
        return rc;
    if (!rc)
        return missing(f, "role");
    while (i < ARRAY_LEN(roles) && strcmp(roles[i], m->role) != 0)
        i++;
    if (i == ARRAY_LEN(roles))
        return field_value(f, "role", "is '%.64s', expected system, developer, user, assistant or tool", m->role);
    if ((rc = read_content(f, r, &m->text)) < 0)
        return rc;
    bool assistant = strcmp(m->role, "assistant") == 0;
    if (assistant && ((rc = read_calls(f, r, m)) < 0 || (rc = field_string(f, "reasoning_content", &m->reasoning)) < 0))
        return rc;
    if (!m->text && !assistant)
        return missing(f, "content");
    if (strcmp(m->role, "tool") != 0)
        return 0;
    rc = field_string(f, "name", &m->name);
    return rc < 0 || (rc = field_string(f, "tool_call_id", &m->call_id)) < 0 ? rc : 0;
}

int api_request_messages(const struct fields *f, struct api_request *r)
{
    const json_t *array;
    int rc = field_array(f, "messages", &array);
    if (rc < 0)
        return rc;
    if (!rc || !json_array_size(array))
        return api_refuse(f->p, 400, "missing_field", "messages", "the request has no 'messages'");
    r->messages = calloc(json_array_size(array), sizeof *r->messages);
    if ((rc = api_request_own(r, r->messages, f->p)))
        return rc;
    r->n_messages = (uint32_t)json_array_size(array);
    for (uint32_t i = 0; i < r->n_messages && !rc; i++) {
        struct fields m = fields_at(json_array_get(array, i), f->p, "messages[%u]", i);
        rc = read_message(&m, r, &r->messages[i]);
    }
    return rc;
}

static int read_think(const struct fields *f, const char *name, struct api_request *r)
{
    bool on = false;
    int rc = field_bool(f, name, &on);
    if (rc == 1)
        r->think = on;
    return rc < 0 ? rc : 0;
}

static int read_effort(const struct fields *f, struct api_request *r)
{
    static const char *const levels[] = { "none", "minimal", "low", "medium", "high" };
    const char *s;
    size_t i = 0;
    int rc = field_string(f, "reasoning_effort", &s);
    if (rc != 1)
        return rc;
    while (i < ARRAY_LEN(levels) && strcmp(levels[i], s) != 0)
        i++;
    if (i == ARRAY_LEN(levels))
        return field_value(f, "reasoning_effort", "is '%.64s', expected none, minimal, low, medium or high", s);
    if (i == 0)
        r->think = 0;
    else
        r->effort = i == 1 ? "low" : s;
    return 0;
}

/* At the top level, or in chat_template_kwargs where vLLM and llama.cpp's server have it. */
static int read_reasoning(const struct fields *f, struct api_request *r)
{
    static const char *const budgets[] = { "thinking_budget", "reasoning_budget" };
    const json_t *o = NULL;
    int64_t v;
    int rc = field_object(f, "chat_template_kwargs", &o);
    if (rc < 0)
        return rc;
    struct fields kwargs = fields_at(o, f->p, "chat_template_kwargs");
    if ((rc = read_effort(&kwargs, r)) < 0 || (rc = read_effort(f, r)) < 0 ||
        (rc = read_think(&kwargs, "thinking", r)) || (rc = read_think(&kwargs, "enable_thinking", r)) ||
        (rc = read_think(f, "enable_thinking", r)))
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(budgets); i++) {
        if ((rc = field_int(f, budgets[i], -1, INT32_MAX, &v)) < 0)
            return rc;
        if (rc)
            r->think_budget = (int32_t)v;
    }
    return 0;
}

static int read_logprobs(const struct fields *f, struct api_request *r)
{
    bool on = false;
    int64_t top = 0;
    int rc = field_bool(f, "logprobs", &on);
    if (rc < 0 || (rc = field_int(f, "top_logprobs", 0, SCHED_MAX_LOGPROBS, &top)) < 0)
        return rc;
    if (rc && top && !on)
        return field_value(f, "top_logprobs", "needs \"logprobs\": true");
    if (on)
        r->n_logprobs = (int32_t)top;
    return 0;
}

int api_request_chat(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                     struct api_problem *p)
{
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    if ((rc = api_request_messages(&f, r)) < 0 || (rc = api_request_common(d, &f, r)) < 0 ||
        (rc = api_request_tools(&f, r)) < 0 || (rc = read_reasoning(&f, r)) < 0 || (rc = read_logprobs(&f, r)) < 0)
        return rc;
    return 0;
}
