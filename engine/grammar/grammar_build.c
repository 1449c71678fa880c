/* A grammar's tree as an automaton: each element becomes edges between two states. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

struct builder {
    const struct grammar_ast *ast;
    struct automaton *a;
    struct grammar_edge *edge; /* as they come, with where they begin: */
    uint32_t *from;
    uint32_t n_edge, cap_edge, cap_from, cap_fallback;
    uint32_t n_rule, cap_final; /* with those made here               */
    uint32_t *final;            /* of each rule                       */
    uint32_t named;             /* the rule of the text that is being made */
    uint32_t cap_entry, cap_flags;
    struct err *e;
    int rc;
};

static void no_memory(struct builder *b)
{
    if (!b->rc)
        b->rc = err_set(b->e, -ENOMEM, "grammar: out of memory for %u states", b->a->n_states);
}

static void too_large(struct builder *b, int most, const char *what)
{
    const struct grammar_rule *r = &b->ast->rule[b->named];
    if (!b->rc)
        b->rc = err_set(b->e, -E2BIG, "grammar: more than %d %s, in the rule %.*s; fewer or shorter repetitions and lists "
                        "would help", most, what, (int)MIN(r->n_name, 64), b->ast->text + r->name);
}

static uint32_t add_state(struct builder *b)
{
    struct automaton *a = b->a;
    if (b->rc || a->n_states == GRAMMAR_MAX_STATES) {
        too_large(b, GRAMMAR_MAX_STATES, "states");
        return 0;
    }
    uint32_t *q = grammar_grow(a->fallback, &b->cap_fallback, a->n_states + 1ull, sizeof *q);
    uint8_t *f = grammar_grow(a->flags, &b->cap_flags, a->n_states + 1ull, sizeof *f);
    a->fallback = q ? q : a->fallback;
    a->flags = f ? f : a->flags;
    if (!q || !f) {
        no_memory(b);
        return 0;
    }
    a->fallback[a->n_states] = GRAMMAR_NONE;
    a->flags[a->n_states] = 0;
    return a->n_states++;
}

static void add_edge(struct builder *b, uint32_t from, struct grammar_edge edge)
{
    if (b->rc || b->n_edge == GRAMMAR_MAX_EDGES) {
        too_large(b, GRAMMAR_MAX_EDGES, "edges");
        return;
    }
    struct grammar_edge *q = grammar_grow(b->edge, &b->cap_edge, b->n_edge + 1ull, sizeof *q);
    uint32_t *f = grammar_grow(b->from, &b->cap_from, b->n_edge + 1ull, sizeof *f);
    b->edge = q ? q : b->edge;
    b->from = f ? f : b->from;
    if (!q || !f) {
        no_memory(b);
        return;
    }
    b->from[b->n_edge] = from;
    b->edge[b->n_edge++] = edge;
}

static void add_empty(struct builder *b, uint32_t from, uint32_t to)
{
    if (from != to)
        add_edge(b, from, (struct grammar_edge){ .kind = EDGE_EMPTY, .to = to });
}

static void add_bytes(struct builder *b, uint32_t from, uint32_t to, enum edge_kind kind, uint8_t lo, uint8_t hi)
{
    add_edge(b, from, (struct grammar_edge){ .kind = (uint8_t)kind, .lo = lo, .hi = hi, .to = to });
}

/* ---- characters ---------------------------------------------------------------------------------------- */

static void add_char(struct builder *b, uint32_t from, uint32_t to, uint32_t cp)
{
    char s[4];
    size_t n = utf8_encode(cp, s);
    for (size_t i = 0; i < n; i++) {
        uint32_t next = i + 1 == n ? to : add_state(b);
        add_bytes(b, from, next, EDGE_LITERAL, (uint8_t)s[i], (uint8_t)s[i]);
        from = next;
    }
}

