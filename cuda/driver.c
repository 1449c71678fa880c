#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct cuda_api api;
static char why[160];
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *missing_symbol(void)
{
    const struct {
        const char *name;
        void **at;
    } symbols[] = {
#define X(member, symbol, args) { symbol, (void **)&api.member },
        CU_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].at = dlsym(api.lib, symbols[i].name)))
            return symbols[i].name;
    return NULL;
}

static void open_driver(void)
{
    api.lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!api.lib) {
        snprintf(why, sizeof why, "no NVIDIA driver here (libcuda.so.1 is not found)");
        return;
    }
    const char *missing = missing_symbol();
    cu_result (*version)(int *) = (cu_result(*)(int *))dlsym(api.lib, "cuDriverGetVersion");
    if (version && version(&api.version) == CU_OK && api.version < CUDA_DRIVER_MIN) {
        snprintf(why, sizeof why, "the NVIDIA driver supports CUDA %d.%d, zinc needs %d.%d: update the driver",
                 api.version / 1000, api.version % 1000 / 10, CUDA_DRIVER_MIN / 1000, CUDA_DRIVER_MIN % 1000 / 10);
        return;
    }
    if (missing) {
        snprintf(why, sizeof why, "the NVIDIA driver has no %s: update the driver", missing);
        return;
    }
    cu_result r = api.init(0);
    if (r == CU_NO_DEVICE)
        snprintf(why, sizeof why, "the NVIDIA driver sees no GPU");
    else if (r)
        snprintf(why, sizeof why, "cuInit: %s", cuda_error(&api, r));
    usable = r == CU_OK;
}

const struct cuda_api *cuda_api_get(char *note, size_t n)
{
    pthread_once(&once, open_driver);
    if (!usable)
        snprintf(note, n, "%s", why);
    return usable ? &api : NULL;
}

const char *cuda_error(const struct cuda_api *cu, cu_result r)
{
    static _Thread_local char text[160];
    const char *name = NULL, *what = NULL;
    if (!cu->error_name || cu->error_name(r, &name) || !name)
        name = "CUDA error";
    if (!cu->error_string || cu->error_string(r, &what) || !what)
        what = "?";
    snprintf(text, sizeof text, "%s (%d: %s)", name, r, what);
    return text;
}
