/* The request of POST /v1/responses: OpenAI's Responses API, as platform.openai.com/docs/api-reference/responses and
 * openai/openai-python (src/openai/types/responses/response_create_params.py, response_input_item_param.py) have it.
 * Items that the assistant made, reasoning, text and calls in a row, are one message; those of an earlier response that
 * previous_response_id names come before them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_request.h"

/* ---- items ---- */

/* The assistant's message in the making. */
struct turn {
    struct engine_message *m; /* NULL: none                     */
    struct tok_buf text, reasoning;
    struct engine_call *calls; /* of all turns, one after another */
    uint32_t n_calls;
};

static int end_turn(const struct fields *f, struct api_request *r, struct turn *t)
{
    int rc = 0;
    if (t->m && !(rc = api_request_text_own(f, &t->text, r, &t->m->text)))
        rc = api_request_text_own(f, &t->reasoning, r, &t->m->reasoning);
    t->m = NULL;
    return rc;
}

static struct engine_message *add_message(struct api_request *r, const char *role)
{
    struct engine_message *m = &r->messages[r->n_messages++];
    m->role = role;
    return m;
}

static struct engine_message *its_turn(struct api_request *r, struct turn *t)
{
    if (!t->m)
        t->m = add_message(r, "assistant");
    return t->m;
}

/* One part of a content: any type whose text is in `text`, or a refusal. */
static int read_part(const struct fields *f, const char **text)
{
    static const char *const types[] = { "input_text", "output_text", "text", "reasoning_text", "summary_text" };
    const char *type = NULL;
    int rc;
    size_t i = 0;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_request_missing(f, "type");
    while (i < ARRAY_LEN(types) && strcmp(types[i], type) != 0)
        i++;
    bool refusal = strcmp(type, "refusal") == 0;
    if (i == ARRAY_LEN(types) && !refusal)
        return api_refuse(f->p, 400, "unsupported", f->path,
                          "'%s' is of type '%.64s': this server reads text only, no images, audio or files", f->path,
                          type);
    const char *name = refusal ? "refusal" : "text";
    rc = field_string(f, name, text);
    return rc < 0 ? rc : rc ? 0 : api_request_missing(f, name);
}

/* A string or parts, appended with a line end between two. 1: there was one. */
static int add_content(const struct fields *f, const char *name, struct tok_buf *b)
{
    const json_t *v = json_object_get(f->o, name), *item;
    size_t i;
    int rc = 0;
    if (!v || json_is_null(v))
        return 0;
    if (json_is_string(v))
        return (rc = api_request_text_add(f, b, json_string_value(v), "\n")) ? rc : 1;
    if (!json_is_array(v))
        return field_type(f, name, "a string or an array of parts", v);
    json_array_foreach((json_t *)v, i, item)
    {
        struct fields part = fields_at(item, f->p, "%.64s.%s[%zu]", f->path, name, i);
        const char *text = "";
        if ((rc = read_part(&part, &text)) || (rc = api_request_text_add(f, b, text, "\n")))
            return rc;
    }
    return 1;
}

static int read_text_into(const struct fields *f, const char *name, struct api_request *r, const char **out)
{
    struct tok_buf b = { 0 };
    int rc = add_content(f, name, &b);
    if (rc >= 0 && !rc)
        rc = api_request_missing(f, name);
    else if (rc > 0)
        rc = api_request_text_own(f, &b, r, out);
    tok_buf_finish(&b);
    return rc;
}

static int read_message(const struct fields *f, struct api_request *r, struct turn *t)
{
    static const char *const roles[] = { "user", "system", "developer", "assistant" };
    const char *role = NULL;
    size_t i = 0;
    int rc = field_string(f, "role", &role);
    if (rc < 0)
        return rc;
    while (role && i < ARRAY_LEN(roles) && strcmp(roles[i], role) != 0)
        i++;
    if (!role || i == ARRAY_LEN(roles))
        return field_value(f, "role", "is '%.64s', expected user, assistant, system or developer", role ? role : "");
    if (strcmp(role, "assistant") == 0) {
        its_turn(r, t);
        rc = add_content(f, "content", &t->text);
        return rc < 0 ? rc : 0;
    }
    return (rc = end_turn(f, r, t)) ? rc : read_text_into(f, "content", r, &add_message(r, roles[i])->text);
}

