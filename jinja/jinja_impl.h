/* jinja/jinja_impl.h: inside the interpreter; for this folder only.
 *
 * Memory comes from an arena that ends with the template or with the rendering; nothing in it is freed by itself.
 * What fails leaves by jinja_fail, a jump to where the public function began. */
#ifndef ZINC_JINJA_JINJA_IMPL_H
#define ZINC_JINJA_JINJA_IMPL_H

#include <setjmp.h>
#include <string.h>

#include "base/ckd.h"
#include "jinja/jinja.h"

/* ---- one parsing or one rendering ---- */

struct jinja_chunk;

struct jinja_ctx {
    jmp_buf fail;
    struct err *e;
    int rc;
    struct jinja_chunk *chunks;
    char *at;
    size_t left, used, max_memory;
    uint32_t line;  /* of what is parsed or evaluated */
    uint32_t depth; /* of calls of ours, JINJA_MAX_DEPTH at most */
    uint64_t steps, max_steps;
    const struct jinja_opts *opts;
    const struct jinja *t; /* what is rendered */
    struct jscope *scope;
    struct jout *out;
    json_t *parsed; /* by from_json: values point into it */
    uint32_t macro_depth;
};

enum { JINJA_MAX_DEPTH = 600, JINJA_MAX_MACROS = 100 };

__attribute__((cold, noreturn, format(printf, 3, 4))) void jinja_fail(struct jinja_ctx *c, int rc, const char *fmt,
                                                                      ...);
__attribute__((malloc)) void *jinja_alloc(struct jinja_ctx *c, size_t n); /* zeroed, aligned to 16 */
char *jinja_alloc_bytes(struct jinja_ctx *c, size_t n);                   /* neither */
void jinja_release(struct jinja_ctx *c);
void jinja_enter(struct jinja_ctx *c); /* one call deeper; c->depth-- ends it */

static inline void jinja_step(struct jinja_ctx *c, uint64_t n)
{
    c->steps += n;
    if (c->steps > c->max_steps)
        jinja_fail(c, -E2BIG, "more than %llu steps", (unsigned long long)c->max_steps);
}

/* ---- strings ---- */

enum jorigin { J_OWN, J_DATA, J_MIXED };

/* UTF-8; not terminated. Bytes that are no UTF-8 count as a character each. */
struct jstr {
    const char *s;
    const uint8_t *mask; /* J_MIXED: [n], 0 own, 1 data */
    uint32_t n;
    uint8_t origin;
    bool markup;      /* came out of `safe` or `escape`: `+` escapes the other side */
    struct jbuf *buf; /* where it can grow in place, or NULL */
};

struct jstr *jstr_new(struct jinja_ctx *c, const char *s, size_t n, enum jorigin origin); /* s must stay */
struct jstr *jstr_lit(struct jinja_ctx *c, const char *s);
struct jstr *jstr_copy(struct jinja_ctx *c, const char *s, size_t n, enum jorigin origin);
struct jstr *jstr_sub(struct jinja_ctx *c, const struct jstr *s, size_t from, size_t to); /* bytes */
struct jstr *jstr_concat(struct jinja_ctx *c, const struct jstr *a, const struct jstr *b);
bool jstr_eq(const struct jstr *a, const struct jstr *b);
bool jstr_is(const struct jstr *a, const char *s);
int jstr_cmp(const struct jstr *a, const struct jstr *b);
size_t jstr_len(struct jinja_ctx *c, const struct jstr *s);               /* characters */
size_t jstr_offset(const struct jstr *s, size_t from, size_t n_chars);    /* of the byte n characters behind `from` */
uint32_t jstr_char(const struct jstr *s, size_t at, size_t *n);           /* code point; *n: its bytes */
const char *jstr_find(const struct jstr *s, size_t from, const struct jstr *what);
char *jstr_z(struct jinja_ctx *c, const struct jstr *s);                  /* terminated */
bool jinja_space(uint32_t cp); /* Python's str.isspace, for one character */

/* A string that is being made. */
struct jout {
    struct jbuf *buf;
    uint32_t from;
    bool own, data; /* what it has */
    jinja_put put;  /* of the outermost: where it goes instead */
    void *user;
    size_t n, max;
};
struct jout jout_begin(void);
void jout_add(struct jinja_ctx *c, struct jout *o, const char *s, size_t n, enum jorigin origin);
void jout_str(struct jinja_ctx *c, struct jout *o, const struct jstr *s);
void jout_cp(struct jinja_ctx *c, struct jout *o, uint32_t cp, enum jorigin origin);
struct jstr *jout_end(struct jinja_ctx *c, struct jout *o);
static inline enum jorigin jstr_origin_at(const struct jstr *s, size_t at)
{
    return s->origin == J_MIXED ? (enum jorigin)s->mask[at] : (enum jorigin)s->origin;
}

