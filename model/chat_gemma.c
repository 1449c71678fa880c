/* Gemma 3 and Gemma 4. */
#include <stdlib.h>
#include <string.h>

#include "model/chat_impl.h"

/* ---- Gemma 3: no system role, strict alternation ------------------------------------------------------- */

/* chat_order has joined what belongs to one turn. A conversation that the model begins is left so. */
void chat_render_gemma3(struct chat_out *o)
{
    size_t first = chat_is_system(&o->msg[0]);
    bool asks = first < o->n && !chat_role_is(&o->msg[first], "assistant");

    if (first && !asks) {
        chat_put(o, "<start_of_turn>user\n");
        chat_text_span(o, chat_trim(chat_span(o->msg[0].content)));
        chat_put(o, "<end_of_turn>\n");
    }
    for (size_t i = first; i < o->n; i++) {
        const struct chat_msg *m = &o->msg[i];
        chat_put(o, chat_role_is(m, "assistant") ? "<start_of_turn>model\n" : "<start_of_turn>user\n");
        if (asks && first && i == first) {
            chat_text(o, o->msg[0].content);
            chat_put(o, "\n\n");
        }
        chat_text_span(o, chat_trim(chat_span(m->content)));
        chat_put(o, "<end_of_turn>\n");
    }
    if (o->opts->add_generation_prompt)
        chat_put(o, "<start_of_turn>model\n");
}

/* ---- Gemma 4: values ----------------------------------------------------------------------------------- */

#define MARK "<|\"|>"

static void marked(struct chat_out *o, const char *s)
{
    chat_put(o, MARK);
    chat_text(o, s);
    chat_put(o, MARK);
}

static void marked_upper(struct chat_out *o, const char *s)
{
    chat_put(o, MARK);
    for (; *s; s++) {
        char c = *s >= 'a' && *s <= 'z' ? (char)(*s - 'a' + 'A') : *s;
        chat_textn(o, &c, 1);
    }
    chat_put(o, MARK);
}

static void argument(struct chat_out *o, const json_t *v, bool mark_keys);

/* The members of an object, sorted, without the braces. */
static void members(struct chat_out *o, const json_t *object, bool mark_keys)
{
    size_t n;
    const char **key = chat_sorted_keys(o, object, &n);

    for (size_t i = 0; i < n; i++) {
        chat_put(o, i ? "," : "");
        if (mark_keys)
            marked(o, key[i]);
        else
            chat_text(o, key[i]);
        chat_put(o, ":");
        argument(o, json_object_get(object, key[i]), mark_keys);
    }
    free(key);
}

static void argument(struct chat_out *o, const json_t *v, bool mark_keys)
{
    const json_t *item;
    size_t i;

    if (json_is_string(v)) {
        chat_put(o, MARK);
        chat_plain(o, v);
        chat_put(o, MARK);
    } else if (json_is_boolean(v)) {
        chat_put(o, json_is_true(v) ? "true" : "false");
    } else if (json_is_object(v)) {
        chat_put(o, "{");
        members(o, v, mark_keys);
        chat_put(o, "}");
    } else if (json_is_array(v)) {
        chat_put(o, "[");
        json_array_foreach(v, i, item)
        {
            chat_put(o, i ? "," : "");
            argument(o, item, mark_keys);
        }
        chat_put(o, "]");
    } else {
        chat_plain(o, v);
    }
}

/* ---- Gemma 4: declarations ----------------------------------------------------------------------------- */

/* A schema's type; of several, the first. */
static const char *type_of(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");

    if (json_is_array(type))
        type = json_array_get(type, 0);
    return json_is_string(type) ? json_string_value(type) : "";
}

static bool type_is(const char *type, const char *upper)
{
    for (; *type && *upper; type++, upper++)
        if ((*type >= 'a' && *type <= 'z' ? *type - 'a' + 'A' : *type) != *upper)
            return false;
    return !*type && !*upper;
}

static void required(struct chat_out *o, const json_t *names)
{
    const json_t *name;
    size_t i;

    chat_put(o, "required:[");
    json_array_foreach(names, i, name)
    {
        chat_put(o, i ? "," : "");
        chat_put(o, MARK);
        chat_plain(o, name);
        chat_put(o, MARK);
    }
    chat_put(o, "]");
}

static void comma(struct chat_out *o, bool *needed)
{
    chat_put(o, *needed ? "," : "");
    *needed = true;
}

static void parameters(struct chat_out *o, const json_t *properties);

