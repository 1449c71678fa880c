/* What strings can do, for methods and filters alike. */
#include <utf8proc.h>

#include "jinja/jinja_impl.h"

/* ---- cutting ---- */

static bool in_set(const struct jstr *set, const struct jstr *s, size_t at, size_t k)
{
    for (size_t i = 0, m; i < set->n; i += m) {
        jstr_char(set, i, &m);
        if (m == k && memcmp(set->s + i, s->s + at, k) == 0)
            return true;
    }
    return false;
}

const struct jstr *jinja_strip(struct jinja_ctx *c, const struct jstr *s, struct jval chars, bool left, bool right)
{
    const struct jstr *set = chars.t == J_STR ? chars.s : NULL;
    size_t from = 0, to = s->n, k;
    if (chars.t != J_STR && chars.t != J_NONE)
        jinja_fail(c, -EINVAL, "strip wants a str, not %s", jval_type(chars));
    jinja_step(c, s->n / 64 * (set ? set->n + 1 : 1));
    for (; left && from < to; from += k) {
        uint32_t cp = jstr_char(s, from, &k);
        if (set ? !in_set(set, s, from, k) : !jinja_space(cp))
            break;
    }
    while (right && to > from) {
        size_t p = to - 1;
        while (p > from && to - p < 4 && ((uint8_t)s->s[p] & 0xc0) == 0x80)
            p--;
        uint32_t cp = jstr_char(s, p, &k);
        if (p + k != to) { /* no UTF-8: a byte by itself */
            p = to - 1;
            k = 1;
            cp = 0xfffd;
        }
        if (set ? !in_set(set, s, p, k) : !jinja_space(cp))
            break;
        to = p;
    }
    return from == 0 && to == s->n ? s : jstr_sub(c, s, from, to);
}

/* At runs of white space. */
static void split_space(struct jinja_ctx *c, struct jlist *l, const struct jstr *s, int64_t max)
{
    for (size_t at = 0, k; at < s->n;) {
        size_t from = at;
        if (jinja_space(jstr_char(s, at, &k))) {
            at += k;
            continue;
        }
        if (max >= 0 && l->n >= (uint64_t)max) {
            jlist_push(c, l, jval_str(jstr_sub(c, s, from, s->n)));
            return;
        }
        while (at < s->n && !jinja_space(jstr_char(s, at, &k)))
            at += k;
        jlist_push(c, l, jval_str(jstr_sub(c, s, from, at)));
    }
}

static void reverse(struct jlist *l)
{
    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct jval v = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = v;
    }
}

static void split_space_right(struct jinja_ctx *c, struct jlist *l, const struct jstr *s, int64_t max)
{
    struct jlist *all = jlist_new(c, 0, J_KIND_LIST);
    split_space(c, all, s, -1);
    uint32_t first = max >= 0 && all->n > (uint64_t)max ? all->n - (uint32_t)max : 0;
    if (first) { /* what lies before the last `max` stays one */
        const struct jstr *end = all->v[first - 1].s;
        jlist_push(c, l, jval_str(jstr_sub(c, s, 0, (size_t)(end->s + end->n - s->s))));
    }
    for (uint32_t i = first; i < all->n; i++)
        jlist_push(c, l, all->v[i]);
}

struct jval jinja_split(struct jinja_ctx *c, const struct jstr *s, const struct jstr *sep, int64_t max, bool from_right)
{
    struct jlist *l = jlist_new(c, 0, J_KIND_LIST);
    jinja_step(c, s->n / 16);
    if (!sep) {
        if (from_right && max >= 0)
            split_space_right(c, l, s, max);
        else
            split_space(c, l, s, max);
        return jval_list(l);
    }
    if (!sep->n)
        jinja_fail(c, -EINVAL, "split at an empty str");
    size_t at = 0, end = s->n;
    if (!from_right || max < 0) {
        for (const char *p; (max < 0 || l->n < (uint64_t)max) && (p = jstr_find(s, at, sep));) {
            jlist_push(c, l, jval_str(jstr_sub(c, s, at, (size_t)(p - s->s))));
            at = (size_t)(p - s->s) + sep->n;
        }
        jlist_push(c, l, jval_str(jstr_sub(c, s, at, s->n)));
        return jval_list(l);
    }
    for (size_t i = s->n; i >= sep->n && l->n < (uint64_t)max;) {
        if (memcmp(s->s + i - sep->n, sep->s, sep->n) != 0) {
            i--;
            continue;
        }
        jlist_push(c, l, jval_str(jstr_sub(c, s, i, end)));
        end = i -= sep->n;
    }
    jlist_push(c, l, jval_str(jstr_sub(c, s, 0, end)));
    reverse(l);
    return jval_list(l);
}

