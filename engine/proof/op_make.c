#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/proof/op_cases.h"
#include "graph/ir.h"

enum { ATTN_PAIRS = 256 };

#define HAS(c, f) (((c)->flags & (f)) != 0)

/* A buffer's address where the case has the part, else 0. */
#define OPT(c, f, expr) (HAS(c, f) ? ops_at(o, expr) : 0)

static uint32_t rows_of(const struct op_case *c)
{
    return HAS(c, OF_OUT) ? ROWS_OUT : ROWS_STEP;
}

struct ops *make_embed(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t y = ops_rows(o, "y", OPS_OUT, c->n_in), w = ops_weight(o, "w", c->type, c->n_in, 64, 1);
    ops_set_vocab(o, 64);
    ka_embed a = { .step = ops_step(o), .y = ops_at(o, y), .w = ops_at(o, w), .type = c->type, .n = c->n_in,
                   .n_vocab = 64, .scale = 1.25f };
    ops_cmd(o, CMD_EMBED, &a, sizeof a);
    return o;
}

struct ops *make_norm(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, x = ops_rows(o, "x", OPS_IN, n), y = ops_rows(o, "y", OPS_OUT, n);
    ka_norm a = { .step = ops_step(o), .y = ops_at(o, y), .x = ops_at(o, x), .n = n,
                  .group = c->arg ? c->arg : n, .rows = rows_of(c), .eps = 1e-6f };
    a.w = OPT(c, OF_NORM, ops_vec(o, "w", a.group, 0.5f, 2.0f));
    a.resid = OPT(c, OF_RESID, ops_rows(o, "resid", OPS_IN, n));
    a.out_scale = OPT(c, OF_OUT_SCALE, ops_vec(o, "out_scale", 1, 0.3f, 0.7f));
    ops_cmd(o, CMD_NORM, &a, sizeof a);
    return o;
}

struct ops *make_add(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, x = ops_rows(o, "a", OPS_INOUT, n), b = ops_rows(o, "b", OPS_IN, n);
    ka_add a = { .step = ops_step(o), .y = ops_at(o, x), .a = ops_at(o, x), .b = ops_at(o, b), .n = n,
                 .rows = rows_of(c) };
    a.out_scale = OPT(c, OF_OUT_SCALE, ops_vec(o, "out_scale", 1, 0.3f, 0.7f));
    ops_cmd(o, CMD_ADD, &a, sizeof a);
    return o;
}

static uint32_t act_of(const struct op_case *c)
{
    return HAS(c, OF_GELU) ? KA_GELU_TANH : HAS(c, OF_OAI) ? KA_SWIGLU_OAI : KA_SILU;
}

struct ops *make_act_mul(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, x = ops_rows(o, "x", OPS_INOUT, n), lda = n + c->arg;
    ka_act_mul a = { .step = ops_step(o), .y = ops_at(o, x), .x = ops_at(o, x), .a = ops_at(o, ops_rows(o, "a", OPS_IN, lda)),
                     .n = n, .lda = lda, .rows = rows_of(c), .act = act_of(c) };
    a.a += 4 * c->arg;
    a.sparse = HAS(c, OF_SPARSE);
    a.cut = a.sparse ? 0.7f : 0.0f;
    ops_cmd(o, CMD_ACT_MUL, &a, sizeof a);
    return o;
}

struct ops *make_match(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, group = c->arg ? c->arg : n;
    ka_match a = { .step = ops_step(o), .y = ops_at(o, ops_rows(o, "y", OPS_OUT, n)), .x = ops_at(o, ops_rows(o, "x", OPS_IN, n)),
                   .like = ops_at(o, ops_rows(o, "like", OPS_IN, group)), .n = n, .group = group, .rows = rows_of(c), .scale = 0.25f };
    a.resid = OPT(c, OF_RESID, ops_rows(o, "resid", OPS_IN, n));
    ops_cmd(o, CMD_MATCH, &a, sizeof a);
    return o;
}

