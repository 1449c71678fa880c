/* Is there memory for one more model, and whose end makes some? */
#ifdef ZINC_CURL
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "server/router/router_impl.h"

uint64_t memory_needs(const struct model *m)
{
    return m->held ? m->held : m->o->bytes + m->o->bytes / 10;
}

/* Where m will lie, as router.place[it - 1]: as the last time, or where all the others do; 0: unknown. */
static unsigned place_of(const struct router *r, const struct model *m)
{
    return m->place ? m->place : r->n_places == 1 ? 1 : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Bytes at this place that nobody has or is about to take. UINT64_MAX: unknown. */
static uint64_t free_at(const struct router *r, unsigned place)
{
    const struct place *p = &r->place[place - 1];
    bool host = strcmp(p->name, "host") == 0;
    uint64_t n = host ? r->o.host_free ? r->o.host_free() : 0 : p->free;
    if (host && !n)
        return UINT64_MAX;
    for (uint32_t i = 0; i < r->o.n_models; i++)
        if (r->m[i].state == MODEL_LOADING && place_of(r, &r->m[i]) == place)
            n = less(n, memory_needs(&r->m[i]));
    return n;
}

static uint64_t taken(const struct router *r)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->o.n_models; i++)
        n += model_is_on(&r->m[i]) ? memory_needs(&r->m[i]) : 0;
    return n;
}

bool memory_is_over(const struct router *r)
{
    return r->o.max_bytes && taken(r) > r->o.max_bytes;
}

/* Bytes that the ends of all others at this place would give. */
static uint64_t could_be_had(const struct router *r, unsigned place)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        const struct model *m = &r->m[i];
        n += model_is_on(m) && !m->o->pinned && place_of(r, m) == place ? memory_needs(m) : 0;
    }
    return n;
}

static bool is_limited(const struct router *r, const struct model *m)
{
    return r->o.max_bytes && taken(r) + memory_needs(m) > r->o.max_bytes;
}

enum memory_room memory_room(const struct router *r, const struct model *m)
{
    uint64_t need = memory_needs(m);
    unsigned place = place_of(r, m);
    if (r->o.max_bytes && need > r->o.max_bytes)
        return ROOM_NEVER;
    if (is_limited(r, m))
        return ROOM_LATER;
    uint64_t is_free = place ? free_at(r, place) : UINT64_MAX;
    /* where even that would not do, its process shall say what it lacks */
    return need > is_free && need - is_free <= could_be_had(r, place) ? ROOM_LATER : ROOM_NOW;
}

struct model *memory_victim(struct router *r, const struct model *m)
{
    struct model *best = NULL;
    bool any = is_limited(r, m);
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        struct model *x = &r->m[i];
        if (model_may_end(x) && (any || place_of(r, x) == place_of(r, m)) && (!best || x->used_ns < best->used_ns))
            best = x;
    }
    return best;
}

void memory_ready(struct router *r, struct model *m, const struct child_memory *c)
{
    unsigned k = 0;
    m->held = c->held;
    m->place = 0;
    if (!c->had)
        return;
    while (k < r->n_places && strcmp(r->place[k].name, c->place) != 0)
        k++;
    if (k == MOST_PLACES)
        return;
    if (k == r->n_places)
        snprintf(r->place[r->n_places++].name, sizeof r->place->name, "%s", c->place);
    m->place = k + 1;
    r->place[k].free = less(c->had, c->held);
    for (uint32_t i = 0; i < r->o.n_models; i++) { /* it may not have seen what these took since it looked */
        const struct model *x = &r->m[i];
        if (x != m && x->state == MODEL_READY && x->place == m->place && x->since_ns > m->since_ns)
            r->place[k].free = less(r->place[k].free, x->held);
    }
}

void memory_ended(struct router *r, struct model *m)
{
    if (m->place)
        r->place[m->place - 1].free += m->held;
}
#endif
