#include "model/tok_pre.h"

#include <string.h>

#include "base/ckd.h"
#include "model/unicode.h"

static inline bool is(tok_cp c, unsigned cls)
{
    return (TOK_CLS(c) & cls) != 0;
}

static inline bool is_nl(tok_cp c)
{
    return TOK_CP(c) == '\r' || TOK_CP(c) == '\n';
}

static inline bool is_ch(tok_cp c, char ch)
{
    return TOK_CP(c) == (uint8_t)ch;
}

static inline size_t run_of(const tok_cp *c, size_t i, size_t n, unsigned cls)
{
    while (i < n && is(c[i], cls))
        i++;
    return i;
}

static inline size_t run_of_not(const tok_cp *c, size_t i, size_t n, unsigned cls)
{
    while (i < n && !is(c[i], cls))
        i++;
    return i;
}

/* 's 't 'm 'd 're 've 'll at i: its length, or 0. */
static inline size_t contraction(const tok_cp *c, size_t i, size_t n, bool any_case)
{
    uint32_t fold = any_case ? 0x20 : 0;
    uint32_t a, b;

    if (i + 1 >= n || !is_ch(c[i], '\''))
        return 0;
    a = TOK_CP(c[i + 1]) < 0x80 ? TOK_CP(c[i + 1]) | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (i + 2 >= n)
        return 0;
    b = TOK_CP(c[i + 2]) < 0x80 ? TOK_CP(c[i + 2]) | fold : 0;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* White space at i: up to its last newline; else all but the character before a word; else all. */
static inline size_t white(const tok_cp *c, size_t i, size_t n, bool newlines)
{
    size_t end = run_of(c, i, n, UC_WS);

    if (newlines)
        for (size_t j = end; j > i; j--)
            if (is_nl(c[j - 1]))
                return j;
    return end < n && end - i > 1 ? end - 1 : end;
}

static inline size_t newline_tail(const tok_cp *c, size_t i, size_t n, bool slash)
{
    while (i < n && (is_nl(c[i]) || (slash && is_ch(c[i], '/'))))
        i++;
    return i;
}

static inline size_t digits(const tok_cp *c, size_t i, size_t n, size_t max)
{
    size_t end = i;

    while (end < n && is(c[end], UC_N) && (!max || end - i < max))
        end++;
    return end;
}

/* A space at most, then one or more characters outside `not`: its end, or i. */
static inline size_t other(const tok_cp *c, size_t i, size_t n, unsigned not )
{
    size_t start = i + (is_ch(c[i], ' ') ? 1 : 0);
    size_t end = run_of_not(c, start, n, not );

    return end > start ? end : i;
}

/* ---- GPT-2 and its descendants ------------------------------------------------------------------------- */

static size_t rule_gpt2(const tok_cp *c, size_t i, size_t n)
{
    size_t k = contraction(c, i, n, false);
    size_t j = i + (is_ch(c[i], ' ') && i + 1 < n ? 1 : 0);

    if (k)
        return i + k;
    if (is(c[j], UC_L))
        return run_of(c, j, n, UC_L);
    if (is(c[j], UC_N))
        return run_of(c, j, n, UC_N);
    if (!is(c[j], UC_WS))
        return run_of_not(c, j, n, UC_WS | UC_L | UC_N);
    return white(c, i, n, false);
}

/* The rules that Llama 3 and Qwen share: `letters` make words, max_digits 0 is no limit, newlines join the symbols
 * before them. */
static inline size_t word_rules(const tok_cp *c, size_t i, size_t n, bool contractions, unsigned letters,
                                size_t max_digits, bool newlines)
{
    size_t k = contractions ? contraction(c, i, n, true) : 0;
    unsigned not = UC_WS | UC_N | letters;

    if (k)
        return i + k;
    if (is(c[i], letters))
        return run_of(c, i, n, letters);
    if (!is_nl(c[i]) && !is(c[i], UC_N) && i + 1 < n && is(c[i + 1], letters))
        return run_of(c, i + 1, n, letters);
    if (is(c[i], UC_N))
        return digits(c, i, n, max_digits);
    k = other(c, i, n, not );
    if (k > i)
        return newlines ? newline_tail(c, k, n, false) : k;
    return white(c, i, n, true);
}

static size_t rule_llama3(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, true, UC_L, 3, true);
}