/* arg: the form */
struct ops *make_altup(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, rest = (KA_STREAMS - 1) * n;
    bool predict = c->arg == KA_ALTUP_PREDICT, first = c->arg == KA_ALTUP_FIRST;
    ka_altup a = { .step = ops_step(o), .y0 = ops_at(o, ops_rows(o, "y0", OPS_OUT, n)), .x0 = ops_at(o, ops_rows(o, "x0", OPS_IN, n)),
                   .m = ops_at(o, ops_rows(o, "m", OPS_IN, KA_STREAMS)), .n = n, .form = c->arg, .rows = rows_of(c), .m_scale = 0.5f,
                   .w = ops_at(o, ops_vec(o, "w", KA_STREAMS * (predict ? KA_STREAMS * KA_STREAMS : KA_STREAMS), -1.0f, 1.0f)) };
    if (!first) {
        a.y = ops_at(o, ops_rows(o, "y", OPS_OUT, rest));
        a.x = ops_at(o, ops_rows(o, "x", OPS_IN, rest));
    }
    if (!predict)
        a.a = ops_at(o, ops_rows(o, "a", OPS_IN, n));
    if (first)
        a.scale = ops_at(o, ops_vec(o, "scale", n, 0.5f, 2.0f));
    if (!predict && !first)
        a.add = ops_at(o, ops_rows(o, "add", OPS_IN, n));
    ops_cmd(o, CMD_ALTUP, &a, sizeof a);
    return o;
}

static ka_matmul matmul_args(struct ops *o, const struct op_case *c)
{
    uint32_t x = ops_rows(o, "x", OPS_IN, c->n_in);
    ka_matmul a = { .step = ops_step(o), .x = ops_at(o, x), .n_in = c->n_in, .ldx = c->n_in, .rows = rows_of(c),
                    .eps = 1e-6f };
    a.norm = OPT(c, OF_NORM, ops_vec(o, "norm", c->n_in, 0.5f, 2.0f));
    return a;
}

static void add_matrix(struct ops *o, const struct op_case *c, ka_matmul *a, enum qtype type, uint32_t n_out, bool y)
{
    static const char *const w[] = { "w0", "w1", "w2", "w3" }, *const b[] = { "b0", "b1", "b2", "b3" },
                      *const ys[] = { "y0", "y1", "y2", "y3" }, *const s[] = { "s0", "s1", "s2", "s3" };
    uint32_t m = a->n_mats++;
    a->w[m] = ops_at(o, ops_weight(o, w[m], type, c->n_in, n_out, 1));
    a->wscale[m] = OPT(c, OF_NUMBER, ops_vec(o, s[m], 1, 0.3f, 3.0f));
    a->b[m] = OPT(c, OF_BIAS, ops_vec(o, b[m], n_out, -1.0f, 1.0f));
    a->type[m] = type;
    a->n_out[m] = n_out;
    if (y) {
        a->y[m] = ops_at(o, ops_rows(o, ys[m], OPS_OUT, n_out));
        a->ld[m] = n_out;
    }
}

struct ops *make_matmul(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_matmul a = matmul_args(o, c);
    add_matrix(o, c, &a, c->type, c->n_out, true);
    if (HAS(c, OF_RESID)) {
        a.resid = ops_at(o, ops_rows(o, "resid", OPS_IN, c->n_out));
        a.ldr = c->n_out;
    }
    a.scale = OPT(c, OF_SCALE, ops_rows(o, "scale", OPS_IN, 1));
    a.softcap = HAS(c, OF_SOFTCAP) ? 1.5f : 0.0f;
    ops_cmd(o, CMD_MATMUL, &a, sizeof a);
    return o;
}

/* Three matrices: the case's type and rows, one of a quarter of the rows, and a small F32 one. */
struct ops *make_proj(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_matmul a = matmul_args(o, c);
    add_matrix(o, c, &a, c->type, c->n_out, true);
    if (HAS(c, OF_WITH_Q6K)) {
        add_matrix(o, c, &a, QT_Q6_K, (c->n_out + 3) / 4, true);
    } else {
        add_matrix(o, c, &a, QT_Q8_0, (c->n_out + 3) / 4, true);
        add_matrix(o, c, &a, QT_F32, 5, true);
    }
    ops_cmd(o, CMD_PROJ, &a, sizeof a);
    return o;
}

