#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/grammar/vocab_index.h"

/* ---- tries --------------------------------------------------------------------------------------------- */

static int compare_tokens(const void *a, const void *b, void *user)
{
    const struct vocab_index *v = user;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    uint32_t nx = v->at[x + 1] - v->at[x], ny = v->at[y + 1] - v->at[y];
    int c = memcmp(v->bytes + v->at[x], v->bytes + v->at[y], MIN(nx, ny));
    return c ? c : nx != ny ? (nx < ny ? -1 : 1) : (x > y) - (x < y);
}

static uint32_t common_prefix(const char *a, uint32_t na, const char *b, uint32_t nb)
{
    uint32_t n = 0;
    while (n < na && n < nb && a[n] == b[n])
        n++;
    return n;
}

/* Adds the tokens in order: each opens nodes for the bytes that it does not share with the one before it. open[d] is
 * the node of depth d + 1 on the path to the last token. */
static void trie_fill(struct trie *t, const struct vocab_index *v, uint32_t *open)
{
    const char *last = "";
    uint32_t n_last = 0;
    for (uint32_t k = 0; k < t->n_tok; k++) {
        const char *s = v->bytes + v->at[t->tok[k]];
        uint32_t n = v->at[t->tok[k] + 1] - v->at[t->tok[k]], shared = common_prefix(last, n_last, s, n);
        while (n_last > shared)
            t->node[open[--n_last]].next = t->n;
        for (; n_last < n; n_last++) {
            open[n_last] = t->n;
            t->node[t->n++] =
                (struct trie_node){ .first = k, .depth = (uint16_t)(n_last + 1), .byte = (uint8_t)s[n_last] };
        }
        t->max_depth = MAX(t->max_depth, n);
        last = s;
    }
    while (n_last)
        t->node[open[--n_last]].next = t->n;
    t->node[t->n] = (struct trie_node){ .next = t->n, .first = t->n_tok };
}

/* A node is plain if no node below it leaves the plain characters. In depth-first order that is: the first node behind
 * it that does, comes behind all that lies below it. */
static void trie_mark_plain(struct trie *t, uint8_t *state, uint64_t *mask)
{
    uint8_t path[VOCAB_MAX_TOKEN + 1] = { 0 }; /* after that many bytes */
    for (uint32_t i = 0; i < t->n; i++) {
        const struct trie_node *n = &t->node[i];
        path[n->depth] = (uint8_t)utf8_plain_step(path[n->depth - 1], n->byte);
        state[i] = path[n->depth];
        for (uint32_t k = n->first; k < n[1].first && mask && state[i] != UTF8_NONE; k++)
            mask_set(mask, t->tok[k]);
    }
    for (uint32_t i = t->n, other = t->n; i-- > 0;) {
        t->node[i].plain = state[i] == 0 && other >= t->node[i].next;
        if (state[i] == UTF8_NONE)
            other = i;
    }
}

static int trie_build(struct trie *t, const struct vocab_index *v, bool control, uint64_t *plain)
{
    uint32_t open[VOCAB_MAX_TOKEN];
    size_t n_bytes = 0;
    t->tok = malloc(((size_t)v->n_vocab + 1) * sizeof *t->tok);
    if (!t->tok)
        return -ENOMEM;
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        bool is_control = v->kind[i] == VOCAB_CONTROL || v->kind[i] == VOCAB_END;
        if (v->kind[i] == VOCAB_UNUSED || is_control != control || v->at[i] == v->at[i + 1])
            continue;
        t->tok[t->n_tok++] = (int32_t)i;
        n_bytes += v->at[i + 1] - v->at[i];
    }
    qsort_r(t->tok, t->n_tok, sizeof *t->tok, compare_tokens, (void *)v);
    t->node = malloc((n_bytes + 1) * sizeof *t->node);
    if (!t->node)
        return -ENOMEM;
    trie_fill(t, v, open);
    struct trie_node *fit = realloc(t->node, ((size_t)t->n + 1) * sizeof *fit);
    if (fit)
        t->node = fit;
    uint8_t *state = malloc(t->n + 1ull);
    if (state)
        trie_mark_plain(t, state, plain);
    free(state);
    return state ? 0 : -ENOMEM;
}

