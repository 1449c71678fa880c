/* Regular expressions (ECMA-262, without references and word boundaries; look-ahead only where a pattern begins) as sets
 * of strings: parsed to an automaton that may be in many states at once, which is then made deterministic. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"
#include "engine/grammar/json_schema_impl.h"

enum { MAX_RANGES = 512, MAX_NESTING = 40, MAX_NODES = 1 << 16, MAX_WORK = 1 << 20, PATTERN_STEPS = 500 };

struct ranges {
    uint32_t cp[2 * (MAX_RANGES + 2)], n;
};

/* An edge of the automaton; lo > hi: without a character. */
struct way {
    uint32_t lo, hi, to, next;
};

struct regex {
    const char *text, *at;
    uint32_t nesting;
    bool ahead; /* inside a look-ahead, which a ) ends */
    uint32_t *head; /* by node: its newest way + 1 */
    struct way *way;
    uint32_t n_nodes, n_ways, cap_nodes, cap_ways;
    uint64_t *work; /* steps that are left */
    int rc;
    char what[160];
};

__attribute__((format(printf, 3, 4))) static void fail(struct regex *r, int rc, const char *fmt, ...)
{
    va_list ap;
    if (r->rc)
        return;
    r->rc = rc;
    va_start(ap, fmt);
    vsnprintf(r->what, sizeof r->what, fmt, ap);
    va_end(ap);
}

static void spend(struct regex *r, uint64_t steps)
{
    if (steps > *r->work)
        fail(r, -E2BIG, "pattern: too large");
    *r->work -= MIN(steps, *r->work);
}

static void unsupported(struct regex *r, const char *what)
{
    fail(r, -ENOTSUP, "pattern: %s (at byte %zu) is not supported", what, (size_t)(r->at - r->text));
}

static void add_range(struct regex *r, struct ranges *set, uint32_t lo, uint32_t hi)
{
    if (set->n == MAX_RANGES) {
        fail(r, -E2BIG, "pattern: a class of more than %d ranges", MAX_RANGES);
        return;
    }
    set->cp[2 * set->n] = lo;
    set->cp[2 * set->n++ + 1] = hi;
}

static void invert(struct ranges *set)
{
    struct ranges in = *set;
    in.n = ranges_normalize(in.cp, in.n);
    set->n = ranges_invert(in.cp, in.n, set->cp);
}

/* ---- the automaton ------------------------------------------------------------------------------------- */

static uint32_t add_node(struct regex *r)
{
    uint32_t *q = r->rc ? NULL : grammar_grow(r->head, &r->cap_nodes, r->n_nodes + 1ull, sizeof *q);
    r->head = q ? q : r->head;
    if (!q || r->n_nodes == MAX_NODES) {
        fail(r, q ? -E2BIG : -ENOMEM, q ? "pattern: too large" : "out of memory");
        return 0;
    }
    r->head[r->n_nodes] = 0;
    return r->n_nodes++;
}

static void add_way(struct regex *r, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    struct way *q = r->rc ? NULL : grammar_grow(r->way, &r->cap_ways, r->n_ways + 1ull, sizeof *q);
    r->way = q ? q : r->way;
    if (!q || r->n_ways == 8 * MAX_NODES) {
        fail(r, q ? -E2BIG : -ENOMEM, q ? "pattern: too large" : "out of memory");
        return;
    }
    r->way[r->n_ways] = (struct way){ lo, hi, to, r->head[from] };
    r->head[from] = ++r->n_ways;
}

static void add_empty(struct regex *r, uint32_t from, uint32_t to)
{
    add_way(r, from, to, 1, 0);
}

/* From a node to itself by any character. */
static uint32_t add_anything(struct regex *r, uint32_t from)
{
    uint32_t loop = add_node(r);
    add_empty(r, from, loop);
    add_way(r, loop, loop, 1, 0x10ffff);
    return loop;
}

static void put_set(struct regex *r, struct ranges *set, uint32_t from, uint32_t to)
{
    set->n = ranges_normalize(set->cp, set->n);
    if (!set->n)
        fail(r, -EINVAL, "pattern: an empty class (at byte %zu)", (size_t)(r->at - r->text));
    for (uint32_t i = 0; i < set->n && !r->rc; i++)
        add_way(r, from, to, set->cp[2 * i], set->cp[2 * i + 1]);
}

