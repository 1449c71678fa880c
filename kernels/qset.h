/* kernels/qset.h
 * The set of weight types that this object is compiled for, by -DKD_SET=q4k: the type or the two types of a row of
 * kernels/qtypes.def, or `any`, all of them. A kernel's name ends in its set's, so that objects can be told apart.
 *
 *     QSET_KERNEL(k_matvec_, _r1, kl_matvec)                  k_matvec_q4k_r1
 *     {
 *         QSET_FOR(a.type[m], mv_stream(type, ...))           `type` is a constant that equals a.type[m]
 *     }
 *
 * QSET_A, QSET_B  the set's types: the same one in a set of one type; none in `any`
 * QSET_ANY        1 in the set `any`, whose QSET_FOR has a.type[m] itself as `type`
 * QSET_PAIR       1 in the sets of two types: kernels for routers and experts are left out
 * QSET_ALONE      the type of a set of one type, else F32 */
#ifndef ZINC_KERNELS_QSET_H
#define ZINC_KERNELS_QSET_H

#include "kernels/kdev.h"
#include "kernels/qtypes.h"

#ifndef KD_SET
#error "KD_SET is not defined"
#endif

enum { /* QSET_A_q4k ... */
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, ...) QSET_A_##set = QT_##NAME, QSET_B_##set = QT_##NAME,
#define QTYPE_PAIR(set, A, B)       QSET_A_##set = QT_##A, QSET_B_##set = QT_##B,
#include "kernels/qtypes.def"
    QSET_A_opened = QT_OPENED, QSET_B_opened = QT_OPENED
};

#define QSET_PASTE2(a, b, c) a##b##c
#define QSET_PASTE(a, b, c)  QSET_PASTE2(a, b, c)
#define QSET_A               ((enum qtype)QSET_PASTE(QSET_A_, KD_SET, ))
#define QSET_B               ((enum qtype)QSET_PASTE(QSET_B_, KD_SET, ))

/* For #if, which knows no enumerators. */
#define QSET_IS_any          1
#define QSET_IS_PAIR_q4k_q6k 1
#define QSET_IS_PAIR_q5k_q6k 1
#if QSET_PASTE(QSET_IS_, KD_SET, )
#define QSET_ANY 1
#else
#define QSET_ANY 0
#endif
#if QSET_PASTE(QSET_IS_PAIR_, KD_SET, )
#define QSET_PAIR 1
#else
#define QSET_PAIR 0
#endif

#if QSET_ANY || QSET_PAIR
#define QSET_ALONE QT_F32
#else
#define QSET_ALONE QSET_A
#endif

#define QSET_WITH(t, ...)                                                                                              \
    {                                                                                                                  \
        const uint32_t type = (t);                                                                                     \
        __VA_ARGS__;                                                                                                   \
    }
#if QSET_ANY
#define QSET_FOR(t, ...) QSET_WITH(t, __VA_ARGS__)
#elif QSET_PAIR
#define QSET_FOR(t, ...)                                                                                               \
    if ((t) == QSET_A)                                                                                                 \
        QSET_WITH(QSET_A, __VA_ARGS__)                                                                                 \
    else                                                                                                               \
        QSET_WITH(QSET_B, __VA_ARGS__)
#else
#define QSET_FOR(t, ...) QSET_WITH(QSET_A, __VA_ARGS__)
#endif

#define QSET_ENTRY(name, args)       KD_KERNEL(name, args) /* a step between, so that the name is put together first */
#define QSET_KERNEL(head, end, args) QSET_ENTRY(QSET_PASTE(head, KD_SET, end), args)

#endif
