/* Expressions, evaluated. */
#include <math.h>

#include "jinja/jinja_impl.h"

/* ---- attributes and items ---- */

struct jval jinja_getattr(struct jinja_ctx *c, struct jval obj, const struct jstr *name)
{
    struct jval m = { .t = J_METHOD };
    struct jval *at;
    switch (obj.t) {
    case J_UNDEFINED: jval_undefined_fail(c, obj);
    case J_LOOP: return jloop_attr(c, obj.loop, name);
    case J_NAMESPACE:
        at = jdict_get_str(obj.d, name->s, name->n);
        return at ? *at : jval_undefined(name, J_NAMESPACE);
    case J_MACRO:
        if (jstr_is(name, "name"))
            return jval_str(jstr_lit(c, "macro"));
        break;
    case J_CYCLER:
        if (jstr_is(name, "current"))
            return obj.cycler->items->v[obj.cycler->at];
        /* fall through */
    case J_STR:
    case J_LIST:
    case J_DICT:
        if (jmethod_find(obj, name, &m.method)) {
            m.self = jinja_alloc(c, sizeof *m.self);
            *m.self = obj;
            return m;
        }
        if (obj.t == J_DICT && (at = jdict_get_str(obj.d, name->s, name->n)))
            return *at;
        break;
    }
    return jval_undefined(name, (enum jtype)obj.t);
}

/* A position from the end where it is negative; false: outside. */
static bool place(int64_t *i, size_t n)
{
    if (*i < 0)
        *i += (int64_t)n;
    return *i >= 0 && (uint64_t)*i < n;
}

static struct jval char_at(struct jinja_ctx *c, const struct jstr *s, int64_t i)
{
    size_t k, n = jstr_len(c, s);
    if (!place(&i, n))
        return jval_undefined(NULL, J_STR);
    size_t at = n == s->n ? (size_t)i : jstr_offset(s, 0, (size_t)i);
    jstr_char(s, at, &k);
    return jval_str(jstr_sub(c, s, at, at + k));
}

struct jval jinja_getitem(struct jinja_ctx *c, struct jval obj, struct jval key)
{
    int64_t i;
    if (obj.t == J_UNDEFINED)
        jval_undefined_fail(c, obj);
    if (obj.t == J_DICT) {
        struct jval *at = key.t == J_LIST || key.t == J_DICT ? NULL : jdict_get(c, obj.d, key);
        if (at)
            return *at;
    } else if (obj.t == J_LIST && obj.l->kind <= J_KIND_TUPLE && jval_as_int(key, &i)) {
        return place(&i, obj.l->n) ? obj.l->v[i] : jval_undefined(NULL, J_LIST);
    } else if (obj.t == J_STR && jval_as_int(key, &i)) {
        return char_at(c, obj.s, i);
    }
    if (key.t == J_STR)
        return jinja_getattr(c, obj, key.s);
    return jval_undefined(NULL, (enum jtype)obj.t);
}

static int64_t bound(struct jinja_ctx *c, struct jval v, int64_t n, int64_t otherwise, bool backwards)
{
    int64_t i;
    if (v.t == J_NONE)
        return otherwise;
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_as_int(v, &i))
        jinja_fail(c, -EINVAL, "a slice wants numbers, not %s", jval_type(v));
    if (i < 0)
        i += n;
    if (i < 0)
        return backwards ? -1 : 0;
    return i >= n ? backwards ? n - 1 : n : i;
}

