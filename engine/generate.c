#include "engine/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "engine/answer/answer.h"
#include "engine/priv.h"
#include "model/tok.h"

enum { TEXT_RESERVE = 4096 };

/* What is known of the reasoning, and the words that end it. */
struct think {
    struct answer *answer;    /* the text so far, in parts; NULL: nobody asks    */
    enum answer_part part;    /* where it stands                                 */
    uint32_t n_seen;          /* tokens of which it is known where they belong   */
    int32_t *stop;            /* [n_stop] tokens that end it; NULL: no limit     */
    uint32_t n_stop, at_stop; /* at_stop: the next one to say; 0: not yet        */
};

struct stop {
    char *text;
    size_t n, have;   /* have: how much of it the text ends with                                     */
    uint32_t *border; /* [n] of the first k bytes: the longest beginning that they also end with     */
};

struct gen {
    const struct engine *eng;
    struct gen_opts o;
    struct sampler *sampler;
    bool on_device;        /* the streams can choose tokens as the sampler wants it                      */
    struct tok_stream text;
    struct tok_buf piece;  /* bytes of the newest token                                          */
    struct tok_buf held;   /* text that may be the start of a stop string, then the newest piece */
    struct stop *stop;
    uint32_t n_stop;
    struct grammar_state *grammar; /* NULL: none, or not begun */
    bool made;             /* gen_choose was called for the next token */
    int32_t choice;        /* what it said                             */
    struct think think;
    struct gen_result r;
};

const char *gen_reason_json(enum gen_reason r)
{
    static const char *const name[] = {
#define X(name, json, text) json,
        GEN_REASONS(X)
#undef X
    };
    return name[r];
}

const char *gen_reason_text(enum gen_reason r)
{
    static const char *const name[] = {
#define X(name, json, text) text,
        GEN_REASONS(X)
#undef X
    };
    return name[r];
}

/* How much of the stop string the text ends with, one byte on; the whole of it is an end. */
static size_t stop_step(const struct stop *s, size_t k, char c)
{
    while (k && s->text[k] != c)
        k = s->border[k];
    return s->text[k] == c ? k + 1 : 0;
}

static int copy_stops(struct gen *g, const struct gen_opts *o)
{
    g->stop = calloc(o->n_stop + 1, sizeof *g->stop);
    if (!g->stop)
        return -ENOMEM;
    for (uint32_t i = 0; i < o->n_stop; i++) {
        if (!o->stop[i][0])
            continue;
        struct stop *s = &g->stop[g->n_stop++];
        s->n = strlen(o->stop[i]);
        s->text = strdup(o->stop[i]);
        s->border = calloc(s->n, sizeof *s->border);
        if (!s->text || !s->border)
            return -ENOMEM;
        for (size_t k = 2; k < s->n; k++)
            s->border[k] = (uint32_t)stop_step(s, s->border[k - 1], s->text[k - 1]);
    }
    return 0;
}

static int init_think(struct gen *g, const struct gen_opts *o, struct err *e)
{
    struct think *t = &g->think;
    if (!o->chat)
        return 0;
    const struct answer_opts as = { .think = o->think };
    const struct answer_sink nobody = { 0 };
    const char *stop = answer_think_end(o->chat);
    int rc = answer_create(o->chat, &as, &nobody, NULL, &t->answer, e);
    if (rc)
        return rc;
    t->part = answer_part(t->answer);
    if (!stop || o->think_budget < 0)
        return 0;
    return engine_encode(g->eng, stop, strlen(stop), ENGINE_PARSE_SPECIAL, &t->stop, &t->n_stop, e);
}

/* Does the stream choose next tokens as its steps say? Files may hold streams that only know the largest logit. */
static bool stream_draws(const struct stream *s)
{
    return s && stream_chooses(s) && ((const ka_argmax *)stream_args(s, s->h.n_cmds - 1))->sample;
}

