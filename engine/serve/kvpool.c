#include "engine/serve/kvpool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/priv.h"
#include "engine/serve/kvpool_impl.h"

enum {
    DEFAULT_SNAPSHOT_EVERY = 1024,
    DEFAULT_MIN_REUSE = 16,
    LAG = PREFIX_RUN,   /* tokens that a sequence may be ahead of the tree while nobody looks                     */
    COPY_GAIN = 256,    /* how many tokens can be copied while one is evaluated, roughly                          */
};

/* ---- life ---- */

int kvpool_create(struct engine *eng, const struct kvpool_opts *o, struct kvpool **out, struct err *e)
{
    uint32_t n = eng->info.n_slots;
    if (n > PREFIX_SLOTS)
        return err_set(e, -EINVAL, "engine: %u slots, at most %d can share prefixes", n, PREFIX_SLOTS);
    struct kvpool *p = calloc(1, sizeof *p);
    if (!p || !(p->slot = calloc(n, sizeof *p->slot)) || prefix_tree_init(&p->tree, o->host_bytes)) {
        if (p)
            free(p->slot);
        free(p);
        return err_set(e, -ENOMEM, "engine: out of memory for %u slots", n);
    }
    pthread_mutex_init(&p->lock, NULL);
    p->eng = eng;
    p->n_slots = n;
    p->recurrent = eng->info.recurrent;
    p->share = o->share;
    p->prompts_only = eng->tier->info.by_capacity && !o->reuse_generated;
    p->snapshot_every = o->snapshot_every ? o->snapshot_every : DEFAULT_SNAPSHOT_EVERY;
    p->min_reuse = o->min_reuse ? o->min_reuse : DEFAULT_MIN_REUSE;
    p->stats = p->published = (struct kvpool_stats){ .host_bytes_max = o->host_bytes, .slots = n };
    int rc = kvcopy_create(eng, &p->copy, e);
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct session *s;
        p->slot[i].owner = &p->tree.any;
        p->slot[i].end = &p->tree.any.root;
        if (!(rc = session_create(eng, &s, e)))
            p->slot[s->slot].s = s;
    }
    if (rc) {
        kvpool_destroy(p);
        return rc;
    }
    p->state_bytes = kvcopy_state_bytes(p->copy);
    if ((rc = kvpool_disk_open(p, o, e))) {
        kvpool_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

void kvpool_destroy(struct kvpool *p)
{
    if (!p)
        return;
    kvpool_disk_close(p);
    for (uint32_t i = 0; i < p->n_slots; i++)
        session_destroy(p->slot[i].s);
    prefix_tree_finish(&p->tree);
    kvcopy_destroy(p->copy);
    pthread_mutex_destroy(&p->lock);
    free(p->slot);
    free(p);
}

static void publish(struct kvpool *p)
{
    struct kvpool_stats *st = &p->stats;
    st->evictions = p->tree.evictions;
    st->host_bytes = p->tree.bytes;
    st->nodes = p->tree.n_nodes;
    st->slots_busy = p->n_busy;
    if (p->disk)
        st->disk = prefix_disk_stats(p->disk);
    pthread_mutex_lock(&p->lock);
    p->published = *st;
    pthread_mutex_unlock(&p->lock);
}

struct kvpool_stats kvpool_stats(const struct kvpool *p)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&p->lock;
    pthread_mutex_lock(lock);
    struct kvpool_stats st = p->published;
    pthread_mutex_unlock(lock);
    return st;
}

/* ---- what slots hold ---- */

static struct kv_slot *slot_of(const struct kvpool *p, const struct session *s)
{
    struct kv_slot *slot = &p->slot[s->slot];
    CHECK(slot->s == s && slot->busy);
    return slot;
}

void kvpool_catch_up(struct kvpool *p, struct kv_slot *slot)
{
    struct session *s = slot->s;
    uint32_t upto = MIN(MIN(s->pos, slot->seen), slot->limit), from = kvpool_known(slot);
    if (upto < from) {
        slot->end = prefix_tree_cut(&p->tree, slot->end, s->slot, upto);
        kvpool_disk_forget(p, slot);
    } else {
        slot->end = prefix_tree_hold(&p->tree, slot->end, s->slot, s->tok + from, upto - from);
    }
}

/* The slot's state belongs to the end of what the tree knows of it. */
static bool state_at_end(const struct kv_slot *slot)
{
    return slot->s->pos && slot->s->pos == kvpool_known(slot);
}

/* ---- looking ---- */

