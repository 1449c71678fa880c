/* Threads for masks: clients take turns by slices, tasks of one grammar follow each other, what is dropped ends soon and
 * takes its state along. */
#include <pthread.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/grammar/grammar_pool.h"
#include "tests/unit/grammar_make.h"

enum { SLICE = 2000 };
static const char bomb_text[] = "root ::= (.?){8000}", heavy_text[] = "root ::= ([a-z]? [0-9]?){1000}";

static struct vocab_index *vocab;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static uint32_t n_done;

static void done(void *user)
{
    pthread_mutex_lock(&lock);
    n_done++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
}

static struct grammar_pool *start(uint32_t n_threads)
{
    struct grammar_pool_opts o = { .n_threads = n_threads, .n_at_once = 1, .slice = SLICE, .done = done };
    struct grammar_pool *p;
    struct err e = { 0 };
    n_done = 0;
    vocab = made_vocab();
    ck_assert_msg(grammar_pool_create(&o, &p, &e) == 0, "%s", e.msg);
    return p;
}

static struct grammar *make(const char *text)
{
    struct grammar *g;
    struct err e = { 0 };
    ck_assert_msg(grammar_from_gbnf(vocab, text, strlen(text), &g, &e) == 0, "%s", e.msg);
    return g;
}

static struct grammar_task *submit(struct grammar_pool *p, struct grammar_state *st, uint64_t client, uint64_t steps)
{
    struct grammar_task *t;
    struct err e = { 0 };
    ck_assert_msg(grammar_pool_submit(p, st, client, steps, &t, &e) == 0, "%s", e.msg);
    return t;
}

static int collect(struct grammar_task *t, uint64_t *used)
{
    struct err e = { 0 };
    int rc;
    while (!grammar_task_done(t, &rc, used, &e)) {
        pthread_mutex_lock(&lock);
        while (n_done == 0)
            pthread_cond_wait(&cond, &lock);
        n_done--;
        pthread_mutex_unlock(&lock);
    }
    return rc;
}

/* Six bombs of one client are being worked on; another's mask, of hundreds of slices, comes before any of them is
 * through, as it gets every second slice. */
START_TEST(clients_take_turns_by_slices)
{
    enum { BOMBS = 6 };
    struct grammar_pool *p = start(BOMBS + 1);
    struct grammar_task *bomb[BOMBS];
    struct grammar *g[BOMBS], *heavy = make(heavy_text);
    struct grammar_state *st = made_state(heavy);
    uint64_t used = 0;
    int rc;
    for (int i = 0; i < BOMBS; i++) {
        g[i] = make(bomb_text);
        bomb[i] = submit(p, made_state(g[i]), 1, GRAMMAR_TOKEN_STEPS);
    }
    struct grammar_task *t = submit(p, st, 2, GRAMMAR_TOKEN_STEPS);
    ck_assert_int_eq(collect(t, &used), 0);
    ck_assert_ptr_nonnull(grammar_state_ready(st));
    ck_assert_uint_gt(used, 5 * SLICE); /* or it shows nothing */
    for (int i = 0; i < BOMBS; i++) {
        ck_assert_msg(!grammar_task_done(bomb[i], &rc, &used, NULL), "bomb %d was made first", i);
        grammar_task_drop(bomb[i]);
        grammar_unref(g[i]);
    }
    grammar_state_destroy(st);
    grammar_unref(heavy);
    grammar_pool_destroy(p);
    vocab_index_destroy(vocab);
}
END_TEST

/* More tasks than threads, some with a grammar in common: all come to their end, with the steps that they may take. */
START_TEST(all_come_to_their_end)
{
    enum { N = 24 };
    struct grammar_pool *p = start(3);
    struct grammar *g[2] = { make(heavy_text), make(bomb_text) };
    struct grammar_task *t[N];
    struct grammar_state *st[N];
    for (uint32_t i = 0; i < N; i++)
        t[i] = submit(p, st[i] = made_state(g[i % 2]), i % 5, 400000);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t used = 0;
        int rc = collect(t[i], &used);
        ck_assert_int_eq(rc, i % 2 ? -E2BIG : 0);
        ck_assert_uint_le(used, 500000);
        ck_assert((grammar_state_ready(st[i]) == NULL) == (i % 2 == 1));
        grammar_state_destroy(st[i]);
    }
    grammar_unref(g[0]);
    grammar_unref(g[1]);
    grammar_pool_destroy(p);
    vocab_index_destroy(vocab);
}
END_TEST

START_TEST(what_is_dropped_takes_its_state_along)
{
    enum { N = 200 };
    struct grammar_pool *p = start(4);
    struct grammar *g = make(bomb_text), *h = make(heavy_text);
    unsigned seed = 1;
    for (int i = 0; i < N; i++) {
        struct grammar_task *t = submit(p, made_state(i % 3 ? g : h), (uint64_t)i % 5, GRAMMAR_TOKEN_STEPS);
        usleep((unsigned)rand_r(&seed) % 100);
        grammar_task_drop(t);
    }
    grammar_task_drop(NULL);
    grammar_unref(g); /* threads may have it still */
    grammar_unref(h);
    grammar_pool_destroy(p);
    vocab_index_destroy(vocab);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grammar_pool");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, clients_take_turns_by_slices);
    tcase_add_test(tc, all_come_to_their_end);
    tcase_add_test(tc, what_is_dropped_takes_its_state_along);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
