#include <stdio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/ckd.h"
#include "base/log.h"
#include "model/tok_impl.h"
#include "model/unicode.h"

/* ---- GPT-2's byte alphabet: the printable Latin-1 bytes are themselves, the others follow from U+0100 on  */

static bool byte_prints(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

uint32_t tok_byte_char(uint8_t b)
{
    if (byte_prints(b))
        return b;
    if (b <= 0x20)
        return 0x100u + b;
    return b <= 0xa0 ? 0x121u + (b - 0x7fu) : 0x143u; /* 0x7f..0xa0, then 0xad */
}

int tok_char_byte(uint32_t cp)
{
    if (cp < 0x100)
        return byte_prints(cp) ? (int)cp : -1;
    if (cp <= 0x120)
        return (int)(cp - 0x100);
    if (cp <= 0x142)
        return (int)(cp - 0x121 + 0x7f);
    return cp == 0x143 ? 0xad : -1;
}

/* ---- texts that are not in the file -------------------------------------------------------------------- */

struct tok_chunk {
    struct tok_chunk *next;
    size_t used, cap;
    char s[];
};

char *tok_keep(struct tok *t, const char *s, size_t n)
{
    struct tok_chunk *c = t->chunks;

    if (!c || c->cap - c->used < n) {
        size_t cap = MAX(n, (size_t)1 << 16);
        c = malloc(sizeof *c + cap);
        if (!c)
            return NULL;
        *c = (struct tok_chunk){.next = t->chunks, .cap = cap};
        t->chunks = c;
    }
    char *p = c->s + c->used;
    memcpy(p, s, n);
    c->used += n;
    return p;
}

void tok_vocab_finish(struct tok *t)
{
    for (struct tok_chunk *c = t->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(t->text);
    free(t->attr);
    free(t->prio);
    free(t->slot);
    free(t->pair);
}

/* ---- text to symbol ------------------------------------------------------------------------------------ */

/* The slot of the text, or the empty one where it would go. */
static inline uint32_t slot_of(const struct tok *t, uint64_t h, const char *s, size_t n)
{
    uint32_t tag = (uint32_t)(h >> 32);

    for (uint32_t i = (uint32_t)h & t->slot_mask;; i = (i + 1) & t->slot_mask) {
        const struct tok_slot *p = &t->slot[i];
        if (p->sym < 0)
            return i;
        if (p->hash == tag && t->text[p->sym].n == n && memcmp(t->text[p->sym].s, s, n) == 0)
            return i;
    }
}

int32_t tok_sym_find(const struct tok *t, const char *s, size_t n)
{
    return n ? t->slot[slot_of(t, XXH3_64bits(s, n), s, n)].sym : -1;
}

static int slots_resize(struct tok *t, uint32_t n_slots)
{
    struct tok_slot *slot = malloc((size_t)n_slots * sizeof *slot);

    if (!slot)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_slots; i++)
        slot[i].sym = -1;
    struct tok_slot *old = t->slot;
    uint32_t n_old = old ? t->slot_mask + 1 : 0;
    t->slot = slot;
    t->slot_mask = n_slots - 1;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i].sym < 0)
            continue;
        uint64_t h = XXH3_64bits(t->text[old[i].sym].s, t->text[old[i].sym].n);
        uint32_t k = (uint32_t)h & t->slot_mask;
        while (slot[k].sym >= 0)
            k = (k + 1) & t->slot_mask;
        slot[k] = old[i];
    }
    free(old);
    return 0;
}

