#include "engine/generate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "engine/priv.h"
#include "model/tok.h"

enum { TEXT_RESERVE = 4096 };

/* Where the answer stands with its reasoning, and the words that end it. */
enum think_state { THINK_NOT_YET, THINK_IN, THINK_OVER };
struct think {
    enum think_state state;
    char *begin, *end;
    char tail[64];            /* the newest text, to find marks that span tokens */
    size_t n_tail;
    int32_t *stop;            /* [n_stop] tokens that end it; NULL: no limit     */
    uint32_t n_stop, at_stop; /* at_stop: the next one to say; 0: not yet        */
    int32_t budget;
};

struct gen {
    const struct engine *eng;
    struct gen_opts o;
    struct sampler *sampler;
    bool on_device;        /* the streams can choose tokens as the sampler wants it                      */
    struct tok_stream text;
    struct tok_buf piece;  /* bytes of the newest token                                          */
    struct tok_buf held;   /* text that may be the start of a stop string, then the newest piece */
    char **stop;
    size_t *stop_len;
    uint32_t n_stop;
    struct grammar_state *grammar;
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

static int copy_stops(struct gen *g, const struct gen_opts *o)
{
    g->stop = calloc(o->n_stop + 1, sizeof *g->stop);
    g->stop_len = calloc(o->n_stop + 1, sizeof *g->stop_len);
    if (!g->stop || !g->stop_len)
        return -ENOMEM;
    for (uint32_t i = 0; i < o->n_stop; i++) {
        if (!o->stop[i][0])
            continue;
        if (!(g->stop[g->n_stop] = strdup(o->stop[i])))
            return -ENOMEM;
        g->stop_len[g->n_stop] = strlen(o->stop[i]);
        g->n_stop++;
    }
    return 0;
}

static int init_think(struct gen *g, const struct gen_opts *o, struct err *e)
{
    struct think *t = &g->think;
    t->state = !o->think_end ? THINK_OVER : o->think_opened ? THINK_IN : THINK_NOT_YET;
    t->budget = o->think_budget;
    if (!o->think_end)
        return 0;
    t->begin = strdup(o->think_begin ? o->think_begin : "");
    t->end = strdup(o->think_end);
    if (!t->begin || !t->end)
        return err_set(e, -ENOMEM, "engine: out of memory");
    if (strlen(t->begin) >= sizeof t->tail / 2 || strlen(t->end) >= sizeof t->tail / 2)
        return err_set(e, -EINVAL, "engine: marks of reasoning longer than %zu bytes", sizeof t->tail / 2);
    if (!o->think_stop || o->think_budget < 0)
        return 0;
    return engine_encode(g->eng, o->think_stop, strlen(o->think_stop), ENGINE_PARSE_SPECIAL, &t->stop, &t->n_stop, e);
}

/* Does the stream choose next tokens as its steps say? Files may hold streams that only know the largest logit. */
static bool stream_chooses(const struct stream *s)
{
    uint32_t last = s && s->h.n_cmds ? s->h.n_cmds - 1 : 0;
    return s && s->h.n_cmds && s->cmds[last].op == CMD_ARGMAX && ((const ka_argmax *)stream_args(s, last))->sample;
}

int gen_create(const struct engine *eng, const struct gen_opts *o, struct gen **out, struct err *e)
{
    struct gen *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, -ENOMEM, "engine: out of memory");
    g->eng = eng;
    g->o = *o;
    g->on_device = stream_chooses(eng->decode.s) && stream_chooses(eng->prefill.s);
    int rc = engine_sampler(eng, &o->sampling, o->ignore_eos, &g->sampler, e);
    if (!rc)
        rc = init_think(g, o, e);
    if (!rc && o->grammar)
        rc = grammar_state_create(o->grammar, &g->grammar, e);
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
    for (uint32_t i = 0; i < g->n_stop; i++)
        free(g->stop[i]);
    free(g->stop);
    free(g->stop_len);
    grammar_state_destroy(g->grammar);
    free(g->think.begin);
    free(g->think.end);
    free(g->think.stop);
    free(g);
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

/* Looks for the first stop string in the held text. When there is none, *keep is how many bytes at the end may be the
 * beginning of one. */
static bool find_stop(const struct gen *g, size_t *at, uint32_t *which, size_t *keep)
{
    bool found = false;
    *keep = 0;
    for (uint32_t i = 0; i < g->n_stop; i++) {
        const char *hit = g->held.n ? memmem(g->held.s, g->held.n, g->stop[i], g->stop_len[i]) : NULL;
        if (hit && (!found || (size_t)(hit - g->held.s) < *at)) {
            found = true;
            *at = (size_t)(hit - g->held.s);
            *which = i;
        }
        for (size_t n = MIN(g->stop_len[i] - 1, g->held.n); n > *keep; n--)
            if (memcmp(g->held.s + g->held.n - n, g->stop[i], n) == 0)
                *keep = n;
    }
    return found;
}

/* Appends the token's text and passes on what is certain. */
static int put_text(struct gen *g, int32_t id, struct err *e)
{
    g->piece.n = 0;
    int rc = tok_piece(g->eng->tok, id, g->text.flags, &g->piece, e);
    if (rc || (rc = tok_stream_bytes(&g->text, g->piece.s, g->piece.n, &g->held, e)))
        return rc;
    size_t at, keep;
    uint32_t which;
    if (find_stop(g, &at, &which, &keep)) {
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

/* Follows the reasoning through the newest piece of text. */
static void follow_think(struct gen *g)
{
    struct think *t = &g->think;
    if (t->state == THINK_OVER)
        return;
    bool thinks = t->state == THINK_IN;
    for (size_t i = 0; i < g->piece.n && t->state != THINK_OVER; i++) {
        if (t->state == THINK_NOT_YET && !t->n_tail && isspace((unsigned char)g->piece.s[i]))
            continue;
        if (t->n_tail == sizeof t->tail) {
            memmove(t->tail, t->tail + sizeof t->tail / 2, sizeof t->tail / 2);
            t->n_tail = sizeof t->tail / 2;
        }
        t->tail[t->n_tail++] = g->piece.s[i];
        const char *mark = t->state == THINK_IN ? t->end : t->begin;
        size_t n = strlen(mark);
        if (t->n_tail >= n && memcmp(t->tail + t->n_tail - n, mark, n) == 0) {
            t->state = t->state == THINK_IN ? THINK_OVER : THINK_IN;
            t->n_tail = 0;
            thinks = true;
        } else if (t->state == THINK_NOT_YET && t->n_tail > n) {
            t->state = THINK_OVER; /* an answer without reasoning */
        }
    }
    if (thinks)
        g->r.n_thought = g->r.n_tokens;
}

/* The token that has to come now, because the reasoning has used up its budget; -1: the model is free. */
static int32_t forced_token(struct gen *g)
{
    struct think *t = &g->think;
    if (!t->stop || (!t->at_stop && (t->state != THINK_IN || g->r.n_tokens < (uint32_t)t->budget)))
        return -1;
    return t->at_stop < t->n_stop ? t->stop[t->at_stop++] : -1;
}

/* Takes the token into the grammar: -1 where it has no place there. */
static int32_t within_grammar(struct gen *g, int32_t t)
{
    return t >= 0 && g->grammar && grammar_state_accept(g->grammar, t) ? -1 : t;
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
    follow_think(g);
    if (g->r.reason == GEN_RUNNING && g->o.n_max && g->r.n_tokens >= g->o.n_max)
        return gen_end(g, GEN_LENGTH, e);
    return g->r.reason == GEN_RUNNING;
}

int gen_next(struct gen *g, const float *logits, int32_t *id, struct err *e)
{
    if (g->r.reason != GEN_RUNNING)
        return 0;
    int32_t t = within_grammar(g, forced_token(g));
    if (t < 0) {
        const uint64_t *mask = g->grammar ? grammar_state_mask(g->grammar) : NULL;
        if (g->grammar && !mask)
            return err_set(e, -ENOMEM, "engine: out of memory for the grammar's tokens");
        sampler_set_mask(g->sampler, mask);
        alloc_guard_begin("sample");
        t = sampler_choose(g->sampler, logits);
        alloc_guard_end();
        t = within_grammar(g, t);
    }
    return take(g, t, logits, id, e);
}

bool gen_device(const struct gen *g, ka_sample *how)
{
    return sampler_device(g->sampler, how) && g->on_device && !g->grammar;
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

static int choose_next(struct gen *g, const struct outcome *o, int32_t *id, struct err *e)
{
    return o->chosen ? gen_next_chosen(g, o->next, o->logits, id, e) : gen_next(g, o->logits, id, e);
}

/* The token loop: choose, evaluate, until an end. *o: of the prompt. */
static int decode(struct session *s, struct gen *g, struct outcome *o, struct err *e)
{
    struct engine *eng = s->eng;
    int32_t id;
    uint64_t bytes = eng->tier->stats.bytes;
    int rc;
    while ((rc = choose_next(g, o, &id, e)) == 1) {
        if (s->pos >= eng->info.n_ctx) {
            rc = gen_end(g, GEN_CONTEXT, e);
            break;
        }
        if (s->cancel && *s->cancel) {
            rc = gen_end(g, GEN_CANCELLED, e);
            break;
        }
        uint64_t t0 = clock_ns();
        alloc_guard_begin("decode");
        rc = evaluate(s, g, &id, 1, o, e);
        alloc_guard_end();
        if (rc)
            break;
        g->r.decode_ns += clock_ns() - t0;
        g->r.n_decoded++;
    }
    g->r.decode_bytes = eng->tier->stats.bytes - bytes;
    if (g->r.reason == GEN_RUNNING)
        g->r.reason = GEN_FAILED;
    if (rc >= 0 && !o->logits)
        rc = engine_last_logits(eng, &o->logits, e);
    if (rc >= 0)
        g->r.fingerprint = engine_fingerprint(eng, o->logits);
    return rc;
}

int generate(struct session *s, const struct gen_opts *o, const int32_t *prompt, uint32_t n, struct gen_result *r,
             struct err *e)
{
    *r = (struct gen_result){ 0 };
    struct gen *g;
    int rc = gen_create(s->eng, o, &g, e);
    if (rc)
        return rc;
    gen_prompt(g, prompt, n);
    uint32_t kept = session_keep_common(s, prompt, n);
    struct outcome first;
    uint64_t t0 = clock_ns();
    rc = evaluate(s, g, prompt + kept, n - kept, &first, e);
    g->r.prompt_ns = clock_ns() - t0;
    g->r.n_reused = kept;
    if (!rc)
        rc = decode(s, g, &first, e);
    else
        g->r.reason = rc == -ECANCELED ? GEN_CANCELLED : GEN_FAILED;
    *r = g->r;
    gen_destroy(g);
    return rc < 0 ? rc : 0;
}
