/* tools/metalsim/device.c: MTLDevice and what it makes: buffers, libraries, pipelines, residency sets.
 * A buffer has two mappings of one memory, the host's (contents) and the GPU's (gpuAddress): mistaking one for the other, or
 * reaching what is not resident, is a fault. Sources: Apple's documentation of each class; metal-cpp for signatures. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/metalsim/kernels.h"
#include "tools/metalsim/sim.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    PAGE = 16 << 10, BUFFER_MAX_SHARE = 2, WORKING_SET_PERCENT = 75, SHARED_MAX = 32 << 10, THREADS_MAX = 1024,
    STORAGE_SHARED = 0, STORAGE_PRIVATE = 2, HAZARD_MAX = 2, FAIL_ON_MISS = 1 << 2,
};

static uint64_t allocated;
static struct buffer *buffers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- MTLBuffer ---- */

static void protect(struct buffer *b, bool resident)
{
    if (b->resident != resident)
        mprotect(b->gpu, b->bytes, resident ? PROT_READ | PROT_WRITE : PROT_NONE);
    b->resident = resident;
}

static void buffer_free(struct obj *o)
{
    struct buffer *b = (struct buffer *)o;
    pthread_mutex_lock(&lock);
    for (struct buffer **at = &buffers; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    allocated -= b->bytes;
    pthread_mutex_unlock(&lock);
    munmap(b->cpu, b->bytes);
    munmap(b->gpu, b->bytes);
}
static void *contents(struct buffer *b, SEL s) { return b->cpu; }
static uint64_t gpu_address(struct buffer *b, SEL s) { return (uintptr_t)b->gpu; }
static unsigned long buffer_length(struct buffer *b, SEL s) { return b->bytes; }
static void buffer_label(struct buffer *b, SEL s, struct string *label)
{
    snprintf(b->label, sizeof b->label, "%s", label ? label->s : "");
}
static struct method buffer_methods[] = { METHOD("contents", contents), METHOD("gpuAddress", gpu_address), METHOD("length", buffer_length),
                                          METHOD("setLabel:", buffer_label), { 0 } };
const struct class buffer_class = { .name = "MTLBuffer", .bytes = sizeof(struct buffer), .destroy = buffer_free, .methods = buffer_methods };

const struct buffer *sim_buffer_at(uint64_t va)
{
    const struct buffer *found = NULL;
    pthread_mutex_lock(&lock);
    for (const struct buffer *b = buffers; b && !found; b = b->next)
        if (va - (uintptr_t)b->gpu < b->bytes)
            found = b;
    pthread_mutex_unlock(&lock);
    return found;
}

static unsigned long max_buffer(void *d, SEL s) { return sim_options.memory / BUFFER_MAX_SHARE; }

static void *new_buffer(void *d, SEL s, unsigned long n, unsigned long opt)
{
    unsigned long storage = opt >> 4 & 15, hazard = opt >> 8 & 3;
    RULE(n && n <= max_buffer(d, s), "newBufferWithLength:", "%lu bytes, 1 to %lu are allowed", n, max_buffer(d, s));
    RULE((storage == STORAGE_SHARED || storage == STORAGE_PRIVATE) && hazard <= HAZARD_MAX && !(opt & ~0x3fful), "newBufferWithLength:",
         "options 0x%lx are no storage mode of Apple silicon with a hazard mode", opt);
    struct buffer *b = sim_new(&buffer_class);
    b->bytes = (n + PAGE - 1) / PAGE * PAGE;
    int fd = memfd_create("metalsim", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)b->bytes))
        abort();
    b->cpu = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    b->gpu = mmap(NULL, b->bytes, PROT_NONE, MAP_SHARED, fd, 0);
    close(fd);
    if (b->cpu == MAP_FAILED || b->gpu == MAP_FAILED)
        abort();
    pthread_mutex_lock(&lock);
    b->next = buffers;
    buffers = b;
    allocated += b->bytes;
    pthread_mutex_unlock(&lock);
    return b;
}

/* ---- MTLResidencySet: what was added counts from commit on, for queues that it was added to ---- */