int gen_create(const struct engine *eng, const struct gen_opts *o, struct gen **out, struct err *e)
{
    struct gen *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, -ENOMEM, "engine: out of memory");
    g->eng = eng;
    g->o = *o;
    if (o->grammar)
        grammar_ref(o->grammar);
    g->on_device = stream_draws(eng->decode.s) && stream_draws(eng->prefill.s);
    int rc = engine_sampler(eng, &o->sampling, o->ignore_eos, &g->sampler, e);
    if (!rc)
        rc = init_think(g, o, e);
    if (!rc && (copy_stops(g, o) || tok_buf_reserve(&g->held, TEXT_RESERVE) || tok_buf_reserve(&g->piece, TEXT_RESERVE)))
        rc = err_set(e, -ENOMEM, "engine: out of memory");
    if (rc) {
        gen_destroy(g);
        return rc;
    }
    if (eng->tok)
        tok_stream_init(&g->text, eng->tok, o->show_special ? TOK_SHOW_SPECIAL : 0);
    *out = g;
    return 0;
}

void gen_destroy(struct gen *g)
{
    if (!g)
        return;
    sampler_destroy(g->sampler);
    tok_buf_finish(&g->held);
    tok_buf_finish(&g->piece);
    for (uint32_t i = 0; i < g->n_stop; i++) {
        free(g->stop[i].text);
        free(g->stop[i].border);
    }
    free(g->stop);
    grammar_state_destroy(g->grammar);
    grammar_unref(g->o.grammar);
    answer_destroy(g->think.answer);
    free(g->think.stop);
    free(g);
}

int gen_begin(struct gen *g, struct err *e)
{
    return g->o.grammar && !g->grammar ? grammar_state_create(g->o.grammar, &g->grammar, e) : 0;
}

int gen_prepare(struct gen *g, struct grammar_limit *l, bool wait, struct err *e)
{
    return g->grammar && g->r.reason == GEN_RUNNING ? grammar_state_prepare(g->grammar, l, wait, e) : 0;
}

struct grammar_state *gen_grammar_state(const struct gen *g)
{
    return g->grammar;
}

uint32_t gen_allows(const struct gen *g, const int32_t *tok, uint32_t n, struct grammar_limit *l)
{
    return g->grammar ? grammar_state_allows(g->grammar, tok, n, l) : n;
}

void gen_end_grammar(struct gen *g, bool lent)
{
    if (!lent)
        grammar_state_destroy(g->grammar);
    g->grammar = NULL;
}

void gen_prompt(struct gen *g, const int32_t *tok, uint32_t n)
{
    g->r.n_prompt += n;
    for (uint32_t i = 0; i < n; i++)
        sampler_accept(g->sampler, tok[i]);
}

const struct gen_result *gen_result(const struct gen *g)
{
    return &g->r;
}

const struct sampler *gen_sampler(const struct gen *g)
{
    return g->sampler;
}

static int emit(struct gen *g, size_t n, struct err *e)
{
    int rc = 0;
    if (n && g->o.on_text && (rc = g->o.on_text(g->o.user, g->held.s, n)))
        return err_set(e, rc, "output: %s", strerror(-rc));
    memmove(g->held.s, g->held.s + n, g->held.n - n);
    g->held.n -= n;
    return 0;
}

/* Looks for the first stop string in the held text, of which the bytes from `from` on are new. When there is none, *keep
 * is how many bytes at the end may be the beginning of one. A byte costs the same however long the strings are. */
static bool find_stop(struct gen *g, size_t from, size_t *at, uint32_t *which, size_t *keep)
{
    bool found = false;
    *keep = 0;
    for (uint32_t i = 0; i < g->n_stop; i++) {
        struct stop *s = &g->stop[i];
        for (size_t k = from; k < g->held.n && s->have < s->n; k++) {
            s->have = stop_step(s, s->have, g->held.s[k]);
            size_t begin = k + 1 - s->have;
            if (s->have == s->n && (!found || begin < *at)) {
                found = true;
                *at = begin;
                *which = i;
            }
        }
        *keep = MAX(*keep, s->have);
    }
    return found;
}

/* Appends the token's text and passes on what is certain. */
static int put_text(struct gen *g, int32_t id, struct err *e)
{
    g->piece.n = 0;
    size_t before = g->held.n;
    int rc = tok_piece(g->eng->tok, id, g->text.flags, &g->piece, e);
    if (rc || (rc = tok_stream_bytes(&g->text, g->piece.s, g->piece.n, &g->held, e)))
        return rc;
    size_t at = 0, keep;
    uint32_t which;
    if (find_stop(g, before, &at, &which, &keep)) {
        rc = emit(g, at, e);
        g->held.n = 0;
        g->r.reason = GEN_STOP_STRING;
        g->r.stop_index = which;
        return rc;
    }
    return emit(g, g->held.n - keep, e);
}

