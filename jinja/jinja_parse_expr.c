/* Expressions: the precedences of Jinja 3.1's parser, loosest first: if/else, or, and, not, comparisons, + -, ~, *
 * / // %, **, unary + -, then . [] () and filters and tests. */
#include "jinja/jinja_impl.h"

static struct jnode *parse_or(struct jparser *p);
static struct jnode *parse_unary(struct jparser *p, bool filters);
static struct jnode *parse_primary(struct jparser *p);
static struct jnode *parse_postfix(struct jparser *p, struct jnode *n);

static struct jnode *node2(struct jparser *p, enum jnode_kind kind, struct jnode *a, struct jnode *b)
{
    struct jnode *n = jnode_new(p, kind);
    n->a = a;
    n->b = b;
    return n;
}

static struct jnode *binary(struct jparser *p, enum jop op, struct jnode *a, struct jnode *b)
{
    struct jnode *n = node2(p, JN_BINARY, a, b);
    n->op = (uint8_t)op;
    return n;
}

/* a if b else c: a the value, b the condition, c the other value or NULL */
struct jnode *jparse_expr(struct jparser *p)
{
    jinja_enter(p->c);
    struct jnode *n = parse_or(p);
    while (jparse_skip_name(p, "if")) {
        struct jnode *cond = parse_or(p);
        n = node2(p, JN_COND, n, cond);
        n->c = jparse_skip_name(p, "else") ? jparse_expr(p) : NULL;
    }
    p->c->depth--;
    return n;
}

static struct jnode *parse_math1(struct jparser *p);

static struct jnode *parse_compare(struct jparser *p)
{
    struct jnode *first = parse_math1(p), *n = NULL, **end = NULL;
    for (;;) {
        const struct jtoken *t = p->at;
        enum jop op = 0;
        if (t->kind == JT_OP && t->op >= JO_EQ && t->op <= JO_LT) {
            op = (enum jop)t->op;
            p->at++;
        } else if (jparse_skip_name(p, "in")) {
            op = JO_IN;
        } else if (jparse_is_name(p, "not") && t[1].kind == JT_NAME && t[1].n == 2 && memcmp(t[1].s, "in", 2) == 0) {
            op = JO_NOT_IN;
            p->at += 2;
        }
        if (!op)
            return n ? n : first;
        if (!n) { /* a the first, b the chain of the others, each in an argument with its operator */
            n = node2(p, JN_COMPARE, first, NULL);
            end = &n->b;
        }
        *end = node2(p, JN_ARG, parse_math1(p), NULL);
        (*end)->op = (uint8_t)op;
        end = &(*end)->next;
    }
}

static struct jnode *parse_not(struct jparser *p)
{
    if (!jparse_skip_name(p, "not"))
        return parse_compare(p);
    jinja_enter(p->c);
    struct jnode *n = node2(p, JN_NOT, parse_not(p), NULL);
    p->c->depth--;
    return n;
}

static struct jnode *parse_and(struct jparser *p)
{
    struct jnode *n = parse_not(p);
    while (jparse_skip_name(p, "and"))
        n = node2(p, JN_AND, n, parse_not(p));
    return n;
}

static struct jnode *parse_or(struct jparser *p)
{
    struct jnode *n = parse_and(p);
    while (jparse_skip_name(p, "or"))
        n = node2(p, JN_OR, n, parse_and(p));
    return n;
}

static struct jnode *parse_pow(struct jparser *p)
{
    struct jnode *n = parse_unary(p, true);
    while (jparse_skip_op(p, JO_POW))
        n = binary(p, JO_POW, n, parse_unary(p, true));
    return n;
}

static struct jnode *parse_math2(struct jparser *p)
{
    struct jnode *n = parse_pow(p);
    while (p->at->kind == JT_OP && p->at->op >= JO_DIV && p->at->op <= JO_MOD) {
        enum jop op = (enum jop)(p->at++)->op;
        n = binary(p, op, n, parse_pow(p));
    }
    return n;
}

