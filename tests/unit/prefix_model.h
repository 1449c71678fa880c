/* tests/unit/prefix_model.h: random operations on a prefix tree, which are told by bytes, beside the plainest model of
 * it: each slot's tokens in an array. Everything is compared after every operation; a difference aborts. For the unit
 * test and the fuzz target. */
#ifndef ZINC_TESTS_UNIT_PREFIX_MODEL_H
#define ZINC_TESTS_UNIT_PREFIX_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/serve/prefix_tree.h"

enum { PM_SLOTS = 5, PM_LEN = 1200, PM_MAX_BYTES = 12000 };

struct prefix_model {
    struct prefix_tree t;
    struct {
        uint32_t id; /* in the tree: spread over the words of a set */
        struct prefix_node *end;
        uint32_t n;
        int32_t tok[PM_LEN];
    } slot[PM_SLOTS];
    const uint8_t *in;
    size_t left;
    uint32_t saved, states;
};

static inline uint32_t pm_byte(struct prefix_model *m)
{
    if (!m->left)
        return 0;
    m->left--;
    return *m->in++;
}

/* The tokens up to the end of a node. */
static inline uint32_t pm_path(const struct prefix_node *n, int32_t *tok)
{
    uint32_t len = prefix_node_end(n);
    CHECK(len <= PM_LEN);
    for (; n; n = n->parent) {
        memcpy(tok + n->begin, n->tok, n->n * sizeof *tok);
        CHECK_EQ_U64(n->begin, n->parent ? prefix_node_end(n->parent) : 0);
    }
    return len;
}

static inline void pm_check_blob(const struct prefix_node *n, const struct prefix_blob *b, bool run)
{
    int32_t tok[PM_LEN];
    uint32_t len = pm_path(n, tok);
    CHECK(run ? b->from <= n->begin && b->to >= len : b->to == len);
    CHECK(memcmp(b->data, tok + b->from, (MIN(len, b->to) - b->from) * sizeof *tok) == 0);
    const struct prefix_node *owner = b->node;
    while (run && owner != n) {
        CHECK(owner && owner->run == b);
        owner = owner->parent;
    }
    CHECK(run || owner == n);
}

static inline void pm_check_below(const struct prefix_node *n, uint32_t *n_nodes, uint64_t *bytes)
{
    for (const struct prefix_node *c = n->child; c; c = c->next) {
        ++*n_nodes;
        CHECK(c->parent == n && c->n && c->n <= PREFIX_RUN);
        CHECK(c->child || c->run || c->state || prefix_node_in_slots(c));
        for (int i = 0; i < PREFIX_SLOTS / 64; i++)
            CHECK((c->slots[i] & ~n->slots[i]) == 0);
        for (const struct prefix_node *d = c->next; d; d = d->next)
            CHECK(d->tok[0] != c->tok[0]);
        if (c->run) {
            pm_check_blob(c, c->run, true);
            *bytes += c->run->node == c ? c->run->bytes : 0;
        }
        if (c->state) {
            pm_check_blob(c, c->state, false);
            *bytes += c->state->bytes;
        }
        pm_check_below(c, n_nodes, bytes);
    }
}

static inline void pm_check(struct prefix_model *m)
{
    uint32_t n_nodes = 0;
    uint64_t bytes = 0, in_list = 0, in_tick = 0;
    int32_t tok[PM_LEN];
    pm_check_below(&m->t.any.root, &n_nodes, &bytes);
    CHECK_EQ_U64(n_nodes, m->t.n_nodes);
    CHECK_EQ_U64(bytes, m->t.bytes);
    CHECK(bytes <= m->t.max_bytes);
    for (const struct prefix_blob *b = m->t.oldest; b; b = b->newer) {
        in_list += b->bytes;
        in_tick += b->tick == m->t.tick ? b->bytes : 0;
        CHECK(b->newer ? b->newer->older == b && b->newer->tick >= b->tick : m->t.newest == b);
    }
    CHECK_EQ_U64(in_list, bytes);
    CHECK_EQ_U64(in_tick, m->t.tick_bytes);
    for (uint32_t i = 0; i < PM_SLOTS; i++) {
        CHECK_EQ_U64(pm_path(m->slot[i].end, tok), m->slot[i].n);
        CHECK(memcmp(tok, m->slot[i].tok, m->slot[i].n * sizeof *tok) == 0);
        for (uint32_t j = 0; j < PM_SLOTS; j++) { /* how much of i's tokens does j hold? */
            struct prefix_at at = { &m->t.any.root, 0 };
            uint32_t same = 0, got = 0;
            while (same < MIN(m->slot[i].n, m->slot[j].n) && m->slot[i].tok[same] == m->slot[j].tok[same])
                same++;
            while (prefix_tree_next(&m->t, &at, m->slot[i].tok, m->slot[i].n) &&
                   prefix_node_in_slot(at.node, m->slot[j].id))
                got = at.node->begin + at.n;
            CHECK_EQ_U64(got, same);
        }
    }
}