static size_t rule_llama3_long_numbers(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, true, UC_L, 0, true);
}

static size_t rule_qwen2(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, true, UC_L, 1, true);
}

static size_t rule_qwen35(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, true, UC_L | UC_M, 1, true);
}

static size_t rule_ufakzeka(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, false, UC_L, 1, true);
}

static size_t rule_seed_coder(const tok_cp *c, size_t i, size_t n)
{
    return word_rules(c, i, n, true, UC_L, 1, false);
}

/* ---- gpt-4o and tekken: words by case ------------------------------------------------------------------ */

static inline bool upperish(tok_cp c)
{
    return is(c, UC_L) && !(TOK_CP(c) >= 'a' && TOK_CP(c) <= 'z');
}

static inline bool lowerish(tok_cp c)
{
    return is(c, UC_L) && !(TOK_CP(c) >= 'A' && TOK_CP(c) <= 'Z');
}

/* upper* lower+, and where no lower can follow, upper+ lower*. Letters outside ASCII are both, so the run of uppers
 * gives back letters until the last of them can serve as the one lower that is needed. */
static size_t cased_word(const tok_cp *c, size_t i, size_t n)
{
    size_t up = i;

    while (up < n && upperish(c[up]))
        up++;
    if (up < n && lowerish(c[up])) {
        while (up < n && lowerish(c[up]))
            up++;
        return up;
    }
    for (size_t j = up; j > i; j--)
        if (lowerish(c[j - 1]))
            return j;
    return up;
}

static inline size_t cased_rules(const tok_cp *c, size_t i, size_t n, bool contractions, size_t max_digits)
{
    size_t start = is(c[i], UC_L) ? i : i + 1;
    size_t end;

    if (start == i || (!is_nl(c[i]) && !is(c[i], UC_N) && start < n && is(c[start], UC_L))) {
        end = cased_word(c, start, n);
        return end + (contractions ? contraction(c, end, n, true) : 0);
    }
    if (is(c[i], UC_N))
        return digits(c, i, n, max_digits);
    end = other(c, i, n, UC_WS | UC_L | UC_N);
    if (end > i)
        return newline_tail(c, end, n, true);
    return white(c, i, n, true);
}

static size_t rule_gpt4o(const tok_cp *c, size_t i, size_t n)
{
    return cased_rules(c, i, n, true, 3);
}

static size_t rule_tekken(const tok_cp *c, size_t i, size_t n)
{
    return cased_rules(c, i, n, false, 1);
}

/* ---- single stages ------------------------------------------------------------------------------------- */

static size_t rule_number(const tok_cp *c, size_t i, size_t n)
{
    return digits(c, i, n, 1);
}

static size_t rule_numbers3(const tok_cp *c, size_t i, size_t n)
{
    return digits(c, i, n, 3);
}

static size_t rule_numbers(const tok_cp *c, size_t i, size_t n)
{
    return digits(c, i, n, 0);
}

static size_t rule_ascii_digits3(const tok_cp *c, size_t i, size_t n)
{
    for (size_t k = 0; k < 3; k++)
        if (i + k >= n || TOK_CP(c[i + k]) < '0' || TOK_CP(c[i + k]) > '9')
            return i;
    return i + 3;
}

static size_t rule_newline(const tok_cp *c, size_t i, size_t n)
{
    return i + (is_nl(c[i]) ? 1 : 0);
}

static size_t rule_lines(const tok_cp *c, size_t i, size_t n)
{
    bool nl = is_ch(c[i], '\n');

    while (i < n && is_ch(c[i], '\n') == nl)
        i++;
    return i;
}

static inline bool ascii_in(tok_cp c, const char *set)
{
    return TOK_CP(c) > 0 && TOK_CP(c) < 0x80 && strchr(set, (int)TOK_CP(c));
}

static size_t rule_punct_default(const tok_cp *c, size_t i, size_t n)
{
    while (i < n && (is(c[i], UC_P) || ascii_in(c[i], "$+<=>^~|")))
        i++;
    return i;
}

