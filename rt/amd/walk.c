#include "rt/amd/walk.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/blob.h"

/* What kernels/walk_amd.S reads. */
_Static_assert(offsetof(struct walk_amd, list) == 16 && offsetof(struct walk_amd, bodies) == 24 &&
               offsetof(struct walk_amd, gave_up) == 32 && offsetof(struct walk_amd, n_items) == 40 &&
               offsetof(struct walk_amd, groups) == 44 && offsetof(struct walk_amd, first) == 48 &&
               offsetof(struct walk_amd, ticks) == 52 && offsetof(struct walk_amd, slots) == 56 &&
               sizeof(struct walk_amd) == 64 && WALK_SLOT == 32, "device ABI");
_Static_assert(offsetof(struct walk_item, groups) == 12 && offsetof(struct walk_item, grid) == 16 && sizeof(struct walk_item) == 32,
               "device ABI");
_Static_assert(offsetof(struct walk_amd_body, asks) == 8 && sizeof(struct walk_amd_body) == 16, "device ABI");

enum {
    LIST_BYTES = 16 << 20,
    COUNTERS_BYTES = 512, /* counter and left, in lines of their own */
    LEFT_AT = 256,
    WAVES = WALK_THREADS / 32,
    GROUP_LDS = 64 << 10,
};

const struct walk_form amd_walk_form = { .bytes = LIST_BYTES, .room = amd_kernarg_bytes };

/* ---- bodies ---- */

enum body_state { BODY_UNKNOWN, BODY_THERE, BODY_NONE };

struct body_module {
    const char *name;
    uint8_t *elf;
    struct amd_module m;
};

struct amd_bodies {
    struct amd_module walk_module;
    struct amd_kernel walk;
    struct body_module *module;
    uint32_t n_modules;
    enum body_state state[KERNEL_COUNT];
    struct amd_kernel kernel[KERNEL_COUNT];
};

static const char *walk_target(const struct amd_tier *c, char out[40])
{
    snprintf(out, 40, "walk_%s", c->w->card.chip->target);
    return out;
}

/* The words in which the object of bodies differs from the replay kernels': lines of cmp -l, place from 1 and both bytes in octal. */
static int change_words(uint8_t *elf, uint64_t n, const char *words, const char *name, struct err *e)
{
    for (const char *p = words; *p; p = strchr(p, '\n') + 1) {
        unsigned long long at;
        unsigned from, to;
        if (sscanf(p, "%llu %o %o", &at, &from, &to) != 3 || !at || at > n || elf[at - 1] != from || !strchr(p, '\n'))
            return err_set(e, -EINVAL, "%s: the list of words of its bodies is not of this object", name);
        elf[at - 1] = (uint8_t)to;
    }
    return 0;
}

static int add_module(struct amd_tier *c, const char *name, const struct kernel_blob *words, struct err *e)
{
    struct amd_bodies *b = c->bodies;
    struct body_module *m = realloc(b->module, (b->n_modules + 1) * sizeof *m);
    uint64_t n = 0, n_words;
    const struct kernel_blob *blob = kernel_blob_find(name, c->w->card.chip->target);
    const void *code = blob ? kernel_blob_bytes(blob, &n) : NULL;
    const char *text = kernel_blob_bytes(words, &n_words);
    b->module = m ? m : b->module;
    uint8_t *elf = m && code && text ? malloc(n) : NULL;
    if (!elf)
        return err_set(e, -ENOMEM, "%s: bodies of %s", c->w->name, name);
    memcpy(elf, code, n);
    int rc = change_words(elf, n, text, name, e);
    m[b->n_modules] = (struct body_module){ .name = name, .elf = elf };
    if (rc || (rc = amd_module_load(&c->copier, name, elf, n, &m[b->n_modules].m, e))) {
        free(elf);
        return rc;
    }
    b->n_modules++;
    return 0;
}

static uint32_t asks_of(const struct amd_kernel *k)
{
    return k->rsrc2 >> 7 & 7;
}

/* Does the body find all it wants? Modes as the walk has them; before gfx12 the numbers in the last of sixteen registers. */
static bool fits_walk(const struct amd_tier *c, const struct amd_kernel *k)
{
    const uint32_t own = 1u << 31 | 0x3ff; /* in RSRC1: FWD_PROGRESS, counts of registers */
    uint32_t user = k->rsrc2 >> 1 & 31, asks = asks_of(k);
    return !k->dispatch_ptr && !k->dynamic_stack && (k->rsrc1 & ~own) == (c->bodies->walk.rsrc1 & ~own) &&
           (c->w->card.chip->gen == PM4_GFX12 || (asks & WALK_ASKS_X && user + (uint32_t)__builtin_popcount(asks) == 16));
}

