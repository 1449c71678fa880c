/* A template's text as tokens, with Jinja's rules for white space (templates documentation, "Whitespace Control";
 * the lexer of Jinja 3.1 for their exact reach): line ends become \n, one at the end of the text is dropped, a tag
 * that is first in its line takes the white space before it (lstrip_blocks), a block's or comment's end takes one
 * line end behind it (trim_blocks), - takes all white space on its side and + keeps it. */
#include <stdlib.h>
#include <utf8proc.h>

#include "jinja/jinja_impl.h"

struct lexer {
    struct jinja_ctx *c;
    const char *s;
    size_t n, at;
    struct jtoken *tok;
    size_t n_tok, cap;
    bool line_start; /* what stands at `at` is first in its line */
    char open[256];  /* brackets that are open inside a tag */
    unsigned n_open;
};

static struct jtoken *add(struct lexer *l, enum jtoken_kind kind, const char *s, size_t n)
{
    if (l->n_tok == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct jtoken *t = jinja_alloc(l->c, cap * sizeof *t);
        if (l->n_tok)
            memcpy(t, l->tok, l->n_tok * sizeof *t);
        l->tok = t;
        l->cap = cap;
    }
    struct jtoken *t = &l->tok[l->n_tok++];
    *t = (struct jtoken){ .kind = (uint8_t)kind, .line = l->c->line, .n = (uint32_t)n, .s = s };
    return t;
}

static void count_lines(struct lexer *l, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        l->c->line += l->s[i] == '\n';
}

static size_t space_end(const struct lexer *l, size_t at)
{
    struct jstr s = { .s = l->s, .n = (uint32_t)l->n };
    for (size_t k; at < l->n && jinja_space(jstr_char(&s, at, &k)); at += k)
        ;
    return at;
}

static size_t space_begin(const struct lexer *l, size_t from, size_t at)
{
    struct jstr s = { .s = l->s, .n = (uint32_t)l->n };
    while (at > from) {
        size_t p = at - 1, k;
        while (p > from && ((uint8_t)l->s[p] & 0xc0) == 0x80)
            p--;
        if (!jinja_space(jstr_char(&s, p, &k)) || p + k != at)
            break;
        at = p;
    }
    return at;
}

static bool is_name_char(char ch, bool first)
{
    return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (uint8_t)ch >= 0x80 ||
           (!first && ch >= '0' && ch <= '9');
}

static bool here(const struct lexer *l, const char *what)
{
    size_t k = strlen(what);
    return l->n - l->at >= k && memcmp(l->s + l->at, what, k) == 0;
}

/* The text before a tag that begins at `tag` with the sign behind its two bytes. */
static void add_text(struct lexer *l, size_t from, size_t tag, char sign, bool strips)
{
    size_t to = tag;
    if (sign == '-') {
        to = space_begin(l, from, tag);
    } else if (sign != '+' && strips) {
        size_t line = tag;
        while (line > from && l->s[line - 1] != '\n')
            line--;
        if ((line > from || l->line_start) && space_begin(l, line, tag) == line)
            to = line;
    }
    if (to > from)
        add(l, JT_TEXT, l->s + from, to - from);
    count_lines(l, from, tag);
}

/* Behind a tag's last byte, at l->at. */
static void after_tag(struct lexer *l, char sign, bool trims)
{
    size_t from = l->at;
    if (sign == '-')
        l->at = space_end(l, l->at);
    else if (sign != '+' && trims && l->at < l->n && l->s[l->at] == '\n')
        l->at++;
    count_lines(l, from, l->at);
    l->line_start = l->at > from && l->s[l->at - 1] == '\n';
}

static void comment(struct lexer *l)
{
    const char *end = memmem(l->s + l->at, l->n - l->at, "#}", 2);
    if (!end)
        jinja_fail(l->c, -EINVAL, "a comment has no end; close it with #}");
    size_t to = (size_t)(end - l->s);
    char sign = to > l->at && (end[-1] == '-' || end[-1] == '+') ? end[-1] : 0;
    count_lines(l, l->at, to);
    l->at = to + 2;
    after_tag(l, sign, true);
}

/* {% raw %}: the offset behind it, 0: it is another tag. */
static size_t raw_begin(const struct lexer *l, size_t at, char *sign)
{
    at = space_end(l, at);
    if (l->n - at < 3 || memcmp(l->s + at, "raw", 3) != 0)
        return 0;
    at = space_end(l, at + 3);
    *sign = at < l->n && l->s[at] == '-' ? '-' : 0;
    at += *sign == '-';
    return l->n - at >= 2 && memcmp(l->s + at, "%}", 2) == 0 ? at + 2 : 0;
}

