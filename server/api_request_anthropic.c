/* The request of POST /v1/messages: Anthropic's Messages API, as its documentation (platform.claude.com/docs/en/api/messages)
 * and its clients have it (anthropics/anthropic-sdk-python, src/anthropic/types/message_create_params.py and the
 * *_block_param.py beside it). Sampling knows all that the other endpoints know.
 *
 * Blocks of a user's message are taken in their order: results of tools become messages of their own. An assistant's
 * message is one, with its reasoning and its calls; as the last one it is the beginning of the answer. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

/* Clients put a line of accounting before the system prompt, with a checksum that changes with each request
 * ("x-anthropic-billing-header: cc_version=..; cch=..;"): it says nothing to the model, and behind a line that changes
 * nothing of a prompt can be used again. Such a line is a header's name that tells what it is for, and a colon. */
static const char *skip_accounting(const char *s)
{
    static const char *const words[] = { "billing", "attribution" };
    size_t name = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    if (strncasecmp(s, "x-", 2) != 0 || s[name] != ':')
        return s;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (size_t at = 0; at + strlen(words[i]) <= name; at++)
            if (strncasecmp(s + at, words[i], strlen(words[i])) == 0) {
                s += strcspn(s, "\n");
                return s + strspn(s, "\n");
            }
    return s;
}

static int block_type(const struct fields *f, const char **type)
{
    int rc;
    *type = NULL;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", type)) < 0)
        return rc;
    return rc ? 0 : api_request_missing(f, "type");
}

static int not_readable(const struct fields *f, const char *type)
{
    return api_refuse(f->p, 400, "unsupported", f->path,
                      "'%s' is of type '%.64s': this server reads text, calls of tools and their results only", f->path,
                      type);
}

/* A block of type text, or a document that is text. */
static int read_text(const struct fields *f, const char *type, const char **text)
{
    const json_t *source;
    const char *kind = NULL;
    int rc;
    if (strcmp(type, "text") == 0) {
        rc = field_string(f, "text", text);
        return rc < 0 ? rc : rc ? 0 : api_request_missing(f, "text");
    }
    if (strcmp(type, "document") != 0)
        return not_readable(f, type);
    if ((rc = field_object(f, "source", &source)) != 1)
        return rc < 0 ? rc : api_request_missing(f, "source");
    struct fields in = fields_at(source, f->p, "%.80s.source", f->path);
    if ((rc = field_string(&in, "type", &kind)) < 0)
        return rc;
    if (!kind || strcmp(kind, "text") != 0)
        return not_readable(f, "document");
    rc = field_string(&in, "data", text);
    return rc < 0 ? rc : rc ? 0 : api_request_missing(&in, "data");
}

/* A string or blocks of text, with a line end between two. */
static int read_texts(const struct fields *f, const char *name, struct api_request *r, bool system, const char **out)
{
    const json_t *v = json_object_get(f->o, name), *item;
    struct tok_buf b = { 0 };
    size_t i;
    int rc = 0;
    if (!v || json_is_null(v))
        return 0;
    if (json_is_string(v)) {
        *out = system ? skip_accounting(json_string_value(v)) : json_string_value(v);
        return 0;
    }
    if (!json_is_array(v))
        return field_type(f, name, "a string or an array of blocks", v);
    json_array_foreach((json_t *)v, i, item)
    {
        struct fields block = fields_at(item, f->p, "%.64s%s%s[%zu]", f->path, *f->path ? "." : "", name, i);
        const char *type, *text = "";
        if ((rc = block_type(&block, &type)) || (rc = read_text(&block, type, &text)))
            break;
        if (system && !i)
            text = skip_accounting(text);
        if ((rc = api_request_text_add(f, &b, text, "\n")))
            break;
    }
    if (!rc)
        rc = api_request_text_own(f, &b, r, out);
    tok_buf_finish(&b);
    return rc;
}

static struct engine_message *add_message(struct api_request *r, const char *role)
{
    struct engine_message *m = &r->messages[r->n_messages++];
    m->role = role;
    return m;
}

