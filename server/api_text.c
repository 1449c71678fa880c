/* Endpoints that do not generate: models, tokens and text. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/vocab_index.h"
#include "server/api_impl.h"

static void write_model(const struct api *a, const char *id, struct out *o)
{
    const struct engine_info *in = engine_info(a->o.eng);
    const struct {
        const char *name;
        uint64_t v;
    } meta[] = {
        { "\"n_ctx\":", in->n_ctx },     { ",\"n_ctx_train\":", in->n_ctx_train }, { ",\"n_vocab\":", in->n_vocab },
        { ",\"n_embd\":", in->n_embd },  { ",\"n_layer\":", in->n_layer },
        { ",\"n_params\":", in->n_params }, { ",\"size\":", in->file_bytes },
    };
    out_text(o, "{\"id\":");
    out_string(o, id, strlen(id));
    out_text(o, ",\"object\":\"model\",\"created\":");
    out_int(o, a->created);
    out_text(o, ",\"owned_by\":\"zinc\",\"max_model_len\":");
    out_int(o, in->n_ctx);
    out_text(o, ",\"meta\":{");
    for (size_t i = 0; i < sizeof meta / sizeof *meta; i++) {
        out_text(o, meta[i].name);
        out_int(o, (int64_t)meta[i].v);
    }
    out_text(o, "}}");
}

void api_models(struct api_exchange *x, const struct api_call *c)
{
    const struct api *a = x->api;
    (void)c;
    out_text(&x->out, "{\"object\":\"list\",\"data\":[");
    write_model(a, a->name, &x->out);
    for (uint32_t i = 0; i < a->o.n_aliases; i++) {
        if (strchr(a->o.aliases[i], '*')) /* a pattern names no model */
            continue;
        out_text(&x->out, ",");
        write_model(a, a->o.aliases[i], &x->out);
    }
    out_text(&x->out, "]}");
    api_answer(x, 200);
}

void api_model(struct api_exchange *x, const char *id)
{
    struct api_problem p;
    if (!*id || !api_names_has(x->api->defaults.names, id)) {
        api_names_refuse(x->api->defaults.names, id, &p);
        api_fail(x, &p);
        return;
    }
    write_model(x->api, id, &x->out);
    api_answer(x, 200);
}

/* A token's text; what is no UTF-8 by itself as an array of its bytes, as llama.cpp's server has it. */
static int write_piece(const struct engine *eng, int32_t id, struct out *o, struct err *e)
{
    char *s;
    size_t n, i = 0, len;
    int rc = engine_decode(eng, (int32_t[]){ id, id }, 2, ENGINE_SHOW_SPECIAL, &s, &n, e); /* see api_logprobs.c */
    if (rc)
        return rc;
    const char *piece = s + n / 2;
    n -= n / 2;
    while (i < n && (len = out_char(piece + i, n - i)))
        i += len;
    out_text(o, "{\"id\":");
    out_int(o, id);
    out_text(o, ",\"piece\":");
    if (i == n) {
        out_string(o, piece, n);
    } else {
        for (i = 0; i < n; i++) {
            out_text(o, i ? "," : "[");
            out_int(o, (unsigned char)piece[i]);
        }
        out_text(o, "]");
    }
    out_text(o, "}");
    free(s);
    return 0;
}

/* The answer is up to a hundred times as long as the text, so it is written while it is sent: what is kept are ids. */
static int more_tokens(struct api_exchange *x)
{
    enum { PART = 16384 };
    struct out *o = &x->out;
    int rc = 0;
    while (x->at_id < x->n_ids && o->n < PART && !rc) {
        if (x->at_id)
            out_text(o, ",");
        if (x->pieces)
            rc = write_piece(x->api->o.eng, x->ids[x->at_id], o, NULL);
        else
            out_int(o, x->ids[x->at_id]);
        x->at_id++;
    }
    if (x->at_id == x->n_ids) {
        out_text(o, "],\"count\":");
        out_int(o, x->n_ids);
        out_text(o, "}");
        x->complete = true;
    }
    return rc ? rc : o->failed ? -ENOMEM : 0;
}

static int no_room(int rc, struct api_problem *p)
{
    api_refuse(p, rc == -E2BIG ? 413 : 429, rc == -E2BIG ? "request_too_large" : "overloaded", NULL,
               "no memory for an answer of this size%s (--max-memory)", rc == -E2BIG ? "" : " now");
    p->retry_after = rc == -E2BIG ? 0 : 1;
    return rc;
}

