/* gpt-oss: the harmony format. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/chat_impl.h"

/* ---- tools as TypeScript ------------------------------------------------------------------------------- */

static bool type_is(const json_t *schema, const char *type)
{
    return strcmp(chat_str(schema, "type"), type) == 0;
}

static bool in_list(const json_t *list, const char *name)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i,
                       v) if (json_is_string(v) && strcmp(json_string_value(v), name) == 0) return true;
    return false;
}

static void join(struct chat_out *o, const json_t *list, const char *sep)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        chat_put(o, i ? sep : "");
        chat_plain(o, v);
    }
}

static size_t characters(const char *s, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        k += ((unsigned char)s[i] & 0xc0) != 0x80;
    return k;
}

static void ts_type(struct chat_out *o, const json_t *schema);

static void ts_array(struct chat_out *o, const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items");

    if (!chat_truth(items)) {
        chat_put(o, "any[]");
    } else if (type_is(items, "string")) {
        chat_put(o, "string[]");
    } else if (type_is(items, "number") || type_is(items, "integer")) {
        chat_put(o, "number[]");
    } else if (type_is(items, "boolean")) {
        chat_put(o, "boolean[]");
    } else {
        size_t from = o->b->n;
        ts_type(o, items);
        const char *inner = o->b->s + from;
        size_t n = o->b->n - from;
        if (!o->rc && (characters(inner, n) > 50 || (n == 15 && memcmp(inner, "object | object", 15) == 0))) {
            chat_cut(o, from);
            chat_put(o, "any");
        }
        chat_put(o, "[]");
    }
    chat_put(o, chat_truth(json_object_get(schema, "nullable")) ? " | null" : "");
}

/* One of several schemas. The white space is the template's. */
static void ts_one_of(struct chat_out *o, const json_t *variants)
{
    const json_t *v, *def;
    size_t i;
    bool objects = false;

    json_array_foreach(variants, i, v) objects |= type_is(v, "object");
    if (objects && json_array_size(variants) > 1) {
        chat_put(o, "any");
        return;
    }
    json_array_foreach(variants, i, v)
    {
        ts_type(o, v);
        if (*chat_str(v, "description")) {
            chat_put(o, "// ");
            chat_text(o, chat_str(v, "description"));
        }
        if ((def = json_object_get(v, "default"))) {
            chat_put(o, "                    // default: ");
            chat_json(o, def, 0);
        }
        chat_put(o, i + 1 < json_array_size(variants) ? " | \n" : "");
    }
}

static void ts_object(struct chat_out *o, const json_t *schema)
{
    json_t *props = json_object_get(schema, "properties"), *v;
    const char *key;
    bool first = true;

    if (!chat_truth(props)) {
        chat_put(o, "object");
        return;
    }
    chat_put(o, "{\n");
    json_object_foreach(props, key, v)
    {
        chat_put(o, first ? "" : ", ");
        first = false;
        chat_text(o, key);
        chat_put(o, in_list(json_object_get(schema, "required"), key) ? "" : "?");
        chat_put(o, ": \n                ");
        ts_type(o, v);
    }
    chat_put(o, "}");
}

static void ts_type(struct chat_out *o, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");

    if (type_is(schema, "array")) {
        ts_array(o, schema);
    } else if (json_array_size(type) > 0) {
        join(o, type, " | ");
    } else if (chat_truth(json_object_get(schema, "oneOf"))) {
        ts_one_of(o, json_object_get(schema, "oneOf"));
    } else if (type_is(schema, "string") && chat_truth(json_object_get(schema, "enum"))) {
        chat_put(o, "\"");
        join(o, json_object_get(schema, "enum"), "\" | \"");
        chat_put(o, "\"");
    } else if (type_is(schema, "string")) {
        chat_put(o, "string");
        chat_put(o, chat_truth(json_object_get(schema, "nullable")) ? " | null" : "");
    } else if (type_is(schema, "number") || type_is(schema, "integer")) {
        chat_put(o, "number");
    } else if (type_is(schema, "boolean")) {
        chat_put(o, "boolean");
    } else if (type_is(schema, "object")) {
        ts_object(o, schema);
    } else {
        chat_put(o, "any");
    }
}

static void default_value(struct chat_out *o, const json_t *schema)
{
    const json_t *def = json_object_get(schema, "default");

    if (!def)
        return;
    if (chat_truth(json_object_get(schema, "enum"))) {
        chat_put(o, ", // default: ");
        chat_plain(o, def);
    } else if (chat_truth(json_object_get(schema, "oneOf"))) {
        chat_put(o, "// default: ");
        chat_plain(o, def);
    } else {
        chat_put(o, ", // default: ");
        chat_json(o, def, 0);
    }
}

