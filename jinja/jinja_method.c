/* Methods of str, list and dict, by Python's names, and of loop and cycler. What Python has and is not here has a
 * name, so that it is refused when it is called and hides no key of a dict. */
#include "jinja/jinja_impl.h"

/* X(type, name) */
#define METHODS(X)                                                                                                     \
    X(J_STR, split) X(J_STR, rsplit) X(J_STR, splitlines) X(J_STR, strip) X(J_STR, lstrip) X(J_STR, rstrip)            \
    X(J_STR, startswith) X(J_STR, endswith) X(J_STR, replace) X(J_STR, upper) X(J_STR, lower) X(J_STR, title)          \
    X(J_STR, capitalize) X(J_STR, swapcase) X(J_STR, format) X(J_STR, join) X(J_STR, find) X(J_STR, rfind)             \
    X(J_STR, count) X(J_STR, index) X(J_STR, isdigit) X(J_STR, isspace) X(J_STR, isalpha) X(J_STR, isalnum)            \
    X(J_STR, isupper) X(J_STR, islower) X(J_STR, partition) X(J_STR, rpartition) X(J_STR, zfill) X(J_STR, removeprefix) \
    X(J_STR, removesuffix) X(J_STR, encode) X(J_STR, center) X(J_STR, ljust) X(J_STR, rjust) X(J_STR, casefold)        \
    X(J_STR, isdecimal) X(J_STR, isnumeric) X(J_STR, istitle) X(J_STR, isidentifier) X(J_STR, isprintable)             \
    X(J_STR, isascii) X(J_STR, rindex) X(J_STR, translate) X(J_STR, maketrans) X(J_STR, expandtabs)                    \
    X(J_STR, format_map)                                                                                               \
    X(J_LIST, append) X(J_LIST, extend) X(J_LIST, insert) X(J_LIST, pop) X(J_LIST, index) X(J_LIST, count)             \
    X(J_LIST, reverse) X(J_LIST, copy) X(J_LIST, clear) X(J_LIST, remove) X(J_LIST, sort)                              \
    X(J_DICT, items) X(J_DICT, keys) X(J_DICT, values) X(J_DICT, get) X(J_DICT, update) X(J_DICT, pop)                 \
    X(J_DICT, setdefault) X(J_DICT, copy) X(J_DICT, clear) X(J_DICT, fromkeys) X(J_DICT, popitem)                      \
    X(J_LOOP, cycle) X(J_LOOP, changed) X(J_CYCLER, next) X(J_CYCLER, reset)

enum jmethod {
#define X(type, name) type##_##name,
    METHODS(X)
#undef X
};

static const struct {
    uint8_t type;
    const char *name;
} methods[] = {
#define X(type, name) { type, #name },
    METHODS(X)
#undef X
};