/* What there is of a prompt. */
struct found {
    uint32_t n;                      /* the longest prefix that any slot could get; 0: none worth it   */
    struct prefix_node *state;       /* recurrent: the snapshot with which it ends                     */
    uint32_t resident[PREFIX_SLOTS]; /* how much of the prompt each slot holds                         */
};

/* Slots that held the nodes so far and are not in `now` hold `pos` tokens. */
static void note_ends(struct found *f, uint64_t held[PREFIX_SLOTS / 64], const uint64_t *now, uint32_t pos)
{
    for (uint32_t i = 0; i < PREFIX_SLOTS / 64; i++) {
        for (uint64_t gone = held[i] & ~now[i]; gone; gone &= gone - 1)
            f->resident[64 * i + (uint32_t)__builtin_ctzll(gone)] = pos;
        held[i] &= now[i];
    }
}

/* At most n - 1 tokens of tok, so that there is something to evaluate. */
static void look(const struct kvpool *p, const struct prefix_owner *o, const int32_t *tok, uint32_t n, struct found *f)
{
    static const uint64_t none[PREFIX_SLOTS / 64];
    struct prefix_at at = { (struct prefix_node *)&o->root, 0 };
    uint64_t held[PREFIX_SLOTS / 64];
    uint32_t pos = 0;
    memset(held, 0xff, sizeof held);
    f->state = NULL;
    while (prefix_tree_next(&p->tree, &at, tok, n - 1)) {
        note_ends(f, held, at.node->slots, at.node->begin);
        if (!prefix_node_in_slots(at.node) && !at.node->run)
            break;
        pos = at.node->begin + at.n;
        if (at.node->state && at.n == at.node->n && pos >= p->min_reuse)
            f->state = at.node;
    }
    note_ends(f, held, none, pos);
    if (p->recurrent)
        pos = f->state ? prefix_node_end(f->state) : 0;
    f->n = pos >= p->min_reuse ? pos : 0;
}

/* Recurrent: the prompt goes on where this idle slot ends, which is no worse than any snapshot. */
static bool goes_on(const struct kv_slot *slot, const struct found *f)
{
    uint32_t here = f->resident[slot->s->slot];
    return state_at_end(slot) && here == kvpool_known(slot) && here >= f->n;
}

/* The position at which the prompt would begin in this idle slot. */
static uint32_t reach(const struct kvpool *p, const struct kv_slot *slot, const struct found *f)
{
    uint32_t here = f->resident[slot->s->slot];
    if (p->recurrent)
        return goes_on(slot, f) ? here : f->n;
    return f->n >= here + p->min_reuse ? f->n : here;
}

uint32_t kvpool_match(const struct kvpool *p, uint64_t owner, const int32_t *tok, uint32_t n)
{
    struct found f;
    const struct prefix_owner *o = &p->tree.any;
    while (o && o->id != (p->share ? 0 : owner))
        o = o->next;
    if (!n || !o)
        return 0;
    look(p, o, tok, n, &f);
    uint32_t best = f.n;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (!p->slot[i].busy)
            best = MAX(best, reach(p, &p->slot[i], &f));
    return best;
}

/* ---- choosing a slot ---- */

/* From the end of a slot upwards: what it alone holds beyond `pos`. NULL: nothing more. */
static struct prefix_node *alone(struct prefix_node *n, uint32_t slot, uint32_t pos)
{
    uint64_t others = 0;
    for (uint32_t i = 0; i < PREFIX_SLOTS / 64; i++)
        others |= n->slots[i] & ~(i == slot / 64 ? 1ull << slot % 64 : 0);
    return others || prefix_node_end(n) <= pos ? NULL : n; /* others hold all above as well */
}

/* In tokens to evaluate: what has to be computed anew because this slot is taken, and what it costs to fill it. What
 * was not used for long is less likely to be wanted again. */
static double cost(const struct kvpool *p, const struct kv_slot *slot, const struct found *f)
{
    uint32_t id = slot->s->slot, here = f->resident[id], start = reach(p, slot, f);
    double lost = 0, age = (double)(p->clock - slot->used);
    for (struct prefix_node *n = slot->end; (n = alone(n, id, here)); n = n->parent)
        lost += n->run ? 0 : MIN(n->n, prefix_node_end(n) - here);
    double missed = (double)f->n - start, copied = start > here ? start - here : 0;
    return missed + copied / COPY_GAIN + lost * p->n_slots / (p->n_slots + age);
}

