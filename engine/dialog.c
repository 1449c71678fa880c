#include "engine/dialog.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/ckd.h"
#include "engine/chat_text.h"
#include "engine/priv.h"
#include "model/tok.h"

struct dialog {
    struct session *s;
    struct engine_message *m;  /* texts are owned                                    */
    uint32_t n, cap;
    int think;
    int32_t pending;           /* chosen, but not evaluated, and no end token; or -1 */
    /* The turn in progress. */
    struct answer *answer;
    struct tok_buf part[2];    /* by enum answer_part */
    dialog_fn fn;
    void *user;
    int (*on_token)(void *user, int32_t id, const float *logits);
    void *on_token_user;
    struct generation *gen;    /* NULL: no turn is in progress */
    int32_t *prompt;
    uint32_t before;           /* messages */
    int failed;
    int32_t last;
};

static int no_memory(struct err *e)
{
    return err_set(e, -ENOMEM, "engine: out of memory for the conversation");
}

static int add_message(struct dialog *d, const char *role, const char *text, const char *reasoning, struct err *e)
{
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : 8;
        struct engine_message *m = realloc(d->m, cap * sizeof *m);
        if (!m)
            return no_memory(e);
        d->m = m;
        d->cap = cap;
    }
    char *t = strdup(text), *r = reasoning ? strdup(reasoning) : NULL;
    if (!t || (reasoning && !r)) {
        free(t);
        free(r);
        return no_memory(e);
    }
    d->m[d->n++] = (struct engine_message){ .role = role, .text = t, .reasoning = r };
    return 0;
}

static void drop_messages(struct dialog *d, uint32_t keep)
{
    while (d->n > keep) {
        d->n--;
        free((char *)d->m[d->n].text);
        free((char *)d->m[d->n].reasoning);
    }
}

/* The turn's own objects go. */
static void end_turn(struct dialog *d)
{
    generation_destroy(d->gen);
    answer_destroy(d->answer);
    free(d->prompt);
    d->gen = NULL;
    d->answer = NULL;
    d->prompt = NULL;
}

int dialog_create(struct session *s, const char *system, int think, struct dialog **out, struct err *e)
{
    struct dialog *d = calloc(1, sizeof *d);
    if (!d)
        return no_memory(e);
    d->s = s;
    d->think = think;
    int rc = dialog_reset(d, system, e);
    if (rc) {
        dialog_destroy(d);
        return rc;
    }
    *out = d;
    return 0;
}

void dialog_destroy(struct dialog *d)
{
    if (!d)
        return;
    end_turn(d);
    drop_messages(d, 0);
    free(d->m);
    tok_buf_finish(&d->part[0]);
    tok_buf_finish(&d->part[1]);
    free(d);
}

int dialog_reset(struct dialog *d, const char *system, struct err *e)
{
    char *copy = system ? strdup(system) : NULL; /* it may be one of our own texts */
    if (system && !copy)
        return no_memory(e);
    drop_messages(d, 0);
    session_reset(d->s);
    d->pending = -1;
    int rc = copy ? add_message(d, "system", copy, NULL, e) : 0;
    free(copy);
    return rc;
}

const char *dialog_system(const struct dialog *d)
{
    return d->n && strcmp(d->m[0].role, "system") == 0 ? d->m[0].text : NULL;
}

uint32_t dialog_n_messages(const struct dialog *d)
{
    return d->n;
}

const struct engine_message *dialog_message(const struct dialog *d, uint32_t i)
{
    CHECK(i < d->n);
    return &d->m[i];
}

void dialog_set_think(struct dialog *d, int think)
{
    d->think = think;
}

int dialog_undo(struct dialog *d, struct err *e)
{
    uint32_t first = dialog_system(d) ? 1 : 0;
    if (d->n < first + 2)
        return err_set(e, -ENOENT, "engine: the conversation has no turn to take back");
    drop_messages(d, d->n - 2);
    d->pending = -1;
    if (d->s->eng->info.recurrent) /* its state cannot go back: the next turn evaluates all of the conversation */
        session_reset(d->s);
    return 0;
}

