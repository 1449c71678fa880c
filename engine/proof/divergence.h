/* engine/proof/divergence.h
 * How far a model's distributions are from a reference's over the same tokens: Kullback-Leibler divergence in nats,
 * sum p (log p - log q) with p the reference's, agreement of the best token, and the ratio of the perplexities.
 *
 *     struct divergence d = { 0 };
 *     divergence_add(&d, logp, logits, n_vocab, nll_reference, nll);      for every counted token
 *     divergence_conclude(&d, &r);
 *     divergence_finish(&d);
 *
 * Standard errors treat tokens as independent. That of the ratio comes from the differences token by token, and is therefore
 * much smaller than those of the two perplexities. */
#ifndef ZINC_PROOF_DIVERGENCE_H
#define ZINC_PROOF_DIVERGENCE_H

#include <stdint.h>

#include "base/err.h"

struct divergence {
    float *kl;         /* [cap], of each token */
    uint64_t n, cap, n_same;
    double sum, sum_sq, diff, diff_sq, ref_nll;
};

struct divergence_result {
    uint64_t n;                     /* tokens                                          */
    double kl, kl_error;            /* mean, its standard error                        */
    double kl_median, kl_99;        /* the median, and what 99 % of tokens stay below  */
    double same, same_error;        /* share of tokens whose best token is the same    */
    double ref_ppl;                 /* the reference's perplexity                      */
    double ratio, ratio_error;      /* perplexity / the reference's                    */
};

/* logp [n]: the reference's log-probabilities, which need not add up exactly; logits [n]: the model's. The nlls are of the true
 * token. -ENOMEM is all that can fail. */
int divergence_add(struct divergence *d, const float *logp, const float *logits, uint32_t n, double ref_nll, double nll);
/* Zeroes where there are no tokens. */
void divergence_conclude(struct divergence *d, struct divergence_result *r);
void divergence_finish(struct divergence *d);

/* The divergence of one token's distributions; never below 0. */
double divergence_kl(const float *logp, const float *logits, uint32_t n);

#endif
