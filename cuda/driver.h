/* cuda/driver.h: private to cuda/
 * The part of the CUDA Driver API that zinc calls, found in libcuda.so.1 at run time, so that a binary built anywhere
 * starts anywhere. Types and numbers: NVIDIA's CUDA Driver API reference (the ABI is stable within a function's _vN). */
#ifndef ZINC_CUDA_DRIVER_H
#define ZINC_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_ptr;
typedef struct cu_ctx_st *cu_ctx;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_module_st *cu_module;
typedef struct cu_func_st *cu_func;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_exec_st *cu_exec;

enum {
    CU_OK = 0,
    CU_OUT_OF_MEMORY = 2,
    CU_NO_DEVICE = 100,
    CU_NOT_READY = 600,
};
enum {
    CU_ATTR_CLOCK_KHZ = 13,
    CU_ATTR_CORES = 16,
    CU_ATTR_L2_BYTES = 38,
    CU_ATTR_CC_MAJOR = 75,
    CU_ATTR_CC_MINOR = 76,
    CU_ATTR_SHARED_PER_CORE = 81,
    CU_ATTR_SHARED_PER_GROUP = 97, /* with opting in */
};
enum { CU_FUNC_LOCAL_BYTES = 3, CU_FUNC_REGS = 4, CU_FUNC_MAX_DYNAMIC_SHARED = 8 };
enum { CU_JIT_ERROR_LOG = 5, CU_JIT_ERROR_LOG_BYTES = 6 };
enum { CU_STREAM_NON_BLOCKING = 1, CU_CAPTURE_THREAD_LOCAL = 1, CU_HOST_MAPPED = 2, CU_HOST_PORTABLE = 1 };
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_NO_TIMING = 2 };
enum { CU_LAUNCH_COOPERATIVE = 2, CU_LAUNCH_PROGRAMMATIC = 6 };

struct cu_launch_attr {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative;  /* CU_LAUNCH_COOPERATIVE: all work-groups are on the device at once, or the launch fails */
        int programmatic; /* CU_LAUNCH_PROGRAMMATIC: the launch may begin before its predecessor ends */
    } value;
};
struct cu_launch {
    unsigned grid[3], block[3], shared_bytes;
    cu_stream stream;
    struct cu_launch_attr *attrs;
    unsigned n_attrs;
};
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };
struct cu_side { /* of a copy of rows */
    size_t x, y;
    int kind;
    void *host;
    cu_ptr device;
    void *array;
    size_t pitch;
};
struct cu_copy_2d {
    struct cu_side src, dst;
    size_t width, rows;
};
_Static_assert(sizeof(struct cu_copy_2d) == 128, "CUDA driver ABI");
_Static_assert(sizeof(struct cu_launch_attr) == 72 && sizeof(struct cu_launch) == 56, "CUDA driver ABI");

