/* tools/gen/glsl_args.c: kernels/kargs.h, kernels/klaunch.h and kernels/qtypes.def as GLSL, for the Vulkan kernels
 * (vk/shaders/zk.glsl): the same argument structs, field by field, the numbers that both sides agree on, and the table of
 * weight types. Printed to standard output by the build. */
#include <stdio.h>
#include <string.h>

#include "kernels/attn_shared.h"
#include "kernels/klaunch.h"
#include "kernels/matvec_shared.h"
#include "kernels/planes.h"
#include "kernels/sample_shape.h"
#include "vk/vkargs.h"

/* Words that are fields in C and keywords in GLSL: the field gets an underscore. */
static const char *field(const char *name)
{
    static char buf[64];
    static const char *const words[] = { "out", "in", "sample", "shared", "buffer", "patch", "active", "filter", "input", "output" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0) {
            snprintf(buf, sizeof buf, "%s_", name);
            return buf;
        }
    return name;
}

static const char *type_of(const char *c)
{
    return strcmp(c, "gpu_va") == 0 || strcmp(c, "uint64_t") == 0 ? "uint64_t"
           : strcmp(c, "uint32_t") == 0                           ? "uint"
           : strcmp(c, "int32_t") == 0                            ? "int"
                                                                  : c;
}

static void member(const char *type, const char *name, int count)
{
    if (count == 1)
        printf("    %s %s;\n", type_of(type), field(name));
    else
        printf("    %s %s[%d];\n", type_of(type), field(name), count);
}

/* ---- weight types ---- */

static const struct {
    enum qtype t;
    const char *name, *set; /* NULL: of the set `book` alone */
} types[] = {
#define QTYPE(NAME, name, set, ...) { QT_##NAME, #NAME, #set },
#include "kernels/qtypes.def"
#define QTYPE_BOOK(NAME, ...) { QT_##NAME, #NAME, NULL },
#include "kernels/qtypes.def"
    { QT_OPENED, "OPENED", NULL },
};
static const struct {
    enum qtype a, b;
    const char *set;
} pairs[] = {
#define QTYPE_PAIR(set, A, B) { QT_##A, QT_##B, #set },
#include "kernels/qtypes.def"
};
enum { N_TYPES = sizeof types / sizeof *types, N_PAIRS = sizeof pairs / sizeof *pairs };

/* A macro that is true of some types: an expression, since calls are no constants in GLSL. */
static void predicate(const char *name, bool is(enum qtype))
{
    const char *sep = "";
    printf("#define %s(T) (", name);
    for (int i = 0; i < N_TYPES; i++)
        if (is(types[i].t)) {
            printf("%sT == QT_%s", sep, types[i].name);
            sep = " || ";
        }
    puts(")");
}

/* A macro that is a number of each type: types with the same number side by side, 0 for those left. */
static void number(const char *name, uint32_t of(enum qtype, int), int arg)
{
    bool told[N_TYPES] = { false };
    printf("#define %s(T) (", name);
    for (int i = 0; i < N_TYPES; i++) {
        uint32_t v = of(types[i].t, arg);
        if (told[i] || !v)
            continue;
        for (int k = i; k < N_TYPES; k++)
            if (of(types[k].t, arg) == v) {
                printf("%sT == QT_%s", k == i ? "" : " || ", types[k].name);
                told[k] = true;
            }
        printf(" ? %u : ", v);
    }
    puts("0)");
}

static bool is_float(enum qtype t) { return mv_is_float(t); }
static bool is_k(enum qtype t) { return vk_item_elems(t) == 64; }
static bool has_min(enum qtype t) { return qtype_has_min(t); }
static bool has_table(enum qtype t) { return qtype_has_table(t); }
static bool has_runs(enum qtype t) { return qtype_scales(t) >= QS_RUNS; }
static bool is_half(enum qtype t) { return t == QT_OPENED || (!mv_is_float(t) && vk_item_elems(t) == 16); }
static bool is_book(enum qtype t) { return qtype_is_book(t); }
static bool is_256(enum qtype t) { return qtype_block(t) == 256; }
static uint32_t plane(enum qtype t, int i) { return planes_of(t).f[i].len; }

static void set_defines(int i)
{
    struct planes p = planes_of(types[i].t);
    if (types[i].set)
        printf("#if ZK_ALL || defined(ZK_SET_%s)", types[i].set);
    else
        printf("#if ZK_BOOKS");
    for (int k = 0; k < N_PAIRS; k++)
        if (pairs[k].a == types[i].t || pairs[k].b == types[i].t)
            printf(" || defined(ZK_SET_%s)", pairs[k].set);
    printf("\n#define ZK_%s 1\n", types[i].name);
    printf("#define ZK_PLANES_%s case QT_%s: return uvec4(", types[i].name, types[i].name);
    if (p.n)
        printf("%u, %u, %u, %u);\n", p.f[0].len, p.f[1].len, p.f[2].len, p.f[3].len);
    else
        printf("%u, 0, 0, 0);\n", qtype_block_bytes(types[i].t));
    printf("#else\n#define ZK_%s 0\n#define ZK_PLANES_%s\n#endif\n", types[i].name, types[i].name);
    if (types[i].set)
        printf("#ifdef ZK_SET_%s\n#define ZK_TYPE QT_%s\n#endif\n", types[i].set, types[i].name);
}

