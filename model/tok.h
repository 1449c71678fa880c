/* model/tok.h
 * Text to tokens and back, as a GGUF file's vocabulary says (tokenizer.ggml.*). For valid UTF-8 the ids are those of
 * the model's released tokenizer. They are those of llama.cpp too, but for three things: Qwen's text is brought to
 * normalization form C first (tok_nfc.h); a byte without a token vanishes before merging, not after it (SmolLM2's
 * control characters); and "</s>" is no special token where the vocabulary ends texts with another one (Qwen). The
 * rules are in tok_pre.c (splitting), tok_merge.c (merging) and tok_special.c (special tokens).
 *
 *     struct tok *t;
 *     struct tok_ids ids = {0};
 *     if (tok_create(g, &t, &e) || tok_encode(t, text, len, TOK_ADD_SPECIAL, &ids, &e)) ...
 *     struct tok_stream st;
 *     tok_stream_init(&st, t, 0);
 *     tok_stream_put(&st, id, &out);          each generated token; out grows by whole characters only
 *     tok_stream_finish(&st, &out);
 *
 * Families: byte-level BPE ("gpt2" with its pre-tokenizers), SentencePiece-style by score ("llama": Llama 2, Gemma 3)
 * and Gemma 4's merge-ranked BPE over raw text ("gemma4").
 *
 * Bytes that are not UTF-8. llama.cpp turns each byte of a broken sequence into U+FFFD and so loses it. Here such
 * a byte splits words exactly as U+FFFD would, but then goes on as the byte it is: as the byte's own token
 * (byte-level BPE) or as <0xXX> (the other two). So tok_encode followed by tok_decode returns the same bytes for any
 * input, provided that the vocabulary has all 256 byte tokens, with three exceptions: the text U+2581 ("lower one
 * eighth block") stands for a space in SPM and Gemma 4 vocabularies and comes back as one; Qwen's text comes back in
 * normalization form C; and where add_space_prefix is on, a user-defined token in the middle of the text puts a space
 * before what follows, as it does in llama.cpp.
 *
 * A struct tok is immutable after tok_create: any number of threads may use it. */
#ifndef ZINC_MODEL_TOK_H
#define ZINC_MODEL_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/gguf.h"
#include "model/tok_buf.h"

struct tok;

enum {
    TOK_ADD_SPECIAL = 1,   /* encode: BOS and EOS where the file asks for them                        */
    TOK_PARSE_SPECIAL = 2, /* encode: control tokens written in the text become tokens. User-defined
                              tokens do with or without it                                            */
    TOK_SHOW_SPECIAL = 4,  /* pieces: print control and unknown tokens as their text                  */
};

/* What a token is; bits as in llama.cpp. */
enum tok_attr {
    TOK_UNKNOWN = 1,
    TOK_UNUSED = 2,
    TOK_NORMAL = 4,
    TOK_CONTROL = 8,
    TOK_USER_DEFINED = 16,
    TOK_BYTE = 32
};

/* Reads the vocabulary of `g`, which must outlive the tokenizer (token texts stay in its mapping).
 * -ENOENT: the file has no vocabulary (then prompts are token ids: --prompt-tokens); -ENOTSUP: a kind of tokenizer or
 * pre-tokenizer that zinc does not know; -EINVAL: broken metadata. Special ids out of range are ignored with a
 * warning, duplicate token texts resolve to the last id, of duplicate merges the first counts, merges without two
 * halves are ignored, an empty token is renamed [EMPTY_<id>]. */
int tok_create(const struct gguf *g, struct tok **out, struct err *e);
void tok_destroy(struct tok *t); /* NULL is fine */

/* Appends the tokens of text[0..len) to *out. -E2BIG: more than 1 GiB of text; -ENOMEM. On failure *out keeps what it
 * had plus an unspecified number of tokens. */
int tok_encode(const struct tok *t, const char *text, size_t len, unsigned flags, struct tok_ids *out,
               struct err *e);

/* The same for text of two kinds: in the stretches `plain` (NULL: none), whoever wrote them, no token that structures
 * a prompt is found: neither control tokens, nor user-defined ones like <|turn>, <think> or <tool_call> that chat
 * formats put around their parts. Such a text becomes ordinary tokens there, also where only a part of it lies inside. */
int tok_encode_marked(const struct tok *t, const char *text, size_t len, const struct tok_spans *plain,
                      unsigned flags, struct tok_ids *out, struct err *e);

/* Whether the token structures prompts, as above. */
bool tok_is_mark(const struct tok *t, int32_t id);

/* Appends the bytes of one token to *out: nothing for unused tokens, for control and unknown ones unless
 * TOK_SHOW_SPECIAL, and for ids outside the vocabulary. A piece may end, or begin, inside a character. */
int tok_piece(const struct tok *t, int32_t id, unsigned flags, struct tok_buf *out, struct err *e);

/* Appends the bytes of n tokens. The space that add_space_prefix put before the text is taken away again. */
int tok_decode(const struct tok *t, const int32_t *ids, size_t n, unsigned flags, struct tok_buf *out,
               struct err *e);

/* Pieces for a screen or a socket: what is appended is always whole, valid UTF-8. Up to three bytes of an unfinished
 * character wait for the next token; a byte that can belong to no character becomes U+FFFD, one per maximal broken
 * sequence, and so does a tail that is still unfinished at tok_stream_finish. */
struct tok_stream {
    const struct tok *tok;
    unsigned flags;
    uint8_t n_held;
    char held[4];
};
void tok_stream_init(struct tok_stream *st, const struct tok *t, unsigned flags);
int tok_stream_put(struct tok_stream *st, int32_t id, struct tok_buf *out, struct err *e);
int tok_stream_finish(struct tok_stream *st, struct tok_buf *out,
                      struct err *e); /* the stream is as new afterwards */

/* The same for bytes from elsewhere. */
int tok_stream_bytes(struct tok_stream *st, const char *s, size_t n, struct tok_buf *out, struct err *e);

uint32_t tok_n_vocab(const struct tok *t);
const char *tok_model_name(const struct tok *t); /* "gpt2", "llama" or "gemma4"                      */
const char *tok_pre_name(const struct tok *t);   /* the pre-tokenizer as the file names it, or "default" */

/* -1: the vocabulary has none. A byte-level vocabulary without bos/eos keys has none (llama.cpp then takes id 11). */
int32_t tok_bos(const struct tok *t);
int32_t tok_eos(const struct tok *t);
int32_t tok_eot(const struct tok *t);
int32_t tok_unk(const struct tok *t);
int32_t tok_pad(const struct tok *t);
bool tok_add_bos(const struct tok *t); /* TOK_ADD_SPECIAL puts a BOS in front */
bool tok_add_eos(const struct tok *t);

/* Questions about one id; false, 0 or an empty text outside the vocabulary. */
bool tok_is_eog(const struct tok *t, int32_t id); /* generation ends here */
bool tok_is_control(const struct tok *t, int32_t id);
unsigned tok_attrs(const struct tok *t, int32_t id);
struct gguf_str tok_text(const struct tok *t,
                         int32_t id); /* as stored: byte-level vocabularies keep their mapped form */

/* The id of the token whose stored text is exactly this, -1: none. */
int32_t tok_find(const struct tok *t, const char *text, size_t len);

/* The ids that end generation, ascending, and those that must not be sampled (tokenizer.ggml.suppress_tokens). */
const int32_t *tok_eog_ids(const struct tok *t, size_t *n);
const int32_t *tok_suppressed(const struct tok *t, size_t *n);

#endif
