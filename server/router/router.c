#ifdef ZINC_CURL
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/router/router_impl.h"

enum { HOLD_S = 3, RETRY_S = 5, WATCH_MS = 20 /* while something starts or ends */, IDLE_MS = 1000 };
#define SECOND 1000000000ull

static void set_state(struct model *m, enum model_state s)
{
    m->state = s;
    m->since_ns = clock_ns();
}

/* `now` may be older: a turn takes one look at the clock. */
static bool is_past(uint64_t since_ns, uint64_t now, uint64_t seconds)
{
    return now > since_ns && now - since_ns > seconds * SECOND;
}

/* ---- models ---- */

static uint32_t count(const struct router *r, enum model_state s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->o.n_models; i++)
        n += r->m[i].state == s;
    return n;
}

static void end_model(struct model *m, const char *why)
{
    log_info(SERVER, "%s ends: %s", m->o->name, why);
    child_signal(&m->child, SIGTERM);
    m->unload = false;
    set_state(m, MODEL_ENDING);
}

static void start_model(struct router *r, struct model *m)
{
    struct err e = { 0 };
    m->loads++;
    m->unload = false;
    if (child_start(&m->child, m->o->name, m->o->argv, r->dir, (unsigned)(m - r->m), &e)) {
        m->failures++;
        snprintf(m->why, sizeof m->why, "%s", e.msg);
        set_state(m, MODEL_FAILED);
        return;
    }
    log_info(SERVER, "%s is being loaded", m->o->name);
    set_state(m, MODEL_LOADING);
}

/* It was started and is gone: once more when those that are idle have given up their memory, or not. */
static void did_not_load(struct router *r, struct model *m, const char *how)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < r->o.n_models && !m->alone; i++)
        if (model_may_end(&r->m[i])) {
            end_model(&r->m[i], "another one could not be loaded beside it");
            ended++;
        }
    m->failures++;
    snprintf(m->why, sizeof m->why, "%s", m->child.last[0] ? m->child.last : how);
    m->alone = ended > 0;
    set_state(m, ended ? MODEL_OFF : MODEL_FAILED);
    log_warn(SERVER, "%s cannot be loaded: %s%s", m->o->name, m->why, ended ? "; tried again without the idle ones" : "");
}

static void look_at(struct router *r, struct model *m, uint64_t now)
{
    char how[64];
    if (m->state != MODEL_READY) /* the others' logs are read when there is something */
        child_read_log(&m->child);
    if (child_ended(&m->child, how)) {
        if (m->state == MODEL_LOADING) {
            did_not_load(r, m, how);
            return;
        }
        if (m->state == MODEL_READY)
            log_warn(SERVER, "%s has ended by itself: %s", m->o->name, how);
        memory_ended(r, m);
        set_state(m, MODEL_OFF);
    } else if (m->state == MODEL_LOADING && child_is_ready(&m->child)) {
        struct child_memory c;
        log_info(SERVER, "%s is ready after %.1f s", m->o->name, (double)(now - m->since_ns) * 1e-9);
        if (child_memory(&m->child, &c))
            memory_ready(r, m, &c);
        m->alone = false;
        m->used_ns = now;
        set_state(m, MODEL_READY);
    } else if (m->state == MODEL_ENDING && is_past(m->since_ns, now, r->o.end_s)) {
        child_signal(&m->child, SIGKILL);
    }
}

/* ---- turns ---- */

static struct model *longest_idle(struct router *r)
{
    struct model *best = NULL;
    for (uint32_t i = 0; i < r->o.n_models; i++)
        if (model_may_end(&r->m[i]) && (!best || r->m[i].used_ns < best->used_ns))
            best = &r->m[i];
    return best;
}

/* Places for models in this turn. */
struct places {
    uint32_t free, coming; /* coming: of those that are ending */
};

/* False: all others answer. */
static bool make_room(struct router *r, const struct model *m)
{
    if (count(r, MODEL_ENDING))
        return true;
    struct model *victim = memory_victim(r, m);
    if (victim)
        end_model(victim, "its memory is needed");
    return victim != NULL;
}

static void never_fits(struct router *r, struct model *m)
{
    m->failures++;
    snprintf(m->why, sizeof m->why, "it takes %.0f MiB, more than the %.0f MiB that loaded models may take (--max-loaded-mib)",
             (double)memory_needs(m) / 0x1p20, (double)r->o.max_bytes / 0x1p20);
    log_warn(SERVER, "%s cannot be loaded: %s", m->o->name, m->why);
    set_state(m, MODEL_FAILED);
}

