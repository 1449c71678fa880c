#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "engine/priv.h"

#define WAIT_NS 1000000000u

int session_create(struct engine *eng, struct session **out, struct err *e)
{
    uint32_t slot = 0;
    while (slot < eng->info.n_slots && eng->slots[slot])
        slot++;
    if (slot == eng->info.n_slots)
        return err_set(e, -EAGAIN, "engine: all %u sessions are in use", eng->info.n_slots);
    struct session *s = calloc(1, sizeof *s);
    if (!s || !(s->tok = calloc(eng->info.n_ctx, sizeof *s->tok))) {
        free(s);
        return err_set(e, -ENOMEM, "engine: out of memory for a session of %u tokens", eng->info.n_ctx);
    }
    s->eng = eng;
    s->slot = slot;
    eng->slots[slot] = s;
    *out = s;
    return 0;
}

void session_destroy(struct session *s)
{
    if (!s)
        return;
    s->eng->slots[s->slot] = NULL;
    free(s->tok);
    free(s);
}

uint32_t session_pos(const struct session *s)
{
    return s->pos;
}

const int32_t *session_tokens(const struct session *s)
{
    return s->tok;
}

void session_reset(struct session *s)
{
    s->pos = 0;
}

int session_truncate(struct session *s, uint32_t pos, struct err *e)
{
    if (pos > s->pos)
        return err_set(e, -EINVAL, "engine: cannot cut a session of %u tokens at %u", s->pos, pos);
    if (s->eng->info.recurrent && pos && pos != s->pos)
        return err_set(e, -ENOTSUP, "engine: the state of %s models cannot be rewound to token %u of %u",
                       s->eng->info.family, pos, s->pos);
    s->pos = pos;
    return 0;
}

uint32_t session_keep_common(struct session *s, const int32_t *tok, uint32_t n)
{
    uint32_t same = 0;
    while (same < s->pos && same + 1 < n && s->tok[same] == tok[same])
        same++;
    s->pos = s->eng->info.recurrent && same < s->pos ? 0 : same;
    return s->pos;
}

void session_set_cancel(struct session *s, const struct flag *flag)
{
    s->cancel = flag;
}

bool session_cancelled(const struct session *s)
{
    return flag_is_set(s->cancel);
}

void session_set_prompt(struct session *s, bool on)
{
    s->in_prompt = on;
}

void session_set_progress(struct session *s, const struct progress *p)
{
    s->progress = p;
}

/* The tier's own error, kept for everyone who comes after. */
static int device_fault(struct engine *eng, int rc, struct err *e)
{
    eng->faulted = true;
    struct err cause = { 0 };
    if (tier_fault(eng->tier, &cause) == 0 && cause.msg[0])
        return err_set(e, rc, "%s", cause.msg);
    return err_set(e, rc, "engine: the %s tier failed: %s", eng->info.tier, strerror(-rc));
}

int engine_submit(struct engine *eng, struct engine_plan *p, uint32_t n_rows, uint32_t n_out, const ka_sample *how,
                  struct engine_flight *f, struct err *e)
{
    struct step st = { .n_rows = n_rows, .n_out = n_out, .rows = eng->rows, .out_row = eng->out_row, .sample = how };
    struct engine_flight *other = eng->watched;
    eng->watched = NULL;
    if (other) {
        int rc = engine_land(eng, other, &other->first, e);
        if (rc)
            return rc;
        other->landed = true;
    }
    for (uint32_t i = 0; i < n_rows; i++)
        st.kv_len = MAX(st.kv_len, eng->rows[i].pos + 1);
    if (env_get()->debug >= 2)
        engine_debug_tensors(eng, p, &st);
    *f = (struct engine_flight){ .plan = p, .since_ns = clock_ns(), .n_out = n_out };
    eng->last_rows = n_rows;
    eng->last_kv_len = st.kv_len;
    int rc = tier_submit(eng->tier, p->native, &st, &f->point);
    eng->last = *f;
    return rc ? device_fault(eng, rc, e) : 0;
}

static int wait_for(struct engine *eng, const struct engine_flight *f, struct err *e)
{
    int rc;
    while ((rc = tier_wait(eng->tier, f->point, WAIT_NS)) == -ETIME)
        ;
    return rc ? device_fault(eng, rc, e) : 0;
}

