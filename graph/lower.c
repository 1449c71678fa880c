/* The planned graph written down as commands: arguments, the buffer behind each address, waits and costs. */
#include "graph/ir.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "graph/fields.h"

/* Bytes that a use covers, for the hazards. */
struct span {
    gpu_va lo, hi; /* hi is one behind */
};

struct lower {
    struct graph *g;
    const struct gplan *p;
    struct stream s;     /* under construction; arrays sized for the worst case */
    struct span *spans;  /* one per use */
    struct cmd *c;       /* the command being written */
};

/* Of a command, at most: ka_matmul has 21 addresses and is the largest struct. */
enum { MAX_USES = 24, MAX_ARGS = sizeof(ka_matmul) };
#define X(cmd, args, list, what) _Static_assert(sizeof(args) <= MAX_ARGS && sizeof(args) / 8 < 32, #args);
CMD_LIST(X)
#undef X

/* ---- addresses ---- */

/* Bytes [off, off + len) of a buffer; buf UINT32_MAX: nothing, address 0. */
struct place {
    uint32_t buf;
    uint64_t off, len;
};
static const struct place nothing = {UINT32_MAX, 0, 0};

/* Address of a place, recorded as a use of the argument at field_off. */
static gpu_va addr(struct lower *l, size_t field_off, struct place at)
{
    if (at.buf == UINT32_MAX)
        return 0;
    const struct stream_buf *b = &l->p->bufs[at.buf];
    const struct field *f = cmd_find_address(l->c->op, (uint32_t)field_off);
    CHECK(f && at.off <= b->bytes && at.len <= b->bytes - at.off);
    gpu_va a = SADDR(b->arena, b->off + at.off);
    l->spans[l->s.h.n_uses] = (struct span){a, a + at.len};
    l->s.uses[l->s.h.n_uses++] = (struct stream_use){
        .buf = at.buf, .field_off = (uint16_t)field_off, .dir = field_dir(f), .off = at.off};
    l->c->n_uses++;
    return a;
}
#define PUT(l, a, field, place) ((a).field = addr(l, offsetof(__typeof__(a), field), place))

static uint32_t row_cap(const struct lower *l, enum ka_rows rows)
{
    return rows == ROWS_OUT ? l->s.h.out_cap : l->s.h.row_cap;
}

static uint32_t ld_of(const struct lower *l, gref v)
{
    const struct gvalue *val = &l->g->vals[v];
    return val->base ? l->g->vals[val->base].n : val->n;
}

static struct place value(const struct lower *l, gref v)
{
    if (!v)
        return nothing;
    const struct gvalue *val = &l->g->vals[v], *base = val->base ? &l->g->vals[val->base] : val;
    uint64_t len = ((uint64_t)(row_cap(l, val->rows) - 1) * base->n + val->n) * 4;
    return (struct place){base->buf, val->off * 4ull, len};
}

static struct place weight_rows(const struct lower *l, const struct gguf_tensor *t, uint64_t off)
{
    if (!t)
        return nothing;
    uint32_t i = graph_weight_index(l->g, t);
    CHECK(i != UINT32_MAX);
    return (struct place){l->p->buf_weight0 + i, off, l->p->weights[i].bytes - off};
}

static struct place weight(const struct lower *l, const struct gguf_tensor *t)
{
    return weight_rows(l, t, 0);
}

static struct place buffer(const struct lower *l, uint32_t buf)
{
    return buf == UINT32_MAX ? nothing : (struct place){buf, 0, l->p->bufs[buf].bytes};
}

static struct place norm_weight(const struct lower *l, const struct gop *op)
{
    switch (op->norm_as) {
    case GNORM_ROUTER: return buffer(l, l->p->layers[op->layer].router_norm);
    case GNORM_PLE: return buffer(l, l->p->ple_norm);
    default: return weight(l, op->norm);
    }
}

/* The step block; what ARGMAX writes there is read by EMBED only. */
static struct place step_block(const struct lower *l)
{
    return (struct place){l->p->buf_step, 0, step_next_off(l->s.h.row_cap, l->s.h.out_cap)};
}

/* The step block that STEP_OUT makes. */
static struct place sub_step(const struct lower *l)
{
    uint64_t off = step_sub_off(l->s.h.row_cap, l->s.h.out_cap);
    return (struct place){l->p->buf_step, off, step_bytes(l->s.h.row_cap, l->s.h.out_cap) - off};
}

