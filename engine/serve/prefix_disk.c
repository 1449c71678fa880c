#include "engine/serve/prefix_disk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/serve/prefix_folder.h"

enum { DEFAULT_QUEUE = 64 << 20, SPARES = 6 };
#define REFRESH_NS 500000000u   /* the folder is looked into no more often                  */
#define PAUSE_NS 10000000000u   /* after a write that failed                                */

struct image {
    struct prefix_image m;   /* first */
    int32_t *tok;
};

struct prefix_read {
    struct prefix_read *next;
    struct prefix_id id;
    int32_t *tok;
    uint8_t *file;
    uint64_t cap;            /* of file                                                      */
    _Atomic(enum prefix_read_state) state;
    bool dropped;            /* under the lock: its reader does not want it any more         */
};

struct prefix_disk {
    struct prefix_folder *folder;
    struct prefix_disk_opts o;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t work, wrote;
    struct prefix_image *write, **write_end, *writing; /* writing: off the queue, not yet there */
    struct prefix_read *read, **read_end, *reading;
    uint64_t queued_bytes;   /* of images, from their making on                              */
    uint64_t pause_until_ns, refreshed_ns;
    bool refresh, quit, waits_for_room;
    struct {
        uint8_t *file;
        uint64_t cap;
    } spare[SPARES];         /* of reads before, while others are to come: pages that are new cost as much as reading them */
    uint32_t n_reads;        /* not freed yet                                                */
    struct prefix_disk_stats st;
};

/* ---- the thread ---- */

static void free_read(struct prefix_disk *d, struct prefix_read *r)
{
    pthread_mutex_lock(&d->lock);
    bool last = !--d->n_reads;
    for (size_t i = 0; i < SPARES; i++) {
        if (last) {
            free(d->spare[i].file);
            d->spare[i].file = NULL;
        } else if (!d->spare[i].file && r->file) {
            d->spare[i].file = r->file;
            d->spare[i].cap = r->cap;
            r->file = NULL;
        }
    }
    pthread_mutex_unlock(&d->lock);
    free(r->file);
    free(r->tok);
    free(r);
}

/* Room for a file of n bytes; false: no memory. Files of one prompt grow a little, by the tokens before them. */
static bool give_room(struct prefix_disk *d, struct prefix_read *r, uint64_t n)
{
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < SPARES && !r->file; i++)
        if (d->spare[i].file && d->spare[i].cap >= n && d->spare[i].cap / 2 <= n) {
            r->file = d->spare[i].file;
            r->cap = d->spare[i].cap;
            d->spare[i].file = NULL;
        }
    pthread_mutex_unlock(&d->lock);
    if (!r->file) {
        r->cap = align_up(n + n / 8, 64);
        r->file = aligned_alloc(64, r->cap);
    }
    return r->file != NULL;
}

static void free_image(struct prefix_image *m)
{
    free(((struct image *)m)->tok);
    free(m->file);
    free(m);
}

static void do_read(struct prefix_disk *d, struct prefix_read *r)
{
    struct err e = { 0 };
    uint64_t n = prefix_file_bytes(&r->id);
    int rc = give_room(d, r, n) ? prefix_folder_get(d->folder, &r->id, r->tok, r->file, &e)
                                : err_set(&e, -ENOMEM, "out of memory for %llu bytes", (unsigned long long)n);
    if (rc && rc != -ENOENT)
        log_warn(ENGINE, "a prefix on disk is not used: %s", e.msg);
    pthread_mutex_lock(&d->lock);
    d->st.reads += !rc;
    d->st.bad += rc && rc != -ENOENT;
    d->reading = NULL;
    bool dropped = r->dropped;
    if (!dropped)
        atomic_store(&r->state, rc ? PREFIX_READ_FAILED : PREFIX_READ_DONE);
    pthread_mutex_unlock(&d->lock);
    if (dropped)
        free_read(d, r);
}

static void do_write(struct prefix_disk *d, struct prefix_image *m)
{
    struct err e = { 0 };
    prefix_file_seal(m->file, &m->id, ((struct image *)m)->tok);
    int rc = prefix_folder_put(d->folder, &m->id, m->file, &e);
    if (rc)
        log_warn(ENGINE, "prefixes are not kept on disk for the next %d s: %s", (int)(PAUSE_NS / 1000000000u), e.msg);
    pthread_mutex_lock(&d->lock);
    d->st.writes += !rc;
    d->st.failed += rc != 0;
    d->writing = NULL;
    d->queued_bytes -= m->n_file;
    if (rc)
        d->pause_until_ns = clock_ns() + PAUSE_NS;
    pthread_cond_broadcast(&d->wrote);
    pthread_mutex_unlock(&d->lock);
    free_image(m);
}

