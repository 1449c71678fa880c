/* tools/metalsim/foundation.c: NSString, NSArray, NSError, and the list of all classes. */
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

/* ---- all of them ---- */

extern const struct class array_class, device_class, options_class, library_class, function_class, pipeline_descriptor_class,
    residency_descriptor_class, command_buffer_class, encoder_class, indirect_descriptor_class, indirect_command_class;
extern const struct class *const sim_classes[];
const struct class *const sim_classes[] = {
    &string_class, &error_class, &array_class, &device_class, &options_class, &library_class, &function_class,
    &pipeline_descriptor_class, &pipeline_class, &buffer_class, &residency_descriptor_class, &residency_class, &queue_class,
    &command_buffer_class, &encoder_class, &event_class, &fence_class, &indirect_descriptor_class, &indirect_class,
    &indirect_command_class, NULL,
};