int gen_end(struct gen *g, enum gen_reason why, struct err *e)
{
    if (g->r.reason == GEN_RUNNING)
        g->r.reason = why;
    if (!g->eng->tok || g->r.reason == GEN_STOP_STRING)
        return 0;
    int rc = tok_stream_finish(&g->text, &g->held, e);
    return rc ? rc : emit(g, g->held.n, e);
}

/* Follows the reasoning through the newest piece of text. Tokens between two parts belong to what comes after them. */
static int follow_think(struct gen *g, struct err *e)
{
    struct think *t = &g->think;
    if (!t->answer)
        return 0;
    int rc = answer_put(t->answer, g->piece.s, g->piece.n);
    if (rc)
        return err_set(e, rc, "engine: out of memory for an answer");
    bool thought = t->part == ANSWER_PART_REASONING;
    t->part = answer_part(t->answer);
    bool thinks = t->part == ANSWER_PART_REASONING;
    if (thinks && !thought)
        t->at_stop = 0; /* once more, though its end may have been said */
    if (thinks || thought)
        g->r.n_thought += g->r.n_tokens - t->n_seen;
    if (thinks || thought || t->part == ANSWER_PART_TEXT)
        t->n_seen = g->r.n_tokens;
    return 0;
}

/* The token that has to come now, because the reasoning has used up its budget; -1: the model is free. */
static int32_t forced_token(struct gen *g)
{
    struct think *t = &g->think;
    bool over = t->part == ANSWER_PART_REASONING && g->r.n_thought >= (uint32_t)g->o.think_budget;
    if (!t->stop || (!t->at_stop && !over))
        return -1;
    return t->at_stop < t->n_stop ? t->stop[t->at_stop++] : -1;
}

/* The token if the mask has it, else -1. */
static int32_t within(const uint64_t *mask, int32_t t)
{
    return t >= 0 && mask && !(mask[t >> 6] >> (t & 63) & 1) ? -1 : t;
}

/* The answer goes on with token t, -1: there is none. */
static int take(struct gen *g, int32_t t, const float *logits, int32_t *id, struct err *e)
{
    if (t < 0) {
        g->r.reason = GEN_FAILED;
        return err_set(e, -EDOM, "engine: token %u: no logit is a finite number (tier %s, model %s): the file may be "
                       "damaged; compare with --tier cpu --exact", g->r.n_prompt + g->r.n_tokens, g->eng->info.tier,
                       g->eng->label);
    }
    sampler_accept(g->sampler, t);
    g->r.n_tokens++;
    *id = t;
    int rc = g->o.on_token ? g->o.on_token(g->o.user, t, logits) : 0;
    if (rc)
        return err_set(e, rc, "output: %s", strerror(-rc));
    if (engine_is_eog(g->eng, t))
        return gen_end(g, GEN_EOG, e);
    if (g->eng->tok && (rc = put_text(g, t, e)))
        return rc;
    if ((rc = follow_think(g, e)))
        return rc;
    if (g->r.reason == GEN_RUNNING && g->o.n_max && g->r.n_tokens >= g->o.n_max)
        return gen_end(g, GEN_LENGTH, e);
    return g->r.reason == GEN_RUNNING;
}

/* The grammar allows nothing that the request lets be chosen. Where it may end, that is the end. */
static int nothing_left(struct gen *g, const float *logits, struct err *e)
{
    bool finite = false;
    for (uint32_t i = 0; i < g->eng->info.n_vocab && !finite; i++)
        finite = isfinite(logits[i]);
    if (!finite) /* it is not the grammar */
        return take(g, -1, logits, NULL, e);
    if (grammar_state_may_end(g->grammar))
        return gen_end(g, GEN_EOG, e);
    g->r.reason = GEN_FAILED;
    return err_set(e, -ENODATA, "of the tokens that the grammar allows next none may be chosen: logit_bias takes them away");
}

