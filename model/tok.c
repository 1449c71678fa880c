#include "model/tok.h"

#include <stdio.h>

#include "base/log.h"
#include "model/tok_impl.h"
#include "model/unicode.h"

static bool str_is(struct gguf_str s, const char *want)
{
    return s.len == strlen(want) && memcmp(s.s, want, s.len) == 0;
}

static int kind_read(struct tok *t, struct err *e)
{
    struct gguf_str s = {"", 0};
    int rc = gguf_get_str(t->gguf, "tokenizer.ggml.model", &s, e);

    if (rc)
        return rc;
    if (s.len == 0 || str_is(s, "none") || str_is(s, "no_vocab"))
        return err_set(e, -ENOENT, "tok: %s: the file has no vocabulary; give token ids with --prompt-tokens",
                       gguf_path(t->gguf));
    if (str_is(s, "gpt2")) {
        t->kind = TOK_KIND_BPE;
        t->model_name = "gpt2";
    } else if (str_is(s, "llama")) {
        t->kind = TOK_KIND_SPM;
        t->model_name = "llama";
        t->unk = 0;
        t->bos = 1;
        t->eos = 2;
        t->add_bos = t->add_space_prefix = true;
    } else if (str_is(s, "gemma4")) {
        t->kind = TOK_KIND_GEMMA4;
        t->model_name = "gemma4";
    } else {
        return err_set(e, -ENOTSUP,
                       "tok: %s: tokenizer.ggml.model '%.*s' is not supported (gpt2, llama, gemma4 are)",
                       gguf_path(t->gguf), (int)(s.len < 64 ? s.len : 64), s.s);
    }
    return 0;
}

static int pre_read(struct tok *t, struct err *e)
{
    struct gguf_str s = {"", 0};
    int rc = gguf_get_str(t->gguf, "tokenizer.ggml.pre", &s, e);

    if (rc)
        return rc;
    if (t->kind == TOK_KIND_GEMMA4)
        s = (struct gguf_str){"gemma4", 6};
    if (s.len == 0) {
        if (t->kind == TOK_KIND_BPE)
            log_warn(TOK, "%s: no tokenizer.ggml.pre, using the 'default' rules: expect worse text",
                     gguf_path(t->gguf));
        s = (struct gguf_str){"default", 7};
    }
    snprintf(t->pre_name, sizeof t->pre_name, "%.*s", (int)(s.len < 63 ? s.len : 63), s.s);
    if (t->kind != TOK_KIND_BPE)
        return 0;
    t->pre = tok_pre_find(s.s, s.len);
    if (!t->pre)
        return err_set(e, -ENOTSUP, "tok: %s: tokenizer.ggml.pre '%s' is not supported", gguf_path(t->gguf),
                       t->pre_name);
    t->add_bos = t->pre->add_bos;
    t->nfc = tok_pre_nfc(t->pre);
    return 0;
}

int tok_create(const struct gguf *g, struct tok **out, struct err *e)
{
    struct tok *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return err_set(e, -ENOMEM, "tok: out of memory for the tokenizer");
    t->gguf = g;
    t->bos = t->eos = t->eot = t->eom = t->unk = t->sep = t->pad = t->mask = -1;
    unicode_classes();
    if ((rc = kind_read(t, e)) || (rc = pre_read(t, e)) || (rc = tok_vocab_read(t, e)) ||
        (t->kind != TOK_KIND_SPM && (rc = tok_merges_read(t, e))) || (rc = tok_special_ids_read(t, e)) ||
        (rc = tok_specials_init(t, e))) {
        tok_destroy(t);
        return rc;
    }
    tok_bytes_init(t);
    if (t->kind != TOK_KIND_BPE)
        tok_before_space_init(t);
    log_info(TOK, "%s: %s/%s, %u tokens, bos %d eos %d eot %d, %zu end generation", gguf_path(g),
             t->model_name, t->pre_name, t->n_vocab, t->bos, t->eos, t->eot, t->n_eog);
    *out = t;
    return 0;
}

void tok_destroy(struct tok *t)
{
    if (!t)
        return;
    tok_vocab_finish(t);
    tok_specials_finish(t);
    free(t->eog);
    free(t->suppressed);
    free(t);
}

static bool in_vocab(const struct tok *t, int32_t id)
{
    return id >= 0 && id < (int32_t)t->n_vocab;
}

uint32_t tok_n_vocab(const struct tok *t)
{
    return t->n_vocab;
}

const char *tok_model_name(const struct tok *t)
{
    return t->model_name;
}

const char *tok_pre_name(const struct tok *t)
{
    return t->pre_name;
}

int32_t tok_bos(const struct tok *t)
{
    return t->bos;
}

int32_t tok_eos(const struct tok *t)
{
    return t->eos;
}

int32_t tok_eot(const struct tok *t)
{
    return t->eot;
}

int32_t tok_unk(const struct tok *t)
{
    return t->unk;
}

int32_t tok_pad(const struct tok *t)
{
    return t->pad;
}

bool tok_add_bos(const struct tok *t)
{
    return t->add_bos;
}

bool tok_add_eos(const struct tok *t)
{
    return t->add_eos;
}

bool tok_is_eog(const struct tok *t, int32_t id)
{
    for (size_t i = 0; i < t->n_eog; i++)
        if (t->eog[i] == id)
            return true;
    return false;
}

bool tok_is_control(const struct tok *t, int32_t id)
{
    return in_vocab(t, id) && t->attr[id] & TOK_CONTROL;
}

unsigned tok_attrs(const struct tok *t, int32_t id)
{
    return in_vocab(t, id) ? t->attr[id] : 0;
}

struct gguf_str tok_text(const struct tok *t, int32_t id)
{
    return in_vocab(t, id) ? (struct gguf_str){t->text[id].s, t->text[id].n} : (struct gguf_str){"", 0};
}

int32_t tok_find(const struct tok *t, const char *text, size_t len)
{
    int32_t id = tok_sym_find(t, text, len);

    return in_vocab(t, id) ? id : -1;
}

const int32_t *tok_eog_ids(const struct tok *t, size_t *n)
{
    *n = t->n_eog;
    return t->eog;
}

const int32_t *tok_suppressed(const struct tok *t, size_t *n)
{
    *n = t->n_suppressed;
    return t->suppressed;
}
