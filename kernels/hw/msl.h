/* kernels/hw/msl.h: the dialect on Apple GPUs, first half. The text of a kernel goes through the preprocessor with -DKD_MSL
 * and then through tools/gen/msl_text.c, which makes Metal Shading Language of it: names that begin with __kd_ are its marks, and
 * every function becomes a member of `struct kd_item`, which has the work-item's ids and its shared memory. The functions
 * of the dialect are in kernels/hw/msl.metal, the second half, which is MSL. */
#ifndef ZINC_KERNELS_HW_MSL_H
#define ZINC_KERNELS_HW_MSL_H

#define KD_GLOBAL   __kd_device
#define KD_SHARED   __kd_threadgroup
#define KD_COHERENT __kd_coherent
#define KD_TABLE    __kd_constant

#define KD_SMALL_SHARED 1 /* 32 KiB of a work-group: rt/dispatch*.c asks dispatch_target.shared_max */

#define KD_SHARED_AT(type, off) ((KD_SHARED type *)(kd_shared + (off)))
#define KD_KERNEL(name, args)   __kd_kernel(name, args)

#endif