static struct place step_of(const struct lower *l, enum ka_rows rows)
{
    return rows == ROWS_OUT ? sub_step(l) : step_block(l);
}

/* The output rows' numbers. */
static struct place out_rows(const struct lower *l)
{
    return (struct place){l->p->buf_step, step_out_row_off(l->s.h.row_cap), 4ull * l->s.h.out_cap};
}

/* ---- one function per command: arguments and cost ---- */

/* Bytes of n f32. */
static uint64_t f32s(uint64_t n)
{
    return n * 4;
}

static uint64_t matrix_bytes(const struct gguf_tensor *t, uint64_t rows)
{
    return qtype_row_bytes(t->type, t->ne[0]) * rows;
}

static void cost(struct lower *l, uint64_t bytes, uint64_t flops, bool per_row)
{
    l->c->bytes = bytes;
    l->c->flops = flops;
    l->c->flags = per_row ? CMD_BYTES_PER_ROW : 0;
}

/* Fused norms cost what NORM does. */
static uint64_t norm_flops(const struct gop *op, uint64_t n)
{
    return op->norm ? 4 * n : 0;
}

static uint64_t scale_flops(const struct gop *op, uint64_t n)
{
    return op->out_scale || op->half_power ? n : 0;
}

static struct place out_scale(const struct lower *l, const struct gop *op)
{
    return op->half_power ? buffer(l, l->p->half_power) : weight(l, op->out_scale);
}

static void *begin(struct lower *l, const struct gop *op, enum cmd_op code)
{
    l->c = &l->s.cmds[l->s.h.n_cmds++];
    *l->c = (struct cmd){.op = (uint16_t)code, .args_off = l->s.h.args_bytes, .args_bytes = cmd_args_bytes(code),
                         .wait = CMD_NO_WAIT, .layer = op->layer, .first_use = l->s.h.n_uses};
    l->s.h.args_bytes += cmd_args_bytes(code);
    return l->s.args + l->c->args_off;
}

static void emit_embed(struct lower *l, const struct gop *op)
{
    ka_embed *a = begin(l, op, CMD_EMBED);
    const struct gguf_tensor *w = op->mat[0].w;
    PUT(l, *a, step, ((struct place){l->p->buf_step, 0, step_sub_off(l->s.h.row_cap, l->s.h.out_cap)}));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, w, weight(l, w));
    a->type = w->type;
    a->n = (uint32_t)w->ne[0];
    a->n_vocab = (uint32_t)w->ne[1];
    a->scale = op->scale;
    cost(l, matrix_bytes(w, 1), op->scale != 1.0f ? a->n : 0, true);
}

static void emit_norm(struct lower *l, const struct gop *op)
{
    ka_norm *a = begin(l, op, CMD_NORM);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, w, norm_weight(l, op));
    PUT(l, *a, resid, value(l, op->in[IN_RESID]));
    PUT(l, *a, out_scale, out_scale(l, op));
    a->n = x->n;
    a->group = op->norm_as == GNORM_PLE ? l->g->m->n_embd_ple : x->n;
    a->rows = x->rows;
    a->eps = op->eps > 0 ? op->eps : l->g->m->norm_eps;
    cost(l, f32s(x->n), norm_flops(op, x->n) + (op->in[IN_RESID] ? x->n : 0) + scale_flops(op, x->n), false);
}

static void emit_add(struct lower *l, const struct gop *op)
{
    ka_add *a = begin(l, op, CMD_ADD);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, a, value(l, op->in[IN_X]));
    PUT(l, *a, b, value(l, op->in[IN_A]));
    PUT(l, *a, out_scale, out_scale(l, op));
    a->n = x->n;
    a->rows = x->rows;
    cost(l, 0, x->n + scale_flops(op, x->n), false);
}

static enum ka_act act_of(const struct model *m)
{
    switch (m->act) {
    case ACT_GELU_TANH: return KA_GELU_TANH;
    case ACT_SWIGLU_OAI: return KA_SWIGLU_OAI;
    default: return KA_SILU;
    }
}

