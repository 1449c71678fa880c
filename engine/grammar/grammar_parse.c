/* GBNF text to a tree. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"

struct parser {
    const struct vocab_index *v;
    struct grammar_ast *a;
    const char *s;
    size_t n, at;
    uint32_t nesting;
    struct err *e;
    int rc;
};

/* ---- small things -------------------------------------------------------------------------------------- */

void *grammar_grow(void *p, uint32_t *cap, uint64_t n, size_t size)
{
    if (p && n <= *cap)
        return p;
    uint64_t want = MAX(n, MAX(16, *cap * 2ull));
    void *q = want < UINT32_MAX ? realloc(p, want * size) : NULL;
    if (q)
        *cap = (uint32_t)want;
    return q;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80)
        return out[0] = (char)cp, 1;
    if (cp < 0x800)
        return out[0] = (char)(0xc0 | cp >> 6), out[1] = (char)(0x80 | (cp & 63)), 2;
    if (cp < 0x10000)
        return out[0] = (char)(0xe0 | cp >> 12), out[1] = (char)(0x80 | (cp >> 6 & 63)),
               out[2] = (char)(0x80 | (cp & 63)), 3;
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

static int compare_ranges(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

uint32_t ranges_normalize(uint32_t *cp, uint32_t n)
{
    uint32_t m = 0;
    qsort(cp, n, 2 * sizeof *cp, compare_ranges);
    for (uint32_t i = 0; i < n; i++) {
        if (m && cp[2 * i] <= cp[2 * m - 1] + 1)
            cp[2 * m - 1] = MAX(cp[2 * m - 1], cp[2 * i + 1]);
        else {
            memmove(cp + 2 * m, cp + 2 * i, 2 * sizeof *cp);
            m++;
        }
    }
    return m;
}

uint32_t ranges_invert(const uint32_t *cp, uint32_t n, uint32_t *out)
{
    uint32_t from = 0, m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (cp[2 * i] > from)
            out[2 * m] = from, out[2 * m++ + 1] = cp[2 * i] - 1;
        from = cp[2 * i + 1] + 1;
    }
    if (from <= 0x10ffff)
        out[2 * m] = from, out[2 * m++ + 1] = 0x10ffff;
    return m;
}

const char *grammar_where(const struct grammar_ast *a, size_t at, char buf[48])
{
    size_t line = 1, begin = 0;
    for (size_t i = 0; i < at && i < a->n_text; i++)
        if (a->text[i] == '\n')
            line++, begin = i + 1;
    snprintf(buf, 48, "line %zu, column %zu", line, at - begin + 1);
    return buf;
}

void grammar_ast_finish(struct grammar_ast *a)
{
    free(a->node);
    free(a->cp);
    free(a->rule);
    free(a->name_slot);
    *a = (struct grammar_ast){ 0 };
}

