/* engine/proof/perplexity.h
 * How well a model predicts a text: perplexity, the exponential of the mean negative log-likelihood of its tokens.
 *
 * The tokens of the text, in order, are cut into windows of n that do not overlap; what is left over at the end is
 * not used. Each window is evaluated from an empty cache. Its first half is context only: counted are the tokens
 * n/2 + 1 to n - 1, each given all before it in the window, 255 of 512. Where the model wants a begin-of-text token,
 * it stands at the start of the text and takes the place of the first token of every window. That is the definition of
 * llama.cpp's perplexity tool, so that numbers can be held against its numbers. Control tokens in the text are text, unless the
 * caller says otherwise.
 *
 *     struct perplexity_text t;
 *     struct perplexity_opts o = { .n_window = 512 };
 *     perplexity_encode(eng, text, len, false, &t, &e);      after engine_open_vocab
 *     engine_start with n_ctx = o.n_window, score_rows = perplexity_score_rows(eng, o.n_window)
 *     session_create(eng, &s, &e);
 *     perplexity(s, &t, &o, &r, &e);
 *     perplexity_text_free(&t);
 *
 * Two perplexities compare only over the same text, windows and vocabulary; bits a byte also between vocabularies. */
#ifndef ZINC_PROOF_PERPLEXITY_H
#define ZINC_PROOF_PERPLEXITY_H

#include "engine/engine.h"
#include "engine/proof/divergence.h"

enum { PERPLEXITY_MIN_WINDOW = 8 };

/* A text as tokens: ids [n], malloc'ed. bos: what each window begins with; -1: the model adds none. */
struct perplexity_text {
    int32_t *ids;
    uint32_t n;
    int32_t bos;
    bool beyond; /* the caller's: windows may be longer than what the model was trained for (engine_opts.rope_scaling) */
};

/* `special`: control tokens that are written in the text become tokens. -EINVAL: not UTF-8, with the place of the first byte that
 * is not; -ENOENT: the model has no vocabulary. */
int perplexity_encode(const struct engine *eng, const char *text, size_t len, bool special, struct perplexity_text *out,
                      struct err *e);
void perplexity_text_free(struct perplexity_text *t); /* and zeroes it */

/* How many windows of n_window tokens there are, but at most max_windows (0: all). -EINVAL: none, or the model was
 * trained for less (unless t->beyond), with figures and a remedy; so before the model is loaded. */
int perplexity_windows(const struct engine *eng, const struct perplexity_text *t, uint32_t n_window,
                       uint32_t max_windows, uint32_t *n, struct err *e);

/* Window i as it is evaluated, into tok [n_window]. */
void perplexity_window(const struct perplexity_text *t, uint32_t i, uint32_t n_window, int32_t *tok);

/* engine_opts.score_rows that suits: as many rows as 64 MiB of logits hold. */
uint32_t perplexity_score_rows(const struct engine *eng, uint32_t n_window);

/* -log of the softmax of logits [n_vocab] at `id`, in nats; not finite where the logits do not make a distribution
 * that gives `id` a chance. */
double perplexity_nll(const float *logits, uint32_t n_vocab, int32_t id);

struct perplexity_opts {
    uint32_t n_window;       /* tokens; not more than the engine's context              */
    uint32_t max_windows;    /* 0: all                                                  */
    const char *save;        /* write every distribution to this file (engine/proof/ref_logits.h); NULL: none */
    const char *against;     /* compare with the distributions of this file; NULL: none */
    const struct flag *cancel;
    const struct progress *progress; /* "perplexity", in evaluated tokens; NULL: none   */
};

struct perplexity_result {
    uint32_t n_windows;
    uint64_t n_counted;      /* tokens whose likelihood counts                          */
    uint64_t n_evaluated;    /* tokens that went through the model                      */
    uint64_t n_bytes;        /* of text in the counted tokens                           */
    double nll, nll_error;   /* nats per counted token: mean, its standard error        */
    double ppl, ppl_error;   /* exp(nll), its standard error: ppl * nll_error           */
    double bits_per_byte;    /* of the counted tokens' text                             */
    struct divergence_result against; /* from the reference, where there is one; n: 0 else */
    char reference[96];      /* its label                                               */
    double tps;              /* evaluated tokens per second, logits' sums included      */
};

/* Evaluates with session `s`, whose position it resets. -ECANCELED: by the flag or the progress function; *r then
 * holds the windows until there, perhaps none, and o->save is not written. -EINVAL: o->against is no such file, or of another
 * text, window or vocabulary. -EDOM: a likelihood is no number, with the place. Else as
 * session_eval. */
int perplexity(struct session *s, const struct perplexity_text *t, const struct perplexity_opts *o,
               struct perplexity_result *r, struct err *e);

#endif