/* Of equals the emptier, then the older one. */
static struct kv_slot *choose(const struct kvpool *p, const struct found *f)
{
    struct kv_slot *best = NULL;
    double best_cost = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        struct kv_slot *s = &p->slot[i];
        if (s->busy)
            continue;
        double c = cost(p, s, f);
        bool better = !best || c < best_cost ||
                      (c == best_cost && (kvpool_known(s) < kvpool_known(best) || (kvpool_known(s) == kvpool_known(best) && s->used < best->used)));
        if (better) {
            best = s;
            best_cost = c;
        }
    }
    return best;
}

/* ---- saving ---- */

static uint64_t run_bytes(const struct kvpool *p, const struct prefix_node *n)
{
    return kvcopy_run_bytes(p->copy, n->begin, prefix_node_end(n)) + sizeof(struct prefix_blob);
}

static bool snapshots(const struct kvpool *p)
{
    return p->recurrent && p->state_bytes + sizeof(struct prefix_blob) <= p->tree.max_bytes;
}

void kvpool_set_token_ns(struct kvpool *p, double ns)
{
    p->token_ns = ns;
}

/* A running mean. Small moves tell little. */
static void learn_move(struct kvpool *p, uint64_t bytes, uint64_t since_ns)
{
    double ns = (double)(clock_ns() - since_ns) / (double)MAX(bytes, 1u);
    if (bytes >= 64 << 10)
        p->byte_ns = p->byte_ns > 0 ? 0.7 * p->byte_ns + 0.3 * ns : ns;
}

/* Is moving so many bytes `times` quicker than evaluating n tokens? */
static bool move_pays(const struct kvpool *p, uint64_t bytes, uint32_t n, double times)
{
    return p->token_ns <= 0 || p->byte_ns <= 0 || times * p->byte_ns * (double)bytes < p->token_ns * n;
}

static bool save_run(struct kvpool *p, struct prefix_node *n, uint32_t slot)
{
    struct prefix_blob *b = prefix_tree_blob(&p->tree, p->slot[slot].owner, run_bytes(p, n) - sizeof *b);
    struct err e = { 0 };
    if (!b)
        return false;
    uint64_t t0 = clock_ns();
    b->from = n->begin;
    b->to = prefix_node_end(n);
    if (kvcopy_save(p->copy, slot, b->from, b->to, b->data, &e)) {
        log_warn(ENGINE, "a prefix was not saved: %s", e.msg);
        free(b);
        return false;
    }
    learn_move(p, run_bytes(p, n), t0);
    prefix_tree_put_run(&p->tree, n, b);
    p->stats.saves++;
    return true;
}

static void save_state(struct kvpool *p, struct kv_slot *slot)
{
    struct prefix_blob *b = slot->end->state ? NULL : prefix_tree_blob(&p->tree, slot->owner, p->state_bytes);
    struct err e = { 0 };
    if (!b)
        return;
    uint64_t t0 = clock_ns();
    b->from = b->to = kvpool_known(slot);
    if (kvcopy_save_state(p->copy, slot->s->slot, b->data, &e)) {
        log_warn(ENGINE, "no snapshot was taken: %s", e.msg);
        free(b);
        return;
    }
    learn_move(p, p->state_bytes, t0);
    prefix_tree_put_state(&p->tree, slot->end, b);
    kvpool_disk_state(p, slot, b->data);
    p->stats.snapshots++;
}

/* Before a slot is overwritten from `pos` on: what nobody else has goes to host memory. If that is not all, then the
 * beginning, which the rest would need. Saved from the end upwards, as it is to be evicted. */
static void save_rest(struct kvpool *p, struct kv_slot *slot, uint32_t pos)
{
    uint64_t need = 0;
    uint32_t id = slot->s->slot, n_tok = 0;
    if (!p->tree.max_bytes || (p->recurrent && !snapshots(p)))
        return;
    for (struct prefix_node *n = slot->end; (n = alone(n, id, pos)); n = n->parent)
        if (!n->run) {
            need += run_bytes(p, n);
            n_tok += n->n;
        }
    if (n_tok && !move_pays(p, need, n_tok, 4)) /* there and back, and half of it will never be asked for */
        return;
    prefix_tree_touch_path(&p->tree, slot->end); /* what is saved is of no use without it */
    if (p->recurrent && state_at_end(slot) && kvpool_known(slot) >= pos + p->min_reuse)
        save_state(p, slot);
    if (n_tok < p->min_reuse)
        return;
    for (struct prefix_node *n = slot->end; (n = alone(n, id, pos)); n = n->parent) {
        if (n->run)
            continue;
        uint64_t bytes = run_bytes(p, n);
        if (need <= prefix_tree_room(&p->tree, slot->owner) && !save_run(p, n, id))
            return;
        need -= bytes;
    }
}

