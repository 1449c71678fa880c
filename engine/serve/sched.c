#include "engine/serve/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "engine/serve/sched_impl.h"

/* A prompt that another request is evaluating just now is waited for, when so many tokens can be shared. */
enum { WORTH_WAITING = 64 };

/* Steps for masks that a round takes itself, some 2 ms: beyond that they are made elsewhere. */
enum { ROUND_MASK_STEPS = 200000, GRAMMAR_STEPS = 500000000 };

/* ---- jobs ---- */

static void job_free(struct sched_job *j)
{
    free(j->vector);
    free(j->sum);
    CHECK(!j->gen || !gen_grammar_state(j->gen)); /* it went when the job ended */
    gen_destroy(j->gen);
    free(j->prompt);
    free(j->boundary);
    free(j->predicted);
    draft_destroy(j->draft);
    free(j->made.text);
    free(j->made.tok);
    free(j->taken.text);
    free(j->taken.tok);
    pthread_mutex_destroy(&j->lock);
    pthread_mutex_destroy(&j->wake_lock);
    free(j);
}

static void job_unref(struct sched_job *j)
{
    if (atomic_fetch_sub(&j->refs, 1) == 1)
        job_free(j);
}

static int on_text(void *user, const char *text, size_t n)
{
    struct sched_job *j = user;
    struct job_out *o = &j->made;
    int rc = 0;
    pthread_mutex_lock(&j->lock);
    if (o->n_text + n + 1 > o->cap_text) {
        size_t cap = MAX(2 * o->cap_text, o->n_text + n + 1);
        char *t = realloc(o->text, cap);
        if (t) {
            o->text = t;
            o->cap_text = cap;
        } else {
            rc = -ENOMEM;
        }
    }
    if (!rc) {
        memcpy(o->text + o->n_text, text, n);
        o->n_text += n;
        if (o->n_tok)
            o->tok[o->n_tok - 1].text_end = (uint32_t)o->n_text;
    }
    pthread_mutex_unlock(&j->lock);
    return rc;
}

static int on_token(void *user, int32_t id, const float *logits)
{
    struct sched_job *j = user;
    struct sched_token t = { .id = id }, *likely = &j->likely[j->at_row];
    if (j->n_logprobs >= 0 && likely->id == id)
        t = *likely;
    else if (j->n_logprobs >= 0 && logits)
        sched_log_probabilities(&t, logits, j->s->eng->info.n_vocab, (uint32_t)j->n_logprobs);
    likely->id = -1;
    return sched_tell(j, t);
}

int sched_tell(struct sched_job *j, struct sched_token t)
{
    struct job_out *o = &j->made;
    int rc = 0;
    pthread_mutex_lock(&j->lock);
    if (o->n_tok == o->cap_tok) {
        uint32_t cap = MAX(2 * o->cap_tok, 8u);
        struct sched_token *v = realloc(o->tok, cap * sizeof *v);
        if (v) {
            o->tok = v;
            o->cap_tok = cap;
        } else {
            rc = -ENOMEM;
        }
    }
    t.text_end = (uint32_t)o->n_text;
    if (!rc)
        o->tok[o->n_tok++] = t;
    pthread_mutex_unlock(&j->lock);
    return rc;
}

void sched_notify(struct sched_job *j)
{
    j->news = false;
    pthread_mutex_lock(&j->lock);
    bool wake = !j->woken;
    j->woken = true;
    pthread_mutex_unlock(&j->lock);
    if (!wake)
        return;
    pthread_mutex_lock(&j->wake_lock);
    if (j->wake)
        j->wake(j->user);
    pthread_mutex_unlock(&j->wake_lock);
}

/* ---- clients: all of it needs s->lock ---- */

static struct sched_client *client_of(const struct sched *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->n_clients; i++)
        if (s->client[i].id == id)
            return &s->client[i];
    return NULL;
}

