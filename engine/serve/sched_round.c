/* A round of the scheduler: one token for each running request, and at most one chunk of prompts. Where a tier's streams
 * do the same arithmetic, all of it is one step; else the running ones go through the decode stream, in groups, and the
 * prompts through the prompt stream, so that results do not depend on the batch. A step of running ones alone may be left under
 * way (sched_ahead.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/serve/sched_impl.h"

/* While others wait for their next token, prompts get as much time between two of their steps as SHARE steps take, and where
 * more requests have no token yet than run, so many times more as there are more of them; up to STALL_NS. */
#define SHARE    1.5
#define LEAST_NS 8e6
#define STALL_NS 50e6
enum { LEAST_CHUNK = 16 };

static bool room_for(const struct sched_batch *b, uint32_t rows)
{
    return b->n_rows + rows <= b->row_cap && b->n_out < b->out_cap;
}

static void add_part(struct sched_batch *b, struct part p)
{
    struct engine *eng = b->s->eng;
    struct session *se = p.job->session;
    for (uint32_t i = 0; i < p.n; i++)
        eng->rows[b->n_rows + i] = (ka_row){ .token = p.tok[i], .pos = se->pos + i, .slot = se->slot };
    b->n_rows += p.n;
    b->n_prompt_rows += p.prompt ? p.n : 0;
    p.n_told = sched_prompt_rows(&p);
    b->wants_logits |= p.n_told > 0;
    for (uint32_t i = 0; i < p.n_told; i++) {
        b->s->how[b->n_out] = (ka_sample){ 0 };
        eng->out_row[b->n_out++] = b->n_rows - p.n + i;
    }
    if (p.job->pool) {
        uint32_t first;
        p.n_pooled = sched_pool_rows(p.job, se->pos, p.n, &first);
        b->wants_logits |= p.n_pooled > 0;
        for (uint32_t i = 0; i < p.n_pooled; i++) {
            b->s->how[b->n_out] = (ka_sample){ 0 };
            eng->out_row[b->n_out++] = b->n_rows - p.n + first + i;
        }
    } else if (p.out) {
        ka_sample how;
        p.on_device = gen_device(p.job->gen, &how) && !p.job->by_hand;
        bool logits = !p.on_device || p.job->n_logprobs >= 0;
        b->wants_logits |= logits;
        b->wants_next |= p.on_device;
        for (uint32_t i = 0; i <= p.n_guess; i++, how.counter += how.temp > 0) {
            b->s->how[b->n_out] = p.on_device ? how : (ka_sample){ 0 };
            b->s->how[b->n_out].quiet = !logits;
            eng->out_row[b->n_out++] = b->n_rows - 1 - p.n_guess + i;
        }
    }
    b->part[b->n_parts++] = p;
}

bool sched_choose(struct sched *s, const struct part *p, uint32_t i_out, const float *logits, bool ahead)
{
    struct sched_job *j = p->job;
    struct engine *eng = s->eng;
    struct err e = { 0 };
    const float *row = logits ? logits + (size_t)i_out * eng->info.n_vocab : NULL;
    bool on_device = p->on_device && !gen_refuses(j->gen, s->chosen[i_out]);
    int rc = on_device || row ? 0 : engine_last_logits(eng, i_out, &row, &e);
    if (!rc)
        rc = on_device ? gen_next_chosen(j->gen, s->chosen[i_out], row, &j->pending, &e)
                       : gen_next(j->gen, row, &j->pending, &e);
    if (!j->first_ns)
        j->first_ns = clock_ns();
    j->news = true;
    j->by_hand = false;
    j->state = JOB_RUNNING;
    if (rc == 1 && j->session->pos - ahead >= eng->info.n_ctx)
        rc = gen_end(j->gen, GEN_CONTEXT, &e);
    if (rc != 1) {
        sched_end_job(s, j, rc == -ENODATA ? SCHED_TOO_COSTLY : rc < 0 ? SCHED_FAILED : SCHED_OK, rc < 0 ? &e : NULL);
        return false;
    }
    if (j->draft)
        draft_add(j->draft, &j->pending, 1);
    return sched_prepare_mask(s, j);
}

void sched_count_step(struct sched *s, uint64_t step_ns, uint64_t sample_ns, uint32_t n_prompt, uint32_t n_chosen, bool ahead)
{
    pthread_mutex_lock(&s->lock);
    s->st.steps++;
    s->st.ahead += ahead; /* the one behind it was */
    if (!n_prompt && n_chosen)
        s->pace_ns = s->pace_ns > 0 ? 0.8 * s->pace_ns + 0.2 * (double)step_ns : (double)step_ns;
    s->st.step_ns += step_ns;
    s->st.sample_ns += sample_ns;
    s->st.prompt_tokens += n_prompt;
    s->st.generated_tokens += n_chosen;
    pthread_mutex_unlock(&s->lock);
}