static void residency_free(struct obj *o)
{
    free(((struct residency *)o)->member);
    free(((struct residency *)o)->pending);
}
static void push(struct buffer ***list, int *n, int *cap, struct buffer *b)
{
    if (*n == *cap) {
        *cap = *cap ? 2 * *cap : 16;
        if (!(*list = realloc(*list, (size_t)*cap * sizeof **list)))
            abort();
    }
    (*list)[(*n)++] = b;
}
static void take_out(struct buffer **list, int *n, const struct buffer *b)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == b)
            list[i--] = list[--*n];
}
static void set_add(struct residency *r, SEL s, struct buffer *b)
{
    RULE(b && b->o.isa == &buffer_class, "addAllocation:", "not a buffer");
    push(&r->pending, &r->n_pending, &r->cap_pending, b);
}
static void set_remove(struct residency *r, SEL s, struct buffer *b) { take_out(r->pending, &r->n_pending, b); }
static bool holds(struct buffer **list, int n, const struct buffer *b)
{
    for (int i = 0; i < n; i++)
        if (list[i] == b)
            return true;
    return false;
}
static void apply(struct residency *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->member[i]->o.alive == OBJ_ALIVE && !holds(r->pending, r->n_pending, r->member[i]))
            protect(r->member[i], false);
    r->n = 0;
    for (int i = 0; i < r->n_pending; i++) {
        sim_check(r->pending[i], "commit of a residency set");
        push(&r->member, &r->n, &r->cap, r->pending[i]);
        if (r->attached)
            protect(r->pending[i], true);
    }
}
static void set_commit(struct residency *r, SEL s) { apply(r); }
static void set_request(struct residency *r, SEL s) {}
void sim_residency_attach(struct residency *r)
{
    RULE(r && r->o.isa == &residency_class, "addResidencySet:", "not a residency set");
    r->attached = true;
    for (int i = 0; i < r->n; i++)
        protect(r->member[i], true);
}
static struct method residency_methods[] = { METHOD("addAllocation:", set_add), METHOD("removeAllocation:", set_remove),
                                             METHOD("commit", set_commit), METHOD("requestResidency", set_request), { 0 } };
const struct class residency_class = { .name = "MTLResidencySet", .bytes = sizeof(struct residency), .destroy = residency_free,
                                       .methods = residency_methods, .macos = 15 };

static struct method residency_descriptor_methods[] = { METHOD("setLabel:", sim_no_label), { 0 } };
const struct class residency_descriptor_class = { .name = "MTLResidencySetDescriptor", .bytes = sizeof(struct obj),
                                                  .methods = residency_descriptor_methods, .macos = 15 };
static void *new_residency(void *d, SEL s, void *descriptor, void **error)
{
    RULE(descriptor, "newResidencySetWithDescriptor:error:", "the descriptor is nil");
    return sim_new(&residency_class);
}

/* ---- MTLLibrary, MTLFunction ---- */

struct compile_options { struct obj o; unsigned long language; long math, functions; };
static void set_language(struct compile_options *o, SEL s, unsigned long v) { o->language = v; }
static void set_math(struct compile_options *o, SEL s, long v) { o->math = v; }
static void set_functions(struct compile_options *o, SEL s, long v) { o->functions = v; }
static struct method options_methods[] = { METHOD("setLanguageVersion:", set_language), METHOD("setMathMode:", set_math),
                                           METHOD("setMathFloatingPointFunctions:", set_functions), { 0 } };
const struct class options_class = { .name = "MTLCompileOptions", .bytes = sizeof(struct compile_options), .methods = options_methods };

struct library { struct obj o; const struct msim_module *m; };
const struct class function_class = { .name = "MTLFunction", .bytes = sizeof(struct function), .methods = (struct method[]){ { 0 } } };

static void *new_function(struct library *l, SEL s, struct string *name)
{
    for (uint32_t i = 0; i < l->m->n_kernels; i++)
        if (strcmp(l->m->kernels[i].name, name->s) == 0) {
            struct function *f = sim_new(&function_class);
            f->k = &l->m->kernels[i];
            f->m = l->m;
            return f;
        }
    return NULL;
}
static struct method library_methods[] = { METHOD("newFunctionWithName:", new_function), { 0 } };
const struct class library_class = { .name = "MTLLibrary", .bytes = sizeof(struct library), .methods = library_methods };

