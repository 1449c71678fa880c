/* What of the slots goes to the disk, and what comes from there into a slot. Of a sequence that is whole blocks of
 * PREFIX_RUN positions, each found by the hash of owner and tokens up to its end; and of recurrent models, wherever a
 * snapshot was taken, the state with the rest of a block before it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/serve/kvpool_impl.h"
#include "engine/serve/prefix_class.h"

enum {
    BLOCK = PREFIX_RUN,
    LEAST = 64,              /* tokens that are worth asking the disk for                  */
    AHEAD = 4,               /* files that are read while one is put in place              */
    TRIES = 3,               /* plans, each without the files that the one before missed   */
};
#define SLICE_NS 3000000u    /* of a call between two steps                                */
#define CLOSE_NS 10000000000u /* for writing what is left at the end                       */

/* Files are numbered as they are needed: blocks from `first` on, then the end, if the model needs one. */
struct kv_fetch {
    uint32_t n, first, n_blocks, target; /* of the prompt; block numbers; the position reached in the end */
    bool end;                /* the last file is one with a state                          */
    struct prefix_hash *key; /* [files]                                                    */
    uint32_t asked, done;    /* of the files                                               */
    struct prefix_read *read[AHEAD];
    uint32_t tries;
    uint64_t since_ns, bytes;
};

static uint32_t files_of(const struct kv_fetch *f)
{
    return f->n_blocks - f->first + f->end;
}

static struct prefix_hash beginning(const struct kvpool *p, const struct kv_slot *slot)
{
    uint64_t id = slot->owner->id;
    return (struct prefix_hash){ p->owner_name && id ? p->owner_name(p->owner_user, id) : id, 0 };
}

static struct prefix_id block_id(const struct kvpool *p, struct prefix_hash key, uint32_t i)
{
    return (struct prefix_id){ .class = prefix_disk_class(p->disk), .key = key, .kind = PREFIX_BLOCK, .from = i * BLOCK,
                               .to = (i + 1) * BLOCK, .n_data = kvcopy_run_bytes(p->copy, i * BLOCK, (i + 1) * BLOCK) };
}

static struct prefix_id end_id(const struct kvpool *p, struct prefix_hash before, const int32_t *tok, uint32_t pos)
{
    uint32_t from = pos / BLOCK * BLOCK;
    return (struct prefix_id){ .class = prefix_disk_class(p->disk), .key = prefix_hash_next(before, tok + from, pos - from),
                               .kind = PREFIX_END, .from = from, .to = pos,
                               .n_data = kvcopy_run_bytes(p->copy, from, pos) + p->state_bytes };
}

/* Models without any attention have no caches: their blocks hold nothing. */
static bool has_blocks(const struct kvpool *p)
{
    return kvcopy_run_bytes(p->copy, 0, BLOCK) > 0;
}

/* ---- life ---- */

int kvpool_disk_open(struct kvpool *p, const struct kvpool_opts *o, struct err *e)
{
    if (!o->disk_dir)
        return 0;
    struct prefix_disk_opts d = { .dir = o->disk_dir, .max_bytes = o->disk_bytes, .wake = o->wake, .user = o->wake_user,
                                  .class = prefix_class(p->eng, !p->prompts_only) };
    p->owner_name = o->owner_name;
    p->owner_user = o->owner_user;
    return prefix_disk_create(&d, &p->disk, e);
}

void kvpool_disk_forget(const struct kvpool *p, struct kv_slot *slot)
{
    if (!p->disk)
        return;
    slot->spilled = 0;
    slot->chain = beginning(p, slot);
}

/* ---- to the disk ---- */

/* Reading it again would be slower than evaluating it, as far as is known. */
static bool does_not_pay(const struct kvpool *p, uint64_t bytes, uint32_t n)
{
    return p->token_ns > 0 && p->disk_byte_ns > 0 && p->disk_byte_ns * (double)bytes > p->token_ns * n;
}

static bool has_more(const struct kvpool *p, const struct kv_slot *slot)
{
    return has_blocks(p) && slot->spilled <= kvpool_known(slot) && kvpool_known(slot) - slot->spilled >= BLOCK;
}