/* tail[k]: the state from which any k continuation bytes lead to tail[0]. */
static uint32_t class_tail(struct builder *b, uint32_t tail[4], uint32_t k)
{
    if (k && tail[k] == GRAMMAR_NONE) {
        tail[k] = add_state(b);
        add_bytes(b, tail[k], class_tail(b, tail, k - 1), EDGE_CLASS, 0x80, 0xbf);
    }
    return tail[k];
}

/* lo..hi have encodings of one length and differ so that every byte ranges by itself. */
static void add_range_bytes(struct builder *b, uint32_t from, uint32_t tail[4], uint32_t lo, uint32_t hi)
{
    char l[4], h[4];
    size_t n = utf8_encode(lo, l), full = n;
    utf8_encode(hi, h);
    while (full > 1 && (uint8_t)l[full - 1] == 0x80 && (uint8_t)h[full - 1] == 0xbf)
        full--; /* from here on: any continuation */
    for (size_t i = 0; i < full; i++) {
        uint32_t next = i + 1 == full ? class_tail(b, tail, (uint32_t)(n - full)) : add_state(b);
        add_bytes(b, from, next, EDGE_CLASS, (uint8_t)l[i], (uint8_t)h[i]);
        from = next;
    }
}

static void add_range(struct builder *b, uint32_t from, uint32_t tail[4], uint32_t lo, uint32_t hi)
{
    static const uint32_t ends[] = { 0x7f, 0x7ff, 0xffff };
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (lo <= ends[i] && hi > ends[i]) {
            add_range(b, from, tail, lo, ends[i]);
            add_range(b, from, tail, ends[i] + 1, hi);
            return;
        }
    for (uint32_t bits = 6; bits <= 18 && hi >= 0x80; bits += 6) {
        uint32_t m = (1u << bits) - 1, cut = 0;
        if ((lo & ~m) == (hi & ~m))
            break;
        if (lo & m)
            cut = (lo | m) + 1;
        else if ((hi & m) != m)
            cut = hi & ~m;
        if (cut) {
            add_range(b, from, tail, lo, cut - 1);
            add_range(b, from, tail, cut, hi);
            return;
        }
    }
    add_range_bytes(b, from, tail, lo, hi);
}

static void add_class(struct builder *b, uint32_t from, uint32_t to, const uint32_t *cp, uint32_t n)
{
    uint32_t tail[4] = { to, GRAMMAR_NONE, GRAMMAR_NONE, GRAMMAR_NONE };
    for (uint32_t i = 0; i < n; i++) {
        uint32_t lo = cp[2 * i], hi = cp[2 * i + 1];
        if (lo < 0xd800)
            add_range(b, from, tail, lo, MIN(hi, 0xd7ff)); /* surrogates are no characters */
        if (hi > 0xdfff)
            add_range(b, from, tail, MAX(lo, 0xe000), hi);
    }
}

/* ---- %until -------------------------------------------------------------------------------------------- */

/* How much of t[0..n) the text t[0..k) c ends with. */
static uint32_t until_next(const uint32_t *t, const uint32_t *border, uint32_t k, uint32_t c)
{
    while (k && t[k] != c)
        k = border[k];
    return t[k] == c ? k + 1 : 0;
}

/* The edges of state k that lead anywhere but on: a character that fits a shorter beginning leads there, all others
 * to the start. */
static void until_back(struct builder *b, uint32_t first, const uint32_t *t, uint32_t n, const uint32_t *border,
                       uint32_t k)
{
    uint32_t used[2 * GRAMMAR_MAX_UNTIL], rest[2 * GRAMMAR_MAX_UNTIL + 2], n_used = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = until_next(t, border, k, t[i]);
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = t[j] == t[i];
        if (seen || !to)
            continue;
        used[2 * n_used] = used[2 * n_used + 1] = t[i];
        n_used++;
        if (t[i] != t[k])
            add_class(b, first + k, first + to, (uint32_t[]){ t[i], t[i] }, 1);
    }
    n_used = ranges_normalize(used, n_used);
    add_class(b, first + k, first, rest, ranges_invert(used, n_used, rest));
}

