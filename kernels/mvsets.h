/* kernels/mvsets.h: the sets of weight types that the decode products are compiled for, by KD_SET_<set>. */
#ifndef ZINC_KERNELS_MVSETS_H
#define ZINC_KERNELS_MVSETS_H

/* MV_SET: the set's name. MV_FOR(t, ...): the statement with `type` as a constant that equals t. */
#define MV_ONE(T, ...)                                                                                                 \
    {                                                                                                                  \
        const uint32_t type = QT_##T;                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }
#define MV_CASE(T, ...)                                                                                                \
    case QT_##T: MV_ONE(T, __VA_ARGS__) break;
#define MV_TWO(t, A, B, ...)                                                                                           \
    if ((t) == QT_##A)                                                                                                 \
        MV_ONE(A, __VA_ARGS__)                                                                                         \
    else                                                                                                               \
        MV_ONE(B, __VA_ARGS__)

#if defined(KD_SET_f32)
#define MV_SET f32
#define MV_FOR(t, ...) MV_ONE(F32, __VA_ARGS__)
#elif defined(KD_SET_f16)
#define MV_SET f16
#define MV_FOR(t, ...) MV_ONE(F16, __VA_ARGS__)
#elif defined(KD_SET_bf16)
#define MV_SET bf16
#define MV_FOR(t, ...) MV_ONE(BF16, __VA_ARGS__)
#elif defined(KD_SET_q40)
#define MV_SET q40
#define MV_FOR(t, ...) MV_ONE(Q4_0, __VA_ARGS__)
#elif defined(KD_SET_q41)
#define MV_SET q41
#define MV_FOR(t, ...) MV_ONE(Q4_1, __VA_ARGS__)
#elif defined(KD_SET_q50)
#define MV_SET q50
#define MV_FOR(t, ...) MV_ONE(Q5_0, __VA_ARGS__)
#elif defined(KD_SET_q51)
#define MV_SET q51
#define MV_FOR(t, ...) MV_ONE(Q5_1, __VA_ARGS__)
#elif defined(KD_SET_q80)
#define MV_SET q80
#define MV_FOR(t, ...) MV_ONE(Q8_0, __VA_ARGS__)
#elif defined(KD_SET_q2k)
#define MV_SET q2k
#define MV_FOR(t, ...) MV_ONE(Q2_K, __VA_ARGS__)
#elif defined(KD_SET_q3k)
#define MV_SET q3k
#define MV_FOR(t, ...) MV_ONE(Q3_K, __VA_ARGS__)
#elif defined(KD_SET_q4k)
#define MV_SET q4k
#define MV_FOR(t, ...) MV_ONE(Q4_K, __VA_ARGS__)
#elif defined(KD_SET_q5k)
#define MV_SET q5k
#define MV_FOR(t, ...) MV_ONE(Q5_K, __VA_ARGS__)
#elif defined(KD_SET_q6k)
#define MV_SET q6k
#define MV_FOR(t, ...) MV_ONE(Q6_K, __VA_ARGS__)
#elif defined(KD_SET_iq4nl)
#define MV_SET iq4nl
#define MV_FOR(t, ...) MV_ONE(IQ4_NL, __VA_ARGS__)
#elif defined(KD_SET_iq4xs)
#define MV_SET iq4xs
#define MV_FOR(t, ...) MV_ONE(IQ4_XS, __VA_ARGS__)
#elif defined(KD_SET_mxfp4)
#define MV_SET mxfp4
#define MV_FOR(t, ...) MV_ONE(MXFP4, __VA_ARGS__)
#elif defined(KD_SET_q4k_q6k)
#define MV_SET q4k_q6k
#define MV_FOR(t, ...) MV_TWO(t, Q4_K, Q6_K, __VA_ARGS__)
#define MV_NO_MOE
#elif defined(KD_SET_q5k_q6k)
#define MV_SET q5k_q6k
#define MV_FOR(t, ...) MV_TWO(t, Q5_K, Q6_K, __VA_ARGS__)
#define MV_NO_MOE
#elif defined(KD_SET_any)
#define MV_SET any
#define MV_ANY 1
#define MV_FOR(t, ...)                                                                                                 \
    switch (t) {                                                                                                       \
        MV_CASE(F32, __VA_ARGS__)                                                                                      \
        MV_CASE(F16, __VA_ARGS__)                                                                                      \
        MV_CASE(BF16, __VA_ARGS__)                                                                                     \
        MV_CASE(Q4_0, __VA_ARGS__)                                                                                     \
        MV_CASE(Q4_1, __VA_ARGS__)                                                                                     \
        MV_CASE(Q5_0, __VA_ARGS__)                                                                                     \
        MV_CASE(Q5_1, __VA_ARGS__)                                                                                     \
        MV_CASE(Q8_0, __VA_ARGS__)                                                                                     \
        MV_CASE(Q2_K, __VA_ARGS__)                                                                                     \
        MV_CASE(Q3_K, __VA_ARGS__)                                                                                     \
        MV_CASE(Q4_K, __VA_ARGS__)                                                                                     \
        MV_CASE(Q5_K, __VA_ARGS__)                                                                                     \
        MV_CASE(Q6_K, __VA_ARGS__)                                                                                     \
        MV_CASE(IQ4_NL, __VA_ARGS__)                                                                                   \
        MV_CASE(IQ4_XS, __VA_ARGS__)                                                                                   \
        MV_CASE(MXFP4, __VA_ARGS__)                                                                                    \
    default: break;                                                                                                    \
    }
#else
#error "KD_SET_<set> is not defined"
#endif
#ifndef MV_ANY
#define MV_ANY 0
#endif

#define MV_PASTE2(a, b, c) a##b##c
#define MV_PASTE(a, b, c)  MV_PASTE2(a, b, c)
#define MV_NAME(kernel, end) MV_PASTE(kernel, MV_SET, end)
#define MV_KERNEL(name, args) KD_KERNEL(name, args) /* a step in between, so that the name is put together first */

#endif