/* One more block of a slot. False: nothing to do, or no room just now. */
static bool spill(struct kvpool *p, struct kv_slot *slot)
{
    struct err e = { 0 };
    while (has_more(p, slot)) {
        const int32_t *tok = slot->s->tok;
        struct prefix_hash next = prefix_hash_next(slot->chain, tok + slot->spilled, BLOCK);
        struct prefix_id id = block_id(p, next, slot->spilled / BLOCK);
        bool pass = does_not_pay(p, id.n_data, BLOCK) || prefix_disk_has(p->disk, &id);
        struct prefix_image *m = pass ? NULL : prefix_disk_image(p->disk, &id);
        if (!pass && !m)
            return false;
        if (m && kvcopy_save(p->copy, slot->s->slot, id.from, id.to, m->data, &e)) {
            prefix_disk_discard(p->disk, m);
            return false;
        }
        slot->chain = next;
        slot->spilled += BLOCK;
        if (m) {
            prefix_disk_write(p->disk, m, tok);
            return true;
        }
    }
    return false;
}

bool kvpool_may_spill(const struct kvpool *p)
{
    for (uint32_t i = 0; p->disk && i < p->n_slots; i++)
        if (!p->slot[i].fetch && has_more(p, &p->slot[i]))
            return true;
    return false;
}

bool kvpool_spill(struct kvpool *p)
{
    uint64_t until = clock_ns() + SLICE_NS;
    if (!p->disk || p->eng->tier->faulted)
        return false;
    for (uint32_t i = 0; i < p->n_slots; i++)
        while (!p->slot[i].fetch && spill(p, &p->slot[i]))
            if (clock_ns() >= until)
                return true;
    return false;
}

void kvpool_disk_state(struct kvpool *p, struct kv_slot *slot, const void *state)
{
    uint32_t pos = kvpool_known(slot), from = pos / BLOCK * BLOCK;
    struct err e = { 0 };
    if (!p->disk || slot->fetch || pos < LEAST)
        return;
    struct prefix_hash h = slot->spilled <= from ? slot->chain : beginning(p, slot);
    for (uint32_t at = slot->spilled <= from ? slot->spilled : 0; at < from; at += BLOCK)
        h = prefix_hash_next(h, slot->s->tok + at, BLOCK);
    struct prefix_id id = end_id(p, h, slot->s->tok, pos);
    struct prefix_image *m = prefix_disk_has(p->disk, &id) ? NULL : prefix_disk_image(p->disk, &id);
    if (!m)
        return;
    if (kvcopy_save(p->copy, slot->s->slot, from, pos, m->data, &e)) {
        prefix_disk_discard(p->disk, m);
        return;
    }
    memcpy(m->data + id.n_data - p->state_bytes, state, p->state_bytes);
    prefix_disk_write(p->disk, m, slot->s->tok);
}

/* A recurrent sequence goes on from where it ends, which need not be at a snapshot. */
static void write_end(struct kvpool *p, struct kv_slot *slot)
{
    struct err e;
    bool whole = p->recurrent && slot->s && slot->s->pos && slot->s->pos == kvpool_known(slot);
    void *state = whole ? malloc(p->state_bytes) : NULL;
    if (state && !kvcopy_save_state(p->copy, slot->s->slot, state, &e))
        kvpool_disk_state(p, slot, state);
    free(state);
}

void kvpool_disk_close(struct kvpool *p)
{
    uint64_t until = clock_ns() + CLOSE_NS;
    if (!p->disk)
        return;
    for (uint32_t i = 0; i < p->n_slots && !p->eng->tier->faulted; i++) {
        struct kv_slot *slot = &p->slot[i];
        kvpool_disk_stop(p, slot);
        for (int failed = 0; !failed && clock_ns() < until;) {
            if (spill(p, slot))
                continue;
            failed = kvpool_known(slot) - slot->spilled < BLOCK || !prefix_disk_wait(p->disk);
        }
        write_end(p, slot);
    }
    prefix_disk_destroy(p->disk);
    p->disk = NULL;
}

/* ---- from the disk ---- */

static void drop_reads(struct kvpool *p, struct kv_fetch *f)
{
    for (; f->done < f->asked; f->done++) {
        prefix_disk_drop(p->disk, f->read[f->done % AHEAD]);
        f->read[f->done % AHEAD] = NULL;
    }
}

