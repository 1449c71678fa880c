/* tools/gen/kernel_lists.c: the kernels' lists as the build wants them, run in the repository's root.
 *     kernel_lists make       for mk/kernels.mk and mk/vulkan.mk: the modules, and what each is made from
 *     kernel_lists threads    "k_name threads module" a line, for PTX and for the AMD compiler */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct kernel {
    const char *name, *module, *threads;
    enum { ALL, SM90, MMA8 } for_; /* SM90: only sm_90a; MMA8: PTX and the host */
};
static const struct kernel kernels[] = {
#define KERNEL(name, module, args, threads) { #name, #module, #threads, ALL },
#define KERNEL_SM90(name, module, args, threads) { #name, #module, #threads, SM90 },
#define KERNEL_MMA8(name, module, args, threads) { #name, #module, #threads, MMA8 },
#include "kernels/kernels.def"
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

static int first_of_its_module(int i)
{
    for (int j = 0; j < i; j++)
        if (strcmp(kernels[j].module, kernels[i].module) == 0)
            return 0;
    return 1;
}

static void print_modules(const char *variable, int for_)
{
    printf("%s :=", variable);
    for (int i = 0; i < N_KERNELS; i++)
        if ((int)kernels[i].for_ == for_ && first_of_its_module(i))
            printf(" %s", kernels[i].module);
    printf("\n");
}

/* A module is kernels/MODULE.c, or FILE_SET of kernels/FILE.c. 0: neither is there. */
static int print_source(const char *module)
{
    char path[256];
    for (size_t n = strlen(module); n > 0; n--) {
        snprintf(path, sizeof path, "kernels/%.*s.c", (int)n, module);
        if ((module[n] && module[n] != '_') || access(path, R_OK))
            continue;
        printf("source_%s := %s\n", module, path);
        if (module[n])
            printf("set_%s := -DKD_SET=%s\n", module, module + n + 1);
        return 1;
    }
    fprintf(stderr, "kernels/kernels.def: module %s has no source in kernels/\n", module);
    return 0;
}

/* A shader is vk/shaders/NAME.comp, or of VK_TYPED one for each set of weight types (vk/shaders/types.glsl). */
struct shader {
    const char *name;
    int typed;
};
static const struct shader shaders[] = {
#define VK_KERNEL(name, args) { #name, 0 },
#define VK_TYPED(name, args) { #name, 1 },
#include "vk/kernels.def"
};
static const char *const sets[] = {
#define QTYPE(name, lower, set, ...) #set,
#define QTYPE_PAIR(set, ...) #set,
#include "kernels/qtypes.def"
    "any",
    "book",
};
enum { N_SHADERS = sizeof shaders / sizeof *shaders, N_SETS = sizeof sets / sizeof *sets };

static void print_shaders(void)
{
    for (int i = 0; i < N_SHADERS; i++) {
        const char *name = shaders[i].name;
        if (!shaders[i].typed)
            printf("SHADERS += %s\nshader_%s := vk/shaders/%s.comp\n", name, name, name);
        for (int k = 0; k < N_SETS && shaders[i].typed; k++) {
            printf("SHADERS += %s_%s\nshader_%s_%s := vk/shaders/%s.comp\n", name, sets[k], name, sets[k], name);
            printf("shader_set_%s_%s := -DZK_TYPED -DZK_SET_%s\n", name, sets[k], sets[k]);
        }
    }
}

static int print_for_make(void)
{
    printf("# made by tools/gen/kernel_lists.c\n");
    print_modules("MODULES", ALL);
    print_modules("MODULES_SM90", SM90);
    print_modules("MODULES_MMA8", MMA8);
    for (int i = 0; i < N_KERNELS; i++)
        if (first_of_its_module(i) && !print_source(kernels[i].module))
            return 1;
    print_shaders();
    return 0;
}

static int print_threads(void)
{
    for (int i = 0; i < N_KERNELS; i++)
        printf("k_%s %s %s\n", kernels[i].name, kernels[i].threads, kernels[i].module);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    return strcmp(what, "make") == 0 ? print_for_make() : strcmp(what, "threads") == 0 ? print_threads() : 2;
}
