/* Cooperative matrices from NVIDIA's SPIR-V to Khronos's: a whole small module word by word, and what is refused. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/run.h"

int tool_main(void);
#define main tool_main
#include "tools/gen/spirv_khr.c"
#undef main

#define OP(op, words) (words) << 16 | (op)
#define NV_NAME  0x5f565053, 0x635f564e, 0x65706f6f, 0x69746172, 0x6d5f6576, 0x69727461, 0x78 /* SPV_NV_cooperative_matrix */
#define KHR_NAME 0x5f565053, 0x5f52484b, 0x706f6f63, 0x74617265, 0x5f657669, 0x7274616d, 0x7869

/* Ids: 1 uint, 2 scope, 3 rows, 4 columns, 5 half, 6 float, 7 and 8 true and false, 10 11 12 the types of a, b and c;
 * 20 a pointer, 21 the stride, 30 a, 31 b, 32 c, 33 the product. */
#define HEAD(bound) MAGIC, 0x10500, 0, bound, 0
#define TYPES                                                                                                          \
    OP(21, 4), 1, 32, 0, OP(43, 4), 1, 2, 3, OP(50, 4), 1, 3, 16, OP(50, 4), 1, 4, 16, OP(22, 3), 5, 16,               \
        OP(22, 3), 6, 32, OP(20, 2), 9, OP(41, 3), 9, 7, OP(42, 3), 9, 8
static const uint32_t nv[] = {
    HEAD(40), OP(17, 2), 5357, OP(10, 8), NV_NAME, OP(5, 3), 10, 0x61, TYPES,
    OP(5358, 6), 10, 5, 2, 3, 4, OP(5358, 6), 11, 5, 2, 4, 3, OP(5358, 6), 12, 6, 2, 3, 3,
    OP(44, 4), 12, 32, 6,
    OP(52, 5), 1, 34, 5362, 12,
    OP(5359, 6), 10, 30, 20, 21, 8,                 /* rows of a, no access */
    OP(5359, 8), 11, 31, 20, 21, 7, 0x30, 2,        /* columns of b, with an access and its scope */
    OP(5361, 6), 12, 33, 30, 31, 32,
    OP(5360, 7), 20, 33, 21, 7, 0x28, 2,
    OP(5362, 4), 1, 35, 12,
};
static const uint32_t khr[] = {
    HEAD(43), OP(17, 2), 6022, OP(10, 8), KHR_NAME, OP(5, 3), 10, 0x61, TYPES,
    OP(43, 4), 1, 40, 0, OP(43, 4), 1, 41, 1, OP(43, 4), 1, 42, 2,
    OP(4456, 7), 10, 5, 2, 3, 4, 40, OP(4456, 7), 11, 5, 2, 4, 3, 41, OP(4456, 7), 12, 6, 2, 3, 3, 42,
    OP(44, 4), 12, 32, 6,
    OP(52, 5), 1, 34, 4460, 12,
    OP(4457, 6), 10, 30, 20, 40, 21,
    OP(4457, 8), 11, 31, 20, 41, 21, 0x30, 2,
    OP(4459, 6), 12, 33, 30, 31, 32,
    OP(4458, 7), 20, 33, 41, 21, 0x28, 2,
    OP(4460, 4), 1, 35, 12,
};

static void take(const uint32_t *w, size_t n)
{
    memcpy(in, w, n * sizeof *w);
    n_in = (uint32_t)n;
    convert();
}

START_TEST(module)
{
    take(nv, sizeof nv / sizeof *nv);
    ck_assert_uint_eq(n_out, sizeof khr / sizeof *khr);
    for (size_t i = 0; i < n_out; i++)
        ck_assert_msg(out[i] == khr[i], "word %zu: %#x, should be %#x", i, out[i], khr[i]);
}
END_TEST

START_TEST(without_matrices)
{
    static const uint32_t w[] = { HEAD(10), TYPES };
    take(w, sizeof w / sizeof *w);
    ck_assert_uint_eq(n_out, sizeof w / sizeof *w);
    ck_assert_mem_eq(out, w, sizeof w);
}
END_TEST

/* The tool ends with 1 and says why. */
static void refused(const uint32_t *w, size_t n)
{
    int status;
    pid_t child = fork();
    if (!child) {
        fclose(stderr);
        take(w, n);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

START_TEST(refusals)
{
    enum { N = sizeof nv / sizeof *nv };
    uint32_t w[N];
    memcpy(w, nv, sizeof w);
    for (size_t i = 0; i + 5 < N; i++)
        if (w[i] == (OP(5361, 6)))
            w[i + 4] = 30; /* one type for two operands */
    refused(w, N);
    refused(nv, N - 1);
    memcpy(w, nv, sizeof w);
    w[0] = 0x03022307;
    refused(w, N);
}
END_TEST

int main(void)
{
    return RUN_TESTS("spirv_khr", module, without_matrices, refusals);
}