/* 3.2 came with macOS 15, 4.0 with 26. */
static unsigned long language_here(void)
{
    return sim_options.macos >= 26 ? 4 << 16 : sim_options.macos >= 15 ? 3 << 16 | 2 : sim_options.macos >= 14 ? 3 << 16 | 1 : 3 << 16;
}

static void *new_library(void *d, SEL s, struct string *text, struct compile_options *o, void **error)
{
    const struct msim_module *m = msim_module_find(text->s, strlen(text->s));
    const char *why = NULL;
    if (o && o->language > language_here())
        why = "error: this version of macOS does not know that language version";
    else if (!m)
        why = "program_source:1:1: error: metalsim runs the texts that were built with it, and this is none of them";
    else if (o && o->math != 0)
        why = "error: metalsim computes in safe mode alone";
    if (why) {
        if (error)
            *error = sim_error("MTLLibraryErrorDomain", 3, why);
        return NULL;
    }
    struct library *l = sim_new(&library_class);
    l->m = m;
    sim_stats.libraries++;
    return l;
}

/* A metallib of metalsim's is "MTLB", as Apple's begin, and the text. */
static void *new_library_data(void *d, SEL s, struct data *data, void **error)
{
    RULE(data && data->o.isa == &data_class, s->name, "not a dispatch_data_t");
    const struct msim_module *m = NULL;
    if (data->n > 4 && memcmp(data->p, "MTLB", 4) == 0)
        m = msim_module_find((const char *)data->p + 4, data->n - 4);
    if (!m) {
        if (error)
            *error = sim_error("MTLLibraryErrorDomain", 1, "Invalid library file");
        return NULL;
    }
    struct library *l = sim_new(&library_class);
    l->m = m;
    return l;
}

/* ---- MTLComputePipelineState ---- */

static void descriptor_free(struct obj *o)
{
    sim_release(((struct pipeline_descriptor *)o)->f);
    sim_release(((struct pipeline_descriptor *)o)->archives);
}
static void set_archives(struct pipeline_descriptor *p, SEL s, struct array *a)
{
    RULE(!a || a->o.isa == &array_class, s->name, "not an NSArray");
    for (unsigned long i = 0; a && i < a->n; i++)
        RULE(((struct obj *)a->item[i])->isa == &archive_class, s->name, "item %lu is no binary archive", i);
    sim_retain(a);
    sim_release(p->archives);
    p->archives = a;
}
static void set_function(struct pipeline_descriptor *p, SEL s, struct function *f)
{
    sim_retain(f);
    sim_release(p->f);
    p->f = f;
}
static void set_whole(struct pipeline_descriptor *p, SEL s, bool on) { p->whole = on; }
static void set_threads(struct pipeline_descriptor *p, SEL s, unsigned long n)
{
    RULE(n <= THREADS_MAX, "setMaxTotalThreadsPerThreadgroup:", "%lu, at most %d", n, THREADS_MAX);
    p->threads = n;
}
static void set_indirect(struct pipeline_descriptor *p, SEL s, bool on) { p->indirect = on; }
static struct method descriptor_methods[] = {
    METHOD("setSupportIndirectCommandBuffers:", set_indirect),
    METHOD("setComputeFunction:", set_function), METHOD("setThreadGroupSizeIsMultipleOfThreadExecutionWidth:", set_whole),
    METHOD("setMaxTotalThreadsPerThreadgroup:", set_threads), METHOD("setBinaryArchives:", set_archives),
    METHOD("setLabel:", sim_no_label), { 0 } };
const struct class pipeline_descriptor_class = { .name = "MTLComputePipelineDescriptor", .bytes = sizeof(struct pipeline_descriptor),
                                                 .destroy = descriptor_free, .methods = descriptor_methods };

static unsigned long max_threads(struct pipeline *p, SEL s) { return p->threads; }
static unsigned long width(struct pipeline *p, SEL s) { return 32; }
static struct method pipeline_methods[] = { METHOD("maxTotalThreadsPerThreadgroup", max_threads), METHOD("threadExecutionWidth", width), { 0 } };
const struct class pipeline_class = { .name = "MTLComputePipelineState", .bytes = sizeof(struct pipeline), .methods = pipeline_methods };

