/* rt/dispatch_attn.c: attention on matrix units: of prompts, and of single rows. */
#include <string.h>

#include "base/ckd.h"
#include "kernels/attn_prompt.h"
#include "kernels/attn_shared.h"
#include "rt/dispatch_impl.h"

enum { WARPS_SMALL = 4, WARPS_256 = 8 };
_Static_assert((int)WARPS_256 == 2 * WARPS_SMALL, "split, its wide kernel has two warps for each group of the small one");

struct choice {
    enum kernel_id wide, small;
    uint32_t warps, rounds; /* of wide: in a work-group; work-groups per core that make it worth while */
};

static bool choice(uint32_t head_dim, struct choice *c)
{
    switch (head_dim) {
    case 64: *c = (struct choice){ K_attn_prompt_h64, K_attn_prompt_small_h64, 12, 2 }; return true;
    case 128: *c = (struct choice){ K_attn_prompt_h128, K_attn_prompt_small_h128, 12, 2 }; return true;
    case 256: *c = (struct choice){ K_attn_prompt_h256, K_attn_prompt_small_h256, WARPS_256, 1 }; return true;
    case 512: *c = (struct choice){ 0, K_attn_prompt_small_h512, 0, 0 }; return true; /* by owners of dimensions alone */
    default: return false;
    }
}

/* Each warp has 128 dimensions of a head. */
static bool owned_heads(struct dispatcher *d, const ka_attn *a, const struct choice *c, uint32_t rows, uint32_t group)
{
    uint32_t groups = WARPS_SMALL / attn_prompt_owners(a->head_dim, AP_ROOM_32K), step = attn_prompt_rows(groups, group);
    kl_attn k = { 0 };
    if (!step)
        return false;
    memcpy(&k, a, sizeof *a);
    dispatch_add(d, c->small, a->n_kv, (rows + step - 1) / step, 1,
                 attn_prompt_shared_bytes(groups, WARPS_SMALL, a->head_dim, AP_ROOM_32K), &k);
    return true;
}

static bool wide_heads(struct dispatcher *d, const ka_attn *a, uint32_t rows, uint32_t group)
{
    kl_attn k = { 0 };
    uint32_t shared = apw_shared().end;
    if (!d->t->mma8 || shared > d->t->shared_max || a->kv_type == KA_KV_F32 || group > APW_PAIRS ||
        !(a->scale > 0.0f))
        return false;
    memcpy(&k, a, sizeof *a);
    uint32_t step = APW_PAIRS / group;
    dispatch_add(d, K_attn_prompt_h512, a->n_kv, (rows + step - 1) / step, 1, shared, &k);
    return true;
}

/* On Hopper, where there are work-groups for half of the cores at least. */
static bool wgmma_heads(struct dispatcher *d, const ka_attn *a, uint32_t rows, uint32_t group)
{
    uint32_t dim = a->head_dim;
    kl_attn k = { 0 };
    if (!d->t->wgmma || (dim != 64 && dim != 128 && dim != 256) || AWG_SHARED_BYTES(dim) > d->t->shared_max || group > AWG_PAIRS)
        return false;
    uint32_t step = AWG_PAIRS / group, tiles = (rows + step - 1) / step;
    if (2ull * tiles * a->n_kv < d->t->n_cores)
        return false;
    memcpy(&k, a, sizeof *a);
    dispatch_add(d, dim == 64 ? K_attn_wgmma_h64 : dim == 128 ? K_attn_wgmma_h128 : K_attn_wgmma_h256,
                 MIN(tiles * a->n_kv, d->t->n_cores), 1, 1, AWG_SHARED_BYTES(dim), &k);
    return true;
}

