#include "rt/walk_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "rt/replay.h"
#include "rt/walk_fields.h"

_Static_assert(sizeof(struct walk_head) == 64 && sizeof(struct walk_kernel) == 64 && sizeof(struct walk_launch) == 16 &&
                   sizeof(struct walk_run) == 16,
               "the file of a persistent plan");

/* Which stream it is: all that lists follow from. */
static uint64_t hash_of(const struct stream *s)
{
    uint64_t h = XXH64(&s->h, sizeof s->h, 0);
    h = XXH64(s->cmds, s->h.n_cmds * sizeof *s->cmds, h);
    h = XXH64(s->args, s->h.args_bytes, h);
    return XXH64(s->bufs, s->h.n_bufs * sizeof *s->bufs, h);
}

struct walk_plan *walk_plan_alloc(const struct walk_head *h)
{
    struct walk_plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->h = *h;
    p->kernel = calloc(h->n_kernels + 1ull, sizeof *p->kernel);
    p->launch = calloc(h->n_launches + 1ull, sizeof *p->launch);
    p->walk = calloc(h->n_walks + 1ull, sizeof *p->walk);
    p->lists = calloc(1, h->list_bytes + 1ull);
    if (p->kernel && p->launch && p->walk && p->lists)
        return p;
    walk_plan_free(p);
    return NULL;
}

void walk_plan_free(struct walk_plan *p)
{
    if (!p)
        return;
    free(p->kernel);
    free(p->launch);
    free(p->walk);
    free(p->lists);
    free(p);
}

const uint8_t *walk_plan_list(const struct walk_plan *p, uint32_t walk)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < walk; i++)
        at += p->walk[i].bytes;
    return p->lists + at;
}

struct walk_item walk_plan_item(const struct walk_plan *p, uint32_t walk, uint32_t item)
{
    struct walk_item it;
    memcpy(&it, walk_plan_list(p, walk) + item * sizeof it, sizeof it);
    return it;
}

uint32_t walk_kernel_find(const char *name)
{
    uint32_t k = 0;
    while (k < KERNEL_COUNT && strcmp(kernel_infos[k].name, name) != 0)
        k++;
    return k;
}

uint32_t walk_first_cmd(const struct walk_plan *p, uint32_t i)
{
    uint32_t mine = p->launch[i].cmd;
    if (i == 0)
        return 0;
    return p->launch[i - 1].cmd < mine ? p->launch[i - 1].cmd + 1 : mine;
}

/* ---- making ---- */

static bool has_body(void *user, uint32_t kernel)
{
    const struct walk_card *card = user;
    return walk_takes(kernel) && card->has(card->user, kernel);
}

/* Kernels are numbered in the order of their first launches. */
static uint32_t number_of(void *user, uint32_t kernel)
{
    struct walk_plan *p = user;
    const struct kernel_info *k = &kernel_infos[kernel];
    uint32_t i = 0;
    while (i < p->h.n_kernels && strcmp(p->kernel[i].name, k->name) != 0)
        i++;
    if (i == p->h.n_kernels) {
        snprintf(p->kernel[i].name, sizeof p->kernel[i].name, "%s", k->name);
        p->kernel[i].args_bytes = k->args_bytes;
        p->h.n_kernels++;
    }
    return i;
}

static uint32_t longest(const struct dispatch_plan *d, uint32_t first, uint32_t n)
{
    uint32_t most = 1;
    for (uint32_t i = first; i < first + n; i++)
        most = MAX(most, d->d[i].grid[0] * d->d[i].grid[1] * d->d[i].grid[2]);
    return most;
}

static struct walk_list list_of(const struct walk_card *card, const struct dispatch_plan *d, uint32_t first, uint32_t n)
{
    return (struct walk_list){ .form = card->form, .d = d, .first = first, .n = n,
                               .groups = card->no_more ? MIN(card->groups, longest(d, first, n)) : card->groups };
}

