/* Configurations of an automaton, and the steps between them. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

/* ---- interning ----------------------------------------------------------------------------------------- */

/* Makes room for one more than n entries; hash(g, i) is that of entry i. */
static int table_grow(struct grammar *g, struct grammar_table *t, uint32_t n,
                      uint64_t (*hash)(const struct grammar *, uint32_t))
{
    if (t->n_slot >= 2 * (n + 1))
        return 0;
    if (!charge(g, t->n_slot)) /* in a large cache this takes a while */
        return g->rc;
    uint32_t n_slot = t->n_slot ? t->n_slot * 4 : 256, *slot = calloc(n_slot, sizeof *slot);
    if (!slot)
        return -ENOMEM;
    for (uint32_t k = 0; k < t->n_slot; k++)
        if (t->slot[k]) {
            uint32_t i = (uint32_t)hash(g, t->slot[k]) & (n_slot - 1);
            while (slot[i])
                i = (i + 1) & (n_slot - 1);
            slot[i] = t->slot[k];
        }
    free(t->slot);
    *t = (struct grammar_table){ slot, n_slot };
    return 0;
}

static uint64_t frame_hash(const struct grammar *g, uint32_t i)
{
    return XXH3_64bits(&g->c.frame[i], offsetof(struct grammar_frame, depth));
}

static uint64_t config_hash(const struct grammar *g, uint32_t i)
{
    const struct grammar_config *c = &g->c.config[i];
    return XXH3_64bits_withSeed(g->c.item + c->item, c->n * sizeof(struct grammar_item), c->flags);
}

static uint32_t frame_new(struct grammar *g, struct grammar_frame f)
{
    struct grammar_frame *q = grammar_grow(g->c.frame, &g->c.cap_frame, g->c.n_frame + 1ull, sizeof *q);
    if (!q)
        return config_fail(g, -ENOMEM);
    g->c.frame = q;
    g->c.frame[g->c.n_frame] = f;
    return g->c.n_frame++;
}

static uint32_t frame_of(struct grammar *g, uint32_t ret, uint32_t parent)
{
    struct grammar_cache *c = &g->c;
    const struct grammar_frame *below = &c->frame[parent];
    struct grammar_frame f = { ret, parent, below->depth + 1, MAX(below->reach, below->depth + g->a.need[ret]) };
    int rc = table_grow(g, &c->frames, c->n_frame, frame_hash);
    if (rc)
        return config_fail(g, rc);
    uint32_t i = (uint32_t)XXH3_64bits(&f, offsetof(struct grammar_frame, depth)) & (c->frames.n_slot - 1);
    for (; c->frames.slot[i]; i = (i + 1) & (c->frames.n_slot - 1)) {
        const struct grammar_frame *have = &c->frame[c->frames.slot[i]];
        if (have->ret == ret && have->parent == parent)
            return c->frames.slot[i];
    }
    uint32_t made = frame_new(g, f);
    if (made != CONFIG_FAILED)
        c->frames.slot[i] = made;
    return made;
}

static uint64_t mask_hash(const struct grammar *g, uint32_t i)
{
    return XXH3_64bits(g->c.mask[i], g->v->n_words * sizeof **g->c.mask);
}

/* The mask, which belongs to the cache now, or an equal one that does; NULL: failed. */
static uint64_t *mask_enter(struct grammar *g, uint64_t *mask)
{
    struct grammar_cache *c = &g->c;
    size_t bytes = g->v->n_words * sizeof *mask;
    uint64_t **q = mask ? grammar_grow(c->mask, &c->cap_mask, c->n_mask + 2ull, sizeof *q) : NULL;
    if (q)
        c->mask = q;
    int rc = q ? table_grow(g, &c->masks, c->n_mask, mask_hash) : -ENOMEM;
    if (rc) {
        config_fail(g, rc);
        return NULL;
    }
    c->n_mask += c->n_mask == 0;
    uint32_t i = (uint32_t)XXH3_64bits(mask, bytes) & (c->masks.n_slot - 1);
    for (; c->masks.slot[i]; i = (i + 1) & (c->masks.n_slot - 1)) {
        uint64_t *have = c->mask[c->masks.slot[i]];
        if (have == mask || !memcmp(have, mask, bytes))
            return have;
    }
    c->masks.slot[i] = c->n_mask;
    c->mask_bytes += bytes;
    return c->mask[c->n_mask++] = mask;
}

