/* Hazards: two commands that touch the same byte, one of them writing, must be ordered by a wait. The arenas are cut
 * at every end of an extent; a tree over the pieces keeps the newest writer and the newest reader of each, so that a
 * stream of any shape costs n log n. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "graph/verify.h"

/* Newest command (+ 1, 0: none) over ranges of pieces: updates take the maximum, later commands are larger. */
struct newest {
    uint32_t *all;  /* [2 n] of the whole range below the node */
    uint32_t *some; /* [2 n] of a part of it                   */
    uint32_t n;     /* leaves, a power of two                  */
};

static void newest_set(struct newest *t, uint32_t node, uint32_t lo, uint32_t hi, uint32_t a, uint32_t b, uint32_t v)
{
    if (a >= hi || b <= lo)
        return;
    t->some[node] = v;
    if (a <= lo && hi <= b) {
        t->all[node] = v;
        return;
    }
    uint32_t mid = lo + (hi - lo) / 2;
    newest_set(t, 2 * node, lo, mid, a, b, v);
    newest_set(t, 2 * node + 1, mid, hi, a, b, v);
}

static uint32_t newest_get(const struct newest *t, uint32_t node, uint32_t lo, uint32_t hi, uint32_t a, uint32_t b)
{
    if (a >= hi || b <= lo)
        return 0;
    if (a <= lo && hi <= b)
        return t->some[node];
    uint32_t mid = lo + (hi - lo) / 2, v = t->all[node];
    uint32_t l = newest_get(t, 2 * node, lo, mid, a, b), r = newest_get(t, 2 * node + 1, mid, hi, a, b);
    return MAX(v, MAX(l, r));
}

static int compare_va(const void *a, const void *b)
{
    gpu_va x = *(const gpu_va *)a, y = *(const gpu_va *)b;
    return x < y ? -1 : x > y;
}

static uint32_t find_cut(const gpu_va *cuts, uint32_t n, gpu_va v)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (cuts[mid] < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_read_only(const struct extent *x)
{
    return SADDR_ARENA(x->at) == ARENA_WEIGHTS || SADDR_ARENA(x->at) == ARENA_CONST || x->at == x->end;
}

static uint32_t make_cuts(const struct extent *ext, uint32_t n, gpu_va *cuts)
{
    uint32_t n_cuts = 0, m = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!is_read_only(&ext[i])) {
            cuts[n_cuts++] = ext[i].at;
            cuts[n_cuts++] = ext[i].end;
        }
    qsort(cuts, n_cuts, sizeof *cuts, compare_va);
    for (uint32_t i = 0; i < n_cuts; i++)
        if (m == 0 || cuts[m - 1] != cuts[i])
            cuts[m++] = cuts[i];
    return m;
}

static void walk(const struct stream *s, const struct extent *ext, const gpu_va *cuts, uint32_t n_cuts,
                 struct newest *writer, struct newest *reader, uint32_t *need)
{
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const struct cmd *c = &s->cmds[i];
        uint32_t newest = 0;
        for (int pass = 0; pass < 2; pass++) /* look at all addresses, then leave a mark on all */
            for (uint32_t u = c->first_use; u < c->first_use + c->n_uses; u++) {
                const struct extent *x = &ext[u];
                if (is_read_only(x))
                    continue;
                uint32_t a = find_cut(cuts, n_cuts, x->at), b = find_cut(cuts, n_cuts, x->end);
                bool writes = x->dir & USE_WRITE;
                if (pass == 1) {
                    newest_set(writes ? writer : reader, 1, 0, writer->n, a, b, i + 1);
                    continue;
                }
                newest = MAX(newest, newest_get(writer, 1, 0, writer->n, a, b));
                if (writes)
                    newest = MAX(newest, newest_get(reader, 1, 0, reader->n, a, b));
            }
        need[i] = newest ? newest - 1 : CMD_NO_WAIT;
    }
}

int verify_needed_waits(const struct stream *s, const struct extent *ext, uint32_t *need, struct err *e)
{
    gpu_va *cuts = malloc((2ull * s->h.n_uses + 1) * sizeof *cuts);
    struct newest t[2] = {0};
    int rc = 0;
    uint32_t n_cuts = cuts ? make_cuts(ext, s->h.n_uses, cuts) : 0, n = 1;
    while (n < n_cuts)
        n *= 2;
    for (int i = 0; i < 2; i++)
        t[i] = (struct newest){calloc(2ull * n, sizeof(uint32_t)), calloc(2ull * n, sizeof(uint32_t)), n};
    if (!cuts || !t[0].all || !t[0].some || !t[1].all || !t[1].some)
        rc = err_set(e, -ENOMEM, "stream: hazards of %u addresses", s->h.n_uses);
    else
        walk(s, ext, cuts, n_cuts, &t[0], &t[1], need);
    for (int i = 0; i < 2; i++) {
        free(t[i].all);
        free(t[i].some);
    }
    free(cuts);
    return rc;
}
