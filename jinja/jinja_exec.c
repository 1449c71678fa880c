/* Statements, executed: scopes, loops, macros; and rendering as a whole. */
#include <stdlib.h>

#include "jinja/jinja_impl.h"

enum flow { GO_ON, BREAK, CONTINUE };
static enum flow exec(struct jinja_ctx *c, const struct jnode *n);

/* ---- scopes ---- */

struct jscope *jscope_push(struct jinja_ctx *c, struct jscope *parent)
{
    struct jscope *s = jinja_alloc(c, sizeof *s);
    s->parent = parent;
    return s;
}

void jscope_set(struct jinja_ctx *c, struct jscope *s, const struct jname *name, struct jval v)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->var[i].name == name) {
            s->var[i].v = v;
            return;
        }
    }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? 2 * s->cap : 4;
        struct jvar *grown = (struct jvar *)jinja_alloc_bytes(c, cap * sizeof *grown);
        if (s->n)
            memcpy(grown, s->var, s->n * sizeof *grown);
        s->var = grown;
        s->cap = cap;
    }
    s->var[s->n++] = (struct jvar){ name, v };
}

static void exec_in(struct jinja_ctx *c, struct jscope *s, const struct jnode *body)
{
    struct jscope *before = c->scope;
    c->scope = s;
    exec(c, body);
    c->scope = before;
}

static void assign(struct jinja_ctx *c, const struct jnode *to, struct jval v)
{
    if (to->kind == JN_NAME) {
        jscope_set(c, c->scope, to->name, v);
    } else if (to->kind == JN_ATTR) {
        struct jval ns = jinja_eval(c, to->a);
        if (ns.t != J_NAMESPACE)
            jinja_fail(c, -EINVAL, "attributes can be set on a namespace, not on %s", jval_type(ns));
        jdict_set(c, ns.d, jval_str(&to->name->str), v);
    } else {
        struct jlist *l = jval_items(c, v);
        uint32_t i = 0, n = 0;
        for (const struct jnode *k = to->a; k; k = k->next)
            n++;
        if (n != l->n)
            jinja_fail(c, -EINVAL, "%u values for %u names", l->n, n);
        for (const struct jnode *k = to->a; k; k = k->next)
            assign(c, k->a, l->v[i++]);
    }
}

/* The output of a body as a string. */
static struct jval capture(struct jinja_ctx *c, struct jscope *s, const struct jnode *body)
{
    struct jout o = jout_begin(), *before = c->out;
    c->out = &o;
    exec_in(c, s, body);
    c->out = before;
    return jval_str(jout_end(c, &o));
}

/* The filters of a block; their innermost value is `v`, where the tree has nothing. */
static struct jval filter(struct jinja_ctx *c, const struct jnode *n, struct jval v)
{
    if (!n)
        return v;
    struct jval in = filter(c, n->a, v);
    struct jnode call = *n, value = { .kind = JN_CONST, .line = n->line, .value = in };
    call.a = &value;
    return jinja_eval(c, &call);
}

/* ---- loops ---- */

struct jval jloop_attr(struct jinja_ctx *c, struct jloop *l, const struct jstr *name)
{
    uint32_t n = l->items->n, i = l->at;
    struct jval m = { .t = J_METHOD };
    if (jstr_is(name, "index"))
        return jval_int((int64_t)i + 1);
    if (jstr_is(name, "index0"))
        return jval_int(i);
    if (jstr_is(name, "first"))
        return jval_bool(i == 0);
    if (jstr_is(name, "last"))
        return jval_bool(i + 1 == n);
    if (jstr_is(name, "length"))
        return jval_int(n);
    if (jstr_is(name, "revindex"))
        return jval_int((int64_t)n - i);
    if (jstr_is(name, "revindex0"))
        return jval_int((int64_t)n - i - 1);
    if (jstr_is(name, "depth"))
        return jval_int((int64_t)l->depth + 1);
    if (jstr_is(name, "depth0"))
        return jval_int(l->depth);
    if (jstr_is(name, "previtem"))
        return i > 0 ? l->items->v[i - 1] : jval_undefined(name, J_LOOP);
    if (jstr_is(name, "nextitem"))
        return i + 1 < n ? l->items->v[i + 1] : jval_undefined(name, J_LOOP);
    struct jval self = { .t = J_LOOP, .loop = l };
    if (jmethod_find(self, name, &m.method)) {
        m.self = jinja_alloc(c, sizeof *m.self);
        *m.self = self;
        return m;
    }
    return jval_undefined(name, J_LOOP);
}

