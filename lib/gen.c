/* Generations: the engine's steps as a sequence of pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "lib/priv.h"

/* A piece in the making, in gen.text: name and text, each with a NUL. */
struct part {
    int32_t kind;
    size_t name, at, n;
    bool complete;
};

struct zinc_gen {
    zinc_session *s;
    zinc_chat *chat;         /* whose answer it is, or NULL               */
    struct generation *x;    /* without a chat                            */
    struct answer *answer;   /* ZINC_GEN_ANSWER, without a chat           */
    int32_t *prompt;
    struct tok_ids tokens;   /* chosen                                    */
    struct part *part;       /* [n_part], of which the caller has had next */
    size_t n_part, cap_part, next;
    struct tok_buf text;
    zinc_progress_fn progress;
    void *progress_user;
    struct gen_result r;
    uint32_t seed;
    bool ended;
    int rc;                  /* how it ended                              */
    struct err err;
};

/* ---- pieces ---- */

static struct part *last_part(struct zinc_gen *g)
{
    return g->n_part ? &g->part[g->n_part - 1] : NULL;
}

static int begin_part(struct zinc_gen *g, int32_t kind, const char *name)
{
    if (g->n_part == g->cap_part) {
        size_t cap = g->cap_part ? 2 * g->cap_part : 8;
        struct part *p = realloc(g->part, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        g->part = p;
        g->cap_part = cap;
    }
    size_t at = g->text.n, n_name = strlen(name) + 1;
    if (tok_buf_add(&g->text, name, n_name) || tok_buf_add(&g->text, "", 1))
        return -ENOMEM;
    g->part[g->n_part++] = (struct part){ .kind = kind, .name = at, .at = at + n_name };
    return 0;
}

/* To the last part, whose NUL is at the end of the text. */
static int extend_part(struct zinc_gen *g, const char *text, size_t n)
{
    if (tok_buf_reserve(&g->text, n + 1))
        return -ENOMEM;
    g->text.n--;
    tok_buf_add(&g->text, text, n);
    tok_buf_add(&g->text, "", 1);
    last_part(g)->n += n;
    return 0;
}

static int put(struct zinc_gen *g, int32_t kind, const char *text, size_t n)
{
    struct part *p = last_part(g);
    int rc = p && p->kind == kind ? 0 : begin_part(g, kind, "");
    return rc ? rc : extend_part(g, text, n);
}

static int on_reasoning(void *user, const char *text, size_t n)
{
    return put(user, ZINC_PIECE_REASONING, text, n);
}

static int on_answer_text(void *user, const char *text, size_t n)
{
    return put(user, ZINC_PIECE_TEXT, text, n);
}

static int on_call_begin(void *user, uint32_t index, const char *name)
{
    (void)index;
    return begin_part(user, ZINC_PIECE_CALL, name);
}

static int on_call_arguments(void *user, uint32_t index, const char *json, size_t n)
{
    (void)index;
    return extend_part(user, json, n);
}

static int on_call_end(void *user, uint32_t index, bool complete)
{
    (void)index;
    last_part(user)->complete = complete;
    return 0;
}

static int on_part(void *user, enum answer_part part, const char *text, size_t n)
{
    return put(user, part == ANSWER_PART_REASONING ? ZINC_PIECE_REASONING : ZINC_PIECE_TEXT, text, n);
}

static int on_text(void *user, const char *text, size_t n)
{
    struct zinc_gen *g = user;
    return g->answer ? answer_put(g->answer, text, n) : put(g, ZINC_PIECE_TEXT, text, n);
}

static int on_token(void *user, int32_t id, const float *logits)
{
    return tok_ids_push(&((struct zinc_gen *)user)->tokens, id);
}

/* ---- options ---- */

static int check_opts(const zinc_gen_opts *o, struct err *e)
{
    enum { KNOWN = ZINC_GEN_IGNORE_END | ZINC_GEN_SHOW_SPECIAL | ZINC_GEN_ANSWER | ZINC_GEN_CONTINUE };
    if (o->flags & ~(uint32_t)KNOWN)
        return err_set(e, -EINVAL, "libzinc: zinc_gen_opts.flags has 0x%x, which this version does not know",
                       o->flags & ~(uint32_t)KNOWN);
    if (o->draft > DRAFT_MOST)
        return err_set(e, -EINVAL, "libzinc: zinc_gen_opts.draft is %u, expected 0 to %d", o->draft, (int)DRAFT_MOST);
    if (o->n_stop && !o->stop)
        return err_set(e, -EINVAL, "libzinc: zinc_gen_opts.stop is NULL");
    for (uint32_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !o->stop[i][0])
            return err_set(e, -EINVAL, "libzinc: stop %u is empty, which would end every answer before it begins", i);
    if (o->json_schema && o->grammar)
        return err_set(e, -EINVAL, "libzinc: json_schema and grammar exclude each other");
    if (o->flags & ZINC_GEN_CONTINUE && (o->json_schema || o->grammar || o->tools))
        return err_set(e, -EINVAL,
                       "libzinc: ZINC_GEN_CONTINUE with json_schema, grammar or tools: they constrain an answer from "
                       "its beginning");
    if (o->think_tokens > INT32_MAX)
        return err_set(e, -EINVAL, "libzinc: zinc_gen_opts.think_tokens is %u", o->think_tokens);
    return 0;
}

/* The grammar of a whole answer with its reasoning and calls. */
static int answer_rules(zinc_model *m, const zinc_gen_opts *o, int think, struct tok_buf *out, struct err *e)
{
    const char *c = o->tool_choice;
    struct answer_rules r = { .think = think,
                              .schema = o->json_schema ? o->json_schema : o->grammar,
                              .format = o->json_schema ? ANSWER_JSON_SCHEMA
                                        : o->grammar   ? ANSWER_GRAMMAR
                                                       : ANSWER_ANY,
                              .tools = o->tools,
                              .named = c,
                              .parallel = true,
                              .choice = !c || !strcmp(c, "auto") ? ANSWER_TOOLS_AUTO
                                        : !strcmp(c, "none")     ? ANSWER_TOOLS_NONE
                                        : !strcmp(c, "required") ? ANSWER_TOOLS_REQUIRED
                                                                 : ANSWER_TOOLS_NAMED };
    return answer_grammar(engine_chat_template(m->eng), &r, out, e);
}

static int make_grammar(zinc_model *m, const zinc_gen_opts *o, bool answer, int think, struct grammar **out,
                        struct err *e)
{
    const struct vocab_index *v;
    struct tok_buf text = { 0 };
    int rc = 0;
    *out = NULL;
    if (!o->json_schema && !o->grammar && !(answer && o->tools))
        return 0;
    if ((rc = engine_vocab(m->eng, &v, e)))
        return rc;
    if (!answer)
        return o->json_schema ? grammar_from_schema(v, o->json_schema, strlen(o->json_schema), out, e)
                              : grammar_from_gbnf(v, o->grammar, strlen(o->grammar), out, e);
    rc = answer_rules(m, o, think, &text, e);
    if (!rc && text.n)
        rc = grammar_from_gbnf(v, text.s, text.n, out, e);
    tok_buf_finish(&text);
    return rc;
}

/* The answer begins in the middle: the parser reads how the model came there, with a letter for what was said, since
 * white space at a beginning is not passed on. */
static int resume(struct zinc_gen *g, int think, struct err *e)
{
    const char *before = engine_chat_resume(g->s->m->eng, think);
    if (answer_put(g->answer, before, strlen(before)) || answer_put(g->answer, "x", 1))
        return err_set(e, -ENOMEM, "libzinc: out of memory for the answer");
    g->n_part = g->text.n = 0;
    return 0;
}

static int make_answer(struct zinc_gen *g, const zinc_gen_opts *o, int think, struct err *e)
{
    static const struct answer_sink sink = { .reasoning = on_reasoning,
                                             .text = on_answer_text,
                                             .call_begin = on_call_begin,
                                             .call_arguments = on_call_arguments,
                                             .call_end = on_call_end };
    const struct engine *eng = g->s->m->eng;
    const char *c = o->tool_choice;
    struct answer_opts as = { .think = think,
                              .tools = o->tools && (!c || strcmp(c, "none") != 0) ? o->tools : NULL,
                              .forced_call = o->tools && c && strcmp(c, "auto") != 0 && strcmp(c, "none") != 0 };
    int rc = answer_create(engine_chat_template(eng), &as, &sink, g, &g->answer, e);
    return rc || !(o->flags & ZINC_GEN_CONTINUE) ? rc : resume(g, think, e);
}

/* ---- its life ---- */

static int begin(struct zinc_gen *g, const int32_t *tokens, size_t n, const char *text, const zinc_gen_opts *o,
                 struct err *e)
{
    zinc_session *s = g->s;
    const struct engine *eng = s->m->eng;
    struct logit_bias *bias = NULL;
    struct grammar *grammar = NULL;
    bool answer = g->chat || o->flags & ZINC_GEN_ANSWER, thinks = answer && !(o->flags & ZINC_GEN_CONTINUE);
    struct gen_opts go = { .n_max = o->max_tokens,
                           .ignore_eos = o->flags & ZINC_GEN_IGNORE_END,
                           .show_special = answer || o->flags & ZINC_GEN_SHOW_SPECIAL,
                           .stop = o->stop,
                           .n_stop = o->n_stop,
                           .n_draft = o->draft,
                           .chat = thinks ? engine_chat_template(eng) : NULL,
                           .on_text = on_text,
                           .on_token = on_token,
                           .user = g,
                           .think_budget = o->think_tokens ? (int32_t)o->think_tokens : -1 };
    int rc = think_of(o->think, &go.think, e);
    if (g->chat)
        go.think = g->chat->think;
    if (rc || (rc = sampling_take(s->m, o, &go.sampling, &bias, e)) ||
        (rc = make_grammar(s->m, o, answer, go.think, &grammar, e)) ||
        (answer && !g->chat && (rc = make_answer(g, o, go.think, e)))) {
        free(bias);
        grammar_unref(grammar);
        return rc;
    }
    go.grammar = grammar;
    g->seed = go.sampling.seed;
    turn_take(&s->m->turn);
    if (g->chat) {
        rc = dialog_begin(g->chat->d, text, &go, on_part, g, e);
    } else {
        memcpy(g->prompt, tokens, n * sizeof *tokens);
        rc = generation_begin(s->s, &go, g->prompt, (uint32_t)n, &g->x, e);
    }
    turn_give(&s->m->turn);
    free(bias);
    grammar_unref(grammar);
    return rc;
}

static void destroy(struct zinc_gen *g)
{
    generation_destroy(g->x);
    answer_destroy(g->answer);
    free(g->prompt);
    tok_ids_finish(&g->tokens);
    free(g->part);
    tok_buf_finish(&g->text);
    free(g);
}

/* Does the prompt fit an empty session? */
static int check_prompt(zinc_session *s, const int32_t *tokens, size_t n, struct err *e)
{
    const struct engine_info *in = engine_info(s->m->eng);
    if (!tokens || !n)
        return err_set(e, -EINVAL, "libzinc: the prompt has no tokens");
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= in->n_vocab)
            return err_set(e, -EINVAL, "libzinc: token %d at %zu is not in the vocabulary of %u", tokens[i], i,
                           in->n_vocab);
    if (n > in->n_ctx)
        return err_set(e, -E2BIG,
                       "libzinc: a prompt of %zu tokens does not fit the context of %u (zinc_model_opts.context)", n,
                       in->n_ctx);
    return 0;
}