static int read_next(struct engine *eng, const struct engine_flight *f, int32_t *next, struct err *e)
{
    uint32_t n_vocab = f->plan->s->h.n_vocab;
    int rc = tier_next(eng->tier, f->plan->native, f->point, f->n_out, next, e);
    for (uint32_t i = 0; i < f->n_out && !rc; i++)
        if (next[i] < -1 || next[i] >= (int64_t)n_vocab)
            rc = err_set(e, -EIO, "engine: the %s tier chose token %d, the vocabulary has %u", eng->info.tier, next[i], n_vocab);
    return rc;
}

int engine_land(struct engine *eng, const struct engine_flight *f, int32_t *next, struct err *e)
{
    if (f->landed) {
        *next = f->first;
        return 0;
    }
    int rc = wait_for(eng, f, e);
    return rc ? rc : read_next(eng, f, next, e);
}

void engine_watch(struct engine *eng, struct engine_flight *f)
{
    CHECK(f->n_out == 1 && !eng->watched);
    eng->watched = f;
}

void engine_unwatch(struct engine *eng, const struct engine_flight *f)
{
    if (eng->watched == f)
        eng->watched = NULL;
}

int engine_read_next(struct engine *eng, int32_t *next, struct err *e)
{
    return read_next(eng, &eng->last, next, e);
}

bool engine_flies(const struct engine *eng)
{
    return tier_keeps_next(eng->tier) && env_get()->ahead && env_get()->debug < 2 && !eng->tier_opts.trace;
}

int engine_step(struct engine *eng, struct engine_plan *p, uint32_t n_rows, uint32_t n_out, const ka_sample *how,
                const float **logits, struct err *e)
{
    struct engine_flight f;
    int rc = engine_submit(eng, p, n_rows, n_out, how, &f, e);
    if (rc || (rc = wait_for(eng, &f, e)))
        return rc;
    if (env_get()->debug >= 2) {
        struct step st = { n_rows, n_out, eng->last_kv_len, eng->rows, eng->out_row, how };
        engine_debug_step(eng, p, &st, clock_ns() - f.since_ns);
        alloc_guard_forgive(); /* looking may allocate */
    }
    if (!n_out || !logits)
        return 0;
    *logits = tier_map(eng->tier, ARENA_IO, p->out_off);
    if (*logits)
        return 0;
    uint64_t bytes = (uint64_t)n_out * eng->n_output * sizeof(float);
    *logits = eng->logits;
    return tier_read(eng->tier, ARENA_IO, p->out_off, eng->logits, bytes, e);
}

void engine_fill_rows(struct engine *eng, const struct session *s, const int32_t *tok, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        eng->rows[i] = (ka_row){ .token = tok[i], .pos = s->pos + i, .slot = s->slot };
}

struct engine_plan *engine_decode_plan(struct engine *eng, uint32_t n)
{
    return eng->decode_few.s && n <= eng->decode_few.s->h.row_cap ? &eng->decode_few : &eng->decode;
}

struct engine_plan *engine_plan_for(struct engine *eng, uint32_t n, bool prompt, uint32_t *n_step)
{
    bool few = eng->tier->info.by_capacity ? !prompt : n <= eng->decode.s->h.row_cap;
    struct engine_plan *p = few ? engine_decode_plan(eng, n) : &eng->prefill;
    *n_step = MIN(n, p->s->h.row_cap);
    return p;
}

int session_check(const struct session *s, const int32_t *tok, uint32_t n, struct err *e)
{
    const struct engine_info *in = &s->eng->info;
    if (!n)
        return err_set(e, -EINVAL, "engine: nothing to evaluate: the prompt has no tokens");
    for (uint32_t i = 0; i < n; i++)
        if (tok[i] < 0 || (uint32_t)tok[i] >= in->n_vocab)
            return err_set(e, -EINVAL, "engine: token %d at %u is not in the vocabulary of %u", tok[i], s->pos + i,
                           in->n_vocab);
    if (n > in->n_ctx - s->pos)
        return err_set(e, -E2BIG, "engine: %u tokens after %u do not fit the context of %u: raise --ctx to %u or more%s",
                       n, s->pos, in->n_ctx, s->pos + n,
                       in->n_ctx_train && s->pos + n > in->n_ctx_train ? " (beyond what the model was trained for)" : "");
    return 0;
}

static int may_go_on(const struct session *s, uint32_t done, uint32_t n, struct err *e)
{
    if (session_cancelled(s) || !progress_report(s->progress, "prompt", done, n))
        return err_set(e, -ECANCELED, "engine: cancelled after %u of %u tokens", done, n);
    return 0;
}

