/* pull/chosen.h: the model that is meant where none is named: the file "default" in the folder of models, which holds a name as
 * zinc pull takes it, or the path of a file that lies elsewhere. */
#ifndef ZINC_PULL_CHOSEN_H
#define ZINC_PULL_CHOSEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pull/store.h"

/* *name: malloc'ed, NULL: none was chosen. -EINVAL: the file holds something else; else as the system says. */
int chosen_get(const char *home, char **name, struct err *e);
/* NULL: none from now on. */
int chosen_set(const char *home, const char *name, struct err *e);

/* Where none was chosen: of the models that are here whole the one with most bytes up to `memory` (0: not known) that `taken` does
 * not tell of; n: there is none. */
size_t chosen_by_size(const struct store_model *m, size_t n, uint64_t memory, const bool *taken);

#endif
