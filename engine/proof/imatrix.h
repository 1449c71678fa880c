/* engine/proof/imatrix.h
 * Collects an importance matrix (model/imatrix.h): a text in windows, as for perplexity, goes through the model, and every row that
 * a matrix multiplies is squared and added up, by column. In models with experts each expert's rows are its own.
 *
 * The session's engine runs on a tier that shows its products (tier_watch: cpu), with score_rows as for perplexity, so that
 * all rows reach the head. */
#ifndef ZINC_PROOF_IMATRIX_H
#define ZINC_PROOF_IMATRIX_H

#include "engine/engine.h"
#include "engine/proof/perplexity.h"
#include "model/imatrix.h"

struct imatrix_opts {
    uint32_t n_window, max_windows; /* as perplexity_opts */
    const char *dataset;            /* the text's name, for the file; NULL: none */
    const struct flag *cancel;
    const struct progress *progress; /* "imatrix", in tokens; NULL: none */
};

/* -ECANCELED: *out has what came before, and is NULL where that is nothing. -ENOTSUP: the tier does not show products. -EDOM: a
 * number among the inputs is not finite, with the weight. */
int imatrix_collect(struct session *s, const struct perplexity_text *t, const struct imatrix_opts *o, struct imatrix **out,
                    struct err *e);

/* Whether a file can be written there, before anything is evaluated for it. */
int imatrix_check_output(const char *path, struct err *e);

/* How many experts of an entry saw fewer than `few` rows, and how many none. */
void imatrix_unseen(const struct imatrix_entry *en, double few, uint32_t *n_few, uint32_t *n_none);

#endif
