/* Contexts that fit: how many sessions, and how long, by the memory that is there. What a position costs is read off a
 * stream for few of them. */
#include <stdio.h>

#include "base/ckd.h"
#include "engine/priv.h"

enum {
    MOST_SLOTS = 4,                         /* processors are busy with few                                              */
    MOST_CARD_SLOTS = 8,                    /* steps of up to 8 rows leave a single one as fast (kernels/klaunch.h, "rows") */
    MOST_VECTOR_SLOTS = 16,                 /* many texts fill a card's step                                             */
    LONG_CTX = 65536, LONG_VECTOR_CTX = 8192, /* for so much context (or what the model was trained for) sessions are given up */
    PROBE_CTX = 256, STEP_CTX = 256,
    LEAST_CTX = 512, SMALL_CTX = 4096,        /* where less than LEAST_CTX fits, SMALL_CTX is taken, and refused with figures */
};

/* Bytes. */
struct budget {
    uint64_t have, fixed, usable; /* free; weights and what steps need; for caches and states */
    uint64_t position, state;     /* of a session: each position, and the rest                */
};

static int probe(struct engine *eng, const struct graph_opts *go, struct budget *b, struct err *e)
{
    struct graph_opts o = *go;
    struct stream *s;
    o.n_ctx = PROBE_CTX;
    o.n_slots = 1;
    o.row_cap = MIN(o.row_cap, (uint32_t)STREAM_MAX_ROWS);
    o.out_cap = eng->pooling == POOLING_MEAN ? o.row_cap : MIN(o.row_cap, 16u);
    int rc = graph_compile(eng->model, &o, &s, e);
    if (rc)
        return rc;
    const uint64_t *a = s->h.arena_bytes;
    b->position = (a[ARENA_KV] + PROBE_CTX - 1) / PROBE_CTX;
    b->state = a[ARENA_STATE];
    b->fixed = a[ARENA_WEIGHTS] + a[ARENA_CONST] + a[ARENA_SCRATCH] + a[ARENA_IO];
    stream_free(s);
    return 0;
}

/* Of the host's memory half is left to others, and to the cache of files that weights are read from; of a card's a twelfth,
 * or 1 GiB, to what tiers need beside their arenas. */
static void budget_of(const struct engine *eng, struct budget *b)
{
    const struct tier_info *t = &eng->tier->info;
    b->have = engine_memory_available(eng);
    uint64_t keep = t->host_memory || !t->mem_bytes ? b->have / 2 : MAX(b->have / 12, MIN((uint64_t)1 << 30, b->have / 4));
    uint64_t usable = b->have - keep;
    b->usable = !b->have ? UINT64_MAX : usable > b->fixed ? usable - b->fixed : 0;
}

/* The positions that n sessions can have each, at most `most`. */
static uint32_t positions(const struct budget *b, uint32_t n, uint32_t most)
{
    uint64_t each = b->usable / n;
    if (each <= b->state)
        return 0;
    uint64_t fits = b->position ? (each - b->state) / b->position : most;
    return fits >= most ? most : (uint32_t)(fits / STEP_CTX * STEP_CTX);
}

static const char *gib(uint64_t bytes, char buf[24])
{
    snprintf(buf, 24, bytes < 1u << 30 ? "%.0f MiB" : "%.1f GiB", (double)bytes / (bytes < 1u << 30 ? 1 << 20 : 1 << 30));
    return buf;
}

/* What was chosen and why, and what another choice would cost. */
static void tell(struct engine *eng, const struct budget *b, const struct engine_opts *o, const struct graph_opts *go,
                 uint32_t train)
{
    char all[24], have[24], other[96] = "";
    uint64_t each = b->state + b->position * train;
    size_t n = sizeof eng->fit;
    if (o->n_ctx && o->n_slots)
        return;
    if (o->n_ctx) {
        snprintf(eng->fit, n, "%u slot%s of the %u tokens of --ctx: what fits in %s free", go->n_slots, go->n_slots > 1 ? "s" : "",
                 go->n_ctx, gib(b->have, have));
        return;
    }
    if (go->n_ctx == train) {
        snprintf(eng->fit, n, "%u slot%s of %u tokens, all that the model was trained for: %s of cache%s%s%s", go->n_slots,
                 go->n_slots > 1 ? "s" : "", train, gib(each * go->n_slots, all), b->have ? ", of " : "", b->have ? gib(b->have, have) : "",
                 b->have ? " free" : "");
        return;
    }
    uint32_t slots = go->n_slots > 1 ? 1 : 2, fits = positions(b, slots, train);
    if (fits >= LEAST_CTX && o->n_slots != 1)
        snprintf(other, sizeof other, "; --slots %u would leave %u tokens%s", slots, fits, slots > 1 ? " for each" : "");
    snprintf(eng->fit, n, "%u slot%s of %u tokens: what fits in %s free; the model was trained for %u, which takes %s for each slot "
             "(%s)%s", go->n_slots, go->n_slots > 1 ? "s" : "", go->n_ctx, gib(b->have, have), train, gib(each, all),
             KA_KV_IS_4BIT(go->kv_type) ? "--ctx N asks for less"
             : go->kv_type == KA_KV_Q8_0 || go->kv_type == KA_KV_FP8 ? "--kv rot4: half of it" : "--kv q8_0: half of it", other);
}

int engine_fit(struct engine *eng, const struct engine_opts *o, struct graph_opts *go, struct err *e)
{
    struct budget b = { 0 };
    bool vectors = eng->pooling != POOLING_NONE, card = !eng->tier->info.host_memory;
    uint32_t train = eng->info.n_ctx_train ? eng->info.n_ctx_train : (uint32_t)SMALL_CTX;
    uint32_t wanted = o->n_ctx ? o->n_ctx : MIN(train, vectors ? (uint32_t)LONG_VECTOR_CTX : (uint32_t)LONG_CTX);
    int rc = probe(eng, go, &b, e);
    if (rc)
        return rc;
    budget_of(eng, &b);
    bool many = o->batch_variant && !vectors && engine_most_rows(eng) > MOST_CARD_SLOTS; /* a single one stays as fast */
    uint32_t most = !card ? MOST_SLOTS : vectors ? MOST_VECTOR_SLOTS : many ? engine_most_rows(eng) : MOST_CARD_SLOTS;
    go->n_slots = o->n_slots ? o->n_slots : most;
    while (!o->n_slots && !vectors && go->n_slots > MOST_SLOTS && positions(&b, go->n_slots, train) < (o->n_ctx ? wanted : train))
        go->n_slots--; /* more sessions than these are worth no context */
    while (!o->n_slots && go->n_slots > 1 && positions(&b, go->n_slots, wanted) < wanted)
        go->n_slots--;
    if (!o->n_slots && many && eng->model->n_expert && go->n_slots < eng->tier->info.expert_slots)
        go->n_slots = MIN(go->n_slots, (uint32_t)MOST_CARD_SLOTS); /* between are steps of 8 rows only */
    uint32_t fits = positions(&b, go->n_slots, train);
    if (eng->fit_halvings) /* a device has more limits than its memory */
        fits = MAX((fits >> eng->fit_halvings) / STEP_CTX * STEP_CTX, (uint32_t)STEP_CTX);
    go->n_ctx = o->n_ctx ? o->n_ctx : fits >= LEAST_CTX ? fits : MIN(train, (uint32_t)SMALL_CTX);
    if (fits >= LEAST_CTX || fits == train || o->n_ctx)
        tell(eng, &b, o, go, train);
    return 0;
}