/* ZK_ALL, ZK_BOOKS, ZK_MIXED, ZK_<type> and ZK_TYPE as vk/shaders/types.glsl tells them; ZK_PLANES: a case for each of the module's
 * types that returns the bytes of a block in each plane. */
static void sets(void)
{
    puts("#if defined(ZK_SET_any) || defined(ZK_SET_book) || !defined(ZK_TYPED)\n#define ZK_ALL 1\n#else\n#define ZK_ALL 0\n#endif");
    puts("#if defined(ZK_SET_book) || defined(ZK_WITH_BOOKS)\n#define ZK_BOOKS 1\n#else\n#define ZK_BOOKS 0\n#endif");
    printf("#if ZK_ALL");
    for (int i = 0; i < N_PAIRS; i++)
        printf(" || defined(ZK_SET_%s)", pairs[i].set);
    puts("\n#define ZK_MIXED 1\n#else\n#define ZK_MIXED 0\n#endif");
    for (int i = 0; i < N_TYPES; i++)
        set_defines(i);
    printf("#define ZK_PLANES");
    for (int i = 0; i < N_TYPES; i++)
        printf(" ZK_PLANES_%s", types[i].name);
    puts("");
}

/* A table of kernels/q_tables.inc as a list of numbers, and as the bytes of words. */
static void codes(const char *name, const int8_t v[16])
{
    printf("#define QT_%s ", name);
    for (int i = 0; i < 16; i++)
        printf("%d%s", v[i], i < 15 ? ", " : "\n");
    printf("#define QT_%s_words ", name);
    for (int i = 0; i < 16; i += 4)
        printf("0x%02x%02x%02x%02xu%s", (uint8_t)v[i + 3], (uint8_t)v[i + 2], (uint8_t)v[i + 1], (uint8_t)v[i],
               i < 12 ? ", " : "\n");
}

/* Where each codebook begins, in words of the buffer that has them all (vk/load.c). */
static void books(void)
{
    uint32_t at = 0;
#define BOOK(name, shape, ...)                                                                                         \
    printf("const uint BOOK_%s = %u;\n", #name, at);                                                                   \
    at += sizeof(uint32_t shape) / sizeof(uint32_t);
#include "kernels/codebooks.inc"
}

static void weight_types(void)
{
    for (int i = 0; i < N_TYPES; i++)
        printf("const uint QT_%s = %du;\n", types[i].name, (int)types[i].t);
    predicate("QT_IS_FLOAT", is_float);
    predicate("QT_IS_K", is_k);
    predicate("QT_HAS_MIN", has_min);
    predicate("QT_HAS_TABLE", has_table);
    predicate("QT_HAS_RUNS", has_runs);
    predicate("QT_IS_256", is_256);
    predicate("QT_IS_HALF", is_half);
    predicate("QT_IS_BOOK", is_book);
    number("QT_PLANE0", plane, 0);
    number("QT_PLANE1", plane, 1);
    number("QT_PLANE2", plane, 2);
    sets();
#define TABLE(type, name, n, ...) codes(#name, (const type[n]){ __VA_ARGS__ });
#include "kernels/q_tables.inc"
}

int main(void)
{
    puts("/* made by tools/gen/glsl_args.c from kernels/kargs.h, kernels/klaunch.h and vk/vkargs.h */");
#define FIELD(type, name, count, kind) member(#type, #name, count);
#define X(sname, list)                                                                                                 \
    printf("struct %s {\n", #sname);                                                                                   \
    list(FIELD)                                                                                                        \
    puts("};");
    KL_LIST(X)
    VK_LIST(X)
#undef X
    puts("struct ka_row { int token; uint pos, slot, reserved; };");
    puts("struct ka_step { uint n_rows, n_out, kv_len, reserved[13]; };");
    puts("struct ka_sample { float temp; uint top_k; float top_p, min_p; uint seed, counter, quiet, reserved; };");
#define N(name) printf("const uint %s = %uu;\n", #name, (unsigned)(name));
    N(ROWS_STEP) N(ROWS_OUT) N(KA_SILU) N(KA_GELU_TANH) N(KA_SWIGLU_OAI) N(KA_SOFTMAX_TOPK) N(KA_TOPK_SOFTMAX)
    N(KA_ROPE_NORM) N(KA_ROPE_NEOX) N(KA_KV_F32) N(KA_KV_F16) N(KA_KV_Q8_0) N(KA_KV_FP8) N(KA_KV_Q4_0)
    N(KA_KV_ROT4) N(KA_KV_BLOCK) N(KA_GDN_MODULO)
    N(KA_GDN_GROUPED) N(KA_STREAMS) N(KA_ALTUP_PREDICT) N(KA_ALTUP_FIRST) N(KA_SAMPLE_MAX) N(KL_RING) N(KL_DECODE_ROWS) N(GDN_DIM) N(GDN_TAPS)
#undef N
    weight_types();
    books();
    return 0;
}