/* One request more. -ENOMEM. */
static int client_has_more(struct sched *s, uint64_t id)
{
    struct sched_client *c = client_of(s, id);
    if (!c && s->n_clients == s->cap_clients) {
        uint32_t cap = MAX(2 * s->cap_clients, 16u);
        struct sched_client *more = realloc(s->client, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        s->client = more;
        s->cap_clients = cap;
    }
    if (!c)
        *(c = &s->client[s->n_clients++]) = (struct sched_client){ .id = id };
    c->n_live++;
    c->n_waiting++;
    return 0;
}

static void client_has_less(struct sched *s, uint64_t id)
{
    struct sched_client *c = client_of(s, id);
    CHECK(c && c->n_live);
    if (!--c->n_live)
        *c = s->client[--s->n_clients];
}

/* ---- ends ---- */

void sched_end_job(struct sched *s, struct sched_job *j, enum sched_end why, const struct err *e)
{
    struct err ignored;
    sched_check_owner(s);
    sched_forget_flights(s, j);
    if (why != SCHED_OK && j->gen)
        gen_end(j->gen, why == SCHED_FAILED || why == SCHED_TOO_COSTLY ? GEN_FAILED : GEN_CANCELLED, &ignored);
    if (j->session) {
        kvpool_release(s->pool, j->session, why != SCHED_FAILED);
        j->session = NULL;
        for (uint32_t i = 0; i < s->n_run; i++)
            if (s->run[i] == j)
                s->run[i] = s->run[--s->n_run];
    }
    grammar_task_drop(j->mask);
    if (j->gen)
        gen_end_grammar(j->gen, j->mask);
    j->mask = NULL;
    draft_destroy(j->draft);
    j->draft = NULL;
    j->state = JOB_ENDED;
    uint64_t now = clock_ns();
    double took = (double)(now - j->came_ns);
    pthread_mutex_lock(&s->lock);
    if (j->began_ns) /* it had a slot */
        s->job_ns = s->job_ns > 0 ? 0.9 * s->job_ns + 0.1 * took : took;
    s->n_live--;
    s->n_pushed -= j->pushed_out;
    if (!j->pushed_out)
        client_has_less(s, j->client);
    s->st.refused += why == SCHED_REFUSED;
    s->st.finished += why == SCHED_OK;
    s->n_lost = why == SCHED_OK ? 0 : s->n_lost;
    s->st.cancelled += why == SCHED_CANCELLED || why == SCHED_SHUTDOWN;
    s->st.failed += why == SCHED_FAILED || why == SCHED_TOO_COSTLY;
    s->st.expired += why == SCHED_EXPIRED;
    s->st.guessed += j->gen ? gen_result(j->gen)->n_guessed : 0;
    s->st.right += j->gen ? gen_result(j->gen)->n_right : 0;
    if (j->first_ns) {
        s->st.queue_ns_sum += j->began_ns - j->came_ns;
        s->st.first_ns_sum += j->first_ns - j->came_ns;
    }
    if (!s->n_live)
        pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&j->lock);
    j->end = why;
    j->result = j->gen ? *gen_result(j->gen) : (struct gen_result){ .reason = GEN_EOG, .n_prompt = j->n_prompt };
    if (e)
        j->err = *e;
    j->ended_ns = now;
    pthread_mutex_unlock(&j->lock);
    sched_notify(j);
    job_unref(j);
}

/* ---- the queue ---- */

/* Requests are taken by turn. A client's requests have turns one apart, counted from the newest one that was taken of
 * anybody: whoever has many waiting gets as often as whoever has one. Needs s->lock. */
static int enqueue(struct sched *s, struct sched_job *j)
{
    uint64_t turn = s->global_turn;
    if (client_has_more(s, j->client))
        return -ENOMEM;
    for (struct sched_job *q = s->queue; q; q = q->next)
        if (q->client == j->client && q->turn > turn)
            turn = q->turn;
    j->turn = turn + 1;
    *s->queue_end = j;
    s->queue_end = &j->next;
    s->n_queue++;
    s->n_live++;
    return 0;
}

static void unlink_job(struct sched *s, struct sched_job **at)
{
    struct sched_job *j = *at;
    *at = j->next;
    if (!*at)
        s->queue_end = at;
    j->next = NULL;
    if (!j->pushed_out) {
        s->n_queue--;
        client_of(s, j->client)->n_waiting--;
    }
}

/* The youngest request that waits, of whoever has most here; NULL: nobody has so much more than this client that it
 * should make room. What is a part of something that has begun goes last. */
static struct sched_job *to_push_out(const struct sched *s, uint64_t client)
{
    const struct sched_client *c = client_of(s, client), *most = NULL;
    for (uint32_t i = 0; i < s->n_clients; i++)
        if (s->client[i].n_waiting && (!most || s->client[i].n_live > most->n_live))
            most = &s->client[i];
    if (!most || most->n_live < (c ? c->n_live : 0) + 2)
        return NULL;
    struct sched_job *last = NULL;
    for (struct sched_job *q = s->queue; q; q = q->next)
        if (q->client == most->id && !q->pushed_out &&
            (!last || q->goes_on < last->goes_on || (q->goes_on == last->goes_on && q->turn >= last->turn)))
            last = q;
    return last;
}

