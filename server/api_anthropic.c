/* POST /v1/messages and /v1/messages/count_tokens: a chat in the form of Anthropic's Messages API. Events and their order
 * are those of platform.claude.com/docs/en/build-with-claude/streaming, errors those of
 * platform.claude.com/docs/en/api/errors, both as anthropics/anthropic-sdk-python reads them (src/anthropic/types/,
 * lib/streaming/_messages.py). Blocks come in the order in which the model said them. */
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

enum { BLOCKS }; /* of a whole answer, in api_choice.parts: the content's inside */

/* ---- errors ---- */

static const char *type_of(int status)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {
        { 401, "authentication_error" }, { 403, "permission_error" }, { 404, "not_found_error" },
        { 408, "timeout_error" },        { 413, "request_too_large" }, { 429, "rate_limit_error" },
        { 503, "overloaded_error" },
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].status == status)
            return types[i].type;
    return status >= 500 ? "api_error" : "invalid_request_error";
}

void api_anthropic_problem(const struct api_problem *p, struct out *o)
{
    bool long_prompt = p->code && strcmp(p->code, "context_length_exceeded") == 0;
    out_text(o, "{\"type\":\"error\",\"error\":{\"type\":\"");
    out_text(o, type_of(p->status));
    out_text(o, "\",\"message\":\"");
    out_text(o, long_prompt ? "prompt is too long: " : ""); /* by these words clients know that they must shorten it */
    out_escaped(o, p->message, strlen(p->message));
    out_text(o, "\"}}");
}

/* ---- events ---- */

static struct out *event(struct api_choice *c, const char *type)
{
    struct out *o = &c->x->out;
    out_text(o, "event: ");
    out_text(o, type);
    out_text(o, "\ndata: {\"type\":\"");
    out_text(o, type);
    out_text(o, "\"");
    return o;
}

static struct out *block_event(struct api_choice *c, const char *type)
{
    struct out *o = event(c, type);
    out_text(o, ",\"index\":");
    out_int(o, c->n_parts);
    return o;
}

static void end_event(struct out *o)
{
    out_text(o, "}\n\n");
}

