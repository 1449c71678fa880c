#include "engine/plan_trial.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "rt/auto_file.h"

enum { REPLAY, PERSISTENT, KINDS };
enum { WARM = 4, ROUNDS = 5, STEPS = 12, MOST_TOKENS = 16 };
#define WORTH 0.98 /* so much of replay's time, or replay is kept */

struct trial {
    struct engine *eng;
    struct tier_plan *plan[KINDS]; /* what the engine does not have in its place      */
    struct auto_time t[KINDS];
    char name[32], path[CACHE_PATH], key[700];
    char why[256]; /* nothing was measured */
};

/* What the time depends on besides the tier: the commands and what they multiply by, whatever the context is. */
static uint64_t shape_of(const struct stream *s)
{
    XXH64_state_t *h = XXH64_createState();
    if (!h)
        return 0;
    XXH64_reset(h, s->h.kv_type);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        XXH64_update(h, &s->cmds[i].op, sizeof s->cmds[i].op);
    for (uint32_t i = 0; i < s->h.n_weights; i++) {
        XXH64_update(h, &s->weights[i].type, sizeof s->weights[i].type);
        XXH64_update(h, s->weights[i].ne, sizeof s->weights[i].ne);
    }
    uint64_t v = XXH64_digest(h);
    XXH64_freeState(h);
    return v;
}

