#include "engine/proof/ladder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/priv.h"
#include "engine/proof/op_check.h"
#include "engine/proof/validate.h"
#include "rt/dispatch.h"
#include "rt/ladder.h"

struct climb {
    const struct ladder_opts *o;
    const struct ladder *own; /* the tier's rungs, NULL: it has none */
    void *state;              /* theirs                               */
    FILE *detail;
};

/* ---- the rungs that every tier has: 1 means skipped, with the reason in found ---- */

static int needs_model(const struct climb *c, struct ladder_out *out)
{
    if (c->o->model)
        return 0;
    snprintf(out->found, sizeof out->found, "no model given (-m FILE), and none of zinc's own was found");
    return 1;
}

static const struct op_case *find_case(const char *name)
{
    const struct op_case *k = op_cases;
    while (k->name && strcmp(k->name, name) != 0)
        k++;
    return k->name ? k : NULL;
}

static int one_kernel(struct climb *c, struct ladder_out *out, struct err *e)
{
    static const char name[] = "matmul/q8_0/ragged";
    char why[256];
    const struct op_case *k = find_case(name);
    if (!k || op_check(k, c->o->tier, why, sizeof why) != OP_RIGHT)
        return err_set(e, -EIO, "%s: %s", name, k ? why : "not in the op table");
    snprintf(out->found, sizeof out->found, "%s as on the cpu tier, within %.0e", name, k->max_nmse);
    return 0;
}

struct cases {
    uint32_t done, total, right, unsupported, wrong;
    char first_wrong[300];
};

static void check_one(const struct climb *c, const struct op_case *k, struct cases *n)
{
    char why[256] = "";
    if (c->o->progress)
        c->o->progress(c->o->user, k->name, n->done, n->total);
    uint64_t t0 = clock_ns();
    enum op_verdict v = op_check(k, c->o->tier, why, sizeof why);
    n->done++;
    n->right += v == OP_RIGHT;
    n->unsupported += v == OP_UNSUPPORTED;
    n->wrong += v == OP_WRONG;
    if (v == OP_WRONG && n->wrong == 1)
        snprintf(n->first_wrong, sizeof n->first_wrong, "%s: %.200s", k->name, why);
    fprintf(c->detail, "case %-40s %-11s %8.1f ms  %s\n", k->name,
            v == OP_RIGHT ? "right" : v == OP_WRONG ? "WRONG" : "unsupported", (double)(clock_ns() - t0) * 1e-6, why);
}

static uint32_t count_cases(const char *filter)
{
    struct op_case other;
    char name[96];
    uint32_t n = 0;
    for (const struct op_case *k = op_cases; k->name; k++) {
        uint32_t v = 0;
        if (!filter || strstr(k->name, filter))
            for (n++; op_variant(k, v, &other, name); v++)
                n++;
    }
    return n;
}

/* Some are not commands: a plan's frame, which every case runs, and what measures and proves devices. */
static bool is_a_command(uint32_t kernel)
{
    return kernel != K_step_begin && kernel != K_step_end && kernel != K_roof && kernel != K_ladder_ids &&
           kernel != K_ladder_shared;
}

/* Kernels of the catalogue that no plan of this process has used. */
static uint32_t unused_kernels(const struct climb *c, char *names, size_t n)
{
    uint32_t count = 0;
    size_t len = 0;
    names[0] = 0;
    for (uint32_t i = 0; i < KERNEL_COUNT; i++) {
        if (dispatch_used[i] || !is_a_command(i) || !kernel_for_all(i))
            continue;
        fprintf(c->detail, "kernel %s was not run by any case\n", kernel_infos[i].name);
        count++;
        if (len < n)
            len += (size_t)snprintf(names + len, n - len, "%s%s", len ? ", " : "", kernel_infos[i].name);
    }
    return count;
}

