#include "engine/proof/imatrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "model/quant_out.h"

struct collect {
    struct imatrix *im;
    int32_t *entry;   /* [n_weights] of the stream's table; -1: not collected */
    uint32_t n_weights;
};

static void on_product(void *user, const struct tier_product *p)
{
    struct collect *c = user;
    if (p->weight >= c->n_weights || c->entry[p->weight] < 0)
        return;
    struct imatrix_entry *en = &c->im->e[c->entry[p->weight]];
    if (p->n_in != en->n_in || p->mat >= en->n_mats)
        return;
    double *sum = en->sum2 + (size_t)p->mat * en->n_in;
    for (uint32_t i = 0; i < p->n_in; i++)
        sum[i] += (double)p->x[i] * (double)p->x[i];
    en->count[p->mat]++;
}

/* An entry for each matrix of the model. */
static int prepare(struct collect *c, const struct stream *s, struct err *e)
{
    c->n_weights = s->h.n_weights;
    c->entry = calloc(MAX(c->n_weights, 1u), sizeof *c->entry);
    int rc = c->entry ? imatrix_create(&c->im, e) : err_set(e, -ENOMEM, "imatrix: out of memory");
    for (uint32_t i = 0; !rc && i < c->n_weights; i++) {
        const struct stream_weight *w = &s->weights[i];
        uint64_t mats = w->ne[2] * w->ne[3];
        c->entry[i] = -1;
        if (w->ne[0] < 2 || w->ne[1] < 2 || w->ne[0] > INT32_MAX || mats > INT32_MAX)
            continue;
        c->entry[i] = (int32_t)c->im->n;
        if (!imatrix_add(c->im, stream_str(s, w->name), (uint32_t)w->ne[0], (uint32_t)mats))
            rc = err_set(e, -ENOMEM, "imatrix: out of memory");
    }
    return rc;
}

static int check_finite(const struct imatrix *im, struct err *e)
{
    for (uint32_t k = 0; k < im->n; k++)
        for (uint64_t i = 0; i < (uint64_t)im->e[k].n_in * im->e[k].n_mats; i++)
            if (!isfinite((float)im->e[k].sum2[i]))
                return err_set(e, -EDOM, "imatrix: what %s is multiplied by is not finite in column %llu: the model computes no numbers there "
                               "(zinc validate --tier cpu --against cpu:exact names the command)", im->e[k].name,
                               (unsigned long long)(i % im->e[k].n_in));
    return 0;
}

static int drop_row(void *user, uint32_t i, const float *logits)
{
    (void)user, (void)i, (void)logits;
    return 0;
}

static int go_on(const struct imatrix_opts *o, uint32_t done, uint32_t n, struct err *e)
{
    if (flag_is_set(o->cancel) ||
        !progress_report(o->progress, "imatrix", (uint64_t)done * o->n_window, (uint64_t)n * o->n_window))
        return err_set(e, -ECANCELED, "imatrix: interrupted after %u of %u windows", done, n);
    return 0;
}

static int run_windows(struct session *s, const struct perplexity_text *t, const struct imatrix_opts *o, struct collect *c,
                       struct err *e)
{
    uint32_t n, done = 0;
    int rc = perplexity_windows(s->eng, t, o->n_window, o->max_windows, &n, e);
    int32_t *tok = rc ? NULL : calloc(o->n_window, sizeof *tok);
    if (!rc && !tok)
        rc = err_set(e, -ENOMEM, "imatrix: out of memory");
    while (!rc && done < n && !(rc = go_on(o, done, n, e))) {
        perplexity_window(t, done, o->n_window, tok);
        session_reset(s);
        if (!(rc = session_score(s, tok, o->n_window, drop_row, NULL, e)))
            done++;
        else if (rc != -ECANCELED)
            err_context(e, "imatrix: window %u of %u", done + 1, n);
    }
    c->im->chunk_count = done;
    c->im->chunk_size = o->n_window;
    if (!rc)
        progress_report(o->progress, "imatrix", (uint64_t)n * o->n_window, (uint64_t)n * o->n_window);
    free(tok);
    return rc;
}

int imatrix_collect(struct session *s, const struct perplexity_text *t, const struct imatrix_opts *o, struct imatrix **out,
                    struct err *e)
{
    struct collect c = { 0 };
    *out = NULL;
    int rc = prepare(&c, s->eng->prefill.s, e);
    if (!rc)
        rc = tier_watch(s->eng->tier, on_product, &c, e);
    if (!rc) {
        session_set_cancel(s, o->cancel);
        rc = run_windows(s, t, o, &c, e);
        session_set_cancel(s, NULL);
        tier_watch(s->eng->tier, NULL, NULL, NULL);
    }
    struct err bad;
    if ((!rc || rc == -ECANCELED) && check_finite(c.im, &bad)) {
        rc = bad.code;
        err_set(e, rc, "%s", bad.msg);
    }
    if (!rc && o->dataset && !(c.im->dataset = strdup(o->dataset)))
        rc = err_set(e, -ENOMEM, "imatrix: out of memory");
    if (!rc && !(c.im->model = strdup(s->eng->model->name)))
        rc = err_set(e, -ENOMEM, "imatrix: out of memory");
    free(c.entry);
    if (rc && !(rc == -ECANCELED && c.im->chunk_count))
        imatrix_destroy(c.im);
    else
        *out = c.im;
    return rc;
}

int imatrix_check_output(const char *path, struct err *e)
{
    return quant_check_output(path, 0, e);
}

void imatrix_unseen(const struct imatrix_entry *en, double few, uint32_t *n_few, uint32_t *n_none)
{
    *n_few = *n_none = 0;
    for (uint32_t m = 0; m < en->n_mats; m++) {
        *n_few += en->count[m] < few;
        *n_none += en->count[m] == 0;
    }
}
