/* Merging: repeatedly join the adjacent pair of lowest rank, the leftmost of equals. Byte-level BPE and Gemma 4 rank
 * pairs by the merge list, SPM ranks the token that a pair spells by its score. A word is merged in an array; long
 * texts go through a heap, where pairs that have changed since they were queued are recognised by their length. */
#include "base/ckd.h"
#include "model/tok_impl.h"

enum { ARRAY_MAX = 48 };

static inline bool pair_rank(const struct tok *t, const char *text, const struct tok_sym *l,
                             const struct tok_sym *r, uint32_t *rank, int32_t *result)
{
    if (t->kind == TOK_KIND_SPM) {
        if (l->len + r->len > t->max_text)
            return false;
        *result = tok_sym_find(t, text + l->off, l->len + r->len);
        if (*result < 0)
            return false;
        *rank = t->prio[*result];
        return true;
    }
    return l->id >= 0 && r->id >= 0 && tok_pair_find(t, l->id, r->id, rank, result);
}

/* ---- words --------------------------------------------------------------------------------------------- */

static void merge_array(const struct tok *t, const char *text, struct tok_merger *m)
{
    struct {
        uint32_t rank;
        int32_t result; /* -1: this pair does not merge */
    } pair[ARRAY_MAX];
    struct tok_sym *s = m->sym;
    size_t n = m->n_sym;

    for (size_t i = 0; i + 1 < n; i++)
        if (!pair_rank(t, text, &s[i], &s[i + 1], &pair[i].rank, &pair[i].result))
            pair[i].result = -1;
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i].result >= 0 && (best == n || pair[i].rank < pair[best].rank))
                best = i;
        if (best == n)
            break;
        s[best].id = pair[best].result;
        s[best].len += s[best + 1].len;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        if (best + 1 < n)
            memmove(&pair[best], &pair[best + 1], (n - 1 - best) * sizeof *pair);
        for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++)
            if (!pair_rank(t, text, &s[i], &s[i + 1], &pair[i].rank, &pair[i].result))
                pair[i].result = -1;
    }
    m->n_sym = n;
}

/* ---- long texts ---------------------------------------------------------------------------------------- */

static int heap_push(struct tok_merger *m, struct tok_heap_item item)
{
    if (m->n_heap == m->cap_heap) {
        size_t cap = m->cap_heap ? m->cap_heap * 2 : 256;
        struct tok_heap_item *p = realloc(m->heap, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        m->heap = p;
        m->cap_heap = cap;
    }
    size_t i = m->n_heap++;
    for (; i > 0 && m->heap[(i - 1) / 2].key > item.key; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = item;
    return 0;
}

static struct tok_heap_item heap_pop(struct tok_merger *m)
{
    struct tok_heap_item top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0;

    for (size_t k = 1; k < m->n_heap; k = 2 * i + 1) {
        if (k + 1 < m->n_heap && m->heap[k + 1].key < m->heap[k].key)
            k++;
        if (last.key <= m->heap[k].key)
            break;
        m->heap[i] = m->heap[k];
        i = k;
    }
    m->heap[i] = last;
    return top;
}

#define NONE UINT32_MAX

static int heap_add(const struct tok *t, const char *text, struct tok_merger *m, uint32_t left,
                    uint32_t right)
{
    uint32_t rank;
    int32_t result;

    if (left == NONE || right == NONE || !pair_rank(t, text, &m->sym[left], &m->sym[right], &rank, &result))
        return 0;
    return heap_push(
        m, (struct tok_heap_item){(uint64_t)rank << 32 | left, m->sym[left].len + m->sym[right].len});
}

static int merge_heap(const struct tok *t, const char *text, struct tok_merger *m)
{
    struct tok_sym *s = m->sym;

    m->n_heap = 0;
    for (uint32_t i = 0; i < m->n_sym; i++) {
        s[i].prev = i ? i - 1 : NONE;
        s[i].next = i + 1 < m->n_sym ? i + 1 : NONE;
        if (i && heap_add(t, text, m, i - 1, i))
            return -ENOMEM;
    }
    while (m->n_heap) {
        struct tok_heap_item item = heap_pop(m);
        uint32_t left = (uint32_t)item.key, right = s[left].next, rank;
        if (s[left].len == 0 || right == NONE || s[left].len + s[right].len != item.len)
            continue;
        if (!pair_rank(t, text, &s[left], &s[right], &rank, &s[left].id))
            continue; /* cannot be: the pair is as it was queued */
        s[left].len += s[right].len;
        s[right].len = 0;
        s[left].next = s[right].next;
        if (s[left].next != NONE)
            s[s[left].next].prev = left;
        if (heap_add(t, text, m, s[left].prev, left) || heap_add(t, text, m, left, s[left].next))
            return -ENOMEM;
    }
    return 0;
}

int tok_merge(const struct tok *t, const char *text, struct tok_merger *m)
{
    if (m->n_sym > ARRAY_MAX)
        return merge_heap(t, text, m);
    if (m->n_sym > 1)
        merge_array(t, text, m);
    return 0;
}

int tok_merger_push(struct tok_merger *m, int32_t id, uint32_t off, uint32_t len)
{
    if (m->n_sym == m->cap_sym) {
        size_t cap = m->cap_sym ? m->cap_sym * 2 : 256;
        struct tok_sym *p = realloc(m->sym, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        m->sym = p;
        m->cap_sym = cap;
    }
    m->sym[m->n_sym++] = (struct tok_sym){.id = id, .off = off, .len = len};
    return 0;
}

void tok_merger_finish(struct tok_merger *m)
{
    free(m->sym);
    free(m->heap);
}
