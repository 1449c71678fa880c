/* model/gguf_index.h
 * Private to the GGUF reader and writer: an open-addressed table from a name to its position in a list. The names are
 * borrowed. */
#ifndef ZINC_MODEL_GGUF_INDEX_H
#define ZINC_MODEL_GGUF_INDEX_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"

struct gguf_slot {
    struct gguf_str name;
    uint64_t at; /* position + 1; 0: the slot is free */
};

struct gguf_names {
    struct gguf_slot *slot;
    uint64_t n_slots; /* a power of two, at least twice the names */
    uint64_t n;
};

static inline uint64_t gguf_hash(const char *s, uint64_t len)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (uint64_t i = 0; i < len; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static inline bool gguf_str_eq(struct gguf_str a, const char *s, uint64_t len)
{
    return a.len == len && (!len || memcmp(a.s, s, len) == 0);
}

/* The slot of the name, or the free one where it would go. */
static inline struct gguf_slot *gguf_names_slot(const struct gguf_names *t, const char *s, uint64_t len)
{
    uint64_t i = gguf_hash(s, len) & (t->n_slots - 1);
    while (t->slot[i].at && !gguf_str_eq(t->slot[i].name, s, len))
        i = (i + 1) & (t->n_slots - 1);
    return &t->slot[i];
}

/* Position of the name, or -1. */
static inline int64_t gguf_names_find(const struct gguf_names *t, const char *s, uint64_t len)
{
    return t->n_slots ? (int64_t)gguf_names_slot(t, s, len)->at - 1 : -1;
}

static inline int gguf_names_grow(struct gguf_names *t)
{
    struct gguf_names big = {.n_slots = t->n_slots ? 2 * t->n_slots : 64, .n = t->n};
    big.slot = calloc(big.n_slots, sizeof *big.slot);
    if (!big.slot)
        return -ENOMEM;
    for (uint64_t i = 0; i < t->n_slots; i++)
        if (t->slot[i].at)
            *gguf_names_slot(&big, t->slot[i].name.s, t->slot[i].name.len) = t->slot[i];
    free(t->slot);
    *t = big;
    return 0;
}

/* 0, -EEXIST when the name is there already, or -ENOMEM. */
static inline int gguf_names_add(struct gguf_names *t, struct gguf_str name, uint64_t at)
{
    if (2 * (t->n + 1) > t->n_slots && gguf_names_grow(t))
        return -ENOMEM;
    struct gguf_slot *s = gguf_names_slot(t, name.s, name.len);
    if (s->at)
        return -EEXIST;
    *s = (struct gguf_slot){name, at + 1};
    t->n++;
    return 0;
}

static inline void gguf_names_finish(struct gguf_names *t)
{
    free(t->slot);
    *t = (struct gguf_names){0};
}

#endif