/* The schema of an array's elements. */
static void items(struct chat_out *o, const json_t *schema)
{
    size_t n;
    const char **key = chat_sorted_keys(o, schema, &n);
    bool sep = false;

    chat_put(o, "items:{");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(schema, key[i]), *type;
        size_t k;
        if (json_is_null(v))
            continue;
        comma(o, &sep);
        if (strcmp(key[i], "properties") == 0) {
            chat_put(o, "properties:{");
            if (json_is_object(v))
                parameters(o, v);
            chat_put(o, "}");
        } else if (strcmp(key[i], "required") == 0) {
            required(o, v);
        } else if (strcmp(key[i], "type") == 0 && json_is_array(v)) {
            chat_put(o, "type:[");
            json_array_foreach(v, k, type)
            {
                chat_put(o, k ? "," : "");
                marked_upper(o, json_is_string(type) ? json_string_value(type) : "");
            }
            chat_put(o, "]");
        } else if (strcmp(key[i], "type") == 0) {
            chat_put(o, "type:");
            marked_upper(o, json_is_string(v) ? json_string_value(v) : "");
        } else {
            chat_text(o, key[i]);
            chat_put(o, ":");
            argument(o, v, true);
        }
    }
    chat_put(o, "}");
    free(key);
}

static void parameter(struct chat_out *o, const json_t *v)
{
    const json_t *description = json_object_get(v, "description"), *props = json_object_get(v, "properties");
    const char *type = type_of(v);
    bool sep = false;

    if (chat_truth(description)) {
        comma(o, &sep);
        chat_put(o, "description:" MARK);
        chat_plain(o, description);
        chat_put(o, MARK);
    }
    if (type_is(type, "STRING") && chat_truth(json_object_get(v, "enum"))) {
        comma(o, &sep);
        chat_put(o, "enum:");
        argument(o, json_object_get(v, "enum"), true);
    }
    if (type_is(type, "ARRAY") && json_object_size(json_object_get(v, "items"))) {
        comma(o, &sep);
        items(o, json_object_get(v, "items"));
    }
    if (chat_truth(json_object_get(v, "nullable"))) {
        comma(o, &sep);
        chat_put(o, "nullable:true");
    }
    if (type_is(type, "OBJECT")) {
        comma(o, &sep);
        chat_put(o, "properties:{");
        parameters(o, json_is_object(props) ? props : v);
        chat_put(o, "}");
        if (chat_truth(json_object_get(v, "required"))) {
            comma(o, &sep);
            required(o, json_object_get(v, "required"));
        }
    }
    comma(o, &sep);
    chat_put(o, "type:");
    marked_upper(o, type);
}

static void parameters(struct chat_out *o, const json_t *properties)
{
    static const char *const standard[] = {"description", "type", "properties", "required", "nullable"};
    size_t n;
    const char **key = chat_sorted_keys(o, properties, &n);
    bool sep = false;

    for (size_t i = 0; i < n; i++) {
        bool skip = false;
        for (size_t k = 0; k < sizeof standard / sizeof *standard; k++)
            skip |= strcmp(key[i], standard[k]) == 0;
        if (skip)
            continue;
        comma(o, &sep);
        chat_text(o, key[i]);
        chat_put(o, ":{");
        parameter(o, json_object_get(properties, key[i]));
        chat_put(o, "}");
    }
    free(key);
}

static void declaration(struct chat_out *o, const json_t *f)
{
    const json_t *params = json_object_get(f, "parameters"), *response = json_object_get(f, "response");

    chat_put(o, "<|tool>declaration:");
    chat_text(o, chat_str(f, "name"));
    chat_put(o, "{description:");
    marked(o, chat_str(f, "description"));
    if (chat_truth(params)) {
        chat_put(o, ",parameters:{");
        if (chat_truth(json_object_get(params, "properties"))) {
            chat_put(o, "properties:{");
            parameters(o, json_object_get(params, "properties"));
            chat_put(o, "},");
        }
        if (chat_truth(json_object_get(params, "required"))) {
            required(o, json_object_get(params, "required"));
            chat_put(o, ",");
        }
        if (chat_truth(json_object_get(params, "type"))) {
            chat_put(o, "type:");
            marked_upper(o, type_of(params));
            chat_put(o, "}");
        }
    }
    if (response) {
        chat_put(o, ",response:{");
        if (chat_truth(json_object_get(response, "description"))) {
            chat_put(o, "description:");
            marked(o, chat_str(response, "description"));
            chat_put(o, ",");
        }
        if (type_is(type_of(response), "OBJECT"))
            chat_put(o, "type:" MARK "OBJECT" MARK "}");
    }
    chat_put(o, "}<tool|>");
}

/* ---- Gemma 4: turns ------------------------------------------------------------------------------------ */

