/* Filters over lists and dicts, and `default`; finding a filter. */
#include "jinja/jinja_impl.h"

/* For map, select and their kin, which take whatever is false for nothing. */
static struct jlist *items_if_true(struct jinja_ctx *c, struct jval v)
{
    return jval_truth(v) ? jval_items(c, v) : jlist_new(c, 0, J_KIND_LIST);
}

static struct jlist *items_of(struct jinja_ctx *c, struct jval v)
{
    struct jlist *l = jval_items(c, v);
    jinja_step(c, l->n / 4);
    return l;
}

static struct jval generator(struct jlist *l)
{
    l->kind = J_KIND_ITER;
    return jval_list(l);
}

struct jval jinja_fold(struct jinja_ctx *c, struct jval v)
{
    return v.t == J_STR ? jval_str(jinja_case(c, v.s, J_LOWER)) : v;
}

/* 'a.b.0' */
struct jval jinja_attr_path(struct jinja_ctx *c, struct jval v, struct jval path)
{
    int64_t i;
    if (path.t == J_INT)
        return jinja_getitem(c, v, path);
    if (path.t != J_STR)
        jinja_fail(c, -EINVAL, "an attribute is a str, not %s", jval_type(path));
    struct jlist *parts = jinja_split(c, path.s, jstr_lit(c, "."), -1, false).l;
    for (uint32_t k = 0; k < parts->n; k++) {
        const struct jstr *p = parts->v[k].s;
        bool digits = p->n && p->n < 10;
        i = 0;
        for (uint32_t d = 0; d < p->n && digits; d++) {
            digits = p->s[d] >= '0' && p->s[d] <= '9';
            i = i * 10 + (p->s[d] - '0');
        }
        v = jinja_getitem(c, v, digits ? jval_int(i) : parts->v[k]);
    }
    return v;
}

/* Merge sort, which keeps the order of what is the same. */
void jinja_sort(struct jinja_ctx *c, struct jval *v, struct jval *keys, uint32_t n, bool reverse)
{
    if (n < 2)
        return;
    struct jval *to = (struct jval *)jinja_alloc_bytes(c, 2 * (size_t)n * sizeof *to), *to_keys = to + n;
    for (uint32_t width = 1; width < n; width = width > n / 2 ? n : 2 * width) {
        for (uint32_t from = 0; from < n;) {
            uint32_t mid = MIN(n - from, width) + from, end = MIN(n - mid, width) + mid, a = from, b = mid;
            for (uint32_t k = from; k < end; k++) {
                int d = a < mid && b < end ? jval_cmp(c, keys[b], keys[a], "<") : 0;
                bool right = a == mid || (b < end && (reverse ? d == 1 : d == -1));
                uint32_t pick = right ? b++ : a++;
                to[k] = v[pick];
                to_keys[k] = keys[pick];
            }
            from = end;
        }
        memcpy(v, to, n * sizeof *v);
        memcpy(keys, to_keys, n * sizeof *keys);
    }
}

static struct jval f_default(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval other = jargs_get(c, a, 0, "default_value", jval_str(jstr_lit(c, "")));
    bool falsy = jargs_bool(c, a, 1, "boolean", false);
    jargs_end(c, a, "default", 2);
    return v.t == J_UNDEFINED || (falsy && !jval_truth(v)) ? other : v;
}

static struct jval f_length(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "length", 0);
    return jval_int((int64_t)jval_len(c, v));
}

static struct jval f_list(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "list", 0);
    struct jlist *from = items_of(c, v), *l = jlist_new(c, from->n, J_KIND_LIST);
    for (uint32_t i = 0; i < from->n; i++)
        jlist_push(c, l, from->v[i]);
    return jval_list(l);
}

static struct jval f_first(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "first", 0);
    struct jlist *l = jval_items(c, v);
    return l->n ? l->v[0] : jval_undefined(NULL, J_UNDEFINED);
}

static struct jval f_last(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "last", 0);
    if (v.t == J_LIST && v.l->kind == J_KIND_ITER)
        jinja_fail(c, -EINVAL, "a generator has no last value; make it a list");
    struct jlist *l = jval_items(c, v);
    return l->n ? l->v[l->n - 1] : jval_undefined(NULL, J_UNDEFINED);
}