/* The first failure counts. */
__attribute__((format(printf, 4, 5))) static void fail(struct parser *p, int rc, size_t at, const char *fmt, ...)
{
    char what[256], where[48];
    va_list ap;
    if (p->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    p->rc = err_set(p->e, rc, "grammar: %s: %s", grammar_where(p->a, at, where), what);
}

static uint32_t add_node(struct parser *p, struct grammar_node n)
{
    struct grammar_ast *a = p->a;
    struct grammar_node *q = grammar_grow(a->node, &a->cap_node, a->n_node + 1ull, sizeof *q);
    if (!q) {
        fail(p, -ENOMEM, p->at, "out of memory");
        return 0;
    }
    a->node = q;
    n.next = GRAMMAR_NONE;
    a->node[a->n_node] = n;
    return a->n_node++;
}

static void add_cp(struct parser *p, uint32_t cp)
{
    struct grammar_ast *a = p->a;
    uint32_t *q = grammar_grow(a->cp, &a->cap_cp, a->n_cp + 1ull, sizeof *q);
    if (!q) {
        fail(p, -ENOMEM, p->at, "out of memory");
        return;
    }
    a->cp = q;
    a->cp[a->n_cp++] = cp;
}

/* ---- rules by name ------------------------------------------------------------------------------------- */

static uint32_t *name_slot(struct grammar_ast *a, const char *s, size_t n)
{
    uint32_t i = (uint32_t)XXH3_64bits(s, n) & (a->n_slot - 1);
    for (; a->name_slot[i]; i = (i + 1) & (a->n_slot - 1)) {
        const struct grammar_rule *r = &a->rule[a->name_slot[i] - 1];
        if (r->n_name == n && !memcmp(a->text + r->name, s, n))
            break;
    }
    return &a->name_slot[i];
}

static uint32_t find_rule(struct parser *p, size_t at, size_t n)
{
    struct grammar_ast *a = p->a;
    uint32_t *slot = name_slot(a, p->s + at, n);
    if (*slot)
        return *slot - 1;
    struct grammar_rule *q = grammar_grow(a->rule, &a->cap_rule, a->n_rule + 1ull, sizeof *q);
    if (!q || a->n_rule == GRAMMAR_MAX_RULES) {
        a->rule = q ? q : a->rule;
        fail(p, q ? -E2BIG : -ENOMEM, at, q ? "more than %d rules" : "out of memory", GRAMMAR_MAX_RULES);
        return 0;
    }
    a->rule = q;
    a->rule[a->n_rule] = (struct grammar_rule){ (uint32_t)at, (uint32_t)n, GRAMMAR_NONE };
    *slot = ++a->n_rule;
    return a->n_rule - 1;
}

/* ---- characters ---------------------------------------------------------------------------------------- */

static int peek(const struct parser *p)
{
    return p->at < p->n ? (unsigned char)p->s[p->at] : -1;
}

static bool take(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if (p->n - p->at < n || memcmp(p->s + p->at, word, n))
        return false;
    p->at += n;
    return true;
}

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t take_name(struct parser *p)
{
    size_t from = p->at;
    while (is_name(peek(p)))
        p->at++;
    return p->at - from;
}

/* White space and comments; line ends only where they are asked for. */
static void skip_space(struct parser *p, bool lines)
{
    for (int c; (c = peek(p)) >= 0; p->at++) {
        if (c == '#') {
            while (p->at + 1 < p->n && p->s[p->at + 1] != '\n' && p->s[p->at + 1] != '\r')
                p->at++;
        } else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
            return;
    }
}

static uint32_t take_utf8(struct parser *p)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t at = p->at;
    uint8_t c = (uint8_t)p->s[at];
    unsigned n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    uint32_t cp = n <= 1 ? c : c & (0x7fu >> n);
    p->at++;
    for (unsigned i = 1; i < n && p->at < p->n && (p->s[p->at] & 0xc0) == 0x80; i++)
        cp = cp << 6 | (p->s[p->at++] & 63);
    if (n == 0 || p->at - at != n || cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        fail(p, -EINVAL, at, "not UTF-8");
    return cp;
}

static uint32_t take_hex(struct parser *p, int digits)
{
    size_t at = p->at;
    uint32_t cp = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        int c = peek(p), d = c >= '0' && c <= '9'                 ? c - '0'
                             : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                  : -1;
        if (d < 0) {
            fail(p, -EINVAL, p->at, "expected %d hexadecimal digits", digits);
            return 0;
        }
        cp = cp << 4 | (uint32_t)d;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        fail(p, -EINVAL, at, "U+%04X is no character", cp);
    return cp;
}

static uint32_t take_char(struct parser *p)
{
    if (peek(p) != '\\')
        return take_utf8(p);
    p->at++;
    int c = peek(p);
    p->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'x': return take_hex(p, 2);
    case 'u': return take_hex(p, 4);
    case 'U': return take_hex(p, 8);
    }
    if (c > ' ' && c < 127 && !is_name(c))
        return (uint32_t)c; /* \" \[ \] \\ and other punctuation */
    if (c == '-')
        return '-';
    fail(p, -EINVAL, p->at - 2, "unknown escape; \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH are known");
    return 0;
}

/* ---- elements ------------------------------------------------------------------------------------------ */

