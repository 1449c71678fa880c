/* The functions that every template sees. */
#include "jinja/jinja_impl.h"

enum { MAX_RANGE = 100000 }; /* as jinja2's sandbox has it */

static struct jval range(struct jinja_ctx *c, struct jargs *a)
{
    int64_t from = 0, to, step = 1, n;
    if (a->n < 1 || a->n > 3 || a->n_kw)
        jinja_fail(c, -EINVAL, "range wants one to three numbers");
    to = jargs_int(c, a, 0, "stop", 0);
    if (a->n > 1) {
        from = to;
        to = jargs_int(c, a, 1, "stop", 0);
    }
    step = jargs_int(c, a, 2, "step", 1);
    if (step == 0)
        jinja_fail(c, -EINVAL, "range with a step of 0");
    bool empty = step > 0 ? from >= to : from <= to;
    uint64_t span = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = empty ? 0 : (span - 1) / by + 1;
    if (count > MAX_RANGE)
        jinja_fail(c, -E2BIG, "a range of more than %d values", MAX_RANGE);
    struct jlist *l = jlist_new(c, (uint32_t)count, J_KIND_LIST);
    jinja_step(c, count / 4);
    n = from;
    for (uint64_t i = 0; i < count; i++) {
        jlist_push(c, l, jval_int(n));
        if (i + 1 < count)
            n += step;
    }
    return jval_list(l);
}

static struct jdict *dict_of(struct jinja_ctx *c, struct jargs *a)
{
    struct jdict *d = jdict_new(c, a->n_kw);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->v[i].t == J_DICT) {
            for (uint32_t k = 0; k < a->v[i].d->n; k++)
                jdict_set(c, d, a->v[i].d->k[k], a->v[i].d->v[k]);
            continue;
        }
        struct jlist *l = jval_items(c, a->v[i]);
        for (uint32_t k = 0; k < l->n; k++) {
            struct jlist *pair = jval_items(c, l->v[k]);
            if (pair->n != 2)
                jinja_fail(c, -EINVAL, "a dict is made of pairs, not of %u values", pair->n);
            jdict_set(c, d, pair->v[0], pair->v[1]);
        }
    }
    for (uint32_t i = 0; i < a->n_kw; i++)
        jdict_set(c, d, jval_str(a->kw[i]), a->kw_v[i]);
    return d;
}

static struct jval dict(struct jinja_ctx *c, struct jargs *a)
{
    return jval_dict(dict_of(c, a));
}

static struct jval namespace(struct jinja_ctx *c, struct jargs *a)
{
    struct jval v = jval_dict(dict_of(c, a));
    v.t = J_NAMESPACE;
    return v;
}

static struct jval cycler(struct jinja_ctx *c, struct jargs *a)
{
    struct jcycler *y = jinja_alloc(c, sizeof *y);
    y->items = jlist_new(c, a->n, J_KIND_LIST);
    if (!a->n)
        jinja_fail(c, -EINVAL, "cycler wants values");
    for (uint32_t i = 0; i < a->n; i++)
        jlist_push(c, y->items, a->v[i]);
    return (struct jval){ .t = J_CYCLER, .cycler = y };
}

static struct jval joiner(struct jinja_ctx *c, struct jargs *a)
{
    struct jcycler *y = jinja_alloc(c, sizeof *y);
    y->sep = jval_text(c, jargs_get(c, a, 0, "sep", jval_str(jstr_lit(c, ", "))));
    jargs_end(c, a, "joiner", 1);
    return (struct jval){ .t = J_JOINER, .cycler = y };
}

static struct jval raise_exception(struct jinja_ctx *c, struct jargs *a)
{
    const struct jstr *s = jval_text(c, jargs_get(c, a, 0, "message", jval_str(jstr_lit(c, "the template refuses"))));
    jinja_fail(c, -EPERM, "%.*s", (int)MIN(s->n, 390u), s->s);
}

static struct jval strftime_now(struct jinja_ctx *c, struct jargs *a)
{
    const struct jstr *form = jval_text(c, jargs_get(c, a, 0, "format", jval_str(jstr_lit(c, "%Y-%m-%d"))));
    char out[512];
    struct tm tm;
    time_t now = time(NULL);
    jargs_end(c, a, "strftime_now", 1);
    if (c->opts->now)
        tm = *c->opts->now;
    else
        localtime_r(&now, &tm);
    if (!form->n)
        return jval_str(form);
    size_t n = form->n < 200 ? strftime(out, sizeof out, jstr_z(c, form), &tm) : 0;
    if (!n)
        jinja_fail(c, -EINVAL, "strftime_now: a format that makes nothing or too much");
    return jval_str(jstr_copy(c, out, n, (enum jorigin)(form->origin == J_OWN ? J_OWN : J_DATA)));
}

static const struct jfunction functions[] = {
    { "range", range },   { "dict", dict },
    { "namespace", namespace }, { "cycler", cycler },
    { "joiner", joiner }, { "raise_exception", raise_exception },
    { "strftime_now", strftime_now },
};

const struct jfunction *jfunction_find(const char *s, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (strlen(functions[i].name) == n && memcmp(functions[i].name, s, n) == 0)
            return &functions[i];
    return NULL;
}