/* X(member, symbol, arguments) */
#define CU_FUNCTIONS(X)                                                                                                \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(driver_version, "cuDriverGetVersion", (int *version))                                                            \
    X(error_name, "cuGetErrorName", (cu_result r, const char **name))                                                  \
    X(error_string, "cuGetErrorString", (cu_result r, const char **text))                                              \
    X(device_count, "cuDeviceGetCount", (int *n))                                                                      \
    X(device_get, "cuDeviceGet", (cu_device *d, int index))                                                            \
    X(device_name, "cuDeviceGetName", (char *name, int n, cu_device d))                                                \
    X(device_attr, "cuDeviceGetAttribute", (int *v, int attr, cu_device d))                                            \
    X(device_mem, "cuDeviceTotalMem_v2", (size_t *bytes, cu_device d))                                                 \
    X(ctx_retain, "cuDevicePrimaryCtxRetain", (cu_ctx *c, cu_device d))                                                \
    X(ctx_release, "cuDevicePrimaryCtxRelease_v2", (cu_device d))                                                      \
    X(ctx_set, "cuCtxSetCurrent", (cu_ctx c))                                                                          \
    X(mem_info, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total))                                                \
    X(mem_alloc, "cuMemAlloc_v2", (cu_ptr *p, size_t n))                                                               \
    X(mem_free, "cuMemFree_v2", (cu_ptr p))                                                                            \
    X(host_alloc, "cuMemHostAlloc", (void **p, size_t n, unsigned flags))                                              \
    X(host_free, "cuMemFreeHost", (void *p))                                                                           \
    X(host_device, "cuMemHostGetDevicePointer_v2", (cu_ptr *d, void *p, unsigned flags))                               \
    X(to_device, "cuMemcpyHtoD_v2", (cu_ptr d, const void *s, size_t n))                                               \
    X(to_device_async, "cuMemcpyHtoDAsync_v2", (cu_ptr d, const void *s, size_t n, cu_stream q))                       \
    X(to_host, "cuMemcpyDtoH_v2", (void *d, cu_ptr s, size_t n))                                                       \
    X(copy_2d, "cuMemcpy2D_v2", (const struct cu_copy_2d *c))                                                 \
    X(copy_async, "cuMemcpyDtoDAsync_v2", (cu_ptr d, cu_ptr s, size_t n, cu_stream q))                                 \
    X(set_bytes, "cuMemsetD8_v2", (cu_ptr d, unsigned char v, size_t n))                                               \
    X(stream_create, "cuStreamCreate", (cu_stream *q, unsigned flags))                                                 \
    X(stream_destroy, "cuStreamDestroy_v2", (cu_stream q))                                                             \
    X(stream_sync, "cuStreamSynchronize", (cu_stream q))                                                               \
    X(stream_query, "cuStreamQuery", (cu_stream q))                                                                    \
    X(capture_begin, "cuStreamBeginCapture_v2", (cu_stream q, int mode))                                               \
    X(capture_end, "cuStreamEndCapture", (cu_stream q, cu_graph *g))                                                   \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", (cu_exec *x, cu_graph g, unsigned long long flags))            \
    X(graph_upload, "cuGraphUpload", (cu_exec x, cu_stream q))                                                         \
    X(graph_launch, "cuGraphLaunch", (cu_exec x, cu_stream q))                                                         \
    X(graph_destroy, "cuGraphDestroy", (cu_graph g))                                                                   \
    X(exec_destroy, "cuGraphExecDestroy", (cu_exec x))                                                                 \
    X(event_create, "cuEventCreate", (cu_event *v, unsigned flags))                                                    \
    X(event_record, "cuEventRecord", (cu_event v, cu_stream q))                                                        \
    X(event_sync, "cuEventSynchronize", (cu_event v))                                                                  \
    X(event_ms, "cuEventElapsedTime", (float *ms, cu_event a, cu_event b))                                             \
    X(event_destroy, "cuEventDestroy_v2", (cu_event v))                                                                \
    X(module_load, "cuModuleLoadDataEx", (cu_module *m, const void *image, unsigned n, int *opts, void **values))      \
    X(module_unload, "cuModuleUnload", (cu_module m))                                                                  \
    X(module_function, "cuModuleGetFunction", (cu_func *f, cu_module m, const char *name))                             \
    X(module_global, "cuModuleGetGlobal_v2", (cu_ptr *p, size_t *n, cu_module m, const char *name))                    \
    X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int *n, cu_func f, int threads, size_t shared))       \
    X(func_set, "cuFuncSetAttribute", (cu_func f, int attr, int v))                                                    \
    X(func_attr, "cuFuncGetAttribute", (int *v, int attr, cu_func f))                                                  \
    X(launch, "cuLaunchKernelEx", (const struct cu_launch *l, cu_func f, void **params, void **extra))

struct cuda_api {
    void *lib;
    int version; /* of the driver: 12050 is 12.5 */
#define X(member, symbol, args) cu_result(*member) args;
    CU_FUNCTIONS(X)
#undef X
};

/* What the PTX in the binary needs of a driver: PTX 8.5, CUDA 12.5. */
enum { CUDA_DRIVER_MIN = 12050 };

/* Opened and initialised once for the process; NULL, and the reason in note. */
const struct cuda_api *cuda_api_get(char *note, size_t n);
/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; static or per-thread text. */
const char *cuda_error(const struct cuda_api *cu, cu_result r);

#endif
