/* What is cached for a position lies in planes: K and V of each layer, and on tiers that keep the scales of blocks apart
 * from the codes, these too (kernels/kv.h). A plane of a slot is [heads, n_ctx] units of so many bytes. On the cpu tier
 * 16 units of K are interleaved (oracle/ops_impl.h), so that whole groups of 16 positions are one run of bytes per head
 * on every tier. Saved, the heads of all planes follow one another. */
#include "engine/serve/kvcopy.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/priv.h"

/* Of slot 0; `unit` are bytes of a head's position. */
struct plane {
    uint64_t at, slot_bytes, unit;
    uint32_t heads;
};

/* State: moved as a whole. */
struct part {
    uint64_t at, slot_bytes;
};

struct kvcopy {
    struct tier *tier;
    uint32_t n_ctx, n_slots, n_planes, n_parts;
    uint64_t bytes, state_bytes; /* of a position; of a slot's state */
    struct plane *plane;
    struct part *part;
};

static void add_plane(struct kvcopy *c, uint64_t at, uint64_t slot_bytes, uint32_t heads, uint64_t unit)
{
    c->plane[c->n_planes++] = (struct plane){ at, slot_bytes, unit, heads };
    c->bytes += unit * heads;
}

static void add_cache(struct kvcopy *c, const ka_rope_kv *a, gpu_va cache, bool apart)
{
    uint64_t at = SADDR_OFF(cache), hd = a->head_dim;
    if (KA_KV_IS_BLOCKS(a->kv_type) && apart) {
        uint64_t codes = KA_KV_CODES(a->kv_type, hd);
        add_plane(c, at, a->slot_bytes, a->n_kv, codes);
        add_plane(c, at + (uint64_t)a->n_kv * a->n_ctx * codes, a->slot_bytes, a->n_kv, KA_KV_SCALES(a->kv_type, hd));
    } else {
        add_plane(c, at, a->slot_bytes, a->n_kv, KA_KV_BYTES(a->kv_type, hd));
    }
}

static void add_part(struct kvcopy *c, gpu_va at, uint64_t slot_bytes)
{
    c->part[c->n_parts++] = (struct part){ SADDR_OFF(at), slot_bytes };
    c->state_bytes += slot_bytes;
}

int kvcopy_create(struct engine *eng, struct kvcopy **out, struct err *e)
{
    const struct stream *s = eng->decode.s;
    struct kvcopy *c = calloc(1, sizeof *c);
    uint32_t n_kv = 0, n_gdn = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        n_kv += s->cmds[i].op == CMD_ROPE_KV;
        n_gdn += s->cmds[i].op == CMD_GDN;
    }
    if (!c || !(c->plane = calloc(4 * n_kv + 1, sizeof *c->plane)) ||
        !(c->part = calloc(2 * n_gdn + 1, sizeof *c->part))) {
        kvcopy_destroy(c);
        return err_set(e, -ENOMEM, "engine: out of memory for the places of %u caches", n_kv);
    }
    c->tier = eng->tier;
    c->n_ctx = s->h.n_ctx;
    c->n_slots = s->h.n_slots;
    CHECK(c->n_ctx % KVCOPY_GROUP == 0);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        const ka_rope_kv *kv = stream_args(s, i);
        const ka_gdn *gdn = stream_args(s, i);
        if (s->cmds[i].op == CMD_ROPE_KV && kv->kc) { /* else the layer reads another's */
            add_cache(c, kv, kv->kc, eng->tier->info.kv_planes);
            add_cache(c, kv, kv->vc, eng->tier->info.kv_planes);
        } else if (s->cmds[i].op == CMD_GDN) {
            add_part(c, gdn->conv, gdn->conv_slot_bytes);
            add_part(c, gdn->state, gdn->state_slot_bytes);
        }
    }
    *out = c;
    return 0;
}

void kvcopy_destroy(struct kvcopy *c)
{
    if (!c)
        return;
    free(c->plane);
    free(c->part);
    free(c);
}

static uint32_t group_down(uint32_t pos)
{
    return pos / KVCOPY_GROUP * KVCOPY_GROUP;
}

static uint32_t group_up(uint32_t pos)
{
    return (uint32_t)align_up(pos, KVCOPY_GROUP);
}

uint64_t kvcopy_run_bytes(const struct kvcopy *c, uint32_t from, uint32_t to)
{
    return c->bytes * (group_up(to) - group_down(from));
}

uint64_t kvcopy_state_bytes(const struct kvcopy *c)
{
    return c->state_bytes;
}

