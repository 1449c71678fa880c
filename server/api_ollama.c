/* POST /api/chat and /api/generate: a chat in the form of Ollama's API (ollama/ollama, docs/api.md): a stream is a JSON
 * object a line, the last one has `done` and what it took. Calls come whole, with their arguments as an object. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/api_impl.h"

/* In api_choice.parts: of a whole answer its content and reasoning, insides of strings; the calls, whole or of a stream
 * the one in the making; a call's name, as JSON. */
enum { CONTENT, REASONING, CALLS, NAME };

void api_ollama_problem(const struct api_problem *p, struct out *o)
{
    out_text(o, "{\"error\":");
    out_string(o, p->message, strlen(p->message));
    out_text(o, "}");
}

static void put_now(struct out *o)
{
    struct timespec t;
    struct tm tm;
    char text[48];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%06ldZ\"", t.tv_nsec / 1000);
    out_text(o, text);
}

/* ---- objects: {"model":..,"created_at":.., and then the caller's ---- */

static bool is_chat(const struct api_exchange *x)
{
    return !x->generates;
}

static struct out *begin_object(struct api_exchange *x)
{
    struct out *o = &x->out;
    out_text(o, "{\"model\":");
    out_string(o, x->api->name, strlen(x->api->name));
    out_text(o, ",\"created_at\":");
    put_now(o);
    out_text(o, is_chat(x) ? ",\"message\":{\"role\":\"assistant\"" : "");
    return o;
}

/* The name of the text is another one in /api/generate. */
static void put_text(struct api_exchange *x, const struct out *text)
{
    struct out *o = &x->out;
    out_text(o, is_chat(x) ? ",\"content\":\"" : ",\"response\":\"");
    if (text)
        out_join(o, text);
    out_text(o, "\"");
}

static void put_thinking(struct out *o, const struct out *text)
{
    out_text(o, ",\"thinking\":\"");
    out_join(o, text);
    out_text(o, "\"");
}

static void put_calls(struct out *o, const struct out *calls)
{
    out_text(o, ",\"tool_calls\":[");
    out_join(o, calls);
    out_text(o, "]");
}

static void more_to_come(struct api_exchange *x)
{
    out_text(&x->out, is_chat(x) ? "},\"done\":false}\n" : ",\"done\":false}\n");
}

static void put_end(struct api_exchange *x, const char *reason)
{
    const struct {
        const char *name;
        uint64_t v;
    } counts[] = {
        { ",\"total_duration\":", x->usage.queued_ns + x->usage.prompt_ns + x->usage.decode_ns },
        { ",\"load_duration\":", 0 },
        { ",\"prompt_eval_count\":", x->usage.prompt_tokens },
        { ",\"prompt_eval_duration\":", x->usage.prompt_ns },
        { ",\"eval_count\":", x->usage.generated_tokens },
        { ",\"eval_duration\":", x->usage.decode_ns },
    };
    struct out *o = &x->out;
    out_text(o, is_chat(x) ? "},\"done\":true,\"done_reason\":\"" : ",\"done\":true,\"done_reason\":\"");
    out_text(o, reason);
    out_text(o, "\"");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        out_text(o, counts[i].name);
        out_int(o, (int64_t)counts[i].v);
    }
    api_write_warnings(x, o);
    out_text(o, "}");
}

/* An object without anything in it: no client minds, and all of them hear it. */
static void ping(struct api_exchange *x)
{
    begin_object(x);
    put_text(x, NULL);
    more_to_come(x);
}

static void begin(struct api_choice *c)
{
    ping(c->x);
}

/* ---- parts ---- */

static void begin_part(struct api_choice *c, const char *name)
{
    out_clear(&c->parts[NAME]);
    if (name)
        out_string(&c->parts[NAME], name, strlen(name));
}

static void text(struct api_choice *c)
{
    struct api_exchange *x = c->x;
    if (c->part == API_ARGUMENTS) {
        out_join(&c->args, &c->text);
        return;
    }
    struct out *o = begin_object(x);
    put_text(x, c->part == API_CONTENT ? &c->text : NULL);
    if (c->part == API_REASONING)
        put_thinking(o, &c->text);
    more_to_come(x);
}

/* A call that was cut off is none: its arguments are no object. */
static void end_call(struct api_choice *c, bool complete)
{
    struct out *o = &c->parts[CALLS];
    if (!c->x->r.stream)
        out_join(&c->args, &c->text);
    if (complete) {
        out_text(o, o->n ? ",{\"id\":\"" : "{\"id\":\"");
        api_call_id(c, "call_", o);
        out_text(o, "\",\"function\":{\"index\":");
        out_int(o, c->call);
        out_text(o, ",\"name\":");
        out_join(o, &c->parts[NAME]);
        out_text(o, ",\"arguments\":");
        out_join(o, &c->args);
        out_text(o, "}}");
    }
    out_clear(&c->args);
    if (!c->x->r.stream || !complete)
        return;
    struct out *to = begin_object(c->x);
    put_text(c->x, NULL);
    put_calls(to, o);
    more_to_come(c->x);
    out_clear(o);
}

static void end_part(struct api_choice *c, bool complete)
{
    if (c->part == API_ARGUMENTS)
        end_call(c, complete);
    else if (!c->x->r.stream)
        out_join(&c->parts[c->part == API_CONTENT ? CONTENT : REASONING], &c->text);
}

/* ---- ends ---- */

static const char *reason_of(const struct api_exchange *x)
{
    return strcmp(x->choices[0].finish, "length") == 0 ? "length" : "stop";
}

static void last(struct api_choice *c)
{
    (void)c;
}

static void end(struct api_exchange *x)
{
    begin_object(x);
    put_text(x, NULL);
    put_end(x, reason_of(x));
    out_text(&x->out, "\n");
}

static void whole(struct api_exchange *x)
{
    const struct api_choice *c = &x->choices[0];
    struct out *o = begin_object(x);
    put_text(x, &c->parts[CONTENT]);
    if (c->parts[REASONING].n)
        put_thinking(o, &c->parts[REASONING]);
    if (c->parts[CALLS].n)
        put_calls(o, &c->parts[CALLS]);
    put_end(x, reason_of(x));
}

static void broken(struct api_exchange *x, const struct api_problem *p)
{
    api_ollama_problem(p, &x->out);
    out_text(&x->out, "\n");
}

static const struct api_part_form parts = { begin_part, text, end_part };
static const struct api_form form = {
    "application/x-ndjson", NULL, api_parts_open, begin, api_parts_put, api_parts_close, api_parts_flush, last, end, whole,
    broken, ping, api_parts_destroy, &parts,
};

/* Without anything to say to it a model is loaded, or dropped: it is there already, and stays. */
static bool is_nothing(struct api_exchange *x)
{
    if (x->r.n_messages || x->r.n_prompts)
        return false;
    begin_object(x);
    put_text(x, NULL);
    put_end(x, "load");
    return true;
}

static void converse(struct api_exchange *x, const struct api_call *c, api_reader *read)
{
    struct api_problem p;
    if (api_converse_read(x, c, read, &p))
        api_fail(x, &p);
    else if (is_nothing(x))
        api_answer(x, 200);
    else
        api_converse_on(x, c, &form);
}

void api_ollama_chat(struct api_exchange *x, const struct api_call *c)
{
    converse(x, c, api_request_ollama_chat);
}

void api_ollama_generate(struct api_exchange *x, const struct api_call *c)
{
    x->generates = true;
    converse(x, c, api_request_ollama_generate);
}