static void emit_act_mul(struct lower *l, const struct gop *op)
{
    ka_act_mul *a = begin(l, op, CMD_ACT_MUL);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, a, value(l, op->in[IN_A]));
    a->n = x->n;
    a->lda = ld_of(l, op->in[IN_A]);
    a->rows = x->rows;
    a->act = act_of(l->g->m);
    a->sparse = op->sparse;
    a->cut = op->cut;
    cost(l, 0, (op->sparse ? 12ull : 6ull) * x->n, false);
}

static void emit_match(struct lower *l, const struct gop *op)
{
    ka_match *a = begin(l, op, CMD_MATCH);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, like, value(l, op->in[IN_A]));
    PUT(l, *a, resid, value(l, op->in[IN_RESID]));
    a->n = x->n;
    a->group = l->g->vals[op->in[IN_A]].n;
    a->rows = x->rows;
    a->scale = op->scale;
    cost(l, 0, 4ull * x->n + 2ull * a->group + (op->in[IN_RESID] ? x->n : 0), false);
}

static void emit_altup(struct lower *l, const struct gop *op)
{
    ka_altup *a = begin(l, op, CMD_ALTUP);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    bool predict = op->form == KA_ALTUP_PREDICT;
    uint64_t n_c = predict ? KA_STREAMS * KA_STREAMS : KA_STREAMS, streams = op->form == KA_ALTUP_FIRST ? 1 : KA_STREAMS;
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y0, value(l, op->out[OUT_Y]));
    PUT(l, *a, y, value(l, op->out[OUT_REST]));
    PUT(l, *a, x0, value(l, op->in[IN_X]));
    PUT(l, *a, x, value(l, op->in[IN_A]));
    PUT(l, *a, m, value(l, op->in[IN_B]));
    PUT(l, *a, w, weight(l, predict ? op->ml->altup_predict : op->ml->altup_correct));
    PUT(l, *a, a, value(l, op->in[IN_C]));
    PUT(l, *a, scale, weight(l, op->form == KA_ALTUP_FIRST ? op->ml->altup_scale : NULL));
    PUT(l, *a, add, value(l, op->in[IN_D]));
    a->n = x->n;
    a->form = op->form;
    a->rows = x->rows;
    a->m_scale = 1.0f / (float)l->g->m->n_embd; /* m is as large as the router's soft cap */
    cost(l, f32s(n_c * KA_STREAMS + (op->form == KA_ALTUP_FIRST ? x->n : 0)),
         (predict ? 2 * n_c : 3 * streams + 1) * x->n + 2 * n_c * KA_STREAMS, false);
}

static void emit_matmul(struct lower *l, const struct gop *op)
{
    bool gate_up = op->kind == G_GATE_UP;
    ka_matmul *a = begin(l, op, gate_up ? CMD_GATE_UP : op->n_mats > 1 ? CMD_PROJ : CMD_MATMUL);
    const struct gvalue *x = &l->g->vals[op->in[IN_X]];
    uint64_t bytes = op->norm ? f32s(x->n) : 0, flops = norm_flops(op, x->n);

    PUT(l, *a, step, step_block(l));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, norm, norm_weight(l, op));
    PUT(l, *a, resid, value(l, op->in[IN_RESID]));
    PUT(l, *a, scale, value(l, op->in[IN_SCALE]));
    for (uint32_t i = 0; i < op->n_mats; i++)
        PUT(l, *a, y[i], value(l, op->out[i]));
    for (uint32_t i = 0; i < op->n_mats; i++)
        PUT(l, *a, w[i], weight_rows(l, op->mat[i].w, matrix_bytes(op->mat[i].w, op->off)));
    for (uint32_t i = 0; i < op->n_mats; i++)
        PUT(l, *a, wscale[i], weight(l, op->mat[i].scale));
    for (uint32_t i = 0; i < op->n_mats; i++) {
        const struct gguf_tensor *w = op->mat[i].w;
        uint64_t n_out = op->n_out ? op->n_out : w->ne[1];
        PUT(l, *a, b[i], weight(l, op->mat[i].b));
        a->n_out[i] = (uint32_t)n_out;
        a->type[i] = w->type;
        a->ld[i] = op->out[i] ? ld_of(l, op->out[i]) : 0;
        bytes += matrix_bytes(w, n_out) + (op->mat[i].b ? f32s(n_out) : 0);
        flops += (2 * w->ne[0] + (op->mat[i].scale != NULL) + (op->mat[i].b != NULL)) * n_out;
    }
    if (gate_up)
        flops += 6ull * a->n_out[0];
    flops += (op->in[IN_RESID] ? a->n_out[0] : 0) + (op->in[IN_SCALE] ? a->n_out[0] : 0) +
             (op->softcap > 0 ? 4ull * a->n_out[0] : 0);
    a->n_mats = op->n_mats;
    a->n_in = x->n;
    a->ldx = ld_of(l, op->in[IN_X]);
    a->ldr = op->in[IN_RESID] ? ld_of(l, op->in[IN_RESID]) : 0;
    a->rows = x->rows;
    a->act = gate_up ? act_of(l->g->m) : 0;
    a->eps = op->norm ? l->g->m->norm_eps : 0;
    a->softcap = op->softcap;
    cost(l, bytes, flops, false);
}