/* ---- what the assistant said ---- */

static int read_tool_use(const struct fields *f, struct api_request *r, struct engine_call *out)
{
    const json_t *input = NULL;
    int rc;
    if ((rc = field_string(f, "id", &out->id)) < 0 || (rc = field_string(f, "name", &out->name)) < 0)
        return rc;
    if (!rc || !*out->name)
        return api_request_missing(f, "name");
    if ((rc = field_object(f, "input", &input)) != 1)
        return rc;
    char *text = json_write(input, JSON_COMPACT);
    out->arguments = text;
    return api_request_own(r, text, f->p);
}

struct said {
    struct tok_buf text, reasoning;
    struct engine_call *calls; /* [cap] */
    uint32_t n_calls;
};

static int read_said(const struct fields *f, struct api_request *r, struct said *s)
{
    const char *type, *text = "";
    int rc = block_type(f, &type);
    if (rc || strcmp(type, "redacted_thinking") == 0)
        return rc;
    if (strcmp(type, "thinking") == 0) {
        rc = field_string(f, "thinking", &text);
        return rc < 0 ? rc : api_request_text_add(f, &s->reasoning, text, "\n");
    }
    if (strcmp(type, "tool_use") != 0)
        return (rc = read_text(f, type, &text)) ? rc : api_request_text_add(f, &s->text, text, "\n");
    if (s->n_calls == API_MAX_CALLS)
        return field_value(f, "type", "is tool_use once more: at most %d calls can be in a message", API_MAX_CALLS);
    return read_tool_use(f, r, &s->calls[s->n_calls++]);
}

static int read_assistant(const struct fields *f, const json_t *content, struct api_request *r)
{
    struct engine_message *m = add_message(r, "assistant");
    struct said s = { 0 };
    const json_t *v;
    size_t i, cap = MIN(json_array_size(content), (size_t)API_MAX_CALLS);
    s.calls = calloc(cap + 1, sizeof *s.calls);
    int rc = api_request_own(r, s.calls, f->p);
    json_array_foreach((json_t *)content, i, v)
    {
        struct fields block = fields_at(v, f->p, "%.48s.content[%zu]", f->path, i);
        if (rc || (rc = read_said(&block, r, &s)))
            break;
    }
    if (!rc && !(rc = api_request_text_own(f, &s.text, r, &m->text)))
        rc = api_request_text_own(f, &s.reasoning, r, &m->reasoning);
    tok_buf_finish(&s.text);
    tok_buf_finish(&s.reasoning);
    m->calls = s.n_calls ? s.calls : NULL;
    m->n_calls = s.n_calls;
    return rc;
}

/* ---- what the user said ---- */

static int end_text(const struct fields *f, struct tok_buf *b, const char *role, struct api_request *r)
{
    return b->n ? api_request_text_own(f, b, r, &add_message(r, role)->text) : 0;
}

static int read_user(const struct fields *f, const json_t *content, const char *role, struct api_request *r)
{
    struct tok_buf b = { 0 };
    uint32_t before = r->n_messages;
    const json_t *v;
    size_t i;
    int rc = 0;
    json_array_foreach((json_t *)content, i, v)
    {
        struct fields block = fields_at(v, f->p, "%.48s.content[%zu]", f->path, i);
        const char *type, *text = "";
        if ((rc = block_type(&block, &type)))
            break;
        if (strcmp(type, "tool_result") != 0) {
            if ((rc = read_text(&block, type, &text)) || (rc = api_request_text_add(f, &b, text, "\n")))
                break;
            continue;
        }
        if ((rc = end_text(f, &b, role, r)))
            break;
        struct engine_message *m = add_message(r, "tool");
        if ((rc = field_string(&block, "tool_use_id", &m->call_id)) < 0 ||
            (rc = read_texts(&block, "content", r, false, &m->text)) < 0)
            break;
    }
    if (!rc)
        rc = end_text(f, &b, role, r);
    tok_buf_finish(&b);
    if (!rc && r->n_messages == before)
        add_message(r, role);
    return rc;
}

