/* engine/sample/sampler_steps.h
 * The steps of the sampling chain that work on a list of candidates. Lists are arrays owned by the caller; `tmp` has
 * room for as many sort records as the list. Formulas: facts of the same names in engine/sample/sampler.h. */
#ifndef ZINC_SAMPLE_SAMPLER_STEPS_H
#define ZINC_SAMPLE_SAMPLER_STEPS_H

#include "engine/sample/mt19937.h"
#include "engine/sample/sampler.h"

struct sort_rec {
    uint32_t key, id;
    float logit, p;
};

struct cand_list {
    struct sampler_cand *c;
    uint32_t n;
    bool sorted;          /* by falling logit                    */
    uint32_t min_keep;
    struct sort_rec *tmp; /* two arrays of the list's capacity   */
    uint32_t cap;
};

/* The k largest logits above or at `floor` and in the mask (one bit per logit; NULL: all), sorted; of equal logits the
 * lower ids. k = 0: all of them, in id order. */
void cand_take(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n_vocab, uint32_t k, float floor);

void cand_sort(struct cand_list *l);
void cand_softmax(struct cand_list *l); /* fills p */

/* max - n * standard deviation over the finite logits in the mask */
float cand_sigma_floor(const float *logits, const uint64_t *mask, uint32_t n_vocab, float n);

void cand_typical(struct cand_list *l, float p);
void cand_top_p(struct cand_list *l, float p);
void cand_min_p(struct cand_list *l, float p);
void cand_xtc(struct cand_list *l, float probability, float threshold, struct mt19937 *rng);
void cand_temperature(struct cand_list *l, float temp, float range, float exponent);
int32_t cand_draw(struct cand_list *l, struct mt19937 *rng); /* fills p */

/* ---- all tokens, without a list of them (sampler_all.c): max is the largest logit in the mask ---- */

/* Of all of them those that top-p keeps, sorted, p filled. False: so many may be left that a list of all is no worse. */
bool cand_take_top_p(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n, float max, float p);
/* Those that min-p keeps, in id order. False: it keeps all, or fewer than min_keep. */
bool cand_take_min_p(struct cand_list *l, const float *logits, const uint64_t *mask, uint32_t n, float max, float p);
/* One of all, at a temperature above 0. sums: scratch [ceil(n / 64)]. */
int32_t cand_draw_any(const float *logits, const uint64_t *mask, uint32_t n, float max, float temp, float *sums, struct mt19937 *rng);

/* Subtracts DRY's penalties from logits. hist: the last n tokens, newest first; limit: distance to the nearest breaker,
 * at most n. z: scratch [n]; longest: scratch [n_vocab], zero before and after. */
struct dry_args {
    float multiplier, base;
    int32_t allowed_length;
    const bool *exempt; /* [n_vocab] tokens that are breakers by themselves, or NULL */
};
void dry_apply(float *logits, uint32_t n_vocab, const struct dry_args *a, const int32_t *hist, uint32_t n,
               uint32_t limit, uint32_t *z, uint32_t *longest);

#endif