/* A product, with OF_WITH_Q6K two, whose input another command makes: a norm, with OF_GELU an activation. */
struct ops *make_made(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t n = c->n_in, x = ops_rows(o, "made", OPS_OUT, n), from = ops_rows(o, "from", OPS_IN, n);
    if (HAS(c, OF_GELU)) {
        ka_act_mul m = { .step = ops_step(o), .y = ops_at(o, x), .x = ops_at(o, from), .a = ops_at(o, ops_rows(o, "a", OPS_IN, n)),
                         .n = n, .lda = n, .rows = rows_of(c), .act = act_of(c) };
        ops_cmd(o, CMD_ACT_MUL, &m, sizeof m);
    } else {
        ka_norm m = { .step = ops_step(o), .y = ops_at(o, x), .x = ops_at(o, from), .n = n, .group = n, .rows = rows_of(c),
                      .eps = 1e-5f, .w = ops_at(o, ops_vec(o, "made_w", n, 0.5f, 2.0f)) };
        m.resid = OPT(c, OF_RESID, ops_rows(o, "made_resid", OPS_IN, n));
        m.out_scale = OPT(c, OF_OUT_SCALE, ops_vec(o, "made_scale", 1, 0.3f, 0.7f));
        ops_cmd(o, CMD_NORM, &m, sizeof m);
    }
    ka_matmul a = { .step = ops_step(o), .x = ops_at(o, x), .n_in = n, .ldx = n, .rows = rows_of(c), .eps = 1e-6f };
    a.norm = OPT(c, OF_NORM, ops_vec(o, "norm", n, 0.5f, 2.0f));
    add_matrix(o, c, &a, c->type, c->n_out, true);
    if (HAS(c, OF_WITH_Q6K))
        add_matrix(o, c, &a, QT_Q6_K, (c->n_out + 3) / 4, true);
    ops_cmd(o, HAS(c, OF_WITH_Q6K) ? CMD_PROJ : CMD_MATMUL, &a, sizeof a);
    return o;
}

struct ops *make_gate_up(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_matmul a = matmul_args(o, c);
    add_matrix(o, c, &a, c->type, c->n_out, true);
    add_matrix(o, c, &a, HAS(c, OF_WITH_Q6K) ? QT_Q6_K : c->type, c->n_out, false);
    a.act = act_of(c);
    ops_cmd(o, CMD_GATE_UP, &a, sizeof a);
    return o;
}

/* ---- attention ---- */

/* Rows of two slots in runs of three, positions ascending in each. */
static void two_slots(struct ops *o, uint32_t rows)
{
    uint32_t pos[2] = { 0, 0 };
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t slot = r / 3 % 2;
        ops_row(o, r)->slot = slot;
        ops_row(o, r)->pos = pos[slot]++;
    }
}

struct heads {
    uint32_t q, k, v, y, kc, vc, q_hs, ldq, ldk, n_ctx, n_slots;
    uint64_t slot_bytes;
};

static enum ka_kv kv_of(const struct op_case *c)
{
    return HAS(c, OF_Q8_KV)    ? KA_KV_Q8_0
           : HAS(c, OF_FP8_KV)  ? KA_KV_FP8
           : HAS(c, OF_Q4_KV)   ? KA_KV_Q4_0
           : HAS(c, OF_ROT4_KV) ? KA_KV_ROT4
           : HAS(c, OF_F32_KV)  ? KA_KV_F32
                                : KA_KV_F16;
}

