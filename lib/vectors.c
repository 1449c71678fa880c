/* Vectors of whole texts, and ranking: many callers' texts in one scheduler. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "lib/priv.h"

enum { GROUP = 64 }; /* texts of one call that are under way together */

struct group {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint32_t running;
};

struct text {
    struct group *group;
    struct sched_job *job;
    struct sched_out out;
    bool done;
};

static void look(struct text *t)
{
    if (!t->job || t->done)
        return;
    sched_take(t->job, &t->out);
    t->done = t->out.end != SCHED_RUNNING;
    if (t->done)
        t->group->running--;
}

static void on_wake(void *user)
{
    struct text *t = user;
    pthread_mutex_lock(&t->group->lock);
    look(t);
    pthread_cond_signal(&t->group->ended);
    pthread_mutex_unlock(&t->group->lock);
}

/* Under the group's lock, which on_wake waits for. */
static int submit(zinc_model *m, struct text *t, const struct engine_prompt *p, struct err *e)
{
    uint32_t retry;
    struct sched_request q = { .prompt = p->ids,
                               .n_prompt = p->n,
                               .pool = true,
                               .n_logprobs = -1,
                               .goes_on = true,
                               .wake = on_wake,
                               .user = t };
    int rc = sched_submit(m->sched, &q, &t->job, &retry, e);
    t->group->running += !rc;
    return rc;
}

static int wait_for(struct group *g, struct text *t, uint32_t n, struct err *e)
{
    int rc = 0;
    while (g->running)
        pthread_cond_wait(&g->ended, &g->lock);
    for (uint32_t i = 0; i < n && !rc; i++)
        if (t[i].job && t[i].out.end != SCHED_OK) {
            *e = t[i].out.err;
            rc = e->code ? e->code : err_set(e, -EIO, "libzinc: the text was not evaluated");
        }
    return rc;
}

/* What is asked of each text. */
struct job {
    const char *query; /* NULL: its vector */
    bool raw;
    float *v;       /* [n, n_vector]    */
    double *scores; /* [n]              */
};

static int encode(zinc_model *m, const struct job *j, const char *text, struct engine_prompt *p, size_t i,
                  struct err *e)
{
    *p = (struct engine_prompt){ 0 };
    if (!text)
        return err_set(e, -EINVAL, "libzinc: text %zu is NULL", i);
    int rc = j->query ? engine_rank_prompt(m->eng, j->query, strlen(j->query), text, strlen(text), p, e)
                      : engine_encode(m->eng, text, strlen(text), ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, &p->ids,
                                      &p->n, e);
    if (!rc && !p->n)
        rc = err_set(e, -EINVAL, "libzinc: text %zu is empty, expected at least one token", i);
    return rc;
}

static void take_result(const zinc_model *m, const struct job *j, const float *made, size_t i)
{
    const struct engine_info *in = engine_info(m->eng);
    if (j->scores) {
        j->scores[i] = engine_rank_score(made, in->n_vector);
        return;
    }
    float *v = j->v + i * in->n_vector;
    memcpy(v, made, in->n_vector * sizeof *v);
    if (!j->raw && strcmp(in->pooling, "rank") != 0)
        engine_normalise(v, in->n_vector);
}

/* Texts [n], n <= GROUP, of which the first is the caller's `first`. */
static int run_group(zinc_model *m, const struct job *j, const char *const *texts, size_t first, uint32_t n,
                     struct err *e)
{
    struct group g = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };
    struct engine_prompt p[GROUP] = { 0 };
    struct text t[GROUP] = { 0 };
    struct err why = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = encode(m, j, texts[first + i], &p[i], first + i, e);
    pthread_mutex_lock(&g.lock);
    for (uint32_t i = 0; i < n && !rc; i++) {
        t[i].group = &g;
        rc = submit(m, &t[i], &p[i], e);
    }
    for (uint32_t i = 0; rc && i < n; i++)
        if (t[i].job)
            sched_cancel(t[i].job);
    int rc_run = wait_for(&g, t, n, &why);
    pthread_mutex_unlock(&g.lock);
    if (!rc && (rc = rc_run))
        *e = why;
    for (uint32_t i = 0; i < n; i++) {
        if (!rc)
            take_result(m, j, t[i].out.vector, first + i);
        sched_release(t[i].job);
        engine_prompt_free(&p[i]);
    }
    pthread_cond_destroy(&g.ended);
    pthread_mutex_destroy(&g.lock);
    return rc;
}

static int run_all(zinc_model *m, const struct job *j, const char *const *texts, size_t n, struct err *e)
{
    int rc = 0;
    for (size_t at = 0; at < n && !rc; at += GROUP)
        rc = run_group(m, j, texts, at, (uint32_t)MIN(n - at, (size_t)GROUP), e);
    return rc;
}

static int check(zinc_model *m, bool rank, const char *const *texts, size_t n, struct err *e)
{
    if (!m || (!texts && n))
        return err_set(e, -EINVAL, "libzinc: %s NULL", m ? "the texts are" : "the model is");
    const struct engine_info *in = engine_info(m->eng);
    if (!m->sched)
        return err_set(e, -ENOTSUP, "libzinc: %s was not opened to make vectors (zinc_model_opts.pooling)",
                       in->label);
    if (rank && strcmp(in->pooling, "rank") != 0)
        return err_set(e, -ENOTSUP, "libzinc: %s makes vectors (pooling %s), expected a model that ranks", in->label,
                       in->pooling);
    return 0;
}

static int embed(zinc_model *m, const char *const *texts, size_t n, uint32_t flags, float *v, size_t cap, size_t *n_v,
                 struct err *e)
{
    struct job j = { .raw = flags & ZINC_EMBED_RAW, .v = v };
    size_t need;
    int rc = check(m, false, texts, n, e);
    if (rc)
        return rc;
    if (flags & ~(uint32_t)ZINC_EMBED_RAW)
        return err_set(e, -EINVAL, "libzinc: zinc_embed: flags 0x%x are not known", flags);
    if (__builtin_mul_overflow(n, (size_t)engine_info(m->eng)->n_vector, &need))
        return err_set(e, -E2BIG, "libzinc: zinc_embed: %zu texts", n);
    if (n_v)
        *n_v = need;
    if (!v && !cap)
        return n_v ? 0
                   : err_set(e, -EINVAL,
                             "libzinc: zinc_embed: neither a buffer nor a place for the length was given");
    if (!v || cap < need)
        return v ? err_set(e, -ERANGE, "libzinc: the buffer has room for %zu numbers, %zu are needed", cap, need)
                 : err_set(e, -EINVAL, "libzinc: zinc_embed: the buffer is NULL");
    return run_all(m, &j, texts, n, e);
}

int zinc_embed(zinc_model *m, const char *const *texts, size_t n, uint32_t flags, float *v, size_t cap, size_t *n_v,
               zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = embed(m, texts, n, flags, v, cap, n_v, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}

int zinc_rank(zinc_model *m, const char *query, const char *const *texts, size_t n, double *scores, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    struct job j = { .query = query, .scores = scores };
    int rc = check(m, true, texts, n, &own);
    if (!rc && (!query || (!scores && n)))
        rc = err_set(&own, -EINVAL, "libzinc: zinc_rank: %s NULL", query ? "the scores are" : "the query is");
    if (!rc)
        rc = run_all(m, &j, texts, n, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}
