/* POST /v1/responses: a chat in the form of OpenAI's Responses API. Items and events are those of
 * platform.openai.com/docs/api-reference/responses-streaming, as openai/openai-python reads them
 * (src/openai/types/responses/response_*_event.py, lib/streaming/responses/_responses.py): each event has its type, the next
 * sequence number and, for an item, its place in `output`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_impl.h"

/* In api_choice.parts. Of the item in the making: its text so far (as in a string; arguments too), and a call's name. */
enum { ITEMS, TEXT, NAME };

/* ---- the response ---- */

/* A field of the request as it came, or what it is without. */
static void echo(struct api_exchange *x, const char *name, const char *otherwise)
{
    struct out *o = &x->head;
    const json_t *v = json_object_get(x->r.body, name);
    char *text = v && !json_is_null(v) ? json_write(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    out_text(o, ",\"");
    out_text(o, name);
    out_text(o, "\":");
    out_text(o, text ? text : otherwise);
    free(text);
}

/* x->head: what stays as it is. The id is the server's own, since who knows it can go on from here. */
static void start(struct api_exchange *x, const struct api_call *c)
{
    struct out *o = &x->head;
    (void)c;
    snprintf(x->id, sizeof x->id, "resp_%016llx", (unsigned long long)x->nonce);
    out_text(o, "{\"id\":\"");
    out_text(o, x->id);
    out_text(o, "\",\"object\":\"response\",\"created_at\":");
    out_int(o, time(NULL));
    out_text(o, ",\"model\":");
    out_string(o, x->api->name, strlen(x->api->name));
    echo(x, "instructions", "null");
    echo(x, "max_output_tokens", "null");
    echo(x, "metadata", "{}");
    echo(x, "previous_response_id", "null");
    echo(x, "reasoning", "{\"effort\":null,\"summary\":null}");
    echo(x, "text", "{\"format\":{\"type\":\"text\"}}");
    echo(x, "tool_choice", "\"auto\"");
    echo(x, "tools", "[]");
    echo(x, "truncation", "\"disabled\"");
    echo(x, "user", "null");
    out_text(o, ",\"background\":false,\"parallel_tool_calls\":");
    out_text(o, x->r.parallel ? "true" : "false");
    out_text(o, ",\"store\":");
    out_text(o, x->r.store ? "true" : "false");
    out_text(o, ",\"temperature\":");
    out_real(o, (double)x->r.sampling.temp);
    out_text(o, ",\"top_p\":");
    out_real(o, (double)x->r.sampling.top_p);
}

static void write_usage(const struct api_exchange *x, struct out *o)
{
    const struct api_usage *u = &x->usage;
    out_text(o, ",\"usage\":{\"input_tokens\":");
    out_int(o, u->prompt_tokens);
    out_text(o, ",\"input_tokens_details\":{\"cached_tokens\":");
    out_int(o, u->reused_tokens);
    out_text(o, "},\"output_tokens\":");
    out_int(o, u->generated_tokens);
    out_text(o, ",\"output_tokens_details\":{\"reasoning_tokens\":");
    out_int(o, x->n_thought);
    out_text(o, "},\"total_tokens\":");
    out_int(o, (int64_t)u->prompt_tokens + u->generated_tokens);
    out_text(o, "}");
}

/* p: what it failed by, NULL: nothing. */
static void write_response(const struct api_exchange *x, const char *status, const struct api_problem *p, struct out *o)
{
    bool ended = !p && strcmp(status, "in_progress") != 0;
    out_join(o, &x->head);
    out_text(o, ",\"status\":\"");
    out_text(o, status);
    out_text(o, "\",\"error\":");
    if (p) {
        out_text(o, "{\"code\":\"server_error\",\"message\":");
        out_string(o, p->message, strlen(p->message));
        out_text(o, "}");
    } else {
        out_text(o, "null");
    }
    out_text(o, ",\"incomplete_details\":");
    out_text(o, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    out_text(o, ",\"output\":[");
    if (x->choices)
        out_join(o, &x->choices[0].parts[ITEMS]);
    out_text(o, "]");
    if (ended)
        write_usage(x, o);
    else
        out_text(o, ",\"usage\":null");
    if (ended)
        api_write_warnings(x, o);
    out_text(o, "}");
}

/* ---- events ---- */

static struct out *event(struct api_exchange *x, const char *type)
{
    struct out *o = &x->out;
    out_text(o, "event: ");
    out_text(o, type);
    out_text(o, "\ndata: {\"type\":\"");
    out_text(o, type);
    out_text(o, "\",\"sequence_number\":");
    out_int(o, x->sequence++);
    return o;
}

static void end_event(struct out *o)
{
    out_text(o, "}\n\n");
}

static void response_event(struct api_exchange *x, const char *type, const char *status, const struct api_problem *p)
{
    struct out *o = event(x, type);
    out_text(o, ",\"response\":");
    write_response(x, status, p, o);
    end_event(o);
}

static void begin(struct api_choice *c)
{
    response_event(c->x, "response.created", "in_progress", NULL);
    response_event(c->x, "response.in_progress", "in_progress", NULL);
}

/* "rs_.., msg_.., fc_..": of the item that is being said. */
static void write_item_id(const struct api_choice *c, struct out *o)
{
    char id[32];
    snprintf(id, sizeof id, "%016llx%02x", (unsigned long long)c->x->nonce, c->n_parts & 0xff);
    out_text(o, c->part == API_REASONING ? "\"rs_" : c->part == API_ARGUMENTS ? "\"fc_" : "\"msg_");
    out_text(o, id);
    out_text(o, "\"");
}

static struct out *item_event(struct api_choice *c, const char *type)
{
    struct out *o = event(c->x, type);
    out_text(o, ",\"output_index\":");
    out_int(o, c->n_parts);
    return o;
}

/* An event about what is in an item: its only content, or a call's arguments. */
static struct out *inner_event(struct api_choice *c, const char *type)
{
    struct out *o = item_event(c, type);
    out_text(o, ",\"item_id\":");
    write_item_id(c, o);
    if (c->part != API_ARGUMENTS)
        out_text(o, ",\"content_index\":0");
    return o;
}

/* ---- items ---- */

/* The content's part; text NULL: still empty. */
static void write_content(const struct api_choice *c, const struct out *text, struct out *o)
{
    bool content = c->part == API_CONTENT;
    out_text(o, content ? "{\"type\":\"output_text\",\"text\":\"" : "{\"type\":\"reasoning_text\",\"text\":\"");
    if (text)
        out_join(o, text);
    out_text(o, content ? "\",\"annotations\":[],\"logprobs\":[]}" : "\"}");
}

static void write_item(const struct api_choice *c, const char *status, const struct out *text, struct out *o)
{
    static const char *const types[] = { [API_CONTENT] = "message", [API_REASONING] = "reasoning",
                                         [API_ARGUMENTS] = "function_call" };
    out_text(o, "{\"id\":");
    write_item_id(c, o);
    out_text(o, ",\"type\":\"");
    out_text(o, types[c->part]);
    out_text(o, "\",\"status\":\"");
    out_text(o, status);
    if (c->part == API_ARGUMENTS) {
        out_text(o, "\",\"call_id\":\"");
        api_call_id(c, "call_", o);
        out_text(o, "\",\"name\":");
        out_join(o, &c->parts[NAME]);
        out_text(o, ",\"arguments\":\"");
        if (text)
            out_join(o, text);
        out_text(o, "\"}");
        return;
    }
    out_text(o, c->part == API_CONTENT ? "\",\"role\":\"assistant\",\"content\":[" : "\",\"summary\":[],\"content\":[");
    if (text)
        write_content(c, text, o);
    out_text(o, "]}");
}

static void begin_part(struct api_choice *c, const char *name)
{
    out_clear(&c->parts[TEXT]);
    out_clear(&c->parts[NAME]);
    if (name)
        out_string(&c->parts[NAME], name, strlen(name));
    if (!c->x->r.stream)
        return;
    struct out *o = item_event(c, "response.output_item.added");
    out_text(o, ",\"item\":");
    write_item(c, "in_progress", NULL, o);
    end_event(o);
    if (name)
        return;
    o = inner_event(c, "response.content_part.added");
    out_text(o, ",\"part\":");
    write_content(c, NULL, o);
    end_event(o);
}

static void text(struct api_choice *c)
{
    struct out *o = inner_event(c, c->part == API_ARGUMENTS   ? "response.function_call_arguments.delta"
                                   : c->part == API_REASONING ? "response.reasoning_text.delta"
                                                              : "response.output_text.delta");
    out_text(o, ",\"delta\":\"");
    api_parts_text(c, o);
    out_text(o, c->part == API_CONTENT ? "\",\"logprobs\":[]" : "\"");
    end_event(o);
    api_parts_text(c, &c->parts[TEXT]);
}

static void done_events(struct api_choice *c)
{
    bool call = c->part == API_ARGUMENTS;
    struct out *o = inner_event(c, call                       ? "response.function_call_arguments.done"
                                   : c->part == API_REASONING ? "response.reasoning_text.done"
                                                              : "response.output_text.done");
    out_text(o, call ? ",\"name\":" : "");
    if (call)
        out_join(o, &c->parts[NAME]);
    out_text(o, call ? ",\"arguments\":\"" : ",\"text\":\"");
    out_join(o, &c->parts[TEXT]);
    out_text(o, c->part == API_CONTENT ? "\",\"logprobs\":[]" : "\"");
    end_event(o);
    if (call)
        return;
    o = inner_event(c, "response.content_part.done");
    out_text(o, ",\"part\":");
    write_content(c, &c->parts[TEXT], o);
    end_event(o);
}

static void end_part(struct api_choice *c, bool complete)
{
    const char *status = complete ? "completed" : "incomplete";
    struct out *items = &c->parts[ITEMS];
    if (!c->x->r.stream)
        api_parts_text(c, &c->parts[TEXT]);
    out_text(items, items->n ? "," : "");
    write_item(c, status, &c->parts[TEXT], items);
    if (!c->x->r.stream)
        return;
    done_events(c);
    struct out *o = item_event(c, "response.output_item.done");
    out_text(o, ",\"item\":");
    write_item(c, status, &c->parts[TEXT], o);
    end_event(o);
}

/* ---- ends ---- */

static void store(struct api_exchange *x, const char *status)
{
    struct out text = { .budget = x->api->o.budget }, response = { .budget = x->api->o.budget };
    const struct out *items = &x->choices[0].parts[ITEMS];
    if (!x->r.store)
        return;
    char *before = json_write(x->r.items, JSON_COMPACT);
    if (before) {
        out_raw(&text, before, strlen(before) - 1); /* without its ] */
        out_text(&text, items->n ? "," : "");
        out_join(&text, items);
        out_text(&text, "]");
        write_response(x, status, NULL, &response);
        api_store_put(x->api, x->owner, x->id, &text, (uint32_t)json_array_size(x->r.items), &response);
    }
    free(before);
    out_finish(&text);
    out_finish(&response);
}

static const char *status_of(const struct api_exchange *x)
{
    return strcmp(x->choices[0].finish, "length") == 0 ? "incomplete" : "completed";
}

static void last(struct api_choice *c)
{
    (void)c;
}

static void end(struct api_exchange *x)
{
    const char *status = status_of(x);
    store(x, status);
    response_event(x, *status == 'i' ? "response.incomplete" : "response.completed", status, NULL);
}

static void whole(struct api_exchange *x)
{
    store(x, status_of(x));
    write_response(x, status_of(x), NULL, &x->out);
}

/* Both are read: the response that failed by some clients, the error by others. */
static void broken(struct api_exchange *x, const struct api_problem *p)
{
    response_event(x, "response.failed", "failed", p);
    struct out *o = event(x, "error");
    out_text(o, ",\"code\":");
    if (p->code)
        out_string(o, p->code, strlen(p->code));
    else
        out_text(o, "null");
    out_text(o, ",\"message\":");
    out_string(o, p->message, strlen(p->message));
    out_text(o, ",\"param\":null");
    end_event(o);
}

static const struct api_part_form parts = { begin_part, text, end_part };
static const struct api_form form = {
    "text/event-stream", start, api_parts_open, begin, api_parts_put, api_parts_close, api_parts_flush, last, end, whole,
    broken, api_comment, api_parts_destroy, &parts,
};

void api_responses(struct api_exchange *x, const struct api_call *c)
{
    api_converse(x, c, api_request_responses, &form);
}