/* What passes the loop's own condition. */
static struct jlist *selected(struct jinja_ctx *c, const struct jnode *n, struct jlist *all)
{
    const struct jnode *cond = n->b->b;
    if (!cond)
        return all;
    struct jlist *l = jlist_new(c, 0, J_KIND_LIST);
    struct jscope *before = c->scope;
    for (uint32_t i = 0; i < all->n; i++) {
        c->scope = jscope_push(c, before);
        assign(c, n->a, all->v[i]);
        if (jval_truth(jinja_eval(c, cond)))
            jlist_push(c, l, all->v[i]);
    }
    c->scope = before;
    return l;
}

static void run_loop(struct jinja_ctx *c, const struct jnode *n, struct jval over, uint32_t depth,
                     struct jscope *outer)
{
    struct jscope *before = c->scope;
    c->scope = outer;
    struct jlist *all = jval_items(c, over);
    struct jlist walked = *all; /* what is appended meanwhile is not walked over */
    struct jloop *l = jinja_alloc(c, sizeof *l);
    *l = (struct jloop){ .items = selected(c, n, &walked), .depth = depth, .node = n->op ? n : NULL, .scope = outer };
    if (l->items == &walked) {
        l->items = jinja_alloc(c, sizeof walked);
        *l->items = walked;
    }
    enum flow f = GO_ON;
    struct jscope *s = NULL;
    for (; l->at < l->items->n && f != BREAK; l->at++) {
        if (!s || s->captured)
            s = jscope_push(c, outer);
        s->n = 0;
        c->scope = s;
        jinja_step(c, 1);
        jscope_set(c, s, c->t->loop, (struct jval){ .t = J_LOOP, .loop = l });
        assign(c, n->a, l->items->v[l->at]);
        f = exec(c, n->c);
    }
    c->scope = outer;
    if (!l->items->n && n->d)
        exec_in(c, jscope_push(c, outer), n->d);
    c->scope = before;
}

/* ---- macros ---- */

static struct jval macro_new(struct jinja_ctx *c, const struct jnode *n)
{
    struct jmacro *m = jinja_alloc(c, sizeof *m);
    *m = (struct jmacro){ .node = n, .scope = c->scope };
    for (struct jscope *s = c->scope; s; s = s->parent)
        s->captured = true;
    return (struct jval){ .t = J_MACRO, .m = m };
}

/* The parameters, from the arguments or by their defaults, which see the parameters before them. Returns how many. */
static uint32_t bind_params(struct jinja_ctx *c, const struct jmacro *m, struct jscope *s, struct jargs *a)
{
    struct jscope *before = c->scope;
    uint32_t i = 0;
    c->scope = s;
    for (const struct jnode *p = m->node->a; p; p = p->next, i++) {
        char *name = jstr_z(c, &p->name->str);
        struct jval v = jval_undefined(&p->name->str, J_UNDEFINED);
        if (jargs_has(a, i, name))
            v = jargs_get(c, a, i, name, v);
        else if (p->a)
            v = jinja_eval(c, p->a);
        jscope_set(c, s, p->name, v);
    }
    c->scope = before;
    return i;
}

/* What the parameters left over, for a macro that names it. */
static void bind_rest(struct jinja_ctx *c, const struct jmacro *m, struct jscope *s, struct jargs *a, uint32_t n)
{
    if (m->node->op & JM_CALLER)
        jscope_set(c, s, c->t->caller,
                   jargs_get(c, a, UINT32_MAX, "caller", jval_undefined(&c->t->caller->str, J_UNDEFINED)));
    if (m->node->op & JM_VARARGS) {
        struct jlist *rest = jlist_new(c, 0, J_KIND_TUPLE);
        for (uint32_t i = n; i < a->n; i++)
            jlist_push(c, rest, a->v[i]);
        jscope_set(c, s, c->t->varargs, jval_list(rest));
    }
    if (m->node->op & JM_KWARGS) {
        struct jdict *rest = jdict_new(c, 0);
        for (uint32_t k = 0; k < a->n_kw; k++)
            if (!(a->used >> k & 1))
                jdict_set(c, rest, jval_str(a->kw[k]), a->kw_v[k]);
        a->used = UINT32_MAX;
        jscope_set(c, s, c->t->kwargs, jval_dict(rest));
    }
    jargs_end(c, a, "the macro", m->node->op & JM_VARARGS ? UINT32_MAX : n);
}

struct jval jmacro_call(struct jinja_ctx *c, struct jmacro *m, struct jargs *a)
{
    struct jscope *s = jscope_push(c, m->scope);
    uint32_t line = c->line;
    if (++c->macro_depth > JINJA_MAX_MACROS)
        jinja_fail(c, -E2BIG, "more than %d calls of macros inside each other", JINJA_MAX_MACROS);
    bind_rest(c, m, s, a, bind_params(c, m, s, a));
    struct jval r = capture(c, s, m->node->c);
    c->macro_depth--;
    c->line = line;
    return r;
}

