/* Statements, and the template as a whole. */
#include <stdlib.h>

#include "jinja/jinja_impl.h"

/* ---- what both parsers use ---- */

struct jnode *jnode_new(struct jparser *p, enum jnode_kind kind)
{
    struct jnode *n = jinja_alloc(p->c, sizeof *n);
    n->kind = (uint8_t)kind;
    n->line = p->c->line = p->at->line;
    return n;
}

static unsigned bucket(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 16777619u;
    return (h ^ h >> 16) % JINJA_NAME_BUCKETS;
}

const struct jname *jname_find(const struct jinja *t, const char *s, size_t n)
{
    for (const struct jname *k = t->names[bucket(s, n)]; k; k = k->chain)
        if (k->str.n == n && memcmp(k->str.s, s, n) == 0)
            return k;
    return NULL;
}

const struct jname *jname_intern(struct jparser *p, const char *s, size_t n)
{
    const struct jname *known = jname_find(p->t, s, n);
    if (known)
        return known;
    struct jname *k = jinja_alloc(p->c, sizeof *k), **head = &p->t->names[bucket(s, n)];
    k->str = (struct jstr){ .s = s, .n = (uint32_t)n, .origin = J_OWN };
    k->function = jfunction_find(s, n);
    k->chain = *head;
    return *head = k;
}

bool jparse_is_name(const struct jparser *p, const char *name)
{
    return p->at->kind == JT_NAME && p->at->n == strlen(name) && memcmp(p->at->s, name, p->at->n) == 0;
}

bool jparse_skip_name(struct jparser *p, const char *name)
{
    bool is = jparse_is_name(p, name);
    p->at += is;
    return is;
}

bool jparse_is_op(const struct jparser *p, enum jop op)
{
    return p->at->kind == JT_OP && p->at->op == op;
}

bool jparse_skip_op(struct jparser *p, enum jop op)
{
    bool is = jparse_is_op(p, op);
    p->at += is;
    return is;
}

void jparse_unexpected(struct jparser *p, const char *wanted)
{
    p->c->line = p->at->line;
    jinja_fail(p->c, -EINVAL, "expected %s, not '%.*s'", wanted, (int)MIN(p->at->n, 60u), p->at->s);
}

void jparse_need_op(struct jparser *p, enum jop op, const char *what)
{
    if (!jparse_skip_op(p, op))
        jparse_unexpected(p, what);
}

/* ---- statements ---- */

static void end_tag(struct jparser *p)
{
    if (p->at->kind != JT_BLOCK_END)
        jparse_unexpected(p, "'%}'");
    p->at++;
}

static void need_name(struct jparser *p, const char *name)
{
    if (!jparse_skip_name(p, name))
        jparse_unexpected(p, name);
}

/* The body of a block whose tag is not closed yet; behind it stands the tag that ends it, opened. */
static struct jnode *block_body(struct jparser *p)
{
    end_tag(p);
    return jparse_body(p);
}

static struct jnode *body_until(struct jparser *p, const char *end)
{
    struct jnode *body = block_body(p);
    need_name(p, end);
    return body;
}

static const struct jname *target_name(struct jparser *p)
{
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None" };
    if (p->at->kind != JT_NAME)
        jparse_unexpected(p, "a name to assign to");
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (jparse_is_name(p, reserved[i]))
            jparse_unexpected(p, "a name to assign to");
    const struct jname *name = jname_intern(p, p->at->s, p->at->n);
    p->at++;
    return name;
}

/* JN_NAME; JN_ATTR of a name; or JN_TUPLE with them as arguments. */
struct jnode *jparse_target(struct jparser *p, bool with_attr)
{
    struct jnode *tuple = jnode_new(p, JN_TUPLE), **end = &tuple->a, *n;
    bool parens = jparse_skip_op(p, JO_LPAREN), comma = false;
    do {
        if (comma && p->at->kind != JT_NAME && !jparse_is_op(p, JO_LPAREN))
            break;
        if (jparse_is_op(p, JO_LPAREN)) {
            jinja_enter(p->c);
            n = jparse_target(p, with_attr);
            p->c->depth--;
        } else {
            n = jnode_new(p, JN_NAME);
            n->name = target_name(p);
        }
        if (with_attr && n->kind == JN_NAME && jparse_skip_op(p, JO_DOT)) {
            struct jnode *attr = jnode_new(p, JN_ATTR);
            attr->a = n;
            attr->name = target_name(p);
            n = attr;
        }
        *end = jnode_new(p, JN_ARG);
        (*end)->a = n;
        end = &(*end)->next;
    } while (jparse_skip_op(p, JO_COMMA) && (comma = true));
    if (parens)
        jparse_need_op(p, JO_RPAREN, "')'");
    return comma ? tuple : n;
}