static int fill(const struct stream *s, const struct walk_card *card, const struct dispatch_plan *d, struct walk_plan **out,
                struct err *e)
{
    struct walk_head h = { .magic = WALK_MAGIC, .stream = hash_of(s), .n_cores = card->target.n_cores,
                           .form_bytes = card->form->bytes, .n_kernels = KERNEL_COUNT, .n_launches = d->n };
    void *user = (void *)(uintptr_t)card;
    snprintf(h.card, sizeof h.card, "%s", card->name);
    for (uint32_t i = 0, n; (n = walk_next(card->form, d, &i, has_body, user)); i += n) {
        struct walk_list w = list_of(card, d, i, n);
        h.n_walks++;
        h.list_bytes += walk_list_bytes(&w);
    }
    if (!h.n_walks)
        return err_set(e, -ENOTSUP, "walk: %s has no persistent form of this stream's kernels", card->name);
    struct walk_plan *p = walk_plan_alloc(&h);
    if (!p)
        return err_set(e, -ENOMEM, "walk: lists of %u bytes", h.list_bytes);
    p->h.n_kernels = 0;
    for (uint32_t i = 0; i < d->n; i++)
        p->launch[i] = (struct walk_launch){ .kernel = number_of(p, d->d[i].kernel), .cmd = d->d[i].cmd, .walk = WALK_ALONE };
    uint8_t *to = p->lists;
    uint32_t k = 0;
    for (uint32_t i = 0, n; (n = walk_next(card->form, d, &i, has_body, user)); i += n, k++) {
        struct walk_list w = list_of(card, d, i, n);
        p->walk[k] = (struct walk_run){ .first = i, .n = n, .groups = w.groups, .bytes = walk_list_bytes(&w) };
        walk_list_write(&w, number_of, p, to);
        to += p->walk[k].bytes;
        for (uint32_t j = i; j < i + n; j++)
            p->launch[j].walk = k;
    }
    *out = p;
    return 0;
}

int walk_plan_make(const struct stream *s, const struct walk_card *card, struct walk_plan **out, struct err *e)
{
    struct replay r = { .target = card->target };
    struct replay_plan rp = { .base = { .tier = &r.tier, .s = s, .kind = PLAN_PERSISTENT } };
    struct walk_plan *p = NULL;
    if (s->h.row_cap > KL_DECODE_ROWS)
        return err_set(e, -EINVAL, "walk: a stream for %u rows has no persistent plan: only decode streams have one, of at most %d "
                       "rows (zinc graph --save)", s->h.row_cap, KL_DECODE_ROWS);
    int rc = replay_plan_build(&rp, NULL, e);
    if (!rc)
        rc = fill(s, card, rp.pass[rp.n_passes - 1].d, &p, e);
    replay_plan_free(&rp);
    if (!rc && (rc = walk_plan_verify(p, s, NULL, e)))
        walk_plan_free(p);
    else if (!rc)
        *out = p;
    return rc;
}

/* ---- verifying ---- */

struct verifier {
    const struct walk_plan *p;
    const struct stream *s;
    struct err *e;
    struct walk_seen seen;
    uint32_t *id; /* [n_kernels]: enum kernel_id */
};

static int verify_kernels(struct verifier *v)
{
    const struct walk_plan *p = v->p;
    for (uint32_t i = 0; i < p->h.n_kernels; i++) {
        const struct walk_kernel *k = &p->kernel[i];
        if (!memchr(k->name, 0, sizeof k->name) || (v->id[i] = walk_kernel_find(k->name)) == KERNEL_COUNT)
            return err_set(v->e, -EINVAL, "walk: kernel %u is '%.55s', which this program does not have (make the lists again)", i,
                           k->name);
        if (k->args_bytes != kernel_infos[v->id[i]].args_bytes)
            return err_set(v->e, -EINVAL, "walk: %s takes %u bytes of arguments, this program's takes %u (make the lists again)",
                           k->name, k->args_bytes, kernel_infos[v->id[i]].args_bytes);
    }
    return 0;
}

