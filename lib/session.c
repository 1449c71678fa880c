/* Sessions, and choosing tokens by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/priv.h"

void session_use(zinc_session *s)
{
    atomic_fetch_add(&s->users, 1);
}

void session_release(zinc_session *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) != 1)
        return;
    zinc_model *m = s->m;
    turn_take(&m->turn);
    session_destroy(s->s);
    turn_give(&m->turn);
    free(s);
    zinc_model_close(m);
}

void zinc_session_close(zinc_session *s)
{
    session_release(s);
}

/* Between two chunks of a prompt others have their turn; not behind the last one, whose logits are still to be
 * read. */
static bool on_progress(void *user, const char *what, uint64_t done_, uint64_t total)
{
    zinc_session *s = user;
    if (done_ == total)
        return true;
    turn_give(&s->m->turn);
    bool go_on = !s->fn || s->fn(s->fn_user, what, done_, total) == 0;
    turn_take(&s->m->turn);
    return go_on;
}

static int open_session(zinc_model *m, zinc_session **out, struct err *e)
{
    if (!m || !out)
        return err_set(e, -EINVAL, "libzinc: zinc_session_open: %s is NULL", m ? "out" : "the model");
    if (m->vocabulary || m->sched)
        return err_set(e, -ENOTSUP, "libzinc: %s was opened for %s, a session needs a model that continues text",
                       engine_info(m->eng)->label,
                       m->sched ? "vectors (pooling)" : "its vocabulary alone (ZINC_MODEL_VOCABULARY)");
    zinc_session *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    s->m = m;
    s->progress = (struct progress){ on_progress, s };
    atomic_init(&s->users, 1);
    turn_take(&m->turn);
    int rc = session_create(m->eng, &s->s, e);
    turn_give(&m->turn);
    if (rc) {
        free(s);
        return rc;
    }
    session_set_cancel(s->s, &s->cancel);
    session_set_progress(s->s, &s->progress);
    model_use(m);
    *out = s;
    return 0;
}

