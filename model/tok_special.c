/* Special tokens: which ids play a role, which end generation, and how their texts are cut out of the input.
 *
 * llama.cpp takes the special tokens one after the other, longest text first, and each takes its occurrences from
 * left to right out of the text that is still free. Here one walk finds where any special text begins; the lengths
 * that occur are then placed in the same order. */
#include <stdio.h>

#include "base/ckd.h"
#include "base/log.h"
#include "model/tok_impl.h"

/* ---- roles --------------------------------------------------------------------------------------------- */

/* Texts that mark the end of a turn; the first one present is it when the file names none. */
static const char *const eot_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>",
};

/* Texts that end generation wherever they exist. */
static const char *const eog_texts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<eos>",
    "<turn|>",
    "[e~[",
    "<|tool_response>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
};

static const char *const fim_pre_texts[] = {"<|fim_prefix|>",  "<fim-prefix>", "<fim_prefix>",
                                            "<｜fim▁begin｜>", "<PRE>",        "▁<PRE>",
                                            "<|code_prefix|>", "<|prefix|>"};
static const char *const fim_suf_texts[] = {"<|fim_suffix|>",  "<fim-suffix>", "<fim_suffix>",
                                            "<｜fim▁hole｜>",  "<SUF>",        "▁<SUF>",
                                            "<|code_suffix|>", "<|suffix|>"};
static const char *const fim_mid_texts[] = {"<|fim_middle|>",  "<fim-middle>", "<fim_middle>",
                                            "<｜fim▁end｜>",   "<MID>",        "▁<MID>",
                                            "<|code_middle|>", "<|middle|>"};
static const char *const fim_pad_texts[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
static const char *const fim_rep_texts[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
                                            "<reponame>"};
static const char *const fim_sep_texts[] = {"<|file_sep|>"};

static int32_t find_text(const struct tok *t, const char *text)
{
    return tok_find(t, text, strlen(text));
}

/* The first of the texts that is a token; it becomes a control token if it was none. */
static int32_t first_of(struct tok *t, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t id = find_text(t, texts[i]);
        if (id >= 0) {
            t->attr[id] |= TOK_CONTROL;
            return id;
        }
    }
    return -1;
}

static void id_read(struct tok *t, const char *name, int32_t *id)
{
    char key[64];
    const struct gguf_kv *kv;
    int64_t v;

    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    if (*id >= (int32_t)t->n_vocab)
        *id = -1;
    kv = gguf_find(t->gguf, key);
    if (!kv)
        return;
    if (kv->type != GGUF_ARR && gguf_kv_i64(kv, 0, &v) && v >= 0 && v < t->n_vocab)
        *id = (int32_t)v;
    else
        log_warn(TOK, "%s: %s is no token id below %u, ignored", gguf_path(t->gguf), key, t->n_vocab);
}

/* The id by key, else by text. */
static int32_t id_or_text(struct tok *t, const char *name, const char *const *texts, size_t n)
{
    int32_t id = -1;

    id_read(t, name, &id);
    return id >= 0 ? id : first_of(t, texts, n);
}

static int add_flags_read(struct tok *t, struct err *e)
{
    int rc;

    if ((rc = gguf_get_bool(t->gguf, "tokenizer.ggml.add_bos_token", &t->add_bos, e)) ||
        (rc = gguf_get_bool(t->gguf, "tokenizer.ggml.add_eos_token", &t->add_eos, e)) ||
        (rc = gguf_get_bool(t->gguf, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix, e)))
        return rc;
    if (t->kind != TOK_KIND_SPM)
        t->add_space_prefix = false;
    if (t->kind == TOK_KIND_GEMMA4)
        t->add_bos = true;
    if ((t->add_bos && t->bos < 0) || (t->add_eos && t->eos < 0)) {
        log_warn(TOK, "%s: the file asks to add a %s token but does not say which, none is added",
                 gguf_path(t->gguf), t->add_bos && t->bos < 0 ? "BOS" : "EOS");
        t->add_bos &= t->bos >= 0;
        t->add_eos &= t->eos >= 0;
    }
    return 0;
}

