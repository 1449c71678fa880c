/* base/check.h
 * CHECK guards our own invariants: always compiled, prints both values, aborts. Input from files, the network or a
 * device is never CHECKed: that is what err_set is for. */
#ifndef ZINC_BASE_CHECK_H
#define ZINC_BASE_CHECK_H

__attribute__((cold, noreturn, format(printf, 3, 4))) void check_fail(const char *file, int line, const char *fmt,
                                                                      ...);

#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (__builtin_expect(!(cond), 0))                                                                              \
            check_fail(__FILE__, __LINE__, "%s", #cond);                                                               \
    } while (0)

/* Compares as unsigned 64-bit and prints both sides. */
#define CHECK_EQ_U64(got, want)                                                                                        \
    do {                                                                                                               \
        unsigned long long got_ = (got), want_ = (want);                                                               \
        if (__builtin_expect(got_ != want_, 0))                                                                        \
            check_fail(__FILE__, __LINE__, "%s: got %llu, want %llu (%s)", #got, got_, want_, #want);                  \
    } while (0)

#endif