static int read_call(const struct fields *f, struct api_request *r, struct turn *t)
{
    struct engine_message *m = its_turn(r, t);
    struct engine_call *call = &t->calls[t->n_calls++];
    int rc;
    m->calls = m->n_calls ? m->calls : call;
    m->n_calls++;
    if ((rc = field_string(f, "call_id", &call->id)) < 0 || (rc = field_string(f, "arguments", &call->arguments)) < 0 ||
        (rc = field_string(f, "name", &call->name)) < 0)
        return rc;
    if (!call->name || !*call->name)
        return api_request_missing(f, "name");
    if (m->n_calls > API_MAX_CALLS)
        return field_value(f, "type", "is function_call once more: at most %d can follow each other", API_MAX_CALLS);
    if (call->arguments && !*call->arguments)
        call->arguments = NULL;
    return 0;
}

static int read_output(const struct fields *f, struct api_request *r, struct turn *t)
{
    int rc = end_turn(f, r, t);
    if (rc)
        return rc;
    struct engine_message *m = add_message(r, "tool");
    if ((rc = field_string(f, "call_id", &m->call_id)) < 0)
        return rc;
    return rc ? read_text_into(f, "output", r, &m->text) : api_request_missing(f, "call_id");
}

/* Its text, or what was made of it; what is encrypted is somebody else's. */
static int read_reasoning_item(const struct fields *f, struct api_request *r, struct turn *t)
{
    int rc = add_content(f, "content", &t->reasoning);
    its_turn(r, t);
    if (!rc)
        rc = add_content(f, "summary", &t->reasoning);
    return rc < 0 ? rc : 0;
}

static int read_item(const struct fields *f, struct api_request *r, struct turn *t)
{
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (!type || strcmp(type, "message") == 0)
        return read_message(f, r, t);
    if (strcmp(type, "function_call") == 0)
        return read_call(f, r, t);
    if (strcmp(type, "function_call_output") == 0)
        return read_output(f, r, t);
    if (strcmp(type, "reasoning") == 0)
        return read_reasoning_item(f, r, t);
    return api_refuse(f->p, 400, "unsupported", fields_name(f, "type"),
                      "'%s' is '%.64s', expected message, function_call, function_call_output or reasoning",
                      fields_name(f, "type"), type);
}

/* r->items: those of the earlier response, and this one's. */
static int gather(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    const json_t *input = json_object_get(f->o, "input");
    const char *id = NULL;
    int rc = field_string(f, "previous_response_id", &id);
    if (rc < 0)
        return rc;
    if (!input || json_is_null(input))
        return api_refuse(f->p, 400, "missing_field", "input", "the request has no 'input'");
    if (!json_is_string(input) && !json_is_array(input))
        return field_type(f, "input", "a string or an array of items", input);
    if (id && !(r->items = d->previous ? d->previous(d->user, id) : NULL))
        return api_refuse(f->p, 400, "previous_response_not_found", "previous_response_id",
                          "there is no response '%.80s': it was not stored, or had to make room; send its items in 'input'",
                          id);
    if (!r->items)
        r->items = json_array();
    rc = json_is_array(input)
             ? json_array_extend(r->items, (json_t *)input)
             : json_array_append_new(r->items, json_pack("{s:s,s:O}", "role", "user", "content", input));
    if (rc) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    if (json_array_size(r->items) > API_MAX_MESSAGES)
        return field_value(f, "input", "has %zu items (with those before), at most %d can be given",
                           json_array_size(r->items), API_MAX_MESSAGES);
    return 0;
}

