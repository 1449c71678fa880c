/* What follows from an automaton's edges: which rules can end, and how deep that takes the stack; left recursion; which
 * bytes no edge tells apart. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

/* Edges by where they lead, and calls by rule. */
struct reverse {
    uint32_t *from;               /* [n_edges] where an edge begins                          */
    uint32_t *at, *by;            /* edges into state s: by[at[s] .. at[s + 1])              */
    uint32_t *call_at, *call;     /* calls of rule r: call[call_at[r] .. call_at[r + 1]) */
    uint32_t *rule_of;            /* [n_states] the rule that a state is the entry of, or GRAMMAR_NONE */
    uint32_t *todo[2], n_todo[2]; /* [2 n_states]: of this level, of the next one  */
};

static void reverse_finish(struct reverse *r)
{
    free(r->from);
    free(r->at);
    free(r->by);
    free(r->call_at);
    free(r->call);
    free(r->rule_of);
    free(r->todo[0]);
    free(r->todo[1]);
}

/* Fills at[n + 1] and by[] so that by[at[k] .. at[k + 1]) are the edges with key k. */
static void group_edges(const struct automaton *a, bool calls, uint32_t n, uint32_t *at, uint32_t *by)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < a->n_edges; i++) {
            uint32_t key = calls ? a->edge[i].arg : a->edge[i].to;
            if (calls && a->edge[i].kind != EDGE_CALL)
                continue;
            if (pass == 0)
                at[key + 2]++;
            else
                by[at[key + 1]++] = i;
        }
        for (uint32_t k = 0; k < n && pass == 0; k++)
            at[k + 2] += at[k + 1];
    }
}

static int reverse_create(const struct automaton *a, struct reverse *r)
{
    size_t n = a->n_states, m = a->n_edges + 1ull;
    *r = (struct reverse){ malloc(m * 4),
                           calloc(n + 2, 4),
                           malloc(m * 4),
                           calloc(a->n_rules + 2ull, 4),
                           malloc(m * 4),
                           malloc(n * 4),
                           { malloc(n * 8), malloc(n * 8) },
                           { 0, 0 } };
    if (!r->from || !r->at || !r->by || !r->call_at || !r->call || !r->rule_of || !r->todo[0] || !r->todo[1])
        return -ENOMEM;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = a->edge_at[s]; i < a->edge_at[s + 1]; i++)
            r->from[i] = s;
    group_edges(a, false, a->n_states, r->at, r->by);
    group_edges(a, true, a->n_rules, r->call_at, r->call);
    memset(r->rule_of, 0xff, n * sizeof *r->rule_of);
    for (uint32_t k = 0; k < a->n_rules; k++)
        r->rule_of[a->entry[k]] = k;
    return 0;
}

/* ---- how deep a stack must get ------------------------------------------------------------------------- */

static void relax(struct reverse *r, uint32_t *need, uint32_t s, uint32_t level, uint32_t value)
{
    if (need[s] <= value)
        return;
    need[s] = value;
    r->todo[value - level][r->n_todo[value - level]++] = s;
}

static bool can_match(const struct vocab_index *v, const struct grammar_edge *e)
{
    bool any = e->kind == EDGE_TOKEN || e->kind == EDGE_NOT_TOKEN;
    for (unsigned c = e->lo; c <= e->hi && !any; c++)
        any = v->has_byte[c];
    return any;
}

/* need[s] <= level has just become certain: what does it mean for the states before s? */
static void propagate(const struct automaton *a, const struct vocab_index *v, struct reverse *r, uint32_t *need,
                      uint32_t s)
{
    uint32_t level = need[s], rule = r->rule_of[s];
    for (uint32_t k = r->at[s]; k < r->at[s + 1]; k++) {
        const struct grammar_edge *e = &a->edge[r->by[k]];
        uint32_t callee = e->kind == EDGE_CALL ? need[a->entry[e->arg]] : 0;
        if (e->kind == EDGE_CALL && callee <= level)
            relax(r, need, r->from[r->by[k]], level, MAX(level, callee + 1));
        else if (e->kind == EDGE_EMPTY || (e->kind != EDGE_CALL && v && can_match(v, e)))
            relax(r, need, r->from[r->by[k]], level, level);
    }
    for (uint32_t k = rule == GRAMMAR_NONE ? 0 : r->call_at[rule]; rule != GRAMMAR_NONE && k < r->call_at[rule + 1];
         k++)
        if (need[a->edge[r->call[k]].to] <= level)
            relax(r, need, r->from[r->call[k]], level, level + 1);
}

