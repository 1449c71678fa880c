/* The persistent plan: runs of launches whose kernels have a form for it become one launch each, which stays on the device
 * and walks the list of what they were (kernels/walk.h). The driver compiles it with the bodies that a plan needs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "cuda/cuda.h"
#include "cuda/walk_ptx.h"
#include "rt/walk.h"

enum { MAX_BODIES = 64 };
static const char target[] = "walk_sm_90a";

/* The kernels of a walk, numbered as its items number them. */
struct bodies {
    uint32_t n;
    uint16_t kernel[MAX_BODIES];
};

static const struct kernel_blob *body_of(uint32_t kernel)
{
    return walk_takes(kernel) ? kernel_blob_find(kernel_infos[kernel].module, target) : NULL;
}

static uint32_t body_index(struct bodies *b, uint32_t kernel)
{
    uint32_t i = 0;
    while (i < b->n && b->kernel[i] != kernel)
        i++;
    if (i == b->n && i < MAX_BODIES)
        b->kernel[b->n++] = (uint16_t)kernel;
    return i;
}

/* One kernel with all the bodies. */
static char *compose(const struct bodies *b, struct err *e)
{
    struct walk_body body[MAX_BODIES];
    char name[MAX_BODIES][64];
    uint64_t n;
    const struct kernel_blob *walk = kernel_blob_find("walk", target);
    const char *base = walk ? kernel_blob_bytes(walk, &n) : NULL;
    for (uint32_t i = 0; i < b->n && base; i++) {
        snprintf(name[i], sizeof name[i], "%s_walk", kernel_infos[b->kernel[i]].name);
        body[i] = (struct walk_body){ name[i], kernel_blob_bytes(body_of(b->kernel[i]), &n) };
        base = body[i].ptx ? base : NULL;
    }
    if (base)
        return walk_ptx(base, body, b->n, e);
    err_set(e, -ENOMEM, "cuda: the persistent plan's PTX");
    return NULL;
}

static bool has_body(void *user, uint32_t kernel)
{
    return body_of(kernel) != NULL;
}

static uint32_t body_number(void *user, uint32_t kernel)
{
    return body_index(user, kernel);
}

/* ---- walks ---- */

static int write_list(struct cuda *c, const struct dispatch_plan *d, struct cuda_walk *w, struct bodies *b, cu_ptr to,
                      struct err *e)
{
    struct walk_list l = { .form = &walk_form_const, .d = d, .first = w->first, .n = w->n, .groups = w->groups };
    uint8_t *bytes = calloc(1, WALK_CONST);
    if (!bytes)
        return err_set(e, -ENOMEM, "cuda: list of a walk");
    walk_list_write(&l, body_number, b, bytes);
    int rc = walk_list_verify(&l, bytes, e);
    cu_result r = rc ? CU_OK : cuda_settle(c, c->cu->to_device(to, bytes, WALK_CONST));
    free(bytes);
    return r ? cuda_fail(c, r, e, "the persistent plan's list") : rc;
}

/* The module with its list, for as many work-groups as can be on the device at once. */
static int load_walk(struct cuda *c, const struct dispatch_plan *d, struct cuda_walk *w, struct bodies *b, const char *ptx,
                     struct err *e)
{
    cu_ptr to = 0;
    size_t room = 0;
    int per_core = 0;
    for (uint32_t i = 0; i < w->n; i++)
        w->shared = MAX(w->shared, d->d[w->first + i].shared + WALK_HEAD);
    char log[1024] = "";
    int opts[] = { CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof log };
    uint64_t t0 = clock_ns();
    cu_result r = c->cu->module_load(&w->module, ptx, 2, opts, values);
    if (r)
        return cuda_fail(c, r, e, "the persistent plan's walk%s%.300s", log[0] ? ": " : "", log);
    log_info(CUDA, "walk of %u launches through %u kernels loaded in %.2f s", w->n, b->n, (double)(clock_ns() - t0) * 1e-9);
    r = c->cu->module_function(&w->func, w->module, "k_walk");
    if (!r)
        r = c->cu->func_set(w->func, CU_FUNC_MAX_DYNAMIC_SHARED, (int)w->shared);
    if (!r)
        r = c->cu->occupancy(&per_core, w->func, WALK_THREADS, w->shared);
    if (!r)
        r = c->cu->module_global(&to, &room, w->module, "walk_const");
    if (r)
        return cuda_fail(c, r, e, "the persistent plan's walk");
    if (per_core < 1)
        return err_set(e, -ENOTSUP, "cuda: %u bytes of shared memory leave no room for the persistent plan's work-groups; "
                       "--plan=replay", w->shared);
    w->groups = (uint32_t)MIN(per_core, WALK_PER_CORE) * c->r.target.n_cores;
    return write_list(c, d, w, b, to, e);
}

