/* tools/metalsim/kernels.h
 * The kernels' Metal texts as functions of this program: what a device does with a dispatch. A library is found by its text,
 * to the byte; a text that was not built cannot be run. mk/metalsim.mk compiles the texts (tools/gen/msl_host.c).
 *
 *     const struct msim_module *m = msim_module_find(text, n);             NULL: no such text was built
 *     rc = m->kernels[i].run(&m->kernels[i], args, groups, threads, shared_bytes, why, sizeof why);
 *
 * run: 0, or a negative errno and a sentence. args: what lies at buffer 0. One dispatch runs at a time. */
#ifndef ZINC_METALSIM_KERNELS_H
#define ZINC_METALSIM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct msim_kernel {
    const char *name;
    uint32_t threads; /* [[max_total_threads_per_threadgroup]] */
    int (*run)(const struct msim_kernel *k, const void *args, const uint32_t groups[3], uint32_t threads, uint32_t shared_bytes,
               char *why, size_t n_why);
    const void *entry;
};
struct msim_module {
    uint64_t hash; /* FNV-1a, 64 bits, of the text */
    uint64_t text_bytes;
    const char *name;
    const struct msim_kernel *kernels;
    uint32_t n_kernels;
};

const struct msim_module *msim_module_find(const char *text, size_t n);
void msim_module_add(const struct msim_module *m); /* for tests: one more, which stays */
/* The kernels' run, and after a siglongjmp out of it: the runner's state is made fresh. */
int msim_run(const struct msim_kernel *k, const void *args, const uint32_t groups[3], uint32_t threads, uint32_t shared_bytes,
             char *why, size_t n_why);
void msim_kernels_reset(void);

#ifdef __cplusplus
}
#endif

#endif
