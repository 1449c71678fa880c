/* What the families lower to, command by command. */
#include <math.h>
#include <check.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/graph.h"
#include "tests/stream/fake_model.h"

static struct fake_model fake;

static struct stream *compile(void (*make)(struct fake_model *), bool no_fuse)
{
    struct graph_opts o = {.n_ctx = 50, .n_slots = 2, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16,
                           .no_fuse = no_fuse};
    struct stream *s = NULL;
    struct err e = {0};
    make(&fake);
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    return s;
}

/* Commands of layer il as one string: "PROJ ROPE_KV ..". */
static const char *commands(const struct stream *s, uint32_t il)
{
    static char text[512];
    text[0] = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].layer == il)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "",
                     cmd_name(s->cmds[i].op));
    return text;
}

static void expect(void (*make)(struct fake_model *), bool no_fuse, uint32_t il, const char *want)
{
    struct stream *s = compile(make, no_fuse);
    ck_assert_str_eq(commands(s, il), want);
    stream_free(s);
}

START_TEST(a_dense_layer_is_six_commands)
{
    expect(fake_llama, false, 0, "PROJ ROPE_KV ATTN MATMUL GATE_UP MATMUL");
    expect(fake_qwen3, false, 1, "PROJ ROPE_KV ATTN MATMUL GATE_UP MATMUL");
    expect(fake_llama, false, CMD_NO_LAYER, "EMBED GATHER MATMUL ARGMAX");
}
END_TEST

START_TEST(residuals_and_norms_ride_on_products)
{
    struct stream *s = compile(fake_llama, false);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const struct cmd *c = &s->cmds[i];
        if (c->op != CMD_MATMUL && c->op != CMD_PROJ && c->op != CMD_GATE_UP)
            continue;
        const ka_matmul *a = stream_args(s, i);
        bool in_layer = c->layer != CMD_NO_LAYER;
        ck_assert_int_eq(a->norm != 0, c->op != CMD_MATMUL || !in_layer);
        ck_assert_int_eq(a->resid != 0, c->op == CMD_MATMUL && in_layer);
    }
    stream_free(s);
}
END_TEST

START_TEST(experts_route_and_shared_experts_scale)
{
    expect(fake_qwen3moe, false, 0, "PROJ ROPE_KV ATTN MATMUL ROUTER MOE_UP MOE_DOWN");
    expect(fake_gpt_oss, false, 0, "PROJ ROPE_KV ATTN MATMUL ROUTER MOE_UP MOE_DOWN");
    expect(fake_llama_moe, false, 1, "MATMUL ROPE_KV ATTN MATMUL ROUTER MOE_UP MOE_DOWN");
    expect(fake_qwen35moe, false, 1, "PROJ ROPE_KV ATTN MATMUL ROUTER GATE_UP MOE_UP MATMUL MOE_DOWN");
    struct stream *s = compile(fake_qwen35moe, false);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].op == CMD_ROUTER) {
            const ka_router *a = stream_args(s, i);
            ck_assert(a->share && a->shared_w && a->norm);
            const ka_matmul *down = stream_args(s, i + 3);
            ck_assert_uint_eq(down->scale, a->share);
            ck_assert(down->resid != 0);
        }
    stream_free(s);
}
END_TEST

START_TEST(hybrid_layers_are_deltanet_or_gated_attention)
{
    expect(fake_qwen35, false, 0, "PROJ GDN MATMUL GATE_UP MATMUL");
    expect(fake_qwen35, false, 1, "PROJ ROPE_KV ATTN MATMUL GATE_UP MATMUL");
    struct stream *s = compile(fake_qwen35, false);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].op == CMD_ATTN) {
            const ka_attn *a = stream_args(s, i);
            ck_assert_uint_eq(a->gate, a->q + 4 * a->head_dim);
            ck_assert_uint_eq(a->q_hs, 2 * a->head_dim);
        }
    stream_free(s);
    s = compile(fake_qwen3next, false);
    const ka_gdn *g = stream_args(s, 2);
    ck_assert_int_eq(s->cmds[2].op, CMD_GDN);
    ck_assert_uint_eq(g->ab_group, 2);
    ck_assert_uint_eq(g->alpha, g->beta + 4 * g->ab_group);
    ck_assert_uint_eq(g->heads, KA_GDN_GROUPED);
    stream_free(s);
}
END_TEST