static inline void pm_hold(struct prefix_model *m, uint32_t i, const int32_t *tok, uint32_t n)
{
    n = MIN(n, PM_LEN - m->slot[i].n);
    memcpy(m->slot[i].tok + m->slot[i].n, tok, n * sizeof *tok);
    m->slot[i].n += n;
    m->slot[i].end = prefix_tree_hold(&m->t, m->slot[i].end, m->slot[i].id, tok, n);
}

static inline void pm_cut(struct prefix_model *m, uint32_t i, uint32_t pos)
{
    m->slot[i].n = MIN(m->slot[i].n, pos);
    m->slot[i].end = prefix_tree_cut(&m->t, m->slot[i].end, m->slot[i].id, pos);
}

/* A blob whose bytes are the tokens it stands for. */
static inline void pm_save(struct prefix_model *m, struct prefix_node *n, bool run)
{
    int32_t tok[PM_LEN];
    uint32_t to = pm_path(n, tok), from = run ? n->begin : 0;
    uint64_t before = m->t.bytes;
    if (n == &m->t.any.root || (run ? n->run : n->state))
        return;
    struct prefix_blob *b = prefix_tree_blob(&m->t, &m->t.any, (to - from) * sizeof *tok);
    if (!b) {
        CHECK_EQ_U64(m->t.bytes, before); /* nothing is evicted in vain */
        return;
    }
    b->from = from;
    b->to = to;
    memcpy(b->data, tok + from, (to - from) * sizeof *tok);
    if (run)
        prefix_tree_put_run(&m->t, n, b);
    else
        prefix_tree_put_state(&m->t, n, b);
    *(run ? &m->saved : &m->states) += 1;
}

static inline void pm_step(struct prefix_model *m)
{
    uint32_t op = pm_byte(m), i = op / 8 % PM_SLOTS, j = pm_byte(m) % PM_SLOTS, k = pm_byte(m) * 5;
    int32_t tok[64];
    struct prefix_node *n = m->slot[i].end;
    for (uint32_t up = j; up && n->parent; up--)
        n = n->parent;
    switch (op % 8) {
    case 0:
    case 1: /* new tokens, of few kinds */
        for (uint32_t x = 0; x < 64; x++)
            tok[x] = (int32_t)((k + x * (op & 0x80 ? 7 : 0)) % 3);
        pm_hold(m, i, tok, k % 65);
        break;
    case 2: /* as another slot */
        if (i != j) {
            pm_cut(m, i, 0);
            pm_hold(m, i, m->slot[j].tok, MIN(k, m->slot[j].n));
        }
        break;
    case 3: pm_cut(m, i, m->slot[i].n * k / (255 * 5)); break;
    case 4: pm_save(m, n, true); break;
    case 5: pm_save(m, m->slot[i].end, false); break;
    case 6: prefix_tree_tick(&m->t); break;
    case 7: prefix_tree_touch_path(&m->t, n); break;
    }
}

static inline void pm_run(struct prefix_model *m, const uint8_t *in, size_t n)
{
    static const uint32_t ids[PM_SLOTS] = { 0, 63, 64, 130, 255 };
    memset(m, 0, sizeof *m);
    CHECK(prefix_tree_init(&m->t, PM_MAX_BYTES) == 0);
    for (uint32_t i = 0; i < PM_SLOTS; i++) {
        m->slot[i].id = ids[i];
        m->slot[i].end = &m->t.any.root;
    }
    m->in = in;
    m->left = n;
    while (m->left) {
        pm_step(m);
        pm_check(m);
    }
}

static inline void pm_finish(struct prefix_model *m)
{
    for (uint32_t i = 0; i < PM_SLOTS; i++)
        pm_cut(m, i, 0);
    pm_check(m);
    prefix_tree_finish(&m->t);
}

#endif