/* Wide work-groups read the cache less often; small ones share a short prompt among more cores. */
bool dispatch_prompt_attn(struct dispatcher *d, const ka_attn *a)
{
    struct choice c;
    if (!d->prompt || a->rows == ROWS_OUT)
        return false;
    uint32_t rows = dispatch_rows(d, ROWS_STEP), group = a->n_head / a->n_kv;
    if (a->head_dim == APW_DIM && wide_heads(d, a, rows, group))
        return true;
    if (!choice(a->head_dim, &c) || a->kv_type == KA_KV_F32 || group > 16 * WARPS_SMALL || !(a->scale > 0.0f))
        return false;
    if (wgmma_heads(d, a, rows, group))
        return true;
    if (d->t->shared_max <= 32 << 10 && attn_prompt_owners(a->head_dim, AP_ROOM_32K) > 1)
        return owned_heads(d, a, &c, rows, group);
    if (a->head_dim == APW_DIM)
        return false;
    enum ap_room room = d->t->shared_max <= 32 << 10 ? AP_ROOM_32K : d->t->amd ? AP_ROOM_64K : AP_ROOM_STAGES;
    bool split = d->t->prompt_split && a->head_dim >= d->t->prompt_split; /* the small one, by twice as many warps */
    bool wide = !split && attn_prompt_shared_bytes(c.warps, c.warps, a->head_dim, room) <= d->t->shared_max &&
                (uint64_t)rows / attn_prompt_rows(c.warps, group) * a->n_kv >= (uint64_t)c.rounds * d->t->n_cores;
    uint32_t groups = wide ? c.warps : WARPS_SMALL;
    uint32_t shared = attn_prompt_shared_bytes(groups, split ? c.warps : groups, a->head_dim, room);
    if (shared > d->t->shared_max)
        return false;
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t step = attn_prompt_rows(groups, group);
    dispatch_add(d, wide || split ? c.wide : c.small, a->n_kv, (rows + step - 1) / step, 1, shared, &k);
    return true;
}

/* ---- ROPE_KV by the launch of the ATTN behind it ---- */

/* q stays in memory as it is, so only the ATTN may read it; and what the launch reads until its end must not lie where it
 * writes. */
static bool memory_allows(const struct stream *s, uint32_t cmd, bool own)
{
    static const size_t reads[] = { offsetof(ka_rope_kv, q), offsetof(ka_rope_kv, k), offsetof(ka_rope_kv, v) };
    const struct stream_buf *q = dispatch_buf_at(s, cmd, reads[0]), *y = dispatch_buf_at(s, cmd + 1, offsetof(ka_attn, y)), *x;
    for (uint32_t i = 0; i < (own ? 3 : 1); i++)
        if (!y || !(x = dispatch_buf_at(s, cmd, reads[i])) || !dispatch_apart(x, y))
            return false;
    for (uint32_t c = cmd + 2; c < s->h.n_cmds; c++)
        for (uint32_t i = 0; i < s->cmds[c].n_uses; i++)
            if (&s->bufs[s->uses[s->cmds[c].first_use + i].buf] == q)
                return false;
    return true;
}

/* Heads that the kernels of kernels/attn_group.c take. */
static bool takes_group(const struct dispatcher *d, const ka_attn *a)
{
    uint32_t dim = a->head_dim;
    return d->t->mma8 && a->kv_type != KA_KV_F32 && a->n_head / a->n_kv <= AG_HEADS &&
           (dim == 64 || dim == 128 || dim == 256 || dim == 512);
}

bool dispatch_rope_by_attn(const struct dispatcher *d, const ka_rope_kv *r)
{
    uint32_t next = d->cmd + 1;
    uint32_t rows = dispatch_rows(d, r->rows);
    if (!d->t->ahead || (d->t->apart && rows > 1) || d->t->lower || d->rows || d->prompt || rows > AR_ROWS || next >= d->s->h.n_cmds ||
        d->s->cmds[next].op != CMD_ATTN)
        return false;
    const ka_attn *a = stream_args(d->s, next);
    uint32_t group = a->n_head / a->n_kv, dim = a->head_dim;
    bool small = (dim == 64 || dim == 128) && group + 2 <= ATTN_WARPS_SMALL && /* a warp makes a head */
                 (rows == 1 || a->kv_type == KA_KV_F16);
    bool large = (dim == 256 || dim == 512) && rows == 1 && takes_group(d, a);
    if ((!small && !large) || a->kv_type == KA_KV_F32 || d->t->shared_max < 64 << 10)
        return false;
    if (a->q != r->q || a->q_hs != r->q_hs || a->n_head != r->n_head || a->n_kv != r->n_kv || dim != r->head_dim ||
        a->kv_type != r->kv_type || a->step != r->step || a->rows != r->rows)
        return false;
    if (r->k && (a->kc != r->kc || a->vc != r->vc || a->slot_bytes != r->slot_bytes || a->n_ctx != r->n_ctx))
        return false;
    return memory_allows(d->s, d->cmd, r->k != 0);
}