/* The symbol of this text with hash h, made if there is none; the text must live as long as t. -1: no memory. */
static int32_t sym_intern(struct tok *t, uint64_t h, const char *s, size_t n, bool keep)
{
    uint32_t i = slot_of(t, h, s, n);

    if (t->slot[i].sym >= 0)
        return t->slot[i].sym;
    if (t->n_sym == t->cap_sym) {
        uint32_t cap = t->cap_sym + t->cap_sym / 2 + 16;
        struct tok_str *p = realloc(t->text, (size_t)cap * sizeof *p);
        if (!p)
            return -1;
        t->text = p;
        t->cap_sym = cap;
    }
    if (keep && !(s = tok_keep(t, s, n)))
        return -1;
    t->text[t->n_sym] = (struct tok_str){s, (uint32_t)n};
    t->slot[i] = (struct tok_slot){(uint32_t)(h >> 32), (int32_t)t->n_sym};
    t->n_sym++;
    if (t->n_sym > t->slot_mask / 4 * 3 && slots_resize(t, (t->slot_mask + 1) * 2))
        return -1;
    return (int32_t)t->n_sym - 1;
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

/* Scores to ranks: the higher the score, the lower the number, equal scores equal. */
static uint32_t score_rank(float score)
{
    uint32_t u;

    score += 0.0f; /* -0 is 0 */
    memcpy(&u, &score, sizeof u);
    return u & 0x80000000u ? u : ~u & 0x7fffffffu;
}

static const struct gguf_kv *find_array(const struct tok *t, const char *key, enum gguf_type a,
                                        enum gguf_type b, uint64_t min_n, int *rc, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(t->gguf, key);

    *rc = 0;
    if (!kv)
        return NULL;
    if (kv->type != GGUF_ARR || (kv->elem_type != a && kv->elem_type != b))
        *rc = err_set(e, -EINVAL, "tok: %s: %s is not an array of %s", gguf_path(t->gguf), key,
                      gguf_type_name(a));
    else if (kv->n < min_n)
        *rc = err_set(e, -EINVAL, "tok: %s: %s has %llu entries for %llu tokens", gguf_path(t->gguf), key,
                      (unsigned long long)kv->n, (unsigned long long)min_n);
    return *rc ? NULL : kv;
}

static int texts_read(struct tok *t, const struct gguf_kv *kv, struct err *e)
{
    for (uint32_t i = 0; i < t->n_vocab; i++) {
        struct gguf_str s;
        if (!gguf_kv_str(kv, i, &s) || s.len > INT32_MAX)
            return err_set(e, -EINVAL, "tok: %s: the text of token %u cannot be read", gguf_path(t->gguf), i);
        if (s.len == 0) {
            char name[32];
            int n = snprintf(name, sizeof name, "[EMPTY_%u]", i);
            log_warn(TOK, "%s: token %u has no text, now '%s'", gguf_path(t->gguf), i, name);
            s = (struct gguf_str){tok_keep(t, name, (size_t)n), (uint64_t)n};
            if (!s.s)
                return err_set(e, -ENOMEM, "tok: out of memory for the tokens' texts");
        }
        t->text[i] = (struct tok_str){s.s, (uint32_t)s.len};
        t->max_text = MAX(t->max_text, (uint32_t)s.len);
        uint64_t h = XXH3_64bits(s.s, s.len);
        struct tok_slot *slot = &t->slot[slot_of(t, h, s.s, s.len)];
        *slot = (struct tok_slot){(uint32_t)(h >> 32), (int32_t)i};
    }
    return 0;
}

static int attrs_read(struct tok *t, struct err *e)
{
    static const uint8_t of_type[] = {0,          TOK_NORMAL, TOK_UNKNOWN, TOK_CONTROL, TOK_USER_DEFINED,
                                      TOK_UNUSED, TOK_BYTE};
    int rc;
    const struct gguf_kv *kv =
        find_array(t, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, t->n_vocab, &rc, e);

    memset(t->attr, TOK_NORMAL, t->n_vocab);
    for (uint32_t i = 0; kv && i < t->n_vocab; i++) {
        int64_t type = 0;
        t->attr[i] =
            gguf_kv_i64(kv, i, &type) && type >= 0 && type < (int64_t)sizeof of_type ? of_type[type] : 0;
    }
    return rc;
}

static int scores_read(struct tok *t, struct err *e)
{
    int rc;
    const struct gguf_kv *kv = find_array(t, "tokenizer.ggml.scores", GGUF_F32, GGUF_I32, t->n_vocab, &rc, e);

    if (rc || t->kind != TOK_KIND_SPM)
        return rc;
    t->prio = calloc(t->n_vocab, sizeof *t->prio);
    if (!t->prio)
        return err_set(e, -ENOMEM, "tok: out of memory for the scores of %u tokens", t->n_vocab);
    for (uint32_t i = 0; i < t->n_vocab; i++) {
        double f = 0.0;
        int64_t k = 0;
        if (kv && !gguf_kv_f64(kv, i, &f) && gguf_kv_i64(kv, i, &k))
            f = (double)k;
        t->prio[i] = score_rank((float)f);
    }
    return 0;
}

int tok_vocab_read(struct tok *t, struct err *e)
{
    const char *key = "tokenizer.ggml.tokens";
    const struct gguf_kv *kv = gguf_find(t->gguf, key);
    uint32_t n_slots = 16;
    int rc;

    if (!kv || (kv->type == GGUF_ARR && kv->n == 0))
        return err_set(e, -ENOENT,
                       "tok: %s: the file has no vocabulary (%s); give token ids with --prompt-tokens",
                       gguf_path(t->gguf), key);
    if (kv->type != GGUF_ARR || kv->elem_type != GGUF_STR)
        return err_set(e, -EINVAL, "tok: %s: %s is not an array of strings", gguf_path(t->gguf), key);
    if (kv->n > INT32_MAX / 8)
        return err_set(e, -EINVAL, "tok: %s: %llu tokens, at most %d", gguf_path(t->gguf),
                       (unsigned long long)kv->n, INT32_MAX / 8);
    t->n_vocab = t->n_sym = t->cap_sym = (uint32_t)kv->n;
    while (n_slots < t->n_vocab * 2)
        n_slots *= 2;
    t->text = calloc(t->n_vocab, sizeof *t->text);
    t->attr = malloc(t->n_vocab);
    if (!t->text || !t->attr || slots_resize(t, n_slots))
        return err_set(e, -ENOMEM, "tok: out of memory for a vocabulary of %u tokens", t->n_vocab);
    if ((rc = texts_read(t, kv, e)) || (rc = attrs_read(t, e)))
        return rc;
    return scores_read(t, e);
}

/* ---- merges -------------------------------------------------------------------------------------------- */

static inline uint32_t pair_hash(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32);
}