static void emit_rope_kv(struct lower *l, const struct gop *op)
{
    ka_rope_kv *a = begin(l, op, CMD_ROPE_KV);
    const struct model_layer *ml = op->ml;
    const struct glayer_plan *lp = &l->p->layers[op->layer];
    bool own = op->in[IN_A] != 0; /* else the layer reads another's cache, and has no k, v of its own */
    a->rows = l->g->vals[op->in[IN_X]].rows;
    PUT(l, *a, step, step_of(l, a->rows));
    PUT(l, *a, q, value(l, op->in[IN_X]));
    PUT(l, *a, k, value(l, op->in[IN_A]));
    PUT(l, *a, v, value(l, op->in[IN_B]));
    PUT(l, *a, kc, buffer(l, lp->k));
    PUT(l, *a, vc, buffer(l, lp->v));
    PUT(l, *a, q_norm, weight(l, ml->q_norm));
    PUT(l, *a, k_norm, weight(l, own ? ml->k_norm : NULL));
    PUT(l, *a, inv_freq, buffer(l, lp->inv_freq));
    PUT(l, *a, q_scale, buffer(l, l->p->q_scale));
    a->slot_bytes = own ? kv_slot_bytes(l->g, ml) : 0;
    a->ldq = ld_of(l, op->in[IN_X]);
    a->ldk = own ? ld_of(l, op->in[IN_A]) : 0;
    a->ldv = own ? ld_of(l, op->in[IN_B]) : 0;
    a->q_hs = ml->head_dim * (ml->q_gate ? 2 : 1);
    a->n_head = ml->n_head;
    a->n_kv = ml->n_head_kv;
    a->head_dim = ml->head_dim;
    a->n_rot = ml->rope.n_rot;
    a->rope = ml->rope.kind == ROPE_NEOX ? KA_ROPE_NEOX : KA_ROPE_NORM;
    a->n_ctx = l->s.h.n_ctx;
    a->n_slots = l->s.h.n_slots;
    a->kv_type = kv_type_of(l->g, ml);
    a->v_norm = ml->v_norm;
    a->q_every = l->p->q_scale != UINT32_MAX ? l->g->m->attn_temp_every : 0;
    a->mscale = ml->rope.mscale;
    a->eps = l->g->m->norm_eps;
    uint64_t n_kv = own ? ml->n_head_kv : 0, kv_dim = n_kv * ml->head_dim, heads = ml->n_head + n_kv;
    cost(l, 2 * KA_KV_BYTES(a->kv_type, kv_dim), heads * (ml->rope.n_rot * 3ull + (ml->q_norm ? 4ull * ml->head_dim : 0)) +
         (ml->v_norm ? 4 * kv_dim : 0) + (a->q_scale ? (uint64_t)ml->n_head * ml->head_dim : 0), true);
}

