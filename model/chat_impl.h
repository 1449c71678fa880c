/* model/chat_impl.h: inside the chat formats; for model/chat_*.c only. */
#ifndef ZINC_MODEL_CHAT_IMPL_H
#define ZINC_MODEL_CHAT_IMPL_H

#include <jansson.h>

#include "model/chat.h"

/* One rendering. Appending goes on silently after a failure; rc is looked at once, at the end. */
struct chat_out {
    struct tok_buf *b;
    struct tok_spans *plain; /* what the conversation says, as against the format; NULL: not asked for */
    unsigned in_text;        /* > 0: what is put belongs to `plain`                                    */
    struct err *e;
    int rc;
    const struct chat_msg *msg; /* as chat_order left them */
    size_t n;
    struct chat_msg *ordered;   /* owned, with the texts that were joined */
    char *texts;
    const struct chat_opts *opts;
    const char *default_system; /* "": none */
    bool think;
    json_t *tools; /* array with at least one element, or NULL */
};

/* Two kinds of text, which tokenising tells apart. chat_put writes the format's own, in which control tokens are
 * written out: literals of these files and nothing else. Whatever anybody says, in messages, names, tools or
 * arguments, goes through chat_text or one of the functions below, and stays text there. */
void chat_put(struct chat_out *o, const char *s);
void chat_putn(struct chat_out *o, const char *s, size_t n);
void chat_text(struct chat_out *o, const char *s); /* NULL is "" */
void chat_textn(struct chat_out *o, const char *s, size_t n);
void chat_cut(struct chat_out *o, size_t n); /* takes back what was put behind byte n */
__attribute__((format(printf, 2, 3))) void chat_fail(struct chat_out *o, const char *fmt,
                                                     ...); /* -EINVAL, the first counts */

void chat_no_memory(struct chat_out *o); /* -ENOMEM, likewise */

/* A stretch of somebody's string. */
struct chat_span {
    const char *s;
    size_t n;
};
struct chat_span chat_span(const char *s);      /* NULL is empty */
struct chat_span chat_trim(struct chat_span t); /* ASCII white space at both ends */
struct chat_span chat_strip(struct chat_span t, char c, bool left, bool right);
const char *chat_find(struct chat_span t, const char *what); /* NULL: not there */
const char *chat_rfind(struct chat_span t, const char *what);
void chat_text_span(struct chat_out *o, struct chat_span t);

bool chat_role_is(const struct chat_msg *m, const char *role);
bool chat_is_system(const struct chat_msg *m); /* "system" or "developer" */

/* Reasoning and answer of an assistant message: by field, or cut out of the content at <think> and </think>. */
void chat_split_reasoning(const struct chat_msg *m, struct chat_span content, struct chat_span *reasoning,
                          struct chat_span *answer);

/* JSON as the templates' tojson writes it: ", " and ": ", or with indent > 0 one element a line; keys in order;
 * nothing beyond ASCII escaped; floats with six digits. */
void chat_json(struct chat_out *o, const json_t *v, int indent);
void chat_json_string(struct chat_out *o, const char *s, size_t n);

/* A value as plain text, the way {{ value }} prints it. */
void chat_plain(struct chat_out *o, const json_t *v);

/* Python's and Jinja's truth: NULL, null, false, 0 and empty things are false. */
bool chat_truth(const json_t *v);
const char *chat_str(const json_t *object, const char *key); /* "" when absent or no string */

/* The object's keys in the order of dictsort: case folded, then as in the object. *n of them; free the result. */
const char **chat_sorted_keys(struct chat_out *o, const json_t *object, size_t *n);

/* The call's arguments parsed; NULL when they are not JSON, or with o->rc. Release with json_decref. */
json_t *chat_arguments(struct chat_out *o, const struct chat_call *c);
/* The arguments as JSON; what is none (the model was cut off) as it stands. */
void chat_put_arguments(struct chat_out *o, const struct chat_call *c);

/* tool.function, or the tool itself when it has no such wrapper. */
const json_t *chat_function(const json_t *tool);

/* What a format has a place for. */
struct chat_places {
    bool first_system, late_system; /* system messages: at the beginning, later                     */
    bool same_role;                 /* messages of one role behind each other                       */
    bool answer_first;              /* the assistant, or an answer that nobody asked for, may begin */
    bool results, lone_results;     /* results of tools: behind their calls, without a call         */
    bool calls;                     /* calls of tools                                               */
};
struct chat_places chat_format_places(enum chat_format f);

/* Puts o->msg into an order that there is a place for (chat_order.c). 0 or -ENOMEM; o->ordered and o->texts are to be
 * freed either way. */
int chat_order(struct chat_out *o, struct chat_places has);

/* What the file's own template makes of the conversation (chat_file.c); o->tools are read. */
void chat_file_render(struct chat_out *o, const struct chat_file *f);
const struct chat_info *chat_file_info(const struct chat_file *f);
bool chat_file_opens_thinking(const struct chat_file *f, enum chat_thinking t);
bool chat_file_takes_tools(const struct chat_file *f);

/* The formats. */
void chat_render_chatml(struct chat_out *o, enum chat_format f);
void chat_render_qwen35(struct chat_out *o);
void chat_render_qwen3_coder(struct chat_out *o);
void chat_render_llama3(struct chat_out *o);
void chat_render_llama31(struct chat_out *o);
void chat_render_gpt_oss(struct chat_out *o);
void chat_render_gemma3(struct chat_out *o);
void chat_render_gemma4(struct chat_out *o);

#endif
