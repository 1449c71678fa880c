/* model/chat_impl.h: inside the chat formats; for model/chat_*.c only. */
#ifndef ZINC_MODEL_CHAT_IMPL_H
#define ZINC_MODEL_CHAT_IMPL_H

#include <jansson.h>

#include "model/chat.h"

/* One rendering. Appending goes on silently after a failure; rc is looked at once, at the end. */
struct chat_out {
    struct tok_buf *b;
    struct err *e;
    int rc;
    const struct chat_msg *msg;
    size_t n;
    const struct chat_opts *opts;
    bool think;
    json_t *tools; /* array with at least one element, or NULL */
};

void chat_put(struct chat_out *o, const char *s); /* NULL is "" */
void chat_putn(struct chat_out *o, const char *s, size_t n);
__attribute__((format(printf, 2, 3))) void chat_fail(struct chat_out *o, const char *fmt,
                                                     ...); /* -EINVAL, the first counts */

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
void chat_put_span(struct chat_out *o, struct chat_span t);

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

/* The call's arguments parsed; NULL (with o->rc) when they are not JSON. Release with json_decref. */
json_t *chat_arguments(struct chat_out *o, const struct chat_call *c);

/* tool.function, or the tool itself when it has no such wrapper. */
const json_t *chat_function(const json_t *tool);

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