/* ---- taking a slot ---- */

/* Brings positions [from, to) of the prompt into a slot, as far as another slot has them. Returns how far. */
static uint32_t copy_from_slot(struct kvpool *p, uint32_t slot, const struct found *f, uint32_t from, uint32_t to,
                               struct err *e)
{
    uint32_t src = slot, end = from;
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (i != slot && MIN(f->resident[i], to) > end) {
            src = i;
            end = MIN(f->resident[i], to);
        }
    return src == slot || kvcopy_move(p->copy, slot, src, from, end, e) ? from : end;
}

/* The same, from host memory. */
static uint32_t load_from_host(struct kvpool *p, uint32_t slot, const int32_t *tok, uint32_t from, uint32_t to,
                               struct err *e)
{
    struct prefix_at at = { &p->slot[slot].owner->root, 0 };
    while (from < to && prefix_tree_next(&p->tree, &at, tok, to)) {
        uint32_t end = at.node->begin + at.n;
        const struct prefix_blob *b = at.node->run;
        if (end <= from)
            continue;
        if (!b || kvcopy_load(p->copy, slot, from, end, b->data, b->from, b->to, e))
            break;
        p->stats.restores++;
        from = end;
    }
    return from;
}

static int load_state(struct kvpool *p, uint32_t slot, const struct found *f, struct err *e)
{
    p->stats.restores++;
    return kvcopy_load_state(p->copy, slot, f->state->state->data, e);
}

/* Nothing that the prompt can use may be evicted until it is there. */
static void protect(struct kvpool *p, struct prefix_owner *o, const struct found *f, const int32_t *tok, uint32_t n)
{
    struct prefix_at at = { &o->root, 0 };
    while (prefix_tree_next(&p->tree, &at, tok, n))
        ;
    prefix_tree_touch_path(&p->tree, at.node);
    if (f->state)
        prefix_tree_touch(&p->tree, f->state->state);
}

/* Makes the slot's content the longest prefix of tok; returns its length, less than planned if something fails. */
static uint32_t prepare(struct kvpool *p, struct kv_slot *slot, struct prefix_owner *o, const struct found *f,
                        const int32_t *tok, struct err *e)
{
    struct prefix_tree *t = &p->tree;
    uint32_t id = slot->s->slot, start = reach(p, slot, f), stays = MIN(f->resident[id], start);
    bool restore = p->recurrent && start && !goes_on(slot, f);
    protect(p, o, f, tok, start);
    save_rest(p, slot, f->resident[id]);
    slot->end = prefix_tree_cut(t, slot->end, id, stays);
    stays = kvpool_known(slot);
    if (slot->owner != o) {
        CHECK(stays == 0);
        slot->owner = o;
        slot->end = &o->root;
    }
    uint32_t copied = copy_from_slot(p, id, f, stays, start, e);
    uint32_t pos = load_from_host(p, id, tok, copied, start, e);
    slot->end = prefix_tree_hold(t, slot->end, id, tok + stays, pos - stays);
    pos = kvpool_known(slot);
    if (p->recurrent && (pos != start || (restore && load_state(p, id, f, e)))) {
        slot->end = prefix_tree_cut(t, slot->end, id, 0);
        pos = 0;
    }
    p->stats.tokens_resident += MIN(stays, pos);
    p->stats.tokens_copied += MIN(copied, pos) - MIN(stays, pos);
    p->stats.tokens_restored += pos - MIN(copied, pos);
    return pos;
}

/* Boundaries where a later prompt may part from this one. */
static void set_wanted(const struct kvpool *p, struct kv_slot *slot, const uint32_t *boundary, uint32_t n_boundary,
                       uint32_t n)
{
    slot->n_wanted = 0;
    for (uint32_t i = 0; i < n_boundary && snapshots(p); i++) {
        if (boundary[i] < p->min_reuse || boundary[i] > n || !move_pays(p, p->state_bytes, boundary[i], 2))
            continue;
        if (slot->n_wanted == MAX_WANTED) {
            slot->wanted[1] = slot->wanted[2];
            slot->n_wanted--;
        }
        slot->wanted[slot->n_wanted++] = boundary[i];
    }
}