static struct jnode *parse_concat(struct jparser *p)
{
    struct jnode *n = parse_math2(p);
    while (jparse_skip_op(p, JO_TILDE))
        n = node2(p, JN_CONCAT, n, parse_math2(p));
    return n;
}

static struct jnode *parse_math1(struct jparser *p)
{
    struct jnode *n = parse_concat(p);
    while (jparse_is_op(p, JO_ADD) || jparse_is_op(p, JO_SUB)) {
        enum jop op = (enum jop)(p->at++)->op;
        n = binary(p, op, n, parse_concat(p));
    }
    return n;
}

/* a the value; b the arguments; `not` around it where it is negated */
static struct jnode *parse_test(struct jparser *p, struct jnode *of)
{
    static const uint8_t begins[] = { JO_LPAREN, JO_LBRACKET, JO_LBRACE };
    bool negated = jparse_skip_name(p, "not");
    const struct jtoken *t = p->at;
    if (t->kind != JT_NAME)
        jparse_unexpected(p, "the name of a test");
    struct jnode *n = jnode_new(p, JN_TEST);
    n->a = of;
    n->test = jtest_find(t->s, t->n);
    if (!n->test)
        jinja_fail(p->c, -EINVAL, "no test named '%.*s'", (int)MIN(t->n, 60u), t->s);
    p->at++;
    t = p->at;
    bool arg = t->kind == JT_NAME || t->kind == JT_STRING || t->kind == JT_INT || t->kind == JT_FLOAT;
    for (size_t i = 0; i < sizeof begins; i++)
        arg |= t->kind == JT_OP && t->op == begins[i];
    if (jparse_is_op(p, JO_LPAREN)) {
        n->b = jparse_args(p);
    } else if (arg && !jparse_is_name(p, "else") && !jparse_is_name(p, "or") && !jparse_is_name(p, "and")) {
        if (jparse_is_name(p, "is"))
            jinja_fail(p->c, -EINVAL, "tests cannot be chained with 'is'");
        n->b = node2(p, JN_ARG, parse_postfix(p, parse_primary(p)), NULL);
    }
    return negated ? node2(p, JN_NOT, n, NULL) : n;
}

/* a the value, b the arguments */
struct jnode *jparse_filters(struct jparser *p, struct jnode *of, bool first)
{
    while (first || jparse_skip_op(p, JO_PIPE)) {
        const struct jtoken *t = p->at;
        first = false;
        if (t->kind != JT_NAME)
            jparse_unexpected(p, "the name of a filter");
        struct jnode *n = jnode_new(p, JN_FILTER);
        n->a = of;
        n->filter = jfilter_find(t->s, t->n);
        if (!n->filter)
            jinja_fail(p->c, -EINVAL, "no filter named '%.*s'", (int)MIN(t->n, 60u), t->s);
        p->at++;
        if (jparse_is_op(p, JO_LPAREN))
            n->b = jparse_args(p);
        of = n;
    }
    return of;
}

static struct jnode *parse_filters_and_tests(struct jparser *p, struct jnode *n)
{
    for (;;) {
        if (jparse_is_op(p, JO_PIPE)) {
            n = jparse_filters(p, n, false);
        } else if (jparse_skip_name(p, "is")) {
            n = parse_test(p, n);
        } else if (jparse_is_op(p, JO_LPAREN)) {
            n = node2(p, JN_CALL, n, NULL);
            n->b = jparse_args(p);
        } else {
            return n;
        }
    }
}

static struct jnode *parse_unary(struct jparser *p, bool filters)
{
    struct jnode *n;
    jinja_enter(p->c);
    if (jparse_skip_op(p, JO_SUB))
        n = node2(p, JN_NEG, parse_unary(p, false), NULL);
    else if (jparse_skip_op(p, JO_ADD))
        n = node2(p, JN_POS, parse_unary(p, false), NULL);
    else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    if (filters)
        n = parse_filters_and_tests(p, n);
    p->c->depth--;
    return n;
}