static void ping(struct api_exchange *x)
{
    out_text(&x->out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/* Tokens that were evaluated, and those that were not: input is both. */
static void write_usage(struct out *o, uint32_t prompt, uint32_t reused, uint32_t generated)
{
    out_text(o, "{\"input_tokens\":");
    out_int(o, prompt - reused);
    out_text(o, ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
    out_int(o, reused);
    out_text(o, ",\"output_tokens\":");
    out_int(o, generated);
    out_text(o, "}");
}

static void write_head(const struct api_exchange *x, struct out *o)
{
    out_text(o, "{\"id\":\"msg_");
    out_escaped(o, x->id, strlen(x->id));
    out_text(o, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    out_string(o, x->api->name, strlen(x->api->name));
}

/* How much of the prompt is known by then is told by the end. */
static void begin(struct api_choice *c)
{
    struct out *o = event(c, "message_start");
    out_text(o, ",\"message\":");
    write_head(c->x, o);
    out_text(o, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
    write_usage(o, c->prompt->n, 0, 0);
    out_text(o, "}");
    end_event(o);
    ping(c->x);
}

/* ---- blocks ---- */

static void write_block(struct api_choice *c, struct out *o, const char *name)
{
    if (!name) {
        out_text(o, c->part == API_REASONING ? "{\"type\":\"thinking\",\"signature\":\"\",\"thinking\":\""
                                             : "{\"type\":\"text\",\"text\":\"");
        return;
    }
    out_text(o, "{\"type\":\"tool_use\",\"id\":\"");
    api_call_id(c, "toolu_", o);
    out_text(o, "\",\"name\":");
    out_string(o, name, strlen(name));
    out_text(o, ",\"input\":");
}

static void begin_part(struct api_choice *c, const char *name)
{
    struct out *o = &c->parts[BLOCKS];
    if (!c->x->r.stream) {
        c->mark = o->n;
        out_text(o, o->n ? "," : "");
        write_block(c, o, name);
        return;
    }
    o = block_event(c, "content_block_start");
    out_text(o, ",\"content_block\":");
    write_block(c, o, name);
    out_text(o, name ? "{}}" : "\"}");
    end_event(o);
}

static void text(struct api_choice *c)
{
    struct out *o = block_event(c, "content_block_delta");
    out_text(o, c->part == API_REASONING   ? ",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\""
                : c->part == API_ARGUMENTS ? ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\""
                                           : ",\"delta\":{\"type\":\"text_delta\",\"text\":\"");
    api_parts_text(c, o);
    out_text(o, "\"}");
    end_event(o);
}

static void end_part(struct api_choice *c, bool complete)
{
    struct out *o = &c->parts[BLOCKS];
    if (c->x->r.stream) {
        if (c->part == API_REASONING) { /* there is nothing to sign with, but clients want the field */
            o = block_event(c, "content_block_delta");
            out_text(o, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":\"\"}");
            end_event(o);
        }
        end_event(block_event(c, "content_block_stop"));
        return;
    }
    if (c->part == API_ARGUMENTS && !complete) {
        o->n = c->mark; /* `input` is an object, and this is none: nobody can run it */
        return;
    }
    out_join(o, &c->text);
    out_text(o, c->part == API_ARGUMENTS ? "}" : "\"}");
}

/* ---- ends ---- */

static void write_stop(const struct api_choice *c, struct out *o)
{
    const char *reason = strcmp(c->finish, "tool_calls") == 0             ? "tool_use"
                         : strcmp(c->finish, "length") == 0               ? "max_tokens"
                         : c->result.reason == GEN_STOP_STRING            ? "stop_sequence"
                                                                          : "end_turn";
    bool by_string = c->result.reason == GEN_STOP_STRING && c->result.stop_index < c->x->r.n_stop;
    out_text(o, "\"stop_reason\":\"");
    out_text(o, reason);
    out_text(o, "\",\"stop_sequence\":");
    if (by_string)
        out_string(o, c->x->r.stop[c->result.stop_index], strlen(c->x->r.stop[c->result.stop_index]));
    else
        out_text(o, "null");
}

static void last(struct api_choice *c)
{
    struct out *o = event(c, "message_delta");
    out_text(o, ",\"delta\":{");
    write_stop(c, o);
    out_text(o, "},\"usage\":");
    write_usage(o, c->prompt->n, c->n_reused, c->result.n_tokens);
    end_event(o);
    end_event(event(c, "message_stop"));
}

static void end(struct api_exchange *x)
{
    (void)x;
}

static void whole(struct api_exchange *x)
{
    struct api_choice *c = &x->choices[0];
    struct out *o = &x->out;
    write_head(x, o);
    out_text(o, ",\"content\":[");
    out_join(o, &c->parts[BLOCKS]);
    out_text(o, "],");
    write_stop(c, o);
    out_text(o, ",\"usage\":");
    write_usage(o, c->prompt->n, c->n_reused, c->result.n_tokens);
    api_write_warnings(x, o);
    out_text(o, "}");
}

static void broken(struct api_exchange *x, const struct api_problem *p)
{
    out_text(&x->out, "event: error\ndata: ");
    api_anthropic_problem(p, &x->out);
    out_text(&x->out, "\n\n");
}

static const struct api_part_form parts = { begin_part, text, end_part };
static const struct api_form form = {
    "text/event-stream", NULL, api_parts_open, begin, api_parts_put, api_parts_close, api_parts_flush, last, end, whole,
    broken, ping, api_parts_destroy, &parts,
};

void api_messages(struct api_exchange *x, const struct api_call *c)
{
    api_converse(x, c, api_request_anthropic, &form);
}

void api_count_tokens(struct api_exchange *x, const struct api_call *c)
{
    struct api_problem p;
    if (api_converse_read(x, c, api_request_anthropic, &p) || api_converse_prompt(x, &p)) {
        api_fail(x, &p);
        return;
    }
    out_text(&x->out, "{\"input_tokens\":");
    out_int(&x->out, x->prompts[0].n);
    out_text(&x->out, "}");
    api_answer(x, 200);
}