/* ---- values ---- */

enum jtype {
    J_UNDEFINED, J_NONE, J_BOOL, J_INT, J_FLOAT, J_STR, J_LIST, J_DICT, J_NAMESPACE, J_MACRO, J_FUNCTION, J_METHOD,
    J_LOOP, J_CYCLER, J_JOINER,
};

struct jval {
    uint8_t t;
    uint8_t of;     /* J_UNDEFINED: the enum jtype that has no such attribute; J_UNDEFINED: a variable */
    uint8_t method; /* J_METHOD: enum jmethod */
    union {
        bool b;
        int64_t i;
        double f;
        const struct jstr *s; /* J_UNDEFINED: its name */
        struct jlist *l;
        struct jdict *d;
        struct jmacro *m;
        const struct jfunction *fn;
        struct jval *self; /* J_METHOD */
        struct jloop *loop;
        struct jcycler *cycler;
    };
};

/* VIEW: dict.items() and the like; ITER: a generator, which is empty once it was walked. */
enum jlist_kind { J_KIND_LIST, J_KIND_TUPLE, J_KIND_VIEW, J_KIND_ITER };
struct jlist {
    struct jval *v;
    uint32_t n, cap;
    enum jlist_kind kind;
};

struct jdict {
    struct jval *k, *v;
    uint32_t n, cap;
    uint32_t *index; /* hash table of 1 + place, NULL while small */
    uint32_t n_index;
};

struct jcycler {
    struct jlist *items;
    uint32_t at;
    const struct jstr *sep; /* joiner */
};

static inline struct jval jval_none(void) { return (struct jval){ .t = J_NONE }; }
static inline struct jval jval_bool(bool b) { return (struct jval){ .t = J_BOOL, .b = b }; }
static inline struct jval jval_int(int64_t i) { return (struct jval){ .t = J_INT, .i = i }; }
static inline struct jval jval_float(double f) { return (struct jval){ .t = J_FLOAT, .f = f }; }
static inline struct jval jval_str(const struct jstr *s) { return (struct jval){ .t = J_STR, .s = s }; }
static inline struct jval jval_list(struct jlist *l) { return (struct jval){ .t = J_LIST, .l = l }; }
static inline struct jval jval_dict(struct jdict *d) { return (struct jval){ .t = J_DICT, .d = d }; }
static inline struct jval jval_undefined(const struct jstr *name, enum jtype of)
{
    return (struct jval){ .t = J_UNDEFINED, .of = (uint8_t)of, .s = name };
}
struct jval jval_from_json(struct jinja_ctx *c, const json_t *v, enum jorigin origin);

const char *jval_type(struct jval v); /* Python's name of it */
__attribute__((cold, noreturn)) void jval_undefined_fail(struct jinja_ctx *c, struct jval v);
bool jval_truth(struct jval v);
bool jval_eq(struct jinja_ctx *c, struct jval a, struct jval b);
int jval_cmp(struct jinja_ctx *c, struct jval a, struct jval b, const char *op); /* fails where Python does */
bool jval_in(struct jinja_ctx *c, struct jval needle, struct jval hay);
const struct jstr *jval_text(struct jinja_ctx *c, struct jval v);              /* str() */
void jval_repr(struct jinja_ctx *c, struct jout *o, struct jval v);
bool jval_number(struct jval v, double *f);                                    /* bool, int, float */
bool jval_as_int(struct jval v, int64_t *i);                                   /* bool, int */
size_t jval_len(struct jinja_ctx *c, struct jval v);
/* What a for loop walks over, as a list; fails where Python cannot. An ITER is empty behind this. */
struct jlist *jval_items(struct jinja_ctx *c, struct jval v);
bool jval_iterable(struct jval v);
void jinja_put_float(struct jinja_ctx *c, struct jout *o, double f); /* Python's repr */

struct jlist *jlist_new(struct jinja_ctx *c, uint32_t cap, enum jlist_kind kind);
void jlist_push(struct jinja_ctx *c, struct jlist *l, struct jval v);
struct jdict *jdict_new(struct jinja_ctx *c, uint32_t cap);
void jdict_set(struct jinja_ctx *c, struct jdict *d, struct jval k, struct jval v);
struct jval *jdict_get(struct jinja_ctx *c, const struct jdict *d, struct jval k); /* NULL: not there */
struct jval *jdict_get_str(const struct jdict *d, const char *s, size_t n);
void jdict_remove(struct jinja_ctx *c, struct jdict *d, uint32_t at);
struct jval jval_pair(struct jinja_ctx *c, struct jval a, struct jval b); /* tuple */

struct jval jinja_getattr(struct jinja_ctx *c, struct jval obj, const struct jstr *name);
struct jval jinja_getitem(struct jinja_ctx *c, struct jval obj, struct jval key);
struct jval jinja_slice(struct jinja_ctx *c, struct jval obj, struct jval from, struct jval to, struct jval step);