static void emit_attn(struct lower *l, const struct gop *op)
{
    ka_attn *a = begin(l, op, CMD_ATTN);
    const struct model_layer *ml = op->ml;
    const struct glayer_plan *lp = &l->p->layers[ml->kv_from];
    a->rows = l->g->vals[op->out[OUT_Y]].rows;
    PUT(l, *a, step, step_of(l, a->rows));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, q, value(l, op->in[IN_X]));
    PUT(l, *a, gate, value(l, op->in[IN_A]));
    PUT(l, *a, kc, buffer(l, lp->k));
    PUT(l, *a, vc, buffer(l, lp->v));
    PUT(l, *a, sinks, weight(l, ml->sinks));
    a->slot_bytes = kv_slot_bytes(l->g, ml);
    a->ldq = ld_of(l, op->in[IN_X]);
    a->q_hs = ml->head_dim * (ml->q_gate ? 2 : 1);
    a->n_head = ml->n_head;
    a->n_kv = ml->n_head_kv;
    a->head_dim = ml->head_dim;
    a->n_ctx = l->s.h.n_ctx;
    a->n_slots = l->s.h.n_slots;
    a->kv_type = kv_type_of(l->g, ml);
    a->window = ml->window;
    a->scale = ml->attn_scale;
    l->c->kv_bytes = (uint32_t)(2 * KA_KV_BYTES(a->kv_type, (uint64_t)ml->n_head_kv * ml->head_dim));
    l->c->kv_flops = 4 * ml->n_head * ml->head_dim;
    cost(l, 0, op->in[IN_A] ? 4ull * ml->n_head * ml->head_dim : 0, false);
}

static void emit_gdn(struct lower *l, const struct gop *op)
{
    ka_gdn *a = begin(l, op, CMD_GDN);
    const struct model *m = l->g->m;
    const struct model_layer *ml = op->ml;
    const struct glayer_plan *lp = &l->p->layers[op->layer];
    uint64_t conv_dim = gdn_conv_dim(m), state = (uint64_t)m->gdn_n_v * m->gdn_head_dim * m->gdn_head_dim;
    bool grouped = l->g->vals[op->in[IN_B]].base != 0; /* alpha and beta in one value, by k-head */
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, qkv, value(l, op->in[IN_X]));
    PUT(l, *a, z, value(l, op->in[IN_A]));
    PUT(l, *a, alpha, value(l, op->in[IN_B]));
    PUT(l, *a, beta, value(l, op->in[IN_C]));
    PUT(l, *a, c, value(l, op->out[OUT_C]));
    PUT(l, *a, conv, buffer(l, lp->conv));
    PUT(l, *a, state, buffer(l, lp->state));
    PUT(l, *a, conv_w, weight(l, ml->gdn_conv));
    PUT(l, *a, dt, weight(l, ml->gdn_dt));
    PUT(l, *a, a, weight(l, ml->gdn_a));
    PUT(l, *a, norm, weight(l, ml->gdn_norm));
    a->conv_slot_bytes = conv_slot_bytes(m);
    a->state_slot_bytes = state_slot_bytes(m);
    a->n_k = m->gdn_n_k;
    a->n_v = m->gdn_n_v;
    a->head_dim = m->gdn_head_dim;
    a->conv_kernel = m->gdn_conv_kernel;
    a->ab_ld = ld_of(l, op->in[IN_B]);
    a->ab_group = grouped ? m->gdn_n_v / m->gdn_n_k : 0;
    a->heads = m->gdn_grouped_heads ? KA_GDN_GROUPED : KA_GDN_MODULO;
    a->n_slots = l->s.h.n_slots;
    a->eps = m->norm_eps;
    cost(l, f32s(2 * state + (m->gdn_conv_kernel + 1) * conv_dim),
         7 * state + 2 * m->gdn_conv_kernel * conv_dim + 10ull * m->gdn_n_v * m->gdn_head_dim, true);
}

/* Down's numbers multiply the products ahead of a bias; without one they are part of the router's weights. */
static const struct gguf_tensor *down_numbers(const struct model_layer *ml, bool router)
{
    return router == !ml->exp_down_b ? ml->exp_down_scale : NULL;
}

