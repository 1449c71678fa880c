#include "tools/mkmodel/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/mkmodel/text.h"

enum { MAX_PIECES = 1024, MAX_SYMBOLS = sizeof training_text, MERGE_MIN_COUNT = 2 };

/* ---- byte-pair encoding of the training text ---- */

struct bpe {
    char piece[MAX_PIECES][32];   /* text with plain spaces; the first 256 are the bytes     */
    uint32_t n_pieces;
    uint16_t left[MAX_PIECES], right[MAX_PIECES]; /* merge k made ... */
    uint16_t made[MAX_PIECES];                    /* ... this piece   */
    uint32_t n_merges;
    uint16_t sym[MAX_SYMBOLS];    /* the text as pieces                                      */
    bool start[MAX_SYMBOLS];      /* a word begins here: merges do not cross                 */
    uint32_t n_sym;
    uint32_t count[MAX_PIECES][MAX_PIECES];
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Words are runs of letters with the space before them; everything else stands alone. All pre-tokenisers of the
 * families agree on such pieces. */
static void bpe_split(struct bpe *b)
{
    for (const char *p = training_text; *p; p++) {
        bool glued = is_letter(*p) && p > training_text && (is_letter(p[-1]) || p[-1] == ' ');
        b->sym[b->n_sym] = (uint8_t)*p;
        b->start[b->n_sym++] = !glued;
    }
}

static uint16_t bpe_piece(struct bpe *b, uint16_t l, uint16_t r)
{
    char t[sizeof b->piece[0]];
    int n = snprintf(t, sizeof t, "%s%s", b->piece[l], b->piece[r]);
    if (n >= (int)sizeof t)
        return 0;
    for (uint32_t i = 256; i < b->n_pieces; i++)
        if (strcmp(b->piece[i], t) == 0)
            return (uint16_t)i;
    memcpy(b->piece[b->n_pieces], t, (size_t)n + 1);
    return (uint16_t)b->n_pieces++;
}

/* The most frequent pair; among equals the one whose pieces are older. */
static uint32_t bpe_best(struct bpe *b, uint16_t *l, uint16_t *r)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < b->n_sym; i++)
        if (!b->start[i])
            b->count[b->sym[i - 1]][b->sym[i]]++;
    for (uint32_t i = 1; i < b->n_sym; i++) {
        uint16_t x = b->sym[i - 1], y = b->sym[i];
        if (b->start[i])
            continue;
        uint32_t c = b->count[x][y];
        if (c > best || (c == best && (x < *l || (x == *l && y < *r)))) {
            best = c;
            *l = x;
            *r = y;
        }
    }
    for (uint32_t i = 1; i < b->n_sym; i++)
        if (!b->start[i])
            b->count[b->sym[i - 1]][b->sym[i]] = 0;
    return best;
}

static void bpe_apply(struct bpe *b, uint16_t l, uint16_t r, uint16_t made)
{
    uint32_t o = 0;
    for (uint32_t i = 0; i < b->n_sym; i++, o++) {
        bool hit = i + 1 < b->n_sym && b->sym[i] == l && b->sym[i + 1] == r && !b->start[i + 1];
        b->start[o] = b->start[i];
        b->sym[o] = hit ? made : b->sym[i];
        i += hit;
    }
    b->n_sym = o;
}

static void bpe_train(struct bpe *b, uint32_t n_pieces)
{
    for (int i = 0; i < 256; i++)
        b->piece[i][0] = (char)i;
    b->n_pieces = 256;
    bpe_split(b);
    while (b->n_pieces < n_pieces && b->n_pieces < MAX_PIECES && b->n_merges < MAX_PIECES) {
        uint16_t l = 0, r = 0;
        if (bpe_best(b, &l, &r) < MERGE_MIN_COUNT)
            break;
        uint16_t made = bpe_piece(b, l, r);
        if (!made)
            break;
        b->left[b->n_merges] = l;
        b->right[b->n_merges] = r;
        b->made[b->n_merges++] = made;
        bpe_apply(b, l, r, made);
    }
}

/* ---- spelling ---- */

static char *put_utf8(char *p, uint32_t c)
{
    if (c < 0x80) {
        *p++ = (char)c;
    } else if (c < 0x800) {
        *p++ = (char)(0xc0 | c >> 6);
        *p++ = (char)(0x80 | (c & 63));
    } else {
        *p++ = (char)(0xe0 | c >> 12);
        *p++ = (char)(0x80 | (c >> 6 & 63));
        *p++ = (char)(0x80 | (c & 63));
    }
    return p;
}

/* GPT-2's printable stand-in for a byte. */
static uint32_t byte_stand_in(uint8_t byte)
{
    uint32_t next = 256;
    for (int i = 0; i < 256; i++) {
        bool printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == byte)
            return printable ? byte : next;
        next += !printable;
    }
    return 0;
}

