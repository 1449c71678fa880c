/* tools/metalsim/objc.c: the Objective-C runtime: selectors, classes, messages, reference counts, autorelease pools.
 * Source: Apple, "Objective-C Runtime" and "Advanced Memory Management". */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/metalsim/sim.h"

#define EXPORT __attribute__((visibility("default")))

extern const struct class *const sim_classes[]; /* foundation.c, device.c and queue.c; ends with NULL */

/* ---- selectors ---- */

enum { MAX_SELECTORS = 512 };
static struct sim_selector selectors[MAX_SELECTORS];
static int n_selectors;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static SEL intern(const char *name)
{
    for (int i = 0; i < n_selectors; i++)
        if (strcmp(selectors[i].name, name) == 0)
            return &selectors[i];
    if (n_selectors == MAX_SELECTORS || !(selectors[n_selectors].name = strdup(name)))
        abort();
    return &selectors[n_selectors++];
}

static void intern_methods(void)
{
    for (const struct class *const *c = sim_classes; *c; c++) {
        for (struct method *m = (*c)->methods; m->selector; m++)
            m->sel = intern(m->selector);
        for (struct method *m = (*c)->own; m && m->selector; m++)
            m->sel = intern(m->selector);
    }
}

EXPORT SEL sel_registerName(const char *name);
EXPORT SEL sel_registerName(const char *name)
{
    pthread_once(&once, intern_methods);
    pthread_mutex_lock(&lock);
    SEL s = intern(name);
    pthread_mutex_unlock(&lock);
    return s;
}

