/* The Gemma families: sliding windows with rotary parameters of their own, sandwich norms, scaled embeddings. */
#include <math.h>
#include <stdio.h>

#include "base/ckd.h"
#include "model/model_read.h"

/* Sliding layers turn with their own base and are never scaled. */
static struct rope_params sliding_rope(struct reading *r, struct rope_params full, uint32_t n_rot)
{
    struct rope_params p = full;
    p.base = key_f32_positive(r, "rope.freq_base_swa", 10000);
    p.freq_scale = 1;
    p.ext_factor = 0;
    p.mscale = key_f32_positive(r, "rope.scaling.attn_factor", 1);
    p.n_rot = n_rot;
    return p;
}

static void read_sandwich_norms(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    uint32_t n = r->m->n_embd;
    int b = (int)il;
    l->attn_norm = read_vec(r, b, "attn_norm.weight", REQUIRED, n);
    l->post_attn_norm = read_vec(r, b, "post_attention_norm.weight", REQUIRED, n);
    l->ffn_norm = read_vec(r, b, "ffn_norm.weight", REQUIRED, n);
    l->post_ffn_norm = read_vec(r, b, "post_ffw_norm.weight", REQUIRED, n);
}

static void read_gemma_globals(struct reading *r, float softcap)
{
    struct model *m = r->m;
    m->act = ACT_GELU_TANH;
    m->embed_scale = sqrtf((float)m->n_embd);
    m->logit_softcap = key_f32(r, "final_logit_softcapping", softcap);
    if (m->logit_softcap < 0)
        read_fail(r, -EINVAL,
                  "key '%s.final_logit_softcapping': expected at least 0, found %g (the file is damaged)",
                  r->arch, (double)m->logit_softcap);
}

/* --- gemma3 ----------------------------------------------------------------------------------------------------- */

enum { GEMMA3_27B_LAYERS = 62 }; /* the one size that scales by its width, not by its head size */

static void read_gemma3_layer(struct reading *r, uint32_t il, bool slides)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    read_heads(r, il);
    if (r->rc)
        return;
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    if (slides)
        l->rope = sliding_rope(r, l->rope, l->rope.n_rot);
    bool by_width = m->n_layer == GEMMA3_27B_LAYERS;
    l->attn_scale = 1 / sqrtf(by_width ? (float)MAX(m->n_embd / l->n_head, 1) : (float)l->head_dim);
    read_sandwich_norms(r, il);
    read_projections(r, il);
    read_qk_norms(r, il);
    read_dense_ffn(r, il);
}

void read_gemma3(struct reading *r)
{
    struct model *m = r->m;
    read_gemma_globals(r, 0);
    read_windows(r, key_u32(r, "attention.sliding_window", 0, 0, INT32_MAX), 6);
    for (uint32_t il = 0; il < m->n_layer && !r->rc; il++)
        read_gemma3_layer(r, il, m->layers[il].window != 0);
}

/* --- what gemma3n and gemma4 share: caches, embeddings of the layers --------------------------------------------- */

/* The last layer below `n_own` of the same kind, whose cache the sharing layers read. */
static void share_kv(struct reading *r, uint32_t il, uint32_t n_own)
{
    struct model_layer *l = &r->m->layers[il];
    bool slides = l->window != 0;
    for (uint32_t from = n_own; from-- > 0;) {
        const struct model_layer *f = &r->m->layers[from];
        if ((f->window != 0) != slides)
            continue;
        if (f->n_head_kv != l->n_head_kv || f->head_dim != l->head_dim)
            read_fail(r, -EINVAL,
                      "block %u reads the keys of block %u: expected %u heads of %u, found %u of %u (convert "
                      "the model again)",
                      il, from, l->n_head_kv, l->head_dim, f->n_head_kv, f->head_dim);
        l->kv_from = from;
        return;
    }
    read_fail(r, -EINVAL,
              "block %u shares the keys of an earlier %s block, but blocks 0 to %u hold none (convert the "
              "model again)",
              il, slides ? "sliding" : "full", n_own - 1);
}