/* After a write that failed the others in the queue would fail too. */
static void drop_writes(struct prefix_disk *d)
{
    while (d->write) {
        struct prefix_image *m = d->write;
        d->write = m->next;
        d->queued_bytes -= m->n_file;
        d->st.dropped++;
        free_image(m);
    }
    d->write_end = &d->write;
}

/* Takes one thing to do out of the queues; reads first: somebody waits for them. False: the end. */
static bool next_work(struct prefix_disk *d, struct prefix_read **r, struct prefix_image **m, bool *refresh)
{
    *r = NULL;
    *m = NULL;
    *refresh = false;
    pthread_mutex_lock(&d->lock);
    while (!d->read && !d->write && !d->refresh && !d->quit)
        pthread_cond_wait(&d->work, &d->lock);
    if (d->write && d->pause_until_ns > clock_ns())
        drop_writes(d);
    if (d->read) {
        *r = d->reading = d->read;
        if (!(d->read = d->read->next))
            d->read_end = &d->read;
    } else if (d->refresh) {
        *refresh = true;
        d->refresh = false;
        d->refreshed_ns = clock_ns();
    } else if (d->write) {
        *m = d->writing = d->write;
        if (!(d->write = d->write->next))
            d->write_end = &d->write;
    }
    bool go_on = *r || *m || *refresh || !d->quit;
    pthread_mutex_unlock(&d->lock);
    return go_on;
}

static void *thread_main(void *user)
{
    struct prefix_disk *d = user;
    struct prefix_read *r;
    struct prefix_image *m;
    bool refresh;
    pthread_setname_np(pthread_self(), "zinc-prefixes");
    while (next_work(d, &r, &m, &refresh)) {
        if (r)
            do_read(d, r);
        else if (m)
            do_write(d, m);
        else if (refresh)
            prefix_folder_refresh(d->folder);
        pthread_mutex_lock(&d->lock);
        bool wake = r || (m && d->waits_for_room);
        d->waits_for_room &= !wake;
        pthread_mutex_unlock(&d->lock);
        if (wake && d->o.wake)
            d->o.wake(d->o.user);
    }
    return NULL;
}

/* ---- life ---- */

int prefix_disk_create(const struct prefix_disk_opts *o, struct prefix_disk **out, struct err *e)
{
    struct prefix_disk *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, -ENOMEM, "%s: out of memory", o->dir);
    d->o = *o;
    d->o.queue_bytes = o->queue_bytes ? o->queue_bytes : DEFAULT_QUEUE;
    d->write_end = &d->write;
    d->read_end = &d->read;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    pthread_cond_init(&d->wrote, NULL);
    int rc = prefix_folder_open(o->dir, o->class, o->max_bytes, &d->folder, e);
    if (!rc && (rc = -pthread_create(&d->thread, NULL, thread_main, d)))
        err_set(e, rc, "%s: cannot start a thread: %s", o->dir, strerror(-rc));
    d->started = !rc;
    if (rc) {
        prefix_disk_destroy(d);
        return rc;
    }
    *out = d;
    return 0;
}