/* ---- sets of characters -------------------------------------------------------------------------------- */

/* The ranges of \d \w \s and their opposites; false: another escape. */
static bool add_class(struct regex *r, char c, struct ranges *set)
{
    static const uint32_t digit[] = { '0', '9' }, word[] = { '0', '9', 'A', 'Z', '_', '_', 'a', 'z' },
                          space[] = { 9,      13,     0x20,   0x20,   0xa0,   0xa0,   0x1680, 0x1680, 0x2000, 0x200a,
                                      0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff };
    struct ranges in = { .n = 0 };
    const uint32_t *cp = strchr("dD", c) ? digit : strchr("wW", c) ? word : space;
    uint32_t n = cp == digit ? 1 : cp == word ? 4 : ARRAY_LEN(space) / 2;
    if (!c || !strchr("dDwWsS", c))
        return false;
    for (uint32_t i = 0; i < n; i++)
        add_range(r, &in, cp[2 * i], cp[2 * i + 1]);
    if (c < 'a')
        invert(&in);
    for (uint32_t i = 0; i < in.n; i++)
        add_range(r, set, in.cp[2 * i], in.cp[2 * i + 1]);
    return true;
}

static uint32_t take_hex(struct regex *r, int digits)
{
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const char *hex = "0123456789abcdef", *p = *r->at ? strchr(hex, *r->at | 32) : NULL;
        if (!p) {
            fail(r, -EINVAL, "pattern: expected %d hexadecimal digits at byte %zu", digits,
                        (size_t)(r->at - r->text));
            return 0;
        }
        cp = cp << 4 | (uint32_t)(p - hex);
    }
    return cp;
}

/* Behind a backslash: one character. */
static uint32_t take_escape(struct regex *r)
{
    char c = *r->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x': return take_hex(r, 2);
    case 'u': return take_hex(r, 4);
    }
    if (c > ' ' && c < 127 && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z'))
        return (uint32_t)c;
    char what[] = "the escape \\?";
    what[sizeof what - 2] = c > ' ' && c < 127 ? c : '?';
    r->at -= c == 0;
    unsupported(r, what);
    return 0;
}

/* jansson has checked that the text is UTF-8. */
static uint32_t take_utf8(struct regex *r)
{
    uint8_t c = (uint8_t)*r->at++;
    unsigned n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t cp = n ? c & (0x3fu >> n) : c;
    for (; n && *r->at; n--)
        cp = cp << 6 | (*r->at++ & 63);
    return cp;
}

/* One end of a range in brackets; *is_class: it was \d or the like, and has been added. */
static uint32_t take_member(struct regex *r, struct ranges *set, bool *is_class)
{
    *is_class = false;
    if (*r->at != '\\')
        return take_utf8(r);
    r->at++;
    if (*r->at == 'b')
        return r->at++, '\b';
    *is_class = add_class(r, *r->at, set);
    if (*is_class)
        return r->at++, 0;
    return take_escape(r);
}

static void parse_brackets(struct regex *r, uint32_t from, uint32_t to)
{
    struct ranges set = { .n = 0 };
    bool inverted = *++r->at == '^';
    r->at += inverted;
    while (*r->at != ']' && !r->rc) {
        bool is_class, hi_class = false;
        if (!*r->at) {
            fail(r, -EINVAL, "pattern: a class without its closing ]");
            return;
        }
        uint32_t lo = take_member(r, &set, &is_class), hi = lo;
        if (is_class)
            continue;
        if (*r->at == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            hi = take_member(r, &set, &hi_class);
            if (hi_class || hi < lo)
                fail(r, -EINVAL, "pattern: a range that ends before it begins, at byte %zu",
                            (size_t)(r->at - r->text));
        }
        add_range(r, &set, lo, hi);
    }
    r->at += *r->at == ']';
    if (inverted)
        invert(&set);
    put_set(r, &set, from, to);
}

/* ---- expressions: each adds what it reads behind the node `from` and returns the node where it ends ------ */

static uint32_t parse_alternatives(struct regex *r, uint32_t from);

