/* engine/proof/validate.h
 * Token for token: does tier A say what tier B says? Both evaluate the same history (B's greedy choices), and after
 * each step their logits are compared. A step is
 *     same      both choose the same token, and the error is within the tolerance;
 *     tie       they choose differently, but B's logits of the two tokens are closer than twice the stated error: at this
 *               accuracy nobody can decide between them;
 *     flip      they choose differently, and the difference is larger than that;
 *     wide      the error of the logits (NMSE) is beyond the tolerance, up to VALIDATE_FAR times;
 *     error     it is beyond that, whatever was chosen.
 * Errors of steps that are sound spread: where the logits lie close together the same rounding is a larger part of them.
 * So the tolerance is for the steps as a whole: up to one in VALIDATE_WIDE_ONE_IN may be wide; more, a flip or an error, and
 * the tiers differ.
 * The stated error of one logit is three times the root mean square of the step's errors. */
#ifndef ZINC_PROOF_VALIDATE_H
#define ZINC_PROOF_VALIDATE_H

#include "engine/engine.h"
#include "engine/proof/bisect.h"

enum validate_verdict { VALIDATE_SAME, VALIDATE_TIE, VALIDATE_WIDE, VALIDATE_FLIP, VALIDATE_ERROR };

enum { VALIDATE_FAR = 10, VALIDATE_WIDE_ONE_IN = 20 };

struct validate_step {
    uint32_t pos;            /* of the token whose logits these are           */
    int32_t top_a, top_b;
    double nmse, max_err;
    double gap;              /* B's two best logits                           */
    double gap_flip;         /* B's logits of top_b and top_a; 0 when equal   */
    double stated;           /* 3 * sqrt(mean((a - b)^2))                      */
    enum validate_verdict verdict;
};

struct validate_opts {
    const struct engine_opts *a, *b; /* the same model                        */
    const int32_t *prompt;
    uint32_t n_prompt, n;    /* n: steps after the prompt                     */
    double tol;              /* 0: 1e-2 when one of the two is exact and the other is not, else 1e-5 */
    bool keep_going;         /* after a flip or an error                      */
    const struct flag *cancel;
    void (*step)(void *user, const struct validate_step *s); /* may be NULL   */
    void *user;
};

struct validate_result {
    char name_a[64], name_b[64]; /* tiers, "cpu:exact"                        */
    uint32_t n_steps, n_same, n_ties, n_wide, n_flips, n_errors;
    bool differ;             /* the verdict                                   */
    double tol, worst_nmse, worst_err;
    uint32_t worst_pos;
    double median_nmse;
    bool has_diff;           /* they differ, and `diff` names the first output that parts there */
    struct diff diff;
    char diff_op[32], diff_name[96]; /* what diff.op and diff.name say        */
};

/* 0 also when the tiers differ: see r->differ. */
int validate(const struct validate_opts *o, struct validate_result *r, struct err *e);

#endif
