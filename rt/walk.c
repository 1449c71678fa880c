#include "rt/walk.h"

#include <errno.h>
#include <string.h>

#include "base/ckd.h"

static uint32_t alone(uint32_t args_bytes)
{
    return (uint32_t)align_up(args_bytes, 16);
}

const struct walk_form walk_form_const = { .bytes = WALK_CONST, .room = alone };

static uint32_t args_room(const struct walk_form *f, const struct dispatch_plan *d, uint32_t i)
{
    return f->room(d->kernels[d->d[i].kernel].args_bytes);
}

bool walk_takes(uint32_t kernel)
{
    if (kernel == K_attn_rope_group_h256 || kernel == K_attn_rope_group_h512) /* of launches that begin early alone */
        return false;
    return kernel_infos[kernel].threads == WALK_THREADS || kernel == K_attn_h64 || kernel == K_attn_h128;
}

uint32_t walk_length(const struct walk_form *f, const struct dispatch_plan *d, uint32_t first, bool (*has)(void *user, uint32_t kernel),
                     void *user)
{
    uint64_t bytes = 0;
    uint32_t i = first;
    for (; i < d->n && has(user, d->d[i].kernel); i++)
        if ((bytes += sizeof(struct walk_item) + args_room(f, d, i)) > f->bytes)
            break;
    return i - first;
}

uint32_t walk_next(const struct walk_form *f, const struct dispatch_plan *d, uint32_t *first, bool (*has)(void *user, uint32_t kernel),
                   void *user)
{
    uint32_t n = 0;
    while (*first < d->n && (n = walk_length(f, d, *first, has, user)) <= 1)
        *first += 1;
    return *first < d->n ? n : 0;
}

uint32_t walk_list_bytes(const struct walk_list *w)
{
    uint32_t bytes = w->n * (uint32_t)sizeof(struct walk_item);
    for (uint32_t i = 0; i < w->n; i++)
        bytes += args_room(w->form, w->d, w->first + i);
    return bytes;
}

void walk_list_write(const struct walk_list *w, uint32_t (*number)(void *user, uint32_t kernel), void *user, uint8_t *to)
{
    uint32_t args = w->n * (uint32_t)sizeof(struct walk_item), sum = 0, need = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct dispatch *x = &w->d->d[w->first + i];
        struct walk_item it = { .kernel = number(user, x->kernel), .args = args,
                                .groups = x->grid[0] * x->grid[1] * x->grid[2],
                                .grid = { x->grid[0], x->grid[1], x->grid[2] } };
        need = x->wait ? sum : need;
        it.need = need;
        sum += MIN(it.groups, w->groups);
        memcpy(to + i * sizeof it, &it, sizeof it);
        memcpy(to + args, w->d->args + x->args_off, w->d->kernels[x->kernel].args_bytes);
        args += args_room(w->form, w->d, w->first + i);
    }
}

uint32_t walk_list_standing(const struct walk_list *w, uint32_t counter)
{
    uint32_t at = 0, sum = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct dispatch *x = &w->d->d[w->first + i];
        if (x->wait && counter < sum)
            break;
        at = i;
        sum += MIN(x->grid[0] * x->grid[1] * x->grid[2], w->groups);
    }
    return at;
}

int walk_list_verify(const struct walk_list *w, const uint8_t *list, struct err *e)
{
    uint32_t n = w->n;
    uint64_t sum = 0, mark = 0; /* mark: the sum before the first item of those that may overlap */
    for (uint32_t i = 0; i < n; i++) {
        struct walk_item it;
        memcpy(&it, list + i * sizeof it, sizeof it);
        if (!it.groups || it.groups != (uint64_t)it.grid[0] * it.grid[1] * it.grid[2])
            return err_set(e, -EINVAL, "walk: item %u has %u groups, its grid %u x %u x %u", i, it.groups, it.grid[0],
                           it.grid[1], it.grid[2]);
        if (it.args < n * sizeof it || it.args >= w->form->bytes || it.args % 16)
            return err_set(e, -EINVAL, "walk: item %u has its arguments at %u; behind %zu and below %u is expected", i, it.args,
                           n * sizeof it, w->form->bytes);
        if (it.need != mark && it.need != sum)
            return err_set(e, -EINVAL, "walk: item %u waits for %u; %llu or %llu work-groups are expected", i, it.need,
                           (unsigned long long)mark, (unsigned long long)sum);
        mark = it.need;
        sum += MIN(it.groups, w->groups);
        if (sum > INT32_MAX)
            return err_set(e, -EINVAL, "walk: item %u: more work-groups than the counter counts", i);
    }
    return 0;
}