static uint32_t parse_group(struct regex *r, uint32_t from)
{
    r->at++;
    if (*r->at == '?') {
        const char *name_end;
        if (r->at[1] == ':')
            r->at += 2;
        else if (r->at[1] == '<' && r->at[2] != '=' && r->at[2] != '!' && (name_end = strchr(r->at, '>')))
            r->at = name_end + 1;
        else {
            unsupported(r, "a look-around or an option (?...) here");
            return from;
        }
    }
    if (++r->nesting > MAX_NESTING) {
        fail(r, -E2BIG, "pattern: groups nest deeper than %d", MAX_NESTING);
        return from;
    }
    uint32_t to = parse_alternatives(r, from);
    r->nesting--;
    if (*r->at != ')')
        fail(r, -EINVAL, "pattern: a group without its closing )");
    else
        r->at++;
    return to;
}

static uint32_t parse_atom(struct regex *r, uint32_t from)
{
    struct ranges set = { .n = 0 };
    uint32_t to;
    switch (*r->at) {
    case '(': return parse_group(r, from);
    case '[':
        to = add_node(r);
        parse_brackets(r, from, to);
        return to;
    case '^':
    case '$': unsupported(r, "an anchor inside"); return from;
    case '*':
    case '+':
    case '?':
    case '{': fail(r, -EINVAL, "pattern: nothing to repeat at byte %zu", (size_t)(r->at - r->text)); return from;
    case '.':
        r->at++;
        add_range(r, &set, '\n', '\n');
        add_range(r, &set, '\r', '\r');
        add_range(r, &set, 0x2028, 0x2029);
        invert(&set);
        break;
    case '\\':
        r->at++;
        if (add_class(r, *r->at, &set)) {
            r->at++;
            break;
        }
        add_range(r, &set, 0, 0);
        set.cp[0] = set.cp[1] = take_escape(r);
        break;
    default: add_range(r, &set, 0, 0); set.cp[0] = set.cp[1] = take_utf8(r);
    }
    to = add_node(r);
    if (!r->rc)
        put_set(r, &set, from, to);
    return to;
}

/* How often what was just read comes; once where nothing is said. max UINT32_MAX: any number of times. */
static void parse_quantifier(struct regex *r, uint32_t *min, uint32_t *max)
{
    char *end, c = *r->at;
    *min = *max = 1;
    if (c == '*' || c == '+' || c == '?') {
        *min = c == '+';
        *max = c == '?' ? 1 : UINT32_MAX;
        r->at++;
    } else if (c == '{') {
        unsigned long lo = strtoul(r->at + 1, &end, 10), hi = lo;
        bool ok = end > r->at + 1 && r->at[1] >= '0' && r->at[1] <= '9', open = ok && end[0] == ',' && end[1] == '}';
        if (open)
            end++;
        else if (ok && *end == ',') {
            const char *from = end + 1;
            ok = *from >= '0' && *from <= '9';
            hi = strtoul(from, &end, 10);
        }
        if (!ok || *end != '}' || hi < lo || hi > GRAMMAR_MAX_REPEAT) {
            unsupported(r, "this use of {");
            return;
        }
        *min = (uint32_t)lo;
        *max = open ? UINT32_MAX : (uint32_t)hi;
        r->at = end + 1;
    } else
        return;
    r->at += *r->at == '?'; /* lazy or not: the same texts */
}

/* An atom as often as it may come: it is read again for each time. */
static uint32_t parse_repeated(struct regex *r, uint32_t from)
{
    const char *atom = r->at, *after;
    uint32_t n_nodes = r->n_nodes, n_ways = r->n_ways, head = r->head[from], min, max;
    uint32_t at = parse_atom(r, from);
    parse_quantifier(r, &min, &max);
    after = r->at;
    if ((min == 1 && max == 1) || r->rc)
        return at;
    r->n_nodes = n_nodes;
    r->n_ways = n_ways;
    r->head[from] = head;
    at = from;
    for (uint32_t i = 0; i < min && !r->rc; i++) {
        r->at = atom;
        at = parse_atom(r, at);
    }
    uint32_t end = add_node(r);
    add_empty(r, at, end);
    if (max == UINT32_MAX) {
        r->at = atom;
        add_empty(r, parse_atom(r, end), end);
    }
    for (uint32_t i = min; i < max && max != UINT32_MAX && !r->rc; i++) {
        r->at = atom;
        at = parse_atom(r, at);
        add_empty(r, at, end);
    }
    r->at = after;
    return end;
}