static struct jval f_join(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    const struct jstr *sep = jval_text(c, jargs_get(c, a, 0, "d", jval_str(jstr_lit(c, ""))));
    struct jval attr = jargs_get(c, a, 1, "attribute", jval_none());
    struct jout o = jout_begin();
    jargs_end(c, a, "join", 2);
    struct jlist *l = items_of(c, v);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            jout_str(c, &o, sep);
        jinja_step(c, 1);
        jout_str(c, &o, jval_text(c, attr.t == J_NONE ? l->v[i] : jinja_attr_path(c, l->v[i], attr)));
    }
    return jval_str(jout_end(c, &o));
}

static struct jval f_reverse(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    jargs_end(c, a, "reverse", 0);
    struct jlist *from = items_of(c, v), *l = jlist_new(c, from->n, J_KIND_LIST);
    struct jout o = jout_begin();
    for (uint32_t i = from->n; i-- > 0;) {
        if (v.t == J_STR)
            jout_str(c, &o, from->v[i].s);
        else
            jlist_push(c, l, from->v[i]);
    }
    return v.t == J_STR ? jval_str(jout_end(c, &o)) : generator(l);
}

static struct jval f_items(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jlist *l = jlist_new(c, 0, J_KIND_ITER);
    jargs_end(c, a, "items", 0);
    if (v.t == J_UNDEFINED)
        return jval_list(l);
    if (v.t != J_DICT)
        jinja_fail(c, -EINVAL, "items wants a dict, not %s", jval_type(v));
    for (uint32_t i = 0; i < v.d->n; i++)
        jlist_push(c, l, jval_pair(c, v.d->k[i], v.d->v[i]));
    return jval_list(l);
}

static struct jval f_dictsort(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    bool cased = jargs_bool(c, a, 0, "case_sensitive", false);
    const struct jstr *by = jval_text(c, jargs_get(c, a, 1, "by", jval_str(jstr_lit(c, "key"))));
    bool reverse = jargs_bool(c, a, 2, "reverse", false);
    jargs_end(c, a, "dictsort", 3);
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (v.t != J_DICT)
        jinja_fail(c, -EINVAL, "dictsort wants a dict, not %s", jval_type(v));
    struct jlist *l = jlist_new(c, v.d->n, J_KIND_LIST), *keys = jlist_new(c, v.d->n, J_KIND_LIST);
    for (uint32_t i = 0; i < v.d->n; i++) {
        struct jval key = jstr_is(by, "value") ? v.d->v[i] : v.d->k[i];
        jlist_push(c, l, jval_pair(c, v.d->k[i], v.d->v[i]));
        jlist_push(c, keys, cased ? key : jinja_fold(c, key));
    }
    jinja_sort(c, l->v, keys->v, l->n, reverse);
    return jval_list(l);
}

/* The keys by which values are compared. */
static struct jlist *sort_keys(struct jinja_ctx *c, const struct jlist *l, struct jval attr, bool cased)
{
    struct jlist *keys = jlist_new(c, l->n, J_KIND_LIST);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval k = attr.t == J_NONE ? l->v[i] : jinja_attr_path(c, l->v[i], attr);
        jlist_push(c, keys, cased ? k : jinja_fold(c, k));
    }
    return keys;
}

static struct jval f_sort(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    bool reverse = jargs_bool(c, a, 0, "reverse", false), cased = jargs_bool(c, a, 1, "case_sensitive", false);
    struct jval attr = jargs_get(c, a, 2, "attribute", jval_none());
    jargs_end(c, a, "sort", 3);
    struct jval copy = f_list(c, v, &(struct jargs){ 0 });
    jinja_sort(c, copy.l->v, sort_keys(c, copy.l, attr, cased)->v, copy.l->n, reverse);
    return copy;
}

static struct jval f_unique(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    bool cased = jargs_bool(c, a, 0, "case_sensitive", false);
    struct jval attr = jargs_get(c, a, 1, "attribute", jval_none());
    jargs_end(c, a, "unique", 2);
    struct jlist *from = items_of(c, v), *keys = sort_keys(c, from, attr, cased), *l = jlist_new(c, 0, J_KIND_ITER);
    struct jdict *seen = jdict_new(c, 0);
    for (uint32_t i = 0; i < from->n; i++) {
        if (jdict_get(c, seen, keys->v[i]))
            continue;
        jdict_set(c, seen, keys->v[i], jval_none());
        jlist_push(c, l, from->v[i]);
    }
    return jval_list(l);
}

