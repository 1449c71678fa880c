/* The <|im_start|> formats: plain ChatML, Qwen3, Qwen3-Coder, Qwen3.5. */
#include <string.h>

#include "model/chat_impl.h"

static void turn(struct chat_out *o, const char *role, struct chat_span content)
{
    chat_put(o, "<|im_start|>");
    chat_text(o, role);
    chat_put(o, "\n");
    chat_text_span(o, content);
    chat_put(o, "<|im_end|>\n");
}

/* Roles as they are printed. */
static const char *role_of(const struct chat_msg *m)
{
    return chat_is_system(m) ? "system" : m->role ? m->role : "user";
}

/* A user message that only wraps a tool's result. */
static bool wraps_tool_response(struct chat_span t)
{
    static const char head[] = "<tool_response>", tail[] = "</tool_response>";
    size_t nh = sizeof head - 1, nt = sizeof tail - 1;

    return t.n >= nh && t.n >= nt && memcmp(t.s, head, nh) == 0 && memcmp(t.s + t.n - nt, tail, nt) == 0;
}

/* The last real question: reasoning before it is history. -1: there is none. */
static ptrdiff_t last_query(const struct chat_out *o, bool trim)
{
    for (size_t i = o->n; i-- > 0;) {
        struct chat_span t = chat_span(o->msg[i].content);
        if (chat_role_is(&o->msg[i], "user") && !wraps_tool_response(trim ? chat_trim(t) : t))
            return (ptrdiff_t)i;
    }
    return -1;
}

static bool tool_at(const struct chat_out *o, size_t i)
{
    return i < o->n && chat_role_is(&o->msg[i], "tool");
}

/* Consecutive results share one user turn. */
static void tool_result(struct chat_out *o, size_t i, struct chat_span content)
{
    if (i == 0 || !tool_at(o, i - 1))
        chat_put(o, "<|im_start|>user");
    chat_put(o, "\n<tool_response>\n");
    chat_text_span(o, content);
    chat_put(o, "\n</tool_response>");
    if (!tool_at(o, i + 1))
        chat_put(o, "<|im_end|>\n");
}

static void tool_lines(struct chat_out *o)
{
    const json_t *tool;
    size_t i;

    json_array_foreach(o->tools, i, tool)
    {
        chat_put(o, "\n");
        chat_json(o, tool, 0);
    }
}

/* ---- ChatML and Qwen3 ---------------------------------------------------------------------------------- */

static void qwen3_system(struct chat_out *o)
{
    bool given = chat_is_system(&o->msg[0]);
    struct chat_span system = chat_span(given ? o->msg[0].content : o->default_system);

    given |= system.n > 0;
    if (!o->tools) {
        if (given)
            turn(o, "system", system);
        return;
    }
    chat_put(o, "<|im_start|>system\n");
    if (given) {
        chat_text_span(o, system);
        chat_put(o, "\n\n");
    }
    chat_put(o, "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
                "provided with "
                "function signatures within <tools></tools> XML tags:\n<tools>");
    tool_lines(o);
    chat_put(
        o,
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
        "<args-json-object>}\n</tool_call><|im_end|>\n");
}

static void qwen3_calls(struct chat_out *o, const struct chat_msg *m, bool has_content)
{
    for (size_t i = 0; i < m->n_calls && !o->rc; i++) {
        json_t *args = chat_arguments(o, &m->calls[i]);
        chat_put(o, i || has_content ? "\n" : "");
        chat_put(o, "<tool_call>\n{\"name\": \"");
        chat_text(o, m->calls[i].name);
        chat_put(o, "\", \"arguments\": ");
        if (json_is_string(args))
            chat_plain(o, args);
        else
            chat_put_arguments(o, &m->calls[i]);
        chat_put(o, "}\n</tool_call>");
        json_decref(args);
    }
}

static void qwen3_assistant(struct chat_out *o, size_t i, ptrdiff_t query, bool thinks)
{
    const struct chat_msg *m = &o->msg[i];
    struct chat_span reasoning = {"", 0}, answer = chat_span(m->content);

    if (thinks)
        chat_split_reasoning(m, answer, &reasoning, &answer);
    chat_put(o, "<|im_start|>assistant\n");
    if (thinks && (ptrdiff_t)i > query && (i + 1 == o->n || reasoning.n)) {
        chat_put(o, "<think>\n");
        chat_text_span(o, chat_strip(reasoning, '\n', true, true));
        chat_put(o, "\n</think>\n\n");
        chat_text_span(o, chat_strip(answer, '\n', true, false));
    } else {
        chat_text_span(o, answer);
    }
    qwen3_calls(o, m, answer.n > 0);
    chat_put(o, "<|im_end|>\n");
}

