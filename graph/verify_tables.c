#include <string.h>

#include "base/ckd.h"
#include "graph/ir.h"
#include "graph/verify.h"

static int check_head(const struct stream_head *h, struct err *e)
{
    if (memcmp(h->magic, STREAM_MAGIC, sizeof h->magic) != 0)
        return err_set(e, -EINVAL, "stream: no stream of version %u", (unsigned)STREAM_MAGIC[7]);
    if (h->row_cap == 0 || h->row_cap > STREAM_MAX_ROWS || h->out_cap == 0 || h->out_cap > h->row_cap)
        return err_set(e, -EINVAL, "stream: capacity of %u rows, %u outputs, expected 1..%u and no more outputs",
                       h->row_cap, h->out_cap, STREAM_MAX_ROWS);
    if (h->n_ctx == 0 || h->n_ctx > STREAM_MAX_CTX || h->n_ctx % 16 != 0)
        return err_set(e, -EINVAL, "stream: n_ctx %u, expected a multiple of 16 up to %u", h->n_ctx, STREAM_MAX_CTX);
    if (h->n_slots == 0 || h->n_slots > STREAM_MAX_SLOTS)
        return err_set(e, -EINVAL, "stream: n_slots %u, expected 1..%u", h->n_slots, STREAM_MAX_SLOTS);
    if (h->kv_type >= KA_KV_COUNT)
        return err_set(e, -EINVAL, "stream: kv_type %u", h->kv_type);
    if (h->n_vocab == 0 || h->n_vocab > INT32_MAX || h->n_embd == 0 || h->n_embd > INT32_MAX)
        return err_set(e, -EINVAL, "stream: n_vocab %u, n_embd %u", h->n_vocab, h->n_embd);
    for (int a = 0; a < ARENA_COUNT; a++)
        if (h->arena_bytes[a] > STREAM_MAX_ARENA || h->arena_bytes[a] % STREAM_ALIGN != 0)
            return err_set(e, -EINVAL, "stream: arena %d has %llu bytes, expected a multiple of %d up to 2^48", a,
                           (unsigned long long)h->arena_bytes[a], STREAM_ALIGN);
    if (h->const_bytes != h->arena_bytes[ARENA_CONST])
        return err_set(e, -EINVAL, "stream: %u bytes of constants for an arena of %llu", h->const_bytes,
                       (unsigned long long)h->arena_bytes[ARENA_CONST]);
    uint64_t io = h->arena_bytes[ARENA_IO], step = step_bytes(h->row_cap, h->out_cap);
    uint64_t logits = 4ull * h->n_vocab * h->out_cap;
    if (h->next_off != step_next_off(h->row_cap, h->out_cap) || step > io)
        return err_set(e, -EINVAL, "stream: a step block of %llu bytes with next at %llu in an io arena of %llu",
                       (unsigned long long)step, (unsigned long long)h->next_off, (unsigned long long)io);
    /* no head; or, of a whole stream, one that makes vectors */
    if (h->logits_off == 0 && (h->layers_behind || !h->layers_before))
        return 0;
    if (h->logits_off % STREAM_ALIGN != 0 || h->logits_off < step || logits > io || h->logits_off > io - logits)
        return err_set(e, -EINVAL, "stream: logits of %llu bytes at %llu in an io arena of %llu",
                       (unsigned long long)logits, (unsigned long long)h->logits_off, (unsigned long long)io);
    return 0;
}

/* Of a stream of some layers. */
static int check_range(const struct stream *s, struct err *e)
{
    const struct stream_head *h = &s->h;
    uint64_t io = h->arena_bytes[ARENA_IO], off = stream_residual(s), bytes = 4ull * h->n_embd * h->row_cap;
    if (stream_is_whole(s))
        return 0;
    if ((uint32_t)h->layers_before + h->layers_behind >= h->n_layer)
        return err_set(e, -EINVAL, "stream: %u layers before it and %u behind of %u", h->layers_before,
                       h->layers_behind, h->n_layer);
    if (bytes > io || off > io - bytes || (h->logits_off && h->logits_off < off + bytes))
        return err_set(e, -EINVAL, "stream: a residual of %llu bytes at %llu in an io arena of %llu with logits at "
                       "%llu", (unsigned long long)bytes, (unsigned long long)off, (unsigned long long)io,
                       (unsigned long long)h->logits_off);
    if (h->layers_behind && h->logits_off)
        return err_set(e, -EINVAL, "stream: logits with %u layers behind it", h->layers_behind);
    return 0;
}

