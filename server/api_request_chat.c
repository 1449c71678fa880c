/* The request of /v1/chat/completions: messages, tools, reasoning. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

/* One part of a content; only text can be read. */
static int read_part(const struct fields *f, const char **text)
{
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_request_missing(f, "type");
    if (strcmp(type, "text") != 0 && strcmp(type, "refusal") != 0)
        return api_refuse(f->p, 400, "unsupported", f->path,
                          "'%s' is of type '%.64s': this server reads text only, no images, audio or files", f->path,
                          type);
    rc = field_string(f, type, text);
    return rc < 0 ? rc : rc ? 0 : api_request_missing(f, type);
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
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "id", &out->id)) < 0 ||
        (rc = field_string(f, "type", &type)) < 0 || (rc = field_object(f, "function", &o)) < 0)
        return rc;
    if (type && strcmp(type, "function") != 0)
        return api_refuse(f->p, 400, "unsupported", fields_name(f, "type"),
                          "'%s' is '%.64s': only calls of type function are supported", fields_name(f, "type"), type);
    if (!rc)
        return api_request_missing(f, "function");
    struct fields function = fields_at(o, f->p, "%.70s.function", f->path);
    if ((rc = field_string(&function, "name", &out->name)) < 0)
        return rc;
    if (!rc || !*out->name)
        return api_request_missing(&function, "name");
    arguments = json_object_get(o, "arguments");
    if (json_is_object(arguments)) {
        char *text = json_write(arguments, JSON_COMPACT);
        out->arguments = text;
        return api_request_own(r, text, f->p);
    }
    rc = field_string(&function, "arguments", &out->arguments);
    if (out->arguments && !*out->arguments)
        out->arguments = NULL;
    return rc < 0 ? rc : 0;
}

int api_request_calls(const struct fields *f, struct api_request *r, struct engine_message *m)
{
    const json_t *array;
    int rc = field_array(f, "tool_calls", &array);
    if (rc != 1 || !json_array_size(array))
        return rc < 0 ? rc : 0;
    if (json_array_size(array) > API_MAX_CALLS)
        return field_value(f, "tool_calls", "has %zu calls, at most %d can be given", json_array_size(array),
                           API_MAX_CALLS);
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
        return api_request_missing(f, "role");
    while (i < ARRAY_LEN(roles) && strcmp(roles[i], m->role) != 0)
        i++;
    if (i == ARRAY_LEN(roles))
        return field_value(f, "role", "is '%.64s', expected system, developer, user, assistant or tool", m->role);
    if ((rc = read_content(f, r, &m->text)) < 0)
        return rc;
    bool assistant = strcmp(m->role, "assistant") == 0;
    if (assistant && ((rc = api_request_calls(f, r, m)) < 0 || (rc = field_string(f, "reasoning", &m->reasoning)) < 0 ||
                      (rc = field_string(f, "reasoning_content", &m->reasoning)) < 0))
        return rc;
    if (!assistant && !json_object_get(f->o, "content"))
        return api_request_missing(f, "content");
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
    if (json_array_size(array) > API_MAX_MESSAGES)
        return field_value(f, "messages", "has %zu messages, at most %d can be given", json_array_size(array),
                           API_MAX_MESSAGES);
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

/* OpenAI's levels. Formats have three (gpt-oss), two or none: a level turns reasoning on where it can be turned, and
 * beyond the highest or below the lowest it is that. `minimal` leaves it to the model whether to reason at all. */
int api_request_effort(const struct fields *f, const char *name, struct api_request *r)
{
    static const struct {
        const char *name, *effort;
        int think; /* -1: as before */
    } levels[] = { { "none", "low", 0 },      { "minimal", "low", -1 }, { "low", "low", 1 },  { "medium", "medium", 1 },
                   { "high", "high", 1 },     { "xhigh", "high", 1 },   { "max", "high", 1 } };
    const char *s;
    size_t i = 0;
    int rc = field_string(f, name, &s);
    if (rc != 1)
        return rc;
    while (i < ARRAY_LEN(levels) && strcmp(levels[i].name, s) != 0)
        i++;
    if (i == ARRAY_LEN(levels))
        return field_value(f, name, "is '%.64s', expected none, minimal, low, medium, high or xhigh", s);
    r->effort = levels[i].effort;
    if (levels[i].think >= 0)
        r->think = levels[i].think;
    return 0;
}

static int read_budget(const struct fields *f, const char *name, struct api_request *r)
{
    int64_t v;
    int rc = field_int(f, name, -1, INT32_MAX, &v);
    if (rc == 1)
        r->think_budget = (int32_t)v;
    return rc < 0 ? rc : 0;
}

/* "reasoning": {"effort": .., "max_tokens": .., "enabled": ..}, as in the Responses API and what speaks for it. */
static int read_reasoning_object(const struct fields *f, struct api_request *r)
{
    const json_t *o;
    bool exclude = false;
    int rc = field_object(f, "reasoning", &o);
    if (rc != 1)
        return rc;
    struct fields in = fields_at(o, f->p, "reasoning");
    if ((rc = api_request_effort(&in, "effort", r)) < 0 || (rc = read_budget(&in, "max_tokens", r)) < 0 ||
        (rc = read_think(&in, "enabled", r)) < 0 || (rc = field_bool(&in, "exclude", &exclude)) < 0)
        return rc;
    if (exclude)
        return api_refuse(f->p, 400, "unsupported", "reasoning.exclude",
                          "'reasoning.exclude' is not supported: 'enable_thinking' turns reasoning off");
    return 0;
}

/* At the top level, or in chat_template_kwargs where vLLM and llama.cpp's server have it. */
static int read_reasoning(const struct fields *f, struct api_request *r)
{
    static const char *const budgets[] = { "thinking_token_budget", "thinking_budget", "reasoning_budget" };
    const json_t *o = NULL;
    int rc = field_object(f, "chat_template_kwargs", &o);
    if (rc < 0)
        return rc;
    struct fields kwargs = fields_at(o, f->p, "chat_template_kwargs");
    if ((rc = api_request_effort(&kwargs, "reasoning_effort", r)) < 0 || (rc = read_reasoning_object(f, r)) < 0 ||
        (rc = api_request_effort(f, "reasoning_effort", r)) < 0 ||
        (rc = read_think(&kwargs, "thinking", r)) || (rc = read_think(&kwargs, "enable_thinking", r)) ||
        (rc = read_think(f, "enable_thinking", r)))
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(budgets); i++)
        if ((rc = read_budget(f, budgets[i], r)))
            return rc;
    return 0;
}