static struct ops *start_attention(const struct op_case *c, struct heads *h, bool rope_only)
{
    h->n_ctx = 16 * ((c->n_in + c->rows + 15) / 16) + 16;
    h->n_slots = HAS(c, OF_SLOTS) ? 2 : 1;
    struct ops *o = ops_new(c->rows, c->cap, h->n_ctx, h->n_slots, kv_of(c));
    if (HAS(c, OF_SLOTS))
        two_slots(o, c->rows);
    if (c->n_in)
        ops_old_positions(o, c->n_in, c->dim);
    h->q_hs = HAS(c, OF_GATE) ? 2 * c->dim : c->dim;
    h->ldq = c->heads * h->q_hs;
    h->ldk = c->kv * c->dim;
    h->q = ops_rows(o, "q", rope_only ? OPS_INOUT : OPS_IN, h->ldq);
    h->k = ops_rows(o, "k", OPS_IN, h->ldk);
    h->v = HAS(c, OF_V_IS_K) ? h->k : ops_rows(o, "v", OPS_IN, h->ldk);
    h->slot_bytes = align_up(h->n_ctx * KA_KV_BYTES(kv_of(c), (uint64_t)h->ldk), STREAM_ALIGN);
    h->kc = ops_cache(o, "kc", h->slot_bytes * h->n_slots);
    h->vc = ops_cache(o, "vc", h->slot_bytes * h->n_slots);
    return o;
}

static gpu_va step_out(struct ops *o)
{
    const struct stream_head *h = &ops_stream(o)->h;
    ka_step_out a = { .step = ops_step(o), .y = ops_step(o) + step_sub_off(h->row_cap, h->out_cap),
                      .out_row = ops_step(o) + step_out_row_off(h->row_cap) };
    ops_cmd(o, CMD_STEP_OUT, &a, sizeof a);
    return a.y;
}

static void rope_cmd(struct ops *o, const struct op_case *c, const struct heads *h)
{
    float inv_freq[ATTN_PAIRS];
    uint32_t n_rot = HAS(c, OF_PARTIAL) ? c->dim / 2 : c->dim;
    CHECK(n_rot / 2 <= ATTN_PAIRS);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        inv_freq[i] = powf(10000.0f, -2.0f * (float)i / (float)n_rot);
    ka_rope_kv a = {
        .step = ops_step(o), .q = ops_at(o, h->q), .k = ops_at(o, h->k), .v = ops_at(o, h->v), .kc = ops_at(o, h->kc),
        .vc = ops_at(o, h->vc), .inv_freq = ops_at(o, ops_const(o, "inv_freq", inv_freq, n_rot / 2)),
        .slot_bytes = h->slot_bytes, .ldq = h->ldq, .ldk = h->ldk, .ldv = h->ldk, .q_hs = h->q_hs, .n_head = c->heads,
        .n_kv = c->kv, .head_dim = c->dim, .n_rot = n_rot, .rope = HAS(c, OF_ADJACENT) ? KA_ROPE_NORM : KA_ROPE_NEOX,
        .n_ctx = h->n_ctx, .n_slots = h->n_slots, .kv_type = kv_of(c),
        .v_norm = HAS(c, OF_V_NORM), .mscale = 1.1f, .eps = 1e-6f };
    if (HAS(c, OF_NORM)) {
        a.q_norm = ops_at(o, ops_vec(o, "q_norm", c->dim, 0.5f, 2.0f));
        a.k_norm = ops_at(o, ops_vec(o, "k_norm", c->dim, 0.5f, 2.0f));
    }
    if (HAS(c, OF_TEMP)) {
        a.q_every = 7;
        a.q_scale = ops_at(o, ops_vec(o, "q_scale", (h->n_ctx - 1) / a.q_every + 1, 1.0f, 2.0f));
    }
    if (HAS(c, OF_Q_ONLY)) {
        a.k = a.v = a.kc = a.vc = a.k_norm = 0;
        a.ldk = a.ldv = 0;
        a.slot_bytes = 0;
        a.rows = rows_of(c);
    }
    if (a.rows == ROWS_OUT)
        a.step = step_out(o);
    ops_cmd(o, CMD_ROPE_KV, &a, sizeof a);
}

/* q alone shows; what went into the cache shows through make_attn. */
struct ops *make_rope(const struct op_case *c)
{
    struct heads h;
    struct ops *o = start_attention(c, &h, true);
    rope_cmd(o, c, &h);
    return o;
}

