/* tests/ops/test_ops.c: each command of the catalogue against --exact, on one tier
 *     test_ops [--tier NAME] [--filter PART] [--without PART,PART...]     right, the same bits however run, nothing past the ends
 *     test_ops --time [--tier NAME] [--filter PART] [--reps N]                microseconds and GB/s, one thread */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "engine/proof/op_check.h"
#include "oracle/isa.h"

static struct {
    const char *tier, *filter, *without;
    bool time;
    uint32_t reps;
} opt = { .tier = "cpu", .reps = 10 };

static int n_right, n_wrong, n_unsupported;

__attribute__((format(printf, 2, 3))) static void wrong(const struct op_case *c, const char *fmt, ...)
{
    va_list ap;
    printf("WRONG %s: ", c->name);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    n_wrong++;
}

/* The limits of the process: the tier reads them when it opens. */
static void set_isa(const char *isa)
{
    ((struct env *)env_get())->cpu_isa = isa;
}
static void set_weights(const char *how)
{
    ((struct env *)env_get())->cpu_weights = how;
}

static bool is_close(const struct op_case *c, const struct ops_result *got, const struct ops_result *want)
{
    char why[160];
    bool ok = op_is_close(c, got, want, why, sizeof why);
    if (!ok)
        wrong(c, "%s", why);
    return ok;
}

static bool is_same(const struct op_case *c, const char *how, const struct ops_result *got,
                    const struct ops_result *want)
{
    char why[160];
    bool ok = op_is_same(got, want, why, sizeof why);
    if (!ok)
        wrong(c, "%s: %s", how, why);
    return ok;
}

/* Runs again in another way and compares the bits. */
static bool again(struct ops *o, const struct op_case *c, const char *name, struct ops_how how,
                  const struct ops_result *want)
{
    struct ops_result got;
    struct err e = { 0 };
    int rc = ops_run(o, &how, &got, &e);
    if (rc) {
        wrong(c, "%s: %s (%d)", name, e.msg, rc);
        return false;
    }
    bool same = is_same(c, name, &got, want);
    ops_result_free(&got);
    return same;
}

static bool other_ways(struct ops *o, const struct op_case *c, const struct ops_result *want)
{
    struct ops_how how = { .tier = opt.tier, .threads = 1 };
    bool cpu = strcmp(opt.tier, "cpu") == 0, ok = again(o, c, "again", how, want);
    how.threads = 2;
    ok = ok && again(o, c, "2 threads", how, want);
    how.threads = 3;
    how.first = 1;
    ok = ok && again(o, c, "one row, then the others, 3 threads", how, want);
    how.first = c->rows > 3 ? c->rows - 3 : 1; /* few rows at a late position: work is cut differently */
    how.step = 1;
    ok = ok && again(o, c, "the last rows one by one, 3 threads", how, want);
    how.threads = 1;
    how.first = c->rows > 100 ? 97 : 2;
    how.step = c->rows > 100 ? 130 : 3;
    ok = ok && again(o, c, "small steps", how, want);
    if (!ok || !cpu)
        return ok;
    static const char *const isas[] = { "plain", "avx2", "avx512" };
    how.first = how.step = 0;
    for (uint32_t i = 0; i < ARRAY_LEN(isas) && ok; i++) {
        if ((i == 1 && !isa_get()->avx2) || (i == 2 && !isa_get()->avx512))
            continue;
        set_isa(isas[i]);
        ok = again(o, c, isas[i], how, want);
    }
    set_isa(NULL);
    set_weights("mapped");
    how.threads = 2;
    ok = ok && again(o, c, "mapped weights", how, want);
    set_weights(NULL);
    return ok;
}