void chat_render_chatml(struct chat_out *o, enum chat_format f)
{
    ptrdiff_t query = last_query(o, false);
    bool thinks = f != CHAT_CHATML;

    if (query < 0)
        query = (ptrdiff_t)o->n - 1;
    qwen3_system(o);
    for (size_t i = 0; i < o->n && !o->rc; i++) {
        const struct chat_msg *m = &o->msg[i];
        if (i == 0 && chat_is_system(m))
            continue;
        if (chat_role_is(m, "assistant"))
            qwen3_assistant(o, i, query, thinks);
        else if (chat_role_is(m, "tool"))
            tool_result(o, i, chat_span(m->content));
        else
            turn(o, role_of(m), chat_span(m->content));
    }
    if (!o->opts->add_generation_prompt)
        return;
    chat_put(o, "<|im_start|>assistant\n");
    if (f == CHAT_QWEN3 && !o->think)
        chat_put(o, "<think>\n\n</think>\n\n");
    if (f == CHAT_QWEN3_THINKING)
        chat_put(o, "<think>\n");
}

/* ---- calls in XML -------------------------------------------------------------------------------------- */

/* <function=NAME> with its parameters; objects and arrays as JSON, the rest as plain text. */
static void xml_call(struct chat_out *o, const struct chat_call *c)
{
    json_t *args = chat_arguments(o, c), *v;
    const char *key;

    chat_put(o, "<tool_call>\n<function=");
    chat_text(o, c->name);
    chat_put(o, ">\n");
    if (args && !json_is_object(args))
        chat_fail(o, "the arguments of the call of '%.64s' are not a JSON object", c->name ? c->name : "");
    if (!args) { /* cut off: what there is of it */
        chat_text_span(o, chat_span(c->arguments));
        chat_put(o, "\n");
    }
    json_object_foreach(args, key, v)
    {
        chat_put(o, "<parameter=");
        chat_text(o, key);
        chat_put(o, ">\n");
        chat_plain(o, v);
        chat_put(o, "\n</parameter>\n");
    }
    chat_put(o, "</function>\n</tool_call>");
    json_decref(args);
}

/* ---- Qwen3.5 ------------------------------------------------------------------------------------------- */

static const char qwen35_call_format[] =
    "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO "
    "suffix:\n\n<tool_call>\n"
    "<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple "
    "lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the "
    "specified "
    "format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML "
    "tags\n- Required "
    "parameters MUST be specified\n- You may provide optional reasoning for your function call in natural "
    "language "
    "BEFORE the function call, but NOT after\n- If there is no function call available, answer the question "
    "like normal "
    "with your current knowledge and do not tell the user about function calls\n</IMPORTANT>";

static void qwen35_system(struct chat_out *o)
{
    struct chat_span system = {"", 0};
    bool has_system = chat_is_system(&o->msg[0]);

    if (has_system)
        system = chat_trim(chat_span(o->msg[0].content));
    if (!o->tools) {
        if (has_system)
            turn(o, "system", system);
        return;
    }
    chat_put(o, "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>");
    tool_lines(o);
    chat_put(o, qwen35_call_format);
    if (system.n) {
        chat_put(o, "\n\n");
        chat_text_span(o, system);
    }
    chat_put(o, "<|im_end|>\n");
}

static void qwen35_assistant(struct chat_out *o, size_t i, ptrdiff_t query)
{
    const struct chat_msg *m = &o->msg[i];
    struct chat_span reasoning, answer;

    chat_split_reasoning(m, chat_trim(chat_span(m->content)), &reasoning, &answer);
    chat_put(o, "<|im_start|>assistant\n");
    if ((ptrdiff_t)i > query) {
        chat_put(o, "<think>\n");
        chat_text_span(o, chat_trim(reasoning));
        chat_put(o, "\n</think>\n\n");
    }
    chat_text_span(o, answer);
    for (size_t k = 0; k < m->n_calls && !o->rc; k++) {
        chat_put(o, k ? "\n" : chat_trim(answer).n ? "\n\n" : "");
        xml_call(o, &m->calls[k]);
    }
    chat_put(o, "<|im_end|>\n");
}

