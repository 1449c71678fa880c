/* metal/kernels.c: from what is embedded to pipelines. When a stream first needs a kernel, its module becomes a library: out of a
 * metallib where the build had Apple's tools, else out of the text, which the driver compiles; then the kernel a pipeline, which
 * metal/archive.c keeps for the next start. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "metal/metal.h"
#include "rt/blob.h"

/* NULL: there is none, or this macOS does not take it, as one of an older version than Apple's tools made it for. */
static id precompiled(struct metal_tier *m, const char *module)
{
    uint64_t n;
    char why[400];
    const struct kernel_blob *b = kernel_blob_find(module, "metallib");
    const void *bytes = b ? kernel_blob_bytes(b, &n) : NULL;
    if (!bytes)
        return NULL;
    id error = NULL, data = objc.data(bytes, n, NULL, NULL);
    id library = device_library_data(m->device, data, &error);
    object_release(data);
    if (!library) {
        metal_error(error, why, sizeof why);
        log_info(METAL, "the metallib of module %s is not taken, its text is compiled: %s", module, why);
    }
    return library;
}

static id compile(struct metal_tier *m, const char *module, struct err *e)
{
    uint64_t n;
    char why[400];
    const struct kernel_blob *b = kernel_blob_find(module, "msl");
    const char *text = b ? kernel_blob_bytes(b, &n) : NULL;
    if (!text) {
        err_set(e, -ENOTSUP, "metal: this binary has no kernels of module %s", module);
        return NULL;
    }
    id error = NULL, options = objc_new("MTLCompileOptions");
    options_language(options, METAL_LANGUAGE_3_2);
    options_math_mode(options, METAL_MATH_SAFE);
    options_math_functions(options, METAL_MATH_PRECISE);
    id library = device_library(m->device, objc_string(text), options, &error);
    object_release(options);
    if (!library) { /* an error may be set beside a library as well: warnings */
        metal_error(error, why, sizeof why);
        err_set(e, -ENOTSUP, "metal: the driver does not take the kernels of module %s: %s", module, why);
    }
    return library;
}

/* Kernels of a module are neighbours in the list; its library is kept at the first one. */
static id library_of(struct metal_tier *m, uint32_t k, struct err *e)
{
    uint32_t first = 0;
    while (strcmp(kernel_infos[first].module, kernel_infos[k].module) != 0)
        first++;
    if (!m->library[first])
        m->library[first] = precompiled(m, kernel_infos[k].module);
    if (!m->library[first])
        m->library[first] = compile(m, kernel_infos[k].module, e);
    return m->library[first];
}

static int make_pipeline(struct metal_tier *m, uint32_t k, struct err *e)
{
    const struct kernel_info *info = &kernel_infos[k];
    char why[400];
    id error = NULL, library = library_of(m, k, e);
    if (!library)
        return -ENOTSUP;
    id function = library_function(library, objc_string(info->name));
    if (!function)
        return err_set(e, -ENOTSUP, "metal: %s is not in module %s", info->name, info->module);
    id d = objc_new("MTLComputePipelineDescriptor");
    pipeline_set_function(d, function);
    pipeline_set_whole_warps(d, true);
    pipeline_set_threads(d, info->threads);
    if (m->record)
        pipeline_set_indirect(d, true);
    set_label(d, objc_string(info->name));
    id p = metal_archives_pipeline(m, d, &error);
    object_release(d);
    object_release(function);
    if (!p) {
        metal_error(error, why, sizeof why);
        return err_set(e, -ENOTSUP, "metal: the driver makes no pipeline of %s: %s", info->name, why);
    }
    m->pipeline[k] = p;
    unsigned long threads = pipeline_threads(p), width = pipeline_width(p);
    if (width != METAL_WIDTH)
        return err_set(e, -ENOTSUP, "metal: %s would run in SIMD-groups of %lu lanes, the kernels are for %d", info->name, width,
                       METAL_WIDTH);
    if (threads < info->threads)
        return err_set(e, -ENOTSUP, "metal: %s finds registers for %lu threads of a work-group, it needs %u", info->name, threads,
                       info->threads);
    return 0;
}

int metal_kernels_need(struct metal_tier *m, const bool need[KERNEL_COUNT], struct err *e)
{
    uint32_t total = 0, done = 0;
    int rc = 0;
    uint64_t t0 = clock_ns();
    for (uint32_t k = 0; k < KERNEL_COUNT; k++)
        total += need[k] && !m->pipeline[k];
    for (uint32_t k = 0; k < KERNEL_COUNT && !rc; k++) {
        if (!need[k] || m->pipeline[k])
            continue;
        rc = make_pipeline(m, k, e);
        if (m->r.tier.progress && !progress_report(m->r.tier.progress, "kernels", ++done, total))
            rc = err_set(e, -ECANCELED, "metal: compiling kernels was cancelled");
    }
    if (total)
        log_info(METAL, "pipelines: %u in %.1f ms", total, (double)(clock_ns() - t0) * 1e-6);
    return rc;
}