static int every_kernel(struct climb *c, struct ladder_out *out, struct err *e)
{
    struct cases n = { .total = count_cases(c->o->filter) };
    struct op_case other;
    char name[96], unused[200];
    if (!n.total)
        return err_set(e, -EINVAL, "no case of the op table has '%s' in its name", c->o->filter);
    for (const struct op_case *k = op_cases; k->name; k++) {
        if (c->o->filter && !strstr(k->name, c->o->filter))
            continue;
        check_one(c, k, &n);
        for (uint32_t i = 0; op_variant(k, i, &other, name); i++)
            check_one(c, &other, &n);
        if (flag_is_set(c->o->cancel))
            return err_set(e, -ECANCELED, "interrupted after %u of %u cases", n.done, n.total);
    }
    if (c->o->progress)
        c->o->progress(c->o->user, NULL, n.done, n.total);
    if (n.wrong)
        return err_set(e, -EIO, "%u of %u cases are wrong; the first: %s", n.wrong, n.total, n.first_wrong);
    uint32_t left = c->o->filter ? 0 : unused_kernels(c, unused, sizeof unused);
    size_t at = (size_t)snprintf(out->found, sizeof out->found, "%u cases right%s, %u unsupported", n.right,
                                 c->o->filter ? " (of those that match the filter)" : "", n.unsupported);
    if (left)
        snprintf(out->found + at, sizeof out->found - at, "; %u kernels that no case launches on this device: %.150s", left,
                 unused);
    return 0;
}

/* ---- with a model ---- */

struct pair {
    struct engine *ea, *eb;
    struct session *a, *b;
};

static void pair_close(struct pair *p)
{
    session_destroy(p->a);
    session_destroy(p->b);
    engine_close(p->ea);
    engine_close(p->eb);
}

static int pair_open(const struct climb *c, struct pair *p, struct err *e)
{
    struct engine_opts a = { .path = c->o->model, .tier = c->o->tier, .n_ctx = 256, .device = c->o->device,
                             .device_set = c->o->device >= 0 };
    struct engine_opts b = { .path = c->o->model, .tier = tier_reference(), .n_ctx = 256 };
    int rc;
    *p = (struct pair){ 0 };
    if ((rc = engine_open(&a, &p->ea, e)) == 0) {
        b.chunk = engine_info(p->ea)->chunk;
        rc = engine_open(&b, &p->eb, e);
    }
    if (rc == 0 && (rc = session_create(p->ea, &p->a, e)) == 0)
        rc = session_create(p->eb, &p->b, e);
    return rc;
}

#define LAYER_TOL 1e-3

struct layer_walk {
    uint32_t n, bad;
    double worst;
    FILE *detail;
    char first_bad[160];
};

static void see_output(void *user, const struct diff *d)
{
    struct layer_walk *w = user;
    w->n++;
    w->worst = MAX(w->worst, d->nmse);
    fprintf(w->detail, "layer 0  command %u %s, output %s: nmse %.3g, largest error %.3g\n", d->cmd_a, d->op, d->name,
            d->nmse, d->max_err);
    if (d->differs && !w->bad++)
        snprintf(w->first_bad, sizeof w->first_bad, "command %u %s, output %s: nmse %.3g at row %u column %u (%.6g, cpu "
                 "%.6g)", d->cmd_a, d->op, d->name, d->nmse, d->max_row, d->max_col, (double)d->max_a, (double)d->max_b);
}

static int one_layer(struct climb *c, struct ladder_out *out, struct err *e)
{
    static const int32_t tok[] = { 1 };
    struct pair p;
    struct layer_walk w = { .detail = c->detail };
    struct diff first;
    if (needs_model(c, out))
        return 1;
    struct bisect_opts o = { .tok = tok, .n_rows = 1, .tol = LAYER_TOL, .layer = 0, .each = see_output, .user = &w };
    int rc = pair_open(c, &p, e);
    if (rc == 0)
        rc = bisect_step(p.a, p.b, &o, &first, e);
    pair_close(&p);
    if (rc < 0)
        return rc;
    if (!w.n)
        return err_set(e, -EIO, "no output of the first layer could be compared");
    if (w.bad)
        return err_set(e, -EIO, "%u of %u outputs of the first layer are not the cpu tier's: %s", w.bad, w.n, w.first_bad);
    snprintf(out->found, sizeof out->found, "%u outputs of the first layer, worst nmse %.2g", w.n, w.worst);
    return 0;
}

#define TOKEN_TOL 2e-2

static void make_prompt(int32_t *prompt, uint32_t n)
{
    for (uint32_t i = 0, x = 1; i < n; i++)
        prompt[i] = (int32_t)(((x = x * 1664525u + 1013904223u) >> 16) % 256);
}

