/* Grammars and states, as engine/grammar.h has them. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar_impl.h"

/* ---- grammars ------------------------------------------------------------------------------------------ */

static int create(const struct vocab_index *v, const struct grammar_ast *ast, struct grammar **out, struct err *e)
{
    struct grammar *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, -ENOMEM, "grammar: out of memory");
    atomic_init(&g->refs, 1);
    g->v = v;
    int rc = automaton_build(v, ast, &g->a, e);
    if (!rc) {
        g->path = malloc((MAX(v->text.max_depth, v->control.max_depth) + 1ull) * sizeof *g->path);
        rc = g->path ? cache_create(g) : -ENOMEM;
        g->states = &g->origin;
        g->origin.config = rc ? CONFIG_NOMEM : config_start(g);
        if (g->origin.config == CONFIG_NOMEM)
            rc = err_set(e, -ENOMEM, "grammar: out of memory");
    }
    if (rc)
        grammar_unref(g);
    else
        *out = g;
    return rc;
}

int grammar_from_gbnf(const struct vocab_index *v, const char *text, size_t n, struct grammar **out, struct err *e)
{
    struct grammar_ast ast;
    int rc = grammar_parse(v, text, n, &ast, e);
    if (rc)
        return rc;
    rc = create(v, &ast, out, e);
    grammar_ast_finish(&ast);
    return rc;
}

int grammar_from_schema(const struct vocab_index *v, const char *json, size_t n, struct grammar **out, struct err *e)
{
    struct tok_buf b = { 0 };
    int rc = grammar_schema_to_gbnf(json, n, "root", &b, e);
    if (!rc)
        rc = grammar_from_gbnf(v, b.s, b.n, out, e);
    tok_buf_finish(&b);
    return rc;
}

void grammar_ref(struct grammar *g)
{
    atomic_fetch_add(&g->refs, 1);
}

void grammar_unref(struct grammar *g)
{
    if (!g || atomic_fetch_sub(&g->refs, 1) > 1)
        return;
    cache_finish(g);
    automaton_finish(&g->a);
    free(g->path);
    free(g);
}

struct grammar_stats grammar_stats(const struct grammar *g)
{
    struct grammar_stats s = g->stats;
    s.bytes = cache_bytes(g);
    return s;
}

/* ---- states -------------------------------------------------------------------------------------------- */

int grammar_state_create(struct grammar *g, struct grammar_state **out, struct err *e)
{
    struct grammar_state *st = calloc(1, sizeof *st);
    if (!st)
        return err_set(e, -ENOMEM, "grammar: out of memory for a state");
    grammar_ref(g);
    *st = (struct grammar_state){ .g = g, .next = g->states, .config = g->origin.config };
    g->states->prev = st;
    g->states = st;
    *out = st;
    return 0;
}

void grammar_state_destroy(struct grammar_state *st)
{
    if (!st)
        return;
    struct grammar *g = st->g;
    if (st->prev)
        st->prev->next = st->next;
    else
        g->states = st->next;
    st->next->prev = st->prev;
    free(st);
    grammar_unref(g);
}

/* The cache is given up when it has grown too large, between walks. */
static int make_room(struct grammar *g)
{
    return cache_bytes(g) > GRAMMAR_MAX_BYTES ? cache_renew(g) : 0;
}

void grammar_state_reset(struct grammar_state *st)
{
    st->config = st->g->origin.config;
    st->ended = false;
}

const uint64_t *grammar_state_mask(struct grammar_state *st)
{
    if (st->ended)
        return st->g->v->end;
    return make_room(st->g) ? NULL : config_mask(st->g, st->config);
}

int grammar_state_accept(struct grammar_state *st, int32_t id)
{
    struct grammar *g = st->g;
    if (id < 0 || (uint32_t)id >= g->v->n_vocab || make_room(g))
        return id < 0 || (uint32_t)id >= g->v->n_vocab ? -EINVAL : -ENOMEM;
    bool end = g->v->kind[id] == VOCAB_END;
    if (st->ended)
        return end ? 0 : -EINVAL;
    uint32_t to = config_accept(g, st->config, id);
    if (to == CONFIG_NOMEM)
        return -ENOMEM;
    if (end && !(g->c.config[to].flags & CONFIG_ACCEPT)) /* not by its text: then because the text so far may end */
        to = g->c.config[st->config].flags & CONFIG_ACCEPT ? st->config : CONFIG_DEAD;
    if (to == CONFIG_DEAD)
        return -EINVAL;
    st->config = to;
    st->ended = end;
    return 0;
}

bool grammar_state_can_end(const struct grammar_state *st)
{
    return st->ended || st->g->c.config[st->config].flags & CONFIG_ACCEPT;
}
