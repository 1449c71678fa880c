/* The stream object: its one allocation, the words that a step patches, and what commands cost. */
#include "graph/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "graph/ir.h"
#include "kernels/fp.h"

/* ---- one allocation ---- */

void stream_sections(const struct stream *s, struct section out[STREAM_SECTIONS])
{
    const struct stream_head *h = &s->h;
    const struct section all[STREAM_SECTIONS] = {
        {s->cmds, (uint64_t)h->n_cmds * sizeof *s->cmds},
        {s->uses, (uint64_t)h->n_uses * sizeof *s->uses},
        {s->bufs, (uint64_t)h->n_bufs * sizeof *s->bufs},
        {s->weights, (uint64_t)h->n_weights * sizeof *s->weights},
        {s->patches, (uint64_t)h->n_patches * sizeof *s->patches},
        {s->args, h->args_bytes},
        {s->consts, h->const_bytes},
        {s->strs, h->str_bytes},
    };
    memcpy(out, all, sizeof all);
}

struct stream *stream_alloc(const struct stream_head *h)
{
    enum { LINE = 64 };
    struct section sec[STREAM_SECTIONS];
    uint64_t off[STREAM_SECTIONS], total = align_up(sizeof(struct stream), LINE);
    stream_sections(&(struct stream){.h = *h}, sec);
    for (int i = 0; i < STREAM_SECTIONS; i++) {
        off[i] = total;
        total += align_up(sec[i].bytes, LINE);
    }
    uint8_t *mem = aligned_alloc(LINE, total);
    if (!mem)
        return NULL;
    memset(mem, 0, total);
    struct stream *s = (struct stream *)mem;
    *s = (struct stream){.h = *h,
                         .cmds = (struct cmd *)(mem + off[0]),
                         .uses = (struct stream_use *)(mem + off[1]),
                         .bufs = (struct stream_buf *)(mem + off[2]),
                         .weights = (struct stream_weight *)(mem + off[3]),
                         .patches = (struct patch *)(mem + off[4]),
                         .args = mem + off[5],
                         .consts = mem + off[6],
                         .strs = (char *)(mem + off[7])};
    return s;
}

struct stream *stream_pack(const struct stream *parts)
{
    struct section from[STREAM_SECTIONS], to[STREAM_SECTIONS];
    struct stream *s = stream_alloc(&parts->h);
    if (!s)
        return NULL;
    stream_sections(parts, from);
    stream_sections(s, to);
    for (int i = 0; i < STREAM_SECTIONS; i++)
        if (from[i].bytes)
            memcpy(to[i].bytes_at, from[i].bytes_at, from[i].bytes);
    return s;
}

void stream_free(struct stream *s)
{
    free(s);
}

/* ---- hashes ---- */

uint64_t stream_hash(const void *bytes, uint64_t n, uint64_t seed)
{
    const uint8_t *p = bytes;
    uint64_t h = seed ? seed : 0xcbf29ce484222325ull;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

uint64_t stream_weights_hash(const struct stream_weight *w, uint32_t n, const char *strs)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = strs + w[i].name;
        h = stream_hash(name, strlen(name) + 1, h);
        h = stream_hash(&w[i].type, sizeof w[i].type, h);
        h = stream_hash(w[i].ne, sizeof w[i].ne, h);
        h = stream_hash(&w[i].part, sizeof w[i].part, h);
        h = stream_hash(&w[i].file_off, sizeof w[i].file_off, h);
    }
    return h;
}

/* ---- streams of some layers ---- */

uint64_t stream_residual(const struct stream *s)
{
    return stream_is_whole(s) ? 0 : align_up(step_bytes(s->h.row_cap, s->h.out_cap), STREAM_ALIGN);
}

uint64_t stream_vectors(const struct stream *s, uint32_t *n)
{
    uint64_t off = align_up(step_bytes(s->h.row_cap, s->h.out_cap), STREAM_ALIGN);
    if (!stream_is_whole(s) || s->h.logits_off)
        return 0;
    for (uint32_t i = 0; i < s->h.n_bufs; i++) {
        const struct stream_buf *b = &s->bufs[i];
        if (b->arena != ARENA_IO || b->off != off || strcmp(stream_str(s, b->name), "vectors") != 0)
            continue;
        if (n)
            *n = b->ld;
        return off;
    }
    return 0;
}

/* ---- patches ---- */

