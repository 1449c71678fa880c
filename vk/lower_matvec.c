/* vk/lower_matvec.c: MATMUL, PROJ and GATE_UP by dot products (vk/shaders/matvec.comp). */
#include <string.h>

#include "base/ckd.h"
#include "kernels/matvec_shared.h"
#include "vk/lower.h"

/* The kernel's FLAGS. */
enum { PAIR = 1, NORM = 2, RAGGED = 4, DIRECT = 8, QUANTS = 16, FLOATS = 32, TABLE = 64, UNEVEN = 128 };

/* How a launch takes matrices of up to two types: lanes that share a row of weights, elements of x as they see it. */
struct cut {
    uint32_t type[2], lanes[2], n_pad, flags, rows;
};

static uint32_t div_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* What the input alone says. */
static uint32_t input_flags(const ka_matmul *a)
{
    bool uneven = a->n_in % 8 || a->ldx % 4 || (SADDR_OFF(a->x) | SADDR_OFF(a->norm)) % 16;
    return (a->norm ? NORM : 0) | (uneven ? UNEVEN : 0);
}

static uint32_t shared_bytes(const struct vk_caps *c, const struct cut *k)
{
    struct mv_x x = mv_x_layout(k->n_pad, k->flags & QUANTS, (k->flags & (FLOATS | DIRECT)) == FLOATS, k->rows);
    /* what the shaders share beside x: partial sums by subgroup, the table, and little pieces */
    uint32_t more = (k->flags & TABLE ? 2048 : 0) + c->threads / c->wave * k->rows * 4 + c->threads + 256;
    return x.end - MV_HEAD_BYTES + more;
}

/* Rows of x that a pass takes at once: a row of floats that does not fit stays in memory. false: nor does one of
 * codes. */
static bool cut_rows(const struct vk_caps *c, struct cut *k, uint32_t rows)
{
    k->rows = rows >= 3 ? 4 : rows;
    while (k->rows > 1 && shared_bytes(c, k) > c->shared_max)
        k->rows /= 2;
    if (shared_bytes(c, k) > c->shared_max && (k->flags & FLOATS)) {
        k->flags |= DIRECT;
        k->rows = rows >= 3 ? 4 : rows;
        while (k->rows > 1 && shared_bytes(c, k) > c->shared_max)
            k->rows /= 2;
    }
    return shared_bytes(c, k) <= c->shared_max;
}

/* What a matrix adds to a cut of its types. */
static void cut_matrix(const struct vk_caps *c, struct cut *k, uint32_t which, const ka_matmul *a, uint32_t m)
{
    uint32_t type = a->type[m], elems = vk_item_elems(type);
    struct mv_geom g = mv_geom_of(elems, a->n_in);
    uint32_t lanes = MIN(g.lanes, c->wave);
    bool ends = mv_is_float(type) && qtype_row_bytes(type, a->n_in) % 16;
    k->type[which] = type;
    k->lanes[which] = lanes;
    k->n_pad = MAX(k->n_pad, (div_up(g.items, lanes) * lanes * elems + 255) & ~255u);
    k->flags |= (mv_is_float(type) ? FLOATS : QUANTS) | (qtype_has_table(type) ? TABLE : 0) |
                (ends || SADDR_OFF(a->w[m]) % 16 ? RAGGED : 0);
}

/* Slots of a tile: wd_slots of vk/shaders/wdot.glsl. */
static uint32_t slots(uint32_t type)
{
    return vk_item_elems(type) == 64 ? 2 : 4;
}

static void launch(struct dispatcher *d, const struct cut *cut, kl_matvec *k, const uint32_t n_mats[2], bool concurrent)
{
    const struct vk_caps *c = vk_caps(d);
    struct vk_shape s = vk_shape(d, 256);
    bool pair = cut->flags & PAIR, mixed = pair && cut->type[0] != cut->type[1];
    uint32_t tiles = 0, rows = dispatch_rows(d, k->rows), waves = s.v[0] / c->wave;
    for (uint32_t m = 0; m < (pair ? 1 : k->n_mats); m++) {
        uint32_t which = m >= n_mats[0], abreast = c->wave / cut->lanes[which], type = cut->type[which];
        k->tile_end[m] = tiles += div_up(k->n_out[m], (mixed ? 1 : pair ? slots(type) / 2 : slots(type)) * abreast);
    }
    k->rows_pass = cut->rows;
    k->gate_up = pair;
    k->n_pad = cut->n_pad;
    const uint32_t specs[] = { cut->type[0], cut->type[1], n_mats[0], n_mats[1], cut->lanes[0], cut->lanes[1], k->n_in,
                               cut->n_pad, cut->rows, cut->flags, vk_item_elems(cut->type[0]),
                               vk_item_elems(cut->type[1]) };
    for (uint32_t i = 0; i < ARRAY_LEN(specs); i++)
        vk_spec(&s, specs[i]);
    uint32_t groups = MIN(div_up(tiles, waves), 2 * c->cores); /* all of them at once */
    (concurrent ? vk_add_concurrent : vk_add)(d, VK_matvec, &s, groups, div_up(rows, cut->rows), 1, k);
}