static int read_message(const struct fields *f, struct api_request *r)
{
    const char *role = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "role", &role)) < 0)
        return rc;
    if (!role)
        return api_request_missing(f, "role");
    bool assistant = strcmp(role, "assistant") == 0;
    if (!assistant && strcmp(role, "user") != 0 && strcmp(role, "system") != 0)
        return field_value(f, "role", "is '%.64s', expected user or assistant", role);
    const json_t *content = json_object_get(f->o, "content");
    if (json_is_string(content)) {
        add_message(r, role)->text = json_string_value(content);
        return 0;
    }
    if (!json_is_array(content))
        return content ? field_type(f, "content", "a string or an array of blocks", content)
                       : api_request_missing(f, "content");
    return assistant ? read_assistant(f, content, r) : read_user(f, content, role, r);
}

static int read_messages(const struct fields *f, struct api_request *r)
{
    const json_t *array, *v;
    size_t i, most = 1;
    int rc = field_array(f, "messages", &array);
    if (rc < 0)
        return rc;
    if (!rc || !json_array_size(array))
        return api_refuse(f->p, 400, "missing_field", "messages", "the request has no 'messages'");
    if (json_array_size(array) > API_MAX_MESSAGES)
        return field_value(f, "messages", "has %zu messages, at most %d can be given", json_array_size(array),
                           API_MAX_MESSAGES);
    json_array_foreach((json_t *)array, i, v)
        most += 1 + json_array_size(json_object_get(v, "content"));
    r->messages = calloc(most, sizeof *r->messages);
    if ((rc = api_request_own(r, r->messages, f->p)))
        return rc;
    const char *system = NULL;
    if ((rc = read_texts(f, "system", r, true, &system)))
        return rc;
    if (system && *system)
        add_message(r, "system")->text = system;
    json_array_foreach((json_t *)array, i, v)
    {
        struct fields m = fields_at(v, f->p, "messages[%zu]", i);
        if ((rc = read_message(&m, r)))
            return rc;
    }
    const struct engine_message *last = &r->messages[r->n_messages - 1];
    r->continue_final = strcmp(last->role, "assistant") == 0 && !last->n_calls;
    return 0;
}

/* ---- tools ---- */

static int choose(const struct fields *f, const json_t *list, struct api_request *r)
{
    const json_t *o;
    const char *type = NULL;
    bool one = false;
    int rc = field_object(f, "tool_choice", &o);
    if (rc != 1)
        return rc;
    struct fields choice = fields_at(o, f->p, "tool_choice");
    if ((rc = field_string(&choice, "type", &type)) < 0 ||
        (rc = field_bool(&choice, "disable_parallel_tool_use", &one)) < 0 ||
        (rc = field_string(&choice, "name", &r->named)) < 0)
        return rc;
    if (!type)
        return api_request_missing(&choice, "type");
    r->parallel = !one;
    if (strcmp(type, "none") == 0)
        r->choice = ANSWER_TOOLS_NONE;
    else if (strcmp(type, "any") == 0)
        r->choice = ANSWER_TOOLS_REQUIRED;
    else if (strcmp(type, "tool") == 0)
        r->choice = ANSWER_TOOLS_NAMED;
    else if (strcmp(type, "auto") != 0)
        return field_value(&choice, "type", "is '%.64s', expected auto, any, tool or none", type);
    if (r->choice == ANSWER_TOOLS_REQUIRED && !json_array_size(list))
        return field_value(&choice, "type", "is any, but there are no 'tools'");
    if (r->choice == ANSWER_TOOLS_NAMED && (!r->named || !api_request_has_tool(list, r->named)))
        return field_value(&choice, "name", "is '%.64s', which is none of 'tools'", r->named ? r->named : "");
    return 0;
}

static int add_tool(const struct fields *f, json_t *list)
{
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (type && strcmp(type, "custom") != 0)
        return api_refuse(f->p, 400, "unsupported", fields_name(f, "type"),
                          "'%s' is '%.64s': this server runs no tools of its own, only those of type custom can be given",
                          fields_name(f, "type"), type);
    return api_request_tool_add(f, "input_schema", list);
}

