/* oracle/check.c: hazards of a stream, found from what the commands compute and not from what lowering wrote down.
 * Each command's reads and writes are listed as rectangles in arenas, for the full row capacity; a command may
 * overlap a write (or write what is read) of an earlier one only when its `wait` covers that one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "oracle/cpu.h"

enum { MAX_AREAS = 24 };

/* rows of `bytes`, `stride` bytes apart */
struct area {
    gpu_va at;
    uint64_t bytes, stride, rows;
    bool write;
};

struct areas {
    struct area v[MAX_AREAS];
    uint32_t n;
};

static void area(struct areas *l, bool write, gpu_va at, uint64_t bytes, uint64_t stride, uint64_t rows)
{
    /* weights and constants are never written; absent parts have no address */
    if (!at || !rows || !bytes || SADDR_ARENA(at) == ARENA_WEIGHTS || SADDR_ARENA(at) == ARENA_CONST)
        return;
    if (stride == bytes) {
        bytes *= rows;
        rows = 1;
    }
    l->v[l->n++] = (struct area){ at, bytes, stride, rows, write };
}
#define READ(at, n, ld, rows)  area(l, false, at, 4ull * (n), 4ull * (ld), rows)
#define WRITE(at, n, ld, rows) area(l, true, at, 4ull * (n), 4ull * (ld), rows)
#define BYTES(w, at, n)        area(l, w, at, n, n, 1)

static uint64_t cap(const struct stream *s, uint32_t rows)
{
    return rows == ROWS_OUT ? s->h.out_cap : s->h.row_cap;
}

static void areas_of_matmul(struct areas *l, const struct stream *s, uint16_t op, const ka_matmul *a)
{
    uint64_t rows = cap(s, a->rows);
    READ(a->x, a->n_in, a->ldx, rows);
    READ(a->resid, a->n_out[0], a->ldr, rows);
    READ(a->scale, rows, rows, 1);
    for (uint32_t m = 0; m < (op == CMD_GATE_UP ? 1 : a->n_mats); m++)
        WRITE(a->y[m], a->n_out[m], a->ld[m], rows);
}

/* What STEP_OUT wrote. */
static void sub_step(struct areas *l, const struct stream *s, gpu_va step, uint32_t rows)
{
    if (rows == ROWS_OUT)
        BYTES(false, step, sizeof(ka_step) + s->h.out_cap * sizeof(ka_row));
}

static void areas_of_attention(struct areas *l, const struct stream *s, uint16_t op, const void *args)
{
    if (op == CMD_ROPE_KV) {
        const ka_rope_kv *a = args;
        uint64_t rows = cap(s, a->rows);
        sub_step(l, s, a->step, a->rows);
        uint64_t cache = a->n_ctx * KA_KV_BYTES(a->kv_type, (uint64_t)a->head_dim * a->n_kv);
        for (int write = 0; write < 2; write++) /* head by head: a gate may lie between the heads of q */
            area(l, write, a->q, 4ull * a->head_dim, 4ull * a->q_hs,
                 a->ldq % a->q_hs ? (uint64_t)a->n_head : rows * (a->ldq / a->q_hs));
        if (a->k) {
            READ(a->k, (uint64_t)a->n_kv * a->head_dim, a->ldk, rows);
            READ(a->v, (uint64_t)a->n_kv * a->head_dim, a->ldv, rows);
            area(l, true, a->kc, cache, a->slot_bytes, a->n_slots);
            area(l, true, a->vc, cache, a->slot_bytes, a->n_slots);
        }
        return;
    }
    const ka_attn *a = args;
    uint64_t rows = cap(s, a->rows);
    sub_step(l, s, a->step, a->rows);
    uint64_t cache = a->n_ctx * KA_KV_BYTES(a->kv_type, (uint64_t)a->head_dim * a->n_kv);
    uint64_t heads = a->ldq % a->q_hs ? (uint64_t)a->n_head : rows * (a->ldq / a->q_hs);
    area(l, false, a->q, 4ull * a->head_dim, 4ull * a->q_hs, heads);
    area(l, false, a->gate, 4ull * a->head_dim, 4ull * a->q_hs, heads);
    area(l, false, a->kc, cache, a->slot_bytes, a->n_slots);
    area(l, false, a->vc, cache, a->slot_bytes, a->n_slots);
    WRITE(a->y, (uint64_t)a->n_head * a->head_dim, (uint64_t)a->n_head * a->head_dim, rows);
}

