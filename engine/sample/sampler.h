/* engine/sample/sampler.h
 * From logits to a token. The chain runs in this order, each step skipped at its neutral value:
 *     logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature, random choice
 * which is the order of llama.cpp's tools; with the same seed, parameters and logits the same token comes out, because
 * the generator is std::mt19937's and the candidates are walked in the same order. temp <= 0 is greedy: the first
 * maximum after bias, penalties and DRY, and no random number is drawn.
 *
 * With rng "counter" the chain is what ka_sample (kernels/kargs.h) can say: top-k (at most KA_SAMPLE_MAX), top-p,
 * min-p and the draw at a temperature, computed by kernels/sample.h. A device draws the same tokens by itself, where
 * nothing changes the logits first but suppressed tokens (sampler_device).
 *
 *     struct sampler_params p = sampler_defaults();
 *     sampler_create(&p, n_vocab, n_ctx, NULL, &s, &e);
 *     for each prompt token: sampler_accept(s, id);
 *     id = sampler_choose(s, logits); sampler_accept(s, id); ...
 *     sampler_destroy(s);
 *
 * Everything is allocated by sampler_create; choosing and accepting allocate nothing. */
#ifndef ZINC_SAMPLE_SAMPLER_H
#define ZINC_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kargs.h"

#define SAMPLER_SEED_RANDOM 0xffffffffu

/* X(field, type, default, option, key below general.sampling. or NULL, what it does)
 * One list for the struct, the command line, the model file's own defaults and the HTTP API. */
#define SAMPLER_PARAMS(X)                                                                                              \
    X(temp, float, 0.8f, "temp", "temp", "temperature; 0 is greedy")                                                   \
    X(top_k, int32_t, 40, "top-k", "top_k", "keep the k most likely tokens; 0 keeps all")                              \
    X(top_p, float, 0.95f, "top-p", "top_p", "keep the most likely tokens that together reach p; 1 keeps all")         \
    X(min_p, float, 0.05f, "min-p", "min_p", "drop tokens below p times the best one's probability; 0 is off")         \
    X(typical_p, float, 1.0f, "typical-p", NULL, "locally typical sampling; 1 is off")                                 \
    X(top_n_sigma, float, -1.0f, "top-n-sigma", NULL, "drop logits more than n sigma below the best; -1 is off")       \
    X(xtc_probability, float, 0.0f, "xtc-probability", "xtc_probability", "chance that XTC drops the top choices")     \
    X(xtc_threshold, float, 0.1f, "xtc-threshold", "xtc_threshold", "XTC: least probability of a top choice")          \
    X(dynatemp_range, float, 0.0f, "dynatemp-range", NULL, "temperature moves by this much with the entropy; 0 off")   \
    X(dynatemp_exponent, float, 1.0f, "dynatemp-exp", NULL, "exponent of the dynamic temperature")                     \
    X(repeat_last_n, int32_t, 64, "repeat-last-n", "penalty_last_n", "tokens that penalties look at; -1: the context") \
    X(repeat_penalty, float, 1.0f, "repeat-penalty", "penalty_repeat", "divides the logits of seen tokens; 1 is off")  \
    X(frequency_penalty, float, 0.0f, "frequency-penalty", NULL, "subtracted once per occurrence; 0 is off")           \
    X(presence_penalty, float, 0.0f, "presence-penalty", NULL, "subtracted from every seen token; 0 is off")           \
    X(dry_multiplier, float, 0.0f, "dry-multiplier", NULL, "DRY: penalty of continuing a repetition; 0 is off")        \
    X(dry_base, float, 1.75f, "dry-base", NULL, "DRY: growth of the penalty per repeated token")                       \
    X(dry_allowed_length, int32_t, 2, "dry-allowed-length", NULL, "DRY: repetitions shorter than this are free")       \
    X(dry_last_n, int32_t, 64, "dry-last-n", NULL, "DRY: tokens it looks at; -1: the context")                         \
    X(min_keep, int32_t, 0, "min-keep", NULL, "filters keep at least this many candidates")                 \
    X(seed, uint32_t, SAMPLER_SEED_RANDOM, "seed", NULL, "seed of the random generator; 4294967295: a new one for each run")

enum sampler_param {
#define X(field, type, def, opt, key, help) SAMPLER_##field,
    SAMPLER_PARAMS(X)
#undef X
    SAMPLER_PARAM_COUNT
};