bool jmethod_find(struct jval obj, const struct jstr *name, uint8_t *method)
{
    if (obj.t == J_LIST && obj.l->kind != J_KIND_LIST && !jstr_is(name, "index") && !jstr_is(name, "count"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (methods[i].type != obj.t || !jstr_is(name, methods[i].name))
            continue;
        *method = (uint8_t)i;
        return true;
    }
    return false;
}

static const struct jstr *want_str(struct jinja_ctx *c, struct jval v, const char *what)
{
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (v.t != J_STR)
        jinja_fail(c, -EINVAL, "%s wants a str, not %s", what, jval_type(v));
    return v.s;
}

static const struct jstr *str_arg(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *what)
{
    if (i >= a->n)
        jinja_fail(c, -EINVAL, "%s wants %u arguments", what, i + 1);
    return want_str(c, a->v[i], what);
}

/* ---- str ---- */

static bool ends_or_begins(struct jinja_ctx *c, const struct jstr *s, struct jval with, bool end, const char *what)
{
    if (with.t == J_LIST && with.l->kind == J_KIND_TUPLE) {
        for (uint32_t i = 0; i < with.l->n; i++)
            if (ends_or_begins(c, s, jval_str(want_str(c, with.l->v[i], what)), end, what))
                return true;
        return false;
    }
    const struct jstr *w = want_str(c, with, what);
    return w->n <= s->n && memcmp(s->s + (end ? s->n - w->n : 0), w->s, w->n) == 0;
}

static struct jval split(struct jinja_ctx *c, const struct jstr *s, struct jargs *a, bool right)
{
    struct jval sep = jargs_get(c, a, 0, "sep", jval_none());
    int64_t max = jargs_int(c, a, 1, "maxsplit", -1);
    jargs_end(c, a, "split", 2);
    return jinja_split(c, s, sep.t == J_NONE ? NULL : want_str(c, sep, "split"), max, right);
}

static struct jval splitlines(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    bool keep = jargs_bool(c, a, 0, "keepends", false);
    struct jlist *l = jlist_new(c, 0, J_KIND_LIST);
    jargs_end(c, a, "splitlines", 1);
    for (size_t at = 0, i, k; at < s->n;) {
        uint32_t cp = 0;
        for (i = at; i < s->n; i += k) {
            cp = jstr_char(s, i, &k);
            if ((cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029)
                break;
        }
        size_t end = MIN(i, s->n), next = end < s->n ? end + k : end;
        if (end < s->n && cp == '\r' && next < s->n && s->s[next] == '\n')
            next++;
        jlist_push(c, l, jval_str(jstr_sub(c, s, at, keep ? next : end)));
        at = next;
    }
    return jval_list(l);
}

static const char *find_last(const struct jstr *s, const struct jstr *what)
{
    for (size_t i = s->n >= what->n ? s->n - what->n + 1 : 0; i-- > 0;)
        if (memcmp(s->s + i, what->s, what->n) == 0)
            return s->s + i;
    return NULL;
}

static struct jval find(struct jinja_ctx *c, const struct jstr *s, struct jargs *a, bool last, bool must)
{
    const struct jstr *what = str_arg(c, a, 0, "find");
    jargs_end(c, a, "find (which knows no range here)", 1);
    jinja_step(c, last ? s->n : s->n / 16);
    const char *p = last ? find_last(s, what) : jstr_find(s, 0, what);
    if (!p && must)
        jinja_fail(c, -EINVAL, "index: the str is not in there");
    return jval_int(p ? (int64_t)jstr_len(c, jstr_sub(c, s, 0, (size_t)(p - s->s))) : -1);
}

static struct jval count(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    const struct jstr *what = str_arg(c, a, 0, "count");
    int64_t n = 0;
    jargs_end(c, a, "count", 1);
    if (!what->n)
        return jval_int((int64_t)jstr_len(c, s) + 1);
    jinja_step(c, s->n / 16);
    for (const char *p = s->s; (p = jstr_find(s, (size_t)(p - s->s), what)); p += what->n)
        n++;
    return jval_int(n);
}

static struct jval partition(struct jinja_ctx *c, const struct jstr *s, struct jargs *a, bool last)
{
    const struct jstr *sep = str_arg(c, a, 0, "partition");
    struct jlist *l = jlist_new(c, 3, J_KIND_TUPLE);
    if (!sep->n)
        jinja_fail(c, -EINVAL, "partition at an empty str");
    jinja_step(c, s->n / 16);
    const char *p = last ? find_last(s, sep) : jstr_find(s, 0, sep);
    size_t at = p ? (size_t)(p - s->s) : 0;
    struct jval whole = jval_str(s), none = jval_str(jstr_lit(c, ""));
    jlist_push(c, l, p ? jval_str(jstr_sub(c, s, 0, at)) : last ? none : whole);
    jlist_push(c, l, p ? jval_str(jstr_sub(c, s, at, at + sep->n)) : none);
    jlist_push(c, l, p ? jval_str(jstr_sub(c, s, at + sep->n, s->n)) : last ? whole : none);
    return jval_list(l);
}

static struct jval join(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    struct jout o = jout_begin();
    if (a->n != 1)
        jinja_fail(c, -EINVAL, "join wants one argument");
    struct jlist *l = jval_items(c, a->v[0]);
    for (uint32_t i = 0; i < l->n; i++) {
        jinja_step(c, 1);
        if (i)
            jout_str(c, &o, s);
        jout_str(c, &o, want_str(c, l->v[i], "join"));
    }
    return jval_str(jout_end(c, &o));
}

/* isdigit and its kin, for ASCII; letters beyond it count as letters. */
static bool all_are(const struct jstr *s, uint8_t method)
{
    bool cased = false;
    if (!s->n)
        return false;
    for (size_t i = 0, k; i < s->n; i += k) {
        uint32_t cp = jstr_char(s, i, &k);
        bool digit = cp >= '0' && cp <= '9', upper = cp >= 'A' && cp <= 'Z', lower = cp >= 'a' && cp <= 'z';
        bool letter = upper || lower || cp >= 0xc0;
        cased |= upper || lower;
        if ((method == J_STR_isdigit && !digit) || (method == J_STR_isspace && !jinja_space(cp)) ||
            (method == J_STR_isalpha && !letter) || (method == J_STR_isalnum && !letter && !digit) ||
            (method == J_STR_isupper && lower) || (method == J_STR_islower && upper))
            return false;
    }
    return cased || (method != J_STR_isupper && method != J_STR_islower);
}

static struct jval zfill(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    struct jout o = jout_begin();
    int64_t width = jargs_int(c, a, 0, "width", 0), n = (int64_t)jstr_len(c, s);
    bool sign = s->n && (s->s[0] == '-' || s->s[0] == '+');
    if (width > 100000)
        jinja_fail(c, -E2BIG, "zfill to more than 100000 characters");
    jout_str(c, &o, jstr_sub(c, s, 0, sign));
    for (; n < width; n++)
        jout_add(c, &o, "0", 1, J_OWN);
    jout_str(c, &o, jstr_sub(c, s, sign, s->n));
    return jval_str(jout_end(c, &o));
}

static struct jval strip(struct jinja_ctx *c, const struct jstr *s, struct jargs *a, bool left, bool right)
{
    struct jval chars = jargs_get(c, a, 0, NULL, jval_none());
    jargs_end(c, a, "strip", 1);
    return jval_str(jinja_strip(c, s, chars, left, right));
}

static struct jval remove_edge(struct jinja_ctx *c, const struct jstr *s, struct jargs *a, bool end)
{
    const struct jstr *w = str_arg(c, a, 0, end ? "removesuffix" : "removeprefix");
    if (!ends_or_begins(c, s, jval_str(w), end, ""))
        return jval_str(s);
    return jval_str(end ? jstr_sub(c, s, 0, s->n - w->n) : jstr_sub(c, s, w->n, s->n));
}

static struct jval replace(struct jinja_ctx *c, const struct jstr *s, struct jargs *a)
{
    const struct jstr *old = str_arg(c, a, 0, "replace"), *by = str_arg(c, a, 1, "replace");
    int64_t max = jargs_int(c, a, 2, "count", -1);
    jargs_end(c, a, "replace", 3);
    return jval_str(jinja_replace(c, s, old, by, max));
}

static struct jval call_str(struct jinja_ctx *c, const struct jstr *s, uint8_t m, struct jargs *a)
{
    switch (m) {
    case J_STR_split: return split(c, s, a, false);
    case J_STR_rsplit: return split(c, s, a, true);
    case J_STR_splitlines: return splitlines(c, s, a);
    case J_STR_strip: return strip(c, s, a, true, true);
    case J_STR_lstrip: return strip(c, s, a, true, false);
    case J_STR_rstrip: return strip(c, s, a, false, true);
    case J_STR_startswith:
    case J_STR_endswith:
        if (a->n != 1)
            jinja_fail(c, -EINVAL, "%s wants one argument", methods[m].name);
        return jval_bool(ends_or_begins(c, s, a->v[0], m == J_STR_endswith, methods[m].name));
    case J_STR_replace: return replace(c, s, a);
    case J_STR_upper: return jval_str(jinja_case(c, s, J_UPPER));
    case J_STR_lower: return jval_str(jinja_case(c, s, J_LOWER));
    case J_STR_title: return jval_str(jinja_case(c, s, J_TITLE));
    case J_STR_capitalize: return jval_str(jinja_case(c, s, J_CAPITALIZE));
    case J_STR_swapcase: return jval_str(jinja_case(c, s, J_SWAP));
    case J_STR_format: return jval_str(jinja_format(c, s, a));
    case J_STR_join: return join(c, s, a);
    case J_STR_find: return find(c, s, a, false, false);
    case J_STR_rfind: return find(c, s, a, true, false);
    case J_STR_index: return find(c, s, a, false, true);
    case J_STR_count: return count(c, s, a);
    case J_STR_isdigit:
    case J_STR_isspace:
    case J_STR_isalpha:
    case J_STR_isalnum:
    case J_STR_isupper:
    case J_STR_islower: return jval_bool(all_are(s, m));
    case J_STR_partition: return partition(c, s, a, false);
    case J_STR_rpartition: return partition(c, s, a, true);
    case J_STR_zfill: return zfill(c, s, a);
    case J_STR_removeprefix: return remove_edge(c, s, a, false);
    case J_STR_removesuffix: return remove_edge(c, s, a, true);
    default: jinja_fail(c, -EINVAL, "the method '%s' of str is not supported here", methods[m].name);
    }
}

/* ---- list ---- */

static struct jval list_pop(struct jinja_ctx *c, struct jlist *l, struct jargs *a)
{
    int64_t i = jargs_int(c, a, 0, "index", -1);
    i = i < 0 ? i + l->n : i;
    if (i < 0 || i >= l->n)
        jinja_fail(c, -EINVAL, "pop from a list of %u values at %lld", l->n, (long long)i);
    struct jval v = l->v[i];
    memmove(l->v + i, l->v + i + 1, (size_t)(l->n - i - 1) * sizeof *l->v);
    jinja_step(c, (uint64_t)(l->n - i) / 4);
    l->n--;
    return v;
}

static struct jval list_insert(struct jinja_ctx *c, struct jlist *l, struct jargs *a)
{
    int64_t i = jargs_int(c, a, 0, "index", 0);
    if (a->n != 2)
        jinja_fail(c, -EINVAL, "insert wants two arguments");
    i = i < 0 ? MAX(i + (int64_t)l->n, 0) : MIN(i, (int64_t)l->n);
    jlist_push(c, l, a->v[1]);
    jinja_step(c, l->n / 4);
    memmove(l->v + i + 1, l->v + i, (size_t)(l->n - 1 - i) * sizeof *l->v);
    l->v[i] = a->v[1];
    return jval_none();
}

static struct jval call_list(struct jinja_ctx *c, struct jlist *l, uint8_t m, struct jargs *a)
{
    int64_t n = 0;
    struct jlist *other;
    if ((m == J_LIST_append || m == J_LIST_extend || m == J_LIST_index || m == J_LIST_count) && a->n != 1)
        jinja_fail(c, -EINVAL, "%s wants one argument", methods[m].name);
    switch (m) {
    case J_LIST_append: jlist_push(c, l, a->v[0]); return jval_none();
    case J_LIST_extend:
        other = jval_items(c, a->v[0]);
        for (uint32_t i = 0, k = other->n; i < k; i++)
            jlist_push(c, l, other->v[i]);
        jinja_step(c, other->n);
        return jval_none();
    case J_LIST_insert: return list_insert(c, l, a);
    case J_LIST_pop: return list_pop(c, l, a);
    case J_LIST_index:
        for (uint32_t i = 0; i < l->n; i++)
            if (jval_eq(c, l->v[i], a->v[0]))
                return jval_int(i);
        jinja_fail(c, -EINVAL, "index: the value is not in the list");
    case J_LIST_count:
        for (uint32_t i = 0; i < l->n; i++)
            n += jval_eq(c, l->v[i], a->v[0]);
        return jval_int(n);
    case J_LIST_reverse:
        jinja_step(c, l->n);
        for (uint32_t i = 0; i < l->n / 2; i++) {
            struct jval v = l->v[i];
            l->v[i] = l->v[l->n - 1 - i];
            l->v[l->n - 1 - i] = v;
        }
        return jval_none();
    case J_LIST_copy:
        jinja_step(c, l->n);
        other = jlist_new(c, l->n, J_KIND_LIST);
        for (uint32_t i = 0; i < l->n; i++)
            jlist_push(c, other, l->v[i]);
        return jval_list(other);
    case J_LIST_clear: l->n = 0; return jval_none();
    default: jinja_fail(c, -EINVAL, "the method '%s' of list is not supported here", methods[m].name);
    }
}

/* ---- dict ---- */

static struct jval view(struct jinja_ctx *c, struct jdict *d, uint8_t m)
{
    struct jlist *l = jlist_new(c, d->n, J_KIND_VIEW);
    jinja_step(c, d->n);
    for (uint32_t i = 0; i < d->n; i++)
        jlist_push(c, l, m == J_DICT_items ? jval_pair(c, d->k[i], d->v[i]) : m == J_DICT_keys ? d->k[i] : d->v[i]);
    return jval_list(l);
}

static void update(struct jinja_ctx *c, struct jdict *d, struct jval from)
{
    if (from.t != J_DICT)
        jinja_fail(c, -EINVAL, "update wants a dict, not %s", jval_type(from));
    for (uint32_t i = 0; i < from.d->n; i++)
        jdict_set(c, d, from.d->k[i], from.d->v[i]);
}

static struct jval dict_pop(struct jinja_ctx *c, struct jdict *d, struct jargs *a)
{
    struct jval *at = jdict_get(c, d, a->v[0]);
    if (at) {
        struct jval v = *at;
        jdict_remove(c, d, (uint32_t)(at - d->v));
        return v;
    }
    if (a->n < 2)
        jinja_fail(c, -EINVAL, "pop: the dict has no such key");
    return a->v[1];
}

static struct jval call_dict(struct jinja_ctx *c, struct jdict *d, uint8_t m, struct jargs *a)
{
    struct jval *at;
    struct jdict *copy;
    if ((m == J_DICT_get || m == J_DICT_pop || m == J_DICT_setdefault) && (a->n < 1 || a->n > 2 || a->n_kw))
        jinja_fail(c, -EINVAL, "%s wants a key and perhaps a default", methods[m].name);
    switch (m) {
    case J_DICT_items:
    case J_DICT_keys:
    case J_DICT_values: jargs_end(c, a, methods[m].name, 0); return view(c, d, m);
    case J_DICT_get: at = jdict_get(c, d, a->v[0]); return at ? *at : a->n > 1 ? a->v[1] : jval_none();
    case J_DICT_pop: return dict_pop(c, d, a);
    case J_DICT_setdefault:
        at = jdict_get(c, d, a->v[0]);
        if (at)
            return *at;
        jdict_set(c, d, a->v[0], a->n > 1 ? a->v[1] : jval_none());
        return a->n > 1 ? a->v[1] : jval_none();
    case J_DICT_update:
        if (a->n)
            update(c, d, a->v[0]);
        for (uint32_t i = 0; i < a->n_kw; i++)
            jdict_set(c, d, jval_str(a->kw[i]), a->kw_v[i]);
        return jval_none();
    case J_DICT_copy:
        copy = jdict_new(c, d->n);
        update(c, copy, jval_dict(d));
        return jval_dict(copy);
    case J_DICT_clear:
        d->n = 0;
        d->index = NULL;
        return jval_none();
    default: jinja_fail(c, -EINVAL, "the method '%s' of dict is not supported here", methods[m].name);
    }
}

/* ---- loop and cycler ---- */

static struct jval call_loop(struct jinja_ctx *c, struct jloop *l, uint8_t m, struct jargs *a)
{
    if (m == J_LOOP_cycle) {
        if (!a->n)
            jinja_fail(c, -EINVAL, "cycle wants values");
        return a->v[l->at % a->n];
    }
    struct jlist *now = jlist_new(c, a->n, J_KIND_TUPLE);
    for (uint32_t i = 0; i < a->n; i++)
        jlist_push(c, now, a->v[i]);
    bool same = l->has_changed && jval_eq(c, l->last_changed, jval_list(now));
    l->last_changed = jval_list(now);
    l->has_changed = true;
    return jval_bool(!same);
}

static struct jval call_cycler(struct jcycler *y, uint8_t m)
{
    struct jval v = y->items->v[y->at];
    if (m == J_CYCLER_reset) {
        y->at = 0;
        return jval_none();
    }
    if (m == J_CYCLER_next)
        y->at = (y->at + 1) % y->items->n;
    return v;
}

struct jval jmethod_call(struct jinja_ctx *c, struct jval self, uint8_t m, struct jargs *a)
{
    switch (self.t) {
    case J_STR: return call_str(c, self.s, m, a);
    case J_LIST: return call_list(c, self.l, m, a);
    case J_DICT: return call_dict(c, self.d, m, a);
    case J_LOOP: return call_loop(c, self.loop, m, a);
    default: return call_cycler(self.cycler, m);
    }
}
