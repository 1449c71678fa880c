/* engine/proof/bisect.h
 * Where do two tiers part? Both run the same step command by command; every output is read by name and compared. Two
 * engines of one model, with the same context and chunk, a fresh session on each.
 *
 *     struct bisect_opts o = { .tok = tok, .n_before = 12, .n_rows = 1, .tol = 1e-6 };
 *     rc = bisect_step(a, b, &o, &hit, &e);        1: hit is the first output that differs, 0: none does
 *
 * Both sessions are reset first and stand before the step afterwards, with states that must not be used. A step costs
 * about one evaluation for each command that is looked at; the layer is found by bisection first, unless everything
 * is to be reported. */
#ifndef ZINC_PROOF_BISECT_H
#define ZINC_PROOF_BISECT_H

#include "engine/engine.h"

struct diff {
    uint32_t cmd_a, cmd_b;   /* indices in the two streams                     */
    uint32_t layer;          /* UINT32_MAX: outside the layers                 */
    const char *op, *name;   /* of the command and of the buffer, live as long as engine a */
    uint32_t rows, cols;
    double nmse, max_err;    /* sum (a - b)^2 / sum b^2; largest |a - b|       */
    uint32_t max_row, max_col;
    float max_a, max_b;      /* there                                          */
    bool differs;            /* nmse > tol, or integers that are not equal     */
};

struct bisect_opts {
    const int32_t *tok;      /* [n_before + n_rows]                            */
    uint32_t n_before;       /* evaluated before the step                      */
    uint32_t n_rows;         /* of the step, at most what one step can hold    */
    double tol;              /* NMSE from which an output counts as different  */
    uint32_t stop_after;     /* look at commands up to this one; 0: all        */
    uint32_t layer;          /* only this layer; UINT32_MAX: all               */
    /* Not NULL: called for every output in order, and all of them are looked at. */
    void (*each)(void *user, const struct diff *d);
    void *user;
};

int bisect_step(struct session *a, struct session *b, const struct bisect_opts *o, struct diff *first, struct err *e);

/* The two numbers of a comparison, and where the largest error lies. */
struct diff diff_f32(const float *a, const float *b, uint32_t rows, uint32_t cols, size_t ld);

#endif
