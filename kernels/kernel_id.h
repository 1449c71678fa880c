/* kernels/kernel_id.h
 * The kernels by number, for what launches them. No kernel includes it: a new one compiles its own module alone. */
#ifndef ZINC_KERNELS_KERNEL_ID_H
#define ZINC_KERNELS_KERNEL_ID_H

enum kernel_id {
#define KERNEL(name, module, args, threads) K_##name,
#include "kernels/kernels.def"
#undef KERNEL
    KERNEL_COUNT
};

#endif