int32_t gen_choose(struct gen *g, const float *logits)
{
    if (g->r.reason != GEN_RUNNING || g->made)
        return g->choice;
    CHECK(!g->o.grammar || g->grammar);
    const uint64_t *mask = g->grammar ? grammar_state_ready(g->grammar) : NULL;
    CHECK(!g->grammar || mask);
    int32_t t = within(mask, forced_token(g));
    if (t < 0) {
        sampler_set_mask(g->sampler, mask);
        alloc_guard_begin("sample");
        t = sampler_choose(g->sampler, logits);
        alloc_guard_end();
        t = within(mask, t);
    }
    g->made = true;
    return g->choice = t;
}

int gen_next(struct gen *g, const float *logits, int32_t *id, struct err *e)
{
    if (g->r.reason != GEN_RUNNING)
        return 0;
    int32_t t = gen_choose(g, logits);
    g->made = false;
    if (g->grammar && t < 0)
        return nothing_left(g, logits, e);
    if (g->grammar)
        grammar_state_choose(g->grammar, t);
    return take(g, t, logits, id, e);
}

bool gen_device(const struct gen *g, ka_sample *how)
{
    return sampler_device(g->sampler, how) && g->on_device && !g->o.grammar;
}

bool gen_flies(const struct gen *g, bool can_go_back, ka_sample *how)
{
    bool flies = gen_device(g, how) && !g->think.stop && !g->o.want_logits && (can_go_back || !sampler_may_refuse(g->sampler));
    how->counter += how->temp > 0;
    return flies;
}

void gen_tell_guess(struct gen *g, uint32_t n, uint32_t right)
{
    g->r.n_guessed += n;
    g->r.n_right += right;
}

uint32_t gen_left(const struct gen *g)
{
    return !g->o.n_max ? UINT32_MAX : g->o.n_max - MIN(g->o.n_max, g->r.n_tokens);
}

bool gen_refuses(const struct gen *g, int32_t chosen)
{
    return g->r.reason == GEN_RUNNING && sampler_refuses(g->sampler, chosen);
}

int gen_next_chosen(struct gen *g, int32_t chosen, const float *logits, int32_t *id, struct err *e)
{
    if (g->r.reason != GEN_RUNNING)
        return 0;
    int32_t forced = forced_token(g);
    if (forced >= 0)
        chosen = forced;
    else if (chosen >= 0)
        sampler_chose(g->sampler, chosen);
    return take(g, chosen, logits, id, e);
}

/* What an evaluation leaves for the choice of the next token. */
struct outcome {
    const float *logits; /* NULL: nobody wants them                */
    uint32_t row;        /* of the step's outputs: whose they are  */
    bool chosen;         /* the tier made the choice               */
    int32_t next;
};

static int evaluate(struct session *s, const struct gen *g, const int32_t *tok, uint32_t n, struct outcome *o,
                    struct err *e)
{
    ka_sample how;
    *o = (struct outcome){ .chosen = gen_device(g, &how) };
    return o->chosen ? session_eval_next(s, tok, n, &how, g->o.want_logits ? &o->logits : NULL, &o->next, e)
                     : session_eval(s, tok, n, &o->logits, e);
}

static int choose_next(struct session *s, struct gen *g, const struct outcome *o, int32_t *id, struct err *e)
{
    const float *logits = o->logits;
    if (o->chosen && !gen_refuses(g, o->next))
        return gen_next_chosen(g, o->next, logits, id, e);
    int rc = logits ? 0 : engine_last_logits(s->eng, o->row, &logits, e);
    return rc ? rc : gen_next(g, logits, id, e);
}

static int look_at_cancel(void *user)
{
    return session_cancelled(user) ? -ECANCELED : 0;
}

/* 1: the next token is *id; 0: the answer ended. */
static int prepare_and_choose(struct session *s, struct gen *g, const struct outcome *o, int32_t *id, struct err *e)
{
    struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS, .slice = 100000, .pause = look_at_cancel, .user = s };
    int rc = gen_prepare(g, &l, true, e);
    if (rc == -ECANCELED)
        return gen_end(g, GEN_CANCELLED, e);
    return rc ? rc : choose_next(s, g, o, id, e);
}