/* A model's text without its thought channels. */
static void without_thoughts(struct chat_out *o, struct chat_span t)
{
    struct tok_buf kept = {0};

    while (t.n) {
        const char *end = chat_find(t, "<channel|>");
        struct chat_span part = {t.s, end ? (size_t)(end - t.s) : t.n};
        const char *open = chat_find(part, "<|channel>");
        if (open)
            part.n = (size_t)(open - part.s);
        if (tok_buf_add(&kept, part.s, part.n) && !o->rc)
            o->rc = err_set(o->e, -ENOMEM, "chat: message text");
        if (!end)
            break;
        t.n -= (size_t)(end + strlen("<channel|>") - t.s);
        t.s = end + strlen("<channel|>");
    }
    chat_text_span(o, chat_trim((struct chat_span){kept.s ? kept.s : "", kept.n}));
    tok_buf_finish(&kept);
}

static void put_call(struct chat_out *o, const struct chat_call *c)
{
    json_t *args = chat_arguments(o, c);

    chat_put(o, "<|tool_call>call:");
    chat_text(o, c->name);
    chat_put(o, "{");
    if (json_is_object(args))
        members(o, args, false);
    else if (json_is_string(args))
        chat_plain(o, args);
    else if (!args) /* cut off: what there is of it */
        chat_text_span(o, chat_span(c->arguments));
    chat_put(o, "}<tool_call|>");
    json_decref(args);
}

static void put_response(struct chat_out *o, const struct chat_msg *caller, const struct chat_msg *m)
{
    const char *name = m->name ? m->name : "unknown";

    for (size_t i = 0; i < caller->n_calls; i++)
        if (caller->calls[i].id && m->tool_call_id && strcmp(caller->calls[i].id, m->tool_call_id) == 0)
            name = caller->calls[i].name;
    chat_put(o, "<|tool_response>response:");
    chat_text(o, name);
    chat_put(o, "{value:");
    marked(o, m->content ? m->content : "");
    chat_put(o, "}<tool_response|>");
}

static void gemma4_system(struct chat_out *o, bool has_system)
{
    const json_t *tool;
    size_t i;

    if (!o->think && !o->tools && !has_system)
        return;
    chat_put(o, "<|turn>system\n");
    chat_put(o, o->think ? "<|think|>\n" : "");
    if (has_system)
        chat_text_span(o, chat_trim(chat_span(o->msg[0].content)));
    json_array_foreach(o->tools, i, tool) declaration(o, chat_function(tool));
    chat_put(o, "<turn|>\n");
}

/* Whether the message before i, tools' results aside, is the assistant's. */
static bool continues(const struct chat_out *o, size_t first, size_t i)
{
    while (i-- > first)
        if (!chat_role_is(&o->msg[i], "tool"))
            return chat_role_is(&o->msg[i], "assistant");
    return false;
}

/* Returns whether the model goes on where this message ends: after a call or a tool's result. */
static bool gemma4_message(struct chat_out *o, size_t first, size_t i, ptrdiff_t last_user)
{
    const struct chat_msg *m = &o->msg[i];
    bool model = chat_role_is(m, "assistant"), answered = false;

    if (!(model && continues(o, first, i))) {
        chat_put(o, "<|turn>");
        chat_text(o, model ? "model" : chat_is_system(m) ? "system" : m->role);
        chat_put(o, "\n");
    }
    if (m->reasoning && *m->reasoning && m->n_calls && (ptrdiff_t)i > last_user) {
        chat_put(o, "<|channel>thought\n");
        chat_text(o, m->reasoning);
        chat_put(o, "\n<channel|>");
    }
    for (size_t k = 0; k < m->n_calls && !o->rc; k++)
        put_call(o, &m->calls[k]);
    for (size_t k = i + 1; m->n_calls && k < o->n && chat_role_is(&o->msg[k], "tool"); k++) {
        put_response(o, m, &o->msg[k]);
        answered = true;
    }
    if (model)
        without_thoughts(o, chat_span(m->content));
    else
        chat_text_span(o, chat_trim(chat_span(m->content)));
    if (m->n_calls && !answered)
        chat_put(o, "<|tool_response>");
    else if (!answered || (m->content && *m->content))
        chat_put(o, "<turn|>\n");
    return m->n_calls > 0;
}

void chat_render_gemma4(struct chat_out *o)
{
    size_t first = chat_is_system(&o->msg[0]);
    ptrdiff_t last_user = -1;
    bool goes_on = false;

    gemma4_system(o, first);
    for (size_t i = first; i < o->n; i++)
        if (chat_role_is(&o->msg[i], "user"))
            last_user = (ptrdiff_t)i;
    for (size_t i = first; i < o->n && !o->rc; i++)
        if (!chat_role_is(&o->msg[i], "tool"))
            goes_on = gemma4_message(o, first, i, last_user);
    if (o->opts->add_generation_prompt && !goes_on)
        chat_put(o, o->think ? "<|turn>model\n" : "<|turn>model\n<|channel>thought\n<channel|>");
}