static void learn_speed(struct sched_batch *b, uint64_t ns)
{
    if (!b->n_prompt_rows)
        draft_cost_learn(&b->s->eng->few, b->n_rows, (double)ns);
    if (b->n_prompt_rows < LEAST_CHUNK)
        return;
    struct step_cost *c = &b->s->cost;
    uint32_t most = b->s->eng->prefill.s->h.row_cap;
    step_cost_learn(c, b->n_rows, (double)MAX(ns, 1u));
    kvpool_set_token_ns(b->s->pool, step_cost_ns(c, most) / most);
}

/* What was evaluated belongs to the sessions now. */
static void advance(struct sched_batch *b)
{
    for (uint32_t i = 0; i < b->n_parts; i++) {
        const struct part *p = &b->part[i];
        struct session *se = p->job->session;
        uint32_t n = p->n - p->n_guess;
        memcpy(se->tok + se->pos, p->tok, n * sizeof *p->tok);
        se->pos += n;
        if (p->prompt)
            atomic_store(&p->job->n_evaluated, se->pos);
        kvpool_extend(b->s->pool, se, !p->prompt);
    }
}

/* Submits the rows that were added, chooses the tokens that follow, and starts over. */
static void run_batch(struct sched_batch *b)
{
    struct sched *s = b->s;
    struct engine *eng = s->eng;
    if (!b->n_rows || b->rc)
        return;
    bool few = eng->tier->info.by_capacity ? !b->n_prompt_rows : b->n_rows <= eng->decode.s->h.row_cap;
    struct engine_plan *plan = few ? engine_decode_plan(eng, b->n_rows) : &eng->prefill;
    const float *logits = NULL;
    uint64_t t0 = clock_ns();
    b->rc = engine_step(eng, plan, b->n_rows, b->n_out, s->how, b->wants_logits ? &logits : NULL, &b->err);
    if (!b->rc && b->wants_next)
        b->rc = engine_read_next(eng, s->chosen, &b->err);
    uint64_t t1 = clock_ns();
    if (b->rc)
        return;
    learn_speed(b, t1 - t0);
    advance(b);
    sched_look_at_rows(b, logits);
    uint32_t i_out = 0, n_chosen = 0;
    for (uint32_t i = 0; i < b->n_parts; i++) {
        const struct part *p = &s->part[i];
        struct err e = { 0 };
        if (p->n_told && sched_prompt_take(s, p, logits + (size_t)i_out * eng->info.n_vocab, &e)) {
            sched_end_job(s, p->job, SCHED_FAILED, &e);
            i_out += p->n_told + (p->out ? 1 + p->n_guess : 0);
            continue;
        }
        i_out += p->n_told;
        if (p->job->pool) {
            const float *v = p->n_pooled ? logits + (size_t)i_out * eng->n_output : NULL;
            if (sched_pool_take(s, p->job, v, p->n_pooled))
                sched_end_job(s, p->job, SCHED_OK, NULL);
            i_out += p->n_pooled;
        } else if (p->out) {
            uint32_t n_out = 1 + p->n_guess;
            n_chosen += sched_choose_rows(s, p, i_out, logits);
            i_out += n_out;
        }
    }
    sched_count_step(s, t1 - t0, clock_ns() - t1, b->n_prompt_rows, n_chosen, false);
    b->n_parts = b->n_rows = b->n_out = b->n_prompt_rows = 0;
    b->wants_logits = b->wants_next = false;
}

bool sched_is_held(struct sched_job *j)
{
    pthread_mutex_lock(&j->lock);
    j->paused = j->made.n_text > j->s->o.hold_bytes || j->made.n_tok > j->s->o.hold_bytes / 16;
    bool held = j->paused;
    pthread_mutex_unlock(&j->lock);
    return held;
}

static void add_running(struct sched_batch *b)
{
    struct sched *s = b->s;
    /* A job that ends is taken out of s->run, so the list is copied first. */
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_run; i++)
        if (s->run[i]->state == JOB_RUNNING && !s->run[i]->mask && !sched_is_held(s->run[i]))
            s->order[n++] = s->run[i];
    for (uint32_t i = 0; i < n; i++) {
        if (!room_for(b, 1))
            run_batch(b);
        if (b->rc)
            return;
        struct sched_job *j = s->order[i];
        uint32_t behind = MIN(n - i - 1, b->row_cap - b->n_rows - 1), others = b->n_rows + behind;
        uint32_t cap = MIN(MIN(b->row_cap, b->out_cap), s->eng->decode.s->h.row_cap), taken = MAX(b->n_rows, b->n_out) + behind + 1;
        uint32_t n_guess = taken < cap ? sched_guess(s, j, others, cap - taken, j->guess + 1) : 0;
        j->guess[0] = j->pending;
        gen_tell_guess(j->gen, n_guess, 0);
        add_part(b, (struct part){ .job = j, .tok = j->guess, .n = 1 + n_guess, .out = true, .n_guess = n_guess });
    }
}