/* need[s]: the least number of frames on top of its own that lead from s to the end of its rule, in order of the
 * numbers, as the values of a call follow from smaller ones. v NULL: by empty edges alone. */
static void find_need(const struct automaton *a, const struct vocab_index *v, struct reverse *r, uint32_t *need)
{
    memset(need, 0xff, a->n_states * sizeof *need);
    r->n_todo[0] = r->n_todo[1] = 0;
    for (uint32_t s = 0; s < a->n_states; s++)
        if (a->flags[s] & STATE_FINAL)
            relax(r, need, s, 0, 0);
    for (uint32_t level = 0; r->n_todo[0]; level++) {
        while (r->n_todo[0]) {
            uint32_t s = r->todo[0][--r->n_todo[0]];
            if (need[s] == level)
                propagate(a, v, r, need, s);
        }
        uint32_t *t = r->todo[0];
        r->todo[0] = r->todo[1];
        r->todo[1] = t;
        r->n_todo[0] = r->n_todo[1];
        r->n_todo[1] = 0;
    }
}

/* ---- left recursion ------------------------------------------------------------------------------------ */

/* Which rules may begin at the beginning of which: left[at[r] .. at[r + 1]). */
struct left {
    uint32_t *rule, n, cap, *at;
    uint32_t *todo, *stamp; /* [n_states] */
};

static int find_left(const struct automaton *a, const uint32_t *empty, uint32_t rule, struct left *l)
{
    uint32_t n = 0;
    l->todo[n++] = a->entry[rule];
    l->stamp[a->entry[rule]] = rule + 1;
    while (n) {
        uint32_t s = l->todo[--n];
        for (uint32_t i = a->edge_at[s]; i < a->edge_at[s + 1]; i++) {
            const struct grammar_edge *e = &a->edge[i];
            bool call = e->kind == EDGE_CALL;
            if (call) {
                uint32_t *q = grammar_grow(l->rule, &l->cap, l->n + 1ull, sizeof *q);
                if (!q)
                    return -ENOMEM;
                l->rule = q;
                l->rule[l->n++] = e->arg;
            }
            bool on = e->kind == EDGE_EMPTY || (call && empty[a->entry[e->arg]] != GRAMMAR_NONE);
            if (on && l->stamp[e->to] != rule + 1) {
                l->stamp[e->to] = rule + 1;
                l->todo[n++] = e->to;
            }
        }
    }
    return 0;
}

/* A rule on a cycle of left, or GRAMMAR_NONE. todo and stamp serve as stack and colours: 0 new, 1 open, 2 closed; at
 * moves on as the edges of a rule are used up. */
static uint32_t find_cycle(const struct automaton *a, struct left *l, uint32_t n_named)
{
    uint32_t *end = l->at + a->n_rules + 1; /* a second copy */
    memset(l->stamp, 0, a->n_rules * sizeof *l->stamp);
    for (uint32_t first = 0; first < a->n_rules; first++) {
        uint32_t n = 0;
        if (l->stamp[first])
            continue;
        l->todo[n++] = first;
        l->stamp[first] = 1;
        while (n) {
            uint32_t r = l->todo[n - 1];
            if (l->at[r] == end[r + 1]) {
                l->stamp[r] = 2;
                n--;
                continue;
            }
            uint32_t to = l->rule[l->at[r]++];
            if (l->stamp[to] == 1) {
                while (to >= n_named && l->todo[n - 1] != to) /* parts of rules have no name */
                    if (l->todo[--n] < n_named)
                        return l->todo[n];
                return to;
            }
            if (l->stamp[to] == 0) {
                l->stamp[to] = 1;
                l->todo[n++] = to;
            }
        }
    }
    return GRAMMAR_NONE;
}

