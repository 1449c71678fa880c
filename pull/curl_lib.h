/* pull/curl_lib.h: libcurl, opened when something is asked of the network for the first time: other commands start without it,
 * and zinc runs where it is not installed. Only where ZINC_CURL is defined. */
#ifndef ZINC_PULL_CURL_LIB_H
#define ZINC_PULL_CURL_LIB_H

#define CURL_DISABLE_TYPECHECK /* its macros know the functions by their names */
#include <curl/curl.h>

#include "base/err.h"

#define CURL_LIB_LIST(X)                                                                                               \
    X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_perform) X(easy_cleanup) X(easy_strerror) X(multi_init)         \
    X(multi_add_handle) X(multi_perform) X(multi_poll) X(multi_wakeup) X(easy_pause) X(multi_info_read) X(multi_remove_handle) X(multi_cleanup)      \
    X(slist_append) X(slist_free_all) X(url) X(url_set) X(url_get) X(url_cleanup) X(free)

struct curl_lib {
#define X(name) __typeof__(&curl_##name) name;
    CURL_LIB_LIST(X)
#undef X
};
extern struct curl_lib curl_lib;

/* 0; -ENOSYS: it is not installed, or too old. Any thread, any number of times. */
int curl_lib_open(struct err *e);

#endif
