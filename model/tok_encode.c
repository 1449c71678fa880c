/* Text to tokens: special tokens are cut out first, then each stretch of text goes its family's way. */
#include "base/ckd.h"
#include "model/tok_impl.h"
#include "model/tok_nfc.h"
#include "model/unicode.h"

#define TEXT_MAX ((size_t)1 << 30)

static const char space_mark[] = "\xe2\x96\x81"; /* U+2581, a space inside SPM and Gemma 4 vocabularies */

struct encoder {
    const struct tok *t;
    struct tok_ids *out;
    struct tok_merger m;
    struct tok_buf text; /* with spaces marked, or one word in GPT-2's byte alphabet */
    struct tok_buf nfc;  /* the text normalized */
    tok_cp *cp;
    size_t cap_cp;
    const char *at; /* byte-level: where the next word begins */
};

/* The survivors of merging, as tokens; what is no token goes byte by byte. */
static int put_syms(struct encoder *x, const char *text)
{
    const struct tok *t = x->t;

    for (size_t i = 0; i < x->m.n_sym; i++) {
        const struct tok_sym *s = &x->m.sym[i];
        if (s->len == 0)
            continue;
        if (s->id >= 0 && s->id < (int32_t)t->n_vocab) {
            if (tok_ids_push(x->out, s->id))
                return -ENOMEM;
            continue;
        }
        for (uint32_t k = 0; k < s->len; k++) {
            int32_t id = t->byte_token[(uint8_t)text[s->off + k]];
            if (id < 0 && t->kind == TOK_KIND_SPM)
                id = t->unk;
            if (id >= 0 && tok_ids_push(x->out, id))
                return -ENOMEM;
        }
    }
    return 0;
}

/* ---- byte-level BPE ------------------------------------------------------------------------------------ */

/* The token whose text is the whole word, -1: none. */
static int32_t whole_word(struct encoder *x, const char *s, size_t n)
{
    int32_t id;

    x->text.n = 0;
    if (tok_buf_reserve(&x->text, 2 * n))
        return -1;
    for (size_t i = 0; i < n; i++)
        x->text.n += utf8_encode(tok_byte_char((uint8_t)s[i]), x->text.s + x->text.n);
    id = tok_sym_find(x->t, x->text.s, x->text.n);
    return id < (int32_t)x->t->n_vocab ? id : -1;
}

/* A byte that the vocabulary has no symbol for is lost before merging, so that its neighbours may merge: SmolLM2 has
 * no control characters but those that its training met. */
static int drop_unknown(struct encoder *x, const char **s, size_t *len)
{
    x->text.n = 0;
    if (tok_buf_reserve(&x->text, *len))
        return -ENOMEM;
    for (size_t i = 0; i < *len; i++)
        if (x->t->byte_sym[(uint8_t)(*s)[i]] >= 0)
            x->text.s[x->text.n++] = (*s)[i];
    *s = x->text.s;
    *len = x->text.n;
    return 0;
}

static int put_word(void *user, const tok_cp *c, size_t n)
{
    struct encoder *x = user;
    const char *s = x->at;
    size_t len = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        len += tok_cp_bytes(c[i]);
    x->at += len;
    if (len == 1 && x->t->byte_token[(uint8_t)*s] >= 0)
        return tok_ids_push(x->out, x->t->byte_token[(uint8_t)*s]);
    if (x->t->pre->ignore_merges) {
        int32_t id = len <= x->t->max_text ? whole_word(x, s, len) : -1;
        if (id >= 0)
            return tok_ids_push(x->out, id);
    }
    if (x->t->lacks_bytes && (rc = drop_unknown(x, &s, &len)))
        return rc;
    x->m.n_sym = 0;
    for (size_t i = 0; i < len; i++)
        if (tok_merger_push(&x->m, x->t->byte_sym[(uint8_t)s[i]], (uint32_t)i, 1))
            return -ENOMEM;
    rc = tok_merge(x->t, s, &x->m);
    return rc ? rc : put_syms(x, s);
}

static int encode_bpe(struct encoder *x, const char *s, size_t n)
{
    if (x->t->nfc && tok_nfc_needed(s, n)) {
        x->nfc.n = 0;
        if (tok_nfc(s, n, &x->nfc))
            return -ENOMEM;
        s = x->nfc.s;
        n = x->nfc.n;
    }
    if (x->cap_cp < n) {
        free(x->cp);
        x->cap_cp = 0;
        x->cp = malloc(n * sizeof *x->cp);
        if (!x->cp)
            return -ENOMEM;
        x->cap_cp = n;
    }
    x->at = s;
    return tok_pre_split(x->t->pre, x->cp, tok_pre_decode(s, n, x->cp), put_word, x);
}

