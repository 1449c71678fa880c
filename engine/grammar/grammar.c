/* Grammars and states, as engine/grammar/grammar.h has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

/* ---- the lock ------------------------------------------------------------------------------------------ */

void grammar_weigh(struct grammar *g)
{
    uint64_t a = (uint64_t)g->a.n_states * (sizeof *g->a.edge_at + sizeof *g->a.need + sizeof *g->a.flags +
                                            sizeof *g->a.fallback) +
                 (uint64_t)g->a.n_edges * sizeof *g->a.edge + (uint64_t)g->a.n_rules * sizeof *g->a.entry;
    atomic_store_explicit(&g->bytes, sizeof *g + a + cache_bytes(g), memory_order_relaxed);
}

uint64_t grammar_bytes(const struct grammar *g)
{
    return atomic_load_explicit(&((struct grammar *)g)->bytes, memory_order_relaxed);
}

/* States that came join the list, those that went leave it. */
static void take_news(struct grammar *g)
{
    pthread_mutex_lock(&g->gate);
    struct grammar_state *born = g->born, *dead = g->dead;
    g->born = g->dead = NULL;
    atomic_store(&g->news, false);
    pthread_mutex_unlock(&g->gate);
    for (struct grammar_state *st = born, *next; st; st = next) {
        next = st->next;
        st->prev = NULL;
        st->next = g->states;
        g->states->prev = st;
        g->states = st;
        st->config = g->origin.config;
    }
    for (struct grammar_state *st = dead, *next; st; st = next) {
        next = st->next_dead;
        if (st->prev)
            st->prev->next = st->next;
        else
            g->states = st->next;
        st->next->prev = st->prev;
        free(st);
    }
}

/* False: another thread has it, and `wait` was not asked for. */
static bool grammar_enter(struct grammar *g, struct grammar_limit *l, bool wait)
{
    if (pthread_mutex_trylock(&g->lock)) {
        if (!wait)
            return false;
        pthread_mutex_lock(&g->lock);
    }
    g->limit = l;
    g->used_before = l->used;
    g->rc = 0;
    g->why = TOO_MANY_STEPS;
    g->granted = g->left = l->steps > l->used ? (int64_t)(l->slice ? MIN(l->slice, l->steps - l->used)
                                                                   : l->steps - l->used) : 0;
    if (atomic_load(&g->news))
        take_news(g);
    return true;
}

static void grammar_leave(struct grammar *g)
{
    work_settle(g);
    g->stats.steps += g->limit->used - g->used_before;
    g->stats.most_steps = MAX(g->stats.most_steps, g->limit->used - g->used_before);
    if (g->w)
        work_give(g);
    grammar_weigh(g);
    g->limit = NULL;
    pthread_mutex_unlock(&g->lock);
}

/* What a failure in between says. */
static int too_much(const struct grammar *g, const struct grammar_limit *l, int rc, struct err *e)
{
    char what[48];
    if (g->why == TOO_MANY_STEPS)
        snprintf(what, sizeof what, "takes more than %llu steps", (unsigned long long)l->steps);
    else if (g->why == TOO_MANY_BYTES)
        snprintf(what, sizeof what, "takes more than %d MiB", GRAMMAR_HARD_BYTES >> 20);
    else
        snprintf(what, sizeof what, "has more than %d readings", GRAMMAR_MAX_SEEN);
    if (rc == -E2BIG)
        return err_set(e, rc, "the grammar %s for one token: texts can be read in too many ways at once; shorter "
                       "repetitions, or fewer that may be empty, would help", what);
    if (rc == -ENOMEM)
        return err_set(e, rc, "grammar: out of memory for the tokens that may come");
    return err_set(e, rc, "grammar: %s", strerror(-rc));
}

/* ---- grammars ------------------------------------------------------------------------------------------ */

static int start(struct grammar *g, struct err *e)
{
    struct grammar_limit l = { .steps = GRAMMAR_START_STEPS };
    grammar_enter(g, &l, true);
    g->origin.config = config_start(g);
    int rc = g->rc ? too_much(g, &l, g->rc, e) : 0;
    grammar_leave(g);
    return rc;
}

static int create(const struct vocab_index *v, const struct grammar_ast *ast, struct grammar **out, struct err *e)
{
    struct grammar *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, -ENOMEM, "grammar: out of memory");
    atomic_init(&g->refs, 1);
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->gate, NULL);
    g->v = v;
    g->states = &g->origin;
    int rc = automaton_build(v, ast, &g->a, e);
    if (!rc) {
        g->path = malloc((MAX(v->text.max_depth, v->control.max_depth) + 1ull) * sizeof *g->path);
        rc = g->path && !cache_create(g) ? start(g, e) : err_set(e, -ENOMEM, "grammar: out of memory");
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
    take_news(g);
    CHECK(g->states == &g->origin);
    cache_finish(g);
    automaton_finish(&g->a);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->gate);
    free(g->path);
    free(g);
}

struct grammar_stats grammar_stats(struct grammar *g)
{
    pthread_mutex_lock(&g->lock);
    struct grammar_stats s = g->stats;
    s.bytes = cache_bytes(g);
    pthread_mutex_unlock(&g->lock);
    return s;
}

/* ---- states -------------------------------------------------------------------------------------------- */