static void read_ple(struct reading *r)
{
    struct model *m = r->m;
    m->n_embd_ple = key_u32(r, "embedding_length_per_layer_input", KEY_REQUIRED, m->family == FAMILY_GEMMA4 ? 0 : 1, 1 << 16);
    if (r->rc || !m->n_embd_ple)
        return;
    uint64_t n = (uint64_t)m->n_embd_ple * m->n_layer;
    m->ple_token_embd = read_mat(r, -1, "per_layer_token_embd.weight", REQUIRED, n, m->n_vocab);
    m->ple_model_proj = read_mat(r, -1, "per_layer_model_proj.weight", REQUIRED, m->n_embd, n);
    m->ple_proj_norm = read_vec(r, -1, "per_layer_proj_norm.weight", REQUIRED, m->n_embd_ple);
}

static void read_layer_ple(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    l->ple_gate = read_mat(r, b, "inp_gate.weight", REQUIRED, m->n_embd, m->n_embd_ple);
    l->ple_proj = read_mat(r, b, "proj.weight", REQUIRED, m->n_embd_ple, m->n_embd);
    l->ple_norm = read_vec(r, b, "post_norm.weight", REQUIRED, m->n_embd);
}

/* --- gemma3n ---------------------------------------------------------------------------------------------------- */

/* Tensors, keys and rules: ggml-org/llama.cpp, src/models/gemma3n.cpp and conversion/gemma.py; huggingface/transformers,
 * modeling_gemma3n.py. The files' layers that share another's cache have k and v matrices all the same, which nobody reads. */
enum { STREAMS = 4, MAX_LAUREL = 1 << 16 };

static void read_altup(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    l->altup_router = read_mat(r, b, "altup_router.weight", REQUIRED, m->n_embd, STREAMS);
    l->altup_router_norm = read_vec(r, b, "altup_router_norm.weight", REQUIRED, m->n_embd);
    l->altup_predict = read_f32_mat(r, b, "altup_predict_coef.weight", REQUIRED, STREAMS, STREAMS * STREAMS);
    l->altup_correct = read_f32_mat(r, b, "altup_correct_coef.weight", REQUIRED, STREAMS, STREAMS);
    l->altup_scale = read_vec(r, b, "altup_correct_scale.weight", REQUIRED, m->n_embd);
}

static void read_laurel(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    char name[64];
    snprintf(name, sizeof name, "blk.%u.laurel_l.weight", il);
    const struct gguf_tensor *t = gguf_find_tensor(r->g, name);
    uint64_t rank = t ? t->ne[1] : 1;
    if (rank > MAX_LAUREL)
        read_fail(r, -EINVAL, "tensor '%s': expected up to %d rows, found %llu (the file is damaged)", name, MAX_LAUREL,
                  (unsigned long long)rank);
    l->laurel_l = read_mat(r, (int)il, "laurel_l.weight", REQUIRED, m->n_embd, rank);
    l->laurel_r = read_mat(r, (int)il, "laurel_r.weight", REQUIRED, rank, m->n_embd);
    l->laurel_norm = read_vec(r, (int)il, "laurel_post_norm.weight", REQUIRED, m->n_embd);
}

/* How many standard deviations above the mean a gate must be; -inf, the quantile of 0: any. */
static void read_sparsity(struct reading *r, uint32_t il)
{
    struct model_layer *l = &r->m->layers[il];
    const char *key = "gemma3n.activation_sparsity_scale";
    const struct gguf_kv *kv = r->rc ? NULL : gguf_find(r->g, key);
    double v = 0;
    if (r->rc)
        return;
    if (!kv || kv->type != GGUF_ARR || kv->n != r->n_blocks || !gguf_kv_f64(kv, il, &v)) {
        read_fail(r, -EINVAL, "key '%s': expected an array of %u numbers, one a block, found %s of %llu (convert the model again)", key,
                  r->n_blocks, kv ? gguf_type_name(kv->type) : "nothing", kv ? (unsigned long long)kv->n : 0ull);
        return;
    }
    if (!isfinite(v) && !(v < 0))
        read_fail(r, -EINVAL, "key '%s': expected finite numbers or -inf, found %g for block %u (the file is damaged)", key, v, il);
    l->sparse = isfinite(v);
    l->sparse_cut = l->sparse ? (float)v : 0;
}

