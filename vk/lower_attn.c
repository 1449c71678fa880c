/* vk/lower_attn.c: ROPE_KV and ATTN: how a row's heads, and the positions it sees, are cut. */
#include <string.h>

#include "base/ckd.h"
#include "vk/lower.h"

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* ---- ROPE_KV ---- */

void vk_lower_rope_kv(struct dispatcher *d, const ka_rope_kv *a)
{
    struct vk_shape s = vk_shape(d, 128);
    while (s.v[0] > s.v[1] && s.v[0] / s.v[1] * a->head_dim * 4 > vk_caps(d)->shared_max)
        s.v[0] = s.v[0] / s.v[1] / 2 * s.v[1];
    vk_spec(&s, a->head_dim);
    uint32_t heads = a->n_head + (a->k ? 2 * a->n_kv : 0);
    vk_add(d, VK_rope_kv, &s, dispatch_rows(d, a->rows), div_up(heads, s.v[0] / s.v[1]), 1, a);
}

/* ---- ATTN, row by row ---- */

enum { MAX_SPLITS = 128, MAX_LANES = 32, MERGE_BYTES = 512 << 10 };

/* How a subgroup of attn.comp holds a head: lanes that share a position, heads and positions at once. */
struct lanes {
    uint32_t lpp, heads, positions;
};

/* A lane's q, o and rows of K and V have to stay in registers: the more pieces of a head it holds, the fewer heads and
 * positions it takes. */
static struct lanes lanes_of(const struct vk_caps *c, const ka_attn *a)
{
    uint32_t pieces = a->head_dim / 8, group = a->n_head / a->n_kv, held = a->kv_type == KA_KV_F32 ? 2 : 4;
    struct lanes l = { 1, 1, 1 };
    while (l.lpp < MIN(c->wave, (uint32_t)MAX_LANES) && pieces % (2 * l.lpp) == 0)
        l.lpp *= 2;
    pieces /= l.lpp;
    while (2 * l.heads * pieces <= 4 && l.heads < group && 2 * l.heads <= l.lpp)
        l.heads *= 2;
    while (2 * l.positions * pieces <= held && 2 * l.positions * l.heads <= l.lpp)
        l.positions *= 2;
    return l;
}

/* ---- ATTN of prompts ---- */

/* How attn_prompt.glsl cuts it: m pairs of a row and a head in a set, n columns of a matrix; subgroups of a set; sets
 * of a work-group; positions of a tile. */
struct tiles {
    uint32_t m, n, k, parts, sets, positions;
};

/* As attn_prompt.glsl lays it out, and what zk.glsl has of its own. */
static uint32_t shared_bytes(const struct tiles *t, uint32_t head_dim)
{
    uint32_t pair = head_dim / 8 + 1 + t->positions / 4 + 1 + t->positions / 8 + 1 + t->n / 4 + 1;
    return 16 * (t->sets * t->m * pair + t->positions * (head_dim / 8 + 1)) + 64 * 4 + 16;
}

/* What a lane holds has to fit its registers: of a subgroup's part of O 128 columns, of K or V 16 pieces of eight. In software it
 * is the compiler that suffers: with 32 columns it is through in half the time. */
static bool tiles_of(const struct vk_caps *c, const ka_attn *a, uint32_t waves, struct tiles *t)
{
    uint32_t hd = a->head_dim, group = a->n_head / a->n_kv;
    t->parts = 1;
    while (t->parts <= waves && (hd % (t->n * t->parts) || hd / t->parts > (c->software ? 32 : 128)))
        t->parts *= 2;
    if (t->parts > waves || hd % t->k || t->positions % t->n || t->positions % t->k)
        return false;
    for (; t->positions >= 16; t->positions /= 2)
        for (t->sets = waves / t->parts; t->sets; t->sets /= 2)
            if (shared_bytes(t, hd) <= c->shared_max)
                return t->sets * t->m >= group &&
                       t->positions * (hd / 8) <= 16 * t->sets * t->parts * c->wave;
    return false;
}

/* Rows of a set that a lane of attn_prompt.comp takes at once: as many as leave few lanes idle. */
static uint32_t rows_of_item(const struct tiles *t, uint32_t wave, uint32_t head_dim)
{
    uint32_t rows = 8;
    while (rows > 1 && 2 * (t->m / rows) * (head_dim / 8) <= t->parts * wave)
        rows /= 2;
    return rows;
}