/* ---- the index ----------------------------------------------------------------------------------------- */

static int read_tokens(struct vocab_index *v, const struct vocab_source *src)
{
    struct tok_buf b = { 0 };
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        const char *s = NULL;
        size_t n = 0;
        enum vocab_kind kind = src->token(src->user, (int32_t)i, &s, &n);
        if (kind != VOCAB_END && (n == 0 || n > VOCAB_MAX_TOKEN))
            kind = VOCAB_UNUSED;
        if (n > VOCAB_MAX_TOKEN || b.n > UINT32_MAX - VOCAB_MAX_TOKEN)
            n = 0;
        v->at[i] = (uint32_t)b.n;
        v->kind[i] = (uint8_t)kind;
        if (kind == VOCAB_UNUSED)
            continue;
        mask_set(kind == VOCAB_END ? v->end : v->any, (int32_t)i);
        if (tok_buf_add(&b, s, n)) {
            tok_buf_finish(&b);
            return -ENOMEM;
        }
        for (size_t k = 0; k < n; k++)
            v->has_byte[(uint8_t)s[k]] = true;
    }
    v->at[v->n_vocab] = (uint32_t)b.n;
    v->bytes = b.s ? b.s : calloc(1, 1);
    return v->bytes ? 0 : -ENOMEM;
}

int vocab_index_create(const struct vocab_source *src, struct vocab_index **out, struct err *e)
{
    struct vocab_index *v = calloc(1, sizeof *v);
    int rc = v ? 0 : -ENOMEM;
    if (v) {
        v->n_vocab = src->n_vocab;
        v->n_words = (src->n_vocab + 63) / 64;
        v->kind = calloc((size_t)v->n_vocab + 1, sizeof *v->kind);
        v->at = calloc((size_t)v->n_vocab + 1, sizeof *v->at);
        v->end = calloc((size_t)v->n_words + 1, sizeof *v->end);
        v->any = calloc((size_t)v->n_words + 1, sizeof *v->any);
        v->plain = calloc((size_t)v->n_words + 1, sizeof *v->plain);
        rc = v->kind && v->at && v->end && v->any && v->plain ? read_tokens(v, src) : -ENOMEM;
    }
    if (!rc)
        rc = trie_build(&v->text, v, false, v->plain);
    if (!rc)
        rc = trie_build(&v->control, v, true, NULL);
    if (rc) {
        vocab_index_destroy(v);
        return err_set(e, rc, "grammar: out of memory for an index of %u tokens", src->n_vocab);
    }
    *out = v;
    return 0;
}

static void trie_finish(struct trie *t)
{
    free(t->node);
    free(t->tok);
}

void vocab_index_destroy(struct vocab_index *v)
{
    if (!v)
        return;
    trie_finish(&v->text);
    trie_finish(&v->control);
    free(v->kind);
    free(v->at);
    free(v->bytes);
    free(v->end);
    free(v->any);
    free(v->plain);
    free(v);
}

static int32_t trie_find(const struct trie *t, const char *text, size_t n)
{
    uint32_t i = 0, end = t->n;
    for (size_t d = 0; d < n; d++) {
        while (i < end && t->node[i].byte != (uint8_t)text[d])
            i = t->node[i].next;
        if (i >= end)
            return -1;
        if (d + 1 == n)
            return t->node[i].first < t->node[i + 1].first ? t->tok[t->node[i].first] : -1;
        end = t->node[i++].next;
    }
    return -1;
}

int32_t vocab_index_find(const struct vocab_index *v, const char *text, size_t n)
{
    int32_t id = trie_find(&v->control, text, n);
    return id >= 0 ? id : trie_find(&v->text, text, n);
}
