/* What is made of the vector, or the scores, of a whole sequence; and the prompts of models that rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat_text.h"
#include "engine/priv.h"
#include "model/tok.h"

void engine_normalise(float *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * v[i];
    if (!(sum > 0))
        return;
    double by = 1 / sqrt(sum);
    for (uint32_t i = 0; i < n; i++)
        v[i] = (float)(v[i] * by);
}

/* ggml-org/llama.cpp, src/llama-graph.cpp, build_pooling: for qwen3 a softmax over the labels, of which the server tells
 * the first; conversion/qwen.py puts "yes" there. The model card of Qwen3-Reranker computes the same of the two logits. */
double engine_rank_score(const float *v, uint32_t n)
{
    double max = -INFINITY, sum = 0;
    if (n == 1)
        return v[0];
    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, v[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp(v[i] - max);
    return exp(v[0] - max) / sum;
}

/* A text in the making, with the stretches that are not the template's own. */
struct pair {
    struct tok_buf text;
    struct tok_spans plain;
};

static int put(struct pair *p, const char *s, size_t n, bool plain)
{
    if (plain && tok_spans_add(&p->plain, p->text.n, n))
        return -ENOMEM;
    return n ? tok_buf_add(&p->text, s, n) : 0;
}

/* The places of the template are filled once: what a query says is never looked at again. */
static int fill(struct pair *p, struct gguf_str tpl, const char *query, size_t n_query, const char *document,
                size_t n_document)
{
    static const char q_mark[] = "{query}", d_mark[] = "{document}";
    const size_t n_q = sizeof q_mark - 1, n_d = sizeof d_mark - 1;
    size_t from = 0, at = 0;
    int rc = 0;
    while (!rc && at < tpl.len) {
        bool q = tpl.len - at >= n_q && memcmp(tpl.s + at, q_mark, n_q) == 0;
        bool d = tpl.len - at >= n_d && memcmp(tpl.s + at, d_mark, n_d) == 0;
        if (!q && !d) {
            at++;
            continue;
        }
        if (!(rc = put(p, tpl.s + from, at - from, false)))
            rc = q ? put(p, query, n_query, true) : put(p, document, n_document, true);
        from = at += q ? n_q : n_d;
    }
    return rc ? rc : put(p, tpl.s + from, tpl.len - from, false);
}

int engine_rank_prompt(const struct engine *eng, const char *query, size_t n_query, const char *document, size_t n_document,
                       struct engine_prompt *out, struct err *e)
{
    static const char key[] = "tokenizer.chat_template.rerank";
    struct gguf_str tpl = { "", 0 };
    struct pair p = { 0 };
    struct tok_ids v = { 0 };
    *out = (struct engine_prompt){ 0 };
    int rc = engine_need_vocab(eng, e);
    if (rc || (rc = gguf_get_str(eng->gguf, key, &tpl, e)))
        return rc;
    if (!tpl.len)
        return err_set(e, -ENOTSUP, "engine: %s: no '%s', which says how a query and a document are put together (convert the "
                       "model again)", eng->label, key);
    if (fill(&p, tpl, query, n_query, document, n_document))
        rc = err_set(e, -ENOMEM, "engine: out of memory for a prompt");
    if (!rc)
        rc = tok_encode_marked(eng->tok, p.text.s, p.text.n, &p.plain, TOK_PARSE_SPECIAL, &v, e);
    tok_buf_finish(&p.text);
    tok_spans_finish(&p.plain);
    if (!rc && v.n > INT32_MAX)
        rc = err_set(e, -E2BIG, "engine: %zu tokens in one text", v.n);
    if (rc) {
        tok_ids_finish(&v);
        return rc;
    }
    out->ids = v.id;
    out->n = (uint32_t)v.n;
    return 0;
}