int gen_open(zinc_session *s, zinc_chat *c, const int32_t *tokens, size_t n, const char *text,
             const zinc_gen_opts *given, zinc_gen **out, struct err *e)
{
    zinc_gen_opts o;
    int rc = session_unheld(s, c, e);
    if (rc || (rc = STRUCT_TAKE(&o, given, progress_user, e)) || (rc = check_opts(&o, e)) ||
        (!c && (rc = check_prompt(s, tokens, n, e))))
        return rc;
    if (c) {
        o.tools = NULL;
        o.flags &= (uint32_t)~(ZINC_GEN_ANSWER | ZINC_GEN_CONTINUE);
        o.think = 0;
    }
    struct zinc_gen *g = calloc(1, sizeof *g);
    if (!g || (!c && !(g->prompt = malloc(n * sizeof *tokens)))) {
        free(g);
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    }
    g->s = s;
    g->chat = c;
    g->progress = o.progress;
    g->progress_user = o.progress_user;
    if ((rc = begin(g, tokens, n, text, &o, e))) {
        destroy(g);
        return rc;
    }
    s->gen = g;
    session_use(s);
    if (c)
        chat_use(c);
    *out = g;
    return 0;
}

int zinc_generate(zinc_session *s, const int32_t *tokens, size_t n, const zinc_gen_opts *o, zinc_gen **out,
                  zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = out ? session_enter(s, &sc, &own) : err_set(&own, -EINVAL, "libzinc: zinc_generate: out is NULL");
    if (!rc) {
        rc = gen_open(s, NULL, tokens, n, NULL, o, out, &own);
        session_leave(s, &sc);
    }
    return done(rc, &own, e);
}

