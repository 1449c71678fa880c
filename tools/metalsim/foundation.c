/* tools/metalsim/foundation.c: NSString, NSError, NSArray, NSURL, NSProcessInfo, dispatch_data_t, and the list of all classes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/metalsim/sim.h"

/* ---- NSString ---- */

static void string_free(struct obj *o) { free(((struct string *)o)->s); }
static void *with_utf8(const struct class *c, SEL sel, const char *s) { return sim_string(s); }
static const char *utf8(struct string *s, SEL sel) { return s->s; }
static struct method string_own[] = { METHOD("stringWithUTF8String:", with_utf8), { 0 } };
static struct method string_methods[] = { METHOD("UTF8String", utf8), { 0 } };
static const struct class string_class = { .name = "NSString", .bytes = sizeof(struct string), .destroy = string_free,
                                           .methods = string_methods, .own = string_own };

void *sim_string(const char *s)
{
    RULE(s, "stringWithUTF8String:", "the text is NULL");
    struct string *o = sim_new(&string_class);
    if (!(o->s = strdup(s)))
        abort();
    return sim_autorelease(o);
}

/* ---- NSError ---- */

struct error { struct obj o; char *domain, *text; long code; };
static void error_free(struct obj *o)
{
    free(((struct error *)o)->domain);
    free(((struct error *)o)->text);
}
static long error_code(struct error *e, SEL s) { return e->code; }
static void *error_domain(struct error *e, SEL s) { return sim_string(e->domain); }
static void *error_text(struct error *e, SEL s) { return sim_string(e->text); }
static struct method error_methods[] = { METHOD("code", error_code), METHOD("domain", error_domain),
                                         METHOD("localizedDescription", error_text), { 0 } };
static const struct class error_class = { .name = "NSError", .bytes = sizeof(struct error), .destroy = error_free,
                                          .methods = error_methods };

void *sim_error(const char *domain, long code, const char *text)
{
    struct error *e = sim_new(&error_class);
    e->domain = strdup(domain);
    e->text = strdup(text);
    e->code = code;
    return sim_autorelease(e);
}

/* ---- NSArray ---- */

static void array_free(struct obj *o)
{
    struct array *a = (struct array *)o;
    for (unsigned long i = 0; i < a->n; i++)
        sim_release(a->item[i]);
    free(a->item);
}
static unsigned long count(struct array *a, SEL s) { return a->n; }
static void *at(struct array *a, SEL s, unsigned long i)
{
    RULE(i < a->n, s->name, "index %lu beyond bounds", i);
    return a->item[i];
}
static void *with_objects(const struct class *c, SEL s, void *const *item, unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        RULE(item[i], s->name, "item %lu is nil", i);
    return sim_autorelease(sim_array(item, n));
}
static struct method array_own[] = { METHOD("arrayWithObjects:count:", with_objects), { 0 } };
static struct method array_methods[] = { METHOD("count", count), METHOD("objectAtIndex:", at), { 0 } };
const struct class array_class = { .name = "NSArray", .bytes = sizeof(struct array), .destroy = array_free, .methods = array_methods,
                                   .own = array_own };

void *sim_array(void *const *item, unsigned long n)
{
    struct array *a = sim_new(&array_class);
    if (!(a->item = calloc(n + 1, sizeof *item)))
        abort();
    for (; a->n < n; a->n++)
        sim_retain(a->item[a->n] = item[a->n]);
    return a;
}

/* ---- NSURL, NSProcessInfo ---- */

static void url_free(struct obj *o) { free(((struct url *)o)->path); }
static void *of_path(const struct class *c, SEL s, struct string *path)
{
    RULE(path && path->s[0], s->name, "the path is nil or empty");
    struct url *u = sim_new(&url_class);
    if (!(u->path = strdup(path->s)))
        abort();
    return sim_autorelease(u);
}
static struct method url_own[] = { METHOD("fileURLWithPath:", of_path), { 0 } };
const struct class url_class = { .name = "NSURL", .bytes = sizeof(struct url), .destroy = url_free, .methods = (struct method[]){ { 0 } },
                                 .own = url_own };

static void *os_version(void *o, SEL s)
{
    char text[64];
    snprintf(text, sizeof text, "Version %d.0 (Build %dA1)", sim_options.macos, sim_options.macos + 9);
    return sim_string(text);
}
extern const struct class process_class;
static void *process_info(const struct class *c, SEL s) { return sim_autorelease(sim_new(&process_class)); }
static struct method process_own[] = { METHOD("processInfo", process_info), { 0 } };
static struct method process_methods[] = { METHOD("operatingSystemVersionString", os_version), { 0 } };
const struct class process_class = { .name = "NSProcessInfo", .bytes = sizeof(struct obj), .methods = process_methods, .own = process_own };

/* ---- dispatch_data_t, which is an object like others ---- */

static void data_free(struct obj *o) { free(((struct data *)o)->p); }
const struct class data_class = { .name = "OS_dispatch_data", .bytes = sizeof(struct data), .destroy = data_free,
                                  .methods = (struct method[]){ { 0 } } };

__attribute__((visibility("default"))) void *dispatch_data_create(const void *p, size_t n, void *queue, void *destructor);
void *dispatch_data_create(const void *p, size_t n, void *queue, void *destructor)
{
    RULE(!destructor, "dispatch_data_create", "metalsim copies the bytes, and calls no destructor");
    struct data *d = sim_new(&data_class);
    if (!(d->p = malloc(n + 1)))
        abort();
    memcpy(d->p, p, n);
    d->n = n;
    return d;
}

/* Labels that nobody asks for. */
void sim_no_label(void *o, SEL s, void *label) {}

/* ---- all of them ---- */

extern const struct class device_class, options_class, library_class, function_class, archive_descriptor_class, residency_descriptor_class,
    command_buffer_class, encoder_class, indirect_descriptor_class, indirect_command_class;
extern const struct class *const sim_classes[];
const struct class *const sim_classes[] = {
    &string_class, &error_class, &array_class, &device_class, &options_class, &library_class, &function_class,
    &pipeline_descriptor_class, &pipeline_class, &buffer_class, &residency_descriptor_class, &residency_class, &queue_class,
    &command_buffer_class, &encoder_class, &event_class, &fence_class, &indirect_descriptor_class, &indirect_class,
    &indirect_command_class, &url_class, &process_class, &data_class, &archive_descriptor_class, &archive_class, NULL,
};