EXPORT const struct class *objc_getClass(const char *name);
EXPORT const struct class *objc_getClass(const char *name)
{
    for (const struct class *const *c = sim_classes; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return (*c)->macos > sim_options.macos ? NULL : *c;
    return NULL;
}

/* ---- objects ---- */

void *sim_new(const struct class *c)
{
    struct obj *o = calloc(1, c->bytes);
    if (!o)
        abort();
    o->isa = c;
    o->alive = OBJ_ALIVE;
    o->refs = 1;
    sim_stats.objects++;
    return o;
}

void sim_check(const void *p, const char *what)
{
    const struct obj *o = p;
    if (o && o->alive == OBJ_DEAD)
        sim_broken("lifetime", "%s: a %s that was released before", what, o->isa->name);
    if (o && o->alive != OBJ_ALIVE)
        sim_broken("lifetime", "%s: not an object", what);
}

void sim_retain(void *p)
{
    struct obj *o = p;
    if (o)
        o->refs++;
}

/* The memory of the dead is kept, so that messages to them are seen. */
void sim_release(void *p)
{
    struct obj *o = p;
    if (!o)
        return;
    sim_check(o, "release");
    if (--o->refs)
        return;
    if (o->isa->destroy)
        o->isa->destroy(o);
    o->alive = OBJ_DEAD;
}

/* ---- pools ---- */

struct pool { struct pool *below; struct obj **o; int n, cap; };
static _Thread_local struct pool *newest;

EXPORT void *objc_autoreleasePoolPush(void);
EXPORT void *objc_autoreleasePoolPush(void)
{
    struct pool *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->below = newest;
    return newest = p;
}

EXPORT void objc_autoreleasePoolPop(void *pool);
EXPORT void objc_autoreleasePoolPop(void *pool)
{
    RULE(pool && pool == newest, "autorelease pool", "a pool is popped that is not the newest of its thread");
    struct pool *p = newest;
    for (int i = 0; i < p->n; i++)
        sim_release(p->o[i]);
    newest = p->below;
    free(p->o);
    free(p);
}

void *sim_autorelease(void *o)
{
    RULE(newest, "autorelease pool", "an autoreleased %s without a pool leaks", ((struct obj *)o)->isa->name);
    if (newest->n == newest->cap) {
        newest->cap = newest->cap ? 2 * newest->cap : 16;
        if (!(newest->o = realloc(newest->o, (size_t)newest->cap * sizeof *newest->o)))
            abort();
    }
    newest->o[newest->n++] = o;
    return o;
}

/* ---- messages ---- */

static void *do_alloc(const struct class *c, SEL s) { return sim_new(c); }
static void *do_init(struct obj *o, SEL s) { return o; }
static void *do_retain(struct obj *o, SEL s) { return sim_retain(o), o; }
static void do_release(struct obj *o, SEL s) { sim_release(o); }
static struct method of_all[] = { METHOD("init", do_init), METHOD("retain", do_retain), METHOD("release", do_release), { 0 } };

static sim_fn find(const struct method *m, SEL s)
{
    for (; m && m->selector; m++)
        if (m->sel == s || (!m->sel && strcmp(m->selector, s->name) == 0))
            return m->fn;
    return NULL;
}

static bool is_class(const void *o)
{
    for (const struct class *const *c = sim_classes; *c; c++)
        if (*c == o)
            return true;
    return false;
}

__attribute__((visibility("hidden"))) sim_fn msim_lookup(struct obj *o, SEL s);
sim_fn msim_lookup(struct obj *o, SEL s)
{
    const struct class *c = (const struct class *)o;
    sim_fn fn = NULL;
    bool class_message = is_class(o);
    sim_stats.messages++;
    if (class_message) {
        fn = strcmp(s->name, "alloc") == 0 ? (sim_fn)do_alloc : find(c->own, s);
    } else {
        sim_check(o, s->name);
        c = o->isa;
        if (!(fn = find(c->methods, s)))
            fn = find(of_all, s);
    }
    if (sim_options.trace)
        fprintf(stderr, "metalsim: %c[%s %s]\n", class_message ? '+' : '-', c->name, s->name);
    if (!fn) {
        fprintf(stderr, "metalsim: %c[%s %s]: unrecognized selector\n", class_message ? '+' : '-', c->name, s->name);
        abort();
    }
    return fn;
}

/* To the method, with all argument registers and the stack as the caller left them. A message to nil returns 0. */
#if defined(__x86_64__)
__asm__(".text\n.p2align 4\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "    testq %rdi, %rdi\n    jz 1f\n"
        "    pushq %rbp\n    movq %rsp, %rbp\n    subq $192, %rsp\n"
        "    movq %rdi, (%rsp)\n    movq %rsi, 8(%rsp)\n    movq %rdx, 16(%rsp)\n    movq %rcx, 24(%rsp)\n"
        "    movq %r8, 32(%rsp)\n    movq %r9, 40(%rsp)\n    movq %rax, 48(%rsp)\n"
        "    movups %xmm0, 64(%rsp)\n    movups %xmm1, 80(%rsp)\n    movups %xmm2, 96(%rsp)\n    movups %xmm3, 112(%rsp)\n"
        "    movups %xmm4, 128(%rsp)\n    movups %xmm5, 144(%rsp)\n    movups %xmm6, 160(%rsp)\n    movups %xmm7, 176(%rsp)\n"
        "    call msim_lookup\n    movq %rax, %r11\n"
        "    movq (%rsp), %rdi\n    movq 8(%rsp), %rsi\n    movq 16(%rsp), %rdx\n    movq 24(%rsp), %rcx\n"
        "    movq 32(%rsp), %r8\n    movq 40(%rsp), %r9\n    movq 48(%rsp), %rax\n"
        "    movups 64(%rsp), %xmm0\n    movups 80(%rsp), %xmm1\n    movups 96(%rsp), %xmm2\n    movups 112(%rsp), %xmm3\n"
        "    movups 128(%rsp), %xmm4\n    movups 144(%rsp), %xmm5\n    movups 160(%rsp), %xmm6\n    movups 176(%rsp), %xmm7\n"
        "    leave\n    jmp *%r11\n"
        "1:  xorl %eax, %eax\n    xorps %xmm0, %xmm0\n    ret\n"
        ".size objc_msgSend, . - objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n.p2align 2\n.globl objc_msgSend\n.type objc_msgSend, %function\nobjc_msgSend:\n"
        "    cbz x0, 1f\n"
        "    stp x29, x30, [sp, #-224]!\n    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n    stp x2, x3, [sp, #32]\n    stp x4, x5, [sp, #48]\n    stp x6, x7, [sp, #64]\n"
        "    str x8, [sp, #80]\n    stp q0, q1, [sp, #96]\n    stp q2, q3, [sp, #128]\n    stp q4, q5, [sp, #160]\n"
        "    stp q6, q7, [sp, #192]\n"
        "    bl msim_lookup\n    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n    ldp x2, x3, [sp, #32]\n    ldp x4, x5, [sp, #48]\n    ldp x6, x7, [sp, #64]\n"
        "    ldr x8, [sp, #80]\n    ldp q0, q1, [sp, #96]\n    ldp q2, q3, [sp, #128]\n    ldp q4, q5, [sp, #160]\n"
        "    ldp q6, q7, [sp, #192]\n"
        "    ldp x29, x30, [sp], #224\n    br x16\n"
        "1:  mov x0, #0\n    movi d0, #0\n    ret\n"
        ".size objc_msgSend, . - objc_msgSend\n");
#else
#error "metalsim: objc_msgSend for this processor"
#endif