static void too_large(struct dispatcher *d, const struct cut *cut)
{
    if (!d->rc)
        d->rc = err_set(d->e, -ENOTSUP, "vulkan: command %u (%s) wants %u bytes of shared memory, the device has %u",
                        d->cmd, cmd_name(d->s->cmds[d->cmd].op), shared_bytes(vk_caps(d), cut),
                        vk_caps(d)->shared_max);
}

static void gate_up(struct dispatcher *d, const ka_matmul *a)
{
    struct cut cut = { .flags = PAIR | input_flags(a) };
    kl_matvec k = { 0 };
    memcpy(&k, a, sizeof *a);
    k.scale = k.resid = 0;
    k.softcap = 0.0f;
    cut_matrix(vk_caps(d), &cut, 0, a, 0);
    cut_matrix(vk_caps(d), &cut, 1, a, 1);
    if (cut.type[0] != cut.type[1]) { /* they share their lanes */
        uint32_t lanes = MIN(cut.lanes[0], cut.lanes[1]);
        cut.lanes[0] = cut.lanes[1] = lanes;
    }
    if (cut_rows(vk_caps(d), &cut, dispatch_rows(d, a->rows)))
        launch(d, &cut, &k, (const uint32_t[2]){ 1, 0 }, false);
    else
        too_large(d, &cut);
}

/* The matrices of `a` that `left` has a bit for and that are of that type become the next ones of k. */
static uint32_t take(const ka_matmul *a, uint32_t *left, uint32_t type, kl_matvec *k)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (*left >> m & 1 && a->type[m] == type) {
            uint32_t at = k->n_mats++;
            k->y[at] = a->y[m], k->w[at] = a->w[m], k->wscale[at] = a->wscale[m], k->b[at] = a->b[m];
            k->n_out[at] = a->n_out[m], k->type[at] = type, k->ld[at] = a->ld[m];
            *left &= ~(1u << m);
            n++;
        }
    return n;
}

static void add_type(const struct vk_caps *c, struct cut *cut, uint32_t which, const ka_matmul *a, uint32_t left,
                     uint32_t first)
{
    for (uint32_t m = first; m < a->n_mats; m++)
        if (left >> m & 1 && a->type[m] == a->type[first])
            cut_matrix(c, cut, which, a, m);
}

/* Launches of up to two types side by side. */
static void products(struct dispatcher *d, const ka_matmul *a, bool proj)
{
    const struct vk_caps *c = vk_caps(d);
    uint32_t rows = dispatch_rows(d, a->rows), left = (1u << a->n_mats) - 1;
    for (bool concurrent = false; left; concurrent = true) {
        struct cut cut = { .flags = input_flags(a) }, two;
        uint32_t first = (uint32_t)__builtin_ctz(left), n_mats[2] = { 0, 0 };
        kl_matvec k = { 0 };
        memcpy(&k, a, sizeof *a);
        k.n_mats = 0;
        if (proj) {
            k.scale = k.resid = 0;
            k.softcap = 0.0f;
        }
        add_type(c, &cut, 0, a, left, first);
        cut.type[1] = cut.type[0], cut.lanes[1] = cut.lanes[0];
        if (!cut_rows(c, &cut, rows)) {
            too_large(d, &cut);
            return;
        }
        n_mats[0] = take(a, &left, a->type[first], &k);
        if (left) { /* another type, where that does not mean more passes */
            uint32_t second = (uint32_t)__builtin_ctz(left);
            two = cut;
            add_type(c, &two, 1, a, left, second);
            if (cut_rows(c, &two, rows) && two.rows == cut.rows && (two.flags & DIRECT) == (cut.flags & DIRECT)) {
                cut = two;
                n_mats[1] = take(a, &left, a->type[second], &k);
            }
        }
        launch(d, &cut, &k, n_mats, concurrent);
    }
}

bool vk_matvec_fits(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    const struct vk_caps *c = vk_caps(d);
    struct cut pair = { .flags = PAIR | input_flags(a) };
    for (uint32_t m = 0; m < a->n_mats; m++) {
        struct cut cut = { .flags = input_flags(a) };
        add_type(c, &cut, 0, a, (1u << a->n_mats) - 1, m);
        cut_matrix(c, &pair, 0, a, m);
        if (!cut_rows(c, op == CMD_GATE_UP ? &pair : &cut, 1))
            return false;
    }
    return true;
}

void vk_lower_matvec(struct dispatcher *d, enum cmd_op op, const ka_matmul *a)
{
    if (op == CMD_GATE_UP)
        gate_up(d, a);
    else
        products(d, a, op == CMD_PROJ);
}