struct ops *make_attn(const struct op_case *c)
{
    struct heads h;
    struct ops *o = start_attention(c, &h, false);
    uint32_t y = ops_rows(o, "y", OPS_OUT, c->heads * c->dim);
    rope_cmd(o, c, &h);
    gpu_va step = HAS(c, OF_OUT) ? step_out(o) : ops_step(o);
    if (HAS(c, OF_OUT))
        h.q = ops_rows(o, "q of output rows", OPS_IN, h.ldq);
    ka_attn a = { .step = step, .rows = rows_of(c), .y = ops_at(o, y), .q = ops_at(o, h.q), .kc = ops_at(o, h.kc),
                  .vc = ops_at(o, h.vc), .slot_bytes = h.slot_bytes, .ldq = h.ldq, .q_hs = h.q_hs, .n_head = c->heads,
                  .n_kv = c->kv, .head_dim = c->dim, .n_ctx = h.n_ctx, .n_slots = h.n_slots,
                  .kv_type = kv_of(c), .window = c->arg,
                  .scale = 1.0f / sqrtf((float)c->dim) };
    if (HAS(c, OF_GATE))
        a.gate = ops_off(o, h.q, c->dim);
    a.sinks = OPT(c, OF_SINKS, ops_vec(o, "sinks", c->heads, -1.0f, 3.0f));
    ops_cmd(o, CMD_ATTN, &a, sizeof a);
    return o;
}

/* ---- gated DeltaNet ---- */

struct ops *make_gdn(const struct op_case *c)
{
    uint32_t n_ctx = 16 * ((c->rows + 15) / 16) + 16, n_slots = HAS(c, OF_SLOTS) ? 2 : 1, K = 4, r = c->kv / c->heads;
    uint32_t n = (2 * c->heads + c->kv) * c->dim, v = c->kv * c->dim;
    struct ops *o = ops_new(c->rows, c->cap, n_ctx, n_slots, KA_KV_F16);
    if (HAS(c, OF_SLOTS))
        two_slots(o, c->rows);
    uint64_t conv = align_up(4ull * K * n, STREAM_ALIGN), state = align_up(4ull * v * c->dim, STREAM_ALIGN);
    uint32_t ab = ops_rows(o, "ab", OPS_IN, 2 * c->kv);
    bool grouped = HAS(c, OF_FUSED);
    ka_gdn a = { .step = ops_step(o), .y = ops_at(o, ops_rows(o, "y", OPS_OUT, v)),
                 .qkv = ops_at(o, ops_rows(o, "qkv", OPS_IN, n)), .z = ops_at(o, ops_rows(o, "z", OPS_IN, v)),
                 .alpha = ops_off(o, ab, grouped ? r : c->kv), .beta = ops_at(o, ab),
                 .c = ops_at(o, ops_rows(o, "c", OPS_TEMP, n)),
                 .conv = ops_at(o, ops_state(o, "conv", conv * n_slots)),
                 .state = ops_at(o, ops_state(o, "state", state * n_slots)),
                 .conv_w = ops_at(o, ops_vec(o, "conv_w", K * n, -0.7f, 0.7f)),
                 .dt = ops_at(o, ops_vec(o, "dt", c->kv, -1.0f, 1.0f)),
                 .a = ops_at(o, ops_vec(o, "a", c->kv, -2.0f, -0.1f)),
                 .norm = ops_at(o, ops_vec(o, "norm", c->dim, 0.5f, 2.0f)), .conv_slot_bytes = conv,
                 .state_slot_bytes = state, .n_k = c->heads, .n_v = c->kv, .head_dim = c->dim, .conv_kernel = K,
                 .ab_ld = 2 * c->kv, .ab_group = grouped ? r : 0,
                 .heads = grouped ? KA_GDN_GROUPED : KA_GDN_MODULO, .n_slots = n_slots, .eps = 1e-6f };
    ops_cmd(o, CMD_GDN, &a, sizeof a);
    return o;
}

/* ---- experts: n_out is the experts' width, heads their number, arg how many are used ---- */