struct generation {
    struct session *s;
    struct gen *g;
    const int32_t *prompt; /* [n_prompt] that the first step evaluates; NULL: it did                     */
    uint32_t n_prompt;
    int32_t id;            /* the newest token; not evaluated, unless a step is under way                */
    struct outcome last;   /* of the step's evaluation                                                   */
    struct engine_flight up; /* of the newest token, counted in the session's position; n_out 0: none is */
    struct draft *draft;   /* NULL: nothing is guessed                                                   */
    int32_t guess[DRAFT_MOST + 1]; /* the newest token and a guess behind it                             */
    uint32_t n_guess;      /* tokens of the guess in the newest step                                     */
    bool tried;            /* that step was such a one                                                   */
    uint32_t behind;       /* the session's last tokens that a recurrent state, which was kept before them, does not have */
    int32_t next[DRAFT_MOST + 1]; /* what the tier chose after each, where it does                       */
    const float *logits;   /* [n_guess + 1, n_vocab] where it does not                                   */
};

static int begin_draft(struct generation *x, struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n, struct err *e)
{
    if (!o->n_draft || engine_draft_rows(s->eng) < 2)
        return 0;
    if (draft_create(s->eng->info.n_ctx + o->n_predicted, &x->draft))
        return err_set(e, -ENOMEM, "engine: out of memory for guesses");
    draft_add(x->draft, o->predicted, o->n_predicted);
    draft_add(x->draft, prompt, n);
    return 0;
}

int generation_begin(struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n,
                     struct generation **out, struct err *e)
{
    struct generation *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(e, -ENOMEM, "engine: out of memory");
    int rc = gen_create(s->eng, o, &x->g, e);
    if (rc || (rc = gen_begin(x->g, e)) || (rc = begin_draft(x, s, o, prompt, n, e))) {
        generation_destroy(x);
        return rc;
    }
    gen_prompt(x->g, prompt, n);
    x->g->r.n_reused = session_keep_common(s, prompt, n);
    x->s = s;
    x->prompt = prompt + x->g->r.n_reused;
    x->n_prompt = n - x->g->r.n_reused;
    *out = x;
    return 0;
}

/* The state has all of the session's tokens again. */
static int catch_up(struct generation *x)
{
    struct session *s = x->s;
    const struct session_try t = { .tok = s->tok + s->pos - x->behind, .pos = s->pos - x->behind, .n = x->behind };
    if (!x->behind)
        return 0;
    x->behind = 0;
    int rc = engine_back_to_state(s->eng, NULL);
    return rc ? rc : session_try(s, &t, NULL, NULL, NULL);
}

/* No step of its own is under way any more, and the session is what it says: an ended generation has nothing to do with the engine,
 * which may be another thread's. */
static void settle(struct generation *x)
{
    int32_t unread;
    if (x->s && catch_up(x))
        session_reset(x->s); /* the device failed */
    if (!x->up.n_out)
        return;
    engine_unwatch(x->s->eng, &x->up);
    engine_land(x->s->eng, &x->up, &unread, NULL);
    x->up.n_out = 0;
}

void generation_destroy(struct generation *x)
{
    if (x) {
        settle(x);
        draft_destroy(x->draft);
        gen_destroy(x->g);
    }
    free(x);
}

const struct gen_result *generation_result(const struct generation *x)
{
    return &x->g->r;
}

static int evaluate_prompt(struct generation *x, struct err *e)
{
    struct gen_result *r = &x->g->r;
    uint64_t t0 = clock_ns();
    session_set_prompt(x->s, true);
    int rc = evaluate(x->s, x->g, x->prompt, x->n_prompt, &x->last, e);
    session_set_prompt(x->s, false);
    x->prompt = NULL;
    r->prompt_ns = clock_ns() - t0;
    if (rc)
        r->reason = rc == -ECANCELED ? GEN_CANCELLED : GEN_FAILED;
    return rc;
}

/* ---- with a step in flight, as the scheduler does (engine/serve/sched_ahead.c) ---- */

/* A state that cannot go back: neither from a token that was refused nor for logits that a later step wrote over. */
static bool may_fly(const struct generation *x, ka_sample *how)
{
    const struct engine *eng = x->s->eng;
    bool back = !eng->info.recurrent;
    return engine_flies(eng) && (back || !x->g->o.fingerprint) && gen_flies(x->g, back, how);
}

/* The newest token of the session once more, for its logits. */
static int evaluate_again(struct generation *x, struct err *e)
{
    struct session *s = x->s;
    int32_t tok = s->tok[s->pos - 1];
    engine_unwatch(s->eng, &x->up);
    int rc = session_truncate(s, s->pos - 1, e);
    x->up.n_out = 0;
    x->last = (struct outcome){ 0 };
    return rc ? rc : session_eval(s, &tok, 1, &x->last.logits, e);
}