START_TEST(gemma_norms_carry_the_residual)
{
    expect(fake_gemma3, false, 0, "PROJ ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    struct stream *s = compile(fake_gemma3, false);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        if (s->cmds[i].op == CMD_NORM)
            ck_assert(((const ka_norm *)stream_args(s, i))->resid != 0);
        if (s->cmds[i].op == CMD_MATMUL && s->cmds[i].layer == CMD_NO_LAYER)
            ck_assert(((const ka_matmul *)stream_args(s, i))->softcap == 30.0f);
    }
    stream_free(s);
}
END_TEST

/* The name of the buffer at `field` of command c's arguments; "" for none. */
static const char *at(const struct stream *s, uint32_t c, size_t field)
{
    for (uint32_t i = 0; i < s->cmds[c].n_uses; i++) {
        const struct stream_use *u = &s->uses[s->cmds[c].first_use + i];
        if (u->field_off == field)
            return s->strs + s->bufs[u->buf].name;
    }
    return "";
}

/* A matrix's number is an argument of its product: no command is there for it, and products of one input stay one command. */
START_TEST(a_matrix_brings_its_number_with_it)
{
    static const char *const want[] = { "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down" };
    struct graph_opts o = {.n_ctx = 50, .n_slots = 2, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16};
    struct fake_model *f = &fake;
    struct model_scale all[8];
    struct stream *s = NULL;
    struct err e = {0};
    uint32_t n = 0;
    fake_gemma3(f); /* with a soft cap */
    f->layers[0].bq = FAKE_VEC(FAKE_HEADS * FAKE_HEAD, "blk.0.attn_q.bias");
    const struct model_layer *l = &f->layers[0];
    const struct gguf_tensor *const w[] = { l->wq, l->wk, l->wv, l->wo, l->ffn_gate, l->ffn_up, l->ffn_down };
    for (int i = 0; i < 7; i++)
        all[i] = (struct model_scale){ w[i], FAKE_VEC(1, "blk.0.%s.scale", want[i]) };
    all[7] = (struct model_scale){ f->m.output, FAKE_VEC(1, "output.scale") };
    f->m.scales = all;
    f->m.n_scales = 8;
    ck_assert_msg(graph_compile(&f->m, &o, &s, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(commands(s, 0), "PROJ ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    ck_assert_str_eq(commands(s, CMD_NO_LAYER), "EMBED GATHER MATMUL ARGMAX");
    for (uint32_t c = 0; c < s->h.n_cmds; c++) {
        if (s->cmds[c].op != CMD_MATMUL && s->cmds[c].op != CMD_PROJ && s->cmds[c].op != CMD_GATE_UP)
            continue;
        const ka_matmul *a = stream_args(s, c);
        for (uint32_t m = 0; m < a->n_mats; m++) {
            char name[64] = "";
            if (s->cmds[c].layer == 0)
                snprintf(name, sizeof name, "blk.0.%s.scale", want[n++]);
            else if (s->cmds[c].layer == CMD_NO_LAYER)
                snprintf(name, sizeof name, "output.scale");
            ck_assert_str_eq(at(s, c, offsetof(ka_matmul, wscale) + 8 * m), name);
        }
        ck_assert(s->cmds[c].layer != CMD_NO_LAYER || a->softcap == 30.0f);
    }
    ck_assert_uint_eq(n, 7);
    stream_free(s);
}
END_TEST

/* Down's numbers: of the router's weights, and of the product where a bias follows it. */
START_TEST(numbers_beside_experts_reach_their_products)
{
    static void (*const make[])(struct fake_model *) = {fake_qwen3moe, fake_gpt_oss};
    struct fake_model *f = &fake;
    struct graph_opts o = {.n_ctx = 64, .n_slots = 2, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16};
    for (int biased = 0; biased < 2; biased++) {
        struct stream *s = NULL;
        struct err e = {0};
        make[biased](f);
        struct model_layer *l = &f->layers[1];
        l->exp_gate_scale = FAKE_VEC(FAKE_EXPERTS, "gate.scale");
        l->exp_up_scale = FAKE_VEC(FAKE_EXPERTS, "up.scale");
        l->exp_down_scale = FAKE_VEC(FAKE_EXPERTS, "down.scale");
        ck_assert_msg(graph_compile(&f->m, &o, &s, &e) == 0, "%s", e.msg);
        for (uint32_t c = 0; c < s->h.n_cmds; c++) {
            bool has = s->cmds[c].layer == 1;
            if (s->cmds[c].op == CMD_ROUTER)
                ck_assert_str_eq(at(s, c, offsetof(ka_router, expert_scale)), has && !biased ? "down.scale" : "");
            if (s->cmds[c].op == CMD_MOE_DOWN)
                ck_assert_str_eq(at(s, c, offsetof(ka_moe_down, sd)), has && biased ? "down.scale" : "");
            if (s->cmds[c].op == CMD_MOE_UP) {
                ck_assert_str_eq(at(s, c, offsetof(ka_moe_up, sg)), has ? "gate.scale" : "");
                ck_assert_str_eq(at(s, c, offsetof(ka_moe_up, su)), has ? "up.scale" : "");
            }
        }
        stream_free(s);
    }
}
END_TEST

/* 1 + attn_temp ln(1 + floor(pos / attn_temp_every)) for the positions of the context, for queries alone; where all of them are 1
 * there is no table. */
START_TEST(queries_are_scaled_by_the_position)
{
    struct graph_opts o = {.n_ctx = 80, .n_slots = 2, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16};
    for (uint32_t every = 30; every <= 80; every += 50) {
        struct stream *s = NULL;
        struct err e = {0};
        fake_llama(&fake);
        fake.m.attn_temp = 0.25f;
        fake.m.attn_temp_every = every;
        ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
        for (uint32_t c = 0; c < s->h.n_cmds; c++) {
            if (s->cmds[c].op != CMD_ROPE_KV)
                continue;
            const ka_rope_kv *a = stream_args(s, c);
            ck_assert_str_eq(at(s, c, offsetof(ka_rope_kv, q_scale)), every < 80 ? "q_scale" : "");
            ck_assert_uint_eq(a->q_every, every < 80 ? every : 0);
            const float *by = (const float *)(s->consts + SADDR_OFF(a->q_scale));
            for (uint32_t i = 0; a->q_scale && i < 3; i++)
                ck_assert_float_eq(by[i], (float)(1 + 0.25 * log(1 + i)));
            if (a->q_scale) { /* a table that ends before the context */
                ((ka_rope_kv *)(s->args + s->cmds[c].args_off))->q_every = 20;
                ck_assert_int_ne(stream_verify(s, &e), 0);
            }
        }
        stream_free(s);
    }
}
END_TEST

START_TEST(without_fusion_every_op_is_a_command)
{
    expect(fake_llama, true, 0, "NORM MATMUL MATMUL MATMUL ROPE_KV ATTN MATMUL ADD NORM GATE_UP MATMUL ADD");
    expect(fake_qwen35, true, 0, "NORM MATMUL MATMUL MATMUL MATMUL GDN MATMUL ADD NORM GATE_UP MATMUL ADD");
    expect(fake_qwen35moe, true, 1,
           "NORM MATMUL MATMUL MATMUL ROPE_KV ATTN MATMUL ADD NORM ROUTER GATE_UP MOE_UP MATMUL ADD MOE_DOWN ADD");
}
END_TEST

/* Commands of the last layer when 32 rows need 4 outputs. */
static void expect_prefill(void (*make)(struct fake_model *), bool no_fuse, uint32_t il, const char *want)
{
    struct graph_opts o = {.n_ctx = 50, .n_slots = 2, .row_cap = 32, .out_cap = 4, .no_fuse = no_fuse};
    struct stream *s = NULL;
    struct err e = {0};
    make(&fake);
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(commands(s, il), want);
    bool gathered = false;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_matmul *a = stream_args(s, i);
        gathered = gathered || s->cmds[i].op == CMD_GATHER;
        if (s->cmds[i].op == CMD_MATMUL || s->cmds[i].op == CMD_GATE_UP)
            ck_assert_int_eq(a->rows, gathered ? ROWS_OUT : ROWS_STEP);
    }
    stream_free(s);
}

START_TEST(a_prompts_last_layer_ends_on_the_output_rows)
{
    expect_prefill(fake_llama, false, 0, "PROJ ROPE_KV ATTN MATMUL GATE_UP MATMUL");
    expect_prefill(fake_llama, false, 1, "PROJ ROPE_KV ATTN GATHER GATHER MATMUL GATE_UP MATMUL");
    expect_prefill(fake_llama, false, CMD_NO_LAYER, "EMBED MATMUL ARGMAX");
    expect_prefill(fake_gemma3, false, 1, "PROJ ROPE_KV ATTN GATHER MATMUL GATHER NORM GATE_UP MATMUL NORM");
    /* layers that read another's cache store nothing: nobody needs their other rows */
    expect_prefill(fake_gemma4, false, 1, "PROJ ROPE_KV ATTN GATHER MATMUL GATHER NORM GATE_UP MATMUL NORM");
    expect_prefill(fake_gemma4, false, 2, "MATMUL STEP_OUT ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    expect_prefill(fake_gemma4, false, 3, "MATMUL ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    expect_prefill(fake_gemma4_e, false, 1,
                   "PROJ ROPE_KV ATTN GATHER MATMUL GATHER NORM GATE_UP MATMUL NORM MATMUL GATHER ACT_MUL MATMUL NORM");
    expect_prefill(fake_gemma4_e, false, 3, "MATMUL ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM MATMUL ACT_MUL MATMUL NORM");
    expect_prefill(fake_qwen35, true, 3,
                   "NORM MATMUL MATMUL MATMUL ROPE_KV ATTN GATHER MATMUL GATHER ADD NORM GATE_UP MATMUL ADD");
    /* the router and the experts run on all rows, or not at all */
    expect_prefill(fake_qwen3moe, false, 1, "PROJ ROPE_KV ATTN MATMUL ROUTER MOE_UP MOE_DOWN");
    expect_prefill(fake_qwen35moe, false, CMD_NO_LAYER, "EMBED GATHER MATMUL ARGMAX");
}
END_TEST

START_TEST(gemma4_scales_its_layers_and_shares_caches)
{
    expect(fake_gemma4, false, 1, "PROJ ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    expect(fake_gemma4, false, 2, "MATMUL ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM");
    struct stream *s = compile(fake_gemma4, false);
    gpu_va kc[4] = {0};
    uint32_t n_norms = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        uint32_t il = s->cmds[i].layer;
        if (s->cmds[i].op == CMD_ROPE_KV) {
            const ka_rope_kv *a = stream_args(s, i);
            ck_assert_uint_eq(a->v_norm, 1);
            ck_assert_int_eq(a->k != 0 && a->kc != 0, il < 2);
            ck_assert_int_eq(a->k == a->v, il != 0); /* v from k, or neither */
            kc[il] = a->kc;
        } else if (s->cmds[i].op == CMD_ATTN) {
            const ka_attn *a = stream_args(s, i);
            ck_assert_uint_eq(a->kc, kc[il % 2]);
            ck_assert(a->scale == 1.0f && a->slot_bytes != 0);
        } else if (s->cmds[i].op == CMD_NORM) { /* after attention, then after the FFN */
            const ka_norm *a = stream_args(s, i);
            ck_assert(a->resid != 0);
            ck_assert_int_eq(a->out_scale != 0, n_norms++ % 2);
        }
    }
    ck_assert_uint_eq(n_norms, 8);
    stream_free(s);
    expect(fake_gemma4, true, 3, "NORM MATMUL ROPE_KV ATTN MATMUL NORM ADD NORM GATE_UP MATMUL NORM ADD");
}
END_TEST

START_TEST(gemma4_routes_by_a_norm_of_its_own)
{
    expect(fake_gemma4_moe, false, 0,
           "PROJ ROPE_KV ATTN MATMUL NORM ROUTER GATE_UP MOE_UP MATMUL MOE_DOWN NORM NORM NORM");
    struct stream *s = compile(fake_gemma4_moe, false);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        if (s->cmds[i].op != CMD_ROUTER)
            continue;
        const ka_router *a = stream_args(s, i);
        const ka_moe_up *up = stream_args(s, i + 2);
        ck_assert_uint_eq(a->x, up->x);
        ck_assert(a->norm != up->norm && a->expert_scale);
        ck_assert_uint_eq(SADDR_ARENA(a->norm), ARENA_CONST);
        const float *w = (const float *)(s->consts + SADDR_OFF(a->norm));
        for (uint32_t k = 0; k < FAKE_EMBD; k++)
            ck_assert(w[k] == (1.0f + (float)k) / 8);
    }
    stream_free(s);
}
END_TEST

/* The last layer still ends on the output rows; nothing follows the norm but, of a ranker, its product. */
START_TEST(vectors_take_the_place_of_logits)
{
    struct graph_opts o = {.n_ctx = 64, .n_slots = 2, .row_cap = 8, .out_cap = 2, .pooling = POOLING_LAST};
    struct stream *s = NULL, *back = NULL;
    struct err e = {0};
    uint32_t n = 0;
    fake_qwen3(&fake);
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(commands(s, CMD_NO_LAYER), "EMBED NORM");
    ck_assert_str_eq(commands(s, fake.m.n_layer - 1), "PROJ ROPE_KV ATTN GATHER GATHER MATMUL GATE_UP MATMUL");
    const ka_norm *a = stream_args(s, s->h.n_cmds - 1);
    ck_assert_uint_eq(a->y, SADDR(ARENA_IO, stream_vectors(s, &n)));
    ck_assert_uint_eq(n, FAKE_EMBD);
    ck_assert_uint_eq(s->h.logits_off, 0);
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        ck_assert_str_ne(stream_str(s, s->weights[i].name), "output.weight");

    char path[] = "/tmp/zinc-vectors-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(stream_save(s, path, &e), 0);
    ck_assert_msg(stream_load(path, &back, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(stream_vectors(back, NULL), stream_vectors(s, NULL));
    stream_free(back);
    unlink(path);
    for (uint32_t i = 0; i < s->h.n_bufs; i++)
        if (strcmp(stream_str(s, s->bufs[i].name), "vectors") == 0)
            s->bufs[i].ld += 1; /* rows that do not fit */
    ck_assert_int_eq(stream_verify(s, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "neither logits nor vectors") != NULL, "%s", e.msg);
    stream_free(s);

    fake.m.cls = fake_tensor(&fake, QT_F32, FAKE_EMBD, 3, 1, "cls.output.weight");
    fake.m.n_labels = 3;
    o.pooling = POOLING_RANK;
    ck_assert_msg(graph_compile(&fake.m, &o, &s, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(commands(s, CMD_NO_LAYER), "EMBED MATMUL");
    ck_assert_uint_ne(stream_vectors(s, &n), 0);
    ck_assert_uint_eq(n, 3);
    stream_free(s);
}
END_TEST

/* Attention reads a normed stream beside the learned residual, which is a product of its own; a sparse gate stays apart from the
 * activation. The last layers store nothing, so of a prompt they run on output rows, streams and all. */
START_TEST(gemma3n_carries_four_streams)
{
    expect(fake_gemma3n, false, 0, "MATMUL ALTUP NORM MATMUL MATMUL NORM PROJ ROPE_KV ATTN MATMUL NORM ADD PROJ ACT_MUL MATMUL NORM "
                                   "MATMUL ALTUP MATMUL ACT_MUL MATMUL NORM ALTUP");
    expect(fake_gemma3n, false, 3, "MATMUL ALTUP NORM MATMUL MATMUL NORM MATMUL ROPE_KV ATTN MATMUL NORM ADD GATE_UP MATMUL NORM "
                                   "MATMUL ALTUP MATMUL ACT_MUL MATMUL NORM ALTUP");
    expect(fake_gemma3n, false, CMD_NO_LAYER, "EMBED MATMUL EMBED NORM MATMUL MATCH MATMUL MATCH MATMUL MATCH MATMUL MATCH GATHER MATMUL "
                                              "ARGMAX");
    expect_prefill(fake_gemma3n, false, CMD_NO_LAYER, "EMBED MATMUL EMBED NORM MATMUL MATCH MATMUL MATCH MATMUL MATCH MATMUL MATCH MATMUL "
                                                      "ARGMAX");
    expect_prefill(fake_gemma3n, false, 3, "MATMUL ALTUP NORM MATMUL MATMUL NORM MATMUL ROPE_KV ATTN MATMUL NORM ADD GATE_UP MATMUL NORM "
                                           "MATMUL ALTUP MATMUL ACT_MUL MATMUL NORM ALTUP");
    struct stream *s = compile(fake_gemma3n, false);
    uint32_t third = 0, sparse = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_matmul *a = stream_args(s, i);
        const ka_act_mul *act = stream_args(s, i);
        const ka_match *m = stream_args(s, i);
        const ka_add *add = stream_args(s, i);
        sparse += s->cmds[i].op == CMD_ACT_MUL && act->sparse && act->cut == 1.5f;
        if (s->cmds[i].op == CMD_MATCH) /* the mean of four comes last */
            ck_assert(m->scale == (third == 2 ? 0.25f : 1.0f) && (m->resid != 0) == (m->n == FAKE_EMBD));
        if (s->cmds[i].op == CMD_ADD)
            ck_assert_float_eq_tol(*(const float *)(s->consts + SADDR_OFF(add->out_scale)), sqrtf(0.5f), 1e-7f);
        if (s->cmds[i].op == CMD_MATMUL && s->cmds[i].layer == CMD_NO_LAYER && a->n_in == FAKE_EMBD && a->ldx == 3 * FAKE_EMBD) {
            const ka_match *next = stream_args(s, i + 1);
            ck_assert_uint_eq(a->n_out[0], FAKE_EMBD); /* one of three matrices in a tensor, for one of the streams */
            third = next->scale == 0.25f ? 2 : 0;
        }
    }
    ck_assert_uint_eq(sparse, 2);
    stream_free(s);
}
END_TEST

START_TEST(per_layer_embeddings_feed_every_layer)
{
    expect(fake_gemma4_e, false, 0, "PROJ ROPE_KV ATTN MATMUL NORM GATE_UP MATMUL NORM MATMUL ACT_MUL MATMUL NORM");
    expect(fake_gemma4_e, false, CMD_NO_LAYER, "EMBED MATMUL EMBED NORM GATHER MATMUL ARGMAX");
    struct stream *s = compile(fake_gemma4_e, false);
    gpu_va ple = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_norm *n = stream_args(s, i);
        const ka_act_mul *a = stream_args(s, i);
        if (s->cmds[i].op == CMD_NORM && n->group < n->n) {
            ck_assert_uint_eq(n->n, 4 * n->group);
            ck_assert(n->resid != 0 && SADDR_ARENA(n->w) == ARENA_CONST);
            ck_assert_float_eq_tol(((const float *)(s->consts + SADDR_OFF(n->w)))[1], 2 * sqrtf(0.5f), 1e-6f);
            ple = n->y;
        }
        if (s->cmds[i].op == CMD_ACT_MUL) {
            ck_assert_uint_eq(a->a, ple + 4ull * s->cmds[i].layer * a->n);
            ck_assert_uint_eq(a->lda, 4 * a->n);
        }
    }
    ck_assert(ple != 0);
    stream_free(s);
}
END_TEST

START_TEST(misfits_name_layer_and_tensor)
{
    struct graph_opts o = {.n_ctx = 64, .n_slots = 1, .row_cap = 1, .out_cap = 1};
    struct stream *s = NULL;
    struct err e = {0};
    fake_llama(&fake);
    for (uint32_t i = 0; i < fake.n_tensors; i++)
        if (strcmp(fake.names[i], "blk.1.ffn_down.weight") == 0)
            fake.tensors[i].ne[0] = 64;
    ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "layer 1"));
    ck_assert_ptr_nonnull(strstr(e.msg, "blk.1.ffn_down.weight"));
    fake_llama(&fake);
    fake.layers[0].wo = NULL;
    ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "layer 0"));
    fake_llama(&fake);
    o.n_slots = 65536;
    o.n_ctx = 1u << 28;
    ck_assert_int_eq(graph_compile(&fake.m, &o, &s, &e), -E2BIG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph commands");
    TCase *t = tcase_create("commands");
    tcase_add_test(t, a_dense_layer_is_six_commands);
    tcase_add_test(t, residuals_and_norms_ride_on_products);
    tcase_add_test(t, experts_route_and_shared_experts_scale);
    tcase_add_test(t, hybrid_layers_are_deltanet_or_gated_attention);
    tcase_add_test(t, gemma_norms_carry_the_residual);
    tcase_add_test(t, a_matrix_brings_its_number_with_it);
    tcase_add_test(t, numbers_beside_experts_reach_their_products);
    tcase_add_test(t, queries_are_scaled_by_the_position);
    tcase_add_test(t, without_fusion_every_op_is_a_command);
    tcase_add_test(t, a_prompts_last_layer_ends_on_the_output_rows);
    tcase_add_test(t, gemma4_scales_its_layers_and_shares_caches);
    tcase_add_test(t, gemma4_routes_by_a_norm_of_its_own);
    tcase_add_test(t, vectors_take_the_place_of_logits);
    tcase_add_test(t, gemma3n_carries_four_streams);
    tcase_add_test(t, per_layer_embeddings_feed_every_layer);
    tcase_add_test(t, misfits_name_layer_and_tensor);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
