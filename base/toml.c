#include "base/toml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

/* Strings are written over the text that they came from, which is never shorter. */
struct parser {
    struct toml *t;
    const char *name;
    char *p;                    /* of t->text, which ends with a NUL and has no other */
    uint32_t line, cap_tables, cap_pairs, n_values, cap_values;
    struct err *e;
};

static int wrong(struct parser *p, const char *expected)
{
    char near[24];
    size_t n = strcspn(p->p, "\n\r");
    snprintf(near, sizeof near, "%.*s", (int)MIN(n, sizeof near - 1), p->p);
    for (char *c = near; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    return err_set(p->e, -EINVAL, "%s:%u: %s is expected at '%s'", p->name, p->line, expected, near);
}

static int no_memory(struct parser *p)
{
    return err_set(p->e, -ENOMEM, "%s: out of memory", p->name);
}

/* Room for one more behind n in the array at *a. */
static bool grow(void *a, uint32_t n, uint32_t *cap, size_t size)
{
    void **v = a;
    if (n < *cap)
        return true;
    uint32_t more = MAX(2 * *cap, 16u);
    void *moved = reallocarray(*v, more, size);
    if (!moved)
        return false;
    *v = moved;
    *cap = more;
    return true;
}

/* Blanks and, with `lines`, line ends; comments run up to a line's end. */
static void skip(struct parser *p, bool lines)
{
    for (;;) {
        p->p += strspn(p->p, " \t");
        if (*p->p == '#')
            p->p += strcspn(p->p, "\n");
        if (!lines || (*p->p != '\n' && strncmp(p->p, "\r\n", 2) != 0))
            return;
        p->p += *p->p == '\r' ? 2 : 1;
        p->line++;
    }
}

static bool ends_line(struct parser *p)
{
    skip(p, false);
    return !*p->p || *p->p == '\n' || strncmp(p->p, "\r\n", 2) == 0;
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; --i; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n) & 0xff) | (char)c;
    return n;
}