/* Launches by rising command, each of a kernel and a walk that there are; the last command has one. */
static int verify_launches(struct verifier *v)
{
    const struct walk_plan *p = v->p;
    for (uint32_t i = 0; i < p->h.n_launches; i++) {
        const struct walk_launch *l = &p->launch[i];
        if (l->kernel >= p->h.n_kernels || l->cmd >= v->s->h.n_cmds || (i && l->cmd < l[-1].cmd) ||
            (l->walk != WALK_ALONE && l->walk >= p->h.n_walks))
            return err_set(v->e, -EINVAL, "walk: launch %u is of kernel %u, command %u, list %u; below %u, %u, %u and by rising command "
                           "is expected", i, l->kernel, l->cmd, l->walk, p->h.n_kernels, v->s->h.n_cmds, p->h.n_walks);
    }
    if (!p->h.n_launches || p->launch[p->h.n_launches - 1].cmd + 1 != v->s->h.n_cmds)
        return err_set(v->e, -EINVAL, "walk: %u launches leave out the last of %u commands", p->h.n_launches, v->s->h.n_cmds);
    return 0;
}

/* Lists are runs of launches in order, which say so, take all the bytes that there are, and are not for any number of
 * work-groups. */
static int verify_runs(struct verifier *v)
{
    const struct walk_plan *p = v->p;
    uint64_t bytes = 0, end = 0, items = 0, groups = 0;
    for (uint32_t i = 0; i < p->h.n_walks; i++) {
        const struct walk_run *w = &p->walk[i];
        bool inside = w->n && w->first >= end && w->first <= p->h.n_launches && w->n <= p->h.n_launches - w->first;
        if (!inside || !w->groups || w->bytes > p->h.form_bytes || w->bytes / sizeof(struct walk_item) < w->n ||
            w->bytes > p->h.list_bytes - bytes)
            return err_set(v->e, -EINVAL, "walk: list %u has launches %u to %llu, %u work-groups and %u bytes, of %u launches and %u bytes "
                           "of lists", i, w->first, (unsigned long long)w->first + w->n - 1, w->groups, w->bytes, p->h.n_launches,
                           p->h.list_bytes);
        for (uint32_t k = w->first; k < w->first + w->n; k++)
            if (p->launch[k].walk != i)
                return err_set(v->e, -EINVAL, "walk: launch %u lies in list %u and says %u", k, i, p->launch[k].walk);
        end = (uint64_t)w->first + w->n;
        bytes += w->bytes;
        if ((groups += w->groups) > WALK_MOST_GROUPS)
            return err_set(v->e, -EINVAL, "walk: lists 0 to %u have %llu work-groups together; at most %u is expected", i,
                           (unsigned long long)groups, WALK_MOST_GROUPS);
    }
    for (uint32_t i = 0; i < p->h.n_launches; i++)
        items += p->launch[i].walk != WALK_ALONE;
    for (uint32_t i = 0; i < p->h.n_walks; i++)
        items -= p->walk[i].n;
    if (items || bytes != p->h.list_bytes)
        return err_set(v->e, -EINVAL, "walk: %llu launches are of no list, %llu bytes of lists of none", (unsigned long long)items,
                       (unsigned long long)(p->h.list_bytes - bytes));
    return 0;
}

static int wrong(struct verifier *v, uint32_t walk, uint32_t item)
{
    const struct walk_launch *l = &v->p->launch[v->p->walk[walk].first + item];
    err_context(v->e, "walk: list %u, item %u (command %u, %s)", walk, item, l->cmd, cmd_name(v->s->cmds[l->cmd].op));
    return -EINVAL;
}

static gpu_va address_at(const uint8_t *list, const struct walk_item *it, uint16_t off)
{
    gpu_va va;
    memcpy(&va, list + it->args + off, sizeof va);
    return va;
}