static uint32_t retry_after(const struct sched *s)
{
    double wait = s->job_ns * 1e-9 * (s->n_queue + 1) / s->st.slots;
    return wait < 1 ? 1 : wait > 60 ? 60 : (uint32_t)ceil(wait);
}

/* A place in the full queue. The thread of the scheduler ends who lost it. */
static bool push_out(struct sched *s, uint64_t client)
{
    struct sched_job *j = to_push_out(s, client);
    if (!j)
        return false;
    s->n_queue--;
    client_of(s, j->client)->n_waiting--;
    client_has_less(s, j->client);
    j->pushed_out = true;
    j->retry_s = retry_after(s);
    s->n_pushed++;
    return true;
}

/* Is somebody evaluating just now what this one could use? */
static bool better_later(const struct sched *s, const struct sched_job *j)
{
    uint32_t have = UINT32_MAX; /* what it finds already; looked up when it matters */
    for (uint32_t i = 0; i < s->n_run; i++) {
        const struct sched_job *r = s->run[i];
        uint32_t most = MIN(r->n_prompt, j->n_prompt);
        if ((r->state != JOB_PROMPT && r->state != JOB_FETCHING) || (r->owner != j->owner && !s->o.kv.share) ||
            most < WORTH_WAITING || memcmp(r->prompt, j->prompt, WORTH_WAITING * sizeof *j->prompt) != 0)
            continue;
        if (have == UINT32_MAX)
            have = kvpool_match(s->pool, j->owner, j->prompt, j->n_prompt);
        uint32_t least = MAX(r->session->pos + 1, have + WORTH_WAITING);
        if (least <= most && memcmp(r->prompt, j->prompt, least * sizeof *j->prompt) == 0)
            return true;
    }
    return false;
}

/* The next one in turn that should be taken now; NULL: none. Needs s->lock. */
static struct sched_job *dequeue(struct sched *s)
{
    struct sched_job **best = NULL;
    for (struct sched_job **at = &s->queue; *at; at = &(*at)->next)
        if (!(*at)->pushed_out && (!best || (*at)->turn < (*best)->turn) && !better_later(s, *at))
            best = at;
    if (!best)
        return NULL;
    struct sched_job *j = *best;
    unlink_job(s, best);
    s->global_turn = MAX(s->global_turn, j->turn);
    return j;
}

/* Takes out of the queue what will not run any more. */
static struct sched_job *dequeue_ended(struct sched *s, uint64_t now, enum sched_end *why)
{
    for (struct sched_job **at = &s->queue; *at; at = &(*at)->next) {
        struct sched_job *j = *at;
        *why = s->stopping                                  ? SCHED_SHUTDOWN
               : atomic_load(&j->cancel)                    ? SCHED_CANCELLED
               : j->pushed_out                              ? SCHED_REFUSED
               : j->deadline_ns && j->deadline_ns <= now    ? SCHED_EXPIRED
               : s->faulted                                 ? SCHED_FAILED
                                                            : SCHED_RUNNING;
        if (*why != SCHED_RUNNING) {
            unlink_job(s, at);
            return j;
        }
    }
    return NULL;
}

static void end_with_reason(struct sched *s, struct sched_job *j, enum sched_end why)
{
    struct err e = { 0 };
    if (why == SCHED_EXPIRED)
        err_set(&e, -ETIME, "the request's time is over after %.1f s", (double)(clock_ns() - j->came_ns) * 1e-9);
    else if (why == SCHED_REFUSED)
        err_set(&e, -EBUSY, "too many requests of this client wait, and others have come: come again in %u s", j->retry_s);
    else if (why == SCHED_SHUTDOWN)
        err_set(&e, -ESHUTDOWN, "the server is shutting down");
    else if (why == SCHED_FAILED)
        err_set(&e, -EIO, "the %s tier failed before; the server has to be restarted", s->eng->info.tier);
    sched_end_job(s, j, why, &e);
}