/* A piece in the vocabulary's spelling: stand-ins for gpt2, U+2581 for a space in the others. */
static char *spell(const char *piece, bool byte_level, char *p)
{
    for (; *piece; piece++)
        p = put_utf8(p, byte_level ? byte_stand_in((uint8_t)*piece) : *piece == ' ' ? 0x2581 : (uint8_t)*piece);
    *p = 0;
    return p;
}

/* ---- the families ---- */

struct special {
    const char *text;
    int type;
};

static const struct special chatml_specials[] = {
    { "<|endoftext|>", TOKEN_CONTROL }, { "<|im_start|>", TOKEN_CONTROL }, { "<|im_end|>", TOKEN_CONTROL },
    { "<|vision_start|>", TOKEN_CONTROL }, { "<|vision_end|>", TOKEN_CONTROL }, { "<|image_pad|>", TOKEN_CONTROL },
    { "<tool_call>", TOKEN_USER }, { "</tool_call>", TOKEN_USER }, { "<tool_response>", TOKEN_USER },
    { "</tool_response>", TOKEN_USER }, { "<think>", TOKEN_USER }, { "</think>", TOKEN_USER }, { NULL, 0 }
};
static const struct special llama3_specials[] = {
    { "<|begin_of_text|>", TOKEN_CONTROL }, { "<|end_of_text|>", TOKEN_CONTROL },
    { "<|finetune_right_pad_id|>", TOKEN_CONTROL }, { "<|start_header_id|>", TOKEN_CONTROL },
    { "<|end_header_id|>", TOKEN_CONTROL }, { "<|eom_id|>", TOKEN_CONTROL }, { "<|eot_id|>", TOKEN_CONTROL },
    { "<|python_tag|>", TOKEN_CONTROL }, { NULL, 0 }
};
static const struct special harmony_specials[] = {
    { "<|startoftext|>", TOKEN_CONTROL }, { "<|endoftext|>", TOKEN_CONTROL }, { "<|return|>", TOKEN_CONTROL },
    { "<|constrain|>", TOKEN_CONTROL }, { "<|channel|>", TOKEN_CONTROL }, { "<|start|>", TOKEN_CONTROL },
    { "<|end|>", TOKEN_CONTROL }, { "<|message|>", TOKEN_CONTROL }, { "<|call|>", TOKEN_CONTROL }, { NULL, 0 }
};
static const struct special gemma3_specials[] = {
    { "<pad>", TOKEN_CONTROL }, { "<eos>", TOKEN_CONTROL }, { "<bos>", TOKEN_CONTROL }, { "<unk>", TOKEN_UNKNOWN },
    { "<mask>", TOKEN_CONTROL }, { "<start_of_turn>", TOKEN_CONTROL }, { "<end_of_turn>", TOKEN_CONTROL }, { NULL, 0 }
};
static const struct special gemma4_specials[] = {
    { "<pad>", TOKEN_CONTROL }, { "<eos>", TOKEN_CONTROL }, { "<bos>", TOKEN_CONTROL }, { "<unk>", TOKEN_CONTROL },
    { "<mask>", TOKEN_CONTROL }, { "<|turn>", TOKEN_CONTROL }, { "<turn|>", TOKEN_CONTROL },
    { "<|channel>", TOKEN_CONTROL }, { "<channel|>", TOKEN_CONTROL }, { "<|think|>", TOKEN_CONTROL },
    { "<|tool>", TOKEN_CONTROL }, { "<tool|>", TOKEN_CONTROL }, { "<|tool_call>", TOKEN_CONTROL },
    { "<tool_call|>", TOKEN_CONTROL }, { "<|tool_response>", TOKEN_CONTROL }, { "<tool_response|>", TOKEN_CONTROL },
    { "<|\"|>", TOKEN_USER }, { NULL, 0 }
};

struct family_vocab {
    const char *model, *pre;
    const struct special *specials;
    const char *bos, *eos, *eot, *unk, *pad; /* by text */
    bool add_bos;
};

static struct family_vocab family_vocab(enum model_family f)
{
    switch (f) {
    case FAMILY_LLAMA:
    case FAMILY_MISTRAL3:
        return (struct family_vocab){ "gpt2", "llama-bpe", llama3_specials, "<|begin_of_text|>", "<|eot_id|>", NULL,
                                      NULL, "<|finetune_right_pad_id|>", true };
    case FAMILY_GPT_OSS:
        return (struct family_vocab){ "gpt2", "gpt-4o", harmony_specials, "<|startoftext|>", "<|return|>", NULL, NULL,
                                      "<|endoftext|>", false };
    case FAMILY_GEMMA3:
    case FAMILY_GEMMA3N:
        return (struct family_vocab){ "llama", NULL, gemma3_specials, "<bos>", "<eos>", "<end_of_turn>", "<unk>",
                                      "<pad>", true };
    case FAMILY_GEMMA4:
        return (struct family_vocab){ "gemma4", NULL, gemma4_specials, "<bos>", "<eos>", "<turn|>", "<unk>", "<pad>",
                                      true };
    default:
        return (struct family_vocab){ "gpt2", f == FAMILY_QWEN35 || f == FAMILY_QWEN35MOE ? "qwen35" : "qwen2",
                                      chatml_specials, NULL, "<|im_end|>", NULL, NULL, "<|endoftext|>", false };
    }
}