static uint32_t step_word(const struct step *step, enum sym sym, uint32_t i)
{
    switch (sym) {
    case SYM_N_ROWS: return step->n_rows;
    case SYM_N_OUT: return step->n_out;
    case SYM_KV_LEN: return step->kv_len;
    case SYM_TOKEN: return (uint32_t)step->rows[i].token;
    case SYM_POS: return step->rows[i].pos;
    case SYM_SLOT: return step->rows[i].slot;
    case SYM_OUT_ROW: return step->out_row[i];
    case SYM_TEMP: return step->sample ? f32_bits(step->sample[i].temp) : 0; /* 0: greedy */
    case SYM_TOP_K: return step->sample[i].top_k;
    case SYM_TOP_P: return f32_bits(step->sample[i].top_p);
    case SYM_MIN_P: return f32_bits(step->sample[i].min_p);
    case SYM_SEED: return step->sample[i].seed;
    case SYM_COUNTER: return step->sample[i].counter;
    case SYM_QUIET: return step->sample ? step->sample[i].quiet : 0;
    case SYM_COUNT: break;
    }
    return PATCH_UNSET;
}

/* Words of a symbol that this step says. */
static uint32_t step_words(const struct step *step, enum sym sym)
{
    switch (sym) {
    case SYM_TOKEN:
    case SYM_POS:
    case SYM_SLOT: return step->n_rows;
    case SYM_OUT_ROW:
    case SYM_TEMP:
    case SYM_QUIET: return step->n_out;
    case SYM_TOP_K:
    case SYM_TOP_P:
    case SYM_MIN_P:
    case SYM_SEED:
    case SYM_COUNTER: return step->sample ? step->n_out : 0;
    default: return 1;
    }
}

uint32_t stream_patch(uint8_t *io, const struct stream *s, const struct step *step)
{
    uint32_t words = 0;
    for (uint32_t i = 0; i < s->h.n_patches; i++) {
        const struct patch *p = &s->patches[i];
        uint32_t n = MIN(p->count, step_words(step, p->sym));
        for (uint32_t j = 0; j < n; j++) {
            uint32_t w = step_word(step, p->sym, j);
            memcpy(io + p->off + (uint64_t)j * p->stride, &w, sizeof w);
        }
        words += n;
    }
    return words;
}

/* ---- cost ---- */

/* Experts are read once each, however many rows choose them. */
static uint64_t clamp_to_experts(const struct stream *s, uint32_t i, uint64_t per_row, uint64_t bytes)
{
    uint32_t n_expert = 0, k = 0;
    if (s->cmds[i].op == CMD_MOE_UP) {
        const ka_moe_up *a = stream_args(s, i);
        n_expert = a->n_expert;
        k = a->k;
    } else if (s->cmds[i].op == CMD_MOE_DOWN) {
        const ka_moe_down *a = stream_args(s, i);
        n_expert = a->n_expert;
        k = a->k;
    }
    return k ? MIN(bytes, per_row / k * n_expert) : bytes;
}

/* Commands on output rows: what follows GATHER. */
static bool on_output_rows(const struct stream *s, uint32_t i)
{
    switch (s->cmds[i].op) {
    case CMD_GATHER:
    case CMD_STEP_OUT:
    case CMD_ARGMAX: return true;
    case CMD_ROPE_KV: return ((const ka_rope_kv *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_ATTN: return ((const ka_attn *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_NORM: return ((const ka_norm *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_ADD: return ((const ka_add *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_ACT_MUL: return ((const ka_act_mul *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_MATCH: return ((const ka_match *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_ALTUP: return ((const ka_altup *)stream_args(s, i))->rows == ROWS_OUT;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP: return ((const ka_matmul *)stream_args(s, i))->rows == ROWS_OUT;
    default: return false;
    }
}

void stream_cmd_cost(const struct stream *s, uint32_t i, uint32_t n_rows, uint32_t kv_len, uint64_t *bytes,
                     uint64_t *flops)
{
    const struct cmd *c = &s->cmds[i];
    uint64_t rows = on_output_rows(s, i) ? MIN(n_rows, s->h.out_cap) : n_rows, seen = kv_len;
    if (c->op == CMD_ATTN) {
        uint32_t window = ((const ka_attn *)stream_args(s, i))->window;
        seen = window ? MIN(kv_len, window) : kv_len;
    }
    *bytes = c->flags & CMD_BYTES_PER_ROW ? clamp_to_experts(s, i, c->bytes, c->bytes * rows) : rows ? c->bytes : 0;
    *bytes += rows * seen * c->kv_bytes;
    *flops = rows * (c->flops + seen * c->kv_flops);
}

static const char *const kv_names[KA_KV_COUNT] = KA_KV_NAMES;

enum ka_kv stream_kv_find(const char *name, size_t n)
{
    uint32_t i = 0;
    while (i < KA_KV_COUNT && (strlen(kv_names[i]) != n || memcmp(kv_names[i], name, n) != 0))
        i++;
    return i;
}

const char *stream_kv_name(uint32_t kv_type)
{
    return kv_type < KA_KV_COUNT ? kv_names[kv_type] : "?";
}
