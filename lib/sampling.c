/* The parameters of sampling as a line of text, "temp=0.7,top-k=40". */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/nearest.h"
#include "lib/priv.h"

enum kind { FLOAT, INT, UINT };

static const struct param {
    const char *name;
    size_t off;
    enum kind kind;
    enum sampler_param bit;
} params[] = {
#define X(field, type, def, opt, key, help)                                                                          \
    { opt, offsetof(struct sampler_params, field),                                                                   \
      _Generic((type){ 0 }, float: FLOAT, int32_t: INT, uint32_t: UINT), SAMPLER_##field },
    SAMPLER_PARAMS(X)
#undef X
};

static const char *name_at(const void *user, size_t i)
{
    return i < ARRAY_LEN(params) ? params[i].name : i == ARRAY_LEN(params) ? "rng" : NULL;
}

static int set_number(struct sampler_params *p, const struct param *q, const char *value, struct err *e)
{
    char *end;
    void *at = (char *)p + q->off;
    errno = 0;
    double v = q->kind == FLOAT ? (double)strtof(value, &end) : (double)strtoll(value, &end, 10);
    bool fits = q->kind == FLOAT ? isfinite(v)
                : q->kind == INT ? v >= INT32_MIN && v <= INT32_MAX
                                 : v >= 0 && v <= UINT32_MAX;
    if (end == value || *end || errno || !fits)
        return err_set(e, -EINVAL, "sampling: %s=%s: expected a %snumber%s", q->name, value,
                       q->kind == FLOAT ? "" : "whole ", end == value || *end ? "" : " within its range");
    switch (q->kind) {
    case FLOAT: *(float *)at = (float)v; break;
    case INT: *(int32_t *)at = (int32_t)v; break;
    case UINT: *(uint32_t *)at = (uint32_t)v; break;
    }
    p->set |= 1u << q->bit;
    return 0;
}

static int set_param(struct sampler_params *p, const char *name, const char *value, struct err *e)
{
    if (strcmp(name, "rng") == 0)
        return sampler_rng_named(value, &p->rng, e);
    for (size_t i = 0; i < ARRAY_LEN(params); i++)
        if (strcmp(name, params[i].name) == 0)
            return set_number(p, &params[i], value, e);
    const char *near = nearest_name(name, name_at, NULL);
    return err_set(e, -EINVAL, "sampling: '%s' is not a parameter%s%s%s", name, near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : " (zinc run --help lists them)");
}

static int parse(struct sampler_params *p, const char *text, struct err *e)
{
    int rc = 0;
    for (size_t n; *text && !rc; text += n + (text[n] == ',')) {
        char item[128];
        n = strcspn(text, ",");
        size_t blank = strspn(text, " ");
        size_t len = n > blank ? n - blank : 0;
        if (len >= sizeof item)
            return err_set(e, -EINVAL, "sampling: '%.40s...' is not NAME=VALUE", text + blank);
        memcpy(item, text + MIN(blank, n), len);
        item[len] = 0;
        char *eq = strchr(item, '=');
        if (!eq || eq == item)
            return err_set(e, -EINVAL, "sampling: '%s' is not NAME=VALUE", item);
        *eq = 0;
        rc = set_param(p, item, eq + 1, e);
    }
    return rc;
}

int sampling_take(const zinc_model *m, const zinc_gen_opts *o, struct sampler_params *p, struct logit_bias **bias,
                  struct err *e)
{
    *p = sampler_defaults();
    *bias = NULL;
    int rc = o->sampling ? parse(p, o->sampling, e) : 0;
    if (rc || (rc = sampler_check(p, e)))
        return rc;
    engine_sampling_defaults(m->eng, p); /* which fit what was given */
    if ((rc = sampler_check(p, e)))
        return rc;
    if (p->top_p > 1 || p->typical_p > 1)
        return err_set(e, -EINVAL, "sampling: %s is %g, a probability: 0 to 1 is expected",
                       p->top_p > 1 ? "top-p" : "typical-p", (double)(p->top_p > 1 ? p->top_p : p->typical_p));
    if ((o->n_logit_bias && !o->logit_bias) || (o->n_dry_breakers && !o->dry_breakers))
        return err_set(e, -EINVAL, "libzinc: zinc_gen_opts.%s is NULL",
                       o->n_logit_bias && !o->logit_bias ? "logit_bias" : "dry_breakers");
    if (o->n_logit_bias && !(*bias = calloc(o->n_logit_bias, sizeof **bias)))
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    for (uint32_t i = 0; i < o->n_logit_bias; i++) {
        if (isnan(o->logit_bias[i].bias)) {
            free(*bias);
            *bias = NULL;
            return err_set(e, -EINVAL, "libzinc: logit_bias of token %d is not a number", o->logit_bias[i].id);
        }
        (*bias)[i] = (struct logit_bias){ o->logit_bias[i].id, o->logit_bias[i].bias };
    }
    if (p->seed == SAMPLER_SEED_RANDOM) /* drawn here, so that it can be told */
        p->seed = sampler_draw_seed();
    p->bias = *bias;
    p->n_bias = o->n_logit_bias;
    if (o->n_dry_breakers) {
        p->dry_breakers = o->dry_breakers;
        p->n_dry_breakers = o->n_dry_breakers;
    }
    return 0;
}