/* on: also the step behind the newest token's. */
static int evaluate_in_flight(struct generation *x, ka_sample behind_how, bool on, struct err *e)
{
    struct session *s = x->s;
    struct engine *eng = s->eng;
    struct engine_flight behind = { 0 };
    ka_sample how;
    int32_t chosen;
    int rc = 0;
    engine_unwatch(eng, &x->up);
    if (!x->up.n_out && (rc = session_check(s, &x->id, 1, e)) == 0) {
        gen_device(x->g, &how);
        if ((rc = session_submit(s, x->id, s->pos, how, &x->up, e)) == 0)
            s->tok[s->pos++] = x->id;
    }
    if (!rc && on && gen_left(x->g) >= 2 && s->pos < eng->info.n_ctx && eng->last.point == x->up.point && !session_cancelled(s))
        rc = session_submit(s, -1, s->pos, behind_how, &behind, e);
    if (!rc)
        rc = engine_land(eng, &x->up, &chosen, e);
    x->up = behind;
    if (rc)
        return rc;
    if (behind.n_out && gen_refuses(x->g, chosen))
        return evaluate_again(x, e);
    if (behind.n_out && chosen >= 0)
        s->tok[s->pos++] = chosen;
    if (behind.n_out)
        engine_watch(eng, &x->up);
    x->last = (struct outcome){ .chosen = true, .next = chosen };
    return 0;
}

/* ---- with guesses behind the newest token ---- */

/* What comes after the newest token, in x->guess from 1 on; 0: nothing is worth a try. */
static uint32_t guess(struct generation *x)
{
    const struct engine *eng = x->s->eng;
    uint32_t pos = x->s->pos + !x->up.n_out, left = gen_left(x->g);
    if (!x->draft || pos >= eng->info.n_ctx || left < 2)
        return 0;
    uint32_t rows = engine_draft_rows(eng) - 1 - x->behind;
    const struct draft_step step = { .again = x->behind, .most = MIN(MIN(rows, x->g->o.n_draft), MIN(eng->info.n_ctx - pos, left - 1)) };
    struct grammar_limit l = { .steps = GRAMMAR_GUESS_STEPS };
    return gen_allows(x->g, x->guess + 1, draft_guess(x->draft, &eng->few, &step, x->guess + 1), &l);
}

/* What the step of the guess leaves for the choice after its row i. */
static struct outcome outcome_of(const struct generation *x, uint32_t i)
{
    return (struct outcome){ .row = i, .chosen = !x->logits, .next = x->logits ? -1 : x->next[i],
                             .logits = x->logits ? x->logits + (size_t)i * x->s->eng->info.n_vocab : NULL };
}

static int evaluate_guess(struct generation *x, uint32_t n, struct err *e)
{
    ka_sample how[DRAFT_MOST + 1] = { { 0 } };
    int32_t tok[2 * DRAFT_MOST + 2];
    struct session *s = x->s;
    uint32_t again = x->behind;
    const struct session_try t = { .tok = tok, .pos = s->pos - again, .n = again + 1 + n, .n_out = 1 + n, .how = how };
    bool on_device = gen_device(x->g, &how[0]) && !x->g->o.want_logits;
    for (uint32_t i = 1; i <= n && on_device; i++) {
        how[i] = how[i - 1];
        how[i].counter += how[i].temp > 0;
    }
    x->guess[0] = x->id;
    x->logits = NULL;
    memcpy(tok, s->tok + t.pos, again * sizeof *tok);
    memcpy(tok + again, x->guess, (1 + n) * sizeof *tok);
    int rc = again ? engine_back_to_state(s->eng, e) : engine_keep_state(s->eng, e);
    if (rc || (rc = session_try(s, &t, on_device ? x->next : NULL, &x->logits, e)))
        return rc;
    s->tok[s->pos++] = x->id;
    x->tried = true;
    x->n_guess = n;
    gen_tell_guess(x->g, n, 0);
    x->last = outcome_of(x, 0);
    return 0;
}

