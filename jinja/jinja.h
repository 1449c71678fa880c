/* jinja/jinja.h
 * Templates in the Jinja that chat templates use: expressions with Python's meaning, for, if, set,
 * macro, call, filter, with, namespaces, break and continue, whitespace control. The language is that of the Jinja
 * 3.1 documentation (https://jinja.palletsprojects.com/en/3.1.x/templates/) with the settings and additions of
 * Hugging Face transformers (its chat_template_utils.py): trim_blocks, lstrip_blocks, loop controls, the
 * `generation` tag, tojson without HTML escapes, raise_exception, strftime_now. There is no autoescaping and there
 * are no files: include, import and extends are refused.
 *
 *     jinja_parse(text, n, &t, &e);
 *     struct jinja_opts o = { .own = own, .data = data };
 *     jinja_render(t, &o, put, user, &e);
 *     jinja_free(t);
 *
 * A template is not trusted: parsing and rendering are bounded in steps, memory, depth and output.
 *
 * Every byte that is put out is either the template's own (its text, its literals, the variables of `own`) or data
 * (what came in by `data`, however it was cut, joined and changed on its way). Who turns the output into tokens
 * must let control tokens come from the template's own bytes alone. */
#ifndef ZINC_JINJA_JINJA_H
#define ZINC_JINJA_JINJA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

struct jinja; /* a parsed template; any number of threads may render it at the same time */

enum { JINJA_MAX_TEXT = 1 << 20 }; /* bytes of a template */

/* -EINVAL: "template line 12: ...", what was expected and what stands there; -E2BIG: longer than JINJA_MAX_TEXT;
 * -ENOMEM. */
int jinja_parse(const char *text, size_t n, struct jinja **out, struct err *e);
void jinja_free(struct jinja *t); /* NULL is fine */

struct jinja_opts {
    const json_t *own;        /* object: variables whose strings are the template's own (bos_token); may be NULL    */
    const json_t *data;       /* object: the other variables; may be NULL                                          */
    const char *const *roles; /* NULL-terminated, may be NULL: a member "role" of `data` with one of these values is
                                 the template's own: some templates write <|user|> as '<|' + role + '|>'           */
    const struct tm *now;     /* what strftime_now tells; NULL: the local time                                     */
    uint64_t max_steps;       /* expressions, statements, and one for 64 bytes that are moved; 0: 20 million       */
    size_t max_memory;        /* bytes, of everything that is made while rendering; 0: 512 MiB                     */
    size_t max_output;        /* bytes; 0: 32 MiB                                                                  */
};

/* Gets the output in pieces. 0 or a negative errno, which ends the rendering. */
typedef int (*jinja_put)(void *user, const char *s, size_t n, bool data);

/* -EPERM: the template called raise_exception, whose text is all of the message; -EINVAL: a mistake that shows when
 * it is rendered ("template line 12: 'x' is undefined"); -E2BIG: steps, memory, depth or output beyond the limits;
 * -ENOMEM. */
int jinja_render(const struct jinja *t, const struct jinja_opts *o, jinja_put put, void *user, struct err *e);

#endif