static int compare_tokens(struct climb *c, uint32_t n, struct ladder_out *out, struct err *e)
{
    enum { PROMPT = 32 };
    struct engine_opts a = { .path = c->o->model, .tier = c->o->tier, .device = c->o->device,
                             .device_set = c->o->device >= 0 };
    struct engine_opts b = { .path = c->o->model, .tier = tier_reference() };
    struct validate_result r;
    int32_t prompt[PROMPT];
    if (needs_model(c, out))
        return 1;
    make_prompt(prompt, PROMPT);
    struct validate_opts o = { .a = &a, .b = &b, .prompt = prompt, .n_prompt = PROMPT, .n = n, .tol = TOKEN_TOL,
                               .cancel = c->o->cancel };
    int rc = validate(&o, &r, e);
    if (rc)
        return rc;
    if (r.differ)
        return err_set(e, -EIO, "token %u of %u: %u flips, %u errors, %u beyond the tolerance, worst nmse %.3g%s%s%s%s", r.n_steps, n + 1,
                       r.n_flips, r.n_errors, r.n_wide, r.worst_nmse, r.has_diff ? "; first difference in " : "", r.has_diff ? r.diff_op : "",
                       r.has_diff ? ", output " : "", r.has_diff ? r.diff_name : "");
    snprintf(out->found, sizeof out->found, "%u same, %u ties (both tokens within the error), worst nmse %.2g", r.n_same,
             r.n_ties, r.worst_nmse);
    return 0;
}

static int one_token(struct climb *c, struct ladder_out *out, struct err *e)
{
    return compare_tokens(c, 0, out, e);
}

static int many_tokens(struct climb *c, struct ladder_out *out, struct err *e)
{
    return compare_tokens(c, c->o->n_tokens ? c->o->n_tokens : 64, out, e);
}

/* A generation of n tokens behind the prompt, and the newest's logits: with a step behind the one that runs, or one by one. */
static int generate(struct session *s, const int32_t *prompt, uint32_t n_prompt, bool flying, int32_t *tok, uint32_t n, float *logits,
                    struct err *e)
{
    const float *last;
    session_reset(s);
    int rc = session_eval_next(s, prompt, n_prompt, NULL, NULL, &tok[0], e);
    if (!rc && flying)
        rc = session_follow(s, tok[0], n, tok + 1, e);
    for (uint32_t i = 0; i < n && !rc && !flying; i++)
        rc = session_eval_next(s, &tok[i], 1, NULL, NULL, &tok[i + 1], e);
    if (!rc && (rc = engine_last_logits(s->eng, 0, &last, e)) == 0)
        memcpy(logits, last, s->eng->info.n_vocab * sizeof *logits);
    return rc;
}

static int compare_flight(struct session *s, uint32_t n, struct ladder_out *out, struct err *e)
{
    enum { PROMPT = 8 };
    uint32_t n_vocab = s->eng->info.n_vocab;
    int32_t prompt[PROMPT], *tok = calloc(n + 1ull, sizeof *tok), *flown = calloc(n + 1ull, sizeof *flown);
    float *logits = calloc(2ull * n_vocab, sizeof *logits);
    int rc = tok && flown && logits ? 0 : err_set(e, -ENOMEM, "ladder: out of memory");
    make_prompt(prompt, PROMPT);
    if (!rc && (rc = generate(s, prompt, PROMPT, false, tok, n, logits, e)) == 0)
        rc = generate(s, prompt, PROMPT, true, flown, n, logits + n_vocab, e);
    for (uint32_t i = 0; i <= n && !rc; i++)
        if (tok[i] != flown[i])
            rc = err_set(e, -EIO, "token %u of %u is %d with a step in flight, expected %d as without", i + 1, n + 1, flown[i],
                         tok[i]);
    for (uint32_t i = 0; i < n_vocab && !rc; i++)
        if (memcmp(&logits[i], &logits[n_vocab + i], sizeof *logits) != 0)
            rc = err_set(e, -EIO, "logit %u after %u tokens is %.9g with a step in flight, expected %.9g as without", i, n,
                         (double)logits[n_vocab + i], (double)logits[i]);
    snprintf(out->found, sizeof out->found, "%u tokens and the last one's %u logits, to the bit", n, n_vocab);
    free(logits);
    free(flown);
    free(tok);
    return rc;
}

