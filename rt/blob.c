#include "rt/blob.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/check.h"

const struct kernel_blob *kernel_blob_find(const char *module, const char *target)
{
    for (uint32_t i = 0; i < n_kernel_blobs; i++)
        if (strcmp(kernel_blobs[i].module, module) == 0 && strcmp(kernel_blobs[i].target, target) == 0)
            return &kernel_blobs[i];
    return NULL;
}

/* NULL: no memory. A frame that is damaged is our own build's doing. */
static uint8_t *decompress(const struct kernel_blob *b, uint64_t n)
{
    uint8_t *bytes = malloc(n + 1);
    if (!bytes)
        return NULL;
    size_t got = ZSTD_decompress(bytes, n, b->frame, (size_t)(b->end - b->frame));
    if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) {
        free(bytes);
        return NULL;
    }
    CHECK_EQ_U64(got, n);
    bytes[n] = 0;
    return bytes;
}

const void *kernel_blob_bytes(const struct kernel_blob *b, uint64_t *n)
{
    uint8_t *first = NULL, *bytes = atomic_load(b->bytes);
    *n = ZSTD_getFrameContentSize(b->frame, (size_t)(b->end - b->frame));
    if (bytes || !(bytes = decompress(b, *n)))
        return bytes;
    if (atomic_compare_exchange_strong(b->bytes, &first, bytes))
        return bytes;
    free(bytes); /* another thread was quicker */
    return first;
}