/* One step of a session; `out` of its last rows get logits, and next tokens by `how` [out], NULL: greedy. */
static int eval_rows(struct session *s, struct engine_plan *p, const int32_t *tok, uint32_t n, uint32_t out,
                     const ka_sample *how, const float **logits, struct err *e)
{
    struct engine *eng = s->eng;
    engine_fill_rows(eng, s, tok, n);
    for (uint32_t i = 0; i < out; i++)
        eng->out_row[i] = n - out + i;
    int rc = engine_step(eng, p, n, out, how, logits, e);
    if (rc)
        return rc;
    memcpy(s->tok + s->pos, tok, n * sizeof *tok);
    s->pos += n;
    return 0;
}

static int eval(struct session *s, const int32_t *tok, uint32_t n, const ka_sample *how, const float **logits, struct err *e)
{
    int rc = session_check(s, tok, n, e);
    for (uint32_t done = 0; !rc && done < n;) {
        uint32_t rows;
        struct engine_plan *p = engine_plan_for(s->eng, n - done, n > 1 || s->in_prompt, &rows);
        bool last = done + rows == n;
        if ((n > 1 && (rc = may_go_on(s, done, n, e))) ||
            (rc = eval_rows(s, p, tok + done, rows, last, how, logits, e)))
            break;
        done += rows;
        if (last && n > 1)
            progress_report(s->progress, "prompt", n, n);
    }
    return rc;
}

int session_eval(struct session *s, const int32_t *tok, uint32_t n, const float **logits, struct err *e)
{
    static const ka_sample unread = { .quiet = 1 };
    return eval(s, tok, n, logits ? NULL : &unread, logits, e);
}

int session_eval_next(struct session *s, const int32_t *tok, uint32_t n, const ka_sample *how, const float **logits,
                      int32_t *next, struct err *e)
{
    ka_sample h = how ? *how : (ka_sample){ 0 };
    h.quiet = !logits;
    int rc = eval(s, tok, n, &h, logits, e);
    return rc ? rc : engine_read_next(s->eng, next, e);
}

static int one_by_one(struct session *s, int32_t tok, uint32_t n, int32_t *next, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        rc = session_eval_next(s, &tok, 1, NULL, NULL, &tok, e);
        if (!rc && next)
            next[i] = tok;
        if (!rc && tok < 0 && i + 1 < n)
            rc = err_set(e, -EDOM, "engine: after token %u: no logit is a number", s->pos);
    }
    return rc;
}

int session_submit(struct session *s, int32_t tok, uint32_t pos, ka_sample how, struct engine_flight *f, struct err *e)
{
    struct engine *eng = s->eng;
    how.quiet = 1;
    eng->rows[0] = (ka_row){ .token = tok, .pos = pos, .slot = s->slot };
    eng->out_row[0] = 0;
    return engine_submit(eng, engine_decode_plan(eng, 1), 1, 1, &how, f, e);
}

int session_follow(struct session *s, int32_t first, uint32_t n, int32_t *next, struct err *e)
{
    const ka_sample greedy = { 0 };
    struct engine_flight now, behind;
    int32_t tok = first, chosen;
    int rc = session_check(s, &first, 1, e);
    if (!rc && n > s->eng->info.n_ctx - s->pos)
        rc = err_set(e, -E2BIG, "engine: %u tokens after %u do not fit the context of %u", n, s->pos, s->eng->info.n_ctx);
    if (!rc && !stream_chooses(s->eng->decode.s))
        rc = err_set(e, -ENOTSUP, "engine: the stream has no command that chooses a token");
    if (rc || !n)
        return rc;
    if (!engine_flies(s->eng))
        return one_by_one(s, first, n, next, e);
    rc = session_submit(s, tok, s->pos, greedy, &now, e);
    for (uint32_t i = 0; i < n && !rc; i++) {
        bool more = i + 1 < n;
        if (more && (rc = session_submit(s, -1, s->pos + 1, greedy, &behind, e)))
            break;
        if ((rc = engine_land(s->eng, &now, &chosen, e)))
            break;
        s->tok[s->pos++] = tok;
        if (next)
            next[i] = chosen;
        if (more && chosen < 0) {
            rc = engine_land(s->eng, &behind, &tok, e);
            return rc ? rc : err_set(e, -EDOM, "engine: after token %u: no logit is a number", s->pos);
        }
        tok = chosen;
        now = behind;
    }
    return rc;
}