static int check_left(const struct grammar_ast *ast, const struct automaton *a, const uint32_t *empty, struct err *e)
{
    struct left l = { 0 };
    uint32_t n = a->n_rules, found = GRAMMAR_NONE;
    l.at = calloc(2 * (n + 1ull), sizeof *l.at);
    l.todo = calloc(a->n_states, sizeof *l.todo);
    l.stamp = calloc(a->n_states, sizeof *l.stamp);
    int rc = l.at && l.todo && l.stamp ? 0 : -ENOMEM;
    for (uint32_t r = 0; r < n && !rc; r++) {
        rc = find_left(a, empty, r, &l);
        l.at[r + 1] = l.n;
    }
    if (!rc) {
        memcpy(l.at + n + 1, l.at, (n + 1ull) * sizeof *l.at);
        found = find_cycle(a, &l, ast->n_rule);
    }
    free(l.at);
    free(l.todo);
    free(l.stamp);
    free(l.rule);
    if (rc)
        return err_set(e, rc, "grammar: out of memory for %u rules", n);
    if (found == GRAMMAR_NONE)
        return 0;
    const struct grammar_rule *r = &ast->rule[found];
    char where[48];
    return err_set(e, -EINVAL, "grammar: %s: the rule %.*s is left recursive: it may begin with itself",
                   grammar_where(ast, r->name, where), (int)MIN(r->n_name, 64), ast->text + r->name);
}

/* ---- what steps look at -------------------------------------------------------------------------------- */

/* A call after which nothing is left to do needs no frame: so right recursion does not deepen the stack. */
static bool is_tail(const struct automaton *a, uint32_t s)
{
    for (int i = 0; i < 16 && !(a->flags[s] & STATE_FINAL); i++) {
        if (a->edge_at[s + 1] - a->edge_at[s] != 1 || a->edge[a->edge_at[s]].kind != EDGE_EMPTY)
            return false;
        s = a->edge[a->edge_at[s]].to;
    }
    return a->flags[s] & STATE_FINAL;
}

static void set_flags(struct automaton *a)
{
    for (uint32_t s = 0; s < a->n_states; s++)
        for (uint32_t i = a->edge_at[s]; i < a->edge_at[s + 1]; i++)
            switch ((enum edge_kind)a->edge[i].kind) {
            case EDGE_CLASS: a->flags[s] |= STATE_KERNEL; break;
            case EDGE_LITERAL: a->flags[s] |= STATE_KERNEL | STATE_LITERAL; break;
            case EDGE_TOKEN:
            case EDGE_NOT_TOKEN: a->flags[s] |= STATE_KERNEL | STATE_TOKEN; break;
            case EDGE_CALL:
                if (is_tail(a, a->edge[i].to))
                    a->edge[i].kind = EDGE_TAIL;
                break;
            case EDGE_EMPTY:
            case EDGE_TAIL: break;
            }
}

static void find_classes(struct automaton *a)
{
    bool cut[257] = { true };
    for (uint32_t i = 0; i < a->n_edges; i++)
        if (a->edge[i].kind == EDGE_CLASS || a->edge[i].kind == EDGE_LITERAL)
            cut[a->edge[i].lo] = cut[a->edge[i].hi + 1] = true;
    for (unsigned c = 0; c < 256; c++) {
        if (cut[c])
            a->byte_of[a->n_classes++] = (uint8_t)c;
        a->class_of[c] = (uint8_t)(a->n_classes - 1);
    }
}

int automaton_check(const struct vocab_index *v, const struct grammar_ast *ast, struct automaton *a, struct err *e)
{
    struct reverse r;
    int rc = reverse_create(a, &r);
    a->need = malloc((a->n_states + 1ull) * sizeof *a->need);
    if (rc || !a->need) {
        reverse_finish(&r);
        return err_set(e, -ENOMEM, "grammar: out of memory for %u states", a->n_states);
    }
    find_need(a, NULL, &r, a->need);
    rc = check_left(ast, a, a->need, e);
    if (!rc)
        find_need(a, v, &r, a->need);
    reverse_finish(&r);
    if (rc)
        return rc;
    uint32_t need = a->need[a->entry[a->root]];
    if (need == GRAMMAR_NONE)
        return err_set(e, -EINVAL,
                       "grammar: the rule root has no end: each of its texts goes on for ever, or the "
                       "vocabulary cannot spell it");
    if (need > GRAMMAR_MAX_DEPTH)
        return err_set(e, -E2BIG, "grammar: rules call rules %u deep, more than %d", need, GRAMMAR_MAX_DEPTH);
    set_flags(a);
    find_classes(a);
    return 0;
}
