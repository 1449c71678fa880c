/* tools/metalsim/sim.h: private to tools/metalsim/: objects, classes and rules of the stand-in for Apple's runtime.
 * A class is a table of methods; a method is a C function `result name(struct obj *self, SEL, arguments)`, which objc_msgSend
 * (objc.c) jumps to with the caller's arguments as they are. An object is a struct that begins with struct obj. */
#ifndef ZINC_METALSIM_SIM_H
#define ZINC_METALSIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef const struct sim_selector *SEL;
struct sim_selector { const char *name; };
struct sim_size { unsigned long x, y, z; };
struct sim_range { unsigned long at, n; };

struct obj;
typedef void (*sim_fn)(void);
struct method { const char *selector; sim_fn fn; SEL sel; };
struct class {
    const char *name;
    size_t bytes;
    void (*destroy)(struct obj *o);
    struct method *methods;     /* of its objects; ends with { NULL } */
    struct method *own;         /* of the class itself, or NULL */
    int macos;                  /* the first version that has it; 0: all */
};
struct obj {
    const struct class *isa;
    uint32_t alive;             /* OBJ_ALIVE, or what became of it */
    _Atomic int refs;
};
enum { OBJ_ALIVE = 0x4f424a31, OBJ_DEAD = 0x44454144 };

#define METHOD(selector, fn) { selector, (sim_fn)(fn), NULL }

/* objc.c */
void *sim_new(const struct class *c);           /* one reference, the caller's */
void sim_retain(void *o);
void sim_release(void *o);                      /* NULL is fine */
void *sim_autorelease(void *o);                 /* the newest pool's from now on */
void sim_check(const void *o, const char *what); /* alive? */

/* foundation.c */
struct string { struct obj o; char *s; };
void *sim_string(const char *s);                /* autoreleased */
void *sim_error(const char *domain, long code, const char *text); /* autoreleased */
struct array { struct obj o; void **item; unsigned long n; };
struct url { struct obj o; char *path; };
struct data { struct obj o; uint8_t *p; size_t n; }; /* a dispatch_data_t */
extern const struct class array_class, url_class, data_class;
void *sim_array(void *const *item, unsigned long n); /* the caller's; holds its items */
void sim_no_label(void *o, SEL s, void *label);

/* rules.c */
struct options { int macos, chip, inject, inject_at; bool no_device, shuffle, overlap, trace; uint64_t memory; };
enum { INJECT_NONE, INJECT_TIMEOUT, INJECT_MEMORY, INJECT_HANG, INJECT_SERIALIZE };
extern struct options sim_options;
extern struct stats { _Atomic uint64_t messages, objects, command_buffers, dispatches, barriers, libraries, pipelines, compiled; } sim_stats;
enum { SIM_BROKEN = 86 };
/* A rule of Metal's was broken: one line, and the process ends with SIM_BROKEN. */
__attribute__((noreturn, format(printf, 2, 3))) void sim_broken(const char *rule, const char *fmt, ...);
#define RULE(ok, rule, ...) ((ok) ? (void)0 : sim_broken(rule, __VA_ARGS__))

/* device.c */
struct buffer { struct obj o; uint8_t *cpu, *gpu; uint64_t bytes; bool resident; char label[64]; struct buffer *next; };
struct function { struct obj o; const struct msim_kernel *k; const struct msim_module *m; };
struct pipeline { struct obj o; const struct msim_kernel *k; unsigned long threads; bool indirect; };
struct pipeline_descriptor { struct obj o; struct function *f; struct array *archives; unsigned long threads; bool whole, indirect; };
extern const struct class pipeline_descriptor_class;
extern const struct class buffer_class, pipeline_class, event_class, fence_class, queue_class;
const struct buffer *sim_buffer_at(uint64_t va); /* the buffer that the GPU sees there, or NULL */
struct residency { struct obj o; struct buffer **member, **pending; int n, n_pending, cap, cap_pending; bool attached; };
extern const struct class residency_class;
void sim_residency_attach(struct residency *r);
void *sim_queue_new(void);

/* archive.c */
extern const struct class archive_class;
bool sim_archived(const struct pipeline_descriptor *p); /* one of its archives has the pipeline */
void *sim_archive_new(void *descriptor, void **error);

/* queue.c */
struct dispatch { struct pipeline *p; struct buffer *args; uint64_t off; uint32_t groups[3], threads, shared; bool after_barrier; };
struct command_buffer;
/* One more dispatch of a command buffer, with all that Metal asks of one checked; `what` is the message. */
void sim_add_dispatch(struct command_buffer *b, struct dispatch d, const char *what);
void sim_check_dispatch(const struct dispatch *d, struct sim_size groups, struct sim_size threads, const char *what);

/* indirect.c */
struct indirect { struct obj o; struct dispatch *d; unsigned long n; };
extern const struct class indirect_class;
void *sim_indirect_new(void *descriptor, unsigned long n, unsigned long options);
struct event { struct obj o; uint64_t value; };
void sim_raise(struct event *e, uint64_t value);

#endif
