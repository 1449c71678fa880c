#include "base/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
static uint32_t distance(const char *a, const char *b)
{
    enum { MAX_WORD = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n >= MAX_WORD || m >= MAX_WORD)
        return MAX_WORD;
    uint32_t d[3][MAX_WORD + 1]; /* rows i - 2, i - 1, i of the table */
    for (size_t j = 0; j <= m; j++)
        d[1][j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        d[2][0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint32_t v = MIN(d[1][j] + 1, d[2][j - 1] + 1);
            v = MIN(v, d[1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                v = MIN(v, d[0][j - 2] + 1);
            d[2][j] = v;
        }
        memcpy(d[0], d[1], sizeof d[0]);
        memcpy(d[1], d[2], sizeof d[1]);
    }
    return d[1][m];
}

/* A name is near below this distance. */
static uint32_t limit_of(const char *word)
{
    return (uint32_t)MAX(strlen(word) / 3, (size_t)1) + 1;
}

/* Whether `name` is nearer than *best, which it then becomes. */
static bool nearer(const char *word, const char *name, uint32_t *best)
{
    uint32_t d = distance(word, name);
    if (strlen(word) >= 4 && strncmp(name, word, strlen(word)) == 0)
        d = MIN(d, 1u);
    if (strlen(word) < 2 || d >= *best)
        return false;
    *best = d;
    return true;
}

const char *nearest_name(const char *word, const char *(*next)(const void *user, size_t i), const void *user)
{
    const char *best = NULL, *name;
    uint32_t best_d = limit_of(word);
    for (size_t i = 0; (name = next(user, i)); i++)
        if (nearer(word, name, &best_d))
            best = name;
    return best;
}

struct word_list {
    const char *words;
    char *buf; /* [64] the word that was asked for last */
};

static const char *word_at(const void *user, size_t i)
{
    const struct word_list *l = user;
    const char *w = l->words;
    for (; i && w; i--)
        w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL;
    return w ? (snprintf(l->buf, 64, "%.*s", (int)strcspn(w, "|"), w), l->buf) : NULL;
}

const char *nearest_word(const char *word, const char *words, char buf[64])
{
    char each[64];
    const struct word_list l = { words, each };
    const char *best = NULL;
    uint32_t best_d = limit_of(word);
    for (size_t i = 0; word_at(&l, i); i++)
        if (nearer(word, each, &best_d))
            best = strcpy(buf, each);
    return best;
}