/* None for f32 caches, whose values f16 does not hold, and where a masked score could be the largest. Matrix units that
 * can change a sum when they add 0 to it are left alone: the positions that a row does not see, its neighbours do. */
static bool prompt_attn(struct dispatcher *d, const ka_attn *a)
{
    const struct vk_caps *c = vk_caps(d);
    bool loops = c->coopmat == VK_COOPMAT_LOOPS, units = c->coopmat == VK_COOPMAT_KHR && c->coopmat_attn;
    struct vk_shape s = vk_shape(d, 4 * c->wave);
    struct tiles t = { .m = 16, .n = 16, .k = 16, .positions = 32 };
    enum vk_kernel kernel = units ? VK_attn_coopmat : loops ? VK_attn_coopmat_loops : VK_attn_prompt;
    if (units) {
        t.m = c->cm_m;
        t.n = c->cm_n;
        t.k = c->cm_k;
    }
    if (!d->prompt || a->rows == ROWS_OUT || a->kv_type == KA_KV_F32 || !(a->scale > 0.0f) || !tiles_of(c, a, s.v[0] / s.v[1], &t))
        return false;
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    s.v[0] = t.sets * t.parts * s.v[1];
    vk_spec(&s, t.m);
    vk_spec(&s, t.n);
    vk_spec(&s, t.k);
    vk_spec(&s, a->head_dim);
    vk_spec(&s, a->kv_type);
    vk_spec(&s, t.positions);
    vk_spec(&s, t.parts);
    if (kernel == VK_attn_prompt)
        vk_spec(&s, rows_of_item(&t, c->wave, a->head_dim));
    uint32_t step = t.sets * t.m / (a->n_head / a->n_kv);
    vk_add(d, kernel, &s, a->n_kv, div_up(dispatch_rows(d, ROWS_STEP), step), 1, &k);
    return true;
}

void vk_lower_attn(struct dispatcher *d, const ka_attn *a)
{
    const struct vk_caps *c = vk_caps(d);
    if (a->head_dim % 16 && !d->rc)
        d->rc = err_set(d->e, -ENOTSUP, "vulkan: attention with heads of %u dimensions, which are no multiple of 16",
                        a->head_dim);
    if (d->rc || prompt_attn(d, a))
        return;
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t rows = dispatch_rows(d, a->rows), seen = a->window ? MIN(a->window, a->n_ctx) : a->n_ctx;
    uint32_t group = a->n_head / a->n_kv, waves, room;
    struct lanes l = lanes_of(c, a);
    struct vk_shape s = vk_shape(d, 256);
    /* Two work-groups to a core, as long as one can merge the splits in a few microseconds; splits of few runs are not
     * worth it, and the rows of prompts keep the machine busy without. The merge takes a pass of heads at a time. */
    uint32_t most = MIN(MERGE_BYTES / (4 * a->head_dim * group), (uint32_t)MAX_SPLITS);
    k.splits = d->prompt && a->rows == ROWS_STEP ? 1 : MAX(MIN(2 * c->cores / a->n_kv, most), 1u);
    for (;;) {
        waves = s.v[0] / s.v[1];
        uint32_t heads = MIN(div_up(group, l.heads), waves) * l.heads;
        room = MAX(waves * l.heads, heads * k.splits);
        if (waves == 1 || waves * l.heads * a->head_dim * 4 + room * 8 + 64 * 4 <= c->shared_max)
            break;
        s.v[0] = waves / 2 * s.v[1];
    }
    k.chunk_min = 2 * waves * (c->wave / l.lpp) * l.positions;
    k.splits = MIN(k.splits, div_up(seen, k.chunk_min));
    if (k.splits > 1)
        k.part = dispatch_temp(d, 4ull * rows * a->n_head * k.splits * (a->head_dim + 4));
    k.counters = dispatch_counters(d, rows * a->n_kv);
    vk_spec(&s, a->head_dim);
    vk_spec(&s, a->kv_type);
    vk_spec(&s, l.lpp);
    vk_spec(&s, l.heads);
    vk_spec(&s, l.positions);
    vk_spec(&s, room);
    vk_add(d, VK_attn, &s, k.splits, a->n_kv, rows, &k);
}
