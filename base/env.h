/* base/env.h: the environment, read once into one struct; the list is base/env.def, `zinc --help-env` prints it. */
#ifndef ZINC_BASE_ENV_H
#define ZINC_BASE_ENV_H

#include <stddef.h>
#include <stdio.h>

struct env {
#define X(field, var, type, def, help) type field;
#include "base/env.def"
#undef X
};

/* Reads the variables on the first call; an unknown ZINC_* variable or a bad number is warned about once. */
const struct env *env_get(void);
void env_print_help(FILE *f);

#endif
