/* POST /v1/chat/completions: a chat in OpenAI's form. */
#include <string.h>

#include "server/api_impl.h"

/* Of a whole answer, in api_choice.parts; each the inside of a JSON string, but for the calls. */
enum { CONTENT, REASONING, CALLS };

static void start(struct api_exchange *x, const struct api_call *c)
{
    (void)c;
    api_openai_start(x, "chatcmpl-", x->r.stream ? "chat.completion.chunk" : "chat.completion");
}

static void begin(struct api_choice *c)
{
    struct out *o = api_event_begin(c);
    out_text(o, ",\"delta\":{\"role\":\"assistant\",\"content\":null},\"logprobs\":null,\"finish_reason\":null");
    api_event_end(c);
}

/* ---- parts ---- */

static void write_call(struct api_choice *c, struct out *o, const char *name)
{
    out_text(o, "\"id\":\"");
    api_call_id(c, "call_", o);
    out_text(o, "\",\"type\":\"function\",\"function\":{\"name\":");
    out_string(o, name, strlen(name));
    out_text(o, ",\"arguments\":\"");
}

static void begin_part(struct api_choice *c, const char *name)
{
    struct out *o = &c->parts[CALLS];
    if (!name)
        return;
    if (c->x->r.stream) {
        o = api_event_begin(c);
        out_text(o, ",\"delta\":{\"tool_calls\":[{\"index\":");
        out_int(o, c->call);
        out_text(o, ",");
        write_call(c, o, name);
        out_text(o, "\"}}]},\"logprobs\":null,\"finish_reason\":null");
        api_event_end(c);
    } else {
        out_text(o, o->n ? ",{" : "{");
        write_call(c, o, name);
    }
}

static void write_part(struct api_choice *c, struct out *o)
{
    if (c->part == API_ARGUMENTS) {
        out_text(o, "\"tool_calls\":[{\"index\":");
        out_int(o, c->call);
        out_text(o, ",\"function\":{\"arguments\":\"");
    } else {
        out_text(o, c->part == API_REASONING ? "\"reasoning_content\":\"" : "\"content\":\"");
    }
    api_parts_text(c, o);
    out_text(o, c->part == API_ARGUMENTS ? "\"}}]" : "\"");
}

static void text(struct api_choice *c)
{
    struct out *o = api_event_begin(c);
    out_text(o, ",\"delta\":{");
    write_part(c, o);
    out_text(o, "},\"logprobs\":");
    if (c->part == API_CONTENT)
        api_logprobs_write(&c->logprobs, o);
    else
        out_text(o, "null");
    out_text(o, ",\"finish_reason\":null");
    api_event_end(c);
}

/* A call that was cut off is told as far as it came, in a stream and in a whole answer alike. */
static void end_part(struct api_choice *c, bool complete)
{
    (void)complete;
    if (c->x->r.stream)
        return;
    api_parts_text(c, &c->parts[c->part == API_CONTENT ? CONTENT : c->part == API_REASONING ? REASONING : CALLS]);
    if (c->part == API_ARGUMENTS)
        out_text(&c->parts[CALLS], "\"}}");
}

/* ---- ends ---- */

static void last(struct api_choice *c)
{
    api_openai_last(c, ",\"delta\":{}");
}

static bool has(const struct out *o)
{
    return o->n || o->failed;
}

static void one(struct api_choice *c)
{
    struct out *o = &c->x->out;
    out_text(o, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (has(&c->parts[CONTENT]) || !c->parts[CALLS].n) {
        out_text(o, "\"");
        out_join(o, &c->parts[CONTENT]);
        out_text(o, "\"");
    } else {
        out_text(o, "null");
    }
    if (has(&c->parts[REASONING])) {
        out_text(o, ",\"reasoning_content\":\"");
        out_join(o, &c->parts[REASONING]);
        out_text(o, "\"");
    }
    if (has(&c->parts[CALLS])) {
        out_text(o, ",\"tool_calls\":[");
        out_join(o, &c->parts[CALLS]);
        out_text(o, "]");
    }
    out_text(o, ",\"refusal\":null},\"logprobs\":");
    api_logprobs_write(&c->logprobs, o);
    out_text(o, ",\"finish_reason\":\"");
    out_text(o, c->finish);
    out_text(o, "\"");
}

static void whole(struct api_exchange *x)
{
    api_openai_whole(x, one);
}

static const struct api_part_form parts = { begin_part, text, end_part };
static const struct api_form form = {
    "text/event-stream", start, api_parts_open, begin, api_parts_put, api_parts_close, api_parts_flush, last,
    api_openai_end, whole, api_openai_broken, api_openai_ping, api_parts_destroy, &parts,
};

void api_chat(struct api_exchange *x, const struct api_call *c)
{
    api_converse(x, c, api_request_chat, &form);
}
