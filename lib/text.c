/* Text and conversations as tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "lib/priv.h"

int think_of(uint32_t think, int *out, struct err *e)
{
    *out = think == ZINC_THINK_ON ? 1 : think == ZINC_THINK_OFF ? 0 : -1;
    return think <= ZINC_THINK_OFF ? 0
                                   : err_set(e, -EINVAL, "libzinc: think is %u, expected one of ZINC_THINK_*", think);
}

static int no_model(const zinc_model *m, const char *what, struct err *e)
{
    return m ? 0 : err_set(e, -EINVAL, "libzinc: %s: the model is NULL", what);
}

static int tokenize(zinc_model *m, const char *text, size_t n_text, uint32_t flags, int32_t *ids, size_t cap,
                    size_t *n, struct err *e)
{
    enum { KNOWN = ZINC_TEXT_ADD_SPECIAL | ZINC_TEXT_PARSE_SPECIAL | ZINC_TEXT_SHOW_SPECIAL };
    int32_t *made = NULL;
    uint32_t n_made = 0;
    int rc = no_model(m, "zinc_tokenize", e);
    if (!rc && !text && n_text)
        rc = err_set(e, -EINVAL, "libzinc: zinc_tokenize: the text is NULL");
    if (!rc && flags & ~(uint32_t)KNOWN)
        rc = err_set(e, -EINVAL, "libzinc: zinc_tokenize: flags 0x%x are not known", flags & ~(uint32_t)KNOWN);
    if (rc || (rc = engine_encode(m->eng, text ? text : "", n_text, flags, &made, &n_made, e)))
        return rc;
    rc = array_give(made, n_made, sizeof *made, ids, cap, n, e);
    free(made);
    return rc;
}

int zinc_tokenize(zinc_model *m, const char *text, size_t n_text, uint32_t flags, int32_t *ids, size_t cap, size_t *n,
                  zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = tokenize(m, text, n_text, flags, ids, cap, n, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}

static int detokenize(zinc_model *m, const int32_t *ids, size_t n_ids, uint32_t flags, char *text, size_t cap,
                      size_t *n, struct err *e)
{
    char *made = NULL;
    size_t n_made = 0;
    int rc = no_model(m, "zinc_detokenize", e);
    if (!rc && !ids && n_ids)
        rc = err_set(e, -EINVAL, "libzinc: zinc_detokenize: the tokens are NULL");
    if (!rc && flags & ~(uint32_t)(ZINC_TEXT_ADD_SPECIAL | ZINC_TEXT_PARSE_SPECIAL | ZINC_TEXT_SHOW_SPECIAL))
        rc = err_set(e, -EINVAL, "libzinc: zinc_detokenize: flags 0x%x are not known", flags);
    if (!rc && n_ids > INT32_MAX)
        rc = err_set(e, -E2BIG, "libzinc: zinc_detokenize: %zu tokens", n_ids);
    if (rc || (rc = engine_decode(m->eng, ids, (uint32_t)n_ids, flags, &made, &n_made, e)))
        return rc;
    rc = array_give(made, n_made, 1, text, cap, n, e);
    free(made);
    return rc;
}

int zinc_detokenize(zinc_model *m, const int32_t *ids, size_t n_ids, uint32_t flags, char *text, size_t cap,
                    size_t *n, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = detokenize(m, ids, n_ids, flags, text, cap, n, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}

int zinc_is_end(zinc_model *m, int32_t id)
{
    return m && engine_is_eog(m->eng, id);
}

/* ---- messages ---- */

void messages_free(struct messages *v)
{
    free(v->m);
    free(v->call);
    json_decref(v->calls);
    *v = (struct messages){ 0 };
}

/* One call: its arguments become JSON text, which is kept beside it. */
static int take_call(json_t *given, struct engine_call *c, struct err *e)
{
    json_t *fn = json_object_get(given, "function"), *args = json_object_get(fn, "arguments");
    const char *name = json_string_value(json_object_get(fn, "name"));
    unsigned failures = json_failures();
    if (!name || (args && !json_is_string(args) && !json_is_object(args)))
        return err_set(e, -EINVAL,
                       "libzinc: tool_calls: expected {\"id\": .., \"function\": {\"name\": .., \"arguments\": "
                       "{..}}} for each call");
    if (json_is_object(args)) {
        char *text = json_write(args, JSON_COMPACT);
        args = text ? json_string(text) : NULL;
        free(text);
        if (!args || json_object_set_new(fn, "arguments", args) || json_failures() != failures)
            return err_set(e, -ENOMEM, "libzinc: out of memory");
    }
    *c = (struct engine_call){ json_string_value(json_object_get(given, "id")), name, json_string_value(args) };
    return 0;
}