static bool device_gone(const struct kvpool *p)
{
    return p->eng->faulted || p->eng->tier->faulted;
}

int kvpool_acquire(struct kvpool *p, uint64_t owner, const int32_t *tok, uint32_t n, const uint32_t *boundary,
                   uint32_t n_boundary, struct session **out, struct err *e)
{
    struct found f;
    struct err cause = { 0 };
    if (!n || n > p->eng->info.n_ctx)
        return err_set(e, n ? -E2BIG : -EINVAL, "engine: a prompt of %u tokens, expected 1 to the context's %u", n,
                       p->eng->info.n_ctx);
    if (p->n_busy == p->n_slots)
        return err_set(e, -EAGAIN, "engine: all %u slots are busy", p->n_slots);
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slot[i].busy)
            kvpool_catch_up(p, &p->slot[i]);
    p->tree.now_ns = clock_ns();
    struct prefix_owner *o = prefix_tree_owner(&p->tree, p->share ? 0 : owner);
    if (!o)
        return err_set(e, -ENOMEM, "engine: out of memory for a prompt of %u tokens", n);
    prefix_tree_tick(&p->tree);
    look(p, o, tok, n, &f);
    struct kv_slot *slot = choose(p, &f);
    struct session *s = slot->s;
    uint32_t pos = prepare(p, slot, o, &f, tok, &cause);
    if (device_gone(p)) {
        slot->end = prefix_tree_cut(&p->tree, slot->end, s->slot, 0);
        s->pos = 0;
        return err_set(e, -EIO, "engine: the %s tier failed%s%s", p->eng->info.tier, cause.code ? ": " : "", cause.msg);
    }
    if (cause.code)
        log_warn(ENGINE, "a prefix of %u tokens is evaluated again from %u on: %s", f.n, pos, cause.msg);
    memcpy(s->tok, tok, pos * sizeof *tok);
    s->pos = slot->seen = pos;
    slot->limit = UINT32_MAX;
    slot->busy = true;
    slot->used = ++p->clock;
    p->n_busy++;
    set_wanted(p, slot, boundary, n_boundary, n);
    session_set_cancel(s, NULL);
    session_set_progress(s, NULL);
    p->stats.lookups++;
    p->stats.hits += pos > 0;
    p->stats.tokens += n;
    p->stats.tokens_reused += pos;
    kvpool_disk_forget(p, slot);
    kvpool_disk_begin(p, slot, tok, n);
    publish(p);
    *out = s;
    return 0;
}

/* ---- while it runs ---- */

static bool is_wanted(const struct kvpool *p, const struct kv_slot *slot, uint32_t pos)
{
    bool wanted = pos && pos % p->snapshot_every == 0;
    for (uint32_t i = 0; i < slot->n_wanted; i++)
        wanted |= slot->wanted[i] == pos;
    return wanted;
}

uint32_t kvpool_next_stop(const struct kvpool *p, const struct session *s, uint32_t n)
{
    const struct kv_slot *slot = slot_of(p, s);
    uint64_t every = ((uint64_t)s->pos / p->snapshot_every + 1) * p->snapshot_every;
    uint32_t stop = n;
    if (!snapshots(p))
        return n;
    for (uint32_t i = 0; i < slot->n_wanted; i++)
        if (slot->wanted[i] > s->pos)
            stop = MIN(stop, slot->wanted[i]);
    return (uint32_t)MIN(every, stop);
}

void kvpool_extend(struct kvpool *p, struct session *s, bool generated)
{
    struct kv_slot *slot = slot_of(p, s);
    if (s->pos <= slot->limit)
        slot->limit = UINT32_MAX; /* it was cut */
    if (generated && p->prompts_only)
        slot->limit = MIN(slot->limit, MIN(slot->seen, s->pos));
    slot->seen = s->pos;
    if (generated && MIN(s->pos, slot->limit) - kvpool_known(slot) < LAG)
        return;
    kvpool_catch_up(p, slot);
    if (!generated && snapshots(p) && state_at_end(slot) && is_wanted(p, slot, s->pos)) {
        prefix_tree_tick(&p->tree);
        save_state(p, slot);
    }
    publish(p);
}

void kvpool_release(struct kvpool *p, struct session *s, bool keep)
{
    struct kv_slot *slot = slot_of(p, s);
    kvpool_disk_stop(p, slot);
    if (!keep)
        s->pos = 0;
    kvpool_catch_up(p, slot);
    slot->busy = false;
    slot->used = ++p->clock;
    p->n_busy--;
    publish(p);
}