static void end(struct zinc_gen *g, int rc, struct err *e)
{
    if (g->chat) {
        rc = dialog_end(g->chat->d, &g->r, e);
    } else {
        g->r = *generation_result(g->x);
        int rc_end = !rc && g->answer ? answer_end(g->answer) : 0;
        if (rc_end)
            rc = err_set(e, rc_end, "libzinc: out of memory for the answer");
    }
    if (rc)
        g->r.reason = rc == -ECANCELED ? GEN_CANCELLED : GEN_FAILED;
    if (g->r.reason == GEN_CANCELLED)
        session_report(g->s, -ECANCELED);
    g->rc = rc;
    g->ended = true;
    g->s->gen = NULL;
}

/* One step, or the end. */
static void advance(struct zinc_gen *g)
{
    zinc_session *s = g->s;
    struct err *e = &g->err;
    s->fn = g->progress;
    s->fn_user = g->progress_user;
    turn_take(&s->m->turn);
    int rc;
    if (flag_is_set(&s->cancel))
        rc = g->chat ? dialog_cancel(g->chat->d, e) : generation_cancel(g->x, e);
    else
        rc = g->chat ? dialog_step(g->chat->d, e) : generation_step(g->x, e);
    if (rc != 1)
        end(g, rc, e);
    turn_give(&s->m->turn);
    s->fn = NULL;
}

