/* rt/blob.h
 * The device code in the binary: for each module of kernels/kernels.def and each target one object: PTX, an AMD code
 * object or SPIR-V. It is there as a zstd frame; one that is used is decompressed once and kept. Made by the build when
 * the compilers are there; otherwise the table is empty.
 *
 *     const struct kernel_blob *b = kernel_blob_find("attn", "sm_90a");
 *     uint64_t n;
 *     const void *ptx = kernel_blob_bytes(b, &n);
 */
#ifndef ZINC_RT_BLOB_H
#define ZINC_RT_BLOB_H

#include <stdatomic.h>
#include <stdint.h>

struct kernel_blob {
    const char *module, *target; /* "attn", "sm_90a" */
    const uint8_t *frame, *end;
    _Atomic(uint8_t *) *bytes; /* decompressed; NULL until asked for */
};
extern const struct kernel_blob kernel_blobs[];
extern const uint32_t n_kernel_blobs;

/* NULL: not in this binary. */
const struct kernel_blob *kernel_blob_find(const char *module, const char *target);

/* The object, aligned as malloc aligns, and its size; a zero byte follows, since PTX is text. It stays until the program
 * ends. From any thread. NULL: no memory. */
const void *kernel_blob_bytes(const struct kernel_blob *b, uint64_t *n);

#endif