/* vLLM's continue_final_message: the last message is the beginning of the answer. It comes with
 * add_generation_prompt false, or without that field. */
static int read_continuation(const struct fields *f, struct api_request *r)
{
    bool begin = true;
    int said = field_bool(f, "add_generation_prompt", &begin), rc;
    if (said < 0 || (rc = field_bool(f, "continue_final_message", &r->continue_final)) < 0)
        return -EINVAL;
    if (!r->continue_final)
        return begin ? 0
                     : api_refuse(f->p, 400, "unsupported", "add_generation_prompt",
                                  "'add_generation_prompt' false is supported with 'continue_final_message' only");
    const struct engine_message *last = &r->messages[r->n_messages - 1];
    if (said && begin)
        return field_value(f, "continue_final_message", "cannot be given together with 'add_generation_prompt' true");
    if (strcmp(last->role, "assistant") != 0 || last->n_calls)
        return field_value(f, "continue_final_message",
                           "needs an assistant's message without tool calls as the last one");
    if (r->format_param || r->tools)
        return api_refuse(f->p, 400, "unsupported", "continue_final_message",
                          "'continue_final_message' is not supported together with '%s'",
                          r->format_param ? r->format_param : "tools");
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

/* "prediction": the text that an answer will be much like, as an edited file is. */
static int read_prediction(const struct fields *f, struct api_request *r)
{
    const json_t *o;
    const char *type = NULL;
    int rc = field_object(f, "prediction", &o);
    if (rc <= 0)
        return rc;
    struct fields of = fields_at(o, f->p, "prediction");
    if ((rc = field_string(&of, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_request_missing(&of, "type");
    if (strcmp(type, "content") != 0)
        return field_value(&of, "type", "is '%.64s', expected content", type);
    rc = read_content(&of, r, &r->predicted);
    return rc || r->predicted ? rc : api_request_missing(&of, "content");
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
        (rc = api_request_unsupported(&f, true)) < 0 || (rc = api_request_tools(&f, r)) < 0 ||
        (rc = read_reasoning(&f, r)) < 0 || (rc = read_continuation(&f, r)) < 0 || (rc = read_logprobs(&f, r)) < 0 ||
        (rc = api_request_verbosity(&f, r)) < 0 || (rc = read_prediction(&f, r)) < 0)
        return rc;
    return 0;
}
