/* What a command writes, as rows of numbers that can be read and compared. */
#include "engine/outputs.h"

#include <stddef.h>

#include "base/check.h"

struct writer {
    const struct stream *s;
    const struct cmd *c;
    struct output *out;
    uint32_t n, cmd;
    uint32_t n_rows, n_out;
};

static void put(struct writer *w, size_t field_off, enum ka_rows rows, uint32_t cols, uint32_t ld, bool ints)
{
    for (uint32_t i = 0; i < w->c->n_uses; i++) {
        const struct stream_use *u = &w->s->uses[w->c->first_use + i];
        if (u->field_off != field_off)
            continue;
        const struct stream_buf *b = &w->s->bufs[u->buf];
        CHECK(w->n < MAX_OUTPUTS);
        w->out[w->n++] = (struct output){ .cmd = w->cmd,
                                          .name = stream_str(w->s, b->name),
                                          .arena = (enum arena)b->arena,
                                          .off = b->off + u->off,
                                          .rows = rows == ROWS_OUT ? w->n_out : w->n_rows,
                                          .cols = cols,
                                          .ld = ld,
                                          .ints = ints };
        return;
    }
}

#define F32(w, type, field, rows, cols, ld) put(w, offsetof(type, field), (enum ka_rows)(rows), cols, ld, false)
#define I32(w, type, field, rows, cols, ld) put(w, offsetof(type, field), (enum ka_rows)(rows), cols, ld, true)

static void products(struct writer *w, const ka_matmul *a)
{
    uint32_t n = w->c->op == CMD_PROJ ? a->n_mats : 1;
    for (uint32_t i = 0; i < n; i++)
        put(w, offsetof(ka_matmul, y) + i * sizeof(gpu_va), (enum ka_rows)a->rows, a->n_out[i], a->ld[i], false);
}

uint32_t cmd_outputs(const struct stream *s, uint32_t cmd, uint32_t n_rows, uint32_t n_out,
                     struct output out[MAX_OUTPUTS])
{
    struct writer w = { .s = s, .c = &s->cmds[cmd], .out = out, .cmd = cmd, .n_rows = n_rows, .n_out = n_out };
    const void *args = stream_args(s, cmd);
    switch ((enum cmd_op)w.c->op) {
    case CMD_EMBED: {
        const ka_embed *a = args;
        F32(&w, ka_embed, y, ROWS_STEP, a->n, a->n);
        break;
    }
    case CMD_NORM: {
        const ka_norm *a = args;
        F32(&w, ka_norm, y, a->rows, a->n, a->n);
        break;
    }
    case CMD_ADD: {
        const ka_add *a = args;
        F32(&w, ka_add, y, a->rows, a->n, a->n);
        break;
    }
    case CMD_ACT_MUL: {
        const ka_act_mul *a = args;
        F32(&w, ka_act_mul, y, a->rows, a->n, a->n);
        break;
    }
    case CMD_MATCH: {
        const ka_match *a = args;
        F32(&w, ka_match, y, a->rows, a->n, a->n);
        break;
    }
    case CMD_ALTUP: {
        const ka_altup *a = args;
        F32(&w, ka_altup, y0, a->rows, a->n, a->n);
        F32(&w, ka_altup, y, a->rows, (KA_STREAMS - 1) * a->n, (KA_STREAMS - 1) * a->n);
        break;
    }
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP:
        products(&w, args);
        break;
    case CMD_ROPE_KV: { /* the caches are in the tier's own order */
        const ka_rope_kv *a = args;
        F32(&w, ka_rope_kv, q, a->rows, (a->n_head - 1) * a->q_hs + a->head_dim, a->ldq);
        break;
    }
    case CMD_ATTN: {
        const ka_attn *a = args;
        F32(&w, ka_attn, y, a->rows, a->n_head * a->head_dim, a->n_head * a->head_dim);
        break;
    }
    case CMD_GDN: {
        const ka_gdn *a = args;
        F32(&w, ka_gdn, y, ROWS_STEP, a->n_v * a->head_dim, a->n_v * a->head_dim);
        break;
    }
    case CMD_ROUTER: {
        const ka_router *a = args;
        /* not its logits: a tier may turn them into probabilities in place */
        I32(&w, ka_router, ids, ROWS_STEP, a->k, a->k);
        F32(&w, ka_router, weights, ROWS_STEP, a->k, a->k);
        F32(&w, ka_router, share, ROWS_STEP, 1, 1);
        break;
    }
    case CMD_MOE_UP: {
        const ka_moe_up *a = args;
        F32(&w, ka_moe_up, y, ROWS_STEP, a->k * a->n_ff, a->k * a->n_ff);
        break;
    }
    case CMD_MOE_DOWN: {
        const ka_moe_down *a = args;
        F32(&w, ka_moe_down, y, ROWS_STEP, a->n_out, a->n_out);
        break;
    }
    case CMD_GATHER: {
        const ka_gather *a = args;
        F32(&w, ka_gather, y, ROWS_OUT, a->n, a->n);
        break;
    }
    case CMD_ARGMAX:
        I32(&w, ka_argmax, next, ROWS_OUT, 1, 1);
        break;
    case CMD_STEP_OUT: /* part of the step, not of the model */
    case CMD_NOP:
    case CMD_COUNT:
        break;
    }
    return w.n;
}