static int check_weight(const struct stream *s, uint32_t i, uint64_t *end, struct err *e)
{
    const struct stream_weight *w = &s->weights[i];
    uint32_t block = qtype_block(w->type);
    uint64_t bytes;
    if (w->name >= s->h.str_bytes)
        return err_set(e, -EINVAL, "stream: weight %u: name at %u of %u", i, w->name, s->h.str_bytes);
    const char *name = stream_str(s, w->name);
    if (block == 0 || w->reserved != 0)
        return err_set(e, -EINVAL, "stream: weight %u '%s': type %u", i, name, w->type);
    bool ok = w->ne[0] != 0 && w->ne[0] <= INT32_MAX && w->ne[0] % block == 0;
    bytes = qtype_row_bytes(w->type, ok ? w->ne[0] : 0);
    for (int d = 1; d < 4; d++)
        ok = ok && w->ne[d] != 0 && ckd_mul_u64(bytes, w->ne[d], &bytes);
    if (!ok || bytes != w->bytes)
        return err_set(e, -EINVAL, "stream: weight %u '%s': [%llu, %llu, %llu, %llu] of %s do not make %llu bytes", i,
                       name, (unsigned long long)w->ne[0], (unsigned long long)w->ne[1],
                       (unsigned long long)w->ne[2], (unsigned long long)w->ne[3], qtype_name(w->type),
                       (unsigned long long)w->bytes);
    uint64_t arena = s->h.arena_bytes[ARENA_WEIGHTS];
    if (w->off % STREAM_ALIGN != 0 || w->off < *end || w->off > arena || w->bytes > arena - w->off)
        return err_set(e, -EINVAL, "stream: weight %u '%s': %llu bytes at %llu, after %llu, in an arena of %llu", i,
                       name, (unsigned long long)w->bytes, (unsigned long long)w->off, (unsigned long long)*end,
                       (unsigned long long)arena);
    *end = w->off + w->bytes;
    return 0;
}

static int check_buf(const struct stream *s, uint32_t i, struct err *e)
{
    const struct stream_buf *b = &s->bufs[i];
    if (b->name >= s->h.str_bytes)
        return err_set(e, -EINVAL, "stream: buffer %u: name at %u of %u", i, b->name, s->h.str_bytes);
    const char *name = stream_str(s, b->name);
    if (b->arena >= ARENA_COUNT)
        return err_set(e, -EINVAL, "stream: buffer %u '%s': arena %u of %d", i, name, b->arena, ARENA_COUNT);
    uint64_t arena = s->h.arena_bytes[b->arena];
    if (b->off % STREAM_ALIGN != 0 || b->bytes == 0 || b->off > arena || b->bytes > arena - b->off)
        return err_set(e, -EINVAL, "stream: buffer %u '%s': %llu bytes at %llu in an arena of %llu", i, name,
                       (unsigned long long)b->bytes, (unsigned long long)b->off, (unsigned long long)arena);
    if (b->ld > b->bytes / 4)
        return err_set(e, -EINVAL, "stream: buffer %u '%s': rows of %u in %llu bytes", i, name, b->ld,
                       (unsigned long long)b->bytes);
    if (b->arena != ARENA_WEIGHTS)
        return b->weight == UINT32_MAX
                   ? 0
                   : err_set(e, -EINVAL, "stream: buffer %u '%s': a weight outside the weights", i, name);
    if (b->weight >= s->h.n_weights || s->weights[b->weight].off != b->off || s->weights[b->weight].bytes != b->bytes)
        return err_set(e, -EINVAL, "stream: buffer %u '%s': is not weight %u of %u", i, name, b->weight,
                       s->h.n_weights);
    return 0;
}