int dialog_load(struct dialog *d, const struct engine_message *m, uint32_t n, struct err *e)
{
    static const char *const turn[] = { "user", "assistant" };
    uint32_t first = n && strcmp(m[0].role, "system") == 0 ? 1 : 0;
    for (uint32_t i = first; i < n; i++)
        if (strcmp(m[i].role, turn[(i - first) % 2]) != 0)
            return err_set(e, -EINVAL, "engine: message %u of the conversation is from '%.20s', expected %s", i + 1, m[i].role,
                           turn[(i - first) % 2]);
    if ((n - first) % 2)
        return err_set(e, -EINVAL, "engine: the conversation ends with a message that has no answer");
    int rc = dialog_reset(d, first ? m[0].text : NULL, e);
    for (uint32_t i = first; i < n && !rc; i++)
        rc = add_message(d, turn[(i - first) % 2], m[i].text, m[i].reasoning, e);
    return rc;
}

const char *dialog_answer(const struct dialog *d)
{
    return d->n && strcmp(d->m[d->n - 1].role, "assistant") == 0 ? d->m[d->n - 1].text : "";
}

/* The last place of a needle, NULL when there is none. */
static const char *find_last(const char *hay, size_t n, const char *needle, size_t k)
{
    for (size_t i = n >= k ? n - k + 1 : 0; k && i-- > 0;)
        if (memcmp(hay + i, needle, k) == 0)
            return hay + i;
    return NULL;
}

static void trim(const char **s, size_t *n)
{
    while (*n && strchr(" \t\r\n", **s))
        (*s)++, (*n)--;
    while (*n && strchr(" \t\r\n", (*s)[*n - 1]))
        (*n)--;
}

/* For recurrent models: what the session holds, then the text of the conversation from the end of the last answer on.
 * *n stays 0 where that cannot be told. */
static int prompt_by_appending(struct dialog *d, int32_t **ids, uint32_t *n, struct err *e)
{
    struct tok_buf text = { 0 };
    struct tok_spans plain = { 0 };
    struct tok_ids v = { 0 };
    int rc = engine_chat_text(d->s->eng, d->m, d->n, d->think, &text, &plain, e);
    if (rc) {
        tok_buf_finish(&text);
        tok_spans_finish(&plain);
        return rc;
    }
    const char *user = d->m[d->n - 1].text, *answer = d->m[d->n - 2].text;
    size_t n_user = strlen(user), n_answer = strlen(answer);
    trim(&user, &n_user);
    trim(&answer, &n_answer);
    const char *u = find_last(text.s, text.n, user, n_user);
    const char *a = u ? find_last(text.s, (size_t)(u - text.s), answer, n_answer) : NULL;
    if (a) {
        a += n_answer;
        for (uint32_t i = 0; i < d->s->pos && !rc; i++)
            rc = tok_ids_push(&v, d->s->tok[i]);
        if (!rc && d->pending >= 0)
            rc = tok_ids_push(&v, d->pending);
        tok_spans_skip(&plain, (size_t)(a - text.s));
        rc = rc ? no_memory(e)
                : tok_encode_marked(d->s->eng->tok, a, (size_t)(text.s + text.n - a), &plain, TOK_PARSE_SPECIAL, &v, e);
    }
    tok_buf_finish(&text);
    tok_spans_finish(&plain);
    if (rc) {
        tok_ids_finish(&v);
        return rc;
    }
    *ids = v.id;
    *n = (uint32_t)v.n;
    return 0;
}

static int make_prompt(struct dialog *d, int32_t **ids, uint32_t *n, struct err *e)
{
    *ids = NULL;
    *n = 0;
    if (d->s->eng->info.recurrent && d->n >= 2 && d->s->pos) {
        int rc = prompt_by_appending(d, ids, n, e);
        if (rc || *n)
            return rc;
    }
    return engine_chat(d->s->eng, d->m, d->n, d->think, ids, n, e);
}

static int keep_part(struct dialog *d, enum answer_part part, const char *text, size_t n)
{
    if (tok_buf_add(&d->part[part], text, n))
        return -ENOMEM;
    return d->fn ? d->fn(d->user, part, text, n) : 0;
}