/* Control tokens whose text says "unused" are never printed. */
static void mark_unused(struct tok *t)
{
    for (uint32_t i = 0; i < t->n_vocab; i++)
        if (t->attr[i] & TOK_CONTROL && memmem(t->text[i].s, t->text[i].n, "unused", 6))
            t->attr[i] |= TOK_UNUSED;
}

static int compare_ids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

static bool eog_has(const struct tok *t, int32_t id)
{
    for (size_t i = 0; i < t->n_eog; i++)
        if (t->eog[i] == id)
            return id >= 0;
    return false;
}

static void eog_add(struct tok *t, int32_t id)
{
    if (id >= 0 && !eog_has(t, id))
        t->eog[t->n_eog++] = id;
}

static void eog_remove(struct tok *t, int32_t id, unsigned new_attr)
{
    for (size_t i = 0; i < t->n_eog; i++)
        if (t->eog[i] == id)
            t->eog[i--] = t->eog[--t->n_eog];
    t->attr[id] = (uint8_t)new_attr;
}

/* Qwen's "</s>" is HTML: the file calls it normal and ends texts with another token. Training never saw it, because
 * words end between its characters; text that holds it must not become it. */
static bool is_plain_text(const struct tok *t, int32_t id)
{
    return t->kind == TOK_KIND_BPE && id >= 0 && t->attr[id] == TOK_NORMAL && id == find_text(t, "</s>") &&
           t->eos >= 0 && t->eos != id && t->attr[t->eos] & TOK_CONTROL;
}

static int eog_init(struct tok *t, const int32_t fim[3], struct err *e)
{
    static const char *const shown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    int32_t end, id;

    t->eog = malloc((ARRAY_LEN(eog_texts) + 6) * sizeof *t->eog);
    if (!t->eog)
        return err_set(e, -ENOMEM, "tok: out of memory for the end-of-generation ids");
    for (size_t i = 0; i < 3; i++)
        eog_add(t, fim[i]);
    for (size_t i = 0; i < ARRAY_LEN(eog_texts); i++)
        if (!is_plain_text(t, find_text(t, eog_texts[i])))
            eog_add(t, first_of(t, &eog_texts[i], 1));
    /* gpt-oss: these structure a message and must show in the output for a parser to see them. */
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if ((id = find_text(t, shown[i])) >= 0)
            t->attr[id] = TOK_USER_DEFINED;
    eog_add(t, t->eos);
    eog_add(t, t->eot);
    eog_add(t, t->eom);
    /* gpt-oss ends a channel's message, not the turn, with <|end|>; solar-open likewise. */
    end = find_text(t, "<|end|>");
    if (eog_has(t, end) && (eog_has(t, find_text(t, "<|call|>")) || eog_has(t, find_text(t, "<|calls|>"))) &&
        (eog_has(t, find_text(t, "<|return|>")) || eog_has(t, find_text(t, "<|flush|>"))))
        eog_remove(t, end, TOK_USER_DEFINED);
    /* Gemma 4 has an HTML closing tag of that text. */
    id = find_text(t, "</s>");
    if (eog_has(t, id) && eog_has(t, find_text(t, "<|tool_response>")))
        eog_remove(t, id, TOK_NORMAL);
    qsort(t->eog, t->n_eog, sizeof *t->eog, compare_ids);
    return 0;
}

static int suppressed_read(struct tok *t, struct err *e)
{
    const char *key = "tokenizer.ggml.suppress_tokens";
    const struct gguf_kv *kv = gguf_find(t->gguf, key);

    if (!kv)
        return 0;
    if (kv->type != GGUF_ARR || (kv->elem_type != GGUF_I32 && kv->elem_type != GGUF_U32))
        return err_set(e, -EINVAL, "tok: %s: %s is not an array of i32", gguf_path(t->gguf), key);
    t->suppressed = malloc(MAX(kv->n, 1) * sizeof *t->suppressed);
    if (!t->suppressed)
        return err_set(e, -ENOMEM, "tok: out of memory for %llu suppressed tokens", (unsigned long long)kv->n);
    for (uint64_t i = 0; i < kv->n; i++) {
        int64_t v;
        if (gguf_kv_i64(kv, i, &v) && v >= 0 && v < t->n_vocab)
            t->suppressed[t->n_suppressed++] = (int32_t)v;
    }
    return 0;
}

