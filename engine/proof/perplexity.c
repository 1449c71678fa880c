#include "engine/proof/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "engine/chat_text.h"
#include "engine/priv.h"
#include "engine/proof/ref_logits.h"
#include "model/tok.h"
#include "model/unicode.h"

enum { LOGITS_BYTES = 64 << 20 };

/* ---- the text ---- */

static int check_utf8(const char *text, size_t len, struct err *e)
{
    size_t line = 1, n;
    uint32_t cp;
    for (size_t i = 0; i < len; i += n) {
        n = utf8_decode(text + i, len - i, &cp);
        if (!n)
            return err_set(e, -EINVAL, "the text is not UTF-8: byte 0x%02x at %zu, line %zu "
                           "(iconv -t UTF-8 converts it)", (uint8_t)text[i], i, line);
        line += cp == '\n';
    }
    return 0;
}

int perplexity_encode(const struct engine *eng, const char *text, size_t len, bool special, struct perplexity_text *out,
                      struct err *e)
{
    *out = (struct perplexity_text){ .bos = -1 };
    int rc = engine_need_vocab(eng, e);
    if (rc || (rc = check_utf8(text, len, e)))
        return rc;
    bool add_bos = tok_add_bos(eng->tok) && tok_bos(eng->tok) >= 0;
    struct tok_ids v = { 0 };
    if (add_bos && tok_ids_push(&v, out->bos = tok_bos(eng->tok)))
        rc = err_set(e, -ENOMEM, "perplexity: out of memory");
    if (!rc)
        rc = tok_encode(eng->tok, text, len, special ? TOK_PARSE_SPECIAL : 0, &v, e); /* without an EOS that the file may ask for */
    if (!rc && v.n > INT32_MAX)
        rc = err_set(e, -E2BIG, "a text of %zu tokens, at most %d are possible", v.n, INT32_MAX);
    if (rc) {
        tok_ids_finish(&v);
        return rc;
    }
    out->ids = v.id;
    out->n = (uint32_t)v.n;
    return 0;
}

void perplexity_text_free(struct perplexity_text *t)
{
    free(t->ids);
    *t = (struct perplexity_text){ .bos = -1 };
}

/* What the file says that the model was trained for; 0: nothing. */
static uint64_t trained_ctx(const struct engine *eng)
{
    struct gguf_str arch;
    char key[96];
    uint64_t n = 0;
    if (gguf_get_str(eng->gguf, "general.architecture", &arch, NULL))
        return 0;
    snprintf(key, sizeof key, "%.*s.context_length", (int)MIN(arch.len, 64), arch.s);
    const struct gguf_kv *kv = gguf_find(eng->gguf, key);
    return kv && gguf_kv_u64(kv, 0, &n) ? n : 0;
}

int perplexity_windows(const struct engine *eng, const struct perplexity_text *t, uint32_t n_window,
                       uint32_t max_windows, uint32_t *n, struct err *e)
{
    uint64_t trained = trained_ctx(eng);
    if (n_window < PERPLEXITY_MIN_WINDOW)
        return err_set(e, -EINVAL, "windows of %u tokens, at least %d are needed: a larger --ctx",
                       n_window, PERPLEXITY_MIN_WINDOW);
    if (trained && n_window > trained && !t->beyond)
        return err_set(e, -EINVAL, "windows of %u tokens, the model was trained for %llu: --ctx %llu or "
                       "less, or --rope-scaling", n_window, (unsigned long long)trained, (unsigned long long)trained);
    if (t->n < n_window)
        return err_set(e, -EINVAL, "the text has %u tokens, one window needs %u: a longer text or a "
                       "smaller --ctx", t->n, n_window);
    *n = t->n / n_window;
    if (max_windows)
        *n = MIN(*n, max_windows);
    return 0;
}

void perplexity_window(const struct perplexity_text *t, uint32_t i, uint32_t n_window, int32_t *tok)
{
    memcpy(tok, t->ids + (size_t)i * n_window, n_window * sizeof *tok);
    if (t->bos >= 0)
        tok[0] = t->bos;
}