/* ---- calls ---- */

struct jargs {
    struct jval *v;
    uint32_t n;
    const struct jstr **kw;
    struct jval *kw_v;
    uint32_t n_kw;
    uint32_t used; /* bits of keywords that were asked for */
};
/* The i-th argument, or the one called `name`. */
struct jval jargs_get(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, struct jval otherwise);
void jargs_put(struct jinja_ctx *c, struct jargs *a, const struct jstr *name, struct jval v);
bool jargs_has(const struct jargs *a, uint32_t i, const char *name);
void jargs_end(struct jinja_ctx *c, const struct jargs *a, const char *what, uint32_t max); /* nothing is left over */
int64_t jargs_int(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, int64_t otherwise);
bool jargs_bool(struct jinja_ctx *c, struct jargs *a, uint32_t i, const char *name, bool otherwise);

typedef struct jval (*jfilter_fn)(struct jinja_ctx *c, struct jval v, struct jargs *a);
typedef bool (*jtest_fn)(struct jinja_ctx *c, struct jval v, struct jargs *a);
struct jfilter {
    const char *name;
    jfilter_fn fn;
};
struct jtest {
    const char *name;
    jtest_fn fn;
};
struct jfunction {
    const char *name;
    struct jval (*fn)(struct jinja_ctx *c, struct jargs *a);
};
const struct jfilter *jfilter_find(const char *s, size_t n); /* NULL: none */
const struct jtest *jtest_find(const char *s, size_t n);
const struct jfunction *jfunction_find(const char *s, size_t n);
extern const struct jfilter jfilter_text_table[], jfilter_list_table[]; /* end with a NULL name */

/* Methods of strings, lists and dicts: false where Python's type has no such attribute. */
bool jmethod_find(struct jval obj, const struct jstr *name, uint8_t *method);
struct jval jmethod_call(struct jinja_ctx *c, struct jval self, uint8_t method, struct jargs *a);
struct jval jinja_call(struct jinja_ctx *c, struct jval fn, struct jargs *a);
struct jval jmacro_call(struct jinja_ctx *c, struct jmacro *m, struct jargs *a);

/* What methods and filters share. */
struct jval jinja_split(struct jinja_ctx *c, const struct jstr *s, const struct jstr *sep, int64_t max, bool from_right);
const struct jstr *jinja_strip(struct jinja_ctx *c, const struct jstr *s, struct jval chars, bool left, bool right);
const struct jstr *jinja_replace(struct jinja_ctx *c, const struct jstr *s, const struct jstr *old,
                                 const struct jstr *by, int64_t max);
enum jcase { J_UPPER, J_LOWER, J_TITLE, J_CAPITALIZE, J_TITLE_FILTER, J_SWAP };
const struct jstr *jinja_case(struct jinja_ctx *c, const struct jstr *s, enum jcase how);
const struct jstr *jinja_escape(struct jinja_ctx *c, const struct jstr *s);
const struct jstr *jinja_percent(struct jinja_ctx *c, const struct jstr *format, struct jval args); /* '%s' % args */
const struct jstr *jinja_format(struct jinja_ctx *c, const struct jstr *format, struct jargs *a); /* '{}'.format() */
struct jval jinja_tojson(struct jinja_ctx *c, struct jval v, struct jargs *a);
struct jval jinja_binary(struct jinja_ctx *c, int op, struct jval a, struct jval b);
struct jval jinja_attr_path(struct jinja_ctx *c, struct jval v, struct jval path); /* map(attribute='a.b.0') */
void jinja_sort(struct jinja_ctx *c, struct jval *v, struct jval *keys, uint32_t n, bool reverse);
struct jval jinja_fold(struct jinja_ctx *c, struct jval v); /* strings in lower case, for comparing */

/* ---- the tree ---- */

enum jnode_kind {
    /* expressions */
    JN_CONST, JN_NAME, JN_LIST, JN_TUPLE, JN_DICT, JN_ATTR, JN_ITEM, JN_SLICE, JN_CALL, JN_FILTER, JN_TEST, JN_NOT,
    JN_NEG, JN_POS, JN_AND, JN_OR, JN_BINARY, JN_CONCAT, JN_COMPARE, JN_COND,
    JN_ARG, /* of a call or a list: a the value; op: 0 plain, 1 by name, 2 *, 3 ** */
    /* statements */
    JS_TEXT, JS_PRINT, JS_IF, JS_FOR, JS_SET, JS_SET_BLOCK, JS_MACRO, JS_CALL, JS_FILTER, JS_WITH, JS_BREAK,
    JS_CONTINUE, JS_SCOPE,
};

struct jname; /* an interned name */

