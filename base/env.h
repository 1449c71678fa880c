/* base/env.h: the environment, read once into one struct; the list is base/env.def, `zinc --help-env` prints it. */
#ifndef ZINC_BASE_ENV_H
#define ZINC_BASE_ENV_H

#include <stddef.h>
#include <stdio.h>

struct env {
#define X(field, var, type, def, shown, values, help) type field;
#include "base/env.def"
#undef X
};

/* Any thread. Reads the variables on the first call; an unknown ZINC_* variable is warned about, and so is a value that is
 * not among those of the list; it then counts as not given. */
const struct env *env_get(void);
void env_print_help(FILE *f);
/* fn gets each variable with its default and what it is for. */
void env_each(void (*fn)(void *user, const char *var, const char *shown, const char *help), void *user);

#endif
