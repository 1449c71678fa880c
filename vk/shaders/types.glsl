/* vk/shaders/types.glsl
 * The weight types that a module is compiled for. A kernel of VK_TYPED (vk/kernels.def) becomes a module for each set of
 * types, with ZK_SET_<set> defined, so that a driver never sees the code of the others: compiling sixteen types to throw
 * fifteen away is what would cost time at the first start. T0 and T1 are constants 2 and 3; in a set of one type both are
 * that type, and ZK_MIXED is 0. The set `book` has all types, those with codebooks and their like (QTYPE_BOOK) included,
 * ZK_BOOKS is 1 then; other kernels that take them define ZK_WITH_BOOKS first. ZK_Q4_K is 1 where Q4_K is in the set: `#if ZK_Q4_K` around code. Any other kernel has all
 * types, and no T0. Sets, types and what is known of each come from kernels/qtypes.def (tools/gen/glsl_args.c). */
#ifndef TYPES_GLSL
#define TYPES_GLSL

#if defined(ZK_TYPED) && ZK_MIXED
layout(constant_id = 2) const uint T0 = 12;
layout(constant_id = 3) const uint T1 = 14;
#elif defined(ZK_TYPED)
const uint T0 = ZK_TYPE;
const uint T1 = T0;
#endif

#endif
