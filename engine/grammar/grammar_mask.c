/* Masks: walks through the vocabulary's tries.
 *
 * Most tokens are judged by the rule that is being matched, whatever rules are open around it: a mask of those is made
 * once for the states alone (grammar_base), with a list of the places where a token's text leaves the rule. A mask for
 * states on a certain stack is the former, plus short walks that go on from those places. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/grammar/grammar_impl.h"

static int base_note(struct grammar *g, struct grammar_base *b, uint32_t c, uint32_t node)
{
    const struct grammar_config *at = &g->c.config[c];
    b->reach = MAX(b->reach, at->reach);
    if (!(at->flags & CONFIG_RETURN) || g->v->text.node[node].next == node + 1)
        return 0;
    uint32_t *q = grammar_grow(b->ret, &b->cap_ret, b->n_ret + 1ull, sizeof *q);
    if (!q)
        return config_fail(g, -ENOMEM), -ENOMEM;
    b->ret = q;
    b->ret[b->n_ret++] = node;
    return 0;
}

/* ---- plain characters: most of a vocabulary, and all alike inside a string -------------------------------- */

enum { PLAIN_YES = 1, PLAIN_NO = 2, MAX_INSIDE = 32, WORTH_A_LOOK = 2 };

/* Does every plain character lead from c back to c, without a return, and no deeper than c? The configurations inside
 * a character are few. */
static bool find_plain(struct grammar *g, uint32_t c)
{
    struct {
        uint32_t config, utf8;
    } todo[MAX_INSIDE] = { { c, 0 } };
    uint32_t n = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct grammar_config *at = &g->c.config[todo[i].config];
        if (at->flags & CONFIG_RETURN || at->reach > g->c.config[c].reach)
            return false;
        if (!charge(g, 256))
            return false;
        for (unsigned byte = 0; byte < 256; byte++) {
            unsigned utf8 = utf8_plain_step(todo[i].utf8, (uint8_t)byte);
            uint32_t to = utf8 == UTF8_NONE ? c : config_step(g, todo[i].config, (uint8_t)byte), k = 0;
            if (utf8 == UTF8_NONE || (utf8 == 0 && to == c))
                continue;
            if (utf8 == 0 || to == CONFIG_DEAD || to == CONFIG_FAILED)
                return false;
            while (k < n && (todo[k].config != to || todo[k].utf8 != utf8))
                k++;
            if (k == MAX_INSIDE)
                return false;
            todo[k].config = to;
            todo[k].utf8 = utf8;
            n += k == n;
        }
    }
    return true;
}

static bool is_plain(struct grammar *g, uint32_t c)
{
    if (!g->c.config[c].plain) {
        bool yes = find_plain(g, c);
        if (g->rc) /* it could not be looked at */
            return false;
        g->c.config[c].plain = yes ? PLAIN_YES : PLAIN_NO;
    }
    return g->c.config[c].plain == PLAIN_YES;
}

/* ---- plain text ---------------------------------------------------------------------------------------- */

/* Sets the tokens at the nodes lo..hi that can come in configuration c, which stands above node lo. */
static int walk(struct grammar *g, uint32_t c, uint32_t lo, uint32_t hi, uint64_t *mask, struct grammar_base *base)
{
    const struct trie *t = &g->v->text;
    uint32_t *path = g->path; /* after that many bytes */
    bool whole = lo == 0 && hi == t->n && is_plain(g, c);
    if (lo < hi)
        path[t->node[lo].depth - 1] = c;
    if (!charge(g, 1 + (whole ? g->v->n_words / 64 : 0)))
        return -ENOMEM;
    for (uint32_t i = 0; i < g->v->n_words && whole; i++)
        mask[i] |= g->v->plain[i];
    for (uint32_t i = lo; i < hi;) {
        const struct trie_node *n = &t->node[i];
        if (!charge(g, 1))
            return g->rc;
        uint32_t to = config_step(g, path[n->depth - 1], n->byte);
        if (to == CONFIG_DEAD) {
            i = n->next;
            continue;
        }
        if (to == CONFIG_FAILED || (base && base_note(g, base, to, i)))
            return g->rc;
        path[n->depth] = to;
        bool all = n->plain && n->next - i > WORTH_A_LOOK && to == path[n->depth - 1] && is_plain(g, to);
        uint32_t next = all ? n->next : i + 1;
        for (uint32_t k = n->first; k < t->node[next].first && !(all && whole && to == c); k++)
            mask_set(mask, t->tok[k]);
        i = next;
    }
    return 0;
}