void chat_render_qwen35(struct chat_out *o)
{
    ptrdiff_t query = last_query(o, true);

    if (query < 0) {
        chat_fail(o, "the qwen3.5 format needs a user message");
        return;
    }
    qwen35_system(o);
    for (size_t i = 0; i < o->n && !o->rc; i++) {
        const struct chat_msg *m = &o->msg[i];
        if (chat_is_system(m)) {
            continue; /* the first one; chat_order leaves no others */
        } else if (chat_role_is(m, "user")) {
            turn(o, "user", chat_trim(chat_span(m->content)));
        } else if (chat_role_is(m, "assistant")) {
            qwen35_assistant(o, i, query);
        } else if (chat_role_is(m, "tool")) {
            tool_result(o, i, chat_trim(chat_span(m->content)));
        } else {
            chat_fail(o, "message %zu: unknown role '%.32s'", i, m->role ? m->role : "");
        }
    }
    if (o->opts->add_generation_prompt)
        chat_put(o, o->think ? "<|im_start|>assistant\n<think>\n"
                             : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

/* ---- Qwen3-Coder --------------------------------------------------------------------------------------- */

static const char coder_call_format[] =
    "\n</tools>\n\nIf you choose to call a tool ONLY reply in the following format with NO "
    "suffix:\n\n<tool_call>\n"
    "<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nvalue_2\n</parameter>\n</function>\n</"
    "tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: the tool calling block MUST begin with an opening "
    "<tool_call> tag "
    "and end with a closing </tool_call> tag.\n- Required parameters MUST be specified\n- You may provide "
    "optional "
    "reasoning for your function call in natural language BEFORE the function call, but NOT after\n- If "
    "there is no "
    "function call available, answer the question like normal with your current knowledge and do not tell "
    "the user about "
    "function calls\n</IMPORTANT>";

static void element(struct chat_out *o, const char *tag, const json_t *v, bool trim)
{
    chat_put(o, "\n<");
    chat_text(o, tag);
    chat_put(o, ">");
    if (trim && json_is_string(v))
        chat_text_span(o, chat_trim((struct chat_span){json_string_value(v), json_string_length(v)}));
    else
        chat_plain(o, v);
    chat_put(o, "</");
    chat_text(o, tag);
    chat_put(o, ">");
}

/* The object's keys that have no place of their own; `handled` ends with NULL. */
static void extra_elements(struct chat_out *o, const json_t *object, const char *const *handled)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)object, key, v)
    {
        bool skip = false;
        for (size_t i = 0; handled[i]; i++)
            skip |= strcmp(handled[i], key) == 0;
        if (!skip)
            element(o, key, v, false);
    }
}

static void coder_tool(struct chat_out *o, const json_t *f)
{
    const json_t *params = json_object_get(f, "parameters"), *v;
    const json_t *props = json_object_get(params, "properties");
    const char *key;
    json_t *p;

    chat_put(o, "\n<function>");
    element(o, "name", json_object_get(f, "name"), false);
    if ((v = json_object_get(f, "description")))
        element(o, "description", v, true);
    chat_put(o, "\n<parameters>");
    json_object_foreach((json_t *)props, key, p)
    {
        chat_put(o, "\n<parameter>\n<name>");
        chat_text(o, key);
        chat_put(o, "</name>");
        if ((v = json_object_get(p, "type")))
            element(o, "type", v, false);
        if ((v = json_object_get(p, "description")))
            element(o, "description", v, true);
        extra_elements(o, p, (const char *const[]){"name", "type", "description", NULL});
        chat_put(o, "\n</parameter>");
    }
    extra_elements(o, params, (const char *const[]){"type", "properties", NULL});
    chat_put(o, "\n</parameters>");
    extra_elements(o, f, (const char *const[]){"type", "name", "description", "parameters", NULL});
    chat_put(o, "\n</function>");
}

static void coder_system(struct chat_out *o)
{
    const json_t *tool;
    size_t i;

    if (chat_is_system(&o->msg[0])) {
        chat_put(o, "<|im_start|>system\n");
        chat_text(o, o->msg[0].content);
    } else if (o->tools) {
        chat_put(o, "<|im_start|>system\nYou are Qwen, a helpful AI assistant that can interact with a "
                    "computer to solve "
                    "tasks.");
    } else {
        return;
    }
    if (o->tools) {
        chat_put(o, "\n\n# Tools\n\nYou have access to the following tools:\n\n<tools>");
        json_array_foreach(o->tools, i, tool) coder_tool(o, chat_function(tool));
        chat_put(o, coder_call_format);
    }
    chat_put(o, "<|im_end|>\n");
}

static void coder_assistant(struct chat_out *o, const struct chat_msg *m)
{
    struct chat_span content = chat_trim(chat_span(m->content));

    if (!m->n_calls) {
        turn(o, "assistant", chat_span(m->content));
        return;
    }
    chat_put(o, "<|im_start|>assistant");
    if (content.n) {
        chat_put(o, "\n");
        chat_text_span(o, content);
        chat_put(o, "\n");
    }
    for (size_t i = 0; i < m->n_calls && !o->rc; i++) {
        chat_put(o, "\n");
        xml_call(o, &m->calls[i]);
    }
    chat_put(o, "<|im_end|>\n");
}

void chat_render_qwen3_coder(struct chat_out *o)
{
    coder_system(o);
    for (size_t i = chat_is_system(&o->msg[0]); i < o->n && !o->rc; i++) {
        const struct chat_msg *m = &o->msg[i];
        if (chat_role_is(m, "assistant")) {
            coder_assistant(o, m);
        } else if (chat_role_is(m, "tool")) {
            if (i == 0 || !tool_at(o, i - 1))
                chat_put(o, "<|im_start|>user\n");
            chat_put(o, "<tool_response>\n");
            chat_text(o, m->content);
            chat_put(o, "\n</tool_response>\n");
            if (!tool_at(o, i + 1))
                chat_put(o, "<|im_end|>\n");
        } else {
            turn(o, role_of(m), chat_span(m->content));
        }
    }
    if (o->opts->add_generation_prompt)
        chat_put(o, "<|im_start|>assistant\n");
}