/* a the condition, b the body, c what else: statements */
static struct jnode *parse_if(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_IF);
    n->a = jparse_tuple(p, false, false, NULL);
    n->b = block_body(p);
    if (jparse_skip_name(p, "elif")) {
        jinja_enter(p->c);
        n->c = parse_if(p);
        p->c->depth--;
        return n;
    }
    if (jparse_skip_name(p, "else"))
        n->c = block_body(p);
    need_name(p, "endif");
    return n;
}

/* a the target, b what is walked over with the filter as its `next`, c the body, d what else; op: recursive */
static struct jnode *parse_for(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_FOR);
    n->a = jparse_target(p, false);
    need_name(p, "in");
    n->b = jnode_new(p, JN_ARG);
    n->b->a = jparse_tuple(p, false, false, "recursive");
    n->b->b = jparse_skip_name(p, "if") ? jparse_expr(p) : NULL;
    n->op = jparse_skip_name(p, "recursive");
    p->in_loop++;
    n->c = block_body(p);
    p->in_loop--;
    if (jparse_skip_name(p, "else"))
        n->d = block_body(p);
    need_name(p, "endfor");
    return n;
}

/* a the target; b the value; of a block: b filters around JN_CONST, c the body */
static struct jnode *parse_set(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_SET);
    n->a = jparse_target(p, true);
    if (jparse_skip_op(p, JO_ASSIGN)) {
        n->b = jparse_tuple(p, true, false, NULL);
        return n;
    }
    n->kind = JS_SET_BLOCK;
    n->b = jparse_filters(p, NULL, false);
    n->c = body_until(p, "endset");
    return n;
}

/* a the parameters, each with `name` and a the default or NULL */
static void parse_params(struct jparser *p, struct jnode *n)
{
    struct jnode **end = &n->a;
    bool defaults = false;
    jparse_need_op(p, JO_LPAREN, "'('");
    while (!jparse_is_op(p, JO_RPAREN)) {
        if (n->a)
            jparse_need_op(p, JO_COMMA, "',' or ')'");
        if (jparse_is_op(p, JO_RPAREN))
            break;
        struct jnode *param = jnode_new(p, JN_ARG);
        param->name = target_name(p);
        if (jparse_skip_op(p, JO_ASSIGN)) {
            param->a = jparse_expr(p);
            defaults = true;
        } else if (defaults) {
            jinja_fail(p->c, -EINVAL, "a parameter without a default behind one with a default");
        }
        *end = param;
        end = &param->next;
    }
    p->at++;
}

/* Loops around a macro are none for what stands in it. */
static void macro_body(struct jparser *p, struct jnode *n, const char *end)
{
    unsigned in_loop = p->in_loop;
    uint8_t names = p->names;
    p->in_loop = 0;
    p->names = 0;
    n->c = body_until(p, end);
    n->op = p->names;
    p->in_loop = in_loop;
    p->names = names;
}

/* a the parameters, c the body */
static struct jnode *parse_macro(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_MACRO);
    n->name = target_name(p);
    parse_params(p, n);
    macro_body(p, n, "endmacro");
    return n;
}

/* a the parameters of the caller, b the call, c the body */
static struct jnode *parse_call(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_CALL);
    if (jparse_is_op(p, JO_LPAREN))
        parse_params(p, n);
    n->b = jparse_expr(p);
    if (n->b->kind != JN_CALL)
        jinja_fail(p->c, -EINVAL, "expected a call behind 'call'");
    macro_body(p, n, "endcall");
    return n;
}

/* b the filters, c the body */
static struct jnode *parse_filter_block(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_FILTER);
    n->b = jparse_filters(p, NULL, true);
    n->c = body_until(p, "endfilter");
    return n;
}

/* a arguments with a the target and b the value; c the body */
static struct jnode *parse_with(struct jparser *p)
{
    struct jnode *n = jnode_new(p, JS_WITH), **end = &n->a;
    while (p->at->kind != JT_BLOCK_END) {
        if (n->a)
            jparse_need_op(p, JO_COMMA, "','");
        struct jnode *one = jnode_new(p, JN_ARG);
        one->a = jnode_new(p, JN_NAME);
        one->a->name = target_name(p);
        jparse_need_op(p, JO_ASSIGN, "'='");
        one->b = jparse_expr(p);
        *end = one;
        end = &one->next;
    }
    n->c = body_until(p, "endwith");
    return n;
}