static struct jval extreme(struct jinja_ctx *c, struct jval v, struct jargs *a, int sign, const char *name)
{
    bool cased = jargs_bool(c, a, 0, "case_sensitive", false);
    struct jval attr = jargs_get(c, a, 1, "attribute", jval_none());
    jargs_end(c, a, name, 2);
    struct jlist *l = items_of(c, v), *keys = sort_keys(c, l, attr, cased);
    uint32_t best = 0;
    for (uint32_t i = 1; i < l->n; i++)
        if (jval_cmp(c, keys->v[i], keys->v[best], "<") == sign)
            best = i;
    return l->n ? l->v[best] : jval_undefined(NULL, J_UNDEFINED);
}

static struct jval f_min(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return extreme(c, v, a, -1, "min");
}

static struct jval f_max(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return extreme(c, v, a, 1, "max");
}

static struct jval f_sum(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval attr = jargs_get(c, a, 0, "attribute", jval_none()), sum = jargs_get(c, a, 1, "start", jval_int(0));
    jargs_end(c, a, "sum", 2);
    struct jlist *l = items_of(c, v);
    for (uint32_t i = 0; i < l->n; i++)
        sum = jinja_binary(c, JO_ADD, sum, attr.t == J_NONE ? l->v[i] : jinja_attr_path(c, l->v[i], attr));
    return sum;
}

/* ---- map, select and their kin ---- */

/* The arguments behind the first `skip`. */
static struct jargs rest(const struct jargs *a, uint32_t skip)
{
    struct jargs r = *a;
    skip = MIN(skip, a->n);
    r.v = skip ? r.v + skip : r.v;
    r.n -= skip;
    r.used = 0;
    return r;
}

static const struct jstr *first_str(struct jinja_ctx *c, const struct jargs *a, const char *what)
{
    if (!a->n || a->v[0].t != J_STR)
        jinja_fail(c, -EINVAL, "%s wants a name", what);
    return a->v[0].s;
}

static struct jval f_map(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jlist *from = items_if_true(c, v), *l = jlist_new(c, from->n, J_KIND_ITER);
    if (!a->n && jargs_has(a, UINT32_MAX, "attribute")) {
        struct jval attr = jargs_get(c, a, UINT32_MAX, "attribute", jval_none());
        struct jval other = jargs_get(c, a, UINT32_MAX, "default", jval_undefined(NULL, J_UNDEFINED));
        jargs_end(c, a, "map", 0);
        for (uint32_t i = 0; i < from->n; i++) {
            struct jval x = jinja_attr_path(c, from->v[i], attr);
            jlist_push(c, l, x.t == J_UNDEFINED && other.t != J_UNDEFINED ? other : x);
        }
        return jval_list(l);
    }
    const struct jstr *name = first_str(c, a, "map");
    const struct jfilter *f = jfilter_find(name->s, name->n);
    if (!f)
        jinja_fail(c, -EINVAL, "no filter named '%.*s'", (int)MIN(name->n, 60u), name->s);
    for (uint32_t i = 0; i < from->n; i++) {
        struct jargs r = rest(a, 1);
        jinja_step(c, 1);
        jlist_push(c, l, f->fn(c, from->v[i], &r));
    }
    return jval_list(l);
}

/* Those for which the test says `want`; by_attr: of an attribute, whose name comes first. No test: truth. */
static struct jval choose(struct jinja_ctx *c, struct jval v, struct jargs *a, bool by_attr, bool want)
{
    struct jlist *from = items_if_true(c, v), *l = jlist_new(c, 0, J_KIND_ITER);
    struct jval attr = jval_none();
    struct jargs r = *a;
    if (by_attr) {
        attr = jval_str(first_str(c, a, "selectattr"));
        r = rest(a, 1);
    }
    const struct jtest *t = NULL;
    if (r.n) {
        const struct jstr *name = first_str(c, &r, "select");
        t = jtest_find(name->s, name->n);
        if (!t)
            jinja_fail(c, -EINVAL, "no test named '%.*s'", (int)MIN(name->n, 60u), name->s);
        r = rest(&r, 1);
    }
    for (uint32_t i = 0; i < from->n; i++) {
        struct jval x = by_attr ? jinja_attr_path(c, from->v[i], attr) : from->v[i];
        struct jargs own = r;
        jinja_step(c, 1);
        if ((t ? t->fn(c, x, &own) : jval_truth(x)) == want)
            jlist_push(c, l, from->v[i]);
    }
    return jval_list(l);
}