static void end_what_is_over(struct sched *s)
{
    uint64_t now = clock_ns();
    enum sched_end why;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct sched_job *j = dequeue_ended(s, now, &why);
        bool stopping = s->stopping;
        pthread_mutex_unlock(&s->lock);
        for (uint32_t i = s->n_run; !j && i-- > 0;) {
            struct sched_job *r = s->run[i];
            why = stopping ? SCHED_SHUTDOWN : atomic_load(&r->cancel) ? SCHED_CANCELLED : SCHED_EXPIRED;
            if (why != SCHED_EXPIRED || (r->deadline_ns && r->deadline_ns <= now))
                j = r;
        }
        if (!j)
            return;
        end_with_reason(s, j, why);
    }
}

/* Its session is where its evaluation begins. */
static void begin_prompt(struct sched *s, struct sched_job *j)
{
    struct err e = { 0 };
    int rc = j->tell_prompt ? sched_prompt_begin(s, j, &e) : 0;
    if (j->pool)
        sched_pool_begin(s, j);
    atomic_store(&j->n_reused, j->session->pos);
    atomic_store(&j->n_evaluated, j->session->pos);
    atomic_store(&j->started, true);
    j->state = JOB_PROMPT;
    pthread_mutex_lock(&s->lock);
    s->st.reused_tokens += j->n_reused;
    pthread_mutex_unlock(&s->lock);
    if (rc || (j->gen && gen_begin(j->gen, &e))) {
        sched_end_job(s, j, SCHED_FAILED, &e);
        return;
    }
    if (j->gen)
        sched_draft_begin(s, j);
    if (j->tell_start)
        sched_notify(j);
    sched_prepare_mask(s, j); /* which may be its end */
}

/* Jobs whose prompts are on disk get on; so does what is to be written there. True: there is more to do at once. */
static bool use_disk(struct sched *s)
{
    bool more = false;
    for (uint32_t i = s->n_run; i-- > 0;) {
        struct sched_job *j = s->run[i];
        bool again;
        if (j->state != JOB_FETCHING)
            continue;
        if (!kvpool_fetch(s->pool, j->session, j->prompt, &again))
            begin_prompt(s, j);
        more |= again || j != s->run[i]; /* it ended, and another one may have its slot */
    }
    return kvpool_spill(s->pool) || more;
}

static void admit(struct sched *s)
{
    while (s->n_run < s->eng->info.n_slots) {
        pthread_mutex_lock(&s->lock);
        struct sched_job *j = dequeue(s);
        pthread_mutex_unlock(&s->lock);
        if (!j)
            return;
        struct err e = { 0 };
        j->began_ns = clock_ns();
        int rc = kvpool_acquire(s->pool, j->owner, j->prompt, j->n_prompt, j->boundary, j->n_boundary, &j->session, &e);
        if (rc) {
            j->session = NULL;
            sched_end_job(s, j, SCHED_FAILED, &e);
            continue;
        }
        j->state = JOB_FETCHING; /* often nothing: then use_disk goes on with it before the round */
        s->run[s->n_run++] = j;
    }
}

/* ---- masks ---- */

static void end_for_mask(struct sched *s, struct sched_job *j, int rc, const struct err *e)
{
    sched_end_job(s, j, rc == -E2BIG ? SCHED_TOO_COSTLY : SCHED_FAILED, e);
}

bool sched_prepare_mask(struct sched *s, struct sched_job *j)
{
    struct err e = { 0 };
    sched_check_owner(s);
    if (!j->gen)
        return true;
    struct grammar_limit l = { .steps = s->mask_left };
    int rc = s->mask_left ? gen_prepare(j->gen, &l, false, &e) : gen_grammar_state(j->gen) ? -EAGAIN : 0;
    s->mask_left -= MIN(l.used, s->mask_left);
    j->mask_steps += l.used;
    if (rc != -EAGAIN && rc != -E2BIG) {
        if (rc)
            end_for_mask(s, j, rc, &e);
        return !rc;
    }
    if (j->mask_steps >= s->o.grammar_steps)
        rc = err_set(&e, -E2BIG, "the grammar has taken more than %llu steps for this answer: texts can be read in too "
                     "many ways at once; shorter repetitions, or fewer that may be empty, would help",
                     (unsigned long long)s->o.grammar_steps);
    else
        rc = grammar_pool_submit(s->masks, gen_grammar_state(j->gen), j->client, GRAMMAR_TOKEN_STEPS, &j->mask, &e);
    if (rc)
        end_for_mask(s, j, rc, &e);
    return !rc;
}

