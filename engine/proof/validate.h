/* engine/proof/validate.h
 * Token for token: does tier A say what tier B says? Both evaluate the same history (B's greedy choices), and after
 * each step their logits are compared. A step is
 *     same      both choose the same token, and the error is within the tolerance;
 *     tie       they choose differently, but B's logits of the two tokens are closer than twice the stated error: at this
 *               accuracy nobody can decide between them;
 *     flip      they choose differently, and the difference is larger than that;
 *     error     the error of the logits (NMSE) is beyond the tolerance, whatever was chosen.
 * The stated error of one logit is three times the root mean square of the step's errors. */
#ifndef ZINC_PROOF_VALIDATE_H
#define ZINC_PROOF_VALIDATE_H

#include "engine/engine.h"
#include "engine/proof/bisect.h"

enum validate_verdict { VALIDATE_SAME, VALIDATE_TIE, VALIDATE_FLIP, VALIDATE_ERROR };

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
    const volatile sig_atomic_t *cancel;
    void (*step)(void *user, const struct validate_step *s); /* may be NULL   */
    void *user;
};

struct validate_result {
    char name_a[64], name_b[64]; /* tiers, "cpu:exact"                        */
    uint32_t n_steps, n_same, n_ties, n_flips, n_errors;
    double tol, worst_nmse, worst_err;
    uint32_t worst_pos;
    bool has_diff;           /* there was a flip or an error, and `diff` names the first output that parts there */
    struct diff diff;
    char diff_op[32], diff_name[96]; /* what diff.op and diff.name say        */
};

/* 0 also when the tiers differ: see the counts. */
int validate(const struct validate_opts *o, struct validate_result *r, struct err *e);

#endif