uint32_t perplexity_score_rows(const struct engine *eng, uint32_t n_window)
{
    uint32_t rows = (uint32_t)(LOGITS_BYTES / sizeof(float) / MAX(eng->info.n_vocab, 1u));
    return MAX(MIN(rows, n_window - n_window / 2 - 1), 1u);
}

/* ---- likelihoods ---- */

double perplexity_nll(const float *logits, uint32_t n_vocab, int32_t id)
{
    float max = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += (double)expf(logits[i] - max); /* NaN if any is NaN, or the largest is infinite */
    return log(sum) - ((double)logits[id] - (double)max);
}

struct tally {
    uint64_t n, n_bytes;
    double sum, sum_sq;
};

struct scoring {
    const struct engine *eng;
    const int32_t *next;     /* of each row that is scored, the token after it */
    struct tally tally;      /* of this window                                 */
    struct tok_buf piece;
    double bad;              /* the likelihood that ended it                   */
    uint32_t bad_row;
    struct ref_writer *save; /* NULL: none                                     */
    struct ref_reader *against;
    float *logp;             /* [n_vocab], of the reference                    */
    struct divergence d;
    struct err *e;           /* for what goes wrong with the files             */
};

static int hold_against(struct scoring *sc, uint32_t row, const float *logits, double nll)
{
    double ref_nll = ref_reader_row(sc->against, row, sc->logp);
    int rc = divergence_add(&sc->d, sc->logp, logits, sc->eng->info.n_vocab, ref_nll, nll);
    return rc ? err_set(sc->e, rc, "out of memory") : 0;
}

static int on_row(void *user, uint32_t i, const float *logits)
{
    struct scoring *sc = user;
    double nll = perplexity_nll(logits, sc->eng->info.n_vocab, sc->next[i]);
    if (!isfinite(nll)) {
        sc->bad = nll;
        sc->bad_row = i;
        return -EDOM;
    }
    int rc = sc->save ? ref_writer_row(sc->save, logits, nll, sc->e) : 0;
    if (!rc && sc->against)
        rc = hold_against(sc, i, logits, nll);
    if (rc)
        return rc;
    sc->piece.n = 0;
    if (tok_piece(sc->eng->tok, sc->next[i], 0, &sc->piece, NULL))
        return -ENOMEM;
    sc->tally.n++;
    sc->tally.n_bytes += sc->piece.n;
    sc->tally.sum += nll;
    sc->tally.sum_sq += nll * nll;
    return 0;
}

/* Evaluates one window from an empty cache. Its last token is only predicted. */
static int score_window(struct session *s, const int32_t *tok, uint32_t n_window, struct scoring *sc, struct err *e)
{
    struct err of_file = { 0 };
    uint32_t first = n_window / 2;
    sc->next = tok + first + 1;
    sc->tally = (struct tally){ 0 };
    sc->e = &of_file;
    session_reset(s);
    int rc = session_eval(s, tok, first, NULL, e);
    if (!rc)
        rc = session_score(s, tok + first, n_window - first - 1, on_row, sc, e);
    if (rc && of_file.code)
        return err_set(e, rc, "%s", of_file.msg);
    if (rc == -EDOM)
        err_set(e, rc, isinf(sc->bad) ? "token %u, id %d: the model gives it no chance, and 0 has no logarithm"
                                      : "token %u, id %d: its likelihood is not a number: some logit is NaN or "
                                        "infinite (zinc validate --tier cpu --against cpu:exact names the command)",
                first + 1 + sc->bad_row, sc->next[sc->bad_row]);
    return rc;
}

static void conclude(struct perplexity_result *r, const struct tally *t, uint64_t ns)
{
    double n = (double)t->n, mean = t->n ? t->sum / n : 0;
    double var = t->n > 1 ? (t->sum_sq / n - mean * mean) / (n - 1) : 0; /* of the mean */
    r->n_counted = t->n;
    r->n_bytes = t->n_bytes;
    r->nll = mean;
    r->nll_error = var > 0 ? sqrt(var) : 0;
    r->ppl = exp(mean);
    r->ppl_error = r->ppl * r->nll_error;
    r->bits_per_byte = t->n_bytes ? t->sum / M_LN2 / (double)t->n_bytes : 0;
    r->tps = ns ? (double)r->n_evaluated * 1e9 / (double)ns : 0;
}