/* Behind the backslash at p->p; false: there is no such escape. */
static bool escape(struct parser *p, char **out)
{
    static const char from[] = "btnfre\"\\", to[] = "\b\t\n\f\r\033\"\\";
    char c = *p->p;
    const char *at = c ? strchr(from, c) : NULL;
    p->p += c != 0;
    if (at) {
        *(*out)++ = to[at - from];
        return true;
    }
    size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t v = 0;
    if (!digits || strspn(p->p, "0123456789abcdefABCDEF") < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        char d = *p->p++;
        v = v << 4 | (uint32_t)(d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
    }
    if (!v || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return false;
    *out += put_utf8(*out, v);
    return true;
}

/* "basic" or 'literal'. */
static int read_string(struct parser *p, const char **out)
{
    char quote = *p->p, *to = p->p;
    *out = to;
    if (strncmp(p->p, "\"\"\"", 3) == 0 || strncmp(p->p, "'''", 3) == 0)
        return wrong(p, "a string on one line");
    for (p->p++; *p->p != quote;) {
        unsigned char c = (unsigned char)*p->p;
        if (!c || (c < ' ' && c != '\t') || c == 0x7f)
            return wrong(p, "the end of a string");
        p->p++;
        if (c != '\\' || quote == '\'')
            *to++ = (char)c;
        else if (!escape(p, &to))
            return wrong(p, "an escape such as \\n or \\u00e9");
    }
    p->p++;
    *to = 0;
    return 0;
}

/* A name without quotes ends where it does; the caller looks at what follows before it is cut off there. */
static size_t bare(const char *s)
{
    return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
}

/* The name before `end`, which is passed. */
static int read_name(struct parser *p, char end, const char *expected, const char **out)
{
    char *cut = NULL;
    if (*p->p == '"' || *p->p == '\'') {
        int rc = read_string(p, out);
        if (rc)
            return rc;
    } else {
        size_t n = bare(p->p);
        if (!n)
            return wrong(p, expected);
        *out = p->p;
        p->p += n;
        cut = p->p;
    }
    skip(p, false);
    if (*p->p != end)
        return wrong(p, end == '=' ? "= behind a key without dots" : "] behind a table's name without dots");
    p->p++;
    if (cut)
        *cut = 0;
    return **out ? 0 : wrong(p, "a name that is not empty");
}

/* What a number is to the options that take it: C's forms, without the underscores. */
static bool is_number(const char *s)
{
    char *end;
    if (!*s || strspn(s, "+-.0123456789eE") != strlen(s))
        return false;
    strtod(s, &end);
    return !*end;
}

static int read_word(struct parser *p, enum toml_kind *kind, const char **out)
{
    size_t n = strcspn(p->p, " \t\r\n,]#"), k = 0;
    char word[64];
    if (!n || n >= sizeof word)
        return wrong(p, "a string in quotes, a number, true or false");
    for (size_t i = 0; i < n; i++)
        if (p->p[i] != '_')
            word[k++] = p->p[i];
    word[k] = 0;
    bool is_bool = strcmp(word, "true") == 0 || strcmp(word, "false") == 0;
    if (!is_bool && !is_number(word))
        return wrong(p, "a string in quotes, a number, true or false");
    *kind = is_bool ? TOML_BOOL : TOML_NUMBER;
    char *kept = strndup(word, k); /* in place there is no room for the end */
    if (!kept)
        return no_memory(p);
    p->p += n;
    *out = kept;
    return 0;
}

static int read_value(struct parser *p, struct toml_pair *pair)
{
    enum toml_kind kind = TOML_STRING;
    const char *v = NULL;
    bool quoted = *p->p == '"' || *p->p == '\'';
    int rc = quoted ? read_string(p, &v) : read_word(p, &kind, &v);
    if (rc)
        return rc;
    /* Words are copies, strings are too, so that all are freed in one way. */
    char *kept = quoted ? strdup(v) : (char *)v;
    if (!kept || !grow(&p->t->values, p->n_values, &p->cap_values, sizeof *p->t->values)) {
        free(kept);
        return no_memory(p);
    }
    p->t->values[p->n_values++] = kept;
    if (pair->n_values++ && pair->kind != kind)
        return wrong(p, "values of one kind in an array");
    pair->kind = kind;
    return 0;
}

static int read_array(struct parser *p, struct toml_pair *pair)
{
    int rc;
    pair->is_array = true;
    p->p++;
    for (;;) {
        skip(p, true);
        if (*p->p == ']')
            break;
        if ((rc = read_value(p, pair)))
            return rc;
        skip(p, true);
        if (*p->p != ',' && *p->p != ']')
            return wrong(p, ", or ]");
        p->p += *p->p == ',';
    }
    p->p++;
    return 0;
}

static int read_pair(struct parser *p)
{
    struct toml *t = p->t;
    struct toml_pair pair = { .table = t->n_tables - 1, .line = p->line };
    int rc = read_name(p, '=', "a key, or a table in [ ]", &pair.key);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->pair[i].table == pair.table && strcmp(t->pair[i].key, pair.key) == 0)
            return err_set(p->e, -EINVAL, "%s:%u: '%.100s' stands in line %u too", p->name, p->line, pair.key, t->pair[i].line);
    skip(p, false);
    if ((rc = *p->p == '[' ? read_array(p, &pair) : read_value(p, &pair)))
        return rc;
    if (t->n == TOML_PAIRS_MAX)
        return err_set(p->e, -EINVAL, "%s:%u: more than %d keys", p->name, p->line, TOML_PAIRS_MAX);
    if (!grow(&t->pair, t->n, &p->cap_pairs, sizeof *t->pair))
        return no_memory(p);
    t->pair[t->n++] = pair;
    return 0;
}

static int add_table(struct parser *p, const char *name)
{
    struct toml *t = p->t;
    for (uint32_t i = 1; i < t->n_tables; i++)
        if (strcmp(t->table[i], name) == 0)
            return err_set(p->e, -EINVAL, "%s:%u: [%.100s] stands in line %u too", p->name, p->line, name, t->table_line[i]);
    uint32_t cap = p->cap_tables;
    if (!grow(&t->table, t->n_tables, &p->cap_tables, sizeof *t->table) || !grow(&t->table_line, t->n_tables, &cap, sizeof *t->table_line))
        return no_memory(p);
    t->table[t->n_tables] = name;
    t->table_line[t->n_tables++] = p->line;
    return 0;
}

static int read_table(struct parser *p)
{
    const char *name;
    p->p++;
    skip(p, false);
    int rc = read_name(p, ']', "a table's name", &name);
    return rc ? rc : add_table(p, name);
}

static int read_all(struct parser *p)
{
    int rc = add_table(p, "");
    for (skip(p, true); !rc && *p->p; skip(p, true)) {
        rc = *p->p == '[' ? read_table(p) : read_pair(p);
        if (!rc && !ends_line(p))
            rc = wrong(p, "the end of the line");
    }
    return rc;
}

int toml_parse(const char *s, size_t n, const char *name, struct toml *out, struct err *e)
{
    struct parser p = { .t = out, .name = name, .line = 1, .e = e };
    *out = (struct toml){ 0 };
    if (n > TOML_TEXT_MAX)
        return err_set(e, -EFBIG, "%s: %zu bytes, at most %d are read", name, n, TOML_TEXT_MAX);
    if (memchr(s, 0, n))
        return err_set(e, -EINVAL, "%s: a NUL byte is in it: a text is expected", name);
    if (!(out->text = strndup(s, n)))
        return no_memory(&p);
    p.p = out->text;
    int rc = read_all(&p);
    out->n_values = p.n_values;
    if (rc) {
        toml_clear(out);
        return rc;
    }
    for (uint32_t i = 0, at = 0; i < out->n; at += out->pair[i++].n_values) /* the array has stopped moving */
        out->pair[i].value = out->pair[i].n_values ? out->values + at : NULL;
    return 0;
}

void toml_clear(struct toml *t)
{
    for (uint32_t i = 0; i < t->n_values; i++)
        free((char *)t->values[i]);
    free(t->table);
    free(t->table_line);
    free(t->pair);
    free(t->text);
    free(t->values);
    *t = (struct toml){ 0 };
}