static uint32_t parse_alternatives(struct regex *r, uint32_t from)
{
    uint32_t end = add_node(r);
    for (;; r->at++) {
        uint32_t at = add_node(r);
        add_empty(r, from, at);
        while (*r->at && *r->at != '|' && *r->at != ')' && !r->rc) {
            if (*r->at == '$' && r->nesting == 0 && (!r->at[1] || r->at[1] == '|' || (r->ahead && r->at[1] == ')')))
                break;
            at = parse_repeated(r, at);
        }
        add_empty(r, at, end);
        if (r->nesting == 0 || *r->at != '|' || r->rc)
            return end;
    }
}

/* Each alternative at the top has anchors of its own; where there is none, anything may come before or behind. */
static uint32_t parse_whole(struct regex *r, uint32_t from)
{
    uint32_t end = add_node(r);
    for (;;) {
        uint32_t at = add_node(r);
        add_empty(r, from, at);
        if (*r->at == '^')
            r->at++;
        else
            at = add_anything(r, at);
        at = parse_alternatives(r, at);
        if (*r->at == '$')
            r->at++;
        else
            at = add_anything(r, at);
        add_empty(r, at, end);
        if (*r->at != '|' || r->rc)
            break;
        r->at++;
    }
    if (*r->at)
        fail(r, -EINVAL, "pattern: unexpected %c at byte %zu", *r->at, (size_t)(r->at - r->text));
    return end;
}

/* ---- one state at a time ------------------------------------------------------------------------------- */

/* Sets of nodes, each a state of the deterministic automaton: node[at[i]] .. node[at[i + 1]), ascending. */
struct subsets {
    uint32_t *node, n, cap;
    uint32_t *at, n_sets, cap_at;
    uint32_t *slot, n_slot;
    uint32_t *mark, now, *todo; /* of a closure */
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void reach(struct subsets *u, uint32_t node, uint32_t *n)
{
    if (u->mark[node] == u->now)
        return;
    u->mark[node] = u->now;
    u->todo[(*n)++] = node;
}

/* Room for one more set. Slots hold a set's number + 1 and its hash. */
static bool more_sets(struct regex *r, struct subsets *u)
{
    uint32_t *at = grammar_grow(u->at, &u->cap_at, u->n_sets + 2ull, sizeof *at), *slot;
    if (at && !u->at)
        at[0] = 0;
    u->at = at ? at : u->at;
    if (at && u->n_slot >= 2 * (u->n_sets + 1))
        return true;
    uint32_t n_slot = u->n_slot ? 4 * u->n_slot : 64;
    slot = at ? calloc(n_slot, 2 * sizeof *slot) : NULL;
    if (!slot) {
        fail(r, -ENOMEM, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < u->n_slot; i++) {
        uint32_t k = u->slot[2 * i + 1] & (n_slot - 1);
        if (!u->slot[2 * i])
            continue;
        while (slot[2 * k])
            k = (k + 1) & (n_slot - 1);
        memcpy(slot + 2 * k, u->slot + 2 * i, 2 * sizeof *slot);
    }
    free(u->slot);
    u->slot = slot;
    u->n_slot = n_slot;
    return true;
}

/* The number of the set of what n nodes in todo reach without a character. */
static uint32_t set_of(struct regex *r, struct subsets *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t w = r->head[u->todo[i]]; w; w = r->way[w - 1].next)
            if (r->way[w - 1].lo > r->way[w - 1].hi)
                reach(u, r->way[w - 1].to, &n);
    spend(r, 4ull * n);
    if (r->rc)
        return 0;
    qsort(u->todo, n, sizeof *u->todo, compare_numbers);
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ u->todo[i]) * 0x9e3779b97f4a7c15u;
    if (!more_sets(r, u))
        return 0;
    uint32_t k = (uint32_t)(h >> 32) & (u->n_slot - 1);
    for (; u->slot[2 * k]; k = (k + 1) & (u->n_slot - 1)) {
        uint32_t i = u->slot[2 * k] - 1, from = u->at[i];
        if (u->slot[2 * k + 1] == (uint32_t)(h >> 32) && u->at[i + 1] - from == n &&
            !memcmp(u->node + from, u->todo, n * sizeof *u->todo))
            return i;
    }
    uint32_t *q = grammar_grow(u->node, &u->cap, (uint64_t)u->n + n + 1, sizeof *q);
    u->node = q ? q : u->node;
    if (!q || u->n + n > MAX_WORK || u->n_sets == STRINGS_MAX_STATES) {
        fail(r, q ? -E2BIG : -ENOMEM, q ? "pattern: too large" : "out of memory");
        return 0;
    }
    if (n)
        memcpy(u->node + u->n, u->todo, n * sizeof *u->todo);
    u->n += n;
    u->slot[2 * k] = ++u->n_sets;
    u->slot[2 * k + 1] = (uint32_t)(h >> 32);
    u->at[u->n_sets] = u->n;
    return u->n_sets - 1;
}

