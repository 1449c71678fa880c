/* tools/gen/glsl_args.c: kernels/kargs.h and kernels/klaunch.h as GLSL, for the Vulkan kernels (vk/shaders/zk.glsl): the same
 * argument structs, field by field, and the numbers that both sides agree on. Printed to standard output by the build. */
#include <stdio.h>
#include <string.h>

#include "kernels/attn_shared.h"
#include "kernels/klaunch.h"
#include "kernels/qtypes.h"
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
    N(KA_ROPE_NORM) N(KA_ROPE_NEOX) N(KA_KV_F32) N(KA_KV_F16) N(KA_KV_Q8_0) N(KA_KV_BLOCK) N(KA_GDN_MODULO)
    N(KA_GDN_GROUPED) N(KA_SAMPLE_MAX) N(KL_RING) N(KL_DECODE_ROWS) N(GDN_DIM) N(GDN_TAPS)
#undef N
#define X(name, id, elems, bytes, kname) printf("const uint QT_%s = %du;\n", #name, id);
#include "kernels/qtypes.def"
#undef X
    return 0;
}