/* One shape for all; what a, b, c, d are is said where each is made (jinja_parse*.c). */
struct jnode {
    uint8_t kind;
    uint8_t op;
    uint32_t line;
    struct jnode *a, *b, *c, *d, *next;
    const struct jname *name;
    union {
        struct jval value;
        const struct jfilter *filter;
        const struct jtest *test;
    };
};

struct jname {
    struct jname *chain;
    const struct jfunction *function; /* the global of that name, or NULL */
    struct jstr str;
};

enum { JINJA_NAME_BUCKETS = 256 };
struct jinja {
    struct jinja_ctx *arena; /* holds all of it */
    struct jnode *body;
    struct jname *names[JINJA_NAME_BUCKETS];
    const struct jname *loop, *caller, *varargs, *kwargs;
};

/* ---- tokens ---- */

enum jtoken_kind {
    JT_TEXT, JT_VAR_BEGIN, JT_VAR_END, JT_BLOCK_BEGIN, JT_BLOCK_END, JT_NAME, JT_STRING, JT_INT, JT_FLOAT, JT_OP,
    JT_END,
};
enum jop {
    JO_ADD = 1, JO_SUB, JO_DIV, JO_FLOORDIV, JO_MUL, JO_MOD, JO_POW, JO_TILDE, JO_LBRACKET, JO_RBRACKET, JO_LPAREN,
    JO_RPAREN, JO_LBRACE, JO_RBRACE, JO_EQ, JO_NE, JO_GE, JO_GT, JO_LE, JO_LT, JO_ASSIGN, JO_DOT, JO_COLON, JO_PIPE,
    JO_COMMA, JO_SEMICOLON, JO_IN, JO_NOT_IN,
};
struct jtoken {
    uint8_t kind, op;
    uint32_t line, n;
    const char *s; /* text, name, the string's value, the operator */
    union {
        int64_t i;
        double f;
    };
};
/* All tokens of a template, JT_END the last. */
struct jtoken *jinja_lex(struct jinja_ctx *c, const char *text, size_t n);

struct jparser {
    struct jinja_ctx *c;
    struct jinja *t;
    const struct jtoken *at;
    unsigned in_loop;
    uint8_t names; /* JM_: what the macro that is being read names */
};
struct jnode *jparse_expr(struct jparser *p);                                  /* with `if .. else` */
struct jnode *jparse_tuple(struct jparser *p, bool cond, bool parens, const char *end_name);
struct jnode *jparse_filters(struct jparser *p, struct jnode *of, bool first); /* first: its name stands there, no | */
struct jnode *jparse_args(struct jparser *p);                                  /* from ( to ) */
struct jnode *jparse_target(struct jparser *p, bool with_attr);                /* what is assigned to */
struct jnode *jparse_body(struct jparser *p);
struct jnode *jnode_new(struct jparser *p, enum jnode_kind kind);
const struct jname *jname_intern(struct jparser *p, const char *s, size_t n);
const struct jname *jname_find(const struct jinja *t, const char *s, size_t n);
bool jparse_is_name(const struct jparser *p, const char *name);
bool jparse_skip_name(struct jparser *p, const char *name);
bool jparse_is_op(const struct jparser *p, enum jop op);
bool jparse_skip_op(struct jparser *p, enum jop op);
void jparse_need_op(struct jparser *p, enum jop op, const char *what);
__attribute__((cold, noreturn)) void jparse_unexpected(struct jparser *p, const char *wanted);

/* ---- evaluation ---- */

struct jvar {
    const struct jname *name;
    struct jval v;
};
struct jscope {
    struct jscope *parent;
    struct jvar *var;
    uint32_t n, cap;
    bool captured; /* a macro holds it */
};
enum { JM_CALLER = 1, JM_VARARGS = 2, JM_KWARGS = 4 }; /* op of JS_MACRO and JS_CALL: what their bodies name */
struct jmacro {
    const struct jnode *node;
    struct jscope *scope; /* where it was defined */
};
struct jloop {
    struct jlist *items;
    uint32_t at;
    uint32_t depth;
    const struct jnode *node; /* recursive: the loop */
    struct jval last_changed;
    bool has_changed;
    struct jscope *scope;
};

struct jval jinja_eval(struct jinja_ctx *c, const struct jnode *n);
struct jargs jinja_args(struct jinja_ctx *c, const struct jnode *first);
struct jscope *jscope_push(struct jinja_ctx *c, struct jscope *parent);
void jscope_set(struct jinja_ctx *c, struct jscope *s, const struct jname *name, struct jval v);
struct jval jloop_attr(struct jinja_ctx *c, struct jloop *l, const struct jstr *name);
struct jval jloop_call(struct jinja_ctx *c, struct jloop *l, struct jargs *a); /* a recursive loop's loop(..) */

#endif