static struct jnode *parse_scope(struct jparser *p, const char *end)
{
    struct jnode *n = jnode_new(p, JS_SCOPE);
    n->c = body_until(p, end);
    return n;
}

static struct jnode *parse_loop_control(struct jparser *p, enum jnode_kind kind)
{
    if (!p->in_loop)
        jinja_fail(p->c, -EINVAL, "%s outside of a loop", kind == JS_BREAK ? "break" : "continue");
    return jnode_new(p, kind);
}

static struct jnode *parse_statement(struct jparser *p)
{
    static const char *const refused[] = { "include", "import", "from", "extends", "block", "do", "autoescape", "trans" };
    p->c->line = p->at->line;
    if (jparse_skip_name(p, "if"))
        return parse_if(p);
    if (jparse_skip_name(p, "for"))
        return parse_for(p);
    if (jparse_skip_name(p, "set"))
        return parse_set(p);
    if (jparse_skip_name(p, "macro"))
        return parse_macro(p);
    if (jparse_skip_name(p, "call"))
        return parse_call(p);
    if (jparse_skip_name(p, "filter"))
        return parse_filter_block(p);
    if (jparse_skip_name(p, "with"))
        return parse_with(p);
    if (jparse_skip_name(p, "break"))
        return parse_loop_control(p, JS_BREAK);
    if (jparse_skip_name(p, "continue"))
        return parse_loop_control(p, JS_CONTINUE);
    if (jparse_skip_name(p, "generation"))
        return parse_scope(p, "endgeneration");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (jparse_is_name(p, refused[i]))
            jinja_fail(p->c, -EINVAL, "chat templates have no '%s'", refused[i]);
    jparse_unexpected(p, "a statement");
}

/* Is the tag that stands here one that ends or divides a block? */
static bool ends_block(const struct jparser *p)
{
    const struct jtoken *t = p->at + 1;
    if (t->kind != JT_NAME)
        return false;
    return (t->n > 3 && memcmp(t->s, "end", 3) == 0) ||
           (t->n == 4 && (memcmp(t->s, "else", 4) == 0 || memcmp(t->s, "elif", 4) == 0));
}

/* Statements up to the end, or to a tag that ends a block, behind whose opening bytes it stands then. */
struct jnode *jparse_body(struct jparser *p)
{
    struct jnode *first = NULL, **end = &first, *n;
    jinja_enter(p->c);
    while (p->at->kind != JT_END) {
        p->c->line = p->at->line;
        if (p->at->kind == JT_TEXT) {
            n = jnode_new(p, JS_TEXT);
            n->value = jval_str(jstr_new(p->c, p->at->s, p->at->n, J_OWN));
            p->at++;
        } else if (p->at->kind == JT_VAR_BEGIN) {
            p->at++;
            n = jnode_new(p, JS_PRINT);
            n->a = jparse_tuple(p, true, false, NULL);
            if (p->at->kind != JT_VAR_END)
                jparse_unexpected(p, "'}}'");
            p->at++;
        } else if (ends_block(p)) {
            p->at++;
            break;
        } else {
            p->at++;
            n = parse_statement(p);
            end_tag(p);
        }
        *end = n;
        end = &n->next;
    }
    p->c->depth--;
    return first;
}

int jinja_parse(const char *text, size_t n, struct jinja **out, struct err *e)
{
    *out = NULL;
    if (n > JINJA_MAX_TEXT)
        return err_set(e, -E2BIG, "template: %zu bytes; the most is %d", n, JINJA_MAX_TEXT);
    struct jinja_ctx *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "template: out of memory");
    c->e = e;
    c->line = 1;
    c->max_memory = 256u << 20;
    c->max_steps = UINT64_MAX;
    if (setjmp(c->fail)) {
        int rc = c->rc;
        jinja_release(c);
        free(c);
        return rc;
    }
    struct jinja *t = jinja_alloc(c, sizeof *t);
    struct jparser p = { .c = c, .t = t };
    t->arena = c;
    p.at = jinja_lex(c, text, n);
    t->loop = jname_intern(&p, "loop", 4);
    t->caller = jname_intern(&p, "caller", 6);
    t->varargs = jname_intern(&p, "varargs", 7);
    t->kwargs = jname_intern(&p, "kwargs", 6);
    t->body = jparse_body(&p);
    if (p.at->kind != JT_END)
        jparse_unexpected(&p, "no end of a block that was not begun");
    c->e = NULL;
    *out = t;
    return 0;
}

void jinja_free(struct jinja *t)
{
    if (!t)
        return;
    struct jinja_ctx *c = t->arena;
    jinja_release(c);
    free(c);
}
