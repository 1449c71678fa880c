/* kernels/codebooks.c: the codebooks of the host. */
#include "kernels/codebooks.h"

#include "kernels/codebook_words.h"

#define BOOK(name, n, ...)                                                                                             \
    const uint32_t codebook_##name SHAPE_##name = { __VA_ARGS__ };                                                     \
    _Static_assert(sizeof codebook_##name / sizeof *codebook_##name == n, "entries of " #name);
#include "kernels/codebooks.inc"