int zinc_session_open(zinc_model *m, zinc_session **out, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = open_session(m, out, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}

void zinc_session_cancel(zinc_session *s)
{
    if (s)
        flag_set(&s->cancel, true);
}

int session_report(zinc_session *s, int rc)
{
    if (rc == -ECANCELED)
        flag_set(&s->cancel, false);
    return rc;
}

int session_enter(zinc_session *s, struct scope *sc, struct err *e)
{
    if (!s)
        return err_set(e, -EINVAL, "libzinc: the session is NULL");
    if (atomic_exchange(&s->inside, true))
        return err_set(e, -EBUSY,
                       "libzinc: another call for this session has not returned; it belongs to one thread at a time");
    *sc = scope_enter(s->m);
    return 0;
}

void session_leave(zinc_session *s, struct scope *sc)
{
    scope_leave(sc);
    atomic_store(&s->inside, false);
}

int session_unheld(const zinc_session *s, const zinc_chat *c, struct err *e)
{
    if (s->gen)
        return err_set(e, -EBUSY, "libzinc: a generation has this session until it ends or is closed");
    if (s->chat && s->chat != c)
        return err_set(e, -EBUSY, "libzinc: a chat has this session until it is closed");
    return 0;
}

/* ---- evaluation ---- */

static int take_cancel(zinc_session *s, struct err *e)
{
    return flag_is_set(&s->cancel)
               ? err_set(e, -ECANCELED, "libzinc: cancelled before anything was evaluated")
               : 0;
}

static int check_tokens(zinc_session *s, const int32_t *tokens, size_t n, struct err *e)
{
    int rc = session_unheld(s, NULL, e);
    if (!rc && !tokens && n)
        rc = err_set(e, -EINVAL, "libzinc: the tokens are NULL");
    if (!rc && n > INT32_MAX)
        rc = err_set(e, -E2BIG, "libzinc: %zu tokens", n);
    return rc ? rc : session_check(s->s, tokens, (uint32_t)n, e);
}

static int eval(zinc_session *s, const int32_t *tokens, size_t n, float *logits, size_t cap, struct err *e)
{
    uint32_t n_vocab = engine_info(s->m->eng)->n_vocab;
    const float *made;
    int rc = check_tokens(s, tokens, n, e);
    if (rc)
        return rc;
    if (logits && cap < n_vocab)
        return err_set(e, -ERANGE, "libzinc: the buffer has room for %zu logits, the vocabulary has %u", cap,
                       n_vocab);
    turn_take(&s->m->turn);
    if (!(rc = take_cancel(s, e)) && !(rc = session_eval(s->s, tokens, (uint32_t)n, logits ? &made : NULL, e)) &&
        logits)
        memcpy(logits, made, n_vocab * sizeof *logits);
    turn_give(&s->m->turn);
    return session_report(s, rc);
}

int zinc_session_eval(zinc_session *s, const int32_t *tokens, size_t n, float *logits, size_t cap, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = session_enter(s, &sc, &own);
    if (!rc) {
        rc = eval(s, tokens, n, logits, cap, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

struct score {
    const int32_t *tokens;
    size_t n;
    uint32_t n_vocab;
    float *out;
};

static int on_score(void *user, uint32_t i, const float *logits)
{
    struct score *x = user;
    if (i + 1 >= x->n)
        return 0;
    double max = -INFINITY, sum = 0;
    for (uint32_t v = 0; v < x->n_vocab; v++)
        max = fmax(max, logits[v]);
    for (uint32_t v = 0; v < x->n_vocab; v++)
        sum += exp(logits[v] - max);
    x->out[i] = (float)(logits[x->tokens[i + 1]] - max - log(sum));
    return 0;
}

static int score(zinc_session *s, const int32_t *tokens, size_t n, float *logprobs, struct err *e)
{
    struct score x = { tokens, n, engine_info(s->m->eng)->n_vocab, logprobs };
    int rc = check_tokens(s, tokens, n, e);
    if (rc)
        return rc;
    if (!logprobs && n > 1)
        return err_set(e, -EINVAL, "libzinc: zinc_session_score: logprobs is NULL");
    turn_take(&s->m->turn);
    if (!(rc = take_cancel(s, e)))
        rc = session_score(s->s, tokens, (uint32_t)n, on_score, &x, e);
    turn_give(&s->m->turn);
    return session_report(s, rc);
}

int zinc_session_score(zinc_session *s, const int32_t *tokens, size_t n, float *logprobs, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = session_enter(s, &sc, &own);
    if (!rc) {
        rc = score(s, tokens, n, logprobs, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

int zinc_session_tokens(zinc_session *s, int32_t *ids, size_t cap, size_t *n, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = session_enter(s, &sc, &own);
    if (!rc) {
        rc = array_give(session_tokens(s->s), session_pos(s->s), sizeof *ids, ids, cap, n, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

int zinc_session_truncate(zinc_session *s, size_t n, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = session_enter(s, &sc, &own);
    if (!rc) {
        rc = session_unheld(s, NULL, &own);
        if (!rc)
            rc = session_truncate(s->s, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

/* ---- sampling by hand ---- */

struct zinc_sampler {
    zinc_model *m;
    struct sampler *s;
};

static int open_sampler(zinc_model *m, const zinc_gen_opts *given, zinc_sampler **out, struct err *e)
{
    zinc_gen_opts o;
    struct sampler_params p;
    struct logit_bias *bias;
    if (!m || !out)
        return err_set(e, -EINVAL, "libzinc: zinc_sampler_open: %s is NULL", m ? "out" : "the model");
    int rc = STRUCT_TAKE(&o, given, progress_user, e);
    if (rc || (rc = sampling_take(m, &o, &p, &bias, e)))
        return rc;
    zinc_sampler *s = calloc(1, sizeof *s);
    rc = s ? engine_sampler(m->eng, &p, o.flags & ZINC_GEN_IGNORE_END, &s->s, e)
           : err_set(e, -ENOMEM, "libzinc: out of memory");
    free(bias);
    if (rc) {
        free(s);
        return rc;
    }
    model_use(s->m = m);
    *out = s;
    return 0;
}

int zinc_sampler_open(zinc_model *m, const zinc_gen_opts *o, zinc_sampler **out, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc = scope_enter(m);
    int rc = open_sampler(m, o, out, &own);
    scope_leave(&sc);
    return done(rc, &own, e);
}

void zinc_sampler_close(zinc_sampler *s)
{
    if (!s)
        return;
    sampler_destroy(s->s);
    zinc_model_close(s->m);
    free(s);
}

int zinc_sampler_choose(zinc_sampler *s, const float *logits, size_t n_logits, int32_t *id, zinc_error *e)
{
    struct err own = { 0 };
    int rc = 0;
    if (!s || !logits || !id)
        rc = err_set(&own, -EINVAL, "libzinc: zinc_sampler_choose: %s is NULL",
                     !s        ? "the sampler"
                     : !logits ? "logits"
                               : "id");
    else if (n_logits != engine_info(s->m->eng)->n_vocab)
        rc = err_set(&own, -EINVAL, "libzinc: %zu logits, the vocabulary has %u", n_logits,
                     engine_info(s->m->eng)->n_vocab);
    int32_t chosen = rc ? -1 : sampler_choose(s->s, logits);
    if (!rc && chosen < 0)
        rc = err_set(&own, -EDOM, "libzinc: no logit is a finite number");
    if (!rc)
        *id = chosen;
    return done(rc, &own, e);
}

int zinc_sampler_accept(zinc_sampler *s, int32_t id, zinc_error *e)
{
    struct err own = { 0 };
    int rc = 0;
    if (!s)
        rc = err_set(&own, -EINVAL, "libzinc: zinc_sampler_accept: the sampler is NULL");
    else if (id < 0 || (uint32_t)id >= engine_info(s->m->eng)->n_vocab)
        rc = err_set(&own, -EINVAL, "libzinc: token %d is not in the vocabulary of %u", id,
                     engine_info(s->m->eng)->n_vocab);
    else
        sampler_accept(s->s, id);
    return done(rc, &own, e);
}