static int make_counters(struct cuda *c, struct cuda_walk *w, struct err *e)
{
    cu_result r = c->cu->mem_alloc(&w->counters, 512);
    if (!r)
        r = cuda_settle(c, c->cu->set_bytes(w->counters, 0, 512));
    w->args = (kl_walk){ .counter = w->counters, .left = w->counters + 256, .n_items = w->n };
    return r ? cuda_fail(c, r, e, "the persistent plan's counters") : 0;
}

static int add_walk(struct cuda_pass *x, uint32_t first, uint32_t n, struct err *e)
{
    struct cuda_walk *w = realloc(x->walks, (x->n_walks + 1) * sizeof *w);
    if (!w)
        return err_set(e, -ENOMEM, "cuda: table of walks");
    x->walks = w;
    x->walks[x->n_walks++] = (struct cuda_walk){ .first = first, .n = n };
    return 0;
}

int cuda_walks_make(struct cuda *c, const struct dispatch_plan *d, struct cuda_pass *x, struct err *e)
{
    struct bodies b = { 0 };
    char *ptx = NULL;
    int rc = 0;
    for (uint32_t i = 0, n; !rc && (n = walk_next(&walk_form_const, d, &i, has_body, NULL)); i += n) {
        for (uint32_t k = 0; k < n; k++)
            body_index(&b, d->d[i + k].kernel);
        rc = add_walk(x, i, n, e);
    }
    if (rc)
        return rc;
    if (!x->n_walks || b.n >= MAX_BODIES)
        return err_set(e, -ENOTSUP, "cuda: %s has no persistent form of this model's kernels; --plan=replay", c->name);
    if (!(ptx = compose(&b, e)))
        return e->code;
    for (uint32_t i = 0; i < x->n_walks && !rc; i++) {
        rc = load_walk(c, d, &x->walks[i], &b, ptx, e);
        if (!rc)
            rc = make_counters(c, &x->walks[i], e);
    }
    free(ptx);
    return rc;
}

cu_result cuda_walk_launch(struct cuda *c, const struct cuda_walk *w)
{
    struct cu_launch_attr attr = { .id = CU_LAUNCH_COOPERATIVE, .value = { .cooperative = 1 } };
    struct cu_launch l = { .grid = { w->groups, 1, 1 }, .block = { WALK_THREADS, 1, 1 }, .shared_bytes = w->shared,
                           .stream = c->q, .attrs = &attr, .n_attrs = 1 };
    void *params[] = { (void *)(uintptr_t)&w->args };
    return c->cu->launch(&l, w->func, params, NULL);
}

void cuda_walks_free(struct cuda *c, struct cuda_pass *x)
{
    for (uint32_t i = 0; i < x->n_walks; i++) {
        if (x->walks[i].module)
            c->cu->module_unload(x->walks[i].module);
        if (x->walks[i].counters)
            c->cu->mem_free(x->walks[i].counters);
    }
    free(x->walks);
    x->walks = NULL;
    x->n_walks = 0;
}
