/* The vocabulary of an engine as the index that grammars need. */
#include <stdlib.h>

#include "engine/chat_text.h"
#include "engine/grammar/grammar.h"
#include "engine/priv.h"
#include "model/tok.h"

struct engine_tokens {
    const struct tok *tok;
    struct tok_buf piece;
    bool *suppressed; /* [n_vocab] */
    bool failed;
};

static enum vocab_kind engine_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    struct engine_tokens *t = user;
    unsigned attrs = tok_attrs(t->tok, id);
    bool control = attrs & TOK_CONTROL;
    t->piece.n = 0;
    t->failed |= tok_piece(t->tok, id, TOK_SHOW_SPECIAL, &t->piece, NULL) != 0;
    *bytes = t->piece.s;
    *n = t->piece.n;
    if (tok_is_eog(t->tok, id))
        return VOCAB_END;
    /* Beyond the tokenizer's own: a model's logits may be padded. */
    if ((uint32_t)id >= tok_n_vocab(t->tok) || t->suppressed[id] || attrs & (TOK_UNUSED | TOK_UNKNOWN))
        return VOCAB_UNUSED;
    return control ? VOCAB_CONTROL : VOCAB_TEXT;
}

static int index_engine(const struct engine *eng, struct vocab_index **out, struct err *e)
{
    struct engine_tokens t = { .tok = eng->tok, .suppressed = calloc(eng->info.n_vocab + 1ull, sizeof(bool)) };
    struct vocab_source src = { .n_vocab = eng->info.n_vocab, .user = &t, .token = engine_token };
    size_t n;
    const int32_t *id = tok_suppressed(eng->tok, &n);
    if (!t.suppressed)
        return err_set(e, -ENOMEM, "grammar: out of memory for an index of %u tokens", src.n_vocab);
    for (size_t i = 0; i < n; i++)
        if (id[i] >= 0 && (uint32_t)id[i] < src.n_vocab)
            t.suppressed[id[i]] = true;
    int rc = vocab_index_create(&src, out, e);
    if (!rc && t.failed) {
        vocab_index_destroy(*out);
        *out = NULL;
        rc = err_set(e, -ENOMEM, "grammar: out of memory for the texts of %u tokens", src.n_vocab);
    }
    tok_buf_finish(&t.piece);
    free(t.suppressed);
    return rc;
}

int engine_vocab(const struct engine *eng, const struct vocab_index **out, struct err *e)
{
    struct engine *own = (struct engine *)eng; /* made on demand: to callers the engine does not change */
    int rc = engine_need_vocab(eng, e);
    if (rc)
        return rc;
    pthread_mutex_lock(&own->vocab_lock);
    if (!own->vocab)
        rc = index_engine(eng, &own->vocab, e);
    *out = own->vocab;
    pthread_mutex_unlock(&own->vocab_lock);
    return rc;
}