static void run_rows(const struct op_case *c)
{
    struct ops *o = c->make(c);
    struct ops_result want = { 0 }, got = { 0 }, twice = { 0 };
    struct err e = { 0 };
    int rc = ops_finish(o, &e);
    if (rc) {
        wrong(c, "not a stream: %s", e.msg);
    } else if ((rc = ops_run(o, &(struct ops_how){ .tier = "cpu", .exact = true, .threads = 2 }, &want, &e)) ||
               (rc = ops_run(o, &(struct ops_how){ .tier = "cpu", .exact = true, .threads = 1, .first = 1 }, &twice,
                             &e))) {
        wrong(c, "exact: %s (%d)", e.msg, rc);
    } else if ((rc = ops_run(o, &(struct ops_how){ .tier = opt.tier, .threads = 1 }, &got, &e)) == -ENOTSUP) {
        printf("unsupported %s: %s\n", c->name, e.msg);
        n_unsupported++;
    } else if (rc) {
        wrong(c, "%s (%d)", e.msg, rc);
    } else if (is_same(c, "exact by rows", &twice, &want) && is_close(c, &got, &want) && other_ways(o, c, &got)) {
        n_right++;
    }
    ops_result_free(&want);
    ops_result_free(&got);
    ops_result_free(&twice);
    ops_free(o);
}

/* On the tiers that choose kernels by a stream's capacity, a case of many rows is run by the others too. */
static void run_case(const struct op_case *c)
{
    struct op_case other;
    char name[96];
    run_rows(c);
    for (uint32_t i = 0; strcmp(opt.tier, "cpu") != 0 && op_variant(c, i, &other, name); i++)
        run_rows(&other);
}

static void time_case(const struct op_case *c)
{
    struct ops *o = c->make(c);
    struct err e = { 0 };
    double us = 0.0;
    int rc = ops_finish(o, &e);
    if (!rc)
        rc = ops_time(o, &(struct ops_how){ .tier = opt.tier, .threads = 1,
                                            .first = c->flags & OF_LAST ? c->rows - 1 : 0 }, opt.reps, &us, &e);
    if (rc)
        wrong(c, "%s (%d)", e.msg, rc);
    else
        printf("%-36s %10.1f us %8.2f GB/s\n", c->name, us, (double)ops_bytes(o) / us * 1e-3);
    ops_free(o);
}

/* Has the name one of the parts of --without? */
static bool left_out(const char *name)
{
    for (const char *p = opt.without; p && *p;) {
        char part[64];
        size_t n = strcspn(p, ",");
        snprintf(part, sizeof part, "%.*s", (int)n, p);
        if (strstr(name, part))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static void usage(void)
{
    fprintf(stderr, "usage: test_ops [--time] [--tier NAME] [--filter PART] [--without PART,PART...] [--reps N]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--time") == 0) {
            opt.time = true;
            continue;
        }
        if (!value)
            usage();
        if (strcmp(argv[i], "--tier") == 0)
            opt.tier = value;
        else if (strcmp(argv[i], "--filter") == 0)
            opt.filter = value;
        else if (strcmp(argv[i], "--without") == 0)
            opt.without = value;
        else if (strcmp(argv[i], "--reps") == 0)
            opt.reps = (uint32_t)atoi(value);
        else
            usage();
        i++;
    }
    set_isa(NULL);
    set_weights(NULL);
    bool any = false;
    for (const struct op_case *c = opt.time ? op_time_cases : op_cases; c->name; c++) {
        if ((opt.filter && !strstr(c->name, opt.filter)) || left_out(c->name))
            continue;
        any = true;
        if (opt.time)
            time_case(c);
        else
            run_case(c);
    }
    if (!any) {
        fprintf(stderr, "test_ops: no case of the table has '%s' in its name%s, as in matmul/q4_k or attn/64\n",
                opt.filter ? opt.filter : "", opt.without ? " and stays without what --without leaves out" : "");
        return 2;
    }
    if (!opt.time)
        printf("%d right, %d wrong, %d unsupported\n", n_right, n_wrong, n_unsupported);
    return n_wrong > 0;
}