static void raw(struct lexer *l, size_t at, char sign)
{
    l->at = at;
    after_tag(l, sign, false);
    size_t from = l->at;
    for (const char *p = l->s + from; (p = memmem(p, (size_t)(l->s + l->n - p), "{%", 2)); p += 2) {
        size_t tag = (size_t)(p - l->s), q = tag + 2;
        char before = q < l->n && (l->s[q] == '-' || l->s[q] == '+') ? l->s[q] : 0, after = 0;
        q = space_end(l, q + (before != 0));
        if (l->n - q < 6 || memcmp(l->s + q, "endraw", 6) != 0)
            continue;
        q = space_end(l, q + 6);
        if (q < l->n && (l->s[q] == '-' || l->s[q] == '+'))
            after = l->s[q++];
        if (l->n - q < 2 || memcmp(l->s + q, "%}", 2) != 0)
            continue;
        add_text(l, from, tag, before, true);
        count_lines(l, tag, q);
        l->at = q + 2;
        after_tag(l, after, true);
        return;
    }
    jinja_fail(l->c, -EINVAL, "raw has no end; close it with {%% endraw %%}");
}

/* ---- inside tags ---- */

static uint32_t hex(struct lexer *l, size_t at, size_t end, unsigned digits)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < digits; i++, at++) {
        char ch = at < end ? l->s[at] : 0;
        if (ch >= '0' && ch <= '9')
            v = v << 4 | (uint32_t)(ch - '0');
        else if ((ch | 32) >= 'a' && (ch | 32) <= 'f')
            v = v << 4 | (uint32_t)((ch | 32) - 'a' + 10);
        else
            jinja_fail(l->c, -EINVAL, "an escape in a string wants %u hexadecimal digits", digits);
    }
    return v;
}

/* Python's escapes (its reference, "String and Bytes literals"); others stay as they are. */
static void string_value(struct lexer *l, size_t from, size_t end)
{
    static const char plain[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    char *to = jinja_alloc_bytes(l->c, end - from + 8);
    size_t n = 0;
    for (size_t i = from; i < end; i++) {
        if (l->s[i] != '\\') {
            to[n++] = l->s[i];
            continue;
        }
        char ch = l->s[++i];
        const char *p = NULL;
        for (size_t k = 0; k < sizeof plain - 1 && !p; k += 2)
            p = plain[k] == ch ? &plain[k + 1] : NULL;
        unsigned digits = ch == 'x' ? 2 : ch == 'u' ? 4 : ch == 'U' ? 8 : 0;
        uint32_t cp = 0;
        if (p) {
            to[n++] = *p;
        } else if (digits || (ch >= '0' && ch <= '7')) {
            if (digits) {
                cp = hex(l, i + 1, end, digits);
                i += digits;
            } else {
                size_t stop = MIN(i + 3, end);
                for (; i < stop && l->s[i] >= '0' && l->s[i] <= '7'; i++)
                    cp = cp << 3 | (uint32_t)(l->s[i] - '0');
                i--;
            }
            if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
                jinja_fail(l->c, -EINVAL, "an escape in a string is no character");
            n += (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)to + n);
        } else if (ch != '\n') {
            to[n++] = '\\';
            to[n++] = ch;
        }
    }
    add(l, JT_STRING, to, n);
}

static void string(struct lexer *l)
{
    char quote = l->s[l->at];
    size_t from = l->at + 1, i = from;
    while (i < l->n && l->s[i] != quote)
        i += l->s[i] == '\\' ? 2 : 1;
    if (i >= l->n)
        jinja_fail(l->c, -EINVAL, "a string has no end; it begins with %c", quote);
    string_value(l, from, i);
    count_lines(l, from, i);
    l->at = i + 1;
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static void number(struct lexer *l)
{
    char text[64];
    size_t i = l->at, n = 0;
    int base = 10;
    bool real = false;
    if (l->s[i] == '0' && i + 1 < l->n) {
        char x = (char)(l->s[i + 1] | 32);
        base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
        i += base == 10 ? 0 : 2;
    }
    for (; i < l->n && n < sizeof text - 1; i++) {
        char ch = l->s[i];
        if (ch == '_')
            continue;
        bool digit = base == 16 ? strchr("0123456789abcdefABCDEF", ch) && ch : is_digit(ch);
        if (base == 10 && ch == '.' && !real && i + 1 < l->n && is_digit(l->s[i + 1])) {
            real = digit = true;
        } else if (base == 10 && (ch | 32) == 'e' && i + 1 < l->n &&
                   (is_digit(l->s[i + 1]) ||
                    ((l->s[i + 1] == '+' || l->s[i + 1] == '-') && i + 2 < l->n && is_digit(l->s[i + 2])))) {
            real = true;
            text[n++] = 'e';
            if (!is_digit(l->s[i + 1]) && n < sizeof text - 1)
                text[n++] = l->s[++i];
            continue;
        }
        if (!digit)
            break;
        text[n++] = ch;
    }
    text[n] = 0;
    struct jtoken *t = add(l, real ? JT_FLOAT : JT_INT, l->s + l->at, i - l->at);
    errno = 0;
    if (real)
        t->f = strtod(text, NULL);
    else
        t->i = strtoll(text, NULL, base);
    if (!real && (errno || n == sizeof text - 1))
        jinja_fail(l->c, -EINVAL, "the number %.40s is larger than 64 bits hold", text);
    l->at = i;
}

static const struct {
    char text[3];
    uint8_t op;
} operators[] = {
    { "//", JO_FLOORDIV }, { "**", JO_POW }, { "==", JO_EQ },  { "!=", JO_NE },     { ">=", JO_GE },    { "<=", JO_LE },
    { "+", JO_ADD },       { "-", JO_SUB },  { "/", JO_DIV },  { "*", JO_MUL },     { "%", JO_MOD },    { "~", JO_TILDE },
    { "[", JO_LBRACKET },  { "]", JO_RBRACKET }, { "(", JO_LPAREN }, { ")", JO_RPAREN }, { "{", JO_LBRACE },
    { "}", JO_RBRACE },    { ">", JO_GT },   { "<", JO_LT },   { "=", JO_ASSIGN },  { ".", JO_DOT },    { ":", JO_COLON },
    { "|", JO_PIPE },      { ",", JO_COMMA }, { ";", JO_SEMICOLON },
};

static void operator(struct lexer *l)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (!here(l, operators[i].text))
            continue;
        struct jtoken *t = add(l, JT_OP, operators[i].text, strlen(operators[i].text));
        t->op = operators[i].op;
        char ch = l->s[l->at];
        if (strchr("([{", ch)) {
            if (l->n_open == sizeof l->open)
                jinja_fail(l->c, -E2BIG, "more than %zu brackets inside each other", sizeof l->open);
            l->open[l->n_open++] = ch == '(' ? ')' : ch == '[' ? ']' : '}';
        } else if (strchr(")]}", ch)) {
            if (!l->n_open || l->open[--l->n_open] != ch)
                jinja_fail(l->c, -EINVAL, "unexpected '%c'", ch);
        }
        l->at += strlen(operators[i].text);
        return;
    }
    jinja_fail(l->c, -EINVAL, "unexpected character '%.1s'", l->s + l->at);
}