void kvpool_disk_stop(struct kvpool *p, struct kv_slot *slot)
{
    if (!slot->fetch)
        return;
    drop_reads(p, slot->fetch);
    free(slot->fetch->key);
    free(slot->fetch);
    slot->fetch = NULL;
}

/* The longest beginning of tok[0..n) that the disk can complete from the slot's position on: sets what f reads. False:
 * nothing that is worth it. */
static bool plan(struct kvpool *p, struct kv_slot *slot, struct kv_fetch *f, const int32_t *tok)
{
    uint32_t pos = slot->s->pos, ends = p->recurrent ? prefix_disk_next_end(p->disk, pos + LEAST - 1) : UINT32_MAX;
    struct prefix_hash h = beginning(p, slot), end_key = { 0 };
    f->first = pos / BLOCK;
    f->asked = f->done = f->target = f->n_blocks = 0;
    f->end = false;
    for (uint32_t i = 0;; i++) {
        /* h is the hash of i blocks, all there; what ends within the next one? */
        for (; ends < f->n && ends < (i + 1) * BLOCK; ends = prefix_disk_next_end(p->disk, ends)) {
            struct prefix_id id = end_id(p, h, tok, ends);
            if (!prefix_disk_has(p->disk, &id))
                continue;
            f->end = true;
            f->target = ends;
            f->n_blocks = has_blocks(p) ? i : f->first;
            end_key = id.key;
        }
        if ((i + 1) * BLOCK >= f->n)
            break;
        h = prefix_hash_next(h, tok + i * BLOCK, BLOCK);
        struct prefix_id id = block_id(p, h, i);
        if (i >= f->first && has_blocks(p) && !prefix_disk_has(p->disk, &id))
            break;
        if (i >= f->first)
            f->key[i - f->first] = h;
        if (!p->recurrent) {
            f->n_blocks = i + 1;
            f->target = (i + 1) * BLOCK;
        }
    }
    if (f->target < pos + LEAST)
        return false;
    if (f->end)
        f->key[f->n_blocks - f->first] = end_key;
    return true;
}

void kvpool_disk_begin(struct kvpool *p, struct kv_slot *slot, const int32_t *tok, uint32_t n)
{
    if (!p->disk || n < slot->s->pos + LEAST)
        return;
    prefix_disk_refresh(p->disk);
    struct kv_fetch *f = calloc(1, sizeof *f);
    if (!f || !(f->key = malloc((n / BLOCK + 2) * sizeof *f->key))) {
        free(f);
        return;
    }
    f->n = n;
    f->since_ns = clock_ns();
    slot->fetch = f;
    uint32_t pos = slot->s->pos;
    if (!plan(p, slot, f, tok) || does_not_pay(p, kvcopy_run_bytes(p->copy, pos, f->target) + p->state_bytes, f->target - pos))
        kvpool_disk_stop(p, slot);
}

static struct prefix_id file_id(const struct kvpool *p, const struct kv_fetch *f, uint32_t i)
{
    if (!f->end || i + 1 < files_of(f))
        return block_id(p, f->key[i], f->first + i);
    uint32_t from = f->target / BLOCK * BLOCK;
    return (struct prefix_id){ .class = prefix_disk_class(p->disk), .key = f->key[i], .kind = PREFIX_END, .from = from,
                               .to = f->target, .n_data = kvcopy_run_bytes(p->copy, from, f->target) + p->state_bytes };
}

/* Reads ahead. False: no memory for it. */
static bool ask(struct kvpool *p, struct kv_fetch *f, const int32_t *tok)
{
    while (f->asked < files_of(f) && f->asked - f->done < AHEAD) {
        struct prefix_id id = file_id(p, f, f->asked);
        struct prefix_read *r = prefix_disk_read(p->disk, &id, tok);
        if (!r)
            return false;
        f->read[f->asked++ % AHEAD] = r;
    }
    return true;
}

