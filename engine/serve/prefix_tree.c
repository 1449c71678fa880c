#include "engine/serve/prefix_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"

enum { FIRST_LOG2 = 8, SLOT_WORDS = PREFIX_SLOTS / 64 };

int prefix_tree_init(struct prefix_tree *t, uint64_t max_bytes)
{
    *t = (struct prefix_tree){ .max_bytes = max_bytes, .log2_table = FIRST_LOG2, .tick = 1 };
    memset(t->any.root.slots, 0xff, sizeof t->any.root.slots);
    t->table = calloc(1u << FIRST_LOG2, sizeof(struct prefix_node *));
    return t->table ? 0 : -ENOMEM;
}

void prefix_tree_finish(struct prefix_tree *t)
{
    for (struct prefix_blob *b = t->oldest, *newer; b; b = newer) {
        newer = b->newer;
        free(b);
    }
    for (uint32_t i = 0; t->table && i < 1u << t->log2_table; i++)
        for (struct prefix_node *n = t->table[i], *next; n; n = next) {
            next = n->chain;
            free(n);
        }
    for (struct prefix_owner *o = t->any.next, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(t->table);
    *t = (struct prefix_tree){ 0 };
}

struct prefix_owner *prefix_tree_owner(struct prefix_tree *t, uint64_t id)
{
    struct prefix_owner *o = &t->any;
    while (o && o->id != id)
        o = o->next;
    if (!o && (o = calloc(1, sizeof *o))) {
        o->id = id;
        memset(o->root.slots, 0xff, sizeof o->root.slots);
        o->next = t->any.next;
        t->any.next = o;
    }
    if (o)
        o->came_ns = t->now_ns;
    return o;
}

/* ---- nodes ---- */

static struct prefix_node **bucket(const struct prefix_tree *t, const struct prefix_node *parent, int32_t tok)
{
    uint64_t h = ((uint64_t)(uintptr_t)parent ^ (uint32_t)tok * 0xff51afd7ed558ccdu) * 0x9e3779b97f4a7c15u;
    return &t->table[h >> (64 - t->log2_table)];
}

static struct prefix_node *child_of(const struct prefix_tree *t, const struct prefix_node *parent, int32_t tok)
{
    struct prefix_node *c = *bucket(t, parent, tok);
    while (c && (c->parent != parent || c->tok[0] != tok))
        c = c->chain;
    return c;
}

static void into_table(struct prefix_tree *t, struct prefix_node *n)
{
    struct prefix_node **b = bucket(t, n->parent, n->tok[0]);
    n->chain = *b;
    *b = n;
}

/* A child of its parent from now on. */
static void link_node(struct prefix_tree *t, struct prefix_node *n)
{
    into_table(t, n);
    n->prev = NULL;
    n->next = n->parent->child;
    if (n->next)
        n->next->prev = n;
    n->parent->child = n;
}

static void unlink_node(struct prefix_tree *t, struct prefix_node *n)
{
    struct prefix_node **at = bucket(t, n->parent, n->tok[0]);
    while (*at != n)
        at = &(*at)->chain;
    *at = n->chain;
    *(n->prev ? &n->prev->next : &n->parent->child) = n->next;
    if (n->next)
        n->next->prev = n->prev;
}

/* Without memory for a larger table, chains get longer. */
static void grow_table(struct prefix_tree *t)
{
    uint32_t old_n = 1u << t->log2_table;
    if (t->n_nodes < old_n)
        return;
    struct prefix_node **old = t->table, **table = calloc(2ul * old_n, sizeof(struct prefix_node *));
    if (!table)
        return;
    t->table = table;
    t->log2_table++;
    for (uint32_t i = 0; i < old_n; i++)
        for (struct prefix_node *n = old[i], *next; n; n = next) {
            next = n->chain;
            into_table(t, n);
        }
    free(old);
}

static struct prefix_node *new_node(struct prefix_tree *t, struct prefix_node *parent, uint32_t begin,
                                    const int32_t *tok, uint32_t n)
{
    struct prefix_node *x = malloc(sizeof *x);
    if (!x)
        return NULL;
    *x = (struct prefix_node){ .parent = parent, .begin = begin, .n = n };
    memcpy(x->tok, tok, n * sizeof *tok);
    grow_table(t);
    t->n_nodes++;
    return x;
}

/* Makes two of a node's run. Returns the first, which is new and ends at k; what stood at the old end still does. */
static struct prefix_node *split(struct prefix_tree *t, struct prefix_node *n, uint32_t k)
{
    CHECK(k && k < n->n);
    struct prefix_node *first = new_node(t, n->parent, n->begin, n->tok, k);
    if (!first)
        return NULL;
    memcpy(first->slots, n->slots, sizeof n->slots);
    first->run = n->run;
    unlink_node(t, n);
    n->begin += k;
    n->n -= k;
    memmove(n->tok, n->tok + k, n->n * sizeof *n->tok);
    n->parent = first;
    link_node(t, first);
    link_node(t, n);
    return first;
}

/* Undoes a split that has lost its reason: one child, and the same holders. No slot ends at such a node. */
static void merge(struct prefix_tree *t, struct prefix_node *n)
{
    struct prefix_node *c = n->child;
    if (!n->parent || !c || c->next || n->state || n->n + c->n > PREFIX_RUN || n->run != c->run ||
        memcmp(n->slots, c->slots, sizeof n->slots) != 0)
        return;
    unlink_node(t, c);
    unlink_node(t, n);
    memmove(c->tok + n->n, c->tok, c->n * sizeof *c->tok);
    memcpy(c->tok, n->tok, n->n * sizeof *n->tok);
    c->begin = n->begin;
    c->n += n->n;
    c->parent = n->parent;
    link_node(t, c);
    t->n_nodes--;
    free(n);
}

/* After a node has lost something. Returns the node above what went. */
static struct prefix_node *prune(struct prefix_tree *t, struct prefix_node *n)
{
    while (n->parent && !n->child && !n->run && !n->state && !prefix_node_in_slots(n)) {
        struct prefix_node *parent = n->parent;
        unlink_node(t, n);
        t->n_nodes--;
        free(n);
        n = parent;
    }
    return n;
}

/* ---- walking ---- */

bool prefix_node_in_slots(const struct prefix_node *n)
{
    uint64_t any = 0;
    for (int i = 0; i < SLOT_WORDS; i++)
        any |= n->slots[i];
    return any != 0;
}

static uint32_t common(const struct prefix_node *n, const int32_t *tok, uint32_t n_tok)
{
    uint32_t k = 0, most = MIN(n->n, n_tok);
    if (most == n->n && memcmp(n->tok, tok, most * sizeof *tok) == 0)
        return most;
    while (k < most && n->tok[k] == tok[k])
        k++;
    return k;
}

bool prefix_tree_next(const struct prefix_tree *t, struct prefix_at *at, const int32_t *tok, uint32_t n)
{
    uint32_t pos = prefix_node_end(at->node);
    struct prefix_node *c = at->n == at->node->n && pos < n ? child_of(t, at->node, tok[pos]) : NULL;
    if (!c)
        return false;
    *at = (struct prefix_at){ c, common(c, tok + pos, n - pos) };
    return true;
}

/* ---- slots ---- */

static void set_slot(struct prefix_node *n, uint32_t slot)
{
    n->slots[slot / 64] |= 1ull << slot % 64;
}

/* The slot's own, and nothing depends on where it ends. */
static bool can_grow(const struct prefix_node *n, uint32_t slot)
{
    if (!n->parent || n->n == PREFIX_RUN || n->child || n->run || n->state)
        return false;
    uint64_t others = 0;
    for (uint32_t i = 0; i < SLOT_WORDS; i++)
        others |= n->slots[i] & ~(i == slot / 64 ? 1ull << slot % 64 : 0);
    return !others;
}

struct prefix_node *prefix_tree_hold(struct prefix_tree *t, struct prefix_node *node, uint32_t slot,
                                     const int32_t *tok, uint32_t n)
{
    CHECK(slot < PREFIX_SLOTS && prefix_node_in_slot(node, slot));
    for (uint32_t k; n; tok += k, n -= k) {
        struct prefix_node *c = child_of(t, node, *tok);
        if (!c && can_grow(node, slot)) {
            k = MIN(n, PREFIX_RUN - node->n);
            memcpy(node->tok + node->n, tok, k * sizeof *tok);
            node->n += k;
            continue;
        }
        if (c) {
            k = common(c, tok, n);
            if (k < c->n)
                c = split(t, c, k);
        } else {
            k = MIN(n, PREFIX_RUN);
            c = new_node(t, node, prefix_node_end(node), tok, k);
            if (c)
                link_node(t, c);
        }
        if (!c)
            break;
        set_slot(c, slot);
        node = c;
    }
    return node;
}

static void leave(struct prefix_tree *t, struct prefix_node *n, uint32_t slot)
{
    n->slots[slot / 64] &= ~(1ull << slot % 64);
    merge(t, prune(t, n));
}

struct prefix_node *prefix_tree_cut(struct prefix_tree *t, struct prefix_node *end, uint32_t slot, uint32_t pos)
{
    CHECK(slot < PREFIX_SLOTS && prefix_node_in_slot(end, slot));
    while (prefix_node_end(end) > pos) {
        struct prefix_node *first = pos > end->begin ? split(t, end, pos - end->begin) : NULL;
        struct prefix_node *up = first ? first : end->parent;
        leave(t, end, slot);
        end = up;
    }
    return end;
}

/* ---- blobs ---- */

static void unlink_blob(struct prefix_tree *t, struct prefix_blob *b)
{
    *(b->older ? &b->older->newer : &t->oldest) = b->newer;
    *(b->newer ? &b->newer->older : &t->newest) = b->older;
}

static void link_newest(struct prefix_tree *t, struct prefix_blob *b)
{
    b->older = t->newest;
    b->newer = NULL;
    *(t->newest ? &t->newest->newer : &t->oldest) = b;
    t->newest = b;
    b->tick = t->tick;
}

void prefix_tree_tick(struct prefix_tree *t)
{
    t->tick++;
    t->tick_bytes = 0;
}

/* Leaves nodes that slots hold as they are: somebody may be walking along them. */
static void evict(struct prefix_tree *t, struct prefix_blob *b)
{
    struct prefix_node *n = b->node;
    if (n->state == b)
        n->state = NULL;
    else
        for (struct prefix_node *x = n; x && x->run == b; x = x->parent)
            x->run = NULL;
    unlink_blob(t, b);
    t->bytes -= b->bytes;
    b->owner->bytes -= b->bytes;
    t->evictions++;
    free(b);
    n = prune(t, n);
    if (!prefix_node_in_slots(n))
        merge(t, n);
}

/* What an owner keeps against others, `whom` included. */
static uint64_t share(const struct prefix_tree *t, const struct prefix_owner *whom)
{
    uint32_t n = 0;
    for (const struct prefix_owner *o = &t->any; o; o = o->next)
        n += (o->bytes || o == whom) && t->now_ns - o->came_ns <= PREFIX_FRESH_NS;
    return t->max_bytes / MAX(n, 1u);
}

/* Evicts what may go for `bytes` of this owner, or only counts it, until `need` of them are free: first what others and
 * he himself have beyond their shares and what is of owners who are gone, then what is his. Returns how many it found. */
static uint64_t sweep(struct prefix_tree *t, const struct prefix_owner *whom, uint64_t bytes, uint64_t need, bool really)
{
    uint64_t got = 0, kept = share(t, whom);
    uint32_t counted = 0; /* of his own: the oldest ones, and still there */
    for (struct prefix_owner *o = &t->any; o; o = o->next)
        o->left = o->bytes + (o == whom ? bytes : 0);
    for (int own = 0; own < 2; own++)
        for (struct prefix_blob *b = t->oldest, *newer; b && b->tick != t->tick && got < need; b = newer) {
            struct prefix_owner *o = b->owner;
            bool beyond = o->left > kept || t->now_ns - o->came_ns > PREFIX_FRESH_NS;
            newer = b->newer;
            if (own && o == whom && counted && counted--)
                continue;
            if (own ? o != whom : !beyond)
                continue;
            o->left -= b->bytes;
            got += b->bytes;
            if (really)
                evict(t, b);
            else if (!own && o == whom)
                counted++;
        }
    return got;
}

uint64_t prefix_tree_room(struct prefix_tree *t, const struct prefix_owner *owner)
{
    return t->max_bytes - t->bytes + sweep(t, owner, 0, UINT64_MAX, false);
}

struct prefix_blob *prefix_tree_blob(struct prefix_tree *t, struct prefix_owner *owner, uint64_t bytes)
{
    bytes += sizeof(struct prefix_blob);
    if (bytes > t->max_bytes)
        return NULL;
    uint64_t need = t->bytes > t->max_bytes - bytes ? t->bytes - (t->max_bytes - bytes) : 0;
    if (sweep(t, owner, bytes, need, false) < need)
        return NULL;
    struct prefix_blob *b = aligned_alloc(_Alignof(struct prefix_blob), align_up(bytes, _Alignof(struct prefix_blob)));
    if (!b)
        return NULL;
    sweep(t, owner, bytes, need, true);
    *b = (struct prefix_blob){ .owner = owner, .bytes = bytes };
    return b;
}

static void put(struct prefix_tree *t, struct prefix_node *n, struct prefix_blob *b)
{
    CHECK(n->parent && b->bytes <= t->max_bytes - t->bytes);
    b->node = n;
    link_newest(t, b);
    t->bytes += b->bytes;
    t->tick_bytes += b->bytes;
    b->owner->bytes += b->bytes;
}

void prefix_tree_put_run(struct prefix_tree *t, struct prefix_node *n, struct prefix_blob *b)
{
    CHECK(!n->run);
    put(t, n, b);
    n->run = b;
}

void prefix_tree_put_state(struct prefix_tree *t, struct prefix_node *n, struct prefix_blob *b)
{
    CHECK(!n->state);
    put(t, n, b);
    n->state = b;
}

void prefix_tree_touch(struct prefix_tree *t, struct prefix_blob *b)
{
    if (b->tick != t->tick)
        t->tick_bytes += b->bytes;
    unlink_blob(t, b);
    link_newest(t, b);
}

void prefix_tree_touch_path(struct prefix_tree *t, struct prefix_node *n)
{
    for (; n; n = n->parent)
        if (n->run)
            prefix_tree_touch(t, n->run);
}