/* False: there is no place for it, nor will there be one soon. */
static bool place_model(struct router *r, struct model *m, struct places *p)
{
    if (m->seen)
        return true;
    m->seen = true;
    if (m->alone && count(r, MODEL_ENDING))
        return true;
    enum memory_room room = p->free ? memory_room(r, m) : ROOM_NOW;
    if (room == ROOM_NEVER) {
        never_fits(r, m);
        return true;
    }
    if (room == ROOM_LATER)
        return make_room(r, m);
    if (p->free) {
        p->free--;
        start_model(r, m);
        return true;
    }
    if (p->coming) {
        p->coming--;
        return true;
    }
    struct model *victim = longest_idle(r);
    if (victim)
        end_model(victim, "its place is needed");
    return victim != NULL;
}

static void run_forward(struct router *r, struct forward *f)
{
    if (f->load_only) {
        out_text(&f->out, "{\"success\":true}");
        TAILQ_REMOVE(&r->waiting, f, of_list);
        r->n_waiting--;
        forward_answer(f, 200);
        return;
    }
    TAILQ_REMOVE(&r->waiting, f, of_list);
    r->n_waiting--;
    f->m->used_ns = clock_ns();
    if (forward_start(f))
        forward_fail(f, 503, "overloaded", "out of memory");
}

static void refuse(struct router *r, struct forward *f, int status, const char *code, const char *why)
{
    TAILQ_REMOVE(&r->waiting, f, of_list);
    r->n_waiting--;
    forward_fail(f, status, code, "%s", why);
}

static void place_waiting(struct router *r, uint64_t now)
{
    struct forward *f, *next;
    const struct model *starved = NULL;
    uint32_t on = 0;
    char why[sizeof r->m->why + 160];
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        on += model_is_on(&r->m[i]);
        r->m[i].seen = false;
    }
    struct places p = { .free = r->o.max_loaded > on ? r->o.max_loaded - on : 0, .coming = count(r, MODEL_ENDING) };
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        struct model *m = &r->m[i];
        bool retry = m->state == MODEL_FAILED && is_past(m->since_ns, now, RETRY_S);
        if (m->o->pinned && (m->state == MODEL_OFF || retry))
            place_model(r, m, &p);
    }
    for (f = TAILQ_FIRST(&r->waiting); f; f = next) {
        struct model *m = f->m;
        next = TAILQ_NEXT(f, of_list);
        if (m->state == MODEL_FAILED && !m->seen && is_past(m->since_ns, now, RETRY_S))
            set_state(m, MODEL_OFF);
        if (m->state == MODEL_OFF && !place_model(r, m, &p) && !starved && is_past(f->began_ns, now, HOLD_S))
            starved = m;
        if (m->state == MODEL_READY && !(starved && starved != m)) {
            run_forward(r, f);
        } else if (m->state == MODEL_FAILED) {
            snprintf(why, sizeof why, "the model '%.100s' cannot be loaded: %s", m->o->name, m->why);
            refuse(r, f, 503, "model_load_failed", why);
        }
    }
}

static void end_idle(struct router *r, uint64_t now)
{
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        struct model *m = &r->m[i];
        bool late = m->o->idle_s && is_past(m->used_ns, now, m->o->idle_s);
        if (model_may_end(m) && (m->unload || late))
            end_model(m, m->unload ? "asked to" : "nobody asks for it");
    }
    struct model *victim = memory_is_over(r) && count(r, MODEL_READY) > 1 && !count(r, MODEL_ENDING) ? longest_idle(r) : NULL;
    if (victim) /* one took more than it seemed to need */
        end_model(victim, "its memory is needed");
}

/* Everything ends. True: there are no processes any more. */
static bool end_all(struct router *r)
{
    bool done = true;
    struct forward *f;
    while ((f = TAILQ_FIRST(&r->waiting)))
        refuse(r, f, 503, "shutting_down", "the server is shutting down");
    TAILQ_FOREACH(f, &r->running, of_list)
        forward_cut(f);
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        struct model *m = &r->m[i];
        if (m->state == MODEL_READY || m->state == MODEL_LOADING)
            end_model(m, "the server ends");
        done &= !model_is_on(m);
    }
    return done && TAILQ_EMPTY(&r->running);
}

/* ---- the thread ---- */

void router_poke(struct router *r)
{
    curl_lib.multi_wakeup(r->multi);
}