/* Kernel, arguments and addresses of an item. args_end: where the arguments before it end. */
static int verify_item(struct verifier *v, uint32_t walk, uint32_t item, uint32_t *args_end)
{
    const struct walk_plan *p = v->p;
    const struct walk_run *w = &p->walk[walk];
    const uint8_t *list = walk_plan_list(p, walk);
    struct walk_item it = walk_plan_item(p, walk, item);
    uint32_t kernel = p->launch[w->first + item].kernel, id = v->id[kernel], bytes = kernel_infos[id].args_bytes;
    if (it.kernel != kernel || !walk_takes(id))
        err_set(v->e, -EINVAL, "kernel %u, where its launch has %u, %s%s", it.kernel, kernel, p->kernel[kernel].name,
                walk_takes(id) ? "" : ", which has no body");
    else if (it.pad || it.args < *args_end || it.args > w->bytes || bytes > w->bytes - it.args)
        err_set(v->e, -EINVAL, "%u bytes of arguments at %u; between %u and %u is expected", bytes, it.args, *args_end, w->bytes);
    else {
        *args_end = it.args + bytes;
        for (const uint16_t *off = kernel_infos[id].addresses(); *off != UINT16_MAX; off++) {
            gpu_va va = address_at(list, &it, *off);
            if (va && (SADDR_ARENA(va) >= ARENA_ALL ||
                       (SADDR_ARENA(va) < ARENA_COUNT && SADDR_OFF(va) >= v->s->h.arena_bytes[SADDR_ARENA(va)])))
                return err_set(v->e, -EINVAL, "the address at %u of its arguments, 0x%016llx, lies in no arena", *off,
                               (unsigned long long)va),
                       wrong(v, walk, item);
        }
        return 0;
    }
    return wrong(v, walk, item);
}

/* The newest launch before i that must be complete where i waits for command w: the last one of the command that does w, or, where
 * i's own launches do w, the one before i. i: there is none. */
static uint32_t newest_awaited(const struct walk_plan *p, uint32_t i, uint32_t w)
{
    uint32_t k = i;
    while (k > 0 && p->launch[k - 1].cmd >= w)
        k--;
    if (k == i)
        return i ? i - 1 : i;
    while (k + 1 < i && p->launch[k + 1].cmd == p->launch[k].cmd)
        k++;
    return k;
}

/* Does the item need all that the stream has its commands wait for? sums[k]: what items 0..k add. */
static int verify_waits(struct verifier *v, uint32_t walk, uint32_t item, uint32_t need, const uint64_t *sums)
{
    const struct walk_plan *p = v->p;
    const struct walk_run *w = &p->walk[walk];
    uint32_t i = w->first + item, cmd = p->launch[i].cmd;
    if (i && p->launch[i - 1].cmd == cmd) /* what another launch of its command has waited for: see verify_overlap */
        return 0;
    for (uint32_t c = walk_first_cmd(p, i); c <= cmd; c++) {
        uint32_t on = v->s->cmds[c].wait, k;
        if (on == CMD_NO_WAIT || (k = newest_awaited(p, i, on)) == i || k < w->first)
            continue;
        v->seen.waits++;
        if (need < sums[k - w->first])
            return err_set(v->e, -EINVAL, "it begins at %u work-groups; command %u waits for command %u, which is complete at %llu", need,
                           c, on, (unsigned long long)sums[k - w->first]),
                   wrong(v, walk, item);
    }
    return 0;
}

/* Addresses of an item's arguments, one after the other. */
struct addresses {
    const uint8_t *list;
    struct walk_item it;
    const struct walk_field *field;
    uint32_t n, at, element;
};

static struct addresses addresses_of(const uint8_t *list, struct walk_item it, uint32_t id)
{
    struct addresses a = { .list = list, .it = it };
    a.field = walk_fields(id, &a.n);
    return a;
}

/* The next one that is not absent, and its enum use_dir. */
static bool next_address(struct addresses *a, gpu_va *va, uint8_t *dir)
{
    for (; a->at < a->n; a->at++, a->element = 0)
        for (const struct walk_field *f = &a->field[a->at]; f->dir && a->element < f->count;) {
            *va = address_at(a->list, &a->it, (uint16_t)(f->off + 8 * a->element++));
            *dir = f->dir;
            if (*va)
                return true;
        }
    return false;
}

