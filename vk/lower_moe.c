/* vk/lower_moe.c: experts for few rows: the router, and the products of those that it chose (vk/shaders/router.comp,
 * moe_up.comp, moe_down.comp). Prompts come here too where no other kernel takes their types. */
#include <string.h>

#include "base/ckd.h"
#include "kernels/matvec_shared.h"
#include "vk/lower.h"

/* The kernels' FLAGS. */
enum { NORM = 2, RAGGED = 4, DIRECT = 8, QUANTS = 16, FLOATS = 32, TABLE = 64, UNEVEN = 128 };

enum { AHEAD_WORDS = 48 }; /* of weights that a lane has on their way */

/* How rows of weights meet x: lanes that share one, steps that they take, elements of x as they see it. */
struct cut {
    uint32_t lanes, steps, n_pad, flags, words; /* words: of an item of each matrix */
};

/* Rows of x or norm that cannot be read 8 elements at a time. */
static uint32_t uneven(gpu_va x, gpu_va norm, uint32_t n_in)
{
    return SADDR_OFF(x | norm) % 16 || n_in % 8 ? UNEVEN : 0;
}

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static uint32_t item_words(uint32_t type)
{
    switch (type) {
    case QT_Q2_K: return 7;
    case QT_Q3_K: case QT_Q4_K: return 12;
    case QT_Q5_K: case QT_Q6_K: return 16;
    case QT_F32: case QT_F16: case QT_BF16: return 4;
    default: return 6;
    }
}

static struct cut cut_of(const struct vk_caps *c, const uint32_t *type, uint32_t n, uint32_t n_in)
{
    struct cut k = { .lanes = c->wave };
    for (uint32_t m = 0; m < n; m++)
        k.lanes = MIN(k.lanes, mv_geom_of(vk_item_elems(type[m]), n_in).lanes);
    for (uint32_t m = 0; m < n; m++) {
        uint32_t elems = vk_item_elems(type[m]), steps = div_up(div_up(n_in, elems), k.lanes);
        k.steps = MAX(k.steps, steps);
        k.n_pad = MAX(k.n_pad, (uint32_t)align_up(steps * k.lanes * elems, 256));
        k.words += item_words(type[m]);
        k.flags |= (mv_is_float(type[m]) ? FLOATS : QUANTS) |
                   (qtype_has_table(type[m]) ? TABLE : 0) |
                   (mv_is_float(type[m]) && qtype_row_bytes(type[m], n_in) % 16 ? RAGGED : 0);
    }
    return k;
}

/* Steps in flight together, of `rows` rows. In software nothing flies, and less code compiles sooner; two steps are
 * tested there like many. */
static uint32_t ahead(const struct vk_caps *c, const struct cut *k, uint32_t rows)
{
    uint32_t most = c->software ? 2 : AHEAD_WORDS / (k->words * rows);
    return MAX(MIN(most, k->steps), 1u);
}

/* Rows of x fit into shared memory beside `more` bytes; floats stay in memory where they do not. */
static bool fits(struct dispatcher *d, struct cut *k, uint32_t rows, uint32_t more)
{
    const struct vk_caps *c = vk_caps(d);
    more += (k->flags & TABLE ? 2048 : 0) + c->threads / c->wave * rows * 4 + c->threads + 8 * rows + 256;
    struct mv_x x = mv_x_layout(k->n_pad, k->flags & QUANTS, k->flags & FLOATS, rows);
    if (x.end - MV_HEAD_BYTES + more > c->shared_max && k->flags & FLOATS) {
        k->flags |= DIRECT;
        x = mv_x_layout(k->n_pad, k->flags & QUANTS, false, rows);
    }
    uint32_t bytes = x.end - MV_HEAD_BYTES + more;
    if (bytes > c->shared_max && !d->rc)
        d->rc = err_set(d->e, -ENOTSUP, "vulkan: command %u (%s) wants %u bytes of shared memory, the device has %u",
                        d->cmd, cmd_name(d->s->cmds[d->cmd].op), bytes, c->shared_max);
    return bytes <= c->shared_max;
}

