#include "engine/proof/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"

struct pair {
    struct engine *ea, *eb;
    struct session *a, *b;
    int32_t *tok; /* the history: prompt and B's choices */
    double *nmse; /* of each step                        */
    uint32_t n_tok;
};

static int32_t top(const float *l, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (l[i] > l[best])
            best = i;
    return (int32_t)best;
}

static struct validate_step judge(const float *a, const float *b, uint32_t n, double tol)
{
    struct diff d = diff_f32(a, b, 1, n, n);
    struct validate_step s = { .top_a = top(a, n), .top_b = top(b, n), .nmse = d.nmse, .max_err = d.max_err };
    double sq = 0, second = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        sq += isfinite(b[i]) ? (double)b[i] * (double)b[i] : 0;
        if ((int32_t)i != s.top_b)
            second = MAX(second, (double)b[i]);
    }
    s.gap = (double)b[s.top_b] - second;
    s.gap_flip = (double)b[s.top_b] - (double)b[s.top_a];
    s.stated = 3 * sqrt(s.nmse * sq / n);
    bool flip = s.top_a != s.top_b && !(s.gap_flip <= 2 * s.stated);
    s.verdict = !(s.nmse <= VALIDATE_FAR * tol) ? VALIDATE_ERROR
                : flip                          ? VALIDATE_FLIP
                : !(s.nmse <= tol)              ? VALIDATE_WIDE
                : s.top_a != s.top_b            ? VALIDATE_TIE
                                                : VALIDATE_SAME;
    return s;
}

static void count(struct validate_result *r, const struct validate_step *s)
{
    r->n_steps++;
    r->n_same += s->verdict == VALIDATE_SAME;
    r->n_ties += s->verdict == VALIDATE_TIE;
    r->n_wide += s->verdict == VALIDATE_WIDE;
    r->n_flips += s->verdict == VALIDATE_FLIP;
    r->n_errors += s->verdict == VALIDATE_ERROR;
    if (!(s->nmse <= r->worst_nmse)) {
        r->worst_nmse = s->nmse;
        r->worst_pos = s->pos;
    }
    r->worst_err = MAX(r->worst_err, s->max_err);
}

/* As it was asked for, or what auto turned out to be. */
static void name_side(const struct engine *eng, const struct engine_opts *o, char *out, size_t n)
{
    const char *words = o->tier ? strchr(o->tier, ':') : NULL;
    snprintf(out, n, "%s%s", eng->info.tier, words ? words : eng->info.exact ? ":exact" : "");
}

static int open_pair(struct pair *p, const struct validate_opts *o, struct validate_result *r, struct err *e)
{
    int rc;
    struct engine_opts a = *o->a, b = *o->b;
    uint32_t need = o->n_prompt + o->n;
    if (!a.n_ctx)
        a.n_ctx = b.n_ctx = MAX(need, 256u);
    b.n_ctx = a.n_ctx;
    b.chunk = a.chunk;
    if ((rc = engine_open(&a, &p->ea, e)) || (rc = engine_open(&b, &p->eb, e)) ||
        (rc = session_create(p->ea, &p->a, e)) || (rc = session_create(p->eb, &p->b, e)))
        return rc;
    session_set_cancel(p->a, o->cancel);
    session_set_cancel(p->b, o->cancel);
    name_side(p->ea, o->a, r->name_a, sizeof r->name_a);
    name_side(p->eb, o->b, r->name_b, sizeof r->name_b);
    r->tol = o->tol > 0 ? o->tol : p->ea->info.exact != p->eb->info.exact ? 1e-2 : 1e-5;
    p->tok = calloc(need + 1u, sizeof *p->tok);
    p->nmse = calloc(o->n + 1u, sizeof *p->nmse);
    if (!p->tok || !p->nmse)
        return err_set(e, -ENOMEM, "validate: out of memory");
    memcpy(p->tok, o->prompt, o->n_prompt * sizeof *p->tok);
    p->n_tok = o->n_prompt;
    return 0;
}

static void close_pair(struct pair *p)
{
    session_destroy(p->a);
    session_destroy(p->b);
    engine_close(p->ea);
    engine_close(p->eb);
    free(p->tok);
    free(p->nmse);
}