uint32_t engine_draft_rows(const struct engine *eng)
{
    const struct stream_head *h = &eng->decode.s->h;
    return eng->info.recurrent && !eng->go_back ? 1 : MIN(MIN(h->row_cap, h->out_cap), DRAFT_MOST + 1u);
}

int session_try(struct session *s, const struct session_try *t, int32_t *next, const float **logits, struct err *e)
{
    struct engine *eng = s->eng;
    CHECK(t->n <= engine_draft_rows(eng) && t->n_out <= t->n && t->pos + t->n <= eng->info.n_ctx);
    for (uint32_t i = 0; i < t->n; i++)
        eng->rows[i] = (ka_row){ .token = t->tok[i], .pos = t->pos + i, .slot = s->slot };
    for (uint32_t i = 0; i < t->n_out; i++) {
        eng->out_row[i] = t->n - t->n_out + i;
        t->how[i].quiet = next != NULL;
    }
    int rc = engine_step(eng, engine_decode_plan(eng, t->n), t->n, t->n_out, t->how, next ? NULL : logits, e);
    return rc || !next ? rc : engine_read_next(eng, next, e);
}

int engine_keep_state(struct engine *eng, struct err *e)
{
    uint64_t n = eng->decode.s->h.arena_bytes[ARENA_STATE];
    return eng->info.recurrent ? tier_copy(eng->tier, ARENA_STATE, n, 0, n, e) : 0;
}

int engine_back_to_state(struct engine *eng, struct err *e)
{
    uint64_t n = eng->decode.s->h.arena_bytes[ARENA_STATE];
    return eng->info.recurrent ? tier_copy(eng->tier, ARENA_STATE, 0, n, n, e) : 0;
}

int engine_last_logits(struct engine *eng, uint32_t i, const float **logits, struct err *e)
{
    const struct stream_head *h = &eng->last.plan->s->h;
    uint64_t bytes = (uint64_t)h->n_vocab * sizeof(float);
    if (!eng->logits && !(eng->logits = malloc(bytes)))
        return err_set(e, -ENOMEM, "engine: out of memory for %u logits", h->n_vocab);
    *logits = eng->logits;
    return tier_read(eng->tier, ARENA_IO, h->logits_off + i * bytes, eng->logits, bytes, e);
}

int session_score(struct session *s, const int32_t *tok, uint32_t n, session_score_fn fn, void *user, struct err *e)
{
    int rc = session_check(s, tok, n, e);
    for (uint32_t done = 0; !rc && done < n;) {
        uint32_t rows;
        struct engine_plan *p = engine_plan_for(s->eng, n - done, n > 1, &rows);
        rows = MIN(rows, p->s->h.out_cap);
        const float *logits;
        if ((rc = may_go_on(s, done, n, e)) || (rc = eval_rows(s, p, tok + done, rows, rows, NULL, &logits, e)))
            break;
        for (uint32_t i = 0; i < rows && !rc; i++)
            rc = fn(user, done + i, logits + (size_t)i * s->eng->info.n_vocab);
        if (rc)
            return err_set(e, rc, "engine: evaluation stopped at token %u", done);
        done += rows;
    }
    if (!rc)
        progress_report(s->progress, "prompt", n, n);
    return rc;
}

int session_eval_batch(struct session *const *s, const int32_t *tok, uint32_t n, const float **logits, struct err *e)
{
    if (!n)
        return err_set(e, -EINVAL, "engine: a batch of no sessions, expected 1 or more");
    struct engine *eng = s[0]->eng;
    struct engine_plan *p = n <= eng->decode.s->h.row_cap ? engine_decode_plan(eng, n) : &eng->prefill; /* as the scheduler chooses */
    int rc;
    if (n > eng->info.n_batch)
        return err_set(e, -EINVAL, "engine: a batch of %u sessions, the stream takes %u", n, eng->info.n_batch);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(s[i]->eng == eng);
        for (uint32_t j = 0; j < i; j++)
            CHECK(s[i] != s[j]);
        if ((rc = session_check(s[i], &tok[i], 1, e)))
            return rc;
        eng->rows[i] = (ka_row){ .token = tok[i], .pos = s[i]->pos, .slot = s[i]->slot };
        eng->out_row[i] = i;
    }
    const float *l;
    if ((rc = engine_step(eng, p, n, n, logits ? NULL : eng->unread, logits ? &l : NULL, e)))
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        s[i]->tok[s[i]->pos++] = tok[i];
        if (logits)
            logits[i] = l + (size_t)i * eng->info.n_vocab;
    }
    return 0;
}