static int read_tools(const struct fields *f, struct api_request *r)
{
    const json_t *tools = NULL, *v;
    json_t *list = json_array();
    size_t i;
    int rc = field_array(f, "tools", &tools);
    if (rc > 0)
        rc = 0;
    json_array_foreach((json_t *)tools, i, v)
    {
        struct fields tool = fields_at(v, f->p, "tools[%zu]", i);
        if (rc < 0 || (rc = add_tool(&tool, list)) < 0)
            break;
    }
    if (rc >= 0 && (rc = choose(f, list, r)) >= 0)
        rc = api_request_tools_set(f, list, r);
    json_decref(list);
    return rc;
}

/* ---- reasoning, and what the answer must be ---- */

/* Who does not ask for thinking gets none: clients that do not know it look for text in the first block. */
static int read_thinking(const struct fields *f, const struct api_defaults *d, struct api_request *r)
{
    const json_t *o;
    const char *type = NULL;
    int64_t budget;
    int rc = field_object(f, "thinking", &o);
    if (rc != 1) {
        r->think = d->think < 0 ? 0 : d->think;
        return rc;
    }
    struct fields in = fields_at(o, f->p, "thinking");
    if ((rc = field_string(&in, "type", &type)) < 0)
        return rc;
    if (!type || (strcmp(type, "enabled") != 0 && strcmp(type, "disabled") != 0 && strcmp(type, "adaptive") != 0))
        return field_value(&in, "type", "is '%.64s', expected enabled, disabled or adaptive", type ? type : "");
    r->think = *type == 'e' ? 1 : *type == 'd' ? 0 : d->think;
    if ((rc = field_int(&in, "budget_tokens", 0, INT32_MAX, &budget)) == 1 && *type == 'e')
        r->think_budget = (int32_t)budget;
    return rc < 0 ? rc : 0;
}

/* {"type":"json_schema","schema":{..}}, which is `output_config.format` and was `output_format`. */
static int read_format(const struct fields *f, const char *name, struct api_request *r)
{
    const json_t *o, *schema;
    const char *type = NULL;
    int rc = field_object(f, name, &o);
    if (rc != 1)
        return rc;
    struct fields in = fields_at(o, f->p, "%.80s", fields_name(f, name));
    if ((rc = field_string(&in, "type", &type)) < 0)
        return rc;
    if (!type || strcmp(type, "json_schema") != 0)
        return field_value(&in, "type", "is '%.64s', expected json_schema", type ? type : "");
    if ((rc = field_object(&in, "schema", &schema)) != 1)
        return rc < 0 ? rc : api_request_missing(&in, "schema");
    return api_request_schema(f, r, *f->path ? "output_config" : "output_format", schema);
}

static int read_output(const struct fields *f, struct api_request *r)
{
    const json_t *o;
    int think = r->think, rc = read_format(f, "output_format", r);
    if (rc < 0 || (rc = field_object(f, "output_config", &o)) != 1)
        return rc;
    struct fields in = fields_at(o, f->p, "output_config");
    rc = api_request_effort(&in, "effort", r);
    r->think = think; /* `thinking` says that */
    return rc < 0 ? rc : read_format(&in, "format", r);
}

int api_request_anthropic(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                          struct api_problem *p)
{
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    api_request_begin(d, r);
    if ((rc = read_messages(&f, r)) < 0 || (rc = api_request_sampling(d, &f, r)) < 0 ||
        (rc = api_request_limit(&f, "max_tokens", r)) < 0 || (rc = api_request_stop(&f, "stop_sequences", r)) < 0 ||
        (rc = read_tools(&f, r)) < 0 || (rc = read_thinking(&f, d, r)) < 0 || (rc = read_output(&f, r)) < 0)
        return rc;
    if (r->continue_final && (r->tools || r->format_param)) /* the answer is constrained from its beginning */
        r->continue_final = false;
    return 0;
}
