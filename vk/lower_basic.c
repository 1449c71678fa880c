/* vk/lower_basic.c: the commands that look at each element once, and the choice of the next token. */
#include <string.h>

#include "base/ckd.h"
#include "kernels/qtypes.h"
#include "vk/lower.h"

enum { HELD = 32 }; /* elements of a row that a work-item of norm keeps in registers at most */

/* Work-groups that share a row of n elements: prompts have rows enough. */
static uint32_t shares(const struct dispatcher *d, const struct vk_shape *s, uint32_t n)
{
    uint32_t all = (n + s->v[0] - 1) / s->v[0];
    return d->prompt ? MIN(all, 4u) : all;
}

void vk_lower_embed(struct dispatcher *d, const ka_embed *a)
{
    struct vk_shape s = vk_shape(d, 256);
    kl_embed k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.next_off = (uint32_t)d->s->h.next_off;
    vk_spec(&s, a->type);
    vk_add(d, qtype_is_opened((enum qtype)a->type) ? VK_embed_book : VK_embed, &s, dispatch_rows(d, ROWS_STEP),
           shares(d, &s, a->n), 1, &k);
}

void vk_lower_norm(struct dispatcher *d, const ka_norm *a)
{
    struct vk_shape s = vk_shape(d, a->group > 4096 ? 512 : 256);
    vk_spec(&s, MIN((a->group + s.v[0] - 1) / s.v[0], (uint32_t)HELD));
    vk_add(d, VK_norm, &s, dispatch_rows(d, a->rows), a->n / a->group, 1, a);
}

void vk_lower_add(struct dispatcher *d, const ka_add *a)
{
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_add, &s, dispatch_rows(d, a->rows), shares(d, &s, a->n), 1, a);
}

void vk_lower_act_mul(struct dispatcher *d, const ka_act_mul *a)
{
    struct vk_shape s = vk_shape(d, 256);
    if (a->sparse) /* a row's mean is known to one work-group */
        vk_add(d, VK_act_sparse, &s, dispatch_rows(d, a->rows), 1, 1, a);
    else
        vk_add(d, VK_act_mul, &s, dispatch_rows(d, a->rows), shares(d, &s, a->n), 1, a);
}

void vk_lower_match(struct dispatcher *d, const ka_match *a)
{
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_match, &s, dispatch_rows(d, a->rows), a->n / a->group, 1, a);
}

void vk_lower_altup(struct dispatcher *d, const ka_altup *a)
{
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_altup, &s, dispatch_rows(d, a->rows), shares(d, &s, a->n), 1, a);
}

void vk_lower_step_out(struct dispatcher *d, const ka_step_out *a)
{
    struct vk_shape s = vk_shape(d, 64);
    vk_add(d, VK_step_out, &s, 1, 1, 1, a);
}

void vk_lower_gather(struct dispatcher *d, const ka_gather *a)
{
    struct vk_shape s = vk_shape(d, 256);
    vk_add(d, VK_gather, &s, dispatch_rows(d, ROWS_OUT), shares(d, &s, a->n), 1, a);
}

/* A slice of the logits for each work-group: vk/shaders/sample.comp. */
void vk_lower_argmax(struct dispatcher *d, const ka_argmax *a)
{
    struct vk_shape s = vk_shape(d, 256);
    uint32_t held = s.v[0] < 128 ? 16 : 8, rows = dispatch_rows(d, ROWS_OUT);
    uint32_t slices = (a->n + s.v[0] * held - 1) / (s.v[0] * held);
    kl_sample k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.part = dispatch_temp(d, 8ull * KA_SAMPLE_MAX * slices * rows);
    k.counters = dispatch_counters(d, rows);
    k.copy = SADDR_ARENA(a->logits) == ARENA_IO ? SADDR(ARENA_HOST_IO, SADDR_OFF(a->logits)) : 0;
    vk_spec(&s, held);
    vk_add(d, VK_sample, &s, slices, rows, 1, &k);
}