static int read_input(const struct api_defaults *d, const struct fields *f, struct api_request *r)
{
    const char *instructions = NULL;
    const json_t *v;
    struct turn t = { 0 };
    size_t i;
    int rc;
    if ((rc = gather(d, f, r)) || (rc = field_string(f, "instructions", &instructions)) < 0)
        return rc;
    size_t n = json_array_size(r->items);
    r->messages = calloc(n + 1, sizeof *r->messages);
    if ((rc = api_request_own(r, r->messages, f->p)))
        return rc;
    t.calls = calloc(n + 1, sizeof *t.calls);
    if ((rc = api_request_own(r, t.calls, f->p)))
        return rc;
    if (instructions && *instructions)
        add_message(r, "system")->text = instructions;
    json_array_foreach(r->items, i, v)
    {
        struct fields item = fields_at(v, f->p, "input[%zu]", i);
        if ((rc = read_item(&item, r, &t)))
            break;
    }
    if (!rc)
        rc = end_turn(f, r, &t);
    tok_buf_finish(&t.text);
    tok_buf_finish(&t.reasoning);
    if (!rc && !r->n_messages)
        rc = api_refuse(f->p, 400, "missing_field", "input", "the request has nothing in 'input'");
    return rc;
}

/* ---- tools ---- */

