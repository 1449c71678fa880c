/* tools/gen/msl_host.c: a kernel's Metal text as C++ for the host, with the table by which tools/metalsim finds it.
 *     msl_host MODULE <MODULE.metal >MODULE.cc
 * The text is as it is embedded, but for [[threadgroup(0)]]: `threadgroup` is a macro there. It stands in a namespace, since
 * each module has a struct kd_item of its own. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char binding[] = " [[threadgroup(0)]]", threads[] = "[[max_total_threads_per_threadgroup(", entry[] = "kernel void ";

/* FNV-1a (Fowler, Noll, Vo), as tools/metalsim looks a text up. */
static uint64_t hash_of(const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return h;
}

static void put_text(const char *s)
{
    for (const char *at; (at = strstr(s, binding)); s = at + strlen(binding))
        fwrite(s, 1, (size_t)(at - s), stdout);
    fputs(s, stdout);
}

/* The entries, by the line of their attribute. */
static int put_kernels(const char *s, const char *module)
{
    int n = 0;
    for (; (s = strstr(s, threads)); n++) {
        s += strlen(threads);
        const char *name = strstr(s, entry);
        if (!name)
            break;
        name += strlen(entry);
        int len = (int)strcspn(name, "(");
        printf("    { \"%.*s\", %d, msim_run, (const void *)&msl_%s::%.*s },\n", len, name, atoi(s), module, len, name);
    }
    return n;
}

int main(int argc, char **argv)
{
    size_t n = 0, cap = 4 << 20;
    char *text = argc == 2 ? malloc(cap) : NULL;
    if (!text || !(n = fread(text, 1, cap - 1, stdin)) || n == cap - 1) {
        fputs("usage: msl_host MODULE <MODULE.metal; at most 4 MiB\n", stderr);
        return 2;
    }
    text[n] = 0;
    printf("#include \"tools/metalsim/kernels.h\"\n#include <metal_stdlib>\nnamespace msl_%s {\n", argv[1]);
    put_text(text);
    printf("}\nstatic const struct msim_kernel kernels[] = {\n");
    int count = put_kernels(text, argv[1]);
    printf("};\nextern \"C\" const struct msim_module msim_module_%s = { 0x%llxu, %zu, \"%s\", kernels, %d };\n", argv[1],
           (unsigned long long)hash_of(text, n), n, argv[1], count);
    free(text);
    return count ? 0 : 1;
}