static void specs(struct vk_shape *s, const uint32_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        vk_spec(s, v[i]);
}
#define SPECS(s, ...)                                                                                                  \
    specs(s, (const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

void vk_lower_router(struct dispatcher *d, const ka_router *a)
{
    enum { KEEP = 4, ITEM = 8 };
    const struct vk_caps *c = vk_caps(d);
    struct vk_shape s = vk_shape(d, 256);
    struct cut cut = cut_of(c, &a->type, 1, a->n_in);
    kl_router k = { 0 };
    uint32_t rows = dispatch_rows(d, ROWS_STEP), total = a->n_expert + (a->shared_w != 0);
    uint32_t at_once = s.v[0] / c->wave % 2 ? 1 : 2;
    uint32_t keep = MIN(div_up(a->n_in, ITEM * (s.v[0] / at_once)), (uint32_t)KEEP);
    bool aligned = a->n_in % ITEM == 0 && SADDR_OFF(a->x | a->norm | a->w | a->shared_w) % 16 == 0;
    memcpy(&k, a, sizeof *a);
    k.counters = dispatch_counters(d, rows);
    cut.flags &= ~(uint32_t)FLOATS; /* they stay in registers */
    cut.flags |= (a->norm ? NORM : 0) | (SADDR_OFF(a->w) % 16 ? RAGGED : 0) | uneven(a->x, a->norm, a->n_in);
    if (!fits(d, &cut, 1, 20 * (uint32_t)align_up(a->n_expert, c->wave)))
        return;
    SPECS(&s, a->type, a->type, at_once, keep, aligned, a->n_expert, a->n_in, cut.n_pad, cut.flags);
    vk_add(d, VK_router, &s, MIN(div_up(total, at_once), 4 * c->cores), rows, 1, &k);
}

void vk_lower_moe_up(struct dispatcher *d, const ka_moe_up *a)
{
    const struct vk_caps *c = vk_caps(d);
    struct vk_shape s = vk_shape(d, 256);
    struct cut cut = cut_of(c, (const uint32_t[]){ a->type_gate, a->type_up }, 2, a->n_in);
    kl_moe_up k = { 0 };
    memcpy(&k, a, sizeof *a);
    cut.flags |= (a->norm ? NORM : 0) | uneven(a->x, a->norm, a->n_in) |
                 (SADDR_OFF(a->gate | a->up) % 16 || (a->gate_stride | a->up_stride) % 16 ? RAGGED : 0);
    if (!fits(d, &cut, 1, 0))
        return;
    /* all choices of a row at once; two rows of weights a lane where that saves a round */
    uint32_t waves = s.v[0] / c->wave, groups = MAX(2 * c->cores / a->k, 1u);
    uint32_t one = div_up(a->n_ff, c->wave / cut.lanes);
    uint32_t pairs = one > groups * waves ? 2 : 1, tiles = div_up(one, pairs);
    SPECS(&s, a->type_gate, a->type_up, cut.lanes, a->n_in, cut.n_pad, pairs, ahead(c, &cut, pairs), cut.flags);
    vk_add(d, VK_moe_up, &s, MIN(div_up(tiles, waves), groups), a->k, dispatch_rows(d, ROWS_STEP), &k);
}

void vk_lower_moe_down(struct dispatcher *d, const ka_moe_down *a)
{
    const struct vk_caps *c = vk_caps(d);
    struct vk_shape s = vk_shape(d, 256);
    struct cut cut = cut_of(c, &a->type, 1, a->n_in);
    uint32_t waves = s.v[0] / c->wave, abreast = c->wave / cut.lanes, tiles = div_up(waves, a->k);
    uint32_t best = ~0u, slots = 1;
    kl_moe_down k = { 0 };
    memcpy(&k, a, sizeof *a);
    cut.flags |= uneven(a->x, 0, a->n_in) | (SADDR_OFF(a->down) % 16 || a->stride % 16 ? RAGGED : 0);
    for (uint32_t n = 1; n <= 4; n *= 2) { /* as few rows as possible for the busiest work-group, these all at once */
        uint32_t units = div_up(a->n_out, n * abreast * tiles), work = div_up(units, 2 * c->cores) * n;
        if (n * cut.words <= AHEAD_WORDS && work <= best)
            best = work, slots = n;
    }
    uint32_t unit = slots * abreast * tiles, units = div_up(a->n_out, unit);
    if (!fits(d, &cut, a->k, 8 * a->k * unit))
        return;
    SPECS(&s, a->type, a->type, a->k, cut.lanes, a->n_in, cut.n_pad, slots, ahead(c, &cut, slots), tiles, cut.flags);
    vk_add(d, VK_moe_down, &s, MIN(units, 2 * c->cores), dispatch_rows(d, ROWS_STEP), 1, &k);
}
