/* tools/metalsim/indirect.c: indirect command buffers: dispatches that are recorded once. Source: Apple, "Indirect command
 * encoding"; MTLIndirectCommandTypeConcurrentDispatch is 1 << 5. */
#include <stdlib.h>

#include "tools/metalsim/sim.h"

enum { CONCURRENT_DISPATCH = 1 << 5, SHARED_MAX = 32 << 10 };

struct indirect_descriptor { struct obj o; unsigned long types, buffers; bool inherit_pipeline, inherit_buffers; };
static void set_types(struct indirect_descriptor *d, SEL s, unsigned long v) { d->types = v; }
static void set_inherit_pipeline(struct indirect_descriptor *d, SEL s, bool v) { d->inherit_pipeline = v; }
static void set_inherit_buffers(struct indirect_descriptor *d, SEL s, bool v) { d->inherit_buffers = v; }
static void set_buffers(struct indirect_descriptor *d, SEL s, unsigned long v) { d->buffers = v; }
static struct method descriptor_methods[] = {
    METHOD("setCommandTypes:", set_types), METHOD("setInheritPipelineState:", set_inherit_pipeline),
    METHOD("setInheritBuffers:", set_inherit_buffers), METHOD("setMaxKernelBufferBindCount:", set_buffers), { 0 } };
extern const struct class indirect_descriptor_class, indirect_command_class;
const struct class indirect_descriptor_class = { .name = "MTLIndirectCommandBufferDescriptor", .bytes = sizeof(struct indirect_descriptor),
                                                 .methods = descriptor_methods };

/* ---- a command ---- */

struct command { struct obj o; struct indirect *of; struct dispatch *d; };
static void command_free(struct obj *o) { sim_release(((struct command *)o)->of); }
static void set_pipeline(struct command *c, SEL s, struct pipeline *p)
{
    RULE(p && p->o.isa == &pipeline_class, s->name, "not a compute pipeline");
    RULE(p->indirect, s->name, "the pipeline was made without supportIndirectCommandBuffers");
    c->d->p = p;
}
static void set_buffer(struct command *c, SEL s, struct buffer *b, unsigned long off, unsigned long at)
{
    RULE(b && b->o.isa == &buffer_class && at == 0 && off < b->bytes && off % 4 == 0, s->name, "offset %lu at index %lu", off, at);
    c->d->args = b;
    c->d->off = off;
}
static void set_shared(struct command *c, SEL s, unsigned long n, unsigned long at)
{
    RULE(at == 0 && n % 16 == 0 && n <= SHARED_MAX, s->name, "%lu bytes: a multiple of 16, at most %d", n, SHARED_MAX);
    c->d->shared = (uint32_t)n;
}
static void set_barrier(struct command *c, SEL s)
{
    sim_stats.barriers++;
    c->d->after_barrier = true;
}
static void dispatch(struct command *c, SEL s, struct sim_size groups, struct sim_size threads)
{
    sim_check_dispatch(c->d, groups, threads, s->name);
    c->d->groups[0] = (uint32_t)groups.x;
    c->d->groups[1] = (uint32_t)groups.y;
    c->d->groups[2] = (uint32_t)groups.z;
    c->d->threads = (uint32_t)(threads.x * threads.y * threads.z);
}
static struct method command_methods[] = {
    METHOD("setComputePipelineState:", set_pipeline), METHOD("setKernelBuffer:offset:atIndex:", set_buffer),
    METHOD("setThreadgroupMemoryLength:atIndex:", set_shared), METHOD("setBarrier", set_barrier),
    METHOD("concurrentDispatchThreadgroups:threadsPerThreadgroup:", dispatch), { 0 } };
const struct class indirect_command_class = { .name = "MTLIndirectComputeCommand", .bytes = sizeof(struct command), .destroy = command_free,
                                              .methods = command_methods };

/* ---- the buffer ---- */

static void indirect_free(struct obj *o) { free(((struct indirect *)o)->d); }
static void *command_at(struct indirect *x, SEL s, unsigned long i)
{
    RULE(i < x->n, s->name, "command %lu of %lu", i, x->n);
    struct command *c = sim_new(&indirect_command_class);
    sim_retain(x);
    c->of = x;
    c->d = &x->d[i];
    return sim_autorelease(c);
}
static struct method indirect_methods[] = { METHOD("indirectComputeCommandAtIndex:", command_at), { 0 } };
const struct class indirect_class = { .name = "MTLIndirectCommandBuffer", .bytes = sizeof(struct indirect), .destroy = indirect_free,
                                      .methods = indirect_methods };

void *sim_indirect_new(void *descriptor, unsigned long n, unsigned long options)
{
    const struct indirect_descriptor *d = descriptor;
    const char *what = "newIndirectCommandBufferWithDescriptor:";
    RULE(d && d->types == CONCURRENT_DISPATCH, what, "command types 0x%lx, concurrent dispatches are 0x20", d ? d->types : 0);
    RULE(!d->inherit_pipeline && !d->inherit_buffers && d->buffers && d->buffers <= 31, what, "inherits, or binds %lu buffers", d->buffers);
    RULE(n, what, "no commands");
    if (sim_options.chip == 0) /* "Apple Paravirtual device" has none */
        return NULL;
    struct indirect *x = sim_new(&indirect_class);
    x->n = n;
    if (!(x->d = calloc(n, sizeof *x->d)))
        abort();
    return x;
}
