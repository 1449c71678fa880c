#include "engine/proof/op_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/klaunch.h"

bool op_is_close(const struct op_case *c, const struct ops_result *got, const struct ops_result *want, char *why, size_t n)
{
    double err = 0.0, sq = 0.0;
    for (uint32_t i = 0; i < want->n; i++) {
        if (want->is_id[i]) {
            int32_t a, b;
            memcpy(&a, &got->v[i], 4);
            memcpy(&b, &want->v[i], 4);
            if (a == b)
                continue;
            snprintf(why, n, "id %u is %d, exact %d", i, a, b);
            return false;
        }
        if (!isfinite(got->v[i]) || !isfinite(want->v[i])) {
            snprintf(why, n, "element %u is %g, exact %g", i, (double)got->v[i], (double)want->v[i]);
            return false;
        }
        double d = (double)got->v[i] - (double)want->v[i];
        err += d * d;
        sq += (double)want->v[i] * (double)want->v[i];
    }
    double nmse = sq > 0.0 ? err / sq : err;
    if (nmse <= c->max_nmse)
        return true;
    snprintf(why, n, "nmse %.3g against exact, at most %.3g", nmse, c->max_nmse);
    return false;
}

bool op_is_same(const struct ops_result *got, const struct ops_result *want, char *why, size_t n)
{
    for (uint32_t i = 0; i < want->n; i++)
        if (memcmp(&got->v[i], &want->v[i], 4) != 0) {
            snprintf(why, n, "element %u of %u is %.9g (%a), was %.9g (%a)", i, want->n, (double)got->v[i],
                     (double)got->v[i], (double)want->v[i], (double)want->v[i]);
            return false;
        }
    return true;
}

static enum op_verdict check_runs(const struct op_case *c, struct ops *o, const char *tier, char *why, size_t n)
{
    struct ops_result want = { 0 }, got = { 0 }, single = { 0 };
    struct err e = { 0 };
    enum op_verdict v = OP_WRONG;
    int rc = ops_finish(o, &e);
    if (!rc)
        rc = ops_run(o, &(struct ops_how){ .tier = tier_reference(), .exact = true, .threads = 2 }, &want, &e);
    if (!rc && (rc = ops_run(o, &(struct ops_how){ .tier = tier, .threads = 1 }, &got, &e)) == -ENOTSUP)
        v = OP_UNSUPPORTED;
    if (!rc && c->rows > 1)
        rc = ops_run(o, &(struct ops_how){ .tier = tier, .threads = 1, .first = 1 }, &single, &e);
    if (rc)
        snprintf(why, n, "%s (%d)", e.msg, rc);
    else if (op_is_close(c, &got, &want, why, n) && (c->rows == 1 || op_is_same(&single, &got, why, n)))
        v = OP_RIGHT;
    ops_result_free(&want);
    ops_result_free(&got);
    ops_result_free(&single);
    return v;
}

enum op_verdict op_check(const struct op_case *c, const char *tier, char *why, size_t n)
{
    struct ops *o = c->make(c);
    enum op_verdict v = check_runs(c, o, tier, why, n);
    ops_free(o);
    return v;
}

bool op_variant(const struct op_case *c, uint32_t i, struct op_case *other, char name[96])
{
    enum { FEW = 7 };
    *other = *c;
    other->name = name;
    if (c->cap || c->rows <= KL_DECODE_ROWS || i > (c->rows <= KL_ROWS_MAX))
        return false;
    if (i == 0) {
        snprintf(name, 96, "%s, %d rows", c->name, FEW);
        other->rows = FEW;
    } else {
        snprintf(name, 96, "%s, as a prompt", c->name);
        other->cap = KL_ROWS_MAX + 1;
    }
    return true;
}