/* The token that a step chooses is the next one's before the host has seen it. */
static int steps_in_flight(struct climb *c, struct ladder_out *out, struct err *e)
{
    uint32_t n = c->o->n_tokens ? c->o->n_tokens : 64;
    struct engine_opts o = { .path = c->o->model, .tier = c->o->tier, .n_ctx = n + 64, .device = c->o->device,
                             .device_set = c->o->device >= 0 };
    struct engine *eng = NULL;
    struct session *s = NULL;
    if (needs_model(c, out))
        return 1;
    int rc = engine_open(&o, &eng, e);
    if (rc == 0 && !engine_flies(eng)) {
        snprintf(out->found, sizeof out->found, "this tier, or the model, takes one step at a time");
        rc = 1;
    }
    if (rc == 0 && (rc = session_create(eng, &s, e)) == 0)
        rc = compare_flight(s, n, out, e);
    session_destroy(s);
    engine_close(eng);
    return rc;
}

/* n tokens behind the prompt by a kind of plan, and the last one's logits, n_vocab of them, which the caller frees. */
static int generate_by(struct climb *c, const char *plan, int32_t *tok, uint32_t n, float **logits, uint32_t *n_vocab, struct err *e)
{
    enum { PROMPT = 1 };
    struct engine_opts o = { .path = c->o->model, .tier = c->o->tier, .plan = plan, .plan_or_nothing = true, .n_ctx = n + 64,
                             .device = c->o->device, .device_set = c->o->device >= 0 };
    struct engine *eng = NULL;
    struct session *s = NULL;
    int32_t prompt[PROMPT];
    make_prompt(prompt, PROMPT);
    int rc = engine_open(&o, &eng, e);
    if (rc == 0 && !(*logits = calloc(*n_vocab = eng->info.n_vocab, sizeof **logits)))
        rc = err_set(e, -ENOMEM, "ladder: out of memory");
    if (rc == 0 && (rc = session_create(eng, &s, e)) == 0)
        rc = generate(s, prompt, PROMPT, false, tok, n, *logits, e);
    session_destroy(s);
    engine_close(eng);
    return rc;
}