int tok_special_ids_read(struct tok *t, struct err *e)
{
    int32_t fim[3];
    int rc;

    id_read(t, "bos", &t->bos);
    id_read(t, "eos", &t->eos);
    id_read(t, "unknown", &t->unk);
    id_read(t, "seperator", &t->sep);
    id_read(t, "padding", &t->pad);
    id_read(t, "mask", &t->mask);
    if ((rc = add_flags_read(t, e)) || (rc = suppressed_read(t, e)))
        return rc;
    t->eot = id_or_text(t, "eot", eot_texts, ARRAY_LEN(eot_texts));
    t->eom = id_or_text(t, "eom", (const char *const[]){"<|eom_id|>"}, 1);
    id_or_text(t, "fim_pre", fim_pre_texts, ARRAY_LEN(fim_pre_texts));
    id_or_text(t, "fim_suf", fim_suf_texts, ARRAY_LEN(fim_suf_texts));
    id_or_text(t, "fim_mid", fim_mid_texts, ARRAY_LEN(fim_mid_texts));
    fim[0] = id_or_text(t, "fim_pad", fim_pad_texts, ARRAY_LEN(fim_pad_texts));
    fim[1] = id_or_text(t, "fim_rep", fim_rep_texts, ARRAY_LEN(fim_rep_texts));
    fim[2] = id_or_text(t, "fim_sep", fim_sep_texts, ARRAY_LEN(fim_sep_texts));
    mark_unused(t);
    return eog_init(t, fim, e);
}

/* ---- the tree of texts --------------------------------------------------------------------------------- */

static uint32_t child_of(const struct tok_specials *sp, uint32_t node, uint8_t byte)
{
    uint32_t c = sp->node[node].child;

    while (c && sp->node[c].byte != byte)
        c = sp->node[c].sibling;
    return c;
}

static int tree_add(struct tok_specials *sp, const char *s, uint32_t n, int32_t id)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = child_of(sp, at, (uint8_t)s[i]);
        if (!c) {
            if (sp->n_node == sp->cap_node) {
                uint32_t cap = sp->cap_node * 2;
                struct tok_node *p = realloc(sp->node, (size_t)cap * sizeof *p);
                if (!p)
                    return -ENOMEM;
                sp->node = p;
                sp->cap_node = cap;
            }
            c = sp->n_node++;
            sp->node[c] = (struct tok_node){.sibling = sp->node[at].child, .id = -1, .byte = (uint8_t)s[i]};
            sp->node[at].child = c;
        }
        at = c;
    }
    sp->node[at].id = id;
    return 0;
}

static void filter_add(struct tok_specials *sp, const char *s, uint32_t n)
{
    uint32_t first = (uint32_t)(uint8_t)s[0] << 8;

    if (n == 1)
        memset(sp->first_two + first / 8, 0xff, 256 / 8);
    else
        sp->first_two[(first | (uint8_t)s[1]) / 8] |= (uint8_t)(1u << ((uint8_t)s[1] & 7));
}

static int compare_falling(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x < y) - (x > y);
}

int tok_specials_init(struct tok *t, struct err *e)
{
    struct tok_specials *sp = &t->specials;
    uint32_t n = 0, k = 0;

    for (uint32_t i = 0; i < t->n_vocab; i++)
        n += (t->attr[i] & (TOK_CONTROL | TOK_USER_DEFINED | TOK_UNKNOWN)) != 0;
    sp->cap_node = 256;
    sp->node = malloc(sp->cap_node * sizeof *sp->node);
    sp->len = malloc(MAX(n, 1u) * sizeof *sp->len);
    if (!sp->node || !sp->len)
        return err_set(e, -ENOMEM, "tok: out of memory for %u special tokens", n);
    sp->node[0] = (struct tok_node){.id = -1};
    sp->n_node = 1;
    for (uint32_t i = 0; i < t->n_vocab; i++) {
        if (!(t->attr[i] & (TOK_CONTROL | TOK_USER_DEFINED | TOK_UNKNOWN)))
            continue;
        if (tree_add(sp, t->text[i].s, t->text[i].n, (int32_t)i))
            return err_set(e, -ENOMEM, "tok: out of memory for %u special tokens", n);
        filter_add(sp, t->text[i].s, t->text[i].n);
        sp->len[k++] = t->text[i].n;
    }
    qsort(sp->len, k, sizeof *sp->len, compare_falling);
    for (uint32_t i = 0; i < k; i++)
        if (i == 0 || sp->len[i] != sp->len[i - 1])
            sp->len[sp->n_len++] = sp->len[i];
    return 0;
}