static void function_type(struct chat_out *o, const json_t *f)
{
    const json_t *params = json_object_get(f, "parameters");
    json_t *props = json_object_get(params, "properties"), *v;
    const char *key;

    chat_put(o, "// ");
    chat_text(o, chat_str(f, "description"));
    chat_put(o, "\ntype ");
    chat_text(o, chat_str(f, "name"));
    if (!chat_truth(props)) {
        chat_put(o, " = () => any;\n\n");
        return;
    }
    chat_put(o, " = (_: {\n");
    json_object_foreach(props, key, v)
    {
        if (*chat_str(v, "description")) {
            chat_put(o, "// ");
            chat_text(o, chat_str(v, "description"));
            chat_put(o, "\n");
        }
        chat_text(o, key);
        chat_put(o, in_list(json_object_get(params, "required"), key) ? ": " : "?: ");
        ts_type(o, v);
        default_value(o, v);
        chat_put(o, ",\n");
    }
    chat_put(o, "}) => any;\n\n");
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static void system_message(struct chat_out *o)
{
    char today[16] = "";

    if (!o->opts->date) {
        time_t now = time(NULL);
        struct tm tm;
        strftime(today, sizeof today, "%Y-%m-%d", localtime_r(&now, &tm));
    }
    chat_put(o, "<|start|>system<|message|>You are ChatGPT, a large language model trained by "
                "OpenAI.\nKnowledge cutoff: "
                "2024-06\nCurrent date: ");
    chat_text(o, o->opts->date ? o->opts->date : today);
    chat_put(o, "\n\nReasoning: ");
    chat_text(o, o->opts->reasoning_effort ? o->opts->reasoning_effort : "medium");
    chat_put(
        o, "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.");
    if (o->tools)
        chat_put(o, "\nCalls to these tools must go to the commentary channel: 'functions'.");
    chat_put(o, "<|end|>");
}

static void developer_message(struct chat_out *o, const char *text)
{
    const json_t *tool;
    size_t i;

    if (!*text && !o->tools)
        return;
    chat_put(o, "<|start|>developer<|message|>");
    if (*text) {
        chat_put(o, "# Instructions\n\n");
        chat_text(o, text);
        chat_put(o, "\n\n");
    }
    if (o->tools) {
        chat_put(o, "# Tools\n\n## functions\n\nnamespace functions {\n\n");
        json_array_foreach(o->tools, i, tool) function_type(o, chat_function(tool));
        chat_put(o, "} // namespace functions");
    }
    chat_put(o, "<|end|>");
}

static void on_channel(struct chat_out *o, const char *channel, const char *text, const char *end)
{
    chat_put(o, "<|start|>assistant<|channel|>");
    chat_put(o, channel);
    chat_put(o, "<|message|>");
    chat_text(o, text);
    chat_put(o, end);
}

/* Whether the assistant answered later on: then this call's analysis is history. */
static bool answered_after(const struct chat_out *o, size_t i)
{
    while (++i < o->n)
        if (chat_role_is(&o->msg[i], "assistant") && !o->msg[i].n_calls)
            return true;
    return false;
}

static void tool_call(struct chat_out *o, size_t i)
{
    const struct chat_msg *m = &o->msg[i];
    const char *analysis = m->reasoning && *m->reasoning ? m->reasoning : m->content;

    if (analysis && *analysis && !answered_after(o, i))
        on_channel(o, "analysis", analysis, "<|end|>");
    chat_put(o, "<|start|>assistant to=functions.");
    chat_text(o, m->calls[0].name);
    chat_put(o, "<|channel|>commentary json<|message|>");
    chat_put_arguments(o, m->calls);
    chat_put(o, "<|call|>");
}

static void assistant(struct chat_out *o, size_t i)
{
    const struct chat_msg *m = &o->msg[i];
    struct chat_span t = chat_span(m->content), r = chat_span(m->reasoning);

    if (chat_find(t, "<|channel|>analysis<|message|>") || chat_find(t, "<|channel|>final<|message|>") ||
        chat_find(r, "<|channel|>analysis<|message|>") || chat_find(r, "<|channel|>final<|message|>")) {
        chat_fail(o, "message %zu: channel marks in the text; pass the analysis as reasoning", i);
    } else if (m->n_calls) {
        tool_call(o, i);
    } else if (i + 1 == o->n && !o->opts->add_generation_prompt) {
        if (m->reasoning)
            on_channel(o, "analysis", m->reasoning, "<|end|>");
        on_channel(o, "final", m->content, "<|return|>");
    } else {
        on_channel(o, "final", m->content, "<|end|>");
    }
}

/* The template knows a result by the call before it. Without one, by the name that it brings. */
static void tool_result(struct chat_out *o, const struct chat_msg *m, const char *called)
{
    struct chat_span t = chat_span(m->content);
    const char *name = called ? called : m->name && *m->name ? m->name : "unknown";
    chat_put(o, "<|start|>functions.");
    chat_text(o, name);
    chat_put(o, " to=assistant<|channel|>commentary<|message|>");
    chat_json_string(o, t.s, t.n);
    chat_put(o, "<|end|>");
}

/* A system or developer message that comes late: the template leaves them out, the format has a role for them. */
static void late_instructions(struct chat_out *o, const struct chat_msg *m)
{
    chat_put(o, "<|start|>developer<|message|># Instructions\n\n");
    chat_text(o, m->content);
    chat_put(o, "\n\n<|end|>");
}

void chat_render_gpt_oss(struct chat_out *o)
{
    size_t first = chat_is_system(&o->msg[0]);
    const char *called = NULL;

    system_message(o);
    developer_message(o, first && o->msg[0].content ? o->msg[0].content : "");
    for (size_t i = first; i < o->n && !o->rc; i++) {
        const struct chat_msg *m = &o->msg[i];
        if (chat_role_is(m, "assistant")) {
            assistant(o, i);
            called = m->n_calls                                         ? m->calls[0].name
                     : i + 1 == o->n && !o->opts->add_generation_prompt ? called
                                                                        : NULL;
        } else if (chat_role_is(m, "tool")) {
            tool_result(o, m, called);
        } else if (chat_is_system(m)) {
            late_instructions(o, m);
        } else if (chat_role_is(m, "user")) {
            chat_put(o, "<|start|>user<|message|>");
            chat_text(o, m->content);
            chat_put(o, "<|end|>");
        }
    }
    if (o->opts->add_generation_prompt)
        chat_put(o, "<|start|>assistant");
}
