/* vk/shaders/types.glsl
 * The weight types that a module is compiled for. A kernel of VK_TYPED (vk/kernels.def) becomes a module for each set of
 * types, with ZK_SET_<set> defined, so that a driver never sees the code of the others: compiling sixteen types to throw
 * fifteen away is what would cost time at the first start. T0 and T1 are constants 2 and 3; in a set of one type both are
 * that type, and ZK_MIXED is 0. ZK_Q4_K is 1 where Q4_K is in the set: `#if ZK_Q4_K` around code. Any other kernel has all
 * types, and no T0. */
#ifndef TYPES_GLSL
#define TYPES_GLSL

#if defined(ZK_SET_any) || !defined(ZK_TYPED)
#define ZK_ALL 1
#else
#define ZK_ALL 0
#endif
#if ZK_ALL || defined(ZK_SET_f32)
#define ZK_F32 1
#else
#define ZK_F32 0
#endif
#if ZK_ALL || defined(ZK_SET_f16)
#define ZK_F16 1
#else
#define ZK_F16 0
#endif
#if ZK_ALL || defined(ZK_SET_q40)
#define ZK_Q4_0 1
#else
#define ZK_Q4_0 0
#endif
#if ZK_ALL || defined(ZK_SET_q41)
#define ZK_Q4_1 1
#else
#define ZK_Q4_1 0
#endif
#if ZK_ALL || defined(ZK_SET_q50)
#define ZK_Q5_0 1
#else
#define ZK_Q5_0 0
#endif
#if ZK_ALL || defined(ZK_SET_q51)
#define ZK_Q5_1 1
#else
#define ZK_Q5_1 0
#endif
#if ZK_ALL || defined(ZK_SET_q80)
#define ZK_Q8_0 1
#else
#define ZK_Q8_0 0
#endif
#if ZK_ALL || defined(ZK_SET_q2k)
#define ZK_Q2_K 1
#else
#define ZK_Q2_K 0
#endif
#if ZK_ALL || defined(ZK_SET_q3k)
#define ZK_Q3_K 1
#else
#define ZK_Q3_K 0
#endif
#if ZK_ALL || defined(ZK_SET_q4k) || defined(ZK_SET_q4k_q6k)
#define ZK_Q4_K 1
#else
#define ZK_Q4_K 0
#endif
#if ZK_ALL || defined(ZK_SET_q5k) || defined(ZK_SET_q5k_q6k)
#define ZK_Q5_K 1
#else
#define ZK_Q5_K 0
#endif
#if ZK_ALL || defined(ZK_SET_q6k) || defined(ZK_SET_q4k_q6k) || defined(ZK_SET_q5k_q6k)
#define ZK_Q6_K 1
#else
#define ZK_Q6_K 0
#endif
#if ZK_ALL || defined(ZK_SET_iq4nl)
#define ZK_IQ4_NL 1
#else
#define ZK_IQ4_NL 0
#endif
#if ZK_ALL || defined(ZK_SET_iq4xs)
#define ZK_IQ4_XS 1
#else
#define ZK_IQ4_XS 0
#endif
#if ZK_ALL || defined(ZK_SET_bf16)
#define ZK_BF16 1
#else
#define ZK_BF16 0
#endif
#if ZK_ALL || defined(ZK_SET_mxfp4)
#define ZK_MXFP4 1
#else
#define ZK_MXFP4 0
#endif

#if ZK_ALL || defined(ZK_SET_q4k_q6k) || defined(ZK_SET_q5k_q6k)
#define ZK_MIXED 1
#else
#define ZK_MIXED 0
#endif

#if defined(ZK_TYPED) && ZK_MIXED
layout(constant_id = 2) const uint T0 = 12;
layout(constant_id = 3) const uint T1 = 14;
#elif defined(ZK_TYPED)
#if ZK_F32
const uint T0 = QT_F32;
#elif ZK_F16
const uint T0 = QT_F16;
#elif ZK_Q4_0
const uint T0 = QT_Q4_0;
#elif ZK_Q4_1
const uint T0 = QT_Q4_1;
#elif ZK_Q5_0
const uint T0 = QT_Q5_0;
#elif ZK_Q5_1
const uint T0 = QT_Q5_1;
#elif ZK_Q8_0
const uint T0 = QT_Q8_0;
#elif ZK_Q2_K
const uint T0 = QT_Q2_K;
#elif ZK_Q3_K
const uint T0 = QT_Q3_K;
#elif ZK_Q4_K
const uint T0 = QT_Q4_K;
#elif ZK_Q5_K
const uint T0 = QT_Q5_K;
#elif ZK_Q6_K
const uint T0 = QT_Q6_K;
#elif ZK_IQ4_NL
const uint T0 = QT_IQ4_NL;
#elif ZK_IQ4_XS
const uint T0 = QT_IQ4_XS;
#elif ZK_BF16
const uint T0 = QT_BF16;
#elif ZK_MXFP4
const uint T0 = QT_MXFP4;
#endif
const uint T1 = T0;
#endif

#endif