static uint32_t parse_alternatives(struct parser *p);

static uint32_t parse_literal(struct parser *p, enum node_kind kind)
{
    size_t at = p->at++;
    uint32_t from = p->a->n_cp;
    while (!p->rc && peek(p) != '"') {
        if (peek(p) < 0)
            fail(p, -EINVAL, at, "a literal without its closing \"");
        else
            add_cp(p, take_char(p));
    }
    p->at++;
    return add_node(p, (struct grammar_node){ .kind = kind, .a = from, .b = p->a->n_cp - from });
}

static uint32_t parse_until(struct parser *p)
{
    size_t at = p->at;
    skip_space(p, false);
    if (peek(p) != '"') {
        fail(p, -EINVAL, at, "%%until: expected a literal");
        return 0;
    }
    uint32_t n = parse_literal(p, NODE_UNTIL);
    if (!p->rc && p->a->node[n].b == 0)
        fail(p, -EINVAL, at, "%%until: the text is empty");
    if (!p->rc && p->a->node[n].b > GRAMMAR_MAX_UNTIL)
        fail(p, -E2BIG, at, "%%until: more than %d characters", GRAMMAR_MAX_UNTIL);
    return n;
}

static uint32_t add_class(struct parser *p, uint32_t from, bool invert)
{
    struct grammar_ast *a = p->a;
    uint32_t n = p->rc ? 0 : ranges_normalize(a->cp + from, (a->n_cp - from) / 2);
    a->n_cp = p->rc ? a->n_cp : from + 2 * n;
    if (invert) {
        uint32_t at = a->n_cp;
        for (uint32_t i = 0; i < 2 * n + 2; i++)
            add_cp(p, 0);
        if (p->rc)
            return 0;
        n = ranges_invert(a->cp + from, n, a->cp + at);
        memmove(a->cp + from, a->cp + at, 2 * n * sizeof *a->cp);
        a->n_cp = from + 2 * n;
    }
    return add_node(p, (struct grammar_node){ .kind = NODE_CLASS, .a = from, .b = n });
}

static uint32_t parse_class(struct parser *p)
{
    size_t at = p->at++;
    uint32_t from = p->a->n_cp;
    bool invert = take(p, "^");
    while (!p->rc && peek(p) != ']') {
        if (peek(p) < 0) {
            fail(p, -EINVAL, at, "a class without its closing ]");
            break;
        }
        uint32_t lo = take_char(p), hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            hi = take_char(p);
        }
        if (hi < lo)
            fail(p, -EINVAL, at, "a range that ends before it begins");
        add_cp(p, lo);
        add_cp(p, hi);
    }
    p->at++;
    if (!p->rc && from == p->a->n_cp)
        fail(p, -EINVAL, at, "an empty class");
    return add_class(p, from, invert);
}

/* <name>, <[id]>, behind an optional !. */
static uint32_t parse_token(struct parser *p)
{
    size_t at = p->at;
    bool invert = take(p, "!");
    if (peek(p) != '<') {
        fail(p, -EINVAL, at, "expected <token> after !");
        return 0;
    }
    const char *name = p->s + p->at, *end = memchr(name, '>', MIN(p->n - p->at, VOCAB_MAX_TOKEN + 2));
    if (!end) {
        fail(p, -EINVAL, at, "a token without its closing >");
        return 0;
    }
    int n = (int)(end + 1 - name);
    int64_t id = -1;
    if (n > 3 && name[1] == '[' && name[n - 2] == ']') {
        id = 0;
        for (int i = 2; i < n - 2 && id >= 0; i++)
            id = name[i] >= '0' && name[i] <= '9' && id < p->v->n_vocab ? id * 10 + name[i] - '0' : -1;
        if (n == 4 || id >= p->v->n_vocab || (id >= 0 && p->v->kind[id] == VOCAB_UNUSED))
            id = -1;
    } else
        id = vocab_index_find(p->v, name, (size_t)n);
    if (id < 0)
        fail(p, -EINVAL, at, "the vocabulary has no token %.*s", MIN(n, 64), name);
    p->at += (size_t)n;
    return add_node(p, (struct grammar_node){ .kind = invert ? NODE_NOT_TOKEN : NODE_TOKEN, .a = (uint32_t)id });
}