/* Of position `from` of a head in a slot's plane. */
static uint64_t address(const struct kvcopy *c, const struct plane *p, uint32_t slot, uint32_t head, uint32_t from)
{
    return p->at + slot * p->slot_bytes + ((uint64_t)head * c->n_ctx + from) * p->unit;
}

static int copy_within(struct kvcopy *c, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    const void *from = tier_map(c->tier, ARENA_KV, src);
    if (!from)
        return tier_copy(c->tier, ARENA_KV, dst, src, n, e);
    memcpy((void *)(uintptr_t)tier_map(c->tier, ARENA_KV, dst), from, n); /* mapped memory is the arena itself */
    return 0;
}

int kvcopy_move(struct kvcopy *c, uint32_t to_slot, uint32_t from_slot, uint32_t from, uint32_t to, struct err *e)
{
    CHECK(from <= to && to <= c->n_ctx && from_slot < c->n_slots && to_slot < c->n_slots && from_slot != to_slot);
    int rc = 0;
    from = group_down(from);
    to = group_up(to);
    for (uint32_t i = 0; i < c->n_planes; i++) {
        const struct plane *p = &c->plane[i];
        for (uint32_t h = 0; h < p->heads && !rc && from < to; h++)
            rc = copy_within(c, address(c, p, to_slot, h, from), address(c, p, from_slot, h, from),
                             (to - from) * p->unit, e);
    }
    return rc;
}

/* A plane's positions [from, to) of all heads, which are host_n positions apart in the host's memory. */
static struct tier_rows rows(const struct kvcopy *c, const struct plane *p, uint32_t slot, uint32_t from, uint32_t to,
                             uint32_t host_n)
{
    return (struct tier_rows){ .off = address(c, p, slot, 0, from), .pitch = c->n_ctx * p->unit,
                               .host_pitch = host_n * p->unit, .width = (to - from) * p->unit, .n = p->heads };
}

int kvcopy_save(struct kvcopy *c, uint32_t slot, uint32_t from, uint32_t to, void *out, struct err *e)
{
    CHECK(from <= to && to <= c->n_ctx && slot < c->n_slots);
    uint8_t *at = out;
    int rc;
    from = group_down(from);
    to = group_up(to);
    for (uint32_t i = 0; i < c->n_planes; i++) {
        const struct plane *p = &c->plane[i];
        struct tier_rows r = rows(c, p, slot, from, to, to - from);
        if ((rc = tier_read_rows(c->tier, ARENA_KV, &r, at, e)))
            return rc;
        at += r.host_pitch * p->heads;
    }
    return 0;
}

int kvcopy_load(struct kvcopy *c, uint32_t slot, uint32_t from, uint32_t to, const void *saved, uint32_t saved_from,
                uint32_t saved_to, struct err *e)
{
    CHECK(from <= to && to <= c->n_ctx && slot < c->n_slots && saved_from <= from && to <= saved_to);
    const uint8_t *at = saved;
    int rc;
    from = group_down(from);
    to = group_up(to);
    saved_from = group_down(saved_from);
    saved_to = group_up(saved_to);
    for (uint32_t i = 0; i < c->n_planes; i++) {
        const struct plane *p = &c->plane[i];
        struct tier_rows r = rows(c, p, slot, from, to, saved_to - saved_from);
        if ((rc = tier_write_rows(c->tier, ARENA_KV, &r, at + (from - saved_from) * p->unit, e)))
            return rc;
        at += r.host_pitch * p->heads;
    }
    return 0;
}

int kvcopy_save_state(struct kvcopy *c, uint32_t slot, void *out, struct err *e)
{
    CHECK(slot < c->n_slots);
    uint8_t *at = out;
    int rc = 0;
    for (uint32_t i = 0; i < c->n_parts && !rc; i++) {
        uint64_t n = c->part[i].slot_bytes;
        rc = tier_read(c->tier, ARENA_STATE, c->part[i].at + slot * n, at, n, e);
        at += n;
    }
    return rc;
}

int kvcopy_load_state(struct kvcopy *c, uint32_t slot, const void *saved, struct err *e)
{
    CHECK(slot < c->n_slots);
    const uint8_t *at = saved;
    int rc = 0;
    for (uint32_t i = 0; i < c->n_parts && !rc; i++) {
        uint64_t n = c->part[i].slot_bytes;
        rc = tier_write(c->tier, ARENA_STATE, c->part[i].at + slot * n, at, n, e);
        at += n;
    }
    return rc;
}