/* {% call %}: the call with the block as its argument `caller`. */
static void exec_call(struct jinja_ctx *c, const struct jnode *n)
{
    struct jval fn = jinja_eval(c, n->b->a);
    struct jargs a = jinja_args(c, n->b->b);
    jargs_put(c, &a, &c->t->caller->str, macro_new(c, n));
    jout_str(c, c->out, jval_text(c, jinja_call(c, fn, &a)));
}

struct jval jloop_call(struct jinja_ctx *c, struct jloop *l, struct jargs *a)
{
    struct jout o = jout_begin(), *before = c->out;
    if (!l->node)
        jinja_fail(c, -EINVAL, "the loop is not recursive");
    if (++c->macro_depth > JINJA_MAX_MACROS)
        jinja_fail(c, -E2BIG, "more than %d loops inside each other", JINJA_MAX_MACROS);
    struct jval over = jargs_get(c, a, 0, "iterable", jval_undefined(NULL, J_UNDEFINED));
    jargs_end(c, a, "loop", 1);
    c->out = &o;
    run_loop(c, l->node, over, l->depth + 1, l->scope);
    c->out = before;
    c->macro_depth--;
    return jval_str(jout_end(c, &o));
}

/* ---- statements ---- */

static void exec_with(struct jinja_ctx *c, const struct jnode *n)
{
    struct jscope *s = jscope_push(c, c->scope);
    for (const struct jnode *k = n->a; k; k = k->next)
        jscope_set(c, s, k->a->name, jinja_eval(c, k->b)); /* values do not see each other's names */
    exec_in(c, s, n->c);
}

static enum flow exec_one(struct jinja_ctx *c, const struct jnode *n)
{
    struct jval v;
    switch (n->kind) {
    case JS_TEXT: jout_str(c, c->out, n->value.s); return GO_ON;
    case JS_PRINT: jout_str(c, c->out, jval_text(c, jinja_eval(c, n->a))); return GO_ON;
    case JS_IF: return exec(c, jval_truth(jinja_eval(c, n->a)) ? n->b : n->c);
    case JS_FOR: run_loop(c, n, jinja_eval(c, n->b->a), 0, c->scope); return GO_ON;
    case JS_SET: assign(c, n->a, jinja_eval(c, n->b)); return GO_ON;
    case JS_SET_BLOCK:
        v = capture(c, jscope_push(c, c->scope), n->c);
        assign(c, n->a, filter(c, n->b, v));
        return GO_ON;
    case JS_MACRO: jscope_set(c, c->scope, n->name, macro_new(c, n)); return GO_ON;
    case JS_CALL: exec_call(c, n); return GO_ON;
    case JS_FILTER:
        v = capture(c, jscope_push(c, c->scope), n->c);
        jout_str(c, c->out, jval_text(c, filter(c, n->b, v)));
        return GO_ON;
    case JS_WITH: exec_with(c, n); return GO_ON;
    case JS_SCOPE: exec_in(c, jscope_push(c, c->scope), n->c); return GO_ON;
    case JS_BREAK: return BREAK;
    case JS_CONTINUE: return CONTINUE;
    default: jinja_fail(c, -EINVAL, "a node of kind %d is no statement", n->kind);
    }
}

static enum flow exec(struct jinja_ctx *c, const struct jnode *n)
{
    enum flow f = GO_ON;
    jinja_enter(c);
    for (; n && f == GO_ON; n = n->next) {
        jinja_step(c, 1);
        c->line = n->line;
        f = exec_one(c, n);
    }
    c->depth--;
    return f;
}

/* ---- rendering ---- */

static void set_variables(struct jinja_ctx *c, const json_t *vars, enum jorigin origin)
{
    const char *key;
    json_t *v;
    if (!json_is_object(vars))
        return;
    json_object_foreach ((json_t *)vars, key, v) {
        const struct jname *name = jname_find(c->t, key, strlen(key));
        if (name) /* nobody asks for the others */
            jscope_set(c, c->scope, name, jval_from_json(c, v, origin));
    }
}

int jinja_render(const struct jinja *t, const struct jinja_opts *o, jinja_put put, void *user, struct err *e)
{
    struct jout out = { .put = put, .user = user, .max = o->max_output ? o->max_output : (size_t)32 << 20 };
    struct jinja_ctx *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "template: out of memory");
    c->e = e;
    c->t = t;
    c->opts = o;
    c->out = &out;
    c->line = 1;
    c->max_steps = o->max_steps ? o->max_steps : 20000000;
    c->max_memory = o->max_memory ? o->max_memory : (size_t)512 << 20;
    if (setjmp(c->fail) == 0) {
        c->scope = jscope_push(c, NULL);
        set_variables(c, o->data, J_DATA);
        set_variables(c, o->own, J_OWN);
        exec(c, t->body);
    }
    int rc = c->rc;
    jinja_release(c);
    json_decref(c->parsed);
    free(c);
    return rc;
}