static size_t rule_punct_falcon(const tok_cp *c, size_t i, size_t n)
{
    while (i < n && (is(c[i], UC_P) || ascii_in(c[i], "$+<=>^~|`")))
        i++;
    return i;
}

/* ---- DeepSeek ------------------------------------------------------------------------------------------ */

struct cp_range {
    uint16_t lo, hi;
};

static bool in_ranges(uint32_t cp, const struct cp_range *r, size_t n)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (cp > r[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && cp >= r[lo].lo && cp <= r[lo].hi;
}

/* The letters with case that deepseek-llm's rule lists. */
static bool cased_letter(tok_cp c)
{
    static const struct cp_range low[] = {
        {'A', 'Z'},       {'a', 'z'},       {0xb5, 0xb5},     {0xc0, 0xd6},     {0xd8, 0xf6},
        {0xf8, 0x1ba},    {0x1bc, 0x1bf},   {0x1c4, 0x293},   {0x295, 0x2af},   {0x370, 0x373},
        {0x376, 0x377},   {0x37b, 0x37d},   {0x37f, 0x37f},   {0x386, 0x386},   {0x388, 0x38a},
        {0x38c, 0x38c},   {0x38e, 0x3a1},   {0x3a3, 0x3f5},   {0x3f7, 0x481},   {0x48a, 0x52f},
        {0x531, 0x556},   {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba},
        {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15},
        {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59},
        {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc},
        {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
        {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107},
        {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126},
        {0x2128, 0x2128}, {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f},
        {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4},
        {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf3}, {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f},
        {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17},
        {0xff21, 0xff3a}, {0xff41, 0xff5a},
    };
    static const struct cp_range high[] = {
        /* from U+10000 */
        {0x400, 0x44f}, {0x4b0, 0x4d3},   {0x4d8, 0x4fb},   {0xc80, 0xcb2},
        {0xcc0, 0xcf2}, {0x18a0, 0x18df}, {0xe900, 0xe943},
    };
    uint32_t cp = TOK_CP(c);

    if (is(c, UC_WS))
        return false;
    if (cp < 0x10000)
        return in_ranges(cp, low, ARRAY_LEN(low));
    return cp < 0x20000 && in_ranges(cp - 0x10000, high, ARRAY_LEN(high));
}

static bool deepseek_punct(tok_cp c)
{
    static const struct cp_range r[] = {
        {'!', '/'}, {':', '~'}, {0x2018, 0x201f}, {0x3000, 0x3002}, {0xff01, 0xff0f}, {0xff1a, 0xff5e},
    };

    return !is(c, UC_WS) && TOK_CP(c) < 0x10000 && in_ranges(TOK_CP(c), r, ARRAY_LEN(r));
}

static inline size_t white_then(const tok_cp *c, size_t i, size_t n, bool (*test)(tok_cp))
{
    size_t start = i + (is(c[i], UC_WS) ? 1 : 0);
    size_t end = start;

    while (end < n && test(c[end]))
        end++;
    return end > start ? end : i;
}

static bool is_letter(tok_cp c)
{
    return is(c, UC_L);
}

static bool is_punct(tok_cp c)
{
    return is(c, UC_P);
}

static size_t rule_white_cased(const tok_cp *c, size_t i, size_t n)
{
    return white_then(c, i, n, cased_letter);
}

static size_t rule_white_deepseek_punct(const tok_cp *c, size_t i, size_t n)
{
    return white_then(c, i, n, deepseek_punct);
}

static size_t rule_white_letters(const tok_cp *c, size_t i, size_t n)
{
    return white_then(c, i, n, is_letter);
}

static size_t rule_white_punct(const tok_cp *c, size_t i, size_t n)
{
    return white_then(c, i, n, is_punct);
}

static size_t rule_white_at_end(const tok_cp *c, size_t i, size_t n)
{
    if (i > 0 && is(c[i - 1], UC_WS))
        return i; /* the run was tried where it begins */
    return run_of(c, i, n, UC_WS) == n ? n : i;
}

/* The "Chinese" run of deepseek-llm and -coder, which takes in much else between U+0800 and U+4E00. */
static size_t rule_cjk(const tok_cp *c, size_t i, size_t n)
{
    for (; i < n && !is(c[i], UC_WS); i++) {
        uint32_t cp = TOK_CP(c[i]);
        if (!((cp >= 0x800 && cp <= 0x9fa5) || (cp >= 0xac00 && cp <= 0xd7ff)))
            break;
    }
    return i;
}

static size_t rule_cjk_kana(const tok_cp *c, size_t i, size_t n)
{
    for (; i < n; i++) {
        uint32_t cp = TOK_CP(c[i]);
        if (!((cp >= 0x4e00 && cp <= 0x9fa5) || (cp >= 0x3040 && cp <= 0x30ff)))
            break;
    }
    return i;
}

static inline bool ascii_letter(tok_cp c)
{
    return (TOK_CP(c) | 0x20) >= 'a' && (TOK_CP(c) | 0x20) <= 'z';
}

static size_t rule_deepseek3(const tok_cp *c, size_t i, size_t n)
{
    size_t j = i + 1;

    if (TOK_CP(c[i]) < 0x80 && is(c[i], UC_P | UC_S) && j < n && ascii_letter(c[j])) {
        while (j < n && ascii_letter(c[j]))
            j++;
        return j;
    }
    if (is(c[i], UC_L | UC_M))
        return run_of(c, i, n, UC_L | UC_M);
    if (!is_nl(c[i]) && !is(c[i], UC_P | UC_S) && j < n && is(c[j], UC_L | UC_M))
        return run_of(c, j, n, UC_L | UC_M);
    j = i + (is_ch(c[i], ' ') ? 1 : 0);
    if (j < n && is(c[j], UC_P | UC_S))
        return newline_tail(c, run_of(c, j, n, UC_P | UC_S), n, false);
    return white(c, i, n, true);
}

/* ---- names --------------------------------------------------------------------------------------------- */

#define GPT2                                                                                                 \
    {                                                                                                        \
        rule_gpt2                                                                                            \
    }
#define NUMBER_GPT2                                                                                          \
    {                                                                                                        \
        rule_number, rule_gpt2                                                                               \
    }
#define LLAMA3                                                                                               \
    {                                                                                                        \
        rule_llama3                                                                                          \
    }
#define QWEN2                                                                                                \
    {                                                                                                        \
        rule_qwen2                                                                                           \
    }
#define GPT4O                                                                                                \
    {                                                                                                        \
        rule_gpt4o                                                                                           \
    }
#define DEEPSEEK3                                                                                            \
    {                                                                                                        \
        rule_numbers3, rule_cjk_kana, rule_deepseek3                                                         \
    }

static const struct tok_pre pres[] = {
    /* name            ignore_merges, add_bos, stages */
    {"default", false, false, {rule_punct_default, rule_gpt2, rule_numbers, rule_ascii_digits3}},
    {"llama3", true, true, LLAMA3},
    {"llama-v3", true, true, LLAMA3},
    {"llama-bpe", true, true, LLAMA3},
    {"falcon3", true, true, LLAMA3},
    {"falcon-h1", true, true, LLAMA3},
    {"pixtral", true, true, LLAMA3},
    {"midm-2.0", true, true, LLAMA3},
    {"lfm2", true, true, LLAMA3},
    {"dbrx", false, false, LLAMA3},
    {"smaug-bpe", false, false, LLAMA3},
    {"glm4", false, false, LLAMA3},
    {"chatglm-bpe", false, false, LLAMA3},
    {"minicpm5", true, false, {rule_numbers3, rule_llama3_long_numbers}},
    {"qwen2", false, false, QWEN2},
    {"deepseek-r1-qwen", false, false, QWEN2},
    {"kormo", false, false, QWEN2},
    {"f2llmv2", false, false, QWEN2},
    {"megrez", false, false, QWEN2},
    {"stablelm2", false, false, QWEN2},
    {"hunyuan", false, false, QWEN2},
    {"solar-open", false, false, QWEN2},
    {"grok-2", false, false, QWEN2},
    {"bailingmoe", false, false, QWEN2},
    {"bailingmoe2", false, false, QWEN2},
    {"llada-moe", false, false, QWEN2},
    {"ufakzeka", false, false, {rule_ufakzeka}},
    {"seed-coder", false, false, {rule_seed_coder}},
    {"laguna", false, false, {rule_lines, rule_qwen2}},
    {"qwen35", false, false, {rule_qwen35}},
    {"gpt-4o", false, false, GPT4O},
    {"llama4", false, false, GPT4O},
    {"kanana2", false, false, GPT4O},
    {"talkie", false, false, GPT4O},
    {"minimax-m2", false, false, GPT4O},
    {"tekken", true, true, {rule_tekken}},
    {"gpt-2", false, false, GPT2},
    {"phi-2", false, false, GPT2},
    {"jina-es", false, false, GPT2},
    {"jina-de", false, false, GPT2},
    {"gigachat", false, false, GPT2},
    {"a.x-4.0", false, false, GPT2},
    {"mellum", false, false, GPT2},
    {"modern-bert", false, false, GPT2},
    {"mpt", false, false, GPT2},
    {"olmo", false, false, GPT2},
    {"jais", false, false, GPT2},
    {"trillion", false, false, GPT2},
    {"granite-docling", false, false, GPT2},
    {"exaone4", false, false, GPT2},
    {"starcoder", false, false, NUMBER_GPT2},
    {"refact", false, false, NUMBER_GPT2},
    {"command-r", false, false, NUMBER_GPT2},
    {"smollm", false, false, NUMBER_GPT2},
    {"codeshell", false, false, NUMBER_GPT2},
    {"exaone", false, false, NUMBER_GPT2},
    {"minerva-7b", false, false, NUMBER_GPT2},
    {"mellum2", false, false, NUMBER_GPT2},
    {"falcon", false, false, {rule_punct_falcon, rule_gpt2, rule_ascii_digits3}},
    {"deepseek-llm",
     false,
     false,
     {rule_newline, rule_white_cased, rule_white_deepseek_punct, rule_white_at_end, rule_cjk, rule_numbers}},
    {"deepseek-coder",
     false,
     false,
     {rule_newline, rule_white_letters, rule_white_punct, rule_cjk, rule_number}},
    {"deepseek-v3", false, false, DEEPSEEK3},
    {"hunyuan-dense", false, false, DEEPSEEK3},
    {"hy_v4", false, false, DEEPSEEK3},
    {"joyai-llm", false, false, DEEPSEEK3},
};

const struct tok_pre *tok_pre_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(pres); i++)
        if (strlen(pres[i].name) == len && memcmp(pres[i].name, name, len) == 0)
            return &pres[i];
    return NULL;
}