/* What is to be watched beside the connections: logs. */
static unsigned watch(struct router *r, int *ms)
{
    unsigned n = 0;
    *ms = IDLE_MS;
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        const struct model *m = &r->m[i];
        if (m->child.log >= 0)
            r->fds[n++] = (struct curl_waitfd){ .fd = m->child.log, .events = CURL_WAIT_POLLIN };
        if (m->state == MODEL_LOADING || m->state == MODEL_ENDING)
            *ms = WATCH_MS;
    }
    return n;
}

static void read_logs(struct router *r, unsigned n)
{
    for (unsigned k = 0; k < n; k++)
        for (uint32_t i = 0; i < r->o.n_models && r->fds[k].revents; i++)
            if (r->m[i].child.log == r->fds[k].fd) {
                child_read_log(&r->m[i].child);
                break;
            }
}

static void *work(void *user)
{
    struct router *r = user;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        uint64_t now = clock_ns();
        int ms;
        for (uint32_t i = 0; i < r->o.n_models; i++)
            if (r->m[i].child.pid)
                look_at(r, &r->m[i], now);
        if (r->stop && end_all(r))
            break;
        if (!r->stop) {
            place_waiting(r, now);
            end_idle(r, now);
        }
        forwards_tend(r);
        unsigned n = watch(r, &ms);
        pthread_mutex_unlock(&r->lock);
        forwards_work(r);
        curl_lib.multi_poll(r->multi, r->fds, n, ms, NULL);
        pthread_mutex_lock(&r->lock);
        read_logs(r, n);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- from its begin to its end ---- */

static int make_folder(struct router *r, struct err *e)
{
    const char *at = getenv("XDG_RUNTIME_DIR");
    if (!at || !*at || access(at, W_OK | X_OK))
        at = getenv("TMPDIR");
    if (!at || !*at)
        at = "/tmp";
    if (snprintf(r->dir, sizeof r->dir, "%s/zinc-XXXXXX", at) >= (int)sizeof r->dir || !mkdtemp(r->dir)) {
        r->dir[0] = 0;
        return err_set(e, -EIO, "no folder for the models' sockets below %.200s: %s (TMPDIR names another, short one)", at,
                       strlen(at) > sizeof r->dir - 16 ? "its name is too long" : strerror(errno));
    }
    return 0;
}

static int open_all(struct router *r, struct err *e)
{
    int rc = curl_lib_open(e);
    if (rc || (rc = make_folder(r, e)))
        return rc;
    r->m = calloc(r->o.n_models, sizeof *r->m);
    r->fds = calloc(r->o.n_models, sizeof *r->fds);
    r->multi = curl_lib.multi_init();
    if (!r->m || !r->fds || !r->multi)
        return err_set(e, -ENOMEM, "router: out of memory");
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        const struct router_model *o = &r->o.models[i];
        r->m[i] = (struct model){ .o = o, .child.log = -1, .names = api_names_create(o->name, o->aliases, o->n_aliases, true) };
        if (!r->m[i].names)
            return err_set(e, -ENOMEM, "router: out of memory");
    }
    rc = pthread_create(&r->thread, NULL, work, r);
    if (rc)
        return err_set(e, -rc, "router: its thread cannot start: %s", strerror(rc));
    r->has_thread = true;
    return 0;
}

int router_create(const struct router_opts *o, struct router **out, struct err *e)
{
    struct router *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, -ENOMEM, "router: out of memory");
    r->o = *o;
    pthread_mutex_init(&r->lock, NULL);
    TAILQ_INIT(&r->waiting);
    TAILQ_INIT(&r->running);
    int rc = open_all(r, e);
    if (rc) {
        router_destroy(r);
        return rc;
    }
    *out = r;
    return 0;
}

uint32_t router_drain(struct router *r, uint64_t timeout_ns)
{
    uint64_t end = clock_ns() + timeout_ns;
    uint32_t left;
    for (;; usleep(2000)) {
        struct forward *f;
        pthread_mutex_lock(&r->lock);
        left = r->n_waiting;
        TAILQ_FOREACH(f, &r->running, of_list)
            left++;
        r->stop = !left || clock_ns() >= end;
        bool stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        if (stop)
            break;
    }
    router_poke(r);
    pthread_join(r->thread, NULL);
    r->has_thread = false;
    return left;
}

void router_destroy(struct router *r)
{
    if (!r)
        return;
    if (r->has_thread)
        router_drain(r, 0);
    for (uint32_t i = 0; r->m && i < r->o.n_models; i++)
        api_names_destroy(r->m[i].names);
    if (r->multi)
        curl_lib.multi_cleanup(r->multi);
    if (r->dir[0])
        rmdir(r->dir);
    pthread_mutex_destroy(&r->lock);
    free(r->m);
    free(r->fds);
    free(r);
}
#endif