static struct grammar_base *base_of(struct grammar *g, uint32_t local)
{
    struct grammar_base *b = g->c.config[local].base;
    if (b)
        return b;
    if (!cache_has_room(g) || !charge(g, g->v->n_words / 32))
        return NULL;
    uint64_t *mask = calloc(g->v->n_words + 1ull, sizeof *mask);
    b = calloc(1, sizeof *b);
    if (!b || !mask)
        config_fail(g, -ENOMEM);
    if (!b || !mask || walk(g, local, 0, g->v->text.n, mask, b))
        free(mask);
    else
        b->mask = mask_intern(g, mask);
    if (!b || !b->mask) {
        free(b ? b->ret : NULL);
        free(b);
        return NULL;
    }
    g->c.config[local].base = b;
    g->c.mask_bytes += sizeof *b + b->cap_ret * sizeof *b->ret;
    return b;
}

/* The items [at, at + n) of c, all over one frame. */
static int add_group(struct grammar *g, uint32_t c, uint32_t at, uint32_t n, uint64_t *mask)
{
    uint32_t frame = g->c.item[g->c.config[c].item + at].frame, depth = g->c.frame[frame].depth;
    uint32_t local = config_of_group(g, c, at, n);
    const struct grammar_base *b = local == CONFIG_FAILED ? NULL : base_of(g, local);
    if (!b || !charge(g, g->v->n_words / 64))
        return g->rc;
    if (b->reach > GRAMMAR_MAX_DEPTH - depth) /* the limit of depth cuts off some of it */
        return walk(g, c, 0, g->v->text.n, mask, NULL);
    for (uint32_t i = 0; i < g->v->n_words; i++)
        mask[i] |= b->mask[i];
    uint32_t back = b->n_ret && frame != FRAME_EMPTY ? config_return(g, frame) : CONFIG_DEAD;
    if (back == CONFIG_FAILED)
        return g->rc;
    for (uint32_t i = 0; i < b->n_ret && back != CONFIG_DEAD; i++)
        if (walk(g, back, b->ret[i] + 1, g->v->text.node[b->ret[i]].next, mask, NULL))
            return g->rc;
    return 0;
}

static int add_text(struct grammar *g, uint32_t c, uint64_t *mask)
{
    uint32_t n = g->c.config[c].n, i = 0;
    while (i < n) {
        uint32_t first = g->c.config[c].item, k = i;
        while (k < n && g->c.item[first + k].frame == g->c.item[first + i].frame)
            k++;
        int rc = add_group(g, c, i, k - i, mask);
        if (rc)
            return rc;
        i = k;
    }
    return 0;
}

/* ---- control tokens, tokens by name, ends -------------------------------------------------------------- */

/* A token that ends the generation may come where the grammar may end behind it. */
static bool may_come(const struct grammar *g, int32_t id, uint32_t to)
{
    return g->v->kind[id] != VOCAB_END || g->c.config[to].flags & CONFIG_ACCEPT;
}