static void areas_of_gdn(struct areas *l, const struct stream *s, const ka_gdn *a)
{
    uint64_t rows = s->h.row_cap, n = (uint64_t)(2 * a->n_k + a->n_v) * a->head_dim;
    uint64_t v = (uint64_t)a->n_v * a->head_dim;
    uint64_t ab = a->ab_group ? 2ull * a->n_v - a->ab_group : a->n_v;
    READ(a->qkv, n, n, rows);
    READ(a->z, v, v, rows);
    READ(a->alpha, ab, a->ab_ld, rows);
    READ(a->beta, ab, a->ab_ld, rows);
    WRITE(a->y, v, v, rows);
    WRITE(a->c, n, n, rows);
    area(l, true, a->conv, 4 * n * a->conv_kernel, a->conv_slot_bytes, a->n_slots);
    area(l, true, a->state, 4 * v * a->head_dim, a->state_slot_bytes, a->n_slots);
}

static void areas_of_experts(struct areas *l, const struct stream *s, uint16_t op, const void *args)
{
    uint64_t rows = s->h.row_cap;
    if (op == CMD_ROUTER) {
        const ka_router *a = args;
        READ(a->x, a->n_in, a->n_in, rows);
        WRITE(a->ids, a->k, a->k, rows);
        WRITE(a->weights, a->k, a->k, rows);
        WRITE(a->share, rows, rows, 1);
        WRITE(a->logits, a->n_expert, a->n_expert, rows);
    } else if (op == CMD_MOE_UP) {
        const ka_moe_up *a = args;
        READ(a->x, a->n_in, a->n_in, rows);
        READ(a->ids, a->k, a->k, rows);
        WRITE(a->y, (uint64_t)a->k * a->n_ff, (uint64_t)a->k * a->n_ff, rows);
    } else {
        const ka_moe_down *a = args;
        READ(a->x, (uint64_t)a->k * a->n_in, (uint64_t)a->k * a->n_in, rows);
        READ(a->ids, a->k, a->k, rows);
        READ(a->weights, a->k, a->k, rows);
        READ(a->resid, a->n_out, a->n_out, rows);
        WRITE(a->y, a->n_out, a->n_out, rows);
    }
}

static void areas_of_altup(struct areas *l, const struct stream *s, const ka_altup *a)
{
    uint64_t rows = cap(s, a->rows), rest = (KA_STREAMS - 1) * (uint64_t)a->n;
    READ(a->x0, a->n, a->n, rows);
    READ(a->x, rest, rest, rows);
    READ(a->m, KA_STREAMS, KA_STREAMS, rows);
    READ(a->a, a->n, a->n, rows);
    READ(a->add, a->n, a->n, rows);
    WRITE(a->y0, a->n, a->n, rows);
    WRITE(a->y, rest, rest, rows);
}