struct jval jinja_slice(struct jinja_ctx *c, struct jval obj, struct jval from, struct jval to, struct jval by)
{
    int64_t step = 1, n = obj.t == J_STR ? (int64_t)jstr_len(c, obj.s) : obj.t == J_LIST ? (int64_t)obj.l->n : 0;
    if (obj.t == J_UNDEFINED)
        jval_undefined_fail(c, obj);
    if (obj.t != J_STR && (obj.t != J_LIST || obj.l->kind > J_KIND_TUPLE))
        return jval_undefined(NULL, (enum jtype)obj.t);
    if (by.t != J_NONE && !jval_as_int(by, &step))
        jinja_fail(c, -EINVAL, "a slice wants numbers, not %s", jval_type(by));
    if (step == 0)
        jinja_fail(c, -EINVAL, "a slice's step is 0");
    bool back = step < 0;
    int64_t a = bound(c, from, n, back ? n - 1 : 0, back), z = bound(c, to, n, back ? -1 : n, back);
    if (obj.t == J_STR && step == 1) {
        bool ascii = (size_t)n == obj.s->n;
        size_t at = ascii ? (size_t)a : jstr_offset(obj.s, 0, (size_t)a);
        size_t end = z <= a ? at : ascii ? (size_t)z : jstr_offset(obj.s, at, (size_t)(z - a));
        return jval_str(jstr_sub(c, obj.s, at, end));
    }
    struct jlist *in = jval_items(c, obj), *l = jlist_new(c, 0, obj.t == J_LIST ? obj.l->kind : J_KIND_LIST);
    for (int64_t i = a; back ? i > z : i < z;) {
        jinja_step(c, 1);
        jlist_push(c, l, in->v[i]);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    if (obj.t == J_LIST)
        return jval_list(l);
    struct jout o = jout_begin();
    for (uint32_t i = 0; i < l->n; i++)
        jout_str(c, &o, l->v[i].s);
    return jval_str(jout_end(c, &o));
}

/* ---- arithmetic ---- */

static __attribute__((cold, noreturn)) void no_operation(struct jinja_ctx *c, const char *op, struct jval a,
                                                          struct jval b)
{
    if (a.t == J_UNDEFINED || b.t == J_UNDEFINED)
        jval_undefined_fail(c, a.t == J_UNDEFINED ? a : b);
    jinja_fail(c, -EINVAL, "'%s' is not there for %s and %s", op, jval_type(a), jval_type(b));
}

static __attribute__((cold, noreturn)) void too_large(struct jinja_ctx *c)
{
    jinja_fail(c, -EINVAL, "a number is larger than 64 bits hold");
}

static struct jval add(struct jinja_ctx *c, struct jval a, struct jval b)
{
    if (a.t == J_STR && b.t == J_STR) {
        const struct jstr *x = a.s, *y = b.s;
        if (x->markup != y->markup) {
            x = x->markup ? x : jinja_escape(c, x);
            y = y->markup ? y : jinja_escape(c, y);
        }
        return jval_str(jstr_concat(c, x, y));
    }
    if (a.t == J_LIST && b.t == J_LIST && a.l->kind == b.l->kind && a.l->kind <= J_KIND_TUPLE) {
        struct jlist *l = jlist_new(c, a.l->n + b.l->n, a.l->kind);
        jinja_step(c, l->cap / 4);
        for (uint32_t i = 0; i < a.l->n + b.l->n; i++)
            jlist_push(c, l, i < a.l->n ? a.l->v[i] : b.l->v[i - a.l->n]);
        return jval_list(l);
    }
    no_operation(c, "+", a, b);
}

static struct jval repeat(struct jinja_ctx *c, struct jval what, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (what.t == J_STR) {
        struct jout o = jout_begin();
        if ((uint64_t)times * (what.s->n + 1u) > c->max_memory || times > INT32_MAX)
            jinja_fail(c, -E2BIG, "a str of %u bytes %lld times", what.s->n, (long long)times);
        for (int64_t i = 0; i < times; i++) {
            jinja_step(c, 1);
            jout_str(c, &o, what.s);
        }
        return jval_str(jout_end(c, &o));
    }
    struct jlist *l = jlist_new(c, 0, what.l->kind);
    for (int64_t i = 0; i < times && what.l->n; i++) {
        jinja_step(c, what.l->n);
        for (uint32_t k = 0; k < what.l->n; k++)
            jlist_push(c, l, what.l->v[k]);
    }
    return jval_list(l);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static struct jval int_pow(struct jinja_ctx *c, int64_t a, int64_t b)
{
    int64_t r = 1;
    if (b < 0)
        return jval_float(pow((double)a, (double)b));
    while (b) {
        if ((b & 1) && __builtin_mul_overflow(r, a, &r))
            too_large(c);
        b >>= 1;
        if (b && __builtin_mul_overflow(a, a, &a))
            too_large(c);
    }
    return jval_int(r);
}

static struct jval int_binary(struct jinja_ctx *c, int op, int64_t a, int64_t b)
{
    int64_t r;
    bool over = false;
    switch (op) {
    case JO_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case JO_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case JO_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case JO_POW: return int_pow(c, a, b);
    default:
        if (b == 0)
            jinja_fail(c, -EINVAL, "division by zero");
        if (op == JO_DIV)
            return jval_float((double)a / (double)b);
        if (b == -1) {
            over = __builtin_sub_overflow((int64_t)0, a, &r);
            r = op == JO_MOD ? 0 : r;
            over = over && op != JO_MOD;
        } else {
            r = op == JO_MOD ? a - floor_div(a, b) * b : floor_div(a, b);
        }
    }
    if (over)
        too_large(c);
    return jval_int(r);
}

static struct jval float_binary(struct jinja_ctx *c, int op, double a, double b)
{
    if (op >= JO_DIV && op <= JO_MOD && op != JO_MUL && b == 0)
        jinja_fail(c, -EINVAL, "division by zero");
    switch (op) {
    case JO_ADD: return jval_float(a + b);
    case JO_SUB: return jval_float(a - b);
    case JO_MUL: return jval_float(a * b);
    case JO_DIV: return jval_float(a / b);
    case JO_FLOORDIV: return jval_float(floor(a / b));
    case JO_POW: return jval_float(pow(a, b));
    default: {
        double m = fmod(a, b);
        return jval_float(m != 0 && (m < 0) != (b < 0) ? m + b : m);
    }
    }
}

struct jval jinja_binary(struct jinja_ctx *c, int op, struct jval a, struct jval b)
{
    static const char *const names[] = { [JO_ADD] = "+",      [JO_SUB] = "-", [JO_DIV] = "/", [JO_FLOORDIV] = "//",
                                         [JO_MUL] = "*",      [JO_MOD] = "%", [JO_POW] = "**" };
    int64_t i, k;
    double x, y;
    if (jval_as_int(a, &i) && jval_as_int(b, &k))
        return int_binary(c, op, i, k);
    if (jval_number(a, &x) && jval_number(b, &y))
        return float_binary(c, op, x, y);
    if (op == JO_ADD)
        return add(c, a, b);
    if (op == JO_MUL && (a.t == J_STR || a.t == J_LIST) && jval_as_int(b, &k))
        return repeat(c, a, k);
    if (op == JO_MUL && (b.t == J_STR || b.t == J_LIST) && jval_as_int(a, &k))
        return repeat(c, b, k);
    if (op == JO_MOD && a.t == J_STR)
        return jval_str(jinja_percent(c, a.s, b));
    no_operation(c, names[op], a, b);
}

static bool compare(struct jinja_ctx *c, int op, struct jval a, struct jval b)
{
    switch (op) {
    case JO_EQ: return jval_eq(c, a, b);
    case JO_NE: return !jval_eq(c, a, b);
    case JO_IN: return jval_in(c, a, b);
    case JO_NOT_IN: return !jval_in(c, a, b);
    case JO_GE: return (unsigned)jval_cmp(c, a, b, ">=") <= 1;
    case JO_GT: return jval_cmp(c, a, b, ">") == 1;
    case JO_LE: return jval_cmp(c, a, b, "<=") <= 0;
    default: return jval_cmp(c, a, b, "<") < 0;
    }
}

/* ---- calls ---- */

bool jargs_has(const struct jargs *a, uint32_t i, const char *name)
{
    if (i < a->n)
        return true;
    for (uint32_t k = 0; name && k < a->n_kw; k++)
        if (jstr_is(a->kw[k], name))
            return true;
    return false;
}

struct jval jargs_get(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, struct jval otherwise)
{
    (void)c;
    if (i < a->n)
        return a->v[i];
    for (uint32_t k = 0; name && k < a->n_kw; k++) {
        if (!jstr_is(a->kw[k], name))
            continue;
        a->used |= 1u << (k & 31);
        return a->kw_v[k];
    }
    return otherwise;
}

void jargs_end(struct jinja_ctx *c, const struct jargs *a, const char *what, uint32_t max)
{
    if (a->n > max)
        jinja_fail(c, -EINVAL, "%s takes %u arguments, not %u", what, max, a->n);
    for (uint32_t k = 0; k < a->n_kw; k++)
        if (k > 31 || !(a->used >> k & 1))
            jinja_fail(c, -EINVAL, "%s has no argument '%.*s'", what, (int)MIN(a->kw[k]->n, 60u), a->kw[k]->s);
}

int64_t jargs_int(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, int64_t otherwise)
{
    int64_t r;
    struct jval v = jargs_get(c, a, i, name, jval_int(otherwise));
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_as_int(v, &r))
        jinja_fail(c, -EINVAL, "argument '%s' is a number, not %s", name, jval_type(v));
    return r;
}

bool jargs_bool(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, bool otherwise)
{
    return jval_truth(jargs_get(c, a, i, name, jval_bool(otherwise)));
}

enum { MAX_ARGS = 4096 };

static void push_arg(struct jinja_ctx *c, struct jargs *a, struct jval v)
{
    if (a->n >= MAX_ARGS)
        jinja_fail(c, -E2BIG, "more than %d arguments", MAX_ARGS);
    struct jval *grown = a->v;
    if (!(a->n & (a->n - 1))) { /* full at 0, 1, 2, 4, .. */
        grown = (struct jval *)jinja_alloc_bytes(c, MAX(2 * a->n, 1u) * sizeof *grown);
        if (a->n)
            memcpy(grown, a->v, a->n * sizeof *grown);
        a->v = grown;
    }
    a->v[a->n++] = v;
}

void jargs_put(struct jinja_ctx *c, struct jargs *a, const struct jstr *name, struct jval v)
{
    if (a->n_kw >= 32)
        jinja_fail(c, -E2BIG, "more than 32 arguments by name");
    if (!a->kw) {
        a->kw = jinja_alloc(c, 32 * sizeof *a->kw);
        a->kw_v = jinja_alloc(c, 32 * sizeof *a->kw_v);
    }
    for (uint32_t k = 0; k < a->n_kw; k++)
        if (jstr_eq(a->kw[k], name))
            jinja_fail(c, -EINVAL, "argument '%.*s' twice", (int)MIN(name->n, 60u), name->s);
    a->kw[a->n_kw] = name;
    a->kw_v[a->n_kw++] = v;
}

struct jargs jinja_args(struct jinja_ctx *c, const struct jnode *n)
{
    struct jargs a = { 0 };
    for (; n; n = n->next) {
        struct jval v = jinja_eval(c, n->a);
        if (n->op == 0) {
            push_arg(c, &a, v);
        } else if (n->op == 1) {
            jargs_put(c, &a, &n->name->str, v);
        } else if (n->op == 2) {
            struct jlist *l = jval_items(c, v);
            for (uint32_t i = 0; i < l->n; i++)
                push_arg(c, &a, l->v[i]);
        } else {
            if (v.t != J_DICT)
                jinja_fail(c, -EINVAL, "** wants a dict, not %s", jval_type(v));
            for (uint32_t i = 0; i < v.d->n; i++)
                jargs_put(c, &a, jval_text(c, v.d->k[i]), v.d->v[i]);
        }
    }
    return a;
}

static struct jval call_cycler(struct jinja_ctx *c, struct jcycler *y, bool joiner)
{
    if (joiner)
        return jval_str(y->at++ ? y->sep : jstr_lit(c, ""));
    struct jval v = y->items->v[y->at];
    y->at = (y->at + 1) % y->items->n;
    return v;
}

struct jval jinja_call(struct jinja_ctx *c, struct jval fn, struct jargs *a)
{
    switch (fn.t) {
    case J_UNDEFINED: jval_undefined_fail(c, fn);
    case J_MACRO: return jmacro_call(c, fn.m, a);
    case J_FUNCTION: return fn.fn->fn(c, a);
    case J_METHOD: return jmethod_call(c, *fn.self, fn.method, a);
    case J_LOOP: return jloop_call(c, fn.loop, a);
    case J_JOINER: return call_cycler(c, fn.cycler, true);
    default: jinja_fail(c, -EINVAL, "a %s cannot be called", jval_type(fn));
    }
}

/* ---- nodes ---- */

static struct jval name_value(struct jinja_ctx *c, const struct jname *name)
{
    for (const struct jscope *s = c->scope; s; s = s->parent)
        for (uint32_t i = s->n; i-- > 0;)
            if (s->var[i].name == name)
                return s->var[i].v;
    if (name->function)
        return (struct jval){ .t = J_FUNCTION, .fn = name->function };
    return jval_undefined(&name->str, J_UNDEFINED);
}

static struct jval eval_list(struct jinja_ctx *c, const struct jnode *n, enum jlist_kind kind)
{
    struct jlist *l = jlist_new(c, 0, kind);
    for (const struct jnode *k = n->a; k; k = k->next)
        jlist_push(c, l, jinja_eval(c, k->a));
    return jval_list(l);
}

static struct jval eval_dict(struct jinja_ctx *c, const struct jnode *n)
{
    struct jdict *d = jdict_new(c, 0);
    for (const struct jnode *k = n->a; k; k = k->next) {
        struct jval key = jinja_eval(c, k->a);
        jdict_set(c, d, key, jinja_eval(c, k->b));
    }
    return jval_dict(d);
}

static struct jval eval_compare(struct jinja_ctx *c, const struct jnode *n)
{
    struct jval a = jinja_eval(c, n->a);
    for (const struct jnode *k = n->b; k; k = k->next) {
        struct jval b = jinja_eval(c, k->a);
        if (!compare(c, k->op, a, b))
            return jval_bool(false);
        a = b;
    }
    return jval_bool(true);
}

static struct jval negative(struct jinja_ctx *c, struct jval v)
{
    int64_t i;
    if (v.t == J_FLOAT)
        return jval_float(-v.f);
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_as_int(v, &i))
        jinja_fail(c, -EINVAL, "'-' is not there for %s", jval_type(v));
    return int_binary(c, JO_SUB, 0, i);
}

