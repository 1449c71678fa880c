/* cuda/walk_ptx.h: private to cuda/ */
#ifndef ZINC_CUDA_WALK_PTX_H
#define ZINC_CUDA_WALK_PTX_H

#include <stdint.h>

#include "base/err.h"

struct walk_body {
    const char *name; /* k_embed_walk */
    const char *ptx;  /* of its module */
};

/* A kernel k_walk whose call of kernel i is b[i]'s body, from kernels/walk.c's PTX; the caller frees it. NULL: e says why. */
char *walk_ptx(const char *walk, const struct walk_body *b, uint32_t n, struct err *e);

#endif