static bool uses_work(struct addresses a)
{
    gpu_va va;
    uint8_t dir;
    while (next_address(&a, &va, &dir))
        if (SADDR_ARENA(va) == ARENA_WORK)
            return true;
    return false;
}

/* Item b may begin before item a is complete: do they get in each other's way? */
static int verify_overlap(struct verifier *v, uint32_t walk, uint32_t a, uint32_t b)
{
    const struct walk_plan *p = v->p;
    const struct walk_launch *la = &p->launch[p->walk[walk].first + a], *lb = &p->launch[p->walk[walk].first + b];
    const uint8_t *list = walk_plan_list(p, walk);
    const struct addresses xs = addresses_of(list, walk_plan_item(p, walk, a), v->id[la->kernel]);
    const struct addresses ys = addresses_of(list, walk_plan_item(p, walk, b), v->id[lb->kernel]);
    struct addresses i = xs;
    gpu_va x, y;
    uint8_t x_dir, y_dir;
    v->seen.pairs++;
    while (next_address(&i, &x, &x_dir))
        for (struct addresses k = ys; next_address(&k, &y, &y_dir);)
            if (x == y && ((x_dir | y_dir) & USE_WRITE))
                return err_set(v->e, -EINVAL, "it begins before item %u is complete, with which it shares what is written at 0x%016llx", a,
                               (unsigned long long)x),
                       wrong(v, walk, b);
    if (la->cmd != lb->cmd && uses_work(xs) && uses_work(ys))
        return err_set(v->e, -EINVAL, "it begins before item %u of another command is complete, and both use private memory", a),
               wrong(v, walk, b);
    return 0;
}

static int verify_list(struct verifier *v, uint32_t walk)
{
    const struct walk_run *w = &v->p->walk[walk];
    const struct walk_form f = { .bytes = w->bytes };
    const struct walk_list l = { .form = &f, .n = w->n, .groups = w->groups };
    uint32_t args_end = w->n * (uint32_t)sizeof(struct walk_item);
    uint64_t sum = 0, *sums = calloc(w->n, sizeof *sums);
    int rc = sums ? walk_list_verify(&l, walk_plan_list(v->p, walk), v->e) : err_set(v->e, -ENOMEM, "walk: sums of %u items", w->n);
    if (sums && rc)
        err_context(v->e, "list %u", walk);
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        struct walk_item it = walk_plan_item(v->p, walk, i);
        sums[i] = sum += MIN(it.groups, w->groups);
        rc = verify_item(v, walk, i, &args_end);
        if (!rc)
            rc = verify_waits(v, walk, i, it.need, sums);
        for (uint32_t a = i; a-- > 0 && sums[a] > it.need && !rc;)
            rc = verify_overlap(v, walk, a, i);
    }
    free(sums);
    return rc;
}

int walk_plan_verify(const struct walk_plan *p, const struct stream *s, struct walk_seen *seen, struct err *e)
{
    struct verifier v = { .p = p, .s = s, .e = e, .id = calloc(p->h.n_kernels + 1ull, sizeof *v.id) };
    int rc = 0;
    if (!v.id)
        return err_set(e, -ENOMEM, "walk: numbers of %u kernels", p->h.n_kernels);
    if (p->h.stream != hash_of(s))
        rc = err_set(e, -EINVAL, "walk: the lists are of another stream: of hash %016llx, this one has %016llx (make the lists again)",
                     (unsigned long long)p->h.stream, (unsigned long long)hash_of(s));
    for (uint32_t i = 0; !rc && (p->h.card[i] || i == 0); i++)
        if (i + 1 == sizeof p->h.card || p->h.card[i] < ' ' || p->h.card[i] > '~')
            rc = err_set(e, -EINVAL, "walk: the card's name is no name");
    if (rc || (rc = verify_kernels(&v)) || (rc = verify_launches(&v)) || (rc = verify_runs(&v)))
        goto out;
    for (uint32_t i = 0; i < p->h.n_walks && !rc; i++)
        rc = verify_list(&v, i);
    if (!rc && seen)
        *seen = v.seen;
out:
    free(v.id);
    return rc;
}
