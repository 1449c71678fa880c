/* Commands against the rules of kernels/kargs.h: every address is one use, inside its buffer for the full capacity of
 * rows, of the type that its weight has; outputs do not run into inputs; the step block is written by nobody but
 * ARGMAX. */
#include "graph/verify.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "graph/fields.h"
#include "graph/ir.h"

/* One command under examination. Errors are sticky: the first one stays. */
struct check {
    const struct stream *s;
    const struct cmd *c;
    uint32_t index;
    bool has_sub_step;  /* a STEP_OUT came before */
    struct extent *ext; /* [n_uses of the command] */
    uint32_t looked_at; /* bit per 8 bytes of arguments: addresses that the rules cover */
    int rc;
    struct err *e;
};

__attribute__((cold, format(printf, 2, 3))) static void bad(struct check *k, const char *fmt, ...)
{
    char msg[300];
    va_list ap;
    if (k->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    k->rc = err_set(k->e, -EINVAL, "stream: command %u %s: %s", k->index, cmd_name(k->c->op), msg);
}

/* ---- numbers ---- */

static void want(struct check *k, const char *field, uint64_t got, uint64_t expected)
{
    if (got != expected)
        bad(k, "%s is %llu, expected %llu", field, (unsigned long long)got, (unsigned long long)expected);
}

static void range(struct check *k, const char *field, uint64_t got, uint64_t lo, uint64_t hi)
{
    if (got < lo || got > hi)
        bad(k, "%s is %llu, expected %llu..%llu", field, (unsigned long long)got, (unsigned long long)lo,
            (unsigned long long)hi);
}

static void count(struct check *k, const char *field, uint64_t got)
{
    range(k, field, got, 1, INT32_MAX);
}

static void divides(struct check *k, const char *field, uint64_t got, uint64_t by)
{
    if (by == 0 || got % by != 0)
        bad(k, "%s is %llu, expected a multiple of %llu", field, (unsigned long long)got, (unsigned long long)by);
}

static void is_number(struct check *k, const char *field, float got)
{
    if (!isfinite(got))
        bad(k, "%s is %g", field, (double)got);
}

/* ---- addresses ---- */

/* The extent of the address at byte `off` of the arguments; NULL: the address is 0. */
static struct extent *look(struct check *k, size_t off)
{
    k->looked_at |= 1u << off / 8;
    for (uint32_t i = 0; i < k->c->n_uses; i++)
        if (k->ext[i].field_off == off)
            return &k->ext[i];
    return NULL;
}

static const struct stream_use *use_of(const struct check *k, const struct extent *x)
{
    return &k->s->uses[k->c->first_use + (x - k->ext)];
}

static const struct stream_buf *buf_of(const struct check *k, const struct extent *x)
{
    return &k->s->bufs[use_of(k, x)->buf];
}

static const char *buf_name(const struct check *k, const struct extent *x)
{
    return stream_str(k->s, buf_of(k, x)->name);
}

static const char *field_name(const struct check *k, size_t off)
{
    const struct field *f = cmd_find_address(k->c->op, (uint32_t)off);
    return f ? f->name : "?";
}

/* Address `off`: n rows of `width` bytes, ld bytes apart, inside one buffer. NULL: 0, or wrong. */
static struct extent *rows_at(struct check *k, size_t off, bool optional, uint64_t n, uint64_t ld, uint64_t width)
{
    struct extent *x = look(k, off);
    uint64_t bytes;
    if (!x && !optional)
        bad(k, "%s is 0", field_name(k, off));
    if (!x || k->rc)
        return NULL;
    const struct stream_buf *b = buf_of(k, x);
    uint64_t at = use_of(k, x)->off;
    if (ld < width && n > 1) {
        bad(k, "%s: rows of %llu bytes lie %llu apart", field_name(k, off), (unsigned long long)width,
            (unsigned long long)ld);
        return NULL;
    }
    if (!ckd_mul_u64(n - 1, ld, &bytes) || !ckd_add_u64(bytes, width, &bytes) || bytes > b->bytes - at) {
        bad(k, "%s: %llu rows of %llu bytes, %llu apart, at %llu, pass the end of '%s', %llu bytes",
            field_name(k, off), (unsigned long long)n, (unsigned long long)width, (unsigned long long)ld,
            (unsigned long long)at, buf_name(k, x), (unsigned long long)b->bytes);
        return NULL;
    }
    x->end = x->at + bytes;
    x->width = width;
    x->ld = n > 1 ? ld : 0;
    return x;
}

/* The same for rows of 4-byte elements, aligned to 4. */
static struct extent *words_at(struct check *k, size_t off, bool optional, uint64_t n, uint64_t ld, uint64_t width)
{
    struct extent *x = rows_at(k, off, optional, n, ld, width);
    if (!x || x->at % 4 == 0)
        return x;
    bad(k, "%s: byte %llu of '%s' is not aligned to 4", field_name(k, off), (unsigned long long)use_of(k, x)->off,
        buf_name(k, x));
    return NULL;
}

/* Activations: f32 or i32 [n, width], ld elements apart, in scratch or, behind the step block, in io. */
static void acts(struct check *k, size_t off, bool optional, uint64_t n, uint64_t ld, uint64_t width)
{
    const struct extent *x = words_at(k, off, optional, n, ld * 4, width * 4);
    uint64_t step = step_bytes(k->s->h.row_cap, k->s->h.out_cap);
    if (!x || x->at >> 56 == ARENA_SCRATCH + 1 || (x->at >> 56 == ARENA_IO + 1 && SADDR_OFF(x->at) >= step))
        return;
    bad(k, "%s: '%s' is no place for activations", field_name(k, off), buf_name(k, x));
}

/* Per-slot memory in the KV or state arena. */
static void slots(struct check *k, size_t off, enum arena a, uint64_t slot_bytes, uint64_t used)
{
    if (slot_bytes < used || slot_bytes % STREAM_ALIGN != 0) {
        bad(k, "%s: slots of %llu bytes, expected a multiple of %d from %llu", field_name(k, off),
            (unsigned long long)slot_bytes, STREAM_ALIGN, (unsigned long long)used);
        return;
    }
    const struct extent *x = words_at(k, off, false, k->s->h.n_slots, slot_bytes, used);
    if (x && SADDR_ARENA(x->at) != (uint32_t)a)
        bad(k, "%s: '%s' lies in arena %u, expected %u", field_name(k, off), buf_name(k, x), SADDR_ARENA(x->at),
            (uint32_t)a);
}

/* f32 [n] of a norm, a bias, a table: in an F32 weight or among the constants. */
static void vec(struct check *k, size_t off, bool optional, uint64_t n)
{
    const struct extent *x = words_at(k, off, optional, 1, 0, n * 4);
    if (!x || SADDR_ARENA(x->at) == ARENA_CONST)
        return;
    if (SADDR_ARENA(x->at) != ARENA_WEIGHTS || k->s->weights[buf_of(k, x)->weight].type != QT_F32)
        bad(k, "%s: '%s' is no F32 weight and no constant", field_name(k, off), buf_name(k, x));
}

/* n_experts matrices of n_rows rows [n_in] of `type`, `stride` bytes apart, all inside one weight with such rows. */
static void matrices(struct check *k, size_t off, uint64_t n_experts, uint64_t stride, uint32_t type, uint64_t n_in,
                     uint64_t n_rows)
{
    uint32_t block = qtype_block(type);
    uint64_t row = qtype_row_bytes(type, n_in), used;
    if (block == 0 || n_in == 0 || n_in % block != 0) {
        bad(k, "%s: rows of %llu elements of type %u '%s', blocks of %u", field_name(k, off),
            (unsigned long long)n_in, type, qtype_name(type), block);
        return;
    }
    const struct extent *x = look(k, off);
    if (!x)
        bad(k, "%s is 0", field_name(k, off));
    if (k->rc)
        return;
    const struct stream_weight *w =
        SADDR_ARENA(x->at) == ARENA_WEIGHTS ? &k->s->weights[buf_of(k, x)->weight] : NULL;
    if (!w || w->type != type || w->ne[0] != n_in || use_of(k, x)->off % row != 0 || stride % row != 0) {
        bad(k, "%s: '%s' at byte %llu is no matrix with rows of %llu elements of %s", field_name(k, off),
            buf_name(k, x), (unsigned long long)use_of(k, x)->off, (unsigned long long)n_in, qtype_name(type));
        return;
    }
    if (!ckd_mul_u64(row, n_rows, &used))
        used = UINT64_MAX;
    rows_at(k, off, false, n_experts, stride, used); /* rows have any alignment inside a tensor */
}

/* ---- one function per command ---- */

#define AT(type, field) offsetof(type, field)

static uint64_t rows_of(struct check *k, uint32_t rows)
{
    range(k, "rows", rows, ROWS_STEP, ROWS_OUT);
    return rows == ROWS_OUT ? k->s->h.out_cap : k->s->h.row_cap;
}

/* The step block is the start of io. */
/* The step block is the start of io; of ROPE_KV and ATTN on output rows what an earlier STEP_OUT wrote. */
static void check_step(struct check *k, const void *args)
{
    const struct stream_head *h = &k->s->h;
    uint64_t at = 0, n = step_next_off(h->row_cap, h->out_cap);
    if (k->c->op == CMD_EMBED) /* reads the tokens that ARGMAX left */
        n = step_sub_off(h->row_cap, h->out_cap);
    if ((k->c->op == CMD_ROPE_KV && ((const ka_rope_kv *)args)->rows == ROWS_OUT) ||
        (k->c->op == CMD_ATTN && ((const ka_attn *)args)->rows == ROWS_OUT)) {
        at = step_sub_off(h->row_cap, h->out_cap);
        n = step_bytes(h->row_cap, h->out_cap) - at;
        if (!k->has_sub_step)
            bad(k, "rows of the output, but no STEP_OUT before");
    }
    const struct extent *x = rows_at(k, 0, false, 1, 0, n);
    if (x && x->at != SADDR(ARENA_IO, at))
        bad(k, at ? "step is not what STEP_OUT writes" : "step is not the start of the io arena");
}

static void check_embed(struct check *k, const ka_embed *a)
{
    count(k, "n", a->n);
    want(k, "n_vocab", a->n_vocab, k->s->h.n_vocab);
    is_number(k, "scale", a->scale);
    acts(k, AT(ka_embed, y), false, k->s->h.row_cap, a->n, a->n);
    matrices(k, AT(ka_embed, w), 1, 0, a->type, a->n, a->n_vocab);
}

static void check_norm(struct check *k, const ka_norm *a)
{
    uint64_t rows = rows_of(k, a->rows);
    count(k, "n", a->n);
    count(k, "group", a->group);
    if (a->group && a->n % a->group)
        bad(k, "groups of %u in rows of %u", a->group, a->n);
    is_number(k, "eps", a->eps);
    acts(k, AT(ka_norm, y), false, rows, a->n, a->n);
    acts(k, AT(ka_norm, x), false, rows, a->n, a->n);
    vec(k, AT(ka_norm, w), true, a->group);
    acts(k, AT(ka_norm, resid), true, rows, a->n, a->n);
    vec(k, AT(ka_norm, out_scale), true, 1);
}

static void check_add(struct check *k, const ka_add *a)
{
    uint64_t rows = rows_of(k, a->rows);
    count(k, "n", a->n);
    acts(k, AT(ka_add, y), false, rows, a->n, a->n);
    acts(k, AT(ka_add, a), false, rows, a->n, a->n);
    acts(k, AT(ka_add, b), false, rows, a->n, a->n);
    vec(k, AT(ka_add, out_scale), true, 1);
}

static void check_act_mul(struct check *k, const ka_act_mul *a)
{
    uint64_t rows = rows_of(k, a->rows);
    count(k, "n", a->n);
    range(k, "act", a->act, KA_SILU, KA_SWIGLU_OAI);
    acts(k, AT(ka_act_mul, y), false, rows, a->n, a->n);
    acts(k, AT(ka_act_mul, x), false, rows, a->n, a->n);
    acts(k, AT(ka_act_mul, a), false, rows, a->lda, a->n);
    range(k, "sparse", a->sparse, 0, 1);
    is_number(k, "cut", a->cut);
}

static void check_match(struct check *k, const ka_match *a)
{
    uint64_t rows = rows_of(k, a->rows);
    count(k, "n", a->n);
    count(k, "group", a->group);
    divides(k, "n", a->n, a->group);
    is_number(k, "scale", a->scale);
    acts(k, AT(ka_match, y), false, rows, a->n, a->n);
    acts(k, AT(ka_match, x), false, rows, a->n, a->n);
    acts(k, AT(ka_match, like), false, rows, a->group, a->group);
    acts(k, AT(ka_match, resid), true, rows, a->n, a->n);
}

static void check_altup(struct check *k, const ka_altup *a)
{
    uint64_t rows = rows_of(k, a->rows), rest = (KA_STREAMS - 1) * (uint64_t)a->n;
    bool predict = a->form == KA_ALTUP_PREDICT, first = a->form == KA_ALTUP_FIRST;
    count(k, "n", a->n);
    range(k, "form", a->form, KA_ALTUP_PREDICT, KA_ALTUP_FIRST);
    is_number(k, "m_scale", a->m_scale);
    acts(k, AT(ka_altup, y0), false, rows, a->n, a->n);
    acts(k, AT(ka_altup, x0), false, rows, a->n, a->n);
    acts(k, AT(ka_altup, m), false, rows, KA_STREAMS, KA_STREAMS);
    vec(k, AT(ka_altup, w), false, KA_STREAMS * (predict ? KA_STREAMS * KA_STREAMS : KA_STREAMS));
    if (!first) {
        acts(k, AT(ka_altup, y), false, rows, rest, rest);
        acts(k, AT(ka_altup, x), false, rows, rest, rest);
    }
    if (!predict)
        acts(k, AT(ka_altup, a), false, rows, a->n, a->n);
    if (first)
        vec(k, AT(ka_altup, scale), false, a->n);
    if (!first && !predict)
        acts(k, AT(ka_altup, add), false, rows, a->n, a->n);
}

static void check_matmul(struct check *k, const ka_matmul *a)
{
    uint64_t rows = rows_of(k, a->rows);
    uint32_t op = k->c->op;
    bool plain = op == CMD_MATMUL;
    range(k, "n_mats", a->n_mats, plain ? 1 : 2, plain ? 1 : op == CMD_GATE_UP ? 2 : 4);
    count(k, "n_in", a->n_in);
    range(k, "act", a->act, 0, op == CMD_GATE_UP ? KA_SWIGLU_OAI : 0);
    is_number(k, "eps", a->eps);
    is_number(k, "softcap", a->softcap);
    if (!plain && a->softcap != 0)
        bad(k, "softcap beside several matrices");
    if (k->rc)
        return;
    acts(k, AT(ka_matmul, x), false, rows, a->ldx, a->n_in);
    vec(k, AT(ka_matmul, norm), true, a->n_in);
    if (plain) {
        acts(k, AT(ka_matmul, resid), true, rows, a->ldr, a->n_out[0]);
        acts(k, AT(ka_matmul, scale), true, rows, 1, 1);
    }
    if (!a->resid)
        want(k, "ldr without a residual", a->ldr, 0);
    for (uint32_t i = a->n_mats; i < 4; i++)
        want(k, "n_out, type or ld behind n_mats", a->n_out[i] | a->type[i] | a->ld[i], 0);
    for (uint32_t i = 0; i < a->n_mats; i++) {
        count(k, "n_out", a->n_out[i]);
        if (op != CMD_GATE_UP || i == 0)
            acts(k, AT(ka_matmul, y) + 8 * i, false, rows, a->ld[i], a->n_out[i]);
        else
            want(k, "ld of up", a->ld[i], 0);
        if (op == CMD_GATE_UP)
            want(k, "n_out", a->n_out[i], a->n_out[0]);
        matrices(k, AT(ka_matmul, w) + 8 * i, 1, 0, a->type[i], a->n_in, a->n_out[i]);
        vec(k, AT(ka_matmul, wscale) + 8 * i, true, 1);
        vec(k, AT(ka_matmul, b) + 8 * i, true, a->n_out[i]);
    }
}

static void check_heads(struct check *k, uint32_t n_head, uint32_t n_kv, uint32_t head_dim, uint32_t q_hs,
                        uint32_t n_ctx, uint32_t n_slots, uint32_t kv_type)
{
    range(k, "head_dim", head_dim, 1, STREAM_MAX_HEAD_DIM);
    count(k, "n_head", n_head);
    count(k, "n_kv", n_kv);
    divides(k, "n_head", n_head, n_kv);
    range(k, "q_hs", q_hs, head_dim, INT32_MAX);
    count(k, "n_head * head_dim", (uint64_t)n_head * head_dim);
    want(k, "n_ctx", n_ctx, k->s->h.n_ctx);
    want(k, "n_slots", n_slots, k->s->h.n_slots);
    if (kv_type != KA_KV_F16) /* which a layer may have in place of the others' */
        want(k, "kv_type", kv_type, k->s->h.kv_type);
    if (KA_KV_IS_BLOCKS(kv_type))
        divides(k, "head_dim with a cache in blocks (q8_0, q4_0, rot4)", head_dim, KA_KV_BLOCK);
}

/* Bytes of a slot's K, or V. */
static uint64_t cache_bytes(const struct check *k, uint32_t n_kv, uint32_t head_dim, uint32_t kv_type)
{
    uint64_t n = KA_KV_BYTES(kv_type, (uint64_t)n_kv * head_dim);
    return ckd_mul_u64(n, k->s->h.n_ctx, &n) ? n : UINT64_MAX;
}

static void check_rope_kv(struct check *k, const ka_rope_kv *a)
{
    uint64_t rows = rows_of(k, a->rows), kv_dim = (uint64_t)a->n_kv * a->head_dim;
    check_heads(k, a->n_head, a->n_kv, a->head_dim, a->q_hs, a->n_ctx, a->n_slots, a->kv_type);
    range(k, "n_rot", a->n_rot, 2, a->head_dim);
    divides(k, "n_rot", a->n_rot, 2);
    range(k, "rope", a->rope, KA_ROPE_NORM, KA_ROPE_NEOX);
    range(k, "v_norm", a->v_norm, 0, 1);
    if (a->rows == ROWS_OUT && (a->k || a->v))
        bad(k, "k and v of output rows alone");
    is_number(k, "mscale", a->mscale);
    is_number(k, "eps", a->eps);
    range(k, "q_every", a->q_every, a->q_scale ? 1 : 0, a->q_scale ? INT32_MAX : 0);
    if (k->rc)
        return;
    if (a->q_scale)
        vec(k, AT(ka_rope_kv, q_scale), false, (k->s->h.n_ctx - 1) / a->q_every + 1);
    acts(k, AT(ka_rope_kv, q), false, rows, a->ldq, (uint64_t)(a->n_head - 1) * a->q_hs + a->head_dim);
    vec(k, AT(ka_rope_kv, q_norm), true, a->head_dim);
    vec(k, AT(ka_rope_kv, inv_freq), false, a->n_rot / 2);
    if (!a->k && !a->v) { /* reads another layer's cache: kc, vc and k_norm must be 0 */
        want(k, "ldk, ldv or slot_bytes without k and v", a->ldk | a->ldv | a->slot_bytes, 0);
        return;
    }
    acts(k, AT(ka_rope_kv, k), false, rows, a->ldk, kv_dim);
    acts(k, AT(ka_rope_kv, v), false, rows, a->ldv, kv_dim);
    slots(k, AT(ka_rope_kv, kc), ARENA_KV, a->slot_bytes, cache_bytes(k, a->n_kv, a->head_dim, a->kv_type));
    slots(k, AT(ka_rope_kv, vc), ARENA_KV, a->slot_bytes, cache_bytes(k, a->n_kv, a->head_dim, a->kv_type));
    vec(k, AT(ka_rope_kv, k_norm), true, a->head_dim);
}

static void check_attn(struct check *k, const ka_attn *a)
{
    uint64_t rows = rows_of(k, a->rows), y_dim = (uint64_t)a->n_head * a->head_dim;
    check_heads(k, a->n_head, a->n_kv, a->head_dim, a->q_hs, a->n_ctx, a->n_slots, a->kv_type);
    is_number(k, "scale", a->scale);
    if (k->rc)
        return;
    uint64_t q_dim = (uint64_t)(a->n_head - 1) * a->q_hs + a->head_dim;
    acts(k, AT(ka_attn, y), false, rows, y_dim, y_dim);
    acts(k, AT(ka_attn, q), false, rows, a->ldq, q_dim);
    acts(k, AT(ka_attn, gate), true, rows, a->ldq, q_dim);
    slots(k, AT(ka_attn, kc), ARENA_KV, a->slot_bytes, cache_bytes(k, a->n_kv, a->head_dim, a->kv_type));
    slots(k, AT(ka_attn, vc), ARENA_KV, a->slot_bytes, cache_bytes(k, a->n_kv, a->head_dim, a->kv_type));
    vec(k, AT(ka_attn, sinks), true, a->n_head);
}

static void check_gdn(struct check *k, const ka_gdn *a)
{
    uint64_t rows = k->s->h.row_cap;
    range(k, "head_dim", a->head_dim, 1, STREAM_MAX_HEAD_DIM);
    range(k, "conv_kernel", a->conv_kernel, 1, STREAM_MAX_CONV_KERNEL);
    range(k, "n_k", a->n_k, 1, 1 << 16);
    range(k, "n_v", a->n_v, 1, 1 << 16);
    divides(k, "n_v", a->n_v, a->n_k);
    range(k, "heads", a->heads, KA_GDN_MODULO, KA_GDN_GROUPED);
    want(k, "n_slots", a->n_slots, k->s->h.n_slots);
    is_number(k, "eps", a->eps);
    if (k->rc)
        return;
    uint64_t r = a->n_v / a->n_k, value = (uint64_t)a->n_v * a->head_dim;
    uint64_t conv = 2ull * a->n_k * a->head_dim + value, ab = a->ab_group ? 2ull * a->n_v - r : a->n_v;
    if (a->ab_group) {
        want(k, "ab_group", a->ab_group, r);
        want(k, "alpha", a->alpha, a->beta + 4 * r);
        want(k, "heads", a->heads, KA_GDN_GROUPED);
    }
    count(k, "channels", conv);
    acts(k, AT(ka_gdn, y), false, rows, value, value);
    acts(k, AT(ka_gdn, qkv), false, rows, conv, conv);
    acts(k, AT(ka_gdn, z), false, rows, value, value);
    acts(k, AT(ka_gdn, alpha), false, rows, a->ab_ld, ab);
    acts(k, AT(ka_gdn, beta), false, rows, a->ab_ld, ab);
    acts(k, AT(ka_gdn, c), false, rows, conv, conv);
    slots(k, AT(ka_gdn, conv), ARENA_STATE, a->conv_slot_bytes, a->conv_kernel * conv * 4);
    slots(k, AT(ka_gdn, state), ARENA_STATE, a->state_slot_bytes, value * a->head_dim * 4);
    vec(k, AT(ka_gdn, conv_w), false, conv * a->conv_kernel);
    vec(k, AT(ka_gdn, dt), false, a->n_v);
    vec(k, AT(ka_gdn, a), false, a->n_v);
    vec(k, AT(ka_gdn, norm), false, a->head_dim);
}

static void check_experts(struct check *k, uint32_t n_expert, uint32_t used)
{
    range(k, "n_expert", n_expert, 1, STREAM_MAX_EXPERTS);
    range(k, "k", used, 1, n_expert);
}

static void check_router(struct check *k, const ka_router *a)
{
    uint64_t rows = k->s->h.row_cap;
    check_experts(k, a->n_expert, a->k);
    count(k, "n_in", a->n_in);
    range(k, "gating", a->gating, KA_SOFTMAX_TOPK, KA_TOPK_SOFTMAX);
    is_number(k, "scale", a->scale);
    is_number(k, "eps", a->eps);
    acts(k, AT(ka_router, ids), false, rows, a->k, a->k);
    acts(k, AT(ka_router, weights), false, rows, a->k, a->k);
    acts(k, AT(ka_router, logits), false, rows, a->n_expert, a->n_expert);
    acts(k, AT(ka_router, x), false, rows, a->n_in, a->n_in);
    vec(k, AT(ka_router, norm), true, a->n_in);
    matrices(k, AT(ka_router, w), 1, 0, a->type, a->n_in, a->n_expert);
    vec(k, AT(ka_router, b), true, a->n_expert);
    vec(k, AT(ka_router, expert_scale), true, a->n_expert);
    if (!a->shared_w && !a->share)
        return;
    acts(k, AT(ka_router, share), false, rows, 1, 1);
    vec(k, AT(ka_router, shared_w), false, a->n_in);
}

static void check_moe_up(struct check *k, const ka_moe_up *a)
{
    uint64_t rows = k->s->h.row_cap;
    check_experts(k, a->n_expert, a->k);
    count(k, "n_in", a->n_in);
    count(k, "n_ff", a->n_ff);
    range(k, "act", a->act, KA_SILU, KA_SWIGLU_OAI);
    is_number(k, "eps", a->eps);
    if (k->rc)
        return;
    uint64_t y_dim = (uint64_t)a->k * a->n_ff;
    count(k, "k * n_ff", y_dim);
    acts(k, AT(ka_moe_up, y), false, rows, y_dim, y_dim);
    acts(k, AT(ka_moe_up, x), false, rows, a->n_in, a->n_in);
    acts(k, AT(ka_moe_up, ids), false, rows, a->k, a->k);
    vec(k, AT(ka_moe_up, norm), true, a->n_in);
    matrices(k, AT(ka_moe_up, gate), a->n_expert, a->gate_stride, a->type_gate, a->n_in, a->n_ff);
    matrices(k, AT(ka_moe_up, up), a->n_expert, a->up_stride, a->type_up, a->n_in, a->n_ff);
    vec(k, AT(ka_moe_up, sg), true, a->n_expert);
    vec(k, AT(ka_moe_up, su), true, a->n_expert);
    vec(k, AT(ka_moe_up, bg), true, (uint64_t)a->n_expert * a->n_ff);
    vec(k, AT(ka_moe_up, bu), true, (uint64_t)a->n_expert * a->n_ff);
}

static void check_moe_down(struct check *k, const ka_moe_down *a)
{
    uint64_t rows = k->s->h.row_cap;
    check_experts(k, a->n_expert, a->k);
    count(k, "n_in", a->n_in);
    count(k, "n_out", a->n_out);
    if (k->rc)
        return;
    uint64_t x_dim = (uint64_t)a->k * a->n_in;
    acts(k, AT(ka_moe_down, y), false, rows, a->n_out, a->n_out);
    acts(k, AT(ka_moe_down, x), false, rows, x_dim, x_dim);
    acts(k, AT(ka_moe_down, ids), false, rows, a->k, a->k);
    acts(k, AT(ka_moe_down, weights), false, rows, a->k, a->k);
    acts(k, AT(ka_moe_down, resid), true, rows, a->n_out, a->n_out);
    matrices(k, AT(ka_moe_down, down), a->n_expert, a->stride, a->type, a->n_in, a->n_out);
    vec(k, AT(ka_moe_down, sd), true, a->n_expert);
    vec(k, AT(ka_moe_down, b), true, (uint64_t)a->n_expert * a->n_out);
}

static void check_gather(struct check *k, const ka_gather *a)
{
    const struct stream_head *h = &k->s->h;
    count(k, "n", a->n);
    acts(k, AT(ka_gather, y), false, h->out_cap, a->n, a->n);
    acts(k, AT(ka_gather, x), false, h->row_cap, a->n, a->n);
    rows_at(k, AT(ka_gather, out_row), false, 1, 0, 4ull * h->out_cap);
    if (a->out_row != SADDR(ARENA_IO, step_out_row_off(h->row_cap)))
        bad(k, "out_row is not the step block's");
}

static void check_step_out(struct check *k, const ka_step_out *a)
{
    const struct stream_head *h = &k->s->h;
    uint64_t at = step_sub_off(h->row_cap, h->out_cap);
    const struct extent *y = rows_at(k, AT(ka_step_out, y), false, 1, 0, step_bytes(h->row_cap, h->out_cap) - at);
    if (y && y->at != SADDR(ARENA_IO, at))
        bad(k, "y is not the step block's place for output rows");
    rows_at(k, AT(ka_step_out, out_row), false, 1, 0, 4ull * h->out_cap);
    if (a->out_row != SADDR(ARENA_IO, step_out_row_off(h->row_cap)))
        bad(k, "out_row is not the step block's");
}

static void check_argmax(struct check *k, const ka_argmax *a)
{
    const struct stream_head *h = &k->s->h;
    want(k, "n", a->n, h->n_vocab);
    acts(k, AT(ka_argmax, logits), false, h->out_cap, a->n, a->n);
    rows_at(k, AT(ka_argmax, next), false, 1, 0, 4ull * h->out_cap);
    if (a->next != SADDR(ARENA_IO, h->next_off))
        bad(k, "next is not the step block's");
    rows_at(k, AT(ka_argmax, sample), true, 1, 0, (uint64_t)h->out_cap * sizeof(ka_sample));
    if (a->sample && a->sample != SADDR(ARENA_IO, step_sample_off(h->row_cap, h->out_cap)))
        bad(k, "sample is not the step block's");
}

static void check_by_op(struct check *k, const void *args)
{
    if (k->c->op == CMD_NOP)
        return;
    check_step(k, args);
    switch (k->c->op) {
    case CMD_EMBED: check_embed(k, args); break;
    case CMD_NORM: check_norm(k, args); break;
    case CMD_ADD: check_add(k, args); break;
    case CMD_ACT_MUL: check_act_mul(k, args); break;
    case CMD_MATCH: check_match(k, args); break;
    case CMD_ALTUP: check_altup(k, args); break;
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP: check_matmul(k, args); break;
    case CMD_ROPE_KV: check_rope_kv(k, args); break;
    case CMD_ATTN: check_attn(k, args); break;
    case CMD_GDN: check_gdn(k, args); break;
    case CMD_ROUTER: check_router(k, args); break;
    case CMD_MOE_UP: check_moe_up(k, args); break;
    case CMD_MOE_DOWN: check_moe_down(k, args); break;
    case CMD_GATHER: check_gather(k, args); break;
    case CMD_STEP_OUT: check_step_out(k, args); break;
    case CMD_ARGMAX: check_argmax(k, args); break;
    default: bad(k, "unknown op %u", k->c->op);
    }
}

/* ---- what holds for every command ---- */

/* The record, and that arguments and uses follow each other without gaps: relocating touches each word once. */
static void check_record(struct check *k, uint32_t args_off, uint32_t first_use)
{
    const struct cmd *c = k->c;
    const struct stream_head *h = &k->s->h;
    if (c->op >= CMD_COUNT)
        bad(k, "op %u of %d", c->op, CMD_COUNT);
    want(k, "args_bytes", c->args_bytes, cmd_args_bytes(c->op));
    want(k, "args_off", c->args_off, args_off);
    if (args_off > h->args_bytes || c->args_bytes > h->args_bytes - args_off)
        bad(k, "arguments at %u of %u bytes", args_off, h->args_bytes);
    want(k, "first_use", c->first_use, first_use);
    if (first_use > h->n_uses || c->n_uses > h->n_uses - first_use)
        bad(k, "uses %u..%llu of %u", first_use, (unsigned long long)first_use + c->n_uses, h->n_uses);
    if (c->wait != CMD_NO_WAIT && c->wait >= k->index)
        bad(k, "waits for command %u", c->wait);
    if (c->layer != CMD_NO_LAYER && c->layer >= h->n_layer)
        bad(k, "layer %u of %u", c->layer, h->n_layer);
    if (c->layer != CMD_NO_LAYER && (c->layer < h->layers_before || c->layer >= h->n_layer - h->layers_behind))
        bad(k, "layer %u, the stream has %u:%u", c->layer, h->layers_before, h->n_layer - h->layers_behind);
    if (c->flags & ~(unsigned)CMD_BYTES_PER_ROW || c->reserved[0] || c->reserved[1] || c->reserved[2])
        bad(k, "flags 0x%x or reserved words", c->flags);
}

/* Every use names an address of the arguments, once, and says what stands there. */
static void check_uses(struct check *k)
{
    const uint8_t *args = k->s->args + k->c->args_off;
    uint32_t last = 0;
    for (uint32_t i = 0; i < k->c->n_uses && !k->rc; i++) {
        const struct stream_use *u = &k->s->uses[k->c->first_use + i];
        const struct field *f = cmd_find_address(k->c->op, u->field_off);
        gpu_va a;
        if (!f || u->field_off + 8u > k->c->args_bytes || (i && u->field_off <= last)) {
            bad(k, "use %u: no address at byte %u, or not in order", i, u->field_off);
            return;
        }
        last = u->field_off;
        if (u->buf >= k->s->h.n_bufs || u->dir != field_dir(f) || u->reserved != 0) {
            bad(k, "%s: buffer %u of %u, direction %u, expected %u", f->name, u->buf, k->s->h.n_bufs, u->dir,
                field_dir(f));
            return;
        }
        const struct stream_buf *b = &k->s->bufs[u->buf];
        memcpy(&a, args + u->field_off, sizeof a);
        if (u->off >= b->bytes || a != SADDR(b->arena, b->off + u->off)) {
            bad(k, "%s: address 0x%llx is not byte %llu of '%s'", f->name, (unsigned long long)a,
                (unsigned long long)u->off, stream_str(k->s, b->name));
            return;
        }
        if (u->dir & USE_WRITE && (b->arena == ARENA_WEIGHTS || b->arena == ARENA_CONST))
            bad(k, "%s: writes to '%s'", f->name, stream_str(k->s, b->name));
        k->ext[i] = (struct extent){.at = a, .end = a, .cmd = k->index, .field_off = u->field_off, .dir = u->dir};
    }
}

/* Addresses without a use are 0, and no rule was forgotten. */
static void check_addresses(struct check *k)
{
    const uint8_t *args = k->s->args + k->c->args_off;
    for (uint32_t off = 0; off + 8 <= k->c->args_bytes && !k->rc; off += 8) {
        const struct field *f = cmd_find_address(k->c->op, off);
        bool looked_at = k->looked_at >> off / 8 & 1;
        gpu_va a;
        if (!f)
            continue;
        memcpy(&a, args + off, sizeof a);
        if (a != 0 && !looked_at)
            bad(k, "%s at byte %u must be 0", f->name, off);
        else if (a != 0 && !look(k, off))
            bad(k, "%s: address 0x%llx without a use", f->name, (unsigned long long)a);
    }
}

/* Two runs of rows share a byte. Same stride: their columns decide. */
static bool overlap(const struct extent *a, const struct extent *b)
{
    if (a->at > b->at) {
        const struct extent *t = a;
        a = b;
        b = t;
    }
    if (b->at >= a->end || b->at == b->end)
        return false;
    if (a->ld == 0 || a->ld != b->ld)
        return true;
    uint64_t d = (b->at - a->at) % a->ld;
    return d < a->width || d + b->width > a->ld;
}

/* y may stand on this input, element on element. */
static bool may_alias(uint32_t op, uint32_t out, uint32_t in)
{
    switch (op) {
    case CMD_NORM: return out == AT(ka_norm, y) && (in == AT(ka_norm, x) || in == AT(ka_norm, resid));
    case CMD_ADD: return out == AT(ka_add, y) && (in == AT(ka_add, a) || in == AT(ka_add, b));
    case CMD_ACT_MUL: return out == AT(ka_act_mul, y) && in == AT(ka_act_mul, x);
    case CMD_MATCH: return out == AT(ka_match, y) && (in == AT(ka_match, x) || in == AT(ka_match, resid));
    case CMD_MATMUL: return out == AT(ka_matmul, y) && in == AT(ka_matmul, resid);
    case CMD_MOE_DOWN: return out == AT(ka_moe_down, y) && in == AT(ka_moe_down, resid);
    default: return false;
    }
}

static void check_overlaps(struct check *k)
{
    for (uint32_t i = 0; i < k->c->n_uses && !k->rc; i++)
        for (uint32_t j = 0; j < k->c->n_uses; j++) {
            const struct extent *a = &k->ext[i], *b = &k->ext[j];
            if (i == j || !(a->dir & USE_WRITE) || !overlap(a, b))
                continue;
            bool same = a->at == b->at && a->ld == b->ld && a->width == b->width;
            if (!same || !may_alias(k->c->op, a->field_off, b->field_off))
                bad(k, "%s runs into %s", field_name(k, a->field_off), field_name(k, b->field_off));
        }
}

/* The buffer that a command's field lies in; UINT32_MAX: the field is 0. */
static uint32_t buffer_of(const struct stream *s, uint32_t i, size_t field)
{
    const struct cmd *c = &s->cmds[i];
    for (uint32_t u = 0; u < c->n_uses; u++)
        if (s->uses[c->first_use + u].field_off == field)
            return s->uses[c->first_use + u].buf;
    return UINT32_MAX;
}

/* Whoever reads a cache takes it for what it is; and the head's type is that of one at least, if there is any. */
static int check_kv_types(const struct stream *s, struct err *e)
{
    uint8_t *stored = calloc(s->h.n_bufs + 1ull, 1); /* by buffer: 1 + the type; 0: no cache, or another stream's */
    bool any = false, used = false;
    if (!stored)
        return err_set(e, -ENOMEM, "stream: %u buffers", s->h.n_bufs);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_rope_kv *w = stream_args(s, i);
        uint32_t b = s->cmds[i].op == CMD_ROPE_KV ? buffer_of(s, i, AT(ka_rope_kv, kc)) : UINT32_MAX;
        if (b != UINT32_MAX)
            stored[b] = (uint8_t)(1 + w->kv_type);
    }
    int rc = 0;
    for (uint32_t i = 0; i < s->h.n_cmds && !rc; i++) {
        const ka_attn *a = stream_args(s, i);
        uint32_t b = s->cmds[i].op == CMD_ATTN ? buffer_of(s, i, AT(ka_attn, kc)) : UINT32_MAX;
        if (b == UINT32_MAX)
            continue;
        any = true;
        used = used || a->kv_type == s->h.kv_type;
        if (stored[b] && stored[b] != 1 + a->kv_type)
            rc = err_set(e, -EINVAL, "stream: command %u ATTN: kv_type is %u, the cache holds %u", i, a->kv_type, stored[b] - 1u);
    }
    free(stored);
    return rc || !any || used ? rc : err_set(e, -EINVAL, "stream: kv_type %u, which no cache has", s->h.kv_type);
}

