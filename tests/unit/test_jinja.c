/* The interpreter by itself: which bytes are the template's own, what errors say, and that templates which loop,
 * double or recurse end in an error within their limits. What the language means is compared with jinja2
 * (test_jinja_peer.sh). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "jinja/jinja.h"

struct text {
    char s[1 << 16];
    size_t n;
    bool in_data;
};

/* Data stands in braces. */
static int put(void *user, const char *s, size_t n, bool data)
{
    struct text *t = user;
    if (t->n + n + 2 >= sizeof t->s)
        return -ENOSPC;
    if (data != t->in_data)
        t->s[t->n++] = data ? '<' : '>';
    t->in_data = data;
    memcpy(t->s + t->n, s, n);
    t->n += n;
    return 0;
}

static int drop(void *user, const char *s, size_t n, bool data)
{
    *(size_t *)user += n;
    return 0;
}

static int render(const char *template, const char *data, struct text *to, struct err *e)
{
    static const char *const roles[] = { "user", NULL };
    struct jinja *t;
    json_t *own = json_pack("{s:s}", "bos", "B"), *v = data ? json_loads(data, 0, NULL) : NULL;
    struct jinja_opts o = { .own = own, .data = v, .roles = roles };
    to->n = 0;
    to->in_data = false;
    int rc = jinja_parse(template, strlen(template), &t, e);
    if (!rc) {
        rc = jinja_render(t, &o, put, to, e);
        jinja_free(t);
    }
    if (to->in_data)
        to->s[to->n++] = '>';
    to->s[to->n] = 0;
    json_decref(own);
    json_decref(v);
    return rc;
}

static const struct {
    const char *template, *want;
} origins[] = {
    { "a{{ bos }}{{ x }}b", "aB<xYz>b" },
    { "{{ 'a' + x + 'b' }}{{ 'a' ~ x }}", "a<xYz>ba<xYz>" },
    { "{{ ('a' + x + 'b')[1:3] }}{{ ('a' + x + 'b')[::-1] }}", "<xY>b<zYx>a" },
    { "{{ ('-' + x + '-').strip('-') }}{{ (x + ' -').split()[1] }}", "<xYz>-" },
    { "{{ x | upper }}{{ ('a' + x) | title }}{{ x | replace('Y', 'y') }}", "<XYZ>A<xyzx>y<z>" },
    { "{{ '%s|%s' % (x, bos) }}{{ '{}-{}'.format(x, 'k') }}", "<xYz>|B<xYz>-k" },
    { "{{ ['a', x] | join(',') }}{% set y %}[{{ x }}]{% endset %}{{ y }}", "a,<xYz>[<xYz>]" },
    { "{% macro f(a) %}({{ a }}){% endmacro %}{{ f(x) + f('k') }}", "(<xYz>)(k)" },
    { "{{ d | tojson }}", "<{\"k<|\": [\"v|>\", 1]}>" },
    { "{% for k, v in d.items() %}{{ k }}={{ v[0] }}{{ v }}{% endfor %}", "<k<|>=<v|>>[<'v|>'>, <1>]" },
    { "{{ j | from_json }}{{ 'own' | tojson }}", "{<'k'>: <'v'>}<\">own<\">" },
    { "{{ m.role }}{{ n.role }}{{ '<|' + m.role + '|>' }}", "user<admin><|user|>" },
    { "{% set ns = namespace(t='') %}{% for i in [1, 2] %}{% set ns.t = ns.t + x + '.' %}{% endfor %}{{ ns.t }}", "<xYz>.<xYz>." },
    { "{% set a = 'o' + x %}{% set b = a + '1' %}{% set c = a + '2' %}{{ b }}{{ c }}{{ a }}", "o<xYz>1o<xYz>2o<xYz>" },
    { "{{ x | indent(1, true) }}{{ x | list | last }}{{ x * 2 }}{{ x | string }}{{ x | safe }}", " <xYzzxYzxYzxYzxYz>" },
};

