#include "tools/streamdump/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rt/blob.h"
#include "rt/lockstep/walk.h"
#include "rt/walk_plan.h"
#ifndef __APPLE__
#include "rt/amd/walk.h"
#endif

const char walk_help[] =
    "  --walk           the lists of its persistent plan (doc/persistent.md), verified\n"
    "  --card=NAME      they are for this card: host (the lockstep tier), h200"
#ifndef __APPLE__
    ", gfx1100, gfx1201"
#endif
    " (host)\n"
    "  --cores=N        with so many cores (the card's)\n"
    "  --groups=N       for so many work-groups that walk (two a core; host: 5)\n"
    "  --group=N        what work-group N does, in its order\n"
    "  --save=FILE      the lists into a file as well\n"
    "  --lists=FILE     lists from a file instead\n";

/* Cards as their tiers find them: multiprocessors or compute units, shared memory of a work-group and of a core. */
static const struct card {
    const char *name, *bodies; /* the target of its kernels' bodies; NULL: those that the host has */
    struct dispatch_target target;
    const struct walk_form *form;
    bool no_more;
} cards[] = {
    { "host", NULL, { 0 }, &walk_form_const, false },
    { "h200", "walk_sm_90a", { .n_cores = 132, .shared_max = 232448, .shared_core = 233472, .wgmma = true, .mma8 = true, .walks = true },
      &walk_form_const, false },
#ifndef __APPLE__
    { "gfx1100", "walk_gfx11-generic", { .n_cores = 96, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true, .prompt_split = 256 },
      &amd_walk_form, true },
    { "gfx1201", "walk_gfx12-generic", { .n_cores = 64, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true },
      &amd_walk_form, true },
#endif
};
enum { N_CARDS = sizeof cards / sizeof cards[0] };

static const struct card *find(const char *name)
{
    for (uint32_t i = 0; i < N_CARDS; i++)
        if (strcmp(name, cards[i].name) == 0)
            return &cards[i];
    return NULL;
}

bool walk_knows_card(const char *name)
{
    return find(name) != NULL;
}

static bool has_body(void *user, uint32_t kernel)
{
    const struct card *c = user;
    return !c->bodies || kernel_blob_find(kernel_infos[kernel].module, c->bodies);
}

static int make(const struct stream *s, const struct walk_options *o, struct walk_plan **p, struct err *e)
{
    const struct card *c = o->card ? find(o->card) : &cards[0];
    if (c->bodies && !kernel_blob_find("walk", c->bodies))
        return err_set(e, -ENOTSUP, "--card=%s: this build has no kernels for it; --card=host", c->name);
    struct walk_card w = { .name = c->name, .target = c->bodies ? c->target : lockstep_target, .form = c->form, .no_more = c->no_more,
                           .has = has_body, .user = (void *)(uintptr_t)c };
    if (o->cores)
        w.target.n_cores = o->cores;
    w.groups = o->groups ? o->groups : c->bodies ? WALK_PER_CORE * w.target.n_cores : LOCKSTEP_WALKERS;
    return walk_plan_make(s, &w, p, e);
}

int walk_print(const struct stream *s, const struct walk_options *o)
{
    struct walk_plan *p = NULL;
    struct err e = { 0 };
    int rc = o->lists ? walk_plan_load(o->lists, s, &p, &e) : make(s, o, &p, &e);
    if (!rc && o->save)
        rc = walk_plan_save(p, o->save, &e);
    if (!rc && o->json) {
        if ((rc = walk_plan_json(stdout, p, s)))
            err_set(&e, rc, "cannot write: %s", strerror(-rc));
    } else if (!rc && o->group >= 0) {
        walk_plan_dump_group(stdout, p, s, (uint32_t)o->group);
    } else if (!rc) {
        walk_plan_dump(stdout, p, s);
    }
    walk_plan_free(p);
    if (rc)
        fprintf(stderr, "streamdump: %s\n", e.msg);
    return rc ? 1 : 0;
}