/* Where the tier has one: a row's step as few launches that walk the list of what were many. */
static int persistent_plan(struct climb *c, struct ladder_out *out, struct err *e)
{
    enum { TOKENS = 2 };
    int32_t replayed[TOKENS + 1], walked[TOKENS + 1];
    float *a = NULL, *b = NULL;
    uint32_t n_vocab = 0;
    if (needs_model(c, out))
        return 1;
    int rc = generate_by(c, "persistent", walked, TOKENS, &b, &n_vocab, e);
    if (rc == -ENOTSUP) {
        snprintf(out->found, sizeof out->found, "%.200s", e->msg);
        free(b);
        return 1;
    }
    if (!rc)
        rc = generate_by(c, "replay", replayed, TOKENS, &a, &n_vocab, e);
    for (uint32_t i = 0; i <= TOKENS && !rc; i++)
        if (walked[i] != replayed[i])
            rc = err_set(e, -EIO, "token %u of %d is %d by the persistent plan, expected %d as by replay", i + 1, TOKENS + 1, walked[i],
                         replayed[i]);
    for (uint32_t i = 0; i < n_vocab && !rc; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            rc = err_set(e, -EIO, "logit %u after %d tokens is %.9g by the persistent plan, expected %.9g as by replay", i, TOKENS,
                         (double)b[i], (double)a[i]);
    snprintf(out->found, sizeof out->found, "%d tokens and the last one's %u logits, to the bit", TOKENS, n_vocab);
    free(a);
    free(b);
    return rc;
}

static const struct general_rung {
    const char *name, *proves, *look;
    int (*run)(struct climb *c, struct ladder_out *out, struct err *e);
} general[] = {
    { "one kernel", "a product of a quantised matrix is the cpu tier's", "zinc ladder --filter matmul/q8_0 names the case; "
      "the report folder has the packets", one_kernel },
    { "every kernel", "each case of the op table is right, and a row does not depend on its neighbours",
      "the cases that fail have a kernel in common: zinc ladder --filter PART", every_kernel },
    { "one layer", "every output of a model's first layer is the cpu tier's", "zinc validate names the command", one_layer },
    { "one token", "a prompt's logits are the cpu tier's", "zinc validate names the command", one_token },
    { "many tokens", "a generation is the cpu tier's, token for token", "zinc validate -v shows each step", many_tokens },
    { "steps in flight", "a step that is submitted behind another gives the bits that it gives alone",
      "a wait or a cache flush that is missing between steps; --tier NAME:check runs launch by launch", steps_in_flight },
    { "persistent plan", "a step that stays on the device gives the bits of launches", "doc/persistent.md; replay does without it",
      persistent_plan },
};

/* ---- climbing ---- */

static uint32_t n_rungs(const struct climb *c)
{
    return (c->own ? c->own->n : 0) + (uint32_t)ARRAY_LEN(general);
}

static struct ladder_line line_of(const struct climb *c, uint32_t i)
{
    uint32_t own = c->own ? c->own->n : 0;
    if (i < own) {
        const struct ladder_rung *r = &c->own->rung[i];
        return (struct ladder_line){ .number = i + 1, .name = r->name, .proves = r->proves, .look = r->look };
    }
    const struct general_rung *g = &general[i - own];
    return (struct ladder_line){ .number = i + 1, .name = g->name, .proves = g->proves, .look = g->look };
}

static int run_rung(struct climb *c, uint32_t i, struct ladder_out *out, struct err *e)
{
    uint32_t own = c->own ? c->own->n : 0;
    if (i >= own) { /* from here on the tier opens the device by itself */
        if (c->state)
            c->own->end(c->state);
        c->state = NULL;
        return general[i - own].run(c, out, e);
    }
    int rc = c->state ? 0 : c->own->begin(c->o->device, &c->state, e);
    return rc ? rc : c->own->rung[i].run(c->state, out, e);
}

static int climb_rungs(struct climb *c, struct ladder_result *r, struct err *e)
{
    const struct ladder_opts *o = c->o;
    for (uint32_t i = 0; i < r->n; i++) {
        struct ladder_line l = line_of(c, i);
        struct ladder_out out = { .detail = c->detail };
        struct err why = { 0 };
        bool own = c->own && i < c->own->n;
        if ((o->first && i + 1 < o->first && !own) || (o->last && i + 1 > o->last)) {
            r->skipped++;
            continue;
        }
        if (o->skip >> i & 1) {
            r->skipped++;
            l.status = LADDER_SKIPPED;
            l.found = "as it was asked";
            o->line(o->user, &l);
            continue;
        }
        uint64_t t0 = clock_ns();
        int rc = run_rung(c, i, &out, &why);
        if (rc == -ECANCELED)
            return err_set(e, rc, "%s", why.msg);
        l.ms = (double)(clock_ns() - t0) * 1e-6;
        l.status = rc < 0 ? LADDER_FAILED : rc ? LADDER_SKIPPED : LADDER_OK;
        l.found = rc < 0 ? why.msg : out.found;
        r->ok += rc == 0;
        r->skipped += rc > 0;
        o->line(o->user, &l);
        if (rc < 0 && own && c->state && c->own->failed)
            c->own->failed(c->state, c->detail);
        if (rc < 0) {
            r->failed = l.number;
            break;
        }
    }
    return 0;
}

static int check_tier(const char *name, struct err *e)
{
    char known[128] = "";
    if (tier_find(name))
        return 0;
    for (const struct tier_driver *const *d = tier_drivers; *d; d++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*d)->name);
    }
    return err_set(e, -EINVAL, "ladder: there is no tier '%s': %s", name, known);
}

int ladder_climb(const struct ladder_opts *o, struct ladder_result *r, struct err *e)
{
    int rc = check_tier(o->tier, e);
    if (rc)
        return rc;
    struct climb c = { .o = o, .own = tier_find(o->tier)->ladder, .detail = o->detail };
    *r = (struct ladder_result){ .n = n_rungs(&c) };
    if (!c.detail)
        c.detail = fopen("/dev/null", "w");
    if (!c.detail)
        return err_set(e, -errno, "ladder: /dev/null: %s", strerror(errno));
    rc = climb_rungs(&c, r, e);
    if (c.state)
        c.own->end(c.state);
    if (c.detail != o->detail)
        fclose(c.detail);
    return rc;
}

int ladder_list(const char *tier, void (*line)(void *user, const struct ladder_line *l), void *user, struct err *e)
{
    int rc = check_tier(tier, e);
    if (rc)
        return rc;
    struct climb c = { .own = tier_find(tier)->ladder };
    for (uint32_t i = 0; i < n_rungs(&c); i++) {
        struct ladder_line l = line_of(&c, i);
        line(user, &l);
    }
    return 0;
}