static void emit_until(struct builder *b, uint32_t from, uint32_t to, const uint32_t *t, uint32_t n)
{
    uint32_t border[GRAMMAR_MAX_UNTIL] = { 0 }, first = b->a->n_states;
    for (uint32_t k = 0; k < n; k++) {
        add_state(b);
        if (k > 1)
            border[k] = until_next(t, border, border[k - 1], t[k - 1]);
    }
    if (b->rc)
        return;
    add_empty(b, from, first);
    for (uint32_t k = 0; k < n && !b->rc; k++) {
        if (k)
            b->a->fallback[first + k] = first + border[k];
        add_char(b, first + k, k + 1 == n ? to : first + k + 1, t[k]);
        until_back(b, first, t, n, border, k);
    }
}

/* ---- elements ------------------------------------------------------------------------------------------ */

static void emit(struct builder *b, const struct grammar_node *n, uint32_t from, uint32_t to);

static void emit_literal(struct builder *b, uint32_t from, uint32_t to, const uint32_t *cp, uint32_t n)
{
    for (uint32_t i = 0; i < n && !b->rc; i++) {
        uint32_t next = i + 1 == n ? to : add_state(b);
        add_char(b, from, next, cp[i]);
        from = next;
    }
    if (n == 0)
        add_empty(b, from, to);
}

static void emit_sequence(struct builder *b, const struct grammar_node *n, uint32_t from, uint32_t to)
{
    const struct grammar_node *node = b->ast->node;
    if (n->a == GRAMMAR_NONE)
        add_empty(b, from, to);
    for (uint32_t c = n->a; c != GRAMMAR_NONE && !b->rc; c = node[c].next) {
        uint32_t next = node[c].next == GRAMMAR_NONE ? to : add_state(b);
        emit(b, &node[c], from, next);
        from = next;
    }
}

/* Repeated often, a large part is made once, as a rule. */
static uint32_t emit_part(struct builder *b, const struct grammar_node *child)
{
    struct automaton *a = b->a;
    uint32_t *q = grammar_grow(a->entry, &b->cap_entry, b->n_rule + 1ull, sizeof *q);
    uint32_t *f = grammar_grow(b->final, &b->cap_final, b->n_rule + 1ull, sizeof *f);
    a->entry = q ? q : a->entry;
    b->final = f ? f : b->final;
    if (!q || !f) {
        no_memory(b);
        return 0;
    }
    uint32_t rule = b->n_rule++;
    a->entry[rule] = add_state(b);
    b->final[rule] = add_state(b);
    if (!b->rc)
        a->flags[b->final[rule]] = STATE_FINAL;
    emit(b, child, a->entry[rule], b->final[rule]);
    return rule;
}

static void emit_repeat(struct builder *b, const struct grammar_node *n, uint32_t from, uint32_t to)
{
    enum { MANY = 1 << 15, MANY_EDGES = 1 << 16 };
    const struct grammar_node *child = &b->ast->node[n->a];
    uint32_t times = n->max == GRAMMAR_NONE ? n->min : n->max, rule = GRAMMAR_NONE;
    uint64_t states = b->a->n_states, edges = b->n_edge;
    for (uint32_t i = 0; i < times && !b->rc; i++) {
        uint32_t next = i + 1 == times && n->max != GRAMMAR_NONE ? to : add_state(b);
        if (i >= n->min)
            add_empty(b, from, to);
        bool large = i == 1 && ((b->a->n_states - states) * times > MANY || (b->n_edge - edges) * times > MANY_EDGES);
        if (large && child->kind != NODE_RULE)
            rule = emit_part(b, child);
        if (rule == GRAMMAR_NONE)
            emit(b, child, from, next);
        else
            add_edge(b, from, (struct grammar_edge){ .kind = EDGE_CALL, .arg = rule, .to = next });
        from = next;
    }
    if (n->max == GRAMMAR_NONE) { /* a state of its own, so that the loop is entered from here alone */
        uint32_t loop = add_state(b);
        add_empty(b, from, loop);
        emit(b, child, loop, loop);
        add_empty(b, loop, to);
    } else if (times == 0)
        add_empty(b, from, to);
}