static int write_tokens(struct api_exchange *x, const char *text, unsigned flags, bool pieces, struct api_problem *p)
{
    struct err e = { 0 };
    uint32_t n = 0;
    int rc = engine_encode(x->api->o.eng, text, strlen(text), flags, &x->ids, &n, &e);
    if (rc) {
        api_problem_of(rc, &e, NULL, p);
        return rc;
    }
    if ((rc = budget_take(x->api->o.budget, n * sizeof *x->ids)))
        return no_room(rc, p);
    x->n_ids = n;
    x->pieces = pieces;
    out_text(&x->out, "{\"tokens\":[");
    if ((rc = more_tokens(x)))
        return no_room(-EBUSY, p);
    x->more = x->complete ? NULL : more_tokens;
    x->status = 200;
    return 0;
}

/* Bytes of the text that ids stand for. */
static uint64_t text_bytes(const struct engine *eng, const int32_t *ids, uint32_t n)
{
    const struct vocab_index *v;
    uint64_t sum = n;
    if (engine_vocab(eng, &v, NULL))
        return sum;
    for (uint32_t i = 0; i < n; i++)
        sum += v->at[ids[i] + 1] - v->at[ids[i]];
    return sum;
}

static int tokenize(struct api_exchange *x, const json_t *body, struct api_problem *p)
{
    struct fields f = fields_at(body, p, "%s", "");
    const char *text = NULL;
    bool add = false, parse = true, pieces = false;
    int rc;
    if ((rc = field_string(&f, "prompt", &text)) < 0 || (rc = field_string(&f, "content", &text)) < 0 ||
        (rc = field_bool(&f, "add_special", &add)) < 0 ||
        (rc = field_bool(&f, "parse_special", &parse)) < 0 || (rc = field_bool(&f, "with_pieces", &pieces)) < 0)
        return rc;
    if (!text)
        return api_refuse(p, 400, "missing_field", "content", "the request has no 'content', the text to tokenize");
    return write_tokens(x, text, (add ? ENGINE_ADD_SPECIAL : 0u) | (parse ? ENGINE_PARSE_SPECIAL : 0u), pieces, p);
}

static int detokenize(struct api_exchange *x, const json_t *body, struct api_problem *p)
{
    struct fields f = fields_at(body, p, "%s", "");
    const struct engine *eng = x->api->o.eng;
    const json_t *array;
    int32_t *ids = NULL;
    uint32_t n;
    char *text;
    size_t n_text;
    struct err e = { 0 };
    int rc = field_array(&f, "tokens", &array);
    if (rc == 0)
        return api_refuse(p, 400, "missing_field", "tokens", "the request has no 'tokens', an array of token ids");
    if (rc < 0 || (rc = api_request_ids(&f, "tokens", array, x->api->defaults.n_vocab, &ids, &n)))
        return rc;
    uint64_t paid = text_bytes(eng, ids, n);
    if ((rc = budget_take(x->api->o.budget, paid))) {
        free(ids);
        return no_room(rc, p);
    }
    rc = engine_decode(eng, ids, n, ENGINE_SHOW_SPECIAL, &text, &n_text, &e);
    free(ids);
    if (rc) {
        budget_give(x->api->o.budget, paid);
        api_problem_of(rc, &e, NULL, p);
        return rc;
    }
    out_text(&x->out, "{\"content\":");
    out_string(&x->out, text, n_text);
    out_text(&x->out, "}");
    free(text);
    budget_give(x->api->o.budget, paid);
    return 0;
}

void api_answer_with(struct api_exchange *x, const struct api_call *c,
                     int (*fn)(struct api_exchange *x, const json_t *body, struct api_problem *p))
{
    struct api_problem p;
    json_t *body = api_parse(c->body, c->n_body, &p);
    if (!body || fn(x, body, &p))
        api_fail(x, &p);
    else if (!x->more)
        api_answer(x, 200);
    json_decref(body);
}

void api_tokenize(struct api_exchange *x, const struct api_call *c)
{
    api_answer_with(x, c, tokenize);
}

void api_detokenize(struct api_exchange *x, const struct api_call *c)
{
    api_answer_with(x, c, detokenize);
}