static void add_token(struct vocab *v, const char *text, int type, float score)
{
    CHECK(v->n < v->cap);
    v->text[v->n] = strdup(text);
    CHECK(v->text[v->n] != NULL);
    v->type[v->n] = type;
    v->score[v->n++] = score;
}

static void add_specials(struct vocab *v, const struct special *s)
{
    for (; s->text; s++)
        add_token(v, s->text, s->type, 0);
}

/* The pieces after the bytes, best (oldest) first; SentencePiece prefers the highest score. */
static void add_pieces(struct vocab *v, const struct bpe *b, bool byte_level)
{
    char t[128];
    for (uint32_t i = 256; i < b->n_pieces && v->n < v->cap; i++) {
        spell(b->piece[i], byte_level, t);
        add_token(v, t, TOKEN_NORMAL, -(float)(i - 256));
    }
}

static void add_bytes(struct vocab *v, bool byte_level)
{
    char t[16];
    for (int i = 0; i < 256; i++) {
        if (byte_level)
            *put_utf8(t, byte_stand_in((uint8_t)i)) = 0;
        else
            snprintf(t, sizeof t, "<0x%02X>", i);
        add_token(v, t, byte_level ? TOKEN_NORMAL : TOKEN_BYTE, 0);
    }
}

static void add_merges(struct vocab *v, const struct bpe *b, bool byte_level)
{
    v->merge = calloc(b->n_merges, sizeof *v->merge);
    CHECK(v->merge != NULL);
    for (uint32_t k = 0; k < b->n_merges; k++) {
        char t[256], *p = spell(b->piece[b->left[k]], byte_level, t);
        *p++ = ' ';
        spell(b->piece[b->right[k]], byte_level, p);
        v->merge[v->n_merges++] = strdup(t);
    }
}

static int32_t find_token(const struct vocab *v, const char *text)
{
    for (uint32_t i = 0; text && i < v->n; i++)
        if (strcmp(v->text[i], text) == 0)
            return (int32_t)i;
    return -1;
}

static uint32_t count_specials(const struct special *s)
{
    uint32_t n = 0;
    while (s[n].text)
        n++;
    return n;
}

int vocab_init(struct vocab *v, enum model_family f, uint32_t n_vocab, struct err *e)
{
    struct family_vocab fv = family_vocab(f);
    bool byte_level = strcmp(fv.model, "gpt2") == 0, gemma = !byte_level;
    uint32_t n_chars = gemma ? 95 : 0, fixed = 256 + count_specials(fv.specials) + n_chars; /* printable ASCII */
    *v = (struct vocab){ .model = fv.model, .pre = fv.pre, .cap = n_vocab, .add_bos = fv.add_bos,
                         .has_scores = gemma };
    if (n_vocab < fixed)
        return err_set(e, -EINVAL, "a vocabulary of %u tokens is too small, the bytes and specials take %u", n_vocab,
                       fixed);
    v->text = calloc(n_vocab, sizeof *v->text);
    v->type = calloc(n_vocab, sizeof *v->type);
    v->score = calloc(n_vocab, sizeof *v->score);
    struct bpe *b = calloc(1, sizeof *b);
    CHECK(v->text && v->type && v->score && b);
    bpe_train(b, 256 + n_vocab - fixed);

    if (gemma)
        add_specials(v, fv.specials);
    add_bytes(v, byte_level);
    add_pieces(v, b, byte_level);
    char t[16];
    for (uint32_t c = 32; c < 32 + n_chars; c++) { /* single characters come last, as in SentencePiece models */
        spell((char[2]){ (char)c, 0 }, false, t);
        add_token(v, t, TOKEN_NORMAL, -1000 - (float)c);
    }
    for (uint32_t k = 0, n = gemma ? 0 : count_specials(fv.specials); v->n + n < n_vocab; k++) {
        char name[32];
        snprintf(name, sizeof name, "<filler_%u>", k);
        add_token(v, name, TOKEN_NORMAL, -1e6f);
    }
    if (!gemma)
        add_specials(v, fv.specials);
    if (f != FAMILY_GEMMA3)
        add_merges(v, b, byte_level);
    free(b);
    v->bos = find_token(v, fv.bos);
    v->eos = find_token(v, fv.eos);
    v->eot = find_token(v, fv.eot);
    v->unk = find_token(v, fv.unk);
    v->pad = find_token(v, fv.pad);
    return 0;
}

void vocab_finish(struct vocab *v)
{
    for (uint32_t i = 0; v->text && i < v->n; i++)
        free(v->text[i]);
    for (uint32_t i = 0; i < v->n_merges; i++)
        free(v->merge[i]);
    free(v->text);
    free(v->type);
    free(v->score);
    free(v->merge);
    *v = (struct vocab){ 0 };
}