bool tok_pair_find(const struct tok *t, int32_t left, int32_t right, uint32_t *rank, int32_t *result)
{
    for (uint32_t i = pair_hash(left, right) & t->pair_mask;; i = (i + 1) & t->pair_mask) {
        const struct tok_pair *p = &t->pair[i];
        if (p->left == left && p->right == right) {
            *rank = p->rank;
            *result = p->result;
            return true;
        }
        if (p->left < 0)
            return false;
    }
}

/* The first merge of a pair is the one that counts. */
static void pair_add(struct tok *t, int32_t left, int32_t right, uint32_t rank, int32_t result)
{
    uint32_t i = pair_hash(left, right) & t->pair_mask;

    for (; t->pair[i].left >= 0; i = (i + 1) & t->pair_mask)
        if (t->pair[i].left == left && t->pair[i].right == right)
            return;
    t->pair[i] = (struct tok_pair){left, right, rank, result};
}

/* Merges are read in batches: each step asks the memory for what the next one needs, for the whole batch, because the
 * index and the texts are spread over more memory than the caches hold. */
enum { MERGE_BATCH = 32 };

struct merge_text {
    const char *s;
    size_t n;
    uint64_t hash;
};

struct merge {
    struct merge_text left, right, joined;
    uint32_t rank;
    int32_t left_sym, right_sym, result;
};

/* "left right", cut at the first space after the first byte. false: it is not two texts. */
static bool merge_parse(struct merge *m, struct gguf_str s, uint32_t rank)
{
    const char *sp = s.len > 2 && s.len <= INT32_MAX ? memchr(s.s + 1, ' ', s.len - 2) : NULL;

    if (!sp)
        return false;
    m->left = (struct merge_text){.s = s.s, .n = (size_t)(sp - s.s)};
    m->right = (struct merge_text){.s = sp + 1, .n = s.len - m->left.n - 1};
    m->rank = rank;
    return true;
}

static void merge_text_hash(const struct tok *t, struct merge_text *x)
{
    x->hash = XXH3_64bits(x->s, x->n);
    __builtin_prefetch(&t->slot[(uint32_t)x->hash & t->slot_mask]);
}

/* Asks for the text that the index most likely names: first its entry, then its bytes. */
static void merge_text_fetch(const struct tok *t, const struct merge_text *x, bool bytes)
{
    int32_t sym = t->slot[(uint32_t)x->hash & t->slot_mask].sym;

    if (sym >= 0)
        __builtin_prefetch(bytes ? (const void *)t->text[sym].s : &t->text[sym]);
}