struct ops *make_router(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_router a = { .step = ops_step(o), .ids = ops_at(o, ops_ids(o, "ids", OPS_OUT, c->arg)),
                    .weights = ops_at(o, ops_rows(o, "weights", OPS_OUT, c->arg)),
                    .logits = ops_at(o, ops_rows(o, "logits", OPS_TEMP, c->heads)),
                    .x = ops_at(o, ops_rows(o, "x", OPS_IN, c->n_in)),
                    .w = ops_at(o, ops_weight(o, "w", c->type, c->n_in, c->heads, 1)), .type = c->type,
                    .n_in = c->n_in, .n_expert = c->heads, .k = c->arg,
                    .gating = HAS(c, OF_LATE) ? KA_TOPK_SOFTMAX : KA_SOFTMAX_TOPK, .scale = 1.5f, .eps = 1e-6f };
    a.norm = OPT(c, OF_NORM, ops_vec(o, "norm", c->n_in, 0.5f, 2.0f));
    a.b = OPT(c, OF_BIAS, ops_vec(o, "b", c->heads, -1.0f, 1.0f));
    a.expert_scale = OPT(c, OF_EXPERT_SCALE, ops_vec(o, "expert_scale", c->heads, 0.5f, 2.0f));
    if (HAS(c, OF_SHARE)) {
        a.share = ops_at(o, ops_rows(o, "share", OPS_OUT, 1));
        a.shared_w = ops_at(o, ops_vec(o, "shared_w", c->n_in, -0.1f, 0.1f));
    }
    ops_cmd(o, CMD_ROUTER, &a, sizeof a);
    return o;
}

/* k different experts for each row, of the first `dim` where that is not 0. */
static uint32_t random_ids(struct ops *o, const struct op_case *c)
{
    uint32_t n = c->dim ? c->dim : c->heads;
    uint32_t b = ops_ids(o, "ids", OPS_IN, c->arg);
    uint32_t *ids = (uint32_t *)ops_data(o, b);
    for (uint32_t r = 0; r < c->rows; r++)
        for (uint32_t j = 0, first = ops_random(); j < c->arg; j++)
            ids[r * c->arg + j] = (first + j * (r % 2 ? 1 : n - 1)) % n;
    return b;
}

struct ops *make_moe_up(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint64_t matrix = qtype_row_bytes(c->type, c->n_in) * c->n_out;
    enum qtype up = HAS(c, OF_WITH_Q6K) ? QT_Q6_K : c->type;
    ka_moe_up a = { .step = ops_step(o), .y = ops_at(o, ops_rows(o, "y", OPS_OUT, c->arg * c->n_out)),
                    .x = ops_at(o, ops_rows(o, "x", OPS_IN, c->n_in)), .ids = ops_at(o, random_ids(o, c)),
                    .gate_stride = matrix, .up_stride = qtype_row_bytes(up, c->n_in) * c->n_out, .type_gate = c->type,
                    .type_up = up,
                    .n_in = c->n_in, .n_ff = c->n_out, .n_expert = c->heads, .k = c->arg, .act = act_of(c),
                    .eps = 1e-6f };
    a.norm = OPT(c, OF_NORM, ops_vec(o, "norm", c->n_in, 0.5f, 2.0f));
    if (HAS(c, OF_FUSED)) {
        a.gate = ops_at(o, ops_weight(o, "gate_up", c->type, c->n_in, 2 * c->n_out, c->heads));
        a.up = a.gate + matrix;
        a.gate_stride = a.up_stride = 2 * matrix;
    } else {
        a.gate = ops_at(o, ops_weight(o, "gate", c->type, c->n_in, c->n_out, c->heads));
        a.up = ops_at(o, ops_weight(o, "up", up, c->n_in, c->n_out, c->heads));
    }
    a.sg = OPT(c, OF_NUMBER, ops_vec(o, "sg", c->heads, 0.3f, 3.0f));
    a.su = OPT(c, OF_NUMBER, ops_vec(o, "su", c->heads, 0.3f, 3.0f));
    a.bg = OPT(c, OF_BIAS, ops_vec(o, "bg", c->n_out * c->heads, -1.0f, 1.0f));
    a.bu = OPT(c, OF_BIAS, ops_vec(o, "bu", c->n_out * c->heads, -1.0f, 1.0f));
    ops_cmd(o, CMD_MOE_UP, &a, sizeof a);
    return o;
}

