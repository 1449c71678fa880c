/* Fuzzes the tokenizer: vocabularies made of the input, and texts over the small vocabularies of
 * tests/unit/tok_make.h.
 *
 *     byte 0: bits 0..1 the vocabulary (byte-level, SPM, Gemma 4, one made of the input), bits 2..3 encode flags
 *     byte 1: the pre-tokenizer
 *     the rest: text; for a made vocabulary, first its tokens (see from_input)
 *
 * What must hold: nothing crashes, ids lie in the vocabulary, streamed text is UTF-8, and over the vocabularies that
 * have all bytes encode and decode give the text back, in normalization form C where the pre-tokenizer wants it. */
#include "base/check.h"
#include "base/ckd.h"
#include "base/log.h"
#include "model/tok_nfc.h"
#include "model/tok_pre.h"
#include "tests/unit/tok_make.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pres[] = {"default",        "llama-bpe",   "qwen2",     "qwen35",  "gpt-4o",
                                   "tekken",         "gpt-2",       "starcoder", "falcon",  "deepseek-llm",
                                   "deepseek-coder", "deepseek-v3", "laguna",    "minicpm5"};

static struct made *opened(struct made *m, const char *bos)
{
    made_begin(m);
    for (uint32_t i = 0; bos && i < m->n; i++)
        if (strcmp(m->text[i], bos) == 0)
            gguf_put_u32(m->w, "tokenizer.ggml.bos_token_id", i);
    CHECK(made_open(m, NULL) == 0);
    return m;
}

/* Built once for each pre-tokenizer. */
static const struct tok *fixed_vocab(unsigned kind, unsigned pre)
{
    static struct made *bpe[ARRAY_LEN(pres)], *spm, *gemma4;

    if (kind == 0) {
        if (!bpe[pre])
            bpe[pre] = opened(made_bpe(pres[pre]), "<|bos|>");
        return bpe[pre]->t;
    }
    if (!spm) {
        spm = opened(made_spm(), NULL);
        gemma4 = opened(made_gemma4(), "<bos>");
    }
    return kind == 1 ? spm->t : gemma4->t;
}

/* Tokens out of the input: a byte of length and type, then the text, until a zero byte; then merges the same way. The
 * arrays may end up of different lengths. Returns how much was used. */
static size_t from_input(struct gguf_writer *w, const uint8_t *p, size_t n, unsigned pre)
{
    static const char *const models[] = {"gpt2", "llama", "gemma4"};
    struct gguf_str text[64];
    int32_t type[64];
    float score[64];
    size_t at = 0, k = 0, j = 0;

    gguf_put_str(w, "tokenizer.ggml.model", models[pre % 3]);
    gguf_put_str(w, "tokenizer.ggml.pre", pres[pre]);
    for (; k < 64 && at < n && p[at]; k++) {
        size_t len = MIN((size_t)(p[at] & 15), n - at - 1);
        type[k] = p[at] >> 4;
        score[k] = (float)(p[at] % 7) - 3;
        text[k] = (struct gguf_str){(const char *)p + at + 1, len};
        at += 1 + len;
    }
    at += at < n;
    gguf_put_arr_str(w, "tokenizer.ggml.tokens", text, k);
    gguf_put_arr(w, "tokenizer.ggml.token_type", GGUF_I32, type, k);
    gguf_put_arr(w, "tokenizer.ggml.scores", GGUF_F32, score, k - (k && at < n && p[at] == 0xee));
    for (; j < 64 && at < n && p[at]; j++) {
        size_t len = MIN((size_t)(p[at] & 31), n - at - 1);
        text[j] = (struct gguf_str){(const char *)p + at + 1, len};
        at += 1 + len;
    }
    at += at < n;
    gguf_put_arr_str(w, "tokenizer.ggml.merges", text, j);
    if (at + 2 < n) {
        gguf_put_i32(w, "tokenizer.ggml.bos_token_id", (int8_t)p[at]);
        gguf_put_u32(w, "tokenizer.ggml.eos_token_id", p[at + 1]);
        gguf_put_bool(w, "tokenizer.ggml.add_eos_token", p[at + 2] & 1);
        at += 3;
    }
    return at;
}

static void check_utf8(const struct tok_buf *b)
{
    for (size_t i = 0; i < b->n;) {
        uint8_t c = (uint8_t)b->s[i];
        size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        CHECK(len && i + len <= b->n);
        for (size_t k = 1; k < len; k++)
            CHECK(((uint8_t)b->s[i + k] & 0xc0) == 0x80);
        i += len;
    }
}

static void encode_and_back(const struct tok *t, const char *s, size_t n, unsigned flags, bool lossless)
{
    struct tok_ids ids = {0};
    struct tok_buf back = {0}, streamed = {0};
    struct tok_stream st;

    CHECK(tok_encode(t, s, n, flags, &ids, NULL) == 0);
    for (size_t i = 0; i < ids.n; i++)
        CHECK(ids.id[i] >= 0 && ids.id[i] < (int32_t)tok_n_vocab(t));
    CHECK(tok_decode(t, ids.id, ids.n, 0, &back, NULL) == 0);
    if (lossless)
        CHECK(back.n == n && (n == 0 || memcmp(back.s, s, n) == 0));
    tok_stream_init(&st, t, TOK_SHOW_SPECIAL);
    for (size_t i = 0; i < ids.n; i++)
        CHECK(tok_stream_put(&st, ids.id[i], &streamed, NULL) == 0);
    CHECK(tok_stream_finish(&st, &streamed, NULL) == 0);
    check_utf8(&streamed);
    tok_ids_finish(&ids);
    tok_buf_finish(&back);
    tok_buf_finish(&streamed);
}

static void fuzz_made(const uint8_t *p, size_t n, unsigned pre, unsigned flags)
{
    struct made m = {0};
    size_t used;

    CHECK(gguf_writer_create(NULL, &m.w, NULL) == 0);
    used = from_input(m.w, p, n, pre);
    if (made_open(&m, NULL) == 0)
        encode_and_back(m.t, (const char *)p + used, n - used, flags, false);
    tok_destroy(m.t);
    gguf_close(m.g);
    gguf_writer_destroy(m.w);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_configure("err");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned kind, flags, pre;
    const char *s;
    size_t n;

    if (size < 2)
        return 0;
    kind = data[0] & 3;
    flags = data[0] >> 2 & 3;
    pre = data[1] % ARRAY_LEN(pres);
    s = (const char *)data + 2;
    n = size - 2;
    if (kind == 3) {
        fuzz_made(data + 2, n, pre, flags);
        return 0;
    }
    if (kind == 0 && tok_pre_nfc(tok_pre_find(pres[pre], strlen(pres[pre])))) {
        struct tok_buf nfc = {0};
        CHECK(tok_nfc(s, n, &nfc) == 0);
        encode_and_back(fixed_vocab(kind, pre), s, n, flags, false);
        encode_and_back(fixed_vocab(kind, pre), nfc.n ? nfc.s : "", nfc.n, flags, !(flags & TOK_PARSE_SPECIAL));
        tok_buf_finish(&nfc);
        return 0;
    }
    /* A control token in the text prints nothing; U+2581 comes back as a space. */
    encode_and_back(fixed_vocab(kind, pre), s, n, flags,
                    !(flags & TOK_PARSE_SPECIAL) && (kind == 0 || !memmem(s, n, "\xe2\x96\x81", 3)));
    return 0;
}