static void emit(struct builder *b, const struct grammar_node *n, uint32_t from, uint32_t to)
{
    const struct grammar_ast *ast = b->ast;
    struct grammar_edge edge = { .to = to, .arg = n->a };
    if (b->rc)
        return;
    switch (n->kind) {
    case NODE_LITERAL: emit_literal(b, from, to, ast->cp + n->a, n->b); return;
    case NODE_UNTIL: emit_until(b, from, to, ast->cp + n->a, n->b); return;
    case NODE_CLASS: add_class(b, from, to, ast->cp + n->a, n->b); return;
    case NODE_SEQ: emit_sequence(b, n, from, to); return;
    case NODE_REPEAT: emit_repeat(b, n, from, to); return;
    case NODE_ALT:
        for (uint32_t c = n->a; c != GRAMMAR_NONE; c = ast->node[c].next)
            emit(b, &ast->node[c], from, to);
        return;
    case NODE_RULE: edge.kind = EDGE_CALL; break;
    case NODE_TOKEN: edge.kind = EDGE_TOKEN; break;
    case NODE_NOT_TOKEN: edge.kind = EDGE_NOT_TOKEN; break;
    }
    add_edge(b, from, edge);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static void emit_rules(struct builder *b)
{
    const struct grammar_ast *ast = b->ast;
    struct automaton *a = b->a;
    uint32_t *q = grammar_grow(NULL, &b->cap_entry, ast->n_rule, sizeof *q);
    uint32_t *f = grammar_grow(NULL, &b->cap_final, ast->n_rule, sizeof *f);
    a->entry = q;
    b->final = f;
    if (!q || !f) {
        no_memory(b);
        return;
    }
    b->n_rule = ast->n_rule;
    for (uint32_t i = 0; i < ast->n_rule && !b->rc; i++) {
        a->entry[i] = add_state(b);
        b->final[i] = add_state(b);
        if (!b->rc)
            a->flags[b->final[i]] = STATE_FINAL;
    }
    for (uint32_t i = 0; i < ast->n_rule && !b->rc; b->named = ++i)
        emit(b, &ast->node[ast->rule[i].body], a->entry[i], b->final[i]);
    a->n_rules = b->n_rule;
    a->root = ast->root;
}

/* Sorts the edges by where they begin. */
static void sort_edges(struct builder *b)
{
    struct automaton *a = b->a;
    a->edge_at = calloc(a->n_states + 2ull, sizeof *a->edge_at);
    a->edge = malloc((b->n_edge + 1ull) * sizeof *a->edge);
    if (!a->edge_at || !a->edge) {
        no_memory(b);
        return;
    }
    for (uint32_t i = 0; i < b->n_edge; i++)
        a->edge_at[b->from[i] + 2]++;
    for (uint32_t s = 0; s < a->n_states; s++)
        a->edge_at[s + 2] += a->edge_at[s + 1];
    for (uint32_t i = 0; i < b->n_edge; i++)
        a->edge[a->edge_at[b->from[i] + 1]++] = b->edge[i];
    a->n_edges = b->n_edge;
}

int automaton_build(const struct vocab_index *v, const struct grammar_ast *ast, struct automaton *out, struct err *e)
{
    struct builder b = { .ast = ast, .a = out, .e = e };
    *out = (struct automaton){ 0 };
    emit_rules(&b);
    if (!b.rc)
        sort_edges(&b);
    free(b.edge);
    free(b.from);
    free(b.final);
    if (!b.rc)
        b.rc = automaton_check(v, ast, out, e);
    if (b.rc)
        automaton_finish(out);
    return b.rc;
}

void automaton_finish(struct automaton *a)
{
    free(a->edge);
    free(a->edge_at);
    free(a->need);
    free(a->flags);
    free(a->fallback);
    free(a->entry);
    *a = (struct automaton){ 0 };
}
