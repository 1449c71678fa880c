/* Tokens to text. */
#include "base/ckd.h"
#include "model/tok_impl.h"
#include "model/unicode.h"

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* A byte-level text: each character is a byte; characters outside the alphabet stand for themselves. */
static int put_mapped(struct tok_buf *out, const char *s, size_t n)
{
    if (tok_buf_reserve(out, n))
        return -ENOMEM;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        int b = len ? tok_char_byte(cp) : -1;
        if (b >= 0)
            out->s[out->n++] = (char)b;
        else
            for (size_t k = 0; k < MAX(len, 1u); k++)
                out->s[out->n++] = s[i + k];
        i += MAX(len, 1u);
    }
    return 0;
}

/* U+2581 to space. */
static int put_marked(struct tok_buf *out, const char *s, size_t n)
{
    if (tok_buf_reserve(out, n))
        return -ENOMEM;
    for (size_t i = 0; i < n;) {
        bool mark = n - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0;
        out->s[out->n++] = mark ? ' ' : s[i];
        i += mark ? 3 : 1;
    }
    return 0;
}

static int put_piece(const struct tok *t, int32_t id, unsigned flags, struct tok_buf *out)
{
    if (id < 0 || id >= (int32_t)t->n_vocab)
        return 0;
    const char *s = t->text[id].s;
    size_t n = t->text[id].n;
    unsigned attr = t->attr[id];

    if (attr & (TOK_CONTROL | TOK_UNKNOWN) && !(flags & TOK_SHOW_SPECIAL))
        return 0;
    if (attr & (TOK_CONTROL | TOK_UNKNOWN | TOK_USER_DEFINED))
        return tok_buf_add(out, s, n);
    if (attr & TOK_NORMAL)
        return t->kind == TOK_KIND_BPE ? put_mapped(out, s, n) : put_marked(out, s, n);
    if (attr & TOK_BYTE && n == 6 && memcmp(s, "<0x", 3) == 0 && hex_digit(s[3]) >= 0 &&
        hex_digit(s[4]) >= 0) {
        char b = (char)(hex_digit(s[3]) << 4 | hex_digit(s[4]));
        return tok_buf_add(out, &b, 1);
    }
    return 0;
}

int tok_piece(const struct tok *t, int32_t id, unsigned flags, struct tok_buf *out, struct err *e)
{
    return put_piece(t, id, flags, out) ? err_set(e, -ENOMEM, "tok: out of memory for the text of token %d", id) : 0;
}

int tok_decode(const struct tok *t, const int32_t *ids, size_t n, unsigned flags, struct tok_buf *out,
               struct err *e)
{
    bool strip = t->add_space_prefix;

    for (size_t i = 0; i < n; i++) {
        size_t before = out->n;
        if (put_piece(t, ids[i], flags, out))
            return err_set(e, -ENOMEM, "tok: out of memory for the text of %zu tokens", n);
        if (!strip || (i == 0 && ids[i] == t->bos))
            continue;
        strip = false;
        if (out->n > before && out->s[before] == ' ')
            memmove(out->s + before, out->s + before + 1, --out->n - before);
    }
    return 0;
}

/* ---- streaming ----------------------------------------------------------------------------------------- */

/* How many bytes s[0..n) takes as a prefix of a well-formed character, 0: none. Surrogates are not well-formed here:
 * what goes out is strict UTF-8. */
static size_t prefix_len(const char *s, size_t n, bool *whole)
{
    uint8_t a = (uint8_t)s[0], b = n > 1 ? (uint8_t)s[1] : 0;
    size_t want = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
    size_t have = 1;

    *whole = false;
    if (want == 0)
        return 0;
    if (n > 1 && ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) || (a == 0xf0 && b < 0x90) ||
                  (a == 0xf4 && b > 0x8f)))
        return 1;
    while (have < want && have < n && ((uint8_t)s[have] & 0xc0) == 0x80)
        have++;
    *whole = have == want;
    return have;
}

static int put_strict(struct tok_stream *st, const char *s, size_t n, bool last, struct tok_buf *out)
{
    size_t i = 0;

    while (i < n) {
        bool whole;
        size_t len = prefix_len(s + i, n - i, &whole);
        if (whole) {
            if (tok_buf_add(out, s + i, len))
                return -ENOMEM;
        } else if (len && i + len == n && !last) {
            break;
        } else if (tok_buf_add(out, "\xef\xbf\xbd", 3)) {
            return -ENOMEM;
        }
        i += MAX(len, 1u);
    }
    st->n_held = (uint8_t)(n - i);
    if (st->n_held)
        memmove(st->held, s + i, st->n_held);
    return 0;
}

void tok_stream_init(struct tok_stream *st, const struct tok *t, unsigned flags)
{
    *st = (struct tok_stream){.tok = t, .flags = flags};
}

int tok_stream_bytes(struct tok_stream *st, const char *s, size_t n, struct tok_buf *out, struct err *e)
{
    struct tok_buf joined = {0};
    char small[256]; /* a token's text nearly always fits: generation allocates nothing */
    int rc;

    if (st->n_held == 0) {
        rc = put_strict(st, s, n, false, out);
    } else if (st->n_held + n <= sizeof small) {
        memcpy(small, st->held, st->n_held);
        if (n)
            memcpy(small + st->n_held, s, n);
        rc = put_strict(st, small, st->n_held + n, false, out);
    } else {
        rc = tok_buf_add(&joined, st->held, st->n_held) || tok_buf_add(&joined, s, n)
                 ? -ENOMEM
                 : put_strict(st, joined.s, joined.n, false, out);
        tok_buf_finish(&joined);
    }
    return rc ? err_set(e, rc, "tok: streamed text") : 0;
}

int tok_stream_put(struct tok_stream *st, int32_t id, struct tok_buf *out, struct err *e)
{
    struct tok_buf piece = {0};
    int rc = tok_piece(st->tok, id, st->flags, &piece, e);

    if (!rc)
        rc = tok_stream_bytes(st, piece.s, piece.n, out, e);
    tok_buf_finish(&piece);
    return rc;
}

int tok_stream_finish(struct tok_stream *st, struct tok_buf *out, struct err *e)
{
    char held[sizeof st->held];
    size_t n = st->n_held;

    memcpy(held, st->held, n);
    st->n_held = 0;
    return put_strict(st, held, n, true, out) ? err_set(e, -ENOMEM, "tok: out of memory for the streamed text") : 0;
}