static void areas_of(struct areas *l, const struct stream *s, uint32_t cmd)
{
    const void *args = stream_args(s, cmd);
    uint16_t op = s->cmds[cmd].op;
    uint64_t rows = s->h.row_cap;
    l->n = 0;
    switch (op) {
    case CMD_EMBED: {
        const ka_embed *a = args;
        BYTES(false, SADDR(ARENA_IO, s->h.next_off), 4ull * s->h.out_cap);
        WRITE(a->y, a->n, a->n, rows);
        break;
    }
    case CMD_NORM: {
        const ka_norm *a = args;
        READ(a->x, a->n, a->n, cap(s, a->rows));
        READ(a->resid, a->n, a->n, cap(s, a->rows));
        WRITE(a->y, a->n, a->n, cap(s, a->rows));
        break;
    }
    case CMD_ADD: {
        const ka_add *a = args;
        READ(a->a, a->n, a->n, cap(s, a->rows));
        READ(a->b, a->n, a->n, cap(s, a->rows));
        WRITE(a->y, a->n, a->n, cap(s, a->rows));
        break;
    }
    case CMD_ACT_MUL: {
        const ka_act_mul *a = args;
        READ(a->x, a->n, a->n, cap(s, a->rows));
        READ(a->a, a->lda, a->n, cap(s, a->rows));
        WRITE(a->y, a->n, a->n, cap(s, a->rows));
        break;
    }
    case CMD_MATCH: {
        const ka_match *a = args;
        READ(a->x, a->n, a->n, cap(s, a->rows));
        READ(a->like, a->group, a->group, cap(s, a->rows));
        READ(a->resid, a->n, a->n, cap(s, a->rows));
        WRITE(a->y, a->n, a->n, cap(s, a->rows));
        break;
    }
    case CMD_ALTUP: areas_of_altup(l, s, args); break;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP: areas_of_matmul(l, s, op, args); break;
    case CMD_ROPE_KV:
    case CMD_ATTN: areas_of_attention(l, s, op, args); break;
    case CMD_GDN: areas_of_gdn(l, s, args); break;
    case CMD_ROUTER:
    case CMD_MOE_UP:
    case CMD_MOE_DOWN: areas_of_experts(l, s, op, args); break;
    case CMD_STEP_OUT: {
        const ka_step_out *a = args;
        BYTES(false, a->out_row, 4ull * s->h.out_cap);
        BYTES(true, a->y, sizeof(ka_step) + s->h.out_cap * sizeof(ka_row));
        break;
    }
    case CMD_GATHER: {
        const ka_gather *a = args;
        READ(a->x, a->n, a->n, rows);
        BYTES(false, a->out_row, 4ull * s->h.out_cap);
        WRITE(a->y, a->n, a->n, s->h.out_cap);
        break;
    }
    case CMD_ARGMAX: {
        const ka_argmax *a = args;
        READ(a->logits, a->n, a->n, s->h.out_cap);
        BYTES(false, a->sample, sizeof(ka_sample) * s->h.out_cap);
        BYTES(true, a->next, 4ull * s->h.out_cap);
        break;
    }
    default: break;
    }
}

static uint64_t end_of(const struct area *a)
{
    return a->at + (a->rows - 1) * a->stride + a->bytes;
}

static bool overlap(const struct area *a, const struct area *b)
{
    if (end_of(a) <= b->at || end_of(b) <= a->at)
        return false;
    if (a->rows == 1 || b->rows == 1 || a->stride != b->stride)
        return true; /* rectangles of different shapes: assume the worst */
    uint64_t d = (b->at - a->at) % a->stride; /* columns of one row stride */
    if (b->at < a->at)
        d = (a->stride - (a->at - b->at) % a->stride) % a->stride;
    return d < a->bytes || d + b->bytes > a->stride;
}

static void name_of(const struct stream *s, gpu_va at, char *out, size_t n)
{
    for (uint32_t i = 0; i < s->h.n_bufs; i++) {
        const struct stream_buf *b = &s->bufs[i];
        if (b->arena == SADDR_ARENA(at) && SADDR_OFF(at) >= b->off && SADDR_OFF(at) - b->off < b->bytes) {
            snprintf(out, n, "%s+%llu", stream_str(s, b->name), (unsigned long long)(SADDR_OFF(at) - b->off));
            return;
        }
    }
    snprintf(out, n, "arena %u+%llu", SADDR_ARENA(at), (unsigned long long)SADDR_OFF(at));
}

int cpu_check_hazards(const struct stream *s, char *msg, size_t msg_bytes)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct areas mine, other;
        areas_of(&mine, s, i);
        uint32_t wait = s->cmds[i].wait;
        for (uint32_t j = wait == CMD_NO_WAIT ? 0 : wait + 1; j < i; j++) {
            areas_of(&other, s, j);
            for (uint32_t a = 0; a < mine.n; a++)
                for (uint32_t b = 0; b < other.n; b++) {
                    const struct area *x = &mine.v[a], *y = &other.v[b];
                    if ((!x->write && !y->write) || !overlap(x, y))
                        continue;
                    char nx[96], ny[96];
                    name_of(s, x->at, nx, sizeof nx);
                    name_of(s, y->at, ny, sizeof ny);
                    snprintf(msg, msg_bytes,
                             "cpu: command %u (%s) %s %s while command %u (%s) may still %s %s: it waits for %d",
                             i, cmd_name(s->cmds[i].op), x->write ? "writes" : "reads", nx, j,
                             cmd_name(s->cmds[j].op), y->write ? "write" : "read", ny, (int)wait);
                    return -EIO;
                }
        }
    }
    return 0;
}