/* Where the ways of a set begin and end: the places at which it may lead elsewhere. */
static uint32_t cuts_of(struct regex *r, const struct subsets *u, uint32_t i, uint32_t **cut, uint32_t *cap)
{
    uint32_t n = 0;
    for (uint32_t k = u->at[i]; k < u->at[i + 1]; k++)
        for (uint32_t w = r->head[u->node[k]]; w; w = r->way[w - 1].next) {
            const struct way *y = &r->way[w - 1];
            uint32_t *q = grammar_grow(*cut, cap, n + 2ull, sizeof *q);
            if (!q) {
                fail(r, -ENOMEM, "out of memory");
                return 0;
            }
            *cut = q;
            bool seen = y->lo > y->hi;
            for (uint32_t back = 2; back <= MIN(n, 16u) && !seen; back += 2) /* classes repeat */
                seen = q[n - back] == y->lo && q[n - back + 1] == y->hi + 1;
            if (!seen) {
                q[n++] = y->lo;
                q[n++] = y->hi + 1;
            }
        }
    qsort(*cut ? *cut : &n, *cut ? n : 0, sizeof **cut, compare_numbers);
    return n;
}

static void put_state(struct regex *r, struct subsets *u, uint32_t i, uint32_t final, uint32_t **cut, uint32_t *cap,
                      struct strings *out)
{
    bool ends = false;
    for (uint32_t k = u->at[i]; k < u->at[i + 1]; k++)
        ends |= u->node[k] == final;
    uint32_t n_cuts = cuts_of(r, u, i, cut, cap);
    int rc = strings_add_state(out, ends);
    for (uint32_t c = 0; c + 1 < n_cuts && !rc && !r->rc; c++) {
        uint32_t lo = (*cut)[c], hi = (*cut)[c + 1] - 1, n = 0;
        if (hi + 1 == lo)
            continue;
        u->now++;
        for (uint32_t k = u->at[i]; k < u->at[i + 1]; k++)
            for (uint32_t w = r->head[u->node[k]]; w; w = r->way[w - 1].next)
                if (r->way[w - 1].lo <= lo && lo <= r->way[w - 1].hi)
                    reach(u, r->way[w - 1].to, &n);
        spend(r, 2ull * (u->at[i + 1] - u->at[i]));
        if (n)
            rc = strings_add_edge(out, lo, hi, set_of(r, u, n));
    }
    if (rc)
        fail(r, rc, rc == -E2BIG ? "pattern: too large" : "out of memory");
}

static void determine(struct regex *r, uint32_t start, uint32_t final, struct strings *out)
{
    struct subsets *u = r->rc ? NULL : calloc(1, sizeof *u);
    uint32_t *cut = NULL, cap = 0, n = 0;
    *out = (struct strings){ 0 };
    if (u) {
        u->mark = calloc(r->n_nodes, sizeof *u->mark);
        u->todo = calloc(r->n_nodes, sizeof *u->todo);
        u->now = 1;
    }
    if (!u || !u->mark || !u->todo)
        fail(r, -ENOMEM, "out of memory");
    if (!r->rc) {
        reach(u, start, &n);
        set_of(r, u, n);
    }
    for (uint32_t i = 0; !r->rc && i < u->n_sets; i++)
        put_state(r, u, i, final, &cut, &cap, out);
    if (!r->rc && strings_trim(out))
        fail(r, -ENOMEM, "out of memory");
    if (r->rc)
        strings_finish(out);
    if (u) {
        free(u->node);
        free(u->at);
        free(u->slot);
        free(u->mark);
        free(u->todo);
    }
    free(u);
    free(cut);
}