START_TEST(data_stays_data)
{
    struct text t;
    struct err e = { 0 };
    ck_assert_msg(render(origins[_i].template,
                         "{\"x\": \"xYz\", \"d\": {\"k<|\": [\"v|>\", 1]}, \"j\": \"{\\\"k\\\": \\\"v\\\"}\", "
                         "\"m\": {\"role\": \"user\"}, \"n\": {\"role\": \"admin\"}}", &t, &e) == 0, "%s: %s", origins[_i].template, e.msg);
    ck_assert_msg(strcmp(t.s, origins[_i].want) == 0, "%s: got %s, want %s", origins[_i].template, t.s, origins[_i].want);
}
END_TEST

static const struct {
    const char *template, *says;
    int rc;
} mistakes[] = {
    { "a\n{% if %}", "template line 2: expected an expression", -EINVAL },
    { "\n\n{{ 'x", "template line 3: a string has no end", -EINVAL },
    { "{% for x in y %}", "template line 1: expected endfor, not 'the end of the template'", -EINVAL },
    { "{{ x | nothing }}", "no filter named 'nothing'", -EINVAL },
    { "{{ x is nothing }}", "no test named 'nothing'", -EINVAL },
    { "{% include 'x' %}", "chat templates have no 'include'", -EINVAL },
    { "{% break %}", "break outside of a loop", -EINVAL },
    { "{{ (1 }}", "unexpected '}'", -EINVAL },
    { "{# no end", "a comment has no end", -EINVAL },
    { "\n{{ a.b }}", "template line 2: 'a' is undefined", -EINVAL },
    { "{{ {}.b.c }}", "a dict has no 'b'", -EINVAL },
    { "{{ 'a' + 1 }}", "'+' is not there for str and int", -EINVAL },
    { "{{ 9223372036854775807 + 1 }}", "larger than 64 bits", -EINVAL },
    { "{{ 1 % 0 }}", "division by zero", -EINVAL },
    { "{{ raise_exception('no\nsystem') }}", "no system", -EPERM },
    { "{{ range(1000000) }}", "a range of more than 100000 values", -E2BIG },
    { "{{ '%s %s' % 'a' }}", "more places than there are values", -EINVAL },
};

START_TEST(errors_name_line_and_reason)
{
    struct text t;
    struct err e = { 0 };
    int rc = render(mistakes[_i].template, NULL, &t, &e);
    ck_assert_msg(rc == mistakes[_i].rc && strstr(e.msg, mistakes[_i].says), "%s: %d %s", mistakes[_i].template, rc, e.msg);
    ck_assert_ptr_null(strchr(e.msg, '\n'));
}
END_TEST

static const char *const bombs[] = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% set n = namespace(s='0123456789') %}{% for i in range(90000) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s='0123456789') %}{% for i in range(90000) %}{% set n.s = n.s.replace('0', n.s) %}{% endfor %}",
    "{{ 'x' * 100000000000 }}",
    "{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}",
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{% set l = [] %}{% for i in range(90000) %}{% set _ = l.append(l) %}{% set _ = l.extend(l) %}{% endfor %}",
    "{% set l = [1] %}{% set _ = l.append(l) %}{{ l }}",
    "{% set l = [1] %}{% set _ = l.append(l) %}{{ l | tojson }}",
    "{% set l = [1] %}{% set m = [1] %}{% set _ = l.append(m) %}{% set _ = m.append(l) %}{{ l == m }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'x' * 10000 }}{% endfor %}{% endfor %}",
    "{{ '%0100000d' % 1 }}{{ '%999999999d' % 1 }}",
    "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}",
    "{% set n = namespace(l=[1]) %}{% for i in range(9999) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l | tojson }}",
    "{{ range(99999) | map('string') | join(range(99999) | join) }}",
    "{% set s = 'a' * 1000000 %}{% for i in range(99999) %}{{ s.count('b') + s | length }}{{ s.rfind('b') }}{% endfor %}",
    "{% set s = 'ä ' * 500000 %}{% for i in range(99999) %}{% if s[400000:] == s %}{% endif %}{% endfor %}",
    "{% set s = ' ' * 1000000 %}{% for i in range(99999) %}{% set _ = s.strip() %}{% set _ = s.split(',') %}{% endfor %}",
};