void prefix_disk_destroy(struct prefix_disk *d)
{
    if (!d)
        return;
    if (d->started) {
        pthread_mutex_lock(&d->lock);
        d->quit = true;
        pthread_cond_signal(&d->work);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    CHECK(!d->read && !d->write);
    prefix_folder_close(d->folder);
    pthread_cond_destroy(&d->work);
    pthread_cond_destroy(&d->wrote);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

struct prefix_disk_stats prefix_disk_stats(struct prefix_disk *d)
{
    pthread_mutex_lock(&d->lock);
    struct prefix_disk_stats st = d->st;
    pthread_mutex_unlock(&d->lock);
    uint64_t cut;
    prefix_folder_count(d->folder, &st.files, &st.bytes, &st.evictions, &cut);
    st.bad += cut;
    return st;
}

struct prefix_hash prefix_disk_class(const struct prefix_disk *d)
{
    return d->o.class;
}

/* ---- what there is ---- */

static bool same_file(const struct prefix_id *a, const struct prefix_id *b)
{
    return a->kind == b->kind && a->to == b->to && prefix_hash_equal(a->key, b->key);
}

bool prefix_disk_has(struct prefix_disk *d, const struct prefix_id *id)
{
    pthread_mutex_lock(&d->lock);
    bool coming = d->writing && same_file(&d->writing->id, id);
    for (const struct prefix_image *m = d->write; m && !coming; m = m->next)
        coming = same_file(&m->id, id);
    pthread_mutex_unlock(&d->lock);
    return coming || prefix_folder_has(d->folder, id);
}

uint32_t prefix_disk_next_end(struct prefix_disk *d, uint32_t pos)
{
    return prefix_folder_next_end(d->folder, pos);
}

void prefix_disk_refresh(struct prefix_disk *d)
{
    pthread_mutex_lock(&d->lock);
    if (!d->refresh && clock_ns() - d->refreshed_ns > REFRESH_NS) {
        d->refresh = true;
        pthread_cond_signal(&d->work);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- writing ---- */

struct prefix_image *prefix_disk_image(struct prefix_disk *d, const struct prefix_id *id)
{
    uint64_t n = prefix_file_bytes(id);
    pthread_mutex_lock(&d->lock);
    bool never = n > d->o.max_bytes || d->pause_until_ns > clock_ns();
    bool fits = !d->queued_bytes || (d->queued_bytes < d->o.queue_bytes && n <= d->o.queue_bytes - d->queued_bytes);
    d->waits_for_room |= !never && !fits;
    if (!never && fits)
        d->queued_bytes += n;
    pthread_mutex_unlock(&d->lock);
    if (never || !fits)
        return NULL;
    struct image *im = calloc(1, sizeof *im);
    uint8_t *file = aligned_alloc(64, align_up(n, 64));
    int32_t *tok = malloc(id->to * sizeof *tok);
    if (!im || !file || !tok) {
        free(im);
        free(file);
        free(tok);
        pthread_mutex_lock(&d->lock);
        d->queued_bytes -= n;
        pthread_mutex_unlock(&d->lock);
        return NULL;
    }
    im->tok = tok;
    im->m = (struct prefix_image){ .id = *id, .file = file, .n_file = n, .data = file + prefix_file_data(id) };
    return &im->m;
}

void prefix_disk_write(struct prefix_disk *d, struct prefix_image *m, const int32_t *tok)
{
    memcpy(((struct image *)m)->tok, tok, m->id.to * sizeof *tok);
    m->next = NULL;
    pthread_mutex_lock(&d->lock);
    *d->write_end = m;
    d->write_end = &m->next;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

void prefix_disk_discard(struct prefix_disk *d, struct prefix_image *m)
{
    pthread_mutex_lock(&d->lock);
    d->queued_bytes -= m->n_file;
    pthread_mutex_unlock(&d->lock);
    free_image(m);
}

bool prefix_disk_wait(struct prefix_disk *d)
{
    pthread_mutex_lock(&d->lock);
    bool busy = (d->write || d->writing) && d->pause_until_ns <= clock_ns();
    if (busy)
        pthread_cond_wait(&d->wrote, &d->lock);
    bool fine = d->pause_until_ns <= clock_ns();
    pthread_mutex_unlock(&d->lock);
    return busy && fine;
}

/* ---- reading ---- */

struct prefix_read *prefix_disk_read(struct prefix_disk *d, const struct prefix_id *id, const int32_t *tok)
{
    struct prefix_read *r = calloc(1, sizeof *r);
    if (!r || !(r->tok = malloc(id->to * sizeof *tok))) {
        free(r);
        return NULL;
    }
    r->id = *id;
    memcpy(r->tok, tok, id->to * sizeof *tok);
    pthread_mutex_lock(&d->lock);
    d->n_reads++;
    *d->read_end = r;
    d->read_end = &r->next;
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
    return r;
}

enum prefix_read_state prefix_read_state(const struct prefix_read *r)
{
    return atomic_load(&r->state);
}

const void *prefix_read_data(const struct prefix_read *r)
{
    CHECK(prefix_read_state(r) == PREFIX_READ_DONE);
    return r->file + prefix_file_data(&r->id);
}

void prefix_disk_drop(struct prefix_disk *d, struct prefix_read *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&d->lock);
    bool busy = d->reading == r;
    r->dropped = true;
    for (struct prefix_read **at = &d->read; *at; at = &(*at)->next)
        if (*at == r) {
            if (!(*at = r->next))
                d->read_end = at;
            break;
        }
    pthread_mutex_unlock(&d->lock);
    if (!busy)
        free_read(d, r);
}