static int walk_control(struct grammar *g, uint32_t c, uint64_t *mask)
{
    const struct trie *t = &g->v->control;
    g->path[0] = c;
    for (uint32_t i = 0; i < t->n;) {
        const struct trie_node *n = &t->node[i];
        uint32_t to = charge(g, 1) ? config_step_literal(g, g->path[n->depth - 1], n->byte) : CONFIG_FAILED;
        if (to == CONFIG_FAILED)
            return g->rc;
        if (to == CONFIG_DEAD) {
            i = n->next;
            continue;
        }
        g->path[n->depth] = to;
        for (uint32_t k = n->first; k < n[1].first; k++)
            if (may_come(g, t->tok[k], to))
                mask_set(mask, t->tok[k]);
        i++;
    }
    return 0;
}

static int add_control(struct grammar *g, uint32_t c, uint64_t *mask)
{
    for (uint32_t k = 0; k < g->c.config[c].n; k++) {
        struct grammar_item it = g->c.item[g->c.config[c].item + k];
        for (uint32_t st = it.state; st != GRAMMAR_NONE; st = g->a.fallback[st]) {
            if (!(g->a.flags[st] & STATE_LITERAL))
                continue;
            uint32_t one = config_of_item(g, st, it.frame);
            if (one == CONFIG_FAILED || walk_control(g, one, mask))
                return g->rc;
        }
    }
    return 0;
}

static int add_tokens(struct grammar *g, uint32_t c, uint64_t *mask)
{
    for (uint32_t k = 0; k < g->c.config[c].n; k++) {
        struct grammar_item it = g->c.item[g->c.config[c].item + k];
        if (!charge(g, 1 + g->a.edge_at[it.state + 1] - g->a.edge_at[it.state]))
            return g->rc;
        for (uint32_t i = g->a.edge_at[it.state]; i < g->a.edge_at[it.state + 1]; i++) {
            const struct grammar_edge *e = &g->a.edge[i];
            int32_t id = (int32_t)e->arg;
            bool had = e->kind == EDGE_NOT_TOKEN && mask_has(mask, id);
            if (e->kind != EDGE_TOKEN && e->kind != EDGE_NOT_TOKEN)
                continue;
            if (g->a.need[e->to] > GRAMMAR_MAX_DEPTH - g->c.frame[it.frame].depth)
                continue;
            uint32_t to = e->kind == EDGE_TOKEN ? config_token(g, c, id) : CONFIG_DEAD;
            if (to == CONFIG_FAILED || (e->kind == EDGE_NOT_TOKEN && !charge(g, g->v->n_words / 64)))
                return g->rc;
            if (e->kind == EDGE_TOKEN && may_come(g, id, to))
                mask_set(mask, id);
            for (uint32_t w = 0; w < g->v->n_words && e->kind == EDGE_NOT_TOKEN; w++)
                mask[w] |= g->v->any[w];
            if (e->kind == EDGE_NOT_TOKEN && !had)
                mask[id >> 6] &= ~(1ull << (id & 63));
        }
    }
    return 0;
}

static const uint64_t *make_mask(struct grammar *g, uint32_t c)
{
    uint64_t *mask = cache_has_room(g) && charge(g, g->v->n_words / 16)
                         ? calloc(g->v->n_words + 1ull, sizeof *mask) : NULL;
    if (!mask)
        config_fail(g, -ENOMEM);
    if (!mask || add_text(g, c, mask) || (g->c.config[c].flags & CONFIG_LITERAL && add_control(g, c, mask)) ||
        (g->c.config[c].flags & CONFIG_TOKEN && add_tokens(g, c, mask))) {
        free(mask);
        return NULL;
    }
    for (uint32_t i = 0; i < g->v->n_words && g->c.config[c].flags & CONFIG_ACCEPT; i++)
        mask[i] |= g->v->end[i];
    return mask_intern(g, mask);
}

const uint64_t *config_mask(struct grammar *g, uint32_t c)
{
    g->stats.masks++;
    if (g->c.config[c].mask) {
        g->stats.cached++;
        return g->c.config[c].mask;
    }
    uint64_t from = clock_ns();
    const uint64_t *mask = make_mask(g, c);
    g->c.config[c].mask = mask;
    g->stats.cold_ns += clock_ns() - from;
    return mask;
}
