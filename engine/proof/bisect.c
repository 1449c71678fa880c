#include "engine/proof/bisect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/outputs.h"
#include "engine/priv.h"

/* One of the two engines, ready to run the step again and again. */
struct side {
    struct session *s;
    struct engine_plan *plan;
    struct step step;
    ka_row *rows;
    uint32_t out_row;
    uint8_t *state;        /* recurrent state before the step */
    uint64_t state_bytes;
    uint32_t ran;          /* commands of the last run        */
    float *buf;            /* an output                       */
    size_t buf_n;
};

struct diff diff_f32(const float *a, const float *b, uint32_t rows, uint32_t cols, size_t ld)
{
    struct diff d = { .rows = rows, .cols = cols };
    double err = 0, ref = 0;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            double x = (double)a[r * ld + c], y = (double)b[r * ld + c], delta = fabs(x - y);
            if (isnan(x) != isnan(y) || isinf(x) != isinf(y))
                delta = INFINITY;
            else if (isnan(delta)) /* both are NaN, or the same infinity */
                continue;
            err += delta * delta;
            ref += isfinite(y) ? y * y : 0;
            if (delta > d.max_err) {
                d.max_err = delta;
                d.max_row = r;
                d.max_col = c;
                d.max_a = (float)x;
                d.max_b = (float)y;
            }
        }
    d.nmse = err == 0 ? 0 : ref > 0 ? err / ref : INFINITY;
    return d;
}

static void side_finish(struct side *x)
{
    free(x->rows);
    free(x->state);
    free(x->buf);
}

/* Evaluates what comes before the step and remembers the state there. */
static int side_init(struct side *x, struct session *s, const struct bisect_opts *o, struct err *e)
{
    struct engine *eng = s->eng;
    uint32_t n_step;
    *x = (struct side){ .s = s };
    session_reset(s);
    int rc = o->n_before ? session_eval(s, o->tok, o->n_before, NULL, e) : 0;
    if (!rc)
        rc = session_check(s, o->tok + o->n_before, o->n_rows, e);
    if (rc)
        return rc;
    x->plan = engine_plan_for(eng, o->n_rows, o->n_rows > 1, &n_step);
    if (n_step < o->n_rows)
        return err_set(e, -EINVAL, "bisect: a step of %u rows, the stream holds %u", o->n_rows, n_step);
    x->rows = calloc(o->n_rows, sizeof *x->rows);
    x->state_bytes = eng->info.state_bytes;
    x->state = malloc(x->state_bytes + 1);
    if (!x->rows || !x->state)
        return err_set(e, -ENOMEM, "bisect: out of memory for %llu bytes of state", (unsigned long long)x->state_bytes);
    engine_fill_rows(eng, s, o->tok + o->n_before, o->n_rows);
    memcpy(x->rows, eng->rows, o->n_rows * sizeof *x->rows);
    x->out_row = o->n_rows - 1;
    x->step = (struct step){ o->n_rows, 1, s->pos + o->n_rows, x->rows, &x->out_row, NULL };
    return x->state_bytes ? tier_read(eng->tier, ARENA_STATE, 0, x->state, x->state_bytes, e) : 0;
}

/* Runs the first n commands from the state before the step. */
static int side_run(struct side *x, uint32_t n, struct err *e)
{
    struct tier *t = x->s->eng->tier;
    int rc;
    if (x->ran == n)
        return 0;
    if (x->state_bytes && (rc = tier_write(t, ARENA_STATE, 0, x->state, x->state_bytes, e)))
        return rc;
    if ((rc = tier_submit_prefix(t, x->plan->native, &x->step, n, e)))
        return rc;
    x->ran = n;
    return 0;
}

/* buf = the output's rows, one behind the other; integers as floats. */
static int side_read(struct side *x, const struct output *out, struct err *e)
{
    size_t n = (size_t)(out->rows - 1) * out->ld + out->cols;
    if (n > x->buf_n) {
        float *buf = realloc(x->buf, n * sizeof *buf);
        if (!buf)
            return err_set(e, -ENOMEM, "bisect: out of memory");
        x->buf = buf;
        x->buf_n = n;
    }
    int rc = tier_read(x->s->eng->tier, out->arena, out->off, x->buf, n * sizeof(float), e);
    if (rc)
        return rc;
    for (uint32_t r = 1; r < out->rows && out->ld != out->cols; r++)
        memmove(x->buf + (size_t)r * out->cols, x->buf + (size_t)r * out->ld, out->cols * sizeof(float));
    for (size_t i = 0; i < (size_t)out->rows * out->cols && out->ints; i++) {
        int32_t v;
        memcpy(&v, &x->buf[i], sizeof v);
        x->buf[i] = (float)v;
    }
    return 0;
}

