/* rt/dispatch_attn.c: attention of prompts. */
#include <string.h>

#include "kernels/attn_prompt.h"
#include "rt/dispatch_impl.h"

enum { WARPS_SMALL = 4 };

struct choice {
    enum kernel_id wide, small;
    uint32_t warps, rounds; /* of wide: in a work-group; work-groups per core that make it worth while */
};

static bool choice(uint32_t head_dim, struct choice *c)
{
    switch (head_dim) {
    case 64: *c = (struct choice){ K_attn_prompt_h64, K_attn_prompt_small_h64, 12, 2 }; return true;
    case 128: *c = (struct choice){ K_attn_prompt_h128, K_attn_prompt_small_h128, 12, 2 }; return true;
    case 256: *c = (struct choice){ K_attn_prompt_h256, K_attn_prompt_small_h256, 8, 1 }; return true;
    default: return false;
    }
}

/* Wide work-groups read the cache less often; small ones share a short prompt among more cores. */
bool dispatch_prompt_attn(struct dispatcher *d, const ka_attn *a)
{
    struct choice c;
    uint32_t rows = dispatch_rows(d, ROWS_STEP), group = a->n_head / a->n_kv;
    if (!choice(a->head_dim, &c) || a->kv_type == KA_KV_F32 || group > 16 * WARPS_SMALL || !(a->scale > 0.0f) ||
        (d->t->prompt_head_max && a->head_dim > d->t->prompt_head_max))
        return false;
    uint32_t stages = d->t->amd ? 1 : 2;
    bool wide = attn_prompt_shared_bytes(c.warps, a->head_dim, stages) <= d->t->shared_max &&
                (uint64_t)rows / attn_prompt_rows(c.warps, group) * a->n_kv >= (uint64_t)c.rounds * d->t->n_cores;
    uint32_t warps = wide ? c.warps : WARPS_SMALL, shared = attn_prompt_shared_bytes(warps, a->head_dim, stages);
    if (shared > d->t->shared_max)
        return false;
    kl_attn k = { 0 };
    memcpy(&k, a, sizeof *a);
    uint32_t step = attn_prompt_rows(warps, group);
    dispatch_add(d, wide ? c.wide : c.small, a->n_kv, (rows + step - 1) / step, 1, shared, &k);
    return true;
}