/* Jobs whose masks have come go on. */
static void collect_masks(struct sched *s)
{
    s->mask_left = ROUND_MASK_STEPS;
    for (uint32_t i = s->n_run; i-- > 0;) {
        struct sched_job *j = s->run[i];
        struct err e = { 0 };
        uint64_t used;
        int rc;
        if (!j->mask || !grammar_task_done(j->mask, &rc, &used, &e))
            continue;
        j->mask = NULL;
        j->mask_steps += used;
        if (rc)
            end_for_mask(s, j, rc, &e);
    }
}

/* ---- the thread ---- */

/* The next deadline of anybody, 0: none. Needs s->lock. */
static uint64_t next_deadline(const struct sched *s)
{
    uint64_t at = 0;
    for (struct sched_job *q = s->queue; q; q = q->next)
        at = q->deadline_ns && (!at || q->deadline_ns < at) ? q->deadline_ns : at;
    for (uint32_t i = 0; i < s->n_run; i++) {
        uint64_t d = s->run[i]->deadline_ns;
        at = d && (!at || d < at) ? d : at;
    }
    return at;
}

/* Sleeps until somebody pokes, or until clock_ns() is at; 0: for ever. Needs s->lock. */
static int sleep_until(struct sched *s, uint64_t at)
{
    struct timespec until = { .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };
    int rc = 0;
    while (!s->poked && !s->quit && rc == 0)
        rc = at ? pthread_cond_timedwait(&s->work, &s->lock, &until) : pthread_cond_wait(&s->work, &s->lock);
    return rc;
}

