/* metal/objc.h
 * Messages to Objective-C objects from C. Each message of metal/messages.def is a function that casts objc_msgSend to the
 * message's own prototype, as Apple's documents ask ("Addressing architectural differences in your macOS code"): a call as a
 * variadic function passes its arguments elsewhere on arm64. No message returns a struct.
 *
 *     id pool = objc.pool_push();
 *     id name = device_name(device);                      borrowed: it lives as long as the pool
 *     id queue = device_queue(device);                    ours: alloc, new..., copy and C functions named Create
 *     object_release(queue);
 *     objc.pool_pop(pool);
 *
 * A message to nil does nothing and returns 0. */
#ifndef ZINC_METAL_OBJC_H
#define ZINC_METAL_OBJC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct objc_object *id;
typedef struct objc_selector *SEL;
struct objc_size { unsigned long x, y, z; }; /* MTLSize */
struct objc_range { unsigned long at, n; };   /* NSRange */

enum objc_message {
#define MESSAGE0(fn, selector, ret) M_##fn,
#define MESSAGE1(fn, selector, ret, A) M_##fn,
#define MESSAGE2(fn, selector, ret, A, B) M_##fn,
#define MESSAGE3(fn, selector, ret, A, B, C) M_##fn,
#define MESSAGE4(fn, selector, ret, A, B, C, D) M_##fn,
#include "metal/messages.def"
    OBJC_MESSAGES
};

struct objc {
    void (*send)(void); /* objc_msgSend, which is nothing before it is cast */
    id (*class_of)(const char *name); /* NULL: this system has no such class */
    SEL (*selector)(const char *name);
    void *(*pool_push)(void);
    void (*pool_pop)(void *pool);
    id (*default_device)(void); /* ours, or nil */
    id (*all_devices)(void);    /* an NSArray, ours */
    /* A dispatch_data_t of a copy of n bytes, ours; libdispatch: queue and destructor may be NULL. */
    id (*data)(const void *p, size_t n, void *queue, void *destructor);
    SEL sel[OBJC_MESSAGES];
};
extern struct objc objc;

/* Finds libobjc and Metal: those in the process already, else macOS's own. Once; -ENODEV says why not. From any thread. */
int objc_open(struct err *e);

#define MESSAGE0(fn, selector, ret)                                                                                    \
    static inline ret fn(id o) { return ((ret (*)(id, SEL))objc.send)(o, objc.sel[M_##fn]); }
#define MESSAGE1(fn, selector, ret, A)                                                                                 \
    static inline ret fn(id o, A a) { return ((ret (*)(id, SEL, A))objc.send)(o, objc.sel[M_##fn], a); }
#define MESSAGE2(fn, selector, ret, A, B)                                                                              \
    static inline ret fn(id o, A a, B b) { return ((ret (*)(id, SEL, A, B))objc.send)(o, objc.sel[M_##fn], a, b); }
#define MESSAGE3(fn, selector, ret, A, B, C)                                                                           \
    static inline ret fn(id o, A a, B b, C c)                                                                          \
    {                                                                                                                  \
        return ((ret (*)(id, SEL, A, B, C))objc.send)(o, objc.sel[M_##fn], a, b, c);                                   \
    }
#define MESSAGE4(fn, selector, ret, A, B, C, D)                                                                        \
    static inline ret fn(id o, A a, B b, C c, D d)                                                                     \
    {                                                                                                                  \
        return ((ret (*)(id, SEL, A, B, C, D))objc.send)(o, objc.sel[M_##fn], a, b, c, d);                             \
    }
#include "metal/messages.def"

/* A new object of a class, ours; nil: there is no such class here. */
static inline id objc_new(const char *cls)
{
    return object_init(object_alloc(objc.class_of(cls)));
}
static inline id objc_string(const char *s)
{
    return string_utf8(objc.class_of("NSString"), s);
}
/* "" for nil. */
static inline const char *objc_text(id string)
{
    const char *s = string_bytes(string);
    return s ? s : "";
}

#endif