static int may_go_on(const struct perplexity_opts *o, uint32_t done, uint32_t n, struct err *e)
{
    if (flag_is_set(o->cancel) ||
        !progress_report(o->progress, "perplexity", (uint64_t)done * o->n_window, (uint64_t)n * o->n_window))
        return err_set(e, -ECANCELED, "perplexity: interrupted after %u of %u windows", done, n);
    return 0;
}

/* The files, before anything is evaluated. */
static int open_files(struct scoring *sc, const struct perplexity_text *t, const struct perplexity_opts *o, uint32_t n, int32_t *tok,
                      struct err *e)
{
    struct ref_logits_head h;
    int rc = 0;
    if (!o->save && !o->against)
        return 0;
    ref_logits_describe(sc->eng, o->n_window, n, &h);
    if (o->against && !(rc = ref_reader_open(o->against, &h, &sc->against, e))) {
        sc->logp = calloc(h.n_vocab, sizeof *sc->logp);
        rc = sc->logp ? 0 : err_set(e, -ENOMEM, "perplexity: out of memory");
        for (uint32_t i = 0; !rc && i < n; i++) {
            perplexity_window(t, i, o->n_window, tok);
            rc = ref_reader_check(sc->against, i, tok, e);
        }
    }
    return !rc && o->save ? ref_writer_create(o->save, &h, &sc->save, e) : rc;
}

static int next_window(struct session *s, struct scoring *sc, uint32_t i, const int32_t *tok, uint32_t n_window, struct err *e)
{
    int rc = sc->save ? ref_writer_window(sc->save, tok, e) : 0;
    if (!rc && sc->against)
        rc = ref_reader_window(sc->against, i, e);
    return rc ? rc : score_window(s, tok, n_window, sc, e);
}

static void scoring_finish(struct scoring *sc)
{
    ref_writer_destroy(sc->save);
    ref_reader_close(sc->against);
    divergence_finish(&sc->d);
    tok_buf_finish(&sc->piece);
    free(sc->logp);
}

int perplexity(struct session *s, const struct perplexity_text *t, const struct perplexity_opts *o,
               struct perplexity_result *r, struct err *e)
{
    *r = (struct perplexity_result){ 0 };
    uint32_t n;
    int rc = perplexity_windows(s->eng, t, o->n_window, o->max_windows, &n, e);
    if (rc)
        return rc;
    int32_t *tok = calloc(o->n_window, sizeof *tok);
    if (!tok)
        return err_set(e, -ENOMEM, "perplexity: out of memory");
    struct scoring sc = { .eng = s->eng };
    struct tally all = { 0 };
    rc = open_files(&sc, t, o, n, tok, e);
    uint64_t t0 = clock_ns();
    session_set_cancel(s, o->cancel);
    while (!rc && r->n_windows < n && !(rc = may_go_on(o, r->n_windows, n, e))) {
        perplexity_window(t, r->n_windows, o->n_window, tok);
        if ((rc = next_window(s, &sc, r->n_windows, tok, o->n_window, e))) {
            err_context(e, "perplexity: window %u of %u", r->n_windows + 1, n);
            break;
        }
        all.n += sc.tally.n;
        all.n_bytes += sc.tally.n_bytes;
        all.sum += sc.tally.sum;
        all.sum_sq += sc.tally.sum_sq;
        r->n_windows++;
        r->n_evaluated += o->n_window - 1;
    }
    conclude(r, &all, clock_ns() - t0);
    divergence_conclude(&sc.d, &r->against);
    if (sc.against)
        snprintf(r->reference, sizeof r->reference, "%s", ref_reader_head(sc.against)->model);
    if (!rc && sc.save)
        rc = ref_writer_finish(sc.save, e);
    if (!rc)
        progress_report(o->progress, "perplexity", (uint64_t)n * o->n_window, (uint64_t)n * o->n_window);
    session_set_cancel(s, NULL);
    scoring_finish(&sc);
    free(tok);
    return rc;
}