static uint32_t parse_group(struct parser *p)
{
    size_t at = p->at++;
    if (++p->nesting > GRAMMAR_MAX_NESTING) {
        fail(p, -E2BIG, at, "groups nest deeper than %d", GRAMMAR_MAX_NESTING);
        return 0;
    }
    uint32_t n = parse_alternatives(p);
    if (peek(p) != ')')
        fail(p, -EINVAL, at, "a group without its closing )");
    p->at++;
    p->nesting--;
    return n;
}

/* GRAMMAR_NONE: what comes is no element. */
static uint32_t parse_element(struct parser *p)
{
    int c = peek(p);
    if (c == '"')
        return parse_literal(p, NODE_LITERAL);
    if (c == '[')
        return parse_class(p);
    if (c == '(')
        return parse_group(p);
    if (c == '<' || c == '!')
        return parse_token(p);
    if (take(p, "%until"))
        return parse_until(p);
    if (take(p, ".")) {
        uint32_t from = p->a->n_cp;
        add_cp(p, 0);
        add_cp(p, 0x10ffff);
        return add_class(p, from, false);
    }
    if (!is_name(c))
        return GRAMMAR_NONE;
    size_t at = p->at, n = take_name(p), after = p->at;
    skip_space(p, false);
    if (p->n - p->at >= 3 && !memcmp(p->s + p->at, "::=", 3)) { /* the next rule, where lines do not end rules */
        p->at = at;
        return GRAMMAR_NONE;
    }
    p->at = after;
    return add_node(p, (struct grammar_node){ .kind = NODE_RULE, .a = find_rule(p, at, n) });
}

static uint32_t take_count(struct parser *p)
{
    size_t at = p->at;
    uint32_t n = 0;
    for (int c; (c = peek(p)) >= '0' && c <= '9'; p->at++) {
        n = n * 10 + (uint32_t)(c - '0');
        if (n > GRAMMAR_MAX_REPEAT) {
            fail(p, -E2BIG, at, "more than %d repetitions", GRAMMAR_MAX_REPEAT);
            return 0;
        }
    }
    if (p->at == at)
        fail(p, -EINVAL, at, "expected a number of repetitions");
    skip_space(p, true);
    return n;
}

static uint32_t parse_repetition(struct parser *p, uint32_t child)
{
    struct grammar_node n = { .kind = NODE_REPEAT, .a = child, .min = 0, .max = GRAMMAR_NONE };
    size_t at = p->at;
    if (take(p, "?"))
        n.max = 1;
    else if (take(p, "+"))
        n.min = 1;
    else if (take(p, "{")) {
        skip_space(p, true);
        n.min = n.max = peek(p) == ',' ? 0 : take_count(p);
        if (take(p, ",")) {
            skip_space(p, true);
            n.max = peek(p) == '}' ? GRAMMAR_NONE : take_count(p);
        }
        if (!take(p, "}"))
            fail(p, -EINVAL, at, "repetitions without their closing }");
        if (n.max < n.min)
            fail(p, -EINVAL, at, "{%u,%u}: the most is less than the least", n.min, n.max);
    } else if (!take(p, "*"))
        return child;
    return add_node(p, n);
}

/* ---- rules --------------------------------------------------------------------------------------------- */

static void append(struct parser *p, uint32_t list, uint32_t *last, uint32_t child)
{
    if (p->rc)
        return;
    if (*last == GRAMMAR_NONE)
        p->a->node[list].a = child;
    else
        p->a->node[*last].next = child;
    *last = child;
}

