/* metal/driver.c: where libobjc and Metal are. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "metal/objc.h"

struct objc objc;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    { "objc_msgSend", offsetof(struct objc, send) },
    { "objc_getClass", offsetof(struct objc, class_of) },
    { "sel_registerName", offsetof(struct objc, selector) },
    { "objc_autoreleasePoolPush", offsetof(struct objc, pool_push) },
    { "objc_autoreleasePoolPop", offsetof(struct objc, pool_pop) },
    { "MTLCreateSystemDefaultDevice", offsetof(struct objc, default_device) },
    { "MTLCopyAllDevices", offsetof(struct objc, all_devices) },
    { "dispatch_data_create", offsetof(struct objc, data) },
};
static const char *const selectors[] = {
#define MESSAGE0(fn, selector, ret) selector,
#define MESSAGE1(fn, selector, ret, A) selector,
#define MESSAGE2(fn, selector, ret, A, B) selector,
#define MESSAGE3(fn, selector, ret, A, B, C) selector,
#define MESSAGE4(fn, selector, ret, A, B, C, D) selector,
#include "metal/messages.def"
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int open_rc;
static struct err open_error;

/* The frameworks lie in the system's shared cache: dlopen finds them there, stat does not. CoreGraphics: without it a
 * program without windows may be given no device (Apple, "MTLCreateSystemDefaultDevice"). */
static void load_frameworks(void)
{
#ifdef __APPLE__
    static const char *const paths[] = {
        "/usr/lib/libobjc.A.dylib",
        "/System/Library/Frameworks/Foundation.framework/Foundation",
        "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
        "/System/Library/Frameworks/Metal.framework/Metal",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL);
#endif
}

static void open_once(void)
{
#if defined(__APPLE__) && defined(__x86_64__)
    open_rc = err_set(&open_error, -ENODEV, "Macs with Intel processors are not supported, those with Apple silicon are");
    return;
#endif
    load_frameworks();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (!p) {
            open_rc = err_set(&open_error, -ENODEV, "there is no Metal here (%s): it needs macOS 15 on Apple silicon",
                              symbols[i].name);
            return;
        }
        memcpy((char *)&objc + symbols[i].at, &p, sizeof p);
    }
    for (int i = 0; i < OBJC_MESSAGES; i++)
        objc.sel[i] = objc.selector(selectors[i]);
}

int objc_open(struct err *e)
{
    pthread_once(&once, open_once);
    if (open_rc && e)
        *e = open_error;
    return open_rc;
}
