#include "rt/lockstep/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rt/lockstep/group.h"

struct walking {
    struct group *g;
    uint32_t item, next; /* where it stands: an item, and which of its groups is next or under way */
    bool waits;          /* for its inputs, in the midst of it                                     */
};

struct lockstep_walker {
    uint32_t groups;
    struct walking *at;
};

/* A walk under way. */
struct walk {
    struct lockstep_walker *w;
    const uint8_t *list;
    uint32_t n, shared, counter;
    lockstep_entry *entries;
};

int lockstep_walker_create(uint32_t groups, struct lockstep_walker **out, struct err *e)
{
    struct lockstep_walker *w = calloc(1, sizeof *w);
    if (!w || !(w->at = calloc(groups, sizeof *w->at))) {
        free(w);
        return err_set(e, -ENOMEM, "lockstep: work-groups of a walk");
    }
    for (; w->groups < groups; w->groups++) {
        int rc = group_create(&w->at[w->groups].g, e);
        if (rc) {
            lockstep_walker_destroy(w);
            return rc;
        }
    }
    *out = w;
    return 0;
}

void lockstep_walker_destroy(struct lockstep_walker *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->groups; i++)
        group_destroy(w->at[i].g);
    free(w->at);
    free(w);
}

static struct walk_item item_at(const struct walk *x, uint32_t i)
{
    struct walk_item it;
    memcpy(&it, x->list + i * sizeof it, sizeof it);
    return it;
}

/* The next item that has a group for this one; false: there is none. */
static bool next_item(const struct walk *x, struct walking *a, uint32_t me)
{
    while (a->item < x->n && item_at(x, a->item).groups <= me)
        a->item++;
    a->next = me;
    return a->item < x->n;
}

static void begin(const struct walk *x, struct walking *a, uint32_t me)
{
    struct walk_item it = item_at(x, a->item);
    struct group_work work = { .entry = x->entries[it.kernel], .args = x->list + it.args, .grid = { it.grid[0], it.grid[1], it.grid[2] },
                               .id = { a->next % it.grid[0], a->next / it.grid[0] % it.grid[1], a->next / it.grid[0] / it.grid[1] },
                               .threads = WALK_THREADS, .shared = x->shared, .must_wait = a->next == me };
    group_begin(a->g, &work);
}

static int told(struct err *e, int rc, const struct walk *x, const struct walking *a, uint32_t me)
{
    struct walk_item it = item_at(x, a->item);
    err_context(e, "walk: item %u, kernel %s, work-group %u", a->item, kernel_infos[it.kernel].name, me);
    return rc;
}

/* On with one work-group, as far as it gets. */
static int step(struct walk *x, uint32_t me, struct err *e)
{
    struct walking *a = &x->w->at[me];
    int rc = 0;
    if (a->waits)
        group_open(a->g);
    else
        begin(x, a, me);
    a->waits = false;
    switch (group_run(a->g)) {
    case GROUP_WAITS:
        a->waits = true;
        return 0;
    case GROUP_APART:
    case GROUP_STUCK:
        return told(e, group_stuck(a->g, e), x, a, me);
    case GROUP_THROUGH:
        rc = group_check(a->g, e);
        if (!rc && a->next == me && !group_has_waited(a->g))
            rc = err_set(e, -EINVAL, "it came to its end without having waited for its inputs");
    }
    a->next += x->w->groups;
    if (a->next >= item_at(x, a->item).groups) {
        x->counter++;
        a->item++;
        next_item(x, a, me);
    }
    return rc ? told(e, rc, x, a, me) : 0;
}

static bool can_go_on(const struct walk *x, const struct walking *a)
{
    return a->item < x->n && (!a->waits || x->counter >= item_at(x, a->item).need);
}

static int deadlock(const struct walk *x, struct err *e)
{
    for (uint32_t i = 0; i < x->w->groups; i++)
        if (x->w->at[i].item < x->n) {
            struct walk_item it = item_at(x, x->w->at[i].item);
            return err_set(e, -EDEADLK, "walk: nobody can go on: work-group %u waits at item %u, kernel %s, for %u; the counter "
                           "is at %u", i, x->w->at[i].item, kernel_infos[it.kernel].name, it.need, x->counter);
        }
    return 0;
}

int lockstep_walk(struct lockstep_walker *w, const uint8_t *list, uint32_t n, uint32_t shared, lockstep_entry *entries, uint64_t seed,
                  struct err *e)
{
    struct walk x = { .w = w, .list = list, .n = n, .shared = shared, .entries = entries };
    uint32_t left = 0;
    int rc = 0;
    groups_lock();
    for (uint32_t i = 0; i < w->groups; i++) {
        w->at[i] = (struct walking){ .g = w->at[i].g };
        left += next_item(&x, &w->at[i], i);
    }
    while (left && !rc) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t first = (uint32_t)(seed >> 33) % w->groups, i = 0;
        while (i < w->groups && !can_go_on(&x, &w->at[(first + i) % w->groups]))
            i++;
        if (i == w->groups) {
            rc = deadlock(&x, e);
            break;
        }
        uint32_t me = (first + i) % w->groups;
        rc = step(&x, me, e);
        left -= w->at[me].item == n;
    }
    groups_unlock();
    return rc;
}