/* X(name, as it is written, what it is for) */
#define SAMPLER_RNGS(X)                                                                                                \
    X(MT19937, "mt19937", "the tokens of other engines")                                                               \
    X(COUNTER, "counter", "a function of seed and position, on the device too")

enum sampler_rng {
#define X(name, text, what) SAMPLER_RNG_##name,
    SAMPLER_RNGS(X)
#undef X
};

struct logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY suppresses the token */
};

struct sampler_params {
#define X(field, type, def, opt, key, help) type field;
    SAMPLER_PARAMS(X)
#undef X
    enum sampler_rng rng;
    uint32_t set;                  /* bit SAMPLER_x: the user gave it, the model file's value does not apply */
    const struct logit_bias *bias; /* [n_bias], copied by sampler_create                                     */
    uint32_t n_bias;
    const char *const *dry_breakers; /* [n_dry_breakers] strings that end a repetition; NULL: \n : " *          */
    uint32_t n_dry_breakers;
};

/* How the sampler reads the vocabulary, for the sequence breakers of DRY. `text` returns the bytes of a token; `encode`
 * writes up to `cap` ids of a text and returns how many there are. */
struct sampler_vocab {
    void *user;
    const char *(*text)(void *user, int32_t id, size_t *n);
    uint32_t (*encode)(void *user, const char *s, size_t n, int32_t *ids, uint32_t cap);
};

struct sampler_cand {
    int32_t id;
    float logit; /* after the chain      */
    float p;     /* among the candidates */
};

struct sampler;

struct sampler_params sampler_defaults(void);

/* -EINVAL names the generators there are. */
int sampler_rng_named(const char *name, enum sampler_rng *out, struct err *e);

/* 0, or -EINVAL: a parameter out of its range, or a step that the generator does not go with, by name. */
int sampler_check(const struct sampler_params *p, struct err *e);

/* What sampler_check says, or -EINVAL for a bias outside the vocabulary; -ENOMEM. `v` NULL: DRY works without breakers. n_ctx: the longest
 * sequence; a window of -1, or of more, is as long. */
int sampler_create(const struct sampler_params *p, uint32_t n_vocab, uint32_t n_ctx, const struct sampler_vocab *v,
                   struct sampler **out, struct err *e);
void sampler_destroy(struct sampler *s); /* NULL is fine */

/* Adds a DRY breaker: `head`, followed by the n ids of `tail` (at most 20; n = 0: head alone breaks). */
int sampler_add_breaker(struct sampler *s, int32_t head, const int32_t *tail, uint32_t n);

/* From now on only tokens whose bit is set are candidates: bit id % 64 of word id / 64. NULL: all. Not copied. */
void sampler_set_mask(struct sampler *s, const uint64_t *mask);

/* The token for logits f32 [n_vocab]; -1 when no logit is a number above -infinity. Does not accept it. */
int32_t sampler_choose(struct sampler *s, const float *logits);

/* ln of the sum of exp(logits) over all that are numbers: a token's logit minus that is its log probability. */
float sampler_log_sum(const float *logits, uint32_t n);
/* The k largest logits, falling, ties by the lower id: top [k]; returns how many there are. Both: any thread. */
uint32_t sampler_largest(const float *logits, uint32_t n, uint32_t k, struct sampler_cand *top);

/* Can a device make the next choice from the logits as they are? Then *a tells it how, and sampler_chose says what it
 * chose, in the place of sampler_choose. A device does not know which tokens are suppressed: what sampler_refuses
 * is not to be taken; sampler_choose has to make that choice. */
bool sampler_device(const struct sampler *s, ka_sample *a);
bool sampler_refuses(const struct sampler *s, int32_t id);
bool sampler_may_refuse(const struct sampler *s);
void sampler_chose(struct sampler *s, int32_t id);

/* Tells the penalties and DRY that the sequence grew by `id`. */
void sampler_accept(struct sampler *s, int32_t id);

/* Forgets the history and seeds again. */
void sampler_reset(struct sampler *s);

/* The candidates that the last choice was made among, most likely first where the chain sorted them; greedy, and what
 * a device chose: one. They live until the next call. */
uint32_t sampler_candidates(const struct sampler *s, const struct sampler_cand **out);

/* The seed in use, also when it was drawn. */
uint32_t sampler_seed(const struct sampler *s);

/* What SAMPLER_SEED_RANDOM stands for: a new number, never SAMPLER_SEED_RANDOM itself. */
uint32_t sampler_draw_seed(void);

#endif
