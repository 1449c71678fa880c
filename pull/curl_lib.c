#ifdef ZINC_CURL
#include "pull/curl_lib.h"

#include <dlfcn.h>
#include <pthread.h>

struct curl_lib curl_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct err why; /* code 0: curl_lib is complete */

/* Debian has the second one beside, or instead of, the first. */
static void load(void)
{
    void *so = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!so && !(so = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL))) {
        err_set(&why, -ENOSYS, "libcurl.so.4 cannot be loaded, which pulling and serving several models need: install libcurl4 (Debian, Ubuntu) or libcurl");
        return;
    }
#define X(name)                                                                                                        \
    if (!(curl_lib.name = (__typeof__(&curl_##name))dlsym(so, "curl_" #name)))                                         \
        err_set(&why, -ENOSYS, "libcurl.so.4 has no curl_" #name ": libcurl 7.68 or newer is needed");
    CURL_LIB_LIST(X)
#undef X
}

int curl_lib_open(struct err *e)
{
    pthread_once(&once, load);
    return why.code ? err_set(e, why.code, "%s", why.msg) : 0;
}
#endif