int verify_commands(const struct stream *s, struct extent *ext, struct err *e)
{
    uint32_t args_off = 0, first_use = 0;
    bool has_sub_step = false;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct check k = {.s = s, .c = &s->cmds[i], .index = i, .has_sub_step = has_sub_step, .ext = ext + first_use, .e = e};
        has_sub_step = has_sub_step || k.c->op == CMD_STEP_OUT;
        check_record(&k, args_off, first_use);
        if (!k.rc)
            check_uses(&k);
        if (!k.rc)
            check_by_op(&k, s->args + args_off);
        if (!k.rc)
            check_addresses(&k);
        if (!k.rc)
            check_overlaps(&k);
        if (k.rc)
            return k.rc;
        args_off += s->cmds[i].args_bytes;
        first_use += s->cmds[i].n_uses;
    }
    if (args_off != s->h.args_bytes || first_use != s->h.n_uses)
        return err_set(e, -EINVAL, "stream: commands use %u bytes of arguments and %u uses, the head says %u and %u",
                       args_off, first_use, s->h.args_bytes, s->h.n_uses);
    return check_kv_types(s, e);
}

static int check_waits(const struct stream *s, const uint32_t *need, struct err *e)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        uint32_t wait = s->cmds[i].wait;
        if (need[i] == CMD_NO_WAIT || (wait != CMD_NO_WAIT && wait >= need[i]))
            continue;
        char got[16] = "nothing";
        if (wait != CMD_NO_WAIT)
            snprintf(got, sizeof got, "%u", wait);
        return err_set(e, -EINVAL, "stream: command %u %s shares memory with command %u %s and waits for %s", i,
                       cmd_name(s->cmds[i].op), need[i], cmd_name(s->cmds[need[i]].op), got);
    }
    return 0;
}

int stream_verify(const struct stream *s, struct err *e)
{
    int rc = verify_tables(s, e);
    if (rc)
        return rc;
    struct extent *ext = calloc((size_t)s->h.n_uses + 1, sizeof *ext);
    uint32_t *need = calloc((size_t)s->h.n_cmds + 1, sizeof *need);
    if (!ext || !need)
        rc = err_set(e, -ENOMEM, "stream: verifying %u commands", s->h.n_cmds);
    if (!rc)
        rc = verify_commands(s, ext, e);
    if (!rc)
        rc = verify_needed_waits(s, ext, need, e);
    if (!rc)
        rc = check_waits(s, need, e);
    free(ext);
    free(need);
    return rc;
}
