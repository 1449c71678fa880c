/* Text and sampling defaults as the model's file has them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/log.h"
#include "engine/chat_text.h"
#include "engine/priv.h"
#include "model/tok.h"

_Static_assert((int)ENGINE_ADD_SPECIAL == (int)TOK_ADD_SPECIAL &&
                   (int)ENGINE_PARSE_SPECIAL == (int)TOK_PARSE_SPECIAL &&
                   (int)ENGINE_SHOW_SPECIAL == (int)TOK_SHOW_SPECIAL,
               "flags are passed through");

int engine_need_vocab(const struct engine *eng, struct err *e)
{
    if (eng->tok)
        return 0;
    return err_set(e, eng->tok_err.code ? eng->tok_err.code : -ENOENT, "%s", eng->tok_err.msg);
}

int engine_encode(const struct engine *eng, const char *text, size_t len, unsigned flags, int32_t **ids, uint32_t *n,
                  struct err *e)
{
    struct tok_ids v = { 0 };
    int rc = engine_need_vocab(eng, e);
    if (!rc)
        rc = tok_encode(eng->tok, text, len, flags, &v, e);
    if (!rc && v.n > INT32_MAX)
        rc = err_set(e, -E2BIG, "engine: %zu tokens in one text", v.n);
    if (!rc && !v.id && !(v.id = calloc(1, sizeof *v.id)))
        rc = err_set(e, -ENOMEM, "engine: out of memory");
    if (rc) {
        tok_ids_finish(&v);
        return rc;
    }
    *ids = v.id;
    *n = (uint32_t)v.n;
    return 0;
}

int engine_decode(const struct engine *eng, const int32_t *ids, uint32_t n, unsigned flags, char **text, size_t *len,
                  struct err *e)
{
    struct tok_buf b = { 0 };
    int rc = engine_need_vocab(eng, e);
    if (!rc)
        rc = tok_decode(eng->tok, ids, n, flags, &b, e);
    if (!rc && tok_buf_add(&b, "", 1))
        rc = err_set(e, -ENOMEM, "engine: out of memory for text");
    if (rc) {
        tok_buf_finish(&b);
        return rc;
    }
    *text = b.s;
    *len = b.n - 1;
    return 0;
}

bool engine_is_eog(const struct engine *eng, int32_t id)
{
    return eng->tok && tok_is_eog(eng->tok, id);
}

/* The value of a general.sampling key as a number; false: absent or not a number. */
static bool sampling_key(const struct gguf *g, const char *name, double *out)
{
    char key[64];
    snprintf(key, sizeof key, "general.sampling.%s", name);
    const struct gguf_kv *kv = gguf_find(g, key);
    int64_t i;
    if (!kv)
        return false;
    if (gguf_kv_f64(kv, 0, out))
        return true;
    if (!gguf_kv_i64(kv, 0, &i)) {
        log_warn(ENGINE, "%s is not a number: ignored", key);
        return false;
    }
    *out = (double)i;
    return true;
}

/* A value that the chain would refuse is the file's mistake, not the user's: it is left out. */
static bool accept_default(const struct sampler_params *p, const char *key)
{
    struct err e = { 0 };
    if (sampler_check(p, &e) == 0)
        return true;
    log_warn(ENGINE, "general.sampling.%s ignored: %s", key, e.msg);
    return false;
}

void engine_sampling_defaults(const struct engine *eng, struct sampler_params *p)
{
    double v;
    const char *key;
#define X(field, type, def, opt, k, help)                                                                              \
    if ((key = k) && !(p->set & 1u << SAMPLER_##field) && sampling_key(eng->gguf, key, &v)) {                          \
        struct sampler_params q = *p;                                                                                  \
        q.field = (type)(v > -2e9 && v < 2e9 ? v : (double)def);                                                       \
        if (accept_default(&q, key))                                                                                   \
            *p = q;                                                                                                    \
    }
    SAMPLER_PARAMS(X)
#undef X
}

static const char *vocab_text(void *user, int32_t id, size_t *n)
{
    struct tok_buf *b = ((void **)user)[1];
    b->n = 0;
    tok_piece(((void **)user)[0], id, TOK_SHOW_SPECIAL, b, NULL);
    *n = b->n;
    return b->s;
}

static uint32_t vocab_encode(void *user, const char *s, size_t n, int32_t *ids, uint32_t cap)
{
    struct tok_ids v = { 0 };
    uint32_t count = 0;
    if (tok_encode(((void **)user)[0], s, n, 0, &v, NULL) == 0) {
        count = (uint32_t)MIN(v.n, (size_t)cap);
        if (count)
            memcpy(ids, v.id, count * sizeof *ids);
    }
    tok_ids_finish(&v);
    return count;
}

int engine_sampler(const struct engine *eng, const struct sampler_params *p, bool no_eog, struct sampler **out,
                   struct err *e)
{
    size_t n_sup = 0, n_eog = 0;
    const int32_t *sup = eng->tok ? tok_suppressed(eng->tok, &n_sup) : NULL;
    const int32_t *eog = eng->tok && no_eog ? tok_eog_ids(eng->tok, &n_eog) : NULL;
    struct sampler_params q = *p;
    struct logit_bias *bias = calloc(p->n_bias + n_sup + n_eog + 1, sizeof *bias);
    if (!bias)
        return err_set(e, -ENOMEM, "engine: out of memory");
    if (p->n_bias)
        memcpy(bias, p->bias, p->n_bias * sizeof *bias);
    for (size_t i = 0; i < n_sup + n_eog; i++) {
        int32_t id = i < n_sup ? sup[i] : eog[i - n_sup];
        if (id >= 0 && (uint32_t)id < eng->info.n_vocab)
            bias[q.n_bias++] = (struct logit_bias){ id, -INFINITY };
    }
    q.bias = bias;
    struct tok_buf buf = { 0 };
    void *user[] = { eng->tok, &buf };
    struct sampler_vocab v = { user, vocab_text, vocab_encode };
    int rc = sampler_create(&q, eng->info.n_vocab, eng->info.n_ctx, eng->tok ? &v : NULL, out, e);
    tok_buf_finish(&buf);
    free(bias);
    return rc;
}