const uint64_t *mask_intern(struct grammar *g, uint64_t *mask)
{
    const uint64_t *kept = charge(g, g->v->n_words / 32) ? mask_enter(g, mask) : NULL;
    if (kept != mask)
        free(mask);
    return kept;
}

static int compare_items(const void *a, const void *b)
{
    const struct grammar_item *x = a, *y = b;
    return x->frame != y->frame ? (x->frame < y->frame ? -1 : 1) : (x->state > y->state) - (x->state < y->state);
}

static void sort_items(struct grammar_item *it, uint32_t n)
{
    if (n > 32) {
        qsort(it, n, sizeof *it, compare_items);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        struct grammar_item x = it[i];
        uint32_t k = i;
        for (; k && compare_items(&it[k - 1], &x) > 0; k--)
            it[k] = it[k - 1];
        it[k] = x;
    }
}

static uint32_t item_reach(const struct grammar *g, struct grammar_item it)
{
    const struct grammar_frame *f = &g->c.frame[it.frame];
    return MAX(f->reach, f->depth + g->a.need[it.state]);
}

static uint32_t config_new(struct grammar *g, const struct grammar_item *it, uint32_t n, uint8_t flags)
{
    struct grammar_cache *c = &g->c;
    struct grammar_config *q = grammar_grow(c->config, &c->cap_config, c->n_config + 1ull, sizeof *q);
    struct grammar_item *p = grammar_grow(c->item, &c->cap_item, (uint64_t)c->n_item + n, sizeof *p);
    c->config = q ? q : c->config;
    c->item = p ? p : c->item;
    if (!q || !p)
        return config_fail(g, -ENOMEM);
    struct grammar_config new = { .item = c->n_item, .n = n, .flags = flags };
    for (uint32_t i = 0; i < n; i++) {
        new.reach = MAX(new.reach, item_reach(g, it[i]));
        c->item[c->n_item++] = it[i];
    }
    c->config[c->n_config] = new;
    return c->n_config++;
}

/* The configuration of what the work has gathered. */
static uint32_t config_intern(struct grammar *g)
{
    struct grammar_work *w = g->w;
    struct grammar_cache *c = &g->c;
    if (g->rc || !charge(g, 2ull * w->n_kernel))
        return CONFIG_FAILED;
    int rc = table_grow(g, &c->configs, c->n_config, config_hash);
    if (rc)
        return config_fail(g, rc);
    if (w->n_kernel == 0 && !(w->flags & (CONFIG_ACCEPT | CONFIG_RETURN)))
        return CONFIG_DEAD;
    for (uint32_t k = 0; k < w->n_kernel; k++) {
        uint8_t f = g->a.flags[w->kernel[k].state];
        w->flags |= (uint8_t)((f & STATE_TOKEN ? CONFIG_TOKEN : 0) | (f & STATE_LITERAL ? CONFIG_LITERAL : 0));
    }
    sort_items(w->kernel, w->n_kernel);
    uint64_t h = XXH3_64bits_withSeed(w->kernel, w->n_kernel * sizeof *w->kernel, w->flags);
    uint32_t i = (uint32_t)h & (c->configs.n_slot - 1);
    for (; c->configs.slot[i]; i = (i + 1) & (c->configs.n_slot - 1)) {
        const struct grammar_config *have = &c->config[c->configs.slot[i]];
        if (have->n == w->n_kernel && have->flags == w->flags &&
            !memcmp(c->item + have->item, w->kernel, have->n * sizeof *w->kernel))
            return c->configs.slot[i];
    }
    uint32_t made = config_new(g, w->kernel, w->n_kernel, w->flags);
    if (made != CONFIG_FAILED)
        c->configs.slot[i] = made;
    return made;
}

/* ---- closures: what can be reached without a byte ------------------------------------------------------ */