/* From behind the opening bytes to behind the closing ones, "%}" or "}}". */
static void inside(struct lexer *l, const char *close, bool trims)
{
    l->n_open = 0;
    for (;;) {
        size_t from = l->at;
        l->at = space_end(l, l->at);
        count_lines(l, from, l->at);
        if (l->at >= l->n)
            jinja_fail(l->c, -EINVAL, "a tag has no end; close it with %s", close);
        char ch = l->s[l->at], sign = 0;
        if (!l->n_open && (ch == '-' || (ch == '+' && trims)) && l->n - l->at >= 3 &&
            memcmp(l->s + l->at + 1, close, 2) == 0)
            sign = ch;
        if (!l->n_open && (sign || here(l, close))) {
            add(l, trims ? JT_BLOCK_END : JT_VAR_END, close, 2);
            l->at += sign ? 3 : 2;
            after_tag(l, sign, trims);
            return;
        }
        if (is_name_char(ch, true)) {
            size_t i = l->at;
            while (i < l->n && is_name_char(l->s[i], false))
                i++;
            add(l, JT_NAME, l->s + l->at, i - l->at);
            l->at = i;
        } else if (ch == '"' || ch == '\'') {
            string(l);
        } else if (is_digit(ch)) {
            number(l);
        } else {
            operator(l);
        }
    }
}

static char *normalize(struct jinja_ctx *c, const char *text, size_t n, size_t *to)
{
    char *s = jinja_alloc_bytes(c, n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool cr = text[i] == '\r';
        s[k++] = cr ? '\n' : text[i];
        i += cr && i + 1 < n && text[i + 1] == '\n';
    }
    if (k && s[k - 1] == '\n')
        k--;
    s[k] = 0;
    *to = k;
    return s;
}

struct jtoken *jinja_lex(struct jinja_ctx *c, const char *text, size_t n)
{
    struct lexer l = { .c = c, .line_start = true };
    l.s = normalize(c, text, n, &l.n);
    c->line = 1;
    while (l.at < l.n) {
        size_t tag = l.at;
        const char *p = l.s + tag;
        while ((p = memchr(p, '{', (size_t)(l.s + l.n - p))) && (p + 1 >= l.s + l.n || !strchr("%{#", p[1]) || !p[1]))
            p++;
        if (!p) {
            add(&l, JT_TEXT, l.s + l.at, l.n - l.at);
            break;
        }
        tag = (size_t)(p - l.s);
        char kind = p[1], sign = p[2] == '-' || p[2] == '+' ? p[2] : 0, after = 0;
        if (kind == '{' && sign == '+')
            sign = 0; /* {{+: an operator */
        add_text(&l, l.at, tag, sign, kind != '{');
        l.line_start = false;
        l.at = tag + 2 + (sign != 0);
        size_t behind = kind == '%' ? raw_begin(&l, l.at, &after) : 0;
        if (behind) {
            raw(&l, behind, after);
        } else if (kind == '#') {
            comment(&l);
        } else {
            add(&l, kind == '%' ? JT_BLOCK_BEGIN : JT_VAR_BEGIN, p, 2);
            inside(&l, kind == '%' ? "%}" : "}}", kind == '%');
        }
    }
    add(&l, JT_END, "the end of the template", 23);
    return l.tok;
}
