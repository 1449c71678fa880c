/* Steps in flight. The token that a step chooses is on the device before the host has it, so the step after it is submitted
 * first: its rows name the tokens (ka_row.token), the device goes from one to the other, and what the host does with a token
 * takes none of its time. While everybody who runs is in the step under way and goes on, the next one follows like that; when
 * somebody comes, or what a step needs is not on the device alone, the step lands first, and a round begins as ever.
 *
 * A session's position counts the step under way, once its tokens are known: whatever is submitted later comes behind it. */
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/serve/kvpool.h"
#include "engine/serve/sched_impl.h"

/* A model whose state cannot go back by a token must not evaluate one that might not be the answer's. */
static bool can_go_back(const struct sched *s)
{
    return !s->eng->info.recurrent;
}

static bool job_flies(const struct sched *s, const struct sched_job *j, ka_sample *how)
{
    return j->state == JOB_RUNNING && !j->mask && !j->by_hand && j->n_logprobs < 0 && gen_flies(j->gen, can_go_back(s), how);
}

/* Has the job a row in the step behind the one under way? That one chooses a token of its own. */
static bool goes_on(const struct sched *s, const struct sched_job *j)
{
    return gen_left(j->gen) >= 2 && j->session->pos < s->eng->info.n_ctx;
}

bool sched_takes_off(struct sched *s, const struct sched_batch *b)
{
    ka_sample how;
    if (!engine_flies(s->eng) || b->n_parts != s->n_run || b->n_rows != b->n_parts || b->n_rows > s->eng->decode.s->h.row_cap)
        return false;
    for (uint32_t i = 0; i < b->n_parts; i++)
        if (!job_flies(s, b->part[i].job, &how))
            return false;
    return true;
}

bool sched_flies_on(struct sched *s)
{
    const struct sched_flight *f = &s->flight;
    uint32_t here = 0, on = 0;
    ka_sample how;
    if (!f->n)
        return false;
    pthread_mutex_lock(&s->lock);
    bool wanted = s->n_queue && s->n_run < s->st.slots;
    pthread_mutex_unlock(&s->lock);
    if (wanted || kvpool_may_spill(s->pool))
        return false;
    for (uint32_t i = 0; i < f->n; i++) {
        struct sched_job *j = f->part[i].job;
        if (!j)
            continue;
        int32_t guess[DRAFT_MOST];
        if (!job_flies(s, j, &how) || sched_is_held(j) || sched_guess(s, j, f->n - 1, DRAFT_MOST, guess))
            return false;
        here++;
        on += goes_on(s, j);
    }
    return on && here == s->n_run && engine_decode_plan(s->eng, on) == f->step.plan;
}

/* The step behind the one under way, for those who go on; s->ahead_of says which row of it an output goes to. */
static int submit_next(struct sched *s, struct sched_flight *to, struct err *e)
{
    struct engine *eng = s->eng;
    const struct sched_flight *f = &s->flight;
    to->n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        struct sched_job *j = f->part[i].job;
        ka_sample how;
        s->ahead_of[i] = UINT32_MAX;
        if (!j || !goes_on(s, j))
            continue;
        gen_flies(j->gen, can_go_back(s), &how);
        how.quiet = 1;
        s->how[to->n] = how;
        eng->rows[to->n] = (ka_row){ .token = -1 - (int32_t)i, .pos = j->session->pos, .slot = j->session->slot };
        eng->out_row[to->n] = to->n;
        s->ahead_of[i] = to->n;
        to->part[to->n++] = (struct part){ .job = j, .n = 1, .out = true, .on_device = true };
    }
    return engine_submit(eng, f->step.plan, to->n, to->n, s->how, &to->step, e);
}

/* The host wants another token than the device chose. The session goes back before the one that it was chosen after, which the
 * next round evaluates again, for its logits. */
static void go_back(struct sched *s, struct sched_job *j)
{
    struct session *se = j->session;
    j->pending = se->tok[se->pos - 1];
    j->by_hand = true;
    session_truncate(se, se->pos - 1, NULL);
    kvpool_extend(s->pool, se, true);
}

/* A token came: `next` is the job's part of the step behind it, NULL: it has none. `last`: there is no such step. false: it is
 * refused, another one is chosen in the next round. */
static bool take(struct sched *s, const struct part *p, uint32_t i, struct part *next, bool last)
{
    struct sched_job *j = p->job;
    struct session *se = j->session;
    int32_t t = s->chosen[i];
    if (!last && gen_refuses(j->gen, t)) {
        if (next)
            next->job = NULL;
        go_back(s, j);
        return false;
    }
    if (next && t >= 0) {
        se->tok[se->pos++] = t;
        kvpool_extend(s->pool, se, true);
    }
    sched_choose(s, p, i, NULL, next != NULL);
    return true;
}

/* The tokens of the step under way are taken; `behind`: the step that was submitted after it, NULL: none. */
static int land(struct sched *s, struct sched_flight *behind, struct err *e)
{
    struct sched_flight *f = &s->flight;
    uint32_t n = f->n, n_chosen = 0;
    int rc = engine_land(s->eng, &f->step, s->chosen, e);
    if (rc)
        return rc;
    uint64_t t1 = clock_ns();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = behind ? s->ahead_of[i] : UINT32_MAX;
        if (!f->part[i].job)
            continue;
        n_chosen += take(s, &f->part[i], i, at == UINT32_MAX ? NULL : &behind->part[at], !behind);
    }
    f->n = 0;
    uint64_t t2 = clock_ns(), since = MAX(f->step.since_ns, s->landed_ns);
    s->landed_ns = t1;
    draft_cost_learn(&s->eng->few, n, (double)(t1 - MIN(since, t1)));
    sched_count_step(s, t1 - MIN(since, t1), t2 - t1, 0, n_chosen, behind != NULL);
    return 0;
}

int sched_take_off(struct sched *s, const struct sched_batch *b, struct err *e)
{
    struct sched_flight *f = &s->flight;
    int rc = engine_submit(s->eng, engine_decode_plan(s->eng, b->n_rows), b->n_rows, b->n_out, s->how, &f->step, e);
    if (rc)
        return rc;
    memcpy(f->part, b->part, b->n_parts * sizeof *f->part);
    f->n = b->n_parts;
    return 0;
}

bool sched_land(struct sched *s)
{
    struct err e = { 0 };
    int rc = s->flight.n ? land(s, NULL, &e) : 0;
    if (rc)
        sched_device_failed(s, &e);
    return !rc;
}

void sched_fly_on(struct sched *s)
{
    struct err e = { 0 };
    int rc = submit_next(s, &s->behind, &e);
    if (!rc)
        rc = land(s, &s->behind, &e);
    if (rc) {
        sched_device_failed(s, &e);
        return;
    }
    struct sched_flight was = s->flight;
    s->flight = s->behind;
    s->behind = was;
}

static void forget(struct sched_flight *f, const struct sched_job *j)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->part[i].job == j)
            f->part[i].job = NULL;
}

void sched_forget_flights(struct sched *s, const struct sched_job *j)
{
    forget(&s->flight, j);
    forget(&s->behind, j);
}