/* Sleeps until somebody pokes or a deadline passes; when that takes long, the tier rests. False: time to go. */
static bool wait_for_work(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    bool may_rest = !s->n_live && !s->rested && s->rest_ns;
    if (may_rest && sleep_until(s, clock_ns() + s->rest_ns)) {
        pthread_mutex_unlock(&s->lock);
        if (s->pool)
            tier_rest(s->eng->tier);
        s->rested = true;
        pthread_mutex_lock(&s->lock);
    }
    if (!may_rest || s->rested)
        sleep_until(s, next_deadline(s));
    s->poked = false;
    bool go_on = !s->quit;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void poke(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->poked = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static void can_go_on(void *user)
{
    poke(user);
}

static void notify_all(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_run; i++)
        if (s->run[i]->news)
            sched_notify(s->run[i]);
}

static void publish(struct sched *s, uint64_t busy_ns)
{
    struct kvpool_stats kv = s->pool ? kvpool_stats(s->pool) : s->st.kv;
    pthread_mutex_lock(&s->lock);
    s->st.rounds++;
    s->st.busy_ns += busy_ns;
    s->st.running = s->n_run;
    s->st.kv = kv;
    pthread_mutex_unlock(&s->lock);
}

/* ---- a device that fails ---- */

void sched_device_failed(struct sched *s, const struct err *e)
{
    enum { MOST = 3 };
    s->flight.n = s->behind.n = 0;
    while (s->n_run)
        sched_end_job(s, s->run[s->n_run - 1], SCHED_FAILED, e);
    s->lost = s->eng->info.reopens && s->n_lost < MOST;
    pthread_mutex_lock(&s->lock);
    s->faulted = s->st.failed_for_good = !s->lost;
    pthread_mutex_unlock(&s->lock);
}

/* The model once more on a device that was reset; who waits goes on waiting. What the caches held is lost. */
static void bring_back(struct sched *s)
{
    struct err e = { 0 };
    uint64_t t0 = clock_ns();
    log_warn(ENGINE, "the %s tier failed; the model is loaded again", s->eng->info.tier);
    kvpool_destroy(s->pool);
    s->pool = NULL;
    s->lost = false;
    s->n_lost++;
    int rc = engine_reopen(s->eng, &e);
    if (!rc)
        rc = kvpool_create(s->eng, &s->o.kv, &s->pool, &e);
    if (rc)
        log_err(ENGINE, "%s; the server has to be restarted", e.msg);
    else
        log_warn(ENGINE, "the model is there again after %.1f s", (double)(clock_ns() - t0) * 1e-9);
    pthread_mutex_lock(&s->lock);
    s->faulted = s->st.failed_for_good = rc != 0;
    s->st.reopened += rc == 0;
    pthread_mutex_unlock(&s->lock);
}

static void *thread_main(void *user)
{
    struct sched *s = user;
    s->self = pthread_self();
    pthread_setname_np(pthread_self(), "zinc-sched");
    for (;;) {
        uint64_t t0 = clock_ns();
        if (s->lost)
            bring_back(s);
        end_what_is_over(s);
        collect_masks(s);
        bool worked = s->flight.n > 0;
        if (sched_flies_on(s)) {
            sched_fly_on(s);
        } else if (s->pool && sched_land(s)) { /* else the device is lost, and who came was told so */
            admit(s);
            worked |= use_disk(s);
            worked |= sched_round(s);
        }
        notify_all(s);
        publish(s, worked ? clock_ns() - t0 : 0);
        s->rested &= !worked;
        if (!worked && !wait_for_work(s))
            return NULL;
    }
}

/* ---- life ---- */

static int alloc(struct sched *s)
{
    const struct engine *eng = s->eng;
    uint32_t slots = eng->info.n_slots, out = MAX(eng->decode.s->h.out_cap, eng->prefill.s->h.out_cap);
    s->run = calloc(slots, sizeof *s->run);
    s->order = calloc(slots, sizeof *s->order);
    s->part = calloc(MAX(slots, eng->prefill.s->h.row_cap), sizeof *s->part);
    s->flight.part = calloc(slots, sizeof *s->flight.part);
    s->behind.part = calloc(slots, sizeof *s->behind.part);
    s->ahead_of = calloc(slots, sizeof *s->ahead_of);
    s->row = calloc(MAX(out, slots), sizeof *s->row);
    s->how = calloc(out, sizeof *s->how);
    s->chosen = calloc(out, sizeof *s->chosen);
    return s->run && s->order && s->part && s->flight.part && s->behind.part && s->ahead_of && s->row && s->how && s->chosen ? 0 : -ENOMEM;
}

/* Half of the cores, but two where there are as many: the others are the server's. */
static uint32_t crew_size(const struct engine *eng)
{
    enum { MOST = 8 };
    long cores = sysconf(_SC_NPROCESSORS_ONLN), n = MAX(cores / 2, MIN(cores, 2));
    return (uint32_t)MIN(MIN(MAX(n, 1), MOST), MAX((long)eng->info.n_slots / 2, 1));
}

int sched_create(struct engine *eng, const struct sched_opts *o, struct sched **out, struct err *e)
{
    struct sched *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, -ENOMEM, "scheduler: out of memory");
    s->eng = eng;
    s->o = *o;
    s->rest_ns = (uint64_t)MAX(env_get()->rest, 0) * 1000000000u;
    s->o.max_queue = o->max_queue ? o->max_queue : MAX(4 * eng->info.n_slots, 1024u);
    s->o.grammar_steps = o->grammar_steps ? o->grammar_steps : GRAMMAR_STEPS;
    s->o.kv.wake = can_go_on;
    s->o.kv.wake_user = s;
    s->o.hold_bytes = o->hold_bytes ? o->hold_bytes : 256 << 10;
    s->queue_end = &s->queue;
    s->st.slots = eng->info.n_slots;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attr);
    pthread_cond_init(&s->idle, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    struct grammar_pool_opts mo = { .n_threads = eng->info.n_slots, .done = can_go_on, .user = s };
    int rc = alloc(s) ? err_set(e, -ENOMEM, "scheduler: out of memory") : kvpool_create(eng, &s->o.kv, &s->pool, e);
    if (!rc)
        rc = grammar_pool_create(&mo, &s->masks, e);
    if (!rc)
        rc = row_crew_create(crew_size(eng), &s->crew, e);
    if (!rc && (rc = -pthread_create(&s->thread, NULL, thread_main, s)))
        err_set(e, rc, "scheduler: cannot start its thread: %s", strerror(-rc));
    if (rc) {
        sched_destroy(s);
        return rc;
    }
    s->started = true;
    *out = s;
    return 0;
}

uint32_t sched_drain(struct sched *s, uint64_t timeout_ns)
{
    uint64_t at = clock_ns() + timeout_ns;
    struct timespec until = { .tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u) };
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    while (s->n_live && pthread_cond_timedwait(&s->idle, &s->lock, &until) == 0)
        ;
    uint32_t cut = s->n_live;
    s->stopping = true;
    s->poked = true;
    pthread_cond_signal(&s->work);
    while (s->n_live)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return cut;
}