static struct jval positive(struct jinja_ctx *c, struct jval v)
{
    int64_t i;
    if (v.t == J_FLOAT)
        return v;
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_as_int(v, &i))
        jinja_fail(c, -EINVAL, "'+' is not there for %s", jval_type(v));
    return jval_int(i);
}

static struct jval eval(struct jinja_ctx *c, const struct jnode *n)
{
    struct jval a, b;
    struct jargs args;
    switch (n->kind) {
    case JN_CONST: return n->value;
    case JN_NAME: return name_value(c, n->name);
    case JN_LIST: return eval_list(c, n, J_KIND_LIST);
    case JN_TUPLE: return eval_list(c, n, J_KIND_TUPLE);
    case JN_DICT: return eval_dict(c, n);
    case JN_ATTR: return jinja_getattr(c, jinja_eval(c, n->a), &n->name->str);
    case JN_ITEM: a = jinja_eval(c, n->a); return jinja_getitem(c, a, jinja_eval(c, n->b));
    case JN_SLICE: {
        a = jinja_eval(c, n->a);
        struct jval from = n->b ? jinja_eval(c, n->b) : jval_none(), to = n->c ? jinja_eval(c, n->c) : jval_none();
        return jinja_slice(c, a, from, to, n->d ? jinja_eval(c, n->d) : jval_none());
    }
    case JN_CALL:
        a = jinja_eval(c, n->a);
        args = jinja_args(c, n->b);
        c->line = n->line;
        return jinja_call(c, a, &args);
    case JN_FILTER:
        a = jinja_eval(c, n->a);
        args = jinja_args(c, n->b);
        c->line = n->line;
        return n->filter->fn(c, a, &args);
    case JN_TEST:
        a = jinja_eval(c, n->a);
        args = jinja_args(c, n->b);
        c->line = n->line;
        return jval_bool(n->test->fn(c, a, &args));
    case JN_NOT: return jval_bool(!jval_truth(jinja_eval(c, n->a)));
    case JN_NEG: return negative(c, jinja_eval(c, n->a));
    case JN_POS: return positive(c, jinja_eval(c, n->a));
    case JN_AND: a = jinja_eval(c, n->a); return jval_truth(a) ? jinja_eval(c, n->b) : a;
    case JN_OR: a = jinja_eval(c, n->a); return jval_truth(a) ? a : jinja_eval(c, n->b);
    case JN_BINARY: a = jinja_eval(c, n->a); b = jinja_eval(c, n->b); return jinja_binary(c, n->op, a, b);
    case JN_CONCAT:
        a = jinja_eval(c, n->a);
        b = jinja_eval(c, n->b);
        return jval_str(jstr_concat(c, jval_text(c, a), jval_text(c, b)));
    case JN_COMPARE: return eval_compare(c, n);
    case JN_COND:
        if (jval_truth(jinja_eval(c, n->b)))
            return jinja_eval(c, n->a);
        return n->c ? jinja_eval(c, n->c) : jval_undefined(NULL, J_UNDEFINED);
    default: jinja_fail(c, -EINVAL, "a node of kind %d is no expression", n->kind);
    }
}

struct jval jinja_eval(struct jinja_ctx *c, const struct jnode *n)
{
    jinja_step(c, 1);
    jinja_enter(c);
    c->line = n->line;
    struct jval v = eval(c, n);
    c->depth--;
    return v;
}