/* Up to here everything of the prompt is in the slot. */
static void reached(struct kvpool *p, struct kv_slot *slot, const int32_t *tok, uint32_t pos)
{
    struct session *s = slot->s;
    memcpy(s->tok + s->pos, tok + s->pos, (pos - s->pos) * sizeof *tok);
    p->stats.tokens_fetched += pos - s->pos;
    p->stats.tokens_reused += pos - s->pos;
    p->stats.hits += s->pos == 0;
    s->pos = slot->seen = pos;
    kvpool_catch_up(p, slot);
}

/* A snapshot in host memory too, so that the next prompt finds it there. */
static void keep_state(struct kvpool *p, struct kv_slot *slot, const uint8_t *state)
{
    if (slot->s->pos != kvpool_known(slot) || slot->end->state)
        return;
    prefix_tree_tick(&p->tree);
    struct prefix_blob *b = prefix_tree_blob(&p->tree, slot->owner, p->state_bytes);
    if (!b)
        return;
    b->from = b->to = slot->s->pos;
    memcpy(b->data, state, p->state_bytes);
    prefix_tree_put_state(&p->tree, slot->end, b);
}

/* Puts the next file in its place; false: it failed, and the slot holds what it held. */
static bool place(struct kvpool *p, struct kv_slot *slot, struct kv_fetch *f, const int32_t *tok, const uint8_t *data)
{
    struct prefix_id id = file_id(p, f, f->done);
    struct err e = { 0 };
    uint32_t from = MAX(id.from, MIN(slot->s->pos, id.to)), id_slot = slot->s->slot;
    int rc = id.to > id.from && has_blocks(p) ? kvcopy_load(p->copy, id_slot, from, id.to, data, id.from, id.to, &e) : 0;
    if (!rc && id.kind == PREFIX_END &&
        (rc = kvcopy_load_state(p->copy, id_slot, data + id.n_data - p->state_bytes, &e))) {
        slot->s->pos = slot->seen = 0; /* what of the state was written is not known */
        kvpool_catch_up(p, slot);
    }
    if (rc) {
        log_warn(ENGINE, "a prefix from disk is evaluated instead: %s", e.msg);
        return false;
    }
    f->bytes += prefix_file_bytes(&id);
    if (!p->recurrent || id.kind == PREFIX_END)
        reached(p, slot, tok, id.to);
    if (id.kind == PREFIX_END)
        keep_state(p, slot, data + id.n_data - p->state_bytes);
    return true;
}

static void learn_disk(struct kvpool *p, const struct kv_fetch *f)
{
    double ns = (double)(clock_ns() - f->since_ns) / (double)MAX(f->bytes, 1u);
    if (f->bytes >= 1 << 20)
        p->disk_byte_ns = p->disk_byte_ns > 0 ? 0.7 * p->disk_byte_ns + 0.3 * ns : ns;
}

/* The blocks so far came more slowly than they could be evaluated; what has come is of use, the rest is evaluated. */
static bool is_too_slow(const struct kvpool *p, const struct kv_fetch *f)
{
    return !p->recurrent && p->token_ns > 0 && f->done >= AHEAD &&
           (double)(clock_ns() - f->since_ns) > p->token_ns * (double)(f->done * BLOCK);
}

bool kvpool_fetch(struct kvpool *p, struct session *s, const int32_t *tok, bool *again)
{
    struct kv_slot *slot = &p->slot[s->slot];
    struct kv_fetch *f = slot->fetch;
    uint64_t until = clock_ns() + SLICE_NS;
    *again = false;
    if (!f)
        return false;
    while (f->done < files_of(f)) {
        if (!ask(p, f, tok))
            break;
        struct prefix_read *r = f->read[f->done % AHEAD];
        enum prefix_read_state st = prefix_read_state(r);
        if (st == PREFIX_READ_WAITS)
            return true;
        if (st == PREFIX_READ_FAILED || !place(p, slot, f, tok, prefix_read_data(r))) {
            drop_reads(p, f);
            if (++f->tries == TRIES || p->eng->tier->faulted || !plan(p, slot, f, tok))
                break;
            continue;
        }
        prefix_disk_drop(p->disk, r);
        f->read[f->done++ % AHEAD] = NULL;
        if (is_too_slow(p, f))
            break;
        if (f->done < files_of(f) && clock_ns() >= until) {
            *again = true;
            return true;
        }
    }
    learn_disk(p, f);
    kvpool_disk_stop(p, slot);
    return false;
}