static struct jval f_select(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return choose(c, v, a, false, true);
}

static struct jval f_reject(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return choose(c, v, a, false, false);
}

static struct jval f_selectattr(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return choose(c, v, a, true, true);
}

static struct jval f_rejectattr(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    return choose(c, v, a, true, false);
}

static struct jval f_groupby(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    struct jval attr = jargs_get(c, a, 0, "attribute", jval_none());
    struct jval other = jargs_get(c, a, 1, "default", jval_undefined(NULL, J_UNDEFINED));
    bool cased = jargs_bool(c, a, 2, "case_sensitive", false);
    jargs_end(c, a, "groupby", 3);
    struct jval copy = f_list(c, v, &(struct jargs){ 0 });
    struct jlist *l = copy.l, *raw = jlist_new(c, l->n, J_KIND_LIST), *groups = jlist_new(c, 0, J_KIND_LIST);
    struct jlist *keys = jlist_new(c, l->n, J_KIND_LIST), *order = jlist_new(c, l->n, J_KIND_LIST);
    for (uint32_t i = 0; i < l->n; i++) {
        struct jval k = jinja_attr_path(c, l->v[i], attr);
        k = k.t == J_UNDEFINED && other.t != J_UNDEFINED ? other : k;
        jlist_push(c, raw, k);
        jlist_push(c, keys, cased ? k : jinja_fold(c, k));
        jlist_push(c, order, jval_int(i));
    }
    jinja_sort(c, order->v, keys->v, l->n, false);
    struct jlist *group = NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!group || !jval_eq(c, keys->v[i - 1], keys->v[i])) {
            group = jlist_new(c, 0, J_KIND_LIST);
            jlist_push(c, groups, jval_pair(c, raw->v[order->v[i].i], jval_list(group)));
        }
        jlist_push(c, group, l->v[order->v[i].i]);
    }
    return jval_list(groups);
}

static struct jval f_batch(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    int64_t size = jargs_int(c, a, 0, "linecount", 0);
    struct jval fill = jargs_get(c, a, 1, "fill_with", jval_none());
    jargs_end(c, a, "batch", 2);
    if (size < 1 || size > INT32_MAX)
        jinja_fail(c, -EINVAL, "batch of %lld values", (long long)size);
    struct jlist *from = items_of(c, v), *all = jlist_new(c, 0, J_KIND_ITER), *one = NULL;
    for (uint32_t i = 0; i < from->n; i++) {
        if (i % size == 0) {
            one = jlist_new(c, 0, J_KIND_LIST);
            jlist_push(c, all, jval_list(one));
        }
        jlist_push(c, one, from->v[i]);
    }
    while (one && fill.t != J_NONE && one->n < size) {
        jinja_step(c, 1);
        jlist_push(c, one, fill);
    }
    return jval_list(all);
}

static struct jval f_attr(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    const struct jstr *name = first_str(c, a, "attr");
    jargs_end(c, a, "attr", 1);
    if (v.t == J_DICT) { /* attributes alone, no keys */
        struct jval m = { .t = J_METHOD };
        if (!jmethod_find(v, name, &m.method))
            return jval_undefined(name, J_DICT);
    }
    return jinja_getattr(c, v, name);
}

const struct jfilter jfilter_list_table[] = {
    { "default", f_default },   { "d", f_default },           { "length", f_length },         { "count", f_length },
    { "list", f_list },         { "first", f_first },         { "last", f_last },             { "join", f_join },
    { "reverse", f_reverse },   { "items", f_items },         { "dictsort", f_dictsort },     { "sort", f_sort },
    { "unique", f_unique },     { "min", f_min },             { "max", f_max },               { "sum", f_sum },
    { "map", f_map },           { "select", f_select },       { "reject", f_reject },         { "selectattr", f_selectattr },
    { "rejectattr", f_rejectattr }, { "groupby", f_groupby }, { "batch", f_batch },           { "attr", f_attr },
    { NULL, NULL },
};

const struct jfilter *jfilter_find(const char *s, size_t n)
{
    const struct jfilter *tables[] = { jfilter_text_table, jfilter_list_table };
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const struct jfilter *f = tables[t]; f->name; f++)
            if (strlen(f->name) == n && memcmp(f->name, s, n) == 0)
                return f;
    return NULL;
}