bool tok_pre_nfc(const struct tok_pre *pre)
{
    return strcmp(pre->name, "qwen2") == 0 || strcmp(pre->name, "qwen35") == 0; /* Qwen 2, 2.5, 3; 3.5 */
}

size_t tok_pre_decode(const char *s, size_t n, tok_cp *out)
{
    const uint8_t *cls = unicode_classes();
    size_t k = 0;

    for (size_t i = 0; i < n; k++) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        if (len) {
            out[k] = cp | (uint32_t)cls[cp] << 24;
            i += len;
        } else {
            out[k] = 0xfffd | TOK_CP_RAW | (uint32_t)cls[0xfffd] << 24;
            i++;
        }
    }
    return k;
}

static int split(const struct tok_pre *pre, size_t stage, const tok_cp *c, size_t n, tok_word_fn *fn,
                 void *user)
{
    size_t gap = 0, i = 0;
    int rc = 0;

    if (stage == ARRAY_LEN(pre->stage) || !pre->stage[stage])
        return fn(user, c, n);
    while (i < n) {
        size_t end = pre->stage[stage](c, i, n);
        if (end == i) {
            i++;
            continue;
        }
        if (gap < i && (rc = split(pre, stage + 1, c + gap, i - gap, fn, user)))
            return rc;
        if ((rc = split(pre, stage + 1, c + i, end - i, fn, user)))
            return rc;
        gap = i = end;
    }
    return gap < n ? split(pre, stage + 1, c + gap, n - gap, fn, user) : 0;
}

int tok_pre_split(const struct tok_pre *pre, const tok_cp *c, size_t n, tok_word_fn *fn, void *user)
{
    return split(pre, 0, c, n, fn, user);
}