uint32_t dispatch_take_rope(struct dispatcher *d, const kl_attn *alone, uint32_t shared, kl_attn_rope *k)
{
    const ka_rope_kv *r = d->pre_rope;
    memset(k, 0, sizeof *k);
    memcpy(k, alone, sizeof *alone);
    k->k = r->k;
    k->v = r->v;
    k->q_norm = r->q_norm;
    k->k_norm = r->k_norm;
    k->inv_freq = r->inv_freq;
    k->q_scale = r->q_scale;
    k->q_every = r->q_every;
    k->n_rot = r->n_rot;
    k->rope = r->rope;
    k->v_norm = r->v_norm;
    k->mscale = r->mscale;
    k->eps = r->eps;
    k->cap = dispatch_rows(d, r->rows);
    k->ldk = r->ldk;
    k->ldv = r->ldv;
    k->heads_at = (uint32_t)align_up(shared, 16);
    d->pre_rope = NULL;
    uint32_t group = alone->n_head / alone->n_kv;
    return k->heads_at + 4 * (group + 2 + (alone->gate ? group : 0)) * alone->head_dim;
}

/* ---- single rows on matrix units ---- */

_Static_assert((int)AG_MAX_ROWS >= (int)KL_ROWS_MAX, "rows that are cut");

/* Rows of streams of few are cut in chunks; of a prompt, whose heads no other kernel takes, a row is one. */
bool dispatch_group_attn(struct dispatcher *d, const ka_attn *a)
{
    uint32_t rows = dispatch_rows(d, a->rows), dim = a->head_dim;
    bool prompt = d->prompt && a->rows == ROWS_STEP;
    uint32_t seen = a->window ? MIN(a->window, a->n_ctx) : a->n_ctx;
    enum kernel_id id = dim == 64    ? K_attn_group_h64
                        : dim == 128 ? K_attn_group_h128
                        : dim == 256 ? K_attn_group_h256
                                     : K_attn_group_h512;
    if (!d->rows && !prompt && dim < 256) /* few small heads: reading the cache once more costs less than the merge */
        return false;
    if (!takes_group(d, a))
        return false;
    uint32_t shared = ag_shared(dim, kernel_infos[id].threads / 32).end;
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.chunk_min = d->rows ? AG_POS * MAX(2u, MIN(2 * a->n_kv, 16u)) : AG_POS; /* many rows keep the machine busy uncut */
    k.splits = 1;
    if (!prompt && seen > k.chunk_min) {
        k.splits = attn_group_splits(dim, a->n_kv, seen, k.chunk_min);
        k.part = dispatch_temp(d, 4ull * rows * a->n_head * k.splits * (dim + AG_PART_PAD));
        k.counters = dispatch_counters(d, rows * a->n_kv * (AG_JOIN + 1) * (d->pre_rope ? AG_HEADS : 1));
    }
    if (d->pre_rope) {
        kl_attn_rope own;
        shared = dispatch_take_rope(d, &k, shared, &own);
        enum kernel_id both = dim == 256 ? K_attn_rope_group_h256 : K_attn_rope_group_h512;
        own.shares = MIN(attn_group_chunks(dim, a->n_kv), k.splits << attn_group_parts(a->n_head / a->n_kv, 1, AG_HEADS));
        dispatch_begin_after(dispatch_add(d, both, a->n_kv * own.shares, 1, 1, shared, &own));
        return true;
    }
    dispatch_add(d, id, MIN(d->t->n_cores * attn_group_per_core(dim), rows * a->n_kv * k.splits), 1, 1, shared, &k);
    return true;
}
