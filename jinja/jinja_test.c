/* Tests: what stands behind `is` (templates documentation, "List of Builtin Tests"). */
#include "jinja/jinja_impl.h"

static struct jval other(struct jinja_ctx *c, struct jargs *a)
{
    if (a->n != 1 || a->n_kw)
        jinja_fail(c, -EINVAL, "the test wants one value to compare with");
    return a->v[0];
}

#define TEST(name, expr)                                                                                               \
    static bool t_##name(struct jinja_ctx *c, struct jval v, struct jargs *a)                                         \
    {                                                                                                                  \
        (void)c;                                                                                                       \
        (void)v;                                                                                                       \
        (void)a;                                                                                                       \
        return expr;                                                                                                   \
    }

static int64_t want_int(struct jinja_ctx *c, struct jval v)
{
    int64_t i;
    if (v.t == J_UNDEFINED)
        jval_undefined_fail(c, v);
    if (!jval_as_int(v, &i))
        jinja_fail(c, -EINVAL, "the test wants a number, not %s", jval_type(v));
    return i;
}

static bool divisible(struct jinja_ctx *c, struct jval v, int64_t by)
{
    int64_t i = want_int(c, v);
    if (by == 0)
        jinja_fail(c, -EINVAL, "division by zero");
    return by == -1 || i % by == 0;
}

static bool same_case(struct jinja_ctx *c, struct jval v, enum jcase how)
{
    const struct jstr *s = jval_text(c, v);
    return jstr_eq(s, jinja_case(c, s, how)) && !jstr_eq(s, jinja_case(c, s, how == J_UPPER ? J_LOWER : J_UPPER));
}

static bool sequence(struct jval v)
{
    return v.t == J_UNDEFINED || v.t == J_STR || v.t == J_DICT || (v.t == J_LIST && v.l->kind <= J_KIND_TUPLE);
}

static bool callable(struct jval v)
{
    return v.t == J_UNDEFINED || v.t == J_MACRO || v.t == J_FUNCTION || v.t == J_METHOD || v.t == J_JOINER;
}

static bool same(struct jval a, struct jval b)
{
    if (a.t != b.t)
        return false;
    if (a.t == J_BOOL)
        return a.b == b.b;
    return a.t == J_NONE || (a.t == J_INT && a.i == b.i) || (a.t >= J_STR && a.m == b.m) ||
           (a.t == J_STR && jstr_eq(a.s, b.s));
}

TEST(defined, v.t != J_UNDEFINED)
TEST(undefined, v.t == J_UNDEFINED)
TEST(none, v.t == J_NONE)
TEST(string, v.t == J_STR)
TEST(mapping, v.t == J_DICT)
TEST(iterable, jval_iterable(v))
TEST(sequence, sequence(v))
TEST(callable, callable(v))
TEST(number, v.t == J_INT || v.t == J_FLOAT || v.t == J_BOOL)
TEST(integer, v.t == J_INT)
TEST(float, v.t == J_FLOAT)
TEST(boolean, v.t == J_BOOL)
TEST(true, v.t == J_BOOL && v.b)
TEST(false, v.t == J_BOOL && !v.b)
TEST(odd, !divisible(c, v, 2))
TEST(even, divisible(c, v, 2))
TEST(divisibleby, divisible(c, v, want_int(c, other(c, a))))
TEST(lower, same_case(c, v, J_LOWER))
TEST(upper, same_case(c, v, J_UPPER))
TEST(sameas, same(v, other(c, a)))
TEST(escaped, v.t == J_STR && v.s->markup)
TEST(in, jval_in(c, v, other(c, a)))
TEST(eq, jval_eq(c, v, other(c, a)))
TEST(ne, !jval_eq(c, v, other(c, a)))
TEST(gt, jval_cmp(c, v, other(c, a), ">") == 1)
TEST(ge, (unsigned)jval_cmp(c, v, other(c, a), ">=") <= 1)
TEST(lt, jval_cmp(c, v, other(c, a), "<") < 0)
TEST(le, jval_cmp(c, v, other(c, a), "<=") <= 0)

static bool t_filter(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    (void)c;
    (void)a;
    return v.t == J_STR && jfilter_find(v.s->s, v.s->n);
}

static bool t_test(struct jinja_ctx *c, struct jval v, struct jargs *a)
{
    (void)c;
    (void)a;
    return v.t == J_STR && jtest_find(v.s->s, v.s->n);
}

static const struct jtest tests[] = {
    { "defined", t_defined },   { "undefined", t_undefined }, { "none", t_none },         { "string", t_string },
    { "mapping", t_mapping },   { "iterable", t_iterable },   { "sequence", t_sequence }, { "callable", t_callable },
    { "number", t_number },     { "integer", t_integer },     { "float", t_float },       { "boolean", t_boolean },
    { "true", t_true },         { "false", t_false },         { "odd", t_odd },           { "even", t_even },
    { "divisibleby", t_divisibleby }, { "lower", t_lower },   { "upper", t_upper },       { "sameas", t_sameas },
    { "escaped", t_escaped },   { "in", t_in },               { "==", t_eq },             { "eq", t_eq },
    { "equalto", t_eq },        { "!=", t_ne },               { "ne", t_ne },             { ">", t_gt },
    { "gt", t_gt },             { "greaterthan", t_gt },      { ">=", t_ge },             { "ge", t_ge },
    { "<", t_lt },              { "lt", t_lt },               { "lessthan", t_lt },       { "<=", t_le },
    { "le", t_le },             { "filter", t_filter },       { "test", t_test },
};

const struct jtest *jtest_find(const char *s, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        if (strlen(tests[i].name) == n && memcmp(tests[i].name, s, n) == 0)
            return &tests[i];
    return NULL;
}