/* The output of b's stream that corresponds: the same command and buffer where the streams are alike, else the command
 * that writes the buffer of this name as often before as in a. */
static bool find_twin(const struct side *a, const struct side *b, const struct output *out, struct output *twin)
{
    const struct stream *sa = a->plan->s, *sb = b->plan->s;
    struct output o[MAX_OUTPUTS];
    uint32_t nth = 0, seen = 0;
    for (uint32_t i = 0; i <= out->cmd; i++)
        for (uint32_t k = 0, n = cmd_outputs(sa, i, a->step.n_rows, 1, o); k < n; k++)
            nth += strcmp(o[k].name, out->name) == 0 && (i < out->cmd || o[k].off == out->off);
    for (uint32_t i = 0; i < sb->h.n_cmds; i++)
        for (uint32_t k = 0, n = cmd_outputs(sb, i, b->step.n_rows, 1, o); k < n; k++)
            if (strcmp(o[k].name, out->name) == 0 && ++seen == nth) {
                *twin = o[k];
                return o[k].cols == out->cols && o[k].rows == out->rows && o[k].ints == out->ints;
            }
    return false;
}

/* Compares one output. 0: compared; 1: b has none such. */
static int compare(struct side *a, struct side *b, const struct output *out, double tol, struct diff *d, struct err *e)
{
    struct output twin;
    int rc;
    if (!find_twin(a, b, out, &twin))
        return 1;
    if ((rc = side_run(a, out->cmd + 1, e)) || (rc = side_run(b, twin.cmd + 1, e)) || (rc = side_read(a, out, e)) ||
        (rc = side_read(b, &twin, e)))
        return rc;
    *d = diff_f32(a->buf, b->buf, out->rows, out->cols, out->cols);
    const struct cmd *c = &a->plan->s->cmds[out->cmd];
    d->cmd_a = out->cmd;
    d->cmd_b = twin.cmd;
    d->layer = c->layer;
    d->op = cmd_name((enum cmd_op)c->op);
    d->name = out->name;
    d->differs = out->ints ? d->max_err > 0 : !(d->nmse <= tol);
    return 0;
}

/* Looks at commands [from, to) in order. 1: *first differs. */
static int scan(struct side *a, struct side *b, const struct bisect_opts *o, uint32_t from, uint32_t to,
                struct diff *first, struct err *e)
{
    int found = 0;
    struct output out[MAX_OUTPUTS];
    for (uint32_t i = from; i < to; i++)
        for (uint32_t k = 0, n = cmd_outputs(a->plan->s, i, o->n_rows, 1, out); k < n; k++) {
            struct diff d;
            if (o->layer != UINT32_MAX && a->plan->s->cmds[i].layer != o->layer)
                continue;
            int rc = compare(a, b, &out[k], o->tol, &d, e);
            if (rc < 0)
                return rc;
            if (rc)
                continue;
            if (o->each)
                o->each(o->user, &d);
            if (d.differs && !found) {
                *first = d;
                found = 1;
            }
            if (found && !o->each)
                return 1;
        }
    return found;
}

/* The first command of the first layer whose last output differs: what comes before may be skipped. */
static int find_start(struct side *a, struct side *b, const struct bisect_opts *o, uint32_t to, uint32_t *start,
                      struct err *e)
{
    const struct stream *s = a->plan->s;
    uint32_t lo = 0, hi = s->h.n_layer; /* layers before lo agree at their end */
    *start = 0;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2, last = UINT32_MAX;
        for (uint32_t i = 0; i < to; i++)
            if (s->cmds[i].layer == mid)
                last = i;
        struct output out[MAX_OUTPUTS];
        struct diff d = { 0 };
        uint32_t n = last == UINT32_MAX ? 0 : cmd_outputs(s, last, o->n_rows, 1, out);
        int rc = n ? compare(a, b, &out[0], o->tol, &d, e) : 1;
        if (rc < 0)
            return rc;
        if (rc || d.differs) {
            hi = mid;
        } else {
            lo = mid + 1;
            *start = last + 1;
        }
    }
    return 0;
}

int bisect_step(struct session *a, struct session *b, const struct bisect_opts *o, struct diff *first, struct err *e)
{
    struct side x = { 0 }, y = { 0 };
    uint32_t start = 0;
    int rc = side_init(&x, a, o, e);
    if (!rc)
        rc = side_init(&y, b, o, e);
    if (!rc) {
        uint32_t n = x.plan->s->h.n_cmds, to = o->stop_after ? MIN(o->stop_after + 1, n) : n;
        if (!o->each && o->layer == UINT32_MAX)
            rc = find_start(&x, &y, o, to, &start, e);
        if (!rc)
            rc = scan(&x, &y, o, start, to, first, e);
    }
    side_finish(&x);
    side_finish(&y);
    return rc;
}