static void emit_router(struct lower *l, const struct gop *op)
{
    ka_router *a = begin(l, op, CMD_ROUTER);
    const struct model *m = l->g->m;
    const struct gguf_tensor *w = op->mat[0].w, *shared = op->mat[1].w;
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, ids, value(l, op->out[OUT_IDS]));
    PUT(l, *a, weights, value(l, op->out[OUT_WEIGHTS]));
    PUT(l, *a, share, value(l, op->out[OUT_SHARE]));
    PUT(l, *a, logits, value(l, op->out[OUT_LOGITS]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, norm, norm_weight(l, op));
    PUT(l, *a, w, weight(l, w));
    PUT(l, *a, b, weight(l, op->mat[0].b));
    PUT(l, *a, shared_w, weight(l, shared));
    PUT(l, *a, expert_scale, weight(l, down_numbers(op->ml, true)));
    a->type = w->type;
    a->n_in = (uint32_t)w->ne[0];
    a->n_expert = m->n_expert;
    a->k = op->ml->n_expert_used;
    a->gating = m->gating == GATING_TOPK_SOFTMAX ? KA_TOPK_SOFTMAX : KA_SOFTMAX_TOPK;
    a->scale = m->expert_scale;
    a->eps = op->norm ? m->norm_eps : 0;
    cost(l, matrix_bytes(w, w->ne[1]) + f32s((op->norm ? a->n_in : 0) + (shared ? a->n_in : 0)),
         2ull * a->n_in * (m->n_expert + (shared ? 1 : 0)) + norm_flops(op, a->n_in) + 8ull * m->n_expert, false);
}

static void emit_moe_up(struct lower *l, const struct gop *op)
{
    ka_moe_up *a = begin(l, op, CMD_MOE_UP);
    const struct model_layer *ml = op->ml;
    const struct gguf_tensor *gate = ml->exp_gate_up ? ml->exp_gate_up : ml->exp_gate;
    const struct gguf_tensor *up = ml->exp_gate_up ? ml->exp_gate_up : ml->exp_up;
    uint64_t half = matrix_bytes(gate, ml->n_ff_exp);
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, ids, value(l, op->in[IN_A]));
    PUT(l, *a, norm, norm_weight(l, op));
    PUT(l, *a, gate, weight(l, gate));
    PUT(l, *a, up, weight_rows(l, up, ml->exp_gate_up ? half : 0));
    PUT(l, *a, sg, weight(l, ml->exp_gate_scale));
    PUT(l, *a, su, weight(l, ml->exp_up_scale));
    PUT(l, *a, bg, weight(l, ml->exp_gate_b));
    PUT(l, *a, bu, weight(l, ml->exp_up_b));
    a->gate_stride = matrix_bytes(gate, gate->ne[1]);
    a->up_stride = matrix_bytes(up, up->ne[1]);
    a->type_gate = gate->type;
    a->type_up = up->type;
    a->n_in = (uint32_t)gate->ne[0];
    a->n_ff = ml->n_ff_exp;
    a->n_expert = l->g->m->n_expert;
    a->k = ml->n_expert_used;
    a->act = act_of(l->g->m);
    a->eps = op->norm ? l->g->m->norm_eps : 0;
    cost(l, a->k * (half + matrix_bytes(up, ml->n_ff_exp)), a->k * (4ull * a->n_in + 6) * a->n_ff +
         norm_flops(op, a->n_in), true);
}

static void emit_moe_down(struct lower *l, const struct gop *op)
{
    ka_moe_down *a = begin(l, op, CMD_MOE_DOWN);
    const struct gguf_tensor *w = op->ml->exp_down;
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, ids, value(l, op->in[IN_A]));
    PUT(l, *a, weights, value(l, op->in[IN_B]));
    PUT(l, *a, resid, value(l, op->in[IN_RESID]));
    PUT(l, *a, down, weight(l, w));
    PUT(l, *a, sd, weight(l, down_numbers(op->ml, false)));
    PUT(l, *a, b, weight(l, op->ml->exp_down_b));
    a->stride = matrix_bytes(w, w->ne[1]);
    a->type = w->type;
    a->n_in = (uint32_t)w->ne[0];
    a->n_out = (uint32_t)w->ne[1];
    a->n_expert = l->g->m->n_expert;
    a->k = op->ml->n_expert_used;
    cost(l, a->k * a->stride, a->k * (2ull * a->n_in + 2) * a->n_out + (op->in[IN_RESID] ? a->n_out : 0), true);
}

static void emit_gather(struct lower *l, const struct gop *op)
{
    ka_gather *a = begin(l, op, CMD_GATHER);
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, value(l, op->out[OUT_Y]));
    PUT(l, *a, x, value(l, op->in[IN_X]));
    PUT(l, *a, out_row, out_rows(l));
    a->n = l->g->vals[op->in[IN_X]].n;
    cost(l, 0, 0, false);
}

