/* kernels/codebooks.c: the codebooks of the host. */
#include "kernels/codebooks.h"

#define BOOK(name, shape, ...) const uint32_t codebook_##name shape = { __VA_ARGS__ };
#include "kernels/codebooks.inc"