/* The first output that parts, in the step that evaluated the last n_new of the first n_tok tokens. */
static int locate(struct pair *p, uint32_t n_tok, uint32_t n_new, struct validate_result *r, struct err *e)
{
    uint32_t cap = p->ea->prefill.s->h.row_cap, rows = n_new % cap ? n_new % cap : MIN(n_new, cap);
    struct bisect_opts bo = { .tok = p->tok,
                              .n_before = n_tok - rows,
                              .n_rows = rows,
                              .tol = r->tol,
                              .layer = UINT32_MAX };
    int rc = bisect_step(p->a, p->b, &bo, &r->diff, e);
    if (rc == -ENOTSUP)
        return 0; /* a tier that cannot stop half way: the counts stand */
    r->has_diff = rc == 1;
    if (rc == 1) {
        snprintf(r->diff_op, sizeof r->diff_op, "%s", r->diff.op);
        snprintf(r->diff_name, sizeof r->diff_name, "%s", r->diff.name);
        r->diff.op = r->diff_op;
        r->diff.name = r->diff_name;
    }
    return rc < 0 ? rc : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return isnan(x) ? !isnan(y) : isnan(y) ? -1 : (x > y) - (x < y);
}

/* The verdict on the steps so far. */
static void conclude(struct pair *p, struct validate_result *r)
{
    qsort(p->nmse, r->n_steps, sizeof *p->nmse, by_value);
    r->median_nmse = r->n_steps ? p->nmse[r->n_steps / 2] : 0;
    r->differ = r->n_flips || r->n_errors || r->n_wide > r->n_steps / VALIDATE_WIDE_ONE_IN;
}

static int compare_steps(struct pair *p, const struct validate_opts *o, struct validate_result *r, struct err *e)
{
    uint32_t n_new = p->n_tok; /* tokens of the step */
    uint32_t bad_n_tok = 0, bad_n_new = 0, wide_n_tok = 0, wide_n_new = 0;
    for (uint32_t i = 0; i <= o->n; i++) {
        const float *la, *lb;
        const int32_t *tok = p->tok + p->n_tok - n_new;
        int rc;
        if ((rc = session_eval(p->a, tok, n_new, &la, e)) || (rc = session_eval(p->b, tok, n_new, &lb, e)))
            return rc;
        struct validate_step s = judge(la, lb, p->ea->info.n_vocab, r->tol);
        s.pos = p->n_tok - 1;
        p->nmse[i] = s.nmse;
        count(r, &s);
        if (s.verdict == VALIDATE_WIDE && !wide_n_tok) {
            wide_n_tok = p->n_tok;
            wide_n_new = n_new;
        }
        if (o->step)
            o->step(o->user, &s);
        if (s.verdict >= VALIDATE_FLIP && !bad_n_tok) {
            bad_n_tok = p->n_tok;
            bad_n_new = n_new;
        }
        if (bad_n_tok && !o->keep_going)
            break;
        if (flag_is_set(o->cancel)) {
            conclude(p, r);
            return err_set(e, -ECANCELED, "validate: interrupted after %u steps", r->n_steps);
        }
        p->tok[p->n_tok++] = s.top_b;
        n_new = 1;
    }
    conclude(p, r);
    if (!r->differ)
        return 0;
    return bad_n_tok ? locate(p, bad_n_tok, bad_n_new, r, e) : locate(p, wide_n_tok, wide_n_new, r, e);
}

int validate(const struct validate_opts *o, struct validate_result *r, struct err *e)
{
    struct pair p = { 0 };
    *r = (struct validate_result){ .worst_nmse = -1 };
    int rc = open_pair(&p, o, r, e);
    if (!rc && p.ea->info.n_vocab != p.eb->info.n_vocab)
        rc = err_set(e, -EINVAL, "validate: vocabularies of %u and %u", p.ea->info.n_vocab, p.eb->info.n_vocab);
    if (!rc)
        rc = compare_steps(&p, o, r, e);
    close_pair(&p);
    return rc;
}