void tok_specials_finish(struct tok *t)
{
    free(t->specials.node);
    free(t->specials.len);
}

/* Other user-defined tokens are text in a shorter form: runs of blanks, HTML tags, spare entries. */
bool tok_is_mark(const struct tok *t, int32_t id)
{
    static const char *const marks[] = {
        "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>",
        "</tools>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>",
    };
    if (id < 0 || (uint32_t)id >= t->n_vocab)
        return false;
    if (t->attr[id] & (TOK_CONTROL | TOK_UNKNOWN))
        return true;
    const struct tok_str s = t->text[id];
    if (!(t->attr[id] & TOK_USER_DEFINED) || s.n < 3)
        return false;
    if (memcmp(s.s, "<|", 2) == 0 || memcmp(s.s + s.n - 2, "|>", 2) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (s.n == strlen(marks[i]) && memcmp(s.s, marks[i], s.n) == 0)
            return true;
    return false;
}

/* ---- cutting ------------------------------------------------------------------------------------------- */

struct place {
    size_t off;
    uint64_t fits; /* bit k: a special text of the k-th length of this round begins here */
};

struct match {
    size_t off, len;
    int32_t id;
};

struct cutter {
    const struct tok *t;
    const char *text;
    size_t len;
    const struct tok_spans *plain; /* NULL: none */
    bool parse_special;
    struct place *place;
    size_t n_place, cap_place;
    struct match *match;
    size_t n_match, cap_match;
    uint8_t *taken; /* [len]: belongs to a match */
};

/* Whether [off, off + len) has a byte of the stretches. */
static bool touches(const struct tok_spans *v, size_t off, size_t len)
{
    size_t lo = 0, hi = v->n; /* the first stretch that ends behind off */

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (v->s[mid].off + v->s[mid].len <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < v->n && v->s[lo].off < off + len;
}

static bool wanted(const struct cutter *c, int32_t id, size_t off, size_t len)
{
    if (id < 0 || (!c->parse_special && c->t->attr[id] & (TOK_CONTROL | TOK_UNKNOWN)))
        return false;
    return !c->plain || !tok_is_mark(c->t, id) || !touches(c->plain, off, len);
}

/* The special tokens at `off` whose length is among lens[0..n), falling, as bits; the one of length `len` goes to
 * *id. */
static uint64_t fits_at(const struct cutter *c, size_t off, const uint32_t *lens, uint32_t n, uint32_t len,
                        int32_t *id)
{
    const struct tok_specials *sp = &c->t->specials;
    size_t max = MIN(c->len - off, (size_t)lens[0]);
    uint64_t bits = 0;
    uint32_t at = 0, k = n;

    for (size_t i = 0; i < max; i++) {
        at = child_of(sp, at, (uint8_t)c->text[off + i]);
        if (!at)
            break;
        if (!wanted(c, sp->node[at].id, off, i + 1))
            continue;
        while (k > 0 && lens[k - 1] < i + 1)
            k--;
        if (k > 0 && lens[k - 1] == i + 1)
            bits |= 1ull << (k - 1);
        if (i + 1 == len)
            *id = sp->node[at].id;
    }
    return bits;
}

static int find_places(struct cutter *c)
{
    const uint8_t *filter = c->t->specials.first_two;

    for (size_t i = 0; i < c->len; i++) {
        unsigned b0 = (uint8_t)c->text[i], b1 = i + 1 < c->len ? (uint8_t)c->text[i + 1] : 0;
        if (!(filter[(b0 << 8 | b1) / 8] >> (b1 & 7) & 1))
            continue;
        if (c->n_place == c->cap_place) {
            size_t cap = c->cap_place ? c->cap_place * 2 : 64;
            struct place *p = realloc(c->place, cap * sizeof *p);
            if (!p)
                return -ENOMEM;
            c->place = p;
            c->cap_place = cap;
        }
        c->place[c->n_place++] = (struct place){.off = i};
    }
    return 0;
}

static int take(struct cutter *c, size_t off, size_t len, int32_t id)
{
    if (c->n_match == c->cap_match) {
        size_t cap = c->cap_match ? c->cap_match * 2 : 64;
        struct match *p = realloc(c->match, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        c->match = p;
        c->cap_match = cap;
    }
    c->match[c->n_match++] = (struct match){off, len, id};
    memset(c->taken + off, 1, len);
    return 0;
}

/* Places the texts of up to 64 lengths, lens[0..n) falling. */
static int cut_round(struct cutter *c, const uint32_t *lens, uint32_t n)
{
    uint64_t any = 0;
    size_t keep = 0;

    for (size_t i = 0; i < c->n_place; i++) {
        if (c->taken[c->place[i].off])
            continue;
        c->place[keep] = c->place[i];
        c->place[keep].fits = fits_at(c, c->place[i].off, lens, n, 0, NULL);
        any |= c->place[keep++].fits;
    }
    c->n_place = keep;
    for (uint32_t k = 0; k < n; k++) {
        if (!(any >> k & 1))
            continue;
        for (size_t i = 0; i < c->n_place; i++) {
            size_t off = c->place[i].off;
            int32_t id = -1;
            if (!(c->place[i].fits >> k & 1) || memchr(c->taken + off, 1, lens[k]))
                continue;
            fits_at(c, off, lens, n, lens[k], &id);
            if (take(c, off, lens[k], id))
                return -ENOMEM;
        }
    }
    return 0;
}

static int compare_matches(const void *a, const void *b)
{
    const struct match *x = a, *y = b;

    return (x->off > y->off) - (x->off < y->off);
}

static int frag_add(struct tok_frags *v, size_t off, size_t len, int32_t id)
{
    if (v->n == v->cap) {
        size_t cap = v->cap ? v->cap * 2 : 16;
        struct tok_frag *p = realloc(v->f, cap * sizeof *p);
        if (!p)
            return -ENOMEM;
        v->f = p;
        v->cap = cap;
    }
    v->f[v->n++] = (struct tok_frag){off, len, id};
    return 0;
}

static int cut(struct cutter *c, struct tok_frags *out)
{
    const struct tok_specials *sp = &c->t->specials;
    size_t at = 0;
    int rc = find_places(c);

    if (!rc && c->n_place && !(c->taken = calloc(c->len, 1)))
        rc = -ENOMEM;
    for (uint32_t k = 0; !rc && c->n_place && k < sp->n_len; k += 64)
        rc = cut_round(c, sp->len + k, MIN(sp->n_len - k, 64u));
    if (rc)
        return rc;
    if (c->n_match)
        qsort(c->match, c->n_match, sizeof *c->match, compare_matches);
    for (size_t i = 0; i < c->n_match; i++) {
        const struct match *m = &c->match[i];
        if ((m->off > at && frag_add(out, at, m->off - at, -1)) || frag_add(out, m->off, m->len, m->id))
            return -ENOMEM;
        at = m->off + m->len;
    }
    return at < c->len ? frag_add(out, at, c->len - at, -1) : 0;
}

int tok_partition(const struct tok *t, const char *text, size_t len, const struct tok_spans *plain,
                  bool parse_special, struct tok_frags *out)
{
    struct cutter c = {.t = t, .text = text, .len = len, .plain = plain, .parse_special = parse_special};
    int rc = cut(&c, out);

    free(c.place);
    free(c.match);
    free(c.taken);
    return rc;
}