static void name_it(struct trial *x)
{
    const struct tier_info *in = &x->eng->tier->info;
    struct utsname u;
    uint64_t shape = shape_of(x->eng->decode.s);
    snprintf(x->name, sizeof x->name, "plan-%016llx", (unsigned long long)XXH64(x->eng->info.tier, strlen(x->eng->info.tier), shape));
    snprintf(x->key, sizeof x->key, "zinc %s; Linux %s; %s: %s, %s, firmware %u; %016llx", ZINC_VERSION, uname(&u) ? "?" : u.release,
             x->eng->info.tier, in->device, in->note, in->firmware, (unsigned long long)shape);
    for (char *p = x->key; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
}

/* ---- measuring ---- */

static void put(struct engine *eng, struct tier_plan *p)
{
    if (eng->prefill.native == eng->decode.native)
        eng->prefill.native = p;
    eng->decode.native = p;
}

/* Nanoseconds of a step with the plan, over n of them. */
static int time_steps(struct trial *x, struct session *s, uint32_t kind, uint32_t n, double *ns, struct err *e)
{
    put(x->eng, x->plan[kind]);
    session_reset(s);
    uint64_t t0 = clock_ns();
    int rc = session_follow(s, 0, n, NULL, e);
    *ns = (double)(clock_ns() - t0) / n;
    return rc;
}

static int time_both(struct trial *x, struct session *s, struct err *e)
{
    uint32_t n = MIN((uint32_t)MOST_TOKENS, x->eng->info.n_ctx);
    int rc = 0;
    for (uint32_t round = 0; round < 1 + ROUNDS && !rc; round++) {
        for (uint32_t k = 0; k < KINDS && !rc; k++) {
            double ns;
            rc = time_steps(x, s, k, MIN(n, round ? STEPS : WARM), &ns, e);
            x->t[k].us = rc ? -1 : round && x->t[k].us < ns * 1e-3 ? x->t[k].us : ns * 1e-3;
        }
    }
    return rc;
}

/* With a persistent plan, or x->why there is none. */
static int compare(struct trial *x, struct session *s, struct err *e)
{
    struct err no = { 0 };
    if (tier_prepare(x->eng->tier, x->eng->decode.s, PLAN_PERSISTENT, &x->plan[PERSISTENT], &no)) {
        snprintf(x->why, sizeof x->why, "%.250s", no.msg);
        return 0;
    }
    int rc = time_both(x, s, &no);
    if (rc == -EDOM) { /* a file that gives no numbers: nobody will generate with it */
        snprintf(x->why, sizeof x->why, "%.250s", no.msg);
        return 0;
    }
    if (x->t[REPLAY].us > 0)
        auto_file_keep(x->name, x->key, x->t, KINDS);
    return rc ? err_set(e, rc, "%s", no.msg) : 0;
}

/* The device failed with the persistent plan: on with replay where the tier can be opened again, else the next start does that. */
static int recover(struct trial *x, int rc, struct err *e)
{
    struct engine *eng = x->eng;
    struct err why = *e;
    if (!eng->tier->info.reopens)
        return err_set(e, rc, "%s; that was a trial of the persistent plan, the next start takes replay", why.msg);
    log_warn(ENGINE, "%s; that was a trial of the persistent plan, replay is taken", why.msg);
    tier_plan_destroy(x->plan[PERSISTENT]);
    x->plan[PERSISTENT] = NULL;
    eng->plan = PLAN_REPLAY;
    rc = engine_reopen(eng, e);
    x->plan[REPLAY] = eng->decode.native;
    return rc;
}

static int measure(struct trial *x, struct err *e)
{
    struct engine *eng = x->eng;
    struct session *s;
    int rc = session_create(eng, &s, e);
    if (rc)
        return rc;
    rc = compare(x, s, e);
    put(eng, x->plan[REPLAY]);
    session_destroy(s);
    if (rc && x->t[PERSISTENT].us < 0)
        rc = recover(x, rc, e);
    if (!rc)
        tier_stats_reset(eng->tier);
    return rc;
}

/* ---- choosing ---- */

static void take(struct trial *x, enum plan_kind k)
{
    struct engine *eng = x->eng;
    uint32_t i = k == PLAN_PERSISTENT ? PERSISTENT : REPLAY;
    put(eng, x->plan[i]);
    x->plan[i] = NULL;
    eng->plan = k;
}

static void choose(struct trial *x)
{
    struct engine *eng = x->eng;
    const struct auto_time *t = x->t;
    bool persistent = t[PERSISTENT].us > 0 && t[PERSISTENT].us < WORTH * t[REPLAY].us;
    struct err no = { 0 };
    if (persistent && !x->plan[PERSISTENT] && tier_prepare(eng->tier, eng->decode.s, PLAN_PERSISTENT, &x->plan[PERSISTENT], &no)) {
        log_warn(ENGINE, "%s, which is taken", no.msg);
        snprintf(eng->plan_why, sizeof eng->plan_why, "%s", no.msg);
        persistent = false;
    } else if (t[PERSISTENT].us < 0) {
        snprintf(eng->plan_why, sizeof eng->plan_why, "the persistent plan failed when it was tried; %s knows of it", x->path);
    } else {
        snprintf(eng->plan_why, sizeof eng->plan_why, "measured: replay %.1f us a step, persistent %.1f; kept in %s", t[REPLAY].us,
                 t[PERSISTENT].us, x->path);
    }
    take(x, persistent ? PLAN_PERSISTENT : PLAN_REPLAY);
}

int plan_trial(struct engine *eng, bool asked, struct err *e)
{
    const char *how = env_get()->how_auto;
    bool list = how && strcmp(how, "list") == 0, again = asked && how && strcmp(how, "measure") == 0;
    struct trial x = { .eng = eng, .plan = { [REPLAY] = eng->decode.native }, .t = { { "replay", 0 }, { "persistent", 0 } } };
    int rc = 0;
    if (list) {
        snprintf(eng->plan_why, sizeof eng->plan_why, "ZINC_AUTO=list; --plan persistent is the other: doc/persistent.md");
        return 0;
    }
    name_it(&x);
    bool known = !again && auto_file_load(x.name, x.key, x.t, KINDS, x.path);
    if (!known && !asked)
        snprintf(x.why, sizeof x.why, "not measured here, which --plan auto does once");
    else if (!known && !(rc = measure(&x, e)))
        cache_path(NULL, x.name, x.path);
    if (!rc && x.why[0]) {
        snprintf(eng->plan_why, sizeof eng->plan_why, "%s", x.why);
        take(&x, PLAN_REPLAY);
    } else if (!rc) {
        choose(&x);
    }
    for (uint32_t k = 0; k < KINDS; k++)
        if (x.plan[k] != eng->decode.native)
            tier_plan_destroy(x.plan[k]);
    return rc;
}