/* ---- SPM and Gemma 4 ----------------------------------------------------------------------------------- */

static int mark_spaces(struct encoder *x, const char *s, size_t n, bool prefix)
{
    x->text.n = 0;
    if (prefix && tok_buf_add(&x->text, space_mark, 3))
        return -ENOMEM;
    while (n) {
        const char *sp = memchr(s, ' ', n);
        size_t k = sp ? (size_t)(sp - s) : n;
        if (tok_buf_add(&x->text, s, k) || (sp && tok_buf_add(&x->text, space_mark, 3)))
            return -ENOMEM;
        s += k + (sp ? 1 : 0);
        n -= k + (sp ? 1 : 0);
    }
    return 0;
}

/* Merges s[0..n) from its characters on; a byte that is not UTF-8 is a symbol that merges with nothing. */
static int encode_chars(struct encoder *x, const char *s, size_t n)
{
    const struct tok *t = x->t;
    int rc;

    x->m.n_sym = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        int32_t id = len == 0 ? -1 : len == 1 ? t->byte_sym[(uint8_t)s[i]] : tok_sym_find(t, s + i, len);
        if (tok_merger_push(&x->m, id, (uint32_t)i, (uint32_t)MAX(len, 1u)))
            return -ENOMEM;
        i += MAX(len, 1u);
    }
    rc = tok_merge(t, s, &x->m);
    return rc ? rc : put_syms(x, s);
}

/* Cuts s[0..n) before spaces where no symbol can reach across, so that merging works on words and not on pages. */
static int encode_words(struct encoder *x, const char *s, size_t n)
{
    size_t from = 0;
    int rc = 0;

    for (const char *p = s; !rc && (p = memmem(p, n - (size_t)(p - s), space_mark, 3)); p += 3) {
        if (p == s || x->t->before_space[(uint8_t)p[-1] / 8] >> (p[-1] & 7) & 1)
            continue;
        rc = encode_chars(x, s + from, (size_t)(p - s) - from);
        from = (size_t)(p - s);
    }
    return rc ? rc : encode_chars(x, s + from, n - from);
}

/* Runs of newlines and what lies between them; a run that is a token is taken whole. */
static int encode_lines(struct encoder *x)
{
    const char *s = x->text.s;
    int rc = 0;

    for (size_t i = 0, end; i < x->text.n && !rc; i = end) {
        bool nl = s[i] == '\n';
        for (end = i + 1; end < x->text.n && (s[end] == '\n') == nl;)
            end++;
        int32_t id = nl && end - i <= x->t->max_text ? tok_sym_find(x->t, s + i, end - i) : -1;
        if (id >= 0 && id < (int32_t)x->t->n_vocab)
            rc = tok_ids_push(x->out, id);
        else
            rc = encode_words(x, s + i, end - i);
    }
    return rc;
}

static int encode_text(struct encoder *x, const char *s, size_t n, bool after_special)
{
    int rc;

    if (x->t->kind == TOK_KIND_BPE)
        return encode_bpe(x, s, n);
    rc = mark_spaces(x, s, n, x->t->add_space_prefix && after_special);
    if (rc)
        return rc;
    return x->t->kind == TOK_KIND_SPM ? encode_words(x, x->text.s, x->text.n) : encode_lines(x);
}

int tok_encode_marked(const struct tok *t, const char *text, size_t len, const struct tok_spans *plain,
                      unsigned flags, struct tok_ids *out, struct err *e)
{
    struct encoder x = {.t = t, .out = out};
    struct tok_frags frags = {0};
    int rc = 0;

    if (len > TEXT_MAX)
        return err_set(e, -E2BIG, "tok: %zu bytes of text, at most %zu", len, TEXT_MAX);
    if (flags & TOK_ADD_SPECIAL && t->add_bos)
        rc = tok_ids_push(out, t->bos);
    if (!rc && len)
        rc = tok_partition(t, text, len, plain, flags & TOK_PARSE_SPECIAL, &frags);
    for (size_t i = 0; i < frags.n && !rc; i++) {
        const struct tok_frag *f = &frags.f[i];
        rc = f->id >= 0 ? tok_ids_push(out, f->id)
                        : encode_text(&x, text + f->off, f->len, i == 0 || frags.f[i - 1].id >= 0);
    }
    if (!rc && flags & TOK_ADD_SPECIAL && t->add_eos)
        rc = tok_ids_push(out, t->eos);
    free(frags.f);
    free(x.cp);
    tok_buf_finish(&x.text);
    tok_buf_finish(&x.nfc);
    tok_merger_finish(&x.m);
    return rc ? err_set(e, rc, "tok: no memory for the tokens of %zu bytes of text", len) : 0;
}

int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e)
{
    return tok_encode_marked(t, text, len, NULL, flags, out, e);
}
