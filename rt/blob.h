/* rt/blob.h
 * The device code in the binary: for each module of kernels/kernels.def and each target one object, PTX (text, ends
 * with a zero byte) or an AMD code object. Made by the build when clang is there; otherwise the table is empty. */
#ifndef ZINC_RT_BLOB_H
#define ZINC_RT_BLOB_H

#include <stdint.h>
#include <string.h>

struct kernel_blob {
    const char *module, *target; /* "attn", "sm_90a" */
    const uint8_t *data, *end;
};
extern const struct kernel_blob kernel_blobs[];
extern const uint32_t n_kernel_blobs;

/* NULL: not in this binary. */
static inline const struct kernel_blob *kernel_blob_find(const char *module, const char *target)
{
    for (uint32_t i = 0; i < n_kernel_blobs; i++)
        if (strcmp(kernel_blobs[i].module, module) == 0 && strcmp(kernel_blobs[i].target, target) == 0)
            return &kernel_blobs[i];
    return NULL;
}

#endif
