/* Compiled grammars are kept: clients send the same schema again and again, and masks that were computed stay warm. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

enum { MAX_KEPT_TEXT = 1 << 20 };

static struct api_grammar *find(struct api *a, const char *text, size_t n)
{
    for (size_t i = 0; i < API_GRAMMARS; i++) {
        struct api_grammar *k = &a->grammars[i];
        if (k->g && k->n == n && memcmp(k->text, text, n) == 0) {
            k->used = ++a->clock;
            return k;
        }
    }
    return NULL;
}

static void drop(struct api_grammar *k)
{
    grammar_unref(k->g);
    free(k->text);
    *k = (struct api_grammar){ 0 };
}

/* In the place of the one that was not used for longest. Without memory nothing is kept. */
static void keep(struct api *a, const char *text, size_t n, struct grammar *g)
{
    struct api_grammar *k = &a->grammars[0];
    char *copy = n <= MAX_KEPT_TEXT ? malloc(n) : NULL;
    if (!copy)
        return;
    for (size_t i = 1; i < API_GRAMMARS; i++)
        if (a->grammars[i].used < k->used)
            k = &a->grammars[i];
    drop(k);
    memcpy(copy, text, n);
    grammar_ref(g);
    *k = (struct api_grammar){ copy, n, g, ++a->clock };
}

int api_grammar(struct api *a, const char *text, size_t n, struct grammar **g, struct err *e)
{
    const struct vocab_index *v;
    int rc = engine_vocab(a->o.eng, &v, e);
    if (rc)
        return rc;
    pthread_mutex_lock(&a->lock);
    struct api_grammar *k = find(a, text, n);
    if (k)
        grammar_ref(*g = k->g);
    pthread_mutex_unlock(&a->lock);
    if (k || (rc = grammar_from_gbnf(v, text, n, g, e)))
        return rc;
    pthread_mutex_lock(&a->lock);
    if (!find(a, text, n)) /* another request may have compiled the same meanwhile */
        keep(a, text, n, *g);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

void api_grammars_finish(struct api *a)
{
    for (size_t i = 0; i < API_GRAMMARS; i++)
        drop(&a->grammars[i]);
}
