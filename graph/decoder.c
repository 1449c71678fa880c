/* The decoder: what every model family runs around its layers. The residual x, f32 [n_embd] for each row of the step,
 * goes from the embedding through the layers to the head. A family (graph/family_*.c) says what a layer is.
 *
 *     whole       embedding ─ x ─ layer 0 ─ x ─ ... ─ layer 27 ─ x ─ head
 *     0:14        embedding ─ x ─ layer 0 ─ x ─ ... ─ layer 13 ─ x.13
 *     14:28                                              x.13 ─ layer 14 ─ x ─ ... ─ layer 27 ─ x ─ head */
#include "graph/ir.h"

static const struct graph_family *const families[FAMILY_COUNT] = {
    [FAMILY_LLAMA] = &family_llama,
    [FAMILY_MISTRAL3] = &family_llama,
    [FAMILY_QWEN2] = &family_llama, /* biases, head norms and the rotation are the layer's parameters */
    [FAMILY_QWEN3] = &family_llama,
    [FAMILY_QWEN3MOE] = &family_llama,
    [FAMILY_QWEN3NEXT] = &family_qwen35,
    [FAMILY_QWEN35] = &family_qwen35,
    [FAMILY_QWEN35MOE] = &family_qwen35,
    [FAMILY_GPT_OSS] = &family_gpt_oss,
    [FAMILY_GEMMA3] = &family_gemma3,
    [FAMILY_GEMMA3N] = &family_gemma3n,
    [FAMILY_GEMMA4] = &family_gemma4,
};

static void head(struct graph *g, gref x)
{
    const struct model *m = g->m;

    x = graph_gather(g, x, "last");                                 /* f32 [n_embd], output rows   */
    gref n = graph_norm(g, x, m->output_norm, "output_norm");       /* f32 [n_embd]                */
    gref y = graph_matmul(g, n, m->output, NULL, "logits");         /* f32 [n_vocab]               */
    if (m->logit_softcap > 0)
        y = graph_softcap(g, y, m->logit_softcap, "logits");
    graph_argmax(g, y);
}

/* Vectors of the output rows, or scores of them. */
static void pooled_head(struct graph *g, gref x)
{
    const struct model *m = g->m;

    x = graph_gather(g, x, "last");                                 /* f32 [n_embd], output rows   */
    gref y = graph_norm(g, x, m->output_norm, "output_norm");       /* f32 [n_embd]                */
    if (g->o->pooling == POOLING_RANK)
        y = graph_matmul(g, y, m->cls, m->cls_b, "scores");         /* f32 [n_labels]              */
    graph_vectors_out(g, y);
}

void graph_decoder(struct graph *g)
{
    const struct model *m = g->m;
    const struct graph_family *f = m->family < FAMILY_COUNT ? families[m->family] : NULL;
    if (!f) {
        graph_fail(g, -ENOTSUP, "no builder for this family; llama, qwen2, qwen3, qwen3.5, gpt-oss, gemma3, gemma3n and gemma4 run");
        return;
    }
    bool first = g->o->first_layer == 0;
    gref x = first ? graph_embed(g, m->token_embd, m->n_embd, m->embed_scale, "embed")
                   : graph_residual_in(g);                          /* f32 [n_embd]                */
    if (f->begin)
        f->begin(g, first ? x : 0);
    for (uint32_t il = g->o->first_layer; il < g->o->end_layer; il++) {
        g->layer = il;
        x = f->layer(g, &m->layers[il], x);
    }
    g->layer = CMD_NO_LAYER;
    if (f->end && g->o->end_layer == m->n_layer)
        x = f->end(g, x);
    if (g->o->end_layer < m->n_layer)
        graph_residual_out(g, x);
    else if (g->o->pooling != POOLING_NONE)
        pooled_head(g, x);
    else if (f->head)
        f->head(g, x);
    else
        head(g, x);
}