static void *new_pipeline(void *d, SEL s, struct pipeline_descriptor *p, unsigned long options, void **reflection, void **error)
{
    RULE(p && p->f, "newComputePipelineStateWithDescriptor:", "the descriptor has no function");
    RULE(!(options & ~(unsigned long)FAIL_ON_MISS), "newComputePipelineStateWithDescriptor:", "options 0x%lx", options);
    bool archived = sim_archived(p);
    if (options & FAIL_ON_MISS && p->archives && !archived) {
        if (error)
            *error = sim_error("AGXMetal", 1, "the pipeline is in none of its binary archives");
        return NULL;
    }
    sim_stats.compiled += !archived;
    struct pipeline *x = sim_new(&pipeline_class);
    x->k = p->f->k;
    x->threads = p->threads && p->threads < x->k->threads ? p->threads : x->k->threads;
    x->indirect = p->indirect;
    sim_stats.pipelines++;
    return x;
}

/* ---- MTLDevice ---- */

static struct device { struct obj o; } the_device;
static void *device_name(void *d, SEL s)
{
    char name[32];
    snprintf(name, sizeof name, "Apple M%d", sim_options.chip);
    return sim_string(name);
}
static bool supports(void *d, SEL s, long family)
{
    static const long newest[] = { 0, 1007, 1008, 1009, 1009, 1010 };
    if (family > 1000 && family < 1100)
        return family <= newest[sim_options.chip < 1 || sim_options.chip > 5 ? 1 : sim_options.chip];
    return family == 2002 || family == 5001 || (family == 5002 && sim_options.macos >= 26);
}
static bool unified(void *d, SEL s) { return true; }
static uint64_t working_set(void *d, SEL s) { return sim_options.memory / 100 * WORKING_SET_PERCENT; }
static unsigned long allocated_size(void *d, SEL s) { return allocated; }
static unsigned long max_shared(void *d, SEL s) { return SHARED_MAX; }
static void *new_queue(void *d, SEL s) { return sim_queue_new(); }
static void *new_indirect(void *d, SEL s, void *descriptor, unsigned long n, unsigned long opt) { return sim_indirect_new(descriptor, n, opt); }
static void *new_archive(void *d, SEL s, void *descriptor, void **error) { return sim_archive_new(descriptor, error); }
static void *new_event(void *d, SEL s) { return sim_new(&event_class); }
static void *new_fence(void *d, SEL s) { return sim_new(&fence_class); }
static struct method device_methods[] = {
    METHOD("name", device_name), METHOD("supportsFamily:", supports), METHOD("hasUnifiedMemory", unified),
    METHOD("recommendedMaxWorkingSetSize", working_set), METHOD("currentAllocatedSize", allocated_size),
    METHOD("maxBufferLength", max_buffer), METHOD("maxThreadgroupMemoryLength", max_shared), METHOD("newCommandQueue", new_queue),
    METHOD("newIndirectCommandBufferWithDescriptor:maxCommandCount:options:", new_indirect), METHOD("newSharedEvent", new_event), METHOD("newFence", new_fence),
    METHOD("newBufferWithLength:options:", new_buffer),
    METHOD("newLibraryWithSource:options:error:", new_library), METHOD("newLibraryWithData:error:", new_library_data),
    METHOD("newBinaryArchiveWithDescriptor:error:", new_archive),
    METHOD("newComputePipelineStateWithDescriptor:options:reflection:error:", new_pipeline),
    METHOD("newResidencySetWithDescriptor:error:", new_residency), { 0 } };
extern const struct class device_class;
const struct class device_class = { .name = "MTLDevice", .bytes = sizeof(struct device), .methods = device_methods };

EXPORT void *MTLCreateSystemDefaultDevice(void);
EXPORT void *MTLCreateSystemDefaultDevice(void)
{
    if (sim_options.no_device)
        return NULL;
    if (!the_device.o.isa)
        the_device.o = (struct obj){ .isa = &device_class, .alive = OBJ_ALIVE, .refs = 1 };
    sim_retain(&the_device);
    return &the_device;
}

EXPORT void *MTLCopyAllDevices(void);
EXPORT void *MTLCopyAllDevices(void)
{
    void *device = MTLCreateSystemDefaultDevice(), *all = sim_array(&device, device != NULL);
    sim_release(device);
    return all;
}
