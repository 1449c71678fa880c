/* rt/umq/lib.c: libdrm and libdrm_amdgpu, opened when a tier asks for the first time. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "rt/umq/drm.h"

static struct drm_lib lib;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct err why; /* code 0: lib is complete */

static void load(void)
{
    static const char *const names[] = { "libdrm.so.2", "libdrm_amdgpu.so.1" };
    void *so[2];
    for (int i = 0; i < 2; i++)
        if (!(so[i] = dlopen(names[i], RTLD_NOW | RTLD_LOCAL))) {
            err_set(&why, -ENOSYS, "%s cannot be loaded: install libdrm-amdgpu1 (Debian, Ubuntu) or libdrm", names[i]);
            return;
        }
#define X(name)                                                                                                        \
    if (!(lib.name = (__typeof__(&name))dlsym(so[1], #name)) && !(lib.name = (__typeof__(&name))dlsym(so[0], #name))) \
        err_set(&why, -ENOSYS, "libdrm_amdgpu.so.1 has no %s: libdrm 2.4.100 or newer is needed", #name);
    DRM_LIB_LIST(X)
#undef X
}

const struct drm_lib *drm_lib(const char *tier, struct err *e)
{
    pthread_once(&once, load);
    if (!why.code)
        return &lib;
    err_set(e, why.code, "%s: %s", tier, why.msg);
    return NULL;
}