/* What OpenAI's servers would run themselves is passed over: the answer tells. */
static int add_tool(const struct fields *f, json_t *list, struct api_request *r)
{
    const char *type = NULL;
    int rc;
    if ((rc = fields_check(f)) || (rc = field_string(f, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_request_missing(f, "type");
    if (strcmp(type, "function") == 0)
        return api_request_tool_add(f, "parameters", list);
    if (!r->warnings)
        r->warnings = json_array();
    if (json_array_append_new(r->warnings, json_sprintf("'%s' is passed over: this server has no tools of type '%.64s', "
                                                        "only functions", f->path, type))) {
        api_refuse(f->p, 503, NULL, NULL, "out of memory for the request");
        return -ENOMEM;
    }
    return 0;
}

/* Of the list only those that are named. */
static int keep_allowed(const struct fields *choice, json_t *list)
{
    const json_t *tools = NULL, *v;
    size_t i;
    int rc = field_array(choice, "tools", &tools);
    if (rc < 0)
        return rc;
    json_array_foreach((json_t *)tools, i, v)
        if (!api_request_has_tool(list, json_string_value(json_object_get(v, "name"))))
            return field_value(choice, "tools", "has at %zu what is none of 'tools'", i);
    for (i = json_array_size(list); i-- > 0;) {
        const json_t *function = json_object_get(json_array_get(list, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        bool kept = false;
        size_t k;
        json_array_foreach((json_t *)tools, k, v)
            kept |= strcmp(json_string_value(json_object_get(v, "name")), name) == 0;
        if (!kept)
            json_array_remove(list, i);
    }
    return 0;
}

static int choose_object(const struct fields *f, json_t *list, struct api_request *r)
{
    const char *type = NULL, *mode = "auto";
    int rc = field_string(f, "type", &type);
    if (rc < 0)
        return rc;
    if (type && strcmp(type, "allowed_tools") == 0) {
        if ((rc = field_string(f, "mode", &mode)) < 0)
            return rc;
        if (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0)
            return field_value(f, "mode", "is '%.64s', expected auto or required", mode);
        r->choice = *mode == 'r' ? ANSWER_TOOLS_REQUIRED : ANSWER_TOOLS_AUTO;
        return keep_allowed(f, list);
    }
    if (!type || strcmp(type, "function") != 0)
        return field_value(f, "type", "is '%.64s', expected function or allowed_tools", type ? type : "");
    if ((rc = field_string(f, "name", &r->named)) < 0)
        return rc;
    if (!r->named || !api_request_has_tool(list, r->named))
        return field_value(f, "name", "is '%.64s', which is none of 'tools'", r->named ? r->named : "");
    r->choice = ANSWER_TOOLS_NAMED;
    return 0;
}

static int choose(const struct fields *f, json_t *list, struct api_request *r)
{
    const json_t *v = json_object_get(f->o, "tool_choice");
    const char *s = json_string_value(v);
    int rc = 0;
    if (!v || json_is_null(v))
        return 0;
    if (json_is_object(v)) {
        struct fields choice = fields_at(v, f->p, "tool_choice");
        rc = choose_object(&choice, list, r);
    } else if (!s) {
        return field_type(f, "tool_choice", "a string or an object", v);
    } else if (strcmp(s, "none") == 0) {
        r->choice = ANSWER_TOOLS_NONE;
    } else if (strcmp(s, "required") == 0) {
        r->choice = ANSWER_TOOLS_REQUIRED;
    } else if (strcmp(s, "auto") != 0) {
        return field_value(f, "tool_choice", "is '%.64s', expected none, auto, required or a function", s);
    }
    if (!rc && r->choice == ANSWER_TOOLS_REQUIRED && !json_array_size(list))
        return field_value(f, "tool_choice", "is required, but there are no functions in 'tools'");
    return rc;
}

static int read_tools(const struct fields *f, struct api_request *r)
{
    const json_t *tools = NULL, *v;
    json_t *list = json_array();
    size_t i;
    int rc = field_array(f, "tools", &tools);
    if (rc >= 0)
        rc = field_bool(f, "parallel_tool_calls", &r->parallel);
    json_array_foreach((json_t *)tools, i, v)
    {
        struct fields tool = fields_at(v, f->p, "tools[%zu]", i);
        if (rc < 0 || (rc = add_tool(&tool, list, r)) < 0)
            break;
    }
    if (rc >= 0 && (rc = choose(f, list, r)) >= 0)
        rc = api_request_tools_set(f, list, r);
    json_decref(list);
    return rc < 0 ? rc : 0;
}

/* ---- the rest ---- */

static int read_text_config(const struct fields *f, struct api_request *r)
{
    const json_t *o, *schema;
    const char *type = NULL;
    int rc = field_object(f, "text", &o);
    if (rc != 1)
        return rc;
    struct fields text = fields_at(o, f->p, "text");
    if ((rc = api_request_verbosity(&text, r)) < 0 || (rc = field_object(&text, "format", &o)) != 1)
        return rc;
    struct fields format = fields_at(o, f->p, "text.format");
    if ((rc = field_string(&format, "type", &type)) < 0)
        return rc;
    if (!type)
        return api_request_missing(&format, "type");
    if (strcmp(type, "text") == 0)
        return 0;
    r->format_param = "text.format";
    if (strcmp(type, "json_object") == 0) {
        r->format = ANSWER_JSON_OBJECT;
        return 0;
    }
    r->format_param = NULL;
    if (strcmp(type, "json_schema") != 0)
        return field_value(&format, "type", "is '%.64s', expected text, json_object or json_schema", type);
    if ((rc = field_bool(&format, "strict", &r->strict)) < 0 || (rc = field_object(&format, "schema", &schema)) < 0)
        return rc;
    return rc ? api_request_schema(f, r, "text.format", schema) : api_request_missing(&format, "schema");
}

static int read_reasoning(const struct fields *f, struct api_request *r)
{
    const json_t *o;
    int rc = field_object(f, "reasoning", &o);
    if (rc != 1)
        return rc;
    struct fields in = fields_at(o, f->p, "reasoning");
    return api_request_effort(&in, "effort", r);
}

/* What would make it another answer and is not there. */
static int refuse_others(const struct fields *f)
{
    static const struct {
        const char *name, *advice;
    } others[] = {
        { "conversation", "'previous_response_id' goes on from a response" },
        { "prompt", "there are no stored prompts here, send 'instructions' and 'input'" },
        { "background", "answers come while the client waits" },
        { "top_logprobs", "/v1/chat/completions tells probabilities" },
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const json_t *v = json_object_get(f->o, others[i].name);
        bool nothing = !v || json_is_null(v) || json_is_false(v) || (json_is_number(v) && json_number_value(v) == 0);
        if (!nothing)
            return api_refuse(f->p, 400, "unsupported", others[i].name, "'%s' is not supported: %s", others[i].name,
                              others[i].advice);
    }
    return 0;
}

int api_request_responses(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                          struct api_problem *p)
{
    int rc;
    *r = (struct api_request){ 0 };
    if (!(r->body = api_parse(body, n, p)))
        return -EINVAL;
    struct fields f = fields_at(r->body, p, "%s", "");
    api_request_begin(d, r);
    r->store = true;
    if ((rc = read_input(d, &f, r)) < 0 || (rc = refuse_others(&f)) < 0 || (rc = api_request_sampling(d, &f, r)) < 0 ||
        (rc = api_request_limit(&f, "max_output_tokens", r)) < 0 || (rc = field_bool(&f, "store", &r->store)) < 0 ||
        (rc = read_tools(&f, r)) < 0 || (rc = read_text_config(&f, r)) < 0 || (rc = read_reasoning(&f, r)) < 0)
        return rc;
    return 0;
}