static uint32_t left_of(const struct sched_job *j)
{
    return j->n_prompt - j->session->pos;
}

/* Have the running ones taken so many rows that prompts would starve on the rest? Then these get a step of their own. */
static bool too_few_left(const struct sched_batch *b)
{
    uint32_t want = 0, least = MIN((uint32_t)LEAST_CHUNK, MAX(b->row_cap / 2, 1u));
    for (uint32_t i = 0; i < b->s->n_run && want < least; i++)
        want += b->s->run[i]->state == JOB_PROMPT ? left_of(b->s->run[i]) : 0;
    return want && (b->row_cap - b->n_rows < MIN(want, least) || b->n_out == b->out_cap);
}

static int by_turn(const void *a, const void *b)
{
    uint64_t x = (*(struct sched_job *const *)a)->turn, y = (*(struct sched_job *const *)b)->turn;
    return (x > y) - (x < y);
}

static int by_length(const void *a, const void *b)
{
    const struct sched_job *x = *(struct sched_job *const *)a, *y = *(struct sched_job *const *)b;
    uint32_t nx = left_of(x), ny = left_of(y);
    return nx != ny ? (nx > ny) - (nx < ny) : by_turn(a, b);
}

/* Rows of prompts that this round may evaluate, while `prompts` requests have no token yet and `others` run. */
static uint32_t chunk_for(const struct sched_batch *b, uint32_t prompts, uint32_t others)
{
    const struct sched *s = b->s;
    uint32_t cap = s->eng->prefill.s->h.row_cap;
    if (!others)
        return cap;
    double fair = MAX(SHARE * s->pace_ns, LEAST_NS), budget = fair * MAX(prompts, others) / others;
    budget = s->pace_ns > 0 ? MAX(MIN(budget, STALL_NS), fair) : STALL_NS;
    return step_cost_chunk(&s->cost, budget + (b->n_rows ? s->pace_ns : 0), b->n_rows, LEAST_CHUNK, cap);
}

/* In turns the oldest prompts and the shortest ones come first: a long prompt gets on, and short ones need not wait for
 * its end. */
static void add_prompts(struct sched_batch *b)
{
    struct sched *s = b->s;
    uint32_t n = 0, running = 0;
    for (uint32_t i = 0; i < s->n_run; i++) {
        running += s->run[i]->state == JOB_RUNNING;
        if (s->run[i]->state == JOB_PROMPT)
            s->order[n++] = s->run[i];
    }
    if (n > 1)
        qsort(s->order, n, sizeof *s->order, s->st.rounds % 2 ? by_length : by_turn);
    uint32_t left = chunk_for(b, n, running);
    for (uint32_t i = 0; i < n && left && room_for(b, 1); i++) {
        struct sched_job *j = s->order[i];
        uint32_t pos = j->session->pos, stop = kvpool_next_stop(s->pool, j->session, j->n_prompt);
        uint32_t rows = MIN(MIN(stop - pos, left), b->row_cap - b->n_rows);
        if (j->tell_prompt)
            rows = MIN(rows, b->out_cap - b->n_out);
        if ((j->mask && pos + rows == j->n_prompt) /* its first token could not be chosen */ ||
            (j->tell_prompt && sched_is_held(j)))
            continue;
        add_part(b, (struct part){ .job = j, .tok = j->prompt + pos, .n = rows, .prompt = true,
                                   .out = pos + rows == j->n_prompt });
        left -= rows;
    }
}

bool sched_round(struct sched *s)
{
    struct engine *eng = s->eng;
    bool apart = eng->tier->info.by_capacity;
    struct sched_batch b = { .s = s, .part = s->part };
    const struct stream_head *d = &eng->decode.s->h, *p = &eng->prefill.s->h;
    uint64_t steps = s->st.steps;
    b.row_cap = apart ? d->row_cap : p->row_cap;
    b.out_cap = apart ? d->out_cap : p->out_cap;
    add_running(&b);
    if (!b.rc && b.n_parts && sched_takes_off(s, &b)) {
        advance(&b);
        if (sched_take_off(s, &b, &b.err))
            sched_device_failed(s, &b.err);
        return true;
    }
    if (apart)
        run_batch(&b);
    b.row_cap = p->row_cap;
    b.out_cap = p->out_cap;
    if (too_few_left(&b))
        run_batch(&b);
    if (!b.rc)
        add_prompts(&b);
    run_batch(&b);
    if (b.rc)
        sched_device_failed(s, &b.err);
    return b.rc || s->st.steps != steps;
}
