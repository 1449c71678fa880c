#include "engine/grammar/json_schema_strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

void strings_finish(struct strings *a)
{
    free(a->state);
    free(a->edge);
    *a = (struct strings){ 0 };
}

static int end(struct strings *a, int rc)
{
    if (rc)
        strings_finish(a);
    return rc;
}

int strings_add_state(struct strings *a, bool final)
{
    struct strings_state *q = grammar_grow(a->state, &a->cap_states, a->n_states + 1ull, sizeof *q);
    if (!q || a->n_states == STRINGS_MAX_STATES) {
        a->state = q ? q : a->state;
        return q ? -E2BIG : -ENOMEM;
    }
    a->state = q;
    a->state[a->n_states++] = (struct strings_state){ a->n_edges, 0, final };
    return 0;
}

int strings_add_edge(struct strings *a, uint32_t lo, uint32_t hi, uint32_t to)
{
    struct strings_state *s = &a->state[a->n_states - 1];
    struct strings_edge *last = s->n ? &a->edge[a->n_edges - 1] : NULL;
    lo = MAX(lo, 1u);
    if (lo <= 0xd7ff && hi > 0xd7ff) {
        int rc = strings_add_edge(a, lo, 0xd7ff, to);
        return rc || hi < 0xe000 ? rc : strings_add_edge(a, 0xe000, hi, to);
    }
    if (lo > 0xd7ff && lo < 0xe000)
        lo = 0xe000;
    if (hi < lo)
        return 0;
    if (last && last->to == to && last->hi + 1 == lo) {
        last->hi = hi;
        return 0;
    }
    struct strings_edge *q = grammar_grow(a->edge, &a->cap_edges, a->n_edges + 1ull, sizeof *q);
    if (!q)
        return -ENOMEM;
    a->edge = q;
    a->edge[a->n_edges++] = (struct strings_edge){ lo, hi, to };
    s->n++;
    return 0;
}

int strings_trim(struct strings *a)
{
    uint32_t *number = calloc(a->n_states + 1ull, sizeof *number), n = 0, n_edges = 0;
    bool changed = true;
    if (!number)
        return -ENOMEM;
    while (changed) { /* number[i]: does it lead to an end? Most edges lead on, so few rounds are needed */
        changed = false;
        for (uint32_t i = a->n_states; i-- > 0;) {
            bool alive = a->state[i].final;
            for (uint32_t k = 0; k < a->state[i].n && !alive; k++)
                alive = number[a->edge[a->state[i].edge + k].to];
            changed |= alive && !number[i];
            number[i] |= alive;
        }
    }
    if (a->n_states && !number[0])
        a->n_states = 0;
    for (uint32_t i = 0; i < a->n_states; i++)
        number[i] = number[i] ? ++n : 0;
    for (uint32_t i = 0; i < a->n_states; i++) {
        struct strings_state s = a->state[i];
        if (!number[i])
            continue;
        struct strings_state *to = &a->state[number[i] - 1];
        *to = (struct strings_state){ n_edges, 0, s.final };
        for (uint32_t k = 0; k < s.n; k++) {
            struct strings_edge e = a->edge[s.edge + k];
            if (!number[e.to])
                continue;
            e.to = number[e.to] - 1;
            a->edge[n_edges++] = e;
            to->n++;
        }
    }
    a->n_states = n;
    a->n_edges = n_edges;
    free(number);
    return 0;
}

/* ---- sets ---------------------------------------------------------------------------------------------- */

int strings_length(uint64_t min, uint64_t max, struct strings *out)
{
    uint64_t last = max == UINT64_MAX ? min : max;
    int rc = 0;
    *out = (struct strings){ 0 };
    if (last >= STRINGS_MAX_STATES)
        return -E2BIG;
    for (uint64_t i = 0; i <= last && !rc; i++) {
        rc = strings_add_state(out, i >= min);
        if (!rc && (i < last || max == UINT64_MAX))
            rc = strings_add_edge(out, 1, 0x10ffff, (uint32_t)MIN(i + 1, last));
    }
    return end(out, rc);
}