static int need_body(struct amd_tier *c, uint32_t kernel, struct err *e)
{
    struct amd_bodies *b = c->bodies;
    const char *module = kernel_infos[kernel].module;
    char target[40];
    const struct kernel_blob *words = walk_takes(kernel) ? kernel_blob_find(module, walk_target(c, target)) : NULL;
    uint32_t i = 0;
    int rc = 0;
    if (b->state[kernel] != BODY_UNKNOWN)
        return 0;
    b->state[kernel] = BODY_NONE;
    if (!words)
        return 0;
    while (i < b->n_modules && strcmp(b->module[i].name, module) != 0)
        i++;
    if (i == b->n_modules)
        rc = add_module(c, module, words, e);
    if (!rc && !(rc = amd_module_kernel(&b->module[i].m, kernel_infos[kernel].name, &b->kernel[kernel], e)) &&
        fits_walk(c, &b->kernel[kernel]))
        b->state[kernel] = BODY_THERE;
    return rc;
}

void amd_bodies_free(struct amd_bodies *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n_modules; i++) {
        amd_module_free(&b->module[i].m);
        free(b->module[i].elf);
    }
    amd_module_free(&b->walk_module);
    free(b->module);
    free(b);
}

/* k_walk, and the bodies of the pass's launches. */
static int load_bodies(struct amd_tier *c, const struct dispatch_plan *d, struct err *e)
{
    char target[40];
    uint64_t n;
    int rc = 0;
    if (!c->bodies) {
        const struct kernel_blob *blob = kernel_blob_find("walk", walk_target(c, target));
        if (!blob)
            return err_set(e, -ENOTSUP, "%s: this binary has no persistent plan for %s; --plan=replay", c->w->name, c->w->card.chip->name);
        const void *code = kernel_blob_bytes(blob, &n);
        struct amd_bodies *b = code ? calloc(1, sizeof *b) : NULL;
        if (!b)
            return err_set(e, -ENOMEM, "%s: the persistent plan's bodies", c->w->name);
        if ((rc = amd_module_load(&c->copier, "walk", code, n, &b->walk_module, e)) ||
            (rc = amd_module_kernel(&b->walk_module, "k_walk", &b->walk, e))) {
            amd_bodies_free(b);
            return rc;
        }
        c->bodies = b;
    }
    for (uint32_t i = 0; i < d->n && !rc; i++)
        rc = need_body(c, d->d[i].kernel, e);
    return rc;
}

static bool has_body(void *user, uint32_t kernel)
{
    const struct amd_tier *c = user;
    return c->bodies->state[kernel] == BODY_THERE;
}

static uint32_t body_number(void *user, uint32_t kernel)
{
    return kernel;
}

/* ---- walks ---- */

/* Two compute units share four SIMDs with 16 waves each, and what both have of LDS (RDNA3 ISA guide, "Work-group processor"); registers
 * are given out by 24 where a SIMD has 1536, else by 16 (LLVM, getVGPRAllocGranule). */
uint32_t amd_walk_capacity(const struct amd_card *card, uint32_t vgprs, uint32_t lds_bytes, uint32_t lane_bytes)
{
    enum { SIMDS = 4, SIMD_WAVES = 16, LDS = 128 << 10, LDS_UNIT = 1024, SIMD_VGPR_BYTES = 2 * 32 * 4 };
    uint32_t have = card->chip->save_vgpr_bytes / SIMD_VGPR_BYTES, unit = have == 1536 ? 24 : 16;
    uint32_t waves = have / ((MAX(vgprs, 1u) + unit - 1) / unit * unit), se = MAX(card->n_se, 1u), pairs = card->n_cu / se / 2;
    uint32_t n = MIN(waves, (uint32_t)SIMD_WAVES) * SIMDS / WAVES;
    n = MIN(n, LDS / (uint32_t)align_up(MAX(lds_bytes, 1u), LDS_UNIT));
    n = MIN(n, 2u * WALK_PER_CORE) * pairs;
    if (lane_bytes) /* as amd_scratch_alloc has it for each shader engine */
        n = MIN(n, MAX(card->n_cu / se * card->scratch_slots_cu, 1u) / WAVES);
    return n * se;
}

