/* Grammars: what GBNF texts match, which are refused and how, masks against a check of every token, control tokens, and
 * the bounds of the cache. */
#include <regex.h>

#include "base/ckd.h"
#include "tests/unit/grammar_make.h"

static struct vocab_index *vocab;

static void set_up(void)
{
    vocab = made_vocab();
}

static void tear_down(void)
{
    vocab_index_destroy(vocab);
}

static struct grammar *make(const char *text)
{
    struct grammar *g = NULL;
    struct err e = { 0 };
    ck_assert_msg(grammar_from_gbnf(vocab, text, strlen(text), &g, &e) == 0, "%s\n%s", e.msg, text);
    return g;
}

/* ---- what is matched ----------------------------------------------------------------------------------- */

static const struct {
    const char *grammar, *yes[8], *no[8];
} language[] = {
    { "root ::= \"abc\"", { "abc" }, { "", "ab", "abcc", "abd" } },
    { "root ::= \"a\" | \"\" | \"bc\"", { "a", "", "bc" }, { "b", "ab" } },
    { "root ::= [a-c]* [^a-z]+", { "1", "abcA", "ccc\xe6\x97\xa5" }, { "", "abc", "d1", "a1b", "\xe6\x97" } },
    { "root ::= \"a\"{2,3} \"b\"{2} \"c\"{1,} \"d\"{,2}",
      { "aabbc", "aaabbcccdd", "aabbcd" },
      { "abbc", "aabc", "aabb", "aabbcddd" } },
    { "root ::= \"a\"{0} \"b\"?", { "", "b" }, { "a", "bb" } },
    { "root ::= (\"a\" | \"b\" (\"c\" | \"d\")*)+", { "a", "bcdcd", "abab", "bca" }, { "", "c", "ac" } },
    { "root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\\\\\"\\[\\]\"",
      { "A\xc3\xa9\xf0\x9f\x98\x80\n\t\r\\\"[]" },
      { "A" } },
    { "root ::= .",
      { "a", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80" },
      { "", "ab", "\xc3", "\xff", "\xed\xa0\x80", "\xc0\x80" } },
    { "root ::= [\\u0080-\\U0010ffff]",
      { "\xc2\x80", "\xe6\x97\xa5", "\xf4\x8f\xbf\xbf", "\xee\x80\x80", "\xed\x9f\xbf" },
      { "a", "\x80", "\xf4\x90\x80\x80", "\xed\xa0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80" } },
    { "root ::= [\\u07f0-\\u0823]",
      { "\xdf\xb0", "\xdf\xbf", "\xe0\xa0\x80", "\xe0\xa0\xa3" },
      { "\xdf\xaf", "\xe0\xa0\xa4" } },
    { "root ::= [-a] [a-] [\\]^] [^^]", { "-a]x", "a-^]" }, { "b-]x", "-a]^" } },
    { "root ::= a # the first\n# a comment\n\na ::=\n  b\n  | c |\n d\nb ::= \"b\" # more\nc ::= (\n\"c\"\n)\n d "
      "::=\"d\"",
      { "b", "c", "d" },
      { "a", "" } },
    { "root ::= \"(\" root \")\" | \"x\"", { "x", "((((((((((x))))))))))" }, { "(x", "x)", "()" } },
    { "root ::= \"a\" root | \"\"", { "", "aaaaaaaaaaaaaaaaaaaaaaaa" }, { "b" } },
    { "root ::= list\nlist ::= item (\",\" list)?\nitem ::= \"[\" list? \"]\" | [0-9]",
      { "1,2", "[],[1,[2,3]],4" },
      { "1,", "[1,]", "" } },
    { "root ::= (\"a\"?)* \"b\"", { "b", "aaab" }, { "a" } },
    { "root ::= (\"a\"* \"b\"*)* \"c\"", { "c", "abbac", "aac" }, { "ab" } },
    { "root ::= x x\nx ::= \"a\" | \"aa\" | \"\"", { "", "a", "aa", "aaa", "aaaa" }, { "aaaaa" } },
    { "root ::= %until \"stop\" \"!\"",
      { "stop!", "a stop!", "sstop!", "ststop!", "\xc3\xa9stop!" },
      { "stop", "stopstop!", "stop stop!", "\xc3stop!" } },
    { "root ::= %until \"aab\" | %until \"aac\"", { "aab", "aaaab", "aac", "xaabxaac", "aabaac" }, { "ab", "aabb" } },
    { "root ::= (%until \"\xc3\xa9\")+",
      { "\xc3\xa9", "a\xc3\xa9"
                    "b\xc3\xa9" },
      { "", "\xc3\xa8", "\xc3\xa9x" } },
    { "root ::= <think> \"x\"", { "" }, { "<think>x" } }, /* the token, not its letters: see token_terminals */
};

START_TEST(texts_are_in_the_language_or_not)
{
    struct grammar *g = make(language[_i].grammar);
    for (int k = 0; k < 8 && language[_i].yes[k]; k++)
        if (!strstr(language[_i].grammar, "<think>"))
            ck_assert_msg(made_matches(g, language[_i].yes[k], strlen(language[_i].yes[k])), "%s refuses '%s'",
                          language[_i].grammar, language[_i].yes[k]);
    for (int k = 0; k < 8 && language[_i].no[k]; k++)
        ck_assert_msg(!strcmp(language[_i].no[k], "<think>x") ||
                          !made_matches(g, language[_i].no[k], strlen(language[_i].no[k])),
                      "%s matches '%s'", language[_i].grammar, language[_i].no[k]);
    grammar_unref(g);
}
END_TEST

START_TEST(masks_are_what_accept_says)
{
    char text[8192];
    struct grammar *g = make(language[_i].grammar);
    for (int k = 0; k < 12; k++)
        made_walk(g, text, sizeof text, 20, 4, 60);
    grammar_unref(g);
}
END_TEST

/* ---- what is refused ----------------------------------------------------------------------------------- */

static const struct {
    const char *grammar;
    int rc;
    const char *says;
} broken[] = {
    { "", -EINVAL, "the rule root is missing" },
    { "a ::= \"x\"", -EINVAL, "the rule root is missing" },
    { "root ::= a", -EINVAL, "line 1, column 10: the rule a is missing" },
    { "root ::= \"a\n", -EINVAL, "literal without its closing" },
    { "root ::= [a", -EINVAL, "class without its closing" },
    { "root ::= []", -EINVAL, "an empty class" },
    { "root ::= [z-a]", -EINVAL, "ends before it begins" },
    { "root ::= (\"a\"", -EINVAL, "group without its closing" },
    { "root ::= \"a\" )", -EINVAL, "unexpected ')'" },
    { "root = \"a\"", -EINVAL, "expected ::=" },
    { "root ::= \"a\"{3,2}", -EINVAL, "the most is less" },
    { "root ::= \"a\"{x}", -EINVAL, "expected a number" },
    { "root ::= \"a\"{1", -EINVAL, "without their closing }" },
    { "root ::= \"\\q\"", -EINVAL, "unknown escape" },
    { "root ::= \"\\x4\"", -EINVAL, "2 hexadecimal digits" },
    { "root ::= \"\\ud800\"", -EINVAL, "no character" },
    { "root ::= \"\xff\"", -EINVAL, "not UTF-8" },
    { "root ::= \"a\"\nroot ::= \"b\"", -EINVAL, "line 2, column 1: the rule root is there twice" },
    { "root ::= <nothing>", -EINVAL, "no token <nothing>" },
    { "root ::= <[99999]>", -EINVAL, "no token <[99999]>" },
    { "root ::= <[261]>", -EINVAL, "no token" }, /* unused */
    { "root ::= <x", -EINVAL, "without its closing >" },
    { "root ::= !\"a\"", -EINVAL, "expected <token>" },
    { "root ::= %until x", -EINVAL, "expected a literal" },
    { "root ::= %until \"\"", -EINVAL, "the text is empty" },
    { "root ::= root \"a\" | \"b\"", -EINVAL, "the rule root is left recursive" },
    { "root ::= a\na ::= \"\" b \"x\" | \"y\"\nb ::= c? a", -EINVAL, "left recursive" },
    { "root ::= (\"x\"* root)?", -EINVAL, "the rule root is left recursive" },
    { "root ::= \"a\" root", -EINVAL, "no end" },
    { "root ::= \"a\" b\nb ::= \"c\" b", -EINVAL, "no end" },
    { "root ::= \"a\"{999999999}", -E2BIG, "repetitions" },
    { "root ::= a a a a a a a a a a a\na ::= \"x\"{100000}", 0, "" },
    { "root ::= X X X X X X X X X X X", -E2BIG, "states" },
};

START_TEST(broken_grammars_are_refused_by_name)
{
    struct grammar *g = NULL;
    struct err e = { 0 };
    char text[4096] = "";
    for (const char *p = broken[_i].grammar; *p; p++) /* X: more than can be written in the table */
        strncat(text, *p == 'X' ? "\"x\"{100000}" : p, *p == 'X' ? 20 : 1);
    if (strstr(text, "c? a"))
        strcat(text, "\nc ::= \"c\"");
    int rc = grammar_from_gbnf(vocab, text, strlen(text), &g, &e);
    ck_assert_msg(rc == broken[_i].rc && e.code == rc && strstr(e.msg, broken[_i].says), "%s: %d %s", text, rc, e.msg);
    ck_assert(rc == 0 || g == NULL);
    grammar_unref(g);
}
END_TEST

START_TEST(nesting_is_bounded)
{
    char text[4096] = "root ::= ";
    struct grammar *g = NULL;
    struct err e = { 0 };
    for (int i = 0; i < 1000; i++)
        strcat(text, "(");
    ck_assert_int_eq(grammar_from_gbnf(vocab, text, strlen(text), &g, &e), -E2BIG);
    strcpy(text, "root ::= \"a\"");
    for (int i = 0; i < 1000; i++)
        strcat(text, "*");
    ck_assert_int_eq(grammar_from_gbnf(vocab, text, strlen(text), &g, &e), -E2BIG);
}
END_TEST

/* Deep in a stack the calls that could no longer be closed are refused, so that every text can still end. */
START_TEST(a_deep_stack_can_still_end)
{
    struct grammar *g = make("root ::= \"(\" root \")\" | \"[\" (root \",\")? \"]\"");
    struct grammar_state *st = made_state(g);
    uint32_t n = 0, closed = 0;
    while (made_bit(grammar_state_mask(st), '(')) {
        ck_assert_int_eq(grammar_state_accept(st, '('), 0);
        ck_assert_uint_lt(++n, 5000);
    }
    ck_assert_uint_gt(n, 900);
    ck_assert_int_eq(grammar_state_accept(st, '('), -EINVAL);
    ck_assert_int_eq(grammar_state_accept(st, '['), 0);
    ck_assert_int_eq(grammar_state_accept(st, ']'), 0);
    for (; !grammar_state_can_end(st); closed++)
        ck_assert_int_eq(grammar_state_accept(st, ')'), 0);
    ck_assert_uint_eq(closed, n);
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

/* ---- special tokens ------------------------------------------------------------------------------------ */

static void expect(struct grammar_state *st, const char *token, bool allowed)
{
    int32_t id = made_id(token);
    ck_assert_msg(made_bit(grammar_state_mask(st), id) == allowed, "%s: expected %d", token, allowed);
}

static void step(struct grammar_state *st, const char *token)
{
    expect(st, token, true);
    ck_assert_msg(grammar_state_accept(st, made_id(token)) == 0, "%s", token);
}

START_TEST(control_tokens_match_literals_alone)
{
    struct grammar *g = make("root ::= \"<|call|>\" [a-z<|>]* \"!\" .*");
    struct grammar_state *st = made_state(g);
    step(st, "<|call|>");
    expect(st, "<|call|>", false);
    expect(st, "<|ca", false);
    expect(st, "<think>", true); /* plain text to this vocabulary */
    step(st, "!");
    expect(st, "<|call|>", false);
    step(st, "<|end|>");
    grammar_state_reset(st);
    step(st, "<|ca"); /* a control token that is half of the literal, then plain text */
    expect(st, "<|call|>", false);
    expect(st, "l", true);
    grammar_state_reset(st);
    step(st, "<|"); /* or plain text all through */
    step(st, "call");
    step(st, "|>");
    expect(st, "ab", true);
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

START_TEST(until_ends_at_a_control_token)
{
    struct grammar *g = make("root ::= %until \"<|call|>\" \"x\"");
    struct grammar_state *st = made_state(g);
    step(st, "ab");
    expect(st, "<|end|>", false);
    expect(st, "x", true);
    step(st, "<|call|>");
    expect(st, "ab", false);
    step(st, "x");
    expect(st, "<|end|>", true);
    grammar_state_reset(st);
    step(st, "a<"); /* the beginning of the text, but the token begins it anew */
    step(st, "<|call|>");
    step(st, "x");
    grammar_state_reset(st);
    step(st, "<|");
    step(st, "call");
    expect(st, "<|call|>", true);
    step(st, "|>");
    expect(st, "<|call|>", false);
    step(st, "x");
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

START_TEST(token_terminals)
{
    char text[128];
    struct grammar *g;
    snprintf(text, sizeof text, "root ::= <think> !<[%d]>{2} <[%d]> \"x\"?", 'a', made_id("<|call|>"));
    g = make(text);
    struct grammar_state *st = made_state(g);
    expect(st, "<", false);
    step(st, "<think>");
    expect(st, "a", false);
    expect(st, "ab", true);
    expect(st, "<|call|>", true);
    expect(st, "<|end|>", false);
    expect(st, "unused", false);
    step(st, "ab");
    step(st, "<|call|>");
    expect(st, "ab", false);
    step(st, "<|call|>");
    expect(st, "<|end|>", true);
    step(st, "x");
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

START_TEST(the_end_is_the_end)
{
    struct grammar *g = make("root ::= \"a\"+");
    struct grammar_state *st = made_state(g);
    expect(st, "<|end|>", false);
    step(st, "a");
    ck_assert(grammar_state_can_end(st));
    step(st, "<|end|>");
    expect(st, "a", false);
    expect(st, "<|stop|>", true);
    ck_assert_int_eq(grammar_state_accept(st, 'a'), -EINVAL);
    ck_assert_int_eq(grammar_state_accept(st, made_id("<|stop|>")), 0);
    ck_assert_int_eq(grammar_state_accept(st, -1), -EINVAL);
    ck_assert_int_eq(grammar_state_accept(st, N_MADE_VOCAB), -EINVAL);
    ck_assert(grammar_state_can_end(st));
    grammar_state_destroy(st);
    grammar_unref(g);
    g = make("root ::= \"a\" \"<|end|>\" | \"b\" \"<|stop|>\" \"c\""); /* an end that is written out */
    st = made_state(g);
    step(st, "a");
    ck_assert(!grammar_state_can_end(st));
    expect(st, "<|stop|>", false);
    step(st, "<|end|>");
    grammar_state_reset(st);
    step(st, "b");
    expect(st, "<|stop|>", false); /* something has to follow, and nothing could */
    expect(st, "<", true);
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

/* What may come one after the other: before the first token, behind one that was only noted, and behind the end. */
START_TEST(a_guess_is_allowed_as_far_as_it_fits)
{
    struct grammar *g = make("root ::= (\"ab\" \"12\")+ \"!\"");
    struct grammar_state *st = made_state(g);
    const int32_t good[] = { made_id("ab"), '1', '2', 'a', 'b', made_id("12"), '!', made_id("<|end|>"), 'a' }, wrong[] = { 'a', 'b', 'a' },
                  none[] = { 'a', -1, 'b' }, beyond[] = { 'a', 'b', N_MADE_VOCAB };
    struct grammar_limit l = { .steps = GRAMMAR_GUESS_STEPS };
    ck_assert_uint_eq(grammar_state_allows(st, good, 9, &l), 7); /* the end is nothing to guess */
    ck_assert_uint_eq(grammar_state_allows(st, good, 3, &l), 3);
    ck_assert_uint_eq(grammar_state_allows(st, wrong, 3, &l), 2);
    ck_assert_uint_eq(grammar_state_allows(st, none, 3, &l), 1);
    ck_assert_uint_eq(grammar_state_allows(st, beyond, 3, &l), 2);
    ck_assert_uint_gt(l.used, 0);
    step(st, "a"); /* where it stood is where it stands */
    ck_assert_uint_eq(grammar_state_allows(st, good, 9, &l), 0);
    ck_assert_uint_eq(grammar_state_allows(st, wrong + 1, 2, &l), 1);
    expect(st, "b", true);
    grammar_state_choose(st, 'b');
    ck_assert_uint_eq(grammar_state_allows(st, good + 1, 8, &l), 6);
    struct grammar_limit no_time = { .steps = 0 };
    ck_assert_uint_le(grammar_state_allows(st, good + 1, 8, &no_time), 6);
    ck_assert_ptr_nonnull(grammar_state_mask(st));
    step(st, "12");
    step(st, "!");
    step(st, "<|end|>");
    ck_assert_uint_eq(grammar_state_allows(st, good, 9, &l), 0);
    grammar_state_reset(st);
    grammar_state_mask(st);
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

/* ---- the cache ----------------------------------------------------------------------------------------- */

/* More stacks than the cache holds: old ones are forgotten, states go on. */
START_TEST(the_cache_is_bounded)
{
    struct grammar *g = make("root ::= (\"(\" root \")\" | \"[\" root \"]\" | \"{\" root \"}\" | [a-z])+");
    struct grammar_state *st = made_state(g), *early = made_state(g);
    char open[600];
    uint64_t most = 0, least = UINT64_MAX;
    step(early, "(");
    step(early, "[");
    for (int round = 0; round < 900; round++) {
        uint32_t n = 0;
        grammar_state_reset(st);
        while (n < sizeof open) {
            open[n] = "([{"[rnd(3)];
            ck_assert(made_bit(grammar_state_mask(st), open[n]));
            ck_assert_int_eq(grammar_state_accept(st, open[n++]), 0);
        }
        ck_assert_int_eq(grammar_state_accept(st, 'x'), 0);
        while (n--) {
            int32_t close = open[n] == '(' ? ')' : open[n] == '[' ? ']' : '}';
            ck_assert_int_eq(grammar_state_accept(st, close == ')' ? ']' : ')'), -EINVAL);
            ck_assert_int_eq(grammar_state_accept(st, close), 0);
        }
        ck_assert(grammar_state_can_end(st));
        struct grammar_stats s = grammar_stats(g);
        most = MAX(most, s.bytes);
        least = round > 100 ? MIN(least, s.bytes) : UINT64_MAX;
    }
    ck_assert_uint_le(most, 26u << 20);
    ck_assert_uint_gt(most, 8u << 20); /* or the test does not get there */
    ck_assert_uint_lt(least, most / 2);
    ck_assert_uint_ge(grammar_bytes(g), grammar_stats(g).bytes);
    ck_assert_uint_le(grammar_bytes(g), 27u << 20);
    step(early, "a");
    step(early, "]");
    step(early, ")");
    ck_assert(grammar_state_can_end(early));
    grammar_state_destroy(st);
    grammar_state_destroy(early);
    grammar_unref(g);
}
END_TEST

START_TEST(a_second_walk_finds_its_masks)
{
    struct grammar *g = make("root ::= \"[\" (root (\",\" root)*)? \"]\" | [0-9]+");
    const char *text = "[1,[22,[3]],[],[[[[4]]]]]";
    ck_assert(made_matches(g, text, strlen(text)));
    struct grammar_stats a = grammar_stats(g), b;
    ck_assert(made_matches(g, text, strlen(text)));
    b = grammar_stats(g);
    ck_assert_uint_eq(b.masks - a.masks, b.cached - a.cached);
    ck_assert_uint_gt(b.masks, a.masks);
    ck_assert_uint_gt(a.cold_ns, 0);
    grammar_ref(g);
    grammar_unref(g);
    grammar_unref(g);
}
END_TEST

/* ---- regular grammars, against the C library ----------------------------------------------------------- */

/* A random regular expression as GBNF and as POSIX, over a, b and c. */
static void random_regex(char *gbnf, char *posix, int depth)
{
    int kind = depth ? (int)rnd(6) : 0;
    char g[2][1024], p[2][1024];
    if (kind == 0) {
        const char *const atom[][2] = { { "\"a\"", "a" },   { "\"b\"", "b" },     { "[a-b]", "[a-b]" },
                                        { "[^a]", "[^a]" }, { "\"ab\"", "(ab)" }, { ".", "." } };
        uint32_t k = rnd(ARRAY_LEN(atom));
        strcpy(gbnf, atom[k][0]);
        strcpy(posix, atom[k][1]);
        return;
    }
    random_regex(g[0], p[0], depth - 1);
    random_regex(g[1], p[1], depth - 1);
    if (kind == 1)
        snprintf(gbnf, 4096, "(%.1000s | %.1000s)", g[0], g[1]), snprintf(posix, 4096, "(%.1000s|%.1000s)", p[0], p[1]);
    else if (kind <= 3)
        snprintf(gbnf, 4096, "%s %s", g[0], g[1]), snprintf(posix, 4096, "%s%s", p[0], p[1]);
    else {
        const char *const op[] = { "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}" };
        uint32_t k = rnd(ARRAY_LEN(op));
        snprintf(gbnf, 4096, "(%s)%s", g[0], op[k]), snprintf(posix, 4096, "(%s)%s", p[0], op[k]);
    }
}

START_TEST(regular_grammars_match_what_regexec_does)
{
    uint32_t n_yes = 0;
    for (int i = 0; i < 150; i++) {
        char g[4096], p[4096], gbnf[8192], posix[8192];
        regex_t re;
        random_regex(g, p, 4);
        snprintf(gbnf, sizeof gbnf, "root ::= %s", g);
        snprintf(posix, sizeof posix, "^(%s)$", p);
        ck_assert_int_eq(regcomp(&re, posix, REG_EXTENDED | REG_NOSUB), 0);
        struct grammar *gr = make(gbnf);
        for (int k = 0; k < 60; k++) {
            char s[16];
            uint32_t n = rnd(9);
            for (uint32_t j = 0; j < n; j++)
                s[j] = "abc"[rnd(3)];
            s[n] = 0;
            bool want = regexec(&re, s, 0, NULL, 0) == 0, got = made_matches(gr, s, n);
            ck_assert_msg(want == got, "%s: '%s': regexec %d, grammar %d", gbnf, s, want, got);
            n_yes += want;
        }
        regfree(&re);
        grammar_unref(gr);
    }
    ck_assert_uint_gt(n_yes, 500);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grammar");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, texts_are_in_the_language_or_not, 0, (int)ARRAY_LEN(language));
    tcase_add_loop_test(tc, masks_are_what_accept_says, 0, (int)ARRAY_LEN(language));
    tcase_add_loop_test(tc, broken_grammars_are_refused_by_name, 0, (int)ARRAY_LEN(broken));
    tcase_add_test(tc, nesting_is_bounded);
    tcase_add_test(tc, a_deep_stack_can_still_end);
    tcase_add_test(tc, control_tokens_match_literals_alone);
    tcase_add_test(tc, until_ends_at_a_control_token);
    tcase_add_test(tc, token_terminals);
    tcase_add_test(tc, the_end_is_the_end);
    tcase_add_test(tc, a_guess_is_allowed_as_far_as_it_fits);
    tcase_add_test(tc, the_cache_is_bounded);
    tcase_add_test(tc, a_second_walk_finds_its_masks);
    tcase_add_test(tc, regular_grammars_match_what_regexec_does);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