/* 1: *p is the next piece; 0: there is none; negative. */
static int next_part(struct zinc_gen *g, struct part *p, struct err *e)
{
    if (g->next == g->n_part)
        g->next = g->n_part = g->text.n = 0;
    while (!g->n_part && !g->ended)
        advance(g);
    if (g->next < g->n_part) {
        *p = g->part[g->next++];
        return 1;
    }
    *e = g->err;
    return g->rc;
}

int zinc_gen_next(zinc_gen *g, zinc_piece *piece, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    struct part p = { 0 };
    if (!g || !piece)
        return done(err_set(&own, -EINVAL, "libzinc: zinc_gen_next: %s is NULL", g ? "piece" : "the generation"),
                    &own, e);
    int rc = session_enter(g->s, &sc, &own);
    if (rc)
        return done(rc, &own, e);
    zinc_piece v = { 0 };
    if (!(rc = struct_give(&v, sizeof v, piece, "piece", &own)) && (rc = next_part(g, &p, &own)) == 1) {
        v = (zinc_piece){ .text = g->text.s + p.at,
                          .n_text = p.n,
                          .kind = p.kind,
                          .complete = p.complete,
                          .name = p.kind == ZINC_PIECE_CALL ? g->text.s + p.name : NULL };
        struct_give(&v, sizeof v, piece, "piece", &own);
    }
    session_leave(g->s, &sc);
    return done(rc, &own, e);
}

int zinc_gen_info_get(zinc_gen *g, zinc_gen_info *info, zinc_error *e)
{
    struct err own = { 0 };
    struct scope sc;
    int rc = g ? session_enter(g->s, &sc, &own)
               : err_set(&own, -EINVAL, "libzinc: zinc_gen_info_get: the generation is NULL");
    if (rc)
        return done(rc, &own, e);
    const struct gen_result *r = g->ended ? &g->r : g->chat ? dialog_result(g->chat->d) : generation_result(g->x);
    zinc_gen_info i = { .tokens = g->tokens.id,
                        .n_tokens = (uint32_t)g->tokens.n,
                        .n_prompt = r->n_prompt,
                        .n_reused = r->n_reused,
                        .n_thought = r->n_thought,
                        .end = (int32_t)r->reason,
                        .stop_index = r->stop_index,
                        .seed = g->seed,
                        .prompt_ns = r->prompt_ns,
                        .decode_ns = r->decode_ns };
    rc = struct_give(&i, sizeof i, info, "info", &own);
    session_leave(g->s, &sc);
    return done(rc, &own, e);
}

_Static_assert((int)GEN_RUNNING == ZINC_END_RUNNING && (int)GEN_EOG == ZINC_END_STOP &&
                   (int)GEN_STOP_STRING == ZINC_END_STOP_TEXT && (int)GEN_LENGTH == ZINC_END_LENGTH &&
                   (int)GEN_CONTEXT == ZINC_END_CONTEXT && (int)GEN_CANCELLED == ZINC_END_CANCELLED &&
                   (int)GEN_FAILED == ZINC_END_ERROR,
               "ends are passed through");

void zinc_gen_close(zinc_gen *g)
{
    if (!g)
        return;
    zinc_session *s = g->s;
    zinc_chat *c = g->chat;
    struct scope sc = scope_enter(s->m);
    if (!g->ended) {
        turn_take(&s->m->turn);
        int rc = c ? dialog_cancel(c->d, &g->err) : generation_cancel(g->x, &g->err);
        end(g, rc, &g->err);
        turn_give(&s->m->turn);
    }
    destroy(g);
    scope_leave(&sc);
    if (c)
        chat_release(c);
    session_release(s);
}
