#include "model/tok_nfc.h"

#include "base/ckd.h"
#include "model/unicode.h"

/* Code points that may change or change others, by runs; all others begin a stretch that nothing before them reaches
 * into. `order` is the combining class: marks behind a letter are sorted by it. */
static const struct run {
    uint32_t first, last;
    uint8_t order;
} runs[] = {
#define R(first, last, order) {first, last, order},
#include "model/gen/nfc_15_1.inc"
#undef R
};

static const struct split {
    uint32_t cp, first, second; /* second 0: none */
} splits[] = {
#define D(cp, first, second) {cp, first, second},
#include "model/gen/nfc_15_1.inc"
#undef D
};

static const struct join {
    uint32_t first, second, cp;
} joins[] = {
#define J(first, second, cp) {first, second, cp},
#include "model/gen/nfc_15_1.inc"
#undef J
};

/* Hangul: 19 leading consonants by 21 vowels by 28 trailing ones, of which the first is none. */
enum { HANGUL = 0xac00, LEAD = 0x1100, VOWEL = 0x1161, TRAIL = 0x11a7, N_LEAD = 19, N_VOWEL = 21, N_TRAIL = 28 };

#define RAW 0x80000000u /* a byte that is not UTF-8 */

static const struct run *run_of(uint32_t cp)
{
    size_t lo = 0, hi = ARRAY_LEN(runs);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (runs[mid].last < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_LEN(runs) && runs[lo].first <= cp ? &runs[lo] : NULL;
}

static const struct split *split_of(uint32_t cp)
{
    size_t lo = 0, hi = ARRAY_LEN(splits);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (splits[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_LEN(splits) && splits[lo].cp == cp ? &splits[lo] : NULL;
}

/* The character that two make, 0: none. */
static uint32_t joined(uint32_t a, uint32_t b)
{
    size_t lo = 0, hi = ARRAY_LEN(joins);

    if (a - LEAD < N_LEAD && b - VOWEL < N_VOWEL)
        return HANGUL + ((a - LEAD) * N_VOWEL + (b - VOWEL)) * N_TRAIL;
    if (a - HANGUL < N_LEAD * N_VOWEL * N_TRAIL && (a - HANGUL) % N_TRAIL == 0 && b - TRAIL - 1 < N_TRAIL - 1)
        return a + (b - TRAIL);
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (joins[mid].first < a || (joins[mid].first == a && joins[mid].second < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_LEN(joins) && joins[lo].first == a && joins[lo].second == b ? joins[lo].cp : 0;
}

struct letter {
    uint32_t cp;
    uint8_t order;
};

struct letters {
    struct letter *at;
    size_t n, cap;
};

static int letter_push(struct letters *v, uint32_t cp)
{
    const struct run *r;

    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 32;
        struct letter *p = realloc(v->at, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        v->at = p;
        v->cap = cap;
    }
    r = cp & RAW ? NULL : run_of(cp);
    v->at[v->n++] = (struct letter){cp, r ? r->order : 0};
    return 0;
}

static int letter_push_split(struct letters *v, uint32_t cp)
{
    uint32_t k = cp - HANGUL;
    const struct split *s;
    int rc;

    if (k < N_LEAD * N_VOWEL * N_TRAIL) {
        if ((rc = letter_push(v, LEAD + k / (N_VOWEL * N_TRAIL))) ||
            (rc = letter_push(v, VOWEL + k / N_TRAIL % N_VOWEL)))
            return rc;
        return k % N_TRAIL ? letter_push(v, TRAIL + k % N_TRAIL) : 0;
    }
    s = cp & RAW ? NULL : split_of(cp);
    if (!s)
        return letter_push(v, cp);
    rc = letter_push_split(v, s->first);
    return rc || !s->second ? rc : letter_push_split(v, s->second);
}

/* Sorts marks by their order, equal ones as they stand: few by insertion, many by counting, so that a text of nothing
 * else does not take the square of its length. */
static int marks_sort(struct letter *m, size_t n)
{
    enum { FEW = 32 };
    size_t first[257] = {0};
    struct letter *copy;

    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            struct letter x = m[i];
            size_t k = i;
            for (; k > 0 && m[k - 1].order > x.order; k--)
                m[k] = m[k - 1];
            m[k] = x;
        }
        return 0;
    }
    copy = malloc(n * sizeof *copy);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, m, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        first[m[i].order + 1]++;
    for (size_t k = 1; k < ARRAY_LEN(first); k++)
        first[k] += first[k - 1];
    for (size_t i = 0; i < n; i++)
        m[first[copy[i].order]++] = copy[i];
    free(copy);
    return 0;
}

static int letters_sort(struct letters *v)
{
    int rc = 0;

    for (size_t i = 0, end; i < v->n && !rc; i = end + 1) {
        for (end = i; end < v->n && v->at[end].order; end++)
            ;
        if (end - i > 1)
            rc = marks_sort(v->at + i, end - i);
    }
    return rc;
}

/* A mark joins the letter before it unless a mark of the same or a higher order that stayed lies between. */
static void letters_join(struct letters *v)
{
    struct letter *base = NULL;
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        struct letter x = v->at[i], *last = n ? &v->at[n - 1] : NULL;
        uint32_t cp = base && (last == base || last->order < x.order) ? joined(base->cp, x.cp) : 0;
        if (cp) {
            base->cp = cp;
            continue;
        }
        v->at[n] = x;
        if (!x.order)
            base = &v->at[n];
        n++;
    }
    v->n = n;
}

static uint32_t decode(const char *s, size_t n, size_t *len)
{
    uint32_t cp;

    *len = utf8_decode(s, n, &cp);
    if (*len)
        return cp;
    *len = 1;
    return RAW | (uint8_t)*s;
}

static int put_stretch(struct letters *v, const char *s, size_t n, struct tok_buf *out)
{
    int rc = 0;

    v->n = 0;
    for (size_t i = 0, len; i < n && !rc; i += len)
        rc = letter_push_split(v, decode(s + i, n - i, &len));
    if (rc || (rc = letters_sort(v)))
        return rc;
    letters_join(v);
    if (tok_buf_reserve(out, 4 * v->n))
        return -ENOMEM;
    for (size_t i = 0; i < v->n; i++) {
        if (v->at[i].cp & RAW)
            out->s[out->n++] = (char)v->at[i].cp;
        else
            out->n += utf8_encode(v->at[i].cp, out->s + out->n);
    }
    return 0;
}

/* Where the first character of a run begins, from i on; n: there is none. *before: where the one before it begins. */
static size_t find_run(const char *s, size_t i, size_t n, size_t *before)
{
    size_t len;

    for (*before = i; i < n; *before = i, i += len) {
        len = 1;
        if ((uint8_t)s[i] < 0xcc) { /* below U+0300, or the second or third byte of what is below U+0300 or broken */
            if ((uint8_t)s[i] >= 0xc2)
                decode(s + i, n - i, &len);
            continue;
        }
        uint32_t cp = decode(s + i, n - i, &len);
        if (!(cp & RAW) && run_of(cp))
            return i;
    }
    return n;
}

bool tok_nfc_needed(const char *s, size_t n)
{
    size_t before;

    return find_run(s, 0, n, &before) < n;
}

int tok_nfc(const char *s, size_t n, struct tok_buf *out)
{
    struct letters v = {0};
    size_t i = 0, before, len;
    int rc = 0;

    while (i < n && !rc) {
        size_t end = find_run(s, i, n, &before);
        if (end == n)
            before = n;
        rc = tok_buf_add(out, s + i, before - i);
        while (end < n) {
            uint32_t cp = decode(s + end, n - end, &len);
            if (cp & RAW || !run_of(cp))
                break;
            end += len;
        }
        if (!rc && before < end)
            rc = put_stretch(&v, s + before, end - before, out);
        i = end;
    }
    free(v.at);
    return rc;
}