/* The calls of one message; v->calls keeps what they point to. */
static int take_calls(const char *text, struct messages *v, size_t *n_calls, struct engine_message *m, struct err *e)
{
    bool no_memory;
    json_error_t je;
    json_t *list = json_read(text, strlen(text), 0, &je, &no_memory);
    if (!list || !json_is_array(list)) {
        json_decref(list);
        return no_memory ? err_set(e, -ENOMEM, "libzinc: out of memory")
                         : err_set(e, -EINVAL, "libzinc: tool_calls: %s", list ? "expected a JSON array" : je.text);
    }
    unsigned failures = json_failures();
    size_t n = json_array_size(list);
    if (!v->calls)
        v->calls = json_array();
    if (!v->calls) {
        json_decref(list);
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    }
    if (json_array_append_new(v->calls, list) || json_failures() != failures)
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    struct engine_call *more = realloc(v->call, (*n_calls + n + 1) * sizeof *more);
    if (!more)
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    v->call = more;
    m->n_calls = (uint32_t)n;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = take_call(json_array_get(list, i), &v->call[(*n_calls)++], e);
    return rc;
}

int messages_take(const zinc_message *given, size_t n, struct messages *out, struct err *e)
{
    const char *at = (const char *)given;
    size_t n_calls = 0, stride = n && given ? given->size : 0;
    int rc = 0;
    *out = (struct messages){ 0 };
    if (!given && n)
        return err_set(e, -EINVAL, "libzinc: the messages are NULL");
    if (n > 1 << 20)
        return err_set(e, -E2BIG, "libzinc: %zu messages", n);
    if (!(out->m = calloc(n + 1, sizeof *out->m)))
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    for (size_t i = 0; i < n && !rc; i++, at += stride) {
        zinc_message m;
        if (!(rc = STRUCT_TAKE(&m, at, call_id, e)) && m.size != stride)
            rc = err_set(e, -EINVAL, "libzinc: messages: size of number %zu is %zu, of the first %zu", i + 1, m.size,
                         stride);
        if (!rc && !m.role)
            rc = err_set(e, -EINVAL, "libzinc: messages: number %zu has no role", i + 1);
        out->m[i] = (struct engine_message){
            .role = m.role, .text = m.text, .reasoning = m.reasoning, .name = m.name, .call_id = m.call_id
        };
        if (!rc && m.tool_calls)
            rc = take_calls(m.tool_calls, out, &n_calls, &out->m[i], e);
        out->n++;
    }
    n_calls = 0; /* the array of calls lies still now */
    for (size_t i = 0; i < out->n; i++) {
        out->m[i].calls = out->call ? out->call + n_calls : NULL;
        n_calls += out->m[i].n_calls;
    }
    if (rc)
        messages_free(out);
    return rc;
}

static int make_prompt(zinc_model *m, const zinc_message *messages, size_t n_messages, const zinc_prompt_opts *given,
                       int32_t *ids, size_t cap, size_t *n, struct err *e)
{
    zinc_prompt_opts o;
    struct messages v;
    struct engine_prompt p;
    struct engine_chat_opts co = { 0 };
    int rc = no_model(m, "zinc_prompt", e);
    if (rc || (rc = STRUCT_TAKE(&o, given, continue_final, e)) || (rc = think_of(o.think, &co.think, e)) ||
        (rc = messages_take(messages, n_messages, &v, e)))
        return rc;
    co.tools = o.tools;
    co.effort = o.effort;
    co.date = o.date;
    co.continue_final = o.continue_final;
    if (!(rc = engine_chat_prompt(m->eng, v.m, v.n, &co, &p, e))) {
        rc = array_give(p.ids, p.n, sizeof *p.ids, ids, cap, n, e);
        engine_prompt_free(&p);
    }
    messages_free(&v);
    return rc;
}

int zinc_prompt(zinc_model *m, const zinc_message *messages, size_t n_messages, const zinc_prompt_opts *o,
                int32_t *ids, size_t cap, size_t *n, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = make_prompt(m, messages, n_messages, o, ids, cap, n, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}
