/* tools/gen/msl_text.c: Metal Shading Language from a kernel's preprocessed C.
 *     cc -E -P -DKD_MSL ... kernels/X.c | msl_text kernels/hw/msl.metal build/kernels/threads.txt >X.metal
 *
 * What C and MSL differ in, and what becomes of it:
 *   - work-item ids and shared memory are arguments of the entry there: all functions become members of struct kd_item
 *     (so that order and prototypes do not matter), types and tables stay in front of it, entries follow
 *   - every pointer has an address space there: `thread` is put before types that have none; parameters that are arrays
 *     are written as the pointers that they are
 *   - `(T){ ... }` and designators are no C++: T{ ... }, T( ... ) for vectors, fields by position
 *   - names that are keywords there get an underscore behind them
 * The marks __kd_device, __kd_threadgroup, __kd_constant, __kd_coherent and __kd_kernel are of kernels/hw/msl.h.
 * Anything else that it cannot bring over is an error: "msl: what, near ...". */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

struct token {
    const char *at; /* its spelling */
    int n;
    char space;     /* before it: 0, ' ' or '\n' */
};
static struct token *toks;
static int n_toks;

static void fail(int near, const char *fmt, ...)
{
    va_list ap;
    fputs("msl: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(", near:", stderr);
    for (int i = near < 8 ? 0 : near - 8; i < near + 12 && i < n_toks; i++)
        fprintf(stderr, " %.*s", toks[i].n, toks[i].at);
    fputc('\n', stderr);
    exit(1);
}

static void *grow(void *p, int n, size_t size)
{
    if (n & (n - 1)) /* room doubles when n reaches a power of two */
        return p;
    p = realloc(p, (n ? 2 * (size_t)n : 1) * size);
    if (!p) {
        fputs("msl: no memory\n", stderr);
        exit(1);
    }
    return p;
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static int token_length(const char *s)
{
    static const char *const three[] = { "<<=", ">>=", "...", NULL };
    static const char *const two[] = { "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=",
                                       "%=", "&=", "|=", "^=", "##", NULL };
    int n = 0;
    if (isdigit((unsigned char)s[0]) || (s[0] == '.' && isdigit((unsigned char)s[1]))) {
        while (name_char(s[n]) || s[n] == '.' || ((s[n] == '+' || s[n] == '-') && strchr("eEpP", s[n - 1]) &&
                                                  !(s[0] == '0' && s[1] == 'x' && strchr("eE", s[n - 1]))))
            n++;
        return n;
    }
    if (s[0] == '"') {
        for (n = 1; s[n] && s[n] != '"'; n++)
            n += s[n] == '\\';
        return n + 1;
    }
    while (name_char(s[n]))
        n++;
    if (n)
        return n;
    for (int i = 0; three[i]; i++)
        if (strncmp(s, three[i], 3) == 0)
            return 3;
    for (int i = 0; two[i]; i++)
        if (strncmp(s, two[i], 2) == 0)
            return 2;
    return 1;
}

static void read_tokens(const char *s)
{
    char space = 0;
    while (*s) {
        if (isspace((unsigned char)*s)) {
            space = *s == '\n' ? '\n' : space ? space : ' ';
            s++;
            continue;
        }
        int n = token_length(s);
        toks = grow(toks, n_toks, sizeof *toks);
        toks[n_toks++] = (struct token){ s, n, space };
        s += n;
        space = 0;
    }
}

static bool is(int i, const char *s)
{
    return i >= 0 && i < n_toks && (int)strlen(s) == toks[i].n && memcmp(toks[i].at, s, (size_t)toks[i].n) == 0;
}
static bool same(int i, int j) { return toks[i].n == toks[j].n && memcmp(toks[i].at, toks[j].at, (size_t)toks[i].n) == 0; }
static bool is_name(int i) { return i >= 0 && i < n_toks && (isalpha((unsigned char)toks[i].at[0]) || toks[i].at[0] == '_'); }

static bool is_any(int i, const char *const *words)
{
    for (; *words; words++)
        if (is(i, *words))
            return true;
    return false;
}

/* From an opening bracket to behind its closing one. */
static int skip_brackets(int i)
{
    int depth = 0;
    for (int j = i; j < n_toks; j++) {
        depth += is(j, "(") || is(j, "{") || is(j, "[");
        depth -= is(j, ")") || is(j, "}") || is(j, "]");
        if (!depth)
            return j + 1;
    }
    fail(i, "a bracket that is not closed");
    return n_toks;
}

/* ---- types ---- */

static const char *const spaces[] = { "__kd_device", "__kd_threadgroup", "__kd_constant", "__kd_coherent", NULL };
static const char *const qualifiers[] = { "const", "volatile", NULL };
static const char *const basic_types[] = {
    "void", "bool", "char", "short", "int", "unsigned", "signed", "long", "float", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
    "uint32_t", "int64_t", "uint64_t", "uintptr_t", "kd_u32x4", "kd_u32x2", "kd_f32x4", "kd_f32x2", NULL };
static const char *const vectors[] = { "kd_u32x4", "kd_u32x2", "kd_f32x4", "kd_f32x2", NULL };
static const char *const keywords[] = { "half", "kernel", "device", "constant", "thread", "threadgroup", "this", "new", "delete", "class",
                                        "template", "operator", "private", "public", "and", "or", "not", "xor", "vertex", "fragment",
                                        "sampler", "visible", "coherent", "ray_data", "object_data", "using", "namespace", "typename", "try", "catch", "throw", "friend", "export", NULL };

struct field {
    int name;           /* token   */
    int type;           /* the token that names its struct or typedef, -1: an anonymous struct */
};
struct type {
    int name;           /* token */
    struct field *fields;
    int n_fields;
};
static struct type *types;
static int n_types;
static int *typedefs; /* tokens of their names */
static int n_typedefs;

static bool is_typedef(int i)
{
    if (!is_name(i))
        return false;
    for (int t = 0; t < n_typedefs; t++)
        if (same(typedefs[t], i))
            return true;
    return is_any(i, basic_types);
}

/* Token i begins a type: where its specifiers end; else i. */
static int skip_type(int i)
{
    int j = i;
    bool seen = false;
    for (;; j++) {
        if (is_any(j, spaces) || is_any(j, qualifiers))
            continue;
        if (is(j, "struct") || is(j, "union") || is(j, "enum")) {
            j += is_name(j + 1);
            seen = true;
        } else if (is_any(j, basic_types) || (!seen && is_typedef(j))) {
            seen = true;
        } else {
            return seen ? j : i;
        }
    }
}

static bool has_space(int from, int to)
{
    for (int i = from; i < to; i++)
        if (is_any(i, spaces))
            return true;
    return false;
}

/* The struct that the specifiers in [from, to) name, or NULL. */
static const struct type *struct_of(int from, int to)
{
    for (int i = from; i < to; i++)
        for (int t = n_types - 1; t >= 0; t--)
            if (is_name(i) && types[t].name >= 0 && same(types[t].name, i))
                return &types[t];
    return NULL;
}

/* Fields between the braces of a struct at `open`. */
static void read_fields(struct type *t, int open)
{
    int end = skip_brackets(open) - 1;
    for (int i = open + 1; i < end;) {
        int to = skip_type(i);
        if (to == i)
            fail(i, "a field without a type");
        if (is(to, "{"))
            to = skip_brackets(to);
        for (i = to; !is(i, ";"); i++) {
            if (is(i, "[") || is(i, "(")) {
                i = skip_brackets(i) - 1;
            } else if (is_name(i)) {
                t->fields = grow(t->fields, t->n_fields, sizeof *t->fields);
                t->fields[t->n_fields++] = (struct field){ i, is(to - 1, "}") ? -1 : to - 1 };
            }
        }
        i++;
    }
}

static void add_type(int name, int open)
{
    types = grow(types, n_types, sizeof *types);
    types[n_types] = (struct type){ .name = name };
    read_fields(&types[n_types], open);
    n_types++;
}

/* A declaration [from, to) at file scope that is no function: what it names. */
static void learn(int from, int to)
{
    int open = -1, tag = -1;
    for (int i = from; i < to; i++)
        if (is(i, "struct") && (is(i + 1, "{") || is(i + 2, "{"))) {
            tag = is(i + 1, "{") ? -1 : i + 1;
            open = is(i + 1, "{") ? i + 1 : i + 2;
            break;
        }
    if (is(from, "typedef")) {
        int name = to - 2;
        if (!is_name(name))
            fail(name, "a typedef of this form");
        typedefs = grow(typedefs, n_typedefs, sizeof *typedefs);
        typedefs[n_typedefs++] = name;
        if (open >= 0)
            add_type(name, open);
    }
    if (tag >= 0)
        add_type(tag, open);
}

/* ---- writing ---- */

static void put_text(const char *s) { fputs(s, stdout); }

static bool skipped_word(int i)
{
    return is(i, "inline") || is(i, "static") || is(i, "KD_FN");
}

static int depth; /* of braces, for indentation */

static void put_space(int i)
{
    if (toks[i].space)
        putchar(toks[i].space);
    for (int k = is(i, "}") || is(i, "case") || is(i, "default") ? 1 : 0; toks[i].space == '\n' && k < depth; k++)
        put_text("    ");
}

static void put_token(int i)
{
    static const struct { const char *from, *to; } words[] = {
        { "__kd_device", "device" }, { "__kd_threadgroup", "threadgroup" }, { "__kd_constant", "constant" },
        { "__kd_coherent", "coherent(device) device" }, { "_Static_assert", "static_assert" }, { "uintptr_t", "ulong" },
        { "_Bool", "bool" },
    };
    put_space(i);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (is(i, words[w].from)) {
            put_text(words[w].to);
            return;
        }
    depth += is(i, "{") - is(i, "}");
    bool hex_float = toks[i].n > 2 && toks[i].at[0] == '0' && (toks[i].at[1] == 'x' || toks[i].at[1] == 'X') &&
                     memchr(toks[i].at, 'p', (size_t)toks[i].n);
    bool longer = isdigit((unsigned char)toks[i].at[0]) && toks[i].n > 3 && strncmp(toks[i].at + toks[i].n - 3, "ull", 3) == 0;
    if (hex_float)
        printf("%.9gf", (double)strtof(toks[i].at, NULL));
    else if (longer) /* no long long there, and ulong has 64 bits */
        printf("%.*sul", toks[i].n - 3, toks[i].at);
    else
        printf("%.*s%s", toks[i].n, toks[i].at, is_any(i, keywords) ? "_" : "");
}

static int put_range(int from, int to);

/* ---- constant tables ---- */

static int value_at; /* the evaluator's place */

/* Binary operators by falling precedence; of constant expressions of unsigned words, as tables have them. */
static const struct { const char *op; int level; } operators[] = {
    { "*", 5 }, { "/", 5 }, { "+", 4 }, { "-", 4 }, { "<<", 3 }, { ">>", 3 }, { "&", 2 }, { "|", 1 },
};
enum { N_OPERATORS = sizeof operators / sizeof *operators, TIGHTEST = 6 };

static uint32_t value_of(int level);

static uint32_t unary_value(void)
{
    int i = value_at;
    if (is(i, "-")) {
        value_at++;
        return -unary_value();
    }
    if (is(i, "(") && skip_type(i + 1) != i + 1) { /* a cast */
        value_at = skip_brackets(i);
        return unary_value();
    }
    if (is(i, "(")) {
        value_at++;
        uint32_t v = value_of(1);
        value_at++;
        return v;
    }
    if (!isdigit((unsigned char)toks[i].at[0]))
        fail(i, "a table of what is no number");
    value_at++;
    return (uint32_t)strtoul(toks[i].at, NULL, 0);
}

static uint32_t apply(const char *op, uint32_t a, uint32_t b)
{
    switch (*op) {
    case '*': return a * b;
    case '/': return b ? a / b : 0;
    case '+': return a + b;
    case '-': return a - b;
    case '<': return a << b;
    case '>': return a >> b;
    case '&': return a & b;
    default: return a | b;
    }
}

static uint32_t value_of(int level)
{
    if (level == TIGHTEST)
        return unary_value();
    uint32_t v = value_of(level + 1);
    for (int k = 0; k < N_OPERATORS; k++)
        if (operators[k].level == level && is(value_at, operators[k].op)) {
            value_at++;
            v = apply(operators[k].op, v, value_of(level + 1));
            k = -1;
        }
    return v;
}

/* `name[][2] = { { .. }, .. };` with its numbers worked out: they are long expressions of macros. */
static void put_table(int from, int to)
{
    int i = from, n = 0;
    for (; !is(i, "="); i++)
        put_token(i);
    put_text(" =");
    for (i++; i < to;) {
        if (is(i, "{") || is(i, "}") || is(i, ",") || is(i, ";")) {
            put_token(i++);
            continue;
        }
        value_at = i;
        printf("%s0x%xu", n++ % 8 ? "" : "\n", value_of(1));
        i = value_at;
    }
}

/* ---- initialisers, parameters, bodies ---- */

/* Behind the initialiser that begins at i; `end` is the closing brace's. */
static int skip_initialiser(int i, int end)
{
    while (i < end && !is(i, ","))
        i = is(i, "(") || is(i, "{") || is(i, "[") ? skip_brackets(i) : i + 1;
    return i;
}

static void put_initialiser(const struct type *t, int open, const char *begin, const char *close);

/* The value at [from, to) of a field of type `type` (a token, -1: unknown). */
static void put_value(int type, int from, int to)
{
    if (is(from, "{") && skip_brackets(from) == to)
        put_initialiser(type >= 0 ? struct_of(type, type + 1) : NULL, from, " {", "}");
    else
        put_range(from, to);
}

/* Designators: each field in its turn. */
static void put_designated(const struct type *t, int open, int end)
{
    int given = 0, put = 0;
    for (int i = open + 1; i < end; i = skip_initialiser(i, end) + 1)
        given++;
    for (int f = 0; f < t->n_fields && put < given; f++) {
        int at = 0;
        for (int i = open + 1; i < end; i = skip_initialiser(i, end) + 1)
            if (is(i, ".") && is(i + 2, "=") && same(i + 1, t->fields[f].name))
                at = i + 3;
        put_text(f ? "," : "");
        if (at)
            put_value(t->fields[f].type, at, skip_initialiser(at, end));
        else
            put_text(" {}");
        put += at != 0;
    }
    if (put != given)
        fail(open, "an initialiser of a field that the struct does not have");
}

/* Zeros and brackets alone: `{ 0 }` is C's way of all zeros, C++'s is `{}`. */
static bool is_zeros(int from, int to)
{
    while (from < to && (is(from, "0") || is(from, "0.0f") || is(from, "{") || is(from, "}") || is(from, ",")))
        from++;
    return from == to;
}

/* The initialiser at `open`, of struct t or of something else. */
static void put_initialiser(const struct type *t, int open, const char *begin, const char *close)
{
    int end = skip_brackets(open) - 1, position = 0;
    put_text(begin);
    if (is_zeros(open + 1, end)) {
        put_text(*close == ')' ? "0)" : close);
        return;
    }
    if (is(open + 1, ".") && !t)
        fail(open, "a designated initialiser of an unknown struct");
    if (is(open + 1, ".")) {
        put_designated(t, open, end);
        put_text(close);
        return;
    }
    for (int i = open + 1; i < end; position++) {
        int stop = skip_initialiser(i, end);
        put_value(t && position < t->n_fields ? t->fields[position].type : -1, i, stop);
        put_text(stop < end ? "," : "");
        i = stop + 1;
    }
    put_text(close);
}

/* `name[N][M]` of a parameter at i, with its specifiers before it: written as a pointer. Returns behind it. */
static int put_array_parameter(int name)
{
    int rest = skip_brackets(name + 1);
    bool more = is(rest, "[");
    printf(more ? " (*" : " *");
    struct token *t = &toks[name];
    printf("%.*s%s%s", t->n, t->at, is_any(name, keywords) ? "_" : "", more ? ")" : "");
    for (; is(rest, "["); rest = skip_brackets(rest))
        put_range(rest, skip_brackets(rest));
    return rest;
}

/* A compound literal at i, "(T){": returns behind it, or i. */
static int put_literal(int i)
{
    int to = is(i, "(") ? skip_type(i + 1) : i;
    if (to == i || to == i + 1 || !is(to, ")") || !is(to + 1, "{"))
        return i;
    bool vector = is_any(to - 1, vectors);
    put_space(i);
    if (vector) {
        printf("%.*s", toks[to - 1].n, toks[to - 1].at);
        put_initialiser(NULL, to + 1, "(", ")");
    } else {
        const struct type *t = struct_of(i + 1, to);
        if (!t)
            fail(i, "a literal of an unknown type");
        printf("%.*s%s", toks[to - 1].n, toks[to - 1].at, is(to - 2, "struct") ? "_t" : "");
        put_initialiser(t, to + 1, "{", "}");
    }
    return skip_brackets(to + 1);
}

/* Specifiers [i, to) of a declaration, a cast or a parameter. */
static void put_specifiers(int i, int to, bool own)
{
    if (own) {
        put_space(i);
        put_text("thread");
    }
    for (int j = i; j < to; j++) {
        if (j == i && own && !toks[j].space)
            putchar(' ');
        put_token(j);
    }
}

/* Is a declarator at i that is a pointer, or a pointer to an array? */
static bool pointer_at(int i) { return is(i, "*") || (is(i, "(") && is(i + 1, "*") && is_name(i + 2) && is(i + 3, ")") && is(i + 4, "[")); }

static int parameter_depth; /* inside the parameter list of a definition */

static int put_range(int from, int to)
{
    for (int i = from; i < to;) {
        int end = put_literal(i);
        if (end != i) {
            i = end;
            continue;
        }
        if (skipped_word(i)) {
            i++;
            continue;
        }
        if (is(i, "=") && is(i + 1, "{")) {
            put_token(i);
            put_initialiser(NULL, i + 1, " {", "}");
            i = skip_brackets(i + 1);
            continue;
        }
        end = is_name(i) && !is(i - 1, ".") && !is(i - 1, "->") ? skip_type(i) : i;
        if (end == i) {
            put_token(i++);
            continue;
        }
        if (is(end, "*") && is(end + 1, "*"))
            fail(i, "a pointer to a pointer");
        bool array = parameter_depth && is_name(end) && is(end + 1, "[");
        put_specifiers(i, end, (array || pointer_at(end)) && !has_space(i, end));
        if (array) {
            i = put_array_parameter(end);
        } else if (is_name(end) && is(end + 1, "=") && is(end + 2, "{")) {
            put_token(end);
            put_initialiser(struct_of(i, end), end + 2, " = {", "}");
            i = skip_brackets(end + 2);
        } else {
            i = end;
        }
    }
    return to;
}

/* ---- the file ---- */

struct item {
    int from, to, body; /* body: its opening brace, 0: no function */
    bool used;          /* by a kernel; types are              */
};
static struct item *items;
static int n_items;

/* "__attribute__((...))" anywhere is dropped, and ids of files' functions are those of the whole text. */
static void drop_attributes(void)
{
    int n = 0;
    for (int i = 0; i < n_toks;) {
        if (is(i, "__attribute__")) {
            i = skip_brackets(i + 1);
            continue;
        }
        toks[n++] = toks[i++];
    }
    n_toks = n;
}

static void split(void)
{
    for (int i = 0; i < n_toks;) {
        int from = i, body = 0;
        for (;; i++) {
            if (i >= n_toks)
                fail(from, "a declaration without an end");
            if (is(i, "{") && is(i - 1, ")")) {
                body = i;
                i = skip_brackets(i);
                break;
            }
            if (is(i, "(") || is(i, "{") || is(i, "[")) {
                i = skip_brackets(i) - 1;
                continue;
            }
            if (is(i, ";")) {
                i++;
                break;
            }
        }
        if (!body)
            learn(from, i);
        items = grow(items, n_items, sizeof *items);
        items[n_items++] = (struct item){ .from = from, .to = i, .body = body };
    }
}

static bool is_prototype(const struct item *d)
{
    return !d->body && is(d->to - 2, ")") && !is(d->from, "_Static_assert");
}

static bool is_table(const struct item *d) { return is(d->from, "__kd_constant"); }

/* What a function or table is called. */
static int name_of(const struct item *d)
{
    int i = d->from;
    while (!is(i, d->body ? "(" : "["))
        i++;
    return i - 1;
}

/* What a kernel needs, by the names in it. */
static void use(struct item *d)
{
    if (d->used)
        return;
    d->used = true;
    for (int i = d->from; i < d->to; i++)
        for (int k = 0; is_name(i) && k < n_items; k++)
            if (!items[k].used && (items[k].body || is_table(&items[k])) && !is(items[k].from, "__kd_kernel") && same(name_of(&items[k]), i))
                use(&items[k]);
}

static void put_declaration(const struct item *d)
{
    int from = d->from;
    if (is_table(d)) {
        put_table(from, d->to);
        return;
    }
    put_range(from, d->to);
    for (int i = from; i < d->to; i++) /* a name for literals that a function of the same name does not hide */
        if (is(i, "struct") && is_name(i + 1) && is(i + 2, "{"))
            printf("\ntypedef struct %.*s %.*s_t;", toks[i + 1].n, toks[i + 1].at, toks[i + 1].n, toks[i + 1].at);
}

static void put_function(const struct item *d)
{
    int params = d->from;
    put_text("\n    KD_FN");
    if (is(d->from, "__kd_kernel")) { /* __kd_kernel(name, args) */
        printf(" void %.*s(const %.*s a)", toks[d->from + 2].n, toks[d->from + 2].at, toks[d->from + 4].n, toks[d->from + 4].at);
    } else {
        while (!is(params, "("))
            params++;
        for (int i = d->from; i < d->body; i++)
            if (is(i, "static"))
                toks[i].space = 0;
        put_text(" ");
        put_range(d->from, params);
        parameter_depth++;
        if (is(params + 1, "void") && is(params + 2, ")"))
            put_text("()");
        else
            put_range(params, d->body);
        parameter_depth--;
    }
    for (int i = d->body; i < d->to; i++)
        if (is(i, "static") || is(i, "goto"))
            fail(i, "'%.*s' in a function", toks[i].n, toks[i].at);
    put_range(d->body, d->to);
}

static int threads_of(const char *list, const char *name, int n)
{
    for (const char *p = list; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
        if (strncmp(p, name, (size_t)n) == 0 && p[n] == ' ')
            return atoi(p + n);
    return 0;
}

static void put_entry(const struct item *d, const char *threads)
{
    struct token name = toks[d->from + 2], args = toks[d->from + 4];
    int n = threads_of(threads, name.at, name.n);
    if (!n)
        fail(d->from, "a kernel that is not in kernels/kernels.def");
    printf("\n[[max_total_threads_per_threadgroup(%d)]]\n"
           "kernel void %.*s(constant %.*s &a [[buffer(0)]], threadgroup uchar *shared [[threadgroup(0)]],\n"
           "                 uint tid [[thread_index_in_threadgroup]], uint3 size [[threads_per_threadgroup]],\n"
           "                 uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]])\n"
           "{\n    kd_item item = { shared, tid, size.x, group, groups };\n    item.%.*s(a);\n}\n",
           n, name.n, name.at, args.n, args.at, name.n, name.at);
}

static char *read_all(FILE *f, const char *what)
{
    size_t n = 0, cap = 1 << 20;
    char *s = f ? malloc(cap) : NULL;
    for (size_t got; s && (got = fread(s + n, 1, cap - n - 1, f)) > 0;) {
        n += got;
        if (n + 1 == cap)
            s = realloc(s, cap *= 2);
    }
    if (!s) {
        fprintf(stderr, "msl: %s cannot be read\n", what);
        exit(1);
    }
    s[n] = 0;
    if (f != stdin)
        fclose(f);
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: msl_text kernels/hw/msl.metal threads.txt <preprocessed.c >out.metal\n", stderr);
        return 2;
    }
    char *dialect = read_all(fopen(argv[1], "r"), argv[1]), *threads = read_all(fopen(argv[2], "r"), argv[2]);
    char *members = strstr(dialect, "// ---- members ----");
    if (!members) {
        fprintf(stderr, "msl: %s has no line of members\n", argv[1]);
        return 1;
    }
    *members++ = 0;
    members = strchr(members, '\n');
    read_tokens(read_all(stdin, "standard input"));
    drop_attributes();
    split();
    for (int i = 0; i < n_items; i++)
        if (is(items[i].from, "__kd_kernel") || (!items[i].body && !is_table(&items[i]) && !is_prototype(&items[i])))
            use(&items[i]);
    put_text(dialect);
    for (int i = 0; i < n_items; i++)
        if (items[i].used && !items[i].body)
            put_declaration(&items[i]);
    put_text("\n\nstruct kd_item {");
    put_text(members);
    depth = 1;
    for (int i = 0; i < n_items; i++)
        if (items[i].used && items[i].body)
            put_function(&items[i]);
    put_text("\n};\n");
    for (int i = 0; i < n_items; i++)
        if (items[i].body && is(items[i].from, "__kd_kernel"))
            put_entry(&items[i], threads);
    return ferror(stdout) ? 1 : 0;
}