int grammar_state_create(struct grammar *g, struct grammar_state **out, struct err *e)
{
    struct grammar_state *st = calloc(1, sizeof *st);
    if (!st)
        return err_set(e, -ENOMEM, "grammar: out of memory for a state");
    grammar_ref(g);
    *st = (struct grammar_state){ .g = g, .config = GRAMMAR_NONE, .pending = -1 };
    pthread_mutex_lock(&g->gate);
    st->next = g->born;
    g->born = st;
    atomic_store(&g->news, true);
    pthread_mutex_unlock(&g->gate);
    *out = st;
    return 0;
}

void grammar_state_destroy(struct grammar_state *st)
{
    if (!st)
        return;
    struct grammar *g = st->g;
    pthread_mutex_lock(&g->gate);
    st->next_dead = g->dead;
    g->dead = st;
    atomic_store(&g->news, true);
    pthread_mutex_unlock(&g->gate);
    grammar_unref(g);
}

struct grammar *grammar_of_state(const struct grammar_state *st)
{
    return st->g;
}

/* The cache is given up when it has grown too large, between walks. */
static int make_room(struct grammar *g)
{
    if (cache_bytes(g) <= GRAMMAR_SOFT_BYTES)
        return 0;
    return charge(g, cache_bytes(g) / 32) ? cache_renew(g) : g->rc; /* too long for a round of the scheduler */
}

/* Where a token leads from a configuration. */
static uint32_t step_from(struct grammar *g, uint32_t config, int32_t id)
{
    uint32_t to = config_accept(g, config, id);
    if (to != CONFIG_FAILED && g->v->kind[id] == VOCAB_END && !(g->c.config[to].flags & CONFIG_ACCEPT))
        to = g->c.config[config].flags & CONFIG_ACCEPT ? config : CONFIG_DEAD; /* not by its text: because the text so far may end */
    return to;
}

static int step(struct grammar_state *st, int32_t id)
{
    struct grammar *g = st->g;
    bool end = g->v->kind[id] == VOCAB_END;
    if (st->ended)
        return end ? 0 : -EINVAL;
    uint32_t to = step_from(g, st->config, id);
    if (to == CONFIG_FAILED)
        return g->rc;
    if (to == CONFIG_DEAD)
        return -EINVAL;
    st->config = to;
    st->ended = end;
    st->mask = NULL;
    return 0;
}

void grammar_state_choose(struct grammar_state *st, int32_t id)
{
    CHECK(st->pending < 0);
    st->pending = id;
    st->mask = NULL;
}

const uint64_t *grammar_state_ready(const struct grammar_state *st)
{
    return st->mask;
}

bool grammar_state_may_end(const struct grammar_state *st)
{
    const struct vocab_index *v = st->g->v;
    bool may = false;
    for (uint32_t i = 0; i < v->n_words && st->mask; i++)
        may |= (st->mask[i] & v->end[i]) != 0;
    return may;
}

int grammar_state_prepare(struct grammar_state *st, struct grammar_limit *l, bool wait, struct err *e)
{
    struct grammar *g = st->g;
    if (st->mask)
        return 0;
    if (!grammar_enter(g, l, wait))
        return -EAGAIN;
    int rc = make_room(g);
    if (!rc && st->pending >= 0 && !(rc = step(st, st->pending)))
        st->pending = -1;
    if (!rc && !(st->mask = st->ended ? g->v->end : config_mask(g, st->config)))
        rc = g->rc;
    if (rc)
        too_much(g, l, rc, e);
    grammar_leave(g);
    return rc;
}

static bool goes_on(const struct grammar *g, int32_t id)
{
    return id >= 0 && (uint32_t)id < g->v->n_vocab && g->v->kind[id] != VOCAB_END;
}

uint32_t grammar_state_allows(const struct grammar_state *st, const int32_t *tok, uint32_t n, struct grammar_limit *l)
{
    struct grammar *g = st->g;
    uint32_t i = 0;
    if (!n || st->ended || (st->pending >= 0 && !goes_on(g, st->pending)) || !grammar_enter(g, l, false))
        return 0;
    uint32_t at = st->pending >= 0 ? step_from(g, st->config, st->pending) : st->config;
    while (at != CONFIG_DEAD && at != CONFIG_FAILED && i < n && goes_on(g, tok[i]) &&
           (at = step_from(g, at, tok[i])) != CONFIG_DEAD && at != CONFIG_FAILED)
        i++;
    grammar_leave(g);
    return i;
}

/* ---- states of callers that wait ----------------------------------------------------------------------- */

void grammar_state_reset(struct grammar_state *st)
{
    struct grammar_limit l = { .steps = 1 };
    grammar_enter(st->g, &l, true);
    st->config = st->g->origin.config;
    st->pending = -1;
    st->ended = false;
    st->mask = NULL;
    grammar_leave(st->g);
}

const uint64_t *grammar_state_mask(struct grammar_state *st)
{
    struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS };
    return grammar_state_prepare(st, &l, true, NULL) ? NULL : st->mask;
}

int grammar_state_accept(struct grammar_state *st, int32_t id)
{
    struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS };
    if (id < 0 || (uint32_t)id >= st->g->v->n_vocab)
        return -EINVAL;
    grammar_enter(st->g, &l, true);
    int rc = make_room(st->g);
    if (!rc && st->pending >= 0 && !(rc = step(st, st->pending)))
        st->pending = -1;
    if (!rc)
        rc = step(st, id);
    grammar_leave(st->g);
    return rc;
}

bool grammar_state_can_end(struct grammar_state *st)
{
    struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS };
    grammar_enter(st->g, &l, true);
    bool can = st->pending < 0 && (st->ended || st->g->c.config[st->config].flags & CONFIG_ACCEPT);
    grammar_leave(st->g);
    return can;
}
