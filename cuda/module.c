/* Kernels: from the PTX in the binary to functions of the device. The driver compiles PTX when it is loaded (and keeps
 * the result in its own cache for the next start), which takes a processor a while: modules are loaded side by side. Where the
 * build had CUDA's assembler, the binary also has machine code, which is taken if the driver is new enough for it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "cuda/cuda.h"

enum { MAX_THREADS = 16 };

struct work {
    struct cuda *c;
    uint32_t first;
    atomic_uint next;
};

static cu_result load_blob(struct cuda *c, struct cuda_module *m, const struct kernel_blob *b)
{
    int opts[] = { CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES };
    void *values[] = { m->log, (void *)(uintptr_t)sizeof m->log };
    uint64_t n;
    const void *bytes = kernel_blob_bytes(b, &n);
    return bytes ? c->cu->module_load(&m->m, bytes, 2, opts, values) : CU_OUT_OF_MEMORY;
}

static void load_one(struct cuda *c, struct cuda_module *m)
{
    if (m->code) {
        m->rc = load_blob(c, m, m->code);
        if (!m->rc)
            return;
        log_info(CUDA, "%s: machine code is not taken: %s; the driver compiles PTX", m->name, cuda_error(c->cu, m->rc));
        m->log[0] = 0;
    }
    m->rc = load_blob(c, m, m->blob);
}

static void *load_some(void *arg)
{
    struct work *w = arg;
    w->c->cu->ctx_set(w->c->ctx);
    for (uint32_t i; (i = atomic_fetch_add(&w->next, 1)) < w->c->n_modules;)
        load_one(w->c, &w->c->modules[i]);
    return NULL;
}

static struct cuda_module *find_module(struct cuda *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_modules; i++)
        if (strcmp(c->modules[i].name, name) == 0)
            return &c->modules[i];
    return NULL;
}

static int add_module(struct cuda *c, const char *name, struct err *e)
{
    const struct kernel_blob *b = kernel_blob_find(name, c->target);
    if (!b)
        return err_set(e, -ENOTSUP, "cuda: this binary has no module %s for %s (built without clang-19, or with NO_NV or NV_TARGETS?)", name,
                       c->target);
    struct cuda_module *m = realloc(c->modules, (c->n_modules + 1) * sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "cuda: module table");
    c->modules = m;
    char code[32];
    snprintf(code, sizeof code, "%s_cubin", c->target);
    c->modules[c->n_modules++] = (struct cuda_module){ .name = name, .blob = b, .code = kernel_blob_find(name, code) };
    return 0;
}

static int load_from(struct cuda *c, uint32_t first, struct err *e)
{
    pthread_t thread[MAX_THREADS];
    struct work w = { .c = c, .first = first };
    atomic_init(&w.next, first);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = MIN(MIN((uint32_t)MAX(cores, 1), c->n_modules - first), (uint32_t)MAX_THREADS), started = 0;
    uint64_t t0 = clock_ns();
    for (; started + 1 < n; started++)
        if (pthread_create(&thread[started], NULL, load_some, &w))
            break;
    load_some(&w);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    log_info(CUDA, "%u modules loaded in %.2f s", c->n_modules - first, (double)(clock_ns() - t0) * 1e-9);
    for (uint32_t i = first; i < c->n_modules; i++)
        if (c->modules[i].rc)
            return err_set(e, -EIO, "cuda: module %s for %s: %s%s%.100s", c->modules[i].name, c->target,
                           cuda_error(c->cu, c->modules[i].rc), c->modules[i].log[0] ? ": " : "", c->modules[i].log);
    return 0;
}

static int find_function(struct cuda *c, enum kernel_id k, struct err *e)
{
    const struct kernel_info *info = &kernel_infos[k];
    cu_result r = c->cu->module_function(&c->func[k], find_module(c, info->module)->m, info->name);
    if (r)
        return cuda_fail(c, r, e, "kernel %s", info->name);
    r = c->cu->func_set(c->func[k], CU_FUNC_MAX_DYNAMIC_SHARED, (int)c->r.target.shared_max);
    if (r)
        return cuda_fail(c, r, e, "kernel %s: %u bytes of shared memory", info->name, c->r.target.shared_max);
    int regs = 0, local = 0;
    c->cu->func_attr(&regs, CU_FUNC_REGS, c->func[k]);
    c->cu->func_attr(&local, CU_FUNC_LOCAL_BYTES, c->func[k]);
    log_debug(CUDA, "%s: %d registers, %d bytes of local memory", info->name, regs, local);
    return 0;
}

int cuda_modules_need(struct cuda *c, const bool need[KERNEL_COUNT], struct err *e)
{
    uint32_t first = c->n_modules;
    int rc = 0;
    for (uint32_t k = 0; k < KERNEL_COUNT && !rc; k++)
        if (need[k] && !find_module(c, kernel_infos[k].module))
            rc = add_module(c, kernel_infos[k].module, e);
    if (!rc && c->n_modules > first)
        rc = load_from(c, first, e);
    for (uint32_t k = 0; k < KERNEL_COUNT && !rc; k++)
        if (need[k] && !c->func[k])
            rc = find_function(c, k, e);
    return rc;
}

void cuda_modules_free(struct cuda *c)
{
    for (uint32_t i = 0; i < c->n_modules; i++)
        if (c->modules[i].m)
            c->cu->module_unload(c->modules[i].m);
    free(c->modules);
}