START_TEST(bombs_end_in_an_error)
{
    struct jinja *t;
    struct err e = { 0 };
    size_t n = 0;
    struct jinja_opts o = { 0 };
    ck_assert_msg(jinja_parse(bombs[_i], strlen(bombs[_i]), &t, &e) == 0, "%s", e.msg);
    int rc = jinja_render(t, &o, drop, &n, &e);
    ck_assert_msg(rc == -E2BIG || rc == -EINVAL, "%s: %d %s", bombs[_i], rc, e.msg);
    ck_assert_uint_le(n, (size_t)32 << 20);
    jinja_free(t);
}
END_TEST

/* Nested as deep as the text allows: brackets, blocks, operators, filters. */
START_TEST(deep_templates_are_refused_or_work)
{
    static const struct {
        const char *begin, *more, *end;
    } deep[] = { { "{{ ", "(", "1 }}" },     { "{{ ", "[", "1 }}" },        { "{{ ", "not ", "1 }}" }, { "{{ ", "-", "1 }}" },
                 { "", "{% if 1 %}", "" },   { "{{ 1", "+1", " }}" },       { "{{ 1", "|abs", " }}" }, { "{{ a", ".a", " }}" },
                 { "{{ 1", " if 1 else 1", " }}" }, { "{{ ", "{1:", "1 }}" }, { "{% set ", "(", "a = 1 %}" },
                 { "{% if 0 %}", "{% elif 0 %}", "{% endif %}" } };
    struct text *t = malloc(sizeof *t);
    size_t n = 40000, k = strlen(deep[_i].more), at = strlen(deep[_i].begin);
    char *s = calloc(1, n * k + 64);
    memcpy(s, deep[_i].begin, at);
    for (size_t i = 0; i < n; i++, at += k)
        memcpy(s + at, deep[_i].more, k);
    strcpy(s + at, deep[_i].end);
    struct err e = { 0 };
    int rc = render(s, "{\"a\": {}}", t, &e);
    ck_assert_msg(rc == -E2BIG || rc == -EINVAL, "%.20s: %d", s, rc);
    free(s);
    free(t);
}
END_TEST

START_TEST(limits_are_the_callers)
{
    struct jinja *t;
    size_t n = 0;
    struct err e = { 0 };
    static const char text[] = "{% for i in range(1000) %}0123456789{% endfor %}";
    ck_assert_int_eq(jinja_parse(text, sizeof text - 1, &t, &e), 0);
    ck_assert_int_eq(jinja_render(t, &(struct jinja_opts){ 0 }, drop, &n, &e), 0);
    ck_assert_uint_eq(n, 10000);
    ck_assert_int_eq(jinja_render(t, &(struct jinja_opts){ .max_output = 9999 }, drop, &n, &e), -E2BIG);
    ck_assert_int_eq(jinja_render(t, &(struct jinja_opts){ .max_steps = 900 }, drop, &n, &e), -E2BIG);
    ck_assert_int_eq(jinja_render(t, &(struct jinja_opts){ .max_memory = 9000 }, drop, &n, &e), -E2BIG);
    jinja_free(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("jinja");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, data_stays_data, 0, ARRAY_LEN(origins));
    tcase_add_loop_test(tc, errors_name_line_and_reason, 0, ARRAY_LEN(mistakes));
    tcase_add_loop_test(tc, bombs_end_in_an_error, 0, ARRAY_LEN(bombs));
    tcase_add_loop_test(tc, deep_templates_are_refused_or_work, 0, 12);
    tcase_add_test(tc, limits_are_the_callers);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