/* ---- patterns ------------------------------------------------------------------------------------------ */

static void forget(struct regex *r)
{
    free(r->head);
    free(r->way);
    r->head = NULL;
    r->way = NULL;
    r->n_nodes = r->n_ways = r->cap_nodes = r->cap_ways = 0;
}

/* (?=..) or (?!..) where the pattern begins: what the string must begin with, or must not. */
static void parse_ahead(struct regex *r, struct strings *out)
{
    uint32_t start = add_node(r), end = add_node(r), to;
    r->ahead = true;
    r->at += 2;
    do {
        r->at++;
        to = add_node(r);
        add_empty(r, start, to);
        r->at += *r->at == '^'; /* it stands where the string begins in any case */
        to = parse_alternatives(r, to);
        if (*r->at == '$')
            r->at++;
        else
            to = add_anything(r, to);
        add_empty(r, to, end);
    } while (*r->at == '|' && !r->rc);
    r->ahead = false;
    if (*r->at != ')')
        fail(r, -EINVAL, "pattern: a group without its closing )");
    else
        r->at++;
    determine(r, start, end, out);
    forget(r);
}

/* Is there a | outside groups and classes? */
static bool has_alternatives(const char *s)
{
    int depth = 0;
    for (; *s; s++) {
        if (*s == '\\' && s[1])
            s++;
        else if (*s == '[') {
            for (s++; *s && *s != ']'; s++)
                s += *s == '\\' && s[1];
            s -= !*s;
        } else if (*s == '(' || *s == ')')
            depth += *s == '(' ? 1 : -1;
        else if (*s == '|' && depth == 0)
            return true;
    }
    return false;
}

int schema_pattern(const char *regex, uint64_t *work, struct strings *out, char what[160])
{
    struct regex r = { .text = regex, .at = regex, .work = work };
    struct strings ahead[8], set;
    bool no[ARRAY_LEN(ahead)];
    uint32_t n = 0;
    *out = (struct strings){ 0 };
    spend(&r, PATTERN_STEPS);
    if (!strncmp(regex, "^(?", 3) && strchr("=!", regex[3]) && regex[3] && !has_alternatives(regex)) {
        for (r.at++; !r.rc && !strncmp(r.at, "(?", 2) && r.at[2] && strchr("=!", r.at[2]); n++) {
            if (n == ARRAY_LEN(ahead)) {
                unsupported(&r, "one more look-ahead");
                break;
            }
            no[n] = r.at[2] == '!';
            parse_ahead(&r, &ahead[n]);
        }
        r.at--; /* in the place of the anchor */
    }
    if (!r.rc) {
        uint32_t start = add_node(&r);
        bool anchored = n > 0;
        r.at += anchored;
        uint32_t end = 0;
        if (anchored) {
            end = parse_alternatives(&r, start);
            if (*r.at == '$')
                r.at++;
            else if (!r.rc)
                end = add_anything(&r, end);
            if (*r.at)
                fail(&r, -EINVAL, "pattern: unexpected %c at byte %zu", *r.at, (size_t)(r.at - regex));
        } else {
            end = parse_whole(&r, start);
        }
        determine(&r, start, end, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        int rc = r.rc ? 0 : no[i] ? strings_minus(out, &ahead[i], &set) : strings_both(out, &ahead[i], &set);
        if (!r.rc) {
            strings_finish(out);
            *out = set;
        }
        if (rc)
            fail(&r, rc, rc == -E2BIG ? "pattern: too large" : "out of memory");
        strings_finish(&ahead[i]);
    }
    if (!r.rc && !out->n_states)
        fail(&r, -EINVAL, "pattern: no string matches");
    if (r.rc)
        strings_finish(out);
    forget(&r);
    snprintf(what, 160, "%s", r.what);
    return r.rc;
}