static uint32_t parse_sequence(struct parser *p)
{
    uint32_t seq = add_node(p, (struct grammar_node){ .kind = NODE_SEQ, .a = GRAMMAR_NONE }), last = GRAMMAR_NONE;
    while (!p->rc) {
        uint32_t el = parse_element(p);
        if (el == GRAMMAR_NONE || p->rc)
            break;
        for (uint32_t n = 0;; n++) { /* repetitions follow at once or behind spaces */
            skip_space(p, p->nesting > 0);
            uint32_t rep = parse_repetition(p, el);
            if (rep == el || p->rc)
                break;
            if (n == 8)
                fail(p, -E2BIG, p->at, "repetitions of repetitions nest deeper than 8");
            el = rep;
        }
        append(p, seq, &last, el);
    }
    return seq;
}

/* A | may stand at the beginning of the next line. */
static bool take_bar(struct parser *p)
{
    size_t at = p->at;
    skip_space(p, true);
    if (take(p, "|"))
        return true;
    if (p->nesting == 0) /* what ended the sequence ends the rule */
        p->at = at;
    return false;
}

static uint32_t parse_alternatives(struct parser *p)
{
    uint32_t alt = add_node(p, (struct grammar_node){ .kind = NODE_ALT, .a = GRAMMAR_NONE }), last = GRAMMAR_NONE;
    do {
        skip_space(p, true);
        append(p, alt, &last, parse_sequence(p));
    } while (!p->rc && take_bar(p));
    return alt;
}

static void parse_rule(struct parser *p)
{
    size_t at = p->at, n = take_name(p);
    if (n == 0) {
        fail(p, -EINVAL, at, "expected the name of a rule");
        return;
    }
    uint32_t rule = find_rule(p, at, n);
    skip_space(p, false);
    if (!take(p, "::="))
        fail(p, -EINVAL, p->at, "expected ::= after the name %.*s", (int)MIN(n, 64), p->s + at);
    if (!p->rc && p->a->rule[rule].body != GRAMMAR_NONE)
        fail(p, -EINVAL, at, "the rule %.*s is there twice", (int)MIN(n, 64), p->s + at);
    if (p->rc)
        return;
    uint32_t body = parse_alternatives(p);
    if (!p->rc)
        p->a->rule[rule].body = body;
    int c = peek(p);
    if (c >= 0 && c != '\n' && c != '\r')
        fail(p, -EINVAL, p->at, "unexpected '%.*s'", c < 0x80 ? 1 : 0, p->s + p->at);
    skip_space(p, true);
}

static uint32_t find_root(struct parser *p)
{
    uint32_t *slot = name_slot(p->a, "root", 4);
    if (!*slot || p->a->rule[*slot - 1].body == GRAMMAR_NONE) {
        p->rc = err_set(p->e, -EINVAL, "grammar: the rule root is missing");
        return 0;
    }
    return *slot - 1;
}

int grammar_parse(const struct vocab_index *v, const char *text, size_t n, struct grammar_ast *out, struct err *e)
{
    struct grammar_ast *a = out;
    struct parser p = { .v = v, .a = a, .s = text, .n = n, .e = e };
    *a = (struct grammar_ast){ .text = text, .n_text = n, .n_slot = 4 * GRAMMAR_MAX_RULES };
    if (n > 16 << 20)
        return err_set(e, -E2BIG, "grammar: %zu bytes of text, more than 16 MiB", n);
    while (a->n_slot > 64 && a->n_slot > n) /* a rule takes at least 5 bytes, its use 2 */
        a->n_slot /= 2;
    a->name_slot = calloc(a->n_slot, sizeof *a->name_slot);
    if (!a->name_slot)
        return err_set(e, -ENOMEM, "grammar: out of memory");
    add_cp(&p, 0); /* so that the array is there */
    skip_space(&p, true);
    while (!p.rc && p.at < p.n)
        parse_rule(&p);
    if (!p.rc)
        a->root = find_root(&p);
    for (uint32_t i = 0; i < a->n_rule && !p.rc; i++)
        if (a->rule[i].body == GRAMMAR_NONE)
            fail(&p, -EINVAL, a->rule[i].name, "the rule %.*s is missing", (int)MIN(a->rule[i].n_name, 64),
                 text + a->rule[i].name);
    if (p.rc)
        grammar_ast_finish(a);
    return p.rc;
}