/* The token that was chosen is the one that was guessed, and evaluated: on to what was chosen after it. */
static bool guess_holds(struct generation *x)
{
    uint32_t i = x->last.row;
    if (i >= x->n_guess || x->id != x->guess[i + 1] || (x->last.chosen && x->id != x->last.next))
        return false;
    x->s->tok[x->s->pos++] = x->id;
    x->g->r.n_decoded++;
    gen_tell_guess(x->g, 0, 1);
    x->last = outcome_of(x, i + 1);
    return true;
}

/* A state that has more than what turned out to be right goes back before the next step. */
static void judge_guess(struct generation *x)
{
    uint32_t right = x->last.row;
    if (x->n_guess)
        draft_tell(x->draft, x->n_guess, right);
    if (x->tried && x->s->eng->info.recurrent)
        x->behind = right == x->n_guess ? 0 : x->behind + 1 + right;
}

/* With n guesses behind it. */
static int evaluate_newest(struct generation *x, uint32_t n, struct err *e)
{
    ka_sample how;
    x->n_guess = 0;
    x->tried = false;
    if ((n || x->behind) && !x->up.n_out)
        return evaluate_guess(x, n, e);
    return may_fly(x, &how) ? evaluate_in_flight(x, how, !n, e) : evaluate(x->s, x->g, &x->id, 1, &x->last, e);
}

static int evaluate_token(struct generation *x, struct err *e)
{
    const struct tier_stats *stats = &x->s->eng->tier->stats;
    struct gen_result *r = &x->g->r;
    uint64_t t0 = clock_ns(), bytes = stats->bytes, rows = stats->rows;
    uint32_t n = guess(x); /* a grammar may have to look further than before */
    alloc_guard_begin("decode");
    int rc = evaluate_newest(x, n, e);
    alloc_guard_end();
    if (rc)
        return rc;
    uint64_t ns = clock_ns() - t0;
    if (x->draft)
        draft_cost_learn(&x->s->eng->few, x->tried ? (uint32_t)(stats->rows - rows) : 1, (double)ns);
    r->decode_ns += ns;
    r->decode_bytes += stats->bytes - bytes;
    r->n_decoded++;
    return 0;
}

static int finish(struct generation *x, int rc, struct err *e)
{
    struct gen_result *r = &x->g->r;
    if (r->reason == GEN_RUNNING)
        r->reason = GEN_FAILED;
    if (rc < 0 || !x->g->o.fingerprint) {
        settle(x);
        return rc;
    }
    if (x->up.n_out) { /* the logits are the newest token's, the answer's last ones those before */
        x->s->pos--;
        rc = evaluate_again(x, e);
    } else if (!x->last.logits) {
        rc = engine_last_logits(x->s->eng, x->last.row, &x->last.logits, e);
    }
    if (rc >= 0)
        r->fingerprint = engine_fingerprint(x->s->eng, x->last.logits);
    settle(x);
    return rc;
}

int generation_step(struct generation *x, struct err *e)
{
    if (x->g->r.reason != GEN_RUNNING)
        return 0;
    bool prompt = x->prompt;
    int rc = prompt ? evaluate_prompt(x, e) : evaluate_token(x, e);
    if (rc)
        return prompt ? rc : finish(x, rc, e);
    do {
        rc = prepare_and_choose(x->s, x->g, &x->last, &x->id, e);
        if (rc == 1 && x->s->pos - (x->up.n_out > 0) >= x->s->eng->info.n_ctx)
            rc = gen_end(x->g, GEN_CONTEXT, e);
        else if (rc == 1 && session_cancelled(x->s))
            rc = gen_end(x->g, GEN_CANCELLED, e);
        if (rc == 1 && x->draft)
            draft_add(x->draft, &x->id, 1);
    } while (rc == 1 && guess_holds(x));
    judge_guess(x);
    return rc == 1 ? 1 : finish(x, rc, e);
}

int generation_cancel(struct generation *x, struct err *e)
{
    settle(x);
    return x->g->r.reason == GEN_RUNNING ? gen_end(x->g, GEN_CANCELLED, e) : 0;
}

int generate(struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n, struct gen_result *r,
             struct err *e)
{
    struct generation *x;
    *r = (struct gen_result){ 0 };
    int rc = generation_begin(s, o, prompt, n, &x, e);
    if (rc)
        return rc;
    while ((rc = generation_step(x, e)) == 1)
        ;
    *r = *generation_result(x);
    generation_destroy(x);
    return rc;
}
