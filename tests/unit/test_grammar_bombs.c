/* Grammars and schemas that were written, or could have been, to take a server's time and memory: each is refused by a
 * line, or compiled within limits and walked within limits. What is bounded are steps and bytes, not time; the table
 * that is printed has the time as well. */
#include <time.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_impl.h"
#include "tests/unit/grammar_make.h"

enum { N_WALK = 64, MAX_AUTOMATON_BYTES = 20 << 20, MAX_BYTES = MAX_AUTOMATON_BYTES + GRAMMAR_HARD_BYTES + (8 << 20) };

/* What becomes of it: refused when compiled (-E2BIG unless said otherwise), given up while walking, or neither; ANY: how
 * the schema is written as rules decides. */
enum fate { REFUSED, UNSUPPORTED, GIVEN_UP, WALKED, ANY };

/* @N<<text>> stands for the text N times, with $i for 0, 1, ... and $j for 1, 2, ... */
static const struct bomb {
    const char *name, *text;
    enum fate fate;
} bombs[] = {
#include "tests/unit/data/grammar_bombs.inc"
};

static struct vocab_index *vocab;

static void set_up(void)
{
    vocab = made_vocab();
}

static void tear_down(void)
{
    vocab_index_destroy(vocab);
}

static void expand(struct tok_buf *b, const char *s, const char *end, long i)
{
    while (s < end) {
        char num[16];
        if (s[0] == '@' && s[1] >= '0' && s[1] <= '9') {
            char *in;
            long n = strtol(s + 1, &in, 10), depth = 1;
            ck_assert(in[0] == '<' && in[1] == '<');
            const char *from = in + 2, *to = from;
            for (; depth; to++) {
                if (to[0] == '@' && to[1] >= '0' && to[1] <= '9')
                    depth++;
                if (to[0] == '>' && to[1] == '>' && --depth == 0)
                    break;
                ck_assert(*to);
            }
            for (long k = 0; k < n; k++)
                expand(b, from, to, k);
            s = to + 2;
        } else if (s[0] == '$' && (s[1] == 'i' || s[1] == 'j') && i >= 0) {
            tok_buf_add(b, num, (size_t)snprintf(num, sizeof num, "%ld", i + (s[1] == 'j')));
            s += 2;
        } else
            tok_buf_add(b, s++, 1);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* An allowed token, one that ends the generation only if there is no other; some paths go deep, some stay. */
static int32_t pick(const uint64_t *mask, unsigned *seed)
{
    int32_t best = -1, seen = 0;
    for (int32_t id = 0; id < N_MADE_VOCAB; id++) {
        const char *s;
        size_t n;
        if (!made_bit(mask, id) || (best >= 0 && made_token(NULL, id, &s, &n) == VOCAB_END))
            continue;
        if (rand_r(seed) % ++seen == 0)
            best = id;
    }
    return best;
}

struct walk {
    uint64_t steps, most, bytes;
    uint32_t n;
    int rc;
    double ms, most_ms;
    struct err e;
};

static void walk(struct grammar *g, struct walk *w, unsigned seed)
{
    struct grammar_state *st = made_state(g);
    for (w->n = 0; w->n < N_WALK; w->n++) {
        struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS, .slice = 100000 };
        double from = now_ms();
        w->rc = grammar_state_prepare(st, &l, true, &w->e);
        w->most_ms = MAX(w->most_ms, now_ms() - from);
        w->ms += now_ms() - from;
        w->steps += l.used;
        w->most = MAX(w->most, l.used);
        w->bytes = MAX(w->bytes, grammar_bytes(g));
        if (w->rc)
            break;
        int32_t id = pick(grammar_state_ready(st), &seed);
        ck_assert_msg(id >= 0, "nothing may come after %u tokens", w->n);
        if (vocab->kind[id] == VOCAB_END)
            break;
        grammar_state_choose(st, id);
    }
    grammar_state_destroy(st);
}

static int compile(const char *text, size_t n, struct grammar **g, struct err *e)
{
    return *text == '{' ? grammar_from_schema(vocab, text, n, g, e) : grammar_from_gbnf(vocab, text, n, g, e);
}

START_TEST(a_bomb_is_refused_or_stays_within_limits)
{
    const struct bomb *b = &bombs[_i];
    struct tok_buf text = { 0 };
    struct grammar *g = NULL;
    struct err e = { 0 };
    struct walk w = { 0 };
    expand(&text, b->text, b->text + strlen(b->text), -1);
    tok_buf_add(&text, "", 1);
    double from = now_ms();
    int rc = compile(text.s, text.n - 1, &g, &e);
    double took = now_ms() - from;
    uint64_t bytes = g ? grammar_bytes(g) : 0;
    for (unsigned k = 0; k < 3 && !rc && !w.rc; k++)
        walk(g, &w, k + 1);
    printf("%-28s %7zu bytes: %6.1f ms, %5.1f MiB; %2u masks, %8llu steps at most, %6.1f ms at most, %5.1f MiB%s%s\n", b->name,
           text.n, took, (double)bytes / 1048576, w.n, (unsigned long long)w.most, w.most_ms, (double)w.bytes / 1048576,
           rc || w.rc ? ": " : "", rc ? e.msg : w.e.msg);
    fflush(stdout);
    enum fate fate = rc == -ENOTSUP ? UNSUPPORTED : rc ? REFUSED : w.rc ? GIVEN_UP : WALKED;
    ck_assert_msg(fate == b->fate || b->fate == ANY, "%s: fate %d, expected %d: %s", b->name, fate, b->fate, rc ? e.msg : w.e.msg);
    ck_assert_msg(!rc || rc == -E2BIG || rc == -ENOTSUP, "%s: %d %s", b->name, rc, e.msg);
    ck_assert_msg(bytes <= MAX_AUTOMATON_BYTES, "%s: compiled to %llu bytes", b->name, (unsigned long long)bytes);
    ck_assert_msg(w.bytes <= MAX_BYTES, "%s: holds %llu bytes", b->name, (unsigned long long)w.bytes);
    ck_assert_msg(w.most <= GRAMMAR_TOKEN_STEPS + GRAMMAR_TOKEN_STEPS / 8, "%s: %llu steps", b->name,
                  (unsigned long long)w.most);
    if (w.rc) { /* others who share the grammar are where they were */
        ck_assert_int_eq(w.rc, -E2BIG);
        ck_assert_ptr_nonnull(strstr(w.e.msg, "for one token: texts can be read in too many ways"));
    }
    grammar_unref(g);
    tok_buf_finish(&text);
}
END_TEST

/* What clients do send: 512 tools of 30 parameters each, nested and of all kinds. */
START_TEST(what_is_large_but_meant_well_fits)
{
    static const char tool[] =
        "{\"type\":\"object\",\"properties\":{@10<<\"text$i\":{\"type\":\"string\"},\"number$i\":{\"type\":\"integer\","
        "\"minimum\":1,\"maximum\":500},>>@5<<\"unit$i\":{\"enum\":[\"celsius\",\"fahrenheit\",\"kelvin\"]},>>@4<<"
        "\"list$i\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},>>\"place\":{\"type\":\"object\",\"properties\":{"
        "\"x\":{\"type\":\"number\"},\"y\":{\"type\":\"number\"}},\"required\":[\"x\",\"y\"]}},\"required\":[@10<<"
        "\"text$i\",>>\"place\"]}";
    struct tok_buf schema = { 0 }, text = { 0 };
    struct grammar *g = NULL;
    struct walk w = { 0 };
    struct err e = { 0 };
    expand(&schema, tool, tool + strlen(tool), -1);
    for (int i = 0; i < 512; i++) {
        char s[64];
        tok_buf_add(&text, s, (size_t)snprintf(s, sizeof s, "root%d ::= \"call_%d(\" t%d \")\"\n", i, i, i));
        ck_assert_int_eq(grammar_schema_to_gbnf(schema.s, schema.n, (snprintf(s, sizeof s, "t%d", i), s), &text, &e), 0);
        tok_buf_add(&text, "\n", 1);
    }
    const char *root = "root ::= @511<<root$i | >> root511";
    expand(&text, root, root + strlen(root), -1);
    double from = now_ms();
    ck_assert_msg(grammar_from_gbnf(vocab, text.s, text.n, &g, &e) == 0, "%s", e.msg);
    printf("512 tools of 30 parameters: %zu bytes of rules, %.1f ms, %.1f MiB: %u states, %u edges\n", text.n,
           now_ms() - from, (double)grammar_bytes(g) / 1048576, g->a.n_states, g->a.n_edges);
    walk(g, &w, 1);
    ck_assert_msg(w.rc == 0, "%s", w.e.msg);
    ck_assert_uint_le(w.bytes, MAX_BYTES);
    grammar_unref(g);
    tok_buf_finish(&schema);
    tok_buf_finish(&text);
}
END_TEST

/* One state is given up; another, which shares the grammar and was made before, goes on to the end. */
START_TEST(others_who_share_the_grammar_go_on)
{
    static const char text[] = "root ::= \"ab\" [0-9] \"c\" | \"x\" ([a-z]? [0-9]? [A-Z]?){6000}";
    struct grammar *g = NULL;
    struct err e = { 0 };
    ck_assert_msg(grammar_from_gbnf(vocab, text, strlen(text), &g, &e) == 0, "%s", e.msg);
    struct grammar_state *bad = made_state(g), *good = made_state(g);
    ck_assert_int_eq(grammar_state_accept(good, 'a'), 0);
    ck_assert_int_eq(grammar_state_accept(bad, 'x'), 0);
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++) {
        struct grammar_limit l = { .steps = 100000 };
        rc = grammar_state_prepare(bad, &l, true, &e);
        ck_assert_uint_le(l.used, 200000);
    }
    ck_assert_int_eq(rc, -E2BIG);
    ck_assert(made_bit(grammar_state_mask(good), 'b'));
    ck_assert(!made_bit(grammar_state_mask(good), 'c'));
    ck_assert_int_eq(grammar_state_accept(good, 'b') | grammar_state_accept(good, '7') | grammar_state_accept(good, 'c'), 0);
    ck_assert(grammar_state_can_end(good));
    grammar_state_destroy(good);
    grammar_state_destroy(bad);
    grammar_unref(g);
}
END_TEST