/* The kernel of the walk with what its bodies want; its work-groups: no more than the longest item has. */
static int size_walk(const struct amd_tier *c, const struct dispatch_plan *d, struct amd_walk *w, struct err *e)
{
    const struct amd_bodies *b = c->bodies;
    uint32_t vgprs = b->walk.vgprs, most = 0;
    w->k = b->walk;
    for (uint32_t i = w->first; i < w->first + w->n; i++) {
        const struct amd_kernel *k = &b->kernel[d->d[i].kernel];
        const uint32_t *g = d->d[i].grid;
        vgprs = MAX(vgprs, k->vgprs);
        w->k.scratch_bytes = MAX(w->k.scratch_bytes, amd_kernel_lane_bytes(k));
        w->k.rsrc2 |= k->rsrc2 & 1;
        w->lds_bytes = MAX(w->lds_bytes, k->lds_bytes + d->d[i].shared);
        most = MAX(most, g[0] * g[1] * g[2]);
    }
    w->lds_bytes = (uint32_t)align_up(MAX(w->lds_bytes, 16u), 16) + WAVES * WALK_SLOT;
    w->k.vgprs = vgprs;
    w->k.rsrc1 = (w->k.rsrc1 & ~63u) | (vgprs / 8 - 1);
    w->groups = w->lds_bytes > GROUP_LDS ? 0 : MIN(most, amd_walk_capacity(&c->w->card, vgprs, w->lds_bytes, amd_kernel_lane_bytes(&w->k)));
    if (!w->groups)
        return err_set(e, -ENOTSUP, "%s: %u vector registers, %u bytes of LDS and %u of scratch a lane leave no room for the persistent "
                       "plan's work-groups; --plan=replay", c->w->name, vgprs, w->lds_bytes, amd_kernel_lane_bytes(&w->k));
    return 0;
}

/* The blocks of arguments in full: what the compiler's implicit arguments and the dispatch packet say of a launch of its own. */
static int fill_arguments(const struct amd_tier *c, const struct dispatch_plan *d, const struct amd_walk *w, uint8_t *list, struct err *e)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const struct dispatch *x = &d->d[w->first + i];
        struct walk_item it;
        struct pm4_launch regs;
        memcpy(&it, list + i * sizeof it, sizeof it);
        struct amd_launch l = { .kernel = &c->bodies->kernel[x->kernel], .args = d->args + x->args_off,
                                .args_bytes = kernel_infos[x->kernel].args_bytes, .groups = { x->grid[0], x->grid[1], x->grid[2] },
                                .threads = WALK_THREADS, .lds_bytes = x->shared, .kernarg = w->mem.va + it.args };
        int rc = amd_launch_fill(&l, &c->scratch, list + it.args, &regs, e);
        if (rc) {
            err_context(e, "%s", c->w->name);
            return rc;
        }
    }
    return 0;
}

/* Before the card counts as hung: what the walk says of itself tells more. */
static uint32_t give_up_ticks(void)
{
    const uint32_t second = 1000000000 / AMD_CLOCK_NS;
    int hang = env_get()->kfd_timeout;
    return hang > 0 && hang < 2 * WALK_SECONDS ? (uint32_t)hang * (second / 2) : WALK_SECONDS * second;
}

static int fill_own(const struct amd_tier *c, struct amd_walk *w, const struct walk_amd *args, uint64_t at, uint8_t *block, struct err *e)
{
    struct amd_launch l = { .kernel = &w->k, .args = args, .args_bytes = sizeof *args, .groups = { w->groups, 1, 1 },
                            .threads = WALK_THREADS, .lds_bytes = w->lds_bytes, .kernarg = w->mem.va + at };
    int rc = amd_launch_fill(&l, &c->scratch, block + at, &w->regs, e);
    if (rc)
        err_context(e, "%s", c->w->name);
    return rc;
}