struct ops *make_moe_down(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_moe_down a = { .step = ops_step(o), .y = ops_at(o, ops_rows(o, "y", OPS_OUT, c->n_out)),
                      .x = ops_at(o, ops_rows(o, "x", OPS_IN, c->arg * c->n_in)), .ids = ops_at(o, random_ids(o, c)),
                      .weights = ops_at(o, ops_rows(o, "weights", OPS_IN, c->arg)),
                      .down = ops_at(o, ops_weight(o, "down", c->type, c->n_in, c->n_out, c->heads)),
                      .stride = qtype_row_bytes(c->type, c->n_in) * c->n_out, .type = c->type, .n_in = c->n_in,
                      .n_out = c->n_out, .n_expert = c->heads, .k = c->arg };
    a.resid = OPT(c, OF_RESID, ops_rows(o, "resid", OPS_IN, c->n_out));
    a.sd = OPT(c, OF_NUMBER, ops_vec(o, "sd", c->heads, 0.3f, 3.0f));
    a.b = OPT(c, OF_BIAS, ops_vec(o, "b", c->n_out * c->heads, -1.0f, 1.0f));
    ops_cmd(o, CMD_MOE_DOWN, &a, sizeof a);
    return o;
}

/* ---- output ---- */

struct ops *make_gather(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    ka_gather a = { .step = ops_step(o), .y = ops_at(o, ops_rows(o, "y", OPS_OUT, c->n_in)),
                    .x = ops_at(o, ops_rows(o, "x", OPS_IN, c->n_in)),
                    .out_row = ops_step(o) + sizeof(ka_step) + c->rows * sizeof(ka_row), .n = c->n_in };
    ops_cmd(o, CMD_GATHER, &a, sizeof a);
    return o;
}

/* The winner of each row appears twice: the first counts. */
struct ops *make_argmax(const struct op_case *c)
{
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t l = ops_logits(o, c->n_in);
    ops_next_is_result(o);
    for (uint32_t r = 0; r < c->rows; r++) {
        float *x = ops_data(o, l) + (size_t)r * c->n_in;
        uint32_t at = ops_random() % c->n_in;
        x[0] = NAN; /* never chosen */
        x[at] = x[at + ops_random() % (c->n_in - at)] = 9.0f;
    }
    ka_argmax a = { .step = ops_step(o), .next = ops_next(o), .logits = ops_at(o, l), .n = c->n_in };
    ops_cmd(o, CMD_ARGMAX, &a, sizeof a);
    return o;
}

/* Row by row other parameters, one row in eight greedy; every third row has logits of few values, so that ties decide
 * what is a candidate. */
struct ops *make_sample(const struct op_case *c)
{
    static const uint32_t top_k[] = { 40, 1, 0, 100, 128, 7, 5000 };
    struct ops *o = ops_new(c->rows, c->cap, 16 * ((c->rows + 15) / 16), 1, KA_KV_F16);
    uint32_t l = ops_logits(o, c->n_in);
    ka_sample *s = ops_samples(o);
    ops_next_is_result(o);
    for (uint32_t r = 0; r < c->rows; r++) {
        float *x = ops_data(o, l) + (size_t)r * c->n_in;
        ops_row(o, r)->token = 0; /* there may be fewer than 64 */
        for (uint32_t i = 0; i < c->n_in; i++)
            x[i] = r % 3 == 2 ? (float)(ops_random() % 5) : 3.0f * x[i];
        for (uint32_t i = 0; i < c->n_in / 8; i++)
            x[ops_random() % c->n_in] = i % 2 ? NAN : -INFINITY;
        s[r] = (ka_sample){ .temp = r % 8 == 7 ? 0.0f : 0.25f * (float)(1 + ops_random() % 8),
                            .top_k = top_k[r % ARRAY_LEN(top_k)], .top_p = r % 2 ? 1.0f : 0.1f * (float)(r % 10),
                            .min_p = r % 4 == 1 ? 0.05f : 0.0f, .seed = ops_random(), .counter = r };
    }
    ka_argmax a = { .step = ops_step(o), .next = ops_next(o), .logits = ops_at(o, l), .sample = ops_sample(o),
                    .n = c->n_in };
    ops_cmd(o, CMD_ARGMAX, &a, sizeof a);
    return o;
}