static int stop_at_once(void *user)
{
    ++*(int *)user;
    return -ECANCELED;
}

/* The work looks up between slices, and can be taken up again. */
START_TEST(work_can_be_stopped)
{
    static const char text[] = "root ::= (.?){8000}";
    struct grammar *g = NULL;
    struct err e = { 0 };
    int n = 0;
    ck_assert_int_eq(grammar_from_gbnf(vocab, text, strlen(text), &g, &e), 0);
    struct grammar_state *st = made_state(g);
    struct grammar_limit l = { .steps = GRAMMAR_TOKEN_STEPS, .slice = 1000, .pause = stop_at_once, .user = &n };
    ck_assert_int_eq(grammar_state_prepare(st, &l, true, &e), -ECANCELED);
    ck_assert_int_eq(n, 1);
    ck_assert_uint_le(l.used, 1000 + 2 * GRAMMAR_MAX_SEEN);
    ck_assert_ptr_null(grammar_state_ready(st));
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grammar_bombs");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_bomb_is_refused_or_stays_within_limits, 0, (int)ARRAY_LEN(bombs));
    tcase_add_test(tc, what_is_large_but_meant_well_fits);
    tcase_add_test(tc, others_who_share_the_grammar_go_on);
    tcase_add_test(tc, work_can_be_stopped);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