static int keep_reasoning(void *user, const char *text, size_t n)
{
    return keep_part(user, ANSWER_PART_REASONING, text, n);
}

static int keep_text(void *user, const char *text, size_t n)
{
    return keep_part(user, ANSWER_PART_TEXT, text, n);
}

static int on_text(void *user, const char *text, size_t n)
{
    return answer_put(((struct dialog *)user)->answer, text, n);
}

static int on_token(void *user, int32_t id, const float *logits)
{
    struct dialog *d = user;
    d->last = id;
    return d->on_token ? d->on_token(d->on_token_user, id, logits) : 0;
}

/* The last token of the answer, when the model has not seen it and it belongs to the text. */
static int32_t pending_token(const struct dialog *d, const struct gen_result *r)
{
    return r->n_tokens > r->n_decoded && !engine_is_eog(d->s->eng, d->last) ? d->last : -1;
}

static int begin_answer(struct dialog *d, const struct gen_opts *o, struct err *e)
{
    static const struct answer_sink sink = { .reasoning = keep_reasoning, .text = keep_text };
    const struct answer_opts as = { .think = d->think };
    struct gen_opts own = *o;
    own.show_special = true; /* the marks may be control tokens */
    own.on_text = on_text;
    own.on_token = on_token;
    own.user = d;
    d->on_token = o->on_token;
    d->on_token_user = o->user;
    d->part[0].n = d->part[1].n = 0;
    uint32_t n;
    int rc = make_prompt(d, &d->prompt, &n, e);
    if (!rc)
        rc = answer_create(&d->s->eng->chat, &as, &sink, d, &d->answer, e);
    return rc ? rc : generation_begin(d->s, &own, d->prompt, n, &d->gen, e);
}

int dialog_begin(struct dialog *d, const char *text, const struct gen_opts *o, dialog_fn fn, void *user, struct err *e)
{
    CHECK(!d->gen);
    d->fn = fn;
    d->user = user;
    d->before = d->n;
    int rc = add_message(d, "user", text, NULL, e);
    if (!rc)
        rc = begin_answer(d, o, e);
    if (rc) {
        end_turn(d);
        drop_messages(d, d->before);
    }
    return rc;
}

int dialog_step(struct dialog *d, struct err *e)
{
    int rc = generation_step(d->gen, e);
    if (rc < 0)
        d->failed = rc;
    return rc;
}

int dialog_cancel(struct dialog *d, struct err *e)
{
    int rc = generation_cancel(d->gen, e);
    if (rc)
        d->failed = rc;
    return rc;
}

const struct gen_result *dialog_result(const struct dialog *d)
{
    return generation_result(d->gen);
}

int dialog_end(struct dialog *d, struct gen_result *r, struct err *e)
{
    *r = *generation_result(d->gen);
    int rc = d->failed, rc_end = rc ? 0 : answer_end(d->answer);
    if (rc_end)
        rc = err_set(e, rc_end, "output: %s", strerror(-rc_end));
    d->failed = 0;
    d->pending = rc ? -1 : pending_token(d, r);
    end_turn(d);
    if (!rc && (tok_buf_add(&d->part[0], "", 1) || tok_buf_add(&d->part[1], "", 1)))
        rc = no_memory(e);
    if (!rc)
        rc = add_message(d, "assistant", d->part[ANSWER_PART_TEXT].s,
                         d->part[ANSWER_PART_REASONING].s[0] ? d->part[ANSWER_PART_REASONING].s : NULL, e);
    if (rc)
        drop_messages(d, d->before);
    return rc;
}

int dialog_say(struct dialog *d, const char *text, const struct gen_opts *o, dialog_fn fn, void *user,
               struct gen_result *r, struct err *e)
{
    *r = (struct gen_result){ 0 };
    int rc = dialog_begin(d, text, o, fn, user, e);
    if (rc)
        return rc;
    while (dialog_step(d, e) == 1)
        ;
    return dialog_end(d, r, e);
}