static void emit_step_out(struct lower *l, const struct gop *op)
{
    ka_step_out *a = begin(l, op, CMD_STEP_OUT);
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, y, sub_step(l));
    PUT(l, *a, out_row, out_rows(l));
    cost(l, 0, 0, false);
}

static void emit_argmax(struct lower *l, const struct gop *op)
{
    ka_argmax *a = begin(l, op, CMD_ARGMAX);
    uint64_t next = step_next_off(l->s.h.row_cap, l->s.h.out_cap);
    uint64_t sample = step_sample_off(l->s.h.row_cap, l->s.h.out_cap);
    PUT(l, *a, step, step_block(l));
    PUT(l, *a, next, ((struct place){l->p->buf_step, next, 4ull * l->s.h.out_cap}));
    PUT(l, *a, logits, value(l, op->in[IN_X]));
    PUT(l, *a, sample, ((struct place){l->p->buf_step, sample, (uint64_t)l->s.h.out_cap * sizeof(ka_sample)}));
    a->n = l->g->vals[op->in[IN_X]].n;
    cost(l, 0, a->n, false);
}

static void emit(struct lower *l, const struct gop *op)
{
    switch (op->kind) {
    case G_EMBED: emit_embed(l, op); break;
    case G_NORM: emit_norm(l, op); break;
    case G_ADD: emit_add(l, op); break;
    case G_MATMUL:
    case G_GATE_UP: emit_matmul(l, op); break;
    case G_ROPE_KV: emit_rope_kv(l, op); break;
    case G_ATTN: emit_attn(l, op); break;
    case G_GDN: emit_gdn(l, op); break;
    case G_ROUTER: emit_router(l, op); break;
    case G_MOE_UP: emit_moe_up(l, op); break;
    case G_MOE_DOWN: emit_moe_down(l, op); break;
    case G_GATHER: emit_gather(l, op); break;
    case G_STEP_OUT: emit_step_out(l, op); break;
    case G_ARGMAX: emit_argmax(l, op); break;
    case G_ACT_MUL: emit_act_mul(l, op); break;
    case G_MATCH: emit_match(l, op); break;
    case G_ALTUP: emit_altup(l, op); break;
    case G_ROW_GATE:
    case G_ROW_SCALE:
    case G_SOFTCAP: CHECK(!"always fused"); break;
    case G_RESIDUAL_IN:
    case G_VECTORS_OUT:
    case G_RESIDUAL_OUT: break;
    }
}

/* ---- waits ---- */

static bool conflicts(const struct lower *l, const struct cmd *a, const struct cmd *b)
{
    for (uint32_t i = a->first_use; i < a->first_use + a->n_uses; i++)
        for (uint32_t j = b->first_use; j < b->first_use + b->n_uses; j++)
            if ((l->s.uses[i].dir | l->s.uses[j].dir) & USE_WRITE && l->spans[i].lo < l->spans[j].hi &&
                l->spans[j].lo < l->spans[i].hi)
                return true;
    return false;
}

/* The newest earlier command that shares bytes with this one, either of them writing. */
static void set_waits(struct lower *l)
{
    for (uint32_t i = 0; i < l->s.h.n_cmds; i++)
        for (uint32_t j = i; j-- > 0 && l->s.cmds[i].wait == CMD_NO_WAIT;)
            if (conflicts(l, &l->s.cmds[i], &l->s.cmds[j]))
                l->s.cmds[i].wait = j;
}

/* ---- the step block's patches ---- */

