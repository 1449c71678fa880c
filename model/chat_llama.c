/* Llama 3 and 3.1 (also 3.3). */
#include <stdio.h>
#include <time.h>

#include "model/chat_impl.h"

static void header(struct chat_out *o, const char *role)
{
    chat_put(o, "<|start_header_id|>");
    chat_text(o, role);
    chat_put(o, "<|end_header_id|>\n\n");
}

static void turn(struct chat_out *o, const struct chat_msg *m)
{
    header(o, chat_is_system(m) ? "system" : m->role ? m->role : "user");
    chat_text_span(o, chat_trim(chat_span(m->content)));
    chat_put(o, "<|eot_id|>");
}

void chat_render_llama3(struct chat_out *o)
{
    for (size_t i = 0; i < o->n; i++)
        turn(o, &o->msg[i]);
    if (o->opts->add_generation_prompt)
        header(o, "assistant");
}

/* "2024-07-26" to "26 Jul 2024". */
static void put_date(struct chat_out *o)
{
    static const char month[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int y, m, d;
    char buf[48];

    if (!o->opts->date) {
        chat_put(o, "26 Jul 2024");
        return;
    }
    if (sscanf(o->opts->date, "%d-%d-%d", &y, &m, &d) != 3 || m < 1 || m > 12) {
        chat_fail(o, "the date '%.32s' is not YYYY-MM-DD", o->opts->date);
        return;
    }
    snprintf(buf, sizeof buf, "%02d %s %d", d, month[m - 1], y);
    chat_put(o, buf);
}

static void tool_question(struct chat_out *o, const struct chat_msg *first)
{
    const json_t *tool;
    size_t i;

    header(o, "user");
    chat_put(o, "Given the following functions, please respond with a JSON for a function call with its "
                "proper arguments "
                "that best answers the given prompt.\n\nRespond in the format {\"name\": function name, "
                "\"parameters\": "
                "dictionary of argument name and its value}.Do not use variables.\n\n");
    json_array_foreach(o->tools, i, tool)
    {
        chat_json(o, tool, 4);
        chat_put(o, "\n\n");
    }
    chat_text_span(o, chat_trim(chat_span(first->content)));
    chat_put(o, "<|eot_id|>");
}

static void call(struct chat_out *o, const struct chat_msg *m)
{
    if (m->n_calls != 1) {
        chat_fail(o, "the llama3.1 format has one tool call in a message, not %zu", m->n_calls);
        return;
    }
    header(o, "assistant");
    chat_put(o, "{\"name\": \"");
    chat_text(o, m->calls[0].name);
    chat_put(o, "\", \"parameters\": ");
    chat_put_arguments(o, m->calls);
    chat_put(o, "}<|eot_id|>");
}

void chat_render_llama31(struct chat_out *o)
{
    size_t i = 0, asks = 0;

    header(o, "system");
    chat_put(o, o->tools ? "Environment: ipython\n" : "");
    chat_put(o, "Cutting Knowledge Date: December 2023\nToday Date: ");
    put_date(o);
    chat_put(o, "\n\n");
    if (chat_is_system(&o->msg[0]))
        chat_text_span(o, chat_trim(chat_span(o->msg[i++].content)));
    chat_put(o, "<|eot_id|>");
    while (o->tools && asks < o->n && !chat_role_is(&o->msg[asks], "user"))
        asks++;
    if (o->tools && asks == o->n) {
        chat_fail(o, "the llama3.1 format puts tools in the first user message, and there is none");
        return;
    }
    for (; i < o->n && !o->rc; i++) {
        const struct chat_msg *m = &o->msg[i];
        if (o->tools && i == asks) {
            tool_question(o, m);
        } else if (m->n_calls) {
            call(o, m);
        } else if (chat_role_is(m, "tool") || chat_role_is(m, "ipython")) {
            struct chat_span t = chat_span(m->content);
            header(o, "ipython");
            chat_json_string(o, t.s, t.n);
            chat_put(o, "<|eot_id|>");
        } else {
            turn(o, m);
        }
    }
    if (o->opts->add_generation_prompt)
        header(o, "assistant");
}