/* ---- what begins an expression ---- */

static struct jnode *constant(struct jparser *p, struct jval v)
{
    struct jnode *n = jnode_new(p, JN_CONST);
    n->value = v;
    return n;
}

static struct jnode *parse_name(struct jparser *p)
{
    const struct jtoken *t = p->at;
    if (jparse_skip_name(p, "true") || jparse_skip_name(p, "True"))
        return constant(p, jval_bool(true));
    if (jparse_skip_name(p, "false") || jparse_skip_name(p, "False"))
        return constant(p, jval_bool(false));
    if (jparse_skip_name(p, "none") || jparse_skip_name(p, "None"))
        return constant(p, jval_none());
    struct jnode *n = jnode_new(p, JN_NAME);
    n->name = jname_intern(p, t->s, t->n);
    p->names |= n->name == p->t->caller ? JM_CALLER : n->name == p->t->varargs ? JM_VARARGS
                                                  : n->name == p->t->kwargs    ? JM_KWARGS
                                                                               : 0;
    p->at++;
    return n;
}

static struct jnode *parse_string(struct jparser *p)
{
    const struct jtoken *t = p->at++;
    struct jstr *s = jstr_new(p->c, t->s, t->n, J_OWN);
    while (p->at->kind == JT_STRING) { /* strings that follow each other are one */
        struct jstr more = { .s = p->at->s, .n = p->at->n, .origin = J_OWN };
        s = jstr_concat(p->c, s, &more);
        p->at++;
    }
    return constant(p, jval_str(s));
}

/* a the first of the arguments */
static struct jnode *parse_list(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JN_LIST), **end = &n->a;
    p->at++;
    while (!jparse_is_op(p, JO_RBRACKET)) {
        if (n->a)
            jparse_need_op(p, JO_COMMA, "',' or ']'");
        if (jparse_is_op(p, JO_RBRACKET))
            break;
        *end = node2(p, JN_ARG, jparse_expr(p), NULL);
        end = &(*end)->next;
    }
    p->at++;
    return n;
}

/* a the first of the arguments, each with a the key and b the value */
static struct jnode *parse_dict(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JN_DICT), **end = &n->a;
    p->at++;
    while (!jparse_is_op(p, JO_RBRACE)) {
        if (n->a)
            jparse_need_op(p, JO_COMMA, "',' or '}'");
        if (jparse_is_op(p, JO_RBRACE))
            break;
        struct jnode *key = jparse_expr(p);
        jparse_need_op(p, JO_COLON, "':' behind a key");
        *end = node2(p, JN_ARG, key, jparse_expr(p));
        end = &(*end)->next;
    }
    p->at++;
    return n;
}

static struct jnode *parse_primary(struct jparser *p)
{
    const struct jtoken *t = p->at;
    struct jnode *n;
    switch (t->kind) {
    case JT_NAME: return parse_name(p);
    case JT_STRING: return parse_string(p);
    case JT_INT: p->at++; return constant(p, jval_int(t->i));
    case JT_FLOAT: p->at++; return constant(p, jval_float(t->f));
    case JT_OP:
        if (t->op == JO_LPAREN) {
            p->at++;
            n = jparse_tuple(p, true, true, NULL);
            jparse_need_op(p, JO_RPAREN, "')'");
            return n;
        }
        if (t->op == JO_LBRACKET)
            return parse_list(p);
        if (t->op == JO_LBRACE)
            return parse_dict(p);
    }
    jparse_unexpected(p, "an expression");
}

static bool ends_tuple(const struct jparser *p, const char *end_name)
{
    return p->at->kind == JT_VAR_END || p->at->kind == JT_BLOCK_END || jparse_is_op(p, JO_RPAREN) ||
           (end_name && jparse_is_name(p, end_name));
}