static uint32_t step_patches(struct patch *p, uint32_t rows, uint32_t outs)
{
    const uint32_t sample = (uint32_t)step_sample_off(rows, outs);
    const struct patch all[] = {
        {offsetof(ka_step, n_rows), SYM_N_ROWS, 4, 4, 1},
        {offsetof(ka_step, n_out), SYM_N_OUT, 4, 4, 1},
        {offsetof(ka_step, kv_len), SYM_KV_LEN, 4, 4, 1},
        {sizeof(ka_step) + offsetof(ka_row, token), SYM_TOKEN, 4, sizeof(ka_row), rows},
        {sizeof(ka_step) + offsetof(ka_row, pos), SYM_POS, 4, sizeof(ka_row), rows},
        {sizeof(ka_step) + offsetof(ka_row, slot), SYM_SLOT, 4, sizeof(ka_row), rows},
        {(uint32_t)step_out_row_off(rows), SYM_OUT_ROW, 4, 4, outs},
        {sample + offsetof(ka_sample, temp), SYM_TEMP, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, top_k), SYM_TOP_K, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, top_p), SYM_TOP_P, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, min_p), SYM_MIN_P, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, seed), SYM_SEED, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, counter), SYM_COUNTER, 4, sizeof(ka_sample), outs},
        {sample + offsetof(ka_sample, quiet), SYM_QUIET, 4, sizeof(ka_sample), outs},
    };
    memcpy(p, all, sizeof all);
    return ARRAY_LEN(all);
}

/* The type that a cache of the stream has; f16 where all of them are at the model's ends. */
static enum ka_kv kv_type_of_all(const struct graph *g)
{
    const struct graph_opts *o = g->o;
    bool any = false;
    for (uint32_t il = o->first_layer; il < o->end_layer; il++) {
        const struct model_layer *l = &g->m->layers[il];
        any = any || l->kind == LAYER_ATTN;
        if (l->kind == LAYER_ATTN && kv_type_of(g, l) == o->kv_type)
            return o->kv_type;
    }
    return any ? KA_KV_F16 : o->kv_type;
}

static void fill_head(struct lower *l)
{
    struct stream_head *h = &l->s.h;
    const struct model *m = l->g->m;
    const struct graph_opts *o = l->g->o;
    memcpy(h->magic, STREAM_MAGIC, sizeof h->magic);
    h->row_cap = o->row_cap;
    h->out_cap = o->out_cap;
    h->n_ctx = o->n_ctx;
    h->n_slots = o->n_slots;
    h->n_vocab = m->n_vocab;
    h->n_embd = m->n_embd;
    h->n_layer = m->n_layer;
    h->kv_type = kv_type_of_all(l->g);
    h->family = m->family;
    h->layers_before = (uint16_t)o->first_layer;
    h->layers_behind = (uint16_t)(m->n_layer - o->end_layer);
    h->n_bufs = l->p->n_bufs;
    h->n_weights = l->g->n_weights;
    h->const_bytes = l->p->const_bytes;
    h->str_bytes = l->p->str_bytes;
    memcpy(h->arena_bytes, l->p->arena_bytes, sizeof h->arena_bytes);
    h->logits_off = l->p->buf_logits != UINT32_MAX ? l->p->bufs[l->p->buf_logits].off : 0;
    h->next_off = step_next_off(o->row_cap, o->out_cap);
    h->weights_hash = stream_weights_hash(l->p->weights, h->n_weights, l->p->strs);
}

void graph_lower(struct graph *g, const struct gplan *p, struct stream **out)
{
    struct patch patches[SYM_COUNT];
    struct lower l = {.g = g, .p = p};
    if (g->rc)
        return;
    g->layer = CMD_NO_LAYER;
    l.s.cmds = calloc(g->n_ops + 1, sizeof *l.s.cmds);
    l.s.args = calloc(g->n_ops + 1, MAX_ARGS);
    l.s.uses = calloc(g->n_ops + 1, MAX_USES * sizeof *l.s.uses);
    l.spans = calloc(g->n_ops + 1, MAX_USES * sizeof *l.spans);
    if (!l.s.cmds || !l.s.args || !l.s.uses || !l.spans) {
        graph_fail(g, -ENOMEM, "%u commands", g->n_ops);
    } else {
        fill_head(&l);
        for (uint32_t i = 0; i < g->n_ops; i++)
            emit(&l, &g->ops[i]);
        set_waits(&l);
        l.s.bufs = p->bufs;
        l.s.weights = p->weights;
        l.s.consts = p->consts;
        l.s.strs = p->strs;
        l.s.patches = patches;
        l.s.h.n_patches = step_patches(patches, l.s.h.row_cap, l.s.h.out_cap);
        *out = stream_pack(&l.s);
        if (!*out)
            graph_fail(g, -ENOMEM, "the stream");
    }
    free(l.s.cmds);
    free(l.s.args);
    free(l.s.uses);
    free(l.spans);
}