static bool begin(struct grammar *g)
{
    if (g->rc || !charge(g, 1) || (!g->w && !work_take(g)))
        return false;
    struct grammar_work *w = g->w;
    w->n_todo = w->n_kernel = w->n_seen = 0;
    w->flags = 0;
    if (++w->now == 0) {
        memset(w->stamp, 0, sizeof w->stamp);
        w->now = 1;
    }
    return true;
}

static bool fits(const struct grammar *g, uint32_t state, uint32_t frame)
{
    return g->a.need[state] <= GRAMMAR_MAX_DEPTH - g->c.frame[frame].depth;
}

static void add(struct grammar *g, uint32_t state, uint32_t frame)
{
    struct grammar_work *w = g->w;
    if (!charge(g, 1) || !fits(g, state, frame))
        return;
    uint32_t i = (uint32_t)((state | (uint64_t)frame << 32) * 0x9e3779b97f4a7c15u >> 40) & (2 * GRAMMAR_MAX_SEEN - 1);
    for (; w->stamp[i] == w->now; i = (i + 1) & (2 * GRAMMAR_MAX_SEEN - 1))
        if (w->seen[i].state == state && w->seen[i].frame == frame)
            return;
    if (w->n_seen == GRAMMAR_MAX_SEEN) {
        g->why = g->rc ? g->why : TOO_MANY_READINGS;
        config_fail(g, -E2BIG);
        return;
    }
    w->n_seen++;
    w->stamp[i] = w->now;
    w->todo[w->n_todo++] = w->seen[i] = (struct grammar_item){ state, frame };
}

static void call(struct grammar *g, uint32_t rule, uint32_t ret, uint32_t frame)
{
    if (g->c.frame[frame].depth == GRAMMAR_MAX_DEPTH || !fits(g, ret, frame))
        return;
    uint32_t f = frame_of(g, ret, frame);
    if (f != CONFIG_FAILED)
        add(g, g->a.entry[rule], f);
}

static void leave(struct grammar *g, uint32_t frame)
{
    if (frame == FRAME_EMPTY)
        g->w->flags |= CONFIG_ACCEPT;
    else if (frame == FRAME_ANY)
        g->w->flags |= CONFIG_RETURN;
    else
        add(g, g->c.frame[frame].ret, g->c.frame[frame].parent);
}