/* Released files have it as a float. */
static uint32_t read_shared_layers(struct reading *r)
{
    const struct gguf_kv *kv = r->rc ? NULL : gguf_find(r->g, "gemma3n.attention.shared_kv_layers");
    double v;
    if (!kv || kv->type == GGUF_ARR || !gguf_kv_f64(kv, 0, &v))
        return key_u32(r, "attention.shared_kv_layers", KEY_REQUIRED, 0, r->m->n_layer - 1);
    if (v >= 0 && v < r->m->n_layer && v == floor(v))
        return (uint32_t)v;
    read_fail(r, -EINVAL, "key 'gemma3n.attention.shared_kv_layers': expected a whole number, finite and from 0 to %u, found %g (the "
              "file is damaged)", r->m->n_layer - 1, v);
    return 0;
}

static void read_gemma3n_attention(struct reading *r, uint32_t il, uint32_t n_own)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    read_heads(r, il);
    l->rope = read_rope(r, l->head_dim, ROPE_NEOX);
    if (l->window)
        l->rope = sliding_rope(r, l->rope, l->rope.n_rot);
    l->attn_scale = 1;
    l->v_norm = true;
    uint64_t q_rows = (uint64_t)l->n_head * l->head_dim, kv_rows = (uint64_t)l->n_head_kv * l->head_dim;
    l->wq = read_mat(r, b, "attn_q.weight", REQUIRED, m->n_embd, q_rows);
    l->wo = read_mat(r, b, "attn_output.weight", REQUIRED, q_rows, m->n_embd);
    l->q_norm = read_vec(r, b, "attn_q_norm.weight", REQUIRED, l->head_dim);
    if (r->rc)
        return;
    if (il >= n_own) {
        share_kv(r, il, n_own);
        return;
    }
    l->wk = read_mat(r, b, "attn_k.weight", REQUIRED, m->n_embd, kv_rows);
    l->wv = read_mat(r, b, "attn_v.weight", REQUIRED, m->n_embd, kv_rows);
    l->k_norm = read_vec(r, b, "attn_k_norm.weight", REQUIRED, l->head_dim);
}

static void read_gemma3n_layer(struct reading *r, uint32_t il, uint32_t n_own)
{
    read_gemma3n_attention(r, il, n_own);
    read_sandwich_norms(r, il);
    read_dense_ffn(r, il);
    read_sparsity(r, il);
    read_layer_ple(r, il);
    read_altup(r, il);
    read_laurel(r, il);
}

void read_gemma3n(struct reading *r)
{
    struct model *m = r->m;
    read_gemma_globals(r, 30);
    read_windows(r, key_u32(r, "attention.sliding_window", KEY_REQUIRED, 1, INT32_MAX), 5);
    uint32_t streams = key_u32(r, "altup.num_inputs", KEY_REQUIRED, 1, 64), active = key_u32(r, "altup.active_idx", 0, 0, 63);
    if (!r->rc && (streams != STREAMS || active != 0))
        read_fail(r, -ENOTSUP, "keys 'gemma3n.altup.*': zinc runs %d inputs of which the first is active, found %u and index %u", STREAMS,
                  streams, active);
    uint32_t n_own = m->n_layer - read_shared_layers(r);
    read_ple(r);
    m->altup_proj = read_mats(r, -1, "altup_proj.weight", REQUIRED, m->n_embd, m->n_embd, STREAMS - 1);
    m->altup_unembd_proj = read_mats(r, -1, "altup_unembd_proj.weight", REQUIRED, m->n_embd, m->n_embd, STREAMS - 1);
    for (uint32_t il = 0; il < m->n_layer && !r->rc; il++)
        read_gemma3n_layer(r, il, n_own);
}

/* --- gemma4 ----------------------------------------------------------------------------------------------------- */

