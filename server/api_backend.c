/* The API as a back end of HTTP. */
#include "server/backend.h"

static void *begin(void *self, const struct api_call *c) { return api_begin(self, c); }
static int status(void *x) { return api_status(x); }
static const char *content_type(void *x) { return api_content_type(x); }
static bool streams(void *x) { return api_streams(x); }
static size_t length(void *x) { return api_length(x); }
static bool keep_alive(void *x, uint64_t quiet_ns) { return api_keep_alive(x, quiet_ns); }
static uint32_t retry_after(void *x) { return api_retry_after(x); }
static ssize_t read_some(void *x, char *buf, size_t cap) { return api_read(x, buf, cap); }
static struct api_usage usage(void *x) { return api_usage(x); }
static void end(void *x) { api_end(x); }

const struct backend_ops api_backend = {
    .methods = api_methods, .begin = begin, .status = status, .content_type = content_type, .streams = streams,
    .length = length, .keep_alive = keep_alive, .retry_after = retry_after, .read = read_some, .usage = usage, .end = end,
};