static uint32_t finish(struct grammar *g)
{
    const struct automaton *a = &g->a;
    struct grammar_work *w = g->w;
    while (w->n_todo && !g->rc) {
        struct grammar_item it = w->todo[--w->n_todo];
        charge(g, a->edge_at[it.state + 1] - a->edge_at[it.state]);
        if (a->flags[it.state] & STATE_KERNEL)
            w->kernel[w->n_kernel++] = it;
        if (a->flags[it.state] & STATE_FINAL)
            leave(g, it.frame);
        for (uint32_t i = a->edge_at[it.state]; i < a->edge_at[it.state + 1]; i++) {
            const struct grammar_edge *e = &a->edge[i];
            if (e->kind == EDGE_EMPTY)
                add(g, e->to, it.frame);
            else if (e->kind == EDGE_TAIL)
                add(g, a->entry[e->arg], it.frame);
            else if (e->kind == EDGE_CALL)
                call(g, e->arg, e->to, it.frame);
        }
    }
    return config_intern(g);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static uint32_t row_new(struct grammar *g)
{
    struct grammar_cache *c = &g->c;
    uint32_t n = g->a.n_classes, *q = grammar_grow(c->row, &c->cap_row, (uint64_t)c->n_row + n, sizeof *q);
    if (!q) {
        config_fail(g, -ENOMEM);
        return 0;
    }
    c->row = q;
    memset(c->row + c->n_row, 0xff, n * sizeof *q); /* CONFIG_UNKNOWN */
    c->n_row += n;
    return c->n_row - n;
}

uint32_t config_step_slow(struct grammar *g, uint32_t c, uint8_t byte, bool literal)
{
    struct grammar_config *from = &g->c.config[c];
    uint32_t *row = literal ? &from->literal_row : &from->row;
    if (c == CONFIG_DEAD)
        return CONFIG_DEAD;
    if (!cache_has_room(g) || (!*row && !(*row = row_new(g))) || !begin(g))
        return CONFIG_FAILED;
    uint32_t at = *row + g->a.class_of[byte];
    for (uint32_t k = 0; k < from->n; k++) {
        struct grammar_item it = g->c.item[from->item + k];
        if (!charge(g, 1 + g->a.edge_at[it.state + 1] - g->a.edge_at[it.state]))
            return CONFIG_FAILED;
        for (uint32_t i = g->a.edge_at[it.state]; i < g->a.edge_at[it.state + 1]; i++) {
            const struct grammar_edge *e = &g->a.edge[i];
            if ((e->kind == EDGE_LITERAL || (e->kind == EDGE_CLASS && !literal)) && byte >= e->lo && byte <= e->hi)
                add(g, e->to, it.frame);
        }
    }
    uint32_t to = finish(g);
    if (to != CONFIG_FAILED)
        g->c.row[at] = to;
    return to;
}

uint32_t config_start(struct grammar *g)
{
    if (!begin(g))
        return CONFIG_FAILED;
    add(g, g->a.entry[g->a.root], FRAME_EMPTY);
    return finish(g);
}

uint32_t config_return(struct grammar *g, uint32_t frame)
{
    if (!begin(g))
        return CONFIG_FAILED;
    leave(g, frame);
    return finish(g);
}

uint32_t config_of_item(struct grammar *g, uint32_t state, uint32_t frame)
{
    if (!begin(g))
        return CONFIG_FAILED;
    g->w->kernel[g->w->n_kernel++] = (struct grammar_item){ state, frame };
    return config_intern(g);
}

uint32_t config_of_group(struct grammar *g, uint32_t c, uint32_t at, uint32_t n)
{
    if (!begin(g))
        return CONFIG_FAILED;
    for (uint32_t i = 0; i < n; i++)
        g->w->kernel[g->w->n_kernel++] =
            (struct grammar_item){ g->c.item[g->c.config[c].item + at + i].state, FRAME_ANY };
    return config_intern(g);
}

/* Adds what an edge over tokens leads to. */
static void add_token(struct grammar *g, uint32_t c, int32_t id)
{
    const struct grammar_config *from = &g->c.config[c];
    for (uint32_t k = 0; k < from->n; k++) {
        struct grammar_item it = g->c.item[from->item + k];
        if (!charge(g, 1 + g->a.edge_at[it.state + 1] - g->a.edge_at[it.state]))
            return;
        for (uint32_t i = g->a.edge_at[it.state]; i < g->a.edge_at[it.state + 1]; i++) {
            const struct grammar_edge *e = &g->a.edge[i];
            if ((e->kind == EDGE_TOKEN && e->arg == (uint32_t)id) ||
                (e->kind == EDGE_NOT_TOKEN && e->arg != (uint32_t)id && g->v->kind[id] != VOCAB_END))
                add(g, e->to, it.frame);
        }
    }
}

uint32_t config_token(struct grammar *g, uint32_t c, int32_t id)
{
    if (!begin(g))
        return CONFIG_FAILED;
    add_token(g, c, id);
    return finish(g);
}

/* Adds the items of a configuration. */
static void add_config(struct grammar *g, uint32_t c)
{
    const struct grammar_config *from = &g->c.config[c];
    for (uint32_t k = 0; k < from->n; k++)
        add(g, g->c.item[from->item + k].state, g->c.item[from->item + k].frame);
    g->w->flags |= from->flags;
}

static uint32_t config_union(struct grammar *g, uint32_t a, uint32_t b)
{
    if (a == CONFIG_FAILED || b == CONFIG_FAILED)
        return CONFIG_FAILED;
    if (a == CONFIG_DEAD || b == CONFIG_DEAD || a == b)
        return a == CONFIG_DEAD ? b : a;
    if (!begin(g))
        return CONFIG_FAILED;
    add_config(g, a);
    add_config(g, b);
    return finish(g);
}

/* A control token's text, by literal edges. Inside %until the longest beginning that the token fits is the one that
 * the text has. */
static uint32_t accept_control(struct grammar *g, uint32_t c, const char *s, uint32_t n)
{
    uint32_t all = CONFIG_DEAD, n_items = g->c.config[c].n;
    for (uint32_t k = 0; k < n_items; k++) {
        struct grammar_item it = g->c.item[g->c.config[c].item + k];
        uint32_t to = CONFIG_DEAD;
        for (uint32_t st = it.state; st != GRAMMAR_NONE && to == CONFIG_DEAD; st = g->a.fallback[st]) {
            if (!(g->a.flags[st] & STATE_LITERAL))
                continue;
            to = config_of_item(g, st, it.frame);
            charge(g, n);
            for (uint32_t i = 0; i < n && to != CONFIG_DEAD && to != CONFIG_FAILED; i++)
                to = config_step_literal(g, to, (uint8_t)s[i]);
        }
        all = config_union(g, all, to);
    }
    return all;
}

uint32_t config_accept(struct grammar *g, uint32_t c, int32_t id)
{
    const struct vocab_index *v = g->v;
    const char *s = v->bytes + v->at[id];
    uint32_t n = v->at[id + 1] - v->at[id], to = CONFIG_DEAD;
    if (v->kind[id] == VOCAB_TEXT) {
        to = c;
        for (uint32_t i = 0; i < n && to != CONFIG_DEAD && to != CONFIG_FAILED; i++)
            to = config_step(g, to, (uint8_t)s[i]);
    } else if (v->kind[id] != VOCAB_UNUSED && n && g->c.config[c].flags & CONFIG_LITERAL)
        to = accept_control(g, c, s, n);
    if (v->kind[id] != VOCAB_UNUSED && g->c.config[c].flags & CONFIG_TOKEN)
        to = config_union(g, to, config_token(g, c, id));
    return to;
}

/* ---- the limits of a call ------------------------------------------------------------------------------ */

void work_settle(struct grammar *g)
{
    if (g->limit) /* while a grammar is created nobody counts */
        g->limit->used += (uint64_t)(g->granted - g->left);
    g->granted = g->left = 0;
}

uint32_t config_fail(struct grammar *g, int rc)
{
    g->rc = g->rc ? g->rc : rc;
    work_settle(g);
    return CONFIG_FAILED;
}

bool charge_slow(struct grammar *g)
{
    struct grammar_limit *l = g->limit;
    work_settle(g);
    if (g->rc)
        return false;
    g->rc = l->used >= l->steps ? -E2BIG : l->pause ? l->pause(l->user) : 0;
    if (!g->rc)
        g->granted = g->left = (int64_t)(l->slice ? MIN(l->slice, l->steps - l->used) : l->steps - l->used);
    grammar_weigh(g);
    return !g->rc;
}

bool cache_has_room(struct grammar *g)
{
    if (cache_bytes(g) <= GRAMMAR_HARD_BYTES)
        return true;
    g->why = g->rc ? g->why : TOO_MANY_BYTES;
    config_fail(g, -E2BIG);
    return false;
}

enum { MAX_KEPT_WORK = 4 };
static struct {
    pthread_mutex_t lock;
    struct grammar_work *first;
    uint32_t n;
} works = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool work_take(struct grammar *g)
{
    pthread_mutex_lock(&works.lock);
    g->w = works.first;
    if (g->w) {
        works.first = g->w->next;
        works.n--;
    }
    pthread_mutex_unlock(&works.lock);
    if (!g->w && !(g->w = calloc(1, sizeof *g->w)))
        config_fail(g, -ENOMEM);
    return g->w != NULL;
}

void work_give(struct grammar *g)
{
    struct grammar_work *w = g->w;
    g->w = NULL;
    if (!w)
        return;
    pthread_mutex_lock(&works.lock);
    if (works.n < MAX_KEPT_WORK) {
        w->next = works.first;
        works.first = w;
        works.n++;
        w = NULL;
    }
    pthread_mutex_unlock(&works.lock);
    free(w);
}

/* ---- the cache as a whole ------------------------------------------------------------------------------ */

uint64_t cache_bytes(const struct grammar *g)
{
    const struct grammar_cache *c = &g->c;
    return c->mask_bytes + c->cap_frame * sizeof *c->frame + c->cap_item * sizeof *c->item +
           c->cap_config * sizeof *c->config + c->cap_mask * sizeof *c->mask +
           (c->cap_row + c->frames.n_slot + c->configs.n_slot + c->masks.n_slot) * sizeof *c->row;
}

static void cache_free(struct grammar_cache *c)
{
    for (uint32_t i = 0; i < c->n_config; i++) {
        if (c->config[i].base) {
            free(c->config[i].base->ret);
            free(c->config[i].base);
        }
    }
    for (uint32_t i = 1; i < c->n_mask; i++)
        free(c->mask[i]);
    free(c->mask);
    free(c->masks.slot);
    free(c->frame);
    free(c->item);
    free(c->config);
    free(c->row);
    free(c->frames.slot);
    free(c->configs.slot);
    *c = (struct grammar_cache){ 0 };
}

/* The two bottom frames, the dead configuration, and a first row that nobody has. */
static int cache_init(struct grammar *g)
{
    struct grammar_frame bottom = { .ret = GRAMMAR_NONE };
    g->c = (struct grammar_cache){ 0 };
    if (frame_new(g, bottom) == FRAME_EMPTY && frame_new(g, bottom) == FRAME_ANY && row_new(g) == 0 && g->c.row &&
        config_new(g, NULL, 0, 0) == CONFIG_DEAD)
        return 0;
    cache_free(&g->c);
    return -ENOMEM;
}

int cache_create(struct grammar *g)
{
    return cache_init(g);
}

void cache_finish(struct grammar *g)
{
    cache_free(&g->c);
}

/* Marks the frames below the items of a configuration. */
static void mark_frames(const struct grammar_cache *c, uint32_t config, uint32_t *map)
{
    for (uint32_t i = 0; i < c->config[config].n; i++)
        for (uint32_t f = c->item[c->config[config].item + i].frame; f > FRAME_ANY && !map[f]; f = c->frame[f].parent)
            map[f] = 1;
}

/* Makes the live frames and configurations of `old` in the new cache; map[old frame] becomes its new number. */
static int copy_live(struct grammar *g, const struct grammar_cache *old, uint32_t *map)
{
    for (struct grammar_state *st = g->states; st; st = st->next)
        mark_frames(old, st->config, map);
    map[FRAME_ANY] = FRAME_ANY;
    for (uint32_t f = FRAME_ANY + 1; f < old->n_frame; f++) /* parents come before their children */
        if (map[f] && (map[f] = frame_of(g, old->frame[f].ret, map[old->frame[f].parent])) == CONFIG_FAILED)
            return g->rc;
    for (struct grammar_state *st = g->states; st; st = st->next) {
        const struct grammar_config *c = &old->config[st->config];
        if (!begin(g))
            return g->rc;
        g->w->flags = c->flags;
        for (uint32_t i = 0; i < c->n; i++) {
            struct grammar_item it = old->item[c->item + i];
            g->w->kernel[g->w->n_kernel++] = (struct grammar_item){ it.state, map[it.frame] };
        }
        st->renewed = config_intern(g);
        if (st->renewed == CONFIG_FAILED)
            return g->rc;
        if (c->mask) /* somebody may be looking at it */
            g->c.config[st->renewed].mask = mask_enter(g, (uint64_t *)c->mask);
        if (g->rc)
            return g->rc;
    }
    return 0;
}

/* Masks that are in the other cache as well are not this one's to free. */
static void disown_masks(struct grammar_cache *c, const struct grammar_cache *other)
{
    for (uint32_t i = 1; i < other->n_mask; i++)
        for (uint32_t k = 1; k < c->n_mask; k++)
            if (c->mask[k] == other->mask[i])
                c->mask[k] = NULL;
}

int cache_renew(struct grammar *g)
{
    struct grammar_cache old = g->c;
    uint32_t *map = calloc(old.n_frame, sizeof *map);
    int rc = map ? cache_init(g) : -ENOMEM;
    if (!rc)
        rc = copy_live(g, &old, map);
    free(map);
    if (rc) {
        if (map) {
            disown_masks(&g->c, &old);
            cache_free(&g->c);
        }
        g->c = old;
        return config_fail(g, rc), rc;
    }
    for (struct grammar_state *st = g->states; st; st = st->next)
        st->config = st->renewed;
    disown_masks(&old, &g->c);
    cache_free(&old);
    return 0;
}