static void read_gemma4_attention(struct reading *r, uint32_t il, uint32_t n_own)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    bool slides = l->window != 0;
    read_head_counts(r, il);
    uint32_t full_dim =
        read_head_dim(r, "attention.key_length", "attention.value_length", m->n_embd / MAX(l->n_head, 1));
    uint32_t swa_dim = read_head_dim(r, "attention.key_length_swa", "attention.value_length_swa", full_dim);
    struct rope_params full = read_rope(r, full_dim, ROPE_NEOX);
    uint32_t swa_rot = key_u32(r, "rope.dimension_count_swa", MIN(full.n_rot, swa_dim), 2, swa_dim);
    if (r->rc)
        return;
    if (swa_rot % 2)
        read_fail(r, -EINVAL,
                  "key 'gemma4.rope.dimension_count_swa': expected an even number, found %u (convert the "
                  "model again)",
                  swa_rot);
    l->head_dim = slides ? swa_dim : full_dim;
    l->rope = slides ? sliding_rope(r, full, swa_rot) : full;
    if (!slides)
        m->rope_freqs = l->rope_freqs = read_rope_freqs(r, "rope_freqs.weight", REQUIRED, full.n_rot);
    l->attn_scale = 1;
    l->v_norm = true;
    uint64_t q_rows = (uint64_t)l->n_head * l->head_dim, kv_rows = (uint64_t)l->n_head_kv * l->head_dim;
    l->wq = read_mat(r, b, "attn_q.weight", REQUIRED, m->n_embd, q_rows);
    l->wo = read_mat(r, b, "attn_output.weight", REQUIRED, q_rows, m->n_embd);
    l->q_norm = read_vec(r, b, "attn_q_norm.weight", REQUIRED, l->head_dim);
    if (il >= n_own) {
        share_kv(r, il, n_own);
        return;
    }
    l->wk = read_mat(r, b, "attn_k.weight", REQUIRED, m->n_embd, kv_rows);
    l->k_norm = read_vec(r, b, "attn_k_norm.weight", REQUIRED, l->head_dim);
    l->wv = read_mat(r, b, "attn_v.weight", OPTIONAL, m->n_embd, kv_rows);
    l->v_from_k = !l->wv;
}

/* Beside the dense FFN, on layers that have a router. */
static void read_gemma4_experts(struct reading *r, uint32_t il)
{
    const struct model *m = r->m;
    struct model_layer *l = &r->m->layers[il];
    int b = (int)il;
    if (!m->n_expert) {
        read_fail(r, -EINVAL,
                  "key 'gemma4.expert_count' is missing or 0, but block %u has a router: expected 1 to %d (convert "
                  "the model again)",
                  il, MODEL_MAX_EXPERTS);
        return;
    }
    read_expert_ffn(r, il);
    l->router_scale = read_vec(r, b, "ffn_gate_inp.scale", REQUIRED, m->n_embd);
    l->post_ffn_norm_1 = read_vec(r, b, "post_ffw_norm_1.weight", REQUIRED, m->n_embd);
    l->pre_ffn_norm_2 = read_vec(r, b, "pre_ffw_norm_2.weight", REQUIRED, m->n_embd);
    l->post_ffn_norm_2 = read_vec(r, b, "post_ffw_norm_2.weight", REQUIRED, m->n_embd);
}

static void read_gemma4_layer(struct reading *r, uint32_t il, uint32_t n_own)
{
    struct model *m = r->m;
    struct model_layer *l = &m->layers[il];
    int b = (int)il;
    read_gemma4_attention(r, il, n_own);
    read_sandwich_norms(r, il);
    read_dense_ffn(r, il);
    if (has_tensor(r, b, "ffn_gate_inp.weight"))
        read_gemma4_experts(r, il);
    if (m->n_embd_ple)
        read_layer_ple(r, il);
    l->out_scale = read_vec(r, b, "layer_output_scale.weight", OPTIONAL, 1);
}

/* gemma4 has no default period: its files carry a flag for each block. */
static void check_pattern(struct reading *r)
{
    const struct gguf_kv *kv = gguf_find(r->g, "gemma4.attention.sliding_window_pattern");
    if (!kv || kv->type != GGUF_ARR)
        read_fail(r, -EINVAL,
                  "key 'gemma4.attention.sliding_window_pattern': expected an array of %u bools, found %s "
                  "(convert the model again)",
                  r->n_blocks, kv ? gguf_type_name(kv->type) : "nothing");
}

void read_gemma4(struct reading *r)
{
    struct model *m = r->m;
    read_gemma_globals(r, 30);
    check_pattern(r);
    read_windows(r, key_u32(r, "attention.sliding_window", KEY_REQUIRED, 1, INT32_MAX), 0);
    uint32_t n_own = m->n_layer - key_u32(r, "attention.shared_kv_layers", 0, 0, m->n_layer - 1);
    read_expert_counts(r, OPTIONAL);
    read_ple(r);
    for (uint32_t il = 0; il < m->n_layer && !r->rc; il++)
        read_gemma4_layer(r, il, n_own);
}