static int make_walk(struct amd_tier *c, const struct dispatch_plan *d, struct amd_walk *w, struct err *e)
{
    int rc = size_walk(c, d, w, e);
    if (rc)
        return rc;
    struct walk_list l = { .form = &amd_walk_form, .d = d, .first = w->first, .n = w->n, .groups = w->groups };
    uint64_t counters = align_up(walk_list_bytes(&l), COUNTERS_BYTES), bodies = counters + COUNTERS_BYTES;
    uint64_t own = bodies + KERNEL_COUNT * sizeof(struct walk_amd_body), bytes = own + amd_kernarg_bytes(sizeof(struct walk_amd));
    uint8_t *block = calloc(1, bytes);
    if (!block)
        return err_set(e, -ENOMEM, "%s: list of a walk", c->w->name);
    rc = amd_mem_alloc(c->w, AMD_VRAM, bytes, "list of a walk", &w->mem, e);
    if (!rc) {
        walk_list_write(&l, body_number, NULL, block);
        if (!(rc = walk_list_verify(&l, block, e)))
            rc = fill_arguments(c, d, w, block, e);
    }
    for (uint32_t k = 0; k < KERNEL_COUNT && !rc; k++) {
        struct walk_amd_body body = { .entry = c->bodies->kernel[k].entry, .asks = asks_of(&c->bodies->kernel[k]) };
        memcpy(block + bodies + k * sizeof body, &body, sizeof body);
    }
    const struct walk_amd args = { .counter = w->mem.va + counters, .left = w->mem.va + counters + LEFT_AT, .list = w->mem.va,
                                    .bodies = w->mem.va + bodies, .gave_up = c->w->cells_va + offsetof(struct amd_cells, gave_up),
                                    .n_items = w->n, .groups = w->groups, .first = w->first + 1,
                                    .ticks = give_up_ticks(),
                                    .slots = w->lds_bytes - WAVES * WALK_SLOT };
    if (!rc && !(rc = fill_own(c, w, &args, own, block, e)))
        rc = amd_upload(&c->copier, &w->mem, 0, block, align_up(bytes, 4), e);
    free(block);
    return rc;
}

/* All work-groups of a walk must be on the card at once. Another program's launches take room, and two programs that walk could each
 * hold what the other waits for. */
static int check_alone(const struct amd_tier *c, struct err *e)
{
    const char *where;
    uint32_t n = c->w->ops->others ? c->w->ops->others(c->w, &where) : 0;
    if (n)
        return err_set(e, -ENOTSUP, "%s: %u other process%s the card (%s), so the persistent plan's work-groups may not all find room; "
                       "--plan=replay", c->w->name, n, n == 1 ? " has" : "es have", where);
    return 0;
}

int amd_walks_make(struct amd_tier *c, const struct amd_plan *p, struct amd_pass *x, uint32_t rows, struct err *e)
{
    const struct dispatch_plan *d = x->d;
    if (p->r.base.kind != PLAN_PERSISTENT || rows != 1)
        return 0;
    int rc = check_alone(c, e);
    if (!rc)
        rc = load_bodies(c, d, e);
    for (uint32_t i = 0, n; !rc && (n = walk_next(&amd_walk_form, d, &i, has_body, c)); i += n) {
        struct amd_walk *w = realloc(x->walks, (x->n_walks + 1) * sizeof *w);
        if (!w)
            return err_set(e, -ENOMEM, "%s: table of walks", c->w->name);
        x->walks = w;
        w[x->n_walks] = (struct amd_walk){ .first = i, .n = n };
        rc = make_walk(c, d, &w[x->n_walks++], e);
    }
    if (!rc && !x->n_walks)
        rc = err_set(e, -ENOTSUP, "%s: %s has no persistent form of this model's kernels; --plan=replay", c->w->name, c->w->card.name);
    return rc;
}

const struct amd_walk *amd_walk_at(const struct amd_pass *x, uint32_t i)
{
    for (uint32_t k = 0; k < x->n_walks; k++)
        if (x->walks[k].first + 1 == i)
            return &x->walks[k];
    return NULL;
}

uint32_t amd_walk_stands_at(const struct amd_pass *x, uint32_t first, uint32_t counter)
{
    const struct amd_walk *w = amd_walk_at(x, first);
    struct walk_list l = { .form = &amd_walk_form, .d = x->d };
    if (!w)
        return first;
    l.first = w->first, l.n = w->n, l.groups = w->groups;
    return first + walk_list_standing(&l, counter);
}

void amd_walks_free(struct amd_pass *x)
{
    for (uint32_t i = 0; i < x->n_walks; i++)
        amd_mem_free(&x->walks[i].mem);
    amd_mem_free(&x->walk_ib);
    free(x->walks);
    x->walks = NULL;
    x->n_walks = 0;
}