void sched_destroy(struct sched *s)
{
    if (!s)
        return;
    if (s->started) {
        sched_drain(s, 0);
        pthread_mutex_lock(&s->lock);
        s->quit = true;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    row_crew_destroy(s->crew);
    grammar_pool_destroy(s->masks);
    kvpool_destroy(s->pool);
    free(s->run);
    free(s->order);
    free(s->part);
    free(s->flight.part);
    free(s->behind.part);
    free(s->ahead_of);
    free(s->row);
    free(s->how);
    free(s->chosen);
    free(s->client);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---- requests ---- */

/* With what would make it fit. */
static int too_long(const struct engine_info *in, uint32_t n, struct err *e)
{
    if (in->n_ctx_train && n > in->n_ctx_train)
        return err_set(e, -E2BIG, "the prompt has %u tokens, the context %u (the model's longest is %u)", n, in->n_ctx,
                       in->n_ctx_train);
    return err_set(e, -E2BIG, "the prompt has %u tokens, the context %u (zinc serve --ctx %u or more%s)", n, in->n_ctx, n,
                   in->n_slots > 1 ? ", with fewer --slots where memory is short" : "");
}

int sched_check(const struct sched *s, const struct sched_request *r, struct err *e)
{
    const struct engine_info *in = &s->eng->info;
    CHECK(r->n_logprobs <= SCHED_MAX_LOGPROBS && (!r->tell_prompt || r->n_logprobs >= 0));
    if (!r->pool && in->pooling)
        return err_set(e, -ENOTSUP, "'%s' does not generate text here, it %s", in->label,
                       strcmp(in->pooling, "rank") == 0 ? "ranks documents: see /v1/rerank" : "makes embeddings: see /v1/embeddings");
    if (r->pool && !in->pooling)
        return err_set(e, -ENOTSUP, "'%s' is not an embedding model: its file has no pooling_type (--pooling last serves its "
                       "embeddings all the same)", in->label);
    if (!r->n_prompt)
        return err_set(e, -EINVAL, "the prompt has no tokens");
    if (r->n_prompt > in->n_ctx)
        return too_long(in, r->n_prompt, e);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || (uint32_t)r->prompt[i] >= in->n_vocab)
            return err_set(e, -EINVAL, "token %d at %u of the prompt is not in the vocabulary of %u", r->prompt[i], i,
                           in->n_vocab);
    return 0;
}

static int job_create(struct sched *s, const struct sched_request *r, struct sched_job **out, struct err *e)
{
    struct sched_job *j = calloc(1, sizeof *j);
    if (!j)
        return err_set(e, -ENOMEM, "scheduler: out of memory");
    pthread_mutex_init(&j->lock, NULL);
    pthread_mutex_init(&j->wake_lock, NULL);
    atomic_init(&j->refs, 2);
    atomic_init(&j->cancel, false);
    j->s = s;
    j->n_prompt = r->n_prompt;
    j->n_boundary = r->boundary ? r->n_boundary : 0;
    j->n_logprobs = r->n_logprobs;
    j->tell_prompt = r->tell_prompt;
    for (uint32_t i = 0; i <= DRAFT_MOST; i++)
        j->likely[i].id = -1;
    j->deadline_ns = r->deadline_ns;
    j->client = r->client;
    j->owner = r->owner;
    j->goes_on = r->goes_on;
    j->tell_start = r->tell_start;
    j->wake = r->wake;
    j->user = r->user;
    j->came_ns = clock_ns();
    struct gen_opts o = r->gen;
    o.grammar = r->grammar;
    o.on_text = on_text;
    o.on_token = on_token;
    o.want_logits = r->n_logprobs >= 0;
    o.user = j;
    j->pool = r->pool;
    j->n_draft = MIN(MAX(o.n_draft, s->o.n_draft), (uint32_t)DRAFT_MOST);
    j->n_predicted = o.n_predicted;
    int rc = r->pool ? sched_pool_create(j, e) : gen_create(s->eng, &o, &j->gen, e);
    j->prompt = malloc(r->n_prompt * sizeof *j->prompt);
    j->boundary = malloc((j->n_boundary + 1u) * sizeof *j->boundary);
    j->predicted = malloc((j->n_predicted + 1u) * sizeof *j->predicted);
    if (!rc && (!j->prompt || !j->boundary || !j->predicted))
        rc = err_set(e, -ENOMEM, "scheduler: out of memory for a prompt of %u tokens", r->n_prompt);
    if (rc) {
        job_free(j);
        return rc;
    }
    memcpy(j->prompt, r->prompt, r->n_prompt * sizeof *j->prompt);
    if (j->n_predicted)
        memcpy(j->predicted, o.predicted, j->n_predicted * sizeof *j->predicted);
    if (j->n_boundary)
        memcpy(j->boundary, r->boundary, j->n_boundary * sizeof *j->boundary);
    if (j->gen)
        gen_prompt(j->gen, j->prompt, j->n_prompt);
    *out = j;
    return 0;
}

int sched_submit(struct sched *s, const struct sched_request *r, struct sched_job **out, uint32_t *retry_s,
                 struct err *e)
{
    struct sched_job *j = NULL;
    int rc;
    if ((rc = sched_check(s, r, e)) || (rc = job_create(s, r, &j, e)))
        return rc;
    pthread_mutex_lock(&s->lock);
    bool full = s->n_live - s->n_pushed >= s->o.max_queue + s->st.slots; /* who is about to get a slot does not wait */
    s->st.requests++;
    j->sure = s->n_live < s->st.slots;
    if (s->stopping || (s->draining && !r->goes_on))
        rc = err_set(e, -ESHUTDOWN, "the server is shutting down");
    else if (s->faulted)
        rc = err_set(e, -EIO, "the %s tier failed before; the server has to be restarted", s->eng->info.tier);
    else if (full && !r->goes_on && !push_out(s, j->client)) {
        *retry_s = retry_after(s);
        rc = err_set(e, -EBUSY, "all %u slots are busy and %u requests wait: come again in %u s", s->st.slots,
                     s->n_queue, *retry_s);
    } else if (enqueue(s, j)) {
        rc = err_set(e, -ENOMEM, "scheduler: out of memory");
    } else {
        s->poked = true;
        pthread_cond_signal(&s->work);
    }
    s->st.refused += rc != 0;
    pthread_mutex_unlock(&s->lock);
    if (rc) {
        job_free(j);
        return rc;
    }
    *out = j;
    return 0;
}

void sched_take(struct sched_job *j, struct sched_out *out)
{
    pthread_mutex_lock(&j->lock);
    struct job_out was = j->taken;
    j->taken = j->made;
    j->made = was;
    j->made.n_text = j->made.n_tok = 0;
    j->woken = false;
    bool paused = j->paused;
    j->paused = false;
    *out = (struct sched_out){ .text = j->taken.n_text ? j->taken.text : "",
                               .n_text = j->taken.n_text,
                               .tokens = j->taken.tok,
                               .n_tokens = j->taken.n_tok,
                               .end = j->end,
                               .started = atomic_load(&j->started),
                               .sure = j->sure,
                               .n_evaluated = atomic_load(&j->n_evaluated),
                               .n_reused = atomic_load(&j->n_reused) };
    if (j->taken.n_text)
        j->taken.text[j->taken.n_text] = 0;
    if (j->end != SCHED_RUNNING) {
        out->result = j->result;
        out->err = j->err;
        out->retry_s = j->retry_s;
        out->vector = j->end == SCHED_OK ? j->vector : NULL;
        uint64_t began = j->began_ns ? j->began_ns : j->ended_ns, first = j->first_ns ? j->first_ns : j->ended_ns;
        out->queued_ns = began - j->came_ns;
        out->prompt_ns = first - began;
        out->decode_ns = j->ended_ns - first;
    }
    pthread_mutex_unlock(&j->lock);
    if (paused)
        poke(j->s);
}

void sched_cancel(struct sched_job *j)
{
    atomic_store(&j->cancel, true);
    poke(j->s);
}

void sched_release(struct sched_job *j)
{
    if (!j)
        return;
    pthread_mutex_lock(&j->wake_lock);
    j->wake = NULL;
    pthread_mutex_unlock(&j->wake_lock);
    pthread_mutex_lock(&j->lock);
    bool running = j->end == SCHED_RUNNING;
    pthread_mutex_unlock(&j->lock);
    if (running)
        sched_cancel(j);
    job_unref(j);
}

struct sched_stats sched_stats(const struct sched *s)
{
    struct sched *m = (struct sched *)s;
    pthread_mutex_lock(&m->lock);
    struct sched_stats st = s->st;
    st.waiting = s->n_queue;
    pthread_mutex_unlock(&m->lock);
    return st;
}