/* A whole stream without logits ends with vectors. */
static int check_vectors(const struct stream *s, struct err *e)
{
    uint32_t n = 0;
    if (s->h.logits_off || !stream_is_whole(s))
        return 0;
    uint64_t off = stream_vectors(s, &n), io = s->h.arena_bytes[ARENA_IO], bytes = 4ull * n * s->h.out_cap;
    if (!off || !n || bytes > io || off > io - bytes)
        return err_set(e, -EINVAL, "stream: neither logits nor vectors for %u outputs (rows of %u at %llu in an io arena of %llu)",
                       s->h.out_cap, n, (unsigned long long)off, (unsigned long long)io);
    return 0;
}

/* The patch table says the step block's words, each once, in the order of the symbols. */
static int check_patches(const struct stream *s, struct err *e)
{
    const uint32_t rows = s->h.row_cap, outs = s->h.out_cap, sample = (64 + 16 * rows + 4 * outs + 15) / 16 * 16;
    const struct patch want[SYM_COUNT] = {
        [SYM_N_ROWS] = {0, SYM_N_ROWS, 4, 4, 1},
        [SYM_N_OUT] = {4, SYM_N_OUT, 4, 4, 1},
        [SYM_KV_LEN] = {8, SYM_KV_LEN, 4, 4, 1},
        [SYM_TOKEN] = {64, SYM_TOKEN, 4, 16, rows},
        [SYM_POS] = {68, SYM_POS, 4, 16, rows},
        [SYM_SLOT] = {72, SYM_SLOT, 4, 16, rows},
        [SYM_OUT_ROW] = {64 + 16 * rows, SYM_OUT_ROW, 4, 4, outs},
        [SYM_TEMP] = {sample, SYM_TEMP, 4, 32, outs},
        [SYM_TOP_K] = {sample + 4, SYM_TOP_K, 4, 32, outs},
        [SYM_TOP_P] = {sample + 8, SYM_TOP_P, 4, 32, outs},
        [SYM_MIN_P] = {sample + 12, SYM_MIN_P, 4, 32, outs},
        [SYM_SEED] = {sample + 16, SYM_SEED, 4, 32, outs},
        [SYM_COUNTER] = {sample + 20, SYM_COUNTER, 4, 32, outs},
        [SYM_QUIET] = {sample + 24, SYM_QUIET, 4, 32, outs},
    };
    if (s->h.n_patches != SYM_COUNT)
        return err_set(e, -EINVAL, "stream: %u patches, the step block has %d", s->h.n_patches, SYM_COUNT);
    for (uint32_t i = 0; i < SYM_COUNT; i++) {
        const struct patch *p = &s->patches[i], *w = &want[i];
        if (p->off != w->off || p->sym != w->sym || p->width != w->width || p->stride != w->stride ||
            p->count != w->count)
            return err_set(e, -EINVAL, "stream: patch %u: symbol %u, %u words of %u at %u, %u apart; expected symbol "
                           "%u, %u words of %u at %u, %u apart", i, p->sym, p->count, p->width, p->off, p->stride,
                           w->sym, w->count, w->width, w->off, w->stride);
    }
    return 0;
}

int verify_tables(const struct stream *s, struct err *e)
{
    uint64_t end = 0;
    int rc = check_head(&s->h, e);
    if (rc || (rc = check_range(s, e)))
        return rc;
    if (s->h.str_bytes == 0 || s->strs[s->h.str_bytes - 1] != 0)
        return err_set(e, -EINVAL, "stream: the strings do not end with NUL");
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        if ((rc = check_weight(s, i, &end, e)))
            return rc;
    if (stream_weights_hash(s->weights, s->h.n_weights, s->strs) != s->h.weights_hash)
        return err_set(e, -EINVAL, "stream: the weight table does not have the hash in the head");
    for (uint32_t i = 0; i < s->h.n_bufs; i++)
        if ((rc = check_buf(s, i, e)))
            return rc;
    return (rc = check_vectors(s, e)) ? rc : check_patches(s, e);
}