/* State k: the text ends with the first k characters of the mark. */
int strings_without(const char *mark, struct strings *out)
{
    uint32_t n = (uint32_t)strlen(mark), first = (unsigned char)mark[0];
    int rc = 0;
    *out = (struct strings){ 0 };
    for (uint32_t k = 0; k < n && !rc; k++) {
        uint32_t on = (unsigned char)mark[k], from = 1;
        rc = strings_add_state(out, true);
        for (uint32_t i = 0; i < 2 && !rc; i++) {
            uint32_t c = i == 0 ? MIN(on, first) : MAX(on, first);
            if (c < from)
                continue;
            rc = strings_add_edge(out, from, c - 1, 0);
            if (!rc && !(c == on && k + 1 == n))
                rc = strings_add_edge(out, c, c, c == on ? k + 1 : 1);
            from = c + 1;
        }
        if (!rc)
            rc = strings_add_edge(out, from, 0x10ffff, 0);
    }
    return end(out, rc);
}

uint32_t strings_next(const char **s)
{
    uint8_t c = (uint8_t)*(*s)++;
    unsigned n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t cp = n ? c & (0x3fu >> n) : c;
    for (; n && **s; n--)
        cp = cp << 6 | (uint32_t)(*(*s)++ & 63);
    return cp;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* s[from..to) are those that begin like the state's way, of which `at` bytes are gone. */
struct group {
    uint32_t from, to;
    size_t at;
};

int strings_list(const char *const *s, size_t n, struct strings *out)
{
    const char **sorted = calloc(n + 1, sizeof *sorted);
    uint32_t n_groups = 1, cap = 0;
    struct group *g = grammar_grow(NULL, &cap, 1, sizeof *g), *more;
    int rc = sorted && g ? 0 : -ENOMEM;
    *out = (struct strings){ 0 };
    if (!rc && n) {
        memcpy(sorted, s, n * sizeof *s);
        qsort(sorted, n, sizeof *sorted, compare_text);
        g[0] = (struct group){ 0, (uint32_t)n, 0 };
    }
    for (uint32_t i = 0; n && i < n_groups && !rc; i++) {
        struct group x = g[i];
        rc = strings_add_state(out, !sorted[x.from][x.at]);
        while (x.from < x.to && !sorted[x.from][x.at])
            x.from++;
        while (x.from < x.to && !rc) {
            const char *p = sorted[x.from] + x.at, *q;
            uint32_t c = strings_next(&p), k = x.from + 1;
            for (; k < x.to && (q = sorted[k] + x.at, strings_next(&q) == c); k++)
                ;
            more = grammar_grow(g, &cap, n_groups + 1ull, sizeof *g);
            g = more ? more : g;
            rc = !more ? -ENOMEM : n_groups == STRINGS_MAX_STATES ? -E2BIG : strings_add_edge(out, c, c, n_groups);
            if (!rc)
                g[n_groups++] = (struct group){ x.from, k, (size_t)(p - sorted[x.from]) };
            x.from = k;
        }
    }
    free(sorted);
    free(g);
    return end(out, rc);
}

/* ---- two sets ------------------------------------------------------------------------------------------ */

struct product {
    const struct strings *a, *b;
    uint32_t (*pair)[2];
    uint32_t n, cap, *slot, n_slot;
    int rc; /* why a pair has no number */
};

enum { NOWHERE = UINT32_MAX };

static uint32_t slot_of(const struct product *p, uint32_t a, uint32_t b)
{
    uint32_t h = (uint32_t)((a | (uint64_t)b << 32) * 0x9e3779b97f4a7c15u >> 40) & (p->n_slot - 1);
    while (p->slot[h] && (p->pair[p->slot[h] - 1][0] != a || p->pair[p->slot[h] - 1][1] != b))
        h = (h + 1) & (p->n_slot - 1);
    return h;
}

static bool more_slots(struct product *p)
{
    struct product q = *p;
    q.n_slot = p->n_slot ? p->n_slot * 4 : 256;
    q.slot = calloc(q.n_slot, sizeof *q.slot);
    if (!q.slot)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        q.slot[slot_of(&q, p->pair[i][0], p->pair[i][1])] = i + 1;
    free(p->slot);
    *p = q;
    return true;
}

/* The number of a pair of states. NOWHERE: no memory, or too many, by p->rc. */
static uint32_t number_of(struct product *p, uint32_t a, uint32_t b)
{
    void *q = grammar_grow(p->pair, &p->cap, p->n + 1ull, sizeof *p->pair);
    p->pair = q ? q : p->pair;
    p->rc = !q || (p->n_slot < 2 * (p->n + 1) && !more_slots(p)) ? -ENOMEM : 0;
    if (p->rc)
        return NOWHERE;
    uint32_t h = slot_of(p, a, b);
    if (p->slot[h])
        return p->slot[h] - 1;
    if (p->n > STRINGS_MAX_STATES) {
        p->rc = -E2BIG;
        return NOWHERE;
    }
    p->pair[p->n][0] = a;
    p->pair[p->n][1] = b;
    p->slot[h] = ++p->n;
    return p->n - 1;
}

/* One edge of a, cut where b's edges begin and end. */
static int cut_edge(struct product *p, const struct strings_edge *e, uint32_t b, bool minus, struct strings *out)
{
    const struct strings_state *sb = b == NOWHERE ? NULL : &p->b->state[b];
    const struct strings_edge *eb = NULL, *end_b = NULL;
    uint32_t c = e->lo;
    if (sb && sb->n) {
        eb = p->b->edge + sb->edge;
        end_b = eb + sb->n;
    }
    while (c <= e->hi) {
        uint32_t to = NOWHERE, stop = e->hi;
        while (eb < end_b && eb->hi < c)
            eb++;
        if (eb < end_b && eb->lo <= c) {
            to = eb->to;
            stop = MIN(stop, eb->hi);
        } else if (eb < end_b) {
            stop = MIN(stop, eb->lo - 1);
        }
        if (minus || to != NOWHERE) {
            uint32_t next = number_of(p, e->to, to);
            int rc = next == NOWHERE ? p->rc : strings_add_edge(out, c, stop, next);
            if (rc)
                return rc;
        }
        c = stop + 1;
    }
    return 0;
}

static int product(const struct strings *a, const struct strings *b, bool minus, struct strings *out)
{
    struct product p = { .a = a, .b = b };
    int rc = 0;
    *out = (struct strings){ 0 };
    if (!a->n_states || (!minus && !b->n_states))
        return 0;
    if (number_of(&p, 0, b->n_states ? 0 : NOWHERE) == NOWHERE)
        rc = p.rc;
    for (uint32_t i = 0; i < p.n && !rc; i++) {
        uint32_t x = p.pair[i][0], y = p.pair[i][1];
        const struct strings_state *sa = &a->state[x];
        bool in_b = y != NOWHERE && b->state[y].final;
        rc = strings_add_state(out, sa->final && in_b == !minus);
        for (uint32_t k = 0; k < sa->n && !rc; k++)
            rc = cut_edge(&p, &a->edge[sa->edge + k], y, minus, out);
    }
    free(p.pair);
    free(p.slot);
    return end(out, rc ? rc : strings_trim(out));
}

int strings_both(const struct strings *a, const struct strings *b, struct strings *out)
{
    return product(a, b, false, out);
}

int strings_minus(const struct strings *a, const struct strings *b, struct strings *out)
{
    return product(a, b, true, out);
}

bool strings_has(const struct strings *a, const char *s)
{
    uint32_t at = 0;
    if (!a->n_states)
        return false;
    while (*s) {
        const struct strings_state *st = &a->state[at];
        uint32_t c = strings_next(&s), k = 0;
        while (k < st->n && a->edge[st->edge + k].hi < c)
            k++;
        if (k == st->n || a->edge[st->edge + k].lo > c)
            return false;
        at = a->edge[st->edge + k].to;
    }
    return a->state[at].final;
}