const struct jstr *jinja_replace(struct jinja_ctx *c, const struct jstr *s, const struct jstr *old,
                                 const struct jstr *by, int64_t max)
{
    struct jout o = jout_begin();
    size_t at = 0;
    jinja_step(c, s->n / 16);
    if (!old->n) { /* between all characters */
        for (size_t k; max != 0; at += k, max--) {
            jinja_step(c, 1);
            jout_str(c, &o, by);
            if (at >= s->n)
                break;
            jstr_char(s, at, &k);
            jout_str(c, &o, jstr_sub(c, s, at, at + k));
        }
    }
    for (const char *p; old->n && max != 0 && (p = jstr_find(s, at, old)); max--) {
        jout_str(c, &o, jstr_sub(c, s, at, (size_t)(p - s->s)));
        jout_str(c, &o, by);
        at = (size_t)(p - s->s) + old->n;
    }
    if (at == 0 && !o.buf)
        return s;
    jout_str(c, &o, jstr_sub(c, s, MIN(at, s->n), s->n));
    return jout_end(c, &o);
}

/* ---- case ---- */

static bool is_letter(uint32_t cp)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LT;
}

/* Where jinja's title filter begins a word: behind white space and -([{< (its documentation names no more than that
 * words begin in upper case; the set is that of Jinja 3.1). */
static bool begins_word(uint32_t before)
{
    return jinja_space(before) || (before < 0x80 && before && strchr("-([{<", (int)before));
}

const struct jstr *jinja_case(struct jinja_ctx *c, const struct jstr *s, enum jcase how)
{
    struct jout o = jout_begin();
    uint32_t before = ' ';
    jinja_step(c, s->n);
    for (size_t i = 0, k; i < s->n; i += k) {
        uint32_t cp = jstr_char(s, i, &k);
        bool first = how == J_TITLE_FILTER ? begins_word(before) : how == J_TITLE ? !is_letter(before) : i == 0;
        bool up = how == J_UPPER || (how != J_LOWER && first);
        if (how == J_SWAP)
            up = utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LL;
        before = cp;
        if (k == 1 && cp >= 0x80) { /* no UTF-8 */
            jout_add(c, &o, s->s + i, 1, jstr_origin_at(s, i));
            continue;
        }
        if (up && cp == 0xdf) /* the one letter of Latin that is two in upper case */
            jout_add(c, &o, how == J_UPPER ? "SS" : "Ss", 2, jstr_origin_at(s, i));
        else
            jout_cp(c, &o, up ? (uint32_t)utf8proc_toupper((int32_t)cp) : (uint32_t)utf8proc_tolower((int32_t)cp),
                    jstr_origin_at(s, i));
    }
    return jout_end(c, &o);
}

const struct jstr *jinja_escape(struct jinja_ctx *c, const struct jstr *s)
{
    struct jout o = jout_begin();
    if (s->markup)
        return s;
    jinja_step(c, s->n);
    for (size_t i = 0; i < s->n; i++) {
        char ch = s->s[i];
        const char *e = ch == '&'    ? "&amp;"
                        : ch == '<'  ? "&lt;"
                        : ch == '>'  ? "&gt;"
                        : ch == '"'  ? "&#34;"
                        : ch == '\'' ? "&#39;"
                                     : NULL;
        jout_add(c, &o, e ? e : s->s + i, e ? strlen(e) : 1, jstr_origin_at(s, i));
    }
    struct jstr *r = jout_end(c, &o);
    r->markup = true;
    return r;
}