/* One expression, or several with commas between as a tuple. cond: `if .. else` is part of them. */
struct jnode *jparse_tuple(struct jparser *p, bool cond, bool parens, const char *end_name)
{
    struct jnode *tuple = jnode_new(p, JN_TUPLE), **end = &tuple->a, *only = NULL;
    bool comma = false;
    for (;;) {
        if (tuple->a)
            jparse_need_op(p, JO_COMMA, "','");
        if (ends_tuple(p, end_name))
            break;
        only = cond ? jparse_expr(p) : parse_or(p);
        *end = node2(p, JN_ARG, only, NULL);
        end = &(*end)->next;
        if (!jparse_is_op(p, JO_COMMA))
            break;
        comma = true;
    }
    if (comma)
        return tuple;
    if (!only && !parens)
        jparse_unexpected(p, "an expression");
    return only ? only : tuple;
}

/* ---- what follows it ---- */

/* [x], or [a:b:c]: JN_SLICE with a the object, b, c, d from, to, step or NULL. */
static struct jnode *parse_subscript(struct jparser *p, struct jnode *of)
{
    struct jnode *part[3] = { 0 };
    unsigned colons = 0;
    while (!jparse_is_op(p, JO_RBRACKET)) {
        if (jparse_skip_op(p, JO_COLON)) {
            if (++colons > 2)
                jparse_unexpected(p, "']'");
        } else if (part[colons]) {
            jparse_unexpected(p, "']'");
        } else {
            part[colons] = jparse_expr(p);
        }
    }
    p->at++;
    if (!colons && !part[0])
        jinja_fail(p->c, -EINVAL, "an empty subscript []");
    if (!colons)
        return node2(p, JN_ITEM, of, part[0]);
    struct jnode *n = node2(p, JN_SLICE, of, part[0]);
    n->c = part[1];
    n->d = part[2];
    return n;
}

static struct jnode *parse_postfix(struct jparser *p, struct jnode *n)
{
    for (;;) {
        if (jparse_skip_op(p, JO_DOT)) {
            const struct jtoken *t = p->at;
            if (t->kind == JT_NAME) {
                n = node2(p, JN_ATTR, n, NULL);
                n->name = jname_intern(p, t->s, t->n);
            } else if (t->kind == JT_INT) {
                n = node2(p, JN_ITEM, n, constant(p, jval_int(t->i)));
            } else {
                jparse_unexpected(p, "a name behind '.'");
            }
            p->at++;
        } else if (jparse_skip_op(p, JO_LBRACKET)) {
            n = parse_subscript(p, n);
        } else if (jparse_is_op(p, JO_LPAREN)) {
            n = node2(p, JN_CALL, n, NULL);
            n->b = jparse_args(p);
        } else {
            return n;
        }
    }
}

/* The first of the arguments: a the value, `name` of one by name. */
struct jnode *jparse_args(struct jparser *p)
{
    struct jnode *first = NULL, **end = &first;
    bool named = false;
    jparse_need_op(p, JO_LPAREN, "'('");
    while (!jparse_is_op(p, JO_RPAREN)) {
        if (first)
            jparse_need_op(p, JO_COMMA, "',' or ')'");
        if (jparse_is_op(p, JO_RPAREN))
            break;
        struct jnode *n = jnode_new(p, JN_ARG);
        if (jparse_skip_op(p, JO_MUL)) {
            n->op = 2;
        } else if (jparse_skip_op(p, JO_POW)) {
            n->op = 3;
        } else if (p->at->kind == JT_NAME && p->at[1].kind == JT_OP && p->at[1].op == JO_ASSIGN) {
            n->op = 1;
            n->name = jname_intern(p, p->at->s, p->at->n);
            p->at += 2;
        } else if (named) {
            jinja_fail(p->c, -EINVAL, "an argument without a name behind one with a name");
        }
        named |= n->op == 1 || n->op == 3;
        n->a = jparse_expr(p);
        *end = n;
        end = &n->next;
    }
    p->at++;
    return first;
}