static int merges_add(struct tok *t, struct merge *m, size_t n, struct tok_buf *joined)
{
    joined->n = 0;
    for (size_t i = 0; i < n; i++)
        if (tok_buf_add(joined, m[i].left.s, m[i].left.n) || tok_buf_add(joined, m[i].right.s, m[i].right.n))
            return -ENOMEM;
    for (size_t i = 0, at = 0; i < n; at += m[i++].joined.n) {
        m[i].joined = (struct merge_text){.s = joined->s + at, .n = m[i].left.n + m[i].right.n};
        merge_text_hash(t, &m[i].left);
        merge_text_hash(t, &m[i].right);
        merge_text_hash(t, &m[i].joined);
    }
    for (int bytes = 0; bytes < 2; bytes++) {
        for (size_t i = 0; i < n; i++) {
            merge_text_fetch(t, &m[i].left, bytes);
            merge_text_fetch(t, &m[i].right, bytes);
            merge_text_fetch(t, &m[i].joined, bytes);
        }
    }
    for (size_t i = 0; i < n; i++) {
        m[i].left_sym = sym_intern(t, m[i].left.hash, m[i].left.s, m[i].left.n, false);
        m[i].right_sym = sym_intern(t, m[i].right.hash, m[i].right.s, m[i].right.n, false);
        m[i].result = sym_intern(t, m[i].joined.hash, m[i].joined.s, m[i].joined.n, true);
        if (m[i].left_sym < 0 || m[i].right_sym < 0 || m[i].result < 0)
            return -ENOMEM;
        __builtin_prefetch(&t->pair[pair_hash(m[i].left_sym, m[i].right_sym) & t->pair_mask], 1);
    }
    for (size_t i = 0; i < n; i++)
        pair_add(t, m[i].left_sym, m[i].right_sym, m[i].rank, m[i].result);
    return 0;
}

int tok_merges_read(struct tok *t, struct err *e)
{
    const char *key = "tokenizer.ggml.merges";
    uint64_t n_slots = 16, n_bad = 0;
    struct tok_buf joined = {0};
    int rc;
    const struct gguf_kv *kv = find_array(t, key, GGUF_STR, GGUF_STR, 0, &rc, e);

    if (rc)
        return rc;
    if (!kv)
        return err_set(e, -EINVAL, "tok: %s: a '%s' vocabulary needs %s, which is missing",
                       gguf_path(t->gguf), t->model_name, key);
    if (kv->n > INT32_MAX / 8)
        return err_set(e, -EINVAL, "tok: %s: %llu merges, at most %d", gguf_path(t->gguf),
                       (unsigned long long)kv->n, INT32_MAX / 8);
    while (n_slots < kv->n * 2)
        n_slots *= 2;
    t->pair = malloc(n_slots * sizeof *t->pair);
    if (!t->pair)
        return err_set(e, -ENOMEM, "tok: out of memory for %llu merges", (unsigned long long)kv->n);
    for (uint64_t i = 0; i < n_slots; i++)
        t->pair[i].left = -1;
    t->pair_mask = (uint32_t)(n_slots - 1);
    for (uint64_t i = 0; i < kv->n && !rc;) {
        struct merge batch[MERGE_BATCH];
        size_t n = 0;
        for (; i < kv->n && n < MERGE_BATCH; i++) {
            struct gguf_str text;
            if (gguf_kv_str(kv, i, &text) && merge_parse(&batch[n], text, (uint32_t)i))
                n++;
            else
                n_bad++;
        }
        rc = merges_add(t, batch, n, &joined);
    }
    tok_buf_finish(&joined);
    if (rc)
        return err_set(e, rc, "tok: %llu merges", (unsigned long long)kv->n);
    if (n_bad)
        log_warn(TOK, "%s: ignored %llu merges that are not two texts with a space between",
                 gguf_path(t->gguf), (unsigned long long)n_bad);
    return 0;
}

void tok_before_space_init(struct tok *t)
{
    for (uint32_t i = 0; i < t->n_sym; i++) {
        const char *s = t->text[i].s, *end = s + t->text[i].n;
        for (s++; s < end && (s = memmem(s, (size_t)(end - s), "\xe2\x96\x81", 3)); s++)
            t->before_space[(uint8_t)s[-1] / 8] |= (uint8_t)(1u << (s[-1] & 7));
    }
}

void tok_bytes_init(struct tok *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char s[8] = {(char)b};
        size_t n = 1;
        if (t->kind == TOK_KIND_BPE)
            n = utf8_encode(tok_byte_char((uint8_t)b), s);
        t->byte_sym[b] = b < 0x80 || t->kind == TOK_KIND_BPE ? tok_sym_find(t, s, n) : -1;
        t->byte_token[b] = t->byte_sym[b];
        t->lacks_bytes |= t->kind == TOK_KIND_BPE && t->byte_sym[b] < 0;
        if (t->kind != TOK_KIND_BPE) {
            snprintf(s, sizeof s, "<0x%02X>", b);
            t->byte_token[b] = tok_sym_find(t, s, 6);
            if (t->byte_token[b] < 0 && t->kind == TOK_KIND_SPM) {
                s[0] = (char)b;
                t->byte_token[b] = tok_sym_find(t, s, 1);
            }
        }
        if (t->byte_token[b] >= (int32_t)t->n_vocab)
            t->byte_token[b] = -1;
    }
}
